"""Live view of a running evaluation."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from eval_toolkit._internal.redaction import redact_secrets
from eval_toolkit.errors import ArtifactError
from eval_toolkit.report.viewer import rendering
from eval_toolkit.report.viewer.run_list import ListedRun
from eval_toolkit.report.viewer.state import Viewer
from eval_toolkit.runs import RunProgress, read_progress
from eval_toolkit.runs.folder import run_head
from eval_toolkit.runs.interim import read_so_far

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_LAST = 10
_REFRESH_S = 2


def show(request: "Request") -> "Response":
    """Return the dynamic part of the page, and whether to keep polling."""
    from starlette.responses import HTMLResponse

    viewer: Viewer = request.app.state.viewer
    run = viewer.run(request.path_params["key"])
    told = _told(viewer, run)
    html = rendering.page("live_part.html", **told)
    return HTMLResponse(html, headers={"x-follow": told["next"]})


def followed(viewer: Viewer, run: ListedRun, menu: list[dict[str, Any]]) -> str:
    """Return the page of an incomplete run.

    The page updates itself and is replaced by the report once the run is complete.
    """
    told = _told(viewer, run)
    return rendering.page(
        "live.html",
        title=run.run_id,
        menu=menu,
        follow=f"/runs/{run.key}/live",
        refresh_s=_REFRESH_S,
        **told,
    )


def _told(viewer: Viewer, run: ListedRun) -> dict[str, Any]:
    """Return the progress of a run as data for the template."""
    least: dict[str, Any] = {"run": run, "broken": "", "progress": None, "last": []}
    least["so_far"] = None
    try:
        before = viewer.positions.get(run.key)
        progress = read_progress(run.path, since=before)
        viewer.positions.keep(run.key, progress.position, 1)
        last = [] if progress.state == "complete" else progress.tail(_LAST)[::-1]
    except ArtifactError as error:
        return least | {"next": "stop", "broken": _without(str(error), run)}
    if progress.state == "complete":
        # Complete by its manifest, but not by its files: a reload would find the same state.
        damaged = run.state == "incomplete"
        why = run.reason if damaged else ""
        return least | {"next": "stop" if damaged else "reload", "broken": why}
    return least | {
        "next": "go on" if progress.state == "running" else "stop",
        "progress": progress,
        "so_far": read_so_far(run.path),
        "last": last,
        "share": _share(progress),
        "rate": _rate(progress.rate),
        "left": None if progress.eta_s is None else duration(progress.eta_s),
        "command": "" if progress.state == "running" else _command(run),
    }


def _without(text: str, run: ListedRun) -> str:
    return text.removeprefix(f"{run.path}: ").replace(str(run.path), run.place)


def _share(progress: RunProgress) -> float | None:
    if not progress.n_planned or progress.n_done is None:
        return None
    return min(1.0, progress.n_done / progress.n_planned)


def _rate(rate: float | None) -> str:
    """Format a rate per second, or per minute if it is low; "" if it rounds to zero."""
    if rate is None or rate < 0.001:
        return ""
    return f"{rate:.1f} a second" if rate >= 1 else f"{60 * rate:.1f} a minute"


def _command(run: ListedRun) -> str:
    """Return the command that started a run; "" if it is not stored."""
    try:
        manifest: Mapping[str, Any] = redact_secrets(run_head(run.path)[1])
    except ArtifactError:
        return ""
    return str(manifest.get("command") or "")


def duration(seconds: float) -> str:
    """Format a duration with up to two units.

    Examples
    --------
    >>> duration(8.2), duration(135), duration(7_400), duration(200_000)
    ('8 s', '2 min 15 s', '2 h 3 min', '2 d 7 h')
    """
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    for size, name, below, inner in ((86400, "d", 3600, "h"), (3600, "h", 60, "min")):
        if whole >= size:
            return f"{whole // size} {name} {whole % size // below} {inner}"
    return f"{whole // 60} min {whole % 60} s"
