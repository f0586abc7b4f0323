"""Context of an evaluation: queries to models and functions, with a journal and resuming.

Models are queried through the runner, in which requests fail independently. Functions are called
once for all jobs; if that raises an exception, they are called once per job.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

from eval_toolkit._internal.files import Span, limits, parse_json
from eval_toolkit._internal.hashing import canonical_json
from eval_toolkit._internal.plain import plain
from eval_toolkit._internal.redaction import one_line
from eval_toolkit.errors import ArtifactError, InvalidInputError, ModelError
from eval_toolkit.models.payloads import to_json
from eval_toolkit.models.requests import GenerateRequest, request_hash
from eval_toolkit.models.responses import ErrorInfo, RawCompletion, Usage
from eval_toolkit.models.runner import (
    Entry,
    Job,
    JobResult,
    JobResults,
    Journal,
    Progress,
    read_outcomes,
)
from eval_toolkit.models.runner.engine import CONCURRENCY, run_jobs_async
from eval_toolkit.models.runner.entries import Entries, JournalledEntry
from eval_toolkit.models.runner.jobs import Key
from eval_toolkit.models.runner.stored import RESPONSES
from eval_toolkit.protocols import Model
from eval_toolkit.runs.budgets import tokens_of
from eval_toolkit.runs.folder import Run
from eval_toolkit.runs.specs import AskSpec
from eval_toolkit.runs.units import Unit

if TYPE_CHECKING:
    from eval_toolkit.runs.function_calls import NothingToSay

Said = JobResult | None
"""Outcome of a request; None if it exceeded the budget."""

_SLICE = 64
"""Maximum number of requests between checks of a token budget."""
_WATCH_S = 2.0
"""Seconds between checks for newly journalled answers."""
_WATCH_SHARE = 20
"""Minimum time between checks, as a multiple of the time that the last one took."""
_WATCH_FROM = 10
"""Number of answers before the first check, since estimates from fewer are not useful."""
_SUMMED = ("done", "reused", "errors", "prompt_tokens", "completion_tokens", "cost")


@dataclass(frozen=True, slots=True)
class Attempt:
    """Attempt at a unit: its result, or the reason why there is none."""

    unit_id: str
    attempt: int = 1
    output: Any = None
    error: str = ""


class Context:
    """Context manager that queries models, judges and functions for one run.

    Parameters
    ----------
    spec : AskSpec, optional
        Concurrency, cache and budget of the requests.
    journal : Journal, optional
        Journal that records every answer; answers in it are not requested again.
    finished : mapping of key to Entry, optional
        Additional answers that need not be requested.
    watch : callable, optional
        Callback that receives the new answers in the journal every few seconds.

    Examples
    --------
    >>> from eval_toolkit.models.scripted import ScriptedModel
    >>> from eval_toolkit.models.requests import GenerateRequest
    >>> with Context() as context:
    ...     said = context.ask(ScriptedModel("4"), [Job("q1", 1, GenerateRequest("2 + 2 ="))])
    >>> said[0].response.text, len(context.outcomes)
    ('4', 1)
    """

    def __init__(
        self,
        spec: AskSpec | None = None,
        *,
        journal: Journal | None = None,
        finished: Mapping[Key, Entry] | None = None,
        watch: Callable[[Sequence[Entry]], None] | None = None,
    ) -> None:
        self.spec = AskSpec() if spec is None else spec
        self.journal = journal
        self._watch = watch
        self.finished: dict[Key, Entry] = dict(finished or {})
        self.written: Mapping[Key, Entry] = {}
        """Entries of the journal before the first request."""
        self.outcomes: list[JobResult] = []
        """Answers of models and functions, new or reused, in order."""
        self.verdicts: list[JobResult] = []
        """Answers of judges."""
        self.values: dict[Key, Any] = {}
        """Values other than strings that functions returned, kept while the context exists."""
        self.notes: list[str] = []
        self.n_calls = 0
        """Number of calls of a function or a model; a batch counts as one call."""
        self._models: dict[int, tuple[Model, Model]] = {}
        self._recorded: Mapping[Key, Entry] | None = None
        self._before = Progress()
        self._started = time.monotonic()
        self._total = 0
        self._tokens = 0
        self._untold = 0
        self._n_failed_in_a_row = 0
        self._stack = ExitStack()
        self._runner: asyncio.Runner | None = None
        self._thread: ThreadPoolExecutor | None = None

    def __enter__(self) -> Context:
        if self.journal is not None:
            self.written = written = self.journal.read()
            self.finished |= written
            self.journal = _ReadAlready(self.journal.path)
            if self._watch is not None:
                self.journal = _Watched(self.journal.path, self._watch, written)
            if written.n_garbled:
                self.notes.append(
                    f"{written.n_garbled} unreadable lines of the journal were ignored"
                )
        self._runner = asyncio.Runner()
        with suppress(RuntimeError):  # if no loop is running
            asyncio.get_running_loop()
            self._thread = ThreadPoolExecutor(1, "eval-toolkit")
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            for _, model in self._models.values():
                self._close(model)
        finally:
            if self._runner is not None:
                self._in_loop(self._runner.close)
            if self._thread is not None:
                self._thread.shutdown()
            if self.journal is not None:
                self.journal.close()
            self._stack.close()
        if self._untold:
            self.notes.append(
                f"{self._untold} answers do not report token counts; they count as 0 in the token "
                f"budget"
            )

    def expect(self, n: int) -> None:
        """Increase the expected maximum number of requests."""
        self._total += n

    def ask(self, model: Model, jobs: Sequence[Job]) -> list[Said]:
        """Query a model for all jobs; return one outcome per job, or None beyond the budget."""
        found: list[JobResult] = []
        while n := self._allowed(len(jobs) - len(found)):
            self.n_calls += 1
            some = jobs[len(found) : len(found) + n]
            most, failed = self.spec.give_up_after, self._n_failed_in_a_row
            left = None if most is None else max(1, most - failed)
            done = self._run(self._run_model_jobs, self._kept(model), some, left)
            states = [outcome.ok for outcome in reversed(done)]
            whole = True not in states
            self._n_failed_in_a_row = failed + len(states) if whole else states.index(True)
            self._note(done)
            self._count(done, done.progress)
            found += done
        return [*found, *[None] * (len(jobs) - len(found))]

    def ask_jobs(self, jobs: Iterable[tuple[Model, list[Job]]]) -> list[JobResult]:
        """Query judges, one model after another; the budget does not apply to them.

        Parameters
        ----------
        jobs : iterable of (Model, list of Job)
            Jobs of each judge; jobs of the same model are run together.
        """
        by_model: dict[str, tuple[Model, list[Job]]] = {}
        for model, theirs in jobs:
            identity = canonical_json([model.name, dict(model.describe())])
            by_model.setdefault(identity, (model, []))[1].extend(theirs)
        found: list[JobResult] = []
        for model, theirs in by_model.values():
            if theirs:
                self.n_calls += 1
                done = self._run(self._judged, self._silenced(model), theirs)
                self._note(done)
                self.verdicts += done
                found += done
        return found

    def _note(self, done: JobResults) -> None:
        self.notes += [note for note in done.notes if note not in self.notes]

    def call(
        self,
        function: Callable[..., Any],
        jobs: Sequence[Job],
        arguments: Sequence[Sequence[Any]],
        identities: Sequence[str],
    ) -> list[Said | NothingToSay]:
        """Call a function for all jobs.

        Parameters
        ----------
        function : callable
            Function that takes one list per argument and returns one string per job. A coroutine
            function takes the arguments of a single job and returns one string.
        jobs : sequence of Job
            Jobs under which the strings are stored in the journal.
        arguments : sequence of sequences
            Arguments of the function, each with one entry per job.
        identities : sequence of str
            Identity of the function for each job, stored with the answer.

        Returns
        -------
        list of JobResult, NothingToSay or None
            As in `ask`; `NothingToSay` if the function raised it to end the attempt.

        Raises
        ------
        ModelError
            If a failure affects all calls, or there are too many consecutive failures.
        """
        from eval_toolkit.runs.function_calls import Calling

        n = self._left(len(jobs))
        keys = [request_hash(job.request, own) for job, own in zip(jobs, identities, strict=True)]
        found: list[Said | NothingToSay] = [
            self.finished[job.key].answer(job, key) if job.key in self.finished else None
            for job, key in zip(jobs[:n], keys, strict=False)
        ]
        todo = [at for at, there in enumerate(found) if there is None]

        def finish(place: int, result: Any) -> None:
            at = todo[place]
            found[at] = self._finished(jobs[at], result, keys[at])

        if todo:
            calling = Calling(
                function,
                [[column[at] for at in todo] for column in arguments],
                finish,
                run=self._run,
                concurrency=self.spec.concurrency,
                give_up_after=self.spec.give_up_after,
            )
            calling.call()
            self.n_calls += calling.n_calls
        done = [outcome for outcome in found if isinstance(outcome, JobResult)]
        n_errors = sum(not outcome.ok for outcome in done)
        self._count(done, Progress(done=n, reused=n - len(todo), total=n, errors=n_errors))
        return [*found, *[None] * (len(jobs) - n)]

    def answers(
        self, function: Callable[..., Any], units: Sequence[Unit], identity: str, attempts: int = 1
    ) -> list[Attempt]:
        """Call a function for all units; its answers are JSON values and recorded in the journal.

        Parameters
        ----------
        function : callable
            Function that maps a list of inputs to a list of answers. A coroutine function takes a
            single input.
        units : sequence of Unit
            Units to answer.
        identity : str
            Identity of the function; stored answers with another identity are not used.
        attempts : int, default 1
            Number of answers per unit.

        Returns
        -------
        list of Attempt
            Attempts in the order of the units; failed ones have an error.
        """
        pairs = [(unit, n) for unit in units for n in range(1, attempts + 1)]
        jobs = [Job(one.id, n, GenerateRequest(to_json(plain(one.input)))) for one, n in pairs]
        self.expect(len(jobs))
        size = self.spec.concurrency or CONCURRENCY
        found: list[Attempt] = []
        for start in range(0, len(jobs), size):  # results are journalled after each call
            some, of = jobs[start : start + size], pairs[start : start + size]
            inputs = [[unit.input for unit, _ in of]]
            results = self.call(_in_json(function), some, inputs, [identity] * len(some))
            found += [_attempt(job, one) for job, one in zip(some, results, strict=True)]
        return found

    def stored_answers(self, run: Run) -> list[Attempt]:
        """Return the stored answers of a run that were recorded by `answers`."""
        stored = read_outcomes(run.table(RESPONSES))
        self.outcomes += stored
        return [_attempt(one.job, one) for one in stored]

    def _finished(self, job: Job, result: Any, key: str) -> JobResult | NothingToSay:
        """Store the result of a function, in the journal if there is one."""
        from eval_toolkit.runs.function_calls import NothingToSay

        if isinstance(result, NothingToSay):
            return result
        if self.journal is None and not isinstance(result, (str, BaseException, NoneType)):
            self.values[job.key] = result
            result = str(result)  # placeholder in the outcomes
        outcome = _outcome(job, result, key)
        if self.journal is not None:
            self.journal.append(Entry.of(outcome))
        return outcome

    def _count(self, done: Iterable[JobResult], progress: Progress) -> None:
        """Store a result and count its tokens."""
        for outcome in done:
            self.outcomes.append(outcome)
            if outcome.response is None:
                continue
            tokens = tokens_of(outcome.response)
            self._tokens += tokens or 0
            self._untold += tokens is None and self.spec.budget.tokens is not None
        self._before = self._sum(progress)
        if self.spec.on_progress is not None:
            self.spec.on_progress(self._before)

    def _left(self, n: int) -> int:
        """Return how many of the next requests the budget allows."""
        if self.spec.budget.tokens is not None and self._tokens >= self.spec.budget.tokens:
            return 0
        left = n if self.spec.budget.calls is None else self.spec.budget.calls - len(self.outcomes)
        return max(0, min(n, left))

    def _allowed(self, n: int) -> int:
        """Return how many of the next requests to send before the next check."""
        left = self._left(n)
        if self.spec.budget.tokens is None:
            return left
        # Start with one; independent of the concurrency, which must not change the requests.
        fit = 1
        if self.outcomes:
            each = max(1, self._tokens // len(self.outcomes))
            fit = max(1, (self.spec.budget.tokens - self._tokens) // each)
        return min(left, fit, _SLICE)

    @property
    def used_up(self) -> str:
        """Description of the exhausted limit."""
        if self.spec.budget.tokens is not None and self._tokens >= self.spec.budget.tokens:
            return f"the budget of {self.spec.budget.tokens:,} tokens is used up"
        return f"the budget of {self.spec.budget.calls:,} calls is used up"

    def _kept(self, model: Model) -> Model:
        """Wrap a model in the cache; the same object is returned for the same model."""
        if id(model) not in self._models:
            through = model
            if self.spec.cache is not None and not self.spec.replay:
                from eval_toolkit.models.cache import cached

                through = cached(model, self.spec.cache, self._stack)
            self._models[id(model)] = (model, through)
        return self._models[id(model)][1]

    def _silenced(self, model: Model) -> Model:
        """Return a judge's model; in a replay, it reads stored verdicts and sends no requests."""
        if self.spec.replay is None:
            return self._kept(model)
        from eval_toolkit.models.cache import cached
        from eval_toolkit.runs.replay import SilentModel, recorded_entries  # rarely needed

        place = Path(self.spec.replay)
        silent = SilentModel(model, place)
        if not (place.is_dir() or place.suffix in (".jsonl", ".parquet")):
            return cached(silent, place, self._stack)
        if self._recorded is None:
            self._recorded = recorded_entries(place)
        return silent

    async def _run_model_jobs(
        self, model: Model, jobs: Sequence[Job], give_up: int | None
    ) -> JobResults:
        return await run_jobs_async(
            jobs,
            model,
            journal=self.journal,
            finished=self.finished,
            concurrency=self.spec.concurrency,
            on_progress=self._tell if self.spec.on_progress else None,
            give_up_after=give_up,
            patience_s=self.spec.patience_s,
            close_model=False,
        )

    async def _judged(self, model: Model, jobs: Sequence[Job]) -> JobResults:
        return await run_jobs_async(
            jobs,
            model,
            journal=None if self.journal is None else _Verdicts(self.journal.path),
            finished={**(self._recorded or {}), **self.finished},
            concurrency=self.spec.concurrency,
            on_progress=self._tell if self.spec.on_progress else None,
            give_up_after=self.spec.give_up_after,
            patience_s=self.spec.patience_s,
            close_model=False,
        )

    def _sum(self, progress: Progress) -> Progress:
        """Return the totals over a batch and all previous batches."""
        before = self._before
        sums = {name: getattr(before, name) + getattr(progress, name) for name in _SUMMED}
        elapsed = time.monotonic() - self._started
        # Overall rate, since the rate of a batch is meaningless at its start.
        rate = (sums["done"] - sums["reused"]) / elapsed if elapsed > 0 else 0.0
        total = max(self._total, sums["done"])
        return replace(progress, **sums, total=total, elapsed_s=elapsed, rate=rate)

    def _tell(self, progress: Progress) -> None:
        if self.spec.on_progress is not None:
            self.spec.on_progress(self._sum(progress))

    def _run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        runner = self._runner
        if runner is None:
            raise InvalidInputError("a Context must be used in a `with` block")
        return self._in_loop(lambda: runner.run(work(*arguments)))

    def _in_loop(self, work: Callable[[], Any]) -> Any:
        """Run in the thread of the loop, or in a new thread if a loop is already running."""
        if self._thread is None:
            return work()
        under_way = self._thread.submit(work)
        try:
            return under_way.result()
        except KeyboardInterrupt:
            loop = None if self._runner is None else self._runner.get_loop()
            if loop is not None and loop.is_running():
                loop.call_soon_threadsafe(lambda: [t.cancel() for t in asyncio.all_tasks(loop)])
            raise

    def _close(self, model: Model) -> None:
        """Close a model if possible; errors are ignored, since the answers are complete."""

        async def closed() -> None:
            if hasattr(model, "aclose"):
                await model.aclose()

        try:
            self._run(closed)
        except ArtifactError:
            raise
        except Exception as failure:  # the answers are complete
            self.notes.append(f"closing {model.name} failed: {one_line(failure)}")


class _ReadAlready(Journal):
    """Journal whose answers are known, so that it is not read again for every batch."""

    def read(self) -> Entries:
        """Return no entries."""
        return Entries()


class _Watched(_ReadAlready):
    """Journal that passes new answers to a callback every few seconds."""

    def __init__(
        self, path: Path, watch: Callable[[Sequence[Entry]], None], written: Entries
    ) -> None:
        super().__init__(path)
        self._watch = watch
        self._new = list(written.values())
        self._n = len(written)
        self._held_bytes = 0
        self._next = time.monotonic() + _WATCH_S

    def append(self, entry: Entry) -> Span:
        """Append an answer."""
        span = super().append(entry)
        self._held_bytes += span[1]
        if self._held_bytes > limits.HELD_BYTES and entry.ok:
            entry = JournalledEntry(entry.key, entry.request_hash, self.parts, span)
        self._new.append(entry)
        self._n += 1
        began = time.monotonic()
        if self._n >= _WATCH_FROM and began >= self._next:
            self._watch(self._new)
            ended = time.monotonic()
            self._new, self._next = [], ended + max(_WATCH_S, _WATCH_SHARE * (ended - began))
        return span


class _Verdicts(_ReadAlready):
    """Journal of a run for use by judges, whose models are not described in its first line."""

    def describe(self, **head: Any) -> None:
        """Do nothing, so that a replay of the journal does not mistake a judge for the model."""


@dataclass(frozen=True, slots=True)
class Asker:
    """Send requests to judges outside of a run.

    Examples
    --------
    >>> Asker().ask_jobs([])
    []
    """

    spec: AskSpec = field(default_factory=AskSpec)

    def ask_jobs(self, jobs: Iterable[tuple[Model, list[Job]]]) -> list[JobResult]:
        """Run the jobs of each model, as in `Context.ask_jobs`."""
        with Context(self.spec) as context:
            return context.ask_jobs(jobs)


def _in_json(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that its answers are encoded as JSON for the journal."""
    if inspect.iscoroutinefunction(function):

        async def one(given: Any) -> str:
            return to_json(plain(await function(given)))

        return one

    def all_at_once(given: list[Any]) -> list[str]:
        return [to_json(plain(value)) for value in function(given)]

    return all_at_once


def _attempt(job: Job, result: Any) -> Attempt:
    """Convert a job's result to an attempt."""
    response = result.response if isinstance(result, JobResult) else None
    if isinstance(response, RawCompletion):
        output = parse_json(response.text, f"the answer to {job.unit_id}", strict=False)
        return Attempt(job.unit_id, job.attempt, output)
    error = (
        result.error.message if isinstance(result, JobResult) and result.error else "not requested"
    )
    return Attempt(job.unit_id, job.attempt, error=error)


def _outcome(job: Job, result: Any, key: str) -> JobResult:
    """Convert the result of a job to an outcome; results other than strings are errors."""
    if isinstance(result, str):
        response = RawCompletion(str.__str__(result), usage=Usage())
        return JobResult(job, response, request_hash=key)
    if isinstance(result, BaseException):
        kind = result.kind if isinstance(result, ModelError) else "other"
        error = ErrorInfo(kind, one_line(result), retryable=False)
    elif result is None:
        error = ErrorInfo(
            "other", "the function returned None instead of a string", retryable=False
        )
    else:
        error = ErrorInfo(
            "other",
            f"{result!r:.60} is not a string; a journal stores only strings",
            retryable=False,
        )
    return JobResult(job, error=error, request_hash=key)
