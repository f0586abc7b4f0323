"""Resolve the names passed with ``--metric`` and ``--select``."""

import difflib
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from eval_toolkit import metric_specs as ms
from eval_toolkit import thresholds
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.protocols import MetricSpec, ThresholdSelector

if TYPE_CHECKING:
    from eval_toolkit.thresholds.operating_points import FittedOperatingPoint

__all__ = [
    "DEFAULT_METRICS",
    "DEFAULT_THRESHOLD_METRICS",
    "METRIC_NAMES",
    "SELECTOR_NAMES",
    "TARGETS",
    "metric_specs",
    "nearest",
    "selector",
]

DEFAULT_METRICS = ("pr_auc", "roc_auc", "brier", "log_loss")
DEFAULT_THRESHOLD_METRICS = ("f1", "precision", "recall", "fpr")

_PLAIN = ("pr_auc", "roc_auc", "brier", "log_loss", "smooth_ece")
_WITH_NUMBER: dict[str, tuple[Callable[[Any], MetricSpec], float]] = {
    "recall_at_fpr": (lambda rate: ms.recall_at_fpr(rate), 0.01),
    "partial_roc_auc": (lambda rate: ms.partial_roc_auc(rate), 0.1),
    "ece": (lambda bins: ms.ece(n_bins=_whole(bins, "ece")), 15),
    "ece_equal_mass": (
        lambda bins: ms.ece(n_bins=_whole(bins, "ece_equal_mass"), strategy="quantile"),
        15,
    ),
}
_AT_THRESHOLD = (
    *("f1", "precision", "recall", "specificity", "accuracy", "balanced_accuracy"),
    *("mcc", "kappa", "fpr", "fnr", "net_benefit"),
)
MAX_BINS = 10_000

METRIC_NAMES = (*_PLAIN, *_WITH_NUMBER, *_AT_THRESHOLD)

TARGETS = ("recall", "precision", "fpr", "safe-fpr")
"""Names of parametrised metrics, which always refer to built-in metrics."""
SELECTOR_NAMES = ("max-f1", "youden-j", *(f"{name}=X" for name in TARGETS))


def metric_specs(
    names: Iterable[str], at: "float | FittedOperatingPoint | None" = None
) -> list[MetricSpec]:
    """Return the metric specs for names such as ``roc_auc``, ``recall_at_fpr=0.01`` or ``f1``.

    Parameters
    ----------
    names : iterable of str
        Names of metrics; duplicates are ignored.
    at : float or FittedOperatingPoint, optional
        Default threshold of metrics that need one; overridden by names such as ``f1=0.5``.
    """
    return list({spec.name: spec for spec in (_metric(name, at) for name in names)}.values())


def _metric(asked: str, at: "float | FittedOperatingPoint | None") -> MetricSpec:
    name, has_number, text = asked.partition("=")
    key = name.strip().lower().replace("-", "_")
    if key not in METRIC_NAMES:
        return _stored(asked)
    number = _number(text, f"--metric {asked}") if has_number else None
    if key in _PLAIN:
        if number is not None:
            raise InvalidInputError(f"--metric {asked}: {key} takes no number; write {key}")
        plain: MetricSpec = getattr(ms, key)
        return plain
    if key in _WITH_NUMBER:
        make, usual = _WITH_NUMBER[key]
        return make(usual if number is None else number)
    where = at if number is None else number
    if where is None:
        raise InvalidInputError(
            f"{key} needs a threshold: use --metric {key}=0.5 "
            "(score also has --threshold and --threshold-from)"
        )
    from eval_toolkit.metric_specs import at_threshold  # most commands need no threshold

    spec: MetricSpec = getattr(at_threshold, f"op_{key}")(where)
    return spec


def _stored(asked: str) -> MetricSpec:
    """Return the metric for a stored name, e.g. ``recall_at_fpr_0.01``."""
    from eval_toolkit.analysis import metric_named

    try:
        return metric_named(asked)
    except InvalidInputError:
        hint = nearest(asked.partition("=")[0], METRIC_NAMES)
        raise InvalidInputError(f"there is no metric {asked!r}; {hint}") from None


def selector(asked: str) -> ThresholdSelector:
    """Return the selector for ``max-f1``, ``recall=0.9`` … or a plugin's name."""
    name, has_number, text = asked.partition("=")
    key = name.strip().lower().replace("_", "-")
    if key == "max-f1" and not has_number:
        return thresholds.MaxF1Selector()
    if key == "youden-j" and not has_number:
        return thresholds.YoudenJSelector()
    if key in TARGETS and has_number:
        return _target(key, _number(text, f"--select {asked}"))
    if key in TARGETS:
        raise InvalidInputError(f"--select {asked} needs a target, as in --select {key}=0.9")
    return _offered_selector(asked)


def _target(name: str, value: float) -> ThresholdSelector:
    if name == "recall":
        return thresholds.TargetRecallSelector(value)
    if name == "precision":
        return thresholds.TargetPrecisionSelector(value)
    if name == "fpr":
        return thresholds.TargetFPRSelector(value)
    # limits the upper end of the interval, not the rate itself
    return thresholds.CISafeThresholdSelector(
        max_fpr_ci_upper=value, criterion=f"safe_fpr_{value:g}"
    )


def _offered_selector(asked: str) -> ThresholdSelector:
    """Return the selector of an installed package, or a built-in one by its full name."""
    from eval_toolkit.cli._loaded import NamedSelector
    from eval_toolkit.harness.loading import SELECTORS
    from eval_toolkit.plugins import known_name, name_and_options

    name = name_and_options(asked)[0]
    if ":" not in name and known_name("selectors", name, SELECTORS) is None:
        raise InvalidInputError(
            f"--select {asked!r} is unknown; choose one of {', '.join(SELECTOR_NAMES)}, "
            "or a selector of an installed package"
        )
    return NamedSelector(asked)


def nearest(name: str, known: Sequence[str]) -> str:
    """Return a hint with the closest valid names, or with all of them."""
    close = difflib.get_close_matches(name, known, n=2, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"there are {', '.join(known)}"


def _number(text: str, what: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise InvalidInputError(f"{what}: {text!r} is not a number") from None
    if not math.isfinite(number):
        raise InvalidInputError(f"{what}: {text!r} is not a finite number")
    return number


def _whole(value: float, name: str) -> int:
    if value != int(value) or value > MAX_BINS:
        raise InvalidInputError(
            f"--metric {name}={value:g}: the number of bins must be an integer of at most "
            f"{MAX_BINS}"
        )
    return int(value)
