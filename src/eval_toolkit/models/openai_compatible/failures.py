"""Conversion of HTTP failures to `ModelError`."""

import json
import re
import socket
import ssl
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from eval_toolkit._internal.redaction import REDACTED, redact_secrets
from eval_toolkit.errors import ModelError

MAX_MESSAGE = 240
"""Maximum length of a server's error message, since some servers repeat the entire prompt."""

_KINDS = {
    401: "auth",
    402: "auth",
    403: "auth",
    404: "not_found",
    405: "not_found",
    408: "timeout",
    409: "server",
    413: "too_long",
    425: "server",
    429: "rate_limited",
    501: "unsupported",
    504: "timeout",
}
_TOO_LONG = re.compile(
    r"context.?(?:length|window|size)|maximum.{0,20}(?:length|tokens)|max_model_len|too many tokens"
    r"|(?:prompt|input|message)s? (?:is|are) too long|reduce the length|exceeds? the (?:model|max)",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"content.?filter|content management|moderation|flagged|policy.?violation", re.I
)
_LARGER_THAN_RATE = re.compile(r"request too large", re.IGNORECASE)
_NO_CREDIT = re.compile(r"insufficient.?(?:quota|funds|credit)|billing|credit balance", re.I)
_CAUSES = ("os_error", "certificate_error", "__cause__")
"""Attributes of aiohttp errors that contain the operating system's error."""
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE")
_NO_NAME = {getattr(socket, name) for name in ("EAI_NONAME", "EAI_NODATA") if hasattr(socket, name)}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, None: 1.0}
_RESETS = (
    *("x-ratelimit-reset-requests", "x-ratelimit-reset-tokens", "ratelimit-reset"),
    *("anthropic-ratelimit-requests-reset", "anthropic-ratelimit-tokens-reset"),
)
_QUOTAS = (
    tuple(f"x-ratelimit-{name}-requests" for name in ("limit", "remaining", "reset")),
    tuple(f"anthropic-ratelimit-requests-{name}" for name in ("limit", "remaining", "reset")),
)


class EndpointError(ModelError):
    """`ModelError` that records the retry delay requested by the server."""

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        status: int | None = None,
        wait_s: float | None = None,
    ) -> None:
        super().__init__(message, kind=kind, status=status)
        self.wait_s = wait_s


def can_heal(error: BaseException, *, known: bool) -> bool:
    """Return whether a failed connection attempt may succeed later.

    Certificate and protocol errors are permanent, and so are unknown host names, unless the host is
    ``known`` to have answered before.

    Examples
    --------
    >>> can_heal(ConnectionRefusedError(), known=False)
    True
    >>> can_heal(socket.gaierror(socket.EAI_NONAME, "Name or service not known"), known=False)
    False
    """
    causes = [error, *(getattr(error, name, None) for name in _CAUSES)]
    if any(isinstance(one, ssl.SSLCertVerificationError) for one in causes):
        return False
    if any(getattr(one, "reason", None) in _NO_TLS for one in causes):
        return False
    codes = {one.errno for one in causes if isinstance(one, socket.gaierror)}
    return known or not codes & _NO_NAME


def one_line(text: str, secrets: Iterable[str] = ()) -> str:
    """Shorten a server's message to one line without secrets."""
    text = " ".join(text.split())
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    text = str(redact_secrets(text))
    return text if len(text) <= MAX_MESSAGE else f"{text[: MAX_MESSAGE - 1]}…"


def without_secrets(payload: Any, secrets: Iterable[str]) -> Any:
    """Remove secrets from a decoded response, since some servers echo request headers.

    Secrets that are common words or numbers are not removed, since they may occur in any answer.
    """
    telling = [secret for secret in secrets if _is_telling(secret)]

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            for secret in telling:
                value = value.replace(secret, REDACTED)
            return value
        if isinstance(value, list):
            return [clean(inner) for inner in value]
        if isinstance(value, dict):
            return {key: clean(inner) for key, inner in value.items()}
        return value

    return clean(payload) if telling else payload


def _is_telling(secret: str) -> bool:
    """Return whether a secret is distinctive, unlike numbers and words such as "EMPTY"."""
    mixed = any(map(str.isdigit, secret)) and any(map(str.isalpha, secret))
    return len(secret) >= (8 if mixed else 16) and not secret.isdecimal()


def _words(payload: Any) -> tuple[str, str]:
    """Extract the message and code of an error from a body in any of the common formats."""
    if isinstance(payload, Mapping):
        error = payload.get("error", payload)
        if isinstance(error, Mapping):
            message = error.get("message") or error.get("detail") or error.get("msg") or ""
            code = f"{error.get('code') or ''} {error.get('type') or ''}".strip()
            return message if isinstance(message, str) else json.dumps(message), code
        return str(error), ""
    return str(payload) if payload else "", ""


def _body_words(body: bytes) -> tuple[str, str]:
    try:
        return _words(json.loads(body))
    except (ValueError, RecursionError):
        text = body[:4096].decode("utf-8", "replace")
        return re.sub(r"<[^>]*>", " ", text), ""


def _kind(status: int, message: str, code: str) -> str:
    text = f"{code} {message}"
    if status == 429 and _NO_CREDIT.search(text):
        return "auth"
    if status == 429 and _LARGER_THAN_RATE.search(text):
        return "too_long"  # larger than the per-minute token limit: never accepted
    if status in (400, 403, 422) and _REFUSED.search(text):
        return "refused"
    if status in (400, 413, 422, 500) and _TOO_LONG.search(text):
        return "too_long"
    if status in _KINDS:
        return _KINDS[status]
    return "server" if status >= 500 else "bad_request"


def from_status(
    where: str,
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    secrets: Iterable[str] = (),
    hint: str = "",
) -> EndpointError:
    """Convert an HTTP status from 300 to 599 to an error.

    The message names ``where`` (host and path) and contains no secrets; ``hint`` is added if the
    server requires a key. Header names are in lower case.
    """
    if 300 <= status < 400:
        target = one_line(headers.get("location", "another address"), secrets)
        return EndpointError(
            f"{where} redirects to {target}, but redirects are not followed; set `base_url` to "
            f"that address",
            kind="not_found",
            status=status,
        )
    message, code = _body_words(body)
    kind = _kind(status, message, code)
    words = one_line(message or code or "no message", secrets)
    if kind == "auth" and hint:
        words = f"{words} ({hint})"
    return EndpointError(
        f"{where} returned status {status}: {words}",
        kind=kind,
        status=status,
        wait_s=retry_after(headers) if kind in ModelError.RETRYABLE else None,
    )


def from_body(where: str, payload: Mapping[str, Any], secrets: Iterable[str] = ()) -> EndpointError:
    """Convert the error in a response with status 200, as sent by some gateways."""
    message, code = _words(payload)
    error = payload.get("error")
    status = error.get("code") if isinstance(error, Mapping) else None
    known = isinstance(status, int) and 400 <= status < 600
    kind = _kind(status if known else 500, message, code)  # type: ignore[arg-type]
    return EndpointError(
        f"{where} returned status 200 with an error: {one_line(message or code, secrets)}",
        kind=kind,
        status=status if known else 200,
    )


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the retry delay in seconds from any of the common headers, or None.

    Header names are in lower case; a date is compared with ``now``.

    Examples
    --------
    >>> retry_after({"retry-after": "2"}), retry_after({"x-ratelimit-reset-tokens": "1m30s"})
    (2.0, 90.0)
    """
    if text := headers.get("retry-after-ms"):
        return _span(f"{text}ms")
    if text := headers.get("retry-after"):
        seconds = _span(text)
        return seconds if seconds is not None else _until(text, now)
    stated = quota(headers, now)
    if stated is not None and stated[1] < 1.0:  # empty until the bucket refills by one request
        return stated[2] / max(1.0, stated[0] - stated[1])
    resets = (_reset(headers.get(name, ""), now) for name in _RESETS)
    spans = [span for span in resets if span is not None]
    # Ignore long delays: a distant reset means that the budget is full, not usable, by then.
    return max(spans) if spans and max(spans) <= 120.0 else None


def quota(
    headers: Mapping[str, str], now: datetime | None = None
) -> tuple[float, float, float] | None:
    """Return the request limit, the remaining requests, and the seconds until the limit is reset.

    Examples
    --------
    >>> names = ("limit", "remaining", "reset")
    >>> headers = dict(zip((f"x-ratelimit-{name}-requests" for name in names), ("60", "59", "1s")))
    >>> quota(headers)
    (60.0, 59.0, 1.0)
    """
    for names in _QUOTAS:
        if names[0] in headers:
            limit, left, reset = (headers.get(name, "") for name in names)
            found = _span(limit), _span(left), _reset(reset, now)
            if None not in found:
                return found  # type: ignore[return-value]
    return None


def _reset(text: str, now: datetime | None) -> float | None:
    """Parse the time until a reset, given as a duration or an ISO date."""
    span = _span(text)
    if span is not None or "T" not in text:
        return span
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return _from_now(moment, now)


def _span(text: str) -> float | None:
    """Convert a duration such as "2", "1.5s" or "6m0s" to seconds; return None if it is invalid."""
    pieces = _SPAN.findall(text)
    if not pieces or "".join(number + unit for number, unit in pieces) != text.strip():
        return None
    return sum(float(number) * _SECONDS[unit or None] for number, unit in pieces)


def _until(text: str, now: datetime | None) -> float | None:
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    return _from_now(moment, now)


def _from_now(moment: datetime, now: datetime | None) -> float:
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())
