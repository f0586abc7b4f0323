"""Convert log samples to records, and compute cells from them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from eval_toolkit import metric_specs as ms
from eval_toolkit._internal.hashing import content_hash
from eval_toolkit._internal.plain import whole_text
from eval_toolkit.errors import EvalToolkitError, InvalidInputError
from eval_toolkit.graders import ColumnInfo, Grade
from eval_toolkit.graders.base import TEXT
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE
from eval_toolkit.integrations.importing.logs import Log, LoggedSample
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.runs.cells import card_entry
from eval_toolkit.scorecards import Records, Scorecard, summarise
from eval_toolkit.scorecards.parts import format_part
from eval_toolkit.scorecards.policies import with_error_policies
from eval_toolkit.tasks.scorecards import task_metrics

SEED = 42
UNSCORED = "score"
"""Placeholder column for samples without any scores."""
_UNFILLED = Grade.skipped("the log contains no value")
_RATE, _ANY = (0.0, 1.0), ColumnInfo().bounds
_REASON_LENGTH = 300
_OF_SCORES = (ms.pr_auc, ms.roc_auc, ms.brier, ms.log_loss)
_OF_PROBABILITIES = ("brier", "log_loss")


def log_records(log: Log) -> Records:
    """Return the samples of a log as records, one per item and attempt.

    The content hash covers input and target.

    Examples
    --------
    >>> sample = LoggedSample(unit_id="1", input="2 + 2 =", target="4", values={"acc": 1.0})
    >>> log_records(Log(tool="lm-eval", task="sums", model="m", samples=[sample])).columns["acc"]
    array([1.])
    """
    samples = log.samples
    names = dict.fromkeys(whole_text(name) for sample in samples for name in sample.values)
    if not samples:
        raise InvalidInputError(f"{_place(log)}: {log.task}: there are no samples")
    if not names:  # answers without scores are kept, too
        names = dict.fromkeys(whole_text(one.column) for one in log.stated) or {UNSCORED: None}
    values, status, reason = _filled(samples, list(names))
    parts = list(dict.fromkeys(name for sample in samples for name in sample.parts))
    try:
        return Records.from_columns(
            values,
            unit_id=[whole_text(sample.unit_id) for sample in samples],
            attempt=[sample.attempt for sample in samples],
            group=[whole_text(s.unit_id if s.group is None else s.group) for s in samples],
            slices={
                whole_text(part): [whole_text(s.parts.get(part, "(none)")) for s in samples]
                for part in parts
            },
            content_hash=[_content(sample) for sample in samples],
            status=status,
            reason=reason,
        )
    except EvalToolkitError as error:
        raise InvalidInputError(f"{_place(log)}: {log.task}: {error}") from error


def _content(sample: LoggedSample) -> str:
    return "" if sample.input is None else content_hash(sample.input, sample.target)


def _filled(
    samples: Sequence[LoggedSample], names: Sequence[str]
) -> tuple[dict[str, list[Any]], dict[str, list[str]], dict[str, list[str]]]:
    """Return values, statuses and reasons by column, with one entry per sample."""
    n = len(samples)
    values: dict[str, list[Any]] = {name: [None] * n for name in names}
    status = {name: ["ok"] * n for name in names}
    reason = {name: [""] * n for name in names}
    for at, sample in enumerate(samples):
        for name in names:
            value = sample.values.get(name, _UNFILLED)
            if isinstance(value, Grade):
                values[name][at] = value.value
                status[name][at] = value.status
                reason[name][at] = " ".join(whole_text(value.reason).split())[:_REASON_LENGTH]
            else:
                values[name][at] = value
    return values, status, reason


def log_columns(log: Log, records: Records) -> dict[str, ColumnInfo]:
    """Return the direction of each column, and whether it is binary.

    A column is binary if every value is 0 or 1 and either the tool defines it as binary, its name
    implies it, or both values occur. A column that is defined as binary but has values between 0
    and 1 is a share.

    Examples
    --------
    >>> sample = LoggedSample(unit_id="1", values={"ppl": 3.5})
    >>> log = Log(tool="t", task="a", model="m", samples=[sample])
    >>> log_columns(log, log_records(log))["ppl"].higher_is_better
    False
    """
    columns = dict.fromkeys(records.texts, TEXT)
    for name, values in records.numbers.items():
        there = values[records.status[name] == "ok"]
        declared: Any = "share" if name in log.binary else None
        binary = (
            bool(len(there)) and ms.mean_of(name, kind=declared).of_column(there).kind == "share"
        )
        share = name in log.binary and bool(((there >= 0.0) & (there <= 1.0)).all())
        columns[name] = ColumnInfo(
            higher_is_better=log.direction(name),
            bounds=_RATE if binary or share else _ANY,
            binary=binary,
        )
    return columns


def log_card(log: Log, records: Records) -> Scorecard:
    """Return the cells of a log: means with intervals, or metrics of labels and scores.

    Attempts are averaged per item first, and groups are resampled as a whole. Failed attempts are
    excluded; their number and possible effect on the value are reported.

    Examples
    --------
    >>> samples = [LoggedSample(unit_id=str(n), values={"acc": float(n > 2)}) for n in range(10)]
    >>> log = Log(tool="t", task="a", model="m", samples=samples)
    >>> cell = log_card(log, log_records(log))["acc"]
    >>> cell.value, cell.ci.method
    (0.7, 'wilson')
    """
    if log.kind == "rows":
        return _of_scores(records)
    return with_error_policies(records, _metrics(log, records), seed=SEED)


def _metrics(log: Log, records: Records) -> list[MetricSpec]:
    return task_metrics(log_columns(log, records))


def _of_scores(records: Records) -> Scorecard:
    card = summarise(records, list(_OF_SCORES), confidence=DEFAULT_CONFIDENCE, seed=SEED)
    scores = records.columns["score"]
    low, high = float(scores.min()), float(scores.max())
    if low >= 0.0 and high <= 1.0:
        return card
    why = f"needs probabilities, but the scores range from {low:g} to {high:g}"
    return Scorecard(
        {
            name: replace(cell, status="skipped", value=None, reason=why)
            if name in _OF_PROBABILITIES and cell.status == "error"
            else cell
            for name, cell in card.items()
        }
    )


def by_slice(log: Log, records: Records, card: Scorecard) -> dict[str, Any]:
    """Return the cells in the format of stored results, with a block for each part.

    Examples
    --------
    >>> samples = [
    ...     LoggedSample(unit_id=str(n), values={"acc": 1.0}, parts={"topic": "ab"[n % 2]})
    ...     for n in range(4)
    ... ]
    >>> log = Log(tool="t", task="quiz", model="m", samples=samples)
    >>> records = log_records(log)
    >>> found = by_slice(log, records, log_card(log, records))["quiz"]
    >>> found["n"], sorted(found["parts"])
    (4, ['topic=a', 'topic=b'])
    """
    if log.kind == "rows":
        return _rows_by_slice(log, records, card)
    made = card_entry(log.model, records, card)
    for part in records.slices:
        of_part = with_error_policies(records, _metrics(log, records), by=part, seed=SEED)
        inside = card_entry(log.model, records, of_part, by=part)
        if "parts" in inside:
            made.setdefault("parts", {}).update(inside["parts"])
    return {log.task: made}


def _rows_by_slice(log: Log, records: Records, card: Scorecard) -> dict[str, Any]:
    entry = _rows_entry(log.model, records, card)
    parts = {
        format_part({key: value}): records.take(values == value)
        for key, values in records.slices.items()
        for value in sorted(set(values.tolist()))
    }
    if parts:
        entry["parts"] = {
            name: _rows_entry(log.model, mine, _of_scores(mine)) for name, mine in parts.items()
        }
    return {log.task: entry}


def _rows_entry(model: str, records: Records, card: Scorecard) -> dict[str, Any]:
    n, n_positive = len(records), int(records.columns["label"].sum())
    counts = {"n": n, "n_positive": n_positive}
    block = {**card.to_dict(), **counts, "is_single_class": n_positive in (0, n)}
    return {**counts, "by_scorer": {model: block}}


def _place(log: Log) -> str:
    return str(log.files[0]) if log.files else log.tool
