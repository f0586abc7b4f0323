"""Command-line reference, generated from the commands."""

import inspect
import re
from collections.abc import Iterator

import click

from eval_toolkit.cli.main import cli

__all__ = ["command_pages", "every_command"]

_CODE = re.compile(r"(`[^`]+`|(?<![\w-])--[a-z][a-z-]*)")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|$~^])")


def every_command() -> dict[str, click.Command]:
    """Return all commands, groups and subcommands by their words."""
    found: dict[str, click.Command] = {}

    def descend(words: str, command: click.Command) -> None:
        found[words] = command
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                if inner is not None:
                    descend(f"{words} {name}", inner)

    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        if command is not None:
            descend(name, command)
    return found


def command_pages() -> dict[str, str]:
    """Return a Markdown page for each top-level command, including its subcommands."""
    commands = every_command()
    pages = {}
    for name in [words for words in commands if " " not in words]:
        parts = [words for words in commands if words.split()[0] == name]
        sections = [_section(words, commands[words]) for words in parts]
        pages[name] = "\n".join(sections)
    return pages


def _section(words: str, command: click.Command) -> str:
    context = click.Context(command, info_name=f"eval-toolkit {words}")
    heading = "#" * len(words.split())
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [
        f"{heading} {words}",
        "",
        *_help(command),
        "```none",
        f"eval-toolkit {words} {usage}",
        "```",
        "",
    ]
    if isinstance(command, click.Group):
        lines += ["| command | |", "|---|---|", *_subcommands(words, command), ""]
    lines += _options(command, context)
    return "\n".join(lines)


def _help(command: click.Command) -> Iterator[str]:
    r"""Yield the paragraphs of a help text; one after ``\b`` keeps its lines."""
    text = inspect.cleandoc(command.help or "").split("\f")[0]
    for paragraph in re.split(r"\n\s*\n", text):
        kept = paragraph.lstrip("\n")
        if kept.startswith("\b"):
            yield from ("```none", kept.lstrip("\b").strip("\n"), "```", "")
        elif kept:
            yield from (_escaped(" ".join(kept.split())), "")


def _subcommands(words: str, group: click.Group) -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        inner = group.get_command(context, name)
        if inner is not None:
            anchor = f"{words} {name}".replace(" ", "-")
            yield f"| [`{words} {name}`](#{anchor}) | {_escaped(inner.get_short_help_str(200))} |"


def _options(command: click.Command, context: click.Context) -> list[str]:
    rows = []
    for option in command.params:
        if not isinstance(option, click.Option) or option.hidden:
            continue
        record = option.get_help_record(context)
        names, said = record if record is not None else (", ".join(option.opts), "")
        shown = names.replace(" RANGE", "").replace("|", "\\|")
        rows.append(f"| `{shown}` | {_escaped(' '.join(said.split()))} |")
    return ["| option | |", "|---|---|", *rows, ""] if rows else []


def _escaped(text: str) -> str:
    """Return a text escaped for Markdown, with options and words in backticks as code."""
    parts = _CODE.split(text)
    return "".join(
        f"`{part.strip('`')}`".replace("|", "\\|") if i % 2 else _SPECIAL.sub(r"\\\1", part)
        for i, part in enumerate(parts)
    )
