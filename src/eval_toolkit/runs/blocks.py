"""Display blocks of a unit, as plain data.

A kind returns blocks, and the report and the viewer render them: neither knows the kind. Texts are
as they are stored; whoever renders a block escapes them.
"""

from collections.abc import Iterator, Mapping, Sequence
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
    "flattened",
]

Role: TypeAlias = Literal["", "input", "prompt", "answer", "reference"]
"""What a block is to the unit: pages of two runs show once what both have been given."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text: the question, the answer or the reference.

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
    """A remark, or the reason why something is missing."""

    text: str
    status: Literal["", "skipped", "error"] = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Values on one line, such as the tokens of an answer."""

    facts: tuple[tuple[str, str], ...]
    """Name and value; either may be empty."""


@dataclass(frozen=True, slots=True)
class Mark:
    """An annotation of a message: a score with its value, or a label."""

    name: str
    value: str = ""
    tone: Literal["", "good", "bad"] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a conversation."""

    role: str
    """Who said it, such as "user" or "target"."""
    text: str
    title: str = ""
    """By default the role."""
    marks: tuple[Mark, ...] = ()
    notes: tuple[Note, ...] = ()
    failed: bool = False
    replies: bool = False
    """Whether the system under evaluation said it."""
    silent: bool = False
    """Whether nothing was said: the notes alone are shown."""
    level: int = 0
    """How many times the conversation has branched above it."""
    branch: str = ""
    """Which of several branches begins here."""


@dataclass(frozen=True, slots=True)
class Messages:
    """A conversation, or a prompt in messages."""

    messages: tuple[Message, ...]
    role: Role = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A text with its log-likelihood."""

    text: str
    loglikelihood: float | None
    """None where it is not finite."""
    share: float
    """Of the likelihood of all choices, from 0 to 1."""
    chosen: bool = False
    right: bool = False
    """Whether it is known to be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Texts among which a model chose."""

    choices: tuple[Choice, ...]
    n_hidden: int = 0
    """Less likely ones that are left out."""
    referenced: bool = False
    """Whether the run stores which are right."""


@dataclass(frozen=True, slots=True)
class Group:
    """Blocks under a title."""

    title: str
    blocks: tuple["Block", ...]
    folded: bool = False
    """Whether it is opened by the reader."""


Block: TypeAlias = Text | Note | Facts | Messages | Choices | Table | Group


def flattened(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield blocks in reading order, including those in groups."""
    for block in blocks:
        if isinstance(block, Group):
            yield from flattened(block.blocks)
        else:
            yield block


def brief(blocks: Sequence[Block]) -> str:
    """Return a short text for a unit: the choice or answer, else the error or the question.

    Parameters
    ----------
    blocks : sequence of Block
        Blocks of the unit.

    Returns
    -------
    str
        One text, to be cut.

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
    asked = [block.text for block in texts if block.role in ("input", "prompt")]
    return next(iter([*answers, *errors, *asked]), "")


def _chosen(block: Choices) -> str:
    chosen = next((one.text for one in block.choices if one.chosen), "")
    right = [one.text for one in block.choices if one.right]
    missed = bool(right) and not any(one.chosen and one.right for one in block.choices)
    told = " or ".join(right)
    return f"{chosen}, right is {told}" if missed and told != chosen else chosen


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcomes:
    """What came of each attempt, where a kind knows better than its main metric."""

    of: Strings
    """For each record a name of ``titles``."""
    titles: Mapping[str, tuple[str, str]]
    """Name → heading, and the order in words; the order of reading."""
    rank: FloatArray
    """For each record: lower comes first."""
    said: Sequence[str] | None = None
    """For each record what came of it, in a few words; by default the name."""
    spread: str = ""
    """A part whose values take turns."""
    lead: str = ""
    notes: Sequence[str] = ()
