"""Grading of a task's answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from eval_toolkit._internal import validation
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.graders import ColumnInfo, load_grader
from eval_toolkit.graders.base import TEXT, columns_of
from eval_toolkit.graders.code import CodeTests
from eval_toolkit.graders.judges.requests import AskingGrader, apart, judges_in
from eval_toolkit.graders.loading import fitting_graders
from eval_toolkit.models.responses import ResponseType
from eval_toolkit.models.responses.reasoning import cut_off_notes
from eval_toolkit.models.runner import JobResult
from eval_toolkit.models.runner.counting import cut_answers, cut_notes
from eval_toolkit.protocols import Grader, MetricSpec
from eval_toolkit.runs.kinds import Graded
from eval_toolkit.runs.specs import SummarySpec, whole_numbers
from eval_toolkit.scorecards import Records
from eval_toolkit.scorecards.records import is_text
from eval_toolkit.scorecards.specs import check_specs
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.measuring import each_response, grader_columns, measure, n_cut_off
from eval_toolkit.tasks.scorecards import task_metrics, task_scorecard
from eval_toolkit.tasks.types import Sample

if TYPE_CHECKING:
    from eval_toolkit.tasks.stopping_outcome import StoppingOutcome

GraderLike: TypeAlias = Grader | str | Mapping[str, Any] | Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class GradingSettings:
    """Settings for grading answers and summarising grades."""

    graders: tuple[Grader, ...]
    columns: Mapping[str, ColumnInfo]
    pass_at: tuple[int, ...]
    pass_hat: tuple[int, ...]
    maj_at: tuple[int, ...]
    summary: SummarySpec
    judges: tuple[AskingGrader, ...] = ()
    """Graders that query a model."""
    sandbox: str = ""
    """Isolation level for running programs written by the model, if any."""

    @classmethod
    def of(
        cls,
        task: BaseTask[Any],
        graders: Sequence[GraderLike] | None,
        pass_at: Sequence[int],
        pass_hat: Sequence[int],
        maj_at: Sequence[int],
        summary: SummarySpec,
        attempts: int,
    ) -> GradingSettings:
        """Create and validate the settings, before any request is sent."""
        if isinstance(graders, (str, Mapping)):
            raise InvalidTypeError(f"`graders` must be a list; write [{graders!r}]")
        if not isinstance(graders, Iterable | None):
            raise InvalidTypeError(f"`graders` is {graders!r}; it must be a list")
        validation.integer(attempts, "attempts", low=1)
        made = tuple(load_grader(one) for one in (task.graders() if graders is None else graders))
        for grader in made:
            _refuse_unfit(grader, task)
        levels = [grader.sandbox() for grader in made if isinstance(grader, CodeTests)]
        given: dict[str, Any] = {"pass_at": pass_at, "pass_hat": pass_hat, "maj_at": maj_at}
        has = "each sample has {} attempts"
        given = {name: whole_numbers(ks, name, most=attempts, of=has) for name, ks in given.items()}
        if given["maj_at"]:
            from eval_toolkit.graders.answers import with_answers

            made = tuple(with_answers(made))
        columns = grader_columns(made)
        check_specs(task_metrics(columns, graders=made, **given))  # before any request is sent
        return cls(
            graders=made,
            columns=columns,
            **given,
            summary=summary,
            judges=tuple(judges_in(made)),
            sandbox=levels[0] if levels else "",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the entries of the settings in the run's configuration."""
        judges = {judge.name: dict(judge.describe()) for judge in self.judges}
        return {
            "graders": _versions(self.graders),
            "pass_at": list(self.pass_at),
            "pass_hat": list(self.pass_hat),
            **({"maj_at": list(self.maj_at)} if self.maj_at else {}),
            **self.summary.to_dict(),
            **({"judges": judges} if judges else {}),
            **({"sandbox": self.sandbox} if self.sandbox else {}),
        }

    def metrics(self, records: Records | None = None) -> list[MetricSpec]:
        """Return the metrics of the declared columns, and of undeclared columns in the records."""
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
        """Return a function that grades outcomes and returns records."""
        return partial(measure, task, graders=self.graders)

    def graded(
        self,
        task: BaseTask[Any],
        samples: Sequence[Sample],
        outcomes: Sequence[JobResult],
        config: Mapping[str, Any],
        ended: StoppingOutcome | None = None,
        records: Records | None = None,
    ) -> Graded:
        """Return records and cells; with a stopping rule, only of the samples that count.

        Pass ``records`` if the answers are already graded.
        """
        samples = samples if ended is None else ended.samples
        if records is None:
            records = measure(task, samples, outcomes, graders=self.graders)
        metrics = self.metrics(records)
        card = task_scorecard(
            records,
            metrics,
            on_error=self.summary.on_error,
            confidence=self.summary.confidence,
            seed=config["seed"],
        )
        if ended is not None:
            card = ended.card(card, records, metrics)
        counted = {sample.id for sample in samples}
        answers, _ = apart(outcomes)
        answers = [one for one in answers if one.ok and one.job.unit_id in counted]
        cut = cut_answers(answers)
        notes = [
            *cut_notes(cut, len(answers)),
            *cut_off_notes(n_cut_off(records), len(records)),
        ]
        if {type(one).__name__ for one in self.graders} & {"Match", "ExactMatch"}:
            notes += _contained(task, samples, outcomes, records, self.graders)
        if self.sandbox not in ("", "jailed"):
            notes = [*notes, f"programs written by the model were run {self.sandbox}, not jailed"]
        return Graded(
            subjects={(task.NAME, str(config["model"]["name"])): records},
            cards={(task.NAME, str(config["model"]["name"])): card},
            n_errors=n_failed(records),
            counts={"n_samples": len(samples)},
            extra={
                **({} if ended is None else {"stopping": ended.decision.to_dict()}),
                **({"cut_answers": cut} if cut else {}),
            },
            stopping=None if ended is None else ended.to_dict(),
            notes=tuple(notes),
        )


_MANY = 0.05
"""Minimum fraction of wrong answers containing the reference for which a note is shown."""


def _contained(
    task: BaseTask[Any],
    samples: Sequence[Sample],
    outcomes: Sequence[JobResult],
    records: Records,
    graders: Sequence[Grader],
) -> list[str]:
    """Return a note if many answers marked wrong contain a reference as a sequence of words."""
    from eval_toolkit.graders.match import Match  # not needed by graders of choices
    from eval_toolkit.graders.texts import ExactMatch, Includes

    by = next((one for one in graders if isinstance(one, Match | ExactMatch)), None)
    if by is None or any(isinstance(one, Includes) for one in graders):
        return []
    wrong = (records.columns[by.name] == 0.0) & (records.status[by.name] == "ok")
    if isinstance(by, Match):
        wrong &= records.columns[f"{by.name}_by"] == ExactMatch().name
    places = set(zip(records.unit_id[wrong], records.attempt[wrong], strict=True))
    units = {unit for unit, _ in places}
    some = [sample for sample in samples if sample.id in units]
    inside = Includes(ignore_punctuation=True, ignore_articles=True)
    n = sum(
        inside.grade(response)[inside.name] == 1.0
        for place, response in each_response(task, some, outcomes)
        if place in places
    )
    if not n or n < _MANY * len(records):
        return []
    found = "1 answer marked wrong contains" if n == 1 else f"{n:,} answers marked wrong contain"
    look = "see `answers RUN --wrong` (wrong())"
    return [f'{found} the reference; {look}, or pass --grader includes (graders=["includes"])']


def _refuse_unfit(grader: Any, task: BaseTask[Any]) -> None:
    """Raise an error if a grader does not support the response type of the task."""
    if getattr(grader, "of_pairs", False):
        raise InvalidInputError(
            f"the judge {grader.name!r} compares the answers of two runs; use judge_pairs"
        )
    kinds = getattr(grader, "response_types", None)
    if kinds is None or task.RESPONSE_TYPE in tuple(kinds):
        return
    raise InvalidInputError(
        f"the grader {grader.name!r} grades {' and '.join(map(_plural, kinds))}, but {task.NAME!r} "
        f"asks for {_plural(task.RESPONSE_TYPE)}; suitable graders are "
        f"{', '.join(fitting_graders(task.RESPONSE_TYPE))}"
    )


def _plural(kind: ResponseType | str) -> str:
    return "completions" if kind == ResponseType.COMPLETION else "log-likelihoods"


def _versions(graders: Sequence[Grader]) -> dict[str, str]:
    """Return grader versions keyed by name, with the columns appended if names are not unique."""
    names = [grader.name for grader in graders]
    return {
        name if names.count(name) == 1 else f"{name}({', '.join(columns_of(grader))})": str(
            grader.version
        )
        for name, grader in zip(names, graders, strict=True)
    }


def n_failed(records: Records) -> int:
    """Return the number of rows that lack a grade because of a failure."""
    failed = None
    for status in records.status.values():
        bad = status == "error"
        failed = bad if failed is None else failed | bad
    return 0 if failed is None else int(failed.sum())
