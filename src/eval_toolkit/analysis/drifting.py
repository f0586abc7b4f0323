"""Drift: comparison of two stored sets of predictions for equality, row by row."""

from dataclasses import dataclass
from typing import Any, SupportsFloat

import numpy as np

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit.analysis.predictions import Ref, one_subject
from eval_toolkit.artifacts import PredictionArrays, load_predictions
from eval_toolkit.errors import ArtifactError
from eval_toolkit.protocols import PredictionReader


@dataclass(frozen=True, slots=True)
class MovedRow(Displayed):
    """A row whose score changed.

    Examples
    --------
    >>> MovedRow("r1", 0.25, 0.75).delta
    0.5
    """

    row_id: str
    score_a: float
    score_b: float

    @property
    def delta(self) -> float:
        """Score in B − score in A."""
        return self.score_b - self.score_a


@dataclass(frozen=True, slots=True, repr=False)
class Drift(Displayed):
    """Differences between two stored sets of predictions.

    Examples
    --------
    >>> Drift(n_common=10, tolerance=0.0).same
    True
    """

    n_common: int
    """Number of rows in both files."""
    tolerance: float
    only_in_a: tuple[str, ...] = ()
    only_in_b: tuple[str, ...] = ()
    changed_hash: tuple[str, ...] = ()
    """Rows with the same id but different content."""
    changed_label: tuple[str, ...] = ()
    moved: tuple[MovedRow, ...] = ()
    """Rows whose score changed by more than the tolerance, largest change first."""
    max_abs_delta: float | None = None
    """Largest change over the common rows; None without common rows."""
    mean_abs_delta: float | None = None
    note: str = ""
    """Checks that could not be performed."""

    @property
    def same(self) -> bool:
        """Whether both files have the same rows with the same labels, contents and scores."""
        return not (
            self.only_in_a
            or self.only_in_b
            or self.changed_hash
            or self.changed_label
            or self.moved
        )

    @property
    def changed_score(self) -> tuple[str, ...]:
        """Ids of the rows whose score changed, largest change first."""
        return tuple(row.row_id for row in self.moved)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "same": self.same,
            "n_common": self.n_common,
            "tolerance": self.tolerance,
            "only_in_a": list(self.only_in_a),
            "only_in_b": list(self.only_in_b),
            "changed_hash": list(self.changed_hash),
            "changed_label": list(self.changed_label),
            "moved": [
                {"row_id": row.row_id, "score_a": row.score_a, "score_b": row.score_b}
                for row in self.moved
            ],
            "max_abs_delta": self.max_abs_delta,
            "mean_abs_delta": self.mean_abs_delta,
            "note": self.note,
        }


def drift(
    ref_a: Ref,
    ref_b: Ref,
    *,
    tolerance: SupportsFloat = 0.0,
    reader_a: PredictionReader | None = None,
    reader_b: PredictionReader | None = None,
    scorer: str | None = None,
    slice: str | None = None,  # noqa: A002 - the column's name
) -> Drift:
    """Compare two stored sets of predictions and list the rows that differ.

    Parameters
    ----------
    ref_a, ref_b : PredictionArtifactRef or mapping
        References to predictions with a ``row_id`` column. The order of the rows does not matter.
    tolerance : float, default 0.0
        Largest difference in scores that is not considered a change.
    reader_a, reader_b : PredictionReader, optional
        Custom readers for other formats.
    scorer, slice : str, optional
        Scorer and slice to compare; required if a file contains several.

    Returns
    -------
    Drift
        Result with ``same`` and the ids of rows that were added, lost, relabelled, changed in
        content or scored differently.

    Raises
    ------
    ArtifactError
        If a file has no row ids or duplicate ids, or is missing, altered or malformed.
    InvalidInputError
        If a file contains several scorers or slices and none is selected.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.artifacts import write_predictions
    >>> folder = tempfile.mkdtemp()
    >>> a = write_predictions(
    ...     folder + "/a.csv", labels=[0, 1], scores=[0.2, 0.9], row_ids=["x", "y"]
    ... )
    >>> b = write_predictions(
    ...     folder + "/b.csv", labels=[1, 0], scores=[0.8, 0.2], row_ids=["y", "x"]
    ... )
    >>> result = drift(a, b)
    >>> result.same, result.changed_score, round(result.max_abs_delta, 6)
    (False, ('y',), 0.1)
    """
    limit = validation.number(tolerance, "tolerance", low=0.0)
    a, b = (
        side.take(one_subject(side, scorer=scorer, slice=slice, name=name))
        for name, side in (
            ("A", load_predictions(ref_a, reader=reader_a)),
            ("B", load_predictions(ref_b, reader=reader_b)),
        )
    )
    rows_a, rows_b = _by_id(a, "A"), _by_id(b, "B")
    common = sorted(rows_a.keys() & rows_b.keys())
    at_a = np.array([rows_a[key] for key in common], dtype=np.int64)
    at_b = np.array([rows_b[key] for key in common], dtype=np.int64)
    hashed = bool(a.content_hashes and b.content_hashes)
    change = np.abs(b.scores[at_b] - a.scores[at_a])
    # Largest change first; equal changes by id.
    order = [row for row in np.argsort(-change, kind="stable").tolist() if change[row] > limit]
    return Drift(
        n_common=len(common),
        tolerance=limit,
        only_in_a=tuple(sorted(rows_a.keys() - rows_b.keys())),
        only_in_b=tuple(sorted(rows_b.keys() - rows_a.keys())),
        changed_hash=tuple(
            key
            for key in common
            if hashed and a.content_hashes[rows_a[key]] != b.content_hashes[rows_b[key]]
        ),
        changed_label=tuple(
            key
            for key, differs in zip(common, a.labels[at_a] != b.labels[at_b], strict=True)
            if differs
        ),
        moved=tuple(
            MovedRow(common[row], float(a.scores[at_a[row]]), float(b.scores[at_b[row]]))
            for row in order
        ),
        max_abs_delta=float(change.max()) if common else None,
        mean_abs_delta=float(change.mean()) if common else None,
        note=""
        if hashed
        else "content hashes are missing, so changes in content cannot be detected",
    )


def _by_id(arrays: PredictionArrays, side: str) -> dict[str, int]:
    """Return the position of each row id; raise if there are no ids."""
    if not arrays.row_ids:
        raise ArtifactError(
            f"{side} has no row ids; specify the id column (row_id) so that rows can be matched"
        )
    return {key: row for row, key in enumerate(arrays.row_ids)}
