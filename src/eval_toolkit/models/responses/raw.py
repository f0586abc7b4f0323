"""Answers as a model gave them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict, Unpack

from eval_toolkit._internal import validation
from eval_toolkit._internal.options import gathers
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.models.responses.fields import (
    ABSENT,
    ErrorInfo,
    Fields,
    Usage,
    count,
    encoded_numbers,
    one,
    storable,
)
from eval_toolkit.models.responses.reasoning import (
    REASONING_TAGS,
    ReplyParts,
    Tags,
    split_reasoning,
)

__all__ = ["RawCompletion", "RawLoglikelihood", "Scored"]

_ROUNDING = 1e-6
"""By so much the logarithm of a probability may come out above 0; it is 0 then."""


class _CompletionNames(TypedDict, total=False):
    """Other names of fields."""

    completion: str
    prompt_sequence_positions: int | None
    completion_sequence_positions: int | None
    raw_completion_error: ErrorInfo | None


class RawCompletion(Fields):
    """The text a model generated, untouched.

    Parameters
    ----------
    text : str
        What was generated; ``completion`` is another name.
    prompt : str
        The exact text that was sent, where there is one.
    prompt_tokens, completion_tokens : int, optional
        None where the model does not say; ``…_sequence_positions`` are other names.
    finish_reason : str, optional
        "stop", "length", "content_filter" …
    usage : Usage
        What it took.
    error : ErrorInfo, optional
        Why there is no text; ``raw_completion_error`` is another name.
    reasoning : str
        What the model thought, where the server returns it apart from the text; reasoning between
        tags stays in the text, and `parts` tells it from the answer.
    reasoning_tokens : int, optional
        Tokens of all reasoning, where the server counts them.

    Examples
    --------
    >>> RawCompletion(text=" Rome").completion
    ' Rome'
    >>> RawCompletion("<think>Italy, so</think>Rome", completion_tokens=7).parts().answer
    'Rome'
    """

    __slots__ = (
        "completion_tokens",
        "error",
        "finish_reason",
        "prompt",
        "prompt_tokens",
        "reasoning",
        "reasoning_tokens",
        "text",
        "usage",
    )

    @gathers(
        _CompletionNames,
        completion=ABSENT,
        prompt_sequence_positions=ABSENT,
        completion_sequence_positions=ABSENT,
        raw_completion_error=ABSENT,
    )
    def __init__(
        self,
        text: str = ABSENT,
        *,
        prompt: str = "",
        prompt_tokens: int | None = ABSENT,
        completion_tokens: int | None = ABSENT,
        finish_reason: str | None = None,
        usage: Usage | None = None,
        error: ErrorInfo | None = ABSENT,
        reasoning: str = "",
        reasoning_tokens: int | None = None,
        **names: Unpack[_CompletionNames],
    ) -> None:
        self.text = storable(one("text", text, "completion", names["completion"]), "text")
        self.prompt = prompt
        self.prompt_tokens = count(
            "prompt_tokens",
            prompt_tokens,
            "prompt_sequence_positions",
            names["prompt_sequence_positions"],
        )
        self.completion_tokens = count(
            "completion_tokens",
            completion_tokens,
            "completion_sequence_positions",
            names["completion_sequence_positions"],
        )
        self.finish_reason = finish_reason
        self.usage = usage or Usage()
        self.error: ErrorInfo | None = one(
            "error", error, "raw_completion_error", names["raw_completion_error"], None
        )
        self.reasoning = storable(reasoning, "reasoning") if reasoning else ""
        self.reasoning_tokens = reasoning_tokens
        if reasoning_tokens is not None:
            self.reasoning_tokens = validation.integer(reasoning_tokens, "reasoning_tokens")

    def parts(self, tags: Tags = REASONING_TAGS, *, prompt: str = "") -> ReplyParts:
        """Tell the answer from the reasoning, that of the server and that between tags.

        Parameters
        ----------
        tags : sequence of (str, str)
            As in `split_reasoning`.
        prompt : str, optional
            The end of what was sent, where it may have opened the reasoning; ``prompt`` of the
            answer by default.

        Returns
        -------
        ReplyParts
            ``tokens`` are those that the server counts. Else they are estimated: the share of the
            reasoning in the characters, of the tokens of the whole reply.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If the tags are no pairs of texts.

        Examples
        --------
        >>> reply = RawCompletion("", reasoning="Italy, so", finish_reason="length")
        >>> reply.parts().cut_off
        True
        """
        begun = (prompt or self.prompt).rstrip().casefold()
        opened = not self.reasoning and any(begun.endswith(tag.casefold()) for tag, _ in tags)
        found = split_reasoning(self.text, tags, opened=opened)
        told = "\n\n".join(part for part in (self.reasoning, found.reasoning) if part)
        silent = bool(self.reasoning) and not self.text.strip() and self.finish_reason == "length"
        tokens = self.reasoning_tokens
        if tokens is None and not told:
            tokens = 0
        elif tokens is None and self.completion_tokens is not None:
            share = len(told) / (len(told) + len(found.answer))
            tokens = round(share * self.completion_tokens)
        return ReplyParts(found.answer, told, found.cut_off or silent, tokens)

    completion = property(lambda self: self.text, doc="The text, by its other name.")
    completion_sequence_positions = property(
        lambda self: self.completion_tokens, doc="Tokens of the text."
    )
    raw_completion_error = property(lambda self: self.error, doc="The error, by its other name.")


class Scored(Fields):
    """What answers with a number for each choice have in common."""

    __slots__ = ()
    _numbers: tuple[float, ...]
    choices: tuple[str, ...]
    n_tokens: tuple[int, ...] | None

    @property
    def loglikelihoods(self) -> list[float]:
        """One number per choice, in the order of the choices."""
        return list(self._numbers)

    @property
    def by_choice(self) -> dict[str, float]:
        """From choice to number; of equal choices the first."""
        return dict(zip(reversed(self.choices), reversed(self._numbers), strict=True))

    @property
    def loglikelihoods_sequence_positions(self) -> dict[str, int]:
        """From choice to its tokens; empty where they are not known."""
        return dict(zip(self.choices, self.n_tokens or (), strict=False))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types; a probability of 0 has the logarithm ``"-inf"`` there."""
        payload = Fields.to_dict(self)
        return {"loglikelihoods": encoded_numbers(payload.pop("_numbers")), **payload}


class _LoglikelihoodNames(TypedDict, total=False):
    """Other names of fields."""

    loglikelihoods_sequence_positions: Sequence[int] | Mapping[str, int] | None
    prompt_sequence_positions: int | None
    raw_loglikelihood_error: ErrorInfo | None


class RawLoglikelihood(Scored):
    """How likely each choice is, in the order of the choices.

    Parameters
    ----------
    loglikelihoods : sequence of float, or mapping from choice to float
        Natural logarithms, summed over the tokens of a choice; equal choices keep their own.
    choices : sequence of str
        The texts that were scored.
    n_tokens : sequence of int, optional
        Tokens of each choice; ``loglikelihoods_sequence_positions`` is another name.
    is_greedy : sequence of bool, optional
        Whether each choice is what the model would have generated.
    prompt, prompt_tokens, usage, error
        As in `RawCompletion`.

    Examples
    --------
    >>> raw = RawLoglikelihood({" Rome": -0.5, " Madrid": -3.0})
    >>> raw.loglikelihoods, raw.by_choice[" Rome"]
    ([-0.5, -3.0], -0.5)
    """

    __slots__ = (
        "_numbers",
        "choices",
        "error",
        "is_greedy",
        "n_tokens",
        "prompt",
        "prompt_tokens",
        "usage",
    )

    @gathers(
        _LoglikelihoodNames,
        loglikelihoods_sequence_positions=ABSENT,
        prompt_sequence_positions=ABSENT,
        raw_loglikelihood_error=ABSENT,
    )
    def __init__(
        self,
        loglikelihoods: Sequence[float] | Mapping[str, float],
        choices: Sequence[str] = (),
        *,
        n_tokens: Sequence[int] | Mapping[str, int] | None = ABSENT,
        is_greedy: Sequence[bool] | None = None,
        prompt: str = "",
        prompt_tokens: int | None = ABSENT,
        usage: Usage | None = None,
        error: ErrorInfo | None = ABSENT,
        **names: Unpack[_LoglikelihoodNames],
    ) -> None:
        self._numbers, self.choices = _scores(loglikelihoods, choices)
        self.n_tokens: tuple[int, ...] | None = _counts(
            one(
                "n_tokens",
                n_tokens,
                "loglikelihoods_sequence_positions",
                names["loglikelihoods_sequence_positions"],
                None,
            ),
            self.choices,
            len(self._numbers),
        )
        self.is_greedy = None if is_greedy is None else tuple(map(bool, is_greedy))
        self.prompt = prompt
        self.prompt_tokens = count(
            "prompt_tokens",
            prompt_tokens,
            "prompt_sequence_positions",
            names["prompt_sequence_positions"],
        )
        self.usage = usage or Usage()
        self.error: ErrorInfo | None = one(
            "error", error, "raw_loglikelihood_error", names["raw_loglikelihood_error"], None
        )

    raw_loglikelihood_error = property(lambda self: self.error, doc="The error, by its other name.")


def _scores(given: Any, choices: Iterable[str]) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Return numbers and choices in the order of the choices."""
    if isinstance(given, Mapping):
        choices = tuple(choices) or tuple(given)
        if set(choices) != set(given):
            raise InvalidInputError("`loglikelihoods` and `choices` do not name the same texts")
        given = [given[choice] for choice in choices]
    texts = tuple(choices)
    numbers = tuple(
        value if type(value) is float and value <= 0.0 else _number(value, at)
        for at, value in enumerate(given)
    )
    if texts and len(texts) != len(numbers):
        raise InvalidInputError(
            f"`loglikelihoods` has {len(numbers)} numbers but there are {len(texts)} choices"
        )
    return numbers, texts


def _number(value: Any, at: int) -> float:
    plain = value.item() if hasattr(value, "item") else value  # of numpy or torch
    if isinstance(plain, bool) or not isinstance(plain, (float, int)):
        raise InvalidTypeError(f"loglikelihoods[{at}] is {value!r}; it must be a number")
    if not plain <= _ROUNDING:
        raise InvalidInputError(
            f"loglikelihoods[{at}] is {plain}; it must be a log-probability, which is never above 0"
        )
    return min(float(plain), 0.0)


def _counts(given: Any, choices: tuple[str, ...], n: int) -> tuple[int, ...] | None:
    if given is None or (isinstance(given, Mapping) and not given):
        return None
    if isinstance(given, Mapping):
        if not set(choices) <= set(given):
            raise InvalidInputError("`n_tokens` and `choices` do not name the same texts")
        given = [given[choice] for choice in choices]
    counts = tuple(
        validation.integer(value, f"n_tokens[{at}]", low=1) for at, value in enumerate(given)
    )
    if len(counts) != n:
        raise InvalidInputError(f"`n_tokens` has {len(counts)} numbers but there are {n} choices")
    return counts
