"""What a rescored run may replace, and what it says of the numbers before."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from eval_toolkit import score_predictions
from eval_toolkit.errors import ArtifactError
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.runs import Run, rescore
from eval_toolkit.runs.query_driver import outcomes_of
from eval_toolkit.tasks import CompletionSpec, Prompt, Task, run_task

FIXTURES = Path(__file__).parents[1] / "fixtures" / "first_edition" / "runs"
ROWS = [{"id": f"q{n}", "q": f"{n} + 1?", "a": str(n + 1)} for n in range(5)]


class Drawing(ScriptedModel):
    """A model that says the same of itself whatever it answers, as one with a temperature does."""

    def describe(self) -> dict[str, Any]:
        return {"name": "m", "kind": "drawing"}


def quiz() -> Task:
    return Task(
        "quiz",
        Prompt(instruction="{q}"),
        CompletionSpec(answer="a"),
        rows=ROWS,
        graders=["exact_match"],
    )


def run_of(answer: str, folder: Path) -> Run:
    run = run_task(quiz(), Drawing(lambda *_: answer, name="m"), folder).run
    assert run is not None
    return run


def test_the_answers_of_another_run_stay(tmp_path: Path) -> None:
    one, other = run_of("1", tmp_path / "a"), run_of("3", tmp_path / "b")
    with pytest.raises(ArtifactError, match="b: already contains a run; choose another folder"):
        rescore(one, tmp_path / "b", task=quiz())
    answers = [done.response.text for done in outcomes_of(Run.open(other.path))]
    assert answers == ["3"] * 5


def test_its_own_folder_and_one_of_before_may_be_written(tmp_path: Path) -> None:
    run = run_of("1", tmp_path / "a")
    for folder in (tmp_path / "again", tmp_path / "again", tmp_path / "a"):
        done = rescore(run, folder, task=quiz(), graders=["f1"])
        assert list(done.card) == ["f1"]


def test_thresholds_of_before_are_not_said_of_other_numbers(tmp_path: Path) -> None:
    rows = {"id": list("abcdef"), "label": [0, 1] * 3, "score": [0.1, 0.9, 0.4, 0.6, 0.7, 0.3]}
    run = score_predictions(rows, threshold=0.5, out=tmp_path / "r").run
    done = rescore(run, metrics=["brier"])
    assert not [name for name in done.results["config"] if name.startswith("threshold")]


def test_a_run_that_stopped_early_says_so(tmp_path: Path) -> None:
    run = Run.open(shutil.copytree(FIXTURES / "task-stopped", tmp_path / "r"))
    done = rescore(run, tmp_path / "again", metrics=["exact_match"])
    assert done.results["stopping"] == run.results["stopping"]
    assert any("stopped early" in note for note in done.notes)
