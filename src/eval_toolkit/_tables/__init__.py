"""Files of rows, read and written through duckdb: CSV, TSV, JSONL, JSON and Parquet, also gzipped.

Columns come back as numpy arrays, so that no dataframe library is needed. Cells are converted by
what the caller needs of a column (numbers, texts), never by what a sniffer guessed: the id "007"
stays "007", and a word in a column of numbers is an error that names the file and the row.
"""

from eval_toolkit._tables.cells import guessed, joined
from eval_toolkit._tables.formats import (
    CSV,
    JSON,
    JSONL,
    MEDIA_TYPES,
    PARQUET,
    TSV,
    expand_paths,
    media_type_of,
)
from eval_toolkit._tables.reading import (
    KEY,
    ROW,
    RowPick,
    column_names,
    distinct_values,
    read_table,
)
from eval_toolkit._tables.texts import read_text
from eval_toolkit._tables.writing import write_table, write_tables

__all__ = [
    "CSV",
    "JSON",
    "JSONL",
    "KEY",
    "MEDIA_TYPES",
    "PARQUET",
    "ROW",
    "TSV",
    "RowPick",
    "column_names",
    "distinct_values",
    "expand_paths",
    "guessed",
    "joined",
    "media_type_of",
    "read_table",
    "read_text",
    "write_table",
    "write_tables",
]
