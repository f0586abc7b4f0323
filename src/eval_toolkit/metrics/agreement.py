"""Inter-rater agreement: Cohen's kappa and Krippendorff's alpha."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import (
    FloatArray,
    IntArray,
    group_codes,
    identifiers,
    sample_weights,
)
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError

KappaWeights: TypeAlias = Literal["linear", "quadratic"] | None
MeasurementLevel: TypeAlias = Literal["nominal", "ordinal", "interval", "ratio"]

_MAX_VALUES = {"nominal": 2000, "ratio": 2000, "ordinal": 64}
"""Maximum number of distinct values; memory grows with its square (per unit for ordinal data)."""


def cohen_kappa(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    weights: KappaWeights = None,
    labels: Sequence[Any] | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return Cohen's kappa, the chance-corrected agreement between two label vectors.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n,)
        Class labels of the same rows: integers, booleans or strings, any number of classes.
    weights : {None, "linear", "quadratic"}, default None
        Weighting of disagreements: equal, or linear or quadratic in the distance of ordered
        classes.
    labels : sequence, optional
        Classes in order; by default sorted. Must contain every label.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the rows.

    Returns
    -------
    float
        A value in [-1, 1]; 0 is chance, 1 is perfect agreement.

    Raises
    ------
    InvalidInputError
        If the vectors are empty, not 1-D or differ in length, or a value is not in ``labels``.
    UndefinedMetricError
        If both vectors contain only one and the same label, so chance agreement is perfect.

    Notes
    -----
    ``1 − d_o / d_e`` where d_o is the observed disagreement, and d_e the expected disagreement of
    independent raters with the same marginals [1]_, [2]_. Agrees with
    ``sklearn.metrics.cohen_kappa_score`` to 1e-12. See `kappa_interval` for an interval.

    References
    ----------
    .. [1] Cohen (1960), Educational and Psychological Measurement 20(1):37-46.
    .. [2] Cohen (1968), Psychological Bulletin 70(4):213-220.

    Examples
    --------
    >>> cohen_kappa(["cat", "dog", "cat", "dog"], ["cat", "dog", "dog", "dog"])
    0.5
    >>> cohen_kappa([1, 2, 3, 3], [1, 2, 3, 2], weights="quadratic")
    0.8
    """
    first, second, n_classes = paired_codes(y_true, y_pred, ("y_true", "y_pred"), labels)
    chosen = kappa_weights(weights)
    row_weights = sample_weights(sample_weight, len(first))
    observed = float(np.average(_penalty(first - second, chosen), weights=row_weights))
    first_share, second_share = (
        _shares(np.bincount(codes, row_weights, n_classes)) for codes in (first, second)
    )
    if chosen is None:  # avoid a matrix over all pairs of classes
        by_chance = float(first_share @ (1.0 - second_share))
    else:
        by_chance = float(first_share @ penalties(n_classes, chosen) @ second_share)
    if by_chance == 0.0:
        raise UndefinedMetricError(
            "cohen_kappa is undefined: all labels in both vectors are the same"
        )
    return 1.0 - observed / by_chance


def krippendorff_alpha(
    ratings: Sequence[Any] | NDArray[Any],
    *,
    level: MeasurementLevel = "nominal",
    labels: Sequence[Any] | None = None,
) -> float:
    """Return Krippendorff's alpha for several raters; ratings may be missing.

    Parameters
    ----------
    ratings : sequence of shape (n_raters, n_units)
        One row of ratings per rater; None or NaN if missing. Ratings are numbers, or strings if the
        level is nominal or ``labels`` are given.
    level : {"nominal", "ordinal", "interval", "ratio"}, default "nominal"
        Level of measurement of the ratings.
    labels : sequence, optional
        Possible ratings in order, for ordinal strings.

    Returns
    -------
    float
        A value of at most 1: 1 is perfect agreement, 0 is chance agreement, and negative values
        indicate systematic disagreement.

    Raises
    ------
    InvalidInputError
        If rows differ in length, or the ratings do not fit the level.
    UndefinedMetricError
        If no unit has two ratings, or all ratings are the same.

    Notes
    -----
    ``1 − D_o / D_e``, computed from pairs of ratings of the same unit [1]_; units with a single
    rating are ignored. Agrees with the package ``krippendorff`` to 1e-12. See `alpha_interval` for
    an interval.

    References
    ----------
    .. [1] Krippendorff (2011), Computing Krippendorff's alpha-reliability, University of
       Pennsylvania.

    Examples
    --------
    >>> round(krippendorff_alpha([[1, 2, 3, None], [1, 2, 4, 4]], level="interval"), 4)
    0.878
    """
    alpha = AlphaParts(ratings, level, labels)
    return alpha.value(alpha.parts.sum(axis=0))


class AlphaParts:
    """Krippendorff's alpha as a function of sums over units, for resampling."""

    def __init__(
        self, ratings: Any, level: MeasurementLevel, labels: Sequence[Any] | None = None
    ) -> None:
        self.level = validation.choice(level, "level", ("nominal", "ordinal", "interval", "ratio"))
        codes, values = _rating_codes(ratings, level, labels)
        self.n_values = len(values)
        if self.n_values > _MAX_VALUES.get(level, self.n_values):
            raise InvalidInputError(
                f"`ratings` has {self.n_values} distinct values; the limit for level={level!r} is "
                f"{_MAX_VALUES[level]}. Use level='interval' or coarser ratings"
            )
        self.rated = np.flatnonzero((codes >= 0).sum(axis=0) >= 2)
        """Units with at least two ratings."""
        if not len(self.rated):
            raise UndefinedMetricError("krippendorff_alpha is undefined: no unit has two ratings")
        codes = codes[:, self.rated]
        self.parts = self._moments(codes, values) if level == "interval" else self._counts(codes)
        if level in ("nominal", "ratio"):
            self.distances = _distances(values, level)
            counts = self.parts
            apart = np.einsum("uc,uc->u", counts @ self.distances, counts)
            self.parts = np.column_stack([apart / (counts.sum(axis=1) - 1.0), counts])
        elif level == "ordinal":  # ordinal distances depend on the value frequencies
            self.parts = _coincidences(self.parts)

    def _counts(self, codes: IntArray) -> FloatArray:
        """Return the count of each value by unit."""
        counts = np.zeros((codes.shape[1], self.n_values))
        for row in codes:
            there = np.flatnonzero(row >= 0)
            counts[there, row[there]] += 1.0
        return counts

    def _moments(self, codes: IntArray, values: FloatArray) -> FloatArray:
        """Return the sums and sums of squares by unit, which determine alpha for interval data."""
        there = codes >= 0
        x = np.where(there, values[codes], 0.0)
        x = np.where(there, x - x.sum() / there.sum(), 0.0)
        total, sums, squares = there.sum(axis=0), x.sum(axis=0), (x**2).sum(axis=0)
        apart = 2.0 * (total * squares - sums**2)
        return np.column_stack([apart / (total - 1.0), total, sums, squares])

    def value(self, sums: FloatArray) -> float:
        """Return alpha over all units."""
        alpha = float(self.values(sums[None])[0])
        if np.isnan(alpha):
            raise UndefinedMetricError("krippendorff_alpha is undefined: all ratings are the same")
        return alpha

    def values(self, sums: FloatArray) -> FloatArray:
        """Return alpha for each row of sums over units, NaN if all ratings are the same."""
        noise: float | FloatArray = 0.0
        if self.level == "ordinal":
            pairs = sums.reshape(-1, self.n_values, self.n_values)
            counts = pairs.sum(axis=2)
            middle = counts.cumsum(axis=1) - counts / 2.0
            distances = (middle[:, :, None] - middle[:, None, :]) ** 2
            observed = (pairs * distances).sum(axis=(1, 2))
            by_chance = np.einsum("rc,rcd,rd->r", counts, distances, counts, optimize=True)
            total = counts.sum(axis=1)
        elif self.level == "interval":
            observed, total = sums[:, 0], sums[:, 1]
            by_chance = 2.0 * (total * sums[:, 3] - sums[:, 2] ** 2)
            noise = 1e-12 * total * sums[:, 3]  # cancellation error
        else:
            observed, counts = sums[:, 0], sums[:, 1:]
            by_chance = ((counts @ self.distances) * counts).sum(axis=1)
            total = counts.sum(axis=1)
        varied = by_chance > noise
        expected = by_chance / np.maximum(total - 1.0, 1.0)
        return np.where(varied, 1.0 - observed / np.where(varied, expected, 1.0), np.nan)


def _coincidences(counts: FloatArray) -> FloatArray:
    """Return the flattened coincidence matrix of each unit."""
    others = (counts.sum(axis=1) - 1.0)[:, None, None]
    pairs = counts[:, :, None] * counts[:, None, :]
    own = np.arange(counts.shape[1])
    pairs[:, own, own] -= counts
    return np.asarray((pairs / others).reshape(len(counts), -1))


def _distances(values: FloatArray, level: str) -> FloatArray:
    """Return the squared difference for each pair of values."""
    if level == "nominal":
        return 1.0 - np.eye(len(values))
    apart = values[:, None] - values[None, :]
    both = values[:, None] + values[None, :]
    return np.asarray((apart / np.where(both > 0.0, both, 1.0)) ** 2)


def _rating_codes(
    ratings: Any, level: str, labels: Sequence[Any] | None
) -> tuple[IntArray, FloatArray]:
    """Return codes of the ratings (−1 if missing) and the distinct values."""
    rows = [list(row) for row in ratings]
    if len(rows) < 2 or not rows[0]:
        raise InvalidInputError(
            "`ratings` must have at least two rows, one per rater, and no empty row"
        )
    for i, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise InvalidInputError(
                f"ratings[{i}] has {len(row)} entries but ratings[0] has {len(rows[0])}; every "
                "rater needs one entry per unit, None for a missing rating"
            )
    flat = np.empty(len(rows) * len(rows[0]), dtype=object)
    flat[:] = [value for row in rows for value in row]
    given = np.array([not validation.is_missing(value) for value in flat])
    if not given.any():
        raise UndefinedMetricError("krippendorff_alpha is undefined: there are no ratings")
    codes = np.full(len(flat), -1, dtype=np.int64)
    codes[given], n_values = label_codes(flat[given], labels, "ratings")
    values = np.arange(n_values, dtype=np.float64)
    is_text = any(isinstance(value, str) for value in flat[given])
    if is_text and level != "nominal" and labels is None:
        raise InvalidInputError(
            f"`ratings` contains strings, which have no {level} scale; pass `labels` in order (for "
            "level='ordinal') or numbers"
        )
    if level in ("interval", "ratio"):
        values[codes[given]] = validation.vector(flat[given], "ratings")
        if level == "ratio" and values.min() < 0.0:
            raise InvalidInputError(
                "`ratings` contains a negative number; level='ratio' requires numbers of at least 0"
            )
    return codes.reshape(len(rows), -1), values


def paired_codes(
    first: ArrayLike, second: ArrayLike, names: tuple[str, str], labels: Sequence[Any] | None
) -> tuple[IntArray, IntArray, int]:
    """Encode two label vectors with common codes; return the codes and the number of classes."""
    n = np.size(first)
    group_codes(first, n, names[0])
    group_codes(second, n, names[1])
    kinds = _label_kind(np.asarray(first)), _label_kind(np.asarray(second))
    if set(kinds) == {"numbers", "strings"}:
        raise InvalidInputError(
            f"`{names[0]}` contains {kinds[0]} but `{names[1]}` contains {kinds[1]}; both must have "
            "the same type of labels"
        )
    both = np.concatenate([identifiers(first, names[0]), identifiers(second, names[1])])
    codes, n_classes = label_codes(both, labels, names[0])
    return codes[:n], codes[n:], n_classes


def label_codes(
    values: NDArray[Any], labels: Sequence[Any] | None, name: str
) -> tuple[IntArray, int]:
    """Return the index of each value in the labels, which are sorted unless given."""
    if labels is None:
        return group_codes(values, len(values), name)
    place = {label: i for i, label in enumerate(labels)}
    if len(place) != len(labels):
        raise InvalidInputError("`labels` contains duplicates")
    for value in values.tolist():
        if value not in place:
            raise InvalidInputError(f"`{name}` contains {value!r}, which is not in `labels`")
    return np.array([place[value] for value in values.tolist()], dtype=np.int64), len(place)


def kappa_weights(weights: KappaWeights) -> KappaWeights:
    """Return the weighting scheme; raise if it is unknown."""
    if weights is not None:
        validation.choice(weights, "weights", ("linear", "quadratic"))
    return weights


def penalties(n_classes: int, weights: KappaWeights) -> FloatArray:
    """Return the matrix of disagreement weights for pairs of classes."""
    classes = np.arange(n_classes)
    return _penalty(classes[:, None] - classes[None, :], weights)


def _penalty(apart: IntArray, weights: KappaWeights) -> FloatArray:
    if weights is None:
        return np.asarray(apart != 0, dtype=np.float64)
    steps = np.abs(apart).astype(np.float64)
    return steps if weights == "linear" else steps**2


def _label_kind(labels: NDArray[Any]) -> str:
    return {"U": "strings", "S": "strings", "T": "strings", "O": "objects"}.get(
        labels.dtype.kind, "numbers"
    )


def _shares(counts: NDArray[Any]) -> FloatArray:
    return np.asarray(counts / counts.sum(), dtype=np.float64)
