"""The sentence that comes first: who is better, by how much, and what speaks against it."""

from typing import Any

import pytest

from eval_toolkit.analysis import RunComparison, RunDifference
from eval_toolkit.report.comparing import answer, comparison_page


def cell(
    metric: str = "accuracy", delta: float = 0.1, low: float = 0.04, high: float = 0.18, **more: Any
) -> RunDifference:
    told: dict[str, Any] = {
        "slice": "all",
        "scorer": "m",
        "scorer_b": "m",
        "higher_is_better": True,
        "p_value": 0.001 if low * high > 0 else 0.4,
        "n_units": 100,
    }
    told["p_adjusted"] = told["p_value"]
    return RunDifference(metric=metric, delta=delta, ci_low=low, ci_high=high, **(told | more))


def test_the_better_one_is_named_with_its_lead() -> None:
    assert answer([cell()]) == "B beats A by 0.100 [0.040, 0.180] in accuracy"
    assert answer([cell(delta=-0.1, low=-0.18, high=-0.04)], "old", "new") == (
        "old beats new by 0.100 [0.040, 0.180] in accuracy"
    )


def test_a_lower_loss_is_a_lead() -> None:
    better = cell("brier", -0.02, -0.03, -0.01, higher_is_better=False)
    assert answer([better]) == "B beats A by 0.020 [0.010, 0.030] in brier (lower is better)"


def test_no_clear_difference_says_so_with_the_interval() -> None:
    assert answer([cell(delta=0.01, low=-0.02, high=0.04)]) == (
        "A and B are not clearly different in accuracy: B - A = +0.010 [-0.020, +0.040]"
    )


def test_what_speaks_against_it_is_named() -> None:
    worse = cell("f1", -0.1, -0.2, -0.05)
    assert answer([cell(), worse]).endswith("in accuracy, but is worse in f1")
    other_slice = cell("f1", -0.1, -0.2, -0.05, slice="language=de")
    assert "but" not in answer([cell(), other_slice])


def test_the_slice_is_named_where_it_is_not_everything() -> None:
    assert answer([cell(slice="capitals")]).endswith("in accuracy on capitals")


def test_p_values_that_the_verdicts_go_by_are_shown() -> None:
    def table(*cells: RunDifference) -> list[list[str]]:
        result = RunComparison("A", "B", cells, "holm", 0.95, 42)
        (table,) = comparison_page(result, [], "").tables
        return [table.header, *table.rows]

    two = cell(p_value=0.03, p_adjusted=0.06), cell("f1", p_value=0.04, p_adjusted=0.06)
    header, *rows = table(*two)
    assert header[-3:] == ["p", "p (Holm)", "B is"]
    assert [row[-3:] for row in rows] == [
        ["0.030", "0.060", "no clear difference"],
        ["0.040", "0.060", "no clear difference"],
    ]
    assert table(cell())[0][-2:] == ["p", "B is"]  # of one there is nothing to correct


@pytest.mark.parametrize("cells", [[], [cell(status="skipped", reason="one class")]])
def test_nothing_to_compare(cells: list[RunDifference]) -> None:
    assert answer(cells) == "A and B could not be compared"


def test_a_small_difference_is_not_nothing() -> None:
    small = cell(delta=-3.1e-6, low=-1.6e-5, high=9.5e-6)
    assert answer([small]).endswith("B - A = -0.000003 [-0.000016, +0.000010]")
    assert answer([cell(delta=-4e-4, low=-7e-4, high=-1e-4)]).startswith(
        "A beats B by 0.00040 [0.00010, 0.00070]"
    )
