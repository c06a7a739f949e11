"""The range of a quantity, and values within it."""

from decimal import Decimal

import numpy as np
import pytest

from ostrakon.data.quantity import Quantity
from ostrakon.data.sources import open_table
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS


@pytest.mark.parametrize("given", ["0,50", (0, 50), [0.0, 50.0], np.array([0, 50]), " 0 , 5e1"])
def test_a_range_is_two_numbers(given):
    assert Quantity.of(given) == Quantity(low=0.0, high=50.0)


@pytest.mark.parametrize(
    "given",
    [
        "50,0",
        "0,0",
        "0",
        "0,50,100",
        "a,b",
        "0,\uff15",
        "0;50",
        "nan,1",
        (0, np.inf),
        (True, 2),
        5,
        None,
        {"a": 1},
        "-1e308,1.7e308",
    ],
)
def test_anything_else_is_refused(given):
    with pytest.raises(InvalidInput, match="range must be"):
        Quantity.of(given)


def test_steps_are_clipped_and_values_come_back():
    quantity = Quantity.of("-10,30")
    values = np.array([-1e308, -10, 0, 29.99, 30, 1e308])
    assert quantity.steps(values).tolist() == [0, 0, 256, 1024, 1024, 1024]
    inside = np.linspace(-10, 30, 77)
    np.testing.assert_allclose(quantity.values(quantity.steps(inside) / STEPS), inside, atol=40 / STEPS / 2)
    assert quantity.steps([str(value) for value in inside]).tolist() == quantity.steps(inside).tolist()


@pytest.mark.parametrize("cell", [None, float("nan"), "nan", "inf", "0,5", "1_0", "abc", True, ""])
def test_a_value_that_is_no_number_is_refused(cell):
    with pytest.raises(InvalidInput, match="The target"):
        Quantity.of("0,1").steps([0.5, cell])


def test_a_target_with_a_unit_is_refused_with_what_to_do(tmp_path):
    (tmp_path / "p.csv").write_text("weight\n" + "".join(f"{place}.9 kg\n" for place in range(12)))
    with pytest.raises(InvalidInput, match=r"in 12 of 12\. Write the number alone and the unit, 'kg', in the header\."):
        open_table(tmp_path / "p.csv").require_numbers("weight")


def test_decimals_are_numbers() -> None:
    quantity = Quantity.of((0, 50))
    assert quantity.numbers([Decimal("4.5"), 7]).tolist() == [4.5, 7.0]
    with pytest.raises(InvalidInput, match="finite"):
        quantity.numbers([Decimal("Infinity"), 7])
