"""Validation of text columns with missing values."""

from collections.abc import Iterable
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit.errors import InvalidTypeError


def checked_text(text: str, name: str = "text") -> str:
    """Return the text; raise if it is not a str."""
    if not isinstance(text, str):
        raise InvalidTypeError(f"`{name}` must be a str, got {type(text).__name__}: {text!r:.80}")
    return text


def present(texts: Iterable[Any], name: str = "texts") -> tuple[list[int], list[str], int]:
    """Return the rows with text, their texts, and the number of missing texts."""
    if isinstance(texts, (str, bytes)) or not isinstance(texts, Iterable):
        raise InvalidTypeError(
            f"`{name}` is a {type(texts).__name__}; pass a list of texts, even for a single text"
        )
    given = list(texts)
    if set(map(type, given)) <= {str}:  # fast path
        return list(range(len(given))), given, 0
    rows = []
    for row, text in enumerate(given):
        if isinstance(text, str):
            rows.append(row)
        elif not validation.is_missing(text):
            raise InvalidTypeError(
                f"{name}[{row}] is {text!r:.80}; texts must be strings, or None if missing"
            )
    return rows, [given[row] for row in rows], len(given) - len(rows)
