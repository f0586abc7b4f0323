"""Cells, reasons and costs in words: what pages of runs have in common."""

from collections.abc import Iterable, Mapping
from typing import Any

from eval_toolkit.report.pages import Table
from eval_toolkit.report.words import number, value_and_ends
from eval_toolkit.scorecards import MetricResult, Records

__all__ = ["failures_table", "interval", "judged", "reasons", "told", "took", "with_interval"]


def interval(cell: MetricResult) -> str:
    """Return the ends of a cell's interval, empty where it has none."""
    return told(cell)[1]


def told(cell: MetricResult) -> tuple[str, str]:
    """Return the value and the interval of a cell, each empty where it has none."""
    ends = (None, None) if cell.ci is None else (cell.ci.ci_low, cell.ci.ci_high)
    return value_and_ends(cell.value, *ends)


def with_interval(cell: MetricResult) -> str:
    """Return a value with its interval, or why there is none."""
    if cell.value is None or cell.status != "ok":
        return cell.status
    return " ".join(told(cell)).rstrip()


def failures_table(
    cells: Mapping[str, MetricResult], title: str, *, zero: str = "as zero"
) -> Table:
    """Return one line per metric that lacks something: what it is, and what it could be.

    Parameters
    ----------
    cells : mapping of str to MetricResult
        By name; those of which nothing failed or was cut short have no line.
    title : str
        What failed.
    zero : str, default "as zero"
        What ``--on-error as_zero`` counts a failure as.
    """
    rows = [
        [
            name,
            f"{100 * cell.details['error_rate']:.2f} %" if "error_rate" in cell.details else "",
            *_under(cell.details),
            _in_any_case(cell.details.get("bounds_ci")),
        ]
        for name, cell in cells.items()
        if "error_rate" in cell.details or "censored" in cell.details
    ]
    return Table(
        ["metric", "failed", "left out", zero, "at worst", "at best", "in any case"], rows, title
    )


def _in_any_case(ends: list[float] | None) -> str:
    return "" if ends is None else f"[{number(ends[0])}, {number(ends[1])}]"


def _under(details: Mapping[str, Any]) -> list[str]:
    """Return the value under each policy; beside one that exists, the others have no bound."""
    found = [details.get(policy) for policy in ("exclude", "as_zero", "worst", "best")]
    none = "" if found[0] is None else "unbounded"
    return [number(found[0]), *(number(value) or none for value in found[1:])]


def took(done: Any) -> str:
    """Return who answered and what it took: now, and in all where that is another number."""
    replayed = getattr(done, "n_replayed", 0)
    parts = [f"{done.n_asked:,} requests asked"]
    parts += [f"{done.n_cached:,} from the cache"] if done.n_cached else []
    parts += [f"{replayed:,} replayed"] if replayed else []
    parts += [f"{done.n_reused:,} answers were there", f"{done.elapsed_s:.1f} s"]
    now, total = (
        usage.get("prompt_tokens", 0) + usage.get("completion_tokens", 0)
        for usage in (done.usage_now, done.usage)
    )
    if total:
        parts.append(f"{now:,} tokens" + ("" if now == total else f" now, {total:,} in all"))
    if reasoning := done.usage.get("reasoning_tokens", 0):
        parts[-1] += f" ({reasoning:,} of reasoning)"
    now, total = done.usage_now.get("cost", 0.0), done.usage.get("cost", 0.0)
    if total:
        rest = "" if now == total else f" now, {total:.4g} in all as recorded"
        parts.append(f"cost {now:.4g}{rest}")
    return ", ".join(parts)


def reasons(
    records: Records, columns: Iterable[str] | None = None, *, status: str = "error"
) -> list[str]:
    """Return the commonest reasons why records have no value, the first of each record."""
    told: dict[str, int] = {}
    seen: set[tuple[str, int]] = set()
    for column in records.status if columns is None else columns:
        for row in (records.status[column] == status).nonzero()[0].tolist():
            key = (records.unit_id[row], int(records.attempt[row]))
            if key not in seen:
                seen.add(key)
                why = records.reason[column][row] or "no reason given"
                told[why] = told.get(why, 0) + 1
    common = sorted(told.items(), key=lambda item: (-item[1], item[0]))[:3]
    return [f"{count:,} × {why}" for why, count in common]


def judged(judge: tuple[str, Mapping[str, Any]]) -> str:
    """Return who judged, and what it took."""
    name, told = judge
    usage = told["usage_now"]
    parts = [f"judge {name} ({told['model']}): {told['n_asked']:,} requests asked"]
    parts += [f"{told['n_reused']:,} verdicts were there"] if told["n_reused"] else []
    parts += [f"{told['n_failed_requests']:,} failed"] if told["n_failed_requests"] else []
    tokens = usage.get("prompt_tokens", 0) + usage.get("completion_tokens", 0)
    parts += [f"{tokens:,} tokens"] if tokens else []
    parts += [f"cost {usage['cost']:.4g}"] if usage.get("cost") else []
    return ", ".join(parts)
