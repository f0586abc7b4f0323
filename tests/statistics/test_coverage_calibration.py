"""Intervals of calibration errors cover: sharp, vague, extreme, rounded and constant scores.

The truth is the error of the population over the bins of the metric, from 200 000 rows whose
labels are replaced by their probabilities.
"""

import functools

import numpy as np
import pytest
from scipy.special import expit, logit, ndtr

from eval_toolkit import metric_specs as ms
from eval_toolkit import metrics
from eval_toolkit.inference import bootstrap_ci
from eval_toolkit.inference.calibration_intervals import calibration_interval, calibration_statistic
from eval_toolkit.inference.columns import Columns
from eval_toolkit.inference.statistics import statistic_for
from eval_toolkit.metrics.binning import equal_mass_cuts, equal_width_index
from eval_toolkit.metrics.smoothing import smooth_calibration_error

pytestmark = pytest.mark.slow

N_DATA_SETS = 200
POPULATION = 200_000

SCORES = {
    "uniform": lambda rng, n: rng.random(n),
    "sharp": lambda rng, n: rng.beta(0.2, 0.2, n),
    "extreme": lambda rng, n: rng.beta(0.05, 0.05, n),
    "two scores": lambda rng, n: np.where(rng.random(n) < 0.33, 0.999, 0.001),
    "vague": lambda rng, n: rng.beta(20, 20, n),
    "rounded": lambda rng, n: np.round(rng.random(n), 1),
    "rare": lambda rng, n: rng.beta(0.2, 9.8, n),
    "constant": lambda rng, n: np.full(n, 0.1),
}
# P(y = 1 | s) as a function of the score.
MODELS = {
    "calibrated": lambda s: s,
    "overconfident": lambda s: expit(0.5 * logit(np.clip(s, 1e-6, 1 - 1e-6))),
    "shifted": lambda s: expit(logit(np.clip(s, 1e-6, 1 - 1e-6)) + 1.0),
}
METRICS = {
    "ECE, 15 wide": metrics.expected_calibration_error,
    "ECE, 10 mass": metrics.expected_calibration_error_equal_mass,
    "L2, 10 mass": metrics.expected_calibration_error_l2,
    "L2 debiased, 10 mass": metrics.expected_calibration_error_l2_debiased,
    "smooth": metrics.smooth_ece,
}
METRICS["ECE, 15 wide"] = functools.partial(metrics.expected_calibration_error, n_bins=15)


def population_error(name: str, scores: np.ndarray, probability: np.ndarray) -> float:
    """Return the error over the bins of a metric with probabilities in the place of labels."""
    residual = scores - probability
    if name == "smooth":
        return smooth_calibration_error(scores, residual / len(scores))
    if name == "ECE, 15 wide":
        return float(np.abs(np.bincount(equal_width_index(scores, 15), residual)).sum()) / len(
            scores
        )
    order = np.argsort(scores, kind="stable")
    cuts = equal_mass_cuts(len(scores), 10, whole_rows=True).astype(np.int64)
    gaps = np.add.reduceat(_mean_of_ties(scores[order], residual[order]), cuts[:-1]) / np.diff(cuts)
    return float(np.sqrt((gaps**2).mean()) if name.startswith("L2") else np.abs(gaps).mean())


def _mean_of_ties(ascending: np.ndarray, values: np.ndarray) -> np.ndarray:
    _, group = np.unique(ascending, return_inverse=True)
    return (np.bincount(group, values) / np.bincount(group))[group]


def coverage(name: str, scores: str, model: str, n: int, n_data_sets: int) -> tuple[float, float]:
    """Return the share of intervals that hold the truth, and their mean width."""
    rng = np.random.default_rng(2026)
    population = SCORES[scores](rng, POPULATION)
    truth = population_error(name, population, MODELS[model](population))
    statistic = statistic_for(METRICS[name])
    hits, width = 0, 0.0
    for seed in range(n_data_sets):
        s = SCORES[scores](rng, n)
        data = Columns.scored(rng.random(n) < MODELS[model](s), s)
        point = statistic.point(data)
        error = calibration_statistic(statistic)
        assert error is not None
        low, high = calibration_interval(
            error, data, point, n_draws=200, confidence=0.95, seed=seed
        )
        assert low <= point <= high
        hits += low - 1e-6 <= truth <= high + 1e-6
        width += high - low
    return hits / n_data_sets, width / n_data_sets


def least(n_data_sets: int) -> float:
    """Return 93 %, less two standard errors of the simulation."""
    return 0.93 - 2 * np.sqrt(0.93 * 0.07 / n_data_sets)


@pytest.mark.parametrize("n", [100, 300])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("scores", SCORES)
@pytest.mark.parametrize("name", [name for name in METRICS if name != "smooth"])
def test_binned_errors(name: str, scores: str, model: str, n: int) -> None:
    share, width = coverage(name, scores, model, n, N_DATA_SETS)
    print(f"{name:21}{scores:11}{model:14} n={n:4}: coverage {share:.3f}, width {width:.3f}")
    assert share >= least(N_DATA_SETS)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("scores", ["uniform", "extreme", "rounded", "constant"])
def test_smooth_error(scores: str, model: str) -> None:
    n_data_sets = 60
    share, width = coverage("smooth", scores, model, 100, n_data_sets)
    print(f"smooth {scores:11}{model:14} n= 100: coverage {share:.3f}, width {width:.3f}")
    assert share >= least(n_data_sets)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("n_groups", [20, 60])
def test_groups(n_groups: int, model: str) -> None:
    """Labels of a group share half of the variance of their latent normal; 8 rows each."""
    rng = np.random.default_rng(4)
    population = rng.random(POPULATION)
    truth = population_error("ECE, 15 wide", population, MODELS[model](population))
    groups = np.repeat(np.arange(n_groups), 8)
    hits, n_data_sets = 0, 100
    for seed in range(n_data_sets):
        s = rng.random(len(groups))
        latent = np.sqrt(0.5) * (rng.normal(size=n_groups)[groups] + rng.normal(size=len(groups)))
        y = ndtr(latent) < MODELS[model](s)
        ci = bootstrap_ci(y, s, METRICS["ECE, 15 wide"], groups=groups, n_resamples=192, seed=seed)
        hits += ci.ci_low <= truth <= ci.ci_high
    print(f"{n_groups} groups, {model}: coverage {hits / n_data_sets:.3f}")
    assert hits / n_data_sets >= least(n_data_sets)


def test_a_percentile_interval_would_not_cover() -> None:
    """Why there is a method of its own: both percentiles lie above the truth."""
    rng = np.random.default_rng(7)
    s = rng.random(1000)
    y = rng.random(1000) < s
    naive = bootstrap_ci(
        y,
        s,
        lambda a, b: metrics.expected_calibration_error(a, b),
        n_resamples=256,
        method="percentile",
    )
    assert naive.ci_low > 0.0
    assert bootstrap_ci(y, s, ms.ece(n_bins=10), n_resamples=256).ci_low == 0.0
