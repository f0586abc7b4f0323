"""Finished requests as stored, in memory or in the journal.

Answers beyond `limits.HELD_BYTES` stay in the journal and are read when they are used. In memory, such an
answer takes as much space as its position.
"""

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eval_toolkit._internal.files import FileParts, Span, limits, parse_json
from eval_toolkit._internal.redaction import redact_secrets
from eval_toolkit.errors import ArtifactError
from eval_toolkit.models.payloads import Response, read_response, response_payload, to_json
from eval_toolkit.models.requests import GenerateRequest, Request
from eval_toolkit.models.runner.jobs import Job, JobResult, Key
from eval_toolkit.models.runner.lines import SEALED, parsed_line, request_of, sealed_line

_NO_PROMPT = GenerateRequest("")
_SIZE_BITS = limits.LINE_BYTES.bit_length()
_OPENED = zlib.crc32(b"{")
_BEGIN = re.compile(
    rb'\{"crc":"([0-9a-f]{8})","unit_id":("(?:[^"\\]|\\.)*"),"attempt":([0-9]{1,9}),'
    rb'"step":("(?:[^"\\]|\\.)*"),"hash":"([0-9a-f]*)","response":\{'
)
"""Beginning of a line with an answer; the checksum covers the rest of the line."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Finished request as stored.

    Parameters
    ----------
    unit_id, attempt, step
        Key of the job.
    request_hash : str
        Hash of request and model, which identifies the request.
    response : mapping, optional
        Answer as JSON types.
    usage : mapping, optional
        Resources used.
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
    def of(cls, outcome: JobResult, request: Request | None = None) -> "Entry":
        """Return the entry for an outcome of a request, with secrets removed from its error."""
        job, response, error = outcome.job, outcome.response, outcome.error
        asked = job.request if request is None else request
        return cls(
            *job.key,
            outcome.request_hash,
            response=None if response is None else response_payload(response, asked),
            usage=None if response is None else response.usage.to_dict(),
            error=None if error is None else redact_secrets(error.to_dict()),
        )

    def answer(self, job: Job, request_hash: str) -> JobResult | None:
        """Return the outcome of a job if this entry is a valid answer to its request."""
        if self.response is None or self.request_hash != request_hash:
            return None
        try:
            response = read_response(self.response, self.usage, job.request)
        except ValueError:
            return None
        return JobResult(job, response, reused=True, request_hash=request_hash)

    def loaded(self) -> "Entry":
        """Return the entry with its answer in memory."""
        return self

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


class JournalledEntry(Entry):
    """Answer that stays in the journal."""

    __slots__ = ("parts", "span")

    parts: FileParts
    span: Span

    def __init__(self, key: Key, request_hash: str, parts: FileParts, span: Span) -> None:
        hold = object.__setattr__  # a loop over the names takes three times as long
        hold(self, "unit_id", key[0])
        hold(self, "attempt", key[1])
        hold(self, "step", key[2])
        hold(self, "request_hash", request_hash)
        hold(self, "parts", parts)
        hold(self, "span", span)

    @property
    def response(self) -> Mapping[str, Any] | None:
        """Answer as JSON types."""
        return self.loaded().response

    @property
    def usage(self) -> Mapping[str, Any] | None:
        """Resources used."""
        return self.loaded().usage

    @property
    def error(self) -> None:
        """Failed requests are held in memory."""
        return

    @property
    def ok(self) -> bool:
        """Whether there is an answer."""
        return True

    def answer(self, job: Job, request_hash: str) -> JobResult | None:
        """Return the outcome of a job if this entry is an answer to its request."""
        if self.request_hash != request_hash:
            return None
        return JournalledResult(job, self.parts, self.span, reused=True)

    def loaded(self) -> Entry:
        """Return the entry with its answer in memory."""
        return entry_at(self.parts, self.span)


class JournalledResult(JobResult):
    """Outcome of a job whose answer stays in the journal.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "journal.jsonl"
    >>> line = Entry("q1", 1, "", "ab", response={"text": "4"}).line()
    >>> _ = path.write_bytes(line)
    >>> job = Job("q1", 1, GenerateRequest("2 + 2 ="))
    >>> JournalledResult(job, FileParts(path), (0, len(line))).response.text
    '4'
    """

    __slots__ = ("_place", "parts")

    parts: FileParts
    _place: int
    """Start and size in one number, which takes a third of the memory of a tuple."""

    def __init__(self, job: Job, parts: FileParts, span: Span, *, reused: bool = False) -> None:
        hold = object.__setattr__
        hold(self, "job", job)
        hold(self, "parts", parts)
        hold(self, "_place", span[0] << _SIZE_BITS | span[1])
        hold(self, "reused", reused)

    @property
    def span(self) -> Span:
        """Position of the answer in the journal."""
        return self._place >> _SIZE_BITS, self._place & ((1 << _SIZE_BITS) - 1)

    @property
    def response(self) -> Response:
        """Answer of the model."""
        return self._response(entry_at(self.parts, self.span), None)

    @property
    def error(self) -> None:
        """Outcomes without an answer are held in memory."""
        return

    @property
    def request_hash(self) -> str:
        """Hash of request and model."""
        return entry_at(self.parts, self.span).request_hash

    def loaded(self) -> JobResult:
        """Return the outcome with its request and its answer in memory."""
        entry, job = entry_at(self.parts, self.span), self.job.loaded()
        return JobResult(job, self._response(entry, job), None, self.reused, entry.request_hash)

    def _response(self, entry: Entry, job: Job | None) -> Response:
        payload = entry.response or {}
        # The request of a plain answer need not be built again.
        plain = job is None and "text" in payload and payload.get("prompt", "") is not None
        request = _NO_PROMPT if plain else (job or self.job).request
        try:
            return read_response(payload, entry.usage, request)
        except ValueError as error:
            raise ArtifactError(f"{self.parts.path}: {entry.unit_id}: {error}") from None


def entry_at(parts: FileParts, span: Span) -> Entry:
    """Return the entry in a line of a journal."""
    entry = entry_of(parsed_line(parts.read(span)))
    if entry is None:
        raise ArtifactError(f"{parts.path}: was changed while it was in use; run again")
    return entry


def entry_of(found: Any) -> Entry | None:
    """Return the entry in a parsed line, or None."""
    told = request_of(found)
    if told is None:
        return None
    usage = told.get("usage")
    return Entry(
        told["unit_id"],
        told["attempt"],
        told["step"],
        told["hash"],
        response=told.get("response"),
        usage=usage if isinstance(usage, dict) else None,
        error=told.get("error"),
    )


def journalled_entry(line: bytes, parts: FileParts, start: int) -> JournalledEntry | None:
    """Return the entry of an undamaged line with an answer, without parsing the answer."""
    found = _BEGIN.match(line)
    if found is None:
        return None
    crc, unit, attempt, step, digest = found.groups()
    if int(crc, 16) != zlib.crc32(line[SEALED:].rstrip(), _OPENED):
        return None
    key = (_text(unit), int(attempt), "" if step == b'""' else _text(step))
    return JournalledEntry(key, digest.decode("ascii"), parts, (start, len(line)))


def _text(quoted: bytes) -> str:
    text: str = parse_json(quoted, "line") if b"\\" in quoted else quoted[1:-1].decode("ascii")
    return text


class Entries(dict[Key, Entry]):
    """Finished requests by key, with additional information from the journal."""

    def __init__(self) -> None:
        super().__init__()
        self.head: Mapping[str, Any] = {}
        """Content of the first line, which names the model."""
        self.n_garbled = 0
        """Number of unreadable lines, not counting an incomplete last line."""
