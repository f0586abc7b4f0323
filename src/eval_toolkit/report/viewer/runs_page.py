"""Page that lists runs, sorted and filtered according to the URL."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from eval_toolkit.models.prices import money
from eval_toolkit.report.viewer import rendering
from eval_toolkit.report.viewer.live import duration
from eval_toolkit.report.viewer.menus import main_menu
from eval_toolkit.report.viewer.run_list import ListedRun
from eval_toolkit.report.viewer.sample_browser import whole_number
from eval_toolkit.report.viewer.trends import HEIGHT, WIDTH, trends_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_STATES = ("complete", "running", "incomplete", "altered")
_PER_PAGE = 200


@dataclass(frozen=True)
class _Column:
    name: str
    label: str
    key: Callable[[ListedRun], Any]
    num: bool = False


def _value(run: ListedRun) -> float | None:
    known = run.cell is not None and run.cell.status == "ok" and not run.altered
    return run.cell.value if run.cell is not None and known else None


_COLUMNS = (
    _Column("run", "run", lambda run: run.run_id.lower()),
    _Column("value", "main metric", _value, num=True),
    _Column("n", "n", lambda run: run.n, num=True),
    _Column("scorers", "model or scorer", lambda run: run.subjects.lower()),
    _Column("cost", "cost", lambda run: (run.cost or 0.0, run.tokens), num=True),
    _Column("seconds", "took", lambda run: run.seconds, num=True),
    _Column("when", "date", lambda run: run.when),
)
_DEFAULT = "-when"


def show(request: "Request") -> "Response":
    """Return the page that lists runs."""
    from starlette.responses import HTMLResponse

    viewer = request.app.state.viewer
    given = request.query_params
    q, kind, state = (given.get(name, "") for name in ("q", "kind", "state"))
    sort = given.get("sort", _DEFAULT)
    everything = viewer.listed()
    fitting = _sorted([run for run in everything if _fits(run, q, kind, state)], sort)
    kept = {"q": q, "kind": kind, "state": state}
    n_pages = max(1, math.ceil(len(fitting) / _PER_PAGE))
    page = min(max(1, whole_number(given.get("page")) or 1), n_pages)
    start = (page - 1) * _PER_PAGE
    html = rendering.page(
        "runs.html",
        title="Runs",
        folder=viewer.runs.folder,
        n_all=len(everything),
        n=len(fitting),
        start=start,
        runs=fitting[start : start + _PER_PAGE],
        trends=trends_of(fitting),
        trend_size=(WIDTH, HEIGHT),
        duration=duration,
        money=money,
        links=_links({**kept, "sort": sort}, page, n_pages),
        heads=[_head(column, sort, kept) for column in _COLUMNS],
        kinds=sorted({run.kind for run in everything} - {""}),
        states=_STATES,
        q=q,
        kind=kind,
        state=state,
        sort=sort,
        menu=main_menu("Runs"),
    )
    return HTMLResponse(html)


def _fits(run: ListedRun, q: str, kind: str, state: str) -> bool:
    metric = run.cell.name if run.cell is not None else ""
    told = (run.run_id, run.place, run.kind, run.subjects, metric, run.reason, run.git)
    text = "\n".join([*told, run.shown_state, run.altered]).lower()
    words = q.lower().split()
    as_asked = kind in ("", run.kind) and state in ("", run.shown_state)
    return as_asked and all(word in text for word in words)


def _sorted(runs: Sequence[ListedRun], sort: str) -> list[ListedRun]:
    """Return runs sorted by a column; runs without a value come last in either order."""
    column = {one.name: one for one in _COLUMNS}.get(sort.removeprefix("-"))
    if column is None:
        return list(runs)
    having = [run for run in runs if column.key(run) not in (None, "")]
    rest = [run for run in runs if column.key(run) in (None, "")]
    return [*sorted(having, key=column.key, reverse=sort.startswith("-")), *rest]


def _links(kept: dict[str, str], page: int, n_pages: int) -> dict[str, str]:
    """Return links to the previous and next pages."""
    told = {name: value for name, value in kept.items() if value}
    places = {"previous": page - 1, "next": page + 1}
    return {
        name: f"/?{urlencode({**told, 'page': to}, errors='replace')}"
        for name, to in places.items()
        if 1 <= to <= n_pages
    }


def _head(column: _Column, sort: str, kept: dict[str, str]) -> dict[str, Any]:
    """Return the header of a column, with a link that sorts by it or reverses the order."""
    now = {column.name: "ascending", f"-{column.name}": "descending"}.get(sort)
    first = f"-{column.name}" if column.num or column.name == "when" else column.name
    other = column.name if sort == f"-{column.name}" else f"-{column.name}"
    query = {
        **{name: value for name, value in kept.items() if value},
        "sort": other if now else first,
    }
    return {
        "label": column.label,
        "num": column.num,
        "order": now,
        "href": f"/?{urlencode(query, errors='replace')}",
    }
