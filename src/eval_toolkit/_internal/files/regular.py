"""Non-blocking access to regular files, with size limits and gzip verification."""

import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from eval_toolkit._internal.files import limits
from eval_toolkit.errors import ArtifactError

_PIECE = 1 << 20
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def open_regular(path: str | Path) -> BinaryIO:
    """Open a regular file for reading; reject pipes, devices and other special files.

    Examples
    --------
    >>> import tempfile
    >>> open_regular(tempfile.mkdtemp())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    eval_toolkit.errors.ArtifactError: ...: cannot be read: a folder, not a regular file
    """
    try:
        # Opening a pipe without a writer would block.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _BINARY)
    except OSError:
        handle, kind = -1, _kind_at(path)  # sockets cannot be opened
        if not kind:
            raise
    else:
        kind = _kind(os.fstat(handle).st_mode)
    if kind:
        if handle >= 0:
            os.close(handle)
        raise ArtifactError(f"{path}: cannot be read: {kind}, not a regular file")
    return os.fdopen(handle, "rb")


_BINARY = getattr(os, "O_BINARY", 0)


def open_for_appending(path: str | Path, mode: int) -> int:
    """Open a regular file for reading and appending; create it if it is missing.

    Links are not followed, because a folder from an untrusted source could redirect the write.
    ``mode`` sets the permissions of a new file. The caller closes the returned descriptor.

    Examples
    --------
    >>> import tempfile
    >>> open_for_appending(tempfile.mkdtemp(), 0o600)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    eval_toolkit.errors.ArtifactError: ...: cannot be written: a folder, not a regular file
    """
    careful = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | _BINARY
    kind = "a link" if Path(path).is_symlink() else _kind_at(path)
    if not kind:
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | careful, mode)
        kind = _kind(os.fstat(handle).st_mode)
        if not kind:
            return handle
        os.close(handle)
    raise ArtifactError(f"{path}: cannot be written: {kind}, not a regular file")


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return ""
    return next((word for test, word in _KINDS if test(mode)), "something else")


def _kind_at(path: str | Path) -> str:
    try:
        return _kind(os.stat(path).st_mode)  # noqa: PTH116
    except OSError:
        return ""


def lines_of(stream: BinaryIO, path: str | Path) -> Iterator[bytes]:
    """Yield the remaining lines of a file, each of at most `limits.LINE_BYTES` bytes."""
    while line := stream.readline(limits.LINE_BYTES + 1):
        if len(line) > limits.LINE_BYTES:
            raise ArtifactError(
                f"{path}: a line is longer than the limit of {_bytes(limits.LINE_BYTES)}"
            )
        yield line


def read_regular(path: str | Path, *, most: int = limits.TEXT_BYTES) -> bytes:
    """Return the content of a regular file of at most ``most`` bytes.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.txt"
    >>> _ = path.write_bytes(b"12345")
    >>> read_regular(path)
    b'12345'
    """
    try:
        with open_regular(path) as stream:
            data = read_up_to(stream, most + 1)
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(data) > most:
        raise ArtifactError(f"{path}: the file is larger than the limit of {_bytes(most)}")
    return data


def read_up_to(stream: BinaryIO, most: int) -> bytes:
    """Return the rest of a file, at most ``most`` bytes, without preallocating memory.

    Examples
    --------
    >>> from io import BytesIO
    >>> read_up_to(BytesIO(b"12345"), 3)
    b'123'
    """
    parts, n = [], 0
    while n < most and (piece := stream.read(min(_PIECE, most - n))):
        parts.append(piece)
        n += len(piece)
    return b"".join(parts)


def is_gzip(path: str | Path) -> bool:
    """Return whether a file name has a gzip suffix."""
    return Path(path).suffix.lower() == ".gz"


def pieces_of(path: str | Path) -> Iterator[bytes]:
    """Yield the content of a regular file in chunks, decompressed if its name ends in ``.gz``.

    Length and checksum of gzip files are verified at the last chunk.
    """
    try:
        with open_regular(path) as raw:
            if is_gzip(path):
                yield from _gunzipped(raw, path)
            else:
                while piece := raw.read(_PIECE):
                    yield piece
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read: {error.strerror or error}") from error


def _gunzipped(raw: BinaryIO, path: str | Path) -> Iterator[bytes]:
    packed = os.fstat(raw.fileno()).st_size
    most = min(limits.UNPACKED_BYTES, max(limits.RATIO_FROM, limits.RATIO * packed))
    n = 0
    try:
        with gzip.GzipFile(fileobj=raw, mode="rb") as stream:
            while piece := stream.read(_PIECE):
                n += len(piece)
                if n > most:
                    raise ArtifactError(
                        f"{path}: decompresses from {_bytes(packed)} to more than {_bytes(most)}; if this "
                        "is intended, decompress it with gunzip and read the result"
                    )
                yield piece
    except EOFError:
        raise ArtifactError(
            f"{path}: the gzip stream is truncated: it ends at byte {packed}, after {n} decompressed bytes"
        ) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        if n == 0 and "Not a gzipped file" in str(error):
            raise ArtifactError(f"{path}: {error}") from None
        raise ArtifactError(
            f"{path}: the gzip stream is corrupt before byte {raw.tell()}, after {n} decompressed bytes: {error}"
        ) from None


def check_gzip(path: str | Path) -> None:
    """Raise `ArtifactError` if a ``.gz`` file is corrupt, truncated or expands beyond the limit.

    Intended for files whose reader does not verify the checksum. Other files are not checked.
    """
    if is_gzip(path):
        for _ in pieces_of(path):
            pass


def read_unpacked(path: str | Path, *, most: int = limits.TEXT_BYTES) -> bytes:
    """Return the content of a file of at most ``most`` bytes; gzip files are decompressed."""
    parts, n = [], 0
    for piece in pieces_of(path):
        parts.append(piece)
        n += len(piece)
        if n > most:
            raise ArtifactError(f"{path}: the content is larger than the limit of {_bytes(most)}")
    return b"".join(parts)


def _bytes(n: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= size:
            return f"{n / size:.3g} {unit}"
    return f"{n} bytes"
