"""A task's run in a folder: gone on with where it fits, refused where it does not."""

import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eval_toolkit._hashing import canonical_json, sha256_text
from eval_toolkit.errors import ArtifactError
from eval_toolkit.judges.asking import apart, judge_of
from eval_toolkit.manifest import build_manifest
from eval_toolkit.messages import Role
from eval_toolkit.runner import Job, JobResult, Journal, read_entries, read_outcomes, to_columns
from eval_toolkit.runner.stored import RESPONSES
from eval_toolkit.runs import OpenRun, Run, open_run
from eval_toolkit.runs.inputs import INPUTS, inputs_table
from eval_toolkit.runs.resuming import holds, refuse_changed, shown_setting
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.ended import Ended
from eval_toolkit.tasks.references import reference_tables
from eval_toolkit.tasks.taskrun import Measuring, TaskRun
from eval_toolkit.tasks.types import Sample

__all__ = [
    "StoredRun",
    "model_digest",
    "outcomes_of",
    "refuse_other",
    "same_prompts",
    "same_settings",
    "same_units",
]

_IDENTITY = ("kind", "task", "model", "formatter", "decoding", "seed")
"""What must agree before answers that are there are used: the rest may change between runs."""
_SETTINGS = ("response_type", "num_fewshot", "seed", "shuffle_choices", "user_prompt_suffix")
"""Of a task: what decides its prompts and references, beside the data and the task's own code."""
_SET_UP = (*_SETTINGS, "name", "sample_split", "fewshot_split", "subjects")
"""What makes other prompts of the same data; a change of it is named before they are."""
_MODEL_DIGEST = "description_sha256"


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run with a folder."""

    folder: Path
    task: BaseTask[Any]
    measuring: Measuring
    config: Mapping[str, Any]
    samples: Sequence[Sample]
    run_id: str | None
    model_digest: str | None
    """Of all that the model says about itself; the configuration holds it without secrets."""
    notes: tuple[str, ...] = ()
    """What a reader should know before anything is asked."""

    @property
    def name(self) -> str:
        """What the run is called unless it has a name already."""
        return self.run_id or self.folder.resolve().name

    def run(
        self, jobs: Sequence[Job], ask: Callable[..., Any], engine: Mapping[str, Any]
    ) -> TaskRun:
        """Ask what is not there yet, measure everything, and finish the run.

        ``engine`` says how the model was asked; it goes into the manifest alone.
        """
        started = time.monotonic()
        head = {**self.manifest(self.name), "engine": dict(engine)}
        under_way = {**head, "counts": {"n_planned": len(jobs)}}
        with open_run(self.folder, manifest=under_way) as opened:
            refuse_other(self.folder, opened.begun, self.config, self.model_digest)
            judges = {judge.name for judge in self.measuring.judges}
            _refuse_to_lose(opened, jobs, judges)
            previous = opened.previous
            finished = None if previous is None else read_entries(previous.table(RESPONSES))
            outcomes, ended = ask(Journal(opened.journal_path), finished)
            done = self.finished(opened, head, outcomes, time.monotonic() - started, ended)
            return replace(done, notes=(*done.notes, *outcomes.notes))

    def finished(
        self,
        opened: OpenRun,
        head: Mapping[str, Any],
        outcomes: Sequence[JobResult],
        elapsed_s: float,
        ended: Ended | None = None,
    ) -> TaskRun:
        """Measure everything and write the run, unless it stands there already."""
        begun = opened.begun or {}
        name = self.run_id or str(begun.get("run_id") or self.name)
        done = self.measuring.measured(self.task, self.samples, outcomes, self.config, name, ended)
        samples = self.samples if ended is None else ended.samples
        done = replace(done, elapsed_s=elapsed_s, notes=(*self.notes, *done.notes))
        records = {(self.task.NAME, str(self.config["model"]["name"])): done.records}
        nothing_asked = all(outcome.reused for outcome in outcomes)
        same = begun.get("config") == self.config and begun.get("run_id") == name
        if nothing_asked and same and holds(opened.previous, done.results, records):
            return replace(done, run=opened.previous)  # the run stands
        questions, about = _questions(self.task.NAME, samples)
        manifest = {
            **head,
            "run_id": name,
            **self._went(done, outcomes, samples),
            **about,
            "notes": list(done.notes),
            "wall_clock_seconds": elapsed_s + float(begun.get("wall_clock_seconds") or 0.0),
        }
        if nothing_asked and "engine" in begun:
            manifest["engine"] = begun["engine"]
        run = opened.finalise(
            results=done.results,
            manifest=manifest,
            records=records,
            tables={
                RESPONSES: to_columns([*outcomes, *_kept(opened.previous, outcomes)]),
                **reference_tables(samples),
                **questions,
            },
        )
        return replace(done, run=run)

    def _went(
        self, done: TaskRun, outcomes: Sequence[JobResult], samples: Sequence[Sample]
    ) -> dict[str, Any]:
        """Return what a manifest says about what was asked and what it took."""
        answers, _ = apart(outcomes)
        return {
            "item_set_hash": _item_set_hash(samples),
            "counts": {
                "n_samples": len(samples),
                "n_requests": len(answers),
                "n_failed_requests": done.n_failed_requests,
                "n_errors": done.n_errors,
            },
            "usage": done.usage,
            **({"judges": _judged(self.config, done)} if done.judges else {}),
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
            "models": [{**config["model"], _MODEL_DIGEST: self.model_digest}],
            "notes": list(self.notes),
        }


def _questions(
    task: str, samples: Sequence[Sample]
) -> tuple[dict[str, Any], dict[str, Mapping[str, Any]]]:
    """Return what the items ask as a table of the run, and what the manifest says about it.

    Runs of other tools have other ids, hashes and prompts for an item, but not another question.
    """
    units = [sample.id for sample in samples]
    places = [sample.index for sample in samples]
    columns, about = inputs_table({task: (places, units, [_asked(one) for one in samples])})
    return {INPUTS: columns}, {"inputs": about}


def _asked(sample: Sample) -> str | None:
    """Return what a sample asks: as the data has it, or else as the last turn of the user does."""
    turns = (turn.content for turn in reversed(sample.messages) if turn.role is Role.USER)
    return sample.question if sample.question is not None else next(turns, None)


def _judged(config: Mapping[str, Any], done: TaskRun) -> dict[str, Any]:
    """Return who judged, by what prompt, and what it took: apart from the model that was judged."""
    shown = ("n_requests", "n_failed_requests", "usage")
    return {
        name: {**config["judges"][name], **{part: judge[part] for part in shown}}
        for name, judge in done.judges.items()
    }


def outcomes_of(run: Run) -> list[JobResult]:
    """Return the stored answers of a run, with what was asked."""
    return read_outcomes(run.table(RESPONSES))


def _kept(previous: Run | None, outcomes: Sequence[JobResult]) -> list[JobResult]:
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


def same_settings(run: Run, task: Mapping[str, Any]) -> None:
    """Raise unless a task, by its description, is set up as the one that a run asked."""
    there = run.manifest["config"]["task"]
    for name in _SETTINGS:
        if there.get(name) != task.get(name):
            raise ArtifactError(
                f"{run.path}: was asked with task.{name} = {shown_setting(there.get(name))}, this task "
                f"has {shown_setting(task.get(name))}; measure its answers with the task as it was asked"
            )


def same_prompts(run: Run, task: Mapping[str, Any]) -> None:
    """Raise unless a task, by its description, has the prompts, references and data of a run's."""
    changed = _changed(run.manifest["config"]["task"], task)
    if changed is not None:
        raise ArtifactError(
            f"{run.path}: {changed} since it was asked; measure its answers with the task as it was"
        )


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
    """Return in words whether data or prompts differ between two tasks, by their descriptions."""
    was, now = old.get("dataset") or {}, new.get("dataset") or {}
    if was.get("sha256") != now.get("sha256"):
        counts = [(data.get("n_rows") or {}).get(new["sample_split"]) for data in (was, now)]
        rows = "as before" if counts[0] == counts[1] else f"were {counts[0]}"
        return f"the data have changed ({counts[1]} rows, {rows})"
    if old.get("prompt_fingerprint") != new.get("prompt_fingerprint"):
        return "the prompts have changed, or the references,"
    return None


def model_digest(manifest: Mapping[str, Any]) -> str | None:
    """Return the hash of all that the model of a run said about itself, where there is one."""
    models = manifest.get("models")
    first = models[0] if isinstance(models, list) and models else None
    digest = first.get(_MODEL_DIGEST) if isinstance(first, Mapping) else None
    return None if digest is None else str(digest)


def refuse_other(
    folder: Path, begun: Mapping[str, Any] | None, config: Mapping[str, Any], digest: str | None
) -> None:
    """Raise if the folder holds a run whose answers do not belong to this one."""
    if begun is None:
        return
    there = begun.get("config") or {}
    if there.get("kind") != "task":
        raise ArtifactError(f"{folder}: holds a run of another kind; choose another folder")
    asked, task = there.get("task") or {}, config["task"]
    alike = all(asked.get(name) == task.get(name) for name in _SET_UP)
    changed = _changed(asked, task) if alike else None
    if changed is not None:
        raise ArtifactError(
            f"{folder}: {changed} since the run there was asked; choose another folder"
        )
    refuse_changed(folder, there, config, _IDENTITY)
    told = model_digest(begun)
    if None not in (told, digest) and told != digest:
        raise ArtifactError(
            f"{folder}: the run there is of a model that differs in a part of model.description "
            "that is not stored (a secret, by its name); choose another folder"
        )


def _refuse_to_lose(opened: OpenRun, jobs: Iterable[Job], judges: Container[str]) -> None:
    """Raise if an unfinished run has answers that would be gone once this one is finished."""
    answered = {key for key, entry in Journal(opened.journal_path).read().items() if entry.ok}
    left = answered - {job.key for job in jobs}
    named = {judge_of(step) for _, _, step in left}
    lost = sorted(name for name in named if name is not None and name not in judges)
    if lost:
        raise ArtifactError(
            f"{opened.path}: the unfinished run there has verdicts of the judge {lost[0]!r}, which "
            "this one does not ask; name the judge among the graders, or choose another folder"
        )
    left = {key for key in left if judge_of(key[2]) is None}
    if left:
        raise ArtifactError(
            f"{opened.path}: the unfinished run there has {len(left)} answers that this one does "
            "not ask for; ask for as many samples and attempts, or choose another folder"
        )


def _item_set_hash(samples: Iterable[Sample]) -> str:
    return sha256_text(canonical_json(sorted([s.id, s.content_hash] for s in samples)))
