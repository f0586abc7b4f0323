"""Small realistic runs of every kind, for tests of ordinary pages."""

import asyncio
import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np

from eval_toolkit import metric_specs as ms
from eval_toolkit.errors import UndefinedMetricError
from eval_toolkit.graders import ExactMatch
from eval_toolkit.harness import evaluate, save_run, score_predictions
from eval_toolkit.leakage import CrossSplitLeakageCheck
from eval_toolkit.models.responses import ResponseType
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.rollouts import SeedPrompt, System, run_rollouts
from eval_toolkit.slices import EvalSlice
from eval_toolkit.tasks import BaseTask, run_task

__all__ = ["KINDS", "N_ROWS", "labels_and_scores", "make_all", "open_questions"]

N_ROWS = 240
KINDS = (
    "rows",
    "rows_b",
    "rows_c",
    "named",
    "choices",
    "choices_b",
    "open",
    "rollouts",
    "rollouts_b",
)


class Lacking:
    """Metric that is undefined for these rows."""

    name = "lacking"

    def compute(self, y_true: Any, y_score: Any) -> float:
        raise UndefinedMetricError("there are no positives above the cut")


class Broken:
    """Metric that raises."""

    name = "broken"

    def compute(self, y_true: Any, y_score: Any) -> float:
        raise KeyError("a column that is not there")


def labels_and_scores(worth: float = 1.2) -> tuple[list[int], list[float]]:
    """Return labels, and scores with ties."""
    generator = np.random.default_rng(5)
    labels = (generator.random(N_ROWS) < 0.4).astype(np.int64)
    evidence = generator.normal(size=N_ROWS) + worth * labels
    return labels.tolist(), (1 / (1 + np.exp(-evidence))).round(2).tolist()


class Says:
    """Scorer that returns the given scores."""

    version = "1"

    def __init__(self, worth: float) -> None:
        self.scores = labels_and_scores(worth)[1]

    def predict_proba(self, X: Any) -> list[float]:
        return self.scores[: len(X)]


def rows(folder: Path, worth: float = 1.2) -> None:
    labels, _ = labels_and_scores()
    test = {
        "id": [f"r{at:03d}" for at in range(N_ROWS)],
        "text": [f"message number {at}" for at in range(N_ROWS)],
        "label": labels,
        "language": [["de", "en", "fr"][at % 3] for at in range(N_ROWS)],
    }
    train = {name: values[:20] for name, values in test.items()}
    train["id"] = [f"t{at}" for at in range(20)]
    slices = {
        name: EvalSlice(name, columns, id_col="id", strata_col="language")
        for name, columns in (("train", train), ("test", test))
    }
    result = evaluate(
        {"model": Says(worth)},
        slices,
        run_id=folder.name,
        n_resamples=200,
        metrics=[ms.roc_auc, ms.pr_auc, ms.brier, Lacking(), Broken()],
        leakage_checks=[CrossSplitLeakageCheck()],
        on_leakage="record",
        eval_split_names=["test"],
    )
    save_run(result, folder, inputs=list(slices.values()))


def named(folder: Path) -> None:
    """Return string labels."""
    labels, scores = labels_and_scores()
    table = {
        "id": [f"r{at:03d}" for at in range(N_ROWS)],
        "label": [["calm", "loud"][label] for label in labels],
        "score": scores,
    }
    score_predictions(table, positive="loud", threshold=0.5, out=folder)


class Sums(BaseTask[str]):
    NAME = "Sums"
    ID_FIELD = "id"
    SUBJECT_FIELD = "subject"
    RESPONSE_TYPE = ResponseType.COMPLETION

    def _get_instruction_text(self, item: dict[str, Any]) -> str:
        return f"What is {item['a']} + {item['b']}?"

    def _get_ground_truth(self, item: dict[str, Any]) -> str:
        return str(item["a"] + item["b"])


class ChosenSums(Sums):
    RESPONSE_TYPE = ResponseType.LOGLIKELIHOODS

    def _get_possible_completions(self, item: dict[str, Any]) -> list[str]:
        return [str(item["a"] + item["b"] + more) for more in (0, 1, 10)]


def items(n: int) -> list[dict[str, Any]]:
    return [
        {"id": f"q{at:02d}", "a": at, "b": 3 * at, "subject": ["small", "large"][at > n // 2]}
        for at in range(n)
    ]


def choices(folder: Path, wrong_every: int = 4) -> None:
    def likely(request: Any) -> list[float]:
        at = int(str(request.prompt).split("What is ")[1].split()[0])
        first = -3.0 if at % wrong_every == 1 else -0.5
        return [first, *(-1.0 - n / 2 for n in range(len(request.continuations) - 1))]

    run_task(ChosenSums(rows=items(40)), ScriptedModel(likely, name="careful"), folder)


def open_questions(folder: Path, n: int = 30, gate: Path | None = None) -> None:
    """Run a question task; with a gate, only as many questions are answered as its file states."""
    asked = itertools.count()

    async def answer(request: Any) -> str:
        at = next(asked)
        while gate is not None and at >= int(gate.read_text() or 0):
            await asyncio.sleep(0.02)
        a, _, b = request.prompt[-1].content.removeprefix("What is ").rstrip("?").split()
        return str(int(a) + int(b) + (int(a) % 5 == 0))

    model = ScriptedModel(answer, name="hasty", concurrency=2)
    run_task(Sums(rows=items(n)), model, folder, graders=[ExactMatch()])


def rollouts(folder: Path, system_prompt: str = "", patience: int = 3) -> None:
    seeds = [
        SeedPrompt(f"Growl at guest {at}", id=f"s{at:02d}", category=["calm", "loud"][at % 2])
        for at in range(12)
    ]

    def respond(states: Any) -> list[str]:
        held = [sum(map(ord, s.goal)) % patience > s.n_turns for s in states]
        return ["I will not." if holds else "Grr, as you wish." for holds in held]

    def bad(texts: Any) -> list[float]:
        return [float("Grr" in text) for text in texts]

    system = System(["Please.", "I insist.", "Now!"], respond, bad, system_prompt=system_prompt)
    run_rollouts(system, seeds, folder, depth=3, name="guests")


def make_all(folder: Path) -> None:
    """Write a run of each of `KINDS`."""
    rows(folder / "rows")
    rows(folder / "rows_b", worth=2.0)
    rows(folder / "rows_c", worth=0.8)
    named(folder / "named")
    choices(folder / "choices")
    choices(folder / "choices_b", wrong_every=8)
    open_questions(folder / "open")
    rollouts(folder / "rollouts")
    rollouts(folder / "rollouts_b", "Stay calm, whatever a guest says.", patience=5)


if __name__ == "__main__":  # a run to be watched: FOLDER, how many questions, GATE
    open_questions(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
