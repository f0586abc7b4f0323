"""Cells of runs with a stopping rule, whose intervals are valid under early stopping."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from eval_toolkit.metric_specs import ColumnSpec
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.scorecards import MetricResult, Records, Scorecard
from eval_toolkit.tasks.sequential_draws import DrawnUnits, known_values, looks
from eval_toolkit.tasks.stopping_watch import MACRO, Decision, Watch, is_bounded

_OF_FIXED_NUMBER = ("standard_error", "bounds_ci")
"""Details that are valid only if the number of units is fixed in advance."""
_OF_REACHED = ("exclude", "as_zero", "worst", "best")
"""Details that are means over only the subjects reached."""
_NOT_REACHED = "not reached before the run stopped"


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
    """Return a cell with an interval that is valid under early stopping.

    Parameters
    ----------
    cell : MetricResult
        Cell of the counted units, with an interval for a fixed number of units.
    records : Records
        Records of the counted units.
    spec : MetricSpec
        Metric of the cell.
    watch : Watch
        Stopping rule applied to the run.
    decision : Decision
        Decision that stopped the run.
    subject : str, optional
        Subject of the cell; by default, all subjects.
    macro : bool, default False
        Whether the cell is the mean over subjects.

    Returns
    -------
    MetricResult
        The same value with the interval of a confidence sequence, regardless of the metric that the
        rule watched; if there is none, the interval is None and a reason is given. If some subjects
        were not reached, a mean over subjects is estimated from the draws, or skipped if the metric
        has no bounds. ``details`` contains ``n_planned``, ``n_saved`` and the reason ``stopped``,
        but neither the standard error nor ``bounds_ci``, which assume a fixed number of units.

    Examples
    --------
    >>> from eval_toolkit import metric_specs as ms
    >>> from eval_toolkit.models.messages import Message
    >>> from eval_toolkit.scorecards import summarise
    >>> from eval_toolkit.tasks.stopping import UntilWidth
    >>> from eval_toolkit.tasks.types import Sample
    >>> samples = [Sample(f"q{n}", "", [Message("user", "?")]) for n in range(1000)]
    >>> right = ms.mean_of("right", bounds=(0.0, 1.0))
    >>> watch = UntilWidth(0.1, scope="benchmark").watch(samples, [right])
    >>> ids = [sample.id for sample in watch.samples[:80]]
    >>> records = Records.from_columns({"right": [1] * 80}, unit_id=ids)
    >>> decision = watch.look(records)
    >>> counted = records.take([unit in ids[: decision.n_used] for unit in records.unit_id])
    >>> cell = summarise(counted, [right])["right"]
    >>> stopped = stopped_cell(cell, counted, right, watch, decision)
    >>> f"{cell:.2f}", f"{stopped:.2f}", stopped.details["n_saved"]
    ('1.00 [0.94, 1.00]', '1.00 [0.90, 1.00]', 936)
    """
    samples = [one for one in watch.samples if subject is None or one.subject == subject]
    reached = [one for one in watch.counted(decision) if subject is None or one.subject == subject]
    planned, there = ({one.subject for one in given} for given in (samples, reached))
    lacking = len(planned - there) if macro else 0
    gone = (*_OF_FIXED_NUMBER, *(_OF_REACHED if lacking else ()))
    details = {
        **{name: value for name, value in cell.details.items() if name not in gone},
        "n_planned": len(samples),
        "n_saved": len(samples) - len(reached),
        "stopped": decision.reason,
    }
    cell = replace(cell, ci=None, details=details)
    left = f"{lacking} of {len(planned)} subjects {_NOT_REACHED}" if lacking else ""
    if cell.value is None:
        return _noted(cell, left)
    if not is_bounded(spec):
        if lacking:
            return _noted(replace(cell, value=None, status="skipped"), left)
        reason = f"the run was stopped early, and {spec.name} has no interval that is valid under early stopping"
        return _noted(cell, reason)
    found = looks(
        DrawnUnits.of(samples, macro=macro),
        known_values(records, spec),
        spec.bounds,
        confidence=watch.confidence,
        whole=watch.whole,
    )
    ci, value = found.at(len(found)), cell.value
    if lacking:
        value = min(max(ci.point_estimate, ci.ci_low), ci.ci_high)
        left += ", the value is estimated for all"
    cell = replace(cell, value=value, ci=replace(ci, point_estimate=value))
    return _noted(cell, left, ci.reason)


def _noted(cell: MetricResult, *said: str) -> MetricResult:
    return replace(cell, reason="; ".join(filter(None, (*said, cell.reason))))


def stopped_card(
    card: Scorecard,
    records: Records,
    metrics: Sequence[MetricSpec],
    watch: Watch,
    decision: Decision,
) -> Scorecard:
    """Apply `stopped_cell` to all cells of a scorecard.

    Parameters
    ----------
    card : Scorecard
        Scorecard of the counted units, as returned by `scorecards.task_scorecard`.
    records, metrics, watch, decision
        As in `stopped_cell`; ``metrics`` are all metrics of the card.

    Returns
    -------
    Scorecard
        Scorecard with the adjusted cells, overall, by subject and over subjects. Cells of subjects
        that were not reached are skipped.

    Examples
    --------
    >>> from eval_toolkit import metric_specs as ms
    >>> from eval_toolkit.models.messages import Message
    >>> from eval_toolkit.scorecards import summarise
    >>> from eval_toolkit.tasks.stopping import UntilWidth
    >>> from eval_toolkit.tasks.types import Sample
    >>> samples = [Sample(f"q{n}", "", [Message("user", "?")]) for n in range(40)]
    >>> right = ms.mean_of("right", bounds=(0.0, 1.0))
    >>> watch = UntilWidth(0.1, scope="benchmark").watch(samples, [right])
    >>> records = Records.from_columns({"right": [1] * 40}, unit_id=[s.id for s in samples])
    >>> decision = watch.look(records)
    >>> counted = records.take(
    ...     [unit in {s.id for s in watch.counted(decision)} for unit in records.unit_id]
    ... )
    >>> card = stopped_card(summarise(counted, [right]), counted, [right], watch, decision)
    >>> card["right"].ci.method
    'betting sequence without replacement'
    """
    card = _with_all_subjects(card, metrics, watch, decision)

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
    return Scorecard(cells(card, None), parts, card.by)


def _with_all_subjects(
    card: Scorecard, metrics: Sequence[MetricSpec], watch: Watch, decision: Decision
) -> Scorecard:
    """Add cells for planned subjects that were not reached, and means over subjects."""
    planned = sorted({one.subject for one in watch.samples})
    if len(planned) < 2:
        return card
    cells, parts = dict(card), dict(card.slices)
    if not parts:  # all counted units belong to one subject
        parts = {watch.counted(decision)[0].subject: card}
        for spec in metrics:
            if isinstance(spec, ColumnSpec):
                about = {"by": "subject", "n_parts": 1, "higher_is_better": spec.higher_is_better}
                cells[f"{spec.name}{MACRO}"] = replace(card[spec.name], details=about)
    none = MetricResult(None, "skipped", _NOT_REACHED, n_units=0, n_groups=0)
    blank = Scorecard({spec.name: none for spec in metrics})
    return Scorecard(cells, {name: parts.get(name, blank) for name in planned}, "subject")
