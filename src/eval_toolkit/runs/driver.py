"""The driver: all of an evaluation that does not depend on its kind.

`drive` opens the folder under its lock, refuses to mix runs or to lose answers, lets the kind
produce what is missing, grades, and writes the run in one step. With the stored attempts of another
run it does the same for `rescore`. Without a folder nothing is written, and the numbers are the same.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eval_toolkit._internal.hashing import canonical_json, sha256_text
from eval_toolkit._internal.redaction import redact_secrets
from eval_toolkit.artifacts import sanitize_for_json
from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.graders.judges.asking import judge_of
from eval_toolkit.manifest import build_manifest
from eval_toolkit.models.requests import GenerateRequest
from eval_toolkit.models.runner import (
    Job,
    JobResult,
    Journal,
    read_entries,
    read_outcomes,
    to_columns,
)
from eval_toolkit.models.runner.counting import counts_of
from eval_toolkit.models.runner.jobs import Key
from eval_toolkit.models.runner.stored import RESPONSES
from eval_toolkit.runs.cells import card_entry
from eval_toolkit.runs.context import Context
from eval_toolkit.runs.folder import Run, run_state
from eval_toolkit.runs.kinds import Graded, Kind
from eval_toolkit.runs.open import OpenRun, open_run
from eval_toolkit.runs.outcome import Outcome
from eval_toolkit.runs.resuming import holds, refuse_changed
from eval_toolkit.runs.specs import AskSpec
from eval_toolkit.runs.units import UNITS, Unit, units_table
from eval_toolkit.runs.writing import write_run

__all__ = [
    "Driver",
    "config_of",
    "drive",
    "outcomes_of",
    "refuse_taken",
    "store",
    "stored_digest",
]

_NOT_ASKED = "(not asked for in the run that was finished here)"
"""Stands for the request to an answer in a journal, which does not hold requests."""
_OF_THE_RUN = ("status", "artifacts", "manifest_sha256", "run_id", "captured_at", "inputs")
"""Entries of a manifest that a rescored run has of its own; "inputs" is of a table of before."""
_OF_DATA = ("data_hashes", "data_revisions", "versioned_objects")
_JUDGED = ("n_requests", "n_failed_requests", "usage")


def drive(
    kind: Kind[Any],
    out: str | Path | None = None,
    *,
    name: str,
    run_id: str | None = None,
    ask: AskSpec | None = None,
    max_error_rate: float = 0.0,
    engine: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
) -> Outcome:
    """Run an evaluation: produce what is missing, grade, summarise, store.

    Parameters
    ----------
    kind : Kind
        What is evaluated, and how.
    out : path, optional
        The run's folder. An interrupted run there is resumed, a finished one is completed.
    name : str
        Name of a run without a folder.
    run_id : str, optional
        Name of the run; by default the folder's.
    ask : AskSpec, optional
        How models are asked.
    max_error_rate : float, default 0.0
        Tolerated share of failed attempts.
    engine : mapping, optional
        How it was asked, for the manifest alone.
    notes : sequence of str
        Notes that precede the driver's own.

    Returns
    -------
    Outcome
        Equal answers give equal bytes of records and results, however often the run was resumed.

    Raises
    ------
    ArtifactError
        If the folder holds another run, or another process writes it.
    ModelError
        If a model fails for good; what was answered is kept.

    Examples
    --------
    A kind that only says how an answer is had and scored; see `Kind`:

    >>> import tempfile
    >>> from eval_toolkit import metric_specs as ms
    >>> from eval_toolkit.runs import Unit
    >>> class Rounding(Kind):
    ...     name = "rounding"
    ...     def config(self):
    ...         return {"system": "round"}
    ...     def units(self):
    ...         return [Unit(id=f"{x}", input=x, reference=int(x + 0.5)) for x in (0.4, 0.5, 1.5)]
    ...     def respond(self, inputs):
    ...         return [round(x) for x in inputs]
    ...     def score(self, unit, output):
    ...         return {"right": float(output == unit.reference)}
    ...     def metrics(self):
    ...         return [ms.mean_of("right")]
    >>> folder = tempfile.mkdtemp() + "/r"
    >>> drive(Rounding(), folder, name="demo").n_asked, drive(Rounding(), folder, name="demo").n_asked
    (3, 0)
    """
    return Driver(
        kind, ask or AskSpec(), run_id, name, max_error_rate, dict(engine or {}), tuple(notes)
    ).run(None if out is None else Path(out))


def config_of(kind: Kind[Any]) -> dict[str, Any]:
    """Return a kind's configuration in plain JSON types, without secrets."""
    config = {"kind": kind.name, **kind.config()}
    safe: dict[str, Any] = redact_secrets(sanitize_for_json(config))
    return safe


@dataclass(frozen=True, slots=True)
class Driver:
    """One evaluation under way."""

    kind: Kind[Any]
    ask: AskSpec
    run_id: str | None
    name: str
    max_error_rate: float
    engine: Mapping[str, Any]
    notes: tuple[str, ...]
    source: Run | None = None
    """The run whose attempts are graded again; None where attempts are produced."""

    def run(self, folder: Path | None) -> Outcome:
        """Return what was found; with a folder, store it there."""
        started = time.monotonic()
        config = config_of(self.kind)
        if folder is None or not self.kind.asks:
            attempts, context = self._attempts(None, None)
            name = self.run_id or (self.name if folder is None else folder.resolve().name)
            found = self._outcome(attempts, context, config, name, started)
            return found if folder is None else self.store(found, folder, attempts)
        head = self._head(config, folder)
        planned = self.kind.n_planned()
        under_way = head if planned is None else {**head, "counts": {"n_planned": planned}}
        with open_run(folder, manifest=under_way) as opened:
            self._refuse_other(folder, opened.begun, config)
            previous = opened.previous
            finished = None if previous is None else read_entries(previous.table(RESPONSES))
            journal = Journal(opened.journal_path)
            if self.source is None:
                self._refuse_to_lose(opened, journal, config)
            attempts, context = self._attempts(journal, finished)
            begun = opened.begun or {}
            name = self.run_id or str(begun.get("run_id") or head["run_id"])
            found = self._outcome(attempts, context, config, name, started)
            return self._stored(opened, head, found, attempts, context, config)

    def _attempts(self, journal: Journal | None, finished: Any) -> tuple[Any, Context | None]:
        """Return the attempts, and what asked for them: stored ones of a run that is rescored."""
        if not self.kind.asks:
            return self.kind.produce(None), None  # type: ignore[arg-type]  # it asks nobody
        if self.source is None:
            with Context(self.ask, journal=journal, finished=finished) as context:
                return self.kind.produce(context), context
        known = {**read_entries(self.source.table(RESPONSES)), **(finished or {})}
        with Context(self.ask, journal=journal, finished=known) as context:
            return self.kind.restore(self.source, context), context

    def _outcome(
        self,
        attempts: Any,
        context: Context | None,
        config: Mapping[str, Any],
        run_id: str,
        started: float,
    ) -> Outcome:
        """Grade the attempts and count what they took."""
        graded = self.kind.grade(attempts)
        rate = 0.0
        if graded.n_errors:
            n = sum(len(records) for records in graded.subjects.values())
            rate = graded.n_errors / max(n, graded.n_errors)  # what failed may leave no record
        notes = (*self.notes, *self.kind.notes, *graded.notes)
        took: dict[str, Any] = {}
        if context is not None:
            notes = tuple(dict.fromkeys((*notes, *context.notes)))
            took = counts_of(context.outcomes, self.kind.reasoning_tags)
            took |= {"n_calls": context.n_calls, "judges": self._judges(context)}
        found = Outcome(
            subjects=graded.subjects,
            cards=graded.cards,
            results=self._results(graded, config, run_id),
            attempts=graded.attempts,
            more=graded.more,
            counts=graded.counts,
            **took,
            n_errors=graded.n_errors,
            n_skipped=graded.n_skipped,
            error_rate=rate,
            too_many_errors=rate > self.max_error_rate,
            stopping=graded.stopping,
            elapsed_s=time.monotonic() - started,
            notes=notes,
        )
        return self._nobody_asked(found) if self.source or self.ask.replay else found

    def _nobody_asked(self, found: Outcome) -> Outcome:
        """Return the outcome with stored answers counted as such, also those that failed."""
        n_replayed = found.n_asked + found.n_cached if self.ask.replay else 0
        spent = dict.fromkeys(found.usage, 0)
        return replace(found, n_asked=0, n_cached=0, n_replayed=n_replayed, usage_now=spent)

    def _results(self, graded: Graded, config: Mapping[str, Any], run_id: str) -> dict[str, Any]:
        """Return what ``results.json`` holds."""
        cells: dict[str, Any] = dict(graded.by_slice or {})
        for (slice_name, system), records in () if cells else graded.subjects.items():
            card = graded.cards[slice_name, system]
            entry = card_entry(system, records, card, by=self.kind.by)
            for part, block in entry.get("parts", {}).items():
                known = cells.get(slice_name, {}).get("parts", {}).get(part, block)
                known["by_scorer"] |= block["by_scorer"]
            cells.setdefault(slice_name, entry)["by_scorer"] |= entry["by_scorer"]
        return {
            "schema_version": "v1",
            "run_id": run_id,
            "config": config,
            "by_slice": cells,
            **graded.extra,
        }

    def _judges(self, context: Context) -> dict[str, dict[str, Any]]:
        """Return the model of each judge, and what its verdicts took."""
        by_judge: dict[str | None, list[JobResult]] = {}
        for verdict in context.verdicts:
            by_judge.setdefault(judge_of(verdict.job.step), []).append(verdict)
        return {
            name: {"model": _model_name(settings), **counts_of(by_judge.get(name, []))}
            for name, settings in self.kind.judges().items()
        }

    def _head(self, config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        """Return what the manifest says before anything is asked."""
        own = dict(self.kind.manifest(config))
        made = build_manifest(
            run_id=self.run_id or folder.resolve().name,
            config=config,
            seeds=own.pop("seeds", None),
            data_revisions=own.pop("data_revisions", None),
            data_files=own.pop("data_files", None),
        )
        made = replace(made, versioned_objects=own.pop("versioned_objects", {}))
        before: dict[str, Any] = {}
        if self.source is not None:
            before = {k: v for k, v in self.source.manifest.items() if k not in _OF_THE_RUN}
            if folder.resolve() != self.source.path.resolve():
                captured_at = self.source.manifest.get("captured_at")
                before["rescored"] = {"run_id": self.source.run_id, "manifest": captured_at}
        engine = {"engine": dict(self.engine)} if self.engine else {}
        notes = [*self.notes, *self.kind.notes]
        told = made.to_dict()
        # A kind that is made of a stored run does not see the data again.
        told |= {name: before[name] for name in _OF_DATA if before.get(name) and not told.get(name)}
        return {**before, **told, "kind": self.kind.name, **own, **engine, "notes": notes}

    def _refuse_other(
        self, folder: Path, begun: Mapping[str, Any] | None, config: Mapping[str, Any]
    ) -> None:
        """Raise if the folder holds a run whose answers do not belong to this one."""
        if begun is None:
            return
        if self.source is not None:  # what was asked is what the source says
            config = self.source.manifest["config"]
        there = begun.get("config") or {}
        if there.get("kind") != self.kind.name:
            raise ArtifactError(f"{folder}: holds a run of another kind; choose another folder")
        self.kind.refuse(folder, begun, config)
        identity = self.kind.identity()
        refuse_changed(folder, there, config, identity.settings)
        stored = stored_digest(begun)
        if None not in (stored, identity.digest) and stored != identity.digest:
            raise ArtifactError(
                f"{folder}: the run there is of a {identity.what} that is not stored (a secret, by "
                "its name); choose another folder"
            )

    def _refuse_to_lose(self, opened: OpenRun, journal: Journal, config: Mapping[str, Any]) -> None:
        """Raise if an unfinished run has answers that this one does not ask for."""
        answered = {key for key, entry in journal.read().items() if entry.ok}
        if opened.begun is not None and opened.previous is None and answered:
            self.kind.refuse_unfinished(opened.path, opened.begun.get("config") or {}, config)
        left = self.kind.lost(answered)
        lost = sorted({name for _, _, step in left if (name := judge_of(step)) is not None})
        if lost:
            raise ArtifactError(
                f"{opened.path}: the unfinished run there has verdicts of the judge {lost[0]!r}, "
                "which this one does not ask; name the judge among the graders, or choose another "
                "folder"
            )
        if left:
            raise ArtifactError(
                f"{opened.path}: the unfinished run there has {len(left)} answers that this one "
                f"does not ask for; {self.kind.advice()}, or choose another folder"
            )

    def _stored(
        self,
        opened: OpenRun,
        head: Mapping[str, Any],
        found: Outcome,
        attempts: Any,
        context: Context | None,
        config: Mapping[str, Any],
    ) -> Outcome:
        """Write the run, unless it stands there already."""
        begun = opened.begun or {}
        outcomes = [] if context is None else [*context.outcomes, *context.verdicts]
        nothing_asked = all(outcome.reused for outcome in outcomes)
        same = begun.get("config") == config and begun.get("run_id") == found.results["run_id"]
        if nothing_asked and same and holds(opened.previous, found.results, found.subjects):
            return replace(found, run=opened.previous)
        units = self.kind.units()
        stored, about = units_table(found.subjects, units)
        answers = to_columns([*outcomes, *_kept(opened, outcomes)])
        manifest = {
            **head,
            "run_id": found.results["run_id"],
            "item_set_hash": _item_set_hash(units),
            "units": about,
            "counts": self._counts(found),
            "usage": found.usage,
            **({"judges": self._told_judges(found)} if found.judges else {}),
            "notes": list(found.notes),
            "wall_clock_seconds": found.elapsed_s + float(begun.get("wall_clock_seconds") or 0.0),
        }
        if nothing_asked and "engine" in begun:
            manifest["engine"] = begun["engine"]
        run = opened.finalise(
            results=found.results,
            results_full=self._full(found),
            manifest=manifest,
            records=found.subjects,
            tables={UNITS: stored, RESPONSES: answers, **self.kind.tables(attempts)},
        )
        return replace(found, run=run)

    def store(
        self, found: Outcome, folder: Path, attempts: Any, *, overwrite: bool = False
    ) -> Outcome:
        """Write the outcome of a kind that asks nobody: all of it is there, nothing is resumed."""
        units = self.kind.units()
        stored, about = units_table(found.subjects, units)
        run = write_run(
            folder,
            results=found.results,
            results_full=self._full(found),
            manifest={
                **self._head(found.results["config"], folder),
                "run_id": found.results["run_id"],
                **({"item_set_hash": _item_set_hash(units)} if units else {}),
                **({"units": about} if found.subjects else {}),
                **({"counts": dict(found.counts)} if found.counts else {}),
                "notes": list(found.notes),
            },
            records=found.subjects or None,
            tables={**({UNITS: stored} if found.subjects else {}), **self.kind.tables(attempts)},
            overwrite=overwrite,
        )
        return replace(found, run=run)

    def _full(self, found: Outcome) -> dict[str, Any] | None:
        """Return what ``results_full.json`` holds, where there is more to say."""
        return {**found.results, self.kind.full: dict(found.more)} if found.more else None

    def _counts(self, found: Outcome) -> dict[str, int]:
        return {
            **found.counts,
            "n_requests": found.n_requests,
            "n_failed_requests": found.n_failed_requests,
            "n_errors": found.n_errors,
            "n_skipped": found.n_skipped,
        }

    def _told_judges(self, found: Outcome) -> dict[str, Any]:
        """Return who judged, by what prompt, and what it took."""
        settings = redact_secrets(sanitize_for_json(dict(self.kind.judges())))
        return {
            name: {**settings.get(name, {}), **{part: judge[part] for part in _JUDGED}}
            for name, judge in found.judges.items()
        }


def store(
    kind: Kind[Any], found: Outcome, folder: Path, attempts: Any, *, overwrite: bool = False
) -> Outcome:
    """Write what `drive` returned for a kind that asks nobody."""
    driver = Driver(kind, AskSpec(), str(found.results["run_id"]), "", 0.0, {}, ())
    return driver.store(found, folder, attempts, overwrite=overwrite)


def outcomes_of(run: Run) -> list[JobResult]:
    """Return the stored answers of a run, with what was asked."""
    return read_outcomes(run.table(RESPONSES))


def stored_digest(manifest: Mapping[str, Any]) -> str | None:
    """Return the hash of what a run's models say about themselves, where there is one."""
    models = manifest.get("models")
    first = models[0] if isinstance(models, list) and models else None
    of_model = first.get("description_sha256") if isinstance(first, Mapping) else None
    digest = manifest.get("system_sha256", of_model)
    return None if digest is None else str(digest)


def _item_set_hash(units: Iterable[Unit]) -> str:
    """Return a hash of the ids and contents of all units."""
    pairs = sorted([unit.id, unit.content_hash] for unit in units)
    return sha256_text(canonical_json(pairs))


def _model_name(settings: Mapping[str, Any]) -> str:
    model = settings.get("model")
    return str(model.get("name", "")) if isinstance(model, Mapping) else str(model or "")


def _kept(opened: OpenRun, outcomes: Sequence[JobResult]) -> list[JobResult]:
    """Return the answers that were there and are not asked for now: they stay."""
    asked = {outcome.job.key for outcome in outcomes}
    kept = {one.job.key: one for one in _previous(opened.previous, asked)}
    for key, entry in Journal(opened.journal_path).read().items():
        if entry.ok and key not in asked and key not in kept:
            job = Job(entry.unit_id, entry.attempt, GenerateRequest(_NOT_ASKED), entry.step)
            found = entry.answer(job, entry.request_hash)
            kept |= {} if found is None else {key: found}
    return list(kept.values())


def _previous(run: Run | None, asked: set[Key]) -> Iterable[JobResult]:
    """Return the answers of a finished run under other keys; reads no answer where there is none."""
    if run is None:
        return []
    table = run.table(RESPONSES)
    keys = zip(*(table[name].tolist() for name in ("unit_id", "attempt", "step")), strict=True)
    if all(key in asked for key in keys):
        return []
    return [one for one in read_outcomes(table) if one.ok and one.job.key not in asked]


def refuse_taken(out: Path, source: Run) -> None:
    """Raise if a rescored run cannot be written there; before a judge is asked."""
    if out.resolve() == source.path.resolve():
        raise InvalidInputError(f"`out` is {out}, the run itself; choose another folder")
    if out.exists() and run_state(out) != "not a run":
        raise ArtifactError(f"{out}: holds a run already; choose another folder")
