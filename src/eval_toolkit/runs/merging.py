"""`merge_runs`: merge the shards of a run into one run.

The answers and records of the shards are copied unchanged into one folder, and the driver
summarises them as for any stored run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from eval_toolkit._internal import validation
from eval_toolkit.artifacts import read_json
from eval_toolkit.artifacts.shapes import shape_problem
from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.models.runner.stored import RESPONSES, read_outcomes, to_columns
from eval_toolkit.runs.driver import config_of, driver_of, item_set_hash, refuse_taken
from eval_toolkit.runs.folder import MANIFEST, RECORDS, Run
from eval_toolkit.runs.kinds import Kind
from eval_toolkit.runs.lock import lock_holder
from eval_toolkit.runs.outcome import Outcome, Subject
from eval_toolkit.runs.query_driver import in_order, seconds_of, stored_digest
from eval_toolkit.runs.rescoring import source_run, stored_kind
from eval_toolkit.runs.resuming import difference, shown_setting
from eval_toolkit.runs.shards import Shard, shard_of
from eval_toolkit.runs.specs import AskSpec
from eval_toolkit.runs.table import to_table
from eval_toolkit.runs.units import UNITS, WHAT, WHO, Unit, typed_column
from eval_toolkit.runs.writing import write_run
from eval_toolkit.scorecards import Records

_SEVERAL = 10
"""Maximum number of shards listed in a message."""
_TEXT = {"type": "string"}
_SHAPE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "shard": {
            "type": "object",
            "properties": {
                "n_units": {"type": "integer"},
                "item_set_hash": _TEXT,
                "notes": {"type": "array", "items": _TEXT},
            },
        },
        "units": {
            "type": "object",
            "properties": {
                "parts": {"type": "object", "additionalProperties": _TEXT},
                "n_cut": {"type": "integer"},
            },
        },
        "wall_clock_seconds": {"type": "number"},
    },
}
"""Types of the fields that the manifest of a shard must contain."""
_RESTORED = ("task", "sandbox")
"""Settings that `stored_kind` compares or that depend on the machine."""


def merge_runs(
    runs: Iterable[Run | Outcome | str | Path],
    out: str | Path,
    *,
    partial: bool = False,
    run_id: str | None = None,
    max_error_rate: float = 0.0,
    kind: Kind[Any] | None = None,
    **options: Any,
) -> Outcome:
    """Merge the shards of a run, written with ``shard="i/n"``, without querying a model.

    The command ``eval-toolkit merge`` does the same. The files are byte-identical to those of an
    unsharded run, except for times, machines and run ids in the manifest, which lists the shards
    under ``merged``.

    Parameters
    ----------
    runs : sequence of Run, Outcome or path
        Finished shards of one run, in any order; they are not modified.
    out : path
        New folder for the merged run.
    partial : bool, default False
        Whether to allow missing shards. The result is then itself a shard, such as ``1,2,5/8``, and
        can later be merged with the others.
    run_id : str, optional
        Name of the run; by default, the name of the folder.
    max_error_rate : float, default 0.0
        See `SummarySpec`.
    kind : Kind, optional
        Kind of the run, as in `rescore`; required if it cannot be restored.
    **options
        ``task`` and ``graders`` of the shards, as in `rescore`; required if they cannot be restored
        from the runs.

    Returns
    -------
    Outcome
        Outcome of the whole run.

    Raises
    ------
    ArtifactError
        If a shard is unfinished, missing, passed twice or from another run, or if the folder
        already contains a run.
    InvalidInputError
        If the options differ from those of the shards.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.models.scripted import ScriptedModel
    >>> from eval_toolkit.tasks import run_task
    >>> place = tempfile.mkdtemp()
    >>> quiz = [{"question": f"{n} + 1?", "answer": str(n + 1)} for n in range(9)]
    >>> def add(request):
    ...     return str(int(str(request.prompt[-1].content).split()[0]) + 1)
    >>> shards = [
    ...     run_task(quiz, ScriptedModel(add), f"{place}/{i}", shard=f"{i}/3").run for i in (1, 2, 3)
    ... ]
    >>> done = merge_runs(shards, f"{place}/whole")
    >>> done.card["match"].value, done.card["match"].n_units, done.n_asked
    (1.0, 9, 0)
    """
    validation.place(out, "out")
    folder = Path(out)
    if kind is not None and options:
        raise InvalidInputError(
            f"`{next(iter(options))}` cannot be combined with `kind`; pass only `kind`"
        )
    shards = sorted(map(_Part.of, _opened(runs)), key=lambda part: part.shard.parts)
    joined = _joined(shards, partial=partial)
    refuse_taken(folder, shards[0].run, in_place=_is_unfinished_merge(folder))
    with tempfile.TemporaryDirectory(prefix="eval-toolkit-merge-") as place:
        source = _union(shards, joined, Path(place) / "run")
        try:
            restored = stored_kind(source, **options) if kind is None else kind
        except (ArtifactError, InvalidInputError) as error:
            message = str(error).replace(str(source.path), str(shards[0].run.path))
            raise type(error)(message) from None
        _refuse_other_settings(restored, joined)
        notes = (*joined.notes, *_missing(shards, joined))
        settings: Any = (AskSpec(), run_id, folder.name, max_error_rate, {}, notes, source)
        return replace(driver_of(restored, *settings), joined=joined).run(folder)


@dataclass(frozen=True)
class Joined:
    """Settings shared by the shards of a run, and their tables."""

    config: Mapping[str, Any]
    told: Mapping[str, Any]
    """Entries of the manifest."""
    notes: Sequence[str]
    """Notes of the run before its first request."""
    tables: Mapping[str, Mapping[str, Any]]
    shards: Sequence[Run]

    def check(self, subjects: Mapping[Subject, Records]) -> None:
        """Raise an error if records differ from those of the shards."""
        for run in self.shards:
            for subject in run.subjects:
                theirs, _ = to_table({subject: run.records(*subject)})
                found = subjects.get(subject)
                same = found is not None and np.isin(found.unit_id, theirs["unit_id"])
                ours, _ = to_table({} if found is None else {subject: found.take(same)})
                if not all(name in ours and _equal(ours[name], theirs[name]) for name in theirs):
                    raise ArtifactError(
                        f"{run.path}: its records for {subject[1]!r} do not match this kind; "
                        "pass the task and the graders of the shard"
                    )


def _equal(ours: Any, theirs: Any) -> bool:
    """Return whether two columns are equal; the type of a column without values is ignored."""
    missing = [
        [value if value == value else None for value in one.tolist()] for one in (ours, theirs)
    ]
    return missing[0] == missing[1]


@dataclass(frozen=True)
class _Part:
    """Finished shard of a run."""

    run: Run
    shard: Shard
    config: Mapping[str, Any]
    """Configuration of the whole run."""
    whole: Mapping[str, Any]
    """Number and hash of all units, and the notes made before the first request."""

    @classmethod
    def of(cls, run: Run) -> _Part:
        config = dict(run.manifest.get("config") or {})
        stored_shard = run.manifest.get("shard")
        try:
            shard = shard_of(config)
        except InvalidInputError as error:
            raise ArtifactError(f"{run.path}: {MANIFEST}: {error}") from None
        known = {name: value for name, value in run.manifest.items() if value is not None}
        if problem := shape_problem(known, _SHAPE):
            raise ArtifactError(f"{run.path}: {MANIFEST}: {problem}")
        if shard is None or not stored_shard:
            raise ArtifactError(
                f"{run.path}: not a shard of a run; run it with --shard i/n (shard='i/n')"
            )
        del config["shard"]
        return cls(run, shard, config, stored_shard)

    def table(self, name: str) -> dict[str, Any]:
        """Return a table of the shard, which is empty if the shard has no units."""
        found = self.run.table(name) if name in self.run.manifest["artifacts"] else {}
        return found if len(found.get("unit_id", ())) else {}


def _opened(runs: Any) -> list[Run]:
    if isinstance(runs, (str, bytes, Run, Outcome, Path)):
        raise InvalidInputError("`runs` is a single run; it must be a list of shards")
    found = []
    for run in runs:
        place = run if isinstance(run, (str, Path)) else None
        if (
            place is not None
            and (Path(place) / MANIFEST).is_file()
            and _status(place) != "complete"
        ):
            holder = lock_holder(Path(place))
            state = f"is being written ({holder})" if holder else "is unfinished"
            raise ArtifactError(f"{place}: the shard {state}; run its command again to resume it")
        found.append(source_run(run))
    if not found:
        raise InvalidInputError("`runs` is empty; pass the folders of the shards")
    return found


def _status(folder: str | Path) -> Any:
    found = read_json(Path(folder) / MANIFEST)
    return found.get("status") if isinstance(found, Mapping) else None


def _is_unfinished_merge(folder: Path) -> bool:
    """Return whether a folder contains an interrupted merge, which may be repeated."""
    if not (folder / MANIFEST).is_file():
        return False
    found = read_json(folder / MANIFEST)
    return isinstance(found, Mapping) and found.get("status") == "running" and "merged" in found


def _joined(shards: Sequence[_Part], *, partial: bool) -> Joined:
    """Return the shared settings and tables; raise an error unless all shards are from one run."""
    first = shards[0]
    for part in shards[1:]:
        _refuse_mixed(first, part)
    by_number: dict[int, _Part] = {}
    for part in shards:
        for number in part.shard.parts:
            if (other := by_number.setdefault(number, part)) is not part:
                raise ArtifactError(
                    f"{part.run.path}: is shard {number}/{part.shard.of}, and so is "
                    f"{other.run.path}; pass each shard once"
                )
    missing = [n for n in range(1, first.shard.of + 1) if n not in by_number]
    if missing and not partial:
        more = ", …" if len(missing) > _SEVERAL else ""
        raise ArtifactError(
            f"{len(missing)} of {first.shard.of} shards are missing: "
            f"{', '.join(map(str, missing[:_SEVERAL]))}{more}; run them, or pass --partial "
            "(partial=True) to merge the finished ones"
        )
    names = dict.fromkeys(
        name
        for part in shards
        for name, entries in part.run.manifest["artifacts"].items()
        if "texts" in entries and name not in (RECORDS, UNITS)
    )
    parts = dict.fromkeys(_parts(shards), _absent(shards))
    units = _stacked([part.table(UNITS) for part in shards], (*WHO, *parts, *WHAT), parts)
    order = sorted(range(len(units["unit_id"])), key=lambda at: _who(units, at))
    units = {name: column[order] for name, column in units.items()}
    items = _refuse_other_units(shards, units, whole=not missing)
    place = {unit: at for at, unit in enumerate(_by_row(units))}
    tables = {name: _table(name, shards, place) for name in names}
    shard = Shard(tuple(sorted(by_number)), first.shard.of)
    config = {**first.config, **({"shard": str(shard)} if missing else {})}
    entries = {
        "item_set_hash": items,
        "units": _about(shards),
        "merged": [_recorded_entries(part) for part in shards],
        "wall_clock_seconds": sum(seconds_of(part.run.manifest) for part in shards),
        **({"shard": dict(first.whole)} if missing else {}),
    }
    runs = [part.run for part in shards]
    return Joined(config, entries, first.whole.get("notes", ()), {UNITS: units, **tables}, runs)


def _refuse_mixed(first: _Part, part: _Part) -> None:
    """Raise an error unless two shards belong to the same run."""
    where, there = part.run.path, first.run.path
    if part.shard.of != first.shard.of:
        raise ArtifactError(
            f"{where}: is shard {part.shard}, but {there} is {first.shard}; pass shards of one run"
        )
    found = difference(first.config, part.config, "config")
    if found is not None:
        name, old, new = found
        raise ArtifactError(
            f"{where}: has {name} = {shown_setting(new)}, but {there} has {shown_setting(old)}; "
            "pass shards of one run"
        )
    if stored_digest(part.run.manifest) != stored_digest(first.run.manifest):
        raise ArtifactError(
            f"{where}: its model differs from that of {there} in a part that is not stored, such "
            "as a secret; pass shards of one run"
        )
    if part.whole != first.whole:
        raise ArtifactError(
            f"{where}: its units differ from those of {there} ({part.whole.get('n_units')} and "
            f"{first.whole.get('n_units')} in total); pass shards of one run"
        )


def _refuse_other_units(shards: Sequence[_Part], units: Mapping[str, Any], *, whole: bool) -> str:
    """Return the hash of all units; raise an error if it differs from that in the shards."""
    pairs = list(zip(units["unit_id"].tolist(), units["content_hash"].tolist(), strict=True))
    items = [Unit(id=unit, content_hash=digest) for unit, digest in pairs]
    for part in shards:
        found = part.table(UNITS)
        for unit, digest in zip(*(found.get(name, ()) for name in WHO[1:3]), strict=True):
            if Unit(id=unit, content_hash=digest) not in part.shard:
                raise ArtifactError(
                    f"{part.run.path}: the unit {unit!r:.80} does not belong to this shard"
                )
    digest = item_set_hash(items)
    first = shards[0]
    if whole and digest != first.whole.get("item_set_hash"):
        raise ArtifactError(
            f"{first.run.path}: the shards have {len(items)} of {first.whole.get('n_units')} "
            "units, or their data has changed; run them again"
        )
    return digest


def _refuse_other_settings(kind: Kind[Any], joined: Joined) -> None:
    """Raise an error if the settings of a kind differ from those of the shards."""
    own = config_of(kind)
    for name in [name for name in own if name in joined.config and name not in _RESTORED]:
        found = difference(joined.config[name], own[name], name)
        if found is not None:
            place, old, new = found
            raise InvalidInputError(
                f"the shards have {place} = {shown_setting(old)}, but this merge has "
                f"{shown_setting(new)}; omit the option, and rescore the merged run"
            )


def _missing(shards: Sequence[_Part], joined: Joined) -> list[str]:
    """Return a note on the units of missing shards."""
    whole = joined.told.get("shard")
    if whole is None:
        return []
    there = shard_of(joined.config)
    n, n_units = len(joined.tables[UNITS]["unit_id"]), whole.get("n_units")
    assert there is not None  # noqa: S101 - it is incomplete
    left = [str(n) for n in range(1, there.of + 1) if n not in there.parts]
    return [
        f"shards {', '.join(left)} of {there.of} are missing; the run has {n} of {n_units} units"
    ]


def _recorded_entries(part: _Part) -> dict[str, Any]:
    manifest = part.run.manifest
    names = ("captured_at", "wall_clock_seconds", "manifest_sha256")
    entries = {name: manifest[name] for name in names if name in manifest}
    return {"shard": str(part.shard), "run_id": part.run.run_id, **entries}


def _about(shards: Sequence[_Part]) -> dict[str, Any]:
    """Return the description of all units for the manifest."""
    recorded = [dict(part.run.manifest.get("units") or {}) for part in shards if part.run.subjects]
    whole: dict[str, Any] = {}
    for one in recorded:
        whole |= {**one, "parts": {**whole.get("parts", {}), **one.get("parts", {})}}
    if "n_cut" in whole:
        whole["n_cut"] = sum(one.get("n_cut", 0) for one in recorded)
    return whole


def _absent(shards: Sequence[_Part]) -> str:
    """Return the part assigned to units without one, if other units have a part."""
    return "no_subject" if shards[0].run.kind == "task" else "(none)"


def _parts(shards: Sequence[_Part]) -> list[str]:
    return [name for part in shards for name in (_about([part]).get("parts") or {}).values()]


# --- tables ---------------------------------------------------------------------------------------


def _who(units: Mapping[str, Any], at: int) -> tuple[str, str]:
    return units["slice"][at], units["unit_id"][at]


def _by_row(units: Mapping[str, Any]) -> list[str]:
    """Return the ids of units in the order of the data."""
    ids = units["unit_id"].tolist()
    return (
        ids if "row" not in units else [ids[at] for at in np.argsort(units["row"], kind="stable")]
    )


def _table(name: str, shards: Sequence[_Part], place: Mapping[str, int]) -> dict[str, Any]:
    """Combine a table of all shards, in the order of a single run."""
    found = [part.table(name) for part in shards]
    if name == RESPONSES:
        return to_columns(in_order(one for table in found if table for one in read_outcomes(table)))
    if any(table and "unit_id" not in table for table in (part.run.table(name) for part in shards)):
        raise ArtifactError(
            f"{shards[0].run.path}: {name} has no column of units, so it cannot be merged"
        )
    columns = _stacked(found)
    attempts = columns.get("attempt", np.zeros(len(columns["unit_id"])))
    keys = [
        (place.get(unit, len(place)), attempt)
        for unit, attempt in zip(columns["unit_id"].tolist(), attempts.tolist(), strict=True)
    ]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    return {column: values[order] for column, values in columns.items()}


def _stacked(
    tables: Sequence[Mapping[str, Any]],
    first: Iterable[str] = (),
    absent: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Concatenate the rows of all tables; fill missing columns with the absent value."""
    full = [table for table in tables if table]
    every = sorted(full, key=len, reverse=True)  # the widest has the columns in order
    known = dict.fromkeys(name for table in every for name in table)
    names = [name for name in dict.fromkeys([*first, *known]) if name in known]
    stacked = {}
    for name in names:
        columns = [table.get(name) for table in full]
        text = any(column is not None and column.dtype.kind in "OUS" for column in columns)
        values = [
            None if value != value else value  # NaN
            for table, column in zip(full, columns, strict=True)
            for value in (
                [(absent or {}).get(name)] * len(table["unit_id"])
                if column is None
                else column.tolist()
            )
        ]
        stacked[name] = np.array(values, dtype=object) if text else typed_column(values)
    return stacked or {"unit_id": np.zeros(0, dtype=object)}


def _union(shards: Sequence[_Part], joined: Joined, folder: Path) -> Run:
    """Write a folder with the answers and records of all shards for the driver to summarise."""
    first = next((part for part in shards if part.run.subjects), None)
    if first is None:
        raise ArtifactError(f"{shards[0].run.path}: none of the shards has units")
    subjects = dict.fromkeys(subject for part in shards for subject in part.run.subjects)
    records = {
        subject: _together(
            [part.run.records(*subject) for part in shards if subject in part.run.subjects],
            _absent(shards),
        )
        for subject in subjects
    }
    name = "merge"
    return write_run(
        folder,
        results={**first.run.results, "run_id": name, "config": joined.config},
        manifest={
            **first.run.manifest,
            "run_id": name,
            "config": joined.config,
            "units": joined.told["units"],
            "joins": True,
        },
        records=records,
        tables=joined.tables,
    )


def _together(several: Sequence[Records], absent: str) -> Records:
    """Concatenate the records of all shards; missing columns are marked as skipped."""

    def stacked(read: Callable[[Records], Any]) -> Any:
        return np.concatenate([read(one) for one in several])

    def filled(of: str, name: str, empty: Any) -> Any:
        return stacked(lambda one: getattr(one, of).get(name, np.full(len(one), empty, object)))

    names = dict.fromkeys(name for one in several for name in one.columns)
    status = {name: filled("status", name, "skipped") for name in names}
    columns = {}
    for name in names:
        text = any(name in one.texts for one in several)
        values: Any = np.where(
            status[name] == "ok", filled("columns", name, None), None if text else 0.0
        )
        columns[name] = values if text else values.astype(np.float64)
    records = Records(
        unit_id=stacked(lambda one: one.unit_id),
        content_hash=stacked(lambda one: one.content_hash),
        group=stacked(lambda one: one.group),
        attempt=stacked(lambda one: one.attempt),
        slices={
            part: filled("slices", part, absent)
            for part in dict.fromkeys(part for one in several for part in one.slices)
        },
        columns=columns,
        status=status,
        reason={name: filled("reason", name, "the grader returned no value") for name in names},
    )
    return records.take(np.lexsort((records.attempt, records.unit_id)))
