"""Data-generating processes with known true metrics."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SEPARATIONS = {"low": 0.7, "normal": 2.0, "near-perfect": 4.0}
"""Distances between class means in standard deviations (ROC-AUC 0.69, 0.92, 0.998)."""

_POPULATION = 20_000
"""Number of quantiles of each class that represent the population."""


def sigmoid(x: Array) -> Array:
    """Return the inverse of the logit."""
    return 1.0 / (1.0 + np.exp(-x))


@dataclass(frozen=True)
class Binormal:
    """Two normal classes, scored by the posterior probability, which is calibrated.

    With ``spread``, the positives have a different standard deviation, which the scorer ignores, so
    it is miscalibrated. ``step`` rounds the underlying values to create ties.
    """

    distance: float
    step: float = 0.0
    spread: float = 1.0

    def scores(self, x: Array, prevalence: float) -> Array:
        """Return the scores for underlying values."""
        if self.step:
            x = np.round(x / self.step) * self.step
        prior = np.log(prevalence / (1.0 - prevalence))
        return sigmoid(prior + self.distance * x - self.distance**2 / 2.0)

    def draw(
        self, rng: np.random.Generator, n: int, prevalence: float
    ) -> tuple[NDArray[np.int64], Array]:
        """Return labels and scores of n rows."""
        y = (rng.random(n) < prevalence).astype(np.int64)
        noise = rng.normal(size=n)
        x = np.where(y == 1, self.distance + self.spread * noise, noise)
        return y, self.scores(x, prevalence)

    def population(self, prevalence: float) -> tuple[NDArray[np.int64], Array, Array]:
        """Return labels, scores and weights of a fine grid of quantiles of both classes."""
        from scipy.special import ndtri

        z = ndtri((np.arange(_POPULATION) + 0.5) / _POPULATION)
        x = np.concatenate([self.distance + self.spread * z, z])
        y = np.repeat([1, 0], _POPULATION)
        weights = np.repeat([prevalence, 1.0 - prevalence], _POPULATION)
        return y, self.scores(x, prevalence), weights


@dataclass(frozen=True)
class OnTop:
    """Two normal classes, with a few negatives that score above nearly all positives."""

    part: float = 0.03

    def draw(
        self, rng: np.random.Generator, n: int, prevalence: float
    ) -> tuple[NDArray[np.int64], Array]:
        """Return labels and scores of n rows."""
        y = (rng.random(n) < prevalence).astype(np.int64)
        negative = np.where(rng.random(n) < self.part, 4.0, -3.0)
        return y, np.where(y == 1, 2.0, negative) + rng.normal(size=n)


@dataclass(frozen=True)
class RareLosses:
    """Numeric results of two systems that agree except on a few units, on which B scores lowest."""

    margin: float
    """Mean deficit of B, which determines the frequency of lost units."""
    noise: float = 0.05

    def draw(self, rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        """Return the values of A and of B."""
        a = rng.beta(6.0, 2.0, n)
        near = a + self.noise * (rng.random(n) - 0.5)
        return a, np.where(rng.random(n) < self.margin / 0.75, 0.0, near)


@dataclass(frozen=True)
class Grouped:
    """0/1 values in groups, with a given intraclass correlation.

    With ``slope``, the logit of a group's rate is a linear function of the log of its size.
    """

    sizes: str
    n_groups: int
    rate: float
    icc: float
    slope: float = 0.0

    def group_sizes(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the number of rows of each group."""
        if self.sizes == "equal":
            return np.full(self.n_groups, 10)
        if self.sizes == "unequal":
            return np.maximum(1, np.round(np.exp(rng.normal(2.0, 1.0, self.n_groups)))).astype(
                np.int64
            )
        sizes = np.full(self.n_groups, 10)
        sizes[0] = 10 * (self.n_groups - 1)  # one group with half of the rows
        return sizes

    def draw(self, rng: np.random.Generator) -> tuple[Array, NDArray[np.int64]]:
        """Return values and groups."""
        sizes = self.group_sizes(rng)
        rates = self._rates(rng, sizes)
        groups = np.repeat(np.arange(self.n_groups), sizes)
        return (rng.random(len(groups)) < rates[groups]).astype(np.float64), groups

    @property
    def truth(self) -> float:
        """Return the mean over all rows of a population of groups."""
        if not self.slope:
            return self.rate
        rng = np.random.default_rng(0)
        many = replace(self, n_groups=400_000)
        sizes = many.group_sizes(rng)
        return float((sizes * many._rates(rng, sizes)).sum() / sizes.sum())

    def _rates(self, rng: np.random.Generator, sizes: NDArray[np.int64]) -> Array:
        rates = np.full(self.n_groups, self.rate)
        if self.icc:
            worth = 1.0 / self.icc - 1.0
            rates = rng.beta(self.rate * worth, (1.0 - self.rate) * worth, self.n_groups)
        if not self.slope:
            return rates
        rates = np.clip(rates, 1e-9, 1.0 - 1e-9)
        return sigmoid(np.log(rates / (1.0 - rates)) + self.slope * (np.log(sizes) - 2.0))


Shape = Callable[[np.random.Generator, int], Array]

SCORE_SHAPES: dict[str, Shape] = {
    "uniform": lambda rng, n: rng.random(n),
    "sharp": lambda rng, n: rng.beta(0.2, 0.2, n),
    "vague": lambda rng, n: rng.beta(20.0, 20.0, n),
    "extreme": lambda rng, n: np.where(rng.random(n) < 0.5, 0.999, 0.001),
    "rare": lambda rng, n: rng.beta(0.2, 5.0, n),
    "rounded": lambda rng, n: np.round(rng.beta(0.7, 0.7, n), 1),
    "constant": lambda rng, n: np.full(n, 0.3),
}
"""Stated probabilities of the calibration grid."""

DISTORTIONS: dict[str, Callable[[Array], Array]] = {
    "calibrated": lambda p: p,
    "overconfident": lambda p: np.clip(0.5 + 0.8 * (p - 0.5), 0.0, 1.0),
    "too high": lambda p: np.clip(p**1.3, 0.0, 1.0),
}
"""True probabilities as functions of the stated probabilities."""

VALUE_SHAPES: dict[str, tuple[Shape, float, tuple[float, float]]] = {
    "uniform": (lambda rng, n: rng.random(n), 0.5, (0.0, 1.0)),
    "beta near 1": (lambda rng, n: rng.beta(9.0, 0.3, n), 9.0 / 9.3, (0.0, 1.0)),
    "pass@5 near 1": (
        lambda rng, n: 1.0 - (rng.random(n) < 0.03) * rng.random(n),
        1.0 - 0.015,
        (0.0, 1.0),
    ),
    "ratings 1-5": (
        lambda rng, n: rng.choice([1.0, 2.0, 3.0, 4.0, 5.0], n, p=[0.9, 0.05, 0.02, 0.02, 0.01]),
        1.19,
        (1.0, 5.0),
    ),
    "normal": (lambda rng, n: rng.normal(2.0, 1.0, n), 2.0, (-np.inf, np.inf)),
    "exponential": (lambda rng, n: rng.exponential(1.0, n), 1.0, (-np.inf, np.inf)),
    "lognormal": (lambda rng, n: np.exp(rng.normal(0.0, 1.0, n)), np.exp(0.5), (-np.inf, np.inf)),
}
"""Distributions of real values, with their means and ranges."""
