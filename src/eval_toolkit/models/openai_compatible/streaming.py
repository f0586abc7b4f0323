"""Assembly of answers streamed as server-sent events."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from eval_toolkit.models.openai_compatible.wire import garbled

DONE = b"[DONE]"
"""Data of the final event that some services send."""
_LINE_END = re.compile(rb"\r\n|\n|\r")


class Streamed(dict[str, Any]):
    """Response assembled from events."""

    first_token_at: float | None = None
    """Time of the first text, as measured by `time.perf_counter`."""


class Events(Protocol):
    """Base class of objects that assemble a streamed response."""

    def add(self, event: Mapping[str, Any]) -> bool:
        """Process the next event; return whether it contains answer or reasoning text."""
        ...

    def whole(self) -> Streamed:
        """Return the response in non-streamed form; raise an error if it is incomplete."""
        ...


class EventReader:
    r"""Split a stream into the data of its events.

    Examples
    --------
    >>> reader = EventReader()
    >>> list(reader.feed(b": a comment\n\nevent: ping\ndata: 1\nda")), list(reader.feed(b"ta: 2\n\n"))
    ([], [b'1\n2'])
    """

    __slots__ = ("_data", "_rest")

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        """Pieces of the incomplete line received so far."""
        self._data: list[bytes] = []

    def feed(self, part: bytes) -> Iterator[bytes]:
        """Yield the data of each event that a part of the stream completes."""
        if b"\n" not in part and b"\r" not in part:
            self._rest.append(part)
            return
        text = b"".join((*self._rest, part))
        held = text.endswith(b"\r")  # may be the first half of a line end
        lines = _LINE_END.split(text[:-1] if held else text)
        self._rest = [lines.pop() + (b"\r" if held else b"")]
        for line in lines:
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
            elif not line and self._data:
                data, self._data = b"\n".join(self._data), []
                yield data


class ChatEvents:
    """Assemble events of OpenAI's chat and completions endpoints."""

    def __init__(self) -> None:
        self._whole = Streamed()
        self._fields: dict[str, list[Any]] = {}
        """Pieces of each message field, or of the text, received so far."""
        self._logprobs: dict[str, list[Any]] = {}
        self._reason: str | None = None
        self._is_text = False

    def add(self, event: Mapping[str, Any]) -> bool:
        """Process the next event; return whether it contains text."""
        self._whole.update({k: v for k, v in event.items() if k != "choices" and v is not None})
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            return False
        self._reason = choice.get("finish_reason") or self._reason
        logprobs = choice.get("logprobs")
        for name, rows in (logprobs or {}).items():
            if isinstance(rows, list):
                self._logprobs.setdefault(name, []).extend(rows)
        self._is_text = self._is_text or "text" in choice
        delta = {"text": choice["text"]} if "text" in choice else choice.get("delta")
        items = [item for item in (delta or {}).items() if isinstance(item[1], (str, list))]
        for name, piece in items:
            self._fields.setdefault(name, []).append(piece)
        return any(piece for name, piece in items if name not in ("role", "tool_calls"))

    def whole(self) -> Streamed:
        """Return the assembled response."""
        if self._reason is None:
            raise garbled("no end event; the stream stopped early")
        fields = {name: _joined(pieces) for name, pieces in self._fields.items()}
        choice = {"index": 0, "finish_reason": self._reason}
        choice |= fields if self._is_text else {"message": {"content": None, **fields}}
        if self._logprobs:
            choice["logprobs"] = self._logprobs
        self._whole["choices"] = [choice]
        return self._whole


def _joined(pieces: list[Any]) -> Any:
    if all(isinstance(piece, str) for piece in pieces):
        return "".join(pieces)
    return [one for piece in pieces for one in (piece if isinstance(piece, list) else [piece])]
