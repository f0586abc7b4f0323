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

_MOST = sys.float_info.max
_LOOK_AGAIN_S = 1.0
"""Minimum time in seconds between two searches of a folder."""


@dataclass(frozen=True, kw_only=True)
class ListedRun:
    """Entry of a run in the list."""

    key: str
    """Name used in URLs; it is only looked up, never used as a path."""
    path: Path
    run_id: str
    place: str
    """Folder of the run, relative to the folder of runs."""
    state: str
    """"complete", "running" or "incomplete"."""
    reason: str = ""
    altered: str = ""
    """Description of how the run was altered, as far as known; "" if it was not."""
    kind: str = ""
    subjects: str = ""
    """Names of the evaluated tasks, scorers or seeds."""
    slice: str = ""
    cell: Cell | None = None
    n: int | None = None
    n_records: int | None = None
    when: str = ""
    items: str = ""
    """Hash of the evaluated units; "" if unknown."""
    cost: float | None = None
    """Cost of all requests, including those to judges; None if there are no prices."""
    tokens: int = 0
    seconds: float | None = None
    """Duration of the evaluation in seconds."""
    git: str = ""
    manifest_hash: str = ""
    """Hash of the manifest, used as a cache key of the run's pages."""

    @property
    def shown_state(self) -> str:
        """State to display; an altered run is never displayed as complete."""
        return "altered" if self.altered else self.state


class RunList:
    """Runs below a folder.

    The folder is searched recursively.

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
        # One thread searches; while a disk does not respond, others get the last known list.
        if self._looking.acquire(blocking=first):
            try:
                if time.monotonic() - self._looked_at > _LOOK_AGAIN_S:
                    self._look()
            finally:
                self._looking.release()
        return [one.run for one in self._known.values()]

    def run(self, key: str) -> ListedRun | None:
        """Return the run with a given key; None if there is none."""
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
        """Return the entry of a run, reread if it may have changed; None if it is not a run."""
        stamp = _stamp(path)
        # An incomplete run can start or stop being written at any time.
        if before is not None and before.stamp == stamp and before.run.state == "complete":
            return before
        return _Known(stamp, _listed(path, self.folder)) if is_run(path) else None


@dataclass(frozen=True)
class _Known:
    stamp: tuple[Any, ...]
    """Value that changes whenever the list entry may have changed."""
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
    """Return a readable name for use in URLs, which is unique to a folder."""
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
        if state == "complete":  # its files are intact, but it cannot be read
            state, reason = "incomplete", str(error).removeprefix(f"{path}: ")
        return ListedRun(**least, state=state, reason=reason)
    except Exception as error:
        # Results are not validated here: one malformed run must not hide the others.
        reason = f"its results cannot be read: {type(error).__name__}: {error}"
        return ListedRun(**least, state="incomplete", reason=reason)


def _measured(run: Run) -> dict[str, Any]:
    """Return the summary of a finished run that the list shows."""
    block = main_block(run)
    cell = None if block is None else main_cell(block)
    blocks = blocks_of(run)
    names = dict.fromkeys(one.scorer for one in blocks)
    for number in () if cell is None else (cell.value, cell.low, cell.high):
        if not (number is None or (isinstance(number, int | float) and abs(number) <= _MOST)):
            raise ValueError(f"{number!r:.60} is not a number")
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
        "items": str(run.manifest.get("item_set_hash") or ""),
        **_spent(run.manifest),
    }


def _spent(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the requests, tokens and cost of a run, including those of judges."""
    judges = manifest.get("judges")
    told = [manifest, *(judges.values() if isinstance(judges, Mapping) else ())]
    usages = [
        one["usage"]
        for one in told
        if isinstance(one, Mapping) and isinstance(one.get("usage"), Mapping)
    ]

    def total(name: str) -> float:
        found = (_finite(usage.get(name)) for usage in usages)
        return sum(value for value in found if value is not None)

    return {
        "cost": total("cost") or None,
        "tokens": int(total("prompt_tokens") + total("completion_tokens")),
        "seconds": _finite(manifest.get("wall_clock_seconds")),
    }


def _finite(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= _MOST else None


def _git(manifest: Mapping[str, Any]) -> str:
    sha = manifest.get("git_sha")
    return f"{str(sha)[:7]}{' (changed)' if manifest.get('dirty_flag') else ''}" if sha else ""
