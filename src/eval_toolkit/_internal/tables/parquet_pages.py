"""Verification of Parquet pages: checksums (if stored) and decompressed size.

duckdb does not verify checksums. Page headers are structs in Thrift's compact protocol; only a few
of their integers are needed.
"""

import glob
import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from eval_toolkit._internal.files import limits, open_regular
from eval_toolkit.errors import ArtifactError

if TYPE_CHECKING:
    import duckdb

_HEADER = 1 << 12
"""Initial number of header bytes to read; headers with statistics are longer."""
_LONGEST_HEADER = 1 << 20
_CELLS = 50_000_000
"""Number of values allowed in any file; larger files may have `limits.RATIO` values per byte."""
_KIND, _PACKED, _CRC = 1, 3, 4
"""Field ids of a page header: page type, compressed size, and checksum."""
_ABOUT = {0: 5, 2: 7, 3: 8}
"""Field id of the type-specific header, by page type (data, dictionary, data v2)."""
_DICTIONARY, _N_VALUES = 2, 1


def check_pages(con: "duckdb.DuckDBPyConnection", path: Path) -> None:
    """Raise if the pages of a Parquet file are corrupt or decompress to too many values.

    Every page must match its checksum, either all or no pages of a column must have one, the number
    of values must match the footer, and the number of values per byte is limited.
    """
    chunks = con.execute(
        "SELECT path_in_schema, num_values, dictionary_page_offset, data_page_offset, "
        "total_compressed_size FROM parquet_metadata(?)",
        [glob.escape(str(path))],
    ).fetchall()
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        n_values = sum(chunk[1] or 0 for chunk in chunks)
        if n_values > max(_CELLS, limits.RATIO * size):
            raise ArtifactError(
                f"{path}: contains {n_values} values in {size} bytes; at most {limits.RATIO} per byte are "
                "allowed"
            )
        for name, n_inside, dictionary, data, n_bytes in chunks:
            if n_inside:
                begin = min(dictionary or data, data)
                if not 0 < begin < begin + n_bytes <= size:
                    raise ArtifactError(
                        f"{path}: the footer is corrupt: it states that {name!r} begins at byte {begin} "
                        f"and has {n_bytes} bytes, but the file has {size}"
                    )
                _check_chunk(file, path, name, (begin, begin + n_bytes), n_inside)


def _check_chunk(
    file: BinaryIO, path: Path, name: str, bounds: tuple[int, int], n_inside: int
) -> None:
    """Verify the checksum of each page of a column chunk and count its values."""
    begin, end = bounds
    at, n_values = begin, 0
    while at < end:
        try:
            fields, at_data = _page_header(file, at, end)
        except (IndexError, ValueError):
            fields, at_data = {}, at
        n_bytes: Any = fields.get(_PACKED)
        crc: Any = fields.get(_CRC)
        if crc is None and at == begin:
            return  # without a checksum, duckdb decides whether the page is readable
        file.seek(at_data)
        fits = isinstance(n_bytes, int) and 0 <= n_bytes <= end - at_data
        if not fits or not isinstance(crc, int) or zlib.crc32(file.read(n_bytes)) != crc % 2**32:
            raise ArtifactError(
                f"{path}: byte {at}: a page of {name!r} is corrupt: its checksum differs from the "
                "stored one"
            )
        at, n_values = at_data + n_bytes, n_values + _n_values(fields)
    if n_values != n_inside:  # page headers have no checksum
        raise ArtifactError(
            f"{path}: byte {begin}: a page of {name!r} is corrupt: the pages contain {n_values} "
            f"values, but the footer states {n_inside}"
        )


def _n_values(fields: dict[int, Any]) -> int:
    """Return the number of values of a page; -1 if its header is inconsistent."""
    kind: Any = fields.get(_KIND)
    about = fields.get(_ABOUT.get(kind, 0)) if isinstance(kind, int) else None
    n = about.get(_N_VALUES) if isinstance(about, dict) else None
    return -1 if not isinstance(n, int) else 0 if kind == _DICTIONARY else n


def _page_header(file: BinaryIO, at: int, end: int) -> tuple[dict[int, Any], int]:
    """Return the integer fields of a page header by field id, and the data offset."""
    n = _HEADER
    while True:
        file.seek(at)
        reader = _Compact(file.read(min(n, end - at)))
        try:
            return reader.struct(), at + reader.at
        except IndexError:
            if n >= min(_LONGEST_HEADER, end - at):
                raise
            n *= 16


class _Compact:
    """Minimal reader for Thrift's compact protocol; keeps only numbers."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Return the fields of a struct by id."""
        if depth > limits.DEPTH:
            raise ValueError("too deep")
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            fields[number] = self._value(head & 15, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2):  # the type encodes the boolean value
            return kind == 1
        if kind in (4, 5, 6):
            return self._signed()
        if kind == 12:
            return self.struct(depth + 1)
        if kind == 3:
            return self._byte()
        if kind in (7, 8):
            n = 8 if kind == 7 else self._unsigned()  # also advances `at`
            self.at += n
            return None
        if kind in (9, 10):
            return self._list(depth)
        raise ValueError("no such type")

    def _list(self, depth: int) -> None:
        head = self._byte()
        n = head >> 4 if head >> 4 < 15 else self._unsigned()
        for _ in range(n):
            # In a list, each boolean takes one byte.
            self._value(3 if head & 15 in (1, 2) else head & 15, depth + 1)

    def _byte(self) -> int:
        value = self.data[self.at]
        self.at += 1
        return value

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
            if shift > 63:
                raise ValueError("too long")

    def _signed(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)
