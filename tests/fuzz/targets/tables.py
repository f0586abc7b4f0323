"""Tables of rows: CSV, TSV, JSON, JSONL, gzip, Parquet."""

from pathlib import Path

from tests.fuzz.target import Target, command

from eval_toolkit.loaders import FileLoader

__all__ = ["TARGETS"]


def _table(folder: Path, name: str) -> None:
    path = folder / name
    command("score", path, "--by", "lang", "--resamples", 50)
    command("check", path, "--text", "text")
    FileLoader(path, feature_col="text", label_col="label", strata_col="lang").load_splits()


def _parquet(folder: Path, name: str) -> None:
    command("score", folder / name, "--by", "lang", "--resamples", 50)
    FileLoader(folder / name, feature_col="text", label_col="label", columns=None).load_splits()


TARGETS = (
    Target("tables", "rows (CSV, TSV, JSON, JSONL, gzip)", _table),
    Target("parquet", "Parquet of five writers, two without checksums", _parquet),
)
