"""Requests to judges in a run, and assignment of their replies to answers."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeAlias

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.models.requests import GenerateRequest
from eval_toolkit.models.responses import RawCompletion
from eval_toolkit.models.runner import Job, JobResult
from eval_toolkit.protocols import Model

Attempt: TypeAlias = tuple[str, int]
"""Key of an answer: unit id and attempt."""
_PREFIX = "judge:"


class AskingGrader(Protocol):
    """A grader that needs replies from a judge model."""

    @property
    def name(self) -> str:
        """Name of the judge and prefix of its columns; unique within a run."""
        ...

    @property
    def version(self) -> str:
        """Version of the judge; changes whenever its results may change."""
        ...

    @property
    def asked(self) -> Model:
        """The judge model."""
        ...

    def describe(self) -> Mapping[str, Any]:
        """Describe the model and all settings that affect verdicts, for the manifest."""
        ...

    def requests(self, response: Any) -> Mapping[str, GenerateRequest]:
        """Return the requests for judging an answer by step; steps start with ``judge:<name>``."""
        ...

    def grade(
        self, response: Any, replies: Mapping[str, RawCompletion] | None = None
    ) -> Mapping[str, Any]:
        """Return the value of each column, parsed from the replies by step."""
        ...


def is_judge(grader: Any) -> bool:
    """Return whether a grader needs replies from a judge model."""
    return callable(getattr(grader, "requests", None))


def judges_in(graders: Iterable[Any]) -> list[AskingGrader]:
    """Return the judges among graders; members of panels are listed individually.

    Raises `InvalidInputError` if two judges have the same name.

    Examples
    --------
    >>> from eval_toolkit.graders import ExactMatch
    >>> judges_in([ExactMatch()])
    []
    """
    judges: list[AskingGrader] = []
    for grader in graders:
        if is_judge(grader):
            judges += getattr(grader, "judges", (grader,))
    names = [judge.name for judge in judges]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInputError(
                f"two judges are named {name!r}; set a different `name` for one of them"
            )
    return judges


def judge_of(step: str) -> str | None:
    """Return the name of the judge of a step; None for steps that generate answers."""
    return step.removeprefix(_PREFIX).partition(":")[0] if step.startswith(_PREFIX) else None


def apart(outcomes: Iterable[JobResult]) -> tuple[list[JobResult], list[JobResult]]:
    """Separate job results into answers and verdicts."""
    answers: list[JobResult] = []
    verdicts: list[JobResult] = []
    for outcome in outcomes:
        (answers if judge_of(outcome.job.step) is None else verdicts).append(outcome)
    return answers, verdicts


def replies_in(verdicts: Iterable[JobResult]) -> dict[Attempt, dict[str, RawCompletion]]:
    """Return the judges' replies to each answer, by step; failed requests have an error."""
    replies: dict[Attempt, dict[str, RawCompletion]] = {}
    for outcome in verdicts:
        job, response = outcome.job, outcome.response
        reply = (
            response
            if isinstance(response, RawCompletion)
            else RawCompletion("", error=outcome.error)
        )
        replies.setdefault((job.unit_id, job.attempt), {})[job.step] = reply
    return replies


def judge_jobs(judge: AskingGrader, responses: Mapping[Attempt, Any]) -> list[Job]:
    """Return the jobs that send answers to a judge.

    Answers that cannot be judged get no job; their grade states the reason.

    Examples
    --------
    >>> from eval_toolkit.graders.judges import Judge
    >>> from eval_toolkit.models.scripted import ScriptedModel
    >>> from eval_toolkit.models.responses import Completion
    >>> judge = Judge("refusal", ScriptedModel("no"))
    >>> [job.key for job in judge_jobs(judge, {("q1", 1): Completion("Rome", id="q1")})]
    [('q1', 1, 'judge:refusal')]
    """
    jobs = []
    for (unit, attempt), response in responses.items():
        try:
            requests = judge.requests(response)
        except Exception:  # noqa: S112 - `grade` reports it in the answer's record
            continue
        for step, request in requests.items():
            if judge_of(step) != judge.name:
                raise InvalidInputError(
                    f"judge {judge.name!r} has a request with the step {step!r}; it must be "
                    f"'{_PREFIX}{judge.name}' or start with '{_PREFIX}{judge.name}:'"
                )
            jobs.append(Job(unit, attempt, request, step))
    return jobs
