"""Units on which two runs part: right in one and wrong in the other, side by side."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._files import parse_json
from eval_toolkit._validate import BoolArray, FloatArray, IntArray
from eval_toolkit._words import number
from eval_toolkit.analysis import RunDifference
from eval_toolkit.analysis.units import CommonUnits, are_right, common_units
from eval_toolkit.errors import EvalToolkitError
from eval_toolkit.report.scored import stored_points
from eval_toolkit.report.sections import Wanted
from eval_toolkit.responses.reasoning import CUT_OFF, split_reasoning
from eval_toolkit.runs import Run

__all__ = ["disagreements"]


@dataclass(frozen=True, eq=False)
class _Sides:
    """What A and B made of the units they have in common."""

    units: NDArray[Any]
    a: FloatArray
    b: FloatArray
    right_a: BoolArray
    right_b: BoolArray
    gap: FloatArray
    labels: IntArray | None
    what: str
    """What the numbers are."""
    thresholds: tuple[float, float] | None = None
    """Where A and B call a score positive."""
    directed: bool = True
    """False where nothing says what is right: the higher value stands for it."""


def disagreements(
    runs: tuple[Run, Run],
    names: tuple[str, str],
    cells: Sequence[RunDifference],
    wanted: Wanted,
) -> list[dict[str, Any]]:
    """Return the units where A is right and B wrong, and the other way round, largest gap first.

    Parameters
    ----------
    runs : pair of Run
        A and B.
    names : pair of str
        What to call them.
    cells : sequence of RunDifference
        Of their comparison; the first one with a value says what is looked at.
    wanted : Wanted
        How many units to show.

    Returns
    -------
    list of dict
        Where nothing says which direction of the metric is better, the units where one value is
        higher. Empty where values cannot be compared.
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
    words = ("right", "wrong") if sides.directed else ("higher", "lower")
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
    if directed and common.right_or_wrong(cell.metric):
        right = [are_right(values_a, up), are_right(values_b, up)]
    else:  # of graded answers the better one counts as right
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
    )


def _decided(runs: tuple[Run, Run], cell: RunDifference, common: CommonUnits) -> _Sides | None:
    """Return who is right at the threshold each run holds; unless both do, at 0.5 of probabilities.

    A stored threshold against 0.5 would tell thresholds apart, and not scorers.
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
    asked = _inputs(runs, cell.slice, units)
    said = [_replies(run, units) for run in runs]
    rows = []
    for unit, place in zip(units, ranked.tolist(), strict=True):
        values = (float(sides.a[place]), float(sides.b[place]))
        rows.append(
            {
                "unit": unit,
                "label": None if sides.labels is None else int(sides.labels[place]),
                "text": asked.get(unit),
                "sides": [
                    {"name": name, "value": number(value), "text": replies.get(unit)}
                    for name, value, replies in zip(names, values, said, strict=True)
                ],
            }
        )
    n = len(at)
    return {
        "title": title,
        "said": f"{n:,} of {len(sides.units):,} units{_decided_at(sides, names)}"
        + (f"; the {len(rows):,} with the largest difference are shown." if n > len(rows) else "."),
        "what": sides.what,
        "rows": rows,
    }


def _decided_at(sides: _Sides, names: tuple[str, str]) -> str:
    """Say at which thresholds a unit counts as right or wrong."""
    if sides.thresholds is None:
        return ""
    a, b = sides.thresholds
    if a == b:
        return f", at a threshold of {a:.6g}"
    return (
        f", at a threshold of {a:.6g} for {names[0]} and {b:.6g} for {names[1]}: some may part by "
        "the threshold alone"
    )


def _inputs(runs: tuple[Run, Run], slice_name: str, units: Sequence[str]) -> dict[str, str]:
    """Return what the units say, from whichever run holds it."""
    found: dict[str, str] = {}
    for run in runs:
        missing = [unit for unit in units if unit not in found]
        if run.inputs is not None:
            found |= run.inputs.texts_of(slice_name, missing)
        elif "responses.parquet" in run.manifest["artifacts"]:
            found |= {unit: prompt for unit, (prompt, _) in _asked(run, missing).items()}
    return found


def _replies(run: Run, units: Sequence[str]) -> dict[str, str]:
    """Return what a run of a task answered; runs of rows and rollouts have no one answer."""
    if (run.manifest.get("config") or {}).get("kind") != "task":
        return {}
    if "responses.parquet" not in run.manifest["artifacts"]:
        return {}
    return {unit: reply for unit, (_, reply) in _asked(run, units).items() if reply}


def _asked(run: Run, units: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the first prompt to each unit, and the answer to it."""
    table = run.table("responses.parquet")
    wanted = set(units)
    found: dict[str, tuple[str, str]] = {}
    for place, unit in enumerate(table["unit_id"].tolist()):
        if unit in wanted and unit not in found:
            row = {name: table[name][place] for name in ("prompt", "params", "response", "error")}
            found[unit] = _spoken(row["prompt"]), _answered(row)
    return found


def _json(text: Any) -> Any:
    try:
        return parse_json(str(text), "a stored text")
    except EvalToolkitError:
        return None


def _spoken(stored: Any) -> str:
    """Return a prompt as people read it; conversations are stored as JSON."""
    text = "" if stored is None else str(stored)
    if not text.startswith(("[", '"')):
        return text
    read = _json(text)
    if isinstance(read, str):
        return read
    if isinstance(read, list):
        return "\n".join(_turns(read)) or text
    return text


def _turns(messages: Sequence[Any]) -> Iterator[str]:
    for message in messages:
        if isinstance(message, list) and len(message) == 2:
            yield f"{message[0]}: {message[1]}"
        elif isinstance(message, Mapping):
            yield f"{message.get('role', '')}: {message.get('content', '')}"


def _answered(row: Mapping[str, Any]) -> str:
    if row["error"]:
        return f"failed: {row['error']}"
    response, params = _json(row["response"]), _json(row["params"])
    if not isinstance(response, Mapping):
        return ""
    if isinstance(response.get("text"), str):
        parts = split_reasoning(response["text"])
        return f"({CUT_OFF})" if parts.cut_off else parts.answer
    likelihoods = response.get("loglikelihoods")
    choices = params.get("continuations") if isinstance(params, Mapping) else None
    if not (isinstance(likelihoods, list) and isinstance(choices, list)):
        return ""
    if not likelihoods or len(likelihoods) != len(choices):
        return ""
    best = max(range(len(choices)), key=lambda place: likelihoods[place])
    return f"{choices[best]} (log-probability {likelihoods[best]:.2f}, the highest)"
