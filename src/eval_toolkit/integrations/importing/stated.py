"""Cells of what a log only states: its number, and an interval where it has a standard error."""

from collections.abc import Callable, Collection, Sequence
from statistics import NormalDist
from typing import Any

from eval_toolkit.inference.proportions import wilson_interval
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, BootstrapCI
from eval_toolkit.integrations.importing.logs import Stated
from eval_toolkit.metrics.directions import known_direction
from eval_toolkit.scorecards import MetricResult

__all__ = ["METHOD", "METHOD_OF_RATES", "cell_names", "stated_cells"]

METHOD = "normal, from the stated standard error"
METHOD_OF_RATES = "wilson, from the stated rate and n"
_MEANS = ("mean", "the mean")
_WHOLE = 1e-6
"""By so much a rate times n may miss a whole number of right answers."""


def cell_names(stated: Sequence[Stated]) -> list[str]:
    """Return what the cell of each number is called: its column where it is the plain mean of it.

    Examples
    --------
    >>> spread = Stated(column="match", name="std", value=0.5, aggregation="std")
    >>> cell_names([spread, Stated(column="match", name="accuracy", value=0.6)])
    ['match: std', 'match']
    """
    names: list[str] = []
    for one in stated:
        name = one.column
        if name in names or not (one.aggregation == "mean" or one.itself):
            name += f": {one.aggregation if one.name == one.column else one.name}"
        n = 1 + sum(other == name or other.startswith(f"{name} #") for other in names)
        names.append(name if n == 1 else f"{name} #{n}")
    return names


def stated_cells(
    stated: Sequence[Stated],
    direction: Callable[[str], bool | None] = known_direction,
    *,
    binary: Collection[str] = (),
    n_planned: int | None = None,
) -> dict[str, MetricResult]:
    """Return the cells of stated numbers, named by `cell_names`.

    Parameters
    ----------
    stated : sequence of Stated
        What a log states.
    direction : callable
        Takes a column and returns whether more of it is better, None where that is not known.
    binary : collection of str
        Columns that are right or wrong.
    n_planned : int, optional
        Samples, where a number does not say of how many it is.

    Returns
    -------
    dict of str to MetricResult
        A rate of a stated number of right or wrong answers has its Wilson interval; else it is ± z
        standard errors where one is stated and is not 0, which would claim that the number is
        certain. ``details["stated"]`` is True. A number that is no mean of its column says neither
        of how many samples it is nor whether more is better.

    Examples
    --------
    >>> cell = stated_cells([Stated(column="acc", name="acc", value=0.5, stderr=0.1)])["acc"]
    >>> f"{cell.ci:.3f}", cell.ci.method
    ('0.500 [0.304, 0.696]', 'normal, from the stated standard error')
    """
    cells: dict[str, MetricResult] = {}
    for name, one in zip(cell_names(stated), stated, strict=True):
        whole = one.itself or one.aggregation.startswith(_MEANS)
        n = n_planned if one.n is None and (one.itself or one.aggregation == "mean") else one.n
        details: dict[str, Any] = {"stated": True, "mean": one.aggregation == "mean"}
        if whole:
            details["higher_is_better"] = direction(one.column)
        if one.stderr is not None:
            details["standard_error"] = one.stderr
        rate = one.column in binary and one.aggregation == "mean"
        ci = (_rate(one.value, n) if rate else None) or _normal(one)
        reason = "as the log states it"
        if ci is None:
            why = "no standard error" if one.stderr is None else "a standard error of 0"
            reason += f"; no interval, for it states {why}"
        cells[name] = MetricResult(
            one.value, "ok", reason, ci, details, n_units=n, n_groups=n if n is not None else None
        )
    return cells


def _rate(value: float, n: int | None) -> BootstrapCI | None:
    """Return the interval of a rate, if it is one of n right or wrong answers."""
    if not n or not 0.0 <= value <= 1.0:
        return None
    right = round(value * n)
    if abs(value * n - right) > _WHOLE:
        return None
    found = wilson_interval(right, n, confidence=DEFAULT_CONFIDENCE)
    if found.low is None or found.high is None:
        return None
    return BootstrapCI(value, found.low, found.high, DEFAULT_CONFIDENCE, 0, METHOD_OF_RATES)


def _normal(one: Stated) -> BootstrapCI | None:
    if not one.stderr:
        return None
    reach = NormalDist().inv_cdf((1 + DEFAULT_CONFIDENCE) / 2) * one.stderr
    low, high = one.value - reach, one.value + reach
    return BootstrapCI(one.value, low, high, DEFAULT_CONFIDENCE, 0, METHOD)
