"""Graders of texts, and the answers they find in them."""

from fractions import Fraction

import pytest
from tests.support.each import each

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders import (
    ExactMatch,
    Includes,
    LetterMatch,
    NumberMatch,
    RegexMatch,
    TextRules,
    TokenF1,
    find_letter,
    find_number,
)
from eval_toolkit.graders.extraction import numbers, read_number
from eval_toolkit.graders.texts import PATTERN_LIMIT
from eval_toolkit.models.responses import Completion


def exact(text, truth, **options):
    return ExactMatch(**options).grade(Completion(text, ground_truth=truth))["exact_match"]


def test_white_space_at_the_ends_never_counts():
    assert exact(" Rome\n", "Rome") == 1.0
    assert exact("New  York", "New York") == 1.0
    assert exact("New  York", "New York", ignore_whitespace=False) == 0.0


@pytest.mark.parametrize(
    ("text", "truth", "option"),
    [
        ("ROME", "Rome", "ignore_case"),
        ("STRASSE", "Straße", "ignore_case"),  # folding, not lower-casing
        ("Rome!", "Rome", "ignore_punctuation"),
        ("«Rome»", "Rome", "ignore_punctuation"),  # Unicode's punctuation too
        ("$5", "5", "ignore_punctuation"),
        ("The Rome", "Rome", "ignore_articles"),
    ],
)
def test_each_option_ignores_what_it_names(text, truth, option):
    assert exact(text, truth) == 0.0
    assert exact(text, truth, **{option: True}) == 1.0


def test_articles_are_whole_words():
    assert exact("theatre", "atre", ignore_articles=True) == 0.0


def test_spellings_of_one_letter_are_one():
    assert exact("cafe\u0301", "caf\u00e9") == 1.0


def test_patterns_are_taken_out_of_both_sides():
    gsm8k = [r",", r"\$", r"(?s).*#### ", r"\.$"]
    assert exact("so\n#### $1,000.", "#### 1000", ignore=gsm8k) == 1.0


def test_any_of_several_references_will_do():
    assert exact("Roma", ["Rome", "Roma"]) == 1.0
    assert exact("Milan", ["Rome", "Roma"]) == 0.0


def test_both_empty_are_equal():
    assert exact("", "") == 1.0


def test_a_bad_pattern_is_named():
    with pytest.raises(
        InvalidInputError, match=r"`ignore\[1\]` is '\('; it is not a valid pattern"
    ):
        TextRules(ignore=["a", "("])
    with pytest.raises(InvalidInputError, match="must be a list"):
        TextRules(ignore="abc")
    with pytest.raises(InvalidInputError, match="`pattern` is '\\['"):
        RegexMatch("[")


# By hand. squad: [red, cat] against [cat]: 2·1/(2+1); plain keeps "the" and "a":
# [the, red, cat] against [a, cat!]: no word in common.
@each(
    ("normalise", "text", "truth", "expected"),
    [
        ("squad", "the red cat", "A cat!", 2 / 3),
        ("plain", "the red cat", "A cat!", 0.0),
        ("plain", "the red cat", "The Cat", 4 / 5),
        ("squad", "cat cat cat", "cat", 2 / 4),  # common words count as often as both have them
        ("squad", "", "", 1.0),
        ("squad", "the", "", 1.0),  # nothing is left of either
        ("squad", "", "cat", 0.0),
        ("squad", "a dog", ["a cat", "one dog"], 2 / 3),
        # A reference of which nothing would be left keeps its articles, else its punctuation.
        ("squad", "", "A", 0.0),
        ("squad", "the", "A", 0.0),
        ("squad", "?", "A", 0.0),
        ("squad", "B", "A", 0.0),
        ("squad", "(A).", "A", 1.0),
        ("squad", "The answer is A", "A", 2 / 5),
        ("squad", "", "?", 0.0),
        ("squad", "?", "?", 1.0),
        ("squad", "the cat", ["A", "cat"], 1.0),
    ],
)
def test_token_f1(normalise, text, truth, expected):
    grader = TokenF1(normalise)
    grades = grader.grade(Completion(text, ground_truth=truth))
    assert grades == {grader.name: pytest.approx(expected)}


def test_no_reference_is_a_mistake_of_the_task_not_a_zero():
    with pytest.raises(InvalidInputError, match="no reference"):
        TokenF1().grade(Completion("x"))


def test_regex_takes_the_last_match_or_the_first():
    text = "answer is Bonn, no, the answer is Rome."
    last = RegexMatch(r"answer is (\w+)").grade(Completion(text, ground_truth="Rome"))
    first = RegexMatch(r"answer is (\w+)", which="first").grade(
        Completion(text, ground_truth="Rome")
    )
    assert last == {"regex_match": 1.0, "regex_match_found": 1.0}
    assert first == {"regex_match": 0.0, "regex_match_found": 1.0}


def test_regex_without_match_is_wrong_and_not_found():
    grades = RegexMatch(r"#### (\d+)").grade(Completion("no idea", ground_truth="4"))
    assert grades == {"regex_match": 0.0, "regex_match_found": 0.0}


def test_regex_takes_the_group_that_took_part():
    grader = RegexMatch(r"(-?[$0-9.,]{2,})|(-?[0-9]+)")
    assert grader.find("It is 12, or 7") == "7"


def test_patterns_of_the_caller_see_the_end_of_a_long_text():
    text = "answer is Rome" + "x" * PATTERN_LIMIT
    assert RegexMatch(r"answer is (\w+)").find(text) is None
    assert RegexMatch(r"x+$").find(text) == "x" * PATTERN_LIMIT


@each(
    ("text", "value"),
    [
        ("1,000", 1000),
        ("1000.0", 1000),
        (" $1,000.50 ", Fraction(2001, 2)),
        ("-$5", -5),
        ("−5", -5),
        ("50%", 50),
        ("1/2", Fraction(1, 2)),
        (r"\frac{3}{4}", Fraction(3, 4)),
        (r"-\dfrac{3}{4}", Fraction(-3, 4)),
        ("1.5e3", 1500),
        (".5", Fraction(1, 2)),
        ("18.", 18),
        ("0.1", Fraction(1, 10)),
        ("½", Fraction(1, 2)),
        ("2½", Fraction(5, 2)),
        ("2 ¾ ", Fraction(11, 4)),
        ("−⅓", Fraction(-1, 3)),
        ("１２３", 123),
        ("１，２３４．５", Fraction(2469, 2)),
        ("٣٤", 34),
        ("0,111", None),  # no group of thousands begins with 0
        ("1,00", None),
        ("3/0", None),
        ("12 apples", None),
        ("1e9999", None),  # no number that takes a machine's memory to write down
        ("9" * 5000, None),
        ("", None),
    ],
)
def test_read_number(text, value):
    assert read_number(text) == value


@each(
    ("text", "value"),
    [
        ("3 apples and 4 more are 7.", 7),
        ("That is $1,234.50.", Fraction(2469, 2)),
        ("from 10-4", 4),  # a difference, not a negative number
        ("x = -4", -4),
        ("the answer is 1/2.", Fraction(1, 2)),
        ("on 5/6/2024", 2024),
        ("so\n#### 1,234", 1234),
        ("#### 18 dollars\nThat took 3 steps.", 18),
        (r"thus \boxed{42}, see 7", 42),
        (r"\boxed{3} and then \boxed{12}", 12),
        (r"\boxed{\frac{1}{2}}", Fraction(1, 2)),
        (r"\boxed{1{,}000}", 1000),
        (r"\boxed{18\text{ cm}}", 18),
        (r"an open \boxed{4", 4),
        ("none at all", None),
        ("version v2", None),
        # mixed numbers and fractions
        ("That is 3 1/2 cups.", Fraction(7, 2)),
        ("-3 1/2", Fraction(-7, 2)),
        (r"\boxed{-\frac12}", Fraction(-1, 2)),
        (r"\boxed{3\frac{1}{2}}", Fraction(7, 2)),
        (r"It is $\frac{3}{4}$.", Fraction(3, 4)),
        (r"\boxed{\frac{1}{2}\text{ cup}}", Fraction(1, 2)),
        ("3 / 4 of it", Fraction(3, 4)),
        # thousands by spaces, in groups of three
        ("5 000", 5000),
        ("5\u2009000 people", 5000),
        ("5\u00a0000", 5000),
        ("It makes 12\u202f345\u202f678.50 in all", Fraction("12345678.5")),
        ("-5 000", -5000),
        ("1 2 3", 3),
        ("-1 2", 2),  # the sign is of another number
        ("in 2019 100 came", 100),
        # what stands around a number
        ("_42_", 42),
        ("__42__", 42),
        ("so the answer is...42", 42),
        ("Rs.500", 500),
        ("Rs 500", 500),
        ("USD5", 5),
        ("USD -5", -5),
        ("-USD5", -5),
        ("$-5", -5),
        ("€3.50", Fraction(7, 2)),
        ("18cm", 18),
        (r"\boxed{5\%}", 5),
        (r"\boxed{10^\circ}", 10),
        ("2^10 = 1024.", 1024),
        ("an area of 25 cm^2.", 25),
        (r"\boxed{25\text{ cm}^2}", 25),
        (r"\boxed{\frac{-1}{2}}", Fraction(-1, 2)),
        ("50 %", 50),
        ("It takes 2½ hours", Fraction(5, 2)),
        ("答案是１２３。", 123),
        ("an area of 25 cm²", 25),
    ],
)
def test_find_number(text, value):
    assert find_number(text) == value


@each(
    "text",
    [
        "100,000,00",
        "1,00",
        "1,2",
        "1.000,50",
        "1.2.3",
        "10 20 300",  # 300 or 20 300
        "10 7/3",  # 7/3, or no mixed number
        "5 000\u2009000",  # two kinds of space
        "10:30",
        "x_42",
        "it is.42",
        "0x1F",
        "10x5",
        "1e9999",
        "9" * 5000,
        "2^10",
        "10²",
        "3x^2",
        r"\boxed{\sqrt{2}}",
        r"It is $2\pi$",
        r"\boxed{\frac{\sqrt{2}}{2}}",
        r"\boxed{\frac{x}{2}}",
        "3/0",
    ],
)
def test_a_number_that_could_be_another_is_not_found(text):
    assert find_number(text) is None
    said = NumberMatch().grade(Completion(text, ground_truth="7"))
    assert said == {"number_match": 0.0, "number_match_found": 0.0}


def test_a_form_that_is_asked_for_is_not_guessed():
    assert find_number("it is 7", "boxed") is None
    assert find_number("it is 7", "hashes") is None
    assert find_number(r"\boxed{3}, or 7", "last") == 7


def test_numbers_are_compared_as_numbers():
    grader = NumberMatch()
    right = {"number_match": 1.0, "number_match_found": 1.0}
    assert grader.grade(Completion("1000.0", ground_truth="1,000")) == right
    assert grader.grade(Completion("It is 18.", ground_truth="9 * 2 = 18\n#### 18")) == right
    assert grader.grade(Completion("eighteen", ground_truth="18")) == {
        "number_match": 0.0,
        "number_match_found": 0.0,
    }


def test_a_tolerance_is_relative_to_the_reference():
    within = NumberMatch(tolerance=0.01)
    assert within.grade(Completion("101", ground_truth="100"))["number_match"] == 1.0
    assert within.grade(Completion("102", ground_truth="100"))["number_match"] == 0.0
    assert NumberMatch().grade(Completion("0.1", ground_truth="1/10"))["number_match"] == 1.0


def test_a_reference_without_number_is_named():
    with pytest.raises(InvalidInputError, match="'ten' contains no number"):
        NumberMatch().grade(Completion("10", ground_truth="ten"))


@each(
    ("text", "letter"),
    [
        ("B", "B"),
        (" B.", "B"),
        ("(B)", "B"),
        ("C) Rome", "C"),
        ("The answer is B.", "B"),
        ("Answer: **C**", "C"),
        ("Answer:\nB", "B"),
        ("the answer: $B$", "B"),
        (r"so \boxed{D}", "D"),
        (r"\boxed{\text{D}}", "D"),
        ("I think A is wrong. The answer is (C).", "C"),
        ("Answer: A. No, the answer is B", "B"),
        ("I think it is B", "B"),
        ("A cat sat there.", None),
        ("the answer is a mystery", None),
        ("I don't know", None),
        ("E", None),  # there are four choices
        ("", None),
        # options that are ruled out
        ("Option A is wrong and option B is wrong. It must be C.", "C"),
        ("It's (B), not (A).", "B"),
        ("The correct answer is not A but C.", "C"),
        ("The answer isn't A. Answer: D.", "D"),
        ("It cannot be (A). I choose (B)", "B"),
        ("A) is incorrect. B) is correct", "B"),
        # options that are said to be right
        ("A is correct", "A"),
        ("B is correct, A is not.", "B"),
        ("So B is the correct answer.", "B"),
        ("So **B** is clearly the best choice here.", "B"),
        ("Option A is tempting, but (C) is right.", "C"),
        ("B is not correct", None),
        ("B is incorrect", None),
        ("If B is correct, then C is correct.", "C"),
        ("I wonder whether B is correct", None),
        ("Neither A nor B is correct", None),
        ("<answer>B</answer>", "B"),
        ("<think>A or C?</think>\n<answer>\n(B) Rome\n</answer>", "B"),
        ("<answer>B</answer> A cat", "B"),
        # two of them are none
        ("Both A and B", None),
        ("Both A and B are correct", None),
        ("The answer is A and B.", None),
        ("It is either (A) or (B)", None),
        ("A or B? I would say B.", "B"),
        ("The answer is A and B is wrong.", "A"),
        ("Answer: B and not A", "B"),
        ("C. Both A and B", "C"),
        ("ANSWER: A, B, C, D", None),
        ("ANSWER: A, B", None),
        ("The answer is A/C.", None),
        ("Answer: (A), (B) and (D)", None),
        ("Answer: A; B", None),
        ("A, B", None),
        ("(A), (B), (C)", None),
        ("Options: A, B, C, D. Answer: B", "B"),
        ("A, since B is wrong", "A"),
        ("Answer: B, C is wrong", "B"),
        ("The answer is not A.", None),
        ("The answer is B, not A", "B"),
        ("The answer is A because B is wrong.", "A"),
        # options that are only mentioned
        ("The answer is C. Option B is tempting.", "C"),
        ("C. Because option A is smaller", "C"),
        ("The answer is option B", "B"),
        ("The correct option is B", "B"),
        ("answer choice is B", "B"),
        ("I would go with option D here", "D"),
        ("The best answer would be **B**.", "B"),
        # words of a sentence
        ("Answer: A cat", None),
        ("Answer: A", "A"),
        ("Answer: A, since it is larger", "A"),
    ],
)
def test_find_letter(text, letter):
    assert find_letter(text, 4) == letter


@each(
    ("text", "letter"),
    [
        ("Answer: I think B.", "B"),
        ("I'd say D", "D"),
        ("I, for one, do not know", None),
        ("So do I.", None),
        ("The answer is I", None),
        ("Answer: (I)", "I"),
        ("I", "I"),
        ("K", "K"),
    ],
)
def test_where_the_choices_are_not_counted_words_are_no_letters(text, letter):
    assert find_letter(text) == letter


def test_the_choices_are_counted_where_they_are_known():
    text = "Answer: I"
    assert find_letter(text, 10) == "I"
    for known in ({"choices": list("abcd")}, {"choices": tuple("abcdefghij")}):
        grades = LetterMatch().grade(Completion(text, ground_truth="B", context=known))
        assert grades["letter_match_found"] == float(len(known["choices"]) > 8)
    with pytest.raises(InvalidInputError, match="'E' is not one of the first 4 letters"):
        LetterMatch().grade(Completion("E", ground_truth="E", context={"choices": list("abcd")}))
    given = LetterMatch(4).grade(Completion("E", ground_truth="B", context={"choices": "abcdef"}))
    assert given["letter_match_found"] == 0.0  # what was said counts
    assert LetterMatch().grade(Completion("E", ground_truth="E", context="x"))["letter_match"] == 1


def test_letters_of_references():
    assert LetterMatch(4).grade(Completion("B", ground_truth=" B"))["letter_match"] == 1.0
    assert LetterMatch(4).grade(Completion("B", ground_truth="(b)".upper()))["letter_match"] == 1.0
    with pytest.raises(InvalidInputError, match="'Rome' is not one of the first 4 letters"):
        LetterMatch(4).grade(Completion("B", ground_truth="Rome"))
    with pytest.raises(InvalidInputError, match="at most 26"):
        LetterMatch(27)


LONG = 30_000


@each(
    "text",
    [
        "12 " + "x" * LONG,  # none at the end
        "x" * LONG + " 12",
        "7" * LONG,
        "1 2 3 " * (LONG // 6),
        "1, " * LONG + "25 000",
        "-" + "1,234," * (LONG // 6) + "5",
        "1/2 " * LONG + "3 1/2",
        "a" * 10_010 + "12345" + "b" * 19_995,  # the end begins within it
        "a" * 10_000 + " -1,2345.5" + "b" * 19_996,
        "x" * 9_990 + r" \frac{1}{2}" + "x" * 19_998,
        "5 " + "x" * (20_000 - 500) + " y" * 100,
        "^" * LONG,
    ],
)
def test_the_last_number_of_a_long_text_is_that_of_the_whole(text):
    whole = numbers._last_token(text)
    expected = None if whole is None else numbers._value(whole)
    assert find_number(text, "last") == expected


@each(
    ("text", "truth", "options", "right"),
    [
        ("It is Rome, I think.", "rome", {}, 1.0),
        ("It is Rome, I think.", "rome", {"ignore_case": False}, 0.0),
        ("party", "art", {}, 0.0),
        ("party", "art", {"whole_words": False}, 1.0),
        ("14", "4", {}, 0.0),
        ("4.5 or 1,004", "4", {}, 0.0),
        ("4.", "4", {}, 1.0),
        ("5,4", "4", {}, 0.0),
        ("44 and then 4", "4", {}, 1.0),
        ("答案是北京。", "北京", {}, 1.0),
        ("New\n York", "New York", {}, 1.0),
        ("'Rome', it is", "Rome", {"where": "begin"}, 1.0),
        ("It is Rome", "Rome", {"where": "begin"}, 0.0),
        ("It is **Rome**.", "Rome", {"where": "end"}, 1.0),
        ("Rome it is, Rome!", "Rome", {"where": "end"}, 1.0),
        ("Rome it is", "Rome", {"where": "end"}, 0.0),
        ("the cat", "a cat", {"ignore_articles": True}, 1.0),
        ("anything", "", {}, 0.0),
        ("", "", {}, 1.0),
        ("", "Rome", {}, 0.0),
        ("Roma", ["Rome", "Roma"], {}, 1.0),
    ],
)
def test_a_reference_stands_in_the_text(text, truth, options, right):
    graded = Includes(**options).grade(Completion(text, ground_truth=truth))
    assert graded == {"includes": right}


@each(
    ("where", "text", "right", "found"),
    [
        ("first", "4, since 2 + 2 = 4 and not 5", 1.0, 1.0),
        ("first", "5 or 4", 0.0, 1.0),
        ("begin", "4 or 5", 1.0, 1.0),
        ("end", "5 or 4", 1.0, 1.0),
        ("any", "5 or 4 or 7", 1.0, 1.0),
        ("any", "14 or 4.5", 0.0, 1.0),
        ("any", "none", 0.0, 0.0),
        ("exact", " 4.0 ", 1.0, 1.0),
        ("exact", "It is 4", 0.0, 0.0),
    ],
)
def test_numbers_of_other_places(where, text, right, found):
    graded = NumberMatch(where).grade(Completion(text, ground_truth="4"))
    assert graded == {"number_match": right, "number_match_found": found}


def test_a_place_of_no_kind_is_refused():
    for grader in (NumberMatch, Includes):
        with pytest.raises(InvalidInputError, match="where"):
            grader(where="middle")
