"""Text wrapping in columns, and column widths."""

import functools
import re
from collections.abc import Iterable, Iterator, Sequence

_LONG_WORD = 20
"""Maximum length of unbreakable words; longer words (paths, hashes) may be broken."""
_BREAK = re.compile(r"(?<=[/_\-.=:,])(?![/_\-.=:,])|(?<=[a-z])(?=[A-Z])")


def wrapped(text: str, width: int, *, whole: bool = False) -> list[str]:
    """Wrap a string to lines; only words wider than a line are broken.

    With ``whole``, words such as numbers are never broken.

    Examples
    --------
    >>> wrapped("lies at 0.5 [0.4, 0.6] or so", 16)
    ['lies at', '0.5 [0.4, 0.6]', 'or so']
    >>> wrapped("toxicity/identity_hate_max", 20)
    ['toxicity/identity_', 'hate_max']
    >>> wrapped("123456789.123456789", 10, whole=True)
    ['123456789.123456789']
    """
    if _width(text) <= width:
        return [text]
    lines: list[str] = []
    room = 0
    for piece in _pieces(text, width, whole):
        size = _width(piece)
        if lines and size + 1 <= room:
            lines[-1] += f" {piece}"
            room -= size + 1
        else:
            lines.append(piece)
            room = width - size
    return lines or [""]


def cut(word: str, width: int) -> Iterator[str]:
    """Split an overlong word after punctuation or before capitals."""
    line = ""
    for piece in _BREAK.split(word):
        if line and _width(line + piece) > width:
            yield line
            line = ""
        line += piece
        while _width(line) > width:
            head = _head(line, width)
            yield head
            line = line[len(head) :]
    if line:
        yield line


def column_widths(
    columns: Sequence[Sequence[str]], room: int, fixed: Sequence[Sequence[bool]]
) -> list[int] | None:
    """Return column widths that fit in the available space, or None if there are none.

    The widest column shrinks first; no column shrinks below its unbreakable parts.

    ``fixed`` marks cells that must not be broken.
    """
    widths = [max(1, *map(_width, column)) for column in columns]
    if sum(widths) <= room:
        return widths
    for longest in (None, _LONG_WORD):
        least = [
            _least(column, whole, longest) for column, whole in zip(columns, fixed, strict=True)
        ]
        if sum(least) <= room:
            return _narrowed(widths, least, room)
    return None


def _narrowed(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Reduce widths to fit by applying a common maximum width."""
    low, high = 0, max(widths)
    while low < high:
        level = (low + high + 1) // 2
        if sum(_at_level(widths, least, level)) <= room:
            low = level
        else:
            high = level - 1
    found = _at_level(widths, least, low)
    spare = room - sum(found)
    for at, width in enumerate(widths):  # the remainder below the common maximum
        if spare and found[at] < width:
            found[at] += 1
            spare -= 1
    return found


def _at_level(widths: Sequence[int], least: Sequence[int], level: int) -> list[int]:
    return [max(low, min(width, level)) for width, low in zip(widths, least, strict=True)]


def _least(column: Iterable[str], fixed: Iterable[bool], longest: int | None) -> int:
    """Return the minimum width that keeps unbreakable parts intact."""
    cells = zip(column, fixed, strict=True)
    return max(1, *(_width(cell) if whole else _least_of(cell, longest) for cell, whole in cells))


@functools.lru_cache(maxsize=65536)  # called repeatedly for every layout of a table
def _least_of(cell: str, longest: int | None) -> int:
    widths = [_width(piece) for piece in _together(cell)]
    return max((min(width, longest or width) for width in widths), default=0)


def _together(text: str) -> list[str]:
    """Split a string into words, keeping punctuation and intervals with the preceding word.

    Examples
    --------
    >>> _together("B beats A by 0.1 [0.04, 0.18], 95 % intervals")
    ['B', 'beats', 'A', 'by', '0.1 [0.04, 0.18],', '95 %', 'intervals']
    """
    pieces: list[str] = []
    opened = False
    for word in text.split():
        closes = opened and "]" in word
        if pieces and (word[0] == "[" or closes or not any(map(str.isalnum, word))):
            pieces[-1] += f" {word}"
        else:
            pieces.append(word)
        opened = word[0] == "[" and "]" not in word
    return pieces


def _pieces(text: str, width: int, whole: bool) -> Iterator[str]:
    """Yield the unbreakable pieces of a line, splitting wide pieces at spaces, then in words."""
    for piece in [text.strip()] if whole else _together(text):
        if _width(piece) <= width:
            yield piece
            continue
        for word in piece.split():
            if _width(word) <= width or whole:
                yield word
            else:
                yield from cut(word, width)


def _head(text: str, width: int) -> str:
    """Return the longest prefix of a string that fits (at least one character)."""
    size = 0
    for at, character in enumerate(text):
        size += _width(character)
        if size > width:
            return text[: max(at, 1)]
    return text


def _width(text: str) -> int:
    if text.isascii():  # each printable character takes one column
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
