"""``eval-toolkit evaluate``: scorers, loaders, checks, splitters and selectors by name."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from eval_toolkit import EvalSlice, LeakageFinding, evaluate, roc_auc
from eval_toolkit.runs import Run, run_state

Command = Callable[..., tuple[int, str, str]]
FAST = ("--resamples", "50")


class Length:
    """Long texts are positive."""

    version = "3"

    def __init__(self, longest: int = 40) -> None:
        self.longest = longest

    def predict_proba(self, X: Any) -> Any:
        return [min(len(text), self.longest) / self.longest for text in X]


class Failing(Length):
    def predict_proba(self, X: Any) -> Any:
        raise KeyError("no weights")


class Seen:
    """Finds what it is told to find."""

    name = "Seen"

    def __init__(self, severity: str = "error") -> None:
        self.severity: Any = severity

    def validate(self, splits: Any) -> Any:
        last = {name: [part.n - 1] for name, part in splits.items() if part.n == 40}
        n = len(last)
        return LeakageFinding(self.name, self.severity, last, {}, f"{n} rows seen", n)


def texts() -> list[str]:
    return [f"row {row} " + "long " * (row * 7 % 8) for row in range(40)]


def labels() -> list[int]:
    return [int(row * 7 % 8 > 3) if row % 5 else row % 2 for row in range(40)]


class Loader:
    def load_splits(self) -> Any:
        rows = {"text": texts(), "label": labels(), "author": [f"a{n % 8}" for n in range(40)]}
        return {"test": EvalSlice("test", rows, group_col="author")}

    def describe(self) -> Any:
        return {}


@pytest.fixture(autouse=True)
def mine(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("mine")
    vars(module).update(Length=Length, Failing=Failing, Seen=Seen, Loader=Loader)
    monkeypatch.setitem(sys.modules, "mine", module)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    lines = [f"{text},{label}" for text, label in zip(texts(), labels(), strict=True)]
    path.write_text("\n".join(["text,label", *lines]) + "\n")
    return path


def test_the_numbers_are_those_of_the_harness(as_json: Callable[..., Any], rows: Path) -> None:
    payload = as_json("evaluate", rows, "--scorer", "short=mine:Length{longest=20}", *FAST)
    slices = [EvalSlice("rows", {"text": texts(), "label": labels()})]
    expected = evaluate({"short": Length(20)}, slices, run_id="x", n_resamples=50)
    block = payload["by_slice"]["rows"]["by_scorer"]["short"]
    assert block == expected.to_dict()["by_slice"]["rows"]["by_scorer"]["short"]
    scores = np.array(Length(20).predict_proba(texts()))
    assert block["roc_auc"]["value"] == pytest.approx(roc_auc(np.array(labels()), scores))


def test_a_loader_a_check_and_a_run(command: Command, tmp_path: Path) -> None:
    code, out, err = command(
        "evaluate", "--loader", "mine:Loader", "--scorer", "mine:Length", "--metric", "roc_auc",
        "--check", "mine:Seen", "--on-leakage", "drop", "--save", tmp_path / "run", *FAST,
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert "Seen: 1 rows seen" in out or "39" in out
    run = Run.open(tmp_path / "run")
    assert run_state(tmp_path / "run") == "complete"
    assert run.results["by_slice"]["test"]["n"] == 39
    assert run.manifest["versioned_objects"]["scorer:mine:Length"] == "3"
    assert run.results["config"]["asked"]["loader"] == "mine:Loader"


def test_leakage_says_no(command: Command, rows: Path) -> None:
    args = ("evaluate", rows, "--scorer", "mine:Length", *FAST, "--check")
    code, out, err = command(*args, "mine:Seen")
    assert (code, out) == (1, "")
    assert "Seen: 1 rows seen" in err
    assert command(*args, "mine:Seen{severity='warning'}")[0] == 0


def test_a_scorer_that_fails_is_named_and_others_go_on(
    command: Command, rows: Path, tmp_path: Path
) -> None:
    code, out, _ = command(
        "evaluate", rows, "--scorer", "mine:Length", "--scorer", "bad=mine:Failing", *FAST,
        "--save", tmp_path / "run",
    )  # fmt: skip
    assert code == 3
    assert "scorer bad, rows: KeyError: 'no weights'" in out
    blocks = Run.open(tmp_path / "run").results["by_slice"]["rows"]["by_scorer"]
    assert blocks["mine:Length"]["roc_auc"]["status"] == "ok"
    assert "error" in blocks["bad"]


def test_why_there_is_no_interval(command: Command) -> None:
    """Eight authors are too few to resample; `score` of such a run says so, too."""
    _, out, _ = command("evaluate", "--loader", "mine:Loader", "--scorer", "mine:Length", *FAST)
    why = "test mine:Length: no interval: bootstrap unavailable: 8 groups; at least 10 are needed"
    assert out.count(why) == 1


def test_a_reason_for_no_interval_is_printed_once(command: Command, tmp_path: Path) -> None:
    """The cell says "no interval" itself where one positive row is too few."""
    lines = [f"{row},{text},{int(row == 3)}" for row, text in enumerate(texts())]
    (tmp_path / "few.csv").write_text("id,text,label\n" + "\n".join(lines))
    _, out, _ = command("evaluate", tmp_path / "few.csv", "--scorer", "mine:Length", *FAST)
    assert "no interval: 1 positive row" in out
    assert "no interval: no interval" not in out


class Stubborn:
    """Is what it is made as: a selector, a splitter, a check and a scorer that do not work."""

    name = criterion = "stubborn"

    def __init__(self, gives: Any = None) -> None:
        self.gives = gives

    def select(self, y_true: Any, y_score: Any) -> Any:
        return 0.5 if self.gives else {}["x"]

    def iter_folds(self, slice_: Any, *, groups: Any = None) -> Any:
        if not self.gives:
            raise ValueError("boom")
        return [[0, 1]]

    def get_n_splits(self, slice_: Any) -> int:
        return 1

    def validate(self, splits: Any) -> Any:
        drop = {"nosuch": [0]} if self.gives else {"rows": [40]}
        return LeakageFinding(self.name, "error", drop, {}, "found", 1)

    def predict_proba(self, X: Any) -> Any:
        assert self.gives, "my own"


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["--select", "mine:Stubborn", "--threshold-on", "rows"], 3,
         "selector 'mine:Stubborn': select failed: KeyError: 'x'"),
        (["--select", "mine:Stubborn{gives=1}", "--threshold-on", "rows"], 3,
         "select returned a float; it must return a ThresholdResult"),
        (["--splitter", "mine:Stubborn"], 2,
         "splitter 'mine:Stubborn': iter_folds failed: ValueError: boom"),
        (["--splitter", "mine:Stubborn{gives=1}"], 2,
         "splitter 'mine:Stubborn{gives=1}': iter_folds yielded a list; a fold is a dict"),
        (["--check", "mine:Stubborn"], 2,
         "check 'mine:Stubborn': it returned row 40 of 'rows', which has 40 rows"),
        (["--check", "mine:Stubborn{gives=1}"], 2, "it returned rows of 'nosuch', which does not exist; the splits"),
        (["--scorer", "mine:Stubborn"], 2, "predict_proba failed an assertion: my own"),
    ],
)  # fmt: skip
def test_what_fails_is_named(
    command: Command, rows: Path, tmp_path: Path, args: list[str], code: int, words: str
) -> None:
    vars(sys.modules["mine"]).update(Stubborn=Stubborn)
    files = [rows] if "--splitter" in args else [rows, f"other={rows}"]
    got, out, err = command("evaluate", *files, "--scorer", "mine:Length", *FAST, *args)
    assert (got, "unexpected" in err) == (code, False)
    assert words in out + err


def test_folds(as_json: Callable[..., Any], rows: Path) -> None:
    payload = as_json(
        "evaluate", rows, "--scorer", "mine:Length", "--splitter", "stratified_kfold{k=3}",
        "--select", "max-f1", *FAST,
    )  # fmt: skip
    assert list(payload["folds"]) == ["fold=0", "fold=1", "fold=2"]
    entry = payload["by_slice"]["test"]
    assert list(entry["parts"]) == ["fold=0", "fold=1", "fold=2"]
    cell = entry["by_scorer"]["mine:Length"]["roc_auc"]
    assert cell["details"] == {**cell["details"], "over": "folds", "n_folds": 3}
    folds = [part["by_scorer"]["mine:Length"]["roc_auc"] for part in entry["parts"].values()]
    assert cell["value"] == pytest.approx(sum(one["value"] for one in folds) / 3)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--scorer", "mine:Length"], "pass either FILES or --loader"),
        (["rows.csv", "--loader", "files", "--scorer", "x"], "pass either FILES or --loader"),
        (["rows.csv", "--scorer", "mine:Lenght"], "has no attribute 'Lenght'"),
        (["rows.csv", "--scorer", "lenght"], "there is no scorer 'lenght'; "),
        (["rows.csv", "--scorer", "mine:Seen"], "is not a valid Scorer: it lacks `predict_proba`"),
        (["rows.csv", "--scorer", "mine:Length", "--select", "max-f1"], "must be used together"),
        (["rows.csv", "--scorer", "mine:Length", "--overwrite"], "--overwrite needs --save"),
        (
            ["rows.csv", "--scorer", "mine:Length", "--scorer", "mine:Length{longest=2}"],
            "two --scorer options are both named 'mine:Length'; write LABEL=",
        ),
        (
            ["--loader", "mine:Seen", "--scorer", "mine:Length"],
            "which is not a valid DatasetLoader",
        ),
        (["--loader", "mine:Loader", "--scorer", "mine:Length", "--text", "x"], "apply to FILES"),
        (["gap.csv", "--scorer", "mine:Length"], "gap.csv: row 2: the text is missing"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    args: list[str], words: str, command: Command, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(rows.parent)
    (rows.parent / "gap.csv").write_text("text,label\na,0\n,1\nc,1\n")
    code, out, err = command("evaluate", *args)
    assert (code, out) == (2, "")
    assert words in err


class TestCheck:
    """``check --loader`` and ``check --check``."""

    def test_a_loader(self, as_json: Callable[..., Any]) -> None:
        payload = as_json("check", "--loader", "mine:Loader", "--no-near")
        assert payload["splits"]["test"]["n"] == 40
        assert payload["splits"]["test"]["file"] == "mine:Loader"

    def test_one_more_check_decides_the_exit_code(self, command: Command, rows: Path) -> None:
        code, out, _ = command("check", rows, "--no-near", "--check", "mine:Seen")
        assert code == 1
        assert "1 rows seen" in out
        assert "docs/leakage/.md" not in out  # it has no code, and no page

    def test_rows_are_fixed_for_it_too(self, command: Command, rows: Path, tmp_path: Path) -> None:
        code, _, _ = command(
            "check", rows, "--no-near", "--check", "mine:Seen", "--fix", tmp_path / "out"
        )
        assert code == 0
        assert len((tmp_path / "out" / "rows.csv").read_text().splitlines()) == 40

    def test_what_rows_cannot_cure(
        self, command: Command, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = LeakageFinding("Seen", "error", None, {}, "the labels are the file's name", 1)
        monkeypatch.setattr(Seen, "validate", lambda self, splits: found)
        code, _, err = command(
            "check", rows, "--no-near", "--check", "mine:Seen", "--fix", tmp_path / "out"
        )
        assert code == 1
        assert (
            "dropping rows does not remove the leakage: Seen: the labels are the file's name" in err
        )
        assert not (tmp_path / "out").exists()

    def test_a_loader_has_no_files_to_fix(self, command: Command, tmp_path: Path) -> None:
        code, _, err = command("check", "--loader", "mine:Loader", "--fix", tmp_path / "out")
        assert code == 2
        assert "a loader defines its own columns and has no files" in err
