"""Reasoning told from answers: replies written for these tests, with what a reader would say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.each import each

from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.models.responses import REASONING_TAGS, RawCompletion, split_reasoning

CHANNELS = (
    "<|channel|>analysis<|message|>Italy, so<|end|><|start|>assistant"
    "<|channel|>final<|message|>Rome<|return|>"
)


@each(
    "reply",
    [
        "<think>Italy, so</think>Rome",
        "<think>\nItaly, so\n</think>\n\nRome",
        "  <think>Italy, so</think>Rome".lstrip(),
        "<thinking>Italy, so</thinking>\nRome",
        "<reasoning>\nItaly, so\n</reasoning>\nRome",
        "<THINK>Italy, so</THINK>Rome",
        "[THINK]Italy, so[/THINK]Rome",
        # the template opened it
        "Italy, so\n</think>\n\nRome",
        "Italy, so</think>Rome",
        # the channels of gpt-oss, with and without their special tokens
        CHANNELS,
        f"<|start|>assistant{CHANNELS}",
        "analysisItaly, soassistantfinalRome",
    ],
)
def test_the_answer_is_what_comes_after(reply):
    parts = split_reasoning(reply)
    assert (parts.answer, parts.reasoning, parts.cut_off) == ("Rome", "Italy, so", False)


@each(
    "text",
    [
        "",
        "Rome",
        "\n\nRome ",
        "Models write their reasoning between <think> and </think> tags.",
        "Use `<think>` first.",
        "Close it with </think>.",
        "re.sub('<think>.*?</think>', '', text)",
        'reply.split("</think>")[-1]',
        "```xml\n<reasoning>because</reasoning>\n```",
        "First the answer.\n<think> is a tag that nothing closes",
        "The analysis of the assistant is final.",
        "<b>Rome</b>",
    ],
)
def test_a_text_without_reasoning_stays_as_it_is(text):
    parts = split_reasoning(text)
    assert (parts.answer, parts.reasoning, parts.cut_off, parts.tokens) == (text, "", False, 0)


@pytest.mark.parametrize(
    "reply",
    [
        "<think>Italy, so",
        "\n<think>\nItaly, so",
        "<|channel|>analysis<|message|>Italy, so",
        "<think>Italy, so</think>\n<think>wait",
    ],
)
def test_a_reply_that_ends_inside_its_reasoning_has_no_answer(reply):
    parts = split_reasoning(reply)
    assert parts.answer == ""
    assert parts.cut_off
    assert parts.reasoning.startswith("Italy, so")


def test_several_thoughts_are_all_taken_out():
    parts = split_reasoning("<think>a</think><think>b</think>One.\n<think>c</think>\nTwo.")
    assert parts.answer == "One.\n\nTwo."
    assert parts.reasoning == "a\n\nb\n\nc"


def test_an_empty_thought_is_none():
    assert split_reasoning("<think>\n\n</think>\n\nRome").tokens == 0


def test_what_the_answer_is_indented_by_stays():
    assert split_reasoning("<think>a</think>\n\n    return x\n").answer == "    return x\n"


def test_code_in_thoughts_does_not_hide_what_comes_later():
    assert (
        split_reasoning("<think>```\nopen</think>One\n<think>x</think>\nTwo").answer == "One\n\nTwo"
    )


def test_a_prompt_may_have_opened_the_reasoning():
    assert split_reasoning("Italy, so", opened=True).cut_off
    assert split_reasoning("Italy, so</think>Rome", opened=True).answer == "Rome"
    reply = RawCompletion("Italy, so", prompt="Capital?\n<think>\n")
    assert reply.parts().cut_off
    assert RawCompletion("Italy, so").parts(prompt="Capital?\n<think>").cut_off
    assert not RawCompletion("Italy, so", prompt="Capital?").parts().cut_off


def test_tags_can_be_chosen():
    tags = [("<scratch>", "</scratch>")]
    assert split_reasoning("<scratch>a</scratch>b", tags).answer == "b"
    assert split_reasoning("<think>a</think>b", tags).answer == "<think>a</think>b"
    assert split_reasoning("<think>a</think>b", ()).answer == "<think>a</think>b"
    assert split_reasoning("<scratch>a</scratch>b", (*REASONING_TAGS, *tags)).answer == "b"


@pytest.mark.parametrize(
    ("tags", "error", "message"),
    [
        ("<think>", InvalidTypeError, "must be a list of pairs"),
        (["<think>"], InvalidTypeError, r"reasoning_tags\[0\] is '<think>'"),
        ([("<a>", "</a>"), ("<b>",)], InvalidTypeError, r"reasoning_tags\[1\]"),
        ([("<a>", "")], InvalidInputError, "both must be strings"),
        ([("<a>", 3)], InvalidInputError, "both must be strings"),
    ],
)
def test_tags_are_pairs_of_texts(tags, error, message):
    with pytest.raises(error, match=message):
        split_reasoning("Rome", tags)


class TestReplies:
    def test_the_reasoning_of_the_server_comes_first(self):
        reply = RawCompletion("<think>b</think>Rome", reasoning="a")
        parts = reply.parts()
        assert (parts.answer, parts.reasoning) == ("Rome", "a\n\nb")

    def test_thinking_until_the_tokens_are_gone_leaves_no_answer(self):
        assert RawCompletion("", reasoning="a", finish_reason="length").parts().cut_off
        assert not RawCompletion("Rome", reasoning="a", finish_reason="length").parts().cut_off
        assert not RawCompletion("", finish_reason="length").parts().cut_off

    def test_tokens_are_the_servers_or_a_share(self):
        text = "<think>aaaaaa</think>bb"  # six of eight characters
        assert RawCompletion(text, completion_tokens=20).parts().tokens == 15
        assert RawCompletion(text, completion_tokens=20, reasoning_tokens=12).parts().tokens == 12
        assert RawCompletion(text).parts().tokens is None
        assert RawCompletion("Rome", completion_tokens=20).parts().tokens == 0
        # reasoning that is counted and not shown
        assert RawCompletion("Rome", completion_tokens=20, reasoning_tokens=15).parts().tokens == 15

    def test_it_comes_back_from_json(self):
        reply = RawCompletion("Rome", reasoning="Italy, so", reasoning_tokens=3)
        assert RawCompletion.from_dict(reply.to_dict()) == reply
        with pytest.raises(InvalidInputError, match="reasoning_tokens"):
            RawCompletion("Rome", reasoning_tokens=-1)


@given(st.text(alphabet="<think>/`\n\"' ab|chanel[]TK", max_size=60))
def test_any_text_is_taken_apart(text):
    """What is left is found in the text, and nothing is invented."""
    parts = split_reasoning(text)
    assert len(parts.answer) + len(parts.reasoning) <= len(text) + 2 * text.count("<")
    assert not (parts.cut_off and parts.answer)
    for line in parts.reasoning.splitlines():
        assert line.strip() in text
    if not any(
        tag in text.casefold() for pair in REASONING_TAGS for tag in map(str.casefold, pair)
    ):
        assert parts.answer == text
