"""``eval-toolkit import``: what it prints, writes and refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command
from tests.support.lm_eval_files import (
    question,
    write_log,
    write_results,
    write_samples,
)

from eval_toolkit.report.headline import build
from eval_toolkit.report.sections import Wanted
from eval_toolkit.runs import Run


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for model, rights in (("a", [1.0, 0.0] * 10), ("b", [1.0] * 16 + [0.0] * 4)):
        write_log(tmp_path / "logs" / model, rights, model_name=f"org/{model}")
    return tmp_path / "logs"


def test_statistics_alone(command: Command, logs: Path, tmp_path: Path) -> None:
    code, out, err = command("import", logs)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "2 logs of lm-eval, 40 samples"
    assert lines[2].split() == [
        *("task", "model", "metric", "value", "n", "value", "in", "the", "log", "check")
    ]
    assert "0.500 [0.299, 0.701]" in lines[4]  # Wilson's interval of 10 of 20
    assert lines[4].split()[-5:] == ["0.5", "±", "0.115", "same", "mean"]
    assert lines[-1] == "nothing was written; --out FOLDER writes runs"
    assert [one.name for one in tmp_path.iterdir()] == ["logs"]


def test_every_number_that_is_stated_has_a_row(command: Command, tmp_path: Path) -> None:
    """A log of Inspect with a spread before the mean, the mean by two names, and a mean of maxima."""
    metrics = {"std": 0.577, "mean": 0.5, "accuracy": 0.5}
    told = {name: {"name": name, "value": value} for name, value in metrics.items()}
    scores = [
        {"name": "match", "scorer": "match", "metrics": told},
        {"name": "match", "scorer": "match", "reducer": "max", "metrics": {"mean": {"value": 0.5}}},
    ]
    samples = [
        {"id": n, "input": "?", "target": "", "scores": {"match": {"value": n % 2}}}
        for n in range(4)
    ]
    log = {"version": 2, "status": "success", "eval": {"task": "t", "model": "m"}}
    path = tmp_path / "log.json"
    path.write_text(json.dumps({**log, "results": {"scores": scores}, "samples": samples}))
    out = command("import", path)[1]
    rows = [line.split(maxsplit=2)[2] for line in out.splitlines()[4:8]]
    assert [row.partition("  ")[0] for row in rows] == [
        "match",
        "match: std",
        "match: mean (max)",
        "match: accuracy",
    ]
    assert rows[0].endswith("same mean")
    assert rows[1].endswith("as stated, not recomputed (aggregation: std)")
    assert rows[3].endswith("same mean")


def test_what_the_samples_contradict_is_in_run_and_report(command: Command, tmp_path: Path) -> None:
    write_samples(tmp_path / "log", "sums", [question(n) for n in range(4)])
    write_results(tmp_path / "log", {"sums": {"exact_match,none": 0.75}})
    assert command("import", tmp_path / "log", "--out", tmp_path / "runs")[0] == 0
    run = Run.open(tmp_path / "runs" / "sums-org_small")
    assert run.manifest["notes"] == [
        "exact_match: exact_match,none is stated as 0.75: differs by 0.25"
    ]
    shown = build(run, Wanted())
    assert shown is not None
    assert shown.notes[0].startswith("imported from lm-eval 0.4.8, results_")
    assert shown.notes[1:] == [
        "the log reports exact_match,none of exact_match as 0.75: differs by 0.25"
    ]


def test_runs_and_what_to_do_next(command: Command, logs: Path, tmp_path: Path) -> None:
    out_folder = tmp_path / "runs"
    code, out, _ = command("import", logs, "--out", out_folder)
    assert code == 0
    assert out.splitlines()[-4:] == [
        f"wrote 2 runs to {out_folder}",
        f"next: eval-toolkit report {out_folder}/sums-org_a",
        f"next: eval-toolkit view {out_folder}",
        f"next: eval-toolkit compare {out_folder}/sums-org_a {out_folder}/sums-org_b",
    ]
    for told in out.splitlines()[-1:]:
        code, shown, _ = command(*told.split()[2:])
        assert code == 0
        assert "B - A = +0.300" in shown


def test_json(as_json: Any, logs: Path, tmp_path: Path) -> None:
    found = as_json("import", logs, "--out", tmp_path / "runs", "--by", "level", "--group", "level")
    assert [one["model"] for one in found["logs"]] == ["org/a", "org/b"]
    assert found["logs"][0]["checked"][0]["agrees"] is True
    run = Run.open(found["written"][0])
    assert sorted(run.results["by_slice"]["sums"]["parts"]) == ["level=easy", "level=hard"]
    assert set(run.records("sums", "org/a").group.tolist()) == {"easy", "hard"}


def test_names(as_json: Any, logs: Path) -> None:
    names = ("--task", "t", "--model", "m", "--rename", "exact_match=acc")
    fields = ("--input-field", "answer", "--target-field", "question")
    (found,) = as_json("import", logs / "a", *names, *fields)["logs"]
    assert (found["task"], found["model"], list(found["cells"])) == ("t", "m", ["acc"])


def test_a_table(as_json: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("k,a,b\nx,1,2\ny,0,3\n")
    (found,) = as_json("import", path, "--id", "k", "--column", "b")["logs"]
    assert found["cells"]["b"]["value"] == 2.5


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--overwrite"], "--overwrite needs --out"),
        (["--rename", "a"], "--rename 'a' must be OLD=NEW"),
        (["--rename", "a=b"], "--rename: no column 'a'"),
        (["--by", "x"], "has no field 'x'"),
        (["--input-field", "x"], "has no field 'x'"),
    ],
)
def test_options_that_do_not_fit(
    command: Command, logs: Path, options: list[str], said: str
) -> None:
    code, out, err = command("import", logs, *options)
    assert (code, out) == (2, "")
    assert said in err


def test_a_run_that_is_there(command: Command, logs: Path, tmp_path: Path) -> None:
    target = tmp_path / "runs"
    assert command("import", logs, "--out", target)[0] == 0
    code, out, err = command("import", logs, "--out", target)
    assert (code, out) == (2, "")
    assert "already contains a run; pass --overwrite to replace it" in err
    assert command("import", logs, "--out", target, "--overwrite")[0] == 0


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.eval", b"PK\x03\x04 cut off"),
        ("results_2025-01-01T00-00-00.1.json", b'{"results": {'),
        ("notes.txt", b"hello"),
        ("a.json", b"\xff\xfe\x00"),
        ("t.csv", b""),
        ("t.parquet", b"PAR1"),
    ],
)
def test_damaged_files(command: Command, tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    good = write_samples(tmp_path / "good", "t", [question(n) for n in range(3)])
    code, out, err = command("import", good, tmp_path / name, "--out", tmp_path / "runs")
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 1
    assert name in err
    assert not (tmp_path / "runs").exists()


def test_nothing_there(command: Command, tmp_path: Path) -> None:
    assert command("import", tmp_path / "nothing")[::2] == (
        2,
        f"error: {tmp_path / 'nothing'}: there is no such file or folder\n",
    )
