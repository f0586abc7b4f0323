"""The ``eval-toolkit`` command; each subcommand is a thin wrapper of the library."""

from eval_toolkit.cli.main import main

__all__ = ["main"]
