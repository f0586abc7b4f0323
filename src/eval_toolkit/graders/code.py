"""`CodeTests`: run model-written programs against tests in a sandbox.

The program runs in a process with limited time and memory. It has no access to other processes, the
network or files other than the interpreter's, and cannot start programs. Its tests run in another
process and call its functions over a socket pair, so a program cannot report its own success. On
systems with weaker isolation, programs run only if the user allows it, as recorded in the column
``code_pass_jailed``. See docs/security.md for the levels of isolation.
"""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from eval_toolkit._internal.sandbox.errors import Failed, Overrun
from eval_toolkit._internal.validation import integer, number
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders.base import COMPLETIONS, KEPT, RATE, ColumnInfo, Grade, options_version
from eval_toolkit.graders.context import context_value
from eval_toolkit.models.responses import Completion

# Possessive quantifiers: long runs of spaces would backtrack excessively.
_FENCE = re.compile(r"^[ ]{0,3}(?:`{3,}+|~{3,}+)[ \t]*+([\w+.-]*+)[ \t]*+$", re.MULTILINE)
_BEGINS_CODE = re.compile(r"\s*+(?:(?<=[ \t])\S|(?:async def|def|from|import|class)\s|@\w)")
_UNINDENTED = re.compile(r"^[^\s#]", re.MULTILINE)
_INDENT = re.compile(r"[ \t]*")
_BYTE_ORDER_MARK = "\ufeff"
_FENCES = 201
"""Maximum number of code fences to search (100 blocks)."""
_GRACE = 5.0
"""Grace period in seconds before the worker of an overdue program is killed."""


def find_code(text: str, function: str = "") -> str:
    r"""Return the Python code in an answer: a fenced block if there is one, else the whole answer.

    Parameters
    ----------
    text : str
        Model answer. A fence that closes one opened in the prompt ends the code; an unclosed
        fence extends to the end.
    function : str
        Name of the function; the first block that defines it is used, otherwise the first block.

    Returns
    -------
    str
        The code; the whole answer if there is no fenced block.

    Examples
    --------
    >>> find_code("Sure!\n```python\ndef one():\n    return 1\n```\nEnjoy.")
    'def one():\n    return 1\n'
    >>> find_code("    return 1\n```\nThat was it.")
    '    return 1\n'
    """
    text = text.removeprefix(_BYTE_ORDER_MARK)
    fences = list(islice(_FENCE.finditer(text), _FENCES))
    if not fences:
        return text
    before = text[: fences[0].start()]
    if len(fences) % 2 and not fences[0][1] and _BEGINS_CODE.match(before):
        return before
    ends = [fence.start() for fence in fences[1::2]] + [len(text)]
    blocks = [text[fence.end() + 1 : end] for fence, end in zip(fences[::2], ends, strict=False)]
    return next((block for block in blocks if function and _defines(block, function)), blocks[0])


def _defines(code: str, function: str) -> bool:
    return _stub(code, function) is not None


@dataclass(frozen=True, slots=True)
class CodeTests:
    r"""Whether the code in an answer passes the tests in the sample's context.

    The context contains the tests as ``test`` (a program), or as ``test_list`` (statements) with
    setup code in ``test_setup_code`` or ``test_imports``. With ``entry_point``, the name of a
    function, the tests define ``check``, which is called with that function, as in HumanEval. With
    ``prompt``, the answer either continues the prompt or redefines the function. A continuation
    ends at the first line that is not indented.

    Prompt and code form one program; the tests are another, which runs in its own process and
    calls the definitions of the first. Imports and helpers before the function in the prompt belong
    to both. Plain arguments and results (numbers, strings, collections, dates, arrays) are copied;
    other objects are represented by proxies, which never equal a plain value. An answer passes if
    the tests run to their last line; any other outcome counts as wrong. ``code_pass_timed_out`` is
    1 if the time limit was exceeded, and ``code_pass_jailed`` is 0 if the user has allowed a weaker
    sandbox.

    Parameters
    ----------
    seconds : float, default 5.0
        Wall-clock time limit per program in seconds.
    memory_mb : int, default 1024
        Address space limit per program in MB.
    packages : bool, default False
        Whether programs may import installed packages; by default, only the standard library, so
        that results do not depend on the machine.
    indented : bool, default False
        Whether a continuation of the prompt that does not start with a space is given the
        indentation of the prompt's last line, since some servers strip it. By default, it is a
        syntax error, as in the original HumanEval.
    name : str, default "code_pass"
        Name of the first column and prefix of the others.

    Examples
    --------
    >>> tests = {"test": "assert add(1, 2) == 3"}
    >>> right = Completion("def add(a, b):\n    return a + b", context=tests)
    >>> wrong = Completion("def add(a, b):\n    exit(0)", context=tests)
    >>> [CodeTests().grade(answer)["code_pass"] for answer in (right, wrong)]
    [1.0, 0.0]
    """

    seconds: float = 5.0
    memory_mb: int = 1024
    packages: bool = False
    indented: bool = False
    name: str = "code_pass"
    response_types = COMPLETIONS

    def __post_init__(self) -> None:
        number(self.seconds, "seconds", low=0.1)
        integer(self.memory_mb, "memory_mb", low=64)

    version = options_version("3")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        return {self.name: RATE, f"{self.name}_timed_out": KEPT, f"{self.name}_jailed": KEPT}

    def programs(self, response: Completion) -> tuple[str, str]:
        """Return the program (prompt and code) and the tests.

        Raise an error if the context has no tests or the entry point is not a valid name.
        """
        function = context_value(response, "entry_point") or ""
        if function and not str(function).isidentifier():
            raise InvalidInputError(
                f"the sample's entry_point is {function!r}; it must be a Python identifier"
            )
        prompt = str(context_value(response, "prompt") or "")
        code = _continued(prompt, response.completion, str(function), self.indented)
        call = f"\ncheck({function})" if function else ""
        return code, _before(prompt, str(function)) + _tests(response) + call

    def sandbox(self) -> str:
        """Return the sandbox level for the programs.

        Raises
        ------
        EvalToolkitError
            If this system cannot provide the level *jailed* and the user has not allowed less.
        """
        from eval_toolkit._internal.sandbox.levels import required_level

        return required_level().level.value

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return whether the program passes, whether it timed out, and whether it ran in a jail."""
        # Import lazily: only this grader needs to start processes.
        from eval_toolkit._internal.sandbox.levels import Level, required_level

        found = required_level()
        code, tests = self.programs(response)
        try:
            ended = self._run(code, tests, found.way)
        except Overrun as overrun:  # the program has killed or blocked its worker
            ended = {"passed": False, "timed_out": overrun.kind == "time", "apart": ""}
        why = f"the tests cannot run in a separate process: {ended['apart']}"
        return {
            self.name: Grade.error(why) if ended["apart"] else float(ended["passed"]),
            f"{self.name}_timed_out": float(ended["timed_out"]),
            f"{self.name}_jailed": float(found.level == Level.JAILED),
        }

    def _run(self, code: str, tests: str, way: str) -> dict[str, Any]:
        from eval_toolkit._internal.sandbox import Contained, Limits
        from eval_toolkit._internal.sandbox.levels import program_sandbox

        limits = Limits(self.seconds, self.memory_mb)
        worker = Limits(self.seconds + _GRACE, None, limits.file_mb, limits.open_files)
        sandbox = program_sandbox(way, packages=self.packages)
        run = Contained("eval_toolkit._internal.sandbox.programs:run_program", worker, sandbox)
        context_value = (code, limits.to_dict(), way, sandbox.view.to_dict())
        try:
            return dict(run(*context_value, apart=tests))
        except Failed:  # an earlier program may have damaged the worker, which is now replaced
            return dict(run(*context_value, apart=tests))


def _continued(prompt: str, text: str, function: str, indented: bool) -> str:
    """Join the prompt and the code into one program."""
    code = find_code(text, function)
    whole = code == text.removeprefix(_BYTE_ORDER_MARK)
    if not prompt:
        return code
    if function and _defines(code, function):
        stub = _stub(prompt, function)
        return f"{prompt[: stub.start()] if stub else prompt}\n{code}"
    if indented and code[:1].strip():
        last = prompt.rstrip().rpartition("\n")[2]
        code = f"{_INDENT.match(last)[0]}{code}"  # type: ignore[index]
    return prompt + _body(code) if whole else f"{prompt}\n{code}"


def _before(prompt: str, function: str) -> str:
    """Return the imports and helpers before the function in the prompt, for use by the tests."""
    stub = _stub(prompt, function) if function else None
    before = prompt[: stub.start()] if stub else ""
    return f"{before}\n" if before.strip() and _is_program(before) else ""


def _stub(prompt: str, function: str) -> re.Match[str] | None:
    return re.search(rf"^(?:async )?def {re.escape(function)}\b", prompt, re.MULTILINE)


def _is_program(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _body(code: str) -> str:
    """Return the indented lines at the start of a string."""
    first = code.lstrip("\n")
    if not first.startswith((" ", "\t")):
        return code
    end = _UNINDENTED.search(code)
    return code[: end.start()] if end else code


def _tests(response: Completion) -> str:
    whole, several = context_value(response, "test"), context_value(response, "test_list")
    if isinstance(whole, str):
        return whole
    if not isinstance(several, (list, tuple)) or not several:
        raise InvalidInputError("the sample's context has neither 'test' nor 'test_list'")
    before = (
        context_value(response, "test_setup_code") or context_value(response, "test_imports") or ""
    )
    return "\n".join([*([before] if isinstance(before, str) else before), *several])
