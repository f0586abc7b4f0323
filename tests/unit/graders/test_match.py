"""Texts that match their references, and texts that only mention them."""

import pytest

from eval_toolkit.graders.match import Match
from eval_toolkit.models.responses import Completion


@pytest.mark.parametrize(
    "text",
    [
        *("Paris", "paris.", "The answer is Paris.", "Answer: Paris", "**Answer:** Paris"),
        *("France's capital? So the answer is **Paris**.", "Final answer: Paris\n\nIt is old."),
        *("Answer: Rome. Wait.\nThe correct answer is Paris", "the answer is: Paris"),
    ],
)
def test_a_text_matches_with_the_words_before_an_answer(text: str) -> None:
    assert Match().grade(Completion(text, ground_truth="Paris"))["match"] == 1.0


@pytest.mark.parametrize(
    "text",
    [
        *("The answer is not Paris.", "Answer: Paris or Rome", "Paris, or Rome"),
        *("It is false that the answer is Paris.", "The answer is Paris.\nAnswer: Rome"),
        *("The answer is", "Answer:", "The answering Paris", "answer isParis"),
    ],
)
def test_a_text_that_only_mentions_the_reference_does_not_match(text: str) -> None:
    assert Match().grade(Completion(text, ground_truth="Paris"))["match"] == 0.0


def test_a_reference_that_is_an_article_is_matched_as_a_word() -> None:
    answers = {"The answer is A.": 1.0, "A": 1.0, "Answer:": 0.0, "": 0.0, "the": 0.0}
    for text, grade in answers.items():
        assert Match().grade(Completion(text, ground_truth="A"))["match"] == grade
