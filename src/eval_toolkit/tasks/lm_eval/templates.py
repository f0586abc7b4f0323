"""Evaluation of document fields, given as a column, Jinja template, constant or function."""

import ast
from collections.abc import Mapping
from typing import Any

from eval_toolkit._internal.sandbox.templates import TemplateFailed, render
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.tasks.hooks import place_of


def rendered(template: str, row: Mapping[str, Any], what: str) -> str:
    r"""Render a Jinja template with the columns of a row in a sandbox.

    ``regex_replace(pattern, replacement)`` is available in addition to Jinja's own filters. A
    trailing newline is kept, and a missing column raises an error. ``what`` is the key of the
    template, used in error messages.

    Examples
    --------
    >>> rendered("Q: {{question|trim}}\nA:", {"question": " Why? "}, "doc_to_text")
    'Q: Why?\nA:'
    """
    try:
        return render(template, row, "columns")
    except TemplateFailed as error:
        place, says = f"{place_of(row)}: {what}", "" if error.kind == "template" else "fails: "
        fields = (
            f"; the columns are {', '.join(map(repr, row))}" if error.kind == "template" else ""
        )
        raise InvalidInputError(f"{place}: {says}{error}{fields}") from error


def resolved(given: str | None, row: Mapping[str, Any], what: str) -> str:
    """Return the value of a column or a rendered template as a string, or "" for None."""
    if not given:
        return ""
    return str(row[given]) if given in row else rendered(given, row, what)


def text_of(given: Any, row: Mapping[str, Any], *, has_choices: bool) -> str | int:
    """Evaluate ``doc_to_text``: return the question, or the index of the correct context.

    Column values are used unchanged. If there are choices (``doc_to_choice``), a template that
    renders a number is treated as an index.

    Examples
    --------
    >>> text_of("Q: {{q}}", {"q": "Why?"}, has_choices=False)
    'Q: Why?'
    """
    value = given(row) if callable(given) else given
    if isinstance(value, str) and not callable(given):
        value = row[value] if value in row else _number_or_text(value, row, has_choices)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise InvalidInputError(
            f"{place_of(row)}: doc_to_text is {value!r:.60}; it must yield a string"
        )
    return value


def _number_or_text(template: str, row: Mapping[str, Any], has_choices: bool) -> str | int:
    text = rendered(template, row, "doc_to_text")
    return int(text) if has_choices and text.isdecimal() else text


def target_of(given: Any, row: Mapping[str, Any], *, has_choices: bool) -> Any:
    """Evaluate ``doc_to_target``: return a string, the index of a choice, or a list of either.

    If a template renders a list, the list is parsed.

    Examples
    --------
    >>> target_of("{{label}}", {"label": 1}, has_choices=True)
    1
    >>> target_of("{{answers}}", {"answers": ["a", "b"]}, has_choices=False)
    ['a', 'b']
    """
    if callable(given):
        return given(row)
    if not isinstance(given, str):
        return given
    if given in row:
        return row[given]
    text = rendered(given, row, "doc_to_target")
    if has_choices and text.isdecimal():
        return int(text)
    if len(text) >= 2 and text[0] == "[" and text[-1] == "]":
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return text
    return text


def choices_of(given: Any, row: Mapping[str, Any]) -> list[str]:
    """Evaluate ``doc_to_choice``: return the choices of a document.

    It may be a column, a template that renders a Python list, a list of choices, or a mapping whose
    values are the choices.

    Examples
    --------
    >>> choices_of("{{[a, b]}}", {"a": "yes", "b": "no"})
    ['yes', 'no']
    """
    value = given(row) if callable(given) else given
    if isinstance(value, str) and not callable(given):
        value = row[value] if value in row else _literal(rendered(value, row, "doc_to_choice"), row)
    if isinstance(value, Mapping):
        value = list(value.values())
    if not isinstance(value, (list, tuple)) or not value:
        raise InvalidInputError(
            f"{place_of(row)}: doc_to_choice is {value!r:.60}; it must yield a list of strings"
        )
    for at, text in enumerate(value):
        if not isinstance(text, str):
            raise InvalidInputError(
                f"{place_of(row)}: doc_to_choice[{at}] is {text!r:.60}; it must be a string"
            )
    return list(value)


def _literal(text: str, row: Mapping[str, Any]) -> Any:
    try:
        return ast.literal_eval(text)  # only constants; no code is run
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise InvalidInputError(
            f"{place_of(row)}: doc_to_choice renders {text!r:.60}; it must render a Python list"
        ) from None
