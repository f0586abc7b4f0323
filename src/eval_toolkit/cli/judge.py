"""``eval-toolkit judge``: judge stored answers, and measure the agreement of judges."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from eval_toolkit._internal.display import Page, Table
from eval_toolkit.cli._exit import EXIT_FAILED
from eval_toolkit.cli._judge_options import (
    Judging,
    judging_options,
    loaded_judge,
    max_tokens_option,
    temperature_option,
    typed,
)
from eval_toolkit.cli._judge_page import pairs_page
from eval_toolkit.cli._judge_study import study
from eval_toolkit.cli._models import ModelChoice, model_options
from eval_toolkit.cli._options import output_options, passing
from eval_toolkit.cli._output import Output
from eval_toolkit.cli._query_options import QueryOptions, asking_options, progress_bar, resumable
from eval_toolkit.cli._task_page import task_page
from eval_toolkit.cli._tasks import load_chosen_task, whole_task_options, with_perturbations
from eval_toolkit.graders.judges import RUBRICS, PairJudge
from eval_toolkit.runs import Run
from eval_toolkit.tasks.pairing import judge_pairs
from eval_toolkit.tasks.rescoring import judge_run

_RUN = click.Path(exists=True, file_okay=False)


@click.group()
def judge() -> None:
    """Judge stored answers, and compare judges with human labels."""


judge.add_command(study)

_task = click.option(
    "--task",
    required=True,
    metavar="TASK",
    help="Task of the run; pass the same options as for the run (--data, --fewshot …).",
)
_perturb = click.option(
    "--perturb",
    "perturbations",
    multiple=True,
    metavar="KIND[=P]",
    help="Perturbation used in the run.",
)


@judge.command()
@click.argument("run", type=_RUN, metavar="RUN")
@_task
@judging_options(required=True)
@click.option(
    "--grader",
    "graders",
    multiple=True,
    metavar="NAME",
    help="Grader to apply together with the judges, instead of the run's own graders. Repeatable.",
)
@whole_task_options
@_perturb
@model_options
@asking_options
def run(
    run: str,
    task: str,
    graders: Sequence[str],
    perturbations: Sequence[str],
    options: dict[str, Any],
    choose: Callable[..., ModelChoice],
    asked: QueryOptions,
    judging: Judging,
) -> None:
    """Judge the stored answers of a run: `rescore RUN --judge`, stored in runs/.

    The evaluated model is not queried again. Every verdict is stored with its prompt; a
    verdict that cannot be parsed is an error, never a number. Run the same command again to
    resume after an interruption. --out RUN adds the verdicts to the run itself.

    \b
    eval-toolkit judge run runs/mine --task my.toml --judge openai:m --rubric correctness
    """  # noqa: D301
    chosen = with_perturbations(load_chosen_task(task, options), perturbations)
    source = Run.open(run)
    judges = judging.judges(choose, asked.engine["concurrency"])
    folder = asked.folder(
        f"{chosen.NAME}-{_answered_by(source)}-judged",
        {
            "run": str(source.path.resolve()),
            "task": chosen.describe(),
            "judges": [one.version for one in judges],
        },
    )
    with resumable(folder), progress_bar(asked.quiet) as bar:
        done = judge_run(
            source,
            chosen,
            judges,
            folder,
            graders=list(graders) or None,
            on_progress=bar,
            **typed(asked.counted),
            **asked.engine,
        )
    asked.output.emit(task_page(done, asks=False))
    if done.too_many_errors:
        raise click.exceptions.Exit(EXIT_FAILED)


@dataclass(frozen=True)
class PairJudging:
    """Options for a judge that compares pairs of answers."""

    model: str
    criteria: str | None
    one_order: bool
    disagreeing: str
    temperature: float
    max_tokens: int

    def judge(self, choose: Callable[..., ModelChoice], concurrency: int | None) -> PairJudge:
        """Return the judge."""
        criteria: dict[str, Any] = {} if self.criteria is None else {"criteria": self.criteria}
        return PairJudge(
            loaded_judge(choose, self.model, concurrency),
            **criteria,
            both_orders=not self.one_order,
            inconsistent=self.disagreeing,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
        )


@judge.command()
@click.argument("run_a", type=_RUN, metavar="RUN_A")
@click.argument("run_b", type=_RUN, metavar="RUN_B")
@_task
@click.option(
    "--judge",
    "model",
    required=True,
    metavar="MODEL",
    help="Judge model: openai:NAME, … (see `models list`).",
)
@click.option(
    "--criteria", metavar="TEXT", help="Criteria by which the judge selects the better answer."
)
@click.option(
    "--one-order",
    is_flag=True,
    help="Query each pair only once, in random order; this halves the cost but adds noise.",
)
@click.option(
    "--disagreeing",
    type=click.Choice(["tie", "error"]),
    default="tie",
    show_default=True,
    help="Verdict if the winner depends on the order.",
)
@temperature_option
@max_tokens_option
@click.option(
    "--on-mismatch",
    type=click.Choice(["raise", "drop"]),
    default="raise",
    show_default=True,
    help="How to handle items with the same id but different content.",
)
@whole_task_options
@_perturb
@model_options
@asking_options
@passing("judging", PairJudging)
def pairs(
    run_a: str,
    run_b: str,
    task: str,
    judging: PairJudging,
    on_mismatch: str,
    perturbations: Sequence[str],
    options: dict[str, Any],
    choose: Callable[..., ModelChoice],
    asked: QueryOptions,
) -> None:
    """Compare the answers of two runs pairwise with a judge model.

    Every pair of answers is shown in both orders. The win rate of A counts a tie as half; a pair
    whose winner depends on the order is a tie (--disagreeing). The win rate of the answer shown
    first measures position bias.

    \b
    eval-toolkit judge pairs runs/old runs/new --task my.toml --judge openai:m
    """  # noqa: D301
    chosen = with_perturbations(load_chosen_task(task, options), perturbations)
    runs = Run.open(run_a), Run.open(run_b)
    asking = judging.judge(choose, asked.engine["concurrency"])
    folder = asked.folder(
        f"{chosen.NAME}-{_answered_by(runs[0])}-{_answered_by(runs[1])}-pairs",
        {
            "runs": [str(one.path.resolve()) for one in runs],
            "task": chosen.describe(),
            "judge": asking.version,
        },
    )
    with resumable(folder), progress_bar(asked.quiet) as bar:
        done = judge_pairs(
            runs[0],
            runs[1],
            chosen,
            asking,
            folder,
            on_mismatch=on_mismatch,
            on_progress=bar,
            **asked.counted,
            **asked.engine,
        )
    asked.output.emit(pairs_page(chosen, done, runs))
    if done.too_many_errors:
        raise click.exceptions.Exit(EXIT_FAILED)


@judge.command()
@output_options
def rubrics(output: Output) -> None:
    """List the built-in rubrics."""
    better = {True: "more", False: "less", None: ""}
    rows = [
        [
            rubric.name,
            ", ".join(fields) if len(fields) > 1 else next(iter(fields.values())).asked,
            better[next(iter(fields.values())).info.higher_is_better],
            rubric.criteria,
        ]
        for rubric in RUBRICS.values()
        for fields in [rubric.verdict.fields]
    ]
    note = (
        "custom rubric: a TOML or YAML file with name, criteria and verdict, such as "
        "verdict = { labels = { yes = 1, no = 0 } } or "
        '{ where = "brackets", scale = [1, 10] }'
    )
    payload = {"rubrics": [rubric.to_dict() for rubric in RUBRICS.values()]}
    header = ["rubric", "verdict", "better", "criteria"]
    output.emit(Page("rubrics", payload, (), [Table(header, rows)], [note]))


def _answered_by(run: Run) -> str:
    """Return the name of the model that produced a run's answers, if stored."""
    model = (run.manifest.get("config") or {}).get("model")
    return str(model.get("name", "")) if isinstance(model, Mapping) else ""
