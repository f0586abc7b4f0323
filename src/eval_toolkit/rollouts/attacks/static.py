"""Attacks with fixed probes: the seed prompt, or a list."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from eval_toolkit._internal import validation
from eval_toolkit.rollouts.attacks.base import (
    StopAttack,
    Strategy,
    as_conversation,
    checked_texts,
    filled,
)

__all__ = ["Scripted", "Static"]

GO_ON = "Please go on."
"""Said where the target has the seed prompt already and nothing else is to be said."""
_AFTER = ("repeat", "stop")


@dataclass(frozen=True, slots=True)
class Static(Strategy):
    """Sends the seed prompt itself: the baseline for other attacks.

    Where the seed prompt is the beginning of the conversation, the target sees it anyway; then the
    follow-ups begin at the first turn, and without any the target is asked to go on.

    Parameters
    ----------
    follow_ups : sequence of str
        Said in the turns after the first, the last of them again and again; ``{goal}`` is the seed
        prompt. Without any the seed prompt is repeated.
    name : str, default "static"
        In tables.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a follow-up is no text.

    Examples
    --------
    >>> from eval_toolkit.rollouts.conversations import Conversation
    >>> attack = Static(follow_ups=["Are you sure?"])
    >>> state = Conversation("Tell a joke")
    >>> attack.ask(state, seed=1)
    'Tell a joke'
    >>> attack.ask(state.with_probe("Tell a joke").with_response("No."), seed=1)
    'Are you sure?'
    """

    follow_ups: Sequence[str] = ()
    name: str = ""
    KIND: ClassVar[str] = "static"

    def __post_init__(self) -> None:
        texts = checked_texts(self.follow_ups, "follow_ups", empty=True)
        object.__setattr__(self, "follow_ups", texts)
        self._name_itself(self.KIND)

    def ask(self, conversation: Any, seed: int) -> str:
        """Return the seed prompt, or the follow-up of this turn."""
        state = as_conversation(conversation)
        first = () if state.opening else ("{goal}",)
        script = (*first, *self.follow_ups) or (GO_ON,)
        return filled(script[min(state.n_turns, len(script) - 1)], state.goal)


@dataclass(frozen=True, slots=True)
class Scripted(Strategy):
    """Sends a list of probes, one per turn.

    Parameters
    ----------
    probes : sequence of str
        ``{goal}`` is the seed prompt; other braces are left alone.
    after : {"repeat", "stop"}, default "repeat"
        What follows the last probe: the same again, or the end of the conversation.
    name : str, default "scripted"
        In tables.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If there are no probes, or one is no text.

    Examples
    --------
    >>> from eval_toolkit.rollouts.conversations import Conversation
    >>> Scripted(["Hello.", "{goal}, please."]).ask(Conversation("A joke"), seed=1)
    'Hello.'
    """

    probes: Sequence[str]
    after: str = "repeat"
    name: str = ""
    KIND: ClassVar[str] = "scripted"

    def __post_init__(self) -> None:
        object.__setattr__(self, "probes", checked_texts(self.probes, "probes"))
        validation.choice(self.after, "after", _AFTER)
        self._name_itself(self.KIND)

    def ask(self, conversation: Any, seed: int) -> str:
        """Return the probe of this turn.

        Raises
        ------
        StopAttack
            If all were sent and nothing is to follow.
        """
        state = as_conversation(conversation)
        last = len(self.probes) - 1
        if state.n_turns > last and self.after == "stop":
            raise StopAttack(f"all {len(self.probes)} probes were sent")
        return filled(self.probes[min(state.n_turns, last)], state.goal)
