"""The results of a run that a rule may have stopped: cells whose intervals allow for it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from eval_toolkit.protocols import MetricSpec
from eval_toolkit.scorecards import MetricResult, Records, Scorecard
from eval_toolkit.tasks.drawing import Drawn, known_values, looks
from eval_toolkit.tasks.watching import MACRO, Decision, Watch, is_bounded

__all__ = ["stopped_card", "stopped_cell"]


def stopped_cell(
    cell: MetricResult,
    records: Records,
    spec: MetricSpec,
    watch: Watch,
    decision: Decision,
    *,
    subject: str | None = None,
    macro: bool = False,
) -> MetricResult:
    """Return the cell of a run that a rule may have stopped: with an interval that allows for it.

    Parameters
    ----------
    cell : MetricResult
        Of the counted units, with the interval of a fixed number of them.
    records : Records
        Of the counted units.
    spec : MetricSpec
        Of the cell.
    watch : Watch
        Of the rule.
    decision : Decision
        That ended the run.
    subject : str, optional
        Of the cell; all by default.
    macro : bool, default False
        Whether it is the mean over subjects.

    Returns
    -------
    MetricResult
        The same value; the interval is that of a confidence sequence, whatever metric the rule
        watched, and None with a reason where there is none. ``details`` hold ``n_planned``,
        ``n_saved`` and why it ``stopped``, and no standard error, which is of a fixed number.

    Examples
    --------
    >>> from eval_toolkit import metric_specs as ms
    >>> from eval_toolkit.messages import Message
    >>> from eval_toolkit.scorecards import summarise
    >>> from eval_toolkit.tasks.stopping import UntilWidth
    >>> from eval_toolkit.tasks.types import Sample
    >>> samples = [Sample(f"q{n}", "", [Message("user", "?")]) for n in range(1000)]
    >>> right = ms.mean_of("right", bounds=(0.0, 1.0))
    >>> watch = UntilWidth(0.1).watch(samples, [right])
    >>> ids = [sample.id for sample in watch.samples[:80]]
    >>> records = Records.from_columns({"right": [1] * 80}, unit_id=ids)
    >>> decision = watch.look(records)
    >>> counted = records.take([unit in ids[: decision.n_used] for unit in records.unit_id])
    >>> cell = summarise(counted, [right])["right"]
    >>> told = stopped_cell(cell, counted, right, watch, decision)
    >>> f"{cell:.2f}", f"{told:.2f}", told.details["n_saved"]
    ('1.00 [0.94, 1.00]', '1.00 [0.90, 1.00]', 936)
    """
    kept = {name: value for name, value in cell.details.items() if name != "standard_error"}
    samples = [one for one in watch.samples if subject is None or one.subject == subject]
    n_used = sum(subject is None or one.subject == subject for one in watch.counted(decision))
    details = {
        **kept,
        "n_planned": len(samples),
        "n_saved": len(samples) - n_used,
        "stopped": decision.reason,
    }
    ci, value = None, cell.value
    if is_bounded(spec) and n_used and value is not None:
        drawn = Drawn.of(samples, macro=macro)
        found = looks(
            drawn,
            known_values(records, spec),
            spec.bounds,
            confidence=watch.confidence,
            whole=watch.whole,
        )
        ci = replace(found.at(len(found)), point_estimate=value)
    reason = cell.reason
    if ci is None and cell.status == "ok":
        said = f"the run was stopped by a rule, and {spec.name} has no interval that allows for it"
        reason = "; ".join(filter(None, (said, reason)))
    return replace(cell, ci=ci, reason=reason, details=details)


def stopped_card(
    card: Scorecard,
    records: Records,
    metrics: Sequence[MetricSpec],
    watch: Watch,
    decision: Decision,
) -> Scorecard:
    """Return the cells of a run that a rule may have stopped, each as `stopped_cell` returns it.

    Parameters
    ----------
    card : Scorecard
        What `reporting.task_scorecard` made of the counted units.
    records, metrics, watch, decision
        As in `stopped_cell`; all metrics of the card.

    Returns
    -------
    Scorecard
        Over all, by subject, and over subjects.

    Examples
    --------
    >>> from eval_toolkit import metric_specs as ms
    >>> from eval_toolkit.messages import Message
    >>> from eval_toolkit.scorecards import summarise
    >>> from eval_toolkit.tasks.stopping import UntilWidth
    >>> from eval_toolkit.tasks.types import Sample
    >>> samples = [Sample(f"q{n}", "", [Message("user", "?")]) for n in range(40)]
    >>> right = ms.mean_of("right", bounds=(0.0, 1.0))
    >>> watch = UntilWidth(0.1).watch(samples, [right])
    >>> records = Records.from_columns({"right": [1] * 40}, unit_id=[s.id for s in samples])
    >>> decision = watch.look(records)
    >>> counted = records.take(
    ...     [unit in {s.id for s in watch.counted(decision)} for unit in records.unit_id]
    ... )
    >>> card = stopped_card(summarise(counted, [right]), counted, [right], watch, decision)
    >>> card["right"].ci.method
    'betting sequence without replacement'
    """

    def cells(part: Mapping[str, MetricResult], subject: str | None) -> dict[str, MetricResult]:
        made = dict(part)
        for spec in metrics:
            for name, macro in ((spec.name, False), (f"{spec.name}{MACRO}", True)):
                if name in part:
                    made[name] = stopped_cell(
                        part[name], records, spec, watch, decision, subject=subject, macro=macro
                    )
        return made

    parts = {name: Scorecard(cells(part, name)) for name, part in card.slices.items()}
    return Scorecard(cells(card, None), parts)
