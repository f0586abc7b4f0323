"""Files that have nothing to do with each other, checked one by one, as a commit may hold them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from eval_toolkit import _tables
from eval_toolkit.cli._exit import EvidenceSaysNo
from eval_toolkit.cli._show import Output, progress
from eval_toolkit.leakage import LeakageReport
from eval_toolkit.report.pages import Page

__all__ = ["check_each"]


def check_each(
    given: Sequence[str],
    alone: Callable[[str], tuple[Page, LeakageReport]],
    *,
    strict: bool,
    output: Output,
    inputs: Sequence[Path],
) -> None:
    """Show what was found in every file by itself; exit 1 if that is an error in any."""
    files = list(dict.fromkeys(file for path in given for file in _tables.expand_paths(path)))
    pages, failed = {}, False
    for file in progress(files, "checking", len(files)):
        page, report = alone(str(file))
        failed |= report.has_errors()
        failed |= strict and any(found.n_affected for found in report.findings)
        pages[str(file)] = page
    payload = {name: dict(page.payload) for name, page in pages.items()}
    whole = Page(
        "Leakage",
        {"failed": failed, "files": payload},
        [line for page in pages.values() for line in page.lead],
        [replace(page.tables[0], title=name) for name, page in pages.items()],
        list(dict.fromkeys(note for page in pages.values() for note in page.notes)),
    )
    output.emit(whole, inputs=[*files, *inputs], summary=True)
    if failed:
        raise EvidenceSaysNo
