"""Graders of log-likelihoods: each number worked by hand."""

import math

import pytest

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders import BitsPerByte, ChoiceAccuracy, Grade, ProbabilityMass
from eval_toolkit.graders.choices import right_choices
from eval_toolkit.models.responses import Loglikelihood


def answer(numbers, choices, truth, **more):
    return Loglikelihood(numbers, choices, ground_truth=truth, **more)


def test_the_likeliest_choice_is_taken_and_kept():
    grades = ChoiceAccuracy().grade(
        answer([-3.0, -0.5, -2.0], [" Madrid", " Rome", " Ur"], " Rome")
    )
    assert grades == {"accuracy": 1.0, "choice": 1.0, "margin": 1.5}


def test_a_wrong_choice_is_zero_and_kept_too():
    grades = ChoiceAccuracy().grade(answer([-0.1, -0.5], [" Madrid", " Rome"], " Rome"))
    assert grades["accuracy"] == 0.0
    assert grades["choice"] == 0.0


def test_a_tie_goes_to_the_first_and_shows_in_the_margin():
    grades = ChoiceAccuracy().grade(answer([-1.0, -1.0], [" a", " b"], " b"))
    assert grades == {"accuracy": 0.0, "choice": 0.0, "margin": 0.0}


def test_equal_choices_keep_their_own_numbers():
    # The second " yes" is likeliest; a dict by text would have lost one of the two.
    grades = ChoiceAccuracy().grade(answer([-3.0, -2.0, -1.0], [" yes", " no", " yes"], " yes"))
    assert grades["accuracy"] == 1.0
    assert grades["choice"] == 2.0


# Lengths are told apart by construction: " éé" has 3 characters, 5 bytes and here 1 token;
# " abcd" has 5 characters, 5 bytes and 4 tokens.
@pytest.mark.parametrize(
    ("normalise", "numbers", "column", "chosen"),
    [
        ("none", [-3.0, -3.5], "accuracy", 0),
        ("bytes", [-3.0, -3.5], "accuracy_norm_bytes", 0),  # -0.6 against -0.7
        ("characters", [-3.0, -3.5], "accuracy_norm_chars", 1),  # -1.0 against -0.7
        ("tokens", [-3.0, -3.5], "accuracy_norm_tokens", 1),  # -3.0 against -0.875
    ],
)
def test_each_normalisation_has_its_own_name_and_result(normalise, numbers, column, chosen):
    response = answer(numbers, [" éé", " abcd"], " abcd", n_tokens=[1, 4])
    grader = ChoiceAccuracy(normalise)
    grades = grader.grade(response)
    assert grader.name == column
    assert grades[column] == float(chosen == 1)
    assert grades["choice" + column.removeprefix("accuracy")] == chosen
    assert set(grades) == set(grader.columns())


def test_the_leading_space_can_be_left_out_of_the_length():
    # " a" against " bbb": with the space -2/2 > -4.4/4 = -1.1; without it -2/1 < -4.4/3 = -1.467.
    response = answer([-2.0, -4.4], [" a", " bbb"], " bbb")
    assert ChoiceAccuracy("characters").grade(response)["accuracy_norm_chars"] == 0.0
    bare = ChoiceAccuracy("characters", leading_space=False)
    assert bare.grade(response)["accuracy_norm_chars"] == 1.0
    assert bare.version != ChoiceAccuracy("characters").version


def test_unknown_token_counts_skip_and_say_why():
    grade = ChoiceAccuracy("tokens").grade(answer([-1.0, -2.0], ["a", "b"], "a"))
    assert grade["accuracy_norm_tokens"] == Grade.skipped(
        "the model does not report the number of tokens of a choice"
    )


def test_one_choice_is_no_choice():
    grades = ChoiceAccuracy().grade(answer([-1.0], ["a"], "a"))
    assert {grade.status for grade in grades.values()} == {"skipped"}


def test_impossible_choices_are_an_error_not_the_first():
    grades = ChoiceAccuracy().grade(answer([-math.inf, -math.inf], ["a", "b"], "a"))
    assert grades["accuracy"] == Grade.error("every choice has probability zero")


def test_an_infinite_margin_is_no_number():
    grades = ChoiceAccuracy().grade(answer([-1.0, -math.inf], ["a", "b"], "a"))
    assert grades["accuracy"] == 1.0
    assert grades["margin"].status == "skipped"


def test_a_reference_that_is_no_choice_is_named():
    with pytest.raises(InvalidInputError, match="the reference 'C' is not one of the choices"):
        right_choices(answer([-1.0, -2.0], [" red", " blue"], "C"))


def test_space_around_a_reference_does_not_matter_where_nothing_fits_exactly():
    assert right_choices(answer([-1.0, -2.0], [" red", " blue"], "blue")) == {1}
    # Where something fits exactly, only that is right.
    assert right_choices(answer([-1.0, -2.0], ["blue", " blue"], "blue")) == {0}


def test_several_references_are_all_right():
    assert right_choices(answer([-1.0] * 3, ["a", "b", "c"], ["a", "c"])) == {0, 2}


def test_a_sample_without_reference_says_so():
    with pytest.raises(InvalidInputError, match="no reference"):
        right_choices(answer([-1.0, -2.0], ["a", "b"], None))


def test_bits_per_byte_is_of_the_first_reference_that_was_scored():
    # "é" has 2 bytes: -ll / (ln 2 · 2) with ll = -4 ln 2 is 2.
    grades = BitsPerByte().grade(answer([-4 * math.log(2)], ["é"], ["not scored", "é"]))
    assert grades == {"bits_per_byte": 2.0, "bits": 4.0, "bytes": 2.0}
    assert BitsPerByte().columns()["bits_per_byte"].higher_is_better is False
    assert not BitsPerByte().columns()["bits"].metric


def test_bits_of_a_certain_text_are_zero_without_a_sign():
    grades = BitsPerByte().grade(answer([0.0], ["ab"], "ab"))
    assert math.copysign(1.0, grades["bits_per_byte"]) == 1.0


def test_an_impossible_reference_has_no_bits():
    assert BitsPerByte().grade(answer([-math.inf], ["a"], "a"))["bits_per_byte"].status == "error"


def test_probability_mass_does_not_overflow():
    # Shares of e^-1000 and e^-1001: 1 / (1 + 1/e) = 0.731…
    grades = ProbabilityMass().grade(answer([-1000.0, -1001.0], ["a", "b"], "a"))
    assert grades["probability_mass"] == pytest.approx(1 / (1 + math.exp(-1)))
    assert ProbabilityMass().grade(answer([-5.0, -7.0], ["a", "b"], ["a", "b"])) == {
        "probability_mass": 1.0
    }


def test_an_unknown_normalisation_is_refused():
    with pytest.raises(InvalidInputError, match="`normalise` is 'words'"):
        ChoiceAccuracy("words")


@pytest.mark.parametrize("value", [math.nan, math.inf, None])
def test_an_ok_grade_is_finite(value):
    with pytest.raises(InvalidInputError, match="finite"):
        Grade(value)


def test_a_grade_has_one_of_three_states():
    with pytest.raises(InvalidInputError, match="'maybe'"):
        Grade(None, "maybe")
