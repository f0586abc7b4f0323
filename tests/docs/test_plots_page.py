"""docs/plots.md: every block runs and prints what is published, every function is named."""

from tests.docs.pages import DOCS, run_blocks

from eval_toolkit.report import plots

PAGE = DOCS / "plots.md"


def test_python_blocks_print_what_is_published() -> None:
    assert run_blocks(PAGE) == 5


def test_every_chart_is_on_the_page() -> None:
    text = PAGE.read_text("utf-8")
    charts = [
        name for name in plots.__all__ if name.startswith(("plot_", "save_", "set_", "thin_"))
    ]
    assert [name for name in charts if f"`{name}" not in text] == []
