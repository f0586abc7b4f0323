"""Multiple-choice graders that reward calibrated confidence or a "don't know" choice."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eval_toolkit._internal.validation import number
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders.base import LOGLIKELIHOODS, ColumnInfo, Grade, options_version
from eval_toolkit.graders.choices import (
    ONE_CHOICE,
    check_normalise,
    choice_shares,
    mass,
    right_choices,
    suffix,
)


def likeliest(shares: list[float]) -> int:
    """Return the index of the largest share; the first one wins ties."""
    return max(range(len(shares)), key=shares.__getitem__)


def share_of_text(response: Any, shares: list[float], at: int) -> float:
    """Return the probability of a choice, summed over identical choices."""
    text = response.choices[at]
    return mass(shares, {place for place, other in enumerate(response.choices) if other == text})


@dataclass(frozen=True, slots=True)
class ConfidenceWeightedAccuracy:
    """Probability of the most likely choice if it is correct, and 0 if it is wrong.

    Parameters
    ----------
    normalise : {"none", "bytes", "characters", "tokens"}, default "none"
        Length by which each log-likelihood is divided before the softmax.

    Examples
    --------
    >>> import math
    >>> from eval_toolkit.models.responses import Loglikelihood
    >>> answer = Loglikelihood([math.log(0.6), math.log(0.2)], ["a", "b"], ground_truth="a")
    >>> round(ConfidenceWeightedAccuracy().grade(answer)["confidence_weighted_accuracy"], 12)
    0.75
    """

    normalise: str = "none"
    response_types = LOGLIKELIHOODS

    def __post_init__(self) -> None:
        check_normalise(self.normalise)

    @property
    def name(self) -> str:
        """Name: ``confidence_weighted_accuracy``, with a suffix such as ``_norm_bytes``."""
        return f"confidence_weighted_accuracy{suffix(self.normalise)}"

    version = options_version("1")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        return {self.name: ColumnInfo(bounds=(0.0, 1.0))}

    def grade(self, response: Any) -> Mapping[str, float | Grade]:
        """Return the probability of the most likely choice if it is correct, else 0."""
        right = right_choices(response)
        if len(response.loglikelihoods) < 2:
            return {self.name: ONE_CHOICE}
        shares = choice_shares(response, self.normalise)
        if isinstance(shares, Grade):
            return {self.name: shares}
        best = likeliest(shares)
        return {self.name: share_of_text(response, shares, best) if best in right else 0.0}


@dataclass(frozen=True, slots=True)
class _WithDontKnow:
    """Base class of scores with a "don't know" choice."""

    lc: float = 1.0
    lw: float = 1.0
    idk: str | None = None
    normalise: str = "none"
    response_types = LOGLIKELIHOODS

    def __post_init__(self) -> None:
        check_normalise(self.normalise)
        number(self.lw, "lw", low=0.0)
        number(self.lc, "lc", low=0.0, include_low=False)
        if self.lc < self.lw:
            raise InvalidInputError(
                f"`lc` is {self.lc:g} and `lw` is {self.lw:g}; the gain of a correct choice, "
                f"`lc`, must be positive and at least the cost of a wrong one, `lw`"
            )
        if self.idk is not None and (not isinstance(self.idk, str) or not self.idk.strip()):
            raise InvalidInputError(f"`idk` is {self.idk!r}; it must be the text of a choice")

    version = options_version("1")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        return {self.name: ColumnInfo(bounds=(-float(self.lw), float(self.lc)))}  # type: ignore[attr-defined]

    def _dont_know(self, response: Any) -> set[int]:
        """Return the positions of the "don't know" choices."""
        if self.idk is None:
            return {len(response.choices) - 1}
        label = self.idk.strip().casefold()
        found = {at for at, text in enumerate(response.choices) if text.strip().casefold() == label}
        if not found:
            raise InvalidInputError(
                f"no choice is {self.idk!r}; set `idk` to the text of the don't-know choice"
            )
        return found


@dataclass(frozen=True, slots=True)
class TernaryScore(_WithDontKnow):
    """Score of a right (``lc``), wrong (``-lw``) or "don't know" (0) choice.

    Parameters
    ----------
    lc, lw : float, default 1.0
        Gain for a correct choice and penalty for a wrong one; lc >= lw >= 0 and lc > 0.
    idk : str, optional
        The "don't know" choice, ignoring case and surrounding whitespace; the last choice by
        default. If this choice is the correct one, selecting it counts as correct.
    normalise : {"none", "bytes", "characters", "tokens"}, default "none"
        Length by which each log-likelihood is divided before the comparison.

    Examples
    --------
    >>> from eval_toolkit.models.responses import Loglikelihood
    >>> answer = Loglikelihood([-2.0, -3.0, -1.0], ["yes", "no", "I don't know"], ground_truth="yes")
    >>> TernaryScore().grade(answer)
    {'ternary_score': 0.0}
    """

    @property
    def name(self) -> str:
        """Name: ``ternary_score``, with a suffix such as ``_norm_bytes``."""
        return f"ternary_score{suffix(self.normalise)}"

    def grade(self, response: Any) -> Mapping[str, float | Grade]:
        """Return the score of the selected choice."""
        right = right_choices(response)
        if len(response.loglikelihoods) < 2:
            return {self.name: ONE_CHOICE}
        shares = choice_shares(response, self.normalise)
        if isinstance(shares, Grade):
            return {self.name: shares}
        best = likeliest(shares)
        if best in right:
            return {self.name: float(self.lc)}
        return {self.name: 0.0 if best in self._dont_know(response) else -float(self.lw)}


@dataclass(frozen=True, slots=True)
class DistributionalCorrectnessScore(_WithDontKnow):
    """Score ``(lc · p_right - lw · p_wrong) · (1 - p_dont_know)``, with p the softmax over choices.

    The probability of "don't know" reduces both the gain and the penalty. Samples whose correct
    choice is "don't know" are skipped.

    Parameters
    ----------
    lc, lw, idk, normalise
        See `TernaryScore`.

    Examples
    --------
    >>> import math
    >>> from eval_toolkit.models.responses import Loglikelihood
    >>> numbers = [math.log(p) for p in (0.1, 0.5, 0.4)]
    >>> answer = Loglikelihood(numbers, ["Bonn", "Rome", "I don't know"], ground_truth="Rome")
    >>> grades = DistributionalCorrectnessScore().grade(answer)
    >>> round(grades["distributional_correctness_score"], 12)
    0.24
    """

    @property
    def name(self) -> str:
        """Name: ``distributional_correctness_score``, with a suffix such as ``_norm_bytes``."""
        return f"distributional_correctness_score{suffix(self.normalise)}"

    def grade(self, response: Any) -> Mapping[str, float | Grade]:
        """Return the score of the distribution over choices."""
        right = right_choices(response)
        if len(response.loglikelihoods) < 2:
            return {self.name: ONE_CHOICE}
        unknown = self._dont_know(response)
        if right & unknown:
            return {self.name: Grade.skipped("the correct choice is the don't-know choice")}
        shares = choice_shares(response, self.normalise)
        if isinstance(shares, Grade):
            return {self.name: shares}
        p_right, p_unknown = mass(shares, right), mass(shares, unknown)
        p_wrong = mass(shares, set(range(len(shares))) - right - unknown)
        return {self.name: (self.lc * p_right - self.lw * p_wrong) * (1.0 - p_unknown)}
