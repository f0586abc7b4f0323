"""Measured coverage of every closed-form interval, size of every test, power of every plan.

Each simulation has a documented value and where it comes from: theory, a publication, or a larger
run of the same simulation with another seed. The measured rate must agree with it within four
binomial standard errors. Run with ``pytest -m slow``; the table is printed at the end.
"""

from collections.abc import Callable
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from eval_toolkit.inference.clustered import ols_cluster
from eval_toolkit.inference.delong import delong_ci, delong_roc_variance
from eval_toolkit.inference.equivalence import (
    equivalence_from_paired,
    equivalence_test,
    non_inferiority_test,
)
from eval_toolkit.inference.folds import corrected_resampled_t, cv_clt_ci
from eval_toolkit.inference.jackknife import jackknife_logit_ci
from eval_toolkit.inference.means import paired_mean_diff, t_interval
from eval_toolkit.inference.multiplicity import correct_p_values
from eval_toolkit.inference.paired_tests import mcnemar_from_table, sign_flip_test
from eval_toolkit.inference.planning import n_for_power
from eval_toolkit.inference.proportions import (
    agresti_coull_interval,
    beta_binomial_interval,
    clopper_pearson_interval,
    jeffreys_interval,
    wilson_interval,
)
from eval_toolkit.inference.results import PairedBootstrapCI

pytestmark = pytest.mark.slow

SEED = 20_240_601
LARGE_RUN = 20_000
THEORY = "theory: exact"
LARGE = f"measured: {LARGE_RUN} runs, another seed"

Hits = Callable[[np.random.Generator], bool]


@dataclass(frozen=True)
class Simulation:
    """One draw of a simulation says hit or miss; ``documented`` is the probability of a hit."""

    kind: str
    name: str
    hit: Hits
    documented: float
    source: str
    n_runs: int = 1500


def covers(ci, truth):
    low = ci.low if hasattr(ci, "low") else ci.ci_low
    high = ci.high if hasattr(ci, "high") else ci.ci_high
    return low <= truth <= high


# --- means -------------------------------------------------------------------------------------


def t_of_normals(rng):
    return covers(t_interval(rng.normal(size=5)), 0.0)


def clustered_values(rng, n_groups, size=6, within=1.0):
    groups = np.repeat(np.arange(n_groups), size)
    return rng.normal(size=n_groups)[groups] + within * rng.normal(size=len(groups)), groups


def t_clustered(rng):
    values, groups = clustered_values(rng, 15)
    return covers(t_interval(values, groups=groups), 0.0)


def t_ignoring_clusters(rng):
    return covers(t_interval(clustered_values(rng, 15)[0]), 0.0)


def paired_zeros_and_ones(rng, n=200):
    """Two systems right on 70 % of the items, with correlated errors."""
    hard = rng.normal(size=n)
    a, b = ((hard + rng.normal(size=n)) / np.sqrt(2) < stats.norm.ppf(0.7) for _ in range(2))
    return a, b


def paired_mean_of_zeros_and_ones(rng):
    return paired_mean_diff(*paired_zeros_and_ones(rng)).p_value <= 0.05


def paired_mean_in_clusters(rng):
    a, groups = clustered_values(rng, 15)
    b = a + clustered_values(rng, 15)[0]
    return paired_mean_diff(a, b, groups=groups).p_value <= 0.05


def two_way_ols(rng):
    rows, columns = np.repeat(np.arange(20), 20), np.tile(np.arange(20), 20)
    x = rng.normal(size=20)[rows] + rng.normal(size=20)[columns] + rng.normal(size=400)
    e = rng.normal(size=20)[rows] + rng.normal(size=20)[columns] + rng.normal(size=400)
    fit = ols_cluster(1.0 + 0.5 * x + e, x, groups=rows, groups2=columns)
    return fit.ci_low[1] <= 0.5 <= fit.ci_high[1]


# --- folds -------------------------------------------------------------------------------------


def folds_t(k):
    return lambda rng: covers(cv_clt_ci(rng.normal(size=k)), 0.0)


def folds_z(k):
    """What a normal quantile would do, for comparison."""

    def hit(rng):
        x = rng.normal(size=k)
        return abs(x.mean()) <= 1.959964 * x.std(ddof=1) / np.sqrt(k)

    return hit


def equicorrelated_folds(rng, k=10, n_train=90, n_test=10):
    """Folds correlated as Nadeau & Bengio assume: ρ = n_test/(n_test + n_train)."""
    rho = n_test / (n_test + n_train)
    x = np.sqrt(rho) * rng.normal() + np.sqrt(1 - rho) * rng.normal(size=k)
    return x, {"n_train": n_train, "n_test": n_test}


def nadeau_bengio_equicorrelated(rng):
    x, sizes = equicorrelated_folds(rng)
    return corrected_resampled_t(x, **sizes).p_value <= 0.05


def nadeau_bengio_interval(rng):
    x, sizes = equicorrelated_folds(rng)
    return covers(corrected_resampled_t(x, **sizes), 0.0)


def naive_t_equicorrelated(rng):
    x, _ = equicorrelated_folds(rng)
    return not covers(cv_clt_ci(x), 0.0)


def random_split_differences(rng, n=100, n_test=20, n_splits=15):
    """Squared errors of "predict the training mean" less those of "predict zero".

    With the true mean at 1/√n_train, what the first loses by estimating it equals what the second
    loses by ignoring it, so the expected difference is zero.
    """
    n_train = n - n_test
    y = rng.normal(1 / np.sqrt(n_train), 1.0, size=n)
    order = rng.permuted(np.tile(np.arange(n), (n_splits, 1)), axis=1)
    test, train = y[order[:, :n_test]], y[order[:, n_test:]]
    errors = (test - train.mean(axis=1, keepdims=True)) ** 2
    return (errors - test**2).mean(axis=1)


def nadeau_bengio_random_splits(rng):
    x = random_split_differences(rng)
    return corrected_resampled_t(x, n_train=80, n_test=20).p_value <= 0.05


def naive_t_random_splits(rng):
    return not covers(cv_clt_ci(random_split_differences(rng)), 0.0)


# --- ROC AUC -----------------------------------------------------------------------------------


def binormal(rng, n, prevalence, shift):
    n_positive = round(n * prevalence)
    labels = np.arange(n) < n_positive
    return labels, rng.normal(size=n) + shift * labels


def delong(n, prevalence, transform, shift=1.5):
    truth = float(ndtr(shift / np.sqrt(2)))

    def hit(rng):
        return covers(delong_ci(*binormal(rng, n, prevalence, shift), transform=transform), truth)

    return hit


def jackknife_logit_auc(rng, n=200, shift=1.5):
    labels, scores = binormal(rng, n, 0.2, shift)
    wins = (scores[labels][:, None] > scores[~labels]).astype(float)
    p, q = wins.shape
    total = wins.sum()
    without = np.concatenate(
        [(total - wins.sum(axis=1)) / ((p - 1) * q), (total - wins.sum(axis=0)) / (p * (q - 1))]
    )
    return covers(jackknife_logit_ci(total / (p * q), without), float(ndtr(shift / np.sqrt(2))))


def delong_paired_null(n):
    def hit(rng):
        labels, a = binormal(rng, n, 0.3, 1.0)
        b = 0.6 * (a - 1.0 * labels) + 0.8 * rng.normal(size=n) + 1.0 * labels
        return delong_roc_variance(labels, a, b).p_value <= 0.05

    return hit


# --- proportions in clusters -------------------------------------------------------------------


def question_counts(rng, n_questions=12, attempts=5, mean=0.8, rho=0.3):
    size = 1 / rho - 1
    return rng.binomial(attempts, rng.beta(mean * size, (1 - mean) * size, n_questions))


def beta_binomial_clusters(rng):
    return covers(beta_binomial_interval(question_counts(rng), [5] * 12), 0.8)


def wilson_ignoring_clusters(rng):
    return covers(wilson_interval(int(question_counts(rng).sum()), 60), 0.8)


def beta_uniform_truth(rng):
    """A Bayesian interval covers as promised on average over its own prior."""
    truth = rng.random()
    return covers(beta_binomial_interval(int(rng.binomial(15, truth)), 15), truth)


# --- permutations, equivalence, multiplicity ---------------------------------------------------


def sign_flip_exact(rng):
    return sign_flip_test(np.zeros(8), rng.standard_t(2, size=8)).p_value <= 0.05


def sign_flip_monte_carlo(rng):
    x = rng.standard_t(2, size=30)
    return sign_flip_test(np.zeros(30), x, n_permutations=199, seed=rng).p_value <= 0.05


def sign_flip_groups(rng):
    x, groups = clustered_values(rng, 10)
    return sign_flip_test(np.zeros(len(x)), x, groups=groups).p_value <= 0.05


def sign_flip_ignoring_groups(rng):
    x, _ = clustered_values(rng, 10)
    result = sign_flip_test(np.zeros(len(x)), x, n_permutations=199, seed=rng)
    return result.p_value <= 0.05


def tost_at_the_margin(margin):
    """The true difference is the margin itself, the largest at which equivalence is an error."""

    def hit(rng):
        x = rng.normal(margin, 1.0, size=25)
        summary = paired_mean_diff(np.zeros(25), x)
        return equivalence_test(summary.delta, summary.se, margin=margin, df=24).equivalent

    return hit


def tost_bootstrap_at_the_margin(rng):
    x = rng.normal(1.0, 1.0, size=50)
    draws = x[rng.integers(0, 50, size=(999, 50))].mean(axis=1)
    diff = PairedBootstrapCI(float(x.mean()), 0.0, 0.0, False, 0.95, 999, samples=draws)
    return equivalence_from_paired(diff, margin=1.0).equivalent


def non_inferiority_at_the_margin(rng):
    x = rng.normal(-0.5, 1.0, size=25)
    summary = paired_mean_diff(np.zeros(25), x)
    return non_inferiority_test(summary.delta, summary.se, margin=0.5, df=24).non_inferior


def any_rejected(method):
    """Family-wise error of ten independent true null hypotheses."""
    return lambda rng: bool((correct_p_values(rng.random(10), method=method) <= 0.05).any())


# --- power -------------------------------------------------------------------------------------


N_MCNEMAR = n_for_power(0.1, discordance=0.3).n
N_PAIRED = n_for_power(0.5, sd=1.0, correlation=0.5).n
N_INDEPENDENT = n_for_power(0.6, design="independent", sd=1.0, power=0.9).n
N_TWO_PROPORTIONS = n_for_power(0.15, design="independent", proportion=0.6).n
CLUSTERS_OF_FIVE = n_for_power(0.4, sd=1.0, cluster_size=5, icc=0.5).n_groups


def mcnemar_power(rng, n=N_MCNEMAR):
    b_only, a_only, _ = rng.multinomial(n, [0.2, 0.1, 0.7])
    table = [[0, b_only], [a_only, n - b_only - a_only]]
    return mcnemar_from_table(table, method="chi2").p_value <= 0.05


def paired_t_power(rng, n=N_PAIRED):
    a, noise = rng.normal(size=n), rng.normal(size=n)
    b = 0.5 + 0.5 * a + np.sqrt(0.75) * noise
    return paired_mean_diff(a, b).p_value <= 0.05


def independent_t_power(rng, n=N_INDEPENDENT):
    return stats.ttest_ind(rng.normal(size=n), rng.normal(0.6, 1, size=n)).pvalue <= 0.05


def two_proportions_power(rng, n=N_TWO_PROPORTIONS):
    a, b = rng.binomial(n, 0.6) / n, rng.binomial(n, 0.75) / n
    pooled = (a + b) / 2
    return abs(b - a) >= 1.959964 * np.sqrt(2 * pooled * (1 - pooled) / n)


def clustered_power(rng):
    """Unit variance ½ between and ½ within clusters of 5, so icc = ½ and sd = 1."""
    x, groups = clustered_values(rng, CLUSTERS_OF_FIVE, size=5)
    x = x / np.sqrt(2) + 0.4
    return paired_mean_diff(np.zeros(len(x)), x, groups=groups).p_value <= 0.05


# Folds correlated as above make the naive t statistic √(1 + K n_test/n_train) times too large.
INFLATED = 2 * stats.t.sf(stats.t.ppf(0.975, 9) / np.sqrt(1 + 10 * 10 / 90), 9)

COVERAGE = [
    ("t, normal, n=5", t_of_normals, 0.95, THEORY),
    ("t clustered, 15 clusters of 6", t_clustered, 0.950, LARGE),
    ("t, same data, clusters ignored", t_ignoring_clusters, 0.699, LARGE),
    ("OLS slope, two-way, 20 x 20", two_way_ols, 0.924, LARGE),
    ("cv_t, K=3", folds_t(3), 0.95, THEORY),
    ("cv_t, K=5", folds_t(5), 0.95, THEORY),
    ("cv_t, K=10", folds_t(10), 0.95, THEORY),
    ("(normal quantile, K=3)", folds_z(3), 2 * stats.t.cdf(1.959964, 2) - 1, THEORY),
    ("(normal quantile, K=5)", folds_z(5), 2 * stats.t.cdf(1.959964, 4) - 1, THEORY),
    ("nadeau-bengio, correlated folds", nadeau_bengio_interval, 0.95, THEORY),
    ("delong-logit, n=100, prev 0.1", delong(100, 0.1, "logit"), 0.915, LARGE),
    ("delong, n=100, prev 0.1", delong(100, 0.1, "none"), 0.870, LARGE),
    ("delong-logit, n=300, prev 0.1", delong(300, 0.1, "logit"), 0.938, LARGE),
    ("delong, n=300, prev 0.1", delong(300, 0.1, "none"), 0.920, LARGE),
    ("delong-logit, n=300, prev 0.5", delong(300, 0.5, "logit"), 0.953, LARGE),
    ("delong-logit, n=40, AUC 0.983", delong(40, 0.5, "logit", 3.0), 0.974, LARGE),
    ("jackknife-logit of AUC, n=200", jackknife_logit_auc, 0.949, LARGE),
    ("beta, n=15, over its prior", beta_uniform_truth, 0.95, THEORY),
    ("beta-binomial, 12 clusters of 5", beta_binomial_clusters, 0.963, LARGE, 600),
    ("wilson, same data pooled", wilson_ignoring_clusters, 0.848, LARGE),
]
SIZE = [
    ("paired t, 0/1, n=200", paired_mean_of_zeros_and_ones, 0.048, LARGE),
    ("paired t clustered, 15 clusters", paired_mean_in_clusters, 0.051, LARGE),
    ("nadeau-bengio, correlated folds", nadeau_bengio_equicorrelated, 0.05, THEORY),
    ("nadeau-bengio, 15 random splits", nadeau_bengio_random_splits, 0.016, LARGE),
    ("(t, 15 random splits)", naive_t_random_splits, 0.339, LARGE),
    ("(t, correlated folds)", naive_t_equicorrelated, INFLATED, THEORY),
    ("DeLong, n=100", delong_paired_null(100), 0.051, LARGE),
    ("DeLong, n=500", delong_paired_null(500), 0.051, LARGE),
    ("sign flip exact, n=8", sign_flip_exact, 12 / 256, THEORY),
    ("sign flip monte-carlo, n=30", sign_flip_monte_carlo, 0.05, THEORY),
    ("sign flip, 10 groups", sign_flip_groups, 50 / 1024, THEORY),
    ("(sign flip, groups ignored)", sign_flip_ignoring_groups, 0.304, LARGE),
    ("TOST at the margin, 1 sd", tost_at_the_margin(1.0), 0.05, THEORY),
    ("TOST at the margin, 0.4 sd", tost_at_the_margin(0.4), 0.041, LARGE),
    ("TOST bootstrap at the margin", tost_bootstrap_at_the_margin, 0.054, LARGE),
    ("non-inferiority at the margin", non_inferiority_at_the_margin, 0.05, THEORY),
    ("any of 10, bonferroni", any_rejected("bonferroni"), 1 - (1 - 0.005) ** 10, THEORY),
    ("any of 10, holm", any_rejected("holm"), 1 - (1 - 0.005) ** 10, THEORY),
    ("any of 10, hochberg", any_rejected("hochberg"), 0.047, LARGE),
    ("any of 10, bh", any_rejected("bh"), 0.05, THEORY),
    ("any of 10, by", any_rejected("by"), 0.05 / 2.928968, THEORY),
    ("(any of 10, uncorrected)", any_rejected("none"), 1 - 0.95**10, THEORY),
]
POWER = [
    ("McNemar, planned 0.8", mcnemar_power, 0.8, "what was asked for"),
    ("paired t, planned 0.8", paired_t_power, 0.8, "what was asked for"),
    ("independent t, planned 0.9", independent_t_power, 0.9, "what was asked for"),
    ("two proportions, planned 0.8", two_proportions_power, 0.8, "what was asked for"),
    ("paired t clustered, planned 0.8", clustered_power, 0.8, "what was asked for"),
]
SIMULATIONS = [
    Simulation(kind, *entry)
    for kind, entries in (("coverage", COVERAGE), ("size", SIZE), ("power", POWER))
    for entry in entries
]


@pytest.fixture(scope="module")
def table(request):
    rows = []
    yield rows
    header = f"{'kind':<10}{'case':<46}{'measured':>9}{'documented':>11}  source"
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("", header, *sorted(rows), sep="\n")


def record(table, kind, name, measured, documented, source):
    table.append(f"{kind:<10}{name:<46}{measured:>9.4f}{documented:>11.4f}  {source}")


@pytest.mark.parametrize("simulation", SIMULATIONS, ids=lambda s: f"{s.kind}: {s.name}")
def test_rate_is_as_documented(simulation, table):
    rng = np.random.default_rng([SEED, crc32(simulation.name.encode())])
    n = simulation.n_runs
    measured = sum(bool(simulation.hit(rng)) for _ in range(n)) / n
    expected = simulation.documented
    record(table, simulation.kind, simulation.name, measured, expected, simulation.source)
    runs = 1 / n + (1 / LARGE_RUN if simulation.source == LARGE else 0.0)
    tolerance = 4 * np.sqrt(expected * (1 - expected) * runs)
    if simulation.kind == "power":
        # Sample sizes are rounded up, and the formulas are normal approximations.
        tolerance += 0.015
    assert measured == pytest.approx(expected, abs=tolerance)


def exact_coverage(interval, n, p):
    """P(the interval contains p), summed over all outcomes; no simulation."""
    intervals = [interval(k, n) for k in range(n + 1)]
    low, high = (np.array([getattr(i, end) for i in intervals])[:, None] for end in ("low", "high"))
    return (stats.binom.pmf(np.arange(n + 1)[:, None], n, p) * ((low <= p) & (p <= high))).sum(0)


P_GRID = (np.arange(2000) + 0.5) / 2000
SUMMED = "summed over all outcomes"
# interval: (mean over p at n=20, least over p at n=20, mean over p at n=100).
# Clopper-Pearson never falls below 0.95 and the mean of the beta interval is 0.95 by theory;
# 0.838 as the least coverage of Wilson's interval is in Brown, Cai & DasGupta (2001).
PROPORTIONS = {
    wilson_interval: (0.953, 0.839, 0.951),
    clopper_pearson_interval: (0.977, 0.958, 0.965),
    jeffreys_interval: (0.951, 0.894, 0.950),
    agresti_coull_interval: (0.962, 0.929, 0.956),
    beta_binomial_interval: (0.950, 0.0, 0.950),
}


@pytest.mark.parametrize("interval", PROPORTIONS, ids=lambda f: f.__name__)
def test_exact_coverage_of_proportions(interval, table):
    small, large = (exact_coverage(interval, n, P_GRID) for n in (20, 100))
    for name, measured, documented in zip(
        ("mean, n=20", "least, n=20", "mean, n=100"),
        (small.mean(), small.min(), large.mean()),
        PROPORTIONS[interval],
        strict=True,
    ):
        record(table, "coverage", f"{interval.__name__}, {name}", measured, documented, SUMMED)
        assert measured == pytest.approx(documented, abs=0.001)
    if interval is clopper_pearson_interval:
        assert min(small.min(), large.min()) >= 0.95


def test_the_textbook_interval_is_as_bad_as_we_say(table):
    """The reason why rates get Wilson's interval: p ± 1.96 SE at n = 20, p = 0.95."""
    k = np.arange(21)
    reach = 1.959964 * np.sqrt(k / 20 * (1 - k / 20) / 20)
    measured = stats.binom.pmf(k, 20, 0.95) @ (np.abs(k / 20 - 0.95) <= reach)
    wilson = exact_coverage(wilson_interval, 20, 0.95)[0]
    record(table, "coverage", "(textbook p ± 1.96 SE, n=20, p=0.95)", measured, 0.64, SUMMED)
    record(table, "coverage", "wilson, n=20, p=0.95", wilson, 0.924, SUMMED)
    assert measured == pytest.approx(0.64, abs=0.002)
    assert wilson == pytest.approx(0.924, abs=0.001)


# method: size at n=50, discordance 0.1; at n=100, 0.2; at n=300, 0.3. Fagerland et al. (2013):
# exact and corrected are conservative, mid-p hardly ever exceeds the level, chi2 may by a little.
MCNEMAR = {
    "exact": (0.009, 0.029, 0.039),
    "mid-p": (0.025, 0.046, 0.049),
    "chi2": (0.047, 0.052, 0.050),
    "chi2-corrected": (0.009, 0.027, 0.038),
}


@pytest.mark.parametrize("method", MCNEMAR)
def test_exact_size_of_mcnemar(method, table):
    for (n, psi), documented in zip(
        ((50, 0.1), (100, 0.2), (300, 0.3)), MCNEMAR[method], strict=True
    ):
        size = 0.0
        for m in np.flatnonzero(stats.binom.pmf(np.arange(n + 1), n, psi) > 1e-9):
            b_only = np.arange(m + 1)
            results = [mcnemar_from_table([[1, k], [m - k, 1]], method=method) for k in b_only]
            rejects = [r.p_value is not None and r.p_value <= 0.05 for r in results]
            size += stats.binom.pmf(m, n, psi) * (stats.binom.pmf(b_only, m, 0.5) @ rejects)
        name = f"McNemar {method}, n={n}, discordance {psi}"
        record(table, "size", name, size, documented, SUMMED)
        assert size == pytest.approx(documented, abs=0.001)
