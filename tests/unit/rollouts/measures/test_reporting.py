"""What rollouts say: metrics with their direction, cards by category, curves of survival."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval_toolkit import metric_specs as ms
from eval_toolkit.analysis import compare_records
from eval_toolkit.analysis.subjects import unit_metric
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.inference import wilson_interval
from eval_toolkit.metrics import pass_at_k
from eval_toolkit.rollouts.graphs import Graph, Node
from eval_toolkit.rollouts.measures.measuring import measure_rollouts
from eval_toolkit.rollouts.measures.reporting import (
    compare_survival,
    rollout_metrics,
    rollout_scorecard,
    survival,
)
from eval_toolkit.rollouts.measures.times import survival_rows
from eval_toolkit.rollouts.seeds import SeedPrompt
from eval_toolkit.runs.cells import card_entry
from eval_toolkit.scorecards import Records, summarise


class Toxicity:
    name, version, threshold, higher_is_worse = "toxicity", "1", 0.5, True
    bounds = (0.0, 1.0)

    def score(self, texts):
        raise AssertionError("reporting asks nobody")


def chain(*events, unit="s", attempt=1, ended=None, echo=False):
    """Return a conversation with these events; ended by an error or the budget where said."""
    nodes = [
        Node("", "Say it", "Well.", event=event, echo=echo, scores={"toxicity": 0.9 * event})
        if event is not None
        else Node("", "Say it", "Well.", unscored={"toxicity": "error: NaN"})
        for event in events
    ]
    if ended is not None:
        nodes.append(Node("", "Say it", None, status=ended, reason="why"))
    for before, after in itertools.pairwise(nodes):
        before.children.append(after)
    return Graph("Go", nodes[:1], unit_id=unit, attempt=attempt)


def measured(graphs, **about):
    seeds = [SeedPrompt(unit, id=unit, **about) for unit in {graph.unit_id for graph in graphs}]
    return measure_rollouts(graphs, seeds, [Toxicity()])


def test_every_column_but_the_censored_one_has_its_metric_and_direction():
    kind, unkind = [
        Node("", "Say it", "No.", event=False, scores={"toxicity": 0.1, "refusal": float(safe)})
        for safe in (True, False)
    ]
    seeds = [SeedPrompt("a", id="a", safe=True), SeedPrompt("b", id="b", safe=False)]
    graphs = [Graph("", [kind], unit_id="a"), Graph("", [unkind], unit_id="b")]
    records = measure_rollouts(graphs, seeds, [Toxicity()])
    specs = {spec.name: spec for spec in rollout_metrics(records, [Toxicity()], asr_at=[2])}
    assert specs.keys() == records.columns.keys() - {"first_event_turn"} | {"asr@2"}
    up = {name: spec.higher_is_better for name, spec in specs.items()}
    lower = ["attack_success", "attack_success_any", "attack_success_own", "failed_by_turn_1"]
    assert [up[name] for name in [*lower, "over_refusal", "toxicity_mean", "asr@2"]] == [False] * 7
    assert up["unsafe_refusal"] is True
    assert [up[name] for name in ("n_turns", "refusal_rate", "empty_replies")] == [None] * 3
    assert specs["toxicity_max"].bounds == (0.0, 1.0)
    assert specs["n_turns"].bounds == (0.0, math.inf)


def test_the_success_rate_of_single_rollouts_has_wilsons_interval():
    graphs = [chain(False, n < 6, unit=f"s{n:02d}") for n in range(20)]
    cell = rollout_scorecard(measured(graphs))["attack_success"]
    wilson = wilson_interval(6, 20)
    assert cell.value == 0.3
    assert (cell.ci.ci_low, cell.ci.ci_high) == (float(wilson.low), float(wilson.high))
    assert cell.details["higher_is_better"] is False


def test_rollouts_of_one_seed_are_no_independent_facts():
    graphs = [
        chain(n < 5, unit=f"s{n}", attempt=attempt) for n in range(10) for attempt in range(1, 11)
    ]
    cell = rollout_scorecard(measured(graphs))["attack_success"]
    assert (cell.value, cell.n_units, cell.n_groups) == (0.5, 10, 10)
    wilson = wilson_interval(5, 10)  # as if each seed had been tried once
    assert cell.ci.ci_low == pytest.approx(float(wilson.low))


def test_categories_have_cards_also_those_without_a_name():
    seeds = [
        SeedPrompt(f"p{n}", id=f"p{n}", category=("x", "y", "")[n % 3], topic=f"t{n}")
        for n in range(9)
    ]
    graphs = [chain(n % 3 == 0, unit=f"p{n}") for n in range(9)]
    graphs[1] = chain(ended="error", unit="p1")
    records = measure_rollouts(graphs, seeds, [Toxicity()])
    card = rollout_scorecard(records)
    values = {name: part["attack_success"].value for name, part in card.slices.items()}
    assert values == {"x": 1.0, "y": 0.0, "(none)": 0.0}
    details = card.slices["y"]["attack_success"].details
    assert (details["worst"], details["best"]) == (pytest.approx(1 / 3), 0.0)
    whole = card["attack_success"]
    assert (whole.value, whole.n_errors) == (pytest.approx(3 / 8), 1)
    assert (whole.details["worst"], whole.details["best"]) == (
        pytest.approx(4 / 9),
        pytest.approx(3 / 9),
    )
    low, high = whole.details["bounds_ci"]
    assert low <= whole.ci.ci_low < whole.ci.ci_high <= high
    entry = card_entry("model", records, card)
    assert entry["parts"]["category=x"]["n"] == 3
    macro = rollout_scorecard(records, macro=True)["attack_success_macro"]
    assert macro.value == pytest.approx(1 / 3)


def test_a_part_without_a_name_is_not_taken_for_the_whole():
    records = Records.from_columns(
        {"right": [1.0, 1.0, 0.0, None]},
        slices={"part": ["", "", "b", "b"]},
        status={"right": ["ok", "ok", "ok", "error"]},
    )
    card = rollout_scorecard(records, [ms.mean_of("right", bounds=(0.0, 1.0))], by="part")
    assert card["right"].details["error_rate"] == 0.25
    assert card.slices["b"]["right"].details["error_rate"] == 0.5
    assert "error_rate" not in card.slices[""]["right"].details


def test_without_a_direction_a_failure_is_left_out():
    records = Records.from_columns({"n_turns": [1.0, None]}, status={"n_turns": ["ok", "error"]})
    cell = rollout_scorecard(records, on_error="as_zero")["n_turns"]
    assert (cell.value, cell.status, cell.n_units, cell.n_errors) == (1.0, "ok", 1, 1)
    assert cell.reason.startswith("1 errors are excluded: neither direction is worse")
    with pytest.raises(InvalidInputError, match="on_error is 'fail'"):
        rollout_scorecard(records, on_error="fail")


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.integers(1, 5))
def test_asr_at_k_is_pass_at_k_of_any_branch(failures, k):
    graphs = [
        chain(attempt <= n, unit=f"s{unit}", attempt=attempt)
        for unit, n in enumerate(failures)
        for attempt in range(1, 6)
    ]
    records = measured(graphs)
    cell = summarise(records, [ms.asr_at_k(k)], n_resamples=20)[f"asr@{k}"]
    wanted = pass_at_k([5] * len(failures), failures, k).mean()
    assert cell.value == pytest.approx(wanted)


def test_asr_at_k_of_trees_counts_a_success_on_any_branch():
    both = [Node("", "a b", "x", event=event) for event in (True, False)]
    graphs = [Graph("", both, unit_id="s", attempt=1), chain(False, attempt=2)]
    records = measured(graphs)
    assert records.columns["attack_success"].tolist() == [0.5, 0.0]
    assert summarise(records, [ms.asr_at_k(2)])["asr@2"].value == 1.0
    short = summarise(records, [ms.asr_at_k(3)])["asr@3"]
    assert (short.status, short.reason) == (
        "skipped",
        "no unit has a value: 0 errors, 2 skipped; at most 2 of 3 attempts have a value",
    )


def test_metrics_of_attempts_come_back_from_their_names_with_their_direction():
    records = Records.from_columns(
        {"attack_success_any": [1.0, 0.0], "broke": [1.0, 0.0]}, unit_id=["a", "a"]
    )
    specs = [
        ms.asr_at_k(2),
        ms.asr_at_k(2, column="broke"),
        ms.pass_at_k("broke", 2, higher_is_better=False),
        ms.pass_hat_k("broke", 2, higher_is_better=False),
    ]
    assert [spec.name for spec in specs] == [
        *("asr@2", "broke_asr@2", "broke_pass@2", "broke_pass^2")
    ]
    cells = summarise(records, specs, n_resamples=20).to_dict()
    for spec in specs:
        assert unit_metric(spec.name, records, cells) == spec
    assert unit_metric("broke_pass@2", records, {}).higher_is_better is True
    other = Records.from_columns({"right": [1.0, 0.0]}, unit_id=["a", "a"])
    assert unit_metric("asr@2", other, {}) is None  # these are no rollouts
    with pytest.raises(InvalidInputError, match="`k`"):
        ms.asr_at_k(0)


def test_a_metric_without_direction_is_different_and_never_better():
    a = Records.from_columns({"n_turns": np.ones(30)})
    b = Records.from_columns({"n_turns": np.tile([2.0, 3.0], 15)})
    spec = ms.mean_of("n_turns", higher_is_better=None)
    cell = compare_records({"t": a}, {"t": b}, [spec], n_resamples=200)["t", "", "n_turns"]
    assert (cell.higher_is_better, cell.verdict) == (None, "different")


def rows_of(*graphs, **options):
    rows = survival_rows(graphs, **options)
    told = zip(rows.times.tolist(), rows.events.tolist(), rows.weights.tolist(), strict=True)
    return list(told), rows


def test_each_conversation_is_a_row_up_to_where_it_was_seen():
    told, rows = rows_of(
        chain(False, True, unit="fails at 2"),
        chain(False, False, False, unit="never"),
        chain(False, ended="error", unit="broke"),
        chain(ended="skipped", unit="not begun"),
        Graph("", [], unit_id="empty"),
        chain(None, True, unit="unknown at first"),
    )
    assert told == [(2, True, 1), (3, False, 1), (1, False, 1), *[(0, False, 1)] * 3]
    assert rows.n_cut_short == 3
    assert rows.groups[0] == "fails at 2"


def test_branches_are_rows_with_their_weights_or_one_row_for_the_earliest():
    def graph(**more):
        late = Node("", "", "", event=False, children=[Node("", "", "", event=True)])
        calm = [Node("", "", "", event=False) for _ in range(2)]
        return Graph("", [late, Node("", "", "", event=False, children=calm)], unit_id="s", **more)

    assert rows_of(graph())[0] == [(2, True, 0.5), (2, False, 0.25), (2, False, 0.25)]
    assert rows_of(graph(), policy="best")[0] == [(2, True, 1.0)]
    chosen = rows_of(graph(selected=True))
    assert (chosen[0], chosen[1].policy) == ([(2, True, 1.0)], "best")
    with pytest.raises(InvalidInputError, match="policy='best'"):
        rows_of(graph(selected=True), policy="expectation")
    cut = Graph("", [*graph().children[1:], *chain(ended="error").children], unit_id="s")
    assert rows_of(cut, policy="best")[0] == [(0, False, 1.0)]


def test_echoes_are_no_failures_where_that_is_asked():
    echoed, own = chain(True, echo=True), chain(False, True, echo=False)
    assert rows_of(echoed, own)[0] == [(1, True, 1), (2, True, 1)]
    assert rows_of(echoed, own, own=True)[0] == [(1, False, 1), (2, True, 1)]


@given(st.lists(st.sampled_from([1, 2, 3, None]), min_size=2, max_size=30))
def test_with_all_censoring_at_the_end_survival_is_the_plain_share(failed_at):
    graphs = [
        chain(*(t == at for t in range(1, (at or 3) + 1)), unit=f"s{n:02d}")
        for n, at in enumerate(failed_at)
    ]
    records = measured(graphs)
    card = rollout_scorecard(records)
    curve = survival(graphs, scorer=Toxicity())
    last = max(at or 3 for at in failed_at)
    for turn in range(1, last + 1):
        share = sum(at is not None and at <= turn for at in failed_at) / len(failed_at)
        assert curve.failure_by(turn).point_estimate == pytest.approx(share)
        assert card[f"failed_by_turn_{turn}"].value == pytest.approx(share)


def test_survival_by_path_weights_is_the_expectation_of_the_records():
    # one tree fails on 5 of 8 paths: see test_measuring
    root = Node("", "", "", event=True)
    calm = Node("", "", "", event=False)
    calm.children = [Node("", "", "", event=False), Node("", "", "", event=True)]
    curve = survival([Graph("", [root, calm], unit_id="s"), chain(False, False, unit="t")])
    assert curve.failure_by(1).point_estimate == pytest.approx(0.25)
    assert curve.failure_by(2).point_estimate == pytest.approx((0.75 + 0.0) / 2)
    assert curve.n_groups == 2


def test_topics_group_the_curve_and_make_its_interval_wider():
    graphs = [chain(n < 6, unit=f"s{n:02d}") for n in range(24)]  # topics of six fail together
    seeds = [SeedPrompt(f"p{n}", id=f"s{n:02d}", topic=f"t{n // 6}") for n in range(24)]
    alone, grouped = survival(graphs), survival(graphs, seeds)
    assert (alone.n_groups, grouped.n_groups) == (None, 4)
    widths = [
        curve.failure_by(1).ci_high - curve.failure_by(1).ci_low for curve in (alone, grouped)
    ]
    assert widths[1] > widths[0]


def test_two_targets_on_the_same_seeds_are_paired():
    a = [chain(n < 30, unit=f"s{n:02d}") for n in range(40)]
    b = [chain(n < 20, unit=f"s{n:02d}") for n in range(44)]
    paired = compare_survival(a, b, at=1)
    assert (paired.value_a, paired.value_b) == (pytest.approx(0.75), pytest.approx(0.5))
    assert paired.method == "mover, paired"
    assert paired.ci_low < -0.25 < paired.ci_high < 0.0
    with pytest.raises(InvalidInputError, match="have no seed prompt in common"):
        compare_survival(a, [chain(True, unit="other")], at=1)


def test_curves_that_do_not_exist_say_so():
    with pytest.raises(InvalidInputError, match="`graphs` is empty"):
        survival([])
    with pytest.raises(UndefinedMetricError):
        survival([chain(ended="error")])
    with pytest.raises(InvalidInputError, match="not among the 1 seed prompts"):
        survival([chain(True)], [SeedPrompt("x", id="x")])
