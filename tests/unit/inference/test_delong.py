import json

import numpy as np
import pytest

from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.inference import paired_bootstrap_diff
from eval_toolkit.inference.delong import delong_ci, delong_roc_variance
from eval_toolkit.inference.intervals import exact_at_bound
from eval_toolkit.inference.proportions import wilson_interval
from eval_toolkit.metrics import roc_auc

Y = np.array([0, 0, 0, 0, 1, 1, 1, 1])
WORSE = np.array([1, 2, 5, 6, 3, 4, 7, 8])
BETTER = np.array([1, 2, 3, 5, 4, 6, 7, 8])


def test_difference_is_b_minus_a():
    result = delong_roc_variance(Y, WORSE, BETTER)
    assert result.auc_a == 0.75
    assert result.auc_b == 0.9375
    assert result.delta_auc == result.auc_b - result.auc_a > 0
    assert result.z > 0
    assert result.ci_low < result.delta_auc < result.ci_high
    swapped = delong_roc_variance(Y, BETTER, WORSE)
    assert swapped.delta_auc == -result.delta_auc
    assert swapped.z == -result.z
    assert swapped.p_value == result.p_value
    assert (swapped.ci_low, swapped.ci_high) == (-result.ci_high, -result.ci_low)


def test_confidence_widens_the_interval():
    narrow = delong_roc_variance(Y, WORSE, BETTER, confidence=0.5)
    wide = delong_roc_variance(Y, WORSE, BETTER, confidence=0.99)
    assert wide.ci_low < narrow.ci_low < narrow.ci_high < wide.ci_high


@pytest.mark.parametrize("other", [WORSE, 10.0 * WORSE - 3, np.exp(WORSE)])
def test_same_ranking_has_no_variance(other):
    result = delong_roc_variance(Y, WORSE, other)
    assert result.var == 0.0
    assert result.z is None
    assert result.p_value is None
    assert result.delta_auc == 0.0
    # Each of two AUCs may be off by what four rows of a class do not show: 1 − 0.025^(1/4).
    reach = np.sqrt(2.0) * (1.0 - 0.025 ** (1 / 4))
    assert (result.ci_low, result.ci_high) == pytest.approx((-reach, reach))
    assert "zero variance" in result.reason
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False))["z"] is None


def test_perfect_against_perfectly_wrong_has_no_variance_either():
    result = delong_roc_variance(Y, -Y, Y)
    assert (result.delta_auc, result.z) == (1.0, None)


def test_counts_are_reported():
    result = delong_roc_variance([0, 0, 0, 1, 1], [1, 2, 3, 2, 4], [1, 2, 3, 4, 2])
    assert (result.n_positive, result.n_negative) == (2, 3)
    assert result.to_dict()["n_negative"] == 3
    assert "reason" not in result.to_dict()


@pytest.mark.parametrize("kind", [bool, int, float, np.int8])
def test_labels_of_any_type(kind):
    assert delong_ci(Y.astype(kind), WORSE) == delong_ci(Y, WORSE)


def test_large_offset_keeps_ties_apart():
    """Ranks, not differences: scores that differ in the last bit are different."""
    base = 1e15
    assert delong_ci(Y, base + WORSE) == delong_ci(Y, WORSE)


def test_interval_methods():
    logit, plain = delong_ci(Y, WORSE), delong_ci(Y, WORSE, transform="none")
    assert (logit.method, plain.method) == ("delong-logit", "delong")
    assert logit.n_resamples == plain.n_resamples == 0
    assert logit.n_units == 8
    assert 0.0 < logit.ci_low < 0.75 < logit.ci_high < 1.0
    assert plain.ci_high == 1.0  # clipped


def test_perfect_separation_has_the_exact_interval():
    y, s = [0] * 30 + [1] * 12, np.arange(42)
    ci = delong_ci(y, s)
    assert ci.method == "exact-degenerate"
    assert (ci.point_estimate, ci.ci_high) == (1.0, 1.0)
    assert ci.ci_low == pytest.approx(0.025 ** (1 / 12))
    mirrored = delong_ci(y, -s, transform="none", confidence=0.9)
    assert (mirrored.point_estimate, mirrored.ci_low) == (0.0, 0.0)
    assert mirrored.ci_high == pytest.approx(1 - 0.05 ** (1 / 12))


def test_constant_scores_have_the_width_of_the_smaller_class():
    ci = delong_ci(Y, np.ones(8))
    half = wilson_interval(2, 4)  # four rows of each class, half of them above chance
    assert (ci.point_estimate, ci.ci_low, ci.ci_high) == (0.5, half.low, half.high)
    assert ci.reason == "zero variance: all scores are equal"


def test_one_row_of_a_class():
    with pytest.raises(UndefinedMetricError, match="two rows of each class, got 1 positive and 3"):
        delong_roc_variance([0, 0, 0, 1], [1, 2, 4, 3], [1, 2, 3, 4])
    with pytest.raises(UndefinedMetricError, match="got 1 positive and 3 negative"):
        delong_ci([0, 0, 0, 1], [1, 2, 4, 3])
    assert delong_ci([0, 0, 0, 1], [1, 2, 3, 4]).ci_low == pytest.approx(0.025)


@pytest.mark.parametrize("label", [0, 1])
def test_one_class_is_undefined(label):
    with pytest.raises(UndefinedMetricError, match="needs both classes"):
        delong_ci([label] * 4, [1, 2, 3, 4])
    with pytest.raises(UndefinedMetricError, match="needs both classes"):
        delong_roc_variance([label] * 4, [1, 2, 3, 4], [1, 2, 3, 4])


def test_bad_input_is_named():
    with pytest.raises(InvalidInputError, match=r"y_score_b\[2\] is nan"):
        delong_roc_variance([0, 1, 1], [1, 2, 3], [1, 2, np.nan])
    with pytest.raises(InvalidInputError, match=r"y_true\[0\] is 2; labels must be 0 or 1"):
        delong_ci([2, 1, 1], [1, 2, 3])
    with pytest.raises(InvalidInputError, match="`y_true` has 3 rows but `y_score_b` has 2"):
        delong_roc_variance([0, 1, 1], [1, 2, 3], [1, 2])
    with pytest.raises(InvalidInputError, match="`transform` is 'probit'"):
        delong_ci(Y, WORSE, transform="probit")


@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_the_exact_interval_is_that_of_every_other_estimate_at_its_bound(confidence):
    y = [0] * 4 + [1] * 3
    for auc, scores in ((1.0, y), (0.0, [1 - label for label in y])):
        ci = delong_ci(y, scores, confidence=confidence)
        assert (ci.ci_low, ci.ci_high) == exact_at_bound(auc, (0.0, 1.0), 3, confidence)


def test_delong_and_the_paired_bootstrap_have_one_sign():
    """Both differences are B − A: positive when B is better."""
    y = np.arange(200) % 2
    worse = np.random.default_rng(1).normal(0.5 * y)
    better = np.random.default_rng(2).normal(2.0 * y)
    delong = delong_roc_variance(y, worse, better)
    bootstrap = paired_bootstrap_diff(y, worse, better, roc_auc)
    assert delong.delta_auc == pytest.approx(bootstrap.delta)
    assert delong.delta_auc > 0
    assert delong.ci_low > 0
    assert bootstrap.ci_low > 0
    assert (delong.ci_low, delong.ci_high) == pytest.approx(
        (bootstrap.ci_low, bootstrap.ci_high), abs=0.02
    )
