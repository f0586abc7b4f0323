"""Invariances of the closed-form inference that hold for all data."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from statsmodels.stats.multitest import multipletests

from eval_toolkit.inference.clustered import cluster_robust_se, ols_cluster
from eval_toolkit.inference.delong import delong_ci, delong_roc_variance
from eval_toolkit.inference.equivalence import equivalence_test, non_inferiority_test
from eval_toolkit.inference.folds import corrected_resampled_t, cross_validate_metric, cv_clt_ci
from eval_toolkit.inference.jackknife import jackknife_logit_ci
from eval_toolkit.inference.means import mean_se, paired_mean_diff, t_interval
from eval_toolkit.inference.multiplicity import correct_p_values
from eval_toolkit.inference.paired_tests import mcnemar_from_table, mcnemar_test, sign_flip_test
from eval_toolkit.inference.planning import n_for_power, n_for_width
from eval_toolkit.inference.proportions import (
    agresti_coull_interval,
    beta_binomial_interval,
    clopper_pearson_interval,
    jeffreys_interval,
    wilson_interval,
)

# A busy machine is not a failure.
no_deadline = settings(deadline=None)

INTERVALS = [
    wilson_interval,
    clopper_pearson_interval,
    jeffreys_interval,
    agresti_coull_interval,
    beta_binomial_interval,
]


@st.composite
def counts(draw, max_n=400):
    n = draw(st.integers(1, max_n))
    return draw(st.integers(0, n)), n


@st.composite
def scored(draw, n_scorers=1, max_n=40):
    """Labels with at least two of each class, and tied integer scores of each scorer."""
    n = draw(st.integers(4, max_n))
    labels = draw(hnp.arrays(np.bool_, n))
    labels[:4] = [True, True, False, False]
    scores = [draw(hnp.arrays(np.int64, n, elements=st.integers(-8, 8))) for _ in range(n_scorers)]
    return labels, *scores


def real_vectors(min_size=2, max_size=25):
    # A grid of sixteenths: sums are exact, so that equalities are equalities.
    return st.lists(
        st.integers(-160, 160).map(lambda i: i / 16), min_size=min_size, max_size=max_size
    ).map(np.array)


pairs = st.integers(2, 25).flatmap(lambda n: st.tuples(real_vectors(n, n), real_vectors(n, n)))


@pytest.mark.parametrize("interval", INTERVALS)
@no_deadline
@given(case=counts(), confidence=st.floats(0.5, 0.999))
def test_proportions_mirror_and_nest(interval, case, confidence):
    k, n = case
    one, other = interval(k, n, confidence=confidence), interval(n - k, n, confidence=confidence)
    assert one.low == pytest.approx(1 - other.high, abs=1e-9)
    assert 0.0 <= one.low < one.high <= 1.0
    wider = interval(k, n, confidence=(1 + confidence) / 2)
    assert wider.low <= one.low + 1e-12
    assert one.high <= wider.high + 1e-12


@pytest.mark.parametrize("interval", INTERVALS)
@no_deadline
@given(case=counts())
def test_more_successes_never_lower_the_bounds(interval, case):
    k, n = case
    assume(k < n)
    fewer, more = interval(k, n), interval(k + 1, n)
    assert fewer.low <= more.low
    assert fewer.high <= more.high


@no_deadline
@given(case=counts())
def test_classical_intervals_contain_the_proportion_and_exact_is_wider_than_jeffreys(case):
    k, n = case
    for interval in INTERVALS[:4]:
        result = interval(k, n)
        assert result.low - 1e-12 <= k / n <= result.high + 1e-12
    exact, jeffreys = clopper_pearson_interval(k, n), jeffreys_interval(k, n)
    assert exact.low <= jeffreys.low + 1e-12
    assert jeffreys.high <= exact.high + 1e-12


@settings(max_examples=25, deadline=None)
@given(clusters=st.lists(counts(max_n=6), min_size=1, max_size=8))
def test_beta_binomial_clusters_mirror(clusters):
    k, n = np.array(clusters).T
    one, other = beta_binomial_interval(k, n), beta_binomial_interval(n - k, n)
    assert one.low == pytest.approx(1 - other.high, abs=1e-6)
    assert 0.0 < one.low < one.high < 1.0


@no_deadline
@given(case=scored(n_scorers=2), seed=st.integers(0, 10))
def test_delong_ignores_order_and_monotone_changes(case, seed):
    labels, a, b = case
    result = delong_roc_variance(labels, a, b)
    order = np.random.default_rng(seed).permutation(len(labels))
    shuffled = delong_roc_variance(labels[order], np.exp(a[order] / 4.0), b[order] * 3 - 1)
    assert shuffled.var == pytest.approx(result.var, abs=1e-15)
    assert shuffled.delta_auc == pytest.approx(result.delta_auc, abs=1e-15)


@no_deadline
@given(case=scored(n_scorers=2))
def test_delong_swaps(case):
    labels, a, b = case
    result = delong_roc_variance(labels, a, b)
    swapped = delong_roc_variance(labels, b, a)
    assert swapped.delta_auc == -result.delta_auc
    assert swapped.var == pytest.approx(result.var, abs=1e-15)
    negated = delong_roc_variance(~labels, -a, -b)
    assert negated.auc_a == pytest.approx(result.auc_a, abs=1e-15)
    assert negated.var == pytest.approx(result.var, abs=1e-15)


@no_deadline
@given(case=scored())
def test_delong_interval_brackets_the_auc(case):
    labels, scores = case
    for transform in ("logit", "none"):
        ci = delong_ci(labels, scores, transform=transform)
        assert 0.0 <= ci.ci_low <= ci.point_estimate <= ci.ci_high <= 1.0


@no_deadline
@given(x=real_vectors(), shift=st.integers(-8, 8), scale=st.integers(1, 8))
def test_means_shift_and_scale(x, shift, scale):
    assume(np.ptp(x) > 0)
    one, other = t_interval(x), t_interval(scale * x + shift)
    assert other.ci_low == pytest.approx(scale * one.ci_low + shift, abs=1e-9)
    assert other.ci_high == pytest.approx(scale * one.ci_high + shift, abs=1e-9)


@no_deadline
@given(x=real_vectors(min_size=4), copies=st.integers(1, 4))
def test_copies_of_a_cluster_add_nothing(x, copies):
    groups = np.tile(np.arange(len(x)), copies)
    assert cluster_robust_se(np.tile(x, copies), groups) == pytest.approx(mean_se(x).se, abs=1e-12)


@no_deadline
@given(pair=pairs)
def test_paired_differences_swap(pair):
    a, b = pair
    one, other = paired_mean_diff(a, b), paired_mean_diff(b, a)
    assert one.delta == -other.delta
    if one.p_value is None:
        assert other.ci_low is one.ci_low is None
        assert one.reason == other.reason
        return
    assert one.p_value == pytest.approx(other.p_value, abs=1e-9)
    assert (one.ci_low, one.ci_high) == pytest.approx((-other.ci_high, -other.ci_low), abs=1e-9)


@no_deadline
@given(x=real_vectors(min_size=6), data=st.data())
def test_regression_on_a_group_indicator_is_a_difference_of_means(x, data):
    treated = data.draw(hnp.arrays(np.bool_, len(x)))
    assume(2 <= treated.sum() <= len(x) - 2)
    fit = ols_cluster(x, treated)
    assert fit.coef[1] == pytest.approx(x[treated].mean() - x[~treated].mean(), abs=1e-9)


@no_deadline
@given(x=real_vectors(), n_train=st.integers(1, 1000), n_test=st.integers(1, 1000))
def test_correction_only_widens(x, n_train, n_test):
    plain, corrected = cv_clt_ci(x), corrected_resampled_t(x, n_train=n_train, n_test=n_test)
    assert corrected.mean == plain.point_estimate
    assert corrected.ci_low <= plain.ci_low
    assert plain.ci_high <= corrected.ci_high


@no_deadline
@given(case=scored(), k=st.integers(2, 4), stratified=st.booleans(), seed=st.integers(0, 99))
def test_folds_partition_the_rows(case, k, stratified, seed):
    labels, _ = case
    rows = np.arange(len(labels), dtype=float)
    seen = []

    def record(y, s):
        assert y.tolist() == labels[s.astype(int)].astype(int).tolist()
        seen.extend(s)
        return float(y.sum())

    folds = cross_validate_metric(
        labels, rows, metric=record, k=k, stratified=stratified, seed=seed
    )
    assert sorted(seen) == rows.tolist()
    if stratified:
        assert np.ptp(folds.values) <= 1


tables = st.lists(st.integers(0, 200), min_size=4, max_size=4).filter(any)


@no_deadline
@given(cells=tables)
def test_mcnemar_depends_on_discordant_units_and_swaps(cells):
    table = np.reshape(cells, (2, 2))
    for method in ("exact", "mid-p", "chi2", "chi2-corrected"):
        one = mcnemar_from_table(table, method=method)
        other = mcnemar_from_table(table.T, method=method)
        assert one.p_value == other.p_value
        assert one.delta == -other.delta
        assert one.p_value is None or 0.0 <= one.p_value <= 1.0
    if table[0, 1] + table[1, 0]:
        exact, mid_p = (mcnemar_from_table(table, method=m).p_value for m in ("exact", "mid-p"))
        assert mid_p <= exact


@no_deadline
@given(data=st.data(), n=st.integers(1, 14))
def test_sign_flip_of_zeros_and_ones_is_mcnemar(data, n):
    a, b = data.draw(hnp.arrays(np.bool_, n)), data.draw(hnp.arrays(np.bool_, n))
    assert sign_flip_test(a, b).p_value == pytest.approx(mcnemar_test(a, b).p_value, abs=1e-12)


@no_deadline
@given(pair=st.integers(2, 10).flatmap(lambda n: st.tuples(real_vectors(n, n), real_vectors(n, n))))
def test_sign_flip_tails(pair):
    a, b = pair
    two, up, down = (
        sign_flip_test(a, b, alternative=alternative).p_value
        for alternative in ("two-sided", "greater", "less")
    )
    assert sign_flip_test(b, a).p_value == two
    assert sign_flip_test(b, a, alternative="less").p_value == up
    # A symmetric distribution: the two tails beyond the observed value are alike.
    assert two == pytest.approx(min(1.0, 2 * min(up, down)))


@no_deadline
@given(
    p=st.lists(st.floats(0, 1), min_size=1, max_size=30),
    methods=st.sampled_from(
        [
            ("bonferroni", "bonferroni"),
            ("holm", "holm"),
            ("hochberg", "simes-hochberg"),
            ("bh", "fdr_bh"),
            ("by", "fdr_by"),
        ]
    ),
)
def test_corrections_equal_statsmodels(p, methods):
    ours, theirs = methods
    adjusted = correct_p_values(p, method=ours)
    assert adjusted == pytest.approx(multipletests(p, method=theirs)[1], rel=1e-12)
    assert (adjusted >= np.array(p)).all()
    order = np.argsort(p, kind="stable")
    assert (np.diff(adjusted[order]) >= 0).all()


@no_deadline
@given(p=st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_corrections_are_ordered_by_power(p):
    by_method = {
        method: correct_p_values(p, method=method)
        for method in ("bonferroni", "holm", "hochberg", "bh", "by")
    }
    for stronger, weaker in (("holm", "bonferroni"), ("hochberg", "holm"), ("bh", "hochberg")):
        assert (by_method[stronger] <= by_method[weaker] + 1e-15).all()
    assert (by_method["bh"] <= by_method["by"]).all()


@no_deadline
@given(
    delta=st.floats(-1, 1),
    se=st.floats(0.001, 1),
    margin=st.floats(0.01, 2),
    df=st.none() | st.integers(2, 100),
)
def test_equivalence_is_non_inferiority_both_ways(delta, se, margin, df):
    result = equivalence_test(delta, se, margin=margin, df=df)
    lower = non_inferiority_test(delta, se, margin=margin, df=df)
    upper = non_inferiority_test(delta, se, margin=margin, df=df, higher_is_better=False)
    assert (result.p_lower, result.p_upper) == (lower.p_value, upper.p_value)
    assert result.equivalent == (lower.non_inferior and upper.non_inferior)
    wider = equivalence_test(delta, se, margin=1.5 * margin, df=df)
    assert wider.p_value <= result.p_value


@no_deadline
@given(
    effect=st.floats(0.01, 0.2),
    discordance=st.floats(0.2, 1.0),
    power=st.floats(0.5, 0.99),
    icc=st.floats(0, 1),
    cluster_size=st.integers(1, 20),
)
def test_harder_questions_need_more_units(effect, discordance, power, icc, cluster_size):
    def n(**changes):
        keywords = {"discordance": discordance, "power": power, "cluster_size": cluster_size}
        return n_for_power(**{"effect": effect, "icc": icc, **keywords, **changes}).n

    assert n(effect=effect / 2) >= n()
    assert n(power=(1 + power) / 2) >= n()
    assert n(icc=(1 + icc) / 2) >= n()
    assert n(alpha=0.01) >= n()


@no_deadline
@given(p=st.floats(0, 1), width=st.floats(0.005, 0.9))
def test_width_is_met_and_one_unit_less_does_not_meet_it(p, width):
    n = n_for_width(width, proportion=p).n
    z = 1.959963984540054

    def wilson_width(size):
        return 2 * z * np.sqrt(size * p * (1 - p) + z * z / 4) / (size + z * z)

    assert wilson_width(n) <= width * (1 + 1e-9)
    assert n == 1 or wilson_width(n - 1) > width * (1 - 1e-9)


@no_deadline
@given(
    point=st.floats(0.01, 0.99),
    values=st.lists(st.floats(0, 1), min_size=2, max_size=20),
    confidence=st.floats(0.5, 0.999),
)
def test_jackknife_interval_brackets_the_point_and_mirrors(point, values, confidence):
    ci = jackknife_logit_ci(point, values, confidence=confidence)
    assert 0.0 <= ci.ci_low <= point + 1e-15
    assert point - 1e-15 <= ci.ci_high <= 1.0
    mirrored = jackknife_logit_ci(1 - point, 1 - np.array(values), confidence=confidence)
    assert mirrored.ci_low == pytest.approx(1 - ci.ci_high, abs=1e-9)
