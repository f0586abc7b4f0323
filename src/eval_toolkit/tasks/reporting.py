"""What the results of a task say: a cell per metric, per subject and over all, errors in the open."""

from collections.abc import Mapping, Sequence
from typing import Any

from eval_toolkit import metric_specs as ms
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders import ColumnInfo
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE
from eval_toolkit.protocols import Grader, MetricSpec
from eval_toolkit.runs.cells import card_entry
from eval_toolkit.scorecards import Records, Scorecard
from eval_toolkit.scorecards.policies import with_error_policies

__all__ = ["by_slice", "task_metrics", "task_scorecard"]

_SUBJECT = "subject"


def task_metrics(
    columns: Mapping[str, ColumnInfo],
    *,
    pass_at: Sequence[int] = (),
    pass_hat: Sequence[int] = (),
    maj_at: Sequence[int] = (),
    graders: Sequence[Grader] = (),
) -> list[MetricSpec]:
    """Return the metrics of a task: the mean of each graded column, and pass@k of right-or-wrong.

    Parameters
    ----------
    columns : mapping of str to ColumnInfo
        As `measuring.grader_columns` returns them.
    pass_at, pass_hat : sequence of int
        Each k of pass@k (one of k attempts succeeds) and of pass^k (all of them do).
    maj_at : sequence of int
        Each k of maj@k (the majority answer of k attempts is right), for columns with answers
        beside them; `graders.with_answers` gives graders that fill them.
    graders : sequence of Grader
        Those that have ``metrics()`` name metrics of their columns that are no means, such as a
        calibration error or the BLEU of a corpus.

    Returns
    -------
    list of MetricSpec
        For `summarise`.

    Raises
    ------
    InvalidInputError
        If a k is below 1, or there are some and no column says right or wrong, or what was
        answered.

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
            f"pass@k is for columns of right or wrong; there are {', '.join(columns)}"
        )
    if maj_at and not any(f"{name}_answer" in columns for name in binary):
        raise InvalidInputError(
            "maj@k needs a column of answers beside one of right or wrong; use "
            f"graders.with_answers. There are {', '.join(columns)}"
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
    """Summarise the records of a task, over all and by subject.

    Parameters
    ----------
    records : Records
        What `measuring.measure` returned.
    metrics : sequence of MetricSpec
        What `task_metrics` returned.
    on_error : {"exclude", "as_zero", "fail"}, default "exclude"
        What a failed attempt counts as in value and interval; as in `summarise`.
    confidence, seed
        As in `summarise`.

    Returns
    -------
    Scorecard
        With a card per subject in ``slices``, and ``<metric>_macro`` (each subject counting the
        same) where there are several. Where attempts failed, ``details`` hold ``error_rate`` and
        what the value is with them left out (``exclude``), counted as 0 (``as_zero``; as the worst
        where 0 is best), and at the worst and best they could have been (``worst``, ``best``; None
        where there is no bound). ``bounds_ci`` holds the mean whatever they would have been: see
        `inference.missing_bounds`.

    Raises
    ------
    InvalidInputError
        If an attempt failed and ``on_error`` is "fail".

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


def by_slice(task: str, model: str, records: Records, card: Scorecard) -> dict[str, Any]:
    """Return the cells of one task and model in the shape that results have on disk.

    Parameters
    ----------
    task, model : str
        Names of the task and of the model.
    records : Records
        Of the task.
    card : Scorecard
        What `task_scorecard` made of them.

    Returns
    -------
    dict
        ``{task: {"n": …, "by_scorer": {model: cells}, "parts": {"subject=…": …}}}``.

    Examples
    --------
    >>> records = Records.from_columns({"right": [1, 0]}, unit_id=["a", "b"])
    >>> card = task_scorecard(records, [ms.mean_of("right", bounds=(0.0, 1.0))])
    >>> by_slice("quiz", "m", records, card)["quiz"]["by_scorer"]["m"]["right"]["value"]
    0.5
    """
    return {task: card_entry(model, records, card, by=_SUBJECT)}
