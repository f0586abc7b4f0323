"""Errors of confidence sequences and of rules that stop by them, at any number of values.

The true mean counts as missed as soon as it is ruled out itself. Candidates between are not needed
to see that: with fewer of them the same means are ruled out, faster. A fixed-number interval that is
looked at as often stands beside them.
"""

import numpy as np
import pytest

from eval_toolkit.inference import _lower_bounds
from eval_toolkit.inference.sequences import METHODS, confidence_sequence

SLACK = 1e-9


@pytest.fixture
def few_candidates(monkeypatch):
    """One per cent apart; every true mean below is among them."""
    monkeypatch.setattr(_lower_bounds, "_STEPS", 100)


def allowed(n_draws, rate=0.05):
    """The rate and three standard errors of a simulation."""
    return rate + 3.0 * np.sqrt(rate * (1.0 - rate) / n_draws)


def missed(draw, mean, n_draws, n_total=None, **options):
    """Return how often the mean is ever ruled out."""
    count = 0
    for number in range(n_draws):
        values = draw(np.random.default_rng([11, number]))
        lower, upper = confidence_sequence(values, n_total=n_total, **options)
        if "method" not in options:  # a bound is the candidate that was ruled out last
            lower, upper = lower + 2.0 * SLACK, upper - 2.0 * SLACK
        out = (lower > mean + SLACK), (upper < mean - SLACK)
        if n_total is not None:  # at the end the mean itself may be certain
            sums, n = np.cumsum(values), np.arange(1, len(values) + 1)
            left = (sums < n_total * mean - SLACK), (sums + n_total - n > n_total * mean + SLACK)
            out = out[0] & left[0], out[1] & left[1]
        count += bool((out[0] | out[1]).any())
    return count / n_draws


def tosses(p, n):
    return lambda rng: (rng.random(n) < p).astype(float)


def shuffled(p, n):
    values = np.arange(n) < round(p * n)
    return lambda rng: rng.permutation(values).astype(float)


def wilson_peeking(p, n, n_draws):
    """Return how often Wilson's interval, looked at after each value, ever misses."""
    t = np.arange(1, n + 1)
    z = 1.959964
    count = 0
    for number in range(n_draws):
        share = np.cumsum(np.random.default_rng([11, number]).random(n) < p) / t
        count += bool((np.abs(share - p) > z * np.sqrt(p * (1.0 - p) / t))[9:].any())
    return count / n_draws


@pytest.mark.usefixtures("few_candidates")
class TestSmall:
    """400 draws each; the large ones are below."""

    @pytest.mark.parametrize("p", [0.05, 0.5, 0.9])
    def test_right_or_wrong(self, p):
        assert missed(tosses(p, 300), p, 400) <= allowed(400)

    @pytest.mark.parametrize("p", [0.05, 0.5, 0.9])
    def test_without_replacement(self, p):
        assert missed(shuffled(p, 300), p, 400, n_total=300) <= allowed(400)

    def test_real_values(self):
        assert missed(lambda rng: rng.beta(2.0, 6.0, 300), 0.25, 400) <= allowed(400)

    def test_differences(self):
        def draw(rng):
            return rng.choice([-1.0, 0.0, 1.0], 300, p=[0.1, 0.8, 0.1])

        assert missed(draw, 0.0, 400, bounds=(-1.0, 1.0)) <= allowed(400)

    def test_an_interval_for_a_fixed_number_fails_when_it_is_looked_at_often(self):
        """The reason for all of this: it misses in more than a fifth of the runs."""
        assert wilson_peeking(0.5, 300, 400) > 0.2


@pytest.mark.slow
class TestLarge:
    @pytest.mark.usefixtures("few_candidates")
    @pytest.mark.parametrize("p", [0.05, 0.5, 0.9])
    @pytest.mark.parametrize("n_total", [None, 2000])
    def test_betting(self, p, n_total):
        draw = tosses(p, 2000) if n_total is None else shuffled(p, 2000)
        assert missed(draw, p, 2000, n_total=n_total) <= allowed(2000)

    @pytest.mark.parametrize("method", METHODS[1:])
    @pytest.mark.parametrize("p", [0.05, 0.5, 0.9])
    @pytest.mark.parametrize("n_total", [None, 1000])
    def test_other_methods(self, method, p, n_total):
        draw = tosses(p, 1000) if n_total is None else shuffled(p, 1000)
        assert missed(draw, p, 1000, n_total=n_total, method=method) <= allowed(1000)

    @pytest.mark.usefixtures("few_candidates")
    @pytest.mark.parametrize(
        ("draw", "mean"),
        [
            (lambda rng: rng.beta(2.0, 6.0, 2000), 0.25),
            (lambda rng: rng.beta(0.2, 0.2, 2000), 0.5),
            (lambda rng: np.where(rng.random(2000) < 0.02, 0.5, 0.0), 0.01),
            (lambda rng: rng.permutation(np.linspace(0.0, 1.0, 2000)), 0.5),
        ],
    )
    def test_real_values(self, draw, mean):
        assert missed(draw, mean, 2000) <= allowed(2000)

    def test_wilson_peeking_fails_ever_more(self):
        assert wilson_peeking(0.5, 2000, 2000) > 0.35
