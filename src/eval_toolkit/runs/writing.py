"""Write runs atomically: readers see the old run, the new one, or an unfinished one.

All files are written and synced in a staging folder inside the run folder. They are then renamed in
this order: the manifest with status "running", the files, the manifest with status "complete".
"""

import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from eval_toolkit._internal import tables as _tables
from eval_toolkit._internal.files import make_private, private_folder, sync_folder, write_atomic
from eval_toolkit._internal.hashing import sha256_file
from eval_toolkit._internal.redaction import redact_results
from eval_toolkit._internal.tables import PartedTable
from eval_toolkit.artifacts import json_bytes, read_json, sanitize_for_json
from eval_toolkit.artifacts.strict_json import plain_bytes
from eval_toolkit.errors import ArtifactError, InvalidInputError, InvalidTypeError
from eval_toolkit.manifest import MANIFEST_SCHEMA_VERSION, redact_manifest, seal_manifest
from eval_toolkit.provenance import utc_now
from eval_toolkit.runs.folder import ARTIFACTS, MANIFEST, RECORDS, RESULTS, RESULTS_FULL, Run
from eval_toolkit.runs.lock import LOCK, run_lock
from eval_toolkit.runs.manifest_checks import results_problem
from eval_toolkit.runs.table import to_table
from eval_toolkit.scorecards import Records

Columns: TypeAlias = Mapping[str, Any] | PartedTable

_STAGING = ".staging-"
_REPORT = "report.html"
_RUNNING = "running.json"


def write_run(
    run_dir: str | Path,
    *,
    results: Mapping[str, Any],
    manifest: Mapping[str, Any],
    results_full: Mapping[str, Any] | None = None,
    records: Mapping[tuple[str, str], Records] | None = None,
    tables: Mapping[str, Columns] | None = None,
    overwrite: bool = False,
) -> Run:
    """Write a run folder with manifest, results and records atomically.

    Equal results and records give byte-identical ``results.json`` and ``records.parquet``. Secrets
    are redacted (see `redact_secrets`): strings that look like a secret or follow the name of one
    and, in configurations, all strings under a key that names one. The names of slices, scorers and
    metrics and the ids of units are left unchanged.

    Parameters
    ----------
    run_dir : path
        Folder of the run, created if needed. Other files in it are kept.
    results : mapping
        Contents of ``results.json``.
    manifest : mapping or RunManifest
        Provenance of the run; status, artifacts and hashes are added.
    results_full : mapping, optional
        Contents of ``results_full.json``.
    records : mapping of (slice, scorer) to Records, optional
        Contents of ``records.parquet``.
    tables : mapping of file name to columns, optional
        Additional Parquet files, such as ``responses.parquet``; see `Run.table`.
    overwrite : bool, default False
        Whether to replace an existing run. An interruption leaves the old run, the new one, or a
        run that `run_state` reports as incomplete.

    Returns
    -------
    Run
        Run as read back from disk.

    Raises
    ------
    ArtifactError
        If an existing run must not be replaced, another process is writing to it, or writing fails.
        An existing run is then unchanged.
    InvalidInputError
        If the results do not match the schema, or the results and the manifest name different runs.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp() + "/r1"
    >>> results = {"schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {}}
    >>> run = write_run(folder, results=results, manifest={"run_id": "r1"})
    >>> run.run_id, run.manifest["status"]
    ('r1', 'complete')
    """
    folder = Path(run_dir)
    content = run_content(results, results_full, records, tables)
    head = manifest_head(manifest, results, folder)
    _refuse(folder, overwrite)
    created = not folder.exists()
    try:
        private_folder(folder)
        with run_lock(folder):
            _refuse(folder, overwrite)
            Writing(folder, head).write(content)
    except OSError as error:
        raise ArtifactError(
            f"{folder}: the run could not be written: {error.strerror or error}"
        ) from error
    finally:
        if created:
            _remove_if_empty(folder)
    return Run.open(folder)


@dataclass(frozen=True)
class Content:
    """Contents of a run except for its manifest."""

    files: Mapping[str, bytes]
    tables: Mapping[str, tuple[Columns, Mapping[str, Any]]]
    """Columns and manifest entries of each table."""


def run_content(
    results: Mapping[str, Any],
    results_full: Mapping[str, Any] | None,
    records: Mapping[tuple[str, str], Records] | None,
    tables: Mapping[str, Columns] | None,
) -> Content:
    """Validate the contents of a run and return its files."""
    files = {RESULTS: _results_bytes(results, "results")}
    if results_full is not None:
        files[RESULTS_FULL] = _results_bytes(results_full, "results_full", indent=None)
    stored: dict[str, tuple[Columns, Mapping[str, Any]]] = {}
    if records is not None:
        columns, layout = to_table(records)
        stored[RECORDS] = columns, layout.to_dict()
    for name, given in (tables or {}).items():
        if Path(name).name != name or Path(name).suffix != ".parquet" or name == RECORDS:
            raise InvalidInputError(
                f"`tables` names {name!r}; it must be the name of a .parquet file"
            )
        table: Any = given
        if not isinstance(table, PartedTable):
            table = {column: np.asarray(values) for column, values in table.items()}
        kinds = _tables.kinds_of(table)
        texts = [column for column, kind in kinds.items() if kind in "OUS"]
        stored[name] = table, {"texts": texts, "numbers": [c for c in kinds if c not in texts]}
    return Content(files, stored)


def _results_bytes(results: Mapping[str, Any], name: str, indent: int | None = 2) -> bytes:
    payload = sanitize_for_json(results)
    if not isinstance(payload, dict):
        raise InvalidTypeError(f"`{name}` must be a mapping, got {type(results).__name__}")
    payload = redact_results(payload)
    problem = results_problem(payload) if name == "results" else ""  # full ones are unrestricted
    if problem:
        raise InvalidInputError(f"`{name}`: {problem}")
    return plain_bytes(payload, indent=indent)


def manifest_head(manifest: Any, results: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Complete a manifest with the required fields."""
    payload = sanitize_for_json(manifest)
    if not isinstance(payload, dict):
        raise InvalidTypeError(f"`manifest` must be a mapping, got {type(manifest).__name__}")
    given = (payload.get("run_id"), sanitize_for_json(results.get("run_id")))
    names = [name for name in given if name]
    if len(set(names)) > 1:
        raise InvalidInputError(
            f"`manifest` belongs to run {names[0]!r} but `results` to run {names[1]!r}"
        )
    least = {
        "schema_version": MANIFEST_SCHEMA_VERSION,
        "captured_at": utc_now(),
        "code_versions": {},
        "env": {},
        "contamination_flags": {},
    }
    return redact_manifest(
        {**least, **payload, "run_id": names[0] if names else folder.resolve().name}
    )


def _refuse(folder: Path, overwrite: bool) -> None:
    """Raise an error if the folder contains anything that must not be replaced."""
    if overwrite or not folder.exists():
        return
    if not folder.is_dir():
        raise ArtifactError(f"{folder}: is a file; pass a folder for the run")
    status = _status(folder)
    if status == "complete":
        raise ArtifactError(f"{folder}: contains a finished run; pass overwrite=True to replace it")
    there = [name for name in (MANIFEST, *ARTIFACTS) if (folder / name).exists()]
    if there and status != "running":
        raise ArtifactError(
            f"{folder}: contains {there[0]}, which is not part of an unfinished run; pass "
            "overwrite=True to replace it"
        )


def _status(folder: Path) -> str | None:
    """Return the status in the manifest, or None."""
    try:
        manifest = read_json(folder / MANIFEST)
    except ArtifactError:
        return None
    status = manifest.get("status") if isinstance(manifest, dict) else None
    return status if isinstance(status, str) else None


def _remove_if_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


class Writing:
    """Run that is being written while its lock is held."""

    def __init__(self, folder: Path, head: Mapping[str, Any]) -> None:
        self.folder = folder
        self.head = dict(head)
        self.staging = folder / f"{_STAGING}{secrets.token_hex(6)}"
        self.replaces = (folder / MANIFEST).exists()

    def write(self, content: Content) -> None:
        """Stage all files, then move them into place."""
        for left_behind in self.folder.glob(f"{_STAGING}*"):
            shutil.rmtree(left_behind)
        for left_behind in self.folder.glob(f".{MANIFEST}.*.tmp"):
            left_behind.unlink()
        stale = self._stale()
        staged = False
        try:
            if not self.replaces:
                self.begin()
            artifacts = self._stage(content)
            staged = True
            self._commit(artifacts, stale - artifacts.keys())
        except (OSError, ArtifactError) as error:
            raise ArtifactError(self._failure(error, staged)) from error
        finally:
            shutil.rmtree(self.staging, ignore_errors=True)
            if not staged and not self.replaces:
                (self.folder / MANIFEST).unlink(missing_ok=True)

    def begin(self) -> None:
        """Write the manifest with status "running"."""
        make_private(write_atomic(self.folder / MANIFEST, self._manifest("running")))

    def _manifest(self, status: str, **more: Any) -> bytes:
        return json_bytes(seal_manifest({**self.head, "status": status, **more}))

    def _stage(self, content: Content) -> dict[str, dict[str, Any]]:
        """Write and sync every file in the staging folder; return their hashes."""
        private_folder(self.staging)
        artifacts: dict[str, dict[str, Any]] = {}
        for name, data in content.files.items():
            artifacts[name] = {"sha256": sha256_file(write_atomic(self.staging / name, data))}
        if content.tables:
            stored = {self.staging / name: columns for name, (columns, _) in content.tables.items()}
            _tables.write_tables(stored)
        for name, (columns, about) in content.tables.items():
            digest = sha256_file(self.staging / name)
            artifacts[name] = {"sha256": digest, "n_rows": _tables.n_rows_of(columns), **about}
        write_atomic(self.staging / _RUNNING, self._manifest("running"))
        write_atomic(self.staging / MANIFEST, self._manifest("complete", artifacts=artifacts))
        for file in self.staging.iterdir():
            make_private(file)
        return artifacts

    def _commit(self, artifacts: Mapping[str, Any], stale: set[str]) -> None:
        """Rename all files; meanwhile, the status of the run is "running".

        If a power failure reorders the renames, the files do not match their hashes.
        """
        (self.staging / _RUNNING).replace(self.folder / MANIFEST)
        for name in stale:
            (self.folder / name).unlink(missing_ok=True)
        for name in artifacts:
            (self.staging / name).replace(self.folder / name)
        (self.staging / MANIFEST).replace(self.folder / MANIFEST)
        sync_folder(self.folder)

    def _stale(self) -> set[str]:
        """Return the files in the folder that belong to the replaced run."""
        listed: Any = {}
        if self.replaces:
            try:
                listed = read_json(self.folder / MANIFEST).get("artifacts") or {}
            except (ArtifactError, AttributeError):
                listed = {}
        ours = {*ARTIFACTS, _REPORT, *(listed if isinstance(listed, dict) else ())}
        return {name for name in ours if Path(name).name == name} - {MANIFEST, LOCK}

    def _failure(self, error: Exception, staged: bool) -> str:
        why = getattr(error, "strerror", None) or str(error).replace(str(self.staging), "…")
        if staged:
            after = "the run is incomplete; write it again"
        else:
            after = "the existing run is unchanged" if self.replaces else "nothing was written"
        return f"{self.folder}: the run could not be written: {why}; {after}"
