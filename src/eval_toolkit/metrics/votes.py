"""maj@k: exact probability that the majority answer of k attempts is correct."""

import functools
import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, UndefinedMetricError

_MOST_IN_FLOATS = 1000
"""Maximum number of attempts for which binomial coefficients are finite."""


def maj_at_k(
    answers: Sequence[Sequence[Hashable]], correct: Sequence[ArrayLike], k: int
) -> FloatArray:
    """Return the probability that the most frequent of k answers is correct (maj@k).

    Parameters
    ----------
    answers : sequence of sequence
        Answers of each unit's attempts, compared for equality. Attempts without an answer (None) do
        not count as votes.
    correct : sequence of array-like
        Whether each answer is correct: 1 or 0. If the values of equal answers differ, their mean is
        used.
    k : int
        Number of attempts drawn, at least 1.

    Returns
    -------
    ndarray
        One value per unit: the exact mean over all draws of k of its attempts without replacement.
        Ties are broken at random; draws without any answer count as incorrect. maj@1 is the
        fraction of correct attempts.

    Raises
    ------
    InvalidInputError
        If ``answers`` and ``correct`` differ in length, or values are not between 0 and 1.
    UndefinedMetricError
        If a unit has fewer than k attempts.

    References
    ----------
    Wang et al. (2023), Self-consistency improves chain of thought reasoning, arXiv:2203.11171.

    Examples
    --------
    Two of three attempts answer 7, so two random attempts answer either 7 and 7, or 7 and 8 (a
    tie).

    >>> maj_at_k([["7", "7", "8"]], [[1, 1, 0]], 3).tolist()
    [1.0]
    >>> maj_at_k([["7", "7", "8"]], [[1, 1, 0]], 2).round(4).tolist()
    [0.6667]
    """
    k = validation.integer(k, "k", low=1)
    if len(answers) != len(correct):
        raise InvalidInputError(
            f"`answers` has {len(answers)} units but `correct` has {len(correct)}"
        )
    return np.array(
        [_of_unit(unit, *pair, k) for unit, pair in enumerate(zip(answers, correct, strict=True))],
        dtype=np.float64,
    )


def _of_unit(unit: int, answers: Sequence[Hashable], correct: ArrayLike, k: int) -> float:
    if isinstance(answers, str):
        raise InvalidTypeError(f"answers[{unit}] is a string; it must be a list of answers")
    marks = np.asarray(correct, dtype=np.float64)
    if marks.shape != (len(answers),):
        raise InvalidInputError(
            f"correct[{unit}] has shape {marks.shape}; it must have one value for each of the {len(answers)} answers"
        )
    if not ((marks >= 0.0) & (marks <= 1.0)).all():
        raise InvalidInputError(
            f"correct[{unit}] must have values from 0 (incorrect) to 1 (correct)"
        )
    if len(answers) < k:
        raise UndefinedMetricError(
            f"unit {unit} has {len(answers)} attempts; at least k={k} are needed"
        )
    votes: dict[Hashable, list[float]] = {}
    for answer, mark in zip(answers, marks.tolist(), strict=True):
        if answer is not None:
            votes.setdefault(answer, []).append(mark)
    blank = len(answers) - sum(map(len, votes.values()))
    counts = {answer: len(given) for answer, given in votes.items()}
    chance = 0.0
    for answer, given in votes.items():
        if right := math.fsum(given) / len(given):
            others = tuple(sorted(n for other, n in counts.items() if other != answer))
            chance += right * _wins(counts[answer], others, blank, k)
    return min(1.0, chance)


@functools.lru_cache(maxsize=4096)
def _wins(own: int, others: tuple[int, ...], blank: int, k: int) -> float:
    """Return the number of draws won by an answer with ``own`` votes; a t-way tie counts as 1/t.

    For each number of votes v, polynomials count the ways in which all other answers get at most v
    votes; the power of x is their total number of votes, and the row index is the number of ties.
    """
    n = own + sum(others) + blank
    kind: Any = np.float64 if n <= _MOST_IN_FLOATS else object
    won: Any = 0
    for v in range(1, min(own, k) + 1):
        left = k - v
        # Blank votes never win; they contribute the factor (1 + x)^blank.
        ways: NDArray[Any] = np.zeros((1, left + 1), dtype=kind)
        ways[0] = _row(blank, left, left, kind)
        for count in others:
            ways = _times(ways, _row(count, v - 1, left, kind), math.comb(count, v), v)
        shares = sum(row[left] / (tied + 1) for tied, row in enumerate(ways))
        won = won + math.comb(own, v) * shares
    return float(won / math.comb(n, k))


def _row(count: int, most: int, length: int, kind: Any) -> NDArray[Any]:
    """Return C(count, u) for u up to ``most``, and 0 up to ``length``."""
    row = [math.comb(count, u) if u <= most else 0 for u in range(length + 1)]
    return np.array(row, dtype=kind)


def _times(ways: NDArray[Any], fewer: NDArray[Any], tying: int, v: int) -> NDArray[Any]:
    """Return the numbers of draws after adding an answer that gets fewer than v votes or ties."""
    length = ways.shape[1]
    more = length - 1 >= v * len(ways) and tying > 0
    product = np.zeros((len(ways) + more, length), dtype=ways.dtype)
    for tied, row in enumerate(ways):
        product[tied] += np.convolve(row, fewer)[:length]
        if tying and tied + 1 < len(product):
            product[tied + 1, v:] += tying * row[: length - v]
    return product
