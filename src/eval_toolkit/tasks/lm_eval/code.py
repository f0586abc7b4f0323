"""Functions of a task's Python files; they run in a worker process, never in this one.

The worker sees the interpreter, the installed packages and the folder of the tasks, and nothing
else: no network, no other files (`sandbox.levels`). On systems without such isolation it has limits
of time and memory only.
"""

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eval_toolkit._internal.files import is_file, limits
from eval_toolkit._internal.files.regular import read_regular
from eval_toolkit._internal.hashing import sha256_file
from eval_toolkit._internal.sandbox import Contained, Failed, Limits, Overrun, values
from eval_toolkit._internal.sandbox.levels import measured_level, program_sandbox
from eval_toolkit._internal.task_code.calls import plain
from eval_toolkit.errors import InvalidInputError, PluginError

_LIMITS = Limits(seconds=300.0, memory_mb=8192, file_mb=64, open_files=256)
_ROUNDS = 10
"""Maximum number of exchanges with the worker per call."""
_TARGET = "eval_toolkit._internal.task_code.calls:answer"


def tasks_folder(file: Path) -> Path:
    """Return the folder that ``lm_eval.tasks`` stands for: "tasks" above a file, or its own folder.

    Examples
    --------
    >>> tasks_folder(Path("/lib/lm_eval/tasks/gsm8k/utils.py")).as_posix()
    '/lib/lm_eval/tasks'
    """
    above = [folder for folder in file.parents if folder.name == "tasks"]
    return above[0] if above else file.parent


@functools.lru_cache(maxsize=4096)
def _resolved(file: Path) -> tuple[str, str]:
    """Return the absolute paths of the folder of all tasks and of a file."""
    return str(tasks_folder(file).resolve()), str(file.resolve())


@functools.lru_cache(maxsize=64)
def _worker(root: str) -> Contained:
    way = measured_level().way
    if not way:
        return Contained(_TARGET, _LIMITS)
    sandbox = program_sandbox(way, packages=True, forks=False)
    view = replace(sandbox.view, readable=(*sandbox.view.readable, root))
    return Contained(_TARGET, _LIMITS, replace(sandbox, view=view))


def _refused(value: Any) -> Any:
    raise TypeError(f"a {type(value).__name__} cannot be passed to the code of a task")


def written(value: Any) -> Any:
    """Return a value as it is sent to the worker."""
    return values.encoded(plain(value), _refused)


@dataclass(frozen=True)
class TaskFunction:
    """A function of a task's Python file; calling it runs the file in a worker process."""

    file: Path
    name: str
    digest: str
    """SHA-256 hash of the file."""

    @property
    def __name__(self) -> str:
        """Name of the function."""
        return self.name

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Return the result of the function.

        Raises
        ------
        InvalidInputError
            If the function raises, or takes too long.
        """
        try:
            return self._answer("call", self.name, written(list(arguments)), written(named))
        except (Failed, Overrun, TypeError) as error:
            raise InvalidInputError(f"{self.file}: {self.name} fails: {cause(error)}") from error

    def process(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the documents that the function makes of a data set."""
        found = self._answer("process", self.name, written([dict(row) for row in rows]))
        return list(found)

    def filter(self, options: Mapping[str, Any], answers: Any, doc: Mapping[str, Any]) -> Any:
        """Return the answers to one document after the filter of this name."""
        given = json.dumps(dict(options), sort_keys=True)
        return self._answer("filter", self.name, given, written(answers), written(dict(doc)))

    def statistic(self, texts: Sequence[str]) -> float:
        """Return the function of a list of values, each given as JSON."""
        return float(self._answer("statistic", self.name, list(texts)))

    def seconds(self) -> float:
        """Return the CPU time of the worker so far."""
        return float(self._answer("seconds"))

    def names(self, *names: str) -> Mapping[str, bool]:
        """Return those names that the file defines, and whether they are callable."""
        return dict(self._answer("names", list(names)))

    def _source(self) -> str:
        source = str(read_regular(self.file, most=limits.DOCUMENT_BYTES), "utf-8-sig")
        if sha256_file(self.file) != self.digest:
            raise PluginError(f"{self.file} has changed since the task was loaded; load it again")
        return source

    def _answer(self, action: str, *given: Any) -> Any:
        root, file = _resolved(self.file)
        ask = functools.partial(_worker(root), action, [root, file, self.digest])
        source = ""
        ran: list[list[Any]] = []
        for _ in range(_ROUNDS):
            kind, *found = ask(source, ran, *given)
            if kind == "value":
                return values.decoded(found[0], _refused)
            if kind == "source":
                source = self._source()
            else:
                ran += [[code, tests, _passes(code, tests)] for code, tests in found[0]]
        raise PluginError(f"{self.file}: {self.name} runs more programs on each call")


def _passes(code: str, tests: str) -> bool:
    """Return whether a program written by a model passes its tests, in the sandbox."""
    from eval_toolkit.graders.code import CodeTests
    from eval_toolkit.models.responses import Completion

    grade = CodeTests(name="passed").grade(Completion(code, context={"test": tests}))["passed"]
    return grade == 1.0


def load_function(file: Path, name: str, shown: str) -> Any:
    """Import a Python file in the worker, and return one of its functions, or a constant.

    ``shown`` is the function as the task file names it, for messages.
    """
    if not is_file(file):
        raise PluginError(f"!function {shown}: there is no file {file}")
    function = TaskFunction(file, name, sha256_file(file))
    defined = _defined(function)
    if name not in defined:
        raise PluginError(f"!function {shown}: {file} does not define {name!r}")
    return function if defined[name] else function()


@functools.lru_cache(maxsize=4096)
def _defined(function: TaskFunction) -> Mapping[str, bool]:
    try:
        return function.names(function.name)
    except (Failed, Overrun) as error:
        says = cause(error)
        raise PluginError(f"{function.file}: importing it failed: {says}") from error


def cause(error: BaseException) -> str:
    """Return what the code raised, without the name of the worker's function.

    Examples
    --------
    >>> cause(Failed(f"{_TARGET}: KeyError: 'a'"))
    "KeyError: 'a'"
    """
    if isinstance(error, (Failed, Overrun)):
        return str(error).removeprefix(f"{_TARGET}: ").replace(_TARGET, "the code")
    return f"{type(error).__name__}: {error}"


def statistic_of(function: TaskFunction) -> Callable[..., float]:
    """Return the function as a metric of a column of JSON texts."""

    def metric(texts: Any) -> float:
        return function.statistic([str(text) for text in texts])

    return metric
