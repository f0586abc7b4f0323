"""Execution of many requests, with a journal for resuming."""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.models.runner.engine import run_jobs, run_jobs_async
    from eval_toolkit.models.runner.jobs import Job, JobResult, JobResults
    from eval_toolkit.models.runner.journal import Entries, Entry, Journal
    from eval_toolkit.models.runner.progress import Progress
    from eval_toolkit.models.runner.stored import read_entries, read_outcomes, to_columns

__all__ = [
    "Entries",
    "Entry",
    "Job",
    "JobResult",
    "JobResults",
    "Journal",
    "Progress",
    "read_entries",
    "read_outcomes",
    "run_jobs",
    "run_jobs_async",
    "to_columns",
]

__getattr__ = names_on_use(
    __name__,
    {
        "engine": "run_jobs run_jobs_async",
        "jobs": "Job JobResult JobResults",
        "journal": "Entries Entry Journal",
        "progress": "Progress",
        "stored": "read_entries read_outcomes to_columns",
    },
)
