"""Metrics that tests of executors send to other processes; a module of few imports."""

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
    """Undefined on about a third of the resamples, each with a message of its own."""
    if len(np.unique(s)) < 0.625 * len(s):
        raise LookupError(f"mean {s.mean():.6f}")
    return float(s.mean())


def deadly(y: Any, s: Any) -> float:
    if multiprocessing.parent_process() is not None:
        os._exit(9)
    return 0.5


class Foreign:
    """A metric spec that is not ours."""

    def __init__(self, name: str, function: Callable[..., float]) -> None:
        self.name = name
        self.compute = function
