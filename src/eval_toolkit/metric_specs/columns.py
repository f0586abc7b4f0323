"""Metrics of one column of records: its mean, and what several attempts at a unit make of it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eval_toolkit import metrics
from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.inference.column_statistics import Statistic
from eval_toolkit.inference.prepared import Columns
from eval_toolkit.inference.statistics import ColumnMean
from eval_toolkit.metrics.directions import known_direction, words_of

__all__ = [
    "ColumnKind",
    "ColumnSpec",
    "Direction",
    "asr_at_k",
    "check_bounds",
    "direction",
    "maj_at_k",
    "mean_of",
    "pass_at_k",
    "pass_hat_k",
]

Direction: TypeAlias = bool | Literal["by name"] | None
"""Whether more is better; None where neither is, "by name" for what `known_direction` says."""
ATTACKED = "attack_success_any"
"""Column of rollouts that says whether an attack succeeded."""

ColumnKind: TypeAlias = Literal["share", "bounded", "number"]
"""What a column holds: yes or no as 1 and 0, numbers between two bounds, or any numbers."""

SHARE_NAMES = frozenset(
    {
        *("acc", "accuracy", "correct", "exact_match", "is_correct", "label", "match", "passed"),
        *("resolved", "right", "solved", "success", "wrong", "attack_success", "attacked"),
        *("flagged", "jailbroken", "refusal", "refused", "attack_success_any"),
    }
)
"""Columns that say yes or no by their name, where nothing but 0 or nothing but 1 was seen."""

SCALE_WORDS = frozenset({"likert", "points", "rating", "ratings", "star", "stars"})
"""Words of a name that say that a column is a scale, even where only 0 and 1 were seen."""

_UNIT = (0.0, 1.0)
_ANY = (-math.inf, math.inf)


@dataclass(frozen=True)
class ColumnSpec:
    """The mean of a column of records; made by `mean_of`."""

    name: str
    column: str
    higher_is_better: bool | None = True
    """None where neither direction is better."""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    """Smallest and largest possible value, where known."""
    k: int | None = None
    """Attempts that are looked at together: of `pass_at_k`, `pass_hat_k` and `asr_at_k`."""
    every: bool = False
    """Whether all of them must succeed."""
    answer: str | None = None
    """Column with each attempt's answer: of `maj_at_k`, where attempts vote."""
    kind: ColumnKind | None = None
    """What the column holds; None where it is not declared, and `of_column` decides."""

    def __post_init__(self) -> None:
        check_bounds(self.bounds)
        if self.kind is None:
            return
        validation.choice(self.kind, "kind", ("share", "bounded", "number"))
        if self.kind == "share" and self.bounds not in (_UNIT, _ANY):
            raise InvalidInputError(f"`bounds` is {self.bounds!r}; those of a share are 0 and 1")
        if self.kind == "share":
            object.__setattr__(self, "bounds", _UNIT)
        if self.kind == "bounded" and not all(map(math.isfinite, self.bounds)):
            raise InvalidInputError(
                f"`bounds` is {self.bounds!r}; kind='bounded' needs finite ones"
            )

    def of_column(self, values: FloatArray, *, averaged: bool = False) -> "ColumnSpec":
        """Return the spec with the kind of a whole column, so that its parts are read alike.

        Parameters
        ----------
        values : ndarray
            All measured values of the column, not those of a slice.
        averaged : bool, default False
            Whether the mean is over units whose value is a mean of several of these.

        Returns
        -------
        ColumnSpec
            Its ``kind`` is the declared one. Undeclared values of 0 and 1 alone are a share where
            both occur or the name says so (`SHARE_NAMES`), unless the bounds or the name
            (`SCALE_WORDS`) are those of another scale. Where attempts are averaged, or other values occur, a share is "bounded".

        Examples
        --------
        >>> mean_of("rating").of_column(np.ones(12)).kind
        'number'
        >>> mean_of("correct").of_column(np.ones(12)).kind
        'share'
        >>> [mean_of(name).of_column(np.array([0.0, 1.0])).kind for name in ("flag", "star_rating")]
        ['share', 'number']
        """
        kind = self.kind or self._inferred(values)
        if kind == "share" and (averaged or not _yes_or_no(values)):
            kind = "bounded" if _inside_unit(values) else "number"
        finite = all(map(math.isfinite, self.bounds))
        if kind == "number":
            return replace(self, kind=kind, bounds=_ANY if finite else self.bounds)
        return replace(self, kind=kind, bounds=self.bounds if finite else _UNIT)

    @property
    def may_be_share(self) -> bool:
        """Whether values of 0 and 1 would mean no and yes, by all that is known but the values."""
        if self.kind is not None:
            return self.kind == "share"
        return self.bounds in (_UNIT, _ANY) and SCALE_WORDS.isdisjoint(words_of(self.column))

    def _inferred(self, values: FloatArray) -> ColumnKind:
        if self.k is None and self.may_be_share and _yes_or_no(values):
            both = len(values) > 0 and float(np.ptp(values)) == 1.0
            if both or self.column in SHARE_NAMES:
                return "share"
        return "bounded" if all(map(math.isfinite, self.bounds)) else "number"

    def of_attempts(self, n: IntArray, n_correct: IntArray) -> tuple[FloatArray, BoolArray]:
        """Return one value per unit from its attempts, and which units have enough of them."""
        k = self.k or 1
        enough = n >= k
        values = np.zeros(len(n))
        function = metrics.pass_hat_k if self.every else metrics.pass_at_k
        if enough.any():
            values[enough] = function(n[enough], n_correct[enough], k)
        return values, enough

    def of_votes(
        self, values: FloatArray, answers: NDArray[Any], starts: IntArray, n: IntArray
    ) -> tuple[FloatArray, BoolArray]:
        """Return one value per unit from the answers of its attempts, and which have enough.

        A unit's attempts are the ``n`` from its start on; an answer that is None does not vote.
        """
        k = self.k or 1
        enough = n >= k
        result = np.zeros(len(n))
        for unit in np.flatnonzero(enough).tolist():
            at = slice(starts[unit], starts[unit] + n[unit])
            result[unit] = metrics.maj_at_k([answers[at].tolist()], [values[at]], k)[0]
        return result, enough

    @property
    def statistic(self) -> Statistic:
        """Mean of the column."""
        bounds = _UNIT if self.column == "label" and self.kind is None else self.bounds
        return ColumnMean(self.name, self.column, self._mean, bounds)

    def compute(self, y_true: Any, y_score: Any) -> float:
        """Return the mean of the label or score column; records have more columns."""
        return self._mean(self._read({"label": y_true, "score": y_score}))

    def proportion(self, data: Columns) -> tuple[float, float] | None:
        """Return successes and trials where the column is a share."""
        values = self._read(data.values).astype(np.float64)
        is_share = self.of_column(values).kind == "share"
        return (float(values.sum()), float(data.n)) if is_share else None

    def _mean(self, values: Any) -> float:
        return float(np.mean(validation.vector(values, self.column)))

    def _read(self, columns: Mapping[str, Any]) -> Any:
        if self.column not in columns:
            raise InvalidInputError(
                f"mean_of({self.column!r}) needs records with that column: use `summarise`; "
                "labels and scores alone offer 'label' and 'score'"
            )
        return columns[self.column]


def _yes_or_no(values: FloatArray) -> bool:
    return bool(np.isin(values, (0.0, 1.0)).all())


def _inside_unit(values: FloatArray) -> bool:
    return bool(((values >= 0.0) & (values <= 1.0)).all())


def mean_of(
    column: str,
    *,
    higher_is_better: Direction = "by name",
    bounds: tuple[float, float] = (-math.inf, math.inf),
    kind: ColumnKind | None = None,
) -> ColumnSpec:
    """Mean of a column of records: accuracy, reward, toxicity, anything measured per unit.

    Parameters
    ----------
    column : str
        Name of the column.
    higher_is_better : bool, None or "by name", default "by name"
        Direction, for gates and comparisons; None where neither is better. By default the name
        decides: more ``accuracy`` is better, less ``toxicity``, and of a name that is not known
        neither is, so that a comparison says "different" and not "better".
    bounds : tuple of float
        Smallest and largest possible value, where known. The interval stays inside and counts
        with what may yet be seen: give them where they exist.
    kind : {"share", "bounded", "number"}, optional
        "share" says that values are 1 for yes and 0 for no. By default a column of 0 and 1, both of
        which occur, is a share, unless its name says that it is a scale (``rating``, ``stars``), and
        one with finite bounds is bounded.

    Returns
    -------
    ColumnSpec
        Named like the column.

    Raises
    ------
    InvalidInputError
        If the name is empty, the bounds are not the smaller before the larger, or are not those of
        the kind.

    Examples
    --------
    >>> mean_of("exact_match").name
    'exact_match'
    >>> [mean_of(name).higher_is_better for name in ("exact_match", "toxicity", "reward")]
    [True, False, None]
    """
    name = _column_name(column)
    return ColumnSpec(name, column, direction(higher_is_better, name), bounds, kind=kind)


def direction(given: Direction, name: str) -> bool | None:
    """Return a direction as it was given, or as a name has it.

    Parameters
    ----------
    given : bool, None or "by name"
        What the caller says.
    name : str
        Name of the metric or of its column.

    Returns
    -------
    bool or None
        Whether more is better.

    Raises
    ------
    InvalidInputError
        If it is none of these.

    Examples
    --------
    >>> direction("by name", "val_loss"), direction(True, "val_loss")
    (False, True)
    """
    if given == "by name":
        return known_direction(name)
    if given is None or isinstance(given, bool):
        return given
    raise InvalidInputError(
        f"`higher_is_better` is {given!r}; it must be True, False, None (neither is better) or "
        "'by name'"
    )


def pass_at_k(column: str, k: int, *, higher_is_better: Direction = "by name") -> ColumnSpec:
    """Chance that at least one of k attempts at a unit succeeds, averaged over units.

    Parameters
    ----------
    column : str
        A column of 0 and 1, one line per attempt.
    k : int
        Units with fewer attempts are counted as skipped.
    higher_is_better : bool, None or "by name", default "by name"
        As in `mean_of`, but a column that is not known counts as one of successes.

    Returns
    -------
    ColumnSpec
        Named ``<column>_pass@<k>``.

    Raises
    ------
    InvalidInputError
        If the name is empty or k is below 1.

    Examples
    --------
    >>> pass_at_k("exact_match", 4).name
    'exact_match_pass@4'
    """
    k = validation.integer(k, "k", low=1)
    name = f"{_column_name(column)}_pass@{k}"
    return ColumnSpec(name, column, _of_passes(higher_is_better, column), (0.0, 1.0), k)


def _of_passes(given: Direction, column: str) -> bool | None:
    """Return the direction of passes: they are good, unless the column is known as one of faults."""
    return known_direction(column) is not False if given == "by name" else direction(given, column)


def pass_hat_k(column: str, k: int, *, higher_is_better: Direction = "by name") -> ColumnSpec:
    """Chance that all of k attempts at a unit succeed, averaged over units.

    Parameters
    ----------
    column, k, higher_is_better
        As in `pass_at_k`.

    Returns
    -------
    ColumnSpec
        Named ``<column>_pass^<k>``.

    Raises
    ------
    InvalidInputError
        As in `pass_at_k`.

    Examples
    --------
    >>> pass_hat_k("exact_match", 4).name
    'exact_match_pass^4'
    """
    k = validation.integer(k, "k", low=1)
    name = f"{_column_name(column)}_pass^{k}"
    return ColumnSpec(name, column, _of_passes(higher_is_better, column), (0.0, 1.0), k, True)


def asr_at_k(k: int, *, column: str = ATTACKED) -> ColumnSpec:
    """Chance that at least one of k attacks on a unit succeeds, averaged over units: ASR@k.

    The unbiased estimate that `pass_at_k` is, with less as the better.

    Parameters
    ----------
    k : int
        Units with fewer attempts are counted as skipped.
    column : str, default "attack_success_any"
        A column of 0 and 1, one line per attempt.

    Returns
    -------
    ColumnSpec
        Named ``asr@<k>``; ``<column>_asr@<k>`` for another column.

    Raises
    ------
    InvalidInputError
        If the name is empty or k is below 1.

    Examples
    --------
    >>> spec = asr_at_k(3)
    >>> spec.name, spec.column, spec.higher_is_better
    ('asr@3', 'attack_success_any', False)
    """
    k = validation.integer(k, "k", low=1)
    name = f"asr@{k}" if column == ATTACKED else f"{_column_name(column)}_asr@{k}"
    return ColumnSpec(name, column, False, (0.0, 1.0), k)


def maj_at_k(column: str, k: int, *, answer: str) -> ColumnSpec:
    """Chance that the majority answer of k attempts at a unit is right, averaged over units.

    Parameters
    ----------
    column : str
        A column of 0 and 1, one line per attempt: whether its answer is right.
    k : int
        Units with fewer attempts are counted as skipped.
    answer : str
        A column with each attempt's answer, as `graders.with_answers` fills it; an attempt without
        one (skipped: no answer was found) does not vote.

    Returns
    -------
    ColumnSpec
        Named ``<column>_maj@<k>``; see `metrics.maj_at_k`.

    Raises
    ------
    InvalidInputError
        If a name is empty or k is below 1.

    Examples
    --------
    >>> maj_at_k("number_match", 8, answer="number_match_answer").name
    'number_match_maj@8'
    """
    k = validation.integer(k, "k", low=1)
    name = f"{_column_name(column)}_maj@{k}"
    return ColumnSpec(name, column, True, (0.0, 1.0), k, answer=_column_name(answer))


def check_bounds(bounds: tuple[float, float]) -> None:
    """Raise unless bounds are the smallest value and a larger one; either may be infinite.

    Examples
    --------
    >>> check_bounds((0.0, float("inf")))
    """
    low, high = bounds
    if not low < high:
        raise InvalidInputError(
            f"`bounds` is {bounds!r}; it must be the smallest value and then the largest"
        )


def _column_name(column: str) -> str:
    if not isinstance(column, str) or not column:
        raise InvalidInputError(f"`column` is {column!r}; it must be the name of a column")
    return column
