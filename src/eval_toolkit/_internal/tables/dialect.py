"""Detection of the separator and the first record of a CSV file."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from eval_toolkit._internal.files import pieces_of
from eval_toolkit._internal.tables.formats import CSV, FileFormat
from eval_toolkit.errors import ArtifactError

MAX_LINE = 1 << 26
"""Maximum size of a CSV line or JSON object in bytes; prompts can be long."""
_HEAD = 1 << 16
"""Minimum number of characters used to detect the separator."""
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}

Dialect = tuple[str, list[str]]
"""Separator and cells of the first record."""


def dialect_of(path: Path, media: str, how: FileFormat) -> Dialect:
    """Return the separator of a CSV or TSV file and the cells of its first record.

    If not given, the separator is the format's default (comma or tab) if it splits all records in
    the head into equal numbers of cells, otherwise another separator that does.
    """
    usual = how.separator or ("," if media == CSV else "\t")
    head = _Head(path, usual, how.quoting)
    records = head.records(usual)
    first = records[0] if records else []
    if how.separator is not None or not first or _is_table(records, how):
        return usual, first
    others = {}
    for mark in _SEPARATORS:
        if mark == usual or not any(mark in cell for cell in first):
            continue
        found = head.records(mark)
        # The index column of a saved dataframe has no name.
        if found and (how.header is not None or all(name.strip() for name in found[0][1:])):
            others[mark] = found
    fitting = {mark: found for mark, found in others.items() if _is_table(found, how)}
    if fitting:
        most = max(len(found[0]) for found in fitting.values())
        best = [mark for mark, found in fitting.items() if len(found[0]) == most]
        if len(best) > 1:
            words = " or ".join(_SEPARATORS[mark] for mark in best)
            raise ArtifactError(
                f"{path}: the columns may be separated by {words}; pass the separator as "
                "`separator`"
            )
        return best[0], fitting[best[0]][0]
    cutting = {mark: found for mark, found in others.items() if len(found[0]) > 1}
    if cutting and len(first) == 1 and how.header is None:
        _refuse_uneven(path, cutting)
    return usual, first


def _is_table(records: Sequence[Sequence[str]], how: FileFormat) -> bool:
    n = len(records[0])
    if how.header is not None:
        return n == len(how.header)
    return n > 1 and all(len(cells) == n for cells in records if cells)


def _refuse_uneven(path: Path, others: dict[str, list[list[str]]]) -> None:
    """Raise if the likely separator splits lines into different numbers of cells."""
    mark = max(others, key=lambda one: len(others[one][0]))
    n = len(others[mark][0])
    row, cells = next((at, one) for at, one in enumerate(others[mark]) if one and len(one) != n)
    raise ArtifactError(
        f"{path}: the columns seem to be separated by {_SEPARATORS[mark]}, but then the first line has "
        f"{n} cells and row {row} has {len(cells)}; pass the separator as `separator`, or the name of "
        "the only column as `header`"
    )


class _Head:
    """Beginning of a CSV file that includes at least the first record."""

    def __init__(self, path: Path, separator: str, quoting: bool) -> None:
        self.path = path
        self.quoting = quoting
        data, n = b"", _HEAD
        pieces = pieces_of(path)
        while True:
            while len(data) <= n and (piece := next(pieces, b"")):
                data += piece
            self.whole = len(data) <= n
            self.text = str(data[:n], "utf-8-sig", errors="replace")
            if self.whole or self.records(separator):
                return
            if n >= MAX_LINE:
                raise ArtifactError(f"{path}: the first line is longer than {MAX_LINE >> 20} MiB")
            n *= 16

    def records(self, separator: str) -> list[list[str]]:
        """Return the cells of all complete records; an empty list for a blank line."""
        csv.field_size_limit(MAX_LINE)
        lines = csv.reader(
            io.StringIO(self.text, newline=""),
            delimiter=separator,
            quoting=csv.QUOTE_MINIMAL if self.quoting else csv.QUOTE_NONE,
        )
        try:
            found = list(lines)
        except csv.Error as error:
            raise ArtifactError(f"{self.path}: cannot read the first line: {error}") from error
        return found if self.whole else found[:-1]
