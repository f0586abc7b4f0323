"""What pytest must not import here: scripts for other environments; and the command line."""

from tests.cli.conftest import command

__all__ = ["collect_ignore", "command"]

collect_ignore = ["expected.py", "original"]
