"""Random order of units, and confidence sequences for means."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from eval_toolkit._internal.validation import FloatArray, IntArray
from eval_toolkit.inference.results import BootstrapCI
from eval_toolkit.inference.sequences import ConfidenceSequence
from eval_toolkit.metric_specs import ColumnSpec
from eval_toolkit.scorecards import Records, unit_starts
from eval_toolkit.scorecards.reduction import answers_of
from eval_toolkit.seeds import derive_seed
from eval_toolkit.tasks.types import Sample

Known: TypeAlias = Mapping[str, tuple[float, float]]
"""Smallest and largest possible values of each unit, which are equal if no attempt is missing."""


def in_drawn_order(samples: Iterable[Sample], seed: int) -> list[Sample]:
    """Return samples in random order, keeping the samples of a group together.

    Each group (or sample without a group) is equally likely to come next. With a single subject and
    no groups, this is the order of `BaseTask.samples`.

    Examples
    --------
    >>> from eval_toolkit.models.messages import Message
    >>> samples = [Sample(name, "", [Message("user", "?")]) for name in "abcd"]
    >>> [sample.id for sample in in_drawn_order(samples, seed=1)]
    ['a', 'c', 'b', 'd']
    """

    def place(sample: Sample) -> tuple[int, str, int, str]:
        group = _draw_of(sample)
        return (
            derive_seed(seed, "order", group),
            group,
            derive_seed(seed, "order", sample.id),
            sample.id,
        )

    return sorted(samples, key=place)


def _draw_of(sample: Sample) -> str:
    return sample.id if sample.group is None else sample.group


@dataclass(frozen=True, slots=True, eq=False)
class DrawnUnits:
    """Units in the order in which they are drawn, individually or by group.

    The mean over all units equals the mean over draws of ``middle + Σ share × (value − middle)``,
    where the shares of a draw sum to the number of units it represents. This reduces groups of
    different sizes and equally weighted subjects to draws of equal weight, whose bounds are
    determined by the largest draw.

    The sizes of groups and subjects are taken as planned, even if the units represent a larger
    population. Otherwise, no bound would be valid: a large but rare group might never be drawn,
    although it could shift the mean over units by any amount.
    """

    ids: tuple[str, ...]
    starts: IntArray
    """Index of the first unit of each draw."""
    shares: FloatArray
    """Weight of each unit, which is 1 if units are drawn individually with equal weights."""

    @classmethod
    def of(cls, samples: Sequence[Sample], *, macro: bool = False) -> "DrawnUnits":
        """Combine samples in drawn order into draws; ``macro`` weights all subjects equally."""
        draws = [_draw_of(sample) for sample in samples]
        starts = [n for n, draw in enumerate(draws) if n == 0 or draw != draws[n - 1]]
        sizes = Counter(sample.subject for sample in samples)
        shares = np.ones(len(samples))
        if macro:
            shares = np.array([len(samples) / (len(sizes) * sizes[one.subject]) for one in samples])
        return cls(
            tuple(sample.id for sample in samples),
            np.array(starts, dtype=np.int64),
            shares * (len(starts) / len(samples)),
        )

    def __len__(self) -> int:
        return len(self.starts)

    def n_units(self, n_draws: int) -> int:
        """Return the number of units in the first ``n_draws`` draws."""
        return int(self.starts[n_draws]) if n_draws < len(self) else len(self.ids)

    def n_whole(self, known: Known) -> int:
        """Return the number of leading draws whose units are all known."""
        missing = (n for n, unit in enumerate(self.ids) if unit not in known)
        first = next(missing, None)
        if first is None:
            return len(self)
        return int(np.searchsorted(self.starts, first, side="right")) - 1

    def bounds(self, bounds: tuple[float, float]) -> tuple[float, float]:
        """Return the bounds of a draw's value, given the bounds of a unit's value."""
        low, high = bounds
        reach = float(np.add.reduceat(self.shares, self.starts).max()) * (high - low) / 2.0
        return (low + high) / 2.0 - reach, (low + high) / 2.0 + reach

    def values(self, of_units: FloatArray, bounds: tuple[float, float]) -> FloatArray:
        """Return the values of the first draws, given the values of their units."""
        middle = (bounds[0] + bounds[1]) / 2.0
        apart = self.shares[: len(of_units)] * (of_units - middle)
        starts = self.starts[: np.searchsorted(self.starts, len(of_units))]
        return middle + np.asarray(np.add.reduceat(apart, starts))


def known_values(records: Records, spec: ColumnSpec) -> dict[str, tuple[float, float]]:
    """Return the smallest and largest possible value of each unit.

    The records must be sorted by unit. An attempt without a grade may have any value within the
    bounds, and so may its unit if attempts are scored jointly. This applies regardless of the error
    policy of the results, because failures may occur in bursts rather than in random order.

    Examples
    --------
    >>> records = Records.from_columns(
    ...     {"right": [1, None]}, unit_id=["a", "b"], status={"right": ["ok", "error"]}
    ... )
    >>> known_values(records, ColumnSpec("right", "right", bounds=(0.0, 1.0)))
    {'a': (1.0, 1.0), 'b': (0.0, 1.0)}
    """
    starts = unit_starts(records.unit_id)
    ids = records.unit_id[starts].astype(str)
    n = np.diff(np.append(starts, len(records)))
    there = records.status[spec.column] == "ok"
    low, high = (np.where(there, records.columns[spec.column], bound) for bound in spec.bounds)
    if spec.k is None:
        least, most = np.add.reduceat(low, starts) / n, np.add.reduceat(high, starts) / n
    else:
        if spec.answer is None:
            found, enough = spec.of_attempts(n, np.add.reduceat(low, starts).astype(np.int64))
        else:
            found, enough = spec.of_votes(low, answers_of(records, spec.answer), starts, n)
        whole = enough & np.logical_and.reduceat(there, starts)
        least, most = (np.where(whole, found, bound) for bound in spec.bounds)
    return dict(zip(ids.tolist(), zip(least.tolist(), most.tolist(), strict=True), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Looks:
    """Confidence intervals after each draw, up to the first draw with an incomplete unit."""

    low: FloatArray
    high: FloatArray
    means: FloatArray
    drawn: DrawnUnits
    confidence: float
    method: str
    n_sound: int
    """Number of draws until the values contradict all means; all draws if the order is random."""
    reason: str
    """Why the intervals of later draws are not reliable."""

    def __len__(self) -> int:
        return len(self.low)

    def at(self, n_draws: int) -> BootstrapCI:
        """Return the interval after ``n_draws`` draws."""
        return BootstrapCI(
            float(self.means[n_draws - 1]),
            float(self.low[n_draws - 1]),
            float(self.high[n_draws - 1]),
            self.confidence,
            0,
            self.method,
            n_units=self.drawn.n_units(n_draws),
            n_groups=n_draws,
            reason=self.reason if n_draws > self.n_sound else "",
        )


def looks(
    drawn: DrawnUnits,
    known: Known,
    bounds: tuple[float, float],
    *,
    confidence: float,
    whole: bool,
) -> Looks:
    """Compute a confidence sequence: the interval of a mean after each draw.

    ``drawn`` contains all planned draws, in order; draws are ignored from the first incomplete unit
    on. The lower end of an interval assumes the smallest possible missing values, and the upper end
    the largest. The confidence level is simultaneous. With ``whole``, the target is the mean over
    all planned units, otherwise the expected value for similar units in groups and subjects of the
    same sizes.

    Examples
    --------
    >>> from eval_toolkit.models.messages import Message
    >>> samples = [Sample(f"q{n}", "", [Message("user", "?")]) for n in range(100)]
    >>> known = {f"q{n}": (1.0, 1.0) for n in range(50)}
    >>> found = looks(DrawnUnits.of(samples), known, (0.0, 1.0), confidence=0.95, whole=True)
    >>> len(found), f"{found.at(50):.2f}"
    (50, '1.00 [0.91, 1.00]')
    """
    n = drawn.n_whole(known)
    method = "betting sequence without replacement" if whole else "betting sequence"
    if n == 0:
        none = np.zeros(0)
        return Looks(none, none, none, drawn, confidence, method, 0, "")
    pairs = np.array([known[unit] for unit in drawn.ids[: drawn.n_units(n)]])
    least, most = (drawn.values(pairs[:, side], bounds) for side in (0, 1))

    n_sound, reason = n, ""

    def sequence(values: FloatArray) -> tuple[FloatArray, FloatArray]:
        nonlocal n_sound, reason
        made = ConfidenceSequence(
            bounds=drawn.bounds(bounds),
            confidence=confidence,
            n_total=len(drawn) if whole else None,
        )
        low, high = made.update(values)
        if made.interval.reason:  # an interval only grows when no mean is left
            grown = np.flatnonzero(np.diff(high - low) > 1e-9 * (high[0] - low[0]))
            n_sound = min(n_sound, *(grown + 1).tolist())
            reason = made.interval.reason
        return low, high

    low, high = sequence(least)
    if not np.array_equal(least, most):
        high = np.maximum(sequence(most)[1], low)
    means = np.cumsum((least + most) / 2.0) / np.arange(1, n + 1)
    low, high = np.clip(low, *bounds), np.clip(high, *bounds)
    return Looks(low, high, means, drawn, confidence, method, n_sound, reason)
