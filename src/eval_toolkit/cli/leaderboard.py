"""``eval-toolkit leaderboard``: rank systems on the same tasks, with intervals."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from eval_toolkit._internal.display import (
    Cell,
    Estimate,
    Interval,
    Number,
    Page,
    Rows,
    Share,
    Status,
    Table,
)
from eval_toolkit.analysis import Leaderboard, TaskUnits
from eval_toolkit.analysis import leaderboard as ranked
from eval_toolkit.artifacts import read_json
from eval_toolkit.artifacts.remote import is_remote
from eval_toolkit.cli._options import direction_options, output_options
from eval_toolkit.cli._output import Output
from eval_toolkit.inference import BootstrapCI, Ranking, SystemPair
from eval_toolkit.runs.folder import MANIFEST
from eval_toolkit.scorecards.parts import WHOLE
from eval_toolkit.tasks.suites.running import SUITE_FILE

_PASSED_ON = (
    *("adjust", "on_mismatch", "allow_version_change", "confidence", "seed", "higher_is_better"),
)


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN... | NAME=RUN...")
@click.option(
    "--metric",
    metavar="NAME",
    help="Metric to average, optionally on one slice: exact_match @ subject=Africa.  [default: "
    "each task's first metric]",
)
@click.option(
    "--task", "tasks", multiple=True, metavar="TASK", help="Use only this task. Repeatable."
)
@direction_options
@click.option(
    "--bayes",
    is_flag=True,
    help=(
        "Use posterior distributions of rates instead of bootstrap resamples; suitable for few "
        "items."
    ),
)
@click.option(
    "--adjust",
    type=click.Choice(["holm", "bh", "by", "hochberg", "bonferroni", "none"]),
    default="holm",
    show_default=True,
    help="Multiple-testing correction of the pairwise p-values.",
)
@click.option(
    "--on-mismatch",
    type=click.Choice(["raise", "drop"]),
    default="raise",
    show_default=True,
    help="How to handle items with the same id but different content.",
)
@click.option(
    "--allow-version-change",
    is_flag=True,
    help="Rank rollout runs even if a scorer or setting differs.",
)
@click.option(
    "--confidence",
    default=0.95,
    show_default=True,
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Confidence level of each interval, and joint confidence level of all ranks.",
)
@click.option("--draws", default=4000, show_default=True, type=click.IntRange(100))
@click.option("--seed", default=42, show_default=True, type=click.IntRange(0))
@output_options
def leaderboard(
    runs: Sequence[str], tasks: Sequence[str], bayes: bool, draws: int, output: Output, **given: Any
) -> None:
    """Rank systems by their results on the same tasks.

    Each RUN is a folder written by `run`, `score` or `suite`. All tasks have equal weight; only
    items answered by all systems count. NAME=RUN names a system; several runs may share a name.
    """
    board = ranked(
        _named(runs),
        metrics=given["metric"],
        tasks=list(tasks) or None,
        method="bayes" if bayes else "bootstrap",
        n_draws=draws,
        **{name: given[name] for name in _PASSED_ON},
    )
    output.emit(board_page(board), inputs=[_name_and_run(run)[1] for run in runs])


def _named(runs: Sequence[str]) -> Any:
    """Return a list of runs, or a mapping from names to runs if names are given."""
    given = [_name_and_run(run) for run in runs]
    if not any(name is not None for name, _ in given):
        return [path for run in runs for path in _runs_of(run)]
    named: dict[str, list[str]] = {}
    for name, path in given:
        if not name or not path:
            raise click.UsageError(f"{path!r}: give a name to every run (NAME=RUN), or to none")
        named.setdefault(name, []).extend(_runs_of(path))
    return named


def _name_and_run(given: str) -> tuple[str | None, str]:
    """Split NAME=RUN; an "=" inside a URL is not a separator."""
    name, equals, run = given.partition("=")
    return (name, run) if equals and not is_remote(given) else (None, given)


def _runs_of(given: str) -> list[str]:
    """Return the run itself, or the finished runs of a suite."""
    if is_remote(given):
        return [given]
    path = Path(given)
    if path.name == SUITE_FILE and path.is_file():  # matched by a glob pattern
        return []
    if (path / MANIFEST).exists() or not (path / SUITE_FILE).is_file():
        return [given]
    tasks = read_json(path / SUITE_FILE)["tasks"].values()
    return [str(path / task["path"]) for task in tasks if task["path"] is not None]


def board_page(board: Leaderboard) -> Page:
    """Return the page of a ranking."""
    ranking = board.ranking
    percent = f"{100 * ranking.confidence:g}"
    how = "posterior draws" if ranking.method == "bayes" else "resamples"
    lead = [
        (
            f"{len(board.systems)} systems, {ranking.n_parts} task{'s' * (ranking.n_parts != 1)}, "
            f"{ranking.n_units:,} items; "
            f"{'more' if ranking.higher_is_better else 'less'} is better"
        ),
        f"not significantly worse than any other: {', '.join(ranking.best)}",
    ]
    rows: Rows = [
        [
            system.rank,
            Interval(system.rank_low, system.rank_high, "d", plain=True),
            system.name,
            *_estimate(system.value, system.ci),
            Share(system.p_best, ".1f%"),
            *(Number(task.values[system.name]) for task in board.tasks if len(board.tasks) > 1),
        ]
        for system in board.systems
    ]
    header = ["rank", f"{percent} % ranks", "system", "mean", f"{percent} % interval", "best"]
    header += [task.task for task in board.tasks if len(board.tasks) > 1]
    pairs: Rows = [
        [
            f"{pair.a} - {pair.b}",
            *_difference(pair),
            Number(pair.p_adjusted, "p"),
            _verdict(pair),
        ]
        for pair in ranking.pairs
    ]
    return Page(
        title="leaderboard",
        payload=board.to_dict(),
        lead=lead,
        tables=[
            Table(header, rows),
            Table(
                ["pair", "difference", f"{percent} % interval", "p, adjusted", ""],
                pairs,
                "every pair",
            ),
        ],
        notes=[
            *board.notes,
            *(f"left out: {line}" for line in board.left_out),
            f"metrics: {', '.join(map(_metric, board.tasks))}",
            _rule(ranking),
            (
                f"best: share of {ranking.n_draws} {how} in which the system ranks first; seed "
                f"{ranking.seed}"
            ),
        ],
    )


def _metric(task: TaskUnits) -> str:
    return f"{task.task} {task.metric}" + ("" if task.part == WHOLE else f" @ {task.part}")


def _rule(ranking: Ranking) -> str:
    """Explain how systems are ranked, and at which confidence level."""
    if ranking.adjust == "none":
        return "intervals, p-values and ranks are not corrected for multiple comparisons"
    rule = (
        f"intervals are per pair; p-values, corrected for the number of pairs "
        f"({ranking.adjust}), decide which system is better and hence the ranks"
    )
    if ranking.adjust in ("bh", "by"):
        return rule
    return f"{rule}, which hold jointly at {100 * ranking.confidence:g} %"


def _estimate(value: float, ci: BootstrapCI | None) -> tuple[Cell, Cell]:
    low, high = (None, None) if ci is None else (ci.ci_low, ci.ci_high)
    return Estimate(value, low, high).split()


def _difference(pair: SystemPair) -> tuple[Cell, Cell]:
    value, ends = Estimate(pair.difference, pair.ci_low, pair.ci_high, "+").split()
    return value, ends or Status("no interval", _why(pair))


def _why(pair: SystemPair) -> str:
    """Return the reason why there is no interval."""
    return pair.reason.removeprefix("no interval: ")


def _verdict(pair: SystemPair) -> str:
    """Return the better of two systems, or the reason why the comparison is inconclusive."""
    if pair.better is not None:
        return f"{pair.better} is better"
    if pair.ci_low is None or pair.ci_high is None:
        return "not tested"
    corrected = not pair.ci_low <= 0.0 <= pair.ci_high
    return "no significant difference" + (" after correction" if corrected else "")
