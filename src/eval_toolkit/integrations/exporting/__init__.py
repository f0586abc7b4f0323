"""Exporters that convert runs to other tools' formats."""

from eval_toolkit.integrations.exporting.cells import cell_rows
from eval_toolkit.integrations.exporting.writing import EXPORT_FORMATS, export_files, export_run

__all__ = ["EXPORT_FORMATS", "cell_rows", "export_files", "export_run"]
