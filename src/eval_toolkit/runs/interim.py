"""Interim mean of a metric during a run, with an anytime-valid interval."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eval_toolkit._internal.files import read_regular
from eval_toolkit.artifacts.strict_json import parse_bytes
from eval_toolkit.errors import EvalToolkitError
from eval_toolkit.inference.results import Interval
from eval_toolkit.runs.open import SO_FAR

if TYPE_CHECKING:
    from eval_toolkit.inference.sequences import ConfidenceSequence
    from eval_toolkit.models.runner.entries import Entry

__all__ = ["SO_FAR", "Grading", "SoFar", "ValueSoFar", "read_so_far"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grading:
    """How to grade finished answers while others are pending.

    Parameters
    ----------
    metric : str
        Name of the metric, which is the mean of one value per unit.
    bounds : tuple of float
        Smallest and largest possible value.
    units : sequence of str
        Ids of the units in random order. Units after the first unfinished one are not counted yet,
        since fast answers may be better or worse than slow ones.
    grade : callable
        Function that maps finished requests to values by unit id, with None for units without a
        value.
    """

    metric: str
    bounds: tuple[float, float]
    units: Sequence[str]
    grade: "Callable[[Sequence[Entry]], Mapping[str, float | None]]"


@dataclass(frozen=True, kw_only=True, repr=False)
class ValueSoFar(Interval[float]):
    """Interim mean over the finished units."""

    metric: str
    value: float
    n_units: int
    n_planned: int

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {name: getattr(self, name) for name in _STORED}


_STORED = ("metric", "value", "ci_low", "ci_high", "confidence", "n_units", "n_planned")


@dataclass(slots=True)
class SoFar:
    """Update the interim value and store it in the run folder."""

    folder: Path
    grading: Grading | None
    _values: dict[str, float | None] = field(default_factory=dict)
    _sequence: "ConfidenceSequence | None" = None
    _at: int = 0

    def add(self, entries: "Sequence[Entry]") -> None:
        """Grade finished requests and write the interim value."""
        if self.grading is None:
            return
        try:
            self._add(self.grading, entries)
        except Exception:  # the run itself reports errors of graders; it must not end here
            self.grading = None
            (self.folder / SO_FAR).unlink(missing_ok=True)

    def _add(self, grading: Grading, entries: "Sequence[Entry]") -> None:
        from eval_toolkit.artifacts import write_json_strict
        from eval_toolkit.inference.sequences import ConfidenceSequence

        if self._sequence is None:
            self._sequence = ConfidenceSequence(bounds=grading.bounds)
        self._values |= grading.grade(entries)
        found: list[float] = []
        while self._at < len(grading.units) and grading.units[self._at] in self._values:
            value = self._values[grading.units[self._at]]
            found += [] if value is None else [value]
            self._at += 1
        if not found:
            return
        self._sequence.update(found)
        interval = self._sequence.interval
        interim = ValueSoFar(
            metric=grading.metric,
            value=interval.point_estimate,
            ci_low=interval.ci_low,
            ci_high=interval.ci_high,
            confidence=interval.confidence,
            n_units=self._sequence.n,
            n_planned=len(grading.units),
        )
        write_json_strict(interim.to_dict(), self.folder / SO_FAR)


def read_so_far(folder: Path) -> ValueSoFar | None:
    """Read the interim value of a run in progress.

    Returns None if there is no interim value or its file is malformed.

    Examples
    --------
    >>> import tempfile
    >>> read_so_far(Path(tempfile.mkdtemp())) is None
    True
    """
    try:
        stored: Any = parse_bytes(read_regular(folder / SO_FAR), SO_FAR)
        found = ValueSoFar(
            metric=str(stored["metric"]),
            value=float(stored["value"]),
            ci_low=float(stored["ci_low"]),
            ci_high=float(stored["ci_high"]),
            confidence=float(stored["confidence"]),
            n_units=int(stored["n_units"]),
            n_planned=int(stored["n_planned"]),
        )
        numbers = (found.value, found.low, found.high, found.confidence)
        return found if all(map(math.isfinite, numbers)) else None
    except (OSError, ValueError, TypeError, LookupError, OverflowError, EvalToolkitError):
        return None
