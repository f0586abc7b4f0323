"""docs/judges.md: every block runs and prints what is published, the suite is one."""

import re
from pathlib import Path

import pytest
from tests.docs.pages import DOCS, check_command, commands, run_blocks

from eval_toolkit.tasks import load_suite

PAGE = DOCS / "judges.md"


def test_python_blocks_print_what_is_published() -> None:
    assert run_blocks(PAGE) == 4


def test_the_suite_is_one(tmp_path: Path) -> None:
    (declared,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
    (tmp_path / "suite.toml").write_text(declared)
    suite = load_suite(tmp_path / "suite.toml")
    assert [leaf.name for leaf in suite.leaves()] == ["capitals", "capitals_open"]


@pytest.mark.parametrize("line", commands(PAGE), ids=lambda line: " ".join(line.split()[1:4]))
def test_commands_and_options_exist(line: str) -> None:
    check_command(line)
