"""Options for sharded runs: a single shard, or all shards on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eval_toolkit.cli._options import BACKENDS, passing
from eval_toolkit.cli._query_options import QueryOptions

if TYPE_CHECKING:
    from eval_toolkit.cli._workers import Fleet


shard_option = click.option(
    "--shard",
    metavar="I/N",
    help="Evaluate only shard I of N; items are assigned by hash. `merge` joins the shards.",
)
_OPTIONS = (
    click.option("--backend", type=click.Choice(BACKENDS),
                 help="Run the shards with this executor and merge them; Ray and Dask connect to "
                     "the cluster at RAY_ADDRESS or DASK_SCHEDULER_ADDRESS."),
    click.option("--shards", type=click.IntRange(1), metavar="N",
        help="Number of shards to run with --backend."),
    click.option("--workers", type=click.IntRange(1),
                 help="Number of shards that run concurrently.  [default: one per core]"),
    click.option("--gpus", default=0, type=click.IntRange(0),
                 help="Number of GPUs per shard (--backend ray or dask)."),
)  # fmt: skip


def refuse_shard(shard: str | None) -> None:
    """Raise if --dry-run is combined with --shard."""
    if shard is not None:
        raise click.UsageError("--dry-run plans the whole run; remove --shard")


def shard_folder(
    asked: QueryOptions, shard: str | None, name: str, settings: Mapping[str, Any]
) -> Path | None:
    """Return the default folder of a run; the name of a shard's folder ends in ``I-of-N``."""
    folder = asked.folder(name, settings)
    if folder is None or shard is None or asked.out is not None:
        return folder
    from eval_toolkit.runs.shards import Shard

    part = str(Shard.read(shard)).replace("/", "-of-")
    return folder.with_name(f"{folder.name}-{part}")


def _fleet(backend: str | None, shards: int | None, workers: int | None, gpus: int) -> Fleet | None:
    given = {"backend": backend, "shards": shards, "workers": workers, "gpus": gpus}
    needs = next((name for name, value in given.items() if value), None)
    if needs is None:
        return None
    if backend is None:
        raise click.UsageError(f"--{needs} needs --backend")
    if shards is None:
        raise click.UsageError("--backend needs --shards N, for example four per worker")
    from eval_toolkit.cli._workers import Fleet  # rarely needed

    return Fleet(backend, shards, workers, gpus)


fleet_options = passing("fleet", _fleet, _OPTIONS)
"""Add the options for a cluster; the command receives ``fleet``, None without ``--backend``."""
