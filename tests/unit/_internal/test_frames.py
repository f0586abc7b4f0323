"""One behaviour over pandas, polars, pyarrow and plain dicts."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from eval_toolkit._internal import frames
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError

COLUMNS = {"a": [1, 2, 3], "b": ["x", "y", None]}
MAKERS = {
    "pandas": lambda columns: pd.DataFrame(columns, index=[7, 8, 9]),
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
    "columns": dict,
}


@pytest.fixture(params=MAKERS)
def frame(request):
    return MAKERS[request.param](COLUMNS)


def test_names_rows_and_columns(frame):
    assert frames.names(frame) == ["a", "b"]
    assert frames.n_rows(frame) == 3
    assert frames.column(frame, "a").tolist() == [1, 2, 3]
    texts = frames.column(frame, "b")
    assert texts.dtype == object
    assert texts[:2].tolist() == ["x", "y"]
    with pytest.raises(
        MissingColumnError, match="there is no column 'c'; the columns are 'a', 'b'"
    ):
        frames.column(frame, "c")


@pytest.mark.parametrize("rows", [[2, 0], (2, 0), np.array([2, 0], dtype=np.uint8)])
def test_take_by_number(frame, rows):
    taken = frames.take(frame, rows)
    assert type(taken) is type(frame)
    assert frames.column(taken, "a").tolist() == [3, 1]
    if isinstance(taken, pd.DataFrame):
        assert taken.index.tolist() == [0, 1]


def test_take_by_mask_and_nothing(frame):
    assert frames.column(frames.take(frame, [True, False, True]), "a").tolist() == [1, 3]
    assert frames.n_rows(frames.take(frame, [])) == 0
    assert frames.n_rows(frames.take(frame, range(2))) == 2


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([3], "`rows` contains row 3; the frame has rows 0 to 2"),
        ([0, -1], "`rows` contains row -1"),
        ([True], "`rows` is a mask with 1 entries for a frame with 3 rows"),
        ([0.5], "`rows` contains float64 values; it must contain row numbers"),
        ([[0]], r"`rows` must be 1-D, got shape \(1, 1\)"),
    ],
)
def test_take_refuses(frame, rows, message):
    with pytest.raises(InvalidInputError, match=message):
        frames.take(frame, rows)


def test_select_concat_and_with_column(frame):
    assert frames.names(frames.select(frame, ["b"])) == ["b"]
    double = frames.concat([frame, frame])
    assert frames.column(double, "a").tolist() == [1, 2, 3, 1, 2, 3]
    assert type(double) is type(frame)
    if isinstance(double, pd.DataFrame):
        assert double.index.tolist() == list(range(6))
    for name in ("a", "new"):
        changed = frames.with_column(frame, name, np.array([7, 8, 9]))
        assert frames.column(changed, name).tolist() == [7, 8, 9]
    assert frames.column(frame, "a").tolist() == [1, 2, 3]


@pytest.mark.parametrize("backend", [*MAKERS, None])
def test_from_columns(backend):
    columns = {"a": np.array([1, 2]), "b": np.array(["x", None], dtype=object)}
    made = frames.from_columns(columns, backend)
    kind = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table, "columns": dict}
    assert isinstance(made, kind[backend or "pandas"])
    assert frames.column(made, "a").tolist() == [1, 2]


def test_from_columns_refuses():
    with pytest.raises(InvalidInputError, match="`backend` is 'spark'; it must be one of"):
        frames.from_columns({"a": [1]}, "spark")
    mixed = {"a": np.array(["x", 1], dtype=object)}
    for backend in ("polars", "pyarrow"):
        with pytest.raises(InvalidInputError, match="column 'a' contains values of several types"):
            frames.from_columns(mixed, backend)
    assert frames.column(frames.from_columns(mixed, "pandas"), "a").tolist() == ["x", 1]


@pytest.mark.parametrize("thing", [[1, 2], pd.Series([1]), pl.DataFrame({"a": [1]}).lazy(), 3])
def test_other_things_are_no_frames(thing):
    with pytest.raises(InvalidTypeError, match="it must be a pandas or polars DataFrame"):
        frames.names(thing)


def test_dicts_with_odd_columns():
    assert frames.column({"a": [[1, 2], [3]]}, "a").tolist() == [[1, 2], [3]]
    assert frames.column({"a": [[1, 2], [3, 4]]}, "a").tolist() == [[1, 2], [3, 4]]
    assert frames.column({"a": [1, "x"]}, "a").tolist() == [1, "x"]
    with pytest.raises(InvalidInputError, match=r"different lengths: \{'a': 1, 'b': 2\}"):
        frames.n_rows({"a": [1], "b": [1, 2]})
    with pytest.raises(InvalidInputError, match="`df` has two columns with the same name"):
        frames.names(pd.DataFrame([[1, 2]], columns=["a", "a"]))


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_integers_stay_exact_beside_a_missing_one(make):
    whole = 2**53 + 1  # a float would round it
    values = pd.array([whole, None, 3], dtype="Int64") if make is MAKERS["pandas"] else None
    frame = make({"a": [whole, None, 3] if values is None else values})
    assert frames.column(frame, "a").tolist() == [whole, None, 3]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, dict])
def test_integers_stay_exact_when_no_numpy_type_holds_them_all(make):
    values = [2**63, 2**63 + 1, -1]
    assert frames.column(make({"a": values}), "a").tolist() == values
    with pytest.raises(
        InvalidInputError, match="column 'a' contains integers too large for a pyarrow"
    ):
        frames.from_columns({"a": values}, "pyarrow")
