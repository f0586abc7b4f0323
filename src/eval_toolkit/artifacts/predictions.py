"""In-memory predictions, and verified writing and loading of prediction files."""

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eval_toolkit._internal import tables, validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.hashing import content_hash, sha256_file
from eval_toolkit._internal.options import gathers
from eval_toolkit._internal.validation import FloatArray, IntArray
from eval_toolkit.artifacts.readers import local_file, reader_for
from eval_toolkit.artifacts.refs import PredictionArtifactRef, PredictionColumns
from eval_toolkit.artifacts.remote import address_of, is_remote, local_path, name_of, send
from eval_toolkit.errors import ArtifactError, InvalidInputError, InvalidTypeError
from eval_toolkit.protocols import PredictionReader
from eval_toolkit.scorecards import Records

_TEXTS = {
    "row_ids": "row_id",
    "content_hashes": "content_hash",
    "groups": "group",
    "slices": "slice",
    "scorers": "scorer",
}
"""String fields of `PredictionArrays`, with their columns."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PredictionArrays(Displayed):
    """Stored predictions, one entry per row; fields missing from the file are empty tuples.

    Raises
    ------
    InvalidInputError
        If a label is neither 0 nor 1, a score is not finite, or lengths differ.

    Examples
    --------
    >>> arrays = PredictionArrays([0, 1], [0.2, 0.9], row_ids=["a", "b"])
    >>> arrays
    PredictionArrays(n=2, n_positive=1)
    >>> arrays.row_ids
    ('a', 'b')
    """

    labels: IntArray
    scores: FloatArray
    row_ids: tuple[str, ...] = ()
    content_hashes: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    slices: tuple[str, ...] = ()
    scorers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        labels = validation.binary_labels(self.labels, "labels").astype(np.int64)
        scores = validation.vector(self.scores, "scores")
        validation.same_length(labels, scores, ("labels", "scores"))
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "scores", scores)
        for name in _TEXTS:
            values = tuple(map(str, getattr(self, name)))
            if values and len(values) != len(labels):
                raise InvalidInputError(
                    f"`{name}` has {len(values)} entries but `labels` has {len(labels)}"
                )
            object.__setattr__(self, name, values)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"PredictionArrays(n={len(self)}, n_positive={int(self.labels.sum())})"

    def take(self, rows: ArrayLike) -> "PredictionArrays":
        """Return the rows at the given positions or under a mask."""
        at = np.asarray(rows)
        at = np.flatnonzero(at) if at.dtype == np.bool_ else at.astype(np.int64)
        texts = {
            name: tuple(getattr(self, name)[i] for i in at.tolist()) if getattr(self, name) else ()
            for name in _TEXTS
        }
        return PredictionArrays(self.labels[at], self.scores[at], **texts)

    def where(self, *, scorer: str | None = None, slice: str | None = None) -> "PredictionArrays":  # noqa: A002 - the column's name
        """Return the rows of one scorer or slice, for files with several.

        Examples
        --------
        >>> arrays = PredictionArrays([0, 1], [0.2, 0.9], scorers=["a", "b"])
        >>> arrays.where(scorer="b").scores
        array([0.9])
        """
        keep = np.ones(len(self), dtype=np.bool_)
        for name, wanted, have in (
            ("scorer", scorer, self.scorers),
            ("slice", slice, self.slices),
        ):
            if wanted is None:
                continue
            if wanted not in have:
                raise InvalidInputError(
                    f"no {name} {wanted!r}; available: {sorted(set(have)) or 'none'}"
                )
            keep &= np.array([value == wanted for value in have])
        if not keep.any():
            raise InvalidInputError(f"no row has both scorer {scorer!r} and slice {slice!r}")
        return self.take(keep)

    def records(self) -> Records:
        """Return the rows as records with the columns ``label`` and ``score``."""
        parts = {"slice": self.slices, "scorer": self.scorers}
        return Records.from_columns(
            {"label": self.labels.astype(np.float64), "score": self.scores},
            unit_id=self.row_ids or None,
            content_hash=self.content_hashes or None,
            group=self.groups or None,
            slices={name: values for name, values in parts.items() if values},
        )


def load_predictions(
    ref: PredictionArtifactRef | Mapping[str, Any],
    *,
    reader: PredictionReader | None = None,
    base: str | Path | None = None,
) -> PredictionArrays:
    """Load stored predictions and verify the hash and row count of their reference.

    Parameters
    ----------
    ref : PredictionArtifactRef or mapping
        Reference, or its ``to_dict()``.
    reader : PredictionReader, optional
        Reader of the file; by default the built-in one for ``ref.media_type``. A custom reader
        receives the URI unchanged, or a verified copy if there is a hash.
    base : path, optional
        Base folder of relative paths; the current folder by default.

    Returns
    -------
    PredictionArrays
        Labels and scores; also ids, hashes, groups, slices and scorers, if the reference names
        their columns.

    Raises
    ------
    ArtifactError
        If the file is missing or malformed, or its hash or row count differs.
    InvalidInputError
        If a column is missing, a cell is empty, a label is neither 0 nor 1 or a score is not
        finite; the message names the file and the row. Also if the media type has no reader.
    MissingExtraError
        If the path is a URL and fsspec is not installed.

    Examples
    --------
    >>> import tempfile
    >>> ref = write_predictions(tempfile.mkdtemp() + "/p.csv", labels=[0, 1], scores=[0.2, 0.9])
    >>> load_predictions(ref).scores
    array([0.2, 0.9])
    """
    if not isinstance(ref, PredictionArtifactRef):
        ref = PredictionArtifactRef.from_dict(ref)
    shown = address_of(ref.uri)
    chosen = reader or reader_for(ref.media_type)
    names = {"label": ref.columns.label, "score": ref.columns.score}
    names |= {role: getattr(ref.columns, role) for role in _TEXTS.values()}
    names = {role: name for role, name in names.items() if name is not None}
    if reader is not None and not ref.sha256:
        where = ref.uri if is_remote(ref.uri) else str(local_path(ref.uri, base))
        table = chosen.read_predictions(where, columns=names)
    else:
        with local_file(ref.uri, base) as path:
            _check_hash(path, ref)
            table = _read(chosen, path, names, shown)
    n_rows = len(_cells(table, ref.columns.label, shown))
    if ref.n_rows is not None and ref.n_rows != n_rows:
        raise ArtifactError(f"{shown}: has {n_rows} rows, but the reference states {ref.n_rows}")
    if not n_rows:
        raise ArtifactError(f"{shown}: has no rows")
    return PredictionArrays(
        _labels(_cells(table, names["label"], shown), names["label"], shown),
        _scores(_cells(table, names["score"], shown), names["score"], shown),
        **{
            field: _texts(_cells(table, names[role], shown), names[role], shown)
            for field, role in _TEXTS.items()
            if role in names
        },
    )


def _read(
    reader: PredictionReader, path: Path, names: Mapping[str, str], uri: str
) -> Mapping[str, Any]:
    try:
        return reader.read_predictions(str(path), columns=names)
    except (ArtifactError, InvalidInputError) as error:
        if str(path) == uri:
            raise
        # report the original location, not the copy's
        raise type(error)(str(error).replace(str(path), uri)) from error


def _check_hash(path: Path, ref: PredictionArtifactRef) -> None:
    shown = address_of(ref.uri)
    if not path.is_file():
        raise ArtifactError(f"{shown}: no such file")
    if not ref.sha256:
        return
    found = sha256_file(path)
    if found != ref.sha256:
        raise ArtifactError(
            f"{shown}: the file has changed: its sha256 is {found[:12]}…, but the reference states "
            f"{ref.sha256[:12]}…"
        )


def _cells(table: Mapping[str, Any], name: str, uri: str) -> Any:
    if name not in table:
        raise InvalidInputError(f"{uri}: the reader returned no column {name!r}")
    return table[name]


def _numbers(cells: Any, name: str, uri: str) -> FloatArray:
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
        return cells.astype(np.float64)
    numbers = np.empty(len(cells))
    for row, cell in enumerate(cells):
        try:
            numbers[row] = float(cell)
        except (TypeError, ValueError):
            what = "is missing" if cell is None else f"is {cell!r}"
            raise InvalidInputError(
                f"{uri}: row {row + 1}: {name!r} {what}; it must be a number"
            ) from None
    return numbers


def _labels(cells: Any, name: str, uri: str) -> NDArray[np.int64]:
    column = np.asarray(cells)
    if column.dtype.kind not in "biuf":
        column = np.asarray(cells, dtype=object)
    found = tables.classes_of(column, place=lambda row: (uri, f"row {row + 1}"), column=name)
    return found.astype(np.int64)


def _scores(cells: Any, name: str, uri: str) -> FloatArray:
    numbers = _numbers(cells, name, uri)
    for row in np.flatnonzero(~np.isfinite(numbers))[:1]:
        raise InvalidInputError(
            f"{uri}: row {row + 1}: {name!r} is {numbers[row]}; scores must be finite"
        )
    return numbers


def _texts(cells: Any, name: str, uri: str) -> tuple[str, ...]:
    texts = []
    for row, cell in enumerate(cells):
        if cell is None or cell == "" or (isinstance(cell, float) and math.isnan(cell)):
            raise InvalidInputError(
                f"{uri}: row {row + 1}: {name!r} is missing; every row needs a value"
            )
        texts.append(str(cell))
    return tuple(texts)


class _RowsColumns(TypedDict, total=False):
    """Optional columns of predictions."""

    row_ids: Sequence[Any] | None
    texts: Sequence[Any] | None
    content_hashes: Sequence[str] | None
    groups: Sequence[Any] | None
    slices: Sequence[str] | None
    scorers: Sequence[str] | None


@gathers(
    _RowsColumns,
    row_ids=None,
    texts=None,
    content_hashes=None,
    groups=None,
    slices=None,
    scorers=None,
)
def write_predictions(
    path: str | Path,
    *,
    labels: ArrayLike,
    scores: ArrayLike,
    columns: Mapping[str, ArrayLike] | None = None,
    role: str | Sequence[str] = "predictions",
    media_type: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    **known: Unpack[_RowsColumns],
) -> PredictionArtifactRef:
    """Write predictions atomically and return a reference that identifies them.

    Parameters
    ----------
    path : path or URL
        Target file: CSV, TSV, JSONL or Parquet, according to its suffix. Equal predictions give
        equal bytes. The URL must be writable with fsspec, such as ``s3://bucket/p.parquet``.
    labels, scores : array-like of shape (n,)
        0/1 labels and finite scores.
    row_ids : sequence, optional
        Unique row ids; needed to pair this file with another regardless of row order.
    texts : sequence, optional
        Scored texts. Only a hash of text and label is stored, as ``content_hash``.
    content_hashes : sequence of str, optional
        Precomputed hashes, instead of ``texts``.
    groups, slices, scorers : sequence, optional
        Stored in the columns ``group``, ``slice`` and ``scorer``.
    columns : mapping of str to array-like, optional
        Additional columns to store.
    role, metadata
        As in `PredictionArtifactRef`.
    media_type : str, optional
        Media type; inferred from the file name by default.

    Returns
    -------
    PredictionArtifactRef
        Reference with hash and row count.

    Raises
    ------
    InvalidInputError
        If lengths differ, an id is missing or duplicated, a column name is already used, or the
        media type has no reader.
    ArtifactError, MissingExtraError
        If a URL is not writable, or a package it needs is not installed.

    Examples
    --------
    >>> import tempfile
    >>> ref = write_predictions(
    ...     tempfile.mkdtemp() + "/p.csv", labels=[0, 1], scores=[0.2, 0.9], row_ids=["a", "b"]
    ... )
    >>> ref.n_rows, len(ref.sha256), ref.columns.row_id
    (2, 64, 'row_id')
    """
    if known["texts"] is not None and known["content_hashes"] is not None:
        raise InvalidInputError("pass either `texts` or `content_hashes`, not both")
    where = str(path)
    media = media_type or tables.media_type_of(name_of(where) if is_remote(where) else where)
    reader_for(media)  # refuse to write what cannot be loaded
    truth, values = validation.binary_pair(labels, scores, score_name="scores")
    if known["texts"] is not None:
        _same(known["texts"], "texts", len(truth))
        known["content_hashes"] = [
            content_hash(text, int(label))
            for text, label in zip(known["texts"], truth, strict=True)
        ]
    given = {
        "row_id": known["row_ids"],
        "content_hash": known["content_hashes"],
        "group": known["groups"],
        "slice": known["slices"],
        "scorer": known["scorers"],
    }
    present = {
        name: _given(column, name, len(truth))
        for name, column in given.items()
        if column is not None
    }
    _unique(present)
    table: dict[str, Any] = {"label": truth.astype(np.int64), "score": values, **present}
    for name, column in (columns or {}).items():
        if name.lower() in {taken.lower() for taken in table}:
            raise InvalidInputError(
                f"`columns` has the name {name!r}, which is already used by another column"
            )
        table[name] = column
        _same(column, name, len(truth))
    digest = _written(table, where, media)
    return PredictionArtifactRef(
        uri=where,
        media_type=media,
        columns=PredictionColumns.from_dict({name: name for name in ("label", "score", *present)}),
        sha256=digest,
        n_rows=len(truth),
        role=role,
        metadata=dict(metadata or {}),
    )


def _written(table: Mapping[str, Any], where: str, media: str) -> str:
    """Write a table to a path or a URL and return its hash."""
    if not is_remote(where):
        return sha256_file(tables.write_table(table, local_path(where), media_type=media))
    with tempfile.TemporaryDirectory(prefix="eval-toolkit-") as folder:
        made = tables.write_table(table, Path(folder) / name_of(where), media_type=media)
        send(made, where)
        return sha256_file(made)


def _same(column: Any, name: str, n: int) -> None:
    if isinstance(column, (str, bytes)) or not hasattr(column, "__len__"):
        raise InvalidTypeError(f"`{name}` must be a sequence, one entry per row, got {column!r}")
    if len(column) != n:
        raise InvalidInputError(f"`{name}` has {len(column)} entries but `labels` has {n}")


def _given(column: Sequence[Any], name: str, n: int) -> NDArray[Any]:
    _same(column, name, n)
    texts = np.empty(n, dtype=object)
    for row, value in enumerate(column):
        if validation.is_missing(value) or value == "":
            raise InvalidInputError(f"{name}[{row}] is missing; every row needs a value")
        texts[row] = str(value)
    return texts


def _unique(columns: Mapping[str, NDArray[Any]]) -> None:
    """Raise if an id occurs twice for the same scorer and slice."""
    if "row_id" not in columns:
        return
    keys = [columns[name].tolist() for name in ("row_id", "slice", "scorer") if name in columns]
    seen: dict[tuple[str, ...], int] = {}
    for row, key in enumerate(zip(*keys, strict=True)):
        first = seen.setdefault(key, row)
        if first != row:
            raise InvalidInputError(
                f"row_id[{row}] and row_id[{first}] are both {key[0]!r}; ids must be unique"
            )
