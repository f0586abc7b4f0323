"""List of the runs in a folder, refreshed when files change."""

import hashlib
import re
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_toolkit.errors import ArtifactError
from eval_toolkit.report.cells import Cell, blocks_of, main_block
from eval_toolkit.report.headline import main_cell
from eval_toolkit.runs import Run, run_state
from eval_toolkit.runs.folder import (
    MANIFEST,
    RECORDS,
    RESULTS,
    alteration,
    is_run,
    kind_of,
    run_head,
    walk_runs,
)

__all__ = ["ListedRun", "RunList"]

_MOST = sys.float_info.max
_LOOK_AGAIN_S = 1.0
"""Within this time a folder is not searched anew."""


@dataclass(frozen=True, kw_only=True)
class ListedRun:
    """Entry of a run in the list."""

    key: str
    """Its name in addresses; looked up, never made into a path."""
    path: Path
    run_id: str
    place: str
    """Its folder, below the folder of runs."""
    state: str
    """"complete", "running" or "incomplete"."""
    reason: str = ""
    altered: str = ""
    """How a file differs from what was written, as far as that is known."""
    kind: str = ""
    subjects: str = ""
    """Tasks, scorers or seeds, in words."""
    slice: str = ""
    cell: Cell | None = None
    n: int | None = None
    n_records: int | None = None
    when: str = ""
    git: str = ""
    manifest_hash: str = ""
    """What pages of the run are kept under."""

    @property
    def shown_state(self) -> str:
        """The state as a list tells it: no run that was altered is called complete."""
        return "altered" if self.altered else self.state


class RunList:
    """Runs below a folder.

    Parameters
    ----------
    folder : Path
        Searched at any depth.

    Examples
    --------
    >>> import tempfile
    >>> RunList(Path(tempfile.mkdtemp())).runs()
    []
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._looking = threading.Lock()
        self._known: dict[Path, _Known] = {}
        self._by_key: dict[str, Path] = {}
        self._looked_at = float("-inf")

    def runs(self) -> list[ListedRun]:
        """Return the current runs, sorted by path."""
        first = self._looked_at == float("-inf")
        # One looks; a disk that does not answer keeps nobody else from what is known.
        if self._looking.acquire(blocking=first):
            try:
                if time.monotonic() - self._looked_at > _LOOK_AGAIN_S:
                    self._look()
            finally:
                self._looking.release()
        return [one.run for one in self._known.values()]

    def run(self, key: str) -> ListedRun | None:
        """Return the run of a key; a key that no run has finds nothing, whatever it says."""
        path = self._by_key.get(key)
        if path is None:
            self.runs()
            path = self._by_key.get(key)
        known = None if path is None else self._known.get(path)
        if path is None or known is None:
            return None
        now = self._now(path, known)
        if now is None:
            return None
        self._known[path] = now
        return now.run

    def _look(self) -> None:
        if not self.folder.is_dir():
            raise ArtifactError(f"{self.folder}: no such folder")
        found: dict[Path, _Known] = {}

        def is_listed(path: Path) -> bool:
            now = self._now(path, self._known.get(path))
            if now is not None:
                found[path] = now
            return now is not None

        for _ in walk_runs(self.folder, is_listed):
            pass
        self._known = found
        self._by_key = {one.run.key: path for path, one in found.items()}
        self._looked_at = time.monotonic()

    def _now(self, path: Path, before: "_Known | None") -> "_Known | None":
        """Return what is known of a run, read anew where it may be another; None where it is none."""
        stamp = _stamp(path)
        # Whether a run that is not complete is still being written can change at any time.
        if before is not None and before.stamp == stamp and before.run.state == "complete":
            return before
        return _Known(stamp, _listed(path, self.folder)) if is_run(path) else None


@dataclass(frozen=True)
class _Known:
    stamp: tuple[Any, ...]
    """Another one when what the list tells of the run may be another."""
    run: ListedRun


def _stamp(path: Path) -> tuple[Any, ...]:
    return tuple(_written(path / name) for name in (MANIFEST, RESULTS))


def _written(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _key(place: str) -> str:
    """Return a name for addresses: readable, and its own for every place."""
    digest = hashlib.sha256(place.encode("utf-8", "surrogateescape")).hexdigest()[:10]
    words = re.sub(r"[^a-z0-9]+", "-", place.lower()).strip("-")[:40].strip("-")
    return f"{words}-{digest}" if words else digest


def _listed(path: Path, folder: Path) -> ListedRun:
    place = str(path.relative_to(folder)) if path != folder else path.name
    try:
        manifest = run_head(path)[1]
    except ArtifactError:
        manifest = {}
    least: dict[str, Any] = {
        "key": _key(place),
        "path": path,
        "place": place,
        "run_id": str(manifest.get("run_id") or path.name),
        "kind": kind_of(manifest) if manifest else "",
        "when": str(manifest.get("captured_at") or ""),
        "git": _git(manifest),
    }
    try:
        run = Run.open(path, verify=False)
        altered = alteration(path, (RESULTS,))
        return ListedRun(**least, state="complete", altered=altered, **_measured(run))
    except ArtifactError as error:
        state, _, reason = run_state(path).partition(": ")
        if state == "complete":  # its files are whole, and yet this one cannot be read
            state, reason = "incomplete", str(error).removeprefix(f"{path}: ")
        return ListedRun(**least, state=state, reason=reason)
    except Exception as error:
        # Results that nobody checked: one odd run must not keep the others from being listed.
        reason = f"its results cannot be read: {type(error).__name__}: {error}"
        return ListedRun(**least, state="incomplete", reason=reason)


def _measured(run: Run) -> dict[str, Any]:
    """Return what a finished run says of itself in its list."""
    block = main_block(run)
    cell = None if block is None else main_cell(block)
    blocks = blocks_of(run)
    names = dict.fromkeys(one.scorer for one in blocks)
    for number in () if cell is None else (cell.value, cell.low, cell.high):
        if not (number is None or (isinstance(number, int | float) and abs(number) <= _MOST)):
            raise ValueError(f"{number!r:.60} is no number")
    n = cell.n_units if cell is not None else None
    n = n if n is not None or block is None else block.n
    records = run.manifest["artifacts"].get(RECORDS)
    n_rows = records.get("n_rows") if isinstance(records, Mapping) else None
    return {
        "subjects": ", ".join(names),
        "slice": block.slice if block is not None else "",
        "cell": cell,
        "n": n if isinstance(n, int) else None,
        "n_records": n_rows if isinstance(n_rows, int) else None,
        "manifest_hash": str(run.manifest.get("manifest_sha256") or ""),
    }


def _git(manifest: Mapping[str, Any]) -> str:
    sha = manifest.get("git_sha")
    return f"{str(sha)[:7]}{' (changed)' if manifest.get('dirty_flag') else ''}" if sha else ""
