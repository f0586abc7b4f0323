"""What a cell of a table says: a number, a state, or a text; the terminal and HTML show it alike."""

import re
from collections.abc import Sequence

from eval_toolkit.report.pages import Table

__all__ = [
    "NUMBER",
    "inline",
    "is_interval",
    "is_number",
    "meaning",
    "numeric",
    "stated",
    "value_and_interval",
]

_PLAIN = r"[+\-−]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?: ?%)?"
NUMBER = rf"(?:[<>]=? ?|[≤≥=] ?)?{_PLAIN}"
"""A number as pages write it: a sign, separators, a bound, a percent sign."""
_INTERVAL = rf"\[ *{_PLAIN}, +{_PLAIN}\]|{_PLAIN} to {_PLAIN}"
_CELL = re.compile(
    rf"(?P<value>{NUMBER})|(?P<ends>{_INTERVAL})|(?P<of>{NUMBER}) +(?P<in>{_INTERVAL})"
)
_INLINE = re.compile(
    rf"(?<!\S)(?:(?:{_PLAIN} +)?(?:{_INTERVAL})|{_PLAIN} %)(?=[.,;:)]*(?!\S))\S*|\S+"
)

_MEANINGS = {
    "better": "good",
    "pass": "good",
    "worse": "bad",
    "FAIL": "bad",
    "different": "apart",
    "warning": "warning",
    "incomplete": "warning",
    "error": "error",
    "failed": "error",
    "altered": "error",
    "skipped": "skipped",
    "not tested": "skipped",
}
_SAYING = frozenset({"status", "state", "result", "severity", "remark", "B is", "perturbed is"})
"""Headers of columns in which a word is a state; elsewhere it may be anybody's name."""


def is_number(text: str) -> bool:
    """Return whether a cell is a number, an interval, or both.

    Examples
    --------
    >>> [is_number(cell) for cell in ("0.5 [0.4, 0.6]", "<0.001", "12 %", "+0.1 to +0.3", "v1.2")]
    [True, True, True, True, False]
    """
    return _CELL.fullmatch(text.strip()) is not None


def is_interval(text: str) -> bool:
    """Return whether a cell is an interval alone.

    Examples
    --------
    >>> is_interval("[0.4, 0.6]"), is_interval("0.4 to 0.6"), is_interval("0.5 [0.4, 0.6]")
    (True, True, False)
    """
    found = _CELL.fullmatch(text.strip())
    return found is not None and found["ends"] is not None


def value_and_interval(text: str) -> tuple[str, str] | None:
    """Return both parts of a cell that has both.

    Examples
    --------
    >>> value_and_interval("0.5 [0.4, 0.6]"), value_and_interval("0.5")
    (('0.5', '[0.4, 0.6]'), None)
    """
    found = _CELL.fullmatch(text.strip())
    return None if found is None or found["of"] is None else (found["of"], found["in"])


def inline(text: str) -> list[str]:
    """Return the pieces of a text that stay on one line: words, and numbers with their interval.

    Examples
    --------
    >>> inline("B beats A by 0.1 [0.04, 0.18], 95 % intervals")
    ['B', 'beats', 'A', 'by', '0.1 [0.04, 0.18],', '95 %', 'intervals']
    """
    return _INLINE.findall(text)


def numeric(table: Table) -> list[bool]:
    """Return which columns hold numbers, apart from cells that say why there is none."""
    found = []
    for at in range(len(table.header)):
        cells = [cell for row in table.rows if (cell := str(row[at]).strip())]
        numbers = [is_number(cell) for cell in cells]
        others = (cell for cell, yes in zip(cells, numbers, strict=True) if not yes)
        found.append(any(numbers) and all(map(_is_state, others)))
    return found


def stated(table: Table, numbers: Sequence[bool]) -> list[bool]:
    """Return which columns say in words how something stands."""
    return [number or name in _SAYING for name, number in zip(table.header, numbers, strict=True)]


def meaning(text: str) -> str:
    """Return what a state means: good, bad, apart, warning, error, skipped, or nothing.

    Examples
    --------
    >>> meaning("worse"), meaning("error: no labels"), meaning("skipped"), meaning("0.5")
    ('bad', 'error', 'skipped', '')
    """
    return _MEANINGS.get(text.strip().partition(":")[0], "")


def _is_state(text: str) -> bool:
    return bool(meaning(text)) or text == "unbounded"
