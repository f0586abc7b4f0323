"""Section on differences between runs: a summary, paired differences, and disagreements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from eval_toolkit._internal.display import CellLike, Estimate, Number, Rows, Status, Table
from eval_toolkit.analysis import RunComparison, RunDifference
from eval_toolkit.analysis.configs import run_names
from eval_toolkit.errors import EvalToolkitError, MissingExtraError
from eval_toolkit.inference import correct_p_values
from eval_toolkit.report import survival
from eval_toolkit.report.bars import bars_of
from eval_toolkit.report.cells import Block, Cell, blocks_of
from eval_toolkit.report.comparison_page import (
    answer,
    compared_runs,
    comparison_table,
    run_comparison_page,
)
from eval_toolkit.report.disagreements import disagreements
from eval_toolkit.report.headline import claims_shown
from eval_toolkit.report.main_result import plain_words
from eval_toolkit.report.metric_groups import displayed
from eval_toolkit.report.run_names import named_table, named_text
from eval_toolkit.report.sections import Figure, Section, Wanted
from eval_toolkit.report.trust import Fact, trust_of
from eval_toolkit.runs import Run
from eval_toolkit.runs.kind_display import common_kind
from eval_toolkit.scorecards.parts import WHOLE, parse_part

if TYPE_CHECKING:
    from eval_toolkit.claims import ClaimReport

_LONGEST = 600
"""Maximum number of characters shown of a setting that differs."""
MAX_ROWS = 30
"""Maximum number of differences in one chart; the table lists all."""


def sections(
    runs: Sequence[Run], wanted: Wanted, verdicts: Sequence[ClaimReport | None] = ()
) -> Iterator[Section]:
    """Yield an overview of all runs, then a section for each later run compared with the first.

    By default, verdicts on claims are taken from ``wanted``. For a pair that cannot be compared,
    the section states the reason.
    """
    names = run_names(runs)
    results = [_compared(runs[0], run, wanted) for run in runs[1:]]
    if len(runs) > 2:
        yield _overview(runs, names, results, wanted)
    for at, (run, found) in enumerate(zip(runs[1:], results, strict=True), start=1):
        pair = (names[0], names[at])
        own = replace(wanted, claims=verdicts[at] if verdicts else wanted.claims)
        anchor = "differences" if len(runs) == 2 else f"differences-{at}"
        if isinstance(found, str):
            yield _refused(anchor, pair, named_text(found, pair), own)
        else:
            yield _section(anchor, (runs[0], run), pair, found, own)


def _compared(first: Run, other: Run, wanted: Wanted) -> RunComparison | str:
    """Return the comparison, or the reason why the runs cannot be compared."""
    try:
        return _compared_by((first, other), wanted)
    except MissingExtraError:
        raise
    except EvalToolkitError as error:
        return str(error)


def _compared_by(runs: tuple[Run, Run], wanted: Wanted, **options: Any) -> RunComparison:
    return compared_runs(
        runs,
        confidence=wanted.confidence,
        n_resamples=wanted.n_resamples,
        seed=wanted.seed,
        **options,
    )


def _refused(anchor: str, pair: tuple[str, str], why: str, wanted: Wanted) -> Section:
    a, b = pair
    return Section(
        id=anchor,
        menu=f"{b} vs {a}",
        title=f"Is {b} better than {a}?",
        template="differences.html",
        data=_EMPTY | {"refused": why, "pair": pair, "claims": claims_shown(wanted.claims)},
    )


_EMPTY: dict[str, Any] = {
    "refused": "",
    "reply": ("", "", ""),
    "said": "",
    "how": [],
    "claims": None,
    "differ": [],
    "trust": [],
    "figures": [],
    "tables": [],
    "lists": [],
    "remarks": [],
}
_REPLIES = {
    "better": ("better", "↑", "Yes"),
    "worse": ("worse", "↓", "No"),
    "different": ("even", "≠", "They differ"),
}
_UNDECIDED = ("even", "=", "Not clearly")


def stated(
    runs: Sequence[Run],
    pair: tuple[str, str],
    result: RunComparison,
    confidence: float,
    drawn: str,
) -> dict[str, Any]:
    """Return the short verdict, a sentence with the difference, and each run's main result."""
    a, b = pair
    first = _first(result)
    return {
        "reply": _UNDECIDED if first is None else _REPLIES.get(first.verdict, _UNDECIDED),
        "said": answer([replace(one, metric=displayed(one.metric)) for one in result.cells], a, b),
        "how": [
            *_each(_mains(runs, pair, [first]), confidence),
            f"Differences are {b} minus {a}, on the units of both runs; {drawn}.",
        ],
    }


def _section(
    anchor: str,
    runs: tuple[Run, Run],
    pair: tuple[str, str],
    result: RunComparison,
    wanted: Wanted,
) -> Section:
    a, b = pair
    drawn = f"{100 * wanted.confidence:g} % intervals"
    if any(cell.n_resamples for cell in result.cells):
        drawn += f", {wanted.n_resamples:,} resamples for bootstrap intervals"
    page = run_comparison_page(runs, result, drawn)
    first = _first(result)
    # The table of settings is separate, with longer values.
    tables = [*page.tables[1 if result.config_differences else 0 :], *_by_part(runs, first, wanted)]
    return Section(
        id=anchor,
        menu="Comparison" if anchor == "differences" else f"{b} vs {a}",
        title=f"Is {b} better than {a}?",
        template="differences.html",
        data=_EMPTY
        | {
            "pair": pair,
            **stated(runs, pair, result, wanted.confidence, drawn),
            "claims": claims_shown(wanted.claims),
            "differ": [
                _Setting(one.what, *one.shown(_LONGEST)) for one in result.config_differences
            ],
            "trust": _trust(_mains(runs, pair, [first])),
            "figures": list(_figures(anchor, runs, result, pair)) if wanted.charts else [],
            "tables": [named_table(table, pair) for table in tables],
            "lists": disagreements(runs, pair, result.cells, wanted),
            "remarks": [named_text(note, pair) for note in dict.fromkeys(page.notes)],
        },
    )


def _by_part(runs: tuple[Run, Run], first: RunDifference | None, wanted: Wanted) -> Iterator[Table]:
    """Yield differences in the main metric for the parts reported by the runs' kind."""
    by = getattr(common_kind(runs), "by", None)
    if by is None or first is None or first.part != WHOLE:
        return
    try:
        found = _compared_by(runs, wanted, metrics=[first.metric], by=[by])
    except EvalToolkitError:  # the runs have no such parts in common
        return
    cells = [cell for cell in found.cells if cell.part != WHOLE]
    if len(cells) > 1:
        table = comparison_table(cells, found)
        at = table.header.index("metric")  # the title names it
        header = [*table.header[:at], *table.header[at + 1 :]]
        rows: Rows = [[*row[:at], *row[at + 1 :]] for row in table.rows]
        if header[0] == "slice" and all(found.place(cell) == cell.part for cell in cells):
            header[0] = by
            values = [parse_part(cell.part).get(by, cell.part) for cell in cells]
            rows = [[value, *row[1:]] for value, row in zip(values, rows, strict=True)]
        yield Table(header, rows, title=f"{first.metric} by {by}")


class _Setting(NamedTuple):
    """A setting in which two runs differ."""

    what: str
    a: str
    b: str


class _Main(NamedTuple):
    """Main result of a run: the one compared by the first difference."""

    name: str
    run: Run
    block: Block
    cell: Cell


def _mains(
    runs: Sequence[Run], names: Sequence[str], firsts: Sequence[RunDifference | None]
) -> list[_Main]:
    """Return the main result of each run; ``firsts`` are the differences from the first run."""
    known = [
        (name, run, first, first.scorer_b)
        for name, run, first in zip(names[1:], runs[1:], firsts, strict=True)
        if first is not None
    ]
    if known:
        known.insert(0, (names[0], runs[0], known[0][2], known[0][2].scorer))
    return [
        _Main(name, run, block, cell)
        for name, run, first, scorer in known
        for block in blocks_of(run)
        if block.subject == (first.slice, scorer) and (cell := block.cells.get(first.metric))
    ]


def _each(mains: Sequence[_Main], confidence: float) -> Iterator[str]:
    """Yield the main result of each run as a sentence, if all have one."""
    said = [plain_words(one.run, one.block, one.cell, confidence) for one in mains]
    if len(said) > 1 and all(said):
        yield from (
            f"{main.name}: {one[0].lower()}{one[1:]}."
            for main, one in zip(mains, said, strict=True)
        )


def _trust(mains: Sequence[_Main]) -> list[Fact]:
    """Return facts shared by all runs once, and all other facts with the name of the run."""
    sides = [trust_of(one.run, one.cell, one.block) for one in mains]
    if len(sides) < 2:
        return []
    shared = [fact for fact in sides[0] if all(fact in side for side in sides)]
    own = [
        replace(fact, said=f"{main.name}: {fact.said}")
        for main, facts in zip(mains, sides, strict=True)
        for fact in facts
        if fact not in shared
    ]
    order = list(dict.fromkeys(fact.name for side in sides for fact in side))
    return sorted([*shared, *own], key=lambda fact: order.index(fact.name))


def _figures(
    anchor: str, runs: tuple[Run, Run], result: RunComparison, pair: tuple[str, str]
) -> Iterator[Figure]:
    """Yield charts of all metrics on the first slice, the first metric by slice, and survival."""
    cells = result.cells
    known = [cell for cell in cells if cell.status == "ok" and cell.delta is not None]
    if not known:
        return
    first = known[0]
    own = [cell for cell in cells if cell.scorer == first.scorer]
    named = result.place(first)
    by_metric = {cell.metric: cell for cell in own if result.place(cell) == named}
    by_slice = {result.place(cell): cell for cell in own if cell.metric == first.metric}
    place = "" if named in ("", WHOLE) else f" on {named}"
    several = len({cell.scorer for cell in cells}) > 1
    whose = f" of {first.scorer}" if several else ""
    yield _forest(f"{anchor}-metrics", f"Every metric{whose}{place}", by_metric, pair)
    if len(by_slice) > 1:
        yield _forest(f"{anchor}-slices", f"{first.metric}{whose} by slice", by_slice, pair)
    yield from survival.overlaid(runs, pair, f"{anchor}-survival")


def _forest(
    anchor: str, title: str, cells: dict[str, RunDifference], pair: tuple[str, str]
) -> Figure:
    from eval_toolkit.report.figures import drawn
    from eval_toolkit.report.plots import plot_differences

    shown = dict(list(cells.items())[:MAX_ROWS])
    more = f" {len(cells) - MAX_ROWS} more are in the table." if len(cells) > MAX_ROWS else ""
    a, b = pair
    values = {name: _drawable(cell, pair) for name, cell in shown.items()}
    return drawn(
        plot_differences(values, value_label=f"{b} minus {a}"),
        anchor=anchor,
        title=title,
        caption=f"{b} minus {a}. Blue with ↑: {b} is better; red with ↓: {b} is worse; black with ≠: "
        "they differ in a metric without a better direction; grey and hollow: no significant "
        f"difference.{more}",
        bars=bars_of(values, reference=0.0, signed=True),
    )


def _drawable(cell: RunDifference, pair: tuple[str, str], verdict: str = "") -> dict[str, Any]:
    if cell.status != "ok" or cell.delta is None:
        status = cell.status if cell.status != "ok" else "skipped"
        reason = named_text(cell.reason, pair)
        return {"value": None, "status": status, "reason": reason, "n": cell.n_units}
    drawable: dict[str, Any] = {
        "value": cell.delta,
        "status": "ok",
        "reason": "",
        "n": cell.n_units,
    }
    drawable["verdict"] = verdict or cell.verdict
    if cell.ci_low is not None and cell.ci_high is not None:
        drawable |= {"ci_low": cell.ci_low, "ci_high": cell.ci_high}
    return drawable | {"p_value": cell.p_value, "p_adjusted": cell.p_adjusted}


def _first(found: RunComparison | str) -> RunDifference | None:
    """Return the main cell of a comparison."""
    cells = () if isinstance(found, str) else found.cells
    return next((cell for cell in cells if cell.status == "ok" and cell.delta is not None), None)


def _overview(
    runs: Sequence[Run],
    names: Sequence[str],
    results: Sequence[RunComparison | str],
    wanted: Wanted,
) -> Section:
    """Return the differences of all later runs in one metric, corrected for the number of runs."""
    firsts = [_first(found) for found in results]
    mains = _mains(runs, names, firsts)
    adjusted = _holm(firsts)
    rows = [
        [name, *_told(cell, p)] if cell is not None else [name, _untested(found), *[None] * 4]
        for name, found, cell, p in zip(names[1:], results, firsts, adjusted, strict=True)
    ]
    header = ["run", "it is", "difference", "metric", "p", "p (Holm)"]
    values = {
        name: _drawable(cell, (names[0], name), _verdict(cell, p))
        for name, cell, p in zip(names[1:], firsts, adjusted, strict=True)
        if cell
    }
    return Section(
        id="differences",
        menu="Comparison",
        title=f"All runs compared with {names[0]}",
        template="differences.html",
        data=_EMPTY
        | {
            "pair": ("", ""),
            "said": _overview_answer(names, firsts, adjusted),
            "how": [
                *_each(mains, wanted.confidence),
                (
                    f"Differences are each run minus {names[0]}; p (Holm) is corrected for "
                    f"{len(names) - 1} comparisons."
                ),
            ],
            "differ": None,
            "trust": _trust(mains),
            "tables": [Table(header, rows)],
            "figures": [_overview_figure(values, names[0])] if wanted.charts and values else [],
        },
        notes=["the sections below correct for metrics and slices, not for the number of runs"],
    )


def _untested(found: RunComparison | str) -> Status:
    """Return the reason why a run has no tested difference from the first."""
    return Status("not compared" if isinstance(found, str) else "skipped")


def _overview_answer(
    names: Sequence[str],
    cells: Sequence[RunDifference | None],
    adjusted: Sequence[float | None],
) -> str:
    """Return a sentence that lists the later runs that are better or worse than the first."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, cell, p in zip(names[1:], cells, adjusted, strict=True):
        verdict = "" if cell is None else _verdict(cell, p)
        metric = "" if cell is None else f" in {displayed(cell.metric)}"
        found.setdefault((verdict, metric), []).append(name)
    said = []
    for (verdict, metric), some in found.items():
        listed = f"{', '.join(some[:-1])} and {some[-1]}" if len(some) > 1 else some[0]
        verb = "is" if len(some) == 1 else "are"
        phrase = _COMPARED.get(verdict, "not compared with")
        said.append(f"{listed} {verb} {phrase} {names[0]}{metric}")
    return "; ".join(said)


_COMPARED = {
    "better": "better than",
    "worse": "worse than",
    "different": "different from",
    "no significant difference": "not significantly different from",
}


def _holm(cells: Sequence[RunDifference | None]) -> list[float | None]:
    """Return Holm-corrected p-values, with None for untested comparisons."""
    p = [None if cell is None else cell.p_value for cell in cells]
    known = [one for one in p if one is not None]
    corrected = iter(correct_p_values(known, method="holm").tolist() if known else [])
    return [None if one is None else next(corrected) for one in p]


def _told(cell: RunDifference, adjusted: float | None) -> list[CellLike]:
    place = cell.slice if cell.part == WHOLE else cell.part
    where = "" if place in ("", WHOLE) else f", {place}"
    return [
        Status(_verdict(cell, adjusted)),
        Estimate(cell.delta, cell.ci_low, cell.ci_high, "+"),
        f"{cell.metric}{where}",
        Number(cell.p_value, "p"),
        Number(adjusted, "p"),
    ]


def _verdict(cell: RunDifference, adjusted: float | None) -> str:
    """Return the verdict on a cell according to its corrected p-value."""
    return cell.verdict if adjusted is None else replace(cell, p_adjusted=adjusted).verdict


def _overview_figure(values: dict[str, dict[str, Any]], baseline: str) -> Figure:
    from eval_toolkit.report.figures import drawn
    from eval_toolkit.report.plots import plot_differences

    chart = plot_differences(values, value_label="difference from the first run")
    return drawn(
        chart,
        anchor="differences-runs",
        title="Difference from the first run",
        caption=f"Each run minus {baseline}, by the metric in the table. Blue with ↑: better; red "
        "with ↓: worse; black with ≠: different; grey and hollow: no significant difference.",
        bars=bars_of(values, reference=0.0, signed=True),
    )
