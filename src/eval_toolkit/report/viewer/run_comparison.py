"""Comparison page of two runs: paired statistics, then samples."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from eval_toolkit._internal.words import number, visible
from eval_toolkit.errors import ArtifactError
from eval_toolkit.report.viewer import rendering
from eval_toolkit.report.viewer.menus import main_menu
from eval_toolkit.report.viewer.pair_selection import Asked, Chosen, chosen
from eval_toolkit.report.viewer.pairs import CASES, Rule
from eval_toolkit.report.viewer.previews import previews
from eval_toolkit.report.viewer.records import Measured, records_at
from eval_toolkit.report.viewer.run_list import ListedRun
from eval_toolkit.report.viewer.sample_browser import SIZES
from eval_toolkit.report.viewer.state import Viewer
from eval_toolkit.report.viewer.statistics import Told
from eval_toolkit.runs.kind_display import Words, kind_named

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_REFRESH_S = 2
_NAME_AT_MOST = 40
"""Maximum length of a run's name in the display name of a case."""
_TEXT_AT_MOST = 200
"""Maximum length of a measured string."""


def show(request: "Request") -> "Response":
    """Return the comparison page; with ``part=statistics``, only its statistics."""
    from starlette.responses import HTMLResponse

    viewer: Viewer = request.app.state.viewer
    asked, ignored = Asked.of(request.query_params)
    runs = [run for run in viewer.runs.runs() if run.state == "complete"]
    ticked = [run for run in runs if run.key in request.query_params.getlist("run")]
    if ticked:
        ticked.sort(key=lambda run: run.when)  # the earlier run is the baseline
        first, second = [*(run.key for run in ticked), ""][:2]
        asked = replace(asked, a=first, b=second)
    told: dict[str, Any] = {"asked": asked, "runs": runs, "menu": main_menu("Compare")}
    if not asked.a or not asked.b or len(ticked) > 2:
        n = len(ticked)
        html = rendering.page("compare.html", title="Compare two runs", **told, a=None, n_ticked=n)
        return HTMLResponse(html)
    a, b = viewer.run(asked.a), viewer.run(asked.b)
    statistics = _statistics(viewer, a, b)
    if request.query_params.get("part") == "statistics":
        html = rendering.page("compare_statistics.html", told=statistics)
        return HTMLResponse(html, headers={"x-follow": "stop" if statistics else "go on"})
    samples, why_not = None, ""
    try:
        these = chosen(viewer, asked)
        samples, ignored = _samples(viewer, these), [*ignored, *these.ignored]
    except ArtifactError as error:  # the statistics can still be shown
        why_not = str(error)
    html = rendering.page(
        "compare.html",
        title=" and ".join(names_of(a, b)),
        names=names_of(a, b),
        **told,
        a=a,
        b=b,
        altered=viewer.altered(a, b),
        told=statistics,
        samples=samples,
        why_not=why_not,
        ignored=ignored,
        swapped=Asked(a=asked.b, b=asked.a).address(),
        follow=asked.address(part="statistics"),
        refresh_s=_REFRESH_S,
    )
    return HTMLResponse(html)


def _statistics(viewer: Viewer, a: ListedRun, b: ListedRun) -> Told | None:
    for run in (a, b):
        if run.state != "complete":
            why = f"{run.run_id} is {run.state}; runs can be compared once they are complete"
            return Told(refused=why)
    key = (a.key, a.manifest_hash, b.key, b.manifest_hash)
    n_records = (a.n_records or 0) + (b.n_records or 0)
    return viewer.statistics.of(key, a.path, b.path, n_records=n_records)


def names_of(a: ListedRun, b: ListedRun) -> tuple[str, str]:
    """Return the display names of two runs: their ids, or their folders if the ids are equal."""
    return (a.run_id, b.run_id) if a.run_id != b.run_id else (a.place, b.place)


def case_words(rule: Rule, words: Words, names: tuple[str, str]) -> dict[str, str]:
    """Return the display names of the cases.

    For rollouts, the target fails or does not fail.

    Examples
    --------
    >>> case_words(Rule("binary"), Words(), ("old", "new"))["a"]
    'old right, new wrong'
    >>> case_words(Rule("graded"), Words(), ("old", "new"))["a"]
    'old better'
    """
    a, b = (visible(name, _NAME_AT_MOST) for name in names)
    if rule.kind == "apart":
        return dict.fromkeys(CASES, "")
    if rule.kind == "graded":
        better = "higher" if rule.higher is None else "better"
        return {
            "a": f"{a} {better}",
            "b": f"{b} {better}",
            "equal": "equal",
            "none": "without a value",
        }
    right, wrong = words.right, words.wrong
    return {
        "a": f"{a} {right}, {b} {wrong}",
        "b": f"{b} {right}, {a} {wrong}",
        "both": f"both {right}",
        "neither": f"both {wrong}",
        "none": "without a value",
    }


def shown(value: float | str | None, sign: str = "") -> str:
    """Format a value: whole numbers without decimals, strings on one line.

    Examples
    --------
    >>> shown(1.0), shown(0.25), shown(-1.0, "+"), shown(None), shown("Rome")
    ('1', '0.250', '-1', '', 'Rome')
    """
    if isinstance(value, str):
        return visible(value, _TEXT_AT_MOST)
    if value is not None and float(value).is_integer() and abs(value) < 1e15:
        return f"{value:{sign}.0f}" if value else "0"
    return number(value, sign)


# --- a page of samples ----------------------------------------------------------------------------


def _samples(viewer: Viewer, these: Chosen) -> dict[str, Any]:
    """Return a page of common records, with the available filters."""
    asked, found, pair = these.asked, these.found, these.pair
    n_pages = max(1, math.ceil(len(these.places) / asked.size))
    at = min(asked.page, n_pages)
    start = (at - 1) * asked.size
    words = case_words(these.rule, kind_named(pair.a.kind).words, names_of(pair.a, pair.b))
    lines = _lines(viewer, these, words, start)
    first = replace(asked, page=1)
    return {
        "asked": asked,
        "subjects": pair.subjects,
        "columns": list(pair.columns),
        "rule": these.rule,
        "tabs": _tabs(these, words),
        "sorts": [
            ("largest difference", first.address(sort=""), not asked.sort),
            ("as stored", first.address(sort="stored"), bool(asked.sort)),
        ],
        "lines": lines,
        "texts": {
            row: text
            for row, own in previews(
                viewer.store, pair.shape_a, [line["record"] for line in lines]
            ).items()
            if (text := own.get("input") or own.get("answer"))
        },
        "parts": list(pair.shape_a.parts),
        "label_names": pair.shape_a.label_names,
        "n": len(these.places),
        "n_all": len(found),
        "start": start,
        "links": _links(asked, at, n_pages),
        "n_only_a": found.n_only_a,
        "n_only_b": found.n_only_b,
        "n_others": int(found.others.sum()),
        "sizes": SIZES,
        "all_href": first.address(show="", q=""),
        "shown": shown,
    }


def _links(asked: Asked, at: int, n_pages: int) -> dict[str, str]:
    links: dict[str, str] = {}
    if at > 1:
        links |= {"first": asked.address(page=1), "previous": asked.address(page=at - 1)}
    if at < n_pages:
        links |= {"next": asked.address(page=at + 1), "last": asked.address(page=n_pages)}
    return links


def _tabs(these: Chosen, words: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return one tab per case, with counts; rare cases appear only if they occur."""
    counts = np.bincount(these.cases, minlength=len(CASES))
    first = replace(these.asked, page=1)
    now = these.asked.show
    tabs = [{"label": "all", "n": len(these.found), "href": first.address(show=""), "on": not now}]
    for name in these.rule.cases:
        n = int(counts[CASES.index(name)])
        if n or name not in ("none", "equal"):
            href = first.address(show=name)
            tabs.append({"label": words[name], "n": n, "href": href, "on": now == name})
    return tabs


def _lines(
    viewer: Viewer, these: Chosen, words: Mapping[str, str], start: int
) -> list[dict[str, Any]]:
    """Return table rows for pairs; B's table is read only for the reasons of missing values."""
    asked, found, pair = these.asked, these.found, these.pair
    places = these.places[start : start + asked.size]
    in_a, in_b = pair.columns[asked.column]
    records = {
        record.row: record
        for record in records_at(viewer.store, pair.shape_a, found.rows_a[places].tolist(), [in_a])
    }
    absent = places[np.isnan(found.values_b[places])]
    why = {
        record.row: record.measured[0]
        for record in records_at(viewer.store, pair.shape_b, found.rows_b[absent].tolist(), [in_b])
    }
    undirected = these.rule.kind == "graded" and these.rule.higher is None
    lines = []
    for at, place in enumerate(places):
        record = records.get(int(found.rows_a[place]))
        if record is None:
            continue
        row_b, value = int(found.rows_b[place]), float(found.values_b[place])
        a, b = record.measured[0], why.get(row_b) or Measured(in_b, value, "ok", "")
        case = CASES[int(these.cases[place])]
        compares = case != "none" and these.rule.kind != "apart" and a.value is not None
        rows = {"row": record.row, "row_b": row_b, "at": start + at}
        lines.append(
            {
                "record": record,
                "a": a,
                "b": b,
                "delta": value - a.value if compares and isinstance(a.value, float) else None,
                "case": words[case],
                "won": "" if undirected else {"a": "worse", "b": "better"}.get(case, ""),
                "label": None if found.labels is None else int(found.labels[place]),
                "other": bool(found.others[place]),
                "href": asked.address("/compare/sample", **rows),
            }
        )
    return lines
