"""What a status, a body and its headers are taken for."""

from datetime import UTC, datetime

import pytest
from tests.support.each import each

from eval_toolkit.models.openai_compatible.failures import (
    MAX_MESSAGE,
    from_body,
    from_status,
    one_line,
    retry_after,
)

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@each(
    ("status", "message", "kind"),
    [
        (400, "temperature must be a number", "bad_request"),
        (400, "This model's maximum context length is 8192 tokens", "too_long"),
        (400, "the request exceeds the available context size", "too_long"),
        (400, "Please reduce the length of the messages", "too_long"),
        (413, "Payload Too Large", "too_long"),
        (400, "content_filter triggered", "refused"),
        (403, "input was flagged by moderation", "refused"),
        (401, "no key", "auth"),
        (402, "pay first", "auth"),
        (403, "not for you", "auth"),
        (404, "The model `x` does not exist", "not_found"),
        (408, "slow", "timeout"),
        (422, "prompt: field required", "bad_request"),
        (429, "Rate limit reached", "rate_limited"),
        (
            429,
            "Request too large for m on tokens per min: Limit 30000, Requested 40000",
            "too_long",
        ),
        (429, "You exceeded your quota: insufficient_quota", "auth"),
        (500, "oops", "server"),
        (501, "logprobs are not implemented", "unsupported"),
        (503, "Loading model", "server"),
        (504, "upstream", "timeout"),
        (529, "overloaded", "server"),
        (418, "teapot", "bad_request"),
    ],
)
def test_the_kind_of_a_status(status: int, message: str, kind: str) -> None:
    body = f'{{"error": {{"message": "{message}"}}}}'.encode()
    error = from_status("host/v1/chat", status, {}, body)
    assert (error.kind, error.status) == (kind, status)
    assert str(error) == f"host/v1/chat returned status {status}: {message}"


@each(
    ("body", "words"),
    [
        (b'{"error": "short"}', "short"),
        (b'{"detail": "by FastAPI"}', "by FastAPI"),
        (b'{"message": "flat"}', "flat"),
        (b'{"detail": [{"msg": "a list"}]}', '[{"msg": "a list"}]'),
        (b"<html><h1>Bad\n gateway</h1></html>", "Bad gateway"),
        (b"", "no message"),
        (b"[1]", "[1]"),
        (b"\xff\xfe", "��"),
    ],
)
def test_the_words_of_many_bodies(body: bytes, words: str) -> None:
    assert str(from_status("h", 500, {}, body)) == f"h returned status 500: {words}"


def test_a_message_is_one_short_line_without_secrets() -> None:
    text = "key  hunter2hunter2 in\nline\ttwo, Bearer abcdefghijklmnop, " + "prompt " * 200
    line = one_line(text, ["hunter2hunter2"])
    assert "\n" not in line
    assert "hunter2" not in line
    assert "abcdefgh" not in line
    assert len(line) == MAX_MESSAGE


def test_a_key_hint_is_given_where_a_key_is_asked_for() -> None:
    assert str(from_status("h", 401, {}, b"", hint="set X")).endswith("(set X)")
    assert "set X" not in str(from_status("h", 500, {}, b"", hint="set X"))


def test_a_redirect_is_not_followed_and_says_where_it_goes() -> None:
    error = from_status("h", 308, {"location": "https://new.example/v1"}, b"")
    assert error.kind == "not_found"
    assert "redirects to https://new.example/v1" in str(error)


@each(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "Sun, 01 Mar 2026 12:01:30 GMT"}, 90.0),
        ({"retry-after": "Sun, 01 Mar 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"x-ratelimit-reset-requests": "120ms", "x-ratelimit-reset-tokens": "6s"}, 6.0),
        ({"x-ratelimit-reset-requests": "1m1.5s"}, 61.5),
        ({"x-ratelimit-reset-requests": "23h"}, None),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == (seconds if seconds is None else pytest.approx(seconds))


def test_only_what_may_succeed_later_has_a_wait() -> None:
    assert from_status("h", 429, {"retry-after": "3"}, b"").wait_s == 3.0
    assert from_status("h", 401, {"retry-after": "3"}, b"").wait_s is None


@pytest.mark.parametrize(
    ("payload", "kind", "status"),
    [
        ({"error": {"message": "busy", "code": 502}}, "server", 502),
        ({"error": {"message": "slow down", "code": 429}}, "rate_limited", 429),
        ({"error": {"message": "odd", "code": "odd"}}, "server", 200),
        ({"error": "just words"}, "server", 200),
    ],
)
def test_an_error_that_came_with_status_200(
    payload: dict[str, object], kind: str, status: int
) -> None:
    error = from_body("h", payload)
    assert (error.kind, error.status) == (kind, status)
