"""Text normalisation, hashes and groups of equal rows."""

import itertools
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eval_toolkit._internal import hashing
from eval_toolkit._internal.validation import IntArray
from eval_toolkit.errors import InvalidTypeError


def normalize_text_for_dedup(text: str) -> str:
    r"""Return a text in Unicode NFC and lower case, with whitespace collapsed and stripped.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    str
        Normalised text.

    Raises
    ------
    InvalidTypeError
        If the argument is not a str.

    Examples
    --------
    >>> normalize_text_for_dedup("  Free   ENTRY\n now ")
    'free entry now'
    >>> normalize_text_for_dedup("CAFE\u0301") == normalize_text_for_dedup("café")
    True
    """
    if not isinstance(text, str):
        raise InvalidTypeError(f"`text` must be a str, got {type(text).__name__}: {text!r:.80}")
    if text.isascii():
        form = text.lower()
    else:  # compose again after lowering: some letters compose in lower case only
        form = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).lower())
    if form.isprintable() and "  " not in form:  # the space is the only printable whitespace
        return form.strip(" ")
    return " ".join(form.split())


def sha256_text(text: str, *, normalize: bool = True) -> str:
    """Return the SHA-256 hash of a text as 64 hexadecimal digits.

    Parameters
    ----------
    text : str
        Any text.
    normalize : bool, default True
        Whether to hash the text normalised by `normalize_text_for_dedup`.

    Returns
    -------
    str
        SHA-256 of the text's UTF-8 bytes.

    Raises
    ------
    InvalidTypeError
        If the text is not a str.

    Examples
    --------
    >>> sha256_text("Hello") == sha256_text(" hello ")
    True
    >>> sha256_text("Hello", normalize=False)[:8]
    '185f8db3'
    """
    form = normalize_text_for_dedup(text)
    return hashing.sha256_text(form if normalize else text)


def exact_duplicate_groups(
    texts: Sequence[Any], *, key: Callable[[Any], Hashable] = normalize_text_for_dedup
) -> list[list[int]]:
    """Return groups of at least two rows that share a key.

    Parameters
    ----------
    texts : sequence
        One item per row.
    key : callable, optional
        Function from an item to its key; by default `normalize_text_for_dedup`.

    Returns
    -------
    list of list of int
        Rows ascending within a group, groups ordered by their first row.

    Raises
    ------
    InvalidTypeError
        If a row is not a str (with the default key).

    Examples
    --------
    >>> exact_duplicate_groups(["Buy now", "hello", "buy  now", "HELLO", "other"])
    [[0, 2], [1, 3]]
    """
    if key is normalize_text_for_dedup:
        _check_rows(texts, "texts")
    codes = distinct(map(key, texts)).codes
    sizes = np.bincount(codes)
    repeated = np.flatnonzero(sizes[codes] > 1)
    order = repeated[np.argsort(codes[repeated], kind="stable")]
    cuts = np.cumsum(sizes[sizes > 1])[:-1]
    return [rows.tolist() for rows in np.split(order, cuts)] if len(order) else []


@dataclass(frozen=True, slots=True)
class Distinct:
    """Distinct keys, numbered by first occurrence."""

    keys: list[Any]
    codes: IntArray
    """Key number of each row."""
    firsts: IntArray
    """First row of each key."""

    @property
    def sizes(self) -> IntArray:
        """Number of rows of each key."""
        return np.bincount(self.codes, minlength=len(self.keys))

    def groups(self) -> list[IntArray]:
        """Return the rows of each key."""
        rows, begins = self.members()
        return np.split(rows, begins[1:])

    def members(self) -> tuple[IntArray, IntArray]:
        """Return the rows ordered by key, and the offset of each key."""
        sizes = self.sizes
        return np.argsort(self.codes, kind="stable"), np.cumsum(sizes) - sizes


def distinct(keys: Iterable[Hashable]) -> Distinct:
    """Number the distinct keys by first occurrence."""
    first_rows: dict[Hashable, int] = {}
    first = np.fromiter(map(first_rows.setdefault, keys, itertools.count()), np.int64)
    is_first = first == np.arange(len(first))
    numbers = np.cumsum(is_first) - 1
    return Distinct(list(first_rows), numbers[first], np.flatnonzero(is_first))


def checked_texts(texts: list[str], name: str) -> list[str]:
    """Return the list; raise unless it contains only strings."""
    if not isinstance(texts, list):
        raise InvalidTypeError(
            f"`{name}` must be a list of str, got {type(texts).__name__}; pass list({name})"
        )
    _check_rows(texts, name)
    return texts


def _check_rows(texts: Sequence[Any], name: str) -> None:
    if not set(map(type, texts)) <= {str}:
        for row, text in enumerate(texts):
            if not isinstance(text, str):
                raise InvalidTypeError(f"{name}[{row}] is {text!r:.80}; `{name}` must contain str")
