"""Executor that submits tasks to a Dask cluster."""

import contextlib
import functools
import logging
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Future
from typing import Any, TypeVar

from eval_toolkit._internal.optional import require
from eval_toolkit.integrations.executors.cluster import (
    Cluster,
    ClusterFuture,
    first_line,
    outcome,
    settle,
)

_T = TypeVar("_T")


class DaskExecutor(Cluster):
    """Executor that submits tasks to Dask; for an existing client use ``client.get_executor()``.

    Parameters
    ----------
    workers : int, optional
        Number of processes in a new local cluster; by default one per core.
    address : str, optional
        Address of a running scheduler.
    gpus : int, default 0
        Number of GPUs per task; the workers must declare the resource ``GPU``.

    Raises
    ------
    MissingExtraError
        If `distributed` is not installed.
    """

    def __init__(
        self, workers: int | None = None, *, address: str | None = None, gpus: int = 0
    ) -> None:
        super().__init__(workers, address=address, gpus=gpus)
        self._distributed = require("distributed", feature="the Dask executor", extra="dask")
        self._needs = {"resources": {"GPU": gpus}} if gpus else {}

    def submit(self, fn: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:
        """Submit a call of ``fn`` to a worker.

        Function and arguments are serialised in memory by cloudpickle; the future raises the
        exceptions of ``fn``, or `BrokenExecutor` if the worker died. Raises RuntimeError after a
        shutdown.
        """
        # Futures of Dask's executor never end if the worker dies while its result is fetched.
        client, _ = self._started()
        task = client.submit(outcome, fn, args, kwargs, pure=False, **self._needs)
        future = ClusterFuture(task.cancel)
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        task.add_done_callback(functools.partial(settle, future))
        return future

    def map(
        self,
        fn: Callable[..., _T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[_T]:
        """Apply ``fn`` to every item, in order; ``fn`` and its arrays are sent only once.

        For the other parameters, see `concurrent.futures.Executor.map`. Raises `BrokenExecutor`
        if a worker died.
        """
        client, executor = self._started()
        items = list(zip(*iterables, strict=False))  # like `map`, stop at the shortest
        # Replicate on every worker: data on only one worker is lost if it dies.
        held = [client.scatter(fn, hash=False, broadcast=True)] * len(items)
        return self._until_killed(executor.map(_called, held, items, timeout=timeout))

    def _until_killed(self, results: Iterator[_T]) -> Iterator[_T]:
        try:
            yield from results
        except self._distributed.KilledWorker as error:
            raise BrokenExecutor(first_line(error)) from error
        except self._distributed.CancelledError as error:
            raise BrokenExecutor(f"no worker with the data is left: {first_line(error)}") from error

    def _start(self) -> Any:
        import dask

        address = self._address or dask.config.get("scheduler-address", None)
        if address is None:
            address = self._ends.enter_context(self._local_cluster(dask))
        client = self._ends.enter_context(self._distributed.Client(address, set_as_default=False))
        return client, client.get_executor(pure=False, **self._needs)

    def _finish(self, *, wait: bool) -> None:
        super()._finish(wait=wait)
        self._tasks[1].shutdown(wait=wait)

    @contextlib.contextmanager
    def _local_cluster(self, dask: Any) -> Iterator[Any]:
        with (
            tempfile.TemporaryDirectory(prefix="eval-toolkit-") as scratch,
            dask.config.set({"distributed.scheduler.allowed-failures": 1}),
            self._distributed.LocalCluster(
                n_workers=self._workers,
                threads_per_worker=1,
                dashboard_address="127.0.0.1:0",  # any free port: the default may be in use
                local_directory=scratch,
                silence_logs=logging.CRITICAL,
            ) as cluster,
        ):
            yield cluster


def _called(fn: Callable[..., _T], args: Any, kwargs: Any = None) -> _T:
    """Call a function that was sent to the worker separately from its arguments."""
    return fn(*args, **(kwargs or {}))
