"""One-line errors for documents with unexpected types."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eval_toolkit._internal.words import one_line
from eval_toolkit.errors import EvalToolkitError, InvalidInputError

_UNEXPECTED = (
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


@contextmanager
def malformed(
    place: str | Path, what: str, *, error: type[EvalToolkitError] = InvalidInputError
) -> Iterator[None]:
    """Convert type and structure errors in a document to a one-line error.

    Readers report common mistakes with specific messages. This context manager handles all other
    unexpected types in documents from other tools. Errors of the toolkit propagate unchanged.

    Examples
    --------
    >>> with malformed("a.yaml", "task"):
    ...     [*{"task": 7}["task"]]
    Traceback (most recent call last):
    ...
    eval_toolkit.errors.InvalidInputError: a.yaml: the task is malformed: TypeError: Value after * must be an iterable, not int
    """
    try:
        yield
    except EvalToolkitError:
        raise
    except _UNEXPECTED as wrong:
        raise error(
            f"{place}: the {what} is malformed: {type(wrong).__name__}: {one_line(wrong):.200}"
        ) from wrong
