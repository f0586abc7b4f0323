"""Read judge verdicts and human labels from files and runs, and plan additional labels."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import click
import numpy as np

from eval_toolkit._internal import tables
from eval_toolkit._internal.display import Number, Table
from eval_toolkit._internal.tables import Rows, number_in, read_rows
from eval_toolkit.cli._options import passing
from eval_toolkit.errors import EvalToolkitError, InvalidInputError
from eval_toolkit.inference import LabelPlan, LabelRule, plan_labels
from eval_toolkit.loaders.columns import IDS, id_names, named_column
from eval_toolkit.runs import Run
from eval_toolkit.scorecards import Records

_ATTEMPT = "attempt"
_SHOWN = 5
LABEL_RULES: tuple[LabelRule, ...] = ("ppi++", "by-verdict", "rogan-gladen", "labels-only")
_ANY = 1e9
"""Arbitrary half-width for plans of which only the attainable widths are used."""
_DRAWN = {
    "ppi++": "random sample, with the judge's verdicts",
    "by-verdict": "sampled by verdict (pass --by-verdict)",
    "rogan-gladen": "a separate set of labels",
    "labels-only": "random sample, human labels only",
}


@dataclass(frozen=True)
class Judged:
    """Records with columns for verdicts and human labels, and the source of the records."""

    records: Records
    judge: str
    human: str
    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()


_OPTIONS = (
    click.option("--judge", required=True, metavar="COLUMN", help=(
        "Column with the judge's verdicts."
    )),
    click.option("--human", required=True, metavar="COLUMN",
                 help="Column with human labels; empty for rows without one."),
    click.option("--labels", metavar="FILE", type=click.Path(exists=True, dir_okay=False),
                 help="File with human labels, if they are not in SOURCE; joined on --id."),
    click.option("--id", "key", metavar="COLUMN",
                 help=(
                    "Column with row ids; by default unit_id, row_id, id or a similar name such"
                    " as message_id."
                 )),
    click.option("--group", metavar="COLUMN",
                 help=(
                    "Group column; rows in the same group are not independent. Not needed for a"
                    " run, which stores its own groups."
                 )),
    click.option("--positive", metavar="LABEL", multiple=True,
                 help=(
                     "Label that counts as 1 if labels are strings; all others count as 0. "
                     "Repeatable."
                 )),
)  # fmt: skip


def _read(
    source: str,
    judge: str,
    human: str,
    labels: str | None,
    key: str | None,
    group: str | None,
    positive: Sequence[str],
) -> Judged:
    if labels is None and judge == human:
        raise click.UsageError(
            "--judge and --human name the same column; choose two different columns"
        )
    if Path(source).is_dir():
        if group is not None:
            raise click.UsageError("--group applies to files; a run stores its own groups")
        return _of_run(source, judge, human, labels, key, positive)
    file = Path(source)
    have = tables.column_names(file)
    own = [judge] if labels else [judge, human]
    for name, option in ((judge, "--judge"), (human, "--human"), (group, "--group")):
        if name in (*own, group) and name is not None:
            named_column(file, have, name, (), option)
    found = _key(file, have, key, needed=labels is not None)
    tried = _ATTEMPT if labels and _ATTEMPT in have else None
    rows = read_rows(file, texts=[name for name in (*own, group, found, tried) if name])
    ids = None if found is None else _all_there(rows, found)
    attempts = None if tried is None else _all_there(rows, tried)
    beside = _joined(labels, human, key, ids, attempts, str(file)) if labels else None
    columns = [(rows, judge), (rows, human) if beside is None else (beside.rows, human)]
    verdicts, truths = _numbers(columns, positive)
    if beside is not None:
        truths = beside.spread(truths)
        human = human if human != judge else f"{human} of {labels}"
    records = Records.from_columns(
        {judge: verdicts, human: truths},
        unit_id=ids,
        group=None if group is None else _all_there(rows, group),
    )
    files = (file, *([Path(labels)] if labels else []))
    return Judged(records, judge, human, files, beside.notes if beside else ())


def _of_run(
    source: str,
    judge: str,
    human: str,
    labels: str | None,
    key: str | None,
    positive: Sequence[str],
) -> Judged:
    run = Run.open(source)
    if len(run.subjects) != 1:
        raise InvalidInputError(
            f"{source}: has records for {len(run.subjects)} pairs of slice and scorer; a study "
            "needs a run with exactly one"
        )
    records = run.records(*run.subjects[0])
    if judge not in records.numbers:
        have = ", ".join(map(repr, records.numbers))
        raise InvalidInputError(f"{source}: there is no column {judge!r} (--judge); it has {have}")
    if labels is None:
        if human not in records.numbers:
            raise InvalidInputError(
                f"{source}: there is no column {human!r} (--human); if the human labels are in "
                "another file, pass it with --labels"
            )
        return Judged(records, judge, human, (run.path,))
    ids = records.unit_id.astype(str).tolist()
    beside = _joined(labels, human, key, ids, records.attempt.tolist(), source)
    (truths,) = _numbers([(beside.rows, human)], positive)
    name = human if human not in records.columns else f"{human} of {labels}"
    said = zip(records.columns[judge].tolist(), records.status[judge].tolist(), strict=True)
    both = Records.from_columns(
        {
            judge: [value if status == "ok" else None for value, status in said],
            name: beside.spread(truths),
        },
        unit_id=ids,
        attempt=records.attempt,
        group=records.group,
        status={judge: records.status[judge].tolist()},
        reason={judge: records.reason[judge].tolist()},
    )
    return Judged(both, judge, name, (run.path, Path(labels)), beside.notes)


@dataclass(frozen=True)
class _LabelRows:
    """Rows of a label file, matched to the records."""

    rows: Rows
    at: list[int | None]
    notes: tuple[str, ...]

    def spread(self, values: Sequence[float | None]) -> list[float | None]:
        """Return the label of each record; None for records without one."""
        return [None if row is None else values[row] for row in self.at]


def _joined(
    labels: str,
    human: str,
    key: str | None,
    ids: Sequence[str] | None,
    attempts: Sequence[object] | None,
    source: str,
) -> _LabelRows:
    """Find the label row of every record by id, and by attempt if the file has that column."""
    file = Path(labels)
    have = tables.column_names(file)
    named_column(file, have, human, (), "--human")
    found = _key(file, have, key, needed=True)
    several = attempts is not None and _ATTEMPT in have
    texts = [human, str(found), *([_ATTEMPT] if several else [])]
    rows = read_rows(file, texts=dict.fromkeys(texts))
    tries = _all_there(rows, _ATTEMPT) if several else [""] * len(rows)
    place: dict[tuple[str, str], int] = {}
    for row, one in enumerate(zip(_all_there(rows, str(found)), tries, strict=True)):
        if one in place:
            raise InvalidInputError(
                f"{rows.where(row)}: {found!r} is {one[0]!r}, as in row {place[one] + 1}; "
                "the ids of labels must be unique"
            )
        place[one] = row
    of = [str(attempt) for attempt in attempts or ()] if several else [""] * len(ids or ())
    keys = list(zip(ids or (), of, strict=True))
    if len(set(keys)) < len(keys):
        raise InvalidInputError(
            f"{source}: has several answers per {found}, and {labels} does not identify the "
            f"labelled answer; add a column {_ATTEMPT!r}"
        )
    at = [place.get(one) for one in keys]
    known = len(place) - len(set(place) - set(keys))
    if not known:
        raise InvalidInputError(
            f"{labels}: none of its {found!r} values is a unit of {source}; it has "
            f"{_some(place)}, and {source} has {_some(keys)}: pass labels of these units"
        )
    left = len(place) - known
    return _LabelRows(
        rows,
        at,
        (f"{left:,} labels are not used, because their units are not in the source",)
        if left
        else (),
    )


def _some(keys: Iterable[tuple[str, str]]) -> str:
    """Return the first three ids."""
    return ", ".join(repr(unit) for unit, _ in islice(keys, 3))


def _key(file: Path, have: Sequence[str], asked: str | None, *, needed: bool) -> str | None:
    if asked is None and not needed and not any(name in have for name in IDS):
        return None
    return named_column(file, have, asked, id_names(have) or IDS, "--id")


def _all_there(rows: Rows, column: str) -> list[str]:
    values: list[str | None] = rows.columns[column].tolist()
    for row, value in enumerate(values):
        if value is None:
            raise InvalidInputError(
                f"{rows.where(row)}: {column!r} is missing; every row needs a value"
            )
    return [str(value) for value in values]


def _numbers(
    columns: Sequence[tuple[Rows, str]], positive: Sequence[str]
) -> list[list[float | None]]:
    """Convert text columns to numbers: 1 for positive labels and 0 for all others."""
    wanted = set(positive)
    texts = [rows.columns[name].tolist() for rows, name in columns]
    there = {text for column in texts for text in column if text is not None}
    for label in positive:
        if label not in there:
            shown = ", ".join(map(repr, sorted(there)[:_SHOWN]))
            more = ", …" if len(there) > _SHOWN else ""
            raise InvalidInputError(
                f"--positive {label!r} does not occur; the labels are {shown}{more}"
            )
    found = []
    for (rows, name), column in zip(columns, texts, strict=True):
        if wanted & set(column):
            found.append([None if text is None else float(text in wanted) for text in column])
        else:
            found.append([_number(rows, name, row, text) for row, text in enumerate(column)])
    return found


def _number(rows: Rows, name: str, row: int, text: str | None) -> float | None:
    if text is None:
        return None
    number = number_in(text)
    if number is None or not math.isfinite(number):
        raise InvalidInputError(
            f"{rows.where(row)}: {name!r} is {text!r}, which is not a number; if labels are "
            "words, pass the positive one: --positive LABEL"
        )
    return number


# --- planning of labels
# ----------------------------------------------------------------------------


@dataclass(frozen=True)
class LabelPlans:
    """Numbers of labels needed for an interval of a given width, by method."""

    width: float
    plans: Mapping[str, LabelPlan]
    left_out: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "width": self.width,
            "plans": {name: plan.to_dict() for name, plan in self.plans.items()},
            "left_out": dict(self.left_out),
        }

    def table(self) -> Table:
        """Return a table with one row per method."""
        header = ["method", "width now", "at best", "labels in total", "to buy", "sampling"]
        return Table(
            header,
            [
                [
                    name,
                    Number(2.0 * plan.half_width_now),
                    Number(2.0 * plan.half_width_best),
                    plan.n_labels,
                    plan.n_more,
                    _how(plan),
                ]
                for name, plan in self.plans.items()
            ],
            f"labels for an interval of width {self.width:.3g}",
        )

    def notes(self) -> list[str]:
        """Return the reasons why methods have no plan."""
        return [f"no plan by {name}: {reason}" for name, reason in self.left_out.items()]


def _how(plan: LabelPlan) -> str:
    split = ", ".join(f"{count:,} {name}" for name, count in plan.buy.items())
    return _DRAWN[plan.method] + (f": {split}" if split else "")


def label_plans(
    judged: Judged,
    width: float | None,
    confidence: float,
    methods: Sequence[LabelRule] = LABEL_RULES,
) -> LabelPlans:
    """Return the feasible plans, and the reasons why other methods have none.

    The default width lies halfway between the current width and the width with every row labelled,
    so that a plan exists.
    """
    records = judged.records
    given = records.status[judged.judge] == "ok"
    labelled = records.status[judged.human] == "ok"
    human = np.where(labelled, records.columns[judged.human], np.nan)[given]
    groups = records.group[given].astype(str)
    together = groups if len(np.unique(groups)) < len(groups) else None

    def planned(method: LabelRule, half_width: float) -> LabelPlan:
        verdicts = records.columns[judged.judge][given]
        options: dict[str, Any] = {"method": method, "groups": together, "confidence": confidence}
        return plan_labels(verdicts, human, half_width=half_width, **options)

    plans: dict[str, LabelPlan] = {}
    left_out: dict[str, str] = {}
    for method in methods:
        try:
            known = planned(method, _ANY)
        except EvalToolkitError as error:
            left_out[method] = str(error)
            continue
        width = width or known.half_width_now + known.half_width_best
        if 2.0 * known.half_width_best > width:
            left_out[method] = (
                f"even with every row labelled the width is {2.0 * known.half_width_best:.3g}; "
                "evaluate more rows"
            )
        else:
            plans[method] = planned(method, width / 2.0)
    return LabelPlans(width or 0.0, plans, left_out)


judged_options = passing(
    "judged",
    _read,
    (
        click.argument("source", metavar="FILE|RUN", type=click.Path(exists=True, allow_dash=True)),
        *_OPTIONS,
    ),
)
"""Add SOURCE and its columns; the command receives ``judged``."""
