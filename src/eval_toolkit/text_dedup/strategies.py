"""Exact similarity strategies: TF-IDF cosine, equal texts, embedding cosine, Jaccard."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.text_dedup.grams import character_units, count_grams, word_units
from eval_toolkit.text_dedup.normalize import Distinct, distinct, normalize_text_for_dedup
from eval_toolkit.text_dedup.pairs import Across, JoinStrategy, Neighbours, Wanted, Within
from eval_toolkit.text_dedup.spaces import (
    DenseCosine,
    SetJaccard,
    Space,
    SparseCosine,
    rare_first,
)


class _SpaceStrategy(JoinStrategy):
    """Base class of strategies that embed texts in a space, with queries before references."""

    __slots__ = ()

    @abstractmethod
    def _space(self, texts: list[str], copies: IntArray) -> Space:
        """Embed distinct texts; ``copies`` contains the number of rows with each text."""

    def _distinct(self, texts: list[str]) -> Distinct:
        return distinct(texts)

    def _both(self, query: list[str], reference: list[str]) -> tuple[Distinct, Distinct, Space]:
        rows, others = self._distinct(query), self._distinct(reference)
        copies = np.concatenate([rows.sizes, others.sizes])
        return rows, others, self._space(rows.keys + others.keys, copies)

    def within(self, texts: list[str], threshold: float, wanted: Wanted = "pairs") -> Within:
        """Find the similar distinct texts in one list."""
        rows = self._distinct(texts)
        return Within(rows, self._space(rows.keys, rows.sizes).above(threshold, None))

    def across(
        self,
        query: list[str],
        reference: list[str],
        threshold: float,
        kinds: IntArray | None = None,
    ) -> Across:
        """Find the similar distinct texts in two lists."""
        rows, others, space = self._both(query, reference)
        return Across(rows, others, space.above(threshold, len(rows.keys)))

    def _neighbours_within(self, texts: list[str], k: int) -> tuple[Distinct, Neighbours]:
        rows = self._distinct(texts)
        return rows, self._space(rows.keys, rows.sizes).neighbours(k, None)

    def _neighbours_across(
        self, query: list[str], reference: list[str], k: int
    ) -> tuple[Distinct, Distinct, Neighbours]:
        rows, others, space = self._both(query, reference)
        return rows, others, space.neighbours(k, len(rows.keys))


@dataclass(frozen=True, slots=True)
class TfidfCosineStrategy(_SpaceStrategy):
    """Cosine of TF-IDF vectors of word n-grams, exact and complete.

    Words are sequences of letters, digits and underscores, including one-letter words. A text
    without words is represented by its characters, and a text with fewer words than the shortest
    n-gram is a single n-gram. Document frequencies are computed over all rows (query and reference
    together), including copies: idf = ln((1 + n) / (1 + df)) + 1, with vectors of length 1.

    Parameters
    ----------
    ngram_range : tuple of int, default (1, 3)
        Shortest and longest n-gram, in words.
    min_df : int or float, default 1
        Minimum number or fraction of rows that contain an n-gram.
    lowercase : bool, default True
        Whether to compare in lower case.

    Raises
    ------
    InvalidInputError
        If a parameter is out of range.

    Examples
    --------
    >>> strategy = TfidfCosineStrategy()
    >>> left, right, similarity = strategy.pairs_above(["win cash now", "hello", "Win cash now!"], 0.9)
    >>> left.tolist(), right.tolist()
    ([0], [2])
    """

    ngram_range: tuple[int, int] = (1, 3)
    min_df: int | float = 1
    lowercase: bool = True

    def __post_init__(self) -> None:
        try:
            low, high = self.ngram_range
        except (TypeError, ValueError):
            raise InvalidInputError(
                f"`ngram_range` is {self.ngram_range!r}; it must be (shortest, longest)"
            ) from None
        validation.integer(low, "ngram_range[0]", low=1)
        validation.integer(high, "ngram_range[1]", low=low)
        if isinstance(self.min_df, float):
            validation.number(self.min_df, "min_df", low=0.0, high=1.0)
        else:
            validation.integer(self.min_df, "min_df", low=1)

    def _space(self, texts: list[str], copies: IntArray) -> Space:
        units = word_units([text.lower() for text in texts] if self.lowercase else texts)
        row, gram, count = count_grams(units, *self.ngram_range)
        n_rows = int(copies.sum())
        frequency = np.bincount(gram, weights=copies[row]).astype(np.int64)
        least = self.min_df * n_rows if isinstance(self.min_df, float) else self.min_df
        kept = frequency[gram] >= least
        row, gram = row[kept], gram[kept]
        idf = np.log((1 + n_rows) / (1 + frequency[gram])) + 1.0
        value = count[kept] * idf
        length = np.sqrt(np.bincount(row, weights=value**2, minlength=len(texts)))
        return SparseCosine(rare_first(row, gram, value / length[row], len(texts)))


@dataclass(frozen=True, slots=True)
class ExactNormalizedHashStrategy(JoinStrategy):
    """Similarity 1 for equal texts and 0 for others, in one pass.

    Parameters
    ----------
    normalize : bool, default True
        Whether to compare texts normalised by `normalize_text_for_dedup`.

    Examples
    --------
    >>> left, right, _ = ExactNormalizedHashStrategy().pairs_above(["Hi", "ho", " hi "], 0.9)
    >>> left.tolist(), right.tolist()
    ([0], [2])
    """

    reaches_one: ClassVar[bool] = True
    normalize: bool = True

    def _distinct(self, texts: list[str]) -> Distinct:
        return distinct(map(normalize_text_for_dedup, texts) if self.normalize else texts)

    def within(self, texts: list[str], threshold: float, wanted: Wanted = "pairs") -> Within:
        """Return no pairs; distinct texts are never similar."""
        return Within(self._distinct(texts), ())

    def across(
        self,
        query: list[str],
        reference: list[str],
        threshold: float,
        kinds: IntArray | None = None,
    ) -> Across:
        """Return no pairs; the caller pairs equal texts."""
        return Across(self._distinct(query), self._distinct(reference), ())

    def _neighbours_within(self, texts: list[str], k: int) -> tuple[Distinct, Neighbours]:
        rows = self._distinct(texts)
        return rows, _no_neighbours(rows)

    def _neighbours_across(
        self, query: list[str], reference: list[str], k: int
    ) -> tuple[Distinct, Distinct, Neighbours]:
        rows, others = self._distinct(query), self._distinct(reference)
        return rows, others, _no_neighbours(rows)


def _no_neighbours(rows: Distinct) -> Neighbours:
    """Return no neighbours; the caller finds equal texts."""
    return ((np.empty(0, np.int64), np.empty(0)) for _ in rows.keys)


@dataclass(frozen=True, slots=True)
class EmbeddingCosineStrategy(_SpaceStrategy):
    """Cosine of embeddings, exact and complete; negative cosines count as 0.

    Parameters
    ----------
    embedder : callable
        Function from a list of distinct texts to a 2-D array with one vector per text.

    Raises
    ------
    InvalidTypeError
        If the embedder is not callable.

    Examples
    --------
    >>> strategy = EmbeddingCosineStrategy(lambda texts: [[len(t), 1.0] for t in texts])
    >>> similarity, index = strategy.pairs_within(["aaaa", "b", "cccc"], 2)
    >>> index.tolist()
    [[0, 2], [1, 0], [2, 0]]
    """

    embedder: Callable[[list[str]], ArrayLike]

    def __post_init__(self) -> None:
        if not callable(self.embedder):
            raise InvalidTypeError(f"`embedder` must be callable, got {self.embedder!r:.80}")

    def _space(self, texts: list[str], copies: IntArray) -> Space:
        if not texts:
            return DenseCosine(np.empty((0, 0)))
        output = validation.as_array(self.embedder(texts), "embedder output", shape="2-D")
        if output.ndim != 2 or len(output) != len(texts):
            raise InvalidInputError(
                f"`embedder` returned shape {output.shape} for {len(texts)} texts; it must return "
                "one row per text"
            )
        if output.dtype.kind not in "biuf":
            raise InvalidInputError(f"`embedder` returned {output.dtype}; it must return numbers")
        vectors: FloatArray = output.astype(np.float64)
        finite = np.isfinite(vectors).all(axis=1)
        if not finite.all():
            row = int(np.argmin(finite))
            raise InvalidInputError(
                f"`embedder` returned nan or inf for {texts[row]!r:.80}; vectors must be finite"
            )
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        return DenseCosine(np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0))


@dataclass(frozen=True, slots=True)
class JaccardNgramStrategy(_SpaceStrategy):
    """Jaccard similarity of sets of n-grams, exact and complete.

    A text shorter than one n-gram is a single n-gram; two empty texts have similarity 1.

    Parameters
    ----------
    n : int, default 3
        Length of the n-grams.
    analyzer : {"char", "word"}, default "char"
        Units: code points, or words (sequences of letters, digits and underscores).
    normalize : bool, default True
        Whether to compare texts normalised by `normalize_text_for_dedup`.

    Raises
    ------
    InvalidInputError
        If a parameter is out of range.

    Examples
    --------
    >>> _, _, similarity = JaccardNgramStrategy().pairs_above(["abcdef", "abcdeg"], 0.5)
    >>> similarity.tolist()
    [0.6]
    """

    reaches_one: ClassVar[bool] = True
    n: int = 3
    analyzer: str = "char"
    normalize: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        validation.integer(self.n, "n", low=1)
        validation.choice(self.analyzer, "analyzer", ("char", "word"))

    def _distinct(self, texts: list[str]) -> Distinct:
        return distinct(map(normalize_text_for_dedup, texts) if self.normalize else texts)

    def _space(self, texts: list[str], copies: IntArray) -> Space:
        units: Any = character_units if self.analyzer == "char" else word_units
        row, gram, _ = count_grams(units(texts), self.n, self.n)
        return SetJaccard(rare_first(row, gram, np.ones(len(row)), len(texts)))
