"""Running a task: ask what is not answered yet, measure, summarise, store."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import Any

from eval_toolkit import _validate
from eval_toolkit._hashing import canonical_json, sha256_text
from eval_toolkit.artifacts import read_json, sanitize_for_json
from eval_toolkit.errors import ArtifactError, InvalidInputError, InvalidTypeError
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE
from eval_toolkit.models.cache import CachedModel, ResponseCache
from eval_toolkit.protocols import Model
from eval_toolkit.provenance import redact_secrets
from eval_toolkit.runner import Journal, Progress, RunOutcomes, run_jobs
from eval_toolkit.runner.engine import CONCURRENCY
from eval_toolkit.runs import Run, open_run
from eval_toolkit.runs.folder import MANIFEST
from eval_toolkit.runs.open import JOURNAL
from eval_toolkit.seeds import resolve_seed
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.planning import (
    Decoding,
    default_formatter,
    estimate,
    formatter_name,
    plan_jobs,
)
from eval_toolkit.tasks.prompts import Formatter
from eval_toolkit.tasks.storing import (
    StoredRun,
    model_digest,
    outcomes_of,
    refuse_other,
    same_prompts,
    same_settings,
    same_units,
)
from eval_toolkit.tasks.taskrun import GraderLike, Measuring, TaskRun

__all__ = ["TaskRun", "estimate", "measure_run", "plan_jobs", "run_task"]

_OF_THE_RUN = ("status", "artifacts", "manifest_sha256")
"""What the folder adds to a manifest."""
_BATCHING = ("batch_size", "max_batch_tokens")
"""What a model that works in batches has; it may move the last digits of its numbers."""


def run_task(
    task: BaseTask[Any],
    model: Model | None = None,
    out: str | Path | None = None,
    *,
    limit: int | None = None,
    order: str = "shuffled",
    attempts: int = 1,
    formatter: Formatter | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    max_tokens: int | None = None,
    stop: Sequence[str] | None = None,
    seed: int | None = None,
    graders: Sequence[GraderLike] | None = None,
    pass_at: Sequence[int] = (),
    pass_hat: Sequence[int] = (),
    on_error: str = "exclude",
    max_error_rate: float = 0.0,
    confidence: float = DEFAULT_CONFIDENCE,
    concurrency: int | None = None,
    cache: ResponseCache | str | Path | None = None,
    replay: str | Path | None = None,
    give_up_after: int | None = 50,
    run_id: str | None = None,
    on_progress: Callable[[Progress], object] | None = None,
) -> TaskRun:
    """Run a task: ask the model what it has not answered yet, grade, summarise, store.

    Parameters
    ----------
    task : BaseTask
        What is asked.
    model : Model, optional
        Who is asked; not needed with ``replay``.
    out : path, optional
        The run's folder. A run that was interrupted there is gone on with, and a finished one is
        completed: its failed requests are asked again, a larger ``limit`` or more ``attempts``
        add to it, other graders grade anew. Without a folder nothing is written.
    limit : int, optional
        Items per subject.
    order : {"shuffled", "file"}
        Whether a limit takes items at random or from the beginning.
    attempts : int, default 1
        Tries at each sample.
    formatter : str, ChatTemplate or callable, optional
        As in `prompts.format_prompt`; messages for models that chat, plain text for
        log-likelihoods, and with ``replay`` what the stored run was asked with.
    temperature, top_p, max_tokens, stop
        Of the decoding; by default greedy, with the task's own limit and stop texts, which
        ``max_tokens`` and ``stop`` replace.
    seed : int, optional
        Of the run; the task's by default.
    graders : sequence of Grader, str or mapping, optional
        Instead of the task's.
    pass_at, pass_hat : sequence of int
        Report pass@k and pass^k for these k.
    on_error : {"exclude", "as_zero", "fail"}, default "exclude"
        What a failed attempt counts as; "fail" raises once everything was asked, and keeps the
        answers for the next try.
    max_error_rate : float, default 0.0
        Above this, ``too_many_errors`` is set.
    confidence : float, default 0.95
        Of the intervals.
    concurrency : int, optional
        Requests at once; what suits the model by default. Changes no result, unless a local
        model's own batching does: its numbers may then move in the fifth digit. The manifest
        holds both under ``engine``.
    cache : ResponseCache or path, optional
        Answers kept between runs.
    replay : path, optional
        Answer from a run, a journal or a cache instead of a model.
    give_up_after : int or None, default 50
        Failures in a row after which asking stops.
    run_id : str, optional
        Name of the run; the folder's by default.
    on_progress : callable, optional
        Told how far it is, a few times a second.

    Returns
    -------
    TaskRun
        Equal answers give equal bytes of ``records.parquet`` and ``results.json``, whatever the
        concurrency and however often the run was interrupted.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an option does not fit the task.
    ArtifactError
        If the folder holds a run of another task, model, prompt, decoding or seed, or another
        process writes it.
    ModelError
        If the model fails for good; what was answered is kept.

    Examples
    --------
    >>> from eval_toolkit.models.scripted import ScriptedModel
    >>> from eval_toolkit.responses import ResponseType
    >>> class Capitals(BaseTask[str]):
    ...     NAME = "Capitals"
    ...     RESPONSE_TYPE = ResponseType.COMPLETION
    ...     def _get_instruction_text(self, item):
    ...         return f"What is the capital of {item['country']}?"
    ...     def _get_ground_truth(self, item):
    ...         return item["capital"]
    >>> task = Capitals(rows=[
    ...     {"country": "Italy", "capital": "Rome"}, {"country": "Spain", "capital": "Madrid"},
    ... ])
    >>> done = run_task(task, ScriptedModel("Rome"), graders=["exact_match"])
    >>> done.card["exact_match"].value, done.n_requests
    (0.5, 2)
    """
    _check_task(task)
    _check_place(out, "out", NoneType)
    _check_place(cache, "cache", ResponseCache, NoneType)
    _check_place(replay, "replay", NoneType)
    _check_telling(run_id, on_progress)
    attempts = _validate.integer(attempts, "attempts", low=1)
    measuring = Measuring.of(
        task, graders, pass_at, pass_hat, on_error, confidence, max_error_rate, attempts
    )
    decoding = Decoding.of(
        task, temperature=temperature, top_p=top_p, max_tokens=max_tokens, stop=stop
    )
    with ExitStack() as stack:
        asked = _asked(model, cache, replay, stack)
        form = _recorded_form(replay) if formatter is None else formatter
        form = default_formatter(task, asked) if form is None else form
        number = resolve_seed(task.seed if seed is None else seed)
        samples = task.samples(limit, order=order)
        jobs = plan_jobs(
            task, samples, formatter=form, decoding=decoding, attempts=attempts, seed=number
        )
        description = dict(asked.describe())
        config = {
            "kind": "task",
            "task": task.describe(),
            "model": {"name": asked.name, "description": description},
            "formatter": formatter_name(form),
            "decoding": decoding.to_dict(),
            "seed": number,
            "limit": limit,
            "order": order,
            "attempts": attempts,
            **measuring.to_dict(),
        }
        settings: dict[str, Any] = redact_secrets(sanitize_for_json(config))
        notes = (*task.data_notes, *_greedy_again(decoding.temperature, attempts))

        def ask(journal: Journal | None = None, finished: Any = None) -> RunOutcomes:
            return run_jobs(
                jobs,
                asked,
                journal=journal,
                finished=finished,
                concurrency=concurrency,
                on_progress=on_progress,
                give_up_after=give_up_after,
            )

        if out is not None:
            digest = sha256_text(canonical_json(description))
            stored = StoredRun(Path(out), task, measuring, settings, samples, run_id, digest, notes)
            done = stored.run(jobs, ask, _engine(None if replay else model, concurrency))
        else:
            started = time.monotonic()
            outcomes = ask()
            done = measuring.measured(task, samples, outcomes, settings, run_id or task.NAME)
            notes += outcomes.notes
            done = replace(done, elapsed_s=time.monotonic() - started, notes=notes)
        return done if replay is None else _replayed(done)


def _greedy_again(temperature: float, attempts: int) -> list[str]:
    """Return a note where several attempts are one."""
    if attempts == 1 or temperature > 0.0:
        return []
    return [f"{attempts} attempts at temperature 0: each asks the same greedy question again"]


def _replayed(done: TaskRun) -> TaskRun:
    """Return what was found with nobody asked."""
    n_replayed = done.n_asked + done.n_cached
    return replace(
        done, n_asked=0, n_cached=0, n_replayed=n_replayed, usage_now=dict.fromkeys(done.usage, 0)
    )


def _check_task(task: Any) -> None:
    if not isinstance(task, BaseTask):
        raise InvalidTypeError(f"`task` is {task!r:.80}; it must be a task")


def _check_place(place: Any, name: str, *other: type) -> None:
    if not isinstance(place, (str, os.PathLike, *other)):
        wanted = [*(f"a {kind.__name__}" for kind in other if kind is not NoneType), "a path"]
        raise InvalidTypeError(f"`{name}` is {place!r:.80}; it must be {' or '.join(wanted)}")


def _check_telling(run_id: Any, on_progress: Any) -> None:
    if run_id is not None and (not isinstance(run_id, str) or not run_id.strip()):
        raise InvalidInputError(f"`run_id` is {run_id!r:.80}; it must be a name")
    if on_progress is not None and not callable(on_progress):
        raise InvalidTypeError(f"`on_progress` is {on_progress!r:.80}; it must be callable")


def _recorded_form(replay: str | Path | None) -> str | None:
    """Return the form of the prompts of the run that is replayed, where that is stored."""
    if replay is None:
        return None
    place = Path(replay)
    manifest = (place.parent if place.name == JOURNAL else place) / MANIFEST
    if not manifest.is_file():
        return None
    form = (read_json(manifest).get("config") or {}).get("formatter")
    if isinstance(form, str) and ":" in form:
        raise InvalidInputError(
            f"`formatter` is missing; {replay} was asked with {form!r}, of which only the hash is "
            "stored: pass it"
        )
    return None if form is None else str(form)


def _engine(model: Model | None, concurrency: int | None) -> dict[str, Any]:
    """Return how a model is asked, beside what decides the answers."""
    suits = getattr(model, "concurrency", CONCURRENCY)
    batching = {name: getattr(model, name) for name in _BATCHING if hasattr(model, name)}
    return {
        "concurrency": suits if concurrency is None else concurrency,
        "model_batching": batching or None,
    }


def _asked(
    model: Model | None,
    cache: ResponseCache | str | Path | None,
    replay: str | Path | None,
    stack: ExitStack,
) -> Model:
    """Return who is asked: the model, its stored answers, or the model behind a cache."""
    if replay is not None:
        from eval_toolkit.runner import ReplayModel

        return ReplayModel(replay, name=None if model is None else model.name)
    if model is None:
        raise InvalidInputError("`model` is missing; pass one, or `replay` with stored answers")
    if isinstance(model, type) or not isinstance(model, Model):
        raise InvalidTypeError(
            f"`model` is {model!r:.80}; it must have name, describe, generate and loglikelihood"
        )
    if cache is None:
        return model
    if not isinstance(cache, ResponseCache):
        cache = stack.enter_context(ResponseCache(cache))
    return CachedModel(model, cache)


def measure_run(
    run: Run | str | Path,
    task: BaseTask[Any],
    *,
    graders: Sequence[GraderLike] | None = None,
    out: str | Path | None = None,
    pass_at: Sequence[int] = (),
    pass_hat: Sequence[int] = (),
    on_error: str = "exclude",
    max_error_rate: float = 0.0,
    confidence: float = DEFAULT_CONFIDENCE,
) -> TaskRun:
    """Measure the stored answers of a run again, with other graders or settings. Asks no model.

    Parameters
    ----------
    run : Run or path
        A finished run of the task.
    task : BaseTask
        The task it ran; references and post-processing come from it.
    graders, pass_at, pass_hat, on_error, max_error_rate, confidence
        As in `run_task`.
    out : path, optional
        Where to store the new results; the run's own folder replaces the old ones.

    Returns
    -------
    TaskRun
        Of the same samples and attempts.

    Raises
    ------
    ArtifactError
        If it is no run of a task or not of this one, or the task differs in what decides prompts
        and references: examples, seed, order of choices, suffix, the prompts themselves, the data.
        Graders, post-processing and the task's version may differ.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.models.scripted import ScriptedModel
    >>> from eval_toolkit.responses import ResponseType
    >>> class Capitals(BaseTask[str]):
    ...     NAME = "Capitals"
    ...     RESPONSE_TYPE = ResponseType.COMPLETION
    ...     def _get_instruction_text(self, item):
    ...         return f"What is the capital of {item['country']}?"
    ...     def _get_ground_truth(self, item):
    ...         return item["capital"]
    >>> task = Capitals(rows=[{"country": "Italy", "capital": "Rome"}])
    >>> done = run_task(task, ScriptedModel("ROME"), tempfile.mkdtemp() + "/r")
    >>> done.card["exact_match"].value
    0.0
    >>> again = measure_run(done.run, task, graders=["exact_match{ignore_case=true}"])
    >>> again.card["exact_match"].value
    1.0
    """
    _check_task(task)
    _check_place(run, "run", Run)
    _check_place(out, "out", NoneType)
    source = run if isinstance(run, Run) else Run.open(run)
    config = source.manifest.get("config") or {}
    if config.get("kind") != "task":
        raise ArtifactError(f"{source.path}: is no run of a task; there are no answers to measure")
    if config["task"]["name"] != task.NAME:
        raise ArtifactError(
            f"{source.path}: is a run of {config['task']['name']!r}, not of {task.NAME!r}"
        )
    measuring = Measuring.of(
        task,
        graders,
        pass_at,
        pass_hat,
        on_error,
        confidence,
        max_error_rate,
        config["attempts"],
    )
    told = redact_secrets(sanitize_for_json(task.describe()))
    same_settings(source, told)
    samples = task.samples(config["limit"], order=config["order"])
    same_units(source, samples)
    same_prompts(source, told)
    settings = {**config, "task": told, **sanitize_for_json(measuring.to_dict())}
    units = {sample.id for sample in samples}
    outcomes = [
        outcome
        for outcome in outcomes_of(source)
        if outcome.job.unit_id in units and outcome.job.attempt <= config["attempts"]
    ]
    temperature = config["decoding"]["temperature"]
    notes = (*task.data_notes, *_greedy_again(temperature, config["attempts"]))
    if out is None:
        done = measuring.measured(task, samples, outcomes, settings, source.run_id)
        return replace(done, n_asked=0, notes=notes)
    digest = model_digest(source.manifest)
    stored = StoredRun(Path(out), task, measuring, settings, samples, None, digest, notes)
    head = {
        **{name: value for name, value in source.manifest.items() if name not in _OF_THE_RUN},
        **stored.manifest(stored.name),
    }
    with open_run(out, manifest=head) as opened:
        refuse_other(stored.folder, opened.begun, config, digest)
        return replace(stored.finished(opened, head, outcomes, 0.0), n_asked=0)
