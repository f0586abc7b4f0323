"""Pairs of similar rows, also from neighbour-based strategies."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.validation import FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.text_dedup.normalize import Distinct, checked_texts, distinct

Wanted: TypeAlias = Literal["pairs", "clusters", "first_kept"]
"""Requested pairs: all pairs; enough pairs to connect each cluster; or each dropped text with the
first similar kept text. A strategy may always return more pairs."""

COPIES_LIMIT = 1000
"""Maximum number of equal rows paired with each other; additional rows are paired with one row."""

Neighbours = Iterable[tuple[IntArray, FloatArray]]


@dataclass(frozen=True, slots=True, repr=False)
class SimilarPairs(Displayed):
    """Pairs of rows at or above a threshold; unpacks as ``left, right, similarity``."""

    left: IntArray
    right: IntArray
    similarity: FloatArray
    complete: bool = True
    """False if only some pairs of very large clusters are listed."""

    def __iter__(self) -> Iterator[Any]:
        return iter((self.left, self.right, self.similarity))

    def __len__(self) -> int:
        return len(self.left)

    def ordered(self) -> "SimilarPairs":
        """Return the pairs in ascending order of left, then right."""
        order = np.lexsort((self.right, self.left))
        return SimilarPairs(
            self.left[order], self.right[order], self.similarity[order], self.complete
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "left": self.left.tolist(),
            "right": self.right.tolist(),
            "similarity": self.similarity.tolist(),
            "complete": self.complete,
        }


NO_PAIRS = SimilarPairs(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


def joined(blocks: Iterable[SimilarPairs]) -> SimilarPairs:
    """Concatenate blocks of pairs."""
    parts = [NO_PAIRS, *blocks]
    return SimilarPairs(
        np.concatenate([part.left for part in parts]),
        np.concatenate([part.right for part in parts]),
        np.concatenate([part.similarity for part in parts]),
        all(part.complete for part in parts),
    )


@dataclass(frozen=True, slots=True)
class Within:
    """Similar distinct texts in one list; rows with equal texts are also duplicates."""

    texts: Distinct
    blocks: Iterable[SimilarPairs]
    """Pairs of distinct texts; a block contains all pairs of its right texts. If pairs are omitted,
    there is a single block."""

    def expanded(self) -> SimilarPairs:
        """Return the pairs of rows."""
        found = joined(self.blocks)
        rows = joined([_expand(found, self.texts, self.texts), _copies(self.texts)])
        low, high = np.minimum(rows.left, rows.right), np.maximum(rows.left, rows.right)
        return SimilarPairs(low, high, rows.similarity, rows.complete).ordered()


@dataclass(frozen=True, slots=True)
class Across:
    """Similar distinct texts in two lists; left is a query, right a reference."""

    query: Distinct
    reference: Distinct
    blocks: Iterable[SimilarPairs]

    def all_blocks(self) -> Iterator[SimilarPairs]:
        """Yield the pairs of equal texts, then the blocks."""
        places = {text: place for place, text in enumerate(self.reference.keys)}
        equal = [(q, places[text]) for q, text in enumerate(self.query.keys) if text in places]
        left, right = np.array(equal, np.int64).reshape(-1, 2).T
        yield SimilarPairs(left, right, np.ones(len(left)))
        match = np.full(len(self.query.keys), -1)
        match[left] = right
        for block in self.blocks:
            new = match[block.left] != block.right
            yield SimilarPairs(
                block.left[new], block.right[new], block.similarity[new], block.complete
            )

    def expanded(self) -> SimilarPairs:
        """Return the pairs of rows."""
        return _expand(joined(self.all_blocks()), self.query, self.reference).ordered()


def _expand(pairs: SimilarPairs, lefts: Distinct, rights: Distinct) -> SimilarPairs:
    """Expand pairs of distinct texts to pairs of rows."""
    rows_left, begin_left = lefts.members()
    rows_right, begin_right = rights.members()
    size_left, size_right = lefts.sizes[pairs.left], rights.sizes[pairs.right]
    n_left, n_right = np.minimum(size_left, COPIES_LIMIT), np.minimum(size_right, COPIES_LIMIT)
    # Copies beyond the limit are paired with the first copy on the other side; none is omitted.
    beyond_left, beyond_right = size_left - n_left, size_right - n_right
    times = n_left * n_right + beyond_left + beyond_right
    of_pair = np.repeat(np.arange(len(times)), times)
    step = np.arange(len(of_pair)) - np.repeat(np.cumsum(times) - times, times)
    nth_left, nth_right = np.divmod(step, n_right[of_pair])
    over = step - (n_left * n_right)[of_pair]
    on_left = (over >= 0) & (over < beyond_left[of_pair])
    on_right = over >= beyond_left[of_pair]
    nth_left = np.where(on_left, n_left[of_pair] + over, np.where(on_right, 0, nth_left))
    extra_right = n_right[of_pair] + over - beyond_left[of_pair]
    nth_right = np.where(on_right, extra_right, np.where(on_left, 0, nth_right))
    return SimilarPairs(
        rows_left[begin_left[pairs.left[of_pair]] + nth_left],
        rows_right[begin_right[pairs.right[of_pair]] + nth_right],
        pairs.similarity[of_pair],
        pairs.complete and not (beyond_left.any() or beyond_right.any()),
    )


def _copies(texts: Distinct) -> SimilarPairs:
    """Return the pairs of rows with equal texts."""
    rows, begins = texts.members()
    sizes = texts.sizes
    blocks = []
    for size in np.unique(sizes[sizes > 1]).tolist():
        first, second = np.triu_indices(min(size, COPIES_LIMIT), 1)
        beyond = np.arange(COPIES_LIMIT, size)  # linked to the first copy only
        first = np.concatenate([first, np.zeros_like(beyond)])
        second = np.concatenate([second, beyond])
        group = begins[sizes == size][:, None]
        left, right = rows[(group + first).ravel()], rows[(group + second).ravel()]
        blocks.append(SimilarPairs(left, right, np.ones(len(left)), size <= COPIES_LIMIT))
    return joined(blocks)


class JoinStrategy(ABC):
    """Base class of the built-in strategies, which compare distinct texts."""

    __slots__ = ()
    reaches_one: ClassVar[bool] = False
    """Whether equal texts have a similarity of exactly 1; cosines are subject to rounding."""

    @abstractmethod
    def within(self, texts: list[str], threshold: float, wanted: Wanted = "pairs") -> Within:
        """Find the similar distinct texts in one list; additional pairs may be returned."""

    @abstractmethod
    def across(
        self,
        query: list[str],
        reference: list[str],
        threshold: float,
        kinds: IntArray | None = None,
    ) -> Across:
        """Find the similar distinct texts in two lists.

        ``kinds`` is a bit mask for each reference row, such as its split. With ``kinds``, one
        similar reference per query and bit is sufficient. Additional pairs may be returned.
        """

    @abstractmethod
    def _neighbours_within(self, texts: list[str], k: int) -> tuple[Distinct, Neighbours]: ...

    @abstractmethod
    def _neighbours_across(
        self, query: list[str], reference: list[str], k: int
    ) -> tuple[Distinct, Distinct, Neighbours]: ...

    def pairs_above(self, texts: list[str], threshold: float) -> SimilarPairs:
        """Return all pairs of rows with similarity at or above the threshold.

        Parameters
        ----------
        texts : list of str
            One text per row.
        threshold : float
            Minimum similarity, in (0, 1].

        Returns
        -------
        SimilarPairs
            ``left < right``, in ascending order, with the similarity of each pair.

        Raises
        ------
        InvalidInputError
            If the texts are not a list of str or the threshold is outside (0, 1].
        """
        return self.within(checked_texts(texts, "texts"), _threshold(threshold)).expanded()

    def pairs_above_across(
        self, query: list[str], reference: list[str], threshold: float
    ) -> SimilarPairs:
        """Return all pairs of query and reference rows with similarity at or above the threshold.

        Parameters
        ----------
        query, reference : list of str
            One text per row.
        threshold : float
            Minimum similarity, in (0, 1].

        Returns
        -------
        SimilarPairs
            ``left`` is a query row, ``right`` a reference row; in ascending order.

        Raises
        ------
        InvalidInputError
            If the texts are not lists of str or the threshold is outside (0, 1].
        """
        checked_texts(query, "query")
        checked_texts(reference, "reference")
        return self.across(query, reference, _threshold(threshold)).expanded()

    def pairs_within(
        self, texts: list[str], k_neighbors: int | None = None, *, k: int | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Return the nearest rows of each row, starting with the row itself.

        Parameters
        ----------
        texts : list of str
            One text per row.
        k_neighbors, k : int
            Number of neighbours, including the row itself; ``k`` is an alias.

        Returns
        -------
        similarities, indices : arrays of shape (n, min(k_neighbors, n))
            Most similar first.

        Raises
        ------
        InvalidInputError
            If the texts are not a list of str, or ``k_neighbors`` is below 1, missing or given
            twice.
        """
        n = min(_n_neighbours(k_neighbors, k), len(texts))
        rows, neighbours = self._neighbours_within(checked_texts(texts, "texts"), n)
        return nearest(rows, rows, neighbours, n, self_first=True)

    def pairs_across(
        self,
        query: list[str],
        reference: list[str],
        k_neighbors: int | None = None,
        *,
        k: int | None = None,
    ) -> tuple[FloatArray, IntArray]:
        """Return the nearest reference rows of each query row.

        Parameters
        ----------
        query, reference : list of str
            One text per row.
        k_neighbors, k : int
            Number of neighbours; ``k`` is an alias.

        Returns
        -------
        similarities, indices : arrays of shape (n_query, min(k_neighbors, n_reference))
            Most similar first.

        Raises
        ------
        InvalidInputError
            If the texts are not lists of str, or ``k_neighbors`` is below 1, missing or given
            twice.
        """
        n = min(_n_neighbours(k_neighbors, k), len(reference))
        checked_texts(query, "query")
        checked_texts(reference, "reference")
        rows, others, neighbours = self._neighbours_across(query, reference, n)
        return nearest(rows, others, neighbours, n, self_first=False)


def _n_neighbours(k_neighbors: int | None, k: int | None) -> int:
    """Return the number of neighbours, passed under either name."""
    if k_neighbors is not None and k is not None:
        raise InvalidInputError("`k` is an alias of `k_neighbors`; pass only one of them")
    given: Any = k if k_neighbors is None else k_neighbors
    return validation.integer(given, "k_neighbors", low=1)


def checked_threshold(value: float, strategy: Any) -> float:
    """Return a threshold in (0, 1); 1 is allowed for strategies with exact similarities."""
    if getattr(strategy, "reaches_one", False):
        return _threshold(value)
    try:
        return validation.fraction(value, "threshold")
    except InvalidInputError as error:
        hint = "; 1 is only allowed for ExactNormalizedHashStrategy, JaccardNgramStrategy and MinHashLSHStrategy"
        raise InvalidInputError(f"{error}{hint if value == 1.0 else ''}") from None


def _threshold(value: float) -> float:
    return validation.number(value, "threshold", low=0.0, high=1.0, include_low=False)


def nearest(
    query: Distinct, reference: Distinct, neighbours: Neighbours, k: int, *, self_first: bool
) -> tuple[FloatArray, IntArray]:
    """Convert nearest distinct texts to nearest rows.

    Rows with the same text come first. Missing neighbours are filled with rows of similarity 0.
    """
    n_rows, n_others = len(query.codes), len(reference.codes)
    similarities, indices = np.zeros((n_rows, k)), np.zeros((n_rows, k), np.int64)
    if not n_rows or not k:
        return similarities, indices
    groups, own_groups = reference.groups(), query.groups()
    places = {text: place for place, text in enumerate(reference.keys)}
    none = np.empty(0, np.int64)
    filler = np.arange(min(2 * k, n_others))  # fewer than k of these are already included
    for number, (near, values) in enumerate(neighbours):
        equal = places.get(query.keys[number])
        copies = none if equal is None else groups[equal][: k + 1]
        found, level = _rows_of(near, values, groups, k)
        others = np.concatenate([copies, found, filler])
        value = np.concatenate([np.ones(len(copies)), level, np.zeros(len(filler))])
        for row in own_groups[number].tolist():
            first = [row] if self_first else none
            order = np.concatenate([first, others]).astype(np.int64)
            at_first = np.concatenate([np.ones(len(first)), value])
            _, earliest = np.unique(order, return_index=True)
            chosen = np.sort(earliest)[:k]
            indices[row], similarities[row] = order[chosen], at_first[chosen]
    return similarities, indices


def _rows_of(
    places: IntArray, values: FloatArray, groups: list[IntArray], k: int
) -> tuple[IntArray, FloatArray]:
    """Return up to k rows of the nearest texts."""
    parts = [groups[place][: k + 1] for place in places[: k + 1].tolist()]
    if not parts:
        return np.empty(0, np.int64), np.empty(0)
    return np.concatenate(parts), np.repeat(values[: k + 1], [len(part) for part in parts])


def within(
    strategy: Any, texts: list[str], threshold: float, k_neighbors: int, wanted: Wanted = "pairs"
) -> Within:
    """Find the similar distinct texts in one list with any strategy."""
    if isinstance(strategy, JoinStrategy):
        return strategy.within(texts, threshold, wanted)
    rows = distinct(texts)
    if hasattr(strategy, "pairs_above"):
        return Within(rows, [_as_pairs(strategy.pairs_above(rows.keys, threshold))])
    n = len(rows.keys)
    similarity, index = _until_complete(
        lambda k: strategy.pairs_within(rows.keys, k), (n, n), threshold, k_neighbors, strategy
    )
    left, place = np.nonzero((similarity >= threshold) & (index != np.arange(n)[:, None]))
    right = index[left, place]
    low, high = np.minimum(left, right), np.maximum(left, right)
    codes, first = np.unique(low * n + high, return_index=True)
    found = similarity[left, place][first].astype(np.float64)
    return Within(rows, [SimilarPairs(codes // max(n, 1), codes % max(n, 1), found)])


def across(
    strategy: Any,
    query: list[str],
    reference: list[str],
    threshold: float,
    k_neighbors: int,
    kinds: IntArray | None = None,
) -> Across:
    """Find the similar distinct texts in two lists with any strategy."""
    if isinstance(strategy, JoinStrategy):
        return strategy.across(query, reference, threshold, kinds)
    rows, others = distinct(query), distinct(reference)
    if hasattr(strategy, "pairs_above_across"):
        found = _as_pairs(strategy.pairs_above_across(rows.keys, others.keys, threshold))
        return Across(rows, others, [found])
    similarity, index = _until_complete(
        lambda k: strategy.pairs_across(rows.keys, others.keys, k),
        (len(rows.keys), len(others.keys)),
        threshold,
        k_neighbors,
        strategy,
    )
    left, place = np.nonzero(similarity >= threshold)
    found = SimilarPairs(left, index[left, place], similarity[left, place].astype(np.float64))
    return Across(rows, others, [found])


def _until_complete(
    ask: Any, shape: tuple[int, int], threshold: float, k: int, strategy: Any
) -> tuple[FloatArray, IntArray]:
    """Double k until every row's last neighbour is below the threshold, or all are returned."""
    n_rows, n_others = shape
    if not n_rows or not n_others:
        return np.empty((n_rows, 0)), np.empty((n_rows, 0), np.int64)
    while True:
        k = min(k, n_others)
        similarity, index = (np.asarray(part) for part in ask(k))
        if similarity.shape != (n_rows, k) or index.shape != (n_rows, k):
            raise InvalidInputError(
                f"strategy {type(strategy).__name__} returned shapes {similarity.shape} and "
                f"{index.shape} for k = {k}; both must be {(n_rows, k)}"
            )
        if k == n_others or (similarity[:, -1] < threshold).all():
            return similarity, index.astype(np.int64)
        k *= 2


def _as_pairs(found: Any) -> SimilarPairs:
    if isinstance(found, SimilarPairs):
        return found
    left, right, similarity = found
    return SimilarPairs(
        np.asarray(left, np.int64), np.asarray(right, np.int64), np.asarray(similarity, np.float64)
    )
