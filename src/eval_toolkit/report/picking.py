"""Some rows of a run's tables: what the page shows is read, the rest stays on disk."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit import _tables
from eval_toolkit._tables.reading import ROW, RowPick
from eval_toolkit.errors import ArtifactError
from eval_toolkit.rollouts.graphs import Graph
from eval_toolkit.rollouts.turns import TURNS, read_turns
from eval_toolkit.runner import JobResult, read_outcomes
from eval_toolkit.runner.stored import RESPONSES
from eval_toolkit.runs import Run

__all__ = ["outcomes_of_units", "rollouts_of_units"]


def outcomes_of_units(run: Run, unit_ids: Iterable[str]) -> list[JobResult]:
    """Return what was asked about some units and what came of it, judges' verdicts too.

    Parameters
    ----------
    run : Run
        Of a task or of rollouts.
    unit_ids : iterable of str
        As in the records.

    Returns
    -------
    list of JobResult
        In the order of the table.

    Raises
    ------
    ArtifactError
        If the run was written without responses, or a row cannot be read.
    """
    columns = _picked(run, RESPONSES, {"unit_id": unit_ids})
    if not len(columns["unit_id"]):
        return []
    # Each prompt is stored once, maybe with a unit that is not asked for here.
    lacking = {
        digest
        for digest, prompt in zip(columns["prompt_hash"], columns["prompt"], strict=True)
        if not prompt
    }
    if lacking:
        stored = _picked(run, RESPONSES, {"prompt_hash": lacking}, ("prompt_hash", "prompt"))
        texts = {
            digest: prompt
            for digest, prompt in zip(stored["prompt_hash"], stored["prompt"], strict=True)
            if prompt
        }
        columns["prompt"] = _objects(
            prompt or texts.get(digest, "")
            for digest, prompt in zip(columns["prompt_hash"], columns["prompt"], strict=True)
        )
    return read_outcomes(columns)


def rollouts_of_units(run: Run, unit_ids: Iterable[str]) -> list[Graph[str, str]]:
    """Return the rollouts of some seed prompts.

    Parameters
    ----------
    run : Run
        Of rollouts.
    unit_ids : iterable of str
        As in the records.

    Returns
    -------
    list of Graph
        In the order of the table.

    Raises
    ------
    ArtifactError
        If the run was written without turns, or a row cannot be read.
    """
    return read_turns(_picked(run, TURNS, {"unit_id": unit_ids}))


def _picked(
    run: Run, name: str, where: Mapping[str, Iterable[str]], columns: Iterable[str] = ()
) -> dict[str, NDArray[Any]]:
    """Return the rows of a table whose columns have certain values, in the order of the table."""
    described = run.manifest["artifacts"].get(name, {})
    if "texts" not in described:
        raise ArtifactError(f"{run.path}: the run was written without {name}")
    wanted = {column: sorted(set(values)) for column, values in where.items()}
    if not all(wanted.values()):
        every = (*described["texts"], *described["numbers"])
        return {column: np.empty(0, dtype=object) for column in every}
    given = list(columns)
    read = _tables.read_table(
        run.path / name,
        texts=given or described["texts"],
        columns=() if given else described["numbers"],
        pick=RowPick(where=wanted),
    )
    order = np.argsort(read[ROW], kind="stable")
    names = given or [*described["texts"], *described["numbers"]]
    return {column: read[column][order] for column in names}


def _objects(values: Iterable[Any]) -> NDArray[Any]:
    cells = list(values)
    column = np.empty(len(cells), dtype=object)
    column[:] = cells
    return column
