"""What tests of documentation pages share: run the blocks of a page, look up its commands."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import click

from eval_toolkit.cli.main import cli

DOCS = Path(__file__).resolve().parents[2] / "docs"


def run_blocks(page: Path) -> int:
    """Run the Python blocks of a page in order; each text block must be what was printed last."""
    blocks = re.findall(r"```(python|text)\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL)
    names: dict[str, Any] = {}
    printed: list[str] = []
    shown = 0
    for language, code in blocks:
        if language == "text":
            assert printed[-1] == code
            shown += 1
            continue
        stream = io.StringIO()
        with contextlib.redirect_stdout(stream):
            exec(compile(code, page.name, "exec"), names)  # noqa: S102
        printed.append(stream.getvalue())
    assert len(printed) == shown
    return shown


def commands(page: Path) -> list[str]:
    """Return the command lines of a page."""
    text = "\n".join(re.findall(r"```sh\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL))
    lines = text.replace("\\\n", "").splitlines()
    return [line for line in lines if line.startswith("eval-toolkit")]


def check_command(line: str) -> None:
    """The command and every option in a line must exist."""
    words = line.split("#")[0].split()[1:]
    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group):
        found = command.get_command(context, words.pop(0))
        assert found is not None
        command = found
    known = {name for parameter in command.params for name in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known
