"""Judges inside a run: asked after the answers, through the same cache, journal and folder."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from eval_toolkit._hashing import canonical_json
from eval_toolkit.errors import ArtifactError, ModelError
from eval_toolkit.judges.asking import Asker, AskingGrader, apart, judge_jobs
from eval_toolkit.models.cache import ResponseCache, cached
from eval_toolkit.protocols import Model
from eval_toolkit.requests import GenerateRequest, LoglikelihoodRequest, request_hash
from eval_toolkit.responses import RawCompletion, RawLoglikelihood
from eval_toolkit.runner import Entry, JobResult, JobResults, Journal, read_entries
from eval_toolkit.runner.jobs import Key
from eval_toolkit.runner.stored import RESPONSES
from eval_toolkit.runs import Run
from eval_toolkit.runs.open import JOURNAL
from eval_toolkit.tasks.measuring import Measurable, built_responses
from eval_toolkit.tasks.types import Sample

__all__ = ["asker", "refuse_unjudged", "with_verdicts"]


def asker(
    cache: ResponseCache | str | Path | None,
    replay: str | Path | None,
    stack: ExitStack,
    **how: Any,
) -> Asker:
    """Return how judges are asked: really, behind a cache, or not at all where a run is replayed.

    Parameters
    ----------
    cache : ResponseCache or path, optional
        Verdicts kept between runs.
    replay : path, optional
        A run, a journal or a cache whose verdicts stand for asking.
    stack : ExitStack
        Closes what is opened here.
    **how
        ``concurrency``, ``on_progress`` and ``give_up_after`` as in `run_jobs`.

    Returns
    -------
    Asker
        For `with_verdicts`.

    Examples
    --------
    >>> with ExitStack() as stack:
    ...     asker(None, None, stack).recorded is None
    True
    """
    if replay is None:
        return Asker(through=lambda model: cached(model, cache, stack), **how)
    place = Path(replay)
    if place.is_dir() or place.suffix == ".jsonl":
        recorded = _recorded(place)
        return Asker(through=lambda model: _Silent(model, place), recorded=recorded, **how)
    return Asker(through=lambda model: cached(_Silent(model, place), place, stack), **how)


def _recorded(place: Path) -> Mapping[Key, Entry]:
    """Return the finished requests of a run or a journal."""
    if place.is_dir() and (place / RESPONSES).exists():
        return read_entries(Run.open(place).table(RESPONSES))
    return Journal(place / JOURNAL if place.is_dir() else place).read()


@dataclass(frozen=True, slots=True)
class _Silent:
    """A judge's model that is not asked: what it said stands elsewhere."""

    model: Model
    source: Path

    @property
    def name(self) -> str:
        return self.model.name

    def describe(self) -> Mapping[str, Any]:
        return self.model.describe()

    async def generate(self, request: GenerateRequest) -> RawCompletion:
        self._refuse()

    async def loglikelihood(self, request: LoglikelihoodRequest) -> RawLoglikelihood:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ModelError(
            f"{self.source} holds no such verdict of {self.name}, and a replay asks nobody",
            kind="other",
        )


def with_verdicts(
    task: Measurable,
    samples: Sequence[Sample],
    answers: Sequence[JobResult],
    judges: Sequence[AskingGrader],
    asking: Asker,
    journal: Journal | None = None,
    finished: Mapping[Key, Entry] | None = None,
) -> JobResults:
    """Ask judges about the answers of a run, and return both.

    Parameters
    ----------
    task : BaseTask
        Post-processes texts.
    samples : sequence of Sample
        What was asked.
    answers : JobResults or sequence of JobResult
        What came of it; failed answers are not judged.
    judges : sequence of AskingGrader
        Who judges.
    asking : Asker
        How.
    journal, finished
        As in `run_jobs`.

    Returns
    -------
    JobResults
        The answers, then the verdicts.

    Raises
    ------
    ModelError
        If a judge fails for good; what it said before is in the journal.

    Examples
    --------
    >>> with_verdicts(None, [], [], [], Asker())
    JobResults(0 jobs, 0 reused, 0 errors)
    """
    verdicts = asking.ask(judges, built_responses(task, samples, answers), journal, finished)
    notes = dict.fromkeys((*getattr(answers, "notes", ()), *verdicts.notes))
    return JobResults((*answers, *verdicts), verdicts.progress, tuple(notes))


def refuse_unjudged(
    run: Run,
    task: Measurable,
    samples: Sequence[Sample],
    outcomes: Iterable[JobResult],
    judges: Iterable[AskingGrader],
) -> None:
    """Raise if a run lacks a verdict that its judges would be asked for now.

    Parameters
    ----------
    run : Run
        Whose answers are measured again.
    task, samples
        What was asked.
    outcomes : iterable of JobResult
        The stored answers and verdicts.
    judges : iterable of AskingGrader
        Whose verdicts are wanted.

    Raises
    ------
    ArtifactError
        If a judge was not asked there, or with another prompt, model or setting.
    """
    answers, verdicts = apart(outcomes)
    there = {outcome.job.key: outcome for outcome in verdicts}
    responses = built_responses(task, samples, answers)
    for judge in judges:
        identity = canonical_json(dict(judge.asked.describe()))
        jobs = judge_jobs(judge, responses)
        absent = sum(job.key not in there for job in jobs)
        other = sum(
            job.key in there and there[job.key].request_hash != request_hash(job.request, identity)
            for job in jobs
        )
        if absent or other:
            what = "has no verdict of" if absent else "has verdicts of another version of"
            raise ArtifactError(
                f"{run.path}: the run {what} the judge {judge.name!r} on {absent or other} of "
                f"{len(jobs)} answers; run the task there with it, or judge_run: the model is not "
                "asked again"
            )
