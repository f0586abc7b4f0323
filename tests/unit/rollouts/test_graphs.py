"""Trees of turns and the states between them."""

import copy
import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.rollouts import Conversation, Graph, Node, Turn
from eval_toolkit.rollouts.graphs import as_graph


def node(name, *children):
    return Node("", f"probe {name}", f"response {name}", children=list(children))


def copied(graph):
    """Copy node by node: deep trees are no matter."""
    made = Graph(graph.context, unit_id=graph.unit_id, attempt=graph.attempt)
    places = {None: made}
    for one in graph.nodes():
        new = Node(one.context, one.probe, one.response, scores=dict(one.scores))
        parent = places[None if one.parent is None else id(one.parent)]
        parent.children.append(new)
        places[id(one)] = new
    made.relink()
    return made


def tree():
    return Graph("goal", [node("a", node("b"), node("c", node("d"))), node("e")])


trees = st.recursive(
    st.builds(lambda: node("x")),
    lambda inner: st.lists(inner, min_size=1, max_size=3).map(lambda some: node("x", *some)),
    max_leaves=12,
)


class TestTrees:
    def test_ids_parents_depths_and_weights(self):
        nodes = {one.probe[-1]: one for one in tree().nodes()}
        assert {name: one.id for name, one in nodes.items()} == {
            "a": "0",
            "b": "0.0",
            "c": "0.1",
            "d": "0.1.0",
            "e": "1",
        }
        assert nodes["d"].parent is nodes["c"]
        assert [nodes[name].depth for name in "abcde"] == [1, 2, 2, 3, 1]
        assert [nodes[name].weight for name in "abcde"] == [0.5, 0.25, 0.25, 0.25, 0.5]

    def test_paths_and_conversations(self):
        graph = tree()
        names = [[one.probe[-1] for one in path] for path in graph.paths()]
        assert names == [["a", "b"], ["a", "c", "d"], ["e"]]
        assert [leaf.probe[-1] for leaf in graph.leaves()] == ["b", "d", "e"]
        assert [m.content for m in graph.conversation(graph.leaves()[1])] == [
            *("probe a", "response a", "probe c", "response c", "probe d", "response d"),
        ]
        assert [m.role for m in graph.conversation()] == ["user", "assistant"] * 2
        assert [one.probe[-1] for one in graph.at_depth(2)] == ["b", "c"]
        assert not graph.is_chain

    @given(st.lists(trees, min_size=1, max_size=3))
    def test_weights_of_leaves_add_up_to_one(self, children):
        graph = Graph("goal", children)
        assert math.isclose(math.fsum(leaf.weight for leaf in graph.leaves()), 1.0)
        for one in graph.nodes():
            assert [step.id for step in one.path()][-1] == one.id
            assert len(one.path()) == one.depth

    def test_nodes_are_found_when_they_are_added(self):
        graph = Graph("goal", [node("a")])
        graph.children[0].children.append(node("b"))
        graph.relink()
        assert [one.id for one in graph.nodes()] == ["0", "0.0"]
        assert graph.is_chain

    def test_a_deep_chain_does_not_recurse(self):
        first = last = node("x")
        for _ in range(20_000):
            last.children.append(node("x"))
            last = last.children[0]
        graph = Graph("goal", [first])
        assert graph.leaves()[0].depth == 20_001
        assert len(graph.first_path()) == 20_001
        assert graph == copied(graph)
        assert len(repr(graph)) < 1_000

    @given(st.lists(trees, min_size=1, max_size=3))
    def test_equal_is_equal_in_every_turn(self, children):
        graph = Graph("goal", children)
        other = copied(graph)
        assert graph == other
        assert not graph != other  # noqa: SIM202 - the other operator
        other.leaves()[-1].scores["x"] = 0.5
        assert graph != other
        assert graph != Graph("goal", [*copied(graph).children, node("more")])
        assert graph != "goal"

    def test_a_conversation_begins_with_the_opening_where_it_was_seen(self):
        state = Conversation("Once upon a time", opening=True)
        later = state.with_probe("go on").with_response("ok")
        last = Node(later, "and?", "The end.")
        graph = Graph(state, [Node(state, "go on", "ok", children=[last])])
        assert [m.content for m in graph.conversation()] == [
            "Once upon a time\n\ngo on",
            "ok",
            "and?",
            "The end.",
        ]

    @pytest.mark.parametrize("state", ["goal", Conversation("goal")])
    def test_a_tester_that_failed_said_nothing(self, state):
        assert Graph(state, [Node(state, "", None, status="error")]).conversation() == ()

    def test_positions_of_the_published_classes(self):
        one = Node("context", "probe", "response", 0.5, [])
        assert (one.context, one.probe, one.response, one.reward) == (
            "context",
            "probe",
            "response",
            0.5,
        )
        assert (one.challenge, one.audit, one.utterance) == ("probe",) * 3
        assert Graph[str, str] is not None

    def test_an_empty_graph(self):
        graph = Graph("goal")
        assert (list(graph.nodes()), graph.paths(), graph.conversation()) == ([], [], ())
        assert graph.is_chain


class TestBadGraphs:
    def test_a_cycle_is_named(self):
        one = node("a")
        one.children.append(one)
        with pytest.raises(InvalidInputError, match="twice"):
            Graph("goal", [one])

    def test_a_node_in_two_places_is_named(self):
        shared = node("a")
        with pytest.raises(InvalidInputError, match=r"node 1\.0 .*first as 0|node 0\.0 .*first as"):
            Graph("goal", [shared, node("b", shared)])

    @pytest.mark.parametrize("children", ["text", [1], None])
    def test_what_is_no_node(self, children):
        with pytest.raises(InvalidTypeError):
            Graph("goal", children)


class TestConversations:
    def test_it_is_a_text_with_messages(self):
        state = Conversation("goal").with_probe("Hello").with_response("Hi.").with_probe("And?")
        assert isinstance(state, str)
        assert str(state) == "goal\n\nuser: Hello\n\nassistant: Hi.\n\nuser: And?"
        assert [(m.role.value, m.content) for m in state.messages] == [
            ("user", "Hello"),
            ("assistant", "Hi."),
            ("user", "And?"),
        ]
        assert [m.role.value for m in state.exchanged] == ["assistant", "user", "assistant"]
        assert (state.n_turns, state.probes, state.responses) == (1, ("Hello", "And?"), ("Hi.",))

    def test_before_the_first_turn_it_is_the_seed_prompt(self):
        assert Conversation("goal") == "goal"
        assert Conversation("goal").messages == ()
        assert Conversation("goal", opening=True).messages[0].content == "goal"

    def test_it_keeps_what_it_is_when_copied(self):
        state = Conversation("goal", [Turn("a", "b", 0.5)], "c", opening=True)
        again = copy.deepcopy(state)
        assert again == state
        assert (again.turns, again.probe, again.opening) == (state.turns, "c", True)

    def test_scores_are_of_the_last_turn(self):
        state = Conversation("goal").with_probe("a").with_response("b").with_score(0.3)
        assert state.turns[-1].score == 0.3
        assert str(state) == str(state.with_score(None))
        assert Conversation("goal").with_score(0.3).turns == ()

    def test_it_begins_with_a_text(self):
        with pytest.raises(InvalidTypeError):
            Conversation(3)


class TestGraphsOfOthers:
    """What has the fields of a graph is read as one; astra-rl's are such objects."""

    def turn(self, *children, **fields):
        told = {"context": "Hi", "probe": "How?", "response": "So.", "reward": 0.5, **fields}
        return SimpleNamespace(**told, children=list(children))

    def test_a_tree(self):
        theirs = SimpleNamespace(
            context="Hi", children=[self.turn(self.turn(probe="And?")), self.turn(reward=None)]
        )
        graph = as_graph(theirs)
        assert [(node.id, node.probe, node.reward) for node in graph.nodes()] == [
            ("0", "How?", 0.5),
            ("0.0", "And?", 0.5),
            ("1", "How?", None),
        ]
        assert theirs.children[0].children[0].probe == "And?"  # theirs are left as they are

    def test_ours_is_itself(self):
        graph = Graph("Hi", [Node("Hi", "How?", "So.")])
        assert as_graph(graph) is graph

    def test_our_turns_in_their_graph_keep_what_they_know(self):
        node = Node("Hi", "How?", "So.", scores={"tox": 0.5}, children=[Node("Hi", "And?", "No.")])
        graph = as_graph(SimpleNamespace(context="Hi", children=(node,)))
        assert [turn.probe for turn in graph.nodes()] == ["How?", "And?"]
        assert graph.children[0].scores == {"tox": 0.5}
        assert graph.children[0] is not node

    def test_long_chains(self):
        last = self.turn()
        for _ in range(5000):
            last = self.turn(last)
        assert len(as_graph(SimpleNamespace(context="Hi", children=[last])).first_path()) == 5001

    def test_cycles_and_shared_turns(self):
        node = self.turn()
        node.children.append(node)
        for children in ([node], [self.turn(last := self.turn()), last]):
            with pytest.raises(InvalidInputError, match="is in the graph twice"):
                as_graph(SimpleNamespace(context="Hi", children=children))

    @pytest.mark.parametrize(
        ("thing", "message"),
        [
            ({"context": "Hi"}, "returned dict, not a Graph"),
            (SimpleNamespace(context="Hi"), "returned SimpleNamespace, not a Graph"),
            (SimpleNamespace(context="Hi", children="no"), "must be a sequence"),
            (
                SimpleNamespace(context="Hi", children=["no"]),
                "a turn is str, which has no `context`",
            ),
            (
                SimpleNamespace(context="Hi", children=[SimpleNamespace(context="Hi")]),
                "which has no `probe`",
            ),
        ],
    )
    def test_what_is_none(self, thing, message):
        with pytest.raises(InvalidTypeError, match=message):
            as_graph(thing)
