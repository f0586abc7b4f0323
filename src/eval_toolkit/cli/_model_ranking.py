"""Run several models on the same task and rank them."""

import re
from collections.abc import Sequence
from pathlib import Path

import click

from eval_toolkit.cli._messages import say
from eval_toolkit.cli._query_options import ONLY_RANKED, QueryOptions


def run_each(context: click.Context, models: Sequence[str], asked: QueryOptions) -> None:
    """Run the command once per model, then rank the models.

    A model that fails is excluded from the ranking, and its exit code becomes that of the command.

    Each model has its own subfolder of ``--out``.
    """
    from eval_toolkit.analysis import leaderboard
    from eval_toolkit.cli.leaderboard import board_page

    several = list(dict.fromkeys(models))
    for option in ("replay", "measure"):
        if context.params.get(option) is not None:
            raise click.UsageError(f"--{option} applies to one model; pass one --model")
    context.meta[ONLY_RANKED] = asked.output.form != "text"
    done, code = {}, 0
    for name, folder in zip(several, _folders(several, asked.out), strict=True):
        try:
            found = context.forward(context.command, models=(name,), out=folder)
        except click.exceptions.Exit as failed:
            code = failed.exit_code
            say(f"{name}: excluded from the ranking", err=True)
            continue
        if found is not None:
            done[name] = found.as_run()
    if len(done) > 1:
        systems = {run.subjects[0][1] for run in done.values()}
        named = len(systems) < len(done)  # such as one model at two URLs
        asked.output.emit(board_page(leaderboard(done if named else list(done.values()))))
    if code:
        raise click.exceptions.Exit(code)


def _folders(models: Sequence[str], out: str | None) -> list[str | None]:
    """Return each model's subfolder of ``--out``."""
    if out is None:
        return [None] * len(models)
    plain = [re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") for name in models]
    names = [name if plain.count(name) == 1 else f"{name}-{at}" for at, name in enumerate(plain, 1)]
    return [str(Path(out) / name) for name in names]
