"""Calibration maps: frozen callables from scores to probabilities.

Each map flattens an array of finite scores and returns one probability per score. Maps contain only
their parameters, so they can be compared, pickled and printed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.metrics.logistic import sigmoid

CLIP = 1e-7
"""Minimum distance of probabilities from 0 and 1 before logarithms are taken."""


def flat_scores(y_score: ArrayLike) -> FloatArray:
    """Return the scores as a flat array; raise if one is not finite."""
    array = validation.as_array(y_score, "y_score", shape="an array")
    return validation.vector(array.ravel(), "y_score")


def probabilities(scores: FloatArray, hint: str = "") -> FloatArray:
    """Return the scores; raise if one is outside [0, 1]."""
    outside = (scores < 0.0) | (scores > 1.0)
    if outside.any():
        row = int(np.argmax(outside))
        raise InvalidInputError(
            f"y_score[{row}] is {scores[row]}; `y_score` must be a probability in [0, 1]{hint}"
        )
    return scores


def log_odds_parts(y_score: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return log s and log(1−s) of probabilities, clipped away from 0 and 1."""
    hint = " (Platt and isotonic calibrators take raw scores)"
    clipped = np.clip(probabilities(flat_scores(y_score), hint), CLIP, 1.0 - CLIP)
    return np.log(clipped), np.log1p(-clipped)


@dataclass(frozen=True, slots=True)
class SigmoidMap(Displayed):
    """Platt's sigmoid 1/(1+exp(a·s+b)); a is negative if higher scores are more positive.

    Examples
    --------
    >>> SigmoidMap(a=-2.0, b=1.0)([0.5]).tolist()
    [0.5]
    """

    a: float
    b: float

    def __call__(self, y_score: ArrayLike) -> FloatArray:
        """Return calibrated probabilities, shape (n,)."""
        return sigmoid(-(self.a * flat_scores(y_score) + self.b))


@dataclass(frozen=True, slots=True, repr=False)
class PlattFit(Displayed):
    """Fitted Platt calibrator with parameters ``a`` and ``b``; ``transform`` calibrates scores.

    Examples
    --------
    >>> fit = PlattFit(SigmoidMap(-2.0, 1.0), -2.0, 1.0)
    >>> fit([0.5]).tolist() == fit.transform([0.5]).tolist()
    True
    """

    transform: Callable[[ArrayLike], FloatArray]
    a: float
    b: float

    def __call__(self, y_score: ArrayLike) -> FloatArray:
        """Return calibrated probabilities, shape (n,)."""
        return self.transform(y_score)


@dataclass(frozen=True, slots=True)
class BetaMap(Displayed):
    """Beta calibration map σ(a·log s + b·log(1−s) + c), increasing if a ≥ 0 ≥ b.

    Examples
    --------
    >>> BetaMap(a=1.0, b=-1.0, c=0.0)([0.25]).round(12).tolist()
    [0.25]
    """

    a: float
    b: float
    c: float

    def __call__(self, y_score: ArrayLike) -> FloatArray:
        """Return calibrated probabilities, shape (n,)."""
        log_score, log_rest = log_odds_parts(y_score)
        return sigmoid(self.a * log_score + self.b * log_rest + self.c)


@dataclass(frozen=True, slots=True)
class TemperatureMap(Displayed):
    """Temperature scaling of probabilities: log-odds are divided by a temperature.

    Examples
    --------
    >>> TemperatureMap(2.0)([0.5, 0.9]).round(2).tolist()
    [0.5, 0.75]
    """

    temperature: float

    def __call__(self, y_score: ArrayLike) -> FloatArray:
        """Return calibrated probabilities, shape (n,)."""
        log_score, log_rest = log_odds_parts(y_score)
        return sigmoid((log_score - log_rest) / self.temperature)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IsotonicMap(Displayed):
    """Increasing piecewise-linear map through knots, constant outside their range.

    Examples
    --------
    >>> rising = IsotonicMap(scores=np.array([0.2, 0.6]), probabilities=np.array([0.0, 1.0]))
    >>> rising([0.0, 0.3, 2.0]).round(2).tolist()
    [0.0, 0.25, 1.0]
    """

    scores: FloatArray
    probabilities: FloatArray

    def __call__(self, y_score: ArrayLike) -> FloatArray:
        """Return calibrated probabilities, shape (n,)."""
        return np.interp(flat_scores(y_score), self.scores, self.probabilities)

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, IsotonicMap):
            return NotImplemented
        return np.array_equal(self.scores, other.scores) and np.array_equal(
            self.probabilities, other.probabilities
        )

    def __hash__(self) -> int:
        return hash((self.scores.tobytes(), self.probabilities.tobytes()))
