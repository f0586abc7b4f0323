"""What holds for every text: graders of texts keep their bounds, columns and symmetries."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval_toolkit.graders import (
    Bleu,
    ChrF,
    CsvFormat,
    Drop,
    ExponentialSimilarity,
    Grade,
    JsonFormat,
    LengthControl,
    LengthRatio,
    Placeholders,
    PostscriptFormat,
    RepeatedText,
    Rouge,
    Ter,
    UnitCount,
    count_words,
    drop,
    formats,
    json_format,
    lengths,
    rouge,
)
from eval_toolkit.graders.rouge import common_subsequence_length
from eval_toolkit.models.responses import Completion

texts = st.text(max_size=120) | st.text(alphabet='ab1,. "[]{}:\n-', max_size=80)
words = st.lists(st.sampled_from("abcd"), max_size=25)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=12,
)

LENGTH = '{"unit": "words", "type": "target", "count": 10}'
CONTEXT = {"comparison": "at least", "n": 2, "original": "one two"}
GRADERS = [
    *(Bleu(), ChrF(), ChrF(word_order=2), Ter(), Rouge(), Rouge("rouge"), Drop()),
    *(JsonFormat(), CsvFormat(), PostscriptFormat(), Placeholders(), RepeatedText(3)),
    *(UnitCount("words"), UnitCount("sentences"), UnitCount("paragraphs"), LengthRatio()),
    *(LengthControl(), ExponentialSimilarity()),
]


@pytest.mark.parametrize("grader", GRADERS, ids=repr)
@given(text=texts, truth=st.text(alphabet="ab1, \n", min_size=1, max_size=40))
def test_grades_keep_the_bounds_and_columns_that_were_announced(grader, text, truth):
    fixed = {"length_control": LENGTH, "exponential_similarity": "50"}
    truth = fixed.get(grader.name, f"a {truth}")
    grades = grader.grade(Completion(text, ground_truth=truth, context=CONTEXT))
    columns = grader.columns()
    assert set(grades) == set(columns)
    for column, grade in grades.items():
        if isinstance(grade, Grade):
            assert grade.status in ("skipped", "error")
            continue
        low, high = columns[column].bounds
        assert low <= grade <= high + 1e-9
        assert not columns[column].binary or grade in (0.0, 1.0)


@given(words.filter(len))
def test_a_text_agrees_with_itself(said):
    answer = Completion(" ".join(said), ground_truth=" ".join(said))
    assert Rouge().grade(answer)["rouge_l"] == 1.0
    assert ChrF().grade(answer)["chrf"] == pytest.approx(100.0)
    assert Bleu().grade(answer)["bleu"] == pytest.approx(100.0)
    assert Ter().grade(answer)["ter"] == 0.0


@given(words, words)
def test_rouge_does_not_care_which_side_is_which(one, other):
    there = Rouge().grade(Completion(" ".join(one), ground_truth=" ".join(other)))
    back = Rouge().grade(Completion(" ".join(other), ground_truth=" ".join(one)))
    assert there == back


@given(words, words)
def test_longest_common_subsequence_by_the_table(one, other):
    row = [0] * (len(other) + 1)
    for item in one:
        above = row
        row = [0]
        for at, candidate in enumerate(other):
            row.append(above[at] + 1 if item == candidate else max(row[-1], above[at + 1]))
    assert common_subsequence_length(one, other) == row[-1]


@given(values, st.sampled_from(["{}", "Sure: {}", "```json\n{}\n```"]))
def test_what_json_writes_is_read_and_equals_itself(value, frame):
    text = json.dumps(value)
    grades = JsonFormat().grade(Completion(frame.replace("{}", text), ground_truth=text))
    alone = frame == "{}"
    assert grades["json_format_is_just_json"] == float(alone)
    if alone or isinstance(value, (list, dict)):
        assert grades["json_format_exact_match"] == 1.0


@given(texts, texts)
def test_words_of_two_texts_add_up(one, other):
    assert count_words(f"{one} \n{other}") == count_words(one) + count_words(other)


def test_no_pattern_of_ours_repeats_a_repetition():
    """Exponential backtracking needs an unbounded repetition inside another."""
    found = [
        value.pattern
        for module in (drop, formats, json_format, lengths, rouge)
        for value in vars(module).values()
        if isinstance(value, re.Pattern)
    ]
    found += formats._POSTSCRIPTS.values()
    assert len(found) >= 9
    for pattern in found:
        assert not re.search(r"[*+]\)+[*+{]", pattern), pattern
