"""Calibration errors for resampling: gaps between predicted and observed frequencies per bin.

All of them are norms of a vector of gaps, so plug-in values are biased upwards: noise has a
positive norm. Resampling adds the same bias again, so percentile intervals undercover. The
intervals are therefore based on the triangle inequality, | ‖estimate‖ − ‖truth‖ | ≤ ‖estimate −
truth‖. The right-hand side is estimated by simulating labels (`label_draws`) and, for grouped rows,
by the `distance` between resamples and data; `calibration_intervals` combines both.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from eval_toolkit import metrics
from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray
from eval_toolkit.inference.columns import SCORED, Columns, Needs, Term
from eval_toolkit.metrics.smoothing import shared_between_nodes, smooth_errors_of

if TYPE_CHECKING:
    from eval_toolkit.inference.resample_blocks import Block


@functools.lru_cache(maxsize=128)
def _lower_edges(n_bins: int) -> FloatArray:
    """Return the lower edges of equal-width bins in descending order; the last bin is unbounded."""
    edges = np.append(np.arange(n_bins - 1, 0, -1) / n_bins, -np.inf)
    edges.flags.writeable = False
    return edges


def _field(gaps: FloatArray, rows: FloatArray, norm: str) -> FloatArray:
    """Scale the summed gaps per bin so that their norm is the calibration error."""
    n = rows.sum(axis=0)
    scale = {"l1": n, "l2": np.sqrt(rows * n), "max": rows}[norm]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(rows > 0, gaps / scale, 0.0)


def _steps(cumulative: FloatArray) -> FloatArray:
    """Return differences along the first axis, with a leading zero."""
    steps = cumulative.copy()
    steps[1:] -= cumulative[:-1]
    return steps


@dataclass(frozen=True, eq=False)
class DrawnFields:
    """Gaps for simulated labels, of shape (gaps, draws) or (gaps, 1)."""

    observed: FloatArray
    """Gaps of the data."""
    assumed: FloatArray
    """Gaps for the frequencies from which noise is drawn."""
    noise: FloatArray
    """Gaps for labels drawn from those frequencies, minus ``assumed``."""
    calibrated: FloatArray
    """Gaps for labels drawn from the predicted probabilities."""


Draw: TypeAlias = Callable[["np.random.Generator", int], DrawnFields]
"""Function of (generator, number of draws) that returns fields of gaps."""


class CalibrationError(Protocol):
    """Statistic whose interval is computed from simulated labels."""

    @property
    def name(self) -> str:
        """Name used in messages."""
        ...

    @property
    def needs(self) -> Needs:
        """Columns and sums read from a block."""
        ...

    def distance(self, block: Block) -> FloatArray:
        """Return the distance between the gaps of each resample and those of the data."""
        ...

    def label_draws(self, data: Columns) -> Draw:
        """Return a function that draws gaps under simulated labels."""
        ...

    def size(self, fields: FloatArray) -> FloatArray:
        """Return the error of each column of gaps."""
        ...


_PSEUDO_L1 = 2.0
"""Pseudo-counts per class, summed over all cells; for l1 norms with rare errors."""
_PSEUDO_EACH = 1.0
"""Pseudo-counts per class in each cell; for norms dominated by a single cell (l2, maximum)."""


def _likely_frequency(
    positives: FloatArray, rows: FloatArray, stated: FloatArray, pseudo: float
) -> FloatArray:
    """Return observed frequencies, shrunk towards the predicted ones."""
    return (positives + stated + pseudo) / (rows + 1.0 + 2.0 * pseudo)


@dataclass(frozen=True, eq=False)
class _Cells:
    """Rows grouped into cells by descending score, and the bins made of these cells.

    A cell is a bin, or a group of tied rows that a cut divides between adjacent bins.
    """

    rows: FloatArray
    positives: FloatArray
    stated: FloatArray
    """Mean predicted probability in each cell."""
    last: IntArray
    """Cell in which each bin ends."""
    share: FloatArray
    """Fraction of that cell that lies above the end of the bin."""

    def binned(self, values: FloatArray) -> FloatArray:
        """Return the sums over bins for values per cell: (bins, draws) from (cells, draws)."""
        above = np.cumsum(values, axis=0) - values
        return _steps(above[self.last] + self.share[:, None] * values[self.last])

    def drawn_positives(
        self, frequency: FloatArray, generator: np.random.Generator, n_draws: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return the rows and simulated positives of each cell, each of shape (cells, draws)."""
        # Consecutive draws per cell, since numpy caches the binomial setup for equal arguments.
        rows = np.repeat(self.rows[:, None], n_draws, axis=1)
        positives = generator.binomial(rows.astype(np.int64), frequency[:, None])
        return rows, positives.astype(np.float64)

    def drawn_counts(
        self, frequency: FloatArray, pseudo: float, generator: np.random.Generator, n_draws: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return simulated rows and positives of each cell, each of shape (cells, draws)."""
        weight = (self.rows + pseudo) / (self.rows + pseudo).sum()
        shares = np.concatenate([weight * frequency, weight * (1.0 - frequency)])
        counts = generator.multinomial(int(self.rows.sum()), shares, size=n_draws)
        positives, negatives = np.split(counts.T.astype(np.float64), 2)
        return positives + negatives, positives


_NORMS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "l1": lambda values: np.abs(values).sum(axis=0),
    "l2": lambda values: np.sqrt((values**2).sum(axis=0)),
    "max": lambda values: np.abs(values).max(axis=0),
}


@dataclass(frozen=True)
class _BinnedError(ABC):
    """Base class of calibration errors over equal-width and equal-mass bins."""

    n_bins: int = 10
    norm: str = "l1"
    bounds: tuple[float, float] = field(default=(0.0, 1.0), init=False)
    columns = SCORED

    @abstractmethod
    def _bins(self, block: Block) -> tuple[FloatArray, FloatArray]:
        """Return gap sums and row counts per bin, from the top, each of shape (bins, 64)."""

    @abstractmethod
    def _cells(self, data: Columns) -> _Cells:
        """Return the cells of the data."""

    def _field_of(self, cells: _Cells, rows: FloatArray, positives: FloatArray) -> FloatArray:
        """Return the gaps for the given counts per cell, each of shape (cells, draws)."""
        gaps = cells.binned(rows * cells.stated[:, None] - positives)
        return _field(gaps, cells.binned(rows), self.norm)

    def label_draws(self, data: Columns) -> Draw:
        """Return a function that draws gaps under simulated labels."""
        cells = self._cells(data)
        pseudo = _PSEUDO_L1 / len(cells.rows) if self.norm == "l1" else _PSEUDO_EACH
        likely = _likely_frequency(cells.positives, cells.rows, cells.stated, pseudo)
        rows = cells.rows[:, None]
        observed = self._field_of(cells, rows, cells.positives[:, None])
        assumed = self._field_of(cells, rows, rows * likely[:, None])

        def draw(generator: np.random.Generator, n_draws: int) -> DrawnFields:
            if self.norm == "max":  # unweighted; the other norms also need random bin sizes
                noisy = cells.drawn_positives(likely, generator, n_draws)
            else:
                noisy = cells.drawn_counts(likely, pseudo, generator, n_draws)
            calibrated = cells.drawn_positives(cells.stated, generator, n_draws)
            return DrawnFields(
                observed=observed,
                assumed=assumed,
                noise=self._field_of(cells, *noisy) - assumed,
                calibrated=self._field_of(cells, *calibrated),
            )

        return draw

    def size(self, fields: FloatArray) -> FloatArray:
        """Return the norm of each column of gaps."""
        return _NORMS[self.norm](fields)

    def replicate(self, block: Block) -> FloatArray:
        """Return one value per resample."""
        return _NORMS[self.norm](self._gaps(block))

    def distance(self, block: Block) -> FloatArray:
        """Return the norm of the difference between each resample's gaps and the observed gaps."""
        data = block.view.data
        here = data.once(self, lambda: self._here(data))
        return _NORMS[self.norm](self._gaps(block) - here)

    def _here(self, data: Columns) -> FloatArray:
        """Return the observed gaps, including those of empty bins."""
        cells = self._cells(data)
        return self._field_of(cells, cells.rows[:, None], cells.positives[:, None])

    def _gaps(self, block: Block) -> FloatArray:
        return block.once(self, lambda: _field(*self._bins(block), self.norm))

    def leave_one_out(self, data: Columns) -> FloatArray | None:
        """Return None; the interval uses simulated labels."""
        return None

    def support(self, data: Columns) -> tuple[BoolArray, ...]:
        """Return all rows."""
        return (np.ones(data.n, dtype=np.bool_),)


@dataclass(frozen=True)
class EqualWidthError(_BinnedError):
    """`metrics.expected_calibration_error` and the maximum error over equal-width bins."""

    @property
    def name(self) -> str:
        """Name used in messages."""
        return f"calibration_error_uniform_{self.n_bins}_{self.norm}"

    @property
    def _edges(self) -> FloatArray:
        """Lower edges of the bins, in descending order; the lowest bin is unbounded."""
        return _lower_edges(self.n_bins)

    @property
    def needs(self) -> Needs:
        """Score sums above each edge."""
        return Needs(sums=("score",), thresholds=self._edges)

    def point(self, data: Columns) -> float:
        """Return the error."""
        if self.norm == "max":
            return metrics.maximum_calibration_error(
                data.labels, data.scores, n_bins=self.n_bins, strategy="uniform"
            )
        return metrics.expected_calibration_error(data.labels, data.scores, self.n_bins)

    def _bins(self, block: Block) -> tuple[FloatArray, FloatArray]:
        edges = self._edges
        positives, negatives = block.counts_above(edges)
        gaps = _steps(block.sum_above("score", edges) - positives)
        return gaps, _steps(positives + negatives)

    def _cells(self, data: Columns) -> _Cells:
        ends = data.leading(self._edges)
        return _cells_between(data, ends, ends.astype(np.float64))


def _cells_between(data: Columns, ends: IntArray, cuts: FloatArray) -> _Cells:
    """Return the cells that end at these row counts, and the position of each cut."""
    occupied = np.unique(ends[ends > 0])
    starts = np.concatenate([[0], occupied[:-1]])
    rows = (occupied - starts).astype(np.float64)
    positives = np.add.reduceat(data.sorted_labels.astype(np.float64), starts)
    scores = np.add.reduceat(data.sorted_scores, starts)
    last = np.searchsorted(occupied, cuts)
    return _Cells(
        rows=rows,
        positives=positives,
        stated=np.clip(scores / rows, 0.0, 1.0),
        last=last,
        share=(cuts - starts[last]) / rows[last],
    )


_EQUAL_MASS: dict[str, Callable[..., float]] = {
    "l1": metrics.expected_calibration_error_equal_mass,
    "l2": metrics.expected_calibration_error_l2,
    "max": metrics.maximum_calibration_error,
}


@dataclass(frozen=True)
class EqualMassError(_BinnedError):
    """Calibration error over equal-mass bins, recomputed for every resample."""

    needs: Needs = field(default_factory=Needs, init=False, compare=False)

    @property
    def name(self) -> str:
        """Name used in messages."""
        return f"calibration_error_quantile_{self.n_bins}_{self.norm}"

    def point(self, data: Columns) -> float:
        """Return the error."""
        return _EQUAL_MASS[self.norm](data.labels, data.scores, n_bins=self.n_bins)

    def replicate(self, block: Block) -> FloatArray:
        """Return one value per resample, NaN with fewer rows than bins."""
        return np.where(block.size() >= self.n_bins, super().replicate(block), np.nan)

    def _cuts(self, n: FloatArray) -> FloatArray:
        """Return the number of rows above each cut, in descending order: (bins, len(n)).

        Bins are cut at whole positions ⌊k n / n_bins⌋ from the bottom.
        """
        return n - np.arange(self.n_bins - 1, -1, -1)[:, None] * n // self.n_bins

    def _bins(self, block: Block) -> tuple[FloatArray, FloatArray]:
        cuts = self._cuts(block.size())
        positives, scores = block.top(cuts)
        return _steps(scores - positives), _steps(cuts)

    def _cells(self, data: Columns) -> _Cells:
        cuts = self._cuts(np.array([float(data.n)]))[:, 0]
        ends = data.groups.tp + data.groups.fp
        tie = np.searchsorted(ends, cuts)  # ties that contain or end at a cut
        starts = np.concatenate([[0.0], ends])[tie]
        edges = np.union1d(ends[tie], starts[ends[tie] > cuts])
        return _cells_between(data, edges[edges > 0.0].astype(np.int64), cuts)


_CELLS = 1 << 12  # grid for resamples; the value itself uses a finer grid
_MAX_DRAWN_CELLS = 1 << 10  # maximum size of the grid for simulated labels
_POOLS = 16  # intervals of [0, 1] for estimating frequencies


def _to_left_node(labels: BoolArray, scores: FloatArray) -> FloatArray:
    return shared_between_nodes(scores, scores - labels, _CELLS)[1]


def _to_right_node(labels: BoolArray, scores: FloatArray) -> FloatArray:
    return shared_between_nodes(scores, scores - labels, _CELLS)[2]


_NODES = (Term(_to_left_node), Term(_to_right_node))


def _pooled_frequency(cells: _Cells) -> FloatArray:
    """Return smoothed frequencies for small cells, using the gaps of neighbouring cells."""
    pool = np.minimum((cells.stated * _POOLS).astype(np.int64), _POOLS - 1)
    rows, positives, scores = (
        np.bincount(pool, values, _POOLS).astype(np.float64)
        for values in (cells.rows, cells.positives, cells.rows * cells.stated)
    )
    stated = scores / np.maximum(rows, 1.0)
    pseudo = _PSEUDO_L1 / np.count_nonzero(rows)
    gap = _likely_frequency(positives, rows, stated, pseudo) - stated
    return np.clip(cells.stated + gap[pool], 0.0, 1.0)


def _to_nodes(scores: FloatArray, residuals: FloatArray, n_cells: int) -> FloatArray:
    """Distribute residuals to the nodes of a grid by score."""
    cell, left, right = shared_between_nodes(scores[:, None], residuals, n_cells)
    nodes = np.zeros((n_cells + 1, residuals.shape[1]))
    nodes[cell[:, 0]] += left
    nodes[cell[:, 0] + 1] += right
    return nodes


@dataclass(frozen=True)
class SmoothError:
    """`metrics.smooth_ece`, evaluated for 64 resamples on a common grid."""

    name: str = "smooth_ece"
    bounds: tuple[float, float] = field(default=(0.0, 1.0), init=False)
    columns = SCORED

    @property
    def _edges(self) -> FloatArray:
        """Lower edges of the grid cells, in descending order."""
        return _lower_edges(_CELLS)

    @property
    def needs(self) -> Needs:
        """Residual sums per cell."""
        return Needs(sums=_NODES, thresholds=self._edges)

    def point(self, data: Columns) -> float:
        """Return the error."""
        return metrics.smooth_ece(data.labels, data.scores)

    def replicate(self, block: Block) -> FloatArray:
        """Return one value per resample."""
        return smooth_errors_of(self._nodes(block), tolerance=1e-9)

    def distance(self, block: Block) -> FloatArray:
        """Return the error of the difference between resampled and observed residuals.

        The error is subadditive: smoothing r₁ + r₂ with width a + b gives at most the sum of
        smoothing r₁ with a and r₂ with b. The triangle inequality therefore holds, although the
        error is not a norm.
        """
        data = block.view.data
        here = data.once(self, lambda: self._nodes_of(data))
        return smooth_errors_of(self._nodes(block) - here, tolerance=1e-9)

    def label_draws(self, data: Columns) -> Draw:
        """Return a function that draws residuals on a grid under simulated labels."""
        # The error of noise is about 1 / √n; an eighth of it suffices as cell width.
        n_cells = min(_MAX_DRAWN_CELLS, 1 << math.ceil(math.log2(8.0 * math.sqrt(data.n))))
        ends = data.leading(_lower_edges(n_cells))
        cells = _cells_between(data, ends, ends.astype(np.float64))
        rows = cells.rows[:, None]
        likely = _pooled_frequency(cells)

        def nodes(positives: FloatArray) -> FloatArray:
            residuals = (rows * cells.stated[:, None] - positives) / data.n
            return _to_nodes(cells.stated, residuals, n_cells)

        observed, assumed = nodes(cells.positives[:, None]), nodes(rows * likely[:, None])

        def draw(generator: np.random.Generator, n_draws: int) -> DrawnFields:
            _, noisy = cells.drawn_positives(likely, generator, n_draws)
            _, calibrated = cells.drawn_positives(cells.stated, generator, n_draws)
            return DrawnFields(
                observed=observed,
                assumed=assumed,
                noise=nodes(noisy) - assumed,
                calibrated=nodes(calibrated),
            )

        return draw

    def size(self, fields: FloatArray) -> FloatArray:
        """Return the smooth error of each column."""
        return smooth_errors_of(fields, tolerance=1e-6)

    def _nodes_of(self, data: Columns) -> FloatArray:
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
        left, right = (_steps(block.sum_above(term, edges))[::-1] for term in _NODES)
        nodes = np.zeros((_CELLS + 1, left.shape[1]))
        nodes[:-1] += left
        nodes[1:] += right
        return np.asarray(nodes / block.size())

    def leave_one_out(self, data: Columns) -> FloatArray | None:
        """Return None; the interval uses simulated labels."""
        return None

    def support(self, data: Columns) -> tuple[BoolArray, ...]:
        """Return all rows."""
        return (np.ones(data.n, dtype=np.bool_),)
