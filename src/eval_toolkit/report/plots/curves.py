"""ROC and precision-recall curves, and rates against the threshold."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit import metrics
from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.inference.curve_bands import CurveBand
from eval_toolkit.metrics.cumulative import ScoreGroups
from eval_toolkit.metrics.ranking import ranked
from eval_toolkit.report.plots._charts import (
    Chart,
    altair,
    clean,
    finished,
    heading,
    inline,
    nice,
)
from eval_toolkit.report.plots._rates import (
    Axes,
    band_layers,
    baseline,
    from_zero,
    hover,
    points,
    said_of,
)
from eval_toolkit.report.plots.style import PALETTE
from eval_toolkit.report.plots.thinning import step_vertices, thin_curve


def plot_roc_curve(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    label: str | None = None,
    threshold: float | None = None,
    baseline_curve: Sequence[ArrayLike] | metrics.RocCurve | None = None,
    band: CurveBand | None = None,
    title: str | None = None,
    figsize: tuple[float, float] | None = None,
) -> Chart:
    """Draw the ROC curve with the chance diagonal.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1.
    y_score : array-like of shape (n,)
        Scores; higher means more positive.
    label : str, optional
        Name of the scorer, shown with the area under the curve.
    threshold : float, optional
        Operating point to mark: rows with scores at or above it are predicted positive.
    baseline_curve : pair of array-like, or RocCurve, optional
        False and true positive rates of another scorer, drawn in grey.
    band : CurveBand, optional
        Band returned by `eval_toolkit.inference.roc_band`.
    title : str, optional
        Title above the chart.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Chart
        Altair ``LayerChart``; ``+`` layers another chart on top.

    Raises
    ------
    InvalidInputError
        If the labels or scores are invalid.
    UndefinedMetricError
        If only one class is present.
    MissingExtraError
        If Altair is not installed.

    Examples
    --------
    >>> chart = plot_roc_curve([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], label="A")
    >>> chart.to_dict()["description"]
    'ROC curve of A: area 0.750, 4 rows, 2 positive.'
    """
    groups = ranked(y_true, y_score, None, "the ROC curve")
    fpr, tpr, _ = metrics.roc_curve(y_true, y_score)
    area = metrics.roc_auc(y_true, y_score)
    axes = Axes("False positive rate", "True positive rate")
    layers = [axes.line([0, 1], [0, 1], dash=[4, 4])]
    layers += baseline(axes, baseline_curve, steps=False)
    layers += band_layers(axes, band, "roc", len(np.ravel(y_true)))
    layers += axes.curve(fpr, tpr)
    said = ""
    if threshold is not None:
        at = _at_threshold(groups, threshold)
        x, y = at.fp / groups.n_negative, at.tp / groups.n_positive
        layers += axes.point(x, y, at.threshold)
        said = f" At threshold {at.threshold:g}: FPR {nice(x)}, TPR {nice(y)}."
    name = _label(label)
    said_area = f"{name} · AUC {nice(area)}" if name else f"AUC {nice(area)}"
    layers += axes.notes(said_area, right=True, baseline=baseline_curve is not None)
    return finished(
        altair().layer(*layers),
        title=title,
        figsize=figsize,
        description=f"ROC curve{f' of {name}' if name else ''}: area {nice(area)}, "
        f"{_sizes(groups)}.{said_of(band)}{said}",
        default=(4.6, 4.2),
    )


def plot_pr_curve(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    label: str | None = None,
    threshold: float | None = None,
    baseline_curve: Sequence[ArrayLike] | metrics.PrCurve | None = None,
    prevalence: float | None = None,
    band: CurveBand | None = None,
    title: str | None = None,
    figsize: tuple[float, float] | None = None,
) -> Chart:
    """Draw the precision-recall curve with the precision of a random ranking.

    Parameters
    ----------
    y_true, y_score, label, threshold, title, figsize
        As for `plot_roc_curve`.
    baseline_curve : pair of array-like, or PrCurve, optional
        Recalls and precisions of another scorer, drawn in grey.
    prevalence : float, optional
        Precision of a random ranking, drawn as a dashed line; by default the share of positives.
    band : CurveBand, optional
        Band returned by `eval_toolkit.inference.pr_band`.

    Returns
    -------
    Chart
        Altair ``LayerChart``; ``+`` layers another chart on top.

    Raises
    ------
    InvalidInputError
        If the labels or scores are invalid.
    UndefinedMetricError
        If only one class is present.
    MissingExtraError
        If Altair is not installed.

    Notes
    -----
    The curve is a step function: the precision at a recall is that of the highest threshold that
    reaches it. The area under the drawn curve is therefore `pr_auc`.

    Examples
    --------
    >>> chart = plot_pr_curve([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    >>> chart.to_dict()["description"]
    'Precision-recall curve: average precision 0.833, 4 rows, 2 positive.'
    """
    groups = ranked(y_true, y_score, None, "the precision-recall curve")
    area = metrics.pr_auc(y_true, y_score)
    share = groups.n_positive / (groups.n_positive + groups.n_negative)
    if prevalence is not None:
        share = validation.number(prevalence, "prevalence", low=0.0, high=1.0)
    recall, precision = groups.tp / groups.n_positive, groups.tp / (groups.tp + groups.fp)
    axes = Axes("Recall", "Precision")
    layers = [axes.line([0, 1], [share, share], dash=[4, 4])]
    layers += baseline(axes, baseline_curve, steps=True)
    layers += band_layers(axes, band, "pr", len(np.ravel(y_true)))
    layers += axes.curve(*from_zero(recall, precision))
    said = ""
    if threshold is not None:
        at = _at_threshold(groups, threshold)
        if at.tp + at.fp == 0:
            raise InvalidInputError(
                f"`threshold` is {threshold:g}; no score reaches it, so it has no precision"
            )
        x, y = at.tp / groups.n_positive, at.tp / (at.tp + at.fp)
        layers += axes.point(x, y, at.threshold)
        said = f" At threshold {at.threshold:g}: recall {nice(x)}, precision {nice(y)}."
    name = _label(label)
    said_area = f"{name} · AP {nice(area)}" if name else f"AP {nice(area)}"
    layers += axes.notes(said_area, right=False, baseline=baseline_curve is not None)
    return finished(
        altair().layer(*layers),
        title=title,
        figsize=figsize,
        description=f"Precision-recall curve{f' of {name}' if name else ''}: average precision "
        f"{nice(area)}, {_sizes(groups)}.{said_of(band)}{said}",
        default=(4.6, 4.2),
    )


def plot_threshold_curves(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    threshold: float | None = None,
    title: str | None = None,
    figsize: tuple[float, float] | None = None,
) -> Chart:
    """Draw precision, recall and false positive rate against the threshold.

    Parameters
    ----------
    y_true, y_score : array-like of shape (n,)
        Labels, 0 or 1, and scores.
    threshold : float, optional
        Operating point to mark.
    title, figsize
        As for `plot_roc_curve`.

    Returns
    -------
    Chart
        Altair ``LayerChart``.

    Raises
    ------
    InvalidInputError
        If the labels or scores are invalid.
    UndefinedMetricError
        If only one class is present.
    MissingExtraError
        If Altair is not installed.

    Examples
    --------
    >>> chart = plot_threshold_curves([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], threshold=0.5)
    >>> chart.to_dict()["description"]
    'Precision, recall and false positive rate against the threshold, 4 rows, 2 positive. At 0.5: precision 1.000, recall 0.500, FPR 0.000.'
    """
    alt = altair()
    groups = ranked(y_true, y_score, None, "a curve against the threshold")
    rates = {
        "Precision": groups.tp / (groups.tp + groups.fp),
        "Recall": groups.tp / groups.n_positive,
        "False positive rate": groups.fp / groups.n_negative,
    }
    axis = alt.X("x:Q", title="Threshold", scale=_span(groups.thresholds))
    colours = [PALETTE["accent"], PALETTE["negative"], PALETTE["positive"]]
    look = {
        "color": alt.Scale(domain=list(rates), range=colours),
        "strokeDash": alt.Scale(domain=list(rates), range=[[1, 0], [6, 2], [2, 2]]),
    }
    layers = []
    for name, values in rates.items():
        x, y = thin_curve(*_steps(groups.thresholds, values, name), max_points=300)
        base = alt.Chart(inline(points(x, y))).encode(
            x=axis, y=alt.Y("y:Q", title="Rate", scale=alt.Scale(domain=[0, 1]))
        )
        # Store the name once per line, not once per point; expressions may contain our own names.
        named = base.transform_calculate(series=f"'{name}'")
        line = named.mark_line(order=False, strokeWidth=2, clip=True).encode(
            color=alt.Color("series:N", title=None, scale=look["color"]),
            strokeDash=alt.StrokeDash("series:N", title=None, scale=look["strokeDash"]),
        )
        layers += [line, hover(base, {"x": "Threshold", "y": name}, x_format=".6~g")]
    said = ""
    if threshold is not None:
        at = _at_threshold(groups, threshold)
        flagged = at.tp + at.fp
        precision = f"precision {nice(at.tp / flagged)}" if flagged else "no precision"
        said = (
            f" At {at.threshold:g}: {precision}, recall {nice(at.tp / groups.n_positive)}, "
            f"FPR {nice(at.fp / groups.n_negative)}."
        )
        rule = alt.Chart(inline([{"x": at.threshold}]))
        layers.append(
            rule.mark_rule(color=PALETTE["baseline"], strokeDash=[4, 4], strokeWidth=1.5).encode(
                x=axis, tooltip=[alt.Tooltip("x:Q", title="Threshold", format=".4~g")]
            )
        )
    return finished(
        alt.layer(*layers),
        title=title,
        figsize=figsize,
        description="Precision, recall and false positive rate against the threshold, "
        f"{_sizes(groups)}.{said}",
    )


def _steps(thresholds: FloatArray, rates: FloatArray, name: str) -> tuple[FloatArray, FloatArray]:
    """Return the corners of a rate curve, which spans thresholds 0 to 1 for probabilities."""
    x, y = thresholds[::-1], rates[::-1]
    if _are_probabilities(thresholds):
        x, y = np.append(0.0, x), np.append(y[0], y)
        if name != "Precision":  # undefined above the highest score, where no row is positive
            x, y = np.append(x, 1.0), np.append(y, 0.0)
    # A rate holds for thresholds above the next lower score, up to and including its own.
    return step_vertices(x, y, before=True)


class _Point:
    """Counts at a threshold."""

    def __init__(self, threshold: float, tp: float, fp: float) -> None:
        self.threshold, self.tp, self.fp = threshold, tp, fp


def _at_threshold(groups: ScoreGroups, threshold: float) -> _Point:
    value = validation.number(threshold, "threshold")
    above = int(np.searchsorted(-groups.thresholds, -value, side="right"))
    if above == 0:
        return _Point(value, 0.0, 0.0)
    return _Point(value, float(groups.tp[above - 1]), float(groups.fp[above - 1]))


def _label(label: str | None) -> str:
    return "" if label is None else clean(heading(label, "label"), limit=40)


def _sizes(groups: ScoreGroups) -> str:
    n = groups.n_positive + groups.n_negative
    return f"{n:,.0f} rows, {groups.n_positive:,.0f} positive"


def _span(thresholds: FloatArray) -> Any:
    inside = _are_probabilities(thresholds)
    ends = [0, 1] if inside else [float(thresholds.min()), float(thresholds.max())]
    return altair().Scale(domain=ends, nice=not inside, zero=False)


def _are_probabilities(thresholds: FloatArray) -> bool:
    return bool(thresholds.min() >= 0.0 and thresholds.max() <= 1.0)
