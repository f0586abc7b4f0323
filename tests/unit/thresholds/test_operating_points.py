"""Operating points and the headline dict."""

import json
from unittest import mock

import numpy as np
import pytest

from eval_toolkit import metrics
from eval_toolkit.errors import (
    InfeasibleError,
    InvalidInputError,
    InvalidTypeError,
    UndefinedMetricError,
)
from eval_toolkit.thresholds import MaxF1Selector, TargetFPRSelector, TargetRecallSelector
from eval_toolkit.thresholds import operating_points as op

RNG = np.random.default_rng(3)
Y = RNG.integers(0, 2, 120)
S = np.clip(RNG.normal(0.3 + 0.3 * Y, 0.2), 0.0, 1.0)


class TestFit:
    def test_points_carry_their_provenance(self):
        selectors = [MaxF1Selector(), TargetRecallSelector(0.9)]
        fitted = op.fit_operating_points(Y, S, selectors, fitted_on_slice="val", scorer_name="m")
        assert list(fitted) == ["max_f1", "recall_0.90"]
        point = fitted["recall_0.90"]
        assert point.threshold == TargetRecallSelector(0.9).select(Y, S).threshold
        assert (point.fitted_on_slice, point.scorer_name) == ("val", "m")
        assert (point.n_fit, point.n_positive_fit) == (120, Y.sum())
        assert point.n_negative_fit == 120 - Y.sum()
        assert point.fit_metrics == metrics.metrics_at_threshold(Y, S, point.threshold)
        payload = point.to_dict()
        assert json.loads(json.dumps(payload, allow_nan=False)) == payload
        assert hash(point) == hash(fitted["recall_0.90"])

    def test_takes_an_iterator(self):
        assert list(op.fit_operating_points(Y, S, iter([MaxF1Selector()]))) == ["max_f1"]

    def test_nearby_targets_do_not_overwrite_one_another(self):
        """rows.md §21.2 no. 10: 0.001 and 0.004 were both fpr_0.00."""
        y = np.concatenate([np.zeros(2000), np.ones(200)])
        s = np.concatenate([np.linspace(0, 0.95, 2000), np.linspace(0.3, 1, 200)])
        fitted = op.fit_operating_points(y, s, [TargetFPRSelector(0.001), TargetFPRSelector(0.004)])
        assert list(fitted) == ["fpr_0.001", "fpr_0.004"]
        assert fitted["fpr_0.001"].threshold > fitted["fpr_0.004"].threshold

    def test_equal_labels_are_an_error(self):
        message = r"selectors\[0\] and selectors\[2\] share the criterion 'max_f1'"
        selectors = [MaxF1Selector(), TargetFPRSelector(0.1), MaxF1Selector()]
        with pytest.raises(InvalidInputError, match=message):
            op.fit_operating_points(Y, S, selectors)

    def test_input_is_checked(self):
        with pytest.raises(InvalidInputError, match="`selectors` is empty"):
            op.fit_operating_points(Y, S, [])
        with pytest.raises(InvalidTypeError, match=r"selectors\[0\] is 'max_f1'"):
            op.fit_operating_points(Y, S, ["max_f1"])
        with pytest.raises(InvalidTypeError, match=r"selectors\[0\] is <class"):
            op.fit_operating_points(Y, S, [MaxF1Selector])
        with pytest.raises(UndefinedMetricError, match="all 2 rows are positive"):
            op.fit_operating_points([1, 1], [0.1, 0.2], [MaxF1Selector()])

    def test_infeasible_selectors_speak_up(self):
        with pytest.raises(InfeasibleError, match="false positive rate"):
            op.fit_operating_points([0, 1], [0.9, 0.1], [TargetFPRSelector(0.0)])


class TestApply:
    FITTED = op.fit_operating_points(
        Y, S, [MaxF1Selector()], fitted_on_slice="val", scorer_name="m"
    )

    def test_two_classes(self):
        threshold = self.FITTED["max_f1"].threshold
        applied = op.apply_operating_points(
            Y[:50], S[:50], self.FITTED, applied_to_slice="test", scorer_name="m"
        )["max_f1"]
        provenance = applied.pop("threshold_provenance")
        assert applied == metrics.metrics_at_threshold(Y[:50], S[:50], threshold)
        assert provenance == {
            "criterion": "max_f1",
            "fitted_on_slice": "val",
            "applied_to_slice": "test",
            "scorer_name": "m",
            "threshold": threshold,
            "n_fit": 120,
            "n_positive_fit": int(Y.sum()),
            "n_negative_fit": 120 - int(Y.sum()),
        }

    @pytest.mark.parametrize("label", [0, 1])
    def test_one_class(self, label):
        scores = S[label == Y]
        labels = np.full(len(scores), label)
        applied = op.apply_operating_points(labels, scores, self.FITTED)["max_f1"]
        assert applied["slice_class"] == ("all_positive" if label else "all_negative")
        assert ("recall@threshold" in applied) is bool(label)
        assert applied["threshold_provenance"]["scorer_name"] == "m"

    def test_another_scorer_is_refused(self):
        message = "fitted for scorer 'm' and cannot be applied to 'other'"
        with pytest.raises(InvalidInputError, match=message):
            op.apply_operating_points(Y, S, self.FITTED, scorer_name="other")


class TestSpec:
    def test_sequences_become_tuples(self):
        spec = op.OperatingPointSpec("val", ["test", "ood"], [MaxF1Selector()], scorer_names=["m"])
        assert spec.apply_slices == ("test", "ood")
        assert spec.selectors == (MaxF1Selector(),)
        assert spec.scorer_names == ("m",)
        assert spec.name == "transferred"
        assert op.OperatingPointSpec("val", "test", [MaxF1Selector()]).apply_slices == ("test",)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"fit_slice": ""}, "`fit_slice` contains ''"),
            ({"apply_slices": []}, "`apply_slices` is empty"),
            ({"apply_slices": ["test", ""]}, "`apply_slices` contains ''"),
            ({"selectors": []}, "`selectors` is empty"),
            ({"selectors": [MaxF1Selector(), MaxF1Selector()]}, "share the criterion"),
            ({"name": ""}, "`name` contains ''"),
            ({"scorer_names": [""]}, "`scorer_names` contains ''"),
        ],
    )
    def test_is_checked(self, change, message):
        given = {"fit_slice": "val", "apply_slices": ["test"], "selectors": [MaxF1Selector()]}
        with pytest.raises(InvalidInputError, match=message):
            op.OperatingPointSpec(**(given | change))


class TestHeadline:
    def test_equals_the_metrics_it_gathers(self):
        headline = op.headline_metrics(Y, S)
        threshold = MaxF1Selector().select(Y, S).threshold
        assert (headline["n"], headline["n_positive"]) == (120, Y.sum())
        assert headline["pr_auc"] == metrics.pr_auc(Y, S)
        assert headline["roc_auc"] == metrics.roc_auc(Y, S)
        assert list(headline["operating_points"]) == ["max_f1", "recall_0.90", "recall_0.95"]
        assert headline["operating_points"]["max_f1"] == metrics.metrics_at_threshold(
            Y, S, threshold
        )
        assert headline["ece"] == headline["ece_equal_width"]
        assert headline["ece"] == metrics.expected_calibration_error(Y, S)
        assert headline["ece_equal_mass"] == metrics.expected_calibration_error_equal_mass(Y, S)
        assert headline["precision_at_prior"] == {
            str(prior): metrics.precision_at_prior(Y, S, threshold, prior)
            for prior in (0.001, 0.01, 0.05)
        }
        assert "per_stratum_recall_at_max_f1" not in headline
        json.dumps(headline, allow_nan=False)

    def test_strata(self):
        strata = np.where(np.arange(120) % 3 == 0, "a", "b")
        headline = op.headline_metrics(Y, S, strata)
        threshold = headline["operating_points"]["max_f1"]["threshold"]
        expected = metrics.stratified_recall(Y, S, threshold, strata)
        assert headline["per_stratum_recall_at_max_f1"] == expected

    def test_max_f1_is_selected_once(self):
        strata = np.where(np.arange(120) % 3 == 0, "a", "b")
        with mock.patch.object(
            MaxF1Selector, "select", autospec=True, side_effect=MaxF1Selector.select
        ) as select:
            op.headline_metrics(Y, S, strata)
        assert select.call_count == 1

    def test_few_rows_leave_equal_mass_bins_without_an_error(self):
        headline = op.headline_metrics([0, 1, 1], [0.1, 0.4, 0.8])
        assert headline["ece_equal_mass"] is None
        assert "only 3 rows" in headline["ece_equal_mass_error"]
        assert headline["ece"] == pytest.approx((0.1 + 0.6 + 0.2) / 3)

    def test_raw_scores_have_no_calibration_error_but_rank(self):
        """rows.md §21.2 no. 14: scores outside [0, 1] must not take the rest down."""
        headline = op.headline_metrics(Y, 10.0 * S - 5.0)
        assert headline["roc_auc"] == metrics.roc_auc(Y, S)
        assert headline["ece"] is headline["ece_equal_width"] is headline["ece_equal_mass"] is None
        assert "must be a probability" in headline["ece_equal_width_error"]

    @pytest.mark.parametrize("label", [0, 1])
    def test_one_class(self, label):
        headline = op.headline_metrics([label] * 4, [0.1, 0.2, 0.3, 0.4], ["a", "a", "b", "b"])
        assert headline["pr_auc"] is headline["roc_auc"] is None
        assert headline["single_class_label"] == label
        note = headline["metric_note"]
        assert note.startswith(f"all 4 rows have label {label}")
        assert headline["operating_points"]["recall_0.95"] == {"skipped": note}
        assert headline["precision_at_prior"]["0.001"] == {"skipped": note}
        assert headline["per_stratum_recall_at_max_f1"] == {"skipped": note}
        assert headline["ece"] == metrics.expected_calibration_error(
            [label] * 4, [0.1, 0.2, 0.3, 0.4]
        )
        json.dumps(headline, allow_nan=False)
        assert "per_stratum_recall_at_max_f1" not in op.headline_metrics([label], [0.5])

    def test_priors_are_the_caller_s(self):
        assert list(op.headline_metrics(Y, S, None, (0.2,))["precision_at_prior"]) == ["0.2"]
        with pytest.raises(InvalidInputError, match=r"`assumed_priors` is 1.0"):
            op.headline_metrics(Y, S, assumed_priors=[1.0])


class TestForeignTypes:
    def test_fitted_points_come_in_a_mapping(self):
        with pytest.raises(InvalidTypeError, match=r"`fitted` must map criteria .*; got \[1\]"):
            op.apply_operating_points(Y, S, [1])
        with pytest.raises(InvalidTypeError, match=r"fitted\['x'\] is 0.5; it must be a Fitted"):
            op.apply_operating_points(Y, S, {"x": 0.5})

    def test_sequences_are_sequences(self):
        with pytest.raises(InvalidTypeError, match=r"`assumed_priors` is 0.1; it must be a seq"):
            op.headline_metrics(Y, S, assumed_priors=0.1)
        with pytest.raises(InvalidTypeError, match="`selectors` is 5; it must be a sequence"):
            op.fit_operating_points(Y, S, 5)
        with pytest.raises(InvalidTypeError, match="`apply_slices` is 5; it must be a sequence"):
            op.OperatingPointSpec("val", 5, [MaxF1Selector()])
