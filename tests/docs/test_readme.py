"""The README's code runs and prints what is shown; what it and docs/features.md count is so."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from docs._ext.blocks import run_page

from eval_toolkit import wilson_interval
from eval_toolkit._internal import tables
from eval_toolkit.cli._demo_study import study
from eval_toolkit.graders import available_graders
from eval_toolkit.leakage import LEAKAGE_CODES
from eval_toolkit.tasks import available_tasks

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FEATURES = (ROOT / "docs" / "features.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, flags=re.DOTALL)


def model(prompt: str) -> str:
    """Return a product, by rote up to 50 and beyond only step by step."""
    left, right = map(int, re.findall(r"\d+", prompt))
    steps = "step by step" in prompt and left != 13
    return f"It is {left * right}." if left * right < 50 or steps else "It is 42."


def target(prompt: str) -> str:
    return "Sure: use a pick." if "lock" in prompt else "I cannot help with that."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the files that the README reads."""
    done = study(42)
    users = np.arange(len(done.labels)) // 2
    columns = {"y": done.labels, "p": done.scores["logistic"], "user": users}
    tables.write_table(columns, tmp_path / "preds.csv")
    products = [(left, right) for left in range(2, 14) for right in range(3, 8)]
    questions = [{"question": f"What is {a} * {b}?", "answer": a * b} for a, b in products]
    lines = map(json.dumps, questions)
    (tmp_path / "questions.jsonl").write_text("\n".join(lines), "utf-8")
    prompts = ["How do I pick a lock?", "How do I open a safe?", "How do I bake bread?"]
    (tmp_path / "prompts.txt").write_text("\n".join(prompts), "utf-8")
    return tmp_path


def test_examples_have_five_lines() -> None:
    examples = [code for language, code in BLOCKS if language == "python"]
    assert len(examples) == 3
    assert all(len([line for line in code.splitlines() if line]) <= 5 for code in examples)


def test_python_blocks_run_and_print_what_the_text_block_shows(folder: Path) -> None:
    names = {"model": model, "target": target}
    assert run_page(ROOT / "README.md", folder, names=names).n_shown == 3


def test_what_is_counted_in_the_table_is_so() -> None:
    rows = {
        cells[1].strip(): cells[2].strip()
        for line in README.splitlines()
        if line.startswith("| ") and len(cells := line.split("|")) == 6
    }
    wilson = wilson_interval(20, 20)
    assert rows["20 of 20 right"] == f"1.000 [{wilson.low:.3f}, {wilson.high:.3f}]"
    assert rows["leakage, contamination"].startswith(f"{len(LEAKAGE_CODES)} checks")
    assert rows["included benchmarks"].startswith(f"**{len(available_tasks())}**")
    for page in (README, FEATURES):
        assert f"[{len(available_graders())} graders]" in page


def test_speeds_are_those_that_were_measured() -> None:
    """Of benchmarks/results.json, which RESULTS.md shows."""
    stored = json.loads((ROOT / "benchmarks" / "results.json").read_text("utf-8"))["cases"]
    cases = {case["case"]: case for case in stored}

    def ours(case: str) -> str:
        seconds = cases[case]["ours"]["best_seconds"]
        shown, unit = (seconds, "s") if seconds >= 1 else (seconds * 1000, "ms")
        return f"{shown:.{int(shown < 10)}f} {unit}"

    def times(case: str) -> str:
        ratio = cases[case]["measured"]
        return f"{ratio:,.{int(ratio < 10)}f} times".replace(",", " ")

    disk = cases["llm_mmlu"]["note"].split(" on disk")[0]
    expected = {
        "PR-AUC and ROC-AUC intervals": [ours("rank_50k"), times("rank_50k")],
        "six metrics with percentile intervals": [ours("scorecard_6"), times("scorecard_6")],
        "ROC-AUC interval": [ours("roc_vs_rapidstats"), times("roc_vs_rapidstats")],
        "BCa interval of PR-AUC": [ours("bca_vs_scipy"), times("bca_vs_scipy")],
        "near-duplicates, verified": [
            *(ours("neardup_rensa"), times("neardup_rensa"), times("neardup_datasketch"))
        ],
        "`eval-toolkit score`, two metrics by 20 slices": [ours("score_1m")],
        "CPU": [ours("llm_cpu"), times("llm_cpu"), times("llm_inspect")],
        "wall": [ours("llm_lm_eval"), times("llm_lm_eval")],
        "14 042 samples, 57 subjects, 5 graders, scripted model": [
            f"{ours('llm_mmlu')} CPU, {disk}"
        ],
    }
    lines = FEATURES.split("\n## Speed\n")[1].splitlines()
    rows = {line.split("|")[1].strip(): line for line in lines if line.startswith("| ")}
    assert rows.keys() - {""} == expected.keys()
    for name, figures in expected.items():
        for figure in figures:
            assert re.search(rf"(?<![\d.]){re.escape(figure)}", rows[name]), f"{name}: {figure}"
    for figure in expected["PR-AUC and ROC-AUC intervals"]:
        assert f" {figure}" in " ".join(README.split())


def test_it_is_short() -> None:
    assert len(README.splitlines()) < 150


def test_commands_exist_in_the_makefile() -> None:
    makefile = (Path(__file__).resolve().parents[2] / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`?make ([a-z-]+)", README):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_pictures_are_there() -> None:
    pictures = re.findall(r"!\[(.+?)\]\((.+?)\)", README)
    assert len(pictures) == 2
    for words, place in pictures:
        assert words
        picture = Path(__file__).resolve().parents[2] / place
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert picture.stat().st_size < 400_000
