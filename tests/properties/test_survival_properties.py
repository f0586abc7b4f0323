"""What must hold for survival curves of any rows."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from eval_toolkit.inference import kaplan_meier, survival_difference

row = st.tuples(st.integers(0, 6), st.booleans(), st.integers(0, 5), st.integers(1, 4))


@st.composite
def rows(draw, min_size=1):
    """Times, events, groups and whole weights; at least one row was observed."""
    drawn = draw(st.lists(row, min_size=min_size, max_size=40))
    times, events, groups, weights = (np.array(column) for column in zip(*drawn, strict=True))
    assume(times.max() > 0)
    return times, events & (times > 0), groups, weights


def ends(curve):
    return np.stack([curve.survival, curve.ci_low, curve.ci_high])


@given(rows(), st.sampled_from(["log-log", "beta-product"]), st.booleans(), st.booleans())
def test_bounds_hold_the_curve_and_have_a_width(data, method, grouped, weighted):
    times, events, groups, weights = data
    curve = kaplan_meier(
        times,
        events,
        groups=groups if grouped else None,
        weights=weights if weighted else None,
        method=method,
    )
    survival, low, high = ends(curve)
    assert (low >= 0.0).all()
    assert (high <= 1.0).all()
    if method == "log-log" or not (grouped or weighted):
        assert (low <= survival + 1e-12).all()
        assert (survival <= high + 1e-12).all()
    assert (low < high).all()
    assert (np.diff(survival) <= 1e-12).all()
    last = float(curve.times[-1])
    mean = curve.restricted_mean(last)
    assert 0.0 <= mean.ci_low <= mean.point_estimate <= mean.ci_high <= last
    assert mean.ci_low < mean.ci_high


@given(rows())
def test_failure_never_falls_and_begins_at_zero(data):
    times, events, *_ = data
    curve = kaplan_meier(times, events)
    grid = np.arange(0.5, curve.times[-1] + 0.25, 0.5)
    shares = [curve.failure_by(time).point_estimate for time in grid]
    assert (np.diff([0.0, *shares]) >= -1e-12).all()


@given(rows(), st.booleans(), st.booleans(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(data, grouped, weighted, random):
    times, events, groups, weights = data
    order = np.array(random.sample(range(len(times)), len(times)))
    curves = [
        kaplan_meier(
            times[at],
            events[at],
            groups=groups[at] if grouped else None,
            weights=weights[at] if weighted else None,
        )
        for at in (np.arange(len(times)), order)
    ]
    assert ends(curves[0]) == pytest.approx(ends(curves[1]), abs=1e-9)


@given(rows(), st.booleans(), st.floats(0.01, 100.0))
def test_equal_weights_are_no_weights(data, grouped, weight):
    times, events, groups, _ = data
    options = {"groups": groups} if grouped else {}
    plain = kaplan_meier(times, events, **options)
    weighted = kaplan_meier(times, events, weights=np.full(len(times), weight), **options)
    assert ends(weighted) == pytest.approx(ends(plain), abs=1e-9)


@given(rows())
def test_a_weight_counts_like_that_many_rows_of_the_same_group(data):
    times, events, groups, weights = data
    weighted = kaplan_meier(times, events, groups=groups, weights=weights)
    repeated = kaplan_meier(
        *(np.repeat(column, weights) for column in (times, events)),
        groups=np.repeat(groups, weights),
    )
    # Groups that are all alike are judged by their rows, of which there are then more.
    assume("alike" not in weighted.reason and "one group" not in weighted.reason)
    assert ends(weighted) == pytest.approx(ends(repeated), abs=1e-9)


@given(st.lists(st.integers(1, 4), min_size=2, max_size=40))
def test_where_all_end_at_the_last_turn_it_is_the_plain_share(first):
    """Four turns; a row that never failed was seen for all of them."""
    first = np.array(first)
    events = first < 4
    curve = kaplan_meier(first, events)
    for turn in curve.times:
        share = float(((first <= turn) & events).mean())
        assert curve.failure_by(turn).point_estimate == pytest.approx(share, abs=1e-12)


@given(rows(min_size=2))
def test_groups_of_one_row_only_add_the_correction_for_few_groups(data):
    """Without that factor and Student's quantile, as if with very many groups: the same bounds."""
    times, events, *_ = data
    seen = int((times > 0).sum())
    assume(seen >= 2)
    alone = kaplan_meier(times, events)
    grouped = kaplan_meier(times, events, groups=np.arange(len(times)))
    assert grouped.survival == pytest.approx(alone.survival)
    assert grouped.n_groups == seen
    inside = (alone.survival > 0.0) & (alone.survival < 1.0)
    assert grouped.ci_low[~inside] == pytest.approx(alone.ci_low[~inside])
    assert grouped.ci_high[~inside] == pytest.approx(alone.ci_high[~inside])
    from scipy import stats

    factor = stats.t.ppf(0.975, seen - 1) * np.sqrt(seen / (seen - 1)) / 1.959963984540054

    def reach(curve):
        with np.errstate(divide="ignore"):
            logs = [np.log(-np.log(bound[inside])) for bound in (curve.ci_low, curve.ci_high)]
        return logs[0] - logs[1]

    # Where a bound has run into 0 or 1 in floats its reach cannot be read off any more.
    readable = np.isfinite(reach(grouped)) & (grouped.ci_low[inside] > 1e-290)
    readable &= grouped.ci_high[inside] < 1.0 - 1e-9
    # With groups the lower bound is no higher than without a failure, for those at risk by then.
    unfailed = 0.025 ** (1.0 / np.array([(times >= time).sum() for time in grouped.times]))
    readable &= grouped.ci_low[inside] < unfailed[inside] * (1.0 - 1e-9)
    assert reach(grouped)[readable] == pytest.approx(factor * reach(alone)[readable], rel=1e-4)


@given(rows(), rows())
def test_the_difference_changes_sign_with_the_arms(one, other):
    a, b = (kaplan_meier(times, events, groups=groups) for times, events, groups, _ in (one, other))
    at = float(min(a.times[-1], b.times[-1]))
    forth, back = survival_difference(a, b, at=at), survival_difference(b, a, at=at)
    assert forth.delta == pytest.approx(-back.delta)
    assert (forth.ci_low, forth.ci_high) == pytest.approx((-back.ci_high, -back.ci_low), abs=1e-9)
    assert -1.0 <= forth.ci_low <= forth.delta <= forth.ci_high <= 1.0
    assert forth.ci_low < forth.ci_high
