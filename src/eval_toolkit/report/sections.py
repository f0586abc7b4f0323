"""Data model of reports: chapters, sections and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eval_toolkit._internal.display import Table

if TYPE_CHECKING:
    from eval_toolkit.claims import ClaimReport


@dataclass(frozen=True, kw_only=True)
class Bar:
    """Row of a forest plot for narrow screens; positions are percentages of the width."""

    name: str
    shown: str
    """Value with its interval, or the status "skipped" or "error"."""
    n: str = ""
    place: float | None = None
    low: float | None = None
    high: float | None = None
    line: float | None = None
    """Position of the reference line."""
    tone: str = ""
    """Verdict of a comparison: "better", "worse", "undecided" or ""."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Chart in a page, as returned by `figures.drawn`."""

    id: str
    title: str
    spec: Mapping[str, Any]
    """Vega-Lite specification with colours as CSS variables."""
    svg: Any
    """Static image, safe to embed without escaping."""
    caption: str = ""
    table: Table | None = None
    """Data of the chart, as an accessible alternative to the image."""
    bars: Sequence[Bar] = ()
    """Rows that replace the chart on narrow screens."""


@dataclass(frozen=True, kw_only=True)
class Section:
    """Part of a report.

    ``id`` is an anchor of letters and hyphens, which is made unique on pages with several runs;
    ``menu`` is the label in the navigation. The template, a file in ``report/templates``, receives
    the section as ``section``. ``notes`` explain the values.
    """

    id: str
    menu: str
    title: str
    template: str
    data: Mapping[str, Any] = field(default_factory=dict)
    lead: str = ""
    notes: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Chapter:
    """Sections of one run, or of a comparison."""

    sections: Sequence[Section]
    title: str = ""
    lead: str = ""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Options for the contents of a report."""

    n_samples: int = 20
    """Maximum number of samples or conversations per outcome, disagreements between scorers, and
    slices per chart; half as many for false alarms, misses and rows that only one run has right."""
    confidence: float = 0.95
    """Confidence level of intervals that the report computes: bands, reliability, differences."""
    n_resamples: int = 1000
    """Number of resamples for bands and for differences between runs."""
    seed: int = 42
    claims: ClaimReport | None = None
    """Verdicts on claims about the run, from `evaluate_gate`, shown next to the main result."""
    charts: bool = True
    """Whether to include charts; tables are always included."""
