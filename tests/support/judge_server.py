"""Loopback server for target and judge models, and a task for it."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from eval_toolkit.cli import main

Command = Callable[..., tuple[int, str, str]]
JUDGE = "judge{model=openai:judge}"
ROWS = [{"q": "2 + 2?", "a": "4"}, {"q": "3 + 3?", "a": "6"}]


class Server:
    """Loopback server, only below /v1; judge models answer "yes", other models "4"."""

    def __init__(self) -> None:
        asked: list[dict[str, Any]] = []
        usage: dict[str, Any] = {"prompt_tokens": 10, "completion_tokens": 2}

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                found = self.path == "/v1/chat/completions"
                if found:
                    asked.append({**body, "key": self.headers.get("Authorization")})
                said = "yes" if body["model"].startswith("judge") else "4"
                message = {"role": "assistant", "content": said}
                content = {"choices": [{"index": 0, "message": message}], "usage": usage}
                data = json.dumps(content if found else {"error": {"message": "no"}}).encode()
                self.send_response(200 if found else 404)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self.asked = asked
        self.usage = usage
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.root = f"http://127.0.0.1:{self.http.server_address[1]}"
        self.url = f"{self.root}/v1"

    @property
    def models(self) -> set[str]:
        return {one["model"] for one in self.asked}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "EVAL_TOOLKIT_HOSTS"):
        monkeypatch.delenv(name, raising=False)
    made = Server()
    threading.Thread(target=made.http.serve_forever, daemon=True).start()
    yield made
    made.http.shutdown()
    made.http.server_close()


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*args: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main([str(arg) for arg in args])
        assert isinstance(caught.value.code, int)
        return caught.value.code, *capsys.readouterr()

    return run


@pytest.fixture
def quiz(tmp_path: Path) -> Path:
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    (tmp_path / "rows.jsonl").write_text(lines, "utf-8")
    path = tmp_path / "quiz.toml"
    text = (
        '[task]\nname = "quiz"\ndata = "rows.jsonl"\n[prompt]\ninstruction = "{q}"\nanswer = "a"\n'
    )
    path.write_text(text, "utf-8")
    return path
