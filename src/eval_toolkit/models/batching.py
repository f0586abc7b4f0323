"""Batching of asynchronous calls."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from eval_toolkit._internal.validation import integer

AskedT = TypeVar("AskedT")
AnswerT = TypeVar("AnswerT")

_TICKS = 3
"""Event-loop iterations to wait before a batch starts, so that concurrent callers share it."""


@dataclass(eq=False, slots=True)
class _Call(Generic[AskedT, AnswerT]):
    request: AskedT
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[AnswerT]"


class Batcher(Generic[AskedT, AnswerT]):
    """Run concurrent calls as batches in one worker thread.

    While a batch runs, new calls wait for the next one. If the function raises an exception, the
    calls of the batch are run one by one, so that a bad request does not affect the others. Calls
    may come from several event loops; cancelled calls are excluded from later batches.

    ``run`` returns a list of answers or exceptions. It is called in one thread at a time, never in
    the thread of the event loop. Answers that are ready earlier can be passed to `settle`.

    Examples
    --------
    >>> import asyncio
    >>> batcher = Batcher(lambda numbers: [number * 2 for number in numbers])
    >>> async def ask():
    ...     return await asyncio.gather(*(batcher.submit(number) for number in range(4)))
    >>> asyncio.run(ask())
    [0, 2, 4, 6]
    """

    def __init__(
        self,
        run: Callable[[list[AskedT]], Sequence[AnswerT | Exception]],
        *,
        max_batch: int = 64,
    ) -> None:
        self._run = run
        self.max_batch = integer(max_batch, "max_batch", low=1)
        self._lock = threading.Lock()
        self._waiting: deque[_Call[AskedT, AnswerT]] = deque()
        self._current: list[_Call[AskedT, AnswerT]] = []
        self._working = False
        self._gathering: asyncio.AbstractEventLoop | None = None

    async def submit(self, request: AskedT) -> AnswerT:
        """Return the answer to a request, processed in a batch, or raise its error."""
        loop = asyncio.get_running_loop()
        call: _Call[AskedT, AnswerT] = _Call(request, loop, loop.create_future())
        with self._lock:
            self._waiting.append(call)
            # A loop that was closed before its batch started will never start it.
            idle = self._gathering is None or self._gathering.is_closed()
            begin = idle and not self._working
            if begin:
                self._gathering = loop
        if begin:
            self._gather(loop, _TICKS)
        return await call.future

    @property
    def abandoned(self) -> bool:
        """Whether no caller still waits for the current batch, so that it can be abandoned."""
        current = self._current
        return bool(current) and all(call.future.done() for call in current)

    def settle(self, answers: Mapping[int, AnswerT | Exception]) -> None:
        """Deliver answers of the current batch, by position, before the batch is finished."""
        current = self._current
        _deliver([current[at] for at in answers], [*answers.values()])

    def _gather(self, loop: asyncio.AbstractEventLoop, ticks: int) -> None:
        if ticks:
            loop.call_soon(self._gather, loop, ticks - 1)
            return
        with self._lock:
            self._gathering = None
            self._working = True
        # A daemon thread, so that an interrupted program does not wait for unused answers.
        threading.Thread(target=self._work, name="eval-toolkit-batcher", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                calls = [self._waiting.popleft() for _ in range(len(self._waiting))]
                calls = [call for call in calls if not call.future.cancelled()]
                self._waiting.extend(calls[self.max_batch :])
                self._current = calls = calls[: self.max_batch]
                if not calls:
                    self._working = False
                    return
            _deliver(calls, self._answers(calls))

    def _answers(self, calls: list[_Call[AskedT, AnswerT]]) -> list[AnswerT | BaseException]:
        self._current = calls
        try:
            answers = list(self._run([call.request for call in calls]))
            if len(answers) != len(calls):
                raise RuntimeError(f"got {len(answers)} answers to {len(calls)} requests")
        except Exception as error:
            if len(calls) == 1:
                return [error]
            return [answer for call in calls for answer in self._answers([call])]
        except BaseException as error:  # would otherwise be lost with the thread
            return [error] * len(calls)
        return [*answers]


def _deliver(
    calls: Sequence[_Call[AskedT, AnswerT]], answers: Sequence[AnswerT | BaseException]
) -> None:
    """Deliver the answers, grouped by event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[AnswerT], object]]] = {}
    for call, answer in zip(calls, answers, strict=True):
        by_loop.setdefault(call.loop, []).append((call.future, answer))
    for loop, pairs in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, pairs)
        except RuntimeError:  # the loop is closed
            continue


def _settle(pairs: Sequence[tuple["asyncio.Future[AnswerT]", object]]) -> None:
    for future, answer in pairs:
        if future.done():
            continue
        if isinstance(answer, BaseException):
            future.set_exception(answer)
        else:
            future.set_result(answer)  # type: ignore[arg-type]
