"""The two tasks that come along, on the real model: in numpy, and behind a real server."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eval_toolkit.models.llama_cpp import LlamaCppServer
from eval_toolkit.runs import Run


def run(*arguments: object) -> dict[str, Any]:
    """Run the command line; it must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", "eval_toolkit", *map(str, arguments), "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def cells(found: dict[str, Any]) -> dict[str, Any]:
    (task,) = found["results"]["by_slice"].values()
    (block,) = task["by_scorer"].values()
    assert isinstance(block, dict)
    return block


@pytest.fixture(scope="module")
def server(embedded_weights: Path) -> Iterator[LlamaCppServer]:
    pytest.importorskip("xllamacpp")
    with LlamaCppServer(embedded_weights, n_ctx=1024) as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def zero_shot(embedded_weights: Path, folder: Path) -> dict[str, Any]:
    return run("run", "capitals", "--model", "embedded", "--limit", 5, "--out", folder / "zero")


def test_the_embedded_model_knows_capitals(zero_shot: dict[str, Any]) -> None:
    """Chance is 0.25; of all 100 the model has 81 right, so 20 of them are well above a half."""
    found = cells(zero_shot)
    assert found["accuracy"]["value"] > 0.55
    assert found["accuracy"]["ci"]["ci_low"] > 0.3
    assert found["accuracy"]["n_units"] == 20
    assert found["accuracy_macro"]["details"]["n_parts"] == 4
    assert found["bits_per_byte"]["details"]["higher_is_better"] is False


def test_two_prompts_are_compared_on_the_same_questions(
    zero_shot: dict[str, Any], folder: Path
) -> None:
    run("run", "capitals", "--model", "embedded", "--limit", 5, "--fewshot", 2,
        "--out", folder / "two")  # fmt: skip
    compared = run("compare", folder / "zero", folder / "two")
    by_metric = {cell["metric"]: cell for cell in compared["cells"]}
    assert by_metric["accuracy"]["n_units"] == 20
    assert by_metric["accuracy"]["n_only_a"] == by_metric["accuracy"]["n_only_b"] == 0
    # Examples tell the model that a name alone is wanted: every byte of it gets likelier.
    assert by_metric["bits_per_byte"]["verdict"] == "better"
    assert by_metric["bits_per_byte"]["delta"] < -0.5


def test_open_answers(embedded_weights: Path, folder: Path) -> None:
    found = run(
        "run", "capitals_open", "--model", "embedded", "--limit", 1, "--out", folder / "open"
    )
    assert 0.2 <= cells(found)["exact_match"]["value"] <= 1.0
    assert found["usage"]["completion_tokens"] > 0


def test_the_same_behind_a_real_server(
    server: LlamaCppServer, zero_shot: dict[str, Any], folder: Path
) -> None:
    """llama.cpp ignores echo; the proof finds that out and tokens are forced."""
    there = ("--model", "openai:smol", "--base-url", server.base_url)
    found = run("run", "capitals", *there, "--limit", 2, "--out", folder / "served")
    ours, theirs = (
        Run.open(folder / name).records("capitals", scorer)
        for name, scorer in (("zero", "embedded"), ("served", "smol"))
    )
    choice = dict(zip(ours.unit_id, ours.columns["choice"], strict=True))
    agree = [
        choice[unit] == c for unit, c in zip(theirs.unit_id, theirs.columns["choice"], strict=True)
    ]
    assert len(agree) == 8
    assert sum(agree) >= 6  # its numbers move by tenths of a nat
    assert found["n_errors"] == 0
    opened = run("run", "capitals_open", *there, "--limit", 1, "--out", folder / "served-open")
    assert opened["n_errors"] == 0
    assert cells(opened)["f1"]["n_units"] == 4
