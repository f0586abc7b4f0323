"""Rescoring of stored answers with other graders or judges, without querying the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Unpack

from eval_toolkit._internal import validation
from eval_toolkit._internal.options import gathers
from eval_toolkit.artifacts import sanitize_for_json
from eval_toolkit.artifacts.shapes import shape_problem
from eval_toolkit.errors import ArtifactError, InvalidInputError, InvalidTypeError
from eval_toolkit.graders import load_grader
from eval_toolkit.graders.judges.requests import AskingGrader, apart, is_judge, judge_of, judges_in
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE
from eval_toolkit.models.cache import ResponseCache
from eval_toolkit.models.loading import available_models, load_model, model_spec
from eval_toolkit.plugins import known_name, read_from
from eval_toolkit.protocols import Grader, Model
from eval_toolkit.provenance import redact_secrets
from eval_toolkit.runs import Run
from eval_toolkit.runs.context import Context
from eval_toolkit.runs.folder import MANIFEST
from eval_toolkit.runs.kinds import Graded, Identity
from eval_toolkit.runs.manifest_checks import missing_setting
from eval_toolkit.runs.outcome import Outcome
from eval_toolkit.runs.query_driver import outcomes_of, stored_digest
from eval_toolkit.runs.rescoring import rescore
from eval_toolkit.runs.shards import shard_of
from eval_toolkit.runs.specs import ASK_DEFAULTS, AskOptions, AskSpec, SummarySpec
from eval_toolkit.scorecards import Records
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.grading import GraderLike, GradingSettings
from eval_toolkit.tasks.judging import refuse_unjudged
from eval_toolkit.tasks.kind import Answers, TaskKind, same_prompts, same_settings, same_units
from eval_toolkit.tasks.loading import available_tasks, load_task, named_task
from eval_toolkit.tasks.planning import check_task, greedy_again
from eval_toolkit.tasks.restored_task import StoredSamples, task_hint
from eval_toolkit.tasks.types import Sample

if TYPE_CHECKING:
    from eval_toolkit.tasks.stopping_outcome import StoppingOutcome


_NEEDED = (
    *("task.version", "model.name", "graders", "attempts", "order", "seed", "formatter"),
    "decoding",
)
_RUBRIC = "correctness"
"""Default rubric, used if a model is passed as a judge."""
_NUMBER, _WHOLE, _TEXT = {"type": "number"}, {"type": "integer"}, {"type": "string"}
_RELIED_ON = {
    "type": "object",
    "properties": {
        "task": {"type": "object", "properties": {"name": _TEXT}},
        "model": {"type": "object"},
        "graders": {"type": "object"},
        "attempts": {**_WHOLE, "minimum": 1},
        "limit": {**_WHOLE, "minimum": 1},
        "order": _TEXT,
        "seed": _WHOLE,
        "decoding": {"type": "object", "properties": {"temperature": {"type": ["number", "null"]}}},
        "on_error": _TEXT,
        "confidence": _NUMBER,
    },
}
"""Schema of the settings that a stored run must contain."""


def opened_task_run(run: Run | str | Path, task: BaseTask[Any], name: str = "run") -> Run:
    """Open a finished task run; raise an error for other runs."""
    check_task(task)
    validation.place(run, name, Run)
    source = run if isinstance(run, Run) else Run.open(run)
    config = source.manifest.get("config") or {}
    if config.get("kind") != "task":
        raise ArtifactError(f"{source.path}: not a task run; it has no answers to rescore")
    if "imported" in config:
        raise ArtifactError(
            f"{source.path}: imported from the log of another tool together with its grades, so "
            "it cannot be regraded; pass `metrics` of its records instead"
        )
    _refuse_incomplete(source, ("task.name",))
    if config["task"]["name"] != task.NAME:
        raise ArtifactError(
            f"{source.path}: this is a run of {config['task']['name']!r}, not of {task.NAME!r}"
        )
    return source


def _refuse_incomplete(source: Run, needed: Sequence[str]) -> None:
    """Raise an error if a run lacks settings of its requests."""
    config = source.manifest["config"]
    missing = missing_setting(config, needed)
    if problem := f"has no {missing}" if missing else shape_problem(config, _RELIED_ON):
        raise ArtifactError(
            f"{source.path / 'manifest.json'}: config {problem}; its answers cannot be rescored"
        )


def measure_run(
    run: Run | str | Path,
    task: BaseTask[Any],
    *,
    graders: Sequence[GraderLike] | None = None,
    out: str | Path | None = None,
    pass_at: Sequence[int] = (),
    pass_hat: Sequence[int] = (),
    maj_at: Sequence[int] = (),
    on_error: str = "exclude",
    max_error_rate: float = 0.0,
    confidence: float = DEFAULT_CONFIDENCE,
) -> Outcome:
    """Regrade the stored answers of a run without querying a model.

    Stored verdicts of judges are used; to query judges, use `judge_run`.

    Parameters
    ----------
    run : Run or path
        Finished run of the task.
    task : BaseTask
        Task of the run, which provides references and post-processing.
    graders, pass_at, pass_hat, maj_at
        As in `run_task`.
    on_error, max_error_rate, confidence
        As in `SummarySpec`.
    out : path, optional
        Folder for the new results; if it is the run's own folder, they replace the existing
        results.

    Returns
    -------
    Outcome
        Outcome with new grades for the same samples and attempts.

    Raises
    ------
    ArtifactError
        If the run is not a run of this task, if settings that determine prompts and references
        differ (examples, seed, order of choices, suffix, prompts, data), or if a judge has no
        stored verdict for the current form of an answer. Graders, post-processing and the version
        of the task may differ.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.models.scripted import ScriptedModel
    >>> from eval_toolkit.models.responses import ResponseType
    >>> class Capitals(BaseTask[str]):
    ...     NAME = "Capitals"
    ...     RESPONSE_TYPE = ResponseType.COMPLETION
    ...     def _get_instruction_text(self, item):
    ...         return f"What is the capital of {item['country']}?"
    ...     def _get_ground_truth(self, item):
    ...         return item["capital"]
    >>> from eval_toolkit.tasks.running import run_task
    >>> task = Capitals(rows=[{"country": "Italy", "capital": "Rome"}])
    >>> done = run_task(task, ScriptedModel("ROME"), tempfile.mkdtemp() + "/r")
    >>> done.card["exact_match"].value
    0.0
    >>> again = measure_run(done.run, task, graders=["exact_match{ignore_case=true}"])
    >>> again.card["exact_match"].value
    1.0
    """
    validation.place(out, "out", NoneType)
    source = opened_task_run(run, task)
    kind = StoredAnswers.stored(
        source,
        task=task,
        graders=graders,
        pass_at=pass_at,
        pass_hat=pass_hat,
        maj_at=maj_at,
        on_error=on_error,
        max_error_rate=max_error_rate,
        confidence=confidence,
    )
    return rescore(source, out, kind=kind)


class _JudgingOptions(AskOptions, total=False):
    """Options of `judge_run`: grading, as in `StoredAnswers.stored`, and `AskSpec`."""

    pass_at: Sequence[int] | None
    pass_hat: Sequence[int] | None
    maj_at: Sequence[int] | None
    on_error: str | None
    max_error_rate: float
    confidence: float | None


@gathers(
    _JudgingOptions,
    **{**dict.fromkeys(_JudgingOptions.__annotations__), "max_error_rate": 0.0, **ASK_DEFAULTS},
)
def judge_run(
    run: Run | str | Path,
    task: BaseTask[Any],
    judges: Sequence[GraderLike],
    out: str | Path | None = None,
    *,
    graders: Sequence[GraderLike] | None = None,
    **options: Unpack[_JudgingOptions],
) -> Outcome:
    """Let judges grade the stored answers of a run, without querying the model again.

    Parameters
    ----------
    run : Run or path
        Finished run of the task.
    task : BaseTask
        Task of the run.
    judges : sequence of Judge, Panel, Model, str or mapping
        Judges, or their names as in `graders.load_grader`. A model, or its name such as
        ``"openai:m{base_url='URL'}"``, is used with the rubric "correctness".
    out : path, optional
        Folder for answers, verdicts and results; if it is the run's own folder, verdicts are added
        to it. Repeating the call resumes an interrupted one. By default, nothing is written.
    graders : sequence of Grader, str or mapping, optional
        Graders in addition to the judges. By default, the graders of the run are recreated from the
        task, from their names and options or, for judges with built-in rubrics, from their stored
        settings; their judges use stored verdicts.
    pass_at, pass_hat, maj_at
        As in `run_task`; by default, the values used in the run.
    on_error, confidence, max_error_rate
        As in `SummarySpec`; ``on_error`` and ``confidence`` default to the values used in the run.
    cache, concurrency, give_up_after, patience_s, on_progress
        As in `AskSpec`.

    Returns
    -------
    Outcome
        Outcome for the same samples and attempts; ``judges`` contains the usage of the judges.

    Raises
    ------
    ArtifactError
        As in `measure_run`, or if ``out`` contains another run, or if a grader or judge of the run
        cannot be recreated and must therefore be passed.
    InvalidInputError
        If one of ``judges`` sends no requests.
    ModelError
        If a judge fails permanently; replies already received are kept.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.graders.judges import Judge
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
    >>> done = run_task(task, ScriptedModel("It is Rome."), tempfile.mkdtemp() + "/r")
    >>> judged = judge_run(done.run, task, [Judge("correctness", ScriptedModel("Yes."))])
    >>> judged.card["correctness"].value, judged.n_asked, judged.judges["correctness"]["n_asked"]
    (1.0, 0, 1)
    """
    validation.place(out, "out", NoneType)
    validation.place(options["cache"], "cache", ResponseCache, NoneType)
    source = opened_task_run(run, task)
    ask = AskSpec.of(options)
    if isinstance(judges, (str, bytes)) or not isinstance(judges, Sequence) or not judges:
        raise InvalidTypeError(f"`judges` is {judges!r:.80}; it must be a list of judges")
    kind = StoredAnswers.stored(
        source,
        task=task,
        judges=judges,
        graders=graders,
        pass_at=options["pass_at"],
        pass_hat=options["pass_hat"],
        maj_at=options["maj_at"],
        on_error=options["on_error"],
        max_error_rate=options["max_error_rate"],
        confidence=options["confidence"],
    )
    return rescore(source, out, kind=kind, ask=ask)


def _judging(given: GraderLike) -> Grader:
    """Convert a judge, a model or a name to a judge; models get the rubric "correctness"."""
    judge: Any = given
    if isinstance(given, str):
        kind, which, _ = model_spec(given)
        judge = load_model(given) if which and kind in available_models() else given
    from eval_toolkit.graders.judges import Judge

    judge = Judge(_RUBRIC, judge) if isinstance(judge, Model) else load_grader(judge)
    if not is_judge(judge):
        raise InvalidInputError(
            f"{judge.name!r} sends no requests; pass it in `graders` of rescore or measure_run"
        )
    return judge  # type: ignore[no-any-return]


@dataclass(frozen=True)
class StoredAnswers(TaskKind):
    """Evaluation kind that regrades stored answers; judges in ``waiting`` are queried."""

    digest: str | None = None
    ended: StoppingOutcome | None = None
    waiting: Sequence[AskingGrader] = ()
    notes: tuple[str, ...] = ()
    records: Records | None = None
    """Stored grades of a run's shards, which are not recomputed."""

    @classmethod
    def stored(
        cls,
        run: Run,
        *,
        task: BaseTask[Any] | str | Path | None = None,
        graders: Sequence[GraderLike] | None = None,
        judges: Sequence[GraderLike] = (),
        pass_at: Sequence[int] | None = None,
        pass_hat: Sequence[int] | None = None,
        maj_at: Sequence[int] | None = None,
        on_error: str | None = None,
        max_error_rate: float = 0.0,
        confidence: float | None = None,
    ) -> StoredAnswers:
        """Load the answers of a task run; omitted settings default to the settings of the run.

        By default, the task is loaded by name if it is built in or provided by a package;
        otherwise, the stored questions and references are used. The default graders are the graders
        of the run if ``judges`` are passed or there is no task, and the graders of the task
        otherwise.
        """
        if isinstance(task, str | Path):
            task = load_task(task)
        task = stored_task(run) if task is None else task
        config = opened_task_run(run, task).manifest["config"]
        usual = {"on_error": on_error, "confidence": confidence}
        _refuse_incomplete(run, (*_NEEDED, *(name for name, own in usual.items() if own is None)))
        described = redact_secrets(sanitize_for_json(task.describe()))
        same_settings(run, described)
        joins = bool(run.manifest.get("joins"))
        asked = [_judging(judge) for judge in judges]
        known: set[str] = set()
        if graders is None and (asked or joins or isinstance(task, StoredSamples)):
            graders = _kept(run, task, asked)
            known = {judge.name for judge in judges_in(graders)}
        summary = SummarySpec(
            on_error=config["on_error"] if on_error is None else on_error,
            confidence=config["confidence"] if confidence is None else confidence,
            max_error_rate=max_error_rate,
        )
        given = {"pass_at": pass_at, "pass_hat": pass_hat, "maj_at": maj_at}
        attempts = config["attempts"]
        measuring = GradingSettings.of(
            task,
            None if graders is None and not asked else [*(graders or ()), *asked],
            summary=summary,
            attempts=attempts,
            **{name: config.get(name, ()) if ks is None else ks for name, ks in given.items()},
        )
        samples = task.samples(config.get("limit"), order=config["order"])
        shard = shard_of(config)
        samples = samples if shard is None else shard.take(samples)
        ended = _ended(run, samples, task.seed, summary.confidence)
        samples = samples if ended is None else list(ended.samples)
        if isinstance(task, StoredSamples) and not joins:
            task.refuse_unfit(measuring.graders, samples)
        same_units(run, samples)
        same_prompts(run, described)
        return cls(
            task=task,
            measuring=measuring,
            samples=samples,
            settings=config,
            digest=stored_digest(run.manifest),
            ended=ended,
            waiting=[one for one in measuring.judges if asked and one.name not in known],
            notes=(
                *task.data_notes,
                *greedy_again(config["decoding"].get("temperature"), attempts),
            ),
            records=run.records(*run.only_subject) if joins else None,
        )

    def config(self) -> Mapping[str, Any]:
        """Return the configuration of the stored run, updated with the current graders."""
        kept = {name: value for name, value in self.settings.items() if name != "judges"}
        return {**kept, "task": self.task.describe(), **self.measuring.to_dict()}

    def identity(self) -> Identity:
        """Return the settings that identify the stored run."""
        return replace(super().identity(), digest=self.digest)

    def grade(self, attempts: Answers) -> Graded:
        """Grade the answers."""
        given = self.task, self.samples, attempts.outcomes, self.config(), attempts.ended
        return self.measuring.graded(*given, self.records)

    def restore(self, run: Run, context: Context) -> Answers:
        """Return the stored answers and verdicts, and request the verdicts of waiting judges."""
        config = run.manifest["config"]
        units = {sample.id for sample in self.samples}
        stored = [
            outcome
            for outcome in outcomes_of(run)
            if outcome.job.unit_id in units and outcome.job.attempt <= config["attempts"]
        ]
        answers, verdicts = apart(stored)
        names = {judge.name for judge in self.waiting}
        before = [judge for judge in self.measuring.judges if judge.name not in names]
        refuse_unjudged(run, self.task, self.samples, stored, before)
        context.outcomes += answers
        if self.waiting:
            self._verdicts(context, self.samples, answers, self.waiting)
        context.verdicts += [one for one in verdicts if judge_of(one.job.step) not in names]
        return Answers([*context.outcomes, *context.verdicts], self.ended)


def stored_task(run: Run, **options: Any) -> BaseTask[Any]:
    """Load the task of a run by its name, with the stored settings.

    Only built-in tasks and tasks of installed packages are loaded; files and classes that a run
    refers to are not (docs/adr/0023). For a table of questions or a task file, the stored questions
    and references are used. ``options`` override stored options.
    """
    settings = (run.manifest.get("config") or {}).get("task") or {}
    name = known_name("tasks", str(settings.get("name")), [one.name for one in available_tasks()])
    if name is None or name != settings.get("name"):  # names of built-in tasks ignore case
        if not options and StoredSamples.hold(run):
            return StoredSamples(run)
        raise ArtifactError(
            f"{run.path}: its task {str(settings.get('name'))!r:.80} is neither built in nor part of an "
            f"installed package; {task_hint(settings)}"
        )
    named = ("num_fewshot", "seed", "subjects", "shuffle_choices", "user_prompt_suffix")
    set_up = {key: settings[key] for key in named if settings.get(key) not in (None, [], "", False)}
    set_up |= {key: value for key, value in options.items() if value is not None}
    task = named_task(name, set_up, origin=read_from(run.path / MANIFEST, "config.task"))
    if "reasoning_tags" in settings:
        task.reasoning_tags = tuple((first, last) for first, last in settings["reasoning_tags"])
    return task


def _kept(run: Run, task: BaseTask[Any], asked: Sequence[Grader]) -> list[Grader]:
    """Return the graders and judges of a run, which use stored verdicts."""
    from eval_toolkit.tasks.restored_graders import (
        stored_graders,
    )  # judges and panels are rarely needed

    names = {grader.name for grader in asked} | {judge.name for judge in judges_in(asked)}
    return stored_graders(run, task, names)


def _ended(
    source: Run, samples: Sequence[Sample], seed: int, confidence: float
) -> StoppingOutcome | None:
    """Return the decision of a stored run's stopping rule, or None if it had no rule."""
    from eval_toolkit.tasks.stopping_outcome import StoppingOutcome

    rule, decision = source.manifest["config"].get("until"), source.results.get("stopping")
    if rule is None or decision is None:
        return None
    counted = set(source.records(*source.only_subject).unit_id.tolist())
    return StoppingOutcome.stored(
        decision, rule, samples, counted, seed=seed, confidence=confidence
    )
