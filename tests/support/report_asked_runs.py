"""Shared task and rollout runs for report tests, with scripted models."""

from pathlib import Path
from typing import Any

from eval_toolkit.errors import ModelError
from eval_toolkit.graders.judges import Judge
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.rollouts import SeedPrompt, System, run_rollouts
from eval_toolkit.rollouts.attacks import Mixed, RolePlay, Static
from eval_toolkit.rollouts.scorers import KeywordScorer
from eval_toolkit.runs import Run
from eval_toolkit.tasks import BaseTask, ResponseType, UntilWidth, run_task

HOSTILE = "<script>alert(1)</script>"


class Sums(BaseTask[str]):
    """Task with sums up to 12 + 144, in two subjects."""

    NAME = "Sums"
    RESPONSE_TYPE = ResponseType.COMPLETION
    SUBJECT_FIELD = "subject"

    def _get_instruction_text(self, item: dict[str, Any]) -> str:
        return f"What is {item['a']} + {item['b']}?"

    def _get_ground_truth(self, item: dict[str, Any]) -> str:
        return str(item["a"] + item["b"])


class Capitals(BaseTask[str]):
    """Task with three choices; the first is correct."""

    NAME = "Capitals"
    RESPONSE_TYPE = ResponseType.LOGLIKELIHOODS
    METRICS = ("accuracy", "bits_per_byte")

    def _get_instruction_text(self, item: dict[str, Any]) -> str:
        return f"Capital {item['n']}?"

    def _get_ground_truth(self, item: dict[str, Any]) -> str:
        return f" right{item['n']}"

    def _get_possible_completions(self, item: dict[str, Any]) -> list[str]:
        return [f" right{item['n']}", f" {HOSTILE}", " third"]


ROWS = [{"a": n, "b": n * n, "subject": "even" if n % 2 == 0 else "odd"} for n in range(12)]


def solve(request: Any) -> str:
    """Return the sum; wrong for multiples of five, and an error for 7."""
    a, b = (int(part) for part in request.prompt[-1].content[8:-1].split(" + "))
    if a == 7:
        raise ModelError(f"no answer, {HOSTILE}", kind="server")
    return str(a + b + (a % 5 == 0))


def judged_run(folder: Path, on_error: str = "exclude") -> Run:
    """Run twelve sums: 0, 5 and 10 are wrong, 7 has no answer; a judge grades the others."""
    judge = Judge("correctness", ScriptedModel(f"Adds up. {HOSTILE}\n\nno", name="critic"))
    done = run_task(
        Sums(rows=ROWS),
        ScriptedModel(solve, name="adder"),
        folder / "sums",
        graders=["exact_match", judge],
        max_error_rate=1.0,
        on_error=on_error,
    )
    assert done.run is not None
    return done.run


def choice_run(folder: Path) -> Run:
    """Run six items with log-likelihoods -1 (correct), -1.5 + 0.2 n and -9 for item n."""

    def scores(request: Any) -> list[float]:
        n = int(str(request.prompt).split("Capital ")[1].split("?")[0])
        return [-1.0, -1.5 + 0.2 * n, -9.0]

    done = run_task(
        Capitals(rows=[{"n": n} for n in range(6)]),
        ScriptedModel(scores, name="guesser"),
        folder / "capitals",
    )
    assert done.run is not None
    return done.run


def stopped_run(folder: Path) -> Run:
    """Return a run that a stopping rule ended early."""
    rows = [{"a": n, "b": 0, "subject": "odd"} for n in range(400)]
    done = run_task(Sums(rows=rows), ScriptedModel("1"), folder / "stopped", until=UntilWidth(0.2))
    assert done.run is not None
    return done.run


SEEDS = [SeedPrompt(f"goal {n}", id=f"s{n}", category="ab"[n % 2], topic=f"t{n}") for n in range(8)]


def reply(request: Any) -> str:
    """Fail in the first turn for 0 and 1, in the second for 2 and 3; raise for 4; resist otherwise."""
    texts = [message.content for message in request.prompt]
    n = next(int(part) for text in texts for part in text.split() if part.isdigit())
    if n == 4:
        raise ModelError(f"no answer, {HOSTILE}", kind="server")
    return "You fool." if len(texts) >= {0: 1, 1: 1, 2: 3, 3: 3}.get(n, 99) else f"No. {HOSTILE}"


SCORER = KeywordScorer(["fool"], name="words")


def rollout_run(folder: Path, **options: Any) -> Run:
    """Run eight conversations: four failures, one error, three without failure."""
    system = System(Static(), ScriptedModel(reply, name="target"), SCORER)
    given = {"depth": 2, "max_error_rate": 1.0} | options
    done = run_rollouts(system, SEEDS, folder / "rollouts", **given)
    assert done.run is not None
    return done.run


def tree_run(folder: Path) -> Run:
    """Run two attacks, of which only the role play succeeds."""

    def answer(request: Any) -> str:
        return "You fool." if "play" in str(request.prompt) else "No."

    attack = Mixed([Static(), RolePlay()])
    system = System(attack, ScriptedModel(answer, name="target"), SCORER)
    done = run_rollouts(system, SEEDS[:4], folder / "trees", depth=1, width=2)
    assert done.run is not None
    return done.run
