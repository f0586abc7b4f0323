"""Styles of multiple-choice questions."""

import pytest

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.models.responses import ResponseType
from eval_toolkit.tasks import (
    BPBStyle,
    ClozeStyle,
    MCCompletionStyle,
    MCStyle,
    answer_key_to_index,
    format_mc_prompt,
    letters,
)

CHOICES = ["Madrid", "Rome"]


def test_letters() -> None:
    assert letters(3) == ["A", "B", "C"]
    for n in (0, 27):
        with pytest.raises(InvalidInputError, match=f"there are {n} choices; the labels A to Z"):
            letters(n)


@pytest.mark.parametrize(("key", "index"), [("A", 0), ("d", 3), ("1", 0), (" 4 ", 3), ("12", 11)])
def test_answer_keys(key: str, index: int) -> None:
    assert answer_key_to_index(key) == index


@pytest.mark.parametrize("key", ["", "0", "-1", "AB", "Ä", "²", "?"])
def test_no_answer_keys(key: str) -> None:
    with pytest.raises(InvalidInputError, match="the answer key is"):
        answer_key_to_index(key)


def test_labelled_options() -> None:
    assert format_mc_prompt("Q", CHOICES) == "Q\nA. Madrid\nB. Rome\n"
    spaced = format_mc_prompt("Q", CHOICES, space_prefixed_labels=True)
    assert spaced == "Q\n A. Madrid\n B. Rome\n"


# tasks.md §3.6: what each styler writes, scores and refers to
def test_multiple_choice() -> None:
    style = MCStyle()
    assert style.response_type is ResponseType.LOGLIKELIHOODS
    assert style.get_instruction_text("Capital?", CHOICES) == (
        "Question: Capital?\nA. Madrid\nB. Rome\n"
    )
    assert style.get_possible_completions(CHOICES, 1) == [" A", " B"]
    assert style.get_ground_truth(CHOICES, 1) == " B"
    assert style.get_fewshot_target_text(CHOICES, 1) == "Answer: B"
    assert (
        MCStyle(space_prefixed_labels=True)
        .get_instruction_text("?", CHOICES)
        .endswith("\n A. Madrid\n B. Rome\n")
    )


def test_multiple_choice_in_words() -> None:
    style = MCCompletionStyle()
    assert style.response_type is ResponseType.COMPLETION
    assert style.get_possible_completions(CHOICES) is None
    assert style.get_ground_truth(CHOICES, 1) == "Rome"
    assert style.get_fewshot_target_text(CHOICES, 1) == "Answer: Rome"
    assert MCCompletionStyle(cue_text="").get_fewshot_target_text(CHOICES, 1) == "Rome"


def test_cloze() -> None:
    style = ClozeStyle()
    assert style.get_instruction_text("Capital?", CHOICES) == "Question: Capital?\n"
    assert style.get_possible_completions(CHOICES) == [" Madrid", " Rome"]
    assert style.get_fewshot_target_text(CHOICES, 1) == "Answer: Rome"
    bare = ClozeStyle(trailing_newline=False, leading_space_continuations=False)
    assert bare.get_instruction_text("Capital?", CHOICES) == "Question: Capital?"
    assert bare.get_ground_truth(CHOICES, 0) == "Madrid"


def test_gold_alone() -> None:
    assert BPBStyle().get_possible_completions(CHOICES, 1) == [" Rome"]
    with pytest.raises(InvalidInputError, match="`correct_index` is missing"):
        BPBStyle().get_possible_completions(CHOICES)


def test_languages() -> None:
    style = MCStyle.for_language("deu", space_prefixed_labels=True)
    assert (style.question_prefix, style.cue_text) == ("Frage: ", "Antwort:")
    assert style.space_prefixed_labels
    with pytest.raises(InvalidInputError, match="`language` is 'fra'; only eng, deu are supported"):
        MCStyle.for_language("fra")
    assert style.get_extra_metadata() == {"task_style": "multiple_choice"}
