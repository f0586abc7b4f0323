"""Metrics that executor tests send to other processes; this module has few imports."""

import multiprocessing
import os
from collections.abc import Callable
from typing import Any

import numpy as np


def median(y: Any, s: Any) -> float:
    return float(np.median(s))


def share_above(y: Any, s: Any, threshold: float) -> float:
    return float((s >= threshold).mean())


def picky(y: Any, s: Any) -> float:
    """Compute a metric that is undefined on about a third of the resamples, with varying messages."""
    if len(np.unique(s)) < 0.625 * len(s):
        raise LookupError(f"mean {s.mean():.6f}")
    return float(s.mean())


def deadly(y: Any, s: Any) -> float:
    if multiprocessing.parent_process() is not None:
        os._exit(9)
    return 0.5


class Foreign:
    """Custom metric spec."""

    def __init__(self, name: str, function: Callable[..., float]) -> None:
        self.name = name
        self.compute = function
