"""Cells of measured objects: runs, run folders and results in memory."""

from collections.abc import Mapping
from os import PathLike
from typing import Any, TypeAlias

from eval_toolkit.errors import InvalidTypeError
from eval_toolkit.runs import Run
from eval_toolkit.runs.results import Results
from eval_toolkit.scorecards import Scorecard

__all__ = ["Measured", "measured_results", "stored_run"]

Measured: TypeAlias = Any
"""Run, path of a run, `Scorecard`, `RunResult`, `Outcome`, or results payload."""


def measured_results(run: Measured) -> Results:
    """Return the cells of a measured object.

    Parameters
    ----------
    run : Run, path, Scorecard, RunResult, Outcome or mapping
        Object with cells. A scorecard is a single slice with an unnamed system.

    Returns
    -------
    Results
        Cells in their original order.

    Raises
    ------
    InvalidTypeError
        If the object has another type.
    ArtifactError
        If a path does not contain a finished run, or the run was altered.

    Examples
    --------
    >>> from eval_toolkit.scorecards import MetricResult
    >>> measured_results(Scorecard({"f1": MetricResult(0.9, "ok")}))["f1"].value
    0.9
    """
    if isinstance(run, Scorecard):
        return Results.of_card(run)
    if isinstance(run, str | PathLike):
        run = Run.open(str(run))
    if isinstance(run, Results):
        return run
    known = getattr(run, "cells", None)
    if isinstance(known, Results):
        return known
    payload = run if isinstance(run, Mapping) and "by_slice" in run else None
    payload = getattr(run, "results", None) if payload is None else payload
    if isinstance(payload, Mapping):
        return Results.of(payload)
    raise InvalidTypeError(
        f"`run` is a {type(run).__name__}; it must be a run, a run's path, or a result with "
        "cells: Scorecard, RunResult, Outcome"
    )


def stored_run(run: Measured, name: str = "run") -> Run:
    """Return the stored run of a measured object.

    Parameters
    ----------
    run : Run, path, Outcome
        Object to look up; a path or an outcome must refer to a run folder.
    name : str
        Name of the argument, for messages.

    Raises
    ------
    InvalidTypeError
        If the object is not stored.
    ArtifactError
        If a path does not contain a finished run, or the run was altered.
    """
    if isinstance(run, str | PathLike):
        return Run.open(str(run))
    found = run if isinstance(run, Run) else getattr(run, "run", None)
    if isinstance(found, Run):
        return found
    raise InvalidTypeError(
        f"`{name}` is a {type(run).__name__} that is not stored; pass a run folder, which has "
        "the required records"
    )
