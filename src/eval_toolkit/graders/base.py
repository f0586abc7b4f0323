"""What graders give back and say about it: a value per column, or the reason there is none."""

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Literal

from eval_toolkit._internal.display import Displayed
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.metrics.directions import known_direction
from eval_toolkit.models.responses import ResponseType

__all__ = [
    "ColumnInfo",
    "Grade",
    "options_version",
    "references",
]

COMPLETIONS = (ResponseType.COMPLETION,)
"""What graders of texts have as ``response_types``."""
LOGLIKELIHOODS = (ResponseType.LOGLIKELIHOODS,)
"""What graders of choices have."""


@dataclass(frozen=True, slots=True)
class Grade(Displayed):
    """One value of one column, or why there is none.

    Examples
    --------
    >>> Grade(1.0).status
    'ok'
    >>> Grade.skipped("the model does not say how many tokens a choice has").value is None
    True
    """

    value: float | None
    status: Literal["ok", "skipped", "error"] = "ok"
    reason: str = ""
    text: str | None = None
    """What a column of texts keeps, in the place of a value."""

    def __post_init__(self) -> None:
        absent = self.value is None or not math.isfinite(self.value)
        if self.status == "ok" and absent and self.text is None:
            raise InvalidInputError(
                f"`value` is {self.value}; an 'ok' grade is a finite number (use Grade.skipped)"
            )
        if self.status not in ("ok", "skipped", "error"):
            raise InvalidInputError(
                f"`status` is {self.status!r}; it must be 'ok', 'skipped' or 'error'"
            )

    @classmethod
    def of(cls, given: "float | str | Grade", reason: str = "") -> "Grade":
        """Return the grade of a number or a text; a grade is one already."""
        if isinstance(given, Grade):
            return given
        if isinstance(given, str):
            return cls(None, "ok", reason, given)
        return cls(given, "ok", reason)

    @property
    def content(self) -> float | str | None:
        """The value, or the text."""
        return self.value if self.text is None else self.text

    @classmethod
    def skipped(cls, reason: str) -> "Grade":
        """Return a grade that does not exist for this response."""
        return cls(None, "skipped", reason)

    @classmethod
    def error(cls, reason: str) -> "Grade":
        """Return a grade that should have existed."""
        return cls(None, "error", reason)


@dataclass(frozen=True, slots=True)
class ColumnInfo:
    """How a column of grades is to be read.

    Examples
    --------
    >>> ColumnInfo(bounds=(0.0, 1.0), binary=True).higher_is_better
    True
    """

    higher_is_better: bool | None = True
    """None where neither direction is better."""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    """The smallest and the largest possible value."""
    binary: bool = False
    """Right or wrong: pass@k can be had from it."""
    metric: bool = True
    """False for what is kept in the records and not averaged, such as the number of a choice."""
    text: bool = False
    """Whether the column holds texts, such as the answer that was found; they are only kept."""

    def __post_init__(self) -> None:
        if self.text:
            object.__setattr__(self, "metric", False)


RATE = ColumnInfo(bounds=(0.0, 1.0), binary=True)
"""Of columns that say right or wrong."""
KEPT = ColumnInfo(higher_is_better=None, metric=False)
"""Of columns that are only kept."""
TEXT = ColumnInfo(higher_is_better=None, text=True)
"""Of columns that keep a text."""


def options_version(grader: Any, number: str) -> str:
    """Return a grader's version: its number and every option that is not as it is by default."""
    given = []
    for option in fields(grader):
        value = getattr(grader, option.name)
        default = option.default if option.default is not MISSING else None
        if option.init and option.name != "name" and value != default:
            given.append(f"{option.name}={value!r}")
    return "+".join([number, *given])


def references(response: Any) -> list[str]:
    """Return the references of a response, or raise where it has none."""
    truths = [truth for truth in response.ground_truth_list if truth is not None]
    if not truths:
        raise InvalidInputError("the sample has no reference to grade against")
    return truths


def columns_of(grader: Any) -> Mapping[str, ColumnInfo]:
    """Return what a grader says about its columns; one named like itself if it says nothing.

    More of that one is better, unless its name is known for the opposite.
    """
    told = getattr(grader, "columns", None)
    if callable(told):
        return dict(told())
    up = known_direction(str(grader.name)) is not False
    return {grader.name: ColumnInfo(higher_is_better=up)}
