"""The value of a run under way: graded while it goes on, gone at its end, never in its way."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eval_toolkit.graders import ExactMatch
from eval_toolkit.inference import ConfidenceSequence
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.runs import Run, context
from eval_toolkit.runs.interim import SO_FAR, Grading, SoFar, ValueSoFar, read_so_far
from eval_toolkit.tasks import CompletionSpec, Prompt, Task, run_task

N = 30


@pytest.fixture(autouse=True)
def _looks_at_every_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "_WATCH_S", 0.0)
    monkeypatch.setattr(context, "_WATCH_SHARE", 0)


def watched(
    folder: Path, *, graders: Any = ("exact_match",), **options: Any
) -> tuple[Run, list[ValueSoFar | None]]:
    """Run a task, and note the value so far before every answer; every third answer is wrong."""
    seen: list[ValueSoFar | None] = []

    def answer(request: Any) -> str:
        seen.append(read_so_far(folder))
        n = int(request.prompt[-1].content)
        return str(n + (n % 3 == 0))

    rows = [{"id": f"q{n}", "n": str(n), **options.pop("more", {})} for n in range(N)]
    task = Task("quiz", Prompt(instruction="{n}"), CompletionSpec(answer="n"), rows=rows)
    model = ScriptedModel(answer, name="m", concurrency=1)
    done = run_task(task, model, folder, graders=list(graders), **options)
    assert done.run is not None
    return done.run, seen


def test_the_value_so_far_is_that_of_a_confidence_sequence(tmp_path: Path) -> None:
    run, seen = watched(tmp_path / "r")
    asked = [one for one in seen if one is not None]
    assert [one.n_units for one in asked] == list(range(10, N)), "once there are enough"
    records = run.records("quiz", "m")
    assert {one.metric for one in asked} == {"exact_match"}
    last = asked[-1]
    sequence = ConfidenceSequence()
    n_right = round(last.value * last.n_units)
    sequence.update([1.0] * n_right + [0.0] * (last.n_units - n_right))
    assert abs(records.columns["exact_match"].sum() - n_right) <= 1
    assert last.low < last.value < last.high
    assert last.n_planned == N
    assert not (run.path / SO_FAR).exists(), "gone once the run is complete"


@pytest.mark.parametrize("options", [{"order": "sequential"}, {"limit": None, "attempts": 2}])
def test_only_units_in_random_order_have_one(tmp_path: Path, options: dict[str, Any]) -> None:
    if options.get("order"):
        _, seen = watched(tmp_path / "r", order="file")
        assert set(seen) == {None}
        return
    _, seen = watched(tmp_path / "r", **options)
    counts = [one.n_units for one in seen if one is not None]
    assert counts
    assert max(counts) <= N, "first attempts alone"


def test_a_grader_that_breaks_ends_no_run(tmp_path: Path) -> None:
    class Breaks(ExactMatch):
        def grade(self, response: Any) -> Any:
            raise KeyError("a column that is not there")

    run, seen = watched(tmp_path / "r", graders=[Breaks()])
    assert all(one is None for one in seen)
    assert run.cells


def grading(grade: Callable[..., Any]) -> Grading:
    return Grading(metric="right", bounds=(0.0, 1.0), units=["a", "b", "c"], grade=grade)


def test_units_count_up_to_the_first_that_is_unfinished(tmp_path: Path) -> None:
    so_far = SoFar(tmp_path, grading(lambda values: dict(values)))
    so_far.add([("b", 1.0), ("c", 0.0)])  # type: ignore[list-item]
    assert read_so_far(tmp_path) is None
    so_far.add([("a", None)])  # type: ignore[list-item]
    found = read_so_far(tmp_path)
    assert found is not None
    assert (found.value, found.n_units, found.n_planned) == (0.5, 2, 3)


def test_an_error_in_grading_is_silent_and_final(tmp_path: Path) -> None:
    so_far = SoFar(tmp_path, grading(lambda values: {"a": 1.0} if values else 1 / 0))
    so_far.add([1])  # type: ignore[list-item]
    assert read_so_far(tmp_path) is not None
    so_far.add([])
    so_far.add([1])  # type: ignore[list-item]
    assert read_so_far(tmp_path) is None


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"metric": "m", "value": "x"}', "\x00", '{"value": 1e999}']
)
def test_a_malformed_file_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / SO_FAR).write_text(text)
    assert read_so_far(tmp_path) is None
    told = ValueSoFar(
        metric="m", value=0.5, ci_low=0.1, ci_high=0.9, confidence=0.95, n_units=2, n_planned=4
    )
    (tmp_path / SO_FAR).write_text(json.dumps(told.to_dict()))
    assert read_so_far(tmp_path) == told
