"""HTTP transport: sends single requests to an address and decodes the responses."""

import asyncio
import io
import json
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from eval_toolkit._internal.files.limits import ANSWER_BYTES, TEXT_BYTES
from eval_toolkit._internal.optional import require
from eval_toolkit.errors import EvalToolkitError
from eval_toolkit.models.openai_compatible.addresses import Address
from eval_toolkit.models.openai_compatible.failures import (
    EndpointError,
    can_heal,
    from_body,
    from_status,
    one_line,
    without_secrets,
)
from eval_toolkit.models.openai_compatible.streaming import DONE, EventReader, Streamed
from eval_toolkit.models.openai_compatible.usage import Reply

if TYPE_CHECKING:
    from aiohttp import ClientSession
    from yarl import URL

    from eval_toolkit.models.openai_compatible.api import Api

T = TypeVar("T")

_LARGE_BODY = 1 << 20
"""Size above which aiohttp warns about bodies that are not streams."""
_FILE_TIMEOUT_S = 600.0
"""Minimum timeout for file transfers in seconds."""
_KEEPALIVE_S = 4.0
"""Keep-alive timeout in seconds; common servers close idle connections after five."""


class FilePath(str):
    """Path to upload or download a file; the decoded response is ``{"content": bytes}``."""

    content_type: str

    def __new__(cls, path: str, content_type: str = "application/json") -> "FilePath":
        """Create a path; ``content_type`` describes the request body."""
        created = super().__new__(cls, path)
        created.content_type = content_type
        return created


class Connection:
    """Session of one event loop and the secrets that it sends."""

    __slots__ = ("aiohttp", "life", "loop", "secrets", "session")

    def __init__(
        self,
        life: "AsyncGenerator[ClientSession]",
        session: "ClientSession",
        secrets: tuple[str, ...],
    ) -> None:
        self.aiohttp = load_aiohttp()
        self.loop = asyncio.get_running_loop()
        self.life = life
        self.session = session
        self.secrets = secrets

    async def aclose(self) -> None:
        """Close the session in its event loop."""
        if self.loop is asyncio.get_running_loop():
            await self.life.aclose()


class Transport:
    """Send requests to an address, following the conventions of a service.

    Parameters
    ----------
    address : Address
        Address of the server.
    api : Api
        Conventions of the service, and the keys sent to it.
    timeout_s : float
        Timeout per attempt in seconds; when streaming, the maximum wait between events.
    """

    def __init__(self, address: Address, api: "Api", timeout_s: float) -> None:
        self.address = address
        self.api = api
        self.has_answered = False
        """Whether the server has ever responded."""
        self._timeout_s = timeout_s
        self._urls: dict[str, tuple[URL, str]] = {}

    def move(self, address: Address) -> None:
        """Switch to another address."""
        self.address = address
        self._urls.clear()

    async def connect(self) -> Connection:
        """Open a session in the running loop."""
        headers, secrets = self.api.headers()
        life = _session_life(headers, from_env=not self.address.is_loopback)
        # The generator does not await before it yields, so no other task sees a partial session.
        session = await anext(life)
        return Connection(life, session, secrets)

    async def send(
        self,
        connection: Connection,
        path: str,
        body: bytes | None,
        accept: Callable[[Mapping[str, str]], None],
    ) -> Mapping[str, Any]:
        """Send one request and return the decoded object of a successful response.

        ``accept`` is called with the headers of a successful response before its body is read.
        """
        aiohttp, secrets = connection.aiohttp, connection.secrets
        data: Any = io.BytesIO(body) if body is not None and len(body) > _LARGE_BODY else body
        method, (url, written) = "GET" if body is None else "POST", self._url(path)
        headers = self.api.signed(method, written, body or b"")
        timeout_s, stopped = self._timeout_s, "did not respond within"
        if isinstance(path, FilePath):
            timeout_s = max(timeout_s, _FILE_TIMEOUT_S)
            headers |= {"Content-Type": path.content_type}
        try:
            async with (
                asyncio.timeout(timeout_s) as patience,
                connection.session.request(
                    method, url, data=data, headers=headers, allow_redirects=False
                ) as response,
            ):
                if response.status < 300:
                    accept(response.headers)
                if response.status < 300 and response.content_type == "text/event-stream":
                    stopped = "streamed nothing for"
                    return await self._streamed(path, response, patience, secrets)
                raw = await self._whole(path, response)
        except TimeoutError:
            raise EndpointError(
                f"{self._where(path)} {stopped} {timeout_s:g} s", kind="timeout"
            ) from None
        except aiohttp.ClientPayloadError:
            raise EndpointError(
                f"{self._where(path)} closed the connection before completing its response",
                kind="garbled",
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            words = (str(error) or type(error).__name__).replace(" ssl:default", "")
            words = one_line(words, secrets)
            heals = can_heal(error, known=self.has_answered)
            raise EndpointError(
                f"{self._where(path)} cannot be reached: {words}",
                kind="connection" if heals else "unreachable",
            ) from None
        if response.status >= 300:
            raise self._failure(path, response.status, response.headers, raw, secrets)
        if isinstance(path, FilePath):
            return {"content": raw}
        return self._decoded(path, raw, secrets)

    def parsed(
        self, path: str, status: int, raw: bytes, read: Callable[[Mapping[str, Any]], T]
    ) -> Reply[T]:
        """Parse a response in a batch file, or raise the error it contains."""
        _, secrets = self.api.headers()
        if status >= 300:
            raise self._failure(path, status, {}, raw, secrets)
        payload = self._decoded(path, raw, secrets)
        return Reply(self.read(path, payload, read), self.api.tokens(payload), 0.0)

    def _failure(
        self,
        path: str,
        status: int,
        headers: Mapping[str, str],
        raw: bytes,
        secrets: tuple[str, ...],
    ) -> EndpointError:
        hint = self.api.key_hint
        error = from_status(self._where(path), status, headers, raw, secrets=secrets, hint=hint)
        return self.api.corrected(error, headers, raw)

    async def _whole(self, path: str, response: Any) -> bytes:
        """Read a response body, in one piece if its declared length is within the limit."""
        n, encoded = response.content_length, "Content-Encoding" in response.headers
        if n is not None and n <= ANSWER_BYTES and not encoded:
            return bytes(await response.read())
        return b"".join([part async for part in self._parts(path, response)])

    async def _parts(self, path: str, response: Any) -> "AsyncGenerator[bytes]":
        """Yield the decompressed parts of a body as they arrive, up to the limit."""
        most = TEXT_BYTES if isinstance(path, FilePath) else ANSWER_BYTES
        n = 0
        async for part in response.content.iter_any():
            n += len(part)
            if n > most:
                raise EndpointError(
                    f"{self._where(path)} returned more than {most} bytes",
                    kind="garbled",
                    status=response.status,
                )
            yield part

    async def _streamed(
        self, path: str, response: Any, patience: asyncio.Timeout, secrets: tuple[str, ...]
    ) -> Streamed:
        """Assemble a response streamed as events; every event resets the timeout."""
        reader, events, loop = EventReader(), self.api.events(), asyncio.get_running_loop()
        first: float | None = None
        async for part in self._parts(path, response):
            for data in reader.feed(part):
                event = {} if data == DONE else self._decoded(path, data, secrets)
                if event.get("type") == "ping":  # the server is alive but generates nothing
                    continue
                patience.reschedule(loop.time() + self._timeout_s)
                if self.read(path, event, events.add) and first is None:
                    first = time.perf_counter()
        answer = events.whole()
        answer.first_token_at = first
        if secrets:  # a secret may span two events
            answer.update(without_secrets(dict(answer), secrets))
        return answer

    def _decoded(self, path: str, raw: bytes, secrets: tuple[str, ...]) -> Mapping[str, Any]:
        # Ignore the content type, since some proxies label JSON as text.
        try:
            payload = json.loads(raw)
            # Characters in a secret may be escaped.
            if secrets and (b"\\" in raw or any(secret.encode() in raw for secret in secrets)):
                payload = without_secrets(payload, secrets)
        except (ValueError, RecursionError):
            start = one_line(raw[:60].decode("utf-8", "replace"), secrets)
            raise EndpointError(
                f"{self._where(path)} returned {len(raw)} bytes that are not JSON: {start!r}",
                kind="garbled",
                status=200,
            ) from None
        if not isinstance(payload, dict):
            raise EndpointError(
                f"{self._where(path)} returned a {type(payload).__name__} instead of a JSON object",
                kind="garbled",
                status=200,
            )
        if self.api.is_error(payload):
            raise self.api.corrected(from_body(self._where(path), payload, secrets), {}, raw)
        return payload

    def read(
        self, path: str, payload: Mapping[str, Any], read: Callable[[Mapping[str, Any]], T]
    ) -> T:
        """Parse a decoded response; raise an error of kind "garbled" if this fails."""
        try:
            return read(payload)
        except EvalToolkitError:
            raise
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
            # Any part of an answer may have any type; explicit checks cannot cover all cases.
            raise EndpointError(
                f"{self._where(path)} returned a response that cannot be parsed: {type(error).__name__}",
                kind="garbled",
                status=200,
            ) from error

    def _url(self, path: str) -> "tuple[URL, str]":
        """Return the URL of a path along with its string form."""
        found = self._urls.get(path)
        if found is None:
            yarl = require("yarl", feature="OpenAICompatible", extra="llm")
            # Paths with escapes are left unchanged: unescaping would invalidate the signature.
            url = yarl.URL(self.address.url(path), encoded="%" in path)
            found = self._urls[path] = url, str(url)
        return found

    def _where(self, path: str) -> str:
        return self.address.url(path).partition("://")[2].partition("?")[0]


def load_aiohttp() -> Any:
    """Import aiohttp, or raise an error with installation instructions."""
    return require("aiohttp", feature="OpenAICompatible", extra="llm")


async def _session_life(
    headers: Mapping[str, str], *, from_env: bool
) -> "AsyncGenerator[ClientSession]":
    """Yield a session that is closed no later than its event loop.

    Event loops close their async generators before they stop, so forgetting `aclose` neither leaks
    a connection nor causes a warning.
    """
    aiohttp = load_aiohttp()
    # The limiter bounds concurrency; proxies are only used for remote addresses.
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEPALIVE_S)
    async with aiohttp.ClientSession(
        connector=connector,
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),  # each request has its own
        trust_env=from_env,
    ) as session:
        yield session
