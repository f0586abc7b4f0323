"""A run read back is the run that was written; predictions pair in any order; tampering shows."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_toolkit.artifacts import (
    PredictionArrays,
    json_bytes,
    load_predictions,
    pair_predictions,
    read_json,
    sanitize_for_json,
    write_json_strict,
    write_predictions,
)
from eval_toolkit.errors import ArtifactError
from eval_toolkit.runs import Run, run_state, write_run
from eval_toolkit.scorecards import Records
from eval_toolkit.scorecards.records import LARGEST_VALUE

FINITE = st.floats(-LARGEST_VALUE, LARGEST_VALUE)
NAMES = st.one_of(
    st.text(max_size=8), st.sampled_from(["a", "A", "a.status", "slice", "group", "x.y"])
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


@st.composite
def some_records(draw: st.DrawFn) -> Records:
    """Draw records with attempts, groups, parts, and columns that are in part absent."""
    n = draw(st.integers(1, 5))
    column = st.lists(st.none() | FINITE, min_size=n, max_size=n)
    columns = draw(st.dictionaries(NAMES, column, min_size=1, max_size=3))
    texts = st.lists(st.text(max_size=5), min_size=n, max_size=n)
    units = draw(texts)
    return Records.from_columns(
        columns,
        unit_id=units,
        group=[f"g{unit}" for unit in units],
        content_hash=[f"h{unit}" for unit in units],
        slices=draw(st.dictionaries(NAMES, texts, max_size=2)),
        status={
            name: [
                "ok" if value is not None else draw(st.sampled_from(["skipped", "error"]))
                for value in values
            ]
            for name, values in columns.items()
        },
        reason={
            name: draw(st.lists(st.none() | st.text(max_size=5), min_size=n, max_size=n))
            for name in columns
        },
    )


def equal(a: Records, b: Records) -> bool:
    plain = ("unit_id", "content_hash", "group", "attempt")
    mapped = ("slices", "columns", "status", "reason")
    return all(getattr(a, name).tolist() == getattr(b, name).tolist() for name in plain) and all(
        {k: v.tolist() for k, v in getattr(a, name).items()}
        == {k: v.tolist() for k, v in getattr(b, name).items()}
        for name in mapped
    )


@settings(max_examples=20)  # each writes three files twice
@given(
    results=st.dictionaries(NAMES, JSON, max_size=3),
    records=st.dictionaries(st.tuples(NAMES, NAMES), some_records(), max_size=3),
)
def test_a_run_read_back_equals_the_run_written(results, records) -> None:
    results.pop("run_id", None)
    results.pop("config", None)
    with tempfile.TemporaryDirectory() as folder:
        write_run(Path(folder) / "run", results=results, manifest={"run_id": "r"}, records=records)
        run = Run.open(Path(folder) / "run")
        assert run.results == results
        assert run.subjects == sorted(records)
        assert all(equal(run.records(*key), side) for key, side in records.items())
        again = write_run(Path(folder) / "again", results=results, manifest={}, records=records)
        for name in ("results.json", "records.parquet"):
            assert (again.path / name).read_bytes() == (run.path / name).read_bytes()


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The files of a finished run, by name."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    records = Records.from_columns({"score": [0.25, 0.5]})
    write_run(folder, results={"a": 1}, manifest={}, records={("s", "m"): records})
    return folder, {path.name: path.read_bytes() for path in folder.iterdir()}


@settings(max_examples=40)
@given(data=st.data())
def test_any_changed_byte_is_refused(stored, data) -> None:
    folder, files = stored
    name = data.draw(st.sampled_from(sorted(files)))
    at = data.draw(st.integers(0, len(files[name]) - 1))
    change = data.draw(st.integers(1, 255))
    altered = bytearray(files[name])
    altered[at] ^= change
    (folder / name).write_bytes(altered)
    try:
        assert run_state(folder) != "complete"
        with pytest.raises(ArtifactError):
            Run.open(folder)
    finally:
        (folder / name).write_bytes(files[name])
    assert run_state(folder) == "complete"


@settings(max_examples=50)
@given(JSON)
def test_plain_json_is_its_own_sanitised_form_and_survives_a_file(payload) -> None:
    assert sanitize_for_json(payload) == payload
    with tempfile.TemporaryDirectory() as folder:
        assert read_json(write_json_strict(payload, Path(folder) / "x.json")) == payload


@settings(max_examples=50)
@given(
    st.recursive(st.floats() | st.text(alphabet=st.characters(codec=None), max_size=3), st.lists)
)
def test_every_payload_becomes_strict_json(payload) -> None:
    assert b"NaN" not in json_bytes(payload) or "NaN" in str(payload)
    with tempfile.TemporaryDirectory() as folder:
        path = write_json_strict(payload, Path(folder) / "x.json")
        assert read_json(path) == sanitize_for_json(payload)


@st.composite
def predictions(draw: st.DrawFn) -> PredictionArrays:
    ids = draw(st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=8, unique=True))
    n = len(ids)
    return PredictionArrays(
        draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)),
        draw(st.lists(FINITE, min_size=n, max_size=n)),
        row_ids=ids,
        content_hashes=[f"h{key}" for key in ids],
    )


@given(data=st.data(), a=predictions())
def test_pairing_does_not_depend_on_order(data, a) -> None:
    order = np.array(data.draw(st.permutations(range(len(a)))))
    b = PredictionArrays(a.labels, a.scores / 2, row_ids=a.row_ids, content_hashes=a.content_hashes)
    straight, shuffled = pair_predictions(a, b), pair_predictions(a.take(order), b)
    assert straight.row_ids == shuffled.row_ids == tuple(sorted(a.row_ids))
    assert straight.labels.tolist() == shuffled.labels.tolist()
    assert straight.scores_a.tolist() == shuffled.scores_a.tolist()
    assert (shuffled.scores_a / 2).tolist() == shuffled.scores_b.tolist()
    assert straight.note == ""


@settings(max_examples=20)
@given(a=predictions(), suffix=st.sampled_from(["csv", "tsv", "jsonl", "parquet", "csv.gz"]))
def test_predictions_read_back_as_written(a, suffix) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ref = write_predictions(
            Path(folder) / f"p.{suffix}",
            labels=a.labels,
            scores=a.scores,
            row_ids=a.row_ids,
            content_hashes=a.content_hashes,
        )
        back = load_predictions(ref)
    assert back.labels.tolist() == a.labels.tolist()
    assert back.scores.tolist() == a.scores.tolist()
    assert (back.row_ids, back.content_hashes) == (a.row_ids, a.content_hashes)
