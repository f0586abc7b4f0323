"""Rendering of the ChatML template as text and as token ids.

Control tokens are inserted as ids, and message content is always treated as plain text, so a
message that contains ``<|im_end|>`` does not end a turn.
"""

from collections.abc import Sequence

from eval_toolkit.errors import ModelError
from eval_toolkit.models.embedded.tokenizer import Tokenizer
from eval_toolkit.models.messages import Message, Role

_OPEN, _CLOSE = "<|im_start|>", "<|im_end|>"

DEFAULT_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
"""System message that the published template adds to conversations without one."""


class ChatFormat:
    """Chat format of a model, as defined by the chat template in its weights file."""

    def __init__(self, template: str) -> None:
        self._template = template
        self._system = DEFAULT_SYSTEM if DEFAULT_SYSTEM in template else ""

    @property
    def is_known(self) -> bool:
        """Whether the template is supported."""
        return _OPEN in self._template

    def render(self, messages: Sequence[Message]) -> str:
        """Render a conversation as a string with control tokens."""
        return "".join(text for text, _ in self._parts(messages))

    def encode(self, messages: Sequence[Message], tokenizer: Tokenizer) -> tuple[list[int], str]:
        """Return the token ids of a conversation, and the text after its last control token."""
        ids: list[int] = []
        tail = ""
        for text, is_control in self._parts(messages):
            if is_control:
                ids += [*tokenizer.encode(tail), tokenizer.control[text]]
                tail = ""
            else:
                tail += text
        return ids + tokenizer.encode(tail), tail

    def _parts(self, messages: Sequence[Message]) -> list[tuple[str, bool]]:
        """Return the pieces of a conversation, and whether each is a control token."""
        if not self.is_known:
            raise ModelError(
                "the model has no supported chat template; pass the prompt as a string",
                kind="unsupported",
            )
        turns = [(message.role.value, message.content) for message in messages]
        if self._system and messages[0].role != Role.SYSTEM:
            turns.insert(0, (Role.SYSTEM.value, self._system))
        is_cue = messages[-1].role == Role.ASSISTANT
        if not is_cue:
            turns.append((Role.ASSISTANT.value, ""))
        parts: list[tuple[str, bool]] = []
        for role, content in turns:
            parts += [(_OPEN, True), (f"{role}\n{content}", False), (_CLOSE, True), ("\n", False)]
        return parts[:-2]  # the last turn is left open for the model
