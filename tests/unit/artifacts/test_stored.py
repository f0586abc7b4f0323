"""Stored cells, strict JSON and references, and the artifact chapter's snippets about them."""

import contextlib
import dataclasses
import enum
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.each import each

from eval_toolkit.artifacts import (
    MetricState,
    PredictionArtifactRef,
    PredictionColumns,
    error_metric,
    json_bytes,
    read_json,
    sanitize_for_json,
    skipped_metric,
    write_json_strict,
)
from eval_toolkit.errors import ArtifactError, InvalidInputError, InvalidTypeError
from eval_toolkit.scorecards import MetricResult


def test_one_class_two_names() -> None:
    assert MetricState is MetricResult


def test_a_successful_metric() -> None:
    ok = MetricState(value=0.82, status="ok").to_dict()
    assert ok["value"] == 0.82
    assert ok == {"value": 0.82, "status": "ok", "reason": ""}


def test_a_slice_that_is_too_small_to_bootstrap() -> None:
    skipped = skipped_metric("n_resamples below floor", n=5)
    assert skipped["status"] == "skipped"
    assert skipped == {
        "value": None,
        "status": "skipped",
        "reason": "n_resamples below floor",
        "details": {"n": 5},
    }


def test_a_metric_whose_computation_hit_a_divide_by_zero() -> None:
    errored = error_metric("ZeroDivisionError", numerator=0, denominator=0)
    assert errored["status"] == "error"
    assert errored["details"] == {"numerator": 0, "denominator": 0}
    assert errored["value"] is None


def test_details_are_there_only_when_given() -> None:
    assert "details" not in skipped_metric("one class only")
    assert "details" not in error_metric("KeyError")


def test_payloads_are_strict_json() -> None:
    for payload in (skipped_metric("why", n=1), error_metric("why", rows=[1, 2])):
        assert json.loads(json.dumps(payload, allow_nan=False)) == payload


# --- sanitize_for_json --------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: float
    y: object = None


class Odd:
    def __str__(self) -> str:
        return "odd"


@each(
    ("value", "plain"),
    [
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (np.True_, True),
        (np.str_("a"), "a"),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (np.array(2.5), 2.5),
        (np.array(["a", None], dtype=object), ["a", None]),
        ((1, (2,)), [1, [2]]),
        ({3, 1, 2}, [1, 2, 3]),
        (range(3), [0, 1, 2]),
        ({1: {None: 2}}, {"1": {"None": 2}}),
        (Colour.RED, "red"),
        ({Colour.RED: 1}, {"red": 1}),
        (Point(1.5, (1,)), {"x": 1.5, "y": [1]}),
        (MetricState(0.5, "ok"), {"value": 0.5, "status": "ok", "reason": ""}),
        (Path("a/b"), "a/b"),
        (Odd(), "odd"),
        (b"raw", "b'raw'"),
        (np.datetime64("2026-01-02"), "2026-01-02"),
        (Point, str(Point)),
        (True, True),
    ],
)
def test_values_become_plain(value, plain) -> None:
    result = sanitize_for_json(value)
    assert result == plain
    assert type(result) is type(plain)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float32("nan")])
def test_what_is_not_finite_is_an_absence(value) -> None:
    cell = sanitize_for_json({"a": [value]})["a"][0]
    assert cell == skipped_metric(f"non-finite value: {float(value)}")
    assert sanitize_for_json([value], nan_strategy="null") == [None]
    with pytest.raises(
        InvalidInputError, match=r"the value at a → 1 is .*; JSON numbers must be fin"
    ):
        sanitize_for_json({"a": [0.0, value]}, nan_strategy="raise")
    assert sanitize_for_json(np.array([1.0, value]), nan_strategy="null") == [1.0, None]


def test_missing_values_of_pandas_are_absences_too() -> None:
    pandas = pytest.importorskip("pandas")
    assert sanitize_for_json([pandas.NA, pandas.NaT], nan_strategy="null") == [None, None]


def test_keys_that_become_one_are_refused() -> None:
    with pytest.raises(
        InvalidInputError, match="the value at a has two keys that become '1' as strings"
    ):
        sanitize_for_json({"a": {1: "x", "1": "y"}})


def test_unknown_strategy() -> None:
    with pytest.raises(InvalidInputError, match="`nan_strategy` is 'drop'; choose one of"):
        sanitize_for_json(1, nan_strategy="drop")


# --- files --------------------------------------------------------------------------------------


def test_json_is_written_strictly_and_whole(tmp_path) -> None:
    path = write_json_strict({"b": "é", "a": math.nan}, tmp_path / "x" / "y.json", indent=None)
    assert path.read_text(encoding="utf-8").startswith('{"b": "é", "a": {"value": null')
    assert [child.name for child in path.parent.iterdir()] == ["y.json"]
    write_json_strict({"b": 1, "a": 2}, path, sort_keys=True)
    assert path.read_text() == '{\n  "a": 2,\n  "b": 1\n}\n'


def test_half_a_surrogate_pair_survives(tmp_path) -> None:
    assert read_json(write_json_strict(["\ud800é"], tmp_path / "x.json")) == ["\ud800é"]
    assert json_bytes("é") == b'"\xc3\xa9"\n'


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"x.json: the file is empty \(0 bytes\)"),
        (b'{"a": 1,\n "b" 2}', r"x.json: line 2: malformed JSON: .* \(column 6\)"),
        (b"[NaN]", "x.json: NaN is not valid JSON; use null for missing values"),
        (b'["\xff"]', "x.json: not UTF-8 at byte 2"),
        (b"[" * 100_000, "x.json: malformed JSON: nested too deeply"),
        (
            b"1" * 5000,
            "x.json: malformed JSON: an integer has 5000 digits; at most 308 are allowed",
        ),
    ],
)
def test_unreadable_json(tmp_path, data, message) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(data)
    with pytest.raises(ArtifactError, match=message):
        read_json(path)


def test_a_missing_file_and_a_byte_order_mark(tmp_path) -> None:
    with pytest.raises(ArtifactError, match=r"no.json: cannot be read: No such file or directory"):
        read_json(tmp_path / "no.json")
    with pytest.raises(ArtifactError, match="cannot be read"):
        read_json(tmp_path)
    (tmp_path / "bom.json").write_bytes(b"\xef\xbb\xbf[1]")
    assert read_json(tmp_path / "bom.json") == [1]


# --- references ---------------------------------------------------------------------------------

COLUMNS = PredictionColumns(label="y", score="s")


def test_the_chapter_on_columns() -> None:
    columns = PredictionColumns(
        label="y_true", score="prob_positive", row_id="example_id", content_hash="text_sha256"
    )
    assert columns.label == "y_true"
    assert columns.to_dict() == {
        "label": "y_true",
        "score": "prob_positive",
        "row_id": "example_id",
        "content_hash": "text_sha256",
    }
    assert PredictionColumns.from_dict(columns.to_dict()) == columns


def test_the_chapter_on_references() -> None:
    ref = PredictionArtifactRef(
        uri="s3://my-eval-bucket/run-42/predictions.csv",
        media_type="text/csv",
        columns=PredictionColumns(label="y", score="s"),
        sha256="a" * 64,
        n_rows=10_000,
        role="locked_eval_predictions",
    )
    serialized = ref.to_dict()
    assert serialized["uri"].startswith("s3://")
    assert list(serialized) == ["uri", "media_type", "role", "columns", "sha256", "n_rows"]
    assert PredictionArtifactRef.from_dict(serialized) == ref


def test_all_columns_and_metadata_survive() -> None:
    columns = PredictionColumns(
        "y", "s", "i", "h", "m", "part", "t", {"model": "model_col"}, group="author"
    )
    ref = PredictionArtifactRef("p.csv", "text/csv", columns, role=["a", "b"], metadata={"k": 1})
    again = PredictionArtifactRef.from_dict(json.loads(json.dumps(ref.to_dict())))
    assert again == ref
    assert again.columns.group == "author"
    assert again.role == ("a", "b")


def test_mappings_paths_and_prefixes_are_taken(tmp_path) -> None:
    ref = PredictionArtifactRef(
        uri=tmp_path / "p.csv",
        media_type="text/csv",
        columns={"label": "y", "score": "s"},
        sha256="sha256:" + "A" * 64,
    )
    assert ref.uri == str(tmp_path / "p.csv")
    assert ref.columns == COLUMNS
    assert ref.sha256 == "a" * 64


@each(
    ("given", "error", "message"),
    [
        ({"uri": ""}, InvalidInputError, "`uri` is empty"),
        ({"uri": 3}, InvalidTypeError, "`uri` must be a string, got 3"),
        ({"media_type": ""}, InvalidInputError, "`media_type` is empty"),
        ({"n_rows": True}, InvalidTypeError, "`n_rows` must be an integer, got True"),
        ({"n_rows": -1}, InvalidInputError, "`n_rows` is -1; it must be at least 0"),
        ({"role": ""}, InvalidInputError, "`role` is empty"),
        ({"role": []}, InvalidInputError, "`role` is empty; it must contain at least one"),
        ({"role": ["a", ""]}, InvalidInputError, r"`role\[1\]` is empty"),
        ({"role": {"a"}}, InvalidTypeError, "`role` must be a string or a list of strings"),
        ({"role": 7}, InvalidTypeError, "`role` must be a string or a list of strings, got 7"),
        ({"sha256": "abc"}, InvalidInputError, "`sha256` is 'abc'; it must be 64 hex"),
        ({"sha256": None}, InvalidTypeError, "`sha256` must be a string, got None"),
        ({"columns": {"label": "y"}}, InvalidInputError, "`columns` has no 'score'"),
        ({"columns": ["y", "s"]}, InvalidTypeError, "`columns` must be a mapping, got list"),
        (
            {"columns": {"label": "y", "score": "s", "row_ids": "i"}},
            InvalidInputError,
            "`columns` has no key 'row_ids'; did you mean 'row_id'",
        ),
        ({"metadata": 1}, InvalidTypeError, "`metadata` must be a mapping, got 1"),
    ],
)
def test_references_are_checked(given, error, message) -> None:
    whole = {"uri": "p.csv", "media_type": "text/csv", "columns": COLUMNS, **given}
    with pytest.raises(error, match=message):
        PredictionArtifactRef(**whole)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"label": ""}, "`label` is empty"),
        ({"score": None}, "`score` must be a string, got None"),
        ({"row_id": ""}, "`row_id` is empty"),
        ({"provenance": "x"}, "`provenance` must be a mapping"),
    ],
)
def test_columns_are_checked(given, message) -> None:
    with pytest.raises(InvalidInputError, match=message):
        PredictionColumns(**{"label": "y", "score": "s", **given})


def test_a_misspelt_keyword_is_rejected() -> None:
    with pytest.raises(TypeError, match="row_ids"):
        PredictionColumns(label="y", score="s", row_ids="i")  # type: ignore[call-arg]


def test_stored_references_may_have_fields_of_later_versions() -> None:
    stored = {"uri": "p.csv", "media_type": "text/csv", "columns": COLUMNS.to_dict()}
    later = {**stored, "compression": "none"}
    assert PredictionArtifactRef.from_dict(later) == PredictionArtifactRef.from_dict(stored)
    with pytest.raises(InvalidInputError, match="has no key 'n_row'; did you mean 'n_rows'"):
        PredictionArtifactRef.from_dict({**stored, "n_row": 3})
    with pytest.raises(InvalidInputError, match="a prediction reference has no 'uri'"):
        PredictionArtifactRef.from_dict({"media_type": "text/csv", "columns": COLUMNS})


def test_times_are_written_as_times_and_missing_ones_as_absent():
    times = np.array(["2026-01-02T03:04:05", "NaT"], dtype="datetime64[ns]")
    written = sanitize_for_json({"at": times}, nan_strategy="null")
    assert written == {"at": ["2026-01-02T03:04:05.000000000", None]}
    assert sanitize_for_json(times)[1]["status"] == "skipped"
    with pytest.raises(InvalidInputError, match="at → 1"):
        sanitize_for_json({"at": times}, nan_strategy="raise")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON, st.sampled_from([None, 0, 2, 3]), st.booleans())
def test_the_bytes_are_those_of_the_standard_library(value: Any, indent: Any, by_key: bool) -> None:
    clean = sanitize_for_json(value)
    for ascii_only in (False, True):
        text = json.dumps(clean, indent=indent, sort_keys=by_key, ensure_ascii=ascii_only)
        with contextlib.suppress(UnicodeEncodeError):
            assert json_bytes(value, indent=indent, sort_keys=by_key) == text.encode() + b"\n"
            return
