"""Ray tasks with the interface of `concurrent.futures`."""

import contextlib
import functools
import logging
import os
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

from eval_toolkit._internal.optional import require
from eval_toolkit.errors import InfeasibleError
from eval_toolkit.integrations.executors.cluster import (
    Cluster,
    ClusterFuture,
    first_line,
    outcome,
    settle,
)

_STORE = 256 << 20  # bytes of shared memory of a local Ray instance; tasks need far less
_T = TypeVar("_T")


class RayExecutor(Cluster):
    """Ray tasks with the interface of `concurrent.futures.Executor`.

    Parameters
    ----------
    workers : int, optional
        Number of concurrent tasks in a new Ray instance; by default one per core.
    address : str, optional
        Address of a running Ray cluster. If this process is already connected to Ray, that
        connection is used.
    gpus : int, default 0
        Number of GPUs per task; a task cannot see the other GPUs.

    Raises
    ------
    MissingExtraError
        If Ray is not installed.

    Notes
    -----
    A task whose worker dies is retried once; the result is bit-identical, since resamples depend
    only on their index. A local Ray instance has no dashboard and sends no usage statistics.
    """

    def __init__(
        self, workers: int | None = None, *, address: str | None = None, gpus: int = 0
    ) -> None:
        super().__init__(workers, address=address, gpus=gpus)
        self._ray = require("ray", feature="the Ray executor", extra="ray")

    def submit(self, fn: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:
        """Submit a call of ``fn`` to a worker.

        Function and arguments are serialised in memory by cloudpickle; the future raises the
        exceptions of ``fn``, or `BrokenExecutor` if the worker died. Raises RuntimeError after a
        shutdown.
        """
        ref = self._started().remote(fn, args, kwargs)
        future = ClusterFuture(functools.partial(self._ray.cancel, ref))
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        ref.future().add_done_callback(functools.partial(settle, future))
        return future

    def map(
        self,
        fn: Callable[..., _T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[_T]:
        """Apply ``fn`` to every item, in order; ``fn`` and its arrays are sent only once.

        For the other parameters, see `concurrent.futures.Executor.map`.
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
        return self._ray.remote(max_retries=1, num_gpus=self._gpus)(outcome)

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
