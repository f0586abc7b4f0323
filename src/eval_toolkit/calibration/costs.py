"""Decisions under unequal costs: optimal thresholds and abstention."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.metrics.confusion import checked_threshold

DEFAULT_PRIOR = 0.01
DEFAULT_FP_COST = 1.0
DEFAULT_FN_COST = 10.0


def _cut(if_negative: float, if_positive: float, prior: float, score_prior: float) -> float:
    """Return the score at which two actions have equal expected cost.

    The first action costs ``if_negative`` more on negative rows, the second ``if_positive`` more on
    positive rows. The score is calibrated at prevalence ``score_prior``.
    """
    against = if_negative * (1.0 - prior) * score_prior
    in_favour = if_positive * prior * (1.0 - score_prior)
    return against / (against + in_favour)


def bayes_optimal_threshold(
    prior: float = DEFAULT_PRIOR,
    fp_cost: float = DEFAULT_FP_COST,
    fn_cost: float = DEFAULT_FN_COST,
    *,
    score_prior: float = 0.5,
) -> float:
    """Return the optimal threshold of a calibrated score for a deployment prevalence.

    Parameters
    ----------
    prior : float in [0, 1], default 0.01
        Prevalence of positives in deployment.
    fp_cost, fn_cost : float > 0, default 1 and 10
        Cost of a false positive and of a false negative.
    score_prior : float in (0, 1), default 0.5
        Prevalence at which the score is calibrated: the prevalence in its training data, or ½ for
        balanced (or class-weighted) training.

    Returns
    -------
    float
        Threshold at or above which to predict positive; 1.0 if the prior is 0, 0.0 if it is 1.

    Raises
    ------
    InvalidInputError
        If a prior is outside its range or a cost is not positive.

    Notes
    -----
    Predicting positive at posterior odds ≥ fp_cost/fn_cost minimises the expected cost. A score
    calibrated at ρ becomes a posterior at π by multiplying its odds by π(1−ρ)/((1−π)ρ), so the
    threshold is ``c_fp(1−π)ρ / (c_fp(1−π)ρ + c_fn·π(1−ρ))``. At ρ = ½ this is
    ``c_fp(1−π) / (c_fp(1−π) + c_fn·π)``; when the score is already calibrated at the deployment
    prior (ρ = π), the prior cancels and the threshold is ``c_fp / (c_fp + c_fn)`` [1]_.

    References
    ----------
    .. [1] Elkan (2001), The foundations of cost-sensitive learning, IJCAI, 973-978.

    Examples
    --------
    >>> round(bayes_optimal_threshold(0.01, 1.0, 10.0), 4)
    0.9083
    >>> round(bayes_optimal_threshold(0.01, 1.0, 10.0, score_prior=0.01), 4)
    0.0909
    """
    prior = validation.number(prior, "prior", low=0.0, high=1.0)
    fp_cost = validation.number(fp_cost, "fp_cost", low=0.0, include_low=False)
    fn_cost = validation.number(fn_cost, "fn_cost", low=0.0, include_low=False)
    score_prior = validation.fraction(score_prior, "score_prior")
    return _cut(fp_cost, fn_cost, prior, score_prior)


@dataclass(frozen=True, slots=True)
class CostMatrix:
    """Costs of errors and abstention at a given prevalence.

    Attributes
    ----------
    prior : float in [0, 1], default 0.01
        Prevalence of positives in deployment.
    fp_cost, fn_cost : float > 0, default 1 and 10
        Cost of a false positive and of a false negative.
    abstain_cost : float >= 0, optional
        Cost of abstaining, e.g. of human review; None if abstention is not possible.
    notes : str
        Where the costs come from.
    score_prior : float in (0, 1), default 0.5
        Prevalence at which the scores are calibrated.

    Raises
    ------
    InvalidInputError
        If a prior is outside its range or a cost is not positive.

    Examples
    --------
    >>> costs = CostMatrix(prior=0.5, fp_cost=1.0, fn_cost=1.0, abstain_cost=0.2)
    >>> costs.bayes_threshold, costs.abstain_band
    (0.5, (0.2, 0.8))
    >>> costs.expected_cost([0, 1, 0, 1], [0.1, 0.4, 0.6, 0.9])
    0.5
    >>> costs.expected_cost([0, 1, 0, 1], [0.1, 0.4, 0.6, 0.9], abstain=True)
    0.1
    """

    prior: float = DEFAULT_PRIOR
    fp_cost: float = DEFAULT_FP_COST
    fn_cost: float = DEFAULT_FN_COST
    abstain_cost: float | None = None
    notes: str = ""
    score_prior: float = 0.5

    def __post_init__(self) -> None:
        bayes_optimal_threshold(
            self.prior, self.fp_cost, self.fn_cost, score_prior=self.score_prior
        )
        if self.abstain_cost is not None:
            validation.number(self.abstain_cost, "abstain_cost", low=0.0)

    @property
    def bayes_threshold(self) -> float:
        """Optimal threshold without abstention; see `bayes_optimal_threshold`."""
        return bayes_optimal_threshold(
            self.prior, self.fp_cost, self.fn_cost, score_prior=self.score_prior
        )

    @property
    def abstain_band(self) -> tuple[float, float] | None:
        """Interval [low, high) of scores for which abstention is cheaper (Chow's rule).

        At posterior η, predicting negative costs fn_cost·η and predicting positive fp_cost·(1−η).
        Abstention is cheaper than both for abstain_cost/fn_cost < η < 1 − abstain_cost/fp_cost.
        None if there is no abstain_cost, abstention never pays, or the prior is 0 or 1. See Chow
        (1970), IEEE Transactions on Information Theory 16(1):41-46.
        """
        if self.abstain_cost is None or self.prior in (0.0, 1.0):
            return None
        if self.abstain_cost >= min(self.fp_cost, self.fn_cost):
            return None
        costs = self.abstain_cost, self.fn_cost - self.abstain_cost
        low = _cut(*costs, self.prior, self.score_prior)
        costs = self.fp_cost - self.abstain_cost, self.abstain_cost
        high = _cut(*costs, self.prior, self.score_prior)
        return (low, high) if low < high else None

    def expected_cost(
        self,
        y_true: ArrayLike,
        y_score: ArrayLike,
        threshold: float | None = None,
        *,
        abstain: bool = False,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return the mean cost per labelled row of decisions at a threshold.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Labels, 0 or 1.
        y_score : array-like of shape (n,)
            Scores; a row is predicted positive if its score is at least the threshold.
        threshold : float, optional
            Threshold; by default `bayes_threshold`.
        abstain : bool, default False
            Whether to abstain on rows inside `abstain_band`, at a cost of ``abstain_cost`` each.
        sample_weight : array-like of shape (n,), optional
            Row weights; equal by default. For the mean cost at prevalence ``prior``, pass
            ``prior_shift_weights(y_true, to_prior=prior)``.

        Returns
        -------
        float
            ``(FP·fp_cost + FN·fn_cost + undecided·abstain_cost) / n``.

        Raises
        ------
        InvalidInputError
            If the arrays are invalid, or ``abstain`` is used without ``abstain_cost`` or with a
            threshold.
        """
        labels, scores = validation.binary_pair(y_true, y_score)
        weights = validation.sample_weights(sample_weight, len(labels))
        if abstain and self.abstain_cost is None:
            raise InvalidInputError("`abstain` requires a cost matrix with an `abstain_cost`")
        if abstain and threshold is not None:
            raise InvalidInputError(
                "pass either `threshold` or `abstain`, not both: `abstain_band` sets its own thresholds"
            )
        cut = self.bayes_threshold if threshold is None else checked_threshold(threshold)
        error_cost = np.where(labels, self.fn_cost, self.fp_cost)
        cost = np.where((scores >= cut) == labels, 0.0, error_cost)
        band = self.abstain_band if abstain else None
        if band is not None:
            cost[(scores >= band[0]) & (scores < band[1])] = self.abstain_cost
        return float(np.average(cost, weights=weights))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict, with the threshold and the band."""
        band = self.abstain_band
        return {
            "prior": self.prior,
            "fp_cost": self.fp_cost,
            "fn_cost": self.fn_cost,
            "abstain_cost": self.abstain_cost,
            "notes": self.notes,
            "score_prior": self.score_prior,
            "bayes_threshold": self.bayes_threshold,
            "abstain_band": None if band is None else list(band),
        }
