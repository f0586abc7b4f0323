"""Prediction-powered inference: a judge's mean over all units, put right by labelled ones."""

import math
from dataclasses import dataclass, replace
from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eval_toolkit import _validate
from eval_toolkit._validate import FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.inference._distributions import critical_value, negligible
from eval_toolkit.inference.judged.reading import Judged, read_judged
from eval_toolkit.inference.judged.results import CorrectedRate
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE

__all__ = ["Powered", "Pseudo", "powered_mean", "ppi_mean"]

_FEW_LABELS = 20


@dataclass(frozen=True, eq=False)
class Pseudo:
    """Units that nobody saw, each counting a fraction: no error seen is not no error possible."""

    human: FloatArray
    judge: FloatArray
    count: float


NO_PSEUDO = Pseudo(np.zeros(0), np.zeros(0), 0.0)
BINARY = Pseudo(np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.0, 1.0, 0.0, 1.0]), 0.5)
"""Half a unit for each of the four ways in which judge and people may answer."""
PAIRED = Pseudo(np.array([1.0, -1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0, -1.0]), 0.25)
"""For differences of two 0/1 values: one of the two sees a difference, the other none."""


@dataclass(frozen=True, slots=True)
class Powered:
    """An estimate, the centre of its interval, its variance and degrees of freedom."""

    value: float
    centre: float
    variance: float
    df: float
    lam: float

    def bounds(self, confidence: float, *, student: bool = True) -> tuple[float, float]:
        """Return the interval; it contains the estimate."""
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
    """Prediction-powered mean: the judge's mean over all units, corrected by human labels.

    Parameters
    ----------
    judge : array-like of shape (n,)
        The judge's verdict or score of every unit, 0/1 or real.
    human : array-like of shape (n,)
        The human label, None or NaN where there is none.
    lam : float, optional
        How much the judge counts, between 0 and 1. By default the value that makes the variance
        smallest (PPI++); 1 is plain PPI, 0 the mean of the labels alone.
    groups : array-like of shape (n,), optional
        Units that are not independent. Not together with ``strata``.
    strata : array-like of shape (n,), optional
        Parts in which labels were drawn at random, each at its own rate. Labels bought by verdict:
        pass the verdicts.
    weights : array-like of shape (n,), optional
        1 / chance of a human label; read where there is a label. Not together with ``strata``.
    confidence : float, default 0.95
        Two-sided confidence.
    small_sample : bool, default True
        n − 1 divisors, Student's t, and for 0/1 values two pseudo-units; False gives the
        large-sample interval of the papers.

    Returns
    -------
    CorrectedRate
        ``lam`` is None with strata, each of which has its own.

    Raises
    ------
    InvalidInputError
        If an array is unusable, or labels were not chosen at random and neither strata nor
        weights say how.
    UndefinedMetricError
        If there are fewer than two labels, in all or in a stratum.

    Notes
    -----
    ``λ mean(judge, unlabelled) + mean(human − λ judge, labelled)`` [1]_, [2]_; it is right on
    average for any judge, a good one makes it precise. Equal to ``ppi_py.ppi_mean_ci`` with
    ``small_sample=False``. That interval has nothing to go by where no label shows the judge
    wrong: with 50 labels it covers as little as 63 % (``tests/statistics``). Half a unit of each
    way in which judge and people may answer, added for the interval alone, keeps it at 93 % and
    more. Groups enter by the cluster-robust variance of the units' influences. Strata are added up
    by their share of the units [3]_.

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
    ('0.50 [0.36, 0.64]', 0.58, 30)
    """
    level = _validate.fraction(confidence, "confidence")
    share = None if lam is None else _validate.number(lam, "lam", low=0.0, high=1.0)
    data = read_judged(judge, human, groups)
    _check_design(groups, strata, weights)
    chance = None if weights is None else _weights(weights, data)
    parts = None if strata is None else _validate.group_codes(strata, data.n, "strata")[0]
    pseudo = BINARY if data.is_rate and small_sample else NO_PSEUDO
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


def powered_mean(
    data: Judged,
    lam: float | None,
    pseudo: Pseudo,
    *,
    weights: FloatArray | None = None,
    small: bool = True,
) -> Powered:
    """Return the prediction-powered mean of one part; λ is tuned where it is None.

    The influence of a unit is what the estimate moves when the unit counts a little more; sums of
    them by cluster give the cluster-robust variance.
    """
    y, f = data.human[data.labelled], data.judge[data.labelled]
    w = np.ones(len(y)) if weights is None else weights
    w = w / w.sum()
    # By weights the unlabelled units are no fair sample of all, but all units are.
    elsewhere = ~data.labelled if weights is None else np.ones(data.n, dtype=np.bool_)
    if not elsewhere.any():
        lam, elsewhere = 0.0, data.labelled
    others = data.judge[elsewhere]
    moves_y, moves_f = np.zeros(data.n), np.zeros(data.n)
    moves_y[data.labelled] = w * (y - w @ y)
    moves_f[data.labelled] = w * (f - w @ f)
    moves_f[elsewhere] -= (others - others.mean()) / len(others)
    if lam is None:
        lam = _tuned(data, moves_y, moves_f, plain=weights is None)
    n, d = len(y), y - lam * f
    rectifier, imputed = float(w @ d), lam * float(others.mean())
    ratios = (n / (n - 1), len(others) / max(len(others) - 1, 1)) if small else (1.0, 1.0)
    moves = (moves_y - lam * moves_f) * np.sqrt(np.where(data.labelled, *ratios))
    by_labels = float(w**2 @ (d - rectifier) ** 2) * ratios[0]
    plain = float(moves @ moves)
    added, centre = _padding(d, f, w, pseudo, lam, by_labels)
    variance, df = plain + added, _df(by_labels, plain - by_labels, n, len(others))
    if data.groups is not None:
        variance *= max(1.0, _clustered(moves, data.groups) / plain) if plain > 0.0 else 1.0
        df = min(df, len(np.unique(data.groups[data.labelled])) - 1.0)
    return Powered(rectifier + imputed, centre + imputed, variance, df, lam)


def _tuned(data: Judged, moves_y: FloatArray, moves_f: FloatArray, *, plain: bool) -> float:
    """Return the λ of the smallest variance, between 0 and 1."""
    if plain and data.groups is None:
        # The judge's spread is that over all units, as the paper has it.
        together = float(moves_y @ data.judge)
        spread = float(data.judge.var(ddof=1)) * data.n / (data.n - data.n_labels)
    else:
        if data.groups is not None:
            moves_y, moves_f = (
                np.bincount(data.groups, moves).astype(np.float64) for moves in (moves_y, moves_f)
            )
        together, spread = float(moves_y @ moves_f), float(moves_f @ moves_f)
    return min(1.0, max(0.0, together / spread)) if spread > 0.0 else 0.0


def _padding(
    d: FloatArray, f: FloatArray, w: FloatArray, pseudo: Pseudo, lam: float, by_labels: float
) -> tuple[float, float]:
    """Return what pseudo-units add to the variance of the labelled part, and where they put it."""
    if not len(pseudo.human):
        return 0.0, float(w @ d)
    values = np.concatenate([d, pseudo.human - lam * pseudo.judge])
    counts = np.ones(len(values))
    counts[len(d) :] = pseudo.count
    # A verdict of which few were labelled weighs much, also in a unit nobody saw.
    alike = [w[f == verdict] for verdict in pseudo.judge]
    likely = [float(part.mean() if len(part) else w.mean()) for part in alike]
    shares = np.concatenate([w, likely])
    shares /= counts @ shares
    mean = float((counts * shares) @ values)
    total = float(counts.sum())
    variance = float((counts * shares**2) @ (values - mean) ** 2) * total / (total - 1.0)
    return max(0.0, variance - by_labels), mean


def _clustered(influence: FloatArray, groups: IntArray) -> float:
    sums = np.bincount(groups, influence)
    n_groups = len(np.unique(groups))
    return float(sums @ sums) * n_groups / (n_groups - 1)


def _df(by_labels: float, by_others: float, n: int, n_others: int) -> float:
    """Return Welch's degrees of freedom of a sum of two variances."""
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
    """Return the strata's means, each by its share of the units."""
    n_strata = int(codes.max()) + 1
    pseudo = replace(pseudo, count=pseudo.count / n_strata)  # two units in all, not in each
    found, sizes = [], np.bincount(codes)
    for code in range(n_strata):
        part = data.take(codes == code)
        if part.n_labels < 2:
            names: NDArray[Any] = np.asarray(strata)
            raise UndefinedMetricError(
                f"a stratified correction is undefined: stratum {str(names[codes == code][0])!r} "
                f"has {part.n_labels} human labels; each needs at least two"
            )
        part.check_random()
        found.append(powered_mean(part, lam, pseudo, small=small))
    value, centre, variance, df = np.array(
        [(part.value, part.centre, part.variance, part.df) for part in found]
    ).T
    share = sizes / data.n
    total, each = float(share @ value), share**2 * variance
    # How many units fell into each stratum is luck too.
    luck = float(share @ (value - total) ** 2) / data.n
    by_labels = float(each.sum())
    freedom = by_labels**2 / float((each**2 / df).sum()) if by_labels > 0.0 else float(df.sum())
    return Powered(total, float(share @ centre), by_labels + luck, freedom, 0.0)


def _weights(weights: ArrayLike, data: Judged) -> FloatArray:
    entries = _validate.as_array(weights, "weights", dtype=object)
    if len(entries) != data.n:
        raise InvalidInputError(f"`weights` has {len(entries)} rows but `judge` has {data.n}")
    found = _validate.vector(entries[data.labelled], "weights")
    if found.min() <= 0.0:
        raise InvalidInputError("`weights` must be positive where there is a human label")
    return found


def _check_design(groups: Any, strata: Any, weights: Any) -> None:
    for name, value in (("groups", groups), ("weights", weights)):
        if strata is not None and value is not None:
            raise InvalidInputError(f"give `strata` or `{name}`, not both")


def _inside(
    value: float, low: float, high: float, *, rate: bool
) -> tuple[float, float, float, str]:
    """Return a rate and its interval inside [0, 1]."""
    if not rate:
        return value, low, high, ""
    reason = "" if 0.0 <= value <= 1.0 else f"clipped: the correction gives {value:.3g}"
    value = min(1.0, max(0.0, value))
    return value, min(value, max(0.0, low)), max(value, min(1.0, high)), reason


def _notes(data: Judged, found: Powered) -> list[str]:
    """Return what to know before the number is used."""
    scale = float(np.abs(data.human[data.labelled]).max())
    said = {
        f"only {data.n_labels} human labels": data.n_labels < _FEW_LABELS,
        "every unit has a human label, so the judge adds nothing": data.n_labels == data.n,
        "zero spread: the labels do not vary": negligible(math.sqrt(found.variance), scale),
    }
    return [note for note, holds in said.items() if holds]
