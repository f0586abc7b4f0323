"""Agreement between judges and human labels, and between judges."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.validation import BoolArray, IntArray
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.inference.agreement import alpha_interval, clustered_rate, kappa_interval
from eval_toolkit.inference.means import paired_mean_diff
from eval_toolkit.inference.paired_proportions import tango_interval
from eval_toolkit.inference.proportions import ProportionInterval
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, DEFAULT_N_RESAMPLES, BootstrapCI
from eval_toolkit.metrics.agreement import KappaWeights, MeasurementLevel, label_codes
from eval_toolkit.seeds import SeedLike

_INTERVALS = (
    *("agreement", "kappa", "alpha", "bias"),
    *("sensitivity", "specificity", "precision", "negative_precision"),
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class JudgeAgreement(Displayed):
    """Agreement between a judge's verdicts and human labels of the same units.

    Examples
    --------
    >>> judge_agreement([1, 0, 1, 1], [1, 0, 0, None]).n_units
    3
    """

    agreement: ProportionInterval | None
    """Fraction of units with equal labels; None if the labelled units are not representative."""
    kappa: BootstrapCI | None
    """Cohen's kappa; None if undefined (see ``reason``)."""
    alpha: BootstrapCI | None
    """Krippendorff's alpha with the judge and the humans as two raters."""
    sensitivity: ProportionInterval | None
    """Fraction of human positives that the judge labels positive; None without two classes."""
    specificity: ProportionInterval | None
    """Fraction of human negatives that the judge labels negative."""
    precision: ProportionInterval | None
    """Fraction of judge positives that humans label positive."""
    negative_precision: ProportionInterval | None
    """Fraction of judge negatives that humans label negative."""
    bias: BootstrapCI | None
    """Fraction of judge positives minus fraction of human positives, on the same units."""
    labels: tuple[Any, ...]
    table: tuple[tuple[int, ...], ...]
    """Confusion matrix: human labels in rows, verdicts in columns, in the order of ``labels``."""
    positive: Any
    confidence: float
    n_units: int
    """Number of units with a verdict and a human label."""
    n_groups: int | None
    n_unlabelled: int
    """Number of units with a verdict but no human label."""
    n_unjudged: int
    """Number of units without a verdict."""
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        intervals = {name: getattr(self, name) for name in _INTERVALS}
        return {
            **{name: ci and ci.to_dict() for name, ci in intervals.items()},
            "labels": list(self.labels),
            "table": [list(row) for row in self.table],
            "positive": self.positive,
            "confidence": self.confidence,
            "n_units": self.n_units,
            "n_groups": self.n_groups,
            "n_unlabelled": self.n_unlabelled,
            "n_unjudged": self.n_unjudged,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AgreementMatrix(Displayed):
    """Pairwise and overall agreement between raters.

    Examples
    --------
    >>> agreement_matrix({"x": [1, 0, 1], "y": [1, 0, 0], "z": [1, 1, 1]}).names
    ('x', 'y', 'z')
    """

    names: tuple[str, ...]
    pairs: Mapping[tuple[str, str], JudgeAgreement]
    alpha: BootstrapCI | None
    """Krippendorff's alpha over all raters."""
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict, with the pairs as rows."""
        rows = [{"a": a, "b": b, **pair.to_dict()} for (a, b), pair in self.pairs.items()]
        return {
            "names": list(self.names),
            "pairs": rows,
            "alpha": self.alpha and self.alpha.to_dict(),
            "reason": self.reason,
        }


def judge_agreement(
    judge: ArrayLike | Sequence[Any],
    human: ArrayLike | Sequence[Any],
    *,
    groups: ArrayLike | None = None,
    positive: Any = None,
    labels: Sequence[Any] | None = None,
    weights: KappaWeights = None,
    level: MeasurementLevel = "nominal",
    confidence: float = DEFAULT_CONFIDENCE,
    n_resamples: int = DEFAULT_N_RESAMPLES,
    seed: SeedLike = None,
) -> JudgeAgreement:
    """Compare a judge's verdicts with human labels: agreement, kappa, alpha, confusion and bias.

    Parameters
    ----------
    judge, human : sequence of shape (n,)
        Labels of the same units: 0/1, grades or strings; None or NaN if missing. Only units with
        both labels are compared; the others are counted.
    groups : array-like of shape (n,), optional
        Group of each unit; answers to the same question, or turns of the same conversation, are not
        independent.
    positive : optional
        Positive class for sensitivity and specificity; by default 1 for 0/1 labels.
    labels : sequence, optional
        Classes in order; by default sorted.
    weights : {None, "linear", "quadratic"}, default None
        Weighting of kappa for ordered classes.
    level : {"nominal", "ordinal", "interval", "ratio"}, default "nominal"
        Level of measurement for alpha.
    confidence : float, default 0.95
        Two-sided confidence level of all intervals.
    n_resamples : int, default 1000
        Number of resamples for the interval of alpha.
    seed : int, optional
        Random seed.

    Returns
    -------
    JudgeAgreement
        Agreement with intervals (Wilson for proportions); undefined values are None, with a reason.

    Raises
    ------
    InvalidInputError
        If lengths differ, the labels mix strings and numbers, or no unit has both labels.

    Notes
    -----
    With groups, intervals use the effective number of clustered units (`clustered_rate`). A judge
    may agree with humans on nearly every unit and still be biased: `corrected_rate` estimates the
    rate that human labels would give.

    Examples
    --------
    >>> judge = [1, 1, 1, 0, 0, 0, 1, 0, 1, 1, 0, 0]
    >>> human = [1, 1, 0, 0, 0, 0, 1, 1, 1, None, None, None]
    >>> result = judge_agreement(judge, human)
    >>> result.n_units, round(result.agreement.proportion, 3), result.table
    (9, 0.778, ((3, 1), (1, 4)))
    >>> round(result.sensitivity.low, 3), round(result.sensitivity.high, 3)
    (0.376, 0.99)
    """
    confidence = validation.fraction(confidence, "confidence")
    verdicts, truths = _entries(judge, "judge"), _entries(human, "human")
    validation.same_length(verdicts, truths, ("judge", "human"))
    judged, labelled = _present(verdicts), _present(truths)
    both = judged & labelled
    if not both.any():
        raise InvalidInputError("no unit has both a verdict and a human label to compare")
    keys = None if groups is None else validation.group_codes(groups, len(both))[0][both]
    verdicts, truths = verdicts[both], truths[both]
    codes, classes = _classes(verdicts, truths, labels)
    predicted, true = codes[: len(verdicts)], codes[len(verdicts) :]
    reasons: list[str] = []
    target = _positive(classes, positive, reasons)
    size = len(classes)
    table = np.bincount(true * size + predicted, minlength=size**2).reshape(size, size)
    kappa = _or_reason(
        reasons,
        lambda: kappa_interval(
            predicted, true, weights=weights, labels=range(size), groups=keys, confidence=confidence
        ),
    )
    rated = [predicted, true] if level in ("nominal", "ordinal") else [verdicts, truths]
    draws = {"confidence": confidence, "n_resamples": n_resamples, "seed": seed}
    alpha = _or_reason(
        reasons,
        lambda: alpha_interval(rated, level=level, groups=keys, **draws),  # type: ignore[arg-type]
    )
    shares = _shares(predicted == target, true == target, keys, confidence, known=target >= 0)
    return JudgeAgreement(
        agreement=clustered_rate(predicted == true, keys, confidence),
        kappa=kappa,
        alpha=alpha,
        **shares,
        labels=tuple(classes),
        table=tuple(tuple(row) for row in table.tolist()),
        positive=classes[target] if target >= 0 else None,
        confidence=confidence,
        n_units=int(both.sum()),
        n_groups=None if keys is None else len(np.unique(keys)),
        n_unlabelled=int((judged & ~labelled).sum()),
        n_unjudged=int((~judged).sum()),
        reason="; ".join(reasons),
    )


def agreement_matrix(
    raters: Mapping[str, ArrayLike | Sequence[Any]],
    *,
    groups: ArrayLike | None = None,
    positive: Any = None,
    labels: Sequence[Any] | None = None,
    weights: KappaWeights = None,
    level: MeasurementLevel = "nominal",
    confidence: float = DEFAULT_CONFIDENCE,
    n_resamples: int = DEFAULT_N_RESAMPLES,
    seed: SeedLike = None,
) -> AgreementMatrix:
    """Compare several raters, judges or humans, pairwise and jointly.

    Parameters
    ----------
    raters : mapping of name to sequence of shape (n,)
        Labels of the same units; None or NaN if missing.
    groups, positive, labels, weights, level, confidence, n_resamples, seed
        As in `judge_agreement`.

    Returns
    -------
    AgreementMatrix
        One `JudgeAgreement` per pair; the second rater takes the role of the human.

    Raises
    ------
    InvalidInputError
        If there are fewer than two raters, lengths differ, or two raters share no unit.

    Notes
    -----
    Intervals are not corrected for the number of pairs.

    Examples
    --------
    >>> matrix = agreement_matrix({"x": [1, 0, 1, 0], "y": [1, 0, 0, 0]})
    >>> matrix.pairs["x", "y"].agreement.proportion
    0.75
    """
    if len(raters) < 2:
        raise InvalidInputError(f"`raters` has {len(raters)} entries; at least two are needed")
    shared = {
        "groups": groups,
        "labels": labels,
        "level": level,
        "confidence": confidence,
        "n_resamples": n_resamples,
        "seed": seed,
    }
    pairs = {
        (a, b): judge_agreement(raters[a], raters[b], positive=positive, weights=weights, **shared)  # type: ignore[arg-type]
        for a, b in combinations(raters, 2)
    }
    reasons: list[str] = []
    rows = [_entries(ratings, name) for name, ratings in raters.items()]
    together = _or_reason(reasons, lambda: alpha_interval(rows, **shared))  # type: ignore[arg-type]
    return AgreementMatrix(
        names=tuple(raters), pairs=pairs, alpha=together, reason="; ".join(reasons)
    )


def _entries(values: Any, name: str) -> NDArray[Any]:
    """Return labels as objects; numbers and booleans keep their types."""
    array = validation.identifiers(values, name)
    entries = np.empty(len(array), dtype=object)
    entries[:] = array.tolist()
    return entries


def _present(values: NDArray[Any]) -> BoolArray:
    return np.array([not validation.is_missing(value) for value in values], dtype=np.bool_)


def _classes(
    verdicts: NDArray[Any], truths: NDArray[Any], labels: Sequence[Any] | None
) -> tuple[IntArray, list[Any]]:
    together = np.concatenate([verdicts, truths])
    kinds = {isinstance(value, str) for value in together}
    if len(kinds) > 1:
        raise InvalidInputError(
            "`judge` and `human` contain strings and numbers; both must use the same type of labels"
        )
    if labels is None and all(value in (0, 1) for value in together):
        labels = (0, 1)  # even if one of them does not occur
    codes, n_classes = label_codes(together, labels, "judge")
    if labels is not None:
        return codes, list(labels)
    classes: list[Any] = [None] * n_classes
    for code, value in zip(codes.tolist(), together.tolist(), strict=True):
        classes[code] = value
    return codes, classes


def _positive(classes: list[Any], positive: Any, reasons: list[str]) -> int:
    """Return the index of the positive class, or −1 if there is none."""
    if positive is not None:
        if len(classes) > 2:
            raise InvalidInputError(
                f"`positive` needs two classes, but there are {len(classes)}; compare one class "
                "with the rest by passing 0/1 labels"
            )
        if positive not in classes:
            raise InvalidInputError(f"`positive` is {positive!r}; the classes are {classes}")
        return classes.index(positive)
    if len(classes) == 2 and all(value in (0, 1) for value in classes):
        return classes.index(1)
    reasons.append(
        "sensitivity is undefined: it requires two classes, one of which must be `positive`"
    )
    return -1


def _or_reason(reasons: list[str], interval: Callable[[], BootstrapCI]) -> BootstrapCI | None:
    try:
        return interval()
    except UndefinedMetricError as error:
        reasons.append(str(error))
    except InvalidInputError as error:  # too few units for a bootstrap; the data were checked
        reasons.append(str(error))
    return None


def _shares(
    flagged: BoolArray, true: BoolArray, keys: IntArray | None, confidence: float, *, known: bool
) -> dict[str, Any]:
    """Return the rates of the confusion matrix and the bias; None without a positive class."""
    names = ("sensitivity", "specificity", "precision", "negative_precision", "bias")
    if not known:
        return dict.fromkeys(names)

    def share(hits: BoolArray, among: BoolArray) -> ProportionInterval:
        return clustered_rate(hits[among], None if keys is None else keys[among], confidence)

    return {
        "sensitivity": share(flagged, true),
        "specificity": share(~flagged, ~true),
        "precision": share(true, flagged),
        "negative_precision": share(~true, ~flagged),
        "bias": _bias(flagged, true, keys, confidence),
    }


def _bias(
    flagged: BoolArray, true: BoolArray, keys: IntArray | None, confidence: float
) -> BootstrapCI | None:
    more, fewer = int((flagged & ~true).sum()), int((true & ~flagged).sum())
    plain = tango_interval(more, fewer, len(true), confidence=confidence)
    if keys is None:
        return plain
    if len(np.unique(keys)) < 2:
        return None
    paired = paired_mean_diff(true, flagged, groups=keys, bounds=(0.0, 1.0), confidence=confidence)
    if paired.ci_low is None or paired.ci_high is None:
        return None
    # Clusters that all agree show no spread; the interval of independent units is then the least.
    return BootstrapCI(
        paired.delta,
        max(-1.0, min(paired.ci_low, plain.ci_low)),
        min(1.0, max(paired.ci_high, plain.ci_high)),
        confidence,
        0,
        paired.method,
        n_units=paired.n_units,
        n_groups=paired.n_groups,
    )
