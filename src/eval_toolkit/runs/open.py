"""Runs in progress, which are locked, resumable and finalised atomically."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval_toolkit._internal.files import limits, private_folder, read_regular, sync_folder
from eval_toolkit.artifacts.strict_json import parse_bytes
from eval_toolkit.errors import ArtifactError, ModelError
from eval_toolkit.runs.folder import ARTIFACTS, MANIFEST, Run
from eval_toolkit.runs.lock import run_lock
from eval_toolkit.runs.manifest_checks import manifest_problem
from eval_toolkit.runs.stopped import STOPPED, note_stop
from eval_toolkit.runs.writing import Columns, Writing, manifest_head, run_content
from eval_toolkit.scorecards import Records

JOURNAL = "journal.jsonl"
"""Journal of answers; only unfinished runs have one."""
SO_FAR = "so_far.json"
"""Interim value of a metric in an unfinished run."""


@dataclass(slots=True)
class OpenRun:
    """Run folder that only this process may write to, as returned by `open_run`."""

    path: Path
    begun: Mapping[str, Any] | None
    """Manifest of an existing run, interrupted or finished."""
    previous: Run | None
    """Existing finished run, which is kept until `finalise`."""
    _finished: bool = field(default=False, repr=False)

    @property
    def journal_path(self) -> Path:
        """Path of the journal."""
        return self.path / JOURNAL

    def finalise(
        self,
        *,
        results: Mapping[str, Any],
        manifest: Mapping[str, Any],
        results_full: Mapping[str, Any] | None = None,
        records: Mapping[tuple[str, str], Records] | None = None,
        tables: Mapping[str, Columns] | None = None,
    ) -> Run:
        """Write the finished run with `write_run` and remove the journal.

        The arguments and the result are those of `write_run`. If writing fails, the journal is
        kept.
        """
        content = run_content(results, results_full, records, tables)
        head = manifest_head(manifest, results, self.path)
        with _refusals(self.path):
            Writing(self.path, head).write(content)
            self._finished = True
            self.journal_path.unlink(missing_ok=True)
            _forget_interim(self.path)
        return Run.open(self.path)


@contextmanager
def open_run(run_dir: str | Path, *, manifest: Mapping[str, Any]) -> Iterator[OpenRun]:
    """Open the folder of a new, interrupted or finished run for writing.

    Parameters
    ----------
    run_dir : path
        Folder; created if needed.
    manifest : mapping
        Manifest of the unfinished run; written only if the folder has none.

    Yields
    ------
    OpenRun
        Run folder, with the lock of the run held.

    Raises
    ------
    ArtifactError
        If another process holds the lock, the folder contains anything other than a run, or its
        finished run was modified.

    Notes
    -----
    If the block ends before anything is written to the journal, a newly created folder is removed.
    Otherwise, the journal is kept, and opening the folder again resumes the run.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp() + "/r1"
    >>> results = {"schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {}}
    >>> with open_run(folder, manifest={"run_id": "r1"}) as opened:
    ...     run = opened.finalise(results=results, manifest={"run_id": "r1"})
    >>> run.manifest["status"]
    'complete'
    """
    folder = Path(run_dir)
    if folder.exists() and not folder.is_dir():
        raise ArtifactError(f"{folder}: is a file; pass a folder for the run")
    is_new = not folder.exists()
    try:
        with _refusals(folder):
            private_folder(folder)
        with run_lock(folder):
            with _refusals(folder):
                opened = _opened(folder, manifest)
            try:
                yield opened
            except (ModelError, KeyboardInterrupt) as stop:
                note_stop(folder, stop)
                raise
            finally:
                if opened.begun is None and not opened._finished:
                    _forget_if_nothing_was_done(opened)
    finally:
        if is_new and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


@contextmanager
def _refusals(folder: Path) -> Iterator[None]:
    """Convert disk errors to a one-line `ArtifactError`."""
    try:
        yield
    except OSError as error:
        if isinstance(error, ArtifactError):
            raise
        raise ArtifactError(
            f"{folder}: the run could not be written: {error.strerror or error}"
        ) from error


def _opened(folder: Path, manifest: Mapping[str, Any]) -> OpenRun:
    begun = _begun(folder)
    if begun is None:
        there = [name for name in ARTIFACTS if (folder / name).exists()]
        if there:
            raise ArtifactError(
                f"{folder}: contains {there[0]} without a {MANIFEST}; choose another folder"
            )
        Writing(folder, manifest_head(manifest, {}, folder)).begin()
        sync_folder(folder)
    (folder / STOPPED).unlink(missing_ok=True)
    complete = begun is not None and begun.get("status") == "complete"
    return OpenRun(folder, begun, Run.open(folder) if complete else None)


def _begun(folder: Path) -> dict[str, Any] | None:
    path = folder / MANIFEST
    if not path.is_file():
        return None
    found = parse_bytes(read_regular(path), path)
    if not isinstance(found, dict) or found.get("status") not in ("running", "complete"):
        raise ArtifactError(f"{folder}: {MANIFEST} does not belong to a run; choose another folder")
    if problem := manifest_problem(found):
        raise ArtifactError(f"{folder}: {MANIFEST}: {problem}; choose another folder")
    return found


def _forget_interim(folder: Path) -> None:
    for name in (SO_FAR, STOPPED):
        (folder / name).unlink(missing_ok=True)


def _forget_if_nothing_was_done(opened: OpenRun) -> None:
    """Remove the files of `open_run` if the journal has no entries."""
    journal = opened.journal_path
    if journal.is_file():
        with journal.open("rb") as stream:
            stream.readline(limits.LINE_BYTES)
            if stream.read(1):
                return
        journal.unlink()
    _forget_interim(opened.path)
    (opened.path / MANIFEST).unlink(missing_ok=True)
