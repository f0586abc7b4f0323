"""Runs: a common driver and folder format for all kinds of evaluation.

The cells of a run are its `Results`, and each has an address: ``metric @ part / system``.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.models.runner.journal_tail import JournalEntry, RequestCounts
    from eval_toolkit.runs.addresses import Address
    from eval_toolkit.runs.answers import AnswersTable, answers_of, answers_table
    from eval_toolkit.runs.blocks import (
        Block,
        Choice,
        Choices,
        Facts,
        Group,
        Mark,
        Message,
        Messages,
        Note,
        Table,
        Text,
    )
    from eval_toolkit.runs.budgets import Budget
    from eval_toolkit.runs.context import Attempt, Context
    from eval_toolkit.runs.driver import drive
    from eval_toolkit.runs.folder import Run, find_runs, run_state
    from eval_toolkit.runs.inputs import Inputs
    from eval_toolkit.runs.kind_display import Words
    from eval_toolkit.runs.kinds import Graded, Identity, Kind
    from eval_toolkit.runs.lock import run_lock
    from eval_toolkit.runs.merging import merge_runs
    from eval_toolkit.runs.open import OpenRun, open_run
    from eval_toolkit.runs.outcome import Outcome
    from eval_toolkit.runs.progress import RunProgress, read_progress
    from eval_toolkit.runs.replay import ReplayModel
    from eval_toolkit.runs.rescoring import rescore
    from eval_toolkit.runs.results import ResultCell, Results
    from eval_toolkit.runs.selected_units import StoredUnit
    from eval_toolkit.runs.shard_execution import run_shards
    from eval_toolkit.runs.shards import Shard
    from eval_toolkit.runs.specs import AskSpec, DecodingSpec, SummarySpec
    from eval_toolkit.runs.stored_units import StoredUnits
    from eval_toolkit.runs.units import Unit
    from eval_toolkit.runs.writing import write_run
    from eval_toolkit.scorecards.parts import format_part, parse_part

__all__ = [
    "Address",
    "AnswersTable",
    "AskSpec",
    "Attempt",
    "Block",
    "Budget",
    "Choice",
    "Choices",
    "Context",
    "DecodingSpec",
    "Facts",
    "Graded",
    "Group",
    "Identity",
    "Inputs",
    "JournalEntry",
    "Kind",
    "Mark",
    "Message",
    "Messages",
    "Note",
    "OpenRun",
    "Outcome",
    "ReplayModel",
    "RequestCounts",
    "ResultCell",
    "Results",
    "Run",
    "RunProgress",
    "Shard",
    "StoredUnit",
    "StoredUnits",
    "SummarySpec",
    "Table",
    "Text",
    "Unit",
    "Words",
    "answers_of",
    "answers_table",
    "drive",
    "find_runs",
    "format_part",
    "merge_runs",
    "open_run",
    "parse_part",
    "read_progress",
    "rescore",
    "run_lock",
    "run_shards",
    "run_state",
    "write_run",
]

__getattr__ = names_on_use(
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
