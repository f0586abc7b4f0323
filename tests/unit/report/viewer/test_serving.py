"""A real server on loopback: what a browser and what a stranger gets from it."""

import contextlib
import http.client
import logging
import queue
import socket
import threading
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
import uvicorn
from tests.support.viewer_driving import TOKEN, plain_run

from eval_toolkit.errors import ArtifactError, InvalidInputError, InvalidTypeError
from eval_toolkit.report.viewer import create_app, serve, serving
from eval_toolkit.report.viewer.security import session_of


@pytest.fixture
def port(runs_dir: Path) -> Iterator[int]:
    """A server that runs as `serve` runs it, but in a thread and to an end."""
    plain_run(runs_dir / "r1", "r1", 0.5)
    with contextlib.closing(serving._listening(0)) as bound:
        server = serving._server(uvicorn, create_app(runs_dir, token=TOKEN))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        yield bound.getsockname()[1]
        server.should_exit = True
        thread.join()


def get(port: int, target: str, **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request("GET", target, headers=headers)
    answer = connection.getresponse()
    answer.body = answer.read()  # type: ignore[attr-defined]
    connection.close()
    return answer


def test_a_browser_is_let_in_by_the_address_and_stays_in_by_its_cookie(
    port: int, capfd: pytest.CaptureFixture[str]
) -> None:
    entry = get(port, f"/?token={TOKEN}")
    assert entry.status == 303
    cookie = str(entry.getheader("set-cookie")).partition(";")[0]
    page = get(port, str(entry.getheader("location")), Cookie=cookie)
    assert page.status == 200
    assert b"r1" in page.body  # type: ignore[attr-defined]
    assert page.getheader("server") is None
    out, err = capfd.readouterr()
    assert TOKEN not in out + err


def test_strangers_are_refused(port: int) -> None:
    cookie = f"eval_toolkit_view_{port}={session_of(TOKEN)}"
    assert get(port, "/").status == 403
    assert get(port, "/", Cookie=cookie, Host="evil.example").status == 421
    forwarded = {"X-Forwarded-Host": f"127.0.0.1:{port}", "X-Forwarded-For": "127.0.0.1"}
    assert get(port, "/", Cookie=cookie, Host="evil.example", **forwarded).status == 421
    assert get(port, "/", Cookie=cookie).status == 200


@pytest.mark.parametrize(
    "target", ["/../../etc/passwd", "//etc/passwd", "/runs/..%2f..%2fetc", "/%00"]
)
def test_raw_paths_find_nothing(port: int, target: str) -> None:
    answer = get(port, target, Cookie=f"eval_toolkit_view_{port}={session_of(TOKEN)}")
    assert answer.status == 404
    assert b"root:" not in answer.body  # type: ignore[attr-defined]


def test_listens_on_loopback_only(port: int) -> None:
    assert serving.ADDRESS == "127.0.0.1"
    with contextlib.closing(serving._listening(0)) as bound:
        assert bound.getsockname()[0] == "127.0.0.1"


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with contextlib.closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        told: list[str] = []
        with pytest.raises(InvalidInputError, match=f"port {port} of 127.0.0.1.*in use"):
            serve(tmp_path, port=port, started=told.append)
        assert told == []


def test_refuses_what_cannot_be_served(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="no such folder"):
        serve(tmp_path / "none")
    with pytest.raises(InvalidInputError, match="at most 65535"):
        serve(tmp_path, port=70_000)
    with pytest.raises(InvalidTypeError, match="port"):
        serve(tmp_path, port=1.5)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="`token` has 0 characters"):
        create_app(tmp_path, token="")
    with pytest.raises(InvalidInputError, match="at least 16"):
        create_app(tmp_path, token="x" * 15)


def test_no_command_line_of_a_browser_holds_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: queue.Queue[str] = queue.Queue()
    monkeypatch.setattr(webbrowser, "open", opened.put)
    with serving._opened(f"http://127.0.0.1:1/?token={TOKEN}"):
        address = opened.get(timeout=600)
        page = Path(url2pathname(urlsplit(address).path))
        assert TOKEN not in address
        assert f'url=http://127.0.0.1:1/?token={TOKEN}"' in page.read_text()
        assert page.parent.stat().st_mode & 0o077 == 0
    assert not page.parent.exists()


def test_the_logging_of_the_process_is_left_alone(tmp_path: Path) -> None:
    """uvicorn's own configuration closes all handlers, and some of those close their streams."""
    closed = []

    class Handler(logging.Handler):
        def close(self) -> None:
            closed.append(self)
            super().close()

    handler = Handler()
    serving._server(uvicorn, create_app(tmp_path, token=TOKEN))
    assert closed == []
    handler.close()
    assert closed == [handler]
