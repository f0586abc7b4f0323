"""Helpers for tests of the blocks that a kind displays."""

from collections.abc import Sequence

from eval_toolkit.runs.blocks import Block, Choices, Group, Message, Messages, Note, Text, flattened


def texts(blocks: Sequence[Block], role: str) -> list[str]:
    """Return the texts with a role, including messages with that role."""
    found: list[str] = []
    for block in flattened(blocks):
        if isinstance(block, Text) and block.role == role:
            found.append(block.text)
        if isinstance(block, Messages) and block.role == role:
            found += [message.text for message in block.messages]
    return found


def text(blocks: Sequence[Block], role: str) -> str | None:
    """Return the only text with a role, or None."""
    found = texts(blocks, role)
    assert len(found) <= 1
    return found[0] if found else None


def choices(blocks: Sequence[Block]) -> Choices:
    (found,) = (block for block in flattened(blocks) if isinstance(block, Choices))
    return found


def messages(blocks: Sequence[Block]) -> list[Message]:
    """Return the messages of a conversation, except prompts."""
    return [
        message
        for block in flattened(blocks)
        if isinstance(block, Messages) and block.role == ""
        for message in block.messages
    ]


def replies(blocks: Sequence[Block]) -> list[Message]:
    return [message for message in messages(blocks) if message.replies]


def notes(blocks: Sequence[Block], status: str = "") -> list[str]:
    return [
        block.text
        for block in flattened(blocks)
        if isinstance(block, Note) and block.status == status
    ]


def verdicts(blocks: Sequence[Block]) -> list[tuple[str, str]]:
    """Return the judge and the answer of each verdict."""
    found = []
    for group in blocks:
        if isinstance(group, Group) and group.title == "Verdicts of judges":
            for one in group.blocks:
                assert isinstance(one, Group)
                (answer,) = (
                    block.text
                    for block in one.blocks
                    if isinstance(block, Text) and block.role == ""
                )
                found.append((one.title.partition(" (")[0], answer))
    return found
