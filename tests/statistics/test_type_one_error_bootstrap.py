"""Size of the bootstrap tests: how often equally good scorers are called different at 5 %.

The two scorers are exchangeable: the same signal, half of the noise shared, so that every metric
has the same expectation. Documented values come from a run of `LARGE_RUN` data sets per case with
another seed; the rate measured here must agree within four binomial standard errors of both
runs, and no corrected test may reject more than 7 % of the time from n = 300 on.
"""

import numpy as np
import pytest

from eval_toolkit.inference import (
    compare_scorers,
    paired_bootstrap_diff,
    paired_bootstrap_ece_diff,
    paired_bootstrap_op_point_diff,
)
from eval_toolkit.metrics import brier_score, expected_calibration_error, pr_auc, roc_auc

pytestmark = pytest.mark.slow

SEED = 20_261_115
LARGE_RUN = 20_000
DEFAULT_RUN = 6000
N_RUNS = 2000
N_RESAMPLES = 500
LEVEL = 0.05
SEPARATION = 1.5


def rivals(rng, n, prevalence, n_scorers=2):
    """Return labels (at least three of each) and calibrated scores of equally good scorers."""
    while True:
        labels = rng.random(n) < prevalence
        if 3 <= labels.sum() <= n - 3:
            break
    shared = rng.normal(size=n)
    noise = (shared + rng.normal(size=(n_scorers, n))) / np.sqrt(2)
    logit = SEPARATION * (SEPARATION * labels + noise) - SEPARATION**2 / 2
    return labels, 1 / (1 + np.exp(-logit - np.log(prevalence / (1 - prevalence))))


def paired(metric, n, prevalence=0.3, method="percentile"):
    def rejects(rng, run):
        labels, (a, b) = rivals(rng, n, prevalence)
        diff = paired_bootstrap_diff(
            labels, a, b, metric, n_resamples=N_RESAMPLES, seed=run, method=method
        )
        return diff.p_value <= LEVEL

    return rejects


def paired_groups(ignored, n_groups=60, size=5, method="percentile"):
    """Rows of a group share label, and each scorer its noise within the group."""

    def rejects(rng, run):
        labels, scores = rivals(rng, n_groups, 0.5)
        rows = np.repeat(np.arange(n_groups), size)
        a, b = scores[:, rows] + 0.05 * rng.normal(size=(2, len(rows)))
        groups = None if ignored else rows
        diff = paired_bootstrap_diff(
            labels[rows],
            a,
            b,
            roc_auc,
            groups=groups,
            n_resamples=N_RESAMPLES,
            seed=run,
            method=method,
        )
        return diff.p_value <= LEVEL

    return rejects


def calibration_difference(n):
    """The base rate for every row against the true probabilities: both are calibrated."""

    def rejects(rng, run):
        b = rng.random(n)
        diff = paired_bootstrap_ece_diff(
            rng.random(n) < b,
            np.full(n, 0.5),
            b,
            ece_fn=expected_calibration_error,
            n_resamples=N_RESAMPLES,
            seed=run,
        )
        return not diff.overlaps_zero

    return rejects


def refitted(rng, run, n=150):
    """Accuracy at the validation rows' 70 % quantile, refitted on every resample."""
    labels, (a, b) = rivals(rng, 2 * n, 0.3)
    val, test = (labels[:n], a[:n], b[:n]), (labels[n:], a[n:], b[n:])
    diff = paired_bootstrap_op_point_diff(
        *val,
        *test,
        lambda y, s: np.partition(s, int(0.7 * len(s)))[int(0.7 * len(s))],
        lambda y, s, t: np.mean((s >= t) == y),
        n_resamples=199,
        seed=run,
    )
    return diff.p_value <= LEVEL


def any_of_three(correction, n=300):
    """Family-wise error of three true null hypotheses that share their baseline."""

    def rejects(rng, run):
        labels, scores = rivals(rng, n, 0.3, n_scorers=4)
        result = compare_scorers(
            labels,
            dict(zip("abcd", scores, strict=True)),
            roc_auc,
            correction=correction,
            n_resamples=N_RESAMPLES,
            seed=run,
        )
        return min(result.adjusted_p_values.values()) <= LEVEL

    return rejects


# name: (simulation, documented rate, whether it is a test one may rely on from n = 300 on)
# "default" is MOVER for AUC and AP, the mean of differences for Brier; their documented rates come
# from `DEFAULT_RUN` data sets.
CASES = {
    "default AUC, n=100": (paired(roc_auc, 100, method=None), 0.028, True),
    "default AUC, n=300": (paired(roc_auc, 300, method=None), 0.037, True),
    "default AP, n=100": (paired(pr_auc, 100, method=None), 0.029, True),
    "default AP, n=300": (paired(pr_auc, 300, method=None), 0.046, True),
    "default Brier, n=300": (paired(brier_score, 300, method=None), 0.047, True),
    "default AUC, 60 groups of 5": (paired_groups(ignored=False, method=None), 0.002, True),
    "paired AUC, n=100": (paired(roc_auc, 100), 0.053, False),
    "paired AUC, n=300": (paired(roc_auc, 300), 0.050, True),
    "paired AUC, n=1000, prevalence 0.1": (paired(roc_auc, 1000, 0.1), 0.050, True),
    "paired AP, n=100": (paired(pr_auc, 100), 0.057, False),
    "paired AP, n=300": (paired(pr_auc, 300), 0.053, True),
    "paired Brier, n=300": (paired(brier_score, 300), 0.051, True),
    "ECE of two calibrated scorers, n=300": (calibration_difference(300), 0.000, True),
    "paired AUC, 60 groups of 5": (paired_groups(ignored=False), 0.057, True),
    "(paired AUC, groups ignored)": (paired_groups(ignored=True), 0.370, False),
    "refitted threshold, accuracy, n=150": (refitted, 0.016, True),
    "default, any of 3, holm, n=300": (any_of_three("holm"), 0.037, True),
    "(default, any of 3, uncorrected, n=300)": (any_of_three("none"), 0.104, False),
}


def rejection_rate(simulation, n_runs, seed):
    rng = np.random.default_rng(seed)
    return sum(bool(simulation(rng, run)) for run in range(n_runs)) / n_runs


@pytest.fixture(scope="module")
def table(request):
    rows = []
    yield rows
    header = f"{'case':<42}{'measured':>9}{'documented':>11}"
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("", "Rejections of a true null hypothesis at 5 %", header, *sorted(rows), sep="\n")


@pytest.mark.parametrize("name", CASES)
def test_size(table, name):
    simulation, documented, reliable = CASES[name]
    measured = rejection_rate(simulation, N_RUNS, SEED)
    table.append(f"{name:<42}{measured:>9.4f}{documented:>11.4f}")
    p = max(documented, 0.002)
    variance = p * (1 - p) * (1 / N_RUNS + 1 / (DEFAULT_RUN if "default" in name else LARGE_RUN))
    assert abs(measured - documented) <= 4 * np.sqrt(variance)
    if reliable:
        assert measured <= 0.07
