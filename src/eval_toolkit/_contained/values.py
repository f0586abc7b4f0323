"""Values of Python as JSON and back, by a closed list of types; nothing is unpickled.

What the tests of a program and the program say to each other. A type that is not listed is left to
`other`: the two sides know objects by numbers.
"""

import base64
import collections
import datetime
import decimal
import fractions
import sys
from collections.abc import Callable
from importlib import import_module
from types import BuiltinFunctionType, FunctionType
from typing import Any

__all__ = ["decoded", "encoded", "named", "resolved"]

_AS_THEY_ARE = (type(None), bool, str, float)
_SMALL = 1 << 63
"""Longer whole numbers are written in base 16: the decimal ones have a limit, and take squares."""
_SEQUENCES = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
_MAPPINGS = {
    "dict": dict,
    "OrderedDict": collections.OrderedDict,
    "Counter": collections.Counter,
}
_TEXTS: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "bytes": (bytes, lambda b: base64.b64encode(b).decode(), base64.b64decode),
    "bytearray": (
        bytearray,
        lambda b: base64.b64encode(b).decode(),
        lambda text: bytearray(base64.b64decode(text)),
    ),
    "complex": (complex, lambda c: [c.real, c.imag], lambda pair: complex(*pair)),
    "range": (
        range,
        lambda r: [hex(n) for n in (r.start, r.stop, r.step)],
        lambda told: _range(told),
    ),
    "Decimal": (decimal.Decimal, str, decimal.Decimal),
    "Fraction": (fractions.Fraction, str, fractions.Fraction),
    "date": (datetime.date, datetime.date.isoformat, datetime.date.fromisoformat),
    "time": (
        datetime.time,
        lambda t: [t.isoformat(), t.fold],
        lambda told: datetime.time.fromisoformat(told[0]).replace(fold=told[1]),
    ),
    "datetime": (
        datetime.datetime,
        lambda t: [t.isoformat(), t.fold],
        lambda told: datetime.datetime.fromisoformat(told[0]).replace(fold=told[1]),
    ),
    "timedelta": (
        datetime.timedelta,
        lambda d: [d.days, d.seconds, d.microseconds],
        lambda told: datetime.timedelta(*told),
    ),
    "ellipsis": (type(...), lambda _: None, lambda _: ...),
}
_NAMEABLE = (type, FunctionType, BuiltinFunctionType)
_OF_TESTS = ("unittest", "doctest", "test")
"""What they have decides what passes: an error that skips a test, an object that equals everything."""
_BY_TYPE = {kind: (name, write) for name, (kind, write, _) in _TEXTS.items()}
_NAME_OF: dict[type, str] = {kind: name for name, kind in (_SEQUENCES | _MAPPINGS).items()}


def _range(told: list[str]) -> range:
    start, stop, step = (int(text, 16) for text in told)
    return range(start, stop, step)


def encoded(value: Any, other: Callable[[Any], Any]) -> Any:
    """Return a value as JSON.

    Parameters
    ----------
    value : object
        Any.
    other : callable
        Is given what has no type of the list; returns a list whose first entry is no name of it.
    """
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is int:
        return value if -_SMALL < value < _SMALL else ["int", hex(value)]
    if kind in _BY_TYPE:
        name, write = _BY_TYPE[kind]
        return [name, write(value)]
    if kind in _NAME_OF:
        name = _NAME_OF[kind]
        if name in _SEQUENCES:
            return [name, [encoded(one, other) for one in value]]
        return [name, [[encoded(k, other), encoded(v, other)] for k, v in value.items()]]
    if kind is collections.deque:
        return ["deque", [encoded(one, other) for one in value], value.maxlen]
    if kind is collections.defaultdict:
        factory = named(value.default_factory)
        pairs = [[encoded(k, other), encoded(v, other)] for k, v in value.items()]
        return ["defaultdict", pairs, factory]
    if kind.__module__ == "numpy" and "numpy" in sys.modules:
        return _encoded_array(value, other)
    return other(value)


def _encoded_array(value: Any, other: Callable[[Any], Any]) -> Any:
    numpy = sys.modules["numpy"]
    if not isinstance(value, (numpy.ndarray, numpy.generic)) or value.dtype.hasobject:
        return other(value)
    array = numpy.ascontiguousarray(value)
    data = base64.b64encode(array.tobytes()).decode()
    single = isinstance(value, numpy.generic)
    return ["array", value.dtype.str, list(value.shape), data, single]


def decoded(told: Any, other: Callable[[list[Any]], Any]) -> Any:
    """Return the value that `encoded` wrote.

    Parameters
    ----------
    told : object
        From JSON; whatever does not fit raises ValueError, TypeError, KeyError or IndexError.
    other : callable
        Is given lists whose first entry is none of the names here.
    """
    if not isinstance(told, list):
        return told
    name = told[0]
    if name == "int":
        return int(told[1], 16)
    if name in _TEXTS:
        return _TEXTS[name][2](told[1])
    if name in _SEQUENCES:
        return _SEQUENCES[name](decoded(one, other) for one in told[1])
    if name in _MAPPINGS:
        return _MAPPINGS[name]({decoded(k, other): decoded(v, other) for k, v in told[1]})
    if name == "deque":
        return collections.deque((decoded(one, other) for one in told[1]), told[2])
    if name == "defaultdict":
        factory = resolved(told[2], types=True) if told[2] else None
        pairs = {decoded(k, other): decoded(v, other) for k, v in told[1]}
        return collections.defaultdict(factory, pairs)
    if name == "array":
        return _decoded_array(*told[1:])
    return other(told)


def _decoded_array(dtype: str, shape: list[int], data: str, single: bool) -> Any:
    numpy = import_module("numpy")
    kind = numpy.dtype(dtype)
    if kind.hasobject:
        raise ValueError("an array of objects")
    array = numpy.frombuffer(base64.b64decode(data), kind).reshape(shape).copy()
    return array[()] if single else array


def named(value: Any) -> list[str] | None:
    """Return where the standard library has a class or function, or that it is a module; else None."""
    if isinstance(value, type(sys)):
        return ["module", value.__name__]
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    if module != "builtins" and module.partition(".")[0] not in sys.stdlib_module_names:
        return None
    return ["name", module, name] if getattr(sys.modules.get(module), name, None) is value else None


def resolved(told: list[str], *, types: bool) -> Any:
    """Return what `named` named.

    Parameters
    ----------
    told : list of str
        As `named` returns it.
    types : bool
        Whether it must be one of the built-in types, or an exception.
    """
    if told[0] == "module" and not types:
        return import_module(told[1])
    package = told[1].partition(".")[0]
    if told[0] != "name" or package not in sys.stdlib_module_names or package in _OF_TESTS:
        raise ValueError(f"{told[1]} is not in the standard library, or is about tests")
    module = import_module(told[1])
    value = getattr(module, told[2])
    plain = isinstance(value, type) and (told[1] == "builtins" or issubclass(value, BaseException))
    if not (plain or (not types and isinstance(value, _NAMEABLE))):
        raise ValueError(f"{told[2]} is no built-in type")
    return value
