"""IFEval: each kind of instruction, strict and loose, and what cannot be checked."""

import importlib
from pathlib import Path
from typing import Any

import pytest
from tests.support.each import each

from eval_toolkit.errors import InvalidInputError, MissingExtraError
from eval_toolkit.graders import IFEval, load_grader
from eval_toolkit.graders.ifeval import follows, instruction_ids, loose_variants
from eval_toolkit.graders.ifeval.counts import count_capital_words, count_sentences, count_words
from eval_toolkit.graders.ifeval.languages import is_in_language
from eval_toolkit.models.responses import Completion
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.tasks import CompletionSpec, Prompt, Task, load_task, run_task

pytest.importorskip("py3langid")

ENGLISH = "this is a plain english sentence about the weather in a small town"
GERMAN = "Das ist ein ganz gewöhnlicher deutscher Satz über das Wetter in der Stadt."
AT_LEAST, LESS = "at least", "less than"

# (kind, arguments, a text that follows, a text that does not); made by hand from the rules.
PAIRS: list[tuple[str, dict[str, Any], str, str]] = [
    (
        "change_case:capital_word_frequency",
        {"capital_frequency": 2, "capital_relation": AT_LEAST},
        "STOP right NOW please",
        "STOP right now please",
    ),
    ("change_case:english_capital", {}, ENGLISH.upper(), ENGLISH.upper() + " but not this"),
    ("change_case:english_lowercase", {}, ENGLISH, ENGLISH.capitalize()),
    (
        "combination:repeat_prompt",
        {"prompt_to_repeat": "Write a poem."},
        " write a POEM. Roses are red.",
        "Here: Write a poem. Roses are red.",
    ),
    ("combination:two_responses", {}, "One.\n******\nTwo.", "One.\n******\nOne."),
    (
        "detectable_content:number_placeholders",
        {"num_placeholders": 2},
        "Dear [name], see you in [place].",
        "Dear [name], see you in [\nplace].",
    ),
    (
        "detectable_content:postscript",
        {"postscript_marker": "P.S."},
        "Bye.\np. s. Call me.",
        "Bye. PS call me.",
    ),
    (
        "detectable_format:constrained_response",
        {},
        "Hm. My answer is maybe.",
        "My answer is perhaps.",
    ),
    ("detectable_format:json_format", {}, '```json\n{"a": [1]}\n```', '{"a": [1}'),
    (
        "detectable_format:multiple_sections",
        {"section_spliter": "Section", "num_sections": 2},
        "Section 1\na\nSection 2\nb",
        "Section 1\na\nSECTION 2\nb",
    ),
    (
        "detectable_format:number_bullet_lists",
        {"num_bullets": 2},
        "* one\n  - two\n** bold",
        "* one\n* two\n* three",
    ),
    (
        "detectable_format:number_highlighted_sections",
        {"num_highlights": 2},
        "*one* and **two**",
        "*one* and ** ** and *\n*",
    ),
    ("detectable_format:title", {}, "<<A day>>\nIt rained.", "<< >>\nIt rained."),
    ("keywords:existence", {"keywords": ["rain", "C++"]}, "RAINY days in c++", "rain and C"),
    (
        "keywords:forbidden_words",
        {"forbidden_words": ["sun", "C++"]},
        "sunny days in C",
        "sunny days in C++!",
    ),
    (
        "keywords:frequency",
        {"keyword": "a.b", "frequency": 2, "relation": AT_LEAST},
        "a.b and A.B",
        "a.b and axb",
    ),
    (
        "keywords:letter_frequency",
        {"letter": "!", "let_frequency": 2, "let_relation": LESS},
        "Hello!",
        "Hello!!",
    ),
    ("language:response_language", {"language": "de"}, GERMAN, ENGLISH),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "But"},
        'So it is.\n\n"But, then," he said.',
        "But so it is.\n\nThen he said.",
    ),
    (
        "length_constraints:number_paragraphs",
        {"num_paragraphs": 2},
        "***\nOne.\n***\nTwo.\n***",
        "One.\n***\n***\nTwo.",
    ),
    (
        "length_constraints:number_sentences",
        {"num_sentences": 2, "relation": AT_LEAST},
        "Dr. Who? Yes.",
        "Dr. Who is here.",
    ),
    (
        "length_constraints:number_words",
        {"num_words": 4, "relation": LESS},
        "just three words",
        "these are four words",
    ),
    ("punctuation:no_comma", {}, "Yes; and no.", "Yes, and no."),
    ("startend:end_checker", {"end_phrase": "The End. "}, '"So. THE END."', "The end. Bye."),
    ("startend:quotation", {}, ' "Quoted." ', '"Quoted".'),
]


def response(text: str, *instructions: tuple[str, dict[str, Any] | None]) -> Completion:
    names, told = zip(*instructions, strict=True)
    return Completion(text, context={"instruction_id_list": list(names), "kwargs": list(told)})


class TestInstructions:
    def test_every_kind_has_a_pair(self) -> None:
        assert [pair[0] for pair in PAIRS] == instruction_ids()
        assert len(PAIRS) == 25

    @pytest.mark.parametrize(("kind", "told", "good", "bad"), PAIRS, ids=[p[0] for p in PAIRS])
    def test_a_pair_is_told_apart(
        self, kind: str, told: dict[str, Any], good: str, bad: str
    ) -> None:
        assert follows(kind, good, **told)
        assert not follows(kind, bad, **told)

    @each(("kind", "told"), [pair[:2] for pair in PAIRS])
    def test_a_blank_text_follows_nothing(self, kind: str, told: dict[str, Any]) -> None:
        assert not follows(kind, " \n\t", **told)

    @pytest.mark.parametrize(
        ("relation", "n", "kept"), [(LESS, 3, False), (LESS, 4, True), (AT_LEAST, 3, True)]
    )
    def test_less_is_strict_and_at_least_is_not(self, relation: str, n: int, kept: bool) -> None:
        told = {"num_words": n, "relation": relation}
        assert follows("length_constraints:number_words", "one two three", **told) is kept

    def test_empty_arguments_count_as_not_given(self) -> None:
        # The rows of the hub have every argument of every kind, None where it is another's.
        assert follows("punctuation:no_comma", "Yes.", num_words=None, keywords=[], relation="")

    def test_a_number_may_be_read_as_a_float(self) -> None:
        assert follows("detectable_format:number_bullet_lists", "* a\n* b", num_bullets=2.0)

    @pytest.mark.parametrize(
        ("kind", "told", "reason"),
        [
            ("punctuation:no_coma", {}, "no instruction 'punctuation:no_coma'; did you mean"),
            ("punctuation:no_comma", {"text": "x"}, "has no argument 'text'"),
            ("startend:end_checker", {}, "`end_phrase` is missing; it must be a string"),
            ("keywords:existence", {"keywords": "rain"}, "`keywords` is 'rain'; it must be a list"),
            (
                "length_constraints:number_words",
                {"num_words": 3, "relation": "about"},
                "the relation is 'about'",
            ),
            ("detectable_format:number_bullet_lists", {"num_bullets": "3"}, "must be a number"),
        ],
    )
    def test_mistakes_are_named(self, kind: str, told: dict[str, Any], reason: str) -> None:
        with pytest.raises(InvalidInputError, match=reason):
            follows(kind, "Some text.", **told)


class TestCounting:
    @each(
        ("text", "n"),
        [
            ("", 0),
            ("No end", 1),
            ("One. Two! Three? Four", 4),
            ("Mr. J. Doe of the U.S. army, e.g. today, left at 5 p.m. yesterday.", 1),
            ("It ended at 5 p.m. Then we left.", 2),
            ("Well... he said no. Then yes.", 2),
            ("Pi is 3.14 and not 3.15!?", 1),
            ('"Stop!" "Why?" **Because.**', 3),
            ("1. Buy milk.\n2. buy bread.", 3),  # a number before a small letter ends nothing
            ("A heading\n\nand its sentence.", 1),
        ],
    )
    def test_sentences(self, text: str, n: int) -> None:
        assert count_sentences(text) == n

    @pytest.mark.parametrize(
        ("text", "n"),
        [("", 0), ("I am NASA's", 2), ("TOP-SECRET, (OK)", 2), ("DON'T", 2), ("Abc 123", 0)],
    )
    def test_capital_words(self, text: str, n: int) -> None:
        assert count_capital_words(text) == n

    def test_words_are_runs_of_letters_and_digits(self) -> None:
        assert count_words("well-known, 3.5 naïve_x") == 5

    def test_a_text_without_letters_is_in_any_language_and_one_word_in_none(self) -> None:
        assert is_in_language("12345", "de")
        assert not is_in_language("hm", "en")


class TestGrader:
    def test_strict_and_loose(self) -> None:
        quoted = ("startend:quotation", {})
        ends = ("startend:end_checker", {"end_phrase": "Bye."})
        no_comma = ("punctuation:no_comma", None)
        framed = response('Sure, here it is:\n*"All of it. Bye."*', quoted, ends, no_comma)
        assert IFEval().grade(framed) == {
            "prompt_strict": 0.0,
            "prompt_loose": 1.0,
            "n_followed_strict": 0.0,
            "n_followed_loose": 3.0,
            "n_instructions": 3.0,
        }

    def test_the_eight_variants(self) -> None:
        assert loose_variants("a\n*b*\nc") == [
            "a\n*b*\nc",
            "a\nb\nc",
            "*b*\nc",
            "a\n*b*",
            "*b*",
            "b\nc",
            "a\nb",
            "b",
        ]
        assert loose_variants("plain") == ["plain", ""]

    @pytest.mark.parametrize(
        ("context", "reason"),
        [
            (None, "no context"),
            ({"instruction_id_list": ["made:up"], "kwargs": [{}]}, "'made:up'"),
            ({"instruction_id_list": [], "kwargs": []}, "`instruction_id_list` is"),
            ({"instruction_id_list": ["punctuation:no_comma"], "kwargs": []}, "`kwargs` is"),
            ({"instruction_id_list": ["punctuation:no_comma"], "kwargs": [3]}, "`kwargs` must"),
        ],
    )
    def test_what_cannot_be_checked_is_an_error_in_every_column(
        self, context: Any, reason: str
    ) -> None:
        grades = IFEval().grade(Completion("Yes.", context=context))
        assert grades.keys() == IFEval().columns().keys()
        for grade in grades.values():
            assert not isinstance(grade, float)
            assert grade.status == "error"
            assert reason in grade.reason

    def test_the_name_stands_for_it(self) -> None:
        assert load_grader("ifeval") == IFEval()
        assert IFEval().version == "2"

    def test_a_missing_extra_is_named_before_anything_is_asked(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(importlib.import_module("sys").modules, "py3langid.langid", None)
        with pytest.raises(MissingExtraError, match=r"eval-toolkit\[text\]"):
            IFEval()


class TestContext:
    def test_a_declared_task_hands_fields_to_its_graders(self, tmp_path: Path) -> None:
        file = tmp_path / "task.toml"
        file.write_text(
            '[task]\nname = "t"\ncontext = ["tests", "hint"]\n[prompt]\ninstruction = "{q}"\n'
        )
        rows = [{"q": "x", "tests": [1, 2]}, {"q": "y", "tests": [], "hint": "z"}]
        first, second = load_task(file, rows=rows).samples(order="file")
        assert first.context == {"tests": [1, 2], "hint": None}
        assert second.context == {"tests": [], "hint": "z"}

    def test_a_task_that_names_none_has_none(self) -> None:
        task = Task("t", Prompt(instruction="{q}"), CompletionSpec(), rows=[{"q": "x"}])
        assert task.samples()[0].context is None


class TestRun:
    ROWS = (
        {
            "key": 1,
            "prompt": "Say yes, without commas, in quotes, ending in Bye.",
            "instruction_id_list": [
                "punctuation:no_comma",
                "startend:quotation",
                "startend:end_checker",
            ],
            "kwargs": [{}, {}, {"end_phrase": "Bye."}],
        },
        {
            "key": 2,
            "prompt": "Say yes without commas.",
            "instruction_id_list": ["punctuation:no_comma"],
            "kwargs": [{"num_words": None}],
        },
    )

    def test_rates_over_prompts_and_over_instructions(self) -> None:
        task = load_task("ifeval", rows={"train": list(self.ROWS)})
        done = run_task(task, ScriptedModel("Yes. Bye."))
        values = {name: cell.value for name, cell in done.card.items()}
        # One of two prompts; two of three and one of one instructions, not the mean of 2/3 and 1.
        assert values == {
            "prompt_strict": 0.5,
            "prompt_loose": 0.5,
            "inst_strict": 0.75,
            "inst_loose": 0.75,
        }
        assert sorted(sample.id for sample in task.samples()) == ["1", "2"]

    def test_an_unknown_kind_is_a_counted_error(self) -> None:
        odd = {**self.ROWS[1], "key": 3, "instruction_id_list": ["made:up"]}
        task = load_task("ifeval", rows={"train": [*self.ROWS, odd]})
        done = run_task(task, ScriptedModel("Yes. Bye."))
        assert (done.n_errors, done.card["prompt_strict"].n_errors) == (1, 1)
        assert done.card["prompt_strict"].value == 0.5
