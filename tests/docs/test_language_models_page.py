"""docs/language_models.md: every block runs, in order, and prints what is published."""

import re
import tomllib
from pathlib import Path

import pytest
from tests.docs.pages import DOCS, check_command, commands, run_blocks

from eval_toolkit.tasks import declared, read_task_file

PAGE = DOCS / "language_models.md"


def test_python_blocks_print_what_is_published() -> None:
    assert run_blocks(PAGE) == 8


def test_the_declared_task_is_one(tmp_path: Path) -> None:
    (declared,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
    assert tomllib.loads(declared)["task"]["name"] == "geography"
    (tmp_path / "geography.toml").write_text(declared)
    (tmp_path / "geography.jsonl").write_text(
        '{"question": "Which?", "choices": ["a", "b"], "answer": 1, "continent": "x", '
        '"passage": "p"}\n'
    )
    (sample,) = read_task_file(tmp_path / "geography.toml").samples()
    assert (sample.ground_truth, sample.group, sample.subject) == (" b", "p", "x")


def test_every_key_of_a_task_file_is_listed() -> None:
    page = PAGE.read_text("utf-8")
    table = page[page.index("All keys and") : page.index("## Run and rescore")]
    listed = set(re.findall(r"`(\w+)`", table))
    keys = {key for keys in declared._KEYS.values() for key in keys}
    assert keys <= listed | {"choices"}
    assert listed - keys == {"after", "field", "grader", "parse", "split"}


@pytest.mark.parametrize("line", commands(PAGE), ids=lambda line: " ".join(line.split()[1:4]))
def test_commands_and_options_exist(line: str) -> None:
    check_command(line)
