"""Page of one sample: all of its stored data, and links to adjacent samples."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from eval_toolkit.errors import ArtifactError
from eval_toolkit.report.viewer import rendering
from eval_toolkit.report.viewer.menus import run_menu
from eval_toolkit.report.viewer.records import Filter, Record, records_at, records_of_unit
from eval_toolkit.report.viewer.run_comparison import shown
from eval_toolkit.report.viewer.run_list import ListedRun
from eval_toolkit.report.viewer.sample_browser import address, read_filter, whole_number
from eval_toolkit.report.viewer.state import NotFoundError, Viewer
from eval_toolkit.report.viewer.unit import blocks_of
from eval_toolkit.runs import Run
from eval_toolkit.runs.kind_display import kind_named

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

WHOLE_TEXT = 20_100
_OTHERS_AT_MOST = 50
FIRST = 8
"""Maximum number of values that are initially shown; rollouts have dozens."""


def show(request: "Request") -> "Response":
    """Return the page of the record whose number is in the URL."""
    from starlette.responses import HTMLResponse

    viewer: Viewer = request.app.state.viewer
    run = viewer.run(request.path_params["key"])
    shape = viewer.shape(run)
    given = request.query_params
    row = whole_number(given.get("row"))
    if row is None or row >= shape.n_rows:
        raise NotFoundError("There is no such sample in this run.")
    columns = list(shape.columns)
    (record,) = records_at(viewer.store, shape, [row], columns, text_at_most=WHOLE_TEXT)
    wanted, _ = read_filter(given, shape)
    opened = Run.open(run.path, verify=False)
    others = records_of_unit(viewer.store, shape, record.unit_id, (), at_most=_OTHERS_AT_MOST)
    html = rendering.page(
        "sample.html",
        title=record.unit_id or "(no id)",
        run=run,
        altered=viewer.altered(run),
        record=record,
        groups=_groups(record),
        blocks=blocks_of(viewer.store, opened, record),
        limit=WHOLE_TEXT,
        others=_others(run, record, others),
        **_neighbours(viewer, run, wanted, given.get("at"), given.get("size", "")),
        n_first=FIRST,
        label_names=shape.label_names,
        verdicts=_verdicts(viewer, run, row),
        verdict_words=kind_named(run.kind).words.verdicts,
        shown=shown,
        menu=run_menu(run, "Samples"),
        crumbs=[
            {"href": "/", "label": "Runs"},
            {"href": f"/runs/{run.key}", "label": run.run_id},
            {"href": address(run, "samples", wanted), "label": "Samples"},
        ],
    )
    return HTMLResponse(html)


def _verdicts(viewer: Viewer, run: ListedRun, row: int) -> list[str]:
    try:
        return viewer.judged(run).of(row)
    except ArtifactError:  # the sample can still be shown
        return []


def _groups(record: Record) -> dict[str, list[Any]]:
    """Return the measured values by status: available values first, then missing ones."""
    return {
        status: [one for one in record.measured if one.status == status]
        for status in ("error", "ok", "skipped")
    }


def _others(run: ListedRun, record: Record, found: Sequence[Record]) -> list[dict[str, Any]]:
    return [
        {
            "href": f"/runs/{run.key}/sample?row={one.row}",
            "label": f"{one.slice}, {one.scorer}, try {one.attempt}",
        }
        for one in found
        if one.row != record.row
    ]


def _neighbours(
    viewer: Viewer, run: ListedRun, wanted: Filter, at: str | None, size: str
) -> dict[str, Any]:
    """Return links to the previous and next records in the list."""
    place = whole_number(at)
    none = {"previous": "", "next": "", "place": None, "n": 0, "back": ""}
    if place is None:
        return none
    try:
        order = viewer.order(run, wanted)
    except ArtifactError:  # the list cannot be rebuilt; the sample can still be shown
        return none
    if place >= len(order):
        return none

    def to(other: int) -> str:
        if not 0 <= other < len(order):
            return ""
        return address(run, "sample", wanted, size=size, row=int(order[other]), at=other)

    per_page = whole_number(size) or 50
    return {
        "previous": to(place - 1),
        "next": to(place + 1),
        "place": place + 1,
        "n": len(order),
        "back": address(run, "samples", wanted, size=size, page=place // per_page + 1),
    }
