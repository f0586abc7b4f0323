"""Output of a page of tables and notes as text, Markdown, HTML or JSON."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import click

from eval_toolkit._internal.display import Page
from eval_toolkit._internal.display.to_markdown import markdown_page
from eval_toolkit._internal.display.to_text import text_page
from eval_toolkit._internal.files import replace_atomic
from eval_toolkit.cli._messages import say
from eval_toolkit.errors import InvalidInputError

_Item = TypeVar("_Item")
_SUFFIXES = {".json": "json", ".md": "md", ".html": "html", ".htm": "html"}


@dataclass(frozen=True)
class Output:
    """Output format and destination, from ``--json``, ``--md``, ``--html`` and ``--out``."""

    form: str = "text"
    path: Path | None = field(default=None)

    @classmethod
    def of(cls, as_json: bool, as_md: bool, as_html: bool, out: str | None = None) -> "Output":
        """Create from the options; without a format option, the suffix of the file is used."""
        flags = (("json", as_json), ("md", as_md), ("html", as_html))
        forms = [form for form, on in flags if on]
        if len(forms) > 1:
            raise click.UsageError(f"choose one of {', '.join(f'--{form}' for form in forms)}")
        path = None if out is None else Path(out)
        named = "text" if path is None else _SUFFIXES.get(path.suffix.lower(), "text")
        return cls(forms[0] if forms else named, path)

    def emit(
        self,
        page: Page,
        *,
        inputs: Iterable[str | Path] = (),
        first: Callable[[], object] | None = None,
        summary: bool = False,
    ) -> None:
        """Print the page, or write it atomically to a file.

        ``inputs`` are paths that ``--out`` must not overwrite or be inside of. ``first`` writes the
        command's other files; it is called once the output file is known to be writable, before it
        is replaced. With ``summary``, the page is also appended to the job summary in GitHub
        Actions.
        """
        if self.path is not None:
            refuse_target(self.path, "--out", inputs)
            with writing(self.path) as temporary:
                text = self._text(page) + "\n"
                temporary.write_bytes(text.encode("utf-8", "backslashreplace"))
                if first is not None:
                    first()
            say(f"wrote {self.path}", err=True)
        else:
            if first is not None:
                first()
            if self.form == "text" and _in_terminal():
                from eval_toolkit._internal.display.to_terminal import terminal_text

                say(terminal_text(page), nl=False, styled=True)
            else:
                say(self._text(page))
        target = os.environ.get("GITHUB_STEP_SUMMARY")
        if summary and target:
            from eval_toolkit.integrations.github import append_summary

            problem = append_summary(target, markdown_page(page))
            if problem:
                say(problem, err=True)

    def _text(self, page: Page) -> str:
        return {"json": _json, "md": markdown_page, "html": _html, "text": text_page}[self.form](
            page
        )


def _in_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def refuse_target(path: Path, option: str, inputs: Iterable[str | Path] = ()) -> None:
    """Raise if writing to a path would overwrite an input or change a run folder."""
    from eval_toolkit.runs import run_state

    target = path.resolve()
    for given in map(Path, inputs):
        source = given.resolve()
        inside = source in target.parents and not source.is_file()
        if source == target or inside or _same_file(source, target):
            raise InvalidInputError(
                f"{path}: {option} would overwrite {given}; choose another name"
            )
    for folder in target.parents:
        if (folder / "manifest.json").is_file() and run_state(folder) != "not a run":
            raise InvalidInputError(
                f"{path}: {option} is inside the run {folder}, which must not change; "
                "choose another folder"
            )


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)  # handles case-insensitive file systems
    except OSError:
        return False


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces ``path`` on success; failures raise one-line errors."""
    try:
        with replace_atomic(path) as temporary:
            yield temporary
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot write: {error.strerror}") from error


def progress(items: Iterable[_Item], what: str, total: int) -> Iterator[_Item]:
    """Yield the items, with a progress bar if standard error is a terminal."""
    if sys.stderr is None or not sys.stderr.isatty() or total < 2:
        yield from items
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(items, what, total, console=Console(stderr=True), transient=True)


def _json(page: Page) -> str:
    return json.dumps(page.payload, allow_nan=False, indent=2)


def _html(page: Page) -> str:
    from eval_toolkit.cli._html import html_page

    return html_page(page)
