"""Near-duplicate removal, within a list or between evaluation and training texts."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.validation import IntArray
from eval_toolkit.errors import InvalidTypeError
from eval_toolkit.protocols import SimilarityStrategy
from eval_toolkit.text_dedup.normalize import checked_texts, exact_duplicate_groups
from eval_toolkit.text_dedup.pairs import (
    Across,
    SimilarPairs,
    Within,
    across,
    checked_threshold,
    joined,
    within,
)
from eval_toolkit.text_dedup.strategies import TfidfCosineStrategy

DEFAULT_DEDUP_THRESHOLD = 0.9
"""Default similarity threshold for near-duplicates."""


@dataclass(frozen=True, slots=True, repr=False)
class DedupReport(Displayed):
    """Kept rows, and dropped rows with their near-duplicates."""

    kept_indices: list[int]
    dropped_pairs: list[tuple[int, int, float]]
    """``(dropped, kept, similarity)``: each dropped row with the first similar kept row."""
    threshold: float
    n_input: int

    @property
    def n_kept(self) -> int:
        """Number of kept rows."""
        return len(self.kept_indices)

    @property
    def n_dropped(self) -> int:
        """Number of dropped rows."""
        return len(self.dropped_pairs)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "kept_indices": self.kept_indices,
            "dropped_pairs": [list(pair) for pair in self.dropped_pairs],
            "threshold": self.threshold,
            "n_input": self.n_input,
            "n_kept": self.n_kept,
            "n_dropped": self.n_dropped,
        }


def checked_strategy(strategy: SimilarityStrategy | None) -> SimilarityStrategy:
    """Return a valid strategy; `TfidfCosineStrategy` if None."""
    if strategy is None:
        return TfidfCosineStrategy()
    if not isinstance(strategy, SimilarityStrategy):
        raise InvalidTypeError(
            f"`strategy` must have pairs_within and pairs_across, got {strategy!r:.80}"
        )
    return strategy


def near_dedup(
    texts: list[str],
    threshold: float = DEFAULT_DEDUP_THRESHOLD,
    k_neighbors: int = 20,
    *,
    strategy: SimilarityStrategy | None = None,
) -> DedupReport:
    """Keep the first row of each set of near-duplicates.

    Rows are visited in order; a row is dropped if its similarity to an earlier kept row reaches the
    threshold. ``k_neighbors`` does not limit the result: of 50 equal rows, one is kept.

    Parameters
    ----------
    texts : list of str
        One text per row.
    threshold : float, default 0.9
        Minimum similarity of near-duplicates, in (0, 1); 1 is also allowed for strategies with
        exact similarities (equal texts or n-grams).
    k_neighbors : int, default 20
        Initial number of neighbours requested from a custom strategy without ``pairs_above``,
        doubled until no neighbour can be missing. Not used by built-in strategies.
    strategy : SimilarityStrategy, optional
        Similarity strategy; by default `TfidfCosineStrategy`. Use `MinHashLSHStrategy` for large
        data.

    Returns
    -------
    DedupReport
        Kept and dropped rows.

    Raises
    ------
    InvalidTypeError
        If the texts are not a list of str, or the strategy is invalid.
    InvalidInputError
        If the threshold is out of range or ``k_neighbors`` is below 1.

    Examples
    --------
    >>> report = near_dedup(["win cash now", "hello there", "Win cash now!!"])
    >>> report.kept_indices, report.dropped_pairs
    ([0, 1], [(2, 0, 1.0)])
    """
    checked_texts(texts, "texts")
    strategy = checked_strategy(strategy)
    threshold, k = _options(threshold, k_neighbors, strategy)
    found = within(strategy, texts, threshold, k, "first_kept")
    reasons = _forward(texts, found, strategy, threshold, k)
    kept, dropped = [], []
    firsts = found.texts.firsts.tolist()
    for row, text in enumerate(found.texts.codes.tolist()):
        if text in reasons:
            other, similarity = reasons[text]
            dropped.append((row, firsts[other], similarity))
        elif firsts[text] != row:
            dropped.append((row, firsts[text], 1.0))
        else:
            kept.append(row)
    return DedupReport(kept, dropped, threshold, len(texts))


Reasons = dict[int, tuple[int, float]]
"""Maps a dropped text to the first similar kept text, and the similarity."""


def _forward(
    texts: list[str], found: Within, strategy: SimilarityStrategy, threshold: float, k: int
) -> Reasons:
    """Visit the distinct texts in order and drop those similar to a kept text."""
    reasons: Reasons = {}
    partial: list[SimilarPairs] = []
    for block in found.blocks:
        _drop(block, reasons)
        if not block.complete:
            partial.append(block)
    examples = [texts[row] for row in found.texts.firsts.tolist()]
    while partial:
        # Only some pairs of a large cluster were listed: search the kept texts again until no
        # similar pair remains. Every dropped text then has a similar kept text.
        kept = np.array([i for i in range(len(examples)) if i not in reasons], np.int64)
        left_over = [examples[i] for i in kept]
        again = joined(within(strategy, left_over, threshold, k).blocks)
        if not len(again):
            break
        partial.append(_renumbered(again, kept, kept))
        doubtful = set(partial[-1].right.tolist())  # dropping these orphans texts
        orphans = np.array([i for i, (why, _) in reasons.items() if why in doubtful], np.int64)
        adopted = across(strategy, [examples[i] for i in orphans], left_over, threshold, k)
        partial.append(_renumbered(joined(adopted.blocks), orphans, kept))
        reasons = {}
        _drop(joined(partial), reasons)
    return reasons


def _renumbered(pairs: SimilarPairs, lefts: IntArray, rights: IntArray) -> SimilarPairs:
    left, right = lefts[pairs.left], rights[pairs.right]
    return SimilarPairs(np.minimum(left, right), np.maximum(left, right), pairs.similarity)


def _drop(block: SimilarPairs, reasons: Reasons) -> None:
    order = np.lexsort((block.left, block.right))
    columns = (column[order].tolist() for column in block)
    for left, right, similarity in zip(*columns, strict=True):
        if right not in reasons and left not in reasons:
            reasons[right] = (left, similarity)


def cross_dedup(
    train_texts: list[str],
    eval_texts: list[str],
    threshold: float = DEFAULT_DEDUP_THRESHOLD,
    k_neighbors: int = 20,
    *,
    strategy: SimilarityStrategy | None = None,
) -> list[int]:
    """Return the evaluation rows without a similar training row.

    Parameters
    ----------
    train_texts, eval_texts : list of str
        One text per row.
    threshold : float, default 0.9
        Minimum similarity of near-duplicates, in (0, 1); 1 is also allowed for strategies with
        exact similarities (equal texts or n-grams).
    k_neighbors : int, default 20
        As in `near_dedup`.
    strategy : SimilarityStrategy, optional
        Similarity strategy; by default `TfidfCosineStrategy`.

    Returns
    -------
    list of int
        Rows of ``eval_texts`` to keep, ascending.

    Raises
    ------
    InvalidTypeError
        If the texts are not lists of str, or the strategy is invalid.
    InvalidInputError
        If the threshold is out of range or ``k_neighbors`` is below 1.

    Examples
    --------
    >>> cross_dedup(["win cash now"], ["hello there", "WIN cash now"])
    [0]
    """
    kinds = np.ones(len(train_texts), np.int64)  # a single similar training row suffices
    found = _across(train_texts, eval_texts, threshold, k_neighbors, strategy, kinds)
    seen = np.zeros(len(found.query.keys), np.bool_)
    for block in found.all_blocks():
        seen[block.left] = True
    return np.flatnonzero(~seen[found.query.codes]).tolist()


def cross_dedup_pairs(
    train_texts: list[str],
    eval_texts: list[str],
    threshold: float = DEFAULT_DEDUP_THRESHOLD,
    k_neighbors: int = 20,
    *,
    strategy: SimilarityStrategy | None = None,
) -> list[tuple[int, int, float]]:
    """Return the pairs of similar evaluation and training rows.

    Parameters
    ----------
    train_texts, eval_texts : list of str
        One text per row.
    threshold : float, default 0.9
        Minimum similarity of near-duplicates, in (0, 1); 1 is also allowed for strategies with
        exact similarities (equal texts or n-grams).
    k_neighbors : int, default 20
        As in `near_dedup`.
    strategy : SimilarityStrategy, optional
        Similarity strategy; by default `TfidfCosineStrategy`.

    Returns
    -------
    list of tuple
        ``(eval row, train row, similarity)`` in ascending order.

    Raises
    ------
    InvalidTypeError
        If the texts are not lists of str, or the strategy is invalid.
    InvalidInputError
        If the threshold is out of range or ``k_neighbors`` is below 1.

    Examples
    --------
    >>> cross_dedup_pairs(["win cash now", "hi"], ["hello there", "WIN cash now"])
    [(1, 0, 1.0)]
    """
    found = _across(train_texts, eval_texts, threshold, k_neighbors, strategy).expanded()
    return list(zip(*(column.tolist() for column in found), strict=True))


def _across(
    train_texts: list[str],
    eval_texts: list[str],
    threshold: float,
    k_neighbors: int,
    strategy: SimilarityStrategy | None,
    kinds: IntArray | None = None,
) -> Across:
    checked_texts(train_texts, "train_texts")
    checked_texts(eval_texts, "eval_texts")
    strategy = checked_strategy(strategy)
    threshold, k = _options(threshold, k_neighbors, strategy)
    return across(strategy, eval_texts, train_texts, threshold, k, kinds)


def duplicate_clusters(
    texts: list[str],
    threshold: float = DEFAULT_DEDUP_THRESHOLD,
    k_neighbors: int = 20,
    *,
    strategy: SimilarityStrategy | None = None,
) -> list[list[int]]:
    """Return clusters of at least two rows connected by similar pairs.

    Unlike `near_dedup`, which only compares with kept rows, a chain of similar pairs forms one
    cluster, which a split should keep together.

    Parameters
    ----------
    texts : list of str
        One text per row.
    threshold : float, default 0.9
        Minimum similarity of near-duplicates, in (0, 1); 1 is also allowed for strategies with
        exact similarities (equal texts or n-grams).
    k_neighbors : int, default 20
        As in `near_dedup`.
    strategy : SimilarityStrategy, optional
        Similarity strategy; by default `TfidfCosineStrategy`.

    Returns
    -------
    list of list of int
        Rows ascending within a cluster, clusters ordered by their first row.

    Raises
    ------
    InvalidTypeError
        If the texts are not a list of str, or the strategy is invalid.
    InvalidInputError
        If the threshold is out of range or ``k_neighbors`` is below 1.

    Examples
    --------
    >>> duplicate_clusters(["win cash now", "hello there", "Win cash now!!"])
    [[0, 2]]
    """
    checked_texts(texts, "texts")
    strategy = checked_strategy(strategy)
    threshold, k = _options(threshold, k_neighbors, strategy)
    found = within(strategy, texts, threshold, k, "clusters")
    parent = list(range(len(found.texts.keys)))

    def root(text: int) -> int:
        while parent[text] != text:
            parent[text] = text = parent[parent[text]]
        return text

    for block in found.blocks:
        for left, right in zip(block.left.tolist(), block.right.tolist(), strict=True):
            low, high = sorted((root(left), root(right)))
            parent[high] = low
    roots = np.array([root(text) for text in range(len(parent))], np.int64)
    return exact_duplicate_groups(roots[found.texts.codes].tolist(), key=int)


def _options(threshold: float, k_neighbors: int, strategy: SimilarityStrategy) -> tuple[float, int]:
    return (
        checked_threshold(threshold, strategy),
        validation.integer(k_neighbors, "k_neighbors", low=1),
    )
