"""Answers that vote: what graders found, and maj@k of a run."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval_toolkit import metric_specs as ms
from eval_toolkit.analysis import compare_runs
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders import (
    ChoiceAccuracy,
    ColumnInfo,
    ExactMatch,
    Grade,
    LetterMatch,
    NumberMatch,
    RegexMatch,
    TokenF1,
    WithAnswer,
    load_grader,
    with_answers,
)
from eval_toolkit.models.messages import Message
from eval_toolkit.models.requests import GenerateRequest
from eval_toolkit.models.responses import Completion, Loglikelihood, RawCompletion
from eval_toolkit.models.runner import Job, JobResult
from eval_toolkit.protocols import Grader
from eval_toolkit.runs import Run, write_run
from eval_toolkit.scorecards import Records, summarise
from eval_toolkit.tasks.measuring import grader_columns, measure
from eval_toolkit.tasks.scorecards import task_metrics, task_scorecard
from eval_toolkit.tasks.types import NO_SUBJECT, Sample
from eval_toolkit.testing import CONTRACTS, ContractError


def answer(grader: Any, text: str, truth: str = "8", **more: Any) -> Any:
    made = WithAnswer(grader)
    return made.grade(Completion(text, ground_truth=truth, **more))[f"{made.name}_answer"]


class TestAnswers:
    @pytest.mark.parametrize(
        ("grader", "same", "other"),
        [
            (NumberMatch(), ("so it is 8", "#### 8.00"), "9"),
            (LetterMatch(4), ("(B)", "The answer is B."), "C"),
            (RegexMatch(r"answer: (\w+)"), ("answer: x", "well, answer: x!"), "answer: y"),
            (ExactMatch(ignore_case=True), ("Rome", " rome "), "Bonn"),
        ],
        ids=["number", "letter", "pattern", "text"],
    )
    def test_equal_answers_are_one_text(
        self, grader: Any, same: tuple[str, str], other: str
    ) -> None:
        truth = "B" if isinstance(grader, LetterMatch) else "8"
        first, second, third = (answer(grader, text, truth) for text in (*same, other))
        assert first == second != third

    @pytest.mark.parametrize("grader", [NumberMatch(), LetterMatch(4), ExactMatch()])
    def test_no_answer_is_no_vote(self, grader: Any) -> None:
        truth = "B" if isinstance(grader, LetterMatch) else "8"
        assert answer(grader, "  ", truth).status == "skipped"

    def test_the_choice_itself_votes_wherever_it_stands(self) -> None:
        made = WithAnswer(ChoiceAccuracy())
        here = Loglikelihood([-1.0, -2.0], [" Rome", " Bonn"], ground_truth=" Rome")
        there = Loglikelihood([-2.0, -1.0], [" Bonn", " Rome"], ground_truth=" Rome")
        assert made.grade(here)["accuracy_answer"] == made.grade(there)["accuracy_answer"]

    def test_the_number_of_choices_comes_from_the_context(self) -> None:
        text = "Option D. The answer is (B)"
        assert answer(LetterMatch(), text, "B", context={"choices": ["x", "y"]}) == "B"


class TestWrapper:
    def test_grades_name_and_version_stay(self) -> None:
        response = Completion("so 8", ground_truth="8")
        plain, made = NumberMatch(where="last"), WithAnswer(NumberMatch(where="last"))
        assert isinstance(made, Grader)
        assert (made.name, made.version) == (plain.name, plain.version)
        assert made.response_types == plain.response_types
        assert plain.grade(response).items() <= made.grade(response).items()
        info = made.columns()["number_match_answer"]
        assert (info.text, info.metric) == (True, False)

    def test_any_grader_with_an_answer_can_be_wrapped(self) -> None:
        class First:
            name, version = "first_word", "1"

            def answer(self, response: Any) -> str | None:
                return next(iter(response.completion.split()), None)

            def grade(self, response: Any) -> dict[str, float | Grade]:
                return {"first_word": 1.0}

        assert answer(First(), "8 or so") == "8"
        assert answer(First(), "").status == "skipped"

    def test_those_without_are_refused_or_left(self) -> None:
        with pytest.raises(InvalidInputError, match="'f1', which does not extract"):
            WithAnswer(TokenF1())
        with pytest.raises(InvalidInputError, match="such as exact_match; got f1"):
            with_answers([TokenF1()])
        graders = with_answers([ExactMatch(), TokenF1()])
        assert with_answers(graders) == graders

    def test_metrics_of_the_grader_are_kept(self) -> None:
        class Sized(ExactMatch):
            def metrics(self) -> list[str]:
                return ["its own"]

        assert WithAnswer(Sized()).metrics() == ["its own"]
        assert WithAnswer(ExactMatch()).metrics() == []


class Words:
    """A grader that keeps a text of its own."""

    name, version = "words", "1"

    def __init__(self, kept: Any) -> None:
        self.kept = kept

    def columns(self) -> dict[str, ColumnInfo]:
        return {"words": ColumnInfo(), "said": ColumnInfo(text=True)}

    def grade(self, response: Any) -> dict[str, Any]:
        return {"words": 1.0, "said": self.kept}


class TestTextColumns:
    def test_graders_that_keep_texts_fulfil_the_contract(self) -> None:
        for grader in (WithAnswer("exact_match"), Words("x")):
            CONTRACTS["grader"].check(grader)

    def test_a_number_in_a_column_of_texts_breaks_it(self) -> None:
        with pytest.raises(ContractError, match=r"'said' is 3\.0"):
            CONTRACTS["grader"].check(Words(3.0))

    @pytest.mark.parametrize(
        ("kept", "value", "status", "reason"),
        [
            ("né", "né", "ok", ""),
            ("a\ud800b", "a\ufffdb", "ok", ""),
            (Grade(None, "ok", "cut off", "né"), "né", "ok", ""),
            (Grade.skipped("nothing said"), None, "skipped", "nothing said"),
            (3.0, None, "error", "the grade 'said' is 3.0; it must be a string"),
            (None, None, "error", "the grade 'said' is None; it must be a string"),
        ],
    )
    def test_what_is_kept(self, kept: Any, value: Any, status: str, reason: str) -> None:
        sample = Sample("q", NO_SUBJECT, [Message("user", "?")], "8")
        answered = JobResult(Job("q", 1, GenerateRequest(sample.messages)), RawCompletion("8"))
        other = JobResult(Job("r", 1, GenerateRequest(sample.messages)), RawCompletion("8"))
        grader = Words(kept)
        records = measure(
            Plain(), [sample, replace(sample, id="r")], [answered, other], graders=[grader]
        )
        assert records.columns["words"].tolist() == [1.0, 1.0]
        assert records.status["said"].tolist() == [status] * 2
        assert records.reason["said"].tolist() == [reason] * 2
        if value is not None:
            assert records.columns["said"].tolist() == [value] * 2
        assert [spec.name for spec in task_metrics(grader.columns())] == ["words"]

    def test_an_ok_grade_has_a_value_or_a_text(self) -> None:
        assert Grade.of("x").content == "x"
        assert Grade.of(0.5).content == 0.5
        assert Grade.of(Grade.error("no")).content is None
        with pytest.raises(InvalidInputError, match="a grade with status 'ok' must be finite"):
            Grade(None)


class Plain:
    """A task that changes nothing."""

    def post_process_generated_completion(self, text: str, sample: Any = None) -> str:
        return text

    def graders(self) -> list[Any]:
        return []


class TestOfATask:
    def test_maj_at_k_beside_the_mean(self) -> None:
        graders = with_answers([load_grader("number_match")])
        specs = task_metrics(grader_columns(graders), maj_at=[3], graders=graders)
        assert [spec.name for spec in specs] == [
            "number_match",
            "number_match_maj@3",
            "number_match_found",
        ]
        texts = ["8", "8", "9", "7", "7", "8"]  # 8 wins the first unit, 7 the second
        lines = [graders[0].grade(Completion(text, ground_truth="8")) for text in texts]
        columns: dict[str, list[Any]] = {name: [line[name] for line in lines] for name in lines[0]}
        records = Records.from_columns(columns, unit_id=list("aaabbb"))
        card = task_scorecard(records, specs)
        assert card["number_match"].value == 0.5
        assert card["number_match_maj@3"].value == 0.5
        assert card["number_match_maj@3"].n_units == 2

    def test_without_answers_it_says_what_to_do(self) -> None:
        with pytest.raises(InvalidInputError, match=r"use graders\.with_answers"):
            task_metrics(grader_columns([ExactMatch()]), maj_at=[2])


FIRST = Path(__file__).parents[2] / "fixtures" / "first_edition" / "votes"


class TestFirstEdition:
    """A folder whose answers are numbers: 52 bits of a hash, made before texts could be stored."""

    def test_the_same_votes_give_the_same_numbers(self) -> None:
        run = Run.open(FIRST)
        records = run.records("sums", "m")
        assert records.columns["number_match_answer"].dtype == np.float64
        specs = [
            ms.mean_of("number_match", bounds=(0.0, 1.0), kind="share"),
            *(ms.maj_at_k("number_match", k, answer="number_match_answer") for k in (3, 5)),
        ]
        card = task_scorecard(records, specs)
        stored = run.results["by_slice"]["sums"]["by_scorer"]["m"]
        # q1 and q3 say 8 most often, q2 says 7 and 8 equally often.
        assert card["number_match_maj@5"].value == 0.625
        for name, cell in card.items():
            assert cell.value == stored[name]["value"], name
            ci = cell.to_dict()["ci"]
            assert ci.keys() == stored[name]["ci"].keys(), name
            for key, wanted in stored[name]["ci"].items():
                if isinstance(wanted, float | list):  # the last digits are the processor's
                    wanted = pytest.approx(wanted, rel=1e-12)
                assert ci[key] == wanted, (name, key)

    def test_texts_in_their_place_give_the_same_numbers(self) -> None:
        records = Run.open(FIRST).records("sums", "m")
        codes, status = (of["number_match_answer"] for of in (records.columns, records.status))
        texts = [
            f"answer {code:.0f}" if state == "ok" else None
            for code, state in zip(codes.tolist(), status.tolist(), strict=True)
        ]
        spec = ms.maj_at_k("number_match", 3, answer="number_match_answer")
        cells = [
            summarise(replace(records, columns={**records.columns, spec.answer: answers}), [spec])
            for answers in (codes, np.array(texts, dtype=object))
        ]
        assert cells[0][spec.name].to_dict() == cells[1][spec.name].to_dict()

    def test_it_compares_with_a_run_of_texts(self, tmp_path: Path) -> None:
        run = Run.open(FIRST)
        records = run.records("sums", "m")
        ok = records.status["number_match_answer"] == "ok"
        texts = np.where(ok, records.columns["number_match_answer"].astype(str), "")
        now = Records.from_columns(
            {
                "number_match": records.columns["number_match"],
                "number_match_found": records.columns["number_match_found"],
                "number_match_answer": [text or None for text in texts.tolist()],
            },
            unit_id=records.unit_id,
            attempt=records.attempt,
        )
        results = {**run.results, "run_id": "now"}
        new = write_run(
            tmp_path / "now",
            results=results,
            manifest={"run_id": "now"},
            records={("sums", "m"): now},
        )
        cells = {cell.metric: cell for cell in compare_runs(run, new).cells}
        assert cells["number_match_maj@3"].delta == 0.0
        assert "number_match_answer" not in cells
