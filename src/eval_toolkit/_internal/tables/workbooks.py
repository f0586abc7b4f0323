"""Conversion of Excel workbooks to JSON lines."""

import json
import zipfile
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from eval_toolkit._internal.files import limits, open_regular
from eval_toolkit._internal.optional import require
from eval_toolkit.errors import ArtifactError

_ROWS, _CELLS = 1 << 20, 50_000_000
"""Maximum number of rows (Excel's limit) and cells of a sheet."""


def checked_names(path: Path, names: Sequence[str]) -> list[str]:
    """Return the column names in a header; unnamed columns are named by position."""
    if not any(name.strip() for name in names):
        raise ArtifactError(f"{path}: the first line is empty; it must contain the column names")
    # The index column of a saved dataframe has no name.
    named = [name if name.strip() else f"Unnamed: {i}" for i, name in enumerate(names)]
    seen: set[str] = set()
    for name in named:
        # duckdb's column names are case-insensitive
        if name.lower() in seen:
            raise ArtifactError(
                f"{path}: the column {name!r} occurs twice in the first line; rename one"
            )
        seen.add(name.lower())
    return named


def write_lines(path: Path, target: Path) -> None:
    """Write a workbook as one JSON object per row; the first row contains the column names.

    A workbook is rejected if it decompresses beyond the limits, has no rows, has rows in several
    sheets, or has duplicate column names.
    """
    openpyxl = require("openpyxl", feature=f"the Excel file {path.name}", extra="excel")
    try:
        with open_regular(path) as file:
            _check_sizes(file, path)
            book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
            _write(_only_sheet(book, path), path, target)
    except ArtifactError:
        raise
    except Exception as error:  # openpyxl raises many kinds of exceptions on malformed workbooks
        reason = " ".join(str(error).split())
        raise ArtifactError(
            f"{path}: not a readable Excel workbook: {type(error).__name__}: {reason:.200}"
        ) from error


def _check_sizes(file: Any, path: Path) -> None:
    with zipfile.ZipFile(file) as parts:
        sizes = [part.file_size for part in parts.infolist()]
    packed = file.seek(0, 2)
    file.seek(0)
    most = min(limits.UNPACKED_BYTES, max(limits.RATIO_FROM, limits.RATIO * packed))
    if sum(sizes) > most:
        raise ArtifactError(
            f"{path}: decompresses from {packed} to {sum(sizes)} bytes; at most {most} are allowed: "
            "save the sheet as CSV"
        )


def _only_sheet(book: Any, path: Path) -> Iterator[tuple[Any, ...]]:
    filled = [sheet for sheet in book.worksheets if any(map(_is_filled, _rows(sheet, path)))]
    if not filled:
        raise ArtifactError(f"{path}: the workbook has no rows")
    if len(filled) > 1:
        names = ", ".join(repr(sheet.title) for sheet in filled)
        raise ArtifactError(
            f"{path}: {len(filled)} sheets have rows ({names}); save the one to read as a separate "
            "file"
        )
    return _rows(filled[0], path)


def _rows(sheet: Any, path: Path) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a sheet within limits (small files can declare many empty cells)."""
    sheet.reset_dimensions()  # the dimensions stated in the file may be wrong
    n_cells = 0
    for number, row in enumerate(sheet.iter_rows(values_only=True)):
        n_cells += len(row)
        if number >= _ROWS or n_cells > _CELLS:
            raise ArtifactError(
                f"{path}: more than {_ROWS} rows or {_CELLS} cells; save the sheet as CSV"
            )
        yield row


def _is_filled(row: tuple[Any, ...]) -> bool:
    return any(cell is not None for cell in row)


def _write(rows: Iterator[tuple[Any, ...]], path: Path, target: Path) -> None:
    head = ["" if cell is None else str(_plain(cell)) for cell in next(rows)]
    while head and not head[-1].strip():
        head.pop()
    names = checked_names(path, head)
    n_rows = 0
    with target.open("x", encoding="utf-8") as lines:
        for number, row in enumerate(rows, 1):
            if not _is_filled(row):
                continue  # trailing empty rows are not part of the table
            if _is_filled(row[len(names) :]):
                raise ArtifactError(
                    f"{path}: row {number}: a cell lies beyond the last column name, {names[-1]!r}"
                )
            lines.write("{}\n" * (number - n_rows - 1))
            cells = (*map(_plain, row[: len(names)]), *[None] * (len(names) - len(row)))
            lines.write(json.dumps(dict(zip(names, cells, strict=True))) + "\n")
            n_rows = number
    if not n_rows:
        raise ArtifactError(f"{path}: the file has no rows below the column names")


def _plain(cell: Any) -> Any:
    """Return a cell as a JSON value; a timestamp at midnight becomes a date."""
    if isinstance(cell, datetime):
        return (cell.date() if cell.time() == time() else cell).isoformat()
    if isinstance(cell, (date, time)):
        return cell.isoformat()
    return cell if cell is None or isinstance(cell, (str, bool, int, float)) else str(cell)
