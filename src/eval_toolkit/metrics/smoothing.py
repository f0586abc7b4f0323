"""Smooth calibration error, based on residuals smoothed by a reflected Gaussian kernel.

The functions accept several columns of residuals, so computations over resamples are vectorised.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from eval_toolkit._internal.validation import FloatArray, IntArray

Excess: TypeAlias = Callable[[FloatArray, IntArray], FloatArray]
"""Function of (σ, columns) that returns smoothed absolute residuals minus σ."""

_CELLS = 1 << 15
_TOLERANCE = 1e-13
_NEGLIGIBLE = 9.0  # exp(−9² / 2) is below 1e-17


def smooth_calibration_error(scores: FloatArray, residuals: FloatArray) -> float:
    """Return σ with ``∫₀¹ |Σ_i residual_i K_σ(t, score_i)| dt = σ``."""
    left, to_left, to_right = shared_between_nodes(scores, residuals, _CELLS)
    nodes = np.zeros((_CELLS + 1, 1))
    nodes[:-1, 0] += np.bincount(left, to_left, _CELLS)
    nodes[1:, 0] += np.bincount(left, to_right, _CELLS)
    return float(smooth_errors_of(nodes, tolerance=_TOLERANCE)[0])


def shared_between_nodes(
    scores: FloatArray, residuals: FloatArray, n_cells: int
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Distribute each residual over the two adjacent grid nodes, preserving its mean position.

    Return the cell of each row, and the contributions to its left and right node.
    """
    position = scores * n_cells
    cell = np.minimum(position.astype(np.int64), n_cells - 1)
    to_right = (position - cell) * residuals
    return cell, residuals - to_right, to_right


def smooth_errors_of(nodes: FloatArray, *, tolerance: float) -> FloatArray:
    """Return the error of every column of residuals on a grid of ``len(nodes)`` nodes.

    ``K_σ`` is the Gaussian kernel reflected at 0 and 1, which is the heat kernel of the unit
    interval: in the basis cos(πkt) it multiplies coefficient k by exp(−(πkσ)²/2). A single cosine
    transform of the residuals therefore serves every σ.
    """
    coefficients = _cosine_coefficients(nodes)

    def excess(sigma: FloatArray, columns: IntArray) -> FloatArray:
        return _total_blur(coefficients[:, columns], sigma) - sigma

    return _falling_roots(excess, nodes.shape[1], tolerance)


def _cosine_coefficients(nodes: FloatArray) -> FloatArray:
    """Return ``Σ_j nodes_j cos(πkj / n_cells)`` for k = 0, …, n_cells."""
    halved = nodes / 2.0
    halved[0], halved[-1] = nodes[0], nodes[-1]
    period = np.concatenate((halved, halved[-2:0:-1]))
    return np.asarray(np.fft.rfft(period, axis=0).real)


def _total_blur(coefficients: FloatArray, sigma: FloatArray) -> FloatArray:
    """Return the integral of the absolute smoothed residuals of each column."""
    n_cells = len(coefficients) - 1
    narrowest = float(sigma.min())
    # Higher frequencies are negligible after smoothing; without smoothing all are kept.
    reach = _NEGLIGIBLE / (np.pi * narrowest) if narrowest > 0.0 else n_cells
    kept = min(n_cells, int(reach) + 1) + 1
    damping = np.exp(-0.5 * (np.pi * np.arange(kept)[:, None] * sigma) ** 2)
    density = np.abs(np.fft.irfft(coefficients[:kept] * damping, 2 * n_cells, axis=0))
    # irfft divides by the period 2 n_cells; the cell width is 1 / n_cells.
    ends = (density[0] + density[n_cells]) / 2.0
    return np.asarray(2.0 * (density[: n_cells + 1].sum(axis=0) - ends))


def _falling_roots(excess: Excess, n: int, tolerance: float) -> FloatArray:
    """Return the root in [0, 1] of a function with slope at most −1, for each column.

    With such a slope, the distance to the root is at most the function value. Uses the Illinois
    variant of false position: the value at an end retained twice in a row is halved.
    """
    every = np.arange(n)
    low, high = np.zeros(n), np.ones(n)
    f_low, f_high = excess(low, every), excess(high, every)
    side = np.zeros(n, dtype=np.int64)
    root = np.where(f_low <= tolerance, 0.0, 1.0)
    open_ = np.flatnonzero((f_low > tolerance) & (f_high < 0.0))
    while len(open_):
        a, b, fa, fb = low[open_], high[open_], f_low[open_], f_high[open_]
        sigma = b - fb * (b - a) / (fb - fa)
        value = excess(sigma, open_)
        root[open_] = sigma
        above = value > 0.0
        low[open_], high[open_] = np.where(above, sigma, a), np.where(above, b, sigma)
        stale = np.where(above, side[open_] == 1, side[open_] == -1)
        f_low[open_] = np.where(above, value, np.where(stale, fa / 2.0, fa))
        f_high[open_] = np.where(above, np.where(stale, fb / 2.0, fb), value)
        side[open_] = np.where(above, 1, -1)
        done = (np.abs(value) <= tolerance) | (high[open_] - low[open_] <= tolerance)
        open_ = open_[~done]
    return root
