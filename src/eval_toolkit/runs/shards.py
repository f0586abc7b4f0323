"""Shards: split a run by unit hashes to distribute it over several machines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from eval_toolkit._internal.hashing import sha256_text
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.runs.driver import item_set_hash, placed

if TYPE_CHECKING:
    from eval_toolkit.runs.kinds import Kind
    from eval_toolkit.runs.outcome import Subject
    from eval_toolkit.runs.units import Unit
    from eval_toolkit.scorecards import Records

_FORM = re.compile(r"([1-9]\d{0,6}(?:,[1-9]\d{0,6})*)/([1-9]\d{0,6})")
_DIGITS = 16
"""Number of hexadecimal digits of the unit hash that determine the shard."""


class _Item(Protocol):
    """Unit, sample or seed prompt."""

    @property
    def id(self) -> str: ...
    @property
    def content_hash(self) -> str: ...


ItemT = TypeVar("ItemT", bound=_Item)


@dataclass(frozen=True, slots=True)
class Shard:
    """One or more parts of a run that is split by unit hashes.

    The part to which a unit belongs does not depend on the limit, the order or other units.

    Parameters
    ----------
    parts : tuple of int
        Numbers of the parts, counted from 1; several after a partial merge.
    of : int
        Number of parts of the whole run.

    Examples
    --------
    >>> from eval_toolkit.runs import Unit
    >>> units = [Unit(id=f"q{n}", input=n) for n in range(6)]
    >>> [[unit.id for unit in Shard.read(f"{i}/3").take(units)] for i in (1, 2, 3)]
    [['q0', 'q1', 'q3'], ['q5'], ['q2', 'q4']]
    """

    parts: tuple[int, ...]
    of: int

    @classmethod
    def read(cls, given: str | Shard) -> Shard:
        """Parse a shard of the form ``i/n``, with i from 1 to n."""
        if isinstance(given, Shard):
            return given
        if not isinstance(given, str):
            raise InvalidTypeError(f"`shard` is {given!r:.80}; it must be a string such as '2/8'")
        found = _FORM.fullmatch(given.strip())
        if found is None:
            raise InvalidInputError(
                f"`shard` is {given!r:.80}; it must be i/n with i from 1 to n, such as 2/8"
            )
        parts, of = [int(part) for part in found[1].split(",")], int(found[2])
        if max(parts) > of or len({*parts}) < len(parts):
            raise InvalidInputError(f"`shard` is {given!r:.80}; i must be a number from 1 to {of}")
        return cls(tuple(sorted(parts)), of)

    def __str__(self) -> str:
        return f"{','.join(map(str, self.parts))}/{self.of}"

    def __contains__(self, item: _Item) -> bool:
        digest = sha256_text(f"shard:{item.content_hash or item.id}")
        return int(digest[:_DIGITS], 16) % self.of + 1 in self.parts

    def take(self, items: Iterable[ItemT]) -> list[ItemT]:
        """Return the items that belong to these parts, in order."""
        return [item for item in items if item in self]


@dataclass(frozen=True, slots=True)
class Share:
    """Shard of a run, with the details of the whole run that `merge_runs` needs."""

    shard: Shard
    units: Sequence[Unit]
    """Units of the shard, with their positions in the whole run."""
    whole: Mapping[str, Any]

    @classmethod
    def of(cls, kind: Kind[Any], shard: Shard, notes: Sequence[str]) -> Share:
        """Restrict a kind with all units to a shard."""
        units = kind.units()
        entries = {"n_units": len(units), "item_set_hash": item_set_hash(units), "notes": [*notes]}
        return cls(shard, shard.take(placed(units)), entries)

    def check(self, kind: str, subjects: Mapping[Subject, Records]) -> None:
        """Raise an error if a kind evaluated units outside the shard."""
        own = {unit.id for unit in self.units}
        if any(not own.issuperset(records.unit_id.tolist()) for records in subjects.values()):
            raise InvalidInputError(
                f"`shard` is {self.shard}, but the kind {kind!r} evaluates units outside the "
                f"shard; define `Kind.share`"
            )


def shard_of(config: Mapping[str, Any] | None) -> Shard | None:
    """Return the shard in a stored configuration; None for a whole run.

    Examples
    --------
    >>> str(shard_of({"shard": "2/8"})), shard_of({})
    ('2/8', None)
    """
    shard = (config or {}).get("shard")
    return None if shard is None else Shard.read(shard)
