"""Score bins: equal width on [0, 1], or equal mass along the sorted rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.metrics.cumulative import score_groups


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReliabilityCurve(Displayed):
    """Mean prediction and fraction of positives by bin; empty bins are omitted.

    Iteration yields ``fraction_positive, mean_predicted``, in the order of scikit-learn.
    """

    bin_lower: FloatArray
    """Lower edge (equal width) or smallest score (equal mass) of each bin."""
    bin_upper: FloatArray
    """Upper edge (equal width) or largest score (equal mass) of each bin."""
    mean_predicted: FloatArray
    fraction_positive: FloatArray
    n: FloatArray
    """Number of rows in each bin, or their total weight."""
    strategy: str

    def __iter__(self) -> Iterator[FloatArray]:
        return iter((self.fraction_positive, self.mean_predicted))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "bin_lower": self.bin_lower.tolist(),
            "bin_upper": self.bin_upper.tolist(),
            "mean_predicted": self.mean_predicted.tolist(),
            "fraction_positive": self.fraction_positive.tolist(),
            "n": self.n.tolist(),
            "strategy": self.strategy,
        }

    @property
    def gaps(self) -> FloatArray:
        """Mean prediction minus fraction of positives, per bin."""
        return self.mean_predicted - self.fraction_positive

    def average(self, values: FloatArray) -> float:
        """Return the mean of per-bin values, weighted by the numbers of rows."""
        return float(self.n @ values) / float(self.n.sum())


def equal_width_index(scores: FloatArray, n_bins: int) -> IntArray:
    """Return the index of each score's bin [k/n, (k+1)/n); the last bin includes 1."""
    # Edges are the quotients k/n, so that 0.3 is the lower edge of bin 3 of 10. The product may
    # round across an edge, by at most one bin.
    index = np.minimum((scores * n_bins).astype(np.int64), n_bins - 1)
    index -= scores < index / n_bins
    index += (scores >= (index + 1) / n_bins) & (index < n_bins - 1)
    return index


def equal_width_bins(
    labels: BoolArray, scores: FloatArray, weights: FloatArray | None, n_bins: int
) -> ReliabilityCurve:
    """Group rows into ``n_bins`` bins of equal width on [0, 1]."""
    index = equal_width_index(scores, n_bins)
    by_class = np.bincount(index + n_bins * labels, weights, 2 * n_bins).astype(np.float64)
    negatives, positives = by_class[:n_bins], by_class[n_bins:]
    score_sum = np.bincount(index, scores if weights is None else scores * weights, n_bins)
    kept = np.flatnonzero(negatives + positives)
    n = (negatives + positives)[kept]
    lower, upper = kept / n_bins, (kept + 1) / n_bins
    return ReliabilityCurve(
        bin_lower=lower,
        bin_upper=upper,
        mean_predicted=np.clip(score_sum[kept] / n, lower, upper),
        fraction_positive=positives[kept] / n,
        n=n,
        strategy="uniform",
    )


def equal_mass_cuts(total: float, n_bins: int, *, whole_rows: bool) -> FloatArray:
    """Return the ``n_bins + 1`` cut positions of the sorted rows, from 0 to ``total``."""
    multiples = np.arange(n_bins + 1) * total
    cuts = np.floor_divide(multiples, n_bins) if whole_rows else multiples / n_bins
    cuts[-1] = total  # exact despite rounding
    return cuts


def equal_mass_bins(
    labels: BoolArray, scores: FloatArray, weights: FloatArray | None, n_bins: int
) -> ReliabilityCurve:
    """Group rows into ``n_bins`` bins of approximately equal mass along the scores.

    The sorted rows are cut at positions ``⌊k n / n_bins⌋``, k = 0, …, n_bins. A cut inside a group
    of tied scores divides the group's positives proportionally, which is the average over all
    orders of the tied rows, so results do not depend on the input order. Weights act as
    frequencies; if they are not all integers, cuts are not rounded.
    """
    groups = score_groups(labels, scores, weights)
    n_rows = len(scores) if weights is None else int(np.count_nonzero(weights))
    if n_rows < n_bins:
        raise InvalidInputError(
            f"`n_bins` is {n_bins} but there are only {n_rows} rows; "
            "equal-mass bins need at least one row each"
        )
    mass_up_to, positives_up_to, score_sum_up_to = _ascending(
        groups.tp + groups.fp, groups.tp, groups.thresholds
    )
    whole = weights is None or not np.any(weights % 1.0)
    cuts = equal_mass_cuts(mass_up_to[-1], n_bins, whole_rows=whole)
    n = np.diff(cuts)
    ascending = groups.thresholds[::-1]
    lower = ascending[np.searchsorted(mass_up_to, cuts[:-1], side="right") - 1]
    upper = ascending[np.searchsorted(mass_up_to, cuts[1:], side="left") - 1]
    positives = np.diff(np.interp(cuts, mass_up_to, positives_up_to))
    score_sum = np.diff(np.interp(cuts, mass_up_to, score_sum_up_to))
    return ReliabilityCurve(
        bin_lower=lower,
        bin_upper=upper,
        mean_predicted=np.clip(score_sum / n, lower, upper),
        fraction_positive=np.clip(positives / n, 0.0, 1.0),
        n=n,
        strategy="quantile",
    )


def _ascending(
    mass: FloatArray, positives: FloatArray, thresholds: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Convert cumulative counts from the top into cumulative sums from the bottom."""
    group_mass = np.diff(mass, prepend=0.0)[::-1]
    group_positives = np.diff(positives, prepend=0.0)[::-1]
    sums = (group_mass, group_positives, group_mass * thresholds[::-1])
    mass_up_to, positives_up_to, score_sum_up_to = (
        np.concatenate(([0.0], np.cumsum(part))) for part in sums
    )
    return mass_up_to, positives_up_to, score_sum_up_to
