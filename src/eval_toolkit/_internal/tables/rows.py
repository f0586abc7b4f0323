"""Rows of files or in-memory tables, with file and row number."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.tables.cells import joined
from eval_toolkit._internal.tables.formats import FileFormat, expand_paths
from eval_toolkit._internal.tables.labels import LabelMap, classes_of
from eval_toolkit._internal.tables.numbers import decimal_of, not_numbers, numbers_in
from eval_toolkit._internal.tables.reading import (
    AS_NAMED,
    KEY,
    ROW,
    RowPick,
    column_names,
    read_table,
)
from eval_toolkit._internal.tables.spool import shown
from eval_toolkit._internal.validation import BoolArray, IntArray, is_missing
from eval_toolkit.errors import ArtifactError, InvalidInputError


@dataclass(frozen=True)
class Rows:
    """Concatenated columns of one or more files, or columns of an in-memory table.

    ``starts`` are the indices of the first row of each file; ``numbers`` are the row numbers in the
    file (from 1), if only some rows were read. In-memory tables have a title for messages instead
    of files.

    Examples
    --------
    >>> Rows({"a": np.array([1, 2])}).where(1)
    'the data: row 2'
    """

    columns: Mapping[str, NDArray[Any]]
    files: tuple[Path, ...] = ()
    starts: IntArray | None = None
    numbers: IntArray | None = None
    title: str = "the data"

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def name(self) -> str:
        """Name for messages: the first file, or the title."""
        return shown(self.files[0]) if self.files else self.title

    def place(self, row: int) -> tuple[str, str]:
        """Return the file of a row and its row number in the file (from 1)."""
        if self.starts is None:
            number = row + 1 if self.numbers is None else int(self.numbers[row])
            return self.name, f"row {number}"
        at = int(np.searchsorted(self.starts, row, side="right")) - 1
        number = row - self.starts[at] + 1 if self.numbers is None else self.numbers[row]
        return shown(self.files[at]), f"row {number}"

    def where(self, row: int) -> str:
        """Return the location of a row, for messages."""
        return ": ".join(self.place(row))

    def take(self, at: IntArray) -> "Rows":
        """Return a subset of the rows, in order, keeping their row numbers."""
        if self.numbers is not None:
            numbers = self.numbers
        else:
            numbers = np.arange(1, len(self) + 1)
            if self.starts is not None:
                sizes = np.diff([*self.starts, len(self)])
                numbers = numbers - np.repeat(self.starts, sizes)
        return replace(
            self,
            columns={name: column[at] for name, column in self.columns.items()},
            starts=None if self.starts is None else np.searchsorted(at, self.starts),
            numbers=numbers[at],
        )

    def classes(self, label: str, labels: LabelMap | None = None, *, remedy: str = "") -> BoolArray:
        """Return a column of labels as classes; raise if labels are invalid."""
        return classes_of(
            self.columns[label], place=self.place, column=label, labels=labels, remedy=remedy
        )


def read_rows(
    paths: str | Path | Iterable[str | Path],
    *,
    numbers: Iterable[str] = (),
    texts: Iterable[str] = (),
    labels: Iterable[str] = (),
    columns: Iterable[str] = (),
    rest: bool = False,
    pick: RowPick | None = None,
    file_format: FileFormat = AS_NAMED,
    may_be_empty: bool = False,
) -> Rows:
    r"""Read columns of files or globs, with the source of each row.

    Takes the options of `read_table`. ``rest`` also reads all other columns, with the types of the
    files; ``pick`` applies to all files jointly.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "preds.csv"
    >>> _ = path.write_text("id;label;score\n007;TRUE;0,5\n008;0;0,25\n")
    >>> rows = read_rows(path, texts=["id"], numbers=["score"], labels=["label"])
    >>> rows.columns["score"].tolist(), rows.classes("label").tolist()
    ([0.5, 0.25], [True, False])
    """
    files = expand_paths(paths)
    kinds = {"numbers": list(numbers), "texts": list(texts), "labels": list(labels)}
    named = {name for columns_ in kinds.values() for name in columns_}
    others = [*columns, *(_shared_names(files, file_format) if rest else ())]
    kinds["columns"] = [name for name in dict.fromkeys(others) if name not in named]
    parts: list[dict[str, NDArray[Any]]] = []
    n_read = 0
    for number, file in enumerate(files):
        of_file = None
        if pick is not None:
            left = None if pick.limit is None else pick.limit - n_read
            if parts and left == 0:
                break
            of_file = replace(pick, limit=left, salt="" if pick.key else str(number))
        parts.append(read_table([file], **kinds, file_format=file_format, pick=of_file))
        n_read += len(next(iter(parts[-1].values())))
    if not n_read and not may_be_empty:
        raise InvalidInputError(f"{shown(files[0])}: the file has no rows below the column names")
    sizes = [len(next(iter(part.values()))) for part in parts]
    table = {name: joined([part[name] for part in parts]) for name in parts[0]}
    starts = np.cumsum([0, *sizes[:-1]])
    if pick is None:
        return Rows(table, tuple(files), starts)
    if pick.sample_size is not None and sum(sizes) > pick.sample_size:
        # Each file contributes its smallest keys; the smallest overall form the sample.
        order = np.lexsort((np.arange(sum(sizes)), table[KEY].astype(str)))
        chosen = np.sort(order[: pick.sample_size])
        starts = np.searchsorted(chosen, starts)
        table = {name: column[chosen] for name, column in table.items()}
    del table[KEY]
    return Rows(table, tuple(files), starts, numbers=table.pop(ROW).astype(np.int64))


def rows_of(
    column_of: Callable[[str], NDArray[Any]],
    *,
    numbers: Iterable[str] = (),
    texts: Iterable[str] = (),
    labels: Iterable[str] = (),
) -> Rows:
    """Return columns of an in-memory table, converted like those of a file.

    Examples
    --------
    >>> table = {"id": np.array([7, 8]), "score": np.array(["0,5", "1"], dtype=object)}
    >>> rows = rows_of(table.__getitem__, texts=["id"], numbers=["score"])
    >>> rows.columns["id"].tolist(), rows.columns["score"].tolist()
    (['7', '8'], [0.5, 1.0])
    """
    columns: dict[str, NDArray[Any]] = {name: column_of(name) for name in labels}
    columns |= {name: _as_texts(column_of(name)) for name in texts}
    for name in numbers:
        found = column_of(name)
        if found.dtype.kind in "biuf":
            columns[name], mark = found.astype(np.float64), "."
        else:
            cells = _as_texts(found).tolist()
            mark = decimal_of(cells) or ""
            columns[name] = numbers_in(cells, mark or ".")
        bad = np.flatnonzero(~np.isfinite(columns[name])).tolist()
        if bad:
            raise not_numbers(
                Rows(columns).place, name, _as_texts(found).tolist(), bad, mark or None
            )
    return Rows(columns)


def _as_texts(column: NDArray[Any]) -> NDArray[Any]:
    """Return values as strings, formatted as in a file, with None for missing values."""
    texts = np.empty(len(column), dtype=object)
    texts[:] = [
        None
        if is_missing(value)
        else value
        if isinstance(value, str)
        else str(value).lower()
        if isinstance(value, (bool, np.bool_))
        else str(value)
        for value in column.tolist()
    ]
    return texts


def _shared_names(files: Sequence[Path], file_format: FileFormat) -> list[str]:
    """Return the column names, which must be the same in all files."""
    first = column_names(files[0], file_format)
    for file in files[1:]:
        odd = set(column_names(file, file_format)) ^ set(first)
        if odd:
            raise ArtifactError(
                f"{file}: its columns differ from those of {files[0]} in {sorted(odd)}; "
                "name the columns to read with columns=[…]"
            )
    return first
