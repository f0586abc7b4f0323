"""The ``eval-toolkit`` command; each subcommand is a thin wrapper around the library."""

from eval_toolkit.cli.main import main

__all__ = ["main"]
