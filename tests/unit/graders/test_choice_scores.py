"""Scores of choices that weigh confidence, calibration of choices, positions: worked by hand."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import log_loss

from eval_toolkit.analysis import compare_runs
from eval_toolkit.errors import InvalidInputError, MissingColumnError, UndefinedMetricError
from eval_toolkit.graders import (
    BitsPerByte,
    ChoiceCalibration,
    ChoicePosition,
    ConfidenceWeightedAccuracy,
    DistributionalCorrectnessScore,
    Grade,
    ProbabilityMass,
    TernaryScore,
    choice_reliability,
    load_grader,
)
from eval_toolkit.models.responses import Loglikelihood
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.scorecards import Records
from eval_toolkit.tasks import ChoicesSpec, Prompt, Task, run_task

IDK = " I don't know"


def answer(shares: list[float], choices: list[str], truth: Any, **more: Any) -> Loglikelihood:
    numbers = [math.log(share) if share else -math.inf for share in shares]
    return Loglikelihood(numbers, choices, ground_truth=truth, **more)


def value(grader: Any, response: Loglikelihood) -> Any:
    return grader.grade(response)[grader.name]


class TestProbabilityMass:
    def test_each_normalisation_has_its_name(self) -> None:
        names = ["probability_mass", *(f"probability_mass_norm_{s}" for s in ("bytes", "chars"))]
        for name in [*names, "probability_mass_norm_tokens"]:
            assert load_grader(name).name == name

    def test_numbers_are_divided_before_the_softmax(self) -> None:
        # " ab" has 3 bytes, " abcdef" 7: exp(-3/3) against exp(-14/7).
        response = Loglikelihood([-3.0, -14.0], [" ab", " abcdef"], ground_truth=" ab")
        assert value(ProbabilityMass("bytes"), response) == pytest.approx(1 / (1 + math.exp(-1)))
        tokens = Loglikelihood([-3.0, -6.0], [" ab", " cd"], ground_truth=" ab", n_tokens=[1, 3])
        assert value(ProbabilityMass("tokens"), tokens) == pytest.approx(1 / (1 + math.e))

    def test_unknown_token_counts_are_skipped(self) -> None:
        response = answer([0.5, 0.5], ["a", "b"], "a")
        assert value(ProbabilityMass("tokens"), response).status == "skipped"

    def test_equal_choices_add_up(self) -> None:
        response = answer([0.2, 0.5, 0.3], [" yes", " no", " yes"], " yes")
        assert value(ProbabilityMass(), response) == pytest.approx(0.5)


class TestConfidenceWeightedAccuracy:
    def test_is_the_confidence_where_right_and_nothing_where_wrong(self) -> None:
        assert value(
            ConfidenceWeightedAccuracy(), answer([0.6, 0.3, 0.1], ["a", "b", "c"], "a")
        ) == pytest.approx(0.6)
        assert value(ConfidenceWeightedAccuracy(), answer([0.6, 0.4], ["a", "b"], "b")) == 0.0

    def test_one_choice_is_no_choice(self) -> None:
        assert value(ConfidenceWeightedAccuracy(), answer([1.0], ["a"], "a")).status == "skipped"

    def test_impossible_choices_are_an_error(self) -> None:
        grade = value(ConfidenceWeightedAccuracy(), answer([0.0, 0.0], ["a", "b"], "a"))
        assert grade == Grade.error("every choice has probability zero")


class TestTernaryScore:
    @pytest.mark.parametrize(
        ("shares", "score"), [([0.6, 0.3, 0.1], 1.0), ([0.3, 0.6, 0.1], -0.5), ([0.3, 0.3, 0.4], 0)]
    )
    def test_right_wrong_or_unknown(self, shares: list[float], score: float) -> None:
        response = answer(shares, [" Rome", " Bonn", IDK], " Rome")
        assert value(TernaryScore(lw=0.5), response) == score

    def test_the_choice_that_does_not_know_can_be_named(self) -> None:
        response = answer([0.6, 0.3, 0.1], [IDK, " Rome", " Bonn"], " Rome")
        assert value(TernaryScore(idk="i DON'T know "), response) == 0.0
        assert value(TernaryScore(), response) == -1.0  # the last one is taken by default
        with pytest.raises(InvalidInputError, match="no choice is 'pass'"):
            TernaryScore(idk="pass").grade(response)

    def test_not_knowing_may_be_right(self) -> None:
        response = answer([0.1, 0.2, 0.7], [" Rome", " Bonn", IDK], IDK)
        assert value(TernaryScore(lc=2.0), response) == 2.0

    @pytest.mark.parametrize("grader", [TernaryScore, DistributionalCorrectnessScore])
    def test_weights_are_checked(self, grader: Any) -> None:
        with pytest.raises(InvalidInputError, match="the gain of a correct choice"):
            grader(lc=1.0, lw=2.0)
        with pytest.raises(InvalidInputError, match="`lw`"):
            grader(lw=-1.0)
        with pytest.raises(InvalidInputError, match="`lc`"):
            grader(lc=0.0, lw=0.0)
        with pytest.raises(InvalidInputError, match="`idk`"):
            grader(idk=" ")
        assert grader(lc=2.0, lw=1.0).columns()[grader().name].bounds == (-1.0, 2.0)

    def test_options_are_part_of_the_version(self) -> None:
        assert TernaryScore(lw=0.5).version == "1+lw=0.5"


class TestDistributionalCorrectnessScore:
    def test_the_value_of_the_specification(self) -> None:
        # p = (0.1, 0.5 gold, 0.4 don't know): (0.5 - 0.1) · (1 - 0.4) = 0.24, and not the 0.40 that
        # comes out when the last option is looked up under another spelling.
        response = answer([0.1, 0.5, 0.4], [" Bonn", " Rome", IDK], " Rome")
        assert value(DistributionalCorrectnessScore(), response) == pytest.approx(0.24)

    def test_weights(self) -> None:
        response = answer([0.2, 0.5, 0.3], [" Bonn", " Rome", IDK], " Rome")
        score = value(DistributionalCorrectnessScore(lc=2.0, lw=0.5), response)
        assert score == pytest.approx((2 * 0.5 - 0.5 * 0.2) * 0.7)

    def test_all_on_unknown_is_nothing(self) -> None:
        response = answer([0.0, 0.0, 1.0], [" Bonn", " Rome", IDK], " Rome")
        assert value(DistributionalCorrectnessScore(), response) == 0.0

    def test_where_not_knowing_is_right_there_is_no_score(self) -> None:
        response = answer([0.1, 0.5, 0.4], [" Bonn", " Rome", IDK], IDK)
        assert value(DistributionalCorrectnessScore(), response).status == "skipped"

    @given(st.lists(st.floats(0.001, 1.0), min_size=2, max_size=6), st.integers(0, 4))
    def test_stays_within_its_bounds(self, weights: list[float], gold: int) -> None:
        total = sum(weights)
        choices = [f" {i}" for i in range(len(weights))]
        gold %= len(weights) - 1  # not the last one
        response = answer([w / total for w in weights], choices, choices[gold])
        assert -1.0 <= value(DistributionalCorrectnessScore(), response) <= 1.0


class TestChoiceCalibration:
    def test_worked_by_hand(self) -> None:
        grades = ChoiceCalibration().grade(answer([0.5, 0.3, 0.2], ["a", "b", "c"], "b"))
        assert list(grades.values()) == pytest.approx(
            [0.5, 0.0, 0.5**2 + 0.7**2 + 0.2**2, -math.log(0.3)]
        )

    def test_log_loss_and_brier_equal_scikit_learn_and_the_definition(self) -> None:
        rng = np.random.default_rng(0)
        shares = rng.dirichlet(np.ones(4), 50)
        gold = rng.integers(0, 4, 50)
        choices = [" A", " B", " C", " D"]
        grades = [
            ChoiceCalibration().grade(answer(list(p), choices, choices[g]))
            for p, g in zip(shares, gold, strict=True)
        ]
        mean = {c: np.mean([grade[c] for grade in grades]) for c in ChoiceCalibration().columns()}
        assert mean["choice_confidence_log_loss"] == pytest.approx(
            log_loss(gold, shares, labels=[0, 1, 2, 3])
        )
        truth = np.eye(4)[gold]
        assert mean["choice_confidence_brier"] == pytest.approx(
            ((shares - truth) ** 2).sum(axis=1).mean()
        )
        assert mean["choice_confidence"] == pytest.approx(shares.max(axis=1).mean())
        assert mean["choice_confidence_right"] == np.mean(shares.argmax(axis=1) == gold)

    def test_an_impossible_right_choice_costs_what_can_be_counted(self) -> None:
        grades = ChoiceCalibration().grade(answer([1.0, 0.0], ["a", "b"], "b"))
        assert grades["choice_confidence_log_loss"] == pytest.approx(-math.log(2.0**-52))
        assert grades["choice_confidence_brier"] == 2.0

    def test_equal_texts_are_one_answer(self) -> None:
        grades = ChoiceCalibration().grade(answer([0.4, 0.3, 0.3], ["a", "b", "a"], "a"))
        assert grades["choice_confidence"] == pytest.approx(0.7)
        assert grades["choice_confidence_brier"] == pytest.approx(0.3**2 + 0.3**2)

    def test_one_choice_or_none_possible(self) -> None:
        one = ChoiceCalibration().grade(answer([1.0], ["a"], "a"))
        assert {grade.status for grade in one.values()} == {"skipped"}  # type: ignore[union-attr]
        none = ChoiceCalibration().grade(answer([0.0, 0.0], ["a", "b"], "a"))
        assert {grade.status for grade in none.values()} == {"error"}  # type: ignore[union-attr]

    def test_names_follow_the_normalisation(self) -> None:
        grader = ChoiceCalibration("bytes")
        assert all(column.startswith("choice_confidence_norm_bytes") for column in grader.columns())
        assert next(spec.name for spec in grader.metrics()) == "choice_confidence_norm_bytes_ece"


def quiz(n: int = 60) -> Task:
    """Questions of which a model that says what it is told knows some."""
    rows = [{"id": f"q{i:02d}", "question": f"{i}?", "right": "ABCD"[i % 4]} for i in range(n)]
    return Task(
        "quiz",
        Prompt(instruction="{question}", style="mc"),
        ChoicesSpec(choices=["one", "two", "three", "four"], answer="right", answer_is="letter"),
        rows=rows,
    )


def model(sharpness: float) -> ScriptedModel:
    """Sure of the right letter by the number of the question, by as much as it is told."""

    def likely(request: Any) -> list[float]:
        number = int(request.prompt.partition("?")[0].split()[-1])
        told = number % 4 if number % 3 else (number + 1) % 4
        return [-0.1 - sharpness * (at != told) * (1 + number % 5) for at in range(4)]

    return ScriptedModel(likely)


class TestInARun:
    def test_calibration_has_its_cells_and_a_table(self, tmp_path: Any) -> None:
        run = run_task(quiz(), model(0.5), graders=["accuracy", "choice_confidence"])
        assert run.card["choice_confidence_ece"].status == "ok"
        assert run.card["choice_confidence_ece"].details["higher_is_better"] is False
        assert run.card["choice_confidence_roc_auc"].ci is not None
        assert run.card["choice_confidence_brier"].details["higher_is_better"] is False
        assert "choice_confidence" not in run.card  # stored, not averaged
        bins = choice_reliability(run.records, n_bins=5)
        right = run.records.columns["choice_confidence_right"]
        assert sum(one["n"] for one in bins) == len(right)
        assert sum(one["n"] * one["frac_positive"] for one in bins) == pytest.approx(right.sum())

    def test_stored_runs_are_compared_by_name(self, tmp_path: Any) -> None:
        graders = ["choice_confidence", "bits_per_byte"]
        for name, sharpness in (("mild", 0.2), ("sharp", 3.0)):
            run_task(quiz(), model(sharpness), tmp_path / name, graders=graders)
        found = compare_runs(tmp_path / "mild", tmp_path / "sharp", pairs={"scripted": "scripted"})
        cells = {cell.metric: cell for cell in found.cells}
        assert (
            cells["choice_confidence_ece"].verdict == "not tested"
        )  # its bias depends on sharpness
        assert cells["choice_confidence_ece"].higher_is_better is False
        # The sharp one is surprised where it is wrong: more bits, and fewer are better.
        assert cells["bits_per_byte_total"].delta > 0.0
        assert cells["bits_per_byte_total"].verdict == "worse"
        assert {cell.status for cell in found.cells} == {"ok"}

    def test_reliability_says_what_is_missing(self) -> None:
        with pytest.raises(MissingColumnError, match="grade them with the grader"):
            choice_reliability(Records.from_columns({"x": [1.0]}))
        columns = {"choice_confidence": [0.5, 0.6], "choice_confidence_right": [1, 1]}
        with pytest.raises(UndefinedMetricError, match="all right"):
            choice_reliability(Records.from_columns(columns))
        nothing = {"choice_confidence": [None], "choice_confidence_right": [None]}
        with pytest.raises(UndefinedMetricError, match="none of 1 records"):
            choice_reliability(Records.from_columns(nothing))

    def test_bits_per_byte_of_all_is_a_ratio_of_sums(self) -> None:
        run = run_task(quiz(12), model(0.5), graders=["bits_per_byte"])
        of = run.records.columns
        total = run.card["bits_per_byte_total"].value
        assert total == pytest.approx(of["bits"].sum() / of["bytes"].sum())
        assert BitsPerByte().metrics()[0].name == "bits_per_byte_total"


class TestChoicePosition:
    def test_positions_are_kept(self) -> None:
        grades = ChoicePosition().grade(answer([0.2, 0.5, 0.3], [" A", " B", " C"], " C"))
        assert grades == {
            "choice_position": 1.0,
            "choice_position_right": 2.0,
            "choice_position_n": 3.0,
        }

    def test_no_choice_is_an_error(self) -> None:
        grades = ChoicePosition().grade(answer([0.0, 0.0], ["a", "b"], "a"))
        assert grades["choice_position"].status == "error"  # type: ignore[union-attr]
        assert grades["choice_position_n"] == 2.0
