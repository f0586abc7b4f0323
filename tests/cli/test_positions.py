"""``eval-toolkit positions``: every item in every position."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., tuple[int, str, str]]
Json = Callable[..., Any]

TASK = """
[task]
name = "letters"
data = "rows.jsonl"
[prompt]
instruction = "{q}"
style = "mc"
choices = "c"
answer = "a"
answer_is = "index"
"""


@pytest.fixture
def task(tmp_path: Path) -> Path:
    rows = [f'{{"q": "{n}", "c": ["x", "y", "z"], "a": {n % 3}}}' for n in range(12)]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    (tmp_path / "task.toml").write_text(TASK)
    return tmp_path / "task.toml"


def test_a_model_that_goes_by_the_position(as_json: Json, task: Path, tmp_path: Path) -> None:
    (tmp_path / "first_choice.py").write_text(
        "from eval_toolkit.models.scripted import ScriptedModel\n"
        "model = ScriptedModel(lambda request: [-0.1, -3.0, -3.0])\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        told = as_json(
            *("positions", task, "--model", "first_choice:model", "--quiet"),
            *("--out", tmp_path / "out"),
        )
    assert told["biased"]
    assert [one["picked"]["value"] for one in told["positions"]] == [1.0, 0.0, 0.0]
    assert told["consistency"]["value"] == 0.0
    assert (tmp_path / "out" / "rotation-2" / "manifest.json").is_file()


def test_the_page_says_what_is_left(command: Command, task: Path, tmp_path: Path) -> None:
    (tmp_path / "last_choice.py").write_text(
        "from eval_toolkit.models.scripted import ScriptedModel\n"
        "model = ScriptedModel(lambda request: [-3.0, -3.0, -0.1])\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        code, out, _ = command(
            "positions", task, "--model", "last_choice:model", "--no-store", "--quiet"
        )
    assert code == 0
    assert "significant position bias" in out
    assert "same choice in every position" in out


def test_texts_have_no_positions(command: Command, tmp_path: Path) -> None:
    code, out, err = command(
        "positions", "capitals_open", "--model", "scripted:x", "--no-store", "--quiet"
    )
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
