"""Row-wise pairing of two prediction files by row identity."""

from dataclasses import dataclass

import numpy as np

from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.validation import FloatArray, IntArray
from eval_toolkit.artifacts.predictions import PredictionArrays
from eval_toolkit.errors import ArtifactError


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PairedPredictions(Displayed):
    """Two scores per row with shared labels, sorted by id; ``note`` lists omitted checks."""

    labels: IntArray
    scores_a: FloatArray
    scores_b: FloatArray
    row_ids: tuple[str, ...] = ()
    content_hashes: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    note: str = ""

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        note = f", note={self.note!r}" if self.note else ""
        return f"PairedPredictions(n={len(self)}{note})"


def pair_predictions(
    a: PredictionArrays,
    b: PredictionArrays,
    *,
    names: tuple[str, str] = ("baseline", "candidate"),
) -> PairedPredictions:
    """Join two sets of predictions on ``row_id`` and check that they describe the same rows.

    Parameters
    ----------
    a, b : PredictionArrays
        Predictions of the same rows, in any order.
    names : tuple of two str
        Names used in error messages.

    Returns
    -------
    PairedPredictions
        Pairs sorted by id. Without content hashes on both sides, rows are paired only by id;
        without ids, only by position; ``note`` states this.

    Raises
    ------
    ArtifactError
        If only one side has ids, an id is duplicated or missing on one side, or a row's content
        hash, label or group differs.

    Examples
    --------
    >>> a = PredictionArrays([0, 1], [0.1, 0.9], row_ids=["x", "y"], content_hashes=["h", "i"])
    >>> b = PredictionArrays([1, 0], [0.8, 0.3], row_ids=["y", "x"], content_hashes=["i", "h"])
    >>> pair_predictions(a, b).scores_b
    array([0.3, 0.8])
    """
    notes: list[str] = []
    if bool(a.row_ids) != bool(b.row_ids):
        without, with_ = names if b.row_ids else names[::-1]
        raise ArtifactError(
            f"{without} has no row ids but {with_} does; specify the id column of both files"
        )
    if a.row_ids:
        a, b = _by_id(a, b, names)
    else:
        if len(a) != len(b):
            raise ArtifactError(
                f"{names[0]} has {len(a)} rows and {names[1]} has {len(b)}; without row ids, both "
                "must contain the same rows in the same order"
            )
        notes.append("no row ids: rows were paired by position")
    if a.content_hashes and b.content_hashes:
        _same(a.content_hashes, b.content_hashes, "content hash", a.row_ids, names)
    else:
        lacking = [
            name for name, side in zip(names, (a, b), strict=True) if not side.content_hashes
        ]
        notes.append(
            f"no content hashes in {' and '.join(lacking)}: the content of paired rows "
            "was not compared"
        )
    _same(a.labels.tolist(), b.labels.tolist(), "label", a.row_ids, names)
    if a.groups and b.groups:
        _same(a.groups, b.groups, "group", a.row_ids, names)
    return PairedPredictions(
        labels=a.labels,
        scores_a=a.scores,
        scores_b=b.scores,
        row_ids=a.row_ids,
        content_hashes=a.content_hashes or b.content_hashes,
        groups=a.groups or b.groups,
        note="; ".join(notes),
    )


def _by_id(
    a: PredictionArrays, b: PredictionArrays, names: tuple[str, str]
) -> tuple[PredictionArrays, PredictionArrays]:
    rows_a, rows_b = _rows(a, names[0]), _rows(b, names[1])
    for have, other, where in ((rows_a, rows_b, names), (rows_b, rows_a, names[::-1])):
        lost = sorted(have.keys() - other.keys())
        if lost:
            raise ArtifactError(
                f"{len(lost)} of {len(have)} row ids of {where[0]} are not in {where[1]}, such "
                f"as {lost[0]!r}; both must contain the same rows"
            )
    order = sorted(rows_a)
    return (
        a.take(np.array([rows_a[key] for key in order])),
        b.take(np.array([rows_b[key] for key in order])),
    )


def _rows(side: PredictionArrays, name: str) -> dict[str, int]:
    rows: dict[str, int] = {}
    for row, key in enumerate(side.row_ids):
        first = rows.setdefault(key, row)
        if first != row:
            raise ArtifactError(
                f"{name}: rows {first + 1} and {row + 1} have the row id {key!r}; ids must be "
                "unique (select one scorer or slice with `where`)"
            )
    return rows


def _same(
    a: tuple[str, ...] | list[int],
    b: tuple[str, ...] | list[int],
    what: str,
    ids: tuple[str, ...],
    names: tuple[str, str],
) -> None:
    differing = [row for row, (one, two) in enumerate(zip(a, b, strict=True)) if one != two]
    if differing:
        row = differing[0]
        where = f"id {ids[row]!r}" if ids else f"row {row + 1}"
        raise ArtifactError(
            f"{len(differing)} of {len(a)} rows differ in {what} between {names[0]} and {names[1]}, "
            f"first at {where}: {a[row]!r} and {b[row]!r}; both must contain the same rows"
        )
