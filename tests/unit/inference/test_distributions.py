"""Distributions in a few lines, beside scipy's."""

import numpy as np
import pytest
from scipy import special

from eval_toolkit.inference.distributions import (
    binomial_cdf,
    critical_value,
    normal_cdf,
    owens_t,
)


@pytest.mark.parametrize("df", [1.0, 2.5, 999.9, 1000.0, 1234.5, 50_000.0, 1e9])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999, 1.0 - 1e-6, 1.0 - 1e-11])
def test_students_quantile_is_scipys(df: float, confidence: float) -> None:
    tail = (1.0 - confidence) / 2.0
    assert critical_value(confidence, df) == pytest.approx(-special.stdtrit(df, tail), rel=1e-10)


@pytest.mark.parametrize("df", [1000.0, 5048.0])
def test_usual_quantiles_of_many_degrees_have_all_their_digits(df: float) -> None:
    for confidence in (0.8, 0.9, 0.95, 0.99):
        expected = -special.stdtrit(df, (1.0 - confidence) / 2.0)
        assert critical_value(confidence, df) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("a", [0.1, 1.0 / np.sqrt(3.0), 1.0])
def test_owens_t_is_scipys(a: float) -> None:
    for h in (*np.linspace(-9.0, 9.0, 181), 12.3, 20.0, 37.0):
        assert owens_t(h, a) == pytest.approx(special.owens_t(h, a), rel=1e-12)


def test_owens_t_without_a_distance_is_an_angle() -> None:
    assert owens_t(0.0, 1.0) == pytest.approx(1.0 / 8.0, rel=1e-15)  # arctan(1) / 2π


@pytest.mark.parametrize("n", [1, 2, 3, 100, 44_951, 3_000_000])
@pytest.mark.parametrize("p", [1e-6, 0.01, 0.3, 0.5, 0.95, 1.0 - 1e-6])
def test_binomial_probabilities_are_scipys(n: int, p: float) -> None:
    """P(X ≤ k) is the tail of a beta distribution; ``bdtr`` itself is off by 1e-5 at n = 3 000 000."""
    counts, cumulative = binomial_cdf(n, p)
    expected = special.betaincc(counts[:-1] + 1.0, n - counts[:-1], p)
    assert cumulative[:-1] == pytest.approx(expected, abs=1e-13)
    assert cumulative[-1] == 1.0
    if counts[0]:
        assert special.betaincc(counts[0], n - counts[0] + 1.0, p) < 1e-13


def test_normal_probabilities_are_scipys() -> None:
    for z in np.linspace(-38.0, 8.0, 47):
        assert normal_cdf(z) == pytest.approx(special.ndtr(z), rel=1e-13)
