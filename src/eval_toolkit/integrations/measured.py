"""The cells of anything that was measured: a run, a folder, a result still in memory."""

from collections.abc import Mapping
from os import PathLike
from typing import Any, TypeAlias

from eval_toolkit.errors import InvalidTypeError
from eval_toolkit.runs import Run
from eval_toolkit.runs.cells import cell_rows
from eval_toolkit.scorecards import Scorecard

__all__ = ["Measured", "measured_rows", "stored_run"]

Measured: TypeAlias = Any
"""A run, the path of one, a `Scorecard`, `RunResult`, `Outcome`, or a results payload."""


def measured_rows(run: Measured) -> list[dict[str, Any]]:
    """Return one flat dict per cell, with the keys of `Run.rows`.

    Parameters
    ----------
    run : Run, path, Scorecard, RunResult, Outcome or mapping
        Whatever has cells. A scorecard has no scorer, and its cells over all the slice "".

    Returns
    -------
    list of dict
        In the order they were made.

    Raises
    ------
    InvalidTypeError
        If it is none of these.
    ArtifactError
        If a path leads to no finished run, or to one that was altered.

    Examples
    --------
    >>> from eval_toolkit.scorecards import MetricResult
    >>> measured_rows(Scorecard({"f1": MetricResult(0.9, "ok")}))[0]["value"]
    0.9
    """
    if isinstance(run, Scorecard):
        return [{"scorer": "", **row} for row in run.rows()]
    if isinstance(run, str | PathLike):
        run = Run.open(str(run))
    if isinstance(run, Mapping) and "by_slice" in run:
        return cell_rows(run)
    results = getattr(run, "results", None)
    if isinstance(results, Mapping):
        return cell_rows(results)
    if hasattr(run, "by_slice") and callable(getattr(run, "rows", None)):
        rows: list[dict[str, Any]] = run.rows()
        return rows
    raise InvalidTypeError(
        f"`run` is a {type(run).__name__}; it must be a run, the path of one, or a result with "
        "cells: Scorecard, RunResult, Outcome"
    )


def stored_run(run: Measured, name: str = "run") -> Run:
    """Return the stored run behind something measured.

    Parameters
    ----------
    run : Run, path, Outcome
        The latter two where they were written to a folder.
    name : str
        The argument, for messages.

    Raises
    ------
    InvalidTypeError
        If nothing of it is stored.
    ArtifactError
        If a path leads to no finished run, or to one that was altered.
    """
    if isinstance(run, str | PathLike):
        return Run.open(str(run))
    found = run if isinstance(run, Run) else getattr(run, "run", None)
    if isinstance(found, Run):
        return found
    raise InvalidTypeError(
        f"`{name}` is a {type(run).__name__} that is not stored; give a run's folder, which has the "
        "records that are needed here"
    )
