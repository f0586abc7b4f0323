"""conversations."""

from eval_toolkit.report.sections import Section, Wanted
from eval_toolkit.runs import Run

__all__ = ["build"]


def build(run: Run, wanted: Wanted) -> Section | None:
    """Return the section."""
    return None
