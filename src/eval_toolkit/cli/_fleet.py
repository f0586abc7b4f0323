"""Options of runs that are divided: one shard, or all of them on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eval_toolkit.cli._models import ModelChoice
from eval_toolkit.cli._options import BACKENDS, passing
from eval_toolkit.cli._query_options import QueryOptions
from eval_toolkit.cli._text import say
from eval_toolkit.models.servers import the_server, user_server

if TYPE_CHECKING:
    from eval_toolkit.models.prices import Prices
    from eval_toolkit.runs import Outcome
    from eval_toolkit.tasks.base import BaseTask


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


@dataclass(frozen=True)
class Fleet:
    """Workers that run the shards of a task."""

    backend: str
    shards: int
    workers: int | None
    gpus: int

    def refuse(self, *, folder: bool, **given: Any) -> None:
        """Raise if an option does not suit a divided run."""
        for name, value in given.items():
            if value is not None:
                raise click.UsageError(f"--{name} cannot be combined with --backend")
        if not folder:
            raise click.UsageError("--no-store cannot be combined with --backend")
        if the_server().spending is not None:
            raise click.UsageError("--max-cost cannot be combined with --backend")

    def run_task(
        self, task: BaseTask[Any], choice: ModelChoice, folder: Path, quiet: bool, **options: Any
    ) -> Outcome:
        """Run all shards of a task, each with a model of its own, and merge them."""
        from eval_toolkit.integrations.executors import open_executor  # slow, rarely needed
        from eval_toolkit.runs import run_shards

        server = the_server()
        at = {"base_url": server.base_url, "api_key_env": server.api_key_env}
        worker = _Worker(choice, at, server.prices)
        told = None if quiet else lambda shard: say(f"shard {shard} is finished", err=True)
        with open_executor(self.backend, self.workers, gpus=self.gpus) as executor:
            return run_shards(
                worker,
                task,
                out=folder,
                shards=self.shards,
                executor=executor,
                merging={"task": task, "graders": options["graders"]},
                on_shard=told,
                **options,
            )


@dataclass(frozen=True)
class _Worker:
    """`run_task` as one worker calls it, with the user's server and a model of its own."""

    choice: ModelChoice
    at: Mapping[str, Any]
    prices: Prices | None

    def __call__(self, task: BaseTask[Any], **options: Any) -> Outcome:
        from eval_toolkit.tasks.running import run_task

        with user_server(self.at, prices=self.prices):
            return run_task(task, self.choice.load(), **options)


def _fleet(backend: str | None, shards: int | None, workers: int | None, gpus: int) -> Fleet | None:
    given = {"backend": backend, "shards": shards, "workers": workers, "gpus": gpus}
    needs = next((name for name, value in given.items() if value), None)
    if needs is None:
        return None
    if backend is None:
        raise click.UsageError(f"--{needs} needs --backend")
    if shards is None:
        raise click.UsageError("--backend needs --shards N, such as four per worker")
    return Fleet(backend, shards, workers, gpus)


fleet_options = passing("fleet", _fleet, _OPTIONS)
"""Add the options of a cluster; the command gets ``fleet``, None without ``--backend``."""
