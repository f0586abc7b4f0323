"""Safe parsing of pickles into plain containers.

A pickle is a program that may call arbitrary code. This parser supports only the instructions that
build numbers, strings and dictionaries and never imports anything: dictionary classes of the
standard library become plain dictionaries, a single object of an expected class becomes its
attributes, and anything else is rejected.
"""

import pickletools
from collections.abc import Callable
from typing import Any

from eval_toolkit.errors import ModelError

_MARK = object()
_DICTIONARIES = {
    ("collections", "OrderedDict"): (),
    ("collections", "defaultdict"): (("builtins", "int"),),
}
"""Supported dictionary classes and their permitted arguments."""


class _Name(tuple[str, str]):
    """Module and name of a global, which is never imported."""

    __slots__ = ()


def read_attributes(data: bytes, expected: str) -> dict[str, Any]:
    """Parse a pickle of a single object and return its attributes as plain containers.

    ``expected`` is the class of the object, as ``module.name``. Only numbers, strings, None and
    dictionaries of these are supported; anything else raises `ModelError`.

    Examples
    --------
    >>> import pickle
    >>> read_attributes(pickle.dumps(print, 4), "package.Class")
    Traceback (most recent call last):
    eval_toolkit.errors.ModelError: a pickle was rejected at byte 30: the name builtins.print
    """
    machine = _Machine(expected)
    position = 0
    try:
        for opcode, argument, at in pickletools.genops(data):
            position = at or 0
            step = _STEPS.get(opcode.name)
            if step is None:
                raise _RefusedError(opcode.name)
            step(machine, argument)
        return machine.result()
    except _RefusedError as error:
        reason = str(error)
    except (ValueError, IndexError, KeyError, TypeError) as error:
        reason = f"{type(error).__name__}: {error}"
    raise ModelError(f"a pickle was rejected at byte {position}: {reason}", kind="garbled")


class _RefusedError(Exception):
    """Raised for unsupported content of a pickle."""


class _Machine:
    """Stack machine that executes the supported instructions."""

    def __init__(self, expected: str) -> None:
        module, _, name = expected.rpartition(".")
        self.expected = (module, name)
        self.stack: list[Any] = []
        self.memory: list[Any] = []
        self.built: dict[str, Any] | None = None

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def name(self, _: Any) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if not (isinstance(name, str) and isinstance(module, str)):
            raise _RefusedError("a name that is not a string")
        known = (*_DICTIONARIES, ("builtins", "int"), self.expected)
        if (module, name) not in known:
            raise _RefusedError(f"the name {module}.{name}")
        self.push(_Name((module, name)))

    def call(self, _: Any) -> None:
        arguments, called = self.stack.pop(), self.stack.pop()
        wanted = _DICTIONARIES.get(called) if isinstance(called, _Name) else None
        if wanted is None or arguments != wanted:
            what = ".".join(called) if isinstance(called, _Name) else type(called).__name__
            raise _RefusedError(f"REDUCE of {what}")
        self.push({})

    def make(self, _: Any) -> None:
        arguments, made = self.stack.pop(), self.stack.pop()
        if not isinstance(made, _Name) or made != self.expected or arguments != ():
            raise _RefusedError("NEWOBJ of another class")
        if self.built is not None:
            raise _RefusedError("a second object")
        self.built = {}
        self.push(self.built)

    def build(self, _: Any) -> None:
        state = self.stack.pop()
        if self.built is None or self.stack[-1] is not self.built or not isinstance(state, dict):
            raise _RefusedError("BUILD of another object")
        self.built.update(state)

    def set_items(self, _: Any) -> None:
        at = len(self.stack) - 1
        while self.stack[at] is not _MARK:
            at -= 1
        items, target = self.stack[at + 1 :], self.stack[at - 1]
        if at < 1 or not isinstance(target, dict) or len(items) % 2:
            raise _RefusedError("SETITEMS of something other than a dictionary")
        target.update(zip(items[::2], items[1::2], strict=True))
        del self.stack[at:]

    def result(self) -> dict[str, Any]:
        if self.built is None or len(self.stack) != 1 or self.stack[0] is not self.built:
            raise _RefusedError("it does not end with the object")
        return self.built


def _pushed(value: Any) -> Callable[[_Machine, Any], None]:
    return lambda machine, _: machine.push(value)


def _given(machine: _Machine, argument: Any) -> None:
    machine.stack.append(argument)


def _remembered(machine: _Machine, _: Any) -> None:
    machine.memory.append(machine.stack[-1])


def _recalled(machine: _Machine, argument: Any) -> None:
    machine.stack.append(machine.memory[argument])


def _nothing(_: _Machine, __: Any) -> None:
    pass


def _tuple_of_one(machine: _Machine, _: Any) -> None:
    machine.push((machine.stack.pop(),))


_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    **dict.fromkeys(("PROTO", "FRAME", "STOP"), _nothing),
    **dict.fromkeys(("SHORT_BINUNICODE", "BINUNICODE", "BININT", "BININT1", "BININT2"), _given),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), _recalled),
    "NONE": _pushed(None),
    "NEWTRUE": _pushed(True),
    "NEWFALSE": _pushed(False),
    "EMPTY_TUPLE": _pushed(()),
    "MARK": _pushed(_MARK),
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "MEMOIZE": _remembered,
    "TUPLE1": _tuple_of_one,
    "SETITEMS": _Machine.set_items,
    "STACK_GLOBAL": _Machine.name,
    "REDUCE": _Machine.call,
    "NEWOBJ": _Machine.make,
    "BUILD": _Machine.build,
}
