"""Separation of a model's reasoning from its answer.

Reasoning may appear between tags (``<think>…</think>``), in a separate channel, or in a separate
field of the server's response. Graders, judges and scorers see only the answer; the entire reply is
stored.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from eval_toolkit.errors import InvalidInputError, InvalidTypeError

Tags: TypeAlias = Sequence[tuple[str, str]]
"""Pairs of opening and closing tags that enclose reasoning."""
REASONING_TAGS: tuple[tuple[str, str], ...] = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
    ("<|channel|>commentary<|message|>", "<|channel|>final<|message|>"),
)
"""Reasoning tags of current models, regardless of case; the last two are gpt-oss channels."""
CUT_OFF = "the reply ends inside its reasoning"
"""Reason for a missing answer."""
_FENCE = "```"
_QUOTES = "`\"'“”‘’"
# After a closing tag without an opening one, punctuation or "tag" indicates prose about tags.
_MENTIONED = re.compile(rf"[{_QUOTES}.,;:)]|\s+(?:tags?|tokens?|markers?|elements?)\b")
_BLANK_LINES = re.compile(r"(?:[ \t]*\r?\n)+")
_START = re.compile(r"<\|start\|>assistant\Z")
_TURN = re.compile(r"<\|end\|>(?:<\|start\|>assistant)?\Z")
_END = re.compile(r"\s*<\|(?:return|end)\|>\s*\Z")
# Channels of gpt-oss after the server has removed the special tokens.
_BARE_CHANNELS = re.compile(r"\s*analysis(.*?)assistantfinal(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ReplyParts:
    """Reply split into reasoning and answer.

    Examples
    --------
    >>> ReplyParts("Rome", "Italy, so").answer
    'Rome'
    """

    answer: str
    """Answer as seen by graders; empty if the reply ends before the answer starts."""
    reasoning: str = ""
    cut_off: bool = False
    """Whether the reply ends inside its reasoning, without an answer."""
    tokens: int | None = 0
    """Number of tokens of the reasoning; None if unknown."""


def split_reasoning(text: str, tags: Tags = REASONING_TAGS, *, opened: bool = False) -> ReplyParts:
    r"""Split a reply into reasoning and answer.

    Tags are recognised at the beginning of a line, outside of quotation marks and fenced code. If
    an opening tag at the start of the reply is never closed, the whole reply is reasoning. A
    closing tag without an opening one ends reasoning that was opened by the prompt.

    Parameters
    ----------
    text : str
        Whole reply.
    tags : sequence of (str, str)
        Opening and closing tags, ignoring case. Without tags, nothing is treated as reasoning.
    opened : bool, default False
        Whether the prompt ends with an opening tag; the reply then starts inside the reasoning.

    Returns
    -------
    ReplyParts
        Reasoning and answer, without leading blank lines. A reply without reasoning is unchanged.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the tags are not pairs of strings.

    Examples
    --------
    >>> split_reasoning("<think>\nItaly, so\n</think>\n\nRome")
    ReplyParts(answer='Rome', reasoning='Italy, so', cut_off=False, tokens=None)
    >>> split_reasoning("<think>\nItaly, so").cut_off
    True
    """
    given = checked_tags(tags)
    bare = _BARE_CHANNELS.fullmatch(text) if given == REASONING_TAGS else None
    if bare is not None:
        return _parts(bare[2], [bare[1]])
    if not _has_tag(text.casefold(), given):
        return ReplyParts("", text.strip(), True, None) if opened else ReplyParts(text)
    reasoning: list[str] = []
    kept: list[str] = []
    at = counted = fences = 0
    for opening in _openings(text, given):
        place = opening.start(1)
        if place < at:
            continue  # inside removed reasoning
        fences += text.count(_FENCE, counted, place)
        counted = place
        if fences % 2:
            continue
        before = _START.sub("", text[at:place])
        close = _closing(opening, given).search(text, opening.end())
        if close is None and not any(part.strip() for part in (*kept, before)):
            return ReplyParts("", _joined([*reasoning, text[opening.end() :]]), True, None)
        if close is None:
            break  # a tag in the middle of an answer
        kept.append(before)
        reasoning.append(_TURN.sub("", text[opening.end() : close.start()]))
        at = counted = close.end()
    rest = "".join((*kept, text[at:]))
    alone = _closed_alone(rest, given)
    if alone is not None:
        return _parts(rest[alone.end() :], [rest[: alone.start()], *reasoning])
    if opened and not at:
        return ReplyParts("", text.strip(), True, None)
    return _parts(rest, reasoning) if at else ReplyParts(text)


def _has_tag(lowered: str, tags: Tags) -> bool:
    """Return whether a lower-case text contains one of the tags."""
    starts, tags_lowered = _lowered(tags)
    return any(map(lowered.__contains__, starts)) and any(map(lowered.__contains__, tags_lowered))


def ends_with_opening(lowered: str, tags: Tags) -> bool:
    """Return whether a lower-case text ends with an opening tag.

    Examples
    --------
    >>> ends_with_opening("so: <think>", REASONING_TAGS), ends_with_opening("so:", ())
    (True, False)
    """
    _, tags_lowered = _lowered(checked_tags(tags))
    return lowered.endswith(tags_lowered[::2])


@lru_cache(maxsize=64)
def _lowered(tags: tuple[tuple[str, str], ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the first characters of the tags, for a quick test, and the tags in lower case."""
    lowered = tuple(tag.casefold() for pair in tags for tag in pair)
    return frozenset(tag[0] for tag in lowered), lowered


def checked_tags(tags: Any) -> tuple[tuple[str, str], ...]:
    """Return pairs of tags; raise an error if they are invalid."""
    if tags == REASONING_TAGS:
        return REASONING_TAGS
    if isinstance(tags, str) or not isinstance(tags, Sequence):
        raise InvalidTypeError(f"`reasoning_tags` is {tags!r:.60}; it must be a list of pairs")
    for at, pair in enumerate(tags):
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise InvalidTypeError(
                f"reasoning_tags[{at}] is {pair!r:.60}; it must be a pair such as "
                "('<think>', '</think>')"
            )
        if not all(isinstance(tag, str) and tag.strip() for tag in pair):
            raise InvalidInputError(f"reasoning_tags[{at}] is {pair!r:.60}; both must be strings")
    return tuple((str(opening), str(closing)) for opening, closing in tags)


def cut_off_notes(n: int, total: int) -> list[str]:
    """Return a note on replies that end inside their reasoning, if any.

    Examples
    --------
    >>> cut_off_notes(0, 10)
    []
    """
    line = f"{n:,} of {total:,} replies end inside their reasoning and count as empty answers"
    return [f"{line}; raise max_tokens"] if n else []


def _parts(answer: str, reasoning: Sequence[str]) -> ReplyParts:
    blank = _BLANK_LINES.match(answer)
    shown = answer[blank.end() :] if blank else answer
    joined = _joined(reasoning)
    return ReplyParts(_END.sub("", shown), joined, tokens=None if joined else 0)


def _joined(reasoning: Sequence[str]) -> str:
    return "\n\n".join(part.strip() for part in reasoning if part.strip())


@lru_cache(maxsize=64)
def _pattern(texts: tuple[str, ...], before: str = "") -> re.Pattern[str]:
    longest = "|".join(map(re.escape, sorted(set(texts), key=len, reverse=True)))
    return re.compile(f"{before}({longest})", re.IGNORECASE | re.MULTILINE)


def _openings(text: str, tags: tuple[tuple[str, str], ...]) -> Iterator[re.Match[str]]:
    """Find the opening tags at the beginning of a line or after a closing tag."""
    ends = "|".join(re.escape(closing) for _, closing in tags)
    begins = rf"(?:^[ \t]*|(?:{ends})\s*)(?:<\|start\|>assistant)?"
    return _pattern(tuple(opening for opening, _ in tags), begins).finditer(text)


def _closing(opening: re.Match[str], tags: tuple[tuple[str, str], ...]) -> re.Pattern[str]:
    """Return a pattern that matches a closing tag."""
    found = opening[1].casefold()
    return _pattern(tuple(closing for one, closing in tags if one.casefold() == found))


def _closed_alone(text: str, tags: tuple[tuple[str, str], ...]) -> re.Match[str] | None:
    """Find the last closing tag of a text without opening tags."""
    if _pattern(tuple(opening for opening, _ in tags)).search(text):
        return None
    found = None
    fences = last = 0
    for match in _pattern(tuple(closing for _, closing in tags)).finditer(text):
        fences += text.count(_FENCE, last, match.start())
        last = match.start()
        quoted = match.start() > 0 and text[match.start() - 1] in _QUOTES
        if not (fences % 2 or quoted or _MENTIONED.match(text, match.end())):
            found = match
    return found
