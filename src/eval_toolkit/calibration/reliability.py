"""Reliability curves: predicted probabilities and observed frequencies by bin, with intervals."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit import metrics
from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import BoolArray, FloatArray
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.inference.agreement import clustered_n, clustered_rate
from eval_toolkit.inference.proportions import score_interval
from eval_toolkit.metrics.binning import ReliabilityCurve
from eval_toolkit.metrics.wilson import wilson_bounds

DEFAULT_N_BINS = 10
DEFAULT_STRATEGY = "quantile"


def reliability_curve(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    n_bins: int = DEFAULT_N_BINS,
    strategy: str = DEFAULT_STRATEGY,
    confidence: float = 0.95,
    groups: ArrayLike | None = None,
) -> dict[str, Any]:
    """Return observed frequency and mean prediction per bin, with Wilson intervals.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1.
    y_score : array-like of shape (n,)
        Predicted probabilities of the positive class, in [0, 1].
    n_bins : int, default 10
        Requested number of bins, at least 2.
    strategy : {"quantile", "uniform"}, default "quantile"
        Bins of equal mass, or of equal width on [0, 1].
    confidence : float, default 0.95
        Two-sided confidence level of the interval for each bin.
    groups : array-like of shape (n,), optional
        Group of each row; intervals account for correlation within groups.

    Returns
    -------
    dict
        ``n``, ``n_positive``, ``n_bins``, ``strategy``, ``confidence``; lists with one entry per
        nonempty bin: ``prob_true``, ``prob_pred``, ``n_per_bin``, ``bin_lower``, ``bin_upper``,
        ``ci_low``, ``ci_high``, ``bin_index``; ``bin_edges``, ascending; and ``ece_equal_mass`` and
        ``ece_equal_width``. ``bin_edges`` includes empty bins of equal width: entry ``i`` of the
        lists is the bin that starts at ``bin_edges[bin_index[i]]``. Equal-mass bins are contiguous.
        With fewer rows than bins, ``ece_equal_mass`` is None and ``ece_equal_mass_error`` gives the
        reason. With a single class, or too few rows for the bins,
        ``{"skipped", "n", "n_positive"}``.

    Raises
    ------
    InvalidInputError
        If the data are invalid, a score is outside [0, 1], or an option is invalid.

    Notes
    -----
    Edges, counts and means are computed from the same grouping of rows, so they are consistent even
    with ties and empty bins. Adjacent equal-mass bins that contain a single common score are
    merged. The calibration errors are those of `expected_calibration_error_equal_mass` and
    `expected_calibration_error` on the same data.

    Examples
    --------
    >>> curve = reliability_curve([0, 0, 1, 1], [0.1, 0.3, 0.6, 0.8], n_bins=2)
    >>> curve["prob_true"], curve["n_per_bin"], curve["bin_edges"]
    ([0.0, 1.0], [2, 2], [0.1, 0.6, 0.8])
    """
    labels, scores = validation.probability_pair(y_true, y_score)
    validation.fraction(confidence, "confidence")
    validation.bin_count(n_bins)
    validation.choice(strategy, "strategy", ("quantile", "uniform"))
    n, n_positive = len(labels), int(labels.sum())
    if n_positive in (0, n):
        reason = f"all {n} rows are {'positive' if n_positive else 'negative'}"
        return {"skipped": reason, "n": n, "n_positive": n_positive}
    if strategy == "quantile" and n < n_bins:
        reason = f"{n} rows are too few for {n_bins} bins of equal mass"
        return {"skipped": reason, "n": n, "n_positive": n_positive}
    bins = _each_score_once(
        metrics.calibration_curve(labels, scores, n_bins=n_bins, strategy=strategy)
    )
    if groups is None:
        low, high = wilson_bounds(bins.fraction_positive * bins.n, bins.n, confidence)
    else:
        low, high = _grouped_ends(bins, labels, scores, groups, confidence)
    curve = {
        "n": n,
        "n_positive": n_positive,
        "n_bins": n_bins,
        "strategy": strategy,
        "confidence": confidence,
        "prob_true": bins.fraction_positive.tolist(),
        "prob_pred": bins.mean_predicted.tolist(),
        "n_per_bin": [round(count) for count in bins.n.tolist()],
        "bin_lower": bins.bin_lower.tolist(),
        "bin_upper": bins.bin_upper.tolist(),
        **_edges(bins, n_bins),
        "ci_low": low.tolist(),
        "ci_high": high.tolist(),
        "ece_equal_width": metrics.expected_calibration_error(labels, scores, n_bins),
    }
    return curve | _equal_mass_error(labels, scores, n_bins)


def _edges(bins: ReliabilityCurve, n_bins: int) -> dict[str, list[Any]]:
    """Return the edges of all bins, and the indices of nonempty bins."""
    if bins.strategy == "quantile":  # equal-mass bins are never empty
        edges = [*bins.bin_lower.tolist(), float(bins.bin_upper[-1])]
        return {"bin_edges": edges, "bin_index": list(range(len(bins.n)))}
    edges = [k / n_bins for k in range(n_bins + 1)]
    return {"bin_edges": edges, "bin_index": np.searchsorted(edges, bins.bin_lower).tolist()}


def _grouped_ends(
    bins: ReliabilityCurve,
    labels: BoolArray,
    scores: FloatArray,
    groups: ArrayLike,
    confidence: float,
) -> tuple[FloatArray, FloatArray]:
    """Return the `clustered_rate` interval for each bin's observed frequency."""
    codes, _ = validation.group_codes(groups, len(labels))
    ends = []
    for at, (low, high) in enumerate(zip(bins.bin_lower, bins.bin_upper, strict=True)):
        closed = bins.strategy == "quantile" or high == 1.0
        inside = (scores >= low) & ((scores <= high) if closed else (scores < high))
        worth = clustered_n(labels[inside], codes[inside], confidence)
        if worth is None or bins.n[at] == inside.sum():
            rate = clustered_rate(labels[inside], codes[inside], confidence)
            ends.append((rate.low, rate.high))
            continue
        # A score at an edge is shared by two bins: its rows count in part.
        share, rows = float(bins.fraction_positive[at]), float(bins.n[at] / inside.sum())
        below, above = (score_interval(share, n * rows, confidence=confidence) for n in worth)
        ends.append((below[0], above[1]))
    low_ends, high_ends = np.array(ends).T
    return low_ends, high_ends


def _each_score_once(bins: ReliabilityCurve) -> ReliabilityCurve:
    """Merge neighbouring bins that contain a single common score.

    The bins have equal means and frequencies; separate intervals would be too wide.
    """
    single = bins.bin_lower == bins.bin_upper
    same = single[1:] & single[:-1] & (bins.bin_lower[1:] == bins.bin_lower[:-1])
    first = np.flatnonzero(np.concatenate(([True], ~same)))
    return ReliabilityCurve(
        bin_lower=bins.bin_lower[first],
        bin_upper=bins.bin_upper[first],
        mean_predicted=bins.mean_predicted[first],
        fraction_positive=bins.fraction_positive[first],
        n=np.add.reduceat(bins.n, first),
        strategy=bins.strategy,
    )


def _equal_mass_error(y_true: ArrayLike, y_score: ArrayLike, n_bins: int) -> dict[str, Any]:
    try:
        ece = metrics.expected_calibration_error_equal_mass(y_true, y_score, n_bins)
    except InvalidInputError as error:
        return {"ece_equal_mass": None, "ece_equal_mass_error": str(error)}
    return {"ece_equal_mass": ece}


def reliability_diagram_data(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    n_bins: int = DEFAULT_N_BINS,
    strategy: str = DEFAULT_STRATEGY,
    confidence: float = 0.95,
) -> list[dict[str, Any]]:
    """Return the bins of `reliability_curve` as records, ready for plotting.

    Parameters
    ----------
    y_true, y_score, n_bins, strategy, confidence
        See `reliability_curve`, which also lists the exceptions.

    Returns
    -------
    list of dict
        ``bin_lower``, ``bin_upper``, ``mean_pred``, ``frac_positive``, ``n``, ``ci_low``,
        ``ci_high``; empty if `reliability_curve` is skipped.

    Examples
    --------
    >>> bins = reliability_diagram_data([0, 0, 1, 1], [0.1, 0.3, 0.6, 0.8], n_bins=2)
    >>> bins[0]["bin_upper"], bins[0]["frac_positive"], bins[0]["n"]
    (0.3, 0.0, 2)
    """
    curve = reliability_curve(
        y_true, y_score, n_bins=n_bins, strategy=strategy, confidence=confidence
    )
    if "skipped" in curve:
        return []
    columns = {
        "bin_lower": "bin_lower",
        "bin_upper": "bin_upper",
        "mean_pred": "prob_pred",
        "frac_positive": "prob_true",
        "n": "n_per_bin",
        "ci_low": "ci_low",
        "ci_high": "ci_high",
    }
    return [
        {name: curve[source][row] for name, source in columns.items()}
        for row in range(len(curve["n_per_bin"]))
    ]


def maximum_calibration_error(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    n_bins: int = DEFAULT_N_BINS,
    strategy: str = DEFAULT_STRATEGY,
) -> float | None:
    """Return the largest calibration gap over the bins, or None for a single class.

    Parameters
    ----------
    y_true, y_score, n_bins, strategy
        See `eval_toolkit.metrics.maximum_calibration_error`, which also lists the exceptions and
        accepts weights and a single class.

    Returns
    -------
    float or None
        A value in [0, 1], or None if there is a single class.

    Examples
    --------
    >>> p = [0.25, 0.25, 0.55, 0.75, 0.75]
    >>> round(maximum_calibration_error([0, 0, 1, 1, 1], p, n_bins=2), 4)
    0.3167
    >>> maximum_calibration_error([1, 1], [0.4, 0.6]) is None
    True
    """
    labels, scores = validation.probability_pair(y_true, y_score)
    validation.bin_count(n_bins)
    validation.choice(strategy, "strategy", ("quantile", "uniform"))
    if labels.all() or not labels.any():
        return None
    return metrics.maximum_calibration_error(labels, scores, n_bins=n_bins, strategy=strategy)
