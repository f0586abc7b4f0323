"""HTTP endpoint: address, key, sessions, limits, retries and totals."""

import asyncio
import io
import ipaddress
import json
import os
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from urllib.parse import SplitResult, urlsplit

from eval_toolkit._internal.files.limits import ANSWER_BYTES
from eval_toolkit._internal.optional import require
from eval_toolkit._internal.redaction import redact_secrets
from eval_toolkit.errors import EvalToolkitError, InvalidInputError, ModelError
from eval_toolkit.models.openai_compatible.failures import (
    EndpointError,
    can_heal,
    from_body,
    from_status,
    one_line,
    without_secrets,
)
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
from eval_toolkit.models.patience import the_patience
from eval_toolkit.models.prices import cost_of

if TYPE_CHECKING:
    from aiohttp import ClientSession
    from yarl import URL

    from eval_toolkit.models.prices import Spending

__all__ = ["Address", "Endpoint", "Reply", "Totals", "run_all"]

T = TypeVar("T")

OPENAI_HOST = "api.openai.com"
_LARGE_BODY = 1 << 20
"""Size above which aiohttp warns about bodies that are not streams."""
_NO_SUCH_PATH = (404, 405)
_KEEPALIVE_S = 4.0
"""Keep-alive timeout, below the five seconds after which common servers close connections."""


@dataclass(frozen=True, slots=True)
class Address:
    """Address of a server, from ``base_url``."""

    base: str
    root: str
    """The address without its final ``/v1``, under which servers offer non-OpenAI paths."""
    host: str
    query: str = ""

    @classmethod
    def read(cls, base_url: str) -> "Address":
        """Parse an address; raise an error with an explanation if it is invalid."""
        parts = _parts(base_url)
        if parts is None:
            shown = redact_secrets(base_url)
            raise InvalidInputError(
                f"`base_url` is {shown!r}; it must look like 'http://localhost:8000/v1'"
            )
        if "@" in parts.netloc or redact_secrets(base_url) != base_url:
            raise InvalidInputError(
                f"`base_url` for {parts.hostname} contains a password or a key; remove it and "
                "name an environment variable with `api_key_env` or `headers_env`"
            )
        base = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        query = f"?{parts.query}" if parts.query else ""
        return cls(base, base.removesuffix("/v1"), parts.netloc, query)

    @property
    def is_openai(self) -> bool:
        """Whether this is OpenAI's own service."""
        return self.host == OPENAI_HOST

    @property
    def is_openai_by_https(self) -> bool:
        """Whether OpenAI's key may be sent there by default."""
        return self.is_openai and self.base.startswith("https://")

    @property
    def is_loopback(self) -> bool:
        """Whether the server is on this machine."""
        name = urlsplit(self.base).hostname or ""
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return name == "localhost" or name.endswith(".localhost")

    @property
    def shown(self) -> str:
        """Host, path and query, for messages and manifests."""
        return f"{self.base.partition('://')[2]}{self.query}"

    @property
    def below_v1(self) -> "Address | None":
        """The address with ``/v1`` appended; None if the address has a path."""
        if urlsplit(self.base).path:
            return None
        return replace(self, base=f"{self.base}/v1")

    def url(self, path: str) -> str:
        """Return the URL of a path; paths that start with / are relative to the root."""
        start = f"{self.root}{path}" if path.startswith("/") else f"{self.base}/{path}"
        return f"{start}{self.query}"


def _parts(address: Any) -> SplitResult | None:
    """Return the parts of an address; None if no request could be sent there."""
    try:
        parts = urlsplit(address)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except (ValueError, AttributeError):  # no text; no IPv6 address or no port where there is one
        return None
    return parts if known and len(address.split()) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Total requests and usage of a model.

    Examples
    --------
    >>> Totals(n_requests=2, n_answers=1, n_failures=1).to_dict()["n_failures"]
    1
    """

    n_requests: int = 0
    """Number of requests sent, including retries."""
    n_answers: int = 0
    n_failures: int = 0
    """Number of failed tries."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    latency_s: float = 0.0
    """Total latency of the answers."""
    in_flight: int = 0
    limit: int = 0
    """Current limit of concurrent requests."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {name: getattr(self, name) for name in self.__slots__}


class Tokens(NamedTuple):
    """Numbers of tokens of an answer; None if unknown."""

    prompt: int | None = None
    completion: int | None = None
    """Generated tokens, reasoning included."""
    cached: int = 0
    """Part of the prompt."""
    reasoning: int = 0
    """Part of the completion."""


class Reply(Generic[T]):
    """Parsed answer with its usage."""

    __slots__ = ("latency_s", "tokens", "tries", "value")

    def __init__(self, value: T, tokens: "Tokens", latency_s: float) -> None:
        self.value = value
        self.tokens = tokens
        self.latency_s = latency_s
        self.tries = 1


class _Line:
    """Session and limiter of one event loop."""

    __slots__ = ("aiohttp", "life", "limiter", "loop", "secrets", "session")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        life: "AsyncGenerator[ClientSession]",
        session: "ClientSession",
        limiter: Limiter,
        secrets: tuple[str, ...],
    ) -> None:
        self.aiohttp = _aiohttp()
        self.loop = loop
        self.life = life
        self.session = session
        self.limiter = limiter
        self.secrets = secrets


class Endpoint:
    """Server accessed by GET and POST requests, with limits and retries.

    Parameters
    ----------
    address : Address
        Address of the server.
    key_env : str, optional
        Environment variable with the key; it may be missing unless the server requires it.
    headers_env : mapping of str to str
        Environment variable of each further header.
    concurrency, adaptive
        See `Limiter`.
    timeout_s : float
        Timeout of one try in seconds.
    rule : RetryRule
        Rule for retries.
    budgets : tuple of Budget or None
        Requests and tokens per minute.
    prices : tuple of float
        Prices per million tokens, as in `cost_of`.
    spending : Spending, optional
        Limit on the cost, shared with other models.
    """

    def __init__(
        self,
        address: Address,
        *,
        key_env: str | None,
        headers_env: Mapping[str, str],
        concurrency: int,
        adaptive: bool,
        timeout_s: float,
        rule: RetryRule,
        budgets: tuple[Budget | None, Budget | None] = (None, None),
        prices: tuple[float, ...] = (0.0, 0.0),
        spending: "Spending | None" = None,
    ) -> None:
        self._spending = spending
        self.address = address
        self._key_env = key_env
        self._headers_env = dict(headers_env)
        self._concurrency = concurrency
        self._adaptive = adaptive
        self._timeout_s = timeout_s
        self._rule = rule
        self._budgets = budgets
        self._prices = prices
        self._line: _Line | None = None
        self._pace = Pace(rule.first_wait_s if adaptive else 0.0)
        self._outage: Outage | None = None
        self._answered_at = float("-inf")
        self._urls: dict[str, URL] = {}
        self._n_requests = self._n_answers = self._n_failures = 0
        self._prompt_tokens = self._completion_tokens = 0
        self._cost = self._latency_s = 0.0

    @property
    def key_env(self) -> str | None:
        """Environment variable with the key."""
        return self._key_env

    def goes_to(self, model: str) -> str:
        """Return a message that states where prompts are sent and which variable has the key."""
        if "aiohttp" not in sys.modules and find_spec("aiohttp") is None:
            _aiohttp()  # raises: without it nothing is sent
        keys = [self._key_env] if self._key_env and os.environ.get(self._key_env) else []
        keys += self._headers_env.values()
        key = f"with the key in {' and '.join(keys)}" if keys else "without a key"
        tried = ", or to its /v1 if that is not found" if self.address.below_v1 else ""
        return f"openai:{model}: prompts go to {self.address.base}{tried}, {key}"

    @property
    def counts_tokens(self) -> bool:
        """Whether requests need an estimate of their number of tokens."""
        return self._budgets[1] is not None

    def totals(self) -> Totals:
        """Return the totals so far."""
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

    @property
    def prices(self) -> tuple[float, ...]:
        """Prices per million tokens of prompt, of answer, and of cached and reasoning tokens."""
        return self._prices

    def cost(
        self,
        prompt_tokens: int | None,
        completion_tokens: int | None,
        cached_tokens: int = 0,
        reasoning_tokens: int = 0,
    ) -> float:
        """Return the price of a number of tokens."""
        given, made = prompt_tokens or 0, completion_tokens or 0
        return cost_of(self._prices, given, made, cached_tokens, reasoning_tokens)

    async def ask(
        self,
        path: str,
        body: bytes | None,
        read: Callable[[Mapping[str, Any]], T],
        *,
        n_tokens: int = 0,
    ) -> Reply[T]:
        """Send a request (GET without a body) and parse the answer, with retries.

        The path is relative to the base address, or to the root if it starts with /. ``read``
        parses the decoded answer and raises `ModelError` of kind "garbled" for invalid ones;
        ``n_tokens`` is the estimated number for the budget.
        """
        failures: Failures | None = None
        once = partial(self._once, path, body, read, n_tokens)
        while True:
            again = failures is not None
            asked = self.address
            try:
                if self._outage is None or self._outage.over:
                    reply = await once(again=again)
                else:
                    reply = await self._outage.wait(partial(once, again=again))
            except ModelError as error:
                if self._moves_below(path, error, asked):
                    continue
                now = _now()
                if failures is None:
                    failures = Failures(self._rule, now)
                await self._pause(failures, error, now)
            else:
                if failures is not None:
                    reply.tries = failures.n + 1
                return reply

    async def ask_once(self, path: str, read: Callable[[Mapping[str, Any]], T]) -> Reply[T]:
        """Send a GET request without retries, as in `ask`."""
        return await self._sent(path, None, read, 0, False)

    def _moves_below(self, path: str, error: ModelError, asked: Address) -> bool:
        """Use the address with ``/v1`` from now on, if there is nothing at the one asked."""
        below = None if path.startswith("/") else asked.below_v1
        if below is None or error.status not in _NO_SUCH_PATH:
            return False
        if self.address != asked:  # another request under way has found out first
            return True
        self.address = below
        self._urls.clear()
        return True

    async def _pause(self, failures: Failures, error: ModelError, now: float) -> None:
        """Wait before the next try, or raise if there is none."""
        if not error.retryable:
            failures.n += 1
            raise failures.final(error)
        patience = the_patience()
        known = self._n_answers > 0 or patience.from_start
        wait_s = failures.pause(error, now, patience.seconds if known else 0.0)
        if wait_s is not None:
            if wait_s > 0.0:
                await asyncio.sleep(wait_s)
            return
        nobody = self._answered_at < failures.before  # since the last try of this request
        if not known or not patience.seconds or not nobody:
            raise failures.final(error)
        if failures.spared:  # refused for longer than the patience
            raise ModelError(
                f"{error}, longer than the patience", kind="unreachable", tries=failures.n
            )
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
        again: bool = False,
    ) -> Reply[T]:
        if self._spending is None:
            return await self._sent(path, body, read, n_tokens, again)
        await self._spending.admit()
        cost, tokens = None, 0
        try:
            reply = await self._sent(path, body, read, n_tokens, again)
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
        again: bool,
    ) -> Reply[T]:
        line = self._line
        if line is None or line.loop is not asyncio.get_running_loop():
            line = await self._open()
        limiter = line.limiter
        if not limiter.admit(n_tokens):
            await limiter.wait(n_tokens, again=again)
        cuts = limiter.cuts
        if the_patience().stopping:
            limiter.release(cuts)
            raise asyncio.CancelledError
        self._n_requests += 1
        began, started = _now(), time.perf_counter()
        overloaded = answered = False
        try:
            payload = await self._exchange(line, path, body, began)
            value, tokens = self._read(path, payload, read), read_usage(payload)
            answered = True
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
        self._book(reply, limiter, n_tokens)
        return reply

    def _slow_down(self, limiter: Limiter, error: ModelError, began: float) -> bool:
        """Close the gate if the server asks for it; return whether to halve the concurrency."""
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
        self._latency_s += reply.latency_s
        self._prompt_tokens += prompt_tokens or 0
        self._completion_tokens += completion_tokens or 0
        self._cost += self.cost(*reply.tokens)
        if self.counts_tokens and prompt_tokens is not None:
            limiter.settle(estimated, prompt_tokens + (completion_tokens or 0))

    async def _exchange(
        self, line: _Line, path: str, body: bytes | None, began: float
    ) -> Mapping[str, Any]:
        """Send one request and return the decoded object of a successful answer."""
        aiohttp = line.aiohttp
        data: Any = io.BytesIO(body) if body is not None and len(body) > _LARGE_BODY else body
        method = "GET" if body is None else "POST"
        try:
            async with line.session.request(
                method, self._url(path), data=data, allow_redirects=False
            ) as response:
                raw = await self._body(path, response)
            if response.status < 300:
                line.limiter.accept(began, response.headers)
        except TimeoutError:
            raise EndpointError(
                f"{self._where(path)} did not answer within {self._timeout_s:g} s", kind="timeout"
            ) from None
        except aiohttp.ClientPayloadError:
            raise EndpointError(
                f"{self._where(path)} closed the connection in the middle of its answer",
                kind="garbled",
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            words = (str(error) or type(error).__name__).replace(" ssl:default", "")
            words = one_line(words, line.secrets)
            heals = can_heal(error, known=self._n_answers > 0)
            raise EndpointError(
                f"{self._where(path)} cannot be reached: {words}",
                kind="connection" if heals else "unreachable",
            ) from None
        if response.status >= 300:
            raise from_status(
                self._where(path),
                response.status,
                response.headers,
                raw,
                secrets=line.secrets,
                hint=self._key_hint(),
            )
        return self._decoded(path, raw, line.secrets)

    async def _body(self, path: str, response: Any) -> bytes:
        """Return the body of an answer, decompressed up to the limit."""
        parts, n = [], 0
        async for part in response.content.iter_any():
            parts.append(part)
            n += len(part)
            if n > ANSWER_BYTES:
                raise EndpointError(
                    f"{self._where(path)} answered with more than {ANSWER_BYTES} bytes",
                    kind="garbled",
                    status=response.status,
                )
        return b"".join(parts)

    def _decoded(self, path: str, raw: bytes, secrets: tuple[str, ...]) -> Mapping[str, Any]:
        # Ignore the content type, since some proxies label JSON as text.
        try:
            payload = json.loads(raw)
            # Characters of a secret may be escaped.
            if secrets and (b"\\" in raw or any(secret.encode() in raw for secret in secrets)):
                payload = without_secrets(payload, secrets)
        except (ValueError, RecursionError):
            start = one_line(raw[:60].decode("utf-8", "replace"), secrets)
            raise EndpointError(
                f"{self._where(path)} answered with {len(raw)} bytes that are not JSON: {start!r}",
                kind="garbled",
                status=200,
            ) from None
        if not isinstance(payload, dict):
            raise EndpointError(
                f"{self._where(path)} answered with a {type(payload).__name__}, not a JSON object",
                kind="garbled",
                status=200,
            )
        if payload.get("error") and "choices" not in payload:
            raise from_body(self._where(path), payload, secrets)
        return payload

    def _read(
        self, path: str, payload: Mapping[str, Any], read: Callable[[Mapping[str, Any]], T]
    ) -> T:
        try:
            return read(payload)
        except EvalToolkitError:
            raise
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
            # Any part of an answer may have any type; explicit checks cannot cover all cases.
            raise EndpointError(
                f"{self._where(path)} sent an answer that cannot be parsed: {type(error).__name__}",
                kind="garbled",
                status=200,
            ) from error

    def _url(self, path: str) -> "URL":
        url = self._urls.get(path)
        if url is None:
            url = self._urls[path] = require("yarl", feature="OpenAICompatible", extra="llm").URL(
                self.address.url(path)
            )
        return url

    def _where(self, path: str) -> str:
        return self.address.url(path).partition("://")[2].partition("?")[0]

    def _key_hint(self) -> str:
        if self._key_env is None:
            return "set `api_key_env` to the environment variable with the key"
        there = "is set" if os.environ.get(self._key_env) else "is not set"
        return f"the environment variable {self._key_env} {there}"

    def _headers(self) -> tuple[dict[str, str], tuple[str, ...]]:
        """Return the headers, and which of their values are secrets."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        secrets = []
        if self._key_env and (key := os.environ.get(self._key_env, "").strip()):
            headers["Authorization"] = f"Bearer {key}"
            secrets.append(key)
        for name, variable in self._headers_env.items():
            value = os.environ.get(variable, "").strip()
            if not value:
                raise ModelError(
                    f"the header {name} comes from the environment variable {variable}, "
                    "which is not set",
                    kind="auth",
                )
            headers[name] = value
            secrets.append(value)
        return headers, tuple(secrets)

    async def _open(self) -> _Line:
        """Open a session in the running loop."""
        headers, secrets = self._headers()
        life = _session_life(headers, self._timeout_s, from_env=not self.address.is_loopback)
        limiter = Limiter(
            self._concurrency,
            adaptive=self._adaptive,
            requests=self._budgets[0],
            tokens=self._budgets[1],
            limit=self._line.limiter.limit if self._line else None,
            pace=self._pace,
        )
        self._outage = None  # it belongs to its event loop
        # The generator does not await before it yields, so no other task sees a partial session.
        session = await anext(life)
        self._line = _Line(asyncio.get_running_loop(), life, session, limiter, secrets)
        return self._line

    def once(self) -> "Endpoint":
        """Return a copy with a session of its own and without retries."""
        apart = copy(self)
        apart._line, apart._rule = None, replace(self._rule, max_tries=1)
        return apart

    async def aclose(self) -> None:
        """Close the session; later requests open another."""
        line, self._line = self._line, None
        if line is not None and line.loop is asyncio.get_running_loop():
            await line.life.aclose()


def _now() -> float:
    return asyncio.get_running_loop().time()


def _aiohttp() -> Any:
    return require("aiohttp", feature="OpenAICompatible", extra="llm")


async def _session_life(
    headers: Mapping[str, str], timeout_s: float, *, from_env: bool
) -> "AsyncGenerator[ClientSession]":
    """Yield a session that is closed at the latest when its event loop ends.

    Event loops close their async generators before they stop, so a caller who forgets `aclose`
    leaves no open connection and causes no warning.
    """
    aiohttp = _aiohttp()
    # The limiter bounds concurrency; proxies are only used for remote addresses.
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEPALIVE_S)
    async with aiohttp.ClientSession(
        connector=connector,
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=timeout_s),
        trust_env=from_env,
    ) as session:
        yield session


def read_usage(payload: Mapping[str, Any]) -> Tokens:
    """Return the numbers of tokens of prompt and answer.

    Reasoning tokens are part of those of the answer, also where the server adds them only to
    its total.
    """
    usage = payload.get("usage")
    if type(usage) is not dict:
        return Tokens()
    given, made, total = (
        _count(usage.get(name)) for name in ("prompt_tokens", "completion_tokens", "total_tokens")
    )
    reasoning = _detail(usage, "completion_tokens_details", "reasoning_tokens")
    cached = _detail(usage, "prompt_tokens_details", "cached_tokens")
    cached = cached or _count(usage.get("prompt_cache_hit_tokens")) or 0  # DeepSeek
    if given is not None and made is not None and total == given + made + reasoning:
        made += reasoning
    return Tokens(given, made, min(cached, given or 0), min(reasoning, made or 0))


def _detail(usage: Mapping[str, Any], group: str, name: str) -> int:
    details = usage.get(group)
    return (_count(details.get(name)) if type(details) is dict else None) or 0


def _count(given: Any) -> int | None:
    return given if type(given) is int and 0 <= given < 1 << 53 else None


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
