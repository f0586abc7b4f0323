"""The command line itself: help, version, exit codes."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import click
import pytest
from tests.cli.conftest import Command

import eval_toolkit
from eval_toolkit.cli import main
from eval_toolkit.cli._exit import EvidenceSaysNo
from eval_toolkit.cli.main import cli
from eval_toolkit.errors import EvalToolkitError, InvalidInputError, MissingExtraError

cli_module = sys.modules["eval_toolkit.cli.main"]


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    """Run the command in this process: exit code, standard output, standard error."""
    with pytest.raises(SystemExit) as caught:
        main(list(args))
    out, err = capsys.readouterr()
    code = caught.value.code
    assert isinstance(code, int)
    return code, out, err


@pytest.fixture
def with_command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Put a command named ``probe`` in place of the lazily loaded ones."""

    def install(function: Callable[[], Any]) -> None:
        module = type(sys)("probe_module")
        module.probe = click.command("probe")(function)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "probe_module", module)
        commands = {"probe": ("probe_module:probe", "A command.")}
        monkeypatch.setattr(cli_module, "_COMMANDS", commands)

    return install


def raising(error: BaseException) -> Callable[[], None]:
    def command() -> None:
        raise error

    return command


class TestHelp:
    def test_version(self, capsys: pytest.CaptureFixture[str]) -> None:
        expected = f"eval-toolkit, version {eval_toolkit.__version__}\n"
        assert run(capsys, "--version") == (0, expected, "")

    @pytest.mark.parametrize("args", [["--help"], ["-h"], []])
    def test_help_lists_the_commands(
        self, capsys: pytest.CaptureFixture[str], args: list[str]
    ) -> None:
        code, out, err = run(capsys, *args)
        assert (code, err) == (0, "")
        assert out.startswith("Usage: eval-toolkit [OPTIONS] ")
        assert "demo" in out
        assert "Train two classifiers" in out
        assert "\nMeasure:\n  score  " in out
        assert "\nOther:" not in out  # every command has its group
        titles = [line for line in out.splitlines() if line.endswith(":") and line[0] != " "]
        n_lines = len([line for line in out.splitlines() if line.startswith("  ")])
        # One line each, also in 80 columns: about, two options, commands.
        assert n_lines == 3 + len(cli_module._COMMANDS)
        assert titles[0] == "Options:"

    def test_help_of_a_command(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = run(capsys, "demo", "--help")
        assert code == 0
        assert out.startswith("Usage: eval-toolkit demo [OPTIONS]")
        assert "--json" in out
        assert "--seed" in out

    def test_the_lines_in_help_are_those_of_the_commands(self) -> None:
        context = click.Context(cli_module.cli)
        for name, (_, line) in cli_module._COMMANDS.items():
            command = cli_module.cli.get_command(context, name)
            assert command is not None
            assert command.get_short_help_str(limit=200).rstrip(".") == line.rstrip(".")

    def test_help_imports_no_command(self) -> None:
        program = (
            "import sys\n"
            "from eval_toolkit.cli import main\n"
            "try:\n    main(['--help'])\n"
            "except SystemExit:\n    pass\n"
            "print([m for m in ('numpy', 'rich', 'duckdb') if m in sys.modules])"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        assert done.stdout.endswith("[]\n")


class TestCompletion:
    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_script(self, capsys: pytest.CaptureFixture[str], shell: str) -> None:
        code, out, err = run(capsys, "completion", shell)
        assert (code, err) == (0, "")
        assert f"_EVAL_TOOLKIT_COMPLETE={shell}_complete" in out

    def test_the_script_completes(self) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "eval_toolkit"],
            env={
                **os.environ,
                "_EVAL_TOOLKIT_COMPLETE": "bash_complete",
                "COMP_WORDS": "eval-toolkit score --thresh",
                "COMP_CWORD": "2",
            },
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split() == ["plain,--threshold", "plain,--threshold-from"]


class TestExitCodes:
    def test_unknown_command(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, err = run(capsys, "dmeo")
        assert (code, out) == (2, "")
        assert "there is no command 'dmeo'; did you mean demo?" in err

    def test_unknown_option(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, err = run(capsys, "demo", "--jsn")
        assert (code, out) == (2, "")
        assert "No such option" in err

    def test_bad_value(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, _, err = run(capsys, "demo", "--seed", "many")
        assert code == 2
        assert "'many' is not a valid integer" in err

    @pytest.mark.parametrize(
        ("error", "code", "message"),
        [
            (InvalidInputError("`x` is 3"), 2, "error: `x` is 3\n"),
            (MissingExtraError("needs pandas"), 2, "error: needs pandas\n"),
            (EvalToolkitError("no"), 2, "error: no\n"),
            (click.ClickException("bad file"), 2, "Error: bad file\n"),
            (RuntimeError("boom"), 3, "unexpected RuntimeError: boom\n"),
            (InvalidInputError("two\n lines"), 2, "error: two lines\n"),
            (KeyError("k"), 3, "unexpected KeyError: 'k'\n"),
            (MemoryError(), 3, "unexpected MemoryError: \n"),
        ],
    )
    def test_errors(
        self,
        capsys: pytest.CaptureFixture[str],
        with_command: Any,
        error: Exception,
        code: int,
        message: str,
    ) -> None:
        with_command(raising(error))
        assert run(capsys, "probe") == (code, "", message)

    def test_the_evidence_says_no(
        self, capsys: pytest.CaptureFixture[str], with_command: Any
    ) -> None:
        with_command(raising(EvidenceSaysNo()))
        assert run(capsys, "probe") == (1, "", "")

    def test_interrupted(self, capsys: pytest.CaptureFixture[str], with_command: Any) -> None:
        with_command(raising(KeyboardInterrupt()))
        code, out, err = run(capsys, "probe")
        assert (code, out) == (130, "")
        assert err.strip() == "interrupted"

    def test_aborted(self, capsys: pytest.CaptureFixture[str], with_command: Any) -> None:
        with_command(raising(click.Abort()))
        assert run(capsys, "probe")[0] == 130

    @pytest.mark.parametrize(("returned", "code"), [(None, 0), (0, 0), (1, 1), ("text", 0)])
    def test_a_command_may_return_its_code(
        self, capsys: pytest.CaptureFixture[str], with_command: Any, returned: Any, code: int
    ) -> None:
        with_command(lambda: returned)
        assert run(capsys, "probe") == (code, "", "")

    def test_a_command_may_exit_through_its_context(
        self, capsys: pytest.CaptureFixture[str], with_command: Any
    ) -> None:
        with_command(lambda: click.get_current_context().exit(1))
        assert run(capsys, "probe") == (1, "", "")


NOT_READ = """
import os, sys
reading, writing = os.pipe()
os.dup2(writing, int(sys.argv[1]))
os.close(writing)
os.close(reading)
from eval_toolkit.cli import main
from eval_toolkit.cli.main import cli
main(sys.argv[2:])
"""


class TestProcess:
    @pytest.mark.parametrize("args", [("nonsense",), ("score", "no-such-file.csv")])
    def test_bad_input_is_bad_input_when_nobody_reads_the_message(
        self, args: tuple[str, ...]
    ) -> None:
        done = subprocess.run([sys.executable, "-c", NOT_READ, "2", *args], check=False)
        assert done.returncode == 2

    def test_help_that_nobody_reads_is_no_verdict(self) -> None:
        done = subprocess.run(
            [sys.executable, "-c", NOT_READ, "1", "--help"],
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")

    def test_exit_code_reaches_the_shell(self) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "eval_toolkit", "nonsense"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2
        assert "there is no command 'nonsense'" in done.stderr
        assert done.stdout == ""


def test_the_end_of_a_file_is_no_interrupt(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Byte code that a full disk cut ends too early; click takes that for an interrupt."""

    def broken(*_: Any) -> None:
        raise EOFError("marshal data too short")

    monkeypatch.setattr(type(cli), "resolve_command", broken)
    code, _, err = command("score", "preds.csv")
    assert (code, err.strip()) == (3, "unexpected EOFError: marshal data too short")
