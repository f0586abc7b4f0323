"""Means over many small parts hold their confidence: an MMLU of three questions a subject."""

from functools import cache

import numpy as np
import pytest

from eval_toolkit.inference import macro_mean, paired_macro_interval

# Three standard errors of 95 % over 800 repeats.
SLACK = 0.024


@cache
def ends(counts: tuple[int, ...], n: int) -> tuple[float, float]:
    """Return the interval of so many right answers in each part of n; many repeats have the same."""
    ci = macro_mean([np.repeat([1.0, 0.0], [count, n - count]) for count in counts]).ci
    assert ci is not None
    return ci.ci_low, ci.ci_high


@cache
def paired_ends(parts: tuple[tuple[int, int, int], ...]) -> tuple[float, float]:
    ci = paired_macro_interval(parts)
    return ci.ci_low, ci.ci_high


def covered(n_parts: int, n: int, rate: float, n_repeats: int = 800) -> float:
    generator = np.random.default_rng(n_parts * 100 + n)
    hits = 0
    for _ in range(n_repeats):
        counts = (generator.random((n_parts, n)) < rate).sum(axis=1)
        low, high = ends(tuple(sorted(counts.tolist())), n)
        hits += low <= rate <= high
    return hits / n_repeats


def covered_pairs(n_parts: int, n: int, n_repeats: int = 800) -> float:
    generator = np.random.default_rng(n_parts * 100 + n)
    hits = 0
    for _ in range(n_repeats):
        counts = generator.multinomial(n, [0.2, 0.1, 0.7], size=n_parts)
        parts = sorted((gained, lost, n) for gained, lost, _ in counts.tolist())
        low, high = paired_ends(tuple(parts))
        hits += low <= 0.1 <= high
    return hits / n_repeats


@pytest.mark.parametrize(
    ("n_parts", "n", "rate"),
    [(57, 1, 0.8), (57, 2, 0.9), (57, 3, 0.8), (20, 5, 0.95), (4, 10, 0.9), (2, 20, 0.95)],
)
def test_the_mean_over_parts_is_covered(n_parts: int, n: int, rate: float) -> None:
    assert covered(n_parts, n, rate) >= 0.95 - SLACK


@pytest.mark.parametrize(("n_parts", "n"), [(57, 1), (57, 2), (57, 3), (20, 5), (4, 10)])
def test_the_mean_of_paired_differences_is_covered(n_parts: int, n: int) -> None:
    assert covered_pairs(n_parts, n) >= 0.95 - SLACK
