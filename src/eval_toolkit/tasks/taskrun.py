"""What a run of a task comes to: records, cells and counts, made from answers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from eval_toolkit import _validate
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.graders import ColumnInfo, load_grader
from eval_toolkit.protocols import Grader
from eval_toolkit.runner import Outcome
from eval_toolkit.runs import Run
from eval_toolkit.scorecards import Records, Scorecard
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.measuring import grader_columns, measure
from eval_toolkit.tasks.reporting import by_slice, task_metrics, task_scorecard
from eval_toolkit.tasks.types import Sample

__all__ = ["GraderLike", "Measuring", "TaskRun"]

GraderLike: TypeAlias = Grader | str | Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
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
    n_reused: int = 0
    """Answers that were there already."""
    n_failed_requests: int = 0
    n_errors: int = 0
    """Samples and attempts that lack a grade: no answer, post-processing or a grader failed."""
    error_rate: float = 0.0
    """Of samples and attempts."""
    too_many_errors: bool = False
    """Whether the rate is above what was allowed."""
    usage: Mapping[str, Any] = field(default_factory=dict)
    """Tokens and cost of all answers of the run."""
    elapsed_s: float = 0.0
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types; the records are a table of their own."""
        return {
            "run_id": self.results["run_id"],
            "path": None if self.run is None else str(self.run.path),
            "results": dict(self.results),
            "n_requests": self.n_requests,
            "n_reused": self.n_reused,
            "n_failed_requests": self.n_failed_requests,
            "n_errors": self.n_errors,
            "error_rate": self.error_rate,
            "too_many_errors": self.too_many_errors,
            "usage": dict(self.usage),
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
    on_error: str
    confidence: float
    max_error_rate: float

    @classmethod
    def of(
        cls,
        task: BaseTask[Any],
        graders: Sequence[GraderLike] | None,
        pass_at: Sequence[int],
        pass_hat: Sequence[int],
        on_error: str,
        confidence: float,
        max_error_rate: float,
        attempts: int,
    ) -> "Measuring":
        """Check everything before anything is asked."""
        if isinstance(graders, (str, Mapping)):
            raise InvalidTypeError(f"`graders` must be a list; write [{graders!r}]")
        made = tuple(load_grader(one) for one in (task.graders() if graders is None else graders))
        for name, ks in (("pass_at", pass_at), ("pass_hat", pass_hat)):
            for k in ks:
                if _validate.integer(k, name, low=1) > attempts:
                    raise InvalidInputError(
                        f"`{name}` is {k}, but each sample has {attempts} attempts; ask for at "
                        f"least attempts={k}"
                    )
        columns = grader_columns(made)
        task_metrics(columns, pass_at=pass_at, pass_hat=pass_hat)  # before anything is asked
        return cls(
            graders=made,
            columns=columns,
            pass_at=tuple(pass_at),
            pass_hat=tuple(pass_hat),
            on_error=_validate.choice(on_error, "on_error", ("exclude", "as_zero", "fail")),
            confidence=_validate.fraction(confidence, "confidence"),
            max_error_rate=_validate.number(max_error_rate, "max_error_rate", low=0.0, high=1.0),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what a configuration says about it."""
        return {
            "graders": {grader.name: grader.version for grader in self.graders},
            "pass_at": list(self.pass_at),
            "pass_hat": list(self.pass_hat),
            "on_error": self.on_error,
            "confidence": self.confidence,
        }

    def measured(
        self,
        task: BaseTask[Any],
        samples: Sequence[Sample],
        outcomes: Sequence[Outcome],
        config: Mapping[str, Any],
        run_id: str,
    ) -> TaskRun:
        """Return records, cells, results and counts."""
        records = measure(task, samples, outcomes, graders=self.graders)
        known = {name: self.columns.get(name, ColumnInfo()) for name in records.columns}
        metrics = task_metrics(known, pass_at=self.pass_at, pass_hat=self.pass_hat)
        card = task_scorecard(
            records,
            metrics,
            on_error=self.on_error,
            confidence=self.confidence,
            seed=config["seed"],
        )
        model = config["model"]["name"]
        results = {
            "schema_version": "v1",
            "run_id": run_id,
            "config": config,
            "by_slice": by_slice(task.NAME, model, records, card),
        }
        n_errors = _n_failed(records)
        rate = n_errors / len(records)
        return TaskRun(
            records=records,
            card=card,
            results=results,
            n_requests=len(outcomes),
            n_reused=sum(outcome.reused for outcome in outcomes),
            n_failed_requests=sum(not outcome.ok for outcome in outcomes),
            n_errors=n_errors,
            error_rate=rate,
            too_many_errors=rate > self.max_error_rate,
            usage=_usage(outcomes),
        )


def _n_failed(records: Records) -> int:
    """Return how many lines lack a grade in any column because something failed."""
    failed = None
    for status in records.status.values():
        bad = status == "error"
        failed = bad if failed is None else failed | bad
    return 0 if failed is None else int(failed.sum())


def _usage(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Return the sums over all answers."""
    total = {"prompt_tokens": 0, "completion_tokens": 0, "cost": 0.0, "n_cached": 0, "n_retries": 0}
    for outcome in outcomes:
        response = outcome.response
        if response is None:
            continue
        usage = response.usage
        total["prompt_tokens"] += usage.prompt_tokens or response.prompt_tokens or 0
        total["completion_tokens"] += (
            usage.completion_tokens or getattr(response, "completion_tokens", 0) or 0
        )
        total["cost"] += usage.cost
        total["n_cached"] += usage.cached
        total["n_retries"] += max(0, usage.tries - 1)
    return total
