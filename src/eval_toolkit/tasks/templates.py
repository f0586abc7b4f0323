"""String templates with ``{field}`` placeholders, and access to nested fields."""

import ast
import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from eval_toolkit.errors import InvalidInputError, MissingColumnError
from eval_toolkit.tasks.hooks import place_of

_TOKEN = re.compile(
    # A name in two braces, as in Jinja, is a field if the row has it, and literal otherwise.
    r"(?<!\{)\{\{ *([A-Za-z_][\w.|]*) *\}\}(?!\})|\{\{|\}\}|\{([^{}]*)\}|[{}]"
)
_TEXT, _FIELD, _FIELD_OR_TEXT = range(3)
_MISSING: Any = object()
_MARK = re.compile(r"\[[^\[\]]*\]")
_BLANKS = re.compile(r" {2,}")
_MAPPINGS = (dict, Mapping)
"""Types of mappings; dict comes first, because checking for it is faster."""


def field_value(row: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path in a row.

    A path consists of names and indices joined by dots, such as "question.choices.0.text". For
    alternative paths joined by ``|``, the first value other than None is returned. If there is
    none, the error names the row and its fields.

    Examples
    --------
    >>> field_value({"question": {"stem": "2 + 2?"}}, "question.stem|question")
    '2 + 2?'
    """
    found = _MISSING
    for steps in _paths(path):
        found = _follow(row, steps)
        if found is not _MISSING and found is not None:
            return found
    what = "there is no field" if found is _MISSING else "there is no value in the field"
    near = difflib.get_close_matches(path, list(map(str, row)), n=1) if found is _MISSING else []
    hint = f"did you mean {{{near[0]}}}? " if near else ""
    raise MissingColumnError(
        f"{place_of(row)}: {what} {path!r}; {hint}the fields are {', '.join(map(repr, row))}"
    )


@lru_cache(maxsize=512)
def _paths(path: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(one.strip().split(".")) for one in path.split("|"))


def _follow(row: Any, steps: tuple[str, ...]) -> Any:
    whole = ".".join(steps)
    if isinstance(row, _MAPPINGS) and whole in row:
        return row[whole]
    value = row
    for step in steps:
        if isinstance(value, _MAPPINGS) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return _MISSING
    return value


def without_brackets(text: str) -> str:
    """Remove the bracketed marks used in WikiHow articles.

    Examples
    --------
    >>> without_brackets("How to tie a tie [title] Cross the ends. [step] Pull [substeps] it.")
    'How to tie a tie. Cross the ends. Pull it.'
    """
    text = _MARK.sub("", text.replace(" [title]", ". "))
    return _BLANKS.sub(" ", text)


def text_of(value: Any, what: str) -> str:
    """Convert a scalar to a string (51.0 to "51", True to "true"); raise for lists and objects."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, (int, float)):
        return str(value)
    raise InvalidInputError(
        f"{what} is a {type(value).__name__}, {value!r:.60}; it must be a string or a number; select one as "
        "{field.0} or {field.name}"
    )


@dataclass(frozen=True, slots=True)
class Template:
    """String with placeholders for fields of a row.

    Parameters
    ----------
    text : str
        Text of the template, in which ``{name}`` stands for a field, ``{name.0.text}`` for a nested
        value and ``{a|b}`` for the first field that exists. ``{{`` and ``}}`` stand for braces,
        except around the name of a field: ``{{name}}`` is equivalent to ``{name}``. Format
        specifications and calls are not supported.

    Raises
    ------
    InvalidInputError
        If a brace is unmatched or a field has no name.

    Examples
    --------
    >>> Template("{{{name}}} is {age}").render({"name": "Ann", "age": 7.0})
    '{Ann} is 7'
    """

    text: str

    def __post_init__(self) -> None:
        _pieces(self.text)

    def render(self, row: Mapping[str, Any]) -> str:
        """Insert the fields of a row into the template.

        Parameters
        ----------
        row : mapping
            Row of the data.

        Returns
        -------
        str
            Rendered text.

        Raises
        ------
        MissingColumnError, InvalidInputError
            If a field is missing, or is neither a string nor a number.
        """
        return "".join(_filled(kind, piece, row) for kind, piece in _pieces(self.text))

    @property
    def fields(self) -> list[str]:
        """Paths of the fields in the template."""
        return [piece for kind, piece in _pieces(self.text) if kind == _FIELD]

    @property
    def doubled(self) -> list[str]:
        """Names in double braces, which are placeholders if a row has such a field."""
        return [piece for kind, piece in _pieces(self.text) if kind == _FIELD_OR_TEXT]


def _filled(kind: int, piece: str, row: Mapping[str, Any]) -> str:
    if kind == _TEXT:
        return piece
    if kind == _FIELD_OR_TEXT and all(_follow(row, one) is _MISSING for one in _paths(piece)):
        return f"{{{piece}}}"
    return text_of(field_value(row, piece), f"{place_of(row)}: the field {piece!r}")


@lru_cache(maxsize=512)
def _pieces(text: str) -> tuple[tuple[int, str], ...]:
    """Split a template into pieces, each of which is literal text or the path of a field."""
    if not isinstance(text, str):
        raise InvalidInputError(f"a template is {text!r}; it must be a string")
    pieces: list[tuple[int, str]] = []
    end = 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        pieces.append((_TEXT, text[end : match.start()]))
        if token in ("{", "}"):
            raise InvalidInputError(
                f"the template {text!r:.80} has an unmatched {token!r}; write {token * 2!r} for a brace"
            )
        if token in ("{{", "}}"):
            pieces.append((_TEXT, token[0]))
        elif match[1] is not None:
            pieces.append((_FIELD_OR_TEXT, match[1]))
        else:
            path = match[2]
            if not path.strip() or any(not part.strip() for part in re.split(r"[.|]", path)):
                raise InvalidInputError(f"the template {text!r:.80}: {token!r} has no field name")
            pieces.append((_FIELD, path))
        end = match.end()
    pieces.append((_TEXT, text[end:]))
    return tuple(piece for piece in pieces if piece[1])


@dataclass(frozen=True, slots=True)
class FieldSpec:
    r"""Field of a row, with optional parsing of its value.

    Parameters
    ----------
    field : str
        Path of the field, as in `field_value`.
    after : str
        Marker; only the text after its last occurrence is used.
    split : str
        Separator at which to split the string into a list.
    parse : bool
        Whether to parse a string such as ``['a', 'b']`` as a list in JSON or Python syntax.

    Examples
    --------
    >>> FieldSpec("answer", after="#### ").read({"answer": "9 * 2 = 18\n#### 18"})
    '18'
    >>> FieldSpec("choices", parse=True).read({"choices": "['a', 'b']"})
    ['a', 'b']
    """

    field: str
    after: str = ""
    split: str = ""
    parse: bool = False

    def read(self, row: Mapping[str, Any]) -> Any:
        """Return the parsed value of the field in a row.

        The result is the value itself, part of a string, or a list. Raises an error if the field or
        the required content is missing.
        """
        value = field_value(row, self.field)
        if not (self.after or self.split or self.parse):
            return value
        place = f"{place_of(row)}: the field {self.field!r}"
        if self.parse and not isinstance(value, str):
            return value
        text = text_of(value, place)
        if self.after:
            _, found, text = text.rpartition(self.after)
            if not found:
                raise InvalidInputError(f"{place} does not contain {self.after!r}")
            text = text.strip()
        if self.split:
            return [part.strip() for part in text.split(self.split)]
        return _literal(text, place) if self.parse else text


def _literal(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)  # only constants; no code is run
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise InvalidInputError(f"{place} is {text!r:.60}; it cannot be read as a list") from None
