"""The navigation at the top of a run's pages."""

from typing import Any

from eval_toolkit.viewer.listing import ListedRun

__all__ = ["run_menu"]


def run_menu(run: ListedRun, current: str) -> list[dict[str, Any]]:
    """Return the navigation of a run's pages.

    Parameters
    ----------
    run : ListedRun
        Whose pages they are.
    current : str
        Label of the one that is shown.

    Returns
    -------
    list of dict
        What the layout shows as ``menu``.
    """
    entries = [("/", "Runs"), (f"/runs/{run.key}", "Report")]
    if run.n_records:
        entries.append((f"/runs/{run.key}/samples", "Samples"))
    return [{"href": href, "label": label, "current": label == current} for href, label in entries]
