"""Files of every format on the command line: the same pages, and messages in its own words."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., tuple[int, str, str]]

N = 24
HEAD = ["id", "label", "score", "text"]
ROWS = [
    [f"r{n:02d}", "TRUE " if n % 3 else "0.00", (n * 7 % 24) / 32, f"words of row {n} alone"]
    for n in range(N)
]


def semicolons() -> str:
    lines = [[name, label, str(score).replace(".", ","), text] for name, label, score, text in ROWS]
    return "".join(";".join(line) + "\n" for line in [HEAD, *lines])


def json_lines() -> str:
    plain = [
        [name, bool(label.strip() == "TRUE"), score, text] for name, label, score, text in ROWS
    ]
    return "".join(json.dumps(dict(zip(HEAD, row, strict=True))) + "\n" for row in plain)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    (tmp_path / "a.csv").write_text(semicolons())
    (tmp_path / "a.jsonl").write_text(json_lines())
    return {".csv": tmp_path / "a.csv", ".jsonl": tmp_path / "a.jsonl"}


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], str]:
    def pipe(content: bytes) -> str:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))
        return "-"

    return pipe


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_score_of_standard_input(
    as_json: Callable[..., Any], files: dict[str, Path], piped: Any, suffix: str
) -> None:
    here = as_json("score", files[".csv"], "--metric", "roc_auc")
    there = as_json("score", piped(files[suffix].read_bytes()), "--metric", "roc_auc")
    assert there["by_slice"] == here["by_slice"]
    assert there["config"]["files"] == ["stdin"]
    assert there["by_slice"]["all"]["by_scorer"]["score"]["roc_auc"]["n_units"] == N


def test_compare_with_standard_input(
    as_json: Callable[..., Any], files: dict[str, Path], piped: Any
) -> None:
    given = piped(files[".jsonl"].read_bytes())
    page = as_json("compare", files[".csv"], given, "--metric", "roc_auc")
    assert page["pairing"] == {
        "paired_on": "id",
        "n_paired": N,
        "n_only_a": 0,
        "n_only_b": 0,
        "n_dropped": 0,
    }
    assert page["cells"][0]["delta"] == 0


def test_standard_input_cannot_be_both_sides(command: Command, piped: Any) -> None:
    piped(b"")
    code, out, err = command("compare", "-", "-")
    assert (code, out) == (2, "")
    assert err == "error: - was given twice; standard input can be read only once\n"


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_check_of_standard_input(
    as_json: Callable[..., Any], files: dict[str, Path], piped: Any, suffix: str
) -> None:
    page = as_json("check", piped(files[suffix].read_bytes()))
    assert page["splits"] == {"stdin": {"file": "stdin", "n": N, "n_positive": 16}}
    given = piped(b"text,label\nnew,1\n")
    page = as_json("check", f"train={files['.csv']}", f"test={given}")
    assert page["splits"]["test"] == {"file": "stdin", "n": 1, "n_positive": 1}


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_split_of_standard_input(
    command: Command, files: dict[str, Path], piped: Any, tmp_path: Path, suffix: str
) -> None:
    parts = ("--sizes", "train=0.5,test=0.5")
    assert command("split", files[suffix], "--out", tmp_path / "of_file", *parts)[0] == 0
    given = piped(files[suffix].read_bytes())
    code, out, _ = command("split", given, "--out", tmp_path / "of_stdin", *parts)
    assert code == 0
    assert out.startswith(f"stdin: {N} rows, 16 positive")
    for name in (f"train{suffix}", f"test{suffix}"):
        one, other = (tmp_path / where / name for where in ("of_file", "of_stdin"))
        assert one.read_bytes() == other.read_bytes()
    kept = [
        line
        for name in (f"train{suffix}", f"test{suffix}")
        for line in (tmp_path / "of_file" / name).read_text().splitlines()
    ]
    assert set(kept) == set(files[suffix].read_text().splitlines())


def test_import_of_standard_input(as_json: Callable[..., Any], files: Any, piped: Any) -> None:
    (log,) = as_json("import", piped(files[".csv"].read_bytes()))["logs"]
    assert (log["files"], log["n_samples"], log["kind"]) == (["stdin"], N, "rows")


def test_seeds_of_standard_input(command: Command, piped: Any) -> None:
    given = piped(b"prompt;safe\nHow do I kill a process?;YES\nHow do I make tea?;1.00\n")
    system = ("--tester", "static", "--target", "scripted:x", "--scorer", "refusal")
    code, out, err = command("rollout", "--seeds", given, *system, "--no-store", "--quiet")
    assert (code, err) == (0, "")
    assert "seeds of stdin: " in out
    given = piped(b"prompt;safe\nHow?;maybe\n")
    code, _, err = command("rollout", "--seeds", given, *system, "--no-store")
    assert code == 2
    assert err.startswith("error: stdin: row 1: 'safe' is 'maybe'; ")


def test_nothing_is_left_of_standard_input(command: Command, piped: Any, tmp_path: Path) -> None:
    """The copy is private, and goes with the process."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "eval_toolkit", "score", "-", "--metric", "roc_auc"],
        input=semicolons(),
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


COMMANDS = {
    "score": ["score", "FILE"],
    "compare": ["compare", "FILE", "FILE"],
    "check": ["check", "FILE"],
    "split": ["split", "FILE", "--out", "OUT"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_two_words_for_labels_are_suggested(command: Command, tmp_path: Path, name: str) -> None:
    path = tmp_path / "w.csv"
    rows = "".join(f"{n}|{'cold' if n % 2 else 'warm'}|0.{n}|text {n}\n" for n in range(8))
    path.write_text("id|label|score|text\n" + rows)
    given = {"FILE": path, "OUT": tmp_path / "parts"}
    arguments = [given.get(one, one) for one in COMMANDS[name]]
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(
        f"error: {path}: row 1: 'label' is 'warm'; labels must be 0 or 1 (8 such rows: row 1 'warm', "
        "row 2 'cold', row 3 'warm', row 4 'cold', row 5 'warm', …): pass --labels cold,warm, the positive "
        "one last"
    )
    assert command(*arguments, "--labels", "cold,warm")[0] == 0
    assert command(*arguments, "--positive", "warm")[0] == 0


@pytest.mark.parametrize("name", ["score", "check", "split"])
def test_separator_and_decimal_mark_can_be_named(
    command: Command, tmp_path: Path, name: str
) -> None:
    path = tmp_path / "w.csv"
    rows = "".join(f"{n}^{n % 2}^1,{n}00^text {n}\n" for n in range(8))
    path.write_text("id^label^score^text\n" + rows)
    given = {"FILE": path, "OUT": tmp_path / "parts"}
    arguments = [given.get(one, one) for one in COMMANDS[name]]
    code, _, err = command(*arguments)
    assert code == 2
    assert err.count("\n") == 1
    assert command(*arguments, "--separator", "^", "--decimal", ",")[0] == 0
    code, _, err = command(*arguments, "--separator", "^^")
    assert (code, err) == (
        2,
        "error: --separator is '^^'; it must be one ASCII character, such as ; or | (on the command line also: tab)\n",
    )


def test_thousands_are_asked_back(command: Command, tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_text("label;score\n0;1,234\n1;2,345\n")
    code, _, err = command("score", tmp_path / "w.csv")
    assert code == 2
    assert "the comma may separate thousands; pass --decimal , if it is a decimal comma" in err


def test_tabs_by_name(command: Command, tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_text("label\tscore\n0\t0.5\n1\t0.7\n")
    for spelling in ("tab", "\\t", "\t"):
        assert command("score", tmp_path / "w.csv", "--separator", spelling)[0] == 0


def test_a_pipe_is_pointed_to_standard_input(command: Command, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p.csv")
    code, _, err = command("score", tmp_path / "p.csv")
    assert code == 2
    assert "p.csv: not a file (a pipe is read from standard input: pass -)" in err


class TestExcel:
    @pytest.fixture
    def book(self, tmp_path: Path) -> Path:
        openpyxl = pytest.importorskip("openpyxl")
        book = openpyxl.Workbook()
        for row in [HEAD, *ROWS]:
            book.active.append(row)
        book.save(tmp_path / "a.xlsx")
        return tmp_path / "a.xlsx"

    def test_score(self, as_json: Callable[..., Any], book: Path, files: dict[str, Path]) -> None:
        here = as_json("score", files[".csv"], "--metric", "roc_auc")
        assert as_json("score", book, "--metric", "roc_auc")["by_slice"] == here["by_slice"]

    def test_parts_are_csv(self, command: Command, book: Path, tmp_path: Path) -> None:
        out = tmp_path / "parts"
        assert command("split", book, "--out", out, "--sizes", "a=0.5,b=0.5")[0] == 0
        rows = [
            line for name in ("a", "b") for line in (out / f"{name}.csv").read_text().split("\n")
        ]
        assert sum(line.startswith("r") for line in rows) == N
        assert f"r01,TRUE ,{ROWS[1][2]},words of row 1 alone" in rows
        assert command("check", book, "--fix", tmp_path / "clean")[0] in (0, 1)
        assert (tmp_path / "clean" / "a.csv").exists()

    def test_several_sheets_are_asked_back(self, command: Command, book: Path) -> None:
        openpyxl = pytest.importorskip("openpyxl")
        opened = openpyxl.load_workbook(book)
        opened.create_sheet("more").append(["x"])
        opened.save(book)
        code, _, err = command("score", book)
        assert code == 2
        assert (
            "2 sheets have rows ('Sheet', 'more'); save the one to read as a separate file" in err
        )

    def test_without_the_library_the_extra_is_named(
        self, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "openpyxl", None)
        (tmp_path / "b.xlsx").write_bytes(b"PK\x03\x04")
        code, _, err = command("score", tmp_path / "b.xlsx")
        assert code == 2
        assert err == (
            "error: the Excel file b.xlsx requires openpyxl. Install with: "
            "pip install 'eval-toolkit[excel]'\n"
        )
