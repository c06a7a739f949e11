"""The range of a quantity, and values within it."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from ostrakon.data.quantity import Quantity
from ostrakon.data.sources import open_table
from ostrakon.data.task import open_task
from ostrakon.forecast.public_rows import read_public
from ostrakon.validation import InvalidInput
from ostrakon.votes import FINE_STEPS


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
        "0,1e-310",
    ],
)
def test_anything_else_is_refused(given):
    with pytest.raises(InvalidInput, match=r"range must (be|hold)"):
        Quantity.of(given)


def test_steps_are_clipped_and_values_come_back():
    quantity = Quantity.of("-10,30")
    values = np.array([-1e308, -10, 0, 29.99, 30, 1e308])
    assert quantity.steps(values).tolist() == [0, 0, FINE_STEPS // 4, FINE_STEPS - 268435, FINE_STEPS, FINE_STEPS]
    inside = np.linspace(-10, 30, 77)
    np.testing.assert_allclose(quantity.values(quantity.steps(inside) / FINE_STEPS), inside, atol=21 / FINE_STEPS)
    assert quantity.steps([str(value) for value in inside]).tolist() == quantity.steps(inside).tolist()


@pytest.mark.parametrize("cell", [None, float("nan"), "nan", "inf", "0,5", "1_0", "abc", True, ""])
def test_a_value_that_is_no_number_is_refused(cell):
    with pytest.raises(InvalidInput, match="The target"):
        Quantity.of("0,1").steps([0.5, cell])


def test_a_target_with_a_unit_is_refused_with_what_to_do(tmp_path):
    (tmp_path / "p.csv").write_text("weight\n" + "".join(f"{place}.9 kg\n" for place in range(12)))
    with pytest.raises(InvalidInput, match=r"in 12 of 12\. Write the number alone and the unit, 'kg', in the header\."):
        open_table(tmp_path / "p.csv").require_numbers("weight")


def test_a_target_has_decimal_commas_where_public_numbers_have(tmp_path) -> None:
    numbers = np.arange(40) / 8
    rows = pd.DataFrame({"size": numbers[::-1], "price": 1000 * numbers + 0.5, "kind": ["a", "b"] * 20})
    for sep, decimal in ((";", ","), (",", ".")):
        folder = tmp_path / f"with{decimal}"
        folder.mkdir()
        for name, of in (
            ("private", rows),
            ("test", rows[5:]),
            ("public", rows.drop(columns="price").assign(size=numbers + 0.25)),
        ):
            of.to_csv(folder / f"{name}.csv", sep=sep, decimal=decimal, index=False)
    quantity = Quantity(low=0, high=1000)

    def opened(decimal: str):
        folder = tmp_path / f"with{decimal}"
        names = {"private": folder / "private.csv", "public": folder / "public.csv", "test": folder / "test.csv"}
        return open_task(**names, target="price", coding=quantity)

    comma, point = opened(","), opened(".")
    for one in (comma, point):
        assert [float(cell) for cell in one.private.labels("price")] == rows["price"].tolist()
        assert one.test_rows()[1].tolist() == rows["price"][5:].tolist()
        assert one.private.share_outside("price", 0, 1000) == pytest.approx(32 / 40)
    assert comma.columns.kinds["size"] == "decimal comma"
    known = read_public(tmp_path / "with,/private.csv", target="price", coding=quantity)
    assert known.y.tolist() == rows["price"].tolist()
    # With thousands set apart and a currency, or with a point, which may be between thousands.
    table = (tmp_path / "with,/private.csv").read_text().replace("2250,5", "2.250,5 €")
    for cell, refused in (("1.250,5", None), ("1250.5", "not in 1 of 40"), ("", "missing in 1 of 40")):
        (tmp_path / "with,/private.csv").write_text(table.replace("1250,5", cell))
        if refused is None:
            assert [float(one) for one in opened(",").private.labels("price")] == rows["price"].tolist()
        else:
            with pytest.raises(InvalidInput, match=f"12,5 only if numbers of the public table .*, and it is {refused}"):
                opened(",")


def test_a_target_keeps_its_points_where_public_numbers_do_not_tell(tmp_path) -> None:
    rows = pd.DataFrame({"kind": ["a", "b"] * 20, "n": np.arange(40) % 7, "price": np.arange(40) / 8})
    rows.to_csv(tmp_path / "private.csv", sep=";", decimal=",", index=False)
    rows.drop(columns="price").assign(kind=["b", "b", "a", "a"] * 10).to_csv(
        tmp_path / "public.csv", sep=";", index=False
    )
    with pytest.raises(InvalidInput, match="12,5 only if numbers of the public table have decimal commas"):
        open_task(
            tmp_path / "private.csv", tmp_path / "public.csv", target="price", coding=Quantity(low=0, high=9),
            allow_shared_rows=True,
        )  # fmt: skip


def test_decimals_are_numbers() -> None:
    quantity = Quantity.of((0, 50))
    assert quantity.numbers([Decimal("4.5"), 7]).tolist() == [4.5, 7.0]
    with pytest.raises(InvalidInput, match="finite"):
        quantity.numbers([Decimal("Infinity"), 7])


@pytest.mark.filterwarnings("error")
def test_cells_of_every_type_of_number_are_read_without_a_warning() -> None:
    quantity = Quantity(low=0, high=50)
    cells = [np.float16(1.5), np.float32(2.5), np.int8(-128), np.int64(-(2**63)), np.uint8(200)]
    assert quantity.numbers(cells).tolist() == [1.5, 2.5, -128, -(2.0**63), 200]
    for odd in (10**400, -(10**400), Decimal("1e400"), np.float32(np.inf)):
        with pytest.raises(InvalidInput, match="must be a finite number in every row"):
            quantity.numbers([1, odd])
