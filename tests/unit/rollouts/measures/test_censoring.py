"""Rollouts that were cut short: what is known of them is not a fair sample of what happened."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval_toolkit import metric_specs as ms
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.inference import kaplan_meier, wilson_interval
from eval_toolkit.rollouts import Budget, SeedPrompt, System, measure_rollouts, run_rollouts
from eval_toolkit.rollouts.attacks import Scripted
from eval_toolkit.rollouts.graphs import ENDED, Graph, Node
from eval_toolkit.rollouts.measures.measuring import POLICIES, check_columns
from eval_toolkit.rollouts.measures.reporting import (
    compare_survival,
    rollout_metrics,
    rollout_scorecard,
    survival,
)
from eval_toolkit.rollouts.measures.times import survival_rows
from eval_toolkit.rollouts.scorers import as_text_scorer
from eval_toolkit.scorecards import summarise
from eval_toolkit.scorecards.policies import with_error_policies

SEEDS = [f"seed{n} x" for n in range(10)]


def tox(**options):
    return as_text_scorer(lambda texts: [float("grr" in t) for t in texts], name="tox", **options)


TOX = tox()


def two_of_ten(states):
    """A target that fails on the first two seeds, in every turn."""
    return ["grr" if int(state.goal[4]) < 2 else "no" for state in states]


def node(event, *children, **more):
    if event is None:
        return Node("", "Say it", None, None, list(children), status="error", reason="timeout")
    given = {"event": event, "echo": False if event else None} | more
    return Node("", "Say it", "r", None, list(children), scores={"tox": float(event)}, **given)


def chain(*events, unit="s", attempt=1, ended=None):
    nodes = [node(event) for event in events]
    if ended:
        nodes.append(Node("", "Say it", None, status=ended, reason="why"))
    for before, after in itertools.pairwise(nodes):
        before.children.append(after)
    return Graph("Go", nodes[:1], unit_id=unit, attempt=attempt)


def carded(graphs, *, policy="expectation", depth=None, topics=None, metrics=None, **options):
    seeds = [
        SeedPrompt(unit, id=unit, topic=(topics or {}).get(unit, ""))
        for unit in dict.fromkeys(graph.unit_id for graph in graphs)
    ]
    records = measure_rollouts(graphs, seeds, [TOX], policy=policy, depth=depth)
    specs = rollout_metrics(records, [TOX]) if metrics is None else metrics
    return rollout_scorecard(
        records, specs, graphs=graphs, scorer=TOX, policy=policy, depth=depth, **options
    )


def drawn(rng, n, *, hazard=0.1, lost=0.1, state="error", depth=5, stop=True):
    """Return conversations of which each turn fails, or is lost, with a chance of its own."""
    graphs = []
    for unit in range(n):
        events = []
        while len(events) < depth and rng.random() >= lost:
            events.append(bool(rng.random() < hazard))
            if stop and events[-1]:
                break
        over = len(events) == depth or (stop and any(events))
        graphs.append(chain(*events, unit=f"s{unit:03d}", ended=None if over else state))
    return graphs


class TestWhatWasNotSeen:
    def test_a_budget_leaves_no_rate_of_failures_alone(self):
        system = System(["Please."] * 3, two_of_ten, TOX)
        card = run_rollouts(system, SEEDS, depth=3, budget=Budget(calls=15)).card
        # Ten first turns and five second ones; nobody who had not failed was seen in turn 3.
        whole = card["attack_success"]
        assert (whole.value, whole.status, whole.n_skipped) == (None, "skipped", 8)
        assert "no unit was observed beyond 2" in whole.reason
        assert (whole.details["best"], whole.details["worst"]) == (0.2, 1.0)
        assert whole.details["censored"] == 8
        low, high = whole.details["bounds_ci"]
        assert low < 0.2 < 1.0 == high
        first, second = card["failed_by_turn_1"], card["failed_by_turn_2"]
        assert (first.value, first.ci.method, "censored" in first.details) == (0.2, "wilson", False)
        assert second.value == pytest.approx(0.2)
        assert (second.ci.method, second.details["censored"]) == ("Kaplan-Meier, log-log", 5)
        assert "5 of 10 rollouts were cut short" in second.reason

    def test_an_attack_that_ends_by_itself_leaves_nothing_open(self):
        system = System(Scripted(["one"], after="stop"), two_of_ten, TOX)
        done = run_rollouts(system, SEEDS, depth=3)
        cells = [done.card[name] for name in ("attack_success", *map("failed_by_turn_{}".format, (1, 2, 3)))]  # fmt: skip
        assert [(cell.value, cell.n_units, cell.n_skipped) for cell in cells] == [(0.2, 10, 0)] * 4
        curve = done.more["survival"]
        assert (curve["times"][-1], curve["survival"][-1]) == (3.0, pytest.approx(0.8))
        assert (curve["policy"], curve["depth"], curve["n_cut_short"]) == ("expectation", 3, 0)

    def test_a_branch_that_ended_beside_others_keeps_its_weight(self):
        over = Node("", "", None, status=ENDED, reason="the attack ended")
        graph = Graph("Go", [node(False, over, node(True))], unit_id="s")
        rows = survival_rows([graph])
        assert list(zip(rows.times, rows.events, rows.weights, strict=True)) == [
            *((2, False, 0.5), (2, True, 0.5))
        ]
        card = carded([graph])
        assert (card["attack_success"].value, card["failed_by_turn_1"].value) == (0.5, 0.0)
        assert card["n_turns"].value == 1.5

    @pytest.mark.parametrize("state", ["error", "skipped"])
    def test_random_breaks_do_not_move_the_rate(self, state):
        """The truth is 1 − 0.9⁵ = 0.410. The mean of what is known is 0.47 and misses it."""
        rng = np.random.default_rng(20_260_301)
        truth = 1.0 - 0.9**5
        metric = [ms.mean_of("attack_success", higher_is_better=False, bounds=(0.0, 1.0))]
        cells, known = [], []
        for _ in range(30):
            graphs = drawn(rng, 150, state=state)
            seeds = [SeedPrompt("x", id=graph.unit_id) for graph in graphs]
            records = measure_rollouts(graphs, seeds, [TOX])
            card = rollout_scorecard(records, metric, graphs=graphs, scorer=TOX)
            cells.append(card["attack_success"])
            known.append(rollout_scorecard(records, metric)["attack_success"].value)
        assert np.mean([cell.value for cell in cells]) == pytest.approx(truth, abs=0.02)
        assert np.mean(known) > truth + 0.04
        held = sum(cell.ci.ci_low <= truth <= cell.ci.ci_high for cell in cells)
        assert held >= 26  # 28.5 of 30 are expected
        assert all(cell.details["best"] <= truth <= cell.details["worst"] for cell in cells)

    def test_categories_have_curves_of_their_own(self):
        graphs = drawn(np.random.default_rng(5), 60)
        seeds = [
            SeedPrompt(f"x{at}", id=graph.unit_id, category="ab"[at % 2])
            for at, graph in enumerate(graphs)
        ]
        records = measure_rollouts(graphs, seeds, [TOX])
        card = rollout_scorecard(records, graphs=graphs[::-1], scorer=TOX)  # in any order
        for part in (0, 1):
            curve = survival(graphs[part::2], depth=5).failure_by(5)
            cell = card.slices["ab"[part]]["attack_success"]
            assert cell.value == pytest.approx(curve.point_estimate)
            assert (cell.ci.ci_low, cell.ci.ci_high) == (curve.ci_low, curve.ci_high)
            assert cell.n_units == 30 - sum(not g.children[0].scores for g in graphs[part::2])

    def test_other_rollouts_are_refused(self):
        records = measure_rollouts([chain(True)], [SeedPrompt("x", id="s")], [TOX])
        with pytest.raises(InvalidInputError, match="do not match the records"):
            rollout_scorecard(records, graphs=[chain(True, unit="other")])

    def test_errors_count_as_failures_where_they_broke_if_that_is_asked(self):
        graphs = [chain(False, True, unit="a"), chain(False, ended="error", unit="b")]
        graphs += [chain(False, ended="skipped", unit="c"), chain(False, False, unit="d")]
        card = carded(graphs, on_error="as_zero")
        assert card["failed_by_turn_1"].value == 0.0
        # Of a, b and d, which were seen in turn 2, two have failed or broke.
        assert card["attack_success"].value == pytest.approx(2 / 3)
        details = card["attack_success"].details
        assert (details["exclude"], details["as_zero"]) == pytest.approx((1 / 2, 2 / 3))
        assert (details["best"], details["worst"], details["censored"]) == (0.25, 0.75, 2)
        assert details["error_rate"] == 0.25

    def test_nothing_is_claimed_without_a_scorer(self):
        done = run_rollouts(System(["a"], ["No."]), SEEDS, depth=2)
        cell = done.card["attack_success"]
        assert (cell.status, "worst" in cell.details) == ("skipped", False)
        assert done.more["survival"]["status"] == "skipped"


class TestSeveralRollouts:
    def test_few_seeds_have_an_interval_too(self):
        graphs = [
            chain(n == 0 and attempt == 1, unit=f"s{n}", attempt=attempt)
            for n in range(8)
            for attempt in (1, 2, 3)
        ]
        cell = carded(graphs)["attack_success"]
        assert (cell.value, cell.n_units, cell.n_groups) == (pytest.approx(1 / 24), 8, 8)
        assert 0.0 < cell.ci.ci_low < cell.value < cell.ci.ci_high < 0.6
        assert cell.ci.method == "Kaplan-Meier, log-log, groups"
        two = carded([chain(n < 7, unit=f"s{n:02d}") for n in range(20)],
                     topics={f"s{n:02d}": "ab"[n % 2] for n in range(20)})["attack_success"]  # fmt: skip
        assert two.n_groups == 2
        assert two.ci.ci_low < 0.35 < two.ci.ci_high

    def test_a_failure_makes_no_upper_bound_lower(self):
        def upper(failures):
            graphs = [
                chain(3 * n + attempt <= failures, unit=f"s{n}", attempt=attempt)
                for n in range(10)
                for attempt in (1, 2, 3)
            ]
            return carded(graphs)["attack_success"].ci.ci_high

        bounds = [upper(failures) for failures in range(8)]
        assert min(bounds) == bounds[0]
        assert bounds[0] == pytest.approx(1.0 - 0.025 ** (1 / 10))  # Clopper and Pearson, 10 seeds

    def test_one_rollout_of_each_independent_seed_keeps_wilsons_interval(self):
        graphs = [chain(n < 6, unit=f"s{n:02d}") for n in range(20)]
        cell = carded(graphs)["attack_success"]
        wilson = wilson_interval(6, 20)
        assert (cell.ci.method, cell.ci.ci_low) == ("wilson", float(wilson.low))
        curve = survival(graphs).failure_by(1)  # one number has one interval
        assert (curve.method, curve.ci_low, curve.ci_high) == (
            "wilson",
            cell.ci.ci_low,
            cell.ci.ci_high,
        )
        broken = [*graphs, chain(False, ended="error", unit="b")]
        assert survival(broken).failure_by(2).method == "log-log"

    @pytest.mark.parametrize(("failures", "n"), [(0, 3), (1, 8), (30, 30)])
    def test_curve_and_cell_agree_at_the_ends_too(self, failures, n):
        curve = kaplan_meier([1] * n, [True] * failures + [False] * (n - failures)).failure_by(1)
        graphs = [chain(at < failures, unit=f"u{at}") for at in range(n)]
        cell = carded(graphs)["attack_success"]
        assert (curve.ci_low, curve.ci_high) == pytest.approx((cell.ci.ci_low, cell.ci.ci_high))
        asked = kaplan_meier([1, 1, 2, 2], [1, 0, 1, 0], method="log-log").failure_by(1)
        assert asked.method == "log-log"

    def test_every_seed_weighs_the_same_however_often_it_was_rolled_out(self):
        graphs = [chain(True, unit="a", attempt=n) for n in range(1, 10)]
        graphs += [chain(False, unit=f"b{n}") for n in range(9)]
        assert survival(graphs).failure_by(1).point_estimate == pytest.approx(0.1)
        cell = carded(graphs)["attack_success"]
        assert (cell.value, cell.n_units) == (pytest.approx(0.1), 10)

    @given(st.data())
    def test_where_nothing_is_missing_curve_and_mean_are_one(self, data):
        """Of any trees, under any policy, with any number of rollouts per seed."""
        branches = st.recursive(
            st.booleans().map(lambda event: (event, [])),
            lambda inner: st.tuples(st.booleans(), st.lists(inner, min_size=1, max_size=3)),
            max_leaves=6,
        )

        def grown(event, inner):
            return node(event, *(grown(*one) for one in inner))

        graphs = []
        for unit in range(data.draw(st.integers(1, 4))):
            for attempt in range(1, data.draw(st.integers(1, 3)) + 1):
                roots = data.draw(st.lists(branches, min_size=1, max_size=3))
                trees = [grown(*one) for one in roots]
                graphs.append(Graph("Go", trees, unit_id=f"s{unit}", attempt=attempt))
        policy = data.draw(st.sampled_from(POLICIES))
        seeds = [SeedPrompt("x", id=f"s{unit}") for unit in range(4)]
        records = measure_rollouts(graphs, seeds, [TOX], policy=policy)
        names = [name for name in records.columns if name.startswith(("attack", "failed_by"))]
        metrics = [ms.mean_of(name, higher_is_better=False, bounds=(0.0, 1.0)) for name in names]
        plain = rollout_scorecard(records, metrics)
        card = rollout_scorecard(records, metrics, graphs=graphs, policy=policy)
        depth = sum(name.startswith("failed_by") for name in names)
        curve = survival(graphs, policy=policy)
        for name in names:
            assert card[name].value == pytest.approx(plain[name].value)
            assert "censored" not in card[name].details
        for turn in range(1, depth + 1):
            found = curve.failure_by(turn).point_estimate
            assert found == pytest.approx(plain[f"failed_by_turn_{turn}"].value)


class TestBranches:
    def test_a_branch_that_was_not_seen_is_not_a_safe_one(self):
        late = node(False, node(False, node(True)))
        graph = Graph("Go", [late, node(None)], unit_id="s")
        records = measure_rollouts([graph], [SeedPrompt("x", id="s")], [TOX], policy="best")
        status = {name: column[0] for name, column in records.status.items()}
        assert status["attack_success"] == status["failed_by_turn_3"] == "ok"
        unknown = ("first_event_turn", "failed_by_turn_1", "failed_by_turn_2")
        assert [status[name] for name in unknown] == ["error"] * 3
        rows = survival_rows([graph], policy="best")
        assert (rows.times.tolist(), rows.events.tolist(), rows.n_cut_short) == ([0], [False], 1)

    def test_what_others_did_in_the_turn_of_a_failure_does_not_matter(self):
        graph = Graph("Go", [node(False, node(True)), node(False, node(None))], unit_id="s")
        rows = survival_rows([graph], policy="best")
        assert (rows.times.tolist(), rows.events.tolist(), rows.n_cut_short) == ([2], [True], 0)
        records = measure_rollouts([graph], [SeedPrompt("x", id="s")], [TOX], policy="best")
        assert records.columns["first_event_turn"][0] == 2.0
        assert records.columns["failed_by_turn_1"][0] == 0.0

    def test_of_the_worst_branches_an_own_failure_on_any_counts(self):
        echoed = node(True, echo=True)
        graph = Graph("Go", [echoed, node(False, node(True))], unit_id="s")
        records = measure_rollouts([graph], [SeedPrompt("x", id="s")], [TOX], policy="best")
        assert records.columns["attack_success_own"][0] == 1.0

    @pytest.mark.parametrize("policy", POLICIES)
    def test_the_curve_of_a_run_is_of_its_policy(self, policy):
        def target(states):
            return ["grr" if len(state) % 3 == 0 else "no" for state in states]

        class Tester:
            name, version = "t", "1"

            def ask(self, conversation, seed):
                return "a" * (seed % 7 + 1)

        system = System(Tester(), target, TOX)
        done = run_rollouts(system, SEEDS, depth=2, width=2, policy=policy)
        curve = done.more["survival"]
        assert curve["policy"] == policy
        for turn, held in zip(curve["times"], curve["survival"], strict=True):
            cell = done.card[f"failed_by_turn_{turn:.0f}"]
            assert 1.0 - held == pytest.approx(cell.value)

    def test_errors_count_where_branches_were_chosen(self):
        def target(states):
            if any(len(state.messages) >= 3 for state in states):
                raise RuntimeError("down")
            return ["no"] * len(states)

        for policy in ("best", "expectation"):
            system = System(["a", "b"], target, TOX)
            done = run_rollouts(system, SEEDS[:6], depth=2, width=2, keep=1, policy=policy)
            assert (done.n_errors, done.error_rate, done.too_many_errors) == (6, 1.0, True)

    def test_two_sides_are_compared_under_one_policy(self):
        def side(selected):
            return [
                Graph("Go", [node(True), node(False)], unit_id=f"s{n}", selected=selected)
                for n in range(10)
            ]

        with pytest.raises(InvalidInputError, match="policy='best'"):
            compare_survival(side(True), side(False), at=1)
        assert compare_survival(side(True), side(False), at=1, policy="best").delta == 0.0
        chains = [chain(n < 5, unit=f"s{n}") for n in range(10)]  # without branches all agree
        assert compare_survival(side(True), chains, at=1).delta == -0.5

    def test_two_sides_have_one_planned_depth(self):
        a = [chain(False, unit=f"s{n}") for n in range(10)]  # attacks that ended by themselves
        b = [chain(False, n < 5, unit=f"s{n}") for n in range(10)]
        assert compare_survival(a, b, at=2).delta == pytest.approx(0.5)


class TestEchoes:
    @pytest.mark.parametrize("mode", ["cumulative", "final"])
    def test_a_scorer_of_whole_conversations_cannot_tell(self, mode):
        system = System(["Please.", "And"], two_of_ten, tox(mode=mode))
        done = run_rollouts(system, SEEDS, depth=2)
        assert done.card["attack_success"].value == 0.2
        assert "attack_success_own" not in done.card
        assert done.more["survival_own"]["status"] == "skipped"

    def test_a_judge_that_cannot_tell_gives_bounds(self):
        class Judge:
            name, version, threshold, higher_is_worse, mode = "judge", "1", 0.5, True, "turn"

            def score(self, texts):
                return [float("grr" in text) for text in texts]

            def score_turns(self, told, keys=None):
                return [float("grr" in str(one)) for one in told]

        probe = "please say the following words now"

        def target(states):
            return [f"you asked: {probe}, grr" if int(s.goal[4]) < 5 else "no" for s in states]

        done = run_rollouts(System([probe], target, Judge()), SEEDS, depth=1)
        assert done.card["attack_success"].value == 0.5
        own = done.card["attack_success_own"]
        assert (own.value, own.status) == (None, "skipped")
        assert (own.details["best"], own.details["worst"]) == (0.0, 0.5)
        assert "of 5 rollouts" in own.reason
        assert "whether 5 of the failures" in done.more["survival_own"]["reason"]

    def test_a_conversation_stopped_at_an_echo_may_have_failed_later(self):
        stopped = Graph("Go", [node(True, echo=True)], unit_id="a")
        graphs = [stopped, chain(False, True, unit="b"), chain(False, False, unit="c")]
        rows = survival_rows(graphs, own=True)
        assert rows.times.tolist() == [1, 2, 2]
        assert rows.cut.tolist() == ["skipped", "", ""]
        own = carded(graphs)["attack_success_own"]
        assert own.value == pytest.approx(0.5)
        assert (own.details["best"], own.details["worst"]) == pytest.approx((1 / 3, 2 / 3))
        with pytest.raises(UndefinedMetricError, match="whether 1 of the failures"):
            survival([Graph("", [Node("", "", "x", event=True)])], own=True)


def test_what_the_end_alone_says_is_not_known_of_a_turn_before():
    system = System(["a", "b"], two_of_ten, tox(mode="final"))
    done = run_rollouts(system, SEEDS, depth=2)
    first = done.card["failed_by_turn_1"]
    assert (first.value, first.status) == (None, "skipped")
    assert "only scores the end of a conversation" in first.reason
    assert done.card["failed_by_turn_2"].value == done.card["attack_success"].value == 0.2
    assert done.more["survival"]["times"] == [2.0]


class TestOtherMeans:
    def test_what_is_known_early_says_so(self):
        graphs = [chain(True, unit="a"), chain(False, ended="skipped", unit="b"), chain(False, False, unit="c")]  # fmt: skip
        cell = carded(graphs, metrics=[ms.asr_at_k(1)])["asr@1"]
        assert (cell.value, cell.details["censored"]) == (0.5, 1)
        assert (cell.details["best"], cell.details["worst"]) == pytest.approx((1 / 3, 2 / 3))
        assert "1 of 3 rollouts were cut short" in cell.reason
        assert "censored" not in carded(graphs)["n_turns"].details

    def test_where_failures_end_conversations_longer_ones_break_more_often(self):
        stopping = [
            chain(True, unit="a"),
            chain(False, ended="error", unit="b"),
            chain(False, False, unit="c"),
        ]
        card = carded(stopping)
        assert card["tox_mean"].details["censored"] == card["tox_max"].details["censored"] == 1
        assert card["tox_turn_2"].details["censored"] == 2  # stopped, and broken
        assert "censored" not in card["tox_turn_1"].details
        going_on = [
            chain(True, False, unit="a"),
            chain(False, ended="error", unit="b"),
            chain(False, False, unit="c"),
        ]
        assert "censored" not in carded(going_on)["tox_mean"].details

    def test_asr_at_k_is_bounded_by_what_is_certain(self):
        graphs = [chain(True, unit="a", attempt=1), *(chain(ended="error", unit="a", attempt=n) for n in (2, 3))]  # fmt: skip
        graphs += [chain(False, unit="b", attempt=n) for n in (1, 2, 3)]
        cell = carded(graphs, metrics=[ms.asr_at_k(3)])["asr@3"]
        # Of "a" it is certain, but that it is so only because it failed; it counts in the bounds.
        assert (cell.value, cell.n_units, cell.details["censored"]) == (0.0, 1, 2)
        assert (cell.details["best"], cell.details["worst"]) == (0.5, 0.5)

    def test_without_a_direction_the_ends_are_low_and_high(self):
        graphs = [chain(False, unit="a"), chain(ended="error", unit="b")]
        seeds = [SeedPrompt("x", id=graph.unit_id) for graph in graphs]
        records = measure_rollouts(graphs, seeds, [TOX])
        metric = ms.mean_of("tox_mean", higher_is_better=None, bounds=(0.0, 1.0))
        details = with_error_policies(records, [metric])["tox_mean"].details
        assert (details["low"], details["high"]) == (0.0, 0.5)
        assert not {"worst", "best"} & details.keys()


class TestColumns:
    def test_the_longest_name_says_whose_a_column_is(self):
        free = as_text_scorer(lambda texts: [], name="tox_free", higher_is_worse=False)
        scores = {"tox": 0.1, "tox_free": 0.9, "tox:probe": 0.1, "tox_free:probe": 0.9}
        graph = Graph("Go", [Node("", "a b", "x", scores=scores, event=False)], unit_id="s")
        scorers = [TOX, free]
        records = measure_rollouts([graph], [SeedPrompt("x", id="s")], scorers)
        for order in (scorers, scorers[::-1]):
            up = {spec.name: spec.higher_is_better for spec in rollout_metrics(records, order)}
            assert [up[f"tox_{end}"] for end in ("mean", "max", "last")] == [False] * 3
            assert [up[f"tox_free_{end}"] for end in ("mean", "min", "last")] == [True] * 3
            assert up["tox_probe_mean"] is up["tox_free_probe_mean"] is None
            assert up["tox_turn_1"] is False  # every conversation has a first turn

    @pytest.mark.parametrize(
        ("names", "column"),
        [
            (["failed_by"], "failed_by_turn_1"),
            (["refused"], "refused_turn_1"),
            (["a", "a_probe"], "a_probe_mean"),
        ],
    )
    def test_two_columns_of_one_name_are_refused_before_anything_is_asked(self, names, column):
        asked = []

        def target(states):
            asked.append(len(states))
            return ["no"] * len(states)

        scorers = [as_text_scorer(lambda t: [0.0 for _ in t], name=name) for name in names]
        with pytest.raises(InvalidInputError, match=column):
            run_rollouts(System(["a b"], target, scorers), SEEDS, depth=1)
        assert not asked
        check_columns([TOX], 3)

    def test_a_count_is_no_proportion(self):
        card = run_rollouts(System(["a b"], two_of_ten, TOX), SEEDS, depth=1).card
        assert (card["n_turns"].value, card["n_turns"].ci) == (1.0, None)
        assert card["empty_replies"].ci.method == "wilson"
        records = measure_rollouts([chain(True)], [SeedPrompt("x", id="s")], [TOX])
        unknown = summarise(records, [ms.mean_of("attack_success")])["attack_success"]
        assert unknown.ci.method == "wilson"  # without bounds 0 and 1 are taken for what they look
        count = ms.mean_of("n_turns", bounds=(0.0, math.inf))
        assert summarise(records, [count], method="wilson")["n_turns"].ci is None

    def test_a_tester_that_failed_has_no_diversity_and_why(self):
        graph = Graph("Go", [Node("", "", None, status="error", reason="down")], unit_id="s")
        records = measure_rollouts([graph], [SeedPrompt("x", id="s")], [TOX])
        assert records.status["probe_distinct_2"][0] == "error"
        assert records.reason["probe_distinct_2"][0] == "turn 1: down"


def test_few_rows_say_so():
    few = kaplan_meier([1, 1, 2, 3, 3], [1, 0, 1, 0, 0])
    assert few.failure_by(2).reason == "5 rows: with fewer than 20, intervals may undercover"
    assert kaplan_meier([3] * 20, [0] * 20).reason == ""
    assert kaplan_meier([3] * 5, [0] * 5, method="beta-product").reason == ""


class TestUnprovoked:
    """A failure that no probe provoked is a failure: the one share is a part of the other."""

    @staticmethod
    def flagged(graphs, provoked):
        for graph in graphs:
            for one in graph.nodes():
                one.scores["tox:probe"] = float(provoked(graph))
        return graphs

    def test_it_is_a_part_of_the_failures_of_the_curve(self):
        rng = np.random.default_rng(7)
        for _ in range(20):
            graphs = self.flagged(drawn(rng, 40, lost=0.2), lambda graph: False)
            card = carded(graphs)
            part, whole = card["unprovoked_success"], card["attack_success"]
            # Nothing was provoked, so they are one share.
            assert part.value == pytest.approx(whole.value)
            assert part.details["best"] <= part.value <= part.details["worst"]

    def test_provoked_failures_are_the_rest(self):
        graphs = drawn(np.random.default_rng(8), 60, lost=0.2)
        even = carded(self.flagged(graphs, lambda g: int(g.unit_id[1:]) % 2))
        odd = carded(self.flagged(graphs, lambda g: 1 - int(g.unit_id[1:]) % 2))
        total = even["unprovoked_success"].value + odd["unprovoked_success"].value
        assert 0.0 < even["unprovoked_success"].value < even["attack_success"].value
        assert total == pytest.approx(even["attack_success"].value)  # causes add up

    def test_a_budget_leaves_none(self):
        graphs = [chain(True, unit="a"), *(chain(False, ended="skipped", unit=u) for u in "bc")]
        cell = carded(self.flagged(graphs, lambda g: False), depth=3)["unprovoked_success"]
        assert (cell.value, cell.status, cell.ci) == (None, "skipped", None)
        assert "no unit was observed beyond 1" in cell.reason
        assert (cell.details["best"], cell.details["worst"]) == pytest.approx((1 / 3, 1.0))

    def test_what_broke_counts_where_that_is_asked(self):
        graphs = [chain(True, unit="a"), chain(None, unit="b"), chain(False, unit="c")]
        self.flagged([graphs[0], graphs[2]], lambda g: False)
        cell = carded(graphs, on_error="as_zero")["unprovoked_success"]
        assert (cell.value, cell.n_units) == (pytest.approx(2 / 3), 3)
        assert (cell.details["exclude"], cell.details["as_zero"]) == pytest.approx((1 / 2, 2 / 3))

    def test_of_trees_there_are_bounds_alone(self):
        graph = Graph("Go", [node(True), node(None)], unit_id="s")
        cell = carded(self.flagged([graph], lambda g: False))["unprovoked_success"]
        assert (cell.value, cell.status) == (None, "skipped")


class TestAsFailures:
    def test_cells_say_what_counts(self):
        graphs = [
            chain(False, True, unit="a"),
            chain(None, unit="b"),
            chain(False, False, unit="c"),
        ]
        cell = carded(graphs, on_error="as_zero")["attack_success"]
        assert (cell.value, cell.n_units) == (pytest.approx(2 / 3), 3)
        assert cell.reason.startswith("1 of 3 rollouts ended in an error and count as failures")
        assert "censored after their last observed turn" not in cell.reason

    def test_what_has_no_worst_is_left_out(self):
        graphs = [chain(False, unit="a"), chain(None, unit="b")]
        seeds = [SeedPrompt(unit, id=unit) for unit in "ab"]
        records = measure_rollouts(graphs, seeds, [TOX])
        metric = [ms.mean_of("tox_mean", higher_is_better=None)]
        cell = rollout_scorecard(records, metric, graphs=graphs, on_error="as_zero")["tox_mean"]
        assert (cell.value, cell.n_units, cell.n_errors) == (0.0, 1, 1)
        assert "1 errors are excluded: neither direction is worse" in cell.reason
