"""Sample browser, with filters, search and sort order in the URL."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from eval_toolkit._internal.words import number, visible
from eval_toolkit.report.viewer import rendering
from eval_toolkit.report.viewer.menus import run_menu
from eval_toolkit.report.viewer.previews import TEXTS, previews
from eval_toolkit.report.viewer.records import Filter, Record, Shape, records_at
from eval_toolkit.report.viewer.run_list import ListedRun
from eval_toolkit.report.viewer.store import TooLongError
from eval_toolkit.report.viewer.verdicts import DISAGREE, VERDICTS, Verdicts
from eval_toolkit.runs.kind_display import Words, kind_named

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

SIZES = (50, 100, 200)
_COLUMNS_AT_MOST = 6
_TEXT_AT_MOST = 60
"""Maximum length of a measured string."""
WHOLE = "all"
"""Name of the slice of all rows."""
Q_AT_MOST = 500
_NO_NAMES: Mapping[float, str] = {}


def show(request: "Request") -> "Response":
    """Return a page of records."""
    from starlette.responses import HTMLResponse

    viewer = request.app.state.viewer
    run = viewer.run(request.path_params["key"])
    shape = viewer.shape(run)
    wanted, ignored = read_filter(request.query_params, shape)
    size = size_of(request.query_params.get("size"))
    stopped, verdicts, rows = "", None, []
    try:
        order: Sequence[int] = viewer.order(run, wanted)
        verdicts, rows = viewer.judged(run), viewer.matching(run, wanted)
    except TooLongError as error:
        order, stopped = [], str(error)
    n_pages = max(1, math.ceil(len(order) / size))
    at = min(max(1, whole_number(request.query_params.get("page")) or 1), n_pages)
    start = (at - 1) * size
    columns = shown_columns(shape, wanted, verdicts)
    read = list(shape.columns) if shape.tables else columns  # a kind shows answers by their values
    found = records_at(viewer.store, shape, order[start : start + size], read)
    texts = previews(
        viewer.store, shape, found, [name for name in TEXTS if _is_shown(name, wanted)]
    )
    words = kind_named(run.kind).words
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
        records=_lines(run, wanted, size, start, found, texts, verdicts),
        texts=[name for name in TEXTS if any(name in own for own in texts.values())],
        columns=columns,
        heads=_heads(run, shape, wanted, size, columns),
        whole=_whole_columns(found, columns),
        choices=_choices(shape, wanted, columns, texts),
        tabs=_tabs(run, wanted, size, verdicts, rows, words),
        sorts=_sorts(run, wanted, size),
        judged="" if verdicts is None else _judged(verdicts, shape, words),
        verdict_words=words.verdicts,
        n=len(order),
        start=start,
        size=size,
        sizes=SIZES,
        page=at,
        n_pages=n_pages,
        links=_links(run, wanted, size, at, n_pages),
        shown=_shown,
        menu=run_menu(run, "Samples"),
        crumbs=[{"href": "/", "label": "Runs"}, {"href": f"/runs/{run.key}", "label": run.run_id}],
    )
    return HTMLResponse(html, status_code=503 if stopped else 200)


def read_filter(given: Mapping[str, str], shape: Shape) -> tuple[Filter, list[str]]:
    """Parse the filter in a URL; return it with notes on invalid parameters."""
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
            ignored.append(f"{text!r} is not a number")
        elif text and column not in shape.numbers:
            ignored.append("a range needs a column of numbers")
        else:
            bounds[name] = bound
    sort = given.get("sort", "")
    if sort and sort.removeprefix("-") not in ("unit", *shape.columns):
        ignored.append(f"there is no column {sort.removeprefix('-')!r} to sort by")
        sort = ""
    verdict = given.get("show", "")
    if verdict not in ("", *VERDICTS, DISAGREE):
        ignored.append(f"there is no verdict {verdict!r}")
        verdict = ""
    status = given.get("status", "")
    if status not in ("", "ok", "skipped", "error"):
        ignored.append(f"there is no status {status!r}")
        status = ""
    exact = {name: given.get(name, "") for name in ("slice", "scorer", *_parts(shape))}
    for name, value in exact.items():
        if len(value) > Q_AT_MOST:  # it would appear in every link of the page
            ignored.append(f"all but the first {Q_AT_MOST} characters of {name}")
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
        show=verdict,
        sort=sort,
        columns=_asked_columns(given, shape),
        **bounds,
    ), ignored


def _asked_columns(given: Mapping[str, str], shape: Shape) -> tuple[str, ...]:
    """Return the columns that a URL requests, in display order."""
    several = getattr(given, "getlist", None)  # the query of a request, else a plain mapping
    asked = several("col") if several else [given["col"]] if "col" in given else []
    return tuple(name for name in _column_names(shape) if name in asked)


def _column_names(shape: Shape) -> list[str]:
    """Return all columns that can be displayed, in order; parts and values have prefixes."""
    parts = [f"part.{name}" for name in shape.parts]
    return [*TEXTS, "slice", "scorer", *parts, *(f"value.{name}" for name in shape.columns)]


def _parts(shape: Shape) -> dict[str, str]:
    return {f"part.{name}": name for name in shape.parts}


def to_query(wanted: Filter, **more: object) -> str:
    """Return a filter as a URL query, omitting empty parts."""
    pairs: list[tuple[str, object]] = [
        (name, getattr(wanted, name))
        for name in ("q", "slice", "scorer", "column", "status", "show")
    ]
    pairs += [(f"part.{name}", value) for name, value in wanted.parts]
    pairs += [("low", wanted.low), ("high", wanted.high), ("sort", wanted.sort), *more.items()]
    kept = [(name, value) for name, value in pairs if value not in (None, "")]
    kept += [("slice", "")] if wanted.every_slice else []
    kept += [("col", name) for name in wanted.columns]
    return urlencode(kept, errors="replace")


def address(run: ListedRun, name: str, wanted: Filter, **more: object) -> str:
    """Return the URL of a page of a run, with a filter."""
    query = to_query(wanted, **more)
    return f"/runs/{run.key}/{name}{'?' + query if query else ''}"


def _is_shown(name: str, wanted: Filter) -> bool:
    """Return whether a column is requested, or no column is."""
    return not wanted.columns or name in wanted.columns


def shown_columns(shape: Shape, wanted: Filter, verdicts: Verdicts | None) -> list[str]:
    """Return the measured columns shown in a list.

    By default, these are the columns used for filtering and sorting, the label, the column that
    determines the verdict, and those of graders. Other columns are shown only if the run has no
    texts, such as answers.
    """
    if wanted.columns:
        return [name for name in shape.columns if f"value.{name}" in wanted.columns]
    asked = [wanted.column, wanted.sort.removeprefix("-")]
    decides = () if verdicts is None else (verdicts.column, *verdicts.graders)
    first = dict.fromkeys(name for name in (*asked, "label", *decides) if name in shape.columns)
    others = () if shape.tables and first else (*shape.numbers, *shape.columns)
    return list(dict.fromkeys([*first, *others]))[:_COLUMNS_AT_MOST]


def _heads(
    run: ListedRun, shape: Shape, wanted: Filter, size: int, columns: Sequence[str]
) -> dict[str, Any]:
    """Return the headers of the unit, the plain columns and the measured columns."""
    several = {name for name in ("slice", "scorer") if len(shape.values[name]) != 1}
    plain = [
        name
        for name in ("slice", "scorer", *_parts(shape))
        if (
            name in wanted.columns
            if wanted.columns
            else name not in ("slice", "scorer") or name in several
        )
    ]
    return {
        "unit": {**_head(run, wanted, size, "unit"), "num": False},
        "slice": "slice" in plain,
        "scorer": "scorer" in plain,
        "parts": [name for marked, name in _parts(shape).items() if marked in plain],
        "measured": [
            {**_head(run, wanted, size, name), "num": name in shape.numbers} for name in columns
        ],
    }


def _choices(
    shape: Shape, wanted: Filter, columns: Sequence[str], texts: Mapping[int, Mapping[str, str]]
) -> list[dict[str, Any]]:
    """Return the columns that can be displayed, and whether each one is displayed."""
    there = [name for name in TEXTS if any(name in own for own in texts.values())]
    usual = {*there, *_parts(shape), *(f"value.{name}" for name in columns)}
    usual |= {name for name in ("slice", "scorer") if len(shape.values[name]) != 1}
    known = [
        name for name in _column_names(shape) if name not in TEXTS or shape.tables or shape.units
    ]
    return [
        {
            "name": name,
            "label": name.removeprefix("part.").removeprefix("value."),
            "on": name in (wanted.columns or usual),
        }
        for name in known
    ]


def _tabs(
    run: ListedRun,
    wanted: Filter,
    size: int,
    verdicts: Verdicts | None,
    rows: Sequence[int],
    words: Words,
) -> list[dict[str, Any]]:
    """Return links to the records with each verdict, with the number of records."""
    counts = {} if verdicts is None else verdicts.counts(rows)
    if not counts:
        return []
    return [
        {
            "label": words.verdicts.get(name, name or "all"),
            "n": n,
            "on": wanted.show == name,
            "href": address(run, "samples", replace(wanted, show=name), size=size),
        }
        for name, n in {"": len(rows), **counts}.items()
    ]


def _sorts(run: ListedRun, wanted: Filter, size: int) -> list[dict[str, Any]]:
    return [
        {
            "label": label,
            "on": wanted.sort == sort,
            "href": address(run, "samples", replace(wanted, sort=sort), size=size),
        }
        for label, sort in (("most informative first", ""), ("by id", "unit"))
    ]


def _judged(verdicts: Verdicts, shape: Shape, words: Words) -> str:
    """Explain how verdicts are determined; "" if there are none."""
    column, rule = verdicts.column, verdicts.rule
    if rule.kind == "threshold":
        at = (
            "the threshold of its scorer" if math.isnan(rule.threshold) else f"{rule.threshold:.6g}"
        )
        positive = shape.label_names.get(1, "1")
        return f"A {column} of at least {at} means {visible(positive, _TEXT_AT_MOST)}."
    if rule.kind == "binary":
        return f"Judged by {column}: {int(rule.higher is not False)} is {words.right}."
    if rule.higher is not None:
        return f"Ordered by {column}, the worst first."
    return ""


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
    texts: Mapping[int, Mapping[str, str]],
    verdicts: Verdicts | None,
) -> list[dict[str, Any]]:
    return [
        {
            "record": record,
            "href": address(run, "sample", wanted, size=size, row=record.row, at=start + place),
            "texts": texts.get(record.row, {}),
            "verdicts": [] if verdicts is None else verdicts.of(record.row),
            "values": {one.name: one for one in record.measured},
        }
        for place, record in enumerate(found)
    ]


def _whole_columns(found: Sequence[Record], columns: Sequence[str]) -> set[str]:
    """Return the columns that contain only integers, which are shown without decimals."""
    broken = {
        one.name
        for record in found
        for one in record.measured
        if isinstance(one.value, float) and not one.value.is_integer()
    }
    return set(columns) - broken


def _shown(value: float | str | None, whole: bool, names: Mapping[float, str] = _NO_NAMES) -> str:
    if value in names:
        return visible(names[value], _TEXT_AT_MOST)  # type: ignore[index]
    if isinstance(value, str):
        return visible(value, _TEXT_AT_MOST)
    return f"{value:.0f}" if whole and value is not None else number(value)


def whole_number(text: str | None) -> int | None:
    """Parse an integer from a URL; None if it is invalid or too long."""
    return int(text) if text and len(text) <= 12 and text.isdecimal() and text.isascii() else None


def size_of(text: str | None) -> int:
    """Return the requested page size if it is offered, else the default."""
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
