"""The runs of a folder: found again and again, read only where their manifest has changed."""

import hashlib
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_toolkit.errors import ArtifactError
from eval_toolkit.report.cells import Cell, blocks_of, main_block
from eval_toolkit.report.headline import main_cell
from eval_toolkit.runs import Run, find_runs, run_state
from eval_toolkit.runs.folder import MANIFEST, RECORDS, run_head

__all__ = ["ListedRun", "RunList", "kind_of"]

_LOOK_AGAIN_S = 1.0
"""Within this time a folder is not searched anew."""


@dataclass(frozen=True, kw_only=True)
class ListedRun:
    """What the list shows of one run."""

    key: str
    """Its name in addresses; looked up, never made into a path."""
    path: Path
    run_id: str
    place: str
    """Its folder, below the folder of runs."""
    state: str
    """"complete", "running" or "incomplete"."""
    reason: str = ""
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


class RunList:
    """The runs below a folder.

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
        self._lock = threading.Lock()
        self._known: dict[Path, tuple[Any, ListedRun]] = {}
        self._runs: list[ListedRun] = []
        self._by_key: dict[str, ListedRun] = {}
        self._looked_at = float("-inf")

    def runs(self) -> list[ListedRun]:
        """Return the runs there are now, in the order of their paths."""
        with self._lock:
            if time.monotonic() - self._looked_at > _LOOK_AGAIN_S:
                self._look()
            return list(self._runs)

    def run(self, key: str) -> ListedRun | None:
        """Return the run of a key; a key that no run has finds nothing, whatever it says."""
        self.runs()
        return self._by_key.get(key)

    def _look(self) -> None:
        known: dict[Path, tuple[Any, ListedRun]] = {}
        for path in find_runs(self.folder):
            stamp = _stamp(path)
            before = self._known.get(path)
            # Whether a run that is not complete is still being written can change at any time.
            same = before is not None and before[0] == stamp and before[1].state == "complete"
            known[path] = before if same and before else (stamp, _listed(path, self.folder))
        self._known = known
        self._runs = [listed for _, listed in known.values()]
        self._by_key = {listed.key: listed for listed in self._runs}
        self._looked_at = time.monotonic()


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = (path / MANIFEST).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


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
        "kind": kind_of(manifest),
        "when": str(manifest.get("captured_at") or ""),
        "git": _git(manifest),
    }
    try:
        run = Run.open(path, verify=False)
        return ListedRun(**least, state="complete", **_measured(run))
    except ArtifactError as error:
        state, _, reason = run_state(path).partition(": ")
        if state == "complete":  # its files are whole, and yet this one cannot be read
            state, reason = "incomplete", str(error).removeprefix(f"{path}: ")
        return ListedRun(**least, state=state, reason=reason)
    except (AttributeError, TypeError, ValueError, KeyError) as error:
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
        if not (number is None or isinstance(number, int | float)):
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


def kind_of(manifest: Mapping[str, Any]) -> str:
    """Return "rows", "task" or "rollout"; nothing of a manifest that is not there yet.

    Examples
    --------
    >>> kind_of({"kind": "task"}), kind_of({"config": {"command": "score"}}), kind_of({})
    ('task', 'rows', '')
    """
    config = manifest.get("config")
    found = manifest.get("kind") or (config.get("kind") if isinstance(config, Mapping) else None)
    return str(found) if found else "rows" if manifest else ""


def _git(manifest: Mapping[str, Any]) -> str:
    sha = manifest.get("git_sha")
    return f"{str(sha)[:7]}{' (changed)' if manifest.get('dirty_flag') else ''}" if sha else ""
