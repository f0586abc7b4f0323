"""How a contained call can fail: the work used up what it may, or it raised."""

from eval_toolkit.errors import EvalToolkitError

__all__ = ["Failed", "Overrun"]


class Overrun(EvalToolkitError, RuntimeError):  # noqa: N818 - not always a mistake
    """A contained call used up what it may: the work's doing, not the caller's.

    Parameters
    ----------
    kind : {"time", "memory", "crash"}
        What ran out; a crash is any other end of the process.
    message : str
        One line.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Failed(EvalToolkitError, RuntimeError):  # noqa: N818
    """The contained function raised, or could not be called; the message names it and the error."""
