"""Graders for response formats: CSV, postscripts, placeholders.

Only the first `TEXT_LIMIT` characters of a response are read. The patterns used here inspect every
character a bounded number of times.
"""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from eval_toolkit._internal.validation import choice, integer
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders.base import (
    COMPLETIONS,
    KEPT,
    RATE,
    ColumnInfo,
    Grade,
    options_version,
)
from eval_toolkit.graders.context import context_value
from eval_toolkit.models.responses import Completion

TEXT_LIMIT = 250_000
"""Maximum number of characters read from the start of a response."""


# --- CSV ----------------------------------------------------------------------------------------

_SEPARATORS = (",", ";", "\t", "|")


class _Table(NamedTuple):
    """Block of consecutive lines with the same number of fields."""

    n_lines: int
    n_columns: int
    separator: str


@dataclass(frozen=True, slots=True)
class CsvFormat:
    r"""Whether a response contains a table with the right separator and columns.

    A table is a block of at least two consecutive lines with the same number of fields, also at
    least two; separators inside double quotes are ignored, and fields have no line breaks. Tables
    are detected with a comma, semicolon, tab, ``|`` or the required separator as the separator. The
    table with the most lines is used; ties are broken by the required separator, then by the number
    of columns.

    The columns, each 0 or 1, are ``<name>_has_csv``, ``<name>_is_separator_respected`` and
    ``<name>_is_column_count_respected``, which is skipped if no column count is required. All are 0
    for a response without a table.

    Parameters
    ----------
    separator : str, optional
        Required separator, one character; by default ``separator`` in the sample's context, else a
        comma.
    n_columns : int, optional
        Required number of columns; by default ``n_columns`` in the sample's context.
    name : str, default "csv_format"
        Name of the columns.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the separator is not one character, or ``n_columns`` is not a positive integer.

    Examples
    --------
    >>> answer = Completion("Here it is:\ncity;people\nRome;2.8\nBonn;0.3")
    >>> list(CsvFormat(";", 2).grade(answer).values())
    [1.0, 1.0, 1.0]
    """

    separator: str | None = None
    n_columns: int | None = None
    name: str = "csv_format"
    response_types = COMPLETIONS

    def __post_init__(self) -> None:
        if self.separator is not None:
            _one_sign(self.separator)
        if self.n_columns is not None:
            integer(self.n_columns, "n_columns", low=1)

    version = options_version("1")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        parts = ("has_csv", "is_separator_respected", "is_column_count_respected")
        return {f"{self.name}_{part}": RATE for part in parts}

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return the properties of the largest table in the response."""
        separator, n_columns = self.separator, self.n_columns
        if separator is None:
            separator = _one_sign(context_value(response, "separator") or ",")
        if n_columns is None and context_value(response, "n_columns") is not None:
            n_columns = integer(context_value(response, "n_columns"), "n_columns", low=1)
        table = _largest_table(response.completion[:TEXT_LIMIT], separator)
        grades: tuple[float | Grade, ...] = (
            float(table is not None),
            float(table is not None and table.separator == separator),
            Grade.skipped("the sample does not specify a number of columns")
            if n_columns is None
            else float(table is not None and table.n_columns == n_columns),
        )
        return dict(zip(self.columns(), grades, strict=True))


def _one_sign(separator: str) -> str:
    if not isinstance(separator, str) or len(separator) != 1 or separator in '"\r\n':
        raise InvalidInputError(f"`separator` is {separator!r}; it must be one character")
    return separator


def _largest_table(text: str, required: str) -> _Table | None:
    lines = text.splitlines()
    found = [
        table
        for separator in dict.fromkeys((required, *_SEPARATORS))
        for table in _tables(lines, separator)
    ]
    return max(
        found,
        key=lambda table: (table.n_lines, table.separator == required, table.n_columns),
        default=None,
    )


def _tables(lines: list[str], separator: str) -> list[_Table]:
    counts = [_n_fields(line, separator) for line in lines]
    runs = [(n_columns, len(list(run))) for n_columns, run in groupby(counts)]
    return [_Table(n, n_columns, separator) for n_columns, n in runs if n_columns > 1 and n > 1]


def _n_fields(line: str, separator: str) -> int:
    if '"' not in line:
        return line.count(separator) + 1
    try:
        return len(next(csv.reader([line], delimiter=separator, skipinitialspace=True)))
    except csv.Error:  # a field exceeds the maximum length
        return 1


# --- postscript ---------------------------------------------------------------------------------

_POSTSCRIPTS = {
    "P.S.": r"^[ \t>*_]{0,20}p\.[ ]?s\b[.:*_]{0,6}+\s{0,20}+\S",
    "P.P.S.": r"^[ \t>*_]{0,20}p\.[ ]?p\.[ ]?s\b[.:*_]{0,6}+\s{0,20}+\S",
}


@dataclass(frozen=True, slots=True)
class PostscriptFormat:
    r"""Whether a response has a postscript: a line that starts with "P.S." followed by text.

    Case, a space between the letters, a missing final dot, and Markdown markup at the start of the
    line (``>``, ``*``, ``_``) are ignored.

    Parameters
    ----------
    marker : {"P.S.", "P.P.S."}, default "P.S."
        Start of the line.
    name : str, default "postscript_format"
        Name of the column.

    Raises
    ------
    InvalidInputError
        If the marker is invalid.

    Examples
    --------
    >>> PostscriptFormat().grade(Completion("Dear all, …\n\nP.S. Bring cake."))
    {'postscript_format': 1.0}
    """

    marker: str = "P.S."
    name: str = "postscript_format"
    response_types = COMPLETIONS

    def __post_init__(self) -> None:
        choice(self.marker, "marker", tuple(_POSTSCRIPTS))

    version = options_version("1")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        return {self.name: RATE}

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return whether the response has a postscript."""
        text = response.completion[:TEXT_LIMIT]
        found = re.search(_POSTSCRIPTS[self.marker], text, re.IGNORECASE | re.MULTILINE)
        return {self.name: float(found is not None)}


# --- placeholders -------------------------------------------------------------------------------

_PLACEHOLDER = re.compile(r"\[[^\[\]\n]{1,200}\]")


@dataclass(frozen=True, slots=True)
class Placeholders:
    """Whether a response has enough placeholders, such as ``[name]``.

    A placeholder is a string of 1 to 200 characters in square brackets on one line. Their number is
    stored in ``<name>_n``.

    Parameters
    ----------
    at_least : int, optional
        Minimum number; by default ``n`` in the sample's context, else 1.
    name : str, default "placeholders"
        Name of the column.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If ``at_least`` is not a positive integer.

    Examples
    --------
    >>> Placeholders(2).grade(Completion("Dear [name], come to [place]."))
    {'placeholders': 1.0, 'placeholders_n': 2.0}
    """

    at_least: int | None = None
    name: str = "placeholders"
    response_types = COMPLETIONS

    def __post_init__(self) -> None:
        if self.at_least is not None:
            integer(self.at_least, "at_least", low=1)

    version = options_version("1")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        return {self.name: RATE, f"{self.name}_n": KEPT}

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return whether the response has enough placeholders, and how many it has."""
        minimum = self.at_least
        if minimum is None:
            n = context_value(response, "n")
            minimum = 1 if n is None else integer(n, "n", low=1)
        found = len(_PLACEHOLDER.findall(response.completion[:TEXT_LIMIT]))
        return {self.name: float(found >= minimum), f"{self.name}_n": float(found)}
