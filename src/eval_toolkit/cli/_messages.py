"""Terminal output: reword messages, escape control characters and ignore closed streams."""

import errno
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import click

# Advice in library messages, with the corresponding advice for the command line.
_PHRASES = {
    "quoting=False treats": "--no-quoting treats",
    "pass keyed=False": "pass --no-id",
    "divide them by 100 if": "pass --scale percent if",
    "pass the other label as positive, or use 1 - score": "pass the other label as --positive",
    "which is not in label_map (": "which is none of the labels (",
    "); add it there": ")",
    "pass a `label_map` from label to 0 or 1": "pass --labels NEGATIVE,POSITIVE, or --positive LABEL",
    "pass overwrite=True": "pass --overwrite",
    "with `pairs`": "with --pair A=B",
    "`columns`={'answer': …}": "--answer-column",
    "`columns`={'reference': …}": "--reference-column",
    " (prompt= in Python)": "",
    " (answer= in Python)": "",
    " (graders=)": "",
    "choose `graders` that need none": "choose a --grader that needs none",
    "set `num_fewshot`": "set --fewshot",
    "Pass `strata` (the verdicts, if labels were sampled by verdict) or `weights` "
    "(1 / probability of a label)": "Use --by-verdict if labels were sampled by verdict",
    "attempts; request at least ": "attempts; pass --attempts ",
    "rollouts; request at least ": "rollouts; pass --rollouts-per-seed ",
    "the command that wrote it did not finish": "the command that wrote it did not finish; eval-toolkit doctor shows what to do",
    "give one of them a different `name`": "give one of them a different name, as in bleu{name='other'}, "
    "if `graders show` lists that option, or leave it out",
    "name them with a mapping if": "name them, NAME=RUN, if",
    "name the systems with a mapping": "name the systems, NAME=RUN",
    "`method` is 'bayes', which": "--bayes",
    "use 'bootstrap'": "leave it out",
    "pass log-likelihoods as a mapping or a callable": "TEXT answers open questions only",
}
_PAIRS = " Pair scorers that have different names with `pairs`"
# Library arguments whose options have a different name.
_OTHER_NAMES = {
    "width": "--until-width",
    "metric": "--until-metric",
    "metrics": "--metric",
    "half_width": "--width",
    "proportion": "--expected",
    "discordance": "--disagree",
    "reference": "--corpus",
    "scorer": "--scorer",
    "judges": "--judge",
    "prompt": "--prompt-column",
    "id": "--id-column",
    "topic": "--topic-column",
    "category": "--category-column",
    "safe": "--safe-column",
    "tokens": "--max-total-tokens",
    "calls": "--max-calls",
    "costs": "--cost",
}
_LABEL_PAIR = re.compile(r"pass label_map=\{('[^',]*'): 0, ('[^',]*'): 1\} with 1 for positive")
_MORE_ROLLOUTS = re.compile(r"(?<= rollouts); request at least \d+")
_ARGUMENT = re.compile(r"`(\w+)`")
_SET = re.compile(r"pass (\w+)=True|\b(\w+)='([^']*)'|option '(\w+)'")


def in_options(message: str, command: click.Command | None = None) -> str:
    """Reword a library message for the command line, by default for the running command.

    Arguments in backticks are replaced by the corresponding options of the command.

    Examples
    --------
    >>> command = click.Command("x", params=[click.Option(["--pass-hat"]), click.Option(["--on-x"])])
    >>> in_options("`pass_hat` is 4; leave them out with on_x='drop'", command)
    '--pass-hat is 4; leave them out with --on-x drop'
    """
    context = click.get_current_context(silent=True)
    command = command or (context.command if context else None)
    options = _options_of(command)
    if "pairs" not in options:
        message = message.replace(_PAIRS, "")
    if command is not None and "rollouts_per_seed" not in options:  # rollouts that already exist
        message = _MORE_ROLLOUTS.sub("", message)
    for phrase, said in _PHRASES.items():
        message = message.replace(phrase, said)

    def given(match: re.Match[str]) -> str:
        flag, name, value, refused = match.groups()
        option = options.get(flag or name or refused)
        if option is None:
            return match[0]
        return f"pass {option}" if flag else option if refused else f"{option} {shlex.quote(value)}"

    message = _LABEL_PAIR.sub(_as_pair, message)
    message = _ARGUMENT.sub(lambda found: options.get(found[1], found[0]), message)
    return _SET.sub(given, message)


def _as_pair(found: re.Match[str]) -> str:
    negative, positive = (word[1:-1] for word in found.groups())
    return f"pass --labels {shlex.quote(f'{negative},{positive}')}, the positive one last"


def _options_of(command: click.Command | None) -> dict[str, str]:
    """Return the option of a command that corresponds to a library argument."""
    if command is None:
        return {}
    own = {
        str(parameter.name): max(parameter.opts, key=len)
        for parameter in command.params
        if isinstance(parameter, click.Option)
    }
    others = {name: option for name, option in _OTHER_NAMES.items() if option in own.values()}
    return others | own


_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # paths collapse "//" to "/"


def on_this_machine(context: click.Context, option: click.Parameter, value: Any) -> Any:
    """Return the output path of an option; raise for URLs, which cannot be written to."""
    if value is not None and _ADDRESS.match(str(value)):
        raise click.BadParameter(
            f"{value} is a URL, but files are written locally; pass a path, and upload a finished "
            "run with eval_toolkit.runs.remote.push_run"
        )
    return value


_LONGEST = 4_000
"""Maximum number of characters of a message."""


def shown_safely(message: str, given: Iterable[str]) -> str:
    """Return a message without secrets in URLs; local copies of runs are referred to by URL.

    A very long message is truncated in the middle.
    """
    if len(message) > _LONGEST:
        cut = f" … ({len(message):,} characters) … "
        message = message[: _LONGEST * 3 // 4] + cut + message[-_LONGEST // 4 :]
    tables = sys.modules.get("eval_toolkit._internal.tables")
    message = message if tables is None else tables.named(message)
    copies = getattr(sys.modules.get("eval_toolkit.runs.remote"), "COPIES", {})
    for copy, address in copies.items():
        message = message.replace(copy, address)
    if ":/" not in message and not any("://" in one for one in given):
        return message
    from eval_toolkit.artifacts.remote import without_secrets  # rarely needed

    return without_secrets(message, given)


_ORDERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Matches control characters, including those that change the text direction."""


def say(text: str, *, err: bool = False, nl: bool = True, styled: bool = False) -> None:
    """Print a string, escaping control characters and characters that the stream cannot encode.

    A ``styled`` string contains terminal styles, and its data is already escaped.
    """
    if not styled:
        text = _ORDERS.sub(lambda found: ascii(found[0])[1:-1], text)
    encoding = getattr(sys.stderr if err else sys.stdout, "encoding", None) or "utf-8"
    with reader_may_go(err=err):
        click.echo(text.encode(encoding, "backslashreplace").decode(encoding), err=err, nl=nl)


@contextmanager
def reader_may_go(*, err: bool = False) -> Iterator[None]:
    """Ignore closed output streams, so that they do not affect the exit code."""
    try:
        yield
    except OSError as error:
        _silence(sys.stderr if err else sys.stdout)
        if error.errno != errno.EPIPE:
            raise


def _silence(stream: object) -> None:
    """Redirect a stream to the null device, so that flushing at exit does not fail again."""
    try:
        number = stream.fileno()  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)
