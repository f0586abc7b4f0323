"""Execution of suites, with one run per task."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit.analysis.units import UnitValues
from eval_toolkit.artifacts import write_json_strict
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, ModelError
from eval_toolkit.inference.macro import macro_mean
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, Interval
from eval_toolkit.models.cache import ResponseCache
from eval_toolkit.models.runner import Progress
from eval_toolkit.protocols import Model
from eval_toolkit.runs.outcome import Outcome
from eval_toolkit.runs.specs import SummarySpec
from eval_toolkit.scorecards import MetricResult, Scorecard
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.grading import GradingSettings
from eval_toolkit.tasks.planning import decoding_of, estimate
from eval_toolkit.tasks.running import run_task
from eval_toolkit.tasks.suites.declared import Aggregate, Leaf, Suite, made_task, run_options

SUITE_FILE = "suite.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteValue:
    """Mean or median over tasks, or the reason why it is missing."""

    name: str
    method: str
    sources: tuple[tuple[str, str], ...]
    value: float | None = None
    standard_error: float | None = None
    ci: Interval[float] | None = None
    confidence: float = DEFAULT_CONFIDENCE
    n_units: int = 0
    status: str = "ok"
    reason: str = ""

    @property
    def ci_low(self) -> float | None:
        """Lower end of the interval, or None without an interval."""
        return None if self.ci is None else self.ci.ci_low

    @property
    def ci_high(self) -> float | None:
        """Upper end of the interval, or None without an interval."""
        return None if self.ci is None else self.ci.ci_high

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        names = (
            *("name", "method", "sources", "value", "standard_error", "ci_low", "ci_high"),
            *("confidence", "n_units", "status", "reason"),
        )
        payload = {name: getattr(self, name) for name in names}
        return {**payload, "sources": [list(source) for source in self.sources]}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SuiteRun(Displayed):
    """Results of the tasks of a suite."""

    name: str
    model: str
    runs: Mapping[str, Outcome]
    """Outcomes of finished tasks, by label."""
    failures: Mapping[str, str] = field(default_factory=dict)
    """Reasons why tasks were not finished, by label."""
    aggregates: Mapping[str, SuiteValue] = field(default_factory=dict)
    path: Path | None = None

    @property
    def failed(self) -> bool:
        """Whether any task was not finished or exceeds its maximum error rate."""
        return bool(self.failures) or any(run.too_many_errors for run in self.runs.values())

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict; the full results of each task are in its run folder."""
        return {
            "schema_version": "v1",
            "suite": self.name,
            "model": self.model,
            "tasks": {
                label: {
                    "run_id": run.results["run_id"],
                    "path": None if run.run is None else run.run.path.name,
                    "n_units": len(set(run.records.unit_id.tolist())),
                    "n_errors": run.n_errors,
                    "metrics": run.card.to_dict(),
                }
                for label, run in self.runs.items()
            },
            "failures": dict(self.failures),
            "aggregates": {name: one.to_dict() for name, one in self.aggregates.items()},
        }


def run_suite(
    suite: Suite,
    model: Model,
    out: str | Path | None = None,
    *,
    cache: ResponseCache | str | Path | None = None,
    concurrency: int | None = None,
    on_task: Callable[[str, BaseTask[Any]], object] | None = None,
    on_progress: Callable[[Progress], object] | None = None,
    **defaults: Any,
) -> SuiteRun:
    """Run every task of a suite and aggregate over tasks.

    Parameters
    ----------
    suite : Suite
        Suite to run.
    model : Model
        Model to query.
    out : path, optional
        Folder of the runs. Each task has its own subfolder, named after its label, and is resumed
        like any other run. At the end, ``suite.json`` is written to ``out``.
    cache, concurrency, on_progress
        As in `run_task`.
    on_task : callable, optional
        Function that is called with the label and the task before each run.
    **defaults
        Default settings, such as ``limit``, which the suite and its tasks may override.

    Returns
    -------
    SuiteRun
        Results of all tasks. If the model fails permanently in a task, ``failures`` contains the
        reason, and the other tasks still run. By default, there is a single aggregate, named after
        the suite: the mean of the first metric of each task.

    Raises
    ------
    InvalidInputError
        If a task cannot be created or a setting is invalid; raised before any request is sent.
    ArtifactError
        If a folder contains another run.

    Examples
    --------
    >>> from eval_toolkit.models.scripted import ScriptedModel
    >>> suite = Suite("small", ["capitals_open"], {"limit": 4})
    >>> run_suite(suite, ScriptedModel("Rome")).aggregates["small"].n_units
    16
    """
    if not isinstance(suite, Suite):
        raise InvalidTypeError(f"`suite` is {suite!r:.80}; it must be a Suite (load_suite)")
    leaves = list(Suite(suite.name, [suite], defaults).leaves())
    tasks = [made_task(leaf) for leaf in leaves]
    for leaf, task in zip(leaves, tasks, strict=True):
        _check(leaf, task, model)
    places = _places(leaves, out)
    runs: dict[str, Outcome] = {}
    failures: dict[str, str] = {}
    for leaf, task, place in zip(leaves, tasks, places, strict=True):
        if on_task is not None:
            on_task(leaf.name, task)
        options = run_options(leaf)
        try:
            runs[leaf.name] = run_task(
                task,
                model,
                place,
                cache=cache,
                concurrency=concurrency,
                on_progress=on_progress,
                **options,
            )
        except ModelError as error:
            failures[leaf.name] = " ".join(str(error).split())
    wanted = list(suite.all_aggregates()) or _default(suite.name, leaves, runs)
    said = {**defaults, **suite.settings}.get("confidence", DEFAULT_CONFIDENCE)
    confidence = validation.fraction(said, "confidence")
    aggregates = {one.name: _aggregated(one, runs, failures, confidence) for one in wanted}
    folder = None if out is None else Path(out)
    done = SuiteRun(
        name=suite.name,
        model=model.name,
        runs=runs,
        failures=failures,
        aggregates=aggregates,
        path=folder,
    )
    if folder is not None:
        write_json_strict(done.to_dict(), folder / SUITE_FILE)
    return done


_ASKING = ("limit", "order", "attempts", "formatter", "max_tokens")
_DECODING = ("temperature", "top_p", "max_tokens", "stop")
_SUMMARY = ("on_error", "confidence", "max_error_rate")


def _check(leaf: Leaf, task: BaseTask[Any], model: Model) -> None:
    """Validate the run settings of a task, before any request is sent."""
    given = run_options(leaf)
    ks = {name: given.get(name, ()) for name in ("pass_at", "pass_hat", "maj_at")}
    attempts = given.get("attempts") or 1
    try:
        summary = SummarySpec(**{name: given[name] for name in _SUMMARY if name in given})
        GradingSettings.of(task, given.get("graders"), summary=summary, attempts=attempts, **ks)
        decoding_of(task, model, **{name: given[name] for name in _DECODING if name in given})
        estimate(task, model, **{name: given[name] for name in _ASKING if name in given})
    except InvalidInputError as error:
        raise type(error)(f"task {leaf.name!r}: {error}") from error


def _places(leaves: Sequence[Leaf], out: str | Path | None) -> list[Path | None]:
    """Return the folder of each task; raise an error if two labels map to the same folder."""
    if out is None:
        return [None] * len(leaves)
    names = [re.sub(r"[^A-Za-z0-9._-]+", "-", leaf.name).strip("-.") or "task" for leaf in leaves]
    for name, leaf in zip(names, leaves, strict=True):
        if names.count(name) > 1:
            raise InvalidInputError(
                f"{leaf.name!r} and another task would share the folder {name!r}; give one "
                "of them a different `label`"
            )
    return [Path(out) / name for name in names]


def _default(name: str, leaves: Sequence[Leaf], runs: Mapping[str, Outcome]) -> list[Aggregate]:
    """Return the default aggregate, a mean of first metrics, if all have the same direction."""
    firsts = {label: next(iter(run.card)) for label, run in runs.items()}
    ups = {bool(_up(runs[label].card[metric])) for label, metric in firsts.items()}
    if not firsts or len(ups) > 1:
        return []
    some = next(iter(firsts.values()))
    return [Aggregate(name, [(leaf.name, firsts.get(leaf.name, some)) for leaf in leaves])]


def _up(cell: MetricResult) -> bool:
    return (cell.details or {}).get("higher_is_better", True) is not False


def _aggregated(
    wanted: Aggregate,
    runs: Mapping[str, Outcome],
    failures: Mapping[str, str],
    confidence: float,
) -> SuiteValue:
    """Compute an aggregate over tasks, which is skipped if a source has no value."""
    blank = SuiteValue(
        name=wanted.name,
        method=wanted.method,
        sources=tuple((task, metric) for task, metric in wanted.sources),
        status="skipped",
        confidence=confidence,
    )
    cells = []
    for task, metric in wanted.sources:
        reason = _why_not(task, metric, runs, failures)
        if reason:
            return replace(blank, reason=reason)
        cells.append(runs[task].card[metric])
    values = np.array([cell.value for cell in cells], dtype=np.float64)
    n_units = sum(cell.n_units or 0 for cell in cells)
    if wanted.method == "median":
        reason = "a median over tasks has no interval"
        return replace(
            blank, value=float(np.median(values)), status="ok", reason=reason, n_units=n_units
        )
    return _mean(blank, wanted, runs, cells, n_units)


def _why_not(
    task: str, metric: str, runs: Mapping[str, Outcome], failures: Mapping[str, str]
) -> str:
    if task not in runs:
        return f"{task} was not finished: {failures.get(task, 'it was not run')}"
    card: Scorecard = runs[task].card
    if metric not in card:
        return f"{task} has no metric {metric!r}; it has {', '.join(card)}"
    cell = card[metric]
    return "" if cell.value is not None else f"{task} {metric}: {cell.reason}"


def _mean(
    blank: SuiteValue,
    wanted: Aggregate,
    runs: Mapping[str, Outcome],
    cells: Sequence[MetricResult],
    n_units: int,
) -> SuiteValue:
    """Compute a mean with an interval based on the values of units or the intervals of tasks."""
    value = float(np.mean([cell.value for cell in cells]))
    made = replace(blank, value=value, status="ok", n_units=n_units)
    columns = [
        _unit_values(runs[task], metric, cell)
        for (task, metric), cell in zip(wanted.sources, cells, strict=True)
    ]
    if all(found is not None for found in columns):
        parts = [found[0] for found in columns if found is not None]
        groups = [found[1] for found in columns if found is not None]
        mean = macro_mean(parts, groups=groups, confidence=blank.confidence)
        if mean.ci is None:
            return replace(made, reason=mean.reason)
        return replace(made, standard_error=mean.se, ci=mean.ci)
    errors = [(cell.details or {}).get("standard_error") for cell in cells]
    if not any(error is None for error in errors):
        error = math.sqrt(sum(float(one) ** 2 for one in errors if one is not None)) / len(errors)
        made = replace(made, standard_error=error)
    if any(cell.ci is None for cell in cells):
        return replace(made, reason="a task's metric has no interval")
    # Combine the tasks' own intervals, which respect the range of their metrics (MOVER).
    below = [cell.ci.point_estimate - cell.ci.ci_low for cell in cells if cell.ci is not None]
    above = [cell.ci.ci_high - cell.ci.point_estimate for cell in cells if cell.ci is not None]
    down, up = (math.hypot(*moves) / len(cells) for moves in (below, above))
    return replace(made, ci=Interval(value - down, value + up, blank.confidence, "mover"))


def _unit_values(run: Outcome, metric: str, cell: MetricResult) -> tuple[Any, Any] | None:
    """Return the values and groups of a metric by unit if it is a column mean."""
    records = run.records
    if metric not in records.columns:
        return None
    units = UnitValues.of(records)
    values, there = units.values(metric)
    kept = values[there]
    if not len(kept) or not math.isclose(float(kept.mean()), cell.value or 0.0, abs_tol=1e-9):
        return None  # for example if errors count as zero: the column lacks them
    # Tasks with the same dataset share its items.
    data = (run.results["config"]["task"].get("dataset") or {}).get("sha256")
    groups = records.group[units.starts].astype(str)[there]
    return kept, np.char.add(f"{data or run.results['run_id']}:", groups)
