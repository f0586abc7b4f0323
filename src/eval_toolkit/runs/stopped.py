"""Reason why an unfinished run ended, stored for those who look at it later."""

from contextlib import suppress
from pathlib import Path

from eval_toolkit._internal.files import read_regular
from eval_toolkit._internal.redaction import one_line
from eval_toolkit.artifacts.strict_json import parse_bytes, write_json_strict
from eval_toolkit.errors import EvalToolkitError, ModelError

__all__ = ["STOPPED", "note_stop", "why_stopped"]

STOPPED = "stopped.json"
_LONGEST = 600


def note_stop(folder: Path, stop: BaseException) -> None:
    """Store the reason in the folder of the run: the error of a model, or an interruption."""
    reason = one_line(stop).replace("`", "") if isinstance(stop, ModelError) else "interrupted"
    with suppress(OSError):  # such as a full disk; the error itself is raised
        write_json_strict({"reason": reason}, folder / STOPPED)


def why_stopped(folder: Path) -> str:
    """Return the stored reason; "" if there is none, as after a kill.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> note_stop(folder, KeyboardInterrupt())
    >>> why_stopped(folder)
    'interrupted'
    """
    try:
        stored = parse_bytes(read_regular(folder / STOPPED), STOPPED)
        return " ".join(str(stored["reason"]).split())[:_LONGEST]
    except (OSError, ValueError, TypeError, LookupError, EvalToolkitError):
        return ""
