"""Every metric against an oracle: scikit-learn, statsmodels, or the definition written out.

Cases are small and full of ties, with and without weights, some of them zero.
"""

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as sk
from sklearn import config_context
from sklearn.isotonic import IsotonicRegression

from eval_toolkit import metrics
from eval_toolkit.errors import UndefinedMetricError
from eval_toolkit.metrics import calibration_error
from eval_toolkit.metrics.isotonic import pav
from eval_toolkit.metrics.wilson import wilson_bounds

approx = partial(pytest.approx, rel=1e-12, abs=1e-12)
Case = tuple[np.ndarray, np.ndarray, np.ndarray | None]


@pytest.fixture(autouse=True)
def _quick_sklearn() -> Iterator[None]:
    with config_context(assume_finite=True, skip_parameter_validation=True):
        yield


def random_cases(count: int, seed: int, *, min_rows: int = 2) -> Iterator[Case]:
    """Both classes, probabilities on grids from one value to a continuum, weights every other."""
    rng = np.random.default_rng(seed)
    for index in range(count):
        n = int(rng.integers(min_rows, min_rows + 40))
        labels = rng.integers(0, 2, n)
        labels[:2] = (0, 1)
        levels = (1, 2, 4, 10, 64)[index % 5]
        scores = rng.integers(0, levels + 1, n) / levels if index % 6 else rng.random(n)
        weights = None
        if index % 2:
            weights = rng.integers(0, 4, n) * (1.0 if index % 3 else 0.37)
            weights[: max(2, min_rows)] = 0.5 + rng.random(max(2, min_rows))
        yield labels, scores, weights


def brute_bins(case: Case, n_bins: int, strategy: str) -> list[tuple[float, float, float]]:
    """(mass, mean score, positive rate) of each non-empty bin, row by row."""
    labels, scores, weights = case
    weights = np.ones(len(labels)) if weights is None else weights
    sums = np.zeros((n_bins, 3))
    if strategy == "uniform":
        for y, p, w in zip(labels, scores, weights, strict=True):
            k = next(k for k in range(n_bins) if p < (k + 1) / n_bins or k == n_bins - 1)
            sums[k] += (w, w * p, w * y)
    else:
        # Tied rows share their mean label, so that their order cannot matter.
        rows = sorted(
            (p, np.average(labels[scores == p], weights=weights[scores == p]), w)
            for p, w in zip(scores, weights, strict=True)
            if w > 0
        )
        total = sum(w for _, _, w in rows)
        whole = all(float(w).is_integer() for _, _, w in rows)
        cuts = [k * total / n_bins for k in range(n_bins + 1)]
        cuts = [math.floor(cut + 1e-9) for cut in cuts] if whole else cuts
        start = 0.0
        for p, y, w in rows:
            for k in range(n_bins):
                part = max(0.0, min(start + w, cuts[k + 1]) - max(start, cuts[k]))
                sums[k] += (part, part * p, part * y)
            start += w
    return [(m, p / m, y / m) for m, p, y in sums.tolist() if m > 0]


class TestRanking:
    def test_average_precision(self) -> None:
        for y, s, w in random_cases(420, seed=1):
            expected = sk.average_precision_score(y, s, sample_weight=w)
            assert metrics.pr_auc(y, s, sample_weight=w) == approx(expected)

    def test_roc_auc(self) -> None:
        for y, s, w in random_cases(420, seed=2):
            expected = sk.roc_auc_score(y, s, sample_weight=w)
            assert metrics.roc_auc(y, s, sample_weight=w) == approx(expected)

    def test_partial_roc_auc(self) -> None:
        limits = np.random.default_rng(3).choice([0.01, 0.1, 0.25, 0.5, 0.75, 1.0], 300)
        for (y, s, w), limit in zip(random_cases(300, seed=3), limits.tolist(), strict=True):
            expected = sk.roc_auc_score(y, s, max_fpr=limit, sample_weight=w)
            assert metrics.roc_auc(y, s, max_fpr=limit, sample_weight=w) == approx(expected)

    def test_on_scores_of_any_size(self) -> None:
        rng = np.random.default_rng(4)
        y = rng.integers(0, 2, 5000)
        s = np.round(rng.normal(y, 2.0) * 1e6) / 10
        assert metrics.pr_auc(y, s) == approx(sk.average_precision_score(y, s))
        assert metrics.roc_auc(y, s) == approx(sk.roc_auc_score(y, s))

    def test_recall_at_fpr_is_the_best_of_all_thresholds(self) -> None:
        targets = np.random.default_rng(5).choice([0.0, 0.05, 0.2, 0.3, 0.5, 1.0], 600)
        for (y, s, w), target in zip(random_cases(600, seed=5), targets.tolist(), strict=True):
            weights = np.ones(len(y)) if w is None else w
            n_pos, n_neg = weights[y == 1].sum(), weights[y == 0].sum()
            feasible = [(0.0, 0.0, math.inf)]
            for threshold in np.unique(s[weights > 0]):
                flagged = weights * (s >= threshold)
                fpr = flagged[y == 0].sum() / n_neg
                if fpr <= target + (0.0 if w is None else 1e-12):
                    feasible.append((flagged[y == 1].sum() / n_pos, -fpr, threshold))
            recall, minus_fpr, _ = max(feasible)
            got = metrics.recall_at_fpr(y, s, target, sample_weight=w)
            assert got.recall == approx(recall)
            assert got.actual_fpr == approx(-minus_fpr)
            at = metrics.confusion_counts(y, s, got.threshold, sample_weight=w)
            assert (at.recall, at.fpr) == (approx(got.recall), approx(got.actual_fpr))
            assert (at.fp, at.tn) == (approx(got.fp), approx(got.tn))


class TestCurves:
    def test_roc_curve(self) -> None:
        for y, s, w in random_cases(300, seed=11):
            expected = sk.roc_curve(y, s, sample_weight=w, drop_intermediate=False)
            for ours, theirs in zip(
                metrics.roc_curve(y, s, sample_weight=w), expected, strict=True
            ):
                np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)

    def test_pr_curve(self) -> None:
        for y, s, w in random_cases(300, seed=12):
            expected = sk.precision_recall_curve(y, s, sample_weight=w)
            for ours, theirs in zip(metrics.pr_curve(y, s, sample_weight=w), expected, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("strategy", ["uniform", "quantile"])
    def test_calibration_curve(self, strategy: str) -> None:
        for index, case in enumerate(random_cases(300, seed=13, min_rows=12)):
            n_bins = 2 + index % 11
            y, s, w = case
            curve = metrics.calibration_curve(
                y, s, n_bins=n_bins, strategy=strategy, sample_weight=w
            )
            mass, predicted, observed = zip(*brute_bins(case, n_bins, strategy), strict=True)
            np.testing.assert_allclose(curve.n, mass, atol=1e-12)
            np.testing.assert_allclose(curve.mean_predicted, predicted, atol=1e-12)
            np.testing.assert_allclose(curve.fraction_positive, observed, atol=1e-12)

    def test_calibration_curve_of_sklearn_off_the_edges(self) -> None:
        from sklearn.calibration import calibration_curve

        rng = np.random.default_rng(14)
        y, s = rng.integers(0, 2, 200), rng.random(200)
        expected = calibration_curve(y, s, n_bins=7, strategy="uniform")
        for ours, theirs in zip(
            metrics.calibration_curve(y, s, n_bins=7, strategy="uniform"), expected, strict=True
        ):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)


class TestProbability:
    def test_brier_score(self) -> None:
        for y, s, w in random_cases(600, seed=21):
            expected = sk.brier_score_loss(y, s, sample_weight=w)
            assert metrics.brier_score(y, s, sample_weight=w) == approx(expected)

    def test_log_loss(self) -> None:
        for y, s, w in random_cases(600, seed=22):
            expected = sk.log_loss(y, s, sample_weight=w, labels=[0, 1])
            assert metrics.log_loss(y, s, sample_weight=w) == approx(expected)

    def test_binned_decomposition(self) -> None:
        for case in random_cases(300, seed=23, min_rows=10):
            y, s, w = case
            base = float(np.average(y, weights=w))
            mass, predicted, observed = map(
                np.array, zip(*brute_bins(case, 5, "quantile"), strict=True)
            )
            share = mass / mass.sum()
            assert metrics.brier_decomposition(y, s, 5, sample_weight=w) == {
                "brier": approx(sk.brier_score_loss(y, s, sample_weight=w)),
                "reliability": approx(share @ (predicted - observed) ** 2),
                "resolution": approx(share @ (observed - base) ** 2),
                "uncertainty": approx(base * (1 - base)),
            }

    def test_corp_decomposition_recalibrates_as_isotonic_regression(self) -> None:
        for y, s, w in random_cases(300, seed=24):
            fit = IsotonicRegression(out_of_bounds="clip").fit(s, y, sample_weight=w).predict(s)
            brier = partial(sk.brier_score_loss, y, sample_weight=w)
            score, recalibrated = brier(s), brier(np.clip(fit, 0.0, 1.0))
            base = brier(np.full(len(y), np.average(y, weights=w)))
            parts = metrics.brier_decomposition(y, s, method="corp", sample_weight=w)
            assert parts["brier"] == approx(score)
            assert parts["reliability"] == parts["mcb"] == approx(score - recalibrated)
            assert parts["resolution"] == parts["dsc"] == approx(base - recalibrated)
            assert parts["uncertainty"] == parts["unc"] == approx(base)
            assert parts["brier"] == approx(parts["mcb"] - parts["dsc"] + parts["unc"])

    def test_pav(self) -> None:
        rng = np.random.default_rng(25)
        for _ in range(500):
            n = int(rng.integers(1, 60))
            values, weights = rng.integers(-3, 4, n) / 2, rng.integers(1, 5, n) * 0.3
            expected = IsotonicRegression().fit(np.arange(n), values, weights).predict(np.arange(n))
            np.testing.assert_allclose(pav(values, weights), expected, atol=1e-12)


class TestCalibrationError:
    @pytest.mark.parametrize(
        ("function", "strategy", "power"),
        [
            (metrics.expected_calibration_error, "uniform", 1),
            (metrics.expected_calibration_error_equal_mass, "quantile", 1),
            (metrics.expected_calibration_error_l2, "quantile", 2),
        ],
    )
    def test_binned_errors(self, function: Any, strategy: str, power: int) -> None:
        for index, case in enumerate(random_cases(300, seed=31, min_rows=12)):
            n_bins = 2 + index % 11
            mass, predicted, observed = map(
                np.array, zip(*brute_bins(case, n_bins, strategy), strict=True)
            )
            mean_gap = (mass / mass.sum()) @ np.abs(predicted - observed) ** power
            got = function(case[0], case[1], n_bins, sample_weight=case[2])
            assert got == approx(mean_gap ** (1 / power), abs=1e-9 if power == 2 else 1e-12)

    @pytest.mark.parametrize("strategy", ["uniform", "quantile"])
    def test_maximum(self, strategy: str) -> None:
        for case in random_cases(200, seed=32, min_rows=10):
            gaps = [abs(p - y) for _, p, y in brute_bins(case, 6, strategy)]
            got = metrics.maximum_calibration_error(
                case[0], case[1], n_bins=6, strategy=strategy, sample_weight=case[2]
            )
            assert got == approx(max(gaps))

    def test_l2_debiased_subtracts_the_variance_of_each_bin(self) -> None:
        for index, (y, s, _) in enumerate(random_cases(300, seed=33, min_rows=12)):
            bins = brute_bins((y, s, None), 2 + index % 11, "quantile")
            squared = sum(
                m / len(y) * ((p - q) ** 2 - (q * (1 - q) / (m - 1) if m > 1 else 0.0))
                for m, p, q in bins
            )
            got = metrics.expected_calibration_error_l2_debiased(y, s, 2 + index % 11)
            assert got**2 == approx(max(0.0, squared))

    def test_debiased_is_the_mean_over_label_draws(self) -> None:
        for y, s, _ in random_cases(10, seed=34, min_rows=12):
            draws = np.random.default_rng(7).random((25, len(y))) < np.sort(s)
            equal_mass = partial(metrics.expected_calibration_error_equal_mass, n_bins=4)
            by_chance = np.mean([equal_mass(draw, np.sort(s)) for draw in draws])
            got = metrics.expected_calibration_error_debiased(y, s, 4, n_sweep=25, seed=7)
            assert got == approx(max(0.0, equal_mass(y, s) - by_chance))

    def test_debiased_does_not_depend_on_block_size(self, monkeypatch: pytest.MonkeyPatch) -> None:
        (y, s, _), *_ = random_cases(1, seed=35, min_rows=30)
        expected = metrics.expected_calibration_error_debiased(y, s, 3, seed=1)
        monkeypatch.setattr(calibration_error, "_DRAWS_AT_ONCE", 7 * len(y))
        assert metrics.expected_calibration_error_debiased(y, s, 3, seed=1) == approx(expected)

    def test_smooth_ece_against_a_dense_kernel(self) -> None:
        """The definition on a dense grid: images of a Gaussian mirrored at 0 and 1, bisection."""
        t = np.linspace(0.0, 1.0, 3001)
        for y, s, w in random_cases(6, seed=36):
            weights = np.ones(len(y)) if w is None else w
            residual = weights * (y - s) / weights.sum()
            images = np.concatenate([2 * m + sign * s for m in range(-4, 5) for sign in (1, -1)])

            def smoothed(sigma: float, images: Any = images, residual: Any = residual) -> float:
                kernel = np.exp(-0.5 * ((t[:, None] - images) / sigma) ** 2)
                density = kernel @ np.tile(residual, 18) / (sigma * math.sqrt(2 * math.pi))
                return float(np.trapezoid(np.abs(density), t))

            low, high = 0.0, 1.0
            while high - low > 1e-7:
                middle = (low + high) / 2
                low, high = (middle, high) if smoothed(middle) > middle else (low, middle)
            got = metrics.smooth_ece(y, s, sample_weight=w)
            assert got == pytest.approx((low + high) / 2, abs=1e-6)

    def test_slope_and_intercept(self) -> None:
        import statsmodels.api as sm

        n_fitted = 0
        for y, s, w in random_cases(60, seed=37, min_rows=25):
            p = 0.02 + 0.96 * s
            try:
                fit = metrics.calibration_slope_intercept(y, p, sample_weight=w)
            except UndefinedMetricError:
                continue
            weights = np.ones(len(y)) if w is None else w
            logit = np.log(p / (1 - p))
            glm = partial(sm.GLM, y, family=sm.families.Binomial(), freq_weights=weights)
            both = glm(sm.add_constant(logit)).fit(tol=1e-14).params
            large = glm(np.ones(len(y)), offset=logit).fit(tol=1e-14).params
            got = (fit.intercept, fit.slope, fit.calibration_in_the_large)
            assert got == pytest.approx((*both, *large), rel=1e-8, abs=1e-9)
            n_fitted += 1
        assert n_fitted > 30


class TestConfusion:
    def test_counts_and_rates(self) -> None:
        oracles = {
            "f1": sk.f1_score,
            "precision": sk.precision_score,
            "recall": sk.recall_score,
            "accuracy": sk.accuracy_score,
            "specificity": partial(sk.recall_score, pos_label=0),
            "balanced_accuracy": sk.balanced_accuracy_score,
            "mcc": sk.matthews_corrcoef,
        }
        for y, s, w in random_cases(100, seed=41):
            at = metrics.metrics_at_threshold(y, s, 0.5, sample_weight=w)
            predicted = (s >= 0.5).astype(int)
            cells = sk.confusion_matrix(y, predicted, labels=[0, 1], sample_weight=w).ravel()
            assert [at[name] for name in ("tn", "fp", "fn", "tp")] == approx(cells.tolist())
            for name in oracles.keys() - at["undefined"].keys():
                assert at[name] == approx(oracles[name](y, predicted, sample_weight=w)), name
            assert at["fpr"] == approx(1.0 - at["specificity"])
            assert at["fnr"] == approx(1.0 - at["recall"])

    def test_kappa(self) -> None:
        for y, s, w in random_cases(300, seed=42):
            predicted = (s >= 0.5).astype(int)
            expected = sk.cohen_kappa_score(y, predicted, sample_weight=w)
            assert metrics.cohen_kappa(y, predicted, sample_weight=w) == approx(expected)
            counts = metrics.confusion_counts(y, s, 0.5, sample_weight=w)
            assert counts.kappa == approx(expected)

    def test_kappa_of_many_classes(self) -> None:
        rng = np.random.default_rng(43)
        for _ in range(100):
            a, b = rng.integers(0, 5, (2, 30))
            assert metrics.cohen_kappa(a, b) == approx(sk.cohen_kappa_score(a, b))

    def test_net_benefit(self) -> None:
        for y, s, w in random_cases(300, seed=44):
            cells = sk.confusion_matrix(y, s >= 0.3, labels=[0, 1], sample_weight=w)
            expected = (cells[1, 1] - cells[0, 1] * 0.3 / 0.7) / cells.sum()
            assert metrics.net_benefit(y, s, 0.3, sample_weight=w) == approx(expected)

    def test_wilson_bounds(self) -> None:
        from statsmodels.stats.proportion import proportion_confint

        for n in (1, 2, 7, 20, 1000):
            for hits in {0, 1, n // 3, n - 1, n}:
                for confidence in (0.8, 0.95, 0.999):
                    expected = proportion_confint(hits, n, alpha=1 - confidence, method="wilson")
                    assert wilson_bounds(hits, n, confidence) == approx(expected)
