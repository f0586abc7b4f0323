"""Directions of metrics: set by the user, recorded in a run, or inferred from the name."""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from eval_toolkit.analysis.name_directions import higher_is_better
from eval_toolkit.errors import InvalidTypeError, MissingColumnError
from eval_toolkit.runs import Run

_KEY = "higher_is_better"
"""Manifest key under which directions are stored, as a mapping from names to true or false."""
_OF_COLUMN = re.compile(r"(.+?)(_(pass@|pass\^|maj@|asr@)[1-9][0-9]*)?(_macro)?")


def with_directions(
    runs: Sequence[Run], higher_is_better: Mapping[str, bool] | None = None
) -> list[Run]:
    """Return copies of runs that record the direction of the given metrics.

    Parameters
    ----------
    runs : sequence of Run
        Runs whose folders are left unchanged.
    higher_is_better : mapping of str to bool, optional
        True if higher is better, False if lower is better, by metric or column. It also applies to
        metrics derived from a column: ``{"wrong": False}`` for ``wrong_pass@4``.

    Returns
    -------
    list of Run
        Copies for `compare_runs`, `leaderboard`, `evaluate_gate` and `write_report`. These
        directions override those recorded in the runs and those derived from names.

    Raises
    ------
    MissingColumnError
        If none of the runs has a metric or column of that name.
    InvalidTypeError
        If a direction is not True or False.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import write_run
    >>> block = {"test": {"by_scorer": {"m": {"zing": 0.5}}}}
    >>> results = {"schema_version": "v1", "run_id": "r", "config": {}, "by_slice": block}
    >>> run = write_run(tempfile.mkdtemp() + "/r", results=results, manifest={"run_id": "r"})
    >>> stated_in(with_directions([run], {"zing": False})[0])
    {'zing': False}
    """
    given = {} if higher_is_better is None else higher_is_better
    if not isinstance(given, Mapping):
        raise InvalidTypeError(
            f"`higher_is_better` is {given!r}; it must map names to True or False, as in "
            "{'wer': False}"
        )
    for name, up in given.items():
        if not isinstance(up, bool):
            raise InvalidTypeError(
                f"`higher_is_better` maps {name!r} to {up!r}; it must be True or False"
            )
    unknown = [name for name in given if not any(_has(run, name) for run in runs)]
    if unknown:
        raise MissingColumnError(f"no run has a metric {unknown[0]!r}; {_near(unknown[0], runs)}")
    if not given:
        return list(runs)
    return [
        replace(run, manifest={**run.manifest, _KEY: {**stated_in(run), **given}}) for run in runs
    ]


def _has(run: Run, name: str) -> bool:
    return name in _metrics(run) or any(
        name in run.records(*subject).columns for subject in run.subjects
    )


def _metrics(run: Run) -> list[str]:
    return run.cells.metrics


def _near(name: str, runs: Sequence[Run]) -> str:
    known = list(dict.fromkeys(metric for run in runs for metric in _metrics(run)))
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known) or 'none'}"


def stated_in(run: Run) -> dict[str, bool]:
    """Return the directions recorded in a run's manifest under ``higher_is_better``.

    They were set by `with_directions` or when the run was written.
    """
    directions = run.manifest.get(_KEY)
    if not isinstance(directions, Mapping):
        return {}
    return {str(name): up for name, up in directions.items() if isinstance(up, bool)}


def column_of(metric: str) -> str:
    """Return the name of the column from which a metric is computed.

    Examples
    --------
    >>> column_of("right_pass@4"), column_of("right_maj@8_macro"), column_of("right")
    ('right', 'right', 'right')
    """
    match = _OF_COLUMN.fullmatch(metric)
    return metric if match is None else match[1]


def stated_by(
    stated: Mapping[str, bool], cells: Mapping[str, Any], metric: str
) -> list[bool | None]:
    """Return the direction of a metric recorded in a run as a list, empty if there is none.

    ``stated`` contains the directions in the run's manifest. None in the returned list means that
    neither direction is better.

    Examples
    --------
    >>> cells = {"reward": {"value": 0.5, "details": {"higher_is_better": True}}, "zing": 0.5}
    >>> stated_by({}, cells, "reward"), stated_by({"reward": False}, cells, "reward_pass@2")
    ([True], [False])
    >>> stated_by({}, cells, "zing")
    []
    """
    names = (metric, column_of(metric))
    for name in names:
        if name in stated:
            return [_direction(stated[name])]
    for name in names:
        cell = cells.get(name)
        details = cell.get("details") if isinstance(cell, Mapping) else None
        if isinstance(details, Mapping) and "higher_is_better" in details:
            return [_direction(details["higher_is_better"])]
    return []


def _direction(given: Any) -> bool | None:
    """Return the direction; None if the stored value is not a boolean."""
    return given if isinstance(given, bool) else None


def agreed(stated: Sequence[bool | None], metric: str) -> bool | None:
    """Return the direction on which the runs agree, or else the one implied by the metric's name.

    ``stated`` contains the directions recorded in all runs. The result is None if they contradict
    each other, neither direction is better, or the direction is unknown.

    Examples
    --------
    >>> agreed([True, None], "x"), agreed([True, False], "x"), agreed([], "val_loss")
    (True, None, False)
    """
    directions = {up for up in stated if up is not None}
    if stated:
        return directions.pop() if len(directions) == 1 else None
    by_name = higher_is_better(metric)
    return higher_is_better(column_of(metric)) if by_name is None else by_name


def direction_hint(metrics: Sequence[str]) -> str:
    """Return a note on metrics without a known direction, and how to specify it.

    Examples
    --------
    >>> direction_hint(["zing", "zang"]).partition(";")[0]
    'zing, zang: unknown whether higher or lower is better'
    """
    names, first = ", ".join(metrics), metrics[0]
    return (
        f"{names}: unknown whether higher or lower is better; set it with --lower-is-better "
        f"{first} or --higher-is-better {first} (in Python higher_is_better={{{first!r}: False}})"
    )
