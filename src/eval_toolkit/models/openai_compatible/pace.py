"""Request pacing: pauses after refusals, and an estimate of the rate a server accepts."""

from collections import deque
from collections.abc import Mapping

from eval_toolkit.models.openai_compatible.failures import quota

_RAMP_S = 3.0
"""Duration in seconds of the initial ramp-up to full concurrency if no request is refused."""
_SURE = 100
"""Number of accepted requests per refusal that probing for a higher rate may provoke."""
_LONGEST_S = 10.0
"""Maximum initial interval between requests, regardless of the delay the server requests."""
_SLOWEST = 1.0 / 60.0
"""Minimum rate in requests per second, unless the server requests a longer delay."""
_RESERVE = 0.1
"""Share of the server's token bucket to keep in reserve."""
_RUNS = 8
"""Number of refusals used to decide whether they depend on the rate."""
_LATE_S = 0.1
"""Maximum event loop delay to compensate for."""


class Pace:
    """Rate at which requests start, learned from a server's refusals.

    The server is modelled as a token bucket, which is empty at a refusal. The number of requests
    accepted since the previous refusal, divided by the elapsed time, is thus the rate at which the
    bucket fills, or a lower bound if it was full in between. Requests then start at this rate plus
    a quarter of the refused excess. The rate grows with each request, eventually so slowly that
    about one in `_SURE` requests is refused.

    Some servers refuse requests at any rate, for example because other clients share their quota.
    If lower rates are refused as often as higher ones, the rate grows until refusals become more
    frequent.

    Times are event loop times in seconds.

    Parameters
    ----------
    first_wait_s : float
        Pause after the first refusal if the server requests no delay; 0 disables rate learning.
    ramps : bool, default True
        Whether the number of requests in flight grows at first. Servers that need no key, such as
        vLLM and llama.cpp on the user's own machines, rarely limit the rate.

    Examples
    --------
    >>> pace = Pace(1.0)
    >>> pace.start(0.0)
    >>> pace.refuse(0.0, 0.1, None)
    >>> pace.wait_for(0.1)
    2.0
    """

    __slots__ = (
        *(
            "_closed_until",
            "_first",
            "_left",
            "_marks",
            "_n",
            "_next",
            "_pause",
            "_ramps",
            "_runs",
            "_step",
        ),
        *("_usual", "rate"),
    )

    def __init__(self, first_wait_s: float, *, ramps: bool = True) -> None:
        self._pause = first_wait_s
        self._ramps = ramps and first_wait_s > 0.0
        self._first: float | None = None
        self._n = 0
        """Number of requests that started and were not refused."""
        self._marks: deque[tuple[float, int]] = deque()
        """Times and request counts at the refusals between which the rate is measured."""
        self._closed_until = self._next = float("-inf")
        self._left = 0
        """Number of requests that are still allowed according to the server's headers."""
        self._runs: deque[tuple[float, int]] = deque(maxlen=_RUNS)
        """Rate and number of accepted requests before each recent refusal."""
        self._usual: float | None = None
        """Number of requests between refusals that are unrelated to the rate; None if related."""
        self._step: float | None = None
        """Growth of the rate per request; None until the second refusal."""
        self.rate: float | None = None
        """Requests per second; None until the first refusal."""

    def room(self, now: float, ceiling: int) -> float:
        """Return how many requests may be in flight; few at first, since all may be refused."""
        if self._first is None or self.rate is not None or not self._ramps:
            return ceiling
        ramp = (now - self._first) / _RAMP_S
        return 1.0 + self._n / 32.0 + ceiling * ramp**3

    def wait_for(self, now: float) -> float:
        """Return the seconds until the next request may start; 0.0 if one may start now."""
        until = self._closed_until
        if self.rate is not None and not self._left:
            until = max(until, self._next)
        return max(0.0, until - now)

    def start(self, now: float) -> None:
        """Record the start of a request."""
        if self._first is None:
            self._first = now
        self._n += 1
        if self._left:
            self._left -= 1
            return
        if self.rate is None:
            return
        then, n = self._marks[-1] if self._marks else (now, 0)
        if self._step is None:
            accepted = self._n - n
            faster = (1.5 + accepted / 16.0) * accepted / (now - then)
            self.rate = max(self.rate, faster)
        else:
            fast = self._usual is not None or self._n - n >= 3 * _SURE
            self.rate += 0.02 * self.rate if fast else self._step
        self._next = max(self._next, now - _LATE_S) + 1.0 / self.rate

    def accept(
        self, started: float, now: float, under_way: int, headers: Mapping[str, str]
    ) -> None:
        """Update the number of remaining requests from the headers of a response."""
        stated = quota(headers)
        if stated is None or (self._marks and started <= self._marks[-1][0]):
            return
        limit, left, reset_s = stated
        self._left = max(0, int(left - under_way - _RESERVE * limit) - 1)
        near = left <= 0.5 * limit or not self._left
        if self.rate is None and self._pause and near and left < limit and reset_s > 0.0:
            self.rate = (limit - left) / reset_s
            self._step = self._slowest(_SURE)
            self._next = now

    def refuse(self, started: float, now: float, wait_s: float | None) -> None:
        """Pause all requests after a refusal; ``wait_s`` is the delay requested by the server."""
        new = not self._marks or started > self._marks[-1][0]
        self._n -= 1
        if not new:
            self._marks = deque((then, n - (started <= then)) for then, n in self._marks)
        self._left = 0
        if new and self._pause:
            self._learn(now, wait_s)
            wait_s = 1.0 / (self.rate or 1.0) if wait_s is None else wait_s
        self.close(now, wait_s or 0.0)  # 0: it was in flight when another one was refused

    def close(self, now: float, wait_s: float) -> None:
        """Pause all requests for some seconds."""
        self._closed_until = max(self._closed_until, now + wait_s)
        self._next = max(self._next, self._closed_until)

    def _learn(self, now: float, wait_s: float | None) -> None:
        """Update the estimated rate after a refusal."""
        while len(self._marks) > 1 and self._n - self._marks[1][1] >= _SURE:
            self._marks.popleft()
        if self.rate is not None and self._marks:
            self._runs.append((self.rate, self._n - self._marks[-1][1]))
        if self._is_unrelated():
            self._marks.append((now, self._n))
            return
        if self.rate is None:
            self.rate = 1.0 / min(max(wait_s or 2.0 * self._pause, 0.001), _LONGEST_S)
        elif self._marks and self._n == self._marks[-1][1]:
            self.rate = max(self.rate / 3.0, _SLOWEST)
            return
        elif self._marks:
            then, before = self._marks[0]
            n = self._n - before
            mean = n / (now - then)
            refused, self.rate = self.rate, mean + (self.rate - mean) / 4.0
            self._step = max((refused - self.rate) / (4.0 * n), self._slowest(3 * n))
        self._marks.append((now, self._n))

    def _is_unrelated(self) -> bool:
        """Return whether recent refusals were as frequent at low rates as at high rates."""
        runs = sorted(self._runs)
        if len(runs) < _RUNS:
            return self._usual is not None
        low, high = (
            sum(n for _, n in half) / len(half) for half in (runs[: _RUNS // 2], runs[_RUNS // 2 :])
        )
        if self._usual is not None:
            if low + high < self._usual:  # twice as often as before
                self._usual = None
                self._runs.clear()
        # Fewer than two accepted between refusals: the server accepts next to nothing.
        elif runs[-1][0] > 1.5 * runs[0][0] and low < 1.5 * high and low + high >= 4.0:
            self._usual = (low + high) / 2.0
            self._runs.clear()
        return self._usual is not None

    def _slowest(self, n: int) -> float:
        """Return the growth rate at which one in n requests is refused."""
        return (self.rate or 0.0) * 2.0 / min(n, _SURE) ** 2
