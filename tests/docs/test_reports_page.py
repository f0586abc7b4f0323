"""docs/reports.md: blocks print what is published, commands and sections exist."""

from pathlib import Path

from tests.docs.pages import DOCS, run_blocks

from eval_toolkit.report.contents import BUILDERS

PAGE = DOCS / "reports.md"


def test_python_blocks_print_what_is_published(tmp_path: Path) -> None:
    assert run_blocks(PAGE, tmp_path) == 1
    assert (tmp_path / "report.html").is_file()


def test_every_section_has_a_line() -> None:
    below = PAGE.read_text("utf-8").split("\n## The report\n")[1].split("\n## ")[0]
    rows = [line for line in below.splitlines() if line.startswith("|")][2:]
    assert len(rows) == len(BUILDERS) + 1  # and the differences of several runs
