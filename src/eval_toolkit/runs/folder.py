"""Read run folders, checking that they are complete and unmodified."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from eval_toolkit._internal import tables
from eval_toolkit._internal.display import Table, Tabled
from eval_toolkit._internal.files import malformed, read_regular
from eval_toolkit._internal.hashing import sha256_file
from eval_toolkit.artifacts import json_bytes
from eval_toolkit.artifacts.remote import is_remote, local_path
from eval_toolkit.artifacts.strict_json import parse_bytes
from eval_toolkit.errors import ArtifactError, EvalToolkitError
from eval_toolkit.manifest import seal_manifest
from eval_toolkit.runs.legacy_results import parts_of_records
from eval_toolkit.runs.lock import LOCK, lock_holder
from eval_toolkit.runs.manifest_checks import manifest_problem, results_problem
from eval_toolkit.runs.stopped import why_stopped
from eval_toolkit.runs.table import Layout, from_table, units_of
from eval_toolkit.scorecards import MetricResult, Records
from eval_toolkit.scorecards.parts import WHOLE

if TYPE_CHECKING:
    from eval_toolkit.runs.answers import AnswersTable
    from eval_toolkit.runs.inputs import Inputs
    from eval_toolkit.runs.results import Results
    from eval_toolkit.runs.stored_units import StoredUnits

MANIFEST = "manifest.json"
RESULTS = "results.json"
RESULTS_FULL = "results_full.json"
RECORDS = "records.parquet"
TURNS = "turns.parquet"
"""Table of conversations, with one row per turn."""
ARTIFACTS = (RESULTS, RESULTS_FULL, RECORDS)
"""Files that `write_run` writes in addition to the manifest."""


class _RunningError(ArtifactError):
    """Raised if another process is writing the run."""


class _NotARunError(ArtifactError):
    """Raised if the folder is not a run."""


@dataclass(frozen=True, eq=False, repr=False)
class Run(Tabled):
    """Finished run on disk, as opened by `Run.open`.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import write_run
    >>> results = {"schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {}}
    >>> _ = write_run(tempfile.mkdtemp() + "/r1", results=results, manifest={"run_id": "r1"})
    >>> Run.open(_.path).results == results
    True
    """

    path: Path
    manifest: dict[str, Any]
    verify: bool = field(default=True)

    @classmethod
    def open(cls, path: str | Path, *, verify: bool = True) -> Run:
        """Open a finished run; reject it if it is incomplete or was modified.

        Parameters
        ----------
        path : path or address
            Folder of the run, or its ``manifest.json``. A URL supported by fsspec
            (``s3://bucket/runs/r7``) is copied to a temporary folder.
        verify : bool, default True
            Whether to compare every file with its hash in the manifest.

        Returns
        -------
        Run
            Opened run, whose results and records are read on demand.

        Raises
        ------
        ArtifactError
            If the folder is not a run, or the run is incomplete or was modified.
        MissingExtraError
            If fsspec or the package for this type of address is not installed.
        """
        if isinstance(path, str) and is_remote(path):
            from eval_toolkit.runs.remote import private_copy  # imports this module

            return cls.open(private_copy(path, verify=verify), verify=verify)
        folder = _folder(path)
        return cls(folder, _checked_manifest(folder, verify=verify), verify)

    def __repr__(self) -> str:
        head = f"Run({self.run_id!r}, {str(self.path)!r})"
        try:
            return f"{head}\n{self}"
        except EvalToolkitError:  # results that cannot be read
            return head

    @property
    def run_id(self) -> str:
        """Name of the run."""
        return str(self.manifest["run_id"])

    @property
    def kind(self) -> str:
        """Kind of evaluation: "rows", "task", "rollout", or a custom kind."""
        return kind_of(self.manifest)

    @cached_property
    def results(self) -> dict[str, Any]:
        """Contents of ``results.json``."""
        payload: dict[str, Any] = self._json(RESULTS)
        problem = results_problem(payload)
        if problem:  # possible despite valid hashes
            raise ArtifactError(f"{self.path / RESULTS}: {problem}")
        return payload

    @cached_property
    def results_full(self) -> dict[str, Any] | None:
        """Contents of ``results_full.json``, or None."""
        return self._json(RESULTS_FULL) if RESULTS_FULL in self.manifest["artifacts"] else None

    @cached_property
    def units(self) -> StoredUnits | None:
        """Evaluated units: inputs, references, groups and parts; None if none are stored.

        If there is no `units.parquet`, the units are read from legacy tables and from the records.
        """
        from eval_toolkit.runs.stored_units import stored_units, unit_files, units_of_records

        artifacts = self.manifest["artifacts"]
        if self.verify:
            for name in unit_files(artifacts):
                _check_artifact(self.path, name, artifacts[name])
        known = None
        if self._layout is not None:
            slices = dict.fromkeys(name for name, _ in self.subjects)
            known = units_of_records(self.path / RECORDS, self._layout, slices)
        return stored_units(self.path, self.manifest, records=known)

    @cached_property
    def inputs(self) -> Inputs | None:
        """Stored inputs of the rows; None if no inputs are stored."""
        from eval_toolkit.runs.inputs import Inputs

        units = self.units
        return None if units is None or "input" not in units.columns else Inputs(units)

    def _json(self, name: str) -> Any:
        data = read_regular(self.path / name)
        if self.verify:
            _same_hash(name, hashlib.sha256(data).hexdigest(), self.manifest["artifacts"][name])
        return parse_bytes(data, self.path / name)

    @cached_property
    def cells(self) -> Results:
        """Cells of every slice, part, system and metric, with lookup by address."""
        from eval_toolkit.runs.results import Results

        columns = {
            subject["slice"]: subject["parts"]
            for subject in (() if self._layout is None else self._layout.subjects)
        }
        return Results.of(self.results, columns)

    def __getitem__(self, address: str) -> MetricResult:
        """Return the cell at an address, such as ``exact_match @ subject=Africa / model-b``.

        Raises
        ------
        MissingColumnError
            If the cell does not exist (also a KeyError); the message suggests a similar name.
        InvalidInputError
            If the string is not an address, or the address is ambiguous.
        """
        return self.cells[address]

    __iter__ = None  # addresses are not integer indices

    @property
    def subjects(self) -> list[tuple[str, str]]:
        """Pairs (slice, scorer) with records; a slice's records include those of its parts."""
        if self._layout is None:
            return []
        stored = [(subject["slice"], subject["scorer"]) for subject in self._layout.subjects]
        if not any("=" in name for name, _ in stored):
            return stored
        parts = {*(self.results.get("by_slice") or {})} - {*self.cells.slices}
        return [subject for subject in stored if subject[0] not in parts]

    @property
    def only_subject(self) -> tuple[str, str]:
        """The (slice, scorer) pair of a task run; raises `ArtifactError` if there are several."""
        subjects = self.subjects
        if len(subjects) != 1:
            raise ArtifactError(
                f"{self.path}: a task run has records for one slice and system, this one for "
                f"{len(subjects)}"
            )
        return subjects[0]

    @cached_property
    def _layout(self) -> Layout | None:
        described = self.manifest["artifacts"].get(RECORDS)
        if described is None:
            return None
        return Layout.from_dict(described, self.path / MANIFEST)

    @cached_property
    def _table(self) -> dict[str, NDArray[Any]]:
        if self._layout is None:
            raise ArtifactError(f"{self.path}: the run was written without records")
        if self.verify:  # again: the run may have been opened long ago
            _check_artifact(self.path, RECORDS, self.manifest["artifacts"][RECORDS])
        return tables.read_table(
            self.path / RECORDS, texts=self._layout.texts, columns=self._layout.numbers
        )

    def records(self, slice_name: str, scorer: str, part: str = WHOLE) -> Records:
        """Return the records of one scorer on one slice, or on a part of it.

        Parameters
        ----------
        slice_name, scorer : str
            One of the pairs in `subjects`.
        part : str, default "all"
            Part whose units are returned, such as ``language=de``.

        Returns
        -------
        Records
            Records as written.

        Raises
        ------
        MissingColumnError
            If the records do not exist (also a KeyError); the message lists the available ones.
        ArtifactError
            If the run has no records, or its records were modified.
        """
        table = self._table
        with malformed(self.path / RECORDS, "table", error=ArtifactError):
            found = from_table(table, self._layout or Layout([], {}, {}), slice_name, scorer)
        whole = replace(found, slices=parts_of_records(found.slices))
        return whole if part == WHOLE else whole.take(units_of(whole, part))

    def answers(self) -> AnswersTable:
        """Return answers, questions, references and grades; see `runs.answers_table`."""
        from eval_toolkit.runs.answers import answers_table  # imports this module

        return answers_table(self)

    def rows(self) -> list[dict[str, Any]]:
        """Return one flat dict per cell: location, value, interval and counts."""
        return self.cells.rows()

    def to_dict(self) -> dict[str, Any]:
        """Return the run's name, folder and cells as a JSON-serialisable dict."""
        return {"run_id": self.run_id, "path": str(self.path), "cells": self.rows()}

    def _as_table(self) -> Table:
        return self.cells._as_table()

    def table(self, name: str) -> dict[str, NDArray[Any]]:
        """Read another table of the run, such as ``responses.parquet``.

        Parameters
        ----------
        name : str
            Name of the file.

        Returns
        -------
        dict of str to ndarray
            Columns as written; strings have dtype object, with None for missing values.

        Raises
        ------
        ArtifactError
            If the table does not exist, or it was modified.
        """
        described = self.manifest["artifacts"].get(name, {})
        if "texts" not in described or "numbers" not in described:
            raise ArtifactError(f"{self.path}: the run was written without {name}")
        if self.verify:
            _check_artifact(self.path, name, described)
        read = tables.read_table(
            self.path / name, texts=described["texts"], columns=described["numbers"]
        )
        return {column: read[column] for column in (*described["texts"], *described["numbers"])}


def kind_of(manifest: Mapping[str, Any]) -> str:
    """Return the kind of evaluation stated in a manifest; by default, "rows".

    Examples
    --------
    >>> kind_of({"kind": "task"}), kind_of({"config": {"command": "score"}})
    ('task', 'rows')
    """
    config = manifest.get("config")
    found = manifest.get("kind") or (config.get("kind") if isinstance(config, Mapping) else None)
    return str(found or "rows")


def _folder(path: str | Path) -> Path:
    folder = local_path(path) if isinstance(path, str) else Path(path)
    return folder.parent if folder.name == MANIFEST else folder


def _checked_manifest(
    folder: Path, *, verify: bool, names: Collection[str] | None = None
) -> dict[str, Any]:
    """Return the manifest of a finished run after verifying some or all of its files."""
    manifest, data = _manifest(folder)
    if manifest["status"] != "complete":
        raise _unfinished(folder)
    if verify and (seal_manifest(manifest) != manifest or json_bytes(manifest) != data):
        raise ArtifactError(f"{folder}: {MANIFEST} was altered after the run was written")
    artifacts = manifest.get("artifacts")
    if not isinstance(artifacts, Mapping) or RESULTS not in artifacts:
        raise ArtifactError(f"{folder}: {MANIFEST} does not list {RESULTS}")
    problem = manifest_problem(manifest)
    if problem:  # possible despite valid hashes
        raise ArtifactError(f"{folder}: {MANIFEST}: {problem}")
    for name, described in artifacts.items():
        _check_described(folder, name, described)
    if verify:
        for name, described in artifacts.items():
            if names is None or name in names:
                _check_artifact(folder, name, described)
    return manifest


def alteration(path: str | Path, names: Collection[str] | None = None) -> str:
    """Describe how a finished run differs from its manifest; return "" if it does not.

    The manifest and the files ``names`` are checked; by default, all files.
    """
    folder = _folder(path)
    try:
        _checked_manifest(folder, verify=True, names=names)
    except ArtifactError as error:
        return str(error).replace(f"{folder}/", "").removeprefix(f"{folder}: ")
    return ""


def _unfinished(folder: Path) -> ArtifactError:
    holder = lock_holder(folder)
    if holder:
        return _RunningError(f"{folder}: the run is being written ({holder})")
    why = why_stopped(folder) or "the command that wrote it did not finish"
    return ArtifactError(f"{folder}: the run is incomplete: {why}")


def _manifest(folder: Path) -> tuple[dict[str, Any], bytes]:
    """Return the manifest and its bytes; raise an error if it is not the manifest of a run."""
    if not folder.is_dir():
        raise _NotARunError(f"{folder}: no such folder")
    path = folder / MANIFEST
    if not path.is_file():
        if (folder / LOCK).exists():
            raise _unfinished(folder)
        if any((folder / name).exists() for name in ARTIFACTS):
            raise ArtifactError(f"{folder}: the run is incomplete: there is no {MANIFEST}")
        raise _NotARunError(f"{folder}: not a run: there is no {MANIFEST}")
    data = read_regular(path)
    manifest = parse_bytes(data, path)
    if not isinstance(manifest, dict) or "run_id" not in manifest:
        raise _NotARunError(f"{folder}: not a run: {MANIFEST} has no run_id")
    if manifest.get("status") not in ("running", "complete"):
        raise ArtifactError(
            f"{folder}: the run is incomplete: the status in {MANIFEST} is neither running nor "
            "complete, so write_run did not write it. To convert a run from eval-toolkit "
            f"1, use `eval-toolkit import {folder} --out runs`"
        )
    return manifest, data


def run_head(path: str | Path) -> tuple[Path, dict[str, Any]]:
    """Return a run's folder and its current manifest; {} if there is none."""
    folder = _folder(path)
    try:
        return folder, _manifest(folder)[0]
    except ArtifactError as error:
        if isinstance(error, _NotARunError) or (folder / MANIFEST).is_file():
            raise
        return folder, {}


def _check_described(folder: Path, name: str, described: Any) -> None:
    if Path(name).name != name or not isinstance(described, Mapping):
        raise ArtifactError(f"{folder}: {MANIFEST} lists {name!r}, which is not a file of a run")
    for columns in (described.get("texts", []), described.get("numbers", [])):
        if not isinstance(columns, list) or not all(isinstance(one, str) for one in columns):
            raise ArtifactError(f"{folder}: {MANIFEST}: the column names of {name} must be strings")


def _check_artifact(folder: Path, name: str, described: Mapping[str, Any]) -> None:
    path = folder / name
    if not path.is_file():
        raise ArtifactError(f"{folder}: {name} is missing")
    _same_hash(str(path), sha256_file(path), described)


def _same_hash(name: str, found: str, described: Mapping[str, Any]) -> None:
    if found != described.get("sha256"):
        raise ArtifactError(
            f"{name}: the file has changed since the run was written (its sha256 is {found[:12]}…, "
            f"not {str(described.get('sha256'))[:12]}…)"
        )


def run_state(path: str | Path) -> str:
    """Return the state of a run: "complete", "running", "incomplete: REASON" or "not a run".

    Parameters
    ----------
    path : path
        Folder to inspect.

    Returns
    -------
    str
        State of the run, after verifying every file; "complete" means that `Run.open` will succeed.

    Examples
    --------
    >>> import tempfile
    >>> run_state(tempfile.mkdtemp())
    'not a run'
    """
    folder = _folder(path)
    try:
        _checked_manifest(folder, verify=True)
    except _RunningError:
        return "running"
    except _NotARunError:
        return "not a run"
    except ArtifactError as error:
        why = str(error).removeprefix(f"{folder}: ").removeprefix("the run is incomplete: ")
        return f"incomplete: {why}"
    return "complete"


def find_runs(folder: str | Path) -> list[Path]:
    """Return the run folders below a folder, sorted by path, in any state.

    Parameters
    ----------
    folder : path
        Folder to search recursively; hidden folders and folders inside runs are skipped.

    Returns
    -------
    list of Path
        Run folders in any state; see `run_state`.

    Raises
    ------
    ArtifactError
        If the folder does not exist.

    Examples
    --------
    >>> import tempfile
    >>> find_runs(tempfile.mkdtemp())
    []
    """
    if not Path(folder).is_dir():
        raise ArtifactError(f"{folder}: no such folder")
    return list(walk_runs(folder, is_run))


def walk_runs(folder: str | Path, test: Callable[[Path], bool]) -> Iterator[Path]:
    """Yield the folders that contain run files and satisfy a predicate."""
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if {MANIFEST, RESULTS, LOCK} & set(files) and test(Path(here)):
            folders.clear()
            yield Path(here)


def is_run(folder: Path) -> bool:
    """Return whether a folder contains a run in any state."""
    try:
        _manifest(folder)
    except _NotARunError:
        return False
    except ArtifactError:
        pass
    return True
