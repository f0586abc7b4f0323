"""The page of a run: the sections of its report, inside the viewer."""

from typing import TYPE_CHECKING, Any

from eval_toolkit.errors import ArtifactError
from eval_toolkit.report import Wanted, report_html
from eval_toolkit.report.contents import sections_of
from eval_toolkit.report.sections import Chapter
from eval_toolkit.runs import Run
from eval_toolkit.viewer import rendering
from eval_toolkit.viewer.listing import ListedRun

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["download", "run_menu", "show"]


def run_menu(run: ListedRun, current: str) -> list[dict[str, Any]]:
    """Return the navigation of a run's pages.

    Parameters
    ----------
    run : ListedRun
        Whose pages they are.
    current : str
        Label of the one that is shown.
    """
    entries = [("/", "Runs"), (f"/runs/{run.key}", "Report")]
    if run.n_records:
        entries.append((f"/runs/{run.key}/samples", "Samples"))
    return [{"href": href, "label": label, "current": label == current} for href, label in entries]


def show(request: "Request") -> "Response":
    """Return the page of a run that is complete, or how far it is."""
    from starlette.responses import HTMLResponse

    viewer = request.app.state.viewer
    run = viewer.run(request.path_params["key"])
    if run.state != "complete":
        return HTMLResponse(_unfinished(run))
    kept_as = ("run", run.key, run.manifest_hash, _stamps(run))
    html = viewer.pages.get(kept_as)
    if html is None:
        html = _page(run)
        viewer.pages.keep(kept_as, html, len(html))
    return HTMLResponse(html)


def _unfinished(run: ListedRun) -> str:
    return rendering.page(
        "unfinished.html", title=run.run_id, run=run, menu=run_menu(run, "Report")
    )


def _stamps(run: ListedRun) -> tuple[tuple[str, int, int], ...]:
    """Return when each file of a run was last written: another time, another look at its hash."""
    found = ((entry.name, entry.stat()) for entry in sorted(run.path.iterdir()) if entry.is_file())
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in found)


def _page(run: ListedRun) -> str:
    altered = ""
    try:
        opened = Run.open(run.path)
    except ArtifactError as error:
        altered = str(error).removeprefix(f"{run.path}: ")
        opened = Run.open(run.path, verify=False)
    wanted = Wanted()
    sections = list(sections_of(opened, wanted))
    return rendering.page(
        "run.html",
        title=run.run_id,
        run=run,
        altered=altered,
        chapters=[Chapter(sections=sections)],
        charts=wanted.charts,
        menu=run_menu(run, "Report"),
    )


def download(request: "Request") -> "Response":
    """Return the run's report as one file that holds all it needs."""
    from starlette.responses import Response

    run = request.app.state.viewer.run(request.path_params["key"])
    return Response(
        report_html(run.path).encode("utf-8", "backslashreplace"),
        media_type="text/html; charset=utf-8",
        headers={"content-disposition": f'attachment; filename="report-{run.key}.html"'},
    )
