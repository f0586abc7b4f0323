import json

import numpy as np
import pytest
from tests.support.each import each
from tests.support.ending import must_end

from eval_toolkit.errors import InvalidInputError, InvalidTypeError, UndefinedMetricError
from eval_toolkit.inference.sequences import METHODS, ConfidenceSequence, confidence_sequence


def tossed(n, p=0.6, seed=0):
    return (np.random.default_rng(seed).random(n) < p).astype(float)


class TestIntervals:
    @pytest.mark.parametrize("method", METHODS)
    def test_it_narrows_around_the_mean(self, method):
        lower, upper = confidence_sequence(tossed(2000), method=method)
        assert (upper - lower)[[9, 99, 1999]].tolist() == sorted((upper - lower)[[9, 99, 1999]])[
            ::-1
        ]
        assert lower[-1] < 0.6 < upper[-1]
        assert upper[-1] - lower[-1] < 0.11

    @pytest.mark.parametrize("method", METHODS)
    def test_it_closes_on_the_mean_of_all_when_all_are_there(self, method):
        values = tossed(300)
        lower, upper = confidence_sequence(values, method=method, n_total=300)
        assert lower[-1] == pytest.approx(values.mean(), abs=1e-12)
        assert upper[-1] == pytest.approx(values.mean(), abs=1e-12)
        assert upper[-2] > lower[-2]

    @pytest.mark.parametrize("method", METHODS)
    def test_a_finite_whole_is_known_better(self, method):
        values = tossed(500)
        wide = np.subtract(*confidence_sequence(values, method=method)[::-1])
        narrow = np.subtract(*confidence_sequence(values, method=method, n_total=600)[::-1])
        assert narrow[-1] < 0.7 * wide[-1]

    def test_what_is_certain_is_inside_the_interval(self):
        """After k of N values the mean of all lies between S/N and (S + N − k)/N."""
        lower, upper = confidence_sequence([1.0, 1.0, 1.0], n_total=4)
        assert lower[-1] == pytest.approx(0.75)
        assert upper[-1] == 1.0

    @pytest.mark.parametrize("method", METHODS)
    def test_bounds_scale_the_interval(self, method):
        values = tossed(400)
        lower, upper = confidence_sequence(values, method=method)
        low, high = confidence_sequence(10.0 * values - 5.0, bounds=(-5.0, 5.0), method=method)
        np.testing.assert_allclose(low, 10.0 * lower - 5.0, atol=1e-9)
        np.testing.assert_allclose(high, 10.0 * upper - 5.0, atol=1e-9)

    @pytest.mark.parametrize("method", METHODS)
    def test_more_confidence_is_wider(self, method):
        values = tossed(200)
        low, high = confidence_sequence(values, method=method, confidence=0.99)
        lower, upper = confidence_sequence(values, method=method, confidence=0.9)
        assert high[-1] - low[-1] > upper[-1] - lower[-1]

    def test_betting_follows_the_spread(self):
        """Differences that are mostly 0 are known better than right or wrong."""
        rng = np.random.default_rng(2)
        rare = rng.choice([-1.0, 0.0, 1.0], 1000, p=[0.03, 0.94, 0.03])
        often = rng.choice([-1.0, 1.0], 1000)
        widths = [
            np.subtract(*confidence_sequence(values, bounds=(-1.0, 1.0))[::-1])[-1]
            for values in (rare, often)
        ]
        assert widths[0] < 0.35 * widths[1]

    def test_betting_is_the_narrowest_of_many_and_beta_binomial_of_few(self):
        width = {
            method: np.subtract(*confidence_sequence(tossed(5000, 0.5), method=method)[::-1])
            for method in METHODS
        }
        assert width["betting"][-1] < 0.9 * width["beta-binomial"][-1]
        assert width["betting"][-1] < 0.7 * width["empirical-bernstein"][-1]
        assert width["beta-binomial"][29] < width["betting"][29]

    def test_ten_thousand_looks_are_cheap(self):
        with must_end(60.0):  # 0.16 s; an hour if each look started over
            confidence_sequence(tossed(10_000))


class TestUpdates:
    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("n_total", [None, 400])
    def test_cuts_change_no_bit(self, method, n_total):
        values = tossed(350, 0.8)
        whole = ConfidenceSequence(method=method, n_total=n_total)
        lower, upper = whole.update(values)
        cut = ConfidenceSequence(method=method, n_total=n_total)
        parts = [cut.update(part) for part in np.split(values, [1, 7, 90, 91, 300])]
        assert np.concatenate([low for low, _ in parts]).tolist() == lower.tolist()
        assert np.concatenate([high for _, high in parts]).tolist() == upper.tolist()
        assert cut.interval == whole.interval

    def test_the_interval_says_what_it_is(self):
        sequence = ConfidenceSequence(confidence=0.9)
        sequence.update([1, 1, 0, 1])
        found = sequence.interval
        assert (found.point_estimate, found.confidence, found.n_units) == (0.75, 0.9, 4)
        assert (found.method, found.n_resamples, found.reason) == ("betting sequence", 0, "")
        assert (found.ci_low, found.ci_high) == (sequence.low, sequence.high)
        json.dumps(found.to_dict(), allow_nan=False)

    def test_nothing_is_known_before_the_first_value(self):
        sequence = ConfidenceSequence(bounds=(-1.0, 1.0))
        assert (sequence.low, sequence.high, sequence.n) == (-1.0, 1.0, 0)
        with pytest.raises(
            UndefinedMetricError, match="the interval is undefined: there are no values yet"
        ):
            _ = sequence.interval

    @pytest.mark.parametrize("method", METHODS)
    def test_values_in_no_random_order_are_noticed(self, method):
        sequence = ConfidenceSequence(method=method)
        sequence.update([0] * 400)
        assert sequence.high < 0.05
        sequence.update([1] * 400)
        assert (sequence.low, sequence.high) == (0.0, 1.0)
        assert "random order" in sequence.interval.reason

    def test_the_end_of_a_large_whole_is_no_contradiction(self):
        """One in 20 001 is less than the step between candidate means."""
        sequence = ConfidenceSequence(n_total=20_001)
        sequence.update(tossed(20_001))
        assert sequence.interval.reason == ""

    def test_running_keeps_out_what_was_out(self):
        values = np.concatenate([tossed(300, 0.7), tossed(300, 0.5)])
        kept = confidence_sequence(values)
        each = confidence_sequence(values, running=False)
        np.testing.assert_array_equal(kept[0], np.maximum.accumulate(each[0]))
        np.testing.assert_array_equal(kept[1], np.minimum.accumulate(each[1]))
        assert each[0].max() > each[0][-1]


class TestMistakes:
    @each(
        ("options", "values", "message"),
        [
            ({}, [0.5, 1.2], r"values\[1\] is 1.2; it must lie within the bounds, 0 and 1"),
            ({}, [], "`values` is empty"),
            ({}, [float("nan")], "must be finite"),
            ({"method": "beta-binomial"}, [1, 0.5], "beta-binomial.*use 'betting'"),
            ({"n_total": 2}, [1, 1, 0], "there are now 3 `values`, but `n_total` is 2"),
            ({"bounds": (1.0, 1.0)}, [1], "the first must be below the second"),
            ({"bounds": (0.0, float("inf"))}, [1], r"`bounds\[1\]`"),
            ({"method": "wilson"}, [1], "choose one of 'betting'"),
            ({"confidence": 1.0}, [1], "`confidence`"),
            ({"n_total": 0}, [1], "`n_total`"),
        ],
    )
    def test_it_is_said_which(self, options, values, message):
        with pytest.raises(InvalidInputError, match=message):
            confidence_sequence(values, **options)

    def test_bounds_are_two_numbers(self):
        with pytest.raises(InvalidTypeError, match="`bounds` is"):
            ConfidenceSequence(bounds=1.0)

    def test_an_update_that_is_refused_adds_nothing(self):
        sequence = ConfidenceSequence()
        with pytest.raises(InvalidInputError):
            sequence.update([1, 0, 7])
        assert sequence.n == 0

    def test_rounding_is_no_mistake(self):
        near, exact = confidence_sequence([1.0 + 1e-12, -1e-12]), confidence_sequence([1.0, 0.0])
        assert np.array_equal(near, exact)
