"""Who is asked in rollouts, and how: one batch per depth, journalled, within a budget.

Models are asked through the runner, each request failing alone. Functions are called once for all
conversations; where that raises, once per conversation.
"""

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from eval_toolkit import _validate
from eval_toolkit._redaction import redact_secrets
from eval_toolkit.errors import (
    ArtifactError,
    InvalidInputError,
    InvalidTypeError,
    MissingExtraError,
)
from eval_toolkit.protocols import Model
from eval_toolkit.requests import request_hash
from eval_toolkit.responses import ErrorInfo, RawCompletion, Usage
from eval_toolkit.runner import Entry, Job, Journal, Outcome, Progress, RunOutcomes
from eval_toolkit.runner.engine import CONCURRENCY, run_jobs_async
from eval_toolkit.runner.jobs import Key
from eval_toolkit.runner.progress import OnProgress

__all__ = ["Asking", "Budget", "Said"]

Said = Outcome | None
"""What came of a request; None where the budget did not allow it."""

_LONGEST_MESSAGE = 2_000
_SUMMED = (
    *("done", "reused", "errors", "prompt_tokens", "completion_tokens", "cost", "elapsed_s"),
)


@dataclass(frozen=True, slots=True)
class Budget:
    """How much may be asked, of testers and targets together.

    The first requests of a depth are asked, in the order of the seeds; what the budget does not
    allow is skipped and counted. Answers that were there already count like new ones, so that a
    run that was interrupted ends where it would have ended.

    Parameters
    ----------
    calls : int, optional
        Requests.
    tokens : int, optional
        Of prompts and answers; no request is begun once they are used up.

    Raises
    ------
    InvalidInputError
        If one is below 1.

    Examples
    --------
    >>> Budget(calls=100).tokens is None
    True
    """

    calls: int | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        for name in ("calls", "tokens"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _validate.integer(value, name, low=1))

    def to_dict(self) -> dict[str, int | None]:
        """Return plain JSON types."""
        return {"calls": self.calls, "tokens": self.tokens}


class Asking:
    """Asks models and functions for one set of rollouts, in one event loop; use it in ``with``.

    Parameters
    ----------
    journal : Journal, optional
        Gets every answer as it comes; what it holds already is not asked again.
    finished : mapping of key to Entry, optional
        More answers that need no asking.
    concurrency : int, optional
        Requests at once; what suits each model by default.
    budget : Budget, optional
        How much may be asked.
    through : callable, optional
        What stands between the rollouts and a model: a cache.
    on_progress : callable, optional
        Told how far it is, a few times a second.
    give_up_after : int or None, default 50
        Failures in a row after which asking stops.

    Examples
    --------
    >>> from eval_toolkit.models.scripted import ScriptedModel
    >>> from eval_toolkit.requests import GenerateRequest
    >>> with Asking() as asking:
    ...     said = asking.ask(ScriptedModel("4"), [Job("q1", 1, GenerateRequest("2 + 2 ="))])
    >>> said[0].response.text, len(asking.outcomes)
    ('4', 1)
    """

    def __init__(
        self,
        *,
        journal: Journal | None = None,
        finished: Mapping[Key, Entry] | None = None,
        concurrency: int | None = None,
        budget: Budget | None = None,
        through: Callable[[Model], Model] | None = None,
        on_progress: OnProgress | None = None,
        give_up_after: int | None = 50,
    ) -> None:
        self.journal = journal
        self.finished: dict[Key, Entry] = dict(finished or {})
        self.concurrency = concurrency
        if concurrency is not None:
            self.concurrency = _validate.integer(concurrency, "concurrency", low=1)
        self.budget = budget or Budget()
        self.give_up_after = give_up_after
        self.outcomes: list[Outcome] = []
        """Everything that testers and targets said, now or before, in order."""
        self.verdicts: list[Outcome] = []
        """The same of judges."""
        self.values: dict[Key, Any] = {}
        """What functions returned that is no text; it lasts as long as this does."""
        self.notes: list[str] = []
        self.n_calls = 0
        """How often a function or a model was turned to: a batch counts once."""
        self._through = through or (lambda model: model)
        self._models: dict[int, tuple[Model, Model]] = {}
        self._on_progress = on_progress
        self._before = Progress()
        self._total = 0
        self._tokens = 0
        self._untold = 0
        self._runner: asyncio.Runner | None = None
        self._thread: ThreadPoolExecutor | None = None

    def __enter__(self) -> "Asking":
        if self.journal is not None:
            self.finished |= self.journal.read()
        self._runner = asyncio.Runner()
        with suppress(RuntimeError):  # where no loop is running
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
        if self._untold:
            self.notes.append(
                f"{self._untold} answers do not say how many tokens they took; in the budget they "
                "count as none"
            )

    def expect(self, n: int) -> None:
        """Say how many more requests there will be at most."""
        self._total += n

    def ask(self, model: Model, jobs: Sequence[Job]) -> list[Said]:
        """Ask a model, all of it at once; an outcome per job, None beyond the budget."""
        allowed = jobs[: self._allowed(len(jobs))]
        self.n_calls += bool(allowed)
        done = self._run(self._asked, self._kept(model), allowed)
        self.notes += [note for note in done.notes if note not in self.notes]
        return self._counted(list(done), len(jobs), done.progress)

    def ask_jobs(
        self,
        jobs: Iterable[tuple[Model, list[Job]]],
        journal: Journal | None = None,
        finished: Mapping[Key, Entry] | None = None,
    ) -> list[Outcome]:
        """Ask judges what they are to be asked, as `judges.asking.Asker` does; outside the budget."""
        found: list[Outcome] = []
        for model, theirs in jobs:
            if theirs:
                self.n_calls += 1
                done = self._run(self._asked, self._kept(model), theirs)
                self.notes += [note for note in done.notes if note not in self.notes]
                self.verdicts += done
                found += done
        return found

    def call(
        self,
        function: Callable[..., Any],
        jobs: Sequence[Job],
        arguments: Sequence[Sequence[Any]],
        identity: str,
    ) -> list[Said]:
        """Call a function with what each job is about, all of it at once.

        Parameters
        ----------
        function : callable
            Takes one list per argument and returns one text for each job; a coroutine function
            takes one entry of each and returns one text.
        jobs : sequence of Job
            What the journal keeps the texts under.
        arguments : sequence of sequences
            Of the function, each with one entry per job.
        identity : str
            Tells the function from others.

        Returns
        -------
        list of Outcome or None
            As in `ask`.
        """
        n = self._allowed(len(jobs))
        keys = [request_hash(job.request, identity) for job in jobs[:n]]
        found: list[Outcome | None] = [
            self.finished[job.key].answer(job, key) if job.key in self.finished else None
            for job, key in zip(jobs, keys, strict=False)
        ]
        todo = [at for at, there in enumerate(found) if there is None]
        if todo:
            lists = [[column[at] for at in todo] for column in arguments]
            for at, said in zip(todo, self._said(function, lists), strict=True):
                if not isinstance(said, (str, BaseException)) and self.journal is None:
                    self.values[jobs[at].key] = said
                    said = str(said)  # stands for it in the outcomes
                found[at] = outcome = _outcome(jobs[at], said, keys[at])
                if self.journal is not None:
                    self.journal.append(Entry.of(outcome))
        done = [outcome for outcome in found if outcome is not None]
        n_errors = sum(not outcome.ok for outcome in done)
        told = Progress(done=n, reused=n - len(todo), total=n, errors=n_errors)
        return self._counted(done, len(jobs), told)

    def _counted(self, done: list[Outcome], n: int, told: Progress) -> list[Said]:
        """Keep what was said, and count its tokens."""
        self.outcomes += done
        for outcome in done:
            if outcome.response is None:
                continue
            tokens = _tokens(outcome.response)
            self._tokens += tokens or 0
            self._untold += tokens is None and self.budget.tokens is not None
        self._before = self._sum(told)
        if self._on_progress is not None:
            self._on_progress(self._before)
        return [*done, *[None] * (n - len(done))]

    def _allowed(self, n: int) -> int:
        """Return how many of the next requests the budget allows."""
        if self.budget.tokens is not None and self._tokens >= self.budget.tokens:
            return 0
        left = n if self.budget.calls is None else self.budget.calls - len(self.outcomes)
        return max(0, min(n, left))

    @property
    def used_up(self) -> str:
        """Which part of the budget does not allow more, in words."""
        if self.budget.tokens is not None and self._tokens >= self.budget.tokens:
            return f"the budget of {self.budget.tokens:,} tokens is used up"
        return f"the budget of {self.budget.calls:,} calls is used up"

    def _kept(self, model: Model) -> Model:
        """Return the model behind what stands before it, the same each time."""
        if id(model) not in self._models:
            self._models[id(model)] = (model, self._through(model))
        return self._models[id(model)][1]

    async def _asked(self, model: Model, jobs: Sequence[Job]) -> RunOutcomes:
        return await run_jobs_async(
            jobs,
            model,
            journal=self.journal,
            finished=self.finished,
            concurrency=self.concurrency,
            on_progress=self._tell if self._on_progress else None,
            give_up_after=self.give_up_after,
            close_model=False,
        )

    def _sum(self, told: Progress) -> Progress:
        """Return what is told of a batch together with all before it."""
        before = self._before
        sums = {name: getattr(before, name) + getattr(told, name) for name in _SUMMED}
        return replace(told, **sums, total=max(self._total, sums["done"]))

    def _tell(self, told: Progress) -> None:
        if self._on_progress is not None:
            self._on_progress(self._sum(told))

    def _said(self, function: Callable[..., Any], lists: list[list[Any]]) -> list[Any]:
        """Return a text or an exception for each entry of the lists."""
        self.n_calls += 1
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - its kind is asked, not whether it is there
        ):
            return list(self._run(self._gathered, function, lists))
        try:
            said = function(*lists)
        except (ArtifactError, MissingExtraError):  # no conversation would fare better
            raise
        except Exception as error:  # one bad conversation must not take the others with it
            if len(lists[0]) == 1:
                return [error]
            alone = ([[column[at]] for column in lists] for at in range(len(lists[0])))
            return [said for one in alone for said in self._said(function, one)]
        return _checked(function, said, len(lists[0]))

    async def _gathered(self, function: Callable[..., Any], lists: list[list[Any]]) -> list[Any]:
        at_once = asyncio.Semaphore(self.concurrency or CONCURRENCY)

        async def one(*arguments: Any) -> Any:
            async with at_once:
                return await function(*arguments)

        return await asyncio.gather(
            *(one(*arguments) for arguments in zip(*lists, strict=True)), return_exceptions=True
        )

    def _run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        runner = self._runner
        if runner is None:
            raise InvalidInputError("an Asking is used in a `with` block")
        return self._in_loop(lambda: runner.run(work(*arguments)))

    def _in_loop(self, work: Callable[[], Any]) -> Any:
        """Work in the loop's own thread: beside a loop that is running already, another."""
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
        """Close a model where it can be closed; a failure is no reason to lose the answers."""

        async def closed() -> None:
            if hasattr(model, "aclose"):
                await model.aclose()

        try:
            self._run(closed)
        except ArtifactError:
            raise
        except Exception as failure:  # the answers are there
            self.notes.append(f"closing {model.name} failed: {_one_line(failure)}")


def _checked(function: Callable[..., Any], said: Any, n: int) -> list[Any]:
    name = getattr(function, "__qualname__", type(function).__name__)
    if isinstance(said, str) or not isinstance(said, Sequence):
        try:
            said = [] if isinstance(said, str) else list(said)
        except TypeError:
            said = None
        if not said:
            raise InvalidTypeError(f"{name} must return a list of texts, one per conversation")
    if len(said) != n:
        raise InvalidInputError(f"{name} returned {len(said)} texts for {n} conversations")
    return list(said)


def _outcome(job: Job, said: Any, key: str) -> Outcome:
    """Return what came of one job; what is no text is an error."""
    if isinstance(said, (Exception, asyncio.CancelledError)):
        error = ErrorInfo("other", _one_line(said), retryable=False)
        return Outcome(job, error=error, request_hash=key)
    if isinstance(said, str):
        response = RawCompletion(str.__str__(said), usage=Usage())
        return Outcome(job, response, request_hash=key)
    error = ErrorInfo(
        "other", f"{said!r:.60} is no text, which is all that a journal keeps", retryable=False
    )
    return Outcome(job, error=error, request_hash=key)


def _one_line(failure: BaseException) -> str:
    text = f"{type(failure).__name__}: {' '.join(str(failure).split())}".removesuffix(": ")
    safe: str = redact_secrets(text[:_LONGEST_MESSAGE])
    return safe


def _tokens(response: Any) -> int | None:
    """Return how many tokens prompt and answer have, None where it does not say."""
    usage = response.usage
    prompt = usage.prompt_tokens or response.prompt_tokens
    answer = usage.completion_tokens or getattr(response, "completion_tokens", None)
    return None if prompt is None and answer is None else (prompt or 0) + (answer or 0)
