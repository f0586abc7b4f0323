"""Equivalence and non-inferiority tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, SupportsFloat

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.inference.distributions import ROUNDING, critical_value, upper_tail
from eval_toolkit.inference.results import (
    DEFAULT_CONFIDENCE,
    Interval,
    PairedBootstrapCI,
    in_own_order,
)

_NO_ERROR = "the standard error is zero, so the test is inconclusive"


@in_own_order
@dataclass(frozen=True, kw_only=True, repr=False)
class EquivalenceResult(Interval[float]):
    """Result of two one-sided tests (TOST) of whether a difference is inside the margins.

    Examples
    --------
    >>> equivalence_test(0.002, 0.004, margin=0.02).equivalent
    True
    """

    equivalent: bool
    """Whether both one-sided tests reject at level 1 − confidence; False if ``se`` is zero."""
    p_value: float | None
    """Larger of the two one-sided p-values; None if the standard error is zero."""
    p_lower: float | None
    """P-value of the null hypothesis that the difference is at or below the lower margin."""
    p_upper: float | None
    """P-value of the null hypothesis that the difference is at or above the upper margin."""
    delta: float
    ci_low: float
    """Lower bound of the 1 − 2 (1 − confidence) interval; inside the margins if equivalent."""
    ci_high: float
    margin_low: float
    margin_high: float
    confidence: float
    method: str
    """"tost-normal", "tost-t" or "tost-interval"."""
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        names = (
            *("equivalent", "p_value", "p_lower", "p_upper", "delta", "ci_low", "ci_high"),
            *("margin_low", "margin_high", "confidence", "method"),
        )
        return self._plain(names)


@dataclass(frozen=True, slots=True)
class NonInferiorityResult(Displayed):
    """Result of a one-sided test of whether B is worse than A by less than the margin.

    Examples
    --------
    >>> non_inferiority_test(-0.002, 0.004, margin=0.02).non_inferior
    True
    """

    non_inferior: bool
    """Whether the test rejects at level 1 − confidence; False if the standard error is zero."""
    p_value: float | None
    """P-value of the null that B is worse by the margin or more; None if ``se`` is zero."""
    delta: float
    bound: float
    """One-sided confidence bound of the difference, in the unfavourable direction."""
    margin: float
    higher_is_better: bool
    confidence: float
    method: str
    """"normal", "t" or "interval"."""
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        names = ("non_inferior", "p_value", "delta", "bound", "margin", "higher_is_better")
        payload = {name: getattr(self, name) for name in (*names, "confidence", "method")}
        return payload | ({"reason": self.reason} if self.reason else {})


def equivalence_test(
    delta: SupportsFloat,
    se: SupportsFloat,
    *,
    margin: float | tuple[float, float],
    confidence: float = DEFAULT_CONFIDENCE,
    df: SupportsFloat | None = None,
) -> EquivalenceResult:
    """Test equivalence (TOST) from a difference and its standard error.

    Parameters
    ----------
    delta, se : float
        Estimated difference B − A and its standard error.
    margin : float or tuple of float
        Equivalence margin: m for (−m, m), or a pair around zero.
    confidence : float, default 0.95
        One minus the level of each one-sided test; above 0.5.
    df : float, optional
        Degrees of freedom of the standard error; the normal distribution is used by default.

    Returns
    -------
    EquivalenceResult
        Decision, p-values, and the corresponding interval.

    Raises
    ------
    InvalidInputError
        If the margin does not enclose zero, the standard error is negative, or a number is not
        finite.

    Notes
    -----
    The systems are equivalent if ``(delta − low)/se`` and ``(high − delta)/se`` are both
    significant or, equivalently, if the 1 − 2α confidence interval is inside the margins [1]_.

    References
    ----------
    .. [1] Schuirmann (1987), J. Pharmacokinetics and Biopharmaceutics 15(6):657-680.

    Examples
    --------
    >>> result = equivalence_test(0.002, 0.004, margin=0.01)
    >>> round(result.p_value, 4), result.equivalent
    (0.0228, True)
    """
    d, error, dof = _estimate(delta, se, df)
    low, high = _margins(margin)
    level = _level(confidence)
    reach = error * critical_value(2.0 * level - 1.0, dof)
    p_lower = upper_tail((d - low) / error, dof) if error else None
    p_upper = upper_tail((high - d) / error, dof) if error else None
    return _equivalence(
        d,
        (p_lower, p_upper),
        (d - reach, d + reach),
        (low, high),
        level,
        "tost-normal" if dof is None else "tost-t",
    )


def non_inferiority_test(
    delta: SupportsFloat,
    se: SupportsFloat,
    *,
    margin: float,
    confidence: float = DEFAULT_CONFIDENCE,
    df: SupportsFloat | None = None,
    higher_is_better: bool = True,
) -> NonInferiorityResult:
    """Test non-inferiority from a difference and its standard error.

    Parameters
    ----------
    delta, se : float
        Estimated difference B − A and its standard error.
    margin : float
        Largest acceptable loss, positive.
    confidence : float, default 0.95
        One minus the level of the one-sided test; above 0.5.
    df : float, optional
        Degrees of freedom of the standard error; the normal distribution is used by default.
    higher_is_better : bool, default True
        Whether higher values are better; False for errors and losses.

    Returns
    -------
    NonInferiorityResult
        Decision, p-value, and the corresponding one-sided bound.

    Raises
    ------
    InvalidInputError
        If the margin is not positive, the standard error is negative, or a number is not finite.

    Notes
    -----
    The null hypothesis is gain ≤ −margin, where the gain is B − A or, if lower is better, A − B.
    The test statistic is ``(gain + margin)/se``.

    References
    ----------
    .. [1] Wellek (2010), Testing Statistical Hypotheses of Equivalence and Noninferiority.

    Examples
    --------
    >>> result = non_inferiority_test(-0.005, 0.004, margin=0.02)
    >>> round(result.bound, 4), result.non_inferior
    (-0.0116, True)
    """
    d, error, dof = _estimate(delta, se, df)
    loss = _margin(margin)
    level = _level(confidence)
    sign = 1.0 if higher_is_better else -1.0
    reach = error * critical_value(2.0 * level - 1.0, dof)
    return _non_inferiority(
        d,
        upper_tail((sign * d + loss) / error, dof) if error else None,
        d - sign * reach,
        loss,
        level,
        "normal" if dof is None else "t",
        higher_is_better=higher_is_better,
    )


def equivalence_from_paired(
    diff: PairedBootstrapCI,
    *,
    margin: float | tuple[float, float],
    confidence: float = DEFAULT_CONFIDENCE,
) -> EquivalenceResult:
    """Test equivalence (TOST) from a paired difference.

    Parameters
    ----------
    diff : PairedBootstrapCI
        Paired difference with its interval.
    margin : float or tuple of float
        Equivalence margin: m for (−m, m), or a pair around zero.
    confidence : float, default 0.95
        One minus the level of each one-sided test; above 0.5.

    Returns
    -------
    EquivalenceResult
        Result with method "tost-interval". An interval of zero width is inconclusive.

    Raises
    ------
    InvalidInputError
        If the margin does not enclose zero.

    Notes
    -----
    On each side, the distance from the estimate to the bound, divided by the critical value, serves
    as the standard error.

    Examples
    --------
    >>> diff = PairedBootstrapCI(0.002, -0.006, 0.010, True, 0.95, 1000)
    >>> equivalence_from_paired(diff, margin=0.02).equivalent
    True
    """
    low, high = _margins(margin)
    level = _level(confidence)
    down, up = _sides(diff)
    z = critical_value(2.0 * level - 1.0)
    p_lower = upper_tail((diff.delta - low) / down) if down else None
    p_upper = upper_tail((high - diff.delta) / up) if up else None
    ends = (diff.delta - z * down, diff.delta + z * up)
    return _equivalence(diff.delta, (p_lower, p_upper), ends, (low, high), level, "tost-interval")


def non_inferiority_from_paired(
    diff: PairedBootstrapCI,
    *,
    margin: float,
    confidence: float = DEFAULT_CONFIDENCE,
    higher_is_better: bool = True,
) -> NonInferiorityResult:
    """Test non-inferiority from a paired difference.

    Parameters
    ----------
    diff : PairedBootstrapCI
        Paired difference with its interval.
    margin : float
        Largest acceptable loss, positive.
    confidence : float, default 0.95
        One minus the level of the one-sided test; above 0.5.
    higher_is_better : bool, default True
        Whether higher values are better; False for errors and losses.

    Returns
    -------
    NonInferiorityResult
        Result with method "interval". An interval of zero width is inconclusive.

    Raises
    ------
    InvalidInputError
        If the margin is not positive.

    Notes
    -----
    The distance from the estimate to the unfavourable bound, divided by the critical value, serves
    as the standard error.

    Examples
    --------
    >>> diff = PairedBootstrapCI(-0.002, -0.010, 0.006, True, 0.95, 1000)
    >>> non_inferiority_from_paired(diff, margin=0.02).non_inferior
    True
    """
    loss = _margin(margin)
    level = _level(confidence)
    down, up = _sides(diff)
    sign, error = (1.0, down) if higher_is_better else (-1.0, up)
    return _non_inferiority(
        diff.delta,
        upper_tail((sign * diff.delta + loss) / error) if error else None,
        diff.delta - sign * critical_value(2.0 * level - 1.0) * error,
        loss,
        level,
        "interval",
        higher_is_better=higher_is_better,
    )


def _equivalence(
    delta: float,
    p_values: tuple[float | None, float | None],
    ci: tuple[float, float],
    margins: tuple[float, float],
    confidence: float,
    method: str,
) -> EquivalenceResult:
    p_lower, p_upper = p_values
    p_value = None if p_lower is None or p_upper is None else max(p_lower, p_upper)
    return EquivalenceResult(
        equivalent=p_value is not None and _rejects(p_value, confidence),
        p_value=p_value,
        p_lower=p_lower,
        p_upper=p_upper,
        delta=delta,
        ci_low=ci[0],
        ci_high=ci[1],
        margin_low=margins[0],
        margin_high=margins[1],
        confidence=confidence,
        method=method,
        reason=_NO_ERROR if p_value is None else "",
    )


def _non_inferiority(
    delta: float,
    p_value: float | None,
    bound: float,
    margin: float,
    confidence: float,
    method: str,
    *,
    higher_is_better: bool,
) -> NonInferiorityResult:
    return NonInferiorityResult(
        non_inferior=p_value is not None and _rejects(p_value, confidence),
        p_value=p_value,
        delta=delta,
        bound=bound,
        margin=margin,
        higher_is_better=higher_is_better,
        confidence=confidence,
        method=method,
        reason=_NO_ERROR if p_value is None else "",
    )


def _rejects(p_value: float, confidence: float) -> bool:
    # Rounded, because 1 − 0.9 is slightly less than 0.1.
    return round(p_value, 12) <= round(1.0 - confidence, 12)


def _estimate(
    delta: SupportsFloat, se: SupportsFloat, df: SupportsFloat | None
) -> tuple[float, float, float | None]:
    return (
        validation.number(delta, "delta"),
        validation.number(se, "se", low=0.0),
        None if df is None else validation.number(df, "df", low=0.0, include_low=False),
    )


def _level(confidence: float) -> float:
    return validation.number(
        confidence, "confidence", low=0.5, high=1.0, include_low=False, include_high=False
    )


def _margin(margin: SupportsFloat) -> float:
    return validation.number(margin, "margin", low=0.0, include_low=False)


def _margins(margin: float | tuple[float, float]) -> tuple[float, float]:
    if not isinstance(margin, Sequence):
        size = _margin(margin)
        return -size, size
    ends = [validation.number(end, f"margin[{i}]") for i, end in enumerate(margin)]
    if len(ends) != 2 or not ends[0] < 0.0 < ends[1]:
        raise InvalidInputError(f"`margin` is {margin!r}; a pair must enclose zero: (low, high)")
    return ends[0], ends[1]


def _sides(diff: PairedBootstrapCI) -> tuple[float, float]:
    """Return the standard errors implied by the interval, below and above the difference."""
    z = critical_value(diff.confidence)
    slack = ROUNDING * max(abs(diff.delta), abs(diff.ci_low), abs(diff.ci_high))
    down, up = diff.delta - diff.ci_low, diff.ci_high - diff.delta
    return (down / z if down > slack else 0.0), (up / z if up > slack else 0.0)
