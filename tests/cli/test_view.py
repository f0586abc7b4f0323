"""``eval-toolkit view``: the address it prints, how it ends, and what it refuses."""

import contextlib
import http.client
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.support.viewer_driving import plain_run

from eval_toolkit.cli.view import view

Command = Callable[..., tuple[int, str, str]]


def test_prints_an_address_that_answers_and_ends_with_130(tmp_path: Path) -> None:
    plain_run(tmp_path / "r1", "r1", 0.5)
    arguments = [sys.executable, "-m", "eval_toolkit", "view", str(tmp_path), "--no-browser"]
    process = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    )
    try:
        assert process.stdout is not None
        address = urlsplit(process.stdout.readline().strip())
        assert address.hostname == "127.0.0.1"
        connection = http.client.HTTPConnection(address.netloc, timeout=600)
        connection.request("GET", f"/?{address.query}")
        entry = connection.getresponse()
        entry.read()
        assert entry.status == 303
        cookie = str(entry.getheader("set-cookie")).partition(";")[0]
        connection.request("GET", "/", headers={"Cookie": cookie})
        page = connection.getresponse()
        assert b"r1" in page.read()
        connection.close()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=600)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert out == ""
    assert [line for line in err.splitlines() if line] == [
        "press Ctrl-C to stop the viewer",
        "interrupted",
    ]
    assert address.query.removeprefix("token=") not in err


def test_a_missing_folder_is_one_line(command: Command, tmp_path: Path) -> None:
    code, out, err = command("view", tmp_path / "none", "--no-browser")
    assert (code, out) == (2, "")
    assert err == f"error: {tmp_path / 'none'}: no such folder\n"


def test_a_taken_port_is_one_line(command: Command, tmp_path: Path) -> None:
    with contextlib.closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, out, err = command("view", tmp_path, "--no-browser", "--port", port)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert f"port {port} of 127.0.0.1" in err
    assert "--port" in err


def test_a_missing_extra_is_named(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    code, out, err = command("view", tmp_path, "--no-browser")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "eval-toolkit[view]" in err


def test_the_list_of_commands_says_what_its_help_says() -> None:
    from eval_toolkit.cli.main import _COMMANDS

    assert view.help is not None
    assert _COMMANDS["view"][1] == view.help.splitlines()[0]
