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
    from eval_toolkit._internal.tables.cells import *
    from eval_toolkit._internal.tables.conditions import *
    from eval_toolkit._internal.tables.dialect import *
    from eval_toolkit._internal.tables.formats import *
    from eval_toolkit._internal.tables.labels import *
    from eval_toolkit._internal.tables.numbers import *
    from eval_toolkit._internal.tables.reading import *
    from eval_toolkit._internal.tables.records import *
    from eval_toolkit._internal.tables.rows import *
    from eval_toolkit._internal.tables.spool import *
    from eval_toolkit._internal.tables.texts import *
    from eval_toolkit._internal.tables.writing import *

__all__, __getattr__ = names_on_use(
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
        "writing": "PartedTable kinds_of n_rows_of write_table write_tables",
    },
)
