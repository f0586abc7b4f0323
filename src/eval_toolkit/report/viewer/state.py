"""State shared by all requests of a viewer: runs, tables and cached pages."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar

from eval_toolkit.errors import ArtifactError
from eval_toolkit.report.viewer.integrity import Checks
from eval_toolkit.report.viewer.pairs import Joined
from eval_toolkit.report.viewer.records import Filter, Shape, fitting, shape_of
from eval_toolkit.report.viewer.run_list import ListedRun, RunList
from eval_toolkit.report.viewer.statistics import Statistics
from eval_toolkit.report.viewer.store import Store
from eval_toolkit.report.viewer.verdicts import Verdicts, verdicts_of
from eval_toolkit.runs import Run
from eval_toolkit.runs.folder import RECORDS
from eval_toolkit.runs.progress import Position

_T = TypeVar("_T")
_ORDERS_BYTES = 48 << 20
"""Cache size in bytes: about twelve sort orders of a million records."""
_VERDICTS_BYTES = 24 << 20
"""Cache size in bytes: verdicts on about four million records."""
_JOINED_BYTES = 72 << 20
"""Cache size in bytes: two pairs of runs with a million records each."""


class NotFoundError(LookupError):
    """Raised for a URL that does not match anything in this viewer."""


class Kept(Generic[_T]):
    """Least-recently-used cache, limited by the number and the total size of its values.

    Sizes are in the unit of those passed to `keep`.

    Examples
    --------
    >>> kept = Kept(2, 100)
    >>> for name in "abc":
    ...     kept.keep(name, name.upper(), 10)
    >>> kept.get("a"), kept.get("c")
    (None, 'C')
    """

    def __init__(self, n: int, size: int) -> None:
        self._most = n, size
        self._values: OrderedDict[object, tuple[_T, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: object) -> _T | None:
        """Return the cached value of a key, or None."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def keep(self, key: object, value: _T, size: int) -> None:
        """Cache a value; the least recently used values are evicted."""
        with self._lock:
            self._values.pop(key, None)
            self._values[key] = (value, size)
            while self._values and (
                len(self._values) > self._most[0]
                or sum(one for _, one in self._values.values()) > self._most[1]
            ):
                self._values.popitem(last=False)


@dataclass(frozen=True)
class Viewer:
    """Viewer of one folder of runs."""

    runs: RunList
    store: Store
    pages: Kept[str]
    shapes: Kept[Shape]
    orders: Kept[Sequence[int]]
    """Numbers of the records that match a filter, in order."""
    verdicts: Kept[Verdicts] = field(default_factory=lambda: Kept(64, _VERDICTS_BYTES))
    """Verdicts on the records of a run."""
    joined: Kept[Joined] = field(default_factory=lambda: Kept(8, _JOINED_BYTES))
    """Common records of two runs."""
    statistics: Statistics = field(default_factory=Statistics)
    """Paired statistics of two runs."""
    checks: Checks = field(default_factory=Checks)
    """Integrity checks of run files."""
    positions: Kept[Position] = field(default_factory=lambda: Kept(64, 64))
    """Read positions in the journals of runs in progress."""

    @classmethod
    def of(cls, folder: str | Path) -> "Viewer":
        """Return a viewer for the runs below a folder."""
        runs = RunList(Path(folder))
        return cls(
            runs, Store(runs.folder), Kept(32, 48 << 20), Kept(64, 64), Kept(64, _ORDERS_BYTES)
        )

    def listed(self) -> list[ListedRun]:
        """Return the current runs, with what is known about the integrity of their files."""
        return [
            replace(run, altered=run.altered or self.checks.known(run)) for run in self.runs.runs()
        ]

    def altered(self, *runs: ListedRun) -> list[tuple[str, str]]:
        """Return descriptions of the altered runs among those given, for pages that show them."""
        found = {
            run.key: (run.run_id, run.altered or self.checks.of(run))
            for run in runs
            if run.state == "complete"
        }
        return [one for one in found.values() if one[1]]

    def run(self, key: str) -> ListedRun:
        """Return the run with the key in a URL."""
        found = self.runs.run(key)
        if found is None:
            raise NotFoundError("There is no such run in this folder.")
        return found

    def shape(self, run: ListedRun) -> Shape:
        """Return the structure of the records of a finished run.

        Raises `ArtifactError` if the run is incomplete or has no records.
        """
        if run.state != "complete":
            raise ArtifactError(
                f"{run.run_id} is {run.state}; its records are available once it is complete"
            )
        kept_as = _written(run)
        shape = self.shapes.get(kept_as)
        if shape is None:
            shape = shape_of(self.store, run.path)
            self.shapes.keep(kept_as, shape, 1)
        return shape

    def order(self, run: ListedRun, wanted: Filter) -> Sequence[int]:
        """Return the numbers of the records that match a filter, in order; the result is cached.

        Without a sort order, the most informative records come first.

        Raises `TooLongError` if finding them took too long.
        """
        wanted = replace(wanted, columns=())
        kept_as = (*_written(run), wanted)
        order = self.orders.get(kept_as)
        if order is None:
            order = self.matching(run, wanted)
            if wanted.show:
                order = self.judged(run).among(order, wanted.show)
            if not wanted.sort:
                order = self.judged(run).ranked(order)
            self.orders.keep(kept_as, order, int(getattr(order, "nbytes", 64)))
        return order

    def matching(self, run: ListedRun, wanted: Filter) -> Sequence[int]:
        """Return the records that match a filter, regardless of verdict; the result is cached.

        Raises `TooLongError` if finding them took too long.
        """
        wanted = replace(wanted, show="", columns=())
        kept_as = (*_written(run), "matching", wanted)
        rows = self.orders.get(kept_as)
        if rows is None:
            rows = fitting(self.store, self.shape(run), wanted)
            self.orders.keep(kept_as, rows, int(getattr(rows, "nbytes", 64)))
        return rows

    def judged(self, run: ListedRun) -> Verdicts:
        """Return the verdicts on the records of a run; the result is cached.

        Raises `TooLongError` if reading them took too long.
        """
        kept_as = _written(run)
        found = self.verdicts.get(kept_as)
        if found is None:
            main = run.cell.name if run.cell is not None else ""
            opened = Run.open(run.path, verify=False)
            found = verdicts_of(self.store, self.shape(run), opened, main)
            self.verdicts.keep(kept_as, found, found.nbytes)
        return found


def _written(run: ListedRun) -> tuple[object, ...]:
    """Return a cache key that changes whenever the records of a run change."""
    try:
        found = (run.path / RECORDS).stat()
    except OSError:
        return run.key, run.manifest_hash
    return run.key, run.manifest_hash, found.st_mtime_ns, found.st_size
