"""Results as people look at them: short in a console, a table in a notebook, Markdown and LaTeX.

One home for the escaping: names and reasons come from files and models, and none of them may be
more than text wherever a table is shown.
"""

import dataclasses
import html
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, TypeAlias

from eval_toolkit._optional import require
from eval_toolkit._words import one_line, visible

__all__ = [
    "Displayed",
    "Grid",
    "Tabled",
    "html_table",
    "latex_table",
    "latex_text",
    "markdown_table",
    "markdown_text",
    "short_repr",
    "text_table",
]

Grid: TypeAlias = tuple[list[str], list[list[str]]]
"""A header and the rows below it."""

_CELL = 300
_MOST_ROWS = 25
_MOST_COLUMNS = 12
_MOST_ITEMS = 6
_MOST_CHARACTERS = 60
"""Of a text in a `repr`; a table shows more."""


_MARKDOWN = re.compile(
    r"[\\|`*~$^@]"  # cells, code, emphasis, formulas, names that become links
    r"|!(?=\[)|\[(?![-+.\d]|$)|\](?=[(\[:])"  # images, links; an interval's brackets stay
    r"|:(?=//)|(?<=www)\."  # addresses become links by themselves
    r"|(?<![^\W_])_|_(?![^\W_])"  # emphasis; the underscores of a name stay
    r"|^(?:#|[+-](?=\s)|-(?=--)|\d+[.)](?=\s))",  # headings, lists, rules
    re.IGNORECASE,
)
_LATEX = str.maketrans(
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
        '"': r"\symbol{34}",  # \textquotedbl is an error in the encoding OT1
    }
)
_LIGATURE = re.compile(r"([-'!?,])(?=[-',])")
_JOINERS = "\u200c\u200d"
"""They do not print, but letters and emoji around them are other ones without them."""
_FIGURES = re.compile(r"[-+<\[]?\d[-+.,\de\] ]*%?")


def _flat(text: object) -> str:
    """Return a text on one line: letters whole, stacks of marks cut, nothing that reorders."""
    whole = unicodedata.normalize("NFC", str(text))
    flat = "".join(c if c in _JOINERS else one_line(c) for c in whole).strip()
    return visible(flat, len(flat))


def markdown_text(text: object) -> str:
    r"""Return a text that Markdown shows as it is: a name from a file is no link and no image.

    Examples
    --------
    >>> print(markdown_text("a|b <i> ![x](http://e.org)"), markdown_text("pr_auc [0.1, 0.2]"))
    a\|b &lt;i&gt; \!\[x\](http\://e.org) pr_auc [0.1, 0.2]
    """
    flat = html.escape(_flat(text), quote=False)
    return _MARKDOWN.sub(lambda sign: f"{sign[0][:-1]}\\{sign[0][-1]}", flat)


def markdown_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, align: bool = False
) -> str:
    r"""Return a Markdown table, on demand with columns of figures to the right.

    Examples
    --------
    >>> print(markdown_table(["metric", "value"], [["a|b", "0.9"]], align=True))
    | metric | value |
    |---|---:|
    | a\|b | 0.9 |
    """
    lines = ["| " + " | ".join(map(markdown_text, line)) + " |" for line in (header, *rows)]
    right = _right(header, rows) if align else [False] * len(header)
    lines.insert(1, "".join("|---:" if one else "|---" for one in right) + "|")
    return "\n".join(lines)


def _right(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[bool]:
    """Return which columns hold figures and nothing else."""
    columns = [[line[at] for line in rows if line[at]] for at in range(len(header))]
    return [bool(cells) and all(map(_FIGURES.fullmatch, cells)) for cells in columns]


def latex_text(text: object) -> str:
    r"""Return a text that LaTeX prints as it is, on one line.

    Examples
    --------
    >>> print(latex_text("5 % of a_b--c"))
    5 \% of a\_b-{}-c
    """
    return _LIGATURE.sub(r"\1{}", _flat(text).translate(_LATEX))


def latex_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()
) -> str:
    r"""Return a LaTeX ``tabular`` and small print below it; needs the booktabs package.

    Examples
    --------
    >>> print(latex_table(["metric", "value"], [["pr_auc", "0.9"]]).splitlines()[0])
    \begin{tabular}{lr}
    """
    columns = "".join("r" if right else "l" for right in _right(header, rows))
    lines = [" & ".join(map(latex_text, line)) + r" \\" for line in (header, *rows)]
    # Braces: a line that begins with a bracket or a star would be an option of the line break above.
    lines = ["{}" + line if line[0] in "[*" else line for line in lines]
    told = [rf"{{\footnotesize\noindent {latex_text(note)}\par}}" for note in notes]
    return "\n".join(
        [
            *(rf"\begin{{tabular}}{{{columns}}}", r"\toprule", lines[0], r"\midrule"),
            *(*lines[1:], r"\bottomrule", r"\end{tabular}"),
            *([r"\par\smallskip", *told] if told else []),
        ]
    )


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return aligned columns of plain text, a rule below the header.

    Examples
    --------
    >>> print(text_table(["metric", "value"], [["f1", "0.9"]]))
    metric  value
    ------  -----
    f1      0.9
    """
    lines = [[one_line(cell) for cell in line] for line in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table of escaped text, without colours: a notebook's own theme has them.

    Examples
    --------
    >>> html_table(["a"], [["<b>"]])
    '<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{_html(cell)}</th>" for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{_html(cell)}</td>" for cell in line) + "</tr>" for line in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _html(text: object) -> str:
    return html.escape(visible(text, _CELL))


class Displayed:
    """A result that a notebook shows as a table; its fields are the rows.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, slots=True, repr=False)
    ... class Found(Displayed):
    ...     value: float
    ...     curve: tuple[float, ...]
    >>> Found(0.25, tuple(range(100)))
    Found(value=0.25, curve=100 values)
    >>> "<td>value</td><td>0.25</td>" in Found(0.25, ())._repr_html_()
    True
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return short_repr(self)

    def _repr_html_(self) -> str:
        facts, tables = _parts(self)
        pieces = [html_table([type(self).__name__, ""], facts), *tables]
        return pieces[0] if len(pieces) == 1 else f"<div>{''.join(pieces)}</div>"


class Tabled(Displayed):
    """A result that is a table: one `rows`, and every form of it made from them."""

    __slots__ = ()

    def rows(self) -> list[dict[str, Any]]:
        """Return one flat dict per line: the source of every table."""
        raise NotImplementedError

    def _grid(self) -> Grid:
        """Return the header and the cells of the table every text format shows."""
        rows = self.rows()
        header = list(rows[0]) if rows else []
        return header, [[_shown(value) for value in row.values()] for row in rows]

    def _notes(self) -> Sequence[str]:
        """Return what is to be said below the table."""
        return ()

    def to_pandas(self) -> Any:
        """Return a pandas frame of `rows`; needs the ``dataframe`` extra."""
        feature = f"{type(self).__name__}.to_pandas"
        return require("pandas", feature=feature, extra="dataframe").DataFrame(self.rows())

    def to_polars(self) -> Any:
        """Return a polars frame of `rows`; uses polars when it is installed."""
        polars = require("polars", feature=f"{type(self).__name__}.to_polars")
        return polars.DataFrame(self.rows(), infer_schema_length=None)

    def to_markdown(self) -> str:
        """Return a Markdown table, and below it what is to be said about it."""
        table = markdown_table(*self._grid())
        notes = [f"- {markdown_text(note)}" for note in self._notes()]
        return "\n".join([table, "", *notes] if notes else [table])

    def to_latex(self) -> str:
        """Return a LaTeX ``tabular`` and what is to be said below it; needs booktabs."""
        return latex_table(*self._grid(), self._notes())

    def _repr_html_(self) -> str:
        table = _cut_table(*self._grid())
        notes = "".join(f"<li>{_html(note)}</li>" for note in self._notes())
        return f"<div>{table}<ul>{notes}</ul></div>" if notes else table


def _cut_table(header: list[str], rows: list[list[str]]) -> str:
    """Return a table of the first rows, and how many there are more."""
    shown = rows[:_MOST_ROWS]
    if len(rows) > len(shown):
        rest = f"… {len(rows) - len(shown)} more"
        shown = [*shown, [rest, *[""] * (len(header) - 1)]]
    return html_table(header, shown)


def short_repr(result: Any) -> str:
    """Return a dataclass on one line, with counts in the place of what is long.

    Examples
    --------
    >>> from dataclasses import make_dataclass
    >>> short_repr(make_dataclass("Point", ["x", "by"])(1.5, dict.fromkeys(range(9))))
    'Point(x=1.5, by=9 entries)'
    """
    parts = (f"{name}={_brief(value)}" for name, value in _fields(result))
    return f"{type(result).__name__}({', '.join(parts)})"


def _fields(result: Any) -> list[tuple[str, Any]]:
    return [
        (item.name, getattr(result, item.name))
        for item in dataclasses.fields(result)
        if item.repr and not item.name.startswith("_")
    ]


def _brief(value: Any) -> str:
    """Return what stands for a value in a `repr`."""
    if _is_array(value):
        return f"{math.prod(value.shape)} values"
    if isinstance(value, Mapping) and type(value).__repr__ is dict.__repr__:
        return repr(value) if len(repr(value)) <= _MOST_CHARACTERS else f"{len(value)} entries"
    if isinstance(value, str | list | tuple) and not _is_named_tuple(value):
        whole = repr(value)
        if len(whole) <= _MOST_CHARACTERS:
            return whole
        if isinstance(value, str):
            return f"{value[: _MOST_CHARACTERS - 10]!r}…"
        return f"{len(value)} {'items' if value and _is_record(value[0]) else 'values'}"
    return repr(value)


def _is_array(value: Any) -> bool:
    return hasattr(value, "dtype") and hasattr(value, "shape") and value.shape != ()


def _is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _is_record(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _parts(result: Any) -> tuple[list[list[str]], list[str]]:
    """Return a result's fields as lines, and a table for each list of results among them."""
    facts: list[list[str]] = []
    tables: list[str] = []
    for name, value in _fields(result):
        records = _records_in(value)
        if isinstance(value, Tabled):
            facts.append([name, "below"])
            tables.append(value._repr_html_())
        elif records:
            facts.append([name, f"{len(records)}, below"])
            tables.append(_record_table(name, records))
        else:
            facts.append([name, _shown(value)])
    return facts, tables


def _records_in(value: Any) -> list[tuple[str, Any]]:
    """Return results under their names or numbers, where a field holds several."""
    if isinstance(value, Mapping):
        found = [(str(key), item) for key, item in value.items()]
    elif isinstance(value, list | tuple) and not _is_record(value):
        found = [(str(number), item) for number, item in enumerate(value)]
    else:
        return []
    kinds = {type(item) for _, item in found}
    return found if len(kinds) == 1 and _is_record(found[0][1]) else []


def _record_table(name: str, records: list[tuple[str, Any]]) -> str:
    lines = [dict(_fields(record)) for _, record in records]
    shown = [{field: _shown(value) for field, value in line.items()} for line in lines]
    told = [field for field in shown[0] if any(line[field] for line in shown)][:_MOST_COLUMNS]
    rows = [
        [key, *(line[field] for field in told)]
        for (key, _), line in zip(records, shown, strict=True)
    ]
    return _cut_table([name, *told], rows)


def _shown(value: Any) -> str:
    """Return a value as a cell of a table shows it; nothing for what is not there."""
    if value is None:
        return ""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, str | int):
        return str(value)
    if _is_array(value):
        return _array_shown(value)
    if isinstance(value, Mapping) and not isinstance(value, Displayed):
        items = [f"{key}: {_shown(item)}" for key, item in list(value.items())[:_MOST_ITEMS]]
        return _listed(items, len(value))
    if isinstance(value, list | tuple | set | frozenset):
        return _listed([_shown(item) for item in list(value)[:_MOST_ITEMS]], len(value))
    return str(value)


def _listed(items: list[str], n: int) -> str:
    return ", ".join(items) + (f", … ({n} in all)" if n > len(items) else "")


def _array_shown(array: Any) -> str:
    n = math.prod(array.shape)
    if n <= _MOST_ITEMS:
        return ", ".join(_shown(item) for item in array.ravel().tolist())
    if array.dtype.kind in "iuf":
        return f"{n} values from {_shown(array.min().item())} to {_shown(array.max().item())}"
    return f"{n} values, the first {_shown(array.ravel()[0])}"
