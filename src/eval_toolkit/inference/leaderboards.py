"""Rankings of many systems on the same units, with simultaneous intervals.

All systems are evaluated on the same units of the same parts (tasks of a suite), and parts have
equal weight. The systems share resamples, so common variation cancels.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import NormalDist
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eval_toolkit._internal import validation
from eval_toolkit._internal.kernel import LANES
from eval_toolkit._internal.options import gathers
from eval_toolkit._internal.validation import BoolArray, FloatArray
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.inference.distributions import ROUNDING
from eval_toolkit.inference.macro import macro_mean
from eval_toolkit.inference.mean_intervals import mean_interval
from eval_toolkit.inference.means import PairedMeanResult, paired_mean_diff
from eval_toolkit.inference.multiplicity import CorrectionMethod, correct_p_values
from eval_toolkit.inference.paired_intervals import p_of_interval
from eval_toolkit.inference.paired_macro import PairedMacro, paired_macro_diff
from eval_toolkit.inference.plans import groups_plan
from eval_toolkit.inference.rankings import RankedSystem, Ranking, SystemPair
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, BootstrapCI
from eval_toolkit.seeds import SeedLike, derive_seed, resolve_seed

__all__ = ["RankedSystem", "Ranking", "SystemPair", "rank_systems"]

RankingMethod: TypeAlias = Literal["bootstrap", "bayes"]
_N_DRAWS = 4000
_FEW = 8
"""Mean number of units per pattern above which patterns are resampled instead of units."""
_STICKS = 40
"""Number of terms in the stick-breaking construction; the truncation error is (2/3)^40."""
_STANDARD = NormalDist()


class RankingOptions(TypedDict, total=False):
    """Options of `rank_systems`."""

    method: RankingMethod
    adjust: CorrectionMethod
    confidence: float
    n_draws: int
    seed: SeedLike
    rng: SeedLike


@gathers(
    RankingOptions,
    method="bootstrap",
    adjust="holm",
    confidence=DEFAULT_CONFIDENCE,
    n_draws=_N_DRAWS,
    seed=None,
    rng=None,
)
def rank_systems(
    parts: Sequence[ArrayLike] | Mapping[str, ArrayLike],
    *,
    names: Sequence[str] | None = None,
    groups: Sequence[ArrayLike] | Mapping[str, ArrayLike] | None = None,
    higher_is_better: bool = True,
    bounds: tuple[float, float] = (-math.inf, math.inf),
    share: bool | None = None,
    **options: Unpack[RankingOptions],
) -> Ranking:
    """Rank systems that were evaluated on the same units.

    Parameters
    ----------
    parts : sequence or mapping of array-like of shape (units, systems)
        One array per part (task); all parts have equal weights.
    names : sequence of str, optional
        Names of the systems; by default "system 1" and so on.
    groups : sequence or mapping of array-like, optional
        Group of each unit, by part; groups do not span parts.
    higher_is_better : bool, default True
        Whether higher values are better.
    bounds : tuple of float
        Smallest and largest possible value, if known; the systems' intervals are clipped to this
        range.
    share : bool, optional
        Whether values are binary: 1 (correct) or 0 (wrong). By default True if there are no other
        values.
    method : {"bootstrap", "bayes"}, default "bootstrap"
        Method of inference; see Notes. "bayes" is intended for small numbers of independent units
        with binary values.
    adjust : {"holm", "bh", "by", "hochberg", "bonferroni", "none"}, default "holm"
        Correction of the pairwise p-values, which determine the ranks.
    confidence : float, default 0.95
        Confidence level of each interval, and joint confidence level of all ranks if ``adjust`` is
        "holm", "hochberg" or "bonferroni".
    n_draws : int, default 4000
        Number of resamples (at least 100) or posterior draws (at least 2000, because extreme
        quantiles of the draws define the joint intervals).
    seed, rng : int, Generator, …, default 42
        Random seed or generator; pass only one of the two.

    Returns
    -------
    Ranking
        Systems from best to worst.

    Raises
    ------
    InvalidInputError
        If there are fewer than two systems, arrays have different numbers of systems, a value is
        not finite, or "bayes" is used with non-binary values or groups.

    Notes
    -----
    Two systems are compared like two runs in `compare_runs`: proportions of independent units by
    Tango's interval and McNemar's score test, other means by `paired_mean_diff`, and means over
    parts by `paired_macro_interval` or Student's t. The p-value of a pair is at most ``1 −
    confidence`` iff its interval excludes 0. P-values are then corrected for the number of pairs,
    and one system is better than another if the corrected p-value is at most ``1 − confidence``;
    the uncorrected interval may exclude 0 although the difference is not significant. The true rank
    of a system is at least 1 plus the number of significantly better systems; the upper bound is
    analogous [1]_. Pairs with constant differences are not tested.

    Groups are resampled within parts, with the same draws for every system. The largest
    standardised deviation over systems determines the level of the simultaneous intervals; the
    draws also show how often each system is best. Draws depend on the order of the units.

    "bayes" draws from the posterior of a Dirichlet process over the joint patterns of correct and
    wrong answers; its prior has the weight of two units. Each system's rate then has the posterior
    Beta(1 + correct, 1 + wrong), which [2]_ recommend for few units, and the correlation between
    systems is preserved. Intervals are posterior quantiles, and the p-value of a pair is derived
    from its interval.

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
    >>> [(system.name, system.rank_low, system.rank_high) for system in ranking.systems]
    [('a', 1, 2), ('b', 1, 2), ('c', 3, 3)]
    """
    level = validation.fraction(options["confidence"], "confidence")
    validation.choice(options["method"], "method", ("bootstrap", "bayes"))
    options["n_draws"] = validation.integer(
        options["n_draws"], "n_draws", low=2000 if options["method"] == "bayes" else 100
    )
    number = resolve_seed(options["seed"], options["rng"])
    suite = _Suite.of(parts, groups, names, higher_is_better, bounds, share)
    draws = (
        suite.posterior(options["n_draws"], number)
        if options["method"] == "bayes"
        else suite.draws(options["n_draws"], number)
    )
    deviations = draws - (draws.mean(axis=0) if options["method"] == "bayes" else suite.values)
    level_systems = _joint_level(deviations, level, float(np.abs(suite.values).max()))
    ends_of = _Bounds(suite, draws if options["method"] == "bayes" else None)
    pairs = list(combinations(range(len(suite.names)), 2))
    comparisons = _corrected([ends_of.pair(i, j, level) for i, j in pairs], options["adjust"])
    beaten = np.zeros((len(suite.names), len(suite.names)), dtype=np.bool_)
    for (i, j), pair in zip(pairs, comparisons, strict=True):
        beaten[j, i], beaten[i, j] = pair.decided(level, suite.sign)
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
    ordered = [
        _better_first(suite, draws, i, j, pair, level)
        for (i, j), pair in zip(pairs, comparisons, strict=True)
    ]
    order = {system.name: at for at, system in enumerate(sorted(systems, key=_standing))}
    return Ranking(
        systems=tuple(sorted(systems, key=_standing)),
        pairs=tuple(sorted(ordered, key=lambda pair: (order[pair.a], order[pair.b]))),
        confidence=level,
        adjust=options["adjust"],
        method=options["method"],
        n_draws=options["n_draws"],
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
    """Parts of the ranking, each an array of shape (units, systems)."""

    names: tuple[str, ...]
    labels: tuple[str, ...]
    parts: tuple[FloatArray, ...]
    groups: tuple[NDArray[Any], ...]
    sign: float
    bounds: tuple[float, float]
    share: bool | None

    @classmethod
    def of(
        cls,
        parts: Any,
        groups: Any,
        names: Sequence[str] | None,
        up: bool,
        bounds: tuple[float, float],
        share: bool | None,
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
                    f"part {label!r} has {array.shape[1]} systems, but the first has {k}; drop "
                    "systems that lack a part, or parts that lack a system"
                )
        if k < 2:
            raise InvalidInputError("there is only one system; a ranking needs at least two")
        called = tuple(names) if names is not None else tuple(f"system {i + 1}" for i in range(k))
        if len(called) != k or len(set(called)) != k:
            raise InvalidInputError(f"`names` must contain {k} unique names, got {called!r}")
        return cls(
            called,
            tuple(labels),
            tuple(arrays),
            _groups(groups, arrays, labels),
            1.0 if up else -1.0,
            bounds,
            share,
        )

    @functools.cached_property
    def values(self) -> FloatArray:
        return np.asarray(np.mean([part.mean(axis=0) for part in self.parts], axis=0))

    @functools.cached_property
    def is_binary(self) -> bool:
        """Whether every value is 0 or 1."""
        found = all(bool(((part == 0.0) | (part == 1.0)).all()) for part in self.parts)
        if self.share and not found:
            raise InvalidInputError("`share` is True, but a value is neither 0 nor 1")
        return found and self.share is not False

    @functools.cached_property
    def is_independent(self) -> bool:
        return all(len(np.unique(part)) == len(part) for part in self.groups)

    def draws(self, n_draws: int, seed: int) -> FloatArray:
        """Return the means of all systems on shared resamples, with groups resampled by part."""
        total = np.zeros((n_draws, len(self.names)))
        for label, part, group in zip(self.labels, self.parts, self.groups, strict=True):
            own = derive_seed(seed, "leaderboard", label)
            drawn = _pattern_draws(part, group, n_draws, own)
            total += _group_draws(part, group, n_draws, own) if drawn is None else drawn
        return total / len(self.parts)

    def posterior(self, n_draws: int, seed: int) -> FloatArray:
        """Return posterior draws of the systems' rates."""
        if not self.is_binary or not self.is_independent:
            raise InvalidInputError(
                "`method` is 'bayes', which needs binary values of independent units; use "
                "'bootstrap'"
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
        """Return rates drawn from the prior, a Dirichlet process with concentration 2."""
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
    """Return means on resamples of independent units with few distinct value patterns.

    Drawing pattern counts is faster, because there are far fewer patterns than units.
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
    """Return means on resamples of groups."""
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
            f"part {label!r} has shape {array.shape}; it must be 2-D, units by systems"
        )
    if not np.isfinite(array).all():
        unit, system = np.argwhere(~np.isfinite(array))[0].tolist()
        raise InvalidInputError(
            f"part {label!r} has {array[unit, system]} for unit {unit}, system {system}; drop "
            "units that are missing for a system"
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
        validation.group_codes(given, len(array), f"groups[{label!r}]")[0]
        for given, array, label in zip(groups, arrays, labels, strict=True)
    )


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Intervals at any confidence level, from closed forms or posterior quantiles."""

    suite: _Suite
    posterior: FloatArray | None

    def system(self, at: int, level: float, nominal: float | None = None) -> BootstrapCI | None:
        """Return the interval for a system; ``nominal`` is the joint confidence of all systems."""
        suite = self.suite
        if self.posterior is not None:
            column = self.posterior[:, at]
            low, high = np.quantile(column, [(1 - level) / 2, (1 + level) / 2]).tolist()
            interval = BootstrapCI(
                float(suite.values[at]), low, high, level, len(column), "beta-binomial"
            )
        else:
            columns = [part[:, at] for part in suite.parts]
            found = self._closed_form(columns, level)
            if found is None:
                return None
            interval = found
        n_groups = sum(len(np.unique(part)) for part in suite.groups)
        interval = replace(interval, n_units=sum(map(len, suite.parts)), n_groups=n_groups)
        if nominal is None:
            return interval
        return replace(interval, confidence=nominal, method=f"{interval.method}, simultaneous")

    def _closed_form(self, columns: list[FloatArray], level: float) -> BootstrapCI | None:
        """Return the interval for a mean over parts, clipped to the bounds of the values."""
        suite = self.suite
        low, high = (0.0, 1.0) if suite.is_binary else suite.bounds
        if len(columns) > 1:
            found = macro_mean(columns, groups=self._labels(), confidence=level).ci
            if found is None:
                return None
            return found.clipped((low, high))
        try:
            return mean_interval(
                columns[0],
                groups=None if suite.is_independent else suite.groups[0],
                bounds=(low, high),
                share=suite.is_binary,
                confidence=level,
            )
        except UndefinedMetricError:
            return None

    def pair(self, i: int, j: int, level: float) -> "_Pair":
        """Return the difference between two systems, without correction for the number of pairs."""
        delta = float(self.suite.values[i] - self.suite.values[j])
        if abs(delta) <= ROUNDING * float(np.abs(self.suite.values[[i, j]]).max()):
            delta = 0.0
        if self.posterior is not None:
            between = self.posterior[:, i] - self.posterior[:, j]
            low, high = np.quantile(between, [(1 - level) / 2, (1 + level) / 2]).tolist()
            p_value = p_of_interval(delta, low, high, level)
            return _Pair(low, high, level, delta=delta, p_value=p_value)
        try:
            found = self._difference(i, j, level)
        except UndefinedMetricError as error:  # a single unit or group
            return _Pair(None, None, level, reason=str(error), delta=delta)
        ends = (found.ci_low, found.ci_high, level, found.method, found.reason)
        return _Pair(*ends, delta=delta, p_value=found.p_value)

    def _difference(self, i: int, j: int, level: float) -> PairedMeanResult | PairedMacro:
        suite = self.suite
        a, b = ([part[:, at] for part in suite.parts] for at in (j, i))
        if len(a) > 1:
            return paired_macro_diff(
                a, b, groups=self._labels(), share=suite.is_binary, confidence=level
            )
        return paired_mean_diff(
            a[0],
            b[0],
            groups=None if suite.is_independent else suite.groups[0],
            bounds=suite.bounds,
            share=suite.is_binary,
            confidence=level,
        )

    def _labels(self) -> list[NDArray[Any]] | None:
        if self.suite.is_independent:
            return None
        return [
            np.char.add(f"{at}:", part.astype(str)) for at, part in enumerate(self.suite.groups)
        ]


@dataclass(frozen=True, kw_only=True)
class _Pair(PairedMacro):
    """Difference between two systems with its interval and p-values."""

    p_adjusted: float | None = None

    def decided(self, level: float, sign: float) -> tuple[bool, bool]:
        """Return whether the first system is significantly better, and whether the second is."""
        if self.p_adjusted is None or self.p_adjusted > round(1.0 - level, 12):
            return False, False
        return self.delta * sign > 0.0, self.delta * sign < 0.0


def _corrected(pairs: list[_Pair], adjust: CorrectionMethod) -> list[_Pair]:
    """Return pairs with p-values corrected for the number of tested pairs."""
    tested = [pair.p_value for pair in pairs if pair.p_value is not None]
    adjusted = iter(correct_p_values(np.array(tested), method=adjust).tolist() if tested else [])
    return [
        pair if pair.p_value is None else replace(pair, p_adjusted=next(adjusted)) for pair in pairs
    ]


def _joint_level(deviations: FloatArray, confidence: float, size: float) -> float:
    """Return the level of each interval at which all of them hold simultaneously."""
    spread = deviations.std(axis=0)
    moving = spread > ROUNDING * size
    if not moving.any():
        return confidence
    largest = np.abs(deviations[:, moving] / spread[moving]).max(axis=1)
    factor = float(np.quantile(largest, confidence))
    return max(confidence, 2.0 * _STANDARD.cdf(factor) - 1.0)


def _ranks(suite: _Suite, beaten: BoolArray) -> list[tuple[int, int, int]]:
    """Return ranks and their bounds; ``beaten[j, i]`` indicates that i is better than j."""
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
    """Return the fraction of rows in which each column is the maximum; ties are split."""
    top = values >= values.max(axis=1, keepdims=True) - ROUNDING
    return np.asarray((top / top.sum(axis=1, keepdims=True)).mean(axis=0))


def _better_first(
    suite: _Suite, draws: FloatArray, i: int, j: int, pair: _Pair, level: float
) -> SystemPair:
    """Return the pair, with the better system first."""
    first, second = pair.decided(level, suite.sign)
    better = suite.names[i] if first else suite.names[j] if second else None
    low, high, delta = pair.low, pair.high, pair.delta
    if delta * suite.sign < 0.0:
        i, j, delta = j, i, -delta
        low, high = (None, None) if low is None or high is None else (-high, -low)
    wins = _shares(draws[:, [i, j]] * suite.sign)
    return SystemPair(
        a=suite.names[i],
        b=suite.names[j],
        difference=delta,
        ci_low=low,
        ci_high=high,
        confidence=level,
        method=pair.method,
        p_value=pair.p_value,
        p_adjusted=pair.p_adjusted,
        p_a_better=float(wins[0]),
        better=better,
        reason=pair.reason,
    )
