"""Bounds-checked reader of GGUF files.

Files are untrusted: every count, length and offset is checked against the file size before use.
Quantised tensors are dequantised to float32.
"""

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eval_toolkit.errors import ArtifactError, MissingFileError

Float32Array: TypeAlias = NDArray[np.float32]

_NUMBERS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _ARRAY = 8, 9
_MAX_DIMENSIONS = 4
_STEP = 4096
"""Number of blocks dequantised at once, which fit in the CPU cache."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """Storage type of a tensor: elements and bytes per block, and the decoder."""

    name: str
    per_block: int
    dtype: "np.dtype[Any]"
    expand: Callable[[NDArray[Any], Float32Array], None]


def _plain(blocks: NDArray[Any], out: Float32Array) -> None:
    out[:, 0] = blocks


def _bf16(blocks: NDArray[Any], out: Float32Array) -> None:
    out[:, 0] = (blocks.astype(np.uint32) << 16).view(np.float32)


def _q4_0(blocks: NDArray[Any], out: Float32Array) -> None:
    out[:, :16] = blocks["q"] & 15
    out[:, 16:] = blocks["q"] >> 4
    out -= 8.0
    out *= blocks["scale"].astype(np.float32)[:, None]


def _q4_1(blocks: NDArray[Any], out: Float32Array) -> None:
    out[:, :16] = blocks["q"] & 15
    out[:, 16:] = blocks["q"] >> 4
    out *= blocks["scale"].astype(np.float32)[:, None]
    out += blocks["least"].astype(np.float32)[:, None]


def _q8_0(blocks: NDArray[Any], out: Float32Array) -> None:
    out[:] = blocks["q"]
    out *= blocks["scale"].astype(np.float32)[:, None]


_SCALE, _LEAST = ("scale", "<f2"), ("least", "<f2")
_KINDS = {
    0: _Kind("F32", 1, np.dtype("<f4"), _plain),
    1: _Kind("F16", 1, np.dtype("<f2"), _plain),
    2: _Kind("Q4_0", 32, np.dtype([_SCALE, ("q", "u1", 16)]), _q4_0),
    3: _Kind("Q4_1", 32, np.dtype([_SCALE, _LEAST, ("q", "u1", 16)]), _q4_1),
    8: _Kind("Q8_0", 32, np.dtype([_SCALE, ("q", "i1", 32)]), _q8_0),
    30: _Kind("BF16", 1, np.dtype("<u2"), _bf16),
}
_OTHER_KINDS = {
    6: "Q5_0",
    7: "Q5_1",
    9: "Q8_1",
    10: "Q2_K",
    11: "Q3_K",
    12: "Q4_K",
    13: "Q5_K",
    14: "Q6_K",
    15: "Q8_K",
}


@dataclass(frozen=True, slots=True)
class Tensor:
    """Location of a tensor in a file; `read` decodes the tensor."""

    name: str
    shape: tuple[int, ...]
    """Shape in numpy order, slowest-changing axis first."""
    kind: str
    """Storage type: "F32", "Q4_1" …"""
    _blocks: NDArray[Any]
    _expand: Callable[[NDArray[Any], Float32Array], None]
    _path: str

    def read(self, out: Float32Array | None = None) -> Float32Array:
        """Decode the values to float32, into a new array or into ``out``, which must be contiguous.

        Raises an error if a value is not finite.
        """
        if out is None:
            out = np.empty(self.shape, dtype=np.float32)
        scales = [name for name in self._blocks.dtype.names or () if name != "q"]
        finite = all(np.isfinite(self._blocks[name]).all() for name in scales)
        if finite and len(self._blocks):
            flat = out.reshape(len(self._blocks), -1)
            for at in range(0, len(flat), _STEP):
                self._expand(self._blocks[at : at + _STEP], flat[at : at + _STEP])
            finite = bool(scales) or bool(np.isfinite(out).all())
        if not finite:
            raise ArtifactError(f"{self._path}: tensor {self.name!r} contains infinities or NaN")
        return out


@dataclass(frozen=True, slots=True)
class GGUFFile:
    """Contents of a GGUF file."""

    path: Path
    metadata: dict[str, Any]
    tensors: dict[str, Tensor]

    def tensor(
        self, name: str, shape: tuple[int, ...], out: Float32Array | None = None
    ) -> Float32Array:
        """Decode a tensor of a given shape to float32, into a new array or into ``out``.

        Raises `ArtifactError` if the tensor is missing or has another shape.
        """
        if name not in self.tensors:
            raise ArtifactError(f"{self.path}: there is no tensor {name!r}")
        found = self.tensors[name]
        if found.shape != shape:
            raise ArtifactError(
                f"{self.path}: tensor {name!r} has the shape {found.shape}; it must be {shape}"
            )
        return found.read(out)

    def value(self, key: str, kind: type, default: Any = None) -> Any:
        """Return a metadata value; raise `ArtifactError` if it is missing or invalid."""
        found = self.metadata.get(key, default)
        if kind is float and type(found) is int:
            found = float(found)
        if type(found) is not kind:
            raise ArtifactError(
                f"{self.path}: metadata {key!r} is {str(found)[:40]!r}; it must be of type "
                f"{kind.__name__}"
            )
        return found


class _Cursor:
    """Sequential reader of a file's bytes with bounds checks."""

    def __init__(self, path: Path, data: NDArray[np.uint8]) -> None:
        self.path = path
        self.view = data.data
        self.at = 0

    def fail(self, what: str) -> NoReturn:
        raise ArtifactError(f"{self.path}: {what}; the file is not a GGUF file, or is damaged")

    def take(self, n: int) -> memoryview:
        end = self.at + n
        if end > len(self.view):
            self.fail(f"it is truncated: the header is incomplete at byte {len(self.view)}")
        piece = self.view[self.at : end]
        self.at = end
        return piece

    def number(self, layout: str) -> Any:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def count(self, what: str, least_bytes: int) -> int:
        n = int(self.number("<Q"))
        if n * least_bytes > len(self.view) - self.at:
            self.fail(f"it declares {n} {what}, more than the file can contain")
        return n

    def text(self) -> str:
        try:
            return str(self.take(int.from_bytes(self.take(8), "little")), "utf-8")
        except UnicodeDecodeError:
            self.fail(f"a string before byte {self.at} is not UTF-8")

    def value(self) -> Any:
        kind = self.number("<I")
        if kind != _ARRAY:
            return self._scalar(kind)
        inner = self.number("<I")
        if inner == _STRING:
            return self._texts(self.count("texts", 8))
        if inner not in _NUMBERS:
            self.fail(f"an array before byte {self.at} has the unknown type {inner}")
        dtype = np.dtype(_NUMBERS[inner])
        n = self.count("numbers", dtype.itemsize)
        return np.frombuffer(self.take(n * dtype.itemsize), dtype).tolist()

    def _texts(self, n: int) -> list[str]:
        """Read a vocabulary efficiently."""
        view, at, size = self.view, self.at, len(self.view)
        texts = []
        try:
            for _ in range(n):
                start = at + 8
                at = start + int.from_bytes(view[at:start], "little")
                if at > size:
                    self.take(size)
                texts.append(str(view[start:at], "utf-8"))
        except UnicodeDecodeError:
            self.fail(f"a string before byte {at} is not UTF-8")
        self.at = at
        return texts

    def _scalar(self, kind: int) -> Any:
        if kind == _STRING:
            return self.text()
        if kind not in _NUMBERS:
            self.fail(f"a value before byte {self.at} has the unknown type {kind}")
        return self.number(_NUMBERS[kind])


def read_gguf(path: str | Path) -> GGUFFile:
    """Read the metadata and tensor locations of a GGUF file.

    Versions 2 and 3 of the format are supported. Tensors are memory-mapped, not loaded. Unsupported
    tensor types are an error.

    Examples
    --------
    >>> read_gguf("absent.gguf")
    Traceback (most recent call last):
    eval_toolkit.errors.MissingFileError: absent.gguf: there is no such file
    """
    cursor, data, n_tensors, metadata = _begun(Path(path))
    heads = [_head(cursor) for _ in range(n_tensors)]
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 8 <= alignment <= 1 << 20:
        cursor.fail(f"its alignment is {alignment}")
    start = -(-cursor.at // alignment) * alignment
    tensors: dict[str, Tensor] = {}
    for name, shape, kind, offset in heads:
        if name in tensors:
            cursor.fail(f"tensor {name!r} occurs twice")
        tensors[name] = _tensor(cursor, data, name, shape, kind, start + offset)
    return GGUFFile(cursor.path, metadata, tensors)


def read_metadata(path: str | Path) -> dict[str, Any]:
    """Read only the metadata; unsupported tensor types are ignored. Raises like `read_gguf`."""
    return _begun(Path(path))[-1]


def _begun(path: Path) -> tuple[_Cursor, NDArray[np.uint8], int, dict[str, Any]]:
    """Return a cursor after the metadata, the file's bytes, the tensor count and the metadata."""
    try:
        data = np.memmap(path, dtype=np.uint8, mode="r").view(np.ndarray)
    except FileNotFoundError:
        raise MissingFileError(f"{path}: there is no such file") from None
    except (OSError, ValueError) as error:  # e.g. a folder, missing permission or an empty file
        raise ArtifactError(f"{path}: {error}") from None
    cursor = _Cursor(path, data)
    if bytes(cursor.take(4)) != b"GGUF":
        cursor.fail("it does not begin with 'GGUF'")
    version = cursor.number("<I")
    if version not in (2, 3):
        cursor.fail(f"it has version {version}; only 2 and 3 are supported")
    n_tensors = cursor.count("tensors", 24)
    n_entries = cursor.count("entries", 12)
    metadata: dict[str, Any] = {}
    for _ in range(n_entries):
        key = cursor.text()
        metadata[key] = cursor.value()
    return cursor, data, n_tensors, metadata


def _head(cursor: _Cursor) -> tuple[str, tuple[int, ...], int, int]:
    name = cursor.text()
    n = cursor.number("<I")
    if n > _MAX_DIMENSIONS:
        cursor.fail(f"tensor {name!r} has {n} dimensions")
    shape = tuple(int(cursor.number("<Q")) for _ in range(n))[::-1]
    return name, shape, int(cursor.number("<I")), int(cursor.number("<Q"))


def _tensor(
    cursor: _Cursor,
    data: NDArray[np.uint8],
    name: str,
    shape: tuple[int, ...],
    number: int,
    start: int,
) -> Tensor:
    if number not in _KINDS:
        named = _OTHER_KINDS.get(number, f"number {number}")
        readable = ", ".join(kind.name for kind in _KINDS.values())
        raise ArtifactError(
            f"{cursor.path}: tensor {name!r} is stored as {named}; only {readable} can be read"
        )
    kind = _KINDS[number]
    size = math.prod(shape)
    if size % kind.per_block or (shape and shape[-1] % kind.per_block):
        cursor.fail(f"the row length of tensor {name!r} is not a multiple of {kind.per_block}")
    end = start + size // kind.per_block * kind.dtype.itemsize
    if end > len(data):
        cursor.fail(f"tensor {name!r} ends at byte {end}, but the file has {len(data)} bytes")
    blocks = data[start:end].view(kind.dtype)
    return Tensor(name, shape, kind.name, blocks, kind.expand, str(cursor.path))
