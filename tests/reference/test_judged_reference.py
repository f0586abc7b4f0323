"""Corrected rates beside ppi_py, closed forms they must reduce to, and simulated spreads."""

import numpy as np
import ppi_py
import pytest
from ppi_py import ppi_mean_ci, ppi_mean_pointestimate
from scipy import stats

from eval_toolkit.inference import (
    agresti_coull_interval,
    corrected_rate,
    ppi_mean,
    rogan_gladen,
)


def study(rng, n, n_labels, *, binary):
    if binary:
        human = (rng.random(n) < 0.4).astype(float)
        judge = np.where(rng.random(n) < 0.8, human, 1 - human)
    else:
        human = rng.normal(size=n)
        judge = 0.7 * human + rng.normal(size=n)
    known = np.full(n, np.nan)
    known[:n_labels] = human[:n_labels]
    return judge, known


@pytest.mark.parametrize("lam", [None, 1.0, 0.0, 0.3])
@pytest.mark.parametrize("confidence", [0.95, 0.8])
def test_large_sample_interval_equals_ppi_py(lam, confidence) -> None:
    assert ppi_py.__name__ == "ppi_py"
    rng = np.random.default_rng(1)
    for _ in range(60):
        n_labels, rest = int(rng.integers(5, 60)), int(rng.integers(5, 200))
        judge, known = study(rng, n_labels + rest, n_labels, binary=False)
        labels, there, others = known[:n_labels], judge[:n_labels], judge[n_labels:]
        ours = ppi_mean(judge, known, lam=lam, confidence=confidence, small_sample=False)
        low, high = ppi_mean_ci(labels, there, others, alpha=1 - confidence, lam=lam)
        point = ppi_mean_pointestimate(labels, there, others, lam=lam)
        assert ours.value == pytest.approx(point.item(), abs=1e-10)
        assert ours.ci_low == pytest.approx(low.item(), abs=1e-10)
        assert ours.ci_high == pytest.approx(high.item(), abs=1e-10)


@pytest.mark.parametrize("lam", [1.0, 0.5, 0.0])
def test_point_of_0_1_values_equals_ppi_py_with_pseudo_units_too(lam) -> None:
    rng = np.random.default_rng(2)
    for _ in range(60):
        judge, known = study(rng, 150, 40, binary=True)
        point = ppi_mean_pointestimate(known[:40], judge[:40], judge[40:], lam=lam).item()
        assert ppi_mean(judge, known, lam=lam).value == pytest.approx(point, abs=1e-10)


def test_lambda_of_many_labels_is_that_of_ppi_py() -> None:
    rng = np.random.default_rng(8)
    judge, known = study(rng, 20_000, 5000, binary=False)
    ours, theirs = ppi_mean(judge, known), ppi_mean(judge, known, small_sample=False)
    assert ours.lam == pytest.approx(theirs.lam, abs=0.02)
    assert ours.value == pytest.approx(theirs.value, abs=1e-3)
    assert ours.width == pytest.approx(theirs.width, rel=0.01)


def test_lambda_of_a_unit_is_that_of_the_other_units_labels() -> None:
    """By hand: the slope of the others, leaning by five labels to that of equal scales."""
    rng = np.random.default_rng(9)
    judge, known = study(rng, 60, 12, binary=False)
    human, others = known[:12], judge[12:]
    estimates, shares = [], []
    for unit in range(12):
        y, f = np.delete(human, unit), np.delete(judge[:12], unit)
        scale = min(1.0, np.sqrt((y @ y) / (f @ f)))
        lean = 5.0 * others.var()
        slope = ((y - y.mean()) @ (f - f.mean()) + lean * scale) / (11 * f.var() + lean)
        shares.append(min(1.0, max(0.0, slope)) * 48 / 60)
        estimates.append(human[unit] - shares[-1] * (judge[unit] - others.mean()))
    ours = ppi_mean(judge, known)
    assert ours.value == pytest.approx(np.mean(estimates))
    assert ours.lam == pytest.approx(np.mean(shares))


def test_weights_equal_ppi_py_where_the_judge_does_not_count() -> None:
    rng = np.random.default_rng(3)
    judge, known = study(rng, 120, 30, binary=False)
    weights = np.full(120, np.nan)
    weights[:30] = rng.uniform(1, 3, 30)
    theirs = ppi_mean_pointestimate(known[:30], judge[:30], judge[30:], lam=0.0, w=weights[:30])
    assert ppi_mean(judge, known, weights=weights, lam=0.0).value == pytest.approx(theirs.item())


def test_a_constant_judge_leaves_the_t_interval_of_the_labels() -> None:
    rng = np.random.default_rng(4)
    known = np.full(200, np.nan)
    known[:30] = rng.normal(size=30)
    ours = ppi_mean(np.ones(200), known)
    expected = stats.t.interval(0.95, 29, known[:30].mean(), stats.sem(known[:30]))
    assert (ours.ci_low, ours.ci_high) == pytest.approx(expected)
    assert ours.lam == 0.0


def test_clusters_of_one_change_nothing_but_the_judge_s_share() -> None:
    rng = np.random.default_rng(5)
    judge, known = study(rng, 300, 60, binary=False)
    alone = ppi_mean(judge, known, lam=0.5)
    grouped = ppi_mean(judge, known, lam=0.5, groups=np.arange(300))
    assert grouped.value == pytest.approx(alone.value)
    assert grouped.se == pytest.approx(alone.se, rel=0.01)


def test_rogan_gladen_of_a_known_judge_is_agresti_and_coull_s_interval() -> None:
    # A judge that erred in none of 10^12 cases: the verdicts are the truth.
    sure = (10**12, 10**12)
    for flagged, n in ((3, 40), (20, 50), (99, 100)):
        ours = rogan_gladen(flagged, n, sensitivity=sure, specificity=sure)
        expected = agresti_coull_interval(flagged, n)
        assert (ours.ci_low, ours.ci_high) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_rogan_gladen_with_every_unit_labelled_is_the_human_rate() -> None:
    rng = np.random.default_rng(6)
    human = (rng.random(400) < 0.3).astype(float)
    judge = np.where(rng.random(400) < 0.85, human, 1 - human)
    ours = corrected_rate(judge, human, method="rogan-gladen")
    assert ours.value == pytest.approx(human.mean(), abs=1e-12)
    # A labelled unit moves all three shares; without that the error would be far larger.
    assert ours.se == pytest.approx(np.sqrt(0.3 * 0.7 / 400), rel=0.15)


@pytest.mark.parametrize("theta", [0.1, 0.5, 0.8])
def test_standard_error_of_rogan_gladen_is_the_simulated_one(theta) -> None:
    rng = np.random.default_rng(7)
    n, m1, m0, se, sp = 4000, 500, 500, 0.85, 0.9
    p = theta * se + (1 - theta) * (1 - sp)
    rates = rng.binomial(n, p, 20_000) / n
    ses, sps = rng.binomial(m1, se, 20_000) / m1, rng.binomial(m0, sp, 20_000) / m0
    simulated = np.std((rates + sps - 1) / (ses + sps - 1))
    ours = rogan_gladen(
        round(n * p), n, sensitivity=(round(m1 * se), m1), specificity=(round(m0 * sp), m0)
    )
    assert ours.se == pytest.approx(simulated, rel=0.03)
    assert ours.value == pytest.approx(theta, abs=2e-3)
