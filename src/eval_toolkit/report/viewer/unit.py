"""Display blocks of one unit, or of two units side by side, within the limits of the viewer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from eval_toolkit.report.viewer.records import Record
from eval_toolkit.report.viewer.store import Store
from eval_toolkit.runs import Run
from eval_toolkit.runs.blocks import Block, Group, Messages, Note, Text
from eval_toolkit.runs.kind_display import show_unit
from eval_toolkit.runs.selected_units import Place, selected_units

_ABSENT = {"reference": "Stored without a reference.", "input": "Stored without inputs."}


def blocks_of(store: Store, run: Run, record: Record) -> list[Block]:
    """Return the display blocks of a record.

    Each group of blocks has a heading.
    """
    values = {
        one.name: one.value
        for one in record.measured
        if one.status == "ok" and one.value is not None
    }
    place = Place(
        slice=record.slice,
        scorer=record.scorer,
        unit_id=record.unit_id,
        attempt=record.attempt,
        values=values,
    )
    (unit,) = selected_units(run, [place], tables=store)
    return show_unit(unit)


@dataclass(frozen=True, kw_only=True)
class Beside:
    """Blocks of two runs under one heading."""

    title: str
    common: Sequence[Block] = ()
    """Input common to both systems, which is shown once."""
    sides: tuple[Sequence[Block], Sequence[Block]] = ((), ())
    folded: bool = False

    @property
    def same_prompt(self) -> bool:
        """Whether both systems received the same prompt."""
        return any(getattr(one, "role", "") == "prompt" for one in self.common)


def beside(a: Sequence[Block], b: Sequence[Block]) -> Iterator[Beside]:
    """Yield the groups of two units side by side, showing common input once.

    Groups are in the order of A, followed by groups that only B has; an empty side contains a note.

    Examples
    --------
    >>> asked = Text("2 + 2?", role="prompt")
    >>> one, two = ([Group("Asked", (asked, Text(said)))] for said in ("4", "5"))
    >>> (found,) = beside(one, two)
    >>> found.same_prompt, [side[0].text for side in found.sides]
    (True, ['4', '5'])
    """
    groups = [_by_title(side) for side in (a, b)]
    for title in dict.fromkeys([*groups[0], *groups[1]]):
        inside = [side.get(title, []) for side in groups]
        n = 0
        for one, other in zip(*inside, strict=False):
            if one != other or (title and not _is_given(one)):
                break
            n += 1
        common, (rest_a, rest_b) = inside[0][:n], (one[n:] for one in inside)
        if rest_a or rest_b:
            rest_a, rest_b = rest_a or _absent(rest_b), rest_b or _absent(rest_a)
        folded = any(
            isinstance(one, Group) and one.folded for one in (*a, *b) if _title(one) == title
        )
        yield Beside(title=title, common=common, sides=(rest_a, rest_b), folded=folded)


def _title(block: Block) -> str:
    return block.title if isinstance(block, Group) else ""


def _by_title(blocks: Sequence[Block]) -> dict[str, list[Block]]:
    """Return the blocks under each heading; blocks without a heading are grouped together."""
    found: dict[str, list[Block]] = {}
    for block in blocks:
        inside = block.blocks if isinstance(block, Group) else (block,)
        found.setdefault(_title(block), []).extend(inside)
    return found


def _is_given(block: Block) -> bool:
    """Return whether a block is input to a system rather than its output."""
    if isinstance(block, Group):
        return all(map(_is_given, block.blocks))
    return isinstance(block, Text | Messages) and block.role in ("input", "prompt", "reference")


def _absent(there: Sequence[Any]) -> list[Block]:
    role = next((getattr(one, "role", "") for one in there), "")
    return [Note(_ABSENT.get(role, "Nothing is stored."))]
