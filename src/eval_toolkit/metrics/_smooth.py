"""Smooth calibration error: residuals blurred by a reflected Gaussian of self-chosen width."""

from collections.abc import Callable

import numpy as np

from eval_toolkit._validate import FloatArray

__all__ = ["smooth_calibration_error"]

_CELLS = 1 << 15
_TOLERANCE = 1e-13


def smooth_calibration_error(scores: FloatArray, residuals: FloatArray) -> float:
    """Return σ with ``∫₀¹ |Σ_i residual_i K_σ(t, score_i)| dt = σ``.

    ``K_σ`` is the Gaussian kernel reflected at 0 and 1, which is the heat kernel of the unit
    interval: in the basis cos(πkt) it multiplies coefficient k by exp(−(πkσ)²/2). One cosine
    transform of the residuals thus serves every σ.
    """
    nodes = _on_grid(scores, residuals)
    if not nodes.any():
        return 0.0
    coefficients = _cosine_coefficients(nodes)
    frequencies = np.pi * np.arange(_CELLS + 1)

    def excess(sigma: float) -> float:
        damping = np.exp(-0.5 * (frequencies * sigma) ** 2)
        density = np.abs(np.fft.irfft(coefficients * damping, 2 * _CELLS)[: _CELLS + 1])
        # irfft divides by the period of 2 · _CELLS; a cell is 1 / _CELLS wide.
        integral = 2.0 * (density.sum() - (density[0] + density[-1]) / 2.0)
        return float(integral) - sigma

    return _falling_root(excess)


def _on_grid(scores: FloatArray, residuals: FloatArray) -> FloatArray:
    """Share every residual between its two neighbouring grid nodes, keeping its mean position."""
    position = scores * _CELLS
    left = np.minimum(position.astype(np.int64), _CELLS - 1)
    to_right = (position - left) * residuals
    nodes = np.zeros(_CELLS + 1)
    nodes[:-1] += np.bincount(left, residuals - to_right, _CELLS)
    nodes[1:] += np.bincount(left, to_right, _CELLS)
    return nodes


def _cosine_coefficients(nodes: FloatArray) -> FloatArray:
    """Return ``Σ_j nodes_j cos(πkj / _CELLS)`` for k = 0, …, _CELLS."""
    halved = nodes / 2.0
    halved[0], halved[-1] = nodes[0], nodes[-1]
    period = np.concatenate((halved, halved[-2:0:-1]))
    return np.fft.rfft(period).real


def _falling_root(function: Callable[[float], float]) -> float:
    """Find the zero in [0, 1] of a function that falls at least as fast as −σ.

    With such a slope the distance to the zero is never more than the value itself. False position,
    with the Illinois trick: the value at an end that stayed put twice in a row is halved.
    """
    low, f_low, high, f_high = 0.0, function(0.0), 1.0, function(1.0)
    side = 0
    while f_high < 0.0 and high - low > _TOLERANCE:
        sigma = high - f_high * (high - low) / (f_high - f_low)
        value = function(sigma)
        if abs(value) <= _TOLERANCE:
            return sigma
        if value > 0.0:
            low, f_low = sigma, value
            f_high = f_high / 2.0 if side == 1 else f_high
            side = 1
        else:
            high, f_high = sigma, value
            f_low = f_low / 2.0 if side == -1 else f_low
            side = -1
    return high
