"""Coverage of the default interval of a mean: nominal 95 %, at least 93 % wherever it is given.

A hundred fixed draws per cell in `make test`, a thousand with ``-m slow``.
"""

import math

import numpy as np
import pytest
from scipy.special import comb
from tests.support.each import each

from eval_toolkit.errors import UndefinedMetricError
from eval_toolkit.inference.mean_intervals import mean_interval

UNIT = (0.0, 1.0)
ANY = (-math.inf, math.inf)


def beta(a, b):
    return lambda rng, n: rng.beta(a, b, n), a / (a + b), UNIT


def rating(shares):
    mean = float(np.dot(shares, np.arange(1, 6)))
    return lambda rng, n: rng.choice(5, size=n, p=shares) + 1.0, mean, (1.0, 5.0)


def _passing(right):
    return 1.0 - comb(10 - np.asarray(right), 5) / comb(10, 5)


def pass_at_five(chance, share):
    """Ten attempts at every item; a share of the items is hard, the others are right at 0.9."""

    def draw(rng, n):
        return _passing(rng.binomial(10, np.where(rng.random(n) < share, chance, 0.9)))

    k = np.arange(11)
    hard, easy = (
        float((comb(10, k) * p**k * (1 - p) ** (10 - k) * _passing(k)).sum()) for p in (chance, 0.9)
    )
    return draw, share * hard + (1.0 - share) * easy, UNIT


def brier_terms(a, b):
    """Squared errors of calibrated scores from Beta(a, b): E s(1 − s)."""

    def draw(rng, n):
        scores = rng.beta(a, b, n)
        return (scores - (rng.random(n) < scores)) ** 2

    return draw, a * b / ((a + b) * (a + b + 1.0)), UNIT


COLUMNS = {
    "beta .05 .05": beta(0.05, 0.05),
    "beta .1 5": beta(0.1, 5.0),
    "beta 5 .2": beta(5.0, 0.2),
    "beta 50 50": beta(50.0, 50.0),
    "pass@5, 2 % hard": pass_at_five(0.1, 0.02),
    "pass@5, 5 % harder": pass_at_five(0.3, 0.05),
    "rating, nearly all 5": rating([0.01, 0.0, 0.0, 0.0, 0.99]),
    "rating, nearly all 1": rating([0.97, 0.02, 0.0, 0.01, 0.0]),
    "rating": rating([0.1, 0.2, 0.4, 0.2, 0.1]),
    "Brier, extreme scores": brier_terms(0.05, 0.05),
    "Brier, rare positives": brier_terms(0.02, 1.0),
    "normal": (lambda rng, n: rng.normal(size=n), 0.0, ANY),
    "Student 3": (lambda rng, n: rng.standard_t(3, n), 0.0, ANY),
    "exponential": (lambda rng, n: rng.exponential(size=n), 1.0, ANY),
    "lognormal": (lambda rng, n: rng.lognormal(size=n), math.exp(0.5), ANY),
    "Pareto 3": (lambda rng, n: rng.pareto(3.0, n), 0.5, ANY),
    "counts": (lambda rng, n: rng.poisson(0.1, n).astype(float), 0.1, ANY),
}


def column_hits(name, n, draws, seed=0):
    """Return how often the interval held the mean, and how often there was one."""
    draw, truth, bounds = COLUMNS[name]
    rng = np.random.default_rng([seed, n])
    hits = given = 0
    for _ in range(draws):
        try:
            ci = mean_interval(draw(rng, n), bounds=bounds)
        except UndefinedMetricError:
            continue
        given += 1
        hits += ci.ci_low <= truth <= ci.ci_high
    return hits, given


def sizes_of(kind, n_groups, rng):
    if kind == "equal":
        return np.full(n_groups, 20)
    if kind == "lognormal":
        return np.maximum(1, rng.lognormal(2.5, 1.0, n_groups).round()).astype(int)
    return np.r_[20 * (n_groups - 1), np.full(n_groups - 1, 20)]


def share_hits(kind, n_groups, rate, icc, draws, seed=0):
    rng = np.random.default_rng([seed, n_groups])
    hits = 0
    for _ in range(draws):
        sizes = sizes_of(kind, n_groups, rng)
        if icc in (0.0, 1.0):
            chance = np.full(n_groups, rate) if icc == 0.0 else rng.random(n_groups) < rate
        else:
            chance = rng.beta(rate * (1 / icc - 1), (1 - rate) * (1 / icc - 1), n_groups)
        groups = np.repeat(np.arange(n_groups), sizes)
        values = (rng.random(len(groups)) < chance[groups].astype(float)).astype(float)
        ci = mean_interval(values, groups=groups, share=True)
        hits += ci.ci_low <= rate <= ci.ci_high
    return hits


def number_hits(kind, n_groups, icc, draws, skewed=False, seed=0):
    rng = np.random.default_rng([seed, n_groups])
    hits = given = 0
    for _ in range(draws):
        sizes = sizes_of(kind, n_groups, rng)
        groups = np.repeat(np.arange(n_groups), sizes)
        effect = rng.exponential(size=n_groups) - 1.0 if skewed else rng.normal(size=n_groups)
        noise = rng.normal(size=len(groups))
        values = math.sqrt(icc) * effect[groups] + math.sqrt(1.0 - icc) * noise
        try:
            ci = mean_interval(values, groups=groups)
        except UndefinedMetricError:
            continue
        given += 1
        hits += ci.ci_low <= 0.0 <= ci.ci_high
    return hits, given


GROUPED = [
    (kind, n_groups, icc)
    for kind in ("equal", "lognormal", "dominated")
    for n_groups in (5, 10, 20)
    for icc in (0.1, 0.5, 1.0)
]


# 86 of 100 hits or fewer have a probability of 0.5 % at a coverage of 93 %.
@each("name", COLUMNS)
def test_columns(name):
    hits, given = column_hits(name, 30, 100)
    assert hits >= 0.87 * given
    assert given >= (75 if name == "counts" else 95)  # often one count of 30, or none, is not 0


@each(("kind", "n_groups", "icc"), [case for case in GROUPED if case[1] == 10])
def test_shares_in_groups(kind, n_groups, icc):
    assert share_hits(kind, n_groups, 0.95, icc, 100) >= 87


# 904 of 1000 hits or fewer have a probability of 0.1 % at a coverage of 93 %.
@pytest.mark.slow
@pytest.mark.parametrize("n", [30, 100, 300])
@pytest.mark.parametrize("name", COLUMNS)
def test_columns_at_length(name, n):
    hits, given = column_hits(name, n, 1000)
    assert hits >= 0.905 * given


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.5, 0.8, 0.95, 0.99])
@pytest.mark.parametrize(("kind", "n_groups", "icc"), GROUPED)
def test_shares_in_groups_at_length(kind, n_groups, icc, rate):
    assert share_hits(kind, n_groups, rate, icc, 1000) >= 905


@pytest.mark.slow
@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize(("kind", "n_groups", "icc"), GROUPED)
def test_numbers_in_groups_at_length(kind, n_groups, icc, skewed):
    hits, given = number_hits(kind, n_groups, icc, 1000, skewed)
    assert hits >= 0.905 * given


@pytest.mark.slow
@pytest.mark.parametrize("name", ["beta .05 .05", "beta 50 50", "rating", "exponential"])
def test_width_at_three_hundred_is_at_most_a_quarter_more_than_students(name):
    draw, _, bounds = COLUMNS[name]
    rng = np.random.default_rng(1)
    ratios = []
    for _ in range(200):
        x = draw(rng, 300)
        ci = mean_interval(x, bounds=bounds)
        ratios.append((ci.ci_high - ci.ci_low) / (2 * 1.968 * x.std(ddof=1) / math.sqrt(300)))
    assert np.mean(ratios) < 1.25
