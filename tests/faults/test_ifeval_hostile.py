"""IFEval on texts that were written to hurt: long, repetitive, deeply nested."""

import pytest
from tests.support.ending import must_end

from eval_toolkit.graders import IFEval
from eval_toolkit.graders.ifeval import follows, instruction_ids
from eval_toolkit.models.responses import Completion

pytest.importorskip("py3langid")

ARGUMENTS = {
    "change_case:capital_word_frequency": {"capital_frequency": 3, "capital_relation": "less than"},
    "combination:repeat_prompt": {"prompt_to_repeat": "((((a+)+)+)+$"},
    "detectable_content:number_placeholders": {"num_placeholders": 1},
    "detectable_content:postscript": {"postscript_marker": "P.P.S"},
    "detectable_format:multiple_sections": {"section_spliter": "(a+)+", "num_sections": 1},
    "detectable_format:number_bullet_lists": {"num_bullets": 1},
    "detectable_format:number_highlighted_sections": {"num_highlights": 1},
    "keywords:existence": {"keywords": ["(a+)+$", "["]},
    "keywords:forbidden_words": {"forbidden_words": ["(a|aa)+$", "*"]},
    "keywords:frequency": {"keyword": "(a*)*b", "frequency": 1, "relation": "at least"},
    "keywords:letter_frequency": {"letter": "a", "let_frequency": 1, "let_relation": "at least"},
    "language:response_language": {"language": "de"},
    "length_constraints:nth_paragraph_first_word": {
        "num_paragraphs": 1,
        "nth_paragraph": 1,
        "first_word": "a",
    },
    "length_constraints:number_paragraphs": {"num_paragraphs": 1},
    "length_constraints:number_sentences": {"num_sentences": 3, "relation": "at least"},
    "length_constraints:number_words": {"num_words": 3, "relation": "less than"},
    "startend:end_checker": {"end_phrase": "$"},
}
SIZE = 300_000
HOSTILE = {
    "letters": "a" * SIZE,
    "dots": "." * SIZE + "x",
    "ends": ". " * (SIZE // 2),
    "brackets": "[" * SIZE,
    "stars": "*" * SIZE,
    "a star and letters": ("*" + "a" * 60) * (SIZE // 61),
    "angles": "<<" * (SIZE // 2),
    "lines": "\n" * SIZE + "x",
    "blanks": "x" + " " * SIZE + "x",
    "addresses": "a.b-" * (SIZE // 4) + "@",
    "quotes": "'\"" * (SIZE // 2),
    "dashes": "-" * SIZE,
    "postscripts": "p. p. " * (SIZE // 6),
    "surrogates": "\ud800" * 1000,
    "nul": "\0" * SIZE,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_time_does_not_explode(text: str) -> None:
    # A quadratic rule would need minutes for 300,000 characters, an exponential one for ever.
    with must_end():
        for kind in instruction_ids():
            assert follows(kind, text, **ARGUMENTS.get(kind, {})) in (True, False)


def test_json_that_is_too_deep_is_no_json() -> None:
    assert not follows("detectable_format:json_format", "[" * 100_000 + "]" * 100_000)
    assert not follows("detectable_format:json_format", "9" * 100_000)


def test_ten_megabytes_are_graded_in_seconds() -> None:
    kinds = [
        "length_constraints:number_words",
        "length_constraints:number_sentences",
        "detectable_content:number_placeholders",
        "punctuation:no_comma",
    ]
    told = [
        {"num_words": 9, "relation": "less than"},
        *(ARGUMENTS.get(kind, {}) for kind in kinds[1:]),
    ]
    text = "Some words, and more of them.\n" * 350_000
    context = {"instruction_id_list": kinds, "kwargs": told}
    with must_end():
        grades = IFEval().grade(Completion(text, context=context))
    assert grades["n_followed_loose"] == 1.0
