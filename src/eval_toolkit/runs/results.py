"""`Results`: all cells of a run by slice, part, system and metric.

On disk (``results.json``) a cell of a whole slice is
``by_slice[slice]["by_scorer"][system][metric]`` and a cell of a part
``by_slice[slice]["parts"][part]["by_scorer"][system][metric]``, for every kind of run.
Version 1 payloads are converted to this format by `runs.legacy_results`.
"""

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eval_toolkit._internal.display import Table, Tabled
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.metric_specs.names import named, stored_name
from eval_toolkit.runs.addresses import Address, written
from eval_toolkit.runs.cells import absent_cell, cell_table, read_cell
from eval_toolkit.runs.legacy_results import in_one_shape
from eval_toolkit.scorecards import MetricResult, Scorecard
from eval_toolkit.scorecards.parts import PART_START, SLICE, WHOLE, format_part, parse_part

_SHOWN = 8
"""Maximum number of names in an error message."""


@dataclass(frozen=True, slots=True)
class ResultCell:
    """Cell of a run with its location."""

    slice: str
    part: str
    """Part, as formatted by `scorecards.parts`; "all" for the whole slice."""
    system: str
    """Scorer, model or target."""
    metric: str
    """Metric; empty if the system has no cells here, in which case the cell states the reason."""
    cell: MetricResult

    def row(self) -> dict[str, Any]:
        """Return a flat dict with location, value, status, reason, interval and counts."""
        cell, ci = self.cell, self.cell.ci
        level = None if ci is None or math.isnan(ci.confidence) else ci.confidence
        return {
            "slice": self.slice,
            "part": self.part,
            "system": self.system,
            "metric": self.metric,
            "value": cell.value,
            "status": cell.status,
            "reason": cell.reason,
            "ci_low": None if ci is None else ci.ci_low,
            "ci_high": None if ci is None else ci.ci_high,
            "confidence": level,
            "n_resamples": None if ci is None else ci.n_resamples,
            "method": None if ci is None else ci.method,
            "n_units": cell.n_units,
            "n_groups": cell.n_groups,
            "n_errors": cell.n_errors,
            "n_skipped": cell.n_skipped,
        }


class Results(Tabled):
    """Cells of a run of any kind, with iteration and lookup by address.

    Parameters
    ----------
    by_slice : mapping
        Slices in the format of ``results.json``.
    folds : mapping, optional
        Seed, number and training rows of each fold, by the name of its part.

    Examples
    --------
    >>> part = {"by_scorer": {"guard": {"roc_auc": 0.8}}}
    >>> results = Results.of({"by_slice": {"test": {
    ...     "by_scorer": {"guard": {"roc_auc": 0.9}}, "parts": {"language=de": part}}}})
    >>> results["roc_auc"].value, results["roc_auc @ language=de / guard"].value
    (0.9, 0.8)
    >>> [results.address(found) for found in results]
    ['roc_auc @ all / guard', 'roc_auc @ language=de / guard']
    """

    __slots__ = ("_by_slice", "folds")

    def __init__(
        self, by_slice: Mapping[str, Any], folds: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        self._by_slice = dict(by_slice)
        self.folds: dict[str, Mapping[str, Any]] = dict(folds or {})

    @classmethod
    def of(
        cls,
        payload: Mapping[str, Any],
        part_columns: Mapping[str, Sequence[str]] | None = None,
    ) -> "Results":
        """Create results from a payload of any version.

        Parameters
        ----------
        payload : mapping
            Contents of ``results.json``.
        part_columns : mapping of str to sequence of str, optional
            Partitions in the records of each slice, which version 1 payloads do not contain.

        Returns
        -------
        Results
            Results whose cells are read on demand.

        Raises
        ------
        InvalidTypeError
            If the payload is not a mapping.

        Examples
        --------
        >>> Results.of({"by_slice": {"test": {"strata": {"de": {"n": 8}}}}}).parts("test")
        ['stratum=de']
        """
        if not isinstance(payload, Mapping):
            raise InvalidTypeError(f"`payload` is a {type(payload).__name__}; it must be a mapping")
        return cls(*in_one_shape(payload, part_columns))

    @classmethod
    def of_card(cls, card: Scorecard) -> "Results":
        """Create results from a scorecard, with one slice and an unnamed system.

        Examples
        --------
        >>> Results.of_card(Scorecard({"f1": MetricResult(0.9, "ok")}))["f1"].value
        0.9
        """
        key = card.by or "part"
        parts = {
            format_part({key: name}): {"by_scorer": {"": dict(inside)}}
            for name, inside in card.slices.items()
        }
        return cls({WHOLE: {"by_scorer": {"": dict(card)}, **({"parts": parts} if parts else {})}})

    # --- contents ---------------------------------------------------------------------------------

    @property
    def slices(self) -> list[str]:
        """Names of the slices in stored order."""
        return list(self._by_slice)

    def parts(self, slice_name: str) -> list[str]:
        """Return the names of the parts of a slice, without the whole slice."""
        parts = self.entry(slice_name).get("parts")
        return list(parts) if isinstance(parts, Mapping) else []

    @property
    def systems(self) -> list[str]:
        """Scorers, models or targets that have cells, or a reason why there are none."""
        return list(dict.fromkeys(system for _, _, system, _ in self.blocks()))

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics, without duplicates."""
        return list(dict.fromkeys(found.metric for found in self.cells() if found.metric))

    @property
    def places(self) -> list[tuple[str, str]]:
        """All slices and parts: each whole slice is followed by its parts."""
        return [(name, part) for name in self._by_slice for part in (WHOLE, *self._parts(name))]

    def _parts(self, slice_name: str) -> Iterable[str]:
        entry = self._by_slice[slice_name]
        parts = entry.get("parts") if isinstance(entry, Mapping) else None
        return parts if isinstance(parts, Mapping) else ()

    def entry(self, slice_name: str, part: str = WHOLE) -> Mapping[str, Any]:
        """Return the stored entry of a slice or part: its sizes and ``by_scorer``.

        Raises
        ------
        MissingColumnError
            If it does not exist (also a KeyError); the message lists what is available.
        """
        entry = _named(self._by_slice, slice_name, "slice", "the run")
        if part == WHOLE:
            return entry
        parts = entry.get("parts")
        return _named(parts if isinstance(parts, Mapping) else {}, part, "part", slice_name)

    def block(self, slice_name: str, system: str, part: str = WHOLE) -> Mapping[str, Any]:
        """Return the stored results of a system on a slice or part.

        Raises
        ------
        MissingColumnError
            If it does not exist (also a KeyError); the message lists what is available.
        """
        scorers = self.entry(slice_name, part).get("by_scorer")
        where = f"slice {slice_name!r}" + ("" if part == WHOLE else f", part {part!r}")
        return _named(scorers if isinstance(scorers, Mapping) else {}, system, "scorer", where)

    def block_or_none(
        self, slice_name: str, system: str, part: str = WHOLE
    ) -> Mapping[str, Any] | None:
        """Return the stored results like `block`, or None."""
        try:
            return self.block(slice_name, system, part)
        except (MissingColumnError, InvalidTypeError):
            return None

    def blocks(self) -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
        """Yield (slice, part, system, results) for all stored results."""
        for slice_name, part in self.places:
            entry = self._by_slice[slice_name]
            if part != WHOLE:
                entry = entry["parts"][part]
            scorers = entry.get("by_scorer") if isinstance(entry, Mapping) else None
            for system, block in scorers.items() if isinstance(scorers, Mapping) else ():
                if isinstance(block, Mapping):
                    yield str(slice_name), str(part), str(system), block

    # --- iteration --------------------------------------------------------------------------------

    def cells(self) -> Iterator[ResultCell]:
        """Yield every cell in stored order: for each slice, the whole slice, then its parts.

        A system that was skipped or failed has a single cell, with the metric "" and the reason.
        """
        for slice_name, part, system, block in self.blocks():
            absent = absent_cell(block)
            if absent is not None:
                yield ResultCell(slice_name, part, system, "", absent)
            for name, stored in block.items():
                cell = read_cell(str(name), stored)
                if cell is not None:
                    yield ResultCell(slice_name, part, system, str(name), cell)

    def __iter__(self) -> Iterator[ResultCell]:
        return self.cells()

    def __len__(self) -> int:
        return sum(1 for _ in self.cells())

    def __bool__(self) -> bool:
        return bool(self._by_slice)

    def rows(self) -> list[dict[str, Any]]:
        """Return one flat dict per cell."""
        return [found.row() for found in self.cells()]

    def _as_table(self) -> Table:
        table = cell_table(self.rows())
        return replace(table, notes=[*self.fold_notes(), *table.notes])

    def fold_notes(self) -> list[str]:
        """Return notes on slices that are means over folds."""
        if not self.folds:
            return []
        names = ", ".join(map(repr, self._by_slice))
        return [f"part {WHOLE} of {names}: the mean over {len(self.folds)} folds"]

    def __repr__(self) -> str:
        head = f"Results({len(self)} cells of {', '.join(map(repr, self.slices)) or 'nothing'})"
        return f"{head}\n{self}" if len(self) else head

    def to_dict(self) -> dict[str, Any]:
        """Return the slices in the format of ``results.json``, as a JSON-serialisable dict."""
        slices = {name: _plain(entry) for name, entry in self._by_slice.items()}
        return {"by_slice": slices, **({"folds": self.folds} if self.folds else {})}

    # --- addresses --------------------------------------------------------------------------------

    def place(self, slice_name: str, part: str = WHOLE) -> str:
        """Return the part of an address, with the name of the slice if there are several.

        Examples
        --------
        >>> both = Results({"dev": {}, "test": {}})
        >>> both.place("test"), both.place("test", "language=de"), Results({"test": {}}).place("test")
        ('slice=test', 'slice=test&language=de', 'all')
        """
        if len(self._by_slice) < 2:
            return part
        named = format_part({SLICE: slice_name})
        return named if part == WHOLE else f"{named}&{part}"

    def address(self, found: ResultCell) -> str:
        """Return the address of a cell as a string."""
        return self.address_of(found.metric, found.slice, found.part, found.system)

    def address_of(self, metric: str, slice_name: str, part: str, system: str) -> str:
        """Return the address of a cell by its location; the cell need not exist."""
        return written(metric, self.place(slice_name, part), system or None)

    def __getitem__(self, address: str | Address) -> MetricResult:
        return self.find(address).cell

    def find(
        self, address: str | Address, *, slice_name: str | None = None, system: str | None = None
    ) -> ResultCell:
        """Return the cell at an address, with its location.

        Parameters
        ----------
        address : str or Address
            ``metric @ part / system``; see `runs.addresses`. Without a part, the whole slice is
            used.
        slice_name, system : str, optional
            Slice and system, unless they are part of the address. The slice may also be the name of
            a part.

        Returns
        -------
        ResultCell
            Cell at the address. For a system that was skipped or failed, it has a reason instead of
            a value.

        Raises
        ------
        MissingColumnError
            If the cell does not exist (also a KeyError); the message suggests a similar name.
        InvalidInputError
            If the string is not an address, or the address is ambiguous; the message lists the
            candidates.

        Examples
        --------
        >>> results = Results.of({"by_slice": {"test": {"by_scorer": {
        ...     "old": {"f1": 0.5}, "new": {"f1": 0.7}}}}})
        >>> results.find("f1 / new").system
        'new'
        >>> results.find("f1")
        Traceback (most recent call last):
            ...
        eval_toolkit.errors.InvalidInputError: 'f1' is ambiguous; write 'f1 @ all / old' or ...
        """
        target = self._read(address)
        if target.system is None and system is not None:
            target = replace(target, system=system)
        places = self.places_of(target.part) if slice_name is None else self.named(slice_name)
        if slice_name is not None and target.part is not None:
            inside = {name for name, _ in places}
            places = [place for place in self.places_of(target.part) if place[0] in inside]
        found, absent = [], []
        for slice_, part in places:
            for one in self._systems_at(slice_, part):
                if target.system in (None, one):
                    cell = self.cell_at(target.metric, slice_, part, one)
                    if cell is not None:
                        found.append(cell)
                    elif (none := absent_cell(self.block(slice_, one, part))) is not None:
                        absent.append(ResultCell(slice_, part, one, target.metric, none))
        found = found or absent[:1]
        if not found:
            raise self._missing(target, places, slice_name)
        if len(found) > 1:
            raise self._several(target, found)
        return found[0]

    def _read(self, address: str | Address) -> Address:
        if isinstance(address, Address):
            return address
        text = address.strip() if isinstance(address, str) else ""
        if text and any(text in block for *_, block in self.blocks()):
            return Address(text)  # a name with special characters, such as tox/mean
        return Address.parse(address)

    def cell_at(self, metric: str, slice_name: str, part: str, system: str) -> ResultCell | None:
        """Return the cell at an exact location, or None."""
        block = self.block_or_none(slice_name, system, part)
        if block is None:
            return None
        if metric not in block:
            metric = stored_name(metric)  # f1@0.5 and other spellings
        cell = read_cell(metric, block.get(metric))
        return None if cell is None else ResultCell(slice_name, part, system, metric, cell)

    def _systems_at(self, slice_name: str, part: str) -> list[str]:
        scorers = self.entry(slice_name, part).get("by_scorer")
        return list(scorers) if isinstance(scorers, Mapping) else []

    def places_of(self, part: Mapping[str, str] | str | None) -> list[tuple[str, str]]:
        """Return the (slice, part) pairs that match the part of an address.

        The part is a string or a result of `parse_part`; None and "all" refer to whole slices.
        """
        pairs = parse_part(part) if isinstance(part, str) else dict(part or {})
        if not pairs:
            named = [WHOLE] if part is not None and WHOLE in self._by_slice else self.slices
            return [(name, WHOLE) for name in named]
        found = [
            (name, own)
            for name in self._by_slice
            for own in self._parts(name)
            if parse_part(own) == pairs
        ]
        if not found and pairs.get(SLICE) in self._by_slice:
            rest = {key: value for key, value in pairs.items() if key != SLICE}
            name = pairs[SLICE]
            found = [(name, own) for own in self._parts(name) if parse_part(own) == rest]
            found += [] if rest else [(name, WHOLE)]
        # a slice whose name looks like a part
        return found or [(name, WHOLE) for name in self._by_slice if _same(name, pairs)]

    def named(self, name: str) -> list[tuple[str, str]]:
        """Return the (slice, part) pairs that match the name of a slice or part, or a value."""
        if name in self._by_slice:
            return [(name, WHOLE)]
        values = {place: parse_part(place[1]) for place in self.places if place[1] != WHOLE}
        found = [place for place, pairs in values.items() if _same(name, pairs)]
        if not found and PART_START.match(name):
            found = self.places_of(name)
        return found or [place for place, pairs in values.items() if [*pairs.values()] == [name]]

    def _missing(
        self, target: Address, places: Sequence[tuple[str, str]], slice_name: str | None
    ) -> MissingColumnError:
        """Build an error with the missing name and similar names."""
        if not places and slice_name is not None:
            have = [*self.slices, *(part for _, part in self.places if part != WHOLE)]
            return MissingColumnError(
                f"there is no slice {slice_name!r}; {_hint(slice_name, have)}"
            )
        if not places:
            named = format_part(target.part or {})
            full = SLICE in (target.part or {})
            have = [self.place(*place) if full else place[1] for place in self.places]
            have = list(dict.fromkeys(have))
            return MissingColumnError(f"there is no part {named!r}; {_hint(named, have)}")
        systems = list(dict.fromkeys(one for place in places for one in self._systems_at(*place)))
        if target.system is not None and target.system not in systems:
            return MissingColumnError(
                f"there is no system {target.system!r}; {_hint(target.system, systems)}"
            )
        metrics = [
            found.metric
            for found in self.cells()
            if (found.slice, found.part) in places and target.system in (None, found.system)
        ]
        names = list(dict.fromkeys(filter(None, metrics)))
        return MissingColumnError(
            f"there is no metric {target.metric!r}; {_hint(target.metric, names)}"
            f"{_computed(target.metric, names)}"
        )

    def _several(self, target: Address, found: Sequence[ResultCell]) -> InvalidInputError:
        shown = " or ".join(repr(self.address(one)) for one in found[:_SHOWN])
        more = f" or {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        return InvalidInputError(f"{str(target)!r} is ambiguous; write {shown}{more}")


def _computed(metric: str | None, stored: Sequence[str]) -> str:
    """Return how to compute a metric of scores that a run of scores does not store."""
    scored = {"pr_auc", "roc_auc", "brier", "log_loss"} & {*stored}
    try:
        known = bool(scored) and named(str(metric)) is not None
    except InvalidInputError:
        known = False
    return f"; to compute it, score the rows again with --metric {metric}" if known else ""


def _same(name: str, pairs: Mapping[str, str]) -> bool:
    return "&".join(f"{key}={value}" for key, value in pairs.items()) == name


def _named(known: Mapping[str, Any], name: str, what: str, where: str) -> Mapping[str, Any]:
    if name not in known:
        have = ", ".join(map(repr, known)) or "none"
        raise MissingColumnError(f"{where} has no {what} {name!r}; it has {have}")
    found = known[name]
    if not isinstance(found, Mapping):
        raise InvalidTypeError(f"{what} {name!r} of {where} is {found!r}; it must be an object")
    return found


def _hint(name: str, have: Sequence[str]) -> str:
    """Suggest the nearest valid name, and list the valid names."""
    near = difflib.get_close_matches(name, have, n=1)
    listed = ", ".join(map(repr, have[:_SHOWN])) + (" …" if len(have) > _SHOWN else "")
    there = f"there is {listed or 'none'}"
    return f"did you mean {near[0]!r}? T{there[1:]}" if near else there


def _plain(node: Any) -> Any:
    if isinstance(node, MetricResult):
        return node.to_dict()
    if isinstance(node, Mapping):
        return {key: _plain(value) for key, value in node.items()}
    return node
