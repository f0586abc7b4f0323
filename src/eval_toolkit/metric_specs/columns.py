"""Metrics of one column of records: its mean, and pass@k, pass^k, ASR@k and maj@k."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eval_toolkit import metrics
from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.metrics.directions import known_direction, words_of

if TYPE_CHECKING:
    from eval_toolkit.inference.column_statistics import Statistic
    from eval_toolkit.inference.columns import Columns

Direction: TypeAlias = bool | Literal["by name"] | None
"""Whether higher is better; None if neither is better, "by name" to infer it from the name."""
ATTACKED = "attack_success_any"
"""Column of rollouts that indicates whether an attack succeeded."""

ColumnKind: TypeAlias = Literal["share", "bounded", "number"]
"""Kind of a column: binary outcomes (0 and 1), bounded numbers, or arbitrary numbers."""

SHARE_NAMES = frozenset(
    {
        *("acc", "accuracy", "correct", "exact_match", "is_correct", "label", "match", "passed"),
        *("resolved", "right", "solved", "success", "wrong", "attack_success", "attacked"),
        *("flagged", "jailbroken", "refusal", "refused", "attack_success_any"),
    }
)
"""Column names treated as binary even if only 0 or only 1 was observed."""

SCALE_WORDS = frozenset({"likert", "points", "rating", "ratings", "star", "stars"})
"""Words in column names treated as scales even if only 0 and 1 were observed."""

_UNIT = (0.0, 1.0)
_ANY = (-math.inf, math.inf)


@dataclass(frozen=True)
class ColumnSpec:
    """Mean of a column of records, as returned by `mean_of`."""

    family: ClassVar[str] = "column"
    name: str
    column: str
    higher_is_better: bool | None = True
    """Whether higher is better; None if neither direction is better."""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    """Smallest and largest possible value, if known."""
    k: int | None = None
    """Number of attempts k, for `pass_at_k`, `pass_hat_k` and `asr_at_k`."""
    every: bool = False
    """Whether all k attempts must succeed."""
    answer: str | None = None
    """Column with the answers of the attempts, which are the votes in `maj_at_k`."""
    kind: ColumnKind | None = None
    """Kind of the column; if None, `of_column` infers it."""

    def __post_init__(self) -> None:
        check_bounds(self.bounds)
        if self.kind is None:
            return
        validation.choice(self.kind, "kind", ("share", "bounded", "number"))
        if self.kind == "share" and self.bounds not in (_UNIT, _ANY):
            raise InvalidInputError(
                f"`bounds` is {self.bounds!r}; with kind='share' it must be (0, 1) or omitted"
            )
        if self.kind == "share":
            object.__setattr__(self, "bounds", _UNIT)
        if self.kind == "bounded" and not all(map(math.isfinite, self.bounds)):
            raise InvalidInputError(
                f"`bounds` is {self.bounds!r}; with kind='bounded' both must be finite"
            )

    def of_column(self, values: FloatArray, *, averaged: bool = False) -> ColumnSpec:
        """Return the spec with the kind inferred from the whole column, for use in all parts.

        Parameters
        ----------
        values : ndarray
            All values of the column, not only those in one slice.
        averaged : bool, default False
            Whether a unit's value is the mean of several of these values.

        Returns
        -------
        ColumnSpec
            Spec with the declared ``kind``, if any. Otherwise, a column of only 0 and 1 is a share
            if both values occur or the name is in `SHARE_NAMES`, unless its bounds or name
            (`SCALE_WORDS`) indicate another scale. A share with averaged attempts or other values
            is "bounded".

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
        """Return whether 0 and 1 may mean no and yes, based on type, bounds and name."""
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
        """Return one value per unit, and a mask of units with enough attempts."""
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
        """Return one value per unit by voting, and a mask of units with enough attempts.

        Each unit has ``n`` consecutive attempts; attempts with the answer None do not vote.
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
        from eval_toolkit.inference.statistics import ColumnMean

        bounds = _UNIT if self.column == "label" and self.kind is None else self.bounds
        return ColumnMean(self.name, self.column, self._mean, bounds)

    def compute(self, y_true: Any, y_score: Any) -> float:
        """Return the mean of the label or score column; other columns need records."""
        return self._mean(self._read({"label": y_true, "score": y_score}))

    def proportion(self, data: Columns) -> tuple[float, float] | None:
        """Return successes and trials if the column is a share."""
        values = self._read(data.values).astype(np.float64)
        is_share = self.of_column(values).kind == "share"
        return (float(values.sum()), float(data.n)) if is_share else None

    def _mean(self, values: Any) -> float:
        return float(np.mean(validation.vector(values, self.column)))

    def _read(self, columns: Mapping[str, Any]) -> Any:
        if self.column not in columns:
            raise InvalidInputError(
                f"mean_of({self.column!r}) needs records with that column: use `summarise`; "
                "from labels and scores, only 'label' and 'score' are available"
            )
        return columns[self.column]


def stated_bounds(spec: ColumnSpec) -> dict[str, Any]:
    """Return the bounds of a column for the cell details; empty if implied by its kind.

    Examples
    --------
    >>> stated_bounds(mean_of("stars", bounds=(1, 5), kind="bounded"))
    {'bounds': [1.0, 5.0]}
    >>> stated_bounds(mean_of("n_turns", bounds=(0, math.inf), kind="number"))
    {'bounds': [0.0, None]}
    >>> stated_bounds(mean_of("right", kind="share"))
    {}
    """
    if spec.bounds == (_ANY if spec.kind == "number" else _UNIT):
        return {}
    return {"bounds": [float(end) if math.isfinite(end) else None for end in spec.bounds]}


def mean_as_stated(
    column: str, details: Mapping[str, Any], higher_is_better: bool | None
) -> ColumnSpec:
    """Rebuild the spec of a column mean from the kind and bounds stored in cell details.

    Missing or invalid details are ignored.

    Examples
    --------
    >>> mean_as_stated("stars", {"kind": "bounded", "bounds": [1, 5]}, True).bounds
    (1.0, 5.0)
    >>> mean_as_stated("n_turns", {"kind": "number", "bounds": [0, None]}, None).bounds
    (0.0, inf)
    >>> mean_as_stated("right", {"kind": "a guess", "bounds": "ab"}, True).bounds
    (-inf, inf)
    """
    kind = details.get("kind")
    low, high = _UNIT if kind == "bounded" else _ANY
    try:
        if "bounds" in details:
            ends = [None if end is None else float(end) for end in details["bounds"]]
            low, high = (
                known if end is None else end for end, known in zip(ends, _ANY, strict=True)
            )
        return mean_of(column, higher_is_better=higher_is_better, bounds=(low, high), kind=kind)
    except (TypeError, ValueError):  # stored details may be invalid
        return mean_of(column, higher_is_better=higher_is_better)


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
    """Return a spec for the mean of a column, such as accuracy, reward or toxicity.

    Parameters
    ----------
    column : str
        Name of the column.
    higher_is_better : bool, None or "by name", default "by name"
        Direction, for gates and comparisons; None if neither is better. By default it is inferred
        from the name (higher ``accuracy``, lower ``toxicity``); for unknown names it is None, and
        comparisons report "different" instead of "better".
    bounds : tuple of float
        Smallest and largest possible value, if known. The interval then stays within the bounds and
        accounts for unobserved values.
    kind : {"share", "bounded", "number"}, optional
        "share" means that values are 1 for yes and 0 for no. By default, a column with exactly the
        values 0 and 1 is a share, unless its name indicates a scale (``rating``, ``stars``), and a
        column with finite bounds is "bounded".

    Returns
    -------
    ColumnSpec
        Spec with the name of the column.

    Raises
    ------
    InvalidInputError
        If the name is empty, or the bounds are not increasing or contradict the kind.

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
    """Resolve a direction; "by name" infers it from the name.

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
    """Return a spec for pass@k: probability that at least one of k attempts succeeds.

    Parameters
    ----------
    column : str
        Column of 0 and 1, one row per attempt.
    k : int
        Number of attempts; units with fewer are counted as skipped.
    higher_is_better : bool, None or "by name", default "by name"
        As in `mean_of`, except that columns with unknown names are assumed to be successes.

    Returns
    -------
    ColumnSpec
        Spec with the name ``<column>_pass@<k>``.

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
    """Return the direction of pass@k: higher is better unless the column name implies otherwise."""
    return known_direction(column) is not False if given == "by name" else direction(given, column)


def pass_hat_k(column: str, k: int, *, higher_is_better: Direction = "by name") -> ColumnSpec:
    """Return a spec for pass^k: probability that all of k attempts at a unit succeed.

    Parameters
    ----------
    column, k, higher_is_better
        As in `pass_at_k`.

    Returns
    -------
    ColumnSpec
        Spec with the name ``<column>_pass^<k>``.

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
    """Return a spec for ASR@k: probability that at least one of k attacks on a unit succeeds.

    Uses the unbiased estimator of `pass_at_k`; lower is better.

    Parameters
    ----------
    k : int
        Number of attempts; units with fewer are counted as skipped.
    column : str, default "attack_success_any"
        Column of 0 and 1, one row per attempt.

    Returns
    -------
    ColumnSpec
        Spec with the name ``asr@<k>``; ``<column>_asr@<k>`` for another column.

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
    """Return a spec for maj@k: probability that the majority answer of k attempts is correct.

    Parameters
    ----------
    column : str
        Column of 0 and 1, one row per attempt: whether its answer is correct.
    k : int
        Number of attempts; units with fewer are counted as skipped.
    answer : str
        Column with the answer of each attempt, as filled in by `graders.with_answers`; attempts
        without an answer do not vote.

    Returns
    -------
    ColumnSpec
        Spec with the name ``<column>_maj@<k>``; see `metrics.maj_at_k`.

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
    """Raise unless the bounds are strictly increasing; either may be infinite.

    Examples
    --------
    >>> check_bounds((0.0, float("inf")))
    """
    low, high = bounds
    if not low < high:
        raise InvalidInputError(
            f"`bounds` is {bounds!r}; it must be (smallest, largest) with smallest < largest"
        )


def _column_name(column: str) -> str:
    if not isinstance(column, str) or not column:
        raise InvalidInputError(f"`column` is {column!r}; it must be a non-empty string")
    return column
