"""Leaderboards: rankings of systems by their runs on the same tasks, with uncertainty."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, Unpack

import numpy as np

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.options import gathers
from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.analysis.comparison import opened_run, stopped_note
from eval_toolkit.analysis.directions import (
    agreed,
    direction_hint,
    stated_by,
    stated_in,
    with_directions,
)
from eval_toolkit.analysis.matching import matched_records
from eval_toolkit.analysis.rollout_settings import changed_settings, cut_short_note, have_turns
from eval_toolkit.analysis.subjects import check_versions, unit_metric
from eval_toolkit.analysis.units import UnitValues, right_or_wrong, shared_groups
from eval_toolkit.errors import (
    ArtifactError,
    InvalidInputError,
    InvalidTypeError,
    MissingColumnError,
)
from eval_toolkit.inference.leaderboards import (
    RankedSystem,
    Ranking,
    RankingOptions,
    rank_systems,
)
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE
from eval_toolkit.runs import Run
from eval_toolkit.runs.addresses import Address
from eval_toolkit.scorecards import Records
from eval_toolkit.scorecards.parts import SLICE, WHOLE, format_part

RunLike: TypeAlias = Run | str | Path
_DRAWS = 4000


@dataclass(frozen=True, slots=True)
class TaskUnits:
    """Units of a task, its metric, and the mean of each system."""

    task: str
    metric: str
    n_units: int
    """Number of units measured by every system."""
    n_left_out: int
    """Number of units without a value for at least one system."""
    values: Mapping[str, float]
    """Mean of each system over the common units."""
    part: str = WHOLE
    """Part of the task, such as ``subject=Africa``; "all" for the whole."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        names = ("task", "part", "metric", "n_units", "n_left_out")
        return {name: getattr(self, name) for name in names} | {"values": dict(self.values)}


@dataclass(frozen=True, slots=True, repr=False)
class Leaderboard(Displayed):
    """Systems from best to worst, over equally weighted tasks."""

    ranking: Ranking
    tasks: tuple[TaskUnits, ...]
    left_out: tuple[str, ...] = field(default=())
    """Tasks and units that were excluded because a system has no value for them."""
    notes: tuple[str, ...] = field(default=())
    """Notes that qualify the ranks, e.g. that a run stopped early."""

    @property
    def systems(self) -> tuple[RankedSystem, ...]:
        """Ranked systems, from best to worst."""
        return self.ranking.systems

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per system: rank with bounds, value with interval, tasks."""
        return [
            {
                "rank": system.rank,
                "ranks": f"{system.rank_low}-{system.rank_high}",
                "system": system.name,
                "mean": system.value,
                "ci_low": None if system.ci is None else system.ci.ci_low,
                "ci_high": None if system.ci is None else system.ci.ci_high,
                "p_best": system.p_best,
                **{task.task: task.values[system.name] for task in self.tasks},
            }
            for system in self.systems
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "ranking": self.ranking.to_dict(),
            "tasks": [task.to_dict() for task in self.tasks],
            "left_out": list(self.left_out),
            "notes": list(self.notes),
        }


@gathers(
    RankingOptions,
    method="bootstrap",
    adjust="holm",
    confidence=DEFAULT_CONFIDENCE,
    n_draws=_DRAWS,
    seed=None,
    rng=None,
)
def leaderboard(
    runs: Sequence[RunLike] | Mapping[str, RunLike | Sequence[RunLike]],
    *,
    metrics: str | Mapping[str, str] | None = None,
    tasks: Sequence[str] | None = None,
    higher_is_better: Mapping[str, bool] | None = None,
    on_mismatch: str = "raise",
    allow_version_change: bool = False,
    **options: Unpack[RankingOptions],
) -> Leaderboard:
    """Rank systems by their runs on the same tasks, using shared resamples for all comparisons.

    Parameters
    ----------
    runs : sequence of Run or path, or mapping of str to run or runs
        Runs that contain the results of a system (scorer, i.e. model) on a task (slice). Pass a
        mapping to name the systems, e.g. if two of them have the same name.
    metrics : str or mapping of task to str, optional
        Column to average, or pass@k, pass^k or maj@k of a column; by default, each task's first
        metric. With an address such as ``exact_match @ subject=Africa``, only the units of this
        part are used.
    tasks : sequence of str, optional
        Tasks to include; by default, all tasks that were run by every system.
    higher_is_better : mapping of str to bool, optional
        Whether higher is better for a metric or column, as in `compare_runs`.
    on_mismatch : {"raise", "drop"}, default "raise"
        How to treat units that have the same id but different content in different systems.
    allow_version_change : bool, default False
        Whether to rank rollout runs that differ in depth, width, policy, scorer versions or other
        relevant settings. ``notes`` then lists the differences.
    method, adjust, confidence, n_draws, seed, rng
        As in `rank_systems`.

    Returns
    -------
    Leaderboard
        Ranking in which every task has the same weight, based on the units measured by all systems.
        Attempts at a unit are averaged first. Groups of units are resampled together and must be
        the same for all systems that have groups. Intervals assume that the number of units was
        fixed in advance; ``notes`` lists runs that stopped early, and rollout runs that were cut
        short or have different settings.

    Raises
    ------
    InvalidInputError
        If there are fewer than two systems, no common task, a metric without a known direction, a
        mix of tasks with opposite directions, systems that assign the same units to different
        groups, or rollout runs with different settings and ``allow_version_change`` False.
    ArtifactError
        If a run is corrupt, or a unit has different content in another run.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.models.scripted import ScriptedModel
    >>> from eval_toolkit.tasks import BaseTask, ResponseType, run_task
    >>> class Sums(BaseTask[str]):
    ...     NAME = "sums"
    ...     RESPONSE_TYPE = ResponseType.COMPLETION
    ...     METRICS = ["exact_match"]
    ...     def _get_instruction_text(self, item):
    ...         return f"1 + {item['n']} ="
    ...     def _get_ground_truth(self, item):
    ...         return str(item["n"] + 1)
    >>> task = Sums(rows=[{"n": n % 2} for n in range(40)])
    >>> folder = tempfile.mkdtemp()
    >>> for answer in ("1", "2", "3"):
    ...     model = ScriptedModel(answer, name=f"always {answer}")
    ...     _ = run_task(task, model, f"{folder}/{answer}")
    >>> board = leaderboard([f"{folder}/{answer}" for answer in ("1", "2", "3")])
    >>> board.ranking.best
    ('always 1', 'always 2')
    """
    validation.choice(on_mismatch, "on_mismatch", ("raise", "drop"))
    addresses = _Addresses.of(metrics)
    table = _table(runs, higher_is_better, addresses)
    names = list(table)
    if not names:
        raise InvalidInputError("no run has records; a leaderboard needs values per unit")
    if len(names) < 2:
        raise InvalidInputError(
            f"all runs belong to {', '.join(map(repr, names))}; a leaderboard needs two systems "
            "(name them with a mapping if their names are equal)"
        )
    chosen, left_out = _common_tasks(table, tasks)
    parts, groups, task_units, notes = {}, {}, [], []
    directions: dict[str, bool] = {}
    rates = True
    for task in chosen:
        entries = [table[name][task] for name in names]
        if not allow_version_change:
            _check_alike(task, names, entries)
        metric = _metric(task, addresses.metric(task), names, entries)
        entries, matching_notes = _aligned(task, names, entries)
        notes += matching_notes
        common = _common(task, metric, names, entries, on_mismatch)
        parts[task], groups[task] = common.values, common.groups
        rates = rates and all(entry.is_rate(metric) for entry in entries)
        directions[task] = _direction(metric, entries)
        means = dict(zip(names, common.values.mean(axis=0).tolist(), strict=True))
        task_units.append(
            TaskUnits(
                task, metric, len(common.values), common.n_left_out, means, addresses.part(task)
            )
        )
        for name, entry in zip(names, entries, strict=True):
            notes.append(stopped_note(entry.run, f"{task}: {name}"))
            notes += _about_rollouts(f"{task}: {name}", metric, entry, entries[0])
        if common.n_left_out:
            left_out.append(f"{task}: {common.n_left_out} units not measured by every system")
    if len(set(directions.values())) > 1:
        lower = [task for task, up in directions.items() if not up]
        raise InvalidInputError(
            f"lower is better in {', '.join(lower)} and higher in the others, so they cannot be "
            "averaged; choose with `tasks` or `metrics`"
        )
    ranking = rank_systems(
        parts,
        names=names,
        groups=groups,
        higher_is_better=directions[chosen[0]],
        bounds=(0.0, 1.0) if rates else (-math.inf, math.inf),
        share=None if rates else False,
        **options,
    )
    return Leaderboard(ranking, tuple(task_units), tuple(left_out), tuple(filter(None, notes)))


def _check_alike(task: str, names: Sequence[str], entries: Sequence["_Entry"]) -> None:
    """Raise if the rollouts of two systems differ in a way that `compare_runs` rejects."""
    first = entries[0].run.manifest
    for name, entry in zip(names[1:], entries[1:], strict=True):
        if not have_turns(first, entry.run.manifest):
            continue
        try:
            check_versions(first, entry.run.manifest, [], allow=False)
        except InvalidInputError as error:
            raise InvalidInputError(f"{task!r}, A is {names[0]}, B is {name}: {error}") from error


def _about_rollouts(where: str, metric: str, entry: "_Entry", first: "_Entry") -> list[str]:
    """Return notes on differences between rollout runs other than the systems."""
    changed = changed_settings(first.run.manifest, entry.run.manifest)
    differences = [f"{name} {other}, not {one}" for name, (one, other) in changed.items()]
    cut = cut_short_note(entry.cells, metric)
    return [f"{where}: {note}" for note in (*differences, *([cut] if cut else []))]


@dataclass(frozen=True, slots=True)
class _Entry:
    """Records and cells of a system on a task."""

    records: Records
    cells: Mapping[str, Any]
    run: Run

    def is_rate(self, metric: str) -> bool:
        """Whether the column is binary; means over attempts then lie between 0 and 1."""
        if metric not in self.records.numbers:  # pass@k and similar
            return True
        spec = unit_metric(metric, self.records, self.cells)
        measured = self.records.status[metric] == "ok"
        declared = spec is None or spec.may_be_share
        return declared and right_or_wrong(self.records.columns[metric][measured])

    def metrics(self) -> list[str]:
        """Return the metrics that are means of a column of the records."""
        return [name for name in self.cells if name in self.records.numbers]


def _direction(metric: str, entries: Sequence[_Entry]) -> bool:
    """Return whether higher is better; raise if it is unknown, since ranks need a direction."""
    stated = [
        up for entry in entries for up in stated_by(stated_in(entry.run), entry.cells, metric)
    ]
    up = agreed(stated, metric)
    if up is None:
        raise InvalidInputError(direction_hint([metric]))
    return up


@dataclass(frozen=True, slots=True)
class _Addresses:
    """Metric to average and optionally a part of the units, for all tasks or by task."""

    everywhere: Address | None
    by_task: Mapping[str, Address]

    @classmethod
    def of(cls, metrics: str | Mapping[str, str] | None) -> "_Addresses":
        if isinstance(metrics, Mapping):
            return cls(None, {task: _address(given) for task, given in metrics.items()})
        return cls(None if metrics is None else _address(metrics), {})

    def metric(self, task: str) -> str | None:
        found = self.by_task.get(task, self.everywhere)
        return None if found is None else found.metric

    def pairs(self, task: str) -> Mapping[str, str] | None:
        """Return the pairs that select the part of a task; None if the task is not included."""
        found = self.by_task.get(task, self.everywhere)
        pairs = dict(found.part or {}) if found is not None else {}
        named = pairs.pop(SLICE, task)
        return pairs if named == task else None

    def part(self, task: str) -> str:
        return format_part(self.pairs(task) or {})


def _address(given: str) -> Address:
    address = Address.parse(given)
    if address.part is None and address.system is not None:
        return Address(given)  # a column name that contains a slash
    if address.system is not None:
        raise InvalidInputError(
            f"`metrics` is {given!r}: every system is ranked; remove / {address.system}"
        )
    return address


def _duplicate_message(system: str, task: str, first: Path, second: Path) -> str:
    """Return the error message for two runs of the same system, e.g. a model with two prompts."""
    names = f", such as {first.name} and {second.name}" if first.name != second.name else ""
    return (
        f"{system!r} was run on {task!r} in both {first} and {second}; pass only one of them, or name the "
        f"systems with a mapping{names}"
    )


def _table(
    runs: Any, higher_is_better: Mapping[str, bool] | None, addresses: _Addresses
) -> dict[str, dict[str, _Entry]]:
    """Return the entries by system and task; if a part is requested, only entries that have it."""
    table: dict[str, dict[str, _Entry]] = {}
    named = list(_named(runs))
    stating = with_directions([run for _, run in named], higher_is_better)
    for (name, _), run in zip(named, stating, strict=True):
        for task, scorer in run.subjects:
            system = scorer if name is None else name
            of_system = table.setdefault(system, {})
            if task in of_system:
                raise InvalidInputError(
                    _duplicate_message(system, task, of_system[task].run.path, run.path)
                )
            pairs = addresses.pairs(task)
            entry = None if pairs is None else _entry(run, task, scorer, pairs)
            if entry is not None:
                of_system[task] = entry
    if table and not any(table.values()):
        parts = {run.cells.place(*place): None for _, run in named for place in run.cells.places}
        raise InvalidInputError(f"no run has the part in `metrics`; choose from {', '.join(parts)}")
    return table


def _entry(run: Run, task: str, scorer: str, pairs: Mapping[str, str]) -> _Entry | None:
    """Return a system's records and cells on a task or its part; None if the part is missing."""
    part = format_part(pairs)
    try:
        records = run.records(task, scorer, part)
    except MissingColumnError:
        if part == WHOLE:
            raise
        return None
    cells = run.cells.block_or_none(task, scorer, part)
    return _Entry(records, cells or run.cells.block_or_none(task, scorer) or {}, run)


def _named(runs: Any) -> Iterable[tuple[str | None, Run]]:
    if isinstance(runs, Mapping):
        for name, given in runs.items():
            several = [given] if isinstance(given, (Run, str, Path)) else list(given)
            for run in several:
                yield str(name), opened_run(run, f"runs[{name!r}]")
        return
    if isinstance(runs, (Run, str, Path)):
        raise InvalidTypeError("`runs` must be a list of runs, e.g. [run]")
    for at, run in enumerate(runs):
        yield None, opened_run(run, f"runs[{at}]")


def _common_tasks(
    table: Mapping[str, Mapping[str, _Entry]], wanted: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Return the included tasks, and descriptions of the excluded tasks."""
    if isinstance(wanted, str):
        raise InvalidTypeError(f"`tasks` must be a list; write [{wanted!r}]")
    known = list(dict.fromkeys(task for entries in table.values() for task in entries))
    lacking = {task: [name for name in table if task not in table[name]] for task in known}
    for task in wanted or ():
        if task not in known:
            raise InvalidInputError(
                f"`tasks`: no run has {task!r}; the tasks are {', '.join(known)}"
            )
        if lacking[task]:
            raise InvalidInputError(f"`tasks`: {', '.join(lacking[task])} did not run {task!r}")
    chosen = [task for task in (known if wanted is None else wanted) if not lacking[task]]
    if not chosen:
        raise InvalidInputError(
            "no task was run by every system: "
            + "; ".join(f"{name} has {', '.join(entries)}" for name, entries in table.items())
        )
    left = [f"{task}: not run by {', '.join(who)}" for task, who in lacking.items() if who]
    return chosen, left if wanted is None else []


def _metric(task: str, given: str | None, names: Sequence[str], entries: Sequence[_Entry]) -> str:
    """Return the column of a task to average."""
    shared = [
        name for name in entries[0].metrics() if all(name in one.metrics() for one in entries)
    ]
    if given is None:
        if not shared:
            raise InvalidInputError(
                f"{task!r}: none of the metrics that all systems have is a mean over units"
            )
        return shared[0]
    for name, entry in zip(names, entries, strict=True):
        if unit_metric(given, entry.records, entry.cells) is None:
            have = f"all have {', '.join(shared) or 'none in common'}"
            if given in entry.cells:
                raise InvalidInputError(f"{task!r}: {given!r} is not a mean over units; {have}")
            raise InvalidInputError(f"{task!r}: {name!r} has no column {given!r}; {have}")
    return given


@dataclass(frozen=True, slots=True)
class _Common:
    values: FloatArray
    groups: Any
    n_left_out: int


def _aligned(
    task: str, names: Sequence[str], entries: Sequence[_Entry]
) -> tuple[list[_Entry], list[str]]:
    """Return the entries with the unit ids of the first system, in case tools use different ids."""
    first, notes, aligned = entries[0], [], [entries[0]]
    for name, entry in zip(names[1:], entries[1:], strict=True):
        sides = ((first.run, first.records), (entry.run, entry.records))
        records, matching_notes = matched_records(*sides, (task, task), "auto")
        aligned.append(replace(entry, records=records))
        notes += [f"{names[0]} and {name}, {note}" for note in matching_notes]
    return aligned, notes


def _common(
    task: str, metric: str, names: Sequence[str], entries: Sequence[_Entry], on_mismatch: str
) -> _Common:
    """Return an array of systems by units, for the units measured by all systems."""
    sides = [UnitValues.of(entry.records) for entry in entries]
    specs = [unit_metric(metric, entry.records, entry.cells) for entry in entries]
    ids = sides[0].ids
    for side in sides[1:]:
        ids = np.intersect1d(ids, side.ids, assume_unique=True)
    at = [np.searchsorted(side.ids, ids) for side in sides]
    hashes = np.stack(
        [side.records.content_hash[side.starts][rows] for side, rows in zip(sides, at, strict=True)]
    )
    differs = np.array([len(set(unit) - {""}) > 1 for unit in hashes.T.tolist()], dtype=np.bool_)
    if differs.any() and on_mismatch == "raise":
        unit = int(np.argmax(differs))
        raise ArtifactError(
            f"{task!r}: unit {str(ids[unit])!r} has different content in the runs of {', '.join(names)} "
            f"({int(differs.sum())} of {len(ids)} units differ); exclude them with "
            "on_mismatch='drop'"
        )
    columns = [
        side.values(metric if spec is None else spec.column, spec)
        for side, spec in zip(sides, specs, strict=True)
    ]
    values = np.stack([v[rows] for (v, _), rows in zip(columns, at, strict=True)], axis=1)
    there = np.stack([m[rows] for (_, m), rows in zip(columns, at, strict=True)], axis=1)
    keep = there.all(axis=1) & ~differs
    if not keep.any():
        raise InvalidInputError(f"{task!r}: no unit has {metric!r} in every system")
    everything = len(set().union(*(side.ids.tolist() for side in sides)))
    groups = {name: s.groups(rows)[keep] for name, s, rows in zip(names, sides, at, strict=True)}
    try:
        shared = shared_groups(groups)
    except InvalidInputError as error:
        raise InvalidInputError(f"{task!r}: {error}") from error
    independent = np.arange(int(keep.sum()))
    return _Common(
        values[keep], independent if shared is None else shared, everything - int(keep.sum())
    )
