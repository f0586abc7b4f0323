"""``eval-toolkit transcripts``: print or export the conversations of a rollout run."""

import sys
from pathlib import Path
from typing import Any

import click

from eval_toolkit.cli._messages import reader_may_go, say
from eval_toolkit.cli._output import refuse_target
from eval_toolkit.errors import ArtifactError
from eval_toolkit.rollouts.seeds.stored import seeds_of
from eval_toolkit.rollouts.transcribing import TRANSCRIPT_FORMATS, write_transcripts
from eval_toolkit.rollouts.transcribing import transcripts as told
from eval_toolkit.rollouts.turns import rollouts_of
from eval_toolkit.runs import Run


@click.command()
@click.argument("run", metavar="RUN")
@click.option(
    "--format",
    type=click.Choice(TRANSCRIPT_FORMATS),
    help=(
        "Plain text, one JSON line per conversation, Markdown, or one CSV row per turn.  "
        "[default: from the suffix of --out, else txt]"
    ),
)
@click.option("--out", metavar="FILE", help="Write to this file instead of printing.")
@click.option(
    "--failed",
    "--wrong",
    "failed",
    is_flag=True,
    help="Print only conversations in which the target failed.",
)
@click.option("--unit", metavar="ID", help="Print only rollouts from this seed prompt.")
@click.option(
    "--part",
    "--where",
    "part",
    metavar="NAME=VALUE",
    help="Print only rollouts whose seed prompt has this value, e.g. category=rude or safe=True.",
)
def transcripts(
    run: str,
    format: str | None,  # noqa: A002 - the option's name
    out: str | None,
    failed: bool,
    unit: str | None,
    part: str | None,
) -> None:
    """Print the conversations of a rollout run.

    The format is text, JSON lines, Markdown or CSV. In a tree, every path from the seed prompt to a
    last turn is a conversation; in CSV, every turn appears once.

    \b
    eval-toolkit transcripts runs/red-team --failed --part category=rude
    eval-toolkit transcripts runs/red-team --out turns.csv
    """  # noqa: D301
    stored = Run.open(run)
    graphs = rollouts_of(stored)
    selection: dict[str, Any] = {"failed_only": failed, "unit": unit, "part": part}
    try:
        selection["prompts"] = seeds_of(stored)
    except ArtifactError:  # the conversations are complete without their parts
        if part is not None:
            raise
    if out is not None:
        refuse_target(Path(out), "--out", [run])
        write_transcripts(graphs, out, format, **selection)
        say(f"wrote {out}", err=True)
        return
    n_shown = 0
    for piece in told(graphs, format or "txt", **selection):
        n_shown += 1
        _print(piece)
    if format == "jsonl" and not n_shown:
        say("no conversation matches", err=True)


def _print(piece: str) -> None:
    """Print lines as UTF-8, escaping control characters on a terminal."""
    if sys.stdout is not None and sys.stdout.isatty():
        say("".join(c if c.isprintable() or c in "\n\t" else " " for c in piece), nl=False)
        return
    with reader_may_go():
        click.echo(piece.encode(), nl=False)
