"""Detection of repetition in responses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.validation import IntArray, integer
from eval_toolkit.graders.base import COMPLETIONS, ColumnInfo, Grade, options_version
from eval_toolkit.models.responses import Completion

WORD_LIMIT = 500_000
"""Maximum number of words read from the start of a response."""

_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
"""Multipliers of the SplitMix64 hash function."""


def repeats(words: Sequence[str], window: int, times: int = 1) -> bool:
    """Return whether a sequence of consecutive words is repeated in a response.

    ``window`` is the length of the sequence in words; occurrences may overlap. The result is exact
    and takes O(n log n) time.

    Examples
    --------
    >>> repeats("to be or not to be".split(), 2)
    True
    >>> repeats("to be or not to be".split(), 3)
    False
    """
    integer(window, "window", low=1)
    integer(times, "times", low=1)
    if len(words) < window + times:
        return False
    numbers: dict[str, int] = {}
    codes = np.fromiter((numbers.setdefault(word, len(numbers)) for word in words), np.int64)
    hashes = _window_hashes(codes.astype(np.uint64), window)
    order = np.argsort(hashes, kind="stable")
    ranked = hashes[order]
    for at in np.flatnonzero(ranked[times:] == ranked[:-times]):
        if _equal(codes, order[at : at + times + 1], window):
            return True
    return False


def _equal(codes: IntArray, starts: NDArray[Any], window: int) -> bool:
    """Return whether two windows with the same hash have the same content."""
    first = codes[starts[0] : starts[0] + window]
    return all(np.array_equal(first, codes[at : at + window]) for at in starts[1:])


def _window_hashes(codes: NDArray[np.uint64], window: int) -> NDArray[np.uint64]:
    """Return a hash of each window, computed from hashes of smaller windows."""
    n = len(codes) - window + 1
    hashes = np.zeros(n, dtype=np.uint64)
    block, size, done = _mixed(codes + np.uint64(1)), 1, 0
    while done < window:
        if window & size:
            hashes = _mixed(hashes * np.uint64(3) + block[done : done + n])
            done += size
        if done < window:
            block = _mixed(block[:-size] * np.uint64(5) + block[size:])
            size *= 2
    return hashes


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    for shift, factor in zip((30, 27), _MIX, strict=True):
        values = (values ^ (values >> np.uint64(shift))) * factor
    return values ^ (values >> np.uint64(31))


@dataclass(frozen=True, slots=True)
class RepeatedText:
    """Whether a response repeats a sequence of words; lower is better.

    Words are separated by whitespace and not normalised; occurrences may overlap, so a
    repeated single word counts. Only the first `WORD_LIMIT` words of a response are read.

    Parameters
    ----------
    window_size : int, default 128
        Length of the sequence in words.
    min_repetitions : int, default 1
        Minimum number of repetitions.
    name : str, default "repeated_text"
        Name of the column.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an option is not a positive integer.

    Examples
    --------
    >>> RepeatedText(window_size=2).grade(Completion("to be or not to be"))
    {'repeated_text': 1.0}
    """

    window_size: int = 128
    min_repetitions: int = 1
    name: str = "repeated_text"
    response_types = COMPLETIONS

    def __post_init__(self) -> None:
        integer(self.window_size, "window_size", low=1)
        integer(self.min_repetitions, "min_repetitions", low=1)

    version = options_version("1")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        return {self.name: ColumnInfo(False, (0.0, 1.0))}

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return whether the response repeats itself."""
        words = response.completion.split(maxsplit=WORD_LIMIT)[:WORD_LIMIT]
        return {self.name: float(repeats(words, self.window_size, self.min_repetitions))}
