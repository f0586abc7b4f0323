"""Sections of a report with templates, figures and chapters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eval_toolkit._internal.display import Table

__all__ = ["Chapter", "Figure", "Section", "Wanted"]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Chart of a page, as returned by `figures.drawn`."""

    id: str
    title: str
    spec: Mapping[str, Any]
    """Vega-Lite specification with colours as CSS variables."""
    svg: Any
    """Static image, safe to embed without escaping."""
    caption: str = ""
    table: Table | None = None
    """Data of the chart, as an accessible alternative to the image."""


@dataclass(frozen=True, kw_only=True)
class Section:
    """Part of a report.

    Parameters
    ----------
    id : str
        Anchor of letters and hyphens; made unique on pages of several runs.
    menu : str
        Short label for the navigation.
    title : str
        Title of the section.
    template : str
        File in ``report/templates``; it receives the section as ``section``.
    data : mapping
        Data of the template.
    lead : str
        Sentence below the title.
    notes : sequence of str
        Notes on the values.
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
    """Options for the level of detail of a report."""

    n_samples: int = 20
    """Maximum number of samples per kind, conversations per outcome, disagreements of scorers and
    slices per chart; half as many false alarms, misses and rows that only one run has right."""
    confidence: float = 0.95
    """Confidence level of intervals computed by the report: bands, reliability, differences."""
    n_resamples: int = 1000
    """Number of resamples of bands and of differences between runs."""
    seed: int = 42
    charts: bool = True
    """Whether to include charts; tables are always included."""
