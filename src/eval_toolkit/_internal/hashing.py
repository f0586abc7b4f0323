"""Hashes of files, strings, JSON, rows and objects."""

import copyreg
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from eval_toolkit._internal.files import open_regular
from eval_toolkit._internal.json_writing import json_writer

_CHUNK = 1 << 20

_SCALARS = (type(None), bool, int, float, complex, str, bytes)
_VOLATILE = frozenset({"_stop_words_id", "cv_results_", "refit_time_"})
"""Attributes of scikit-learn objects that contain memory addresses or timings."""


def sha256_text(text: str) -> str:
    """Return the SHA-256 hash of a string in UTF-8; lone surrogates are allowed."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def sha256_file(path: str | Path) -> str:
    """Return the SHA-256 hash of a file, which is read in chunks."""
    digest = hashlib.sha256()
    with open_regular(path) as stream:
        while piece := stream.read(_CHUNK):
            digest.update(piece)
    return digest.hexdigest()


def _plain(value: Any) -> Any:
    """Return a JSON value for an object: arrays in full, other types as strings."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


_CANONICAL = json_writer(sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=_plain)
_OF_CONTENT = json_writer(sort_keys=True, ensure_ascii=False)


def canonical_json(payload: Any) -> str:
    """Return compact JSON with sorted keys, so equal payloads give equal strings."""
    return _CANONICAL(payload)


def canonical_value(value: Any) -> Any:
    """Return a value in JSON types; equal numbers become identical, so 1.0 becomes 1.

    A column of integers becomes float if one value is missing, but the identity of a row must not
    depend on other rows.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else float(value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, (dict, Mapping)):  # fast path for dicts
        return {key: canonical_value(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [canonical_value(inner) for inner in value]
    return canonical_value(value.tolist()) if hasattr(value, "tolist") else str(value)


def content_hash(item: Any, target: Any) -> str:
    """Return the identity of a unit: the SHA-256 hash of its canonical raw input and target."""
    pair = [canonical_value(item), canonical_value(target)]
    return sha256_text(_OF_CONTENT(pair))


def unit_ids(hashes: Sequence[str], *tie_breakers: Iterable[Any]) -> list[str]:
    """Return the first 16 digits of each row's content hash, with ~2, ~3 … for equal rows.

    Equal rows are numbered in the order of the keys in ``tie_breakers``, then by position.
    """
    keys = list(zip(hashes, *tie_breakers, strict=True))
    seen: dict[str, int] = {}
    ids = [""] * len(keys)
    for row in sorted(range(len(keys)), key=keys.__getitem__):
        digest = hashes[row]
        seen[digest] = seen.get(digest, 0) + 1
        ids[row] = digest[:16] + (f"~{seen[digest]}" if seen[digest] > 1 else "")
    return ids


def object_digest(value: Any) -> str | None:
    """Return a SHA-256 digest of an object's state that is the same in every process.

    The state is what `copy.copy` would copy; nothing is pickled. Named functions and classes are
    identified by name, lambdas and local functions by their code.

    Returns None if the state cannot be determined.
    """
    try:
        return _digest(value, ()).hex()
    except Exception:  # arbitrary objects are reduced here and may raise anything
        return None


def _digest(value: Any, within: tuple[int, ...]) -> bytes:
    if id(value) in within:
        return _joined("again", [str(len(within) - within.index(id(value))).encode()])
    if isinstance(value, np.generic):
        value = value.item()
    kind = type(value)
    if kind in _SCALARS:
        return _joined(kind.__name__, [repr(value).encode()])
    inside = (*within, id(value))
    if isinstance(value, np.ndarray):
        return _array_digest(value, inside)
    tag, parts = _components(value)
    if isinstance(parts, dict):
        if all(type(key) is str and type(inner) in _SCALARS for key, inner in parts.items()):
            return _joined(tag, [repr(sorted(parts.items())).encode()])  # a vocabulary is large
        pairs = [_digest(key, inside) + _digest(inner, inside) for key, inner in parts.items()]
        return _joined(tag, sorted(pairs))
    if isinstance(parts, (set, frozenset)):
        return _joined(tag, sorted(_digest(inner, inside) for inner in parts))
    return _joined(tag, [_digest(inner, inside) for inner in parts])


def _joined(tag: str, pieces: Iterable[Any]) -> bytes:
    digest = hashlib.sha256(tag.encode())
    for piece in pieces:
        digest.update(b"|%d|" % memoryview(piece).nbytes)
        digest.update(piece)
    return digest.digest()


def _array_digest(array: np.ndarray[Any, Any], inside: tuple[int, ...]) -> bytes:
    shape = repr(array.shape).encode()
    if isinstance(array, np.ma.MaskedArray):
        parts = (np.ma.getmaskarray(array), array.filled())
        return _joined("masked", [_digest(part, inside) for part in parts])
    if array.dtype.names:  # field by field: padding bytes are uninitialised memory
        fields = [_digest(array[name], inside) for name in array.dtype.names]
        return _joined(f"fields {array.dtype.names}", [shape, *fields])
    if array.dtype.hasobject:
        return _joined("objects", [shape, *(_digest(item, inside) for item in array.ravel())])
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return _joined(f"array {array.dtype.str}", [shape, data])


def _components(value: Any) -> tuple[str, Any]:
    """Return an object's type name and components."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if type(value) in (dict, list, tuple, set, frozenset):
        return kind, value
    if isinstance(value, type):
        return "class", [value.__module__, value.__qualname__]
    if isinstance(value, FunctionType):
        named = [value.__module__, value.__qualname__]
        if "<" not in value.__qualname__:
            return "function", named
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return "function", [*named, value.__code__, cells, value.__defaults__, value.__kwdefaults__]
    if isinstance(value, CodeType):
        return "code", [value.co_code, value.co_consts, value.co_names, value.co_varnames]
    if kind.startswith("scipy.sparse."):
        rows = value.tocsr(copy=True)  # its cached flags change with use
        rows.sum_duplicates()
        return "sparse", [rows.shape, rows.data, rows.indices, rows.indptr]
    if hasattr(value, "detach"):  # a torch tensor
        return kind, [value.detach().cpu().numpy()]
    if value is np.random.mtrand._rand:  # differs between processes and after every use
        return "numpy's global generator", []
    if hasattr(value, "get_arrays"):  # a KD or ball tree, which counts its queries
        return kind, value.get_arrays()
    reducer = copyreg.dispatch_table.get(type(value))
    made = value.__reduce_ex__(4) if reducer is None else reducer(value)
    if isinstance(made, str):
        return kind, [made]
    how, arguments, state, items, pairs = (*made, None, None, None)[:5]
    if isinstance(state, dict):
        state = {name: inner for name, inner in state.items() if name not in _VOLATILE}
    return kind, [how, arguments, state, list(items or ()), dict(pairs or ())]
