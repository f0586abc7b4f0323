"""Intervals of paired differences of proportions: what is refused, and that none is certain."""

import pytest

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.inference.paired_proportions import paired_macro_interval, tango_interval

TABLES = [(0, 0, 1), (0, 0, 20), (1, 0, 1), (5, 0, 30), (0, 30, 30), (30, 0, 30), (7, 9, 40)]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    "interval", [tango_interval, lambda *t, **o: paired_macro_interval([t], **o)]
)
def test_no_interval_is_certain_and_sides_can_be_swapped(interval, table):
    n_01, n_10, n = table
    ci = interval(*table)
    assert -1.0 <= ci.ci_low <= ci.point_estimate <= ci.ci_high <= 1.0
    assert ci.ci_high - ci.ci_low > 0.01
    assert ci.point_estimate == (n_01 - n_10) / n
    assert (ci.n_units, ci.n_resamples, ci.confidence) == (n, 0, 0.95)
    back = interval(n_10, n_01, n)
    assert (back.ci_low, back.ci_high) == pytest.approx((-ci.ci_high, -ci.ci_low), abs=1e-15)
    wider = interval(*table, confidence=0.99)
    assert wider.ci_low <= ci.ci_low <= ci.ci_high <= wider.ci_high


def test_more_units_narrow_the_interval():
    widths = [ci.ci_high - ci.ci_low for ci in (tango_interval(0, 0, n) for n in (10, 100, 10_000))]
    assert widths == sorted(widths, reverse=True)
    many = tango_interval(0, 0, 10_000_000)
    assert 0.0 < many.ci_high < 1e-6


def test_parts_count_the_same_whatever_their_size():
    ci = paired_macro_interval([(10, 0, 10), (0, 0, 1000)])
    assert ci.point_estimate == 0.5
    assert ci.method == "adjusted-wald-paired, macro"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ((-1, 0, 5), "`n_01` is -1"),
        ((0, 1.5, 5), "`n_10`"),
        ((0, 0, 0), "`n` is 0"),
        ((3, 3, 5), "`n_01` is 3 and `n_10` is 3, together more than the 5 units"),
    ],
)
def test_impossible_counts_are_refused(table, message):
    with pytest.raises(InvalidInputError, match=message):
        tango_interval(*table)
    with pytest.raises(InvalidInputError, match=message):
        paired_macro_interval([(1, 1, 4), table])


def test_other_arguments():
    with pytest.raises(InvalidInputError, match="`confidence`"):
        tango_interval(1, 2, 10, confidence=95)
    with pytest.raises(InvalidInputError, match="`parts` is empty"):
        paired_macro_interval([])
