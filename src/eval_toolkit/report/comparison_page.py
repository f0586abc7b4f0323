"""Comparison page: a summary, followed by all differences B − A with intervals."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Unpack

from eval_toolkit._internal.display import Estimate, Number, Page, Rows, Status, Table
from eval_toolkit._internal.words import p_value
from eval_toolkit.analysis import MatchSpec, RunComparison, RunDifference, compare_runs
from eval_toolkit.analysis.comparison import Comparing
from eval_toolkit.analysis.configs import differences_table
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.runs import Run
from eval_toolkit.runs.kind_display import common_kind
from eval_toolkit.scorecards.parts import WHOLE

_NAMED = 8
"""Maximum number of metrics per system in the summary; the table lists all."""


def compared_runs(
    runs: Sequence[Run],
    *,
    metrics: Sequence[MetricSpec | str] | None = None,
    by: Sequence[str] = (),
    pairs: dict[str, str] | None = None,
    match: MatchSpec | None = None,
    **options: Unpack[Comparing],
) -> RunComparison:
    """Compare two runs by the requested metrics, or by default the main ones.

    An empty sequence compares all metrics. For the options, see `compare_runs`.
    """
    from eval_toolkit.graders.stored import stored_metrics

    return compare_runs(
        runs[0],
        runs[1],
        specs=stored_metrics(runs),
        metrics="all" if metrics is not None and not metrics else metrics,
        by=list(dict.fromkeys(by)) or None,
        pairs=pairs,
        match=match,
        **options,
    )


def run_comparison_page(runs: Sequence[Run], result: RunComparison, drawn: str) -> Page:
    """Return the comparison page of two runs, including what their kind adds to it.

    ``drawn`` describes the interval method.
    """
    page = comparison_page(result, [f"A is run {result.run_a}, B is run {result.run_b}"], drawn)
    return common_kind(runs).comparison(page, runs, result)


def comparison_page(
    result: RunComparison,
    lead: Sequence[str],
    drawn: str,
    names: tuple[str, str] = ("A", "B"),
) -> Page:
    """Return the differences as a page: answer, systems, table and notes."""
    a, b = names
    alone = [
        f"only in {side}: slice {slice_name!r}, scorer {scorer!r}"
        for side, only in ((a, result.only_in_a), (b, result.only_in_b))
        for slice_name, scorer in only
    ]
    changes = [
        (name if name.startswith("setting:") else f"version of {name}")
        + f": {old} in {a}, {new} in {b}"
        for name, (old, new) in (result.version_changes or {}).items()
    ]
    about: dict[str, list[str]] = {}
    for cell in result.cells:
        if cell.reason:
            about.setdefault(cell.reason, []).append(f"{cell.metric}, {result.place(cell)}")
    notes = [f"{_first_of(cells, separator='; ')}: {remark}" for remark, cells in about.items()]
    differ = [differences_table(found)] if (found := result.config_differences) else []
    counted = [
        *_discordant(result.cells, a, b),
        *result.notes,
        *result.left_out,
        *result.without_value,
        *result.undirected,
    ]
    return Page(
        f"{b} - {a}",
        result.to_dict(),
        [answer(result.cells, a, b), *lead, f"{b} - {a}, {drawn}"],
        [*differ, comparison_table(result.cells, result, a, b)],
        [*counted, *alone, *changes, *notes],
    )


def _discordant(cells: Sequence[RunDifference], a: str, b: str) -> Iterator[str]:
    """Yield notes on the share of units on which the systems differ, for use with `plan`."""
    for cell in cells:
        if cell.n_discordant is not None and cell.n_units:
            share = f"{100 * cell.n_discordant / cell.n_units:.3g} %"
            yield (
                f"{a} and {b} differ on {cell.n_discordant:,} of {cell.n_units:,} units ({share}) "
                f"in {cell.metric}"
            )
            return


def several_page(
    results: Mapping[tuple[str, str], RunComparison], lead: Sequence[str], drawn: str
) -> Page:
    """Return a page for several comparisons, with p-values corrected for their total number.

    ``lead`` describes the rows, and ``drawn`` the interval method.
    """
    results = _corrected(results)
    cells = [(pair, cell) for pair, one in results.items() for cell in one.cells]
    keys = dict.fromkeys((cell.slice, cell.part, cell.scorer, cell.metric) for _, cell in cells)
    order = {key: at for at, key in enumerate(keys)}
    cells.sort(key=lambda one: order[one[1].slice, one[1].part, one[1].scorer, one[1].metric])
    where = len({(cell.slice, cell.part, cell.scorer) for _, cell in cells}) > 1
    rows: Rows = [
        [
            *([next(iter(results.values())).place(cell)] if where else []),
            cell.metric,
            f"{b} - {a}",
            cell.n_units,
            Number(cell.value_a, ""),
            Number(cell.value_b, ""),
            *Estimate(cell.delta, cell.ci_low, cell.ci_high, "+").split(),
            Number(cell.p_adjusted, "p"),
            Status(cell.verdict),
        ]
        for (a, b), cell in cells
    ]
    header = [*(["slice"] if where else []), "metric", "systems", "rows", "first", "second"]
    header += ["difference", "interval", "p (Holm)", "second is"]
    reasons = dict.fromkeys(
        f"{b} - {a}, {cell.metric}: {cell.reason}" for (a, b), cell in cells if cell.reason
    )
    notes = [
        f"{b} - {a}: {note}"
        for (a, b), one in results.items()
        for note in (*one.notes, *one.left_out)
    ]
    answers = [answer(one.cells, a, b) for (a, b), one in results.items()]
    n = len(results)
    return Page(
        "Differences",
        {"comparisons": [{"systems": [*pair], **one.to_dict()} for pair, one in results.items()]},
        [*answers, *lead, f"second - first, {drawn}; p-values corrected for {n} comparisons"],
        [Table(header, rows)],
        [*notes, *reasons],
    )


def _corrected(
    results: Mapping[tuple[str, str], RunComparison],
) -> dict[tuple[str, str], RunComparison]:
    """Correct the p-values of all comparisons with Holm's method, separately for slices."""
    from eval_toolkit.inference import correct_p_values

    made = {pair: list(one.cells) for pair, one in results.items()}
    for whole in (True, False):
        places = [
            (pair, at)
            for pair, cells in made.items()
            for at, cell in enumerate(cells)
            if cell.p_value is not None and (cell.part == WHOLE) == whole
        ]
        p_values = [made[pair][at].p_value or 0.0 for pair, at in places]
        adjusted = correct_p_values(p_values, method="holm").tolist() if places else []
        for (pair, at), p in zip(places, adjusted, strict=True):
            made[pair][at] = replace(made[pair][at], p_adjusted=p)
    return {pair: replace(one, cells=tuple(made[pair])) for pair, one in results.items()}


def _first_of(names: Sequence[str], limit: int = 4, separator: str = ", ") -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return separator.join(names[:limit]) + more


def answer(cells: Sequence[RunDifference], a: str = "A", b: str = "B") -> str:
    """Return a sentence on which system is better, by the first metric and by the others.

    The sentence states the difference in the first metric, then the better system by other metrics
    on the same slice, and how many of these are undecided or were not tested.

    Examples
    --------
    >>> better = RunDifference(
    ...     slice="all", scorer="s", scorer_b="s", metric="accuracy", delta=0.1, ci_low=0.04,
    ...     ci_high=0.18, p_value=0.004, p_adjusted=0.004, higher_is_better=True, n_units=100,
    ... )
    >>> answer([better])
    'B beats A by 0.100 [0.040, 0.180] in accuracy'
    >>> from dataclasses import replace
    >>> answer([better, replace(better, metric="f1", delta=-0.1)])
    'B beats A by 0.100 [0.040, 0.180] in accuracy; A is better in f1'
    """
    tested = [cell for cell in cells if cell.status == "ok" and cell.delta is not None]
    if not tested:
        return f"{a} and {b} could not be compared"
    names = {cell.metric for cell in tested}  # a macro mean says the same again
    tested = [
        one for one in tested if one.metric.removesuffix("_macro") not in names - {one.metric}
    ]
    first = tested[0]
    of_scorer: dict[str, list[RunDifference]] = {}
    for cell in tested[1:]:
        if (cell.slice, cell.part) == (first.slice, first.part):
            of_scorer.setdefault(cell.scorer, []).append(cell)
    own = of_scorer.pop(first.scorer, [])
    whose = f" of {first.scorer}" if of_scorer else ""
    return "; ".join(
        [
            _sentence(first, a, b, whose),
            *_other_metrics(first, own, a, b),
            *(f"{name}: {_counted(of, a, b)}" for name, of in of_scorer.items()),
        ]
    )


def _words(a: str, b: str) -> dict[str, str]:
    """Return phrases for decisive verdicts; all other verdicts count as undecided."""
    return {"better": f"{b} is better", "worse": f"{a} is better", "different": "they differ"}


def _other_metrics(
    first: RunDifference, rest: Sequence[RunDifference], a: str, b: str
) -> Iterator[str]:
    """Yield the better system by other metrics, and counts of undecided and untested metrics."""
    words = _words(a, b)
    for verdict in sorted(words, key=lambda verdict: verdict != first.verdict):
        names = [cell.metric for cell in rest if cell.verdict == verdict]
        if names:
            also = " too" if verdict == first.verdict else ""
            yield f"{words[verdict]} in {_first_of(names, _NAMED)}{also}"
    open_ones = [cell.verdict for cell in rest if cell.verdict not in words]
    untested = open_ones.count("not tested")
    for n, what in ((len(open_ones) - untested, "undecided"), (untested, "not tested")):
        if n:
            yield f"1 other metric is {what}" if n == 1 else f"{n} other metrics are {what}"


def _counted(cells: Sequence[RunDifference], a: str, b: str) -> str:
    """Count the metrics in which each system is better, for every other scorer."""
    words = _words(a, b)
    counts = {said: sum(cell.verdict == one for cell in cells) for one, said in words.items()}
    decided = [f"{said} in {n} of {len(cells)} metrics" for said, n in counts.items() if n]
    return ", ".join(decided) or "undecided in every metric"


def _sentence(cell: RunDifference, a: str, b: str, whose: str) -> str:
    """Return a sentence about one cell, giving the difference in favour of the winner."""
    place = cell.slice if cell.part == WHOLE else cell.part
    where = whose + ("" if place in ("", WHOLE) else f" on {place}")
    signed = Estimate(cell.delta, cell.ci_low, cell.ci_high, "+")
    if cell.verdict not in ("better", "worse"):
        if cell.p_value is None:
            return f"{_minus(a, b, signed)} in {cell.metric}{where}, not tested"
        verb = "differ" if cell.verdict == "different" else "do not differ significantly"
        sentence = f"{a} and {b} {verb} in {cell.metric}{where}: {_minus(a, b, signed)}"
        return sentence + _correction(cell)
    winner, loser = (b, a) if cell.verdict == "better" else (a, b)
    # The sign tells which value is larger, the verdict which system is better: a lower loss wins.
    low, high = cell.ci_low, cell.ci_high
    if (cell.delta or 0.0) < 0 and low is not None and high is not None:
        low, high = -high, -low
    lower = " (lower is better)" if cell.higher_is_better is False else ""
    by = Estimate(abs(cell.delta or 0.0), low, high)
    return f"{winner} beats {loser} by {by} in {cell.metric}{lower}{where}"


def _minus(a: str, b: str, signed: Estimate) -> str:
    """Format a difference with its direction; names may contain hyphens and equals signs."""
    return f"{b} - {a} = {signed}" if (a, b) == ("A", "B") else f"{signed} ({b} minus {a})"


def _correction(cell: RunDifference) -> str:
    """Return a note if the correction makes a difference insignificant despite its interval."""
    if cell.ci_low is None or cell.ci_high is None or cell.verdict != "no significant difference":
        return ""
    if cell.ci_low <= 0.0 <= cell.ci_high:
        return ""
    corrected = "corrected for the number of metrics and slices"
    return f"; the interval excludes 0, but p is {p_value(cell.p_adjusted)} when {corrected}"


def comparison_table(
    cells: Sequence[RunDifference], result: RunComparison, a: str = "A", b: str = "B"
) -> Table:
    """Return a table with one row per compared cell, omitting constant columns."""
    by_slice = len({(cell.slice, cell.part) for cell in cells}) > 1
    by_scorer = len({(cell.scorer, cell.scorer_b) for cell in cells}) > 1
    corrected = by_slice or any(cell.p_adjusted != cell.p_value for cell in cells)
    header = [*(["slice"] if by_slice else []), *(["scorer"] if by_scorer else [])]
    header += ["metric", "rows", a, b, f"{b} - {a}", "interval", "p"]
    header += [*(["p (Holm)"] if corrected else []), f"{b} is"]
    rows: Rows = [
        [
            *([result.place(cell)] if by_slice else []),
            *([cell.scorer] if by_scorer else []),
            cell.metric,
            cell.n_units,
            Number(cell.value_a, ""),
            Number(cell.value_b, ""),
            *Estimate(cell.delta, cell.ci_low, cell.ci_high, "+").split(),
            Number(cell.p_value, "p"),
            *([Number(cell.p_adjusted, "p")] if corrected else []),
            Status(cell.verdict),
        ]
        for cell in cells
    ]
    return Table(header, rows)
