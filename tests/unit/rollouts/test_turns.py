"""Rollouts as columns and back, in memory and through a run's folder."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.each import each

from eval_toolkit.errors import ArtifactError, InvalidInputError, InvalidTypeError
from eval_toolkit.rollouts.conversations import Conversation, Turn
from eval_toolkit.rollouts.graphs import Graph, Node
from eval_toolkit.rollouts.turns import TURN_COLUMNS, TURNS, read_turns, rollouts_of, turns_table
from eval_toolkit.runs import Run, write_run

RESULTS = {"schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {}}

# everything, halves of surrogate pairs and NUL among it
texts = st.text(st.characters(), max_size=8) | st.sampled_from(["", "🙂", "\ud83d", "a\0", "\r\n"])
finite = st.floats(allow_nan=False, allow_infinity=False)
flags = st.none() | st.booleans()


@st.composite
def nodes(draw: st.DrawFn, state: Any, depth: int) -> Node[Any, Any]:
    """A turn and all that follows, in states as a system makes them, or in any others."""
    probe, response = draw(texts), draw(texts | st.none())
    context = draw(st.sampled_from([state, str(state)]) | texts)
    following = state
    if isinstance(state, Conversation):
        following = state.with_probe(probe).with_response(response or "").with_score(0.5)
    n_children = draw(st.integers(0, 2)) if depth and response is not None else 0
    return Node(
        context,
        probe,
        response,
        draw(st.none() | finite),
        [draw(nodes(following, depth - 1)) for _ in range(n_children)],
        draw(st.dictionaries(texts, finite, max_size=2)),
        draw(st.dictionaries(st.sampled_from(["a", "b/c"]), st.just("error: no"), max_size=1)),
        draw(flags),
        draw(flags),
        draw(st.sampled_from(["ok", "error", "skipped"])),
        draw(st.sampled_from(["", "no answer within 60 s", "🙂"])),
        draw(st.sampled_from(["", "crescendo"])),
    )


@st.composite
def graphs(draw: st.DrawFn) -> Graph[Any, Any]:
    goal = draw(texts)
    told = [Turn("before", "yes", 0.5)] if draw(st.booleans()) else []
    states = [goal, Conversation(goal), Conversation(goal, told, opening=True)]
    state = draw(st.sampled_from(states))
    children = [draw(nodes(state, 2)) for _ in range(draw(st.integers(0, 2)))]
    seed = draw(st.none() | st.integers(0, 9) | texts)
    return Graph(state, children, draw(texts), draw(st.integers(1, 3)), seed, draw(st.booleans()))


def links(graph: Graph[Any, Any]) -> list[tuple[Any, ...]]:
    """What is not compared when graphs are."""
    return [
        (graph.seed, type(graph.context), getattr(graph.context, "opening", None)),
        *(
            (
                *(node.id, node.depth, node.weight, type(node.context)),
                node.parent and node.parent.id,
                getattr(node.context, "messages", None),
            )
            for node in graph.nodes()
        ),
    ]


def stored(folder: Path, table: dict[str, Any]) -> Run:
    return write_run(
        folder, results=RESULTS, manifest={"run_id": "r1"}, tables={TURNS: table}, overwrite=True
    )


@given(st.lists(graphs(), max_size=3))
def test_what_is_read_is_what_was_written(given: list[Graph[Any, Any]]) -> None:
    table = turns_table(given)
    assert list(table) == list(TURN_COLUMNS)
    read = read_turns(table)
    assert read == given
    assert list(map(links, read)) == list(map(links, given))
    again = turns_table(read)
    for name in TURN_COLUMNS:  # equal rollouts, equal columns: NaN where there is no reward
        np.testing.assert_array_equal(again[name], table[name])


@settings(
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(graphs(), min_size=1, max_size=3))
def test_through_a_folder(tmp_path: Path, given: list[Graph[Any, Any]]) -> None:
    run = stored(tmp_path / "r1", turns_table(given))
    read = rollouts_of(run)
    assert read == given
    assert list(map(links, read)) == list(map(links, given))


def test_no_rollouts_at_all(tmp_path: Path) -> None:
    assert read_turns(turns_table([])) == []
    assert rollouts_of(stored(tmp_path / "r1", turns_table([]))) == []


def tree() -> Graph[str, str]:
    """Two branches, one of which goes on, in the states of a chat."""
    start = Conversation("goal")
    after = start.with_probe("p").with_response("r")
    deep = Node(after, "pp", None, status="error", reason="timeout", attack="x")
    first = Node(start, "p", "r", 1.0, [deep], {"tox": 0.5}, event=True, echo=False)
    return Graph(start, [first, Node(start, "q", "s")], "u", 2, seed="goal")


def test_a_context_is_stored_where_it_says_something_new() -> None:
    graph = tree()
    table = turns_table([graph])
    assert table["context"].tolist() == ["goal", None, None, None]
    assert table["node_id"].tolist() == ["", "0", "0.0", "1"]
    assert table["parent_id"].tolist() == [None, None, "0", None]
    assert table["depth"].tolist() == [0, 1, 2, 1]
    assert table["weight"].tolist() == [1.0, 0.5, 0.5, 0.5]
    assert table["event"].tolist() == [-1, 1, -1, -1]
    assert table["echo"].tolist() == [-1, 0, -1, -1]
    assert np.isnan(table["reward"]).tolist() == [True, False, True, True]
    assert table["response"].tolist() == [None, "r", None, "s"]
    assert table["encoded"].tolist() == [None] * 4
    graph.children[1].context = "another"  # as from a system of one's own
    assert turns_table([graph])["context"].tolist() == ["goal", None, None, "another"]
    assert read_turns(turns_table([graph])) == [graph]


def test_times_tokens_and_keys_stay_out() -> None:
    graph = tree()
    graph.children[0].usage = {"probe": {"seconds": 1.5}}
    graph.children[0].children[0].reason = "401: api_key=abcdef0123456789 was refused"
    graph.children[0].unscored = {"judge": "error: Bearer abcdefgh12345678 was refused"}
    cells = [cell for column in turns_table([graph]).values() for cell in column.tolist()]
    assert not any("seconds" in str(cell) or "abcdef" in str(cell) for cell in cells)
    (read,) = read_turns(turns_table([graph]))
    assert read.children[0].children[0].reason == "401: api_key=[redacted] was refused"


def test_nodes_that_were_added_later_get_their_ids() -> None:
    graph = tree()
    graph.children.append(Node(graph.context, "late", "yes"))
    assert turns_table([graph])["node_id"].tolist() == ["", "0", "0.0", "1", "2"]


def test_states_that_are_plain_json() -> None:
    state = [{"role": "user", "content": "half \ud83d"}]
    graph: Graph[Any, Any] = Graph(state, [Node(state, {"say": 1}, ["x"]), Node(None, None, None)])
    assert read_turns(turns_table([graph])) == [graph]


class TestWhatCannotBeStored:
    @pytest.mark.parametrize(
        ("change", "error", "words"),
        [
            ({"scores": {"tox": float("nan")}}, InvalidInputError, "score 'tox' is nan"),
            ({"scores": {"tox": "high"}}, InvalidInputError, "score 'tox' is 'high'; it must be a"),
            ({"reward": float("inf")}, InvalidInputError, "reward is inf"),
            ({"context": object()}, InvalidTypeError, "context is object"),
            ({"probe": ("a",)}, InvalidTypeError, "probe is tuple"),
            ({"event": "yes"}, InvalidTypeError, "event is 'yes'"),
        ],
    )
    def test_says_which_node(
        self, change: dict[str, Any], error: type[Exception], words: str
    ) -> None:
        graph = tree()
        for name, value in change.items():
            setattr(graph.children[0].children[0], name, value)
        with pytest.raises(error, match=rf"graph 1 \(unit 'u'\), node 0\.0: {words}"):
            turns_table([tree(), graph])

    def test_a_cycle(self) -> None:
        graph = tree()
        graph.children[0].children.append(graph.children[0])
        with pytest.raises(InvalidInputError, match="twice"):
            turns_table([graph])


class TestWhatCannotBeRead:
    def broken(self, name: str, row: int, value: Any) -> dict[str, Any]:
        table = turns_table([tree()])
        table[name][row] = value
        return table

    def test_a_missing_column(self) -> None:
        table = turns_table([tree()])
        del table["probe"]
        with pytest.raises(ArtifactError, match="no column 'probe'"):
            read_turns(table)

    @each(
        ("name", "row", "value", "words"),
        [
            ("node_id", 0, "0", "row 0: .*no row of its rollout"),
            ("node_id", 3, "7", "row 3: .*node '7' is out of order"),
            ("parent_id", 2, "9", "row 2: .*no row of its parent '9'"),
            ("unit_id", 1, "other", "row 1: .*follows the rows of another rollout"),
            ("scores", 1, "{", "row 1"),
            ("scores", 1, None, "row 1"),
            ("scores", 1, "[1]", r"row 1: .*scores is \[1\]"),
            ("scores", 1, '{"rude": "very"}', "row 1: .*scores is"),
            ("unscored", 1, '{"rude": 1}', "row 1: .*unscored is"),
            ("scores", 1, "[" * 100_000, "row 1: .*nested too deeply"),
            ("encoded", 1, '["nothing"]', "row 1"),
            ("event", 1, 5, "row 1"),
        ],
    )
    def test_a_bad_cell_is_named_by_its_row(
        self, name: str, row: int, value: Any, words: str
    ) -> None:
        with pytest.raises(ArtifactError, match=words):
            read_turns(self.broken(name, row, value))

    def test_a_run_of_another_kind(self, tmp_path: Path) -> None:
        run = write_run(tmp_path / "r", results=RESULTS, manifest={"run_id": "r1"})
        with pytest.raises(ArtifactError, match="not a rollout run"):
            rollouts_of(run)
