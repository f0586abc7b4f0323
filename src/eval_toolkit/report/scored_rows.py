"""Labels and scores of a run, shared by several sections."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from eval_toolkit._internal.validation import FloatArray, IntArray
from eval_toolkit.report.cells import fitted_on
from eval_toolkit.runs import Run
from eval_toolkit.scorecards import Records
from eval_toolkit.scorecards.records import Strings

MAX_SUBJECTS = 6
"""Maximum number of scorers (and slices) with their own charts."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Scored:
    """Labels and scores of one scorer on one slice."""

    slice: str
    scorer: str
    records: Records
    rows: IntArray
    """Positions of the rows with a score in the records."""
    name: str
    """Name of the scorer, with its slice if there are several."""

    @property
    def subject(self) -> tuple[str, str]:
        """Slice and scorer."""
        return self.slice, self.scorer

    @cached_property
    def labels(self) -> IntArray:
        """Label of each row, 0 or 1."""
        labels: IntArray = self.records.columns["label"][self.rows].astype(np.int64)
        return labels

    @cached_property
    def scores(self) -> FloatArray:
        """Score of each row; higher means more positive."""
        scores: FloatArray = self.records.columns["score"][self.rows]
        return scores

    @cached_property
    def unit_ids(self) -> Strings:
        """Unit of each row."""
        units: Strings = self.records.unit_id[self.rows]
        return units

    @cached_property
    def groups(self) -> Strings | None:
        """Group of each row; None if rows are independent."""
        groups: Strings = self.records.group[self.rows]
        return groups if len(set(groups.tolist())) < len(groups) else None

    @property
    def n_absent(self) -> int:
        """Number of rows without a score."""
        return len(self.records) - len(self.rows)

    @property
    def n_positive(self) -> int:
        """Number of rows of the positive class."""
        return int(self.labels.sum())

    @property
    def has_both_classes(self) -> bool:
        """Whether both classes occur."""
        return 0 < self.n_positive < len(self.labels)

    @property
    def are_probabilities(self) -> bool:
        """Whether every score lies in [0, 1]."""
        return len(self.scores) > 0 and bool(((self.scores >= 0) & (self.scores <= 1)).all())

    def parts(self, row: int) -> list[tuple[str, str]]:
        """Return the parts of the data to which a row belongs, with their names."""
        at = self.rows[row]
        return [(name, str(values[at])) for name, values in self.records.slices.items()]


def label_names(run: Run) -> dict[int, str]:
    """Return the user's names of labels 0 and 1; empty if the labels were numbers."""
    stored = run.manifest.get("label_names")
    found = stored.items() if isinstance(stored, Mapping) else ()
    return {int(label): str(name)[:200] for label, name in found if label in ("0", "1") and name}


def class_names(run: Run) -> tuple[str, str]:
    """Return the names of the negative and the positive class."""
    names = label_names(run)
    return (names[0], names[1]) if len(set(names.values())) == 2 else ("negative", "positive")


def scored_of(run: Run) -> list[Scored]:
    """Return the scores of each scorer; parts are included in their slice.

    The stored order is kept, except that slices used to select thresholds come last. The result is
    empty for runs without labels and scores.
    """
    fitted = fitted_on(run)
    # Slices used to select thresholds come last: their charts are the first to be omitted.
    order = sorted(run.cells.slices, key=lambda name: name in fitted)
    subjects = [one for one in run.subjects if {"label", "score"} <= set(_columns(run))]
    if any(slice_name == "all" for slice_name, _ in subjects):
        subjects = [one for one in subjects if one[0] == "all"]
    several = len({slice_name for slice_name, _ in subjects}) > 1

    def place(subject: tuple[str, str]) -> tuple[int, int]:
        slice_name, scorer = subject
        if slice_name not in order:
            return len(order), 0
        scorers = list(run.cells.entry(slice_name).get("by_scorer") or {})
        return order.index(slice_name), scorers.index(scorer) if scorer in scorers else 0

    return list(_scored(run, sorted(subjects, key=place), several))


def _columns(run: Run) -> Mapping[str, str]:
    columns: Mapping[str, str] = run.manifest["artifacts"]["records.parquet"]["columns"]
    return columns


def _scored(run: Run, subjects: Sequence[tuple[str, str]], several: bool) -> Iterator[Scored]:
    for slice_name, scorer in subjects:
        records = run.records(slice_name, scorer)
        if not {"label", "score"} <= set(records.columns):
            continue
        known = (records.status["label"] == "ok") & (records.status["score"] == "ok")
        labels = records.columns["label"]
        # Labels other than 0 and 1 belong to another kind of run.
        known &= (labels == 0) | (labels == 1)
        if known.any():
            yield Scored(
                slice=slice_name,
                scorer=scorer,
                records=records,
                rows=np.flatnonzero(known),
                name=f"{scorer} on {slice_name}" if several else scorer,
            )


def left_out(subjects: Sequence[Scored], shown: Sequence[Scored]) -> list[str]:
    """Return a note on the scorers without charts, if there are any."""
    more = [one.name for one in subjects if one not in shown]
    return [f"not shown, to keep the page short: {', '.join(more)}"] if more else []


def of_folds(run: Run, shown: Sequence[Scored]) -> list[str]:
    """Return notes on out-of-fold scores and repeated rows in a run with folds."""
    if not run.cells.folds:
        return []
    said = "rows of all folds are pooled; each was scored in the fold that held it out"
    n_rows, n_units = len(shown[0].rows), len(np.unique(shown[0].unit_ids))
    if n_units < n_rows:
        said += f"; a row counts once per seed: these {n_rows:,} rows are {n_units:,} distinct ones"
    return [said]


def once_each(places: IntArray, units: Strings) -> IntArray:
    """Return the positions of the first occurrence of each unit.

    Examples
    --------
    >>> once_each(np.array([4, 1, 3]), np.array(["a", "b", "c", "d", "b"], dtype=object)).tolist()
    [4, 3]
    """
    _, first = np.unique(units[places].astype(str), return_index=True)
    kept: IntArray = places[np.sort(first)]
    return kept


@dataclass(frozen=True, kw_only=True)
class Point:
    """A decision threshold of a run, with its origin."""

    threshold: float
    criterion: str
    fitted_on: str = ""

    @property
    def said(self) -> str:
        """Rule that selected the threshold, and the slice on which it was selected."""
        return f"{self.criterion}, chosen on {self.fitted_on}" if self.fitted_on else self.criterion


def stored_points(run: Run, scorer: str) -> list[Point]:
    """Return the distinct thresholds stored in a run for a scorer."""
    config = run.results.get("config") or {}
    given = (config.get("thresholds") or {}) if isinstance(config, Mapping) else {}
    listed: list[Any] = [given.get(scorer)] if isinstance(given, Mapping) else []
    policy = run.results.get("threshold_policy")
    entries = policy.get("thresholds") if isinstance(policy, Mapping) else None
    listed += [
        entry
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, Mapping) and entry.get("scorer_name") == scorer
    ]
    found: dict[float, Point] = {}
    for entry in listed:
        value = entry.get("threshold") if isinstance(entry, Mapping) else None
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
        ):
            continue  # no threshold found, or above every score; its cells report this
        found.setdefault(
            float(value),
            Point(
                threshold=float(value),
                criterion=str(entry.get("criterion") or "stored"),
                fitted_on=str(entry.get("fitted_on_slice") or ""),
            ),
        )
    return list(found.values())


def threshold_of(run: Run, one: Scored) -> float | None:
    """Return the decision threshold of a scorer: a stored one, or 0.5 for probabilities."""
    points = stored_points(run, one.scorer)
    if points:
        return points[0].threshold
    return 0.5 if one.are_probabilities else None
