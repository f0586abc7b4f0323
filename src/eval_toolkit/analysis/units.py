"""Common units of two sets of records, matched by id and content hash regardless of order."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray
from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.metric_specs import ColumnSpec
from eval_toolkit.scorecards import Records, unit_starts
from eval_toolkit.scorecards.records import is_text
from eval_toolkit.scorecards.reduction import voted


def right_or_wrong(values: FloatArray) -> bool:
    """Return whether every value is 0 or 1.

    Examples
    --------
    >>> right_or_wrong(np.array([0.0, 1.0])), right_or_wrong(np.array([0.5]))
    (True, False)
    """
    return bool(((values == 0.0) | (values == 1.0)).all())


def are_right(values: FloatArray, positive: bool | BoolArray, threshold: float = 0.5) -> BoolArray:
    """Return which values are on the correct side of a threshold.

    Values are scores, or correctness as 1, 0 or a mean of several attempts. ``positive`` states
    whether a value should reach the threshold: the labels for scores, or whether higher is better
    for correctness.

    Examples
    --------
    >>> grades = np.array([0.0, 0.0])
    >>> are_right(grades, True).tolist(), are_right(grades, False).tolist()
    ([False, False], [True, True])
    >>> are_right(np.array([0.7, 0.7]), np.array([True, False]), 0.6).tolist()
    [True, False]
    """
    return np.asarray((values >= threshold) == positive, dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class UnitValues:
    """Records grouped by unit, with attempt offsets, hashes and groups."""

    records: Records
    starts: IntArray
    ids: NDArray[Any]

    @classmethod
    def of(cls, records: Records) -> "UnitValues":
        """Return the units of records sorted by unit."""
        starts = unit_starts(records.unit_id)
        return cls(records, starts, records.unit_id[starts].astype(str))

    def values(self, column: str, spec: ColumnSpec | None = None) -> tuple[NDArray[Any], BoolArray]:
        """Return one value per unit from its measured attempts, and a mask of units with a value.

        The value is the mean of the attempts, or the result of a spec for several attempts; for
        strings, the string itself, or a tuple if there are several attempts.
        """
        if not len(self.starts):
            return np.zeros(0), np.zeros(0, dtype=np.bool_)
        measured = self.records.status[column] == "ok"
        if is_text(self.records.columns[column]):
            return self._texts(column), np.logical_or.reduceat(measured, self.starts)
        sums = np.add.reduceat(np.where(measured, self.records.columns[column], 0.0), self.starts)
        counts = np.add.reduceat(measured.astype(np.int64), self.starts)
        if spec is not None and spec.answer is not None:
            return voted(self.records, spec, self.starts, measured, self.records.columns[column])
        if spec is not None and spec.k is not None:
            return spec.of_attempts(counts, sums.astype(np.int64))
        return sums / np.maximum(counts, 1), counts > 0

    def _texts(self, column: str) -> NDArray[Any]:
        found = np.empty(len(self.starts), dtype=object)
        for unit, given in enumerate(np.split(self.records.columns[column], self.starts[1:])):
            found[unit] = given[0] if len(given) == 1 else tuple(given.tolist())
        return found

    def groups(self, at: IntArray) -> NDArray[Any]:
        """Return the groups of the selected units."""
        return np.asarray(self.records.group[self.starts].astype(str)[at])

    def failure(self, column: str, at: IntArray) -> str:
        """Return the first stored reason why units have no value, or ""."""
        rows = np.isin(self.records.unit_id.astype(str), self.ids[at])
        absent = rows & (self.records.status[column] != "ok")
        return next((str(why) for why in self.records.reason[column][absent] if why), "")

    def same(self, at: IntArray, other: "UnitValues", other_at: IntArray) -> bool:
        """Return whether units have the same content and values on both sides."""
        if self.records.columns.keys() != other.records.columns.keys():
            return False
        facts = [
            (
                side.records.content_hash[side.starts],
                *chain(*map(side.values, self.records.columns)),
            )
            for side in (self, other)
        ]
        return all(
            np.array_equal(mine[at], theirs[other_at]) for mine, theirs in zip(*facts, strict=True)
        )


@dataclass(frozen=True, eq=False)
class CommonUnits:
    """Units common to A and B, sorted by id, and the numbers of units excluded."""

    a: UnitValues
    b: UnitValues
    in_a: IntArray
    in_b: IntArray
    n_only_a: int
    n_only_b: int
    n_mismatched: int
    """Number of units with the same id but different content or labels, which are excluded."""
    n_unhashed: int
    """Number of units paired by id only, because a content hash is missing."""

    def __len__(self) -> int:
        return len(self.in_a)

    @property
    def groups(self) -> NDArray[Any] | None:
        """Group of each unit, from the side that has groups; None if units are independent."""
        sides = {"A": self.a.groups(self.in_a), "B": self.b.groups(self.in_b)}
        return shared_groups(sides)

    def part(self, name: str) -> NDArray[Any] | None:
        """Return the part of each unit of A in a slice; None without that slice."""
        slices = self.a.records.slices
        return slices[name][self.a.starts].astype(str)[self.in_a] if name in slices else None

    def both(
        self, column: str, spec: ColumnSpec | None = None
    ) -> tuple[FloatArray, FloatArray, BoolArray, BoolArray]:
        """Return a column of A and of B, and the units with a value in both."""
        (a, in_a), (b, in_b) = self.a.values(column, spec), self.b.values(column, spec)
        return a[self.in_a], b[self.in_b], in_a[self.in_a], in_b[self.in_b]

    def right_or_wrong(self, column: str) -> bool:
        """Return whether all values of a column are 0 or 1, in A and in B."""
        columns = (side.records.numbers.get(column) for side in (self.a, self.b))
        states = (side.records.status[column] == "ok" for side in (self.a, self.b))
        return all(
            one is not None and right_or_wrong(one[measured])
            for one, measured in zip(columns, states, strict=True)
        )

    def lacking(self, column: str) -> str:
        """Return which runs lack a column: "A", "B", "A and B", or ""."""
        sides = (("A", self.a), ("B", self.b))
        return " and ".join(name for name, side in sides if column not in side.records.columns)

    def failures(self, columns: Iterable[str]) -> list[str]:
        """Return the reasons why units have no value, for A and for B."""
        reasons: dict[str, str] = {}
        for column in columns:
            for name, side, at in (("A", self.a, self.in_a), ("B", self.b, self.in_b)):
                if why := side.failure(column, at):
                    reasons.setdefault(name, f"in {name}: {why}")
        return [reasons[name] for name in sorted(reasons)]

    def contains(self, other: "CommonUnits") -> bool:
        """Return whether all units of another slice are included, with equal content and values.

        Values are compared because ids may have a different meaning in each slice: for example,
        reworded versions of the same items are not parts of each other.
        """
        if len(other) > len(self):
            return False
        if not len(other):
            return True
        here, there = self.a.ids[self.in_a], other.a.ids[other.in_a]
        at = np.minimum(np.searchsorted(here, there), len(here) - 1)
        return (
            np.array_equal(here[at], there)
            and self.a.same(self.in_a[at], other.a, other.in_a)
            and self.b.same(self.in_b[at], other.b, other.in_b)
        )


def shared_groups(sides: Mapping[str, NDArray[Any]]) -> NDArray[Any] | None:
    """Return the group of each unit, from the sides that have groups.

    The result is None if the units are independent. Groups that partition the units differently
    raise an error.

    Examples
    --------
    >>> sides = {"A": np.array(["x", "y", "z"]), "B": np.array(["g", "g", "h"])}
    >>> shared_groups(sides).tolist()
    ['g', 'g', 'h']
    """
    grouped = {name: part for name, part in sides.items() if len(np.unique(part)) < len(part)}
    if not grouped:
        return None
    first, *others = grouped
    for name in others:
        if not _same_partition(grouped[first], grouped[name]):
            raise InvalidInputError(
                f"{first} and {name} assign the same units to different groups; use the same grouping "
                "for both"
            )
    return grouped[first]


def _same_partition(first: NDArray[Any], second: NDArray[Any]) -> bool:
    """Return whether two groupings define the same partition, regardless of their names."""
    pairs = {*zip(first.tolist(), second.tolist(), strict=True)}
    return len(pairs) == len(set(first.tolist())) == len(set(second.tolist()))


def common_units(a: Records, b: Records, *, on_mismatch: str, where: str) -> CommonUnits:
    """Pair two sets of records on unit id and content hash.

    The result is sorted by unit id. Units with the same id but different content hashes or labels
    raise an error or are dropped. ``where`` is used in messages.

    Examples
    --------
    >>> a = Records.from_columns({"correct": [1, 0]}, unit_id=["x", "y"])
    >>> b = Records.from_columns({"correct": [1, 1]}, unit_id=["z", "y"])
    >>> common = common_units(a, b, on_mismatch="raise", where="test")
    >>> len(common), common.n_only_a, common.n_only_b
    (1, 1, 1)
    """
    first, second = UnitValues.of(a), UnitValues.of(b)
    ids, in_a, in_b = np.intersect1d(first.ids, second.ids, assume_unique=True, return_indices=True)
    hash_a = a.content_hash[first.starts][in_a]
    hash_b = b.content_hash[second.starts][in_b]
    unhashed = (hash_a == "") | (hash_b == "")
    differs = np.asarray(~unhashed & (hash_a != hash_b), dtype=np.bool_)
    if "label" in a.numbers and "label" in b.numbers:
        (label_a, known_a), (label_b, known_b) = first.values("label"), second.values("label")
        relabelled = label_a[in_a] != label_b[in_b]
        differs |= relabelled & known_a[in_a] & known_b[in_b]
    if differs.any() and on_mismatch == "raise":
        row = int(np.argmax(differs))
        what = "content hash" if hash_a[row] != hash_b[row] and not unhashed[row] else "label"
        raise ArtifactError(
            f"{where}: unit {str(ids[row])!r} has a different {what} in B than in A "
            f"({int(differs.sum())} of {len(ids)} common units differ); it is not the same unit. "
            "Exclude them with on_mismatch='drop'"
        )
    keep = ~differs
    return CommonUnits(
        first,
        second,
        in_a[keep].astype(np.int64),
        in_b[keep].astype(np.int64),
        n_only_a=len(first.ids) - len(ids),
        n_only_b=len(second.ids) - len(ids),
        n_mismatched=int(differs.sum()),
        n_unhashed=int((unhashed & keep).sum()),
    )
