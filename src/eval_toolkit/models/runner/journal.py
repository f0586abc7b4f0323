"""Journal of a run with one line per finished request.

A request is finished once its line is written. Lines are written immediately and synced to disk
twice a second; a line that was truncated by a power failure is ignored.
"""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eval_toolkit._internal.files import (
    FileParts,
    Span,
    file_mode,
    limits,
    lines_of,
    open_for_appending,
    open_regular,
)
from eval_toolkit._internal.redaction import redact_secrets
from eval_toolkit.errors import ArtifactError
from eval_toolkit.models._background import Background
from eval_toolkit.models.payloads import to_json
from eval_toolkit.models.runner.entries import (
    Entries,
    Entry,
    entry_of,
    journalled_entry,
)
from eval_toolkit.models.runner.lines import (
    JOURNAL_VERSION,
    check_version,
    parsed_line,
    sealed_line,
)

_TAIL = 1 << 16


class Journal:
    """Append-only file of finished requests.

    Parameters
    ----------
    path : path
        Path of the file, which is created by the first `append`. Existing content is kept.

    Examples
    --------
    >>> import tempfile
    >>> journal = Journal(tempfile.mkdtemp() + "/journal.jsonl")
    >>> line = journal.append(Entry("q1", 1, "", "ab", response={"text": "4"}))
    >>> journal.close()
    >>> journal.read()["q1", 1, ""].response
    {'text': '4'}
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._head: dict[str, Any] = {"journal": JOURNAL_VERSION}
        self._file: int | None = None
        self._seen: tuple[tuple[int, int, int], Entries] | None = None
        """State of the file when it was last read, and its entries at that time."""
        self._parts: FileParts | None = None
        self._syncing = Background(self._sync)

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def read(self) -> Entries:
        """Return the last finished request for each key.

        Returns no entries if there is no file. Raises `ArtifactError` if the file is not a journal
        or has a later version.
        """
        entries = Entries()
        try:
            with open_regular(self.path) as stream:
                stat = os.fstat(stream.fileno())
                state = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
                if self._seen is not None and self._seen[0] == state:
                    return self._seen[1]
                at, parts = 0, FileParts(self.path) if stat.st_size > limits.HELD_BYTES else None
                for line in lines_of(stream, self.path):
                    kept = None if parts is None else journalled_entry(line, parts, at)
                    if kept is not None:
                        entries[kept.key] = kept
                    else:
                        self._take(line, entries)
                    at += len(line)
        except FileNotFoundError:
            return entries
        except OSError as error:
            raise ArtifactError(
                f"{self.path}: the journal cannot be read: {error.strerror or error}"
            ) from error
        if entries.n_garbled > 1 and not entries.head and not entries:
            raise ArtifactError(f"{self.path}: not a journal; none of its lines can be read")
        self._seen = state, entries
        return entries

    def _take(self, line: bytes, entries: Entries) -> None:
        found = parsed_line(line)
        if isinstance(found, dict) and "journal" in found:
            check_version(self.path, found["journal"])
            entries.head = found
            return
        entry = entry_of(found)
        if entry is not None:
            entries[entry.key] = entry
        elif line.endswith(b"\n") and line.strip():
            entries.n_garbled += 1

    def describe(self, **head: Any) -> None:
        """Set additional content for the first line before it is written."""
        self._head |= redact_secrets(head)

    def append(self, entry: Entry) -> Span:
        """Append an entry, and return its position; it is synced to disk within half a second.

        If writing fails, earlier entries remain readable.
        """
        line = entry.line()
        with self._refusals():
            if self._file is None:
                self._file = self._opened()
            _write_whole(self._file, line)
            self._syncing.wake()
            return os.lseek(self._file, 0, os.SEEK_CUR) - len(line), len(line)

    @property
    def parts(self) -> FileParts:
        """Lines of the journal, read by position."""
        if self._parts is None:
            self._parts = FileParts(self.path)
        return self._parts

    def close(self) -> None:
        """Sync and close the file; a later `append` opens it again."""
        file = self._file
        if file is None:
            return
        with self._refusals():
            try:
                self._syncing.close()
            finally:
                self._file = None
                os.close(file)

    def _sync(self) -> None:
        if self._file is not None:
            os.fsync(self._file)

    def _opened(self) -> int:
        """Open the file at the end of the last complete line."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = open_for_appending(self.path, file_mode())
        try:
            if _mend_last_line(file) == 0:
                _write_whole(file, sealed_line(to_json(self._head)))
        except BaseException:
            os.close(file)
            raise
        return file

    @contextlib.contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ArtifactError(
                f"{self.path}: the journal cannot be written: {error.strerror or error}; "
                "finished requests are kept; repeat the run to resume"
            ) from error


def _write_whole(file: int, data: bytes) -> None:
    """Write all bytes; on failure, truncate the file and raise the error."""
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(file, left) :]
    except BaseException:
        with contextlib.suppress(OSError):
            os.ftruncate(file, os.fstat(file).st_size - (len(data) - len(left)))
        raise


def _mend_last_line(file: int) -> int:
    """Remove an incomplete last line, or terminate a complete one; return the file size."""
    size = os.fstat(file).st_size
    tail, start = b"", size
    while start and b"\n" not in tail:
        if len(tail) > limits.LINE_BYTES:  # not written by this library
            raise OSError(errno.EFBIG, "its last line is too long")
        step = min(start, max(_TAIL, len(tail)))
        start -= step
        # Windows has no pread; seeking is harmless, since writes always append.
        os.lseek(file, start, os.SEEK_SET)
        tail = os.read(file, step) + tail
    torn = tail[tail.rfind(b"\n") + 1 :]
    if not torn:
        return size
    if isinstance(parsed_line(torn), dict):
        _write_whole(file, b"\n")
        return size + 1
    os.ftruncate(file, size - len(torn))
    return size - len(torn)
