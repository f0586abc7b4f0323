"""Whose word counts on what is better: the user's, then the runs', then the name's."""

from pathlib import Path
from typing import Any

import pytest

from eval_toolkit.analysis import compare_runs, leaderboard, with_directions
from eval_toolkit.analysis.directions import agreed, column_of, stated_by
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.report.cells import blocks_of
from eval_toolkit.runs import Run, write_run
from eval_toolkit.scorecards import Records

N = 60


def stored(folder: Path, name: str, ones: int, *, column: str = "zing", **options: Any) -> Run:
    """A run of 60 items with a column that is 1 on some; ``up`` is what its cell states."""
    cell = {"value": ones / N, "status": "ok", "reason": "", "ci": None, "details": {}}
    if "up" in options:
        cell["details"] = {"higher_is_better": options["up"]}
    records = Records.from_columns(
        {column: [float(n < ones) for n in range(N)]}, unit_id=[f"u{n}" for n in range(N)]
    )
    results = {"schema_version": "v1", "run_id": name, "config": {}}
    block = {"t": {"n": N, "by_scorer": {name: {column: cell}}}}
    return write_run(
        folder / name,
        results={**results, "by_slice": block},
        manifest={"run_id": name, **options.get("manifest", {})},
        records={("t", name): records},
    )


def verdict(a: Run, b: Run, **options: Any) -> str:
    return compare_runs(a, b, **options).cells[0].verdict


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ({"up": True}, {"up": True}, "better"),
        ({"up": False}, {"up": False}, "worse"),
        ({"up": False}, {}, "worse"),
        ({}, {"up": True}, "better"),
        ({"up": None}, {"up": True}, "better"),
        ({"up": None}, {"up": None}, "different"),
        ({"up": True}, {"up": False}, "different"),  # they contradict each other
        ({}, {}, "different"),
    ],
)
def test_what_runs_state(
    tmp_path: Path, a: dict[str, Any], b: dict[str, Any], expected: str
) -> None:
    """20 of 60 against 40 of 60: more by far."""
    old, new = stored(tmp_path, "old", 20, **a), stored(tmp_path, "new", 40, **b)
    assert verdict(old, new) == expected
    assert verdict(old, new, higher_is_better={"zing": True}) == "better"
    assert verdict(old, new, higher_is_better={"zing": False}) == "worse"


def test_a_manifest_may_state_it(tmp_path: Path) -> None:
    said = {"manifest": {"higher_is_better": {"zing": False}}}
    old, new = (stored(tmp_path, name, n, **said) for name, n in (("old", 20), ("new", 40)))
    assert verdict(old, new) == "worse"
    assert leaderboard([old, new], n_draws=100).ranking.best == ("old",)
    (block,) = blocks_of(new)
    assert block.cells["zing"].higher_is_better is False


def test_the_name_counts_where_nothing_is_stated(tmp_path: Path) -> None:
    old, new = (stored(tmp_path, n, k, column="val_loss") for n, k in (("old", 20), ("new", 40)))
    assert verdict(old, new) == "worse"
    assert leaderboard([old, new], n_draws=100).ranking.best == ("old",)
    up = {"val_loss": True}
    assert leaderboard([old, new], n_draws=100, higher_is_better=up).ranking.best == ("new",)


def test_no_ranks_without_a_direction(tmp_path: Path) -> None:
    runs = [stored(tmp_path, name, n) for name, n in (("old", 20), ("new", 40))]
    with pytest.raises(InvalidInputError, match="zing: unknown whether higher or lower is bett"):
        leaderboard(runs)
    note = compare_runs(*runs).undirected
    assert len(note) == 1
    assert "higher_is_better={'zing': False}" in note[0]
    assert compare_runs(*runs, higher_is_better={"zing": True}).undirected == ()


def test_attempts_at_a_column_have_its_direction(tmp_path: Path) -> None:
    old, new = (stored(tmp_path, name, n, up=False) for name, n in (("old", 20), ("new", 40)))
    (cell,) = compare_runs(old, new, metrics=["zing_pass@1"]).cells
    assert (cell.higher_is_better, cell.verdict) == (False, "worse")
    (cell,) = compare_runs(old, new, metrics=["zing_pass@1"], higher_is_better={"zing": True}).cells
    assert cell.verdict == "better"


def test_names_and_values_are_checked(tmp_path: Path) -> None:
    run = stored(tmp_path, "run", 20)
    with pytest.raises(
        MissingColumnError, match=r"no run has a metric 'zin'; did you mean 'zing'\?"
    ):
        with_directions([run], {"zin": True})
    with pytest.raises(InvalidTypeError, match="maps 'zing' to 'lower'; it must be True or False"):
        with_directions([run], {"zing": "lower"})  # type: ignore[dict-item]
    with pytest.raises(InvalidTypeError, match="it must map names to True or False"):
        with_directions([run], ["zing"])  # type: ignore[arg-type]
    assert with_directions([run]) == [run]
    assert "higher_is_better" not in Run.open(run.path).manifest  # the folder stays as it is


def test_the_pieces() -> None:
    assert [column_of(n) for n in ("x_pass^2", "x_asr@3_macro", "x_macro", "x_pass@k")] == [
        "x",
        "x",
        "x",
        "x_pass@k",
    ]
    assert stated_by({}, {"x": {"details": {"higher_is_better": None}}}, "x") == [None]
    assert agreed([None], "accuracy") is None  # stated: neither is better
    assert agreed([], "jailbroken_pass@4") is False


@pytest.mark.parametrize("odd", [[True], {}, "up", 1])
def test_a_direction_that_is_none_states_that_neither_is_better(odd: object) -> None:
    assert stated_by({}, {"x": {"details": {"higher_is_better": odd}}}, "x") == [None]
    assert agreed(stated_by({"x": odd}, {}, "x"), "x") is None
