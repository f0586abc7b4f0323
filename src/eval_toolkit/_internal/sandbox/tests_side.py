"""Test side of a test run, with proxies for the objects of the program.

Values of plain types are copied, so comparisons happen in this process. All other objects stay
with the program; a proxy has the special methods of the object's class and forwards operations
to it. A proxy never equals a plain value. The result of arithmetic between a proxy and a
plain value cannot be converted to a plain value or queried: otherwise, the program could learn the
expected value and return it. Objects of classes named in the tests are exempt, since their
arithmetic is under test. Methods by which plain values report properties of themselves (such as
``startswith`` or ``issubset``) are not called on other objects. Errors that reveal a failed test
are hidden from the program. Nothing is imported at the program's request.
"""

import ast
import contextlib
import importlib
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Generator
from types import ModuleType
from typing import Any

from eval_toolkit._internal.sandbox import values, wire
from eval_toolkit._internal.sandbox.program_names import names_needed
from eval_toolkit._internal.sandbox.program_side import (
    ARITHMETIC,
    COMPARISONS,
    CONVERSIONS,
    OPERATIONS,
    PLAIN,
)

_WRONG = (ValueError, TypeError, KeyError, IndexError, AttributeError, ImportError, OverflowError)
_MODULES = (
    *("math", "cmath", "collections", "itertools", "functools", "operator", "typing", "re", "os"),
    *("datetime", "decimal", "fractions", "statistics", "random", "json", "heapq", "bisect", "sys"),
    *("copy", "time", "hashlib", "base64", "io", "csv", "string", "textwrap", "posixpath"),
    *("numpy", "pandas"),
)
"""Standard library modules whose objects are identified by name in messages of the program."""
_ENDS = (StopIteration, StopAsyncIteration, GeneratorExit)
_TELLING = (AssertionError, AttributeError, NameError, TypeError)
"""Errors caused by unexpected values, which a program's ``__exit__`` must not suppress."""
_MADE_HERE = "__array_"
"""Prefix of the attributes through which numpy would delegate a comparison to the program."""
_CONVERTING = ("__array_interface__", "__array_struct__")
"""Attributes with that prefix that only return a plain array."""
_SAYING_YES = {
    name for kind in PLAIN for name in dir(kind) if name.startswith("is") or name.endswith("swith")
}
"""Methods by which strings, numbers and sets report properties of themselves."""


class NotSeparable(TypeError):  # noqa: N818 - as `Failed`
    """The tests need an operation that is impossible across processes."""


class _Link:
    """Connection to the program; sends requests and answers its requests."""

    def __init__(self, stream: int) -> None:
        self._stream = stream
        self._lock = threading.RLock()
        self._proxies: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}
        """Program-side numbers of proxy classes and generators, by `id`."""
        self._given: list[Any] = []
        self.mixed: set[int] = set()
        """Numbers of proxies that result from arithmetic with plain values."""
        self.tested: set[int] = set()
        """Subset of `mixed` that derives from classes named in the tests."""
        self.classes: tuple[type, ...] = ()
        """Classes of the program that the tests name."""

    def message(self) -> dict[str, Any]:
        try:
            data = wire.read(self._stream)
        except (EOFError, OSError, ValueError, RecursionError):
            os._exit(1)  # tests cannot continue without the program
        if not isinstance(data, dict):
            os._exit(1)
        return data

    def tell(self, message: dict[str, Any]) -> None:
        packed = wire.packed(message)
        try:
            wire.send(self._stream, packed)
        except OSError:
            os._exit(1)

    def ask(self, do: str, *arguments: Any, **named: Any) -> Any:
        if do not in (*ARITHMETIC, *COMPARISONS):
            self._refuse_mixed(*arguments, *named.values())
        data: dict[str, Any] = {"do": do, "args": [self.write(one) for one in arguments]}
        if named:
            data["kwargs"] = {name: self.write(one) for name, one in named.items()}
        with self._lock:
            self.tell(data)
            while "asks" in (reply := self.message()):
                self.tell(self._answer(*reply["asks"]))
            if "printed" in reply:
                sys.stdout.write(str(reply["printed"]))
            if "raised" in reply:
                raise self._error(do, *reply["raised"])
            given: dict[Any, Any] = {**dict(enumerate(arguments)), **named}
            for name, after in reply.get("changed", ()):
                _replace(given[name], self.read(after))
            value = reply["value"]
            if isinstance(value, list) and value[0] == "argument":
                return given[value[1]]
            return self.read(value)

    def _refuse_mixed(self, *arguments: Any) -> None:
        for one in arguments:
            number = self._number(one)
            if number is not None and number in self.mixed - self.tested:
                raise TypeError(_NO_PLAIN_VALUE)
            if isinstance(one, (list, tuple, set, frozenset)):
                self._refuse_mixed(*one)
            elif isinstance(one, dict):
                self._refuse_mixed(*one.keys(), *one.values())

    def _answer(
        self, do: str, number: int, arguments: list[Any], named: dict[str, Any]
    ) -> dict[str, Any]:
        """Call a function passed to the program, or advance an iterator."""
        try:
            given = self._given[number]
            if do != "call":
                return {"value": self.write(next(given))}
            positional = [self.read(one) for one in arguments]
            return {
                "value": self.write(
                    given(*positional, **{n: self.read(v) for n, v in named.items()})
                )
            }
        except NotSeparable:
            raise
        except BaseException as error:
            kinds = (kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins")
            self._given.append(error)
            return {"raised": [next(kinds), str(error), len(self._given) - 1]}

    def _error(self, do: str, what: str, number: int, *data: Any) -> BaseException:
        if what == "yours":
            return self._given[number]  # type: ignore[no-any-return]
        kind, arguments = self.read(data[0]), [self.read(one) for one in data[1]]
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            return RuntimeError(*arguments)
        if issubclass(kind, _ENDS) and do not in ("next", "send", "anext"):
            return RuntimeError(f"the program raised {kind.__name__}")
        try:
            error = kind(*arguments)
        except TypeError:  # its constructor takes other arguments than its ``args``
            error = kind.__new__(kind)
            error.args = tuple(arguments)
        with contextlib.suppress(AttributeError, TypeError):
            object.__setattr__(error, "_from_program_", True)
        if id(kind) in self._numbers:
            object.__setattr__(error, "_number_", number)
        return error

    def write(self, value: Any) -> Any:
        return values.encoded(value, self._other)

    def read(self, data: Any) -> Any:
        return values.decoded(data, self._of_program)

    def _other(self, value: Any) -> list[Any]:
        number = self._number(value)
        if number is not None:
            return ["mine", number]
        if (known := _named(value)) is not None:
            return known
        for base in PLAIN:
            if isinstance(value, base):
                return self.write(base(value))  # type: ignore[no-any-return]
        if isinstance(value, BaseException):
            kind = next(one for one in type(value).__mro__ if one.__module__ == "builtins")
            return ["raise", self.write(kind), [self.write(one) for one in value.args]]
        if not callable(value) and not hasattr(type(value), "__next__"):
            name = type(value).__name__
            raise NotSeparable(f"an object of type {name} cannot be passed to a program")
        self._given.append(value)
        if hasattr(type(value), "__next__"):
            return ["iterator", len(self._given) - 1]
        name, about = getattr(value, "__name__", "function"), getattr(value, "__doc__", None)
        return ["function", len(self._given) - 1, str(name), about if about is None else str(about)]

    def _number(self, value: Any) -> int | None:
        """Return the number of the object that a proxy represents."""
        if id(value) in self._numbers:
            return self._numbers[id(value)]
        if isinstance(value, _Proxy) or id(type(value)) in self._numbers:
            found = object.__getattribute__(value, "__dict__").get("_number_")
            return found if isinstance(found, int) else None
        return None

    def _of_program(self, data: list[Any]) -> Any:
        what, number = data[0], data[1]
        if type(number) is not int:  # the number determines whether queries are allowed
            raise ValueError(f"{number!r:.20} is not the number of an object")
        if what == "yours":
            return self._given[number]
        if number not in self._proxies:
            if what == "class":
                self._proxies[number] = self._class(*data[1:])
            elif what == "coroutine":
                return self._waited(number)
            else:
                self._proxies[number] = self._made(*data)
        return self._proxies[number]

    async def _waited(self, number: int) -> Any:
        return self.ask("await", self._made("object", number))

    def _made(self, what: str, number: int, kind: Any = None, plain: Any = None) -> Any:
        found = self.read(kind) if kind else _Proxy
        made: Any
        if what in ("generator", "async_generator"):
            there = self._made("object", number)
            made = _generated(there) if what == "generator" else _generated_later(there)
            self._numbers[id(made)] = number
            return made
        if what == "kind":
            value = self.read(plain)
            base: Any = type(value)
            if not issubclass(found, base):
                return value
            made = base.__new__(found, value)
            if isinstance(value, (list, set, dict)):
                base.__init__(made, value)
        elif what == "object":
            made = object.__new__(found if issubclass(found, _Proxy) else _Proxy)
        else:
            raise ValueError(f"unknown kind of object {what!r}")
        object.__setattr__(made, "_number_", number)
        return made

    def _class(self, number: int, name: str = "object", parents: Any = (), has: Any = ()) -> type:
        bases = []
        for base in parents:
            try:
                bases.append(self.read(base))
            except _WRONG:  # unreadable bases are skipped
                continue
        body: dict[str, Any] = {"_link_": self, "__getattr__": _Proxy.__getattr__}
        if any(issubclass(base, BaseException) for base in bases):
            body["__str__"] = _asking("str")
            made = type(str(name), tuple(bases), body)
        elif any(issubclass(base, PLAIN) for base in bases):
            made = _ProxyClass(str(name), tuple(bases), body)
        else:
            body |= {f"__{one.strip('_')}__": _SPECIAL[one] for one in has if one in _SPECIAL}
            body |= {f"__r{one.strip('_')}__": _REFLECTED[one] for one in has if one in _REFLECTED}
            body["__contains__"] = _contains if "iter" in has else _says_nothing
            made = _ProxyClass(str(name), tuple(bases) or (_Proxy,), body)
        self._numbers[id(made)] = number
        return made


def _named(value: Any) -> list[str] | None:
    """Return the import path of a standard library class or function, else None."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    if module.partition(".")[0] not in sys.stdlib_module_names:
        return None
    return ["name", module, name] if getattr(sys.modules.get(module), name, None) is value else None


def _generated(there: "_Proxy") -> Generator[Any, Any, Any]:
    sent = None
    while True:
        try:
            value = there._link_.ask("send", there, sent)
        except StopIteration as end:
            return end.value
        sent = yield value


async def _generated_later(there: "_Proxy") -> AsyncIterator[Any]:
    while True:
        try:
            value = there._link_.ask("anext", there)
        except StopAsyncIteration:
            return
        yield value


def _replace(argument: Any, after: Any) -> None:
    """Update an argument in place with the program's modified version."""
    if isinstance(argument, (list, bytearray)):
        argument[:] = after
    elif isinstance(argument, (dict, set)):
        argument.clear()
        argument.update(after)
    elif type(argument).__name__ == "ndarray":
        argument[...] = after


def _refuse_made_here(name: str, *, tested: bool) -> None:
    """Reject attributes of plain values and numpy types, except in classes under test."""
    if name.startswith(_MADE_HERE) and name not in _CONVERTING:
        raise AttributeError(name)
    if name in _SAYING_YES and not tested:
        raise AttributeError(f"{name}: not available for an object in another process")


class _ProxyClass(type):
    """Proxy for a class of the program."""

    _link_: _Link

    def __new__(mcs, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> "_ProxyClass":
        if "_link_" not in body and bases != ():
            raise NotSeparable(f"{name}: tests cannot inherit from a class of the program")
        return super().__new__(mcs, name, bases, body)

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        return cls._link_.ask("call", cls, *arguments, **named)

    def __getattr__(cls, name: str) -> Any:
        _refuse_made_here(name, tested=issubclass(cls, cls._link_.classes))
        return cls._link_.ask("getattr", cls, name)

    def __setattr__(cls, name: str, value: Any) -> None:
        cls._link_.ask("setattr", cls, name, value)

    def __iter__(cls) -> Any:
        return cls._link_.ask("iter", cls)

    def __len__(cls) -> Any:
        return cls._link_.ask("len", cls)

    def __getitem__(cls, key: Any) -> Any:
        return cls._link_.ask("getitem", cls, key)

    def __bool__(cls) -> bool:
        return True


class _Proxy:
    """Proxy for an object of the program; special methods are added by a generated class."""

    _link_: _Link
    _number_: int

    def __getattr__(self, name: str) -> Any:
        _refuse_made_here(name, tested=isinstance(self, self._link_.classes))
        return self._link_.ask("getattr", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._link_.ask("setattr", self, name, value)

    def __delattr__(self, name: str) -> None:
        self._link_.ask("delattr", self, name)

    def __dir__(self) -> Any:
        return self._link_.ask("dir", self)

    def _is_mixed(self) -> bool:
        return object.__getattribute__(self, "_number_") in self._link_.mixed

    def _mixed(self, name: str, *both: Any) -> Any:
        """Return the result of arithmetic with a plain value as a proxy."""
        link, made = self._link_, self._link_.ask(name, *both)
        if not isinstance(made, _Proxy) or isinstance(made, PLAIN):
            return NotImplemented
        number = object.__getattribute__(made, "_number_")
        link.mixed.add(number)
        if any(isinstance(one, link.classes) for one in both):
            link.tested.add(number)
        return made


_NO_PLAIN_VALUE = "the result of arithmetic with a program's object is not a plain value"


def _asking(name: str) -> Callable[..., Any]:
    def request(self: Any, *arguments: Any, **named: Any) -> Any:
        return self._link_.ask(name, self, *arguments, **named)

    return request


def _converting(name: str) -> Callable[..., Any]:
    def request(self: _Proxy, *arguments: Any) -> Any:
        if self._is_mixed():
            raise TypeError(_NO_PLAIN_VALUE)
        return self._link_.ask(name, self, *arguments)

    return request


def _comparing(name: str) -> Callable[[_Proxy, Any], Any]:
    def request(self: _Proxy, other: Any) -> Any:
        if isinstance(other, _Proxy):
            return self._link_.ask(name, self, other)
        if name in ("eq", "ne") and isinstance(other, (*PLAIN, type(None))):
            return name == "ne"
        return NotImplemented

    return request


def _calculating(name: str, *, reflected: bool) -> Callable[[_Proxy, Any], Any]:
    def request(self: _Proxy, other: Any) -> Any:
        both = (other, self) if reflected else (self, other)
        if isinstance(other, _Proxy) and not (self._is_mixed() or other._is_mixed()):
            return self._link_.ask(name, *both)
        return self._mixed(name, *both)

    return request


def _leaving(name: str) -> Callable[..., Any]:
    def request(self: _Proxy, kind: Any, error: BaseException | None, where: Any) -> Any:
        ended = self._link_.ask(name, self, *([] if error is None else [error]))
        return ended and (not isinstance(error, _TELLING) or hasattr(error, "_from_program_"))

    return request


def _later(ask: Callable[..., Any]) -> Callable[..., Any]:
    async def request(self: _Proxy, *arguments: Any) -> Any:
        return ask(self, *arguments)

    return request


def _waiting(self: _Proxy) -> Any:
    yield from ()
    return self._link_.ask("await", self)


def _contains(self: Any, item: Any) -> bool:
    return any(one is item or one == item for one in self)


def _says_nothing(self: _Proxy, item: Any) -> bool:
    raise TypeError("membership in a program's object is tested by iteration")


_SPECIAL: dict[str, Callable[..., Any]] = {
    **{name: _asking(name) for name in OPERATIONS},
    **{name: _converting(name) for name in CONVERSIONS},
    **{name: _comparing(name) for name in COMPARISONS},
    **{name: _calculating(name, reflected=False) for name in ARITHMETIC},
    "exit": _leaving("exit"),
    "aenter": _later(_asking("aenter")),
    "anext": _later(_asking("anext")),
    "aexit": _later(_leaving("aexit")),
    "await": _waiting,
}
for _own in ("getattr", "setattr", "delattr", "dir", "send"):
    del _SPECIAL[_own]
_REFLECTED = {name: _calculating(name, reflected=True) for name in ARITHMETIC}


def run_tests(source: str, module: ModuleType, stream: int) -> None:
    """Run tests after the program is loaded; return whether their last line was reached.

    Raises `NotSeparable` if the tests need an operation that requires the program's own process.
    """
    tree = ast.parse(source, "tests.py")
    code = compile(tree, "tests.py", "exec", dont_inherit=True)
    link = _Link(stream)
    _Proxy._link_ = link
    link.tell({})  # start the program
    for name, imported in names_needed(tree, link.message()["names"]).items():
        with contextlib.suppress(Exception):  # not displayable in this process
            found = _module(imported) if imported else link.ask("name", name)
            module.__dict__[name] = found
            if isinstance(found, _ProxyClass) and name[:1].isupper():
                link.classes = (*link.classes, found)
    exec(code, module.__dict__)  # noqa: S102 - purpose of this process


def _module(name: str) -> ModuleType:
    if name not in _MODULES:
        raise ImportError(f"the tests must import {name} themselves")
    return importlib.import_module(name)
