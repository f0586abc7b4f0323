import numpy as np
import pytest

from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.inference.jackknife import jackknife_logit_ci, jackknife_se


def test_interval_says_what_it_is():
    ci = jackknife_logit_ci(0.8, [0.79, 0.81, 0.8], confidence=0.9)
    assert (ci.method, ci.n_resamples, ci.n_units) == ("jackknife-logit", 0, 3)
    assert ci.confidence == 0.9
    assert 0.0 < ci.ci_low < 0.8 < ci.ci_high < 1.0


def test_interval_is_symmetric_on_the_logit_scale():
    ci = jackknife_logit_ci(0.8, [0.75, 0.82, 0.83])
    logits = np.log(
        np.array([ci.ci_low, 0.8, ci.ci_high]) / (1 - np.array([ci.ci_low, 0.8, ci.ci_high]))
    )
    assert logits[2] - logits[1] == pytest.approx(logits[1] - logits[0])
    assert logits[2] - logits[1] == pytest.approx(
        1.959963984540054 * jackknife_se([0.75, 0.82, 0.83]) / 0.16
    )


def test_bounds_shift_and_scale_the_interval():
    values = np.array([0.75, 0.82, 0.83])
    unit = jackknife_logit_ci(0.8, values)
    mcc = jackknife_logit_ci(0.6, 2 * values - 1, bounds=(-1.0, 1.0))
    assert mcc.ci_low == pytest.approx(2 * unit.ci_low - 1)
    assert mcc.ci_high == pytest.approx(2 * unit.ci_high - 1)


def test_enormous_standard_errors_stay_inside_the_bounds():
    ci = jackknife_logit_ci(1e-9, [1.0, 0.0, 0.0])
    assert (ci.ci_low, ci.ci_high) == (0.0, 1.0)


def test_no_spread_is_a_point_with_a_reason():
    ci = jackknife_logit_ci(0.3, np.full(50_000, 0.1 + 0.2))
    assert ci.ci_low == ci.ci_high == 0.3
    assert "zero variance" in ci.reason


@pytest.mark.parametrize("point", [0.0, 1.0])
def test_a_point_at_the_bound_has_no_logit(point):
    with pytest.raises(UndefinedMetricError, match=f"`point` is {point:g}, a bound"):
        jackknife_logit_ci(point, [0.5, 0.6])


def test_bad_input_is_named():
    with pytest.raises(InvalidInputError, match=r"`point` is 1.2; it must lie in \[0, 1\]"):
        jackknife_logit_ci(1.2, [0.5, 0.6])
    with pytest.raises(InvalidInputError, match=r"`bounds` is .*two increasing numbers"):
        jackknife_logit_ci(0.5, [0.5, 0.6], bounds=(1.0, 0.0))
    with pytest.raises(InvalidInputError, match=r"`bounds` is .*two increasing numbers"):
        jackknife_logit_ci(0.5, [0.5, 0.6], bounds=(0.0, 0.5, 1.0))
    with pytest.raises(UndefinedMetricError, match="`leave_one_out_values` has one value"):
        jackknife_se([0.5])
