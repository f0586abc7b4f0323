"""Label planning: how many human labels to collect, and for which units."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, SupportsFloat, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.errors import InfeasibleError, InvalidInputError
from eval_toolkit.inference.distributions import critical_value
from eval_toolkit.inference.judged.prediction_powered import (
    BINARY,
    NO_PSEUDO,
    SWAPPED,
    powered_mean,
    pseudo_units,
)
from eval_toolkit.inference.judged.validation import Judged, read_judged
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE

LabelRule: TypeAlias = Literal["ppi++", "by-verdict", "rogan-gladen", "labels-only"]

_RULES = ("ppi++", "by-verdict", "rogan-gladen", "labels-only")
_MOST = 10**9


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LabelPlan(Displayed):
    """Number of human labels required for an interval of a given half-width.

    Examples
    --------
    >>> judge, human = [1, 0, 1, 0] * 100, [1, 0, 1, 0, 0, 0, 1, 1] * 5 + [None] * 360
    >>> plan_labels(judge, human, half_width=0.08).n_labels
    130
    """

    n_labels: int
    """Total number of labels, including existing ones."""
    n_more: int
    """Number of additional labels."""
    half_width: float
    """Target half-width."""
    half_width_now: float
    """Expected half-width with the existing labels."""
    half_width_best: float
    """Expected half-width if all units are labelled; for Rogan-Gladen, the limit for large n."""
    method: str
    confidence: float
    split: Mapping[str, int] = field(default_factory=dict)
    """Total number of labels by stratum; empty if labels are sampled from all units."""
    buy: Mapping[str, int] = field(default_factory=dict)
    """Number of additional labels by stratum."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        payload = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return payload | {"split": dict(self.split), "buy": dict(self.buy)}


@dataclass(frozen=True, slots=True)
class _Pilot:
    """Variance as a function of the number of labels, estimated from a pilot."""

    variance: Callable[[int], float]
    most: int
    divide: Callable[[int], dict[str, int]]
    have: Mapping[str, int]


def plan_labels(
    judge: ArrayLike,
    human: ArrayLike,
    *,
    half_width: SupportsFloat,
    method: LabelRule = "ppi++",
    groups: ArrayLike | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
) -> LabelPlan:
    """Plan how many more human labels to collect, based on the existing labels.

    Parameters
    ----------
    judge : array-like of shape (n,)
        Verdict or score of the judge for every unit.
    human : array-like of shape (n,)
        Human labels of a random pilot sample, None or NaN elsewhere; at least 20 are recommended.
        For "by-verdict", labels may be sampled by verdict.
    half_width : float
        Target half-width of the interval.
    method : {"ppi++", "by-verdict", "rogan-gladen", "labels-only"}, default "ppi++"
        How the labels are sampled and used; see Notes.
    groups : array-like of shape (n,), optional
        Group of each unit; the design effect is estimated from the pilot.
    confidence : float, default 0.95
        Confidence level of the interval.

    Returns
    -------
    LabelPlan
        Total number of labels, and the number of additional labels.

    Raises
    ------
    InvalidInputError
        If arrays are invalid, the method needs 0/1 verdicts and labels, or labels were not chosen
        at random.
    UndefinedMetricError
        If there are fewer than two labels.
    InfeasibleError
        If the interval would be too wide even with all units labelled.

    Notes
    -----
    "ppi++" and "labels-only" sample the units to label at random. "by-verdict" samples the judge's
    positives and negatives separately, with the allocation that minimises the variance (Neyman);
    pass ``strata=judge`` to `corrected_rate` with such labels. "rogan-gladen" uses a separate
    calibration set, split between true positives and negatives as recommended by [1]_. Two
    pseudo-units are added to the pilot, so that a pilot without errors does not imply a perfect
    judge.

    References
    ----------
    .. [1] Lee et al. (2025), How to correctly report LLM-as-a-judge evaluations,
       arXiv:2511.21140.

    Examples
    --------
    >>> judge = [1, 0, 1, 0] * 250
    >>> human = [1, 0, 1, 0, 0, 0, 1, 0] * 5 + [None] * 960
    >>> plan = plan_labels(judge, human, half_width=0.05, method="by-verdict")
    >>> plan.n_more, dict(plan.buy)
    (131, {'judge-positive': 107, 'judge-negative': 24})
    """
    level = validation.fraction(confidence, "confidence")
    target = validation.number(half_width, "half_width", low=0.0, include_low=False)
    validation.choice(method, "method", _RULES)
    data = read_judged(judge, human, groups)
    if method != "by-verdict":
        data.check_random()
    if method in ("by-verdict", "rogan-gladen") and not data.binary:
        raise InvalidInputError(f"method {method!r} needs 0/1 verdicts and labels; use 'ppi++'")
    pilot = _PILOTS[method](data)
    effect = _design_effect(data)

    def reach(n: int) -> float:
        return critical_value(level, max(1, n - 1)) * math.sqrt(effect * pilot.variance(n))

    best = reach(pilot.most)
    if best > target:
        raise InfeasibleError(
            f"a half-width of {target:g} cannot be reached with these {data.n} units: the smallest "
            f"possible is {best:.3g}; evaluate more units"
        )
    n = _smallest(reach, target, pilot.most)
    split = pilot.divide(n)
    buy = {name: max(0, count - pilot.have.get(name, 0)) for name, count in split.items()}
    return LabelPlan(
        n_labels=n,
        n_more=sum(buy.values()) if buy else max(0, n - data.n_labels),
        half_width=target,
        half_width_now=reach(data.n_labels),
        half_width_best=best,
        method=method,
        confidence=level,
        split=split,
        buy=buy,
    )


def _smallest(reach: Callable[[int], float], target: float, most: int) -> int:
    """Return the smallest n whose half-width does not exceed the target, by bisection."""
    low, high = 1, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reach(middle) <= target else (middle, high)
    return high


def _design_effect(data: Judged) -> float:
    """Return the design effect of the clusters in the pilot."""
    if data.groups is None:
        return 1.0
    pseudo = pseudo_units(data)
    alone = Judged(data.judge, data.human, data.labelled, None)
    plain = powered_mean(alone, None, pseudo)
    clustered = powered_mean(data, plain.lam, pseudo)
    return max(1.0, clustered.variance / plain.variance) if plain.variance > 0.0 else 1.0


def _moments(data: Judged) -> tuple[float, float, float]:
    """Return the variances and the covariance of labels and verdicts, with pseudo-units."""
    pseudo = BINARY if data.is_rate else NO_PSEUDO
    y = np.concatenate([data.human[data.labelled], pseudo.human])
    f = np.concatenate([data.judge[data.labelled], pseudo.judge])
    weights = np.ones(len(y))
    weights[data.n_labels :] = pseudo.count
    weights /= weights.sum()
    y, f = y - weights @ y, f - weights @ f
    return float(weights @ y**2), float(weights @ f**2), float((weights * y) @ f)


def _random(data: Judged) -> _Pilot:
    by_human, by_judge, together = _moments(data)
    known = together**2 / by_judge if by_judge > 0.0 and together > 0.0 else 0.0
    unseen = 0.0 if data.is_rate else float(SWAPPED.count * SWAPPED.judge @ SWAPPED.judge) * known

    def variance(n: int) -> float:
        # The part explained by the judge is estimated from all units, the rest from the labels.
        rest = 1.0 - n / data.n
        return (by_human - known * rest + unseen * rest**2 / n) / n

    return _Pilot(variance, data.n, lambda n: {}, {})


def _labels_only(data: Judged) -> _Pilot:
    by_human, _, _ = _moments(data)
    return _Pilot(lambda n: by_human / n, data.n, lambda n: {}, {})


def _by_verdict(data: Judged) -> _Pilot:
    sides = (data.judge == 1.0, data.judge == 0.0)
    names = ("judge-positive", "judge-negative")
    have = [int((side & data.labelled).sum()) for side in sides]
    sizes = np.array([int(side.sum()) for side in sides])
    hits = [float(data.human[side & data.labelled].sum()) for side in sides]
    # Half a label of each kind, i.e. the same pseudo-units as for the whole table.
    shares = np.array([(k + 0.5) / (n + 1.0) for k, n in zip(hits, have, strict=True)])
    weights = sizes / data.n
    spreads = shares * (1.0 - shares)
    between = float(weights @ (shares - weights @ shares) ** 2) / data.n
    part = _Allocation(names, weights * np.sqrt(spreads), sizes)

    def variance(n: int) -> float:
        counts = np.array(list(part(n).values()), dtype=np.float64)
        used = sizes > 0
        return float((weights**2 * spreads)[used] @ (1.0 / counts[used])) + between

    return _Pilot(variance, data.n, part, dict(zip(names, have, strict=True)))


def _calibration(data: Judged) -> _Pilot:
    true, false = (data.labelled & (data.human == value) for value in (1.0, 0.0))
    positives, negatives = int(true.sum()), int(false.sum())
    se = (float(data.judge[true].sum()) + 1.0) / (positives + 2.0)
    sp = (float((1.0 - data.judge[false]).sum()) + 1.0) / (negatives + 2.0)
    rate = float(data.judge.mean())
    if se + sp <= 1.0:
        raise InfeasibleError(
            f"the judge is no better than chance in the pilot (sensitivity {se:.2g}, specificity "
            f"{sp:.2g}); use method='labels-only'"
        )
    theta = min(1.0, max(0.0, (rate + sp - 1.0) / (se + sp - 1.0)))
    needs = np.array([theta * math.sqrt(se * (1 - se)), (1 - theta) * math.sqrt(sp * (1 - sp))])
    names = ("human-positive", "human-negative")
    part = _Allocation(names, needs, np.array([_MOST, _MOST]))

    def variance(n: int) -> float:
        counts = np.array(list(part(n).values()), dtype=np.float64)
        by_labels = float(needs**2 @ (1.0 / counts))
        return (rate * (1.0 - rate) / data.n + by_labels) / (se + sp - 1.0) ** 2

    have = dict(zip(names, (positives, negatives), strict=True))
    return _Pilot(variance, _MOST, part, have)


@dataclass(frozen=True)
class _Allocation:
    """Proportional allocation of n labels to two strata, with at least two in each."""

    names: tuple[str, str]
    needs: FloatArray
    sizes: Any

    def __call__(self, n: int) -> dict[str, int]:
        total = float(self.needs.sum())
        share = float(self.needs[0]) / total if total > 0.0 else 0.5
        first = round(n * share)
        first = min(max(first, min(2, self.sizes[0]), n - self.sizes[1]), self.sizes[0])
        second = min(max(n - first, min(2, self.sizes[1])), self.sizes[1])
        return {self.names[0]: int(first), self.names[1]: int(second)}


_PILOTS: Mapping[str, Callable[[Judged], _Pilot]] = {
    "ppi++": _random,
    "by-verdict": _by_verdict,
    "rogan-gladen": _calibration,
    "labels-only": _labels_only,
}
