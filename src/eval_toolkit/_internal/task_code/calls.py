"""Worker side of the code of tasks: import of a Python file, and calls of its functions.

Arguments and results are encoded by `sandbox.values`. Nothing here runs in the caller's process.
"""

import functools
import json
import os
import random
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from eval_toolkit._internal.sandbox import values
from eval_toolkit._internal.task_code import shim
from eval_toolkit._internal.task_code.rows import Documents

_SEED = 0
"""Seed of Python's generator before each file is imported and each data set is processed."""


def answer(action: str, place: Sequence[str], source: str, ran: Any, *given: Any) -> Any:
    """Perform an action with a file's code and return the encoded result (workers only).

    ``place`` is the folder of all tasks, the file and the hash of the file. Returns
    ``["source"]`` if this worker has not run the file and ``source``, its text, is empty, and
    ``["programs", …]`` with programs and tests whose outcomes are not in ``ran``.

    The actions are ``names``, which imports the file and returns whether names exist and are
    callable; ``call`` of a function with arguments; ``process`` of a data set; ``filter`` of
    answers; ``statistic``, a function of a list of JSON texts; and ``seconds``, the CPU time so far.
    """
    root, file, digest = place
    _prepare(root)
    if (file, digest) not in _MODULES and not source:
        return ["source"]
    shim.outcomes.clear()
    shim.outcomes.update({(code, tests): passed for code, tests, passed in ran})
    try:
        module = _module(file, digest, source)
        found = _ACTIONS[action](module, *given)
    except shim.NeedsPrograms as needed:
        return ["programs", needed.programs]
    return ["value", values.encoded(plain(found), _refused)]


@functools.cache
def _prepare(root: str) -> None:
    os.environ["HOME"] = os.getcwd()  # noqa: PTH109 - the folder of this worker
    shim.install(root)


def _names(module: Any, names: Sequence[str]) -> dict[str, bool]:
    """Return the names that exist, and whether they are callable."""
    return {name: callable(vars(module)[name]) for name in names if name in vars(module)}


def _call(module: Any, name: str, arguments: Any, named: Any) -> Any:
    function = getattr(module, name)
    if not callable(function):
        return function
    return function(*_read(arguments), **_read(named))


def _process(module: Any, name: str, rows: Any) -> list[dict[str, Any]]:
    random.seed(_SEED)
    found = getattr(module, name)(Documents(_read(rows)))
    return [dict(row) for row in found]


@functools.lru_cache(maxsize=64)
def _made(module: Any, name: str, options: str) -> Any:

    return getattr(module, name)(**json.loads(options))


def _filter(module: Any, name: str, options: str, answers: Any, doc: Any) -> Any:
    """Apply a filter, an instance of a class of the file, to the answers to one document."""
    made = _made(module, name, options)
    return next(iter(made.apply([_read(answers)], [_read(doc)])))


def _statistic(module: Any, name: str, texts: Sequence[str]) -> float:

    found = getattr(module, name)([json.loads(text) for text in texts])
    return float(found)


_ACTIONS: Mapping[str, Any] = {
    "names": _names,
    "call": _call,
    "process": _process,
    "filter": _filter,
    "statistic": _statistic,
    "seconds": lambda _: time.process_time(),
}


def _module(file: str, digest: str, source: str) -> Any:
    """Return the module of a Python file; it is run once."""
    if (file, digest) not in _MODULES:
        module = ModuleType(f"_task_code_{digest[:16]}_{len(_MODULES)}_{Path(file).stem}")
        module.__file__ = file
        sys.modules[module.__name__] = module  # dataclasses look up their module
        random.seed(_SEED)
        exec(compile(source, file, "exec", dont_inherit=True), vars(module))  # noqa: S102
        _MODULES[file, digest] = module
    return _MODULES[file, digest]


_MODULES: dict[tuple[str, str], ModuleType] = {}


def _read(data: Any) -> Any:
    return values.decoded(data, _refused)


def _refused(value: Any) -> Any:
    raise TypeError(f"the code returns a {type(value).__name__}, which is not plain data")


def plain(value: Any) -> Any:
    """Return a value with plain Python types: NumPy numbers and arrays, and subclasses, converted.

    Examples
    --------
    >>> import numpy as np
    >>> plain({"label": np.int64(1), "rows": Documents([{"a": np.arange(2)}])})
    {'label': 1, 'rows': [{'a': [0, 1]}]}
    """
    kind = type(value)
    if value is None or kind in (str, int, float, bool):
        return value
    if isinstance(value, Mapping):
        return {plain(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, list):
        return list(map(plain, value))
    if kind.__module__ == "numpy" and hasattr(value, "tolist"):
        return value.tolist()
    for base in (bool, int, float, str):
        if isinstance(value, base):
            return base.__str__(value) if base is str else base(value)
    if hasattr(value, "__next__") or kind in (range, type({}.values()), type({}.keys())):
        return [plain(one) for one in value]
    return value
