"""Format metric values, reasons and costs for pages about runs."""

from collections.abc import Iterable, Mapping
from typing import Any

from eval_toolkit._internal.display import (
    Cell,
    Estimate,
    Interval,
    Number,
    Rows,
    Share,
    Status,
    Table,
)
from eval_toolkit.scorecards import MetricResult, Records


def estimate(cell: MetricResult, spec: str = "") -> Estimate:
    """Return a cell's value and interval; either may be missing."""
    low, high = (None, None) if cell.ci is None else (cell.ci.ci_low, cell.ci.ci_high)
    return Estimate(cell.value, low, high, spec)


def with_interval(cell: MetricResult) -> Cell:
    """Return a value with its interval, or the status of a cell without a value."""
    if cell.value is None or cell.status != "ok":
        return Status(cell.status)
    return estimate(cell)


def failures_table(
    cells: Mapping[str, MetricResult], title: str, *, zero: str = "as zero"
) -> Table:
    """Return a table of the metrics affected by failed samples, with a value per failure policy.

    Cells without failures are omitted. ``zero`` is the header of the column for ``--on-error
    as_zero``.
    """
    rows: Rows = [
        [
            name,
            Share(cell.details.get("error_rate"), ".2f%"),
            *_under(cell.details),
            Interval(*(cell.details.get("bounds_ci") or (None, None))),
        ]
        for name, cell in cells.items()
        if "error_rate" in cell.details or "censored" in cell.details
    ]
    return Table(
        ["metric", "failed", "excluded", zero, "at worst", "at best", "any outcome"], rows, title
    )


def _under(details: Mapping[str, Any]) -> list[Cell]:
    """Return the metric's value under each failure policy."""
    first, *rest = (Number(details.get(name)) for name in ("exclude", "as_zero", "worst", "best"))
    return [first, *(one or Status("unbounded" if first else "") for one in rest)]


def took(done: Any) -> str:
    """Describe the requests, tokens and cost of this command and in total."""
    from eval_toolkit.models.servers import cost_text

    replayed = getattr(done, "n_replayed", 0)
    parts = [f"{done.n_asked:,} requests sent"]
    parts += [f"{done.n_cached:,} from the cache"] if done.n_cached else []
    parts += [f"{replayed:,} replayed"] if replayed else []
    parts += [f"{done.n_reused:,} cached answers", f"{done.elapsed_s:.1f} s"]
    now, total = (
        usage.get("prompt_tokens", 0) + usage.get("completion_tokens", 0)
        for usage in (done.usage_now, done.usage)
    )
    if total:
        parts.append(f"{now:,} tokens" + ("" if now == total else f" now, {total:,} in total"))
    if reasoning := done.usage.get("reasoning_tokens", 0):
        parts[-1] += f" ({reasoning:,} for reasoning)"
    now, total = (usage.get("cost") or 0.0 for usage in (done.usage_now, done.usage))
    if total:
        rest = "" if now == total else f" now, {cost_text(total)} in total"
        parts.append(f"cost {cost_text(now)}{rest}")
    judging = sum(told["usage"].get("cost") or 0.0 for told in done.judges.values())
    if total and judging:
        parts.append(f"with judges {cost_text(total + judging)}")
    return ", ".join(parts)


def reasons(
    records: Records, columns: Iterable[str] | None = None, *, status: str = "error"
) -> list[str]:
    """Return the most frequent reasons for missing values, counting each record once."""
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
    """Describe the judge models and the cost of judging."""
    name, told = judge
    usage = told["usage_now"]
    parts = [f"judge {name} ({told['model']}): {told['n_asked']:,} requests sent"]
    parts += [f"{told['n_reused']:,} cached verdicts"] if told["n_reused"] else []
    parts += [f"{told['n_failed_requests']:,} failed"] if told["n_failed_requests"] else []
    tokens = usage.get("prompt_tokens", 0) + usage.get("completion_tokens", 0)
    parts += [f"{tokens:,} tokens"] if tokens else []
    if cost := usage.get("cost"):
        from eval_toolkit.models.servers import cost_text  # only needed with prices

        parts.append(f"cost {cost_text(cost)}")
    return ", ".join(parts)
