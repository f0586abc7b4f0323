"""What a command prints: one page of tables and notes, as text, Markdown, HTML or JSON."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, TypeVar

import click

from eval_toolkit._files import write_atomic
from eval_toolkit.cli._text import one_line
from eval_toolkit.errors import InvalidInputError

__all__ = ["Output", "Page", "Table", "progress"]

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

    def emit(self, page: Page) -> None:
        """Print the page, or write the file as a whole."""
        if self.path is not None:
            try:
                write_atomic(self.path, self._text(page) + "\n")
            except OSError as error:
                raise InvalidInputError(f"{self.path}: cannot write: {error.strerror}") from error
            click.echo(f"wrote {self.path}", err=True)
        elif self.form == "text" and sys.stdout.isatty():
            _print_rich(page)
        else:
            click.echo(_encodable(self._text(page)))

    def _text(self, page: Page) -> str:
        return {"json": _json, "md": _markdown, "html": _html, "text": _plain}[self.form](page)


def progress(items: Iterable[_Item], what: str, total: int) -> Iterator[_Item]:
    """Yield the items; a bar runs on standard error where that is a terminal."""
    if not sys.stderr.isatty() or total < 2:
        yield from items
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(items, what, total, console=Console(stderr=True), transient=True)


def _encodable(text: str) -> str:
    """Return the text with what the stream cannot show written as escapes."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _json(page: Page) -> str:
    return json.dumps(page.payload, allow_nan=False, indent=2)


def _plain(page: Page) -> str:
    """Return aligned columns without colour or frames, at whatever width they need."""
    blocks = ["\n".join(map(one_line, page.lead))] if page.lead else []
    for table in page.tables:
        lines = [[one_line(cell) for cell in line] for line in (table.header, *table.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        lines.insert(1, ["-" * width for width in widths])
        body = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        ]
        blocks.append("\n".join([one_line(table.title), *body] if table.title else body))
    if page.notes:
        blocks.append("\n".join(map(one_line, page.notes)))
    return "\n\n".join(blocks)


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


def _md(text: str) -> str:
    flat = one_line(text).replace("\\", "\\\\").replace("|", "\\|")
    return flat.replace("<", "&lt;").replace(">", "&gt;")


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
    parts = [f"<h1>{escape(page.title)}</h1>"]
    parts += [f'<p class="lead">{escape(line)}</p>' for line in page.lead]
    for table in page.tables:
        caption = f"<caption>{escape(table.title)}</caption>" if table.title else ""
        head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in table.header)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>\n"
            for line in table.rows
        )
        parts.append(
            f'<div class="scroll"><table>{caption}<thead><tr>{head}</tr></thead>'
            f"<tbody>\n{body}</tbody></table></div>"
        )
    if page.notes:
        items = "".join(f"<li>{escape(note)}</li>" for note in page.notes)
        parts.append(f"<ul>{items}</ul>")
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(page.title)}</title><style>{_STYLE}</style></head>\n"
        f"<body>\n{body}\n</body>\n</html>"
    )


def _print_rich(page: Page) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console()
    for line in page.lead:
        console.print(Text(one_line(line)))
    for table in page.tables:
        # Text everywhere: names from files are never markup.
        shown = RichTable(title=Text(one_line(table.title)) if table.title else None)
        for name in table.header:
            shown.add_column(Text(one_line(name)))
        for row in table.rows:
            shown.add_row(*(Text(one_line(cell)) for cell in row))
        console.print(shown)
    for note in page.notes:
        console.print(Text(one_line(note), style="dim"))
