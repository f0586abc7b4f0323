"""Temporary copies of standard input and workbooks, which cannot be read directly or repeatedly.

Copies are stored in a private temporary folder that is removed at exit. Messages name the original,
not the copy.
"""

import atexit
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from eval_toolkit._internal.files import limits
from eval_toolkit._internal.hashing import sha256_file
from eval_toolkit.errors import ArtifactError, InvalidInputError

STDIN = "-"
"""Path that denotes standard input."""
_SHOWN = "stdin"
_PIECE = 1 << 20
_HEAD = 1 << 16
_folders: dict[int, Path] = {}
"""Folder by process id, because a fork must not remove its parent's folder."""
_copies: dict[tuple[str, str], Path] = {}
"""Copies, by hash of the original and suffix of the copy."""
_stdin: list[tuple[object, Path]] = []
"""The stream that was read, and its copy."""


def _folder() -> Path:
    pid = os.getpid()
    if pid not in _folders:
        _folders[pid] = Path(tempfile.mkdtemp(prefix="eval-toolkit-"))
    return _folders[pid]


@atexit.register
def _remove() -> None:
    made = _folders.pop(os.getpid(), None)
    if made is not None:
        shutil.rmtree(made, ignore_errors=True)


def shown(path: str | Path) -> str:
    """Return the display name of a file, for messages and stored results.

    Examples
    --------
    >>> shown("preds.csv")
    'preds.csv'
    """
    return _SHOWN if _stdin and str(path) == str(_stdin[-1][1]) else str(path)


def named(message: str) -> str:
    """Replace the path of the copy in a message by the name of standard input."""
    return message.replace(str(_stdin[-1][1]), _SHOWN) if _stdin else message


def stdin_file(suffix_of: Callable[[bytes], str]) -> Path:
    """Return a file with the content of standard input, which is read once.

    ``suffix_of`` returns the format's suffix, given the first bytes. Terminals and input of more
    than `limits.UNPACKED_BYTES` are rejected.
    """
    stream = sys.stdin
    if _stdin and _stdin[-1][0] is stream:
        return _stdin[-1][1]
    raw: Any = getattr(stream, "buffer", None)
    if raw is None or stream.closed or stream.isatty():
        raise InvalidInputError("- reads standard input, but nothing is piped into it")
    try:
        path = _copied_stream(raw, suffix_of)
    except OSError as error:
        raise ArtifactError(f"{_SHOWN}: cannot be read: {error.strerror or error}") from error
    _stdin[:] = [(stream, path)]
    return path


def _copied_stream(raw: BinaryIO, suffix_of: Callable[[bytes], str]) -> Path:
    begin = raw.read(_HEAD)
    packed = begin.startswith(b"\x1f\x8b")
    suffix = suffix_of(_unpacked(begin) if packed else begin) + (".gz" if packed else "")
    path = Path(tempfile.mkdtemp(dir=_folder())) / f"{_SHOWN}{suffix}"
    n, piece = 0, begin
    with path.open("xb") as copy:
        while piece:
            n += len(piece)
            if n > limits.UNPACKED_BYTES:
                raise ArtifactError(
                    f"{_SHOWN}: contains more than {limits.UNPACKED_BYTES >> 30} GiB; write it to a file"
                )
            copy.write(piece)
            piece = raw.read(_PIECE)
    return path


def _unpacked(begin: bytes) -> bytes:
    try:
        return zlib.decompressobj(wbits=31).decompress(begin, _HEAD)
    except zlib.error:  # errors in the content are reported by the reader of the file
        return b""


def copied(path: Path, suffix: str, write: Callable[[Path, Path], None]) -> Path:
    """Return a copy of a file in another format; identical content is converted once.

    ``write(path, target)`` writes the copy.
    """
    key = sha256_file(path), suffix
    if key not in _copies or not _copies[key].is_file():
        target = Path(tempfile.mkdtemp(dir=_folder())) / f"copy{suffix}"
        write(path, target)
        _copies[key] = target
    return _copies[key]
