"""The run folder: written whole, read back as it was written, refused when anything was altered."""

from eval_toolkit.runner.lines import JournalEntry, RequestCounts
from eval_toolkit.runs.folder import Run, find_runs, run_state
from eval_toolkit.runs.inputs import Inputs
from eval_toolkit.runs.lock import run_lock
from eval_toolkit.runs.open import OpenRun, open_run
from eval_toolkit.runs.progress import RunProgress, read_progress
from eval_toolkit.runs.writing import write_run

__all__ = [
    "Inputs",
    "JournalEntry",
    "OpenRun",
    "RequestCounts",
    "Run",
    "RunProgress",
    "find_runs",
    "open_run",
    "read_progress",
    "run_lock",
    "run_state",
    "write_run",
]
