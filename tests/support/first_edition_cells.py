"""Cells of a run as reported by each reader, with a common notation for their location.

A cell is located by (slice, part, system, metric). A part is "all", or columns and their values:
``language=de``, ``subject=Africa``, ``seed=1&fold=0``. Readers use several notations for these
locations; `place` normalises them.
"""

import contextlib
import csv
import hashlib
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from eval_toolkit.cli import main
from eval_toolkit.integrations.assertions import assert_metric
from eval_toolkit.runs import Results, Run, format_part, parse_part

ALL = "all"
MEAN = "mean over folds"
_SHOWN = re.compile(r"[-+−]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")
_NO_METRICS = {"n", "n_positive", "is_single_class", "headline", "error_state", "error", "skipped"}


class Cell(NamedTuple):
    """A value with its location and metadata."""

    slice: str
    part: str
    system: str
    metric: str
    value: float | None
    low: float | None
    high: float | None
    status: str
    n: int | None
    n_errors: int

    @property
    def place(self) -> tuple[str, str, str, str]:
        """Location of the cell."""
        return self[:4]

    @property
    def numbers(self) -> tuple[float | None, float | None, float | None]:
        """Value and interval limits."""
        return self[4:7]


def command(*arguments: object) -> tuple[int, str]:
    """Run the command line; return its exit code and standard output."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    code: Any = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as ended:
            code = ended.code
    out.flush()
    return int(code or 0), out.buffer.getvalue().decode()  # type: ignore[attr-defined]


def said(*arguments: object) -> Any:
    """Run a command with ``--json`` and return its output; raise if it fails."""
    code, out = command(*arguments, "--json")
    assert code in (0, 1), f"exit code {code}: {arguments}"
    return json.loads(out)


# --- places -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Known:
    """Properties of a run that determine the notation of its locations."""

    wholes: tuple[str, ...]
    """Slices of the run."""
    n_folds: int
    """Number of folds; with folds, the result for a slice is the mean over them."""

    @classmethod
    def of(cls, run: Run) -> "Known":
        """Return the properties of a run."""
        return cls(tuple(run.cells.slices), len(run.cells.folds))


def place(slice_name: str, part: str, known: Known) -> tuple[str, str]:
    """Return the slice and part of a cell; values with spaces were not quoted."""
    if part == ALL:
        return slice_name, MEAN if known.n_folds else ALL
    return slice_name, "&".join(f"{key}={value}" for key, value in parse_part(part).items())


def shown_place(spelled: str, known: Known) -> tuple[str, str]:
    """Return the slice and part of a location in the notation of displayed tables."""
    whole = spelled.partition(f", mean of {known.n_folds} folds")[0] if known.n_folds else spelled
    if whole in known.wholes:
        return place(whole, ALL, known)
    pairs = parse_part(spelled)
    slice_name = pairs.pop("slice", known.wholes[0])
    return place(slice_name, format_part(pairs), known)


def spelled_in_claims(cell: Cell, known: Known) -> str | None:
    """Return a cell's slice in the notation of claims; None if claims cannot refer to it."""
    if cell.part in (ALL, MEAN):
        return cell.slice
    return cell.part if len(known.wholes) == 1 else f"slice={cell.slice}&{cell.part}"


def spelled_in_assertions(cell: Cell, known: Known) -> str | None:
    """Return a cell's slice in the notation of `assert_metric`; None if it cannot refer to it."""
    return spelled_in_claims(cell, known)


# --- what is stored ---------------------------------------------------------------------------------


def stored_cells(run: Run) -> list[Cell]:
    """Return all cells of a run's results: slices, parts, folds, differences and thresholds."""
    return _cells_of(run.cells, Known.of(run))


def _cells_of(results: Results, known: Known) -> list[Cell]:
    return [
        cell
        for where in results.places
        for cell in _blocks(results.entry(*where), *place(*where, known))
    ]


def _blocks(inner: Mapping[str, Any], slice_name: str, part: str) -> Iterator[Cell]:
    for system, block in inner["by_scorer"].items():
        for state in ("skipped", "error"):
            if isinstance(block.get(state), str):
                yield Cell(slice_name, part, system, "", None, None, None, state, None, 0)
        for metric, cell in block.items():
            if metric == "transferred_operating_points":
                yield from _points(cell, slice_name, part, system)
            elif metric not in _NO_METRICS and not isinstance(cell, str | list):
                yield _cell(cell, slice_name, part, system, metric)
    for pair, difference in (inner.get("paired_diffs") or {}).items():
        if "delta" in difference:
            ends = difference["ci_low"], difference["ci_high"]
            numbers = (difference["delta"], *ends, "ok", None, 0)
            yield Cell(slice_name, part, pair, difference["metric"], *numbers)


def _points(named: Mapping[str, Any], slice_name: str, part: str, system: str) -> Iterator[Cell]:
    for name, rules in named.items():
        for rule, numbers in rules.items():
            for metric in ("threshold", "f1", "precision", "recall", "fpr"):
                path = f"transferred_operating_points.{name}.{rule}.{metric}"
                value = numbers[metric]
                yield Cell(slice_name, part, system, path, value, None, None, "ok", None, 0)


def _cell(cell: Any, slice_name: str, part: str, system: str, metric: str) -> Cell:
    place = (slice_name, part, system, metric)
    if not isinstance(cell, Mapping):
        return Cell(*place, float(cell), None, None, "ok", None, 0)
    ci = cell.get("ci") or {}
    numbers = (cell.get("value"), ci.get("ci_low"), ci.get("ci_high"))
    return Cell(
        *place, *numbers, cell["status"], cell.get("n_units"), int(cell.get("n_errors") or 0)
    )


def records_of(run: Run) -> list[list[Any]]:
    """Return the slice, system, name, line and value counts, mean and digest of each stored column."""
    found = []
    known = Known.of(run)
    parts = {name: [] for name in known.wholes}
    if (run.manifest.get("config") or {}).get("by"):  # of rows by a column, parts were stored too
        parts = {name: run.cells.parts(name) for name in known.wholes}
    subjects = [
        (name, system, part) for name, system in run.subjects for part in (ALL, *parts[name])
    ]
    for slice_name, system, part in subjects:
        records = run.records(slice_name, system, part)
        about = [
            *(records.unit_id, records.attempt, records.content_hash, records.group),
            *(values for _, values in sorted(_as_stored(records.slices).items())),
        ]
        keys = list(zip(*(values.tolist() for values in about), strict=True))
        for name, column in records.columns.items():
            if name.endswith("_answer"):  # an answer for maj@k, stored as a number
                continue
            states = records.status[name].tolist()
            pairs = zip(states, column.tolist(), strict=True)
            values = [value if state == "ok" else state for state, value in pairs]
            lines = sorted([*key, value] for key, value in zip(keys, values, strict=True))
            digest = hashlib.sha256(json.dumps(lines).encode()).hexdigest()[:16]
            numbers = [value for value in values if not isinstance(value, str)]
            mean = sum(numbers) / len(numbers) if numbers else None
            where = (slice_name, place(slice_name, part, known)[1] if part != ALL else ALL)
            found.append([*where, system, name, len(lines), len(numbers), mean, digest])
    return found


def _as_stored(slices: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parts of records, with folds named by seed and number as in the first edition."""
    if not {"seed", "fold"} <= slices.keys():
        return slices
    pairs = zip(slices["seed"], slices["fold"], strict=True)
    named = np.array([f"seed={seed}/fold={fold}" for seed, fold in pairs], dtype=object)
    return {**{key: values for key, values in slices.items() if key != "seed"}, "fold": named}


# --- readers ----------------------------------------------------------------------------------------


def row_cells(run: Run) -> list[Cell]:
    """Return the cells from `Run.rows`."""
    known = Known.of(run)
    return [
        Cell(
            *place(row["slice"], row["part"], known), row["system"], row["metric"],
            row["value"], row["ci_low"], row["ci_high"],
            row["status"], row["n_units"], row["n_errors"],
        )
        for row in run.rows()
    ]  # fmt: skip


def csv_cells(run: Run) -> list[Cell]:
    """Return the cells from ``export --to csv``."""
    code, out = command("export", run.path, "--to", "csv")
    assert code == 0
    known = Known.of(run)

    def number(text: str) -> float | None:
        return float(text) if text else None

    return [
        Cell(
            *place(row["slice"], row["part"], known), row["system"], row["metric"],
            number(row["value"]), number(row["ci_low"]), number(row["ci_high"]),
            row["status"], int(row["n_units"]) if row["n_units"] else None, int(row["n_errors"]),
        )
        for row in csv.DictReader(io.StringIO(out))
    ]  # fmt: skip


def payload_cells(payload: Mapping[str, Any], known: Known) -> list[Cell]:
    """Return the cells in the output of `score`, `run` or `rescore`."""
    results = Results.of(payload)
    return _cells_of(results, replace(known, n_folds=len(results.folds)))


def difference_cells(payload: Mapping[str, Any], known: Known) -> list[list[Any]]:
    """Return the location, other system, cell, values of A and B, and p-values of a comparison."""
    found = []
    for cell in payload["cells"]:
        slice_name, part = place(cell["slice"], cell["part"], replace(known, n_folds=0))
        where = (slice_name, MEAN if cell["n_folds"] else part, cell["scorer"], cell["metric"])
        numbers = (cell["delta"], cell["ci_low"], cell["ci_high"], cell["status"], cell["n_units"])
        more = (cell["value_a"], cell["value_b"], cell["p_value"], cell["p_adjusted"])
        found.append([*Cell(*where, *numbers, cell["n_failed"]), cell["scorer_b"], *more])
    return found


def gate_misses(run: Run, cells: Iterable[Cell], claims: Path) -> list[str]:
    """Test a claim for each cell of a run; return the claims with an unexpected result."""
    known = Known.of(run)
    lines, expected = [], {}
    for at, cell in enumerate(cells):
        called = spelled_in_claims(cell, known)
        if called is None or not cell.metric or "_minus_" in cell.system:
            continue
        nested = cell.metric.startswith("transferred_operating_points.")
        metric = cell.metric.split(".", 3) if nested else cell.metric
        for part, number in zip(("value", "ci_low", "ci_high"), cell.numbers, strict=True):
            for sign in ("==", ">"):
                name = f"{at} {part} {sign}"
                where = {"name": name, "slice": called, "scorer": cell.system, "metric": metric}
                bound = f"{part} {sign} {0.0 if number is None else number!r}"
                expected[name] = sign == "==" and number is not None
                lines += ["[[claim]]", *(f"{k} = {json.dumps(v)}" for k, v in where.items())]
                lines.append(f"require = {json.dumps(bound)}")
    claims.write_text("\n".join(lines))
    report = said("gate", run.path, "--claims", claims)
    found = {claim["name"]: claim["passed"] for claim in report["claims"]}
    return [f"{name}: {found.get(name)}" for name in expected if found.get(name) != expected[name]]


def assertion_misses(run: Run, cells: Iterable[Cell]) -> list[str]:
    """Test each cell with `assert_metric`; return the cells with an unexpected result."""
    known = Known.of(run)
    missed = []
    for cell in cells:
        called = spelled_in_assertions(cell, known)
        reached = called is not None and "." not in cell.metric and "_minus_" not in cell.system
        if not reached or cell.value is None or not cell.metric:
            continue
        how: dict[str, Any] = {"slice": called, "scorer": cell.system, "on": "value"}
        assert_metric(run, cell.metric, at_least=cell.value, at_most=cell.value, **how)
        with contextlib.suppress(AssertionError):
            assert_metric(run, cell.metric, at_least=cell.value + 1e-9, **how)
            missed.append(str(cell.place))
    return missed


# --- reports ----------------------------------------------------------------------------------------


class Page(NamedTuple):
    """The tables of a report."""

    shown: list[tuple[Cell, str]]
    """Cells without numbers, and their text on the page."""
    headline: list[tuple[str, str, str]]
    """Metric, system ("" if there is only one) and displayed text."""
    differences: list[tuple[dict[str, str], str]]
    """Row name, and the displayed values of A, B, their difference and its interval."""
    others: list[list[Any]]
    """Section, table number, first cell and numbers of every other row."""


def page_of(run: Run, file: Path, *others: Run) -> Page:
    """Return the tables in a report on one or more runs."""
    paths = [run.path, *(other.path for other in others)]
    code, _ = command("report", *paths, "-o", file, "--no-charts", "--samples", 3)
    assert code == 0
    parser = _Tables()
    parser.feed(file.read_text(encoding="utf-8"))
    page = Page([], [], [], [])
    known, systems = Known.of(run), list(dict.fromkeys(s for _, s in run.subjects))
    seen: dict[str, int] = {}
    for section, title, (header, *rows) in parser.tables:
        own = section.removeprefix("run-1-")
        seen[own] = seen.get(own, 0) + 1
        for first, *cells in rows:
            named = dict(zip(header[1:], cells, strict=True))
            if own == "headline" and "value" in named:
                page.headline.append((first, "", f"{named['value']} {named['interval']}"))
            elif own == "headline":
                page.headline.extend((first, s, text) for s, text in named.items() if s in systems)
            elif own == "slices":
                system = title if title in systems else systems[0]
                where = (*shown_place(first, known), system)
                page.shown.extend(
                    (Cell(*where, metric, None, None, None, "", None, 0), text)
                    for metric, text in named.items()
                    if metric != "n" and text
                )
            elif own == "differences" and header[0] != "what differs":
                about = {header[0]: first, **named}
                if "slice" in about:
                    folded = replace(known, n_folds=0)
                    about["slice"], about["part"] = shown_place(about["slice"], folded)
                sides = [one.run_id for one in (run, *others)]
                ends = ("interval",) if "interval" in about else ()
                text = " ".join(about.pop(key) for key in (*sides, "difference", *ends))
                page.differences.append((about, text))
            elif own not in ("provenance", "differences") and not own.startswith("run-"):
                page.others.append([own, seen[own], first, [numbers_in(text) for text in cells]])
    return page


def numbers_in(text: str) -> list[float]:
    """Return the numbers in a text."""
    return [float(one.replace(",", "").replace("−", "-")) for one in _SHOWN.findall(text)]


def is_shown(text: str, numbers: Sequence[float | None]) -> bool:
    """Return whether a text contains exactly these numbers, up to rounding."""
    wanted = [number for number in numbers if number is not None]
    found = _SHOWN.findall(text)
    if len(found) != len(wanted):
        return False
    for one, number in zip(found, wanted, strict=True):
        digits = len(one.partition(".")[2])
        if abs(float(one.replace(",", "").replace("−", "-")) - number) > 0.5000001 * 10**-digits:
            return False
    return True


class _Tables(HTMLParser):
    """Parser for the tables of a page: section, title and cell texts."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[tuple[str, str, list[list[str]]]] = []
        self._section = self._title = ""
        self._into = ""
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        if self._hidden or "meaning" in (told.get("class") or "").split() or tag == "sup":
            self._hidden += 1
        elif tag == "section":
            self._section, self._title = told.get("id") or "", ""
        elif tag in ("h3", "caption"):
            self._into, self._title = "title", ""
        elif tag == "table":
            self.tables.append((self._section, self._title, []))
        elif tag == "tr":
            self.tables[-1][2].append([])
        elif tag in ("td", "th"):
            self._into = "cell"
            self.tables[-1][2][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if self._hidden:
            self._hidden -= 1
        elif tag in ("h3", "caption", "td", "th"):
            if tag == "caption":
                self.tables[-1] = (self._section, self._title, self.tables[-1][2])
            self._into = ""

    def handle_data(self, data: str) -> None:
        if self._hidden:
            return
        if self._into == "title":
            self._title += data
        elif self._into == "cell":
            row = self.tables[-1][2][-1]
            row[-1] = " ".join(f"{row[-1]}{data}".split()) + (" " if data.endswith(" ") else "")
