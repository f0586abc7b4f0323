"""Grader results and column descriptions."""

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
    """Value of one column, or the reason why the value is missing.

    Examples
    --------
    >>> Grade(1.0).status
    'ok'
    >>> Grade.skipped("the model does not report token counts").value is None
    True
    """

    value: float | None
    status: Literal["ok", "skipped", "error"] = "ok"
    reason: str = ""
    text: str | None = None
    """Value of a string column; ``value`` is then None."""

    def __post_init__(self) -> None:
        absent = self.value is None or not math.isfinite(self.value)
        if self.status == "ok" and absent and self.text is None:
            raise InvalidInputError(
                f"`value` is {self.value}; a grade with status 'ok' must be finite (use "
                f"Grade.skipped for a missing value)"
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
        """Number or string stored in the grade."""
        return self.value if self.text is None else self.text

    @classmethod
    def skipped(cls, reason: str) -> "Grade":
        """Return a grade for a response on which the metric is undefined."""
        return cls(None, "skipped", reason)

    @classmethod
    def error(cls, reason: str) -> "Grade":
        """Return a grade for a response that could not be graded."""
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
    """Whether higher values are better; None if neither direction is better."""
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
"""Column of 0s and 1s."""
KEPT = ColumnInfo(higher_is_better=None, metric=False)
"""Column that is stored but not averaged."""
TEXT = ColumnInfo(higher_is_better=None, text=True)
"""Column of strings."""


def options_version(number: str) -> property:
    """Build a dataclass property ``version`` from a number and all non-default options."""

    def version(grader: Any) -> str:
        """Grader version; changes whenever the results may change."""
        given = []
        for option in fields(grader):
            value = getattr(grader, option.name)
            default = option.default if option.default is not MISSING else None
            if option.init and option.name != "name" and value != default:
                given.append(f"{option.name}={value!r}")
        return "+".join([number, *given])

    return property(version)


def references(response: Any) -> list[str]:
    """Return the references of a response; raise an error if it has none."""
    truths = [truth for truth in response.ground_truth_list if truth is not None]
    if not truths:
        raise InvalidInputError("the sample has no reference to grade against")
    return truths


def columns_of(grader: Any) -> Mapping[str, ColumnInfo]:
    """Return the columns of a grader; by default, one column named after it.

    Higher is better for the default column, except for names of known error metrics.
    """
    columns = getattr(grader, "columns", None)
    if callable(columns):
        return dict(columns())
    up = known_direction(str(grader.name)) is not False
    return {grader.name: ColumnInfo(higher_is_better=up)}
