"""Server-sent events: split anywhere, of any shape, and never more than the limit."""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.support.each import each

from eval_toolkit.errors import ModelError
from eval_toolkit.models import OpenAICompatible
from eval_toolkit.models.openai_compatible import transport
from eval_toolkit.models.openai_compatible.streaming import EventReader
from eval_toolkit.models.requests import GenerateRequest
from eval_toolkit.models.responses import RawCompletion

STREAM = (
    'data: {"a": "ü"}\n\n: comment\r\n\r\nevent: x\ndata: 1\ndata:2\n\rid: 7\n\ndata:  three\r\r'
)
EVENTS = ['{"a": "ü"}', "1\n2", " three"]


@each("end", ["", "data: unfinished"])
def test_events_are_the_same_wherever_the_stream_is_split(end: str) -> None:
    blob = (STREAM + "\n" + end).encode()
    expected = [event.encode() for event in EVENTS]
    for first in range(len(blob) + 1):
        for second in range(first, len(blob) + 1):
            reader = EventReader()
            parts = (blob[:first], blob[first:second], blob[second:])
            assert [data for part in parts for data in reader.feed(part)] == expected


def chunk(content: str | None = None, reason: str | None = None, **more: Any) -> dict[str, Any]:
    delta = {} if content is None else {"content": content}
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}], **more}


class Streaming:
    """A server that answers with a given stream, and counts the bytes it could write."""

    def __init__(self) -> None:
        self.parts: Iterator[bytes] = iter(())
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                try:
                    for part in outer.parts:
                        self.wfile.write(part)
                except OSError:
                    pass

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"

    def ask(self, *parts: Any, **options: Any) -> RawCompletion:
        self.parts = iter(
            [
                part if isinstance(part, bytes) else f"data: {json.dumps(part)}\n\n".encode()
                for part in parts
            ]
        )
        model = OpenAICompatible(
            "m", base_url=self.url, stream=True, max_tries=1, completions_for_text=False, **options
        )
        return asyncio.run(model.generate(GenerateRequest("Hello")))


@pytest.fixture
def server() -> Iterator[Streaming]:
    made = Streaming()
    threading.Thread(target=made.http.serve_forever, daemon=True).start()
    yield made
    made.http.shutdown()
    made.http.server_close()


def test_pieces_make_the_answer(server: Streaming) -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    answer = server.ask(
        chunk(""),
        chunk("Ro"),
        chunk("me"),
        chunk(reason="stop"),
        {"choices": [], "usage": usage},
        b"data: [DONE]\n\n",
    )
    assert (answer.text, answer.finish_reason) == ("Rome", "stop")
    assert (answer.prompt_tokens, answer.completion_tokens) == (3, 2)
    parts = [{"type": "text", "text": "Ro"}]
    listed = server.ask({"choices": [{"delta": {"content": parts}}]}, chunk(reason="stop"))
    assert listed.text == "Ro"


@each(
    ("parts", "words"),
    [
        ([b"data: no JSON\n\n"], "not JSON"),
        ([b"data: [1]\n\n"], "a list instead of a JSON object"),
        ([{"choices": [{"delta": "text"}]}], "cannot be parsed"),
        ([{"choices": [{"delta": {"content": "a"}, "logprobs": 5}]}], "cannot be parsed"),
        ([], "the stream stopped early"),
        ([chunk("Ro")], "the stream stopped early"),
        ([b"data: [DONE]\n\n"], "the stream stopped early"),
        ([chunk("Ro"), {"error": {"message": "upstream failed", "code": 502}}], "upstream failed"),
    ],
)
def test_streams_of_other_shapes_are_failures(
    server: Streaming, parts: list[Any], words: str
) -> None:
    with pytest.raises(ModelError) as caught:
        server.ask(*parts)
    assert words in str(caught.value)
    assert caught.value.retryable


def test_a_stream_is_read_up_to_the_limit(
    server: Streaming, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "ANSWER_BYTES", 1000)
    with pytest.raises(ModelError, match="returned more than 1000 bytes") as caught:
        server.ask(*[chunk("x" * 100) for _ in range(50)])
    assert caught.value.kind == "garbled"


def test_a_secret_that_two_events_share_is_removed(
    server: Streaming, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_KEY", "sk-Zx81kQ0pLm2Nv7Rt4Wy9")
    answer = server.ask(
        chunk("key sk-Zx81kQ0p"), chunk("Lm2Nv7Rt4Wy9"), chunk(reason="stop"), api_key_env="THE_KEY"
    )
    assert answer.text == "key [redacted]"
