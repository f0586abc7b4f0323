"""What must not matter: the order of rows, batches, caches. What must hold: a run read back."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_toolkit.harness import RunResult, evaluate, evaluate_folded, save_run
from eval_toolkit.runs import Run
from eval_toolkit.slices import EvalSlice
from eval_toolkit.splits import StratifiedKFoldSplitter
from eval_toolkit.thresholds import MaxF1Selector


class Hashed:
    """A number in [0, 1] that depends on the text alone, with ties."""

    def __init__(self, salt: str) -> None:
        self.salt = salt
        self.version = f"hashed-{salt}"

    def predict_proba(self, X: Any) -> Any:
        return np.array([sum(map(ord, self.salt + text)) % 11 / 10 for text in X])


@st.composite
def tables(draw: st.DrawFn) -> dict[str, list[Any]]:
    """Few distinct texts, so that equal rows, ties and tiny parts occur."""
    n = draw(st.integers(1, 30))
    column = lambda values: draw(st.lists(values, min_size=n, max_size=n))  # noqa: E731
    return {
        "text": column(st.sampled_from(["", "a", "b", "ab", "é", "x" * 30, "0"])),
        "label": column(st.integers(0, 1)),
        "part": column(st.sampled_from(["p", "q"])),
        "group": column(st.sampled_from(["g", "h", "i"])),
        "key": [f"k{i}" for i in range(n)],
    }


def run(table: dict[str, list[Any]], roles: dict[str, str], **options: Any) -> RunResult:
    return evaluate(
        {"one": Hashed("1"), "two": Hashed("2")},
        [EvalSlice("val", table, **roles), EvalSlice("test", table, **roles)],
        run_id="r",
        n_resamples=15,
        paired_diffs=[("one", "two")],
        thresholds=MaxF1Selector(),
        threshold_slice="val",
        **options,
    )


ROLES = st.sampled_from(
    [
        {},
        {"id_col": "key"},
        {"id_col": "key", "group_col": "group"},
        {"strata_col": "part", "group_col": "group"},
        {"id_col": "key", "strata_col": "part"},
    ]
)


def without_rows(result: RunResult) -> dict[str, Any]:
    payload = result.to_dict()
    for entry in payload["by_slice"].values():
        del entry["unit_ids"]
        for block in entry["by_scorer"].values():
            del block["scores"]
    return payload


@settings(max_examples=15)
@given(tables(), ROLES, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_changes_no_cell(
    table: dict[str, list[Any]], roles: dict[str, str], random: Any
) -> None:
    order = list(range(len(table["label"])))
    random.shuffle(order)
    shuffled = {name: [values[i] for i in order] for name, values in table.items()}
    one, other = run(table, roles), run(shuffled, roles)
    assert without_rows(one) == without_rows(other)
    for subject, records in one.records.items():
        again = other.records[subject]
        for name in ("unit_id", "content_hash", "group"):
            assert getattr(records, name).tolist() == getattr(again, name).tolist()
        assert records.columns["score"].tolist() == again.columns["score"].tolist()


@settings(max_examples=12)
@given(tables(), ROLES, st.integers(1, 40))
def test_batches_and_caches_change_nothing(
    table: dict[str, list[Any]], roles: dict[str, str], batch_size: int
) -> None:
    expected = run(table, roles).to_dict()
    cache: dict[str, float] = {}
    assert run(table, roles, batch_size=batch_size).to_dict() == expected
    assert run(table, roles, cache=cache).to_dict() == expected
    assert run(table, roles, batch_size=batch_size, cache=cache).to_dict() == expected


@settings(max_examples=15)
@given(tables(), ROLES)
def test_a_run_read_back_equals_the_run_written(
    table: dict[str, list[Any]], roles: dict[str, str]
) -> None:
    result = run(table, roles)
    with tempfile.TemporaryDirectory() as folder:
        save_run(result, Path(folder) / "r")
        opened = Run.open(Path(folder) / "r")
        assert RunResult.from_dict(opened.results_full).to_dict() == result.to_dict()
        assert sorted(opened.subjects) == sorted(result.records)
        for subject, made in result.records.items():
            stored = opened.records(*subject)
            for name in ("unit_id", "content_hash", "group", "attempt"):
                assert getattr(stored, name).tolist() == getattr(made, name).tolist()
            for name, values in made.columns.items():
                assert stored.columns[name].tolist() == values.tolist()
                assert stored.status[name].tolist() == made.status[name].tolist()
            assert {k: v.tolist() for k, v in stored.slices.items()} == {
                k: v.tolist() for k, v in made.slices.items()
            }


@settings(max_examples=25)
@given(tables(), st.integers(2, 4), st.integers(1, 2))
def test_every_row_is_out_of_fold_once_per_seed(
    table: dict[str, list[Any]], k: int, n_seeds: int
) -> None:
    repeated = {name: [v for v in values for _ in range(k)] for name, values in table.items()}
    del repeated["key"]
    result = evaluate_folded(
        {"one": Hashed("1")},
        StratifiedKFoldSplitter(k=k),
        EvalSlice("all", repeated),
        run_id="r",
        n_resamples=5,
        seeds=tuple(range(n_seeds)),
    )
    records = result.records["test", "one"]
    n = len(repeated["label"])
    assert len(records) == n * n_seeds
    assert len(set(records.unit_id)) == n
    assert np.bincount(records.attempt)[1:].tolist() == [n] * n_seeds
    expected = Hashed("1").predict_proba(repeated["text"])
    assert sorted(records.columns["score"].tolist()) == sorted(expected.tolist() * n_seeds)
