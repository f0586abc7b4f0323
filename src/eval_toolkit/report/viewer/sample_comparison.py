"""Page that shows one unit of two runs side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eval_toolkit.errors import ArtifactError
from eval_toolkit.report.viewer import rendering
from eval_toolkit.report.viewer.menus import main_menu
from eval_toolkit.report.viewer.pair_selection import Asked, chosen
from eval_toolkit.report.viewer.records import Record, records_at
from eval_toolkit.report.viewer.run_comparison import names_of, shown
from eval_toolkit.report.viewer.run_list import ListedRun
from eval_toolkit.report.viewer.sample_browser import whole_number
from eval_toolkit.report.viewer.sample_page import FIRST, WHOLE_TEXT
from eval_toolkit.report.viewer.state import NotFoundError, Viewer
from eval_toolkit.report.viewer.unit import beside, blocks_of
from eval_toolkit.runs import Run
from eval_toolkit.runs.blocks import Block

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


@dataclass(frozen=True, kw_only=True)
class _Side:
    name: str
    run: ListedRun
    record: Record
    blocks: Sequence[Block]


def show(request: "Request") -> "Response":
    """Return the page of the two records whose numbers are in the URL."""
    from starlette.responses import HTMLResponse

    viewer: Viewer = request.app.state.viewer
    given = request.query_params
    asked, _ = Asked.of(given)
    runs = viewer.run(asked.a), viewer.run(asked.b)
    sides = [
        _side(viewer, name, run, whole_number(given.get(row)))
        for name, run, row in zip(names_of(*runs), runs, ("row", "row_b"), strict=True)
    ]
    a, b = sides
    values = _values(a.record, b.record)
    html = rendering.page(
        "compare_sample.html",
        title=a.record.unit_id or "(no id)",
        a=a,
        b=b,
        sides=sides,
        altered=viewer.altered(a.run, b.run),
        values=values[:FIRST],
        more_values=values[FIRST:],
        groups=list(beside(a.blocks, b.blocks)),
        limit=WHOLE_TEXT,
        other=_other(a, b),
        shown=shown,
        **_neighbours(viewer, asked, whole_number(given.get("at"))),
        menu=main_menu("Compare"),
        crumbs=[
            {"href": "/", "label": "Runs"},
            {"href": asked.address(), "label": f"{a.name} and {b.name}"},
        ],
    )
    return HTMLResponse(html)


def _side(viewer: Viewer, name: str, run: ListedRun, row: int | None) -> _Side:
    shape = viewer.shape(run)
    if row is None or row >= shape.n_rows:
        raise NotFoundError("There is no such sample in this run.")
    columns = list(shape.columns)
    (record,) = records_at(viewer.store, shape, [row], columns, text_at_most=WHOLE_TEXT)
    blocks = blocks_of(viewer.store, Run.open(run.path, verify=False), record)
    return _Side(name=name, run=run, record=record, blocks=blocks)


def _values(a: Record, b: Record) -> list[dict[str, Any]]:
    """Return all measured values of both sides, with those that differ first."""
    of_a, of_b = ({one.name: one for one in record.measured} for record in (a, b))
    found = []
    for name in dict.fromkeys([*of_a, *of_b]):
        one, other = of_a.get(name), of_b.get(name)
        known = one is not None and other is not None and one.status == other.status == "ok"
        delta = None
        values = [getattr(side, "value", None) for side in (one, other)]
        if known and not any(isinstance(value, str) for value in values):
            delta = (values[1] or 0.0) - (values[0] or 0.0)
        found.append({"name": name, "a": one, "b": other, "delta": delta})
    return sorted(found, key=lambda line: not line["delta"])


def _other(a: _Side, b: _Side) -> str:
    """Return a note if the two records are different items; "" otherwise."""
    if a.record.unit_id != b.record.unit_id:
        return f"The id in {a.name} is {a.record.unit_id!r}, in {b.name} {b.record.unit_id!r}"
    hashes = {a.record.content_hash, b.record.content_hash}
    if len(hashes) == 2 and all(hashes):
        return "The hash of the content of this unit differs between the runs"
    return ""


def _neighbours(viewer: Viewer, asked: Asked, at: int | None) -> Mapping[str, Any]:
    """Return links to the previous and next samples in the list."""
    none = {"previous": "", "next": "", "place": None, "n": 0, "back": asked.address()}
    if at is None:
        return none
    try:
        these = chosen(viewer, asked)
    except ArtifactError:  # the list cannot be rebuilt; the sample can still be shown
        return none
    places, found = these.places, these.found
    if at >= len(places):
        return none

    def to(other: int) -> str:
        if not 0 <= other < len(places):
            return ""
        rows = int(found.rows_a[places[other]]), int(found.rows_b[places[other]])
        return asked.address("/compare/sample", row=rows[0], row_b=rows[1], at=other)

    return {
        "previous": to(at - 1),
        "next": to(at + 1),
        "place": at + 1,
        "n": len(places),
        "back": f"{asked.address(page=at // asked.size + 1)}#samples",
    }
