"""Base class of kinds of evaluation.

An evaluation produces attempts at units, grades them to obtain records, summarises the records, and
stores a run. Rows, tasks and rollouts differ only in the first two steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from eval_toolkit.errors import ArtifactError, InvalidInputError, UndefinedMetricError
from eval_toolkit.runs.kind_display import Shown
from eval_toolkit.runs.specs import SummarySpec

if TYPE_CHECKING:
    from eval_toolkit.models.responses.reasoning import Tags
    from eval_toolkit.models.runner.jobs import Key
    from eval_toolkit.protocols import MetricSpec
    from eval_toolkit.runs.answers import AnswersTable
    from eval_toolkit.runs.context import Attempt, Context
    from eval_toolkit.runs.folder import Run
    from eval_toolkit.runs.interim import Grading
    from eval_toolkit.runs.outcome import Subject
    from eval_toolkit.runs.shards import Shard
    from eval_toolkit.runs.units import Unit
    from eval_toolkit.runs.writing import Columns
    from eval_toolkit.scorecards import Records, Scorecard

AttemptsT = TypeVar("AttemptsT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Settings that must be equal to resume a run."""

    settings: tuple[str, ...]
    """Names of settings in the configuration; the others may change between calls."""
    digest: str | None = None
    """Hash of settings that are not stored, such as secrets in a model's description."""
    what: str = "evaluation that differs in a part"
    """Description of what the digest covers, as in "a model that differs in a part"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """Results of grading the attempts."""

    subjects: Mapping[Subject, Records]
    """Records of each system on each slice."""
    cards: Mapping[Subject, Scorecard]
    """Cells of each system on each slice."""
    by_slice: Mapping[str, Any] | None = None
    """Cells in the stored format, if there are more than in the cards; see `Results`."""
    n_errors: int
    """Number of attempts that have no result because of a failure."""
    n_skipped: int = 0
    """Number of attempts that have no result because they were stopped early."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Kind-specific counts for the outcome and the manifest."""
    attempts: tuple[Any, ...] = ()
    """Raw attempts, if they are useful to the caller."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Additional entries of ``results.json``."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Curves, tables and distributions for ``results_full.json``."""
    stopping: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()


class Kind(Shown, Protocol[AttemptsT]):
    """Base class of kinds of evaluation.

    A simple kind defines its `units`, answers them in `respond`, and converts answers to numbers in
    `score`. Every answer is recorded in the journal, so that runs can be resumed and rescored. A
    kind that queries models in its own way overrides `produce`, `restore` and `grade` instead.
    Stored runs are displayed by `show`, `words` and the other class methods of `Shown`.

    Examples
    --------
    >>> from eval_toolkit import metric_specs as ms
    >>> from eval_toolkit.runs import Unit, drive
    >>> class Doubling(Kind):
    ...     name = "doubling"
    ...     def config(self):
    ...         return {"system": "adder"}
    ...     def units(self):
    ...         return [Unit(id=str(n), input=n, reference=2 * n) for n in range(4)]
    ...     def respond(self, inputs):
    ...         return [n + 2 for n in inputs]
    ...     def score(self, unit, output):
    ...         return {"right": float(output == unit.reference)}
    ...     def metrics(self):
    ...         return [ms.mean_of("right")]
    >>> drive(Doubling(), name="demo").card["right"].value
    0.25
    """

    name: str
    """Name of the kind, stored as ``kind`` in the configuration and the manifest."""
    asks: bool = True
    """Whether models or functions are queried, which requires a context and a journal."""
    by: str | None = None
    """Name of the partition whose parts are also summarised, such as "subject"."""
    full: str = "more"
    """Key of curves and distributions in ``results_full.json``."""
    summary: SummarySpec = SummarySpec()
    """How records are summarised."""
    notes: tuple[str, ...] = ()
    """Notes for readers of the results, which precede the notes of the driver."""
    in_place: bool = True
    """Whether a rescored run may overwrite its source run."""

    @classmethod
    def stored(cls, *run: Any, **options: Any) -> Kind[Any]:  # kinds declare their options
        """Return the kind that grades the stored attempts of a run, for `rescore`.

        Only one run is supported. The options are those of `rescore`. Raises `ArtifactError` if the
        run does not contain the required data.
        """
        raise ArtifactError(
            f"{run[0].path}: its kind {run[0].kind!r} does not define `stored`, which restores it from "
            "a run; pass `kind`, or `metrics` of its records"
        )

    def config(self) -> Mapping[str, Any]:
        """Return the configuration; its ``system`` and ``slice`` name the system and the data."""
        ...

    def units(self) -> Sequence[Unit]:
        """Return the units; the ones that have records are stored in ``units.parquet``."""
        ...

    def share(self, shard: Shard) -> Self:
        """Restrict the evaluation to the units of a shard."""
        if not self.asks:
            raise InvalidInputError(
                f"`shard` is {shard}, but a run of {self.name!r} sends no requests"
            )
        kind, units = copy(self), shard.take(self.units())
        object.__setattr__(kind, "units", lambda: units)
        return kind

    def respond(self, inputs: list[Any]) -> Sequence[Any]:
        """Return the answer of the system to each input, as JSON values."""
        raise ArtifactError(f"the kind {self.name!r} does not define `respond`")

    def score(self, unit: Unit, output: Any) -> Mapping[str, Any]:
        """Score one answer; return a number, or None if missing, for each column."""
        raise UndefinedMetricError(f"the kind {self.name!r} does not define `score`")

    def metrics(self) -> Sequence[MetricSpec]:
        """Return the metrics computed from the columns."""
        return ()

    def identity(self) -> Identity:
        """Return the settings that must be equal to resume a run; by default, all settings."""
        return Identity(settings=tuple(self.config()))

    def produce(self, context: Context) -> AttemptsT:
        """Produce missing attempts and return all attempts."""
        return context.answers(self.respond, self.units(), repr(self.identity()))  # type: ignore[return-value]

    def restore(self, run: Run, context: Context) -> AttemptsT:
        """Return the stored attempts of a run, for `rescore`; only judges may be queried."""
        return context.stored_answers(run)  # type: ignore[return-value]

    def grade(self, attempts: AttemptsT) -> Graded:
        """Convert attempts to records and cells, without sending requests."""
        return _graded(self, attempts)  # type: ignore[arg-type]

    def answers_table(self, attempts: AttemptsT, graded: Graded) -> AnswersTable:
        """Return answers, questions, references and grades for `Outcome.answers`."""
        from eval_toolkit.runs.answers import answers_of

        return answers_of(graded.subjects, self.units())

    def manifest(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return additional entries of the manifest, without secrets.

        ``seeds``, ``data_revisions`` and ``versioned_objects`` are placed as in `build_manifest`.
        """
        return {}

    def tables(self, attempts: AttemptsT) -> Mapping[str, Columns]:
        """Return additional tables of the run."""
        return {}

    def judges(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the settings of each judge by name, including its ``model``."""
        return {}

    def n_planned(self) -> int | None:
        """Return the maximum number of requests, not counting judges."""
        return len(self.units())

    def grading_so_far(self) -> Grading | None:
        """Return how to grade finished answers while others are pending; by default, None."""
        return None

    def lost(self, answered: Iterable[Key]) -> list[Key]:
        """Return the keys of existing answers and verdicts that this run does not request."""
        units = {unit.id for unit in self.units()}
        return [key for key in answered if key[0] not in units]

    def advice(self) -> str:
        """Return advice for users on how to keep all answers of an unfinished run."""
        return "request as many units and attempts"

    def refuse(self, folder: Path, begun: Mapping[str, Any], config: Mapping[str, Any]) -> None:
        """Raise an error with a specific message if the folder contains a different run."""
        return

    def refuse_unfinished(
        self, folder: Path, there: Mapping[str, Any], config: Mapping[str, Any]
    ) -> None:
        """Raise an error if this run does not request all answers of an unfinished run."""
        return

    @property
    def reasoning_tags(self) -> Tags:
        """Tags that enclose reasoning in answers."""
        from eval_toolkit.models.responses import REASONING_TAGS

        return REASONING_TAGS


def _graded(kind: Kind[Any], attempts: Sequence[Attempt]) -> Graded:
    """Score the attempts of a simple kind and summarise the records."""
    from eval_toolkit.metric_specs import ColumnSpec
    from eval_toolkit.scorecards import Records

    units = {unit.id: unit for unit in kind.units()}
    lines = [_scored(kind, units[one.unit_id], one) for one in attempts]
    named = [spec.column for spec in kind.metrics() if isinstance(spec, ColumnSpec)]
    names = list(dict.fromkeys([*named, *(name for values, _ in lines for name in values)]))
    attempted = [units[one.unit_id] for one in attempts]
    missing = [{} if not why else dict.fromkeys(names, why) for _, why in lines]
    states = {
        name: [
            "error" if why else "ok" if values.get(name) is not None else "skipped"
            for values, why in lines
        ]
        for name in names
    }
    records = Records.from_columns(
        {name: [values.get(name) for values, _ in lines] for name in names},
        unit_id=[unit.id for unit in attempted],
        attempt=[one.attempt for one in attempts],
        group=[unit.id if unit.group is None else unit.group for unit in attempted],
        content_hash=[unit.content_hash for unit in attempted],
        slices={
            part: [unit.parts.get(part, "(none)") for unit in attempted]
            for part in dict.fromkeys(name for unit in attempted for name in unit.parts)
        },
        status=states,
        reason={name: [why.get(name, "") for why in missing] for name in names},
    )
    spec = kind.summary
    from eval_toolkit.scorecards.policies import with_error_policies

    card = with_error_policies(
        records,
        list(kind.metrics()),
        by=kind.by if kind.by in records.slices else None,
        on_error=spec.on_error,
        confidence=spec.confidence,
        seed=spec.seed,
    )
    config = kind.config()
    subject = (str(config.get("slice", kind.name)), str(config.get("system", kind.name)))
    return Graded(
        subjects={subject: records},
        cards={subject: card},
        n_errors=sum(bool(why) for _, why in lines),
        counts={"n_units": len(units)},
    )


def _scored(kind: Kind[Any], unit: Unit, attempt: Attempt) -> tuple[Mapping[str, Any], str]:
    """Score an attempt; return its columns, or the reason why there are none."""
    if attempt.error:
        return {}, attempt.error
    try:
        return dict(kind.score(unit, attempt.output)), ""
    except Exception as error:  # a failed answer must not affect the others
        return {}, f"{type(error).__name__}: {error}"
