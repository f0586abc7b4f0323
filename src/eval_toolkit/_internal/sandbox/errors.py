"""Errors of contained calls: exceeded limits, and exceptions in the function."""

from eval_toolkit.errors import EvalToolkitError


class Overrun(EvalToolkitError, RuntimeError):  # noqa: N818 - not always a mistake
    """A contained call exceeded its limits.

    The kind "crash" is any other end of the process.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Failed(EvalToolkitError, RuntimeError):  # noqa: N818
    """The contained function raised or could not be called; the message gives name and error."""
