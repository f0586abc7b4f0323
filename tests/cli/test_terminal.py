"""Pages in a terminal: nothing wider than it, no number cut, no meaning by colour alone."""

import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from tests.cli.conftest import Command, columns_of
from tests.support.terminal import in_terminal as shown

from eval_toolkit._internal import tables as _tables
from eval_toolkit._internal.display import (
    Alert,
    CellLike,
    Count,
    Estimate,
    Interval,
    Number,
    Page,
    Share,
    Status,
    Table,
)
from eval_toolkit._internal.display.to_markdown import markdown_page
from eval_toolkit._internal.display.to_terminal import terminal_text
from eval_toolkit._internal.display.wrapping import wrapped
from eval_toolkit.cli import _output
from eval_toolkit.cli._html import html_page
from eval_toolkit.cli._output import Output
from eval_toolkit.cli.main import cli
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.tasks import CompletionSpec, Perturbation, Prompt, Task, perturbed, run_task

ESCAPE = re.compile(r"\x1b\[([\d;]*)m")


def lines_of(*tables: Table, width: int = 80, **page: Any) -> list[str]:
    return [line.rstrip() for line in shown(*tables, width=width, **page).splitlines()]


# --- nothing is wider than the terminal ---------------------------------------------------------

WIDEST = 20
words = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=WIDEST).filter(
    lambda word: cell_len(word) <= WIDEST
)
texts = st.lists(words, max_size=8).map(" ".join)
values = st.floats(0, 99)
numbers: st.SearchStrategy[CellLike] = st.one_of(
    st.builds(Number, values),
    st.builds(Estimate, values, values, values),
    st.builds(Interval, values, values),
    st.sampled_from(
        [
            None,
            Status("error"),
            Status("skipped"),
            Number(1e-9, "p"),
            Share(0.12),
            Count(1234567),
            Interval(-0.1, 0.3, "+.1f", plain=True),
        ]
    ),
)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    kinds = draw(st.lists(st.sampled_from([texts, numbers]), min_size=1, max_size=9))
    rows = draw(st.lists(st.tuples(*kinds), max_size=4))
    return Table([draw(texts) for _ in kinds], rows, draw(texts))


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(tables(), max_size=2), texts, texts, st.integers(WIDEST, 120))
def test_nothing_is_wider_than_the_terminal(
    drawn: list[Table], lead: str, note: str, width: int
) -> None:
    out = shown(*drawn, width=width, lead=[lead], notes=[note])
    assert all(cell_len(line) <= width for line in out.splitlines())
    for cell in (cell for table in drawn for row in table.rows for cell in row):
        for word in cell.text.split():
            assert word in out  # whole, on one line


@given(st.lists(words, max_size=12), st.integers(WIDEST, 60))
def test_wrapped_text_is_the_same_text(drawn: list[str], width: int) -> None:
    lines = wrapped(" ".join(drawn), width)
    assert " ".join(lines).split() == " ".join(drawn).split()
    assert all(cell_len(line) <= width for line in lines)


@given(st.text(st.characters(exclude_categories=["C", "Z"]), max_size=99), st.integers(2, 30))
def test_a_word_that_is_too_wide_is_cut_but_whole(word: str, width: int) -> None:
    lines = wrapped(word, width)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join(lines) == word


def test_a_number_is_never_cut() -> None:
    table = Table(["name", "value"], [["a", Number(123456789.123456789, "r")]])
    assert "123456789.12345679" in shown(table, width=20)
    assert wrapped("123456789.123456789", 10, whole=True) == ["123456789.123456789"]


def test_a_sentence_keeps_a_number_with_its_interval_and_its_sign() -> None:
    lines = wrapped("B beats A by 0.100 [0.040, 0.180], in 95 % of all draws", 24)
    assert lines == ["B beats A by", "0.100 [0.040, 0.180], in", "95 % of all draws"]


# --- how a table gives way ----------------------------------------------------------------------


def test_a_table_that_fits_is_framed_and_its_numbers_stand_below_each_other() -> None:
    rows = [
        ["a", Estimate(0.5, 0.4, 0.6, ".1f"), 7],
        ["b", Number(12.5), 1234],
        ["c", Status("skipped"), None],
    ]
    assert lines_of(Table(["name", "value", "n"], rows)) == [
        "┏━━━━━━┳━━━━━━━━━━━━━━━━━━━┳━━━━━━━┓",
        "┃ name ┃             value ┃     n ┃",
        "┡━━━━━━╇━━━━━━━━━━━━━━━━━━━╇━━━━━━━┩",
        "│ a    │    0.5 [0.4, 0.6] │     7 │",
        "│ b    │ 12.500            │ 1,234 │",
        "│ c    │           skipped │       │",
        "└──────┴───────────────────┴───────┘",
    ]


def test_columns_of_numbers_are_spread_over_tables() -> None:
    one, two = Estimate(0.5, 0.4, 0.6), Estimate(0.25, 0.2, 0.3)
    rows = [["a", one, two, one], ["b", two, Status("error"), two]]
    table = Table(["slice", "x", "y", "z"], rows)
    assert lines_of(table, width=52) == [
        "slice                     x                     y",
        "─────────────────────────────────────────────────",
        "a      0.500 [0.400, 0.600]  0.250 [0.200, 0.300]",
        "b      0.250 [0.200, 0.300]                 error",
        "",
        "slice                     z",
        "───────────────────────────",
        "a      0.500 [0.400, 0.600]",
        "b      0.250 [0.200, 0.300]",
    ]


def test_a_value_stays_in_the_table_of_its_interval() -> None:
    header = ["metric", "plain", "perturbed", "difference", "interval", "p"]
    difference = Estimate(-0.5, -0.648, -0.352, "+").split()
    cells = [Number(1.0), Number(0.5), *difference, Number(1e-9, "p")]
    rows = [["exact_match", *cells], ["f1", *cells]]
    assert lines_of(Table(header, rows), width=46) == [
        "metric       plain  perturbed",
        "─────────────────────────────",
        "exact_match  1.000      0.500",
        "f1           1.000      0.500",
        "",
        "metric      difference         interval      p",
        "──────────────────────────────────────────────",
        "exact_match     -0.500 [-0.648, -0.352] <0.001",
        "f1              -0.500 [-0.648, -0.352] <0.001",
    ]


def test_rows_of_one_slice_stand_below_its_name() -> None:
    rows = [
        [
            f"language={name}",
            *(metric, n, Number(0.5)),
            *Estimate(0.1, 0.05, 0.15, "+").split(),
            Status(verdict),
        ]
        for name, n in (("german", 12), ("french", 34))
        for metric, verdict in (("roc_auc", "better"), ("log_loss", "no clear difference"))
    ]
    header = ["slice", "metric", "rows", "A", "B - A", "interval", "B is"]
    assert lines_of(Table(header, rows), width=64) == [
        "metric        A   B - A          interval  B is",
        "──────────────────────────────────────────────────────────────",
        "language=german (rows 12)",
        "roc_auc   0.500  +0.100  [+0.050, +0.150]  better",
        "log_loss  0.500  +0.100  [+0.050, +0.150]  no clear difference",
        "",
        "language=french (rows 34)",
        "roc_auc   0.500  +0.100  [+0.050, +0.150]  better",
        "log_loss  0.500  +0.100  [+0.050, +0.150]  no clear difference",
    ]


def test_what_is_the_same_in_every_row_is_said_once() -> None:
    rows = [[name, "accuracy", 100, 0.5, 0.5] for name in ("Africa", "Asia", "Europe")]
    table = Table(["slice", "metric", "rows", "A", "B"], rows)
    assert lines_of(table, width=24) == [
        "slice       A      B",
        "────────────────────",
        "Africa  0.500  0.500",
        "Asia    0.500  0.500",
        "Europe  0.500  0.500",
        "in every row: metric",
        "accuracy, rows 100",
    ]


def test_reasons_stand_below_the_table_once() -> None:
    why = "every resample attains the metric's bound"
    rows = [
        ["one", 0.0, Status("ok", why)],
        ["two", 0.1, Status("ok")],
        ["three", 0, Status("ok", why)],
    ]
    assert lines_of(Table(["metric", "value", "status"], rows), width=30) == [
        "metric  value  status",
        "─────────────────────",
        "one     0.000  ok (1)",
        "two     0.100  ok",
        "three       0  ok (1)",
        "(1) every resample attains the",
        "metric's bound",
    ]


def test_rows_of_words_become_blocks() -> None:
    rows = [["arc", "loglikelihoods", "--data, or allenai/ai2_arc", "Science questions of school"]]
    table = Table(["task", "response", "data", "description"], rows)
    assert lines_of(table, width=40) == [
        "arc",
        "  response     loglikelihoods",
        "  data         --data, or",
        "               allenai/ai2_arc",
        "  description  Science questions of",
        "               school",
    ]


def test_names_are_never_markup() -> None:
    assert "[bold red]x[/]" in shown(Table(["[b]a", "n"], [["[bold red]x[/]", 1]]), color="256")


# --- what is said by colour is said without it --------------------------------------------------

STATES = Table(
    ["metric", "B is"],
    [
        ["a", Status("better")],
        ["b", Status("worse")],
        ["c", Status("error", "boom")],
        ["d", Status("skipped")],
        ["e", Status("ok")],
    ],
)


def escapes(text: str) -> dict[str, str]:
    """Return the escapes in front of each word."""
    return {found[2]: found[1] for found in re.finditer(r"\x1b\[([\d;]*)m([a-z]+)", text)}


def test_states_differ_in_blue_and_orange() -> None:
    found = escapes(shown(STATES, color="256"))
    looks = [found[word] for word in ("better", "worse", "error", "skipped")]
    assert len(set(looks)) == 4
    assert "38;5;32" in found["better"]
    assert "38;5;166" in found["worse"]
    assert "38;5;166" in found["error"]
    assert {"1", "7"} <= set(found["error"].split(";")[:2])  # stands out in weight too
    assert found["skipped"] == "2"


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_color_and_dumb_terminals(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    plain = Console(width=80, force_terminal=True, file=io.StringIO())
    page = Page("page", {}, ["B beats A"], [STATES], ["a note"])
    assert "38;5;" in terminal_text(page, plain)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    out = terminal_text(page, Console(width=80, force_terminal=True, file=io.StringIO()))
    codes = {code for found in ESCAPE.findall(out) for code in found.split(";")}
    assert codes <= {"", "0", "1", "2", "7"}  # weight alone
    if "TERM" in variables:
        assert "\x1b" not in out
    for word in ("better", "worse", "error", "skipped"):
        assert word in out


def test_a_slice_called_error_is_no_error() -> None:
    table = Table(["status", "value"], [["error", 0.5], ["better", 0.6]])
    assert "38;5;" not in shown(table, color="256")


def test_the_answer_stands_out() -> None:
    out = shown(color="256", lead=["B beats A", "95 % intervals"], notes=["quiet"])
    assert escapes(out) == {"quiet": "2"}
    assert out.startswith("\x1b[1mB beats A\x1b[0m\n95 % intervals\n")


def test_notes_of_errors_are_not_quiet() -> None:
    out = shown(color="256", notes=[Alert("roc_auc, all: error: boom"), "brier: skipped"])
    assert out.splitlines()[0].startswith("\x1b[38;5;166m")
    assert out.splitlines()[1].startswith("\x1b[2m")


def test_plain_when_piped(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    path = _tables.write_table(columns_of(), tmp_path / "preds.csv")
    out = command("score", path, "--by", "source")[1]
    assert not set("\x1b┃│─━") & set(out)


# --- every command ------------------------------------------------------------------------------

WITHOUT_FORMS = {
    "completion": "a script for a shell",
    "export": "has --to with its own forms",
    "models fetch": "one line",
    "report": "writes HTML itself",
    "schemas show": "a JSON Schema is JSON",
    "tasks new": "writes TOML itself",
    "tasks preview": "prompts exactly as they are sent, or JSON",
    "transcripts": "has --format with its own forms",
    "view": "a server",
}


def leaves(group: click.Group, name: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for part in group.list_commands(context):
        found = group.get_command(context, part)
        if isinstance(found, click.Group):
            yield from leaves(found, f"{name}{part} ")
        elif found is not None:
            yield f"{name}{part}", found


def test_every_page_can_be_had_as_json_markdown_and_html() -> None:
    forms = {"--json", "--md", "--html"}
    lacking = {
        name
        for name, found in leaves(cli)
        if not forms <= {option for parameter in found.params for option in parameter.opts}
    }
    assert lacking <= set(WITHOUT_FORMS)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Predictions, runs of a task, and what else commands read."""
    folder = tmp_path_factory.mktemp("made")
    task = Task(
        "a_task_with_quite_a_long_name",
        Prompt(instruction="{q}"),
        CompletionSpec(answer="a"),
        rows=[{"q": f"Say {i}", "a": str(i), "subject": "odd" if i % 2 else "even"}
              for i in range(40)],
        graders=["exact_match", "f1"],
    )  # fmt: skip

    def answer(request: Any) -> str:
        text = request.prompt[-1].content
        number = int(text.split()[1])
        return "?" if number % 3 == 0 or (text.startswith("SAY") and number < 20) else str(number)

    run_task(task, ScriptedModel(answer), folder / "plain")
    run_task(perturbed(task, Perturbation("upper")), ScriptedModel(answer), folder / "upper")
    _tables.write_table(columns_of(), folder / "preds.csv")
    claims = '[[claim]]\nname = "right"\nslice = "{}"\nscorer = "scripted"\nmetric = "exact_match"\nrequire = "{}"\n'
    name = "a_task_with_quite_a_long_name"
    (folder / "claims.toml").write_text(claims.format(name, "value > 0.99"))
    texts = [f"r{n},a text about the number {n // 2},{n // 2 % 2}" for n in range(40)]
    (folder / "texts.csv").write_text("\n".join(["id,text,label", *texts]))
    (folder / "seeds.csv").write_text("id,prompt\n" + "\n".join(f"u{n},Do {n}" for n in range(12)))
    rows = [f'{{"q": "{n}", "a": "{n % 2}"}}' for n in range(10)]
    (folder / "rows.jsonl").write_text("\n".join(rows))
    (folder / "one.toml").write_text(
        '[task]\nname = "one"\ndata = "rows.jsonl"\n[prompt]\ninstruction = "{q}"\nanswer = "a"\n'
        "[graders.exact_match]\n"
    )
    (folder / "s.toml").write_text('name = "s"\ntasks = ["one.toml"]\n')
    return {path.name: path for path in folder.iterdir()} | {"folder": folder}


COMMANDS = [
    "score preds.csv --by source --resamples 60",
    "score preds.csv --score score --score better --by source --resamples 60",
    "score plain",
    "compare preds.csv --score score --score better --by source --resamples 60",
    "compare plain upper",
    "leaderboard first=plain second=upper",
    "robustness plain upper --resamples 60",
    "check texts.csv",
    "gate plain --claims claims.toml",
    "plan rate --width 0.05 --expected 0.1",
    "plan pilot preds.csv --width 0.1",
    "plan attempts --effect 0.05 --item-sd 0.15 --within-sd 0.35",
    "split texts.csv --out {tmp}/parts",
    "run one.toml --model scripted:1 --out {tmp}/run --quiet",
    "rollout --tester static --target scripted:fool --scorer keywords:fool --seeds seeds.csv --quiet",
    "suite s.toml --model scripted:1 --out {tmp}/suite --quiet",
    "doctor",
    "doctor folder",
    "models list",
    "graders list",
    "graders show rouge",
    "tasks list",
    "tasks show capitals",
    "judge rubrics",
    "schemas list",
]


@pytest.fixture
def at_80(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard output is a terminal of 80 columns."""
    monkeypatch.setattr(_output, "_in_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_fits_80_columns(
    line: str,
    command: Command,
    made: dict[str, Any],
    at_80: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pages: list[Page] = []
    emit = Output.emit

    def noting(self: Output, page: Page, **options: Any) -> None:
        pages.append(page)
        emit(self, page, **options)

    monkeypatch.setattr(Output, "emit", noting)
    given = [
        word.replace("{tmp}", str(tmp_path)) if word not in made else made[word]
        for word in re.sub(r"=(plain|upper)\b", lambda m: f"={made[m[1]]}", line).split()
    ]
    code, out, err = command(*given)
    assert (code in (0, 1), err) == (True, "")
    (page,) = pages
    assert max(map(cell_len, out.splitlines())) <= 80
    for cell in (cell for table in page.tables for row in table.rows for cell in row):
        if cell.numeric:
            assert all(number in out for number in cell.text.split())


def test_a_width_that_cannot_be_is_not_believed(
    command: Command, at_80: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    assert "manifest.v3.json" in command("schemas", "list")[1]


# --- the same as HTML and Markdown --------------------------------------------------------------

PAGE = Page(
    "B - A",
    {},
    ["B beats A", "95 % intervals"],
    [
        Table(
            ["metric", "value", "status"],
            [
                ["a_b", Estimate(0.5, 0.4, 0.6, ".1f"), Status("ok")],
                ["c", None, Status("error", "<b>")],
                ["d", None, Status("skipped", "few")],
            ],
        )
    ],
    ["a note"],
)


def test_html_has_the_look_of_the_report() -> None:
    out = html_page(PAGE)
    assert '<p class="said">B beats A</p><p class="how">95 % intervals</p>' in out
    assert '<th scope="col" class="num">value</th>' in out
    assert (
        '<td class="num"><span class="value">0.5</span> <span class="ci">[0.4, 0.6]</span></td>'
        in out
    )
    assert '<span class="status-error">error</span> <span class="reason">&lt;b&gt;</span>' in out
    assert '<span class="status-skipped">skipped</span>' in out
    assert '<th scope="row" class="name">a_<wbr>b</th>' in out


def test_html_uses_only_classes_that_the_stylesheet_knows() -> None:
    out = html_page(PAGE)
    style, body = out.split("</style>")
    used = {name for found in re.findall(r'class="([^"]*)"', body) for name in found.split()}
    assert used
    assert {name for name in used if f".{name}" not in style} == set()


def test_numbers_are_right_aligned_in_markdown() -> None:
    assert "|---|---:|---|" in markdown_page(PAGE).splitlines()


def test_html_of_a_command(made: dict[str, Any], command: Callable[..., Any]) -> None:
    code, out, _ = command("compare", made["plain"], made["upper"], "--html")
    payload = json.loads(command("compare", made["plain"], made["upper"], "--json")[1])
    assert code == 0
    assert out.startswith("<!doctype html>")
    for cell in payload["cells"]:
        assert f'<td class="num">{cell["delta"]:+.3f}</td>' in out
