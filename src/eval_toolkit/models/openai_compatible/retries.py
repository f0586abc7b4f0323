"""Retries of failed requests."""

import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from eval_toolkit._internal.optional import require
from eval_toolkit.errors import ModelError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryRule:
    """Limits on the number and duration of retries."""

    max_tries: int = 5
    first_wait_s: float = 0.5
    longest_wait_s: float = 30.0
    total_s: float = 600.0
    """Seconds after the first failure in which a try may start."""


def _quiet() -> None:
    """Keep stamina's log messages off the terminal; the user's handlers still receive them."""
    log = logging.getLogger("stamina")
    if not log.handlers:
        log.addHandler(logging.NullHandler())


async def ask_again(
    ask: Callable[[], Awaitable[T]], failure: ModelError, rule: RetryRule
) -> tuple[T, int]:
    """Retry after a first failure; return the answer and the number of the successful try.

    If the rule stops, the last `ModelError` is raised, with the number of tries in ``tries`` and in
    the message.
    """
    # Imported lazily, since most requests succeed on the first try.
    stamina = require("stamina", feature="retrying a request", extra="llm")
    _quiet()
    deadline = time.monotonic() + rule.total_s
    first: ModelError | None = failure
    tries = 0

    def wait(error: Exception) -> bool | float:
        if not isinstance(error, ModelError) or not error.retryable:
            return False
        asked: float | None = getattr(error, "wait_s", None)
        if time.monotonic() + (asked or 0.0) >= deadline:
            return False
        if asked is None:
            return True
        # Jitter, so that requests with the same delay are not retried at the same moment.
        return asked + random.uniform(0.0, min(rule.first_wait_s, 0.1 * asked))  # noqa: S311

    try:
        async for attempt in stamina.retry_context(
            on=wait,
            attempts=rule.max_tries,
            timeout=rule.total_s,
            wait_initial=rule.first_wait_s,
            wait_max=rule.longest_wait_s,
            wait_jitter=rule.first_wait_s,
        ):
            with attempt:
                tries = attempt.num
                if first is not None:
                    raised, first = first, None
                    raise raised
                return await ask(), tries
    except ModelError as error:
        error.tries = tries
        if tries > 1:
            error.args = (f"{error.args[0]} (tried {tries} times)",)
        raise
    raise failure  # pragma: no cover - the loop returns or raises
