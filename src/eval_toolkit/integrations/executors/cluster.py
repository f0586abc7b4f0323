"""Base class of the executors on Ray and Dask."""

import contextlib
import os
import re
import threading
from collections.abc import Callable
from concurrent import futures
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import Any

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
    """Base class of the Ray and Dask executors; started when the first task is submitted."""

    def __init__(
        self, workers: int | None = None, *, address: str | None = None, gpus: int = 0
    ) -> None:
        self._gpus = gpus
        self._workers = n_cores() if workers is None else workers
        self._address = address
        self._lock = threading.RLock()
        self._ends = contextlib.ExitStack()
        self._tasks: Any = None
        """Object to which tasks are submitted; None until started."""
        self._closed = False
        self._waiting: set[Future[Any]] = set()

    def _started(self) -> Any:
        with self._lock:
            if self._closed:
                raise RuntimeError("the executor was shut down; open a new one")
            if self._tasks is None:
                self._tasks = self._start()
            return self._tasks

    def _start(self) -> Any:
        """Start or join the cluster and return the object to which tasks are submitted."""
        raise NotImplementedError

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Close the executor; a cluster that it did not start keeps running.

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
        if not wait:
            for future in list(self._waiting):
                future.cancel()
        futures.wait(list(self._waiting))


class ClusterFuture(Future[Any]):
    """Future whose cancellation also stops a running task."""

    def __init__(self, stop: Callable[[], None]) -> None:
        super().__init__()
        self._stop = stop

    def cancel(self) -> bool:
        """Cancel the task, even if it is running."""
        if self.done() or not super().cancel():
            return self.cancelled()
        self.set_running_or_notify_cancel()
        self._stop()
        return True


def outcome(fn: Callable[..., Any], args: Any, kwargs: Any) -> tuple[bool, Any]:
    """Return the result or the exception of a call; Ray would wrap the exception in a traceback."""
    try:
        return True, fn(*args, **kwargs)
    except Exception as error:
        return False, error


def settle(future: Future[Any], done: Any) -> None:
    """Copy the outcome of a finished task from its future on the cluster."""
    if future.cancelled() or not future.set_running_or_notify_cancel():
        return
    try:
        returned, value = done.result()
    except BaseException as error:  # raised by the cluster: the worker or its machine died
        future.set_exception(BrokenExecutor(first_line(error)))
        return
    if returned:
        future.set_result(value)
    else:
        future.set_exception(value)
