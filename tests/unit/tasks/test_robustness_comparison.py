"""What perturbations cost: paired differences, and the worst of all."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval_toolkit.analysis import compare_runs
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.inference import correct_p_values
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.runs import Run
from eval_toolkit.tasks import CompletionSpec, Prompt, Task, run_task
from eval_toolkit.tasks.perturbations import Perturbation, perturbed
from eval_toolkit.tasks.robustness_comparison import WORST, robustness

N = 60


def quiz() -> Task:
    rows = [{"id": f"q{i:02}", "q": f"What is word number {i}?", "a": f"w{i}"} for i in range(N)]
    answer = CompletionSpec(answer="a")
    return Task("quiz", Prompt(instruction="{q}"), answer, rows=rows, graders=["exact_match"])


def answering(right: set[int]) -> ScriptedModel:
    def answer(request: Any) -> str:
        number = int("".join(sign for sign in request.prompt[-1].content if sign.isdigit()))
        return f"w{number}" if number in right else "no"

    return ScriptedModel(answer)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("runs")
    asked = {
        "plain": (quiz(), set(range(50))),
        "upper": (perturbed(quiz(), Perturbation("upper")), set(range(5, 45))),
        "typos": (perturbed(quiz(), Perturbation("typos", 0.2)), set(range(10, 52))),
    }
    found = {}
    for name, (task, right) in asked.items():
        run = run_task(task, answering(right), folder / name).run
        assert run is not None
        found[name] = run
    return found


class TestRobustness:
    def test_differences_are_those_of_compare_runs(self, runs: dict[str, Run]) -> None:
        found = robustness(runs["plain"], [runs["upper"], runs["typos"]])
        assert found.perturbations == ("upper", "typos(0.2)")
        for name, other in (("upper", "upper"), ("typos(0.2)", "typos")):
            (alone,) = compare_runs(runs["plain"], runs[other]).cells
            cell = found[name, "exact_match"]
            assert (cell.delta, cell.ci_low, cell.ci_high, cell.p_value) == (
                alone.delta,
                alone.ci_low,
                alone.ci_high,
                alone.p_value,
            )
            assert cell.n_units == N

    def test_p_values_are_corrected_for_the_perturbations(self, runs: dict[str, Run]) -> None:
        found = robustness(runs["plain"], [runs["upper"], runs["typos"]])
        cells = [found[name, "exact_match"] for name in found.perturbations]
        plain = [cell.p_value for cell in cells]
        expected = correct_p_values(np.array(plain, dtype=float), method="holm")
        assert [cell.p_adjusted for cell in cells] == expected.tolist()
        assert cells[0].verdict == "worse"

    def test_the_worst_is_right_under_all(self, runs: dict[str, Run]) -> None:
        worst = robustness(runs["plain"], [runs["upper"], runs["typos"]])[WORST, "exact_match"]
        # Right in all three runs: 10 … 44, which are 35 of 60; plain 50 of 60.
        assert (worst.value_a, worst.value_b) == (50 / 60, 35 / 60)
        assert worst.delta == pytest.approx(-15 / 60)
        assert worst.ci_low is not None
        assert worst.ci_high is not None
        assert worst.ci_low < -15 / 60 < worst.ci_high < 0
        assert (worst.p_value, worst.verdict) == (None, "not tested")

    def test_names_can_be_given(self, runs: dict[str, Run]) -> None:
        found = robustness(runs["plain"], {"shouted": runs["upper"].path})
        assert found.perturbations == ("shouted",)
        rows = found.to_dict()["cells"]
        assert [row["perturbation"] for row in rows] == ["shouted", WORST]

    def test_equal_names_are_told_apart(self, runs: dict[str, Run], tmp_path: Path) -> None:
        again = run_task(
            perturbed(quiz(), Perturbation("upper", seed=1)), answering(set()), tmp_path / "again"
        ).run
        assert again is not None
        found = robustness(runs["plain"], [runs["upper"], again])
        assert found.perturbations == ("upper", "upper again")

    def test_mistakes_are_named(self, runs: dict[str, Run]) -> None:
        with pytest.raises(InvalidInputError, match="is empty"):
            robustness(runs["plain"], [])
        with pytest.raises(InvalidInputError, match="'worst' is reserved"):
            robustness(runs["plain"], {"worst": runs["upper"]})
        with pytest.raises(InvalidTypeError, match="`perturbed_runs`"):
            robustness(runs["plain"], "upper")
        with pytest.raises(MissingColumnError, match="there are 0 cells"):
            robustness(runs["plain"], [runs["upper"]])["lower", "exact_match"]
