"""Coverage of the intervals for paired differences of proportions, and of Student's beside them.

Tango's is summed over all outcomes, without simulation; the mean over parts is simulated. Run with
``pytest -m slow``.
"""

import math

import numpy as np
import pytest
from scipy import stats

from eval_toolkit.inference.paired_proportions import paired_macro_interval, tango_interval

pytestmark = pytest.mark.slow

RATES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4)
PAIRS = [(gain, loss) for gain in RATES for loss in RATES if gain + loss > 0.0]
"""Probabilities that B alone or A alone is right."""


def tango(n_01, n_10, n):
    ci = tango_interval(n_01, n_10, n)
    return ci.ci_low, ci.ci_high


def student(n_01, n_10, n):
    delta = (n_01 - n_10) / n
    se = math.sqrt(((n_01 + n_10) / n - delta**2) / (n - 1))
    reach = stats.t.ppf(0.975, n - 1) * se
    return delta - reach, delta + reach


def coverage(interval, n):
    """P(the interval contains the difference) for every pair of rates."""
    outcomes = np.array([(up, down) for up in range(n + 1) for down in range(n + 1 - up)])
    low, high = np.array([interval(up, down, n) for up, down in outcomes.tolist()]).T
    cells = np.column_stack([outcomes, n - outcomes.sum(1)])
    slack = 1e-12
    return np.array(
        [
            stats.multinomial.pmf(cells, n, [gain, loss, 1.0 - gain - loss])
            @ ((low - slack <= gain - loss) & (gain - loss <= high + slack))
            for gain, loss in PAIRS
        ]
    )


@pytest.mark.parametrize(
    ("interval", "n", "mean", "least"),
    [
        (tango, 20, 0.974, 0.944),
        (tango, 50, 0.959, 0.937),
        (student, 20, 0.857, 0.182),  # the reason why it is not used
        (student, 50, 0.912, 0.395),
    ],
)
def test_coverage_summed_over_all_outcomes(interval, n, mean, least):
    found = coverage(interval, n)
    assert found.mean() == pytest.approx(mean, abs=0.001)
    assert found.min() == pytest.approx(least, abs=0.001)


@pytest.mark.parametrize(
    ("n_parts", "n", "gain", "loss"),
    [
        (5, 20, 0.1, 0.05),
        (4, 25, 0.0, 0.03),
        (10, 30, 0.02, 0.0),
        (57, 20, 0.003, 0.0),
        (57, 100, 0.01, 0.02),
    ],
)
def test_coverage_of_the_mean_over_parts(n_parts, n, gain, loss):
    """Not below 95 % by more than 1.5 % and four standard errors of 1500 draws."""
    rng = np.random.default_rng([20_240_601, n_parts, n])
    hits = 0
    for _ in range(1500):
        counts = rng.multinomial(n, [gain, loss, 1.0 - gain - loss], size=n_parts)
        ci = paired_macro_interval([(up, down, n) for up, down, _ in counts.tolist()])
        hits += ci.ci_low <= gain - loss <= ci.ci_high
    assert hits / 1500 >= 0.935 - 4 * math.sqrt(0.05 * 0.95 / 1500)
