"""Tables of the metric values of runs: CSV, JSON, LaTeX and Markdown."""

from collections.abc import Sequence
from dataclasses import replace

from eval_toolkit._internal.display import Table, to_csv, to_latex, to_markdown
from eval_toolkit.artifacts import json_bytes
from eval_toolkit.integrations.exporting.cells import ROW_FIELDS, cell_rows
from eval_toolkit.runs import Run
from eval_toolkit.runs.cells import cell_table


def csv_table(runs: Run | Sequence[Run]) -> str:
    r"""Return the metric values of runs as CSV at full precision, safe to open in a spreadsheet.

    Missing values are empty; their status and reason are in separate columns. Text that a
    spreadsheet would interpret as a formula is prefixed with an apostrophe. Lines end with CRLF.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import write_run
    >>> part = {"n": 3, "by_scorer": {"=guard": {"pr_auc": 0.75}}}
    >>> run = write_run(
    ...     tempfile.mkdtemp() + "/r1", manifest={"run_id": "r1"}, results={
    ...     "schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {"test": part}},
    ... )
    >>> print(csv_table(run).splitlines()[1])
    r1,test,all,'=guard,pr_auc,0.75,,,,,,,,0,0,ok,
    """
    rows = [[row[name] for name in ROW_FIELDS] for row in cell_rows(runs)]
    return to_csv.csv_table(Table(ROW_FIELDS, rows))


def json_table(runs: Run | Sequence[Run]) -> bytes:
    """Return the metric values of runs as JSON: a list with one flat object per cell.

    Keys are the columns of `csv_table`; missing values are null, and other keys contain their
    status and reason.

    Examples
    --------
    >>> import json, tempfile
    >>> from eval_toolkit.runs import write_run
    >>> part = {"n": 3, "by_scorer": {"guard": {"pr_auc": 0.75}}}
    >>> run = write_run(
    ...     tempfile.mkdtemp() + "/r1", manifest={"run_id": "r1"}, results={
    ...     "schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {"test": part}},
    ... )
    >>> json.loads(json_table(run))[0]["value"]
    0.75
    """
    return json_bytes([{name: row[name] for name in ROW_FIELDS} for row in cell_rows(runs)])


def markdown_table(runs: Run | Sequence[Run]) -> str:
    r"""Return the metric values of runs as a Markdown table; names and reasons are escaped.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import write_run
    >>> part = {"n": 3, "by_scorer": {"a|b": {"pr_auc": 0.75}}}
    >>> run = write_run(
    ...     tempfile.mkdtemp() + "/r1", manifest={"run_id": "r1"}, results={
    ...     "schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {"test": part}},
    ... )
    >>> print(markdown_table(run), end="")
    | slice | part | system | metric | value | interval | n | errors | status |
    |---|---|---|---|---:|---|---|---:|---|
    | test | all | a\|b | pr_auc | 0.750 |  |  | 0 | ok |
    """
    return to_markdown.markdown_table(_table(runs)) + "\n"


def latex_table(runs: Run | Sequence[Run]) -> str:
    r"""Return the metric values of runs as a LaTeX ``tabular``, which requires ``booktabs``.

    Special characters in names and reasons are escaped, and non-printable characters are replaced
    by spaces.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import write_run
    >>> part = {"n": 3, "by_scorer": {r"\input{x}": {"pr_auc": 0.75}}}
    >>> run = write_run(
    ...     tempfile.mkdtemp() + "/r1", manifest={"run_id": "r1"}, results={
    ...     "schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {"test": part}},
    ... )
    >>> print(latex_table(run).splitlines()[4])
    test & all & \textbackslash{}input\{x\} & pr\_auc & 0.750 &  &  & 0 & ok \\
    """
    return to_latex.latex_table(_table(runs)) + "\n"


def _table(runs: Run | Sequence[Run]) -> Table:
    """Return the cells of runs, with a column for the run if there are several."""
    rows = cell_rows(runs)
    given = [runs] if isinstance(runs, Run) else runs
    folds = dict.fromkeys(note for run in given for note in run.cells.fold_notes())
    table = cell_table(rows)
    table = replace(table, notes=[*folds, *table.notes])
    if not isinstance(runs, Sequence) or len(runs) < 2:
        return table
    named = [[row["run"], *cells] for row, cells in zip(rows, table.rows, strict=True)]
    return replace(table, header=["run", *table.header], rows=named)
