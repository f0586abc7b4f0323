"""Intervals of calibration errors cover, also where the truth is perfect calibration."""

import numpy as np
import pytest

from eval_toolkit import metric_specs as ms
from eval_toolkit.inference import bootstrap_ci
from eval_toolkit.metrics import expected_calibration_error

pytestmark = pytest.mark.slow

N_DATA_SETS = 300

# P(y = 1 | s) as a function of the score; the population's 10-bin error is integrated below.
MODELS = {
    "calibrated": lambda s: s,
    "mild": lambda s: np.clip(s + 0.05 * np.sin(2 * np.pi * s), 0, 1),
    "strong": lambda s: s**2,
}


def population_error(model: str, n_bins: int = 10) -> float:
    """Mean |E[s − y | bin]| for uniform scores, by the midpoint rule on a million points."""
    s = (np.arange(1_000_000) + 0.5) / 1_000_000
    gap = (s - MODELS[model](s)).reshape(n_bins, -1)
    return float(np.abs(gap.mean(axis=1)).mean())


def coverage(
    model: str, n: int, spec: object, truth: float, n_data_sets: int = N_DATA_SETS
) -> tuple[float, float]:
    """Return the share of intervals that hold the truth, and their mean width."""
    rng = np.random.default_rng(2026)
    hits, width = 0, 0.0
    for seed in range(n_data_sets):
        s = rng.random(n)
        y = rng.random(n) < MODELS[model](s)
        ci = bootstrap_ci(y, s, spec, n_resamples=256, seed=seed)
        assert ci.method == "norm-ball"
        assert ci.ci_low <= ci.point_estimate <= ci.ci_high
        hits += ci.ci_low <= truth <= ci.ci_high
        width += ci.ci_high - ci.ci_low
    return hits / n_data_sets, width / n_data_sets


@pytest.mark.parametrize("n", [300, 3000])
@pytest.mark.parametrize("model", list(MODELS))
def test_expected_calibration_error(model: str, n: int) -> None:
    """The triangle inequality promises at least 95 %: four standard errors of 300 draws below."""
    share, width = coverage(model, n, ms.ece(n_bins=10), population_error(model))
    print(f"ECE {model:10} n={n:5}: coverage {share:.3f}, mean width {width:.3f}")
    assert share >= 0.95 - 4 * np.sqrt(0.95 * 0.05 / N_DATA_SETS)


@pytest.mark.parametrize("spec", [ms.ece(n_bins=10, strategy="quantile"), ms.smooth_ece])
def test_a_calibrated_model_is_not_accused(spec: object) -> None:
    n_data_sets = 60  # a smooth error takes a second
    share, width = coverage("calibrated", 300, spec, 0.0, n_data_sets)
    print(f"{spec.name} calibrated: coverage {share:.3f}, mean width {width:.3f}")  # type: ignore[attr-defined]
    assert share >= 0.95 - 4 * np.sqrt(0.95 * 0.05 / n_data_sets)


def test_a_percentile_interval_would_not_cover() -> None:
    """Why there is a method of its own: both percentiles lie above the truth."""
    rng = np.random.default_rng(7)
    s = rng.random(1000)
    y = rng.random(1000) < s
    naive = bootstrap_ci(
        y, s, lambda a, b: expected_calibration_error(a, b), n_resamples=256, method="percentile"
    )
    assert naive.ci_low > 0.0
    assert bootstrap_ci(y, s, expected_calibration_error, n_resamples=256).ci_low == 0.0
