"""Conversations, represented as strings with structured messages."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from eval_toolkit.errors import InvalidTypeError
from eval_toolkit.models.messages import Message, Role


@dataclass(frozen=True, slots=True)
class Turn:
    """One exchange: a probe and its response.

    Examples
    --------
    >>> Turn("Hello", "Hi.").response
    'Hi.'
    """

    probe: str
    response: str
    score: float | None = None
    """Score of the response by the first scorer, if any; iterative attacks may use it."""


class Conversation(str):
    r"""State of a conversation, represented as a string with structured messages.

    The string is the seed prompt followed by one paragraph per message, so a conversation can be
    passed wherever a string is accepted. Chat models receive `messages` instead.

    Parameters
    ----------
    goal : str
        The seed prompt.
    turns : iterable of Turn
        Completed exchanges, in order.
    probe : str, optional
        Last probe, if it has not been answered yet.
    opening : bool, default False
        Whether the seed prompt is the first message and visible to the target. Otherwise, it is the
        tester's goal, and the target sees only the probes.

    Examples
    --------
    >>> state = Conversation("Tell a joke").with_probe("A joke, please.")
    >>> [message.to_dict() for message in state.messages]
    [{'role': 'user', 'content': 'A joke, please.'}]
    >>> state = state.with_response("No.")
    >>> print(state)
    Tell a joke
    <BLANKLINE>
    user: A joke, please.
    <BLANKLINE>
    assistant: No.
    >>> state.n_turns, state.goal
    (1, 'Tell a joke')
    """

    __slots__ = ("goal", "opening", "probe", "turns")

    goal: str
    turns: tuple[Turn, ...]
    probe: str | None
    opening: bool

    def __new__(
        cls,
        goal: str,
        turns: Iterable[Turn] = (),
        probe: str | None = None,
        *,
        opening: bool = False,
    ) -> "Conversation":
        """Return the conversation as a string."""
        if not isinstance(goal, str):
            raise InvalidTypeError(f"`goal` must be a string, got {goal!r:.80}")
        exchanges = tuple(turns)
        parts = [str.__str__(goal)]
        for turn in exchanges:
            parts += [f"user: {turn.probe}", f"assistant: {turn.response}"]
        if probe is not None:
            parts.append(f"user: {probe}")
        made = super().__new__(cls, "\n\n".join(parts))
        made.goal = str.__str__(goal)
        made.turns = exchanges
        made.probe = probe
        made.opening = opening
        return made

    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (self.goal, self.turns, self.probe), {"opening": self.opening}

    def __str__(self) -> str:
        """Return the plain string."""
        return str.__str__(self)

    @property
    def n_turns(self) -> int:
        """Number of completed exchanges."""
        return len(self.turns)

    @property
    def probes(self) -> tuple[str, ...]:
        """Probes of the tester, in order."""
        said = tuple(turn.probe for turn in self.turns)
        return said if self.probe is None else (*said, self.probe)

    @property
    def responses(self) -> tuple[str, ...]:
        """Responses of the target, in order."""
        return tuple(turn.response for turn in self.turns)

    @property
    def messages(self) -> tuple[Message, ...]:
        """Messages as seen by the target: probes as user messages, responses as its own."""
        said = [
            message
            for turn in self.turns
            for message in (
                Message(Role.USER, turn.probe),
                Message(Role.ASSISTANT, turn.response),
            )
        ]
        if self.probe is not None:
            said.append(Message(Role.USER, self.probe))
        if self.opening:
            first = said[0].content if said else ""
            said[:1] = [Message(Role.USER, f"{self.goal}\n\n{first}" if first else self.goal)]
        return tuple(said)

    @property
    def exchanged(self) -> tuple[Message, ...]:
        """Messages as seen by a tester model, with its own probes as assistant messages."""
        other = {Role.USER: Role.ASSISTANT, Role.ASSISTANT: Role.USER}
        plain = Conversation(self.goal, self.turns, self.probe)
        return tuple(Message(other[m.role], m.content) for m in plain.messages)

    def with_probe(self, probe: str) -> "Conversation":
        """Return the conversation with a probe appended."""
        return Conversation(self.goal, self.turns, probe, opening=self.opening)

    def with_response(self, response: str) -> "Conversation":
        """Return the conversation with the target's response to the last probe appended."""
        turn = Turn(self.probe or "", response)
        return Conversation(self.goal, (*self.turns, turn), opening=self.opening)

    def with_score(self, score: float | None) -> "Conversation":
        """Return the conversation with the score of its last response added."""
        if not self.turns:
            return self
        turns = (*self.turns[:-1], replace(self.turns[-1], score=score))
        return Conversation(self.goal, turns, self.probe, opening=self.opening)
