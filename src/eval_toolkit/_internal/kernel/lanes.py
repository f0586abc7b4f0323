"""Constants and helpers shared by the layouts and both backends of the kernel."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.validation import IntArray

LANES = 64
"""Resamples per block; counts are arrays of shape (units, LANES)."""

_SPARE_ENTRIES = 16  # the C loops prefetch this far ahead

Index: TypeAlias = NDArray[np.int32]


def spare(index: IntArray | Index) -> Index:
    """Append the spare entries that the C loops may read to an index array."""
    return np.concatenate([index, np.zeros(_SPARE_ENTRIES)]).astype(np.int32)
