"""Charts of survival curves with bands and numbers at risk."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, UndefinedMetricError
from eval_toolkit.inference.survival import SurvivalCurve
from eval_toolkit.report.plots._charts import (
    Chart,
    altair,
    clean,
    finished,
    heading,
    inline,
    nice,
    rounded,
    significant,
    unique_names,
)
from eval_toolkit.report.plots.style import NEUTRALS, PALETTE
from eval_toolkit.report.plots.thinning import step_vertices, thin_curve, thin_together

_COLUMNS = ("times", "n_at_risk", "n_events", "survival", "ci_low", "ci_high")
_MAX_COUNTS = 12
"""Maximum number of columns of numbers at risk that fit side by side."""
_LINE = 0.1
"""Height of a row of numbers at risk, in units of the y axis."""
_COLOURS = (*(PALETTE[name] for name in ("negative", "positive", "accent")), NEUTRALS["ink"])
_DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
_MAX_POINTS = 120
"""Maximum number of times with tooltips."""


def plot_survival(
    curve: SurvivalCurve | Mapping[str, Any],
    *,
    time_label: str = "Turn",
    value_label: str = "Share without failure",
    title: str | None = None,
    figsize: tuple[float, float] | None = None,
) -> Chart:
    """Draw a survival curve as steps, with its pointwise band and the numbers at risk.

    Parameters
    ----------
    curve : SurvivalCurve or mapping
        Result of `kaplan_meier`, or its JSON in rollout runs
        (``results_full["rollouts"]["survival"]``).
    time_label : str, default "Turn"
        Label of the time axis.
    value_label : str, default "Share without failure"
        Label of the y axis.
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
        If columns are missing, contain values that are not finite, or differ in length.
    InvalidTypeError
        If ``curve`` is neither a survival curve nor a mapping.
    UndefinedMetricError
        If the stored curve is undefined.
    MissingExtraError
        If Altair is not installed.

    Examples
    --------
    >>> from eval_toolkit.inference import kaplan_meier
    >>> chart = plot_survival(kaplan_meier([1, 2, 3, 3, 3], [1, 1, 0, 0, 0]))
    >>> chart.to_dict()["description"]
    'Share without failure by Turn: 0.600 [0.126, 0.882] at 3, of 5. Shaded: pointwise 95% band.'
    """
    alt = altair()
    columns, confidence = _columns(curve)
    label = heading(value_label, "value_label")
    time = heading(time_label, "time_label")
    end = float(columns["times"][-1])
    # Extend slightly beyond the last time: its value and band hold from there on.
    until = end * 1.06
    steps = _step_rows(columns, until)
    points = _point_rows(columns)
    axes = _Axes(alt, time, label, columns["times"], until)
    tooltip = [
        alt.Tooltip("x:Q", title=time, format=".4~g"),
        alt.Tooltip("text:N", title=label),
        alt.Tooltip("risk:Q", title="At risk", format=",.4~g"),
        alt.Tooltip("events:Q", title="Failed here", format=",.4~g"),
    ]
    colour = PALETTE["negative"]
    header = alt.Chart(inline([{"floor": -0.06, "text": "At risk"}]))
    layers = [
        axes.on(steps["band"]).mark_area(order=False, color=colour, opacity=0.16).encode(y2="y2:Q"),
        axes.on(steps["curve"]).mark_line(order=False, color=colour, strokeWidth=2),
        axes.on(points).mark_point(filled=True, size=90, opacity=0).encode(tooltip=tooltip),
        axes.on(_counts(columns), "floor").mark_text(fontSize=10).encode(text="text:N"),
        header.mark_text(style="muted", align="left", fontSize=10).encode(
            x=alt.value(2), y=axes.y("floor"), text="text:N"
        ),
    ]
    return finished(
        alt.layer(*layers),
        title=title,
        figsize=figsize,
        description=f"{label} by {time}: {points[-1]['text']} at {end:g}, of "
        f"{columns['n_at_risk'][0]:g}. Shaded: pointwise {confidence:.0%} band.",
        default=(6.0, 3.8),
    )


def plot_survival_curves(
    curves: Mapping[str, SurvivalCurve | Mapping[str, Any]],
    *,
    time_label: str = "Turn",
    value_label: str = "Share without failure",
    title: str | None = None,
    figsize: tuple[float, float] | None = None,
) -> Chart:
    """Draw up to four survival curves on the same axes, with bands, a legend and numbers at risk.

    Parameters
    ----------
    curves : mapping of str to SurvivalCurve or mapping
        Curves by name, as for `plot_survival`.
    time_label, value_label, title, figsize
        As for `plot_survival`.

    Returns
    -------
    Chart
        Altair ``LayerChart``; lines differ in colour and dash pattern.

    Raises
    ------
    InvalidInputError
        If there is no curve, there are more than four, or one is malformed.
    InvalidTypeError
        If a value is neither a survival curve nor a mapping.
    UndefinedMetricError
        If a stored curve is undefined.
    MissingExtraError
        If Altair is not installed.

    Examples
    --------
    >>> from eval_toolkit.inference import kaplan_meier
    >>> held, fell = kaplan_meier([3, 3, 3], [0, 0, 1]), kaplan_meier([1, 1, 2], [1, 1, 1])
    >>> plot_survival_curves({"new": held, "old": fell}).to_dict()["description"]
    'Share without failure by Turn. new: 0.667 at 3, of 3. old: 0.000 at 2, of 3.'
    """
    alt = altair()
    if not isinstance(curves, Mapping) or not 0 < len(curves) <= len(_COLOURS):
        raise InvalidInputError(
            f"`curves` must contain 1 to {len(_COLOURS)} survival curves by name"
        )
    label, time = heading(value_label, "value_label"), heading(time_label, "time_label")
    found = dict(
        zip(unique_names(curves), (_columns(one)[0] for one in curves.values()), strict=True)
    )
    times = np.unique(np.concatenate([one["times"] for one in found.values()]))
    until = float(times[-1]) * 1.06
    axes = _Axes(alt, time, label, times, until, n_curves=len(found))
    bands, lines, points, counts = _together(found, until)
    scale = alt.Scale(domain=list(found), range=list(_COLOURS[: len(found)]))
    legend = alt.Legend(symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=2.5, symbolSize=200)
    colour = alt.Color("series:N", scale=scale, title=None, legend=legend)
    dashes = alt.StrokeDash(
        "series:N",
        scale=alt.Scale(domain=list(found), range=[*_DASHES[: len(found)]]),
        title=None,
        legend=legend,
    )
    tooltip = [
        alt.Tooltip("series:N", title="Run"),
        alt.Tooltip("x:Q", title=time, format=".4~g"),
        alt.Tooltip("text:N", title=label),
        alt.Tooltip("risk:Q", title="At risk", format=",.4~g"),
    ]
    layers = [
        axes.on(bands)
        .mark_area(order=False, opacity=0.12)
        .encode(y2="y2:Q", color=colour, detail="series:N"),
        axes.on(lines)
        .mark_line(order=False, strokeWidth=2.25)
        .encode(color=colour, strokeDash=dashes, detail="series:N"),
        axes.on(points).mark_point(filled=True, size=90, opacity=0).encode(tooltip=tooltip),
        axes.on(counts, "floor").mark_text(fontSize=10).encode(text="text:N", color=colour),
    ]
    ends = [
        f"{name}: {nice(one['survival'][-1])} at {one['times'][-1]:g}, of {one['n_at_risk'][0]:g}."
        for name, one in found.items()
    ]
    return finished(
        alt.layer(*layers),
        title=title,
        figsize=figsize,
        description=" ".join([f"{label} by {time}.", *ends]),
        default=(6.0, 3.8 + 0.2 * len(found)),
    )


_Rows = list[dict[str, Any]]


def _together(
    found: Mapping[str, Mapping[str, FloatArray]], until: float
) -> tuple[_Rows, _Rows, _Rows, _Rows]:
    """Return the data of all bands, lines, tooltips and numbers at risk, labelled by curve."""
    bands: _Rows = []
    lines: _Rows = []
    points: _Rows = []
    counts: _Rows = []
    for at, (name, columns) in enumerate(found.items()):
        steps = _step_rows(columns, until)
        bands += [{**row, "series": name} for row in steps["band"]]
        lines += [{**row, "series": name} for row in steps["curve"]]
        points += [{**row, "series": name} for row in _point_rows(columns)]
        floor = -0.12 - _LINE * at
        counts += [{**row, "floor": floor, "series": name} for row in _counts(columns)]
    return bands, lines, points, counts


class _Axes:
    """Time and share axes, with space below for the numbers at risk."""

    def __init__(
        self,
        alt: Any,
        time: str,
        label: str,
        times: FloatArray,
        until: float,
        n_curves: int = 1,
    ) -> None:
        self._alt, self._label = alt, label
        self._floor = -0.22 - _LINE * (n_curves - 1)
        whole = bool((times % 1 == 0).all()) and times[-1] <= _MAX_COUNTS
        ticks = {"values": list(range(int(times[-1]) + 1)), "format": "d"} if whole else {}
        self._x = alt.X(
            "x:Q",
            title=time,
            scale=alt.Scale(domain=[0, until], nice=False),
            axis=alt.Axis(grid=False, **ticks),
        )

    def y(self, field: str) -> Any:
        """Return the y encoding of a field."""
        alt = self._alt
        return alt.Y(
            f"{field}:Q",
            title=self._label,
            scale=alt.Scale(domain=[self._floor, 1.0], nice=False),
            axis=alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1], format=".1f"),
        )

    def on(self, rows: list[dict[str, Any]], field: str = "y") -> Any:
        """Return a chart of rows on these axes."""
        return self._alt.Chart(inline(rows)).encode(x=self._x, y=self.y(field))


def _columns(curve: Any) -> tuple[dict[str, FloatArray], float]:
    if isinstance(curve, SurvivalCurve):
        curve = curve.to_dict()
    if not isinstance(curve, Mapping):
        raise InvalidTypeError(
            f"`curve` is {curve!r:.80}; pass the result of `kaplan_meier`, or its JSON"
        )
    if curve.get("status", "ok") != "ok":
        raise UndefinedMetricError(
            f"there is no survival curve: {clean(curve.get('reason') or curve['status'])}"
        )
    missing = [name for name in (*_COLUMNS, "confidence") if name not in curve]
    if missing:
        raise InvalidInputError(f"`curve` has no {missing[0]!r}; it is not a survival curve")
    columns = {name: validation.vector(curve[name], f"curve[{name!r}]") for name in _COLUMNS}
    for name in _COLUMNS:
        validation.same_length(columns["times"], columns[name], ("times", name))
    if (np.diff(columns["times"]) <= 0).any() or columns["times"][0] <= 0:
        raise InvalidInputError("curve['times'] must be positive and ascending")
    return columns, validation.fraction(curve["confidence"], "confidence")


def _step_rows(
    columns: Mapping[str, FloatArray], until: float
) -> dict[str, list[dict[str, float]]]:
    times = np.concatenate(([0.0], columns["times"], [until]))
    survival, low, high = (
        step_vertices(times, np.concatenate(([1.0], columns[name], columns[name][-1:])))
        for name in ("survival", "ci_low", "ci_high")
    )
    x, y = thin_curve(*survival)
    curve = [{"x": a, "y": b} for a, b in zip(significant(x), significant(y), strict=True)]
    kept = thin_together(low[0], low[1], high[1])
    ends = (significant(values[kept]) for values in (low[0], low[1], high[1]))
    band = [{"x": a, "y": b, "y2": c} for a, b, c in zip(*ends, strict=True)]
    return {"curve": curve, "band": band}


def _point_rows(columns: Mapping[str, FloatArray]) -> list[dict[str, Any]]:
    """Return tooltip rows for selected times, including the last."""
    n = len(columns["times"])
    places = np.unique(np.linspace(0, n - 1, min(n, _MAX_POINTS)).astype(int))
    rows = []
    for time, risk, events, value, low, high in zip(
        *(columns[name][places].tolist() for name in _COLUMNS), strict=True
    ):
        said = f"{nice(value)} [{nice(low)}, {nice(high)}]"
        rows.append({"x": time, "y": rounded(value), "text": said, "risk": risk, "events": events})
    return rows


def _counts(columns: Mapping[str, FloatArray]) -> list[dict[str, Any]]:
    """Return the numbers at risk at each time, or at selected times if there are many."""
    times, risk = columns["times"], columns["n_at_risk"]
    if len(times) > _MAX_COUNTS:
        wanted = np.linspace(0.0, float(times[-1]), 7)[:-1]
        risk, times = risk[np.searchsorted(times, wanted)], wanted
    return [
        {"x": time, "floor": -0.15, "text": f"{n:,.0f}" if n == round(n) else f"{n:,.1f}"}
        for time, n in zip(times.tolist(), risk.tolist(), strict=True)
    ]
