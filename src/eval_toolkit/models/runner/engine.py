"""Request engine: workers that process a list of jobs and record every answer in a journal.

Outcomes depend neither on the number of workers nor on the order in which they finish.
"""

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit._internal.files import limits
from eval_toolkit._internal.hashing import canonical_json
from eval_toolkit._internal.redaction import one_line
from eval_toolkit.errors import (
    ArtifactError,
    InvalidInputError,
    InvalidTypeError,
    MissingExtraError,
    ModelError,
)
from eval_toolkit.models.patience import PATIENCE_S, Patience, be_patient
from eval_toolkit.models.payloads import Response, checked_response
from eval_toolkit.models.request_positions import Place, ask
from eval_toolkit.models.requests import Request, request_hash
from eval_toolkit.models.responses import ErrorInfo
from eval_toolkit.models.runner.entries import Entries, Entry, JournalledEntry, JournalledResult
from eval_toolkit.models.runner.jobs import Job, JobResult, JobResults, Key
from eval_toolkit.models.runner.journal import Journal
from eval_toolkit.models.runner.progress import OnProgress, Tally
from eval_toolkit.protocols import Model

CONCURRENCY = 16
"""Number of concurrent requests if neither the caller nor the model specifies one."""
_ABOUT_THE_PROMPT = frozenset({"too_long", "refused"})
"""Kinds of failures caused by the prompt, not by the model."""
_BEGIN_WITHIN_S = 5.0
_END_WITHIN_S = 5.0
"""Seconds that an interrupted run waits for requests in flight, which may already be billed."""
_BREATHE_EVERY = 64
"""Number of requests between yields to the event loop, so that a run can be cancelled."""


def run_jobs(
    jobs: Iterable[Job],
    model: Model,
    *,
    journal: Journal | None = None,
    finished: Mapping[Key, Entry] | None = None,
    concurrency: int | None = None,
    on_progress: OnProgress | None = None,
    give_up_after: int | None = 50,
    patience_s: float | None = 0.0,
) -> JobResults:
    """Send all unanswered jobs to a model; also works in notebooks.

    Parameters
    ----------
    jobs : iterable of Job
        Jobs, each with a unique combination of unit, attempt and step.
    model : Model
        Model to query; it is closed at the end if possible.
    journal : Journal, optional
        Journal that records every outcome and is closed at the end. Its answers are reused; errors
        are retried.
    finished : mapping of key to Entry, optional
        Additional answers that need not be requested, such as `read_entries` of an earlier run.
    concurrency : int, optional
        Maximum number of concurrent requests; by default, the number recommended by the model, else
        16.
    on_progress : callable, optional
        Callback that receives a `Progress` at the start, at the end, and at most ten times a
        second.
    give_up_after : int or None, default 50
        Number of consecutive failures after which no more requests are sent; None for no limit.
        Failures caused by the prompt (too long, refused) do not count.
    patience_s : float or None, default 0
        Seconds to wait for a server that is unavailable or refuses every request; None for 30
        minutes once it has answered, and 0 before.

    Returns
    -------
    JobResults
        One outcome per job, in the order of the jobs. A failed request is an outcome with an error
        and does not affect the others.

    Raises
    ------
    ModelError
        If a failure affects all requests, or there are too many consecutive failures. Finished
        requests are kept in the journal, from which the same call resumes.
    ArtifactError
        If the journal cannot be read or written.
    InvalidInputError, InvalidTypeError
        If two jobs have the same key, or an argument is invalid.

    Examples
    --------
    >>> from eval_toolkit.models.scripted import ScriptedModel
    >>> from eval_toolkit.models.requests import GenerateRequest
    >>> jobs = [Job(f"q{n}", 1, GenerateRequest(f"{n} + 1 =")) for n in range(3)]
    >>> model = ScriptedModel(lambda request: str(int(request.prompt.split()[0]) + 1))
    >>> [outcome.response.text for outcome in run_jobs(jobs, model)]
    ['1', '2', '3']
    """

    def work() -> Coroutine[Any, Any, JobResults]:
        return run_jobs_async(
            jobs,
            model,
            journal=journal,
            finished=finished,
            concurrency=concurrency,
            on_progress=on_progress,
            give_up_after=give_up_after,
            patience_s=patience_s,
        )

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    return _in_a_thread(work)


async def run_jobs_async(
    jobs: Iterable[Job],
    model: Model,
    *,
    journal: Journal | None = None,
    finished: Mapping[Key, Entry] | None = None,
    concurrency: int | None = None,
    on_progress: OnProgress | None = None,
    give_up_after: int | None = 50,
    patience_s: float | None = 0.0,
    close_model: bool = True,
) -> JobResults:
    """Run `run_jobs` in the running event loop.

    Parameters
    ----------
    jobs, model, journal, finished, concurrency, on_progress, give_up_after, patience_s
        See `run_jobs`.
    close_model : bool, default True
        Whether to close the model; if False, it stays open for later calls in the same loop.

    Returns
    -------
    JobResults
        See `run_jobs`.

    Raises
    ------
    ModelError, ArtifactError, InvalidInputError, InvalidTypeError
        See `run_jobs`.

    Examples
    --------
    >>> from eval_toolkit.models.scripted import ScriptedModel
    >>> from eval_toolkit.models.requests import GenerateRequest
    >>> job = Job("q1", 1, GenerateRequest("2 + 2 ="))
    >>> asyncio.run(run_jobs_async([job], ScriptedModel("4")))[0].response.text
    '4'
    """
    listed = _checked(jobs)
    if not isinstance(model, Model):
        raise InvalidTypeError(f"`model` is {model!r}; it must be a Model")
    if journal is not None and not isinstance(journal, Journal):
        raise InvalidTypeError(f"`journal` is {journal!r}; it must be a Journal")
    limit = concurrency if concurrency is not None else getattr(model, "concurrency", CONCURRENCY)
    n_workers = min(validation.integer(limit, "concurrency", low=1), len(listed))
    if give_up_after is not None:
        validation.integer(give_up_after, "give_up_after", low=1)
    asking = _Asking(listed, model, journal, finished or {}, give_up_after)
    patience = Patience(PATIENCE_S if patience_s is None else patience_s, bool(patience_s))
    be_patient(patience)
    asking.patience = patience
    asking.tally = Tally(len(listed), asking.n_reused, on_progress, patience)
    try:
        await asking.run(n_workers)
    finally:
        try:
            if close_model:
                await asking.close_model()
        finally:
            if journal is not None:
                journal.close()
    asking.tally.tell()
    return asking.result()


class _Asking:
    """State of one run of the engine."""

    tally: Tally
    patience: Patience

    def __init__(
        self,
        jobs: list[Job],
        model: Model,
        journal: Journal | None,
        finished: Mapping[Key, Entry],
        give_up_after: int | None,
    ) -> None:
        self.jobs = jobs
        self.model = model
        self.journal = journal
        self.give_up_after = give_up_after
        self.notes: list[str] = []
        self.n_failed_in_a_row = 0
        self.held_bytes = 0
        description = dict(model.describe())
        self.identity = canonical_json(description)
        written = Entries() if journal is None else journal.read()
        if journal is not None:
            # A replay needs this to send the same prompts; recorded only if not the default.
            manner = {} if getattr(model, "speaks_chat", True) else {"speaks_chat": False}
            journal.describe(model=model.name, description=description, **manner)
        self.stored = [there for there in (written, finished) if there]
        self.n_stale = self.n_damaged = 0
        self.outcomes: list[JobResult | None] = [None] * len(jobs)
        self.unchecked = iter(self._reuse_all())
        self.n_reused = sum(outcome is not None for outcome in self.outcomes)
        self.places = _places(jobs) if hasattr(model, "answer_at") else [None] * len(jobs)
        self.pending = iter([n for n, found in enumerate(self.outcomes) if found is None])
        if written.n_garbled:
            self.notes.append(f"{written.n_garbled} unreadable lines of the journal were ignored")

    def _reuse_all(self) -> list[int]:
        """Reuse stored answers; return the jobs whose requests are compared later.

        That takes longer than the rest of the start if the requests are on disk.
        """
        later = []
        for n, job in enumerate(self.jobs if self.stored else ()):
            key = job.key
            entries = [there[key] for there in self.stored if key in there]
            if len(entries) == 1 and isinstance(entries[0], JournalledEntry):
                self.outcomes[n] = entries[0].answer(job, entries[0].request_hash)
                later.append(n)
            elif entries:
                self.outcomes[n] = self._reused(job, entries)
        return later

    def _reused(self, job: Job, entries: Sequence[Entry]) -> JobResult | None:
        """Return the first entry that answers a job's request; count unusable ones."""
        digest = request_hash(job.request, self.identity)
        for entry in entries:
            answer = entry.answer(job, digest)
            if answer is not None:
                return answer
        damaged = any(entry.ok and entry.request_hash == digest for entry in entries)
        self.n_damaged += damaged
        self.n_stale += not damaged and any(entry.ok for entry in entries)
        return None

    def _is_stale(self, n: int) -> bool:
        """Return whether a reused answer is not for the request of its job."""
        job = self.jobs[n]
        entries = [there[job.key] for there in self.stored if job.key in there]
        self.outcomes[n] = self._reused(job, entries)
        stale = self.outcomes[n] is None
        self.tally.reused -= stale
        return stale

    async def run(self, n_workers: int) -> None:
        """Run until no job is pending; the first exception in a worker stops all workers."""
        workers = [asyncio.create_task(self._work()) for _ in range(n_workers)]
        if not workers:
            return
        try:
            ended, _ = await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
        except asyncio.CancelledError:
            self.pending = self.unchecked = iter(())
            self.patience.stopping = True
            self.tally.tell()
            await asyncio.wait(workers, timeout=_END_WITHIN_S)
            raise
        finally:
            self.pending = self.unchecked = iter(())
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        for worker in ended:
            worker.result()

    async def _work(self) -> None:
        # Read the iterators each time, since they are emptied when the run stops.
        while (n := next(self.pending, None)) is not None:
            await self._ask(n)
            if n % _BREATHE_EVERY == 0:
                await asyncio.sleep(0)
        while (n := next(self.unchecked, None)) is not None:
            if self._is_stale(n):
                await self._ask(n)
            if n % _BREATHE_EVERY == 0:
                await asyncio.sleep(0)

    async def _ask(self, n: int) -> None:
        job = self.jobs[n].loaded()
        try:
            answer = await ask(self.model, job.request, self.places[n])
            response = checked_response(answer, job.request)
            if (wrong := response.error) is not None:
                kind = wrong.kind if wrong.kind in ModelError.KINDS else "other"
                raise ModelError(wrong.message, kind=kind, status=wrong.status, tries=wrong.tries)
            self.outcomes[n] = self._finished(n, job, response)
            self.n_failed_in_a_row = 0
        except (ArtifactError, MissingExtraError):  # affects all requests
            raise
        except Exception as failure:  # a model may raise anything; other jobs continue
            error = _error_info(failure)
            if error.kind in ModelError.FATAL:
                usable = error.kind in ("unreachable", "budget")
                why = "requests stopped" if usable else "the model cannot be used"
                raise self._stopped(error, why) from failure
            self.outcomes[n] = self._finished(n, job, error=error)
            self._give_up_if_hopeless(error)

    def _finished(
        self, n: int, job: Job, response: Response | None = None, error: ErrorInfo | None = None
    ) -> JobResult:
        """Journal an outcome; return it, or its position in the journal."""
        digest = request_hash(job.request, self.identity)
        outcome = JobResult(self.jobs[n], response, error, request_hash=digest)
        if self.journal is not None:
            span = self.journal.append(Entry.of(outcome, job.request))
            self.held_bytes += span[1]
            if self.held_bytes > limits.HELD_BYTES and response is not None:
                outcome = JournalledResult(self.jobs[n], self.journal.parts, span)
        self.tally.count(response)
        return outcome

    def _give_up_if_hopeless(self, error: ErrorInfo) -> None:
        if error.kind in _ABOUT_THE_PROMPT:
            return
        self.n_failed_in_a_row += 1
        if self.n_failed_in_a_row == self.give_up_after:
            raise self._stopped(error, f"{self.n_failed_in_a_row} requests failed in a row")

    def _stopped(self, error: ErrorInfo, why: str) -> ModelError:
        n_answered = sum(outcome is not None and outcome.ok for outcome in self.outcomes)
        kept = "" if self.journal is None else " and kept; run the same command again to resume"
        return ModelError(
            f"{self.model.name}: {why}: {error.message} ({n_answered} of {len(self.jobs)} requests "
            f"are answered{kept})",
            kind=error.kind,
            status=error.status,
            tries=error.tries,
        )

    async def close_model(self) -> None:
        """Close the model if possible; errors are ignored, since the outcomes are complete."""
        try:
            if hasattr(self.model, "aclose"):
                await self.model.aclose()
        except ArtifactError:
            raise
        except Exception as failure:  # the answers are complete
            self.notes.append(f"closing {self.model.name} failed: {one_line(failure)}")

    def result(self) -> JobResults:
        """Return the outcomes of all jobs."""
        outcomes = tuple(outcome for outcome in self.outcomes if outcome is not None)
        notes = [
            f"{n} stored answers are {what}; requested again"
            for n, what in (
                (self.n_stale, "for another model, prompt or parameter"),
                (self.n_damaged, "damaged"),
            )
            if n
        ]
        return JobResults(outcomes, self.tally.snapshot(), (*notes, *self.notes))


def _checked(jobs: Iterable[Job]) -> list[Job]:
    listed = list(jobs)
    seen: dict[Key, int] = {}
    for n, job in enumerate(listed):
        if not isinstance(job, Job):
            raise InvalidTypeError(f"jobs[{n}] is {type(job).__name__}; it must be a Job")
        first = seen.setdefault(job.key, n)
        if first != n:
            raise InvalidInputError(
                f"jobs[{first}] and jobs[{n}] are both unit {job.unit_id!r}, attempt "
                f"{job.attempt}, step {job.step!r}; each combination may occur once"
            )
    return listed


def _places(jobs: Iterable[Job]) -> list[Place | None]:
    """Return the position of each job among those with an identical request."""
    n_equal: Counter[Request | str] = Counter()
    places: list[Place | None] = []
    for job in jobs:
        request = job.request
        same = request if job.loaded() is job else request.fingerprint  # its text stays on disk
        places.append(Place(job.key, n_equal[same]))
        n_equal[same] += 1
    return places


def _error_info(failure: Exception) -> ErrorInfo:
    message = one_line(failure)
    if not isinstance(failure, ModelError):
        return ErrorInfo("other", message, retryable=False)
    return ErrorInfo(failure.kind, message, failure.status, failure.tries, failure.retryable)


def _in_a_thread(work: Callable[[], Coroutine[Any, Any, JobResults]]) -> JobResults:
    """Run a coroutine in a new event loop in another thread; an interrupt ends both."""
    begun = threading.Event()
    ended: Future[JobResults] = Future()  # a pool may lose a thread whose start is interrupted
    under_way: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []

    async def main() -> JobResults:
        task = asyncio.current_task()
        if task is not None:
            under_way.append((asyncio.get_running_loop(), task))
        begun.set()
        return await work()

    def thread() -> None:
        try:
            ended.set_result(asyncio.run(main()))
        except BaseException as error:  # re-raised in the waiting caller
            ended.set_exception(error)

    try:
        threading.Thread(target=thread, name="eval-toolkit").start()
        return ended.result()
    except KeyboardInterrupt:
        if begun.wait(_BEGIN_WITHIN_S):
            for loop, task in under_way:
                with contextlib.suppress(RuntimeError):  # the loop has already ended
                    loop.call_soon_threadsafe(task.cancel)
            wait([ended])
        raise
