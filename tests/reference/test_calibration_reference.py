"""Calibrators against scikit-learn, statsmodels and brute force."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.optimize import minimize
from sklearn.calibration import _SigmoidCalibration, calibration_curve
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from statsmodels.stats.proportion import proportion_confint
from tests.support.each import each

from eval_toolkit import calibration as cal


def sample(seed, *, n=400, decimals=None):
    """Overlapping classes; rounding makes heavy ties."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < rng.uniform(0.1, 0.9)).astype(int)
    y[:2] = 0, 1
    s = rng.beta(1.0 + 1.5 * y, 2.5 - y)
    return y, s if decimals is None else np.round(s, decimals)


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("decimals", [None, 1])
def test_isotonic_equals_sklearn(seed, decimals):
    y, s = sample(seed, n=3 + 12 * seed, decimals=decimals)
    theirs = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(s, y)
    grid = np.concatenate([s, np.linspace(-0.2, 1.2, 101)])
    np.testing.assert_allclose(
        cal.fit_isotonic_calibrator(y, s)(grid), theirs.predict(grid), atol=1e-12
    )


def smoothed(y):
    positives = y.sum()
    negatives = len(y) - positives
    return np.where(y == 1, (positives + 1) / (positives + 2), 1 / (negatives + 2))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("decimals", [None, 1])
def test_platt_equals_sklearn(seed, decimals):
    y, s = sample(seed, decimals=decimals)
    ours = cal.fit_platt_calibrator(y, s)
    theirs = _SigmoidCalibration().fit(s, y)
    # scikit-learn stops L-BFGS early; its own optimum is good to about 1e-4 in probability.
    np.testing.assert_allclose(ours(s), theirs.predict(s), atol=5e-4)
    assert np.sign(ours.a) == np.sign(theirs.a_)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_platt_equals_a_binomial_glm_on_smoothed_targets(seed, scale):
    y, s = sample(seed)
    s = scale * (s - 0.5)
    glm = sm.GLM(smoothed(y), sm.add_constant(s / scale), family=sm.families.Binomial()).fit(
        tol=1e-14
    )
    fit = cal.fit_platt_calibrator(y, s)
    intercept, slope = glm.params
    assert fit.a * scale == pytest.approx(-slope, rel=1e-7, abs=1e-8)
    assert fit.b == pytest.approx(-intercept, rel=1e-7, abs=1e-8)


def beta_features(s):
    clipped = np.clip(s, 1e-7, 1 - 1e-7)
    return np.column_stack([np.log(clipped), np.log1p(-clipped)])


@each("seed", range(12))
def test_beta_equals_unregularised_logistic_regression_when_that_rises(seed):
    y, s = sample(seed, n=1500)
    theirs = LogisticRegression(C=np.inf, tol=1e-12, max_iter=1000, solver="newton-cholesky")
    theirs.fit(beta_features(s), y)
    a, b = theirs.coef_[0]
    assert a > 0 > b  # otherwise this sample says nothing about the unconstrained case
    (ours_a, ours_b, ours_c), _ = cal.fit_beta_binary(y, s)
    assert (ours_a, ours_b, ours_c) == pytest.approx((a, b, theirs.intercept_[0]), rel=1e-6)


@each("seed", range(30))
def test_constrained_beta_equals_a_bounded_optimiser(seed):
    """Small noisy samples, where the free optimum often breaks a sign."""
    rng = np.random.default_rng(seed)
    y = np.arange(30) % 2
    s = rng.uniform(0.02, 0.98, 30)
    features = np.column_stack([beta_features(s), np.ones(30)])

    def loss(theta):
        linear = features @ theta
        return np.sum(np.logaddexp(0, linear) - y * linear)

    def gradient(theta):
        return features.T @ (1 / (1 + np.exp(-(features @ theta))) - y)

    bounded = minimize(
        loss,
        [0.5, -0.5, 0.0],
        jac=gradient,
        bounds=[(0, None), (None, 0), (None, None)],
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000},
    )
    params, apply = cal.fit_beta_binary(y, s)
    assert loss(np.array(params)) == pytest.approx(bounded.fun, abs=1e-8)
    expected = 1 / (1 + np.exp(-(features @ bounded.x)))
    np.testing.assert_allclose(apply(s), expected, atol=1e-4)


def test_those_samples_do_reach_both_boundaries():
    """Guard of the test above: free, a = 0, b = 0 and both zero all occur among its samples."""
    seen = set()
    for seed in range(30):
        rng = np.random.default_rng(seed)
        (a, b, _), _ = cal.fit_beta_binary(np.arange(30) % 2, rng.uniform(0.02, 0.98, 30))
        seen.add((a > 0, b < 0))
    assert seen == {(True, True), (True, False), (False, True), (False, False)}


@each("seed", range(10))
def test_temperature_equals_a_fine_grid(seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, 200)
    logits = rng.normal(size=(200, 2)) * rng.uniform(0.5, 6)
    logits[np.arange(200), y] += 1.0
    fit = cal.fit_temperature(logits, y)
    grid = np.exp(np.linspace(np.log(0.05), np.log(20), 40_001))
    log_odds = logits[:, 1] - logits[:, 0]
    margin = np.where(y == 1, log_odds, -log_odds)
    coarse = np.array([np.mean(np.logaddexp(0, -margin / t)) for t in grid[::100]])
    near = grid[max(0, 100 * coarse.argmin() - 100) : 100 * coarse.argmin() + 101]
    fine = np.array([np.mean(np.logaddexp(0, -margin / t)) for t in near])
    assert fit["temperature"] == pytest.approx(near[fine.argmin()], rel=2e-4)
    assert fit["nll_post"] <= fine.min() + 1e-15
    assert fit["nll_pre"] == pytest.approx(np.mean(np.logaddexp(0, -margin)), abs=1e-14)


@each("seed", range(10))
def test_estimated_prior_is_where_em_converges(seed):
    """The iteration of Saerens et al. (2002), equations 2.9, run until it stands still."""
    rng = np.random.default_rng(seed)
    s = rng.beta(1.2, rng.uniform(1.0, 4.0), 300)
    at = rng.uniform(0.2, 0.8)
    prior = at
    for _ in range(20_000):
        posterior = cal.adjust_for_prior(s, from_prior=at, to_prior=prior)
        updated = float(np.mean(posterior))
        if updated in (0.0, prior) or updated < 1e-12 or updated > 1 - 1e-12:
            break
        prior = updated
    assert cal.estimate_prior(s, from_prior=at) == pytest.approx(prior, abs=1e-6)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("decimals", [None, 2])
def test_equal_width_reliability_equals_sklearn(seed, decimals):
    y, s = sample(seed, decimals=decimals)
    if decimals is not None:
        s = np.minimum(s + 0.005, 1.0)  # off the edges, which sklearn counts to the lower bin
    curve = cal.reliability_curve(y, s, strategy="uniform")
    prob_true, prob_pred = calibration_curve(y, s, n_bins=10, strategy="uniform")
    np.testing.assert_allclose(curve["prob_true"], prob_true, atol=1e-13)
    np.testing.assert_allclose(curve["prob_pred"], prob_pred, atol=1e-13)


@each("seed", range(10))
def test_equal_mass_reliability_equals_array_split(seed):
    """Without ties the bins are consecutive runs of the sorted rows; 400 rows, 10 bins of 40."""
    y, s = sample(seed)
    curve = cal.reliability_curve(y, s)
    order = np.argsort(s)
    parts = np.array_split(order, 10)
    np.testing.assert_allclose(curve["prob_true"], [y[p].mean() for p in parts], atol=1e-12)
    np.testing.assert_allclose(curve["prob_pred"], [s[p].mean() for p in parts], atol=1e-12)
    assert curve["bin_lower"] == [s[p].min() for p in parts]
    assert curve["bin_upper"] == [s[p].max() for p in parts]
    for row, part in enumerate(parts):
        low, high = proportion_confint(y[part].sum(), len(part), method="wilson")
        assert (curve["ci_low"][row], curve["ci_high"][row]) == pytest.approx(
            (low, high), abs=1e-12
        )
