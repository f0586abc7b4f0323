"""Requests and their outcomes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, overload

from eval_toolkit._internal.validation import integer
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.models.payloads import Response
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest, Request
from eval_toolkit.models.responses import ErrorInfo
from eval_toolkit.models.runner.progress import Progress

Key: TypeAlias = tuple[str, int, str]
"""Unit, attempt, step."""


@dataclass(frozen=True, slots=True)
class Job:
    """One request of an attempt at a unit.

    Parameters
    ----------
    unit_id : str
        Id of the unit.
    attempt : int
        Index of the attempt at the unit.
    request : GenerateRequest or LoglikelihoodRequest
        Request to the model.
    step : str, default ""
        Name that distinguishes the requests of one attempt.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a field is invalid.

    Examples
    --------
    >>> Job("q1", 1, GenerateRequest("2 + 2 =")).key
    ('q1', 1, '')
    """

    unit_id: str
    attempt: int
    request: Request
    step: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.unit_id, str) or not self.unit_id:
            raise InvalidInputError(f"`unit_id` is {self.unit_id!r}; it must be a non-empty string")
        object.__setattr__(self, "attempt", integer(self.attempt, "attempt"))
        if not isinstance(self.request, (GenerateRequest, LoglikelihoodRequest)):
            raise InvalidTypeError(
                f"`request` of unit {self.unit_id!r} is {type(self.request).__name__}; it must be "
                "a GenerateRequest or a LoglikelihoodRequest"
            )
        if not isinstance(self.step, str):
            raise InvalidTypeError(f"`step` must be a string, got {self.step!r}")

    @property
    def key(self) -> Key:
        """Unique key of the job in a run."""
        return (self.unit_id, self.attempt, self.step)

    def loaded(self) -> "Job":
        """Return the job with its request in memory."""
        return self


@dataclass(frozen=True, slots=True)
class JobResult:
    """Outcome of a job: an answer, or the reason why there is none.

    Parameters
    ----------
    job : Job
        Job that was run.
    response : RawCompletion or RawLoglikelihood, optional
        Answer of the model.
    error : ErrorInfo, optional
        Reason why there is no answer.
    reused : bool, default False
        Whether the answer was reused from the journal or an earlier run.
    request_hash : str, default ""
        Hash of request and model; see `request_hash`.

    Examples
    --------
    >>> job = Job("q1", 1, GenerateRequest("2 + 2 ="))
    >>> JobResult(job, error=ErrorInfo("timeout", "no answer within 60 s")).ok
    False
    """

    job: Job
    response: Response | None = None
    error: ErrorInfo | None = None
    reused: bool = False
    request_hash: str = ""

    def __post_init__(self) -> None:
        if (self.response is None) == (self.error is None):
            raise InvalidInputError(
                f"the outcome of {self.job.key} needs either a response or an error"
            )

    @property
    def ok(self) -> bool:
        """Whether there is an answer."""
        return self.error is None

    def loaded(self) -> "JobResult":
        """Return the outcome with its request and its answer in memory."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "unit_id": self.job.unit_id,
            "attempt": self.job.attempt,
            "step": self.job.step,
            "request_hash": self.request_hash,
            "request": self.job.request.to_dict(),
            "response": None if self.response is None else self.response.to_dict(),
            "error": None if self.error is None else self.error.to_dict(),
            "reused": self.reused,
        }


@dataclass(frozen=True, slots=True, repr=False)
class JobResults(Sequence[JobResult]):
    """Outcomes of all jobs in order.

    Parameters
    ----------
    outcomes : tuple of JobResult
        Outcomes, one per job.
    progress : Progress
        Final counts.
    notes : tuple of str
        Notes for the user, e.g. on unusable stored answers and damaged lines.

    Examples
    --------
    >>> JobResults(())
    JobResults(0 jobs, 0 reused, 0 errors)
    """

    outcomes: tuple[JobResult, ...]
    progress: Progress = field(default_factory=Progress)
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        # Short, since asyncio formats the result of a task when the task ends.
        return f"JobResults({len(self)} jobs, {self.n_reused} reused, {self.n_errors} errors)"

    def __len__(self) -> int:
        return len(self.outcomes)

    @overload
    def __getitem__(self, index: int) -> JobResult: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[JobResult, ...]: ...
    def __getitem__(self, index: int | slice) -> JobResult | tuple[JobResult, ...]:
        return self.outcomes[index]

    @property
    def n_errors(self) -> int:
        """Number of jobs without an answer."""
        return sum(not outcome.ok for outcome in self.outcomes)

    @property
    def n_reused(self) -> int:
        """Number of jobs with a reused answer."""
        return sum(outcome.reused for outcome in self.outcomes)

    def to_dict(self) -> dict[str, Any]:
        """Return the counts and notes, without the answers, as a JSON-serialisable dict."""
        return {
            "n_jobs": len(self),
            "n_errors": self.n_errors,
            "n_reused": self.n_reused,
            "progress": self.progress.to_dict(),
            "notes": list(self.notes),
        }
