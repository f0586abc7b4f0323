"""Selectors: choices by hand, labels, messages, and upstream's mistakes shown right."""

import json

import numpy as np
import pytest
from sklearn.metrics import roc_curve
from tests.support.each import each

from eval_toolkit import thresholds as th
from eval_toolkit.calibration import CostMatrix
from eval_toolkit.errors import (
    InfeasibleError,
    InvalidInputError,
    InvalidTypeError,
    UndefinedMetricError,
)
from eval_toolkit.metrics import metrics_at_threshold

#                 ┌ thresholds 0.9  0.8  0.7(tied)   0.4  0.2
Y = np.array([1, 0, 1, 1, 0, 0, 1, 0])
S = np.array([0.9, 0.8, 0.7, 0.7, 0.7, 0.4, 0.4, 0.2])
# thr   tp fp  recall  fpr   precision  f1
# 0.9   1  0   .25     0     1          .4
# 0.8   1  1   .25     .25   1/2        1/3
# 0.7   3  2   .75     .5    3/5        2/3
# 0.4   4  3   1       .75   4/7        8/11
# 0.2   4  4   1       1     1/2        2/3

ALL_SELECTORS = [
    th.MaxF1Selector(),
    th.TargetRecallSelector(0.9),
    th.TargetPrecisionSelector(0.3),
    th.TargetFPRSelector(1.0),
    th.YoudenJSelector(),
    th.CostSensitiveSelector(CostMatrix(prior=0.5)),
    th.CISafeThresholdSelector(max_fpr=1.0),
]


class TestChoices:
    @each(
        ("selector", "threshold"),
        [
            (th.MaxF1Selector(), 0.4),
            (th.TargetRecallSelector(0.25), 0.9),
            (th.TargetRecallSelector(0.26), 0.7),
            (th.TargetRecallSelector(0.75), 0.7),
            (th.TargetRecallSelector(1.0), 0.4),
            (th.TargetPrecisionSelector(0.5), 0.4),  # 0.2 adds a false alarm and no recall
            (th.TargetPrecisionSelector(0.55), 0.4),
            (th.TargetPrecisionSelector(0.6), 0.7),  # 3/5 is the same float as 0.6
            (th.TargetPrecisionSelector(0.9), 0.9),
            (th.TargetFPRSelector(0.0), 0.9),
            (th.TargetFPRSelector(0.25), 0.9),  # 0.8 too
            (th.TargetFPRSelector(0.5), 0.7),
            (th.TargetFPRSelector(1.0), 0.4),
            (th.YoudenJSelector(), 0.9),  # J = 0.25 at 0.9, 0.7 and 0.4: the highest
            (th.CISafeThresholdSelector(max_fpr=0.8), 0.4),
            (th.CISafeThresholdSelector(min_recall=0.2, max_fpr=0.25), 0.9),
        ],
    )
    def test_by_hand(self, selector, threshold):
        result = selector.select(Y, S)
        assert result.threshold == threshold
        assert result.criterion == selector.criterion
        at = metrics_at_threshold(Y, S, threshold)
        for name in ("f1", "precision", "recall"):
            assert getattr(result, name) == at[name]

    @pytest.mark.parametrize("selector", ALL_SELECTORS)
    def test_no_threshold_has_the_same_recall_with_fewer_false_alarms(self, selector):
        """Scores 0.3 and 0.1 belong to negatives alone: a threshold there only adds alarms."""
        y, s = [1, 0, 1, 0, 1, 0, 0], [0.9, 0.8, 0.7, 0.6, 0.5, 0.3, 0.1]
        if isinstance(selector, th.CostSensitiveSelector):
            return  # its threshold is no choice among the scores
        at = metrics_at_threshold(y, s, selector.select(y, s).threshold)
        others = [metrics_at_threshold(y, s, threshold) for threshold in s]
        assert not [
            one for one in others if one["recall"] == at["recall"] and one["fpr"] < at["fpr"]
        ]

    def test_max_f1_takes_the_lowest_of_tied_thresholds(self):
        # F1 is 2/3 at 0.9 (1 of 2 found, none wrong) and at 0.1 (2 found, 2 wrong).
        assert th.MaxF1Selector().select([1, 0, 0, 1], [0.9, 0.5, 0.4, 0.1]).threshold == 0.1

    @pytest.mark.parametrize("selector", ALL_SELECTORS)
    def test_constant_scores_do_not_raise(self, selector):
        result = selector.select([0, 1, 0, 1], [0.5] * 4)
        assert result.recall == 1.0

    @pytest.mark.parametrize("selector", ALL_SELECTORS)
    def test_raw_scores_of_any_scale_are_fine(self, selector):
        shifted = selector.select(Y, 100.0 * S - 50.0)
        if not isinstance(selector, th.CostSensitiveSelector):
            assert shifted.threshold == pytest.approx(
                100.0 * selector.select(Y, S).threshold - 50.0
            )

    @pytest.mark.parametrize("selector", ALL_SELECTORS)
    def test_is_a_selector(self, selector):
        assert isinstance(selector, th.ThresholdSelector)
        assert hash(selector) == hash(selector)

    @pytest.mark.parametrize("selector", [s for s in ALL_SELECTORS if "cost" not in s.criterion])
    def test_one_class_is_undefined(self, selector):
        message = f"threshold selection by {selector.criterion} is undefined: all 2 rows are neg"
        with pytest.raises(UndefinedMetricError, match=message):
            selector.select([0, 0], [0.1, 0.2])


class TestCostSensitive:
    def test_data_do_not_move_the_threshold(self):
        selector = th.CostSensitiveSelector(CostMatrix(prior=0.5, fp_cost=3.0, fn_cost=1.0))
        assert selector.select(Y, S).threshold == 0.75
        assert selector.select([0, 0], [0.1, 0.2]).threshold == 0.75

    def test_reports_on_the_data(self):
        result = th.CostSensitiveSelector(CostMatrix(prior=0.5, fp_cost=3, fn_cost=1)).select(Y, S)
        assert (result.precision, result.recall, result.f1) == (0.5, 0.25, 1 / 3)

    def test_labels_name_every_figure(self):
        label = th.CostSensitiveSelector(CostMatrix()).criterion
        assert label == "cost_sensitive_prior=0.01_fp=1.0_fn=10.0"
        other = th.CostSensitiveSelector(CostMatrix(score_prior=0.01)).criterion
        assert other == label + "_score_prior=0.01"

    def test_needs_a_cost_matrix(self):
        with pytest.raises(InvalidTypeError, match=r"`cost_matrix` must be a CostMatrix, got 0.5"):
            th.CostSensitiveSelector(0.5)


class TestLabels:
    """rows.md §21.2 no. 10: two decimals made different targets share a label."""

    @each(
        ("selector", "label"),
        [
            (th.TargetRecallSelector(0.9), "recall_0.90"),
            (th.TargetRecallSelector(1), "recall_1.00"),
            (th.TargetPrecisionSelector(0.95), "precision_0.95"),
            (th.TargetFPRSelector(0.05), "fpr_0.05"),
            (th.TargetFPRSelector(0), "fpr_0.00"),
            (th.TargetFPRSelector(0.001), "fpr_0.001"),
            (th.TargetFPRSelector(0.004), "fpr_0.004"),
            (th.TargetFPRSelector(1e-7), "fpr_0.0000001"),
            (th.TargetRecallSelector(0.999), "recall_0.999"),
        ],
    )
    def test_two_decimals_and_more_when_needed(self, selector, label):
        assert selector.criterion == label

    def test_different_targets_never_share_a_label(self):
        targets = [*np.linspace(0.0, 0.05, 501), 1 / 3, np.nextafter(1 / 3, 1)]
        assert len({th.TargetFPRSelector(t).criterion for t in targets}) == len(set(targets))


class TestConstruction:
    @pytest.mark.parametrize("kind", [th.TargetRecallSelector, th.TargetPrecisionSelector])
    @pytest.mark.parametrize("target", [0.0, 1.1, -0.5, np.nan])
    def test_recall_and_precision_lie_above_zero(self, kind, target):
        with pytest.raises(InvalidInputError, match=r"it must lie in \(0, 1\]"):
            kind(target)

    @pytest.mark.parametrize("target", [-0.01, 1.1, np.inf])
    def test_fpr_lies_in_the_unit_interval(self, target):
        with pytest.raises(InvalidInputError, match=r"`fpr` is .*; it must lie in \[0, 1\]"):
            th.TargetFPRSelector(target)

    def test_a_target_must_be_a_number(self):
        with pytest.raises(InvalidTypeError, match="`recall` must be a number"):
            th.TargetRecallSelector("high")


class TestInfeasible:
    def test_precision(self):
        y, s = [0, 1, 0], [0.9, 0.8, 0.1]
        message = "no threshold reaches precision 0.9; the highest is 0.5, at threshold 0.8"
        with pytest.raises(InfeasibleError, match=message):
            th.TargetPrecisionSelector(0.9).select(y, s)
        with pytest.raises(RuntimeError):
            th.TargetPrecisionSelector(0.9).select(y, s)

    def test_fpr(self):
        message = r"within 0.1: the highest score, 0.9, is shared by 1 of 2 negatives"
        with pytest.raises(InfeasibleError, match=message):
            th.TargetFPRSelector(0.1).select([0, 1, 0], [0.9, 0.8, 0.1])

    def test_ci_safe_counts_what_was_broken(self):
        selector = th.CISafeThresholdSelector(max_fpr=0.2, min_recall=0.9)
        message = (
            r"none of 5 thresholds meets max_fpr=0.2, min_recall=0.9 "
            r"\(fpr_exceeds_max: 4, recall_below_min: 3\)"
        )
        with pytest.raises(InfeasibleError, match=message):
            selector.select(Y, S)


class TestTiedScoresOnTheRocCurve:
    """rows.md §21.2 no. 9: a thinned ROC curve loses the best feasible threshold."""

    def test_collinear_points_are_candidates(self):
        # Each distinct score adds one positive and one negative: all ROC points lie on one line,
        # of which scikit-learn's default curve drops the inner ones.
        y = [1, 0, 1, 0, 1, 0, 1, 0]
        s = [4, 4, 3, 3, 2, 2, 1, 1]
        fpr, tpr, _ = roc_curve(y, s)
        assert tpr[fpr <= 0.5].max() == 0.25
        result = th.TargetFPRSelector(0.5).select(y, s)
        assert (result.threshold, result.recall) == (3.0, 0.5)


class TestCISafe:
    SELECTOR = th.CISafeThresholdSelector(max_fpr_ci_upper=0.75, min_recall_ci_lower=0.04)

    def test_needs_a_limit(self):
        with pytest.raises(InvalidInputError, match="pass at least one limit: max_fpr"):
            th.CISafeThresholdSelector()

    @pytest.mark.parametrize(
        "name", ["max_fpr", "max_fpr_ci_upper", "min_recall", "min_recall_ci_lower"]
    )
    def test_limits_lie_in_the_unit_interval(self, name):
        with pytest.raises(InvalidInputError, match=f"`{name}` is 1.5"):
            th.CISafeThresholdSelector(**{name: 1.5})

    def test_confidence_is_checked(self):
        with pytest.raises(InvalidInputError, match="`confidence`"):
            th.CISafeThresholdSelector(max_fpr=0.1, confidence=1.0)

    def test_constraints_are_those_given(self):
        assert self.SELECTOR.constraints == {"max_fpr_ci_upper": 0.75, "min_recall_ci_lower": 0.04}
        assert th.CISafeThresholdSelector(max_fpr=0.0).constraints == {"max_fpr": 0.0}

    def test_records_agree_with_metrics_and_wilson(self):
        records = self.SELECTOR.candidate_records(Y, S)
        assert [record["threshold"] for record in records] == [0.9, 0.8, 0.7, 0.4, 0.2]
        for record in records:
            at = metrics_at_threshold(Y, S, record["threshold"])
            for name in ("fpr", "recall", "precision", "f1", "tp", "fp", "tn", "fn"):
                assert record[name] == at[name], name
            wilson = th.wilson_interval(at["fp"], 4)
            assert (record["fpr_ci_low"], record["fpr_ci_high"]) == (wilson.low, wilson.high)
            wilson = th.wilson_interval(at["tp"], 4)
            assert (record["recall_ci_low"], record["recall_ci_high"]) == (wilson.low, wilson.high)
            assert record["confidence"] == 0.95
            assert record["accepted"] is (not record["rejection_reasons"])

    def test_rejection_reasons(self):
        selector = th.CISafeThresholdSelector(
            max_fpr=0.3, max_fpr_ci_upper=0.75, min_recall=0.5, min_recall_ci_lower=0.2
        )
        reasons = [record["rejection_reasons"] for record in selector.candidate_records(Y, S)]
        low = ["recall_below_min", "recall_ci_lower_below_min"]
        high = ["fpr_exceeds_max", "fpr_ci_upper_exceeds_max"]
        # Wilson's bounds for 1 of 4: 0.046 and 0.699; for 2 of 4: 0.150 and 0.850.
        assert reasons == [low, low, high, high, high]

    def test_selects_the_most_recall_with_the_fewest_false_positives(self):
        # 0.9 and 0.8 both find one positive; 0.8 adds a false positive for nothing.
        assert self.SELECTOR.select(Y, S).threshold == 0.9

    def test_a_stricter_bound_than_the_rate(self):
        y = np.repeat([0, 1], 100)
        s = np.concatenate([np.linspace(0, 0.6, 100), np.linspace(0.4, 1, 100)])
        by_rate = th.CISafeThresholdSelector(max_fpr=0.05).select(y, s)
        by_bound = th.CISafeThresholdSelector(max_fpr_ci_upper=0.05).select(y, s)
        assert by_bound.threshold > by_rate.threshold
        assert by_bound.recall < by_rate.recall

    def test_selected_operating_point(self):
        selector = th.CISafeThresholdSelector(max_fpr=0.6, metadata={"owner": "risk"})
        point = selector.selected_operating_point(Y, S)
        assert point["threshold"] == selector.select(Y, S).threshold == 0.7
        assert point["accepted"] is True
        assert point["criterion"] == "ci_safe"
        assert point["constraints"] == {"max_fpr": 0.6}
        assert point["metadata"] == {"owner": "risk"}
        assert "bootstrap" not in point
        assert json.loads(json.dumps(point, allow_nan=False)) == point

    def test_bootstrap_of_the_selected_point(self):
        rng = np.random.default_rng(8)
        y = rng.integers(0, 2, 400)
        s = rng.normal(y, 1.0)
        selector = th.CISafeThresholdSelector(max_fpr=0.2, confidence=0.9)
        point = selector.selected_operating_point(
            y, s, bootstrap_selected=True, n_resamples=400, seed=7
        )
        for name in ("recall", "fpr"):
            interval = point["bootstrap"][name]
            assert interval["point_estimate"] == point[name]
            assert (interval["confidence"], interval["n_resamples"]) == (0.9, 400)
            # On 200 rows of a class both intervals are close to Wilson's, and none is Wilson's.
            assert interval["ci_low"] == pytest.approx(point[f"{name}_ci_low"], abs=0.02)
            assert interval["ci_high"] == pytest.approx(point[f"{name}_ci_high"], abs=0.02)
            assert interval["method"] == "BCa"
        assert json.loads(json.dumps(point, allow_nan=False)) == point
        again = selector.selected_operating_point(
            y, s, bootstrap_selected=True, n_resamples=400, rng=7
        )
        assert again == point
        with pytest.raises(InvalidInputError, match="pass either `seed` or `rng`, not both"):
            selector.selected_operating_point(y, s, bootstrap_selected=True, seed=1, rng=1)

    def test_metadata_are_copied(self):
        metadata = {"owner": "risk"}
        selector = th.CISafeThresholdSelector(max_fpr=0.6, metadata=metadata)
        metadata["owner"] = "nobody"
        assert selector.metadata == {"owner": "risk"}

    def test_large_data_are_fast_enough_to_be_vectorised(self):
        rng = np.random.default_rng(1)
        y = rng.integers(0, 2, 200_000)
        s = rng.normal(y, 1.0)
        assert len(np.unique(s)) > 190_000
        result = th.CISafeThresholdSelector(max_fpr_ci_upper=0.05).select(y, s)
        at = metrics_at_threshold(y, s, result.threshold)
        assert th.wilson_interval(at["fp"], at["fp"] + at["tn"]).high <= 0.05


class TestSelectThreshold:
    def test_delegates(self):
        assert th.select_threshold(Y, S, th.MaxF1Selector()) == th.MaxF1Selector().select(Y, S)

    @pytest.mark.parametrize("criterion", ["max_f1", 0.5, None, th.MaxF1Selector])
    def test_names_are_refused_with_the_way_out(self, criterion):
        message = r"must be a selector object, got .*'recall_0.90' -> TargetRecallSelector\(recall"
        with pytest.raises(InvalidTypeError, match=message):
            th.select_threshold(Y, S, criterion)
        with pytest.raises(TypeError):
            th.select_threshold(Y, S, criterion)

    def test_takes_any_object_of_the_right_shape(self):
        class Half:
            criterion = "half"

            def select(self, y_true, y_score):
                return th.ThresholdResult(0.5, 0.0, 0.0, 0.0, "half")

        assert th.select_threshold(Y, S, Half()).threshold == 0.5


class TestPolicyMetadata:
    def test_to_dict(self):
        constraints = {"max_fpr": 0.01}
        policy = th.ThresholdPolicyMetadata("val", "score", "ci_safe", constraints, notes="v2")
        constraints["max_fpr"] = 1.0
        assert policy.to_dict() == {
            "calibration_slice": "val",
            "score_column": "score",
            "selector": "ci_safe",
            "constraints": {"max_fpr": 0.01},
            "claim_enabled": False,
            "notes": "v2",
        }

    @pytest.mark.parametrize("position", [0, 1, 2])
    @pytest.mark.parametrize("bad", ["", "  ", None])
    def test_names_must_not_be_empty(self, position, bad):
        names = ["val", "score", "ci_safe"]
        names[position] = bad
        with pytest.raises(InvalidInputError, match="must be a non-empty string"):
            th.ThresholdPolicyMetadata(*names, {})


def test_home_of_shared_names():
    from eval_toolkit import metrics
    from eval_toolkit.inference import proportions

    assert th.wilson_interval is proportions.wilson_interval
    assert th.WilsonInterval is proportions.WilsonInterval
    assert th.recall_at_fpr is metrics.recall_at_fpr
    assert th.RecallAtFprResult is metrics.RecallAtFprResult


@pytest.mark.parametrize(
    "selector", [th.TargetRecallSelector, th.TargetPrecisionSelector, th.TargetFPRSelector]
)
def test_a_target_is_a_number_and_no_text(selector):
    with pytest.raises(InvalidTypeError, match=r"must be a number, got '0.9'"):
        selector("0.9")
