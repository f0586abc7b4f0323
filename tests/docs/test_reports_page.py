"""docs/reports.md: blocks print what is published, commands and sections exist."""

from pathlib import Path

import pytest
from tests.docs.pages import DOCS, check_command, commands, run_blocks

from eval_toolkit.report.contents import BUILDERS

PAGE = DOCS / "reports.md"


def test_python_blocks_print_what_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_blocks(PAGE) == 1
    assert (tmp_path / "report.html").is_file()


@pytest.mark.parametrize("line", commands(PAGE), ids=lambda line: " ".join(line.split()[1:4]))
def test_commands_and_options_exist(line: str) -> None:
    check_command(line)


def test_every_section_has_a_line() -> None:
    below = PAGE.read_text("utf-8").split("\n## The report\n")[1].split("\n## ")[0]
    rows = [line for line in below.splitlines() if line.startswith("|")][2:]
    assert len(rows) == len(BUILDERS) + 1  # and the differences of several runs
