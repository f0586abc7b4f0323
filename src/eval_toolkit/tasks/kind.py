"""Evaluation kind of tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from eval_toolkit._internal.hashing import canonical_json, sha256_text
from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.graders.judges.requests import AskingGrader, judge_jobs, judge_of
from eval_toolkit.models.responses.reasoning import Tags
from eval_toolkit.models.runner import Job, JobResult, JobResults
from eval_toolkit.models.runner.engine import CONCURRENCY
from eval_toolkit.models.runner.jobs import Key
from eval_toolkit.protocols import Model
from eval_toolkit.runs import Run
from eval_toolkit.runs.context import Context
from eval_toolkit.runs.kind_display import Words
from eval_toolkit.runs.kinds import Graded, Identity, Kind
from eval_toolkit.runs.resuming import shown_setting
from eval_toolkit.runs.specs import SummarySpec
from eval_toolkit.runs.units import Unit
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.grading import GradingSettings
from eval_toolkit.tasks.measuring import built_responses
from eval_toolkit.tasks.references import sample_units
from eval_toolkit.tasks.types import Sample

if TYPE_CHECKING:
    from eval_toolkit.runs.answers import AnswersTable
    from eval_toolkit.runs.blocks import Block
    from eval_toolkit.runs.interim import Grading
    from eval_toolkit.runs.selected_units import StoredUnit
    from eval_toolkit.runs.shards import Shard
    from eval_toolkit.tasks.stopping_outcome import StoppingOutcome
    from eval_toolkit.tasks.stopping_watch import Watch

_SETTINGS = ("response_type", "num_fewshot", "seed", "shuffle_choices", "user_prompt_suffix")
"""Task settings that, together with data and code, determine prompts and references."""
_SET_UP = (*_SETTINGS, "name", "sample_split", "fewshot_split", "subjects")
"""Settings that alter the prompts; differences in them are reported before differing prompts."""
_SMALLEST_PART = 8
"""Minimum number of samples between two checks of a stopping rule."""


def at_once(model: Any, concurrency: int | None) -> int:
    """Return the maximum number of concurrent requests to a model."""
    return int(getattr(model, "concurrency", CONCURRENCY) if concurrency is None else concurrency)


@dataclass(frozen=True, slots=True)
class Answers:
    """Attempts at a task: answers, verdicts, and the outcome of a stopping rule."""

    outcomes: Sequence[JobResult]
    ended: StoppingOutcome | None = None


@dataclass(frozen=True)
class TaskKind(Kind[Answers]):
    """Evaluation of a model on a task."""

    task: BaseTask[Any]
    measuring: GradingSettings
    samples: Sequence[Sample]
    settings: Mapping[str, Any]
    """Configuration except for task, model and graders."""
    model: Model | None = None
    jobs: Sequence[Job] = field(default=(), repr=False)
    watch: Watch | None = None

    name = "task"
    by = "subject"
    words = Words(
        what="an evaluation of a model on a task",
        units="samples",
        counted="samples",
        count="n_samples",
        names_slice=True,
        export="a task run",
        hub_task="text-generation",
    )

    @classmethod
    def show(cls, unit: StoredUnit) -> Sequence[Block]:
        """Return the display blocks of a unit: prompt, answer, reasoning, reference, verdicts."""
        from eval_toolkit.tasks.sample_display import sample_blocks

        return sample_blocks(unit)

    @classmethod
    def in_words(cls, metric: str, share: str, *, right_or_wrong: bool) -> str:
        """Describe the share of correct answers in a sentence; "" for other metrics."""
        return f"Answers {share} questions correctly" if right_or_wrong else ""

    @classmethod
    def not_known(cls, config: Mapping[str, Any]) -> Sequence[str]:
        """Return what a run does not measure, for its report."""
        return ["whether the model saw these questions in training"]

    @classmethod
    def settings_in_words(cls, config: Mapping[str, Any]) -> Sequence[str]:
        """Describe the number of few-shot examples, if any."""
        task = config.get("task")
        shots = task.get("num_fewshot") if isinstance(task, Mapping) else None
        return [f"{shots} examples in the prompt"] if shots else []

    @property
    def summary(self) -> SummarySpec:  # type: ignore[override]
        """Settings of the intervals and of failure handling."""
        return self.measuring.summary

    @property
    def reasoning_tags(self) -> Tags:
        """Tags that delimit reasoning, as defined by the task."""
        return self.task.reasoning_tags

    def config(self) -> Mapping[str, Any]:
        """Return the settings of task, model, prompts, decoding, graders and stopping rule."""
        return self._config

    @cached_property
    def _config(self) -> dict[str, Any]:
        model = self.model
        asked = (
            {}
            if model is None
            else {"model": {"name": model.name, "description": dict(model.describe())}}
        )
        rule = self.settings.get("until")
        return {
            "kind": self.name,
            "task": self.task.describe(),
            **asked,
            **{name: value for name, value in self.settings.items() if name != "until"},
            **self.measuring.to_dict(),
            **({} if rule is None else {"until": rule}),
        }

    def identity(self) -> Identity:
        """Return the settings that identify a run: task, model, format, decoding and seed."""
        digest = None
        if self.model is not None:
            digest = sha256_text(canonical_json(dict(self.model.describe())))
        return Identity(
            settings=("kind", "task", "model", "formatter", "decoding", "seed"),
            digest=digest,
            what="model that differs in a part of model.description",
        )

    def units(self) -> Sequence[Unit]:
        """Return the samples."""
        return sample_units(self.samples)

    def share(self, shard: Shard) -> Self:
        """Return the task restricted to the samples of a shard."""
        if self.watch is not None:
            raise InvalidInputError("`until` needs all samples; it cannot be combined with `shard`")
        samples = shard.take(self.samples)
        ids = {sample.id for sample in samples}
        return replace(self, samples=samples, jobs=[job for job in self.jobs if job.unit_id in ids])

    def n_planned(self) -> int:
        """Return the number of requests to the model."""
        return len(self.jobs)

    def grading_so_far(self) -> Grading | None:
        """Return the function that grades finished answers during the run."""
        from eval_toolkit.tasks.interim import task_grading

        return task_grading(self)

    def lost(self, answered: Iterable[Key]) -> list[Key]:
        """Return the keys of stored answers that the current jobs and judges do not need."""
        jobs, judges = {job.key for job in self.jobs}, self.judges()
        return [
            key
            for key in answered
            if not (key in jobs if (judge := judge_of(key[2])) is None else judge in judges)
        ]

    def advice(self) -> str:
        """Return advice on how to keep all stored answers."""
        return "request at least as many samples and attempts"

    def produce(self, context: Context) -> Answers:
        """Query the model and the judges until all is done or the stopping rule is satisfied."""
        if self.model is None:
            raise ArtifactError("no model is available; only stored answers can be used")
        if self.watch is None:
            context.expect(len(self.jobs))
            return Answers(self._part(context, self.jobs))
        from eval_toolkit.tasks.stopping_outcome import ask_until_decided

        concurrency = max(at_once(self.model, context.spec.concurrency), _SMALLEST_PART)

        def part(some: Sequence[Job]) -> JobResults:
            context.expect(len(some))
            return JobResults(tuple(self._part(context, some)))

        records_of = self.measuring.records_of(self.task)
        outcomes, ended = ask_until_decided(self.watch, self.jobs, part, records_of, concurrency)
        return Answers(outcomes, ended)

    def _part(self, context: Context, jobs: Sequence[Job]) -> list[JobResult]:
        """Run some of the jobs and query the judges about their answers."""
        assert self.model is not None  # noqa: S101 - checked by `produce`
        answers = [one for one in context.ask(self.model, jobs) if one is not None]
        judges = self.measuring.judges
        if not judges:
            return answers
        units = {job.unit_id for job in jobs}
        about = [sample for sample in self.samples if sample.id in units]
        return [*answers, *self._verdicts(context, about, answers, judges)]

    def _verdicts(
        self,
        context: Context,
        samples: Sequence[Sample],
        answers: Sequence[JobResult],
        judges: Sequence[AskingGrader],
    ) -> list[JobResult]:
        responses = built_responses(self.task, samples, answers)
        return context.ask_jobs([(one.asked, judge_jobs(one, responses)) for one in judges])

    def grade(self, attempts: Answers) -> Graded:
        """Grade the answers."""
        return self.measuring.graded(
            self.task, self.samples, attempts.outcomes, self.config(), attempts.ended
        )

    def answers_table(self, attempts: Answers, graded: Graded) -> AnswersTable:
        """Return the table of answers with questions, references and grades."""
        from eval_toolkit.runs.answers import answers_of

        metrics = [name for card in graded.cards.values() for name in card]
        units = self.units()
        found = answers_of(
            graded.subjects, units, attempts.outcomes, metrics=metrics, tags=self.reasoning_tags
        )
        place = {unit.id: unit.row or 0 for unit in units}
        ids = found.columns["id"].tolist()
        return found.take(sorted(range(len(ids)), key=lambda at: place[ids[at]]))

    def judges(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the settings of each judge."""
        return {judge.name: dict(judge.describe()) for judge in self.measuring.judges}

    def manifest(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the versions, the seed, the data revision and the model."""
        task = config["task"]
        dataset = task.get("dataset") or {}
        revision = dataset.get("revision")
        versions = {f"task:{task['name']}": str(task["version"])}
        versions |= {f"grader:{name}": version for name, version in config["graders"].items()}
        return {
            "seeds": {"run": config["seed"]},
            "data_revisions": {str(dataset.get("path")): str(revision)} if revision else None,
            "versioned_objects": versions,
            "task": task,
            "models": [{**config["model"], "description_sha256": self.identity().digest}],
        }

    def refuse(self, folder: Path, begun: Mapping[str, Any], config: Mapping[str, Any]) -> None:
        """Raise an error if data or prompts have changed since the stored run."""
        asked, task = (begun.get("config") or {}).get("task"), config["task"]
        if not isinstance(asked, Mapping):
            raise ArtifactError(
                f"{folder}: the manifest of the run in this folder does not name a task; choose another folder"
            )
        alike = all(asked.get(name) == task.get(name) for name in _SET_UP)
        changed = _changed(asked, task) if alike else None
        if changed is not None:
            raise ArtifactError(
                f"{folder}: {changed} since the run in this folder was made; choose another folder"
            )


def same_units(run: Run, samples: Iterable[Sample]) -> None:
    """Raise an error unless a task has the same units as a run."""
    records = run.records(*run.only_subject)
    there = dict(zip(records.unit_id.tolist(), records.content_hash.tolist(), strict=True))
    for sample in samples:
        if there.pop(sample.id, None) != sample.content_hash:
            raise ArtifactError(
                f"{run.path}: the unit {sample.id!r} of the task is not in the run or differs "
                "from it; the data have changed since"
            )
    if there:
        raise ArtifactError(
            f"{run.path}: the task no longer has the unit {next(iter(there))!r}; the data have "
            "changed since"
        )


def same_settings(run: Run, task: Mapping[str, Any]) -> None:
    """Raise an error unless a task has the same settings as the task of a run."""
    there = run.manifest["config"]["task"]
    for name in _SETTINGS:
        if there.get(name) != task.get(name):
            raise ArtifactError(
                f"{run.path}: the run has task.{name} = {shown_setting(there.get(name))}, but this task "
                f"has {shown_setting(task.get(name))}; rescore its answers with the settings of the run"
            )


def same_prompts(run: Run, task: Mapping[str, Any]) -> None:
    """Raise an error unless a task has the same prompts, references and data as a run."""
    changed = _changed(run.manifest["config"]["task"], task)
    if changed is not None:
        raise ArtifactError(
            f"{run.path}: {changed} since the run; rescore its answers with the original task"
        )


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
    """Describe the differences in data and prompts between two tasks."""
    was, now = old.get("dataset") or {}, new.get("dataset") or {}
    if was.get("sha256") != now.get("sha256"):
        counts = [(data.get("n_rows") or {}).get(new["sample_split"]) for data in (was, now)]
        rows = "as before" if counts[0] == counts[1] else f"were {counts[0]}"
        return f"the data have changed ({counts[1]} rows, {rows})"
    if old.get("prompt_fingerprint") != new.get("prompt_fingerprint"):
        return "the prompts or references have changed"
    return None
