"""Reading of tabular files and labels, shared by all commands and loaders.

CSV with any separator and decimal mark, TSV, JSONL, JSON, Parquet and Excel, also gzipped and from
standard input, are read through duckdb into numpy arrays, without a dataframe library. Cells are
converted to the type requested by the caller (numbers, strings, labels), never to an inferred type:
the id "007" stays "007", and a word in a numeric column is an error that names the file and the
rows.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit._internal.tables.cells import guessed, joined
    from eval_toolkit._internal.tables.conditions import Condition, conditions_of, rows_that
    from eval_toolkit._internal.tables.dialect import dialect_of
    from eval_toolkit._internal.tables.formats import (
        CSV,
        JSON,
        JSONL,
        MEDIA_TYPES,
        PARQUET,
        TSV,
        XLSX,
        FileFormat,
        expand_paths,
        media_type_of,
    )
    from eval_toolkit._internal.tables.labels import (
        LabelMap,
        classes_of,
        label_class,
        usual_labels,
    )
    from eval_toolkit._internal.tables.numbers import (
        NotNumbersError,
        decimal_of,
        not_numbers,
        number_in,
        numbers_in,
    )
    from eval_toolkit._internal.tables.reading import (
        AS_NAMED,
        KEY,
        ROW,
        RowPick,
        column_names,
        distinct_values,
        read_table,
    )
    from eval_toolkit._internal.tables.records import plain_value, read_records
    from eval_toolkit._internal.tables.rows import Rows, read_rows, rows_of
    from eval_toolkit._internal.tables.spool import STDIN, named, shown
    from eval_toolkit._internal.tables.texts import read_lines, read_text
    from eval_toolkit._internal.tables.writing import write_table, write_tables

__all__ = [
    "AS_NAMED",
    "CSV",
    "JSON",
    "JSONL",
    "KEY",
    "MEDIA_TYPES",
    "PARQUET",
    "ROW",
    "STDIN",
    "TSV",
    "XLSX",
    "Condition",
    "FileFormat",
    "LabelMap",
    "NotNumbersError",
    "RowPick",
    "Rows",
    "classes_of",
    "column_names",
    "conditions_of",
    "decimal_of",
    "dialect_of",
    "distinct_values",
    "expand_paths",
    "guessed",
    "joined",
    "label_class",
    "media_type_of",
    "named",
    "not_numbers",
    "number_in",
    "numbers_in",
    "plain_value",
    "read_lines",
    "read_records",
    "read_rows",
    "read_table",
    "read_text",
    "rows_of",
    "rows_that",
    "shown",
    "usual_labels",
    "write_table",
    "write_tables",
]

__getattr__ = names_on_use(
    __name__,
    {
        "cells": "guessed joined",
        "conditions": "Condition conditions_of rows_that",
        "dialect": "dialect_of",
        "formats": (
            "CSV JSON JSONL MEDIA_TYPES PARQUET TSV XLSX FileFormat expand_paths media_type_of"
        ),
        "labels": "LabelMap classes_of label_class usual_labels",
        "numbers": "NotNumbersError decimal_of not_numbers number_in numbers_in",
        "reading": "AS_NAMED KEY ROW RowPick column_names distinct_values read_table",
        "records": "plain_value read_records",
        "rows": "Rows read_rows rows_of",
        "spool": "STDIN named shown",
        "texts": "read_lines read_text",
        "writing": "write_table write_tables",
    },
)
