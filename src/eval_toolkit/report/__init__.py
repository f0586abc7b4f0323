"""HTML reports of runs and comparisons, charts, and the local viewer."""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.report.html_report import *
    from eval_toolkit.report.sections import *

__all__, __getattr__ = names_on_use(
    __name__,
    {
        "sections": "Wanted",
        "html_report": "report_html write_report",
    },
)
