"""A task's run in a folder: gone on with where it fits, refused where it does not."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eval_toolkit._hashing import canonical_json, sha256_text
from eval_toolkit.errors import ArtifactError
from eval_toolkit.manifest import build_manifest
from eval_toolkit.runner import Job, Journal, Outcome, read_entries, read_outcomes, to_columns
from eval_toolkit.runner.stored import RESPONSES
from eval_toolkit.runs import OpenRun, Run, open_run
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.taskrun import Measuring, TaskRun
from eval_toolkit.tasks.types import Sample

__all__ = ["StoredRun", "outcomes_of", "refuse_other", "same_units"]

_IDENTITY = ("kind", "task", "model", "formatter", "decoding", "seed")
"""What must agree before answers that are there are used: the rest may change between runs."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run with a folder."""

    folder: Path
    task: BaseTask[Any]
    measuring: Measuring
    config: Mapping[str, Any]
    samples: Sequence[Sample]
    run_id: str | None

    @property
    def name(self) -> str:
        """What the run is called unless it has a name already."""
        return self.run_id or self.folder.resolve().name

    def run(self, jobs: Sequence[Job], ask: Callable[..., Any]) -> TaskRun:
        """Ask what is not there yet, measure everything, and finish the run."""
        started = time.monotonic()
        head = self.manifest(self.name)
        with open_run(self.folder, manifest=head) as opened:
            refuse_other(self.folder, opened.begun, self.config)
            _refuse_to_lose(opened, jobs)
            previous = opened.previous
            finished = None if previous is None else read_entries(previous.table(RESPONSES))
            outcomes = ask(Journal(opened.journal_path), finished)
            done = self.finished(opened, head, outcomes, time.monotonic() - started)
            return replace(done, notes=outcomes.notes)

    def finished(
        self,
        opened: OpenRun,
        head: Mapping[str, Any],
        outcomes: Sequence[Outcome],
        elapsed_s: float,
    ) -> TaskRun:
        """Measure everything and write the run, unless it stands there already."""
        begun = opened.begun or {}
        name = self.run_id or str(begun.get("run_id") or self.name)
        done = self.measuring.measured(self.task, self.samples, outcomes, self.config, name)
        done = replace(done, elapsed_s=elapsed_s)
        same = opened.previous is not None and begun.get("config") == self.config
        if same and done.n_reused == done.n_requests and begun.get("run_id") == name:
            return replace(done, run=opened.previous)  # nothing was asked: the run stands
        manifest = {
            **head,
            "run_id": name,
            **self._went(done, outcomes),
            "wall_clock_seconds": elapsed_s + float(begun.get("wall_clock_seconds") or 0.0),
        }
        run = opened.finalise(
            results=done.results,
            manifest=manifest,
            records={(self.task.NAME, self.config["model"]["name"]): done.records},
            tables={RESPONSES: to_columns([*outcomes, *_kept(opened.previous, outcomes)])},
        )
        return replace(done, run=run)

    def _went(self, done: TaskRun, outcomes: Sequence[Outcome]) -> dict[str, Any]:
        """Return what a manifest says about what was asked and what it took."""
        return {
            "item_set_hash": _item_set_hash(self.samples),
            "counts": {
                "n_samples": len(self.samples),
                "n_requests": len(outcomes),
                "n_failed_requests": done.n_failed_requests,
                "n_errors": done.n_errors,
            },
            "usage": done.usage,
        }

    def manifest(self, name: str) -> dict[str, Any]:
        """Return what the manifest says before anything is asked."""
        task, config = self.config["task"], self.config
        dataset = task.get("dataset") or {}
        revision = dataset.get("revision")
        made = build_manifest(
            run_id=name,
            config=config,
            seeds={"run": config["seed"]},
            data_revisions={str(dataset.get("path")): str(revision)} if revision else None,
        )
        versions = {f"task:{task['name']}": str(task["version"])}
        versions |= {f"grader:{name}": version for name, version in config["graders"].items()}
        return {
            **replace(made, versioned_objects=versions).to_dict(),
            "kind": "task",
            "task": task,
            "models": [config["model"]],
        }


def outcomes_of(run: Run) -> list[Outcome]:
    """Return the stored answers of a run, with what was asked."""
    return read_outcomes(run.table(RESPONSES))


def _kept(previous: Run | None, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the answers of a finished run that a smaller limit does not ask for: they stay."""
    if previous is None:
        return []
    asked = {outcome.job.key for outcome in outcomes}
    table = previous.table(RESPONSES)
    keys = zip(*(table[name].tolist() for name in ("unit_id", "attempt", "step")), strict=True)
    if all(key in asked for key in keys):
        return []
    return [one for one in read_outcomes(table) if one.ok and one.job.key not in asked]


def same_units(run: Run, samples: Iterable[Sample]) -> None:
    """Raise unless a task asks about the very units that a run asked about."""
    (subject,) = run.subjects
    records = run.records(*subject)
    there = dict(zip(records.unit_id.tolist(), records.content_hash.tolist(), strict=True))
    for sample in samples:
        if there.pop(sample.id, None) != sample.content_hash:
            raise ArtifactError(
                f"{run.path}: the task's unit {sample.id!r} is not the one that was asked about; "
                "the data have changed since"
            )
    if there:
        raise ArtifactError(
            f"{run.path}: the task no longer has the unit {next(iter(there))!r}; the data have "
            "changed since"
        )


def refuse_other(folder: Path, begun: Mapping[str, Any] | None, config: Mapping[str, Any]) -> None:
    """Raise if the folder holds a run whose answers do not belong to this one."""
    if begun is None:
        return
    there = begun.get("config") or {}
    if there.get("kind") != "task":
        raise ArtifactError(f"{folder}: holds a run of another kind; choose another folder")
    for name in _IDENTITY:
        path = _difference(there.get(name), config[name], name)
        if path is not None:
            place, old, new = path
            raise ArtifactError(
                f"{folder}: the run there has {place} = {_shown(old)}, this one has "
                f"{_shown(new)}; choose another folder"
            )


def _refuse_to_lose(opened: OpenRun, jobs: Iterable[Job]) -> None:
    """Raise if an unfinished run has answers that would be gone once this one is finished."""
    answered = {key for key, entry in Journal(opened.journal_path).read().items() if entry.ok}
    left = answered - {job.key for job in jobs}
    if left:
        raise ArtifactError(
            f"{opened.path}: the unfinished run there has {len(left)} answers that this one does "
            "not ask for; ask for as many samples and attempts, or choose another folder"
        )


def _difference(old: Any, new: Any, place: str) -> tuple[str, Any, Any] | None:
    """Return the first place where two settings differ, with both values."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in [*new, *(name for name in old if name not in new)]:
            found = _difference(old.get(name), new.get(name), f"{place}.{name}")
            if found is not None:
                return found
        return None
    return None if old == new else (place, old, new)


def _shown(value: Any) -> str:
    text = canonical_json(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _item_set_hash(samples: Iterable[Sample]) -> str:
    return sha256_text(canonical_json(sorted([s.id, s.content_hash] for s in samples)))
