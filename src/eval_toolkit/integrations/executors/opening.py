"""Executors by name."""

import contextlib
import os
import signal
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor

from eval_toolkit._internal import validation
from eval_toolkit._internal.environment import secret_variables
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.integrations.executors.cluster import n_cores
from eval_toolkit.integrations.executors.on_dask import DaskExecutor
from eval_toolkit.integrations.executors.on_ray import RayExecutor

__all__ = ["BACKENDS", "open_executor"]

BACKENDS = ("threads", "processes", "ray", "dask")
"""What `open_executor` knows."""


@contextlib.contextmanager
def open_executor(
    backend: str, workers: int | None = None, *, address: str | None = None
) -> Iterator[Executor]:
    """Open an executor by name, for every ``executor=`` of this package, and close it after use.

    Parameters
    ----------
    backend : {"threads", "processes", "ray", "dask"}
        Ray needs the extra ``ray``, Dask the extra ``dask``.
    workers : int, optional
        Number of concurrent tasks; by default one per core. Existing clusters use their own.
    address : str, optional
        Address of a Ray or Dask cluster that runs; by default that of ``RAY_ADDRESS`` or
        ``DASK_SCHEDULER_ADDRESS``, and else one is started on this machine for the while.

    Yields
    ------
    Executor
        With the interface of `concurrent.futures.Executor`. Ray and Dask are not started before
        the first task: work below a tenth of a second is done in place.

    Raises
    ------
    InvalidInputError
        If the name is unknown, or an address is given for threads or processes.
    MissingExtraError
        If Ray or Dask is not installed.

    Notes
    -----
    Processes and Dask's workers import the script that started them: guard its last lines with
    ``if __name__ == "__main__":``, and give metrics that are functions of a module. Nothing is
    pickled to disk. If the block fails or is interrupted, tasks that wait are cancelled.

    Examples
    --------
    >>> from eval_toolkit.inference import bootstrap_ci
    >>> from eval_toolkit.metrics import roc_auc
    >>> y, scores = [0, 1] * 20, [0.3, 0.6, 0.5, 0.4] * 10
    >>> with open_executor("threads", 2) as executor:
    ...     parallel = bootstrap_ci(y, scores, roc_auc, executor=executor)
    >>> parallel == bootstrap_ci(y, scores, roc_auc)
    True
    """
    executor = _opened(backend, workers, address)
    try:
        yield executor
    except BaseException:
        executor.shutdown(cancel_futures=True)
        raise
    executor.shutdown()


def _opened(backend: str, workers: int | None, address: str | None) -> Executor:
    name = validation.choice(backend, "backend", BACKENDS)
    n_workers = n_cores() if workers is None else validation.integer(workers, "workers", low=1)
    if name == "ray":
        return RayExecutor(n_workers, address=address)
    if name == "dask":
        return DaskExecutor(n_workers, address=address)
    if address is not None:
        raise InvalidInputError(f"`address` is {address!r}; {name} run on this machine alone")
    if name == "threads":
        return ThreadPoolExecutor(n_workers, "eval-toolkit")
    # Imported for few users. Spawned: a fork would copy locks that another thread may hold.
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    return ProcessPoolExecutor(
        n_workers,
        mp_context=get_context("spawn"),
        initializer=_begin,
        initargs=(secret_variables(),),
    )


def _begin(secrets: dict[str, str]) -> None:
    """Leave interrupts to the caller, and take the keys that scorers may need.

    Ctrl-C reaches every process of a terminal; the one that waits decides. The keys come this way
    because whoever may look at a process can read the environment that it was started with.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(secrets)
