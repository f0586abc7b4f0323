"""``eval-toolkit export``: what is printed, what is written, what is refused."""

import contextlib
import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eval_toolkit.cli.export import export
from eval_toolkit.runs import write_run
from eval_toolkit.scorecards import Records

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    records = Records.from_rows([0, 1, 1], [0.2, 0.9, 0.4], unit_id=["a", "b", "c"])
    block = {
        "roc_auc": {"value": 1.0, "status": "ok", "reason": "", "n_units": 3},
        "ece": {"value": None, "status": "skipped", "reason": "too few | rows", "n_units": 3},
    }
    part = {"n": 3, "n_positive": 2, "by_scorer": {"guard": block}}
    folder = tmp_path / "runs" / "r1"
    results = {"schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {"test": part}}
    write_run(
        folder, results=results, manifest={"run_id": "r1"}, records={("test", "guard"): records}
    )
    return folder


class TestPrinted:
    def test_nothing_but_data(self, command: Command, run: Path) -> None:
        code, out, err = command("export", run, "--to", "csv")
        assert (code, err) == (0, "")
        auc, ece = csv.DictReader(io.StringIO(out))
        assert (auc["value"], ece["value"], ece["reason"]) == ("1.0", "", "too few | rows")

    def test_a_stream_of_texts(self, run: Path) -> None:
        """As in a notebook: there are no bytes below it."""
        with contextlib.redirect_stdout(io.StringIO()) as out:
            export.main([str(run), "--to", "markdown"], standalone_mode=False)
        assert "roc_auc" in out.getvalue()

    def test_a_dash_prints_too(self, command: Command, run: Path) -> None:
        assert command("export", run, "--to", "predictions", "-o", "-") == (
            0, "label,score,row_id\n0,0.2,a\n1,0.9,b\n1,0.4,c\n", "",
        )  # fmt: skip

    def test_several_runs_are_one_table(self, command: Command, run: Path) -> None:
        code, out, _ = command("export", run, run, "--to", "markdown")
        assert code == 0
        assert out.splitlines()[0].startswith("| run | slice |")
        assert out.count(r"skipped: too few \| rows") == 2


class TestWritten:
    def test_a_folder(self, as_json: Callable[..., Any], run: Path, tmp_path: Path) -> None:
        told = as_json("export", run, "--to", "lm-eval", "-o", tmp_path / "out")
        assert (told["format"], told["runs"], len(told["files"])) == ("lm-eval", ["r1"], 2)
        assert all(Path(name).is_file() for name in told["files"])

    def test_without_samples(self, as_json: Callable[..., Any], run: Path, tmp_path: Path) -> None:
        told = as_json("export", run, "--to", "lm-eval", "-o", tmp_path / "out", "--no-samples")
        assert len(told["files"]) == 1

    def test_what_is_there_stays(self, command: Command, run: Path, tmp_path: Path) -> None:
        target = tmp_path / "t.tex"
        assert command("export", run, "--to", "latex", "-o", target) == (0, "", f"wrote {target}\n")
        written = target.read_bytes()
        target.write_text("mine")
        code, out, err = command("export", run, "--to", "latex", "-o", target)
        assert (code, out) == (2, "")
        assert err == f"error: {target}: already exists; pass --overwrite to replace it\n"
        assert target.read_text() == "mine"
        assert command("export", run, "--to", "latex", "-o", target, "--overwrite")[0] == 0
        assert target.read_bytes() == written


class TestRefused:
    def test_in_one_line(self, command: Command, run: Path, tmp_path: Path) -> None:
        other = tmp_path / "only"
        part = {"n": 3, "by_scorer": {"guard": {"acc": 0.5}}}
        results = {"schema_version": "v1", "run_id": "o", "config": {}, "by_slice": {"test": part}}
        write_run(other, results=results, manifest={"run_id": "o"})
        out = tmp_path / "out"
        for args, said in [
            ((run, "--to", "astra"), "astra-rl's format supports only rollouts"),
            ((run, "--to", "lm-eval"), "pass a folder: -o FOLDER"),
            ((run, "--to", "csv", "--json"), "--json lists the written files; pass a file with -o"),
            ((run, "--to", "csv", "--metric", "f1"), "csv has no --metric; available: none"),
            ((run, "--to", "predictions", "--metric", "f1"), "--metric is 'f1'"),
            ((run, run, "--to", "model-card"), "two runs have the same name"),
            ((run, other, "--to", "model-card"), "pass a folder: -o FOLDER"),
            ((other, "--to", "predictions"), "no records for this slice and scorer"),
            ((other, "--to", "lm-eval", "--samples", "-o", out), "there are no samples to export"),
            ((run, "--to", "csv", "-o", run / "x.csv"), "choose another"),
            ((tmp_path / "none", "--to", "csv"), "no such folder"),
        ]:
            code, printed, err = command("export", *args)
            assert (code, printed) == (2, "")
            assert said in err
        assert not out.exists()
        assert sorted(path.name for path in run.iterdir()) == [
            "manifest.json", "records.parquet", "results.json",
        ]  # fmt: skip

    def test_formats_are_listed(self, command: Command) -> None:
        code, out, _ = command("export", "--help")
        assert code == 0
        flat = out.replace("\n", "").replace(" ", "")
        assert "every-eval-ever|lm-eval|eval-framework|astra|predictions|csv|json|latex" in flat

    def test_strict_json(self, command: Command, run: Path, tmp_path: Path) -> None:
        command("export", run, "--to", "every-eval-ever", "-o", tmp_path / "e")
        (path,) = (tmp_path / "e").iterdir()
        assert json.loads(path.read_text("utf-8"))["model_info"]["id"] == "guard"
