"""Read the labelled rows of a file as a slice, for commands that inspect data."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal import frames, tables, validation
from eval_toolkit._internal.hashing import sha256_text
from eval_toolkit._internal.tables import FileFormat, LabelMap, Rows, read_rows
from eval_toolkit._internal.times import read_times
from eval_toolkit._internal.validation import BoolArray
from eval_toolkit.cli._messages import in_options
from eval_toolkit.cli._options import file_options, label_options, passing
from eval_toolkit.errors import InvalidInputError, MissingColumnError
from eval_toolkit.loaders.columns import IDS, LABELS, NoUsualColumnError, label_column, named_column
from eval_toolkit.slices import EvalSlice

_Command = TypeVar("_Command", bound=Callable[..., Any])

TEXTS = ("text", "prompt", "content", "message", "sentence")
PIECE = 5
"""Length of the character n-grams used to compare texts."""
_ORIGIN = "\0row"
_NO_LABEL = "\0label"


@dataclass(frozen=True)
class Reading:
    """File formats and column roles."""

    text: tuple[str, ...] = ()
    label: str | None = None
    group: str | None = None
    time: str | None = None
    id: str | None = None
    labels: LabelMap | None = None
    file_format: FileFormat = tables.AS_NAMED


@dataclass(frozen=True)
class Data:
    """Rows of one file."""

    file: Path
    rows: EvalSlice
    others: tuple[str, ...]
    """Columns without a role; empty unless requested."""
    labels: frozenset[str | None]
    """Labels as stored in the file; empty if there is no label column."""
    label_fault: str | None
    """Reason why the labels are not binary, or None if they are."""
    without_text: BoolArray
    """Mask of the rows without text, each of which has a unique placeholder text."""

    @property
    def labelled(self) -> bool:
        """Whether the rows have binary labels."""
        return bool(self.labels) and self.label_fault is None

    @property
    def has_texts(self) -> bool:
        """Whether there is exactly one text column to compare."""
        return isinstance(self.rows.feature_col, str)

    @property
    def n_without_text(self) -> int:
        """Number of rows without text."""
        return int(self.without_text.sum())

    def summary(self) -> str:
        """Return the numbers of rows and of positive rows as text."""
        positive = f", {self.rows.n_positive} positive" if self.labelled else ""
        return f"{self.rows.n} row{'s' * (self.rows.n != 1)}{positive}"


data_options = passing(
    "reading",
    Reading,
    (
        click.option(
            "--text",
            metavar="COLUMN",
            multiple=True,
            help=(
                f"Text column; by default one of {', '.join(TEXTS)}. If repeated, rows are "
                "compared by the values of all these columns."
            ),
        ),
        click.option(
            "--label",
            metavar="COLUMN",
            help=f"Label column; by default {', '.join(LABELS)}, or a similar name such as class.",
        ),
        click.option(
            "--group",
            metavar="COLUMN",
            help=("Group column; rows in the same group are not independent."),
        ),
        click.option("--time", metavar="COLUMN", help="Time column: numbers or ISO 8601."),
        click.option("--id", "id", metavar="COLUMN", help="Column with unique row ids."),
        label_options,
        file_options,
    ),
)
"""Add the options for input columns and formats; the command receives ``reading``."""


def threshold_option(help_: str) -> Callable[[_Command], _Command]:
    """Return the option ``--threshold`` shared by the commands that compare texts."""
    return click.option(
        "--threshold",
        default=0.7,
        show_default=True,
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        help=help_,
    )


def stem_of(file: Path) -> tuple[str, str]:
    """Return a file's stem and format suffix, e.g. ``train`` and ``.csv.gz``.

    Rows of an Excel file are written as CSV.
    """
    n = 2 if file.suffix.lower() == ".gz" else 1
    suffix = "".join(file.suffixes[-n:])
    return file.name.removesuffix(suffix), ".csv" if suffix.lower() == ".xlsx" else suffix


def origin(part: EvalSlice) -> NDArray[Any]:
    """Return the zero-based row numbers of a split in its file."""
    return frames.column(part.df, _ORIGIN)


def with_origin(part: EvalSlice) -> EvalSlice:
    """Return a split with a column of row numbers, which is kept when rows are dropped."""
    return replace(part, df=frames.with_column(part.df, _ORIGIN, np.arange(part.n)))


def read_data(
    file: Path,
    reading: Reading,
    *,
    also: Sequence[str] = (),
    others: bool = False,
    needs_label: bool = False,
    needs_text: bool = True,
    needs_roles: bool = False,
    salt: str = "",
) -> Data:
    """Read the rows of a file and assign column roles.

    Parameters
    ----------
    file : Path
        Path of a table in any supported format.
    reading : Reading
        File format and column names; by default, columns are detected by common names.
    also : sequence of str
        Additional columns to read as strings.
    others : bool
        Whether to also read columns without a role, keeping their types.
    needs_label, needs_text : bool
        Whether to reject a file without such a column. If labels are missing or do not form two
        classes (see `Data.label_fault`), all labels are 0; if there is no text column, the text of
        a row is its id.
    needs_roles : bool
        Whether to reject rows with a missing group or time, if the file has such a column.
    salt : str
        Salt for placeholder texts, so that rows without text in different files remain distinct.
    """
    have = tables.column_names(file, reading.file_format)
    label = _label_column(file, have, reading.label, needs_label)
    texts = _text_columns(file, have, reading, needs_text)
    roles = {
        role: named_column(file, have, getattr(reading, role), (), f"--{role}")
        for role in ("group", "time", "id")
        if getattr(reading, role) is not None
    }
    named = {label, *texts, *roles.values(), *also}
    rest = [name for name in have if name not in named and name not in IDS] if others else []
    as_text = [*texts, *roles.values(), *also, *([label] if label else [])]
    rows = read_rows(
        file,
        texts=[name for name in dict.fromkeys(as_text) if name != roles.get("time")],
        columns=[*([roles["time"]] if "time" in roles else []), *rest],
        file_format=reading.file_format,
    )
    if "id" in roles:
        _refuse_repeated(rows, roles["id"])
    if "time" in roles:
        if tables.media_type_of(file) in (tables.CSV, tables.TSV):
            times = _numbers_among(rows.columns[roles["time"]])
            rows = replace(rows, columns={**rows.columns, roles["time"]: times})
        _check_times(rows, roles["time"])
    for role in ("group", "time"):
        if needs_roles and role in roles:
            _refuse_missing(rows, roles[role], f"a {role}")
    labels, fault = _labels(rows, label, reading.labels)
    if fault and reading.label is None and label not in LABELS and not needs_label:
        label, fault = None, None  # a column that is only named like labels
    filled, without_text = _without_gaps(rows.columns, texts, labels, salt)
    slice_ = EvalSlice(
        name=stem_of(file)[0] or file.name,
        df={**filled, label or _NO_LABEL: labels, _ORIGIN: np.arange(len(rows))},
        feature_col=texts[0] if len(texts) == 1 else texts,
        label_col=label or _NO_LABEL,
        **{f"{role}_col": column for role, column in roles.items()},
    )
    found = frozenset(rows.columns[label].tolist()) if label is not None else frozenset()
    return Data(file, slice_, tuple(rest), found, fault, without_text)


def _labels(
    rows: Rows, label: str | None, names: LabelMap | None
) -> tuple[NDArray[np.int64], str | None]:
    """Return binary labels; if the labels are invalid, zeros and the reason."""
    none = np.zeros(len(rows), dtype=np.int64)
    if label is None:
        return none, None
    try:
        known = names or tables.usual_labels(rows.columns[label])
        return rows.classes(label, known).astype(np.int64), None
    except InvalidInputError as error:
        if names is not None:  # class names given explicitly make labels mandatory
            raise
        return none, in_options(str(error))


def _label_column(file: Path, have: Sequence[str], asked: str | None, needed: bool) -> str | None:
    """Return the label column; if none has a common name, the column that `score` would use."""
    try:
        return named_column(file, have, asked, LABELS, "--label")
    except NoUsualColumnError:
        try:
            return label_column(file, have, None, lambda n: {})
        except MissingColumnError:
            if not needed:
                return None
        raise


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
    columns: Mapping[str, NDArray[Any]],
    texts: Sequence[str],
    labels: NDArray[np.int64],
    salt: str,
) -> tuple[dict[str, NDArray[Any]], BoolArray]:
    """Return the columns with missing texts filled in, and the rows without any text.

    Rows without text never count as duplicates: each gets a unique placeholder, which depends on
    its label and on the preceding rows without text, but not on its position in the file.
    """
    filled, gaps = dict(columns), np.ones(len(labels), dtype=np.bool_)
    for name in texts:
        missing = np.equal(columns[name], None)  # type: ignore[call-overload]
        gaps &= missing
        if missing.any():
            filled[name] = np.where(missing, "", columns[name])
    if gaps.any():
        filled[texts[0]] = filled[texts[0]].astype(object)
        for label in (0, 1):
            for number, row in enumerate(np.flatnonzero(gaps & (labels == label)).tolist()):
                filled[texts[0]][row] = sha256_text(f"no text\0{salt}\0{label}\0{number}")
    return filled, gaps


def _refuse_missing(rows: Rows, column: str, what: str) -> None:
    for row, value in enumerate(rows.columns[column].tolist()):
        if validation.is_missing(value):
            raise InvalidInputError(
                f"{rows.where(row)}: {column!r} is missing; every row needs {what}"
            )


def _numbers_among(cells: NDArray[Any]) -> NDArray[Any]:
    """Return CSV cells, converting numbers; None if a cell is missing."""
    if cells.dtype != object:
        return cells
    present = np.flatnonzero(np.not_equal(cells, None))  # type: ignore[call-overload]
    found = cells.copy()
    every = tables.guessed(cells[present])
    if every.dtype != object:
        found[present] = every.tolist()
        return found
    for row in present.tolist():
        try:
            datetime.fromisoformat(cells[row])  # keep 20240131 as a date if other values are dates
        except ValueError:
            found[row] = tables.guessed(cells[row : row + 1]).tolist()[0]
    return found


def _check_times(rows: Rows, column: str) -> None:
    """Raise if a value is not a time, naming the row and the file."""
    try:
        read_times(rows.columns[column], column)
    except InvalidInputError as error:
        place = re.compile(re.escape(column) + r"\[(\d+)\]")
        first = place.match(str(error))
        if first is None:
            raise InvalidInputError(f"{rows.name}: {error}") from None
        rest = place.sub(lambda at: f"row {int(at[1]) + 1}", str(error)[first.end() :])
        raise InvalidInputError(f"{rows.where(int(first[1]))}: {column!r}{rest}") from None


def _refuse_repeated(rows: Rows, column: str) -> None:
    seen: dict[str, int] = {}
    for row, key in enumerate(rows.columns[column].tolist()):
        if key is None:
            raise InvalidInputError(
                f"{rows.where(row)}: {column!r} is missing; every row needs its id"
            )
        if key in seen:
            raise InvalidInputError(
                f"{rows.where(row)}: {column!r} is {key!r}, as in row {seen[key] + 1}; "
                "ids must be unique: drop one, or specify another column with --id"
            )
        seen[key] = row
