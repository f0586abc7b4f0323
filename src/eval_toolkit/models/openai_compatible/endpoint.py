"""HTTP endpoint: address, key, sessions, limits, retries and usage."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from eval_toolkit.errors import ModelError
from eval_toolkit.models.openai_compatible.addresses import Address
from eval_toolkit.models.openai_compatible.limits import Budget, Limiter
from eval_toolkit.models.openai_compatible.outages import Outage
from eval_toolkit.models.openai_compatible.pace import Pace
from eval_toolkit.models.openai_compatible.retries import (
    REFUSED,
    Failures,
    RetryRule,
    closes_gate,
    seems_gone,
)
from eval_toolkit.models.openai_compatible.streaming import Streamed
from eval_toolkit.models.openai_compatible.transport import Connection, Transport, load_aiohttp
from eval_toolkit.models.openai_compatible.usage import Reply, Totals
from eval_toolkit.models.patience import the_patience
from eval_toolkit.models.prices import cost_of

if TYPE_CHECKING:
    from eval_toolkit.models.openai_compatible.api import Api
    from eval_toolkit.models.prices import Spending

T = TypeVar("T")

_NO_SUCH_PATH = (404, 405)


class _Line(NamedTuple):
    """Connection and limiter of one event loop."""

    connection: Connection
    limiter: Limiter


class Endpoint:
    """Client for one server, with rate limits and retries.

    Parameters
    ----------
    address : Address
        Address of the server.
    api : Api
        Conventions of the service, and the keys sent to it.
    concurrency, adaptive
        See `Limiter`.
    timeout_s : float
        Timeout per attempt in seconds; when streaming, the maximum wait between events.
    rule : RetryRule
        When to retry failed requests.
    budgets : tuple of Budget or None
        Budgets of requests and tokens per minute.
    prices : tuple of float
        Prices per million tokens, as in `cost_of`.
    spending : Spending, optional
        Spending limit, shared with other models.
    """

    def __init__(
        self,
        address: Address,
        *,
        api: "Api",
        concurrency: int,
        adaptive: bool,
        timeout_s: float,
        rule: RetryRule,
        budgets: tuple[Budget | None, Budget | None] = (None, None),
        prices: tuple[float, ...] = (0.0, 0.0),
        spending: "Spending | None" = None,
    ) -> None:
        self._spending = spending
        self._transport = Transport(address, api, timeout_s)
        self._concurrency = concurrency
        self._adaptive = adaptive
        self._rule = rule
        self._budgets = budgets
        self._prices = prices
        self._is_free = not any(prices)
        self._line: _Line | None = None
        self._pace = Pace(rule.first_wait_s if adaptive else 0.0, ramps=api.has_key)
        self._outage: Outage | None = None
        self._answered_at = float("-inf")
        self._n_requests = self._n_answers = self._n_failures = self._refused_in_row = 0
        self._prompt_tokens = self._completion_tokens = 0
        self._cost = self._latency_s = 0.0
        self.has_others = False
        """Whether other servers can take over requests while this one is unavailable."""

    @property
    def address(self) -> Address:
        """Address of the server."""
        return self._transport.address

    @property
    def key_env(self) -> str | None:
        """Environment variable that contains the key."""
        return self._transport.api.key_env

    def goes_to(self, model: str) -> str:
        """Return a message on where prompts are sent and which variable contains the key."""
        api = self._transport.api
        sent_along = (
            api.sent_along
        )  # evaluated first, since extras of other services include aiohttp
        if "aiohttp" not in sys.modules and find_spec("aiohttp") is None:
            load_aiohttp()  # raises if it is missing
        tried = ", or to its /v1 if that is not found" if self.address.below_v1 else ""
        to = f"{self.address.base}{tried}, {sent_along}"
        return f"{api.kind}:{model}: prompts go to {to}"

    @property
    def counts_tokens(self) -> bool:
        """Whether requests require an estimated token count."""
        return self._budgets[1] is not None

    def totals(self) -> Totals:
        """Return the current totals of requests and usage."""
        limiter = self._line.limiter if self._line else None
        return Totals(
            n_requests=self._n_requests,
            n_answers=self._n_answers,
            n_failures=self._n_failures,
            prompt_tokens=self._prompt_tokens,
            completion_tokens=self._completion_tokens,
            cost=self._cost,
            latency_s=self._latency_s,
            in_flight=limiter.in_flight if limiter else 0,
            limit=int(limiter.limit) if limiter else self._concurrency,
        )

    def delay(self, n_assigned: int) -> float:
        """Return the seconds until another request may start; infinity if one must finish first.

        ``n_assigned`` is the number of requests running or waiting at this server.
        """
        limiter = self._line.limiter if self._line else None
        if n_assigned >= int(limiter.limit if limiter else self._concurrency):
            return float("inf")
        return limiter.delay() if limiter else 0.0

    @property
    def prices(self) -> tuple[float, ...]:
        """Prices per million prompt, answer, cached and reasoning tokens."""
        return self._prices

    def cost(
        self,
        prompt_tokens: int | None,
        completion_tokens: int | None,
        cached_tokens: int = 0,
        reasoning_tokens: int = 0,
    ) -> float:
        """Return the cost of the given token counts."""
        if self._is_free:
            return 0.0
        given, generated = prompt_tokens or 0, completion_tokens or 0
        return cost_of(self._prices, given, generated, cached_tokens, reasoning_tokens)

    async def ask(
        self,
        path: str,
        body: bytes | None,
        read: Callable[[Mapping[str, Any]], T],
        *,
        n_tokens: int = 0,
        retries: bool = True,
    ) -> Reply[T]:
        """Send a request (GET if it has no body), with retries, and parse the response.

        The path is relative to the base address, or to the root if it starts with /. ``read``
        parses the decoded response and raises `ModelError` of kind "garbled" if it is invalid.
        ``n_tokens`` is the estimate for the token budget. Without ``retries``, the request is sent
        only once.
        """
        if not retries:
            return await self._once(path, body, read, n_tokens)
        failures: Failures | None = None
        once = partial(self._once, path, body, read, n_tokens)
        while True:
            place = None if failures is None else failures.place(self._refused_in_row)
            sent_to = self.address
            try:
                if self._outage is None or self._outage.over:
                    reply = await once(place=place)
                else:
                    reply = await self._outage.wait(partial(once, place=place))
            except ModelError as error:
                if self._moves_below(path, error, sent_to):
                    continue
                now = _now()
                if failures is None:
                    failures = Failures(self._rule, now, self._n_answers)
                await self._pause(failures, error, now)
            else:
                if failures is not None:
                    reply.tries = failures.n + 1
                return reply

    async def ask_once(self, path: str, read: Callable[[Mapping[str, Any]], T]) -> Reply[T]:
        """Send a GET request without retries; see `ask`."""
        return await self._sent(path, None, read, 0, None)

    def _moves_below(self, path: str, error: ModelError, sent_to: Address) -> bool:
        """Switch to the address with ``/v1`` if the one without is not found."""
        below = None if path.startswith("/") else sent_to.below_v1
        if below is None or error.status not in _NO_SUCH_PATH:
            return False
        if self.address != sent_to:  # another request already switched
            return True
        self._transport.move(below)
        return True

    async def _pause(self, failures: Failures, error: ModelError, now: float) -> None:
        """Wait before the next attempt; raise the error if none is left."""
        if not error.retryable:
            failures.n += 1
            raise failures.final(error)
        if self.has_others and (seems_gone(error) or error.kind == "timeout"):
            raise failures.final(error)
        patience = the_patience()
        known = self._n_answers > 0 or patience.from_start
        waited = patience.seconds if known else 0.0
        self._refused_in_row += error.status == REFUSED
        wait_s = failures.pause(error, now, waited, self._n_answers)
        if wait_s is not None:
            if wait_s > 0.0:
                await asyncio.sleep(wait_s)
            return
        nobody = self._answered_at < failures.before  # since the last try of this request
        if not known or not patience.seconds or not nobody:
            raise failures.final(error)
        if failures.spared:  # refused longer than the patience allows
            raise ModelError(f"{error} (patience exceeded)", kind="unreachable", tries=failures.n)
        if not seems_gone(error) or failures.n_outages >= self._rule.max_tries:
            raise failures.final(error)
        failures.restart(now)
        if self._outage is None or self._outage.over:
            self._outage = Outage(patience)

    async def _once(
        self,
        path: str,
        body: bytes | None,
        read: Callable[[Mapping[str, Any]], T],
        n_tokens: int,
        *,
        place: int | None = None,
    ) -> Reply[T]:
        if self._spending is None:
            return await self._sent(path, body, read, n_tokens, place)
        await self._spending.admit()
        cost, tokens = None, 0
        try:
            reply = await self._sent(path, body, read, n_tokens, place)
            cost = self.cost(*reply.tokens)
            tokens = (reply.tokens.prompt or 0) + (reply.tokens.completion or 0)
        finally:
            self._spending.book(cost, tokens)
        return reply

    async def _sent(
        self,
        path: str,
        body: bytes | None,
        read: Callable[[Mapping[str, Any]], T],
        n_tokens: int,
        place: int | None,
    ) -> Reply[T]:
        line = self._line
        if line is None or line.connection.loop is not asyncio.get_running_loop():
            line = await self._open()
        limiter, transport = line.limiter, self._transport
        if not limiter.admit(n_tokens):
            await limiter.wait(n_tokens, place)
        cuts = limiter.cuts
        if the_patience().stopping:
            limiter.release(cuts)
            raise asyncio.CancelledError
        self._n_requests += 1
        began, started = _now(), time.perf_counter()
        overloaded = answered = False
        try:
            accept = partial(limiter.accept, began)
            payload = await transport.send(line.connection, path, body, accept)
            value, tokens = transport.read(path, payload, read), transport.api.tokens(payload)
            answered = transport.has_answered = True
            self._answered_at = _now()
            if self._outage is not None:
                self._outage.end()
        except ModelError as error:
            self._n_failures += 1
            overloaded = self._slow_down(limiter, error, began)
            raise
        finally:
            limiter.release(cuts, overloaded=overloaded, answered=answered)
        reply = Reply(value, tokens, time.perf_counter() - started)
        if isinstance(payload, Streamed) and payload.first_token_at is not None:
            reply.first_token_s = payload.first_token_at - started
        self._book(reply, limiter, n_tokens)
        return reply

    def _slow_down(self, limiter: Limiter, error: ModelError, began: float) -> bool:
        """Pause all requests if the server demands it; return whether to halve the concurrency."""
        wait_s = getattr(error, "wait_s", None)
        if error.status == REFUSED:
            limiter.refuse(began, wait_s)
            return not self._rule.first_wait_s
        if closes_gate(error):
            limiter.close(wait_s or 0.0)
            return True
        return error.kind == "timeout"

    def _book(self, reply: Reply[Any], limiter: Limiter, estimated: int) -> None:
        prompt_tokens, completion_tokens, *_ = reply.tokens
        self._n_answers += 1
        self._refused_in_row = 0
        self._latency_s += reply.latency_s
        self._prompt_tokens += prompt_tokens or 0
        self._completion_tokens += completion_tokens or 0
        self._cost += self.cost(*reply.tokens)
        if self.counts_tokens and prompt_tokens is not None:
            limiter.settle(estimated, prompt_tokens + (completion_tokens or 0))

    @property
    def max_tries(self) -> int:
        """Maximum number of attempts per request."""
        return self._rule.max_tries

    def parsed(
        self, path: str, status: int, raw: bytes, read: Callable[[Mapping[str, Any]], T]
    ) -> Reply[T]:
        """Parse a response in a batch file, or raise the error it contains."""
        return self._transport.parsed(path, status, raw, read)

    async def _open(self) -> _Line:
        """Open a session in the running loop."""
        limiter = Limiter(
            self._concurrency,
            adaptive=self._adaptive,
            requests=self._budgets[0],
            tokens=self._budgets[1],
            limit=self._line.limiter.limit if self._line else None,
            pace=self._pace,
        )
        self._outage = None  # it belongs to its event loop
        self._line = _Line(await self._transport.connect(), limiter)
        return self._line

    def once(self) -> "Endpoint":
        """Return a copy that has its own session and does not retry."""
        apart = copy(self)
        apart._line, apart._rule = None, replace(self._rule, max_tries=1)
        return apart

    async def aclose(self) -> None:
        """Close the session; later requests open a new one."""
        line, self._line = self._line, None
        if line is not None:
            await line.connection.aclose()


def _now() -> float:
    return asyncio.get_running_loop().time()


async def run_all(awaitables: Sequence[Awaitable[T]]) -> list[T]:
    """Return all results in order; the first failure cancels the others."""
    tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
