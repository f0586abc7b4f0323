"""The closed-form inference equals statsmodels, scipy or a brute-force computation."""

import math
from fractions import Fraction

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import integrate, special, stats
from sklearn.metrics import roc_auc_score
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import NormalIndPower, TTestIndPower, TTestPower
from statsmodels.stats.proportion import (
    power_proportions_2indep,
    proportion_confint,
    samplesize_confint_proportion,
)
from statsmodels.stats.weightstats import DescrStatsW, ttost_paired

from eval_toolkit.inference.clustered import cluster_robust_se, ols_cluster
from eval_toolkit.inference.delong import delong_ci, delong_roc_variance
from eval_toolkit.inference.equivalence import equivalence_test, non_inferiority_test
from eval_toolkit.inference.folds import corrected_resampled_t, cv_clt_ci
from eval_toolkit.inference.jackknife import jackknife_se
from eval_toolkit.inference.means import mean_se, paired_mean_diff, t_interval
from eval_toolkit.inference.multiplicity import correct_p_values
from eval_toolkit.inference.paired_tests import mcnemar_from_table, sign_flip_test
from eval_toolkit.inference.planning import n_for_power, n_for_width
from eval_toolkit.inference.proportions import (
    agresti_coull_interval,
    beta_binomial_interval,
    clopper_pearson_interval,
    jeffreys_interval,
    wilson_interval,
)

COUNTS = [(k, n) for n in (1, 2, 5, 20, 137) for k in sorted({0, 1, n // 3, n // 2, n - 1, n})]


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (wilson_interval, "wilson"),
        (clopper_pearson_interval, "beta"),
        (agresti_coull_interval, "agresti_coull"),
        (jeffreys_interval, "jeffreys"),
    ],
)
def test_proportion_intervals_equal_statsmodels(ours, theirs, confidence):
    for k, n in COUNTS:
        interval = ours(k, n, confidence=confidence)
        expected = proportion_confint(k, n, alpha=1 - confidence, method=theirs)
        if theirs == "jeffreys" and k in (0, n):
            # statsmodels has the bare posterior; ours ends at the boundary (Brown et al. 2001).
            inner = 1 if k == 0 else 0
            actual, wanted = [interval.low, interval.high][inner], expected[inner]
            assert actual == pytest.approx(wanted, abs=1e-12)
        else:
            assert [interval.low, interval.high] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("prior", [(1.0, 1.0), (0.5, 0.5), (3.0, 2.0)])
def test_beta_interval_equals_scipy(prior):
    for k, n in COUNTS:
        interval = beta_binomial_interval(k, n, confidence=0.9, prior=prior)
        expected = stats.beta.ppf([0.05, 0.95], prior[0] + k, prior[1] + n - k)
        assert [interval.low, interval.high] == pytest.approx(expected, abs=1e-12)


def test_beta_binomial_interval_equals_brute_force_integration():
    """The posterior mass between the bounds, by scipy's adaptive quadrature of its betabinom."""
    k, n = np.array([5, 2, 4, 0]), np.array([5, 5, 4, 3])
    interval = beta_binomial_interval(k, n, confidence=0.9)

    def density(rho, mu):
        size = 1 / rho - 1
        return np.exp(stats.betabinom.logpmf(k, n, mu * size, (1 - mu) * size).sum())

    def mass(low, high):
        return integrate.dblquad(density, low, high, 1e-9, 1 - 1e-9, epsabs=1e-12, epsrel=1e-8)[0]

    total = mass(1e-9, 1 - 1e-9)
    assert mass(1e-9, interval.low) / total == pytest.approx(0.05, abs=1e-5)
    assert mass(interval.high, 1 - 1e-9) / total == pytest.approx(0.05, abs=1e-5)


@pytest.mark.parametrize(("k", "n"), [(18, 20), (0, 7), (7, 7), (180, 1000)])
def test_clusters_of_one_trial_are_a_plain_binomial(k, n):
    """One trial says nothing about ρ, so the posterior of μ is the Beta one exactly."""
    clustered = beta_binomial_interval([1] * k + [0] * (n - k), [1] * n)
    pooled = beta_binomial_interval(k, n)
    assert [clustered.low, clustered.high] == pytest.approx([pooled.low, pooled.high], abs=1e-6)


def brute_force_components(labels, scores):
    positives, negatives = scores[labels], scores[~labels]
    wins = (positives[:, None] > negatives) + 0.5 * (positives[:, None] == negatives)
    return wins.mean(axis=1), wins.mean(axis=0)


@pytest.mark.parametrize("decimals", [0, 1, 6])
@pytest.mark.parametrize("case", range(20))
def test_delong_equals_the_definition(case, decimals):
    """V₁₀, V₀₁ from all pairs and their covariance by np.cov (DeLong et al. 1988, eq. 4-6)."""
    rng = np.random.default_rng(case)
    labels = np.concatenate([[True, True, False, False], rng.random(40) < 0.4])
    a = (rng.normal(size=44) + labels).round(decimals)
    b = (a + rng.normal(size=44)).round(decimals)
    v10, v01 = (
        np.array(v) for v in zip(*(brute_force_components(labels, s) for s in (a, b)), strict=True)
    )
    covariance = np.cov(v10) / labels.sum() + np.cov(v01) / (~labels).sum()
    result = delong_roc_variance(labels, a, b)
    assert result.auc_a == pytest.approx(roc_auc_score(labels, a), abs=1e-12)
    assert result.auc_b == pytest.approx(roc_auc_score(labels, b), abs=1e-12)
    assert result.var == pytest.approx(
        covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1], abs=1e-14
    )
    z = (result.auc_b - result.auc_a) / np.sqrt(result.var)
    assert result.z == pytest.approx(z, rel=1e-9)
    assert result.p_value == pytest.approx(2 * stats.norm.sf(abs(z)), rel=1e-9)
    plain = delong_ci(labels, a, transform="none")
    half = stats.norm.ppf(0.975) * np.sqrt(covariance[0, 0])
    assert plain.ci_low == pytest.approx(result.auc_a - half, abs=1e-12)
    logit = delong_ci(labels, a)
    spread = half / (result.auc_a * (1 - result.auc_a))
    assert [logit.ci_low, logit.ci_high] == pytest.approx(
        special.expit(special.logit(result.auc_a) + np.array([-spread, spread])), abs=1e-12
    )


@pytest.fixture
def panel():
    rng = np.random.default_rng(7)
    firm, year = np.repeat(np.arange(30), 8), np.tile(np.arange(8), 30)
    shared = rng.normal(size=30)[firm] + rng.normal(size=8)[year]
    x = shared + rng.normal(size=240)
    y = 1 + 0.5 * x + shared + rng.normal(size=240)
    keep = rng.random(240) < 0.9
    return y[keep], x[keep], firm[keep], year[keep]


@pytest.mark.parametrize("correction", [True, False])
def test_ols_equals_statsmodels(panel, correction):
    y, x, firm, year = panel
    X = np.column_stack([x, x**2])
    model = sm.OLS(y, sm.add_constant(X))
    white = model.fit(cov_type="HC1" if correction else "HC0", use_t=True)
    ours = ols_cluster(y, X, correction=correction)
    for key, expected in (
        ({}, white),
        ({"groups": firm}, _clustered(model, firm, correction)),
        ({"groups": year}, _clustered(model, year, correction)),
        ({"groups": firm, "groups2": year}, _clustered(model, (firm, year), correction)),
    ):
        ours = ols_cluster(y, X, correction=correction, **key)
        assert ours.coef == pytest.approx(expected.params, rel=1e-10)
        assert ours.se == pytest.approx(expected.bse, rel=1e-10)
        assert ours.t == pytest.approx(expected.tvalues, rel=1e-9)
        if len(ours.n_groups) < 2:
            assert ours.p_value == pytest.approx(expected.pvalues, rel=1e-7)
            assert np.transpose([ours.ci_low, ours.ci_high]) == pytest.approx(
                expected.conf_int(), rel=1e-8
            )


def _clustered(model, groups, correction):
    groups = np.column_stack(groups) if isinstance(groups, tuple) else groups
    keywords = {"groups": groups, "use_correction": correction}
    return model.fit(cov_type="cluster", cov_kwds=keywords, use_t=True)


def test_standard_error_of_a_mean_is_that_of_a_regression_on_a_constant(panel):
    y, _, firm, year = panel
    model = sm.OLS(y, np.ones_like(y))
    assert cluster_robust_se(y, firm) == pytest.approx(_clustered(model, firm, True).bse[0])
    assert cluster_robust_se(y, firm, groups2=year) == pytest.approx(
        _clustered(model, (firm, year), True).bse[0]
    )


def test_mean_and_its_interval_equal_scipy(panel):
    y, *_ = panel
    assert mean_se(y).se == pytest.approx(stats.sem(y), rel=1e-12)
    expected = stats.t.interval(0.9, len(y) - 1, y.mean(), stats.sem(y))
    ci = t_interval(y, confidence=0.9)
    assert [ci.ci_low, ci.ci_high] == pytest.approx(expected, rel=1e-12)
    ci = cv_clt_ci(y[:7], confidence=0.9)
    expected = DescrStatsW(y[:7]).tconfint_mean(alpha=0.1)
    assert [ci.ci_low, ci.ci_high] == pytest.approx(expected, rel=1e-12)


def test_paired_mean_difference_equals_scipy(panel):
    y, x, *_ = panel
    result = paired_mean_diff(x, y)
    expected = stats.ttest_rel(y, x)
    assert result.t == pytest.approx(expected.statistic, rel=1e-10)
    # The interval allows for skewness: it holds Student's, and is hardly wider for normal values.
    assert expected.pvalue <= result.p_value <= 1.5 * expected.pvalue
    interval = expected.confidence_interval(0.95)
    assert result.ci_low <= interval.low < interval.high <= result.ci_high
    width = interval.high - interval.low
    assert result.ci_high - result.ci_low == pytest.approx(width, rel=0.02)
    assert result.correlation == pytest.approx(stats.pearsonr(x, y).statistic)


def test_clustered_paired_difference_is_the_clustered_mean_of_differences(panel):
    y, x, firm, _ = panel
    model = sm.OLS(y - x, np.ones_like(y))
    expected = _clustered(model, firm, True)
    result = paired_mean_diff(x, y, groups=firm)
    assert result.se == pytest.approx(expected.bse[0], rel=1e-3)  # CR2 is near CR1 here


def test_corrected_resampled_t_is_a_t_test_with_an_inflated_variance():
    """Bouckaert & Frank (2004), eq. 1, written out with scipy's t distribution."""
    x = np.random.default_rng(3).normal(0.3, 1, 10)
    result = corrected_resampled_t(x, n_train=90, n_test=10, null_value=0.1)
    t = (x.mean() - 0.1) / np.sqrt((1 / 10 + 10 / 90) * x.var(ddof=1))
    assert result.t == pytest.approx(t, rel=1e-12)
    assert result.p_greater == pytest.approx(stats.t.sf(t, 9), rel=1e-10)
    assert result.p_value == pytest.approx(2 * stats.t.sf(abs(t), 9), rel=1e-10)


TABLES = [(0, 1), (5, 5), (3, 12), (12, 3), (40, 61), (0, 30), (700, 650)]


@pytest.mark.parametrize(("n_01", "n_10"), TABLES)
def test_mcnemar_equals_statsmodels_and_scipy(n_01, n_10):
    table = [[17, n_01], [n_10, 23]]
    exact = mcnemar_from_table(table)
    assert exact.p_value == pytest.approx(mcnemar(table, exact=True).pvalue, rel=1e-10)
    chi2 = mcnemar_from_table(table, method="chi2")
    expected = mcnemar(table, exact=False, correction=False)
    assert chi2.statistic == pytest.approx(expected.statistic, rel=1e-12)
    assert chi2.p_value == pytest.approx(expected.pvalue, rel=1e-9)
    if n_01 != n_10:  # there R gives 0 and statsmodels 1/m; ours is R's
        corrected = mcnemar_from_table(table, method="chi2-corrected")
        expected = mcnemar(table, exact=False, correction=True)
        assert corrected.statistic == pytest.approx(expected.statistic, rel=1e-12)
    # Fagerland, Lydersen & Laake (2013), by counting: every outcome less probable than the
    # observed one, and half of those exactly as probable. 5/5 gives 1 − ½·252/1024.
    ways = [math.comb(n_01 + n_10, k) for k in range(n_01 + n_10 + 1)]
    rarer = 2 * sum(w for w in ways if w < ways[n_01]) + sum(w for w in ways if w == ways[n_01])
    wanted = float(Fraction(rarer, 2 ** (n_01 + n_10 + 1)))
    mid_p = mcnemar_from_table(table, method="mid-p")
    assert mid_p.p_value == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_exact_sign_flip_equals_scipys_permutation_test(alternative):
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=9).round(1), rng.normal(0.4, 1, size=9).round(1)
    expected = stats.permutation_test(
        (b, a),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        vectorized=True,
        alternative=alternative,
        n_resamples=np.inf,
    )
    assert sign_flip_test(a, b, alternative=alternative).p_value == pytest.approx(expected.pvalue)


def test_monte_carlo_sign_flip_agrees_with_scipy():
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=60), rng.normal(0.3, 1, size=60)
    expected = stats.permutation_test(
        (b, a),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=20_000,
        rng=np.random.default_rng(0),
    )
    ours = sign_flip_test(a, b, n_permutations=20_000)
    error = np.sqrt(2 * expected.pvalue * (1 - expected.pvalue) / 20_000)
    assert ours.p_value == pytest.approx(expected.pvalue, abs=5 * error)


@pytest.mark.parametrize("method", ["exact", "binomial"])
def test_sign_flip_of_zeros_and_ones_is_mcnemars_exact_test(method):
    size = 12 if method == "exact" else 400
    rng = np.random.default_rng(5)
    a, b = rng.random(size) < 0.5, rng.random(size) < 0.6
    table = [[0, np.sum(~a & b)], [np.sum(a & ~b), 1]]
    expected = mcnemar(table, exact=True).pvalue
    ours = sign_flip_test(a, b, n_permutations=100_000)
    tolerance = 1e-12 if method == "exact" else 5 * np.sqrt(expected * (1 - expected) / 1e5)
    assert ours.p_value == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("bonferroni", "bonferroni"),
        ("holm", "holm"),
        ("hochberg", "simes-hochberg"),
        ("bh", "fdr_bh"),
        ("by", "fdr_by"),
    ],
)
def test_corrections_equal_statsmodels(ours, theirs):
    rng = np.random.default_rng(0)
    for m in (1, 2, 7, 50):
        p = rng.random(m).round(2) ** 3
        expected = multipletests(p, method=theirs)[1]
        assert correct_p_values(p, method=ours) == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("margin", [(-0.3, 0.3), (-0.1, 0.5)])
def test_equivalence_equals_statsmodels(margin):
    rng = np.random.default_rng(4)
    a = rng.normal(size=50)
    b = a + rng.normal(0.05, 0.6, size=50)
    summary = paired_mean_diff(a, b)
    p_value, lower, upper = ttost_paired(b, a, *margin)
    result = equivalence_test(summary.delta, summary.se, margin=margin, df=summary.df)
    assert result.p_value == pytest.approx(p_value, rel=1e-10)
    assert result.p_lower == pytest.approx(lower[1], rel=1e-10)
    assert result.p_upper == pytest.approx(upper[1], rel=1e-10)
    low, high = DescrStatsW(b - a).tconfint_mean(alpha=0.1)
    assert [result.ci_low, result.ci_high] == pytest.approx([low, high], rel=1e-10)
    one_sided = non_inferiority_test(
        summary.delta, summary.se, margin=-margin[0], df=summary.df, confidence=0.95
    )
    assert one_sided.p_value == pytest.approx(lower[1], rel=1e-10)
    assert one_sided.bound == pytest.approx(low, rel=1e-10)


@pytest.mark.parametrize("p", [0.5, 0.8, 0.97])
@pytest.mark.parametrize("width", [0.02, 0.1, 0.3])
def test_width_of_a_proportion(p, width):
    ours = n_for_width(width, proportion=p, interval="normal").n
    theirs = samplesize_confint_proportion(p, width / 2)
    assert ours == pytest.approx(theirs, abs=1)
    n = n_for_width(width, proportion=p).n
    sizes = []
    for size in (n - 1, n, n + 1):
        low, high = proportion_confint(p * size, size, method="wilson")
        sizes.append(high - low)
    assert sizes[1] <= width + 1e-12
    assert sizes[0] > width - 1e-12


def test_width_of_a_mean():
    n = n_for_width(0.5, sd=1.3, confidence=0.9).n
    widths = [2 * stats.t.ppf(0.95, size - 1) * 1.3 / np.sqrt(size) for size in (n - 1, n)]
    assert widths[1] <= 0.5 < widths[0]


@pytest.mark.parametrize("effect", [0.1, 0.3, 1.0])
def test_power_for_real_values_equals_statsmodels(effect):
    keywords = {"effect_size": effect, "alpha": 0.05, "power": 0.8}
    independent = n_for_power(effect, design="independent", sd=1.0)
    assert independent.n == pytest.approx(TTestIndPower().solve_power(**keywords), abs=1)
    assert independent.n == pytest.approx(NormalIndPower().solve_power(**keywords), abs=2)
    assert independent.n_total == 2 * independent.n
    paired = n_for_power(effect, sd=1.0)
    assert paired.n == pytest.approx(TTestPower().solve_power(**keywords), abs=1)
    # With correlation ½ the differences have the same spread as the values.
    assert n_for_power(effect, sd=1.0, correlation=0.5) == paired
    assert n_for_power(effect, sd=1.0, design="one-sample").n == paired.n


@pytest.mark.parametrize(("p", "effect"), [(0.5, 0.1), (0.8, 0.03), (0.9, -0.05), (0.2, 0.2)])
def test_power_for_two_proportions_equals_statsmodels(p, effect):
    n = n_for_power(effect, design="independent", proportion=p).n
    powers = [power_proportions_2indep(effect, p, size).power for size in (n - 2, n, n + 1)]
    assert powers[0] < 0.8 < powers[2]
    assert powers[1] == pytest.approx(0.8, abs=0.005)


def test_power_for_one_proportion_equals_the_normal_approximation():
    """P(reject) from scipy's normal distribution at the n found, and one unit less."""

    def achieved(n, p0, p1):
        limit = stats.norm.ppf(0.975) * np.sqrt(p0 * (1 - p0) / n)
        return stats.norm.sf(limit, loc=p1 - p0, scale=np.sqrt(p1 * (1 - p1) / n))

    n = n_for_power(0.05, design="one-sample", proportion=0.8).n
    assert achieved(n - 1, 0.8, 0.85) < 0.8 <= achieved(n, 0.8, 0.85)


def test_jackknife_of_a_mean_is_its_standard_error():
    x = np.random.default_rng(0).normal(size=30)
    leave_one_out = (x.sum() - x) / 29
    assert jackknife_se(leave_one_out) == pytest.approx(stats.sem(x), rel=1e-10)
