"""Text for a terminal: names from files may hold anything, and the reader may go at any time."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

__all__ = ["in_options", "one_line", "reader_may_go", "say"]

# What the library's errors advise, and the option that does it.
_OPTIONS = {
    "quoting=False takes": "--no-quoting takes",
    "pass overwrite=True": "say --overwrite",
    "with `pairs`": "with --pair A=B",
    "`header` is": "--header is",
    "`by`": "--by",
    "`formatter` is": "--format is",
    "`pass_at` is": "--pass-at is",
    "`attempts` is": "--attempts is",
    "`temperature` is": "--temperature is",
    "set `temperature`": "set --temperature",
    "`votes` is": "--votes is",
    "`human`": "--human",
    "Pass `strata` (the verdicts, if labels were bought by verdict) or `weights` "
    "(1 / chance of a label)": "Say --by-verdict if labels were bought by verdict",
    "set `num_fewshot`": "set --fewshot",
    "`item_sd`": "--item-sd",
    "`within_sd`": "--within-sd",
    "`judge_sd`": "--judge-sd",
    "`sensitivity`": "--sensitivity",
    "`specificity`": "--specificity",
    "`proportion`": "--expected",
    "`correlation`": "--correlation",
    "`effect`": "--effect",
    "`costs` names": "--cost names",
    "`api_key_env`": "--api-key-env",
    "`base_url`": "--base-url",
}


def in_options(message: str) -> str:
    """Return the library's advice in the words of the command line."""
    for argument, option in _OPTIONS.items():
        message = message.replace(argument, option)
    return message


def one_line(text: object) -> str:
    """Return a text on one line, with a blank for every character that does not print."""
    return "".join(c if c.isprintable() else " " for c in str(text))


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print a text; what the stream cannot show is written as escapes."""
    encoding = getattr(sys.stderr if err else sys.stdout, "encoding", None) or "utf-8"
    with reader_may_go(err=err):
        click.echo(text.encode(encoding, "backslashreplace").decode(encoding), err=err, nl=nl)


@contextmanager
def reader_may_go(*, err: bool = False) -> Iterator[None]:
    """Go on in silence when nobody reads the stream any more: exit codes stand without it."""
    try:
        yield
    except OSError as error:
        _silence(sys.stderr if err else sys.stdout)
        if error.errno != errno.EPIPE:
            raise


def _silence(stream: object) -> None:
    """Lead a stream nowhere, so that what it still holds does not fail again at the end."""
    try:
        number = stream.fileno()  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)
