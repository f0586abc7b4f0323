"""``eval-toolkit run``: evaluate a model on a task, with intervals; runs can be resumed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from eval_toolkit.cli._exit import EXIT_FAILED
from eval_toolkit.cli._fleet import fleet_options, refuse_shard, shard_folder, shard_option
from eval_toolkit.cli._messages import say
from eval_toolkit.cli._models import ModelChoice, model_options
from eval_toolkit.cli._output import Output
from eval_toolkit.cli._query_options import (
    ONLY_RANKED,
    QueryOptions,
    asking_options,
    progress_bar,
    reasoning_option,
    resumable,
)
from eval_toolkit.cli._stopping_options import Until, until_options
from eval_toolkit.cli._task_page import estimate_page, task_page
from eval_toolkit.cli._tasks import (
    load_chosen_task,
    sandbox_option,
    task_options,
    with_perturbations,
)
from eval_toolkit.models.runner import Progress
from eval_toolkit.models.servers import cost_text, server_of_model
from eval_toolkit.protocols import Model
from eval_toolkit.runs import Outcome
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.planning import Estimate, attempts_of
from eval_toolkit.tasks.running import estimate, run_task

if TYPE_CHECKING:
    from eval_toolkit.cli._workers import Fleet


@dataclass(frozen=True)
class _Asking:
    """Settings of a run other than its task and model."""

    asked: dict[str, Any]
    """Settings that determine the answers."""
    graded: dict[str, Any]
    """Settings of grading and aggregation."""
    engine: dict[str, Any]
    """Concurrency and cache, which do not affect results."""


@click.command()
@click.argument("task")
@click.option(
    "--model",
    "models",
    metavar="MODEL",
    multiple=True,
    help="Model to query: embedded, openai:NAME, … (see `models list`). If repeated, models "
    "are ranked.",
)
@task_options
@click.option(
    "--attempts",
    type=click.IntRange(1),
    help="Number of attempts per sample; defaults to the task's setting.",
)
@click.option(
    "--format",
    "formatter",
    metavar="NAME",
    help="Prompt format for messages: chat, plain, concat, chatml, llama3.",
)
@click.option(
    "--temperature", type=click.FloatRange(min=0), help="Sampling temperature; 0 by default."
)
@click.option(
    "--top-p", type=click.FloatRange(0, 1, min_open=True), help="Nucleus sampling probability."
)
@click.option(
    "--max-tokens",
    type=click.IntRange(1),
    help="Maximum number of tokens per answer; defaults to the task's setting.",
)
@click.option(
    "--stop", multiple=True, metavar="TEXT", help="Stop sequence for answers. Repeatable."
)
@reasoning_option
@click.option(
    "--grader",
    "graders",
    multiple=True,
    metavar="NAME",
    help="Grader to use instead of the task's: exact_match, f1, "
    "\"number_match{where='boxed'}\", … (see `graders list`). Repeatable.",
)
@sandbox_option
@click.option(
    "--pass-at",
    multiple=True,
    type=click.IntRange(1),
    metavar="K",
    help="Report pass@K over the attempts. Repeatable.",
)
@click.option(
    "--pass-hat",
    multiple=True,
    type=click.IntRange(1),
    metavar="K",
    help="Report pass^K: all K attempts are correct. Repeatable.",
)
@click.option(
    "--maj-at",
    multiple=True,
    type=click.IntRange(1),
    metavar="K",
    help="Report maj@K: the majority answer of K attempts is correct. Repeatable.",
)
@click.option(
    "--perturb",
    "perturbations",
    multiple=True,
    metavar="KIND[=P]",
    help="Perturb the questions: typos, upper, lower, swap_case or whitespace. Repeatable; "
    "applied in order.",
)
@until_options
@click.option(
    "--batch",
    is_flag=True,
    help="Send all requests in batch files, answered within a day at a lower price; only for "
    "openai: models. After an interruption, repeat the command to collect submitted batches.",
)
@model_options
@click.option(
    "--replay",
    type=click.Path(exists=True),
    metavar="RUN",
    help=(
        "Replay the answers of a stored run or a cache without querying a model. To regrade"
        " a run without rebuilding its prompts, use `rescore`."
    ),
)
@click.option(
    "--measure",
    type=click.Path(exists=True, file_okay=False),
    metavar="RUN",
    help="Regrade the stored answers of RUN: same as `rescore RUN --task TASK`.",
)
@click.option("--dry-run", is_flag=True, help="Show the planned requests without sending any.")
@shard_option
@fleet_options
@asking_options
@click.pass_context
def run(
    context: click.Context,
    /,
    task: str,
    models: Sequence[str],
    options: dict[str, Any],
    choose: Callable[..., ModelChoice],
    asked: QueryOptions,
    until: Until,
    measure: str | None,
    dry_run: bool,
    **given: Any,
) -> Outcome | None:
    """Evaluate a model on TASK; every metric has an interval.

    TASK is a file of questions (CSV, JSON Lines, Parquet …; columns question and answer), a name
    (`tasks list`), a TOML, YAML or Python file, or package.module:Class. Run the same command again
    to resume after an interruption: finished requests are not repeated. With another --grader and
    the same --out, the stored results are replaced; pass --no-store to keep them. Exit with code 3
    if more samples failed than --max-error-rate allows.
    """
    if len(models) > 1:
        from eval_toolkit.cli._model_ranking import run_each

        run_each(context, models, asked)
        return None
    model = next(iter(models), None)
    if measure is not None:
        _refuse_with_measure(context)
    shard: str | None = given["shard"]
    fleet: Fleet | None = given["fleet"]
    asking = _asking(given, options, asked)
    chosen = with_perturbations(load_chosen_task(task, options), given["perturbations"])
    chosen.reasoning_tags = (*chosen.reasoning_tags, *given["reasoning_tags"])
    if measure is not None:
        from eval_toolkit.tasks.rescoring import measure_run

        done = measure_run(measure, chosen, out=asked.out, **asking.graded)
        _tell(asked.output, done, asks=False)
        return None
    asking.asked["attempts"] = attempts_of(chosen, asking.asked["attempts"])
    if fleet is not None:
        fleet.refuse(shard=shard, until=until, replay=asking.engine["replay"], folder=asked.stored)
    limit = asking.engine["concurrency"]  # models may limit their own requests
    loaded = None if model is None else choose(model, concurrency=limit).load()
    if loaded is None and asking.engine["replay"] is None and not dry_run:
        raise click.UsageError("pass a --model to query, or --replay a stored run")
    if dry_run:
        refuse_shard(shard)
        planned, judging = _planned(chosen, loaded, asking)
        asked.output.emit(estimate_page(chosen, planned, judging, stops=until is not None))
        return None
    folder = shard_folder(asked, shard, *_kept_under(chosen, loaded, asking))
    if given["batch"] and (fleet is not None or shard is not None):
        raise click.UsageError(
            "--batch cannot be combined with shards; remove --shard and --shards"
        )
    if fleet is not None and model is not None and folder is not None:
        choice = choose(model, concurrency=asking.engine["concurrency"])
        options = {**asking.asked, **asking.graded, **asking.engine}
        with resumable(folder):
            done = fleet.run_task(chosen, choice, folder, asked.quiet, **options)
        _tell(asked.output, done)
        return done
    if given["batch"] and loaded is not None:
        if folder is None or until is not None or asking.engine["concurrency"] is not None:
            raise click.UsageError(
                "--batch sends all requests together and records them in the run folder; "
                "remove --no-store, --concurrency, --until-width and --until-decided"
            )
        from eval_toolkit.models.openai_compatible.batches import BATCHES, BatchModel

        loaded = BatchModel(loaded, folder / BATCHES)
    begins = _begins(chosen, loaded, asking) if getattr(loaded, "prices", None) else None
    with resumable(folder), progress_bar(asked.quiet, begins) as bar:
        done = run_task(
            chosen,
            loaded,
            folder,
            on_progress=bar,
            until=until,
            shard=shard,
            **asking.asked,
            **asking.graded,
            **asking.engine,
        )
    _tell(asked.output, done)
    return done


def _asking(given: dict[str, Any], options: dict[str, Any], asked: QueryOptions) -> _Asking:
    decoding = {name: given[name] for name in ("temperature", "top_p", "max_tokens")}
    return _Asking(
        asked={
            **decoding,
            "stop": given["stop"] or None,
            "limit": options.pop("limit"),
            "order": options.pop("order"),
            "attempts": given["attempts"],
            "formatter": given["formatter"],
        },
        graded={
            "graders": list(given["graders"]) or None,
            "pass_at": given["pass_at"],
            "pass_hat": given["pass_hat"],
            "maj_at": given["maj_at"],
            **asked.counted,
        },
        engine={**asked.engine, "replay": given["replay"]},
    )


def _planned(
    task: BaseTask[Any], model: Model | None, asking: _Asking
) -> tuple[Estimate, dict[str, dict[str, Any]]]:
    """Return the estimates of the run and of its judges."""
    from eval_toolkit.graders import load_grader
    from eval_toolkit.graders.judges.requests import judges_in
    from eval_toolkit.tasks.judge_estimates import estimate_judges

    names = ("limit", "order", "attempts", "formatter", "max_tokens")
    planned = estimate(task, model, **{name: asking.asked[name] for name in names})
    given = asking.graded["graders"]
    with server_of_model(model):
        made = task.graders() if given is None else [load_grader(one) for one in given]
    items = {name: asking.asked[name] for name in ("limit", "order")}
    return planned, estimate_judges(task, judges_in(made), planned, **items)


def _begins(task: BaseTask[Any], model: Model | None, asking: _Asking) -> Callable[[Progress], str]:
    """Return a callback that reports the stored answers and the cost of the remaining ones."""
    from eval_toolkit.tasks.judge_estimates import GUESSED_TOKENS

    def said(progress: Progress) -> str:
        planned, judging = _planned(task, model, asking)
        n = max(0, progress.total - progress.reused)
        stored = f"{progress.reused:,} answers stored, {n:,} to request"
        if not n:
            return stored
        costs = [planned.cost, *(told["cost"] for told in judging.values())]
        known = sum(cost for cost in costs if cost is not None)
        bounded = planned.completion_tokens is not None
        if not bounded and (prices := getattr(model, "prices", None)) is not None:
            known += planned.n_requests * GUESSED_TOKENS * prices[1] / 1e6
        cost = cost_text(known * n / max(1, planned.n_requests))
        guess = f"about {cost} if answers have {GUESSED_TOKENS} tokens"
        how = f"at most {cost}" if bounded else guess
        beside = "" if None not in costs else ", without judges whose prices are unknown"
        return f"{stored}, {how}{beside}"

    return said


_WITH_MEASURE = {
    *("task", "measure", "out", "no_store", "as_json", "as_md", "as_html", "quiet"),
    *("graders", "pass_at", "pass_hat", "maj_at", "on_error", "max_error_rate", "confidence"),
    *("data", "num_fewshot", "subjects", "shuffle_choices", "revision", "seed", "perturbations"),
    *(
        "prompt",
        "system",
        "answer",
        "by",
        "allow_code",
        "allow_weaker_sandbox",
        "lm_eval_shots",
        "reasoning_tags",
    ),
}
"""Parameters allowed with ``--measure`` (graders and the task): they do not affect requests."""


def _refuse_with_measure(context: click.Context) -> None:
    """Raise if an option that affects the requests is combined with ``--measure``."""
    for parameter in context.command.params:
        name = str(parameter.name)
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and name not in _WITH_MEASURE:
            raise click.UsageError(f"--measure grades stored answers; remove {parameter.opts[-1]}")


def _kept_under(
    task: BaseTask[Any], model: Model | None, asking: _Asking
) -> tuple[str, dict[str, Any]]:
    """Return the name of the run folder, and the settings that identify the run."""
    who = "replay" if model is None else model.name
    told = {
        "task": task.describe(),
        "model": None if model is None else dict(model.describe()),
        "replay": asking.engine["replay"],
        **{name: value for name, value in asking.asked.items() if name not in ("limit",)},
    }
    return f"{task.NAME}-{who}", told


def _tell(output: Output, done: Outcome, *, asks: bool = True) -> None:
    if not done.cards:
        say(f"the shard {done.results['config']['shard']} has no samples", err=True)
    elif not click.get_current_context().meta.get(ONLY_RANKED):
        output.emit(task_page(done, asks=asks), summary=True)
    if done.too_many_errors:
        raise click.exceptions.Exit(EXIT_FAILED)
