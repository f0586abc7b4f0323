"""Suggested next commands, ready to paste."""

import shlex
import shutil
import sys
from pathlib import Path

_NAME = "eval-toolkit"


def next_line(*words: str | Path) -> str:
    """Return the line that suggests the next command.

    Examples
    --------
    >>> next_line("view", "my runs").partition(" view ")[2]
    "'my runs'"
    """
    return f"next: {_program()} {shlex.join(map(str, words))}"


def _program() -> str:
    """Return the command that started this program, by name if it is on the PATH."""
    started = Path(sys.argv[0] if sys.argv else "")
    as_module = started.name == "__main__.py" and started.parent.name == "eval_toolkit"
    if started.name != _NAME and not as_module:  # called by another program
        return _NAME
    script = Path(sys.executable).with_name(_NAME) if as_module else started
    if _same(shutil.which(_NAME), script):
        return _NAME
    if not as_module and started.is_file():
        return shlex.quote(str(started))
    python = "python" if _same(shutil.which("python"), Path(sys.executable)) else sys.executable
    return f"{shlex.quote(python)} -m eval_toolkit"


def _same(found: str | None, file: Path) -> bool:
    try:
        return found is not None and Path(found).samefile(file)
    except OSError:
        return False
