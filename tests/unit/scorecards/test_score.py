"""`scorecard`: the contract line by line, one set of draws, shares, other prevalences."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn import metrics as sk
from tests.support.each import each

from eval_toolkit import bootstrap_ci, metrics
from eval_toolkit import metric_specs as ms
from eval_toolkit import op_metric_specs as op
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.inference import BootstrapCI, resampling, wilson_interval
from eval_toolkit.scorecards import MetricResult, Scorecard, scorecard
from eval_toolkit.thresholds import MaxF1Selector

RNG = np.random.default_rng(20)
Y = RNG.binomial(1, 0.4, 150)
S = np.round(np.clip(0.4 * Y + RNG.normal(0.3, 0.2, 150), 0, 1), 2)  # two decimals: many ties

SIX = (ms.pr_auc, ms.roc_auc, ms.recall_at_fpr(0.1), ms.brier, ms.log_loss, ms.ece(n_bins=15))


class Spec:
    """The least a metric spec can be."""

    def __init__(self, name: str, answer: Any) -> None:
        self.name = name
        self.answer = answer
        self.calls = 0

    def compute(self, y_true: Any, y_score: Any) -> Any:
        self.calls += 1
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer(y_true, y_score) if callable(self.answer) else self.answer


def assert_same_draws(one: MetricResult, other: MetricResult) -> None:
    """Everything is equal; bounds up to the order in which a sum was added up."""
    assert one.ci is not None
    assert other.ci is not None
    bounds = [(cell.ci_low, cell.ci_high) for cell in (one.ci, other.ci)]
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-14)
    ci = replace(other.ci, ci_low=one.ci.ci_low, ci_high=one.ci.ci_high)
    assert one == replace(other, ci=ci)


class TestContract:
    def test_keys_in_the_order_of_the_specs(self) -> None:
        card = scorecard(Y, S, metrics=[ms.pr_auc, ms.brier, ms.ece(n_bins=15)], n_resamples=50)
        assert list(card) == ["pr_auc", "brier", "ece_n_bins_15_strategy_uniform"]
        assert isinstance(card, Scorecard)
        assert isinstance(card, Mapping)
        assert len(card) == 3
        assert "pr_auc" in card
        assert "PR_AUC" not in card

    def test_cell_has_value_status_and_interval(self) -> None:
        cell = scorecard(Y, S, metrics=[ms.pr_auc])["pr_auc"]
        assert cell.status == "ok"
        assert cell.reason == ""
        assert isinstance(cell.value, float)
        assert isinstance(cell.ci, BootstrapCI)
        assert (cell.ci.n_resamples, cell.ci.confidence, cell.ci.method) == (0, 0.95, "score")
        assert cell.ci.ci_low < cell.value < cell.ci.ci_high
        asked = scorecard(Y, S, metrics=[ms.pr_auc], method="BCa")["pr_auc"].ci
        assert asked is not None
        assert (asked.n_resamples, asked.confidence, asked.method) == (1000, 0.95, "BCa")
        assert (cell.n_units, cell.n_groups, cell.n_errors, cell.n_skipped) == (150, 150, 0, 0)

    def test_wrong_name_is_a_key_error(self) -> None:
        card = scorecard(Y, S, metrics=[ms.pr_auc], bootstrap=False)
        with pytest.raises(KeyError, match="pr_acu"):
            card["pr_acu"]

    @pytest.mark.parametrize(
        ("y_true", "y_score", "message"),
        [
            (np.zeros((3, 2)), np.zeros(3), r"`y_true` must be 1-D, got shape \(3, 2\)"),
            ([0, 1], np.zeros((2, 2)), r"`y_score` must be 1-D, got shape \(2, 2\).*proba\[:, 1\]"),
            ([0, 1, 1], [0.1, 0.2], "`y_true` has 3 rows but `y_score` has 2"),
            ([], [], "`y_true` is empty"),
            ([0, 2], [0.1, 0.2], r"y_true\[1\] is 2; labels must be 0 or 1"),
            ([0, 1], [0.1, np.nan], r"y_score\[1\] is nan; `y_score` must be finite"),
        ],
    )
    def test_unusable_arrays(self, y_true: Any, y_score: Any, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            scorecard(y_true, y_score, metrics=[ms.pr_auc])

    @each(
        ("options", "message"),
        [
            ({"n_resamples": 0}, "`n_resamples` is 0; it must be at least 1"),
            ({"confidence": 1.0}, "`confidence` is 1.0; it must lie in"),
            ({"confidence": 0.0}, "`confidence` is 0.0; it must lie in"),
            ({"method": "normal"}, "`method` is 'normal'; choose one of 'BCa'"),
            ({"seed": -1}, "`seed` is -1; it must not be negative"),
            ({"seed": 1, "rng": 1}, "pass either `seed` or `rng`, not both"),
            ({"assumed_prior": 1.0}, "`assumed_prior` is 1.0"),
            ({"groups": [1, 2]}, "`groups` has 2 rows but the data has 150"),
        ],
    )
    def test_options_out_of_range(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            scorecard(Y, S, metrics=[ms.pr_auc], **options)

    def test_resampling_options_do_not_matter_without_the_bootstrap(self) -> None:
        card = scorecard(Y, S, metrics=[ms.pr_auc], bootstrap=False, n_resamples=0, confidence=2.0)
        assert card["pr_auc"].value == metrics.pr_auc(Y, S)
        assert card["pr_auc"].ci is None
        assert card["pr_auc"].reason == ""

    def test_float_n_resamples_is_a_type_error(self) -> None:
        with pytest.raises(InvalidTypeError, match="`n_resamples` must be an integer, got 10"):
            scorecard(Y, S, metrics=[ms.pr_auc], n_resamples=10.5)  # type: ignore[arg-type]

    def test_duplicate_names_name_both_places(self) -> None:
        with pytest.raises(ValueError, match=r"metrics\[2\] has the name 'pr_auc' of metrics\[0\]"):
            scorecard(Y, S, metrics=[ms.pr_auc, ms.brier, ms.pr_auc])

    def test_what_is_no_spec_is_named(self) -> None:
        with pytest.raises(InvalidInputError, match=r"metrics\[1\] is 7; a metric spec has"):
            scorecard(Y, S, metrics=[ms.pr_auc, 7])  # type: ignore[list-item]

    @pytest.mark.parametrize(("label", "word"), [(0, "negative"), (1, "positive")])
    @pytest.mark.parametrize("name", ["pr_auc", "roc_auc", "auprc", "auroc"])
    def test_single_class_is_skipped_without_calling_compute(
        self, label: int, word: str, name: str
    ) -> None:
        spec = Spec(name, 0.5)
        cell = scorecard([label] * 20, np.linspace(0, 1, 20), metrics=[spec])[name]
        assert (cell.status, cell.value, cell.ci) == ("skipped", None, None)
        assert cell.reason == f"{name} is undefined: all 20 rows are {word}"
        assert spec.calls == 0

    def test_metrics_of_one_class_are_still_there(self) -> None:
        card = scorecard([1] * 20, np.linspace(0.5, 1, 20), metrics=[*SIX, op.op_recall(0.6)])
        states = {name: cell.status for name, cell in card.items()}
        assert states == {
            "pr_auc": "skipped",
            "roc_auc": "skipped",
            "recall_at_fpr_0.1": "skipped",
            "brier": "ok",
            "log_loss": "ok",
            "ece_n_bins_15_strategy_uniform": "ok",
            "op_recall_at_0.6": "ok",
        }

    @pytest.mark.parametrize(
        ("answer", "reason"),
        [
            (ZeroDivisionError("no rows"), "ZeroDivisionError: no rows"),
            (KeyError("column"), "KeyError: 'column'"),
            (float("nan"), "ValueError: mine returned nan"),
            (float("inf"), "ValueError: mine returned inf"),
            (None, "InvalidTypeError: mine returned None; it must be a number"),
        ],
    )
    def test_a_failing_spec_is_an_error_cell_alone(self, answer: Any, reason: str) -> None:
        alone = scorecard(Y, S, metrics=[ms.pr_auc, ms.brier])
        card = scorecard(Y, S, metrics=[ms.pr_auc, Spec("mine", answer), ms.brier])
        assert (card["mine"].status, card["mine"].value, card["mine"].ci) == ("error", None, None)
        assert card["mine"].reason.startswith(reason)
        assert {name: card[name] for name in alone} == dict(alone)

    def test_scores_that_are_no_probabilities_are_an_error_of_that_metric(self) -> None:
        card = scorecard(Y, 10 * S, metrics=[ms.roc_auc, ms.brier])
        assert card["roc_auc"].status == "ok"
        assert card["brier"].status == "error"
        assert "must be a probability in [0, 1]" in card["brier"].reason

    @pytest.mark.parametrize("answer", [MemoryError, RecursionError, KeyboardInterrupt, SystemExit])
    def test_what_must_propagate_does(self, answer: type[BaseException]) -> None:
        with pytest.raises(answer):
            scorecard(Y, S, metrics=[Spec("mine", answer())])

    def test_memory_error_inside_a_resample_propagates(self) -> None:
        calls = []

        def hungry(y_true: Any, y_score: Any) -> float:
            calls.append(1)
            if len(calls) > 3:
                raise MemoryError
            return 0.5

        with pytest.raises(MemoryError):
            scorecard(Y, S, metrics=[Spec("mine", hungry)])

    def test_few_rows_give_the_value_and_say_why_there_is_no_interval(self) -> None:
        card = scorecard(Y[:9], S[:9], metrics=[ms.pr_auc, ms.brier, Spec("mine", 0.5)])
        assert all(cell.status == "ok" for cell in card.values())
        assert card["pr_auc"].value == metrics.pr_auc(Y[:9], S[:9])
        assert np.count_nonzero(Y[:9]) == 2
        assert card["pr_auc"].ci is None
        assert card["pr_auc"].reason == (
            "no interval: 2 positive rows; an interval for pr_auc needs at least 3 of each class"
        )
        assert card["mine"].ci is None
        assert card["mine"].reason == "bootstrap unavailable: 9 rows; at least 10 are needed"
        assert card["brier"].ci is not None  # a mean in a known range, in closed form
        asked = scorecard(Y[:9], S[:9], metrics=[ms.pr_auc, ms.brier], method="BCa")
        for cell in asked.values():
            assert cell.ci is None
            assert cell.reason == "bootstrap unavailable: 9 rows; at least 10 are needed"

    def test_ten_rows_are_enough(self) -> None:
        y, s = [0, 1] * 5, [0.1, 0.4, 0.5, 0.3, 0.2, 0.9, 0.7, 0.8, 0.6, 0.45]
        assert scorecard(y, s, metrics=[ms.roc_auc])["roc_auc"].ci is not None

    def test_few_groups_count_as_few(self) -> None:
        card = scorecard(Y, S, metrics=[ms.pr_auc], groups=np.arange(150) % 9)
        assert card["pr_auc"].reason == "bootstrap unavailable: 9 groups; at least 10 are needed"
        assert (card["pr_auc"].n_units, card["pr_auc"].n_groups) == (150, 9)

    def test_undefined_on_many_resamples_says_so(self) -> None:
        def only_whole(y_true: Any, y_score: Any) -> float:
            if len(set(map(float, y_score))) < len(set(S)):
                raise ValueError("incomplete")
            return 0.5

        cell = scorecard(Y, S, metrics=[Spec("mine", only_whole)], n_resamples=100)["mine"]
        assert (cell.status, cell.value, cell.ci) == ("ok", 0.5, None)
        assert cell.reason.startswith("no interval: mine is undefined on ")
        assert "of 100 resamples" in cell.reason

    def test_perfect_separation_has_an_interval(self) -> None:
        y, s = [0] * 10 + [1] * 20, np.linspace(0.1, 0.9, 30)
        by_default = scorecard(y, s, metrics=[ms.roc_auc])["roc_auc"].ci
        assert by_default is not None
        assert (by_default.method, by_default.ci_high) == ("score", 1.0)
        assert 0.025**0.1 < by_default.ci_low < 0.99
        cell = scorecard(y, s, metrics=[ms.roc_auc], method="BCa")["roc_auc"]
        assert cell.value == 1.0
        assert cell.ci is not None
        assert cell.ci.method == "exact-degenerate"
        # ((1 − 0.95) / 2)^(1/10): ten negatives are the smaller class
        assert cell.ci.ci_low == pytest.approx(0.025**0.1)
        assert cell.ci.ci_high == 1.0
        assert cell.reason == "every resample attains the metric's bound"

    def test_no_metrics_is_an_empty_card(self) -> None:
        assert dict(scorecard(Y, S, metrics=[])) == {}

    def test_lists_frames_and_booleans_are_arrays_too(self) -> None:
        expected = scorecard(Y, S, metrics=SIX, n_resamples=64)
        assert scorecard(Y.tolist(), S.tolist(), metrics=SIX, n_resamples=64) == expected
        assert scorecard(pl.Series(Y == 1), pl.Series(S), metrics=SIX, n_resamples=64) == expected


class TestSeeds:
    def test_default_seed_is_that_of_every_function(self) -> None:
        assert scorecard(Y, S, metrics=SIX) == scorecard(Y, S, metrics=SIX, rng=42)
        assert scorecard(Y, S, metrics=SIX) != scorecard(Y, S, metrics=SIX, rng=0)
        for spec in SIX:
            cell = scorecard(Y, S, metrics=[spec], method="BCa")[spec.name]
            assert cell.ci == bootstrap_ci(Y, S, spec, method="BCa")

    def test_seed_and_rng_are_one_argument(self) -> None:
        by_seed = scorecard(Y, S, metrics=SIX, seed=7)
        assert by_seed == scorecard(Y, S, metrics=SIX, rng=7)
        assert by_seed != scorecard(Y, S, metrics=SIX, seed=8)

    def test_a_generator_moves_on(self) -> None:
        rng = np.random.default_rng(5)
        options: dict[str, Any] = {"metrics": [ms.pr_auc], "method": "BCa"}
        first, second = (scorecard(Y, S, **options, rng=rng) for _ in range(2))
        assert first != second
        assert first == scorecard(Y, S, **options, rng=np.random.default_rng(5))


class TestValues:
    @pytest.mark.parametrize(
        ("spec", "function"),
        [
            (ms.pr_auc, metrics.pr_auc),
            (ms.roc_auc, metrics.roc_auc),
            (ms.brier, metrics.brier_score),
            (ms.log_loss, metrics.log_loss),
            (ms.recall_at_fpr(0.1), lambda y, s: metrics.recall_at_fpr(y, s, 0.1).recall),
            (ms.ece(), lambda y, s: metrics.expected_calibration_error(y, s, 15)),
            (
                ms.ece(strategy="quantile"),
                lambda y, s: metrics.expected_calibration_error_equal_mass(y, s, 15),
            ),
            (ms.partial_roc_auc(0.2), lambda y, s: metrics.roc_auc(y, s, max_fpr=0.2)),
            (ms.smooth_ece, metrics.smooth_ece),
        ],
        ids=lambda part: getattr(part, "name", ""),
    )
    def test_value_is_the_metric_exactly(self, spec: Any, function: Any) -> None:
        card = scorecard(Y, S, metrics=[spec], bootstrap=False)
        assert card[spec.name].value == function(Y, S) == spec.compute(Y, S)

    @pytest.mark.parametrize(
        "spec",
        [
            *SIX,
            ms.partial_roc_auc(0.2),
            op.op_f1(0.5),
            op.op_mcc(0.4),
            op.op_f1(MaxF1Selector(), ci_policy="refit"),
        ],
        ids=lambda spec: spec.name,
    )
    @pytest.mark.parametrize("grouped", [False, True])
    def test_interval_is_that_of_bootstrap_ci(self, spec: Any, grouped: bool) -> None:
        options: dict[str, Any] = {"n_resamples": 200, "confidence": 0.9, "seed": 11}
        if grouped:
            options["groups"] = np.arange(150) % 40
        cell = scorecard(Y, S, metrics=[*SIX[:2], Spec("other", np.var)], **options)
        assert cell["pr_auc"].ci == bootstrap_ci(Y, S, metrics.pr_auc, **options)
        assert cell["roc_auc"].ci == bootstrap_ci(Y, S, ms.roc_auc, **options)
        found = scorecard(Y, S, metrics=[spec], **options)[spec.name].ci
        expected = bootstrap_ci(Y, S, spec, **options)
        assert found is not None
        ends = (found.ci_low, found.ci_high)  # means are summed in another order
        assert ends == pytest.approx((expected.ci_low, expected.ci_high), rel=1e-14)
        assert replace(found, ci_low=0.0, ci_high=1.0) == replace(expected, ci_low=0.0, ci_high=1.0)

    @pytest.mark.parametrize("method", ["BCa", "percentile", "basic", "studentized"])
    def test_every_bootstrap_method(self, method: str) -> None:
        cell = scorecard(Y, S, metrics=[ms.brier], method=method, n_resamples=100, seed=3)["brier"]
        assert cell.ci is not None
        assert cell.ci.method == method
        expected = bootstrap_ci(Y, S, metrics.brier_score, method=method, n_resamples=100, seed=3)
        assert cell.ci == expected

    @pytest.mark.parametrize("grouped", [False, True])
    def test_no_cell_depends_on_which_others_were_asked_for(self, grouped: bool) -> None:
        def variance(y_true: Any, y_score: Any) -> float:
            return float(np.var(y_score))

        specs = [
            *SIX,
            ms.partial_roc_auc(0.2),
            op.op_f1(0.5),
            op.op_f1(0.4),
            op.op_mcc(0.5),
            op.op_recall(0.5),
            op.op_f1(MaxF1Selector(), ci_policy="fixed"),
            Spec("variance", variance),
        ]
        groups = np.arange(150) % 50 if grouped else None
        options: dict[str, Any] = {"n_resamples": 130, "groups": groups}
        together = scorecard(Y, S, metrics=specs, **options)
        backwards = scorecard(Y, S, metrics=specs[::-1], **options)
        assert list(backwards) == list(together)[::-1]
        for spec in specs:
            alone = scorecard(Y, S, metrics=[spec], **options)
            assert_same_draws(alone[spec.name], together[spec.name])
            assert_same_draws(backwards[spec.name], together[spec.name])

    def test_executor_gives_the_same_bits(self) -> None:
        specs = [*SIX, op.op_f1(0.5), Spec("spread", lambda y, s: float(np.ptp(s)))]
        plain = scorecard(Y, S, metrics=specs, n_resamples=300)
        with ThreadPoolExecutor(2) as pool:
            assert scorecard(Y, S, metrics=specs, n_resamples=300, executor=pool) == plain

    def test_executor_does_the_work(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(resampling, "_CHUNK_ROWS", 1)

        class Recording:
            tasks = 0

            def map(self, fn: Any, /, *iterables: Any) -> Any:
                for arguments in zip(*iterables, strict=True):
                    self.tasks += 1
                    yield fn(*arguments)

        executor = Recording()
        scorecard(Y, S, metrics=[ms.pr_auc], executor=executor)
        assert executor.tasks == 0, "a closed form draws nothing"
        scorecard(Y, S, metrics=[ms.pr_auc], executor=executor, method="BCa")
        assert executor.tasks > 0

    def test_groups_are_drawn_whole(self) -> None:
        # Every row ten times: as rows that looks like ten times the data, as groups it does not.
        y, s, groups = np.repeat(Y, 10), np.repeat(S, 10), np.repeat(np.arange(150), 10)
        options: dict[str, Any] = {"metrics": [ms.roc_auc], "method": "BCa"}
        once = scorecard(Y, S, **options)["roc_auc"]
        rows = scorecard(y, s, **options)["roc_auc"]
        grouped = scorecard(y, s, **options, groups=groups)["roc_auc"]
        assert once.ci is not None
        assert rows.ci is not None
        assert grouped.ci is not None
        width = [ci.ci_high - ci.ci_low for ci in (once.ci, rows.ci, grouped.ci)]
        assert width[1] == pytest.approx(width[0] / np.sqrt(10), rel=0.15)
        assert width[2] == pytest.approx(width[0], rel=0.15)
        assert grouped.ci.method == "BCa, groups"
        assert (grouped.n_units, grouped.n_groups) == (1500, 150)

    def test_group_names_do_not_matter_but_which_rows_share_one_does(self) -> None:
        numbers = np.arange(150) % 30
        names = np.array([f"user {number:02d}" for number in numbers])
        card = scorecard(Y, S, metrics=[ms.pr_auc], groups=numbers)
        assert scorecard(Y, S, metrics=[ms.pr_auc], groups=names) == card
        assert scorecard(Y, S, metrics=[ms.pr_auc], groups=np.arange(150) // 5) != card


class TestCustomSpecs:
    def test_any_object_with_name_and_compute(self) -> None:
        spec = Spec("spread", lambda y, s: float(s[y == 1].mean() - s[y == 0].mean()))
        cell = scorecard(Y, S, metrics=[spec, ms.pr_auc], n_resamples=100)["spread"]
        assert cell.value == pytest.approx(S[Y == 1].mean() - S[Y == 0].mean())
        assert cell.ci is not None
        assert cell.ci.ci_low < cell.value < cell.ci.ci_high

    def test_it_sees_integer_labels_of_the_rows_drawn(self) -> None:
        seen = []

        def look(y_true: Any, y_score: Any) -> float:
            seen.append((y_true.dtype.kind, len(y_true), len(y_score)))
            return float(np.mean(y_score))

        scorecard(Y, S, metrics=[Spec("mine", look)], n_resamples=64, method="percentile")
        assert set(seen) == {("i", 150, 150)}

    def test_bind_without_proportion_is_enough(self) -> None:
        class Bound:
            name = "mine"

            def compute(self, y_true: Any, y_score: Any) -> float:
                return op.op_f1(0.5).compute(y_true, y_score)

            def bind(self, data: Any) -> Any:
                return op.op_f1(0.5).bind(data)

        card = scorecard(Y, S, metrics=[Bound(), op.op_f1(0.5)])
        assert card["mine"] == card["op_f1_at_0.5"]

    def test_a_column_of_records_is_not_there(self) -> None:
        card = scorecard(Y, S, metrics=[ms.mean_of("reward"), ms.mean_of("label")])
        assert card["reward"].status == "error"
        assert "mean_of('reward') needs records with that column: use `summarise`" in (
            card["reward"].reason
        )
        assert card["label"].value == Y.mean()

    def test_columns_that_are_there(self) -> None:
        card = scorecard(Y, S, metrics=[ms.mean_of("score"), ms.mean_of("label")])
        assert card["score"].value == S.mean()
        label = card["label"]
        assert label.ci is not None
        assert label.ci.ci_low < Y.mean() < label.ci.ci_high


class TestShares:
    @pytest.mark.parametrize(
        ("spec", "successes", "trials"),
        [
            (op.op_recall(0.5), lambda p: p[Y == 1].sum(), lambda p: (Y == 1).sum()),
            (op.op_fnr(0.5), lambda p: (~p)[Y == 1].sum(), lambda p: (Y == 1).sum()),
            (op.op_specificity(0.5), lambda p: (~p)[Y == 0].sum(), lambda p: (Y == 0).sum()),
            (op.op_fpr(0.5), lambda p: p[Y == 0].sum(), lambda p: (Y == 0).sum()),
            (op.op_precision(0.5), lambda p: p[Y == 1].sum(), lambda p: p.sum()),
            (op.op_accuracy(0.5), lambda p: (p == Y).sum(), lambda p: len(Y)),
        ],
        ids=lambda part: getattr(part, "name", ""),
    )
    def test_wilson_interval_of_the_counts(self, spec: Any, successes: Any, trials: Any) -> None:
        predicted = S >= 0.5
        k, n = int(successes(predicted)), int(trials(predicted))
        cell = scorecard(Y, S, metrics=[spec], confidence=0.9)[spec.name]
        expected = wilson_interval(k, n, confidence=0.9)
        assert cell.value == k / n
        assert cell.ci is not None
        assert (cell.ci.ci_low, cell.ci.ci_high) == (expected.low, expected.high)
        assert (cell.ci.method, cell.ci.n_resamples) == ("wilson", 0)
        assert (cell.ci.confidence, cell.ci.n_units) == (0.9, 150)

    def test_it_holds_at_any_n(self) -> None:
        cell = scorecard([1, 1, 0], [0.9, 0.8, 0.1], metrics=[op.op_recall(0.5)])[
            "op_recall_at_0.5"
        ]
        assert cell.ci is not None
        assert cell.ci.method == "wilson"
        assert cell.ci.ci_low == pytest.approx(wilson_interval(2, 2).low)
        assert cell.reason == ""

    def test_what_is_no_share_is_made_of_shares(self) -> None:
        for spec in (op.op_f1(0.5), op.op_mcc(0.5), op.op_balanced_accuracy(0.5)):
            for method, name in ((None, "score, propagated"), ("BCa", "BCa")):
                ci = scorecard(Y, S, metrics=[spec], method=method)[spec.name].ci
                assert ci is not None
                assert ci.method == name

    def test_grouped_rows_are_no_independent_trials(self) -> None:
        card = scorecard(Y, S, metrics=[op.op_recall(0.5)], groups=np.arange(150) % 30)
        ci = card["op_recall_at_0.5"].ci
        assert ci is not None
        assert ci.method == "wilson, groups"
        alone = scorecard(Y, S, metrics=[op.op_recall(0.5)])["op_recall_at_0.5"].ci
        assert alone is not None
        assert ci.ci_high - ci.ci_low > alone.ci_high - alone.ci_low


class TestAssumedPrior:
    PRIOR = 0.05

    def weights(self) -> Any:
        share = Y.mean()
        return np.where(Y == 1, self.PRIOR / share, (1 - self.PRIOR) / (1 - share))

    @pytest.mark.parametrize(
        ("spec", "oracle"),
        [
            (ms.pr_auc, sk.average_precision_score),
            (ms.roc_auc, sk.roc_auc_score),
            (ms.brier, sk.brier_score_loss),
            (ms.log_loss, sk.log_loss),
        ],
        ids=lambda part: getattr(part, "name", ""),
    )
    def test_equals_scikit_learn_with_weights(self, spec: Any, oracle: Any) -> None:
        cell = scorecard(Y, S, metrics=[spec], assumed_prior=self.PRIOR, n_resamples=64)[spec.name]
        assert cell.value == pytest.approx(oracle(Y, S, sample_weight=self.weights()), abs=1e-12)
        assert cell.ci is not None
        assert cell.details == {"eval_prior": Y.mean(), "assumed_prior": self.PRIOR}

    @pytest.mark.parametrize(
        ("spec", "oracle"),
        [
            (op.op_f1(0.5), sk.f1_score),
            (op.op_accuracy(0.5), sk.accuracy_score),
            (op.op_recall(0.5), sk.recall_score),
            (op.op_mcc(0.5), sk.matthews_corrcoef),
            (op.op_balanced_accuracy(0.5), sk.balanced_accuracy_score),
            (op.op_kappa(0.5), sk.cohen_kappa_score),
        ],
        ids=lambda part: getattr(part, "name", ""),
    )
    def test_at_a_threshold_too(self, spec: Any, oracle: Any) -> None:
        cell = scorecard(Y, S, metrics=[spec], assumed_prior=self.PRIOR)[spec.name]
        expected = oracle(Y, S >= 0.5, sample_weight=self.weights())
        assert cell.value == pytest.approx(expected, abs=1e-12)
        assert cell.ci is not None
        # Recall rests on positives alone; what mixes the classes is made of their rates.
        at_any_prior = spec.name == "op_recall_at_0.5"
        assert cell.ci.method == ("wilson" if at_any_prior else "score, propagated")
        assert cell.ci.ci_low < cell.value < cell.ci.ci_high

    def test_precision_is_precision_at_prior(self) -> None:
        card = scorecard(Y, S, metrics=[op.op_precision(0.5)], assumed_prior=self.PRIOR)
        projected = metrics.precision_at_prior(Y, S, 0.5, self.PRIOR)
        cell = card["op_precision_at_0.5"]
        assert cell.value == pytest.approx(projected["precision_at_assumed_prior"], abs=1e-12)
        assert cell.value < projected["precision_at_eval_prior"]

    def test_net_benefit_by_hand(self) -> None:
        cell = scorecard(Y, S, metrics=[op.op_net_benefit(0.3)], assumed_prior=self.PRIOR)[
            "op_net_benefit_at_0.3"
        ]
        tpr, fpr = (S >= 0.3)[Y == 1].mean(), (S >= 0.3)[Y == 0].mean()
        expected = self.PRIOR * tpr - (1 - self.PRIOR) * fpr * 0.3 / 0.7
        assert cell.value == pytest.approx(expected, abs=1e-12)

    def test_provenance_of_the_threshold_is_kept(self) -> None:
        spec = op.op_f1(MaxF1Selector(), ci_policy="fixed")
        details = scorecard(Y, S, metrics=[spec], assumed_prior=0.2)[spec.name].details
        assert details["criterion"] == "max_f1"
        assert details["threshold"] == MaxF1Selector().select(Y, S).threshold
        assert details["assumed_prior"] == 0.2

    def test_the_data_s_own_prior_changes_nothing(self) -> None:
        own = scorecard(Y, S, metrics=SIX, assumed_prior=float(Y.mean()), n_resamples=64)
        plain = scorecard(Y, S, metrics=SIX, n_resamples=64)
        for name, cell in plain.items():
            assert own[name].value == pytest.approx(cell.value, abs=1e-12)

    def test_specs_without_weights_say_so(self) -> None:
        refit = op.op_f1(MaxF1Selector(), ci_policy="refit")
        specs = [Spec("mine", 0.5), ms.pr_auc, refit]
        card = scorecard(Y, S, metrics=specs, assumed_prior=0.1, n_resamples=50)
        message = "InvalidInputError: {} cannot be reported at an assumed prior"
        assert card["mine"].reason.startswith(message.format("mine"))
        assert card[refit.name].reason.startswith(message.format(refit.name))
        assert (card["mine"].status, card["pr_auc"].status) == ("error", "ok")

    def test_one_class_is_skipped_not_raised(self) -> None:
        card = scorecard([1] * 20, [0.5] * 20, metrics=[ms.brier, ms.pr_auc], assumed_prior=0.1)
        assert {cell.status for cell in card.values()} == {"skipped"}
        assert "brier at an assumed prior is undefined: all 20 rows are positive" in (
            card["brier"].reason
        )
