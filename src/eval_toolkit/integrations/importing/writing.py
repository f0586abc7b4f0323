"""Convert logs to stored runs."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eval_toolkit._internal.hashing import sha256_file
from eval_toolkit._internal.plain import plain, whole_text
from eval_toolkit._internal.redaction import redact_secrets
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE
from eval_toolkit.integrations.importing.logs import Log
from eval_toolkit.integrations.importing.measurement import SEED, by_slice
from eval_toolkit.integrations.importing.reported import cell_names, stated_cells
from eval_toolkit.integrations.importing.tables import log_tables, log_units, usage_of
from eval_toolkit.integrations.importing.verification import Checked
from eval_toolkit.runs.kinds import Graded, Kind
from eval_toolkit.runs.units import Unit
from eval_toolkit.scorecards import MetricResult, Records, Scorecard

_UNSAFE = re.compile(r"[^\w.+=-]+")
_LONGEST_NAME, _MOST_BYTES = 120, 200


@dataclass(frozen=True, eq=False)
class MeasuredLog:
    """A log that was read, measured and checked, but not yet written."""

    log: Log
    checked: tuple[Checked, ...]
    notes: tuple[str, ...]
    """Notes added by the reader and by the check."""
    records: Records | None = None
    card: Scorecard | None = None

    @property
    def cells(self) -> dict[str, MetricResult]:
        """Cells by metric: computed from the samples, otherwise as reported in the log."""
        measured = {} if self.card is None else dict(self.card)
        log = self.log
        told = stated_cells(log.stated, log.direction, binary=log.binary, n_planned=log.n_planned)
        known = {name for name, cell in measured.items() if cell.value is not None}
        known |= {  # reported means of measured columns are checked, not repeated
            name
            for name, one in zip(cell_names(log.stated), log.stated, strict=True)
            if one.aggregation == "mean" and one.column in known
        }
        lacks = {
            name: MetricResult(None, grade.status, grade.reason)
            for name, grade in log.absent.items()
        }
        stated = {name: cell for name, cell in told.items() if name not in known}
        return lacks | measured | stated


def folder_names(logs: Sequence[Log]) -> list[str]:
    """Return a portable and unique folder name for each log, built from task and model.

    Examples
    --------
    >>> folder_names([Log(tool="t", task="mmlu/law", model="a/b")] * 2)
    ['mmlu_law-a_b', 'mmlu_law-a_b-2']
    """
    taken: dict[str, int] = {}
    names = []
    for log in logs:
        told = "-".join(filter(None, (log.run, log.task, log.model)))
        if log.kind == "rows" and log.files and not log.run:
            told = f"{Path(log.files[0]).stem}-{log.model}"
        name = _UNSAFE.sub("_", told).strip("._")[:_LONGEST_NAME]
        name = name.encode()[:_MOST_BYTES].decode(errors="ignore") or "imported"
        key = name.casefold()  # some file systems ignore case
        taken[key] = taken.get(key, 0) + 1
        while taken[key] > 1 and f"{key}-{taken[key]}" in taken:
            taken[key] += 1
        names.append(name if taken[key] == 1 else f"{name}-{taken[key]}")
        taken.setdefault(names[-1].casefold(), 1)
    return names


@dataclass(frozen=True, eq=False)
class ImportedKind(Kind[Sequence[MeasuredLog]]):
    """Kind of evaluation for imported logs: one log with samples, or several with results only.

    Without samples there are no records: the run has one slice per task with the reported cells.
    Such a run can be read and gated, but not paired with another run.
    """

    reads: Sequence[MeasuredLog]
    """One log with records, or several without; each task and model occurs once."""

    asks = False

    @property
    def name(self) -> str:  # type: ignore[override]
        """Kind of the log, as in a native run."""
        return self._log.kind if self._records is not None else "task"

    @property
    def _log(self) -> Log:
        return self.reads[0].log

    @property
    def _records(self) -> Records | None:
        return self.reads[0].records

    @property
    def notes(self) -> tuple[str, ...]:  # type: ignore[override]
        """Notes added by the readers and by the checks."""
        alone = "the log has no samples: intervals are computed from the stated standard errors"
        said = [] if self._records is not None else [alone]
        said += [note for read in self.reads for note in read.notes]
        return tuple(whole_text(note) for note in dict.fromkeys(said))

    def config(self) -> Mapping[str, Any]:
        """Return the configuration of the imported evaluation, in the format of a native run."""
        if self._records is not None:
            return _config(self._log, self._records, self.reads[0])
        tasks, model = sorted({read.log.task for read in self.reads}), self._log.model
        return {
            "kind": "task",
            "task": {"name": tasks[0] if len(tasks) == 1 else f"{len(tasks)} tasks"},
            "model": {"name": model, "description": {"name": model}},
            "seed": SEED,
            "confidence": DEFAULT_CONFIDENCE,
            "imported": _imported(self.reads),
        }

    def units(self) -> Sequence[Unit]:
        """Return the items of the log, with the ids and hashes of its records."""
        records = self._records
        if records is None:
            return ()
        hashes = dict(zip(records.unit_id.tolist(), records.content_hash.tolist(), strict=True))
        known = (unit for unit in log_units(self._log) if unit.id in hashes)
        return [replace(unit, content_hash=hashes[unit.id]) for unit in known]

    def produce(self, context: Any) -> Sequence[MeasuredLog]:
        """Return the logs as read; no model is queried."""
        return self.reads

    def grade(self, attempts: Sequence[MeasuredLog]) -> Graded:
        """Return the records and cells of the log."""
        read, log, records = attempts[0], self._log, self._records
        if records is None or read.card is None:
            return Graded(subjects={}, cards={}, by_slice=_stated(attempts), n_errors=0)
        cells = by_slice(log, records, read.card)
        cells[log.task]["by_scorer"][log.model] |= {
            name: cell.to_dict()
            for name, cell in read.cells.items()
            if name not in read.card or cell is not read.card[name]
        }
        counts = _counts(log, records)
        subject = (log.task, log.model)
        return Graded(
            subjects={subject: records},
            cards={subject: read.card},
            by_slice=cells,
            n_errors=counts["n_errors"],
            counts=counts,
        )

    def manifest(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the files, the task versions, and the evaluated systems."""
        files = list(dict.fromkeys(str(name) for read in self.reads for name in read.log.files))
        versions = [item for read in self.reads for item in _versions(read.log).items()]
        who = {"system": config["system"]} if "system" in config else {}
        if "task" in config:
            who = {"task": config["task"], "models": [config["model"]]}
        return {
            "seeds": {"run": SEED},
            "data_files": {Path(name).name: name for name in files if Path(name).is_file()},
            "versioned_objects": dict(versions),
            **({} if self._records is None else {"usage": usage_of(self._log.samples)}),
            **who,
        }

    def tables(self, attempts: Sequence[MeasuredLog]) -> Mapping[str, Any]:
        """Return the tables of answers and turns."""
        return {} if self._records is None else log_tables(self._log)


def _stated(reads: Sequence[MeasuredLog]) -> dict[str, Any]:
    """Return the cells of logs without samples, by task."""
    entries: dict[str, Any] = {}
    for read in reads:
        log = read.log
        entry = entries.setdefault(log.task, {"by_scorer": {}})
        entry["by_scorer"][log.model] = {name: cell.to_dict() for name, cell in read.cells.items()}
        n = next((one.n for one in log.stated if one.n is not None), log.n_planned)
        if n is not None:
            entry["n"] = n
    return entries


def _versions(log: Log) -> dict[str, str]:
    """Return the version of each task that reports one, under a name specific to the tool.

    Versions are compared between runs of the same tool, not across tools.
    """
    told = log.settings.get("task_version")
    return {} if told is None else {f"grader:{log.tool}:{log.task}": str(told)}


def _config(log: Log, records: Records, read: MeasuredLog) -> dict[str, Any]:
    scored = any(sample.choices for sample in log.samples)
    attempts = max(Counter(records.unit_id.tolist()).values())
    shared = {
        "kind": log.kind,
        "seed": SEED,
        "on_error": "exclude",
        "confidence": DEFAULT_CONFIDENCE,
        "imported": _imported([read]),
    }
    model = {"name": log.model, "description": {"name": log.model}}
    if log.kind == "rollout":
        return {**shared, **_rollout_config(log, attempts)}
    if log.kind == "rows":
        return {**shared, "scores": [log.model], "by": list(records.slices)}
    return {
        **shared,
        "task": {
            "name": log.task,
            "version": str(log.settings.get("task_version", "")),
            "response_type": "loglikelihoods" if scored else "completion",
            "num_fewshot": log.settings.get("num_fewshot"),
        },
        "model": model,
        "attempts": attempts,
        "graders": {},
    }


def _rollout_config(log: Log, attempts: int) -> dict[str, Any]:
    depth = max((len(sample.turns) for sample in log.samples), default=0)
    return {
        "seeds": {"name": log.task, "n": len({sample.unit_id for sample in log.samples})},
        "system": {
            "kind": "imported",
            "tester": {"kind": "imported", "name": log.tool},
            "target": {"kind": "model", "name": log.model},
        },
        "depth": depth,
        "width": [1] * depth,
        "rollouts_per_seed": attempts,
        "scorers": {},
    }


def _imported(reads: Sequence[MeasuredLog]) -> dict[str, Any]:
    """Return the origin of the numbers, and the results of the checks against samples."""
    first = reads[0].log
    files = list(dict.fromkeys(str(name) for read in reads for name in read.log.files))
    told = {
        "tool": first.tool,
        "tool_version": first.tool_version,
        "files": [
            {"name": Path(name).name, "sha256": sha256_file(name)}
            for name in files
            if Path(name).is_file()
        ],
        "created": first.created,
        "settings": first.settings,
        "n_planned": first.n_planned if len(reads) == 1 else None,
        "checked": [
            {"task": read.log.task, "model": read.log.model, **one.to_dict()}
            for read in reads
            for one in read.checked
        ],
    }
    safe: dict[str, Any] = redact_secrets(plain(told, lambda value, place: str(value)))
    return safe


def _counts(log: Log, records: Records) -> dict[str, int]:
    failed = sum(sample.error is not None for sample in log.samples)
    n_errors = 0
    if records.status:
        states = zip(*(state.tolist() for state in records.status.values()), strict=True)
        n_errors = sum("error" in line for line in states)
    missing = max((log.n_planned or 0) - len(records), 0)
    return {
        "n_samples": len(set(records.unit_id.tolist())),
        "n_requests": len(log.samples),
        "n_failed_requests": failed,
        "n_errors": n_errors,
        **({"n_without_trace": missing} if missing else {}),
    }
