"""Confidence sequences against confseq 0.0.11 and against sums over all possibilities.

The expected numbers of `CONFSEQ` were printed by the Python modules of confseq: ``betting_mart`` with
``trunc_scale`` f and unbounded bets gives the capital of one fraction f at one candidate mean, whose
mean over the seven fractions was compared with 2/α at each of 3 999 candidates; means that the values
seen so far exclude were left out, and ``logical_cs`` applied, without replacement.
``predmix_lower_cs`` with ``lambda_predmix_eb(truncation=1/2, alpha=α/2)`` and the squares of
x − (1/2 + Σ)/t gives the empirical Bernstein bound.
"""

import numpy as np
import pytest
from scipy import integrate, stats

from eval_toolkit.inference.sequences import confidence_sequence

SQUARES = np.arange(1, 201) ** 2 * 37 % 101
REAL = SQUARES / 100.0
BINARY = (SQUARES > 40).astype(float)
AFTER = np.array([20, 60, 200]) - 1

CONFSEQ = [
    ("betting", REAL, None, [0.3725, 0.36175, 0.43225], [0.7505, 0.6275, 0.574]),
    ("betting", REAL, 250, [0.379, 0.3805, 0.46775], [0.74225, 0.61375, 0.537]),
    ("betting", BINARY, None, [0.3135, 0.34125, 0.4575], [0.9375, 0.74825, 0.694]),
    ("betting", BINARY, 250, [0.32625, 0.37075, 0.5195], [0.92875, 0.728, 0.63225]),
    (
        *("empirical-bernstein", REAL, None),
        [0.178251142589, 0.333406562928, 0.427807746896],
        [0.971748857411, 0.653260103739, 0.577043609148],
    ),
    (
        *("empirical-bernstein", REAL, 250),
        [0.191968314001, 0.356207467651, 0.461178371947],
        [0.954874099409, 0.636569410039, 0.543135917536],
    ),
    (
        *("empirical-bernstein", BINARY, None),
        [0.234295135306, 0.33458604351, 0.454818221781],
        [1.0, 0.785227779301, 0.702009967855],
    ),
]


@pytest.mark.parametrize(("method", "values", "n_total", "lower", "upper"), CONFSEQ)
def test_confseq_agrees(method, values, n_total, lower, upper):
    low, high = confidence_sequence(values, method=method, n_total=n_total, running=False)
    np.testing.assert_allclose(low[AFTER], lower, atol=1e-11)
    np.testing.assert_allclose(high[AFTER], upper, atol=1e-11)


@pytest.mark.parametrize("n", [7, 40, 200])
def test_the_beta_binomial_bound_is_where_the_mixture_is_twenty_times_as_likely(n):
    """By numerical integration of the likelihood over Jeffreys' prior."""
    values = BINARY[:n]
    low, high = (
        bound[-1] for bound in confidence_sequence(values, method="beta-binomial", running=False)
    )
    ones = int(values.sum())

    def likelihood(mean):  # as a share of the largest, which keeps its digits
        return (mean * n / ones) ** ones * ((1.0 - mean) * n / (n - ones)) ** (n - ones)

    # The density is 1 / (π √(m (1 − m))): with m = sin² it is even.
    mixture, _ = integrate.quad(lambda angle: likelihood(np.sin(angle) ** 2), 0.0, np.pi / 2)
    mixture *= 2.0 / np.pi
    for end in (low, high):
        assert mixture / likelihood(end) == pytest.approx(20.0, rel=1e-6)


@pytest.mark.parametrize("n", [3, 10, 75, 199])
def test_without_replacement_it_is_the_ratio_of_prior_and_posterior(n):
    """Waudby-Smith and Ramdas (2020), theorem 2.1, summed over every number of ones in the whole."""
    total, ones = 200, int(BINARY[:n].sum())
    counts = np.arange(total + 1)
    prior = stats.betabinom.pmf(counts, total, 0.5, 0.5)
    posterior = prior * stats.hypergeom.pmf(ones, total, counts, n)
    posterior /= posterior.sum()
    inside = counts[posterior > 0.05 * prior]
    low, high = confidence_sequence(
        BINARY[:n], method="beta-binomial", n_total=total, running=False
    )
    assert low[-1] == pytest.approx(inside.min() / total, abs=1e-12)
    assert high[-1] == pytest.approx(inside.max() / total, abs=1e-12)
