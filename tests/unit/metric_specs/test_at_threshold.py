"""Metrics at an operating point: values, provenance, and the two policies of the interval."""

import inspect
import json
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as sk
from tests.support.each import each

from eval_toolkit import op_metric_specs as op
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, UndefinedMetricError
from eval_toolkit.inference import bootstrap_ci, paired_bootstrap_diff
from eval_toolkit.metrics import ThresholdResult, metrics_at_threshold
from eval_toolkit.protocols import MetricSpec, ThresholdSelector
from eval_toolkit.scorecards import scorecard
from eval_toolkit.thresholds import (
    MaxF1Selector,
    TargetFPRSelector,
    TargetPrecisionSelector,
    YoudenJSelector,
)
from eval_toolkit.thresholds.operating_points import fit_operating_points

RNG = np.random.default_rng(8)
Y = RNG.binomial(1, 0.4, 200)
S = np.round(np.clip(0.35 * Y + RNG.normal(0.35, 0.2, 200), 0.001, 0.999), 3)
THRESHOLD = 0.55


def net_benefit_by_hand(y_true: Any, predicted: Any) -> float:
    (_, fp), (_, tp) = sk.confusion_matrix(y_true, predicted)
    return (tp - fp * THRESHOLD / (1 - THRESHOLD)) / len(y_true)


ORACLES: dict[str, Any] = {
    "f1": sk.f1_score,
    "precision": sk.precision_score,
    "recall": sk.recall_score,
    "specificity": lambda y, p: sk.recall_score(y, p, pos_label=0),
    "accuracy": sk.accuracy_score,
    "balanced_accuracy": sk.balanced_accuracy_score,
    "mcc": sk.matthews_corrcoef,
    "kappa": sk.cohen_kappa_score,
    "fpr": lambda y, p: 1 - sk.recall_score(y, p, pos_label=0),
    "fnr": lambda y, p: 1 - sk.recall_score(y, p),
    "net_benefit": net_benefit_by_hand,
}
FACTORIES = {name: getattr(op, f"op_{name}") for name in ORACLES}
every_quantity = pytest.mark.parametrize("name", list(ORACLES))


@dataclass(frozen=True, slots=True)
class FixedThresholdSelector:
    """The selector of the extending guide: structural, knows nothing of ours."""

    threshold: float

    @property
    def criterion(self) -> str:
        return f"fixed_{self.threshold:.3f}"

    def select(self, y_true: Any, y_score: Any) -> ThresholdResult:
        m = metrics_at_threshold(y_true, y_score, self.threshold)
        return ThresholdResult(self.threshold, m["f1"], m["precision"], m["recall"], self.criterion)


class TestValues:
    @every_quantity
    def test_equals_the_oracle(self, name: str) -> None:
        spec = FACTORIES[name](THRESHOLD)
        expected = ORACLES[name](Y, S >= THRESHOLD)
        assert spec.compute(Y, S) == pytest.approx(expected, abs=1e-12)
        cell = scorecard(Y, S, metrics=[spec], n_resamples=100)[spec.name]
        assert cell.value == spec.compute(Y, S)
        assert cell.ci is not None
        assert cell.ci.ci_low < cell.value < cell.ci.ci_high

    @every_quantity
    def test_equals_the_oracle_on_many_small_tables(self, name: str) -> None:
        rng = np.random.default_rng(99)
        for _ in range(60):
            y = np.append(rng.integers(0, 2, 18), [0, 1])  # both classes,
            s = np.append(rng.choice([0.1, THRESHOLD, 0.9], 18), [0.1, 0.9])  # both predictions
            expected = ORACLES[name](y, s >= THRESHOLD)
            assert FACTORIES[name](THRESHOLD).compute(y, s) == pytest.approx(expected, abs=1e-12)

    def test_every_quantity_of_the_module_is_covered(self) -> None:
        assert {name for name in op.__all__ if name.startswith("op_")} == {
            f"op_{name}" for name in ORACLES
        }

    def test_a_score_at_the_threshold_counts_as_positive(self) -> None:
        assert op.op_recall(0.7).compute([1, 0], [0.7, 0.1]) == 1.0

    @every_quantity
    def test_specs_are_picklable_values(self, name: str) -> None:
        spec = FACTORIES[name](THRESHOLD)
        assert isinstance(spec, MetricSpec)
        assert spec == FACTORIES[name](np.float64(THRESHOLD))
        assert hash(spec) == hash(FACTORIES[name](THRESHOLD))

    def test_direction(self) -> None:
        lower = {name for name, make in FACTORIES.items() if not make(0.5).higher_is_better}
        assert lower == {"fpr", "fnr"}


class TestFactories:
    @every_quantity
    def test_siblings_document_themselves(self, name: str) -> None:
        factory = FACTORIES[name]
        assert factory.__name__ == f"op_{name}"
        assert "Examples\n" in factory.__doc__
        assert f"op_{name}(" in factory.__doc__
        assert list(inspect.signature(factory).parameters) == ["at", "ci_policy"]

    @pytest.mark.parametrize("at", [True, "0.5", None, [0.5], MaxF1Selector])
    def test_where_to_operate_must_make_sense(self, at: Any) -> None:
        with pytest.raises(InvalidTypeError, match="`at` must be a threshold, a ThresholdSel"):
            op.op_f1(at, ci_policy="fixed")

    def test_nan_is_no_threshold(self) -> None:
        with pytest.raises(InvalidInputError, match="`at` is nan"):
            op.op_f1(float("nan"))

    def test_a_selector_needs_a_policy(self) -> None:
        with pytest.raises(InvalidInputError, match="`ci_policy` is required for a selector"):
            op.op_recall(MaxF1Selector())

    def test_a_given_threshold_cannot_be_refitted(self) -> None:
        fitted = fit_operating_points(Y, S, [MaxF1Selector()])["max_f1"]
        for at in (0.5, fitted):
            with pytest.raises(InvalidInputError, match="'refit'` requires a selector"):
                op.op_f1(at, ci_policy="refit")

    def test_unknown_policy(self) -> None:
        with pytest.raises(InvalidInputError, match="`ci_policy` is 'both'; choose one of"):
            op.op_f1(0.5, ci_policy="both")

    @pytest.mark.parametrize("at", [0.0, 1.0, 1.5])
    def test_net_benefit_needs_a_threshold_probability(self, at: float) -> None:
        with pytest.raises(InvalidInputError, match=r"`at` is .*; it must lie in"):
            op.op_net_benefit(at)


class TestNames:
    def test_name_says_metric_and_threshold(self) -> None:
        assert op.op_f1(0.5).name == "op_f1_at_0.5"
        assert op.op_recall(1).name == "op_recall_at_1"

    def test_no_two_operating_points_share_a_name(self) -> None:
        fitted = {
            slice_: fit_operating_points(Y, S, [MaxF1Selector()], fitted_on_slice=slice_)["max_f1"]
            for slice_ in ("", "val", "dev")
        }
        specs = [
            *(op.op_f1(at) for at in (0.1234567, 0.12345671, 0.5, 0.05, 1e-7, 1e-8, -0.5, np.inf)),
            *(op.op_f1(point) for point in fitted.values()),
            *(
                op.op_f1(selector, ci_policy=policy)
                for selector in (MaxF1Selector(), YoudenJSelector(), TargetFPRSelector(0.001))
                for policy in ("fixed", "refit")
            ),
            op.op_recall(0.5),
        ]
        assert len({spec.name for spec in specs}) == len(specs)
        assert len(scorecard(Y, S, metrics=specs, bootstrap=False)) == len(specs)

    def test_names_of_the_three_kinds(self) -> None:
        fitted = fit_operating_points(Y, S, [MaxF1Selector()], fitted_on_slice="val")["max_f1"]
        assert op.op_f1(fitted).name == "op_f1_at_max_f1_fitted_on_val"
        assert op.op_f1(MaxF1Selector(), ci_policy="fixed").name == "op_f1_at_max_f1"
        assert op.op_f1(MaxF1Selector(), ci_policy="refit").name == "op_f1_at_max_f1_refit"


class TestProvenance:
    def details(self, spec: Any) -> dict[str, Any]:
        cell = scorecard(Y, S, metrics=[spec], n_resamples=20)[spec.name]
        payload = json.loads(json.dumps(cell.to_dict(), allow_nan=False))
        assert payload["details"] == cell.details
        return payload["details"]

    def test_given_threshold(self) -> None:
        assert self.details(op.op_f1(0.5)) == {
            "threshold": 0.5,
            "ci_policy": "fixed",
            "threshold_source": "fixed",
        }

    @pytest.mark.parametrize("policy", ["fixed", "refit"])
    def test_selector(self, policy: str) -> None:
        selector = TargetFPRSelector(0.1)
        assert self.details(op.op_recall(selector, ci_policy=policy)) == {
            "threshold": selector.select(Y, S).threshold,
            "ci_policy": policy,
            "threshold_source": "selected on the evaluated rows",
            "criterion": "fpr_0.10",
        }

    def test_fitted_operating_point(self) -> None:
        point = fit_operating_points(
            Y[:80], S[:80], [YoudenJSelector()], fitted_on_slice="val", scorer_name="forest"
        )["youden_j"]
        assert self.details(op.op_f1(point)) == {
            "threshold": point.threshold,
            "ci_policy": "fixed",
            "threshold_source": "fitted",
            "criterion": "youden_j",
            "fitted_on_slice": "val",
            "n_fit": 80,
        }

    def test_an_infinite_threshold_is_no_json_number(self) -> None:
        assert self.details(op.op_specificity(np.inf))["threshold"] is None

    def test_skipped_cells_keep_their_provenance(self) -> None:
        assert self.details(op.op_precision(2.0))["threshold"] == 2.0


class TestSources:
    def test_fitted_point_is_its_threshold(self) -> None:
        point = fit_operating_points(Y[:80], S[:80], [MaxF1Selector()])["max_f1"]
        fitted, given = op.op_f1(point), op.op_f1(point.threshold)
        card = scorecard(Y, S, metrics=[fitted, given])
        assert card[fitted.name].ci == card[given.name].ci
        assert card[fitted.name].value == card[given.name].value

    def test_selector_held_is_its_threshold(self) -> None:
        held = op.op_f1(MaxF1Selector(), ci_policy="fixed")
        given = op.op_f1(MaxF1Selector().select(Y, S).threshold)
        card = scorecard(Y, S, metrics=[held, given])
        assert card[held.name].ci == card[given.name].ci
        assert bootstrap_ci(Y, S, held) == bootstrap_ci(Y, S, given)

    def test_any_object_with_criterion_and_select(self) -> None:
        selector = FixedThresholdSelector(0.5)
        assert isinstance(selector, ThresholdSelector)
        spec = op.op_recall(selector, ci_policy="fixed")
        assert spec.name == "op_recall_at_fixed_0.500"
        card = scorecard(Y, S, metrics=[spec, op.op_recall(0.5)])
        assert card[spec.name].ci == card["op_recall_at_0.5"].ci


class TestRefit:
    def test_replicates_select_again(self) -> None:
        def select_then_measure(y_true: Any, y_score: Any) -> float:
            threshold = MaxF1Selector().select(y_true, y_score).threshold
            return metrics_at_threshold(y_true, y_score, threshold)["f1"]

        spec = op.op_f1(MaxF1Selector(), ci_policy="refit")
        options: dict[str, Any] = {
            "n_resamples": 200,
            "seed": 5,
            "return_samples": True,
            "method": "BCa",
        }
        by_hand = bootstrap_ci(Y, S, select_then_measure, **options)
        ours = bootstrap_ci(Y, S, spec, **options)
        np.testing.assert_allclose(ours.samples, by_hand.samples, atol=1e-15)
        assert (ours.ci_low, ours.ci_high) == pytest.approx((by_hand.ci_low, by_hand.ci_high))

    def test_refitting_keeps_the_promise_of_the_selector(self) -> None:
        # At a held threshold the false-positive rate moves on both sides of the target;
        # a threshold chosen again keeps it below on every resample.
        held, again = (
            bootstrap_ci(
                Y,
                S,
                op.op_fpr(TargetFPRSelector(0.1), ci_policy=policy),
                n_resamples=200,
                return_samples=True,
            ).samples
            for policy in ("fixed", "refit")
        )
        assert held is not None
        assert again is not None
        assert held.max() > 0.1
        assert again.max() <= 0.1

    def test_interval_holds_the_noise_of_the_threshold(self) -> None:
        held = op.op_recall(TargetFPRSelector(0.05), ci_policy="fixed")
        again = op.op_recall(TargetFPRSelector(0.05), ci_policy="refit")
        # BCa: 1.28 to 1.31 times as wide with 8000 resamples, 1.20 to 1.31 with 1000.
        for method, ratio in (("BCa", 1.25), (None, 1.2)):
            card = scorecard(Y, S, metrics=[held, again], seed=1, method=method, n_resamples=8000)
            assert card[held.name].value == card[again.name].value
            assert card[held.name].ci != card[again.name].ci
            width = [card[s.name].ci.ci_high - card[s.name].ci.ci_low for s in (held, again)]  # type: ignore[union-attr]
            assert width[1] > ratio * width[0]

    def test_comparing_scorers_wants_refitting(self) -> None:
        other = np.clip(S + np.random.default_rng(1).normal(0, 0.2, 200), 0, 1)
        spec = op.op_f1(MaxF1Selector(), ci_policy="refit")
        diff = paired_bootstrap_diff(Y, S, other, spec, n_resamples=100)
        expected = spec.compute(Y, other) - spec.compute(Y, S)
        assert diff.delta == pytest.approx(expected)
        with pytest.raises(
            InvalidInputError, match="selects a threshold for each scorer separately"
        ):
            paired_bootstrap_diff(Y, S, other, op.op_f1(MaxF1Selector(), ci_policy="fixed"))

    def test_comparing_scorers_at_one_threshold(self) -> None:
        other = np.clip(S + np.random.default_rng(1).normal(0, 0.2, 200), 0, 1)
        diff = paired_bootstrap_diff(Y, S, other, op.op_f1(0.5), n_resamples=100)
        expected = sk.f1_score(Y, other >= 0.5) - sk.f1_score(Y, S >= 0.5)
        assert diff.delta == pytest.approx(expected)


class TestAbsence:
    @each(
        ("name", "labels", "threshold"),
        [
            ("f1", [0] * 12, 0.9),  # no positives, none predicted
            ("precision", [0, 1] * 6, 0.9),  # none predicted
            ("recall", [0] * 12, 0.4),
            ("fnr", [0] * 12, 0.4),
            ("specificity", [1] * 12, 0.4),
            ("fpr", [1] * 12, 0.4),
            ("balanced_accuracy", [1] * 12, 0.4),
            ("mcc", [0, 1] * 6, 0.9),
            ("kappa", [0] * 12, 0.9),
        ],
    )
    def test_zero_denominator_is_skipped(
        self, name: str, labels: list[int], threshold: float
    ) -> None:
        spec = FACTORIES[name](threshold)
        scores = np.linspace(0.1, 0.8, 12)
        with pytest.raises(UndefinedMetricError, match=f"^{name} is undefined at threshold"):
            spec.compute(labels, scores)
        cell = scorecard(labels, scores, metrics=[spec, op.op_accuracy(0.5)])
        assert cell[spec.name].status == "skipped"
        assert cell[spec.name].value is None
        assert cell[spec.name].reason.startswith(f"{name} is undefined at threshold {threshold}")
        assert "make its denominator zero" in cell[spec.name].reason
        assert cell["op_accuracy_at_0.5"].status == "ok"

    @pytest.mark.parametrize("policy", ["fixed", "refit"])
    def test_a_selector_without_a_choice_is_skipped(self, policy: str) -> None:
        y, s = [1, 0] * 10, [0.9 if i % 2 else 0.1 for i in range(20)]
        spec = op.op_recall(TargetPrecisionSelector(0.9), ci_policy=policy)
        cell = scorecard(y, s, metrics=[spec])[spec.name]
        assert cell.status == "skipped"
        assert cell.reason.startswith("no threshold reaches precision 0.9")

    def test_a_selector_on_one_class_is_skipped(self) -> None:
        spec = op.op_recall(MaxF1Selector(), ci_policy="fixed")
        assert scorecard([1] * 12, [0.5] * 12, metrics=[spec])[spec.name].status == "skipped"

    def test_net_benefit_at_a_selected_threshold_that_is_no_probability(self) -> None:
        y, s = [0, 1] * 10, [0.2, 1.0] * 10
        spec = op.op_net_benefit(MaxF1Selector(), ci_policy="fixed")
        cell = scorecard(y, s, metrics=[spec])[spec.name]
        assert cell.status == "skipped"
        assert cell.reason.startswith("net_benefit is undefined at threshold 1")

    def test_some_undefined_resamples_are_counted(self) -> None:
        # Three predicted positives of 60: a resample without any has no precision.
        y, s = np.array([0, 1] * 30), np.linspace(0, 1, 60)
        ci = bootstrap_ci(y, s, op.op_precision(s[-3]), n_resamples=2000, method="BCa")
        # (57/60)^60 = 4.6 % of all resamples
        assert ci.n_undefined / 2000 == pytest.approx((57 / 60) ** 60, abs=0.02)


def test_pickled_specs_compute_the_same() -> None:
    for spec in (op.op_kappa(0.5), op.op_f1(MaxF1Selector(), ci_policy="refit")):
        clone = pickle.loads(pickle.dumps(spec))  # noqa: S301 - our own bytes
        assert clone.compute(Y, S) == spec.compute(Y, S)


def test_an_explicit_method_wins_over_wilson() -> None:
    y, s = np.arange(60) % 3 == 0, np.random.default_rng(4).random(60)
    asked = scorecard(y, s, metrics=[op.op_recall(0.5)], method="percentile")["op_recall_at_0.5"]
    default = scorecard(y, s, metrics=[op.op_recall(0.5)])["op_recall_at_0.5"]
    assert asked.ci is not None
    assert default.ci is not None
    assert (asked.ci.method, default.ci.method) == ("percentile", "wilson")


def test_net_benefit_needs_probabilities() -> None:
    y, s = np.arange(60) % 3 == 0, np.random.default_rng(4).random(60)
    cell = scorecard(y, 5 * s, metrics=[op.op_net_benefit(0.2)])["op_net_benefit_at_0.2"]
    assert cell.status == "error"
    assert "must be a probability" in cell.reason
