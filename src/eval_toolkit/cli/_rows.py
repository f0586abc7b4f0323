"""Files of predictions as arrays, with errors that say which file, which row and what to do."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit import _tables, _validate
from eval_toolkit._validate import BoolArray, FloatArray, IntArray
from eval_toolkit.errors import ArtifactError, InvalidInputError, MissingColumnError
from eval_toolkit.runs.parts import WHOLE, format_part
from eval_toolkit.scorecards import Records

__all__ = [
    "IDS",
    "LabelMap",
    "NoUsualColumnError",
    "Parts",
    "Predictions",
    "Rows",
    "Slice",
    "Wanted",
    "coded",
    "named_column",
    "read_predictions",
    "read_rows",
]

LABELS = ("label", "y_true", "y", "target")
SCORES = ("score", "y_score", "prob", "probability", "prob_positive")
IDS = ("unit_id", "row_id", "id")
HASHES = "content_hash"
MISSING = "(missing)"
MAX_PARTS = 1000

_Path = str | Path


@dataclass(frozen=True)
class Rows:
    """Columns of one or more files, one below the other."""

    files: tuple[Path, ...]
    starts: IntArray
    """First row of each file."""
    columns: Mapping[str, NDArray[Any]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def where(self, row: int) -> str:
        """Return the file and the number of a row in it, counted from 1."""
        at = int(np.searchsorted(self.starts, row, side="right")) - 1
        return f"{self.files[at]}: row {row - int(self.starts[at]) + 1}"


def read_rows(
    paths: _Path | Iterable[_Path],
    *,
    numbers: Iterable[str] = (),
    texts: Iterable[str] = (),
    quoting: bool = True,
    header: Sequence[str] | None = None,
) -> Rows:
    """Read columns of files or globs and remember where each row came from."""
    numbers, texts = list(numbers), list(texts)
    files = _tables.expand_paths(paths)
    parts = [
        _tables.read_table(file, numbers=numbers, texts=texts, quoting=quoting, header=header)
        for file in files
    ]
    columns = {
        name: parts[0][name] if len(parts) == 1 else np.concatenate([part[name] for part in parts])
        for name in parts[0]
    }
    sizes = [len(next(iter(part.values()))) for part in parts]
    starts = np.cumsum([0, *sizes[:-1]])
    if not sum(sizes):
        raise InvalidInputError(f"{files[0]}: there are no rows below the column names")
    return Rows(tuple(files), starts, columns)


class NoUsualColumnError(MissingColumnError):
    """No column was named, and none has a usual name: the file may be of another kind."""


def named_column(
    file: Path, have: Sequence[str], asked: str | None, usual: Sequence[str], option: str
) -> str:
    """Return the column that was asked for, or the first of the usual names that is there."""
    if asked is not None:
        if asked not in have:
            raise MissingColumnError(
                f"{file}: there is no column {asked!r} ({option}); {_listed(have)}"
            )
        return asked
    for name in usual:
        if name in have:
            return name
    raise NoUsualColumnError(
        f"{file}: none of the columns {', '.join(usual)} is there; name yours with {option}; "
        f"{_listed(have)}"
    )


def _listed(have: Sequence[str]) -> str:
    return f"the columns are {', '.join(map(repr, have))}"


@dataclass(frozen=True)
class LabelMap:
    """Which labels of a text column stand for the classes."""

    positive: str
    negative: str | None = None
    """None: every label but the positive one."""

    @classmethod
    def of(cls, positive: str | None, pair: str | None) -> "LabelMap | None":
        """Read ``--positive`` and ``--labels``."""
        if pair is None:
            return None if positive is None else cls(positive)
        names = [name.strip() for name in pair.split(",")]
        if len(names) != 2 or not all(names) or names[0] == names[1]:
            raise InvalidInputError(
                f"--labels is {pair!r}; it must be the negative and the positive label, "
                "as in --labels ham,spam"
            )
        if positive is not None and positive != names[1]:
            raise InvalidInputError(
                f"--positive is {positive!r} but --labels {pair} says {names[1]!r}; give one"
            )
        return cls(names[1], names[0])

    def is_positive(self, label: str) -> bool | None:
        """Return the class of a label, None where it has none."""
        if _same(label, self.positive):
            return True
        return False if self.negative is None or _same(label, self.negative) else None


def _same(label: str, asked: str) -> bool:
    """Return whether two labels are equal, as text or as numbers: 1.0 is 1."""
    try:
        return label == asked or ("_" not in label and float(label) == float(asked))
    except ValueError:
        return False


def _plain_class(label: str) -> bool | None:
    """Return the class of a label that needs no map."""
    if label.lower() in ("true", "false"):
        return label.lower() == "true"
    return next((bool(digit) for digit in (0, 1) if _same(label, str(digit))), None)


def _binary(rows: Rows, name: str, labels: LabelMap | None) -> BoolArray:
    """Return a column of numbers or texts as classes."""
    column = rows.columns[name]
    if column.dtype != object:
        positive: BoolArray = column == 1.0
        bad = ~(positive | (column == 0.0))
        if bad.any():
            _refuse_label(rows, name, int(np.argmax(bad)), labels)
        return positive
    distinct, codes = _validate.object_codes(column, name)
    class_of = [
        None if text is None else (labels.is_positive if labels else _plain_class)(text)
        for text in distinct
    ]
    unknown = np.array([value is None for value in class_of])[codes]
    if unknown.any():
        _refuse_label(rows, name, int(np.argmax(unknown)), labels)
    if labels and not any(class_of):
        shown = ", ".join(repr(text) for text in distinct[:5])
        raise InvalidInputError(
            f"{rows.files[0]}: no {name!r} is {labels.positive!r}; the labels are {shown}"
        )
    return np.array(class_of, dtype=np.bool_)[codes]


def _refuse_label(rows: Rows, name: str, row: int, labels: LabelMap | None) -> None:
    value = rows.columns[name][row]
    shown = repr(value) if isinstance(value, str) else f"{value:g}" if value is not None else ""
    if not shown:
        raise InvalidInputError(f"{rows.where(row)}: {name!r} is missing; every row needs a label")
    if labels is not None:
        raise InvalidInputError(
            f"{rows.where(row)}: {name!r} is {shown}; --labels knows {labels.negative!r} and "
            f"{labels.positive!r} alone"
        )
    text = str(value) if isinstance(value, str) else shown
    raise InvalidInputError(
        f"{rows.where(row)}: {name!r} is {shown}; labels must be 0 or 1: map them with "
        f"--labels NEGATIVE,POSITIVE, or say --positive {text!r} if that is the positive one"
    )


@dataclass(frozen=True)
class Parts:
    """A column of names as codes: ``names[codes[row]]`` is the row's part."""

    names: list[str]
    codes: IntArray

    @property
    def texts(self) -> NDArray[Any]:
        """The name of each row's part."""
        return np.array(self.names, dtype=object)[self.codes]

    def take(self, at: IntArray) -> "Parts":
        """Return some of the rows, or all in another order."""
        return Parts(self.names, self.codes[at])

    def rows_of(self) -> Iterable[tuple[str, IntArray]]:
        """Yield every part that has rows: its name and its rows in their order."""
        order = np.argsort(self.codes, kind="stable")
        bounds = np.searchsorted(self.codes[order], np.arange(len(self.names) + 1))
        for name, start, stop in zip(self.names, bounds, bounds[1:], strict=False):
            if stop > start:
                yield name, order[start:stop]


def coded(values: NDArray[Any], name: str) -> Parts:
    """Return a column of texts as codes in the order of the names; numbers sort as numbers."""
    distinct, codes = _validate.object_codes(values, name)
    names = [MISSING if text is None else text for text in distinct]
    order = sorted(range(len(names)), key=_sort_key(names))
    place = np.empty(len(names), dtype=np.int64)
    place[order] = np.arange(len(names))
    return Parts([names[index] for index in order], place[codes])


def _sort_key(names: list[str]) -> Any:
    try:
        numbers = [float(name) for name in names]
    except ValueError:
        return names.__getitem__
    if not all(map(math.isfinite, numbers)):  # NaN has no place in an order
        return names.__getitem__
    return lambda index: (numbers[index], names[index])


@dataclass(frozen=True)
class Wanted:
    """Which columns to read as what; None or nothing is looked up among the usual names."""

    label: str | None = None
    scores: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    group: str | None = None
    id: str | None = None
    text: str | None = None
    """What the rows say; not read unless it is named."""
    labels: LabelMap | None = None
    keyed: bool = True
    """Whether one of the usual columns of ids is used where none is named."""
    quoting: bool = True
    header: tuple[str, ...] | None = None

    def file_options(self) -> dict[str, Any]:
        """Return the keywords of the functions that read files."""
        return {"quoting": self.quoting, "header": self.header}

    def key(self, paths: Iterable[_Path]) -> str | None:
        """Return the column of ids: the one that was named, or a usual one of all files."""
        if self.id is not None or not self.keyed:
            return self.id
        names = [_tables.column_names(file, **self.file_options()) for file in paths]
        return next((name for name in IDS if all(name in have for have in names)), None)


@dataclass(frozen=True)
class Slice:
    """What the statistics need of a slice."""

    y_true: BoolArray
    scores: Mapping[str, FloatArray]
    groups: IntArray | None

    @property
    def n_positive(self) -> int:
        """Number of positive rows."""
        return int(np.count_nonzero(self.y_true))

    @property
    def n_groups(self) -> int:
        """Number of independent groups; the rows where there are none."""
        return len(self.y_true) if self.groups is None else len(np.unique(self.groups))

    def told_groups(self) -> str:
        """Say how many groups there are, and how many of equal size they are worth."""
        if self.groups is None:
            return ""
        sizes = np.unique(self.groups, return_counts=True)[1]
        worth = float(sizes.sum() ** 2 / (sizes**2).sum())
        unequal = f" (worth {worth:.3g} of equal size)" if worth < 0.95 * len(sizes) else ""
        return f" in {len(sizes)} groups{unequal}"


@dataclass(frozen=True)
class Predictions:
    """Labels and one or more columns of scores, sorted by id where there is one."""

    rows: Rows
    origin: IntArray
    """Place of each row in the files."""
    label: str
    y_true: BoolArray
    scores: Mapping[str, FloatArray]
    parts: Mapping[str, Parts]
    groups: Parts | None = None
    id: str | None = None
    ids: NDArray[Any] | None = None
    hashes: NDArray[Any] | None = None
    texts: NDArray[Any] | None = None
    """What the rows say, where a column was named for it."""

    def __len__(self) -> int:
        return len(self.y_true)

    def where(self, row: int) -> str:
        """Return the file and the number of a row in it, counted from 1."""
        return self.rows.where(int(self.origin[row]))

    def take(self, at: IntArray) -> "Predictions":
        """Return some of the rows, or all in another order."""
        return replace(
            self,
            origin=self.origin[at],
            y_true=self.y_true[at],
            scores={name: column[at] for name, column in self.scores.items()},
            parts={name: part.take(at) for name, part in self.parts.items()},
            groups=None if self.groups is None else self.groups.take(at),
            ids=None if self.ids is None else self.ids[at],
            hashes=None if self.hashes is None else self.hashes[at],
            texts=None if self.texts is None else self.texts[at],
        )

    def at(self, rows: IntArray | None) -> "Slice":
        """Return what the statistics need of some rows, None for all."""
        groups = None if self.groups is None else self.groups.codes
        if rows is None:
            return Slice(self.y_true, self.scores, groups)
        return Slice(
            self.y_true[rows],
            {name: column[rows] for name, column in self.scores.items()},
            None if groups is None else groups[rows],
        )

    def records(self, scorer: str, rows: IntArray | None = None) -> Records:
        """Return some rows of one scorer as records; they are checked and sorted already."""
        found = self if rows is None else self.take(rows)
        n, ids = len(found), found.unit_ids()
        ok, no_reason = np.full(n, "ok", dtype=object), np.full(n, "", dtype=object)
        return Records(
            unit_id=ids,
            content_hash=no_reason if found.hashes is None else found.hashes,
            group=ids if found.groups is None else found.groups.texts,
            attempt=np.ones(n, dtype=np.int64),
            slices={name: part.texts for name, part in found.parts.items()},
            columns={"label": found.y_true.astype(np.float64), "score": found.scores[scorer]},
            status={"label": ok, "score": ok},
            reason={"label": no_reason, "score": no_reason},
        )

    def unit_ids(self) -> NDArray[Any]:
        """Return what each row is known by in records."""
        if self.ids is not None:
            return self.ids
        # the place in the files, written so that text sorts as numbers do
        return np.char.zfill(self.origin.astype(str), len(str(len(self.rows))))

    def slices(self) -> list[tuple[str, IntArray | None]]:
        """Return "all" and then every part of every ``--by`` column, with its rows."""
        return [
            (WHOLE, None),
            *(
                (format_part({column: name}), rows)
                for column, parts in self.parts.items()
                for name, rows in parts.rows_of()
            ),
        ]


def read_predictions(paths: Sequence[_Path], wanted: Wanted) -> Predictions:
    """Read and check predictions; the rows are sorted by id where there is one."""
    files = _tables.expand_paths(paths)
    file = files[0]
    have = _tables.column_names(file, **wanted.file_options())
    label = named_column(file, have, wanted.label, LABELS, "--label")
    asked = wanted.scores or (None,)
    scores = [named_column(file, have, name, SCORES, "--score") for name in asked]
    by = [named_column(file, have, name, (), "--by") for name in dict.fromkeys(wanted.by)]
    group = wanted.group and named_column(file, have, wanted.group, (), "--group")
    usual = wanted.key(files)
    key = usual and named_column(file, have, usual, (), "--id")
    hashes = HASHES if HASHES in have else None
    text = wanted.text and named_column(file, have, wanted.text, (), "--text")
    if text in (label, *scores):
        raise InvalidInputError(f"{file}: --text is {text!r}, the label or the score")
    texts = [name for name in (*by, group, key, hashes, text) if name]
    for name in texts:
        if name in scores:
            raise InvalidInputError(f"{file}: {name!r} is the score, and no slice, group or id too")
    rows = _read(files, label, scores, texts, wanted)
    found = Predictions(
        rows=rows,
        origin=np.arange(len(rows)),
        label=label,
        y_true=_binary(rows, label, wanted.labels),
        scores={name: rows.columns[name] for name in scores},
        parts={name: _parts(rows, name) for name in by},
        groups=None if group is None else _groups(rows, group),
        id=key,
        ids=None if key is None else rows.columns[key],
        hashes=None if hashes is None else _filled(rows.columns[hashes]),
        texts=None if text is None else rows.columns[text],
    )
    return found if key is None else _by_id(found, key)


def _read(
    files: Sequence[Path],
    label: str,
    scores: Sequence[str],
    texts: Sequence[str],
    wanted: Wanted,
) -> Rows:
    options = wanted.file_options()
    if wanted.labels is None:
        try:
            return read_rows(files, numbers=[label, *scores], texts=texts, **options)
        except (InvalidInputError, ArtifactError):
            pass  # words for labels; a fault in the scores comes up again below
    return read_rows(files, numbers=scores, texts=[label, *texts], **options)


def _parts(rows: Rows, column: str) -> Parts:
    parts = coded(rows.columns[column], column)
    if parts.names.count(MISSING) > 1:
        value = np.equal(rows.columns[column], MISSING)
        raise InvalidInputError(
            f"{rows.where(int(np.argmax(value)))}: {column!r} says {MISSING!r}, which is the name "
            "of the rows that have no value; call it something else"
        )
    if len(parts.names) > MAX_PARTS:
        raise InvalidInputError(
            f"{rows.files[0]}: --by {column} has {len(parts.names)} different values; "
            f"at most {MAX_PARTS} slices are reported"
        )
    return parts


def _groups(rows: Rows, column: str) -> Parts:
    _all_there(rows, column, "group")
    return coded(rows.columns[column], column)


def _all_there(rows: Rows, column: str, what: str) -> None:
    missing = np.equal(rows.columns[column], None)  # type: ignore[call-overload]
    if missing.any():
        where = rows.where(int(np.argmax(missing)))
        remedy = ", or say --no-id" if what == "id" else ""
        raise InvalidInputError(
            f"{where}: {column!r} is missing; every row needs its {what}{remedy}"
        )


def _filled(column: NDArray[Any]) -> NDArray[Any]:
    """Return texts with "" where there is none."""
    return np.where(np.equal(column, None), "", column)  # type: ignore[call-overload]


def _by_id(found: Predictions, column: str) -> Predictions:
    """Return the rows sorted by id, so that their order in the file decides nothing."""
    _all_there(found.rows, column, "id")
    ids = found.rows.columns[column].astype(str)
    order = np.argsort(ids, kind="stable")
    same = np.flatnonzero(ids[order][1:] == ids[order][:-1])
    if len(same):
        first, again = (int(order[same[0] + step]) for step in (0, 1))
        raise InvalidInputError(
            f"{found.where(again)}: {column!r} is {str(ids[again])!r} like {found.where(first)}; "
            "ids must be unique: drop one, name another column with --id, or say --no-id"
        )
    return replace(found, ids=ids).take(order)
