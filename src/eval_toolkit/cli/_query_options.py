"""Options and behaviour shared by commands that query models: storage, progress, resuming."""

import contextlib
import errno
import functools
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from eval_toolkit._internal.display.progress import ProgressBar
from eval_toolkit._internal.hashing import canonical_json, sha256_text
from eval_toolkit._internal.words import one_line
from eval_toolkit.cli._exit import EXIT_FAILED
from eval_toolkit.cli._messages import in_options, say
from eval_toolkit.cli._options import form_options, passing
from eval_toolkit.cli._output import Output
from eval_toolkit.errors import ArtifactError, ModelError
from eval_toolkit.models.runner import Progress
from eval_toolkit.models.servers import cost_text
from eval_toolkit.runs.open import JOURNAL

_RUNS = Path("runs")
ONLY_RANKED = "eval_toolkit.only_ranked"
"""Context key that omits the pages of individual runs in single-document formats."""
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
reasoning_option = click.option(
    "--reasoning-tags",
    nargs=2,
    multiple=True,
    metavar="OPEN CLOSE",
    help=(
        "Tags that delimit the model's reasoning, which is not graded, e.g. <think> and </think>. "
        "Repeatable."
    ),
)


@dataclass(frozen=True)
class QueryOptions:
    """Settings of a command that queries a model, apart from the requests themselves."""

    counted: dict[str, Any]
    """Handling of failures, and interval options."""
    engine: dict[str, Any]
    """Concurrency and cache, which do not affect results."""
    output: Output
    out: str | None
    stored: bool
    quiet: bool

    def folder(self, name: str, settings: Mapping[str, Any]) -> Path | None:
        """Return the run folder: ``--out``, or a folder name derived from the request."""
        if not self.stored:
            return None
        return Path(self.out) if self.out else kept_folder(name, settings)


_OPTIONS = (
    click.option("--on-error", type=click.Choice(["exclude", "as_zero"]), default="exclude",
                 show_default=True, help="How to count failed samples."),
    click.option("--max-error-rate", default=0.0, show_default=True, type=click.FloatRange(0, 1),
                 help="Maximum share of failed samples; exit with code 3 if it is exceeded."),
    click.option("--confidence", default=0.95, show_default=True, help="Confidence level of the intervals.",
                 type=click.FloatRange(0, 1, min_open=True, max_open=True)),
    click.option("--concurrency", type=click.IntRange(1), help="Number of concurrent requests."),
    click.option("--patience", type=click.FloatRange(min=0), metavar="MINUTES",
                 help="Maximum time to wait for an unavailable server before exiting with code 3.  "
                     "[default: 30 if the server has responded before]"),
    click.option("--cache", type=click.Path(dir_okay=False), help="SQLite file that caches answers."),
    click.option("--out", type=click.Path(file_okay=False), metavar="FOLDER",
                 help="Run folder; repeat the same command to resume.  [default: "
                     "a folder below runs/]"),
    click.option("--no-store", is_flag=True, help="Do not store the run."),
    form_options,
    click.option("--quiet", is_flag=True, help="Do not show progress on standard error."),
)  # fmt: skip


def _asked(
    *, out: str | None, no_store: bool, patience: float | None, **given: Any
) -> QueryOptions:
    if out is not None and not out.strip():
        raise click.UsageError("--out is empty; specify a folder")
    if out is not None and no_store:
        raise click.UsageError("pass either --out or --no-store, not both")
    return QueryOptions(
        counted={name: given[name] for name in ("on_error", "max_error_rate", "confidence")},
        engine={
            **{name: given[name] for name in ("concurrency", "cache")},
            "patience_s": None if patience is None else 60.0 * patience,
        },
        output=given["output"],
        out=out,
        stored=not no_store,
        quiet=given["quiet"],
    )


asking_options = passing(
    "asked",
    _asked,
    _OPTIONS,
    (
        *("on_error", "max_error_rate", "confidence", "concurrency", "patience", "cache"),
        *("out", "no_store", "output", "quiet"),
    ),
)
"""Add the options shared by commands that query models; the command receives ``asked``."""


def kept_folder(name: str, settings: Mapping[str, Any]) -> Path:
    """Return a folder name derived from the settings; equal settings give equal names.

    ``name`` is a readable prefix; ``settings`` must contain everything that affects the answers.
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:80]
    return _RUNS / f"{plain}-{sha256_text(canonical_json(settings))[:8]}"


@contextlib.contextmanager
def progress_bar(
    quiet: bool, begins: Callable[[Progress], str] | None = None
) -> Iterator[ProgressBar | None]:
    """Yield a progress display on standard error, or None with ``--quiet``.

    ``begins`` returns a line that is printed at the first update, before any request is sent.
    """
    if quiet or sys.stderr is None:
        yield None
        return
    show_line = functools.partial(say, err=True)
    with ProgressBar(show_line, begins, cost_text) as bar:
        yield bar


@contextlib.contextmanager
def resumable(folder: Path | None) -> Iterator[None]:
    """If the command is interrupted, print where finished answers are stored."""
    try:
        with _terminated_like_interrupted():
            yield
    except (KeyboardInterrupt, ModelError, ArtifactError) as stop:
        failed = isinstance(stop, ModelError) or _disk_failed(stop)
        if isinstance(stop, ArtifactError) and not failed:
            raise
        if failed:
            say(f"error: {in_options(' '.join(one_line(stop).split()))}", err=True)
        if folder is not None and (folder / JOURNAL).exists():
            say(
                f"finished answers are stored in {folder}; run the same command again to resume",
                err=True,
            )
        if failed:
            raise click.exceptions.Exit(EXIT_FAILED) from stop
        raise


@contextlib.contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, so pending requests can finish."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # after "&" in a shell script
    if ignored:  # asyncio only ends tasks if the signal has its default handler
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        if ignored:
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def _disk_failed(error: BaseException | None) -> bool:
    """Return whether an error was caused by a full or read-only disk."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _DISK:
            return True
        error = error.__cause__
    return False
