"""The sentence that comes first: who is better, by how much, and what speaks against it."""

from typing import Any

import pytest

from eval_toolkit.analysis import RunComparison, RunDifference
from eval_toolkit.report.comparison_page import answer, comparison_page


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
        "A and B do not differ significantly in accuracy: B - A = +0.010 [-0.020, +0.040]"
    )


FIRST = {
    "better": ("B beats A by 0.100 [0.040, 0.180] in accuracy", "B", (0.1, 0.04, 0.18)),
    "worse": ("A beats B by 0.100 [0.040, 0.180] in accuracy", "A", (-0.1, -0.18, -0.04)),
    "undecided": (
        "A and B do not differ significantly in accuracy: B - A = +0.010 [-0.020, +0.040]",
        "",
        (0.01, -0.02, 0.04),
    ),
}
OTHERS = {
    "none": {},
    "for A": {"A": ["f1"]},
    "for B": {"B": ["f1", "recall"]},
    "for both": {"A": ["f1"], "B": ["recall"]},
}


@pytest.mark.parametrize("n_undecided", [0, 1, 2])
@pytest.mark.parametrize("others", OTHERS)
@pytest.mark.parametrize("first", FIRST)
def test_the_answer_names_who_is_better_in_what(first: str, others: str, n_undecided: int) -> None:
    """Whatever the first metric says, each decided metric is named with the system it favours."""
    sentence, leader, numbers = FIRST[first]
    cells = [cell("accuracy", *numbers)]
    for system, names in OTHERS[others].items():
        up = 1.0 if system == "B" else -1.0
        cells += [cell(name, up * 0.1, *sorted([up * 0.05, up * 0.2])) for name in names]
    cells += [cell(f"quiet{n}", 0.01, -0.02, 0.04) for n in range(n_undecided)]
    expected = [sentence]
    for system in ("A", "B") if leader == "A" else ("B", "A"):
        if names := OTHERS[others].get(system):
            too = " too" if system == leader else ""
            expected.append(f"{system} is better in {', '.join(names)}{too}")
    if n_undecided:
        verb = "metric is" if n_undecided == 1 else "metrics are"
        expected.append(f"{n_undecided} other {verb} undecided")
    assert answer(cells) == "; ".join(expected)


def test_other_slices_are_another_matter() -> None:
    other = cell("f1", -0.1, -0.2, -0.05, slice="language=de")
    assert answer([cell(), other]) == answer([cell()])


def test_less_is_better_in_another_metric() -> None:
    loss = cell("loss", 0.3, 0.1, 0.5, higher_is_better=False)
    assert answer([cell(), loss], "old", "new").endswith("in accuracy; old is better in loss")


def test_a_direction_that_is_not_known_makes_nobody_better() -> None:
    zing = cell("zing", higher_is_better=None)
    assert answer([zing]) == ("A and B differ in zing: B - A = +0.100 [+0.040, +0.180]")
    assert answer([cell(), zing]).endswith("in accuracy; they differ in zing")
    assert answer([zing, cell()]).endswith("; B is better in accuracy")


def test_what_was_not_tested_is_not_called_alike() -> None:
    untested = cell("f1", p_value=None, p_adjusted=None)
    assert answer([untested]) == "B - A = +0.100 [+0.040, +0.180] in f1, not tested"
    assert answer([cell(), untested]).endswith("in accuracy; 1 other metric is not tested")
    quiet = cell("recall", 0.01, -0.02, 0.04)
    assert answer([cell(), untested, quiet, untested]).endswith(
        "; 1 other metric is undecided; 2 other metrics are not tested"
    )


def test_a_correction_that_decides_against_the_interval_is_said() -> None:
    """5 of 50 discordant units: Tango's interval leaves out 0, and Holm's p-value is above 0.05."""
    held_back = cell("accuracy", 0.1, 0.022, 0.214, p_value=0.025, p_adjusted=0.075)
    assert answer([held_back]) == (
        "A and B do not differ significantly in accuracy: B - A = +0.100 [+0.022, +0.214]; the "
        "interval excludes 0, but p is 0.075 when corrected for the number of metrics and slices"
    )


def test_scorers_are_named_where_there_are_several() -> None:
    other = {"scorer": "n", "scorer_b": "n"}
    cells = [
        cell(),
        cell("f1", -0.1, -0.2, -0.05, **other),
        cell("recall", 0.1, -0.2, 0.3, **other),
    ]
    assert answer(cells) == (
        "B beats A by 0.100 [0.040, 0.180] in accuracy of m; n: A is better in 1 of 2 metrics"
    )
    assert answer([cells[0], cells[2]]).endswith("; n: undecided in every metric")


def test_the_slice_is_named_where_it_is_not_everything() -> None:
    assert answer([cell(slice="capitals")]).endswith("in accuracy on capitals")


def test_p_values_that_the_verdicts_go_by_are_shown() -> None:
    def table(*cells: RunDifference) -> list[list[str]]:
        result = RunComparison("A", "B", cells, "holm", 0.95, 42)
        (table,) = comparison_page(result, [], "").tables
        return [list(table.header), *table.texts()]

    two = cell(p_value=0.03, p_adjusted=0.06), cell("f1", p_value=0.04, p_adjusted=0.06)
    header, *rows = table(*two)
    assert header[-3:] == ["p", "p (Holm)", "B is"]
    assert [row[-3:] for row in rows] == [
        ["0.030", "0.060", "no significant difference"],
        ["0.040", "0.060", "no significant difference"],
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


def test_the_share_of_units_that_differ_is_told_once() -> None:
    cells = (cell(n_discordant=10), cell("f1", n_discordant=40))
    page = comparison_page(RunComparison("A", "B", cells, "holm", 0.95, 42), [], "")
    assert [note for note in page.notes if "differ on" in note] == [
        "A and B differ on 10 of 100 units (10 %) in accuracy"
    ]
