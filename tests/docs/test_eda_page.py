"""docs/eda.md: every block runs and prints what is published, and the page names what there is."""

import re

from tests.docs.pages import DOCS, run_blocks

from eval_toolkit.leakage import eda

PAGE = DOCS / "eda.md"


def test_python_blocks_print_what_is_published() -> None:
    assert run_blocks(PAGE) == 4


def test_every_function_is_on_the_page() -> None:
    page = PAGE.read_text("utf-8")
    named = set(re.findall(r"\b[a-z][a-z0-9]*(?:_[a-z0-9]+)+\b", page))
    functions = {name for name in eda.__all__ if name[0].islower()}
    assert functions
    assert functions <= named
