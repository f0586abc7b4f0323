"""Base class and validation for metrics of record columns."""

from collections.abc import Sequence
from typing import Any

from eval_toolkit.errors import InvalidInputError, InvalidTypeError


def checked_columns(name: str, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a metric; raise if they or the metric's name are invalid.

    Examples
    --------
    >>> checked_columns("accuracy", ["gold", "answer"])
    ('gold', 'answer')
    """
    if not isinstance(name, str) or not name:
        raise InvalidInputError(f"`name` is {name!r}; it must be a non-empty string")
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        raise InvalidTypeError(f"`columns` is {columns!r}; it must be a list of names")
    if not columns or not all(isinstance(column, str) and column for column in columns):
        raise InvalidInputError(
            f"`columns` is {columns!r}; it must contain at least one column name"
        )
    return tuple(columns)


class OfRecords:
    """Metric that requires records instead of labels and scores."""

    name: str
    columns: tuple[str, ...]

    def compute(self, y_true: Any, y_score: Any) -> float:
        """Raise, listing the required columns."""
        raise InvalidInputError(
            f"{self.name} needs records with the columns {', '.join(map(repr, self.columns))}: "
            "use `summarise`"
        )
