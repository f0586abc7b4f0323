"""Transcripts: complete, strict, and harmless to whoever reads them."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from tests.support.each import each

from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.rollouts.conversations import Conversation
from eval_toolkit.rollouts.graphs import Graph, Node
from eval_toolkit.rollouts.transcribing import transcripts, write_transcripts

NASTY = [
    "<script>alert(1)</script>",
    "```\n# a heading\n<img src=x onerror=alert(1)>\n```",
    "`````` ~~~ `x`",
    "![image](http://evil.example/x.png) [link](javascript:alert(1)) <http://evil.example>",
    "    indented\n\n> quoted\n- item\n|a|b|\n|-|-|",
    "[ref]: http://evil.example\n\n&lt;b&gt; www.evil.example",
]


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def chain(unit: str = "u1", event: bool | None = True, **more: Any) -> Graph[Any, Any]:
    """Two turns; the target fails, or not, in the second."""
    start = Conversation("Be rude")
    after = start.with_probe("Please?").with_response("No.")
    last = Node(after, "Pretty please?", "You fool.", 0.5, scores={"rude": 0.9}, event=event)
    first = Node(start, "Please?", "No.", scores={"rude": 0.1}, event=False, attack="ask")
    first.children.append(last)
    return Graph(start, [first], unit, **more)


def tree() -> Graph[Any, Any]:
    """A first turn with three answers: a failure that is an echo, an error, an unknown."""
    start = Conversation("goal", opening=True)
    after = start.with_probe("p").with_response("r")
    leaves = [
        Node(after, "a", "x", scores={"tox": 1.0}, event=True, echo=True),
        Node(after, "b", None, status="error", reason="timeout"),
        Node(after, "c", "", unscored={"tox": "error: no score"}),
    ]
    return Graph(start, [Node(start, "p", "r", children=leaves, event=False)], "t")


def lines(graphs: list[Graph[Any, Any]], **options: Any) -> list[dict[str, Any]]:
    pieces = list(transcripts(graphs, **options))
    assert all(piece.count("\n") == 1 and piece.endswith("\n") for piece in pieces)
    return [json.loads(piece, parse_constant=refuse) for piece in pieces]


def rows(graphs: list[Graph[Any, Any]], **options: Any) -> list[dict[str, str]]:
    text = "".join(transcripts(graphs, "csv", **options))
    return list(csv.DictReader(io.StringIO(text, newline="")))


class TestJsonLines:
    def test_a_line_has_the_whole_conversation(self) -> None:
        (line,) = lines([chain(attempt=2)])
        assert line["messages"] == [
            {"role": "user", "content": "Please?"},
            {"role": "assistant", "content": "No."},
            {"role": "user", "content": "Pretty please?"},
            {"role": "assistant", "content": "You fool."},
        ]
        assert [turn["scores"] for turn in line["turns"]] == [{"rude": 0.1}, {"rude": 0.9}]
        assert [turn["attack"] for turn in line["turns"]] == ["ask", ""]
        del line["messages"], line["turns"]
        assert line == {
            "unit_id": "u1",
            "attempt": 2,
            "seed_prompt": "Be rude",
            "nodes": ["0", "0.0"],
            "weight": 1.0,
            "first_event_turn": 2,
            "status": "ok",
            "reason": "",
        }

    def test_a_tree_gives_a_line_per_path(self) -> None:
        echo, error, unknown = lines([tree()])
        assert [line["nodes"] for line in (echo, error, unknown)] == [
            ["0", "0.0"],
            ["0", "0.1"],
            ["0", "0.2"],
        ]
        assert [line["weight"] for line in (echo, error, unknown)] == [1 / 3] * 3
        assert (echo["first_event_turn"], error["first_event_turn"]) == (2, None)
        assert echo["turns"][1]["echo"] is True
        assert (error["status"], error["reason"]) == ("error", "timeout")
        assert [m["role"] for m in error["messages"]] == ["user", "assistant", "user"]
        assert unknown["turns"][1]["unscored"] == {"tox": "error: no score"}
        # the seed prompt opened this conversation, so the target saw it
        assert echo["messages"][0]["content"] == "goal\n\np"

    def test_states_of_ones_own_and_rollouts_that_never_began(self) -> None:
        own: Graph[Any, Any] = Graph("seed", [Node("anything", "p", "r")], "a")
        empty: Graph[Any, Any] = Graph("seed", unit_id="b")
        one, other = lines([own, empty])
        assert [m["content"] for m in one["messages"]] == ["p", "r"]
        assert (other["messages"], other["nodes"]) == ([], [])
        assert (other["status"], other["reason"]) == ("skipped", "there are no turns")

    @given(st.text(st.characters(), max_size=20))
    def test_any_text_comes_back(self, text: str) -> None:
        graph: Graph[Any, Any] = Graph(text, [Node(text, text, text)], "u")
        (piece,) = transcripts([graph])
        line = json.loads(piece.encode(), parse_constant=refuse)
        assert [m["content"] for m in line["messages"]] == [text, text]
        assert line["seed_prompt"] == text


class TestCsv:
    def test_a_row_per_turn(self) -> None:
        found = rows([chain(), tree()])
        assert [(row["unit_id"], row["node_id"], row["turn"]) for row in found] == [
            ("u1", "n0", "1"),
            ("u1", "n0.0", "2"),
            ("t", "n0", "1"),
            ("t", "n0.0", "2"),
            ("t", "n0.1", "2"),
            ("t", "n0.2", "2"),
        ]
        assert [row["score:rude"] for row in found] == ["0.1", "0.9", "", "", "", ""]
        assert [row["score:tox"] for row in found] == ["", "", "", "1.0", "", ""]
        assert [row["event"] for row in found] == ["False", "True", "False", "True", "", ""]
        assert [row["parent_id"] for row in found] == ["", "n0", "", "n0", "n0", "n0"]
        assert found[1]["reward"] == "0.5"
        assert (found[4]["status"], found[4]["reason"]) == ("error", "timeout")

    def test_a_rollout_that_never_began_is_a_row(self) -> None:
        (row,) = rows([Graph("seed", unit_id="b")])
        assert (row["node_id"], row["turn"], row["status"]) == ("", "0", "skipped")
        assert (row["seed_prompt"], row["reason"]) == ("seed", "there are no turns")

    @given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
    def test_any_text_comes_back(self, text: str) -> None:
        graph: Graph[Any, Any] = Graph("s", [Node("s", text, f"x{text}")], "u")
        (row,) = rows([graph])
        formula = text.lstrip(" ").startswith(tuple("=+-@\t\r\n＝＋－＠"))
        assert (row["probe"], row["response"]) == (f"'{text}" if formula else text, f"x{text}")

    def test_half_a_surrogate_pair_is_replaced(self) -> None:
        (row,) = rows([Graph("s", [Node("s", "half \ud83d", "r")], "u")])
        assert row["probe"] == "half \ufffd"


def tokens(text: str) -> list[Any]:
    """All that a reader of Markdown sees, links of bare addresses too."""
    parsed = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(text)
    return [one for token in parsed for one in (token, *(token.children or ()))]


ALLOWED = {"heading_open", "heading_close", "paragraph_open", "paragraph_close", "inline", "text"}
ALLOWED |= {"bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close"}
ALLOWED |= {"strong_open", "strong_close", "code_inline", "fence"}


class TestMarkdown:
    def test_reads_well(self) -> None:
        text = "".join(transcripts([chain()], "md"))
        assert text.startswith("# Transcripts\n\n## `u1`, rollout 1\n")
        assert "The target failed in turn 2." in text
        assert "### Turn 1, by `ask`" in text
        assert "- `rude`: 0.9\n- failure: yes\n- reward: 0.5" in text
        fences = [token.content for token in tokens(text) if token.type == "fence"]
        assert fences == ["Be rude\n", "Please?\n", "No.\n", "Pretty please?\n", "You fool.\n"]

    def test_what_is_missing_is_said(self) -> None:
        text = "".join(transcripts([tree(), Graph("s", unit_id="b")], "md"))
        assert "path `0.1`" in text
        assert "failure: yes (it repeats the tester)" in text
        assert "- status: `error`, `timeout`" in text
        assert "**Target**\n\nnothing\n" in text
        assert "**Target**\n\nan empty text\n" in text
        assert "- `tox`: `error: no score`" in text
        assert "It is unknown whether the target failed (no verdict for 1 of 2 turns)." in text
        assert "skipped: `there are no turns`" in text
        safe = "".join(transcripts([chain(event=False)], "md"))
        assert "The target did not fail in 2 turns." in safe

    @pytest.mark.parametrize("nasty", NASTY)
    def test_nothing_that_was_said_is_markup(self, nasty: str) -> None:
        node = Node(
            *(nasty, nasty, nasty),
            scores={nasty: 1.0},
            unscored={f"{nasty}!": nasty},
            status=nasty,
            reason=nasty,
            attack=nasty,
        )
        text = "".join(transcripts([Graph(nasty, [node, Node("", "", "")], nasty)], "md"))
        found = tokens(text)
        assert {token.type for token in found} <= ALLOWED
        assert [t.content for t in found if t.type == "fence"][:3] == [f"{nasty}\n"] * 3
        for token in found:  # names stand in code alone
            assert token.type != "text" or "evil" not in token.content

    @given(
        st.text(
            st.sampled_from("`~<>![]()\\#*_-|: \n\r\tax\x00\x1b\u202e\u2028\ud83d"), max_size=30
        )
    )
    def test_no_text_breaks_out(self, text: str) -> None:
        node = Node("", text, f"a{text}", attack=text, reason=text, status="error")
        told = "".join(transcripts([Graph(f"b{text}", [node], text)], "md"))
        told.encode()  # can be written down
        found = tokens(told)
        assert {token.type for token in found} <= ALLOWED
        assert sum(token.type == "fence" for token in found) == (3 if text else 2)
        assert not set(told) & set("\x00\x1b\u202e\u2028\r")

    def test_nothing_to_show_is_said(self) -> None:
        assert "No conversation" in "".join(transcripts([], "md"))


class TestChoosing:
    def test_conversations_in_which_the_target_failed(self) -> None:
        graphs = [chain("a"), chain("b", event=False), chain("c", event=None), tree()]
        chosen = lines(graphs, failed_only=True)
        assert [(line["unit_id"], line["nodes"][-1]) for line in chosen] == [
            ("a", "0.0"),
            ("t", "0.0"),
        ]
        turns = [(row["unit_id"], row["node_id"]) for row in rows(graphs, failed_only=True)]
        assert turns == [("a", "n0"), ("a", "n0.0"), ("t", "n0"), ("t", "n0.0")]

    def test_one_unit(self) -> None:
        graphs = [chain("a"), chain("b"), chain("a", attempt=2)]
        assert [line["attempt"] for line in lines(graphs, unit="a")] == [1, 2]
        with pytest.raises(
            InvalidInputError, match="`unit` is 'x', which does not exist; the units are 'a', 'b'"
        ):
            transcripts(graphs, unit="x")

    @pytest.mark.parametrize("kind", ["jsonl", "md", "csv"])
    def test_reasons_hold_no_secrets(self, kind: str) -> None:
        key = "sk-proj-Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8"
        graph = tree()
        graph.children[0].children[1].reason = f"key {key} refused"
        graph.children[0].children[2].unscored = {"tox": f"error: key {key} refused"}
        told = "".join(transcripts([graph], kind))
        assert key not in told
        assert told.count("key [redacted] refused") >= 1 + (kind != "csv")
        assert key in graph.children[0].children[1].reason  # the rollout stays as it is

    def test_an_unknown_format(self) -> None:
        with pytest.raises(InvalidInputError, match="`format` is 'html'"):
            transcripts([], "html")


class TestText:
    def test_who_said_what_and_how_it_ended(self) -> None:
        text = "".join(transcripts([chain(), tree()], "txt"))
        assert text.startswith("u1: Be rude\n  tester: Please?\n  target: No.\n")
        assert "          [rude 0.9]\n  The target failed in turn 2.\n\nt, path 0.0: goal\n" in text
        assert "error: timeout" in text
        assert "".join(transcripts([], "txt")) == "No conversations to show.\n"

    def test_no_control_character_and_no_second_line_of_a_speaker(self) -> None:
        node = Node("x", "a\x1b[2Jb\nc", "\u202eevil\x07", scores={"s": 0.0}, event=False)
        text = "".join(transcripts([Graph("Hi\nyou", [node], "u")], "txt"))
        assert not {"\x1b", "\x07", "\u202e"} & {*text}
        assert "u: Hi you\n  tester: a\\x1b[2Jb\n          c\n" in text


class TestFiles:
    @pytest.mark.parametrize("name", ["a.jsonl", "a.md", "a.csv", "A.CSV"])
    def test_the_name_says_the_format(self, tmp_path: Path, name: str) -> None:
        graphs = [chain(), tree()]
        path = write_transcripts(graphs, tmp_path / "new" / name)
        form = name.rpartition(".")[2].lower()
        assert path.read_bytes() == "".join(transcripts(graphs, form)).encode()

    def test_a_format_that_is_set(self, tmp_path: Path) -> None:
        path = write_transcripts([chain()], tmp_path / "a.txt", "md", failed_only=True, unit="u1")
        assert path.read_text().startswith("# Transcripts")

    def test_what_cannot_be_written(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInputError, match="or pass `format`"):
            write_transcripts([], tmp_path / "a.doc")
        (tmp_path / "file").write_text("")
        with pytest.raises(ArtifactError, match="cannot write"):
            write_transcripts([], tmp_path / "file" / "a.md")

    def test_a_failure_leaves_the_old_file(self, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl"
        path.write_text("old")
        broken = chain()
        broken.children[0].scores = {1: 0.5, "1": 0.5}  # type: ignore[dict-item]
        with pytest.raises(InvalidInputError, match="two keys"):
            write_transcripts([chain(), broken], path)
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]


@each("sign", ["=", "+", "-", "@", "\t", "\r", "\n", "＝", " ="])
def test_no_cell_of_csv_is_a_formula(sign: str) -> None:
    text = f"{sign}cmd|' /C calc'!A0"
    node = Node(text, text, text, status="error", reason=text, scores={text: 0.5})
    (row,) = rows([Graph(text, [node], text)])
    for name, cell in row.items():
        assert not cell.lstrip(" ").startswith(tuple("=+@-\t\r\n＝")), name
    assert list(row.values()).count(f"'{text}") >= 4
