"""Scorers that use judges to score the replies in conversations."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from eval_toolkit._internal import validation
from eval_toolkit._internal.hashing import canonical_json, sha256_text
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.graders.base import ColumnInfo, Grade, columns_of
from eval_toolkit.graders.judges.requests import AskingGrader, is_judge, judges_in
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.models.responses import Completion, RawCompletion
from eval_toolkit.models.runner import Job, JobResult
from eval_toolkit.models.runner.jobs import Key
from eval_toolkit.protocols import Model
from eval_toolkit.rollouts.conversations import Conversation
from eval_toolkit.rollouts.scorers.base import MODES
from eval_toolkit.rollouts.scorers.checking import Scored, failure_line, numbers_only
from eval_toolkit.runs.context import Asker

TurnKey: TypeAlias = tuple[str, int, str]
"""Unit id and attempt of a rollout, and position of a turn in it, e.g. "0.1"."""


class Asks(Protocol):
    """Interface for sending a judge's requests, e.g. `runs.context.Asker`."""

    def ask_jobs(self, jobs: Iterable[tuple[Model, list[Job]]]) -> Sequence[JobResult]:
        """Send the requests of the jobs and return their outcomes."""
        ...


def completion_of(conversation: Any) -> Completion:
    r"""Convert the last answer of a conversation to the input format of judges.

    A plain string is treated as an answer without a question. The question contains the tester's
    goal (unless the first probe already states it) and all messages before the answer. ``context``
    contains ``goal``, ``probe`` and ``turn``.

    Examples
    --------
    >>> conversation = Conversation("A joke").with_probe("Tell one.").with_response("No.")
    >>> completion_of(conversation).last_user_instruction
    'What the user is after: A joke\n\nuser: Tell one.'
    """
    if not isinstance(conversation, Conversation):
        return _completion("", str(conversation), {})
    if not conversation.turns or conversation.probe is not None:
        raise InvalidInputError("the conversation does not end with an answer")
    *before, last = conversation.turns
    lines = []
    for turn in before:
        lines += [f"user: {turn.probe}", f"assistant: {turn.response}"]
    lines.append(f"user: {last.probe}" if before else last.probe)
    goal = conversation.goal.strip()
    if goal and goal not in conversation.turns[0].probe:
        lines[-1] = f"user: {last.probe}"
        lines.insert(0, goal if conversation.opening else f"What the user is after: {goal}")
    context = {"goal": goal, "probe": last.probe, "turn": conversation.n_turns}
    return _completion("\n\n".join(lines), last.response, context)


def _completion(question: str, answer: str, context: Mapping[str, Any]) -> Completion:
    question_messages = [Message(Role.USER, question)] if question else []
    return Completion(
        answer,
        # Keyed by what is judged: a sampled verdict is the same wherever the turn occurs.
        id=sha256_text(canonical_json([question, answer]))[:16],
        messages=[*question_messages, Message(Role.ASSISTANT, answer)],
        prompt=question,
        context=dict(context),
    )


class JudgeScorer:
    """Scorer that scores answers by the verdicts of a judge.

    If a verdict is missing or cannot be parsed, `score_turns` returns the reason instead of a
    score.

    Parameters
    ----------
    judge : Judge or Panel
        Judge or panel of judges, as used for tasks.
    field : str, optional
        Field of the rubric to use as the score; required if the rubric has several.
    threshold : float, optional
        Threshold at which an answer counts as bad; by default, the midpoint of the scale.
    higher_is_worse : bool, optional
        Whether higher scores are worse; by default, the direction of the rubric. Required if the
        rubric has none.
    mode : {"turn", "cumulative", "final"}, default "turn"
        Whether to judge every answer or only the last one. "cumulative" is equivalent to "turn",
        since a judge always sees the whole conversation.
    name : str, optional
        Name of the scorer; by default, the name of the judge.

    Attributes
    ----------
    asker : Asks
        Object that sends the requests; it can be replaced by an `Asker` with a cache or a limit.
        During a run, requests are sent through the run.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If ``judge`` is not a judge, the field does not exist, or a direction or threshold is
        required.

    Examples
    --------
    >>> from eval_toolkit.graders.judges import Judge
    >>> from eval_toolkit.models.scripted import ScriptedModel
    >>> scorer = JudgeScorer(Judge("harmfulness", ScriptedModel("yes")))
    >>> scorer.threshold, scorer.higher_is_worse
    (0.5, True)
    >>> scorer.score_turns([Conversation("Insult me").with_probe("Do it.").with_response("Fool.")])
    [1.0]
    """

    keeps_keys = True
    """Whether verdicts are stored under the keys of turns, if they are passed."""

    def __init__(
        self,
        judge: Any,
        *,
        field: str | None = None,
        threshold: float | None = None,
        higher_is_worse: bool | None = None,
        mode: str = "turn",
        name: str | None = None,
    ) -> None:
        if isinstance(judge, type) or not (is_judge(judge) and callable(judge.grade)):
            raise InvalidTypeError(f"`judge` is {judge!r:.80}; it must be a Judge or a Panel")
        self.judge = judge
        self._judges: list[AskingGrader] = judges_in([judge])
        self._column, info = _column(judge, field)
        self.name = name or self._column
        self.mode = validation.choice(mode, "mode", MODES)
        self.threshold = _threshold(threshold, info, self._column)
        self.bounds = info.bounds
        self.higher_is_worse = _direction(higher_is_worse, info, self._column)
        self.asker: Asks = Asker()

    def __repr__(self) -> str:
        return f"JudgeScorer({self.judge!r}, field={self._column!r})"

    @property
    def version(self) -> str:
        """Version, which changes with the judge, field, threshold, direction and mode."""
        options = f"{self._column}+threshold={self.threshold:g}"
        options += "" if self.higher_is_worse else "+higher_is_worse=False"
        options += "" if self.mode == "turn" else f"+mode={self.mode!r}"
        return f"1+{self.judge.version}+{options}"

    def describe(self) -> dict[str, Any]:
        """Return the settings of the judges for the manifest, as a JSON-serialisable dict."""
        return {judge.name: dict(judge.describe()) for judge in self._judges}

    def score(self, texts: Sequence[str]) -> list[float]:
        """Judge answers without a question.

        Raises an error with the reason if an answer has no verdict.
        """
        return numbers_only(self.name, self.checked(texts))

    def checked(self, texts: Sequence[str]) -> list[Scored]:
        """Return a number for each text, or the reason why it is missing."""
        return self._asked([completion_of(str(text)) for text in texts], None)

    def score_turns(
        self, conversations: Sequence[Any], keys: Sequence[TurnKey] | None = None
    ) -> list[Scored]:
        """Judge the last answers of conversations in one batch.

        Parameters
        ----------
        conversations : sequence of Conversation
            Conversations that end with the answer to judge.
        keys : sequence of (str, int, str), optional
            Unit id, attempt and position of each turn, under which the verdicts are stored; by
            default, a hash.

        Returns
        -------
        list of float or str
            Score of each answer, or "error: …" if the judge failed or its verdict could not be
            parsed.

        Raises
        ------
        ModelError, ArtifactError
            As in `run_jobs`.
        """
        return self._asked([completion_of(told) for told in conversations], keys)

    def _asked(self, answers: Sequence[Completion], keys: Sequence[TurnKey] | None) -> list[Scored]:
        told = [(answer.id, 1, "") for answer in answers] if keys is None else list(keys)
        jobs: dict[str, dict[Key, Job]] = {judge.name: {} for judge in self._judges}
        steps: list[dict[str, Key]] = []
        for answer, (unit, attempt, place) in zip(answers, told, strict=True):
            steps.append({})
            for judge in self._judges:
                for step, request in _requests(judge, answer).items():
                    own = f"{step}:{place}" if place else step
                    job = Job(unit, attempt, request, own)
                    # Equal answers are judged once; different ones need different keys.
                    if jobs[judge.name].setdefault(job.key, job).request != request:
                        job = Job(unit, attempt, request, f"{own}:{answer.id}")
                        jobs[judge.name][job.key] = job
                    steps[-1][step] = job.key
        outcomes = self.asker.ask_jobs(
            [(judge.asked, list(jobs[judge.name].values())) for judge in self._judges]
        )
        said = {outcome.job.key: _reply(outcome) for outcome in outcomes}
        replies = [{step: said[key] for step, key in own.items() if key in said} for own in steps]
        return [self._read(*pair) for pair in zip(answers, replies, strict=True)]

    def _read(self, answer: Completion, replies: Mapping[str, RawCompletion]) -> Scored:
        try:
            value = self.judge.grade(answer, replies)[self._column]
        except Exception as error:  # custom judges may fail in any way
            return f"error: {failure_line(error)}"
        if isinstance(value, Grade):
            return f"{value.status}: {value.reason}" if value.value is None else float(value.value)
        return float(value)


def _reply(outcome: JobResult) -> RawCompletion:
    response = outcome.response
    return (
        response if isinstance(response, RawCompletion) else RawCompletion("", error=outcome.error)
    )


def _requests(judge: AskingGrader, answer: Completion) -> Mapping[str, Any]:
    try:
        return judge.requests(answer)
    except Exception:  # reported by `grade` for this answer only
        return {}


def _column(judge: Any, field: str | None) -> tuple[str, ColumnInfo]:
    columns = {name: info for name, info in columns_of(judge).items() if info.metric}
    candidates = [judge.name] if field is None else [f"{judge.name}_{field}", field]
    for name in candidates:
        if name in columns:
            return name, columns[name]
    fields = ", ".join(name.removeprefix(f"{judge.name}_") for name in columns)
    problem = "several fields, so `field` is required" if field is None else f"no field {field!r}"
    raise InvalidInputError(f"the judge {judge.name!r} has {problem}; its fields are: {fields}")


def _threshold(given: float | None, info: ColumnInfo, column: str) -> float:
    if given is not None:
        return validation.number(given, "threshold")
    low, high = info.bounds
    middle = (low + high) / 2
    if not math.isfinite(middle):
        raise InvalidInputError(
            f"`threshold` is required, because the values of {column!r} are unbounded and have no "
            "midpoint"
        )
    return middle


def _direction(given: bool | None, info: ColumnInfo, column: str) -> bool:
    if given is None and info.higher_is_better is None:
        raise InvalidInputError(
            f"`higher_is_worse` is required, because the rubric defines no direction for {column!r}"
        )
    worse = not info.higher_is_better if given is None else given
    if not isinstance(worse, bool):
        raise InvalidTypeError(f"`higher_is_worse` is {worse!r:.60}; it must be True or False")
    return worse
