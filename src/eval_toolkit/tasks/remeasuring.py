"""Answers that are there: measured again by other graders, or judged without asking the model."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import NoneType
from typing import Any

from eval_toolkit import _validate
from eval_toolkit.artifacts import sanitize_for_json
from eval_toolkit.errors import ArtifactError, InvalidInputError, InvalidTypeError
from eval_toolkit.graders import load_grader
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE
from eval_toolkit.judges.asking import apart, is_judge, judge_of, judges_in
from eval_toolkit.models.cache import ResponseCache
from eval_toolkit.protocols import Grader
from eval_toolkit.provenance import redact_secrets
from eval_toolkit.runner import JobResult, JobResults, Journal, Progress, read_entries
from eval_toolkit.runner.stored import RESPONSES
from eval_toolkit.runs import Run, open_run
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.ended import Ended
from eval_toolkit.tasks.judging import asker, refuse_unjudged, with_verdicts
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
from eval_toolkit.tasks.types import Sample

__all__ = [
    "check_task",
    "greedy_again",
    "judge_run",
    "measure_run",
    "opened_task_run",
]

_OF_THE_RUN = ("status", "artifacts", "manifest_sha256")
"""What the folder adds to a manifest."""
Ask = Callable[[Journal | None, Any], JobResults]


def check_task(task: Any) -> None:
    """Raise unless it is a task."""
    if not isinstance(task, BaseTask):
        raise InvalidTypeError(f"`task` is {task!r:.80}; it must be a task")


def greedy_again(temperature: float, attempts: int) -> list[str]:
    """Return a note where several attempts are one."""
    if attempts == 1 or temperature > 0.0:
        return []
    return [f"{attempts} attempts at temperature 0: each asks the same greedy question again"]


def opened_task_run(run: Run | str | Path, task: BaseTask[Any], name: str = "run") -> Run:
    """Return a finished run of a task, or raise what else it is."""
    check_task(task)
    _validate.place(run, name, Run)
    source = run if isinstance(run, Run) else Run.open(run)
    config = source.manifest.get("config") or {}
    if config.get("kind") != "task":
        raise ArtifactError(f"{source.path}: is no run of a task; there are no answers to measure")
    if config["task"]["name"] != task.NAME:
        raise ArtifactError(
            f"{source.path}: is a run of {config['task']['name']!r}, not of {task.NAME!r}"
        )
    return source


def measure_run(
    run: Run | str | Path,
    task: BaseTask[Any],
    *,
    graders: Sequence[GraderLike] | None = None,
    out: str | Path | None = None,
    pass_at: Sequence[int] = (),
    pass_hat: Sequence[int] = (),
    maj_at: Sequence[int] = (),
    on_error: str = "exclude",
    max_error_rate: float = 0.0,
    confidence: float = DEFAULT_CONFIDENCE,
) -> TaskRun:
    """Measure the stored answers of a run again, with other graders or settings. Asks no model.

    Judges among the graders are read from their stored verdicts; `judge_run` asks new ones.

    Parameters
    ----------
    run : Run or path
        A finished run of the task.
    task : BaseTask
        The task it ran; references and post-processing come from it.
    graders, pass_at, pass_hat, maj_at, on_error, max_error_rate, confidence
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
        Graders, post-processing and the task's version may differ. Also if a judge has no verdict
        there on an answer as it would be judged now.

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
    >>> from eval_toolkit.tasks.running import run_task
    >>> task = Capitals(rows=[{"country": "Italy", "capital": "Rome"}])
    >>> done = run_task(task, ScriptedModel("ROME"), tempfile.mkdtemp() + "/r")
    >>> done.card["exact_match"].value
    0.0
    >>> again = measure_run(done.run, task, graders=["exact_match{ignore_case=true}"])
    >>> again.card["exact_match"].value
    1.0
    """
    _validate.place(out, "out", NoneType)
    source = opened_task_run(run, task)
    again = _Again.of(
        source,
        task,
        graders,
        pass_at=pass_at,
        pass_hat=pass_hat,
        maj_at=maj_at,
        on_error=on_error,
        confidence=confidence,
        max_error_rate=max_error_rate,
    )
    judges = again.measuring.judges
    if judges:
        refuse_unjudged(source, task, again.samples, again.outcomes, judges)
    return again.measured(out)


def judge_run(
    run: Run | str | Path,
    task: BaseTask[Any],
    judges: Sequence[GraderLike],
    out: str | Path | None = None,
    *,
    graders: Sequence[GraderLike] | None = None,
    pass_at: Sequence[int] | None = None,
    pass_hat: Sequence[int] | None = None,
    maj_at: Sequence[int] | None = None,
    on_error: str | None = None,
    max_error_rate: float = 0.0,
    confidence: float | None = None,
    cache: ResponseCache | str | Path | None = None,
    concurrency: int | None = None,
    give_up_after: int | None = 50,
    on_progress: Callable[[Progress], object] | None = None,
) -> TaskRun:
    """Ask judges about the stored answers of a run. The model that answered is not asked again.

    Parameters
    ----------
    run : Run or path
        A finished run of the task.
    task : BaseTask
        The task it ran.
    judges : sequence of Judge or Panel, or what stands for one
        Who judges; names as in `graders.load_grader` will do.
    out : path, optional
        Where to store answers, verdicts and results; the run's own folder adds to it. Killed there,
        the same call goes on. Without a folder nothing is written.
    graders : sequence of Grader, str or mapping, optional
        Grade beside the judges. By default those that the run is measured by, with its judges'
        stored verdicts, so that nothing is lost: they are made again from the task, from their
        names and options, and from what is stored of judges of ready rubrics.
    pass_at, pass_hat, maj_at, on_error, confidence
        As in `run_task`; those of the run by default.
    max_error_rate, cache, concurrency, give_up_after, on_progress
        As in `run_task`.

    Returns
    -------
    TaskRun
        Of the same samples and attempts; what the judges took is in ``judges``.

    Raises
    ------
    ArtifactError
        As in `measure_run`, if ``out`` holds another run, or if a grader or judge of the run cannot
        be made again: pass it.
    InvalidInputError
        If one of ``judges`` asks nobody.
    ModelError
        If a judge fails for good; what it said is kept.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.judges import Judge
    >>> from eval_toolkit.models.scripted import ScriptedModel
    >>> from eval_toolkit.responses import ResponseType
    >>> from eval_toolkit.tasks.running import run_task
    >>> class Capitals(BaseTask[str]):
    ...     NAME = "Capitals"
    ...     RESPONSE_TYPE = ResponseType.COMPLETION
    ...     def _get_instruction_text(self, item):
    ...         return f"What is the capital of {item['country']}?"
    ...     def _get_ground_truth(self, item):
    ...         return item["capital"]
    >>> task = Capitals(rows=[{"country": "Italy", "capital": "Rome"}])
    >>> done = run_task(task, ScriptedModel("It is Rome."), tempfile.mkdtemp() + "/r")
    >>> judged = judge_run(done.run, task, [Judge("correctness", ScriptedModel("Yes."))])
    >>> judged.card["correctness"].value, judged.n_asked, judged.judges["correctness"]["n_asked"]
    (1.0, 0, 1)
    """
    _validate.place(out, "out", NoneType)
    _validate.place(cache, "cache", ResponseCache, NoneType)
    source = opened_task_run(run, task)
    if isinstance(judges, (str, bytes)) or not isinstance(judges, Sequence) or not judges:
        raise InvalidTypeError(f"`judges` is {judges!r:.80}; it must be a list of judges")
    asked = [_judging(judge) for judge in judges]
    names = {grader.name for grader in asked} | {judge.name for judge in judges_in(asked)}
    from eval_toolkit.tasks.restoring import stored_graders  # judges and panels, seldom needed

    kept = [] if graders is not None else stored_graders(source, task, names)
    config = source.manifest["config"]
    counted = {"pass_at": pass_at, "pass_hat": pass_hat, "maj_at": maj_at}
    told = {"on_error": on_error, "confidence": confidence}
    again = _Again.of(
        source,
        task,
        [*(kept if graders is None else graders), *asked],
        **{name: config.get(name, ()) if ks is None else ks for name, ks in counted.items()},
        **{name: config[name] if one is None else one for name, one in told.items()},
        max_error_rate=max_error_rate,
    )
    before = judges_in(kept)
    refuse_unjudged(source, task, again.samples, again.outcomes, before)
    there = {judge.name for judge in before}
    waiting = [judge for judge in again.measuring.judges if judge.name not in there]
    with ExitStack() as stack:
        asking = asker(
            cache,
            None,
            stack,
            concurrency=concurrency,
            give_up_after=give_up_after,
            on_progress=on_progress,
        )

        def ask(journal: Journal | None, finished: Any) -> JobResults:
            known = {**read_entries(source.table(RESPONSES)), **(finished or {})}
            answers, verdicts = apart(again.outcomes)
            found = with_verdicts(task, again.samples, answers, waiting, asking, journal, known)
            names = {judge.name for judge in waiting}
            others = [one for one in verdicts if judge_of(one.job.step) not in names]
            return replace(found, outcomes=(*found.outcomes, *others))

        return again.measured(out, ask)


def _judging(given: GraderLike) -> Grader:
    """Return a judge, or raise if it asks nobody."""
    judge = load_grader(given)
    if not is_judge(judge):
        raise InvalidInputError(f"{judge.name!r} asks nobody; give it to measure_run")
    return judge


@dataclass(frozen=True, slots=True)
class _Again:
    """The stored answers of a run, and how they are to be measured."""

    source: Run
    task: BaseTask[Any]
    measuring: Measuring
    samples: Sequence[Sample]
    outcomes: Sequence[JobResult]
    settings: dict[str, Any]
    notes: tuple[str, ...]
    ended: Ended | None = None
    """Of a run that a rule watched."""

    @classmethod
    def of(
        cls,
        source: Run,
        task: BaseTask[Any],
        graders: Sequence[GraderLike] | None,
        **counting: Any,
    ) -> "_Again":
        """Check that the task is the one that was asked."""
        config = source.manifest["config"]
        measuring = Measuring.of(task, graders, attempts=config["attempts"], **counting)
        told = redact_secrets(sanitize_for_json(task.describe()))
        same_settings(source, told)
        samples = task.samples(config["limit"], order=config["order"])
        ended = _ended(source, samples, task.seed, measuring.confidence)
        samples = samples if ended is None else list(ended.samples)
        same_units(source, samples)
        same_prompts(source, told)
        kept = {name: value for name, value in config.items() if name != "judges"}
        measured = redact_secrets(sanitize_for_json(measuring.to_dict()))
        units = {sample.id for sample in samples}
        outcomes = [
            outcome
            for outcome in outcomes_of(source)
            if outcome.job.unit_id in units and outcome.job.attempt <= config["attempts"]
        ]
        again = greedy_again(config["decoding"]["temperature"], config["attempts"])
        notes = (*task.data_notes, *again)
        settings = {**kept, "task": told, **measured}
        return cls(source, task, measuring, samples, outcomes, settings, notes, ended)

    def measured(self, out: str | Path | None, ask: Ask | None = None) -> TaskRun:
        """Return what the answers come to; judges are asked first, where ``ask`` is given."""
        started = time.monotonic()
        if out is None:
            outcomes = self.outcomes if ask is None else ask(None, None)
            done = self.measuring.measured(
                self.task, self.samples, outcomes, self.settings, self.source.run_id, self.ended
            )
            return self._told(done, outcomes, time.monotonic() - started if ask else 0.0)
        digest = model_digest(self.source.manifest)
        stored = StoredRun(
            Path(out),
            self.task,
            self.measuring,
            self.settings,
            self.samples,
            None,
            digest,
            self.notes,
        )
        there = self.source.manifest
        head = {
            **{name: value for name, value in there.items() if name not in _OF_THE_RUN},
            **stored.manifest(stored.name),
        }
        with open_run(out, manifest=head) as opened:
            refuse_other(stored.folder, opened.begun, there["config"], digest)
            outcomes = self.outcomes
            if ask is not None:
                before = opened.previous
                finished = None if before is None else read_entries(before.table(RESPONSES))
                outcomes = ask(Journal(opened.journal_path), finished)
            elapsed_s = time.monotonic() - started if ask else 0.0
            done = stored.finished(opened, head, outcomes, elapsed_s, self.ended)
            return self._told(done, outcomes, elapsed_s)

    def _told(self, done: TaskRun, outcomes: Sequence[JobResult], elapsed_s: float) -> TaskRun:
        # A stored failure was not asked for now.
        notes = dict.fromkeys((*self.notes, *done.notes, *getattr(outcomes, "notes", ())))
        return replace(done, n_asked=0, notes=tuple(notes), elapsed_s=elapsed_s)


def _ended(source: Run, samples: Sequence[Sample], seed: int, confidence: float) -> Ended | None:
    """Return how a run ended that a rule watched."""
    rule, told = source.manifest["config"].get("until"), source.results.get("stopping")
    if rule is None or told is None:
        return None
    (subject,) = source.subjects
    counted = set(source.records(*subject).unit_id.tolist())
    return Ended.stored(told, rule, samples, counted, seed=seed, confidence=confidence)
