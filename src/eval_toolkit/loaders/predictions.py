"""Predictions from files and data frames as validated arrays."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal import frames, tables, validation
from eval_toolkit._internal.tables import FileFormat, RowPick, Rows, read_rows
from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.loaders.columns import IDS, Peek, Roles, Scale, Wanted, unique_key
from eval_toolkit.scorecards import Records
from eval_toolkit.scorecards.parts import WHOLE, format_part
from eval_toolkit.scorecards.records import repeated

__all__ = ["Parts", "Predictions", "Wanted", "coded", "read_predictions"]

MISSING = "(missing)"
MAX_PARTS = 1000
DROP = "; pass drop_missing=True to leave out such rows and count them"


@dataclass(frozen=True)
class Parts:
    """A column of part names as codes: ``names[codes[row]]`` is the part of a row."""

    names: list[str]
    codes: IntArray

    @property
    def texts(self) -> NDArray[Any]:
        """Name of each row's part."""
        return np.array(self.names, dtype=object)[self.codes]

    def take(self, at: IntArray) -> "Parts":
        """Return a subset of the rows, in any order."""
        return Parts(self.names, self.codes[at])

    def rows_of(self) -> Iterable[tuple[str, IntArray]]:
        """Yield the name and the row indices of every non-empty part."""
        order = np.argsort(self.codes, kind="stable")
        bounds = np.searchsorted(self.codes[order], np.arange(len(self.names) + 1))
        for name, start, stop in zip(self.names, bounds, bounds[1:], strict=False):
            if stop > start:
                yield name, order[start:stop]


def coded(values: NDArray[Any], name: str) -> Parts:
    """Encode a column of strings as codes in sorted order; numeric names sort numerically."""
    distinct, codes = validation.object_codes(values, name)
    names = [MISSING if text is None else text for text in distinct]
    keys: Sequence[Any] = names
    with suppress(ValueError):
        numbers = [float(name) for name in names]
        if all(map(math.isfinite, numbers)):  # NaN cannot be ordered
            keys = list(zip(numbers, names, strict=True))
    order = sorted(range(len(names)), key=keys.__getitem__)
    place = np.empty(len(names), dtype=np.int64)
    place[order] = np.arange(len(names))
    return Parts([names[index] for index in order], place[codes])


@dataclass(frozen=True)
class Predictions:
    """Labels and one or more columns of scores, sorted by id if there are ids."""

    rows: Rows
    origin: IntArray
    """Position of each row in the files."""
    label: str
    y_true: BoolArray
    scores: Mapping[str, FloatArray]
    parts: Mapping[str, Parts]
    groups: Parts | None = None
    id: str | None = None
    ids: NDArray[Any] | None = None
    hashes: NDArray[Any] | None = None
    texts: NDArray[Any] | None = None
    """Text of each row, if a text column was specified."""
    weights: FloatArray | None = None
    """Weight of each row, if a weight column was specified."""
    notes: tuple[str, ...] = ()
    """Notes on guessed, converted and omitted values."""

    def __len__(self) -> int:
        return len(self.y_true)

    def where(self, row: int) -> str:
        """Return the file of a row and its number in the file, starting at 1."""
        return self.rows.where(int(self.origin[row]))

    def take(self, at: IntArray) -> "Predictions":
        """Return a subset of the rows, in any order."""
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
            weights=None if self.weights is None else self.weights[at],
        )

    @property
    def n_positive(self) -> int:
        """Number of positive rows."""
        return int(np.count_nonzero(self.y_true))

    @property
    def label_names(self) -> dict[str, str]:
        """Names of the negative label, "0", and of the positive one, "1"; empty for numbers."""
        written = self.rows.columns[self.label]
        if written.dtype.kind in "biuf":
            return {}
        found: dict[str, set[str]] = {"1": set(), "0": set()}
        for name, side in zip(found, (self.y_true, ~self.y_true), strict=True):
            found[name] = set(written[self.origin[side]].tolist())
        one = {name: str(next(iter(some))) for name, some in found.items() if len(some) == 1}
        if "1" in one and len(found["0"]) > 1:
            one["0"] = f"not {one['1']}"
        return {} if any(name.strip() in ("0", "1") for name in one.values()) else one

    @property
    def n_groups(self) -> int:
        """Number of independent groups; number of rows if there are no groups."""
        return len(self) if self.groups is None else len(np.unique(self.groups.codes))

    def groups_text(self) -> str:
        """Describe the number of groups, and the equivalent number of groups of equal size."""
        if self.groups is None:
            return ""
        sizes = np.unique(self.groups.codes, return_counts=True)[1]
        worth = float(sizes.sum() ** 2 / (sizes**2).sum())
        unequal = f" (equivalent to {worth:.3g} of equal size)" if worth < 0.95 * len(sizes) else ""
        return f" in {len(sizes)} groups{unequal}"

    def records(self, scorer: str, rows: IntArray | None = None, *, coded: bool = False) -> Records:
        """Return the records of one scorer for some rows.

        With ``coded``, groups are integers that sort like their names, and parts are omitted; this
        is faster and sufficient for statistics.
        """
        found = self if rows is None else self.take(rows)
        n, ids = len(found), found.unit_ids()
        ok, no_reason = repeated("ok", n), repeated("", n)
        group = ids
        if found.groups is not None:
            group = found.groups.codes if coded else found.groups.texts
        return Records(
            unit_id=ids,
            content_hash=no_reason if found.hashes is None else found.hashes,
            group=group,
            attempt=np.ones(n, dtype=np.int64),
            slices={} if coded else {name: part.texts for name, part in found.parts.items()},
            columns={"label": found.y_true.astype(np.float64), "score": found.scores[scorer]},
            status={"label": ok, "score": ok},
            reason={"label": no_reason, "score": no_reason},
        )

    def keyed_by(self, column: str) -> "Predictions":
        """Return the rows sorted by an id column, so the order in the file does not matter."""
        _all_there(self.rows, column, "id")
        ids = self.rows.columns[column].astype(str)[self.origin]
        order = np.argsort(ids, kind="stable")
        same = np.flatnonzero(ids[order][1:] == ids[order][:-1])
        if len(same):
            first, again = (int(order[same[0] + step]) for step in (0, 1))
            files = [self.rows.place(int(self.origin[row]))[0] for row in (first, again)]
            other = f", or compare the files: compare {' '.join(files)}"
            raise InvalidInputError(
                f"{self.where(again)}: {column!r} is {str(ids[again])!r}, as in "
                f"{self.where(first)}; "
                "ids must be unique: drop one, specify another column with `id`, or pass "
                f"keyed=False (with group={column!r} if rows that share it belong together)"
                f"{other if files[0] != files[1] else ''}"
            )
        return replace(self, id=column, ids=ids).take(order)

    def unit_ids(self) -> NDArray[Any]:
        """Return the unit id of each row in records."""
        if self.ids is not None:
            return self.ids
        # Position in the files with leading zeros, so that text order is numeric order; built digit
        # by digit, which is ten times as fast as numpy's zfill.
        width = len(str(len(self.rows)))
        digits = self.origin[:, None] // 10 ** np.arange(width)[::-1] % 10 + ord("0")
        return np.ascontiguousarray(digits, dtype=np.uint32).view(f"<U{width}")[:, 0]

    def slices(self) -> list[tuple[str, IntArray | None]]:
        """Return "all", followed by every part of every ``--by`` column, with its rows."""
        return [
            (WHOLE, None),
            *(
                (format_part({column: name}), rows)
                for column, parts in self.parts.items()
                for name, rows in parts.rows_of()
            ),
        ]


def read_predictions(source: Any, wanted: Wanted | None = None) -> Predictions:
    r"""Read and check predictions; rows are sorted by id if there are ids.

    Parameters
    ----------
    source : path, paths, DataFrame, mapping of columns or sequence of mappings
        One or more files or globs, concatenated, or ``-`` for standard input: CSV, TSV, JSONL,
        JSON, Parquet or Excel, also gzipped. Or rows in memory: a pandas or polars DataFrame, a
        pyarrow Table, a dict of columns or a list of dicts.
    wanted : Wanted, optional
        Roles of the columns. By default they are found by their names: label, y_true, y, target,
        class, truth and similar names; score, prob, probability, p, proba, prediction and similar
        names; unit_id, row_id, id, or another name that ends in id, such as message_id, whose
        values are unique. `Predictions.notes` lists the guessed columns.

    Returns
    -------
    Predictions
        Labels and scores; ids, groups, parts, texts and weights if their columns are specified.

    Raises
    ------
    ArtifactError
        If a file is missing, empty or malformed.
    MissingColumnError
        If a column is missing, or several columns fit a role.
    InvalidInputError
        If a label is neither 0 nor 1 nor one of two words with a known positive class, a score is
        not finite, or an id is missing or occurs twice; the message shows the first five such
        rows.
    InvalidTypeError
        If ``source`` has another type.

    Examples
    --------
    >>> rows = {"id": ["b", "a"], "label": ["TRUE", "0"], "score": [0.9, 0.2]}
    >>> found = read_predictions(rows)
    >>> found.ids.tolist(), found.y_true.tolist(), found.scores["score"].tolist()
    (['a', 'b'], [False, True], [0.2, 0.9])
    """
    wanted = wanted or Wanted()
    name, names, read, peek = _opened(source, wanted.file_format)
    roles = Roles.of(name, names, wanted, peek)
    rows, percent, notes = _read(read, names[0], roles, wanted)
    values, label = rows.columns, roles.label
    labels = wanted.labels
    if labels is None and values[label].dtype.kind != "f":
        labels = tables.usual_labels(values[label])
        if labels is not None:
            negative, positive = labels.classes
            notes.append(f"positive: {positive!r}, negative: {negative!r}")
    scores = {one: values[one] for one in roles.scores}
    if wanted.scale is not None:
        scores, converted = _scaled(scores, wanted.scale, percent)
        notes += converted
    found = Predictions(
        rows=rows,
        origin=np.arange(len(rows)),
        label=label,
        y_true=rows.classes(label, labels, remedy=DROP),
        scores=scores,
        parts={column: _parts(rows, column) for column in roles.by},
        groups=None if roles.group is None else _groups(rows, roles.group),
        hashes=None if roles.hashes is None else _filled(values[roles.hashes]),
        texts=None if roles.text is None else values[roles.text],
        weights=None if roles.weight is None else _weights(rows, roles.weight),
        notes=(*roles.guessed(wanted), *notes),
    )
    key = wanted.id or unique_key(values, roles.keys) or _once_in_each(values, roles.keys, names)
    return found if key is None else found.keyed_by(key)


def _once_in_each(
    values: Mapping[str, NDArray[Any]], keys: Sequence[str], files: Sequence[Any]
) -> str | None:
    """Return a column whose values occur once in each of several files, as of the same rows."""
    if len(files) < 2:
        return None
    counted = (Counter(values[name].tolist()) for name in keys)
    return next(
        (key for key, n in zip(keys, counted, strict=True) if {*n.values()} == {len(files)}), None
    )


def _read(
    read: Callable[..., Rows], have: Sequence[str], roles: Roles, wanted: Wanted
) -> tuple[Rows, Sequence[str], list[str]]:
    """Return the rows, the columns with percent signs, and notes on conversions."""
    if not wanted.where and not wanted.drop_missing:
        # A column may be both label and slice: it is then read as text, and classes derive from it.
        as_text = bool(wanted.labels) or roles.label in roles.texts
        try:
            rows = read(
                numbers=roles.numbers,
                texts=[*roles.texts, *([roles.label] if wanted.labels else [])],
                labels=[] if as_text else [roles.label],
            )
            return rows, (), []
        except tables.NotNumbersError:  # percent signs, or missing values
            pass
    from eval_toolkit.loaders.string_rows import read_as_written

    key, sure = roles.keys[:1], (*IDS, wanted.id)  # others may be empty, such as parent_id
    found = read_as_written(
        read,
        have,
        numbers=roles.numbers,
        texts=roles.texts,
        label=roles.label,
        needed=[*([roles.group] if roles.group else []), *(one for one in key if one in sure)],
        where=wanted.where,
        drop_missing=wanted.drop_missing,
        decimal=wanted.file_format.decimal,
    )
    signs = [f"{one!r} has percent signs: divided by 100" for one in found.percent]
    return found.rows, found.percent, [*found.notes, *signs]


def _scaled(
    scores: dict[str, FloatArray], scale: Scale, percent: Sequence[str]
) -> tuple[dict[str, FloatArray], list[str]]:
    """Return scores as probabilities, with notes; those with percent signs are already converted."""
    if scale == "percent":
        others = [name for name in scores if name not in percent]
        made = {name: column / 100 if name in others else column for name, column in scores.items()}
        return made, ["scores divided by 100"] if others else []
    if scale == "logit":
        from scipy.special import expit

        made = {name: np.asarray(expit(column)) for name, column in scores.items()}
        return made, ["scores converted from log-odds to probabilities"]
    return scores, []


def _opened(
    source: Any, file_format: FileFormat
) -> tuple[str, list[list[str]], Callable[..., Rows], Peek]:
    """Return the name of a source, the columns of its files, a reader, and a view of some rows."""
    if isinstance(source, (str, Path)) or (
        isinstance(source, (list, tuple)) and all(isinstance(one, (str, Path)) for one in source)
    ):
        files = tables.expand_paths(source)
        names = [tables.column_names(file, file_format) for file in files]

        def peek(n: int) -> dict[str, NDArray[Any]]:
            read = tables.read_table(files[:1], file_format=file_format, pick=RowPick(limit=n))
            return {name: column for name, column in read.items() if name in names[0]}

        read = partial(read_rows, files, file_format=file_format)
        return tables.shown(files[0]), names, read, peek
    frame = _columns_of(source) if isinstance(source, (list, tuple)) else source
    if not frames.n_rows(frame):
        raise InvalidInputError("the data has no rows")
    names = [frames.names(frame)]
    column = partial(frames.column, frame)
    return (
        "the data",
        names,
        partial(tables.rows_of, column),
        lambda n: {name: column(name)[:n] for name in names[0]},
    )


def _columns_of(rows: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the columns of a list of mappings; None for missing keys."""
    for at, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise InvalidTypeError(f"row {at + 1} is {row!r:.60}; every row must be a mapping")
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _parts(rows: Rows, column: str) -> Parts:
    parts = coded(rows.columns[column], column)
    if parts.names.count(MISSING) > 1:
        value = np.equal(rows.columns[column], MISSING)
        raise InvalidInputError(
            f"{rows.where(int(np.argmax(value)))}: {column!r} is {MISSING!r}, which is reserved "
            "for missing values; rename it"
        )
    if len(parts.names) > MAX_PARTS:
        raise InvalidInputError(
            f"{rows.name}: `by` {column} has {len(parts.names)} different values; "
            f"at most {MAX_PARTS} slices are reported"
        )
    return parts


def _groups(rows: Rows, column: str) -> Parts:
    _all_there(rows, column, "group")
    return coded(rows.columns[column], column)


def _weights(rows: Rows, column: str) -> FloatArray:
    weights: FloatArray = rows.columns[column]
    if weights.min() < 0.0:
        row = int(np.argmax(weights < 0.0))
        raise InvalidInputError(
            f"{rows.where(row)}: {column!r} is {weights[row]:g}; weights must not be negative"
        )
    return weights


def _all_there(rows: Rows, column: str, what: str) -> None:
    missing = np.equal(rows.columns[column], None)  # type: ignore[call-overload]
    if missing.any():
        where = rows.where(int(np.argmax(missing)))
        remedy = ", or pass keyed=False" if what == "id" else ""
        raise InvalidInputError(
            f"{where}: {column!r} is missing; every row needs its {what}{remedy}"
        )


def _filled(column: NDArray[Any]) -> NDArray[Any]:
    """Return strings with "" for missing values."""
    return np.where(np.equal(column, None), "", column)  # type: ignore[call-overload]
