"""Sentences that summarise a run."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from eval_toolkit._internal.words import number
from eval_toolkit.report.cells import Block, Cell
from eval_toolkit.report.metric_groups import displayed
from eval_toolkit.report.scored_rows import label_names
from eval_toolkit.runs import Run
from eval_toolkit.runs.kind_display import kind_named

_SCORERS_NAMED = 3


def said(run: Run, cell: Cell | None, block: Block, of_all: Sequence[tuple[Block, Cell]]) -> str:
    """Return the main result in one sentence.

    ``of_all`` contains the main metric of every scorer, best first.
    """
    if cell is None and block.error:
        return f"{block.scorer}: error, {block.error}"
    if cell is None:
        return f"no metric: {block.skipped}" if block.skipped else "this run has no metric"
    if cell.value is None or cell.status != "ok":
        return f"{cell.name}: {cell.status}" + (f", {cell.reason}" if cell.reason else "")
    several = len(run.cells.slices) > 1 and block.slice != "all"
    on = f" on {block.slice}" if kind_named(run.kind).words.names_slice or several else ""
    if len(of_all) > 1:
        named = [f"{one.scorer} {own.shown}" for one, own in of_all[:_SCORERS_NAMED]]
        more = len(of_all) - len(named)
        return f"{displayed(cell.name)}{on}: {', '.join(named)}" + (
            f" and {more} more" if more else ""
        )
    return f"{displayed(cell.name)} {cell.shown}{on}"


def how(run: Run, cell: Cell | None, block: Block) -> str:
    """Describe what the value covers, its sample size and its interval."""
    config = run.manifest.get("config") or {}
    kind = kind_named(run.kind)
    subject = list(kind.subject(config))
    parts = subject or [f"{block.scorer} on {block.slice}"]
    if run.cells.folds:
        parts.append(f"mean of {len(run.cells.folds)} folds")
    if cell is not None and cell.n_units is not None:
        parts.append(f"{cell.n_units:,} {kind.words.units}")
        if cell.n_groups is not None and cell.n_groups != cell.n_units:
            unequal = f" ({cell.worth})" if cell.worth else ""
            parts.append(f"{cell.n_groups:,} groups{unequal}")
    if block.n_positive is not None:
        parts.append(f"{block.n_positive:,} {label_names(run).get(1, 'positive')}")
    parts += kind.settings_in_words(config)
    if cell is not None and cell.confidence:
        made = f" ({cell.method})" if cell.method else ""
        parts.append(f"{100 * cell.confidence:g} % interval{made}")
    told = ", ".join(parts)
    return told[:1].upper() + told[1:] if subject else told


def unknown(cell: Cell | None, block: Block) -> str:
    """Explain why the usual main metric is not shown; "" if it is."""
    asked = block.cells.get("attack_success")
    if asked is None or cell is None or asked.status == "ok" or cell.name == asked.name:
        return ""
    why = f": {asked.reason}" if asked.reason else ""
    return f"It is unknown whether the target failed by the end{why}"


def bounds(run: Run, cell: Cell | None) -> str:
    """Return the bounds of the main metric over all possible values of missing outcomes."""
    if cell is None or cell.value is None:
        return ""
    details = cell.details
    names = ("worst", "best") if "worst" in details else ("low", "high")
    ends = [details.get(name) for name in names]
    known = [end for end in ends if isinstance(end, int | float)]
    lacking = cell.n_errors or details.get("censored")
    if not lacking or len(known) < 2:
        return ""
    what = kind_named(run.kind).words.attempt + ("" if lacking == 1 else "s")
    cut = "was cut short" if lacking == 1 else "were cut short"
    how_ended = "broke" if cell.n_errors else cut
    low, high = sorted(known)
    words = (
        f"{lacking:,} {what} {how_ended}; depending on their outcomes, the value is between "
        f"{number(low)} and {number(high)}"
    )
    outer = details.get("bounds_ci")
    if isinstance(outer, Sequence) and len(outer) == 2:
        words += f", with sampling error [{number(outer[0])}, {number(outer[1])}]"
    return words


def stopped(results: Mapping[str, Any]) -> str:
    """Explain whether and why a run was stopped early; "" if it has no stopping rule."""
    told = results.get("stopping")
    if not isinstance(told, Mapping):
        return ""
    counts = whole_numbers(told)
    used, total = counts.get("n_used"), counts.get("n_total")
    reason = told.get("reason") or "its rule was met"
    if used == total or used is None or total is None:
        return f"The stopping rule did not end the run early: {reason}."
    saved = counts.get("n_saved", 0)
    return (
        f"Stopped early: {used:,} of {total:,} samples were used, {saved:,} were saved; {reason}. "
        "The intervals are valid at every look."
    )


def counted(run: Run, cell: Cell | None, block: Block) -> Iterator[dict[str, Any]]:
    """Yield summary tiles with counts of units and failures."""
    counts = whole_numbers(run.manifest.get("counts"))
    words = kind_named(run.kind).words
    n = counts.get(words.count) if words.count else block.n
    if n is not None:
        yield {"name": words.counted, "count": n, "meaning": _asked(counts)}
    n_errors = counts.get("n_errors", cell.n_errors if cell is not None else 0)
    if n_errors:
        yield {"name": "broke", "count": n_errors, "meaning": words.broke, "bug": True}
    if counts.get("n_skipped"):
        told = "cut short, or not scored"
        yield {"name": "skipped", "count": counts["n_skipped"], "meaning": told}


def whole_numbers(told: Any) -> dict[str, int]:
    """Return the integer entries of a stored mapping, which may contain other values."""
    given = told.items() if isinstance(told, Mapping) else ()
    return {name: value for name, value in given if type(value) is int}


def _asked(counts: Mapping[str, int]) -> str:
    return f"{counts['n_requests']:,} requests" if "n_requests" in counts else ""
