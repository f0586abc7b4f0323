"""``eval-toolkit rescore``: recompute results from a stored run of any kind."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click
from click.core import ParameterSource

from eval_toolkit._internal.display import Page
from eval_toolkit.cli._exit import EXIT_FAILED
from eval_toolkit.cli._judge_options import Judging, judging_options, typed
from eval_toolkit.cli._models import ModelChoice, model_options
from eval_toolkit.cli._options import METHODS, RESAMPLES, Sampling, form_options
from eval_toolkit.cli._output import Output
from eval_toolkit.cli._query_options import progress_bar, reasoning_option, resumable
from eval_toolkit.cli._rescore_pages import rescored_page, rescored_rows
from eval_toolkit.cli._tasks import (
    load_chosen_task,
    sandbox_option,
    whole_task_options,
    with_perturbations,
)
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.rollouts.measures.measuring import POLICIES
from eval_toolkit.runs import AskSpec, Outcome, Run
from eval_toolkit.runs import rescore as rescore_run

_MODELS = {"base_url", "api_key_env", "timeout_s", "max_tries", "requests_per_minute"}
_MODELS |= {"model_id", "tokens_per_minute", "prices", "max_cost", "max_tokens_total", "model_args"}
_SERVER = {"base_url", "api_key_env", "prices", "max_cost", "max_tokens_total"}
"""Options that apply to judges among the scorers."""
_GRADED = {"on_error", "max_error_rate"}
_OF_ALL = {"run", "out", "confidence", "quiet", "as_json", "as_md", "as_html"}
_OF: dict[str, set[str]] = {
    "rows": {"metrics", "threshold", "by", "n_resamples", "method", "seed"},
    "task": {
        *("task", "graders", "pass_at", "pass_hat", "maj_at", "perturbations", "reasoning_tags"),
        *("data", "num_fewshot", "subjects", "shuffle_choices", "revision", "seed"),
        *("allow_code", "lm_eval_shots", "allow_weaker_sandbox"),
        *("models", "rubrics", "votes", "rule", "temperature", "max_tokens"),
        *("concurrency", "cache", *_MODELS, *_GRADED),
    },
    "rollout": {"scorers", "asr_at", "policy", *_GRADED, *_SERVER},
}
"""Options by kind of run; options for records apply to every kind."""
_CALLED = {"task": "task run", "rollout": "rollout run"}


@click.command()
@click.argument("run", type=click.Path(exists=True, file_okay=False), metavar="RUN")
@click.option("--metric", "metrics", metavar="NAME", multiple=True,
              help="For records: metric, e.g. roc_auc, f1@0.5, or a column. Repeatable.")  # fmt: skip
@click.option("--by", metavar="COLUMN", multiple=True,
              help="For records: column to slice by. Repeatable.")  # fmt: skip
@click.option(
    "--threshold", type=float, help="For records: threshold of F1, recall and similar metrics."
)
@click.option("--grader", "graders", multiple=True, metavar="NAME",
              help=(
                "For tasks: grader to use in place of the task's graders (with --judge, of the run's). "
                "Repeatable."
              ))  # fmt: skip
@click.option("--pass-at", multiple=True, type=click.IntRange(1), metavar="K",
              help="For tasks: report pass@K. Repeatable.")  # fmt: skip
@click.option("--pass-hat", multiple=True, type=click.IntRange(1), metavar="K",
              help="For tasks: report pass^K. Repeatable.")  # fmt: skip
@click.option("--maj-at", multiple=True, type=click.IntRange(1), metavar="K",
              help="For tasks: report maj@K. Repeatable.")  # fmt: skip
@click.option("--task", metavar="TASK",
              help=(
                "Task of the run; by default restored from the run (for a file of questions, from "
                "the stored questions and references)."
              ))  # fmt: skip
@whole_task_options
@click.option("--perturb", "perturbations", multiple=True, metavar="KIND[=P]",
              help="For tasks: perturbation used in the run.")  # fmt: skip
@reasoning_option
@sandbox_option
@judging_options(required=False)
@model_options
@click.option(
    "--concurrency", type=click.IntRange(1), help="Number of concurrent requests to judges."
)
@click.option("--cache", type=click.Path(dir_okay=False), help="SQLite file that caches verdicts.")
@click.option("--scorer", "scorers", multiple=True, metavar="SCORER",
              help=(
                  "For rollouts: scorer as in `rollout`, e.g. toxicity:insult@0.7 or "
                  "keywords:WORD,WORD. Repeatable."
              ))  # fmt: skip
@click.option("--asr-at", multiple=True, type=click.IntRange(1), metavar="K",
              help="For rollouts: report the probability that at least one of K succeeds. "
                  "Repeatable.")  # fmt: skip
@click.option(
    "--policy",
    type=click.Choice(POLICIES),
    help="For rollouts: how to combine branches; defaults to the setting of the run.",
)
@click.option("--on-error", type=click.Choice(["exclude", "as_zero"]), default="exclude",
              help="How to count failed attempts.")  # fmt: skip
@click.option("--max-error-rate", default=0.0, show_default=True, type=click.FloatRange(0, 1),
              help=(
                "Maximum share of failed attempts; exit with code 3 if it is exceeded."
              ))  # fmt: skip
@click.option("--confidence", default=0.95, help="Confidence level of the intervals.",
              type=click.FloatRange(0, 1, min_open=True, max_open=True))  # fmt: skip
@click.option("--resamples", "n_resamples", default=1000, show_default=True, type=RESAMPLES,
              help="For records: number of bootstrap resamples.")  # fmt: skip
@click.option("--method", type=click.Choice(METHODS, case_sensitive=False),
              help="For records: type of bootstrap interval.")  # fmt: skip
@click.option("--out", type=click.Path(file_okay=False), metavar="FOLDER",
              help="Folder of the new run; by default it is not stored.")  # fmt: skip
@form_options
@click.option("--quiet", is_flag=True, help="Do not show progress on standard error.")
@click.pass_context
def rescore(
    context: click.Context,
    /,
    run: str,
    options: dict[str, Any],
    choose: Callable[..., ModelChoice],
    judging: Judging,
    output: Output,
    quiet: bool,
    **given: Any,
) -> None:
    """Recompute the results of RUN without querying the model.

    Task runs accept graders and judges, rollout runs accept scorers, and all runs with records
    accept metrics, slices and interval options. The defaults are the task's graders, and for
    records the usual metrics with 95 % intervals. RUN does not change; only judges are queried, and
    only for verdicts that RUN does not contain.

    \b
    eval-toolkit rescore runs/scored --metric brier --by language
    eval-toolkit rescore runs/quiz --grader exact_match --out runs/again
    eval-toolkit rescore runs/quiz --judge openai:m --out runs/judged
    eval-toolkit rescore runs/red --scorer toxicity@0.9
    """  # noqa: D301
    source = Run.open(run)
    kind = _kind(context, source)
    _refuse_unfit(context, source, kind)
    asked = _RunOptions(source, options, choose, judging, quiet, given)
    done, page = {"rows": _rows, "task": _task, "rollout": _rollouts}.get(kind, _other)(asked)
    output.emit(page)
    if done.too_many_errors:
        raise click.exceptions.Exit(EXIT_FAILED)


@dataclass(frozen=True)
class _RunOptions:
    """Option values for one run."""

    run: Run
    options: dict[str, Any]
    choose: Callable[..., ModelChoice]
    judging: Judging
    quiet: bool
    given: dict[str, Any]

    def named(self, *names: str) -> dict[str, Any]:
        """Return the options given by the user; the others are taken from the run."""
        return typed({name: self.given[name] for name in names})


def _typed(context: click.Context) -> set[str]:
    names = [str(parameter.name) for parameter in context.command.params]
    source = context.get_parameter_source
    return {name for name in names if source(name) is ParameterSource.COMMANDLINE}


def _kind(context: click.Context, run: Run) -> str:
    """Return the group of options that applies: for the run's kind, or for records."""
    said = _typed(context)
    imported = "imported" in (run.manifest.get("config") or {})
    own = _OF.get(run.kind, set()) - _OF["rows"]
    if (imported or run.kind == "pairs") and not said & own:
        return "rows"
    return "rows" if said & (_OF["rows"] - {"seed"}) and not said & own else run.kind


def _refuse_unfit(context: click.Context, run: Run, kind: str) -> None:
    """Raise if an option applies to runs of another kind."""
    unfit = _typed(context) - _OF_ALL - _OF.get(kind, set())
    for parameter in context.command.params:
        name, option = str(parameter.name), parameter.opts[-1]
        if name == "threshold" and name in unfit and "scorers" in _OF.get(kind, ()):
            raise InvalidInputError("write the threshold after the scorer: --scorer NAME@0.9")
        if name in unfit and name in _OF["rows"]:
            raise InvalidInputError(
                f"{run.path}: {option} applies to records; do not combine it with options that "
                "grade or score the answers again"
            )
        if name in unfit:
            homes = [_CALLED[one] for one, names in _OF.items() if name in names]
            raise InvalidInputError(
                f"{run.path}: {option} applies to a {' or '.join(homes)}, and this run is of "
                "another kind"
            )


def _rows(asked: _RunOptions) -> tuple[Outcome, Page]:
    given = asked.given
    seed = asked.options["seed"]
    sampling = Sampling(
        given["confidence"], given["n_resamples"], 42 if seed is None else seed, given["method"]
    )
    return rescored_rows(
        asked.run,
        given["metrics"],
        given["threshold"],
        given["by"],
        sampling,
        given["out"],
        command="rescore",
    )


def _task(asked: _RunOptions) -> tuple[Outcome, Page]:
    from eval_toolkit.cli._task_page import task_page
    from eval_toolkit.tasks.rescoring import stored_task

    given, options = asked.given, asked.options
    if given["task"] is None:
        task = stored_task(asked.run, **_of_data(options))
    else:
        task = load_chosen_task(given["task"], options)
    task = with_perturbations(task, given["perturbations"])
    if given["reasoning_tags"]:
        task.reasoning_tags = (*task.reasoning_tags, *given["reasoning_tags"])
    told: dict[str, Any] = asked.named("pass_at", "pass_hat", "maj_at", "on_error", "confidence")
    told |= {"max_error_rate": given["max_error_rate"], "graders": list(given["graders"]) or None}
    if asked.judging.models:
        told["judges"] = asked.judging.judges(asked.choose, given["concurrency"])
    out: Any = given["out"]
    with resumable(out), progress_bar(asked.quiet or not asked.judging.models) as bar:
        ask = AskSpec(cache=given["cache"], concurrency=given["concurrency"], on_progress=bar)
        done = rescore_run(asked.run, out, ask=ask, task=task, **told)
    return done, task_page(done, asks=False)


def _of_data(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that specify the data of a task given by name."""
    for name in ("allow_code", "lm_eval_shots"):
        if options.get(name):
            raise click.UsageError(
                f"--{name.replace('_', '-')} applies to task files; pass one with --task"
            )
    return {name: value for name, value in options.items() if value is not None}


def _rollouts(asked: _RunOptions) -> tuple[Outcome, Page]:
    from eval_toolkit.cli._rollout_page import rescored_page as rollouts_page
    from eval_toolkit.cli._scorers import load_scorers

    scorers: Sequence[str] = asked.given["scorers"]
    if not scorers and not asked.given["asr_at"] and asked.given["policy"] is None:
        raise click.UsageError(
            "pass --scorer to score the rollouts again, --asr-at or --policy for their stored "
            "scores, or --metric"
        )
    told = {name: asked.given[name] for name in ("policy", "on_error", "max_error_rate")}
    told |= {"asr_at": asked.given["asr_at"] or None, "confidence": asked.given["confidence"]}
    done = rescore_run(
        asked.run, asked.given["out"], scorer=load_scorers(scorers) if scorers else None, **told
    )
    return done, rollouts_page(done)


def _other(asked: _RunOptions) -> tuple[Outcome, Page]:
    done = rescore_run(asked.run, asked.given["out"])
    return done, rescored_page(done)
