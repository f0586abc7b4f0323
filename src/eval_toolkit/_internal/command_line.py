"""Which command line is running, for the manifests of the runs it makes."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["capture_command", "recording_command"]

_COMMAND: ContextVar[str] = ContextVar("command", default="")


@contextmanager
def recording_command(program: str, args: Sequence[str]) -> Iterator[None]:
    """Let manifests made in the block say which command line they come from.

    Parameters
    ----------
    program : str
        Name of the program.
    args : sequence of str
        Its arguments; secrets in them are redacted when the manifest is written.

    Examples
    --------
    >>> with recording_command("eval-toolkit", ["score", "my file.csv"]):
    ...     capture_command()
    "eval-toolkit score 'my file.csv'"
    """
    token = _COMMAND.set(shlex.join([program, *args]))
    try:
        yield
    finally:
        _COMMAND.reset(token)


def capture_command() -> str:
    """Return the command line that is running, as a shell reads it; empty outside of one.

    Returns
    -------
    str
        Quoted where a shell needs it.

    Examples
    --------
    >>> capture_command()
    ''
    """
    return _COMMAND.get()
