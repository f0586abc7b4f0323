"""Metrics by their stored names, and their directions."""

import difflib
import re
from typing import Any

from eval_toolkit import metric_specs as ms
from eval_toolkit.errors import InvalidInputError, MissingColumnError
from eval_toolkit.inference.statistics import statistic_for
from eval_toolkit.metric_specs import at_threshold as op
from eval_toolkit.metrics import CATALOGUE
from eval_toolkit.metrics.directions import known_direction
from eval_toolkit.protocols import MetricSpec

__all__ = ["higher_is_better", "metric_named", "op_metric"]

_NUMBER = r"([+-]?[0-9.]+)"
_SPECS = {spec.name: spec for spec in (ms.pr_auc, ms.roc_auc, ms.brier, ms.log_loss, ms.smooth_ece)}
_OTHER_NAMES = {"auprc": "pr_auc", "average_precision": "pr_auc", "auroc": "roc_auc"}
_ECE = re.compile(r"ece_n_bins_(\d+)_strategy_(uniform|quantile)")
_RECALL = re.compile(rf"recall_at_fpr_{_NUMBER}")
_PARTIAL = re.compile(rf"roc_auc_max_fpr_{_NUMBER}")
_OP = re.compile(r"op_(.+?)_at_(.+)")
_FACTORIES = {
    name.removeprefix("op_"): getattr(op, name) for name in op.__all__ if name.startswith("op_")
}


def metric_named(name: str) -> MetricSpec:
    """Return the metric of labels and scores that scorecards store under this name.

    Parameters
    ----------
    name : str
        ``pr_auc``, ``brier``, ``ece_n_bins_15_strategy_uniform``, ``recall_at_fpr_0.01``,
        ``roc_auc_max_fpr_0.1``, ``op_f1_at_0.5``, or a name of `metrics.CATALOGUE`.

    Returns
    -------
    MetricSpec
        For `scorecard`, `summarise` and `bootstrap_ci`.

    Raises
    ------
    MissingColumnError
        (a ValueError and a KeyError) If no metric has that name, or the name lacks its threshold.

    Examples
    --------
    >>> metric_named("recall_at_fpr_0.01").name
    'recall_at_fpr_0.01'
    >>> metric_named("op_f1_at_0.5").compute([0, 1], [0.2, 0.7])
    1.0
    """
    if not isinstance(name, str) or not name:
        raise InvalidInputError(f"`metric` is {name!r}; it must be the name of a metric")
    known = _SPECS.get(_OTHER_NAMES.get(name, name)) or _parsed(name)
    if known is not None:
        return known
    if name in CATALOGUE:
        info = CATALOGUE[name]
        statistic = statistic_for(info.function)
        return ms.ScoreSpec(name, info.function, statistic, info.higher_is_better is not False)
    raise MissingColumnError(f"there is no metric {name!r}; {_hint(name)}")


def _hint(name: str) -> str:
    if _OP.fullmatch(name):
        return "the name must contain a numeric threshold, as in op_f1_at_0.5"
    examples = ["recall_at_fpr_0.01", "ece_n_bins_15_strategy_uniform", "op_f1_at_0.5"]
    everything = [*_SPECS, *examples, *(known for known in CATALOGUE if known not in _SPECS)]
    near = difflib.get_close_matches(name, everything, n=1)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(everything)}"


def _parsed(name: str) -> Any:
    """Return the spec whose parameters are part of its name, or None."""
    if match := _ECE.fullmatch(name):
        return ms.ece(n_bins=int(match[1]), strategy=match[2])
    for pattern, factory in ((_RECALL, ms.recall_at_fpr), (_PARTIAL, ms.partial_roc_auc)):
        if (match := pattern.fullmatch(name)) and _is_number(match[1]):
            return factory(float(match[1]))
    match = _OP.fullmatch(name)
    if match and match[1] in _FACTORIES and _is_number(match[2]):
        return _FACTORIES[match[1]](float(match[2]))
    return None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def op_metric(name: str) -> str | None:
    """Return the quantity of a metric at an operating point; None for other metrics.

    Examples
    --------
    >>> op_metric("op_f1_at_max_f1_fitted_on_val"), op_metric("pr_auc")
    ('f1', None)
    """
    match = _OP.fullmatch(name)
    return match[1] if match and match[1] in _FACTORIES else None


def higher_is_better(name: str) -> bool | None:
    """Return whether higher is better for a metric, by its name; None if unknown or undefined.

    Names of built-in metrics are looked up; others are inferred by `known_direction`.

    Examples
    --------
    >>> higher_is_better("pr_auc"), higher_is_better("brier"), higher_is_better("reward")
    (True, False, None)
    >>> higher_is_better("val_loss"), higher_is_better("exact_match,none")
    (False, True)
    """
    if name in CATALOGUE:
        return CATALOGUE[name].higher_is_better
    quantity = op_metric(name)
    if quantity is not None:
        return bool(_FACTORIES[quantity](0.5).higher_is_better)
    try:
        return bool(metric_named(name).higher_is_better)  # type: ignore[attr-defined]
    except InvalidInputError:
        return known_direction(name)
