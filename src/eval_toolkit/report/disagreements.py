"""Lists of the units on which two runs disagree, side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray
from eval_toolkit._internal.words import number
from eval_toolkit.analysis import RunDifference
from eval_toolkit.analysis.units import CommonUnits, are_right, common_units
from eval_toolkit.report.scored_rows import label_names, stored_points
from eval_toolkit.report.sections import Wanted
from eval_toolkit.runs import Run
from eval_toolkit.runs.blocks import Choices, Messages, Note, flattened, main_reply
from eval_toolkit.runs.kind_display import common_kind, show_unit
from eval_toolkit.runs.selected_units import Place, selected_units

_Said = tuple[str | None, str | None]
"""Input and response of a unit."""


@dataclass(frozen=True, eq=False)
class _Sides:
    """Values of A and B on the common units."""

    units: NDArray[Any]
    a: FloatArray
    b: FloatArray
    right_a: BoolArray
    right_b: BoolArray
    gap: FloatArray
    labels: IntArray | None
    what: str
    """Name of the compared value."""
    thresholds: tuple[float, float] | None = None
    """Decision thresholds of A and B."""
    directed: bool = True
    """False if the better direction is unknown; the higher value then counts as right."""
    graded: bool = False
    """Whether values are grades; the better one then counts as right."""


def disagreements(
    runs: tuple[Run, Run],
    names: tuple[str, str],
    cells: Sequence[RunDifference],
    wanted: Wanted,
) -> list[dict[str, Any]]:
    """Return the units where only A or only B is right, largest difference first.

    The first of ``cells`` with a value is used. If the metric's direction is unknown, the lists
    contain the units for which one of the values is higher.
    """
    cell = next((one for one in cells if one.status == "ok" and one.delta is not None), None)
    if cell is None or (cell.slice, cell.scorer) not in runs[0].subjects:
        return []
    if (cell.slice, cell.scorer_b) not in runs[1].subjects:
        return []
    sides = _sides(runs, cell)
    if sides is None:
        return []
    limit = max(1, wanted.n_samples // 2)
    a, b = names
    kind = common_kind(runs).words
    words = ("better", "worse") if sides.graded else (kind.right, kind.wrong)
    if not sides.directed:
        words = ("higher", "lower")
    return [
        _list(runs, names, cell, sides, side, f"{one} {words[0]}, {other} {words[1]}", limit)
        for side, one, other in (
            (sides.right_a & ~sides.right_b, a, b),
            (sides.right_b & ~sides.right_a, b, a),
        )
    ]


def _sides(runs: tuple[Run, Run], cell: RunDifference) -> _Sides | None:
    records = [
        run.records(cell.slice, scorer)
        for run, scorer in zip(runs, (cell.scorer, cell.scorer_b), strict=True)
    ]
    common = common_units(*records, on_mismatch="drop", where=cell.slice)
    if all({"label", "score"} <= set(one.columns) for one in records):
        return _decided(runs, cell, common)
    if any(cell.metric not in one.columns for one in records):
        return None
    values_a, values_b, in_a, in_b = common.both(cell.metric)
    both = in_a & in_b
    values_a, values_b = values_a[both], values_b[both]
    up, directed = cell.higher_is_better is not False, cell.higher_is_better is not None
    graded = not (directed and common.right_or_wrong(cell.metric))
    if not graded:
        right = [are_right(values_a, up), are_right(values_b, up)]
    else:  # graded responses: the better one counts as right
        right = [values_a > values_b, values_b > values_a][:: 1 if up else -1]
    return _Sides(
        units=common.a.ids[common.in_a][both],
        a=values_a,
        b=values_b,
        right_a=right[0],
        right_b=right[1],
        gap=np.abs(values_a - values_b),
        labels=None,
        what=cell.metric,
        directed=directed,
        graded=graded,
    )


def _decided(runs: tuple[Run, Run], cell: RunDifference, common: CommonUnits) -> _Sides | None:
    """Return which scores are right at each run's threshold, or at 0.5 if either run has none.

    A stored threshold is never compared with 0.5: that would compare thresholds, not scorers.
    """
    label, _, in_a, _ = common.both("label")
    score_a, score_b, has_a, has_b = common.both("score")
    both = in_a & has_a & has_b
    label, score_a, score_b = label[both], score_a[both], score_b[both]
    points = [stored_points(runs[0], cell.scorer), stored_points(runs[1], cell.scorer_b)]
    thresholds = (0.5, 0.5)
    if all(points):
        thresholds = (points[0][0].threshold, points[1][0].threshold)
    elif not all(bool(((one >= 0) & (one <= 1)).all()) for one in (score_a, score_b)):
        return None
    return _Sides(
        units=common.a.ids[common.in_a][both],
        a=score_a,
        b=score_b,
        right_a=are_right(score_a, label == 1, thresholds[0]),
        right_b=are_right(score_b, label == 1, thresholds[1]),
        gap=np.abs(score_a - score_b),
        labels=label.astype(np.int64),
        what="score",
        thresholds=thresholds,
    )


def _list(
    runs: tuple[Run, Run],
    names: tuple[str, str],
    cell: RunDifference,
    sides: _Sides,
    chosen: BoolArray,
    title: str,
    limit: int,
) -> dict[str, Any]:
    at = np.flatnonzero(chosen)
    ranked = at[np.lexsort((sides.units[at], -sides.gap[at]))][:limit]
    units = [str(unit) for unit in sides.units[ranked]]
    said = [
        _texts(run, cell, scorer, units)
        for run, scorer in zip(runs, (cell.scorer, cell.scorer_b), strict=True)
    ]
    names_of = label_names(runs[0])
    rows = []
    for unit, place in zip(units, ranked.tolist(), strict=True):
        values = (float(sides.a[place]), float(sides.b[place]))
        rows.append(
            {
                "unit": unit,
                "label": None
                if sides.labels is None
                else names_of.get(int(sides.labels[place]), str(sides.labels[place])),
                "text": next((own[unit][0] for own in said if own[unit][0] is not None), None),
                "sides": [
                    {"name": name, "value": number(value), "text": own[unit][1]}
                    for name, value, own in zip(names, values, said, strict=True)
                ],
            }
        )
    n = len(at)
    return {
        "title": title,
        "said": f"{n:,} of {len(sides.units):,} {common_kind(runs).words.units}{_decided_at(sides, names)}"
        + (f"; the {len(rows):,} with the largest difference are shown." if n > len(rows) else "."),
        "what": sides.what,
        "rows": rows,
    }


def _decided_at(sides: _Sides, names: tuple[str, str]) -> str:
    """Return a note on the thresholds that were used."""
    if sides.thresholds is None:
        return ""
    a, b = sides.thresholds
    if a == b:
        return f", at a threshold of {a:.6g}"
    return (
        f", at a threshold of {a:.6g} for {names[0]} and {b:.6g} for {names[1]}: some may differ "
        f"only because of the threshold"
    )


def _texts(run: Run, cell: RunDifference, scorer: str, units: Sequence[str]) -> dict[str, _Said]:
    """Return the input and the response of each unit, as displayed by the run's kind."""
    places = [Place(slice=cell.slice, scorer=scorer, unit_id=unit) for unit in units]
    found = {}
    for unit in selected_units(run, places, whole=False):
        blocks = list(flattened(show_unit(unit)))
        asked = next(filter(None, map(_asked, blocks)), None)
        found[unit.id] = asked, _answered(blocks)
    return found


def _asked(block: Any) -> str | None:
    """Return the text of an input block; None for other blocks."""
    if getattr(block, "role", "") not in ("input", "prompt"):
        return None
    if isinstance(block, Messages):
        return "\n".join(f"{one.role}: {one.text}" for one in block.messages)
    return str(block.text)


def _answered(blocks: Sequence[Any]) -> str | None:
    """Return the response or the most likely choice, else the reason why both are missing."""
    for block in blocks:
        if isinstance(block, Messages) and (told := main_reply(block.messages)):
            return f"{told.title or told.role}\n{told.text}"
        if isinstance(block, Choices):
            best = max(block.choices, key=lambda one: one.share, default=None)
            if best is not None and best.loglikelihood is not None:
                return f"{best.text} (log-probability {best.loglikelihood:.2f}, the highest)"
        if isinstance(block, Note) and block.status == "error":
            return f"failed: {block.text}"
        if getattr(block, "role", "") == "answer":
            return str(block.text) or None
    return None
