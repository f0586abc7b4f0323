"""Permutation test for position bias from answers under all rotations of the choices."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.validation import FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.seeds import SeedLike, derive_seed, resolve_seed

_AT_ONCE = 4_000_000
"""Number of picks permuted per batch."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, repr=False)
class RotationTest(Displayed):
    """Result of a permutation test for position bias.

    Examples
    --------
    >>> rotation_test([[0, 0], [0, 0], [0, 1]]).n_inconsistent
    2
    """

    statistic: float
    """Pearson's chi-square of the picks per position."""
    p_value: float
    picks: tuple[int, ...]
    """Number of times each position was picked, over units and rotations."""
    expected: tuple[float, ...]
    n_units: int
    n_inconsistent: int
    """Number of units whose choice differs between rotations; the other units are uninformative."""
    n_permutations: int

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        values = asdict(self)
        return {**values, "picks": list(self.picks), "expected": list(self.expected)}


def rotation_test(
    picked: Sequence[Sequence[int]], *, n_permutations: int = 4999, seed: SeedLike = None
) -> RotationTest:
    """Test whether picks depend on position, based on answers under every rotation.

    Rotation r moves the first r of k choices to the end, so position p shows the choice ``(p + r)
    mod k``. Without position bias, the picks of a unit are exchangeable over rotations, so they are
    permuted within units.

    Parameters
    ----------
    picked : sequence of sequence of int
        For each unit with k choices, the position picked under rotations 0, 1, …, k − 1.
    n_permutations : int, default 4999
        Number of random permutations.
    seed : int, Generator, …, default 42
        Random seed.

    Returns
    -------
    RotationTest
        Statistic and p-value; ``p_value`` is at least 1 / (n_permutations + 1). A unit with the
        same choice under all rotations picks every position once under any permutation.

    Raises
    ------
    InvalidInputError
        If a position is out of range, or a unit has fewer than two choices.
    UndefinedMetricError
        If there are no units.

    Notes
    -----
    A chi-square test that treats all picks as independent is invalid, because consistent units make
    the counts more even than expected by chance.

    Examples
    --------
    Twenty units with two choices; the first position is always picked:

    >>> rotation_test([[0, 0]] * 20).p_value
    0.0002
    >>> rotation_test([[0, 1]] * 20).p_value  # always the same choice
    1.0
    """
    n_permutations = validation.integer(n_permutations, "n_permutations", low=1)
    units = [_unit(row, given) for row, given in enumerate(picked)]
    if not units:
        raise UndefinedMetricError("there are no units to test")
    n_positions = max(map(len, units))
    expected = np.zeros(n_positions)
    counts = np.zeros(n_positions)
    together: dict[int, list[IntArray]] = {}
    inconsistent = 0
    for positions in units:
        k = len(positions)
        expected[:k] += 1.0  # k picks over k positions
        counts[:k] += np.bincount(positions, minlength=k)
        content = (positions + np.arange(k)) % k
        if (content != content[0]).any():
            inconsistent += 1
            together.setdefault(k, []).append(content)
    fixed = counts.copy()
    for k, members in together.items():
        fixed[:k] -= sum(_positions(content[None, None])[0] for content in members)
    observed = _chi_square(counts[None], expected)[0]
    generator = np.random.default_rng(derive_seed(resolve_seed(seed), "rotations"))
    drawn = np.tile(fixed, (n_permutations, 1))
    for k in sorted(together):
        drawn[:, :k] += _permuted(np.stack(together[k]), n_permutations, generator)
    extreme = int(np.count_nonzero(_chi_square(drawn, expected) >= observed - _ROUNDING))
    return RotationTest(
        statistic=float(observed),
        p_value=(1 + extreme) / (n_permutations + 1),
        picks=tuple(int(count) for count in counts),
        expected=tuple(expected.tolist()),
        n_units=len(units),
        n_inconsistent=inconsistent,
        n_permutations=n_permutations,
    )


def _unit(row: int, given: Sequence[int]) -> IntArray:
    positions = np.asarray(given)
    if positions.ndim != 1 or positions.dtype.kind not in "iu" or len(positions) < 2:
        raise InvalidInputError(
            f"picked[{row}] is {given!r}; it must contain the position picked under each rotation"
        )
    if positions.min() < 0 or positions.max() >= len(positions):
        raise InvalidInputError(
            f"picked[{row}] is {given!r}; with {len(positions)} rotations positions are 0 to "
            f"{len(positions) - 1}"
        )
    return positions.astype(np.int64)


def _positions(content: IntArray) -> FloatArray:
    """Return the number of picks per position for picks of shape (draws, units, k)."""
    k = content.shape[2]
    positions = (content - np.arange(k)) % k
    return np.stack([(positions == p).sum(axis=(1, 2)) for p in range(k)], axis=1).astype(float)


def _permuted(
    content: IntArray, n_permutations: int, generator: "np.random.Generator"
) -> FloatArray:
    """Return the number of picks per position after permuting each unit's picks."""
    at_once = max(1, _AT_ONCE // content.size)
    parts = []
    for first in range(0, n_permutations, at_once):
        n = min(at_once, n_permutations - first)
        order = generator.random((n, *content.shape)).argsort(axis=2)
        parts.append(_positions(np.take_along_axis(content[None], order, axis=2)))
    return np.concatenate(parts)


def _chi_square(counts: FloatArray, expected: FloatArray) -> FloatArray:
    chi: FloatArray = ((counts - expected) ** 2 / expected).sum(axis=1)
    return chi
