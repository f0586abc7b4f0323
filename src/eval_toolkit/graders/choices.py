"""Graders of multiple choice by log-likelihood."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eval_toolkit._validate import choice
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders.base import (
    KEPT,
    LOGLIKELIHOODS,
    RATE,
    ColumnInfo,
    Grade,
    options_version,
    references,
)

__all__ = ["BitsPerByte", "ChoiceAccuracy", "ProbabilityMass", "right_choices"]

_SHORT = {"bytes": "bytes", "characters": "chars", "tokens": "tokens"}


def right_choices(response: Any) -> set[int]:
    """Return the positions of the choices that a reference names.

    Choices and references are compared as they are, and where none agrees without the space
    around them. A reference that names no choice is a mistake of the task: no model could be right.

    Raises
    ------
    InvalidInputError
        If no choice is right.

    Examples
    --------
    >>> from eval_toolkit.responses import Loglikelihood
    >>> right_choices(Loglikelihood([-1.0, -2.0], [" Rome", " Paris"], ground_truth="Rome"))
    {0}
    """
    if not response.choices:
        raise InvalidInputError("the response does not say which choices were scored")
    truths = references(response)
    right = {at for at, text in enumerate(response.choices) if text in truths}
    if not right:
        bare = {truth.strip() for truth in truths}
        right = {at for at, text in enumerate(response.choices) if text.strip() in bare}
    if not right:
        raise InvalidInputError(f"the reference {truths[0]!r} is none of the choices")
    return right


def _divisors(response: Any, normalise: str, leading_space: bool) -> list[int] | None:
    """Return the length of each choice, or None where the model does not tell its tokens."""
    if normalise == "tokens":
        return None if response.n_tokens is None else list(response.n_tokens)
    texts = response.choices if leading_space else [text.lstrip() for text in response.choices]
    if normalise == "bytes":
        return [len(text.encode("utf-8", "surrogatepass")) for text in texts]
    return [len(text) for text in texts]


@dataclass(frozen=True, slots=True)
class ChoiceAccuracy:
    """Whether the likeliest choice is right; of equally likely ones the first is taken.

    Its position is kept in the column ``choice`` (``choice_norm_bytes`` …), counted from 0 in the
    order the choices were asked in; ``margin`` keeps by how many nats it leads the next, 0 for a
    tie.

    Parameters
    ----------
    normalise : {"none", "bytes", "characters", "tokens"}, default "none"
        What each log-likelihood is divided by before they are compared.
    leading_space : bool, default True
        Whether white space before a choice counts in its bytes or characters. It is part of what
        was scored; lm-eval's ``acc_norm`` leaves it out.

    Examples
    --------
    >>> from eval_toolkit.responses import Loglikelihood
    >>> answer = Loglikelihood([-4.0, -3.0], [" Rome", " Ur"], ground_truth=" Rome")
    >>> ChoiceAccuracy().grade(answer)["accuracy"]
    0.0
    >>> ChoiceAccuracy("bytes").grade(answer)["accuracy_norm_bytes"]
    1.0
    """

    normalise: str = "none"
    leading_space: bool = True
    response_types = LOGLIKELIHOODS

    def __post_init__(self) -> None:
        choice(self.normalise, "normalise", ("none", *_SHORT))

    @property
    def _suffix(self) -> str:
        return "" if self.normalise == "none" else f"_norm_{_SHORT[self.normalise]}"

    @property
    def name(self) -> str:
        """``accuracy``, or with ``_norm_bytes``, ``_norm_chars``, ``_norm_tokens`` after it."""
        return f"accuracy{self._suffix}"

    @property
    def version(self) -> str:
        """Changes when the numbers may."""
        return options_version(self, "1")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return what is filled and how it is to be read."""
        columns = {self.name: RATE, f"choice{self._suffix}": KEPT}
        return columns if self._suffix else {**columns, "margin": KEPT}

    def grade(self, response: Any) -> Mapping[str, float | Grade]:
        """Return whether the choice is right, and which it is."""
        numbers = response.loglikelihoods
        if len(numbers) < 2:
            return self._nothing("there is one choice: nothing to choose between")
        right = right_choices(response)
        if max(numbers) == -math.inf:
            return self._nothing("the model finds every choice impossible", Grade.error)
        if self._suffix:
            lengths = _divisors(response, self.normalise, self.leading_space)
            if lengths is None:
                return self._nothing("the model does not say how many tokens a choice has")
            numbers = [
                number / (length or 1) for number, length in zip(numbers, lengths, strict=True)
            ]
        best = max(range(len(numbers)), key=numbers.__getitem__)
        grades: dict[str, float | Grade] = {
            self.name: float(best in right),
            f"choice{self._suffix}": float(best),
        }
        if not self._suffix:
            margin = response.margin or 0.0
            only = Grade.skipped("the model finds every other choice impossible")
            grades["margin"] = margin if math.isfinite(margin) else only
        return grades

    def _nothing(self, reason: str, state: Any = Grade.skipped) -> dict[str, Grade]:
        return dict.fromkeys(self.columns(), state(reason))


@dataclass(frozen=True, slots=True)
class BitsPerByte:
    """How many bits the model needs per UTF-8 byte of the right text; less is better.

    The first reference that was scored counts. The mean of the column weighs every sample alike,
    short texts as much as long ones. The bits per byte of the whole data are the sum of the column
    ``bits`` over the sum of the column ``bytes``, which are kept for that: a ratio of sums is not
    the mean of ratios.

    Examples
    --------
    >>> from eval_toolkit.responses import Loglikelihood
    >>> answer = Loglikelihood([-2.7725887222397811], ["Rome"], ground_truth="Rome")
    >>> BitsPerByte().grade(answer)
    {'bits_per_byte': 1.0, 'bits': 4.0, 'bytes': 4.0}
    """

    name = "bits_per_byte"
    response_types = LOGLIKELIHOODS

    @property
    def version(self) -> str:
        """Changes when the numbers may."""
        return options_version(self, "1")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return what is filled and how it is to be read."""
        return {
            self.name: ColumnInfo(higher_is_better=False, bounds=(0.0, math.inf)),
            "bits": KEPT,
            "bytes": KEPT,
        }

    def grade(self, response: Any) -> Mapping[str, float | Grade]:
        """Return bits, bytes and their ratio."""
        right = min(right_choices(response))
        n_bytes = len(response.choices[right].encode("utf-8", "surrogatepass"))
        number = response.loglikelihoods[right]
        if number == -math.inf:
            return dict.fromkeys(
                self.columns(), Grade.error("the model finds the reference impossible")
            )
        bits = -number / math.log(2) + 0.0  # never -0
        return {self.name: bits / n_bytes, "bits": bits, "bytes": float(n_bytes)}


@dataclass(frozen=True, slots=True)
class ProbabilityMass:
    """The share of the probability of all choices that falls on right ones.

    Examples
    --------
    >>> import math
    >>> from eval_toolkit.responses import Loglikelihood
    >>> answer = Loglikelihood([math.log(0.3), math.log(0.1)], ["a", "b"], ground_truth="a")
    >>> round(ProbabilityMass().grade(answer)["probability_mass"], 12)
    0.75
    """

    name = "probability_mass"
    response_types = LOGLIKELIHOODS

    @property
    def version(self) -> str:
        """Changes when the numbers may."""
        return options_version(self, "1")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return what is filled and how it is to be read."""
        return {self.name: ColumnInfo(bounds=(0.0, 1.0))}

    def grade(self, response: Any) -> Mapping[str, float | Grade]:
        """Return the softmax over choices, summed over the right ones."""
        right = right_choices(response)
        numbers = response.loglikelihoods
        top = max(numbers)
        if top == -math.inf:
            return {self.name: Grade.error("the model finds every choice impossible")}
        shares = [math.exp(number - top) for number in numbers]
        return {self.name: min(1.0, sum(shares[at] for at in sorted(right)) / sum(shares))}
