"""Ranks and simultaneous intervals hold as often as they say, all of them at once."""

import numpy as np
import pytest
from scipy.stats import norm

from eval_toolkit.inference.leaderboards import rank_systems

RATES = np.array([0.5, 0.55, 0.6, 0.6, 0.75])
NAMES = list("abcde")


def made_suite(generator: np.random.Generator, n: int, n_parts: int) -> list[np.ndarray]:
    """Right or wrong with a hardness that all systems share, so that they are correlated."""
    parts = []
    for _ in range(n_parts):
        hardness = generator.normal(size=(n, 1))
        own = generator.normal(size=(n, len(RATES)))
        parts.append((0.6 * hardness + 0.8 * own < norm.ppf(RATES)).astype(float))
    return parts


def miss_rates(
    n_repeats: int, n: int, n_parts: int, method: str, seed: int, n_draws: int = 500
) -> tuple[float, float]:
    """Return how often any rank lies outside its bounds, and any rate outside its interval."""
    generator = np.random.default_rng(seed)
    truth = {
        name: (1 + int((rate < RATES).sum()), len(RATES) - int((rate > RATES).sum()))
        for name, rate in zip(NAMES, RATES, strict=True)
    }
    of_ranks = of_rates = 0
    for repeat in range(n_repeats):
        ranking = rank_systems(
            made_suite(generator, n, n_parts),
            names=NAMES,
            method=method,
            n_draws=n_draws,
            seed=repeat,
        )
        # Equal systems may have either of their ranks, so both must lie within.
        of_ranks += any(
            system.rank_low > truth[system.name][0] or system.rank_high < truth[system.name][1]
            for system in ranking.systems
        )
        of_rates += any(
            not system.ci_simultaneous.ci_low
            <= RATES[NAMES.index(system.name)]
            <= system.ci_simultaneous.ci_high
            for system in ranking.systems
        )
    return of_ranks / n_repeats, of_rates / n_repeats


def test_all_ranks_and_rates_are_covered():
    of_ranks, of_rates = miss_rates(300, 120, 2, "bootstrap", seed=1)
    # Three standard errors of a rate of 5 % over 300 repeats are 3.8 points.
    assert of_ranks <= 0.05 + 0.038
    assert of_rates <= 0.05 + 0.038


@pytest.mark.slow
@pytest.mark.parametrize("method", ["bootstrap", "bayes"])
@pytest.mark.parametrize(("n", "n_parts"), [(30, 1), (100, 1), (100, 3), (400, 2)])
def test_coverage_table(method, n, n_parts):
    of_ranks, of_rates = miss_rates(1000, n, n_parts, method, seed=n + n_parts, n_draws=4000)
    print(f"{method}, n={n}, parts={n_parts}: ranks missed {of_ranks:.3f}, rates {of_rates:.3f}")
    # Three standard errors of a rate of 5 % over 1000 repeats are 2.1 points.
    assert of_ranks <= 0.05 + 0.021
    assert of_rates <= 0.05 + 0.021
