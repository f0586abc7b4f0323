"""`summarise`: records of rows, samples and rollouts end in the same cells."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from tests.support.each import each

from eval_toolkit import metric_specs as ms
from eval_toolkit import op_metric_specs as op
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.inference import (
    BootstrapCI,
    agresti_coull_interval,
    beta_binomial_interval,
    clopper_pearson_interval,
    clustered_rate,
    jeffreys_interval,
    t_interval,
    wilson_interval,
)
from eval_toolkit.metrics import pr_auc
from eval_toolkit.scorecards import MetricResult, Records, scorecard, summarise

RNG = np.random.default_rng(12)
N = 60
IDS = [f"q{i:02d}" for i in range(N)]
BINARY = RNG.binomial(1, 0.7, N).astype(float)
EXACT = RNG.integers(0, 9, N) / 8  # eighths: averaging equal values is exact
LABELS = RNG.binomial(1, 0.5, N)
SCORES = np.clip(0.4 * LABELS + RNG.uniform(0, 0.6, N), 0, 1)
TWENTY = [f"g{i // 3:02d}" for i in range(N)]


def as_rows(values: Sequence[float], group: Sequence[str] | None) -> Records:
    return Records.from_rows(LABELS, values, unit_id=IDS, group=group)


def as_samples(values: Sequence[float], group: Sequence[str] | None) -> Records:
    return Records.from_columns({"score": values}, unit_id=IDS, group=group)


def as_rollouts(values: Sequence[float], group: Sequence[str] | None) -> Records:
    """Three tries at each unit that agree, given try by try."""
    return Records.from_columns(
        {"score": list(values) * 3},
        unit_id=IDS * 3,
        attempt=np.repeat([1, 2, 3], N),
        group=None if group is None else list(group) * 3,
    )


def mean_cell(records: Records, column: str = "score", **options: Any) -> MetricResult:
    return summarise(records, [ms.mean_of(column)], **options)[column]


def interval(cell: MetricResult) -> BootstrapCI:
    assert cell.ci is not None
    return cell.ci


def width(cell: MetricResult) -> float:
    return interval(cell).ci_high - interval(cell).ci_low


class TestOneKindOfCell:
    @pytest.mark.parametrize("method", [None, "BCa", "percentile", "t", "wilson", "jeffreys"])
    @pytest.mark.parametrize("group", [None, TWENTY], ids=["independent", "grouped"])
    def test_binary_values_entered_three_ways(self, method: str | None, group: Any) -> None:
        rows, samples, rollouts = (
            mean_cell(build(BINARY, group), method=method)
            for build in (as_rows, as_samples, as_rollouts)
        )
        assert rows == samples == rollouts
        assert rows.value == BINARY.mean()
        assert rows.n_units == N

    @pytest.mark.parametrize("group", [None, TWENTY], ids=["independent", "grouped"])
    def test_real_values_entered_three_ways(self, group: Any) -> None:
        rows, samples, rollouts = (
            mean_cell(build(EXACT, group)) for build in (as_rows, as_samples, as_rollouts)
        )
        assert rows == samples == rollouts
        method = "skewness-corrected t"
        assert interval(rows).method == (method if group is None else f"{method}, groups")

    def test_correctness_of_rows_is_their_accuracy(self) -> None:
        correct = ((SCORES >= 0.5) == LABELS).astype(float)
        mean = mean_cell(Records.from_columns({"correct": correct}), "correct")
        accuracy = scorecard(LABELS, SCORES, metrics=[op.op_accuracy(0.5)])["op_accuracy_at_0.5"]
        assert mean.value == accuracy.value
        assert mean.ci == accuracy.ci

    @pytest.mark.parametrize("group", [None, TWENTY], ids=["independent", "grouped"])
    def test_rows_summarised_are_rows_scored(self, group: Any) -> None:
        specs = [ms.pr_auc, ms.brier, ms.ece(), op.op_f1(0.5), op.op_recall(0.5)]
        records = Records.from_rows(LABELS, SCORES, unit_id=IDS, group=group)
        summarised = summarise(records, specs, seed=3, n_resamples=200)
        scored = scorecard(LABELS, SCORES, metrics=specs, seed=3, n_resamples=200, groups=group)
        assert summarised == scored

    def test_scored_rollouts_are_reduced_first(self) -> None:
        records = Records.from_columns(
            {"label": list(LABELS) * 2, "score": [*(SCORES - 0.125), *(SCORES + 0.125)]},
            unit_id=IDS * 2,
        )
        cell = summarise(records, [ms.roc_auc], seed=1)["roc_auc"]
        averaged = ((SCORES - 0.125) + (SCORES + 0.125)) / 2
        assert cell == scorecard(LABELS, averaged, metrics=[ms.roc_auc], seed=1)["roc_auc"]


class TestOrder:
    def shuffled(self, order: Any) -> Records:
        noisy = np.concatenate([EXACT, np.roll(EXACT, 7)])
        data: dict[str, Any] = {
            "score": noisy,
            "label": np.tile(LABELS, 2),
            "unit": np.array(IDS * 2),
            "attempt": np.repeat([1, 2], N),
            "group": np.array(TWENTY * 2),
            "part": np.array(["a", "b", "b"] * 40),
        }
        data = {name: values[order] for name, values in data.items()}
        return Records.from_columns(
            {"score": data["score"], "label": data["label"]},
            unit_id=data["unit"],
            attempt=data["attempt"],
            group=data["group"],
            slices={"part": data["part"]},
        )

    def test_input_order_never_matters(self) -> None:
        specs = [ms.mean_of("score"), ms.roc_auc, op.op_f1(0.5)]
        first = summarise(self.shuffled(np.arange(2 * N)), specs, by="part", n_resamples=100)
        for seed in range(3):
            order = np.random.default_rng(seed).permutation(2 * N)
            again = summarise(self.shuffled(order), specs, by="part", n_resamples=100)
            assert again == first


class TestAttempts:
    RECORDS = Records.from_columns(
        {"x": [0, 1, 1, 5, 2]}, unit_id=["a", "a", "a", "b", "b"], attempt=[1, 2, 3, 1, 2]
    )

    @pytest.mark.parametrize(
        ("reduce", "expected"),
        [
            ("mean", (2 / 3 + 3.5) / 2),
            ("median", (1 + 3.5) / 2),
            ("max", (1 + 5) / 2),
            ("min", (0 + 2) / 2),
            ("first", (0 + 5) / 2),
        ],
    )
    def test_reduced_to_units_before_the_mean(self, reduce: str, expected: float) -> None:
        cell = mean_cell(self.RECORDS, "x", reduce=reduce)
        assert cell.value == pytest.approx(expected, abs=1e-15)
        assert (cell.n_units, cell.n_groups) == (2, 2)

    def test_many_attempts_do_not_weigh_more(self) -> None:
        records = Records.from_columns({"x": [1] * 99 + [0]}, unit_id=["a"] * 99 + ["b"])
        assert mean_cell(records, "x").value == 0.5

    def test_repeating_attempts_buys_no_certainty(self) -> None:
        once = mean_cell(as_samples(EXACT, None))
        thrice = mean_cell(as_rollouts(EXACT, None))
        assert width(thrice) == width(once)


class TestGroups:
    def test_counts(self) -> None:
        cell = mean_cell(as_samples(BINARY, TWENTY))
        assert (cell.n_units, cell.n_groups) == (60, 20)
        assert (interval(cell).n_units, interval(cell).n_groups) == (60, 20)

    @pytest.mark.parametrize("method", ["BCa", "percentile", "t"])
    def test_clustered_values_have_a_wider_interval(self, method: str) -> None:
        # Members of a group of five agree: 100 values, 20 facts.
        values = np.repeat(RNG.binomial(1, 0.5, 20), 5).astype(float)
        groups = np.repeat(np.arange(20), 5)
        clustered = mean_cell(Records.from_columns({"x": values}, group=groups), "x", method=method)
        naive = mean_cell(Records.from_columns({"x": values}), "x", method=method)
        assert clustered.value == naive.value
        assert width(clustered) / width(naive) == pytest.approx(np.sqrt(5), rel=0.2)

    def test_groups_of_one_are_independent_units(self) -> None:
        renamed = [f"solo {unit}" for unit in IDS]
        assert mean_cell(as_samples(BINARY, renamed)) == mean_cell(as_samples(BINARY, None))

    def test_all_right_in_few_groups_is_not_certain(self) -> None:
        records = as_samples([1.0] * N, TWENTY)
        cell = summarise(records, [ms.mean_of("score", kind="share")])["score"]
        assert (cell.value, interval(cell).method) == (1.0, "wilson, groups")
        twenty = wilson_interval(20, 20)  # twenty groups are twenty units
        assert interval(cell).ci_low == pytest.approx(twenty.low, abs=0.001)
        assert interval(cell).ci_high == 1.0

    def test_five_groups_are_few_and_enough(self) -> None:
        cell = mean_cell(as_samples(BINARY, [str(i % 5) for i in range(N)]))
        rate = clustered_rate(BINARY == 1.0, [str(i % 5) for i in range(N)])
        assert (interval(cell).ci_low, interval(cell).ci_high) == (rate.low, rate.high)
        assert cell.details["n_groups_effective"] == 5.0

    def test_unequal_groups_are_worth_fewer(self) -> None:
        # One group with half of the rows: the mean rests on it and on the rest.
        groups = ["big"] * 30 + [str(i // 3) for i in range(30)]
        cell = mean_cell(as_samples(BINARY, groups))
        assert (cell.n_groups, round(cell.details["n_groups_effective"], 1)) == (11, 4.3)

    def test_one_group_says_so(self) -> None:
        cell = mean_cell(as_samples(BINARY, ["one"] * N))
        assert (cell.status, cell.ci) == ("ok", None)
        assert cell.reason == "no interval: 1 groups; at least 3 are needed"


class TestKinds:
    """The kind of a column is declared, or that of the whole column; never that of a slice."""

    def test_a_rating_of_twelve_ones_is_no_share(self) -> None:
        cell = mean_cell(Records.from_columns({"rating": [1] * 12}), "rating")
        assert (cell.value, cell.ci) == (1.0, None)
        assert "their bounds are not known" in cell.reason

    def test_declared_bounds_give_the_rating_its_interval(self) -> None:
        records = Records.from_columns({"rating": [1] * 12})
        cell = summarise(records, [ms.mean_of("rating", bounds=(1.0, 5.0))])["rating"]
        assert interval(cell).method == "gaffke"
        assert interval(cell).ci_low == 1.0
        # One surprise of 4 with a chance of 0.3 is likely to be missed in 12: 4 · 0.3 + 1.
        assert 1.9 < interval(cell).ci_high < 2.4

    def test_twelve_times_correct_is_a_share_by_its_name(self) -> None:
        cell = mean_cell(Records.from_columns({"correct": [1] * 12}), "correct")
        expected = wilson_interval(12, 12)
        assert interval(cell).ci_low == pytest.approx(expected.low)

    def test_slices_follow_the_whole_column(self) -> None:
        records = Records.from_columns(
            {"rating": [1.0, 1.0, 1.0, 0.0] * 5 + [1.0, 4.0, 3.0, 2.0] * 5},
            slices={"part": ["a"] * 20 + ["b"] * 20},
        )
        card = summarise(records, [ms.mean_of("rating")], by="part")
        assert card.slices["a"]["rating"].details["kind"] == "number"
        share = summarise(records, [ms.mean_of("rating", bounds=(0.0, 5.0))], by="part")
        assert interval(share.slices["a"]["rating"]).method == "gaffke"

    def test_averaged_attempts_of_a_share_are_bounded(self) -> None:
        records = Records.from_columns(
            {"correct": [1, 0] * 20}, unit_id=[str(i // 4) for i in range(40)]
        )
        cell = mean_cell(records, "correct")
        assert (cell.details["kind"], cell.n_units) == ("bounded", 10)
        assert 0.0 < interval(cell).ci_low < 0.5 < interval(cell).ci_high < 1.0

    def test_pass_at_k_near_one_is_not_certain(self) -> None:
        # 30 items with all of 6 attempts right: pass@5 is 1, and one item in 30 may yet fail.
        records = Records.from_columns(
            {"correct": [1] * 180}, unit_id=[str(i // 6) for i in range(180)]
        )
        cell = summarise(records, [ms.pass_at_k("correct", 5)])["correct_pass@5"]
        assert (cell.value, interval(cell).ci_high) == (1.0, 1.0)
        assert 0.86 < interval(cell).ci_low < 0.9  # 0.025^(1/30) is 0.884

    def test_pass_at_k_of_k_attempts_is_a_share(self) -> None:
        records = Records.from_columns(
            {"correct": [1, 0] * 20 + [0] * 40}, unit_id=[str(i // 2) for i in range(80)]
        )
        cell = summarise(records, [ms.pass_at_k("correct", 2)])["correct_pass@2"]
        expected = wilson_interval(20, 40)
        assert interval(cell).method == "wilson"
        assert (interval(cell).ci_low, interval(cell).ci_high) == (expected.low, expected.high)

    def test_a_share_has_the_bounds_of_one(self) -> None:
        assert ms.mean_of("hit", kind="share").bounds == (0.0, 1.0)
        with pytest.raises(InvalidInputError, match=r"with kind='share' it must be \(0, 1\)"):
            ms.mean_of("hit", kind="share", bounds=(0.0, 5.0))
        with pytest.raises(InvalidInputError, match="kind='bounded' both must be finite"):
            ms.mean_of("hit", kind="bounded")


PROPORTIONS: dict[str, Callable[..., Any]] = {
    "wilson": wilson_interval,
    "clopper-pearson": clopper_pearson_interval,
    "jeffreys": jeffreys_interval,
    "agresti-coull": agresti_coull_interval,
    "beta-binomial": beta_binomial_interval,
}


class TestMethods:
    def test_default_is_wilson_for_independent_binary_units(self) -> None:
        cell = mean_cell(as_samples(BINARY, None))
        assert interval(cell).method == "wilson"
        assert cell == mean_cell(as_samples(BINARY, None), method="wilson")

    @pytest.mark.parametrize("method", list(PROPORTIONS))
    @pytest.mark.parametrize("confidence", [0.9, 0.95])
    def test_closed_forms_for_proportions(self, method: str, confidence: float) -> None:
        cell = mean_cell(as_samples(BINARY, None), method=method, confidence=confidence)
        expected = PROPORTIONS[method](int(BINARY.sum()), N, confidence=confidence)
        got = interval(cell)
        assert (got.ci_low, got.ci_high) == (expected.low, expected.high)
        assert (got.method, got.n_resamples, got.confidence) == (method, 0, confidence)
        assert (got.n_units, got.n_groups) == (N, N)

    def test_beta_binomial_takes_groups(self) -> None:
        got = interval(mean_cell(as_samples(BINARY, TWENTY), method="beta-binomial"))
        groups, codes, trials = np.unique(TWENTY, return_inverse=True, return_counts=True)
        successes = np.bincount(codes, BINARY, len(groups)).astype(int)
        expected = PROPORTIONS["beta-binomial"](successes, trials)
        assert (got.ci_low, got.ci_high) == (expected.low, expected.high)
        assert (got.method, got.n_groups) == ("beta-binomial, groups", len(groups))

    @each(
        ("values", "group", "method"),
        [
            *((EXACT, None, method) for method in PROPORTIONS),
            *((BINARY, TWENTY, method) for method in PROPORTIONS if method != "beta-binomial"),
        ],
    )
    def test_they_are_not_stretched_to_what_they_do_not_fit(
        self, values: Any, group: Any, method: str
    ) -> None:
        cell = mean_cell(as_samples(values, group), method=method)
        assert (cell.status, cell.value, cell.ci) == ("ok", values.mean(), None)
        assert cell.reason == f"{method} needs 0/1 values of independent units; use BCa or t"

    @pytest.mark.parametrize("group", [None, TWENTY], ids=["independent", "grouped"])
    def test_student(self, group: Any) -> None:
        cell = mean_cell(as_samples(EXACT, group), method="t")
        expected = t_interval(EXACT, groups=group)
        assert (interval(cell).ci_low, interval(cell).ci_high) == (
            expected.ci_low,
            expected.ci_high,
        )
        assert interval(cell).method == expected.method

    def test_student_needs_two_units(self) -> None:
        cell = mean_cell(Records.from_columns({"score": [0.5]}), method="t")
        assert (cell.status, cell.value, cell.ci) == ("ok", 0.5, None)
        assert cell.reason.endswith("`values` has one value; it needs at least two")

    @pytest.mark.parametrize("method", ["BCa", "percentile", "basic", "studentized"])
    def test_bootstrap_methods(self, method: str) -> None:
        cell = mean_cell(as_samples(BINARY, None), method=method, n_resamples=300)
        assert (interval(cell).method, interval(cell).n_resamples) == (method, 300)
        assert interval(cell).ci_low < BINARY.mean() < interval(cell).ci_high
        # all near the normal interval of a proportion at this n
        spread = 2 * 1.96 * np.sqrt(BINARY.mean() * (1 - BINARY.mean()) / N)
        assert width(cell) == pytest.approx(spread, rel=0.2)

    def test_metrics_of_labels_and_scores_take_bootstrap_methods(self) -> None:
        records = Records.from_rows(LABELS, SCORES)
        card = summarise(records, [ms.roc_auc], method="percentile", n_resamples=100)
        assert interval(card["roc_auc"]).method == "percentile"

    def test_seed(self) -> None:
        records = as_samples(EXACT, None)
        cell, other = (mean_cell(records, method="BCa", seed=seed) for seed in (42, 43))
        assert mean_cell(records, method="BCa") == cell != other
        assert mean_cell(records) == mean_cell(records, seed=43)  # a closed form

    def test_a_column_may_be_called_like_a_metric(self) -> None:
        cell = mean_cell(Records.from_columns({"roc_auc": EXACT}), "roc_auc")
        assert (cell.status, cell.value) == ("ok", EXACT.mean())

    def test_few_units(self) -> None:
        cell = mean_cell(Records.from_columns({"score": [0.5, 0.25]}))
        assert cell.reason.startswith("no interval: 2 values; at least 3 are needed")
        assert interval(mean_cell(Records.from_columns({"score": [1, 0]}))).method == "wilson"


FAILING = Records.from_columns(
    {"x": [1, None, 1, None, None]},
    unit_id=["a", "a", "b", "c", "d"],
    attempt=[1, 2, 1, 1, 1],
    status={"x": ["ok", "error", "ok", "error", "skipped"]},
    reason={"x": ["", "timeout", "", "refused", "no reference"]},
)


class TestErrors:
    def test_excluded_and_counted(self) -> None:
        cell = mean_cell(FAILING, "x")
        assert (cell.status, cell.value) == ("ok", 1.0)
        assert (cell.n_units, cell.n_errors, cell.n_skipped) == (2, 2, 1)

    def test_as_zero(self) -> None:
        up = ms.mean_of("x", higher_is_better=True)
        cell = summarise(FAILING, [up], on_error="as_zero")["x"]
        assert cell.value == (0.5 + 1 + 0) / 3  # skipped is not an error
        assert (cell.n_units, cell.n_errors, cell.n_skipped) == (3, 2, 1)

    def test_as_zero_needs_a_direction(self) -> None:
        """Where 0 may be the best value there is, a failure is not counted as one."""
        cell = mean_cell(FAILING, "x", on_error="as_zero")
        assert (cell.value, cell.n_errors) == (1.0, 2)
        assert "2 errors are excluded" in cell.reason

    def test_fail_names_the_first_unit(self) -> None:
        message = r"unit 'a', attempt 2 failed \(timeout\) and on_error is 'fail'"
        with pytest.raises(InvalidInputError, match=message):
            mean_cell(FAILING, "x", on_error="fail")

    def test_fail_without_failures_is_fine(self) -> None:
        records = as_samples(BINARY, None)
        assert mean_cell(records, on_error="fail") == mean_cell(records)

    def scored(self, label_status: list[str], score_status: list[str]) -> Records:
        return Records.from_columns(
            {"label": [1, 0, 1, 0], "score": [0.9, 0.1, 0.8, 0.2]},
            status={"label": label_status, "score": score_status},
            reason={"score": ["", "", "no answer", ""]},
        )

    def test_a_failed_score_counts_as_zero_against_its_own_label(self) -> None:
        records = self.scored(["ok"] * 4, ["ok", "ok", "error", "ok"])
        excluded = summarise(records, [op.op_recall(0.5)])["op_recall_at_0.5"]
        zeroed = summarise(records, [op.op_recall(0.5)], on_error="as_zero")["op_recall_at_0.5"]
        assert (excluded.value, excluded.n_units) == (1.0, 3)
        assert (zeroed.value, zeroed.n_units) == (0.5, 4)  # a missed positive, not a negative
        assert excluded.n_errors == zeroed.n_errors == 1

    @pytest.mark.parametrize("label", ["error", "skipped"])
    def test_an_unknown_label_is_no_negative(self, label: str) -> None:
        records = self.scored(["ok", "ok", label, "ok"], ["ok", "ok", "error", "ok"])
        cell = summarise(records, [op.op_specificity(0.5)], on_error="as_zero")
        assert cell["op_specificity_at_0.5"].n_units == 3
        assert cell["op_specificity_at_0.5"].n_errors == 1

    def test_fail_tells_the_reason_of_the_column_that_failed(self) -> None:
        records = self.scored(["ok"] * 4, ["ok", "ok", "error", "ok"])
        with pytest.raises(InvalidInputError, match=r"unit '2', attempt 1 failed \(no answer\)"):
            summarise(records, [ms.pr_auc], on_error="fail")

    def test_one_metric_s_failures_are_its_own(self) -> None:
        records = Records.from_columns({"x": [1, 2], "y": [1, None]})
        card = summarise(records, [ms.mean_of("x"), ms.mean_of("y")])
        assert (card["x"].n_units, card["x"].n_skipped) == (2, 0)
        assert (card["y"].n_units, card["y"].n_skipped) == (1, 1)


class TestNothingMeasured:
    @pytest.mark.parametrize(
        ("states", "status", "reason"),
        [
            (["error", "error"], "error", "no unit has a value: 2 errors, 0 skipped"),
            (["error", "skipped"], "error", "no unit has a value: 1 errors, 1 skipped"),
            (["skipped", "skipped"], "skipped", "no unit has a value: 0 errors, 2 skipped"),
        ],
    )
    def test_the_cell_is_still_there(self, states: list[str], status: str, reason: str) -> None:
        records = Records.from_columns(
            {"score": [None, None], "label": [1, 0]}, status={"score": states}
        )
        card = summarise(records, [ms.mean_of("score"), ms.pr_auc])
        for cell in card.values():
            assert (cell.status, cell.value, cell.ci, cell.reason) == (status, None, None, reason)
            assert (cell.n_units, cell.n_groups) == (0, 0)
            assert (cell.n_errors, cell.n_skipped) == (
                states.count("error"),
                states.count("skipped"),
            )

    @pytest.mark.parametrize(
        ("states", "reasons", "why"),
        [
            (["skipped"] * 2, ["no tokens", "no tokens"], "0 errors, 2 skipped; no tokens"),
            (["error", "skipped"], ["timeout", "no tokens"], "1 errors, 1 skipped; timeout"),
            (["error"] * 3, ["b", "a", "b"], "3 errors, 0 skipped; most often: b"),
        ],
    )
    def test_it_says_why(self, states: list[str], reasons: list[str], why: str) -> None:
        n = len(states)
        records = Records.from_columns(
            {"score": [None] * n, "label": [1] * n},
            status={"score": states},
            reason={"score": reasons},
            slices={"part": ["x"] * n},
        )
        ratio = ms.from_sums("ratio", ["score", "label"], lambda sums: sums[:, 0] / sums[:, 1])
        metrics = [ms.mean_of("score"), ms.pr_auc, ratio]
        card = summarise(records, metrics, by="part", macro=True)
        for name in ("score", "pr_auc", "ratio"):
            assert card[name].reason == f"no unit has a value: {why}"
        assert card["score_macro"].reason == f"no part has a value: {why}"

    def test_too_few_attempts_are_said(self) -> None:
        records = Records.from_columns(
            {"x": [1, 0, 1]}, unit_id=["a", "a", "b"], status={"x": ["ok"] * 3}
        )
        cell = summarise(records, [ms.pass_at_k("x", 64)])["x_pass@64"]
        assert (cell.status, cell.reason) == (
            "skipped",
            "no unit has a value: 0 errors, 3 skipped; at most 2 of 64 attempts have a value",
        )

    def test_a_slice_in_which_everything_failed_has_its_cell(self) -> None:
        records = Records.from_columns(
            {"x": [1, 0, None, None]},
            slices={"part": ["fine", "fine", "broken", "broken"]},
            status={"x": ["ok", "ok", "error", "error"]},
        )
        card = summarise(records, [ms.mean_of("x")], by="part")
        assert list(card.slices) == ["broken", "fine"]
        assert card.slices["broken"]["x"].status == "error"
        assert card.slices["broken"]["x"].n_errors == 2
        assert (card["x"].value, card["x"].n_errors) == (0.5, 2)
        assert "| broken | x |" in card.to_markdown()

    def test_no_records_at_all(self) -> None:
        cell = mean_cell(Records.from_columns({"score": []}))
        assert (cell.status, cell.n_units) == ("skipped", 0)

    def test_one_class_only_is_skipped_for_the_metric_that_needs_two(self) -> None:
        records = Records.from_rows([1] * 12, np.linspace(0, 1, 12))
        card = summarise(records, [ms.pr_auc, ms.brier, ms.mean_of("score")])
        assert [cell.status for cell in card.values()] == ["skipped", "ok", "ok"]


class TestBy:
    def test_each_part_is_summarised_by_itself(self) -> None:
        part = np.array(["odd" if i % 2 else "even" for i in range(N)])
        records = Records.from_rows(LABELS, SCORES, unit_id=IDS, slices={"parity": part})
        specs = [ms.pr_auc, ms.mean_of("score")]
        card = summarise(records, specs, by="parity")
        assert list(card.slices) == ["even", "odd"]
        assert dict(card) == dict(summarise(records, specs))
        for name, cells in card.slices.items():
            assert dict(cells) == dict(summarise(records.take(part == name), specs))
            assert cells["pr_auc"].value == pr_auc(LABELS[part == name], SCORES[part == name])
            assert cells["pr_auc"].n_units == 30

    def test_parts_sum_up(self) -> None:
        records = Records.from_columns({"x": EXACT}, slices={"third": [i % 3 for i in range(N)]})
        card = summarise(records, [ms.mean_of("x")], by="third")
        assert list(card.slices) == ["0", "1", "2"]
        total = sum(c["x"].value * c["x"].n_units for c in card.slices.values())  # type: ignore[operator]
        assert total / N == pytest.approx(EXACT.mean())

    def test_without_by_there_are_no_slices(self) -> None:
        assert summarise(as_samples(BINARY, None), [ms.mean_of("score")]).slices == {}


class TestRefusals:
    @each(
        ("metrics", "options", "message"),
        [
            ([ms.mean_of("reward")], {}, r"no column 'reward'; they have \['label', 'score'\]"),
            ([ms.mean_of("score")], {"by": "lang"}, r"`by` is 'lang'; the slices are \[\]"),
            ([ms.pr_auc], {"reduce": "sum"}, "`reduce` is 'sum'; choose one of 'mean'"),
            ([ms.pr_auc], {"on_error": "ignore"}, "`on_error` is 'ignore'; choose one of"),
            ([ms.pr_auc], {"method": "normal"}, "`method` is 'normal'; choose one of 'BCa'"),
            ([ms.pr_auc], {"confidence": 95}, "`confidence` is 95; it must lie in"),
            ([ms.pr_auc], {"n_resamples": -1}, "`n_resamples` is -1; it must be at least 0"),
            ([ms.pr_auc, ms.pr_auc], {}, r"metrics\[1\] has the name 'pr_auc' of metrics\[0\]"),
            ([7], {}, r"metrics\[0\] is 7; a metric spec has"),
        ],
    )
    def test_message(self, metrics: Any, options: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            summarise(Records.from_rows(LABELS, SCORES), metrics, **options)

    def test_labels_must_be_labels(self) -> None:
        records = Records.from_columns({"label": [0, 1, 0.5], "score": [0.1, 0.2, 0.3]})
        with pytest.raises(
            InvalidInputError, match=r"has a unit with the value 0\.5; labels must be 0 or"
        ):
            summarise(records, [ms.pr_auc])

    def test_scored_metrics_need_both_columns(self) -> None:
        with pytest.raises(InvalidInputError, match="the records have no column 'label'"):
            summarise(as_samples(BINARY, None), [ms.pr_auc])


def test_seed_and_rng_are_one_argument_and_executors_change_nothing() -> None:
    records = as_samples(EXACT, TWENTY)
    spec = [ms.mean_of("score")]
    with ThreadPoolExecutor(2) as pool:
        parallel = summarise(records, spec, seed=7, executor=pool, method="BCa")
    assert parallel == summarise(records, spec, rng=7, method="BCa")
    assert parallel != summarise(records, spec, method="BCa")


def test_a_slice_that_has_each_unit_once_averages_nothing() -> None:
    """The same twelve items under two conditions: 0 and 1 in each, means of two in all."""
    values = np.array([0, 1, 1] * 4 + [1, 1, 0] * 4)
    records = Records.from_columns(
        {"flagged": values},
        unit_id=[f"i{i % 12:02d}" for i in range(24)],
        slices={"condition": ["a"] * 12 + ["b"] * 12},
    )
    card = summarise(records, [ms.mean_of("flagged")], by="condition")
    assert card["flagged"].ci.method == "gaffke"  # type: ignore[union-attr]
    for part in card.slices.values():
        ci = part["flagged"].ci
        assert ci is not None
        assert ci.method == "wilson"
        expected = wilson_interval(8, 12)
        assert (ci.ci_low, ci.ci_high) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize("method", [None, "t", "wilson", "BCa"])
def test_no_resamples_are_no_intervals(method: str | None) -> None:
    """Closed forms are left out as well; values, counts and standard errors stay."""
    records = Records.from_columns(
        {"label": LABELS, "score": SCORES, "right": (SCORES > 0.5) == LABELS},
        slices={"half": ["a", "b"] * (N // 2)},
    )
    specs = [
        ms.pr_auc,
        ms.brier,
        ms.mean_of("right"),
        ms.from_sums("ratio", ["right", "score"], lambda sums: sums[:, 0] / sums[:, 1]),
    ]
    options: dict[str, Any] = {"by": "half", "macro": True, "method": method}
    without, usual = (summarise(records, specs, n_resamples=n, **options) for n in (0, 200))
    assert [*without] == [*usual]
    for name, cell in usual.items():
        assert (without[name].value, without[name].status) == (cell.value, "ok")
        assert without[name].n_groups == cell.n_groups
        assert without[name].ci is None
        assert without[name].details == cell.details
    for half in without.slices.values():
        assert {cell.ci for cell in half.values()} == {None}


def test_labels_have_one_interval_in_both_places() -> None:
    ones = np.ones(30)
    expected = wilson_interval(30, 30)
    card = scorecard(ones, ones, metrics=[ms.mean_of("label")])["label"]
    summary = summarise(Records.from_rows(ones, ones), [ms.mean_of("label")])["label"]
    for cell in (card, summary):
        assert cell.ci is not None
        assert (cell.ci.method, cell.ci.ci_low, cell.ci.ci_high) == (
            "wilson",
            expected.low,
            expected.high,
        )


def test_a_share_does_not_leave_its_range_under_t() -> None:
    records = Records.from_columns({"x": [1, 1, 1, 0]})
    ci = summarise(records, [ms.mean_of("x")], method="t")["x"].ci
    assert ci is not None
    assert (ci.ci_low, ci.ci_high) == (0.0, 1.0)


def test_a_method_that_does_not_apply_is_said() -> None:
    y, s = np.arange(60) % 3 == 0, np.random.default_rng(4).random(60)
    cell = summarise(Records.from_rows(y, s), [ms.pr_auc], method="wilson")["pr_auc"]
    assert cell.ci is not None
    assert cell.ci.method == "score"
    assert cell.reason.startswith("wilson applies only to means of columns")
