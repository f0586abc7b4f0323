"""Sample browser with filters, search and sorting in the URL."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from eval_toolkit._internal.words import number, visible
from eval_toolkit.report.viewer import rendering
from eval_toolkit.report.viewer.listing import ListedRun
from eval_toolkit.report.viewer.menus import run_menu
from eval_toolkit.report.viewer.previews import previews
from eval_toolkit.report.viewer.records import Filter, Record, Shape, records_at
from eval_toolkit.report.viewer.store import TooLongError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = [
    "Q_AT_MOST",
    "SIZES",
    "address",
    "finite",
    "read_filter",
    "show",
    "shown_columns",
    "size_of",
    "to_query",
    "whole_number",
]

SIZES = (50, 100, 200)
_COLUMNS_AT_MOST = 6
_COLUMNS_BESIDE_TEXTS = 4
_TEXT_AT_MOST = 60
"""Maximum length of a measured text."""
WHOLE = "all"
"""Name of the slice of all rows."""
Q_AT_MOST = 500


def show(request: "Request") -> "Response":
    """Return a page of records."""
    from starlette.responses import HTMLResponse

    viewer = request.app.state.viewer
    run = viewer.run(request.path_params["key"])
    shape = viewer.shape(run)
    wanted, ignored = read_filter(request.query_params, shape)
    size = size_of(request.query_params.get("size"))
    stopped = ""
    try:
        order: Sequence[int] = viewer.order(run, wanted)
    except TooLongError as error:
        order, stopped = [], str(error)
    n_pages = max(1, math.ceil(len(order) / size))
    at = min(max(1, whole_number(request.query_params.get("page")) or 1), n_pages)
    start = (at - 1) * size
    columns = shown_columns(shape, wanted)
    found = records_at(viewer.store, shape, order[start : start + size], columns)
    texts = previews(viewer.store, shape, found)
    html = rendering.page(
        "samples.html",
        title="Samples",
        run=run,
        altered=viewer.altered(run),
        shape=shape,
        wanted=wanted,
        parts=dict(wanted.parts),
        ignored=ignored,
        stopped=stopped,
        records=_lines(run, wanted, size, start, found, texts),
        texts=bool(texts),
        columns=columns,
        heads=[
            {**_head(run, wanted, size, name), "num": name in shape.numbers}
            for name in ("unit", *columns)
        ],
        whole=_whole_columns(found, columns),
        n=len(order),
        start=start,
        size=size,
        sizes=SIZES,
        page=at,
        n_pages=n_pages,
        links=_links(run, wanted, size, at, n_pages),
        several_scorers=len(shape.values["scorer"]) != 1,
        several_slices=len(shape.values["slice"]) != 1,
        shown=_shown,
        menu=run_menu(run, "Samples"),
        crumbs=[{"href": "/", "label": "Runs"}, {"href": f"/runs/{run.key}", "label": run.run_id}],
    )
    return HTMLResponse(html, status_code=503 if stopped else 200)


def read_filter(given: Mapping[str, str], shape: Shape) -> tuple[Filter, list[str]]:
    """Return the filter in a URL, and notes on invalid parts.

    Parameters
    ----------
    given : mapping
        Query of the URL.
    shape : Shape
        Shape of the run.
    """
    ignored = []
    column = given.get("column", "")
    if column and column not in shape.columns:
        ignored.append(f"there is no column {column!r}")
        column = ""
    bounds: dict[str, float | None] = {"low": None, "high": None}
    for name in bounds:
        text = given.get(name, "").strip()
        bound = finite(text)
        if text and bound is None:
            ignored.append(f"{text!r} is no number")
        elif text and column not in shape.numbers:
            ignored.append("a range needs a column of numbers")
        else:
            bounds[name] = bound
    sort = given.get("sort", "")
    if sort and sort.removeprefix("-") not in ("unit", *shape.columns):
        ignored.append(f"there is no column {sort.removeprefix('-')!r} to sort by")
        sort = ""
    status = given.get("status", "")
    if status not in ("", "ok", "skipped", "error"):
        ignored.append(f"there is no status {status!r}")
        status = ""
    exact = {name: given.get(name, "") for name in ("slice", "scorer", *_parts(shape))}
    for name, value in exact.items():
        if len(value) > Q_AT_MOST:  # it would appear in every link of the page
            ignored.append(f"the end of {name}, which has more than {Q_AT_MOST} characters")
            exact[name] = value[:Q_AT_MOST]
        elif value not in shape.values[name]:  # browsers send a line end as two characters
            exact[name] = next(
                (one for one in shape.values[name] if one.splitlines() == value.splitlines()), value
            )
    parts = ((name, exact[marked]) for marked, name in _parts(shape).items())
    # "all" contains the rows of all other slices: show each row once unless requested otherwise.
    whole = WHOLE in shape.values["slice"] and len(shape.values["slice"]) > 1
    every = whole and given.get("slice") == ""
    return Filter(
        q=given.get("q", "").strip()[:Q_AT_MOST],
        slice=exact["slice"] or (WHOLE if whole and not every else ""),
        every_slice=every,
        scorer=exact["scorer"],
        parts=tuple((name, value) for name, value in parts if value),
        column=column,
        status=status,
        sort=sort,
        **bounds,
    ), ignored


def _parts(shape: Shape) -> dict[str, str]:
    return {f"part.{name}": name for name in shape.parts}


def to_query(wanted: Filter, **more: object) -> str:
    """Return a filter as a URL query; empty parts are omitted."""
    pairs: list[tuple[str, object]] = [
        (name, getattr(wanted, name)) for name in ("q", "slice", "scorer", "column", "status")
    ]
    pairs += [(f"part.{name}", value) for name, value in wanted.parts]
    pairs += [("low", wanted.low), ("high", wanted.high), ("sort", wanted.sort), *more.items()]
    kept = [(name, value) for name, value in pairs if value not in (None, "")]
    kept += [("slice", "")] if wanted.every_slice else []
    return urlencode(kept, errors="replace")


def address(run: ListedRun, name: str, wanted: Filter, **more: object) -> str:
    """Return the URL of a page of a run, with a filter."""
    query = to_query(wanted, **more)
    return f"/runs/{run.key}/{name}{'?' + query if query else ''}"


def shown_columns(shape: Shape, wanted: Filter) -> list[str]:
    """Return the measured columns shown in a list, filtered and sorted ones first."""
    first = [wanted.column, wanted.sort.removeprefix("-")]
    asked = [name for name in dict.fromkeys(first) if name in shape.columns]
    most = _COLUMNS_BESIDE_TEXTS if shape.tables else _COLUMNS_AT_MOST
    return list(dict.fromkeys([*asked, *shape.numbers, *shape.columns]))[:most]


def _links(run: ListedRun, wanted: Filter, size: int, at: int, n_pages: int) -> dict[str, str]:
    def to(page: int) -> str:
        return address(run, "samples", wanted, size=size, page=page)

    links: dict[str, str] = {}
    if at > 1:
        links |= {"first": to(1), "previous": to(at - 1)}
    if at < n_pages:
        links |= {"next": to(at + 1), "last": to(n_pages)}
    return links


def _head(run: ListedRun, wanted: Filter, size: int, name: str) -> dict[str, Any]:
    """Return the header of a column, with a link that sorts by it or reverses the order."""
    now = {name: "ascending", f"-{name}": "descending"}.get(wanted.sort)
    other = f"-{name}" if wanted.sort == name else name
    return {
        "label": name,
        "order": now,
        "href": address(run, "samples", replace(wanted, sort=other), size=size),
    }


def _lines(
    run: ListedRun,
    wanted: Filter,
    size: int,
    start: int,
    found: Sequence[Record],
    texts: Mapping[int, str],
) -> list[dict[str, Any]]:
    return [
        {
            "record": record,
            "href": address(run, "sample", wanted, size=size, row=record.row, at=start + place),
            "text": texts.get(record.row, ""),
            "broken": any(one.status == "error" for one in record.measured),
        }
        for place, record in enumerate(found)
    ]


def _whole_columns(found: Sequence[Record], columns: Sequence[str]) -> set[str]:
    """Return the columns of whole numbers, which are shown without decimals."""
    broken = {
        one.name
        for record in found
        for one in record.measured
        if isinstance(one.value, float) and not one.value.is_integer()
    }
    return set(columns) - broken


def _shown(value: float | str | None, whole: bool) -> str:
    if isinstance(value, str):
        return visible(value, _TEXT_AT_MOST)
    return f"{value:.0f}" if whole and value is not None else number(value)


def whole_number(text: str | None) -> int | None:
    """Parse a whole number from a URL; None if it is invalid or too long."""
    return int(text) if text and len(text) <= 12 and text.isdecimal() and text.isascii() else None


def size_of(text: str | None) -> int:
    """Return the requested page size if it is available, else the default."""
    found = whole_number(text)
    return found if found in SIZES and found is not None else SIZES[0]


def finite(text: str) -> float | None:
    """Parse a finite number from a URL; None if it is invalid.

    Examples
    --------
    >>> finite("0.4"), finite("0,4"), finite("nan")
    (0.4, None, None)
    """
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
