"""Fenced blocks of a page: executed in order in one namespace, with their output compared.

| fence | what happens |
|---|---|
| ``python`` | executed; its output must equal the following ``text`` fence |
| ``python figure CAPTION`` | likewise; must assign a chart with a description to ``chart`` |
| ``sh run`` | executed in the page's folder; ``# exit 1`` ends a line that must fail |
| ``text`` | output of the preceding block |
| ``toml claims.toml``, ``csv rows.csv`` | written to that file |
| ``sh``, ``toml``, ``yaml``, …, ``none`` | not executed; the tests parse its commands |
| another language, or none | rejected |
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Fence", "Page", "check_fences", "fences", "run_page"]

LANGUAGES = ("python", "sh", "text", "none", "csv", "json", "jsonl", "toml", "tsv", "yaml")

_FENCE = re.compile(
    r"^(?P<ticks>`{3,})(?P<language>[\w+-]*)(?P<rest>[^\n`]*)\n(?P<code>.*?)^(?P=ticks)[ ]*$",
    flags=re.MULTILINE | re.DOTALL,
)
_FILE = re.compile(r"[\w-]+(\.[\w-]+)+")
_EXIT = re.compile(r"#\s*exit (\d+)\s*$")


@dataclass(frozen=True, slots=True)
class Fence:
    """A fenced block: its language, the words after it, and its text."""

    language: str
    words: str
    code: str
    line: int

    @property
    def is_figure(self) -> bool:
        """Whether the block draws a chart."""
        return self.language == "python" and self.words.split(" ")[0] == "figure"

    @property
    def caption(self) -> str:
        """Caption of the chart."""
        return self.words.removeprefix("figure").strip()

    @property
    def runs(self) -> bool:
        """Whether the block is executed."""
        return self.language == "python" or (self.language == "sh" and self.words == "run")

    @property
    def file(self) -> str:
        """File to which the block is written, or ""."""
        return self.words if self.language not in ("", "python", "sh") else ""


@dataclass(slots=True)
class Page:
    """Results of running a page."""

    names: dict[str, Any] = field(default_factory=dict)
    printed: list[str] = field(default_factory=list)
    figures: dict[int, Any] = field(default_factory=dict)
    """Charts by line number of their fence."""
    n_shown: int = 0
    """Number of text fences compared."""


def fences(text: str) -> list[Fence]:
    """Return the fenced blocks of a page, in order."""
    return [
        Fence(
            found["language"],
            found["rest"].strip(),
            found["code"],
            text.count("\n", 0, found.start()) + 1,
        )
        for found in _FENCE.finditer(text)
    ]


def check_fences(blocks: list[Fence], name: str) -> None:
    """Raise for blocks that would not be checked.

    Raises
    ------
    AssertionError
        If a fence has an unknown language or unknown words, shows output without a preceding
        block, or is a figure without a caption.
    """
    for before, fence in zip([None, *blocks], blocks, strict=False):
        where = f"{name}, line {fence.line}"
        known = fence.language in LANGUAGES or (not fence.language and fence.words.startswith("{"))
        _insist(known, f"{where}: a fence in {fence.language!r}; nothing looks at those")
        if fence.file:
            _insist(_FILE.fullmatch(fence.file), f"{where}: {fence.file!r} is no file name")
        elif fence.language in ("text", "none"):
            below = before is not None and before.runs
            _insist(
                below or fence.language == "none", f"{where}: `text` is output, and of no block"
            )
            _insist(not below or fence.language == "text", f"{where}: output belongs in `text`")
        elif fence.is_figure:
            _insist(fence.caption, f"{where}: a figure has a caption")
        else:
            meant = ("", "run") if fence.language == "sh" else ("",)
            said = fence.words in meant or not fence.language
            _insist(said, f"{where}: {fence.words!r} means nothing here")


def run_page(
    page: Path,
    folder: Path | None = None,
    *,
    names: dict[str, Any] | None = None,
    compare: bool = True,
) -> Page:
    """Run the blocks of a page in a folder.

    Parameters
    ----------
    page : Path
        A Markdown file.
    folder : Path, optional
        Working folder; by default a temporary folder.
    names : dict, optional
        Predefined names for the code.
    compare : bool, default True
        Whether to compare the output with the page.

    Returns
    -------
    Page
        Names, output and charts.

    Raises
    ------
    AssertionError
        If the output differs from the page, an exit code is unexpected, a figure has no chart, or
        `check_fences` rejects a block.
    """
    ran = Page(names={"__name__": "__page__", **(names or {})})
    blocks = fences(page.read_text("utf-8"))
    check_fences(blocks, page.name)
    last = ""
    with _inside(folder):
        for fence, following in zip(blocks, [*blocks[1:], None], strict=True):
            where = f"{page.name}, line {fence.line}"
            if fence.file:
                Path(fence.file).write_text(fence.code, "utf-8")
            elif fence.language == "text" and compare:
                same = last == fence.code
                _insist(same, f"{where}: the page shows\n{fence.code}\nand this is printed\n{last}")
                ran.n_shown += 1
            if not fence.runs:
                continue
            last = (
                _python(fence, ran, where) if fence.language == "python" else _shell(fence, where)
            )
            ran.printed.append(last)
            shown = following is not None and following.language == "text" and not following.file
            _insist(
                shown or not last or fence.language == "sh" or not compare,
                f"{where}: it prints what the page does not show:\n{last}",
            )
    return ran


@contextlib.contextmanager
def _inside(folder: Path | None) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(contextlib.chdir(folder))
        yield


def _insist(holds: object, message: str) -> None:
    if not holds:
        raise AssertionError(message)


def _python(fence: Fence, ran: Page, where: str) -> str:
    if fence.is_figure:
        ran.names.pop("chart", None)
    stream = io.StringIO()
    # Padded, so that a traceback names the line of the page.
    code = compile("\n" * fence.line + fence.code, where.split(",")[0], "exec")
    with contextlib.redirect_stdout(stream):
        exec(code, ran.names)  # noqa: S102 - a page of this repository
    if fence.is_figure:
        chart: Any = ran.names.get("chart")
        _insist(hasattr(chart, "to_dict"), f"{where}: a figure leaves its chart in `chart`")
        said = chart.to_dict().get("description")
        _insist(said, f"{where}: a chart without a description says nothing to who cannot see it")
        ran.figures[fence.line] = chart
    return stream.getvalue()


def _shell(fence: Fence, where: str) -> str:
    printed = ""
    for line in fence.code.replace("\\\n", " ").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        expected = _EXIT.search(line)
        code, output, complaint = (
            _own_command(line) if line.startswith("eval-toolkit ") else _command(line)
        )
        wanted = int(expected[1]) if expected else 0
        _insist(code == wanted, f"{where}: exit {code} of {line}\n{output}\n{complaint}")
        printed += output
    return printed


def _own_command(line: str) -> tuple[int, str, str]:
    """Run an eval-toolkit command in this process, which is faster than starting a new one."""
    from eval_toolkit.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(shlex.split(line, comments=True)[1:])
        except SystemExit as stop:
            code = stop.code
    return int(str(code or 0)), out.getvalue(), err.getvalue()


def _command(line: str) -> tuple[int, str, str]:
    beside = str(Path(sys.executable).parent)
    done = subprocess.run(  # noqa: S603 - a line of a page of this repository
        ["bash", "-e", "-o", "pipefail", "-c", line],  # noqa: S607
        env={**os.environ, "PATH": os.pathsep.join([beside, os.environ["PATH"]])},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr
