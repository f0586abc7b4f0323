"""Reliability diagrams and score distributions."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.calibration import reliability_curve
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, UndefinedMetricError
from eval_toolkit.report.plots._charts import (
    Chart,
    altair,
    even_edges,
    finished,
    inline,
    nice,
    rounded,
    significant,
    unique_names,
)
from eval_toolkit.report.plots.style import PALETTE

_STRIP = 0.2
"""Height of the strip of count bars below a reliability diagram, in units of the rate axis."""


def plot_reliability_diagram(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    n_bins: int = 10,
    strategy: str = "uniform",
    confidence: float = 0.95,
    groups: ArrayLike | None = None,
    title: str | None = None,
    figsize: tuple[float, float] | None = None,
) -> Chart:
    """Draw observed frequency against predicted probability, with intervals and counts per bin.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1.
    y_score : array-like of shape (n,)
        Predicted probabilities, in [0, 1].
    n_bins : int, default 10
        Number of bins, at least 2.
    strategy : {"uniform", "quantile"}, default "uniform"
        Whether bins have equal width or equal numbers of rows.
    confidence : float, default 0.95
        Confidence level of each bin's Wilson interval.
    groups : array-like of shape (n,), optional
        Groups of rows that are not independent, which the intervals account for.
    title : str, optional
        Title above the chart.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Chart
        Altair ``LayerChart``, with bars for the number of rows per bin below the diagram.

    Raises
    ------
    InvalidInputError
        If the labels or scores are invalid, or a score lies outside [0, 1].
    UndefinedMetricError
        If only one class is present, or there are too few rows for bins of equal mass.
    MissingExtraError
        If Altair is not installed.

    Examples
    --------
    >>> chart = plot_reliability_diagram([0, 0, 1, 1], [0.1, 0.3, 0.6, 0.8], n_bins=2)
    >>> chart.to_dict()["description"]
    'Reliability diagram, 4 rows in 2 bins: expected calibration error 0.250 (2 bins of equal width). Bars show 95% Wilson intervals.'
    """
    alt = altair()
    curve = reliability_curve(
        y_true, y_score, n_bins=n_bins, strategy=strategy, confidence=confidence, groups=groups
    )
    if "skipped" in curve:
        raise UndefinedMetricError(f"a reliability diagram is undefined: {curve['skipped']}")
    rows = _bins(curve)
    axis = alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1], format=".1f")
    x = alt.X(
        "x:Q",
        title="Predicted probability",
        scale=alt.Scale(domain=[0, 1], nice=False),
        axis=axis,
    )
    scale = alt.Scale(domain=[-_STRIP - 0.04, 1], nice=False)
    y = alt.Y("y:Q", title="Observed frequency", scale=scale, axis=axis)
    tooltip = [
        alt.Tooltip("x:Q", title="Mean prediction", format=".3f"),
        alt.Tooltip("y:Q", title="Observed", format=".3f"),
        alt.Tooltip("low:Q", title=f"{confidence:.0%} low", format=".3f"),
        alt.Tooltip("high:Q", title=f"{confidence:.0%} high", format=".3f"),
        alt.Tooltip("n:Q", title="n", format=","),
    ]
    base = alt.Chart(inline(rows)).encode(x=x, tooltip=tooltip)
    colour = PALETTE["negative"]
    layers = [
        alt.Chart(inline([{"x": 0, "y": 0}, {"x": 1, "y": 1}]))
        .mark_line(order=False, color=PALETTE["baseline"], strokeDash=[4, 4], strokeWidth=1.25)
        .encode(x=x, y=y),
        base.mark_rect(color=PALETTE["baseline"], opacity=0.55).encode(
            x=alt.X("left:Q"),
            x2="right:Q",
            y=alt.Y("floor:Q"),
            y2="top:Q",
        ),
        base.mark_line(order=False, color=colour, strokeWidth=1.25, opacity=0.6).encode(y=y),
        base.mark_rule(color=colour, strokeWidth=1.75).encode(y=alt.Y("low:Q"), y2="high:Q"),
        base.mark_point(color=colour, filled=True, size=55, opacity=1).encode(y=y),
    ]
    if len(rows) <= 12:
        count = base.mark_text(style="muted", baseline="bottom", dy=-2, fontSize=9)
        layers.append(count.encode(x=alt.X("middle:Q"), y=alt.Y("top:Q"), text="n_text:N"))
    corner = alt.Chart(inline([{"x": 0.01, "y": -0.05, "text": "rows per bin"}]))
    layers.append(
        corner.mark_text(style="muted", align="left", fontSize=9).encode(x=x, y=y, text="text:N")
    )
    return finished(
        alt.layer(*layers),
        title=title,
        figsize=figsize,
        description=_reliability_in_words(curve, len(rows)),
        default=(4.6, 4.8),
    )


def _bins(curve: Mapping[str, Any]) -> list[dict[str, Any]]:
    tallest = max(curve["n_per_bin"])
    n_bins, uniform = curve["n_bins"], curve["strategy"] == "uniform"
    rows = []
    for place, n in enumerate(curve["n_per_bin"]):
        left, right = curve["bin_lower"][place], curve["bin_upper"][place]
        if uniform:
            k = min(int(curve["prob_pred"][place] * n_bins), n_bins - 1)
            left, right = k / n_bins, (k + 1) / n_bins
        gap = 0.08 * (right - left)
        if right - left < 0.006:  # a bin with a single score still needs a visible bar
            left, right, gap = left - 0.003, right + 0.003, 0.0
        rows.append(
            {
                "x": rounded(curve["prob_pred"][place]),
                "y": rounded(curve["prob_true"][place]),
                "low": rounded(curve["ci_low"][place]),
                "high": rounded(curve["ci_high"][place]),
                "n": n,
                "n_text": _short_count(n),
                "left": rounded(left + gap),
                "right": rounded(right - gap),
                "middle": rounded((left + right) / 2),
                "floor": -_STRIP - 0.04,
                "top": rounded(-_STRIP - 0.04 + (_STRIP - 0.105) * n / tallest),
            }
        )
    return rows


def _short_count(n: int) -> str:
    return f"{n:,}" if n < 10_000 else f"{n / 1000:,.0f}k"


def _reliability_in_words(curve: Mapping[str, Any], n_shown: int) -> str:
    return (
        f"Reliability diagram, {curve['n']:,} rows in {n_shown} bins: expected calibration error "
        f"{nice(curve['ece_equal_width'])} ({curve['n_bins']} bins of equal width). "
        f"Bars show {curve['confidence']:.0%} Wilson intervals."
    )


def plot_score_histograms(
    scores: Mapping[Any, ArrayLike],
    *,
    bins: int = 30,
    density: bool = True,
    label_formatter: Callable[[Any], str] = str,
    sort_key: Callable[[Any], Any] | None = None,
    title: str | None = None,
    figsize: tuple[float, float] | None = None,
) -> Chart:
    """Draw score histograms of classes or groups, using the same bins.

    Parameters
    ----------
    scores : mapping of key to array-like
        Scores of each class or group, such as ``{"negative": …, "positive": …}``.
    bins : int, default 30
        Number of equal-width bins over [0, 1], or over the range of the data.
    density : bool, default True
        Whether to normalise each histogram to area 1; otherwise counts are shown.
    label_formatter : callable, default str
        Function that returns the display label of a key.
    sort_key : callable, optional
        Sort key for the groups; by default, the given order is kept.
    title : str, optional
        Title above the chart.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Chart
        Altair ``LayerChart``: one or two groups are overlaid, more are stacked vertically on a
        common scale.

    Raises
    ------
    InvalidInputError
        If there are no scores, a score is not finite, or their range is too wide to draw.
    InvalidTypeError
        If ``scores`` is not a mapping.
    MissingExtraError
        If Altair is not installed.

    Examples
    --------
    >>> chart = plot_score_histograms({"negative": [0.1, 0.2], "positive": [0.7, 0.9]})
    >>> chart.to_dict()["description"]
    'Histograms of scores. negative: n 2, median 0.150. positive: n 2, median 0.800.'
    """
    if not isinstance(scores, Mapping):
        raise InvalidTypeError(f"`scores` is {scores!r:.80}; it must be a mapping of key to scores")
    if not scores:
        raise InvalidInputError("`scores` is empty; there is nothing to draw")
    n_bins = validation.bin_count(bins, "bins", low=1)
    keys = list(scores) if sort_key is None else sorted(scores, key=sort_key)
    names = unique_names(label_formatter(key) for key in keys)
    columns = [validation.vector(scores[key], f"scores[{key!r:.40}]") for key in keys]
    edges = _edges(columns, n_bins)
    heights = [_heights(column, edges, density=density) for column in columns]
    drawn = _over_each_other if len(names) <= 2 else _under_each_other
    chart = drawn(names, heights, edges, [len(column) for column in columns], density=density)
    said = " ".join(
        f"{name}: n {len(column):,}, median {nice(float(np.median(column)))}."
        for name, column in zip(names[:10], columns, strict=False)
    )
    return finished(
        chart,
        title=title,
        figsize=figsize,
        description=f"Histograms of scores. {said}",
        default=(6.0, 3.2 if len(names) <= 2 else 0.8 + 0.55 * len(names)),
    )


def _edges(columns: list[FloatArray], n_bins: int) -> FloatArray:
    low = min(float(column.min()) for column in columns)
    high = max(float(column.max()) for column in columns)
    if low >= 0.0 and high <= 1.0:
        low, high = 0.0, 1.0
    return even_edges(low, high, n_bins, "scores")


def _heights(column: FloatArray, edges: FloatArray, *, density: bool) -> FloatArray:
    counts = np.histogram(column, bins=edges)[0].astype(np.float64)
    return counts / (len(column) * np.diff(edges)) if density else counts


def _outline(heights: FloatArray, edges: FloatArray) -> tuple[list[float], list[float]]:
    """Return the corners of a histogram outline."""
    x, y = np.repeat(edges, 2)[1:-1], np.repeat(heights, 2)
    return significant(x), significant(y)


def _over_each_other(
    names: list[str],
    heights: list[FloatArray],
    edges: FloatArray,
    sizes: list[int],
    *,
    density: bool,
) -> Any:
    alt = altair()
    rows = [
        {"x": x, "y": y, "series": name, "n": n}
        for name, each, n in zip(names, heights, sizes, strict=True)
        for x, y in zip(*_outline(each, edges), strict=True)
    ]
    colours = [PALETTE["negative"], PALETTE["positive"]][: len(names)]
    legend = alt.Legend(title=None) if len(names) > 1 else None
    tooltip = [
        alt.Tooltip("series:N", title="Scores of"),
        alt.Tooltip("n:Q", title="n", format=","),
    ]
    mark = alt.Chart(inline(rows)).mark_area(order=False, opacity=0.35, line={"strokeWidth": 1.5})
    return mark.encode(
        x=alt.X("x:Q", title="Score", scale=_domain(edges)),
        y=alt.Y("y:Q", title="Density" if density else "Rows", stack=None),
        color=alt.Color(
            "series:N",
            title=None,
            legend=legend,
            scale=alt.Scale(domain=names, range=colours),
        ),
        tooltip=tooltip,
    )


def _under_each_other(
    names: list[str],
    heights: list[FloatArray],
    edges: FloatArray,
    sizes: list[int],
    *,
    density: bool,
) -> Any:
    alt = altair()
    tallest = max(float(each.max()) for each in heights) or 1.0
    rows, labels = [], []
    for place, (name, each, n) in enumerate(zip(names, heights, sizes, strict=True)):
        floor = len(names) - 1 - place
        labels.append({"y": floor, "name": name, "n": n, "text": f"n = {n:,}"})
        for x, y in zip(*_outline(each / tallest * 0.88, edges), strict=True):
            rows.append({"x": x, "y": floor, "y2": rounded(floor + y), "series": name, "n": n})
    scale = alt.Scale(domain=[0, len(names)], nice=False, zero=False)
    y_axis = alt.Y("y:Q", title=None, axis=None, scale=scale)
    area = alt.Chart(inline(rows)).mark_area(
        order=False,
        color=PALETTE["negative"],
        opacity=0.35,
        line={"strokeWidth": 1.25, "color": PALETTE["negative"]},
    )
    base = alt.Chart(inline(labels)).encode(y=y_axis)
    return alt.layer(
        area.encode(
            x=alt.X("x:Q", title="Score", scale=_domain(edges)),
            y=alt.Y("y2:Q", axis=None, scale=scale),
            y2="y:Q",
            detail="series:N",
            tooltip=[
                alt.Tooltip("series:N", title="Scores of"),
                alt.Tooltip("n:Q", title="n", format=","),
            ],
        ),
        base.mark_rule(color=PALETTE["baseline"], strokeWidth=0.75),
        base.mark_text(align="right", baseline="bottom", dx=-8, dy=-3, limit=200).encode(
            x=alt.value(0), text="name:N"
        ),
        base.mark_text(style="muted", align="left", baseline="bottom", dx=8, dy=-3).encode(
            x=alt.value("width"), text="text:N"
        ),
    )


def _domain(edges: FloatArray) -> Any:
    return altair().Scale(domain=[float(edges[0]), float(edges[-1])], nice=False, zero=False)
