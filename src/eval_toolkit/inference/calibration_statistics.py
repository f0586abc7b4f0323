"""Prepared calibration errors: gaps between predicted and observed shares, bin by bin.

All of them are norms of a field of gaps, so a plug-in value is biased upwards: noise has a norm
too. Resamples add the same bias again, and no percentile of them covers. What holds is the triangle
inequality, | ‖estimate‖ − ‖truth‖ | ≤ ‖estimate − truth‖, and the right side is what the
`distance` of resamples from the data estimates.
"""

import functools
from abc import ABC, abstractmethod
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


@functools.lru_cache(maxsize=128)
def _lower_edges(n_bins: int) -> FloatArray:
    """Return the lower edges of equal-width bins from the top, the last of them open."""
    edges = np.append(np.arange(n_bins - 1, 0, -1) / n_bins, -np.inf)
    edges.flags.writeable = False
    return edges


def _field(gaps: FloatArray, rows: FloatArray, norm: str) -> FloatArray:
    """Scale summed gaps of bins so that the norm of the result is the calibration error."""
    n = rows.sum(axis=0)
    scale = {"l1": n, "l2": np.sqrt(rows * n), "max": rows}[norm]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(rows > 0, gaps / scale, 0.0)


def _steps(cumulative: FloatArray) -> FloatArray:
    """Return the differences along the first axis, the first from zero."""
    steps = cumulative.copy()
    steps[1:] -= cumulative[:-1]
    return steps


_NORMS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "l1": lambda values: np.abs(values).sum(axis=0),
    "l2": lambda values: np.sqrt((values**2).sum(axis=0)),
    "max": lambda values: np.abs(values).max(axis=0),
}


@dataclass(frozen=True)
class _BinnedError(ABC):
    """What errors over equal-width and over equal-mass bins share."""

    n_bins: int = 10
    norm: str = "l1"
    bounds: tuple[float, float] = field(default=(0.0, 1.0), init=False)

    @abstractmethod
    def _bins(self, block: Block) -> tuple[FloatArray, FloatArray]:
        """Return summed gaps and rows of each bin, from the top: (bins, 64) each."""

    @abstractmethod
    def _rows(self, data: Ranked) -> FloatArray:
        """Return the rows of each bin of the data, from the top."""

    def _bins_of(self, data: Ranked) -> tuple[FloatArray, FloatArray]:
        """Return summed gaps and rows of each bin of the data: (bins, 1) each."""
        rows = self._rows(data)
        gap = data.sorted_scores - data.sorted_labels
        total = [part.sum() for part in np.split(gap, np.cumsum(rows)[:-1].astype(np.int64))]
        return np.array(total)[:, None], rows[:, None]

    def replicate(self, block: Block) -> FloatArray:
        """Return one value per resample."""
        return _NORMS[self.norm](self._gaps(block))

    def distance(self, block: Block) -> FloatArray:
        """Return the norm of each resample's gaps minus the data's."""
        data = block.view.data
        here = data.once(self, lambda: _field(*self._bins_of(data), self.norm))
        return _NORMS[self.norm](self._gaps(block) - here)

    def _gaps(self, block: Block) -> FloatArray:
        return block.once(self, lambda: _field(*self._bins(block), self.norm))

    def leave_one_out(self, data: Ranked) -> FloatArray | None:
        """Return None: the interval comes from distances."""
        return None

    def support(self, data: Ranked) -> tuple[BoolArray, ...]:
        """Every row counts."""
        return (np.ones(data.n, dtype=np.bool_),)


@dataclass(frozen=True)
class EqualWidthError(_BinnedError):
    """`metrics.expected_calibration_error` and the maximum error over equal-width bins."""

    @property
    def name(self) -> str:
        """Name for messages."""
        return f"calibration_error_uniform_{self.n_bins}_{self.norm}"

    @property
    def _edges(self) -> FloatArray:
        """Lower edges of the bins, from the top; the lowest bin takes every row left."""
        return _lower_edges(self.n_bins)

    @property
    def needs(self) -> Needs:
        """Score sums above each edge."""
        return Needs(columns=(score_itself,), thresholds=self._edges)

    def point(self, data: Ranked) -> float:
        """Return the error."""
        if self.norm == "max":
            return metrics.maximum_calibration_error(
                data.labels, data.scores, n_bins=self.n_bins, strategy="uniform"
            )
        return metrics.expected_calibration_error(data.labels, data.scores, self.n_bins)

    def _bins(self, block: Block) -> tuple[FloatArray, FloatArray]:
        edges = self._edges
        positives, negatives = block.counts_above(edges)
        gaps = _steps(block.sum_above(score_itself, edges) - positives)
        return gaps, _steps(positives + negatives)

    def _rows(self, data: Ranked) -> FloatArray:
        return np.diff(data.leading(self._edges), prepend=0).astype(np.float64)


_EQUAL_MASS: dict[str, Callable[..., float]] = {
    "l1": metrics.expected_calibration_error_equal_mass,
    "l2": metrics.expected_calibration_error_l2,
    "max": metrics.maximum_calibration_error,
}


@dataclass(frozen=True)
class EqualMassError(_BinnedError):
    """Calibration error over bins of equal mass, which are cut anew in every resample."""

    needs: Needs = field(default_factory=Needs, init=False, compare=False)

    @property
    def name(self) -> str:
        """Name for messages."""
        return f"calibration_error_quantile_{self.n_bins}_{self.norm}"

    def point(self, data: Ranked) -> float:
        """Return the error."""
        return _EQUAL_MASS[self.norm](data.labels, data.scores, n_bins=self.n_bins)

    def replicate(self, block: Block) -> FloatArray:
        """Return one value per resample, NaN with fewer rows than bins."""
        return np.where(block.size() >= self.n_bins, super().replicate(block), np.nan)

    def _cuts(self, n: FloatArray) -> FloatArray:
        """Return the rows above each cut, from the top: (bins, len(n)).

        Bins are cut at whole positions ⌊k n / n_bins⌋ from the bottom.
        """
        return n - np.arange(self.n_bins - 1, -1, -1)[:, None] * n // self.n_bins

    def _bins(self, block: Block) -> tuple[FloatArray, FloatArray]:
        cuts = self._cuts(block.size())
        positives, scores = block.top(cuts)
        return _steps(scores - positives), _steps(cuts)

    def _rows(self, data: Ranked) -> FloatArray:
        return np.diff(self._cuts(np.array([float(data.n)]))[:, 0], prepend=0.0)


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
        return _lower_edges(_CELLS)

    @property
    def needs(self) -> Needs:
        """Residual sums per cell."""
        return Needs(columns=(_to_left_node, _to_right_node), thresholds=self._edges)

    def point(self, data: Ranked) -> float:
        """Return the error."""
        return metrics.smooth_ece(data.labels, data.scores)

    def replicate(self, block: Block) -> FloatArray:
        """Return one value per resample."""
        return smooth_errors_of(self._nodes(block), tolerance=1e-9)

    def distance(self, block: Block) -> FloatArray:
        """Return the error of each resample's residuals minus the data's.

        The error is subadditive: blurring by a + b leaves no more of r₁ + r₂ than blurring by a
        leaves of r₁ and by b of r₂. So the triangle inequality holds, although it is no norm.
        """
        data = block.view.data
        here = data.once(self, lambda: self._nodes_of(data))
        return smooth_errors_of(self._nodes(block) - here, tolerance=1e-9)

    def _nodes_of(self, data: Ranked) -> FloatArray:
        """Return the mean residual at every node of the grid."""
        cell, to_left, to_right = shared_between_nodes(
            data.scores, (data.scores - data.labels) / data.n, _CELLS
        )
        nodes = np.zeros((_CELLS + 1, 1))
        nodes[:-1, 0] += np.bincount(cell, to_left, _CELLS)
        nodes[1:, 0] += np.bincount(cell, to_right, _CELLS)
        return nodes

    def _nodes(self, block: Block) -> FloatArray:
        """Return the mean residual at every node of the grid, per resample."""
        return block.once(self, lambda: self._made_nodes(block))

    def _made_nodes(self, block: Block) -> FloatArray:
        edges = self._edges
        left, right = (
            _steps(block.sum_above(column, edges))[::-1]
            for column in (_to_left_node, _to_right_node)
        )
        nodes = np.zeros((_CELLS + 1, left.shape[1]))
        nodes[:-1] += left
        nodes[1:] += right
        return np.asarray(nodes / block.size())

    def leave_one_out(self, data: Ranked) -> FloatArray | None:
        """Return None: the interval comes from distances."""
        return None

    def support(self, data: Ranked) -> tuple[BoolArray, ...]:
        """Every row counts."""
        return (np.ones(data.n, dtype=np.bool_),)
