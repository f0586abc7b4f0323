"""Shared helpers for tests of documentation pages: pages, code blocks and commands."""

import contextlib
import io
import itertools
import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest
from docs._ext.blocks import fences, run_page

from eval_toolkit.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
EXTRAS = set(
    tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
)
PROGRAMS = (".", "cat", "echo", "printf", "pytest", "python")
ASSIGNMENT = re.compile(r"[A-Z_]+=")
BUILT = ("_build", "made")  # folders of what is made of the pages


def pages() -> list[Path]:
    """Return all documentation pages in the repository and on the site."""
    found = [ROOT / "README.md", *DOCS.rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    return sorted(page for page in found if not {*BUILT} & {*page.relative_to(ROOT).parts})


def named(page: Path) -> str:
    """Return a page's path relative to the repository."""
    return page.relative_to(ROOT).as_posix()


def run_blocks(page: Path, folder: Path | None = None) -> int:
    """Run the blocks of a page; return the number of blocks with verified output."""
    return run_page(page, folder).n_shown


def commands(page: Path) -> list[str]:
    """Return the command lines in the shell blocks of a page and in `run:` steps of workflows."""
    lines: list[str] = []
    for fence in fences(page.read_text("utf-8")):
        if fence.language == "sh":
            lines += fence.code.replace("\\\n", "").splitlines()
        elif fence.language == "yaml":
            lines += re.findall(r"^\s*- run: (.+)$", fence.code, flags=re.MULTILINE)
    return [line for line in lines if line.strip() and not line.startswith("#")]


def check_command(line: str) -> None:
    """Check that the commands of a line exist; those of eval-toolkit are parsed without running."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&")
    lexer.whitespace_split = True
    words = [*lexer]
    for joint, part in itertools.groupby(words, key=lambda word: set(word) <= set(";|&")):
        if joint:
            continue
        program, *rest = itertools.dropwhile(ASSIGNMENT.match, part)
        if program == "eval-toolkit":
            parse(rest)
        elif program == "make":
            assert re.search(rf"^{rest[0]}:", MAKEFILE, flags=re.MULTILINE), line
        elif program == "pip":
            extras = re.findall(r"\[(.+)\]", " ".join(rest))
            assert {name for extra in extras for name in extra.split(",")} <= EXTRAS, line
        else:
            assert program in PROGRAMS, f"{line}: {program} is no program that pages use"


def parse(words: list[str]) -> None:
    """Parse the arguments of an eval-toolkit command; files may be missing."""
    command: click.Command = cli
    context = click.Context(cli, info_name="eval-toolkit")
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        assert found is not None, f"there is no command {words[0]!r}"
        command, words = found, words[1:]
    assert words or not isinstance(command, click.Group), "a command of this group is missing"
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.suppress(click.exceptions.Exit),  # of --help
    ):
        patch.setattr(click.Path, "convert", lambda _, value, *__: value)
        command.make_context("eval-toolkit", words)
