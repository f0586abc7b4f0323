"""Page for a task run: results overall and by subject, and the possible effect of errors."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click

from eval_toolkit._internal.display import CellLike, Number, Page, Rows, Status, Table
from eval_toolkit.cli._cells import (
    estimate,
    failures_table,
    judged,
    reasons,
    took,
    with_interval,
)
from eval_toolkit.cli._models import PRICES
from eval_toolkit.cli._suggestions import next_line
from eval_toolkit.models.servers import cost_text, the_currency
from eval_toolkit.runs import Outcome
from eval_toolkit.scorecards import Scorecard
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.planning import Estimate

_SHOWN_BY_SUBJECT = 3
"""Maximum number of metrics in the table of subjects; --json contains all."""


def estimate_page(
    task: BaseTask[Any],
    planned: Estimate,
    judging: Mapping[str, Mapping[str, Any]],
    *,
    stops: bool = False,
) -> Page:
    """Return the page of a dry run; ``stops`` indicates whether the run may stop early."""
    most = planned.completion_tokens
    rows: list[tuple[str, CellLike]] = [
        ("samples", planned.n_samples),
        ("requests", planned.n_requests),
        ("prompt tokens, estimated", planned.prompt_tokens),
        ("completion tokens, at most", "no limit set" if most is None else most),
    ]
    if planned.cost is not None:
        what = "for the prompts only" if most is None else "at most"
        rows.append((f"cost, {what}", cost_text(planned.cost)))
    for name, told in judging.items():
        rows.append((f"requests to the judge {name}", told["requests"]))
        rows.append(
            (
                f"tokens of the judge {name}, at most",
                told["prompt_tokens"] + told["completion_tokens"],
            )
        )
        if told["cost"] is not None:
            rows.append((f"cost of the judge {name}, at most", cost_text(told["cost"])))
    costs = [planned.cost, *(told["cost"] for told in judging.values())]
    total = None if None in costs else sum(one or 0.0 for one in costs)
    if judging and total is not None:
        rows.append(("cost in total, at most", cost_text(total)))
    notes = [f"tokens: {planned.how}"]
    if judging:
        notes.append(
            "judges: answers are assumed to have maximum length, or 256 tokens without a limit"
        )
    if stops:
        notes.append("upper bound: the run may stop early")
    lead = [f"task {task.NAME}: dry run, no request was sent"]
    payload = {"task": task.NAME, **planned.to_dict()}
    if judging:
        payload["judges"] = {name: told["requests"] for name, told in judging.items()}
        payload |= {"judge_estimates": dict(judging), "total_cost": total}
    payload["currency"] = the_currency()
    return Page("dry run", payload, lead, [Table(["", ""], rows)], notes)


def answers_page(done: Outcome) -> Page:
    """Return the page of graded answers from any source."""
    config = done.results["config"]
    lead = [
        f"{config['task']['name']}: {len(done.records):,} answers, graded without querying a model"
        + (", except for judges" if done.judges else ""),
        f"{100 * config['confidence']:g} % intervals, seed {config['seed']}",
    ]
    tables = [_overall(done.card, _n_cut(done))]
    tables += [failures_table(done.card, "answers without a grade")] if done.n_errors else []
    notes = _notes(done, asks=False)[1:]  # no request was sent
    return Page(config["task"]["name"], done.to_dict(), lead, tables, notes)


def task_page(done: Outcome, *, asks: bool = True) -> Page:
    """Return the page of a run; ``asks`` is whether repeating the run queries the model."""
    if PRICES in click.get_current_context().meta:
        done = priced(done)
    config = done.results["config"]
    name = config["task"]["name"]
    lead = [
        f"task {name}, model {config['model']['name']}: {_counted(done, config)}",
        f"{100 * config['confidence']:g} % intervals, seed {config['seed']}",
    ]
    if done.stopping is not None:
        lead.append(_stopped(done.stopping, config["until"]["scope"]))
    tables = [_overall(done.card, _n_cut(done))]
    if done.card.slices:
        tables.append(_by_subject(done.card))
    if done.n_errors:
        tables.append(failures_table(done.card, "failed samples"))
    return Page(name, done.to_dict(), lead, tables, _notes(done, asks))


def priced(done: Outcome) -> Outcome:
    """Return the outcome; if no cost was recorded, with the cost computed from --prices."""
    listed = click.get_current_context().meta.get(PRICES)
    prices = listed and listed.of(done.results["config"]["model"]["name"])
    if prices is None or done.usage["cost"] is not None:
        return done
    from eval_toolkit.models.prices import cost_of

    parts = ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens")
    cost = cost_of(prices, *(done.usage.get(name, 0) for name in parts))
    return replace(done, usage={**done.usage, "cost": cost})


def _stopped(told: Mapping[str, Any], scope: str) -> str:
    """Explain why the run stopped early, how many samples were saved, and what intervals mean."""
    used, total, beyond = told["n_used"], told["n_total"], told["n_beyond"]
    of = "" if scope == "population" else ", for the score on exactly these items,"
    held = f"the intervals{of} are valid at every look"
    if used == total:
        return f"not stopped early: {told['reason']}; {held}"
    late = f" ({beyond:,} more were in progress and are stored)" if beyond else ""
    return (
        f"stopped early, {used:,} of {total:,} samples count{late}, {told['n_saved']:,} saved: "
        f"{told['reason']}; {held}"
    )


def _counted(done: Outcome, config: Mapping[str, Any]) -> str:
    units = len(set(done.records.unit_id.tolist()))
    parts = [f"{units:,} samples"]
    if config["attempts"] > 1:
        parts.append(f"{config['attempts']} attempts each")
    if done.card.slices:
        parts.append(f"{len(done.card.slices)} subjects")
    parts.append(f"{config['task']['num_fewshot']} examples")
    parts.append(f"format {config['formatter']}")
    return ", ".join(parts)


def _n_cut(done: Outcome) -> str:
    """Return the number of truncated answers by finish reason, or an empty string."""
    cut = done.results.get("cut_answers") or {}
    return ", ".join(f"{n:,} cut ({name})" for name, n in cut.items() if name != "empty")


def _overall(card: Scorecard, cut: str = "") -> Table:
    """Return a table with one row per metric; ``cut`` is shown with the errors."""
    header = ["metric", "value", "interval", "SE", "n", "errors", "remark"]
    rows: Rows = [
        [
            name,
            *estimate(cell).split(),
            Number(cell.details.get("standard_error")),
            cell.n_units,
            f"{cell.n_errors:,}, {cut}" if cut else cell.n_errors,
            Status("" if cell.status == "ok" else cell.status, cell.reason),
        ]
        for name, cell in card.items()
    ]
    return Table(header, rows).without_empty(6)


def _by_subject(card: Scorecard) -> Table:
    shown = [name for name in card if name in next(iter(card.slices.values()))]
    shown = shown[:_SHOWN_BY_SUBJECT]
    rows: Rows = []
    for subject, part in card.slices.items():
        first = part[shown[0]]
        counts = first.n_units or 0, first.n_errors
        rows.append([subject, *counts, *(with_interval(part[name]) for name in shown)])
    left = len(next(iter(card.slices.values()))) - len(shown)
    title = "by subject" + (f" ({left} more metrics in --json)" if left > 0 else "")
    return Table(["subject", "n", "errors", *shown], rows, title)


def _notes(done: Outcome, asks: bool) -> list[str]:
    notes = [took(done), *map(judged, done.judges.items()), *done.notes]
    n_failed, of = done.n_failed_requests, f"of {len(done.records):,} samples"
    if n_failed:
        again = "; run the same command again to retry" if asks and not done.n_replayed else ""
        notes.append(f"{n_failed:,} {of} failed{again}")
    if done.n_errors > n_failed:
        how = "have no verdict" if done.judges else "not graded; grade again with --measure"
        notes.append(f"{done.n_errors - n_failed:,} {of} were answered but {how}")
    if done.n_errors:
        notes += reasons(done.records)
    if done.run is not None:
        notes.append(f"run {done.run.path}")
        notes.append(next_line("answers", str(done.run.path), "--wrong"))
    return notes
