"""Several servers for one model; each request goes to the least loaded available server."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, NoReturn, Protocol, TypeVar

from eval_toolkit._internal.display.progress import duration
from eval_toolkit.errors import ModelError
from eval_toolkit.models.openai_compatible.endpoint import Endpoint
from eval_toolkit.models.openai_compatible.moves import listed_model
from eval_toolkit.models.openai_compatible.retries import seems_gone
from eval_toolkit.models.openai_compatible.usage import Totals
from eval_toolkit.models.patience import the_patience

T = TypeVar("T")


class Served(Protocol):
    """Interface of a model at one address."""

    @property
    def endpoint(self) -> Endpoint:
        """Server at the address."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


ServedT = TypeVar("ServedT", bound=Served)

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 30.0
_REFUSES = frozenset({"auth", "not_found", "unreachable"})
"""Kinds of permanent failures, which end a run without waiting."""


class OtherModelError(ModelError):
    """Raised if a server reports a different model from the others."""


class _Member(Generic[ServedT]):
    """State of one server."""

    def __init__(self, model: ServedT) -> None:
        self.model = model
        self.endpoint = model.endpoint
        self.n_answers = self.n_left_out = 0
        self.forget()

    def forget(self) -> None:
        """Initialise the state before the first request."""
        self.load = 0
        """Number of waiting and running requests."""
        self.is_out = True
        """Whether the server is excluded or has not been queried yet."""
        self.is_checked = False
        """Whether its model has been verified since it was last excluded."""
        self.is_tried = False
        """Whether a request is currently probing its availability."""
        self.error: ModelError | None = None
        """Most recent failure; None after a successful request."""
        self.n_failures = 0
        """Number of failures in a row, of requests that each started after the previous one."""
        self.due = self.left_at = self.answered_at = float("-inf")

    @property
    def shown(self) -> str:
        return self.endpoint.address.shown


class Fleet(Generic[ServedT]):
    """Servers for one model, each with its own rate limits and scoring method.

    A server that is unavailable or refuses requests is excluded, and probed with a single request
    after 0.5, 1, 2 … 30 s; other servers take over its requests. If all servers are unavailable,
    the run waits for at most its patience. Servers that list their models must all list the same
    model, which is checked before the first request and whenever a server becomes available again.

    Parameters
    ----------
    models : sequence
        Interface of a model at one address.
    name : str
        Name of the model, as used by the servers.
    is_vouched : bool
        Whether the user guarantees that all servers have the same model.
    """

    def __init__(self, models: Sequence[ServedT], name: str, *, is_vouched: bool) -> None:
        self._members = [_Member(model) for model in models]
        for member in self._members:
            member.endpoint.has_others = True
        self._name = name
        self._is_vouched = is_vouched
        self._known: tuple[str, Mapping[str, Any]] | None = None
        """Address of a server and its entry for the model."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queue, self._change = asyncio.Lock(), asyncio.Event()
        self._away: tuple[float, datetime] | None = None
        """Time at which the last server became unavailable; None while one is available."""
        self._answered_at = float("-inf")
        self._has_answered = False

    @property
    def models(self) -> list[ServedT]:
        """Models, one per address."""
        return [member.model for member in self._members]

    def by_address(self) -> list[dict[str, Any]]:
        """Return the request counts and number of exclusions of each server.

        ``n_requests`` and ``n_failures`` count HTTP requests; one answer may need several.
        """
        return [
            {
                "address": member.shown,
                "n_answers": member.n_answers,
                "n_requests": member.endpoint.totals().n_requests,
                "n_failures": member.endpoint.totals().n_failures,
                "n_left_out": member.n_left_out,
            }
            for member in self._members
        ]

    def totals(self) -> Totals:
        """Return the totals over all servers."""
        each = [member.endpoint.totals().to_dict() for member in self._members]
        return Totals(**{name: sum(one[name] for one in each) for name in each[0]})

    async def ask(self, send: Callable[[ServedT], Awaitable[T]]) -> T:
        """Call ``send`` with one of the servers and return its result."""
        self._join()
        failed_at, n = float("inf"), 0
        while True:
            member = await self._next()
            began = _now()
            try:
                return await self._sent(member, send)
            except ModelError as error:
                if not self._goes_elsewhere(error):
                    raise
                n += 1
                others_are_answered = self._answered_at > failed_at
                failed_at = _now()
                self._leave_out(member, error, began)
                if n >= member.endpoint.max_tries and others_are_answered:
                    error.tries = n
                    raise

    async def served(self) -> Mapping[str, Any] | None:
        """Return the model entry of the servers that respond; raise an error if they differ."""
        self._join()
        found = []
        for member in self._members:
            try:
                found.append(await self._identity(member))
            except OtherModelError:
                raise
            except ModelError:  # it may become available later
                continue
        return next((entry for entry in found if entry is not None), None)

    async def aclose(self) -> None:
        """Close the connections."""
        for member in self._members:
            await member.model.aclose()

    # -- one request

    async def _next(self) -> _Member[ServedT]:
        """Assign the next request to a server, and return the server.

        Requests wait here in order of arrival rather than at a server, since another server may
        become available earlier.
        """
        async with self._queue:
            while True:
                now = _now()
                due = [one for one in self._members if one.is_out and not one.is_tried]
                due = [one for one in due if one.due <= now]
                here = [one for one in self._members if not one.is_out]
                delays = {one: one.endpoint.delay(one.load) for one in here}
                free = [one for one in here if delays[one] <= 0.0]
                if due:
                    chosen = min(due, key=lambda one: one.due)
                    chosen.is_tried = True
                elif free:
                    chosen = min(free, key=lambda one: one.load)
                else:
                    await self._wait(now, now + min(delays.values(), default=float("inf")))
                    continue
                chosen.load += 1
                return chosen

    async def _sent(self, member: _Member[ServedT], send: Callable[[ServedT], Awaitable[T]]) -> T:
        tries = member.is_tried and member.is_out
        try:
            if not member.is_checked:
                await self._identity(member)
                member.is_checked = True
                if not member.n_failures:
                    self._is_back(member)
            answer = await send(member.model)
        except ModelError as error:
            if not self._goes_elsewhere(error):
                self._is_back(member)  # the server answered
            raise
        else:
            member.answered_at = self._answered_at = _now()
            self._has_answered = True
            member.n_answers += 1
            self._is_back(member)
            return answer
        finally:
            member.load -= 1
            if tries:
                member.is_tried = False
            self._change.set()

    def _goes_elsewhere(self, error: ModelError) -> bool:
        """Return whether another server may answer a failed request."""
        if isinstance(error, OtherModelError):
            return self._has_answered
        return seems_gone(error) or error.kind in _REFUSES or error.kind == "timeout"

    def _is_back(self, member: _Member[ServedT]) -> None:
        if member.is_out:
            member.is_out = member.is_tried = False
            if self._away is not None:
                self._away = None
                the_patience().tell(None)
            self._change.set()
        member.n_failures, member.error = 0, None

    def _leave_out(self, member: _Member[ServedT], error: ModelError, began: float) -> None:
        if error.kind == "timeout" and member.answered_at > began:
            return  # this request was slow; the server is available
        now = _now()
        member.error = error
        if began >= member.left_at:  # otherwise it was in progress when another one failed
            wait_s = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0**member.n_failures)
            member.due = now + max(wait_s, getattr(error, "wait_s", None) or 0.0)
            member.n_failures += 1
            member.left_at = now
        member.n_left_out += not member.is_out
        member.is_out, member.is_checked = True, False
        if self._away is None and all(one.is_out and one.error for one in self._members):
            self._away = (now, datetime.now().astimezone())
        self._change.set()

    # -- if no server is available

    async def _wait(self, now: float, until: float) -> None:
        """Wait until a server may be available; raise an error if the patience is exhausted."""
        out = (one.due for one in self._members if one.is_out and not one.is_tried)
        until = min(until, *out, float("inf"))
        if self._away is not None:
            until = min(until, self._end_of_patience(now))
        self._change.clear()
        try:
            async with asyncio.timeout(None if until == float("inf") else max(0.0, until - now)):
                await self._change.wait()
        except TimeoutError:
            return

    def _end_of_patience(self, now: float) -> float:
        """Return the time at which waiting ends; raise an error if it has passed."""
        since, began = self._away or (now, datetime.now().astimezone())
        errors = [one.error for one in self._members if one.error is not None]
        if all(error.kind in _REFUSES for error in errors):
            self._give_up(errors[0].kind, "refuse requests")
        patience = the_patience()
        if not patience.seconds or not (self._has_answered or patience.from_start):
            if all(one.n_failures >= one.endpoint.max_tries for one in self._members):
                self._give_up(errors[0].kind, "failed")
            return float("inf")
        if now >= since + patience.seconds:
            self._give_up(
                "unreachable",
                f"have been unavailable since {began:%H:%M:%S}, longer than the patience of "
                f"{duration(patience.seconds)}",
            )
        if patience.away_since != began:
            patience.tell(began)
        return since + patience.seconds

    def _give_up(self, kind: str, what: str) -> NoReturn:
        last = "; ".join(str(one.error) for one in self._members)
        raise ModelError(f"all {len(self._members)} servers {what}: {last}", kind=kind)

    # -- the model of a server

    async def _identity(self, member: _Member[ServedT]) -> Mapping[str, Any] | None:
        """Return a server's entry for the model; raise an error if it differs from the others."""
        entry = await listed_model(member.endpoint, self._name)
        if entry is None or self._is_vouched:
            return entry
        if self._known is None:
            self._known = member.shown, entry
        where, known = self._known
        differing = [name for name in {**known, **entry} if known.get(name) != entry.get(name)]
        if differing:
            name = differing[0]
            raise OtherModelError(
                f"{member.shown} serves a different model from {where}: `{name}` is "
                f"{entry.get(name)!r}, there {known.get(name)!r}; remove one server, or pass "
                "--model-id NAME if the models are the same",
                kind="not_found",
            )
        return entry

    # -- the event loop

    def _join(self) -> None:
        """Reset the state for a new event loop, which has its own clock and its own requests."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._away = loop, None
            self._queue, self._change = asyncio.Lock(), asyncio.Event()
            self._answered_at = float("-inf")
            for member in self._members:
                member.forget()


def _now() -> float:
    return asyncio.get_running_loop().time()
