"""Tables as CSV with full precision, escaped against spreadsheet formulas."""

import csv
import io
from typing import Any

from eval_toolkit._internal.display.cells import exact
from eval_toolkit._internal.display.tables import Table
from eval_toolkit._internal.plain import csv_text


def csv_table(table: Table) -> str:
    r"""Return a table as CSV; cells with several numbers use several columns.

    Numbers have full precision. Intervals use the columns "… low" and "… high", and reasons the
    column "… reason". Text that a spreadsheet would interpret as a formula is prefixed with an
    apostrophe. Title and notes are omitted.

    Examples
    --------
    >>> from eval_toolkit._internal.display import Estimate
    >>> table = Table(["metric", "value"], [["=f1", Estimate(2 / 3, 0.5, 0.75)]])
    >>> print(csv_table(table), end="")
    metric,value,value low,value high
    '=f1,0.6666666666666666,0.5,0.75
    """
    columns = [(at, part) for at in range(len(table.header)) for part in _parts(table, at)]
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\r\n")
    writer.writerow([_field(f"{table.header[at]} {part}".strip()) for at, part in columns])
    for row in table.rows:
        writer.writerow([_field(exact(row[at].parts.get(part))) for at, part in columns])
    return stream.getvalue()


def _parts(table: Table, at: int) -> list[str]:
    """Return the field names that occur in a column's cells."""
    cells = [row[at] for row in table.rows if row[at]]
    return list(dict.fromkeys(part for cell in cells for part in cell.parts)) or [""]


def _field(value: Any) -> str:
    if isinstance(value, str):
        return csv_text(value)
    return "" if value is None else repr(value)
