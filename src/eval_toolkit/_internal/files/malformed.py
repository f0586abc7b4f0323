"""Documents whose parts may be of any type: what a reader does not expect is one line as well."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eval_toolkit._internal.words import one_line
from eval_toolkit.errors import EvalToolkitError, InvalidInputError

__all__ = ["malformed"]

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
    """Refuse a document where reading it fails because of the type or shape of a part.

    Readers check what people get wrong and say it in words. Nobody can list every part of another
    tool's document with every type that it may have; for these, the error is told as it is.

    Parameters
    ----------
    place : str or path
        Where the document is, for the message.
    what : str
        What it is: "log", "suite".
    error : class, default InvalidInputError
        What is raised. Errors of the toolkit pass as they are.

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
