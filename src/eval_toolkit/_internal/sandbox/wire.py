"""What caller and worker send each other: JSON with its length before it."""

import json
import os
import struct
from collections.abc import Callable
from typing import Any

__all__ = ["MOST", "packed", "read", "read_apart", "send", "write"]

MOST = 256 * 1024 * 1024
"""Bytes of the longest message."""
_LENGTH = struct.Struct("!I")
_AT_ONCE = 1 << 20
_write, _read = os.write, os.read
"""Taken before a program can put its own in their place."""


inbox = 0
"""Where a worker is spoken to."""


def read_apart() -> Any:
    """Return the message that follows a call, in a fork of the worker: the worker never has it."""
    return read(inbox)


def packed(message: Any) -> bytes:
    """Return a message as it is sent; ValueError or TypeError where it cannot be."""
    body = json.dumps(message).encode("ascii")
    if len(body) > MOST:
        raise ValueError(f"a message of {len(body)} bytes is too long")
    return _LENGTH.pack(len(body)) + body


def send(stream: int, message: bytes) -> None:
    """Write what `packed` returned to a pipe."""
    rest = memoryview(message)
    while rest:
        rest = rest[_write(stream, rest) :]


def write(stream: int, message: Any) -> None:
    """Write a message to a pipe; whatever is no JSON raises before anything is written."""
    send(stream, packed(message))


def read(stream: int, wait: Callable[[], None] = lambda: None) -> Any:
    """Return the next message of a pipe.

    Parameters
    ----------
    stream : int
        The pipe.
    wait : callable
        Called before every read; may raise.

    Raises
    ------
    EOFError
        If the other side is gone.
    ValueError
        If what comes is no message.
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
