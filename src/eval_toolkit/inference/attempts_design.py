"""Power analysis with several attempts per item and an imperfect judge."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit.errors import InfeasibleError, InvalidInputError
from eval_toolkit.inference.distributions import critical_value, normal_quantile
from eval_toolkit.inference.planning import Design, SampleSize, sized

_HALVINGS = 60
_HUGE_EFFECT = 100.0
"""Largest effect considered in the search, in standard deviations of an item."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AttemptsDesign(Displayed):
    """Design of an evaluation with several attempts per item, for power analysis.

    Parameters
    ----------
    item_sd : float
        Standard deviation of the true item means or, in the paired design without ``correlation``,
        of the true item differences. Estimated by `variance_components`.
    within_sd : float or tuple of two float, optional
        Standard deviation of the attempts at an item: one value for both systems, or a pair for A
        and B. Pass either this (real values) or ``proportion`` (0/1 values).
    proportion : float, optional
        For 0/1 values: success rate of A, or the fixed value in the one-sample design. It
        determines the variance within items; the paired design also requires ``correlation``.
    attempts : int or tuple of two int, default 1
        Number of attempts per item: one number for both systems, or a pair for A and B.
    design : {"paired", "independent", "one-sample"}, default "paired"
        Two systems on the same items, on different items, or one system against a fixed value.
    correlation : float, optional
        For the paired design: correlation between the item means of the two systems.
    judge_sd : float, default 0.0
        For real values: standard deviation of the judge's error per attempt.
    sensitivity, specificity : float, default 1.0
        For 0/1 values: sensitivity and specificity of the judge. Judge errors shrink the measured
        difference and increase the variance of the attempts.
    cluster_size, icc : float, default 1.0 and 0.0
        Number of items per cluster and intra-cluster correlation, as in `n_for_power`.

    Raises
    ------
    InvalidInputError
        If an argument is out of range, the variance is not fully specified, or the judge is no
        better than chance.

    Notes
    -----
    The number of items is ``(z_{1−α/2} + z_{power})² (ω² + σ_A²/K_A + σ_B²/K_B) / δ²`` [1]_, with ω
    the ``item_sd`` of differences, σ the ``within_sd`` and K the attempts; plus z²/2 because the
    standard deviation is estimated, as in `n_for_power`. More attempts help until ω dominates. The
    effect δ is the true one, not the one measured by the judge.

    References
    ----------
    .. [1] Miller (2024), Adding error bars to evals, arXiv:2411.00640, section 5.

    Examples
    --------
    One attempt per question, compared with four:

    >>> AttemptsDesign(item_sd=0.15, within_sd=0.35).n_for_power(0.03).n
    2335
    >>> AttemptsDesign(item_sd=0.15, within_sd=0.35, attempts=4).n_for_power(0.03).n
    733

    Pass rates measured by a judge that is correct 90 % of the time:

    >>> judged = AttemptsDesign(item_sd=0.3, proportion=0.7, correlation=0.9, attempts=4,
    ...                         sensitivity=0.9, specificity=0.9)
    >>> judged.n_for_power(0.03).n, round(judged.mde(1000), 3)
    (1268, 0.034)
    """

    item_sd: float
    within_sd: float | tuple[float, float] | None = None
    proportion: float | None = None
    attempts: int | tuple[int, int] = 1
    design: Design = "paired"
    correlation: float | None = None
    judge_sd: float = 0.0
    sensitivity: float = 1.0
    specificity: float = 1.0
    cluster_size: float = 1.0
    icc: float = 0.0

    def __post_init__(self) -> None:
        validation.choice(self.design, "design", ("paired", "independent", "one-sample"))
        validation.number(self.item_sd, "item_sd", low=0.0)
        validation.number(self.judge_sd, "judge_sd", low=0.0)
        sized(1.0, self.cluster_size, self.icc, "")  # validates both
        for name in ("sensitivity", "specificity"):
            validation.number(getattr(self, name), name, low=0.0, high=1.0)
        for k in _both(self.attempts):
            validation.integer(k, "attempts", low=1)
        if self.correlation is not None:
            validation.number(self.correlation, "correlation", low=-1.0, high=1.0)
            if self.design != "paired":
                raise InvalidInputError(
                    f"`correlation` applies to the paired design only; omit it for {self.design!r}"
                )
        if (self.within_sd is None) == (self.proportion is None):
            raise InvalidInputError(
                "pass either `within_sd` (real values) or `proportion` (0/1 values)"
            )
        if self.within_sd is None:
            self._check_shares()
        else:
            self._check_values()

    def _check_values(self) -> None:
        for sd in _both(self.within_sd):
            validation.number(sd, "within_sd", low=0.0)
        if self._skill != 1.0:
            raise InvalidInputError(
                "`sensitivity` and `specificity` apply to 0/1 values; pass `proportion`, or "
                "`judge_sd` for real values"
            )
        if self.variance() == 0.0:
            raise InvalidInputError(
                "`item_sd` and `within_sd` are 0; at least one must be positive"
            )

    def _check_shares(self) -> None:
        share = validation.number(self.proportion or 0.0, "proportion", low=0.0, high=1.0)
        if self.judge_sd:
            raise InvalidInputError(
                "`judge_sd` applies to real values; pass `sensitivity` and `specificity` instead"
            )
        if self._skill <= 0.0:
            raise InvalidInputError(
                "`sensitivity` + `specificity` must be above 1; otherwise the judge cannot detect a "
                "difference"
            )
        if self.design == "paired" and self.correlation is None:
            raise InvalidInputError("`correlation` is required for 0/1 values in the paired design")
        if self.item_sd > math.sqrt(share * (1.0 - share)):
            raise InvalidInputError(
                f"`item_sd` is {self.item_sd:g}; with a `proportion` of {share:g} it must be at most "
                f"{math.sqrt(share * (1.0 - share)):.3g}"
            )

    @property
    def _skill(self) -> float:
        return self.sensitivity + self.specificity - 1.0

    def variance(self, effect: float = 0.0) -> float:
        """Return the variance of an item's value as measured by the judge.

        In the paired design, this is the variance of the difference; in the one-sample design, that
        of the value; in the independent design, the mean of the variances of both systems.

        Examples
        --------
        >>> round(AttemptsDesign(item_sd=0.3, within_sd=0.4, attempts=4).variance(), 3)
        0.17
        """
        items = (self._skill * self.item_sd) ** 2
        first, second = self._within(0.0, 0), self._within(effect, 1)
        if self.design == "one-sample":
            return items + second
        if self.design == "independent":
            return items + (first + second) / 2.0
        if self.correlation is not None:
            items *= 2.0 * (1.0 - self.correlation)
        return items + first + second

    def _within(self, effect: float, system: int) -> float:
        """Return the variance of an item mean that is due to the attempts."""
        attempts = _both(self.attempts)[system]
        if self.proportion is None:
            sd = _both(self.within_sd)[system]
            return float((sd**2 + self.judge_sd**2) / attempts)
        flagged = 1.0 - self.specificity + self._skill * (self.proportion + effect)
        # The variance of 0/1 values includes that of the item means.
        left = flagged * (1.0 - flagged) - (self._skill * self.item_sd) ** 2
        return float(max(0.0, left) / attempts)

    def se(self, n: int) -> float:
        """Return the standard error of the true difference (or mean) on ``n`` items.

        Examples
        --------
        >>> AttemptsDesign(item_sd=0.3, within_sd=0.4, design="one-sample").se(100)
        0.05
        """
        items = validation.integer(n, "n", low=1)
        clusters = 1.0 + (self.cluster_size - 1.0) * self.icc
        factor = 2.0 if self.design == "independent" else 1.0
        return math.sqrt(factor * clusters * self.variance() / items) / self._skill

    def n_for_power(self, effect: float, *, alpha: float = 0.05, power: float = 0.8) -> SampleSize:
        """Return the number of items needed to detect a true effect with a two-sided test.

        Parameters
        ----------
        effect : float
            B − A, or the mean minus the fixed value; not zero.
        alpha : float, default 0.05
            Significance level of the test.
        power : float, default 0.8
            Probability of detecting the effect.

        Returns
        -------
        SampleSize
            Required numbers of items and clusters; per system in the independent design.

        Raises
        ------
        InvalidInputError
            If an argument is out of range.

        Examples
        --------
        >>> AttemptsDesign(item_sd=0.2, within_sd=0.4, attempts=8).n_for_power(0.05).n
        254
        """
        delta = validation.number(effect, "effect")
        if delta == 0.0:
            raise InvalidInputError("`effect` is 0; no number of items can detect a zero effect")
        if self.proportion is not None and not 0.0 <= self.proportion + delta <= 1.0:
            raise InvalidInputError(
                f"`proportion` + `effect` is {self.proportion + delta:g}; it must lie in [0, 1]"
            )
        a, b = _quantiles(alpha, power)
        n = ((a + b) / (self._skill * delta)) ** 2 * self.variance(delta)
        two = self.design == "independent"
        n = 2.0 * n + a * a / 4.0 if two else n + a * a / 2.0
        method = f"attempts-{self.design}-power"
        return sized(n, self.cluster_size, self.icc, method, 2 if two else 1)

    def mde(self, n: int, *, alpha: float = 0.05, power: float = 0.8) -> float:
        """Return the smallest increase (or else decrease) that is detectable with ``n`` items.

        Parameters
        ----------
        n : int
            Number of items; per system in the independent design.
        alpha : float, default 0.05
            Significance level of the two-sided test.
        power : float, default 0.8
            Probability of detecting the effect.

        Returns
        -------
        float
            A positive number: the size of the increase, or of the decrease if no increase is
            detectable.

        Raises
        ------
        InfeasibleError
            If no effect is detectable with so few items under these assumptions.

        Notes
        -----
        A proportion near 1 leaves no room for an increase. A decrease of the same size may need
        more or fewer items; `n_for_power` accepts either sign.

        Examples
        --------
        >>> round(AttemptsDesign(item_sd=0.15, within_sd=0.35, attempts=4).mde(733), 3)
        0.03
        """
        items = validation.integer(n, "n", low=1)
        most = _HUGE_EFFECT * math.sqrt(self.variance())
        rooms = (most, most)
        if self.proportion is not None:
            rooms = (1.0 - self.proportion, self.proportion)

        def enough(effect: float) -> bool:
            return self.n_for_power(effect, alpha=alpha, power=power).n <= items

        for furthest in (rooms[0], -rooms[1]):
            if furthest != 0.0 and enough(furthest):
                return abs(_nearest(enough, furthest))
        raise InfeasibleError(
            f"with {items} items, neither an increase nor a decrease is detectable"
        )


def _nearest(enough: Callable[[float], bool], far: float) -> float:
    """Return the detectable effect nearest to zero, by bisection."""
    near = 0.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (near + far)
        near, far = (near, middle) if enough(middle) else (middle, far)
    return far


def _both(value: Any) -> tuple[Any, Any]:
    """Expand a single value or a pair of values to the values for A and B."""
    if not isinstance(value, tuple):
        return value, value
    if len(value) != 2:
        raise InvalidInputError(
            f"{value!r} must be a single value, or a pair of values for A and B"
        )
    return value[0], value[1]


def _quantiles(alpha: float, power: float) -> tuple[float, float]:
    a = critical_value(1.0 - validation.fraction(alpha, "alpha"))
    b = normal_quantile(validation.fraction(power, "power"))
    if a + b <= 0.0:
        raise InvalidInputError("`power` must be above `alpha` / 2, which any sample size attains")
    return a, b
