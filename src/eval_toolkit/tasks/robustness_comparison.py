"""Robustness to perturbations: paired differences from an unperturbed run, and the worst case."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from eval_toolkit import metric_specs as ms
from eval_toolkit._internal.display import Displayed
from eval_toolkit.analysis import RunComparison, RunDifference, compare_records, compare_runs
from eval_toolkit.analysis.comparison import opened_run, stopped_note
from eval_toolkit.analysis.units import UnitValues
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.inference import (
    DEFAULT_CONFIDENCE,
    DEFAULT_N_RESAMPLES,
    CorrectionMethod,
    correct_p_values,
)
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.runs import Run
from eval_toolkit.scorecards import Records
from eval_toolkit.scorecards.parts import WHOLE
from eval_toolkit.seeds import SeedLike, resolve_seed
from eval_toolkit.tasks.perturbations import perturbation_name

WORST = "worst"
"""Name of the worst case in place of a perturbation."""


@dataclass(frozen=True, slots=True)
class RobustnessCell:
    """Paired difference in a metric from the unperturbed run, for a perturbation or the worst case."""

    perturbation: str
    difference: RunDifference

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {"perturbation": self.perturbation, **self.difference.to_dict()}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Robustness(Displayed):
    """Effect of perturbations on a run's results."""

    run: str
    perturbations: tuple[str, ...]
    cells: tuple[RobustnessCell, ...]
    adjust: str
    """Method that corrects p-values of a metric for the number of perturbations."""
    confidence: float
    seed: int
    notes: tuple[str, ...] = ()
    """Notes about the comparison, for example that a run was stopped early."""

    def __getitem__(self, key: tuple[str, str]) -> RunDifference:
        """Return the cell of a (perturbation, metric) pair, which must be in only one slice."""
        name, metric = key
        found = [
            cell.difference
            for cell in self.cells
            if (cell.perturbation, cell.difference.metric) == (name, metric)
        ]
        if len(found) != 1:
            have = ", ".join(dict.fromkeys(f"{c.perturbation!r}" for c in self.cells))
            raise MissingColumnError(
                f"there are {len(found)} cells for {key!r}; the perturbations are {have}"
            )
        return found[0]

    def rows(self) -> list[dict[str, Any]]:
        """Return one flat dict per cell."""
        return [cell.to_dict() for cell in self.cells]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "run": self.run,
            "perturbations": list(self.perturbations),
            "adjust": self.adjust,
            "confidence": self.confidence,
            "seed": self.seed,
            "cells": self.rows(),
            "notes": list(self.notes),
        }


def robustness(
    run: Run | str | Path,
    perturbed_runs: Mapping[str, Run | str | Path] | Sequence[Run | str | Path],
    *,
    metrics: Sequence[MetricSpec | str] | None = None,
    adjust: CorrectionMethod = "holm",
    confidence: float = DEFAULT_CONFIDENCE,
    n_resamples: int = DEFAULT_N_RESAMPLES,
    seed: SeedLike = None,
) -> Robustness:
    """Compare runs with perturbed questions to an unperturbed run, using paired differences.

    Parameters
    ----------
    run : Run or path
        Run of the unperturbed task.
    perturbed_runs : mapping of str to Run or path, or sequence of them
        Runs of the `perturbed` task; for a sequence, the perturbation names are read from the
        manifests.
    metrics : sequence of MetricSpec or str, optional
        Metrics, as in `compare_runs`; by default, all stored metrics.
    adjust : {"holm", "hochberg", "bonferroni", "bh", "by", "none"}, default "holm"
        Method that corrects p-values of a metric for the number of perturbations.
    confidence, n_resamples, seed
        As in `compare_runs`.

    Returns
    -------
    Robustness
        One cell per perturbation and metric with the difference perturbed − unperturbed on the same
        units. For column means, there is also the worst case, in which each unit has its worst
        value over all runs; for binary columns, this is the rate of units that are correct in every
        run. The worst case is never better than the unperturbed value and is not tested. If answers
        are sampled, part of its difference is due to chance and grows with the number of runs.
        Intervals assume a fixed number of units; ``notes`` lists runs that were stopped early.

    Raises
    ------
    InvalidInputError
        If there are no runs, or an option is unknown.
    ArtifactError
        If a run is not complete, or units with the same id differ in content.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.models.scripted import ScriptedModel
    >>> from eval_toolkit.tasks import CompletionSpec, Prompt, Task, run_task
    >>> from eval_toolkit.tasks.perturbations import Perturbation, perturbed
    >>> task = Task("quiz", Prompt(instruction="{q}"), CompletionSpec(answer="a"),
    ...     rows=[{"q": f"Say {i}", "a": str(i)} for i in range(9)], graders=["exact_match"])
    >>> loud = perturbed(task, Perturbation("upper"))
    >>> model = ScriptedModel(lambda request: "3" if "Say" in str(request) else "4")
    >>> folder = tempfile.mkdtemp()
    >>> plain = run_task(task, model, f"{folder}/plain").run
    >>> found = robustness(plain, [run_task(loud, model, f"{folder}/upper").run])
    >>> found["upper", "exact_match"].delta, round(found["worst", "exact_match"].value_b, 3)
    (0.0, 0.0)
    """
    plain = opened_run(run, "run")
    named = _named(perturbed_runs)
    number = resolve_seed(seed)
    options: dict[str, Any] = {
        "confidence": confidence,
        "n_resamples": n_resamples,
        "seed": number,
        "adjust": "none",
    }
    compared = {
        name: compare_runs(plain, other, metrics=metrics, **options)
        for name, other in named.items()
    }
    cells = _adjusted(
        [RobustnessCell(name, cell) for name, found in compared.items() for cell in found.cells],
        adjust,
    )
    worst = _worst_cells(plain, list(named.values()), compared.values(), options)
    notes = [
        stopped_note(one, name) for name, one in [("the unperturbed run", plain), *named.items()]
    ]
    first = next(iter(compared.values()))
    return Robustness(
        run=plain.run_id,
        perturbations=tuple(named),
        cells=(*cells, *worst),
        adjust=adjust,
        confidence=first.confidence,
        seed=number,
        notes=tuple(filter(None, notes)),
    )


def _named(given: Any) -> dict[str, Run]:
    """Return the runs keyed by perturbation name."""
    if isinstance(given, Mapping):
        named = {
            str(name): opened_run(run, f"perturbed_runs[{name!r}]") for name, run in given.items()
        }
    elif isinstance(given, Sequence) and not isinstance(given, str):
        named = {}
        for at, one in enumerate(given):
            run = opened_run(one, f"perturbed_runs[{at}]")
            task = (run.manifest.get("config") or {}).get("task") or {}
            name = "+".join(map(perturbation_name, task.get("perturbations") or ())) or run.run_id
            named[name if name not in named else f"{name} {run.run_id}"] = run
    else:
        raise InvalidTypeError(f"`perturbed_runs` is {given!r:.60}; it must contain runs or paths")
    if not named:
        raise InvalidInputError("`perturbed_runs` is empty; pass at least one run")
    if WORST in named:
        raise InvalidInputError(
            f"the name {WORST!r} is reserved for the worst case; rename the perturbation"
        )
    return named


def _adjusted(cells: list[RobustnessCell], adjust: CorrectionMethod) -> list[RobustnessCell]:
    """Adjust the p-values of one slice, scorer and metric for the number of perturbations."""
    families: dict[tuple[str, str, str, str], list[int]] = {}
    for at, cell in enumerate(cells):
        found = cell.difference
        if found.p_value is not None:
            place = (found.slice, found.part, found.scorer, found.metric)
            families.setdefault(place, []).append(at)
    result = list(cells)
    for members in families.values():
        values = np.array([cells[at].difference.p_value for at in members], dtype=np.float64)
        for at, p in zip(members, correct_p_values(values, method=adjust).tolist(), strict=True):
            result[at] = replace(
                result[at], difference=replace(result[at].difference, p_adjusted=p)
            )
    return result


def _worst_cells(
    plain: Run, others: Sequence[Run], compared: Iterable[RunComparison], options: Mapping[str, Any]
) -> list[RobustnessCell]:
    """Return the worst-case cells of metrics that are column means in every run."""
    seen = {
        (cell.slice, cell.scorer, cell.metric): cell.higher_is_better
        for found in compared
        for cell in found.cells
        if cell.status == "ok" and cell.higher_is_better is not None and cell.part == WHOLE
    }
    cells = []
    for (slice_name, scorer, metric), up in seen.items():
        subject = (slice_name, scorer)
        if any(subject not in run.subjects for run in (plain, *others)):
            continue
        records = [run.records(*subject) for run in (plain, *others)]
        if any(metric not in one.columns for one in records):
            continue
        sides = _extremes(records, metric, bool(up))
        found = compare_records(
            {slice_name: sides[0]},
            {slice_name: sides[1]},
            [ms.mean_of(metric, higher_is_better=bool(up))],
            scorers=(scorer, scorer),
            **options,
        ).cells[0]
        found = replace(found, p_value=None, p_adjusted=None, test="")
        cells.append(RobustnessCell(WORST, found))
    return cells


def _extremes(records: Sequence[Records], column: str, up: bool) -> tuple[Records, Records]:
    """Return the unperturbed and the worst value of each unit measured in every run."""
    sides = [UnitValues.of(one) for one in records]
    ids = reduce(np.intersect1d, [side.ids for side in sides])
    values, measured = [], np.ones(len(ids), dtype=np.bool_)
    for side in sides:
        found, has = side.values(column)
        at = np.searchsorted(side.ids, ids)
        values.append(found[at])
        measured &= has[at]
    first = sides[0].starts[np.searchsorted(sides[0].ids, ids)][measured]
    worst = np.min(values, axis=0) if up else np.max(values, axis=0)
    about: dict[str, Any] = {
        "unit_id": ids[measured],
        "group": records[0].group[first],
        "content_hash": records[0].content_hash[first],
    }
    plain_side, worst_side = (
        Records.from_columns({column: side[measured]}, **about) for side in (values[0], worst)
    )
    return plain_side, worst_side
