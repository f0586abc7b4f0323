"""Paired differences of macro averages."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.inference.distributions import critical_value, negligible, upper_tail
from eval_toolkit.inference.macro import macro_mean
from eval_toolkit.inference.paired_intervals import p_of_interval
from eval_toolkit.inference.paired_proportions import paired_macro_interval
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, Interval, in_own_order


@in_own_order
@dataclass(frozen=True, repr=False)
class PairedMacro(Interval[float | None]):
    """Macro average of the differences B − A, with interval and p-value."""

    ci_low: float | None
    """Lower bound; None if there is no interval (see ``reason``)."""
    ci_high: float | None
    confidence: float
    _: KW_ONLY
    delta: float
    p_value: float | None = None


def paired_macro_diff(
    a: Sequence[FloatArray],
    b: Sequence[FloatArray],
    *,
    groups: Sequence[NDArray[Any]] | None = None,
    share: bool = False,
    confidence: float = DEFAULT_CONFIDENCE,
) -> PairedMacro:
    """Compare two macro averages on the same units.

    Values and groups are passed by part; a group may span parts. Proportions of independent units
    use `paired_macro_interval`, which has positive width even if all values of a part are equal;
    other values use the interval of `macro_mean`. The p-value is at most ``1 − confidence`` iff the
    interval excludes 0.

    Examples
    --------
    >>> a, b = [np.zeros(30), np.zeros(10)], [np.ones(30), np.zeros(10)]
    >>> result = paired_macro_diff(a, b, share=True)
    >>> result.delta, round(result.ci_low, 3), round(result.ci_high, 3)
    (0.5, 0.387, 0.582)
    """
    differences = [y - x for x, y in zip(a, b, strict=True)]
    mean = macro_mean(differences, groups=groups, confidence=confidence)
    if share and groups is None:
        counts = [(int((d > 0).sum()), int((d < 0).sum()), len(d)) for d in differences]
        ci = paired_macro_interval(counts, confidence=confidence)
        p_value = p_of_interval(mean.mean, ci.ci_low, ci.ci_high, confidence)
        ends = (ci.ci_low, ci.ci_high, confidence, ci.method)
        return PairedMacro(*ends, delta=mean.mean, p_value=p_value)
    size = max(float(np.abs(part).max()) for part in (*a, *b))
    if mean.se is None or negligible(mean.se, size):
        reason = mean.reason or "the differences do not vary within parts"
        return PairedMacro(None, None, confidence, reason=reason, delta=mean.mean)
    reach = critical_value(confidence, mean.df) * mean.se
    p_value = 2.0 * upper_tail(abs(mean.mean) / mean.se, mean.df)
    return PairedMacro(
        mean.mean - reach,
        mean.mean + reach,
        confidence,
        "paired-t, macro",
        mean.reason,
        delta=mean.mean,
        p_value=p_value,
    )
