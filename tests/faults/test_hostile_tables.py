"""Parquet files of a few kilobytes that stand for gigabytes: refused before they are in memory."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from eval_toolkit._internal import tables
from eval_toolkit._internal.files import limits
from eval_toolkit._internal.tables import parquet_pages
from eval_toolkit._internal.tables.sources import checked_place, connection, literal
from eval_toolkit.artifacts.strict_json import json_bytes
from eval_toolkit.errors import ArtifactError
from eval_toolkit.manifest import seal_manifest
from eval_toolkit.models import ScriptedModel
from eval_toolkit.runs import Run
from eval_toolkit.runs.selected_units import _Files
from eval_toolkit.runs.stored_units import stored_units
from eval_toolkit.tasks import load_task, run_task

TASK = """
[task]
name = "quiz"
data = "quiz.jsonl"
[prompt]
instruction = "{q}"
answer = "a"
[graders.exact_match]
"""
N_VALUES = 6_000_000
"""More than a tenth of the values that are allowed in any file."""


def write(path: Path, query: str) -> Path:
    with connection() as con:
        con.execute(
            f"COPY ({query}) TO {literal(str(path))} (FORMAT parquet, ROW_GROUP_SIZE 100000000)"
        )
    return path


@pytest.mark.parametrize("cell", ["{}", "CAST({} AS BLOB)", "[{}]"])
def test_one_long_text_that_each_row_repeats(
    tmp_path: Path, cell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dictionary holds it once; in memory it is there for each row."""
    monkeypatch.setattr(limits, "TEXT_BYTES", limits.TEXT_BYTES // 10)
    text = cell.format("repeat('a', 300000)")
    path = write(tmp_path / "a.parquet", f"FROM range(200) SELECT {text} AS t")
    assert path.stat().st_size < 100_000
    for kind in ("texts", "labels", "columns"):
        with pytest.raises(ArtifactError, match=r"its strings have 6\d{7} bytes"):
            tables.read_table(path, **{kind: ["t"]})


def test_a_text_that_many_rows_repeat(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", "SELECT 'a scorer' AS t FROM range(300000)")
    assert path.stat().st_size < 10_000
    assert len(tables.read_table(path, texts=["t"])["t"]) == 300_000


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    Path("quiz.jsonl").write_text("".join(f'{{"q": "{n}", "a": "{n}"}}\n' for n in range(5)))
    Path("quiz.toml").write_text(TASK)
    return run_task(load_task("quiz.toml"), ScriptedModel("3"), "run").run


def swollen(run: Run, name: str) -> Run:
    """Repeat a row of a run's table until it has more values than allowed, and seal it again."""
    path = run.path / name
    with connection() as con:
        con.execute(f"CREATE TEMP TABLE one AS FROM {literal(str(path))} LIMIT 1")
        n_columns = len(con.execute("DESCRIBE one").fetchall())
        file = literal(str(run.path / "swollen"))
        many = f"SELECT one.* FROM one, range({N_VALUES // n_columns})"  # noqa: S608
        con.execute(f"COPY ({many}) TO {file} (FORMAT parquet, ROW_GROUP_SIZE 100000000)")
    (run.path / "swollen").replace(path)
    manifest = json.loads((run.path / "manifest.json").read_bytes())
    manifest["artifacts"][name]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (run.path / "manifest.json").write_bytes(json_bytes(seal_manifest(manifest)))
    return Run.open(run.path)


def asked(run: Run) -> object:
    """What a report or a page of the run asks for."""
    query = "SELECT unit_id FROM read_parquet(?)"
    return _Files().read(run.path / "responses.parquet", query, [])


def units(run: Run) -> object:
    found = stored_units(run.path, run.manifest, lambda path: ["slice", "unit_id", "row", "input"])
    assert found is not None
    return found.read(["input"])


@pytest.mark.parametrize(("name", "read"), [("responses.parquet", asked), ("units.parquet", units)])
def test_tables_of_a_run_that_queries_of_their_own_read(
    run: Run, name: str, read: Callable[[Run], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_pages, "_CELLS", parquet_pages._CELLS // 10)
    assert read(run)
    with pytest.raises(ArtifactError, match="values in"):
        read(swollen(run, name))


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    with connection() as con, pytest.raises((ArtifactError, OSError)):
        checked_place(con, tmp_path)
