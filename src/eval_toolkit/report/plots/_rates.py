"""Shared parts of ROC and precision-recall charts."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit import metrics
from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.inference.curve_bands import CurveBand
from eval_toolkit.report.plots._charts import altair, inline, significant
from eval_toolkit.report.plots.style import PALETTE
from eval_toolkit.report.plots.thinning import step_vertices, thin_curve


class Axes:
    """Axes from 0 to 1 for a ROC or precision-recall chart, with methods that return its layers."""

    def __init__(self, x_title: str, y_title: str) -> None:
        self._alt = altair()
        self._titles = {"x": x_title, "y": y_title}

    def _on(self, name: str, **options: Any) -> Any:
        alt = self._alt
        channel = alt.X if name == "x" else alt.Y
        # Extend slightly beyond 0 and 1: a good curve runs along the edge.
        scale = alt.Scale(domain=[-0.01, 1.01], nice=False)
        axis = alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1], format=".1f")
        return channel(f"{name}:Q", title=self._titles[name], scale=scale, axis=axis, **options)

    def _chart(self, rows: list[dict[str, Any]]) -> Any:
        return self._alt.Chart(inline(rows)).encode(x=self._on("x"), y=self._on("y"))

    def line(
        self, x: ArrayLike, y: ArrayLike, *, dash: list[int] | None = None, width: float = 1.25
    ) -> Any:
        """Draw a grey line."""
        mark: dict[str, Any] = {"color": PALETTE["baseline"], "strokeWidth": width, "clip": True}
        if dash:
            mark["strokeDash"] = dash
        return self._chart(points(x, y)).mark_line(order=False, **mark)

    def curve(self, x: FloatArray, y: FloatArray) -> list[Any]:
        """Draw the curve with tooltips."""
        base = self._chart(points(*thin_curve(x, y)))
        line = base.mark_line(
            order=False, color=PALETTE["negative"], strokeWidth=2, strokeJoin="round", clip=True
        )
        return [line, hover(base, self._titles)]

    def area(self, rows: list[dict[str, Any]], said: str) -> Any:
        """Shade a band."""
        alt = self._alt
        tooltip = [
            alt.Tooltip("x:Q", title=self._titles["x"], format=".3f"),
            alt.Tooltip("y:Q", title=f"{self._titles['y']}, low", format=".3f"),
            alt.Tooltip("y2:Q", title=f"{self._titles['y']}, high", format=".3f"),
        ]
        shade = alt.Chart(inline(rows), description=said).mark_area(
            order=False, color=PALETTE["negative"], opacity=0.16, clip=True
        )
        return shade.encode(x=self._on("x"), y=self._on("y"), y2="y2:Q", tooltip=tooltip)

    def point(self, x: float, y: float, threshold: float) -> list[Any]:
        """Mark an operating point and label it with its threshold."""
        alt = self._alt
        (row,) = points([x], [y])
        row |= {"t": threshold, "text": f"threshold {threshold:.4g}"}
        base = alt.Chart(inline([row])).encode(x=self._on("x"), y=self._on("y"))
        tooltip = [
            alt.Tooltip("t:Q", title="Threshold", format=".4~g"),
            *(alt.Tooltip(f"{c}:Q", title=self._titles[c], format=".3f") for c in ("x", "y")),
        ]
        marked = base.mark_point(
            shape="diamond", size=110, filled=True, opacity=1, color=PALETTE["positive"]
        )
        beyond = x > 0.7  # the text would extend beyond the plot
        text = base.mark_text(align="right" if beyond else "left", dx=-9 if beyond else 9, dy=9)
        return [marked.encode(tooltip=tooltip), text.encode(text="text:N")]

    def notes(self, text: str, *, right: bool, baseline: bool) -> list[Any]:
        """Write the name of the curve in an empty corner, with the baseline's name below it."""
        alt = self._alt
        lines: list[tuple[str, dict[str, str], int]] = [(text, {}, -16 if baseline else 0)]
        if baseline:
            lines.append(("baseline (grey)", {"style": "muted"}, 0))
        layers = []
        for said, style, rise in lines:
            row = {"x": 0.98 if right else 0.02, "y": 0.04, "text": said}
            mark = alt.Chart(inline([row])).mark_text(
                align="right" if right else "left", baseline="bottom", dy=rise, **style
            )
            layers.append(mark.encode(x=self._on("x"), y=self._on("y"), text="text:N"))
        return layers


def points(x: ArrayLike, y: ArrayLike) -> list[dict[str, Any]]:
    """Return points as rows of data, rounded to the precision that is visible."""
    return [
        {"x": a, "y": b}
        for a, b in zip(significant(np.asarray(x)), significant(np.asarray(y)), strict=True)
    ]


def hover(base: Any, titles: Mapping[str, str], *, x_format: str = ".3~f") -> Any:
    """Return invisible points with tooltips; a line would show the values of its first point."""
    alt = altair()
    tooltip = [
        alt.Tooltip("x:Q", title=titles["x"], format=x_format),
        alt.Tooltip("y:Q", title=titles["y"], format=".3~f"),
    ]
    return base.mark_point(opacity=0, size=80, filled=True).encode(tooltip=tooltip)


def from_zero(recall: FloatArray, precision: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the corners of the step curve from recall 0, as integrated by `pr_auc`."""
    first = int(np.argmax(recall > 0))
    x = np.concatenate(([0.0], recall[first:]))
    y = np.concatenate(([precision[first]], precision[first:]))
    return step_vertices(x, y, before=True)


def baseline(axes: Axes, curve: Any, *, steps: bool) -> list[Any]:
    """Return the layers of the baseline curve, if given."""
    if curve is None:
        return []
    if isinstance(curve, metrics.PrCurve):
        # Its last point, precision 1 at recall 0, is a convention not reached by any threshold.
        x, y = from_zero(curve.recall[-2::-1], curve.precision[-2::-1])
        return [axes.line(*thin_curve(x, y), width=1.75)]
    if isinstance(curve, metrics.RocCurve):
        return [axes.line(*thin_curve(curve.fpr, curve.tpr), width=1.75)]
    is_pair = isinstance(curve, (Sequence, np.ndarray)) and not isinstance(curve, str)
    if not is_pair or np.ndim(curve) == 0 or len(curve) != 2:
        raise InvalidTypeError(
            f"`baseline_curve` is {curve!r:.80}; pass a pair of arrays, the rates on x and on y"
        )
    x, y = (validation.vector(part, f"baseline_curve[{at}]") for at, part in enumerate(curve))
    validation.same_length(x, y, ("baseline_curve[0]", "baseline_curve[1]"))
    if len(x) > 1 and x[0] > x[-1]:
        x, y = x[::-1], y[::-1]
    return [
        axes.line(*thin_curve(*(step_vertices(x, y, before=True) if steps else (x, y))), width=1.75)
    ]


def band_layers(axes: Axes, band: CurveBand | None, kind: str, n_rows: int) -> list[Any]:
    """Return the layers of a band, if given; raise if it belongs to another curve."""
    if band is None:
        return []
    if not isinstance(band, CurveBand):
        raise InvalidTypeError(
            f"`band` is {band!r:.80}; pass the result of `inference.roc_band` or `pr_band`"
        )
    if (band.kind, band.n_rows) != (kind, n_rows):
        raise InvalidInputError(
            f"`band` belongs to a {band.kind} curve with {band.n_rows} rows, but this is a {kind} "
            f"curve with {n_rows}; compute it from the same rows"
        )
    columns = [significant(values) for values in (band.x, band.low, band.high)]
    rows = [{"x": x, "y": low, "y2": high} for x, low, high in zip(*columns, strict=True)]
    return [axes.area(rows, said_of(band).strip())]


def said_of(band: CurveBand | None) -> str:
    """Return the description of a band."""
    if band is None:
        return ""
    return f" Shaded: pointwise {band.confidence:.0%} bootstrap band of {band.n_resamples} draws."
