"""The README's code runs, and its table is what the code prints."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval_toolkit.cli._tour import study

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, flags=re.DOTALL)


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    done = study(42)
    labels, scores = done.labels, done.scores
    return {
        "y_true": labels,
        "y_score": scores["logistic"],
        "score_a": scores["logistic"],
        "score_b": scores["forest"],
        "user_id": np.arange(len(labels)) // 2,
    }


def test_there_are_blocks() -> None:
    assert [language for language, _ in BLOCKS].count("python") >= 2


def test_python_blocks_run_and_print_what_the_text_block_shows(
    names: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    for language, code in BLOCKS:
        if language == "python":
            exec(compile(code, "README.md", "exec"), names)  # noqa: S102
            printed = capsys.readouterr().out
        if language == "text":
            assert code == printed


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
