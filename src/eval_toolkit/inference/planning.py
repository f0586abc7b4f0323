"""Sample size planning: minimum detectable effects and required sample sizes."""

import math
from dataclasses import dataclass
from typing import Any, Literal, SupportsFloat, TypeAlias

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit.errors import InfeasibleError, InvalidInputError
from eval_toolkit.inference.distributions import critical_value, normal_quantile
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, BootstrapCI, PairedBootstrapCI

_NARROWEST = 1e-9  # about 1e18 units

Design: TypeAlias = Literal["paired", "independent", "one-sample"]


@dataclass(frozen=True, slots=True)
class MDEEstimate(Displayed):
    """Minimum detectable effect: smallest difference that is detected with a given power.

    Examples
    --------
    >>> mde_from_ci(PairedBootstrapCI(0.02, -0.02, 0.06, True, 0.95, 1000)).n_resamples
    1000
    """

    mde: float
    sigma_delta: float
    """Standard error of the difference."""
    delta_observed: float
    alpha: float
    power: float
    n_resamples: int
    n: int
    """Number of units; −1 if unknown."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "mde": self.mde,
            "sigma_delta": self.sigma_delta,
            "delta_observed": self.delta_observed,
            "alpha": self.alpha,
            "power": self.power,
            "n_resamples": self.n_resamples,
            "n": self.n,
        }


@dataclass(frozen=True, slots=True)
class SampleSize(Displayed):
    """Required number of units, and the assumptions behind it.

    Examples
    --------
    >>> n_for_width(0.1, proportion=0.5).n
    381
    """

    n: int
    """Number of units; per system if the systems are evaluated on different units."""
    n_groups: int
    """Number of clusters; equal to ``n`` if units are independent."""
    n_total: int
    """Total number of units: twice ``n`` for the independent design, else ``n``."""
    design_effect: float
    """Design effect, 1 + (cluster_size − 1) icc: clustered units per independent unit."""
    method: str

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "n": self.n,
            "n_groups": self.n_groups,
            "n_total": self.n_total,
            "design_effect": self.design_effect,
            "method": self.method,
        }


def mde_from_ci(
    ci: PairedBootstrapCI | BootstrapCI, *, alpha: float = 0.05, power: float = 0.8
) -> MDEEstimate:
    """Return the minimum detectable effect from the width of an interval.

    Parameters
    ----------
    ci : PairedBootstrapCI or BootstrapCI
        Interval for a difference, or for one metric against a fixed value.
    alpha : float, default 0.05
        Level of the two-sided test.
    power : float, default 0.8
        Probability of detecting an effect of the returned size.

    Returns
    -------
    MDEEstimate
        Minimum detectable effect, and the numbers from which it was computed.

    Raises
    ------
    InvalidInputError
        If alpha or power are not in (0, 1).
    InfeasibleError
        If the interval has no finite, positive width.

    Notes
    -----
    ``(z_{1−α/2} + z_{power}) σ`` with σ = width / (2 z_{(1+confidence)/2}).

    References
    ----------
    .. [1] Bloom (1995), Evaluation Review 19(5):547-556.

    Examples
    --------
    >>> diff = PairedBootstrapCI(0.02, -0.02, 0.06, True, 0.95, 1000)
    >>> round(mde_from_ci(diff).mde, 4)
    0.0572
    """
    level, target_power = validation.fraction(alpha, "alpha"), validation.fraction(power, "power")
    width = ci.ci_high - ci.ci_low
    if not (math.isfinite(width) and width > 0.0):
        raise InfeasibleError(
            f"no minimum detectable effect: the interval [{ci.ci_low}, {ci.ci_high}] has no "
            "finite, positive width"
        )
    sigma = width / (2.0 * critical_value(ci.confidence))
    if isinstance(ci, PairedBootstrapCI):
        observed, n_units = ci.delta, None
    else:
        observed, n_units = ci.point_estimate, ci.n_units
    return MDEEstimate(
        mde=(critical_value(1.0 - level) + normal_quantile(target_power)) * sigma,
        sigma_delta=sigma,
        delta_observed=observed,
        alpha=level,
        power=target_power,
        n_resamples=ci.n_resamples,
        n=-1 if n_units is None else n_units,
    )


def n_for_width(
    width: SupportsFloat,
    *,
    proportion: SupportsFloat | None = None,
    sd: SupportsFloat | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
    interval: Literal["wilson", "normal"] = "wilson",
    cluster_size: SupportsFloat = 1.0,
    icc: SupportsFloat = 0.0,
) -> SampleSize:
    """Return the number of units needed for an interval of at most a given width.

    Parameters
    ----------
    width : float
        Full width, from the lower to the upper bound.
    proportion : float, optional
        Expected proportion, for 0/1 values; 0.5 is the worst case. Pass either this or ``sd``.
    sd : float, optional
        Standard deviation, for real values; for a paired difference, that of the unit differences.
    confidence : float, default 0.95
        Two-sided confidence level.
    interval : {"wilson", "normal"}, default "wilson"
        Type of interval for a proportion; "normal" is ``p ± z √(p (1 − p)/n)``. For real values,
        Student's t interval is always used.
    cluster_size : float, default 1.0
        Mean number of units per cluster.
    icc : float, default 0.0
        Intra-cluster correlation.

    Returns
    -------
    SampleSize
        Required numbers of units and clusters.

    Raises
    ------
    InvalidInputError
        If not exactly one of ``proportion`` and ``sd`` is given, or a number is out of range.

    Notes
    -----
    The result is the smallest n for which the interval at the expected proportion or standard
    deviation is no wider than ``width``, multiplied by the design effect 1 + (cluster_size − 1) icc
    [1]_.

    References
    ----------
    .. [1] Kish (1965), Survey Sampling, section 5.4.

    Examples
    --------
    >>> n_for_width(0.1, proportion=0.9).n
    141
    >>> clustered = n_for_width(0.1, proportion=0.9, cluster_size=5, icc=0.2)
    >>> clustered.n, clustered.n_groups
    (254, 51)
    """
    level = validation.fraction(confidence, "confidence")
    validation.choice(interval, "interval", ("wilson", "normal"))
    if 0.0 < validation.number(width, "width") < _NARROWEST:
        raise InvalidInputError(f"`width` is {width}, too small for any sample; use a larger width")
    if proportion is not None and sd is None:
        p = validation.number(proportion, "proportion", low=0.0, high=1.0)
        half = 0.5 * validation.number(
            width, "width", low=0.0, high=1.0, include_low=False, include_high=False
        )
        z = critical_value(level)
        n = _wilson_n(p, half, z) if interval == "wilson" else p * (1.0 - p) * (z / half) ** 2
        return sized(n, cluster_size, icc, f"{interval}-width")
    if sd is None or proportion is not None:
        raise InvalidInputError("pass either `proportion` (0/1 values) or `sd` (real values)")
    spread = validation.number(sd, "sd", low=0.0, include_low=False)
    half = 0.5 * validation.number(width, "width", low=0.0, include_low=False)
    return sized(_student_n(spread, half, level), cluster_size, icc, "t-width")


def roc_auc_sd(area: SupportsFloat, positives: SupportsFloat) -> float:
    """Return the per-row standard deviation of a ROC-AUC, for `n_for_width` and `n_for_power`.

    Parameters
    ----------
    area : float
        Expected ROC-AUC, between 0 and 1.
    positives : float
        Fraction of positive rows.

    Returns
    -------
    float
        √n times the standard error of the ROC-AUC on n rows.

    Raises
    ------
    InvalidInputError
        If an argument is out of range.

    Notes
    -----
    Uses the leading terms of the variance for exponentially distributed scores [1]_: (A/(2 − A) −
    A²) over the fraction of negatives plus (2A²/(1 + A) − A²) over the fraction of positives.

    References
    ----------
    .. [1] Hanley & McNeil (1982), Radiology 143(1):29-36.

    Examples
    --------
    >>> round(roc_auc_sd(0.85, 0.5), 3)
    0.388
    """
    auc = validation.number(area, "area", low=0.0, high=1.0, include_low=False, include_high=False)
    share = validation.fraction(positives, "positives")
    two_positives = auc / (2.0 - auc) - auc**2
    two_negatives = 2.0 * auc**2 / (1.0 + auc) - auc**2
    return math.sqrt(two_positives / (1.0 - share) + two_negatives / share)


def n_for_power(
    effect: SupportsFloat,
    *,
    design: Design = "paired",
    proportion: SupportsFloat | None = None,
    discordance: SupportsFloat | None = None,
    sd: SupportsFloat | None = None,
    correlation: SupportsFloat | None = None,
    alpha: float = 0.05,
    power: float = 0.8,
    cluster_size: SupportsFloat = 1.0,
    icc: SupportsFloat = 0.0,
) -> SampleSize:
    """Return the number of units needed to detect an effect with a two-sided test.

    Parameters
    ----------
    effect : float
        Difference to detect: B − A, or the mean minus a fixed value; not zero.
    design : {"paired", "independent", "one-sample"}, default "paired"
        Two systems on the same units, two systems on different units (``n`` is per system), or
        one system against a fixed value.
    proportion : float, optional
        For 0/1 values: proportion of A, or the fixed value in the one-sample design.
    discordance : float, optional
        For 0/1 values in the paired design: fraction of units on which A and B differ, at least
        ``|effect|``. By default derived from ``proportion`` and ``correlation``.
    sd : float, optional
        For real values: standard deviation of one system's values or, in the paired design without
        ``correlation``, of the unit differences.
    correlation : float, optional
        For the paired design: correlation between the two systems' values over units.
    alpha : float, default 0.05
        Significance level of the two-sided test; for a one-sided test, pass twice its level.
    power : float, default 0.8
        Probability of detecting the effect.
    cluster_size : float, default 1.0
        Mean number of units per cluster.
    icc : float, default 0.0
        Intra-cluster correlation; in the paired design, that of the differences.

    Returns
    -------
    SampleSize
        Units and clusters.

    Raises
    ------
    InvalidInputError
        If an argument is out of range, or the arguments do not fully specify 0/1 or real values.

    Notes
    -----
    With a = z_{1−α/2}, b = z_{power} and δ the effect:

    ===================== ==========================================================
    0/1, one-sample       (a √(p₀q₀) + b √(p₁q₁))² / δ²
    0/1, independent      (a √(2 p̄ q̄) + b √(p₁q₁ + p₂q₂))² / δ² [1]_
    0/1, paired           (a √ψ + b √(ψ − δ²))² / δ², ψ the discordance [2]_
    real, independent     2 (a + b)² sd² / δ² + a²/4
    real, other           (a + b)² sd² / δ² + a²/2
    ===================== ==========================================================

    where the terms in a² allow for the t test's estimated standard deviation [3]_. A correlation ρ
    gives ψ = p₁q₂ + p₂q₁ − 2ρ √(p₁q₁p₂q₂), or an sd of differences of sd √(2 (1 − ρ)).

    References
    ----------
    .. [1] Fleiss, Levin & Paik (2003), Statistical Methods for Rates and Proportions, ch. 4.
    .. [2] Connor (1987), Biometrics 43(1):207-211.
    .. [3] Guenther (1981), The American Statistician 35(4):243-244.

    Examples
    --------
    Two models on the same questions, expected to disagree on 20 % of them:

    >>> n_for_power(0.03, discordance=0.2).n
    1742

    The same difference on different questions, 80 % versus 83 %:

    >>> n_for_power(0.03, design="independent", proportion=0.8).n
    2629
    """
    validation.choice(design, "design", ("paired", "independent", "one-sample"))
    delta = validation.number(effect, "effect")
    a = critical_value(1.0 - validation.fraction(alpha, "alpha"))
    b = normal_quantile(validation.fraction(power, "power"))
    rho = None
    if correlation is not None:
        rho = validation.number(correlation, "correlation", low=-1.0, high=1.0)
    _check_arguments(delta, a + b, design, rho)
    if sd is not None:
        if proportion is not None or discordance is not None:
            raise InvalidInputError("pass `sd` (real values) or 0/1 arguments, not both")
        n, method = _real_n(delta, a, b, design, sd, rho), "t"
    elif design == "paired":
        psi = _discordance(delta, proportion, discordance, rho)
        n, method = _two_terms(delta, a, psi, b, psi - delta**2), "mcnemar"
    else:
        if discordance is not None:
            raise InvalidInputError(
                f"`discordance` applies to the paired design only; omit it for {design!r}"
            )
        n, method = _proportion_n(delta, a, b, design, proportion), "proportion"
    n_systems = 2 if design == "independent" else 1
    return sized(n, cluster_size, icc, f"{method}-{design}-power", n_systems)


def _check_arguments(effect: float, a_plus_b: float, design: Design, rho: float | None) -> None:
    if effect == 0.0:
        raise InvalidInputError("`effect` is 0; no number of units can detect a zero effect")
    if a_plus_b <= 0.0:
        raise InvalidInputError("`power` must be above `alpha` / 2, which any sample size attains")
    if rho is not None and design != "paired":
        raise InvalidInputError(
            f"`correlation` applies to the paired design only; omit it for {design!r}"
        )


def _real_n(
    effect: float, a: float, b: float, design: Design, sd: SupportsFloat, rho: float | None
) -> float:
    spread = validation.number(sd, "sd", low=0.0, include_low=False)
    if rho is not None:
        spread *= math.sqrt(2.0 * (1.0 - rho))
    n = ((a + b) * spread / effect) ** 2
    return 2.0 * n + a * a / 4.0 if design == "independent" else n + a * a / 2.0


def _proportion_n(
    effect: float, a: float, b: float, design: Design, proportion: SupportsFloat | None
) -> float:
    p0, p1 = _two_proportions(effect, proportion)
    v0, v1 = p0 * (1.0 - p0), p1 * (1.0 - p1)
    if design == "one-sample":
        return _two_terms(effect, a, v0, b, v1)
    mean = (p0 + p1) / 2.0
    return _two_terms(effect, a, 2.0 * mean * (1.0 - mean), b, v0 + v1)


def _two_terms(effect: float, a: float, v_null: float, b: float, v_effect: float) -> float:
    """Return n from the unit variances under the null and the alternative hypothesis."""
    return ((a * math.sqrt(v_null) + b * math.sqrt(v_effect)) / effect) ** 2


def _two_proportions(effect: float, proportion: SupportsFloat | None) -> tuple[float, float]:
    if proportion is None:
        raise InvalidInputError("pass either `proportion` (0/1 values) or `sd` (real values)")
    p0 = validation.number(proportion, "proportion", low=0.0, high=1.0)
    p1 = p0 + effect
    if not 0.0 <= p1 <= 1.0:
        raise InvalidInputError(f"`proportion` + `effect` is {p1:g}; it must lie in [0, 1]")
    return p0, p1


def _discordance(
    effect: float,
    proportion: SupportsFloat | None,
    discordance: SupportsFloat | None,
    rho: float | None,
) -> float:
    if discordance is not None:
        if rho is not None:
            raise InvalidInputError("pass either `discordance` or `correlation`, not both")
        psi = validation.number(discordance, "discordance", low=0.0, high=1.0)
    elif rho is None:
        raise InvalidInputError(
            "the paired design needs `discordance`, or `proportion` and `correlation` "
            "(0/1 values), or `sd` (real values)"
        )
    else:
        p0, p1 = _two_proportions(effect, proportion)
        q0, q1 = 1.0 - p0, 1.0 - p1
        psi = p0 * q1 + p1 * q0 - 2.0 * rho * math.sqrt(p0 * q0 * p1 * q1)
    if psi < abs(effect):
        raise InvalidInputError(
            "the fraction of units on which the systems differ (`discordance`) is "
            f"{psi:g}; it must be at least the size of the effect, {abs(effect):g}"
        )
    return psi


def _wilson_n(p: float, half_width: float, z: float) -> float:
    """Return the n for which the Wilson half-width is z √(n p q + z²/4) / (n + z²)."""
    # The half-width squared is a quadratic in n; below width 1 its constant term is negative,
    # hence exactly one positive root.
    square = half_width**2
    linear = z * z * (2.0 * square - p * (1.0 - p))
    constant = z**4 * (square - 0.25)
    return (-linear + math.sqrt(linear**2 - 4.0 * square * constant)) / (2.0 * square)


def _student_n(sd: float, half_width: float, confidence: float) -> int:
    """Return the smallest n for which t_{n−1} sd/√n is at most the half-width."""
    # A t quantile exceeds the normal one, so the normal answer is where the search begins.
    n = max(2, math.ceil((critical_value(confidence) * sd / half_width) ** 2))
    while critical_value(confidence, n - 1) * sd / math.sqrt(n) > half_width:
        n += 1
    return n


def sized(
    n: float, cluster_size: SupportsFloat, icc: SupportsFloat, method: str, n_systems: int = 1
) -> SampleSize:
    """Return the number of units, multiplied by the design effect and rounded up."""
    size = validation.number(cluster_size, "cluster_size", low=1.0)
    correlation = validation.number(icc, "icc", low=0.0, high=1.0)
    design_effect = 1.0 + (size - 1.0) * correlation
    # Subtract a tolerance before rounding up, so that an exact 385 does not become 386.
    units = max(1, math.ceil(n * design_effect - 1e-9))
    groups = max(1, math.ceil(units / size - 1e-9))
    return SampleSize(units, groups, n_systems * units, design_effect, method)
