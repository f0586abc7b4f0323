"""docs/exports.md: blocks print what is published, commands exist, every format is named."""

import pytest
from tests.docs.pages import DOCS, check_command, commands, run_blocks

from eval_toolkit.integrations.exporting import EXPORT_FORMATS

PAGE = DOCS / "exports.md"


def test_python_blocks_print_what_is_published() -> None:
    assert run_blocks(PAGE) == 3


@pytest.mark.parametrize("line", commands(PAGE), ids=lambda line: " ".join(line.split()[3:5]))
def test_commands_and_options_exist(line: str) -> None:
    check_command(line)


def test_every_format_has_a_line() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")][1:]
    assert [row.split("`")[1] for row in rows] == list(EXPORT_FORMATS)
