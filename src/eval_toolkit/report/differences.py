"""Differences between runs: a summary, paired differences, and disagreements."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from eval_toolkit._internal.display import CellLike, Estimate, Number, Status, Table
from eval_toolkit.analysis import RunComparison, RunDifference
from eval_toolkit.errors import EvalToolkitError, MissingExtraError
from eval_toolkit.inference import correct_p_values
from eval_toolkit.report.comparing import answer, compared_runs, run_comparison_page
from eval_toolkit.report.disagreeing import disagreements
from eval_toolkit.report.sections import Figure, Section, Wanted
from eval_toolkit.runs import Run
from eval_toolkit.scorecards.parts import WHOLE

__all__ = ["sections"]

MAX_ROWS = 30
"""Maximum number of differences in one chart; the table lists all."""


def sections(runs: Sequence[Run], wanted: Wanted) -> Iterator[Section]:
    """Yield an overview of all runs and the differences between each later run and the first.

    Parameters
    ----------
    runs : sequence of Run
        Runs to compare; the first is the baseline.
    wanted : Wanted
        Report options: number of disagreements, settings of the intervals.

    Yields
    ------
    Section
        A pair that cannot be compared yields a section with the reason.
    """
    names = _names(runs)
    results = [_compared(runs[0], run, wanted) for run in runs[1:]]
    if len(runs) > 2:
        yield _overview(names, results, wanted)
    for at, (run, found) in enumerate(zip(runs[1:], results, strict=True), start=1):
        pair = (names[0], names[at])
        anchor = "differences" if len(runs) == 2 else f"differences-{at}"
        if isinstance(found, str):
            yield _refused(anchor, pair, found)
        else:
            yield _section(anchor, (runs[0], run), pair, found, wanted)


def _names(runs: Sequence[Run]) -> list[str]:
    """Return a unique name for each run."""
    ids = [run.run_id for run in runs]
    return [
        name if ids.count(name) == 1 else f"{name} (run {place})"
        for place, name in enumerate(ids, start=1)
    ]


def _compared(first: Run, other: Run, wanted: Wanted) -> RunComparison | str:
    """Return the comparison, or the reason why it is impossible."""
    try:
        return compared_runs(
            [first, other],
            confidence=wanted.confidence,
            n_resamples=wanted.n_resamples,
            seed=wanted.seed,
        )
    except MissingExtraError:
        raise
    except EvalToolkitError as error:
        return str(error)


def _refused(anchor: str, pair: tuple[str, str], why: str) -> Section:
    a, b = pair
    return Section(
        id=anchor,
        menu=f"{b} vs {a}",
        title=f"{b} against {a}",
        template="differences.html",
        data=_EMPTY | {"refused": why, "pair": pair},
    )


_EMPTY: dict[str, Any] = {
    "refused": "",
    "said": "",
    "how": [],
    "figures": [],
    "tables": [],
    "lists": [],
    "remarks": [],
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
        drawn += f", {wanted.n_resamples:,} resamples where drawn"
    page = run_comparison_page(runs, result, drawn)
    return Section(
        id=anchor,
        menu="Comparison" if anchor == "differences" else f"{b} vs {a}",
        title=f"{b} against {a}",
        template="differences.html",
        data=_EMPTY
        | {
            "pair": pair,
            "said": answer(result.cells, a, b),
            "how": [
                f"A is {a}, B is {b}. Every difference is B − A on the units both have.",
                drawn,
            ],
            "figures": list(_figures(anchor, result, pair)) if wanted.charts else [],
            "tables": list(page.tables),
            "lists": disagreements(runs, pair, result.cells, wanted),
            "remarks": list(dict.fromkeys(page.notes)),
        },
    )


def _figures(anchor: str, result: RunComparison, pair: tuple[str, str]) -> Iterator[Figure]:
    """Yield charts of all metrics on the first slice, and of the first metric on all places."""
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


def _forest(
    anchor: str, title: str, cells: dict[str, RunDifference], pair: tuple[str, str]
) -> Figure:
    from eval_toolkit.report.figures import drawn
    from eval_toolkit.report.plots import plot_differences

    shown = dict(list(cells.items())[:MAX_ROWS])
    more = f" {len(cells) - MAX_ROWS} more are in the table." if len(cells) > MAX_ROWS else ""
    chart = plot_differences(
        {name: _drawable(cell) for name, cell in shown.items()}, value_label="B − A"
    )
    a, b = pair
    return drawn(
        chart,
        anchor=anchor,
        title=title,
        caption=f"{b} minus {a}. An interval that leaves zero out has a filled point; the sign "
        f"says which number is larger, the table who is better.{more}",
    )


def _drawable(cell: RunDifference) -> dict[str, Any]:
    if cell.status != "ok" or cell.delta is None:
        status = cell.status if cell.status != "ok" else "skipped"
        return {"value": None, "status": status, "reason": cell.reason, "n": cell.n_units}
    drawable = {"value": cell.delta, "status": "ok", "reason": "", "n": cell.n_units}
    if cell.ci_low is not None and cell.ci_high is not None:
        drawable |= {"ci_low": cell.ci_low, "ci_high": cell.ci_high}
    return drawable | {"p_value": cell.p_value, "p_adjusted": cell.p_adjusted}


def _first(found: RunComparison | str) -> RunDifference | None:
    """Return the main cell of a comparison."""
    cells = () if isinstance(found, str) else found.cells
    return next((cell for cell in cells if cell.status == "ok" and cell.delta is not None), None)


def _overview(
    names: Sequence[str], results: Sequence[RunComparison | str], wanted: Wanted
) -> Section:
    """Return the differences of all later runs by one metric, corrected for the number of runs."""
    firsts = [_first(found) for found in results]
    adjusted = _holm(firsts)
    rows = [
        [name, *_told(cell, p)]
        if cell is not None
        else [name, *[None] * 5, Status("not compared" if isinstance(found, str) else "skipped")]
        for name, found, cell, p in zip(names[1:], results, firsts, adjusted, strict=True)
    ]
    header = ["run", "metric", "difference", "interval", "p", "p (Holm)", "it is"]
    values = {name: _drawable(cell) for name, cell in zip(names[1:], firsts, strict=True) if cell}
    return Section(
        id="differences",
        menu="Comparison",
        title=f"Every run against {names[0]}",
        template="differences.html",
        lead=f"p (Holm) is corrected for the number of runs, {len(names) - 1}.",
        data=_EMPTY
        | {
            "pair": ("", ""),
            "tables": [Table(header, rows)],
            "figures": [_overview_figure(values, names[0])] if wanted.charts and values else [],
        },
        notes=["the sections below correct for metrics and slices, not for the number of runs"],
    )


def _holm(cells: Sequence[RunDifference | None]) -> list[float | None]:
    """Return Holm-corrected p-values; None for untested comparisons."""
    p = [None if cell is None else cell.p_value for cell in cells]
    known = [one for one in p if one is not None]
    corrected = iter(correct_p_values(known, method="holm").tolist() if known else [])
    return [None if one is None else next(corrected) for one in p]


def _told(cell: RunDifference, adjusted: float | None) -> list[CellLike]:
    place = cell.slice if cell.part == WHOLE else cell.part
    where = "" if place in ("", WHOLE) else f", {place}"
    return [
        f"{cell.metric}{where}",
        *Estimate(cell.delta, cell.ci_low, cell.ci_high, "+").split(),
        Number(cell.p_value, "p"),
        Number(adjusted, "p"),
        Status(_verdict(cell, adjusted)),
    ]


def _verdict(cell: RunDifference, adjusted: float | None) -> str:
    """Return the verdict of a cell by its corrected p-value."""
    return cell.verdict if adjusted is None else replace(cell, p_adjusted=adjusted).verdict


def _overview_figure(values: dict[str, dict[str, Any]], baseline: str) -> Figure:
    from eval_toolkit.report.figures import drawn
    from eval_toolkit.report.plots import plot_differences

    chart = plot_differences(values, value_label="difference from the first run")
    return drawn(
        chart,
        anchor="differences-runs",
        title="Difference from the first run",
        caption=f"Each run minus {baseline}, by the metric in the table.",
    )
