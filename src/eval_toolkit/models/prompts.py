"""Conversion of conversations to prompts.

The space at a word boundary belongs to the generated or scored text, so no space is appended to a
string prompt. The turn of a cue is left open, so that the answer continues it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from eval_toolkit._internal.hashing import object_digest
from eval_toolkit._internal.validation import choice as one_of
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.models.messages import Message, Role, read_messages

__all__ = [
    "CHATML",
    "LLAMA3",
    "ChatTemplate",
    "Formatter",
    "JinjaTemplate",
    "check_formatter",
    "check_turns",
    "concat",
    "format_prompt",
    "formatter_name",
    "joined_choice",
    "plain",
]


def joined_choice(prompt_end: str, choice: str) -> str:
    r"""Return a choice as a continuation of a prompt, adding a space if there is none between them.

    Parameters
    ----------
    prompt_end : str
        Prompt, or the end of it.
    choice : str
        String to score.

    Returns
    -------
    str
        The choice, preceded by a space unless there is whitespace on either side.

    Examples
    --------
    >>> joined_choice("Answer:", "Rome"), joined_choice("Answer:", " Rome")
    (' Rome', ' Rome')
    >>> joined_choice("Answer:\n", "Rome")
    'Rome'
    """
    apart = not prompt_end or prompt_end[-1].isspace() or not choice or choice[0].isspace()
    return choice if apart else f" {choice}"


def check_turns(messages: Sequence[Message]) -> None:
    """Raise an error unless user and assistant alternate after at most one system message.

    Parameters
    ----------
    messages : sequence of Message
        Conversation to check.

    Raises
    ------
    InvalidInputError
        If the conversation is empty or the roles do not alternate.

    Examples
    --------
    >>> check_turns([Message("user", "Hello"), Message("assistant", "Answer:")])
    """
    if not messages:
        raise InvalidInputError("`messages` is empty; there is nothing to send")
    start = int(messages[0].role is Role.SYSTEM)
    if start == len(messages):
        raise InvalidInputError(
            "`messages` contains only a system message; a user message is needed"
        )
    for at, message in enumerate(messages[start:], start):
        expected = Role.ASSISTANT if (at - start) % 2 else Role.USER
        if message.role is not expected:
            raise InvalidInputError(
                f"messages[{at}] has the role {message.role.value!r} instead of {expected.value!r}; user "
                "and assistant must alternate after at most one system message"
            )


def concat(messages: Sequence[Message]) -> str:
    """Concatenate the messages of a conversation like other evaluation harnesses.

    A blank line is added after the system message and each complete answer, and the last message is
    stripped. Line breaks between question and cue must be part of the messages.

    Examples
    --------
    >>> concat([Message("user", "Capital of Italy?"), Message("assistant", "Answer:")])
    'Capital of Italy?Answer:'
    """
    check_turns(messages)
    parts = [
        message.content if message.role is Role.USER else f"{message.content}\n\n"
        for message in messages[:-1]
    ]
    return "".join([*parts, messages[-1].content.strip()])


def plain(messages: Sequence[Message]) -> str:
    r"""Render a conversation as plain text with consistent separators.

    A blank line follows the system message and each complete answer. A question is separated from
    its answer by a line break if the conversation ends with a cue, otherwise by a space, unless
    there already is whitespace.

    Examples
    --------
    >>> print(plain([
    ...     Message("user", "Capital of Germany?"), Message("assistant", "Answer: Berlin"),
    ...     Message("user", "Capital of Italy?"), Message("assistant", "Answer:"),
    ... ]))
    Capital of Germany?
    Answer: Berlin
    <BLANKLINE>
    Capital of Italy?
    Answer:
    >>> plain([
    ...     Message("user", "The sky is"), Message("assistant", "blue."),
    ...     Message("user", "Grass is"),
    ... ])
    'The sky is blue.\n\nGrass is'
    """
    check_turns(messages)
    has_cue = messages[-1].role is Role.ASSISTANT
    parts: list[str] = []
    before = None
    for at, message in enumerate(messages, 1):
        text = message.content
        if message.role is Role.ASSISTANT and before is not None:
            if not has_cue:
                text = joined_choice(before, text)
            elif not (before[-1:].isspace() or text[:1].isspace()):
                text = f"\n{text}"
        if message.role is not Role.USER and at < len(messages):
            text = f"{text}\n\n"
        parts.append(text)
        before = message.content
    return "".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTemplate:
    """Chat template defined by markers around the turns of a conversation.

    Parameters
    ----------
    begin_of_text : str
        Text before the conversation.
    begin_system_prompt, end_system_prompt : str
        Markers around the system message.
    begin_user_id, end_user_id, begin_assistant_id, end_assistant_id : str
        Markers around user and assistant messages.
    system_prompt : str
        Default system message; "" for none.
    strip_content : bool
        Whether to strip messages, except for the end of a cue.

    Examples
    --------
    >>> template = ChatTemplate(begin_user_id="[", end_user_id="]", end_assistant_id=";")
    >>> template.render([Message("user", "Capital of Italy?"), Message("assistant", "Answer:")])
    '[Capital of Italy?]Answer:'
    """

    begin_of_text: str = ""
    begin_system_prompt: str = ""
    system_prompt: str = ""
    end_system_prompt: str = ""
    begin_user_id: str = ""
    end_user_id: str = ""
    begin_assistant_id: str = ""
    end_assistant_id: str = ""
    strip_content: bool = False

    def render(self, messages: Sequence[Message]) -> str:
        """Render a conversation, with the last answer left open.

        The conversation must end with a user message or a cue.
        """
        check_turns(messages)
        parts = [self.begin_of_text]
        if messages[0].role is not Role.SYSTEM and self.system_prompt:
            parts += [self.begin_system_prompt, self.system_prompt, self.end_system_prompt]
        for at, message in enumerate(messages, 1):
            text = message.content.strip() if self.strip_content else message.content
            if message.role is Role.SYSTEM:
                parts += [self.begin_system_prompt, text, self.end_system_prompt]
            elif message.role is Role.USER:
                parts += [self.begin_user_id, text, self.end_user_id, self.begin_assistant_id]
            elif at == len(messages):
                parts.append(message.content.lstrip() if self.strip_content else text)
            else:
                parts += [text, self.end_assistant_id]
        return "".join(parts)


CHATML = ChatTemplate(
    begin_system_prompt="<|im_start|>system\n",
    end_system_prompt="<|im_end|>\n",
    begin_user_id="<|im_start|>user\n",
    end_user_id="<|im_end|>\n",
    begin_assistant_id="<|im_start|>assistant\n",
    end_assistant_id="<|im_end|>\n",
)
"""Chat template of ChatML."""

LLAMA3 = ChatTemplate(
    begin_of_text="<|begin_of_text|>",
    begin_system_prompt="<|start_header_id|>system<|end_header_id|>\n\n",
    end_system_prompt="<|eot_id|>",
    begin_user_id="<|start_header_id|>user<|end_header_id|>\n\n",
    end_user_id="<|eot_id|>",
    begin_assistant_id="<|start_header_id|>assistant<|end_header_id|>\n\n",
    end_assistant_id="<|eot_id|>",
    strip_content=True,
)
"""Chat template of the Llama 3 models."""

_CUE_END = "\ue000\uf8ff\ue001"
"""Marker appended to a cue while a Jinja template is rendered, where the prompt is then cut."""


@dataclass(frozen=True, slots=True)
class JinjaTemplate:
    """Jinja chat template, as used by tokenizers. It is rendered in a sandbox.

    Parameters
    ----------
    text : str
        Template with the variables ``messages``, ``add_generation_prompt``, ``bos_token``,
        ``eos_token`` and ``raise_exception``.
    bos_token, eos_token : str
        Special tokens of the model.
    variables : mapping, optional
        Additional variables for the template.

    Examples
    --------
    >>> text = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}"
    >>> JinjaTemplate(text).render([Message("user", "Hi"), Message("assistant", "Answer:")])
    '<user>Hi</><assistant>Answer:'
    """

    text: str
    bos_token: str = ""
    eos_token: str = ""
    variables: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        pairs = self.variables.items() if isinstance(self.variables, Mapping) else self.variables
        object.__setattr__(self, "variables", tuple(pairs))

    def render(self, messages: Sequence[Message]) -> str:
        """Render a conversation, with a final cue left open.

        Parameters
        ----------
        messages : sequence of Message
            Conversation; the template may check the order of turns.

        Returns
        -------
        str
            Rendered text up to the end of the cue.

        Raises
        ------
        InvalidInputError
            If the template is invalid, rejects the conversation, or changes or drops the cue.
        """
        if not messages:
            raise InvalidInputError("`messages` is empty; there is nothing to send")
        has_cue = messages[-1].role is Role.ASSISTANT
        turns = [message.to_dict() for message in messages]
        if has_cue:
            turns[-1]["content"] += _CUE_END
        written = self._run(turns, add_generation_prompt=not has_cue)
        if not has_cue:
            return written
        end = written.rfind(_CUE_END)
        if end < 0:
            raise InvalidInputError(
                "the chat template changes or drops the final assistant message; use another "
                "template"
            )
        return written[:end]

    def _run(self, turns: list[dict[str, str]], *, add_generation_prompt: bool) -> str:
        from eval_toolkit._internal.sandbox.templates import TemplateFailed, render

        given = {
            "messages": turns,
            "add_generation_prompt": add_generation_prompt,
            "bos_token": self.bos_token,
            "eos_token": self.eos_token,
            **dict(self.variables),
        }
        try:
            return render(self.text, given, "chat")
        except TemplateFailed as error:
            reasons = {"template": "rejects the messages", "syntax": "is not valid Jinja"}
            raise InvalidInputError(
                f"the chat template {reasons.get(error.kind, 'fails')}: {error}"
            ) from error


Formatter: TypeAlias = str | ChatTemplate | JinjaTemplate | Callable[[Sequence[Message]], str]

_NAMED: dict[str, Callable[[Sequence[Message]], str]] = {
    "plain": plain,
    "concat": concat,
    "chatml": CHATML.render,
    "llama3": LLAMA3.render,
}


def check_formatter(formatter: Any) -> Any:
    """Validate and return a formatter; raise `InvalidInputError` if it is invalid.

    Examples
    --------
    >>> check_formatter("chatml")
    'chatml'
    """
    if isinstance(formatter, str):
        if "{{" not in formatter and "{%" not in formatter:
            one_of(formatter, "formatter", ("chat", *_NAMED))
    elif not isinstance(formatter, (ChatTemplate, JinjaTemplate)) and not callable(formatter):
        raise InvalidTypeError(
            f"`formatter` is {formatter!r}; it must be a name, a template or a callable"
        )
    return formatter


def format_prompt(
    messages: Iterable[Message | Mapping[str, Any]], formatter: Formatter = "chat"
) -> str | tuple[Message, ...]:
    r"""Convert a conversation to the prompt of a request: messages or a string.

    Parameters
    ----------
    messages : iterable of Message
        Conversation. A final assistant message is a cue that the answer continues.
    formatter : str, ChatTemplate, JinjaTemplate or callable
        "chat" passes the messages to the model. "plain" joins them as text with consistent line
        breaks; "concat" adds nothing between question and answer, like other harnesses; "chatml"
        and "llama3" use the markers of these formats. A string that contains ``{{`` or ``{%`` is a
        Jinja template. A callable, such as a model's ``render``, receives the messages.

    Returns
    -------
    str or tuple of Message
        Messages for "chat", else a string.

    Raises
    ------
    InvalidInputError
        If the formatter is unknown, or user and assistant messages do not alternate.

    Examples
    --------
    >>> format_prompt([Message("user", "Capital of Italy?")], "chatml")
    '<|im_start|>user\nCapital of Italy?<|im_end|>\n<|im_start|>assistant\n'
    """
    turns = read_messages(messages)
    if formatter == "chat":
        if not turns:
            raise InvalidInputError("`messages` is empty; there is nothing to send")
        return turns
    check_formatter(formatter)
    if isinstance(formatter, (ChatTemplate, JinjaTemplate)):
        return formatter.render(turns)
    if isinstance(formatter, str):
        if "{{" in formatter or "{%" in formatter:
            return JinjaTemplate(formatter).render(turns)
        return _NAMED[formatter](turns)
    text = formatter(turns)
    if not isinstance(text, str):
        raise InvalidTypeError(f"`formatter` returned {text!r:.60}; it must return a string")
    return text


def formatter_name(formatter: Formatter) -> str:
    """Return the name or the content of a formatter for a manifest.

    Examples
    --------
    >>> formatter_name("plain")
    'plain'
    """
    if isinstance(formatter, str) and "{" not in formatter:
        return formatter
    kind = getattr(formatter, "__qualname__", type(formatter).__name__)
    if isinstance(formatter, str):
        kind = "jinja"
    return f"{kind}:{(object_digest(formatter) or 'unknown')[:16]}"
