"""``eval-toolkit rescore``: stored rollouts under other scorers; judges alone are asked."""

from typing import Any

import click

from eval_toolkit.cli._exit import EXIT_FAILED
from eval_toolkit.cli._options import form_options
from eval_toolkit.cli._rollout_page import rescored_page
from eval_toolkit.cli._scorers import load_scorers
from eval_toolkit.cli._show import Output
from eval_toolkit.rollouts import rescore_rollouts
from eval_toolkit.rollouts.measures.measuring import POLICIES

__all__ = ["rescore"]


@click.command()
@click.argument("run", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--scorer",
    "scorers",
    multiple=True,
    required=True,
    metavar="SCORER",
    help="As in `rollout`: toxicity:insult@0.7, keywords:WORD,WORD, … Repeatable.",
)
@click.option("--asr-at", multiple=True, type=click.IntRange(1), metavar="K",
              help="Report the chance that one of K rollouts succeeds. Repeatable.")  # fmt: skip
@click.option(
    "--policy", type=click.Choice(POLICIES), help="As in `rollout`; the run's by default."
)
@click.option("--on-error", type=click.Choice(["exclude", "as_zero"]), default="exclude",
              show_default=True, help="What a rollout that broke counts as.")  # fmt: skip
@click.option("--max-error-rate", default=0.0, show_default=True, type=click.FloatRange(0, 1),
              help="Broken rollouts that are put up with; above it the exit code is 3.")  # fmt: skip
@click.option("--confidence", default=0.95, show_default=True, help="Of the intervals.",
              type=click.FloatRange(0, 1, min_open=True, max_open=True))  # fmt: skip
@click.option("--out", type=click.Path(file_okay=False), metavar="FOLDER",
              help="Where the new run is kept; nowhere by default.")  # fmt: skip
@form_options
def rescore(
    run: str, scorers: tuple[str, ...], out: str | None, output: Output, **given: Any
) -> None:
    """Score the rollouts of RUN again: other scorers, other thresholds, the same conversations.

    RUN stays as it is. A judge among the scorers is asked what RUN does not hold already; tester
    and target are not.
    """
    given["asr_at"] = given["asr_at"] or None
    done = rescore_rollouts(run, load_scorers(scorers), out, **given)
    output.emit(rescored_page(done))
    if done.too_many_errors:
        raise click.exceptions.Exit(EXIT_FAILED)
