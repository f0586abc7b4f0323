"""What holds for every text: graders never crash on model output, and their numbers keep bounds."""

import math
import re
import sys
from types import ModuleType

from hypothesis import given
from hypothesis import strategies as st

from eval_toolkit.graders import (
    BitsPerByte,
    ChoiceAccuracy,
    ExactMatch,
    LetterMatch,
    NumberMatch,
    ProbabilityMass,
    TextRules,
    TokenF1,
    extraction,
    find_letter,
    find_number,
)
from eval_toolkit.graders.extraction import read_number
from eval_toolkit.models.responses import Completion, Loglikelihood

texts = st.text(max_size=200)
awkward = st.text(alphabet="0123456789,.-+/$%eE\\{}boxedfrac#ABCD() \n−", max_size=80)
numbers = st.floats(max_value=0.0, allow_nan=False)


@given(texts | awkward, texts)
def test_graders_of_texts_stay_in_bounds_whatever_was_written(text, truth):
    for grader in (ExactMatch(), ExactMatch(ignore_punctuation=True), TokenF1(), TokenF1("plain")):
        (value,) = grader.grade(Completion(text, ground_truth=truth)).values()
        assert 0.0 <= value <= 1.0
    for grader in (NumberMatch(), LetterMatch()):
        truth = "7" if isinstance(grader, NumberMatch) else "B"
        assert set(grader.grade(Completion(text, ground_truth=truth)).values()) <= {0.0, 1.0}


@given(texts)
def test_a_text_matches_itself(text):
    answer = Completion(text, ground_truth=text)
    assert ExactMatch(ignore_case=True, ignore_punctuation=True).grade(answer) == {
        "exact_match": 1.0
    }
    assert TokenF1().grade(answer) == {"f1": 1.0}


@given(texts, texts)
def test_f1_does_not_care_which_side_is_which(one, other):
    rules = TextRules(ignore_case=True, ignore_punctuation=True, ignore_articles=True)
    # A reference of which these leave nothing is compared by others; a text is not.
    both_last = bool(rules.apply(one) and rules.apply(other))
    for grader in (TokenF1("plain"), *([TokenF1()] if both_last else [])):
        there = grader.grade(Completion(one, ground_truth=other))
        assert there == grader.grade(Completion(other, ground_truth=one))


@given(st.integers(-(10**12), 10**12), st.booleans())
def test_a_number_is_found_however_it_is_written(value, commas):
    written = f"{value:,}" if commas else str(value)
    assert read_number(written) == value
    assert find_number(f"So it makes {written}.") == value
    assert find_number(f"#### {written}") == value
    assert find_number(rf"\boxed{{{written}}}") == value


@given(awkward | texts)
def test_what_is_found_is_bounded(text):
    found = find_number(text)
    assert found is None or len(str(found)) < 2_000
    letter = find_letter(text, 4)
    assert letter is None or letter in "ABCD"


@given(st.lists(numbers, min_size=2, max_size=6), st.data())
def test_choices(values, data):
    choices = [f" {letter}" for letter in "ABCDEF"[: len(values)]]
    right = data.draw(st.integers(0, len(values) - 1))
    answer = Loglikelihood(values, choices, ground_truth=choices[right])
    plain, by_bytes = ChoiceAccuracy().grade(answer), ChoiceAccuracy("bytes").grade(answer)
    if max(values) == -math.inf:
        assert plain["accuracy"].status == "error"
        return
    # Choices of equal length: dividing by it changes nothing, up to numbers that round to a tie.
    best = values.index(max(values))
    assert plain["choice"] == best
    assert plain["accuracy"] == float(best == right)
    assert values[int(by_bytes["choice_norm_bytes"])] / 2 == max(values) / 2
    assert 0.0 <= ProbabilityMass().grade(answer)["probability_mass"] <= 1.0
    if values[right] > -sys.float_info.max / 2:
        assert BitsPerByte().grade(answer)["bits_per_byte"] >= 0.0


def test_no_pattern_of_ours_repeats_a_repetition():
    """Exponential backtracking needs an unbounded repetition inside another."""
    modules = [module for module in vars(extraction).values() if isinstance(module, ModuleType)]
    found = [value for module in modules for value in vars(module).values()]
    patterns = [value for value in found if isinstance(value, re.Pattern)]
    assert len(patterns) >= 8
    for pattern in patterns:
        assert not re.search(r"[*+]\)+[*+{]", pattern.pattern), pattern.pattern
