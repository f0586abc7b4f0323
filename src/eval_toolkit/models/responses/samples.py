"""Answers with their samples, which graders take as input."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict, Unpack

from eval_toolkit._internal.options import gathers
from eval_toolkit.models.messages import Message, Role, read_messages
from eval_toolkit.models.responses.fields import (
    ABSENT,
    ErrorInfo,
    Fields,
    Usage,
    count,
    one,
    storable,
)
from eval_toolkit.models.responses.raw import RawLoglikelihood, Scored


class _Answered(Fields):
    """Fields shared by answers with samples."""

    __slots__ = ()
    ground_truth: str | tuple[str, ...] | None

    @property
    def ground_truth_list(self) -> list[Any]:
        """References; ``[None]`` if there are none."""
        truth = self.ground_truth
        return list(truth) if isinstance(truth, tuple) else [truth]


def _truth(given: Any) -> str | tuple[str, ...] | None:
    return tuple(given) if isinstance(given, (list, tuple)) else given


class Completion(_Answered):
    """Sample with the generated answer of a model, the input of completion graders.

    Parameters
    ----------
    completion : str
        Answer after the task's post-processing; also named ``completion_text``.
    id : str
        Unit id of the sample.
    subject : str
        Subject of the sample.
    ground_truth : str, list of str or None
        Reference or references.
    messages : sequence of Message, optional
        Conversation including the reply.
    raw_completion : str, optional
        Answer before post-processing; by default, ``completion``.
    attempt : int
        Index of the attempt at the unit.
    prompt : str
        Prompt as sent to the model.
    prompt_tokens, completion_tokens : int, optional
        Numbers of tokens; also named ``prompt_sequence_positions`` and
        ``raw_completion_sequence_positions``.
    finish_reason : str, optional
        See `RawCompletion`.
    context : object
        Additional context that the task provides for graders.
    usage : Usage
        Tokens, cost and latency.
    error : ErrorInfo, optional
        Reason why there is no answer; in that case, graders are not called.
    reasoning : str
        Reasoning of the model, which is not part of the answer.
    cut_off : bool, default False
        Whether the reply ends inside its reasoning and therefore has no answer.

    Examples
    --------
    >>> answer = Completion(completion_text="Rome", ground_truth=["Rome", "Roma"])
    >>> answer.completion, answer.ground_truth_list
    ('Rome', ['Rome', 'Roma'])
    """

    __slots__ = (
        "attempt",
        "completion",
        "completion_tokens",
        "context",
        "cut_off",
        "error",
        "finish_reason",
        "ground_truth",
        "id",
        "messages",
        "prompt",
        "prompt_tokens",
        "raw_completion",
        "reasoning",
        "subject",
        "usage",
    )

    def __init__(
        self,
        completion: str = ABSENT,
        *,
        completion_text: str = ABSENT,
        id: str = "",  # noqa: A002 - the published name
        subject: str = "",
        ground_truth: str | Sequence[str] | None = None,
        messages: Iterable[Message | Mapping[str, Any]] | None = None,
        raw_completion: str | None = None,
        attempt: int = 1,
        prompt: str = "",
        prompt_tokens: int | None = ABSENT,
        prompt_sequence_positions: int | None = ABSENT,
        completion_tokens: int | None = ABSENT,
        raw_completion_sequence_positions: int | None = ABSENT,
        finish_reason: str | None = None,
        context: Any = None,
        usage: Usage | None = None,
        error: ErrorInfo | None = None,
        reasoning: str = "",
        cut_off: bool = False,
    ) -> None:
        text = one("completion", completion, "completion_text", completion_text)
        self.completion = storable(text, "completion")
        self.id = id
        self.subject = subject
        self.ground_truth = _truth(ground_truth)
        self.messages = None if messages is None else read_messages(messages)
        self.raw_completion = self.completion if raw_completion is None else raw_completion
        self.attempt = attempt
        self.prompt = prompt
        self.prompt_tokens = count(
            "prompt_tokens", prompt_tokens, "prompt_sequence_positions", prompt_sequence_positions
        )
        self.completion_tokens = count(
            "completion_tokens",
            completion_tokens,
            "raw_completion_sequence_positions",
            raw_completion_sequence_positions,
        )
        self.finish_reason = finish_reason
        self.context = context
        self.usage = usage or Usage()
        self.error = error
        self.reasoning = storable(reasoning, "reasoning") if reasoning else ""
        self.cut_off = bool(cut_off)

    completion_text = property(lambda self: self.completion, doc="Same as ``completion``.")
    raw_completion_sequence_positions = property(
        lambda self: self.completion_tokens, doc="Same as ``completion_tokens``."
    )

    def _texts_by_role(self, *roles: Role) -> list[str]:
        return [message.content for message in self.messages or () if message.role in roles]

    @property
    def system_user_instruction(self) -> str:
        """System and user messages, joined by blank lines."""
        return "\n\n".join(self._texts_by_role(Role.SYSTEM, Role.USER))

    @property
    def user_instruction(self) -> str:
        """User messages, joined by blank lines."""
        return "\n\n".join(self._texts_by_role(Role.USER))

    @property
    def first_user_instruction(self) -> str:
        """First user message; "" if there is none."""
        return next(iter(self._texts_by_role(Role.USER)), "")

    @property
    def all_but_first_user_instruction(self) -> str:
        """All user messages except the first, joined by blank lines."""
        return "\n\n".join(self._texts_by_role(Role.USER)[1:])

    @property
    def last_user_instruction(self) -> str:
        """Last user message; "" if there is none."""
        return next(reversed(self._texts_by_role(Role.USER)), "")

    @property
    def sanitized_completion(self) -> str:
        """Answer in which ``<|…|>`` is broken up, so that it is not parsed as a control token."""
        return self.completion.replace("<|", "< |").replace("|>", "| >")


class _RawFields(TypedDict, total=False):
    """Fields shared with `RawLoglikelihood`."""

    n_tokens: Sequence[int] | Mapping[str, int] | None
    loglikelihoods_sequence_positions: Sequence[int] | Mapping[str, int] | None
    is_greedy: Sequence[bool] | None
    prompt: str
    prompt_tokens: int | None
    prompt_sequence_positions: int | None
    usage: Usage | None


class Loglikelihood(_Answered, Scored):
    """Sample with the log-likelihoods of its choices, the input of choice graders.

    Parameters
    ----------
    loglikelihoods : sequence of float, or mapping from choice to float
        See `RawLoglikelihood`.
    choices, n_tokens, is_greedy
        See `RawLoglikelihood`.
    id, subject, ground_truth, attempt, prompt, prompt_tokens, context, usage, error
        See `Completion`.

    Examples
    --------
    >>> answer = Loglikelihood([-0.5, -3.0], [" Rome", " Madrid"], ground_truth=" Rome")
    >>> answer.best, answer.margin
    (0, 2.5)
    """

    __slots__ = (
        "_numbers",
        "attempt",
        "choices",
        "context",
        "error",
        "ground_truth",
        "id",
        "is_greedy",
        "n_tokens",
        "prompt",
        "prompt_tokens",
        "subject",
        "usage",
    )

    @gathers(
        _RawFields,
        n_tokens=ABSENT,
        loglikelihoods_sequence_positions=ABSENT,
        is_greedy=None,
        prompt="",
        prompt_tokens=ABSENT,
        prompt_sequence_positions=ABSENT,
        usage=None,
    )
    def __init__(
        self,
        loglikelihoods: Sequence[float] | Mapping[str, float],
        choices: Sequence[str] = (),
        *,
        id: str = "",  # noqa: A002 - the published name
        subject: str = "",
        ground_truth: str | Sequence[str] | None = None,
        attempt: int = 1,
        context: Any = None,
        error: ErrorInfo | None = None,
        **raw_fields: Unpack[_RawFields],
    ) -> None:
        raw = RawLoglikelihood(
            loglikelihoods,
            choices,
            **raw_fields,
        )
        self._numbers, self.choices = raw._numbers, raw.choices
        self.n_tokens, self.is_greedy = raw.n_tokens, raw.is_greedy
        self.prompt, self.prompt_tokens = raw.prompt, raw.prompt_tokens
        self.usage = raw.usage
        self.id = id
        self.subject = subject
        self.ground_truth = _truth(ground_truth)
        self.attempt = attempt
        self.context = context
        self.error = error

    @property
    def best(self) -> int:
        """Index of the most likely choice; the first one in case of ties."""
        return max(range(len(self._numbers)), key=self._numbers.__getitem__)

    @property
    def margin(self) -> float | None:
        """Difference in log-likelihood between the two most likely choices; None for one choice."""
        if len(self._numbers) < 2:
            return None
        first, second = sorted(self._numbers, reverse=True)[:2]
        return 0.0 if first == second else first - second
