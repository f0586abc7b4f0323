"""Calibration of model confidence in multiple-choice answers."""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eval_toolkit._internal.validation import bin_count
from eval_toolkit.errors import MissingColumnError, UndefinedMetricError
from eval_toolkit.graders.base import KEPT, LOGLIKELIHOODS, ColumnInfo, Grade, options_version
from eval_toolkit.graders.choice_scores import likeliest, share_of_text
from eval_toolkit.graders.choices import (
    ONE_CHOICE,
    check_normalise,
    choice_shares,
    mass,
    right_choices,
    suffix,
)
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.scorecards import Records

_SMALLEST = sys.float_info.epsilon
"""Lower bound of the probability of the correct choice, as in `metrics.log_loss`."""


@dataclass(frozen=True, slots=True)
class ChoiceCalibration:
    """Model confidence in the selected choice, and its calibration.

    Probabilities are the softmax over choices. ``choice_confidence`` is the probability of the
    most likely choice (summed over choices with equal text) and ``choice_confidence_right`` its
    correctness; both are stored for the metrics ``choice_confidence_ece`` and
    ``choice_confidence_roc_auc`` (and others with `metric_specs.on_columns`).
    ``choice_confidence_brier`` is the squared distance of all probabilities from the truth (0 to
    2), and ``choice_confidence_log_loss`` the surprisal of the correct choice, at most 36 nats.
    If several choices are correct, their probabilities are added.

    Parameters
    ----------
    normalise : {"none", "bytes", "characters", "tokens"}, default "none"
        Length by which each log-likelihood is divided before the softmax.
    n_bins : int, default 15
        Number of equal-width bins of ``choice_confidence_ece``.

    Examples
    --------
    >>> import math
    >>> from eval_toolkit.models.responses import Loglikelihood
    >>> answer = Loglikelihood([math.log(0.6), math.log(0.2)], ["a", "b"], ground_truth="b")
    >>> grades = ChoiceCalibration().grade(answer)
    >>> [round(value, 3) for value in grades.values()]
    [0.75, 0.0, 1.125, 1.386]
    """

    normalise: str = "none"
    n_bins: int = 15
    response_types = LOGLIKELIHOODS

    def __post_init__(self) -> None:
        check_normalise(self.normalise)
        bin_count(self.n_bins)

    @property
    def name(self) -> str:
        """Name of the grader: ``choice_confidence``, with a suffix such as ``_norm_bytes``."""
        return f"choice_confidence{suffix(self.normalise)}"

    version = options_version("1")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        return {
            self.name: KEPT,
            f"{self.name}_right": KEPT,
            f"{self.name}_brier": ColumnInfo(higher_is_better=False, bounds=(0.0, 2.0)),
            f"{self.name}_log_loss": ColumnInfo(
                higher_is_better=False, bounds=(0.0, -math.log(_SMALLEST))
            ),
        }

    def metrics(self) -> "list[MetricSpec]":
        """Return the expected calibration error and ROC-AUC of the confidence."""
        from eval_toolkit import metric_specs as ms

        specs = {"ece": ms.ece(n_bins=self.n_bins), "roc_auc": ms.roc_auc}
        return [
            ms.on_columns(
                spec, label=f"{self.name}_right", score=self.name, name=f"{self.name}_{name}"
            )
            for name, spec in specs.items()
        ]

    def grade(self, response: Any) -> Mapping[str, float | Grade]:
        """Return the confidence, the correctness, the squared error and the surprisal."""
        right = right_choices(response)
        shares: list[float] | Grade = ONE_CHOICE
        if len(response.loglikelihoods) > 1:
            shares = choice_shares(response, self.normalise)
        if isinstance(shares, Grade):
            return dict.fromkeys(self.columns(), shares)
        best = likeliest(shares)
        p_right = mass(shares, right)
        of_wrong = math.fsum(p * p for at, p in enumerate(shares) if at not in right)
        values = (
            share_of_text(response, shares, best),
            float(best in right),
            (1.0 - p_right) ** 2 + of_wrong,
            -math.log(max(p_right, _SMALLEST)) + 0.0,  # avoid -0.0
        )
        return dict(zip(self.columns(), values, strict=True))


def choice_reliability(
    records: Records,
    *,
    normalise: str = "none",
    n_bins: int = 10,
    strategy: str = "uniform",
    confidence: float = 0.95,
) -> list[dict[str, Any]]:
    """Return the accuracy of choices per confidence bin.

    Parameters
    ----------
    records : Records
        Records with the columns of `ChoiceCalibration`.
    normalise : str, default "none"
        Normalisation used by the grader.
    n_bins : int, default 10
        Number of bins, at least 2.
    strategy : {"uniform", "quantile"}, default "uniform"
        Bins of equal width or of equal mass.
    confidence : float, default 0.95
        Confidence level of the intervals; attempts are assumed to be independent.

    Returns
    -------
    list of dict
        Bins as returned by `calibration.reliability_diagram_data`; records without a confidence are
        excluded.

    Raises
    ------
    MissingColumnError
        If the records lack the columns (also a KeyError).
    UndefinedMetricError
        If no record has a confidence, all are right or all wrong, or there are too few for the
        bins.

    Examples
    --------
    >>> sure, right = [0.9, 0.8, 0.4, 0.3], [1, 1, 1, 0]
    >>> columns = {"choice_confidence": sure, "choice_confidence_right": right}
    >>> bins = choice_reliability(Records.from_columns(columns), n_bins=2)
    >>> [(round(one["mean_pred"], 2), one["frac_positive"], one["n"]) for one in bins]
    [(0.35, 0.5, 2), (0.85, 1.0, 2)]
    """
    from eval_toolkit.calibration import reliability_diagram_data

    score = ChoiceCalibration(normalise).name
    label = f"{score}_right"
    if score not in records.columns or label not in records.columns:
        raise MissingColumnError(
            f"the records have no columns {score!r} and {label!r}; grade them with the grader "
            f"{score!r}"
        )
    there = (records.status[score] == "ok") & (records.status[label] == "ok")
    if not there.any():
        raise UndefinedMetricError(f"none of {len(records)} records contains a confidence")
    bins = reliability_diagram_data(
        records.columns[label][there],
        records.columns[score][there],
        n_bins=n_bins,
        strategy=strategy,
        confidence=confidence,
    )
    if not bins:
        raise UndefinedMetricError(
            f"the {int(there.sum())} records are too few for {n_bins} bins, or are all right or all wrong"
        )
    return bins
