"""Metrics and scorecards of tasks, overall and by subject."""

from collections.abc import Mapping, Sequence

from eval_toolkit import metric_specs as ms
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders import ColumnInfo
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE
from eval_toolkit.protocols import Grader, MetricSpec
from eval_toolkit.scorecards import Records, Scorecard
from eval_toolkit.scorecards.policies import with_error_policies

_SUBJECT = "subject"


def task_metrics(
    columns: Mapping[str, ColumnInfo],
    *,
    pass_at: Sequence[int] = (),
    pass_hat: Sequence[int] = (),
    maj_at: Sequence[int] = (),
    graders: Sequence[Grader] = (),
) -> list[MetricSpec]:
    """Return the metrics of a task: column means, and pass@k of binary columns.

    ``pass_at`` contains the values of k for pass@k (at least one of k attempts succeeds),
    ``pass_hat`` those for pass^k (all k attempts succeed), and ``maj_at`` those for maj@k (the
    majority answer of k attempts is correct). maj@k requires columns with answers, which graders
    returned by `graders.with_answers` provide. Graders with a ``metrics()`` method provide metrics
    that are not column means, such as a calibration error or corpus-level BLEU.

    Examples
    --------
    >>> from eval_toolkit.graders import ExactMatch
    >>> [spec.name for spec in task_metrics(ExactMatch().columns(), pass_at=[4])]
    ['exact_match', 'exact_match_pass@4']
    """
    specs: list[MetricSpec] = []
    binary = [name for name, info in columns.items() if info.metric and info.binary]
    if (pass_at or pass_hat) and not binary:
        raise InvalidInputError(
            f"pass@k needs a binary column; the columns are {', '.join(columns)}"
        )
    if maj_at and not any(f"{name}_answer" in columns for name in binary):
        raise InvalidInputError(
            "maj@k needs a binary column and a column of its answers; use "
            f"graders.with_answers. The columns are {', '.join(columns)}"
        )
    for name, info in columns.items():
        up = info.higher_is_better
        if info.metric:
            kind: ms.ColumnKind | None = "share" if info.binary else None
            specs.append(ms.mean_of(name, higher_is_better=up, bounds=info.bounds, kind=kind))
        if name in binary:
            specs += [ms.pass_at_k(name, k, higher_is_better=up) for k in pass_at]
            specs += [ms.pass_hat_k(name, k, higher_is_better=up) for k in pass_hat]
        if name in binary and (answer := f"{name}_answer") in columns:
            specs += [ms.maj_at_k(name, k, answer=answer) for k in maj_at]
    for grader in graders:
        own = getattr(grader, "metrics", None)
        specs += list(own()) if callable(own) else []
    return specs


def task_scorecard(
    records: Records,
    metrics: Sequence[MetricSpec],
    *,
    on_error: str = "exclude",
    confidence: float = DEFAULT_CONFIDENCE,
    seed: int = 42,
) -> Scorecard:
    """Summarise the records of a task, overall and by subject.

    Options are as in `summarise`. With several subjects, ``slices`` contains one card per subject,
    and ``<metric>_macro`` weights all subjects equally. If attempts failed, ``details`` contains
    ``error_rate`` and the value with failures excluded (``exclude``), counted as 0 (``as_zero``; as
    the worst value if 0 is best), and replaced by their worst and best possible values (``worst``,
    ``best``; None without bounds). ``bounds_ci`` covers the mean for any values of the failures;
    see `inference.missing_bounds`.

    Examples
    --------
    >>> records = Records.from_columns(
    ...     {"right": [1, 0, None, 1]}, unit_id=list("abcd"),
    ...     status={"right": ["ok", "ok", "error", "ok"]},
    ... )
    >>> card = task_scorecard(records, [ms.mean_of("right", bounds=(0.0, 1.0))])
    >>> details = card["right"].details
    >>> details["as_zero"], details["worst"], details["best"], details["error_rate"]
    (0.5, 0.5, 0.75, 0.25)
    """
    return with_error_policies(
        records,
        metrics,
        by=_SUBJECT,
        macro=True,
        on_error=on_error,
        confidence=confidence,
        seed=seed,
    )
