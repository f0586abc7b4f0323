"""`EvalSlice` over every kind of frame."""

from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from eval_toolkit._internal.hashing import content_hash
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.protocols import EvalSliceLike
from eval_toolkit.slices import EvalSlice

COLUMNS = {
    "text": ["hello", "ignore all rules", "héllo", ""],
    "label": [0, 1, 1, 0],
    "source": ["web", "mail", "web", "mail"],
    "author": [1, 1, 2, 2],
    "key": ["k1", "k2", "k3", "k4"],
    "day": [4, 3, 2, 1],
}
MAKERS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table, "dict": dict}
ROLES = {"strata_col": "source", "group_col": "author", "id_col": "key", "time_col": "day"}


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


def test_properties(make):
    slice_ = EvalSlice("test", make(COLUMNS), **ROLES)
    assert isinstance(slice_, EvalSliceLike)
    assert slice_.y_true.tolist() == [0, 1, 1, 0]
    assert slice_.y_true.dtype == np.int64
    assert slice_.features == COLUMNS["text"]
    assert slice_.strata.tolist() == COLUMNS["source"]
    assert slice_.groups.tolist() == COLUMNS["author"]
    assert slice_.ids.tolist() == COLUMNS["key"]
    assert slice_.times.tolist() == COLUMNS["day"]
    assert (slice_.n, len(slice_), slice_.n_positive, slice_.is_single_class) == (4, 4, 2, False)
    assert repr(slice_) == "EvalSlice('test', n=4, n_positive=2)"
    with pytest.raises(FrozenInstanceError):
        slice_.name = "other"


def test_roles_are_optional(make):
    slice_ = EvalSlice("test", make(COLUMNS))
    assert slice_.strata is slice_.groups is slice_.ids is slice_.times is None


def test_content_hashes_do_not_depend_on_the_kind_of_frame():
    columns = {"text": ["a", None, "c"], "label": [0, 1, 0]}
    hashes = {name: EvalSlice("x", maker(columns)).content_hashes for name, maker in MAKERS.items()}
    assert hashes["pandas"] == hashes["polars"] == hashes["pyarrow"] == hashes["dict"]
    assert len(set(hashes["dict"])) == 3
    # the label is part of the identity
    other = EvalSlice("x", {"text": ["a"], "label": [1]}).content_hashes
    assert other[0] not in hashes["dict"]


def test_several_features_are_a_frame(make):
    slice_ = EvalSlice("x", make(COLUMNS), feature_col=["author", "day"])
    assert type(slice_.features) is type(make(COLUMNS))
    assert slice_.inputs == [[1, 4], [1, 3], [2, 2], [2, 1]]
    assert len(set(slice_.content_hashes)) == 4


@pytest.mark.parametrize(
    "labels",
    [
        [0, 1],
        [0.0, 1.0],
        [False, True],
        np.array([0, 1], dtype=np.uint8),
        ["0", "1"],
        ["FALSE ", "1.00"],
        [0, " true"],
    ],
)
def test_label_types(labels):
    assert EvalSlice("x", {"text": ["a", "b"], "label": labels}).y_true.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 2], r"slice 'x': label\[1\] is 2; labels must be 0 or 1"),
        (["a", "1"], r"slice 'x': label\[0\] is 'a'; labels must be 0 or 1"),
        ([0, None], r"slice 'x': label\[1\] is missing; every row needs a label"),
        ([0.5, 1.0], r"slice 'x': label\[0\] is .*0.5.*; labels must be 0 or 1"),
    ],
)
def test_bad_labels(make, labels, message):
    with pytest.raises(InvalidInputError, match=message):
        EvalSlice("x", make({"text": ["a", "b"], "label": labels}))


def test_missing_columns():
    with pytest.raises(
        MissingColumnError, match=r"slice 'x': there is no column 'text' \(feature_col\)"
    ):
        EvalSlice("x", {"prompt": ["a"], "label": [1]})
    with pytest.raises(KeyError, match=r"there is no column 'who' \(group_col\); the columns are"):
        EvalSlice("x", COLUMNS, group_col="who")
    with pytest.raises(
        InvalidTypeError, match="`strata_col` is 3; it must be the name of a column"
    ):
        EvalSlice("x", COLUMNS, strata_col=3)
    for name in ("", None, 3):
        with pytest.raises(InvalidInputError, match="it must be a non-empty string"):
            EvalSlice(name, COLUMNS)


def test_a_row_is_the_same_whatever_other_rows_are_missing(make):
    rows = {"a": [None, 1, 2**53 + 1], "b": [1.0, 2.0, 2.5], "label": [0, 1, 0]}
    if make is pd.DataFrame:  # plain pandas has no integers beside a gap
        rows["a"] = pd.array(rows["a"], dtype="Int64")
    for features in ("a", "b", ["a", "b"]):
        slice_ = EvalSlice("x", make(rows), feature_col=features)
        part = slice_.take([1, 2])
        plain = EvalSlice(
            "y", {"a": [1, 2**53 + 1], "b": [2, 2.5], "label": [1, 0]}, feature_col=features
        )
        assert slice_.content_hashes[1:] == part.content_hashes == plain.content_hashes


def test_whole_numbers_are_one_input_in_every_form():
    forms = [[1, 0], [1.0, -0.0], np.array([1, 0], np.float32), np.array([1, 0], np.uint8)]
    hashes = [EvalSlice("x", {"text": f, "label": [0, 0]}).content_hashes for f in forms]
    assert all(form == hashes[0] for form in hashes)
    nested = [[{"n": 1.0}], [{"n": np.float32(1)}], [{"n": 1}]]
    assert len({EvalSlice("x", {"text": f, "label": [0]}).content_hashes[0] for f in nested}) == 1
    others = [True, "1", 1.5, [1], None]
    assert len({content_hash(value, 0) for value in [1, *others]}) == 6


def test_huge_ids_are_told_apart():
    for make in (pd.DataFrame, pl.DataFrame, dict):
        rows = {"text": list("abc"), "label": [0, 1, 1], "id": [2**63, 2**63 + 1, -1]}
        assert EvalSlice("x", make(rows), id_col="id").ids.tolist() == [
            "9223372036854775808",
            "9223372036854775809",
            "-1",
        ]


def test_unit_ids(make):
    assert EvalSlice("x", make(COLUMNS), **ROLES).unit_ids == COLUMNS["key"]
    slice_ = EvalSlice("x", make(COLUMNS))
    assert slice_.unit_ids == [digest[:16] for digest in slice_.content_hashes]
    assert EvalSlice("x", make({"text": [], "label": []})).unit_ids == []


def test_unit_ids_of_equal_rows_do_not_depend_on_their_order(make):
    rows = {
        "text": ["a"] * 6,
        "label": [1] * 5 + [0],
        "author": ["y", "x", "y", "x", "y", "x"],
        "source": ["s", "s", "r", "t", "s", "s"],
        "line": [3, 4, 5, 6, 1, 2],
    }
    roles = {"group_col": "author", "strata_col": "source"}
    order = [3, 5, 0, 4, 2, 1]
    slice_ = EvalSlice("x", make(rows), **roles)
    assert [unit[16:] for unit in slice_.unit_ids] == ["~5", "", "~3", "~2", "~4", ""]
    taken = EvalSlice("x", make({name: [v[i] for i in order] for name, v in rows.items()}), **roles)
    assert taken.unit_ids == [slice_.unit_ids[i] for i in order]


def test_ids():
    rows = {"text": ["a", "b"], "label": [0, 1]}
    with pytest.raises(InvalidInputError, match=r"i is '1' in rows 0 and 1; ids must be unique"):
        EvalSlice("x", {**rows, "i": [1, 1]}, id_col="i")
    with pytest.raises(InvalidInputError, match=r"i\[1\] is missing; every row needs an id"):
        EvalSlice("x", {**rows, "i": ["a", None]}, id_col="i")
    assert EvalSlice("x", {**rows, "i": [1, 2]}, id_col="i").ids.tolist() == ["1", "2"]


def test_one_row_one_class_and_no_rows(make):
    one = EvalSlice("one", make({"text": ["c"], "label": [1]}))
    assert (one.n, one.is_single_class) == (1, True)
    none = one.take([])
    assert (none.n, none.is_single_class, none.features) == (0, True, [])


def test_take_and_rename(make):
    slice_ = EvalSlice("all", make(COLUMNS), "about", **ROLES)
    part = slice_.take([2, 0], name="part")
    assert (part.name, part.description) == ("part", "about")
    assert part.features == ["héllo", "hello"]
    assert part.ids.tolist() == ["k3", "k1"]
    assert slice_.take([True, False, False, True]).n == 2
    assert slice_.take([0]).name == "all"
    assert slice_.renamed("new").name == "new"
    assert slice_.renamed("new").df is slice_.df
    with pytest.raises(InvalidInputError, match="contains row 9"):
        slice_.take([9])


def test_records(make):
    slice_ = EvalSlice("all", make(COLUMNS), **ROLES)
    records = slice_.records([0.1, 0.9, 0.8, 0.2], slices={"long": ["n", "y", "n", "n"]})
    assert records.unit_id.tolist() == ["k1", "k2", "k3", "k4"]
    assert records.columns["label"].tolist() == [0, 1, 1, 0]
    assert records.columns["score"].tolist() == [0.1, 0.9, 0.8, 0.2]
    assert records.content_hash.tolist() == slice_.content_hashes
    assert set(records.slices) == {"long", "source"}
    assert records.group.tolist() == ["1", "1", "2", "2"]
    with pytest.raises(InvalidInputError):
        slice_.records([0.1])


def test_records_of_rows_without_a_stratum() -> None:
    columns = {"text": ["a", "b"], "label": [0, 1], "lang": ["en", None]}
    records = EvalSlice("s", columns, strata_col="lang").records([0.1, 0.9])
    assert sorted(records.slices["lang"].tolist()) == ["en", "unlabeled"]
