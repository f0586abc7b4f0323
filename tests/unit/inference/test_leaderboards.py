"""Ranks of systems on the same units: against closed forms, by properties, on made-up suites."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.support.each import each

from eval_toolkit.analysis import compare_runs, leaderboard
from eval_toolkit.errors import ArtifactError, InvalidInputError, InvalidTypeError
from eval_toolkit.inference import macro_mean, mean_interval, paired_mean_diff
from eval_toolkit.inference.leaderboards import rank_systems
from eval_toolkit.inference.paired_intervals import paired_shares
from eval_toolkit.runs import write_run
from eval_toolkit.scorecards import Records

PATTERNS = np.array([[1, 1, 0]] * 40 + [[1, 0, 0]] * 20 + [[0, 1, 0]] * 15 + [[0, 0, 1]] * 5)


@st.composite
def suites(draw):
    k = draw(st.integers(2, 4))
    parts = []
    for _ in range(draw(st.integers(1, 2))):
        n = draw(st.integers(3, 12))
        values = draw(st.lists(st.integers(0, 1), min_size=n * k, max_size=n * k))
        parts.append(np.array(values, dtype=float).reshape(n, k))
    return parts


class TestRanks:
    def test_values_are_means_of_part_means(self):
        parts = [PATTERNS, PATTERNS[:10, ::-1]]
        ranking = rank_systems(parts, names=["a", "b", "c"], n_draws=200)
        values = {system.name: system.value for system in ranking.systems}
        assert values["a"] == pytest.approx((60 / 80 + 0.0) / 2)
        assert values["c"] == pytest.approx((5 / 80 + 1.0) / 2)

    def test_own_interval_is_that_of_the_system_alone(self):
        ranking = rank_systems([PATTERNS], names=["a", "b", "c"], n_draws=200)
        alone = mean_interval(PATTERNS[:, 0], share=True)  # as `summarise` has it
        system = next(one for one in ranking.systems if one.name == "a")
        assert (system.ci.ci_low, system.ci.ci_high) == (alone.ci_low, alone.ci_high)

    @pytest.mark.parametrize("n_systems", [2, 3])
    @pytest.mark.parametrize("groups", [None, np.arange(80) // 4], ids=["rows", "groups"])
    def test_a_pair_of_shares_is_a_paired_share(self, groups, n_systems):
        given = None if groups is None else [groups]
        ranking = rank_systems([PATTERNS[:, :n_systems]], groups=given, n_draws=100)
        low, high, p_value, _ = paired_shares(
            *PATTERNS[:, [1, 0]].T.astype(float), groups=groups, confidence=0.95
        )
        pair = ranking.pairs[0]
        assert (pair.a, pair.b) == ("system 1", "system 2")
        assert (pair.ci_low, pair.ci_high, pair.p_value) == (low, high, p_value)

    @pytest.mark.parametrize("method", ["bootstrap", "bayes"])
    @pytest.mark.parametrize("n_parts", [1, 2])
    @pytest.mark.parametrize("discordant", range(1, 9))
    def test_interval_p_value_and_verdict_of_two_systems_agree(self, discordant, n_parts, method):
        """With 5 of 50 discordant p was 0.0625, and the interval called one system better."""
        a = np.arange(50) < 30
        b = np.arange(50) < 30 + discordant
        part = np.stack([a, b], axis=1).astype(float)
        pair = rank_systems([part] * n_parts, method=method, n_draws=2000).pairs[0]
        left_out = not pair.ci_low <= 0.0 <= pair.ci_high
        assert left_out == (pair.p_value <= 0.05) == (pair.better is not None)
        assert pair.p_adjusted == pair.p_value

    def test_the_correction_decides_and_not_the_interval(self):
        """5 of 50 discordant have p 0.025: one pair of three needs at most 0.05 / 3."""
        a, b, c = np.arange(50) < 30, np.arange(50) < 35, np.arange(50) < 32
        ranking = rank_systems([np.stack([a, b, c], axis=1)], names=list("abc"), n_draws=100)
        pair = next(pair for pair in ranking.pairs if {pair.a, pair.b} == {"a", "b"})
        assert pair.ci_low > 0.0
        assert pair.p_adjusted == pytest.approx(3 * pair.p_value)
        assert pair.better is None
        assert {system.rank_low for system in ranking.systems} == {1}
        alone = rank_systems(
            [np.stack([a, b, c], axis=1)], names=list("abc"), n_draws=100, adjust="none"
        )
        assert next(pair for pair in alone.pairs if pair.b == "a" and pair.a == "b").better == "b"

    def test_numbers_are_compared_as_two_runs_are(self):
        generator = np.random.default_rng(4)
        values = generator.lognormal(size=(30, 2))
        pair = rank_systems([values], names=["a", "b"], n_draws=100).pairs[0]
        other = paired_mean_diff(values[:, int(pair.b == "b")], values[:, int(pair.a == "b")])
        assert (pair.ci_low, pair.ci_high, pair.p_value) == (
            other.ci_low,
            other.ci_high,
            other.p_value,
        )

    def test_a_scale_of_zeros_and_ones_is_no_share(self):
        pair = rank_systems([PATTERNS[:, :2]], share=False, n_draws=100).pairs[0]
        a, b = PATTERNS[:, [1, 0]].T
        assert pair.p_value == paired_mean_diff(a, b, share=False).p_value
        with pytest.raises(InvalidInputError, match="neither 0 nor 1"):
            rank_systems([PATTERNS * 0.5], share=True)

    def test_systems_that_differ_by_rounding_do_not_differ(self):
        values = np.linspace(0.1, 0.9, 12)
        parts = [np.stack([values, values * 3 / 3 + 1e-16, values[::-1]], axis=1)]
        ranking = rank_systems(parts, names=["a", "b", "c"], n_draws=200)
        equal, *others = sorted(ranking.pairs, key=lambda pair: (pair.a, pair.b))
        assert (equal.p_value, equal.reason) == (None, "zero variance: all differences are equal")
        assert all(pair.p_value > 0.999 and pair.better is None for pair in others)
        assert {system.rank for system in ranking.systems} == {1}

    def test_simultaneous_intervals_contain_single_ones(self):
        for system in rank_systems([PATTERNS], n_draws=2000).systems:
            assert system.ci_simultaneous.ci_low <= system.ci.ci_low
            assert system.ci_simultaneous.ci_high >= system.ci.ci_high
            assert system.ci_simultaneous.confidence == 0.95

    def test_joint_level_of_independent_systems_is_close_to_sidak(self):
        values = np.random.default_rng(7).normal(size=(4000, 6))
        ranking = rank_systems([values], n_draws=20_000)
        system = ranking.systems[0]
        reach = (system.ci_simultaneous.ci_high - system.ci_simultaneous.ci_low) / 2
        se = macro_mean([values[:, int(system.name.split()[1]) - 1]]).se
        sidak = stats.norm.ppf(0.5 + 0.95 ** (1 / 6) / 2)
        assert reach / se == pytest.approx(sidak, rel=0.02)

    def test_less_is_better_turns_ranks_around(self):
        up = rank_systems([PATTERNS], names=["a", "b", "c"], n_draws=500)
        down = rank_systems(
            [1 - PATTERNS], names=["a", "b", "c"], higher_is_better=False, n_draws=500
        )
        assert [s.name for s in up.systems] == [s.name for s in down.systems]
        assert [(s.rank_low, s.rank_high) for s in up.systems] == [
            (s.rank_low, s.rank_high) for s in down.systems
        ]
        p_best = [s.p_best for s in down.systems]
        assert [s.p_best for s in up.systems] == pytest.approx(p_best, abs=0.08)

    def test_equal_systems_share_everything(self):
        same = np.repeat(PATTERNS[:, :1], 3, axis=1)
        ranking = rank_systems([same], n_draws=300)
        assert [(s.rank, s.rank_low, s.rank_high) for s in ranking.systems] == [(1, 1, 3)] * 3
        assert [s.p_best for s in ranking.systems] == pytest.approx([1 / 3] * 3)
        assert all(pair.better is None and pair.p_value == 1.0 for pair in ranking.pairs)

    def test_groups_widen(self):
        groups = np.repeat(np.arange(8), 10)
        order = np.lexsort((PATTERNS[:, 1], PATTERNS[:, 0]))
        alone = rank_systems([PATTERNS[order]], n_draws=500).systems[0].ci
        grouped = rank_systems([PATTERNS[order]], groups=[groups], n_draws=500).systems[0].ci
        assert grouped.ci_high - grouped.ci_low > alone.ci_high - alone.ci_low

    def test_order_of_systems_and_parts_changes_nothing(self):
        parts = {"x": PATTERNS, "y": PATTERNS[:30, ::-1]}
        names = ["a", "b", "c"]
        first = rank_systems(parts, names=names, n_draws=300)
        turned = {name: parts[name][:, ::-1] for name in ("y", "x")}
        second = rank_systems(turned, names=names[::-1], n_draws=300)
        for one, other in zip(first.systems, second.systems, strict=True):
            assert one.name == other.name
            assert one.p_best == pytest.approx(other.p_best)
            assert (one.rank_low, one.rank_high) == (other.rank_low, other.rank_high)

    @given(suites())
    @settings(max_examples=30, deadline=None)
    def test_bounds_hold_the_rank_and_shares_sum_to_one(self, parts):
        ranking = rank_systems(parts, n_draws=100)
        assert sum(system.p_best for system in ranking.systems) == pytest.approx(1.0)
        for system in ranking.systems:
            assert 1 <= system.rank_low <= system.rank <= system.rank_high <= len(ranking.systems)
        for pair in ranking.pairs:
            assert pair.difference >= 0.0
            assert pair.p_adjusted >= pair.p_value  # shares always have an interval
        assert ranking.best

    @pytest.mark.parametrize(
        ("parts", "groups", "reason"),
        [
            ([np.array([[0.5, 0.25]] * 6)], None, "all differences are equal"),
            ([[[1, 0], [1, 0], [1, 0]]], [["g", "g", "g"]], "`groups` has only one cluster"),
            # differences of 0.1 that only rounding tells apart
            ([[[0.9, 0.8], [0.8, 0.7], [0.7, 0.6]], [[0.9, 0.8], [0.8, 0.7]]], None, "do not vary"),
        ],
    )
    def test_a_difference_without_spread_is_not_tested(self, parts, groups, reason):
        ranking = rank_systems(parts, groups=groups, n_draws=100)
        pair = ranking.pairs[0]
        assert reason in pair.reason
        assert (pair.p_value, pair.p_adjusted) == (None, None)
        assert (pair.ci_low, pair.ci_high, pair.better) == (None, None, None)
        assert [(s.rank_low, s.rank_high) for s in ranking.systems] == [(1, 2), (1, 2)]

    def test_intervals_stay_inside_the_bounds(self):
        part = [[0.9, 0.4], [1.0, 0.5], [1.0, 0.1]]
        inside = rank_systems([part], bounds=(0.0, 1.0), n_draws=100).systems[0].ci
        assert 0.0 < inside.ci_low < inside.ci_high <= 1.0
        assert (inside.n_units, inside.n_groups) == (3, 3)
        both = rank_systems([part, part[:2]], bounds=(0.0, 1.0), n_draws=100).systems[0].ci
        assert both.ci_high == 1.0

    def test_rates_of_groups_that_agree_have_an_interval(self):
        right = np.repeat([[1, 0], [1, 0], [1, 1], [1, 0], [1, 1]], 4, axis=0)
        ranking = rank_systems([right], groups=[np.repeat(np.arange(5), 4)], n_draws=100)
        ci = ranking.systems[0].ci
        assert ci.ci_low < 0.7 < ci.ci_high == 1.0

    def test_to_dict_is_plain(self):
        told = rank_systems([PATTERNS], n_draws=100).to_dict()
        assert {len(told["systems"]), len(told["pairs"])} == {3}
        assert told["systems"][0]["ci"]["confidence"] == 0.95


class TestBayes:
    def test_marginals_are_beta(self):
        draws = []
        for seed in range(3):
            ranking = rank_systems([PATTERNS], method="bayes", n_draws=20_000, seed=seed)
            ci = next(s for s in ranking.systems if s.name == "system 3").ci
            draws.append((ci.ci_low, ci.ci_high))
        expected = stats.beta(1 + 5, 1 + 75).ppf([0.025, 0.975])
        assert np.mean(draws, axis=0) == pytest.approx(expected, abs=0.001)

    def test_pair_of_rates_with_no_discordant_unit_is_open(self):
        ranking = rank_systems([np.ones((5, 2))], method="bayes", n_draws=4000)
        pair = ranking.pairs[0]
        assert pair.p_a_better == pytest.approx(0.5, abs=0.03)
        assert pair.ci_low < 0.0 < pair.ci_high

    def test_probability_of_better_is_that_of_the_discordant_cells(self):
        # P(p01 > p10) under a Dirichlet with half a unit each: Beta(10.5, 4.5) above one half.
        data = np.array([[1, 0]] * 10 + [[0, 1]] * 4 + [[1, 1]] * 20)
        ranking = rank_systems([data], method="bayes", n_draws=40_000)
        assert ranking.pairs[0].p_a_better == pytest.approx(stats.beta(10.5, 4.5).sf(0.5), abs=0.01)

    def test_is_for_right_or_wrong(self):
        with pytest.raises(
            InvalidInputError,
            match="`method` is 'bayes', which needs binary values of independent units; use 'bootstrap'",
        ):
            rank_systems([PATTERNS * 0.5], method="bayes")


class TestRefusals:
    @each(
        ("parts", "options", "message"),
        [
            ([], {}, "`parts` is empty"),
            ([[1, 0]], {}, "units by systems"),
            ([[[1], [0]]], {}, "one system"),
            ([[[1, 0]], [[1, 0, 1]]], {}, "part '1' has 3 systems"),
            ([[[1, np.nan]]], {}, "drop units that are missing for a system"),
            ([[[1, 0]]], {"names": ["a", "a"]}, "2 unique names"),
            ([[[1, 0]]], {"groups": [[1, 2]]}, "groups"),
            ([[[1, 0]]], {"method": "magic"}, "method"),
        ],
    )
    def test_say_what_is_wrong(self, parts, options, message):
        with pytest.raises(InvalidInputError, match=message):
            rank_systems(parts, **options)


def stored(
    folder,
    model,
    values,
    *,
    task="quiz",
    up=True,
    hashes=None,
    ids=None,
    groups=None,
    column="right",
):
    ids = ids or [f"u{i}" for i in range(len(values))]
    missing = [value is None for value in values]
    records = Records.from_columns(
        {column: values},
        unit_id=ids,
        group=groups,
        content_hash=hashes or [f"h{name}" for name in ids],
        status={column: ["error" if gone else "ok" for gone in missing]},
    )
    known = [value for value in values if value is not None]
    cell = {
        "value": float(np.mean(known)),
        "status": "ok",
        "reason": "",
        "ci": None,
        "details": {"higher_is_better": up},
    }
    results = {
        "schema_version": "v1",
        "run_id": f"{model}-{task}",
        "config": {},
        "by_slice": {task: {"n": len(values), "by_scorer": {model: {column: cell}}}},
    }
    path = folder / f"{model}-{task}"
    write_run(
        path, results=results, manifest={"run_id": path.name}, records={(task, model): records}
    )
    return path


class TestLeaderboard:
    def test_ranks_runs_on_common_units(self, tmp_path):
        runs = [
            stored(tmp_path, "good", [1, 1, 1, 0, 1] * 20 + [None]),
            stored(tmp_path, "poor", [0, 0, 1, 0, 0] * 20 + [1]),
        ]
        board = leaderboard(runs, n_draws=500)
        assert [system.name for system in board.systems] == ["good", "poor"]
        assert board.ranking.best == ("good",)
        assert board.tasks[0].n_units == 100
        assert board.tasks[0].n_left_out == 1
        assert board.left_out == ("quiz: 1 units not measured by every system",)
        assert board.rows()[0]["quiz"] == pytest.approx(0.8)
        assert board.to_dict()["tasks"][0]["metric"] == "right"

    @pytest.mark.parametrize("column", ["right", "star_rating"])
    @pytest.mark.parametrize("groups", [None, [f"g{i // 5}" for i in range(50)]])
    def test_two_runs_differ_as_a_comparison_says(self, tmp_path, groups, column):
        """5 of 50 discordant: p 0.025 in both, and the same interval."""
        runs = [
            stored(tmp_path, "a", [0] * 50, groups=groups, column=column),
            stored(tmp_path, "b", [1] * 5 + [0] * 45, groups=groups, column=column),
        ]
        (pair,) = leaderboard(runs, n_draws=100).ranking.pairs
        cell = compare_runs(*runs, pairs={"a": "b"})["quiz", "a", column]
        for name in ("ci_low", "ci_high", "p_value"):  # None where one group carries the spread
            assert getattr(pair, name) == pytest.approx(getattr(cell, name))
        assert (pair.better == "b") == (cell.verdict == "better")
        if groups is None:
            assert cell.method == ("tango" if column == "right" else "paired skewness-corrected t")

    def test_runs_must_agree_on_groups(self, tmp_path):
        a = stored(tmp_path, "a", [1, 0] * 6, groups=[f"g{i // 2}" for i in range(12)])
        b = stored(tmp_path, "b", [1, 1] * 6, groups=[f"h{i // 3}" for i in range(12)])
        none = stored(tmp_path, "c", [0, 1] * 6)
        with pytest.raises(
            InvalidInputError, match="'quiz': a and b assign the same units to diff"
        ):
            leaderboard([a, b])
        # groups that the first run does not have are taken from the other
        ranking = leaderboard([none, b], n_draws=100).ranking
        assert (ranking.n_units, ranking.n_groups) == (12, 4)

    def test_a_task_that_one_lacks_is_named(self, tmp_path):
        runs = [
            stored(tmp_path, "a", [1, 0, 1]),
            stored(tmp_path, "b", [1, 1, 1]),
            stored(tmp_path, "a", [1, 0, 1], task="more"),
        ]
        board = leaderboard(runs, n_draws=100)
        assert [task.task for task in board.tasks] == ["quiz"]
        assert board.left_out == ("more: not run by b",)

    def test_names_of_a_mapping_tell_runs_of_one_model_apart(self, tmp_path):
        (tmp_path / "x").mkdir()
        first = stored(tmp_path, "m", [1, 0, 1])
        second = stored(tmp_path / "x", "m", [1, 1, 1])
        with pytest.raises(InvalidInputError, match="name the systems with a mapping"):
            leaderboard([first, second])
        board = leaderboard({"zero-shot": first, "five-shot": [second]}, n_draws=100)
        assert {system.name for system in board.systems} == {"zero-shot", "five-shot"}

    def test_other_content_is_refused_or_dropped(self, tmp_path):
        runs = [
            stored(tmp_path, "a", [1, 0, 1]),
            stored(tmp_path, "b", [1, 1, 1], hashes=["hu0", "other", "hu2"]),
        ]
        with pytest.raises(ArtifactError, match="unit 'u1' has different content"):
            leaderboard(runs)
        assert leaderboard(runs, on_mismatch="drop", n_draws=100).tasks[0].n_units == 2

    def test_directions_are_not_mixed(self, tmp_path):
        runs = [
            stored(tmp_path, name, [1, 0, 1], task=task, up=task == "quiz")
            for name, task in itertools.product("ab", ("quiz", "bits"))
        ]
        with pytest.raises(InvalidInputError, match="lower is better in bits"):
            leaderboard(runs)
        assert leaderboard(runs, tasks=["bits"], n_draws=100).ranking.higher_is_better is False

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"metrics": "f1"}, "has no column 'f1'; all have right"),
            ({"tasks": ["x"]}, "no run has 'x'; the tasks are quiz"),
        ],
    )
    def test_unknown_names(self, tmp_path, options, message):
        runs = [stored(tmp_path, "a", [1, 0]), stored(tmp_path, "b", [1, 1])]
        with pytest.raises(InvalidInputError, match=message):
            leaderboard(runs, **options)

    def test_a_part_of_the_units_is_ranked_alone(self, tmp_path):
        topics = ["x", "y"] * 40
        runs = {}
        for name, right in zip("ab", PATTERNS.T[:2], strict=True):
            records = Records.from_columns(
                {"right": right.astype(float)},
                unit_id=[f"u{n:02}" for n in range(80)],
                slices={"topic": topics},
            )
            block = {"right": {"value": float(right.mean()), "status": "ok", "reason": ""}}
            results = {"schema_version": "v1", "run_id": name, "config": {}}
            results["by_slice"] = {"quiz": {"n": 80, "by_scorer": {name: block}}}
            runs[name] = write_run(
                tmp_path / name,
                results=results,
                manifest={"run_id": name},
                records={("quiz", name): records},
            )
        options = {"higher_is_better": {"right": True}, "n_draws": 100}
        board = leaderboard(runs, metrics="right @ topic=x", **options)
        (task,) = board.tasks
        assert (task.part, task.metric, task.n_units) == ("topic=x", "right", 40)
        expected = PATTERNS[::2, :2].mean(axis=0)
        assert [task.values[name] for name in "ab"] == pytest.approx(expected.tolist())
        by_task = leaderboard(runs, metrics={"quiz": "right @ slice=quiz&topic=x"}, **options)
        assert by_task.to_dict() == board.to_dict()
        with pytest.raises(
            InvalidInputError, match="no run has the part in `metrics`; choose from"
        ):
            leaderboard(runs, metrics="right @ topic=z", **options)
        with pytest.raises(InvalidInputError, match="every system is ranked; remove / a"):
            leaderboard(runs, metrics="right @ topic=x / a", **options)

    def test_runs_that_used_all_their_units_need_no_note(self, tmp_path):
        runs = [stored(tmp_path, "a", [1, 0]), stored(tmp_path, "b", [1, 1])]
        assert leaderboard(runs).to_dict()["notes"] == []

    def test_one_run_is_no_board(self, tmp_path):
        run = stored(tmp_path, "a", [1, 0])
        with pytest.raises(InvalidTypeError, match="list of runs"):
            leaderboard(run)
        with pytest.raises(InvalidInputError, match="needs two systems"):
            leaderboard([run])
