"""Read and check logs, then write either all of their runs or none."""

import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.hashing import sha256_file
from eval_toolkit._internal.tables import shown
from eval_toolkit.errors import ArtifactError, InvalidInputError, InvalidTypeError
from eval_toolkit.integrations.importing.detection import read_logs
from eval_toolkit.integrations.importing.logs import Log
from eval_toolkit.integrations.importing.measurement import log_card, log_records
from eval_toolkit.integrations.importing.options import Wanted
from eval_toolkit.integrations.importing.verification import Checked, check_log
from eval_toolkit.integrations.importing.writing import ImportedKind, MeasuredLog, folder_names
from eval_toolkit.runs import Run, drive
from eval_toolkit.runs.driver import store
from eval_toolkit.runs.folder import ARTIFACTS, MANIFEST
from eval_toolkit.scorecards import MetricResult, Records


@dataclass(frozen=True, eq=False, repr=False)
class Imported(Displayed):
    """Imported log, with the results of its checks and the run that was written.

    Examples
    --------
    >>> from eval_toolkit.integrations.importing.logs import LoggedSample
    >>> sample = LoggedSample(unit_id="1", values={"acc": 1.0})
    >>> found = measure_log(Log(tool="t", task="quiz", model="m", samples=[sample]))
    >>> found.run is None, found.cells["acc"].value
    (True, 1.0)
    """

    log: Log
    checked: Sequence[Checked]
    """Comparison of each reported number with the log's own samples."""
    cells: Mapping[str, MetricResult]
    """Cells by metric, with intervals; values without samples are as reported in the log."""
    notes: Sequence[str] = ()
    records: Records | None = None
    run: Run | None = None
    """Stored run; None if nothing was written. Logs of one model without samples share a run."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict, without the records."""
        return {
            "tool": self.log.tool,
            "tool_version": self.log.tool_version,
            "task": self.log.task,
            "model": self.log.model,
            "kind": self.log.kind,
            "files": [shown(name) for name in self.log.files],
            "n_samples": len(self.log.samples),
            "cells": {name: cell.to_dict() for name, cell in self.cells.items()},
            "checked": [one.to_dict() for one in self.checked],
            "notes": list(self.notes),
            "run": None if self.run is None else str(self.run.path),
        }


def measure_log(log: Log) -> Imported:
    """Measure a log and check it against its own samples, without writing anything.

    Parameters
    ----------
    log : Log
        Log as returned by a reader.

    Returns
    -------
    Imported
        Result without a run.

    Raises
    ------
    InvalidInputError
        If the log has neither samples nor reported numbers, or duplicate attempts at an item.

    Examples
    --------
    >>> from eval_toolkit.integrations.importing.logs import Stated
    >>> stated = [Stated(column="acc", name="acc", value=0.5, stderr=0.1)]
    >>> measure_log(Log(tool="lm-eval", task="arc", model="m", stated=stated)).checked[0].verdict
    'as stated: no samples'
    """
    return _shown(_read(log), None)


def import_logs(
    paths: str | Path | Iterable[str | Path],
    out: str | Path | None = None,
    *,
    wanted: Wanted | None = None,
    task: str | None = None,
    model: str | None = None,
    rename: Mapping[str, str] | None = None,
    higher_is_better: Mapping[str, bool] | None = None,
    overwrite: bool = False,
) -> list[Imported]:
    r"""Import logs of other tools as runs.

    Parameters
    ----------
    paths : path or iterable of paths
        Files and folders, as in `read_logs`.
    out : path, optional
        Target folder, with one run per task and model; by default nothing is written.
    wanted : Wanted, optional
        Data to import.
    task, model : str, optional
        New name of the task or model; allowed only if the logs have a single task or model.
    rename : mapping of str to str, optional
        New names of columns, e.g. to give the runs of two tools the same metric name.
    higher_is_better : mapping of str to bool, optional
        Whether higher is better, by column (after renaming). Takes precedence over the directions
        in the logs and those implied by names; see `metrics.directions.known_direction`.
    overwrite : bool, default False
        Whether to replace existing runs.

    Returns
    -------
    list of Imported
        One entry per log, in the order of the paths.

    Raises
    ------
    ArtifactError, InvalidInputError
        If a path cannot be read, or a run already exists. All logs are read and checked before
        anything is written, so nothing is written in this case.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.csv").write_text("id,correct\nq1,1\nq2,0\n")
    >>> done = import_logs(folder / "a.csv", folder / "runs", model="m")
    >>> done[0].run.run_id, done[0].cells["correct"].value
    ('a-m', 0.5)
    """
    given = [paths] if isinstance(paths, (str, Path)) else list(paths)
    if not given:
        raise InvalidInputError("`paths` is empty; pass at least one log")
    asked = replace(wanted or Wanted(), samples=out is not None, named=model is not None)
    logs = _renamed(_all_logs(given, asked), task, model, rename or {})
    logs = _directed(logs, higher_is_better or {})
    reads = [_read(log) for log in logs]
    if out is None:
        return [_shown(read, None) for read in reads]
    groups, folders = _folders(reads, Path(out), overwrite)
    kinds = [ImportedKind([reads[at] for at in together]) for together in groups]
    written = _written(Path(out), folders, kinds)
    runs = {at: run for together, run in zip(groups, written, strict=True) for at in together}
    return [_shown(read, runs[at]) for at, read in enumerate(reads)]


def _written(out: Path, folders: Sequence[Path], kinds: Sequence[ImportedKind]) -> list[Run]:
    """Write all runs to temporary folders first, so that either all of them are stored or none."""
    aside = out / f".importing-{secrets.token_hex(4)}"
    runs: list[Run] = []
    try:
        made = [
            (folder, kind, drive(kind, aside / folder.name, name=folder.name))
            for folder, kind in zip(folders, kinds, strict=True)
        ]
        for folder, kind, done in made:
            if folder.exists():
                done = store(kind, done, folder, kind.reads, overwrite=True)
            else:
                (aside / folder.name).rename(folder)
            assert done.run is not None  # noqa: S101 - it is stored
            runs.append(replace(done.run, path=folder))
    except OSError as error:
        raise ArtifactError(
            f"{out}: the runs could not be written: {error.strerror or error}"
        ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return runs


def _all_logs(paths: Sequence[str | Path], wanted: Wanted) -> list[Log]:
    """Return the logs at all paths without duplicates; results are read with their samples."""
    logs: list[Log] = []
    seen: set[tuple[str, str, frozenset[Path]]] = set()
    for path in paths:
        for log in read_logs(path, wanted):
            key = (log.task, log.model, frozenset(Path(name).resolve() for name in log.files))
            if key in seen:
                continue
            seen.add(key)
            at = next((at for at, one in enumerate(logs) if _is_copy(one, log)), None)
            if at is None:
                logs.append(log)
            else:
                said = f"{log.files[0]} is a copy of {logs[at].files[0]} and was skipped"
                logs[at] = replace(logs[at], notes=(*logs[at].notes, said))
    return logs


def _is_copy(one: Log, other: Log) -> bool:
    """Return whether two logs come from files with identical bytes."""
    if (one.tool, one.task, one.model) != (other.tool, other.task, other.model):
        return False
    files = [*one.files, *other.files]
    if not one.files or len(one.files) != len(other.files) or not all(map(os.path.isfile, files)):
        return False
    # compare sizes first, to avoid hashing most files
    measures: tuple[Callable[[str], Any], ...] = (os.path.getsize, sha256_file)
    return all(sorted(map(of, one.files)) == sorted(map(of, other.files)) for of in measures)


def _renamed(
    logs: Sequence[Log], task: str | None, model: str | None, rename: Mapping[str, str]
) -> list[Log]:
    if not isinstance(rename, Mapping):
        raise InvalidTypeError(f"`rename` is {rename!r}; it must map old names to new ones")
    tasks = sorted({log.task for log in logs})
    if task is not None and len(tasks) > 1:
        raise InvalidInputError(
            f"`task` is {task!r}, but the logs have {len(tasks)} tasks: "
            f"{', '.join(tasks)[:200]}; import them separately"
        )
    models = sorted({log.model for log in logs})
    if model is not None and len(models) > 1:
        raise InvalidInputError(
            f"`model` is {model!r}, but the logs have {len(models)} models: "
            f"{', '.join(models)[:200]}; import them separately"
        )
    columns = {name for log in logs for name in _columns(log)}
    unknown = sorted(set(rename) - columns)
    if unknown:
        raise InvalidInputError(
            f"`rename`: no column {unknown[0]!r}; the columns are {', '.join(sorted(columns))[:300]}"
        )
    return [
        _with_columns(replace(log, task=task or log.task, model=model or log.model), rename)
        for log in logs
    ]


def _directed(logs: Sequence[Log], higher_is_better: Mapping[str, bool]) -> list[Log]:
    """Return the logs with the column directions given by the caller."""
    if not isinstance(higher_is_better, Mapping):
        raise InvalidTypeError(
            f"`higher_is_better` is {higher_is_better!r}; it must map columns to True or False"
        )
    columns = {name for log in logs for name in _columns(log)}
    unknown = sorted(set(higher_is_better) - columns)
    if unknown:
        raise InvalidInputError(
            f"`higher_is_better`: no column {unknown[0]!r}; the columns are "
            f"{', '.join(sorted(columns))[:300]}"
        )
    given = dict(higher_is_better)
    return [replace(log, higher_is_better={**log.higher_is_better, **given}) for log in logs]


def _columns(log: Log) -> list[str]:
    of_samples = log.samples[0].values if log.samples else ()
    return list(dict.fromkeys([*(one.column for one in log.stated), *of_samples]))


def _with_columns(log: Log, rename: Mapping[str, str]) -> Log:
    changed = {old: new for old, new in rename.items() if old in _columns(log)}
    if not changed:
        return log
    after = [changed.get(name, name) for name in _columns(log)]
    twice = sorted({name for name in after if after.count(name) > 1})
    if twice:
        raise InvalidInputError(f"`rename` gives two columns of {log.task!r} the name {twice[0]!r}")
    samples = [
        replace(
            sample,
            values={changed.get(name, name): value for name, value in sample.values.items()},
        )
        for sample in log.samples
    ]
    stated = [replace(one, column=changed.get(one.column, one.column)) for one in log.stated]
    return replace(
        log,
        samples=samples,
        stated=stated,
        higher_is_better={changed.get(n, n): up for n, up in log.higher_is_better.items()},
        binary=frozenset(changed.get(name, name) for name in log.binary),
    )


def _read(log: Log) -> MeasuredLog:
    """Measure and check a log."""
    if not log.samples:
        if not log.stated and not log.absent:
            where = log.files[0] if log.files else log.tool
            raise InvalidInputError(f"{where}: {log.task}: neither samples nor results to import")
        checked, notes = check_log(log, None, {})
        return MeasuredLog(log, tuple(checked), (*log.notes, *notes))
    records = log_records(log)
    card = log_card(log, records)
    checked, notes = check_log(log, records, card)
    return MeasuredLog(
        log, tuple(checked), tuple(dict.fromkeys((*log.notes, *notes))), records, card
    )


def _shown(read: MeasuredLog, run: Run | None) -> Imported:
    return Imported(read.log, read.checked, read.cells, read.notes, read.records, run)


def _folders(
    reads: Sequence[MeasuredLog], out: Path, overwrite: bool
) -> tuple[list[list[int]], list[Path]]:
    """Return the logs of each run: a single log, or all logs of a model without samples."""
    groups: list[list[int]] = []
    alone: dict[tuple[str, ...], list[int]] = {}
    for at, read in enumerate(reads):
        if read.records is not None:
            groups.append([at])
            continue
        key = (read.log.tool, read.log.model, *read.log.files[:1])
        tasks = {reads[other].log.task for other in alone.get(key, [])}
        if key not in alone or read.log.task in tasks:
            alone[key] = [at]
            groups.append(alone[key])
        else:
            alone[key].append(at)
    heads = []
    for together in groups:
        log = reads[together[0]].log
        heads.append(log if len(together) == 1 else replace(log, task=_together(log), run=""))
    folders = [out / name for name in folder_names(heads)]
    for folder in folders:
        if folder.exists() and not folder.is_dir():
            raise ArtifactError(f"{folder} is a file; a run needs a folder")
        there = [name for name in (MANIFEST, *ARTIFACTS) if (folder / name).exists()]
        if there and not overwrite:
            raise ArtifactError(
                f"{folder}: already contains a run; pass overwrite=True to replace it"
            )
    return groups, folders


def _together(log: Log) -> str:
    return log.run or (Path(log.files[0]).stem if log.files else "results")
