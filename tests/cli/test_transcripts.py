"""``eval-toolkit transcripts``: the library's texts, from the folder of a run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from eval_toolkit.rollouts.graphs import Graph, Node
from eval_toolkit.rollouts.transcribing import transcripts
from eval_toolkit.rollouts.turns import TURNS, turns_table
from eval_toolkit.runs import write_run

Command = Callable[..., tuple[int, str, str]]
RESULTS = {"schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {}}


def rollouts() -> list[Graph[Any, Any]]:
    answers = [("u1", "Yes, 🙂 \x1b[31m", True), ("u2", "No.", False)]
    return [
        Graph("goal", [Node("goal", "p", text, scores={"tox": 0.5}, event=event)], unit)
        for unit, text, event in answers
    ]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    tables = {TURNS: turns_table(rollouts())}
    manifest = {"run_id": "r1"}
    return write_run(tmp_path / "r1", results=RESULTS, manifest=manifest, tables=tables).path


@pytest.mark.parametrize("form", ["jsonl", "md", "csv"])
def test_prints_what_the_library_makes(command: Command, run: Path, form: str) -> None:
    expected = "".join(transcripts(rollouts(), form))
    assert command("transcripts", run, "--format", form) == (0, expected, "")


def test_text_by_default(command: Command, run: Path) -> None:
    code, out, _ = command("transcripts", run)
    assert code == 0
    assert out.startswith("u1: goal\n  tester: p\n")
    assert "\x1b" not in out


@pytest.mark.parametrize("form", ["txt", "jsonl", "md", "csv"])
def test_the_name_of_the_file_decides(
    command: Command, run: Path, tmp_path: Path, form: str
) -> None:
    target = tmp_path / f"told.{form}"
    assert command("transcripts", run, "--out", target) == (0, "", f"wrote {target}\n")
    assert target.read_bytes().decode() == "".join(transcripts(rollouts(), form))


def test_some_of_them(command: Command, run: Path) -> None:
    _, out, _ = command("transcripts", run, "--format", "jsonl", "--failed")
    assert [json.loads(line)["unit_id"] for line in out.splitlines()] == ["u1"]
    _, out, _ = command("transcripts", run, "--format", "jsonl", "--unit", "u2")
    assert [json.loads(line)["unit_id"] for line in out.splitlines()] == ["u2"]
    code, out, err = command("transcripts", run, "--format", "jsonl", "--unit", "u2", "--failed")
    assert (code, out, err) == (0, "", "no conversation matches\n")


def test_wrong_names_are_one_line(command: Command, run: Path, tmp_path: Path) -> None:
    code, out, err = command("transcripts", run, "--unit", "u3")
    assert (code, out) == (2, "")
    assert err == "error: --unit is 'u3', which does not exist; the units are 'u1', 'u2'\n"
    code, _, err = command("transcripts", run, "--out", tmp_path / "told.doc")
    assert code == 2
    assert "or pass --format" in err
    code, _, err = command("transcripts", tmp_path / "none")
    assert (code, "no such folder" in err) == (2, True)


def test_the_run_stays_as_it_is(command: Command, run: Path) -> None:
    code, _, err = command("transcripts", run, "--out", run / "told.md")
    assert code == 2
    assert "choose another" in err
    assert not (run / "told.md").exists()


def test_a_run_of_another_kind(command: Command, tmp_path: Path) -> None:
    other = write_run(tmp_path / "r2", results=RESULTS, manifest={"run_id": "r1"}).path
    code, out, err = command("transcripts", other)
    assert (code, out) == (2, "")
    assert "not a rollout run" in err


def test_nobody_reads(unread: Callable[..., tuple[int, str]], run: Path) -> None:
    assert unread("transcripts", run, "--format", "csv") == (0, "")


def test_a_terminal_obeys_nothing_that_was_said(
    command: Command, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    _, out, _ = command("transcripts", run, "--format", "csv")
    assert "\x1b" not in out
    assert "[31m" in out


def test_an_interrupted_run_says_who_knows_more(command: Command, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"run_id": "r", "status": "running"}')
    code, out, err = command("transcripts", tmp_path)
    assert (code, out) == (2, "")
    assert "the command that wrote it did not finish; eval-toolkit doctor shows what to do" in err


class TestParts:
    @pytest.fixture
    def run(self, command: Command, tmp_path: Path) -> Path:
        seeds = tmp_path / "seeds.csv"
        rows = [f"s{n},{'rude' if n % 3 else 'plain'},prompt {n}" for n in range(6)]
        seeds.write_text("\n".join(["id,category,prompt", *rows]) + "\n")
        asked = ("--target", "scripted:fool", "--scorer", "keywords:fool", "--depth", "2")
        out = tmp_path / "run"
        assert command("rollout", seeds, *asked, "--quiet", "--out", out)[0] == 0
        return out

    @pytest.mark.parametrize("option", ["--part", "--where"])
    def test_one_category(self, command: Command, run: Path, option: str) -> None:
        code, out, err = command("transcripts", run, option, "category=rude")
        assert (code, err) == (0, "")
        assert out.endswith("\n4 of 6 conversations\n")
        assert "prompt 0" not in out
        code, _, err = command("transcripts", run, option, "category=rud")
        assert (code, "did you mean rude?" in err) == (2, True)
        code, _, err = command("transcripts", run, option, "kind=rude")
        assert (code, "'category'" in err) == (2, True)

    def test_csv_has_the_category_and_ids_that_are_text(
        self, command: Command, run: Path, tmp_path: Path
    ) -> None:
        target = tmp_path / "turns.csv"
        assert command("transcripts", run, "--out", target)[0] == 0
        table = pd.read_csv(target)
        assert table["category"].tolist()[:4] == ["plain", "plain", "rude", "rude"]
        assert table["node_id"].tolist()[:2] == ["n0", "n0.0"]
        assert table["parent_id"].tolist()[1] == "n0"
