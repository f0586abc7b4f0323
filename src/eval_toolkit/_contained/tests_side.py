"""The tests' side: runs them in a process of its own, with stand-ins for what the program defines.

Values of plain types come as they are, so that what is compared is compared here. Every other object
stays with the program; its stand-in passes on calls, attributes and items. A stand-in equals no plain
value, and takes part in no arithmetic with one: the program would decide what comes of it.
"""

import ast
import builtins
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from eval_toolkit._contained import values, wire
from eval_toolkit._contained.program_side import OPERATIONS, PLAIN, TWO

__all__ = ["run_tests"]

_WRONG = (ValueError, TypeError, KeyError, IndexError, AttributeError, ImportError, OverflowError)


class _Link:
    """Asks the program, and answers what it asks meanwhile."""

    def __init__(self, stream: int) -> None:
        self._stream = stream
        self._stand_ins: dict[int, Any] = {}
        self._numbers: dict[type, int] = {}
        self._given: list[Any] = []

    def message(self) -> dict[str, Any]:
        try:
            told = wire.read(self._stream)
        except (EOFError, OSError, ValueError, RecursionError):
            os._exit(1)  # no test can go on without the program, nor forgive that it has ended
        if not isinstance(told, dict):
            os._exit(1)
        return told

    def begin(self) -> None:
        """Let the program run."""
        self._tell({})

    def _tell(self, message: dict[str, Any]) -> None:
        packed = wire.packed(message)
        try:
            wire.send(self._stream, packed)
        except OSError:
            os._exit(1)

    def ask(self, do: str, *arguments: Any, **named: Any) -> Any:
        told: dict[str, Any] = {"do": do, "args": [self.write(one) for one in arguments]}
        if named:
            told["kwargs"] = {name: self.write(one) for name, one in named.items()}
        self._tell(told)
        while "asks" in (reply := self.message()):
            self._tell(self._answer(*reply["asks"]))
        if "printed" in reply:
            sys.stdout.write(str(reply["printed"]))
        if "raised" in reply:
            raise self._error(*reply["raised"])
        for position, after in reply.get("changed", ()):
            _replace(arguments[position], self.read(after))
        return self.read(reply["value"])

    def _answer(self, do: str, number: int, arguments: list[Any]) -> dict[str, Any]:
        """Call one of the functions that the program was given, or go on with an iterator."""
        try:
            given = self._given[number]
            told = [self.read(one) for one in arguments]
            return {"value": self.write(given(*told) if do == "call" else next(given))}
        except BaseException as error:
            kinds = (kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins")
            return {"raised": [next(kinds), str(error)]}

    def _error(self, kind: Any, arguments: list[Any]) -> BaseException:
        found, told = self.read(kind), [self.read(one) for one in arguments]
        if not (isinstance(found, type) and issubclass(found, BaseException)):
            return RuntimeError(*told)
        try:
            return found(*told)
        except TypeError:  # it takes other arguments than it keeps
            error = found.__new__(found)
            error.args = tuple(told)
            return error

    def write(self, value: Any) -> Any:
        return values.encoded(value, self._other)

    def read(self, told: Any) -> Any:
        return values.decoded(told, self._of_program)

    def _other(self, value: Any) -> list[Any]:
        if isinstance(value, type) and value in self._numbers:
            return ["mine", self._numbers[value]]
        if type(value) in self._numbers and hasattr(value, "_number_"):
            return ["mine", object.__getattribute__(value, "_number_")]
        if isinstance(value, _StandIn):
            return ["mine", object.__getattribute__(value, "_number_")]
        if (known := values.named(value)) is not None:
            return known
        for base in PLAIN:
            if isinstance(value, base):
                plain: Any = base(value)
                return self.write(plain)  # type: ignore[no-any-return]
        kind = "iterator" if hasattr(type(value), "__next__") else "function"
        if kind == "function" and not callable(value):
            raise TypeError(
                f"an object of the type {type(value).__name__} cannot be passed to a program"
            )
        self._given.append(value)
        return [kind, len(self._given) - 1]

    def _of_program(self, told: list[Any]) -> Any:
        what, number = told[0], told[1]
        if what == "yours":
            return self._given[number]
        if what in ("name", "module"):
            return values.resolved(told, types=True)
        if what == "coroutine":
            return self._waited(number)
        if number not in self._stand_ins:
            self._stand_ins[number] = self._class(told) if what == "class" else self._made(*told)
        return self._stand_ins[number]

    async def _waited(self, number: int) -> Any:
        return self.ask("await", self._made("object", number, []))

    def _made(self, what: str, number: int, kind: list[Any], plain: Any = None) -> Any:
        found = self._class_or_none(kind) or _StandIn
        made: Any
        if what == "kind":
            value = self.read(plain)
            base: Any = type(value)
            if not issubclass(found, base):
                return value
            made = base.__new__(found, value)
            if isinstance(value, (list, set, dict)):
                base.__init__(made, value)
        else:
            made = object.__new__(found if issubclass(found, _StandIn) else _StandIn)
        object.__setattr__(made, "_number_", number)
        return made

    def _class_or_none(self, told: list[Any]) -> type | None:
        found = self.read(told) if told[:1] == ["class"] else None
        return found if isinstance(found, type) else None

    def _class(self, told: list[Any]) -> type:
        _, number, name, told_bases = told
        bases = []
        for base in told_bases:
            try:
                bases.append(self.read(base))
            except _WRONG:  # of the standard library, but no plain type: nothing here depends on it
                continue
        body: dict[str, Any] = {}
        if any(issubclass(base, BaseException) for base in bases):
            made = type(str(name), tuple(bases), body)
        elif plain := [base for base in bases if issubclass(base, PLAIN)]:
            body["__getattr__"] = lambda self, name: self._link_.ask("getattr", self, name)
            body["_link_"] = self
            made = _StandInClass(str(name), tuple(plain), body)
        else:
            body["_number_"], body["_link_"] = number, self
            made = _StandInClass(str(name), tuple(bases) or (_StandIn,), body)
        self._numbers[made] = number
        return made


def _replace(argument: Any, after: Any) -> None:
    """Make an argument what the program has made of it."""
    if isinstance(argument, (list, bytearray)):
        argument[:] = after
    elif isinstance(argument, (dict, set)):
        argument.clear()
        argument.update(after)


class _StandInClass(type):
    """A class of the program: made there, and asked there for its attributes."""

    _link_: _Link

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        return cls._link_.ask("call", cls, *arguments, **named)

    def __getattr__(cls, name: str) -> Any:
        return cls._link_.ask("getattr", cls, name)

    def __iter__(cls) -> Any:
        return cls._link_.ask("iter", cls)

    def __len__(cls) -> Any:
        return cls._link_.ask("len", cls)

    def __getitem__(cls, key: Any) -> Any:
        return cls._link_.ask("getitem", cls, key)

    def __bool__(cls) -> bool:
        return True


class _StandIn:
    """An object of the program."""

    _link_: _Link
    _number_: int

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._link_.ask("call", self, *arguments, **named)

    def __getattr__(self, name: str) -> Any:
        return self._link_.ask("getattr", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._link_.ask("setattr", self, name, value)

    def __delattr__(self, name: str) -> None:
        self._link_.ask("delattr", self, name)

    def __exit__(self, *_: object) -> Any:
        return self._link_.ask("exit", self)

    def __await__(self) -> Any:
        yield from ()
        return self._link_.ask("await", self)

    def __dir__(self) -> Any:
        return self._link_.ask("dir", self)

    def __contains__(self, item: Any) -> bool:
        return any(one is item or one == item for one in self)  # type: ignore[attr-defined]


def _asking(name: str) -> Callable[..., Any]:
    def asked(self: _StandIn, *arguments: Any) -> Any:
        return self._link_.ask(name, self, *arguments)

    return asked


def _between_two(name: str) -> Callable[[_StandIn, Any], Any]:
    def asked(self: _StandIn, other: Any) -> Any:
        if not isinstance(other, _StandIn):
            return NotImplemented
        return self._link_.ask(name, self, other)

    return asked


_BY_THEMSELVES = {"call", "getattr", "setattr", "delattr", "exit", "await", "dir", *TWO}
for _name in OPERATIONS:
    if _name not in _BY_THEMSELVES:
        setattr(_StandIn, f"__{_name}__", _asking(_name))
for _name in TWO:
    setattr(_StandIn, f"__{_name.strip('_')}__", _between_two(_name))


def run_tests(source: str, module: ModuleType, stream: int) -> None:
    """Run tests once the program is there; return if their last line was reached.

    Parameters
    ----------
    source : str
        Python code.
    module : module
        In which it runs.
    stream : int
        To and from the program.
    """
    tree = ast.parse(source, "tests.py")
    code = compile(tree, "tests.py", "exec", dont_inherit=True)
    link = _Link(stream)
    _StandIn._link_ = link
    link.begin()
    told = link.message()
    for name, value in _needed(tree, told["names"]).items():
        try:
            known = value[0] in ("name", "module") if isinstance(value, list) else False
            found = values.resolved(value, types=False) if known else link.read(value)
        except _WRONG:  # nothing that can be shown here
            continue
        module.__dict__[name] = found
    exec(code, module.__dict__)  # noqa: S102 - it is what this process is for


def _needed(tree: ast.AST, names: dict[str, Any]) -> dict[str, Any]:
    """Return the names of a program that its tests may use.

    What Python has built in is Python's, unless the tests use no other name of the program: then
    the function they test bears such a name. A module of the standard library is itself.
    """
    nodes = list(ast.walk(tree))
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    defined = {node.id for node in nodes if isinstance(node, ast.Name) and _is_set(node)}
    names = {name: value for name, value in names.items() if not name.startswith("__")}
    own = {name: value for name, value in names.items() if not hasattr(builtins, name)}
    asked = (one.value for one in nodes if isinstance(one, ast.Attribute))
    for name in {one.id for one in asked if isinstance(one, ast.Name)} & own.keys():
        if name in sys.stdlib_module_names and not _is_module(own[name]):
            own[name] = ["module", name]
    return own if own.keys() & (used - defined) else names


def _is_set(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _is_module(told: Any) -> bool:
    return isinstance(told, list) and told[0] == "module"
