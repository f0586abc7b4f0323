"""The mean over parts, each counting the same: subjects of a benchmark, languages, sources."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eval_toolkit import _validate
from eval_toolkit._validate import FloatArray
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.inference._distributions import (
    critical_value,
    negligible,
    normal_quantile,
)
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, BootstrapCI

__all__ = ["MacroMean", "macro_mean"]


@dataclass(frozen=True, slots=True)
class MacroMean:
    """The mean of the parts' means, with its standard error and interval.

    Examples
    --------
    >>> macro_mean([[1, 0], [1, 1]]).mean
    0.75
    """

    mean: float
    se: float | None
    """None where no part has two independent units."""
    ci: BootstrapCI | None
    n_parts: int
    n_units: int
    n_groups: int
    df: float = 0.0
    """Welch's degrees of freedom."""
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
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
    """Average the means of parts, each part counting the same, with the right standard error.

    Parameters
    ----------
    parts : sequence of array-like
        The units' values, part by part; none empty.
    groups : sequence of array-like, optional
        Groups of the units, part by part; a group may reach across parts.
    confidence : float, default 0.95
        Nominal coverage.

    Returns
    -------
    MacroMean
        ``sqrt(sum of the parts' squared standard errors) / number of parts`` as standard error.

    Raises
    ------
    InvalidInputError
        If there is no part, one is empty, or a value is not finite.

    Notes
    -----
    Parts are taken as given, not as drawn from more parts. For 0/1 values of independent units the
    interval is the adjusted Wald interval of a linear combination of proportions [1]_, which
    covers well where parts are few or unanimous. Of many small parts its variance falls short, as
    it divides by n and not by n − 1: there the unbiased one takes its place. Otherwise it is
    Student's t with Welch's degrees of freedom. A part of one unit takes its spread from the others; where every part is one, from
    the differences between parts, which is more than its own.

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
    confidence = _validate.fraction(confidence, "confidence")
    values = [_validate.vector(part, f"parts[{i}]") for i, part in enumerate(parts)]
    if not values or not all(map(len, values)):
        raise InvalidInputError("`parts` must hold at least one part, and every part a value")
    labels = _labels(values, groups)
    mean = float(np.mean([part.mean() for part in values]))
    sizes = [len(np.unique(part)) for part in labels]
    n_units, n_groups = sum(map(len, values)), len(np.unique(np.concatenate(labels)))
    variance, df, reason = _variance(values, labels, sizes)
    se = None if variance is None else math.sqrt(variance)
    independent = n_groups == n_units
    binary = all(bool(np.isin(part, (0.0, 1.0)).all()) for part in values)
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


def _labels(values: Sequence[FloatArray], groups: Sequence[ArrayLike] | None) -> list[NDArray[Any]]:
    """Return the group of every unit; units without groups are on their own."""
    if groups is None:
        ends = np.cumsum([len(part) for part in values])
        return [np.arange(end - len(v), end) for end, v in zip(ends, values, strict=True)]
    if len(groups) != len(values):
        raise InvalidInputError(f"`groups` has {len(groups)} parts but `parts` has {len(values)}")
    labels = [np.asarray(part).astype(str) for part in groups]
    for i, (part, label) in enumerate(zip(values, labels, strict=True)):
        if part.shape != label.shape:
            raise InvalidInputError(f"groups[{i}] has {label.size} entries for {len(part)} units")
    return labels


def _variance(
    values: Sequence[FloatArray], labels: Sequence[NDArray[Any]], sizes: Sequence[int]
) -> tuple[float | None, float, str]:
    """Return the variance of the macro mean, its degrees of freedom and a remark.

    Each group contributes the sum of its units' deviations over n times the number of parts; within
    a part these are scaled by C / (C − 1) groups, as the cluster-robust estimator does.
    """
    n_parts = len(values)
    sums: dict[Any, float] = {}
    shares = []
    for part, label, n in zip(values, labels, sizes, strict=True):
        if n < 2:
            continue
        scale = math.sqrt(n / (n - 1)) / (len(part) * n_parts)
        names, codes = np.unique(label, return_inverse=True)
        deviations = np.bincount(codes, (part - part.mean()) * scale)
        for name, deviation in zip(names.tolist(), deviations.tolist(), strict=True):
            sums[name] = sums.get(name, 0.0) + deviation
        shares.append((float(np.sum(deviations**2)), n))
    if not shares:
        return _spread_between(values, labels, n_parts)
    known = float(sum(total * total for total in sums.values()))
    lone = n_parts - len(shares)
    reason = ""
    if lone:  # what one unit of an average part would contribute
        spread = float(np.mean([share * n for share, n in shares]))
        known += lone * spread
        reason = f"{lone} parts of one unit take their spread from the others"
    weights = sum(share * share / (n - 1) for share, n in shares)
    df = known * known / weights if weights > 0.0 else float(sum(sizes) - n_parts or 1)
    return known, df, reason


def _spread_between(
    values: Sequence[FloatArray], labels: Sequence[NDArray[Any]], n_parts: int
) -> tuple[float | None, float, str]:
    """Return the variance where every part is one unit or group: from their differences."""
    if n_parts < 2 or len(np.unique(np.concatenate(labels))) < n_parts:
        return None, 0.0, "no part has two independent units, so the spread is not known"
    means = np.array([part.mean() for part in values])
    reason = "every part is one unit; the spread is that between parts"
    return float(means.var(ddof=1)) / n_parts, float(n_parts - 1), reason


def _adjusted_wald(
    values: Sequence[FloatArray], mean: float, unbiased: float, confidence: float
) -> BootstrapCI:
    """Return the interval of a mean of proportions, with 4 pseudo-observations over all parts."""
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
