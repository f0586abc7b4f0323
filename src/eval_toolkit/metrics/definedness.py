"""Checks of whether metrics are defined for the data, and placeholders for undefined results."""

import re
from collections.abc import Collection
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal.validation import choice
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError

EmptyStrategy: TypeAlias = Literal["raise", "return_none", "skipped_metric"]
SkippedMetric: TypeAlias = dict[str, Any]

SINGLE_CLASS_INCOMPATIBLE_METRICS = frozenset({"auprc", "auroc", "pr_auc", "roc_auc"})

_ALIASES = {
    **dict.fromkeys(("auroc", "auc", "auc_roc", "rocauc", "roc_auc_score"), "roc_auc"),
    **dict.fromkeys(("auprc", "aupr", "auc_pr", "prauc", "ap", "average_precision"), "pr_auc"),
    "average_precision_score": "pr_auc",
    **dict.fromkeys(("partial_roc_auc", "roc_auc_max_fpr"), "roc_auc_max_fpr_0.1"),
    "recall_at_fpr": "recall_at_fpr_0.1",
    **dict.fromkeys(("brier", "brier_score_loss"), "brier_score"),
    **dict.fromkeys(("logloss", "cross_entropy", "nll"), "log_loss"),
    **dict.fromkeys(("ece", "ece_equal_width"), "expected_calibration_error"),
    "ece_equal_mass": "expected_calibration_error_equal_mass",
    "mce": "maximum_calibration_error",
    **dict.fromkeys(("matthews_corrcoef", "matthews_correlation"), "mcc"),
    **dict.fromkeys(("cohen_kappa", "cohen_kappa_score"), "kappa"),
    **dict.fromkeys(("acc", "accuracy_score"), "accuracy"),
    **dict.fromkeys(("tpr", "sensitivity", "recall_score", "true_positive_rate"), "recall"),
    **dict.fromkeys(("tnr", "true_negative_rate"), "specificity"),
    **dict.fromkeys(("ppv", "precision_score"), "precision"),
    **dict.fromkeys(("f1_score", "f_1"), "f1"),
    "false_positive_rate": "fpr",
    "false_negative_rate": "fnr",
}
"""Aliases of catalogue metrics; parameters do not affect definedness."""
_PARAMETERS = re.compile(r"(_at)?_\d[\w.]*$")


def is_metric_defined_for_slice(
    metric_name: str,
    *,
    is_single_class: bool,
    incompatible_metrics: Collection[str] = SINGLE_CLASS_INCOMPATIBLE_METRICS,
    on_unknown: Literal["defined", "raise"] = "defined",
) -> bool:
    """Return whether a metric is defined on a slice with one or with two classes.

    Parameters
    ----------
    metric_name : str
        Name of the metric, ignoring case and ``-``, ``_`` or spaces between words; aliases
        ("AUROC", "average precision") and names with a parameter ("recall_at_fpr=0.01") are
        accepted.
    is_single_class : bool
        Whether all labels of the slice are equal.
    incompatible_metrics : collection of str
        Metrics that require both classes; by default, those in `metrics.CATALOGUE`.
    on_unknown : {"defined", "raise"}
        Behaviour for unknown names: return True (the metric itself raises if it is undefined), or
        raise.

    Returns
    -------
    bool
        False if the metric requires both classes and the slice has only one, otherwise True.

    Raises
    ------
    InvalidInputError
        If the metric is unknown and ``on_unknown="raise"``.

    Examples
    --------
    >>> is_metric_defined_for_slice("AUROC", is_single_class=True)
    False
    >>> is_metric_defined_for_slice("brier_score", is_single_class=True)
    True
    """
    choice(on_unknown, "on_unknown", ("defined", "raise"))
    if not is_single_class:
        return True
    name, known = _canonical(metric_name), {_canonical(one) for one in incompatible_metrics}
    if name in known:
        return False
    from eval_toolkit.metrics.catalogue import CATALOGUE  # circular import

    if name not in CATALOGUE and on_unknown == "raise":
        raise InvalidInputError(
            f"`metric_name` is {metric_name!r}, which is not in the catalogue; pass the metrics that "
            "need both classes as incompatible_metrics={…}"
        )
    if incompatible_metrics is not SINGLE_CLASS_INCOMPATIBLE_METRICS or name not in CATALOGUE:
        return True
    return not CATALOGUE[name].needs_both_classes


def _canonical(name: str) -> str:
    """Return the catalogue name of a metric, or its normalised name.

    Examples
    --------
    >>> [_canonical(name) for name in ("Avg-Precision", "ROC AUC", "ECE (10 bins)", "f1_at_0.5")]
    ['avg_precision', 'roc_auc', 'expected_calibration_error', 'f1']
    """
    plain = re.sub(r"[^a-z0-9.]+", "_", name.casefold()).strip("_")
    short = _PARAMETERS.sub("", plain)
    return _ALIASES.get(plain) or _ALIASES.get(short) or short


def placeholder(
    strategy: EmptyStrategy, error: Exception, y_true: ArrayLike, y_score: ArrayLike, metric: str
) -> SkippedMetric | None:
    """Return a placeholder for a metric that is undefined on the data, or raise the error.

    An `UndefinedMetricError`, or any error on empty data, means that the metric is undefined; other
    errors are raised again. The placeholder is None, or a dict with ``value`` None and the reason.
    """
    is_empty = np.size(y_true) == 0 and np.size(y_score) == 0
    if strategy == "raise" or not (is_empty or isinstance(error, UndefinedMetricError)):
        raise error
    if strategy == "return_none":
        return None
    labels = np.asarray(y_true)
    return {
        "value": None,
        "status": "skipped",
        "reason": f"{metric} is undefined: there are no rows" if is_empty else str(error),
        "details": {"n": labels.size, "n_positive": int(np.count_nonzero(labels == 1))},
    }


def check_strategy(strategy: EmptyStrategy) -> None:
    """Raise if the strategy is unknown."""
    choice(strategy, "empty_strategy", ("raise", "return_none", "skipped_metric"))
