"""``eval-toolkit report``: where it goes, what it refuses, what it says."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Command

from eval_toolkit.runs import Run, run_state


@pytest.fixture
def run(tmp_path: Path, command: Command) -> Path:
    rows = ["id,label,score,language"]
    rows += [
        f"r{n},{n % 2},{((n * 37) % 100) / 200 + 0.25 * (n % 2)},{'en' if n % 3 else 'de'}"
        for n in range(60)
    ]
    (tmp_path / "preds.csv").write_text("\n".join(rows) + "\n")
    code, _, err = command(
        "score", tmp_path / "preds.csv", "--by", "language", "--save", tmp_path / "run"
    )
    assert code == 0, err
    return tmp_path / "run"


def test_writes_one_file_that_loads_nothing(run: Path, tmp_path: Path, command: Command) -> None:
    code, out, err = command("report", run, "-o", tmp_path / "report.html")
    assert (code, err) == (0, "")
    assert out.startswith(f"wrote {tmp_path / 'report.html'} (")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert "default-src &#39;none&#39;" in page or "default-src 'none'" in page
    assert 'src="http' not in page
    assert 'href="http' not in page


def test_the_runs_folder_takes_its_own_report(run: Path, command: Command) -> None:
    code, _, _ = command("report", run, "--no-charts")
    assert code == 0
    assert (run / "report.html").is_file()
    assert run_state(run) == "complete"
    assert command("report", run, "-o", run / "report.html", "--no-charts")[0] == 0


@pytest.mark.parametrize("name", ["manifest.json", "other.html"])
def test_nothing_else_goes_into_a_run(run: Path, command: Command, name: str) -> None:
    code, out, err = command("report", run, "-o", run / name)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    Run.open(run)


def test_two_runs_lead_with_the_answer(run: Path, tmp_path: Path, command: Command) -> None:
    args = ("report", run, run, "-o", tmp_path / "both.html", "--no-charts", "--json")
    code, out, _ = command(*args)
    assert code == 0
    told = json.loads(out)
    assert told["runs"] == ["run", "run"]
    assert told["bytes"] == (tmp_path / "both.html").stat().st_size
    assert "do not differ significantly" in (tmp_path / "both.html").read_text("utf-8")


def test_bad_input_is_one_line(run: Path, tmp_path: Path, command: Command) -> None:
    for args, said in {
        (tmp_path / "nothing",): "nothing: no such folder",
        (run, run): "pass a path for the report of several runs: -o report.html",
        (run, "-o", tmp_path): "is a folder; name a file",
        (tmp_path / "preds.csv",): "is a file; a report needs a run",
        (
            run,
            "-o",
            tmp_path / "preds.csv",
        ): "reports are HTML files; the file name must end in .html",
    }.items():
        code, out, err = command("report", *args)
        assert (code, out) == (2, ""), args
        assert said in err
        assert err.count("\n") == 1


def test_a_place_that_cannot_be_written(run: Path, tmp_path: Path, command: Command) -> None:
    place = tmp_path / "preds.csv" / "report.html"
    code, _, err = command("report", run, "-o", place, "--no-charts")
    assert code == 2
    assert "cannot write" in err


def test_a_run_that_was_altered_is_refused(run: Path, tmp_path: Path, command: Command) -> None:
    results = run / "results.json"
    results.write_text(results.read_text().replace("0.", "1.", 1))
    code, _, err = command("report", run, "-o", tmp_path / "report.html")
    assert code == 2
    assert "has changed since the run was written" in err
    assert not (tmp_path / "report.html").exists()


def test_without_charts_the_page_is_small(run: Path, tmp_path: Path, command: Command) -> None:
    assert command("report", run, "-o", tmp_path / "small.html", "--no-charts")[0] == 0
    page = (tmp_path / "small.html").read_text("utf-8")
    assert len(page) < 200_000
    assert "vegaEmbed=" not in page
    assert "roc_auc" in page


def test_claims_have_the_verdicts_of_the_gate(run: Path, tmp_path: Path, command: Command) -> None:
    claims = tmp_path / "claims.toml"
    claims.write_text(
        '[[claim]]\nname = "ranks"\nat = "roc_auc @ all"\nrequire = "value >= 0.999"\n'
    )
    options = ("--claims", claims, "--no-charts", "-o", tmp_path / "report.html")
    assert command("report", run, *options)[0] == 0  # a document; `gate` fails the build
    assert "0 of 1 claims hold, 1 failed" in (tmp_path / "report.html").read_text("utf-8")
    assert command("gate", run, "--claims", claims)[0] == 1

    claims.write_text('[[claim]]\nname = "no drop"\nat = "roc_auc @ all"\nnon_inferior_by = 0.1\n')
    code, _, err = command("report", run, *options)
    assert code == 2
    assert "report BASELINE" in err
    assert command("report", run, run, *options)[0] == 0
