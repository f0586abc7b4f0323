"""Navigation menus of the pages."""

from collections.abc import Sequence
from typing import Any

from eval_toolkit.report.viewer.run_list import ListedRun


def main_menu(current: str) -> list[dict[str, Any]]:
    """Return the navigation of pages that cover several runs.

    Examples
    --------
    >>> [(entry["label"], entry["current"]) for entry in main_menu("Compare")]
    [('Runs', False), ('Compare', True)]
    """
    return _menu([("/", "Runs"), ("/compare", "Compare")], current)


def run_menu(run: ListedRun, current: str) -> list[dict[str, Any]]:
    """Return the navigation of the pages of one run.

    The layout receives the entries as ``menu``.
    """
    entries = [("/", "Runs"), (f"/runs/{run.key}", "Report")]
    if run.n_records:
        entries.append((f"/runs/{run.key}/samples", "Samples"))
    return _menu(entries, current)


def _menu(entries: Sequence[tuple[str, str]], current: str) -> list[dict[str, Any]]:
    return [{"href": href, "label": label, "current": label == current} for href, label in entries]
