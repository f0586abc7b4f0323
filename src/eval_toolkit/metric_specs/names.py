"""Grammar of metric names, used in Python, on the command line, in claims and with scikit-learn.

===========================  ==========================================================
``roc_auc``                  a metric without parameters
``f1@0.5``                   a threshold metric, at a threshold of the scores
``recall@fpr=0.01``          recall, or ``roc_auc``, up to a false-positive rate
``ece=15``                   a calibration error, with its number of bins
===========================  ==========================================================

Case is ignored, and ``-`` is equivalent to ``_``. Stored names (``op_f1_at_0.5``,
``recall_at_fpr_0.01``, ``ece_n_bins_15_strategy_uniform``), older spellings (``f1=0.5``,
``recall_at_fpr=0.01``, ``partial_roc_auc=0.1``) and the names of `metrics.CATALOGUE` are also
accepted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from eval_toolkit._internal.words import nearest
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.protocols import MetricSpec

if TYPE_CHECKING:
    from eval_toolkit.metric_specs.scores import ScoreSpec

At: TypeAlias = Any
"""Threshold, `FittedOperatingPoint` or `ThresholdSelector` for threshold metrics, or None."""

_DEFAULT_AT_THRESHOLD = ("f1", "precision", "recall", "fpr")
"""Metrics added to `DEFAULT_METRICS` if a threshold is given."""

QUANTITIES = (
    *("f1", "precision", "recall", "specificity", "accuracy", "balanced_accuracy"),
    *("mcc", "kappa", "fpr", "fnr", "net_benefit"),
)
"""Metrics of binary decisions, which require a threshold."""
MAX_BINS = 10_000

_PLAIN = ("pr_auc", "roc_auc", "brier", "log_loss", "smooth_ece")
_SYNONYMS = {
    **dict.fromkeys(("auprc", "average_precision"), "pr_auc"),
    **dict.fromkeys(("auc", "auroc"), "roc_auc"),
}
_OLD = {"recall_at_fpr": "recall@fpr=0.01", "partial_roc_auc": "roc_auc@fpr=0.1"}
"""Older spellings without a number, and their former defaults."""
_AT_FPR = ("recall", "roc_auc")
_BINNED = {"ece": "uniform", "ece_equal_mass": "quantile"}
METRIC_NAMES = (*_PLAIN, *_OLD, *_BINNED, *QUANTITIES)
_SHOWN = (*_PLAIN, "recall@fpr=0.01", "roc_auc@fpr=0.1", "ece=15", "ece_equal_mass=15", "f1@0.5")
_OTHERS = QUANTITIES[1:]

_NUMBER = r"([+-]?[0-9.]+(?:e[+-]?\d+)?)"
_STORED = tuple(
    (re.compile(pattern), spelling)
    for pattern, spelling in (
        (rf"op_({'|'.join(QUANTITIES)})_at_(.+)", r"\1@\2"),
        (rf"recall_at_fpr_{_NUMBER}", r"recall@fpr=\1"),
        (rf"roc_auc_max_fpr_{_NUMBER}", r"roc_auc@fpr=\1"),
        (r"ece_n_bins_(\d+)_strategy_uniform", r"ece=\1"),
        (r"ece_n_bins_(\d+)_strategy_quantile", r"ece_equal_mass=\1"),
        (rf"({'|'.join(QUANTITIES)})=(.+)", r"\1@\2"),
        (r"recall_at_fpr=(.+)", r"recall@fpr=\1"),
        (r"partial_roc_auc=(.+)", r"roc_auc@fpr=\1"),
    )
)
"""Stored names and older spellings, mapped to the grammar."""


def named(name: str, *, at: At = None) -> MetricSpec:
    """Return the metric of labels and scores with the given name.

    Parameters
    ----------
    name : str
        Name in the grammar of this module: ``roc_auc``, ``f1@0.5``, ``recall@fpr=0.01``,
        ``ece=15``; a stored name or an older spelling.
    at : float, FittedOperatingPoint or ThresholdSelector, optional
        Threshold for a threshold metric whose name contains none, such as ``f1``; by default 0.5.

    Returns
    -------
    MetricSpec
        Spec for `scorecard`, `evaluate`, `summarise` and `bootstrap_ci`.

    Raises
    ------
    MissingColumnError
        If no metric has that name (also a ValueError and a KeyError); the message suggests the nearest one.
    InvalidInputError
        If an argument is out of range.

    Examples
    --------
    >>> named("f1@0.5").name, named("recall@fpr=0.01").name, named("ece=10").name
    ('op_f1_at_0.5', 'recall_at_fpr_0.01', 'ece_n_bins_10_strategy_uniform')
    >>> named("F1", at=0.3).compute([0, 1], [0.2, 0.7])
    1.0
    >>> named("birer")
    Traceback (most recent call last):
        ...
    eval_toolkit.errors.MissingColumnError: there is no metric 'birer'; did you mean brier?
    """
    if not isinstance(name, str) or not name.strip():
        raise InvalidInputError(f"`metric` is {name!r}; it must be a non-empty string")
    key, sign, value = _parsed(name)
    if sign == "" and key in _PLAIN:
        return _plain(key)
    if key in _BINNED and sign in ("", "="):
        return _binned(key, _number(name, value, f"{key}=15") if sign else 15)
    if sign == "@" and value.partition("=")[0] == "fpr" and key in _AT_FPR:
        return _at_fpr(key, _number(name, value.partition("=")[2], f"{key}@fpr=0.01"))
    if key in QUANTITIES and sign != "=" and (sign or at is not None):
        return _of_decisions(key, _number(name, value, f"{key}@0.5") if sign else at)
    return _of_catalogue(name, key, sign)


def chosen_metrics(
    metrics: Sequence[MetricSpec | str] | None, *, at: At = None
) -> list[MetricSpec]:
    """Return metrics specified as specs or names, or the default metrics.

    Parameters
    ----------
    metrics : sequence of MetricSpec or str, optional
        Specs, or names as accepted by `named`. By default PR-AUC, ROC-AUC, Brier score and
        log-loss, with a threshold also F1, precision, recall and false-positive rate.
    at : float, FittedOperatingPoint or ThresholdSelector, optional
        Threshold for threshold metrics whose name contains none.

    Returns
    -------
    list of MetricSpec
        Specs in the given order; names that refer to a metric already in the list are dropped.

    Raises
    ------
    InvalidTypeError
        If ``metrics`` is a single name or spec.
    MissingColumnError
        If no metric has that name (also a ValueError and a KeyError).

    Examples
    --------
    >>> [spec.name for spec in chosen_metrics(None)]
    ['pr_auc', 'roc_auc', 'brier', 'log_loss']
    >>> [spec.name for spec in chosen_metrics(["brier", "f1"], at=0.3)]
    ['brier', 'op_f1_at_0.3']
    """
    if metrics is None:
        from eval_toolkit.metric_specs.scores import DEFAULT_METRICS

        more = _DEFAULT_AT_THRESHOLD if at is not None else ()
        return [*DEFAULT_METRICS, *(_of_decisions(key, at) for key in more)]
    if isinstance(metrics, str):
        raise InvalidTypeError(f"`metrics` is a string; pass a list: [{metrics!r}]")
    if hasattr(metrics, "compute"):
        raise InvalidTypeError(f"`metrics` is a single spec; pass a list: [{metrics.name}]")  # type: ignore[attr-defined]
    try:
        given = list(metrics)
    except TypeError:
        raise InvalidTypeError(
            f"`metrics` is {metrics!r}; it must be a list of specs or names"
        ) from None
    specs: list[MetricSpec] = []
    for one in given:
        spec = named(one, at=at) if isinstance(one, str) else one
        if one is spec or all(spec.name != other.name for other in specs):
            specs.append(spec)
    return specs


def stored_name(name: str) -> str:
    """Return the name under which a metric is stored; unknown names are returned unchanged.

    Examples
    --------
    >>> stored_name("f1@0.5"), stored_name("exact_match_pass@4"), stored_name("words=3")
    ('op_f1_at_0.5', 'exact_match_pass@4', 'words=3')
    """
    try:
        return named(name).name
    except InvalidInputError:
        return name


def quantity_of(name: str) -> str | None:
    """Return the base metric of a stored threshold metric name; None for other metrics.

    Examples
    --------
    >>> quantity_of("op_f1_at_max_f1_fitted_on_val"), quantity_of("pr_auc")
    ('f1', None)
    """
    match = _STORED[0][0].fullmatch(name)
    return match[1] if match else None


def _parsed(name: str) -> tuple[str, str, str]:
    """Return the metric, the separator (``@``, ``=`` or nothing) and the value after it."""
    text = re.sub(r"\s*([@=])\s*", r"\1", name.strip().lower())
    head, rest = re.fullmatch(r"([^@=]*)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    for spelled in (text, head.replace("-", "_") + rest):
        for pattern, grammar in _STORED:
            if match := pattern.fullmatch(spelled):
                return _split(match.expand(grammar))
    return _split(_OLD.get(spelled, spelled))


def _split(text: str) -> tuple[str, str, str]:
    key, sign, value = re.fullmatch(r"([^@=]*)([@=]?)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    return _SYNONYMS.get(key, key), sign, value


def _plain(key: str) -> ScoreSpec:
    from eval_toolkit.metric_specs.scores import DEFAULT_METRICS

    for spec in DEFAULT_METRICS:
        if spec.name == key:
            return spec
    from eval_toolkit.metric_specs.calibration import smooth_ece

    return smooth_ece


def _at_fpr(key: str, limit: float) -> ScoreSpec:
    from eval_toolkit.metric_specs.scores import partial_roc_auc, recall_at_fpr

    return recall_at_fpr(limit) if key == "recall" else partial_roc_auc(limit)


def _binned(key: str, n_bins: float) -> ScoreSpec:
    if n_bins != int(n_bins) or n_bins > MAX_BINS:
        raise InvalidInputError(
            f"{key}={n_bins:g}: the number of bins must be an integer of at most {MAX_BINS}"
        )
    from eval_toolkit.metric_specs.calibration import ece

    return ece(n_bins=int(n_bins), strategy=_BINNED[key])


def _of_decisions(key: str, at: At) -> MetricSpec:
    from eval_toolkit.metric_specs import at_threshold

    spec: MetricSpec = getattr(at_threshold, f"op_{key}")(at)
    return spec


def _of_catalogue(name: str, key: str, sign: str) -> MetricSpec:
    """Return a catalogue metric such as ``calibration_slope``; raise for other names."""
    from eval_toolkit.inference.statistics import statistic_for
    from eval_toolkit.metric_specs.scores import ScoreSpec
    from eval_toolkit.metrics import CATALOGUE

    if not sign and key in CATALOGUE:
        info = CATALOGUE[key]
        statistic = statistic_for(info.function)
        return ScoreSpec(key, info.function, statistic, info.higher_is_better is not False)
    if key in _PLAIN or key in CATALOGUE or key in _BINNED:
        raise MissingColumnError(f"there is no metric {name!r}; {_remedy(key)}")
    raise MissingColumnError(f"there is no metric {name!r}; {nearest(key, (*_SHOWN, *_OTHERS))}")


def _remedy(key: str) -> str:
    """Return the valid spellings of a metric used with an invalid parameter."""
    ways = [f"{key}@0.5"] if key in QUANTITIES else [f"{key}=15" if key in _BINNED else key]
    return "write " + " or ".join([*ways, *([f"{key}@fpr=0.01"] if key in _AT_FPR else [])])


def _number(name: str, text: str, example: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
        if text.strip("+-") not in ("nan", "inf", "infinity"):
            raise MissingColumnError(
                f"metric {name!r}: {text!r} is not a number; write {example}"
            ) from None
    if not math.isfinite(number):
        raise MissingColumnError(
            f"metric {name!r}: {text!r} is not a finite number; write {example}"
        )
    return number
