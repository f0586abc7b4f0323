"""Operating points: thresholds selected on one slice and applied to others."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.validation import BoolArray, FloatArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.metrics import (
    DEFAULT_ASSUMED_PRIORS,
    expected_calibration_error,
    expected_calibration_error_equal_mass,
    metrics_at_threshold,
    pr_auc,
    precision_at_prior,
    roc_auc,
    single_class_threshold_metrics,
    stratified_recall,
)
from eval_toolkit.protocols import ThresholdSelector
from eval_toolkit.thresholds import MaxF1Selector, TargetRecallSelector

__all__ = [
    "FittedOperatingPoint",
    "OperatingPointSpec",
    "apply_operating_points",
    "fit_operating_points",
    "headline_metrics",
]


_T = TypeVar("_T")


def _items(values: Iterable[_T], name: str) -> tuple[_T, ...]:
    if not isinstance(values, Iterable):
        raise InvalidTypeError(f"`{name}` is {values!r}; it must be a sequence")
    return tuple(values)


def _names(values: str | Iterable[str], name: str) -> tuple[str, ...]:
    names = (values,) if isinstance(values, str) else _items(values, name)
    for value in names:
        if not isinstance(value, str) or not value:
            raise InvalidInputError(
                f"`{name}` contains {value!r}; it must contain non-empty strings"
            )
    return names


def _selectors(selectors: Iterable[ThresholdSelector]) -> tuple[ThresholdSelector, ...]:
    """Return the selectors; raise unless there is at least one and criteria are unique."""
    chosen = _items(selectors, "selectors")
    if not chosen:
        raise InvalidInputError("`selectors` is empty; at least one is needed")
    position: dict[str, int] = {}
    for index, selector in enumerate(chosen):
        if isinstance(selector, type) or not isinstance(selector, ThresholdSelector):
            raise InvalidTypeError(f"selectors[{index}] is {selector!r}; it must be a selector")
        first = position.setdefault(selector.criterion, index)
        if first != index:
            raise InvalidInputError(
                f"selectors[{first}] and selectors[{index}] share the criterion "
                f"{selector.criterion!r}; criteria must be unique"
            )
    return chosen


@dataclass(frozen=True, slots=True)
class OperatingPointSpec:
    """Specification of thresholds to select on one slice and apply to others.

    Attributes
    ----------
    fit_slice : str
        Slice on which thresholds are selected.
    apply_slices : sequence of str
        Slices to which the thresholds are applied.
    selectors : sequence of ThresholdSelector
        Selectors with unique criteria.
    name : str, default "transferred"
        Key under which the results are stored.
    scorer_names : sequence of str
        Scorers to include; all scorers if empty.

    Raises
    ------
    InvalidInputError
        If a name is empty, there are no slices or selectors, or two selectors share a criterion.
    InvalidTypeError
        If an object is not a threshold selector.

    Examples
    --------
    >>> spec = OperatingPointSpec("val", ["test"], [MaxF1Selector()])
    >>> spec.apply_slices, spec.name
    (('test',), 'transferred')
    """

    fit_slice: str
    apply_slices: Sequence[str]
    selectors: Sequence[ThresholdSelector]
    name: str = "transferred"
    scorer_names: Sequence[str] = ()

    def __post_init__(self) -> None:
        _names(self.fit_slice, "fit_slice")
        _names(self.name, "name")
        object.__setattr__(self, "apply_slices", _names(self.apply_slices, "apply_slices"))
        object.__setattr__(self, "scorer_names", _names(self.scorer_names, "scorer_names"))
        object.__setattr__(self, "selectors", _selectors(self.selectors))
        if not self.apply_slices:
            raise InvalidInputError("`apply_slices` is empty; at least one slice is needed")


@dataclass(frozen=True, slots=True, repr=False)
class FittedOperatingPoint(Displayed):
    """Threshold, with its selection criterion and provenance.

    Examples
    --------
    >>> point = fit_operating_points([0, 1], [0.2, 0.7], [MaxF1Selector()])["max_f1"]
    >>> point.threshold, point.n_fit
    (0.7, 2)
    """

    criterion: str
    threshold: float
    fitted_on_slice: str
    scorer_name: str
    n_fit: int
    n_positive_fit: int
    n_negative_fit: int
    fit_metrics: Mapping[str, Any] = field(hash=False)
    """`metrics_at_threshold` on the data used for selection; optimistic."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "criterion": self.criterion,
            "threshold": self.threshold,
            "fitted_on_slice": self.fitted_on_slice,
            "scorer_name": self.scorer_name,
            "n_fit": self.n_fit,
            "n_positive_fit": self.n_positive_fit,
            "n_negative_fit": self.n_negative_fit,
            "fit_metrics": dict(self.fit_metrics),
        }


def fit_operating_points(
    y_true: ArrayLike,
    y_score: ArrayLike,
    selectors: Iterable[ThresholdSelector],
    *,
    fitted_on_slice: str = "",
    scorer_name: str = "",
) -> dict[str, FittedOperatingPoint]:
    """Select one threshold per selector, with provenance.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1; both must occur.
    y_score : array-like of shape (n,)
        Scores; higher means more positive.
    selectors : iterable of ThresholdSelector
        Selectors with unique criteria.
    fitted_on_slice, scorer_name : str
        Slice and scorer to store as provenance.

    Returns
    -------
    dict
        `FittedOperatingPoint` by criterion, in the order of the selectors.

    Raises
    ------
    InvalidInputError
        If the arrays are invalid, there are no selectors, or two share a criterion.
    UndefinedMetricError
        If only one class is present.
    InfeasibleError
        If a selector finds no feasible threshold.

    Examples
    --------
    >>> fitted = fit_operating_points([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], [MaxF1Selector()])
    >>> fitted["max_f1"].threshold
    0.35
    """
    chosen = _selectors(selectors)
    labels, scores = validation.binary_pair(y_true, y_score)
    validation.both_classes(labels, "fit_operating_points")
    n_positive = int(labels.sum())
    fitted = {}
    for selector in chosen:
        threshold = selector.select(labels, scores).threshold
        fitted[selector.criterion] = FittedOperatingPoint(
            criterion=selector.criterion,
            threshold=threshold,
            fitted_on_slice=fitted_on_slice,
            scorer_name=scorer_name,
            n_fit=len(labels),
            n_positive_fit=n_positive,
            n_negative_fit=len(labels) - n_positive,
            fit_metrics=metrics_at_threshold(labels, scores, threshold),
        )
    return fitted


def apply_operating_points(
    y_true: ArrayLike,
    y_score: ArrayLike,
    fitted: Mapping[str, FittedOperatingPoint],
    *,
    applied_to_slice: str = "",
    scorer_name: str = "",
) -> dict[str, dict[str, Any]]:
    """Compute metrics at previously fitted thresholds.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1; a single class is allowed.
    y_score : array-like of shape (n,)
        Scores of the same scorer.
    fitted : mapping of str to FittedOperatingPoint
        Operating points from `fit_operating_points`.
    applied_to_slice : str
        Name of the slice that these rows belong to.
    scorer_name : str
        Name of the scorer; by default taken from the fitted points.

    Returns
    -------
    dict
        `metrics_at_threshold` (or `single_class_threshold_metrics` if there is a single class) by
        criterion, with ``threshold_provenance`` added.

    Raises
    ------
    InvalidInputError
        If the arrays are invalid, or a point was fitted for another scorer.
    InvalidTypeError
        If ``fitted`` is not a mapping to fitted points.

    Examples
    --------
    >>> fitted = fit_operating_points(
    ...     [0, 1], [0.2, 0.7], [MaxF1Selector()], fitted_on_slice="val"
    ... )
    >>> applied = apply_operating_points([0, 1, 1], [0.9, 0.8, 0.1], fitted)
    >>> applied["max_f1"]["recall"], applied["max_f1"]["threshold_provenance"]["fitted_on_slice"]
    (0.5, 'val')
    """
    labels, scores = validation.binary_pair(y_true, y_score)
    _check_fitted(fitted)
    one_class = labels.all() or not labels.any()
    measure = single_class_threshold_metrics if one_class else metrics_at_threshold
    applied = {}
    for criterion, point in fitted.items():
        if scorer_name and point.scorer_name and scorer_name != point.scorer_name:
            raise InvalidInputError(
                f"the threshold {criterion!r} was fitted for scorer {point.scorer_name!r} and "
                f"cannot be applied to {scorer_name!r}: their scores may have different scales"
            )
        applied[criterion] = measure(labels, scores, point.threshold) | {
            "threshold_provenance": {
                "criterion": criterion,
                "fitted_on_slice": point.fitted_on_slice,
                "applied_to_slice": applied_to_slice,
                "scorer_name": scorer_name or point.scorer_name,
                "threshold": point.threshold,
                "n_fit": point.n_fit,
                "n_positive_fit": point.n_positive_fit,
                "n_negative_fit": point.n_negative_fit,
            }
        }
    return applied


def _check_fitted(fitted: Mapping[str, FittedOperatingPoint]) -> None:
    if not isinstance(fitted, Mapping):
        raise InvalidTypeError(
            "`fitted` must map criteria to fitted points, as fit_operating_points returns them; "
            f"got {fitted!r}"
        )
    for criterion, point in fitted.items():
        if not isinstance(point, FittedOperatingPoint):
            raise InvalidTypeError(
                f"fitted[{criterion!r}] is {point!r}; it must be a FittedOperatingPoint"
            )


_HEADLINE_SELECTORS = (
    MaxF1Selector(),
    TargetRecallSelector(recall=0.90),
    TargetRecallSelector(recall=0.95),
)


def headline_metrics(
    y_true: ArrayLike,
    y_score: ArrayLike,
    strata: ArrayLike | None = None,
    assumed_priors: Sequence[float] = DEFAULT_ASSUMED_PRIORS,
) -> dict[str, Any]:
    """Return headline metrics, without intervals, as a dict.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1.
    y_score : array-like of shape (n,)
        Scores; higher means more positive.
    strata : array-like of shape (n,), optional
        Stratum of each row; adds ``per_stratum_recall_at_max_f1``.
    assumed_priors : sequence of float, default (0.001, 0.01, 0.05)
        Prevalences at which precision at the max-F1 threshold is projected.

    Returns
    -------
    dict
        ``n``, ``n_positive``, ``pr_auc``, ``roc_auc``, ``operating_points`` (``max_f1``,
        ``recall_0.90``, ``recall_0.95``, each a `metrics_at_threshold` dict), ``ece_equal_width``,
        ``ece_equal_mass``, ``ece`` (alias of ``ece_equal_width``) and ``precision_at_prior`` by
        prior. An undefined calibration error (scores outside [0, 1], fewer rows than bins) is None,
        with the reason in ``ece_equal_width_error`` or ``ece_equal_mass_error``. With a single
        class, the AUCs are None, ``single_class_label`` and ``metric_note`` are added, and entries
        that need both classes are ``{"skipped": reason}``.

    Raises
    ------
    InvalidInputError
        If the arrays are invalid or a prior is not strictly between 0 and 1.
    InvalidTypeError
        If ``assumed_priors`` is not a sequence of numbers.

    Notes
    -----
    Thresholds are selected and evaluated on the same rows, which is optimistic. For unbiased
    results, select thresholds on other rows with `fit_operating_points`.

    Examples
    --------
    >>> headline = headline_metrics([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    >>> headline["roc_auc"], headline["operating_points"]["max_f1"]["threshold"]
    (0.75, 0.35)
    """
    labels, scores = validation.binary_pair(y_true, y_score)
    given = _items(assumed_priors, "assumed_priors")
    priors = [validation.fraction(prior, "assumed_priors") for prior in given]
    headline: dict[str, Any] = {"n": len(labels), "n_positive": int(labels.sum())}
    if labels.all() or not labels.any():
        return headline | _one_class(labels, scores, strata, priors)
    points = fit_operating_points(labels, scores, _HEADLINE_SELECTORS)
    threshold = points["max_f1"].threshold
    headline |= {
        "pr_auc": pr_auc(labels, scores),
        "roc_auc": roc_auc(labels, scores),
        "operating_points": {name: dict(point.fit_metrics) for name, point in points.items()},
        **_calibration_errors(labels, scores),
        "precision_at_prior": {
            str(prior): precision_at_prior(labels, scores, threshold, prior) for prior in priors
        },
    }
    if strata is not None:
        headline["per_stratum_recall_at_max_f1"] = stratified_recall(
            labels, scores, threshold, strata
        )
    return headline


def _one_class(
    labels: BoolArray, scores: FloatArray, strata: ArrayLike | None, priors: list[float]
) -> dict[str, Any]:
    """Return the headline metrics for a single class; undefined metrics are marked skipped."""
    label = int(labels[0])
    note = f"all {len(labels)} rows have label {label}; ranking and thresholds need both classes"
    headline: dict[str, Any] = {
        "pr_auc": None,
        "roc_auc": None,
        "single_class_label": label,
        "metric_note": note,
        "operating_points": {
            selector.criterion: {"skipped": note} for selector in _HEADLINE_SELECTORS
        },
        **_calibration_errors(labels, scores),
        "precision_at_prior": {str(prior): {"skipped": note} for prior in priors},
    }
    if strata is not None:
        headline["per_stratum_recall_at_max_f1"] = {"skipped": note}
    return headline


def _calibration_errors(labels: BoolArray, scores: FloatArray) -> dict[str, Any]:
    errors: dict[str, Any] = {}
    kinds = {
        "ece_equal_width": expected_calibration_error,
        "ece_equal_mass": expected_calibration_error_equal_mass,
    }
    for name, metric in kinds.items():
        try:
            errors[name] = metric(labels, scores)
        except InvalidInputError as error:
            errors[name], errors[f"{name}_error"] = None, str(error)
    return errors | {"ece": errors["ece_equal_width"]}
