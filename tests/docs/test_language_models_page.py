"""docs/language_models.md: every block runs, in order, and prints what is published."""

import contextlib
import io
import re
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest

from eval_toolkit.cli.main import cli
from eval_toolkit.tasks import read_task_file

PAGE = Path(__file__).resolve().parents[2] / "docs" / "language_models.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(python|text)\n(.*?)```", TEXT, flags=re.DOTALL)


def test_python_blocks_print_what_is_published() -> None:
    names: dict[str, Any] = {}
    printed: list[str] = []
    shown = 0
    for language, code in BLOCKS:
        if language == "text":
            assert printed[-1] == code
            shown += 1
            continue
        stream = io.StringIO()
        with contextlib.redirect_stdout(stream):
            exec(compile(code, PAGE.name, "exec"), names)  # noqa: S102
        printed.append(stream.getvalue())
    assert (len(printed), shown) == (4, 4)


def test_the_declared_task_is_one(tmp_path: Path) -> None:
    (declared,) = re.findall(r"```toml\n(.*?)```", TEXT, flags=re.DOTALL)
    assert tomllib.loads(declared)["task"]["name"] == "geography"
    (tmp_path / "geography.toml").write_text(declared)
    (tmp_path / "geography.jsonl").write_text(
        '{"question": "Which?", "choices": ["a", "b"], "answer": 1, "continent": "x", '
        '"passage": "p"}\n'
    )
    (sample,) = read_task_file(tmp_path / "geography.toml").samples()
    assert (sample.ground_truth, sample.group, sample.subject) == (" b", "x/p", "x")


def _commands() -> list[str]:
    text = "\n".join(re.findall(r"```sh\n(.*?)```", TEXT, flags=re.DOTALL)).replace("\\\n", "")
    return [line for line in text.splitlines() if line.startswith("eval-toolkit")]


@pytest.mark.parametrize("line", _commands(), ids=lambda line: " ".join(line.split()[1:4]))
def test_commands_and_options_exist(line: str) -> None:
    words = line.split("#")[0].split()[1:]
    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group):
        found = command.get_command(context, words.pop(0))
        assert found is not None
        command = found
    known = {name for parameter in command.params for name in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known
