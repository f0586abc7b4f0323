"""Patterns of callers: which are certain to end soon, and what becomes of those that are not."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.each import each
from tests.support.ending import must_end

from eval_toolkit._internal.sandbox import Overrun
from eval_toolkit._internal.sandbox.patterns import PATTERN_LIMIT, find_in, is_simple, take_out
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders import ExactMatch, RegexMatch
from eval_toolkit.models.responses import Completion

BOMB = r"(a+)+$"
TRIGGER = "a" * 60 + "!"
"""Two to the 60th ways through it."""

SIMPLE = [r"answer is (\w+)", r",", r"\.$", r"(?s).*#### ", r"\b(\d+)\b", r"[A-Z](?:,[A-Z])*"]
NOT_SIMPLE = [
    BOMB,
    r"(a|aa)+b",  # a choice in every round
    r"(a?){40}a{40}",
    r".*=.*;",  # cubic
    r"(a{0,10}){0,10}b",
    r"(\w+) \1",
    r"(?=a+)b",
    r"(?<=a)b",
    r"((((((a{0,9}){0,9}){0,9}){0,9}){0,9}){0,9}){0,9}",
]


@pytest.mark.parametrize("pattern", SIMPLE)
def test_simple(pattern):
    assert is_simple(pattern)


@each("pattern", NOT_SIMPLE)
def test_not_simple(pattern):
    assert not is_simple(pattern)


def test_a_simple_pattern_ends_soon_on_the_worst_of_texts():
    assert is_simple(r"\s+$")
    with must_end():  # quadratic, in a text short enough for that
        assert find_in(" " * (PATTERN_LIMIT // 2) + "x", re.compile(r"\s+$"), "last") is None


# Of letters and signs that match often; "(?=)" changes no match and makes a pattern not simple.
parts = st.sampled_from(["a", "b", "[ab]", ".", "(a)", "(?:b)", "a?", "b{1,2}", "(a|b)", "a+"])


@given(st.lists(parts, min_size=1, max_size=3).map("".join), st.text("abc", max_size=12))
def test_contained_or_not_the_same_is_found(pattern, text):
    contained = re.compile(pattern + "(?=)")
    assert not is_simple(contained.pattern)
    matches = [
        next((one for one in match.groups() if one is not None), match[0])
        for match in re.finditer(pattern, text)
    ]
    for compiled in (contained, re.compile(pattern)):
        assert find_in(text, compiled, "last") == (matches[-1] if matches else None)
        assert find_in(text, compiled, "first") == (matches[0] if matches else None)
        assert take_out(text, (compiled,)) == re.sub(pattern, "", text)


def test_flags_reach_the_worker():
    assert find_in("ROME", re.compile("rome(?=)", re.IGNORECASE), "last") == "ROME"


def test_an_exponential_pattern_is_stopped():
    with pytest.raises(Overrun):
        find_in(TRIGGER, re.compile(BOMB), "last")


class TestGraders:
    def test_a_text_that_takes_too_long_is_one_without_an_answer(self):
        grades = RegexMatch(BOMB).grade(Completion(TRIGGER, ground_truth="a"))
        assert grades == {
            "regex_match": 0.0,
            "regex_match_found": 0.0,
            "regex_match_timed_out": 1.0,
        }

    def test_other_texts_are_graded_as_ever(self):
        grades = RegexMatch(BOMB).grade(Completion("baa", ground_truth="aa"))
        assert grades == {
            "regex_match": 1.0,
            "regex_match_found": 1.0,
            "regex_match_timed_out": 0.0,
        }

    def test_simple_patterns_have_no_such_column(self):
        assert list(RegexMatch(r"\d+").columns()) == ["regex_match", "regex_match_found"]
        assert list(ExactMatch(ignore=[","]).columns()) == ["exact_match"]

    def test_what_is_ignored_can_take_too_long_too(self):
        grader = ExactMatch(ignore=[BOMB])
        assert list(grader.columns()) == ["exact_match", "exact_match_timed_out"]
        late = grader.grade(Completion(TRIGGER, ground_truth="b"))
        assert late == {"exact_match": 0.0, "exact_match_timed_out": 1.0}
        fine = grader.grade(Completion("baa", ground_truth="b"))
        assert fine == {"exact_match": 1.0, "exact_match_timed_out": 0.0}

    def test_a_reference_that_takes_too_long_is_a_mistake_of_the_task(self):
        with pytest.raises(
            InvalidInputError, match="`ignore` exceeds the time limit on a reference"
        ):
            ExactMatch(ignore=[BOMB]).grade(Completion("b", ground_truth=TRIGGER))

    def test_what_took_too_long_is_no_answer_to_vote_for(self):
        late = Completion(TRIGGER, ground_truth="x")
        assert RegexMatch(BOMB).answer(late) is None
        assert RegexMatch(BOMB, ignore_case=True).answer(Completion("bAA")) == "aa"
        assert ExactMatch(ignore=[BOMB]).answer(late) is None
        assert ExactMatch(ignore=[BOMB]).answer(Completion(" baa")) == "b"

    def test_columns_and_grades_agree(self):
        for grader in (RegexMatch(BOMB), RegexMatch("x"), ExactMatch(ignore=[BOMB]), ExactMatch()):
            for text in ("x", "aa"):
                assert list(grader.grade(Completion(text, ground_truth="x"))) == [*grader.columns()]
