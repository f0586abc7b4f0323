"""Rendering of untrusted Jinja templates, in the sandbox unless provably cheap.

Jinja's sandbox protects the interpreter but does not limit time and memory: it allows ``'a' *
4000000000`` and nested loops. `is_plain` identifies cheap templates.
"""

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from eval_toolkit._internal.sandbox import wire
from eval_toolkit._internal.sandbox.errors import Failed, Overrun
from eval_toolkit._internal.sandbox.limits import Limits
from eval_toolkit._internal.sandbox.patterns import replace_in
from eval_toolkit._internal.sandbox.workers import Contained

SECONDS = 2.0
"""Time limit in seconds for a complex template on one row."""
LONGEST = 10_000_000
"""Maximum number of characters of a template's output."""
_LIMITS = Limits(seconds=SECONDS, memory_mb=512)

_STATEMENTS = frozenset(("Template", "Output", "TemplateData", "If", "CondExpr"))
_VALUES = frozenset(
    ("Name", "Const", "Getattr", "Getitem", "Slice", "List", "Tuple", "Dict", "Pair", "Keyword")
)
_OPERATORS = frozenset(("Compare", "Operand", "Not", "And", "Or", "Add", "Concat", "Neg", "Test"))
_PLAIN = _STATEMENTS | _VALUES | _OPERATORS
_FILTERS = frozenset(
    [
        "abs",
        "capitalize",
        "count",
        "default",
        "d",
        "first",
        "float",
        "int",
        "last",
        "length",
        "lower",
        "max",
        "min",
        "string",
        "sum",
        "title",
        "trim",
        "upper",
    ]
)
_METHODS = frozenset(
    [
        "capitalize",
        "endswith",
        "lower",
        "lstrip",
        "rstrip",
        "split",
        "startswith",
        "strip",
        "title",
        "upper",
    ]
)
_WRITING = frozenset(("capitalize", "lower", "string", "title", "trim", "upper"))
"""Filters that convert their input to a string, with list items quoted and escaped."""
_MOST_WRITING = 3
"""Maximum number of such conversions in a plain template; each one can double the length."""
_MOST_NODES = 2_000


class TemplateFailed(ValueError):  # noqa: N818 - as `Failed`
    """A template is invalid, does not fit its variables, or exceeds a limit.

    The kind is "syntax", "template" (rejected by Jinja or the template), "overrun" (time or memory)
    or "error".
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def render(template: str, variables: Mapping[str, Any], style: str) -> str:
    """Render a template.

    The style "columns" uses the settings and functions of lm-eval templates, "chat" those of chat
    templates. Variables must be JSON to be sent to a worker. Raises `TemplateFailed`.

    Examples
    --------
    >>> render("{{ a | upper }}", {"a": "x"}, "columns")
    'X'
    >>> render("{{ 'a' * 4000000000 }}", {}, "columns")
    Traceback (most recent call last):
    ...
    eval_toolkit._internal.sandbox.templates.TemplateFailed: it needs more than 512 MB
    """
    if is_plain(template) and _most(template, variables) <= LONGEST:
        kind, text = rendered(template, dict(variables), style)
    else:
        kind, text = _contained(template, dict(variables), style)
    if kind != "text":
        raise TemplateFailed(kind, text)
    return text


def _most(template: str, variables: Mapping[str, Any]) -> int:
    """Return the maximum output length of a plain template, before quoting."""
    size, waiting = len(template), list(variables.values())
    while waiting:
        one = waiting.pop()
        if isinstance(one, (str, bytes)):
            size += len(one)
        elif isinstance(one, Mapping):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, (list, tuple)):
            waiting += one
        size += 1
    return size * (1 + sum(template.count(between) for between in ("{{", "+", "~", ",")))


def _contained(template: str, variables: dict[str, Any], style: str) -> tuple[str, str]:
    try:
        wire.packed(variables)
    except (TypeError, ValueError):
        kind, text = rendered(template, variables, style)
        return kind, text
    run = Contained(f"{__name__}:rendered", _LIMITS)
    try:
        kind, text = run(template, variables, style)
    except Overrun as error:
        used = f"{SECONDS:g} s" if error.kind == "time" else f"{_LIMITS.memory_mb} MB"
        return "overrun", f"it needs more than {used}"
    except Failed as error:
        return "error", _line(error)
    return str(kind), str(text)


def rendered(template: str, variables: dict[str, Any], style: str) -> list[str]:
    """Return "text" and a template's output, or the kind and reason of a failure."""
    from jinja2 import TemplateError

    try:
        text: str = _compiled(template, style).render(variables)
    except MemoryError:
        raise
    except TemplateError as error:
        line = getattr(error, "lineno", None)
        at = f"line {line}: " if line else ""
        return ["syntax" if line else "template", f"{at}{_line(error)}"]
    except Exception as error:  # templates call methods of the values, which may raise anything
        return ["error", f"{type(error).__name__}: {_line(error)}"]
    if len(text) > LONGEST:
        return ["overrun", f"its output has {len(text)} characters; at most {LONGEST} are allowed"]
    return ["text", text]


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:500]


@lru_cache(maxsize=512)
def _compiled(template: str, style: str) -> Any:
    return _environment(style).from_string(template)


@cache
def _environment(style: str) -> Any:
    from jinja2 import StrictUndefined, TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def raise_exception(reason: str) -> None:
        raise TemplateError(reason)

    if style == "columns":
        made = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
        made.filters["regex_replace"] = replace_in
    else:
        made = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        made.globals["raise_exception"] = raise_exception
    return made


@lru_cache(maxsize=512)
def is_plain(template: str) -> bool:
    """Return whether a template renders quickly to a string of bounded length.

    Plain templates have no loops, products or powers, use only filters and methods that do not
    lengthen strings, and few nested conversions of lists. The test is conservative: some cheap
    templates are not plain and run in a worker.

    Examples
    --------
    >>> is_plain("Q: {{ q.strip() }}"), is_plain("{% for i in range(9) %}{% endfor %}")
    (True, False)
    """
    if "{" not in template:
        return True
    try:
        waiting: list[tuple[Any, int]] = [(_environment("columns").parse(template), 0)]
    except Exception:  # the worker reports the error
        return False
    for _ in range(_MOST_NODES):
        if not waiting:
            return True
        node, inside = waiting.pop()
        inside += _writes(node)
        if not _is_plain_node(node) or inside > _MOST_WRITING:
            return False
        waiting += ((inner, inside) for inner in node.iter_child_nodes())
    return False


def _writes(node: Any) -> bool:
    """Return whether a node converts arbitrary values to strings."""
    kind = type(node).__name__
    return kind == "Concat" or (kind == "Filter" and node.name in _WRITING)


def _is_plain_node(node: Any) -> bool:
    kind = type(node).__name__
    if kind == "Filter":
        return node.name in _FILTERS
    if kind == "Call":
        return type(node.node).__name__ == "Getattr" and node.node.attr in _METHODS
    return kind in _PLAIN
