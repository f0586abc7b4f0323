"""Concurrent calls of user functions, each of which may fail independently."""

import asyncio
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from eval_toolkit._internal.redaction import one_line
from eval_toolkit.errors import (
    ArtifactError,
    InvalidInputError,
    InvalidTypeError,
    MissingExtraError,
    ModelError,
)
from eval_toolkit.models.runner.engine import CONCURRENCY

_ABOUT_THE_PROMPT = frozenset({"too_long", "refused"})
"""Kinds of failures caused by the prompt, as in `models.runner`."""


class NothingToSay(Exception):  # noqa: N818 - a signal, like StopIteration
    """Raised by a user function to end an attempt without an error."""


class Calling:
    """Calls of one function for several conversations.

    ``function`` takes one list per argument; a coroutine function takes the arguments of a single
    conversation. ``finish`` is called with the index of a conversation and its value or exception
    as soon as it is known, and ``run`` runs a coroutine to completion. Calls stop after
    ``give_up_after`` consecutive failures.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        lists: Sequence[Sequence[Any]],
        finish: Callable[[int, Any], None],
        *,
        run: Callable[..., Any],
        concurrency: int | None,
        give_up_after: int | None,
    ) -> None:
        self.function = function
        self.lists = lists
        self.finish = finish
        self.run = run
        self.concurrency = concurrency or CONCURRENCY
        self.give_up_after = give_up_after
        self.n_calls = 0
        self.n_failed_in_a_row = 0

    def call(self) -> None:
        """Call the function until every conversation has a result.

        Raises `ModelError` if a failure affects all calls, or there are too many consecutive
        failures, and `InvalidInputError` if the function does not return one value per
        conversation.
        """
        places = range(len(self.lists[0]))
        if _is_coroutine_function(self.function):
            self.n_calls += 1
            self.run(self._each)
        else:
            self._together(places)

    def _together(self, places: Sequence[int]) -> None:
        self.n_calls += 1
        try:
            results = self.function(*([column[at] for at in places] for column in self.lists))
            if inspect.isawaitable(results):
                results = self.run(_awaited, results)
        except Exception as error:  # a failed conversation must not affect the others
            if len(places) == 1 or _is_final(error):
                self._report(places[0], error)
                return
            for at in places:
                self._together([at])
            return
        for at, one in zip(places, self._checked(results, len(places)), strict=True):
            self._report(at, one)

    async def _each(self) -> None:
        at_once = asyncio.Semaphore(self.concurrency)

        async def one(at: int, *arguments: Any) -> None:
            async with at_once:
                try:
                    result = await self.function(*arguments)
                except (Exception, asyncio.CancelledError) as error:
                    task = asyncio.current_task()
                    if task is not None and task.cancelling():
                        raise
                    result = error
                self._report(at, result)

        rows = enumerate(zip(*self.lists, strict=True))
        tasks = [asyncio.create_task(one(at, *arguments)) for at, arguments in rows]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _report(self, at: int, result: Any) -> None:
        """Report the result of a conversation, unless it is a failure that affects all of them."""
        if not isinstance(result, BaseException) or isinstance(result, NothingToSay):
            self.n_failed_in_a_row = 0
            self.finish(at, result)
            return
        if isinstance(result, (ArtifactError, MissingExtraError)):
            raise result
        if _is_final(result):
            raise self._stopped(result, "cannot be called") from result
        self.finish(at, result)
        if isinstance(result, ModelError) and result.kind in _ABOUT_THE_PROMPT:
            return
        self.n_failed_in_a_row += 1
        if self.n_failed_in_a_row == self.give_up_after:
            raise self._stopped(
                result, f"{self.n_failed_in_a_row} calls failed in a row"
            ) from result

    def _stopped(self, failure: BaseException, why: str) -> ModelError:
        kind = failure.kind if isinstance(failure, ModelError) else "other"
        return ModelError(f"{self._name}: {why}: {one_line(failure)}", kind=kind)

    @property
    def _name(self) -> str:
        return str(getattr(self.function, "__qualname__", type(self.function).__name__))

    def _checked(self, results: Any, n: int) -> list[Any]:
        """Check that there is one value per conversation, and return the values."""
        if isinstance(results, str) or not isinstance(results, Sequence):
            try:
                results = [] if isinstance(results, str) else list(results)
            except TypeError:
                results = None
            if not results:
                raise InvalidTypeError(
                    f"{self._name} must return a list of strings, one per conversation"
                )
        if len(results) != n:
            raise InvalidInputError(
                f"{self._name} returned {len(results)} strings for {n} conversations"
            )
        return list(results)


def _is_coroutine_function(function: Any) -> bool:
    own = getattr(function, "__call__", None)  # noqa: B004 - tests the type, not the presence
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(own)


def _is_final(error: BaseException) -> bool:
    """Return whether all other calls would fail in the same way."""
    final = isinstance(error, (ArtifactError, MissingExtraError))
    return final or (isinstance(error, ModelError) and error.fatal)


async def _awaited(waiting: Any) -> Any:
    return await waiting
