"""Errors of sandboxed calls: exceeded limits, and exceptions in the function."""

from eval_toolkit.errors import EvalToolkitError


class Overrun(EvalToolkitError, RuntimeError):  # noqa: N818 - not always a mistake
    """A sandboxed call exceeded its limits.

    The kind "crash" means any other termination of the process.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Failed(EvalToolkitError, RuntimeError):  # noqa: N818
    """The sandboxed function raised or could not be called."""
