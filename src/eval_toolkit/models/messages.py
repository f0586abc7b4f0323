"""Messages in conversations."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from eval_toolkit.errors import InvalidInputError, InvalidTypeError

__all__ = ["Message", "Role", "read_messages"]


class Role(StrEnum):
    """Role of a message's author; equal to its lower-case name."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Message:
    """Message of a conversation.

    Parameters
    ----------
    role : Role or str
        "system", "user" or "assistant".
    content : str
        Text of the message; it is not stripped.

    Examples
    --------
    >>> Message(Role.USER, "What is the capital of Italy?").role == "user"
    True
    >>> Message(role="assistant", content="Answer:").to_dict()
    {'role': 'assistant', 'content': 'Answer:'}
    """

    role: Role
    content: str

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "role", Role(self.role))
        except ValueError:
            raise InvalidInputError(
                f"`role` is {self.role!r}; it must be 'system', 'user' or 'assistant'"
            ) from None
        if not isinstance(self.content, str):
            raise InvalidTypeError(
                f"`content` of a {self.role} message must be a string, got {type(self.content).__name__}"
            )

    def to_dict(self) -> dict[str, str]:
        """Return the message in the JSON format of chat APIs."""
        return {"role": self.role.value, "content": self.content}

    def model_dump(self) -> dict[str, str]:
        """Return the result of `to_dict`; provided for compatibility with pydantic."""
        return self.to_dict()

    @classmethod
    def from_dict(cls, payload: Mapping[str, Any]) -> "Message":
        """Create a message from ``{"role": …, "content": …}``; other keys raise an error."""
        if not isinstance(payload, Mapping) or "role" not in payload or "content" not in payload:
            raise InvalidInputError(f"{payload!r} is not a message; it needs 'role' and 'content'")
        unknown = sorted(set(payload) - {"role", "content"})
        if unknown:
            raise InvalidInputError(f"a message has no field {unknown[0]!r}")
        return cls(payload["role"], payload["content"])


def read_messages(
    given: "Sequence[Message | Mapping[str, Any]] | Iterable[Message | Mapping[str, Any]]",
) -> tuple[Message, ...]:
    """Convert message objects or mappings to messages.

    Parameters
    ----------
    given : iterable of Message or mapping
        Conversation.

    Returns
    -------
    tuple of Message
        Messages in order.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an item is not a message.

    Examples
    --------
    >>> read_messages([{"role": "user", "content": "Hello"}])[0].content
    'Hello'
    """
    return tuple(
        message if isinstance(message, Message) else Message.from_dict(message) for message in given
    )
