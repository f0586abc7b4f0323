"""Options of runs that are divided: one shard, or all of them on the workers of a cluster."""

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
    help="Evaluate part I of N, chosen by the hash of each item; `merge` joins the parts.",
)
_OPTIONS = (
    click.option("--backend", type=click.Choice(BACKENDS),
                 help="Run --shards on these workers and merge them; Ray and Dask join the cluster "
                     "at RAY_ADDRESS or DASK_SCHEDULER_ADDRESS."),
    click.option("--shards", type=click.IntRange(1), metavar="N", help="Number of shards of --backend."),
    click.option("--workers", type=click.IntRange(1),
                 help="Number of concurrent shards of --backend.  [default: one per core]"),
    click.option("--gpus", default=0, type=click.IntRange(0),
                 help="Number of GPUs of each shard of --backend ray or dask."),
)  # fmt: skip


def refuse_shard(shard: str | None) -> None:
    """Raise if one shard is to be planned."""
    if shard is not None:
        raise click.UsageError("--dry-run plans the whole run; remove --shard")


def shard_folder(
    asked: QueryOptions, shard: str | None, name: str, told: Mapping[str, Any]
) -> Path | None:
    """Return the folder of a run or of one shard of it; those of one run differ in the end."""
    folder = asked.folder(name, told)
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
        raise click.UsageError("--backend needs --shards N, such as four per worker")
    from eval_toolkit.cli._workers import Fleet  # rarely needed

    return Fleet(backend, shards, workers, gpus)


fleet_options = passing("fleet", _fleet, _OPTIONS)
"""Add the options of a cluster; the command gets ``fleet``, None without ``--backend``."""
