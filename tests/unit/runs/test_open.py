"""Runs that take a while: opened, interrupted, resumed, finished."""

from pathlib import Path

import numpy as np
import pytest

from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.runs import Run, open_run, run_state, write_run
from eval_toolkit.runs.open import JOURNAL

HEAD = {"run_id": "r1"}
RESULTS = {"schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {}}
TABLE = {"unit_id": np.array(["a", "b"], object), "attempt": np.array([1, 1])}


def _fail(folder: Path, journal: str, error: Exception) -> None:
    with open_run(folder, manifest=HEAD) as opened:
        opened.journal_path.write_text(journal)
        raise error


def test_a_run_is_unfinished_until_it_is_finalised(tmp_path: Path) -> None:
    folder = tmp_path / "r1"
    with open_run(folder, manifest=HEAD) as opened:
        assert opened.begun is None
        assert opened.previous is None
        assert run_state(folder) == "running"
        opened.journal_path.write_text("{}\n{}\n")
        run = opened.finalise(results=RESULTS, manifest=HEAD, tables={"responses.parquet": TABLE})
    assert run_state(folder) == "complete"
    assert not (folder / JOURNAL).exists()
    assert run.table("responses.parquet")["unit_id"].tolist() == ["a", "b"]
    assert run.table("responses.parquet")["attempt"].tolist() == [1, 1]
    assert run.manifest["artifacts"]["responses.parquet"]["n_rows"] == 2


def test_one_that_was_left_is_gone_on_with(tmp_path: Path) -> None:
    folder = tmp_path / "r1"
    with pytest.raises(RuntimeError, match="killed"):
        _fail(folder, '{"journal": 1}\n{"unit_id": "a"}\n', RuntimeError("killed"))
    assert run_state(folder).startswith("incomplete")
    with open_run(folder, manifest={"run_id": "other"}) as again:
        assert again.begun is not None
        assert again.begun["run_id"] == "r1"
        assert again.journal_path.read_text().count("\n") == 2


def test_nothing_is_left_when_nothing_was_done(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "r1"
    with pytest.raises(ConnectionError):  # an OSError of the block is not the disk's
        _fail(folder, '{"journal": 1}\n', ConnectionError("no such host"))
    assert not folder.exists()


def test_a_finished_run_stands_until_the_new_one_does(tmp_path: Path) -> None:
    folder = tmp_path / "r1"
    write_run(folder, results=RESULTS, manifest=HEAD, tables={"responses.parquet": TABLE})
    before = (folder / "manifest.json").read_bytes()
    with open_run(folder, manifest=HEAD) as opened:
        assert opened.previous is not None
        assert opened.previous.table("responses.parquet")["unit_id"].tolist() == ["a", "b"]
    assert (folder / "manifest.json").read_bytes() == before
    with open_run(folder, manifest=HEAD) as opened:
        opened.finalise(results={**RESULTS, "config": {"n": 1}}, manifest=HEAD)
    assert Run.open(folder).results["config"] == {"n": 1}
    assert not (folder / "responses.parquet").exists()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        open_run(tmp_path / "r", manifest=HEAD),
        pytest.raises(ArtifactError, match="another process is writing this run"),
        open_run(tmp_path / "r", manifest=HEAD),
    ):
        pass


def test_what_is_not_a_run_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"name": "an app"}')
    with (
        pytest.raises(ArtifactError, match="does not belong to a run; choose another folder"),
        open_run(tmp_path, manifest=HEAD),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]
    with (
        pytest.raises(ArtifactError, match="is a file; pass a folder for the run"),
        open_run(tmp_path / "manifest.json", manifest=HEAD),
    ):
        pass


def test_an_altered_table_is_refused(tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "r", results=RESULTS, manifest=HEAD, tables={"responses.parquet": TABLE}
    )
    path = tmp_path / "r" / "responses.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(ArtifactError, match="has changed since the run was written"):
        run.table("responses.parquet")
    with pytest.raises(ArtifactError, match=r"written without turns\.parquet"):
        run.table("turns.parquet")


@pytest.mark.parametrize("name", ["../out.parquet", "records.parquet", "responses.csv"])
def test_names_of_tables(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInputError, match=r"must be the name of a \.parquet file"):
        write_run(tmp_path / "r", results=RESULTS, manifest=HEAD, tables={name: TABLE})
    assert not (tmp_path / "r").exists()
