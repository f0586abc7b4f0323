"""Rate limits: budgets per minute and adaptive concurrency."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping

from eval_toolkit.models.openai_compatible.pace import Pace

BURST = 0.02
"""Share of the budget per minute that may be spent at once."""
_LOOK_S = 0.05
"""Interval in seconds between updates of the number of concurrent requests."""


class Budget:
    """Budget of requests or tokens per minute, spent evenly.

    At most the budget is spent in any 60-second window (excluding its end). A single request that
    exceeds the burst size may overdraw the budget; later requests wait until the balance recovers.

    ``clock`` must return monotonic seconds.

    Examples
    --------
    >>> now = [0.0]
    >>> budget = Budget(30, clock=lambda: now[0])
    >>> budget.wait_for(1)
    0.0
    >>> budget.take(1)
    >>> budget.wait_for(1)
    2.0
    """

    __slots__ = ("_burst", "_clock", "_level", "_rate", "_then")

    def __init__(self, per_minute: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst = max(1.0, BURST * per_minute)
        self._rate = (per_minute - self._burst + 1.0) / 60.0
        self._clock = clock
        self._level = self._burst
        self._then = clock()

    def wait_for(self, amount: float) -> float:
        """Return the seconds until an amount is available; 0.0 if it is available now."""
        now = self._clock()
        self._level = min(self._burst, self._level + (now - self._then) * self._rate)
        self._then = now
        missing = min(amount, self._burst) - self._level
        return missing / self._rate if missing > 1e-9 else 0.0

    def take(self, amount: float) -> None:
        """Spend an amount; a negative amount is returned to the budget."""
        self._level = min(self._burst, self._level - amount)


class Limiter:
    """First-come, first-served limiter with adaptive concurrency.

    The limit starts at the ceiling. Overload halves it once for all requests in flight at that
    time; it grows by one each time as many responses as the limit have arrived. A limiter is bound to one
    event loop.

    Parameters
    ----------
    ceiling : int
        Maximum concurrency.
    adaptive : bool
        Whether the concurrency adapts.
    requests, tokens : Budget, optional
        Budgets of requests and tokens per minute.
    limit : float, optional
        Initial concurrency; by default, the ceiling.
    pace : Pace, optional
        Rate at which requests start, adapted when the server rejects requests.

    Examples
    --------
    >>> limiter = Limiter(8)
    >>> limiter.admit(0)
    True
    >>> limiter.release(limiter.cuts, overloaded=True)
    >>> limiter.limit
    4.0
    """

    __slots__ = (
        "_adaptive",
        "_ceiling",
        "_pace",
        "_requests",
        "_timer",
        "_tokens",
        "_waiting",
        "cuts",
        "in_flight",
        "limit",
    )

    def __init__(
        self,
        ceiling: int,
        *,
        adaptive: bool = True,
        requests: Budget | None = None,
        tokens: Budget | None = None,
        limit: float | None = None,
        pace: Pace | None = None,
    ) -> None:
        self._ceiling = ceiling
        self._pace = pace
        self._adaptive = adaptive
        self._requests = requests
        self._tokens = tokens
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self.limit = float(ceiling) if limit is None else limit
        self.in_flight = 0
        self.cuts = 0
        """Number of times the limit has been halved."""

    def admit(self, n_tokens: int) -> bool:
        """Admit a request if one may start now; return whether it was admitted."""
        if self._waiting or self.in_flight >= int(self.limit) or self._pause(n_tokens) > 0.0:
            return False
        self._start(n_tokens)
        return True

    def delay(self) -> float:
        """Return the seconds until another request may start; infinity if one must finish first."""
        if self._waiting or self.in_flight >= int(self.limit):
            return float("inf")
        return self._pause(0)

    async def wait(self, n_tokens: int, place: int | None = None) -> None:
        """Wait until this request may start; ``place`` is its queue position (by default, last)."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.insert(len(self._waiting) if place is None else place, (turn, n_tokens))
        self._serve()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.in_flight -= 1
            self._serve()
            raise

    def release(self, cuts: int, *, overloaded: bool = False, answered: bool = False) -> None:
        """Record the end of a request that started after ``cuts`` reductions of the limit."""
        self.in_flight -= 1
        if self._adaptive:
            if overloaded:
                if cuts == self.cuts:
                    self.limit = max(1.0, self.limit / 2.0)
                    self.cuts += 1
            elif answered and self.limit < self._ceiling:
                self.limit = min(float(self._ceiling), self.limit + 1.0 / self.limit)
        if self._waiting:
            self._serve()

    def refuse(self, started: float, wait_s: float | None) -> None:
        """Pause after a refused request; ``started`` is in event loop time."""
        if self._pace is not None:
            self._pace.refuse(started, _now(), wait_s)

    def close(self, wait_s: float) -> None:
        """Pause all requests for some seconds."""
        if self._pace is not None:
            self._pace.close(_now(), wait_s)

    def accept(self, started: float, headers: Mapping[str, str]) -> None:
        """Update the limits from the headers of a response."""
        if self._pace is not None:
            self._pace.accept(started, _now(), self.in_flight, headers)

    def settle(self, estimated: int, used: int) -> None:
        """Replace the estimated number of tokens of a request with the actual one."""
        if self._tokens is not None:
            self._tokens.take(used - estimated)

    def _pause(self, n_tokens: int) -> float:
        pause = 0.0
        if self._requests is not None:
            pause = self._requests.wait_for(1)
        if self._tokens is not None:
            pause = max(pause, self._tokens.wait_for(n_tokens))
        if self._pace is not None:
            now = _now()
            pause = max(pause, self._pace.wait_for(now))
            if self.in_flight >= self._pace.room(now, self._ceiling):
                pause = max(pause, _LOOK_S)
        return pause

    def _start(self, n_tokens: int) -> None:
        self.in_flight += 1
        if self._pace is not None:
            self._pace.start(_now())
        if self._requests is not None:
            self._requests.take(1)
        if self._tokens is not None:
            self._tokens.take(n_tokens)

    def _serve(self) -> None:
        """Start waiting requests, and set a timer for the first one that a budget delays."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting:
            turn, n_tokens = self._waiting[0]
            if turn.done():  # cancelled while it waited
                self._waiting.popleft()
                continue
            if self.in_flight >= int(self.limit):
                return
            if (pause := self._pause(n_tokens)) > 0.0:
                self._timer = turn.get_loop().call_later(pause, self._serve)
                return
            self._waiting.popleft()
            self._start(n_tokens)
            turn.set_result(None)


def _now() -> float:
    return asyncio.get_running_loop().time()
