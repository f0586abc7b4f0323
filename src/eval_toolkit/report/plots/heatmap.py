"""Heat maps of a metric by two slicing variables."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eval_toolkit._internal import validation
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.report.plots._charts import (
    Chart,
    altair,
    finished,
    heading,
    inline,
    nice,
    unique_names,
)
from eval_toolkit.report.plots.style import NEUTRALS, PALETTE

_DARK = 0.55
"""Share of the colour range above which text is drawn in a light colour."""


def plot_slice_metric_heatmap(
    grid: ArrayLike,
    *,
    row_labels: Sequence[str],
    col_labels: Sequence[str],
    value_label: str = "Value",
    value_range: tuple[float, float] | None = None,
    title: str | None = None,
    figsize: tuple[float, float] | None = None,
) -> Chart:
    """Draw a metric by two slicing variables, leaving cells without a value empty.

    Parameters
    ----------
    grid : array-like of shape (rows, columns)
        Values; NaN or None for missing ones.
    row_labels, col_labels : sequence of str
        Names of the rows and columns.
    value_label : str, default "Value"
        Label of the values.
    value_range : pair of float, optional
        Values mapped to the lightest and the darkest colour; by default the range of the data.
    title : str, optional
        Title above the chart.
    figsize : pair of float, optional
        Width and height in inches; by default they depend on the number of cells.

    Returns
    -------
    Chart
        Altair ``LayerChart``.

    Raises
    ------
    InvalidInputError
        If the grid is not a 2-D array of numbers, or the labels do not match its shape.
    MissingExtraError
        If Altair is not installed.

    Examples
    --------
    >>> grid = [[0.8, None], [0.6, 0.7]]
    >>> chart = plot_slice_metric_heatmap(grid, row_labels=["en", "fr"], col_labels=["short", "long"])
    >>> chart.to_dict()["description"]
    'Value in 2 rows and 2 columns, from 0.600 (fr, short) to 0.800 (en, short); 1 cell has no value.'
    """
    values = _numbers(grid)
    rows, columns = _labels(values, row_labels, col_labels)
    label = heading(value_label, "value_label")
    low, high = _range(values, value_range)
    cells = []
    for (row, column), value in np.ndenumerate(values):
        cell: dict[str, Any] = {"row": rows[row], "column": columns[column]}
        if not math.isnan(value):
            share = min(max((value - low) / (high - low), 0.0), 1.0)
            cell |= {"value": float(value), "text": nice(value), "dark": bool(share >= _DARK)}
        cells.append(cell)
    return finished(
        _heat_layers(cells, rows, columns, label, (low, high)),
        title=title,
        figsize=figsize,
        description=_heat_in_words(label, values, rows, columns),
        default=(min(1.6 + 0.75 * len(columns), 12.0), min(0.9 + 0.36 * len(rows), 20.0)),
    )


def _numbers(grid: ArrayLike) -> NDArray[np.float64]:
    array = validation.as_array(grid, "grid", shape="2-D")
    try:
        values = array.astype(np.float64)  # None becomes NaN
    except (TypeError, ValueError):
        raise InvalidInputError(
            "`grid` must contain numbers, with NaN for missing values"
        ) from None
    if values.ndim != 2 or values.size == 0:
        raise InvalidInputError(f"`grid` must be 2-D and not empty, got shape {values.shape}")
    if np.isinf(values).any():
        raise InvalidInputError("`grid` contains an infinity; use NaN for missing values")
    return values


def _labels(
    values: NDArray[np.float64], row_labels: Sequence[str], col_labels: Sequence[str]
) -> tuple[list[str], list[str]]:
    for labels, name, size in (
        (row_labels, "row_labels", values.shape[0]),
        (col_labels, "col_labels", values.shape[1]),
    ):
        if isinstance(labels, str) or len(labels) != size:
            raise InvalidInputError(f"`{name}` has {len(labels)} names, but `grid` needs {size}")
    return unique_names(row_labels), unique_names(col_labels)


def _range(values: NDArray[np.float64], given: tuple[float, float] | None) -> tuple[float, float]:
    if given is not None:
        low, high = (validation.number(end, "value_range") for end in given)
        if low >= high:
            raise InvalidInputError(f"`value_range` is {given!r}; the lower value must come first")
        return low, high
    known = values[~np.isnan(values)]
    if not len(known):
        return 0.0, 1.0
    low, high = float(known.min()), float(known.max())
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def _heat_layers(
    cells: list[dict[str, Any]],
    rows: list[str],
    columns: list[str],
    label: str,
    ends: tuple[float, float],
) -> Any:
    alt = altair()
    plain = {"ticks": False, "domain": False, "grid": False}
    axes = {
        "x": alt.X(
            "column:N",
            title=None,
            sort=None,
            scale=alt.Scale(domain=columns, paddingInner=0.03),
            axis=alt.Axis(
                orient="top", labelAngle=0 if len(columns) < 7 else -40, labelLimit=110, **plain
            ),
        ),
        "y": alt.Y(
            "row:N",
            title=None,
            sort=None,
            scale=alt.Scale(domain=rows, paddingInner=0.06),
            axis=alt.Axis(labelLimit=200, **plain),
        ),
    }
    tooltip = [
        alt.Tooltip("row:N", title="Row"),
        alt.Tooltip("column:N", title="Column"),
        alt.Tooltip("text:N", title=label),
    ]
    known = [cell for cell in cells if "value" in cell]
    absent = [{**cell, "text": "no value"} for cell in cells if "value" not in cell]
    layers = []
    if absent:
        base = alt.Chart(inline(absent)).encode(**axes, tooltip=tooltip)
        layers.append(
            base.mark_rect(
                fillOpacity=0, stroke=PALETTE["baseline"], strokeDash=[2, 3], strokeWidth=0.75
            )
        )
        layers.append(base.mark_text(style="muted").encode(text=alt.value("–")))
    if known:
        shade = alt.Color(
            "value:Q",
            title=label,
            legend=None,
            scale=alt.Scale(
                domain=list(ends),
                range=[NEUTRALS["faint"], PALETTE["negative"]],
                clamp=True,
                interpolate="lab",
            ),
        )
        layers.append(
            alt.Chart(inline(known)).mark_rect().encode(**axes, color=shade, tooltip=tooltip)
        )
    for dark in (False, True):
        shown = [cell for cell in known if cell["dark"] == dark]
        if shown:
            style = {"style": "on-fill"} if dark else {}
            mark = alt.Chart(inline(shown)).mark_text(**style)
            layers.append(mark.encode(**axes, text="text:N"))
    return alt.layer(*layers)


def _heat_in_words(
    label: str, values: NDArray[np.float64], rows: list[str], columns: list[str]
) -> str:
    size = f"{label} in {len(rows)} rows and {len(columns)} columns"
    absent = int(np.isnan(values).sum())
    if absent == values.size:
        return f"{size}; no cell has a value."
    places = []
    for find in (np.nanargmin, np.nanargmax):
        row, column = np.unravel_index(int(find(values)), values.shape)
        places.append(f"{nice(float(values[row, column]))} ({rows[row]}, {columns[column]})")
    cells = "1 cell has" if absent == 1 else f"{absent} cells have"
    return f"{size}, from {places[0]} to {places[1]}{f'; {cells} no value' if absent else ''}."
