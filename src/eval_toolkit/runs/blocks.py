"""Display blocks of a unit, as plain data.

A kind of evaluation returns blocks, which the report and the viewer render without knowledge of the
kind. Strings are not escaped; renderers must escape them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from eval_toolkit._internal.display import Table
from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.scorecards.records import Strings

__all__ = [
    "Block",
    "Choice",
    "Choices",
    "Facts",
    "Group",
    "Mark",
    "Message",
    "Messages",
    "Note",
    "Outcomes",
    "Table",
    "Text",
    "brief",
    "excerpts",
    "flattened",
    "main_reply",
]

Role: TypeAlias = Literal["", "input", "prompt", "answer", "reference"]
"""Role of a block in its unit; comparison pages show inputs shared by both runs only once."""


@dataclass(frozen=True, slots=True)
class Text:
    """Question, answer or reference as text.

    Examples
    --------
    >>> Text("Rome", title="Answer", role="answer").text
    'Rome'
    """

    text: str
    title: str = ""
    role: Role = ""


@dataclass(frozen=True, slots=True)
class Note:
    """Remark, or the reason why something is missing."""

    text: str
    status: Literal["", "skipped", "error"] = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Values on one line, such as the token counts of an answer."""

    facts: tuple[tuple[str, str], ...]
    """Pairs of name and value; either may be empty."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Annotation of a message: a score with its value, or a label."""

    name: str
    value: str = ""
    tone: Literal["", "good", "bad"] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Message of a conversation."""

    role: str
    """Speaker, such as "user" or "target"."""
    text: str
    title: str = ""
    """Title; by default, the role."""
    marks: tuple[Mark, ...] = ()
    notes: tuple[Note, ...] = ()
    failed: bool = False
    replies: bool = False
    """Whether the message is from the system under evaluation."""
    silent: bool = False
    """Whether the message is empty, so that only its notes are shown."""
    level: int = 0
    """Number of branching points above the message."""
    branch: str = ""
    """Label of the branch that starts at this message."""


@dataclass(frozen=True, slots=True)
class Messages:
    """Conversation, or prompt that consists of messages."""

    messages: tuple[Message, ...]
    role: Role = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Choice with its log-likelihood."""

    text: str
    loglikelihood: float | None
    """Log-likelihood; None if it is not finite."""
    share: float
    """Share of the total likelihood of all choices, from 0 to 1."""
    chosen: bool = False
    right: bool = False
    """Whether the choice is known to be correct."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Choices of a multiple-choice question."""

    choices: tuple[Choice, ...]
    n_hidden: int = 0
    """Number of less likely choices that were omitted."""
    referenced: bool = False
    """Whether the run stores which choices are correct."""


@dataclass(frozen=True, slots=True)
class Group:
    """Group of blocks under a title."""

    title: str
    blocks: tuple["Block", ...]
    folded: bool = False
    """Whether the group is initially collapsed."""


Block: TypeAlias = Text | Note | Facts | Messages | Choices | Table | Group


def flattened(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield blocks in reading order, including the contents of groups."""
    for block in blocks:
        if isinstance(block, Group):
            yield from flattened(block.blocks)
        else:
            yield block


def brief(blocks: Sequence[Block]) -> str:
    """Return the main content of a unit: the choice or answer, else the error or the question.

    The content is not truncated.

    Examples
    --------
    >>> brief([Text("Capital of Italy?", role="input"), Text("Rome", role="answer")])
    'Rome'
    """
    found = list(flattened(blocks))
    for block in found:
        if isinstance(block, Choices) and len(block.choices) > 1:
            return _chosen(block)
    texts = [block for block in found if isinstance(block, Text)]
    errors = [block.text for block in found if isinstance(block, Note) and block.status == "error"]
    answers = [block.text for block in texts if block.role == "answer"]
    questions = [block.text for block in texts if block.role in ("input", "prompt")]
    return next(iter([*answers, *errors, *questions]), "")


def excerpts(blocks: Sequence[Block]) -> dict[str, str]:
    """Return the input, answer and reference of a unit, as far as they are available.

    Strings are keyed by role and are not truncated. The answer of a conversation is its first
    failed reply, else its last reply; the answer of a failed request is the error.

    Examples
    --------
    >>> excerpts([Text("Capital of Italy?", role="prompt"), Text("Rome", role="answer")])
    {'input': 'Capital of Italy?', 'answer': 'Rome'}
    """
    found = list(flattened(blocks))
    choices = [block for block in found if isinstance(block, Choices)]
    talks = [block for block in found if isinstance(block, Messages)]
    texts = [block for block in found if isinstance(block, Text)]
    reply = main_reply(one for talk in talks if not talk.role for one in talk.messages)
    questions = [
        talk.messages[-1].text for talk in talks if talk.role == "prompt" and talk.messages
    ]
    by_role = {
        "input": [one.text for role in ("input", "prompt") for one in texts if one.role == role]
        + questions,
        "answer": [one.text for block in choices for one in block.choices if one.chosen]
        + [one.text for one in texts if one.role == "answer"]
        + ([] if reply is None else [reply.text])
        + [one.text for one in found if isinstance(one, Note) and one.status == "error"],
        "reference": [one.text for one in texts if one.role == "reference"]
        + [one.text for block in choices for one in block.choices if one.right],
    }
    return {role: some[0] for role, some in by_role.items() if some}


def main_reply(messages: Iterable[Message]) -> Message | None:
    """Return the first failed reply of a conversation, else the last reply, if any.

    Examples
    --------
    >>> texts = {"No.": False, "Sure.": True, "Well.": False}
    >>> said = [Message(role="target", text=text, replies=True, failed=failed)
    ...     for text, failed in texts.items()]
    >>> main_reply(said).text
    'Sure.'
    """
    replies = [one for one in messages if one.replies]
    return next((one for one in replies if one.failed), replies[-1] if replies else None)


def _chosen(block: Choices) -> str:
    chosen = next((one.text for one in block.choices if one.chosen), "")
    right = [one.text for one in block.choices if one.right]
    missed = bool(right) and not any(one.chosen and one.right for one in block.choices)
    correct = " or ".join(right)
    return f"{chosen}, correct: {correct}" if missed and correct != chosen else chosen


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcomes:
    """Outcomes of attempts, for kinds whose main metric does not determine them."""

    of: Strings
    """Name of the outcome of each record; a key of ``titles``."""
    titles: Mapping[str, tuple[str, str]]
    """Heading and description of the sort order for each outcome, in display order."""
    rank: FloatArray
    """Rank of each record; lower ranks come first."""
    said: Sequence[str] | None = None
    """Short description of each record's outcome; by default, the name."""
    spread: str = ""
    """Name of a part; the examples alternate between its values."""
    lead: str = ""
    notes: Sequence[str] = ()
