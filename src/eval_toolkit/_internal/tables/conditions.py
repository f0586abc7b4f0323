"""Row filters such as ``lang = 'de' and score >= 0.5``.

The grammar is a small subset of SQL and evaluated in Python; no user input reaches a database.
"""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.tables.numbers import decimal_of, number_in, numbers_in
from eval_toolkit._internal.validation import BoolArray
from eval_toolkit.errors import InvalidInputError

_TOKEN = re.compile(
    r"""\s*(?:(?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`)"""
    r"""|(?P<sign><=|>=|!=|<>|==|=|<|>|\(|\)|,)|(?P<word>[^\s=<>!(),'"`]+))"""
)
_SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_RULE = (
    "write COLUMN = 'text' or COLUMN >= 0.5 (also !=, <, <=, >, in ('a', 'b'), is missing), "
    "joined by and"
)
_GAPS = ("missing", "null")


@dataclass(frozen=True)
class Condition:
    """Condition on one column; as in SQL, missing values satisfy only ``is missing``.

    Examples
    --------
    >>> (found,) = conditions_of("lang in ('de', 'fr')")
    >>> found.mask(np.array(["de", "en", None], dtype=object)).tolist()
    [True, False, False]
    """

    column: str
    sign: str
    """Comparison operator, "in" or "missing"."""
    values: tuple[str, ...] = ()
    quoted: bool = False
    """Whether values are quoted, i.e. strings even if they look like numbers."""
    negated: bool = False

    def mask(self, cells: NDArray[Any]) -> BoolArray:
        """Return a mask of the cells (strings or None) that satisfy the condition."""
        there = np.not_equal(cells, None) & np.not_equal(cells, "")  # type: ignore[call-overload]
        if self.sign == "missing":
            return np.asarray(there if self.negated else ~there, dtype=np.bool_)
        compare = _SIGNS["=" if self.sign == "in" else self.sign]
        met: BoolArray = np.zeros(len(cells), dtype=np.bool_)
        for value in self.values:
            met |= self._compared(compare, cells, value)
        return np.asarray(there & (met ^ self.negated), dtype=np.bool_)

    def _compared(
        self, compare: Callable[[Any, Any], Any], cells: NDArray[Any], value: str
    ) -> BoolArray:
        number = None if self.quoted else number_in(value)
        if number is not None:
            own = [None if cell is None else cell.strip() for cell in cells.tolist()]
            numbers = np.array(
                [np.nan if (one := number_in(cell)) is None else one for cell in own]
            )
            if np.isnan(numbers).any():
                numbers = np.where(
                    np.isnan(numbers), numbers_in(own, decimal_of(own) or "."), numbers
                )
            known = ~np.isnan(numbers)
            return np.asarray(known & compare(numbers, number), dtype=np.bool_)
        return np.array(
            [cell is not None and compare(cell.strip(), value) for cell in cells.tolist()],
            dtype=np.bool_,
        )


def conditions_of(text: str) -> list[Condition]:
    """Parse conditions joined by ``and``.

    A condition is ``COLUMN SIGN VALUE`` with =, !=, <, <=, > or >=; ``COLUMN [not] in (A, B)``; or
    ``COLUMN is [not] missing``. Columns and values may be quoted; unquoted numbers are compared as
    numbers, all other values as strings.

    Examples
    --------
    >>> [(one.column, one.sign, one.values) for one in conditions_of("lang = 'de' and p > 0.5")]
    [('lang', '=', ('de',)), ('p', '>', ('0.5',))]
    """
    tokens = _Tokens(text)
    found = [_condition(tokens)]
    while not tokens.at_end:
        tokens.expect("and")
        found.append(_condition(tokens))
    return found


def _condition(tokens: "_Tokens") -> Condition:
    column, _ = tokens.value()
    kind, sign = tokens.next()
    if kind == "sign" and sign in _SIGNS:
        value, quoted = tokens.value()
        return Condition(column, sign, (value,), quoted)
    word = sign.lower()
    if word == "is":
        negated = tokens.skip("not")
        kind, gap = tokens.next()
        if kind == "word" and gap.lower() in _GAPS:
            return Condition(column, "missing", negated=negated)
        raise tokens.error()
    negated = word == "not"
    if negated:
        word = tokens.next()[1].lower()
    if word != "in":
        raise tokens.error()
    tokens.expect("(")
    values = [tokens.value()]
    while tokens.skip(","):
        values.append(tokens.value())
    tokens.expect(")")
    return Condition(
        column, "in", tuple(value for value, _ in values), any(q for _, q in values), negated
    )


class _Tokens:
    """Token stream of a filter."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.found: list[tuple[str, str]] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None:
                raise self.error()
            self.found.append((str(match.lastgroup), match[str(match.lastgroup)]))
            at = match.end()

    @property
    def at_end(self) -> bool:
        return self.at == len(self.found)

    def error(self) -> InvalidInputError:
        return InvalidInputError(f"`where` is {self.text!r:.200}; {_RULE}")

    def next(self) -> tuple[str, str]:
        if self.at_end:
            raise self.error()
        self.at += 1
        return self.found[self.at - 1]

    def skip(self, word: str) -> bool:
        """Skip the next token if it equals the argument; return whether it does."""
        met = not self.at_end and self.found[self.at][1].lower() == word
        self.at += met
        return met

    def expect(self, word: str) -> None:
        if not self.skip(word):
            raise self.error()

    def value(self) -> tuple[str, bool]:
        """Return the next token as a name or value, and whether it is quoted."""
        kind, token = self.next()
        if kind == "sign":
            raise self.error()
        if kind == "word":
            return token, False
        mark = token[0]
        return token[1:-1].replace(mark * 2, mark), True


def rows_that(conditions: Sequence[Condition], columns: Mapping[str, NDArray[Any]]) -> BoolArray:
    """Return a mask of the rows that satisfy all conditions."""
    masks = [condition.mask(columns[condition.column]) for condition in conditions]
    return np.asarray(np.logical_and.reduce(masks), dtype=np.bool_)
