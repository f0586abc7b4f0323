"""Entry point, exit codes and lazily loaded subcommands."""

import importlib
import sys
from collections.abc import Sequence

import click

from eval_toolkit import __version__
from eval_toolkit.errors import EvalToolkitError

__all__ = ["main"]

EXIT_USAGE = 2  # usage, bad input, missing extra
EXIT_FAILED = 3  # the evaluation failed, or anything unexpected
EXIT_INTERRUPTED = 130

_COMMANDS = {"demo": "eval_toolkit.cli.demo:demo"}


class _LazyGroup(click.Group):
    """A group that imports a subcommand when it is used, so that ``--help`` stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        target = _COMMANDS.get(cmd_name)
        if target is None:
            return None
        module, _, name = target.partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command


@click.group(
    cls=_LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="eval-toolkit")
@click.pass_context
def cli(context: click.Context) -> None:
    """Evaluate machine-learning systems: every number with an interval."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code: 0 fine, 2 bad input, 3 failed, 130 stopped."""
    try:
        code = cli.main(args=args, prog_name="eval-toolkit", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(EXIT_USAGE)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(EXIT_INTERRUPTED)
    except EvalToolkitError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(EXIT_USAGE)
    except SystemExit as stop:
        # click exits with 1 when the reader of our output has gone; 1 means "the evidence says no".
        sys.exit(0 if stop.code == 1 else stop.code)
    except Exception as error:
        click.echo(f"unexpected {type(error).__name__}: {error}", err=True)
        sys.exit(EXIT_FAILED)
    sys.exit(code if isinstance(code, int) else 0)
