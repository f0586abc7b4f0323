"""Macro averages: means over equally weighted parts, such as subjects or languages."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.validation import FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.inference.distributions import (
    critical_value,
    negligible,
    normal_quantile,
)
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, BootstrapCI


@dataclass(frozen=True, slots=True)
class MacroMean(Displayed):
    """Mean of the part means, with standard error and interval.

    Examples
    --------
    >>> macro_mean([[1, 0], [1, 1]]).mean
    0.75
    """

    mean: float
    se: float | None
    """Standard error; None if no part has two independent units."""
    ci: BootstrapCI | None
    n_parts: int
    n_units: int
    n_groups: int
    df: float = 0.0
    """Welch's degrees of freedom."""
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "mean": self.mean,
            "se": self.se,
            "ci": None if self.ci is None else self.ci.to_dict(),
            "n_parts": self.n_parts,
            "n_units": self.n_units,
            "n_groups": self.n_groups,
            "df": self.df,
            "reason": self.reason,
        }


def macro_mean(
    parts: Sequence[ArrayLike],
    *,
    groups: Sequence[ArrayLike] | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
) -> MacroMean:
    """Average the means of equally weighted parts, with a standard error.

    Parameters
    ----------
    parts : sequence of array-like
        Values of the units of each part; no part may be empty.
    groups : sequence of array-like, optional
        Groups of the units of each part; a group may span parts.
    confidence : float, default 0.95
        Confidence level.

    Returns
    -------
    MacroMean
        Macro average; its standard error is ``sqrt(sum of the parts' squared standard errors) /
        number of parts``.

    Raises
    ------
    InvalidInputError
        If there is no part, one is empty, or a value is not finite.

    Notes
    -----
    Parts are treated as fixed, not as a sample. For 0/1 values of independent units, the interval
    is the adjusted Wald interval for a linear combination of proportions [1]_, which has good
    coverage for few parts, and for parts whose values are all equal. With many small parts, its
    variance is too small, because it divides by n instead of n − 1; the unbiased variance is then
    used. Otherwise the interval is Student's t with Welch's degrees of freedom. A part with a
    single unit uses the variance of the other parts; if all parts have a single unit, the variance
    between parts is used, which is conservative.

    References
    ----------
    .. [1] Price and Bonett (2004), An improved confidence interval for a linear function of
       binomial proportions, Computational Statistics & Data Analysis 45.

    Examples
    --------
    >>> result = macro_mean([[1, 0, 1, 1], [0, 0, 1, 0]])
    >>> result.mean, round(result.se, 4)
    (0.5, 0.1768)
    """
    confidence = validation.fraction(confidence, "confidence")
    values = [validation.vector(part, f"parts[{i}]") for i, part in enumerate(parts)]
    if not values or not all(map(len, values)):
        raise InvalidInputError(
            "`parts` must contain at least one part, and each part at least one value"
        )
    mean = float(np.mean([part.mean() for part in values]))
    n_units = sum(map(len, values))
    codes, n_groups = _codes(values, groups)
    variance, df, reason = _variance(values, codes, n_groups)
    se = None if variance is None else math.sqrt(variance)
    independent = n_groups == n_units
    binary = all(bool(((part == 0.0) | (part == 1.0)).all()) for part in values)
    ci = None
    if se is not None and not negligible(se, max(float(np.abs(part).max()) for part in values)):
        half = critical_value(confidence, df) * se
        ci = BootstrapCI(mean, mean - half, mean + half, confidence, 0, "t, macro")
    elif not reason:
        reason = "the values do not vary within parts"
    if binary and independent:
        ci = _adjusted_wald(values, mean, variance or 0.0, confidence)
        reason = "" if reason.startswith("the values") else reason
    return MacroMean(mean, se, ci, len(values), n_units, n_groups, df, reason)


def _codes(
    values: Sequence[FloatArray], groups: Sequence[ArrayLike] | None
) -> tuple[list[IntArray], int]:
    """Return the group codes of the units, by part; without groups, units are independent."""
    ends = np.cumsum([len(part) for part in values])
    if groups is None:
        codes = np.arange(ends[-1])
    else:
        if len(groups) != len(values):
            raise InvalidInputError(
                f"`groups` has {len(groups)} parts but `parts` has {len(values)}"
            )
        labels = [np.asarray(part).astype(str) for part in groups]
        for i, (part, label) in enumerate(zip(values, labels, strict=True)):
            if part.shape != label.shape:
                raise InvalidInputError(
                    f"groups[{i}] has {label.size} entries for {len(part)} units"
                )
        codes = np.unique(np.concatenate(labels), return_inverse=True)[1]
    return np.split(codes, ends[:-1]), int(codes.max()) + 1


def _variance(
    values: Sequence[FloatArray], codes: Sequence[IntArray], n_groups: int
) -> tuple[float | None, float, str]:
    """Return the variance of the macro mean, its degrees of freedom and a note.

    Each group contributes the sum of its units' deviations, divided by n times the number of parts.
    The variance of a part with C groups is scaled by C / (C − 1), as in the cluster-robust
    estimator.
    """
    n_parts = len(values)
    totals = np.zeros(n_groups)
    shares, sizes = [], []
    for part, code in zip(values, codes, strict=True):
        there = np.bincount(code, minlength=n_groups) > 0
        n = int(there.sum())
        sizes.append(n)
        if n < 2:
            continue
        scale = math.sqrt(n / (n - 1)) / (len(part) * n_parts)
        deviations = np.bincount(code, (part - part.mean()) * scale, n_groups)
        totals += deviations
        shares.append((float(np.sum(deviations**2)), n))
    if not shares:
        return _spread_between(values, n_groups)
    known = float(np.sum(totals**2))
    lone = n_parts - len(shares)
    reason = ""
    if lone:  # contribution of one unit of an average part
        spread = float(np.mean([share * n for share, n in shares]))
        known += lone * spread
        reason = f"{lone} parts with a single unit use the variance of the other parts"
    weights = sum(share * share / (n - 1) for share, n in shares)
    df = known * known / weights if weights > 0.0 else float(sum(sizes) - n_parts or 1)
    return known, min(df, max(1.0, n_groups - 1.0)), reason  # groups may span parts


def _spread_between(values: Sequence[FloatArray], n_groups: int) -> tuple[float | None, float, str]:
    """Return the variance between parts, for parts that consist of a single unit or group."""
    n_parts = len(values)
    if n_parts < 2 or n_groups < n_parts:
        return None, 0.0, "no part has two independent units, so the variance is unknown"
    means = np.array([part.mean() for part in values])
    reason = "every part has a single unit; the variance between parts is used"
    return float(means.var(ddof=1)) / n_parts, float(n_parts - 1), reason


def _adjusted_wald(
    values: Sequence[FloatArray], mean: float, unbiased: float, confidence: float
) -> BootstrapCI:
    """Return the interval for a mean of proportions, adding 4 pseudo-observations in total."""
    k = len(values)
    n = np.array([len(part) for part in values], dtype=np.float64)
    successes = np.array([part.sum() for part in values])
    z = normal_quantile(0.5 + confidence / 2)
    extra = z * z / k
    shares = (successes + extra / 2) / (n + extra)
    variance = float(np.sum(shares * (1 - shares) / (n + extra))) / k**2
    half = z * math.sqrt(max(variance, unbiased) if k > 1 else variance)
    centre = float(shares.mean())
    return BootstrapCI(
        mean,
        min(mean, max(0.0, centre - half)),
        max(mean, min(1.0, centre + half)),
        confidence,
        0,
        "adjusted-wald, macro",
    )
