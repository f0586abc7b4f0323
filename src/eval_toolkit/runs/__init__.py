"""The run folder: written whole, read back as it was written, refused when anything was altered.

The cells of a run are its `Results`, and each has an address: ``metric @ part / system``.
"""

from eval_toolkit.runs.addresses import Address
from eval_toolkit.runs.folder import Run, find_runs, run_state
from eval_toolkit.runs.inputs import Inputs
from eval_toolkit.runs.journals import JournalEntry, RequestCounts
from eval_toolkit.runs.lock import run_lock
from eval_toolkit.runs.open import OpenRun, open_run
from eval_toolkit.runs.parts import format_part, parse_part
from eval_toolkit.runs.progress import RunProgress, read_progress
from eval_toolkit.runs.results import ResultCell, Results
from eval_toolkit.runs.writing import write_run

__all__ = [
    "Address",
    "Inputs",
    "JournalEntry",
    "OpenRun",
    "RequestCounts",
    "ResultCell",
    "Results",
    "Run",
    "RunProgress",
    "find_runs",
    "format_part",
    "open_run",
    "parse_part",
    "read_progress",
    "run_lock",
    "run_state",
    "write_run",
]
