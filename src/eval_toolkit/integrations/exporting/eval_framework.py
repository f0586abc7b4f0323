"""Export to eval-framework's output files."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from eval_toolkit.artifacts import json_bytes
from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.integrations.exporting.answers import (
    Answer,
    Answers,
    UnitMetric,
    answers_of,
)
from eval_toolkit.integrations.exporting.cells import (
    all_blocks,
    as_mapping,
    begun_at,
    config_of,
    origin_of,
    unrepresented_data,
)
from eval_toolkit.integrations.exporting.names import file_names
from eval_toolkit.runs import Run
from eval_toolkit.runs.kind_display import kind_named

_NO_SUBJECT = "no_subject"
_Row = dict[str, Any]


def eval_framework_files(run: Run) -> dict[str, bytes]:
    """Return a run in eval-framework's format: one result per answer and metric, and their means.

    ``Average M`` is the metric's mean over subjects with equal weight, and ``StdErr M`` its
    standard error. The run's own numbers, with intervals, status and reasons, are stored under
    ``eval_toolkit`` in ``metadata.json``, together with the unit of each ``id``.

    Metrics that are not means over samples are omitted. If there are several models or tasks, each
    pair has its own folder.

    Examples
    --------
    >>> import json, tempfile
    >>> from eval_toolkit.models.scripted import ScriptedModel
    >>> from eval_toolkit.tasks import CompletionSpec, Prompt, Task, run_task
    >>> task = Task("quiz", Prompt(instruction="{q}"), CompletionSpec(answer="a"),
    ...     rows=[{"id": "q1", "q": "2 + 2?", "a": "4"}], graders=["exact_match"])
    >>> run = run_task(task, ScriptedModel("4"), tempfile.mkdtemp() + "/r").run
    >>> json.loads(eval_framework_files(run)["aggregated_results.json"])["Average exact_match"]
    1.0
    """
    if kind_named(run.kind).words.multi_turn:
        raise InvalidInputError(
            f"{run.path}: eval-framework's format has no conversations; export rollouts to astra or "
            "every-eval-ever"
        )
    found = answers_of(run, all_blocks(run))
    if not found:
        raise ArtifactError(f"{run.path}: the run has no records, so it has no samples to export")
    useful = [one for one in found if one.plain_metrics]
    if not useful:
        raise InvalidInputError(
            f"{run.path}: eval-framework's format supports only means over samples, and the run "
            "has no such metric; export it to lm-eval, csv or predictions"
        )
    folders = file_names(f"{one.block.scorer}/{one.block.slice}" for one in useful)
    files: dict[str, bytes] = {}
    for answers in useful:
        folder = folders[f"{answers.block.scorer}/{answers.block.slice}"] + "/"
        for name, content in _files(run, answers).items():
            files[(folder if len(useful) > 1 else "") + name] = content
    return files


def _files(run: Run, answers: Answers) -> dict[str, bytes]:
    places = _places(answers)
    told = list(answers.records_of())
    output = [_output(answers, unit, answer, places[row]) for row, unit, answer in told]
    results = [
        _result(run, answers, metric, (row, unit, answer), places[row])
        for metric in answers.plain_metrics
        for row, unit, answer in told
    ]
    return {
        "metadata.json": json_bytes(_metadata(run, answers, places), sort_keys=True),
        "output.jsonl": b"".join(json_bytes(line, indent=None) for line in output),
        "results.jsonl": b"".join(json_bytes(line, indent=None) for line in results),
        "aggregated_results.json": json_bytes(_aggregated(results)),
    }


def _places(answers: Answers) -> list[tuple[str, int]]:
    """Return the subject and index of each record; eval-framework numbers items within subjects."""
    subjects = answers.records.slices.get("subject")
    counts: dict[str, int] = {}
    places = []
    for row in range(len(answers.records)):
        subject = _NO_SUBJECT if subjects is None else str(subjects[row])
        counts[subject] = counts.get(subject, -1) + 1
        places.append((subject, counts[subject]))
    return places


def _truth(answers: Answers, unit: str) -> Any:
    right = answers.right_texts(unit)
    return None if not right else right[0] if len(right) == 1 else right


def _output(answers: Answers, unit: str, answer: Answer, place: tuple[str, int]) -> _Row:
    """Return a ``Completion``, or a ``Loglikelihood`` if choices were scored."""
    asked, answered = answer.tokens
    head: _Row = {"id": place[1], "subject": place[0], "ground_truth": _truth(answers, unit)}
    head |= {
        "prompt": answer.prompt_text,
        "prompt_sequence_positions": asked,
        "concat_compression": None,
        "error": _error(answer.error),
    }
    if answer.choices:
        # one entry per text, as in eval-framework; duplicate choices are merged
        likelihoods = {text: number for text, number, _ in answer.choices if math.isfinite(number)}
        return {**head, "loglikelihoods": likelihoods, "loglikelihoods_sequence_positions": {}}
    text = answer.text or ""
    return {
        **head,
        "messages": _with_reply(answer.messages, text) or None,
        "completion": text,
        "raw_completion": text,
        "raw_completion_sequence_positions": answered,
        "context": None,
    }


def _with_reply(messages: Sequence[Mapping[str, str]], text: str) -> list[dict[str, str]]:
    """Append the reply to a conversation, or to its trailing assistant message if there is one."""
    told = [dict(message) for message in messages]
    if told and told[-1]["role"] == "assistant":
        told[-1]["content"] += text
    elif told:
        told.append({"role": "assistant", "content": text})
    return told


def _error(message: str) -> _Row | None:
    if not message:
        return None
    kind, _, said = message.partition(": ")
    return {"error_class": kind if said else "Error", "message": said or message, "traceback": ""}


def _result(
    run: Run,
    answers: Answers,
    metric: UnitMetric,
    record: tuple[int, str, Answer],
    place: tuple[str, int],
) -> _Row:
    row, unit, answer = record
    name = metric.cell.name
    column = metric.spec.column
    status = str(answers.records.status[column][row])
    reason = str(answers.records.reason[column][row]) if column in answers.records.reason else ""
    plain, _, key = name.partition("/")
    truth = _truth(answers, unit)
    return {
        "id": place[1],
        "subject": place[0],
        "num_fewshot": int(_task(run).get("num_fewshot") or 0),
        "llm_name": answers.block.scorer,
        "task_name": answers.block.slice,
        "metric_class_name": plain,
        "metric_name": plain,
        "key": key or None,
        "value": float(answers.records.columns[column][row]) if status == "ok" else None,
        "higher_is_better": metric.cell.higher_is_better is not False,
        "prompt": answer.prompt_text,
        "response": str(truth or "") if answer.choices else answer.text or "",
        "llm_judge_prompt": None,
        "llm_judge_response": None,
        "code_execution_trace": None,
        "error": _error(reason or answer.error or "no value") if status == "error" else None,
    }


def _task(run: Run) -> Mapping[str, Any]:
    return as_mapping(config_of(run).get("task"))


def _metadata(run: Run, answers: Answers, places: Sequence[tuple[str, int]]) -> _Row:
    task = _task(run)
    begun, origin = begun_at(run), origin_of(run)
    took = run.manifest.get("wall_clock_seconds")
    units = zip(answers.records.unit_id.tolist(), answers.records.attempt.tolist(), strict=True)
    return {
        "config": config_of(run),
        "llm_name": answers.block.scorer,
        "task_name": answers.block.slice,
        "num_fewshot": int(task.get("num_fewshot") or 0),
        "language": task.get("language"),
        "metrics": [one.cell.name for one in answers.plain_metrics],
        "primary_metrics": [answers.plain_metrics[0].cell.name],
        "eval_framework_version": (origin.version or None)
        if origin and origin.tool == "eval-framework"
        else None,
        "task_output_dir": None,
        "start_time": None if begun is None else begun.isoformat(),
        "end_time": None,
        "total_time": None if origin else took,
        "task_metadata": dict(task),
        "eval_toolkit": {
            **unrepresented_data(run, [answers.block]),
            "units": [
                {"subject": subject, "id": number, "unit_id": str(unit), "attempt": int(attempt)}
                for (subject, number), (unit, attempt) in zip(places, units, strict=True)
            ],
        },
    }


# --- means, as computed by eval-framework ---------------------------------------------------------


def _aggregated(results: Sequence[_Row]) -> dict[str, float | None]:
    told: dict[str, float | None] = {}
    for name in dict.fromkeys(row["metric_name"] for row in results):
        rows = [row for row in results if row["metric_name"] == name]
        told |= _means(name, "", rows)
        for part in ("key", "subject"):
            names = list(dict.fromkeys(row[part] for row in rows))
            for one in names if len(names) > 1 else ():
                told |= _means(name, f" - {one}", [row for row in rows if row[part] == one])
    return told


def _means(name: str, suffix: str, rows: Sequence[_Row]) -> dict[str, float | None]:
    """Return the statistics of a metric over rows, grouped by key and subject."""
    free = [row for row in rows if row["error"] is None]
    n = sum(row["value"] is not None for row in free)
    told = {
        f"ErrorFreeRatio {name}{suffix}": len(free) / len(rows),
        f"Average {name}{suffix}": _over_groups(free, fmean),
        f"StdErr {name}{suffix}": None,
        f"NumSamples {name}{suffix}": float(n),
    }
    if len(free) < len(rows):
        failed = [row if row["error"] is None else {**row, "value": 0.0} for row in rows]
        told[f"Average {name}{suffix} (including Errors)"] = _over_groups(failed, fmean)
    spread = _over_groups(free, stdev, least=2)
    if spread is not None:
        told[f"StdErr {name}{suffix}"] = spread / math.sqrt(n)
    return told


def _over_groups(rows: Sequence[_Row], of: Any, least: int = 1) -> float | None:
    """Return the mean over groups of a statistic; groups without values are skipped."""
    groups: dict[Any, list[float]] = {}
    for row in rows:
        if row["value"] is not None:
            groups.setdefault((row["key"], row["subject"]), []).append(row["value"])
    found = [of(values) for values in groups.values() if len(values) >= least]
    return fmean(found) if found else None
