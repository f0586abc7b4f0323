"""The command line recorded in the manifests of runs."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

_COMMAND: ContextVar[str] = ContextVar("command", default="")


@contextmanager
def recording_command(program: str, args: Sequence[str]) -> Iterator[None]:
    """Return the running command line, quoted for a shell; empty if there is none.

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
    """Return the running command line, quoted for a shell; empty outside of one.

    Returns
    -------
    str
        Command line, quoted if the shell requires it.

    Examples
    --------
    >>> capture_command()
    ''
    """
    return _COMMAND.get()
