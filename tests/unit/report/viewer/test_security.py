"""Who is shown something, and who is refused."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.viewer_driving import PORT, TOKEN, Asking, plain_run

from eval_toolkit.report.viewer.security import Guard, new_token, session_of

HEADERS = (
    "content-security-policy",
    "x-content-type-options",
    "x-frame-options",
    "referrer-policy",
    "cross-origin-resource-policy",
    "cache-control",
)


@pytest.mark.parametrize(
    "hosts",
    [
        (),
        (b"",),
        (b"evil.example",),
        (f"evil.example:{PORT}".encode(),),
        (b"127.0.0.1",),
        (b"127.0.0.1:1",),
        (f"127.0.0.1.evil.example:{PORT}".encode(),),
        (f"localhost.evil.example:{PORT}".encode(),),
        (f"user@127.0.0.1:{PORT}".encode(),),
        (f"[::1]:{PORT}".encode(),),
        (f"127.0.0.1:{PORT}".encode(), b"evil.example"),
    ],
)
def test_foreign_host_is_refused(ask: Asking, hosts: tuple[bytes, ...]) -> None:
    answer = ask("/", hosts=hosts)
    assert answer.status == 421
    assert answer.text.count("\n") == 1
    assert "127.0.0.1" in answer.text


@pytest.mark.parametrize("host", [f"127.0.0.1:{PORT}", f"localhost:{PORT}", f"LOCALHOST:{PORT}"])
def test_own_names_are_answered(ask: Asking, host: str) -> None:
    assert ask("/", hosts=(host.encode(),)).status == 200


@pytest.mark.parametrize(
    "cookie",
    [
        None,
        b"",
        b"eval_toolkit_view_8123=",
        b"eval_toolkit_view_8123=wrong",
        f"eval_toolkit_view_8123={TOKEN}".encode(),
        f"eval_toolkit_view_8123={session_of(TOKEN)}x".encode(),
        f"eval_toolkit_view_8124={session_of(TOKEN)}".encode(),
        f"token={TOKEN}".encode(),
        b"eval_toolkit_view_8123=\xff\xfe",
    ],
)
@pytest.mark.parametrize("address", ["/", "/static/style.css", "/runs/x", "/nothing"])
def test_without_the_token_nothing_is_shown(
    ask: Asking, cookie: bytes | None, address: str
) -> None:
    answer = ask(address, cookie=cookie)
    assert answer.status == 403
    assert answer.headers["content-type"].startswith("text/plain")
    assert TOKEN not in answer.text


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=60))
def test_no_other_cookie_opens_it(shown: bytes) -> None:
    reached = []

    async def app(*_: Any) -> None:
        reached.append(1)

    asking = Asking(Guard(app, TOKEN))
    answer = asking("/", cookie=f"eval_toolkit_view_{PORT}=".encode() + shown + b"x")
    assert answer.status == 403
    assert not reached


def test_the_address_with_the_token_sets_a_cookie_and_leads_away_from_it(ask: Asking) -> None:
    answer = ask(f"/?token={TOKEN}&q=a%26b", cookie=None)
    assert answer.status == 303
    assert answer.headers["location"] == "/?q=a%26b"
    assert TOKEN not in answer.text + str(answer.headers)  # nor in what every port is sent
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert ask("/", cookie=cookie.partition(";")[0].encode()).status == 200


@pytest.mark.parametrize("site", [b"cross-site", b"same-site"])
def test_who_was_led_here_is_led_on_by_our_own_page(ask: Asking, site: bytes) -> None:
    # Browsers follow redirects of other sites without a cookie that is SameSite=Strict.
    more = ((b"sec-fetch-site", site),)
    answer = ask(f"/?token={TOKEN}&q=a%26b&p=1", cookie=None, more=more)
    assert answer.status == 200
    assert answer.headers["refresh"] == "0; url=/?q=a%26b&p=1"
    assert 'href="/?q=a%26b&amp;p=1"' in answer.text
    assert answer.headers["set-cookie"].startswith(f"eval_toolkit_view_{PORT}={session_of(TOKEN)};")
    assert ask("/?token=wrong", cookie=None, more=more).status == 403


@pytest.mark.parametrize("given_token", ["", "wrong", TOKEN[:-1], TOKEN + "x", "%00", "%ff"])
def test_a_wrong_token_in_the_address_is_refused_even_with_the_cookie(
    ask: Asking, given_token: str
) -> None:
    assert ask(f"/?token={given_token}").status == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_only_reading_is_allowed(ask: Asking, method: str) -> None:
    answer = ask("/", method=method)
    assert answer.status == 405
    assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    ("address", "cookie"),
    [("/", True), ("/nothing", True), ("/", False), ("/runs/none", True)],
)
def test_every_answer_has_the_headers(ask: Asking, address: str, cookie: bool) -> None:
    answer = ask(address) if cookie else ask(address, cookie=None)
    assert set(HEADERS) <= set(answer.headers)
    assert answer.headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in answer.headers
    script = answer.headers["content-security-policy"].split("script-src ")[1].split(";")[0]
    assert script == "'self'"


def test_assets_may_be_kept_by_the_browser(ask: Asking) -> None:
    answer = ask("/static/style.css")
    assert answer.status == 200
    assert answer.headers["cache-control"].startswith("private, max-age=")
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "place",
    [
        "..",
        "../runs",
        "%2e%2e",
        "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "../../../../etc/passwd",
        "/etc/passwd",
        "a%00b",
        "manifest.json",
        "a/manifest.json",
        "inner/../inner",
        "C:%5Cwindows",
        "~",
    ],
)
@pytest.mark.parametrize("before", ["/runs/", "/static/", "/"])
def test_paths_find_nothing(ask: Asking, runs_dir: Path, place: str, before: str) -> None:
    plain_run(runs_dir / "inner", "inner", 0.5)
    for address in (
        f"{before}{place}",
        f"{before}{place}/samples",
        f"{before}{place}/sample?row=0",
    ):
        answer = ask(address)
        assert answer.status == 404, address
        assert "root:" not in answer.text
        assert "schema_version" not in answer.text


def test_web_sockets_are_closed() -> None:
    sent = []

    async def app(*_: Any) -> None:
        raise AssertionError("reached")

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(Guard(app, TOKEN)({"type": "websocket"}, lambda: None, send))  # type: ignore[arg-type,return-value]
    assert sent == [{"type": "websocket.close", "code": 1008}]


def test_tokens_are_long_and_never_the_same() -> None:
    made = {new_token() for _ in range(100)}
    assert len(made) == 100
    assert min(map(len, made)) >= 43  # 32 bytes in base64


def test_an_unexpected_error_is_one_page_without_a_trace(
    ask: Asking, runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from eval_toolkit.report.viewer import runs_page

    def broken(*_: Any) -> Any:
        raise RuntimeError("<b>broken</b>")

    monkeypatch.setattr(runs_page, "_sorted", broken)
    answer = ask("/")
    assert answer.status == 500
    assert "unexpected RuntimeError: <b>broken</b>" in answer.words
    assert "<b>broken" not in answer.text
    assert "Traceback" not in answer.text
    assert set(HEADERS) <= set(answer.headers)
