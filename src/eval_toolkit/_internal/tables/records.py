"""Read rows as mappings; JSON and Parquet values stay nested, CSV cells are strings.

CSV cells are not converted, because the content hash of a row must not depend on other rows.
"""

import math
from collections.abc import Callable, Mapping
from datetime import date, time
from pathlib import Path
from typing import Any

from eval_toolkit._internal.files import parse_json
from eval_toolkit._internal.tables.formats import CSV, JSON, JSONL, TSV, expand_paths, media_type_of
from eval_toolkit._internal.tables.spool import shown
from eval_toolkit._internal.tables.texts import read_lines, read_text
from eval_toolkit.errors import ArtifactError


def read_records(
    path: str | Path, *, list_in: Callable[[Any], Any] | None = None
) -> list[tuple[str, Any]]:
    r"""Return the rows of a file, each with its location.

    A location is a string such as "p.csv: row 7"; a row is a mapping or another JSON value.
    ``list_in`` extracts the list of rows from the content of a JSON file.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.csv"
    >>> _ = path.write_text("q;n\nWhy?;007\n")
    >>> [row for _, row in read_records(path)]
    [{'q': 'Why?', 'n': '007'}]
    """
    (file,) = expand_paths([path])
    name, media = shown(file), media_type_of(file)
    if media == JSONL:
        return [
            (place, parse_json(line, place))
            for place, line in ((f"{name}: line {n}", line) for n, line in read_lines(file))
        ]
    if media == JSON:
        payload = parse_json(read_text(file), name)
        found = payload if list_in is None else list_in(payload)
        if not isinstance(found, list):
            raise ArtifactError(
                f"{name}: contains a {type(found).__name__}; it must contain a list of strings or objects"
            )
        return [(f"{name}: row {n}", value) for n, value in enumerate(found, 1)]
    from eval_toolkit._internal.tables.reading import column_names, read_table

    is_text = media in (CSV, TSV)
    columns = read_table(file, texts=column_names(file) if is_text else ())
    lists = [[plain_value(cell) for cell in column.tolist()] for column in columns.values()]
    if is_text:
        lists = [["" if cell is None else cell for cell in cells] for cells in lists]
    return [
        (f"{name}: row {n}", dict(zip(columns, cells, strict=True)))
        for n, cells in enumerate(zip(*lists, strict=True), 1)
    ]


def plain_value(value: Any) -> Any:
    """Return a cell as a JSON value; NaN becomes None.

    Examples
    --------
    >>> plain_value([date(2024, 1, 31), float("nan")])
    ['2024-01-31', None]
    """
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain_value(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_value(inner) for inner in value]
    if isinstance(value, (date, time)):
        return value.isoformat()
    return plain_value(value.tolist()) if hasattr(value, "tolist") else str(value)
