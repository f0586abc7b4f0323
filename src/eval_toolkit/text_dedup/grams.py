"""Exact n-gram ids for many texts, without hash collisions."""

import re
from collections.abc import Iterator, Sequence

import numpy as np

from eval_toolkit._internal.validation import IntArray

_WORD = re.compile(r"\w+")
_LARGEST_CODE = 1 << 62

Units = tuple[IntArray, IntArray]
"""Concatenated character or word ids of all texts, and the length of each text."""


def character_units(texts: Sequence[str]) -> Units:
    """Return the code points of the texts."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), "<u4")
    _, units = np.unique(points, return_inverse=True)
    return units.astype(np.int64), lengths


def word_units(texts: Sequence[str]) -> Units:
    """Return the word ids of the texts; texts without words use their characters."""
    numbers: dict[str, int] = {}
    words = [_WORD.findall(text) or list("".join(text.split())) for text in texts]
    lengths = np.fromiter(map(len, words), np.int64, len(texts))
    units = [numbers.setdefault(word, len(numbers)) for text in words for word in text]
    return np.array(units, dtype=np.int64), lengths


def count_grams(units: Units, low: int, high: int) -> tuple[IntArray, IntArray, IntArray]:
    """Count the n-grams of ``low`` to ``high`` units of each text.

    A non-empty text with fewer than ``low`` units is a single n-gram.

    The three arrays have one entry per text and distinct n-gram, in ascending order.
    """
    rows, codes = [], []
    n_codes = 0
    for row, code in (*_windows(units, low, high), _short_texts(units, low)):
        names, numbered = np.unique(code, return_inverse=True)
        rows.append(row)
        codes.append(numbered + n_codes)
        n_codes += len(names)
    key = np.concatenate(rows) * max(n_codes, 1) + np.concatenate(codes)
    cells, counts = np.unique(key, return_counts=True)
    row, gram = np.divmod(cells, max(n_codes, 1))
    return row, gram, counts


def _windows(units: Units, low: int, high: int) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the text index and the code of each window of ``low`` to ``high`` units."""
    numbers, lengths = units
    row = np.repeat(np.arange(len(lengths)), lengths)
    remaining = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(numbers))
    n_units = int(numbers.max(initial=0)) + 1
    codes, n_codes = numbers, n_units
    for size in range(1, high + 1):
        if size > 1:
            if n_codes * n_units > _LARGEST_CODE:
                names, codes = np.unique(codes, return_inverse=True)
                n_codes = len(names)
            codes = codes[:-1] * n_units + numbers[size - 1 :]
            n_codes *= n_units
            if not len(codes):
                return
        if size >= low:
            inside = remaining[: len(codes)] >= size
            yield row[: len(codes)][inside], codes[inside]


def _short_texts(units: Units, low: int) -> tuple[IntArray, IntArray]:
    numbers, lengths = units
    ends = np.cumsum(lengths)
    short = np.flatnonzero((lengths > 0) & (lengths < low))
    known: dict[bytes, int] = {}
    codes = [
        known.setdefault(numbers[ends[i] - lengths[i] : ends[i]].tobytes(), len(known))
        for i in short
    ]
    return short, np.array(codes, dtype=np.int64)
