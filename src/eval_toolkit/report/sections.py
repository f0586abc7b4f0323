"""Sections of a report with templates, figures and chapters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eval_toolkit._internal.display import Table

__all__ = ["Chapter", "Figure", "Section", "Wanted"]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A chart as a page holds it; `figures.drawn` makes one."""

    id: str
    title: str
    spec: Mapping[str, Any]
    """Vega-Lite, with colours as CSS variables."""
    svg: Any
    """The still picture, safe to put on a page as it is."""
    caption: str = ""
    table: Table | None = None
    """The numbers, for those who cannot see the picture."""


@dataclass(frozen=True, kw_only=True)
class Section:
    """One part of a report.

    Parameters
    ----------
    id : str
        Anchor of letters and hyphens; made unique for several runs.
    menu : str
        A word or two for the navigation.
    title : str
        Title of the section.
    template : str
        A file of ``report/templates``; it sees the section as ``section``.
    data : mapping
        Data of the template.
    lead : str
        One sentence below the title.
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
    """The sections of one run, or of a comparison."""

    sections: Sequence[Section]
    title: str = ""
    lead: str = ""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """How much of a run to show in a report."""

    n_samples: int = 20
    """Samples of a kind, conversations of an outcome, rows that scorers disagree on, and slices in a
    chart; of false alarms, misses and rows that one run alone has right half as many."""
    confidence: float = 0.95
    """Of intervals that the report makes itself: bands, reliability, differences."""
    n_resamples: int = 1000
    """Of differences between runs."""
    seed: int = 42
    charts: bool = True
    """False leaves charts out; tables stay."""
