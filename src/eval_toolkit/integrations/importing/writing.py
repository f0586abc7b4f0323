"""From a log to a run: the folder that score, compare, gate, report and view read."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eval_toolkit._hashing import canonical_json, sha256_file, sha256_text
from eval_toolkit._plain import plain, whole_text
from eval_toolkit._redaction import redact_secrets
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE
from eval_toolkit.integrations.importing.checking import Checked
from eval_toolkit.integrations.importing.logs import Log
from eval_toolkit.integrations.importing.measured import SEED, by_slice
from eval_toolkit.integrations.importing.stated import cell_names, stated_cells
from eval_toolkit.integrations.importing.tables import log_tables, usage_of
from eval_toolkit.manifest import build_manifest
from eval_toolkit.scorecards import MetricResult, Records, Scorecard

__all__ = ["Read", "folder_names", "prepared_log", "prepared_stated"]

_UNSAFE = re.compile(r"[^\w.+=-]+")
_LONGEST_NAME, _MOST_BYTES = 120, 200


@dataclass(frozen=True, eq=False)
class Read:
    """A log that was read, measured and checked; nothing of it is written."""

    log: Log
    checked: tuple[Checked, ...]
    notes: tuple[str, ...]
    """Of the reader and of the check."""
    records: Records | None = None
    card: Scorecard | None = None

    @property
    def cells(self) -> dict[str, MetricResult]:
        """By metric: what the samples make, and of the rest what the log states."""
        measured = {} if self.card is None else dict(self.card)
        log = self.log
        told = stated_cells(log.stated, log.direction, binary=log.binary, n_planned=log.n_planned)
        known = {name for name, cell in measured.items() if cell.value is not None}
        known |= {  # a mean of a column that is measured is checked, not shown again
            name
            for name, one in zip(cell_names(log.stated), log.stated, strict=True)
            if one.aggregation == "mean" and one.column in known
        }
        return measured | {name: cell for name, cell in told.items() if name not in known}


def folder_names(logs: Sequence[Log]) -> list[str]:
    """Return a folder's name for each log: task and model, safe on every disk, each once.

    Examples
    --------
    >>> folder_names([Log(tool="t", task="mmlu/law", model="a/b")] * 2)
    ['mmlu_law-a_b', 'mmlu_law-a_b-2']
    """
    taken: dict[str, int] = {}
    names = []
    for log in logs:
        told = f"{log.task}-{log.model}"
        if log.kind == "rows" and log.files:
            told = f"{Path(log.files[0]).stem}-{log.model}"
        name = _UNSAFE.sub("_", told).strip("._")[:_LONGEST_NAME]
        name = name.encode()[:_MOST_BYTES].decode(errors="ignore") or "imported"
        key = name.casefold()  # some disks take names that differ in case for one
        taken[key] = taken.get(key, 0) + 1
        while taken[key] > 1 and f"{key}-{taken[key]}" in taken:
            taken[key] += 1
        names.append(name if taken[key] == 1 else f"{name}-{taken[key]}")
        taken.setdefault(names[-1].casefold(), 1)
    return names


def prepared_log(read: Read, folder: str | Path) -> dict[str, Any]:
    """Return what `write_run` takes to write a log with samples as a run.

    Parameters
    ----------
    read : Read
        With records; one without is prepared as `prepared_stated` does.
    folder : path
        Of the run; its name is the run's.

    Returns
    -------
    dict
        Keywords: results, manifest, records and tables.
    """
    log, records, card = read.log, read.records, read.card
    if records is None or card is None:
        return prepared_stated([read], folder)
    run_id = Path(folder).resolve().name
    config = _config(log, records, read)
    results = by_slice(log, records, card)
    if log.kind != "rows":
        block = results[log.task]["by_scorer"][log.model]
        block |= {
            name: cell.to_dict()
            for name, cell in read.cells.items()
            if name not in card or cell is not card[name]
        }
    tables, about = log_tables(log, records)
    manifest = {
        **_manifest(run_id, config, [read]),
        "kind": log.kind,
        **({"task": config["task"], "models": [config["model"]]} if log.kind == "task" else {}),
        **({"system": config["system"]} if log.kind == "rollout" else {}),
        "item_set_hash": _item_set_hash(records),
        "counts": _counts(log, records),
        "usage": usage_of(log.samples),
        **about,
    }
    return {
        "results": _results(run_id, config, results),
        "manifest": manifest,
        "records": {(log.task, log.model): records},
        "tables": tables,
    }


def prepared_stated(reads: Sequence[Read], folder: str | Path) -> dict[str, Any]:
    """Return what `write_run` takes to write logs of results alone as one run.

    Parameters
    ----------
    reads : sequence of Read
        At least one; each task and model once.
    folder : path
        Of the run.

    Returns
    -------
    dict
        Keywords: a slice per task, cells as they are stated. Without records the run can be read
        and gated, and not paired with another.
    """
    run_id = Path(folder).resolve().name
    first = reads[0].log
    entries: dict[str, Any] = {}
    for read in reads:
        log = read.log
        cells = {name: cell.to_dict() for name, cell in read.cells.items()}
        entry = entries.setdefault(log.task, {"by_scorer": {}})
        entry["by_scorer"][log.model] = cells
        n = next((one.n for one in log.stated if one.n is not None), log.n_planned)
        if n is not None:
            entry["n"] = n
    tasks = sorted(entries)
    config = {
        "kind": "task",
        "task": {"name": tasks[0] if len(tasks) == 1 else f"{len(tasks)} tasks"},
        "model": {"name": first.model, "description": {"name": first.model}},
        "seed": SEED,
        "confidence": DEFAULT_CONFIDENCE,
        "imported": _imported(reads),
    }
    notes = ["the log holds results without samples: intervals are made of its standard errors"]
    manifest = {
        **_manifest(run_id, config, reads, notes),
        "kind": "task",
        "task": config["task"],
        "models": [config["model"]],
    }
    return {"results": _results(run_id, config, entries), "manifest": manifest}


def _results(run_id: str, config: Mapping[str, Any], entries: Mapping[str, Any]) -> dict[str, Any]:
    return {"schema_version": "v1", "run_id": run_id, "config": config, "by_slice": entries}


def _manifest(
    run_id: str, config: Mapping[str, Any], reads: Sequence[Read], notes: Iterable[str] = ()
) -> dict[str, Any]:
    files = list(dict.fromkeys(str(name) for read in reads for name in read.log.files))
    made = build_manifest(
        run_id=run_id,
        config=config,
        data_files={Path(name).name: name for name in files if Path(name).is_file()},
        seeds={"run": SEED},
    )
    said = dict.fromkeys([*notes, *(note for read in reads for note in read.notes)])
    versions = {name: version for read in reads for name, version in _versions(read.log).items()}
    return {
        **replace(made, versioned_objects=versions).to_dict(),
        "notes": [whole_text(note) for note in said],
    }


def _versions(log: Log) -> dict[str, str]:
    """Return the version of a task where the log has one, under a name of the tool's own.

    Runs of two tools are not held to one version; two runs of one tool are.
    """
    told = log.settings.get("task_version")
    return {} if told is None else {f"grader:{log.tool}:{log.task}": str(told)}


def _config(log: Log, records: Records, read: Read) -> dict[str, Any]:
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


def _imported(reads: Sequence[Read]) -> dict[str, Any]:
    """Return where the numbers come from, and how they were held to their own samples."""
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


def _item_set_hash(records: Records) -> str:
    units = zip(records.unit_id.tolist(), records.content_hash.tolist(), strict=True)
    return sha256_text(canonical_json(sorted(set(units))))
