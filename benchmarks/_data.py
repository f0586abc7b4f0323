"""Benchmark data: 10 % prevalence, binormal scores, no ties, calibrated probabilities."""

import functools
import math

import numpy as np
from numpy.typing import NDArray

PREVALENCE = 0.1
SEPARATION = 1.5
"""Distance between the class means in standard deviations (ROC-AUC 0.86)."""

Labels = NDArray[np.int64]
Scores = NDArray[np.float64]


@functools.lru_cache(maxsize=4)
def binormal(n: int) -> tuple[Labels, Scores]:
    """Return labels and the probabilities of a calibrated scorer."""
    y, (scores,) = rivals(n, 1)
    return y, scores


@functools.lru_cache(maxsize=4)
def rivals(n: int, n_scorers: int) -> tuple[Labels, tuple[Scores, ...]]:
    """Return labels and the scores of equally good scorers with half of their noise in common."""
    generator = np.random.default_rng(20_000 + n)
    y = (generator.random(n) < PREVALENCE).astype(np.int64)
    shared = generator.normal(size=n)
    evidence = (
        SEPARATION * y + (shared + generator.normal(size=n)) / math.sqrt(2.0)
        for _ in range(n_scorers)
    )
    return y, tuple(_posterior(x) for x in evidence)


def clusters(n: int, *, average_size: int) -> NDArray[np.int64]:
    """Return the group of each row; group sizes vary around the average."""
    return np.random.default_rng(n).integers(0, n // average_size, n)


def _posterior(evidence: Scores) -> Scores:
    logit = SEPARATION * evidence - SEPARATION**2 / 2 + math.log(PREVALENCE / (1 - PREVALENCE))
    return 1.0 / (1.0 + np.exp(-logit))
