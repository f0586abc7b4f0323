"""Options shared by functions that compute resampling intervals."""

from typing import Any, TypedDict

from eval_toolkit.inference.executors import Executor
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, DEFAULT_N_RESAMPLES
from eval_toolkit.seeds import SeedLike


class Drawing(TypedDict, total=False):
    """Number of resamples, seed and confidence level."""

    n_resamples: int
    confidence: float
    seed: SeedLike
    rng: SeedLike


class Resampling(Drawing, total=False):
    """Options of `Drawing`, and an executor that evaluates the resamples."""

    executor: Executor | None


DRAWING: dict[str, Any] = {
    "n_resamples": DEFAULT_N_RESAMPLES,
    "confidence": DEFAULT_CONFIDENCE,
    "seed": None,
    "rng": None,
}
"""Defaults of `Drawing`."""
RESAMPLING: dict[str, Any] = {**DRAWING, "executor": None}
"""Defaults of `Resampling`."""
