"""Result cells, and the mapping of cells that every evaluation returns."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Literal, TypeAlias

from eval_toolkit._internal.display import Displayed, Estimate, Table, Tabled
from eval_toolkit._internal.display import Status as StatusCell
from eval_toolkit._internal.optional import require
from eval_toolkit._internal.words import nearest
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.inference.results import BootstrapCI
from eval_toolkit.metric_specs.names import stored_name
from eval_toolkit.scorecards.parts import PART_START, format_part, parse_part

Status: TypeAlias = Literal["ok", "skipped", "error"]
_STATUSES = ("ok", "skipped", "error")


@dataclass(frozen=True, slots=True)
class MetricResult(Displayed):
    """Value of a metric, or the reason why there is none; alias `artifacts.MetricState`.

    Examples
    --------
    >>> MetricResult(0.82, "ok").to_dict()
    {'value': 0.82, 'status': 'ok', 'reason': ''}
    >>> MetricResult(None, "skipped", "one class only")
    MetricResult(skipped: one class only)
    """

    value: float | None
    status: Status
    reason: str = ""
    ci: BootstrapCI | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    n_units: int | None = None
    n_groups: int | None = None
    n_errors: int = 0
    n_skipped: int = 0

    def __post_init__(self) -> None:
        if self.status not in _STATUSES:
            raise InvalidInputError(
                f"`status` is {self.status!r}; it must be 'ok', 'skipped' or 'error'"
            )
        if self.status == "ok" and (self.value is None or not math.isfinite(self.value)):
            raise InvalidInputError(
                f"`value` is {self.value}; an 'ok' cell needs a finite value "
                "(use 'skipped' with a reason)"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict: value, status, reason, and all other fields that are set."""
        payload: dict[str, Any] = {
            "value": self.value,
            "status": self.status,
            "reason": self.reason,
        }
        if self.ci is not None:
            payload["ci"] = self.ci.to_dict()
        if self.details:
            payload["details"] = dict(self.details)
        if self.n_units is not None:
            payload["n_units"] = self.n_units
            payload["n_groups"] = self.n_groups
        if self.n_units is not None or self.n_errors or self.n_skipped:
            payload["n_errors"] = self.n_errors
            payload["n_skipped"] = self.n_skipped
        return payload

    def __repr__(self) -> str:
        return f"MetricResult({self:.4g})" if self.status == "ok" else f"MetricResult({self})"

    def __format__(self, spec: str) -> str:
        if self.value is None or self.status != "ok":
            return f"{self.status}: {self.reason}"
        return format(self.ci, spec) if self.ci else format(self.value, spec or ".3f")


_FRAME = {
    "metric": "metric",
    "value": "value",
    "ci_low": "low",
    "ci_high": "high",
    "n_units": "n",
    **{name: name for name in ("status", "reason", "confidence", "n_resamples", "method")},
}
"""Columns of `Scorecard.to_pandas`, by their names in `Scorecard.rows`."""
_CI_FIELDS = ("ci_low", "ci_high", "confidence", "n_resamples", "method")


class Scorecard(Tabled, Mapping[str, MetricResult]):
    """Read-only mapping from metric name to cell; an unknown name raises `KeyError`.

    Cells of parts can be accessed by address, e.g. ``card["roc_auc @ language=de"]``.

    Parameters
    ----------
    results : mapping of str to MetricResult
        Cells by metric name; copied.
    slices : mapping of str to Scorecard, optional
        Scorecards of the same metrics for parts of the data.
    by : str
        Name of the grouping that defines the parts, such as "language".
    notes : sequence of str
        Notes on the data, shown below the table.

    Examples
    --------
    >>> card = Scorecard({"pr_auc": MetricResult(0.9, "ok")})
    >>> card["pr_auc"].value
    0.9
    >>> print(card.to_markdown())
    | metric | value | interval | n | status |
    |---|---:|---|---|---|
    | pr_auc | 0.900 |  |  | ok |
    """

    __slots__ = ("_results", "by", "notes", "slices")

    def __init__(
        self,
        results: Mapping[str, MetricResult],
        slices: "Mapping[str, Scorecard] | None" = None,
        by: str = "",
        notes: Sequence[str] = (),
    ) -> None:
        self._results = dict(results)
        self.by = by
        self.slices: dict[str, Scorecard] = dict(slices or {})
        self.notes = tuple(notes)

    def __getitem__(self, name: str) -> MetricResult:
        if name in self._results:
            return self._results[name]
        metric, part = self._part_of(name) if isinstance(name, str) else (name, None)
        if part is not None:
            return part[metric]
        stored = stored_name(name) if "@" in str(name) or "=" in str(name) else name
        if stored in self._results:  # f1@0.5 and other spellings
            return self._results[stored]
        raise KeyError(self._missing(name))

    def _part_of(self, name: str) -> "tuple[str, Scorecard | None]":
        """Return the metric and the part from an address such as ``f1 @ language=de``."""
        metric, _, text = name.rpartition("@")
        if not metric or not PART_START.match(text):
            return name, None
        try:
            pairs = parse_part(text)
        except InvalidInputError:
            return name, None
        if not pairs:
            return metric.strip(), self
        value = pairs.get(self.by) if len(pairs) == 1 else None
        found = self.slices.get(format_part(pairs) if value is None else value)
        return metric.strip(), found

    def _missing(self, name: object) -> str:
        """Return the message for an unknown name, with similar names and an example address."""
        message = f"no cell {name!s:.80}: {nearest(str(name), list(self))}"
        if not self.slices or not self._results:
            return message
        parts = [format_part({self.by: part}) if self.by else part for part in self.slices]
        return f"{message}; parts are written {next(iter(self))} @ {parts[0]}"

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Scorecard):
            return NotImplemented
        return self._results == other._results and self.slices == other.slices

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        cells = ", ".join(f"{name}={cell:.3f}" for name, cell in self.items())
        return f"Scorecard({cells})"

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return ``{name: cell}`` as a JSON-serialisable dict, without `slices`."""
        return {name: cell.to_dict() for name, cell in self.items()}

    def rows(self) -> list[dict[str, Any]]:
        """Return one flat dict per cell, including slices, from which all tables are derived."""
        rows = [_row("", name, cell) for name, cell in self.items()]
        for slice_name, card in self.slices.items():
            rows += [_row(slice_name, name, cell) for name, cell in card.items()]
        return rows

    def to_pandas(self) -> Any:
        """Return one row per metric, including slices; requires the ``dataframe`` extra.

        The columns are metric, value, low, high, n, status, reason, confidence, n_resamples and
        method; with slices, the first is the name of ``by``.
        """
        pandas = require("pandas", feature="Scorecard.to_pandas", extra="dataframe")
        rows = self.rows()
        columns = {shown: [row[name] for row in rows] for name, shown in _FRAME.items()}
        if self.slices:
            columns = {self.by or "slice": [row["slice"] or "all" for row in rows], **columns}
        return pandas.DataFrame(columns)

    def plot(self) -> Any:
        """Return a chart of the values with their intervals; requires the ``report`` extra.

        Returns
        -------
        Chart
            Altair chart; ``.save("card.html")`` writes it.

        Raises
        ------
        MissingExtraError
            If Altair is not installed.
        """
        # Charts are drawn by the report, a layer above: by name, as plugins are.
        plots = import_module("eval_toolkit.report.plots")
        return plots.plot_forest(
            {
                f"{row['metric']}, {row['slice']}" if row["slice"] else row["metric"]: cell
                for row, cell in zip(self.rows(), self._cells(), strict=True)
            }
        )

    def _cells(self) -> list[MetricResult]:
        """Return the cells in the order of `rows`."""
        return [cell for card in (self, *self.slices.values()) for cell in card.values()]

    def __rich__(self) -> Any:
        from eval_toolkit._internal.display.to_terminal import rich_table

        return rich_table(self._as_table())

    def _as_table(self) -> Table:
        rows = self.rows()
        confidences = {row["confidence"] for row in rows if row["confidence"] is not None}
        percent = f"{100 * confidences.pop():g} % " if len(confidences) == 1 else ""
        # By metric, so that a shortened table has the first metrics of every part.
        order = {row["metric"]: at for at, row in reversed(list(enumerate(rows)))}
        body = [
            [
                row["slice"] or "all",
                row["metric"],
                *Estimate(row["value"], row["ci_low"], row["ci_high"]).split(),
                row["n_units"],
                StatusCell(row["status"], row["reason"]),
            ]
            for row in sorted(rows, key=lambda row: order[row["metric"]])
        ]
        table = Table(["slice", "metric", "value", f"{percent}interval", "n", "status"], body)
        table = replace(table, notes=self.notes)
        return table if self.slices else table.only(range(1, 6))


def _row(slice_name: str, name: str, cell: MetricResult) -> dict[str, Any]:
    ci = {part: getattr(cell.ci, part) if cell.ci else None for part in _CI_FIELDS}
    return {
        "slice": slice_name,
        "metric": name,
        "value": cell.value,
        "status": cell.status,
        "reason": cell.reason,
        **ci,
        "n_units": cell.n_units,
        "n_groups": cell.n_groups,
        "n_errors": cell.n_errors,
        "n_skipped": cell.n_skipped,
    }
