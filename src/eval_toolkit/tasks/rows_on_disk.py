"""Rows, items and samples of large files, which stay on disk until they are used.

In memory, they are positions and ids. `loaded` returns the real object; each is built again when it
is used, except for the one that was used last.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, overload
from weakref import WeakValueDictionary

from eval_toolkit._internal import tables
from eval_toolkit._internal.files import FileParts, limits, lines_of, open_regular, parse_json
from eval_toolkit._internal.tables.spool import shown
from eval_toolkit.errors import ArtifactError
from eval_toolkit.tasks.types import Item, Sample

_SHORT, _MOST_SHORT = 64, 64
"""Maximum length of strings in columns that are held in memory, and number of such columns."""
_open: WeakValueDictionary[tuple[Path, int, int, int], RowsOnDisk] = WeakValueDictionary()
"""Rows in use, by file and state of the file, so that a file is read once."""


class RowsOnDisk(Sequence[dict[str, Any]]):
    r"""Rows of a JSON Lines file, which are parsed when they are used.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.jsonl"
    >>> _ = path.write_text('{"q": "2 + 2?"}\n\n{"q": "1 + 1?"}\n')
    >>> rows = RowsOnDisk(path)
    >>> len(rows), rows[1], list(rows.cells("q"))
    (2, {'q': '1 + 1?'}, ['2 + 2?', '1 + 1?'])
    """

    def __init__(self, path: Path) -> None:
        self._parts, self._name = FileParts(path, fixed=True), shown(path)
        self._starts, self._sizes, self._lines = array("q"), array("q"), array("q")
        self._short: dict[str, list[Any]] = {}
        self.names: dict[str, None] = {}
        """Names of all fields, in order of their appearance."""
        long: set[str] = set()
        at = 0
        with open_regular(path) as stream:
            for number, line in enumerate(lines_of(stream, path), 1):
                if not _is_blank(line):
                    self._add(at, number, line, long)
                at += len(line)
        for cells in self._short.values():
            cells += [None] * (len(self) - len(cells))

    def _add(self, at: int, number: int, line: bytes, long: set[str]) -> None:
        row = self._parsed(line, number)
        for name, value in row.items():
            if name in long:
                continue
            if _is_short(value) and (name in self._short or len(self._short) < _MOST_SHORT):
                cells = self._short.setdefault(name, [])
                cells += [None] * (len(self) - len(cells))
                cells.append(value)
            else:
                long.add(name)
                self._short.pop(name, None)
        if not row.keys() <= self.names.keys():
            self.names.update(dict.fromkeys(row))
        for column, value in ((self._starts, at), (self._sizes, len(line)), (self._lines, number)):
            column.append(value)

    def _parsed(self, line: bytes, number: int) -> dict[str, Any]:
        place = f"{self._name}: line {number}"
        row = parse_json(line, place)
        if not isinstance(row, dict):
            raise ArtifactError(f"{place}: contains {row!r:.60}; every row must be an object")
        return row

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        line = self._parts.read((self._starts[index], self._sizes[index]))
        return self._parsed(line, self._lines[index])

    def take(self, places: Sequence[int]) -> RowsOnDisk:
        """Return some of the rows."""
        made = copy(self)
        made._starts, made._sizes, made._lines = (
            array("q", (numbers[at] for at in places))
            for numbers in (self._starts, self._sizes, self._lines)
        )
        made._short = {name: [cells[at] for at in places] for name, cells in self._short.items()}
        return made

    def cells(self, name: str) -> Iterable[Any]:
        """Return the values of a field; None in rows without it."""
        return self._short[name] if name in self._short else (row.get(name) for row in self)


def cells_of(rows: Sequence[Mapping[str, Any]], name: str) -> Iterable[Any]:
    """Return the values of a field; None in rows without it."""
    return rows.cells(name) if isinstance(rows, RowsOnDisk) else (row.get(name) for row in rows)


def names_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of all fields, in order of their appearance."""
    if isinstance(rows, RowsOnDisk):
        return list(rows.names)
    return list(dict.fromkeys(name for row in rows for name in row))


def rows_on_disk(path: Path) -> RowsOnDisk | None:
    """Return the rows of a large JSON Lines file; None for other files."""
    if tables.media_type_of(path) != tables.JSONL or path.name.endswith(".gz"):
        return None
    told = path.stat()
    if told.st_size <= limits.HELD_BYTES:
        return None
    state = (path.absolute(), told.st_ino, told.st_size, told.st_mtime_ns)
    found = _open.get(state)
    if found is None:
        found = _open[state] = RowsOnDisk(path)
    return found if len(found) else None


def _is_short(value: Any) -> bool:
    return len(value) <= _SHORT if isinstance(value, str) else not isinstance(value, (dict, list))


def _is_blank(line: bytes) -> bool:
    return not (line.strip() and (len(line) > _SHORT or str(line, "utf-8-sig", "replace").strip()))


class ItemsOnDisk(Sequence[Item]):
    """Items of a large file, with their ids.

    Parameters
    ----------
    rows : RowsOnDisk
        Rows of the items.
    unit_ids, groups : list of str
        Ids and groups of the items.
    make : callable
        Function from a position and its row to the item.
    """

    def __init__(
        self,
        rows: RowsOnDisk,
        unit_ids: list[str],
        groups: list[str | None] | None,
        make: Callable[[int, dict[str, Any], str | None], Item],
    ) -> None:
        self.unit_ids, self.groups = unit_ids, groups
        self._rows, self._make = rows, make
        self._hashes: list[str | None] = [None] * len(rows)
        self._last: tuple[int, list[Sample]] = (-1, [])

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        item = self._make(index, self._rows[index], self._hashes[index])
        self._hashes[index] = item.content_hash
        return item

    def __iter__(self) -> Iterator[Item]:
        return (self[at] for at in range(len(self)))

    def content_hash(self, at: int) -> str:
        """Return the content hash of an item."""
        return self._hashes[at] or self[at].content_hash

    def samples(self, at: int, build: Callable[[Item], list[Sample]]) -> list[Sample]:
        """Return the samples of an item; those of the last call are not built again."""
        if self._last[0] != at:
            self._last = (at, build(self[at]))
        return self._last[1]


def unit_ids_of(items: Sequence[Item]) -> list[str]:
    """Return the ids of items."""
    if isinstance(items, ItemsOnDisk):
        return items.unit_ids
    return [item.unit_id for item in items]


class SampleOnDisk(Sample):
    """Sample of an item on disk; its texts are built when they are used."""

    __slots__ = ("at", "build", "items", "nth")

    items: ItemsOnDisk
    at: int
    nth: int
    build: Callable[[Item], list[Sample]]

    def __init__(
        self,
        items: ItemsOnDisk,
        at: int,
        nth: int,
        build: Callable[[Item], list[Sample]],
        known: tuple[str, str, str | None],
    ) -> None:
        hold = object.__setattr__  # a loop over the names takes three times as long
        hold(self, "items", items)
        hold(self, "at", at)
        hold(self, "index", at)
        hold(self, "nth", nth)
        hold(self, "build", build)
        hold(self, "id", known[0])
        hold(self, "subject", known[1])
        hold(self, "group", known[2])

    def loaded(self) -> Sample:
        """Return the sample with its texts in memory."""
        return self.items.samples(self.at, self.build)[self.nth]

    @property
    def content_hash(self) -> str:
        """Hash of the raw row."""
        return self.items.content_hash(self.at)


def _loaded_text(name: str, sample: SampleOnDisk) -> Any:
    return getattr(sample.loaded(), name)


for _name in (
    *("messages", "ground_truth", "possible_completions", "context", "text", "parts", "question"),
):
    setattr(SampleOnDisk, _name, property(partial(_loaded_text, _name)))


def samples_on_disk(
    items: ItemsOnDisk,
    places: Iterable[int],
    build: Callable[[Item], list[Sample]],
    subject: str,
    *,
    one: bool,
) -> Iterator[Sample]:
    """Yield the samples of items without their texts; with ``one``, without building them."""
    for at in places:
        if one:
            group = None if items.groups is None else items.groups[at]
            yield SampleOnDisk(items, at, 0, build, (items.unit_ids[at], subject, group))
            continue
        for nth, made in enumerate(items.samples(at, build)):
            yield SampleOnDisk(items, at, nth, build, (made.id, made.subject, made.group))
