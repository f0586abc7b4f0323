"""Per-stratum metrics and score summaries."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal.validation import (
    UNLABELED,
    IntArray,
    binary_pair,
    fraction,
    identifiers,
    is_missing,
    number,
    object_codes,
    same_length,
    vector,
)
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.metrics.confusion import checked_threshold
from eval_toolkit.metrics.ranking import pr_auc
from eval_toolkit.metrics.wilson import wilson_bounds

_MIN_PER_CLASS = 10


def stratified_recall(
    y_true: ArrayLike,
    y_score: ArrayLike,
    threshold: float,
    strata: ArrayLike,
    *,
    with_ci: bool = False,
    confidence: float = 0.95,
) -> dict[Any, dict[str, Any]]:
    """Return the recall in each stratum at a threshold.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1.
    y_score : array-like of shape (n,)
        Scores; a row is predicted positive iff its score is at least the threshold.
    threshold : float
        Decision threshold; may be infinite.
    strata : array-like of shape (n,)
        Stratum of each row; None and NaN become "unlabeled".
    with_ci : bool, default False
        Whether to add the Wilson interval for each recall.
    confidence : float, default 0.95
        Confidence level of the intervals.

    Returns
    -------
    dict
        Stratum, in order of first appearance, to ``recall``, ``n`` (its positives), ``tp``, ``fn``
        and optionally ``ci_low`` and ``ci_high``. For strata without positives, recall and bounds
        are None and a ``reason`` is given.

    Raises
    ------
    InvalidInputError
        If the data are invalid, the lengths differ, a stratum is not hashable, or the threshold
        is NaN.

    Examples
    --------
    >>> by_source = stratified_recall([1, 1, 1, 0], [0.9, 0.2, 0.7, 0.1], 0.5, ["a", "a", "b", "c"])
    >>> by_source["a"]
    {'recall': 0.5, 'n': 2, 'tp': 1, 'fn': 1}
    >>> by_source["c"]["recall"] is None, by_source["c"]["reason"]
    (True, 'recall is undefined: there are no positives')
    """
    threshold = checked_threshold(threshold)
    confidence = fraction(confidence, "confidence")
    labels, scores = binary_pair(y_true, y_score)
    names, codes = _stratum_codes(strata)
    same_length(labels, codes, ("y_true", "strata"))
    positives = np.bincount(codes[labels], minlength=len(names)).tolist()
    hits = np.bincount(codes[labels & (scores >= threshold)], minlength=len(names)).tolist()
    result: dict[Any, dict[str, Any]] = {}
    for name, n, tp in zip(names, positives, hits, strict=True):
        cell: dict[str, Any] = {"recall": tp / n if n else None, "n": n, "tp": tp, "fn": n - tp}
        if with_ci:
            cell["ci_low"], cell["ci_high"] = (
                wilson_bounds(tp, n, confidence) if n else (None, None)
            )
        if not n:
            cell["reason"] = "recall is undefined: there are no positives"
        result[name] = cell
    return result


def _stratum_codes(strata: ArrayLike) -> tuple[list[Any], IntArray]:
    """Return the strata in order of first appearance, and the stratum index of each row."""
    values, codes = object_codes(identifiers(strata, "strata").astype(object), "strata")
    names = [UNLABELED if is_missing(value) else value for value in values]
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    return list(places), np.array([places[name] for name in names])[codes]


def quantile_stratified_pr_auc(
    y_true: ArrayLike,
    y_score: ArrayLike,
    stratifier: ArrayLike,
    q_low: float = 0.25,
    q_high: float = 0.75,
) -> dict[str, Any]:
    """Return average precision on the rows between two quantiles of a covariate.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1.
    y_score : array-like of shape (n,)
        Scores; higher means more positive.
    stratifier : array-like of shape (n,)
        Covariate that should be irrelevant, e.g. text length.
    q_low, q_high : float, default 0.25 and 0.75
        Quantiles with ``0 <= q_low < q_high <= 1``; both ends are included.

    Returns
    -------
    dict
        ``pr_auc``, ``n``, ``n_positive``, ``n_negative``, ``stratifier_low``,
        ``stratifier_high``, ``q_low``, ``q_high``.

    Raises
    ------
    InvalidInputError
        If the data or the quantiles are invalid.
    UndefinedMetricError
        If fewer than 10 rows of either class remain.

    Examples
    --------
    >>> y = [0, 1] * 30
    >>> lengths = list(range(60))
    >>> middle = quantile_stratified_pr_auc(y, y, lengths)
    >>> middle["pr_auc"], middle["n"], middle["stratifier_low"]
    (1.0, 30, 14.75)
    """
    labels, scores = binary_pair(y_true, y_score)
    covariate = vector(stratifier, "stratifier")
    same_length(labels, covariate, ("y_true", "stratifier"))
    q_low = number(q_low, "q_low", low=0.0, high=1.0)
    q_high = number(q_high, "q_high", low=0.0, high=1.0)
    if q_low >= q_high:
        raise InvalidInputError(f"`q_low` is {q_low:g}; it must be below `q_high`, {q_high:g}")
    low, high = np.quantile(covariate, [q_low, q_high]).tolist()
    kept = (covariate >= low) & (covariate <= high)
    n, n_positive = int(np.count_nonzero(kept)), int(np.count_nonzero(labels & kept))
    if min(n_positive, n - n_positive) < _MIN_PER_CLASS:
        raise UndefinedMetricError(
            f"quantile_stratified_pr_auc is undefined: there are {n_positive} positives and "
            f"{n - n_positive} negatives between the quantiles; it needs {_MIN_PER_CLASS} of each"
        )
    return {
        "pr_auc": pr_auc(labels[kept], scores[kept]),
        "n": n,
        "n_positive": n_positive,
        "n_negative": n - n_positive,
        "stratifier_low": low,
        "stratifier_high": high,
        "q_low": q_low,
        "q_high": q_high,
    }


def quantile_stratified_report(
    y_true: ArrayLike,
    y_score: ArrayLike,
    stratifier: ArrayLike,
    *,
    q_low: float = 0.25,
    q_high: float = 0.75,
    gap_threshold: float = 0.05,
) -> dict[str, Any]:
    """Compare average precision on all rows and on rows with typical covariate values.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1.
    y_score : array-like of shape (n,)
        Scores; higher means more positive.
    stratifier : array-like of shape (n,)
        Covariate that should be irrelevant, e.g. text length.
    q_low, q_high : float, default 0.25 and 0.75
        Quantiles between which covariate values are typical.
    gap_threshold : float, default 0.05
        Gap above which the result is flagged.

    Returns
    -------
    dict
        ``full`` and ``trimmed`` (average precision of all and of typical rows), ``gap`` = full −
        trimmed, and ``gap_flag``: whether the gap exceeds the threshold, i.e. whether much of the
        performance is due to extreme values of the covariate.

    Raises
    ------
    InvalidInputError
        If the data, the quantiles or the threshold are invalid.
    UndefinedMetricError
        If fewer than 10 rows of either class remain.

    Examples
    --------
    >>> y = [0, 1] * 30
    >>> quantile_stratified_report(y, y, list(range(60)))
    {'full': 1.0, 'trimmed': 1.0, 'gap': 0.0, 'gap_flag': False}
    """
    gap_threshold = number(gap_threshold, "gap_threshold")
    trimmed = quantile_stratified_pr_auc(y_true, y_score, stratifier, q_low, q_high)["pr_auc"]
    full = pr_auc(y_true, y_score)
    gap = full - trimmed
    return {"full": full, "trimmed": trimmed, "gap": gap, "gap_flag": gap > gap_threshold}


def score_distribution_summary(scores: ArrayLike) -> dict[str, Any]:
    """Return size, mean, median, standard deviation and quartiles of the scores.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Finite scores.

    Returns
    -------
    dict
        ``n``, ``mean``, ``median``, ``std`` (divided by n), ``q25`` and ``q75``.

    Raises
    ------
    InvalidInputError
        If there are no scores, or one is not finite.

    Examples
    --------
    >>> score_distribution_summary([0.0, 0.5, 1.0])["median"]
    0.5
    """
    values = vector(scores, "scores")
    q25, median, q75 = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
    return {
        "n": len(values),
        "mean": float(values.mean()),
        "median": median,
        "std": float(values.std()),
        "q25": q25,
        "q75": q75,
    }
