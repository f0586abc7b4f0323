"""Page of a run in the viewer: the sections of its report."""

from typing import TYPE_CHECKING

from eval_toolkit.report.viewer.integrity import written
from eval_toolkit.report.viewer.live import followed
from eval_toolkit.report.viewer.menus import run_menu
from eval_toolkit.report.viewer.report_page import LARGE, file_of, made_apart, page_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from eval_toolkit.report.viewer.state import Viewer


def show(request: "Request") -> "Response":
    """Return the report of a complete run, or the progress of an incomplete one."""
    from starlette.responses import HTMLResponse

    viewer: Viewer = request.app.state.viewer
    run = viewer.run(request.path_params["key"])
    if run.state != "complete":
        return HTMLResponse(followed(viewer, run, run_menu(run, "Report")))
    viewer.checks.of(run, wait_s=0)  # the list shows the result, too
    large = (run.n_records or 0) > LARGE
    whole = not large or request.query_params.get("whole") == "1"
    kept_as = ("run", run.key, whole, run.manifest_hash, written(run.path))
    html = viewer.pages.get(kept_as)
    if html is None:
        apart = large and whole
        html = made_apart(viewer.runs.folder, run, "page") if apart else page_of(run, whole=whole)
        viewer.pages.keep(kept_as, html, len(html))
    return HTMLResponse(html)


def download(request: "Request") -> "Response":
    """Return the run's report as one self-contained file."""
    from starlette.responses import Response

    viewer: Viewer = request.app.state.viewer
    run = viewer.run(request.path_params["key"])
    large = (run.n_records or 0) > LARGE
    html = made_apart(viewer.runs.folder, run, "file") if large else file_of(run)
    return Response(
        html.encode("utf-8", "backslashreplace"),
        media_type="text/html; charset=utf-8",
        headers={"content-disposition": f'attachment; filename="report-{run.key}.html"'},
    )
