"""Which slice, metric and scorer speak for a run."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.report_runs import stored_cells as stored

from eval_toolkit.report.cells import Block, Cell, leading, main_block, main_blocks


def scorers(metric: str, details: dict[str, Any] | None = None, **values: float) -> list[Block]:
    return [
        Block(
            slice="all",
            scorer=name,
            n=4,
            n_positive=2,
            cells={metric: Cell(name=metric, value=value, details=details or {})},
        )
        for name, value in values.items()
    ]


@pytest.mark.parametrize(
    ("metric", "best"),
    [
        ("roc_auc", "high"),
        ("brier", "low"),
        ("log_loss", "low"),
        ("ece_n_bins_15_strategy_uniform", "low"),
        ("op_fpr_at_max_f1_fitted_on_val", "low"),
        ("op_f1_at_0.5", "high"),
        ("reward", "mid"),  # nobody knows what is better about it: the order of the results
    ],
)
def test_the_best_comes_first(metric: str, best: str) -> None:
    found = leading(scorers(metric, mid=0.2, low=0.1, high=0.3))
    assert found[0][0].scorer == best


def test_what_was_stored_says_more_than_a_name() -> None:
    assert Cell(name="brier", value=1.0, details={"higher_is_better": True}).higher_is_better
    told = {"higher_is_better": None}
    assert Cell(name="brier", value=1.0, details=told).higher_is_better is None


PR, BRIER, ONE_CLASS = (
    {"pr_auc": 0.6},
    {"brier": 0.2},
    {"pr_auc": {"value": None, "status": "skipped"}},
)


@pytest.mark.parametrize(
    ("by_slice", "main"),
    [
        ({"de": PR, "all": PR, "test": PR}, "all"),
        ({"de": PR, "test": PR}, "test"),
        ({"de": PR, "en": PR}, "de"),
        ({"val": PR, "held": PR}, "held"),  # thresholds were chosen on val
        ({"val": PR}, "val"),
        ({"ones": ONE_CLASS | BRIER, "en": PR | BRIER}, "en"),
    ],
)
def test_the_slice_that_speaks_for_a_run(
    tmp_path: Path, by_slice: dict[str, Any], main: str
) -> None:
    policy = {"thresholds": [{"scorer_name": "m", "fitted_on_slice": "val", "threshold": 0.5}]}
    given = {name: {"m": cells} for name, cells in by_slice.items()}
    told = stored(tmp_path / "policy", given, threshold_policy=policy)
    assert {block.slice for block in main_blocks(told)} == {main}
    asked = stored(tmp_path / "config", given, config={"threshold_slice": "val"})
    assert {block.slice for block in main_blocks(asked)} == {main}


@pytest.mark.parametrize("order", [("broken", "good"), ("good", "broken")])
def test_a_broken_scorer_does_not_speak_for_the_run(tmp_path: Path, order: tuple[str, str]) -> None:
    raised = {
        "error": "RuntimeError: boom",
        "error_state": {"value": None, "status": "error", "reason": "RuntimeError: boom"},
    }
    cells = {"broken": raised, "good": PR}
    run = stored(tmp_path, {"test": {name: cells[name] for name in order}})
    block = main_block(run)
    assert block is not None
    assert block.scorer == "good"
    broken = next(one for one in main_blocks(run) if one.scorer == "broken")
    assert (dict(broken.cells), broken.error) == ({}, "RuntimeError: boom")
