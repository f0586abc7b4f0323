"""Access control of the viewer: loopback hosts only, with a secret token."""

import hashlib
import html
import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlencode

from eval_toolkit.errors import InvalidInputError

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

CONTENT_POLICY = (
    # Charts set inline styles; scripts are loaded only from our own files.
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    b"content-security-policy": CONTENT_POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"cache-control": b"no-store",
}
_METHODS = ("GET", "HEAD")
_SIGNS_AT_LEAST = 16


def new_token() -> str:
    """Return an unpredictable token.

    Examples
    --------
    >>> len(new_token()) >= 32
    True
    """
    return secrets.token_urlsafe(32)


def checked_token(token: str) -> str:
    """Return the token; raise if it is too short to be secure.

    At least 16 characters are required.

    Examples
    --------
    >>> checked_token("not-to-be-guessed")
    'not-to-be-guessed'
    """
    if len(token) < _SIGNS_AT_LEAST:
        raise InvalidInputError(
            f"`token` has {len(token)} characters; it needs at least {_SIGNS_AT_LEAST}; omit it "
            "for a random one"
        )
    return token


def session_of(token: str) -> str:
    """Return the value of the session cookie, a hash that does not reveal the token.

    Browsers send the cookies of a host to all of its ports.

    Examples
    --------
    >>> len(session_of("not-to-be-guessed"))
    64
    """
    return hashlib.sha256(b"session of " + token.encode()).hexdigest()


class Guard:
    """ASGI middleware that rejects unauthorised requests and adds security headers.

    The token is required once, in the URL; later requests are authorised by a cookie.

    Examples
    --------
    >>> Guard(None, "secret").token
    b'secret'
    """

    def __init__(self, app: Any, token: str) -> None:
        self.app = app
        self.token = token.encode()
        self.session = session_of(token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request, or reject it with one line of text."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message["headers"]}
                more = [pair for pair in HEADERS.items() if pair[0] not in own]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        headers = _headers(scope)
        refused = self._refused(scope, headers)
        if refused is not None:
            await _line(send_with_headers, *refused)
        elif (given := self._token_in_address(scope)) is not None:
            if secrets.compare_digest(given, self.token):
                await self._let_in(scope, headers, send_with_headers)
            else:
                await _line(send_with_headers, 403, _NOT_LET_IN)
        elif not self._has_cookie(scope, headers):
            await _line(send_with_headers, 403, _NOT_LET_IN)
        else:
            await self.app(scope, receive, send_with_headers)

    def _refused(
        self, scope: Scope, headers: Mapping[bytes, list[bytes]]
    ) -> tuple[int, str] | None:
        """Return the response that rejects a wrong host, method or token, or None to accept."""
        hosts = headers.get(b"host", [])
        port = _port(scope)
        known = {f"{name}:{port}".encode() for name in ("127.0.0.1", "localhost")}
        if len(hosts) != 1 or hosts[0].lower() not in known:
            # DNS rebinding: pages of another site must not read these.
            return 421, f"This viewer accepts only the hosts 127.0.0.1:{port} and localhost:{port}."
        if scope["method"] not in _METHODS:
            return 405, "This viewer is read-only: it accepts only GET and HEAD."
        return None

    def _token_in_address(self, scope: Scope) -> bytes | None:
        """Return the token in the URL, which is accepted only on the list of runs."""
        if scope["path"] != "/":
            return None
        given = dict(_query(scope)).get("token")
        return None if given is None else given.encode("utf-8", "surrogatepass")

    async def _let_in(self, scope: Scope, headers: Mapping[bytes, list[bytes]], send: Send) -> None:
        """Set the cookie and redirect to the URL without the token."""
        rest = urlencode([pair for pair in _query(scope) if pair[0] != "token"], errors="replace")
        name = _cookie_name(scope)
        cookie = f"{name}={self.session}; Path=/; HttpOnly; SameSite=Strict"
        there = f"/{'?' + rest if rest else ''}"
        led = headers.get(b"sec-fetch-site", [b"none"]) not in ([b"none"], [b"same-origin"])
        # After navigation from a file or another site, a redirect would be followed without the
        # SameSite=Strict cookie; a refresh from our own page sends it.
        how = (b"refresh", f"0; url={there}") if led else (b"location", there)
        body = f'<!doctype html><title>Viewer</title><a href="{html.escape(there)}">Open it</a>\n'
        answer = [
            (how[0], how[1].encode()),
            (b"set-cookie", cookie.encode()),
            (b"content-type", b"text/html; charset=utf-8"),
            (b"content-length", str(len(body)).encode()),
        ]
        status = 200 if led else 303
        await send({"type": "http.response.start", "status": status, "headers": answer})
        await send({"type": "http.response.body", "body": body.encode()})

    def _has_cookie(self, scope: Scope, headers: Mapping[bytes, list[bytes]]) -> bool:
        name = _cookie_name(scope).encode()
        shown = [
            value.strip()
            for line in headers.get(b"cookie", [])
            for key, _, value in (part.partition(b"=") for part in line.split(b";"))
            if key.strip() == name
        ]
        return any(secrets.compare_digest(value, self.session.encode()) for value in shown)


_NOT_LET_IN = "This page needs the token printed by eval-toolkit view: open the full URL."


def _headers(scope: Scope) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.lower(), []).append(value)
    return found


def _port(scope: Scope) -> int:
    """Return the port on which the request arrived, regardless of its headers."""
    server = scope.get("server")
    return int(server[1]) if server and server[1] is not None else 0


def _cookie_name(scope: Scope) -> str:
    # Browsers share cookies between all ports of a host: two viewers need different names.
    return f"eval_toolkit_view_{_port(scope)}"


def _query(scope: Scope) -> list[tuple[str, str]]:
    text = scope.get("query_string", b"").decode("latin-1")
    return parse_qsl(text, keep_blank_values=True, errors="replace")


async def _line(send: Send, status: int, text: str) -> None:
    body = f"{text}\n".encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
    ]
    if status == 405:
        headers.append((b"allow", b"GET, HEAD"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
