r"""Tables as LaTeX with special characters escaped."""

import re

from eval_toolkit._internal.display.tables import Table
from eval_toolkit._internal.words import flat

_SIGNS = str.maketrans(
    {
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
        "`": r"\textasciigrave{}",
        '"': r"\symbol{34}",  # \textquotedbl is undefined in the OT1 encoding
    }
)
_LIGATURE = re.compile(r"([-'!?,])(?=[-',])")


def latex_text(text: object) -> str:
    r"""Return a string escaped for LaTeX, on one line.

    Examples
    --------
    >>> print(latex_text("5 % of a_b--c"))
    5 \% of a\_b-{}-c
    """
    return _LIGATURE.sub(r"\1{}", flat(text).translate(_SIGNS))


def latex_table(table: Table) -> str:
    r"""Return a LaTeX ``tabular`` with notes in small print; requires the booktabs package.

    Examples
    --------
    >>> print(latex_table(Table(["metric", "n"], [["pr_auc", 12]])).splitlines()[0])
    \begin{tabular}{lr}
    """
    columns = "".join("r" if column.numeric else "l" for column in table.columns)
    lines = [" & ".join(map(latex_text, line)) + r" \\" for line in (table.header, *table.texts())]
    # Braces: after a line break, a leading bracket or star would be parsed as its option.
    lines = ["{}" + line if line[0] in "[*" else line for line in lines]
    title = latex_text(table.title)
    notes = [rf"{{\footnotesize\noindent {latex_text(note)}\par}}" for note in table.notes]
    return "\n".join(
        [
            *([rf"\noindent {title}\par\smallskip"] if title else []),
            *(rf"\begin{{tabular}}{{{columns}}}", r"\toprule", lines[0], r"\midrule"),
            *(*lines[1:], r"\bottomrule", r"\end{tabular}"),
            *([r"\par\smallskip", *notes] if notes else []),
        ]
    )
