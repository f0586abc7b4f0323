"""Corrected rates and differences, with a choice of methods."""

import math
from dataclasses import replace
from typing import Literal, SupportsFloat, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit.errors import EvalToolkitError, InvalidInputError
from eval_toolkit.inference.agreement import clustered_rate
from eval_toolkit.inference.distributions import upper_tail
from eval_toolkit.inference.judged.error_rates import rogan_gladen_of
from eval_toolkit.inference.judged.prediction_powered import (
    PAIRED,
    SWAPPED,
    powered_mean,
    ppi_mean,
)
from eval_toolkit.inference.judged.results import CorrectedDifference, CorrectedRate
from eval_toolkit.inference.judged.validation import Judged, read_judged
from eval_toolkit.inference.means import t_interval
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE

CorrectionRule: TypeAlias = Literal["ppi++", "ppi", "rogan-gladen", "labels-only", "raw"]

_RULES: tuple[CorrectionRule, ...] = get_args(CorrectionRule)


def corrected_rate(
    judge: ArrayLike,
    human: ArrayLike,
    *,
    method: CorrectionRule = "ppi++",
    groups: ArrayLike | None = None,
    strata: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
) -> CorrectedRate:
    """Estimate the rate according to humans from a judge's verdicts and some human labels.

    Parameters
    ----------
    judge : array-like of shape (n,)
        Verdict or score of the judge for every unit, 0/1 or real.
    human : array-like of shape (n,)
        Human labels; None or NaN if missing.
    method : {"ppi++", "ppi", "rogan-gladen", "labels-only", "raw"}, default "ppi++"
        Method of correction; see Notes.
    groups : array-like of shape (n,), optional
        Group of each unit; units in the same group are not independent.
    strata : array-like of shape (n,), optional
        Stratum of each unit; labels must be random within strata, but sampling rates may differ.
        For labels sampled by verdict, pass the verdicts. Used by "ppi++" and "ppi"; "raw" uses no
        labels.
    weights : array-like of shape (n,), optional
        Inverse probability of each unit to be labelled; used for labelled units only, and by the
        same methods.
    confidence : float, default 0.95
        Two-sided confidence level.

    Returns
    -------
    CorrectedRate
        Corrected rate, raw rate of the judge, interval widths of the other methods, and the name of
        the method with the narrowest interval.

    Raises
    ------
    InvalidInputError
        If arrays are invalid, the method does not accept strata or weights, or labels were sampled
        by verdict without strata or weights.
    UndefinedMetricError
        If there are fewer than two labels or, for "rogan-gladen", the judge is no better than
        chance.

    Notes
    -----
    "ppi++" (see `ppi_mean` for its coverage) is unbiased for any judge and never much wider than
    "labels-only". "ppi" is the same with λ = 1. "rogan-gladen" (`rogan_gladen`) uses sensitivity
    and specificity and is intended for separate calibration sets; with random labels for the same
    units, its interval is wider. "labels-only" ignores the judge. "raw" treats verdicts as true;
    its interval ignores the judge's errors, so it is never reported as the narrowest.

    Choose the method in advance: selecting the narrowest of several intervals reduces the coverage.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.random(1000) < 0.3
    >>> judge = np.where(rng.random(1000) < 0.85, truth, ~truth).astype(float)
    >>> human = np.where(np.arange(1000) < 100, truth, np.nan)
    >>> result = corrected_rate(judge, human)
    >>> round(result.raw, 2), f"{result:.2f}", result.narrowest
    (0.35, '0.29 [0.22, 0.36]', 'ppi++')
    """
    validation.choice(method, "method", _RULES)
    found, missing = rates_by_method(
        judge, human, groups=groups, strata=strata, weights=weights, confidence=confidence
    )
    if method in missing:
        raise missing[method]
    return found[method]


def rates_by_method(
    judge: ArrayLike,
    human: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    strata: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
) -> tuple[dict[str, CorrectedRate], dict[str, EvalToolkitError]]:
    """Return the rate by each applicable method, and the reason why the others do not apply."""
    level = validation.fraction(confidence, "confidence")
    data = read_judged(judge, human, groups)
    design = "strata" if strata is not None else "weights" if weights is not None else ""

    def by(rule: CorrectionRule) -> CorrectedRate:
        if rule == "raw":
            return _simple(data, rule, level)
        if rule in ("ppi++", "ppi"):
            return ppi_mean(
                judge,
                human,
                lam=1.0 if rule == "ppi" else None,
                groups=groups,
                strata=strata,
                weights=weights,
                confidence=level,
            )
        if design:
            raise InvalidInputError(
                f"method {rule!r} requires randomly chosen labels and does not accept "
                f"`{design}`; use 'ppi++' or 'ppi'"
            )
        data.check_random()
        return (
            rogan_gladen_of(data, level) if rule == "rogan-gladen" else _simple(data, rule, level)
        )

    found: dict[str, CorrectedRate] = {}
    missing: dict[str, EvalToolkitError] = {}
    for rule in _RULES:
        try:
            found[rule] = by(rule)
        except EvalToolkitError as error:  # undefined for these data
            missing[rule] = error
    widths = {rule: rate.width for rule, rate in found.items()}
    return {rule: _with_widths(rate, widths) for rule, rate in found.items()}, missing


def corrected_difference(
    judge_a: ArrayLike,
    human_a: ArrayLike,
    judge_b: ArrayLike,
    human_b: ArrayLike,
    *,
    lam: SupportsFloat | None = None,
    groups: ArrayLike | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
) -> CorrectedDifference:
    """Estimate the difference B − A according to humans, on the same units.

    Parameters
    ----------
    judge_a, judge_b : array-like of shape (n,)
        Judge verdicts on the answers of A and of B.
    human_a, human_b : array-like of shape (n,)
        Human labels for the same answers; None or NaN if missing. A unit counts as labelled if both
        of its answers are labelled.
    lam : float, optional
        Weight of the judge; tuned by default, as in `ppi_mean`.
    groups : array-like of shape (n,), optional
        Group of each unit; units in the same group are not independent.
    confidence : float, default 0.95
        Two-sided confidence level.

    Returns
    -------
    CorrectedDifference
        Corrected difference, with a two-sided p-value.

    Raises
    ------
    InvalidInputError
        If arrays are invalid, or labels were chosen by verdict.
    UndefinedMetricError
        If fewer than two units have both labels.

    Notes
    -----
    Prediction-powered inference on the per-unit differences, in which common variation and judge
    bias that affects both systems equally cancel.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.random(600) < 0.5, rng.random(600) < 0.7
    >>> wrong = rng.random((2, 600)) < 0.1
    >>> some = np.arange(600) < 120
    >>> result = corrected_difference(a ^ wrong[0], np.where(some, a, np.nan),
    ...                               b ^ wrong[1], np.where(some, b, np.nan))
    >>> f"{result:.2f}", result.n_labels
    ('+0.27 [+0.17, +0.37]', 120)
    """
    level = validation.fraction(confidence, "confidence")
    share = None if lam is None else validation.number(lam, "lam", low=0.0, high=1.0)
    first = read_judged(judge_a, human_a, groups, ("judge_a", "human_a"))
    second = read_judged(judge_b, human_b, groups, ("judge_b", "human_b"))
    validation.same_length(first.judge, second.judge, ("judge_a", "judge_b"))
    both = first.labelled & second.labelled
    lost = int((first.labelled | second.labelled).sum() - both.sum())
    data = read_judged(
        second.judge - first.judge,
        np.where(both, second.human - first.human, np.nan),
        groups,
        ("judge_b − judge_a", "human_b − human_a"),
    )
    data.check_random()
    binary = first.binary and second.binary
    found = powered_mean(data, share, PAIRED if binary else SWAPPED)
    low, high = found.bounds(level)
    if binary:
        low, high = max(-1.0, low), min(1.0, high)
    se = math.sqrt(found.variance)
    # Test and interval share their centre, so that they are consistent.
    p_value = 2.0 * upper_tail(abs(found.centre) / se, found.df) if se > 0.0 else 1.0
    return CorrectedDifference(
        delta=found.value,
        ci_low=low,
        ci_high=high,
        confidence=level,
        p_value=min(1.0, p_value),
        method="ppi++" if share is None else "ppi",
        se=se,
        raw_delta=float(data.judge.mean()),
        n_units=data.n,
        n_labels=data.n_labels,
        n_groups=data.n_groups,
        lam=found.lam,
        reason=f"{lost} units labelled for only one system count as unlabelled" if lost else "",
    )


def _simple(data: Judged, rule: str, confidence: float) -> CorrectedRate:
    """Return the rate according to the labels alone, or to the uncorrected verdicts."""
    rows = data.labelled if rule == "labels-only" else np.ones(data.n, dtype=np.bool_)
    values = (data.human if rule == "labels-only" else data.judge)[rows]
    groups = None if data.groups is None else data.groups[rows]
    if np.isin(values, (0.0, 1.0)).all():
        share = clustered_rate(values == 1.0, groups, confidence)
        low, high = float(share.low or 0.0), float(share.high or 0.0)
    else:
        ci = t_interval(values, groups=groups, confidence=confidence)
        low, high = ci.ci_low, ci.ci_high
    return CorrectedRate(
        value=float(values.mean()),
        ci_low=low,
        ci_high=high,
        confidence=confidence,
        method=rule,
        se=None,
        raw=float(data.judge.mean()),
        n_units=data.n,
        n_labels=data.n_labels,
        n_groups=data.n_groups,
        reason="the verdicts are not corrected" if rule == "raw" else "",
    )


def _with_widths(chosen: CorrectedRate, widths: dict[str, float]) -> CorrectedRate:
    corrected = {rule: width for rule, width in widths.items() if rule != "raw"}
    narrowest = min(corrected, key=corrected.__getitem__) if corrected else ""
    reported = widths if chosen.method == "raw" else corrected
    return replace(chosen, narrowest=narrowest, widths=reported)
