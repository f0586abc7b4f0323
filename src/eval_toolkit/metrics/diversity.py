"""Text diversity based on word n-grams."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, UndefinedMetricError

_WORD = re.compile(r"\w+")


def distinct_n(texts: Sequence[str], n: int = 2) -> float:
    """Return the ratio of distinct to total word n-grams of several texts (distinct-n).

    Parameters
    ----------
    texts : sequence of str
        At least one text.
    n : int, default 2
        Length of the n-grams in words.

    Returns
    -------
    float
        A value in (0, 1]; 1 if no n-gram occurs twice, within or across texts.

    Raises
    ------
    InvalidInputError
        If there are no texts, or n is below 1.
    InvalidTypeError
        If a text is not a string.
    UndefinedMetricError
        If every text has fewer than n words.

    Notes
    -----
    Words are sequences of letters, digits and underscores, ignoring case. N-grams do not span
    texts. The value decreases with the amount of text, since words recur, so compare only sets of
    texts of similar size [1]_.

    References
    ----------
    .. [1] Li et al. (2016), A diversity-promoting objective function for neural conversation
       models, NAACL, section 5.4.

    Examples
    --------
    "how to" occurs twice among five bigrams.

    >>> distinct_n(["How to bake?", "how to pick a"])
    0.8
    """
    size = validation.integer(n, "n", low=1)
    counts: Counter[tuple[str, ...]] = Counter()
    for text in _strings(texts):
        counts.update(_grams(_words(text), size))
    if not counts:
        raise UndefinedMetricError(
            f"distinct_n is undefined: each of the {len(texts)} texts has fewer than {size} word(s)"
        )
    return len(counts) / counts.total()


def self_similarity(texts: Sequence[str], n: int = 2) -> float:
    """Return the mean pairwise cosine similarity of the texts' word n-gram counts.

    Parameters
    ----------
    texts : sequence of str
        At least two texts.
    n : int, default 2
        Length of the n-grams in words.

    Returns
    -------
    float
        A value in [0, 1]: 0 if no two texts share an n-gram, 1 if all texts have the same n-grams
        in the same proportions.

    Raises
    ------
    InvalidInputError
        If n is below 1.
    InvalidTypeError
        If a text is not a string.
    UndefinedMetricError
        If there are fewer than two texts.

    Notes
    -----
    Words are defined as in `distinct_n`. A text of fewer than n words counts as a single n-gram,
    and a text without words as its stripped characters, so two empty texts are identical. With x_i
    the normalised counts of text i, the mean over pairs is (‖Σ x_i‖² − N) / (N (N − 1)), which is
    linear in the number of words. `probe_similarity` adds an interval and excludes pairs within a
    group.

    Examples
    --------
    Two of three texts are the same; the third shares none of their bigrams.

    >>> texts = ["tell me a joke", "Tell me a joke!", "how do I bake bread"]
    >>> round(self_similarity(texts), 4)
    0.3333
    """
    vectors = gram_vectors(texts, n)
    if vectors.n_texts < 2:
        raise UndefinedMetricError(
            "self_similarity is undefined for a single text; pass at least two"
        )
    total = np.bincount(vectors.grams, vectors.values)
    count = vectors.n_texts
    mean = (float(total @ total) - count) / (count * (count - 1))
    return min(1.0, max(0.0, mean))


@dataclass(frozen=True, slots=True, eq=False)
class GramVectors:
    """Sparse unit vectors of word n-gram counts.

    Examples
    --------
    >>> gram_vectors(["a b a b", "b a"], 1).values.round(3).tolist()
    [0.707, 0.707, 0.707, 0.707]
    """

    texts: IntArray
    """Text (row) of each entry."""
    grams: IntArray
    values: FloatArray
    n_texts: int


def gram_vectors(texts: Sequence[str], n: int = 2) -> GramVectors:
    """Return the word n-gram counts of texts, normalised to unit length.

    Inner products of the vectors are cosine similarities.

    Examples
    --------
    >>> vectors = gram_vectors(["how to bake", "how to"])
    >>> vectors.texts.tolist(), vectors.grams.tolist()
    ([0, 0, 1], [0, 1, 0])
    """
    size = validation.integer(n, "n", low=1)
    numbers: dict[tuple[str, ...], int] = {}
    rows: list[int] = []
    grams: list[int] = []
    counts: list[int] = []
    for row, text in enumerate(_strings(texts)):
        words = _words(text)
        whole = tuple(words) or (text.strip(),)
        counted = Counter(_grams(words, size)) or Counter([whole])
        rows += [row] * len(counted)
        grams += [numbers.setdefault(gram, len(numbers)) for gram in counted]
        counts += counted.values()
    at = np.array(rows, dtype=np.int64)
    values = np.array(counts, dtype=np.float64)
    length = np.sqrt(np.bincount(at, values**2))
    return GramVectors(at, np.array(grams, dtype=np.int64), values / length[at], len(texts))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _grams(words: list[str], n: int) -> Iterable[tuple[str, ...]]:
    if n == 2:
        return pairwise(words)
    return zip(*(words[first:] for first in range(n)), strict=False)


def _strings(texts: Sequence[str]) -> Sequence[str]:
    if isinstance(texts, str):
        raise InvalidTypeError("`texts` is a single string; pass a list of strings")
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise InvalidTypeError(f"texts[{row}] is {text!r}; it must be a string")
    if not len(texts):
        raise InvalidInputError("`texts` is empty; at least one text is needed")
    return texts
