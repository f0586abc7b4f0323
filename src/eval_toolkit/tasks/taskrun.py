"""What a run of a task comes to: records, cells and counts, made from answers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from eval_toolkit import _validate
from eval_toolkit._display import Displayed
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.graders import ColumnInfo, load_grader
from eval_toolkit.graders.answers import with_answers
from eval_toolkit.graders.base import TEXT, columns_of
from eval_toolkit.graders.code import CodeTests
from eval_toolkit.graders.loading import fitting_graders
from eval_toolkit.judges.asking import AskingGrader, apart, judge_of, judges_in
from eval_toolkit.protocols import Grader, MetricSpec
from eval_toolkit.responses import ResponseType
from eval_toolkit.responses.reasoning import cut_off_notes
from eval_toolkit.runner import Outcome
from eval_toolkit.runner.counting import counts_of
from eval_toolkit.runs import Run
from eval_toolkit.scorecards import Records, Scorecard
from eval_toolkit.scorecards.records import is_text
from eval_toolkit.scorecards.score import check_specs
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.ended import Ended
from eval_toolkit.tasks.measuring import grader_columns, measure, n_cut_off
from eval_toolkit.tasks.reporting import by_slice, task_metrics, task_scorecard
from eval_toolkit.tasks.types import Sample

__all__ = ["GraderLike", "Measuring", "TaskRun", "n_failed"]

GraderLike: TypeAlias = Grader | str | Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TaskRun(Displayed):
    """What a run of a task found, and how it went."""

    records: Records = field(repr=False)
    """One line per sample and attempt."""
    card: Scorecard
    """The cells over all; by subject in its ``slices``."""
    results: Mapping[str, Any] = field(repr=False)
    """What ``results.json`` holds."""
    run: Run | None = None
    """The folder, where there is one."""
    n_requests: int = 0
    """What the samples and attempts need, wherever the answers come from; judges are apart."""
    n_asked: int = 0
    """Requests that went to the model now."""
    n_reused: int = 0
    """Answers that were there already."""
    n_cached: int = 0
    """Answers out of the cache."""
    n_replayed: int = 0
    """Requests to stored answers instead of a model."""
    n_failed_requests: int = 0
    n_errors: int = 0
    """Samples and attempts that lack a grade: no answer, post-processing or a grader failed."""
    error_rate: float = 0.0
    """Of samples and attempts."""
    too_many_errors: bool = False
    """Whether the rate is above what was allowed."""
    usage: Mapping[str, Any] = field(default_factory=dict)
    """Tokens and cost of all answers of the run, as recorded when they were asked for."""
    usage_now: Mapping[str, Any] = field(default_factory=dict)
    """The same of the answers that were asked for now."""
    stopping: Mapping[str, Any] | None = None
    """What the rule decided that watched the run: why it stopped, and how many samples it saved."""
    judges: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By the name of each judge: its model, the counts of its requests, and their usage."""
    elapsed_s: float = 0.0
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types; the records are a table of their own."""
        return {
            "run_id": self.results["run_id"],
            "path": None if self.run is None else str(self.run.path),
            "results": dict(self.results),
            "n_requests": self.n_requests,
            "n_asked": self.n_asked,
            "n_reused": self.n_reused,
            "n_cached": self.n_cached,
            "n_replayed": self.n_replayed,
            "n_failed_requests": self.n_failed_requests,
            "n_errors": self.n_errors,
            "error_rate": self.error_rate,
            "too_many_errors": self.too_many_errors,
            "usage": dict(self.usage),
            "usage_now": dict(self.usage_now),
            "judges": {name: dict(judge) for name, judge in self.judges.items()},
            "stopping": None if self.stopping is None else dict(self.stopping),
            "elapsed_s": self.elapsed_s,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """How answers become results."""

    graders: tuple[Grader, ...]
    columns: Mapping[str, ColumnInfo]
    pass_at: tuple[int, ...]
    pass_hat: tuple[int, ...]
    maj_at: tuple[int, ...]
    on_error: str
    confidence: float
    max_error_rate: float
    judges: tuple[AskingGrader, ...] = ()
    """Those among the graders that ask a model."""
    sandbox: str = ""
    """The level at which programs of the model run, where some do."""

    @classmethod
    def of(
        cls,
        task: BaseTask[Any],
        graders: Sequence[GraderLike] | None,
        pass_at: Sequence[int],
        pass_hat: Sequence[int],
        maj_at: Sequence[int],
        on_error: str,
        confidence: float,
        max_error_rate: float,
        attempts: int,
    ) -> "Measuring":
        """Check everything before anything is asked."""
        if isinstance(graders, (str, Mapping)):
            raise InvalidTypeError(f"`graders` must be a list; write [{graders!r}]")
        if not isinstance(graders, Iterable | None):
            raise InvalidTypeError(f"`graders` is {graders!r}; it must be a list")
        _validate.integer(attempts, "attempts", low=1)
        made = tuple(load_grader(one) for one in (task.graders() if graders is None else graders))
        for grader in made:
            _refuse_unfit(grader, task)
        levels = [grader.sandbox() for grader in made if isinstance(grader, CodeTests)]
        given: dict[str, Any] = {"pass_at": pass_at, "pass_hat": pass_hat, "maj_at": maj_at}
        for name, ks in given.items():
            if isinstance(ks, str) or not isinstance(ks, Iterable):
                raise InvalidTypeError(f"`{name}` is {ks!r}; it must be a list of numbers")
            given[name] = tuple(dict.fromkeys(_validate.integer(k, name, low=1) for k in ks))
            for k in given[name]:
                if k > attempts:
                    raise InvalidInputError(
                        f"`{name}` is {k}, but each sample has {attempts} attempts; ask for at "
                        f"least {k}"
                    )
        made = tuple(with_answers(made)) if given["maj_at"] else made
        columns = grader_columns(made)
        check_specs(task_metrics(columns, graders=made, **given))  # before anything is asked
        return cls(
            graders=made,
            columns=columns,
            **given,
            on_error=_validate.choice(on_error, "on_error", ("exclude", "as_zero", "fail")),
            confidence=_validate.fraction(confidence, "confidence"),
            max_error_rate=_validate.number(max_error_rate, "max_error_rate", low=0.0, high=1.0),
            judges=tuple(judges_in(made)),
            sandbox=levels[0] if levels else "",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what a configuration says about it."""
        judges = {judge.name: dict(judge.describe()) for judge in self.judges}
        return {
            "graders": _versions(self.graders),
            "pass_at": list(self.pass_at),
            "pass_hat": list(self.pass_hat),
            **({"maj_at": list(self.maj_at)} if self.maj_at else {}),
            "on_error": self.on_error,
            "confidence": self.confidence,
            **({"judges": judges} if judges else {}),
            **({"sandbox": self.sandbox} if self.sandbox else {}),
        }

    def _sandbox_notes(self) -> list[str]:
        weaker = self.sandbox not in ("", "jailed")
        return [f"programs of the model ran {self.sandbox}, not jailed"] if weaker else []

    def metrics(self, records: Records | None = None) -> list[MetricSpec]:
        """Return the metrics; records may have columns that nobody announced."""
        known = dict(self.columns)
        if records is not None:
            other = {True: TEXT, False: ColumnInfo()}
            known = {
                name: self.columns.get(name, other[is_text(column)])
                for name, column in records.columns.items()
            }
        return task_metrics(
            known,
            pass_at=self.pass_at,
            pass_hat=self.pass_hat,
            maj_at=self.maj_at,
            graders=self.graders,
        )

    def records_of(self, task: BaseTask[Any]) -> Callable[..., Records]:
        """Return what makes records of some samples and their outcomes."""
        return partial(measure, task, graders=self.graders)

    def measured(
        self,
        task: BaseTask[Any],
        samples: Sequence[Sample],
        outcomes: Sequence[Outcome],
        config: Mapping[str, Any],
        run_id: str,
        ended: Ended | None = None,
    ) -> TaskRun:
        """Return records, cells, results and counts; of a run that a rule ended, what counts."""
        answers, verdicts = apart(outcomes)
        samples = samples if ended is None else ended.samples
        records = measure(task, samples, outcomes, graders=self.graders)
        metrics = self.metrics(records)
        card = task_scorecard(
            records,
            metrics,
            on_error=self.on_error,
            confidence=self.confidence,
            seed=config["seed"],
        )
        model = config["model"]["name"]
        if ended is not None:
            card = ended.card(card, records, metrics)
        results = {
            "schema_version": "v1",
            "run_id": run_id,
            "config": config,
            "by_slice": by_slice(task.NAME, model, records, card),
            **({} if ended is None else {"stopping": ended.decision.to_dict()}),
        }
        n_errors = n_failed(records)
        rate = n_errors / len(records)
        return TaskRun(
            records=records,
            card=card,
            results=results,
            **counts_of(answers, task.reasoning_tags),
            notes=(*cut_off_notes(n_cut_off(records), len(records)), *self._sandbox_notes()),
            n_errors=n_errors,
            error_rate=rate,
            too_many_errors=rate > self.max_error_rate,
            judges={
                judge.name: {
                    "model": judge.asked.name,
                    **counts_of([o for o in verdicts if judge_of(o.job.step) == judge.name]),
                }
                for judge in self.judges
            },
            stopping=None if ended is None else ended.to_dict(),
        )


def _refuse_unfit(grader: Any, task: BaseTask[Any]) -> None:
    """Raise if a grader cannot grade what the task asks for."""
    if getattr(grader, "of_pairs", False):
        raise InvalidInputError(
            f"the judge {grader.name!r} compares the answers of two runs; use judge_pairs"
        )
    kinds = getattr(grader, "response_types", None)
    if kinds is None or task.RESPONSE_TYPE in tuple(kinds):
        return
    raise InvalidInputError(
        f"the grader {grader.name!r} grades {' and '.join(map(_plural, kinds))}, but {task.NAME!r} "
        f"asks for {_plural(task.RESPONSE_TYPE)}; there are "
        f"{', '.join(fitting_graders(task.RESPONSE_TYPE))}"
    )


def _plural(kind: ResponseType | str) -> str:
    return "completions" if kind == ResponseType.COMPLETION else "log-likelihoods"


def _versions(graders: Sequence[Grader]) -> dict[str, str]:
    """Return the version of each grader by its name; by its columns too where several share it."""
    names = [grader.name for grader in graders]
    return {
        name if names.count(name) == 1 else f"{name}({', '.join(columns_of(grader))})": str(
            grader.version
        )
        for name, grader in zip(names, graders, strict=True)
    }


def n_failed(records: Records) -> int:
    """Return how many lines lack a grade in any column because something failed."""
    failed = None
    for status in records.status.values():
        bad = status == "error"
        failed = bad if failed is None else failed | bad
    return 0 if failed is None else int(failed.sum())
