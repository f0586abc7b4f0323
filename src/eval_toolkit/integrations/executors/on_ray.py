"""Ray tasks with the interface of `concurrent.futures`."""

import contextlib
import functools
import logging
import os
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from concurrent.futures import BrokenExecutor, Future
from typing import Any, TypeVar

from eval_toolkit._internal.optional import require
from eval_toolkit.errors import InfeasibleError
from eval_toolkit.integrations.executors.cluster import Cluster, first_line

__all__ = ["RayExecutor"]

_STORE = 256 << 20  # bytes of shared memory of a local Ray instance; tasks need far less
_T = TypeVar("_T")


class RayExecutor(Cluster):
    """Ray tasks with the interface of `concurrent.futures.Executor`.

    Parameters
    ----------
    workers : int, optional
        Number of concurrent tasks of a new Ray instance; by default one per core.
    address : str, optional
        Address of a running Ray cluster. If this process is already connected to Ray, that
        connection is used.

    Raises
    ------
    MissingExtraError
        If Ray is not installed.

    Notes
    -----
    A task whose worker dies is retried once; the result is bit-identical, since resamples depend
    only on their index. A local Ray instance has no dashboard and sends no usage statistics.
    """

    def __init__(self, workers: int | None = None, *, address: str | None = None) -> None:
        super().__init__(workers, address=address)
        self._ray = require("ray", feature="the Ray executor", extra="ray")
        self._waiting: set[Future[Any]] = set()

    def submit(self, fn: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:
        """Submit a call of ``fn`` to a worker.

        Function and arguments are serialised in memory by cloudpickle; the future raises the
        exceptions of ``fn``, or `BrokenExecutor` if the worker died. Raises RuntimeError after a
        shutdown.
        """
        ref = self._started().remote(fn, args, kwargs)
        future = _RayFuture(functools.partial(self._ray.cancel, ref))
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        ref.future().add_done_callback(functools.partial(_settle, future))
        return future

    def map(
        self,
        fn: Callable[..., _T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[_T]:
        """Apply ``fn`` to every item, in order; ``fn`` and its arrays are sent only once.

        The other parameters are those of `concurrent.futures.Executor.map`.
        """
        self._started()
        return super().map(self._ray.put(fn), *iterables, timeout=timeout)

    def _start(self) -> Any:
        if not self._ray.is_initialized():
            try:
                self._init()
            except Exception as error:  # any error of Ray during start-up
                self._ends.close()
                where = f"at {self._address} cannot be joined" if self._address else "did not start"
                raise InfeasibleError(f"Ray {where}: {first_line(error)}") from error
            self._ends.callback(self._ray.shutdown)
        return self._ray.remote(max_retries=1)(_outcome)

    def _init(self) -> None:
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
        address = self._address or os.environ.get("RAY_ADDRESS")
        if address:
            self._ray.init(address=address, **quiet)
            return
        alone = {"RAY_USAGE_STATS_ENABLED": "0"}
        if not any(name.startswith("RAY_AUTH_") for name in os.environ):
            alone["RAY_AUTH_TOKEN"] = _token()  # otherwise Ray writes a token to the home folder
        self._ends.enter_context(_environment(alone))
        # Logs and spilled objects are deleted with the executor; socket paths must be short.
        short = "/tmp" if os.name == "posix" else None  # noqa: S108 - a fresh folder in it
        folder = tempfile.TemporaryDirectory(prefix="ray-", dir=short, ignore_cleanup_errors=True)
        self._ray.init(
            _temp_dir=self._ends.enter_context(folder),
            num_cpus=self._workers,
            include_dashboard=False,
            object_store_memory=_STORE,
            **quiet,
        )

    def _finish(self, *, wait: bool) -> None:
        if not wait:
            for future in list(self._waiting):
                future.cancel()
        futures.wait(list(self._waiting))


@functools.cache
def _token() -> str:
    """Return the same token throughout a process, because Ray keeps the first token it receives."""
    return secrets.token_hex(32)


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Set missing environment variables temporarily, and remove those that Ray adds."""
    before = set(os.environ)
    os.environ.update({name: value for name, value in values.items() if name not in before})
    try:
        yield
    finally:
        for name in {*values, "RAY_AUTH_MODE"} - before:
            os.environ.pop(name, None)


class _RayFuture(Future[Any]):
    """Future whose cancellation also stops a running task."""

    def __init__(self, stop: Callable[[], None]) -> None:
        super().__init__()
        self._stop = stop

    def cancel(self) -> bool:
        if self.done() or not super().cancel():
            return self.cancelled()
        self.set_running_or_notify_cancel()
        self._stop()
        return True


def _outcome(fn: Callable[..., Any], args: Any, kwargs: Any) -> tuple[bool, Any]:
    """Return what a call returned or raised; Ray would wrap the exception in a traceback."""
    try:
        return True, fn(*args, **kwargs)
    except Exception as error:
        return False, error


def _settle(future: Future[Any], done: Future[Any]) -> None:
    if future.cancelled() or not future.set_running_or_notify_cancel():
        return
    try:
        returned, value = done.result()
    except BaseException as error:  # raised by Ray: the worker or its machine died
        future.set_exception(BrokenExecutor(first_line(error)))
        return
    if returned:
        future.set_result(value)
    else:
        future.set_exception(value)
