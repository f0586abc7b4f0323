"""Incremental reading of a growing journal, forward from a position or backward from the end."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.files import lines_of, open_regular
from eval_toolkit._internal.plain import whole_text
from eval_toolkit.errors import ArtifactError
from eval_toolkit.models.runner.lines import check_version, parsed_line, request_of

_JUDGE = "judge:"
_MAX_TEXT = 2_000
_MAX_REASON = 300
_N_REASONS = 5
_MARK = 256
"""Number of bytes before a position that identify a journal."""
_BLOCK = 1 << 16
_TAIL_LIMIT = 1 << 24
"""Number of bytes, from the end of a journal, searched for the last entries."""

_Key: TypeAlias = tuple[str, int, str]


@dataclass(frozen=True, slots=True, repr=False)
class RequestCounts(Displayed):
    """Counts of finished requests and of the tokens they used.

    Examples
    --------
    >>> RequestCounts(n_done=3, n_errors=1, reasons=(("timeout: no answer", 1),)).n_done
    3
    """

    n_done: int = 0
    """Number of requests that were answered or failed."""
    n_errors: int = 0
    """Number of requests that failed and have not been answered since."""
    reasons: tuple[tuple[str, int], ...] = ()
    """Most common reasons for failures and their counts, most common first."""
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return fields | {"reasons": [list(reason) for reason in self.reasons]}


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """Finished request, truncated for display.

    Examples
    --------
    >>> JournalEntry("q1", 1, "", text="4").ok
    True
    """

    unit_id: str
    attempt: int
    step: str
    text: str | None = None
    """Answer, truncated to 2,000 characters; for log-likelihoods, the numbers."""
    error: str | None = None
    """Reason for a missing answer."""

    @property
    def ok(self) -> bool:
        """Whether there is an answer."""
        return self.error is None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class Tally:
    """Running counts of one kind of requests."""

    n_answered: int = 0
    failed: dict[_Key, str] = field(default_factory=dict)
    """Reason for each failed request, since a failed request may be repeated."""
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def copy(self) -> "Tally":
        """Return an independent copy."""
        return Tally(self.n_answered, dict(self.failed), self.prompt_tokens, self.completion_tokens)

    def add(self, key: _Key, found: Mapping[str, Any]) -> None:
        """Count a line."""
        response = found.get("response")
        if response is None:
            self.failed[key] = _reason(found["error"])
            return
        self.failed.pop(key, None)
        self.n_answered += 1
        usage = found.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        self.prompt_tokens += _number(usage, response, "prompt_tokens")
        self.completion_tokens += _number(usage, response, "completion_tokens")

    def counts(self) -> RequestCounts:
        """Return the current counts."""
        reasons = Counter(self.failed.values()).most_common(_N_REASONS) if self.failed else []
        return RequestCounts(
            self.n_answered + len(self.failed),
            len(self.failed),
            tuple(reasons),
            self.prompt_tokens,
            self.completion_tokens,
        )


@dataclass(frozen=True, slots=True, eq=False)
class JournalSoFar:
    """Position in a journal and the counts up to that position."""

    offset: int = 0
    """Start of the next line."""
    mark: bytes = b""
    """Bytes that precede the offset."""
    inode: int = 0
    answers: Tally = field(default_factory=Tally)
    judges: Tally = field(default_factory=Tally)
    n_garbled: int = 0
    modified: float | None = None
    """Time of the last write to the journal; None if there is no journal."""


def read_on(path: Path, since: JournalSoFar) -> JournalSoFar:
    """Count the lines after a position, leaving an incomplete last line for the next call.

    Raises `ArtifactError` if the journal has a later version.
    """
    stream = _opened(path)
    if stream is None:
        return JournalSoFar()
    with stream:
        stat = os.fstat(stream.fileno())
        if since.offset and not (since.inode == stat.st_ino and _is_same(stream, since)):
            since = JournalSoFar()
        offset, mark, n_garbled = since.offset, since.mark, since.n_garbled
        answers, judges = since.answers.copy(), since.judges.copy()
        stream.seek(offset)
        for line in lines_of(stream, path):
            if not line.endswith(b"\n"):
                break
            offset += len(line)
            mark = (mark + line[-_MARK:])[-_MARK:]
            found = parsed_line(line)
            entry = request_of(found)
            if entry is not None:
                key = (entry["unit_id"], entry["attempt"], entry["step"])
                (judges if entry["step"].startswith(_JUDGE) else answers).add(key, entry)
            elif isinstance(found, dict) and "journal" in found:
                check_version(path, found["journal"])
            elif line.strip():
                n_garbled += 1
    return JournalSoFar(offset, mark, stat.st_ino, answers, judges, n_garbled, stat.st_mtime)


def last_entries(path: Path, n: int) -> list[JournalEntry]:
    """Return the most recent finished requests, latest last, reading only what is needed."""
    entries: list[JournalEntry] = []
    stream = _opened(path)
    if stream is None:
        return entries
    with stream:
        for line in _lines_from_the_end(stream):
            found = request_of(parsed_line(line))
            if found is not None:
                entries.append(_journal_entry(found))
            if len(entries) == n:
                break
    return entries[::-1]


def _opened(path: Path) -> BinaryIO | None:
    """Open a journal; return None if there is none."""
    try:
        return open_regular(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ArtifactError(
            f"{path}: the journal cannot be read: {error.strerror or error}"
        ) from error


def _is_same(stream: BinaryIO, since: JournalSoFar) -> bool:
    """Return whether a position belongs to this journal, judged by the bytes before it."""
    stream.seek(since.offset - len(since.mark))
    return stream.read(len(since.mark)) == since.mark


def _lines_from_the_end(stream: BinaryIO) -> Iterator[bytes]:
    """Yield complete lines from the last to the first, reading the file as needed."""
    start = stream.seek(0, os.SEEK_END)
    stop = max(0, start - _TAIL_LIMIT)
    pieces: list[bytes] = []
    ended = False  # what follows the last line break is not a complete line
    while start > stop:
        step = min(start - stop, _BLOCK)
        start -= step
        stream.seek(start)
        first, *others = stream.read(step).split(b"\n")
        for part in reversed(others):
            pieces.append(part)
            if ended:
                yield b"".join(reversed(pieces))
            pieces, ended = [], True
        pieces.append(first)
    if start == 0 and ended:
        yield b"".join(reversed(pieces))


def _journal_entry(found: Mapping[str, Any]) -> JournalEntry:
    key = whole_text(found["unit_id"]), found["attempt"], whole_text(found["step"])
    response = found.get("response")
    if response is None:
        return JournalEntry(*key, error=_reason(found["error"]))
    text = response.get("text")
    if not isinstance(text, str):
        numbers = response.get("loglikelihoods")
        text = ", ".join(map(_digits, numbers)) if isinstance(numbers, list) else ""
    return JournalEntry(*key, text=_cut(text, _MAX_TEXT))


def _digits(number: Any) -> str:
    return f"{number:.4g}" if isinstance(number, float) else str(number)


def _reason(error: Mapping[str, Any]) -> str:
    text = f"{error.get('kind', 'other')}: {error.get('message', '')}"
    return _cut(" ".join(text.split()), _MAX_REASON)


def _cut(text: str, longest: int) -> str:
    return whole_text(text if len(text) <= longest else f"{text[: longest - 1]}…")


def _number(usage: Mapping[str, Any], response: Mapping[str, Any], name: str) -> int:
    for found in (usage.get(name), response.get(name)):
        if isinstance(found, int) and found:
            return int(found)
    return 0
