"""Tables of the numbers of runs: CSV, LaTeX and Markdown."""

import csv
import html
import io
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from eval_toolkit._plain import whole_text
from eval_toolkit.integrations.exporting.cells import ROW_FIELDS, cell_rows
from eval_toolkit.report.words import one_line, value_and_ends
from eval_toolkit.runs import Run

__all__ = ["csv_table", "escaped_latex", "escaped_markdown", "latex_table", "markdown_table"]

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What a spreadsheet takes for the beginning of a formula, also in wide letters."""
_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\symbol{34}",
    "`": r"\symbol{96}",
}
_LIGATURE = re.compile(r"([-'!?,])(?=[-',])")
_MARKDOWN = re.compile(
    r"[\\|`*~!$^]"  # cells, code, emphasis, images, formulas
    r"|[\[\]](?![-+.\d]|$)|\](?=[(\[:])"  # links and what they refer to; an interval's brackets stay
    r"|:(?=//)|(?<=www)\.|@"  # addresses and names become links by themselves
    r"|(?<![^\W_])_|_(?![^\W_])"  # emphasis; the underscores of a name stay
    r"|^(?:#|[+-](?=\s)|-(?=--)|\d+[.)](?=\s))",  # headings, lists, rules
    re.IGNORECASE,
)


def csv_table(runs: Run | Sequence[Run]) -> str:
    r"""Return the numbers of runs as CSV, every digit of them, safe to open in a spreadsheet.

    Parameters
    ----------
    runs : Run or sequence of Run
        Of any kind.

    Returns
    -------
    str
        A header and a row per cell, ending in "\r\n". What is absent is an empty cell beside its
        status and reason. A text that a spreadsheet would take for a formula begins with an
        apostrophe.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import write_run
    >>> part = {"n": 3, "by_scorer": {"=guard": {"pr_auc": 0.75}}}
    >>> run = write_run(
    ...     tempfile.mkdtemp() + "/r1", manifest={"run_id": "r1"}, results={
    ...     "schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {"test": part}},
    ... )
    >>> print(csv_table(run).splitlines()[1])
    r1,test,'=guard,pr_auc,0.75,,,,,,,0,0,ok,
    """
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\r\n")
    writer.writerow(ROW_FIELDS)
    for row in cell_rows(runs):
        writer.writerow([_csv_cell(row[name]) for name in ROW_FIELDS])
    return stream.getvalue()


def _csv_cell(value: Any) -> Any:
    if not isinstance(value, str):
        return "" if value is None else repr(value)
    text = whole_text(value).replace("\0", "\N{REPLACEMENT CHARACTER}")
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text


def markdown_table(runs: Run | Sequence[Run]) -> str:
    r"""Return the numbers of runs as a Markdown table; names and reasons show as they are.

    Parameters
    ----------
    runs : Run or sequence of Run
        Of any kind.

    Returns
    -------
    str
        Ending in a line end.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import write_run
    >>> part = {"n": 3, "by_scorer": {"a|b": {"pr_auc": 0.75}}}
    >>> run = write_run(
    ...     tempfile.mkdtemp() + "/r1", manifest={"run_id": "r1"}, results={
    ...     "schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {"test": part}},
    ... )
    >>> print(markdown_table(run), end="")
    | slice | scorer | metric | value | interval | n | errors | status |
    |---|---|---|---:|---:|---:|---:|---|
    | test | a\|b | pr_auc | 0.750 |  |  | 0 | ok |
    """
    header, body = _texts(runs)
    rule = "".join("|---:" if name in _NUMBERS else "|---" for name in _plain_names(header)) + "|"
    lines = ["| " + " | ".join(map(escaped_markdown, line)) + " |" for line in (header, *body)]
    return "\n".join([lines[0], rule, *lines[1:]]) + "\n"


def latex_table(runs: Run | Sequence[Run]) -> str:
    r"""Return the numbers of runs as a LaTeX ``tabular``; needs the package booktabs.

    Parameters
    ----------
    runs : Run or sequence of Run
        Of any kind.

    Returns
    -------
    str
        Ending in a line end. Every character of a name or reason that means something to LaTeX is
        escaped, and one that does not print is a blank.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import write_run
    >>> part = {"n": 3, "by_scorer": {r"\input{x}": {"pr_auc": 0.75}}}
    >>> run = write_run(
    ...     tempfile.mkdtemp() + "/r1", manifest={"run_id": "r1"}, results={
    ...     "schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {"test": part}},
    ... )
    >>> print(latex_table(run).splitlines()[4])
    test & \textbackslash{}input\{x\} & pr\_auc & 0.750 &  &  & 0 & ok \\
    """
    header, body = _texts(runs)
    columns = "".join("r" if name in _NUMBERS else "l" for name in _plain_names(header))
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", _latex_line(header), r"\midrule"]
    lines += map(_latex_line, body)
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _latex_line(cells: Sequence[str]) -> str:
    line = " & ".join(map(escaped_latex, cells)) + r" \\"
    # a bracket or a star here would be taken for an option of what ends the line above
    return "{}" + line if line.startswith(("[", "*")) else line


def escaped_latex(text: str) -> str:
    r"""Return a text that LaTeX prints as it is, on one line.

    Examples
    --------
    >>> print(escaped_latex("50 % of a_b--c"))
    50 \% of a\_b-{}-c
    """
    flat = "".join(_LATEX.get(sign, sign) for sign in _one_line(text).strip())
    return _LIGATURE.sub(r"\1{}", flat)


def escaped_markdown(text: str) -> str:
    r"""Return a text that Markdown shows as it is, on one line: no link, no image, no HTML.

    Examples
    --------
    >>> print(escaped_markdown("a*b* | <i>"), escaped_markdown("pr_auc"))
    a\*b\* \| &lt;i&gt; pr_auc
    """
    flat = html.escape(_one_line(text).strip(), quote=False)
    return _MARKDOWN.sub(lambda sign: f"{sign[0][:-1]}\\{sign[0][-1]}", flat)


def _one_line(text: str) -> str:
    """Return a text on one line without what hides, reorders or stacks on others."""
    flat = one_line(whole_text(text))
    kept = (c for c in flat if unicodedata.category(c) not in ("Cf", "Mn", "Me", "Co", "Cn"))
    return "".join(kept)


_HEADER = ("run", "slice", "scorer", "metric", "value", "interval", "n", "errors", "status")
_NUMBERS = frozenset({"value", "interval", "n", "errors"})


def _plain_names(header: Sequence[str]) -> list[str]:
    """Return the names of columns without how sure their intervals are."""
    return ["interval" if name.endswith("interval") else name for name in header]


def _texts(runs: Run | Sequence[Run]) -> tuple[list[str], list[list[str]]]:
    """Return header and cells as people read them; the run's name only where there are several."""
    rows = cell_rows(runs)
    sure = {row["confidence"] for row in rows if row["confidence"] is not None}
    percent = f"{100 * sure.pop():g} % " if len(sure) == 1 else ""
    header = [f"{percent}interval" if name == "interval" else name for name in _HEADER]
    body = [_line(row) for row in rows]
    if isinstance(runs, Run) or len(runs) == 1:
        return header[1:], [line[1:] for line in body]
    return header, body


def _line(row: Mapping[str, Any]) -> list[str]:
    value, ends = value_and_ends(row["value"], row["ci_low"], row["ci_high"])
    state = row["status"] + (f": {row['reason']}" if row["reason"] else "")
    names = [row["run"], row["slice"], row["scorer"], row["metric"]]
    n = "" if row["n"] is None else str(row["n"])
    return [*names, value, ends, n, str(row["n_errors"] or 0), state]
