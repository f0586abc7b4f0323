"""docs/leakage: a page per code, in one shape, whose example runs and prints what it shows."""

import re
from pathlib import Path

from docs._ext.blocks import run_page
from tests.support.each import each

from eval_toolkit.leakage import LEAKAGE_CODES

DOCS = Path(__file__).resolve().parents[3] / "docs" / "leakage"
HEADINGS = ["What it finds", "Why it hurts", "Example", "What to do"]


@each(("check", "code"), LEAKAGE_CODES.items())
def test_page(check: str, code: str) -> None:
    page = (DOCS / f"{code}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {code} · {check}\n")
    assert re.findall(r"^## (.+)$", page, flags=re.MULTILINE) == HEADINGS
    assert run_page(DOCS / f"{code}.md").n_shown == 1


def test_index_lists_every_code_and_no_other_page() -> None:
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"\[(LK\d+)\]\((LK\d+)\.md\) \| `(\w+)`", index)
    assert [(check, code) for code, file, check in listed if code == file] == list(
        LEAKAGE_CODES.items()
    )
    assert {file.stem for file in DOCS.glob("LK*.md")} == set(LEAKAGE_CODES.values())


def test_index_examples_run() -> None:
    assert run_page(DOCS / "README.md").n_shown == 1
