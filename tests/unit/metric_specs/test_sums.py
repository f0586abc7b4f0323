"""Functions of sums, and metrics of labels and scores read from other columns."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from eval_toolkit import metric_specs as ms
from eval_toolkit.analysis import compare_records
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.inference import bootstrap_ci, mean_se, paired_bootstrap_diff
from eval_toolkit.metric_specs.sums import columns_read
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.scorecards import MetricResult, Records, scorecard, summarise

RNG = np.random.default_rng(3)
N = 80
BYTES = RNG.integers(5, 60, N).astype(float)
BITS = BYTES * RNG.uniform(0.5, 2.0, N)
RIGHT = RNG.binomial(1, 0.6, N)
SURE = np.clip(0.3 * RIGHT + RNG.uniform(0, 0.7, N), 0, 1)
IDS = [f"u{i:02d}" for i in range(N)]
GROUPS = [f"g{i // 4:02d}" for i in range(N)]
RATIO = ms.ratio_of("ratio", "bits", "bytes", higher_is_better=False)


def records(group: Any = None, **columns: Any) -> Records:
    given = {"bits": BITS, "bytes": BYTES, "right": RIGHT, "sure": SURE, **columns}
    return Records.from_columns(given, unit_id=IDS, group=group)


def ratio_cell(of: Records, **options: Any) -> MetricResult:
    return summarise(of, [RATIO], **options)["ratio"]


class TestFromSums:
    def test_the_value_is_the_function_of_the_sums(self) -> None:
        cell = ratio_cell(records())
        assert cell.value == pytest.approx(BITS.sum() / BYTES.sum(), rel=1e-14)
        assert cell.value != pytest.approx((BITS / BYTES).mean(), rel=1e-6)
        assert (cell.n_units, cell.n_groups, cell.details["higher_is_better"]) == (N, N, False)

    def test_a_ratio_over_a_constant_is_a_mean_with_its_interval(self) -> None:
        spec = ms.ratio_of("mean", "bits", "one")
        # In ascending order, the one in which rows of one column are drawn.
        of = Records.from_columns({"bits": np.sort(BITS), "one": np.ones(N)}, unit_id=IDS)
        both = summarise(of, [spec, ms.mean_of("bits")], method="BCa")
        assert both["mean"].ci.ci_low == pytest.approx(both["bits"].ci.ci_low, rel=1e-12)  # type: ignore[union-attr]
        assert both["mean"].ci.ci_high == pytest.approx(both["bits"].ci.ci_high, rel=1e-12)  # type: ignore[union-attr]

    @pytest.mark.parametrize("group", [None, GROUPS], ids=["units", "groups"])
    def test_the_standard_error_of_a_mean_is_that_of_the_mean(self, group: Any) -> None:
        spec = ms.ratio_of("mean", "bits", "one")
        error = summarise(records(group, one=np.ones(N)), [spec])["mean"].details["standard_error"]
        assert error == pytest.approx(mean_se(BITS, groups=group).se, rel=1e-9)

    def test_the_standard_error_is_near_that_of_the_delta_method(self) -> None:
        # Var(R) = Σ (bits - R bytes)² / (Σ bytes)², the textbook linearisation of a ratio.
        ratio = BITS.sum() / BYTES.sum()
        textbook = np.sqrt(((BITS - ratio * BYTES) ** 2).sum()) / BYTES.sum()
        error = ratio_cell(records()).details["standard_error"]
        assert error == pytest.approx(textbook, rel=0.05)

    def test_the_interval_is_that_of_scipys_bootstrap(self) -> None:
        ours = ratio_cell(records(), n_resamples=20_000).ci
        theirs = stats.bootstrap(
            (BITS, BYTES),
            lambda bits, bytes_, axis: bits.sum(axis=axis) / bytes_.sum(axis=axis),
            paired=True,
            vectorized=True,
            n_resamples=20_000,
            method="BCa",
            rng=np.random.default_rng(1),
        ).confidence_interval
        assert ours is not None
        width = theirs.high - theirs.low
        assert ours.method == "BCa"
        assert ours.ci_low == pytest.approx(theirs.low, abs=0.03 * width)
        assert ours.ci_high == pytest.approx(theirs.high, abs=0.03 * width)

    @pytest.mark.parametrize("method", ["percentile", "basic", "studentized", "BCa"])
    def test_every_bootstrap_is_there(self, method: str) -> None:
        ci = ratio_cell(records(), method=method).ci
        assert ci is not None
        assert ci.method == method
        assert ci.ci_low < BITS.sum() / BYTES.sum() < ci.ci_high

    def test_a_closed_form_is_not_and_says_so(self) -> None:
        cell = ratio_cell(records(), method="wilson")
        assert cell.reason == "wilson applies only to means of columns"
        assert cell.ci == ratio_cell(records()).ci

    def test_whole_groups_are_drawn(self) -> None:
        assert ratio_cell(records(GROUPS)).ci.method == "bootstrap SE, t, groups"  # type: ignore[union-attr]
        cell = ratio_cell(records(GROUPS), method="BCa")
        assert cell.ci is not None
        assert (cell.ci.method, cell.n_groups) == ("BCa, groups", 20)
        # Groups as units of their own: the same sums, the same draws.
        starts = np.arange(0, N, 4)
        merged = Records.from_columns(
            {"bits": np.add.reduceat(BITS, starts), "bytes": np.add.reduceat(BYTES, starts)},
            unit_id=[GROUPS[at] for at in starts],
        )
        apart = ratio_cell(merged, method="BCa")
        assert apart.ci is not None
        assert cell.ci.ci_low == pytest.approx(apart.ci.ci_low, rel=1e-9)
        assert cell.details["standard_error"] == pytest.approx(apart.details["standard_error"])

    def test_attempts_are_reduced_to_units_first(self) -> None:
        of = Records.from_columns(
            {"bits": [2.0, 4.0, 9.0], "bytes": [1.0, 3.0, 3.0]}, unit_id=["a", "a", "b"]
        )
        assert ratio_cell(of).value == (3.0 + 9.0) / (2.0 + 3.0)
        assert ratio_cell(of, reduce="first").value == (2.0 + 9.0) / (1.0 + 3.0)

    def test_a_unit_counts_if_all_its_columns_are_there(self) -> None:
        of = Records.from_columns(
            {"bits": [2.0, None, 6.0], "bytes": [1.0, 3.0, None]},
            status={"bits": ["ok", "error", "ok"], "bytes": ["ok", "ok", "skipped"]},
        )
        cell = ratio_cell(of)
        assert (cell.value, cell.n_units, cell.n_errors, cell.n_skipped) == (2.0, 1, 1, 1)

    def test_a_failure_counts_as_nothing_it_could_be(self) -> None:
        of = Records.from_columns(
            {"bits": [2.0, None], "bytes": [1.0, None]},
            status={key: ["ok", "error"] for key in ("bits", "bytes")},
        )
        cell = ratio_cell(of, on_error="as_zero")
        assert (cell.status, cell.value) == ("skipped", None)
        assert "ratio has no worst value" in cell.reason
        with pytest.raises(InvalidInputError, match="on_error is 'fail'"):
            ratio_cell(of, on_error="fail")

    def test_nothing_measured_is_an_error_cell(self) -> None:
        of = Records.from_columns(
            {"bits": [None], "bytes": [1.0]}, status={"bits": ["error"], "bytes": ["ok"]}
        )
        assert ratio_cell(of).status == "error"

    def test_an_undefined_value_is_skipped_by_name(self) -> None:
        cell = ratio_cell(records(bytes=np.zeros(N)))
        assert cell.status == "skipped"
        assert cell.reason == "ratio is undefined for the sums of these units"

    @pytest.mark.parametrize("group", [None, GROUPS], ids=["units", "groups"])
    def test_draws_without_a_value_are_counted_and_too_many_stop_the_interval(
        self, group: Any
    ) -> None:
        rare = np.zeros(N)
        rare[:4] = 1.0
        cell = ratio_cell(records(group, bytes=rare))
        assert cell.status == "ok"
        assert cell.ci is None or cell.ci.n_undefined > 0
        if group is not None:  # one group of twenty has them all
            assert "undefined on" in cell.reason
            assert "standard_error" not in cell.details

    def test_parts_have_cells_of_their_own(self) -> None:
        of = Records.from_columns(
            {"bits": BITS, "bytes": BYTES}, slices={"half": ["a", "b"] * (N // 2)}
        )
        card = summarise(of, [RATIO], by="half", macro=True)
        assert card.slices["a"]["ratio"].value == pytest.approx(BITS[::2].sum() / BYTES[::2].sum())
        assert set(card) == {"ratio"}  # a mean over parts is of means

    def test_no_name_collides_with_the_catalogue(self) -> None:
        spec = ms.from_sums("roc_auc", ["bits"], lambda sums: sums[:, 0])
        assert summarise(records(), [spec])["roc_auc"].value == pytest.approx(BITS.sum())

    def test_an_executor_changes_nothing(self) -> None:
        with ThreadPoolExecutor(2) as pool:
            assert ratio_cell(records(GROUPS), executor=pool) == ratio_cell(records(GROUPS))

    def test_few_units_have_a_value_and_no_interval(self) -> None:
        cell = ratio_cell(records().take(range(5)))
        assert cell.ci is None
        assert cell.reason.startswith("bootstrap unavailable: 5 rows")

    @given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), min_size=1, max_size=30))
    def test_any_counts_give_their_ratio(self, pairs: list[tuple[int, int]]) -> None:
        above, below = zip(*pairs, strict=True)
        of = Records.from_columns({"bits": above, "bytes": below})
        value = ratio_cell(of, n_resamples=64).value
        assert value == pytest.approx(sum(above) / sum(below))


class TestMistakes:
    def test_arguments_are_checked(self) -> None:
        first = itertools.repeat(lambda sums: sums[:, 0])
        with pytest.raises(InvalidInputError, match="`name` is ''"):
            ms.from_sums("", ["bits"], next(first))
        with pytest.raises(InvalidTypeError, match="`columns` is 'bits'"):
            ms.from_sums("x", "bits", next(first))
        with pytest.raises(InvalidInputError, match="at least one column"):
            ms.from_sums("x", [], next(first))
        with pytest.raises(InvalidTypeError, match="`function` is 3"):
            ms.from_sums("x", ["bits"], 3)  # type: ignore[arg-type]

    def test_a_function_of_the_wrong_shape_is_an_error_cell(self) -> None:
        spec = ms.from_sums("total", ["bits"], lambda sums: sums.sum())
        cell = summarise(records(), [spec])["total"]
        assert cell.status == "error"
        assert "one value per draw" in cell.reason

    def test_a_column_that_is_not_there_is_named(self) -> None:
        with pytest.raises(InvalidInputError, match="no column 'words'"):
            summarise(records(), [ms.ratio_of("x", "bits", "words")])

    def test_labels_and_scores_are_not_what_it_is_made_of(self) -> None:
        assert isinstance(RATIO, MetricSpec)
        with pytest.raises(InvalidInputError, match="use `summarise`"):
            RATIO.compute([0, 1], [0.1, 0.2])
        assert scorecard([0, 1], [0.1, 0.2], metrics=[RATIO])["ratio"].status == "error"

    def test_what_a_spec_reads(self) -> None:
        assert columns_read(RATIO) == ("bits", "bytes")
        assert columns_read(ms.on_columns(ms.brier, label="right", score="sure")) == (
            "right",
            "sure",
        )


def on(spec: Any, name: str = "x") -> ms.ScoreSpec:
    return ms.on_columns(spec, label="right", score="sure", name=name)


class TestOnColumns:
    @pytest.mark.parametrize("spec", [ms.ece(), ms.brier, ms.roc_auc, ms.log_loss])
    def test_it_is_the_metric_of_these_columns(self, spec: Any) -> None:
        cell = summarise(records(), [on(spec)], seed=5)["x"]
        ci = bootstrap_ci(RIGHT, SURE, spec, seed=5)
        assert cell.value == spec.compute(RIGHT, SURE)
        assert cell.ci is not None
        # Means are summed in the order of the rows, which is not the canonical one.
        assert (cell.ci.ci_low, cell.ci.ci_high) == pytest.approx(
            (ci.ci_low, ci.ci_high), rel=1e-14
        )
        assert cell.details["higher_is_better"] is spec.higher_is_better
        assert cell.details["metric"] == spec.name

    def test_attempts_that_differ_count_as_rows_drawn_together(self) -> None:
        of = Records.from_columns(
            {"right": RIGHT, "sure": SURE}, unit_id=[IDS[i // 2] for i in range(N)]
        )
        cell = summarise(of, [on(ms.brier)])["x"]
        assert cell.value == pytest.approx(ms.brier.compute(RIGHT, SURE))
        assert (cell.n_units, cell.n_groups, cell.details["n_attempts"]) == (N // 2, N // 2, N)
        assert cell.ci is not None
        assert cell.ci.method == "gaffke, groups"
        assert cell.ci.n_units == N // 2

    def test_one_class_alone_is_skipped_by_name(self) -> None:
        cell = summarise(records(right=np.ones(N)), [on(ms.roc_auc)])["x"]
        assert cell.status == "skipped"
        assert "roc_auc" in cell.reason

    def test_a_label_that_is_none_is_refused(self) -> None:
        with pytest.raises(
            InvalidInputError, match=r"column 'right' has a unit with the value 0\.5"
        ):
            summarise(records(right=np.full(N, 0.5)), [on(ms.brier)])

    def test_both_kinds_of_columns_side_by_side(self) -> None:
        of = records(label=RIGHT, score=SURE)
        card = summarise(of, [ms.brier, on(ms.brier)])
        assert card["brier"].ci == card["x"].ci
        assert list(card) == ["brier", "x"]

    def test_names(self) -> None:
        assert ms.on_columns(ms.brier, label="right", score="sure").name == "sure_brier"
        with pytest.raises(InvalidTypeError, match="metric of labels and scores"):
            ms.on_columns(ms.mean_of("x"), label="a", score="b")  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="`label` is ''"):
            ms.on_columns(ms.brier, label="", score="b")


class TestCompared:
    """B is A with a little more of everything that was right."""

    better = np.clip(SURE + 0.2 * (RIGHT - 0.5), 0, 1)

    def cell(self, a: Records, b: Records, spec: Any) -> Any:
        return compare_records({"s": a}, {"s": b}, [spec])["s", "", spec.name]

    @pytest.mark.parametrize("spec", [ms.brier, ms.roc_auc])
    def test_with_one_label_it_is_the_paired_difference(self, spec: Any) -> None:
        cell = self.cell(records(), records(sure=self.better), on(spec))
        diff = paired_bootstrap_diff(RIGHT, SURE, self.better, spec)
        assert (cell.delta, cell.ci_low, cell.ci_high) == (diff.delta, diff.ci_low, diff.ci_high)
        assert cell.p_value == diff.p_value
        assert cell.method == diff.method

    def test_calibration_errors_are_not_tested(self) -> None:
        cell = self.cell(records(), records(sure=self.better), on(ms.ece()))
        diff = paired_bootstrap_diff(RIGHT, SURE, self.better, ms.ece())
        assert (cell.value_a, cell.value_b) == (diff.value_a, diff.value_b)
        assert (cell.delta, cell.ci_low, cell.p_value) == (diff.delta, None, None)
        assert cell.verdict == "not tested"

    def test_each_side_has_its_own_labels(self) -> None:
        other = 1 - RIGHT
        cell = self.cell(records(), records(right=other, sure=1.0 - SURE), on(ms.brier))
        assert cell.value_a == pytest.approx(cell.value_b)
        assert cell.delta == pytest.approx(0.0, abs=1e-12)
        assert cell.value_b == pytest.approx(ms.brier.compute(other, 1.0 - SURE))

    def test_sums_are_drawn_together(self) -> None:
        cell = self.cell(records(), records(bits=BITS * 1.1), RATIO)
        assert cell.value_b == pytest.approx(1.1 * cell.value_a)
        assert cell.ci_low == pytest.approx(0.1 * cell.value_a, rel=0.3)  # nearly no noise is left
        assert cell.verdict == "worse"

    def test_groups_and_few_units(self) -> None:
        cell = self.cell(records(GROUPS), records(GROUPS, bits=BITS * 1.1), RATIO)
        assert cell.method == "mover, groups"
        few = self.cell(records().take(range(4)), records(bits=BITS * 2).take(range(4)), RATIO)
        assert few.delta == pytest.approx(few.value_a)
        assert few.ci_low is None
        assert "at least 10" in few.reason

    def test_attempts_with_different_labels_are_skipped_by_name(self) -> None:
        ids = [IDS[i // 2] for i in range(N)]
        of = Records.from_columns({"right": [0, 1] * (N // 2), "sure": SURE}, unit_id=ids)
        cell = self.cell(of, of, on(ms.brier))
        assert cell.status == "skipped"
        assert "attempts at one unit have different labels" in cell.reason
