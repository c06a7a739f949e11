"""Mechanisms, encoders and estimators of another package, found by their entry points alone."""

import dataclasses

import numpy as np
import pytest

from ostrakon.estimators import make_estimator
from ostrakon.features import learn_representation
from ostrakon.mechanisms import GNMax, registry
from ostrakon.validation import InvalidInput

CODE = """
import dataclasses
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from ostrakon.mechanisms import GNMax


@dataclasses.dataclass(frozen=True, kw_only=True)
class OutsideMax(GNMax):
    name = "outside-max"


class OutsideEncoder(StandardScaler):
    pass


class OutsideClassifier(LogisticRegression):
    pass
"""
ENTRY_POINTS = """[ostrakon.mechanisms]
outside-max = outside_package:OutsideMax
[ostrakon.encoders]
outside-scaler = outside_package:OutsideEncoder
[ostrakon.estimators]
outside-logistic = outside_package:OutsideClassifier
broken = outside_package:Missing
sums = outside_package:OutsideClassifier
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    def install(name="outside_package"):
        (tmp_path / "outside_package.py").write_text(CODE)
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(ENTRY_POINTS)

    install()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    return install


def test_a_mechanism_of_another_package_is_found_by_its_name(installed):
    law = registry.build("outside-max", {"sigma2": 40})
    assert isinstance(law, GNMax)
    assert type(law).__name__ == "OutsideMax"
    assert dataclasses.asdict(law) == {"sigma2": 40.0}


def test_an_encoder_and_an_estimator_are_found_by_their_names(installed):
    X = np.random.default_rng(0).normal(3, 2, (50, 4))
    learned = learn_representation("outside-scaler", X)
    np.testing.assert_allclose(np.asarray(learned.transform(X)).mean(axis=0), 0, atol=1e-6)
    assert type(make_estimator("outside-logistic", C=0.5)).__name__ == "OutsideClassifier"


def test_no_package_can_offer_a_name_that_is_ours(installed):
    with pytest.raises(InvalidInput, match="There is no estimator 'sums'"):
        make_estimator("sums", C=0.5)


def test_what_cannot_be_loaded_or_is_offered_twice_is_refused(installed):
    with pytest.raises(InvalidInput, match="'broken' of outside_package:Missing cannot be imported"):
        make_estimator("broken")
    installed("second_package")
    with pytest.raises(InvalidInput, match="must be offered by one package, got outside_package, second_package"):
        make_estimator("outside-logistic")


def test_names_that_nobody_offers_are_refused_as_before():
    with pytest.raises(InvalidInput, match="must be one of"):
        registry.find("outside-max")
    with pytest.raises(InvalidInput, match="no estimator 'outside-logistic'"):
        make_estimator("outside-logistic")
    with pytest.raises(InvalidInput, match="representation must be"):
        learn_representation("outside-scaler", np.zeros((3, 2)))
