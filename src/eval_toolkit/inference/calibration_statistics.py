"""Prepared calibration errors: gaps between predicted and observed shares, bin by bin."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from eval_toolkit import metrics
from eval_toolkit._validate import BoolArray, FloatArray
from eval_toolkit.inference.prepared import Block, Needs, Ranked
from eval_toolkit.metrics._smooth import shared_between_nodes, smooth_errors_of

__all__ = ["EqualMassError", "EqualWidthError", "SmoothError", "score_itself"]


def score_itself(labels: BoolArray, scores: FloatArray) -> FloatArray:
    """Return the scores."""
    return scores


@dataclass(frozen=True)
class EqualWidthError:
    """`metrics.expected_calibration_error`: weighted mean gap over equal-width bins."""

    n_bins: int = 10
    bounds: tuple[float, float] = field(default=(0.0, 1.0), init=False)

    @property
    def name(self) -> str:
        """Name for messages."""
        return f"expected_calibration_error_{self.n_bins}"

    @property
    def _edges(self) -> FloatArray:
        """Lower edges of the bins, from the top; the lowest bin takes every row left."""
        return np.append(np.arange(self.n_bins - 1, 0, -1) / self.n_bins, -np.inf)

    @property
    def needs(self) -> Needs:
        """Score sums above each edge."""
        return Needs(columns=(score_itself,), thresholds=self._edges)

    def point(self, data: Ranked) -> float:
        """Return the error."""
        return metrics.expected_calibration_error(data.labels, data.scores, self.n_bins)

    def replicate(self, block: Block) -> FloatArray:
        """Return Σ |Σ w (s − y)| / Σ w over the bins of each resample."""
        edges = self._edges
        positives, _ = block.counts_above(edges)
        gaps = np.diff(block.sum_above(score_itself, edges) - positives, axis=0, prepend=0.0)
        n = sum(block.totals())
        return np.asarray(np.abs(gaps).sum(axis=0) / n)

    def leave_one_out(self, data: Ranked) -> FloatArray | None:
        """Return (Σ|D| − |D_b| + |D_b − d|) / (n − 1) for a row with gap d in bin b."""
        rows = np.diff(data.leading(self._edges), prepend=0)
        gap = data.sorted_scores - data.sorted_labels
        total = np.array([part.sum() for part in np.split(gap, np.cumsum(rows)[:-1])])
        own = np.repeat(total, rows)
        changed = np.abs(total).sum() - np.abs(own) + np.abs(own - gap)
        return np.asarray(changed / (data.n - 1))

    def effective_n(self, data: Ranked) -> int:
        """Return the number of rows."""
        return data.n


_EQUAL_MASS: dict[str, Callable[..., float]] = {
    "l1": metrics.expected_calibration_error_equal_mass,
    "l2": metrics.expected_calibration_error_l2,
}


@dataclass(frozen=True)
class EqualMassError:
    """Calibration error over bins of equal mass, which are cut anew in every resample."""

    n_bins: int = 10
    norm: str = "l1"
    bounds: tuple[float, float] = field(default=(0.0, 1.0), init=False)
    needs: Needs = field(default_factory=Needs, init=False, compare=False)

    @property
    def name(self) -> str:
        """Name for messages."""
        return f"expected_calibration_error_equal_mass_{self.n_bins}_{self.norm}"

    def point(self, data: Ranked) -> float:
        """Return the error."""
        return _EQUAL_MASS[self.norm](data.labels, data.scores, self.n_bins)

    def replicate(self, block: Block) -> FloatArray:
        """Return one value per resample, NaN with fewer rows than bins."""
        n = block.size()
        # Bins are cut at whole positions ⌊k n / n_bins⌋ from the bottom; these are from the top.
        cuts = n - np.arange(self.n_bins - 1, -1, -1)[:, None] * n // self.n_bins
        positives, scores = block.top(cuts)
        gaps = np.diff(scores - positives, axis=0, prepend=0.0)
        if self.norm == "l2":
            size = np.diff(cuts, axis=0, prepend=0.0)
            with np.errstate(invalid="ignore", divide="ignore"):
                error = np.sqrt((gaps**2 / size).sum(axis=0) / n)
        else:
            error = np.abs(gaps).sum(axis=0) / n
        return np.where(n >= self.n_bins, error, np.nan)

    def leave_one_out(self, data: Ranked) -> FloatArray | None:
        """Return None: every row moves the cuts."""
        return None

    def effective_n(self, data: Ranked) -> int:
        """Return the number of rows."""
        return data.n


_CELLS = 1 << 12  # of the resamples' grid; the value itself is computed on a finer one


def _to_left_node(labels: BoolArray, scores: FloatArray) -> FloatArray:
    return shared_between_nodes(scores, scores - labels, _CELLS)[1]


def _to_right_node(labels: BoolArray, scores: FloatArray) -> FloatArray:
    return shared_between_nodes(scores, scores - labels, _CELLS)[2]


@dataclass(frozen=True)
class SmoothError:
    """`metrics.smooth_ece`: residuals are linear in the counts, so 64 resamples share one grid."""

    name: str = "smooth_ece"
    bounds: tuple[float, float] = field(default=(0.0, 1.0), init=False)

    @property
    def _edges(self) -> FloatArray:
        """Lower edges of the grid's cells, from the top."""
        return np.append(np.arange(_CELLS - 1, 0, -1) / _CELLS, -np.inf)

    @property
    def needs(self) -> Needs:
        """Residual sums per cell."""
        return Needs(columns=(_to_left_node, _to_right_node), thresholds=self._edges)

    def point(self, data: Ranked) -> float:
        """Return the error."""
        return metrics.smooth_ece(data.labels, data.scores)

    def replicate(self, block: Block) -> FloatArray:
        """Return one value per resample."""
        edges = self._edges
        left, right = (
            np.diff(block.sum_above(column, edges), axis=0, prepend=0.0)[::-1]
            for column in (_to_left_node, _to_right_node)
        )
        nodes = np.zeros((_CELLS + 1, left.shape[1]))
        nodes[:-1] += left
        nodes[1:] += right
        return smooth_errors_of(nodes / block.size(), tolerance=1e-9)

    def leave_one_out(self, data: Ranked) -> FloatArray | None:
        """Return None: the width of the blur depends on every row."""
        return None

    def effective_n(self, data: Ranked) -> int:
        """Return the number of rows."""
        return data.n
