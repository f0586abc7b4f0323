"""Program side of a test run: execute requests from the tests one at a time.

Objects that cannot be serialised are numbered and referenced by number.
"""

import builtins
import importlib
import io
import operator
import os
import sys
from collections.abc import Callable
from types import AsyncGeneratorType, CoroutineType, GeneratorType, ModuleType
from typing import Any

from eval_toolkit._internal.sandbox import values, wire

PLAIN: tuple[Any, ...] = (int, float, str, bytes, tuple, list, dict, set, frozenset)
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
ARITHMETIC = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
    *("and_", "or_", "xor", "lshift", "rshift"),
    *("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul"),
    *("iand", "ior", "ixor", "ilshift", "irshift"),
)
CONVERSIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "bool": bool,
    "bytes": bytes,
    "complex": complex,
    "float": float,
    "int": int,
    "format": format,
    "hash": hash,
    "index": operator.index,
    "repr": repr,
    "round": round,
    "str": str,
    "neg": operator.neg,
    "pos": operator.pos,
    "invert": operator.invert,
}
OPERATIONS: dict[str, Callable[..., Any]] = {
    "call": lambda function, *args, **kwargs: function(*args, **kwargs),
    "getattr": getattr,
    "setattr": setattr,
    "delattr": delattr,
    "dir": dir,
    "getitem": operator.getitem,
    "setitem": operator.setitem,
    "delitem": operator.delitem,
    "len": len,
    "iter": iter,
    "next": next,
    "reversed": reversed,
    "send": lambda generator, value: generator.send(value),
    "enter": lambda manager: type(manager).__enter__(manager),
    "exit": lambda manager, *error: type(manager).__exit__(manager, *_three(*error)),
    "await": lambda awaitable: _waited_for(awaitable),
    "anext": lambda iterator: _waited_for(iterator.__anext__()),
    "aiter": lambda iterable: iterable.__aiter__(),
    "aenter": lambda manager: _waited_for(manager.__aenter__()),
    "aexit": lambda manager, *error: _waited_for(manager.__aexit__(*_three(*error))),
    **CONVERSIONS,
    **{name: getattr(operator, name) for name in (*COMPARISONS, *ARITHMETIC)},
}
_SPECIAL = {name: f"__{name.strip('_')}__" for name in OPERATIONS}
_LOOP: list[Any] = []


def _three(error: BaseException | None = None) -> tuple[Any, Any, None]:
    return (None, None, None) if error is None else (type(error), error, None)


def _waited_for(awaitable: Any) -> Any:
    if not _LOOP:
        import asyncio  # expensive to import and rarely used

        _LOOP.append(asyncio.new_event_loop())

    async def waited() -> Any:
        return await awaitable

    return _LOOP[0].run_until_complete(waited())


class _Objects:
    """Numbered objects of the program that its tests refer to."""

    def __init__(self, stream: int) -> None:
        self.stream = stream
        self._kept: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._described: set[int] = set()

    def number(self, value: Any) -> int:
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self._kept)
            self._kept.append(value)
        return self._numbers[id(value)]

    def write(self, value: Any) -> Any:
        return values.encoded(value, self._other)

    def read(self, data: Any) -> Any:
        return values.decoded(data, self._from_tests)

    def _other(self, value: Any) -> list[Any]:
        if isinstance(value, _OfTests):
            return ["yours", value.number]
        if isinstance(value, type):
            return self._class(value)
        for kind, name in _MADE_THERE.items():
            if isinstance(value, kind):
                return [name, self.number(value)]
        for base in PLAIN:
            if isinstance(value, base):
                plain = base(value) if base is not str else str.__str__(value)
                return ["kind", self.number(value), self._class(type(value)), self.write(plain)]
        return ["object", self.number(value), self._class(type(value))]

    def _class(self, kind: type) -> list[Any]:
        """Return a reference to a class; the first reference includes name, bases and methods."""
        number = self.number(kind)
        if number in self._described:
            return ["class", number]
        self._described.add(number)
        bases = [self.write(base) for base in kind.__bases__ if base is not object]
        defined = {name for one in kind.__mro__ for name in vars(one)}
        has = [name for name, special in _SPECIAL.items() if special in defined]
        return ["class", number, kind.__name__, bases, has]

    def _from_tests(self, data: list[Any]) -> Any:
        what, number = data[0], data[1]
        if what == "mine":
            return self._kept[number]
        if what == "name":
            return getattr(importlib.import_module(data[1]), data[2])
        if what == "raise":
            return self.read(data[1])(*(self.read(one) for one in data[2]))
        if what == "iterator":
            return _Iterator(number, self)
        function = _Function(number, self)
        function.__name__ = function.__qualname__ = data[2]
        function.__doc__ = data[3]
        return function

    def _raised(self, error: BaseException) -> list[Any]:
        if hasattr(error, "_of_tests_"):
            return ["yours", error._of_tests_]
        try:
            arguments = [self.write(one) for one in error.args]
        except Exception:
            arguments = [str(error)]
        return ["raise", self.number(error), self.write(type(error)), arguments]

    def request(self, do: str, number: int, *given: Any) -> Any:
        """Send a request to the tests while they wait for this program."""
        wire.write(self.stream, {"asks": [do, number, *given]})
        while True:
            reply = wire.read(self.stream)
            if "value" in reply:
                return self.read(reply["value"])
            if "raised" in reply:
                kind, text, which = reply["raised"]
                error: Any = getattr(builtins, kind, RuntimeError)(text)
                error._of_tests_ = which
                raise error
            self.answer(reply)

    def answer(self, request: dict[str, Any]) -> None:
        """Execute a request from the tests and send back the result."""
        printed = io.StringIO()
        before, sys.stdout = sys.stdout, printed
        try:
            reply = self._answered(request)
        finally:
            sys.stdout = before
        if printed.tell():
            reply["printed"] = printed.getvalue()
        wire.write(self.stream, reply)

    def _answered(self, request: dict[str, Any]) -> dict[str, Any]:
        before = {**dict(enumerate(request["args"])), **request.get("kwargs", {})}
        try:
            given = {name: self.read(one) for name, one in before.items()}
            arguments = [given[at] for at in range(len(request["args"]))]
            named = {name: given[name] for name in request.get("kwargs", ())}
            value = OPERATIONS[request["do"]](*arguments, **named)
            changed = self._changed(before, given)
            same = [name for name, one in given.items() if one is value and _is_changeable(one)]
            reply = {"value": ["argument", same[0]] if same else self.write(value)}
            return {**reply, "changed": changed} if changed else reply
        except BaseException as error:
            return {"raised": self._raised(error)}

    def _changed(self, before: dict[Any, Any], given: dict[Any, Any]) -> list[Any]:
        """Return the arguments that were modified in place, with their positions or names."""
        changed = []
        for name, argument in given.items():
            if _is_changeable(argument) and before[name][0] != "mine":
                after = self.write(argument)
                if after != before[name]:
                    changed.append([name, after])
        return changed


_MADE_THERE = {
    CoroutineType: "coroutine",
    GeneratorType: "generator",
    AsyncGeneratorType: "async_generator",
}


def _is_changeable(value: Any) -> bool:
    return isinstance(value, (list, dict, set, bytearray)) or type(value).__name__ == "ndarray"


class _OfTests:
    """Proxy for an object of the tests that the program can call or iterate over."""

    def __init__(self, number: int, objects: _Objects) -> None:
        self.number = number
        self._objects = objects


class _Function(_OfTests):
    __name__: str
    __qualname__: str

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        write = self._objects.write
        encoded = (
            [write(one) for one in arguments],
            {name: write(one) for name, one in named.items()},
        )
        return self._objects.request("call", self.number, *encoded)


class _Iterator(_OfTests):
    def __iter__(self) -> "_Iterator":
        return self

    def __next__(self) -> Any:
        return self._objects.request("next", self.number, [], {})


def serve(module: ModuleType, code: Any, stream: int) -> None:
    """Run a program, report its definitions to the tests, and answer their requests."""
    objects = _Objects(stream)
    OPERATIONS["name"] = module.__dict__.__getitem__
    sys.stdout = io.StringIO()
    wire.read(stream)  # the tests are already loaded, so changes to the folder cannot affect them
    exec(code, module.__dict__)  # noqa: S102 - purpose of this process
    wire.write(stream, {"names": _defined(module)})
    while True:
        try:
            request = wire.read(stream)
        except EOFError:
            os._exit(0)
        objects.answer(request)


def _defined(module: ModuleType) -> dict[str, str]:
    """Return the names defined by a program, with the module name for modules."""
    return {
        name: value.__name__ if isinstance(value, ModuleType) else ""
        for name, value in list(module.__dict__.items())
        if not name.startswith("__")
    }
