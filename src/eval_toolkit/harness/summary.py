"""Summaries over folds: means with intervals that account for shared rows.

Folds are stored as parts of a slice, such as ``fold=3``, and the mean over folds as the slice
itself.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eval_toolkit.errors import EvalToolkitError, MissingColumnError
from eval_toolkit.inference import BootstrapCI, corrected_resampled_t, cv_clt_ci
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.scorecards import MetricResult
from eval_toolkit.scorecards.parts import rows_of_folds

_SHARE = (0.0, 1.0)
"""Bounds of F1, precision, recall and false-positive rate at a selected threshold."""


@dataclass(frozen=True)
class SharedRows:
    """Training and test sizes of folds that share rows."""

    n_train: int
    n_test: int


def checked_summary_metrics(
    names: Sequence[str] | None, specs: Iterable[MetricSpec], thresholds: bool
) -> list[str] | None:
    """Validate the names of the metrics to summarise; None means all.

    Metrics at selected thresholds (``op_…``) are always accepted, because their names are known
    only after selection.
    """
    if names is None:
        return None
    known = [spec.name for spec in specs]
    selected = [names] if isinstance(names, str) else list(names)
    for name in selected:
        if name not in known and not (thresholds and str(name).startswith("op_")):
            raise MissingColumnError(
                f"`summary_metrics`: no metric {name!r}; the metrics are {', '.join(map(repr, known))}"
            )
    return selected


def folded_slices(
    folds: Mapping[str, Mapping[str, Any]],
    *,
    names: Sequence[str] | None,
    specs: Iterable[MetricSpec],
    confidence: float,
    shared: Mapping[tuple[str, str], SharedRows],
) -> dict[str, Any]:
    """Return the slices of a cross-validation run: means over folds, with each fold as a part.

    ``folds`` contains the ``by_slice`` results of each fold, keyed by part; ``shared`` contains the
    (split, scorer) pairs whose folds are not independent.
    """
    bounds = {spec.name: _bounds(spec) for spec in specs}
    first = next(iter(folds.values()))
    slices: dict[str, Any] = {}
    for split in first:
        parts: dict[str, Any] = {}
        for fold, by_slice in folds.items():
            inside = by_slice[split].get("parts", {})
            parts[fold] = {key: value for key, value in by_slice[split].items() if key != "parts"}
            parts |= {f"{fold}&{name}": part for name, part in inside.items()}
        by_scorer = {}
        for scorer in first[split]["by_scorer"]:
            blocks = [by_slice[split]["by_scorer"][scorer] for by_slice in folds.values()]
            metrics = _metric_names(bounds, blocks) if names is None else names
            by_scorer[scorer] = {
                metric: _over_folds(
                    [_value(block, metric) for block in blocks],
                    confidence,
                    shared.get((split, scorer)),
                    bounds.get(metric, _SHARE),
                ).to_dict()
                for metric in metrics
            }
        slices[split] = {**rows_of_folds(parts), "by_scorer": by_scorer, "parts": parts}
    return slices


def _metric_names(measured: Iterable[str], blocks: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the requested metrics and the threshold metrics found in the folds."""
    cells = [
        name
        for block in blocks
        for name, cell in block.items()
        if isinstance(cell, Mapping) and "status" in cell and name != "error_state"
    ]
    return list(dict.fromkeys([*measured, *cells]))


def _value(block: Mapping[str, Any], metric: str) -> float | str:
    """Return the value of a metric, or the reason why it is missing."""
    why = block.get("error") or block.get("skipped")
    if why:
        return str(why)
    cell = block.get(metric)
    if cell is None:
        return f"{metric} was not computed"
    return float(cell["value"]) if cell["status"] == "ok" else str(cell["reason"])


def _over_folds(
    values: Sequence[float | str],
    confidence: float,
    shared: SharedRows | None,
    bounds: tuple[float, float],
) -> MetricResult:
    found = np.array([value for value in values if not isinstance(value, str)])
    reasons = list(dict.fromkeys(value for value in values if isinstance(value, str)))
    n_failed = len(values) - len(found)
    details: dict[str, Any] = {"over": "folds", "n_folds": len(found), "n_failed": n_failed}
    if reasons:
        details["failures"] = reasons
    if len(found) == 0:
        return MetricResult(None, "skipped", reasons[0], details=details, n_errors=n_failed)
    if len(found) == 1:
        reason = "only one fold has a value; an interval needs at least two"
        mean = float(found[0])
        return MetricResult(mean, "ok", reason, details=details, n_errors=n_failed)
    mean, low, high, method, reason = _interval(found, confidence, shared)
    ends = max(low, bounds[0]), min(high, bounds[1])
    ci = BootstrapCI(mean, *ends, confidence=confidence, n_resamples=0, method=method)
    details["sd"] = float(found.std(ddof=1))
    return MetricResult(mean, "ok", reason, ci, details, n_errors=n_failed)


def _interval(
    values: Any, confidence: float, shared: SharedRows | None
) -> tuple[float, float, float, str, str]:
    """Return mean, bounds, method and note, by Student's t, or Nadeau–Bengio if rows are shared."""
    if shared is None:
        t = cv_clt_ci(values, confidence=confidence)
        return t.point_estimate, t.ci_low, t.ci_high, t.method, t.reason
    corrected = corrected_resampled_t(
        values, n_train=shared.n_train, n_test=shared.n_test, confidence=confidence
    )
    return corrected.mean, corrected.ci_low, corrected.ci_high, corrected.method, corrected.reason


def _bounds(spec: MetricSpec) -> tuple[float, float]:
    """Return the bounds of a metric, which also apply to its mean."""
    try:
        low, high = spec.statistic.bounds  # type: ignore[attr-defined]
    except (AttributeError, EvalToolkitError):
        return -math.inf, math.inf
    return float(low), float(high)
