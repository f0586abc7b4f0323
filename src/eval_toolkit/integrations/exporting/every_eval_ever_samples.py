"""Samples of a run in the Every Eval Ever format, one row per sample and metric."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from eval_toolkit.integrations.exporting.answers import (
    Answer,
    Answers,
    UnitMetric,
    text_sha256,
)
from eval_toolkit.report.cells import Block
from eval_toolkit.rollouts.graphs import Graph
from eval_toolkit.rollouts.turns import TURNS, rollouts_of

SCHEMA = "instance_level_eval_0.2.2"
_NO_VERDICT = "the score is not binary: false means that it is not the best possible score"
_Row = dict[str, Any]


def sample_rows(
    answers: Answers, head: Mapping[str, str], result_id: Callable[[Block, str], str]
) -> Iterator[_Row]:
    """Yield a row for every attempt and every metric that is a mean over samples.

    ``head`` contains ``evaluation_id`` and ``model_id``; ``result_id`` returns the id of a block's
    metric in the results. Attempts without a value are omitted, because a row requires a
    score. A failed attempt that counts as a failure has both a score and an error.
    """
    said = _conversations(answers)
    metrics = answers.mean_metrics
    for row, unit, answer in answers.records_of():
        spoken = said.get((unit, answer.attempt))
        if said and not spoken:  # a conversation that never started has no messages
            continue
        about = _about(answers, unit, answer, spoken)
        for metric in metrics:
            if not metric.known[row]:
                continue
            yield {
                "schema_version": SCHEMA,
                **head,
                "evaluation_name": answers.block.slice,
                "evaluation_result_id": result_id(answers.block, metric.cell.name),
                **about,
                **({} if spoken else _answered(answers, row, answer, metric)),
                "error": answer.error or _reason(answers, row, metric) or None,
                "evaluation": _evaluation(metric, float(metric.rows[row]), spoken),
                "metadata": _metadata(answers, row, verdict=_is_verdict(metric)),
            }


def _about(answers: Answers, unit: str, answer: Answer, spoken: Sequence[_Row] | None) -> _Row:
    """Return the fields of a row that do not depend on the metric."""
    choices = answer.choices
    right = answers.right_texts(unit)
    raw = answers.question(unit, answer) or answer.prompt_text
    if spoken:
        raw = raw or str(spoken[0]["content"] or "")
    given: _Row = {"raw": raw, "reference": right}
    if answer.prompt_text:
        given["formatted"] = answer.prompt_text
    if choices:
        given["choices"] = [text for text, _, _ in choices]
    asked, answered = answer.tokens
    told: _Row = {
        "sample_id": unit,
        "sample_hash": text_sha256(raw + "".join(right)) if raw else None,
        "interaction_type": "multi_turn" if spoken else "single_turn",
        "input": given,
        "output": None,
        "messages": list(spoken) if spoken else None,
        "answer_attribution": [],
    }
    if asked is not None and answered is not None:
        told["token_usage"] = {
            "input_tokens": asked,
            "output_tokens": answered,
            "total_tokens": asked + answered,
        }
    return told


def _answered(answers: Answers, row: int, answer: Answer, metric: UnitMetric) -> _Row:
    """Return the output of an attempt, and the part of it that was graded."""
    if not answer.choices:
        scores = answers.records.columns.get("score")
        if answer.text is not None:
            return {"output": {"raw": [answer.text]}}
        return {"output": {"raw": [] if scores is None else [repr(float(scores[row]))]}}
    taken = _taken(answers, row, answer, metric.spec.column)
    if taken is None:
        return {"output": {"raw": [repr(number) for _, number, _ in answer.choices]}}
    told = {
        "turn_idx": 0,
        "source": "output.raw",
        "extracted_value": taken[0],
        "extraction_method": taken[1],
        "is_terminal": True,
    }
    return {"output": {"raw": [taken[0]]}, "answer_attribution": [told]}


def _taken(answers: Answers, row: int, answer: Answer, column: str) -> tuple[str, str] | None:
    """Return the choice that was graded, and how it was selected; None if unknown."""
    kept = "choice" + column.removeprefix("accuracy")
    if column.startswith("accuracy") and _has(answers, kept, row):
        at = int(answers.records.columns[kept][row])
        by = column.removeprefix("accuracy_norm_")
        how = "largest log-likelihood" + ("" if by == column else f" over {by}")
        return answer.choices[at][0], how
    if column in ("acc", "accuracy"):
        return max(answer.choices, key=lambda choice: choice[1])[0], "largest log-likelihood"
    return None


def _has(answers: Answers, column: str, row: int) -> bool:
    states = answers.records.status.get(column)
    return states is not None and bool(states[row] == "ok")


def _reason(answers: Answers, row: int, metric: UnitMetric) -> str:
    """Return the reason why a record counts as failed; "" if it does not."""
    column = metric.spec.column
    if answers.records.status[column][row] == "ok":
        return ""
    reasons = answers.records.reason.get(column)
    return "failed" if reasons is None else str(reasons[row]) or "failed"


def _evaluation(metric: UnitMetric, score: float, spoken: Sequence[_Row] | None) -> _Row:
    best = 0.0 if metric.cell.higher_is_better is False else 1.0
    told: _Row = {"score": score, "is_correct": score == best}
    if spoken:
        told["num_turns"] = max(1, sum(message["role"] == "assistant" for message in spoken))
    return told


def _is_verdict(metric: UnitMetric) -> bool:
    """Return whether a metric is binary on all samples."""
    return set(metric.rows[metric.known].tolist()) <= {0.0, 1.0}


def _metadata(answers: Answers, row: int, *, verdict: bool) -> dict[str, str]:
    records = answers.records
    told = {name: str(values[row]) for name, values in records.slices.items()}
    told["attempt"] = str(int(records.attempt[row]))
    if records.content_hash[row]:
        told["content_hash"] = str(records.content_hash[row])
    if records.group[row] != records.unit_id[row]:
        told["group"] = str(records.group[row])
    if not verdict:
        told["is_correct"] = _NO_VERDICT
    return told


def _conversations(answers: Answers) -> dict[tuple[str, int], list[_Row]]:
    """Return the messages of rollouts along the first branch; empty for other runs."""
    run = answers.run
    if TURNS not in run.manifest["artifacts"]:
        return {}
    return {(graph.unit_id, graph.attempt): list(_messages(graph)) for graph in rollouts_of(run)}


def _messages(graph: Graph[Any, Any]) -> Iterator[_Row]:
    path = graph.first_path()
    for at, message in enumerate(graph.conversation(path[-1]) if path else ()):
        yield {"turn_idx": at, "role": str(message.role.value), "content": message.content}
