"""Selection of two runs and of the values to compare."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

import numpy as np
from numpy.typing import NDArray

from eval_toolkit.errors import ArtifactError
from eval_toolkit.report.cells import blocks_of
from eval_toolkit.report.viewer.pairs import CASES, Joined, Rule, Side, joined
from eval_toolkit.report.viewer.records import Filter, Shape
from eval_toolkit.report.viewer.run_list import ListedRun
from eval_toolkit.report.viewer.sample_browser import (
    Q_AT_MOST,
    SIZES,
    finite,
    size_of,
    whole_number,
)
from eval_toolkit.report.viewer.state import Viewer
from eval_toolkit.report.viewer.verdicts import main_column
from eval_toolkit.runs import Run


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Comparison requested by a URL."""

    a: str = ""
    b: str = ""
    subject: int = 0
    """Index of the slice and scorer, from 0."""
    column: str = ""
    show: str = ""
    """Case to filter by; "" for all."""
    sort: str = ""
    """Sort order: "stored", or "" for the largest differences first."""
    q: str = ""
    threshold: float = 0.5
    page: int = 1
    size: int = SIZES[0]

    @classmethod
    def of(cls, given: Mapping[str, str]) -> tuple["Asked", list[str]]:
        """Parse a URL; return the requested comparison, and notes on invalid parameters."""
        subject = whole_number(given.get("subject"))
        threshold = finite(given.get("threshold", "0.5"))
        show, sort = given.get("show", ""), given.get("sort", "")
        known = {
            "subject": subject is not None,
            "threshold": threshold is not None,
            "show": show in CASES,
            "sort": sort in ("stored", "difference"),
        }
        ignored = [
            f"there is no {name} {given[name]!r}"
            for name, is_known in known.items()
            if given.get(name) and not is_known
        ]
        return cls(
            a=given.get("a", ""),
            b=given.get("b", ""),
            subject=subject or 0,
            column=given.get("column", ""),
            show=show if known["show"] else "",
            sort="stored" if sort == "stored" else "",
            q=given.get("q", "").strip()[:Q_AT_MOST],
            threshold=0.5 if threshold is None else threshold,
            page=max(1, whole_number(given.get("page")) or 1),
            size=size_of(given.get("size")),
        ), ignored

    def address(self, where: str = "/compare", /, **more: Any) -> str:
        """Return the URL of this comparison, with some parameters changed."""
        plain = Asked()
        query = [
            (name, value)
            for name, value in {**self.__dict__, **more}.items()
            if value != getattr(plain, name, None)
        ]
        return f"{where}?{urlencode(query, errors='replace')}"


@dataclass(frozen=True)
class Pair:
    """Two finished runs with the slices, scorers and columns that can be compared."""

    a: ListedRun
    b: ListedRun
    shape_a: Shape
    shape_b: Shape
    subjects: Sequence[tuple[tuple[str, str], tuple[str, str]]]
    """Pairs of (slice, scorer) of A and of B."""
    columns: Mapping[str, tuple[str, str]]
    """Measured columns of A and B, by display name."""
    directions: Mapping[str, bool | None]
    """Whether higher is better, for columns that are metrics."""

    @classmethod
    def of(cls, viewer: Viewer, a: ListedRun, b: ListedRun) -> "Pair":
        """Return two runs as a pair.

        Raises if a run is not complete or has no records.
        """
        shapes = viewer.shape(a), viewer.shape(b)
        runs = [Run.open(one.path, verify=False) for one in (a, b)]
        directions = {
            name: cell.higher_is_better
            for run in reversed(runs)
            for block in blocks_of(run)
            for name, cell in block.cells.items()
        }
        columns = {name: (name, name) for name in shapes[0].numbers if name in shapes[1].numbers}
        main = main_column(shapes[0], _metric(a)), main_column(shapes[1], _metric(b))
        if not columns and all(main):
            columns = {" / ".join(main): main}
        subjects = _subjects(runs[0].subjects, runs[1].subjects)
        if not subjects or not columns:
            raise ArtifactError("one of the runs has no measured values")
        return cls(a, b, *shapes, subjects, columns, directions)

    def column(self, asked: str) -> str:
        """Return the requested column, or the main one by default."""
        main = main_column(self.shape_a, _metric(self.a))
        return next(name for name in (asked, main, *self.columns) if name in self.columns)

    def sides(self, subject: int, column: str) -> tuple[Side, Side]:
        """Return the records of A and B to join."""
        labels = [shape.columns.get("label") for shape in (self.shape_a, self.shape_b)]
        if not column.startswith("score") or None in labels:
            labels = [None, None]
        (a, b), (in_a, in_b) = self.subjects[subject], self.columns[column]
        return (
            Side(self.shape_a.path, *a, self.shape_a.columns[in_a], labels[0]),
            Side(self.shape_b.path, *b, self.shape_b.columns[in_b], labels[1]),
        )

    def rule(self, found: Joined, column: str, threshold: float) -> Rule:
        """Return the rule that decides whether a value in a column counts as right."""
        if found.labels is not None:
            return Rule("threshold", threshold)
        in_a, in_b = self.columns[column]
        higher = self.directions.get(in_a)
        if higher is not None and higher == self.directions.get(in_b) and found.is_binary:
            return Rule("binary", higher=higher)
        return Rule("graded" if in_a == in_b else "apart", higher=higher)


def _metric(run: ListedRun) -> str:
    return run.cell.name if run.cell is not None else ""


def _subjects(
    of_a: Sequence[tuple[str, str]], of_b: Sequence[tuple[str, str]]
) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    """Return the (slice, scorer) pairs to compare, matched as in `compare_runs`.

    If no names match, the first pair of each run is used, since unit ids may still match.
    """
    in_a, in_b = ({scorer for _, scorer in one} for one in (of_a, of_b))
    partner = {name: name for name in in_a & in_b}
    if not partner and len(in_a) == len(in_b) == 1:
        partner = {next(iter(in_a)): next(iter(in_b))}
    known = set(of_b)
    both = [
        (one, (one[0], partner[one[1]]))
        for one in of_a
        if one[1] in partner and (one[0], partner[one[1]]) in known
    ]
    return both or list(zip(of_a[:1], of_b[:1], strict=False))


@dataclass(frozen=True, eq=False)
class Chosen:
    """Records that two runs have in common, as selected and ordered by a URL."""

    pair: Pair
    asked: Asked
    """Requested comparison, with the slice, scorer and column that it resolves to."""
    found: Joined
    rule: Rule
    cases: NDArray[np.int8]
    places: NDArray[np.int32]
    ignored: Sequence[str] = ()
    """Notes on requested parts that the runs do not have."""


def chosen(viewer: Viewer, asked: Asked) -> Chosen:
    """Return the common records that a URL requests.

    Raises `NotFoundError`, `TooLongError`, or `ArtifactError` for runs without records.
    """
    pair = Pair.of(viewer, viewer.run(asked.a), viewer.run(asked.b))
    subject = min(asked.subject, len(pair.subjects) - 1)
    column = pair.column(asked.column)
    ignored = []
    if subject != asked.subject:
        ignored.append(f"there is no subject '{asked.subject}'")
    if asked.column and column != asked.column:
        ignored.append(f"the runs have no column {asked.column!r} in common")
    found = _joined(viewer, pair.sides(subject, column))
    rule = pair.rule(found, column, asked.threshold)
    show = asked.show if asked.show in rule.cases else ""
    asked = replace(asked, subject=subject, column=column, show=show)
    cases = found.cases(rule)
    within = None
    if asked.q:
        (slice_a, scorer_a), (slice_b, scorer_b) = pair.subjects[subject]
        within = (
            viewer.order(pair.a, Filter(q=asked.q, slice=slice_a, scorer=scorer_a)),
            viewer.order(pair.b, Filter(q=asked.q, slice=slice_b, scorer=scorer_b)),
        )
    places = found.places(cases, show, within=within, by_difference=not asked.sort)
    return Chosen(pair, asked, found, rule, cases, places, ignored)


def _joined(viewer: Viewer, sides: tuple[Side, Side]) -> Joined:
    """Return the common records of two runs, cached."""
    written = [(one.table.stat().st_mtime_ns, one.table.stat().st_size) for one in sides]
    kept_as = (*sides, *written)
    found = viewer.joined.get(kept_as)
    if found is None:
        found = joined(viewer.store, *sides)
        viewer.joined.keep(kept_as, found, found.nbytes)
    return found
