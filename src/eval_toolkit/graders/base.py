"""Results of graders, and descriptions of their columns."""

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Literal

from eval_toolkit._internal.display import Displayed
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.metrics.directions import known_direction
from eval_toolkit.models.responses import ResponseType

COMPLETIONS = (ResponseType.COMPLETION,)
"""Response types of graders for generated responses."""
LOGLIKELIHOODS = (ResponseType.LOGLIKELIHOODS,)
"""Response types of multiple-choice graders."""


@dataclass(frozen=True, slots=True)
class Grade(Displayed):
    """Value of one column, or the reason why there is none.

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
    """String for a string column, instead of a value."""

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
        """Convert a number or a string to a grade; a grade is returned unchanged."""
        if isinstance(given, Grade):
            return given
        if isinstance(given, str):
            return cls(None, "ok", reason, given)
        return cls(given, "ok", reason)

    @property
    def content(self) -> float | str | None:
        """Value or string of the grade."""
        return self.value if self.text is None else self.text

    @classmethod
    def skipped(cls, reason: str) -> "Grade":
        """Return a grade that is undefined for this response."""
        return cls(None, "skipped", reason)

    @classmethod
    def error(cls, reason: str) -> "Grade":
        """Return a failed grade."""
        return cls(None, "error", reason)


@dataclass(frozen=True, slots=True)
class ColumnInfo:
    """Description of a column of grades.

    Examples
    --------
    >>> ColumnInfo(bounds=(0.0, 1.0), binary=True).higher_is_better
    True
    """

    higher_is_better: bool | None = True
    """Whether higher is better; None if neither is better."""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    """Smallest and largest possible value."""
    binary: bool = False
    """Whether values are only 1 (right) or 0 (wrong), as pass@k requires."""
    metric: bool = True
    """Whether the column is averaged; False for stored values such as the index of a choice."""
    text: bool = False
    """Whether the column contains strings, such as the extracted answer; these are only stored."""

    def __post_init__(self) -> None:
        if self.text:
            object.__setattr__(self, "metric", False)


RATE = ColumnInfo(bounds=(0.0, 1.0), binary=True)
"""Description of binary columns."""
KEPT = ColumnInfo(higher_is_better=None, metric=False)
"""Description of columns that are only stored."""
TEXT = ColumnInfo(higher_is_better=None, text=True)
"""Description of columns that store a string."""


def options_version(number: str) -> property:
    """Return the property ``version`` of a dataclass: a number and all non-default options."""

    def version(grader: Any) -> str:
        """Version; it changes whenever the results may change."""
        given = []
        for option in fields(grader):
            value = getattr(grader, option.name)
            default = option.default if option.default is not MISSING else None
            if option.init and option.name != "name" and value != default:
                given.append(f"{option.name}={value!r}")
        return "+".join([number, *given])

    return property(version)


def references(response: Any) -> list[str]:
    """Return the references of a response; raise if it has none."""
    truths = [truth for truth in response.ground_truth_list if truth is not None]
    if not truths:
        raise InvalidInputError("the sample has no reference to grade against")
    return truths


def columns_of(grader: Any) -> Mapping[str, ColumnInfo]:
    """Return the columns of a grader; by default one column with its name.

    For the default column, higher is better unless its name is known otherwise.
    """
    told = getattr(grader, "columns", None)
    if callable(told):
        return dict(told())
    up = known_direction(str(grader.name)) is not False
    return {grader.name: ColumnInfo(higher_is_better=up)}
