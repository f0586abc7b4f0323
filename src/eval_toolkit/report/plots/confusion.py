"""Charts of confusion matrices, side by side."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eval_toolkit._internal import validation
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.report.plots._charts import (
    Chart,
    altair,
    clean,
    finished,
    inline,
    rounded,
    unique_names,
)
from eval_toolkit.report.plots.style import NEUTRALS, PALETTE

_COLUMNS = 3
_DARK = {1: 0.65, 0: 0.9}
"""Row share above which text is light, for correct (1, blue) and wrong (0, red) cells."""


def plot_confusion_matrix_grid(
    matrices: Mapping[str, ArrayLike],
    *,
    class_labels: Sequence[str] = ("negative", "positive"),
    title: str | None = None,
    figsize: tuple[float, float] | None = None,
) -> Chart:
    """Draw confusion matrices side by side, with the count and row share of each cell.

    Parameters
    ----------
    matrices : mapping of str to array-like of shape (2, 2)
        Counts ``[[TN, FP], [FN, TP]]``: rows are true classes, columns are predicted classes.
    class_labels : pair of str, default ("negative", "positive")
        Names of the classes.
    title : str, optional
        Title above the chart.
    figsize : pair of float, optional
        Width and height in inches; by default they depend on the number of matrices.

    Returns
    -------
    Chart
        Altair ``LayerChart``, not a facet: three matrices per row, on one pair of scales.

    Raises
    ------
    InvalidInputError
        If there are no matrices, or one does not contain 2 × 2 counts.
    InvalidTypeError
        If ``matrices`` is not a mapping.
    MissingExtraError
        If Altair is not installed.

    Examples
    --------
    >>> chart = plot_confusion_matrix_grid({"A": [[8, 2], [1, 9]]})
    >>> chart.to_dict()["description"]
    'Confusion matrices. A: 8 true negatives, 2 false positives, 1 false negatives, 9 true positives.'
    """
    if not isinstance(matrices, Mapping):
        raise InvalidTypeError(
            f"`matrices` is {matrices!r:.80}; it must be a mapping of name to 2 × 2 counts"
        )
    if not matrices:
        raise InvalidInputError("`matrices` is empty; there is nothing to draw")
    if isinstance(class_labels, str) or len(class_labels) != 2:
        raise InvalidInputError("`class_labels` must name two classes")
    classes = [clean(label, limit=24) for label in class_labels]
    names = unique_names(matrices)
    tables = [_table(values, f"matrices[{key!r:.40}]") for key, values in matrices.items()]
    columns = min(_COLUMNS, len(names))
    lines = math.ceil(len(names) / columns)
    cells, words = [], []
    for place, (name, table) in enumerate(zip(names, tables, strict=True)):
        left, top = 3.1 * (place % columns), 3.0 * (place // columns)
        cells += _cells(table, classes, name, left, top)
        words += _words(classes, name, left, top)
    ends = ([-1.0, 3.1 * (columns - 1) + 2.05], [3.0 * (lines - 1) + 2.6, -0.4])
    return finished(
        _cell_layers(cells, words, ends),
        title=title,
        figsize=figsize,
        description=_matrices_in_words(names, tables),
        default=(0.5 + 2.3 * columns, 0.2 + 2.2 * lines),
    )


def _table(values: ArrayLike, where: str) -> NDArray[np.int64]:
    array = validation.as_array(values, where, shape="2 × 2")
    whole = array.dtype.kind in "biu" or (
        array.dtype.kind == "f" and bool(np.isfinite(array).all() and (array % 1 == 0).all())
    )
    if array.shape != (2, 2) or not whole or (array < 0).any():
        raise InvalidInputError(f"{where} must be 2 × 2 counts, [[TN, FP], [FN, TP]]")
    return array.astype(np.int64)


def _cells(
    table: NDArray[np.int64], classes: list[str], name: str, left: float, top: float
) -> list[dict[str, Any]]:
    rows = []
    for actual in (0, 1):
        total = int(table[actual].sum())
        for predicted in (0, 1):
            count = int(table[actual, predicted])
            share = count / total if total else 0.0
            rows.append(
                {
                    "x": left + predicted,
                    "x2": left + predicted + 1,
                    "y": top + actual,
                    "y2": top + actual + 1,
                    "mx": left + predicted + 0.5,
                    "my": top + actual + 0.5,
                    "shade": rounded(share),
                    "right": int(actual == predicted),
                    "count": f"{count:,}",
                    "share": f"{share:.1%}" if total else "no rows",
                    "name": name,
                    "actual": classes[actual],
                    "predicted": classes[predicted],
                }
            )
    return rows


def _words(classes: list[str], name: str, left: float, top: float) -> list[dict[str, Any]]:
    sides = [
        {"x": left - 0.07, "y": top + place + 0.5, "text": label, "kind": "side"}
        for place, label in enumerate(classes)
    ]
    below = [
        {"x": left + place + 0.5, "y": top + 2.07, "text": label, "kind": "below"}
        for place, label in enumerate(classes)
    ]
    name_row = {"x": left, "y": top - 0.07, "text": name, "kind": "name"}
    predicted = {"x": left + 1, "y": top + 2.3, "text": "Predicted", "kind": "below"}
    actual = {"x": left - 0.82, "y": top + 1, "text": "Actual", "kind": "upright"}
    return [name_row, *sides, *below, predicted, *([actual] if left == 0 else [])]


def _cell_layers(
    cells: list[dict[str, Any]],
    words: list[dict[str, Any]],
    ends: tuple[list[float], list[float]],
) -> Any:
    alt = altair()
    scale_x = alt.Scale(domain=ends[0], nice=False, zero=False)
    scale_y = alt.Scale(domain=ends[1], nice=False, zero=False)

    def at(x: str, y: str) -> dict[str, Any]:
        return {
            "x": alt.X(f"{x}:Q", scale=scale_x, axis=None),
            "y": alt.Y(f"{y}:Q", scale=scale_y, axis=None),
        }

    tooltip = [
        alt.Tooltip("name:N", title="Name"),
        alt.Tooltip("actual:N", title="True class"),
        alt.Tooltip("predicted:N", title="Predicted"),
        alt.Tooltip("count:N", title="Rows"),
        alt.Tooltip("share:N", title="Share of the true class"),
    ]
    layers = []
    for right, colour in ((1, PALETTE["negative"]), (0, PALETTE["positive"])):
        shown = [cell for cell in cells if cell["right"] == right]
        mark = alt.Chart(inline(shown)).mark_rect(
            color=colour, stroke=NEUTRALS["paper"], strokeWidth=2
        )
        layers.append(
            mark.encode(
                **at("x", "y"),
                x2="x2:Q",
                y2="y2:Q",
                fillOpacity=alt.FillOpacity(
                    "shade:Q",
                    legend=None,
                    scale=alt.Scale(domain=[0, 1], range=[0.08, 0.92]),
                ),
                tooltip=tooltip,
            )
        )
    for dark in (False, True):
        shown = [cell for cell in cells if (cell["shade"] >= _DARK[cell["right"]]) == dark]
        if not shown:
            continue
        base = alt.Chart(inline(shown)).encode(**at("mx", "my"), tooltip=tooltip)
        style = {"style": "on-fill"} if dark else {}
        layers.append(base.mark_text(**style, dy=-7, fontSize=13).encode(text="count:N"))
        layers.append(base.mark_text(**style, dy=9, fontSize=10).encode(text="share:N"))
    marks: dict[str, dict[str, Any]] = {
        "name": {
            "align": "left",
            "baseline": "bottom",
            "fontWeight": 600,
            "fontSize": 12,
            "limit": 150,
        },
        "side": {"align": "right", "style": "muted", "fontSize": 10, "limit": 60},
        "upright": {"angle": 270, "style": "muted", "fontSize": 10},
        "below": {"baseline": "top", "style": "muted", "fontSize": 10, "limit": 75},
    }
    for kind, mark in marks.items():
        shown = [word for word in words if word["kind"] == kind]
        layers.append(
            alt.Chart(inline(shown)).mark_text(**mark).encode(**at("x", "y"), text="text:N")
        )
    return alt.layer(*layers)


def _matrices_in_words(names: list[str], tables: list[NDArray[np.int64]]) -> str:
    shown = []
    for name, table in zip(names[:6], tables, strict=False):
        tn, fp, fn, tp = (f"{int(count):,}" for count in table.ravel())
        shown.append(
            f"{name}: {tn} true negatives, {fp} false positives, {fn} false negatives, "
            f"{tp} true positives."
        )
    return " ".join(["Confusion matrices.", *shown])
