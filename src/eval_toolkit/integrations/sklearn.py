"""Use metrics as scikit-learn scorers, e.g. in ``GridSearchCV(…, scoring=…)``.

A scikit-learn scorer takes a fitted estimator, inputs and labels, and returns a number to maximise.
Elsewhere in this package, a scorer converts inputs to probabilities.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from eval_toolkit._internal import validation
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.harness.scorers import EstimatorScorer, as_scorer
from eval_toolkit.inference import bootstrap_ci
from eval_toolkit.inference.statistics import AveragePrecision, RecallAtFpr, RocAuc
from eval_toolkit.metric_specs.names import named
from eval_toolkit.protocols import MetricSpec

__all__ = ["SklearnScorer", "sklearn_scorer"]


@dataclass(frozen=True)
class SklearnScorer:
    """Metric as a callable ``(estimator, X, y)``; created by `sklearn_scorer`.

    Instances can be pickled, so a search can use several processes.
    """

    metric: MetricSpec
    positive: Any = None
    bound: str = "value"
    n_resamples: int = 1000
    seed: int = 42

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """Return the metric of a fitted estimator, negated if lower is better.

        Parameters
        ----------
        estimator : object
            Fitted estimator.
        X, y : array-like
            Inputs and labels.

        Returns
        -------
        float
            Value of the metric; higher is better.

        Raises
        ------
        InvalidInputError
            If the labels or the estimator's classes are not supported.
        UndefinedMetricError
            If the metric is undefined for these labels; scikit-learn then marks the fold as failed.
        """
        labels = np.asarray(y)
        scores = self._scores(estimator, X)
        if self.positive is not None:
            labels = (labels == self.positive).astype(np.float64)
        elif not set(labels.tolist()) <= {0, 1}:
            raise InvalidInputError(
                f"the labels are not 0 and 1; pass the positive one: {self!r} with positive=…"
            )
        if self.bound == "value":
            value = float(self.metric.compute(labels, scores))
            return value if self._higher else -value
        ci = bootstrap_ci(labels, scores, self.metric, n_resamples=self.n_resamples, seed=self.seed)
        return ci.ci_low if self._higher else -ci.ci_high

    @property
    def _higher(self) -> bool:
        return bool(getattr(self.metric, "higher_is_better", True))

    def _scores(self, estimator: Any, X: Any) -> Any:
        """Return probabilities, or margins for rank-based metrics if there are no probabilities."""
        name = type(estimator).__name__
        classes = np.asarray(getattr(estimator, "classes_", [0, 1])).tolist()
        if self.positive is None and (len(classes) > 2 or 1 not in classes):
            raise InvalidInputError(
                f"{name} has the classes {classes}; pass the positive one (one-vs-rest): "
                f"sklearn_scorer({self.metric.name!r}, positive=…)"
            )
        if hasattr(estimator, "predict_proba"):
            return as_scorer(estimator, positive=self.positive).predict_proba(X)
        if not hasattr(estimator, "decision_function"):
            as_scorer(estimator)  # raises an error that names the missing method
        statistic = getattr(self.metric, "statistic", None)
        if not isinstance(statistic, AveragePrecision | RecallAtFpr | RocAuc):
            raise InvalidTypeError(
                f"{name} has only decision_function, but {self.metric.name!r} "
                "needs probabilities; wrap it in sklearn.calibration.CalibratedClassifierCV"
            )
        margins = np.asarray(estimator.decision_function(X))
        column = EstimatorScorer(estimator, self.positive)._column(classes, name)
        if margins.ndim == 1:
            return margins if column == 1 else -margins
        if margins.shape[1] != len(classes):
            raise InvalidInputError(
                f"{name} has {margins.shape[1]} margins for {len(classes)} classes, not one per class "
                "against all others; set decision_function_shape='ovr'"
            )
        return margins[:, column]

    def __repr__(self) -> str:
        more = f", positive={self.positive!r}" if self.positive is not None else ""
        more += f", bound={self.bound!r}" if self.bound != "value" else ""
        return f"sklearn_scorer({self.metric.name!r}{more})"


def sklearn_scorer(
    metric: str | MetricSpec,
    *,
    positive: Any = None,
    bound: Literal["value", "low"] = "value",
    n_resamples: int = 1000,
    seed: int = 42,
) -> SklearnScorer:
    """Return a callable for ``scoring=`` of scikit-learn's searches and cross-validation.

    Parameters
    ----------
    metric : str or MetricSpec
        Name accepted by `metric_specs.named`, such as "pr_auc", "f1@0.5" or "recall@fpr=0.01", or
        a spec.
    positive : label, optional
        Positive class (one-vs-rest); 1 by default, required with more than two classes.
    bound : {"value", "low"}, default "value"
        "low" uses the unfavourable bound of the metric's bootstrap interval on the fold, which
        penalises candidates that score well by chance on few rows.
    n_resamples, seed
        Settings of the bootstrap interval for ``bound="low"``.

    Returns
    -------
    SklearnScorer
        Callable ``(estimator, X, y) -> float``. Higher is better: metrics to minimise, such as the
        Brier score and log-loss, are negated, as in scikit-learn's ``neg_`` scorers.

    Raises
    ------
    MissingColumnError
        If no metric has that name (also a KeyError).
    InvalidTypeError
        If the metric is neither a name nor a spec.

    Notes
    -----
    The estimator's ``predict_proba`` is used, with the column selected by ``classes_``. An
    estimator with only ``decision_function`` is supported by rank-based metrics (``pr_auc``,
    ``roc_auc``, ``recall_at_fpr``) and rejected by others.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import GridSearchCV
    >>> X, y = [[i % 7, i] for i in range(40)], [int(i % 7 > 3) for i in range(40)]
    >>> search = GridSearchCV(
    ...     LogisticRegression(), {"C": [0.01, 1.0]}, scoring=sklearn_scorer("brier"), cv=2
    ... )
    >>> search.fit(X, y).best_params_
    {'C': 1.0}
    """
    if isinstance(metric, str):
        metric = named(metric)
    if not (hasattr(metric, "compute") and hasattr(metric, "name")):
        raise InvalidTypeError(
            f"`metric` is a {type(metric).__name__}; it must be a metric's name or a MetricSpec"
        )
    validation.choice(bound, "bound", ("value", "low"))
    validation.integer(n_resamples, "n_resamples", low=50)
    return SklearnScorer(metric, positive, bound, n_resamples, validation.integer(seed, "seed"))
