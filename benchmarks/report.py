"""Benchmark results as a terminal table, Markdown and JSON."""

import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks._case import Case, Measurement, Survey
from benchmarks._timing import Timing
from benchmarks.kernel import instruction_sets
from eval_toolkit import __version__
from eval_toolkit._internal import kernel as _kernel

PACKAGES = ("numpy", "scipy", "scikit-learn", "rapidstats", "polars", "MLstatkit")
HOW = (
    "Process CPU time (user and system), one thread, best of several rounds. Both sides of a "
    "ratio run in one process, in turn, round after round. Our side runs whole public calls as a "
    "user writes them: validation, sorting, R = 1 000 resamples and, unless the case says "
    "otherwise, BCa intervals (the peers' loops stop at the replicates); the cases with several "
    "scorers time the resampling engine below them. Slow "
    "peers run few resamples and are scaled to R = 1 000, linearly or, where part of their work "
    "does not grow with R, along a line through two measurements; the notes say which. Before "
    "timing, both sides are checked to give the same values. Data: 10 % prevalence, binormal "
    "scores, no ties."
)
COLUMNS = ("case", "what", "beside", "bar", "measured", "ours", "peer", "verdict", "notes")


@dataclass(frozen=True)
class Result:
    """Result of a benchmark case."""

    case: Case
    measurement: Measurement | None
    failure: str = ""
    date: str = field(default_factory=lambda: datetime.now(UTC).date().isoformat())

    @property
    def value(self) -> float | None:
        return None if self.measurement is None else self.measurement.value(self.case.bar)

    @property
    def verdict(self) -> str:
        if self.value is None:
            return "not run"
        return "met" if self.case.bar.met(self.value) else "not met"

    def cells(self) -> tuple[str, ...]:
        """Return one table row, in the order of `COLUMNS`."""
        case, got = self.case, self.measurement
        head = (case.name, case.title, case.peer or "–", str(case.bar))
        if got is None or self.value is None:
            return (*head, "–", "–", "–", self.verdict, self.failure)
        today = datetime.now(UTC).date().isoformat()
        older = "" if self.date == today else f"measured on {self.date}"
        notes = [got.peer.note if got.peer else "", got.note, older]
        return (
            *head,
            case.bar.show(self.value),
            _duration(got.ours),
            _duration(got.peer) if got.peer else "–",
            self.verdict,
            "; ".join(note for note in notes if note),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        got = self.measurement
        return {
            "case": self.case.name,
            "title": self.case.title,
            "peer": self.case.peer,
            "bar": {"kind": self.case.bar.kind, "limit": self.case.bar.limit},
            "measured": self.value,
            "verdict": self.verdict,
            "ours": None if got is None else _timing_dict(got.ours),
            "reference": None if got is None or got.peer is None else _timing_dict(got.peer),
            "note": self.failure if got is None else got.note,
            "date": self.date,
        }

    @classmethod
    def stored(cls, case: Case, payload: Mapping[str, Any], date: str) -> "Result":
        """Restore a result from `to_dict`; ``date`` is used for entries without a date."""
        if payload["ours"] is None:
            return cls(case, None, payload["note"], payload.get("date", date))
        peer = payload["reference"] and _timing(payload["reference"])
        measurement = Measurement(_timing(payload["ours"]), peer, payload["note"])
        return cls(case, measurement, date=payload.get("date", date))


@dataclass(frozen=True)
class SurveyResult:
    """A survey and its rows."""

    survey: Survey
    rows: Sequence[tuple[Any, ...]]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "name": self.survey.name,
            "title": self.survey.title,
            "columns": list(self.survey.columns),
            "rows": [list(row) for row in self.rows],
        }


def _duration(timing: Timing) -> str:
    seconds = timing.seconds
    return f"{seconds:,.2f} s" if seconds >= 1.0 else f"{seconds * 1e3:,.2f} ms"


def _timing_dict(timing: Timing) -> dict[str, Any]:
    return {
        "best_seconds": timing.seconds,
        "rounds_seconds": [ns / 1e9 for ns in timing.rounds_ns],
        "note": timing.note,
    }


def _timing(payload: Mapping[str, Any]) -> Timing:
    return Timing(tuple(seconds * 1e9 for seconds in payload["rounds_seconds"]), payload["note"])


def read(
    folder: Path, cases: Mapping[str, Case], surveys: Mapping[str, Survey]
) -> tuple[dict[str, Result], dict[str, SurveyResult]]:
    """Return the results of the last complete run, by name."""
    payload = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    date = payload["environment"]["date"]
    results = {
        entry["case"]: Result.stored(cases[entry["case"]], entry, date)
        for entry in payload["cases"]
        if entry["case"] in cases
    }
    found = {
        entry["name"]: SurveyResult(surveys[entry["name"]], [tuple(row) for row in entry["rows"]])
        for entry in payload["surveys"]
        if entry["name"] in surveys
    }
    return results, found


def environment() -> dict[str, str]:
    """Describe the environment on which the figures depend."""
    sets = instruction_sets()
    kernel = _kernel.backend() if not sets else f"{_kernel.backend()}, {sets[-1]}"
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "processor": f"{_processor()}, {os.cpu_count()} logical cores",
        "python": platform.python_version(),
        "eval-toolkit": __version__,
        "kernel": kernel,
        **{name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def show(console: Console, results: Iterable[Result], surveys: Iterable[SurveyResult]) -> None:
    """Print the tables."""
    results = list(results)
    if results:
        shown = [index for index, name in enumerate(COLUMNS) if name not in ("what", "beside")]
        table = Table(*(COLUMNS[index] for index in shown), title="Benchmarks")
        for result in results:
            cells = result.cells()
            style = {"met": "green", "not met": "red"}.get(result.verdict, "yellow")
            table.add_row(
                *(
                    f"[{style}]{cells[index]}[/]" if COLUMNS[index] == "verdict" else cells[index]
                    for index in shown
                )
            )
        console.print(table)
    for found in surveys:
        table = Table(*found.survey.columns, title=found.survey.title)
        for row in found.rows:
            table.add_row(*map(str, row))
        console.print(table)


def write(folder: Path, results: Sequence[Result], surveys: Sequence[SurveyResult]) -> None:
    """Write RESULTS.md and results.json."""
    about = environment()
    payload = {
        "environment": about,
        "how": HOW,
        "cases": [result.to_dict() for result in results],
        "surveys": [survey.to_dict() for survey in surveys],
    }
    text = json.dumps(payload, indent=2, ensure_ascii=False)
    (folder / "results.json").write_text(text + "\n", encoding="utf-8")
    (folder / "RESULTS.md").write_text(markdown(about, results, surveys), encoding="utf-8")


def markdown(
    about: dict[str, str], results: Sequence[Result], surveys: Sequence[SurveyResult]
) -> str:
    """Return RESULTS.md."""
    met = sum(result.verdict == "met" for result in results)
    parts = [
        "# Benchmark results",
        "Written by `make bench` (`python -m benchmarks`); do not edit.",
        "\n".join(f"- {name}: {value}" for name, value in about.items()),
        HOW,
        f"## {met} of {len(results)} bars met",
        _markdown_table(COLUMNS, [result.cells() for result in results]),
        "A speed-up (≥) is peer / ours, a cost (≤) is ours / reference; a bar in ms is CPU time.",
        "## For information",
    ]
    for found in surveys:
        parts += [f"### {found.survey.title}", _markdown_table(found.survey.columns, found.rows)]
    return "\n\n".join(parts) + "\n"


def _markdown_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)
