"""Contract for similarity strategies."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eval_toolkit.protocols import SimilarityStrategy
from eval_toolkit.testing.inputs import ODD_TEXTS, TEXTS
from eval_toolkit.testing.rules import Suite, expect, has_members, unchanged, version_if_any

__all__ = ["SIMILARITY"]

_ROUNDING = 1e-6


@dataclass(frozen=True)
class _Texts:
    """Texts to compare, followed by a copy of the first."""

    texts: Sequence[str] = TEXTS

    def within(self, strategy: Any, k: int = 3) -> tuple[Any, Any]:
        """Return similarities and indices of neighbours within one list."""
        found = strategy.pairs_within([*self.texts, self.texts[0]], k)
        expect(isinstance(found, tuple) and len(found) == 2, "`pairs_within`", found)
        return np.asarray(found[0], dtype=np.float64), np.asarray(found[1])

    def across(self, strategy: Any, k: int = 2) -> tuple[Any, Any]:
        """Return similarities and indices of neighbours in another list."""
        found = strategy.pairs_across([self.texts[0], self.texts[1]], list(self.texts), k)
        expect(isinstance(found, tuple) and len(found) == 2, "`pairs_across`", found)
        return np.asarray(found[0], dtype=np.float64), np.asarray(found[1])


def one_row_per_text(strategy: Any, given: _Texts) -> None:
    """Both arrays have one row per text and one column per requested neighbour."""
    for name, (similarities, indices), shape in (
        ("pairs_within", given.within(strategy), (len(given.texts) + 1, 3)),
        ("pairs_across", given.across(strategy), (2, 2)),
    ):
        expect(similarities.shape == shape, f"{name}: shape {shape}", similarities.shape)
        expect(indices.shape == shape, f"{name}: shape {shape}", indices.shape)


def indices_are_valid(strategy: Any, given: _Texts) -> None:
    """Indices are valid positions in the list, and no neighbour is repeated."""
    for name, (_, indices), n in (
        ("pairs_within", given.within(strategy), len(given.texts) + 1),
        ("pairs_across", given.across(strategy), len(given.texts)),
    ):
        expect(indices.dtype.kind in "iu", f"{name}: integers", indices.dtype)
        expect(((indices >= 0) & (indices < n)).all(), f"{name}: {n} texts", indices.tolist())
        twice = [line for line in indices.tolist() if len(set(line)) < len(line)]
        expect(not twice, f"{name}: distinct neighbours", twice)


def similarities_within_bounds(strategy: Any, given: _Texts) -> None:
    """Similarities are finite and in [-1, 1]."""
    for name, (similarities, _) in (
        ("pairs_within", given.within(strategy)),
        ("pairs_across", given.across(strategy)),
    ):
        fine = np.isfinite(similarities) & (np.abs(similarities) <= 1.0 + _ROUNDING)
        expect(fine.all(), name, similarities.tolist())


def neighbours_are_sorted(strategy: Any, given: _Texts) -> None:
    """Neighbours are sorted by decreasing similarity."""
    for name, (similarities, _) in (
        ("pairs_within", given.within(strategy)),
        ("pairs_across", given.across(strategy)),
    ):
        falling = np.diff(similarities, axis=1) <= _ROUNDING
        expect(falling.all(), name, similarities.tolist())


def self_is_first_neighbour(strategy: Any, given: _Texts) -> None:
    """Within one list, every text is its own first neighbour, with similarity 1."""
    similarities, indices = given.within(strategy)
    n = len(given.texts) + 1
    expect(indices[:, 0].tolist() == list(range(n)), "the first neighbours", indices[:, 0].tolist())
    own = np.abs(similarities[:, 0] - 1.0) <= _ROUNDING
    expect(own.all(), "similarities with itself", similarities[:, 0].tolist())


def finds_copies(strategy: Any, given: _Texts) -> None:
    """A copy of a text is a neighbour with similarity 1, within one list and across two."""
    last = len(given.texts)
    similarities, indices = given.within(strategy)
    own = dict(zip(indices[last].tolist(), similarities[last].tolist(), strict=True))
    expect(abs(own.get(0, 0.0) - 1.0) <= _ROUNDING, "a copy of text 0 in the list", own)
    similarities, indices = given.across(strategy)
    expect(indices[:, 0].tolist() == [0, 1], "the texts in the other list", indices.tolist())
    expect((np.abs(similarities[:, 0] - 1.0) <= _ROUNDING).all(), "copies", similarities.tolist())


def neighbours_are_deterministic(strategy: Any, given: _Texts) -> None:
    """The same texts have the same neighbours."""
    for ask in (given.within, given.across):
        first, again = ask(strategy), ask(strategy)
        same = np.array_equal(first[0], again[0]) and np.array_equal(first[1], again[1])
        expect(same, "the same texts", (first[1].tolist(), again[1].tolist()))


def does_not_modify_lists(strategy: Any, given: _Texts) -> None:
    """Comparing texts modifies neither list."""
    unchanged(list(given.texts), lambda texts: strategy.pairs_within(texts, 2))
    unchanged(list(given.texts), lambda texts: strategy.pairs_across(texts, texts, 2))


def compares_unusual_texts(strategy: Any, given: _Texts) -> None:
    """Empty, long and unusual texts are compared like any other."""
    texts = list(ODD_TEXTS)
    similarities, _ = strategy.pairs_within(texts, 2)
    fine = np.isfinite(np.asarray(similarities, dtype=np.float64))
    expect(fine.all(), "odd texts", np.asarray(similarities).tolist())


SIMILARITY = Suite(
    "similarity",
    (
        has_members(SimilarityStrategy),
        version_if_any,
        one_row_per_text,
        indices_are_valid,
        similarities_within_bounds,
        neighbours_are_sorted,
        self_is_first_neighbour,
        finds_copies,
        neighbours_are_deterministic,
        does_not_modify_lists,
        compares_unusual_texts,
    ),
    _Texts,
)
