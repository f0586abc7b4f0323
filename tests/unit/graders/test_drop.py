"""DROP scoring, by hand."""

import pytest
from tests.support.each import each

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders import Drop, drop_answer
from eval_toolkit.models.responses import Completion


def drop(text, truth=None, **context):
    grades = Drop().grade(Completion(text, ground_truth=truth, context=context or None))
    return grades["drop_f1"], grades["drop_exact_match"]


@each(
    ("text", "truth", "expected"),
    [
        ("The Rams!", "rams", (1.0, 1.0)),
        ("5", "5.0", (1.0, 1.0)),  # numbers are written alike
        ("1,000", "1000", (1.0, 1.0)),  # a comma between thousands separates nothing
        ("12-yard run", "12 yard run", (1.0, 1.0)),
        ("4 yards", "5 yards", (0.0, 0.0)),  # a wrong number is wrong, whatever stands beside it
        ("yards", "5 yards", (0.0, 0.0)),
        ("5", "5 yards", (0.67, 0.0)),  # 2·1/3, rounded
        ("Rome, Bonn", "Bonn, Rome", (1.0, 1.0)),
        ("Rome", "Bonn, Rome", (0.5, 0.0)),
        ("Rome, Bonn, Oslo", "Rome", (0.33, 0.0)),
        ("Rome, Rome", "Rome", (0.5, 0.0)),  # the same spans, but not as many
        ("", "Rome", (0.0, 0.0)),
        # A reference of articles or punctuation alone keeps them, and the text does for it.
        ("the", "a", (0.0, 0.0)),
        ("", "a", (0.0, 0.0)),
        ("A.", "a", (1.0, 1.0)),
        ("?", "a", (0.0, 0.0)),
        ("?", "!", (0.0, 0.0)),
        ("!", "!", (1.0, 1.0)),
        ("a, the Rome", "Rome, A", (1.0, 1.0)),
        ("the, the Rome", "Rome, A", (0.5, 0.0)),
        ("answer a", "a", (0.67, 0.0)),
    ],
)
def test_by_hand(text, truth, expected):
    assert drop(text, truth) == expected


def test_spans_are_paired_so_that_the_sum_is_largest():
    # In the order they stand "x y" has 2·1/5 with "y z w" and "y z" has 2·1/4 with "x y"; the other
    # way round it is 1 and 2·2/5, over 2 spans.
    assert drop("x y, y z", "y z w, x y")[0] == pytest.approx(0.9)


def test_the_best_answer_counts_for_each_column():
    assert drop("red fox", ["red fox den", "blue"]) == (0.8, 0.0)
    assert drop("red fox", ["red fox den", "red fox"]) == (1.0, 1.0)


def test_answers_of_the_context_may_have_commas_in_their_spans():
    answers = [["Rome, Italy"], {"number": "3", "date": {}, "spans": []}]
    assert drop("3", answers=answers) == (1.0, 1.0)
    assert drop("Rome", "not looked at", answers=answers)[0] == 0.67


def test_answers_of_the_data():
    assert drop_answer({"number": 7, "spans": []}) == ("7",)
    assert drop_answer({"number": "", "spans": ["a", "b"]}) == ("a", "b")
    date = {"day": "", "month": "May", "year": "1999"}
    assert drop_answer({"number": "", "date": date, "spans": []}) == ("May 1999",)


def test_each_answer_is_compared_by_its_own_rules():
    assert drop("the", ["Rome", "a"]) == (0.0, 0.0)
    assert drop("the Rome", ["a", "Rome"]) == (1.0, 1.0)


def test_empty_answers_are_left_out_and_none_at_all_is_a_mistake():
    assert drop("", ["", "Rome"]) == (0.0, 0.0)
    with pytest.raises(InvalidInputError, match="no reference"):
        drop("", [""])
    with pytest.raises(InvalidInputError, match="must be a list of spans"):
        drop("x", answers=["Rome"])
