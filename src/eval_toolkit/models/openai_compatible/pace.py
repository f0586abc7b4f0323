"""Pace of requests: a gate that refusals close, and the rate that a server accepts."""

from collections import deque
from collections.abc import Mapping

from eval_toolkit.models.openai_compatible.failures import quota

_RAMP_S = 3.0
"""Seconds after which all concurrent requests may be under way, if none was refused."""
_SURE = 100
"""Number of accepted requests after which one may be refused to learn whether more are."""
_LONGEST_S = 10.0
"""Longest first interval between requests, whatever delay the server asks for."""
_SLOWEST = 1.0 / 60.0
"""Lowest rate; a server that accepts less has to say so."""
_RESERVE = 0.1
"""Share of a server's bucket that is not spent ahead of the rate."""
_RUNS = 8
"""Number of refusals that tell whether they depend on the rate."""
_LATE_S = 0.1
"""Delay of the event loop that is made up for."""


class Pace:
    """Pace at which requests start, learnt from the refusals of a server.

    At a refusal the server's bucket is empty, so the requests accepted since the previous one,
    divided by the time, are the rate at which it fills; less if the bucket was full in between.
    From then on requests start at this rate and a quarter of what was refused above it. The rate
    grows with each request, in the end so slowly that about one in `_SURE` is refused.

    Some servers refuse whatever the rate, such as those whose quota others use, too. If lower rates
    are refused as often as higher ones, the rate grows until refusals become more frequent.

    Times are those of the event loop, in seconds.

    Parameters
    ----------
    first_wait_s : float
        Pause after the first refusal if the server names none; 0 to learn no rate.

    Examples
    --------
    >>> pace = Pace(1.0)
    >>> pace.start(0.0)
    >>> pace.refuse(0.0, 0.1, None)
    >>> pace.wait_for(0.1)
    2.0
    """

    __slots__ = (
        *("_closed_until", "_first", "_left", "_marks", "_n", "_next", "_pause", "_runs", "_step"),
        *("_usual", "rate"),
    )

    def __init__(self, first_wait_s: float) -> None:
        self._pause = first_wait_s
        self._first: float | None = None
        self._n = 0
        """Number of requests that started and were not refused."""
        self._marks: deque[tuple[float, int]] = deque()
        """Time and number at the refusals between which the rate is measured."""
        self._closed_until = self._next = float("-inf")
        self._left = 0
        """Number of requests that the server's headers still allow, whatever the rate."""
        self._runs: deque[tuple[float, int]] = deque(maxlen=_RUNS)
        """Rate and number of accepted requests before each of the last refusals."""
        self._usual: float | None = None
        """Requests accepted between refusals that do not depend on the rate; None if they do."""
        self._step: float | None = None
        """Growth of the rate with each request; None until a second refusal."""
        self.rate: float | None = None
        """Requests per second; None as long as nothing was refused."""

    def room(self, now: float, ceiling: int) -> float:
        """Return how many requests may be under way: few at first, since any may be refused."""
        if self._first is None or self.rate is not None or not self._pause:
            return ceiling
        ramp = (now - self._first) / _RAMP_S
        return 1.0 + self._n / 32.0 + ceiling * ramp**3

    def wait_for(self, now: float) -> float:
        """Return the seconds until the next request may start; 0.0 for now."""
        until = self._closed_until
        if self.rate is not None and not self._left:
            until = max(until, self._next)
        return max(0.0, until - now)

    def start(self, now: float) -> None:
        """Count a request that starts."""
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
        """Read the headers of an answer, which may state how many requests are left."""
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
        """Close the gate for all requests after a refusal; ``wait_s`` is the server's delay."""
        new = not self._marks or started > self._marks[-1][0]
        self._n -= 1
        if not new:
            self._marks = deque((then, n - (started <= then)) for then, n in self._marks)
        self._left = 0
        if new and self._pause:
            self._learn(now, wait_s)
            wait_s = 1.0 / (self.rate or 1.0) if wait_s is None else wait_s
        self.close(now, wait_s or 0.0)  # 0: it was under way when another one was refused

    def close(self, now: float, wait_s: float) -> None:
        """Start no request for some seconds."""
        self._closed_until = max(self._closed_until, now + wait_s)
        self._next = max(self._next, self._closed_until)

    def _learn(self, now: float, wait_s: float | None) -> None:
        """Estimate the rate at a refusal."""
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
        """Return whether the last refusals came as often at low rates as at high ones."""
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
        elif runs[-1][0] > 1.5 * runs[0][0] and low < 1.5 * high and low + high >= 4.0:
            self._usual = (low + high) / 2.0
            self._runs.clear()
        return self._usual is not None

    def _slowest(self, n: int) -> float:
        """Return the growth after which one in n requests is refused."""
        return (self.rate or 0.0) * 2.0 / min(n, _SURE) ** 2
