"""Base class of the executors on Ray and Dask."""

import contextlib
import os
import re
import threading
from concurrent.futures import Executor
from typing import Any

__all__ = ["Cluster", "first_line", "n_cores"]

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def n_cores() -> int:
    """Return the number of CPU cores available to this process."""
    if hasattr(os, "sched_getaffinity"):  # respects the limits of containers
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def first_line(error: BaseException) -> str:
    """Return the first line of an error message without colour codes."""
    said = _COLOUR.sub("", str(error)).strip()
    return next(iter(said.splitlines()), "") or type(error).__name__


class Cluster(Executor):
    """Base class of Ray and Dask executors; started lazily with the first task and closed once."""

    def __init__(self, workers: int | None = None, *, address: str | None = None) -> None:
        self._workers = n_cores() if workers is None else workers
        self._address = address
        self._lock = threading.RLock()
        self._ends = contextlib.ExitStack()
        self._tasks: Any = None
        """Object that accepts tasks; None until started."""
        self._closed = False

    def _started(self) -> Any:
        with self._lock:
            if self._closed:
                raise RuntimeError("the executor was shut down; open another one")
            if self._tasks is None:
                self._tasks = self._start()
            return self._tasks

    def _start(self) -> Any:
        """Start or join the cluster and return the object to which tasks are submitted."""
        raise NotImplementedError

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Close the executor; an existing cluster keeps running.

        Parameters
        ----------
        wait : bool, default True
            Whether to wait until all tasks are done.
        cancel_futures : bool, default False
            Whether to cancel pending tasks instead.
        """
        with self._lock:
            self._closed = True
            if self._tasks is not None:
                self._finish(wait=wait and not cancel_futures)
                self._tasks = None
            self._ends.close()

    def _finish(self, *, wait: bool) -> None:
        """Wait for the tasks, or cancel them."""
        raise NotImplementedError
