"""Retry logic for failed requests."""

import random
from dataclasses import dataclass

from eval_toolkit.errors import ModelError

REFUSED = 429
_OVERLOADED = frozenset({429, 503, 529})
"""Status codes by which a server asks for fewer requests."""
_LEAST_REFUSALS = 5
"""Number of refusals after which a cause other than the request rate is considered."""
_OTHERS = 3
"""Maximum number of consecutive refusals that are blamed on individual requests."""
_GONE = frozenset({502, 503, 504, 529})
"""Status codes by which gateways report an unavailable server."""


@dataclass(frozen=True, slots=True)
class RetryRule:
    """Limits on the number and duration of retries."""

    max_tries: int = 5
    first_wait_s: float = 0.5
    longest_wait_s: float = 30.0
    total_s: float = 600.0
    """Period in seconds after the first failure within which a retry may start."""


def closes_gate(error: Exception) -> bool:
    """Return whether all requests must wait after a failure."""
    return getattr(error, "status", None) in _OVERLOADED


def seems_gone(error: Exception) -> bool:
    """Return whether a failure may indicate that the server is unavailable to all requests."""
    kind = getattr(error, "kind", "")
    return kind == "connection" or getattr(error, "status", None) in _GONE


class Failures:
    """Failed attempts of one request.

    Parameters
    ----------
    rule : RetryRule
        Limits on the number and duration of retries.
    now : float
        Time of the first failure.
    n_answers : int
        Number of answers to other requests at that time.
    """

    __slots__ = (
        *("_n_answers", "_n_refused", "_rule", "_used", "before", "last", "n", "n_outages"),
        *("since", "spared"),
    )

    def __init__(self, rule: RetryRule, now: float, n_answers: int) -> None:
        self._rule = rule
        self._used = self._n_refused = 0
        self._n_answers = n_answers
        self.since = self.last = self.before = now
        """Times of the first, latest and second-latest failures."""
        self.n = 0
        """Number of failed attempts."""
        self.n_outages = 0
        self.spared = False
        """Whether the last failure did not count as an attempt because it paused all requests."""

    def place(self, n_in_row: int) -> int | None:
        """Return the queue position of the next attempt; None for the end of the queue.

        A refused request moves behind the others, which may be accepted, unless the server has
        refused the last ``n_in_row`` requests.
        """
        return None if self._n_refused and n_in_row <= _OTHERS else 0

    def pause(
        self, error: Exception, now: float, patience_s: float, n_answers: int
    ) -> float | None:
        """Return the seconds until the next attempt; None if there is none.

        A refusal (429) after which all requests wait does not count as an attempt. ``n_answers`` is
        the number of answers to other requests: if many of them succeeded while every attempt of
        this request was refused, the request rate is not the cause.
        """
        rule = self._rule
        self.n += 1
        self.before, self.last = self.last, now
        delay: float | None = getattr(error, "wait_s", None)
        refused = getattr(error, "status", None) == REFUSED
        self._n_refused += refused
        most = max(rule.max_tries, _LEAST_REFUSALS)
        if self._n_refused >= most and n_answers - self._n_answers >= 2 * most:
            self.spared = False
            return None
        self.spared = refused and (rule.first_wait_s if delay is None else delay) > 0.0
        self._used += not self.spared
        within = max(rule.total_s, patience_s) if self.spared else rule.total_s
        if self._used >= rule.max_tries or now + (delay or 0.0) >= self.since + within:
            return None
        if closes_gate(error) and delay is not None:
            return 0.0  # all requests wait at the gate
        if self.spared:
            return 0.0
        if delay is None:
            wait = min(rule.longest_wait_s, rule.first_wait_s * 2.0 ** (self._used - 1))
            return wait + random.uniform(0.0, rule.first_wait_s)  # noqa: S311
        # Jitter, so that requests with the same delay are not retried at the same moment.
        return delay + random.uniform(0.0, min(rule.first_wait_s, 0.1 * delay))  # noqa: S311

    def restart(self, now: float) -> None:
        """Reset the number of attempts after an outage."""
        self.n_outages += 1
        self._used, self._n_refused, self.since, self.last = 0, 0, now, now

    def final(self, error: ModelError) -> ModelError:
        """Return the last failure along with the number of attempts."""
        error.tries = max(1, self.n)
        if self.n > 1:
            error.args = (f"{error.args[0]} (tried {self.n} times)",)
        return error
