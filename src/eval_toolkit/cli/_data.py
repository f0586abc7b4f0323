"""Labelled rows of one file as a slice, for the commands that look at the data itself."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np
from numpy.typing import NDArray

from eval_toolkit import _frames, _tables
from eval_toolkit.cli import _rows
from eval_toolkit.cli._rows import IDS, LABELS, LabelMap, Rows, named_column
from eval_toolkit.errors import InvalidInputError, MissingColumnError
from eval_toolkit.slices import EvalSlice

__all__ = ["Data", "Reading", "data_options", "origin", "read_data", "stem_of"]

_Command = TypeVar("_Command", bound=Callable[..., Any])

TEXTS = ("text", "prompt", "content", "message", "sentence")
_ORIGIN = "\0row"
_NO_LABEL = "\0label"


@dataclass(frozen=True)
class Reading:
    """How the files are written and which of their columns mean what."""

    text: tuple[str, ...] = ()
    label: str | None = None
    group: str | None = None
    time: str | None = None
    id: str | None = None
    labels: LabelMap | None = None
    quoting: bool = True
    header: tuple[str, ...] | None = None

    def file_options(self) -> dict[str, Any]:
        """Return the keywords of the functions that read and copy files."""
        return {"quoting": self.quoting, "header": self.header}


@dataclass(frozen=True)
class Data:
    """The rows of one file."""

    file: Path
    rows: EvalSlice
    others: tuple[str, ...]
    """Columns without a role, where they were asked for."""
    labelled: bool
    n_empty: int
    """Rows without a text; it was read as the empty one."""

    @property
    def has_texts(self) -> bool:
        """Whether a row is one text, not several columns."""
        return isinstance(self.rows.feature_col, str)

    def summary(self) -> str:
        """Return the size in words."""
        positive = f", {self.rows.n_positive} positive" if self.labelled else ""
        return f"{self.rows.n} rows{positive}"


def data_options(command: _Command) -> _Command:
    """Add the options that say how rows are read; the command gets ``reading``."""

    @click.option(
        "--text",
        metavar="COLUMN",
        multiple=True,
        help=f"What a row says; else {', '.join(TEXTS)}. Several: compared by value.",
    )
    @click.option("--label", metavar="COLUMN", help=f"Labels; else {', '.join(LABELS)}.")
    @click.option("--group", metavar="COLUMN", help="Rows that belong together share a group.")
    @click.option("--time", metavar="COLUMN", help="When a row came about: numbers or ISO 8601.")
    @click.option("--id", "id", metavar="COLUMN", help="The data's own key of a row; unique.")
    @click.option("--positive", metavar="LABEL", help="The label that counts as positive.")
    @click.option("--labels", metavar="NEG,POS", help="Both labels, where they are words.")
    @click.option(
        "--quoting/--no-quoting", default=True, help="Whether quotes in CSV and TSV are special."
    )
    @click.option("--header", metavar="A,B,…", help="Column names of files that have none.")
    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        names = ("text", "label", "group", "time", "id", "quoting")
        taken = {name: kwargs.pop(name) for name in names}
        labels = LabelMap.of(kwargs.pop("positive"), kwargs.pop("labels"))
        header = kwargs.pop("header")
        columns = None if header is None else tuple(name.strip() for name in header.split(","))
        return command(*args, reading=Reading(**taken, labels=labels, header=columns), **kwargs)

    return wrapped  # type: ignore[return-value]


def stem_of(file: Path) -> tuple[str, str]:
    """Return a file's name without what tells the format, and that: ``train``, ``.csv.gz``."""
    n = 2 if file.suffix.lower() == ".gz" else 1
    suffix = "".join(file.suffixes[-n:])
    return file.name.removesuffix(suffix), suffix


def origin(part: EvalSlice) -> NDArray[Any]:
    """Return the numbers of a part's rows in their file, counted from 0."""
    return _frames.column(part.df, _ORIGIN)


def read_data(
    file: Path,
    reading: Reading,
    *,
    also: Sequence[str] = (),
    others: bool = False,
    needs_label: bool = False,
    needs_text: bool = True,
) -> Data:
    """Read a file's rows with their roles.

    Parameters
    ----------
    file : Path
        Any format the tables know.
    reading : Reading
        Columns that are not named are looked up among the usual names.
    also : sequence of str
        More columns, as text.
    others : bool
        Read the columns without a role, too, in the types the file has.
    needs_label, needs_text : bool
        Whether a file without such a column is refused. Without labels all are 0; without a text
        a row is its id.
    """
    have = _tables.column_names(file, **reading.file_options())
    label = _optional(file, have, reading.label, LABELS, "--label", needs_label)
    texts = _text_columns(file, have, reading, needs_text)
    roles = {
        role: named_column(file, have, getattr(reading, role), (), f"--{role}")
        for role in ("group", "time", "id")
        if getattr(reading, role) is not None
    }
    named = {label, *texts, *roles.values(), *also}
    rest = [name for name in have if name not in named and name not in IDS] if others else []
    as_text = [*texts, *roles.values(), *also, *([label] if label else [])]
    columns = _tables.read_table(
        file,
        texts=[name for name in dict.fromkeys(as_text) if name != roles.get("time")],
        columns=[*([roles["time"]] if "time" in roles else []), *rest],
        **reading.file_options(),
    )
    rows = Rows((file,), np.zeros(1, dtype=np.int64), columns)
    if not len(rows):
        raise InvalidInputError(f"{file}: there are no rows below the column names")
    filled, n_empty = _without_gaps(columns, texts)
    if "id" in roles:
        _refuse_repeated(rows, roles["id"])
    labels = (
        np.zeros(len(rows), dtype=np.int64)
        if label is None
        else _rows._binary(rows, label, reading.labels).astype(np.int64)
    )
    slice_ = EvalSlice(
        name=stem_of(file)[0] or file.name,
        df={**filled, label or _NO_LABEL: labels, _ORIGIN: np.arange(len(rows))},
        feature_col=texts[0] if len(texts) == 1 else texts,
        label_col=label or _NO_LABEL,
        **{f"{role}_col": column for role, column in roles.items()},
    )
    return Data(file, slice_, tuple(rest), label is not None, n_empty)


def _optional(
    file: Path,
    have: Sequence[str],
    asked: str | None,
    usual: Sequence[str],
    option: str,
    needed: bool,
) -> str | None:
    try:
        return named_column(file, have, asked, usual, option)
    except MissingColumnError:
        if needed or asked is not None:
            raise
        return None


def _text_columns(file: Path, have: Sequence[str], reading: Reading, needed: bool) -> list[str]:
    asked: list[str | None] = [*dict.fromkeys(reading.text)] or [None]
    needed = needed or reading.id is None
    found = [_optional(file, have, name, TEXTS, "--text", needed) for name in asked]
    return [name for name in found if name is not None] or [reading.id or ""]


def _without_gaps(
    columns: Mapping[str, NDArray[Any]], texts: Sequence[str]
) -> tuple[dict[str, NDArray[Any]], int]:
    """Return the columns with empty texts for missing ones, and how many rows had none."""
    filled, gaps = dict(columns), np.zeros(0, dtype=np.bool_)
    for name in texts:
        missing = np.equal(columns[name], None)  # type: ignore[call-overload]
        gaps = missing | gaps if len(gaps) else missing
        if missing.any():
            filled[name] = np.where(missing, "", columns[name])
    return filled, int(gaps.sum())


def _refuse_repeated(rows: Rows, column: str) -> None:
    seen: dict[str, int] = {}
    for row, key in enumerate(rows.columns[column].tolist()):
        if key is None:
            raise InvalidInputError(
                f"{rows.where(row)}: {column!r} is missing; every row needs its id"
            )
        if key in seen:
            raise InvalidInputError(
                f"{rows.where(row)}: {column!r} is {key!r} like row {seen[key] + 1}; "
                "ids must be unique: drop one, or name another column with --id"
            )
        seen[key] = row
