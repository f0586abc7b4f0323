"""Command line recorded in run manifests."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

_COMMAND: ContextVar[str] = ContextVar("command", default="")


@contextmanager
def recording_command(program: str, args: Sequence[str]) -> Iterator[None]:
    """Record a command line for the duration of a ``with`` block.

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
    """Return the recorded command line, quoted for a shell, or "" outside a command.

    Returns
    -------
    str
        Program and arguments, quoted where necessary.

    Examples
    --------
    >>> capture_command()
    ''
    """
    return _COMMAND.get()
