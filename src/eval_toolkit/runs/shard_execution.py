"""`run_shards`: run the shards of an evaluation on an executor and merge them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, as_completed
from pathlib import Path
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit._internal.files import make_private, private_folder, read_regular
from eval_toolkit.errors import ArtifactError, EvalToolkitError
from eval_toolkit.runs.folder import run_state
from eval_toolkit.runs.lock import LOCK
from eval_toolkit.runs.merging import merge_runs
from eval_toolkit.runs.outcome import Outcome

Files = dict[str, bytes]


def run_shards(
    run: Callable[..., Outcome],
    *given: Any,
    out: str | Path,
    shards: int,
    executor: Executor,
    merging: Mapping[str, Any] | None = None,
    on_shard: Callable[[str], object] | None = None,
    **options: Any,
) -> Outcome:
    """Run the shards of an evaluation on the workers of an executor and merge them.

    Workers need no shared disk: the files of a shard are sent to its worker and back. They are kept
    in ``OUT.shards`` until they are merged, so that the same call resumes after a failure.

    Parameters
    ----------
    run : callable
        `run_task`, `run_rollouts` or a similar function that takes ``out`` and ``shard``.
    *given
        Positional arguments of ``run``. Pass models by name, such as ``"hf:NAME"``, so that each
        worker loads its own.
    out : path
        New folder for the merged run.
    shards : int
        Number of shards; several per worker balance the load.
    executor : Executor
        Executor from `open_executor`, such as Ray or Dask on a cluster.
    merging : mapping, optional
        Options of `merge_runs`, such as ``task`` and ``graders``.
    on_shard : callable, optional
        Callback that receives the name of each finished shard, such as "2/8".
    **options
        Keyword arguments of ``run``.

    Returns
    -------
    Outcome
        Outcome of the merged run.

    Raises
    ------
    ArtifactError
        If the folder already contains a run.
    EvalToolkitError
        If a shard fails. The first error is raised once all shards have ended; finished answers are
        kept.

    Examples
    --------
    >>> from eval_toolkit.integrations.executors import open_executor
    >>> from eval_toolkit.tasks import run_task
    >>> quiz = [{"question": f"{n} + 1?", "answer": str(n + 1)} for n in range(9)]
    >>> folder = tempfile.mkdtemp() + "/run"
    >>> with open_executor("threads", 2) as executor:
    ...     done = run_shards(
    ...         run_task, quiz, "scripted:4", out=folder, shards=3, executor=executor
    ...     )
    >>> done.card["match"].n_units
    9
    """
    n = validation.integer(shards, "shards", low=1)
    folder = Path(out)
    if folder.exists() and run_state(folder) != "not a run":
        raise ArtifactError(f"{folder}: already contains a run; choose another folder")
    kept = folder.with_name(f"{folder.name}.shards")
    places = {f"{i}/{n}": kept / f"{i}-of-{n}" for i in range(1, n + 1)}
    under_way = {
        executor.submit(
            _shard, run, given, {**options, "shard": shard}, _files(place), str(place)
        ): shard
        for shard, place in places.items()
    }
    failed: list[BaseException] = []
    for future in as_completed(under_way):
        shard = under_way[future]
        try:
            files, error = future.result()
        except Exception as broken:  # the worker died, or rejected the shard
            failed.append(broken)
            continue
        _store(places[shard], files)
        failed += [] if error is None else [error]
        if error is None and on_shard is not None:
            on_shard(shard)
    if failed:
        raise failed[0]
    rate = options.get("max_error_rate", 0.0)
    done = merge_runs(places.values(), folder, max_error_rate=rate, **(merging or {}))
    shutil.rmtree(kept)
    return done


def _shard(
    run: Callable[..., Outcome],
    given: tuple[Any, ...],
    options: Mapping[str, Any],
    files: Files,
    where: str,
) -> tuple[Files, EvalToolkitError | None]:
    """Run one shard on a worker and return its files, even if it is unfinished.

    ``where`` is the folder named in messages.
    """
    with tempfile.TemporaryDirectory(prefix="eval-toolkit-shard-") as place:
        folder = Path(place) / options["shard"].replace("/", "-of-")
        _store(folder, files)
        error = None
        try:
            run(*given, out=folder, **options)
        except EvalToolkitError as stopped:
            error = stopped
            error.args = (str(stopped).replace(str(folder), where),)
        return _files(folder), error


def _files(folder: Path) -> Files:
    if not folder.is_dir():
        return {}
    names = [path for path in folder.iterdir() if path.is_file() and path.name != LOCK]
    return {path.name: read_regular(path) for path in names}


def _store(folder: Path, files: Files) -> None:
    """Replace the stored files of a shard."""
    if not files:
        return
    private_folder(folder.parent)
    fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    for name, data in files.items():
        if Path(name).name != name:
            raise ArtifactError(
                f"{folder}: a worker returned a file outside the folder: {name!r:.80}"
            )
        (fresh / name).write_bytes(data)
        make_private(fresh / name)
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)
