"""What a run of a task looks like: overall, by subject, and what errors could change."""

from collections.abc import Mapping
from typing import Any

from eval_toolkit.cli._show import Page, Table
from eval_toolkit.scorecards import MetricResult, Scorecard
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.planning import Estimate
from eval_toolkit.tasks.running import TaskRun

__all__ = ["estimate_page", "task_page"]

_SHOWN_BY_SUBJECT = 3
"""Metrics in the table of subjects; the others are in --json."""


def estimate_page(task: BaseTask[Any], planned: Estimate) -> Page:
    """Return what a run would ask."""
    most = planned.completion_tokens
    rows = [
        ["samples", f"{planned.n_samples:,}"],
        ["requests", f"{planned.n_requests:,}"],
        ["prompt tokens, estimated", f"{planned.prompt_tokens:,}"],
        ["completion tokens, at most", "no limit set" if most is None else f"{most:,}"],
    ]
    lead = [f"task {task.NAME}: this would be asked; nothing was"]
    return Page(
        "dry run",
        {"task": task.NAME, **planned.to_dict()},
        lead,
        [Table(["", ""], rows)],
        [f"tokens: {planned.how}"],
    )


def task_page(task: BaseTask[Any], done: TaskRun) -> Page:
    """Return the tables of a run."""
    config = done.results["config"]
    lead = [
        f"task {task.NAME}, model {config['model']['name']}: {_counted(done, config)}",
        f"{100 * config['confidence']:g} % intervals, seed {config['seed']}",
    ]
    tables = [_overall(done.card)]
    if done.card.slices:
        tables.append(_by_subject(done.card))
    if done.n_errors:
        tables.append(_errors(done.card))
    return Page(f"{task.NAME}", done.to_dict(), lead, tables, _notes(done))


def _counted(done: TaskRun, config: Mapping[str, Any]) -> str:
    units = len(set(done.records.unit_id.tolist()))
    parts = [f"{units:,} samples"]
    if config["attempts"] > 1:
        parts.append(f"{config['attempts']} attempts each")
    if done.card.slices:
        parts.append(f"{len(done.card.slices)} subjects")
    parts.append(f"{config['task']['num_fewshot']} examples")
    parts.append(f"format {config['formatter']}")
    return ", ".join(parts)


def _overall(card: Scorecard) -> Table:
    header = ["metric", "value", "interval", "std. error", "n", "errors", "status"]
    rows = [
        [
            name,
            _number(cell.value),
            _interval(cell),
            _number(cell.details.get("standard_error")),
            "" if cell.n_units is None else f"{cell.n_units:,}",
            str(cell.n_errors),
            cell.status + (f": {cell.reason}" if cell.reason else ""),
        ]
        for name, cell in card.items()
    ]
    return Table(header, rows)


def _by_subject(card: Scorecard) -> Table:
    shown = [name for name in card if name in next(iter(card.slices.values()))]
    shown = shown[:_SHOWN_BY_SUBJECT]
    rows = []
    for subject, part in card.slices.items():
        first = part[shown[0]]
        counts = [f"{first.n_units or 0:,}", str(first.n_errors)]
        rows.append([subject, *counts, *(_with_interval(part[name]) for name in shown)])
    left = len(next(iter(card.slices.values()))) - len(shown)
    title = "by subject" + (f" ({left} more metrics in --json)" if left > 0 else "")
    return Table(["subject", "n", "errors", *shown], rows, title)


def _errors(card: Scorecard) -> Table:
    """One line per metric that lacks samples: what it is, and what it could be."""
    policies = ("exclude", "as_zero", "worst", "best")
    rows = [
        [
            name,
            f"{100 * cell.details['error_rate']:.2f} %",
            *(_number(cell.details.get(policy)) for policy in policies),
        ]
        for name, cell in card.items()
        if "error_rate" in cell.details
    ]
    header = ["metric", "failed", "left out", "as zero", "at worst", "at best"]
    return Table(header, rows, "failed samples")


def _notes(done: TaskRun) -> list[str]:
    asked = done.n_requests - done.n_reused
    usage = done.usage
    told = f"{asked:,} requests asked, {done.n_reused:,} answers were there, {done.elapsed_s:.1f} s"
    tokens = usage.get("prompt_tokens", 0) + usage.get("completion_tokens", 0)
    if tokens:
        told += f", {tokens:,} tokens"
    if usage.get("cost"):
        told += f", cost {usage['cost']:.4g}"
    notes = [told, *done.notes]
    if done.n_errors:
        said = f"{done.n_errors:,} of {len(done.records):,} samples failed; the same command asks again"
        notes.append(said)
        notes += _why(done)
    if done.run is not None:
        notes.append(f"run {done.run.path}")
    return notes


def _why(done: TaskRun) -> list[str]:
    """Return the commonest reasons of failures."""
    reasons: dict[str, int] = {}
    seen: set[tuple[str, int]] = set()
    for column, status in done.records.status.items():
        for row in (status == "error").nonzero()[0].tolist():
            key = (done.records.unit_id[row], int(done.records.attempt[row]))
            if key not in seen:
                seen.add(key)
                why = done.records.reason[column][row] or "no reason given"
                reasons[why] = reasons.get(why, 0) + 1
    common = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:3]
    return [f"{count:,} × {why}" for why, count in common]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _interval(cell: MetricResult) -> str:
    return "" if cell.ci is None else f"[{cell.ci.ci_low:.3f}, {cell.ci.ci_high:.3f}]"


def _with_interval(cell: MetricResult) -> str:
    if cell.value is None or cell.status != "ok":
        return cell.status
    return f"{cell.value:.3f} {_interval(cell)}".rstrip()
