"""Reading of cells from stored runs, and tables of cells."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np

from eval_toolkit._internal.display import CellLike, Estimate, Table
from eval_toolkit._internal.display import Status as StatusCell
from eval_toolkit.inference.results import BootstrapCI
from eval_toolkit.scorecards import MetricResult, Records, Scorecard
from eval_toolkit.scorecards.cells import Status
from eval_toolkit.scorecards.parts import format_part

_NOT_METRICS = frozenset(
    {"n", "n_positive", "is_single_class", "headline", "scores", "scores_calibrated", "skipped"}
    | {"error_state"}
)
_INLINE = 40
"""Maximum length of a reason in a table; longer ones become footnotes."""
_PLACE = ("slice", "part", "system", "metric")


def read_cell(name: str, stored: Any) -> MetricResult | None:
    """Read the cell stored under a name; return None if it is not a cell.

    ``stored`` may be a plain number. A cell with status "ok" but no finite value becomes an error.

    Examples
    --------
    >>> read_cell("pr_auc", 0.9).value, read_cell("n", 400), read_cell("curve", [0, 1])
    (0.9, None, None)
    >>> read_cell("brier", {"value": None, "status": "skipped", "reason": "logits"})
    MetricResult(skipped: logits)
    """
    if isinstance(stored, MetricResult):
        return stored
    if isinstance(stored, bool) or name in _NOT_METRICS:
        return None
    if isinstance(stored, int | float):
        stored = {"value": stored, "status": "ok"}
    if not isinstance(stored, Mapping) or "status" not in stored:
        return None
    value, status, reason = _number(stored.get("value")), stored["status"], stored.get("reason")
    if status not in get_args(Status):
        status, reason = "error", f"its status is {status!r:.40}"
    if status == "ok" and value is None:
        status, reason = "error", f"its value is {stored.get('value')!r:.40}"
    details = stored.get("details")
    return MetricResult(
        value,
        status,
        str(reason or ""),
        _interval(stored.get("ci"), value),
        details if isinstance(details, Mapping) else {},
        n_units=_count(stored.get("n_units")),
        n_groups=_count(stored.get("n_groups")),
        n_errors=_count(stored.get("n_errors")) or 0,
        n_skipped=_count(stored.get("n_skipped")) or 0,
    )


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _count(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _interval(stored: Any, value: float | None) -> BootstrapCI | None:
    """Return an interval if both of its ends are stored; other missing fields are unknown."""
    if not isinstance(stored, Mapping):
        return None
    low, high = (_number(stored.get(end)) for end in ("ci_low", "ci_high"))
    if low is None or high is None:
        return None
    point, level = _number(stored.get("point_estimate")), _number(stored.get("confidence"))
    return BootstrapCI(
        next((known for known in (point, value) if known is not None), math.nan),
        low,
        high,
        math.nan if level is None else level,
        _count(stored.get("n_resamples")) or 0,
        str(stored.get("method") or ""),
        n_undefined=_count(stored.get("n_undefined")) or 0,
        reason=str(stored.get("reason") or ""),
        n_units=_count(stored.get("n_units")),
        n_groups=_count(stored.get("n_groups")),
    )


def absent_cell(block: Mapping[str, Any]) -> MetricResult | None:
    """Return a cell with the reason why a system was skipped or failed, else None."""
    for state in ("skipped", "error"):
        if isinstance(block.get(state), str):
            return MetricResult(None, state, block[state])
    return None


def card_entry(
    system: str, records: Records, card: Scorecard, *, by: str | None = None
) -> dict[str, Any]:
    """Convert a scorecard to the format of a stored slice.

    ``by`` is the name of the partition into parts; by default, the name in the card.

    Examples
    --------
    >>> from eval_toolkit import metric_specs as ms
    >>> from eval_toolkit.scorecards import summarise
    >>> records = Records.from_columns({"right": [1, 0]}, slices={"topic": ["x", "y"]})
    >>> entry = card_entry("m", records, summarise(records, [ms.mean_of("right")], by="topic"))
    >>> entry["by_scorer"]["m"]["right"]["value"], entry["parts"]["topic=x"]["n"]
    (0.5, 1)
    """
    units, first = np.unique(records.unit_id.astype(str), return_index=True)
    entry: dict[str, Any] = {"n": len(units), "by_scorer": {system: card.to_dict()}}
    if card.slices:
        key = by or card.by
        names = records.slices[key].astype(str)[first]
        entry["parts"] = {
            format_part({key: name}): {
                "n": int((names == name).sum()),
                "by_scorer": {system: inside.to_dict()},
            }
            for name, inside in card.slices.items()
        }
    return entry


def cell_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of cells; long reasons become footnotes.

    ``rows`` must have the format of `Results.rows`.

    Examples
    --------
    >>> from eval_toolkit.runs.results import Results
    >>> cell = {"value": 0.9, "status": "ok", "n_units": 40}
    >>> results = Results.of({"by_slice": {"test": {"by_scorer": {"guard": {"pr_auc": cell}}}}})
    >>> cell_table(results.rows()).texts()
    [['test', 'all', 'guard', 'pr_auc', '0.900', '', '40', '0', 'ok']]
    """
    levels = {row["confidence"] for row in rows if row["confidence"] is not None}
    percent = f"{100 * levels.pop():g} % " if len(levels) == 1 else ""
    header = [*_PLACE, "value", f"{percent}interval", "n", "errors", "status"]
    return Table(header, map(_line, rows)).footnoted(_INLINE)


def _line(row: Mapping[str, Any]) -> list[CellLike]:
    return [
        *(str(row[name]) for name in _PLACE),
        *Estimate(row["value"], row["ci_low"], row["ci_high"]).split(),
        row["n_units"],
        row["n_errors"] or 0,
        StatusCell(row["status"], row["reason"]),
    ]
