"""``eval-toolkit robustness``: the library's paired differences, read from folders of runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.tasks import CompletionSpec, Perturbation, Prompt, Task, perturbed, run_task
from eval_toolkit.tasks import robustness as compared

Command = Callable[..., tuple[int, str, str]]
Json = Callable[..., Any]


def answer(request: Any) -> str:
    """Know the answer, unless shouted at about the first half."""
    text = request.prompt[-1].content
    number = int(text.split()[1])
    return "?" if text.startswith("SAY") and number < 20 else str(number)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A plain run, one in capitals and one in small letters; they are only read."""
    folder = tmp_path_factory.mktemp("runs")
    task = Task(
        "echo",
        Prompt(instruction="{q}"),
        CompletionSpec(answer="a"),
        rows=[{"q": f"Say {i}", "a": str(i)} for i in range(40)],
        graders=["exact_match"],
    )
    model = ScriptedModel(answer)
    made = {"plain": task, **{k: perturbed(task, Perturbation(k)) for k in ("upper", "lower")}}
    for name, one in made.items():
        run_task(one, model, folder / name)
    return {name: str(folder / name) for name in made}


def test_says_what_the_library_says(as_json: Json, runs: dict[str, str]) -> None:
    told = as_json("robustness", *runs.values(), "--seed", 3, "--resamples", 200)
    others = [runs["upper"], runs["lower"]]
    assert told == compared(runs["plain"], others, seed=3, n_resamples=200).to_dict()
    (upper,) = (c for c in told["cells"] if c["perturbation"] == "upper")
    assert upper["delta"] == -0.5  # half of the answers are lost to capitals


def test_prints_differences_and_the_worst(command: Command, runs: dict[str, str]) -> None:
    code, out, _ = command("robustness", *runs.values())
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert ["upper", "exact_match", "40", "1.000", "0.500", "-0.500"] in [x[:6] for x in lines]
    assert any(line[0:1] == ["upper"] and line[-1] == "worse" for line in lines)
    assert any(line[:5] == ["exact_match", "40", "1.000", "0.500", "-0.500"] for line in lines)
    assert "so it is not tested" in out


def test_names_and_metrics(as_json: Json, runs: dict[str, str]) -> None:
    told = as_json(
        *("robustness", runs["plain"], f"loud={runs['upper']}", "--metric", "exact_match"),
        *("--adjust", "none"),
    )
    assert told["perturbations"] == ["loud"]
    assert {cell["metric"] for cell in told["cells"]} == {"exact_match"}


def test_the_plain_run_is_plain(command: Command, runs: dict[str, str]) -> None:
    code, out, err = command("robustness", runs["upper"], runs["plain"])
    assert (code, out) == (2, "")
    assert "was run with upper; RUN must be the run with unperturbed questions" in err
    code, out, err = command("robustness", runs["plain"], runs["plain"])
    assert (code, out) == (2, "")
    assert "is the unperturbed run; pass a perturbed run" in err


def test_what_else_differs_is_noted(as_json: Json, runs: dict[str, str], tmp_path: Path) -> None:
    task = Task(
        "echo",
        Prompt(instruction="{q}"),
        CompletionSpec(answer="a"),
        rows=[{"q": f"Say {i}", "a": str(i)} for i in range(40)],
        graders=["exact_match"],
    )
    loud = perturbed(task, Perturbation("upper"))
    run_task(loud, ScriptedModel("7", name="scripted"), tmp_path / "other")
    run_task(task, ScriptedModel(answer), tmp_path / "again")
    told = as_json("robustness", runs["plain"], tmp_path / "other", tmp_path / "again")
    other, again = told["notes"]
    assert "other has a different model from the unperturbed run" in other
    assert "again is not marked as perturbed" in again
    assert as_json("robustness", runs["plain"], runs["upper"])["notes"] == []


def test_scores_of_a_corpus_are_compared(as_json: Json, tmp_path: Path) -> None:
    task = Task(
        "echo",
        Prompt(instruction="{q}"),
        CompletionSpec(answer="a"),
        rows=[{"q": f"Say {i}", "a": f"the number {i}"} for i in range(12)],
        graders=[{"grader": "chrf", "word_order": 2}],
    )
    for name, one in (("plain", task), ("upper", perturbed(task, Perturbation("upper")))):
        run_task(one, ScriptedModel("the number 1"), tmp_path / name)
    for more in ((), ("--metric", "chrf_corpus")):
        told = as_json("robustness", tmp_path / "plain", tmp_path / "upper", *more)
        (found,) = (cell for cell in told["cells"] if cell["metric"] == "chrf_corpus")
        assert (found["status"], found["delta"]) == ("ok", 0.0)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["a=UPPER", "LOWER"], "give a different name to every run (NAME=RUN), or to none"),
        (["worst=UPPER"], "the name 'worst' is reserved"),
        (["UPPER", "--metric", "exact_mach"], "did you mean exact_match?"),
        (["nowhere"], "nowhere"),
        ([], "Missing argument"),
    ],
)
def test_refuses_in_one_line(
    command: Command, runs: dict[str, str], args: list[str], message: str
) -> None:
    given = [a.replace("UPPER", runs["upper"]).replace("LOWER", runs["lower"]) for a in args]
    code, out, err = command("robustness", runs["plain"], *given)
    assert (code, out) == (2, "")
    assert message in err
