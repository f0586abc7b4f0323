"""Thresholds section: rates and cost at every threshold."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eval_toolkit._internal.display import Count, Number, Status, Table
from eval_toolkit._internal.validation import FloatArray, IntArray
from eval_toolkit.metrics import metrics_at_threshold
from eval_toolkit.report.scored_rows import (
    MAX_SUBJECTS,
    Point,
    Scored,
    class_names,
    left_out,
    of_folds,
    scored_of,
    stored_points,
)
from eval_toolkit.report.sections import Figure, Section, Wanted
from eval_toolkit.runs import Run

MAX_THRESHOLDS = 1000
_RATES = ("precision", "recall", "fpr", "f1")


@dataclass(frozen=True, eq=False, kw_only=True)
class Grid:
    """Ascending thresholds, with the numbers of positives and negatives at or above each."""

    thresholds: FloatArray
    tp: IntArray
    fp: IntArray
    n_positive: int
    n_negative: int

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict, as embedded in the page."""
        return {
            "thresholds": self.thresholds.tolist(),
            "tp": self.tp.tolist(),
            "fp": self.fp.tolist(),
            "n_positive": self.n_positive,
            "n_negative": self.n_negative,
        }


def build(run: Run, wanted: Wanted) -> Section | None:
    """Return the section; None if no scorer has rows of both classes."""
    subjects = [one for one in scored_of(run) if one.has_both_classes]
    if not subjects:
        return None
    shown = subjects[:MAX_SUBJECTS]
    classes = class_names(run)
    panels = []
    figures: list[Figure] = []
    for at, one in enumerate(shown):
        points = stored_points(run, one.scorer)
        table_at = _round_thresholds(one)
        grid = grid_of(one.labels, one.scores, [*(p.threshold for p in points), *table_at])
        if wanted.charts:
            figures.append(_figure(one, points, at))
        panels.append(
            {
                "id": f"panel-{at + 1}",
                "name": one.name,
                "payload": grid.to_dict() | {"start": _start(grid, points, one)},
                "low": f"{grid.thresholds[0]:.4g}",
                "high": f"{grid.thresholds[-1]:.4g}",
                "points": [
                    {"said": point.said, "threshold": f"{point.threshold:.6g}", "at": place}
                    for point in points
                    for place in [int(np.searchsorted(grid.thresholds, point.threshold))]
                ],
                "table": _table(one, table_at, points),
                "thinned": _thinned(one, grid),
            }
        )
    return Section(
        id="thresholds",
        menu="Thresholds",
        title="Which threshold?",
        template="thresholds.html",
        lead=f"A row counts as {classes[1]} when its score is at least the threshold.",
        data={"classes": classes, "panels": panels, "figures": figures, "several": len(panels) > 1},
        notes=[
            (
                "a threshold selected on these rows looks better on them than on new data: select "
                "it on other rows (eval-toolkit score --threshold-from)"
            ),
            *of_folds(run, shown),
            *left_out(subjects, shown),
        ],
    )


def grid_of(labels: IntArray, scores: FloatArray, also: Sequence[float] = ()) -> Grid:
    """Return a grid of thresholds taken from the scores, with exact counts at each.

    The grid contains all distinct scores or, if there are more than about 1 000, every threshold
    that minimises the cost for some cost ratio and others chosen by rank. It also contains the
    thresholds in ``also`` and one above all scores, at which no row is positive. One of the classes
    may be absent.

    Examples
    --------
    >>> grid = grid_of(np.array([0, 0, 1, 1]), np.array([0.1, 0.4, 0.35, 0.8]), [0.5])
    >>> grid.thresholds.tolist(), grid.tp.tolist(), grid.fp.tolist()
    ([0.1, 0.35, 0.4, 0.5, 0.8, 1.0], [2, 2, 1, 1, 1, 0], [2, 1, 1, 0, 0, 0])
    """
    distinct = np.unique(scores)
    positives, negatives = np.sort(scores[labels == 1]), np.sort(scores[labels == 0])
    top = _above(float(distinct[0]), float(distinct[-1]))
    if len(distinct) > MAX_THRESHOLDS:
        ranked = [_by_rank(group) for group in (np.sort(scores), positives, negatives)]
        distinct = np.concatenate([_cheapest(distinct, positives, negatives), *ranked])
    thresholds = np.unique(np.concatenate([distinct, np.asarray(also, dtype=np.float64), [top]]))
    return Grid(
        thresholds=thresholds,
        tp=len(positives) - np.searchsorted(positives, thresholds, side="left"),
        fp=len(negatives) - np.searchsorted(negatives, thresholds, side="left"),
        n_positive=len(positives),
        n_negative=len(negatives),
    )


def _by_rank(ordered: FloatArray) -> FloatArray:
    """Return scores at evenly spaced ranks, denser towards the top, where detectors operate."""
    n = len(ordered)
    if n == 0:
        return ordered
    even = np.linspace(0, n - 1, MAX_THRESHOLDS * 2 // 9)
    from_top = n - np.geomspace(1, n, MAX_THRESHOLDS // 9)
    chosen: FloatArray = ordered[np.concatenate([even, from_top]).round().astype(np.int64)]
    return chosen


def _cheapest(distinct: FloatArray, positives: FloatArray, negatives: FloatArray) -> FloatArray:
    """Return the vertices of the ROC curve's convex hull, one of which minimises any given cost."""
    falling = distinct[::-1]
    tp = len(positives) - np.searchsorted(positives, falling, side="left")
    fp = len(negatives) - np.searchsorted(negatives, falling, side="left")
    hull: list[tuple[int, int, float]] = [(0, 0, np.inf)]
    for x, y, threshold in zip(fp.tolist(), tp.tolist(), falling.tolist(), strict=True):
        while len(hull) > 1:
            (x0, y0, _), (x1, y1, _) = hull[-2:]
            if (x1 - x0) * (y - y0) < (y1 - y0) * (x - x0):
                break  # the previous vertex lies above the line to this point
            hull.pop()
        hull.append((x, y, threshold))
    return np.array([threshold for _, _, threshold in hull[1:]])


def _above(low: float, high: float) -> float:
    """Return a number above all scores; 1 for probabilities below 1."""
    if low >= 0.0 and high < 1.0:
        return 1.0
    beyond = high + 0.01 * (high - low)
    return beyond if beyond > high else float(np.nextafter(high, np.inf))


def _round_thresholds(one: Scored) -> list[float]:
    """Return up to eleven thresholds for the table: tenths, or deciles of the scores."""
    if one.are_probabilities:
        return [round(0.1 * step, 1) for step in range(11)]
    spread = np.quantile(one.scores, np.linspace(0, 1, 11), method="inverted_cdf")
    return [float(value) for value in np.unique(spread)]


def _start(grid: Grid, points: Sequence[Point], one: Scored) -> int:
    """Return the initial position of the slider: a stored threshold, 0.5, or the median."""
    if points:
        wanted = points[0].threshold
    else:
        wanted = 0.5 if one.are_probabilities else float(np.median(one.scores))
    return min(int(np.searchsorted(grid.thresholds, wanted)), len(grid.thresholds) - 1)


def _table(one: Scored, thresholds: Sequence[float], points: Sequence[Point]) -> Table:
    """Return the table that is shown if JavaScript is disabled."""
    stored = {point.threshold: point.said for point in points}
    rows = []
    for threshold in sorted({*thresholds, *stored}):
        at = metrics_at_threshold(one.labels, one.scores, threshold)
        rates = [
            Status("undefined") if name in at["undefined"] else Number(at[name]) for name in _RATES
        ]
        counts = [Count(at[name]) for name in ("tp", "fp", "fn", "tn")]
        rows.append([Number(threshold, ".6g"), *rates, *counts, stored.get(threshold)])
    header = ["threshold", "precision", "recall", "FPR", "F1", "TP", "FP", "FN", "TN", "stored"]
    return Table(header, rows).without_empty(9)


def _thinned(one: Scored, grid: Grid) -> str:
    n = len(np.unique(one.scores))
    if n <= MAX_THRESHOLDS:
        return ""
    return (
        f"The slider stops at {len(grid.thresholds):,} of {n:,} distinct scores, including every "
        "threshold that minimises the cost for some cost ratio"
    )


def _figure(one: Scored, points: Sequence[Point], at: int) -> Figure:
    from eval_toolkit.report.figures import drawn
    from eval_toolkit.report.plots import plot_threshold_curves

    marked = points[0].threshold if points else None
    return drawn(
        plot_threshold_curves(one.labels, one.scores, threshold=marked),
        anchor=f"thresholds-{at + 1}",
        title=f"Rates against the threshold: {one.name}",
        caption=f"The dashed line is {points[0].said}." if points else "",
    )
