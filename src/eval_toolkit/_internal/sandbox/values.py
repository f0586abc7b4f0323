"""Conversion of Python values of fixed types to JSON and back, without pickle.

Used for messages between a program and its tests. Other types are delegated to ``other``, which
references objects by number. Nothing is unpickled or imported.
"""

import array
import base64
import builtins
import collections
import datetime
import decimal
import fractions
import importlib
import pathlib
import sys
import types
from collections.abc import Callable
from typing import Any

Other = Callable[[Any], Any]

_AS_THEY_ARE = (type(None), bool, str, float)
_SMALL = 1 << 63
"""Larger integers are written in hexadecimal, since decimal conversion is quadratic."""
_SEQUENCES: dict[str, type] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
_MAPPINGS: dict[str, type] = {
    "dict": dict,
    "OrderedDict": collections.OrderedDict,
    "Counter": collections.Counter,
}
_VIEWS: dict[str, tuple[type, Callable[[list[Any]], Any]]] = {
    "keys": (type({}.keys()), lambda given: dict.fromkeys(given).keys()),
    "values": (type({}.values()), lambda given: dict(enumerate(given)).values()),
    "items": (type({}.items()), lambda given: dict(given).items()),
}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _range(data: list[str]) -> range:
    start, stop, step = (int(text, 16) for text in data)
    return range(start, stop, step)


_WRITTEN: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "bytes": (bytes, _text, base64.b64decode),
    "bytearray": (bytearray, _text, lambda text: bytearray(base64.b64decode(text))),
    "complex": (complex, lambda c: [c.real, c.imag], lambda pair: complex(*pair)),
    "range": (range, lambda r: [hex(n) for n in (r.start, r.stop, r.step)], _range),
    "Decimal": (decimal.Decimal, str, decimal.Decimal),
    "Fraction": (fractions.Fraction, str, fractions.Fraction),
    "date": (datetime.date, datetime.date.isoformat, datetime.date.fromisoformat),
    "time": (
        datetime.time,
        lambda t: [t.isoformat(), t.fold],
        lambda data: datetime.time.fromisoformat(data[0]).replace(fold=data[1]),
    ),
    "datetime": (
        datetime.datetime,
        lambda t: [t.isoformat(), t.fold],
        lambda data: datetime.datetime.fromisoformat(data[0]).replace(fold=data[1]),
    ),
    "timedelta": (
        datetime.timedelta,
        lambda d: [d.days, d.seconds, d.microseconds],
        lambda data: datetime.timedelta(*data),
    ),
    "ellipsis": (type(...), lambda _: None, lambda _: ...),
    "PurePosixPath": (pathlib.PurePosixPath, str, pathlib.PurePosixPath),
    "PosixPath": (pathlib.PosixPath, str, pathlib.Path),
    "typed": (
        array.array,
        lambda a: [a.typecode, _text(a.tobytes())],
        lambda data: array.array(data[0], base64.b64decode(data[1])),
    ),
}
_WRITE_BY_TYPE = {kind: (name, write) for name, (kind, write, _) in _WRITTEN.items()}
_SEQUENCE_NAMES = {kind: name for name, kind in _SEQUENCES.items()}
_MAPPING_NAMES = {kind: name for name, kind in _MAPPINGS.items()}
_VIEW_NAMES = {kind: name for name, (kind, _) in _VIEWS.items()}

_TYPES: dict[str, type] = {
    name: kind for name, kind in vars(builtins).items() if isinstance(kind, type)
} | {"NoneType": types.NoneType}
_TYPE_NAMES = {kind: name for name, kind in reversed(_TYPES.items())}
_ERRORS = (
    *("json.decoder", "decimal", "zlib", "binascii", "struct", "queue", "re", "csv", "zipfile"),
    *("asyncio.exceptions", "concurrent.futures._base", "dataclasses", "configparser", "enum"),
    *("subprocess", "socket", "ssl", "urllib.error", "sqlite3", "copy", "statistics"),
)
"""Modules whose exceptions are identified by name on both sides."""


def encoded(value: Any, other: Other) -> Any:
    """Encode a value as JSON.

    ``other`` is called for values of other types; it must return a list whose first item is not a
    type name.
    """
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is int:
        return value if -_SMALL < value < _SMALL else ["int", hex(value)]
    if kind in _SEQUENCE_NAMES or kind in _VIEW_NAMES:
        name = _SEQUENCE_NAMES.get(kind) or _VIEW_NAMES[kind]
        return [name, [encoded(one, other) for one in value]]
    if kind in _MAPPING_NAMES:
        return [_MAPPING_NAMES[kind], _pairs(value, other)]
    if kind in _WRITE_BY_TYPE:
        name, write = _WRITE_BY_TYPE[kind]
        return [name, write(value)]
    if isinstance(value, type):
        return _encoded_type(value) or other(value)
    if kind is slice:
        return ["slice", [encoded(one, other) for one in (value.start, value.stop, value.step)]]
    if kind is collections.deque:
        return ["deque", [encoded(one, other) for one in value], value.maxlen]
    if kind is collections.defaultdict:
        return ["defaultdict", _pairs(value, other), _TYPE_NAMES.get(value.default_factory)]
    if kind.__module__ == "numpy" and "numpy" in sys.modules:
        return _encoded_array(value, other)
    return other(value)


def _pairs(value: Any, other: Other) -> list[list[Any]]:
    return [[encoded(k, other), encoded(v, other)] for k, v in value.items()]


def _encoded_type(kind: type) -> list[str] | None:
    if kind in _TYPE_NAMES:
        return ["type", _TYPE_NAMES[kind]]
    known = issubclass(kind, BaseException) and kind.__module__ in _ERRORS
    return ["error", kind.__module__, kind.__qualname__] if known else None


def _encoded_array(value: Any, other: Other) -> Any:
    numpy = sys.modules["numpy"]
    if not isinstance(value, (numpy.ndarray, numpy.generic)) or value.dtype.hasobject:
        return other(value)
    data = _text(numpy.ascontiguousarray(value).tobytes())
    single = isinstance(value, numpy.generic)
    return ["array", value.dtype.str, list(value.shape), data, single]


def decoded(data: Any, other: Callable[[list[Any]], Any]) -> Any:
    """Decode a value written by `encoded`.

    ``other`` is called for lists whose first item is not a type name. Invalid values raise
    ValueError, TypeError, KeyError or IndexError.
    """
    if not isinstance(data, list):
        return data
    name = data[0]
    if name == "int":
        return int(data[1], 16)
    if name in _SEQUENCES:
        return _SEQUENCES[name](decoded(one, other) for one in data[1])
    if name in _MAPPINGS:
        return _MAPPINGS[name]({decoded(k, other): decoded(v, other) for k, v in data[1]})
    if name in _WRITTEN:
        return _WRITTEN[name][2](data[1])
    if name in _VIEWS:
        return _VIEWS[name][1]([decoded(one, other) for one in data[1]])
    if name == "type":
        return _TYPES[data[1]]
    if name == "error":
        return _decoded_error(data[1], data[2])
    if name == "slice":
        return slice(*(decoded(one, other) for one in data[1]))
    if name == "deque":
        return collections.deque((decoded(one, other) for one in data[1]), data[2])
    if name == "defaultdict":
        pairs = {decoded(k, other): decoded(v, other) for k, v in data[1]}
        return collections.defaultdict(_TYPES[data[2]] if data[2] else None, pairs)
    if name == "array":
        return _decoded_array(*data[1:])
    return other(data)


def _decoded_error(module: str, name: str) -> type[BaseException]:
    found = getattr(importlib.import_module(module), name) if module in _ERRORS else None
    if not (isinstance(found, type) and issubclass(found, BaseException)):
        raise ValueError(f"{module}.{name} is not a known exception")
    return found


def _decoded_array(dtype: str, shape: list[int], data: str, single: bool) -> Any:
    numpy = importlib.import_module("numpy")
    kind = numpy.dtype(dtype)
    if kind.hasobject:
        raise ValueError("arrays of objects are not supported")
    made = numpy.frombuffer(base64.b64decode(data), kind).reshape(shape).copy()
    return made[()] if single else made
