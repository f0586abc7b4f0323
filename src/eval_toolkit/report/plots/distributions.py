"""Histograms of bootstrap replicates, and cost-quality charts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import BoolArray, FloatArray
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.report.plots._charts import (
    Chart,
    altair,
    clean,
    even_edges,
    finished,
    heading,
    inline,
    nice,
    significant,
)
from eval_toolkit.report.plots.style import NEUTRALS, PALETTE


def plot_bootstrap_distribution(
    deltas: ArrayLike,
    *,
    ci_low: float,
    ci_high: float,
    bins: int = 30,
    value_label: str = "Difference",
    title: str | None = None,
    figsize: tuple[float, float] | None = None,
) -> Chart:
    """Draw a histogram of bootstrap replicates of a difference, with the interval and zero.

    Parameters
    ----------
    deltas : array-like of shape (n,)
        Replicates, such as ``paired_bootstrap_diff(…, return_samples=True).samples``.
    ci_low, ci_high : float
        Bounds of the interval, which is shaded.
    bins : int, default 30
        Number of equal-width bins over the range of the replicates.
    value_label : str, default "Difference"
        Axis label of the replicates.
    title : str, optional
        Title above the chart.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Chart
        Altair ``LayerChart``.

    Raises
    ------
    InvalidInputError
        If a number is not finite, or ``ci_low`` exceeds ``ci_high``.
    MissingExtraError
        If Altair is not installed.

    Examples
    --------
    >>> chart = plot_bootstrap_distribution([0.1, 0.2, 0.3], ci_low=0.1, ci_high=0.3)
    >>> chart.to_dict()["description"]
    'Difference over 3 bootstrap replicates: median +0.200, interval [+0.100, +0.300], which excludes zero.'
    """
    alt = altair()
    values = validation.vector(deltas, "deltas")
    low, high = validation.number(ci_low, "ci_low"), validation.number(ci_high, "ci_high")
    if low > high:
        raise InvalidInputError(f"`ci_low` is {low:g}, above `ci_high`, {high:g}; swap them")
    label = heading(value_label, "value_label")
    n_bins = validation.bin_count(bins, "bins", low=1)
    edges = even_edges(float(values.min()), float(values.max()), n_bins, "deltas")
    counts = np.histogram(values, bins=edges)[0]
    bounds = significant(edges, 6)
    rows = [
        {"x": left, "x2": right, "y": int(count)}
        for left, right, count in zip(bounds[:-1], bounds[1:], counts, strict=True)
    ]
    ends = [float(edges[0]), float(edges[-1]), low, high, 0.0]
    scale = alt.Scale(domain=[min(ends), max(ends)], nice=True, zero=False)
    x = alt.X("x:Q", title=label, scale=scale)
    said = f"[{nice(low, True)}, {nice(high, True)}]"
    layers = [
        alt.Chart(inline([{"x": low, "x2": high, "text": said}]))
        .mark_rect(color=PALETTE["accent"], opacity=0.25)
        .encode(x=x, x2="x2:Q", tooltip=[alt.Tooltip("text:N", title="Interval")]),
        alt.Chart(inline(rows))
        .mark_rect(
            color=PALETTE["negative"], opacity=0.8, stroke=NEUTRALS["paper"], strokeWidth=0.5
        )
        .encode(
            x=x,
            x2="x2:Q",
            y=alt.Y("y:Q", title="Draws", scale=alt.Scale(zero=True)),
            y2=alt.datum(0),
            tooltip=[
                alt.Tooltip("x:Q", title="From", format=".4~g"),
                alt.Tooltip("x2:Q", title="To", format=".4~g"),
                alt.Tooltip("y:Q", title="Draws", format=","),
            ],
        ),
        alt.Chart(inline([{"x": low}, {"x": high}]))
        .mark_rule(color=PALETTE["accent"], strokeWidth=1.75)
        .encode(x=x),
        alt.Chart(inline([{"x": 0.0}]))
        .mark_rule(color=NEUTRALS["ink"], strokeDash=[4, 4], strokeWidth=1.25)
        .encode(x=x),
    ]
    zero = "contains" if low <= 0.0 <= high else "excludes"
    return finished(
        alt.layer(*layers),
        title=title,
        figsize=figsize,
        description=f"{label} over {len(values):,} bootstrap replicates: median "
        f"{nice(float(np.median(values)), True)}, interval {said}, which {zero} zero.",
        default=(6.0, 3.2),
    )


def plot_pareto_frontier(
    cost: ArrayLike,
    metric: ArrayLike,
    *,
    point_labels: Sequence[str],
    higher_metric_is_better: bool = True,
    cost_label: str = "Cost",
    metric_label: str = "Metric",
    title: str | None = None,
    figsize: tuple[float, float] | None = None,
) -> Chart:
    """Draw cost against quality, with the Pareto frontier.

    Parameters
    ----------
    cost : array-like of shape (n,)
        Cost of each point; lower is better.
    metric : array-like of shape (n,)
        Quality of each point.
    point_labels : sequence of str
        Names of the points.
    higher_metric_is_better : bool, default True
        Whether a higher metric is better; False for losses.
    cost_label, metric_label : str
        Axis labels, with units.
    title : str, optional
        Title above the chart.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Chart
        Altair ``LayerChart``.

    Raises
    ------
    InvalidInputError
        If the arrays contain values that are not finite, or differ in length.
    MissingExtraError
        If Altair is not installed.

    Examples
    --------
    >>> chart = plot_pareto_frontier([1, 2, 3], [0.7, 0.9, 0.8], point_labels=["a", "b", "c"])
    >>> chart.to_dict()["description"]
    'Cost against Metric of 3 points. On the frontier: a (1.000, 0.700), b (2.000, 0.900).'
    """
    alt = altair()
    costs, values = validation.vector(cost, "cost"), validation.vector(metric, "metric")
    validation.same_length(costs, values, ("cost", "metric"))
    if isinstance(point_labels, str) or len(point_labels) != len(costs):
        raise InvalidInputError(f"`point_labels` must contain {len(costs)} names, one per point")
    best = _frontier(costs, values if higher_metric_is_better else -values)
    names = {
        "x": heading(cost_label, "cost_label"),
        "y": heading(metric_label, "metric_label"),
    }
    rows: list[dict[str, Any]] = [
        {"x": float(a), "y": float(b), "name": clean(label, limit=40)}
        for a, b, label in zip(costs, values, point_labels, strict=True)
    ]
    chosen = sorted((row for row, is_best in zip(rows, best, strict=True) if is_best), key=_by_cost)
    others = [row for row, is_best in zip(rows, best, strict=True) if not is_best]
    axes = {
        "x": alt.X("x:Q", title=names["x"], scale=_roomy(costs)),
        "y": alt.Y("y:Q", title=names["y"], scale=_roomy(values)),
    }
    tooltip = [
        alt.Tooltip("name:N", title="Name"),
        *(alt.Tooltip(f"{field}:Q", title=names[field], format=".4~g") for field in ("x", "y")),
    ]
    front = alt.Chart(inline(chosen)).encode(**axes)
    layers = []
    if others:
        beaten = alt.Chart(inline(others)).encode(**axes, tooltip=tooltip)
        layers.append(beaten.mark_point(filled=True, size=50, opacity=1, color=PALETTE["baseline"]))
        layers.append(
            beaten.mark_text(style="muted", align="left", dx=7, dy=8, limit=140).encode(
                text="name:N"
            )
        )
    layers += [
        front.mark_line(interpolate="step-after", color=PALETTE["negative"], strokeWidth=1.5),
        front.mark_point(filled=True, size=65, opacity=1, color=PALETTE["negative"]).encode(
            tooltip=tooltip
        ),
        front.mark_text(align="left", baseline="bottom", dx=7, dy=-4, limit=140).encode(
            text="name:N"
        ),
    ]
    shown = ", ".join(f"{row['name']} ({nice(row['x'])}, {nice(row['y'])})" for row in chosen[:8])
    return finished(
        alt.layer(*layers),
        title=title,
        figsize=figsize,
        description=f"{names['x']} against {names['y']} of {len(rows):,} points. "
        f"On the frontier: {shown}{' and more' if len(chosen) > 8 else ''}.",
    )


def _by_cost(row: dict[str, Any]) -> float:
    return float(row["x"])


def _frontier(cost: FloatArray, gain: FloatArray) -> BoolArray:
    """Return a mask of the Pareto-optimal points."""
    best = np.zeros(len(cost), dtype=np.bool_)
    reached = -np.inf
    for price in np.unique(cost):
        here = cost == price
        top = float(gain[here].max())
        if top > reached:
            best |= here & (gain == top)
            reached = top
    return best


def _roomy(values: FloatArray) -> Any:
    """Return a scale that leaves room for labels next to the last points."""
    low, high = float(values.min()), float(values.max())
    room = 0.12 * (high - low) or 0.1 * abs(high) or 1.0
    return altair().Scale(domain=[low - room / 2, high + room], nice=True, zero=False)
