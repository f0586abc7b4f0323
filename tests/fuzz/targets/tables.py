"""Tables (CSV, TSV, JSON, JSONL, gzip, Parquet) and row filters."""

from pathlib import Path

import numpy as np
from tests.fuzz.target import Target, command, each

from eval_toolkit._internal.tables import conditions_of, rows_that
from eval_toolkit.loaders import FileLoader

__all__ = ["TARGETS"]

_CELLS = ("de", "en", "", None, " 0.5", "1,5", "3.99 %", "1e999", "nan", "0", "True", "9" * 400)


def _table(folder: Path, name: str) -> None:
    path = folder / name
    command("score", path, "--by", "lang", "--resamples", 50)
    command("check", path, "--text", "text")
    FileLoader(path, feature_col="text", label_col="label", strata_col="lang").load_splits()


def _parquet(folder: Path, name: str) -> None:
    command("score", folder / name, "--by", "lang", "--resamples", 50)
    FileLoader(folder / name, feature_col="text", label_col="label", columns=None).load_splits()


def _conditions(folder: Path, name: str) -> None:
    """Parse each line as a filter and apply it to cells of every type."""
    cells = np.array(_CELLS, dtype=object)

    def select(line: str) -> None:
        found = conditions_of(line)
        rows_that(found, {one.column: cells for one in found})

    lines = (folder / name).read_bytes().decode("utf-8", "replace").splitlines()
    each(*(lambda line=line: select(line) for line in lines[:12]))


def _written(folder: Path, name: str) -> None:
    """Score rows that are read as strings: filters, missing values, percentages and string labels."""
    asked = ("score", folder / name, "--resamples", 50)
    chosen = (
        ("--where", "lang in ('de', 'fr')", "--where", "score is not missing"),
        ("--drop-missing", "--by", "lang"),
        ("--drop-missing", "--scale", "percent"),
        ("--drop-missing", "--scale", "logit"),
        ("--drop-missing", "--labels", "ham,spam", "--where", "score > 0.1"),
    )
    each(*(lambda more=more: command(*asked, *more) for more in chosen))


TARGETS = (
    Target("tables", "rows (CSV, TSV, JSON, JSONL, gzip)", _table),
    Target("parquet", "Parquet of five writers, two without checksums", _parquet),
    Target("conditions", "filters of rows", _conditions),
    Target("written", "rows with filters, gaps, percent, words as labels", _written),
)
