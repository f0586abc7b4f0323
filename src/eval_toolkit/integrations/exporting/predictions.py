"""Export of predictions: one row per unit, with label, score, row_id and content_hash."""

import csv
import io
from typing import Any

from eval_toolkit._internal.plain import whole_text
from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.integrations.exporting.answers import SCORED, Answers, answers_of
from eval_toolkit.integrations.exporting.cells import all_blocks
from eval_toolkit.report.cells import main_block, main_cell
from eval_toolkit.runs import Run


def predictions_csv(
    run: Run,
    *,
    metric: str | None = None,
    slice: str | None = None,  # noqa: A002 - what it is called everywhere
    scorer: str | None = None,
) -> str:
    r"""Return one value per unit as CSV.

    A file with labels can be read by `artifacts.load_predictions` and ``eval-toolkit score``, and a
    file without labels by ``eval-toolkit import --column score``.

    By default the scores of the main result are exported, or its main metric if there are none;
    ``metric`` must be a mean over units. The columns are label (if the run has labels), score,
    row_id and, if all units have one, content_hash. Attempts at a unit are combined in one row, and
    units without a value are omitted. Strings are not escaped for spreadsheets, so that ids still
    match; import the columns as text.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import write_run
    >>> from eval_toolkit.scorecards import Records
    >>> records = Records.from_rows([0, 1], [0.25, 0.75], unit_id=["a", "b"])
    >>> part = {"n": 2, "by_scorer": {"guard": {"pr_auc": 1.0}}}
    >>> run = write_run(
    ...     tempfile.mkdtemp() + "/r1", manifest={"run_id": "r1"}, results={
    ...     "schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {"test": part}},
    ...     records={("test", "guard"): records},
    ... )
    >>> print(predictions_csv(run), end="")
    label,score,row_id
    0,0.25,a
    1,0.75,b
    """
    answers = _chosen(run, slice, scorer)
    values, measured = _values(answers, metric)
    labels = _labels(answers)
    hashes = [answers.content_hash(at) for at in range(len(answers.unit_ids))]
    columns = {
        **({"label": labels} if labels else {}),
        "score": [repr(float(value)) for value in values],
        "row_id": [whole_text(unit) for unit in answers.unit_ids],
        **({"content_hash": hashes} if all(hashes) else {}),
    }
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    for row, known in zip(zip(*columns.values(), strict=True), measured, strict=True):
        if known:
            writer.writerow(row)
    return stream.getvalue()


def _chosen(run: Run, slice_name: str | None, scorer: str | None) -> Answers:
    blocks = all_blocks(run)
    main = main_block(run)
    found = [
        one
        for one in answers_of(run, blocks)
        if slice_name in (None, one.block.slice) and scorer in (None, one.block.scorer)
    ]
    if not found:
        there = ", ".join(f"{slice_}/{name}" for slice_, name in run.subjects) or "none"
        raise ArtifactError(
            f"{run.path}: the run has no records for this slice and scorer; it has records for "
            f"{there}"
        )
    speaks = [one for one in found if main is not None and one.block == main]
    return next(iter([*speaks, *found]))


def _values(answers: Answers, metric: str | None) -> tuple[Any, Any]:
    """Return the values, and a mask of the units that have one."""
    if metric is None and set(SCORED) <= answers.records.columns.keys():
        return answers.units.values("score")
    known = {one.cell.name: one for one in answers.metrics}
    main = main_cell(answers.block)
    name = metric or (
        main.name if main is not None and main.name in known else next(iter(known), None)
    )
    if name is None:
        raise InvalidInputError(
            f"{answers.run.path}: the run has neither scores nor a metric with a value per unit"
        )
    if name not in known:
        listed = ", ".join(map(repr, known)) or "none"
        raise InvalidInputError(
            f"`metric` is {name!r}; the metrics with a value per unit are {listed}"
        )
    return known[name].values, known[name].measured


def _labels(answers: Answers) -> list[str]:
    """Return the labels of units; an empty list if the run has none."""
    if "label" not in answers.records.columns:
        return []
    values, known = answers.units.values("label")
    return [f"{values[at]:g}" if known[at] else "" for at in range(len(values))]
