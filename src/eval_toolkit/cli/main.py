"""Entry point, exit codes and lazily loaded subcommands."""

import contextlib
import gc
import importlib
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from eval_toolkit import __version__
from eval_toolkit._internal.command_line import recording_command
from eval_toolkit._internal.environment import hide_secrets
from eval_toolkit.cli._exit import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE
from eval_toolkit.cli._messages import in_options, on_this_machine, reader_may_go, say, shown_safely
from eval_toolkit.errors import EvalToolkitError

# Name: (import path, first line of the help). The line is repeated here so that `--help` imports
# no command.
_COMMANDS = {
    "answers": (
        "eval_toolkit.cli.answers:answers",
        "Print questions, answers, references and grades of a run.",
    ),
    "check": (
        "eval_toolkit.cli.check:check",
        "Check for leakage: duplicates, conflicting labels and groups.",
    ),
    "compare": (
        "eval_toolkit.cli.compare:compare",
        "Compare systems on the same rows: differences with intervals.",
    ),
    "completion": ("eval_toolkit.cli.completion:completion", "Print a shell completion script."),
    "demo": (
        "eval_toolkit.cli.demo:demo",
        "Train two classifiers on scikit-learn data and compare them.",
    ),
    "doctor": (
        "eval_toolkit.cli.doctor:doctor",
        "Report the state of the installation or of runs.",
    ),
    "evaluate": (
        "eval_toolkit.cli.evaluate:evaluate",
        "Evaluate scorers on rows, after leakage checks.",
    ),
    "export": (
        "eval_toolkit.cli.export:export",
        "Write runs in another tool's format, or as a table.",
    ),
    "gate": (
        "eval_toolkit.cli.gate:gate",
        "Check a run against claims; exit with code 1 if a claim fails.",
    ),
    "grade": (
        "eval_toolkit.cli.grade:grade",
        "Grade stored answers from any source, without a model.",
    ),
    "graders": (
        "eval_toolkit.cli.graders:graders",
        "List graders; show their options, inputs and columns.",
    ),
    "import": (
        "eval_toolkit.cli.import_:import_",
        "Import logs from other tools as runs.",
    ),
    "judge": (
        "eval_toolkit.cli.judge:judge",
        "Judge stored answers, and compare judges with human labels.",
    ),
    "leaderboard": (
        "eval_toolkit.cli.leaderboard:leaderboard",
        "Rank systems by their results on the same tasks.",
    ),
    "merge": (
        "eval_toolkit.cli.merge:merge",
        "Join the shards of a run, written with --shard i/n.",
    ),
    "models": (
        "eval_toolkit.cli.models:models",
        "List models; fetch weights; verify an endpoint.",
    ),
    "plan": ("eval_toolkit.cli.plan:plan", "Plan the number of rows or samples of an evaluation."),
    "plugins": (
        "eval_toolkit.cli.plugins:plugins",
        "List the plugins of installed packages.",
    ),
    "positions": (
        "eval_toolkit.cli.positions:positions",
        "Measure a model's position bias on a multiple-choice task.",
    ),
    "report": (
        "eval_toolkit.cli.report:report",
        "Write one self-contained HTML report about runs.",
    ),
    "rescore": (
        "eval_toolkit.cli.rescore:rescore",
        "Recompute the results of RUN without querying the model.",
    ),
    "robustness": (
        "eval_toolkit.cli.robustness:robustness",
        "Measure how perturbed prompts affect a model.",
    ),
    "rollout": (
        "eval_toolkit.cli.rollout:rollout",
        "Test a target with multi-turn attacks: when and how it fails.",
    ),
    "run": (
        "eval_toolkit.cli.run:run",
        "Evaluate a model on TASK; every metric has an interval.",
    ),
    "schemas": (
        "eval_toolkit.cli.schemas:schemas",
        "List, show and check the JSON Schemas of stored files.",
    ),
    "score": ("eval_toolkit.cli.score:score", "Score predictions; every metric has an interval."),
    "split": (
        "eval_toolkit.cli.split:split",
        "Split a file into parts: stratified, by group or by time.",
    ),
    "suite": (
        "eval_toolkit.cli.suite:suite",
        "Evaluate a model on every task of a suite.",
    ),
    "tasks": (
        "eval_toolkit.cli.tasks:tasks",
        "List, write, show and check tasks and their prompts.",
    ),
    "transcripts": (
        "eval_toolkit.cli.transcripts:transcripts",
        "Print the conversations of a rollout run.",
    ),
    "validate": (
        "eval_toolkit.cli.validate:validate",
        "Validate stored files against their schemas.",
    ),
    "view": (
        "eval_toolkit.cli.view:view",
        "Browse runs in a web browser.",
    ),
}
_GROUPS = {
    "Measure": "score evaluate plan split check demo",
    "Compare and decide": "compare gate leaderboard robustness",
    "Evaluate language models": "run merge suite tasks models graders grade judge positions rescore",
    "Red-team": "rollout transcripts",
    "View": "report view answers",
    "Exchange": "import export",
    "Maintain": "doctor validate schemas plugins completion",
}
"""Commands grouped by purpose; each command is in exactly one group."""
_WRITTEN = ("cache", "fix", "junit", "out", "save")
"""Options that name output files."""


class _LazyGroup(click.Group):
    """Command group that imports subcommands on first use, to keep ``--help`` fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in _COMMANDS and not ctx.resilient_parsing:
            import difflib

            near = difflib.get_close_matches(name, _COMMANDS, n=1)
            hint = f"did you mean {near[0]}?" if near else "--help lists all"
            raise click.UsageError(f"there is no command {name!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        for parameter in command.params:
            if parameter.name in _WRITTEN and parameter.callback is None:
                parameter.callback = on_this_machine
        # Loaded modules live until exit, so exclude them from garbage collection. Not with duckdb,
        # which reports objects that are still alive at exit.
        if "_duckdb" not in sys.modules:
            gc.freeze()
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, _COMMANDS))
        grouped = {title: names.split() for title, names in _GROUPS.items()}
        known = {name for names in grouped.values() for name in names}
        grouped["Other"] = [name for name in self.list_commands(ctx) if name not in known]
        for title, names in grouped.items():
            rows = [(f"{name:{width}}", _COMMANDS[name][1]) for name in names if name in _COMMANDS]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


@click.group(
    cls=_LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="eval-toolkit")
@click.pass_context
def cli(context: click.Context) -> None:
    """Evaluate machine-learning systems; every number has an interval."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code.

    Exit codes are 0 for success, 1 for a negative result, 2 for invalid input, 3 for a failure and
    130 for an interruption.
    """
    # Frequent garbage collection would take a tenth of a command's time.
    gc.set_threshold(200_000, 20, 20)
    if args is None:  # running as a process
        hide_secrets()
    given = sys.argv[1:] if args is None else list(args)
    try:
        with recording_command("eval-toolkit", given):
            code = cli.main(args=args, prog_name="eval-toolkit", standalone_mode=False)
    except click.ClickException as error:
        error.message = shown_safely(error.message, given)  # type: ignore[misc]  # the last to read it
        with reader_may_go(err=True):
            error.show()
        sys.exit(EXIT_USAGE)
    except (click.Abort, KeyboardInterrupt) as stop:
        if isinstance(stop.__cause__, EOFError):  # click raises Abort on end of input, too
            _fail(f"unexpected EOFError: {stop.__cause__}", EXIT_FAILED)
        with contextlib.suppress(ValueError):  # a second Ctrl-C still exits with 130
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        if sys.stderr is not None and sys.stderr.isatty():
            say("", err=True)  # after the terminal's own ^C
        _fail("interrupted", EXIT_INTERRUPTED)
    except EvalToolkitError as error:
        said = in_options(" ".join(_one_line(error).split()), _command(args))
        _fail(f"error: {shown_safely(said, given)}", EXIT_USAGE)
    except SystemExit as stop:
        # click and rich exit with 1 if the output stream was closed, but here 1 means a negative
        # result. Commands with a verdict print through `say` and continue.
        sys.exit(0 if stop.code == 1 else stop.code)
    except Exception as error:
        said = shown_safely(_one_line(error), given)
        _fail(f"unexpected {type(error).__name__}: {said}", EXIT_FAILED)
    sys.exit(code if isinstance(code, int) else 0)


def _command(args: Sequence[str] | None) -> click.Command:
    """Return the subcommand given on the command line, whose options messages refer to."""
    found: click.Command = cli
    for name in sys.argv[1:] if args is None else args:
        inner = (
            found.get_command(click.Context(found), name)
            if isinstance(found, click.Group)
            else None
        )
        if inner is None:
            break
        found = inner
    return found


def _one_line(error: Exception) -> str:
    from eval_toolkit._internal.words import one_line  # needed only for errors

    return one_line(error)


def _fail(message: str, code: int) -> NoReturn:
    say(message, err=True)
    sys.exit(code)
