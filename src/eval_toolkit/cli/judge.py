"""``eval-toolkit judge``: models that judge stored answers, and how far they can be trusted."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from eval_toolkit._display import Page, Table
from eval_toolkit.cli._asking import Asked, asking_options, progress_bar, resumable
from eval_toolkit.cli._exit import EXIT_FAILED
from eval_toolkit.cli._judge_page import pairs_page
from eval_toolkit.cli._judge_study import study
from eval_toolkit.cli._models import ModelChoice, is_http, model_options
from eval_toolkit.cli._options import output_options
from eval_toolkit.cli._show import Output
from eval_toolkit.cli._task_page import task_page
from eval_toolkit.cli._tasks import load_chosen_task, whole_task_options, with_perturbations
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.judges import RUBRICS, Judge, PairJudge, Panel, Rubric
from eval_toolkit.protocols import Model
from eval_toolkit.runs import Run
from eval_toolkit.tasks.declared import read_tables
from eval_toolkit.tasks.pairing import judge_pairs
from eval_toolkit.tasks.rescoring import judge_run

__all__ = ["judge"]

_FILES = (".toml", ".yaml", ".yml")
_RUN = click.Path(exists=True, file_okay=False)


@click.group()
def judge() -> None:
    """Let models judge stored answers, and see how far they agree with people."""


judge.add_command(study)

_task = click.option(
    "--task",
    required=True,
    metavar="TASK",
    help="The task, set up as it was asked (--data, --fewshot …).",
)
_temperature = click.option(
    "--temperature", default=0.0, show_default=True, type=click.FloatRange(min=0),
    help="Of the verdicts.",
)  # fmt: skip
_max_tokens = click.option(
    "--max-tokens", default=512, show_default=True, type=click.IntRange(1), help="Of a verdict."
)


_perturb = click.option(
    "--perturb", "perturbations", multiple=True, metavar="KIND[=P]", help="As it was asked."
)


@judge.command()
@click.argument("run", type=_RUN, metavar="RUN")
@_task
@click.option(
    "--judge",
    "models",
    required=True,
    multiple=True,
    metavar="MODEL",
    help="Who judges: openai:NAME, … (`models list`), with options of its own as in "
    "\"openai:NAME{base_url='URL'}\". Several are a panel.",
)
@click.option(
    "--rubric",
    "rubrics",
    multiple=True,
    metavar="NAME|FILE",
    help="What is judged (`judge rubrics`), or a TOML or YAML file. Repeatable. "
    "[default: correctness]",
)
@click.option(
    "--votes",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    help="Verdicts per answer; more than one needs --temperature.",
)
@click.option(
    "--rule",
    type=click.Choice(["majority", "mean"]),
    default="majority",
    show_default=True,
    help="What several votes, or judges, come to.",
)
@_temperature
@_max_tokens
@click.option(
    "--grader",
    "graders",
    multiple=True,
    metavar="NAME",
    help="Beside the judges, instead of the run's. Repeatable.",
)
@whole_task_options
@_perturb
@model_options
@asking_options
def run(
    run: str,
    task: str,
    models: Sequence[str],
    rubrics: Sequence[str],
    graders: Sequence[str],
    perturbations: Sequence[str],
    options: dict[str, Any],
    choose: Callable[..., ModelChoice],
    asked: Asked,
    **voting: Any,
) -> None:
    """Let a model judge the stored answers of a run.

    The model that answered is not asked again. Every verdict is kept with its prompt; one that
    cannot be read is an error, never a number. Killed at any moment, the same command goes on. --out RUN adds the verdicts to the run itself.

    \b
    eval-toolkit judge run runs/mine --task my.toml --judge openai:m --rubric correctness
    """  # noqa: D301
    chosen = with_perturbations(load_chosen_task(task, options), perturbations)
    source = Run.open(run)
    asking = [_loaded(choose, model, asked, among=models) for model in dict.fromkeys(models)]
    asked_rubrics = dict.fromkeys(rubrics or ["correctness"])
    judges = [_judge(_rubric(name), asking, **voting) for name in asked_rubrics]
    folder = asked.folder(
        f"{chosen.NAME}-{_answered_by(source)}-judged",
        {
            "run": str(source.path.resolve()),
            "task": chosen.describe(),
            "judges": [one.version for one in judges],
        },
    )
    with progress_bar(asked.quiet) as bar, resumable(folder):
        done = judge_run(
            source,
            chosen,
            judges,
            folder,
            graders=list(graders) or None,
            on_progress=bar,
            **_said(asked.counted),
            **asked.engine,
        )
    asked.output.emit(task_page(chosen, done, asks=False))
    if done.too_many_errors:
        raise click.exceptions.Exit(EXIT_FAILED)


@judge.command()
@click.argument("run_a", type=_RUN, metavar="RUN_A")
@click.argument("run_b", type=_RUN, metavar="RUN_B")
@_task
@click.option(
    "--judge",
    "model",
    required=True,
    metavar="MODEL",
    help="Who judges: openai:NAME, … (`models list`).",
)
@click.option("--criteria", metavar="TEXT", help="What better means, in words for the judge.")
@click.option(
    "--one-order",
    is_flag=True,
    help="Ask once per pair, in an order drawn for it: half the cost, more noise.",
)
@click.option(
    "--disagreeing",
    type=click.Choice(["tie", "error"]),
    default="tie",
    show_default=True,
    help="What two orders with different winners come to.",
)
@_temperature
@_max_tokens
@click.option(
    "--on-mismatch",
    type=click.Choice(["raise", "drop"]),
    default="raise",
    show_default=True,
    help="What to do with items of one id whose content differs.",
)
@whole_task_options
@_perturb
@model_options
@asking_options
def pairs(
    run_a: str,
    run_b: str,
    task: str,
    model: str,
    criteria: str | None,
    one_order: bool,
    disagreeing: str,
    temperature: float,
    max_tokens: int,
    on_mismatch: str,
    perturbations: Sequence[str],
    options: dict[str, Any],
    choose: Callable[..., ModelChoice],
    asked: Asked,
) -> None:
    """Let a model say which of two runs answered better.

    Every pair of answers is shown in both orders. The win rate of A counts a tie as half; two orders that name different winners are a tie. How
    often the first answer shown wins tells whether the judge goes by the place.

    \b
    eval-toolkit judge pairs runs/old runs/new --task my.toml --judge openai:m
    """  # noqa: D301
    chosen = with_perturbations(load_chosen_task(task, options), perturbations)
    runs = Run.open(run_a), Run.open(run_b)
    told: dict[str, Any] = {} if criteria is None else {"criteria": criteria}
    asking = PairJudge(
        _loaded(choose, model, asked),
        **told,
        both_orders=not one_order,
        inconsistent=disagreeing,
        temperature=temperature,
        max_tokens=max_tokens,
    )
    folder = asked.folder(
        f"{chosen.NAME}-{_answered_by(runs[0])}-{_answered_by(runs[1])}-pairs",
        {
            "runs": [str(one.path.resolve()) for one in runs],
            "task": chosen.describe(),
            "judge": asking.version,
        },
    )
    with progress_bar(asked.quiet) as bar, resumable(folder):
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
    """List what can be judged: the ready rubrics."""
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
        "a rubric of your own: a TOML or YAML file with name, criteria and verdict, such as "
        'verdict = { labels = { yes = 1, no = 0 } } or { where = "brackets", scale = [1, 10] }'
    )
    payload = {"rubrics": [rubric.to_dict() for rubric in RUBRICS.values()]}
    header = ["rubric", "verdict", "better", "what the judge is told"]
    output.emit(Page("rubrics", payload, (), [Table(header, rows)], [note]))


def _rubric(given: str) -> Rubric:
    """Return a ready rubric by name, or the one that a file holds."""
    if not given.lower().endswith(_FILES):
        return Rubric.of(given)
    tables = read_tables(Path(given))
    try:
        return Rubric.of(tables)
    except InvalidInputError as error:
        said = str(error).replace(f"the rubric {dict(tables)!r:.60}", "the rubric")
        raise InvalidInputError(f"{given}: {said}") from None


def _judge(rubric: Rubric, models: Sequence[Model], rule: str, **options: Any) -> Judge | Panel:
    """Return one judge, or a panel of several that are told apart by their models."""
    if len(models) == 1:
        return Judge(rubric, models[0], rule=rule, **options)
    # A judge's name stands in the step of its requests, which has colons of its own.
    names = _numbered([f"{rubric.name}_{model.name}".replace(":", "-") for model in models])
    members = [
        Judge(rubric, one, name=name, rule=rule, **options)
        for name, one in zip(names, models, strict=True)
    ]
    return Panel(members, rule=rule, name=rubric.name)


def _numbered(names: Sequence[str]) -> list[str]:
    """Return names that differ: the second of one name is "name_2"."""
    return [
        name if names[:at].count(name) == 0 else f"{name}_{names[:at].count(name) + 1}"
        for at, name in enumerate(names)
    ]


def _loaded(
    choose: Callable[..., ModelChoice], model: str, asked: Asked, among: Sequence[str] = ()
) -> Model:
    """Return who judges; one that limits itself is told how many requests are wanted at once."""
    wanted = asked.engine["concurrency"]
    told = {"concurrency": wanted} if wanted and is_http(model) else {}
    return choose(model, among=among, **told).load()


def _said(counted: dict[str, Any]) -> dict[str, Any]:
    """Return what was typed; the rest is as the run that is judged has it."""
    context = click.get_current_context()
    typed = ParameterSource.COMMANDLINE
    return {
        name: value
        for name, value in counted.items()
        if context.get_parameter_source(name) is typed
    }


def _answered_by(run: Run) -> str:
    """Return the name of the model whose answers a run holds, as far as it says."""
    model = (run.manifest.get("config") or {}).get("model")
    return str(model.get("name", "")) if isinstance(model, Mapping) else ""
