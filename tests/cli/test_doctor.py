"""``eval-toolkit doctor``: the installation, and the state of runs."""

import json
import os
import socket
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import eval_toolkit
from eval_toolkit._internal import kernel
from eval_toolkit.cli.doctor import EXTRAS
from eval_toolkit.runs import open_run, run_lock, write_run

Command = Callable[..., tuple[int, str, str]]

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    for name in ("a", "b"):
        results = {"schema_version": "v1", "run_id": name, "config": {}, "by_slice": {}}
        write_run(folder / name, results=results, manifest={"run_id": name})
    return folder


def states(command: Command, expected: int, *args: object) -> dict[str, Any]:
    code, out, err = command("doctor", *args, "--json")
    assert (code, err) == (expected, "")
    return {Path(entry["run"]).name: entry for entry in json.loads(out)["runs"]}


def dead_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    return process.pid


class TestMachine:
    def test_text(self, command: Command) -> None:
        code, out, err = command("doctor")
        assert (code, err) == (0, "")
        assert eval_toolkit.__version__ in out
        assert "back-end" in out
        assert "free_disk_gb" in out

    def test_json(self, as_json: Callable[..., Any]) -> None:
        payload = as_json("doctor")
        assert payload["versions"]["eval-toolkit"] == eval_toolkit.__version__
        assert payload["kernel"]["bootstrap"] == kernel.backend()
        assert payload["machine"]["cpu_count"] == os.cpu_count()

    def test_the_numpy_kernel_is_named(self, command: Command) -> None:
        with kernel.using("numpy"):
            _, out, _ = command("doctor")
        assert "numpy (" in out
        assert "native" not in out

    def test_a_missing_extra(self, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(EXTRAS, "validation", "no_such_module_here")
        _, out, _ = command("doctor")
        assert "missing: pip install 'eval-toolkit[validation]'" in out

    def test_it_knows_every_extra(self) -> None:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        assert set(EXTRAS) == set(project["optional-dependencies"]) - {"all"}


class TestRuns:
    def test_complete(self, command: Command, runs: Path) -> None:
        assert {entry["state"] for entry in states(command, 0, runs).values()} == {"complete"}
        assert list(states(command, 0, runs / "a")) == ["a"]
        assert list(states(command, 0, runs / "a" / "manifest.json", runs / "a")) == ["a"]

    def test_altered(self, command: Command, runs: Path) -> None:
        (runs / "a" / "results.json").write_text("{}")
        found = states(command, 1, runs)
        assert found["a"]["state"] == "altered"
        assert "has changed since the run was written" in found["a"]["reason"]
        assert "restore" in found["a"]["what_to_do"]
        assert found["b"]["state"] == "complete"

    def test_the_verdict_stands_when_nobody_reads(
        self, unread: Callable[..., tuple[int, str]], runs: Path
    ) -> None:
        assert unread("doctor", runs) == (0, "")
        (runs / "a" / "results.json").write_text("{}")
        assert unread("doctor", runs) == (1, "")

    def test_an_interrupted_run_of_a_task_goes_on(self, command: Command, tmp_path: Path) -> None:
        with pytest.raises(RuntimeError, match="killed"):
            _interrupt(tmp_path / "r")
        code, out, _ = command("doctor", tmp_path / "r")
        assert code == 1
        assert "run the same command again to resume after the 2 requests in journal.jsonl" in out

    def test_incomplete(self, command: Command, runs: Path) -> None:
        manifest = runs / "a" / "manifest.json"
        payload = json.loads(manifest.read_text())
        manifest.write_text(json.dumps({**payload, "status": "running"}))
        code, out, _ = command("doctor", runs / "a")
        assert code == 1
        assert "incomplete" in out
        assert "the command that wrote it did not finish" in out
        assert "write the run again" in out

    def test_no_manifest(self, command: Command, runs: Path) -> None:
        (runs / "a" / "manifest.json").unlink()
        assert states(command, 1, runs)["a"]["state"] == "incomplete"

    def test_running(self, command: Command, tmp_path: Path) -> None:
        folder = tmp_path / "r"
        folder.mkdir()
        with run_lock(folder):
            found = states(command, 0, folder)["r"]
        assert found["state"] == "running"
        assert f"process {os.getpid()}" in found["what_to_do"]

    def test_a_stale_lock_and_leftovers(self, command: Command, runs: Path) -> None:
        lock = {"pid": dead_process(), "started": None, "host": socket.gethostname()}
        (runs / "a" / "run.lock").write_text(json.dumps(lock))
        (runs / "a" / ".staging-0123").mkdir()
        (runs / "a" / ".manifest.json.0123.tmp").touch()
        (runs / ".notes.0123.tmp").touch()
        code, out, _ = command("doctor", runs, "--json")
        assert code == 0
        payload = json.loads(out)
        (found,) = (entry for entry in payload["runs"] if entry["leftovers"])
        assert found["stale_lock"]
        assert found["state"] == "complete"
        assert found["leftovers"] == ["run.lock", ".manifest.json.0123.tmp", ".staging-0123"]
        assert "delete run.lock" in found["what_to_do"]
        assert payload["strays"] == [str(runs / ".notes.0123.tmp")]
        _, text, _ = command("doctor", runs)
        assert ".notes.0123.tmp: a temporary file" in text

    def test_a_folder_without_runs(self, command: Command, tmp_path: Path) -> None:
        code, out, err = command("doctor", tmp_path)
        assert (code, out, err) == (0, "runs: none\n", "")

    def test_bad_paths(self, command: Command, tmp_path: Path) -> None:
        code, _, err = command("doctor", tmp_path / "nope")
        assert (code, err) == (2, f"error: {tmp_path / 'nope'}: no such run or folder\n")
        (tmp_path / "file.txt").touch()
        code, _, err = command("doctor", tmp_path / "file.txt")
        assert code == 2
        assert "is a file" in err

    def test_hostile_names(self, command: Command, runs: Path) -> None:
        (runs / "a").rename(runs / "[bold]\x1b[31m")
        code, out, _ = command("doctor", runs)
        assert code == 0
        assert "[bold] [31m" in out
        assert "\x1b" not in out


def _interrupt(folder: Path) -> None:
    with open_run(folder, manifest={"run_id": "r"}) as opened:
        opened.journal_path.write_text('{"journal": 1}\n{}\n{}\n')
        raise RuntimeError("killed")
