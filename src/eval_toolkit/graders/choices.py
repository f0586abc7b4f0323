"""Multiple-choice graders based on log-likelihoods."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eval_toolkit._internal.validation import choice
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

if TYPE_CHECKING:
    from eval_toolkit.protocols import MetricSpec

IMPOSSIBLE = Grade.error("every choice has probability zero")
ONE_CHOICE = Grade.skipped("there is only one choice")
_SHORT = {"bytes": "bytes", "characters": "chars", "tokens": "tokens"}


def right_choices(response: Any) -> set[int]:
    """Return the positions of the choices that match a reference.

    Choices are compared with references exactly, then, if none match, without surrounding
    whitespace. A reference that matches no choice is a task error, since no model could answer
    correctly.

    Examples
    --------
    >>> from eval_toolkit.models.responses import Loglikelihood
    >>> right_choices(Loglikelihood([-1.0, -2.0], [" Rome", " Paris"], ground_truth="Rome"))
    {0}
    """
    if not response.choices:
        raise InvalidInputError("the response does not contain the scored choices")
    truths = references(response)
    right = {at for at, text in enumerate(response.choices) if text in truths}
    if not right:
        bare = {truth.strip() for truth in truths}
        right = {at for at, text in enumerate(response.choices) if text.strip() in bare}
    if not right:
        raise InvalidInputError(f"the reference {truths[0]!r} is not one of the choices")
    return right


def check_normalise(normalise: str) -> None:
    """Raise an error if a normalisation is invalid."""
    choice(normalise, "normalise", ("none", *_SHORT))


def suffix(normalise: str) -> str:
    """Return the column name suffix of a normalisation."""
    return "" if normalise == "none" else f"_norm_{_SHORT[normalise]}"


def _divisors(response: Any, normalise: str, leading_space: bool) -> list[int] | None:
    """Return the length of each choice; None if token counts are unknown."""
    if normalise == "tokens":
        return None if response.n_tokens is None else list(response.n_tokens)
    texts = response.choices if leading_space else [text.lstrip() for text in response.choices]
    if normalise == "bytes":
        return [len(text.encode("utf-8", "surrogatepass")) for text in texts]
    return [len(text) for text in texts]


def _normalised(response: Any, normalise: str, leading_space: bool) -> list[float] | Grade:
    """Return normalised log-likelihoods, or the reason why they are undefined."""
    numbers = list(response.loglikelihoods)
    if max(numbers, default=-math.inf) == -math.inf:
        return IMPOSSIBLE
    if normalise == "none":
        return numbers
    lengths = _divisors(response, normalise, leading_space)
    if lengths is None:
        return Grade.skipped("the model does not report the number of tokens of a choice")
    return [number / (length or 1) for number, length in zip(numbers, lengths, strict=True)]


@dataclass(frozen=True, slots=True)
class ChoiceAccuracy:
    """Whether the most likely choice is correct; the first choice wins ties.

    The column ``choice`` (``choice_norm_bytes`` …) contains its position, counted from 0 in the
    order presented; ``margin`` contains its lead over the runner-up in nats, 0 for a tie.

    Parameters
    ----------
    normalise : {"none", "bytes", "characters", "tokens"}, default "none"
        Length by which each log-likelihood is divided before the comparison.
    leading_space : bool, default True
        Whether leading whitespace counts in a choice's bytes or characters. It is part of the
        scored text; lm-eval's ``acc_norm`` excludes it.

    Examples
    --------
    >>> from eval_toolkit.models.responses import Loglikelihood
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
        check_normalise(self.normalise)

    @property
    def name(self) -> str:
        """Name: ``accuracy``, with a suffix such as ``_norm_bytes``."""
        return f"accuracy{suffix(self.normalise)}"

    version = options_version("1")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        columns = {self.name: RATE, f"choice{suffix(self.normalise)}": KEPT}
        return columns if suffix(self.normalise) else {**columns, "margin": KEPT}

    def grade(self, response: Any) -> Mapping[str, float | Grade]:
        """Return whether the choice is correct, and its index."""
        if len(response.loglikelihoods) < 2:
            return dict.fromkeys(self.columns(), ONE_CHOICE)
        right = right_choices(response)
        numbers = _normalised(response, self.normalise, self.leading_space)
        if isinstance(numbers, Grade):
            return dict.fromkeys(self.columns(), numbers)
        best = max(range(len(numbers)), key=numbers.__getitem__)
        grades: dict[str, float | Grade] = {
            self.name: float(best in right),
            f"choice{suffix(self.normalise)}": float(best),
        }
        if not suffix(self.normalise):
            margin = response.margin or 0.0
            only = Grade.skipped("all other choices have probability zero")
            grades["margin"] = margin if math.isfinite(margin) else only
        return grades

    def answer(self, response: Any) -> str | None:
        """Return the selected choice, used as the vote in maj@k."""
        numbers = _normalised(response, self.normalise, self.leading_space)
        if isinstance(numbers, Grade):
            return None
        text: str = response.choices[max(range(len(numbers)), key=numbers.__getitem__)]
        return text


@dataclass(frozen=True, slots=True)
class BitsPerByte:
    """Bits per UTF-8 byte of the reference text; lower is better.

    Only the first scored reference is used. The mean of the column weights all samples equally,
    regardless of length. The bits per byte of the whole dataset, ``bits_per_byte_total``, is the
    ratio of the sums of the columns ``bits`` and ``bytes``, which differs from the mean of ratios.

    Examples
    --------
    >>> from eval_toolkit.models.responses import Loglikelihood
    >>> answer = Loglikelihood([-2.7725887222397811], ["Rome"], ground_truth="Rome")
    >>> BitsPerByte().grade(answer)
    {'bits_per_byte': 1.0, 'bits': 4.0, 'bytes': 4.0}
    """

    name = "bits_per_byte"
    response_types = LOGLIKELIHOODS

    version = options_version("1")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        return {
            self.name: ColumnInfo(higher_is_better=False, bounds=(0.0, math.inf)),
            "bits": KEPT,
            "bytes": KEPT,
        }

    def metrics(self) -> "list[MetricSpec]":
        """Return the corpus metric ``bits_per_byte_total``."""
        from eval_toolkit.metric_specs import ratio_of

        name = f"{self.name}_total"
        above = (0.0, math.inf)
        return [ratio_of(name, "bits", "bytes", higher_is_better=False, bounds=above)]

    def grade(self, response: Any) -> Mapping[str, float | Grade]:
        """Return the number of bits, the number of bytes and their ratio."""
        right = min(right_choices(response))
        n_bytes = len(response.choices[right].encode("utf-8", "surrogatepass"))
        number = response.loglikelihoods[right]
        if number == -math.inf:
            return dict.fromkeys(self.columns(), Grade.error("the reference has probability zero"))
        bits = -number / math.log(2) + 0.0  # avoid -0.0
        return {self.name: bits / n_bytes, "bits": bits, "bytes": float(n_bytes)}


def choice_shares(
    response: Any, normalise: str = "none", leading_space: bool = True
) -> list[float] | Grade:
    """Return each choice's share of the total probability, or the reason why it is undefined.

    ``normalise`` divides each log-likelihood before the softmax, by "bytes", "characters" or
    "tokens"; ``leading_space`` is as in `ChoiceAccuracy`.

    Examples
    --------
    >>> import math
    >>> from eval_toolkit.models.responses import Loglikelihood
    >>> choice_shares(Loglikelihood([math.log(0.5), math.log(0.5)], ["a", "b"]))
    [0.5, 0.5]
    """
    numbers = _normalised(response, normalise, leading_space)
    if isinstance(numbers, Grade):
        return numbers
    return softmax(numbers)


def softmax(numbers: Sequence[float]) -> list[float]:
    """Return the softmax of log-likelihoods; all zeros if every choice is impossible.

    Examples
    --------
    >>> softmax([-800.0, -800.0, -math.inf]), softmax([-math.inf])
    ([0.5, 0.5, 0.0], [0.0])
    """
    top = max(numbers, default=-math.inf)
    if top == -math.inf:
        return [0.0] * len(numbers)
    weights = [math.exp(number - top) for number in numbers]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def mass(shares: list[float], some: set[int]) -> float:
    """Return the total probability of some choices; exactly 1 if all are included."""
    if len(some) == len(shares):
        return 1.0
    return min(1.0, math.fsum(shares[at] for at in sorted(some)))


@dataclass(frozen=True, slots=True)
class ProbabilityMass:
    """Share of the probability of all choices that is assigned to the correct ones.

    Parameters
    ----------
    normalise : {"none", "bytes", "characters", "tokens"}, default "none"
        Length by which each log-likelihood is divided before the softmax.

    Examples
    --------
    >>> import math
    >>> from eval_toolkit.models.responses import Loglikelihood
    >>> answer = Loglikelihood([math.log(0.3), math.log(0.1)], ["a", "b"], ground_truth="a")
    >>> round(ProbabilityMass().grade(answer)["probability_mass"], 12)
    0.75
    """

    normalise: str = "none"
    response_types = LOGLIKELIHOODS

    def __post_init__(self) -> None:
        check_normalise(self.normalise)

    @property
    def name(self) -> str:
        """Name: ``probability_mass``, with a suffix such as ``_norm_bytes``."""
        return f"probability_mass{suffix(self.normalise)}"

    version = options_version("1")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        return {self.name: ColumnInfo(bounds=(0.0, 1.0))}

    def grade(self, response: Any) -> Mapping[str, float | Grade]:
        """Return the softmax over choices, summed over the correct ones."""
        right = right_choices(response)
        shares = choice_shares(response, self.normalise)
        if isinstance(shares, Grade):
            return {self.name: shares}
        return {self.name: mass(shares, right)}


@dataclass(frozen=True, slots=True)
class ChoicePosition:
    """Position of the selected choice and of the correct one, for `position_bias`.

    Columns: ``choice_position`` of the most likely choice (the first one wins ties), counted from 0
    in the order presented; ``choice_position_right`` of the first correct choice; and
    ``choice_position_n``, the number of choices. They are stored but not averaged.

    Examples
    --------
    >>> from eval_toolkit.models.responses import Loglikelihood
    >>> answer = Loglikelihood([-4.0, -3.0], [" A", " B"], ground_truth=" A")
    >>> ChoicePosition().grade(answer)
    {'choice_position': 1.0, 'choice_position_right': 0.0, 'choice_position_n': 2.0}
    """

    name = "choice_position"
    response_types = LOGLIKELIHOODS

    version = options_version("1")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        return dict.fromkeys((self.name, f"{self.name}_right", f"{self.name}_n"), KEPT)

    def grade(self, response: Any) -> Mapping[str, float | Grade]:
        """Return the selected and correct positions and the number of choices."""
        right, numbers = min(right_choices(response)), response.loglikelihoods
        chosen: float | Grade = float(response.best)
        if max(numbers) == -math.inf:
            chosen = IMPOSSIBLE
        return dict(zip(self.columns(), (chosen, float(right), float(len(numbers))), strict=True))
