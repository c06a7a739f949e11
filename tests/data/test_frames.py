"""Tables of other libraries: they work as pandas frames do, or are refused in one sentence, wherever rows enter."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import ostrakon
from ostrakon.data.frames import as_frame
from ostrakon.validation import InvalidInput

rng = np.random.default_rng(0)
TABLE = pd.DataFrame({"age": rng.normal(size=260), "town": rng.choice(["Ulm", "Bonn", "Kiel"], 260)})
TABLE.loc[3, "age"] = np.nan
Y = np.where(TABLE["age"].fillna(0) > 0, "in", "out")
PRIVATE, PUBLIC = slice(0, 200), slice(200, 260)
PLANNED = {"records": 200, "epsilons": [4.0], "rehearse": "none"}


def model() -> ostrakon.PATEClassifier:
    return ostrakon.PATEClassifier(
        classes="from-private", student="logistic", epsilon=8.0, random_state=0, noise=np.random.default_rng(1)
    )


@pytest.mark.slow
def test_polars_works_as_pandas_does_wherever_rows_enter():
    polars = pytest.importorskip("polars")
    rows = polars.from_pandas(TABLE)
    users = np.arange(200) // 2
    for given in ({}, {"users": users}):
        own = {name: polars.Series(value) for name, value in given.items()}
        there = model().fit(TABLE[PRIVATE], Y[PRIVATE], X_public=TABLE[PUBLIC], **given)
        here = model().fit(rows[PRIVATE], polars.Series(Y[PRIVATE]), X_public=rows[PUBLIC], **own)
        assert here.statement_.unit == there.statement_.unit == ("user" if given else "record")
        expected = there.predict(TABLE)
        for said in (here.predict(rows), here.predict(TABLE), here.released_.predict(rows)):
            assert (said == expected).all()
        np.testing.assert_array_equal(here.predict_proba(rows), there.predict_proba(TABLE))
    planned = ostrakon.plan(rows[PUBLIC], polars.Series(Y[PUBLIC]), **PLANNED)
    assert planned.as_dict() == ostrakon.plan(TABLE[PUBLIC], Y[PUBLIC], **PLANNED).as_dict()


def test_a_lazy_frame_and_a_column_alone_are_refused_wherever_rows_enter():
    polars = pytest.importorskip("polars")
    rows = polars.from_pandas(TABLE)
    fitted = model().fit(rows[PRIVATE], Y[PRIVATE], X_public=rows[PUBLIC])
    for wrong, told in (
        (rows.lazy(), r"must hold its rows, got a lazy LazyFrame: .*\.collect\(\) reads them\."),
        (rows["age"], r"must be a table, got one column alone \(Series\): to_frame\(\) makes one\."),
        (TABLE["age"], r"must be a table, got one column alone \(Series\): to_frame\(\) makes one\."),
    ):
        require_refused(fitted, rows, wrong, told)
        with pytest.raises(InvalidInput, match=f"^X {told}"):
            fitted.released_.predict(wrong)


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.coo_array])
def test_sparse_matrices_are_refused_wherever_rows_enter(kind):
    rows = np.column_stack([TABLE["age"].fillna(0), rng.normal(size=260)])
    fitted = model().fit(rows[PRIVATE], Y[PRIVATE], X_public=rows[PUBLIC])
    told = r"must be dense, got a sparse matrix of shape \(260, 2\): "
    require_refused(fitted, rows, kind(rows), told)
    with pytest.raises(InvalidInput, match=f"^X {told}"):
        fitted.released_.predict(kind(rows))


def require_refused(fitted, rows, wrong, told):
    with pytest.raises(InvalidInput, match=f"^X {told}"):
        model().fit(wrong, Y, X_public=rows[PUBLIC])
    with pytest.raises(InvalidInput, match=f"^X_public {told}"):
        model().fit(rows[PRIVATE], Y[PRIVATE], X_public=wrong)
    for predict in (fitted.predict, fitted.predict_proba):
        with pytest.raises(InvalidInput, match=f"^X {told}"):
            predict(wrong)
    with pytest.raises(InvalidInput, match=f"^X_public {told}"):
        ostrakon.plan(wrong, Y, **PLANNED)


def test_what_is_no_table_is_refused_by_a_plan():
    with pytest.raises(InvalidInput, match=r"X_public must be a table or images, got an array of shape \(260,\)\."):
        ostrakon.plan(np.arange(260.0), Y, **PLANNED)


def test_all_else_stays_as_it_is():
    for rows in (TABLE, TABLE.to_numpy(), [[1, 2]], np.zeros((2, 8, 8))):
        assert as_frame(rows) is rows


def test_complex_numbers_are_refused():
    with pytest.raises(InvalidInput, match="X must hold real numbers, got complex ones in column 'a'"):
        as_frame(pd.DataFrame({"a": [1j, 2], "b": [1, 2]}))
    rows = np.column_stack([rng.normal(size=260), rng.normal(size=260)])
    for name, X in (("X", [[1.0, 2j], [3, 4]]), ("X_public", [[np.complex64(2j), 1], [3, 4]])):
        with pytest.raises(InvalidInput, match=f"{name} must hold real numbers or text, got complex ones"):
            model().fit(**{"X": [[1, 2], [3, 4]], "X_public": [[1, 2], [3, 5]]} | {name: X}, y=[0, 1])
    told = r"^Complex data not supported: {} must hold real numbers or text, got complex128\.$"
    for name, X, y, shown in (
        ("X", rows + 1j, Y, rows),
        ("X_public", rows, Y, rows + 1j),
        ("y", rows, rows[:, 0] + 1j, rows),
    ):
        with pytest.raises(InvalidInput, match=told.format(name)):
            model().fit(X[PRIVATE], y[PRIVATE], X_public=shown[PUBLIC])


@pytest.mark.parametrize("where", ["private", "public", "target", "array"])
def test_a_signalling_number_is_refused_before_anything_is_spent(where):
    exact = TABLE.assign(weight=[Decimal(number) for number in range(260)])
    broken = exact.copy()
    broken.loc[[3, 230], "weight"] = Decimal("sNaN")
    target = Y.astype(object)
    target[3] = Decimal("sNaN") if where == "target" else target[3]
    X, U = ((broken if where == name else exact) for name in ("private", "public"))
    if where == "array":
        X, U = broken[["weight"]].to_numpy(object), exact[["weight"]].to_numpy(object)
    one = model()
    with pytest.raises(InvalidInput, match=r"must hold numbers or missing values, got Decimal\('sNaN'\)"):
        one.fit(X[PRIVATE], target[PRIVATE], X_public=U[PUBLIC])
    assert not hasattr(one, "votes_")


def test_public_columns_may_be_in_another_order():
    here, there = (
        model().fit(TABLE[PRIVATE], Y[PRIVATE], X_public=TABLE[PUBLIC][names])
        for names in (["age", "town"], ["town", "age"])
    )
    assert (here.counts_ == there.counts_).all()
    assert (here.predict(TABLE) == there.predict(TABLE)).all()


def test_numbers_of_16_bits_are_read_as_their_values():
    halves = TABLE.assign(age=TABLE["age"].astype(np.float16))
    same = halves.assign(age=halves["age"].astype(np.float64))
    here, there = (model().fit(rows[PRIVATE], Y[PRIVATE], X_public=rows[PUBLIC]) for rows in (halves, same))
    assert (here.counts_ == there.counts_).all()
    assert as_frame(np.ones((2, 2), np.float16)).dtype == np.float32
    assert as_frame(np.ones((2, 2, 2), np.float16)).dtype == np.float16


@pytest.mark.parametrize(
    ("rows", "pool", "sentence"),
    [
        (TABLE[PRIVATE], TABLE[PUBLIC].assign(town=[["Ulm"]] * 60), "'town' of X_public must have one value"),
        (TABLE[:0], TABLE[PUBLIC], "X must have at least one row, got none"),
        (TABLE[["age", "age"]], TABLE[["age", "age"]], "X must have different names of columns, got 'age' twice"),
        (TABLE[PRIVATE], TABLE[3:4].loc[[3] * 60], "X_public must have rows that differ, got 60 equal ones"),
        (TABLE.set_axis([1, "1"], axis=1), TABLE, "X must have text for every name of a column, got 1"),
        (TABLE, TABLE.set_axis(["age", 1], axis=1), "X_public must have text for every name .*, got 1"),
        (TABLE[PRIVATE].to_dict("records"), TABLE[PUBLIC], "X must be a table, got a list of dictionaries"),
    ],
)
def test_tables_of_no_use_are_refused_in_one_sentence(rows, pool, sentence):
    with pytest.raises(InvalidInput, match=sentence) as refused:
        model().fit(rows, Y[: len(rows)], X_public=pool)
    assert len(str(refused.value)) < 200


def test_targets_of_objects_and_integers_without_end_are_refused_in_one_sentence():
    odd = Y.astype(object).copy()
    odd[:] = [2**70 * (label == "in") for label in Y]
    with pytest.raises(InvalidInput, match=r"objects of type int\. y must be text, or an array of integers below"):
        model().fit(TABLE[PRIVATE], odd[PRIVATE], X_public=TABLE[PUBLIC])
    odd[3] = -(10**400)
    with pytest.raises(InvalidInput, match="must be a finite number in every row"):
        ostrakon.PATERegressor(range=(0, 1)).fit(TABLE[PRIVATE], odd[PRIVATE], X_public=TABLE[PUBLIC])


def test_gaps_in_an_array_are_refused_and_those_of_a_frame_are_not():
    numbers = TABLE[["age"]].assign(size=np.arange(260.0))
    with pytest.raises(InvalidInput, match=r"^X must have no NaN if it is an array; a data frame may have"):
        model().fit(numbers[PRIVATE].to_numpy(), Y[PRIVATE], X_public=numbers[PUBLIC].to_numpy())
    assert model().fit(numbers[PRIVATE], Y[PRIVATE], X_public=numbers[PUBLIC]).counts_ is not None


@pytest.mark.parametrize("odd", [2**53, 2**64, 1e300, np.inf], ids=str)
def test_a_large_private_number_does_not_end_a_run(odd):
    table = pd.DataFrame({"size": rng.integers(0, 9, 260), "town": TABLE["town"]})
    private = table[PRIVATE].assign(size=[odd, *table["size"][1:200]])
    assert model().fit(private, Y[PRIVATE], X_public=table[PUBLIC]).counts_ is not None
