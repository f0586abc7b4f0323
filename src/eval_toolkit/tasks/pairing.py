"""Pairwise comparison of two runs of the same task by a judge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Unpack

from eval_toolkit._internal import validation
from eval_toolkit._internal.options import gathers
from eval_toolkit.analysis.units import common_units
from eval_toolkit.artifacts import sanitize_for_json
from eval_toolkit.errors import ArtifactError, InvalidTypeError
from eval_toolkit.graders import Grade
from eval_toolkit.graders.judges.pairs import PairJudge
from eval_toolkit.graders.judges.requests import Attempt, apart, replies_in
from eval_toolkit.models.runner import Job, JobResult
from eval_toolkit.models.runner.stored import RESPONSES
from eval_toolkit.provenance import redact_secrets
from eval_toolkit.runs import Run
from eval_toolkit.runs.context import Context
from eval_toolkit.runs.driver import drive
from eval_toolkit.runs.kinds import Graded, Identity, Kind
from eval_toolkit.runs.multipart import joined
from eval_toolkit.runs.outcome import Outcome
from eval_toolkit.runs.query_driver import outcomes_of
from eval_toolkit.runs.specs import (
    ASK_DEFAULTS,
    SUMMARY_DEFAULTS,
    AskOptions,
    AskSpec,
    SummaryOptions,
    SummarySpec,
)
from eval_toolkit.runs.units import Unit
from eval_toolkit.scorecards import Records
from eval_toolkit.seeds import DEFAULT_SEED
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.grading import n_failed
from eval_toolkit.tasks.measuring import answered, grades_by
from eval_toolkit.tasks.references import sample_units
from eval_toolkit.tasks.rescoring import opened_task_run
from eval_toolkit.tasks.scorecards import task_metrics, task_scorecard
from eval_toolkit.tasks.types import NO_SUBJECT, Sample

_IDENTITY = ("kind", "task", "runs", "judges")
"""Configuration entries that must match for stored verdicts to be reused."""


class _PairingOptions(SummaryOptions, AskOptions, total=False):
    """Options of `judge_pairs` from `SummarySpec` and `AskSpec`."""


@gathers(_PairingOptions, **SUMMARY_DEFAULTS, **ASK_DEFAULTS)
def judge_pairs(
    run_a: Run | str | Path,
    run_b: Run | str | Path,
    task: BaseTask[Any],
    judge: PairJudge,
    out: str | Path | None = None,
    *,
    on_mismatch: str = "raise",
    **options: Unpack[_PairingOptions],
) -> Outcome:
    r"""Let a judge decide which of two runs answered each item better.

    Parameters
    ----------
    run_a, run_b : Run or path
        Finished runs of the task, which may differ in prompts, examples and decoding. Their models
        are not queried.
    task : BaseTask
        Task of both runs, which provides questions, references and post-processing.
    judge : PairJudge
        Judge that compares two answers, which are presented in both orders.
    out : path, optional
        Folder for verdicts and results. Repeating the call resumes an interrupted comparison, and
        retries failed requests of a finished one. By default, nothing is written.
    on_mismatch : {"raise", "drop"}, default "raise"
        How to handle units with the same id but different content, as in `compare_runs`.
    on_error, max_error_rate, confidence
        As in `SummarySpec`.
    cache, concurrency, give_up_after, patience_s, on_progress
        As in `AskSpec`.

    Returns
    -------
    Outcome
        ``win`` is the win rate of A, with ties counted as one half; ``tie`` is the rate of ties,
        ``consistent`` the rate of agreement between both orders, and ``first_position`` the rate at
        which the answer shown first wins, excluding ties (0.5 without position bias). Each has a
        confidence interval. Attempts are paired by number; a pair with a failed answer is an error
        and is not judged. ``notes`` lists what was excluded, and runs whose prompts differ from
        those shown to the judge.

    Raises
    ------
    ArtifactError
        If the runs do not belong to this task, have no units in common, or have units that differ
        in content, or if ``out`` contains another run.
    ModelError
        If the judge fails permanently; replies received so far are kept.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.models.scripted import ScriptedModel
    >>> from eval_toolkit.models.responses import ResponseType
    >>> from eval_toolkit.tasks.running import run_task
    >>> class Capitals(BaseTask[str]):
    ...     NAME = "Capitals"
    ...     RESPONSE_TYPE = ResponseType.COMPLETION
    ...     def _get_instruction_text(self, item):
    ...         return f"What is the capital of {item['country']}?"
    ...     def _get_ground_truth(self, item):
    ...         return item["capital"]
    >>> task = Capitals(rows=[{"country": "Italy", "capital": "Rome"}])
    >>> folder = tempfile.mkdtemp()
    >>> for name, says in (("good", "Rome"), ("bad", "Bonn")):
    ...     _ = run_task(task, ScriptedModel(says, name=name), f"{folder}/{name}")
    >>> judge = PairJudge(ScriptedModel(
    ...     lambda request: "[[A]]" if "\nRome\n</answer A" in request.prompt[-1].content else "[[B]]"
    ... ))
    >>> done = judge_pairs(f"{folder}/good", f"{folder}/bad", task, judge)
    >>> done.card["win"].value, done.card["consistent"].value, done.card["first_position"].value
    (1.0, 1.0, 0.5)
    """
    if not isinstance(judge, PairJudge):
        raise InvalidTypeError(f"`judge` is {judge!r:.80}; it must be a PairJudge")
    validation.place(out, "out", NoneType)
    validation.choice(on_mismatch, "on_mismatch", ("raise", "drop"))
    ask = AskSpec.of(options)
    summary = SummarySpec.of(options)
    runs = (opened_task_run(run_a, task, "run_a"), opened_task_run(run_b, task, "run_b"))
    kind = PairsKind.of(runs, task, judge, on_mismatch, summary)
    return drive(
        kind,
        out,
        name=f"{runs[0].run_id}-{runs[1].run_id}",
        ask=ask,
        max_error_rate=summary.max_error_rate,
    )


@dataclass(frozen=True)
class PairsKind(Kind[list[JobResult]]):
    """Evaluation kind in which a judge compares the answers of two runs to the same samples."""

    task: BaseTask[Any]
    judge: PairJudge
    samples: Sequence[Sample]
    answers: Mapping[Attempt, tuple[Any, Any]]
    """Pair of answers for each attempt at a sample; a failed answer is represented by its grade."""
    settings: Mapping[str, Any]
    notes: tuple[str, ...]

    name = "pairs"
    by = "subject"

    @classmethod
    def of(
        cls,
        runs: tuple[Run, Run],
        task: BaseTask[Any],
        judge: PairJudge,
        on_mismatch: str,
        summary: SummarySpec,
    ) -> "PairsKind":
        """Pair the answers of two runs by unit, content and attempt."""
        samples, notes = _common_samples(runs, task, on_mismatch)
        found = [joined(apart(outcomes_of(run))[0]) for run in runs]
        tries = [int(run.manifest["config"]["attempts"]) for run in runs]
        attempts = range(1, min(tries) + 1)
        answers: dict[Attempt, tuple[Any, Any]] = {}
        for sample in samples:
            for attempt in attempts:
                a, b = (answered(task, sample, one.get((sample.id, attempt))) for one in found)
                answers[sample.id, attempt] = (a, b)
        names = [str(run.manifest["config"]["model"]["name"]) for run in runs]
        if names[0] == names[1]:
            names = [f"{name} ({run.run_id})" for name, run in zip(names, runs, strict=True)]
        config = {
            "kind": "pairs",
            "task": task.describe(),
            "model": {"name": f"{names[0]} vs {names[1]}"},
            "runs": {side: _known(run) for side, run in zip("ab", runs, strict=True)},
            "graders": {judge.name: judge.version},
            "judges": {judge.name: judge.describe()},
            "seed": runs[0].manifest["config"].get("seed", DEFAULT_SEED),
            "attempts": len(attempts),
            **summary.to_dict(),
        }
        settings: dict[str, Any] = redact_secrets(sanitize_for_json(config))
        notes = (*notes, *_left_out(tries), *_doubts(runs, settings))
        return cls(task, judge, samples, answers, settings, notes)

    def jobs(self) -> list[Job]:
        """Return the requests to the judge, skipping pairs with a failed answer."""
        jobs = []
        for (unit, attempt), (a, b) in self.answers.items():
            if isinstance(a, Grade) or isinstance(b, Grade):
                continue
            try:
                requests = self.judge.requests(a, b)
            except Exception:  # noqa: S112 - reported by `_line`, in the pair's record
                continue
            jobs += [Job(unit, attempt, request, step) for step, request in requests.items()]
        return jobs

    def config(self) -> Mapping[str, Any]:
        """Return the settings of the task, the judge and the compared runs."""
        return self.settings

    def identity(self) -> Identity:
        """Return the settings that identify the comparison: task, runs and judge."""
        return Identity(settings=_IDENTITY)

    def units(self) -> Sequence[Unit]:
        """Return the samples."""
        return sample_units(self.samples)

    def n_planned(self) -> int | None:
        """Return None, because the models are not queried."""
        return None

    def produce(self, context: Context) -> list[JobResult]:
        """Request the verdicts of the judge."""
        return context.ask_jobs([(self.judge.asked, self.jobs())])

    def grade(self, attempts: list[JobResult]) -> Graded:
        """Grade every pair from the verdicts of the judge."""
        records = self._records(attempts)
        card = task_scorecard(
            records,
            task_metrics(self.judge.columns()),
            on_error=self.settings["on_error"],
            confidence=self.settings["confidence"],
            seed=self.settings["seed"],
        )
        subject = (self.task.NAME, str(self.settings["model"]["name"]))
        return Graded(
            subjects={subject: records},
            cards={subject: card},
            n_errors=n_failed(records),
            counts={"n_samples": len(self.samples)},
        )

    def judges(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the settings of the judge."""
        return {self.judge.name: dict(self.judge.describe())}

    def manifest(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the versions and the seed."""
        task = config["task"]
        return {
            "seeds": {"run": config["seed"]},
            "versioned_objects": {
                f"task:{task['name']}": str(task["version"]),
                f"grader:{self.judge.name}": self.judge.version,
            },
            "task": task,
        }

    def _records(self, verdicts: Sequence[JobResult]) -> Records:
        replies = replies_in(verdicts)
        samples = {sample.id: sample for sample in self.samples}
        asked = [samples[unit] for unit, _ in self.answers]
        lines = [self._line(pair, replies.get(place) or {}) for place, pair in self.answers.items()]
        columns = list(self.judge.columns())
        subjects = [sample.subject for sample in asked]
        return Records.from_columns(
            {name: [line[name].content for line in lines] for name in columns},
            unit_id=[sample.id for sample in asked],
            attempt=[attempt for _, attempt in self.answers],
            group=[sample.id if sample.group is None else sample.group for sample in asked],
            slices={} if set(subjects) == {NO_SUBJECT} else {"subject": subjects},
            content_hash=[sample.content_hash for sample in asked],
            status={name: [line[name].status for line in lines] for name in columns},
            reason={name: [line[name].reason for line in lines] for name in columns},
        )

    def _line(self, pair: tuple[Any, Any], replies: Mapping[str, Any]) -> dict[str, Grade]:
        """Return the grades of a pair by column."""
        columns = self.judge.columns()
        for side, answer in zip("AB", pair, strict=True):
            if isinstance(answer, Grade):
                return dict.fromkeys(columns, Grade.error(f"{side}: {answer.reason}"))
        given = grades_by(self.judge, columns, *pair, replies)
        return {name: Grade.of(one) for name, one in given.items()}


def _left_out(tries: Sequence[int]) -> list[str]:
    """Return notes about attempts that are missing from the other run."""
    both = min(tries)
    return [
        f"{n - both} of {n} attempts of {side} excluded"
        for side, n in zip("AB", tries, strict=True)
        if n > both
    ]


def _doubts(runs: tuple[Run, Run], config: Mapping[str, Any]) -> list[str]:
    """Return notes about identical answers and about prompts that the judge did not see."""
    a, b = (config["runs"][side]["responses_sha256"] for side in "ab")
    same = ["A and B have identical answers"] if a == b else []
    now = config["task"].get("prompt_fingerprint")
    return same + [
        f"the prompts of {side} differ from the prompts of the task, which the judge sees"
        for side, run in zip("AB", runs, strict=True)
        if run.manifest["config"]["task"].get("prompt_fingerprint") != now
    ]


def _known(run: Run) -> dict[str, Any]:
    """Return the properties that identify a run, whose name need not be unique."""
    model = run.manifest["config"]["model"]["name"]
    digest = run.manifest["artifacts"][RESPONSES]["sha256"]
    return {"run_id": run.run_id, "model": str(model), "responses_sha256": str(digest)}


def _common_samples(
    runs: tuple[Run, Run], task: BaseTask[Any], on_mismatch: str
) -> tuple[list[Sample], tuple[str, ...]]:
    """Return the samples common to both runs, and notes about excluded samples."""
    tables = [run.records(*run.only_subject) for run in runs]
    where = f"{runs[0].path} and {runs[1].path}"
    common = common_units(*tables, on_mismatch=on_mismatch, where=where)
    if not len(common):
        raise ArtifactError(
            f"{where}: the runs have no unit in common; compare runs of the same items"
        )
    records = tables[0]
    hashes = dict(zip(records.unit_id.tolist(), records.content_hash.tolist(), strict=True))
    shared = set(common.a.ids[common.in_a].tolist())
    samples = [sample for sample in task.samples(None, order="file") if sample.id in shared]
    there = {sample.id: sample.content_hash for sample in samples}
    for unit in sorted(shared):
        if there.get(unit) != hashes[unit]:
            raise ArtifactError(
                f"{runs[0].path}: the unit {unit!r} of the task differs from the unit in the run; "
                "the data have changed since"
            )
    left = [
        f"{count} units {which} excluded"
        for count, which in (
            (common.n_only_a, "only in A"),
            (common.n_only_b, "only in B"),
            (common.n_mismatched, "that differ"),
        )
        if count
    ]
    return samples, tuple(left)
