"""Context manager that opens an executor by name."""

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

BACKENDS = ("threads", "processes", "ray", "dask")
"""Names accepted by `open_executor`."""


@contextlib.contextmanager
def open_executor(
    backend: str, workers: int | None = None, *, address: str | None = None, gpus: int = 0
) -> Iterator[Executor]:
    """Open an executor by name, for any ``executor=`` argument, and close it after use.

    Parameters
    ----------
    backend : {"threads", "processes", "ray", "dask"}
        Ray needs the extra ``ray``, Dask the extra ``dask``.
    workers : int, optional
        Number of concurrent tasks; by default one per core. Existing clusters use their own.
    address : str, optional
        Address of a running Ray or Dask cluster; by default ``RAY_ADDRESS`` or
        ``DASK_SCHEDULER_ADDRESS`` if set, otherwise a temporary local cluster is started.
    gpus : int, default 0
        Number of GPUs per task, for Ray and Dask. A Ray task sees only its own GPUs; a Dask task
        runs on workers started with ``--resources GPU=1``.

    Yields
    ------
    Executor
        Object with the interface of `concurrent.futures.Executor`. Ray and Dask start with the
        first task; work that takes less than a tenth of a second runs in the calling process.

    Raises
    ------
    InvalidInputError
        If the name is unknown, or an address or GPUs are given for threads or processes.
    MissingExtraError
        If Ray or Dask is not installed.

    Notes
    -----
    Processes and Dask workers import the script that started them: guard its main code with
    ``if __name__ == "__main__":``, and define custom metrics as module-level functions. Nothing is
    pickled to disk. If the block fails or is interrupted, pending tasks are cancelled.

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
    executor = _opened(backend, workers, address, validation.integer(gpus, "gpus", low=0))
    try:
        yield executor
    except BaseException:
        executor.shutdown(cancel_futures=True)
        raise
    executor.shutdown()


def _opened(backend: str, workers: int | None, address: str | None, gpus: int) -> Executor:
    name = validation.choice(backend, "backend", BACKENDS)
    n_workers = n_cores() if workers is None else validation.integer(workers, "workers", low=1)
    if name == "ray":
        return RayExecutor(n_workers, address=address, gpus=gpus)
    if name == "dask":
        return DaskExecutor(n_workers, address=address, gpus=gpus)
    if address is not None:
        raise InvalidInputError(
            f"`address` is {address!r}, but {name} run only on this machine; omit it"
        )
    if gpus:
        raise InvalidInputError(f"`gpus` is {gpus}, but {name} do not assign GPUs; omit it")
    if name == "threads":
        return ThreadPoolExecutor(n_workers, "eval-toolkit")
    # Imported lazily, since few users need it. Spawn, because fork copies locks held by other
    # threads.
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    return ProcessPoolExecutor(
        n_workers,
        mp_context=get_context("spawn"),
        initializer=_begin,
        initargs=(secret_variables(),),
    )


def _begin(secrets: dict[str, str]) -> None:
    """Ignore interrupts, and set the API keys that scorers may need.

    Ctrl-C is sent to every process of a terminal; only the waiting parent handles it. The keys are
    passed this way because the initial environment of a process can be read by other processes.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(secrets)
