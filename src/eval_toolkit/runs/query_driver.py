"""Driver of evaluations that query models, with locking, a journal and resuming."""

from __future__ import annotations

import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eval_toolkit._internal.files import private_folder
from eval_toolkit._internal.redaction import redact_secrets
from eval_toolkit._internal.tables import PartedTable
from eval_toolkit.artifacts import sanitize_for_json
from eval_toolkit.errors import ArtifactError
from eval_toolkit.graders.judges.requests import judge_of
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
from eval_toolkit.runs.context import Context
from eval_toolkit.runs.driver import Driver, item_set_hash
from eval_toolkit.runs.folder import Run
from eval_toolkit.runs.moved_servers import follow_moved, served_by
from eval_toolkit.runs.open import OpenRun, open_run
from eval_toolkit.runs.resuming import holds, refuse_changed
from eval_toolkit.runs.units import PART_ROWS, UNITS, Unit, units_table

if TYPE_CHECKING:
    from eval_toolkit.models.runner.entries import Entry
    from eval_toolkit.runs.interim import SoFar
    from eval_toolkit.runs.outcome import Outcome

_NOT_ASKED = "(not requested by the run that completed this folder)"
"""Placeholder for the request of a journalled answer, since journals do not contain requests."""
_PARTS = ".parts-"
_JUDGED = ("n_requests", "n_failed_requests", "usage")


@dataclass(frozen=True, slots=True)
class AskingDriver(Driver):
    """Driver of an evaluation that queries models, judges or functions."""

    def run(self, folder: Path | None) -> Outcome:
        """Run the evaluation and return its outcome; store it if there is a folder."""
        started = time.monotonic()
        served = None
        if folder is not None and self.source is None and not self.ask.replay:
            model = getattr(self.kind, "model", None)
            served = served_by(model)
            follow_moved(folder, model, served)
        config = self.config()
        if folder is None:
            attempts, context = self._attempts(None, None)
            found = self._found(attempts, context, config, self.run_id or self.name, started)
            return replace(
                found, saved=lambda place: self._saved(place, found, attempts, context, config)
            )
        head = self.head(config, folder)
        if served is not None:
            head["models"] = [{**head["models"][0], "served": served}]
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
            found = self._found(attempts, context, config, name, started)
            return self._stored(opened, head, found, attempts, context, config)

    def _saved(
        self,
        folder: Path,
        found: Outcome,
        attempts: Any,
        context: Context,
        config: Mapping[str, Any],
    ) -> Run:
        """Write an outcome in memory to a new folder."""
        head = self.head(config, folder)
        with open_run(folder, manifest=head) as opened:
            stored = self._stored(opened, head, found, attempts, context, config)
        assert stored.run is not None  # noqa: S101 - it was just written
        return stored.run

    def _attempts(self, journal: Journal | None, finished: Any) -> tuple[Any, Context]:
        """Return the attempts, produced or restored from the source run, and their context."""
        if self.source is None:
            watch = None if journal is None else self._so_far(journal.path.parent)
            with Context(self.ask, journal=journal, finished=finished, watch=watch) as context:
                return [] if self.is_empty else self.kind.produce(context), context
        known = {**read_entries(self.source.table(RESPONSES)), **(finished or {})}
        with Context(self.ask, journal=journal, finished=known) as context:
            return self.kind.restore(self.source, context), context

    def _so_far(self, folder: Path) -> Callable[[Sequence[Entry]], None]:
        """Return a callback that updates the interim value with finished answers."""
        created: list[SoFar] = []

        def add(entries: Sequence[Entry]) -> None:
            from eval_toolkit.runs.interim import SoFar

            if not created:  # only for runs that take a while
                created.append(SoFar(folder, self.kind.grading_so_far()))
            created[0].add(entries)

        return add

    def _found(
        self,
        attempts: Any,
        context: Context,
        config: Mapping[str, Any],
        run_id: str,
        started: float,
    ) -> Outcome:
        """Grade the attempts and add up their usage."""
        took = counts_of(context.outcomes, self.kind.reasoning_tags)
        took |= {"n_calls": context.n_calls, "judges": self._judges(context)}
        found = self.outcome(attempts, config, run_id, started, took=took, notes=context.notes)
        return self._without_requests(found) if self.source or self.ask.replay else found

    def _without_requests(self, found: Outcome) -> Outcome:
        """Return the outcome of a run that sends no requests; all answers count as stored."""
        n_replayed = found.n_asked + found.n_cached if self.ask.replay else 0
        cost = None if found.usage["cost"] is None else 0.0
        spent = {**dict.fromkeys(found.usage, 0), "cost": cost}
        return replace(found, n_asked=0, n_cached=0, n_replayed=n_replayed, usage_now=spent)

    def _judges(self, context: Context) -> dict[str, dict[str, Any]]:
        """Return the model and the usage of each judge."""
        by_judge: dict[str | None, list[JobResult]] = {}
        for verdict in context.verdicts:
            by_judge.setdefault(judge_of(verdict.job.step), []).append(verdict)
        return {
            name: {"model": _model_name(settings), **counts_of(by_judge.get(name, []))}
            for name, settings in self.kind.judges().items()
        }

    def _refuse_other(
        self, folder: Path, begun: Mapping[str, Any] | None, config: Mapping[str, Any]
    ) -> None:
        """Raise an error if the folder contains a run whose answers do not belong to this run."""
        if begun is None:
            return
        if self.source is not None:  # the requests are those of the source
            config = self.source.manifest["config"]
        there = begun.get("config") or {}
        if there.get("kind") != self.kind.name:
            raise ArtifactError(f"{folder}: contains a run of another kind; choose another folder")
        self.kind.refuse(folder, begun, config)
        identity = self.kind.identity()
        refuse_changed(folder, there, config, ("shard", *identity.settings))
        stored = stored_digest(begun)
        if None not in (stored, identity.digest) and stored != identity.digest:
            raise ArtifactError(
                f"{folder}: contains a run of a {identity.what} that is not stored, such as a "
                "secret; choose another folder"
            )

    def _refuse_to_lose(self, opened: OpenRun, journal: Journal, config: Mapping[str, Any]) -> None:
        """Raise an error if an unfinished run has answers that this run does not request."""
        answered = {key for key, entry in journal.read().items() if entry.ok}
        if opened.begun is not None and opened.previous is None and answered:
            self.kind.refuse_unfinished(opened.path, opened.begun.get("config") or {}, config)
        left = self.kind.lost(answered)
        lost = sorted({name for _, _, step in left if (name := judge_of(step)) is not None})
        if lost:
            raise ArtifactError(
                f"{opened.path}: the unfinished run has verdicts of the judge {lost[0]!r}, which "
                "this run does not use; add the judge to the graders, or choose another folder"
            )
        if left:
            raise ArtifactError(
                f"{opened.path}: the unfinished run has {len(left)} answers that this run does "
                f"not request; {self.kind.advice()}, or choose another folder"
            )

    def _stored(
        self,
        opened: OpenRun,
        head: Mapping[str, Any],
        found: Outcome,
        attempts: Any,
        context: Context,
        config: Mapping[str, Any],
    ) -> Outcome:
        """Write the run unless it is already stored."""
        begun = opened.begun or {}
        outcomes = [*context.outcomes, *context.verdicts]
        nothing_asked = all(outcome.reused for outcome in outcomes)
        same = begun.get("config") == config and begun.get("run_id") == found.results["run_id"]
        if nothing_asked and same and holds(opened.previous, found.results, found.subjects):
            return replace(found, run=opened.previous)
        units = self.kind.units() if self.share is None else self.share.units
        outcomes += _kept(opened.previous, context.written, outcomes)
        with ExitStack() as stack:
            folder = None
            if any(type(one) is not JobResult for one in outcomes) or any(
                type(unit) is not Unit for unit in units
            ):
                folder = stack.enter_context(_parts_in(opened.path))
            stored, about = units_table(found.subjects, units, folder)
            tables = {
                UNITS: stored,
                RESPONSES: _responses(in_order(outcomes), folder),
                **self.kind.tables(attempts),
            }
            manifest = self._manifest_of(head, begun, found, units, about, nothing_asked)
            run = opened.finalise(
                results=found.results,
                results_full=self.full(found),
                manifest=manifest,
                records=found.subjects,
                tables=tables if self.joined is None else {**tables, **self.joined.tables},
            )
        if begun:
            replaced = _replaced(begun.get("config") or {}, config, found.n_reused)
            found = replace(found, notes=(*found.notes, *replaced))
        return replace(found, run=run)

    def _manifest_of(
        self,
        head: Mapping[str, Any],
        begun: Mapping[str, Any],
        found: Outcome,
        units: Sequence[Unit],
        about: Mapping[str, Any],
        nothing_asked: bool,
    ) -> dict[str, Any]:
        """Return the manifest of a finished run."""
        manifest = {
            **head,
            "run_id": found.results["run_id"],
            "item_set_hash": item_set_hash(units),
            "units": about,
            "counts": self._counts(found),
            "usage": found.usage,
            **({"judges": self._judge_entries(found)} if found.judges else {}),
            "notes": list(found.notes),
            "wall_clock_seconds": found.elapsed_s + seconds_of(begun),
            **({} if self.joined is None else self.joined.told),
        }
        if nothing_asked and "engine" in begun:
            manifest["engine"] = begun["engine"]
        elif addresses := _by_address(getattr(self.kind, "model", None)):
            manifest["engine"] = {**head.get("engine", {}), "addresses": addresses}
        return manifest

    def _counts(self, found: Outcome) -> dict[str, int]:
        return {
            **found.counts,
            "n_requests": found.n_requests,
            "n_failed_requests": found.n_failed_requests,
            "n_errors": found.n_errors,
            "n_skipped": found.n_skipped,
        }

    def _judge_entries(self, found: Outcome) -> dict[str, Any]:
        """Return the manifest entries of the judges, with prompts and usage."""
        settings = redact_secrets(sanitize_for_json(dict(self.kind.judges())))
        return {
            name: {**settings.get(name, {}), **{part: judge[part] for part in _JUDGED}}
            for name, judge in found.judges.items()
        }


@contextmanager
def _parts_in(folder: Path) -> Iterator[Path]:
    """Yield a folder for the parts of large tables, which is removed at the end."""
    for left_behind in folder.glob(f"{_PARTS}*"):
        shutil.rmtree(left_behind)
    parts = folder / f"{_PARTS}{secrets.token_hex(6)}"
    private_folder(parts)
    try:
        yield parts
    finally:
        shutil.rmtree(parts, ignore_errors=True)


def _responses(outcomes: Sequence[JobResult], folder: Path | None) -> Any:
    """Return the table of outcomes; with a folder, it is written in parts."""
    if folder is None:
        return to_columns(outcomes)
    table, seen = PartedTable(folder), set[str]()
    for start in range(0, len(outcomes) or 1, PART_ROWS):
        table.add(to_columns(outcomes[start : start + PART_ROWS], seen))
    return table


def in_order(outcomes: Iterable[JobResult]) -> list[JobResult]:
    """Sort outcomes in the order of storage: by unit, attempt and step."""
    return sorted(outcomes, key=_place)


def _by_address(model: Any) -> list[dict[str, Any]]:
    """Return the request counts of each of several servers of a model."""
    count = getattr(model, "by_address", None)
    found: list[dict[str, Any]] = count() if callable(count) else []
    return found


def _place(outcome: JobResult) -> tuple[str, int, tuple[tuple[int, str], ...]]:
    job = outcome.job
    step = re.findall(r"[0-9]+|[^0-9]+", job.step) if job.step else ()
    return job.unit_id, job.attempt, tuple((int(s) if s.isdecimal() else -1, s) for s in step)


def _replaced(old: Mapping[str, Any], new: Mapping[str, Any], n_reused: int) -> list[str]:
    """Return a note if the results of other graders in the folder are replaced."""
    before, now = (list(config.get("graders") or ()) for config in (old, new))
    if not set(before) - set(now):
        return []
    names = f"results of {', '.join(before)} replaced by {', '.join(now)}"
    return [f"{names}; {n_reused:,} answers reused"]


def outcomes_of(run: Run) -> list[JobResult]:
    """Read the stored answers of a run along with their requests."""
    return read_outcomes(run.table(RESPONSES))


def stored_digest(manifest: Mapping[str, Any]) -> str | None:
    """Return the hash of the descriptions of a run's models, or None."""
    models = manifest.get("models")
    first = models[0] if isinstance(models, list) and models else None
    of_model = first.get("description_sha256") if isinstance(first, Mapping) else None
    digest = manifest.get("system_sha256", of_model)
    return None if digest is None else str(digest)


def seconds_of(manifest: Mapping[str, Any]) -> float:
    """Return the stored duration of a run in seconds; 0 if it is not a number."""
    seconds = manifest.get("wall_clock_seconds")
    return float(seconds) if isinstance(seconds, int | float) else 0.0


def _model_name(settings: Mapping[str, Any]) -> str:
    model = settings.get("model")
    return str(model.get("name", "")) if isinstance(model, Mapping) else str(model or "")


def _kept(
    previous: Run | None, written: Mapping[Key, Entry], outcomes: Sequence[JobResult]
) -> list[JobResult]:
    """Return existing answers, also in the journal, that this run does not request."""
    if previous is None and not written:
        return []
    asked = {outcome.job.key for outcome in outcomes}
    kept = {one.job.key: one for one in _previous(previous, asked)}
    for key, entry in written.items():
        if entry.ok and key not in asked and key not in kept:
            job = Job(entry.unit_id, entry.attempt, GenerateRequest(_NOT_ASKED), entry.step)
            found = entry.answer(job, entry.request_hash)
            kept |= {} if found is None else {key: found}
    return list(kept.values())


def _previous(run: Run | None, requested: set[Key]) -> Iterable[JobResult]:
    """Return those answers of a finished run that are not requested."""
    if run is None:
        return []
    table = run.table(RESPONSES)
    keys = zip(*(table[name].tolist() for name in ("unit_id", "attempt", "step")), strict=True)
    if all(key in requested for key in keys):
        return []
    return [one for one in read_outcomes(table) if one.ok and one.job.key not in requested]
