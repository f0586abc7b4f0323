"""Options for sharded runs: one shard, or all shards on the workers of a cluster."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from eval_toolkit.cli._messages import say
from eval_toolkit.cli._models import ModelChoice
from eval_toolkit.cli._options import BACKENDS
from eval_toolkit.cli._query_options import QueryOptions
from eval_toolkit.models.servers import the_server, user_server

if TYPE_CHECKING:
    from eval_toolkit.models.prices import Prices
    from eval_toolkit.runs import Outcome
    from eval_toolkit.tasks.base import BaseTask

_Command = TypeVar("_Command", bound=Callable[..., Any])

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
                 help="Number of shards that run at the same time.  [default: one per core]"),
    click.option("--gpus", default=0, type=click.IntRange(0),
                 help="Number of GPUs per shard (--backend ray or dask)."),
)  # fmt: skip


def fleet_options(command: _Command) -> _Command:
    """Add the options for a cluster; the command receives ``fleet``, None without ``--backend``."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        given = {name: kwargs.pop(name) for name in ("backend", "shards", "workers", "gpus")}
        needs = next((name for name, value in given.items() if value), None)
        if given["backend"] is None and needs is not None:
            raise click.UsageError(f"--{needs} needs --backend")
        if given["backend"] is not None and given["shards"] is None:
            raise click.UsageError("--backend needs --shards N, such as four per worker")
        fleet = None if needs is None else Fleet(**given)
        return command(*args, fleet=fleet, **kwargs)

    decorated: Any = wrapped
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


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


@dataclass(frozen=True)
class Fleet:
    """Workers that run the shards of a task."""

    backend: str
    shards: int
    workers: int | None
    gpus: int

    def refuse(self, *, folder: bool, **given: Any) -> None:
        """Raise if an option cannot be combined with --backend."""
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
        """Run all shards of a task, each with its own model, and merge them."""
        from eval_toolkit.integrations.executors import open_executor  # slow, rarely needed
        from eval_toolkit.runs import run_shards

        server = the_server()
        at = {"base_url": server.base_url, "api_key_env": server.api_key_env}
        worker = _Worker(choice, at, server.prices)
        report_shard = None if quiet else lambda shard: say(f"shard {shard} is finished", err=True)
        with open_executor(self.backend, self.workers, gpus=self.gpus) as executor:
            return run_shards(
                worker,
                task,
                out=folder,
                shards=self.shards,
                executor=executor,
                merging={"task": task, "graders": options["graders"]},
                on_shard=report_shard,
                **options,
            )


@dataclass(frozen=True)
class _Worker:
    """Run one shard on a worker, with the user's server and its own model."""

    choice: ModelChoice
    at: Mapping[str, Any]
    prices: Prices | None

    def __call__(self, task: BaseTask[Any], **options: Any) -> Outcome:
        from eval_toolkit.tasks.running import run_task

        with user_server(self.at, prices=self.prices):
            return run_task(task, self.choice.load(), **options)
