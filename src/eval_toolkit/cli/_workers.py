"""Run the shards of a task on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eval_toolkit.cli._messages import say
from eval_toolkit.cli._models import ModelChoice
from eval_toolkit.models.servers import the_server, user_server

if TYPE_CHECKING:
    from eval_toolkit.models.prices import Prices
    from eval_toolkit.runs import Outcome
    from eval_toolkit.tasks.base import BaseTask


@dataclass(frozen=True)
class Fleet:
    """Executor and number of shards for a task run."""

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
    """Callable that runs one shard on a worker, loading the model there."""

    choice: ModelChoice
    at: Mapping[str, Any]
    prices: Prices | None

    def __call__(self, task: BaseTask[Any], **options: Any) -> Outcome:
        from eval_toolkit.tasks.running import run_task

        with user_server(self.at, prices=self.prices):
            return run_task(task, self.choice.load(), **options)
