"""Rows of several files as one table, each row knowing where it came from."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit import _tables
from eval_toolkit._tables import KEY, ROW, RowPick
from eval_toolkit._validate import IntArray
from eval_toolkit.errors import ArtifactError

__all__ = ["FileFormat", "Rows", "read_rows"]


@dataclass(frozen=True)
class FileFormat:
    """How files are to be read; by default as their names say."""

    media_type: str | None = None
    quoting: bool = True
    header: Sequence[str] | None = None

    def options(self) -> dict[str, Any]:
        """Return the keywords of the reading functions."""
        return {"media_type": self.media_type, "quoting": self.quoting, "header": self.header}


@dataclass(frozen=True)
class Rows:
    """Columns, and the file and the row number (from 1) of each row."""

    columns: dict[str, NDArray[Any]]
    files: list[Path]
    file: IntArray
    row: IntArray

    def place(self, index: int) -> str:
        """Return where a row is, for messages."""
        return f"{self.files[self.file[index]]}: row {self.row[index]}"


def read_rows(
    files: list[Path],
    *,
    texts: Sequence[str],
    typed: Sequence[str],
    rest: bool = False,
    pick: RowPick,
    format_: FileFormat,
) -> Rows:
    """Read rows of files, in the order of the files.

    Parameters
    ----------
    files : list of Path
        At least one.
    texts : sequence of str
        Columns read as text.
    typed : sequence of str
        Columns in the types the files have.
    rest : bool
        Read all other columns too, in the types the files have.
    pick : RowPick
        Over all files together.
    format_ : FileFormat
        The same for all files.
    """
    wanted = [*typed, *(_shared_names(files, format_) if rest else ())]
    others = [name for name in dict.fromkeys(wanted) if name not in texts]
    partial = bool(pick.where) or pick.limit is not None or pick.sample_size is not None
    parts: list[dict[str, NDArray[Any]]] = []
    n_read = 0
    for number, file in enumerate(files):
        of_file = replace(pick, salt="" if pick.key else str(number))
        if pick.limit is not None:
            if parts and n_read == pick.limit:
                break
            of_file = replace(of_file, limit=pick.limit - n_read)
        part = _tables.read_table(
            [file],
            texts=texts,
            columns=others,
            pick=of_file if partial else None,
            **format_.options(),
        )
        n = len(next(iter(part.values())))
        part.setdefault(ROW, np.arange(1, n + 1))
        parts.append(part)
        n_read += n
    file_of_row = np.repeat(np.arange(len(parts)), [len(part[ROW]) for part in parts])
    table = {name: _tables.joined([part[name] for part in parts]) for name in parts[0]}
    if pick.sample_size is not None and n_read > pick.sample_size:
        # Each file gave its smallest keys; the smallest of all are the sample.
        order = np.lexsort((np.arange(n_read), table[KEY].astype(str)))
        chosen = np.sort(order[: pick.sample_size])
        file_of_row, table = file_of_row[chosen], {k: v[chosen] for k, v in table.items()}
    table.pop(KEY, None)
    row = table.pop(ROW).astype(np.int64)
    return Rows(table, files, file_of_row.astype(np.int64), row)


def _shared_names(files: list[Path], format_: FileFormat) -> list[str]:
    """Return the names of all columns; the files must agree on them."""
    first = _tables.column_names(files[0], **format_.options())
    for file in files[1:]:
        odd = set(_tables.column_names(file, **format_.options())) ^ set(first)
        if odd:
            raise ArtifactError(
                f"{file}: its columns differ from those of {files[0]} in {sorted(odd)}; "
                "name the columns to read with columns=[…]"
            )
    return first
