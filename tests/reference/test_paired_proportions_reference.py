"""Paired differences of proportions against published values and the score test inverted by force."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import xlogy

from eval_toolkit.inference import mcnemar_from_table, wilson_interval
from eval_toolkit.inference.paired_proportions import paired_macro_interval, tango_interval


@pytest.mark.parametrize(
    ("table", "confidence", "bounds", "digits"),
    [
        # Airway hyper-responsiveness before and after transplantation (Bentur et al. 2009), an
        # example of Fagerland, Lydersen & Laake (2014), Statistics in Medicine 33:2850; the bounds
        # as the R package ratesci quotes them.
        ((1, 7, 21), 0.95, (-0.517, -0.026), 3),
        # Response before and after consolidation (Cavo et al. 2012), in Fagerland, Lydersen &
        # Laake (2017), Statistical Analysis of Contingency Tables, chapter 8; the digits are those
        # that the tests of its R package contingencytables expect.
        ((6, 16, 161), 0.95, (-0.1240, -0.0054), 4),
        # PropCIs::scoreci.mp(25, 28, 618, 0.90), the R package that accompanies Agresti's books.
        ((28, 25, 618), 0.90, (-0.0148, 0.0247), 4),
    ],
)
def test_published_tango_intervals(table, confidence, bounds, digits):
    ci = tango_interval(*table, confidence=confidence)
    assert (round(ci.ci_low, digits), round(ci.ci_high, digits)) == bounds


def rejects(table, delta, z):
    """The score test, with the likeliest table of that difference found by search."""
    n_01, n_10, n = table

    def minus_log_likelihood(lost):
        return -(
            xlogy(n_01, lost + delta)
            + xlogy(n_10, lost)
            + xlogy(n - n_01 - n_10, 1.0 - 2.0 * lost - delta)
        )

    ends = max(0.0, -delta), (1.0 - delta) / 2.0
    found = minimize_scalar(
        minus_log_likelihood, bounds=ends, method="bounded", options={"xatol": 1e-13}
    ).x
    lost = min((*ends, found), key=minus_log_likelihood)
    variance = n * (2.0 * lost + delta - delta**2)
    return abs(n_01 - n_10 - n * delta) > z * math.sqrt(max(variance, 0.0))


@pytest.mark.parametrize(
    "table",
    [(0, 0, 20), (5, 0, 30), (0, 3, 12), (7, 9, 40), (1, 7, 21), (12, 0, 12), (2, 1, 500)],
)
def test_tango_is_the_score_test_inverted(table):
    """No difference outside the interval is accepted and none inside is rejected."""
    ci = tango_interval(*table)
    z = 1.959963984540054
    for delta in np.linspace(-0.999, 0.999, 400):
        if min(abs(delta - ci.ci_low), abs(delta - ci.ci_high)) > 1e-5:
            assert rejects(table, delta, z) == (not ci.ci_low <= delta <= ci.ci_high), delta
    for bound, outwards in ((ci.ci_low, -1e-5), (ci.ci_high, 1e-5)):
        if abs(bound) < 1.0:
            assert rejects(table, bound + outwards, z)
            assert not rejects(table, bound - outwards, z)


def test_zero_is_inside_where_mcnemars_uncorrected_test_accepts_it():
    for n_01 in range(13):
        for n_10 in range(13):
            if n_01 == n_10 == 0:
                continue
            ci = tango_interval(n_01, n_10, 40)
            p = mcnemar_from_table([[10, n_01], [n_10, 30]], method="chi2").p_value
            assert (ci.ci_low <= 0.0 <= ci.ci_high) == (p >= 0.05)


def test_without_discordant_units_it_is_wilsons_bound_of_no_success():
    for n in (1, 5, 20, 1000):
        assert tango_interval(0, 0, n).ci_high == pytest.approx(
            wilson_interval(0, n).high, rel=1e-12
        )


def test_one_part_is_bonett_and_prices_interval():
    """Bonett & Price add one unit of either kind; z²/4 is one where z = 2.

    By hand for 4 and 9 of 30: (5/32 − 10/32) ± 2 √((15/32 − 25/1024) / 32) = −0.15625 ± 0.23572.
    """
    confidence = math.erf(2.0 / math.sqrt(2.0))
    ci = paired_macro_interval([(4, 9, 30)], confidence=confidence)
    reach = 2.0 * math.sqrt((15 / 32 - (5 / 32) ** 2) / 32)
    assert (ci.ci_low, ci.ci_high) == pytest.approx((-5 / 32 - reach, -5 / 32 + reach), rel=1e-9)


def test_many_discordant_units_give_the_textbook_interval():
    """At n = 10⁵ per part the additions do not count: ± z √Σ var / G."""
    parts = [(20_000, 10_000, 100_000), (5_000, 30_000, 100_000), (10_000, 10_000, 100_000)]
    shares = np.array([(up / n, down / n) for up, down, n in parts])
    difference = shares[:, 0] - shares[:, 1]
    se = np.sqrt(((shares.sum(1) - difference**2) / 100_000).sum()) / 3
    ci = paired_macro_interval(parts)
    expected = (difference.mean() - 1.959964 * se, difference.mean() + 1.959964 * se)
    assert (ci.ci_low, ci.ci_high) == pytest.approx(expected, abs=1e-6)
