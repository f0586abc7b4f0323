"""Hypothesis strategies for labelled scores: small samples with many ties and exact floats."""

from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

# Odd multiples of 1/64 lie on no threshold 0.5 and on no edge k/10, mirrored (1 − s) neither, and
# arithmetic on them is exact.
OFF_EDGE = [k / 64 for k in range(1, 64, 4)]
ON_EDGE = [0.0, 0.1, 0.25, 0.3, 0.5, 0.7, 1.0]

Rows = tuple[NDArray[np.int64], NDArray[np.float64]]


@st.composite
def labelled_scores(
    draw: st.DrawFn,
    *,
    min_rows: int = 2,
    max_rows: int = 30,
    scores: list[float] | None = None,
    both_classes: bool = True,
) -> Rows:
    """Draw labels and scores; with ``both_classes``, both labels occur."""
    n = draw(st.integers(max(min_rows, 2), max_rows))
    labels = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    if both_classes:
        labels[:2] = [0, 1]
    value = st.sampled_from(scores if scores is not None else OFF_EDGE + ON_EDGE)
    return np.array(labels), np.array(draw(st.lists(value, min_size=n, max_size=n)))


@st.composite
def weighted_rows(
    draw: st.DrawFn, *, min_rows: int = 2, scores: list[float] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Draw rows with integer weights from 0 to 3, at least ``min_rows`` of them positive."""
    labels, values = draw(labelled_scores(min_rows=min_rows, scores=scores))
    n = len(labels)
    weights = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    weights[: max(min_rows, 2)] = [max(1, weight) for weight in weights[: max(min_rows, 2)]]
    return labels, values, np.array(weights)


def permutations_of(rows: Rows) -> st.SearchStrategy[Any]:
    """Draw a permutation of the rows."""
    return st.permutations(range(len(rows[0]))).map(np.array)
