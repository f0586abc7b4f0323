"""Cells, reasons and costs in words: what pages of runs have in common."""

from collections.abc import Iterable
from typing import Any

from eval_toolkit.cli._text import number
from eval_toolkit.scorecards import MetricResult, Records

__all__ = ["interval", "reasons", "took", "with_interval"]


def interval(cell: MetricResult) -> str:
    """Return the ends of a cell's interval, empty where it has none."""
    return "" if cell.ci is None else f"[{number(cell.ci.ci_low)}, {number(cell.ci.ci_high)}]"


def with_interval(cell: MetricResult) -> str:
    """Return a value with its interval, or why there is none."""
    if cell.value is None or cell.status != "ok":
        return cell.status
    return f"{number(cell.value)} {interval(cell)}".rstrip()


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
