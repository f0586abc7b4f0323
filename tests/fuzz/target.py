"""Fuzz targets, and the rule that every execution must satisfy."""

import contextlib
import io
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import click

from eval_toolkit._internal.command_line import recording_command
from eval_toolkit.cli.main import cli
from eval_toolkit.errors import EvalToolkitError

__all__ = ["REFUSALS", "SEEN", "BrokenError", "Input", "Place", "Target", "command", "each"]

CORPUS = Path(__file__).parent / "corpus"
REGRESSIONS = Path(__file__).parent / "regressions"
REFUSALS = (EvalToolkitError, click.ClickException)
"""Errors for rejected input; the command line prints one line and exits with code 2."""
Input = tuple[str, bytes]
"""Path of a file relative to its target's folder, and its content."""

SEEN: list[BaseException] = []
"""Errors of the current execution that were handled."""

_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class BrokenError(AssertionError):
    """Output violates the rule."""


@dataclass(frozen=True)
class Target:
    """A reader of untrusted input.

    Parameters
    ----------
    name : str
        Name of the target and of its corpus folder.
    reads : str
        Description of the input, for the table.
    run : callable
        Receives the folder and the name of the changed file. Must return or raise one of
        `REFUSALS`.
    prepare : callable, optional
        Creates other required files, such as stored runs.
    made : tuple of str
        Files created by ``prepare`` that are mutated like the corpus.
    fixed : tuple of str
        Files of the corpus that are not mutated.
    """

    name: str
    reads: str
    run: Callable[[Path, str], None]
    prepare: Callable[[Path], None] | None = None
    made: tuple[str, ...] = ()
    fixed: tuple[str, ...] = field(default=())

    def regressions(self) -> list[Input]:
        """Return the inputs of fixed findings."""
        folder = REGRESSIONS / self.name
        files = sorted(path for path in folder.glob("*/**/*") if path.is_file())
        return [("/".join(f.relative_to(folder).parts[1:]), f.read_bytes()) for f in files]


class Place:
    """Folder with all files of a target, of which one at a time is replaced."""

    def __init__(self, target: Target, folder: Path) -> None:
        self.target = target
        self.folder = folder
        if (CORPUS / target.name).is_dir():
            shutil.copytree(CORPUS / target.name, folder, dirs_exist_ok=True)
        names = [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()]
        if target.prepare is not None:
            target.prepare(folder)
        names = [name for name in names if name not in target.fixed]
        self.corpus: list[Input] = [
            (name, (folder / name).read_bytes()) for name in sorted([*names, *target.made])
        ]

    def execute(self, given: Input) -> None:
        """Run the target with one file changed, then restore the file."""
        SEEN.clear()
        name, data = given
        path = self.folder / name
        before = path.read_bytes() if path.is_file() else None
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        try:
            self.target.run(self.folder, name)
        finally:
            shutil.rmtree(self.folder / "out", ignore_errors=True)
            if before is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(before)


@contextlib.contextmanager
def placed(target: Target) -> Iterator[Place]:
    """Create a separate folder for a target."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        yield Place(target, Path(folder))


def each(*readings: Callable[[], object]) -> None:
    """Run several readers on the same input; raise the first error if all of them reject it."""
    for reading in readings:
        try:
            reading()
        except REFUSALS as refusal:
            SEEN.append(refusal)
    if readings and len(SEEN) >= len(readings):
        raise SEEN[0]


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="")


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()


def command(*args: object, codes: tuple[int, ...] = (0, 1, 2)) -> str:
    """Run the command line in this process and return its output.

    Raises
    ------
    BrokenError
        If the exit code is unexpected, or the output contains terminal control sequences.
    """
    given = [str(arg) for arg in args]
    out, err = _stream(), _stream()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        recording_command("eval-toolkit", given),
    ):
        code = cli.main(args=given, prog_name="eval-toolkit", standalone_mode=False)
    if isinstance(code, int) and code not in codes:
        raise BrokenError(f"exit code {code}: {_text(err)[-300:]}")
    written = _text(out) + _text(err)
    if found := _UNSAFE.search(written):
        near = written[max(0, found.start() - 40) : found.end() + 20]
        raise BrokenError(f"{given[0]} writes {found[0]!r} to the terminal: {near!r}")
    return _text(out)
