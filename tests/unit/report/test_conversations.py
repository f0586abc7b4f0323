"""Conversations of rollouts: which are shown, where they failed, what of a tree is left out."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.report_asked_runs import HOSTILE, SCORER, SEEDS
from tests.support.report_runs import WANTED, Page, plain
from tests.support.shown_blocks import messages, notes, replies, texts

from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.report.samples import _in_turn, build
from eval_toolkit.report.sections import Section, Wanted
from eval_toolkit.rollouts import (
    Budget,
    Graph,
    Node,
    System,
    rescore_rollouts,
    rollouts_of,
    run_rollouts,
)
from eval_toolkit.rollouts.attacks import Static
from eval_toolkit.rollouts.display import (
    Scoring,
    _card,
    outcomes_of_rollouts,
    worst_path,
)
from eval_toolkit.runs import Run
from eval_toolkit.runs.blocks import Mark

Shown = Callable[[Section], Page]
SCORING = Scoring(decides="s", scorers={"s": {"higher_is_worse": True, "threshold": 0.5}})


def section_of(run: Run, wanted: Wanted = WANTED) -> Section:
    section = build(run, wanted)
    assert section is not None
    return section


def lists_of(run: Run, wanted: Wanted = WANTED) -> dict[str, list[dict[str, Any]]]:
    return {one["verdict"]: one["cards"] for one in section_of(run, wanted).data["lists"]}


class TestChosen:
    def test_failures_then_what_broke_then_what_held(self, rollout_run: Run) -> None:
        lists = lists_of(rollout_run, Wanted(n_samples=20))
        units = {name: [card["unit"] for card in cards] for name, cards in lists.items()}
        # 0 and 1 failed at once, 2 and 3 in the second turn; odd ones are of another category.
        assert units == {
            "failed": ["s0", "s1", "s2", "s3"],
            "error": ["s4"],
            "held": ["s5", "s6", "s7"],
        }
        assert [card["label"] for card in lists["failed"]] == [
            f"failed in turn {turn}" for turn in (1, 1, 2, 2)
        ]

    def test_every_category_has_its_turn(self) -> None:
        assert _in_turn([0, 1, 2, 3], ["a", "a", "a", "b"]) == [0, 3, 1, 2]

    @given(st.lists(st.sampled_from("abc"), max_size=30))
    def test_taking_turns_loses_nobody(self, category: list[str]) -> None:
        places = list(range(len(category)))
        found = _in_turn(places, category)
        assert sorted(found) == places
        n = len(set(category))
        assert {category[at] for at in found[:n]} == set(category)

    def test_the_table_of_categories_adds_up(self, rollout_run: Run) -> None:
        table = section_of(rollout_run).data["by_part"]
        assert list(table.header) == ["category", "conversations", "failed", "broke", "held"]
        assert table.texts() == [["a", "4", "2", "1", "1"], ["b", "4", "2", "0", "2"]]

    def test_the_rest_is_counted(self, rollout_run: Run) -> None:
        section = section_of(rollout_run, Wanted(n_samples=5))
        assert sum(len(one["cards"]) for one in section.data["lists"]) == 5
        assert section.data["lists"][0]["said"] == "3 of 4 are shown, the earliest failure first"

    def test_a_budget_cuts_short_and_is_no_bug(self, tmp_path: Path, shown: Shown) -> None:
        system = System(Static(), ScriptedModel("No.", name="target"), SCORER)
        run = run_rollouts(system, SEEDS, tmp_path / "r", depth=2, budget=Budget(calls=10)).run
        assert run is not None
        assert list(lists_of(run)) == ["skipped", "held"]
        page = shown(section_of(run))
        assert page.all("span", class_="status-error") == []
        assert page.all("p", class_="bug") == []
        assert "the budget of 10 calls is used up" in page.all("section")[0]["text"]

    def test_without_a_scorer_nothing_failed(self, tmp_path: Path) -> None:
        system = System(Static(), ScriptedModel("No.", name="target"), refusal=False)
        run = run_rollouts(system, SEEDS, tmp_path / "r", depth=1).run
        assert run is not None
        section = section_of(run)
        assert list(lists_of(run)) == ["skipped"]
        assert "there is no scorer that defines failures" in section.notes

    def test_rollouts_that_were_scored_again(self, rollout_run: Run, tmp_path: Path) -> None:
        from eval_toolkit.rollouts.scorers import KeywordScorer

        again = rescore_rollouts(
            rollout_run,
            KeywordScorer(["no"], name="denials"),
            tmp_path / "r",
            max_error_rate=1.0,
        ).run
        assert again is not None
        # Now "No." is the failure: all but the two that said "You fool." twice, and the broken one.
        found = outcomes_of_rollouts(again.records(*again.subjects[0]), {}).of.tolist()
        assert (found.count("failed"), found.count("error")) == (5, 1)
        assert len(lists_of(again, Wanted(n_samples=20))["failed"]) == 5

    def test_the_section_is_called_after_the_kind(self, rollout_run: Run, judged_run: Run) -> None:
        assert section_of(rollout_run).menu == "Conversations"
        assert section_of(judged_run).menu == "Samples"


class TestTold:
    def test_turn_by_turn_with_scores(self, rollout_run: Run, shown: Shown) -> None:
        cards = lists_of(rollout_run, Wanted(n_samples=20))
        late = next(card for card in cards["failed"] if card["unit"] == "s2")
        said = replies(late["blocks"])
        assert [reply.failed for reply in said] == [False, True]
        first = Mark("✗ first failure", tone="bad")
        assert [first in reply.marks for reply in said] == [False, True]
        assert said[1].text == "You fool."
        assert said[1].marks[0] == Mark("words", "1.000")
        assert texts(late["blocks"], "input") == ["goal 2"]
        page = shown(section_of(rollout_run, Wanted(n_samples=20)))
        pills = [plain(one["text"]) for one in page.all("span", class_="pill")]
        assert pills.count("✗ first failure") == 4
        assert HOSTILE in page.all("section")[0]["text"]
        assert page.all("script") == []

    def test_what_broke_says_where_and_why(self, rollout_run: Run, shown: Shown) -> None:
        page = shown(section_of(rollout_run))
        (broken,) = page.all("p", class_="bug")
        assert plain(broken["text"]).startswith("Turn 1 ended in an error: ")
        assert HOSTILE in broken["text"]

    def test_a_refusal_is_told(self, rollout_run: Run) -> None:
        held = lists_of(rollout_run, Wanted(n_samples=20))["held"][0]
        (graph,) = (one for one in rollouts_of(rollout_run) if one.unit_id == held["unit"])
        said = graph.first_path()
        assert [Mark("refuses") in reply.marks for reply in replies(held["blocks"])] == [
            node.scores["refusal"] >= 0.5 for node in said
        ]

    def test_an_echo_is_told(self) -> None:
        node = Node("Hi", "Say fool", "fool", scores={"s": 1.0}, event=True, echo=True)
        (turn,) = replies(_card(Graph("Hi", [node], "u"), SCORING))
        assert Mark("an echo of the tester") in turn.marks
        assert "the score no longer crosses the threshold" in turn.notes[0].text
        assert Mark("✗ first failure", tone="bad") in turn.marks

    def test_few_rows_of_the_table_are_as_good_as_all(self, rollout_run: Run) -> None:
        for card in (card for cards in lists_of(rollout_run).values() for card in cards):
            (graph,) = (one for one in rollouts_of(rollout_run) if one.unit_id == card["unit"])
            path = worst_path(graph, SCORING)
            assert [reply.text for reply in replies(card["blocks"])] == [
                node.response for node in path if node.response is not None
            ]


class TestTrees:
    def test_the_branch_that_failed_is_shown_and_the_others_are_counted(
        self, tree_run: Run
    ) -> None:
        for card in lists_of(tree_run)["failed"]:
            probe, _ = messages(card["blocks"])
            assert probe.title == "turn 1, tester, role_play"
            (branches,) = notes(card["blocks"])
            assert branches.startswith("One of 2 branches, the one that failed first")
            assert "the target failed on 1 of them" in branches

    def test_a_chain_has_no_other_branches(self, rollout_run: Run) -> None:
        cards = [card for cards in lists_of(rollout_run).values() for card in cards]
        assert not any("branches" in note for card in cards for note in notes(card["blocks"]))

    def test_without_a_failure_the_nearest(self) -> None:
        turns = [Node("Hi", str(at), "no", scores={"s": at / 10}, event=False) for at in (1, 3, 2)]
        assert worst_path(Graph("Hi", turns, "u"), SCORING)[0].probe == "3"
        low = Scoring(decides="s", scorers={"s": {"higher_is_worse": False}})
        assert worst_path(Graph("Hi", turns, "u"), low)[0].probe == "1"

    def test_the_earliest_failure_wins_over_a_higher_score(self) -> None:
        late = Node("Hi", "b", "x", scores={"s": 0.9}, event=True)
        slow = Node("Hi", "a", "x", scores={"s": 0.1}, event=False, children=[late])
        soon = Node("Hi", "c", "x", scores={"s": 0.6}, event=True)
        assert worst_path(Graph("Hi", [slow, soon], "u"), SCORING)[0].probe == "c"

    def test_nothing_was_said(self) -> None:
        blocks = _card(Graph("Hi", unit_id="u"), SCORING)
        assert messages(blocks) == []
        assert notes(blocks, "skipped") == ["There are no turns."]
