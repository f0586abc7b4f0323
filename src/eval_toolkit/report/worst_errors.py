"""Worst errors of each scorer, and the largest disagreements between scorers."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from eval_toolkit._internal.display import Number, Table
from eval_toolkit._internal.validation import FloatArray, IntArray
from eval_toolkit.report.scored_rows import (
    MAX_SUBJECTS,
    Scored,
    class_names,
    label_names,
    left_out,
    once_each,
    scored_of,
    threshold_of,
)
from eval_toolkit.report.sections import Section, Wanted
from eval_toolkit.runs import Run


def build(run: Run, wanted: Wanted) -> Section | None:
    """Return the section; None if there are no labels and scores."""
    subjects = scored_of(run)
    if not subjects:
        return None
    shown = subjects[:MAX_SUBJECTS]
    share = max(1, wanted.n_samples // 2)
    pairs = list(_pairs(shown))
    return Section(
        id="worst",
        menu="Worst errors",
        title="Where does it go wrong?",
        template="worst_errors.html",
        lead=""
        if run.inputs is not None
        else "The run stores no texts; store them with --text or inputs= to show them here.",
        data={
            "errors": [list(_errors(run, one, share)) for one in shown],
            "disagreements": [_disagreements(run, *pair, wanted.n_samples) for pair in pairs],
        },
        notes=left_out(subjects, shown),
    )


def _errors(run: Run, one: Scored, limit: int) -> Iterator[dict[str, Any]]:
    """Yield false alarms and misses, most confident first."""
    threshold = threshold_of(run, one)
    negative, positive = class_names(run)
    kinds = (
        ("False alarms", f"{negative} rows with the highest scores", one.labels == 0, -one.scores),
        ("Misses", f"{positive} rows with the lowest scores", one.labels == 1, one.scores),
    )
    for title, meaning, side, order in kinds:
        at = np.flatnonzero(side)
        if threshold is not None:
            wrong = one.scores >= threshold if title == "False alarms" else one.scores < threshold
            at = np.flatnonzero(side & wrong)
        # By score, then by unit, so that the selection does not depend on the row order.
        ranked = at[np.lexsort((one.unit_ids[at].astype(str), order[at]))]
        ranked = once_each(ranked, one.unit_ids)
        told = meaning if threshold is None else f"{meaning}, at a threshold of {threshold:.6g}"
        yield {
            "title": f"{title} of {one.name}",
            "said": _said(len(ranked), limit, told, title.lower()),
            "wide": False,
            **_shown(["score"], _rows(run, one, ranked[:limit], [one.scores])),
        }


def _said(n: int, limit: int, told: str, what: str) -> str:
    if n == 0:
        return f"No {what}: there are no {told}."
    more = f"; {min(limit, n):,} of {n:,} are shown" if n > limit else f"; all {n:,} are shown"
    return f"{told[0].upper()}{told[1:]}{more}."


def _rows(
    run: Run, one: Scored, places: IntArray, scores: Sequence[FloatArray]
) -> list[dict[str, Any]]:
    """Return the display data of rows, with their texts if stored."""
    units = [str(one.unit_ids[place]) for place in places]
    texts = {} if run.inputs is None else run.inputs.texts_of(one.slice, units)
    names = label_names(run)
    return [
        {
            "unit": unit,
            "label": names.get(int(one.labels[place]), str(one.labels[place])),
            "scores": [Number(float(values[place])) for values in scores],
            "parts": [f"{name}: {value}" for name, value in one.parts(int(place))],
            "text": texts.get(unit),
        }
        for unit, place in zip(units, places.tolist(), strict=True)
    ]


def _shown(scores: Sequence[str], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return rows with texts, or a table for runs without texts."""
    cells = [[row["unit"], row["label"], *row["scores"], ", ".join(row["parts"])] for row in rows]
    table = Table(["row", "label", *scores, "parts"], cells).without_empty(2 + len(scores))
    return {"scores": scores, "rows": rows, "table": table}


def _pairs(shown: Sequence[Scored]) -> Iterator[tuple[Scored, Scored]]:
    """Yield consecutive pairs of scorers of a slice."""
    for one, other in pairwise(shown):
        if one.slice == other.slice:
            yield one, other


def _disagreements(run: Run, one: Scored, other: Scored, limit: int) -> dict[str, Any]:
    """Return the rows with the largest disagreement between two scorers."""
    places, theirs = _common(one, other)
    mine, yours = one.scores[places], other.scores[theirs]
    alike = one.are_probabilities and other.are_probabilities
    gap = np.abs(mine - yours) if alike else np.abs(_percentile(mine) - _percentile(yours))
    units = one.unit_ids[places].astype(str)
    ranked = np.lexsort((units, -gap))
    ranked = once_each(ranked[gap[ranked] > 0], units)
    n, ranked = len(ranked), ranked[:limit]
    of_other = np.full(len(one.scores), np.nan)
    of_other[places] = yours
    how = "scores differ most" if alike else "score ranks differ most"
    return {
        "title": f"Where {one.scorer} and {other.scorer} disagree",
        "said": f"Rows whose {how}; {len(ranked):,} of {n:,} that differ are shown."
        if n
        else "Both scorers give every row the same score.",
        "wide": True,
        **_shown(
            [one.scorer, other.scorer], _rows(run, one, places[ranked], [one.scores, of_other])
        ),
    }


def _common(one: Scored, other: Scored) -> tuple[IntArray, IntArray]:
    """Return the positions of rows common to both scorers, matched by unit and attempt."""

    def keys(side: Scored) -> dict[tuple[str, int], int]:
        attempts = side.records.attempt[side.rows].tolist()
        return {
            key: at for at, key in enumerate(zip(side.unit_ids.tolist(), attempts, strict=True))
        }

    mine, theirs = keys(one), keys(other)
    both = [(at, theirs[key]) for key, at in mine.items() if key in theirs]
    pairs = np.array(both, dtype=np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _percentile(values: FloatArray) -> FloatArray:
    """Return the percentile rank of each row; ties get their midrank."""
    ordered = np.sort(values)
    low = np.searchsorted(ordered, values, side="left")
    high = np.searchsorted(ordered, values, side="right")
    shares: FloatArray = (low + high) / (2.0 * max(len(values), 1))
    return shares
