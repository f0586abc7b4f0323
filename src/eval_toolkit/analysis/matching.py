"""Matching of units between runs from different tools, by content or input instead of id."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeVar, get_args

import numpy as np

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import IntArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.runs import Run
from eval_toolkit.scorecards import Records, unit_starts

_T = TypeVar("_T")
UnitKey = Literal["auto", "id", "content", "input"]
_WORDS = {
    "content": "their input and target, as ids differ",
    "input": "input only, since ids or targets are written differently",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchSpec:
    """Correspondence of slices, metrics and units with different names in A and B.

    Examples
    --------
    >>> MatchSpec(slices={"gsm8k": "inspect_evals/gsm8k"}, metrics={"exact_match": "match"}).units
    'auto'
    """

    units: UnitKey = "auto"
    """Key that pairs units: "id" (with content), "content" (input and target) or "input".

    "auto" uses the id unless a run was imported. For imported runs it uses the key that yields the
    most pairs, preferring them in this order, and never an id that denotes different units in the
    two runs.
    """
    slices: Mapping[str, str] = field(default_factory=dict)
    """Slices in A, mapped to the corresponding slices in B."""
    metrics: Mapping[str, str] = field(default_factory=dict)
    """Metrics in A, mapped to their names in B."""

    def __post_init__(self) -> None:
        validation.choice(self.units, "units", get_args(UnitKey))
        for name, given in (("slices", self.slices), ("metrics", self.metrics)):
            if not isinstance(given, Mapping):
                raise InvalidTypeError(f"`{name}` must map names in A to names in B, got {given!r}")
            if len(set(given.values())) < len(given):
                raise InvalidInputError(f"`{name}` maps two names in A to the same name in B")


def matched_records(
    a: tuple[Run, Records], b: tuple[Run, Records], slices: tuple[str, str], units: UnitKey
) -> tuple[Records, tuple[str, ...]]:
    """Return B's records with A's ids for the same units, and a note on the matching.

    ``slices`` contains the names of the slice in A and in B, and ``units`` is the key that pairs
    units; see `MatchSpec`. Ambiguous units, and units that are not in A, keep their ids, which are
    extended if A uses them for other units. There are no notes if units were paired by id.
    """
    first, second = (_Units(*side, name) for side, name in zip((a, b), slices, strict=True))
    if units == "auto":
        units = _most_pairs(first, second) if any_imported(a[0], b[0]) else "id"
    if units == "id":
        return b[1], ()
    for name, side in (("A", first), ("B", second)):
        if not any(side.keys(units)):
            raise InvalidInputError(
                f"slice {slices[0]!r}: units cannot be paired by {units}, which run {name} does not "
                "store"
            )
    pairs = _pairs(first, second, units)
    notes = [f"{slices[0]}: {len(pairs):,} units were paired by {_WORDS[units]}"]
    alike = {name: side.n_alike(units) for name, side in (("A", first), ("B", second))}
    if any(alike.values()):
        descriptions = " and ".join(f"{n:,} of {name}" for name, n in alike.items() if n)
        notes.append(
            f"{slices[0]}: ambiguous units are omitted: {descriptions} "
            f"(equal {'input and target' if units == 'content' else 'input'})"
        )
    if units == "input" and (n := _n_other_targets(first, second, pairs)):
        notes.append(f"{slices[0]}: {n:,} of these {len(pairs):,} have a different target in B")
    return _under(second.records, first, pairs), tuple(notes)


def renamed_columns(records: Records, names: Mapping[str, str]) -> Records:
    """Return records with columns renamed to A's names; ``names`` maps A's names to B's.

    A column of B is dropped if A has another column with the same name.

    Examples
    --------
    >>> records = Records.from_columns({"match": [1.0]}, unit_id=["q1"])
    >>> list(renamed_columns(records, {"exact_match": "match"}).columns)
    ['exact_match']
    """
    return replace(
        records,
        columns=renamed(records.columns, names),
        status=renamed(records.status, names),
        reason=renamed(records.reason, names),
    )


def renamed(entries: Mapping[str, _T], names: Mapping[str, str]) -> dict[str, _T]:
    """Return entries of B under A's names; ``names`` maps A's names to B's.

    Examples
    --------
    >>> renamed({"match": 1, "exact_match": 2, "f1": 3}, {"exact_match": "match"})
    {'exact_match': 1, 'f1': 3}
    """
    ours = {theirs: name for name, theirs in names.items() if theirs in entries}
    replaced = set(ours.values()) - ours.keys()
    return {ours.get(name, name): entry for name, entry in entries.items() if name not in replaced}


def source_tool(manifest: Mapping[str, Any]) -> str:
    """Return the name of the tool from whose log a run was imported; "" if it was not imported.

    Examples
    --------
    >>> source_tool({"config": {"imported": {"tool": "helm"}}}), source_tool({})
    ('helm', '')
    """
    imported = (manifest.get("config") or {}).get("imported") or {}
    return str(imported.get("tool") or "")


def any_imported(*runs: Run) -> bool:
    """Return whether any of the runs was imported from another tool."""
    return any(source_tool(run.manifest) for run in runs)


def tools_note(a: Run, b: Run) -> str:
    """Return a note if two runs are from different tools, whose prompts and graders may differ."""
    tools = [source_tool(run.manifest) for run in (a, b)]
    if tools[0] == tools[1]:
        return ""
    descriptions = " and ".join(
        f"{side} was created by {tool or 'eval-toolkit'}"
        for side, tool in zip("AB", tools, strict=True)
    )
    return f"{descriptions}: prompts and graders may differ and may explain a difference"


@dataclass(frozen=True)
class _Units:
    """Units of one side: their ids and other keys."""

    run: Run
    records: Records
    slice: str

    @cached_property
    def _starts(self) -> IntArray:
        return unit_starts(self.records.unit_id)

    @cached_property
    def ids(self) -> list[str]:
        return [str(unit) for unit in self.records.unit_id[self._starts]]

    @cached_property
    def hashes(self) -> list[str]:
        return [str(digest) for digest in self.records.content_hash[self._starts]]

    @cached_property
    def _inputs(self) -> list[str]:
        stored = self.run.inputs
        digests = {} if stored is None else stored.digests_of(self.slice, self.ids)
        return [digests.get(unit, "") for unit in self.ids]

    @cached_property
    def targets(self) -> dict[str, str]:
        """Return the references of the units, normalised across tools."""
        units = self.run.units
        references = {} if units is None else units.values("reference", self.ids)
        return {unit: " ".join(text.split()) for unit, text in references.items()}

    def keys(self, units: str) -> list[str]:
        """Return the key of each unit; "" if it is not stored."""
        return self.hashes if units == "content" else self._inputs

    def places(self, units: str) -> dict[str, int]:
        """Return the index of every unit that has a unique key."""
        keys = self.keys(units)
        seen = Counter(keys)
        return {key: place for place, key in enumerate(keys) if key and seen[key] == 1}

    def n_alike(self, units: str) -> int:
        """Return the number of units whose key is ambiguous, i.e. shared with other units."""
        seen = Counter(key for key in self.keys(units) if key)
        return sum(n for n in seen.values() if n > 1)


def _pairs(a: _Units, b: _Units, units: str) -> list[tuple[int, int]]:
    theirs = b.places(units)
    return [(at, theirs[key]) for key, at in a.places(units).items() if key in theirs]


def _n_other_targets(a: _Units, b: _Units, pairs: Sequence[tuple[int, int]]) -> int:
    both = [(a.targets.get(a.ids[at]), b.targets.get(b.ids[to])) for at, to in pairs]
    return sum(None not in pair and pair[0] != pair[1] for pair in both)


def _most_pairs(a: _Units, b: _Units) -> UnitKey:
    """Return the key that pairs the most units; the most specific one in case of ties.

    Ids are ignored if they refer to different units, or if both tools use consecutive numbers and a
    run does not store the content.
    """
    hashes = dict(zip(b.ids, b.hashes, strict=True))
    common = [
        (one, hashes[unit]) for unit, one in zip(a.ids, a.hashes, strict=True) if unit in hashes
    ]
    contradicted = any(one and other and one != other for one, other in common)
    unknown = not all(one and other for one, other in common)
    one_tool = source_tool(a.run.manifest) == source_tool(b.run.manifest)
    by_id = 0 if contradicted or (unknown and not one_tool) else len(common)
    found: dict[UnitKey, int] = {"id": by_id}
    for units in ("content", "input"):
        if max(found.values()) < min(len(a.ids), len(b.ids)):  # not all units are paired yet
            found[units] = len(_pairs(a, b, units))
    best = max(found, key=found.__getitem__)
    if not found[best] and common and unknown and not contradicted:
        lacking = " and ".join(
            name
            for name, side in (("A", a), ("B", b))
            if not any(side._inputs) and not any(side.hashes)
        )
        raise InvalidInputError(
            f"slice {a.slice!r}: {len(common):,} ids are in both runs, which come from two tools, and "
            f"{lacking or 'one'} does not store its inputs; if equal ids denote the same units, "
            "pair by id with MatchSpec(units='id') (--match id)"
        )
    return best


def _under(records: Records, a: _Units, pairs: Sequence[tuple[int, int]]) -> Records:
    """Return the records of B with the ids and content hashes of the matching units of A."""
    starts = unit_starts(records.unit_id)
    ids = [str(unit) for unit in records.unit_id[starts]]
    hashes = [str(digest) for digest in records.content_hash[starts]]
    of_b = {theirs: mine for mine, theirs in pairs}
    used = set(a.ids)
    for place, unit in enumerate(ids):
        if place in of_b:
            ids[place], hashes[place] = a.ids[of_b[place]], a.hashes[of_b[place]]
            continue
        while unit in used:
            unit += "~"
        used.add(unit)
        ids[place] = unit
    counts = np.diff([*starts.tolist(), len(records)])
    unit_id = np.repeat(np.array(ids, dtype=object), counts)
    content_hash = np.repeat(np.array(hashes, dtype=object), counts)
    order = np.lexsort((records.attempt, unit_id.astype(str)))

    def sorted_(columns: Mapping[str, Any]) -> dict[str, Any]:
        return {name: column[order] for name, column in columns.items()}

    return Records(
        unit_id=unit_id[order],
        content_hash=content_hash[order],
        group=records.group[order],
        attempt=records.attempt[order],
        slices=sorted_(records.slices),
        columns=sorted_(records.columns),
        status=sorted_(records.status),
        reason=sorted_(records.reason),
    )
