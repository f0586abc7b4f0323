"""JSON request bodies and response formats for text generation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eval_toolkit._internal.json_writing import json_writer
from eval_toolkit.errors import ModelError
from eval_toolkit.models._tokens import stop_position
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.models.requests import GenerateRequest

MAX_STOPS_OPENAI = 4
WAYS = ("echo", "prompt_logprobs", "force")
"""Scoring methods for log-likelihoods, in order of preference."""
_to_json = json_writer()
_THOUGHTS = ("reasoning_content", "reasoning", "thinking")
"""Names of the fields in which servers return reasoning."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """Field names and cue format of a server."""

    model: str
    max_tokens_field: str = "max_tokens"
    prefill: str = "message"
    default_max_tokens: int = 1024
    """Default token limit for string prompts; without one, most servers stop after 16 tokens."""
    max_stops: int | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    top_logprobs: int | None = None
    """Number of most likely tokens to request for each token of a chat answer."""
    stream: bool = False

    def chat_body(self, request: GenerateRequest, messages: Sequence[Message]) -> bytes:
        """Return the encoded body for the chat endpoint."""
        return self.encode(self.chat(request, messages))

    def chat(self, request: GenerateRequest, messages: Sequence[Message]) -> dict[str, Any]:
        """Return the body for the chat endpoint, without the user's fields."""
        body: dict[str, Any] = {"model": self.model, "messages": _chat(messages, self.prefill)}
        if self.prefill == "vllm" and messages[-1].role is Role.ASSISTANT:
            body["continue_final_message"] = True
            body["add_generation_prompt"] = False
        if self.top_logprobs is not None:
            body |= {"logprobs": True, "top_logprobs": self.top_logprobs}
        if request.max_tokens is not None:
            body[self.max_tokens_field] = request.max_tokens
        return self._finish(body, request)

    def text_body(self, request: GenerateRequest, prompt: str) -> bytes:
        """Return the body for the completions endpoint."""
        tokens = request.max_tokens or self.default_max_tokens
        body = {"model": self.model, "prompt": prompt, "max_tokens": tokens}
        return self.encode(self._finish(body, request))

    def _finish(self, body: dict[str, Any], request: GenerateRequest) -> dict[str, Any]:
        if request.temperature is not None:
            body["temperature"] = request.temperature
        if request.top_p is not None:
            body["top_p"] = request.top_p
        if request.stop:
            body["stop"] = request.stop[: self.max_stops]
        if request.seed is not None:
            body["seed"] = request.seed
        if self.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body

    def read_chat(self, payload: Mapping[str, Any]) -> "Generated":
        """Parse a chat response; drop log-probabilities that were not requested."""
        found = read_chat(payload)
        if self.top_logprobs is None:
            found.tops = None
        return found

    def encode(self, body: dict[str, Any]) -> bytes:
        """Add the user's fields to a request body and encode it; None removes a field."""
        if self.extra_body:
            merged = {**body, **self.extra_body}
            body = {name: value for name, value in merged.items() if value is not None}
        return _to_json(body).encode()


def _chat(messages: Sequence[Message], prefill: str) -> list[dict[str, str]]:
    if prefill == "user":
        messages = cue_in_user(messages)
    return [{"role": message.role.value, "content": message.content} for message in messages]


def cue_in_user(messages: Sequence[Message]) -> Sequence[Message]:
    """Move the cue of a conversation, if any, to the end of the user message."""
    *before, cue = messages
    if cue.role is not Role.ASSISTANT:
        return messages
    if not before or before[-1].role is not Role.USER:
        return [*before, Message(Role.USER, cue.content)]
    return [*before[:-1], Message(Role.USER, f"{before[-1].content}\n{cue.content}")]


class Generated:
    """Generated text with its finish reason and reasoning."""

    __slots__ = ("finish_reason", "reasoning", "reasoning_tokens", "text", "tops")

    def __init__(
        self,
        text: str,
        finish_reason: str | None,
        reasoning: str = "",
        reasoning_tokens: int | None = None,
        tops: list[Any] | None = None,
    ) -> None:
        self.text = text
        self.finish_reason = finish_reason
        self.reasoning = reasoning
        self.reasoning_tokens = reasoning_tokens
        self.tops = tops

    def _with_text(self, text: str, finish_reason: str | None) -> "Generated":
        return Generated(text, finish_reason, self.reasoning, self.reasoning_tokens, self.tops)

    def without_cue(self, cue: str) -> "Generated":
        """Remove the cue from a text if the model repeated it."""
        if cue and self.text.startswith(cue):
            return self._with_text(self.text[len(cue) :], self.finish_reason)
        return self

    def cut_at(self, stops: Sequence[str]) -> "Generated":
        """Truncate a text at the first stop string, since some servers accept only a few."""
        place = stop_position(self.text, stops)
        return self if place is None else self._with_text(self.text[:place], "stop")


def garbled(what: str) -> ModelError:
    """Return the error for a malformed response."""
    return ModelError(f"the answer has {what}", kind="garbled", status=200)


def first_choice(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first choice of a response."""
    choices = payload.get("choices")
    if type(choices) is not list or not choices or type(choices[0]) is not dict:
        raise garbled("no choices")
    return choices[0]


def read_chat(payload: Mapping[str, Any]) -> Generated:
    """Extract the text of a chat response and any reasoning that is returned separately.

    The text may be empty, for example if reasoning used up all tokens; null is accepted if there is
    reasoning or the token limit was reached. Raises `ModelError` of kind "refused" if the server or
    the model declined to answer, and "garbled" if there is no text.
    """
    choice = first_choice(payload)
    message = choice.get("message")
    if type(message) is not dict:
        raise garbled("no message in its first choice")
    content, reason = message.get("content"), choice.get("finish_reason")
    thoughts = (_thoughts(message), _reasoning_tokens(payload), _tops(choice.get("logprobs")))
    if type(content) is str and (content or reason != "content_filter"):
        return Generated(content, reason, *thoughts)
    if isinstance(content, list):
        return Generated("".join(map(_part, content)), reason, *thoughts)
    if content:
        raise garbled(f"content of type {type(content).__name__}")
    if refusal := message.get("refusal"):
        raise ModelError(f"the model declined: {str(refusal)[:200]}", kind="refused", status=200)
    if reason == "content_filter":
        raise ModelError(
            "the server's content filter blocked the answer", kind="refused", status=200
        )
    if message.get("tool_calls"):
        raise ModelError("the model called a tool and wrote no text", kind="refused", status=200)
    if reason != "length" and content is None and not any(map(message.get, _THOUGHTS)):
        raise garbled("no content")
    return Generated("", reason, *thoughts)


def _tops(logprobs: Any) -> list[Any] | None:
    """Return each token with its log-probability and its most likely alternatives."""
    cells = logprobs.get("content") if type(logprobs) is dict else None
    if not cells:
        return None
    return [
        (
            cell["token"],
            cell["logprob"],
            [(top["token"], top["logprob"]) for top in cell.get("top_logprobs") or ()],
        )
        for cell in cells
    ]


def _thoughts(message: Mapping[str, Any]) -> str:
    """Extract the reasoning from a message."""
    for name in _THOUGHTS:
        if type(message.get(name)) is str and message[name]:
            return str(message[name])
    content = message.get("content")
    parts = content if isinstance(content, list) else ()
    found = [_thought(part) for part in parts if isinstance(part, dict)]
    return "\n\n".join(text for text in found if text)


def _thought(part: Mapping[str, Any]) -> str:
    for name in _THOUGHTS:
        inner = part.get(name)
        if isinstance(inner, list):  # Mistral nests parts in parts
            return "".join(map(_part, inner))
        if isinstance(inner, str):
            return inner
    return ""


def _reasoning_tokens(payload: Mapping[str, Any]) -> int | None:
    usage = payload.get("usage")
    details = usage.get("completion_tokens_details") if type(usage) is dict else None
    n = details.get("reasoning_tokens") if type(details) is dict else None
    return n if type(n) is int and n >= 0 else None


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    text = part.get("text") if isinstance(part, dict) else None
    return text if isinstance(text, str) else ""


def read_text(payload: Mapping[str, Any]) -> Generated:
    """Extract the text of a response from the completions endpoint."""
    choice = first_choice(payload)
    text, reason = choice.get("text"), choice.get("finish_reason")
    if type(text) is not str:
        raise garbled("no text in its first choice")
    if not text and reason == "content_filter":
        raise ModelError(
            "the server's content filter blocked the answer", kind="refused", status=200
        )
    return Generated(text, reason)
