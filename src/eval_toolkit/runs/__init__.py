"""Runs: the driver and the folder format shared by all kinds of evaluation.

The cells of a run are its `Results`, and each has an address: ``metric @ part / system``.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.models.runner.journal_tail import (
        JournalEntry as JournalEntry,
    )
    from eval_toolkit.models.runner.journal_tail import (
        RequestCounts as RequestCounts,
    )
    from eval_toolkit.runs.addresses import *
    from eval_toolkit.runs.answers import *
    from eval_toolkit.runs.blocks import *
    from eval_toolkit.runs.budgets import *
    from eval_toolkit.runs.context import *
    from eval_toolkit.runs.driver import *
    from eval_toolkit.runs.folder import *
    from eval_toolkit.runs.inputs import *
    from eval_toolkit.runs.kind_display import *
    from eval_toolkit.runs.kinds import *
    from eval_toolkit.runs.lock import *
    from eval_toolkit.runs.merging import *
    from eval_toolkit.runs.open import *
    from eval_toolkit.runs.outcome import *
    from eval_toolkit.runs.progress import *
    from eval_toolkit.runs.replay import *
    from eval_toolkit.runs.rescoring import *
    from eval_toolkit.runs.results import *
    from eval_toolkit.runs.selected_units import *
    from eval_toolkit.runs.shard_execution import *
    from eval_toolkit.runs.shards import *
    from eval_toolkit.runs.specs import *
    from eval_toolkit.runs.stored_units import *
    from eval_toolkit.runs.units import *
    from eval_toolkit.runs.writing import *
    from eval_toolkit.scorecards.parts import format_part as format_part
    from eval_toolkit.scorecards.parts import parse_part as parse_part

__all__, __getattr__ = names_on_use(
    __name__,
    {
        "addresses": "Address",
        "answers": "AnswersTable answers_of answers_table",
        "blocks": "Block Choice Choices Facts Group Mark Message Messages Note Table Text",
        "budgets": "Budget",
        "context": "Attempt Context",
        "driver": "drive",
        "eval_toolkit.models.runner.journal_tail": "JournalEntry RequestCounts",
        "eval_toolkit.scorecards.parts": "format_part parse_part",
        "shard_execution": "run_shards",
        "folder": "Run find_runs run_state",
        "inputs": "Inputs",
        "kinds": "Graded Identity Kind",
        "lock": "run_lock",
        "merging": "merge_runs",
        "open": "OpenRun open_run",
        "outcome": "Outcome",
        "progress": "RunProgress read_progress",
        "replay": "ReplayModel",
        "rescoring": "rescore",
        "results": "ResultCell Results",
        "selected_units": "StoredUnit",
        "shards": "Shard",
        "kind_display": "Words",
        "specs": "AskSpec DecodingSpec SummarySpec",
        "stored_units": "StoredUnits",
        "units": "Unit",
        "writing": "write_run",
    },
)
