"""docs/exports.md: blocks print what is published, every format is named."""

from tests.docs.pages import DOCS, run_blocks

from eval_toolkit.integrations.exporting import EXPORT_FORMATS

PAGE = DOCS / "exports.md"


def test_python_blocks_print_what_is_published() -> None:
    assert run_blocks(PAGE) == 3


def test_every_format_has_a_line() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")][1:]
    assert [row.split("`")[1] for row in rows] == list(EXPORT_FORMATS)
