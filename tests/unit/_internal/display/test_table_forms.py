"""One table of typed cells in every form: the same digits, every text escaped, every digit kept."""

import csv
import io
import json
import math
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.each import each
from tests.support.hostile import HOSTILE
from tests.support.terminal import in_terminal

from eval_toolkit._internal.display import (
    MISSING,
    Cell,
    CellLike,
    Count,
    Estimate,
    Interval,
    Number,
    Share,
    Status,
    Table,
    Text,
)
from eval_toolkit._internal.display.to_csv import csv_table
from eval_toolkit._internal.display.to_html import bare_html_table, html_table
from eval_toolkit._internal.display.to_json import json_table, table_of_json
from eval_toolkit._internal.display.to_latex import latex_table
from eval_toolkit._internal.display.to_markdown import markdown_table
from eval_toolkit._internal.display.to_terminal import rich_table
from eval_toolkit._internal.display.to_text import text_table
from eval_toolkit._internal.words import flat, visible

THIRD = 1 / 3
EVERY = Table(
    ["name", "number", "p", "bound", "count", "share", "interval", "estimate", "state", "none"],
    [
        [
            Text("0.5"),
            Number(THIRD),
            Number(1e-6, "p"),
            Number(0.8, "g", bound=">="),
            Count(12345),
            Share(0.0125, ".2f%"),
            Interval(-THIRD, THIRD, "+.3f"),
            Estimate(THIRD, 0.25, 0.5),
            Status("skipped", "one class"),
            MISSING,
        ],
        ["b", 0.5, *[None] * 5, Status("error"), Status("ok"), None],
    ],
    "every kind",
    ["a note"],
)
TEXTS = ["0.5", "0.333", "<0.001", ">= 0.8", "12,345", "1.25 %", "[-0.333, +0.333]"]
TEXTS += ["0.333 [0.250, 0.500]", "skipped: one class", ""]


class Parsed(HTMLParser):
    """The cells of a page's tables, its tags and the attributes of them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.rows: list[list[str]] = []
        self.inside = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[Any]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.inside = True
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.rows[-1][-1] += data

    def handle_comment(self, data: str) -> None:
        self.tags.add("comment")


# --- what a cell is -----------------------------------------------------------------------------


def test_every_kind_of_cell_has_its_text() -> None:
    assert EVERY.texts()[0] == TEXTS
    assert [column.kind for column in EVERY.columns] == [
        *("text", *["number"] * 7, "status", "text"),
    ]


@each(
    ("value", "cell"),
    [
        ("12", Text("12")),
        (12, Count(12)),
        (np.int64(12), Count(12)),
        (np.float64(0.5), Number(0.5)),
        (True, Text("True")),
        (None, MISSING),
        ("", MISSING),
        (Number(None), MISSING),
        (Estimate(None, 0.1, 0.2), MISSING),
        (Interval(0.1, None), MISSING),
        (Status(""), MISSING),
    ],
)
def test_what_becomes_a_cell(value: Any, cell: Cell) -> None:
    assert Table(["x"], [[value]]).rows == ((cell,),)


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([0.5, Estimate(0.5, 0.4, 0.6), Interval(0.4, 0.6), 3, Share(0.1), None], "number"),
        ([0.5, Status("skipped")], "number"),  # a state stands where a number would
        ([Status("ok"), None], "status"),
        ([0.5, "small"], "text"),
        (["0.5", "1,000"], "text"),  # names may look like numbers
        ([None, None], "text"),
        ([], "text"),
    ],
)
def test_columns_are_what_their_cells_are(cells: list[CellLike], kind: str) -> None:
    (column,) = Table(["x"], [[cell] for cell in cells]).columns
    assert column.kind == kind


def test_a_row_that_does_not_fit_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="more or fewer cells than the header"):
        Table(["a", "b"], [["x"]])


def test_an_estimate_and_its_two_cells_read_the_same() -> None:
    for given_numbers in ((0.5, 0.4, 0.6), (2e-5, -1e-6, 3e-5), (0.5, None, None)):
        whole = Estimate(*given_numbers, spec="+")
        assert " ".join(filter(None, map(str, whole.split()))) == str(whole)


def test_long_reasons_are_notes_once() -> None:
    rows = [["a", Status("error", "long " * 9)], ["b", Status("ok", "short")], ["c", 1]]
    rows += [["d", Status("skipped", "long " * 9)]]
    table = Table(["x", "y"], rows, notes=["first"]).footnoted(20)
    assert [line[1] for line in table.texts()] == ["error (1)", "ok: short", "1", "skipped (1)"]
    assert list(table.notes) == ["first", "(1) " + ("long " * 9).strip()]


# --- one table in every form --------------------------------------------------------------------


def test_text() -> None:
    title, header, _, first, second, note = text_table(EVERY).splitlines()
    assert (title, note) == ("every kind", "a note")
    assert re.split(r" {2,}", header) == list(EVERY.header)
    assert re.split(r" {2,}", first) == TEXTS[:-1]
    assert second.split() == ["b", "0.500", "error", "ok"]


def test_terminal() -> None:
    lines = [line for line in in_terminal(EVERY, width=200).splitlines() if line.startswith("│")]
    assert [cell.strip() for cell in lines[0].strip("│").split("│")] == TEXTS
    assert "a note" in in_terminal(EVERY, width=200)
    narrow = in_terminal(EVERY, width=40)
    assert all(word in narrow for text in TEXTS[:-2] for word in text.split())


def test_rich_puts_numbers_to_the_right() -> None:
    justified = [column.justify for column in rich_table(EVERY).columns]
    assert justified == ["left", *["right"] * 7, "left", "left"]


def test_html() -> None:
    page = Parsed(html_table(EVERY, sortable=True))
    assert page.rows == [list(EVERY.header), *EVERY_IN_HTML]
    sort = [value for name, value in page.attributes if name == "data-sort"]
    assert sort[:2] == [repr(THIRD), "1e-06"]  # every digit
    classes = {value for name, value in page.attributes if name == "class"}
    assert {"status-error", "status-skipped", "num", "value", "ci"} <= classes


def test_an_error_and_a_skipped_cell_never_look_alike() -> None:
    looks = {
        word: re.findall(r'<td[^>]*><span class="([^"]*)">', html_table(Table(["a", "b"], [row])))
        for word in ("error", "skipped", "ok")
        for row in [["x", Status(word)]]
    }
    assert looks == {"error": ["status-error"], "skipped": ["status-skipped"], "ok": []}


EVERY_IN_HTML = [
    [*TEXTS[:-2], "skipped one class", ""],  # the reason is quieter, without a colon
    ["b", "0.500", *[""] * 5, "error", "ok", ""],
]


def test_bare_html_has_no_attributes() -> None:
    page = Parsed(bare_html_table(EVERY))
    assert page.rows[1] == TEXTS
    assert page.attributes == []


def test_markdown() -> None:
    title, _, header, align, first, _, _, note = markdown_table(EVERY).splitlines()
    assert (title, note) == ("**every kind**", "- a note")
    assert header == f"| {' | '.join(EVERY.header)} |"
    assert align == f"|---{'|---:' * 7}|---|---|"
    shown = [text.replace("<", "&lt;").replace(">", "&gt;") for text in TEXTS]
    assert first == f"| {' | '.join(shown)} |"


def test_latex() -> None:
    lines = latex_table(EVERY).splitlines()
    assert lines[0] == r"\noindent every kind\par\smallskip"
    assert lines[1] == r"\begin{tabular}{lrrrrrrrll}"
    assert lines[5].startswith(r"0.5 & 0.333 & \textless{}0.001 & \textgreater{}= 0.8 & 12,345 &")
    assert lines[-1] == r"{\footnotesize\noindent a note\par}"


def test_csv_has_every_digit() -> None:
    header, first, second = csv.reader(io.StringIO(csv_table(EVERY), newline=""))
    told = dict(zip(header, first, strict=True))
    assert told == {
        "name": "0.5",
        "number": repr(THIRD),
        "p": "1e-06",
        "bound": "0.8",
        "bound bound": ">=",
        "count": "12345",
        "share": "0.0125",
        "interval low": repr(-THIRD),
        "interval high": repr(THIRD),
        "estimate": repr(THIRD),
        "estimate low": "0.25",
        "estimate high": "0.5",
        "estimate reason": "",
        "state": "skipped",
        "state reason": "one class",
        "none": "",
    }
    assert dict(zip(header, second, strict=True))["estimate"] == "error"


def test_json_has_every_digit_and_comes_back() -> None:
    told = json.loads(json.dumps(json_table(EVERY), allow_nan=False))
    assert told["columns"][1] == {"name": "number", "kind": "number"}
    assert told["rows"][0][1] == {
        "kind": "number",
        "text": "0.333",
        "value": THIRD,
        "spec": ".3f",
        "bound": "",
    }
    assert told["rows"][0][7]["low"] == 0.25
    assert table_of_json(told) == EVERY


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float64("nan")])
def test_json_and_csv_hold_no_number_that_is_none(value: float) -> None:
    cells = [Number(value), Estimate(0.5, 0.4, value), Interval(value, 1.0), Share(value)]
    table = Table(["a", "b", "c", "d", "e"], [[*cells, Count(value)]])
    text = json.dumps(json_table(table), allow_nan=False)
    assert table_of_json(json.loads(text)).header == table.header
    (_, line) = csv.reader(io.StringIO(csv_table(table), newline=""))
    assert line == ["", "0.5", "0.4", "", "", "1.0", "", ""]


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([".3f", "", "+", ".6g"]))
def test_a_number_reads_the_same_in_every_form(value: float, spec: str) -> None:
    table = Table(["x", "y"], [["a", Number(value, spec)]])
    shown = table.texts()[0][1]
    assert text_table(table).split()[-1] == shown
    assert Parsed(html_table(table)).rows[1][1] == shown
    assert markdown_table(table).split("|")[-2].strip() == shown
    assert f"& {shown} " in latex_table(table)
    assert shown in in_terminal(table, width=500)
    told = json_table(table)["rows"][0][1]
    assert (told["text"], told["value"]) == (shown, value)


# --- texts that mean something to a format ------------------------------------------------------

SPECIAL = {
    **HOSTILE,
    "LaTeX": r"\input{/etc/passwd} $x$ & 50 % #1 a_b^c ~ {} \\",
    "Markdown": "a|b `c` *d* [x](http://e.org) ![y](z) # <i>",
    "formula": '=HYPERLINK("http://e.org")',
    "wide formula": "＝1+1",
    "control": "a\x1b[31m\x07\x00b",
    "bidi": "a\u202eb\u2066c",
    "lines": "a\r\nb\u2028c",
}


def hostile_table(text: str) -> Table:
    return Table([text, "n"], [[text, 1], ["b", Status("error", text)]], text, [text])


SPECIAL = {name: text[:3000] for name, text in SPECIAL.items() if flat(text[:3000])}


every_text = each("hostile", SPECIAL.values(), ids=list(SPECIAL))


@every_text
def test_html_shows_a_text_as_a_text(hostile: str) -> None:
    page = Parsed(html_table(hostile_table(hostile)))
    assert page.tags <= {
        *("div", "table", "caption", "thead", "tbody", "tr", "th", "td", "span", "ul", "li", "wbr"),
    }
    assert {name for name, _ in page.attributes} <= {
        *("class", "tabindex", "role", "aria-label", "scope"),
    }
    # Parsers of HTML read a line end as one sign, whichever it is.
    assert page.rows[1][0].split() == visible(hostile, 2000).split()
    assert not any(ord(sign) < 32 and sign not in "\n\t" for row in page.rows for sign in row[0])


@every_text
def test_markdown_shows_a_text_as_a_text(hostile: str) -> None:
    markdown_it = pytest.importorskip("markdown_it")
    parser = markdown_it.MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    tokens = parser.parse(markdown_table(hostile_table(hostile)))
    inline = [token for token in tokens if token.type == "inline"]
    kinds = {child.type for token in inline[1:] for child in token.children}  # the title is bold
    assert kinds <= {"text", "text_special"}
    assert len(inline) == 1 + 3 * 2 + 1
    assert not [token for token in tokens if token.type in ("html_block", "fence", "heading_open")]


@every_text
def test_latex_shows_a_text_as_a_text(hostile: str) -> None:
    lines = latex_table(hostile_table(hostile)).splitlines()
    assert len(lines) == 11
    row = lines[5]
    bare = re.sub(r"\\(?:text[a-z]+\{\}|symbol\{34\}|[&%$#_{}])", "", row.removesuffix(r" \\"))
    bare = bare.replace("{}", "")
    assert bare.count("&") == 1
    assert not set(bare) & set('\\%$#_{}~^<>|`"')


@every_text
def test_csv_runs_nothing(hostile: str) -> None:
    rows = list(csv.reader(io.StringIO(csv_table(hostile_table(hostile)), newline="")))
    assert len(rows) == 3
    for cell in (rows[0][0], rows[1][0], rows[2][-1]):
        assert not cell.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝"))
        assert "\0" not in cell


@every_text
def test_a_terminal_and_a_pipe_get_nothing_that_does_not_print(hostile: str) -> None:
    table = hostile_table(hostile)
    for out in (in_terminal(table, width=200), text_table(table)):
        assert all(sign.isprintable() or sign == "\n" for sign in out)


@every_text
def test_json_keeps_a_text_as_it_is(hostile: str) -> None:
    table = hostile_table(hostile)
    assert table_of_json(json.loads(json.dumps(json_table(table), allow_nan=False))) == table


@settings(max_examples=40)
@given(st.text(st.characters(exclude_categories=[]), max_size=60))
def test_no_text_ends_a_cell(text: str) -> None:
    table = hostile_table(text)
    assert len(Parsed(html_table(table)).rows) == 3
    assert len(Parsed(bare_html_table(table)).rows) == 3
    assert len(list(csv.reader(io.StringIO(csv_table(table), newline="")))) == 3
    first = latex_table(table).splitlines()[-6]
    assert first.replace(r"\&", "").count("&") == 1
