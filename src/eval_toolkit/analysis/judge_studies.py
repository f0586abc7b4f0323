"""Judge studies: agreement of a judge with human labels, and the corrected rate."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.validation import BoolArray
from eval_toolkit.errors import InvalidInputError, MissingColumnError
from eval_toolkit.inference import (
    CorrectedRate,
    CorrectionRule,
    JudgeAgreement,
    VarianceComponents,
    judge_agreement,
    variance_components,
)
from eval_toolkit.inference.judged.rates import rates_by_method
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, DEFAULT_N_RESAMPLES
from eval_toolkit.metrics.agreement import KappaWeights, MeasurementLevel
from eval_toolkit.scorecards import Records
from eval_toolkit.seeds import SeedLike

_BY_VERDICT = (
    "labels were sampled by verdict: only precision and negative precision are valid for all "
    "records"
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class JudgeStudy(Displayed):
    """Agreement of a judge with human labels, its raw rate, and the corrected rate.

    Examples
    --------
    >>> records = Records.from_columns(
    ...     {"judge": [1, 0, 1, 1, 0, 1], "human": [1, 0, 0, None, None, None]}
    ... )
    >>> study = judge_study(records, judge="judge", human="human")
    >>> study.n_records, study.n_labels
    (6, 3)
    """

    judge: str
    human: str
    """Names of the columns."""
    agreement: JudgeAgreement
    corrected: CorrectedRate
    """Rate corrected with the requested method."""
    estimates: Mapping[str, CorrectedRate]
    """Rates by method; "raw" uses the uncorrected verdicts."""
    skipped: Mapping[str, str]
    """Methods that are not applicable, and the reasons."""
    n_records: int
    """Number of records with a verdict."""
    n_labels: int
    n_unjudged: int
    """Number of records without a verdict (failed or skipped), which are excluded throughout."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict, with the estimates as rows of a table."""
        rows = [estimate.to_dict() for estimate in self.estimates.values()]
        return {
            "judge": self.judge,
            "human": self.human,
            "n_records": self.n_records,
            "n_labels": self.n_labels,
            "n_unjudged": self.n_unjudged,
            "method": self.corrected.method,
            "estimates": rows,
            "skipped": dict(self.skipped),
            "agreement": self.agreement.to_dict(),
        }


def judge_study(
    records: Records,
    *,
    judge: str,
    human: str,
    method: CorrectionRule = "ppi++",
    by_verdict: bool = False,
    weights: KappaWeights = None,
    level: MeasurementLevel = "nominal",
    confidence: float = DEFAULT_CONFIDENCE,
    n_resamples: int = DEFAULT_N_RESAMPLES,
    seed: SeedLike = None,
) -> JudgeStudy:
    """Compare a column of verdicts with a column of human labels, and correct the rate.

    Parameters
    ----------
    records : Records
        Records with both columns; missing human labels have the status "skipped".
    judge, human : str
        Names of the columns, which contain 0/1 values or grades.
    method : {"ppi++", "ppi", "rogan-gladen", "labels-only", "raw"}, default "ppi++"
        Method used for the main estimate; see `corrected_rate`. The estimates by the other methods
        are included for comparison.
    by_verdict : bool, default False
        Whether labels were sampled by verdict, with fixed numbers of positive and negative
        verdicts; see Notes.
    weights : {None, "linear", "quadratic"}, default None
        Weighting of kappa for ordered grades.
    level : {"nominal", "ordinal", "interval", "ratio"}, default "nominal"
        Level of measurement for alpha.
    confidence : float, default 0.95
        Confidence level of all intervals.
    n_resamples : int, default 1000
        Number of resamples for Krippendorff's alpha.
    seed : int, optional
        Random seed.

    Returns
    -------
    JudgeStudy
        Study; attempts at the same unit, and units in the same group, are treated as clusters.

    Raises
    ------
    MissingColumnError
        If a column does not exist.
    InvalidInputError
        If no record has both values, the labels are not a random sample of the records (and
        ``by_verdict`` is not set), or ``by_verdict`` is used with groups.
    UndefinedMetricError
        If the requested method is undefined for the data.

    Notes
    -----
    Agreement is measured on the labelled records. With labels sampled by verdict, these are a
    random sample only within each verdict, so precision and negative precision remain valid.
    Agreement, kappa, alpha, sensitivity, specificity and bias are None, and the methods
    "rogan-gladen" and "labels-only" are not available.

    Examples
    --------
    >>> verdicts = [1, 0, 1, 1, 0, 0, 1, 0, 1, 0] * 20
    >>> labels = [1, 0, 0, 1, 0, 0, 1, 0, 1, 0] * 4 + [None] * 160
    >>> records = Records.from_columns({"judge": verdicts, "human": labels})
    >>> study = judge_study(records, judge="judge", human="human")
    >>> f"{study.estimates['raw']:.2f}", f"{study.corrected:.2f}"
    ('0.50 [0.43, 0.57]', '0.40 [0.29, 0.52]')
    """
    verdicts, judged = _column(records, judge)
    labels, labelled = _column(records, human)
    if not judged.any():
        raise InvalidInputError(f"no record has a value in the column {judge!r}")
    given = verdicts[judged]
    truths = np.where(labelled, labels, np.nan)[judged]
    options: dict[str, Any] = {"groups": _groups(records, judged), "confidence": confidence}
    agreement = judge_agreement(
        given,
        truths,
        weights=weights,
        level=level,
        n_resamples=n_resamples,
        seed=seed,
        **options,
    )
    if by_verdict:
        agreement = _within_verdicts(agreement)
        options["strata"] = given
    estimates, missing = rates_by_method(given, truths, **options)
    if method in missing:
        raise missing[method]
    return JudgeStudy(
        judge=judge,
        human=human,
        agreement=agreement,
        corrected=estimates[method],
        estimates=estimates,
        skipped={rule: str(error) for rule, error in missing.items()},
        n_records=len(given),
        n_labels=estimates[method].n_labels,
        n_unjudged=int((~judged).sum()),
    )


def variance_study(
    records: Records, column: str, *, factors: tuple[str, ...] | list[str] = ()
) -> VarianceComponents:
    """Decompose a column's variance into units, attempts and the slices that were varied.

    Parameters
    ----------
    records : Records
        Records with several attempts per unit.
    column : str
        Column to decompose; only values with the status "ok" are used.
    factors : sequence of str, optional
        Slices that vary within units, such as the prompt, the seed or the judge.

    Returns
    -------
    VarianceComponents
        Result of `variance_components`, in which units are the "item" source. Groups of units are
        ignored: the standard errors assume independent units.

    Raises
    ------
    MissingColumnError
        If the column or a slice does not exist.
    InvalidInputError
        If the design cannot separate the sources.
    UndefinedMetricError
        If every unit has only one value.

    Examples
    --------
    >>> records = Records.from_columns(
    ...     {"correct": [1, 1, 0, 0, 1, 0]}, unit_id=["a", "a", "b", "b", "c", "c"]
    ... )
    >>> round(variance_study(records, "correct").shares["item"], 3)
    0.5
    """
    values, measured = _column(records, column)
    if not measured.any():
        raise InvalidInputError(f"no record has a value in the column {column!r}")
    for name in factors:
        if name not in records.slices:
            raise MissingColumnError(
                f"the records have no slice {name!r}; they have {sorted(records.slices)}"
            )
    return variance_components(
        values[measured],
        records.unit_id[measured].astype(str),
        factors={name: records.slices[name][measured].astype(str) for name in factors},
    )


def _within_verdicts(agreement: JudgeAgreement) -> JudgeAgreement:
    """Return the estimates that are valid if labels are random only within each verdict."""
    return replace(
        agreement,
        agreement=None,
        kappa=None,
        alpha=None,
        sensitivity=None,
        specificity=None,
        bias=None,
        reason="; ".join(filter(None, (agreement.reason, _BY_VERDICT))),
    )


def _column(records: Records, name: str) -> tuple[NDArray[np.float64], BoolArray]:
    numbers = records.numbers
    if name not in numbers:
        raise MissingColumnError(
            f"the records have no numeric column {name!r}; they have {sorted(numbers)}"
        )
    return numbers[name], np.asarray(records.status[name] == "ok", dtype=np.bool_)


def _groups(records: Records, rows: BoolArray) -> NDArray[Any] | None:
    """Return the group of each record; None if records are independent."""
    groups = records.group[rows].astype(str)
    return groups if len(np.unique(groups)) < len(groups) else None
