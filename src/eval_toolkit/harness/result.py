"""Results of an evaluation in their stored form: `RunResult`."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from eval_toolkit._internal.display import Table, Tabled
from eval_toolkit.artifacts import sanitize_for_json
from eval_toolkit.errors import ArtifactError, InvalidInputError, InvalidTypeError
from eval_toolkit.runs.results import Results
from eval_toolkit.scorecards import MetricResult, Records
from eval_toolkit.scorecards.parts import WHOLE

_SIDE = ("records", "versions", "leakage_report", "notes")
"""Fields stored in separate files of a run folder."""


VIEWS = ("by_fold", "fold_summary")
"""Keys of `to_dict` that are derived from the slices and therefore not stored in a run folder."""


def checked_run_id(run_id: Any) -> None:
    """Raise an error if the name of a run is invalid."""
    if not isinstance(run_id, str) or not run_id:
        raise InvalidInputError(f"`run_id` is {run_id!r}; it must be a non-empty string")


@dataclass(frozen=True, slots=True, repr=False)
class RunResult(Tabled):
    """Results by slice, scorer and metric, with provenance and records.

    All fields included in `to_dict` contain only JSON types.

    Examples
    --------
    >>> result = RunResult("demo", None, {"seed": 42}, by_slice={"test": {"n": 2}})
    >>> RunResult.from_dict(result.to_dict()) == result
    True
    """

    run_id: str
    git_sha: str | None
    config: Mapping[str, Any]
    by_slice: Mapping[str, Any] = field(default_factory=dict)
    """Results by slice: n, n_positive, by_scorer, paired_diffs, and ``parts`` if there are any.
    After cross-validation, each fold is a part, and the slice itself contains the mean over folds.
    """
    by_fold: Mapping[str, Any] = field(default_factory=dict)
    """Seed, fold, n_train and ``by_slice`` of each fold, by part, such as ``fold=0``."""
    fold_summary: Mapping[str, Any] = field(default_factory=dict)
    """Means over folds with intervals, by split, scorer and metric; empty without folds."""
    folds: Mapping[str, Any] = field(default_factory=dict)
    """Seed, fold and n_train of each fold, by part, such as ``fold=0``."""
    claim_report: Mapping[str, Any] = field(default_factory=dict)
    prediction_artifacts: list[Any] = field(default_factory=list)
    evidence_axes: list[Any] = field(default_factory=list)
    pairing_metadata: Mapping[str, Any] = field(default_factory=dict)
    aggregate_evidence: Mapping[str, Any] = field(default_factory=dict)
    threshold_policy: Mapping[str, Any] = field(default_factory=dict)
    """Provenance of every selected threshold."""
    schema_version: str = "v1"
    records: Mapping[tuple[str, str], Records] = field(
        default_factory=dict, compare=False, repr=False
    )
    """Records by (slice, scorer); not part of `to_dict`."""
    versions: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """Versions by ``scorer:<name>``, ``metric:<name>`` …, for the manifest."""
    leakage_report: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    notes: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """Notes on inferred settings and on suspicious data."""

    def __post_init__(self) -> None:
        checked_run_id(self.run_id)
        if self.by_fold and not self.folds:  # format of eval-toolkit 1
            given = {name: getattr(self, name) for name in ("by_slice", *VIEWS)}
            self._set(Results.of(given).to_dict())
        if self.folds:
            self._set({"by_fold": _by_fold(self), "fold_summary": _fold_summary(self.cells)})
        self._set({name: sanitize_for_json(getattr(self, name)) for name in _payload_fields()})

    def _set(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def to_dict(self) -> dict[str, Any]:
        """Return a dict that is valid strict JSON; non-finite numbers become skipped cells."""
        payload = {name: getattr(self, name) for name in _payload_fields()}
        clean: dict[str, Any] = sanitize_for_json(payload)  # a copy: results are immutable
        return clean

    @property
    def cells(self) -> Results:
        """Cells of every slice, part, scorer and metric, keyed by address."""
        return Results(self.by_slice, self.folds)

    def __getitem__(self, address: str) -> MetricResult:
        """Return the cell at an address, like `Run.__getitem__`."""
        return self.cells[address]

    __iter__ = None  # cells have addresses, not positions

    def rows(self) -> list[dict[str, Any]]:
        """Return one flat dict per cell, like `Run.rows`."""
        return self.cells.rows()

    def _as_table(self) -> Table:
        table = self.cells._as_table()
        return replace(table, notes=[*self.notes, *table.notes])

    @classmethod
    def from_dict(cls, payload: Mapping[str, Any]) -> "RunResult":
        """Load a result from its stored payload, without the records.

        Fields unknown to this version are ignored.

        Raises
        ------
        InvalidTypeError
            If the payload is not a mapping.
        ArtifactError
            If ``run_id`` or ``config`` is missing, or the schema version is unknown.
        """
        if not isinstance(payload, Mapping):
            raise InvalidTypeError(f"`payload` is a {type(payload).__name__}; it must be a dict")
        for name in ("run_id", "config"):
            if name not in payload:
                raise ArtifactError(f"the payload has no {name!r}; it is not a stored result")
        version = payload.get("schema_version", "v1")
        if version != "v1":
            raise ArtifactError(
                f"schema_version is {version!r}; this version of eval-toolkit reads only 'v1'"
            )
        kept = (name for name in _payload_fields() if name in payload and name not in VIEWS)
        given = {name: payload[name] for name in kept}
        return cls(**{"git_sha": None, **given, **Results.of(payload).to_dict()})


def _by_fold(result: RunResult) -> dict[str, Any]:
    """Return the results of each fold, by slice."""
    return {
        fold: {
            **about,
            "by_slice": {
                name: _of_fold(entry["parts"], fold)
                for name, entry in result.by_slice.items()
                if fold in entry.get("parts", {})
            },
        }
        for fold, about in result.folds.items()
    }


def _fold_summary(cells: Results) -> dict[str, Any]:
    """Return the means over folds, by split, scorer and metric."""
    summary: dict[str, Any] = {}
    for found in cells:
        if found.part == WHOLE:
            of_scorer = summary.setdefault(found.slice, {}).setdefault(found.system, {})
            of_scorer[found.metric] = _mean(found.cell)
    return summary


def _of_fold(parts: Mapping[str, Any], fold: str) -> dict[str, Any]:
    """Return the results of a fold, including its parts."""
    head = f"{fold}&"
    inside = {name[len(head) :]: part for name, part in parts.items() if name.startswith(head)}
    return {**parts[fold], **({"parts": inside} if inside else {})}


def _mean(cell: MetricResult) -> dict[str, Any]:
    """Return a mean over folds in the format of ``fold_summary``."""
    details = {key: value for key, value in cell.details.items() if key != "over"}
    if cell.value is None:
        return {"skipped": cell.reason, **details}
    if cell.ci is None:
        return {"skipped": cell.reason, "mean": cell.value, **details}
    ends = {"ci_low": cell.ci.ci_low, "ci_high": cell.ci.ci_high}
    how = {"confidence": cell.ci.confidence, "method": cell.ci.method}
    reason = {"reason": cell.reason} if cell.reason else {}
    return {"mean": cell.value, **ends, **how, **details, **reason}


def _payload_fields() -> list[str]:
    return [item.name for item in fields(RunResult) if item.name not in _SIDE]


def with_claim_report(result: RunResult, report: Any) -> RunResult:
    """Return a copy of the result with a claim report.

    Parameters
    ----------
    result : RunResult
        Result of `evaluate`.
    report : ClaimReport or mapping
        Report of `evaluate_claims`, or its ``to_dict``.

    Returns
    -------
    RunResult
        Copy of the result with ``claim_report`` set.

    Raises
    ------
    InvalidTypeError
        If the report is not a mapping and has no ``to_dict``.

    Examples
    --------
    >>> result = RunResult("demo", None, {})
    >>> with_claim_report(result, {"claims": [], "has_failures": False}).claim_report
    {'claims': [], 'has_failures': False}
    """
    payload = report.to_dict() if hasattr(report, "to_dict") else report
    if not isinstance(payload, Mapping):
        raise InvalidTypeError(
            f"`report` is a {type(report).__name__}; it must be a ClaimReport or a dict"
        )
    return replace(result, claim_report=dict(payload))
