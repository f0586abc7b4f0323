"""What tests of documentation pages share: which pages there are, their blocks, their commands."""

from pathlib import Path

import click
from docs._ext.blocks import fences, run_page

from eval_toolkit.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
BUILT = ("_build", "made")  # folders of what is made of the pages


def pages() -> list[Path]:
    """Every page people read, in the repository and on the site."""
    found = [ROOT / "README.md", *DOCS.rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    return sorted(page for page in found if not {*BUILT} & {*page.relative_to(ROOT).parts})


def named(page: Path) -> str:
    """Return a page's path below the repository."""
    return page.relative_to(ROOT).as_posix()


def run_blocks(page: Path, folder: Path | None = None) -> int:
    """Run a page; return how many of its blocks print what the page shows."""
    return run_page(page, folder).n_shown


def commands(page: Path) -> list[str]:
    """Return the command lines of a page."""
    shell = [fence.code for fence in fences(page.read_text("utf-8")) if fence.language == "sh"]
    lines = "\n".join(shell).replace("\\\n", "").splitlines()
    return [line for line in lines if line.startswith("eval-toolkit")]


def check_command(line: str) -> None:
    """The command and every option in a line must exist."""
    words = line.split("#")[0].split()[1:]
    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words.pop(0))
        assert found is not None, line
        command = found
    known = {name for parameter in command.params for name in parameter.opts}
    known |= {name for parameter in command.params for name in parameter.secondary_opts}
    options = {word.split("=")[0] for word in words if word.startswith("--")}
    assert options <= known | {"--help", "--version"}, line
