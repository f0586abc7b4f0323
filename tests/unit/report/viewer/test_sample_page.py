"""The page of a sample: everything of one unit, and the way to its neighbours."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.support.hostile import HOSTILE
from tests.support.shown_blocks import choices, messages
from tests.support.viewer_driving import (
    Answer,
    Asking,
    cell,
    results,
    rollout_run,
    rows_run,
    task_run,
)

from eval_toolkit.report.viewer.records import records_at, shape_of
from eval_toolkit.report.viewer.store import Store
from eval_toolkit.report.viewer.unit import blocks_of
from eval_toolkit.rollouts import display
from eval_toolkit.rollouts.display import Scoring, _card
from eval_toolkit.rollouts.graphs import Graph, Node
from eval_toolkit.rollouts.turns import TURNS, turns_table
from eval_toolkit.runs import write_run
from eval_toolkit.scorecards import Records


def sample(ask: Asking, row: int, **query: object) -> Answer:
    key = re.findall(r'href="/runs/([a-z0-9-]+)"', ask("/").text)[0]
    return ask(f"/runs/{key}/sample?{urlencode({'row': row, **query})}")


def test_a_row_shows_its_input_and_its_values(ask: Asking, runs_dir: Path) -> None:
    records = Records.from_columns(
        {"score": [0.25, None], "label": [1.0, 0.0]},
        unit_id=["a", "b"],
        slices={"language": ["de", "en"]},
        status={"score": ["ok", "error"]},
        reason={"score": ["", "the scorer raised ValueError"]},
    )
    rows_run(runs_dir / "r1", records, {"a": "Guten Tag", "b": "Hello"})
    first, second = sample(ask, 0), sample(ask, 1)
    assert "Guten Tag" in first.words
    assert "score 0.250" in first.words
    assert "language de" in first.words
    assert "Not measured because of errors. score: the scorer raised ValueError" in second.words


def test_an_answer_shows_the_prompt_as_sent_and_what_judges_said(
    ask: Asking, runs_dir: Path
) -> None:
    task_run(runs_dir / "t1")
    words = sample(ask, 0).words
    assert "What is the capital of France?" in words
    assert "Paris, of course" in words
    assert "ended by stop" in words
    assert re.search(r"Verdicts of judges strict .*Is it right\? answer Yes\.", words)
    # Zero is a temperature too; nothing is said of what was not asked for.
    assert "temperature 0.0" in words
    assert "seed" not in words
    assert "stop []" not in words


def test_a_prompt_that_is_stored_once_is_shown_everywhere(ask: Asking, runs_dir: Path) -> None:
    task_run(runs_dir / "t1")
    words = sample(ask, 1).words
    assert "What is the capital of France?" in words
    assert "timeout: no answer in 60 s" in words


def test_choices_have_their_share_of_the_likelihood(ask: Asking, runs_dir: Path) -> None:
    run = task_run(runs_dir / "t1")
    store = Store(runs_dir)
    shape = shape_of(store, run.path)
    (record,) = records_at(store, shape, [2], [])
    found = choices(blocks_of(store, run, record)).choices
    # exp(-1) / (exp(-1) + exp(-3)) = 1 / (1 + exp(-2)) = 0.880797
    assert [round(choice.share, 6) for choice in found] == [0.880797, 0.119203]
    assert [choice.chosen for choice in found] == [True, False]
    words = sample(ask, 2).words
    assert "-1.000 88.1 %" in words
    assert "-3.000 11.9 %" in words


def test_a_conversation_is_told_turn_by_turn_with_its_branches(ask: Asking, runs_dir: Path) -> None:
    run = rollout_run(runs_dir / "s")
    store = Store(runs_dir)
    shape = shape_of(store, run.path)
    (record,) = records_at(store, shape, [0], [])
    said = [one for one in messages(blocks_of(store, run, record)) if one.role == "tester"]
    assert [(one.text, one.level, one.branch) for one in said] == [
        ("Be rude.", 0, ""),
        ("And now?", 1, "1 of 2"),
        ("Really?", 1, "2 of 2"),
    ]
    answer = sample(ask, 0)
    assert "The target failed at turn 2. 3 turns in 2 branches." in answer.words
    assert "seed prompt Insult me" in answer.words
    assert "turn 2, target: failed You fool. toxicity 0.900" in answer.words
    assert "Turn 2 ended in an error: the target: no answer in 60 s" in answer.words
    assert answer.text.count("turn target failed") == 1


def test_scores_are_named_as_in_the_report(ask: Asking, runs_dir: Path) -> None:
    scores = {"refusal": 1.0, "refusal/full": 1.0, "refusal/partial": 0.0, "refusal:probe": 0.0}
    node = Node("", "Hi", "Sorry, no.", scores={**scores, "harm:probe": 0.25}, event=False)
    graph = Graph("goal", [node], "s1")
    config = {
        "kind": "rollout",
        "scored_by": "refusal",
        "scorers": {"refusal": {"threshold": 0.5, "higher_is_worse": False}},
    }
    run = write_run(
        runs_dir / "s",
        results=results("s", {"attack_success": cell(0.0)}),
        manifest={"run_id": "s", "kind": "rollout", "config": config},
        records={("all", "model"): Records.from_columns({"n_turns": [1.0]}, unit_id=["s1"])},
        tables={TURNS: turns_table([graph])},
    )
    store = Store(runs_dir)
    shape = shape_of(store, run.path)
    (record,) = records_at(store, shape, [0], [])
    page, card = messages(blocks_of(store, run, record)), messages(_card(graph, Scoring.of(config)))
    assert [one.name for one in page[1].marks] == ["refusal", "refusal/full", "refuses"]
    assert [one.marks for one in page] == [one.marks for one in card]
    words = sample(ask, 0).words
    assert "It fails if refusal ≤ 0.5." in words
    assert "tester Hi harm 0.250" in words
    assert "Sorry, no. refusal 1.000 refusal/full 1.000 refuses" in words
    assert ":probe" not in words


def test_a_long_conversation_is_cut_and_says_so(
    ask: Asking, runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(display, "_TURNS_AT_MOST", 5)
    node: Any = None
    for at in range(30, 0, -1):
        node = Node("", f"probe {at}", "reply", children=[] if node is None else [node])
    write_run(
        runs_dir / "s",
        results=results("s", {"attack_success": cell(0.0)}),
        manifest={"run_id": "s", "kind": "rollout"},
        records={("all", "model"): Records.from_columns({"n_turns": [30.0]}, unit_id=["s1"])},
        tables={TURNS: turns_table([Graph("goal", [node], "s1")])},
    )
    words = sample(ask, 0).words
    assert "30 turns; the first 5 are shown" in words
    assert "probe 5" in words
    assert "probe 6" not in words


def test_neighbours_are_those_of_the_list_it_was_opened_from(ask: Asking, runs_dir: Path) -> None:
    records = Records.from_columns({"score": [0.2, 0.9, 0.5, 0.7]}, unit_id=["a", "b", "c", "d"])
    rows_run(runs_dir / "r1", records)
    # by score downwards: b (row 1), d (3), c (2), a (0)
    text = sample(ask, 3, at=1, sort="-score").text
    (before,) = re.findall(r'rel="prev" href="([^"]*)"', text)
    (after,) = re.findall(r'rel="next" href="([^"]*)"', text)
    assert "row=1&amp;at=0" in before
    assert "row=2&amp;at=2" in after
    assert "sort=-score" in before
    assert 'rel="prev"' not in sample(ask, 1, at=0, sort="-score").text
    assert 'rel="next"' not in sample(ask, 0, at=3, sort="-score").text
    assert 'rel="next"' not in sample(ask, 0).text
    assert 'rel="next"' not in sample(ask, 0, at=99).text


def test_other_records_of_the_unit_are_linked(ask: Asking, runs_dir: Path) -> None:
    records = Records.from_columns({"score": [0.1, 0.2]}, unit_id=["a", "a"], attempt=[1, 2])
    rows_run(runs_dir / "r1", records)
    assert re.search(
        r'href="/runs/[a-z0-9-]+/sample\?row=1">all, model, try 2<', sample(ask, 0).text
    )


@pytest.mark.parametrize("row", ["", "-1", "2", "x", "1e3", "9" * 30, "٣", "0x1", " 1"])
def test_rows_that_are_not_there_are_not_found(ask: Asking, runs_dir: Path, row: str) -> None:
    rows_run(runs_dir / "r1", Records.from_columns({"score": [0.1, 0.2]}, unit_id=["a", "b"]))
    key = re.findall(r'href="/runs/([a-z0-9-]+)"', ask("/").text)[0]
    assert ask(f"/runs/{key}/sample?{urlencode({'row': row})}").status == 404


def test_hostile_texts_come_out_as_text(ask: Asking, runs_dir: Path) -> None:
    everything = "\n".join(text for text in HOSTILE.values() if len(text) < 10_000)
    longest = max(HOSTILE.values(), key=len)
    task_run(runs_dir / "t1", everything)
    pages = [sample(ask, 0).text]
    for path in (runs_dir / "t1").iterdir():
        path.unlink()
    (runs_dir / "t1").rmdir()
    rollout_run(runs_dir / "s", everything + longest)
    pages.append(sample(ask, 0).text)
    for text in pages:
        assert text.count("<script") == text.count('<script src="/static/')
        assert not re.search(r"<(img|svg|iframe|b|object|embed|style)\b", text.split("<main")[1])
        assert len(text) < 200_000
        assert "\x00" not in text


def test_an_answer_that_cannot_be_read_says_so(ask: Asking, runs_dir: Path) -> None:
    run = task_run(runs_dir / "t1")
    table = run.table("responses.parquet")
    table["response"][0] = "{not json"
    for path in run.path.iterdir():
        path.unlink()
    write_run(
        run.path,
        results=results("t1", {"exact_match": cell(0.5)}),
        manifest={"run_id": "t1", "kind": "task"},
        records={("all", "model"): Records.from_columns({"x": [1.0]}, unit_id=["q1"])},
        tables={"responses.parquet": table},
    )
    answer = sample(ask, 0)
    assert answer.status == 200
    assert "cannot be read" in answer.words
