"""`scorecard`: metrics of one scorer on one slice, with intervals from shared resamples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

from numpy.typing import ArrayLike, NDArray

from eval_toolkit._internal import validation
from eval_toolkit._internal.options import gathers
from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.inference.columns import Columns
from eval_toolkit.inference.intervals import METHODS
from eval_toolkit.inference.options import RESAMPLING, Resampling
from eval_toolkit.inference.plans import chosen_plan
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.scorecards.cells import MetricResult, Scorecard
from eval_toolkit.scorecards.metric_cells import metric_cells, weighted_cells
from eval_toolkit.scorecards.sanity import sanity_notes
from eval_toolkit.scorecards.specs import Intervals, check_specs
from eval_toolkit.seeds import resolve_seed


class _Scoring(Resampling, total=False):
    """Options of `scorecard` other than the rows and the metrics."""

    bootstrap: bool
    method: str | None
    assumed_prior: float | None
    weights: ArrayLike | None
    sample_weight: ArrayLike | None


@gathers(
    _Scoring,
    bootstrap=True,
    method=None,
    assumed_prior=None,
    weights=None,
    sample_weight=None,
    **RESAMPLING,
)
def scorecard(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    metrics: Sequence[MetricSpec | str] | None = None,
    positive: object = None,
    threshold: float | None = None,
    by: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    **options: Unpack[_Scoring],
) -> Scorecard:
    """Evaluate several metrics of a scorer, each with a status and an interval.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1; any labels if ``positive`` is given.
    y_score : array-like of shape (n,)
        Scores; higher means more positive. Probabilities for calibration metrics.
    metrics : sequence of MetricSpec or str, optional
        Names such as ``"roc_auc"``, ``"f1@0.5"``, ``"recall@fpr=0.01"`` (`metric_specs.named`),
        specs from `metric_specs` or `op_metric_specs`, or any object with ``name`` and ``compute``.
        By default PR-AUC, ROC-AUC, Brier score and log-loss, with ``threshold`` also F1, precision,
        recall and false-positive rate.
    positive : label, optional
        Positive label; all other labels count as negative.
    threshold : float, optional
        Scores at or above the threshold count as positive. Used by metrics such as ``"f1"`` whose
        name does not contain a threshold.
    by : array-like of shape (n,), optional
        Part to which each row belongs, such as its language; ``card.slices`` contains the scorecard
        of each part.
    bootstrap : bool, default True
        Whether to compute intervals.
    n_resamples, confidence, executor
        As in `bootstrap_ci`. All metrics share one set of resamples.
    method : {"BCa", "percentile", "basic", "studentized"}, optional
        Method used for all intervals; by default, as in `bootstrap_ci` (see Notes).
    seed, rng : int, Generator, …, default 42
        Random seed or generator; the two names are synonyms.
    groups : array-like of shape (n,), optional
        Group of each row; rows in the same group may be dependent and are resampled together.
    assumed_prior : float, optional
        Prevalence at which all metrics are reported, instead of the observed prevalence; classes
        are reweighted and scores unchanged. Intervals are computed from the per-class rates, and a
        metric is skipped if the data are not informative about its value at this prevalence.
    weights, sample_weight : array-like of shape (n,), optional
        Survey or sample weights; the two names are synonyms. Intervals are those of `weighted_ci`;
        equal weights have no effect. Cannot be combined with ``method`` or ``assumed_prior``.

    Returns
    -------
    Scorecard
        One cell per metric, accessible by any spelling of its name; ``notes`` contains the warnings
        of `sanity_notes`. A cell is "skipped" with a reason if the metric is undefined on these
        data, and "error" with type and message if the metric raised; other metrics are not
        affected. A value without an interval has a reason such as ``bootstrap unavailable: …``.

    Raises
    ------
    InvalidInputError
        If the arrays are invalid, an option is out of range or two specs share a name.

    Notes
    -----
    Proportions at a fixed threshold (recall, precision, accuracy …) of independent rows get Wilson
    intervals; ROC-AUC, PR-AUC and functions of several rates get closed-form score intervals, which
    are valid for small classes and near 0 and 1; all other metrics use the bootstrap, as in
    `bootstrap_ci`. With fewer than 3 rows of a class, metrics that require both classes have a
    value but no interval.

    Examples
    --------
    >>> y = [0, 1] * 20
    >>> card = scorecard(y, [0.3, 0.6, 0.5, 0.4] * 10, metrics=["roc_auc", "f1@0.5"])
    >>> card["roc_auc"].value, card["roc_auc"].status, card["roc_auc"].ci.method
    (0.75, 'ok', 'score')
    >>> card["f1@0.5"].value
    0.5
    """
    from eval_toolkit.scorecards.inputs import one_of, part_rows, row_labels

    labels = row_labels(y_true, positive)
    scores = validation.vector(y_score, "y_score")
    validation.same_length(labels, scores, ("y_true", "y_score"))
    specs = check_specs(metrics, at=threshold)
    how = _Settings.of(options)
    weights = validation.sample_weights(
        one_of(options["weights"], options["sample_weight"]), len(labels)
    )
    of = None if groups is None else validation.as_array(groups, "groups")
    rows = _Rows(labels, scores, of, weights)
    name, parts = ("", {}) if by is None else part_rows(by, len(labels))
    cells = rows.cells(specs, how)
    slices = {part: Scorecard(rows.take(at).cells(specs, how)) for part, at in parts.items()}
    return Scorecard(cells, slices, name, notes=sanity_notes(labels, scores))


@dataclass(frozen=True)
class _Settings:
    """Interval settings, and the prevalence at which metrics are reported."""

    intervals: Intervals
    assumed_prior: float | None

    @classmethod
    def of(cls, given: _Scoring) -> _Settings:
        """Check the options and return the settings."""
        method, prior = given["method"], given["assumed_prior"]
        if given["bootstrap"]:
            given["n_resamples"] = validation.integer(given["n_resamples"], "n_resamples", low=1)
            given["confidence"] = validation.fraction(given["confidence"], "confidence")
        if method is not None:
            method = validation.choice({"bca": "BCa"}.get(method, method), "method", METHODS)
        weighted = given["weights"] is not None or given["sample_weight"] is not None
        if weighted and (method is not None or prior is not None):
            raise InvalidInputError(
                "`sample_weight` cannot be combined with `method` or `assumed_prior`"
            )
        intervals = Intervals(
            given["n_resamples"] if given["bootstrap"] else 0,
            given["confidence"],
            method,
            resolve_seed(given["seed"], given["rng"]),
            given["executor"],
        )
        return cls(intervals, prior)


@dataclass(frozen=True)
class _Rows:
    """Rows of a scorecard or of one of its parts."""

    labels: BoolArray
    scores: FloatArray
    groups: NDArray[Any] | None
    weights: FloatArray | None

    def take(self, at: IntArray) -> _Rows:
        """Return a subset of the rows."""
        groups = None if self.groups is None else self.groups[at]
        weights = None if self.weights is None else self.weights[at]
        return _Rows(self.labels[at], self.scores[at], groups, weights)

    def cells(self, specs: Sequence[MetricSpec], how: _Settings) -> dict[str, MetricResult]:
        """Return one cell per spec."""
        from eval_toolkit.inference.weighted import are_equal
        from eval_toolkit.scorecards.prior_shift import PriorShift

        plan = chosen_plan(self.labels, groups=self.groups)
        if self.weights is not None and not are_equal(self.weights):
            return weighted_cells(
                self.labels, self.scores, self.weights, self.groups, specs, plan, how.intervals
            )
        prior = how.assumed_prior
        shift = None if prior is None else PriorShift.to(self.labels, prior)
        columns = Columns.scored(self.labels, self.scores)
        return metric_cells(columns, specs, plan, how.intervals, shift)
