"""Execution of many requests, with a journal from which runs are resumed."""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.models.runner.engine import *
    from eval_toolkit.models.runner.entries import *
    from eval_toolkit.models.runner.jobs import *
    from eval_toolkit.models.runner.journal import *
    from eval_toolkit.models.runner.progress import *
    from eval_toolkit.models.runner.stored import *

__all__, __getattr__ = names_on_use(
    __name__,
    {
        "engine": "run_jobs run_jobs_async",
        "entries": "Entries Entry",
        "jobs": "Job JobResult JobResults",
        "journal": "Journal",
        "progress": "Progress",
        "stored": "read_entries read_outcomes to_columns",
    },
)
