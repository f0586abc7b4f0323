"""Integrity checks of run files, cached until a file changes."""

import contextlib
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from eval_toolkit.report.viewer.run_list import ListedRun
from eval_toolkit.runs.folder import alteration

_WAIT_S = 0.5
"""Time in seconds that a page waits for the hash check before it is shown unchecked."""


def written(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Return the name, modification time and size of each file of a run."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # renamed in the meantime
                if entry.is_file():
                    stat = entry.stat()
                    found.append((entry.name, stat.st_mtime_ns, stat.st_size))
    return tuple(sorted(found))


@dataclass
class _Check:
    stamps: tuple[tuple[str, int, int], ...]
    done: threading.Event = field(default_factory=threading.Event)
    found: str = ""


class Checks:
    """Cache of integrity checks.

    ``check`` returns a description of how a run was altered, or "" if it was not.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp())
    >>> run = ListedRun(key="r", path=path, run_id="r", place="r", state="complete")
    >>> Checks(lambda folder: "results.json is missing").of(run, wait_s=60)
    'results.json is missing'
    """

    def __init__(self, check: Callable[[Path], str] = alteration) -> None:
        self._check = check
        self._checks: dict[str, _Check] = {}
        self._lock = threading.Lock()
        self._turn = threading.Lock()

    def of(self, run: ListedRun, *, wait_s: float | None = None) -> str:
        """Return how a finished run was altered; "" while the check is pending.

        ``wait_s`` is how long to wait for the hashes of large files; by default a short time.
        """
        stamps = written(run.path)
        with self._lock:
            check = self._checks.get(run.key)
            if check is None or check.stamps != stamps:
                check = self._checks[run.key] = _Check(stamps)
                threading.Thread(target=self._make, args=[check, run.path], daemon=True).start()
        check.done.wait(_WAIT_S if wait_s is None else wait_s)
        return check.found

    def known(self, run: ListedRun) -> str:
        """Return the cached result if the files are unchanged, without reading them."""
        check = self._checks.get(run.key)
        with contextlib.suppress(OSError):
            if check is not None and check.found and check.stamps == written(run.path):
                return check.found
        return ""

    def _make(self, check: _Check, path: Path) -> None:
        try:
            with self._turn:  # one at a time: parallel checks would compete for the disk
                check.found = self._check(path)
        except OSError as error:
            check.found = f"cannot be read: {error.strerror}"
        finally:
            check.done.set()
