"""Every option of a run stands in one place: what is added there is on the command line, in TOML and in Python."""

import dataclasses
import inspect
import json
import subprocess
import sys
import tomllib

import numpy as np
import pytest
import tomli_w

from ostrakon.estimator import PATEClassifier
from ostrakon.options.call import parse_call
from ostrakon.options.files import Files
from ostrakon.options.options import Options
from ostrakon.options.report_details import ReportDetails
from ostrakon.validation import InvalidInput

# scikit-learn's own defaults: no seed, and one process.
OF_SCIKIT_LEARN = {"seed": None, "jobs": None}
OF_THE_ESTIMATOR = {"partition", "protect", "classes", "allow_shared_rows", "noise", "consent"}


def test_the_estimator_takes_every_option_with_its_default():
    arguments = inspect.signature(PATEClassifier).parameters
    for field in dataclasses.fields(Options):
        if field.name not in Options.options():
            continue
        argument = arguments[Options.options()[field.name].python or field.name]
        assert argument.default == OF_SCIKIT_LEARN.get(field.name, field.default), field.name


def test_the_estimator_takes_nothing_else():
    known = {one.python or name for name, one in Options.options().items()}
    assert set(inspect.signature(PATEClassifier).parameters) == known | OF_THE_ESTIMATOR
    assert set(PATEClassifier().get_params()) == known | OF_THE_ESTIMATOR


def test_every_field_says_what_all_must_know():
    fields = {field.name for kind in (Options, Files, ReportDetails) for field in dataclasses.fields(kind)}
    declared = {**Options.options(), **Files.options(), **ReportDetails.options()}
    assert len(declared) == sum(len(kind.options()) for kind in (Options, Files, ReportDetails))
    assert fields - set(declared) == {"parameters"}  # declared by the mechanisms
    for name, one in declared.items():
        assert one.help.endswith((".", "]")), name


def test_a_parameter_is_given_once():
    with pytest.raises(InvalidInput, match=r"^moments must be given once, got it 2 times in 'moment-gnmax\(moments=.5"):
        parse_call("moment-gnmax(moments=.5, sigma2=3, moments=.6)")


def test_what_is_asked_comes_back():
    asked = Options(epsilon=3, teachers=30, mechanism="gnmax", parameters={"sigma2": 4.0}, smooth=True, seed=7, jobs=2)
    told = asked.as_toml()
    assert "jobs" not in told  # how many workers there are is no part of what was asked
    assert told["sigma2"] == 4.0
    assert "delta" not in told
    assert Options.of({**Options.from_toml(told, "run.toml"), "jobs": 2}) == asked


def test_numbers_of_numpy_are_asked_as_plain_ones():
    given = Options(epsilon=np.float32(3), queries=np.int64(9), parameters={"sigma2": np.float32(4), "sigma1": 2})
    told = given.as_toml()
    assert {type(told[name]) for name in ("epsilon", "sigma2")} == {float}
    assert tomllib.loads(tomli_w.dumps(told)) == told


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"epsilon": True}, "epsilon must be a finite number above 0, got True"),
        ({"epsilon": float("inf")}, "epsilon must be a finite number above 0, got inf"),
        ({"delta": 1.0}, "delta must be a number strictly between 0 and 1, got 1.0"),
        ({"agreement": 0.0}, "agreement must be a number strictly between 0 and 1, got 0.0"),
        ({"agreement": None}, "agreement must be a number strictly between 0 and 1, got None"),
        ({"guarantee": ["gate"]}, "guarantee must be one of worst-case, gate"),
        ({"guarantee": np.array(["gate"])}, "guarantee must be one of worst-case, gate"),
        ({"teachers": 2.5}, "teachers must be an integer of at least 1, got 2.5"),
        ({"queries": 0}, "queries must be an integer of at least 1, got 0"),
        ({"max_answers": True}, "max_answers must be an integer of at least 1, got True"),
        ({"mechanism": ["gnmax"]}, "mechanism must be a name, got"),
        ({"mechanism": "best"}, "mechanism must be one of"),
        ({"smooth": "yes"}, "smooth must be True or False, got 'yes'"),
        ({"query_strategy": "clever"}, "query_strategy must be one of representatives, random, all, got 'clever'"),
        ({"query_strategy": ["all"]}, "query_strategy must be one of"),
        ({"query_strategy": "randm"}, "got 'randm'. Did you mean 'random'"),
        ({"objective": "balance"}, "got 'balance'. Did you mean 'balanced'"),
        ({"neighbours": "remove"}, "got 'remove'. Did you mean 'removed'"),
        ({"jobs": 0}, "jobs must be an integer other than 0"),
        ({"jobs": 1.5}, "jobs must be an integer"),
        ({"seed": -1}, "seed must be an integer of at least 0, got -1"),
    ],
)
def test_a_value_that_cannot_be_is_refused_at_once(given, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        Options(**given)


FROM_OUTSIDE = """
import json
import sys
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from ostrakon.options import options
from ostrakon.options.option import Option
from ostrakon.validation import whole


@dataclass(frozen=True, kw_only=True)
class Options(options.Options):
    depth: Annotated[int, Option(help="How deep.", panel="Learning", check=partial(whole, at_least=1))] = 3

    def __post_init__(self):
        super().__post_init__()
        print("depth is", self.depth)


options.Options = Options  # as if the line stood there

from ostrakon.cli import main  # noqa: E402
from ostrakon.estimator import PATEClassifier  # noqa: E402


@dataclass(eq=False, repr=False)
class Deeper(PATEClassifier):
    depth: int = 3


print(Deeper(depth=5).get_params()["depth"], Deeper(depth=6)._options().depth)
for arguments in json.loads(sys.argv[1]):
    print("#", flush=True)
    sys.argv = ["ostrakon", *arguments]
    try:
        main()
    except SystemExit:
        sys.stderr.flush()
"""


@pytest.mark.slow
def test_an_option_from_outside_is_everywhere(tmp_path):
    (tmp_path / "outside.py").write_text(FROM_OUTSIDE)
    (tmp_path / "four.toml").write_text("depth = 4\n")
    (tmp_path / "text.toml").write_text('depth = "4"\n')
    files = ["train", "--private", "a.csv", "--public", "b.csv"]
    calls = [
        ["train", "--help-all"],
        [*files, "--depth", "0"],
        [*files, "--config", "four.toml"],
        [*files, "--config", "four.toml", "--depth", "7"],
        [*files, "--config", "text.toml"],
    ]
    done = subprocess.run(
        [sys.executable, "outside.py", json.dumps(calls)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    python, shown, refused, read, overruled, text = done.stdout.split("#\n")
    assert python.splitlines()[-1] == "5 6"
    assert shown.index("Learning") < shown.index("--depth") < shown.index("Report")
    assert "--depth must be an integer of at least 1, got 0." in " ".join(refused.split())
    assert "depth is 4\n" in read
    assert "depth is 7\n" in overruled
    assert "depth in text.toml must be a number, got '4'" in " ".join(text.split())


def test_lists_stand_for_their_text_in_python_as_in_toml(tmp_path):
    known = {"private": tmp_path / "a.csv", "public": "b.csv"}
    listed = Files.of({**known, "classes": ["no", "yes, later"], "drop": ("id", "day")})
    assert listed == Files.of({**known, "classes": 'no,"yes, later"', "drop": "id,day"})
    assert Files.of({**known, "range": (0, 50)}) == Files.of({**known, "range": "0,50"})
    with pytest.raises(InvalidInput, match="private must be the path of a file or folder, got a list"):
        Files.of({**known, "private": [1, 2]})
