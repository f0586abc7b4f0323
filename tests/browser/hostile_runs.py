"""Small runs of every kind with a hostile text in every field, written by the library.

Each text in ``tests.support.hostile`` is used in each field of some run. The writers reject empty names,
and lone surrogates in tables, as `test_hostile_runs` asserts. Texts of 5 MB are not used as names that
results repeat hundreds of times, but as texts, answers, reasons and one id.
"""

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
from tests.support.hostile import HOSTILE, LONG, SHORT, one_name

from eval_toolkit import metric_specs as ms
from eval_toolkit.errors import ModelError, UndefinedMetricError
from eval_toolkit.graders import Grade
from eval_toolkit.harness import evaluate, save_run
from eval_toolkit.leakage import LeakageFinding
from eval_toolkit.models.requests import LoglikelihoodRequest
from eval_toolkit.models.responses import ResponseType
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.rollouts import SeedPrompt, System, run_rollouts
from eval_toolkit.runs import Run, write_run
from eval_toolkit.scorecards import Records
from eval_toolkit.slices import EvalSlice
from eval_toolkit.tasks import BaseTask, run_task

__all__ = ["HALVES", "NAME", "NAMES", "RUNS", "TEXTS", "names"]

HALVES = {name for name, text in HOSTILE.items() if re.search("[\ud800-\udfff]", text)}
"""Lone surrogates, which no table can contain."""
TEXTS = [text for name, text in HOSTILE.items() if name not in HALVES]
"""All valid texts."""
NAMES = [text for name, text in SHORT.items() if name not in HALVES and text]
NAMES.append(LONG["word of 20 000 letters"][:2_000])
"""All valid names, except long ones, which have separate runs."""
NAME = "<img src=x onerror=window.__pwned=1>{{7919*7907}}\u202e\x00\u0301"
"""Texts for fields that occur once per run."""
_MEGABYTES = LONG["5 MB of script"]


def scores(n: int) -> list[float]:
    return np.random.default_rng(7).random(n).round(3).tolist()


class Given:
    """Scorer that returns the given scores."""

    version = NAME

    def predict_proba(self, X: Any) -> list[float]:
        return scores(len(X))


class Metric:
    """Metric with any name that is defined, undefined with a reason, or fails with a reason."""

    def __init__(self, name: str, at: int, reason: str) -> None:
        self.name, self.at, self.reason = name, at, reason

    def compute(self, y_true: Any, y_score: Any) -> float:
        if self.at % 3 == 1:
            raise UndefinedMetricError(self.reason)
        if self.at % 3 == 2:
            raise RuntimeError(self.reason)
        return 0.5


class Check:
    """Leakage check with a finding in the first rows."""

    def __init__(self, name: str, message: str) -> None:
        self.name, self.message = name, message

    def validate(self, splits: Any) -> LeakageFinding:
        return LeakageFinding(
            check_name=self.name,
            severity="warning",
            drop_indices={"train": [0, 1], "test": [0]},
            evidence={self.name: [self.message], "pairs": [["train", 0, "test", 0]]},
            message=self.message,
            n_affected=3,
            code=self.name[:20],
        )


def table(texts: list[str], offset: int = 0) -> dict[str, list[Any]]:
    """Return columns of a slice with a hostile text, id, group and part in every row."""
    n = len(texts)
    turned = [NAMES[(at + offset) % len(NAMES)] for at in range(n)]
    return {
        "text": texts,
        "label": [at % 2 for at in range(n)],
        "id": [f"{text}{'' if at < len(NAMES) else at}" for at, text in enumerate(turned)],
        "group": turned[3:] + turned[:3],
        "part": [NAMES[at // 64 * 8] for at in range(n)],
    }


def columns() -> dict[str, Any]:
    return {"id_col": "id", "group_col": "group", "strata_col": "part"}


def metrics(folder: Path) -> Run:
    """Write a run with two scorers, a metric for every name, reasons, texts and leakage findings."""
    slices = {
        "train": EvalSlice("train", table(TEXTS, 5), NAME, **columns()),
        "test": EvalSlice("test", table(TEXTS), NAME, **columns()),
    }
    specs = [Metric(name, at, NAMES[at - 5]) for at, name in enumerate(NAMES)]
    result = evaluate(
        {"plain": Given(), NAME: Given()},
        slices,
        run_id=NAME,
        n_resamples=20,
        metrics=[ms.roc_auc, *specs],
        paired_diffs=[("plain", NAME)],
        extra_config=dict(zip(NAMES, [*NAMES[1:], NAMES[0]], strict=True)),
        leakage_checks=[Check(name, text) for name, text in zip(NAMES, NAMES[2:], strict=False)],
        on_leakage="record",
        eval_split_names=["test"],
    )
    return saved(result, folder, list(slices.values()))


def cells(folder: Path) -> Run:
    """Write a run with a slice for every name, and other names for scorer, metric, part and reason."""
    states = ({"status": "ok", "value": 0.5}, {"status": "skipped"}, {"status": "error"})
    n = len(NAMES)
    by_slice: dict[str, Any] = {}
    records = {}
    for at, name in enumerate(NAMES):
        scorer, metric, reason = (NAMES[(at + more) % n] for more in (11, 23, 37))
        state = states[at % 3]
        cell = {"value": None, "reason": None if at % 3 == 0 else reason, "n_units": 4, **state}
        by_slice[name] = {"by_scorer": {scorer: {metric: cell, "accuracy": cell}}}
        records[name, scorer] = Records.from_columns(
            {metric: [0.0, 1.0]},
            unit_id=[NAMES[(at + 41) % n], f"u{at}"],
            group=[NAMES[(at + 43) % n], "g"],
            slices={"part": [NAMES[(at + 47) % n], "rest"], NAMES[at % 5]: ["a", "b"]},
            status={metric: ["ok", state["status"]]},
            reason={metric: ["", "" if at % 3 == 0 else reason]},
        )
    results = {"schema_version": "v1", "run_id": "cells", "config": {}, "by_slice": by_slice}
    return write_run(folder, results=results, manifest={"run_id": "cells"}, records=records)


def long(folder: Path) -> Run:
    """Write a run with names, ids and reasons of 5 MB."""
    columns = {"text": [_MEGABYTES, "b", "c", "d"], "label": [0, 1, 0, 1]}
    columns |= {"id": [_MEGABYTES, "u2", "u3", "u4"], "group": [_MEGABYTES, "g2", "g3", "g4"]}
    one = EvalSlice("test", columns, id_col="id", group_col="group")
    specs = [Metric("reason", 1, _MEGABYTES)]
    result = evaluate(
        {"plain": Given()}, [one], run_id="long", n_resamples=20, metrics=[ms.roc_auc, *specs]
    )
    return saved(result, folder, [one])


def longest(folder: Path) -> Run:
    """Write a run whose slice, scorer and metric have names of 5 MB."""
    name = LONG["5 MB without a break"]
    cell = {"value": 0.5, "status": "ok", "n_units": 10}
    by_slice = {name: {"by_scorer": {name: {name: cell, "accuracy": cell}}}}
    results = {"schema_version": "v1", "run_id": "longest", "config": {}, "by_slice": by_slice}
    return write_run(folder, results=results, manifest={"run_id": "longest"})


def saved(result: Any, folder: Path, slices: list[EvalSlice]) -> Run:
    about = {"metadata": dict(itertools.pairwise(NAMES))}
    return save_run(result, folder, inputs=slices, **about)


class _Asked(BaseTask[str]):
    NAME = NAME
    ID_FIELD = "id"
    SUBJECT_FIELD = "subject"

    def _get_instruction_text(self, item: dict[str, Any]) -> str:
        return str(item["question"])

    def _get_system_prompt_text(self, item: dict[str, Any]) -> str:
        return str(item["name"])

    def _get_ground_truth(self, item: dict[str, Any]) -> str:
        return str(item["truth"])

    def _get_context(self, item: dict[str, Any]) -> Any:
        return {item["name"]: item["truth"]}


class Open(_Asked):
    RESPONSE_TYPE = ResponseType.COMPLETION


class Choosing(_Asked):
    RESPONSE_TYPE = ResponseType.LOGLIKELIHOODS

    def _get_possible_completions(self, item: dict[str, Any]) -> list[str]:
        return [item["truth"], item["name"], "right"]


class Named:
    """Grader with any name; every third grade is missing with a reason."""

    version = NAME

    def __init__(self, name: str) -> None:
        self.name = name

    def grade(self, response: Any) -> dict[str, Any]:
        reason = f"{self.name}{str(response.ground_truth)[:100]}"
        odd = len(reason) % 3
        grade = Grade.skipped(reason) if odd == 1 else 1.0
        if odd == 2:
            raise RuntimeError(reason)
        return {self.name: grade}


def items(texts: list[str]) -> list[dict[str, Any]]:
    """Return items with a text of each kind; ids and subjects are names."""
    names = [NAMES[at % len(NAMES)] for at in range(len(texts))]
    return [
        {
            "id": f"{name}{'' if at < len(NAMES) else at}",
            "subject": NAMES[at // 8 * 8 % len(NAMES)],
            "question": text or "an empty text",
            "name": names[at - 7],
            "truth": texts[at - 11] or "nothing",
        }
        for at, (name, text) in enumerate(zip(names, texts, strict=True))
    ]


def completions(folder: Path) -> Run:
    """Write a task run with completions; every fourth request fails with a hostile reason."""
    given = items(TEXTS)
    answers: dict[str, Any] = {}
    for at, item in enumerate(given):
        text = TEXTS[at - 3]
        answers[item["question"]] = (
            ModelError(text or "empty", kind="other") if at % 4 == 3 else text
        )
    model = ScriptedModel(answers, name=NAME)
    graders = [Named("plain"), Named(NAME)]
    run_task(
        Open(rows=given), model, folder, graders=graders, run_id=NAME, max_error_rate=1.0, seed=1
    )
    return Run.open(folder)


def choices(folder: Path) -> Run:
    """Write a task run with hostile choices."""
    short = [text for text in TEXTS if len(text) < 30_000]

    def likely(request: LoglikelihoodRequest) -> list[float]:
        return [-1.0 - at / 8 for at in range(len(request.continuations))]

    run_task(Choosing(rows=items(short)), ScriptedModel(likely, name=NAME), folder, run_id=NAME)
    return Run.open(folder)


class Bad:
    """Conversation scorer with any name."""

    threshold, version, higher_is_worse = 0.5, NAME, True

    def __init__(self, name: str) -> None:
        self.name = name

    def score(self, texts: Any) -> list[float]:
        return [len(text) % 7 / 6 for text in texts]


def rollouts(folder: Path) -> Run:
    """Write a rollout run with hostile goals, topics, categories, probes and responses."""
    texts = [text for text in TEXTS if text != _MEGABYTES]  # one of that length will do
    n = len(texts)
    seeds = [
        SeedPrompt(
            text if text.strip() else f"blank {at}",
            id=f"{NAMES[at % len(NAMES)]}{'' if at < len(NAMES) else at}",
            topic=NAMES[at % len(NAMES) - 5],
            category=NAMES[at // 16 * 16 % len(NAMES)],
            target=texts[at - 9][:1000],
            safe=at % 5 == 0,
        )
        for at, text in enumerate(texts)
    ]
    at_of = {seed.prompt: at for at, seed in enumerate(seeds)}

    def probe(states: Any) -> list[str]:
        return [texts[(at_of[s.goal] + 13) % n] or "nothing" for s in states]

    def respond(states: Any) -> list[str]:
        return [texts[(at_of[s.goal] + 29) % n] for s in states]

    system = System(probe, respond, [Bad(NAME), Bad("plain")])
    run_rollouts(system, seeds, folder, name=NAME, depth=1, run_id=NAME, max_error_rate=1.0)
    return Run.open(folder)


def names(folder: Path) -> None:
    """Write a tiny run with each hostile text as its id, and as its folder name if valid."""
    results = {"schema_version": "v1", "config": {}, "by_slice": {}}
    for at, name in enumerate(NAMES):
        where = folder / (f"{at}{name}" if one_name(name) else str(at))
        write_run(where, results={**results, "run_id": name}, manifest={"run_id": name})


RUNS = (metrics, cells, long, longest, completions, choices, rollouts)
"""Functions that write a single run."""
