"""Access to the cells of runs, run folders and results in memory."""

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
    """Return the cells of a run, a run folder or results in memory.

    Parameters
    ----------
    run : Run, path, Scorecard, RunResult, Outcome or mapping
        Run or results. A scorecard is treated as a single slice with an unnamed system.

    Returns
    -------
    Results
        Cells in their stored order.

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
    """Return the stored run that an argument refers to.

    Parameters
    ----------
    run : Run, path, Outcome
        Run, path of a run folder, or outcome of a run that was stored.
    name : str
        Name of the argument, for messages.

    Raises
    ------
    InvalidTypeError
        If the argument does not refer to a stored run.
    ArtifactError
        If a path does not contain a finished run, or the run was altered.
    """
    if isinstance(run, str | PathLike):
        return Run.open(str(run))
    found = run if isinstance(run, Run) else getattr(run, "run", None)
    if isinstance(found, Run):
        return found
    raise InvalidTypeError(
        f"`{name}` is a {type(run).__name__} that is not stored; pass a run folder, which "
        "contains the required records"
    )
