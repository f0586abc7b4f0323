"""Ten megabytes of the worst each grader of texts can be given: counted, and soon."""

import pytest
from tests.support.ending import must_end

from eval_toolkit.graders import (
    Bleu,
    ChrF,
    CsvFormat,
    Drop,
    ExponentialSimilarity,
    JsonFormat,
    LanguageConsistency,
    LanguageMatch,
    LengthControl,
    LengthRatio,
    Placeholders,
    PostscriptFormat,
    RepeatedText,
    Rouge,
    Ter,
    UnitCount,
)
from eval_toolkit.models.responses import Completion

SIZE = 10_000_000

CONTEXT = {"comparison": "at most", "n": 100, "original": "one two", "language": "de"}
SCHEMA = {"type": "array", "items": {"type": "integer"}}
ASKED = [{"role": "user", "content": "Was ist die Hauptstadt von Italien?"}]


def fill(part):
    """Made when it is needed: together they would fill the memory."""
    return lambda: part * (SIZE // len(part))


# Grader, text, reference, the column to look at and its value.
WORST = [
    (Rouge(), fill("a b "), "a b " * 5000, "rouge_cut", 1.0),
    (Rouge("rouge"), fill("A-b."), "a b " * 5000, "rouge_cut", 1.0),
    (Bleu(), fill("a. b, "), "a. b, " * 300, "bleu_cut", 1.0),
    (ChrF(word_order=2), fill("ab, "), "ab, " * 300, "chrf_cut", 1.0),
    (Ter(), fill("a b b a a a b a b b "), "b a a b a b a a " * 5, "ter_cut", 1.0),
    (Drop(), fill("1,"), ", ".join(map(str, range(2, 30))), "drop_exact_match", 0.0),
    (JsonFormat(SCHEMA), fill("["), "[1]", "json_format_is_valid_json", 0.0),
    (JsonFormat(SCHEMA), lambda: "[" * 100_000, "[1]", "json_format_fulfills_schema", 0.0),
    (JsonFormat(SCHEMA), lambda: '{"a":' * 50_000, "[1]", "json_format_exact_match", 0.0),
    (
        JsonFormat(SCHEMA),
        lambda: "[1" + ",1" * 100_000 + "]",
        "[1]",
        "json_format_fulfills_schema",
        1.0,
    ),
    (JsonFormat(SCHEMA), lambda: '["' + '\\"' * 120_000, "[1]", "json_format_is_valid_json", 0.0),
    (CsvFormat(), fill('"a,b\n'), None, "csv_format_has_csv", 0.0),
    (PostscriptFormat(), fill("p.s\n\t >"), None, "postscript_format", 1.0),
    (PostscriptFormat(), fill("\n* p. s"), None, "postscript_format", 1.0),
    (Placeholders(), fill("[a"), None, "placeholders_n", 0.0),
    (RepeatedText(), fill("so "), None, "repeated_text", 1.0),
    (UnitCount("words"), fill("a-'"), None, "word_count", 0.0),
    (UnitCount("sentences"), fill("a. "), None, "sentence_count", 0.0),
    (UnitCount("sentences"), lambda: "a" + "." * SIZE + "x", None, "sentence_count", 1.0),
    (UnitCount("paragraphs"), fill("\n "), None, "paragraph_count_n", 0.0),
    (LengthControl(), fill("a "), '{"unit":"words","type":"max","count":9}', "length_control", 0.0),
    (LengthRatio(), fill("a "), None, "length_ratio_kept", 0.0),
    (ExponentialSimilarity(), fill("1"), "50", "exponential_similarity_found", 0.0),
    (LanguageMatch(), fill("Das ist gut. "), None, "language_match", 1.0),
    (LanguageConsistency(), fill("This is good. "), None, "language_consistency", 0.0),
]


@pytest.mark.parametrize(
    ("grader", "text", "truth", "column", "expected"),
    [pytest.param(*case, id=f"{case[0].name}-{at}") for at, case in enumerate(WORST)],
)
def test_it_ends_as_a_counted_result(grader, text, truth, column, expected):
    answer = Completion(text(), ground_truth=truth, context=CONTEXT, messages=ASKED)
    with must_end():
        grades = grader.grade(answer)
    assert set(grades) == set(grader.columns())
    assert grades[column] == expected
