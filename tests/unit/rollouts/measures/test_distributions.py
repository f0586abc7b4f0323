"""How numbers are spread, what happened turn by turn, and both as files."""

import json
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from eval_toolkit.errors import InvalidInputError, MissingColumnError, UndefinedMetricError
from eval_toolkit.rollouts.graphs import ENDED, Graph, Node
from eval_toolkit.rollouts.measures.distributions import (
    column_distributions,
    describe,
    histogram,
    seed_table,
    turn_latencies,
    turn_table,
)
from eval_toolkit.scorecards import Records

numbers = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40)


@given(numbers)
def test_describe_is_what_the_standard_library_says(values):
    told = describe(values)
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    assert told["n"] == len(values)
    assert (told["min"], told["max"]) == (min(values), max(values))
    close = {"rel": 1e-9, "abs": 1e-6}
    assert told["mean"] == pytest.approx(statistics.fmean(values), **close)
    assert told["sd"] == pytest.approx(statistics.stdev(values), **close)
    assert told["median"] == pytest.approx(statistics.median(values), **close)
    assert (told["q1"], told["q3"]) == (pytest.approx(low, **close), pytest.approx(high, **close))


def test_one_number_has_no_spread_and_none_is_undefined():
    assert describe([2.0])["sd"] is None
    for empty in ([], np.empty(0)):
        with pytest.raises(UndefinedMetricError, match="empty"):
            describe(empty)
        with pytest.raises(UndefinedMetricError, match="empty"):
            histogram(empty)
    with pytest.raises(InvalidInputError):
        describe([1.0, float("nan")])


@given(numbers, st.integers(1, 20))
def test_histograms_count_everybody_once(values, bins):
    told = histogram(values, bins=bins)
    assert sum(told["counts"]) == len(values)
    assert len(told["edges"]) == bins + 1
    assert told["edges"] == sorted(told["edges"])


def test_what_lies_outside_the_bounds_is_refused():
    with pytest.raises(InvalidInputError, match=r"values\[1\] is 2"):
        histogram([0.5, 2.0], bounds=(0.0, 1.0))


def test_columns_are_described_with_what_is_missing():
    records = Records.from_columns(
        {"score": [0.2, 0.4, None, None], "turns": [1.0, 3.0, 3.0, 5.0], "none": [None] * 4},
        status={"score": ["ok", "ok", "error", "skipped"]},
        reason={"none": ["not asked for"] * 4},
    )
    found = column_distributions(records, bins=5)
    score = found["score"]
    assert (score["n"], score["n_errors"], score["n_skipped"]) == (2, 1, 1)
    assert score["median"] == pytest.approx(0.3)
    assert score["histogram"]["edges"] == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])
    assert found["turns"]["histogram"]["edges"][-1] == 5.0
    assert found["none"] == {"n": 0, "n_errors": 0, "n_skipped": 4, "reason": "not asked for"}
    json.dumps(found, allow_nan=False)
    with pytest.raises(MissingColumnError, match="'other'"):
        column_distributions(records, ["other"])


def tree():
    calm = Node("", "And?", "No.", event=False, scores={"tox": 0.2, "refusal": 1.0})
    bad = Node("", "And now?", "Grr!!", event=True, echo=False, scores={"tox": 0.8, "refusal": 0.0})
    scores = {"tox": 0.4, "tox:probe": 0.6, "refusal": 0.0}
    return Graph("", [Node("", "Hi", "Hm", event=False, scores=scores, children=[calm, bad])])


def test_the_table_of_turns():
    broken = Graph(
        "", [Node("", "", None, status="error", reason="x", unscored={"tox": "error: x"})]
    )
    first, second = turn_table([tree(), broken])
    assert (first["turn"], first["n"], first["n_errors"], first["n_empty"]) == (1, 2, 1, 0)
    assert (first["tox_mean"], first["tox_probe_mean"], first["event_rate"]) == (0.4, 0.6, 0.0)
    assert (first["probe_length"], first["response_length"]) == (2.0, 2.0)
    assert first["echo_rate"] is None
    assert (second["n"], second["tox_mean"], second["event_rate"]) == (2, 0.5, 0.5)
    assert (second["refusal_rate"], second["echo_rate"]) == (0.5, 0.0)
    assert second["tox_probe_mean"] is None
    assert turn_table([]) == []


def test_branches_weigh_by_their_path():
    one = Graph("", [Node("", "a", "b", event=True)])
    three = Graph("", [Node("", "a", "b", event=False) for _ in range(3)])
    assert turn_table([one, three])[0]["event_rate"] == pytest.approx(0.5)


def test_the_table_of_turns_says_what_its_means_are_over():
    unscored = [Node("", "a", "b", unscored={"tox": "error: NaN"}) for _ in range(8)]
    scored = [Node("", "a", "b", event=True, echo=None, scores={"tox": 1.0}) for _ in range(2)]
    (row,) = turn_table([Graph("", [node]) for node in unscored + scored])
    assert (row["n"], row["event_rate"], row["event_n"]) == (10, 1.0, 2)
    assert (row["tox_mean"], row["tox_n"], row["echo_n"], row["refusal_n"]) == (1.0, 2, 0, 0)


def test_the_detectors_own_threshold_finds_refusals():
    class Detector:
        name, version, threshold, higher_is_worse = "refusal", "1", 0.8, True

        def score(self, texts):
            raise AssertionError("a table asks nobody")

    graph = Graph("", [Node("", "a", "b", scores={"refusal": 0.6})])
    assert turn_table([graph], refusal=Detector())[0]["refusal_rate"] == 0.0
    assert turn_table([graph])[0]["refusal_rate"] == 1.0


def test_chosen_branches_count_the_same_within_a_rollout():
    # Of four second turns two were taken, each with the path weight 1/4.
    def rollout(event, selected):
        pair = [Node("", "a", "b", event=event) for _ in range(2)]
        calm = Node("", "a", "b", event=False)
        return Graph("", [Node("", "a", "b", event=False, children=pair), calm], selected=selected)

    rows = turn_table([rollout(True, selected=True), rollout(False, selected=True)])
    assert rows[1]["event_rate"] == 0.5
    mixed = turn_table([rollout(True, selected=True), Graph("", rollout(False, False).children)])
    assert mixed[1]["event_rate"] == pytest.approx(2 / 3)  # 1 against a half


def test_a_branch_that_ended_is_no_turn():
    ended = Node("", "", None, status=ENDED, reason="the attack ended")
    (row, second) = turn_table([Graph("", [Node("", "a", "b", children=[ended, Node("", "c", "d")])])])  # fmt: skip
    assert (row["n"], second["n"], second["n_errors"]) == (1, 1, 0)


def test_latencies_leave_out_what_took_no_time():
    def node(seconds, cached=False):
        return Node("", "a", "b", usage={"response": {"latency_s": seconds, "cached": cached}})

    graphs = [Graph("", [node(s)]) for s in (0.1, 0.3)] + [Graph("", [node(9.0, cached=True)])]
    (row,) = turn_latencies(graphs)
    assert (row["turn"], row["probe"], row["response"]["n"]) == (1, None, 2)
    assert row["response"]["mean"] == pytest.approx(0.2)
    assert turn_latencies([Graph("", [node(0.0)])])[0]["response"]["n"] == 1  # quick is no cache


def test_seeds_have_their_own_interval_where_rollouts_are_0_or_1():
    records = Records.from_columns(
        {"attack_success": [1, 1, 0, 0, 0.5, None]},
        unit_id=["a", "a", "a", "b", "c", "d"],
        status={"attack_success": ["ok"] * 5 + ["error"]},
    )
    a, b, c, d = seed_table(records)
    # statsmodels.stats.proportion.proportion_confint(2, 3, method="wilson")
    low, high = proportion_confint(2, 3, method="wilson")
    assert (a["value"], a["ci_low"], a["ci_high"]) == pytest.approx((2 / 3, low, high))
    assert (b["n"], b["value"]) == (1, 0.0)
    assert (c["value"], c["ci_low"]) == (0.5, None)
    assert (d["n"], d["n_errors"], d["value"]) == (0, 1, None)
    lacking = Records.from_columns(
        {"attack_success": [1, 1, None]},
        unit_id=["a"] * 3,
        status={"attack_success": ["ok", "ok", "error"]},
    )
    assert seed_table(lacking)[0]["ci_low"] is None  # a failure before a break is known alone


def test_seeds_of_a_column_that_is_not_there():
    records = Records.from_columns({"attack_success": [1]})
    with pytest.raises(MissingColumnError, match="toxicity"):
        seed_table(records, "toxicity")
