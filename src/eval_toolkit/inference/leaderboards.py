"""Many systems on the same units: ranks with intervals, all comparisons at once, who is best.

Every system was measured on the same units of the same parts (tasks of a suite), and each part
counts the same. One set of draws serves all systems, so that what they have in common cancels.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import NormalDist
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eval_toolkit import _validate
from eval_toolkit._kernel import LANES
from eval_toolkit._validate import BoolArray, FloatArray
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.inference._distributions import ROUNDING, critical_value, negligible, upper_tail
from eval_toolkit.inference.agreement import clustered_rate
from eval_toolkit.inference.macro import MacroMean, macro_mean
from eval_toolkit.inference.multiplicity import CorrectionMethod, correct_p_values
from eval_toolkit.inference.paired_proportions import paired_macro_interval
from eval_toolkit.inference.paired_tests import mcnemar_from_table
from eval_toolkit.inference.plans import groups_plan
from eval_toolkit.inference.rankings import RankedSystem, Ranking, SystemPair
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, BootstrapCI
from eval_toolkit.seeds import SeedLike, derive_seed, resolve_seed

__all__ = ["RankedSystem", "Ranking", "SystemPair", "rank_systems"]

RankingMethod: TypeAlias = Literal["bootstrap", "bayes"]
_N_DRAWS = 4000
_FEW = 8
"""Patterns are drawn instead of units where there are so many units of each."""
_STICKS = 40
"""Of the prior's two pseudo-units, (2/3)^40 of one is cut off."""
_STANDARD = NormalDist()


def rank_systems(
    parts: Sequence[ArrayLike] | Mapping[str, ArrayLike],
    *,
    names: Sequence[str] | None = None,
    groups: Sequence[ArrayLike] | Mapping[str, ArrayLike] | None = None,
    higher_is_better: bool = True,
    bounds: tuple[float, float] = (-math.inf, math.inf),
    method: RankingMethod = "bootstrap",
    adjust: CorrectionMethod = "holm",
    confidence: float = DEFAULT_CONFIDENCE,
    n_draws: int = _N_DRAWS,
    seed: SeedLike = None,
    rng: SeedLike = None,
) -> Ranking:
    """Rank systems that were measured on the same units.

    Parameters
    ----------
    parts : sequence or mapping of array-like of shape (units, systems)
        One array per part (task); each part counts the same.
    names : sequence of str, optional
        Of the systems; "system 1" and so on by default.
    groups : sequence or mapping of array-like, optional
        Group of each unit, part by part; a group lies within its part.
    higher_is_better : bool, default True
        Whether rank 1 has the largest value.
    bounds : tuple of float
        Smallest and largest possible value, where known; 0 and 1 where no other occurs. Intervals
        of systems stay inside.
    method : {"bootstrap", "bayes"}, default "bootstrap"
        See Notes; "bayes" is for right or wrong of independent units, and meant for few of them.
    adjust : {"holm", "bh", "by", "hochberg", "bonferroni", "none"}, default "holm"
        Correction of the pairs' p-values for their number.
    confidence : float, default 0.95
        Of every interval, and of all ranks together.
    n_draws : int, default 4000
        Resamples (at least 100), or draws from the posterior (at least 2000: their quantiles at
        the joint level are the intervals).
    seed, rng : int, Generator, …, default 42
        Two spellings of one argument.

    Returns
    -------
    Ranking
        Systems from best to worst.

    Raises
    ------
    InvalidInputError
        If there are fewer than two systems, an array has another number of them, a value is not
        finite, or "bayes" is asked of values that are not right or wrong.

    Notes
    -----
    Groups are resampled within parts, with the same draws for every system. The largest
    standardised deviation over systems (over pairs) sets the level at which the intervals of
    single systems (pairs) hold all at once. A system's true rank is at least 1 plus the number of
    systems whose interval of the difference says they are better, and likewise from below [1]_.
    Where differences do not vary nothing is said about them, whatever they are. The p-values are
    of single tests (McNemar's exact one, or Student's), corrected by ``adjust``; at the border
    they and the intervals may disagree. Draws of resamples depend on the order of the units.

    "bayes" draws from the posterior of a Dirichlet process: each unit's pattern of right and wrong
    over the systems counts once, and all patterns together count as two units before any is seen.
    Each system's rate then has the posterior Beta(1 + right, 1 + wrong), recommended for few
    units by [2]_, and units that all systems share keep their correlation. Intervals are
    posterior quantiles; simultaneous ones and ranks are made as above from the posterior draws.

    References
    ----------
    .. [1] Mogstad, Romano, Shaikh & Wilhelm (2024), Inference for ranks, Review of Economic
       Studies 91(1):476-518.
    .. [2] Bowyer, Aitchison & Ivanova (2025), arXiv:2503.01747.

    Examples
    --------
    >>> import numpy as np
    >>> right = np.array([[1, 1, 0]] * 40 + [[1, 0, 0]] * 20 + [[0, 1, 0]] * 15 + [[0, 0, 1]] * 5)
    >>> ranking = rank_systems([right], names=["a", "b", "c"])
    >>> [(one.name, one.rank_low, one.rank_high) for one in ranking.systems]
    [('a', 1, 2), ('b', 1, 2), ('c', 3, 3)]
    """
    level = _validate.fraction(confidence, "confidence")
    _validate.choice(method, "method", ("bootstrap", "bayes"))
    n_draws = _validate.integer(n_draws, "n_draws", low=2000 if method == "bayes" else 100)
    number = resolve_seed(seed, rng)
    suite = _Suite.of(parts, groups, names, higher_is_better, bounds)
    draws = suite.posterior(n_draws, number) if method == "bayes" else suite.draws(n_draws, number)
    deviations = draws - (draws.mean(axis=0) if method == "bayes" else suite.values)
    pairs = list(combinations(range(len(suite.names)), 2))
    between = np.stack([deviations[:, i] - deviations[:, j] for i, j in pairs], axis=1)
    size = float(np.abs(suite.values).max())
    level_systems = _joint_level(deviations, level, size)
    level_pairs = _joint_level(between, level, size)
    ends_of = _Bounds(suite, draws if method == "bayes" else None)
    compared = [ends_of.pair(i, j, level_pairs) for i, j in pairs]
    p_values = np.array([ends_of.p_value(i, j) for i, j in pairs])
    adjusted = correct_p_values(p_values, method=adjust)
    beaten = np.zeros((len(suite.names), len(suite.names)), dtype=np.bool_)
    for (i, j), (low, high) in zip(pairs, compared, strict=True):
        beaten[j, i], beaten[i, j] = _above_zero(low, high, suite.sign)
    ranks = _ranks(suite, beaten)
    p_best = _shares(draws * suite.sign)
    systems = [
        RankedSystem(
            name,
            float(suite.values[at]),
            ends_of.system(at, level),
            ends_of.system(at, level_systems, level),
            *ranks[at],
            float(p_best[at]),
        )
        for at, name in enumerate(suite.names)
    ]
    made = [
        _pair(suite, draws, i, j, ends, float(p), float(q))
        for (i, j), ends, p, q in zip(pairs, compared, p_values, adjusted, strict=True)
    ]
    order = {system.name: at for at, system in enumerate(sorted(systems, key=_standing))}
    return Ranking(
        systems=tuple(sorted(systems, key=_standing)),
        pairs=tuple(sorted(made, key=lambda pair: (order[pair.a], order[pair.b]))),
        confidence=level,
        adjust=adjust,
        method=method,
        n_draws=n_draws,
        seed=number,
        n_units=sum(map(len, suite.parts)),
        n_groups=sum(len(np.unique(part)) for part in suite.groups),
        n_parts=len(suite.parts),
        higher_is_better=higher_is_better,
    )


def _standing(system: RankedSystem) -> tuple[int, str]:
    return system.rank, system.name


@dataclass(frozen=True)
class _Suite:
    """The parts, each an array of units by systems."""

    names: tuple[str, ...]
    labels: tuple[str, ...]
    parts: tuple[FloatArray, ...]
    groups: tuple[NDArray[Any], ...]
    sign: float
    bounds: tuple[float, float]

    @classmethod
    def of(
        cls,
        parts: Any,
        groups: Any,
        names: Sequence[str] | None,
        up: bool,
        bounds: tuple[float, float],
    ) -> "_Suite":
        labels = list(parts) if isinstance(parts, Mapping) else [str(i) for i in range(len(parts))]
        given = [parts[label] for label in labels] if isinstance(parts, Mapping) else list(parts)
        if not given:
            raise InvalidInputError("`parts` is empty; there must be at least one")
        arrays = [_matrix(part, label) for part, label in zip(given, labels, strict=True)]
        k = arrays[0].shape[1]
        for array, label in zip(arrays, labels, strict=True):
            if array.shape[1] != k:
                raise InvalidInputError(
                    f"part {label!r} has {array.shape[1]} systems, the first has {k}; leave out "
                    "systems that do not have every part, or parts that not every system has"
                )
        if k < 2:
            raise InvalidInputError("there is one system; a ranking needs at least two")
        called = tuple(names) if names is not None else tuple(f"system {i + 1}" for i in range(k))
        if len(called) != k or len(set(called)) != k:
            raise InvalidInputError(f"`names` must hold {k} different names, got {called!r}")
        return cls(
            called,
            tuple(labels),
            tuple(arrays),
            _groups(groups, arrays, labels),
            1.0 if up else -1.0,
            bounds,
        )

    @functools.cached_property
    def values(self) -> FloatArray:
        return np.asarray(np.mean([part.mean(axis=0) for part in self.parts], axis=0))

    @functools.cached_property
    def is_binary(self) -> bool:
        return all(bool(((part == 0.0) | (part == 1.0)).all()) for part in self.parts)

    @functools.cached_property
    def is_independent(self) -> bool:
        return all(len(np.unique(part)) == len(part) for part in self.groups)

    def draws(self, n_draws: int, seed: int) -> FloatArray:
        """Return the systems' values on resamples: groups drawn within parts, once for all."""
        total = np.zeros((n_draws, len(self.names)))
        for label, part, group in zip(self.labels, self.parts, self.groups, strict=True):
            own = derive_seed(seed, "leaderboard", label)
            drawn = _pattern_draws(part, group, n_draws, own)
            total += _group_draws(part, group, n_draws, own) if drawn is None else drawn
        return total / len(self.parts)

    def posterior(self, n_draws: int, seed: int) -> FloatArray:
        """Return draws of the systems' rates from their posterior."""
        if not self.is_binary or not self.is_independent:
            raise InvalidInputError(
                "`method` is 'bayes', which is for right or wrong (0 or 1) of independent units; "
                "use 'bootstrap'"
            )
        total = np.zeros((n_draws, len(self.names)))
        for label, part in zip(self.labels, self.parts, strict=True):
            generator = np.random.default_rng(derive_seed(seed, "posterior", label))
            patterns, counts = np.unique(part, axis=0, return_counts=True)
            # A Dirichlet over patterns is a row of gammas over its sum.
            weights = generator.gamma(counts, size=(n_draws, len(counts)))
            prior = generator.gamma(2.0, size=(n_draws, 1))
            total += (weights @ patterns + prior * self._prior(n_draws, generator)) / (
                weights.sum(axis=1, keepdims=True) + prior
            )
        return total / len(self.parts)

    def _prior(self, n_draws: int, generator: "np.random.Generator") -> FloatArray:
        """Return rates drawn from the prior: sticks of a Dirichlet process of mass 2."""
        breaks = generator.beta(1.0, 2.0, size=(n_draws, _STICKS))
        left = np.cumprod(1.0 - breaks, axis=1)
        sticks = breaks * np.column_stack([np.ones(n_draws), left[:, :-1]])
        sticks[:, -1] += left[:, -1]
        rates = np.zeros((n_draws, len(self.names)))
        for stick in sticks.T:
            rates += stick[:, None] * generator.integers(0, 2, size=rates.shape)
        return rates


def _pattern_draws(
    part: FloatArray, group: NDArray[Any], n_draws: int, seed: int
) -> FloatArray | None:
    """Return means on resamples of independent units that have few patterns of values.

    How often each pattern is drawn is all that matters, and far fewer numbers than units.
    """
    if len(np.unique(group)) < len(group):
        return None
    patterns, counts = np.unique(part, axis=0, return_counts=True)
    if len(patterns) * _FEW > len(part):
        return None
    generator = np.random.default_rng(seed)
    drawn = generator.multinomial(len(part), counts / len(part), size=n_draws)
    return np.asarray(drawn @ patterns / len(part))


def _group_draws(part: FloatArray, group: NDArray[Any], n_draws: int, seed: int) -> FloatArray:
    """Return means on resamples of groups: sums over units per unit drawn."""
    plan = groups_plan(group)
    codes = np.asarray(plan.unit_of_row)
    sums = np.stack([np.bincount(codes, column) for column in part.T], axis=1)
    weighed = np.column_stack([sums, np.bincount(codes)])
    counts = np.empty((plan.count_rows(), LANES), dtype=np.uint8)
    means = np.empty((n_draws, part.shape[1]))
    for first in range(0, n_draws, LANES):
        plan.draw(counts, seed=seed, first=first)
        drawn = counts.T.astype(np.float64) @ weighed
        rows = means[first : first + LANES]
        rows[:] = (drawn[:, :-1] / drawn[:, -1:])[: len(rows)]
    return means


def _matrix(part: Any, label: str) -> FloatArray:
    array = np.asarray(part, dtype=np.float64)
    if array.ndim != 2 or not len(array):
        raise InvalidInputError(
            f"part {label!r} has the shape {array.shape}; it must be units by systems"
        )
    if not np.isfinite(array).all():
        unit, system = np.argwhere(~np.isfinite(array))[0].tolist()
        raise InvalidInputError(
            f"part {label!r} has {array[unit, system]} for unit {unit}, system {system}; leave out "
            "units that not every system has"
        )
    return array


def _groups(
    groups: Any, arrays: Sequence[FloatArray], labels: Sequence[str]
) -> tuple[NDArray[Any], ...]:
    if groups is None:
        return tuple(np.arange(len(array)) for array in arrays)
    if isinstance(groups, Mapping):
        groups = [groups[label] for label in labels]
    if len(groups) != len(arrays):
        raise InvalidInputError(f"`groups` has {len(groups)} parts but `parts` has {len(arrays)}")
    return tuple(
        _validate.group_codes(given, len(array), f"groups[{label!r}]")[0]
        for given, array, label in zip(groups, arrays, labels, strict=True)
    )


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Intervals of systems and pairs at any level: closed forms, or quantiles of a posterior."""

    suite: _Suite
    posterior: FloatArray | None

    def system(self, at: int, level: float, nominal: float | None = None) -> BootstrapCI | None:
        """Return one system's interval; ``nominal`` is the confidence that all have together."""
        suite = self.suite
        if self.posterior is not None:
            column = self.posterior[:, at]
            low, high = np.quantile(column, [(1 - level) / 2, (1 + level) / 2]).tolist()
            made = BootstrapCI(
                float(suite.values[at]), low, high, level, len(column), "beta-binomial"
            )
        else:
            columns = [part[:, at] for part in suite.parts]
            found = self._closed_form(columns, level)
            if found is None:
                return None
            made = found
        n_groups = sum(len(np.unique(part)) for part in suite.groups)
        made = replace(made, n_units=sum(map(len, suite.parts)), n_groups=n_groups)
        if nominal is None:
            return made
        return replace(made, confidence=nominal, method=f"{made.method}, simultaneous")

    def _closed_form(self, columns: list[FloatArray], level: float) -> BootstrapCI | None:
        """Return the interval of a mean over parts, inside the bounds of the values."""
        suite = self.suite
        if suite.is_binary and not suite.is_independent and len(columns) == 1:
            rate = clustered_rate(columns[0] == 1.0, suite.groups[0], level)
            if rate.low is None or rate.high is None:
                return None
            point = float(columns[0].mean())
            return BootstrapCI(point, rate.low, rate.high, level, 0, rate.method)
        found = macro_mean(columns, groups=self._labels(), confidence=level).ci
        if found is None:
            return None
        low, high = (0.0, 1.0) if suite.is_binary else suite.bounds
        return replace(found, ci_low=max(low, found.ci_low), ci_high=min(high, found.ci_high))

    def pair(self, i: int, j: int, level: float) -> tuple[float, float]:
        """Return the interval of a difference; without spread nothing is known."""
        suite = self.suite
        if self.posterior is not None:
            between = self.posterior[:, i] - self.posterior[:, j]
            low, high = np.quantile(between, [(1 - level) / 2, (1 + level) / 2]).tolist()
            return low, high
        if suite.is_binary and suite.is_independent:
            found = paired_macro_interval(self._discordant(i, j), confidence=level)
            return found.ci_low, found.ci_high
        mean = self._difference(i, j)
        if mean.se is None or _is_flat(mean):
            return -math.inf, math.inf
        reach = critical_value(level, mean.df) * mean.se
        return mean.mean - reach, mean.mean + reach

    def p_value(self, i: int, j: int) -> float:
        """Return the p-value of no difference: McNemar's exact one, or Student's."""
        suite = self.suite
        if suite.is_binary and suite.is_independent and len(suite.parts) == 1:
            gained, lost, n = self._discordant(i, j)[0]
            found = mcnemar_from_table([[n - gained - lost, gained], [lost, 0]]).p_value
            return 1.0 if found is None else found
        mean = self._difference(i, j)
        size = float(np.abs(suite.values[[i, j]]).max())
        if mean.se is None or abs(mean.mean) <= ROUNDING * size:
            return 1.0
        if _is_flat(mean):  # every unit differs by as much: a matter of signs alone
            return float(min(1.0, 2.0 ** (1 - mean.n_groups)))
        return float(min(1.0, 2.0 * upper_tail(abs(mean.mean) / mean.se, mean.df)))

    def _discordant(self, i: int, j: int) -> list[tuple[int, int, int]]:
        return [
            (int((part[:, i] > part[:, j]).sum()), int((part[:, i] < part[:, j]).sum()), len(part))
            for part in self.suite.parts
        ]

    def _difference(self, i: int, j: int) -> MacroMean:
        return macro_mean(
            [part[:, i] - part[:, j] for part in self.suite.parts], groups=self._labels()
        )

    def _labels(self) -> list[NDArray[Any]] | None:
        if self.suite.is_independent:
            return None
        return [
            np.char.add(f"{at}:", part.astype(str)) for at, part in enumerate(self.suite.groups)
        ]


def _is_flat(mean: MacroMean) -> bool:
    return mean.se is not None and negligible(mean.se, max(1.0, abs(mean.mean)))


def _joint_level(deviations: FloatArray, confidence: float, size: float) -> float:
    """Return the level of single intervals at which all of them hold together."""
    spread = deviations.std(axis=0)
    moving = spread > ROUNDING * size
    if not moving.any():
        return confidence
    largest = np.abs(deviations[:, moving] / spread[moving]).max(axis=1)
    factor = float(np.quantile(largest, confidence))
    return max(confidence, 2.0 * _STANDARD.cdf(factor) - 1.0)


def _above_zero(low: float, high: float, sign: float) -> tuple[bool, bool]:
    """Return whether an interval of a difference says the first is better, and the second."""
    return (low > 0.0, high < 0.0) if sign > 0 else (high < 0.0, low > 0.0)


def _ranks(suite: _Suite, beaten: BoolArray) -> list[tuple[int, int, int]]:
    """Return rank and its bounds; ``beaten[j, i]`` says that i is better than j."""
    values = suite.values * suite.sign
    k = len(values)
    return [
        (
            1 + int((values > values[at] + ROUNDING).sum()),
            1 + int(beaten[at].sum()),
            k - int(beaten[:, at].sum()),
        )
        for at in range(k)
    ]


def _shares(values: FloatArray) -> FloatArray:
    """Return in which share of the rows each column is the largest; equal ones share a row."""
    top = values >= values.max(axis=1, keepdims=True) - ROUNDING
    return np.asarray((top / top.sum(axis=1, keepdims=True)).mean(axis=0))


def _pair(
    suite: _Suite,
    draws: FloatArray,
    i: int,
    j: int,
    ends: tuple[float, float],
    p_value: float,
    p_adjusted: float,
) -> SystemPair:
    """Return a pair with the better of the two first."""
    low, high = ends
    between = suite.values[i] - suite.values[j]
    swap = between * suite.sign < 0.0
    if swap:
        i, j, low, high, between = j, i, -high, -low, -between
    wins = _shares(draws[:, [i, j]] * suite.sign)
    first, second = _above_zero(low, high, suite.sign)
    better = suite.names[i] if first else suite.names[j] if second else None
    return SystemPair(
        suite.names[i],
        suite.names[j],
        float(between) + 0.0,
        low if math.isfinite(low) else None,
        high if math.isfinite(high) else None,
        p_value,
        p_adjusted,
        float(wins[0]),
        better,
    )
