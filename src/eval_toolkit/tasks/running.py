"""Running a task: ask what is not answered yet, measure, summarise, store."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any

from eval_toolkit import _validate
from eval_toolkit._hashing import canonical_json, sha256_text
from eval_toolkit.artifacts import read_json, sanitize_for_json
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE
from eval_toolkit.judges.asking import Asker
from eval_toolkit.models.cache import ResponseCache, cached
from eval_toolkit.prompts import Formatter, formatter_name
from eval_toolkit.protocols import Model
from eval_toolkit.provenance import redact_secrets
from eval_toolkit.runner import Job, JobResults, Journal, Progress, run_jobs
from eval_toolkit.runner.engine import CONCURRENCY
from eval_toolkit.runs.folder import MANIFEST
from eval_toolkit.runs.open import JOURNAL
from eval_toolkit.seeds import resolve_seed
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.ended import Ended, asked_until
from eval_toolkit.tasks.judging import asker, with_verdicts
from eval_toolkit.tasks.planning import (
    Decoding,
    attempts_of,
    default_formatter,
    estimate,
    plan_jobs,
)
from eval_toolkit.tasks.remeasuring import check_task, greedy_again, measure_run
from eval_toolkit.tasks.stopping import UntilDecided, UntilWidth
from eval_toolkit.tasks.storing import StoredRun
from eval_toolkit.tasks.taskrun import GraderLike, Measuring, TaskRun
from eval_toolkit.tasks.types import Sample
from eval_toolkit.tasks.watching import Watch

__all__ = ["TaskRun", "estimate", "measure_run", "plan_jobs", "run_task"]

_SMALLEST_PART = 8
"""Samples that a run which may stop asks about before it looks."""
_BATCHING = ("batch_size", "max_batch_tokens")
"""What a model that works in batches has; it may move the last digits of its numbers."""


def run_task(
    task: BaseTask[Any],
    model: Model | None = None,
    out: str | Path | None = None,
    *,
    limit: int | None = None,
    order: str = "shuffled",
    attempts: int | None = None,
    formatter: Formatter | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    max_tokens: int | None = None,
    stop: Sequence[str] | None = None,
    seed: int | None = None,
    graders: Sequence[GraderLike] | None = None,
    pass_at: Sequence[int] = (),
    pass_hat: Sequence[int] = (),
    maj_at: Sequence[int] = (),
    on_error: str = "exclude",
    max_error_rate: float = 0.0,
    confidence: float = DEFAULT_CONFIDENCE,
    until: UntilWidth | UntilDecided | None = None,
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
    attempts : int, optional
        Tries at each sample; the task's own number by default, which is 1 unless it says more.
    formatter : str, ChatTemplate or callable, optional
        As in `prompts.format_prompt`; messages for models that chat, plain text for
        log-likelihoods, and with ``replay`` what the stored run was asked with.
    temperature, top_p, max_tokens, stop
        Of the decoding; by default greedy, with the task's own limit and stop texts, which
        ``max_tokens`` and ``stop`` replace.
    seed : int, optional
        Of the run; the task's by default.
    graders : sequence of Grader, str or mapping, optional
        Instead of the task's. Judges among them are asked once all answers are there, about
        every answer that is one, through the same cache and journal.
    pass_at, pass_hat, maj_at : sequence of int
        Report pass@k (one of k attempts is right), pass^k (all are) and maj@k (the answer that
        most of k give is) for these k.
    on_error : {"exclude", "as_zero", "fail"}, default "exclude"
        What a failed attempt counts as; "fail" raises once everything was asked, and keeps the
        answers for the next try.
    max_error_rate : float, default 0.0
        Above this, ``too_many_errors`` is set.
    confidence : float, default 0.95
        Of the intervals.
    until : UntilWidth or UntilDecided, optional
        Stop as soon as this holds. Items are asked in drawn order, and every interval is one that
        holds at any moment; what was asked beyond the last item that counts is kept.
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
    check_task(task)
    _validate.place(out, "out", NoneType)
    _validate.place(cache, "cache", ResponseCache, NoneType)
    _validate.place(replay, "replay", NoneType)
    _check_telling(run_id, on_progress)
    _check_against(until, out)
    attempts = attempts_of(task, attempts)
    measuring = Measuring.of(
        task, graders, pass_at, pass_hat, maj_at, on_error, confidence, max_error_rate, attempts
    )
    decoding = Decoding.of(
        task, temperature=temperature, top_p=top_p, max_tokens=max_tokens, stop=stop
    )
    with ExitStack() as stack:
        asked = _asked(model, cache, replay, stack)
        given = _recorded_form(replay) if formatter is None else formatter
        form = default_formatter(task, asked) if given is None else given
        number = resolve_seed(task.seed if seed is None else seed)
        samples = task.samples(limit, order=order)
        jobs = plan_jobs(
            task, samples, formatter=form, decoding=decoding, attempts=attempts, seed=number
        )
        watched: dict[str, Any] = {"seed": task.seed, "order": order, "confidence": confidence}
        asking = _Asking(
            task=task,
            model=asked,
            measuring=measuring,
            samples=samples,
            jobs=jobs,
            watch=None if until is None else until.watch(samples, measuring.metrics(), **watched),
            asker=partial(asker, cache, replay, stack),
            concurrency=concurrency,
            on_progress=on_progress,
            give_up_after=give_up_after,
        )
        told = {"formatter": formatter_name(form), "decoding": decoding.to_dict(), "seed": number}
        told |= {"limit": limit, "order": order, "attempts": attempts}
        settings = asking.settings(told, until)
        notes = (*task.data_notes, *greedy_again(decoding.temperature, attempts))
        notes += _fewer(asking.watch, samples)
        if out is None:
            done = asking.measured(settings, run_id or task.NAME, notes)
        else:
            digest = sha256_text(canonical_json(dict(asked.describe())))
            stored = StoredRun(Path(out), task, measuring, settings, samples, run_id, digest, notes)
            done = stored.run(jobs, asking.ask, _engine(None if replay else model, concurrency))
        return done if replay is None else _replayed(done)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asking:
    """What a run asks, whom, and how."""

    task: BaseTask[Any]
    model: Model
    measuring: Measuring
    samples: Sequence[Sample]
    jobs: Sequence[Job]
    watch: Watch | None
    asker: Callable[..., Asker]
    """Makes what asks judges."""
    concurrency: int | None
    on_progress: Callable[[Progress], object] | None
    give_up_after: int | None

    def settings(
        self, told: Mapping[str, Any], until: UntilWidth | UntilDecided | None
    ) -> dict[str, Any]:
        """Return the configuration of the run, without secrets."""
        config = {
            "kind": "task",
            "task": self.task.describe(),
            "model": {"name": self.model.name, "description": dict(self.model.describe())},
            **told,
            **self.measuring.to_dict(),
            **({} if until is None else {"until": until.to_dict()}),
        }
        settings: dict[str, Any] = redact_secrets(sanitize_for_json(config))
        return settings

    def ask(
        self, journal: Journal | None = None, finished: Any = None
    ) -> tuple[JobResults, Ended | None]:
        """Ask what is not answered yet: everything, or until the rule that watches is content."""
        if self.watch is None:
            return self._part(self.jobs, journal, finished, self.give_up_after), None
        in_a_row = 0

        def part(some: Sequence[Job]) -> JobResults:
            # Failures in a row go on from one part to the next.
            nonlocal in_a_row
            left = None if self.give_up_after is None else max(1, self.give_up_after - in_a_row)
            answers = self._part(some, journal, finished, left)
            states = [outcome.ok for outcome in answers][::-1]
            in_a_row = states.index(True) if True in states else in_a_row + len(states)
            return answers

        at_once = max(_at_once(self.model, self.concurrency), _SMALLEST_PART)
        records_of = self.measuring.records_of(self.task)
        return asked_until(self.watch, self.jobs, part, records_of, at_once)

    def _part(
        self, some: Sequence[Job], journal: Journal | None, finished: Any, give_up: int | None
    ) -> JobResults:
        """Ask some jobs, and judges about the answers."""
        how: dict[str, Any] = {
            "concurrency": self.concurrency,
            "on_progress": self.on_progress,
            "give_up_after": give_up,
        }
        answers = run_jobs(some, self.model, journal=journal, finished=finished, **how)
        judges = self.measuring.judges
        if not judges:
            return answers
        units = {job.unit_id for job in some}
        about = [sample for sample in self.samples if sample.id in units]
        asking = self.asker(**how)
        return with_verdicts(self.task, about, answers, judges, asking, journal, finished)

    def measured(self, settings: Mapping[str, Any], name: str, notes: tuple[str, ...]) -> TaskRun:
        """Return what is found where nothing is stored."""
        started = time.monotonic()
        outcomes, ended = self.ask()
        done = self.measuring.measured(self.task, self.samples, outcomes, settings, name, ended)
        elapsed_s = time.monotonic() - started
        return replace(done, elapsed_s=elapsed_s, notes=(*notes, *done.notes, *outcomes.notes))


def _replayed(done: TaskRun) -> TaskRun:
    """Return what was found with nobody asked."""
    n_replayed = done.n_asked + done.n_cached
    return replace(
        done, n_asked=0, n_cached=0, n_replayed=n_replayed, usage_now=dict.fromkeys(done.usage, 0)
    )


def _check_telling(run_id: Any, on_progress: Any) -> None:
    if run_id is not None and (not isinstance(run_id, str) or not run_id.strip()):
        raise InvalidInputError(f"`run_id` is {run_id!r:.80}; it must be a name")
    if on_progress is not None and not callable(on_progress):
        raise InvalidTypeError(f"`on_progress` is {on_progress!r:.80}; it must be callable")


def _check_against(until: UntilWidth | UntilDecided | None, out: str | Path | None) -> None:
    against = getattr(until, "against", None)
    if against is not None and out is not None and Path(out).resolve() == against.path.resolve():
        raise InvalidInputError(f"`against` is {out}, the run's own folder; choose another")


def _fewer(watch: Watch | None, samples: Sequence[Sample]) -> tuple[str, ...]:
    """Say that a rule leaves samples out which the other run does not have."""
    left = 0 if watch is None else len(samples) - len(watch.samples)
    return (f"{left:,} samples are not in the run to compare with, and are not asked",) * (left > 0)


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
    batching = {name: getattr(model, name) for name in _BATCHING if hasattr(model, name)}
    return {
        "concurrency": _at_once(model, concurrency),
        "model_batching": batching or None,
    }


def _at_once(model: Model | None, concurrency: int | None) -> int:
    return int(getattr(model, "concurrency", CONCURRENCY) if concurrency is None else concurrency)


def _asked(
    model: Model | None,
    cache: ResponseCache | str | Path | None,
    replay: str | Path | None,
    stack: ExitStack,
) -> Model:
    """Return who is asked: the model, its stored answers, or the model behind a cache."""
    if replay is not None:
        from eval_toolkit.runs.replay import ReplayModel

        return ReplayModel(replay, name=None if model is None else model.name)
    if model is None:
        raise InvalidInputError("`model` is missing; pass one, or `replay` with stored answers")
    if isinstance(model, type) or not isinstance(model, Model):
        raise InvalidTypeError(
            f"`model` is {model!r:.80}; it must have name, describe, generate and loglikelihood"
        )
    return cached(model, cache, stack)
