"""Prediction-powered inference: correct a judge's mean over all units with human labels."""

import math
from dataclasses import dataclass, replace
from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.inference.distributions import critical_value, negligible
from eval_toolkit.inference.judged.results import CorrectedRate
from eval_toolkit.inference.judged.validation import Judged, read_judged
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE

_FEW_LABELS = 20
_TINY = float(np.finfo(np.float64).tiny)
_PRIOR_LABELS = 5.0
"""Weight of the prior that the judge agrees with humans when λ is tuned, in numbers of labels."""


@dataclass(frozen=True, eq=False)
class Pseudo:
    """Pseudo-units with fractional weights, which prevent a zero variance estimate."""

    human: FloatArray
    judge: FloatArray
    count: float
    standard: bool = False
    """Whether ``human`` and ``judge`` are in standard deviations of the judge's scores."""


NO_PSEUDO = Pseudo(np.zeros(0), np.zeros(0), 0.0)
BINARY = Pseudo(np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.0, 1.0, 0.0, 1.0]), 0.5)
"""Half a unit for each of the four combinations of judge and human answers."""
PAIRED = Pseudo(np.array([1.0, -1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0, -1.0]), 0.25)
"""For differences of 0/1 values: a difference that only the judge or only the human sees."""
SWAPPED = Pseudo(np.zeros(2), math.sqrt(2.0) * np.array([1.0, -1.0]), 1.0, standard=True)
"""For scores: two units, each with the judge error of another random unit."""


@dataclass(frozen=True, slots=True)
class Powered:
    """Estimate, centre of its interval, variance, and degrees of freedom."""

    value: float
    centre: float
    variance: float
    df: float
    lam: float

    def bounds(self, confidence: float, *, student: bool = True) -> tuple[float, float]:
        """Return the interval, which always contains the estimate."""
        factor = critical_value(confidence, self.df if student else None)
        reach = factor * math.sqrt(self.variance)
        return min(self.value, self.centre - reach), max(self.value, self.centre + reach)


def ppi_mean(
    judge: ArrayLike,
    human: ArrayLike,
    *,
    lam: SupportsFloat | None = None,
    groups: ArrayLike | None = None,
    strata: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
    small_sample: bool = True,
) -> CorrectedRate:
    """Return the prediction-powered mean: the judge's mean, corrected with human labels.

    Parameters
    ----------
    judge : array-like of shape (n,)
        Verdict or score of the judge for every unit, 0/1 or real.
    human : array-like of shape (n,)
        Human labels; None or NaN if missing.
    lam : float, optional
        Weight of the judge, between 0 and 1. By default the variance-minimising value (PPI++),
        estimated for each labelled unit from the other labels; 1 is plain PPI and 0 is the mean of
        the labels.
    groups : array-like of shape (n,), optional
        Group of each unit; units in the same group are not independent. Cannot be combined with
        ``strata``.
    strata : array-like of shape (n,), optional
        Stratum of each unit; labels must be random within strata, but sampling rates may differ.
        For labels sampled by verdict, pass the verdicts.
    weights : array-like of shape (n,), optional
        Inverse probability of each unit to be labelled; used for labelled units only. Cannot be
        combined with ``strata``.
    confidence : float, default 0.95
        Two-sided confidence level.
    small_sample : bool, default True
        Whether to use small-sample corrections: n − 1 divisors, Student's t, two pseudo-units, and
        λ from the other units' labels. False gives the large-sample interval of the papers, with
        one λ for all labels.

    Returns
    -------
    CorrectedRate
        ``lam`` is the mean λ of the labelled units, or None if there are strata, which have
        separate values.

    Raises
    ------
    InvalidInputError
        If an array is invalid, or labels were not chosen at random and neither strata nor weights
        are given.
    UndefinedMetricError
        If there are fewer than two labels, overall or in a stratum, or the interval for a rate lies
        outside [0, 1].

    Notes
    -----
    ``mean(human − λ judge, labelled) + λ mean(judge, unlabelled)`` [1]_, [2]_; the better the
    judge, the more precise the estimate. With a fixed λ, it is unbiased for any judge. With a
    single λ estimated from all labels, it is biased: if the labels lack rare grades, λ is small,
    and the estimate is not corrected when the correction matters most. The λ of a labelled unit is
    therefore estimated from the other units (other groups), which keeps the estimate unbiased, and
    shrunk towards its value for a judge that agrees with humans, with a weight of five labels.

    ``small_sample=False`` matches ``ppi_py.ppi_mean_ci``. That interval fails if no label
    contradicts the judge: with 50 labels of 0/1 values, its coverage is as low as 63 %. Two
    pseudo-units are therefore added, for the interval only: half a unit for each combination of 0/1
    answers or, for scores, two units with the judge error of another random unit.

    The coverage of 95 % intervals (``tests/statistics``) is at least 93 % for 0/1 values with 50
    labels or more; at least 93 % for grades with 30 labels or more, if 90 % of the units have the
    top grade and the judge is off by one grade for 10 % of the units; and at least 92 % for skewed
    scores in [0, 1]. Coverage is lower if errors are so rare that the labels may miss them. For
    example, if 7 % of the units have a bad grade and the judge misses 40 % of them, it is off by
    three grades for 3 % of the units; the coverage is then 81, 84 and 90 % with 30, 50 and 100
    labels, and only slightly better with the labels alone (86, 90 and 92 %).

    With groups, the variance of the units' influences is cluster-robust. Strata are weighted by
    their fraction of the units [3]_.

    References
    ----------
    .. [1] Angelopoulos et al. (2023), Prediction-powered inference, Science 382:669-674.
    .. [2] Angelopoulos, Duchi & Zrnic (2023), PPI++, arXiv:2311.01453.
    .. [3] Fisch et al. (2024), Stratified prediction-powered inference, arXiv:2406.04291.

    Examples
    --------
    >>> judge = [1, 1, 0, 1, 0, 0, 1, 1, 1, 0] * 10
    >>> human = [1, 1, 0, 1, 0, 0, 1, 0, 1, 0] * 3 + [None] * 70
    >>> result = ppi_mean(judge, human)
    >>> f"{result:.2f}", round(result.lam, 2), result.n_labels
    ('0.50 [0.36, 0.64]', 0.59, 30)
    """
    level = validation.fraction(confidence, "confidence")
    share = None if lam is None else validation.number(lam, "lam", low=0.0, high=1.0)
    data = read_judged(judge, human, groups)
    _check_design(groups, strata, weights)
    chance = None if weights is None else _weights(weights, data)
    parts = None if strata is None else validation.group_codes(strata, data.n, "strata")[0]
    pseudo = pseudo_units(data) if small_sample else NO_PSEUDO
    if parts is not None:
        found = _over_strata(data, parts, strata, share, pseudo, small=small_sample)
    else:
        if chance is None:
            data.check_random()
        found = powered_mean(data, share, pseudo, weights=chance, small=small_sample)
    low, high = found.bounds(level, student=small_sample)
    value, low, high, reason = _inside(found.value, low, high, rate=data.is_rate)
    notes = [reason, *_notes(data, found)]
    return CorrectedRate(
        value=value,
        ci_low=low,
        ci_high=high,
        confidence=level,
        method="ppi++" if share is None else "ppi",
        se=math.sqrt(found.variance),
        raw=float(data.judge.mean()),
        n_units=data.n,
        n_labels=data.n_labels,
        n_groups=data.n_groups,
        lam=None if strata is not None else found.lam,
        reason="; ".join(filter(None, notes)),
    )


def pseudo_units(data: Judged) -> Pseudo:
    """Return the pseudo-units for these values."""
    return BINARY if data.is_rate else SWAPPED


def powered_mean(
    data: Judged,
    lam: float | None,
    pseudo: Pseudo,
    *,
    weights: FloatArray | None = None,
    small: bool = True,
) -> Powered:
    """Return the prediction-powered mean of one stratum; λ is tuned if it is None.

    The influence of a unit is the derivative of the estimate with respect to its weight; sums by
    cluster give the cluster-robust variance.
    """
    y, f = data.human[data.labelled], data.judge[data.labelled]
    w = np.ones(len(y)) if weights is None else weights
    w = w / w.sum()
    # With weights, the unlabelled units are not a representative sample, so use all units.
    elsewhere = ~data.labelled if weights is None else np.ones(data.n, dtype=np.bool_)
    if not elsewhere.any():
        lam, elsewhere = 0.0, data.labelled
    others = data.judge[elsewhere]
    shares = np.full(len(y), lam) if lam is not None else _tuned(data, w, elsewhere, small=small)
    n, mean_lam = len(y), float(shares.mean())
    d = y - shares * (f - others.mean())
    value = float(w @ d)
    ratios = (n / (n - 1), len(others) / max(len(others) - 1, 1)) if small else (1.0, 1.0)
    moves = np.zeros(data.n)
    moves[data.labelled] = w * (d - value)
    moves[elsewhere] += mean_lam * (others - others.mean()) / len(others)
    moves *= np.sqrt(np.where(data.labelled, *ratios))
    by_labels = float(w**2 @ (d - value) ** 2) * ratios[0]
    plain = float(moves @ moves)
    padded, centre = _padding(d, f, w, pseudo, mean_lam, others)
    variance = plain + max(0.0, padded - by_labels)
    df = _df(by_labels, plain - by_labels, n, len(others))
    if data.groups is not None:
        variance *= max(1.0, _clustered(moves, data.groups) / plain) if plain > 0.0 else 1.0
        df = min(df, len(np.unique(data.groups[data.labelled])) - 1.0)
    return Powered(value, centre, variance, df, mean_lam)


def _tuned(data: Judged, w: FloatArray, elsewhere: BoolArray, *, small: bool) -> FloatArray:
    """Return the variance-minimising λ for each labelled unit, between 0 and 1."""
    if small:
        # Relative to the mean of all units, the best λ is a regression slope; relative to that of
        # the unlabelled units, a fraction of it.
        part = float(elsewhere.sum()) / data.n
        return np.asarray(part * _slopes(data, w, float(data.judge[elsewhere].var())))
    y, f, others = data.human[data.labelled], data.judge[data.labelled], data.judge[elsewhere]
    moves_y, moves_f = np.zeros(data.n), np.zeros(data.n)
    moves_y[data.labelled] = w * (y - w @ y)
    moves_f[data.labelled] = w * (f - w @ f)
    moves_f[elsewhere] -= (others - others.mean()) / len(others)
    if len(others) + len(y) == data.n and data.groups is None:
        # Use the variance of the judge over all units, as in the paper.
        together = float(moves_y @ data.judge)
        spread = float(data.judge.var(ddof=1)) * data.n / len(others)
    else:
        if data.groups is not None:
            moves_y, moves_f = (
                np.bincount(data.groups, moves).astype(np.float64) for moves in (moves_y, moves_f)
            )
        together, spread = float(moves_y @ moves_f), float(moves_f @ moves_f)
    lam = min(1.0, max(0.0, together / spread)) if spread > 0.0 else 0.0
    return np.full(len(y), lam)


def _slopes(data: Judged, w: FloatArray, spread: float) -> FloatArray:
    """Return each labelled unit's slope of labels on verdicts, estimated from the other units.

    It is shrunk, with a weight of `_PRIOR_LABELS`, towards the slope of a judge that agrees with
    humans, in case the other labels hardly vary.
    """
    y, f = data.human[data.labelled], data.judge[data.labelled]
    if negligible(float(data.judge.std()), float(np.abs(data.judge).max())):
        return np.zeros(len(y))
    keys = np.arange(len(y)) if data.groups is None else data.groups[data.labelled]
    parts, blocks = np.unique(keys, return_inverse=True)

    def by_block(values: FloatArray) -> FloatArray:
        return np.bincount(blocks, w * values).astype(np.float64)

    def without(sums: FloatArray, factor: float = 1.0) -> FloatArray:
        return np.asarray(np.maximum(sums.sum() - factor * sums, 0.0), dtype=np.float64)

    moves_y, moves_f = by_block(y - w @ y), by_block(f - w @ f)
    apart = len(parts) / (len(parts) - 1.0)  # leaving out a block also changes the mean
    together = (moves_y * moves_f).sum() - apart * moves_y * moves_f
    alone = without(moves_f**2, apart)
    ours, theirs = without(by_block(f**2)), without(by_block(y**2))
    known = ours > 0.0
    scale = np.where(known, np.sqrt(theirs / np.where(known, ours, 1.0)), 1.0)
    prior = _PRIOR_LABELS * spread / len(y) ** 2
    slopes = (together + prior * np.minimum(scale, 1.0)) / np.maximum(alone + prior, _TINY)
    return np.asarray(np.clip(slopes, 0.0, 1.0)[blocks], dtype=np.float64)


def _padding(
    d: FloatArray, f: FloatArray, w: FloatArray, pseudo: Pseudo, lam: float, others: FloatArray
) -> tuple[float, float]:
    """Return the variance and the shift of the labelled term after adding pseudo-units."""
    if not len(pseudo.human):
        return 0.0, float(w @ d)
    human, off = pseudo.human, pseudo.judge - others.mean()
    if pseudo.standard:
        spread = float(others.std())
        human, off = w @ d + spread * pseudo.human, spread * pseudo.judge
    values = np.concatenate([d, human - lam * off])
    counts = np.ones(len(values))
    counts[len(d) :] = pseudo.count
    # Verdicts with few labels have large weights, also for pseudo-units.
    alike = [w[f == verdict] for verdict in pseudo.judge]
    likely = [float(part.mean() if len(part) else w.mean()) for part in alike]
    shares = np.concatenate([w, likely])
    shares /= counts @ shares
    mean = float((counts * shares) @ values)
    total = float(counts.sum())
    return float((counts * shares**2) @ (values - mean) ** 2) * total / (total - 1.0), mean


def _clustered(influence: FloatArray, groups: IntArray) -> float:
    sums = np.bincount(groups, influence)
    n_groups = len(np.unique(groups))
    return float(sums @ sums) * n_groups / (n_groups - 1)


def _df(by_labels: float, by_others: float, n: int, n_others: int) -> float:
    """Return Welch's degrees of freedom for a sum of two variances."""
    other = max(by_others, 0.0)
    both = by_labels + other
    if both <= 0.0:
        return float(n - 1)
    return both**2 / (by_labels**2 / (n - 1) + other**2 / max(n_others - 1, 1))


def _over_strata(
    data: Judged,
    codes: IntArray,
    strata: Any,
    lam: float | None,
    pseudo: Pseudo,
    *,
    small: bool,
) -> Powered:
    """Return the mean over strata, weighted by their size."""
    n_strata = int(codes.max()) + 1
    pseudo = replace(pseudo, count=pseudo.count / n_strata)  # two pseudo-units in total
    found, sizes = [], np.bincount(codes)
    for code in range(n_strata):
        part = data.take(codes == code)
        if part.n_labels < 2:
            names: NDArray[Any] = np.asarray(strata)
            raise UndefinedMetricError(
                f"a stratified correction is undefined: stratum {str(names[codes == code][0])!r} "
                f"has {part.n_labels} human labels; every stratum needs at least two"
            )
        part.check_random()
        found.append(powered_mean(part, lam, pseudo, small=small))
    value, centre, variance, df = np.array(
        [(part.value, part.centre, part.variance, part.df) for part in found]
    ).T
    share = sizes / data.n
    total, each = float(share @ value), share**2 * variance
    # The stratum sizes are random too.
    luck = float(share @ (value - total) ** 2) / data.n
    by_labels = float(each.sum())
    freedom = by_labels**2 / float((each**2 / df).sum()) if by_labels > 0.0 else float(df.sum())
    return Powered(total, float(share @ centre), by_labels + luck, freedom, 0.0)


def _weights(weights: ArrayLike, data: Judged) -> FloatArray:
    entries = validation.as_array(weights, "weights", dtype=object)
    if len(entries) != data.n:
        raise InvalidInputError(f"`weights` has {len(entries)} rows but `judge` has {data.n}")
    found = validation.vector(entries[data.labelled], "weights")
    if found.min() <= 0.0:
        raise InvalidInputError("`weights` must be positive where there is a human label")
    return found


def _check_design(groups: Any, strata: Any, weights: Any) -> None:
    for name, value in (("groups", groups), ("weights", weights)):
        if strata is not None and value is not None:
            raise InvalidInputError(f"pass either `strata` or `{name}`, not both")


def _inside(
    value: float, low: float, high: float, *, rate: bool
) -> tuple[float, float, float, str]:
    """Return a rate and its interval clipped to [0, 1]."""
    if not rate:
        return value, low, high, ""
    if high < 0.0 or low > 1.0:  # clipping would give a point
        raise UndefinedMetricError(
            f"the correction is undefined: it gives {value:.3g} [{low:.3g}, {high:.3g}], which is "
            "not a rate; the labelled units are too few, or differ from the others"
        )
    reason = "" if 0.0 <= value <= 1.0 else f"clipped: the correction gives {value:.3g}"
    value = min(1.0, max(0.0, value))
    return value, min(value, max(0.0, low)), max(value, min(1.0, high)), reason


def _notes(data: Judged, found: Powered) -> list[str]:
    """Return warnings about the estimate."""
    scale = float(np.abs(data.human[data.labelled]).max())
    notes = {
        f"only {data.n_labels} human labels": data.n_labels < _FEW_LABELS,
        "every unit has a human label, so the judge is not used": data.n_labels == data.n,
        "zero variance: all labels are equal": negligible(math.sqrt(found.variance), scale),
    }
    return [note for note, holds in notes.items() if holds]
