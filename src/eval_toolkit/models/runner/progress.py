"""Progress of requests, reported a few times a second."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from eval_toolkit.models.patience import Patience
from eval_toolkit.models.payloads import Response

_WINDOW_S = 10.0
_TELL_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a run at one point in time.

    Examples
    --------
    >>> Progress(done=30, reused=10, total=50, rate=4.0).eta_s
    5.0
    """

    done: int = 0
    """Number of completed requests: reused, answered or failed."""
    reused: int = 0
    """Number of reused answers."""
    total: int = 0
    errors: int = 0
    """Number of failed requests in this run."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    elapsed_s: float = 0.0
    rate: float = 0.0
    """Requests per second over the last few seconds, without reused answers."""
    away_since: datetime | None = None
    """Time at which the server became unavailable; None if it is available."""
    stopping: bool = False
    """Whether the run was interrupted and is only waiting for requests in flight."""

    @property
    def eta_s(self) -> float | None:
        """Estimated remaining time in seconds at the current rate; None before the first answer."""
        if self.done == self.total:
            return 0.0
        return (self.total - self.done) / self.rate if self.rate > 0 else None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        away = None if self.away_since is None else self.away_since.isoformat(timespec="seconds")
        return {**fields, "away_since": away, "eta_s": self.eta_s}


OnProgress: TypeAlias = Callable[[Progress], object]


class Tally:
    """Count requests, and report to a callback at most ten times a second."""

    def __init__(
        self,
        total: int,
        reused: int,
        tell: OnProgress | None,
        patience: Patience | None = None,
    ) -> None:
        self._patience = patience or Patience()
        self._patience.changed = self.tell
        self.total = total
        self.reused = reused
        self.asked = 0
        self.errors = 0
        self._prompt_tokens = 0
        self._completion_tokens = 0
        self._cost = 0.0
        self._tell = tell
        self._started = time.monotonic()
        self._next = 0.0
        self._recent = deque([(self._started, 0)])
        self.tell()

    def count(self, response: Response | None) -> None:
        """Count an answer or a failure."""
        self.asked += 1
        if response is None:
            self.errors += 1
        else:
            usage = response.usage
            self._prompt_tokens += usage.prompt_tokens or response.prompt_tokens or 0
            self._completion_tokens += (
                usage.completion_tokens or getattr(response, "completion_tokens", 0) or 0
            )
            self._cost += usage.cost
        if self._tell is not None and time.monotonic() >= self._next:
            self.tell()

    def tell(self) -> None:
        """Report the current state."""
        if self._tell is not None:
            self._tell(self.snapshot())
            self._next = time.monotonic() + _TELL_EVERY_S

    def snapshot(self) -> Progress:
        """Return the current state."""
        now = time.monotonic()
        self._recent.append((now, self.asked))
        while len(self._recent) > 2 and self._recent[1][0] <= now - _WINDOW_S:
            self._recent.popleft()
        since, before = self._recent[0]
        return Progress(
            done=self.reused + self.asked,
            reused=self.reused,
            total=self.total,
            errors=self.errors,
            prompt_tokens=self._prompt_tokens,
            completion_tokens=self._completion_tokens,
            cost=self._cost,
            elapsed_s=now - self._started,
            rate=(self.asked - before) / (now - since) if now > since else 0.0,
            away_since=self._patience.away_since,
            stopping=self._patience.stopping,
        )
