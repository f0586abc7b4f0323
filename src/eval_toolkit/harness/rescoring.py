"""Rescoring of stored records with other metrics, parts or intervals."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eval_toolkit import metric_specs as ms
from eval_toolkit._internal import validation
from eval_toolkit.analysis.directions import agreed, stated_by, stated_in
from eval_toolkit.analysis.parts import scored_by
from eval_toolkit.errors import ArtifactError, EvalToolkitError, MissingColumnError
from eval_toolkit.harness.predictions import Job, summarised_parts
from eval_toolkit.harness.refolded import has_folds, summarised_folds
from eval_toolkit.metric_specs.columns import mean_as_stated
from eval_toolkit.metric_specs.names import chosen_metrics
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.runs.folder import RECORDS, Run
from eval_toolkit.runs.kind_display import kind_named
from eval_toolkit.runs.kinds import Graded, Kind
from eval_toolkit.runs.outcome import Subject
from eval_toolkit.runs.specs import SummarySpec
from eval_toolkit.runs.stored_units import unit_files
from eval_toolkit.runs.units import UNITS, Unit
from eval_toolkit.scorecards import Records
from eval_toolkit.scorecards.parts import WHOLE, format_part

_SCORED = {"label", "score"}
_MOST = {"seed": 2**63 - 1, "n_resamples": 1_000_000}
"""Largest integers accepted from a stored run."""
_STOPPED = (
    "the run stopped early; these intervals assume a fixed number of samples and are too narrow, "
    "unlike those of the run"
)


@dataclass(frozen=True)
class StoredRows(Kind[Mapping[Subject, Records]]):
    """Evaluation kind for the records of a stored run."""

    run: Run
    asked: Sequence[MetricSpec | str] | None
    columns: tuple[str, ...]
    """Names of the record slices whose values define the parts."""
    threshold: float | None
    summary: SummarySpec
    each: Callable[[Sequence[Any]], Iterable[Any]] = field(default=iter, repr=False)
    """Function that displays progress over slices and parts."""
    pooled: bool = False
    """Whether to pool the rows of all folds instead of averaging over folds."""

    asks = False
    in_place = False

    @classmethod
    def stored(
        cls,
        run: Run,
        *,
        metrics: Sequence[MetricSpec | str] | None = None,
        by: str | Sequence[str] = (),
        threshold: float | None = None,
        summary: SummarySpec | None = None,
        each: Callable[[Sequence[Any]], Iterable[Any]] = iter,
        pooled: bool = False,
    ) -> "StoredRows":
        """Load the records of a run.

        ``by`` and ``summary`` default to those of the run: the same parts, confidence level, seed,
        number of resamples and error policy.
        """
        if not run.subjects:
            raise ArtifactError(f"{run.path}: the run has no records to score")
        parts = (by,) if isinstance(by, str) else tuple(dict.fromkeys(by))
        how = _summary_of(run) if summary is None else summary
        return cls(run, metrics, parts or scored_by(run), threshold, how, each, pooled)

    @property
    def name(self) -> str:  # type: ignore[override]
        """Kind of the original run."""
        return self.run.kind

    def config(self) -> Mapping[str, Any]:
        """Return the run's configuration with the new metrics, parts and interval settings."""
        how = self.summary
        metrics = [one if isinstance(one, str) else one.name for one in self.asked or ()]
        before = dict(self.run.manifest.get("config") or {})
        for name in ("threshold", "thresholds", "threshold_files"):  # stale thresholds
            before.pop(name, None)
        return {
            **before,
            "by": list(self.columns),
            "metrics": metrics,
            **({} if self.threshold is None else {"threshold": self.threshold}),
            "confidence": how.confidence,
            "n_resamples": how.n_resamples,
            "seed": how.seed,
            "method": how.method,
        }

    def units(self) -> Sequence[Unit]:
        """Return an empty list: rows are identified by their records."""
        return ()

    def produce(self, context: Any) -> Mapping[Subject, Records]:
        """Return the records of the run."""
        return {subject: self.run.records(*subject) for subject in self.run.subjects}

    def grade(self, attempts: Mapping[Subject, Records]) -> Graded:
        """Compute the results of every slice and of its parts."""
        specs = {subject: self._specs(subject, own) for subject, own in attempts.items()}
        stopping = self.run.results.get("stopping")
        extra = {} if stopping is None else {"stopping": stopping}
        if has_folds(self.run, attempts) and not self.pooled:
            cards, by_slice = summarised_folds(
                self.run, attempts, specs, self.columns, self.summary, self.each
            )
            extra["folds"] = self.run.cells.folds
        else:
            jobs = [job for subject, own in attempts.items() for job in self._jobs(subject, own)]
            estimated = kind_named(self.run.kind).estimator(self.run, self.summary)
            cards, by_slice = summarised_parts(self.each(jobs), specs, self.summary, estimated)
        return Graded(
            subjects=attempts,
            cards=cards,
            by_slice=by_slice,
            n_errors=0,
            extra=extra,
            notes=() if stopping is None else (_STOPPED,),
        )

    def manifest(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the run's seeds, including the interval seed, and the description of its units."""
        stored = self.run.manifest.get("seeds") or {}
        seeds = {"seeds": {**stored, "bootstrap": self.summary.seed}}
        units = self.run.units
        if units is None:
            return seeds
        about = self.run.manifest.get("units")
        known = about if isinstance(about, Mapping) else {}
        return {**seeds, "units": {**known, "parts": dict(units.parts)}}

    def tables(self, attempts: Mapping[Subject, Records]) -> Mapping[str, Any]:
        """Return the run's other tables unchanged: units, answers and turns."""
        described, units = self.run.manifest["artifacts"], self.run.units
        known = {RECORDS, *unit_files(described)}
        names = [name for name, told in described.items() if "texts" in told and name not in known]
        asked = {} if units is None else {UNITS: units.read()}
        return {**asked, **{name: self.run.table(name) for name in names}}

    def _specs(self, subject: Subject, records: Records) -> list[MetricSpec]:
        """Return the requested metrics; by default, those for scores or the column means."""
        cells, stated = self.run.cells.block_or_none(*subject) or {}, stated_in(self.run)
        means = {
            name: _as_in_the_run(
                records, name, cells.get(name), agreed(stated_by(stated, cells, name), name)
            )
            for name in records.numbers
            if name not in _SCORED
        }
        if self.asked:
            known = [means.get(one, one) if isinstance(one, str) else one for one in self.asked]
            return chosen_metrics(known, at=self.threshold)
        scored = records.columns.keys() >= _SCORED
        return chosen_metrics(None, at=self.threshold) if scored else list(means.values())

    def _jobs(self, subject: Subject, records: Records) -> Iterator[Job]:
        """Yield each slice, followed by its parts."""
        yield subject, WHOLE, records, None
        for column in self.columns:
            if column not in records.slices:
                have = ", ".join(map(repr, records.slices)) or "none"
                raise MissingColumnError(
                    f"{self.run.path}: slice {subject[0]!r} has no part {column!r} (`by`); it has "
                    f"{have}"
                )
            parts = records.slices[column]
            for name in sorted(set(parts.tolist())):
                rows = np.flatnonzero(parts == name)
                yield subject, format_part({column: name}), records, rows


def _summary_of(run: Run) -> SummarySpec:
    """Return the summary settings stored in a run, ignoring missing or invalid values."""
    config = run.manifest.get("config") or {}
    usable: dict[str, Any] = {}
    for name in ("on_error", "confidence", "seed", "n_resamples"):
        if name not in config:
            continue
        try:  # stored settings may be arbitrary
            if name in _MOST and validation.integer(config[name], name) > _MOST[name]:
                continue
            usable[name] = getattr(SummarySpec(**{name: config[name]}), name)
        except EvalToolkitError:
            continue
    return SummarySpec(**usable)


def _as_in_the_run(
    records: Records, column: str, cell: Any, higher_is_better: bool | None
) -> MetricSpec:
    """Return a column-mean metric with the type and bounds stored in the run."""
    details = cell.get("details") if isinstance(cell, Mapping) else None
    spec = mean_as_stated(column, details if isinstance(details, Mapping) else {}, higher_is_better)
    values = records.columns[column][records.status[column] == "ok"]
    low, high = spec.bounds
    if bool(((values < low) | (values > high)).any()):  # the run did not store its bounds
        return ms.mean_of(column, higher_is_better=higher_is_better)
    return spec
