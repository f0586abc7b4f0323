"""Rows in a region of the ROC or precision-recall curve."""

import math
from dataclasses import dataclass, replace
from typing import Any, SupportsFloat

import numpy as np

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray
from eval_toolkit.analysis.predictions import Ref, one_subject
from eval_toolkit.artifacts import PredictionArrays, load_predictions
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.protocols import PredictionReader


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RowsAt(Displayed):
    """Rows with scores in a region, in descending order of score.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.artifacts import write_predictions
    >>> ref = write_predictions(
    ...     tempfile.mkdtemp() + "/p.csv", labels=[0, 1, 1], scores=[0.2, 0.9, 0.6]
    ... )
    >>> rows_at(ref, max_fpr=0.0)
    RowsAt(n=2, n_positive=2, threshold=0.6)
    """

    region: str
    """Description of the requested region."""
    threshold: float | None
    """Lower limit of the scores, inclusive; None if no threshold satisfies the condition."""
    upper: float | None
    """Upper limit of the scores, exclusive; None if there is none."""
    rows: IntArray
    """Positions in the file, from 0."""
    row_ids: tuple[str, ...]
    """Ids of the rows; empty if the file has none."""
    labels: IntArray
    scores: FloatArray
    fpr: float | None
    """False-positive rate at the threshold, over all rows of the scorer and slice; None without
    negatives.
    """
    precision: float | None
    recall: float | None

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        threshold = "None" if self.threshold is None else f"{self.threshold:g}"
        n_positive = int(self.labels.sum())
        return f"RowsAt(n={len(self)}, n_positive={n_positive}, threshold={threshold})"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "region": self.region,
            "threshold": self.threshold,
            "upper": self.upper,
            "fpr": self.fpr,
            "precision": self.precision,
            "recall": self.recall,
            "n": len(self),
            "n_positive": int(self.labels.sum()),
            "rows": self.rows.tolist(),
            "row_ids": list(self.row_ids),
            "labels": self.labels.tolist(),
            "scores": self.scores.tolist(),
        }


def rows_at(
    ref: Ref,
    *,
    max_fpr: SupportsFloat | None = None,
    min_precision: SupportsFloat | None = None,
    thresholds: tuple[SupportsFloat, SupportsFloat | None] | None = None,
    reader: PredictionReader | None = None,
    scorer: str | None = None,
    slice: str | None = None,  # noqa: A002 - the column's name
) -> RowsAt:
    """Return the rows in a region of the ROC or precision-recall curve.

    Parameters
    ----------
    ref : PredictionArtifactRef or mapping
        Reference to stored predictions.
    max_fpr : float, optional
        Select rows at or above the lowest threshold with at most this false-positive rate.
    min_precision : float, optional
        Select rows at or above the lowest threshold with at least this precision.
    thresholds : tuple of (low, high), optional
        Select rows with ``low <= score < high``; a ``high`` of None means no upper limit.
    reader : PredictionReader, optional
        Custom reader for other formats.
    scorer, slice : str, optional
        Scorer and slice to use; required if the file contains several.

    Returns
    -------
    RowsAt
        Ids, labels and scores of the rows, sorted by descending score, and the threshold.

    Raises
    ------
    InvalidInputError
        If not exactly one valid region is given, or the file contains several scorers or slices and
        none is selected.
    UndefinedMetricError
        If ``max_fpr`` is given and there are no negatives.
    ArtifactError
        If the file is missing, altered or malformed, or has duplicate row ids.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.artifacts import write_predictions
    >>> ref = write_predictions(
    ...     tempfile.mkdtemp() + "/p.csv",
    ...     labels=[0, 1, 0, 1],
    ...     scores=[0.1, 0.9, 0.7, 0.6],
    ...     row_ids=["a", "b", "c", "d"],
    ... )
    >>> rows_at(ref, max_fpr=0.5).row_ids
    ('b', 'c', 'd')
    >>> rows_at(ref, thresholds=(0.5, 0.8)).row_ids
    ('c', 'd')
    """
    given = [max_fpr is not None, min_precision is not None, thresholds is not None]
    if sum(given) != 1:
        raise InvalidInputError("pass exactly one of `max_fpr`, `min_precision` and `thresholds`")
    low, high, words = _demand(max_fpr, min_precision, thresholds)
    loaded = load_predictions(ref, reader=reader)
    in_file = one_subject(loaded, scorer=scorer, slice=slice)
    arrays = loaded.take(in_file)
    positive = arrays.labels == 1
    if max_fpr is not None or min_precision is not None:
        low = _lowest(arrays.scores, positive, max_fpr, min_precision)
    inside = arrays.scores >= low
    if high is not None:
        inside &= arrays.scores < high
    found = _selected(arrays, positive, inside, words, low, high)
    return replace(found, rows=in_file[found.rows])


def _demand(
    max_fpr: SupportsFloat | None,
    min_precision: SupportsFloat | None,
    thresholds: tuple[SupportsFloat, SupportsFloat | None] | None,
) -> tuple[float, float | None, str]:
    """Return the bounds of the region if they are known, and its description."""
    if max_fpr is not None:
        ceiling = validation.number(max_fpr, "max_fpr", low=0.0, high=1.0)
        return math.inf, None, f"false-positive rate at most {ceiling:g}"
    if min_precision is not None:
        floor = validation.number(min_precision, "min_precision", low=0.0, high=1.0)
        return math.inf, None, f"precision at least {floor:g}"
    if not isinstance(thresholds, (tuple, list)) or len(thresholds) != 2:
        raise InvalidInputError(f"`thresholds` is {thresholds!r}; it must be a pair (low, high)")
    low = validation.number(thresholds[0], "thresholds[0]")
    if thresholds[1] is None:
        return low, None, f"score at least {low:g}"
    high = validation.number(thresholds[1], "thresholds[1]")
    if high <= low:
        raise InvalidInputError(f"`thresholds` is {thresholds!r}; low must be below high")
    return low, high, f"score at least {low:g} and below {high:g}"


def _lowest(
    scores: FloatArray,
    positive: BoolArray,
    max_fpr: SupportsFloat | None,
    min_precision: SupportsFloat | None,
) -> float:
    """Return the lowest threshold that satisfies the condition; infinity if none does."""
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    last_of_tie = np.append(ranked[1:] != ranked[:-1], True)
    tp = np.cumsum(positive[order])[last_of_tie]
    flagged = np.flatnonzero(last_of_tie) + 1
    if max_fpr is not None:
        n_negative = len(scores) - int(positive.sum())
        if not n_negative:
            raise UndefinedMetricError(
                "the false-positive rate is undefined: there are no negative rows"
            )
        meets = (flagged - tp) / n_negative <= float(max_fpr)
    else:
        meets = tp / flagged >= float(min_precision or 0.0)
    return float(ranked[last_of_tie][np.flatnonzero(meets)[-1]]) if meets.any() else math.inf


def _selected(
    arrays: PredictionArrays,
    positive: BoolArray,
    inside: BoolArray,
    words: str,
    low: float,
    high: float | None,
) -> RowsAt:
    rows = np.flatnonzero(inside)
    names = np.array(arrays.row_ids, dtype=str)[rows] if arrays.row_ids else rows
    rows = rows[np.lexsort((names, -arrays.scores[rows]))]
    flagged = arrays.scores >= low
    tp, n_flagged, n_positive = (
        int(mask.sum()) for mask in (positive & flagged, flagged, positive)
    )
    n_negative = len(positive) - n_positive
    return RowsAt(
        region=words,
        threshold=low if math.isfinite(low) else None,
        upper=high,
        rows=rows,
        row_ids=tuple(arrays.row_ids[row] for row in rows) if arrays.row_ids else (),
        labels=arrays.labels[rows],
        scores=arrays.scores[rows],
        fpr=(n_flagged - tp) / n_negative if n_negative else None,
        precision=tp / n_flagged if n_flagged else None,
        recall=tp / n_positive if n_positive else None,
    )
