"""Calibrators, costs and prior shifts: behaviour, edge cases and messages."""

import json
import pickle

import numpy as np
import pytest

from eval_toolkit import calibration as cal
from eval_toolkit import metrics
from eval_toolkit.calibration import _solve
from eval_toolkit.calibration._solve import bisect, logistic_regression
from eval_toolkit.errors import InfeasibleError, InvalidInputError, UndefinedMetricError
from eval_toolkit.metrics.logistic import sigmoid
from eval_toolkit.metrics.wilson import wilson_bounds

FITTERS = [
    cal.fit_isotonic_calibrator,
    cal.fit_platt_calibrator,
    cal.fit_beta_calibrator,
    cal.fit_isotonic_binary,
    cal.fit_platt_binary,
    cal.fit_beta_binary,
    cal.fit_temperature_binary,
]


def a_map(fitted):
    """The callable, whichever of the two spellings made it."""
    return fitted[1] if isinstance(fitted, tuple) else fitted


@pytest.fixture
def sample():
    rng = np.random.default_rng(5)
    y = rng.integers(0, 2, 300)
    s = np.clip(rng.beta(2 + 2 * y, 3), 0.001, 0.999)
    return y, s


class TestConstants:
    def test_defaults_are_the_published_ones(self):
        assert (cal.DEFAULT_PRIOR, cal.DEFAULT_FP_COST, cal.DEFAULT_FN_COST) == (0.01, 1.0, 10.0)
        assert (cal.DEFAULT_N_BINS, cal.DEFAULT_STRATEGY) == (10, "quantile")


def tied_scores(seed, n):
    """A few distinct probabilities with gaps between them: ties, and empty equal-width bins."""
    rng = np.random.default_rng(seed)
    s = rng.choice([0.0, 0.02, 0.3, 0.31, 0.8, 1.0], n)
    y = (rng.random(n) < 0.5 * s + 0.2).astype(int)
    y[:2] = 0, 1
    return y, s


class TestReliabilityCurve:
    """rows.md §21.2 no. 12: edges, counts and means came from different bins."""

    @pytest.mark.parametrize("n", [10, 23, 200])
    @pytest.mark.parametrize("strategy", ["quantile", "uniform"])
    def test_every_list_describes_the_same_bins(self, n, strategy):
        y, s = tied_scores(n, n)
        curve = cal.reliability_curve(y, s, strategy=strategy)
        n_listed = len(curve["n_per_bin"])
        names = ("prob_true", "prob_pred", "bin_lower", "bin_upper", "ci_low", "ci_high")
        assert all(len(curve[name]) == n_listed for name in names)
        places, edges = curve["bin_index"], curve["bin_edges"]
        assert [edges[at] for at in places] == curve["bin_lower"]
        assert len(edges) == (11 if strategy == "uniform" else n_listed + 1)
        assert places == sorted(set(places))
        assert sum(curve["n_per_bin"]) == n
        assert min(curve["n_per_bin"]) > 0
        counts = np.array(curve["n_per_bin"])
        assert counts @ curve["prob_true"] == pytest.approx(y.sum())
        assert counts @ curve["prob_pred"] == pytest.approx(s.sum())
        for low, mean, high in zip(
            curve["bin_lower"], curve["prob_pred"], curve["bin_upper"], strict=True
        ):
            assert low <= mean <= high

    def test_equal_width_bins_are_those_of_the_rows(self):
        y, s = tied_scores(1, 200)
        curve = cal.reliability_curve(y, s, strategy="uniform")
        assert curve["bin_lower"] == [0.0, 0.3, 0.8, 0.9]
        assert curve["bin_upper"] == [0.1, 0.4, 0.9, 1.0]
        # Six of the ten bins are empty; their edges are edges all the same.
        assert curve["bin_edges"] == [k / 10 for k in range(11)]
        assert curve["bin_index"] == [0, 3, 8, 9]
        assert [curve["bin_edges"][at + 1] for at in curve["bin_index"]] == curve["bin_upper"]
        counts, _ = np.histogram(s, bins=curve["bin_edges"])
        assert counts[curve["bin_index"]].tolist() == curve["n_per_bin"]
        inside = [s < 0.1, (s >= 0.3) & (s < 0.4), (s >= 0.8) & (s < 0.9), s >= 0.9]
        assert curve["n_per_bin"] == [int(rows.sum()) for rows in inside]
        assert curve["prob_true"] == pytest.approx([y[rows].mean() for rows in inside])
        assert curve["prob_pred"] == pytest.approx([s[rows].mean() for rows in inside])

    @pytest.mark.parametrize("n", [10, 23, 200])
    def test_errors_are_those_of_the_metrics_and_of_the_listed_bins(self, n):
        y, s = tied_scores(n, n)
        for strategy, name, metric in (
            ("quantile", "ece_equal_mass", metrics.expected_calibration_error_equal_mass),
            ("uniform", "ece_equal_width", metrics.expected_calibration_error),
        ):
            curve = cal.reliability_curve(y, s, strategy=strategy)
            gaps = np.abs(np.subtract(curve["prob_true"], curve["prob_pred"]))
            assert curve[name] == metric(y, s)
            assert curve[name] == pytest.approx(np.average(gaps, weights=curve["n_per_bin"]))

    def test_intervals_are_wilson_s(self):
        y = [0, 0, 0, 1, 1, 1, 1, 1]
        s = [0.1, 0.1, 0.2, 0.2, 0.8, 0.8, 0.9, 0.9]
        curve = cal.reliability_curve(y, s, n_bins=2, confidence=0.9)
        assert curve["confidence"] == 0.9
        low, high = wilson_bounds(1, 4, 0.9)
        assert (curve["ci_low"][0], curve["ci_high"][0]) == (low, high)
        assert curve["ci_high"][1] == 1.0

    def test_keys_and_json(self, sample):
        curve = cal.reliability_curve(*sample, n_bins=7)
        required = {"n", "n_positive", "n_bins", "strategy", "prob_true", "prob_pred"}
        required |= {"bin_edges", "n_per_bin", "ece_equal_mass", "ece_equal_width"}
        assert required <= set(curve)
        assert (curve["n"], curve["n_bins"], curve["strategy"]) == (300, 7, "quantile")
        assert json.loads(json.dumps(curve, allow_nan=False)) == curve

    @pytest.mark.parametrize(("label", "word"), [(0, "negative"), (1, "positive")])
    def test_one_class_is_skipped(self, label, word):
        curve = cal.reliability_curve([label] * 3, [0.1, 0.2, 0.3])
        assert curve == {"skipped": f"all 3 rows are {word}", "n": 3, "n_positive": 3 * label}
        assert cal.reliability_diagram_data([label] * 3, [0.1, 0.2, 0.3]) == []

    def test_fewer_rows_than_bins(self):
        y, s = [0, 1, 1], [0.1, 0.2, 0.3]
        skipped = cal.reliability_curve(y, s)
        assert skipped["skipped"] == "3 rows are too few for 10 bins of equal mass"
        curve = cal.reliability_curve(y, s, strategy="uniform")
        assert curve["n_per_bin"] == [1, 1, 1]
        assert curve["ece_equal_mass"] is None
        assert "only 3 rows" in curve["ece_equal_mass_error"]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"n_bins": 1}, "`n_bins` is 1; it must be at least 2"),
            ({"strategy": "kmeans"}, "`strategy` is 'kmeans'; choose one of"),
            ({"confidence": 1.0}, "`confidence`"),
        ],
    )
    def test_options_are_checked_even_on_one_class(self, options, message):
        for y in ([0, 1], [1, 1]):
            with pytest.raises(InvalidInputError, match=message):
                cal.reliability_curve(y, [0.1, 0.2], **options)

    def test_scores_must_be_probabilities(self):
        with pytest.raises(InvalidInputError, match=r"y_score\[1\] is 1.2"):
            cal.reliability_curve([0, 1], [0.1, 1.2])

    def test_diagram_data_are_the_same_bins(self):
        y, s = tied_scores(4, 60)
        curve = cal.reliability_curve(y, s, n_bins=4, strategy="uniform")
        bins = cal.reliability_diagram_data(y, s, n_bins=4, strategy="uniform")
        required = {"bin_lower", "bin_upper", "mean_pred", "frac_positive", "n"}
        assert all(required <= set(one) for one in bins)
        assert [one["n"] for one in bins] == curve["n_per_bin"]
        assert [one["mean_pred"] for one in bins] == curve["prob_pred"]
        assert [one["frac_positive"] for one in bins] == curve["prob_true"]
        assert [one["ci_low"] for one in bins] == curve["ci_low"]

    @pytest.mark.parametrize("strategy", ["quantile", "uniform"])
    def test_maximum_error_is_the_largest_gap(self, strategy):
        y, s = tied_scores(9, 80)
        curve = cal.reliability_curve(y, s, strategy=strategy)
        gaps = np.abs(np.subtract(curve["prob_true"], curve["prob_pred"]))
        assert cal.maximum_calibration_error(y, s, strategy=strategy) == pytest.approx(gaps.max())

    def test_maximum_error_of_one_class_is_none(self):
        assert cal.maximum_calibration_error([0] * 12, np.linspace(0, 1, 12)) is None


class TestSolvers:
    def test_sigmoid_does_not_overflow(self):
        assert sigmoid(np.array([-1e4, 0.0, 1e4])).tolist() == [0.0, 0.5, 1.0]

    def test_bisect_stops_at_an_end_when_there_is_no_crossing(self):
        assert bisect(lambda x: -1.0 - x, 0.0, 1.0) == 0.0
        assert bisect(lambda x: 2.0 - x, 0.0, 1.0) == 1.0
        assert bisect(lambda x: 0.25 - x, 0.0, 1.0) == pytest.approx(0.25, abs=1e-15)

    def test_rare_positives_need_damped_steps(self):
        # 2 of 3 rows at x = 1 and 1 of 500 at x = 0 are positive. A saturated model, so the fit is
        # known: log-odds ln 2 and −ln 499. Undamped Newton overshoots here and diverges.
        x = np.repeat([[1.0], [0.0]], [3, 500], axis=0)
        y = np.zeros(503)
        y[[0, 1, 3]] = 1.0
        slopes, intercept = logistic_regression(x, y)
        assert intercept == pytest.approx(-np.log(499), abs=1e-8)
        assert slopes[0] + intercept == pytest.approx(np.log(2), abs=1e-8)

    def test_separation_without_a_ridge_is_an_error_not_a_bad_fit(self, monkeypatch):
        monkeypatch.setattr(_solve, "RIDGE", 0.0)
        x = np.array([[0.0], [1.0], [2.0], [3.0]])
        with pytest.raises(InfeasibleError, match="separated"):
            logistic_regression(x, np.array([0.0, 0.0, 1.0, 1.0]))


class TestEveryFitter:
    @pytest.mark.parametrize("fit", FITTERS)
    def test_output_is_a_flat_array_of_probabilities(self, fit, sample):
        calibrate = a_map(fit(*sample))
        out = calibrate(np.linspace(0, 1, 12).reshape(3, 4))
        assert out.shape == (12,)
        assert out.min() >= 0.0
        assert out.max() <= 1.0

    @pytest.mark.parametrize("fit", FITTERS)
    def test_never_reverses_the_order(self, fit, sample):
        out = a_map(fit(*sample))(np.linspace(0, 1, 500))
        assert np.diff(out).min() >= 0.0

    @pytest.mark.parametrize("fit", FITTERS)
    def test_survives_pickling(self, fit, sample):
        calibrate = a_map(fit(*sample))
        again = pickle.loads(pickle.dumps(calibrate))  # noqa: S301 - our own bytes
        assert again == calibrate
        assert hash(again) == hash(calibrate)
        assert again([0.3]).tolist() == calibrate([0.3]).tolist()

    @pytest.mark.parametrize("fit", FITTERS)
    def test_refuses_one_class(self, fit):
        with pytest.raises(UndefinedMetricError, match="all 3 rows are positive"):
            fit([1, 1, 1], [0.1, 0.2, 0.3])

    @pytest.mark.parametrize("fit", FITTERS)
    def test_refuses_bad_input(self, fit, sample):
        with pytest.raises(InvalidInputError, match=r"y_score\[1\] is nan"):
            fit([0, 1, 0], [0.1, np.nan, 0.3])
        with pytest.raises(InvalidInputError, match="`y_true` has 3 rows but `y_score` has 2"):
            fit([0, 1, 0], [0.1, 0.2])
        with pytest.raises(InvalidInputError, match=r"y_score\[0\] is inf"):
            a_map(fit(*sample))([np.inf])

    @pytest.mark.parametrize("fit", FITTERS)
    def test_separable_data_give_a_finite_steep_map(self, fit):
        calibrate = a_map(fit([0, 0, 0, 1, 1, 1], [0.1, 0.2, 0.3, 0.7, 0.8, 0.9]))
        out = calibrate([0.1, 0.9])
        assert np.isfinite(out).all()
        assert out[0] < 0.25
        assert out[1] > 0.75

    @pytest.mark.parametrize("fit", FITTERS)
    def test_constant_scores_give_a_constant(self, fit):
        y = [0, 0, 0, 1]
        out = a_map(fit(y, [0.5] * 4))([0.5, 0.5])
        assert out[0] == out[1]
        assert np.isfinite(out).all()

    @pytest.mark.parametrize("fit", [cal.fit_beta_calibrator, cal.fit_temperature_binary])
    def test_probability_fitters_say_which_calibrator_takes_raw_scores(self, fit, sample):
        message = r"y_score\[1\] is 1.5; `y_score` must be a probability.*Platt and isotonic"
        with pytest.raises(InvalidInputError, match=message):
            fit([0, 1], [0.5, 1.5])
        with pytest.raises(InvalidInputError, match=r"y_score\[0\] is -0.1"):
            a_map(fit(*sample))([-0.1])


class TestIsotonic:
    def test_clips_outside_the_fitted_range(self):
        calibrate = cal.fit_isotonic_calibrator([0, 1, 1, 1], [1.0, 1.0, 2.0, 3.0])
        assert calibrate([-50.0, 50.0]).tolist() == [0.5, 1.0]

    def test_keeps_only_the_knots_that_matter(self):
        calibrate = cal.fit_isotonic_calibrator([0, 0, 0, 0, 1, 1, 1, 1], np.arange(8.0))
        assert calibrate.scores.tolist() == [0.0, 3.0, 4.0, 7.0]

    def test_is_not_equal_to_other_things(self):
        calibrate = cal.fit_isotonic_calibrator([0, 1], [0.0, 1.0])
        assert calibrate != cal.fit_isotonic_calibrator([0, 1], [0.0, 2.0])
        assert calibrate != "a map"

    def test_binary_spelling_has_no_parameters(self, sample):
        params, apply = cal.fit_isotonic_binary(*sample)
        assert params is None
        assert apply == cal.fit_isotonic_calibrator(*sample)


class TestPlatt:
    def test_fit_carries_its_parameters(self, sample):
        fit = cal.fit_platt_calibrator(*sample)
        assert fit([0.3])[0] == pytest.approx(1 / (1 + np.exp(fit.a * 0.3 + fit.b)), abs=1e-15)
        assert cal.fit_platt_binary(*sample)[0] == (fit.a, fit.b)

    def test_constant_scores_have_no_slope(self):
        # Without information in the score, the fit is the mean smoothed target:
        # (1·2/3 + 3·1/5) / 4 for one positive of four.
        fit = cal.fit_platt_calibrator([0, 0, 0, 1], [7.0] * 4)
        assert fit.a == 0.0
        assert fit([7.0])[0] == pytest.approx((2 / 3 + 3 / 5) / 4, abs=1e-12)

    def test_does_not_depend_on_the_scale_of_the_score(self, sample):
        y, s = sample
        small = cal.fit_platt_calibrator(y, s)
        large = cal.fit_platt_calibrator(y, 1e6 * s - 3e6)
        np.testing.assert_allclose(large(1e6 * s - 3e6), small(s), atol=1e-12)


class TestBeta:
    def test_the_free_fit_would_reverse_the_order_and_the_constrained_one_does_not(self):
        # Positives at both ends: the unconstrained optimum has a negative slope.
        s = np.concatenate([np.full(40, 0.02), np.full(100, 0.3), np.full(60, 0.97)])
        y = np.concatenate(
            [np.ones(25), np.zeros(15), np.zeros(90), np.ones(10), np.ones(45), np.zeros(15)]
        )
        features = np.column_stack([np.log(s), -np.log1p(-s)])
        free, _ = logistic_regression(features, y)
        assert free.min() < 0.0
        calibrate = cal.fit_beta_calibrator(y, s)
        assert calibrate.a >= 0.0 >= calibrate.b
        assert np.diff(calibrate(np.linspace(0.001, 0.999, 400))).min() >= 0.0

    def test_a_score_that_ranks_backwards_gets_the_base_rate(self):
        calibrate = cal.fit_beta_calibrator([1, 1, 1, 0, 0, 0, 0, 1], np.linspace(0.1, 0.9, 8))
        assert (calibrate.a, calibrate.b) == (0.0, 0.0)
        assert calibrate([0.2, 0.8]) == pytest.approx(0.5)

    def test_zeros_and_ones_are_clipped(self):
        calibrate = cal.fit_beta_calibrator([0, 0, 1, 1, 0, 1], [0.0, 0.4, 0.6, 1.0, 1.0, 0.0])
        assert np.isfinite(calibrate([0.0, 1.0])).all()

    def test_binary_spelling_gives_the_parameters(self, sample):
        (a, b, c), apply = cal.fit_beta_binary(*sample)
        assert apply == cal.BetaMap(a, b, c)


class TestTemperature:
    LOGITS = np.array([[0.0, 3.0], [1.0, -2.0], [0.5, 2.0], [0.0, 1.0], [2.0, 1.0]])

    def test_result_is_consistent(self):
        fit = cal.fit_temperature(self.LOGITS, [1, 0, 1, 0, 1])
        assert set(fit) == {"temperature", "nll_pre", "nll_post", "improvement"}
        assert fit["improvement"] == fit["nll_pre"] - fit["nll_post"] >= 0.0

    def test_only_the_difference_of_logits_counts(self):
        shifted = self.LOGITS + np.arange(5.0)[:, None]
        y = [1, 0, 1, 0, 1]
        expected = cal.fit_temperature(self.LOGITS, y)["temperature"]
        assert cal.fit_temperature(shifted, y)["temperature"] == pytest.approx(expected)

    def test_bounds_hold(self):
        y = [1, 0, 1, 1, 0]  # every row on its right side: the best temperature is 0
        assert cal.fit_temperature(self.LOGITS, y)["temperature"] == 0.05
        wrong = [0, 1, 0, 0, 1]
        assert cal.fit_temperature(self.LOGITS, wrong)["temperature"] == 20.0
        assert cal.fit_temperature(self.LOGITS, wrong, (0.5, 3.0))["temperature"] == 3.0

    def test_logits_that_say_nothing_are_left_alone(self):
        fit = cal.fit_temperature(np.zeros((4, 2)), [0, 1, 0, 1])
        assert fit["temperature"] == 1.0
        assert fit["improvement"] == 0.0
        assert cal.fit_temperature(np.zeros((2, 2)), [0, 1], (2.0, 5.0))["temperature"] == 2.0

    @pytest.mark.parametrize(
        ("bounds", "message"),
        [
            ((0.0, 2.0), r"`bounds\[0\]` is 0.0; it must lie in \(0, inf\)"),
            ((2.0, 1.0), r"`bounds\[1\]` is 1.0; it must lie in \(2, inf\)"),
            ((0.1, np.inf), r"`bounds\[1\]` is inf"),
        ],
    )
    def test_bounds_are_checked(self, bounds, message):
        with pytest.raises(InvalidInputError, match=message):
            cal.fit_temperature(self.LOGITS, [1, 0, 1, 0, 1], bounds)
        with pytest.raises(InvalidInputError, match=message):
            cal.fit_temperature_binary([0, 1], [0.4, 0.6], bounds=bounds)

    def test_shape_labels_and_classes_are_checked(self):
        with pytest.raises(InvalidInputError, match=r"`val_logits` must be of shape \(n, 2\)"):
            cal.fit_temperature([0.1, 0.2], [0, 1])
        with pytest.raises(InvalidInputError, match=r"val_labels\[1\] is 2"):
            cal.fit_temperature([[0, 1], [1, 0]], [0, 2])
        with pytest.raises(InvalidInputError, match="`val_labels` has 3 rows"):
            cal.fit_temperature([[0, 1], [1, 0]], [0, 1, 1])
        with pytest.raises(UndefinedMetricError, match="all 2 rows are negative"):
            cal.fit_temperature([[0, 1], [1, 0]], [0, 0])
        with pytest.raises(InvalidInputError, match="finite"):
            cal.fit_temperature([[0, np.inf], [1, 0]], [0, 1])

    def test_binary_agrees_with_two_logits(self, sample):
        y, s = sample
        logits = np.column_stack([np.log1p(-s), np.log(s)])
        temperature, apply = cal.fit_temperature_binary(y, s)
        assert temperature == pytest.approx(cal.fit_temperature(logits, y)["temperature"])
        np.testing.assert_allclose(apply([0.5]), 0.5, atol=1e-15)

    def test_oracle_warns_and_equals_the_honest_fit_on_the_same_data(self, sample):
        with pytest.warns(UserWarning, match="fitted on the evaluation data"):
            temperature, apply = cal.fit_temperature_oracle(*sample)
        assert (temperature, apply) == cal.fit_temperature_binary(*sample)


class TestBayesThreshold:
    """rows.md §21.2 no. 8: upstream called the ρ = ½ cut a deployment-posterior cut."""

    def test_positional_contract(self):
        assert cal.bayes_optimal_threshold(0.01, 1.0, 10.0) == 0.99 / (0.99 + 0.1)
        assert cal.bayes_optimal_threshold(0.2, 3.0, 4.0) == pytest.approx(0.75, abs=1e-15)
        assert cal.bayes_optimal_threshold() == cal.bayes_optimal_threshold(0.01, 1.0, 10.0)

    def test_ends(self):
        assert cal.bayes_optimal_threshold(0.0, 1.0, 5.0) == 1.0
        assert cal.bayes_optimal_threshold(1.0, 1.0, 5.0) == 0.0

    def test_prior_cancels_for_a_score_calibrated_where_it_is_used(self):
        for prior in (0.001, 0.3, 0.9):
            cut = cal.bayes_optimal_threshold(prior, 1.0, 10.0, score_prior=prior)
            assert cut == pytest.approx(1 / 11, abs=1e-15)

    @pytest.mark.parametrize("prior", [0.05, 0.4, 0.8])
    @pytest.mark.parametrize("score_prior", [0.1, 0.5, 0.7])
    @pytest.mark.parametrize("costs", [(1.0, 10.0), (2.0, 1.0)])
    def test_nothing_is_cheaper(self, prior, score_prior, costs):
        """Brute force over every threshold on a grid population, exactly calibrated by design."""
        score = (np.arange(2000) + 0.5) / 2000
        # P(s | class) of a calibrated score: ∝ s·w for positives, (1−s)·w for negatives, with w
        # chosen so that the share of positives is score_prior.
        tilt = score ** (score_prior / (1 - score_prior) - 1)
        positive = tilt * score / (tilt @ score)
        negative = tilt * (1 - score) / (tilt @ (1 - score))
        implied = tilt @ score / tilt.sum()
        fp_cost, fn_cost = costs
        false_positive = np.append(np.cumsum(negative[::-1])[::-1], 0.0)
        false_negative = np.append(0.0, np.cumsum(positive))
        expected = fp_cost * (1 - prior) * false_positive + fn_cost * prior * false_negative
        cut = cal.bayes_optimal_threshold(prior, fp_cost, fn_cost, score_prior=implied)
        chosen = int(np.searchsorted(score, cut))
        assert expected[chosen] == pytest.approx(expected.min(), abs=1e-12)
        if abs(implied - 0.5) > 0.05:  # the ρ = ½ cut, used on this score, costs more
            naive = int(np.searchsorted(score, cal.bayes_optimal_threshold(prior, *costs)))
            assert expected[naive] > expected[chosen]

    @pytest.mark.parametrize(
        ("args", "kwargs", "message"),
        [
            ((1.2, 1, 1), {}, r"`prior` is 1.2; it must lie in \[0, 1\]"),
            ((0.5, 0, 1), {}, r"`fp_cost` is 0; it must lie in \(0, inf\)"),
            ((0.5, 1, -1), {}, "`fn_cost` is -1"),
            ((0.5, 1, 1), {"score_prior": 0.0}, r"`score_prior` is 0.0; it must lie in \(0, 1\)"),
        ],
    )
    def test_input_is_checked(self, args, kwargs, message):
        with pytest.raises(InvalidInputError, match=message):
            cal.bayes_optimal_threshold(*args, **kwargs)


class TestCostMatrix:
    Y = (0, 0, 1, 1)
    S = (0.1, 0.7, 0.6, 0.9)

    def test_expected_cost(self):
        costs = cal.CostMatrix(prior=0.5, fp_cost=1.0, fn_cost=10.0)
        assert costs.bayes_threshold == pytest.approx(1 / 11)
        assert costs.expected_cost(self.Y, self.S) == 2 / 4  # both negatives flagged
        assert costs.expected_cost(self.Y, self.S, 0.65) == (1 + 10) / 4
        assert costs.expected_cost(self.Y, self.S, np.inf) == 20 / 4

    def test_expected_cost_weighted_speaks_for_another_prevalence(self):
        costs = cal.CostMatrix(prior=0.1, fp_cost=1.0, fn_cost=10.0)
        weights = cal.prior_shift_weights(self.Y, to_prior=0.1)
        # FPR 1/2, FNR 1/2 at 0.65
        expected = 0.9 * 0.5 * 1.0 + 0.1 * 0.5 * 10.0
        cost = costs.expected_cost(self.Y, self.S, 0.65, sample_weight=weights)
        assert cost == pytest.approx(expected)

    def test_to_dict_is_json(self):
        payload = cal.CostMatrix(prior=0.5, fp_cost=1, fn_cost=1, abstain_cost=0.1).to_dict()
        assert json.loads(json.dumps(payload, allow_nan=False)) == payload
        assert payload["bayes_threshold"] == 0.5
        assert payload["abstain_band"] == pytest.approx([0.1, 0.9])
        assert cal.CostMatrix().to_dict()["abstain_band"] is None

    @pytest.mark.parametrize(
        ("kwargs", "message"),
        [
            ({"prior": -0.1}, "`prior`"),
            ({"fp_cost": 0}, "`fp_cost`"),
            ({"fn_cost": float("inf")}, "`fn_cost`"),
            ({"abstain_cost": -1}, r"`abstain_cost` is -1; it must lie in \[0, inf\)"),
            ({"score_prior": 1.0}, "`score_prior`"),
        ],
    )
    def test_construction_is_checked(self, kwargs, message):
        with pytest.raises(InvalidInputError, match=message):
            cal.CostMatrix(**kwargs)

    def test_nan_threshold_is_refused(self):
        with pytest.raises(InvalidInputError, match="`threshold` is nan"):
            cal.CostMatrix().expected_cost(self.Y, self.S, float("nan"))


class TestAbstaining:
    def test_no_band_when_it_cannot_pay(self):
        assert cal.CostMatrix(prior=0.5).abstain_band is None
        # Chow: pays only below fp·fn/(fp+fn) = 0.5
        assert (
            cal.CostMatrix(prior=0.5, fp_cost=1, fn_cost=1, abstain_cost=0.5).abstain_band is None
        )
        assert cal.CostMatrix(prior=0.5, fp_cost=1, fn_cost=9, abstain_cost=2).abstain_band is None
        for prior in (0.0, 1.0):
            assert cal.CostMatrix(prior=prior, abstain_cost=0.0).abstain_band is None

    def test_free_abstention_decides_nothing_uncertain(self):
        assert cal.CostMatrix(prior=0.5, abstain_cost=0.0).abstain_band == (0.0, 1.0)

    @pytest.mark.parametrize("score_prior", [0.5, 0.2])
    def test_band_is_where_not_deciding_is_cheapest(self, score_prior):
        costs = cal.CostMatrix(
            prior=0.2, fp_cost=1.0, fn_cost=3.0, abstain_cost=0.4, score_prior=score_prior
        )
        low, high = costs.abstain_band
        assert low < costs.bayes_threshold < high
        score = np.linspace(0.0005, 0.9995, 1000)
        posterior = cal.adjust_for_prior(score, from_prior=score_prior, to_prior=0.2)
        cheapest = np.argmin([3.0 * posterior, np.full(1000, 0.4), 1.0 * (1 - posterior)], axis=0)
        expected = np.where(score < low, 0, np.where(score < high, 1, 2))
        np.testing.assert_array_equal(cheapest, expected)

    def test_expected_cost_counts_the_undecided(self):
        costs = cal.CostMatrix(prior=0.5, fp_cost=1.0, fn_cost=1.0, abstain_cost=0.25)
        y, s = [0, 1, 0, 1, 0], [0.1, 0.25, 0.5, 0.74, 0.75]
        assert costs.expected_cost(y, s, abstain=True) == (0 + 0.25 * 3 + 1) / 5

    def test_expected_cost_without_a_band_decides_everything(self):
        costs = cal.CostMatrix(prior=0.5, fp_cost=1.0, fn_cost=1.0, abstain_cost=5.0)
        y, s = [0, 1, 0, 1], [0.1, 0.4, 0.6, 0.9]
        assert costs.expected_cost(y, s, abstain=True) == costs.expected_cost(y, s) == 0.5

    def test_contradictory_requests(self):
        with pytest.raises(
            InvalidInputError, match="requires a cost matrix with an `abstain_cost`"
        ):
            cal.CostMatrix().expected_cost([0, 1], [0.1, 0.9], abstain=True)
        with pytest.raises(
            InvalidInputError, match="pass either `threshold` or `abstain`, not both"
        ):
            cal.CostMatrix(abstain_cost=0.1).expected_cost([0, 1], [0.1, 0.9], 0.5, abstain=True)


class TestPriorShift:
    def test_adjust_is_bayes_rule(self):
        out = cal.adjust_for_prior([0.0, 0.2, 0.9, 1.0], from_prior=0.5, to_prior=0.1)
        odds = np.array([0.2 / 0.8, 0.9 / 0.1]) * (0.1 / 0.9)
        assert out.tolist() == pytest.approx([0.0, *(odds / (1 + odds)), 1.0])

    def test_adjust_there_and_back(self):
        s = np.linspace(0, 1, 50)
        there = cal.adjust_for_prior(s, from_prior=0.3, to_prior=0.02)
        back = cal.adjust_for_prior(there, from_prior=0.02, to_prior=0.3)
        np.testing.assert_allclose(back, s, atol=1e-14)

    def test_weights_make_the_prevalence(self):
        y = np.array([1, 1, 1, 0])
        weights = cal.prior_shift_weights(y, to_prior=0.1)
        assert weights.sum() == pytest.approx(4.0)
        assert weights[y == 1].sum() / weights.sum() == pytest.approx(0.1)

    def test_weights_respect_existing_ones(self):
        y = np.array([1, 1, 0, 0])
        old = np.array([1.0, 3.0, 2.0, 0.0])
        weights = cal.prior_shift_weights(y, to_prior=0.25, sample_weight=old)
        assert weights.sum() == pytest.approx(old.sum())
        assert weights[:2].sum() / weights.sum() == pytest.approx(0.25)
        assert weights[1] / weights[0] == pytest.approx(3.0)

    def test_weighted_metrics_speak_for_the_other_prevalence(self):
        """Precision at the weights equals Bayes' projection; ROC-AUC does not move."""
        y = np.array([1, 1, 1, 0, 0, 1, 0, 0])
        s = np.array([0.9, 0.8, 0.4, 0.7, 0.3, 0.6, 0.2, 0.6])
        weights = cal.prior_shift_weights(y, to_prior=0.05)
        at = metrics.metrics_at_threshold(y, s, 0.5, sample_weight=weights)
        projected = metrics.precision_at_prior(y, s, 0.5, 0.05)
        assert at["precision"] == pytest.approx(projected["precision_at_assumed_prior"])
        weighted_auc = metrics.roc_auc(y, s, sample_weight=weights)
        assert weighted_auc == pytest.approx(metrics.roc_auc(y, s), abs=1e-14)

    def test_weights_need_both_classes(self):
        with pytest.raises(UndefinedMetricError, match="a prior shift is undefined"):
            cal.prior_shift_weights([1, 1], to_prior=0.1)
        with pytest.raises(UndefinedMetricError, match="a prior shift is undefined"):
            cal.prior_shift_weights([1, 0], to_prior=0.1, sample_weight=[1.0, 0.0])

    @pytest.mark.parametrize("bad", [0.0, 1.0, -1, np.nan])
    def test_priors_are_checked(self, bad):
        with pytest.raises(InvalidInputError, match="`to_prior`"):
            cal.prior_shift_weights([0, 1], to_prior=bad)
        with pytest.raises(InvalidInputError, match="`to_prior`"):
            cal.adjust_for_prior([0.5], from_prior=0.5, to_prior=bad)
        with pytest.raises(InvalidInputError, match="`from_prior`"):
            cal.adjust_for_prior([0.5], from_prior=bad, to_prior=0.5)
        with pytest.raises(InvalidInputError, match="`from_prior`"):
            cal.estimate_prior([0.5], from_prior=bad)

    def test_scores_are_checked(self):
        with pytest.raises(InvalidInputError, match=r"y_score\[1\] is 1.5"):
            cal.adjust_for_prior([0.5, 1.5], from_prior=0.5, to_prior=0.1)
        with pytest.raises(InvalidInputError, match=r"y_score\[0\] is -1.0"):
            cal.estimate_prior([-1.0], from_prior=0.5)


class TestEstimatePrior:
    def test_ends(self):
        assert cal.estimate_prior([0.1, 0.2], from_prior=0.5) == 0.0
        assert cal.estimate_prior([0.8, 0.9], from_prior=0.5) == 1.0

    def test_certain_scores_are_counted(self):
        assert cal.estimate_prior([1.0, 0.0, 0.0, 0.0], from_prior=0.5) == pytest.approx(0.25)
        assert cal.estimate_prior([1.0, 1.0], from_prior=0.5) == 1.0
        assert cal.estimate_prior([0.0, 0.0], from_prior=0.5) == 0.0

    def test_uninformative_scores_are_undefined(self):
        with pytest.raises(UndefinedMetricError, match="every score equals `from_prior`"):
            cal.estimate_prior([0.3, 0.3], from_prior=0.3)

    def test_recovers_the_share_of_a_shifted_population(self):
        rng = np.random.default_rng(11)
        y = rng.random(40_000) < 0.07
        x = rng.normal(1.5 * y)
        calibrated_at_half = 1 / (
            1 + np.exp(-(1.5 * x - 1.125))
        )  # log density ratio of the normals
        # Standard error of the share is about 0.003 here; the naive mean score is off by 0.2.
        assert cal.estimate_prior(calibrated_at_half, from_prior=0.5) == pytest.approx(
            0.07, abs=0.012
        )


class TestTies:
    Y, S = [0, 1, 1, 0] * 5, [0, 0, 1, 1] * 5

    def test_a_score_is_in_one_bin_of_equal_mass(self):
        curve = cal.reliability_curve(self.Y, self.S)
        assert curve["n_per_bin"] == [10, 10]
        assert (curve["prob_pred"], curve["prob_true"]) == ([0.0, 1.0], [0.5, 0.5])
        assert curve["bin_edges"] == [0.0, 1.0, 1.0]
        low, high = wilson_bounds(5, 10, 0.95)
        assert (curve["ci_low"], curve["ci_high"]) == ([low] * 2, [high] * 2)
        assert [row["n"] for row in cal.reliability_diagram_data(self.Y, self.S)] == [10, 10]

    def test_the_errors_are_those_of_the_metrics(self, sample):
        for y, s in ((self.Y, self.S), (sample[0], np.round(sample[1], 1))):
            curve = cal.reliability_curve(y, s)
            ece = metrics.expected_calibration_error_equal_mass(y, s, 10)
            assert curve["ece_equal_mass"] == ece
            gaps = np.abs(np.subtract(curve["prob_true"], curve["prob_pred"]))
            assert np.average(gaps, weights=curve["n_per_bin"]) == pytest.approx(ece)

    def test_bins_that_share_a_score_with_others_stay(self):
        y, s = [0, 1] * 4, [0.1, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.9]
        curve = cal.reliability_curve(y, s, n_bins=4)
        assert curve["n_per_bin"] == [2, 4, 2]
        assert (curve["bin_lower"], curve["bin_upper"]) == ([0.1, 0.2, 0.2], [0.2, 0.2, 0.9])


class TestRefusals:
    @pytest.mark.parametrize("label", [0, 1])
    def test_one_class_has_no_largest_gap_however_few_rows(self, label):
        assert cal.maximum_calibration_error([label] * 2, [0.1, 0.2]) is None
        with pytest.raises(InvalidInputError, match="`n_bins` is 1; it must be at least 2"):
            cal.maximum_calibration_error([label] * 2, [0.1, 0.2], n_bins=1)

    @pytest.mark.parametrize("bounds", [(5,), 5, (1, 2, 3)])
    def test_bounds_are_a_pair(self, bounds):
        with pytest.raises(InvalidInputError, match=r"`bounds` is .*; it must be a pair \(low, hi"):
            cal.fit_temperature_binary([0, 1], [0.2, 0.8], bounds=bounds)

    def test_logits_are_numbers(self):
        with pytest.raises(InvalidInputError, match=r"val_logits\[:, 0\]\[0\] is .*'a'.*numbers"):
            cal.fit_temperature([["a", "b"]], [0])
        with pytest.raises(
            InvalidInputError, match=r"`val_logits` must be of shape \(n, 2\), got r"
        ):
            cal.fit_temperature([[1.0, 2.0], [1.0]], [0, 1])
        with pytest.raises(InvalidInputError, match=r"val_logits\[:, 1\]\[0\] is inf"):
            cal.fit_temperature([[0.0, np.inf], [1.0, 1.0]], [0, 1])


@pytest.mark.parametrize("scale", [1e-12, 1e-200, 1e200])
def test_platt_follows_the_scale_of_the_scores(scale):
    y, s = [0, 0, 1, 0, 1, 1], np.array([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0])
    scaled = cal.fit_platt_calibrator(y, s * scale)
    assert scaled(s * scale) == pytest.approx(cal.fit_platt_calibrator(y, s)(s), rel=1e-9)


def test_a_constant_score_still_carries_nothing():
    fit = cal.fit_platt_calibrator([0, 1, 0, 1], [0.1 + 0.2] * 4)
    assert (fit.a, fit([5.0])[0]) == (0.0, pytest.approx(0.5))


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_groups_widen_intervals_as_clustered_rate_does(strategy):
    """Ten rows of each group have one label: each bin's interval is that of its clustered rows."""
    from eval_toolkit.inference import clustered_rate

    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(60), 10)
    labels, scores = rng.integers(0, 2, 60)[groups], rng.random(600)
    curve = cal.reliability_curve(labels, scores, n_bins=4, strategy=strategy, groups=groups)
    alone = cal.reliability_curve(labels, scores, n_bins=4, strategy=strategy)
    edges = zip(curve["bin_lower"], curve["bin_upper"], strict=True)
    for at, (low, high) in enumerate(edges):
        inside = (scores >= low) & (scores <= high)
        rate = clustered_rate(labels[inside] == 1, groups[inside])
        ends = (curve["ci_low"][at], curve["ci_high"][at])
        assert ends == pytest.approx((rate.low, rate.high), rel=1e-9)
        assert (
            curve["ci_low"][at] < alone["ci_low"][at] < alone["ci_high"][at] < curve["ci_high"][at]
        )
