"""Reduce the number of points of a curve without visible change."""

import heapq

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.errors import InvalidInputError

TOLERANCE = 1e-3
"""Maximum deviation of a thinned curve, as a share of the ranges of x and y."""


def thin_curve(
    x: ArrayLike, y: ArrayLike, *, max_points: int = 400
) -> tuple[FloatArray, FloatArray]:
    """Return the points needed to draw a line without visible change, at most ``max_points``.

    Parameters
    ----------
    x, y : array-like of shape (n,)
        Corners of the line in order; x is monotonic, with repeats at vertical segments.
        Pass all corners of a step curve, see `step_vertices`.
    max_points : int, default 400
        Maximum number of points, at least 2.

    Returns
    -------
    tuple of two arrays
        Subset of the given points in order, including the first and the last.

    Raises
    ------
    InvalidInputError
        If the arrays are not finite or differ in length, x is not monotonic, or ``max_points`` < 2.

    Notes
    -----
    Points are added in the order of Douglas and Peucker [1]_, farthest first, until every point of
    the full line is within 1/1000 of the ranges of x and y (the distance in the unit square), or
    ``max_points`` is reached. A result with fewer than ``max_points`` points thus deviates by no
    more than that: 0.4 pixels on a chart 400 pixels wide.

    References
    ----------
    .. [1] Douglas & Peucker (1973), Cartographica 10(2):112-122.

    Examples
    --------
    >>> x, y = thin_curve([0, 1, 2, 3, 4], [0, 1, 2, 3, 0])
    >>> x.tolist(), y.tolist()
    ([0.0, 3.0, 4.0], [0.0, 3.0, 0.0])
    """
    across, up = validation.vector(x, "x"), validation.vector(y, "y")
    validation.same_length(across, up, ("x", "y"))
    limit = validation.integer(max_points, "max_points", low=2)
    steps = np.diff(across)
    if (steps > 0).any() and (steps < 0).any():
        raise InvalidInputError("`x` is not monotonic; sort the points of the curve by x")
    kept = _farthest_first(_unit(across), _unit(up), limit)
    return across[kept], up[kept]


def thin_together(x: FloatArray, *curves: FloatArray, max_points: int = 400) -> list[int]:
    """Return ascending indices of the points needed to draw several curves over the same x."""
    share = max(2, max_points // len(curves))
    across = _unit(x)
    places = {place for y in curves for place in _farthest_first(across, _unit(y), share)}
    return sorted(places)


def _unit(values: FloatArray) -> FloatArray:
    low, high = float(values.min()), float(values.max())
    # Halve first: the difference of two large numbers may overflow.
    spread = high / 2 - low / 2
    unit: FloatArray = (values / 2 - low / 2) / (spread if spread > 0 else 1.0)
    return unit


def _farthest_first(x: FloatArray, y: FloatArray, limit: int) -> list[int]:
    """Return the ascending indices of the points to keep."""
    last = len(x) - 1
    kept = {0, last}
    heap = [_farthest(x, y, 0, last)]
    while heap and len(kept) < limit and -heap[0][0] > TOLERANCE:
        _, place, first, end = heapq.heappop(heap)
        kept.add(place)
        for part in ((first, place), (place, end)):
            if part[1] - part[0] > 1:
                heapq.heappush(heap, _farthest(x, y, *part))
    return sorted(kept)


def _farthest(x: FloatArray, y: FloatArray, first: int, end: int) -> tuple[float, int, int, int]:
    """Return the negated distance of the point farthest from the chord, its index, and the chord."""
    if end - first < 2:
        return 0.0, first, first, end
    dx, dy = x[first + 1 : end] - x[first], y[first + 1 : end] - y[first]
    chord_x, chord_y = float(x[end] - x[first]), float(y[end] - y[first])
    length = chord_x**2 + chord_y**2
    share = np.clip((dx * chord_x + dy * chord_y) / length, 0.0, 1.0) if length > 0 else 0.0
    distance = np.hypot(dx - share * chord_x, dy - share * chord_y)
    place = int(np.argmax(distance))
    return -float(distance[place]), first + 1 + place, first, end


def step_vertices(
    x: ArrayLike, y: ArrayLike, *, before: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Return the corners of a step curve, to be connected by straight lines.

    Parameters
    ----------
    x, y : array-like of shape (n,)
        Points of the curve, ordered by x.
    before : bool, default False
        Whether each value applies up to its point. By default it applies from its point on, as in
        survival curves.

    Returns
    -------
    tuple of two arrays
        Arrays of 2n − 1 corners.

    Raises
    ------
    InvalidInputError
        If the arrays are not finite or differ in length.

    Examples
    --------
    >>> x, y = step_vertices([0, 1, 2], [1.0, 0.5, 0.5])
    >>> x.tolist(), y.tolist()
    ([0.0, 1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 0.5, 0.5, 0.5])
    """
    across, up = validation.vector(x, "x"), validation.vector(y, "y")
    validation.same_length(across, up, ("x", "y"))
    twice_x, twice_y = np.repeat(across, 2), np.repeat(up, 2)
    return (twice_x[:-1], twice_y[1:]) if before else (twice_x[1:], twice_y[:-1])
