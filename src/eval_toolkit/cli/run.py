"""``eval-toolkit run``: a task put to a model, resumed where it stopped, with intervals."""

import contextlib
import errno
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from eval_toolkit._hashing import canonical_json, sha256_text
from eval_toolkit.cli._exit import EXIT_FAILED
from eval_toolkit.cli._models import ModelChoice, model_options
from eval_toolkit.cli._progress import ProgressBar
from eval_toolkit.cli._show import Output
from eval_toolkit.cli._task_page import estimate_page, task_page
from eval_toolkit.cli._tasks import load_chosen_task, task_options, with_perturbations
from eval_toolkit.cli._text import in_options, one_line, say
from eval_toolkit.errors import ArtifactError, ModelError
from eval_toolkit.protocols import Model
from eval_toolkit.runs import Run
from eval_toolkit.runs.open import JOURNAL
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.running import TaskRun, estimate, measure_run, run_task
from eval_toolkit.tasks.stopping import UntilDecided, UntilWidth

__all__ = ["run"]

_RUNS = Path("runs")
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


@dataclass(frozen=True)
class _Asking:
    """What is asked and how, apart from task and model."""

    asked: dict[str, Any]
    """What decides the answers."""
    graded: dict[str, Any]
    """How they are graded and counted."""
    engine: dict[str, Any]
    """How many at once, and from where; none of it changes a result."""


@click.command()
@click.argument("task")
@click.option("--model", metavar="MODEL", help="embedded, openai:NAME, … (`models list`).")
@task_options
@click.option(
    "--attempts", default=1, show_default=True, type=click.IntRange(1), help="Tries at each sample."
)
@click.option(
    "--format",
    "formatter",
    metavar="NAME",
    help="How messages become a prompt: chat, plain, concat, chatml, llama3.",
)
@click.option("--temperature", type=click.FloatRange(min=0), help="Of the answers; 0 by default.")
@click.option("--top-p", type=click.FloatRange(0, 1, min_open=True), help="Of the answers.")
@click.option("--max-tokens", type=click.IntRange(1), help="Of an answer; the task's by default.")
@click.option("--stop", multiple=True, metavar="TEXT", help="Where an answer ends. Repeatable.")
@click.option(
    "--grader",
    "graders",
    multiple=True,
    metavar="NAME",
    help="Instead of the task's: exact_match, f1, number_match, … Repeatable.",
)
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
    help="Report pass^K: all of K attempts are right. Repeatable.",
)
@click.option(
    "--maj-at",
    multiple=True,
    type=click.IntRange(1),
    metavar="K",
    help="Report maj@K: the answer that most of K attempts give is right. Repeatable.",
)
@click.option(
    "--perturb",
    "perturbations",
    multiple=True,
    metavar="KIND[=P]",
    help="Ask with typos, upper, lower, swap_case or whitespace in the questions. Repeatable.",
)
@click.option(
    "--until-width",
    type=click.FloatRange(0, min_open=True),
    metavar="W",
    help="Stop once the interval of the (first) metric is no wider than W.",
)
@click.option(
    "--until-decided",
    is_flag=True,
    help="Stop once it is clear whether this is better or worse than --against.",
)
@click.option(
    "--against", type=click.Path(exists=True, file_okay=False), metavar="RUN", help="See above."
)
@click.option(
    "--until-metric", metavar="NAME", help="What --until-width and --until-decided look at."
)
@click.option(
    "--margin",
    type=click.FloatRange(0),
    metavar="D",
    help="Differences up to D do not matter to --until-decided.",
)
@click.option(
    "--on-error",
    type=click.Choice(["exclude", "as_zero"]),
    default="exclude",
    show_default=True,
    help="What a failed sample counts as.",
)
@click.option(
    "--max-error-rate",
    default=0.0,
    show_default=True,
    type=click.FloatRange(0, 1),
    help="Failed samples that are put up with; above it the exit code is 3.",
)
@click.option(
    "--confidence",
    default=0.95,
    show_default=True,
    help="Of the intervals.",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
)
@click.option("--concurrency", type=click.IntRange(1), help="Requests at once.")
@model_options
@click.option("--cache", type=click.Path(dir_okay=False), help="SQLite file of earlier answers.")
@click.option(
    "--replay",
    type=click.Path(exists=True),
    metavar="RUN",
    help="Answer from a stored run or cache; no model is asked.",
)
@click.option(
    "--measure",
    type=click.Path(exists=True, file_okay=False),
    metavar="RUN",
    help="Grade the stored answers of RUN again, as it asked for them.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False),
    metavar="FOLDER",
    help="The run's folder; run again to go on. By default below runs/.",
)
@click.option("--no-store", is_flag=True, help="Write nothing.")
@click.option("--dry-run", is_flag=True, help="Say what would be asked, and ask nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print strict JSON.")
@click.option("--md", "as_md", is_flag=True, help="Print Markdown.")
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
@click.pass_context
def run(
    context: click.Context,
    /,
    task: str,
    model: str | None,
    options: dict[str, Any],
    choose: Callable[..., ModelChoice],
    measure: str | None,
    out: str | None,
    no_store: bool,
    dry_run: bool,
    as_json: bool,
    as_md: bool,
    quiet: bool,
    **given: Any,
) -> None:
    """Put TASK to a model: every answer is kept, every number has an interval.

    TASK is a name (`tasks list`), a TOML, YAML or Python file, or package.module:Class. Killed at
    any moment, the same command goes on where it was: no answer is asked for twice. Exit code 3
    when more samples failed than --max-error-rate allows.
    """
    output = Output.of({"json": as_json, "md": as_md}, None)
    _refuse_odd_folders(out, no_store)
    if measure is not None:
        _refuse_with_measure(context)
    asking = _asking(given, options)
    until = _until(given)
    chosen = with_perturbations(load_chosen_task(task, options), given["perturbations"])
    if measure is not None:
        done = measure_run(measure, chosen, out=out, **asking.graded)
        _tell(output, chosen, done, asks=False)
        return
    loaded = None if model is None else _loaded(choose, model, asking)
    if loaded is None and asking.engine["replay"] is None and not dry_run:
        raise click.UsageError("say which --model to ask, or --replay a stored run")
    if dry_run:
        names = ("limit", "order", "attempts", "formatter", "max_tokens")
        planned = estimate(chosen, loaded, **{name: asking.asked[name] for name in names})
        output.emit(estimate_page(chosen, planned))
        return
    folder = None if no_store else Path(out) if out else _folder(chosen, loaded, asking)
    with _bar(quiet) as bar, _resumable(folder):
        done = run_task(
            chosen,
            loaded,
            folder,
            on_progress=bar,
            until=until,
            **asking.asked,
            **asking.graded,
            **asking.engine,
        )
    _tell(output, chosen, done)


def _asking(given: dict[str, Any], options: dict[str, Any]) -> _Asking:
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
            "on_error": given["on_error"],
            "max_error_rate": given["max_error_rate"],
            "confidence": given["confidence"],
        },
        engine={name: given[name] for name in ("concurrency", "cache", "replay")},
    )


def _until(given: dict[str, Any]) -> UntilWidth | UntilDecided | None:
    """Return the rule that may end the run early."""
    width, against = given["until_width"], given["against"]
    if given["until_decided"] != (against is not None):
        raise click.UsageError("--until-decided and --against RUN go together")
    if width is not None and against is not None:
        raise click.UsageError("give --until-width or --until-decided, not both")
    if given["margin"] is not None and against is None:
        raise click.UsageError("--margin is for --until-decided")
    if width is not None:
        return UntilWidth(width, given["until_metric"])
    if against is not None:
        return UntilDecided(Run.open(against), given["until_metric"], given["margin"] or 0.0)
    if given["until_metric"] is not None:
        raise click.UsageError("--until-metric is for --until-width and --until-decided")
    return None


def _loaded(choose: Callable[..., ModelChoice], model: str, asking: _Asking) -> Model:
    """Return the model; one that limits itself is told how many requests are wanted at once."""
    wanted = asking.engine["concurrency"]
    told = {"concurrency": wanted} if wanted and model.startswith("openai:") else {}
    return choose(model, **told).load()


def _refuse_odd_folders(out: str | None, no_store: bool) -> None:
    if out is not None and not out.strip():
        raise click.UsageError("--out is empty; name a folder")
    if out is not None and no_store:
        raise click.UsageError("give --out or --no-store, not both")


_WITH_MEASURE = {
    *("task", "measure", "out", "no_store", "as_json", "as_md", "quiet"),
    *("graders", "pass_at", "pass_hat", "maj_at", "on_error", "max_error_rate", "confidence"),
    *("data", "num_fewshot", "subjects", "shuffle_choices", "revision", "seed", "perturbations"),
}
"""What grades answers, and what names the task that was run; the rest asks for answers."""


def _refuse_with_measure(context: click.Context) -> None:
    """Answers that are there were asked for as they were."""
    for parameter in context.command.params:
        name = str(parameter.name)
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and name not in _WITH_MEASURE:
            raise click.UsageError(
                f"--measure takes stored answers as they are; leave {parameter.opts[-1]} out"
            )


def _folder(task: BaseTask[Any], model: Model | None, asking: _Asking) -> Path:
    """Return a folder that the same command finds again, and another command does not."""
    who = "replay" if model is None else model.name
    told = {
        "task": task.describe(),
        "model": None if model is None else dict(model.describe()),
        "replay": asking.engine["replay"],
        **{name: value for name, value in asking.asked.items() if name not in ("limit",)},
    }
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{task.NAME}-{who}").strip("-.")[:80]
    return _RUNS / f"{name}-{sha256_text(canonical_json(told))[:8]}"


@contextlib.contextmanager
def _bar(quiet: bool) -> Iterator[ProgressBar | None]:
    if quiet or sys.stderr is None:
        yield None
        return
    with ProgressBar() as bar:
        yield bar


@contextlib.contextmanager
def _resumable(folder: Path | None) -> Iterator[None]:
    """Say that nothing is lost when asking stops."""
    try:
        yield
    except (KeyboardInterrupt, ModelError, ArtifactError) as stop:
        failed = isinstance(stop, ModelError) or _disk_failed(stop)
        if isinstance(stop, ArtifactError) and not failed:
            raise
        if failed:
            say(f"error: {in_options(' '.join(one_line(stop).split()))}", err=True)
        if folder is not None and (folder / JOURNAL).exists():
            say(f"what was answered is kept in {folder}; the same command goes on", err=True)
        if failed:
            raise click.exceptions.Exit(EXIT_FAILED) from stop
        raise


def _disk_failed(error: BaseException | None) -> bool:
    """Return whether the disk gave out: that is no fault of the input."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _DISK:
            return True
        error = error.__cause__
    return False


def _tell(output: Output, task: BaseTask[Any], done: TaskRun, *, asks: bool = True) -> None:
    output.emit(task_page(task, done, asks=asks))
    if done.too_many_errors:
        raise click.exceptions.Exit(EXIT_FAILED)
