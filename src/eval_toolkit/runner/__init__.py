"""Asking a model many things: bounded, journalled, gone on with after a kill, replayed."""

from typing import TYPE_CHECKING

from eval_toolkit._optional import names_on_use
from eval_toolkit.runner.engine import run_jobs, run_jobs_async
from eval_toolkit.runner.jobs import Job, Outcome, RunOutcomes
from eval_toolkit.runner.journal import Entries, Entry, Journal
from eval_toolkit.runner.progress import Progress
from eval_toolkit.runner.stored import read_entries, read_outcomes, to_columns

if TYPE_CHECKING:
    from eval_toolkit.runner.replay import ReplayModel

__all__ = [
    "Entries",
    "Entry",
    "Job",
    "Journal",
    "Outcome",
    "Progress",
    "ReplayModel",
    "RunOutcomes",
    "read_entries",
    "read_outcomes",
    "run_jobs",
    "run_jobs_async",
    "to_columns",
]

# Few runs are replayed.
__getattr__ = names_on_use(
    __name__,
    {
        "replay": ("ReplayModel",),
    },
)
