"""Importers that convert other tools' logs into runs."""

from eval_toolkit.integrations.importing.detection import read_logs
from eval_toolkit.integrations.importing.imports import Imported, import_logs, measure_log
from eval_toolkit.integrations.importing.logs import (
    ChoiceScore,
    Log,
    LoggedSample,
    LoggedTurn,
    Stated,
)
from eval_toolkit.integrations.importing.options import Wanted
from eval_toolkit.integrations.importing.verification import Checked

__all__ = [
    "Checked",
    "ChoiceScore",
    "Imported",
    "Log",
    "LoggedSample",
    "LoggedTurn",
    "Stated",
    "Wanted",
    "import_logs",
    "measure_log",
    "read_logs",
]
