"""No threshold does better than the selected one: brute force over every distinct score."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from eval_toolkit import thresholds as th
from eval_toolkit.calibration import CostMatrix
from eval_toolkit.errors import InfeasibleError
from eval_toolkit.metrics import metrics_at_threshold

rates = st.integers(0, 20).map(lambda k: k / 20)
targets = st.integers(1, 20).map(lambda k: k / 20)


@st.composite
def labelled_scores(draw):
    """Two classes, few distinct scores: ties everywhere."""
    n = draw(st.integers(2, 25))
    y = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    assume(0 < sum(y) < n)
    levels = draw(st.sampled_from([2, 4, 30]))
    s = draw(st.lists(st.integers(0, levels), min_size=n, max_size=n))
    return np.array(y), np.array(s) / 30


def every_threshold(y, s):
    return [metrics_at_threshold(y, s, float(t)) for t in np.unique(s)]


def chosen(selector, y, s, feasible):
    """The selected point, which exists exactly when the brute force finds a feasible one."""
    if not feasible:
        with pytest.raises(InfeasibleError):
            selector.select(y, s)
        return None
    result = selector.select(y, s)
    at = metrics_at_threshold(y, s, result.threshold)
    assert (result.f1, result.precision, result.recall) == (at["f1"], at["precision"], at["recall"])
    assert result.threshold in [point["threshold"] for point in feasible]
    return at


def most_recall_then_fewest_alarms(point):
    """The order of preference among points within a limit."""
    return -point["recall"], point["fpr"], -point["threshold"]


@given(labelled_scores())
def test_max_f1(data):
    points = every_threshold(*data)
    at = chosen(th.MaxF1Selector(), *data, points)
    best = max(point["f1"] for point in points)
    assert at["f1"] == best
    assert at["threshold"] == min(p["threshold"] for p in points if p["f1"] == best)


@given(labelled_scores(), targets)
def test_target_recall(data, target):
    feasible = [p for p in every_threshold(*data) if p["recall"] >= target]
    at = chosen(th.TargetRecallSelector(target), *data, feasible)
    assert at["threshold"] == max(p["threshold"] for p in feasible)
    assert at["fpr"] == min(p["fpr"] for p in feasible)


@given(labelled_scores(), targets)
def test_target_precision(data, target):
    feasible = [p for p in every_threshold(*data) if p["precision"] >= target]
    at = chosen(th.TargetPrecisionSelector(target), *data, feasible)
    if at is not None:
        assert at == min(feasible, key=most_recall_then_fewest_alarms)


@given(labelled_scores(), rates)
def test_target_fpr(data, target):
    feasible = [p for p in every_threshold(*data) if p["fpr"] <= target]
    at = chosen(th.TargetFPRSelector(target), *data, feasible)
    if at is not None:
        assert at == min(feasible, key=most_recall_then_fewest_alarms)


@given(labelled_scores())
def test_youden_j(data):
    points = every_threshold(*data)
    at = chosen(th.YoudenJSelector(), *data, points)
    n_positive, n_negative = at["tp"] + at["fn"], at["fp"] + at["tn"]

    def scaled_j(point):
        return point["tp"] * n_negative - point["fp"] * n_positive

    best = max(map(scaled_j, points))
    assert scaled_j(at) == best
    assert at["threshold"] == max(p["threshold"] for p in points if scaled_j(p) == best)


@given(labelled_scores(), st.sampled_from([0.05, 0.3, 0.5, 0.9]))
def test_cost_sensitive_ignores_the_data(data, prior):
    costs = CostMatrix(prior=prior, fp_cost=2.0, fn_cost=3.0)
    assert th.CostSensitiveSelector(costs).select(*data).threshold == costs.bayes_threshold


@given(
    labelled_scores(),
    st.fixed_dictionaries(
        {},
        optional={
            "max_fpr": rates,
            "max_fpr_ci_upper": rates,
            "min_recall": rates,
            "min_recall_ci_lower": rates,
        },
    ).filter(bool),
)
def test_ci_safe(data, limits):
    y, s = data
    n_positive, n_negative = int(y.sum()), int(len(y) - y.sum())

    def fpr_upper(point):
        return th.wilson_interval(point["fp"], n_negative).high

    def feasible_point(point):
        return (
            point["fpr"] <= limits.get("max_fpr", 1.0)
            and fpr_upper(point) <= limits.get("max_fpr_ci_upper", 1.0)
            and point["recall"] >= limits.get("min_recall", 0.0)
            and th.wilson_interval(point["tp"], n_positive).low
            >= limits.get("min_recall_ci_lower", 0.0)
        )

    points = every_threshold(y, s)
    feasible = [point for point in points if feasible_point(point)]
    selector = th.CISafeThresholdSelector(**limits)
    accepted = [r["threshold"] for r in selector.candidate_records(y, s) if r["accepted"]]
    assert sorted(accepted) == [point["threshold"] for point in feasible]
    at = chosen(selector, y, s, feasible)
    if at is not None:
        # The whole order of preference, spelt out.
        best = min(feasible, key=lambda p: (-p["recall"], fpr_upper(p), p["fpr"], -p["threshold"]))
        assert at == best


@given(labelled_scores(), rates)
def test_target_fpr_never_has_less_recall_than_recall_at_fpr(data, target):
    at_fpr = th.recall_at_fpr(*data, target)
    try:
        selected = th.TargetFPRSelector(target).select(*data)
    except InfeasibleError:
        assert at_fpr.threshold == np.inf
    else:
        assert selected.recall == at_fpr.recall
