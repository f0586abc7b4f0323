"""Conversations as prompts."""

from typing import Any

import pytest

from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.tasks import (
    ChatTemplate,
    JinjaTemplate,
    check_turns,
    format_prompt,
    joined_choice,
)

SYSTEM = Message(Role.SYSTEM, "Be brief.")
ASK = Message(Role.USER, "Capital of Italy?")
SHOT = (Message(Role.USER, "Capital of Spain?"), Message(Role.ASSISTANT, "A: Madrid"))
CUE = Message(Role.ASSISTANT, "A:")

# the form of the templates that tokenizers carry
CHATML_JINJA = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content']"
    " + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


class TestJoinedChoice:
    @pytest.mark.parametrize(
        ("end", "choice", "expected"),
        [
            ("Answer:", "Rome", " Rome"),
            ("Answer:", " Rome", " Rome"),
            ("Answer: ", "Rome", "Rome"),
            ("Answer:\n", "Rome", "Rome"),
            ("Answer:", "\nRome", "\nRome"),
            ("", "Rome", "Rome"),
            ("Answer:", "", ""),
        ],
    )
    def test_one_space_unless_either_side_has_one(
        self, end: str, choice: str, expected: str
    ) -> None:
        assert joined_choice(end, choice) == expected


class TestTurns:
    @pytest.mark.parametrize(
        ("messages", "reason"),
        [
            ([], "`messages` is empty; there is nothing to send"),
            ([SYSTEM], "contains only a system message; a user message is needed"),
            ([CUE], r"messages\[0\] has the role 'assistant' instead of 'user'"),
            ([ASK, ASK], r"messages\[1\] has the role 'user' instead of 'assistant'"),
            ([ASK, SYSTEM], r"messages\[1\] has the role 'system' instead of 'assistant'"),
            ([SYSTEM, SYSTEM], r"messages\[1\] has the role 'system' instead of 'user'"),
            ([SYSTEM, ASK, CUE, CUE], r"messages\[3\] has the role 'assistant' instead of 'user'"),
        ],
    )
    def test_out_of_order(self, messages: list[Message], reason: str) -> None:
        with pytest.raises(InvalidInputError, match=reason):
            check_turns(messages)
        for formatter in ("plain", "concat", "chatml", "llama3"):
            with pytest.raises(InvalidInputError, match=reason):
                format_prompt(messages, formatter)


class TestNamed:
    def test_chat_leaves_messages_alone(self) -> None:
        assert format_prompt([SYSTEM, ASK], "chat") == (SYSTEM, ASK)
        assert format_prompt([{"role": "user", "content": "Hi"}]) == (Message("user", "Hi"),)

    def test_plain_with_a_cue(self) -> None:
        assert format_prompt([SYSTEM, *SHOT, ASK, CUE], "plain") == (
            "Be brief.\n\nCapital of Spain?\nA: Madrid\n\nCapital of Italy?\nA:"
        )

    def test_plain_puts_no_second_line_break(self) -> None:
        assert format_prompt([Message("user", "Q?\n"), CUE], "plain") == "Q?\nA:"

    def test_plain_without_a_cue_reads_the_same_in_examples_and_at_the_end(self) -> None:
        shot = (Message("user", "The sky is"), Message("assistant", "blue."))
        text = format_prompt([*shot, Message("user", "Grass is")], "plain")
        assert text == "The sky is blue.\n\nGrass is"
        # what is scored next continues as the example did
        assert text + joined_choice(text, "green.") == "The sky is blue.\n\nGrass is green."

    def test_plain_knows_the_last_message_by_its_place(self) -> None:
        # the same object as example and as cue: only the last one stays open
        assert format_prompt([ASK, CUE, ASK, CUE], "plain") == (
            "Capital of Italy?\nA:\n\nCapital of Italy?\nA:"
        )
        assert format_prompt([ASK, CUE, ASK, CUE], "chatml").count("<|im_end|>") == 3

    def test_concat_strips_the_end_alone(self) -> None:
        text = format_prompt([*SHOT, ASK, Message("assistant", "A: ")], "concat")
        assert text == "Capital of Spain?A: Madrid\n\nCapital of Italy?A:"

    def test_chatml(self) -> None:
        assert format_prompt([SYSTEM, ASK, CUE], "chatml") == (
            "<|im_start|>system\nBe brief.<|im_end|>\n"
            "<|im_start|>user\nCapital of Italy?<|im_end|>\n<|im_start|>assistant\nA:"
        )

    def test_llama3(self) -> None:
        assert format_prompt([SYSTEM, Message("user", " Hi \n")], "llama3") == (
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n"
        )

    def test_a_template_may_bring_a_system_prompt(self) -> None:
        template = ChatTemplate(begin_system_prompt="<s>", system_prompt="Default", end_user_id="|")
        assert format_prompt([ASK], template) == "<s>DefaultCapital of Italy?|"
        assert format_prompt([SYSTEM, ASK], template) == "<s>Be brief.Capital of Italy?|"

    def test_a_callable(self) -> None:
        assert format_prompt([ASK], lambda messages: messages[0].content) == ASK.content

    @pytest.mark.parametrize(
        ("formatter", "error", "reason"),
        [
            ("chatm", InvalidInputError, "`formatter` is 'chatm'; choose one of 'chat', 'plain'"),
            (3, InvalidTypeError, "`formatter` is 3; it must be a name"),
            (len, InvalidTypeError, "`formatter` returned 1; it must return a string"),
        ],
    )
    def test_no_formatter(self, formatter: Any, error: type[Exception], reason: str) -> None:
        with pytest.raises(error, match=reason):
            format_prompt([ASK], formatter)


class TestJinja:
    def test_equals_the_built_in_template(self) -> None:
        for conversation in ([ASK], [SYSTEM, *SHOT, ASK], [SYSTEM, *SHOT, ASK, CUE]):
            assert format_prompt(conversation, CHATML_JINJA) == format_prompt(
                conversation, "chatml"
            )

    def test_a_cue_stays_open_even_where_its_text_occurs_again(self) -> None:
        closing = "{% for m in messages %}{{ m.content }} A: {% endfor %}"
        assert format_prompt([ASK, CUE], closing) == "Capital of Italy? A: A:"

    def test_special_tokens_and_variables(self) -> None:
        template = JinjaTemplate(
            "{{ bos_token }}{{ messages[0].content }}{{ day }}{{ eos_token }}",
            "<s>",
            "</s>",
            {"day": "!"},  # type: ignore[arg-type]
        )
        assert template.render([ASK]) == "<s>Capital of Italy?!</s>"

    @pytest.mark.parametrize(
        ("template", "reason"),
        [
            ("{% for m in messages %}", "the chat template is not valid Jinja: line 1"),
            ("{{ raise_exception('no system') }}", "rejects the messages: no system"),
            ("{{ messages[0].content + 1 }}", "the chat template fails: TypeError"),
            ("{{ ''.__class__.__mro__ }}", "rejects the messages: access to attribute"),
            ("{% set _ = messages.append(1) %}", "rejects the messages: access to attribute"),
        ],
    )
    def test_broken(self, template: str, reason: str) -> None:
        with pytest.raises(InvalidInputError, match=reason):
            JinjaTemplate(template).render([ASK])

    def test_no_place_for_a_cue(self) -> None:
        with pytest.raises(InvalidInputError, match="drops the final assistant message"):
            format_prompt([ASK, CUE], "{{ messages[0].content }}")
        with pytest.raises(InvalidInputError, match="`messages` is empty"):
            JinjaTemplate("{{ 1 }}").render([])
