"""Convert reported numbers to cells, with an interval if enough information is given."""

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from eval_toolkit.inference.distributions import critical_value
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, BootstrapCI
from eval_toolkit.integrations.importing.logs import Stated
from eval_toolkit.metrics.directions import known_direction
from eval_toolkit.metrics.wilson import wilson_bounds
from eval_toolkit.scorecards import MetricResult

METHOD = "normal, from the stated standard error"
METHOD_OF_RATES = "wilson, from the stated rate and n"
METHOD_OF_SHARES = "wilson, from the stated standard error"
_MEANS = ("mean", "the mean")
_MOST_SAMPLES = 2**53
"""Largest accepted number of samples; floats cannot represent all larger integers."""
_WHOLE = 1e-6
"""Tolerance within which a rate times n counts as a whole number of correct answers."""
_SHARES = frozenset(
    {
        *("acc", "accuracy", "em", "match", "matches", "correct", "correctness", "pass", "solved"),
        *("f1", "precision", "recall", "sensitivity", "specificity", "auc", "auroc", "auprc"),
        *("mc1", "mc2", "anls", "share", "fraction", "proportion", "rate", "win", "success", "asr"),
    }
)
"""Words in the names of metrics that lie between 0 and 1, or between 0 and 100 %."""
_NO_SHARES = frozenset({"error", "errors", "wer", "cer", "ter", "diff", "difference", "per"})
"""Words in the names of metrics that may exceed 1, such as the word error rate."""
_GROUPED = 0.9
"""Ratio of the effective sample size to n − 1 below which answers are treated as clustered."""


def cell_names(stated: Sequence[Stated]) -> list[str]:
    """Return cell names for reported numbers: the column name for its mean, else with a suffix.

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
    """Return the cells of reported numbers, named by `cell_names`.

    ``direction`` returns whether higher is better for a column; ``n_planned`` is the number of
    samples for numbers reported without one. ``details["stated"]`` of each cell is True. A number
    that is not a mean of its column has neither a number of samples nor a direction. If there is no
    interval, the reason is given.

    Notes
    -----
    The interval of a share stays within [0, 1]. With n it is Wilson's interval, for correct answers
    or for values between 0 and 1, which have at most the same variance. Without n, or if the stated
    standard error is larger (clustered answers) or the values are not binary, n is replaced by the
    number of answers with this standard error, p (1 − p) / SE²: the effective sample size of a
    survey proportion [1]_. Other numbers have ± z standard errors, unless the number is in [0, 1]
    and this interval is not: it may be a share under another name. A standard error of 0 would
    imply certainty and is not used.

    References
    ----------
    .. [1] Korn and Graubard (1998), Confidence intervals for proportions with small expected
       number of positive counts estimated from survey data, Survey Methodology 24(2):193-201.

    Examples
    --------
    >>> cell = stated_cells([Stated(column="acc", name="acc", value=0.99, stderr=0.01)])["acc"]
    >>> f"{cell.ci:.3f}", cell.ci.method
    ('0.990 [0.945, 0.998]', 'wilson, from the stated standard error')
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
        ci, why = _interval(one, n, one.column in binary and one.aggregation == "mean")
        reason = "as the log reports it" + (f"; no interval: {why}" if ci is None else "")
        cells[name] = MetricResult(
            one.value, "ok", reason, ci, details, n_units=n, n_groups=n if n is not None else None
        )
    return cells


def _interval(one: Stated, n: int | None, binary: bool) -> tuple[BootstrapCI | None, str]:
    """Return the interval of a reported number, or None and the reason."""
    if one.interval is not None:
        return one.interval, ""
    if binary or _is_share(one.column):
        scale = 100.0 if 1.0 < one.value <= 100.0 else 1.0  # percent
        share, error = one.value / scale, (one.stderr or 0.0) / scale
        if 0.0 <= share <= 1.0:
            return _of_share(one, share, error, n if one.aggregation == "mean" else None, binary)
    if not one.stderr:
        return None, _unsaid(one.stderr)
    reach = critical_value(DEFAULT_CONFIDENCE) * one.stderr
    low, high = one.value - reach, one.value + reach
    if 0.0 <= one.value <= 1.0 and (low < 0.0 or high > 1.0):
        return None, (
            f"{one.column!r} may be a share, and the interval from its reported standard error "
            f"{one.stderr:.3g} is not within [0, 1]"
        )
    return BootstrapCI(one.value, low, high, DEFAULT_CONFIDENCE, 0, METHOD), ""


def _is_share(column: str) -> bool:
    """Return whether a metric lies between 0 and 1, judging by its name.

    Examples
    --------
    >>> _is_share("inst_level_strict_acc,none"), _is_share("pass@1"), _is_share("word_error_rate")
    (True, True, False)
    """
    words = set(re.findall(r"[a-z]+\d*", column.lower()))
    return bool(words & _SHARES) and not words & _NO_SHARES


def _of_share(
    one: Stated, share: float, error: float, n: int | None, binary: bool
) -> tuple[BootstrapCI | None, str]:
    """Return Wilson's interval of a share, with the reported or the effective sample size."""
    n = n if n is not None and n < _MOST_SAMPLES else None
    worth = share * (1.0 - share) / error / error if error else 0.0
    whole = n is not None and abs(share * n - round(share * n)) <= _WHOLE
    counted = n and (not worth or (binary and whole and worth >= _GROUPED * (n - 1)))
    if counted:
        size, method = float(n or 0), METHOD_OF_RATES
    elif worth:
        size, method = worth, METHOD_OF_SHARES
    elif error:
        return None, f"a share of {one.value:g} cannot have a standard error of {one.stderr:.3g}"
    else:
        return None, _unsaid(one.stderr) + " and no number of samples"
    if size < 1.0:
        return None, f"its standard error {one.stderr:.3g} is larger than that of a single answer"
    hits = round(share * size) if counted and whole else share * size
    scale = one.value / share if share else 1.0
    low, high = (end * scale for end in wilson_bounds(hits, size, DEFAULT_CONFIDENCE))
    return BootstrapCI(one.value, low, high, DEFAULT_CONFIDENCE, 0, method), ""


def _unsaid(error: float | None) -> str:
    return f"the log reports {'no standard error' if error is None else 'a standard error of 0'}"
