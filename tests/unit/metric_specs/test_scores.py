"""Threshold-free specs: names, caching, validation, what they carry."""

import pickle
from typing import Any

import numpy as np
import pytest

from eval_toolkit import metric_specs as ms
from eval_toolkit import metrics
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, UndefinedMetricError
from eval_toolkit.inference import bootstrap_ci
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.scorecards import scorecard

RNG = np.random.default_rng(4)
Y = RNG.binomial(1, 0.5, 60)
S = np.clip(0.3 * Y + RNG.uniform(0, 0.7, 60), 0, 1)

ALL = [
    ms.pr_auc,
    ms.roc_auc,
    ms.brier,
    ms.log_loss,
    ms.smooth_ece,
    ms.ece(),
    ms.ece(strategy="quantile"),
    ms.recall_at_fpr(0.05),
    ms.partial_roc_auc(0.1),
    ms.mean_of("score"),
    ms.mean_of("label"),
]
every_spec = pytest.mark.parametrize("spec", ALL, ids=lambda spec: spec.name)


class TestEverySpec:
    @every_spec
    def test_is_a_metric_spec(self, spec: Any) -> None:
        assert isinstance(spec, MetricSpec)
        assert isinstance(spec.name, str)

    def test_names_are_unique(self) -> None:
        assert len({spec.name for spec in ALL}) == len(ALL)

    @every_spec
    def test_carried_statistic_agrees_with_compute(self, spec: Any) -> None:
        card = scorecard(Y, S, metrics=[spec], bootstrap=False)
        assert card[spec.name].value == spec.compute(Y, S)

    @every_spec
    def test_survives_pickle(self, spec: Any) -> None:
        clone = pickle.loads(pickle.dumps(spec))  # noqa: S301 - our own bytes
        assert clone.name == spec.name
        assert clone.compute(Y, S) == spec.compute(Y, S)

    @every_spec
    def test_value_lies_within_the_statistic_s_bounds(self, spec: Any) -> None:
        low, high = spec.statistic.bounds
        assert low <= spec.compute(Y, S) <= high

    @pytest.mark.parametrize("spec", [ms.pr_auc, ms.roc_auc, ms.recall_at_fpr(0.1)])
    def test_one_class_is_undefined(self, spec: Any) -> None:
        with pytest.raises(UndefinedMetricError, match="undefined"):
            spec.compute([1, 1, 1], [0.1, 0.2, 0.3])

    def test_direction(self) -> None:
        worse_when_higher = {spec.name for spec in ALL if spec.higher_is_better is False}
        assert worse_when_higher == {
            "brier",
            "log_loss",
            "smooth_ece",
            "ece_n_bins_15_strategy_uniform",
            "ece_n_bins_15_strategy_quantile",
        }


class TestSingletons:
    def test_names_equal_the_attributes(self) -> None:
        for name in ("pr_auc", "roc_auc", "brier", "log_loss", "smooth_ece"):
            assert getattr(ms, name).name == name

    def test_no_threshold_metric_is_here(self) -> None:
        assert not {"f1", "accuracy", "precision", "recall"} & set(ms.__all__)

    def test_all_lists_what_there_is(self) -> None:
        assert all(hasattr(ms, name) for name in ms.__all__)


class TestEce:
    def test_default_name(self) -> None:
        assert ms.ece().name == "ece_n_bins_15_strategy_uniform"
        assert ms.ece(n_bins=10, strategy="quantile").name == "ece_n_bins_10_strategy_quantile"

    def test_equal_arguments_give_the_identical_object(self) -> None:
        assert ms.ece() is ms.ece(n_bins=15) is ms.ece(strategy="uniform", n_bins=15)
        assert ms.ece(n_bins=10) is not ms.ece(n_bins=11)
        assert ms.ece(n_bins=np.int64(10)) is ms.ece(n_bins=10)  # type: ignore[arg-type]

    def test_cache_holds_128(self) -> None:
        assert ms.calibration._ece.cache_info().maxsize == 128

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ({"n_bins": 1}, InvalidInputError, "`n_bins` is 1; it must be at least 2"),
            ({"n_bins": 10.0}, InvalidTypeError, "`n_bins` must be an integer, got 10"),
            ({"strategy": "width"}, InvalidInputError, "`strategy` is 'width'; choose one of"),
        ],
    )
    def test_arguments_are_checked_at_once(
        self, arguments: dict[str, Any], error: type[Exception], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message) as caught:
            ms.ece(**arguments)
        assert caught.type is error

    def test_arguments_are_keywords(self) -> None:
        with pytest.raises(TypeError, match="takes 0 positional arguments"):
            ms.ece(10)  # type: ignore[misc]

    def test_values(self) -> None:
        assert ms.ece(n_bins=7).compute(Y, S) == metrics.expected_calibration_error(Y, S, 7)
        by_mass = metrics.expected_calibration_error_equal_mass(Y, S, 7)
        assert ms.ece(n_bins=7, strategy="quantile").compute(Y, S) == by_mass


class TestOtherFactories:
    def test_make_spec_name_sorts_its_parts(self) -> None:
        assert ms.make_spec_name("x") == "x"
        assert ms.make_spec_name("x", b=1, a="u") == "x_a_u_b_1"

    def test_recall_at_fpr(self) -> None:
        assert ms.recall_at_fpr(0.05) is ms.recall_at_fpr(0.05)
        expected = metrics.recall_at_fpr(Y, S, 0.05).recall
        assert ms.recall_at_fpr(0.05).compute(Y, S) == expected
        with pytest.raises(InvalidInputError, match=r"`target_fpr` is 1\.5; it must lie in"):
            ms.recall_at_fpr(1.5)

    def test_partial_roc_auc(self) -> None:
        assert ms.partial_roc_auc(0.1).compute(Y, S) == metrics.roc_auc(Y, S, max_fpr=0.1)
        with pytest.raises(InvalidInputError, match=r"`max_fpr` is 0; it must lie in \(0, 1\]"):
            ms.partial_roc_auc(0)

    @pytest.mark.parametrize("factory", [ms.recall_at_fpr, ms.partial_roc_auc])
    def test_close_limits_have_names_of_their_own(self, factory: Any) -> None:
        limits = (0.01, 0.010000001, 0.0100000011, 1e-9)
        assert len({factory(limit).name for limit in limits}) == len(limits)
        assert factory(0.01).name.endswith("_0.01")


class TestMeanOf:
    def test_name_is_the_column(self) -> None:
        spec = ms.mean_of("exact_match", higher_is_better=False)
        assert (spec.name, spec.column, spec.higher_is_better) == (
            "exact_match",
            "exact_match",
            False,
        )

    @pytest.mark.parametrize("column", ["", None, 3])
    def test_it_must_be_a_name(self, column: Any) -> None:
        with pytest.raises(
            InvalidInputError, match=r"`column` is .*; it must be a non-empty string"
        ):
            ms.mean_of(column)

    def test_labels_and_scores_are_columns(self) -> None:
        assert ms.mean_of("label").compute(Y, S) == Y.mean()
        assert ms.mean_of("score").compute(Y, S) == S.mean()

    def test_interval_is_of_the_named_column(self) -> None:
        interval = bootstrap_ci(Y, S, ms.mean_of("label"))
        assert interval.ci_low < Y.mean() < interval.ci_high
        standard_error = Y.std() / np.sqrt(60)
        width = interval.ci_high - interval.ci_low
        assert width == pytest.approx(2 * 1.96 * standard_error, rel=0.1)

    def test_other_columns_need_records(self) -> None:
        assert ms.mean_of("reward").statistic.columns == ("reward",)
        for use, message in (
            (lambda: ms.mean_of("reward").compute(Y, S), "needs records with that column"),
            (
                lambda: bootstrap_ci(Y, S, ms.mean_of("reward")),
                "there is no column 'reward'; the columns are 'label', 'score'; use `summarise`",
            ),
        ):
            with pytest.raises(InvalidInputError, match=message):
                use()


@pytest.mark.parametrize("bounds", [(1.0, 0.0), (0.5, 0.5), (float("nan"), 1.0)])
def test_bounds_are_the_smaller_before_the_larger(bounds: Any) -> None:
    for made in (
        lambda: ms.mean_of("reward", bounds=bounds),
        lambda: ms.ratio_of("share", "hits", "words", bounds=bounds),
    ):
        with pytest.raises(
            InvalidInputError, match=r"`bounds` is .* it must be \(smallest, largest\)"
        ):
            made()
