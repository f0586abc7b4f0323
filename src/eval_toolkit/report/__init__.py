"""HTML reports of runs and comparisons, charts, and the local viewer."""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.report.html_report import report_html, write_report
    from eval_toolkit.report.sections import Wanted

__all__ = ["Wanted", "report_html", "write_report"]

__getattr__ = names_on_use(
    __name__,
    {
        "sections": "Wanted",
        "html_report": "report_html write_report",
    },
)
