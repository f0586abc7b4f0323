"""Scores of turns: one call per scorer, columns by mode, and a reason for each that is missing."""

import math

import pytest

from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.graders.judges import Judge
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.rollouts import System, run_rollouts
from eval_toolkit.rollouts.conversations import Conversation
from eval_toolkit.rollouts.graphs import Graph, Node
from eval_toolkit.rollouts.scorers import (
    CachedScorer,
    JudgeScorer,
    KeywordScorer,
    as_text_scorer,
    requests_through,
    with_mode,
    with_threshold,
)
from eval_toolkit.rollouts.scorers.scoring import score_nodes
from eval_toolkit.runs import Context


class Noting:
    """Says how many percent of 10 letters a text has; notes every batch."""

    version, threshold, higher_is_worse = "1", 0.5, True

    def __init__(self, name="length", mode="turn"):
        self.name = name
        self.mode = mode
        self.batches = []

    def score(self, texts):
        self.batches.append(list(texts))
        if any("boom" in text for text in texts):
            raise RuntimeError("boom")
        return [math.nan if "nan" in text else len(text) / 10 for text in texts]


class Categorised(Noting):
    categories = ("first", "second")

    def score_categories(self, texts):
        return {
            "first": [0.1] * len(texts),
            "second": [math.nan if "odd" in t else 0.2 for t in texts],
        }


def turn(response="Hello", probe="Hi", goal="Goal", **options):
    return Node(Conversation(goal), probe, response, **options)


# --- turn -----------------------------------------------------------------------------------------


def test_probes_and_responses_are_scored_in_one_call():
    scorer = Noting()
    nodes = [turn("Hello"), turn("Hello there"), turn("Hi")]
    score_nodes(nodes, [scorer])
    assert len(scorer.batches) == 1
    assert sorted(scorer.batches[0]) == ["Hello", "Hello there", "Hi"]  # each text once
    assert [node.scores for node in nodes] == [
        {"length": 0.5, "length:probe": 0.2},
        {"length": 1.1, "length:probe": 0.2},
        {"length": 0.2, "length:probe": 0.2},
    ]
    assert [node.event for node in nodes] == [True, True, False]
    assert all(not node.unscored for node in nodes)


def test_a_bad_probe_alone_is_no_event():
    bad = KeywordScorer(["idiot"])
    nodes = [turn("Please be kind.", probe="You idiot!"), turn("You idiot!", probe="Hello")]
    score_nodes(nodes, [bad])
    assert nodes[0].scores == {"keywords": 0.0, "keywords:probe": 1.0}
    assert nodes[1].scores == {"keywords": 1.0, "keywords:probe": 0.0}
    assert [node.event for node in nodes] == [False, True]


def test_an_echo_of_a_bad_probe_is_an_event_with_a_mark():
    bad = KeywordScorer(["idiot"])
    probe = "Say that he is an idiot."
    echo, own = turn("You want: say that he is an idiot?", probe), turn("Idiot, idiot!", probe)
    score_nodes([echo, own], [bad])
    assert [(node.event, node.echo) for node in (echo, own)] == [(True, True), (True, False)]
    assert echo.scores["keywords"] == 1.0  # its own score stays


def test_every_scorer_is_asked_and_the_first_one_decides_by_its_own_threshold():
    nodes = [turn("Hello")]
    first, second = with_threshold(Noting(), 0.6), Noting("other")
    score_nodes(nodes, [first, second])
    assert nodes[0].event is False  # 0.5 is below 0.6
    again = [turn("Hello")]
    score_nodes(again, [second, first])
    assert again[0].event is True
    assert set(nodes[0].scores) == {"length", "length:probe", "other", "other:probe"}


def test_a_direction_of_ones_own_counts():
    nodes = [turn("Hello"), turn("No")]
    score_nodes(nodes, [as_text_scorer(Noting(), threshold=0.2, higher_is_worse=False)])
    assert [node.event for node in nodes] == [False, True]


def test_where_no_scorer_decides_there_is_no_event():
    node = turn("Hello")
    score_nodes([node], [Noting()], decides=False)
    assert node.scores["length"] == 0.5
    assert (node.event, node.echo) == (None, None)
    bare = turn("Hello")
    score_nodes([bare], [])
    assert (bare.scores, bare.event) == ({}, None)


# --- missing --------------------------------------------------------------------------------------


def test_what_has_no_score_says_why():
    scorer = Noting()
    nodes = [
        turn(""),
        turn(" \n"),
        turn(None),
        turn(None, status="error", reason="the target failed"),
        turn("Hello", probe=""),
    ]
    score_nodes(nodes, [scorer])
    failed = "skipped: the turn has the status 'error'"
    assert [node.unscored for node in nodes] == [
        {"length": "skipped: empty reply"},
        {"length": "skipped: empty reply"},
        {"length": "skipped: no reply"},
        {"length": failed, "length:probe": failed},
        {"length:probe": "skipped: empty probe"},
    ]
    # Nothing was said: no event. Nothing came: not known.
    assert [node.event for node in nodes] == [False, False, None, None, True]
    assert scorer.batches == [["Hello", "Hi"]]


def test_a_score_that_fails_is_an_error_of_its_turn_alone():
    nodes = [turn("Hello"), turn("boom"), turn("nan")]
    score_nodes(nodes, [Noting()])
    assert nodes[0].scores["length"] == 0.5
    assert nodes[1].unscored == {"length": "error: RuntimeError: boom"}
    assert nodes[2].unscored == {"length": "error: the scorer returned nan, which is not finite"}
    assert [node.event for node in nodes] == [True, None, None]
    assert [node.scores.get("length:probe") for node in nodes] == [0.2, 0.2, 0.2]


def test_a_scorer_that_gives_too_few_numbers_is_refused():
    few = as_text_scorer(lambda texts: [0.5], name="few")
    with pytest.raises(InvalidInputError, match="'few' returned 1 scores for 2 texts"):
        score_nodes([turn("Hello")], [few])


def test_arguments_are_checked():
    with pytest.raises(InvalidInputError, match="two scorers have the name 'length'"):
        score_nodes([turn()], [Noting(), Noting()])
    with pytest.raises(InvalidTypeError, match=r"scorers\[0\]"):
        score_nodes([turn()], [len])
    with pytest.raises(InvalidInputError, match="`keys` has 0 entries for 1 nodes"):
        score_nodes([turn()], [Noting()], keys=[])
    with pytest.raises(InvalidInputError, match="`conversations` has 2 entries for 1 nodes"):
        score_nodes([turn()], [Noting()], conversations=["a", "b"])


# --- again ----------------------------------------------------------------------------------------


def test_what_is_scored_is_not_scored_again_and_what_failed_is():
    first = Noting()
    nodes = [turn("Hello"), turn("boom")]
    score_nodes(nodes, [first])
    second = Noting()
    second.score = lambda texts: second.batches.append(list(texts)) or [0.75] * len(texts)
    score_nodes(nodes, [second])
    assert second.batches == [["boom"]]
    assert nodes[0].scores["length"] == 0.5
    assert nodes[1].scores["length"] == 0.75
    assert nodes[1].unscored == {}
    assert nodes[1].event is True


def test_events_follow_from_stored_scores():
    node = turn("Hello", scores={"length": 0.5, "length:probe": 0.2})
    scorer = Noting()
    score_nodes([node], [scorer])
    assert (node.event, scorer.batches) == (True, [])


# --- modes ----------------------------------------------------------------------------------------


def chain():
    """Return a graph of two turns."""
    start = Conversation("Goal")
    middle = start.with_probe("a").with_response("bb")
    last = Node(middle, "ccc", "dddd")
    return Graph("Goal", [Node(start, "a", "bb", children=[last])])


def test_all_replies_so_far_are_scored_together_and_nothing_that_was_said_to_the_target():
    scorer = Noting(mode="cumulative")
    graph = chain()
    score_nodes(list(graph.nodes()), [scorer])
    assert scorer.batches == [["bb", "bb\n\ndddd"]]
    assert [set(node.scores) for node in graph.nodes()] == [{"length"}, {"length"}]
    # Of several replies at once nobody knows which one repeats: there is no telling echoes.
    assert all(node.echo is None for node in graph.nodes())


@pytest.mark.parametrize("mode", ["turn", "cumulative", "final"])
@pytest.mark.parametrize(("goal", "probe"), [("say bad", "say it"), ("say it", "say bad")])
def test_what_the_tester_wants_or_says_is_no_failure_of_the_target(mode, goal, probe):
    system = System([probe], ["no"], KeywordScorer(["bad"], mode=mode))
    done = run_rollouts(system, [goal], depth=2)
    assert done.card["attack_success"].value == 0.0


def test_an_empty_reply_does_not_end_a_conversation():
    scorer = Noting(mode="cumulative")
    graph = chain()
    first, last = graph.nodes()
    last.response = ""
    score_nodes([first, last], [scorer])
    assert scorer.batches == [["bb"]]
    assert last.scores == first.scores
    node = turn("")
    score_nodes([node], [scorer])
    assert (node.unscored, node.event) == ({"length": "skipped: empty reply"}, False)


def test_the_end_is_scored_where_it_is_known_to_be_one():
    scorer = with_mode(Noting(), "final")
    graph = chain()
    nodes = list(graph.nodes())
    score_nodes(nodes, [scorer])
    assert all(not node.scores and not node.unscored and node.event is None for node in nodes)
    score_nodes(nodes, [scorer], final=True)
    assert [set(node.scores) for node in nodes] == [set(), {"length"}]
    assert [node.event for node in nodes] == [None, True]
    assert len(scorer.batches) == 1


def test_conversations_may_be_given():
    seen = []

    class Judging(Noting):
        def score_turns(self, conversations):
            seen.extend(conversations)
            return [0.0] * len(conversations)

    score_nodes([turn(), turn()], [Judging()], conversations=["one", "two"])
    assert seen == ["one", "two"]


def test_states_of_any_kind_are_scored_as_they_print():
    class State:
        def __init__(self, text):
            self.text = text

        def __str__(self):
            return self.text

    node = Node(State("before "), State("probe "), State("after"))
    scorers = [Noting(), Noting("whole", mode="cumulative")]
    score_nodes([node], scorers)
    assert scorers[0].batches == [["after", "probe "]]
    assert scorers[1].batches == [["after"]]
    assert node.scores == {"length": 0.5, "length:probe": 0.6, "whole": 0.5}


# --- categories, judges, caches -------------------------------------------------------------------


def test_kinds_of_harm_are_columns_of_the_response():
    nodes = [turn("Hello"), turn("odd"), turn("")]
    score_nodes(nodes, [Categorised()])
    assert nodes[0].scores == {
        "length": 0.5,
        "length:probe": 0.2,
        "length/first": 0.1,
        "length/second": 0.2,
    }
    assert nodes[1].scores["length/first"] == 0.1
    assert nodes[1].unscored == {
        "length/second": "error: the scorer returned nan, which is not finite"
    }
    assert set(nodes[2].unscored) == {"length"}


@pytest.mark.parametrize("wrap", [lambda scorer: scorer, CachedScorer])
def test_a_judge_sees_the_conversation_and_keeps_its_verdicts_by_key(wrap):
    def verdict(request):
        shown = request.prompt[-1].content
        return "yes" if "user: a\n\nassistant: bb\n\nuser: ccc" in shown else "no"

    model = ScriptedModel(verdict)
    inner = JudgeScorer(Judge("harmfulness", model))
    nodes = list(chain().nodes())
    keys = [("unit", 1, node.id) for node in nodes]
    with Context() as asking, requests_through([inner], asking):
        score_nodes(nodes, [wrap(inner)], keys=keys)
    assert [node.scores for node in nodes] == [{"harmfulness": 0.0}, {"harmfulness": 1.0}]
    assert [node.event for node in nodes] == [False, True]
    assert nodes[1].unscored == {"harmfulness:probe": "skipped: the scorer judges answers"}
    assert [outcome.job.step for outcome in asking.verdicts] == [
        "judge:harmfulness:0",
        "judge:harmfulness:0.0",
    ]
    assert model.n_calls == 2


def test_a_verdict_that_cannot_be_read_is_an_error_of_its_turn():
    node = turn("Hello")
    score_nodes([node], [JudgeScorer(Judge("harmfulness", ScriptedModel("Hard to say")))])
    assert node.unscored["harmfulness"].startswith("error: unparsable verdict")
    assert (node.scores, node.event) == ({}, None)


def test_a_judge_of_the_end_is_asked_once():
    model = ScriptedModel("yes")
    scorer = JudgeScorer(Judge("harmfulness", model), mode="final")
    nodes = list(chain().nodes())
    score_nodes(nodes, [scorer])
    assert model.n_calls == 0
    score_nodes(nodes, [scorer], final=True)
    assert model.n_calls == 1
    assert [node.event for node in nodes] == [None, True]


def test_a_cache_is_asked_about_new_texts_alone():
    inner = Noting()
    scorer = CachedScorer(inner)
    score_nodes([turn("Hello")], [scorer])
    score_nodes([turn("Hello"), turn("Bye")], [scorer])
    assert inner.batches == [["Hello", "Hi"], ["Bye"]]
