"""Excludes scripts for other environments from collection; provides the command line."""

from tests.cli.conftest import command

__all__ = ["collect_ignore", "command"]

collect_ignore = ["expected.py", "original"]
