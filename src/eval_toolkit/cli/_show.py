"""What a command prints: one page of tables and notes, as text, Markdown, HTML or JSON."""

import html
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from eval_toolkit._files import replace_atomic
from eval_toolkit.cli._text import one_line, say
from eval_toolkit.errors import InvalidInputError

if TYPE_CHECKING:
    from rich.table import Table as RichTable

__all__ = ["Output", "Page", "Table", "progress", "refuse_target", "writing"]

_Item = TypeVar("_Item")
_SUFFIXES = {".json": "json", ".md": "md", ".html": "html", ".htm": "html"}


@dataclass(frozen=True)
class Table:
    """A header and rows of text."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""


@dataclass(frozen=True)
class Page:
    """All that a command has to say, for people and as data."""

    title: str
    payload: Mapping[str, Any]
    """What ``--json`` prints."""
    lead: Sequence[str] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Output:
    """Where a page goes and in which form; made from ``--json``, ``--md``, ``--html``, ``--out``."""

    form: str = "text"
    path: Path | None = field(default=None)

    @classmethod
    def of(cls, flags: Mapping[str, bool], out: str | None) -> "Output":
        """Read the options; the name of the file decides where no flag does."""
        forms = [form for form, on in flags.items() if on]
        if len(forms) > 1:
            raise click.UsageError(f"give one of {', '.join(f'--{form}' for form in forms)}")
        path = None if out is None else Path(out)
        named = "text" if path is None else _SUFFIXES.get(path.suffix.lower(), "text")
        return cls(forms[0] if forms else named, path)

    def emit(
        self,
        page: Page,
        *,
        inputs: Iterable[str | Path] = (),
        first: Callable[[], object] | None = None,
    ) -> None:
        """Print the page, or write the file as a whole.

        Parameters
        ----------
        page : Page
            What there is to say.
        inputs : iterable of path
            What was read: ``--out`` must not be one of these, nor lie in one.
        first : callable, optional
            Writes whatever else the command writes; called when the page is known to be writable,
            and before it takes its place.
        """
        if self.path is None:
            if first is not None:
                first()
            if self.form == "text" and sys.stdout is not None and sys.stdout.isatty():
                say(_framed(page), nl=False)
            else:
                say(self._text(page))
            return
        refuse_target(self.path, "--out", inputs)
        with writing(self.path) as temporary:
            text = self._text(page) + "\n"
            temporary.write_bytes(text.encode("utf-8", "backslashreplace"))
            if first is not None:
                first()
        say(f"wrote {self.path}", err=True)

    def _text(self, page: Page) -> str:
        return {"json": _json, "md": _markdown, "html": _html, "text": _plain}[self.form](page)


def refuse_target(path: Path, option: str, inputs: Iterable[str | Path] = ()) -> None:
    """Raise if writing there would overwrite what was read, or change the folder of a run."""
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
                f"{path}: {option} lies in the run {folder}, which nothing may change; choose "
                "another folder"
            )


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)  # also where names differ in case alone and the disk does not
    except OSError:
        return False


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Yield a file that takes the place of ``path`` at the end; a refusal is one line."""
    try:
        with replace_atomic(path) as temporary:
            yield temporary
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot write: {error.strerror}") from error


def progress(items: Iterable[_Item], what: str, total: int) -> Iterator[_Item]:
    """Yield the items; a bar runs on standard error where that is a terminal."""
    if sys.stderr is None or not sys.stderr.isatty() or total < 2:
        yield from items
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(items, what, total, console=Console(stderr=True), transient=True)


def _json(page: Page) -> str:
    return json.dumps(page.payload, allow_nan=False, indent=2)


def _plain(page: Page) -> str:
    """Return aligned columns without colour or frames, at whatever width they need."""
    blocks = ["\n".join(map(one_line, page.lead))] if page.lead else []
    blocks += map(_plain_table, page.tables)
    if page.notes:
        blocks.append("\n".join(map(one_line, page.notes)))
    return "\n\n".join(blocks)


def _plain_table(table: Table) -> str:
    lines = _lines(table)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    body = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    return "\n".join([one_line(table.title), *body] if table.title else body)


def _lines(table: Table) -> list[list[str]]:
    """Return the header and the rows, each cell on one line."""
    return [[one_line(cell) for cell in line] for line in (table.header, *table.rows)]


def _markdown(page: Page) -> str:
    blocks = [f"## {_md(page.title)}", *(_md(line) for line in page.lead)]
    for table in page.tables:
        if table.title:
            blocks.append(f"**{_md(table.title)}**")
        lines = ["| " + " | ".join(map(_md, line)) + " |" for line in (table.header, *table.rows)]
        lines.insert(1, "|---" * len(table.header) + "|")
        blocks.append("\n".join(lines))
    if page.notes:
        blocks.append("\n".join(f"- {_md(note)}" for note in page.notes))
    return "\n\n".join(blocks)


_MD_SIGNS = re.compile(
    r"[\\|`*~]"  # cells, code, emphasis
    r"|\](?=[(\[:])"  # links, images and what they refer to; an interval's brackets stay
    r"|:(?=//)|(?<=www)\."  # addresses become links by themselves
    r"|(?<!\w)_|_(?!\w)"  # emphasis; the underscores of a name stay
    r"|^(?:#|[+-](?=\s)|-(?=--)|\d+[.)](?=\s))",  # headings, lists, rules
    re.IGNORECASE,
)


def _md(text: str) -> str:
    """Return a text that Markdown shows as it is: a name from a file is no link and no image."""
    flat = html.escape(one_line(text).strip(), quote=False)
    return _MD_SIGNS.sub(lambda sign: f"{sign[0][:-1]}\\{sign[0][-1]}", flat)


_STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums }
caption { text-align: left; font-weight: 600; padding: .3rem 0 }
th, td { text-align: left; padding: .3rem .8rem; border-bottom: 1px solid #8884 }
.scroll { overflow-x: auto }
ul, .lead { opacity: .8 }
"""


def _html(page: Page) -> str:
    """Return one self-contained page; every text in it is escaped."""
    parts = [f"<h1>{_escaped(page.title)}</h1>"]
    parts += [f'<p class="lead">{_escaped(line)}</p>' for line in page.lead]
    for table in page.tables:
        caption = f"<caption>{_escaped(table.title)}</caption>" if table.title else ""
        head = "".join(f'<th scope="col">{_escaped(cell)}</th>' for cell in table.header)
        body = "".join(
            "<tr>" + "".join(f"<td>{_escaped(cell)}</td>" for cell in line) + "</tr>\n"
            for line in table.rows
        )
        parts.append(
            f'<div class="scroll"><table>{caption}<thead><tr>{head}</tr></thead>'
            f"<tbody>\n{body}</tbody></table></div>"
        )
    if page.notes:
        items = "".join(f"<li>{_escaped(note)}</li>" for note in page.notes)
        parts.append(f"<ul>{items}</ul>")
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_escaped(page.title)}</title><style>{_STYLE}</style></head>\n"
        f"<body>\n{body}\n</body>\n</html>"
    )


def _escaped(text: str) -> str:
    return html.escape(one_line(text))


# --- terminals ----------------------------------------------------------------------------------

_LONG_WORD = 24
"""Longer words (paths, hashes) may be broken to fit."""


def _framed(page: Page) -> str:
    """Return the page for a terminal, as wide as that is."""
    from rich.console import Console
    from rich.text import Text

    console = Console()
    with console.capture() as captured:
        for line in page.lead:
            console.print(Text(one_line(line)))
        for table in page.tables:
            fitted = _fitted(table, console.width)
            if fitted is None:
                console.print(
                    Text(_plain_table(table)), no_wrap=True, overflow="ignore", crop=False
                )
            else:
                console.print(fitted)
        for note in page.notes:
            console.print(Text(one_line(note), style="dim"))
    return captured.get()


def _fitted(table: Table, room: int) -> "RichTable | None":
    """Return a framed table, a bare one where that is too wide, None where that is, too."""
    n = len(table.header)
    lines = _lines(table)
    if widths := _widths(lines, room - 3 * n - 1):
        return _rich_table(table.title, lines, widths)
    if widths := _widths(lines, room - n + 1):
        return _rich_table(
            table.title, lines, widths, box=None, padding=(0, 1, 0, 0), pad_edge=False
        )
    return None


def _rich_table(
    title: str, lines: Sequence[Sequence[str]], widths: Sequence[int], **style: Any
) -> "RichTable":
    from rich.table import Table as RichTable
    from rich.text import Text

    # Text everywhere: names from files are never markup.
    shown = RichTable(title=Text(one_line(title)) if title else None, **style)
    for name, width in zip(lines[0], widths, strict=True):
        shown.add_column(Text(name), width=width, overflow="fold")
    for row in lines[1:]:
        shown.add_row(*map(Text, row))
    return shown


def _widths(lines: Sequence[Sequence[str]], room: int) -> list[int] | None:
    """Return the columns' widths, none below its longest word; None where there is no room."""
    from rich.cells import cell_len

    columns = list(zip(*lines, strict=True))
    widths = [max(map(cell_len, column)) for column in columns]
    least = [
        min(_LONG_WORD, max(cell_len(word) for cell in column for word in cell.split() or [""]))
        for column in columns
    ]
    if sum(least) > room:
        return None
    while sum(widths) > room:  # the widest that can give way does
        widest = max(
            (at for at in range(len(widths)) if widths[at] > least[at]), key=widths.__getitem__
        )
        widths[widest] -= 1
    return widths
