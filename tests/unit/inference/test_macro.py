"""The mean over parts: value, standard error, intervals, and what summarise and compare make of it."""

import math
from pathlib import Path

import numpy as np
import pytest
from statsmodels.stats.proportion import proportion_confint

from eval_toolkit import metric_specs as ms
from eval_toolkit.analysis import compare_runs
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.inference import macro_mean, mean_se
from eval_toolkit.runs import write_run
from eval_toolkit.scorecards import Records, summarise


def coin_flips(n_parts: int = 25, n: int = 100) -> Records:
    """25 subjects of 100 items, half of each right: the standard error is 0.05 / 5."""
    values = np.tile(np.arange(n) % 2, n_parts)
    return Records.from_columns(
        {"accuracy": values},
        unit_id=[f"{i:05d}" for i in range(n_parts * n)],
        slices={"subject": np.repeat([f"s{i:02d}" for i in range(n_parts)], n)},
    )


class TestStandardError:
    def test_25_subjects_of_100_coin_flips_give_0_010(self) -> None:
        card = summarise(coin_flips(), [ms.mean_of("accuracy")], by="subject", macro=True)
        cell = card["accuracy_macro"]
        assert cell.value == 0.5
        assert cell.details["standard_error"] == pytest.approx(0.0100, abs=1e-4)
        assert cell.details["n_parts"] == 25
        assert cell.n_units == 2500

    def test_is_the_root_of_the_squares_over_the_number_of_parts(self) -> None:
        rng = np.random.default_rng(3)
        parts = [rng.normal(size=n) for n in (5, 20, 50)]
        expected = math.sqrt(sum(mean_se(part).se ** 2 for part in parts)) / 3
        assert macro_mean(parts).se == pytest.approx(expected, rel=1e-12)

    def test_of_groups_is_cluster_robust_part_by_part(self) -> None:
        rng = np.random.default_rng(4)
        parts = [rng.normal(size=n) for n in (12, 30)]
        groups = [np.arange(12) // 3, 100 + np.arange(30) // 5]
        expected = math.sqrt(
            sum(mean_se(p, groups=g).se ** 2 for p, g in zip(parts, groups, strict=True))
        )
        assert macro_mean(parts, groups=groups).se == pytest.approx(expected / 2, rel=1e-12)

    def test_a_group_across_parts_adds_up_before_it_is_squared(self) -> None:
        # the same four passages in both parts, with equal values: twice the deviation of one part
        values, groups = np.array([0.0, 1.0, 1.0, 3.0]), np.arange(4)
        apart = macro_mean([values, values])
        together = macro_mean([values, values], groups=[groups, groups])
        assert apart.se is not None
        assert together.se == pytest.approx(apart.se * math.sqrt(2), rel=1e-12)

    def test_parts_of_one_unit_take_their_spread_from_the_others(self) -> None:
        result = macro_mean([[1.5], [0.5, 2.5, 1.0], [0.25, 0.75]])
        assert "1 parts with a single unit use the variance" in result.reason
        assert result.se is not None
        assert macro_mean([[1.5]]).se is None
        assert "no part has two" in macro_mean([[1.5]]).reason

    def test_where_every_part_is_one_unit_parts_are_the_spread(self) -> None:
        values = [0.2, 0.9, 0.4, 0.5]
        result = macro_mean([[value] for value in values])
        assert result.se == pytest.approx(np.std(values, ddof=1) / 2.0)
        assert "the variance between parts is used" in result.reason


class TestInterval:
    def test_one_part_of_rates_is_agresti_coull(self) -> None:
        # with k = 1 the adjustment is z² pseudo-observations: statsmodels' Agresti–Coull
        values = np.repeat([1.0, 0.0], [18, 2])
        low, high = proportion_confint(18, 20, method="agresti_coull")
        ci = macro_mean([values]).ci
        assert ci is not None
        assert (ci.ci_low, ci.ci_high) == pytest.approx((low, min(high, 1.0)), abs=1e-12)

    def test_unanimous_parts_still_have_width(self) -> None:
        ci = macro_mean([[1, 1, 1], [1, 1, 1]]).ci
        assert ci is not None
        assert ci.ci_low < 0.9
        assert ci.ci_high == 1.0

    def test_real_values_without_spread_have_none(self) -> None:
        result = macro_mean([[2.0, 2.0], [3.0, 3.0]])
        assert result.ci is None
        assert "do not vary" in result.reason

    @pytest.mark.slow
    @pytest.mark.parametrize(("n", "p"), [(5, 0.9), (10, 0.5), (30, 0.97)])
    def test_covers(self, n: int, p: float) -> None:
        """Eight parts around p; 95 % nominal, within simulation error of at least 93 %."""
        rng = np.random.default_rng(11)
        shares = np.clip(p + np.linspace(-0.08, 0.03, 8), 0, 1)
        inside = 0
        for _ in range(2000):
            ci = macro_mean([(rng.random(n) < share).astype(float) for share in shares]).ci
            assert ci is not None
            inside += ci.ci_low <= shares.mean() <= ci.ci_high
        assert 0.93 <= inside / 2000 <= 0.995


class TestSummarise:
    def test_counts_each_part_the_same(self) -> None:
        records = Records.from_columns(
            {"x": [1, 1, 1, 0]}, slices={"subject": ["a", "a", "a", "b"]}
        )
        card = summarise(records, [ms.mean_of("x")], by="subject", macro=True)
        assert card["x"].value == 0.75
        assert card["x_macro"].value == 0.5

    def test_a_part_of_errors_is_counted_and_named(self) -> None:
        records = Records.from_columns(
            {"x": [1, 1, None, None]},
            slices={"subject": ["a", "a", "b", "b"]},
            status={"x": ["ok", "ok", "error", "error"]},
        )
        card = summarise(records, [ms.mean_of("x")], by="subject", macro=True)
        assert card.slices["b"]["x"].status == "error"
        assert card["x_macro"].reason.startswith("1 of 2 parts have no value")
        assert card["x_macro"].n_errors == 2
        up = ms.mean_of("x", higher_is_better=True)
        as_zero = summarise(records, [up], by="subject", macro=True, on_error="as_zero")
        assert as_zero["x_macro"].value == 0.5

    def test_needs_by(self) -> None:
        with pytest.raises(InvalidInputError, match="pass `by` as well"):
            summarise(coin_flips(2, 3), [ms.mean_of("accuracy")], macro=True)


class TestAttempts:
    records = Records.from_columns(
        {"ok": [1, 0, 0, 0, 0, 0, 1, 1, 1]}, unit_id=["a"] * 4 + ["b"] * 4 + ["c"]
    )

    def test_pass_at_k_by_hand(self) -> None:
        # a: 1 of 4 → 1 − C(3,2)/C(4,2) = 0.5; b: 2 of 4 → 1 − 1/6; c has too few attempts
        cell = summarise(self.records, [ms.pass_at_k("ok", 2)])["ok_pass@2"]
        assert cell.value == pytest.approx((0.5 + 5 / 6) / 2)
        assert (cell.n_units, cell.n_skipped) == (2, 1)

    def test_pass_hat_k_by_hand(self) -> None:
        cell = summarise(self.records, [ms.pass_hat_k("ok", 2)])["ok_pass^2"]
        assert cell.value == pytest.approx((0 + 1 / 6) / 2)

    def test_needs_right_or_wrong(self) -> None:
        records = Records.from_columns({"f1": [0.5, 1.0]}, unit_id=["a", "a"])
        with pytest.raises(InvalidInputError, match=r"f1_pass@2 needs a column of 0 and 1"):
            summarise(records, [ms.pass_at_k("f1", 2)])

    def test_too_few_everywhere_is_skipped(self) -> None:
        assert summarise(self.records, [ms.pass_at_k("ok", 9)])["ok_pass@9"].status == "skipped"


def test_compare_knows_directions_parts_and_attempts(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    specs = [ms.mean_of("loss", higher_is_better=False), ms.pass_at_k("ok", 2)]
    runs = []
    for name, shift in (("a", 0.0), ("b", 0.4)):
        records = Records.from_columns(
            {
                "loss": rng.normal(size=240) + shift,
                "ok": (rng.random(240) < 0.4 + shift).astype(float),
            },
            unit_id=np.repeat([f"{i:03d}" for i in range(60)], 4),
            slices={"subject": np.repeat(["x", "y", "z"], 80)},
        )
        card = summarise(records, specs, by="subject", macro=True)
        results = {
            "schema_version": "v1",
            "run_id": name,
            "config": {},
            "by_slice": {"t": {"n": 60, "by_scorer": {"m": card.to_dict()}}},
        }
        runs.append(
            write_run(
                tmp_path / name,
                results=results,
                manifest={"run_id": name},
                records={("t", "m"): records},
            )
        )
    cells = {cell.metric: cell for cell in compare_runs(*runs).cells}
    assert {name: cell.verdict for name, cell in cells.items()} == {
        "loss": "worse",
        "loss_macro": "not tested",
        "ok_pass@2": "better",
        "ok_pass@2_macro": "not tested",
    }
    assert cells["loss_macro"].delta == pytest.approx(cells["loss"].delta)  # parts of equal size
    assert cells["loss_macro"].n_units == 60


def test_groups_that_span_parts_have_no_more_degrees_of_freedom_than_groups() -> None:
    """Eight items in five languages: 8 groups, 7 degrees of freedom, not 35."""
    rng = np.random.default_rng(0)
    item = rng.normal(size=8)
    parts = [item + 0.1 * rng.normal(size=8) for _ in range(5)]
    found = macro_mean(parts, groups=[np.arange(8)] * 5)
    assert found.df <= 7.0
