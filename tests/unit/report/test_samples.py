"""Samples of a task: which are shown, with what prompt, choices, grades and verdicts."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.report_asked_runs import HOSTILE, ROWS, Sums, solve
from tests.support.report_runs import WANTED, Page, plain
from tests.support.shown_blocks import choices, notes, text, texts, verdicts

from eval_toolkit.models.runner import JobResult
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.report.samples import _by_column, _grades, _lists, _shares, build
from eval_toolkit.report.sections import Section, Wanted
from eval_toolkit.runs import Run, write_run
from eval_toolkit.runs.blocks import Messages
from eval_toolkit.runs.kind_display import Words, show_unit
from eval_toolkit.runs.query_driver import outcomes_of
from eval_toolkit.runs.selected_units import Place, selected_units, units_at
from eval_toolkit.scorecards import Records
from eval_toolkit.tasks import BaseTask, ResponseType, run_task
from eval_toolkit.tasks.sample_display import right_by_grades

Shown = Callable[[Section], Page]


def section_of(run: Run, wanted: Wanted = WANTED) -> Section:
    section = build(run, wanted)
    assert section is not None
    return section


def lists_of(run: Run, wanted: Wanted = WANTED) -> dict[str, list[dict[str, Any]]]:
    return {one["verdict"]: one["cards"] for one in section_of(run, wanted).data["lists"]}


def lists_by(records: Records, column: str, up: bool | None, limit: int) -> list[dict[str, Any]]:
    return _lists(records, _by_column(records, column, up, Words()), Words(), limit)


def outcomes_of_units(run: Run, units: list[str]) -> list[JobResult]:
    """What cards are made of: the requests about some units, in the order of the table."""
    places = [Place(slice="", scorer="", unit_id=unit) for unit in units]
    found = [one.outcome for unit in selected_units(run, places) for one in unit.requests]
    assert None not in found
    return [one for one in found if one is not None]


class TestChosen:
    def test_wrong_ones_then_errors_then_right_ones(self, judged_run: Run) -> None:
        lists = lists_of(judged_run, Wanted(n_samples=20))
        assert list(lists) == ["wrong", "error", "right"]
        # Wrong about 0, 5 and 10; no answer to 7; the other eight are right.
        assert [len(cards) for cards in lists.values()] == [3, 1, 8]

    def test_the_surest_mistake_comes_first(self, choice_run: Run) -> None:
        cards = lists_of(choice_run)["wrong"]
        # The second choice leads by 0.1, 0.3 and 0.5 in the last three.
        margins = [float(grade["value"]) for card in cards for grade in card["grades"]
                   if grade["names"] == ["margin"]]  # fmt: skip
        assert margins == pytest.approx([0.5, 0.3, 0.1])

    def test_no_more_than_asked_for_and_the_rest_is_counted(self, judged_run: Run) -> None:
        section = section_of(judged_run, Wanted(n_samples=5))
        assert sum(len(one["cards"]) for one in section.data["lists"]) == 5
        assert [one["said"] for one in section.data["lists"]] == [
            "all 3",
            "all 1",
            "1 of 8 are shown",
        ]

    def test_attempts_at_one_unit_do_not_crowd_out_others(self, tmp_path: Path) -> None:
        run = run_task(
            Sums(rows=ROWS),
            ScriptedModel(solve, name="adder"),
            tmp_path / "r",
            attempts=3,
            graders=["exact_match"],
            max_error_rate=1.0,
        ).run
        assert run is not None
        cards = lists_of(run, Wanted(n_samples=5))["wrong"]
        assert len({card["unit"] for card in cards}) == len(cards) == 3

    def test_grades_that_are_no_yes_or_no(self) -> None:
        records = Records.from_columns({"f1": [0.5, 0.1, 0.9, 0.9]}, unit_id=list("abcd"))
        lists = lists_by(records, "f1", True, 4)
        assert [(one["title"], one["places"]) for one in lists] == [
            ("Lowest grades", [1, 0]),
            ("Best grades", [2, 3]),
        ]
        assert {one["verdict"] for one in lists} == {""}

    def test_grades_have_the_digits_of_tables(self) -> None:
        records = Records.from_columns({"f1": [0.24371, 1.0]}, unit_id=list("ab"))
        assert [next(_grades(records, at))["value"] for at in (0, 1)] == ["0.244", "1"]

    @pytest.mark.parametrize(
        ("value", "up", "verdict"),
        [(0.0, True, "wrong"), (1.0, True, "right"), (1.0, False, "wrong"), (0.0, False, "right")],
    )
    def test_all_may_be_wrong(self, value: float, up: bool, verdict: str) -> None:
        records = Records.from_columns({"grade": [value] * 3}, unit_id=list("abc"))
        (found,) = lists_by(records, "grade", up, 5)
        assert (found["title"], found["verdict"]) == (verdict.capitalize(), verdict)
        assert found["places"] == [0, 1, 2]

    def test_equal_grades_are_neither_the_best_nor_the_lowest(self) -> None:
        records = Records.from_columns({"f1": [0.5, 0.5]}, unit_id=list("ab"))
        (found,) = lists_by(records, "f1", True, 5)
        assert (found["title"], found["verdict"]) == ("Grades, all equal", "")

    def test_less_may_be_better(self) -> None:
        records = Records.from_columns({"bits": [0.5, 0.1, 0.9]}, unit_id=list("abc"))
        lists = lists_by(records, "bits", False, 4)
        assert [one["places"] for one in lists] == [[2, 0], [1]]
        assert [one["title"] for one in lists] == ["Highest grades", "Best grades"]

    def test_nothing_is_right_where_no_direction_is_known(self) -> None:
        records = Records.from_columns({"zing": [0.0, 1.0]}, unit_id=list("ab"))
        lists = lists_by(records, "zing", None, 4)
        assert [(one["title"], one["verdict"], one["places"]) for one in lists] == [
            ("Lowest grades", "", [0]),
            ("Highest grades", "", [1]),
        ]

    @given(
        counts=st.fixed_dictionaries(
            {name: st.integers(0, 50) for name in ("wrong", "error", "skipped", "right")}
        ),
        limit=st.integers(5, 40),
    )
    def test_places_are_shared_out(self, counts: dict[str, int], limit: int) -> None:
        shown = _shares(counts, limit)
        assert sum(shown.values()) == min(limit, sum(counts.values()))
        assert all(0 <= shown[name] <= counts[name] for name in counts)
        assert all(shown[name] for name in counts if counts[name])

    def test_rows_are_shown_among_the_worst_errors(self, rows_run: Run) -> None:
        assert build(rows_run, WANTED) is None


class TestCards:
    def test_answers_that_vote_are_shown_as_texts(self, tmp_path: Path) -> None:
        run = run_task(
            Sums(rows=ROWS[:2]),
            ScriptedModel("1"),
            tmp_path / "r",
            attempts=3,
            maj_at=[3],
            graders=["exact_match"],
        ).run
        assert run is not None
        records = run.records(*run.subjects[0])
        assert records.columns["exact_match_answer"].tolist() == ["1"] * 6
        shown = {name: grade["value"] for grade in _grades(records, 0) for name in grade["names"]}
        assert shown == {"exact_match": "0", "exact_match_answer": "1"}

    def test_the_prompt_is_the_one_that_was_sent(self, judged_run: Run) -> None:
        sent = {
            outcome.job.unit_id: [message.content for message in outcome.job.request.prompt]
            for outcome in outcomes_of(judged_run)
            if not outcome.job.step
        }
        for cards in lists_of(judged_run, Wanted(n_samples=20)).values():
            for card in cards:
                (prompt,) = (
                    block
                    for group in card["blocks"]
                    if group.title == "Requests and answers"
                    for block in group.blocks
                    if isinstance(block, Messages)
                )
                assert [turn.text for turn in prompt.messages] == sent[card["unit"]]
                assert {turn.role for turn in prompt.messages} == {"user"}

    def test_answers_grades_and_verdicts(self, judged_run: Run, shown: Shown) -> None:
        lists = lists_of(judged_run)
        (broken,) = lists["error"]
        assert notes(broken["blocks"], "error") == [f"server: no answer, {HOSTILE}"]
        assert (text(broken["blocks"], "answer"), verdicts(broken["blocks"])) == (None, [])
        assert broken["grades"] == [
            {
                "names": ["exact_match", "correctness"],
                "status": "error",
                "value": None,
                "reason": f"server: no answer, {HOSTILE}",
            }
        ]
        # 0 + 0, 5 + 25 and 10 + 100, and one too many.
        assert {text(card["blocks"], "answer") for card in lists["wrong"]} == {"1", "31", "111"}
        first = lists["wrong"][0]
        assert verdicts(first["blocks"]) == [("correctness", f"Adds up. {HOSTILE}\n\nno")]
        page = shown(section_of(judged_run))
        assert HOSTILE in page.all("section")[0]["text"]
        assert page.all("script") == []

    def test_choices_say_what_was_taken_and_what_was_right(
        self, choice_run: Run, shown: Shown
    ) -> None:
        cards = lists_of(choice_run)
        for card in cards["wrong"]:
            listed = choices(card["blocks"]).choices
            assert [one.chosen for one in listed] == [False, True, False]
            assert [one.right for one in listed] == [True, False, False]
        for card in cards["right"]:
            listed = choices(card["blocks"]).choices
            assert [one.chosen for one in listed] == [True, False, False]
            assert [one.right for one in listed] == [True, False, False]
        page = shown(section_of(choice_run))
        lines = [plain(one["text"]) for one in page.all("tr")]
        # e^-0.5 of e^-1 + e^-0.5 + e^-9
        assert any(line.startswith(f"{HOSTILE} chosen-0.50062.2 %") for line in lines)
        assert page.all("script") == []

    def test_bars_are_shares_of_the_choices(self, choice_run: Run) -> None:
        numbers = [-1.0, -0.5, -9.0]
        expected = np.exp(numbers) / np.exp(numbers).sum()
        found = choices(lists_of(choice_run)["wrong"][0]["blocks"]).choices
        assert [one.share for one in found] == pytest.approx(expected, abs=1e-12)

    def test_few_rows_of_the_table_are_as_good_as_all(self, judged_run: Run) -> None:
        whole = outcomes_of(judged_run)
        units = sorted({outcome.job.unit_id for outcome in whole})[:3]
        assert sorted(outcomes_of_units(judged_run, units), key=whole.index) == [
            outcome for outcome in whole if outcome.job.unit_id in units
        ]
        assert outcomes_of_units(judged_run, []) == []

    def test_a_prompt_that_is_stored_with_another_unit(self, tmp_path: Path) -> None:
        same = [{"a": 1, "b": 1, "subject": f"s{at}"} for at in range(3)]
        run = run_task(Sums(rows=same), ScriptedModel("2"), tmp_path / "r").run
        assert run is not None
        for outcome in outcomes_of(run):
            (alone,) = outcomes_of_units(run, [outcome.job.unit_id])
            assert alone == outcome

    def test_a_run_without_responses_still_has_grades(
        self, judged_run: Run, tmp_path: Path, shown: Shown
    ) -> None:
        (subject,) = judged_run.subjects
        run = write_run(
            tmp_path / "r",
            results=judged_run.results,
            manifest={"run_id": "sums", "kind": "task"},
            records={subject: judged_run.records(*subject)},
        )
        section = section_of(run)
        cards = [card for one in section.data["lists"] for card in one["cards"]]
        assert not any(texts(card["blocks"], "prompt") for card in cards)
        assert all(card["grades"] for card in cards)
        assert "no request for this sample" in shown(section).all("section")[0]["text"]


class TestReferences:
    """What the right answer was, as the run stores it or as far as the grades tell."""

    @staticmethod
    def old(run: Run, folder: Path) -> Run:
        """Write a run as it was written before there were references."""
        (subject,) = run.subjects
        return write_run(
            folder,
            results=run.results,
            manifest={"run_id": run.run_id, "kind": "task"},
            records={subject: run.records(*subject)},
            tables={"responses.parquet": run.table("responses.parquet")},
        )

    @staticmethod
    def asked(folder: Path, truth: Any, choices: list[str] | None, answer: Any) -> Run:
        class Which(BaseTask[str]):
            NAME = "which"
            RESPONSE_TYPE = (
                ResponseType.COMPLETION if choices is None else ResponseType.LOGLIKELIHOODS
            )
            METRICS = ("exact_match",) if choices is None else ("accuracy",)

            def _get_instruction_text(self, item: dict[str, Any]) -> str:
                return "Which?"

            def _get_ground_truth(self, item: dict[str, Any]) -> Any:
                return truth

            def _get_possible_completions(self, item: dict[str, Any]) -> list[str] | None:
                return choices

        run = run_task(Which(rows=[{}]), ScriptedModel(answer), folder / "r").run
        assert run is not None
        return run

    def test_it_stands_beside_the_answer(self, judged_run: Run, shown: Shown) -> None:
        section = section_of(judged_run)
        lists = {one["verdict"]: one["cards"] for one in section.data["lists"]}
        # 0 + 0, 5 + 25 and 10 + 100; 7 + 49 had no answer, and has a reference.
        told = {
            name: [text(card["blocks"], "reference") for card in cards]
            for name, cards in lists.items()
        }
        assert set(told["wrong"]) == {"0", "30", "110"}
        assert told["error"] == ["56"]
        assert section.notes == []
        beside = [plain(one["text"]) for one in shown(section).all("div", class_="answers")]
        assert "Answer, ended by stop31 Reference30" in beside

    def test_several_are_listed(self, tmp_path: Path, shown: Shown) -> None:
        run = self.asked(tmp_path, ["four", "vier"], None, "4")
        (said,) = (
            plain(one["text"]) for one in shown(section_of(run)).all("div", class_="answers")
        )
        assert said == 'Answer, ended by stop4 Reference[ "four", "vier" ]'

    def test_every_right_choice_is_marked(self, tmp_path: Path, shown: Shown) -> None:
        run = self.asked(tmp_path, [" c", " a"], [" a", " b", " c"], lambda _: [-2.0, -1.0, -3.0])
        ((card,),) = lists_of(run).values()
        assert [one.right for one in choices(card["blocks"]).choices] == [True, False, True]
        page = shown(section_of(run))
        assert [plain(one["text"]) for one in page.all("span", class_="good")] == ["right"] * 2
        assert "b, correct: a or c" in plain(page.all("summary")[0]["text"])

    def test_a_right_one_among_several_is_not_missed(self, tmp_path: Path, shown: Shown) -> None:
        run = self.asked(tmp_path, [" c", " a"], [" a", " b", " c"], lambda _: [-1.0, -2.0, -3.0])
        assert "correct: " not in shown(section_of(run)).all("summary")[0]["text"]

    def test_what_a_mark_says_is_not_said_again(self, choice_run: Run) -> None:
        cards = [card for cards in lists_of(choice_run).values() for card in cards]
        assert {text(card["blocks"], "reference") for card in cards} == {None}
        assert section_of(choice_run).notes == [
            "bars show each choice's share of the total probability of all choices"
        ]

    def test_runs_without_them_go_by_the_grades(
        self, choice_run: Run, judged_run: Run, tmp_path: Path
    ) -> None:
        old = self.old(choice_run, tmp_path / "choices")
        # The grade in bits tells the right one of three, as the stored reference does.
        for verdict, cards in lists_of(choice_run).items():
            assert [choices(card["blocks"]).choices for card in lists_of(old)[verdict]] == [
                choices(card["blocks"]).choices for card in cards
            ]
        assert "has no references" in section_of(old).notes[0]
        open_ended = section_of(self.old(judged_run, tmp_path / "sums"))
        assert "has no references" in open_ended.notes[0]
        cards = [card for one in open_ended.data["lists"] for card in one["cards"]]
        assert {text(card["blocks"], "reference") for card in cards} == {None}

    def test_hostile_ones_come_out_as_text(self, tmp_path: Path, shown: Shown) -> None:
        run = self.asked(tmp_path, f"{HOSTILE}\x00{{{{ 7 * 7 }}}}", None, "4")
        page = shown(section_of(run))
        assert page.all("script") == []
        assert f"{HOSTILE}␀{{{{ 7 * 7 }}}}" in page.all("div", class_="answers")[0]["text"]


class TestRightChoice:
    """Which choice is right, from grades alone."""

    @staticmethod
    def records(**columns: float) -> dict[str, float]:
        return columns

    def test_of_two_the_other_one(self) -> None:
        assert right_by_grades(self.records(accuracy=0.0), [-1.0, -2.0], 0) == 1

    def test_unknown_stays_unknown(self) -> None:
        assert right_by_grades(self.records(accuracy=0.0), [-1.0, -2.0, -3.0], 0) is None
        assert right_by_grades(self.records(other=0.0), [-1.0, -2.0], 0) is None

    def test_equal_numbers_do_not_tell(self) -> None:
        bits = 2.0 / math.log(2.0)
        assert right_by_grades(self.records(accuracy=0.0, bits=bits), [-1.0, -2.0, -2.0], 0) is None

    @given(
        numbers=st.lists(st.floats(-50, -0.01), min_size=2, max_size=6, unique=True),
        right=st.integers(0, 5),
    )
    def test_bits_tell_it(self, numbers: list[float], right: int) -> None:
        right %= len(numbers)
        taken = max(range(len(numbers)), key=numbers.__getitem__)
        grades = self.records(accuracy=float(taken == right), bits=-numbers[right] / math.log(2.0))
        found = right_by_grades(grades, numbers, taken)
        close = [n for n in numbers if math.isclose(n, numbers[right], rel_tol=1e-8)]
        assert found == right or len(close) > 1


def test_many_choices_are_cut_to_the_likely_ones(tmp_path: Path) -> None:
    class Many(BaseTask[str]):
        NAME = "many"
        RESPONSE_TYPE = ResponseType.LOGLIKELIHOODS
        METRICS = ("accuracy", "bits_per_byte")

        def _get_instruction_text(self, item: dict[str, Any]) -> str:
            return "Which?"

        def _get_ground_truth(self, item: dict[str, Any]) -> str:
            return " c29"

        def _get_possible_completions(self, item: dict[str, Any]) -> list[str]:
            return [f" c{at}" for at in range(30)]

    model = ScriptedModel(lambda request: [-1.0 - at for at in range(30)])
    run = run_task(Many(rows=[{}]), model, tmp_path / "r").run
    assert run is not None
    (unit,) = units_at(run, run.records(*run.subjects[0]), *run.subjects[0], [0])
    found = choices(show_unit(unit))
    assert [one.text for one in found.choices] == [*(f" c{at}" for at in range(8)), " c29"]
    assert (found.n_hidden, [one.text for one in found.choices if one.right]) == (21, [" c29"])
