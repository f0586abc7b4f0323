"""The program's side of its tests: does what it is asked, one thing at a time, until there is no more.

Objects that cannot be sent are numbered, and asked for by their numbers.
"""

import builtins
import contextlib
import io
import operator
import os
import sys
from collections.abc import Callable
from types import CoroutineType, ModuleType
from typing import Any

from eval_toolkit._contained import values, wire

__all__ = ["serve"]

PLAIN: tuple[Any, ...] = (int, float, str, bytes, tuple, list, dict, set, frozenset)
OPERATIONS: dict[str, Callable[..., Any]] = {
    "call": lambda function, *args, **kwargs: function(*args, **kwargs),
    "getattr": getattr,
    "setattr": setattr,
    "delattr": delattr,
    "getitem": operator.getitem,
    "setitem": operator.setitem,
    "delitem": operator.delitem,
    "len": len,
    "iter": iter,
    "next": next,
    "str": str,
    "repr": repr,
    "format": format,
    "bytes": bytes,
    "hash": hash,
    "bool": bool,
    "int": int,
    "float": float,
    "complex": complex,
    "index": operator.index,
    "round": round,
    "dir": dir,
    "reversed": reversed,
    "abs": abs,
    "neg": operator.neg,
    "pos": operator.pos,
    "invert": operator.invert,
    "enter": lambda manager: type(manager).__enter__(manager),
    "exit": lambda manager: type(manager).__exit__(manager, None, None, None),
    "await": lambda awaitable: _awaited(awaitable),
}
"""What can be done with an object whatever else is there …"""
TWO = (
    *("eq", "ne", "lt", "le", "gt", "ge", "add", "sub", "mul", "truediv", "floordiv", "mod", "pow"),
    *("matmul", "and_", "or_", "xor", "lshift", "rshift"),
)
"""… and what with two objects of the program."""
OPERATIONS.update({name: getattr(operator, name) for name in TWO})


def _awaited(awaitable: Any) -> Any:
    import asyncio

    async def waited() -> Any:
        return await awaitable

    return asyncio.run(waited())


class _Objects:
    """The objects of the program that its tests know, by number."""

    def __init__(self, stream: int) -> None:
        self.stream = stream
        self._kept: list[Any] = []
        self._numbers: dict[int, int] = {}

    def number(self, value: Any) -> int:
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self._kept)
            self._kept.append(value)
        return self._numbers[id(value)]

    def write(self, value: Any) -> Any:
        return values.encoded(value, self._other)

    def read(self, told: Any) -> Any:
        return values.decoded(told, self._from_tests)

    def _other(self, value: Any) -> list[Any]:
        if isinstance(value, _OfTests):
            return ["yours", value.number]
        if isinstance(value, type):
            return values.named(value) or self.of_class(value)
        if isinstance(value, CoroutineType):
            return ["coroutine", self.number(value)]
        for base in PLAIN:
            if isinstance(value, base):
                plain = base(value) if base is not str else str.__str__(value)
                return ["kind", self.number(value), self.of_class(type(value)), self.write(plain)]
        return ["object", self.number(value), self.of_class(type(value))]

    def of_class(self, kind: type) -> Any:
        known = values.named(kind)
        if known:
            return known
        bases = [self.of_class(base) for base in kind.__bases__ if base is not object]
        return ["class", self.number(kind), kind.__name__, bases]

    def _from_tests(self, told: list[Any]) -> Any:
        what, number = told[0], told[1]
        if what == "mine":
            return self._kept[number]
        if what in ("name", "module"):
            return values.resolved(told, types=False)
        return {"function": _Function, "iterator": _Iterator}[what](number, self)

    def raised(self, error: BaseException) -> list[Any]:
        try:
            arguments = [self.write(one) for one in error.args]
        except Exception:
            arguments = [str(error)]
        return [self.of_class(type(error)), arguments]

    def asked(self, message: list[Any]) -> Any:
        """Ask the tests for something while they wait for this program."""
        wire.write(self.stream, {"asks": message})
        while True:
            reply = wire.read(self.stream)
            if "value" in reply:
                return self.read(reply["value"])
            if "raised" in reply:
                kind, text = reply["raised"]
                raise getattr(builtins, kind, RuntimeError)(text)
            self.answer(reply)

    def answer(self, request: dict[str, Any]) -> None:
        """Do what the tests ask for and tell them what came of it."""
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
        try:
            arguments = [self.read(one) for one in request["args"]]
            named = {name: self.read(one) for name, one in request.get("kwargs", {}).items()}
            value = OPERATIONS[request["do"]](*arguments, **named)
            reply = {"value": self.write(value)}
            changed = self._changed(request["args"], arguments)
            return {**reply, "changed": changed} if changed else reply
        except BaseException as error:
            return {"raised": self.raised(error)}

    def _changed(self, told: list[Any], arguments: list[Any]) -> list[Any]:
        """Return the arguments that were changed in their place, with their positions."""
        changed = []
        for position, (before, argument) in enumerate(zip(told, arguments, strict=True)):
            if isinstance(argument, (list, dict, set, bytearray)) and before[0] != "mine":
                after = self.write(argument)
                if after != before:
                    changed.append([position, after])
        return changed


class _OfTests:
    """An object of the tests: this side can call it, or take the next value of it."""

    def __init__(self, number: int, objects: _Objects) -> None:
        self.number = number
        self._objects = objects


class _Function(_OfTests):
    def __call__(self, *arguments: Any) -> Any:
        told = [self._objects.write(one) for one in arguments]
        return self._objects.asked(["call", self.number, told])


class _Iterator(_OfTests):
    def __iter__(self) -> "_Iterator":
        return self

    def __next__(self) -> Any:
        return self._objects.asked(["next", self.number, []])


def _defined(module: ModuleType, objects: _Objects) -> dict[str, Any]:
    """Return what a program has defined; what cannot be sent is left out."""
    names = {}
    for name, value in list(module.__dict__.items()):
        if not (name.startswith("__") and name.endswith("__")):
            with contextlib.suppress(Exception):
                names[name] = values.named(value) or objects.write(value)
    return names


def serve(module: ModuleType, code: Any, stream: int) -> None:
    """Run a program, tell its tests what it defines, and answer them.

    Parameters
    ----------
    module : module
        In which it runs.
    code : code
        Of the program.
    stream : int
        To and from the tests.
    """
    objects = _Objects(stream)
    sys.stdout = io.StringIO()
    wire.read(
        stream
    )  # the tests are where they have to be: what this does to the folder comes later
    exec(code, module.__dict__)  # noqa: S102 - it is what this process is for
    wire.write(stream, {"names": _defined(module, objects)})
    while True:
        try:
            request = wire.read(stream)
        except EOFError:
            os._exit(0)
        objects.answer(request)
