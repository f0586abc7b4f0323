"""Sections of a run's report, in order of importance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

from eval_toolkit.report.sections import Chapter, Figure, Section, Wanted
from eval_toolkit.runs import Run

if TYPE_CHECKING:
    from eval_toolkit.claims import ClaimReport

Builder: TypeAlias = Callable[[Run, Wanted], Section | None]
"""Function that builds a section of a run's report, or returns None if it does not apply."""

BUILDERS = (
    "headline",
    "slices",
    "curves",
    "calibration",
    "thresholds",
    "survival",
    "worst_errors",
    "samples",
    "leakage",
    "provenance",
)
"""Modules with a `build` function, in report order: headline first, provenance last."""


def sections_of(run: Run, wanted: Wanted, names: Sequence[str] = BUILDERS) -> Iterator[Section]:
    """Yield the sections of one run; an error in a section does not affect the others.

    ``names`` are keys of `BUILDERS`.
    """
    for name in names:
        build: Builder = import_module(f"eval_toolkit.report.{name}").build
        try:
            section = build(run, wanted)
        except ImportError:
            raise
        except (
            Exception
        ) as error:  # a bug or damaged data: report it instead of omitting the section
            section = Section(
                id=name,
                menu=name,
                title=f"{name.capitalize()} could not be shown",
                template="failed.html",
                data={"error": f"{type(error).__name__}: {error}"},
            )
        if section is not None:
            yield section


def chapters_of(
    runs: Sequence[Run], wanted: Wanted, verdicts: Sequence[ClaimReport | None] = ()
) -> list[Chapter]:
    """Return one chapter per run; for several runs, preceded by a chapter on their differences.

    The first run is the baseline. Verdicts on claims come first.
    """
    if len(runs) == 1:
        claims = next(iter(verdicts), None) or wanted.claims
        return [Chapter(sections=list(sections_of(runs[0], replace(wanted, claims=claims))))]
    from eval_toolkit.analysis.configs import run_names
    from eval_toolkit.report import differences

    chapters = [Chapter(sections=list(differences.sections(runs, wanted, verdicts)))]
    for at, (run, name) in enumerate(zip(runs, run_names(runs), strict=True)):
        own = [_renamed(section, f"run-{at + 1}") for section in sections_of(run, wanted)]
        chapters.append(Chapter(sections=own, title=name))
    return chapters


def _renamed(section: Section, prefix: str) -> Section:
    """Return a section with unique anchors on a page of several runs."""
    data = {
        key: [replace(fig, id=f"{prefix}-{fig.id}") for fig in value]
        if isinstance(value, list) and value and all(isinstance(one, Figure) for one in value)
        else value
        for key, value in section.data.items()
    }
    return replace(section, id=f"{prefix}-{section.id}", data=data)
