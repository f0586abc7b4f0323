"""Difference between two arms in the probability of failure by a given time."""

import math

import numpy as np

from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.inference.results import PairedBootstrapCI
from eval_toolkit.inference.survival import SurvivalCurve
from eval_toolkit.inference.survival_data import NO_VARIANCE, Observed, no_event_bound

_PSEUDO_GROUPS = 2.0
"""Number of uncorrelated pseudo-groups that account for unseen differences."""


def survival_difference(a: SurvivalCurve, b: SurvivalCurve, *, at: float) -> PairedBootstrapCI:
    """Return the difference B − A in the probability of failure by a time, paired by group.

    Parameters
    ----------
    a, b : SurvivalCurve
        Survival curves of the arms. If both arms have the same units, estimate the curves with unit
        ids as ``groups``, even for single rollouts; otherwise the arms are treated as independent.
    at : float
        Time, within the observed range of both arms.

    Returns
    -------
    PairedBootstrapCI
        ``delta`` is B − A, ``value_a`` and ``value_b`` are the probabilities in each arm, and
        ``method`` states whether the arms were paired.

    Raises
    ------
    InvalidInputError
        If only one curve has groups, or the curves differ in confidence.
    InvalidTypeError
        If an arm is not a `SurvivalCurve`.
    UndefinedMetricError
        If an arm was not observed until that time.

    Notes
    -----
    The intervals for the arms are combined by the method of variance estimates recovery [1]_: the
    squared distances of each arm's bounds from its estimate are added, minus twice their product
    times the correlation of the arms. The correlation is computed from the groups' influences, and
    is 0 if an arm does not vary. For 0/1 values this is Newcombe's method [2]_, which also reduces
    positive correlations, because few groups show too few differences; here, the factor is G/(G +
    2) for G common groups. If no group differs, the bounds are at least as far from 0 as the
    Clopper-Pearson bound for an event that does not occur in G groups. The coverage of 95 %
    intervals is at least 92 %, or 90 % if fewer than three groups are expected to differ
    (``tests/statistics``).

    References
    ----------
    .. [1] Zou & Donner (2008), Statistics in Medicine 27(10):1693-1702.
    .. [2] Newcombe (1998), Statistics in Medicine 17(22):2635-2650, method 10.

    Examples
    --------
    >>> from eval_toolkit.inference import kaplan_meier
    >>> units = ["u1", "u2", "u3", "u4", "u5", "u6"]
    >>> a = kaplan_meier([1, 3, 3, 3, 3, 3], [1, 0, 0, 0, 0, 0], groups=units)
    >>> b = kaplan_meier([1, 2, 1, 3, 3, 3], [1, 1, 1, 0, 0, 0], groups=units)
    >>> difference = survival_difference(a, b, at=3)
    >>> f"{difference:.2f}", difference.method
    ('+0.33 [-0.42, +0.78]', 'mover, paired')
    """
    for name, curve in (("a", a), ("b", b)):
        if not isinstance(curve, SurvivalCurve):
            raise InvalidTypeError(f"`{name}` must be a SurvivalCurve, got {curve!r}")
    if (a.n_groups is None) != (b.n_groups is None):
        raise InvalidInputError(
            "only one curve has groups; estimate both with unit ids as `groups`"
        )
    if a.confidence != b.confidence:
        raise InvalidInputError(
            f"`a` has confidence {a.confidence:g} and `b` {b.confidence:g}; the levels must be equal"
        )
    first, second = a.failure_by(at), b.failure_by(at)
    delta = second.point_estimate - first.point_estimate
    n_shared, correlation, alike = _shared(a, b, at)
    below = _together(
        second.point_estimate - second.ci_low, first.ci_high - first.point_estimate, correlation
    )
    above = _together(
        second.ci_high - second.point_estimate, first.point_estimate - first.ci_low, correlation
    )
    if alike:
        unseen = no_event_bound(n_shared, a.confidence)
        below, above = max(below, unseen), max(above, unseen)
    low, high = max(-1.0, delta - below), min(1.0, delta + above)
    return PairedBootstrapCI(
        delta,
        low,
        high,
        low <= 0.0 <= high,
        a.confidence,
        0,
        "mover, paired" if n_shared else "mover, independent",
        value_a=first.point_estimate,
        value_b=second.point_estimate,
        reason=a.reason or b.reason,
    )


def _shared(a: SurvivalCurve, b: SurvivalCurve, at: float) -> tuple[int, float, bool]:
    """Return the number of common groups, the correlation, and whether no group differs."""
    if a.n_groups is None or a._observed is None or b._observed is None:
        return 0, 0.0, False
    first, second = (
        dict(zip(seen.ids.tolist(), _until(seen, at).tolist(), strict=True))
        for seen in (a._observed, b._observed)
    )
    shared = first.keys() & second.keys()
    alike = len(shared) == len(first) == len(second) and all(
        abs(first[unit] - second[unit]) < math.sqrt(NO_VARIANCE) for unit in shared
    )
    squares = [math.fsum(x * x for x in arm.values()) for arm in (first, second)]
    if min(squares) < NO_VARIANCE or not shared:
        return len(shared), 0.0, alike
    product = math.fsum(first[unit] * second[unit] for unit in shared)
    found = max(-1.0, min(1.0, product / math.sqrt(squares[0] * squares[1])))
    if found > 0.0:
        found *= len(shared) / (len(shared) + _PSEUDO_GROUPS)
    return len(shared), found, alike


def _until(seen: Observed, time: float) -> FloatArray:
    return seen.influences((np.arange(len(seen.times)) <= seen.last_at(time)).astype(np.float64))


def _together(of_one: float, of_other: float, correlation: float) -> float:
    square = of_one**2 + of_other**2 - 2.0 * correlation * of_one * of_other
    return math.sqrt(max(0.0, square))
