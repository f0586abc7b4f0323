"""Length-prefixed JSON messages between caller and worker."""

import json
import os
import struct
from collections.abc import Callable
from typing import Any

MOST = 256 * 1024 * 1024
"""Maximum size of a message in bytes."""
_LENGTH = struct.Struct("!I")
_AT_ONCE = 1 << 20
_write, _read = os.write, os.read
"""References saved before a program can replace them."""


inbox = 0
"""File descriptor on which the worker receives messages."""


def read_apart() -> Any:
    """Read the message that follows a call from a fork, so that the worker never sees it."""
    return read(inbox)


def packed(message: Any) -> bytes:
    """Return an encoded message; raise ValueError or TypeError if it cannot be encoded."""
    body = json.dumps(message).encode("ascii")
    if len(body) > MOST:
        raise ValueError(f"a message of {len(body)} bytes is too long")
    return _LENGTH.pack(len(body)) + body


def send(stream: int, message: bytes) -> None:
    """Write a message encoded by `packed` to a pipe."""
    rest = memoryview(message)
    while rest:
        rest = rest[_write(stream, rest) :]


def write(stream: int, message: Any) -> None:
    """Write a message to a pipe; raise before writing if it is not JSON."""
    send(stream, packed(message))


def read(stream: int, wait: Callable[[], None] = lambda: None) -> Any:
    """Read the next message from a pipe.

    ``wait`` is called before every read and may raise. Raises EOFError if the other side has closed
    the pipe, ValueError if the data is invalid.
    """
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size, wait))
    if length > MOST:
        raise ValueError(f"a message of {length} bytes is too long")
    return json.loads(_exactly(stream, length, wait))


def _exactly(stream: int, n: int, wait: Callable[[], None]) -> bytes:
    parts = []
    while n:
        wait()
        part = _read(stream, min(n, _AT_ONCE))
        if not part:
            raise EOFError("the pipe is closed")
        parts.append(part)
        n -= len(part)
    return b"".join(parts)
