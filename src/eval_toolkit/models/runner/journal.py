"""Journal of a run with one line per finished request.

A request is finished once its line is written. Lines are written immediately and synced to disk
twice a second; a line that was truncated by a power failure is ignored.
"""

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_toolkit._internal.files import (
    file_mode,
    limits,
    lines_of,
    open_for_appending,
    open_regular,
)
from eval_toolkit._internal.redaction import redact_secrets
from eval_toolkit.errors import ArtifactError
from eval_toolkit.models._background import Background
from eval_toolkit.models.payloads import read_response, response_payload, to_json
from eval_toolkit.models.runner.jobs import Job, JobResult, Key
from eval_toolkit.models.runner.lines import (
    JOURNAL_VERSION,
    check_version,
    parsed_line,
    request_of,
    sealed_line,
)

_TAIL = 1 << 16


@dataclass(frozen=True, slots=True)
class Entry:
    """Finished request as stored in the journal.

    Parameters
    ----------
    unit_id, attempt, step
        Key of the job.
    request_hash : str
        Hash of request and model, which identifies the request.
    response : mapping, optional
        Answer as JSON types.
    usage : mapping, optional
        Tokens, cost and latency.
    error : mapping, optional
        Reason why there is no answer.

    Examples
    --------
    >>> Entry("q1", 1, "", "ab", response={"text": "4"}).ok
    True
    """

    unit_id: str
    attempt: int
    step: str
    request_hash: str
    response: Mapping[str, Any] | None = None
    usage: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None

    @property
    def key(self) -> Key:
        """Unit, attempt and step."""
        return (self.unit_id, self.attempt, self.step)

    @property
    def ok(self) -> bool:
        """Whether there is an answer."""
        return self.response is not None

    @classmethod
    def of(cls, outcome: JobResult) -> "Entry":
        """Create the entry for an outcome, with secrets removed from its error."""
        job, response, error = outcome.job, outcome.response, outcome.error
        return cls(
            *job.key,
            outcome.request_hash,
            response=None if response is None else response_payload(response, job.request),
            usage=None if response is None else response.usage.to_dict(),
            error=None if error is None else redact_secrets(error.to_dict()),
        )

    def answer(self, job: Job, request_hash: str) -> JobResult | None:
        """Return the outcome of a job if this entry contains a valid answer to its request."""
        if self.response is None or self.request_hash != request_hash:
            return None
        try:
            response = read_response(self.response, self.usage, job.request)
        except ValueError:
            return None
        return JobResult(job, response, reused=True, request_hash=request_hash)

    def line(self) -> bytes:
        """Return the entry as a line of the journal."""
        what: dict[str, Any] = (
            {"error": self.error}
            if self.response is None
            else {"response": self.response, "usage": self.usage}
        )
        text = to_json(
            {
                "unit_id": self.unit_id,
                "attempt": self.attempt,
                "step": self.step,
                "hash": self.request_hash,
                **what,
            }
        )
        return sealed_line(text)


class Entries(dict[Key, Entry]):
    """Finished requests by key, with additional information from the journal."""

    def __init__(self) -> None:
        super().__init__()
        self.head: Mapping[str, Any] = {}
        """Contents of the first line, which names the model."""
        self.n_garbled = 0
        """Number of unreadable lines, not counting an incomplete last line."""


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
    >>> journal.append(Entry("q1", 1, "", "ab", response={"text": "4"}))
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
                for line in lines_of(stream, self.path):
                    self._take(line, entries)
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
        request = request_of(found)
        if request is not None:
            usage = request.get("usage")
            entry = Entry(
                request["unit_id"],
                request["attempt"],
                request["step"],
                request["hash"],
                response=request.get("response"),
                usage=usage if isinstance(usage, dict) else None,
                error=request.get("error"),
            )
            entries[entry.key] = entry
        elif line.endswith(b"\n") and line.strip():
            entries.n_garbled += 1

    def describe(self, **head: Any) -> None:
        """Set additional content for the first line before it is written."""
        self._head |= redact_secrets(head)

    def append(self, entry: Entry) -> None:
        """Append an entry; it is synced to disk within half a second.

        If writing fails, earlier entries remain readable.
        """
        line = entry.line()
        with self._refusals():
            if self._file is None:
                self._file = self._opened()
            _write_whole(self._file, line)
            self._syncing.wake()

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
