"""What people see of results: every result class in a notebook, tables in every form, frames."""

import dataclasses
import inspect
import typing
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests.support.each import each
from tests.support.hostile import HOSTILE

import eval_toolkit
from eval_toolkit import EvalSlice, Records, Run, RunResult, Scorecard, scorecard, tasks, write_run
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.display.to_latex import latex_text
from eval_toolkit._internal.display.to_markdown import markdown_text
from eval_toolkit._internal.words import visible
from eval_toolkit.analysis import RunComparison, RunDifference, judge_study
from eval_toolkit.claims import ClaimReport, ClaimResult, GateResult
from eval_toolkit.inference import kaplan_meier
from eval_toolkit.leakage import LeakageReport, eda
from eval_toolkit.metric_specs import roc_auc
from eval_toolkit.metrics import roc_curve

NAMES = [*eval_toolkit.__all__, *eval_toolkit._OLD_HOME]
CLASSES = {name: value for name in NAMES if isinstance(value := getattr(eval_toolkit, name), type)}

# Classes that are no result of anything; a class that belongs to none of these is one.
OPTIONS = (  # what a caller says is wanted: it is read where it is written
    *("AskSpec", "DecodingSpec", "SummarySpec", "Unit"),
    *("Budget", "Claim", "ClaimSpec", "CostMatrix", "EvidenceGate", "OperatingPointSpec", "Plan"),
    *("AskSpec", "DecodingSpec", "MatchSpec", "SummarySpec"),
    *("PredictionColumns", "Requirement", "Rubric", "Suite", "UntilDecided", "UntilWidth"),
    *("MetricInfo", "Perturbation", "Role", "ResponseType", "System"),
)
PARTS_OF_A_CONVERSATION = (  # texts with a view of their own: the viewer, `print`
    *("Completion", "Conversation", "GenerateRequest", "Graph", "JournalEntry", "Loglikelihood"),
    *("LoglikelihoodRequest", "Message", "Node", "RawCompletion", "RawLoglikelihood", "Sample"),
    *("SeedPrompt", "Inputs", "TaskUnits", "Unit"),
)
ACTING = (  # objects that do something, by the last word of their names
    *("Check", "Loader", "Reader", "Sampler", "Selector", "Splitter", "Strategy", "Evaluator"),
    *("Judge", "Cache", "Task", "Model", "Panel", "Refusal", "OpenAICompatible"),
    *("EstimatorScorer", "OpenRun", "ConfidenceSequence"),
)


def is_result(name: str, kind: type) -> bool:
    if issubclass(kind, BaseException) or getattr(kind, "_is_protocol", False):
        return False
    return name not in OPTIONS + PARTS_OF_A_CONVERSATION and not name.endswith(ACTING)


RESULTS = {name: kind for name, kind in CLASSES.items() if is_result(name, kind)}


@each("name", RESULTS)
def test_every_result_has_a_notebook_display(name: str) -> None:
    assert callable(getattr(RESULTS[name], "_repr_html_", None)), (
        f"{name} has no _repr_html_: derive it from _display.Displayed, or say here why it is "
        "no result"
    )


def test_what_is_called_no_result_has_none() -> None:
    assert {n for n in CLASSES if n not in RESULTS and hasattr(CLASSES[n], "_repr_html_")} == set()
    known = {*OPTIONS, *PARTS_OF_A_CONVERSATION}
    assert known <= set(CLASSES)
    assert all(any(name.endswith(end) for name in CLASSES) for end in ACTING)


def returned(hint: Any) -> Iterator[type]:
    if isinstance(hint, type):
        yield hint
    for part in typing.get_args(hint):
        yield from returned(part)


def test_what_public_functions_return_is_displayed() -> None:
    """The functions of the root, and of packages whose results the root does not name."""
    functions = [getattr(eval_toolkit, name) for name in NAMES]
    functions += [getattr(home, name) for home in (eda, tasks) for name in home.__all__]
    bare = {
        kind.__name__
        for function in filter(inspect.isfunction, functions)
        for kind in returned(typing.get_type_hints(function).get("return"))
        if dataclasses.is_dataclass(kind) and not hasattr(kind, "_repr_html_")
    }
    # Specs, and what is asked and answered: see the lists above.
    known = {
        "ColumnSpec",
        "ScoreSpec",
        "SumsSpec",
        "OpSpec",
        "TaskInfo",
        "Asked",
        "Job",
        "SklearnScorer",
    }
    assert bare - known <= {*OPTIONS, *PARTS_OF_A_CONVERSATION, "OpenRun"}


class Page(HTMLParser):
    """The tags of a page, their attributes, and the text of its cells."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: list[Any] = []
        self.cells: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[Any]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        if self.cells:
            self.cells[-1] += data

    def handle_comment(self, data: str) -> None:
        self.tags.add("comment")


PLAIN = {"table", "thead", "tbody", "tr", "th", "td", "div", "ul", "li"}


def filled(kind: type, texts: Iterator[str]) -> Any:
    """Return an instance whose fields hold hostile texts, bare and in all that may hold them."""
    made = object.__new__(kind)
    shapes = [
        lambda text: text,
        lambda text: {text: text},
        lambda text: (text, 1.0),
        lambda text: np.array([text] * 9, dtype=object),
    ]
    for number, field in enumerate(dataclasses.fields(kind)):
        object.__setattr__(made, field.name, shapes[number % 4](next(texts)))
    return made


GENERIC = [
    name
    for name, kind in RESULTS.items()
    if getattr(kind, "_repr_html_", None) is Displayed._repr_html_
]


@each("name", GENERIC)
def test_no_text_of_a_result_is_markup(name: str) -> None:
    texts = list(HOSTILE.values())
    start = GENERIC.index(name)
    turned = iter([text[:2000] for text in texts[start:] + texts[:start]])
    page = Page(filled(RESULTS[name], turned)._repr_html_())
    assert page.tags <= PLAIN
    assert page.attributes == []


@each("text", HOSTILE.values(), ids=list(HOSTILE))
def test_a_hostile_name_is_a_cell_and_nothing_else(text: str) -> None:
    text = text[:5000]
    by = {text: {"n": 2, "by_scorer": {text: {"m": 0.5, "o": {"status": "error", "reason": text}}}}}
    result = RunResult("r", None, {}, by_slice=by)
    page = Page(result._repr_html_())
    assert page.tags <= PLAIN
    assert page.attributes == []
    assert len(page.cells) == 3 * 9
    notes = len(result._as_table().notes)  # a long reason is below the table
    assert notes == (len(text) > 40)
    lines = result.to_markdown().split("\n")
    assert len(lines) == 4 + 2 * notes
    for line in lines[:4]:  # a cell ends at a bar that no backslash escapes
        assert line.replace("\\\\", "").replace("\\|", "").count("|") == 10
    latex = result.to_latex().split("\n")
    assert len(latex) == 8 + 2 * notes
    for line in latex[5:6]:
        bare = line.replace(r"\textbackslash{}", "").replace(r"\&", "")
        assert bare.count("&") == 8


def test_display_of_a_cell() -> None:
    page = Page(eval_toolkit.MetricResult(0.5, "ok", n_units=8)._repr_html_())
    assert page.cells[:6] == ["MetricResult", "", "value", "0.5", "status", "ok"]


def test_a_list_of_results_is_a_table_of_its_own() -> None:
    finding = eval_toolkit.LeakageFinding
    found = finding("ExactDuplicateCheck", "error", None, {}, "3 copies <b>", 3)
    report = LeakageReport([found, found])
    page = Page(report._repr_html_())
    assert page.cells[2:4] == ["findings", "2, below"]
    assert page.cells.count("3 copies <b>") == 2


def test_results_in_a_result_are_estimates_or_tables_of_their_own() -> None:
    verdicts, labels = [1, 0, 1, 1, 0, 0, 1, 0, 1, 0] * 20, [1, 0, 0, 1, 0, 0, 1, 0, 1, 0] * 4
    records = Records.from_columns({"judge": verdicts, "human": [*labels, *[None] * 160]})
    study = judge_study(records, judge="judge", human="human")
    assert "(ci_low=" not in str(study) + repr(study) + study._repr_html_()
    assert "corrected=0.400 [0.293, 0.517]" in repr(study)
    assert len(repr(study)) < 400
    page = Page(study._repr_html_())
    assert page.cells[page.cells.index("corrected") + 1] == "0.400 [0.293, 0.517]"
    assert page.cells[page.cells.index("agreement") + 1] == "below"
    assert page.cells[page.cells.index("kappa") + 1] == f"{study.agreement.kappa}"


def test_long_things_are_counted_in_a_repr() -> None:
    y = np.arange(5000) % 2
    records = Records.from_rows(y, np.linspace(0, 1, 5000))
    for result in (
        roc_curve(y, np.linspace(0, 1, 5000)),
        records,
        kaplan_meier(np.arange(1, 901), [1] * 900),
    ):
        assert len(repr(result)) < 600
        assert repr(result).startswith(type(result).__name__ + "(")
    assert "unit_id=5000 values" in repr(records)
    page = Page(roc_curve(y, np.linspace(0, 1, 5000))._repr_html_())
    assert any("values from 0 to 1" in cell for cell in page.cells)


class TestRun:
    @pytest.fixture
    def run(self, tmp_path: Path) -> Run:
        cell = {"value": 0.8, "status": "ok", "reason": "", "n_units": 40, "n_errors": 2}
        ends = {"ci_low": 0.7, "ci_high": 0.9, "confidence": 0.95, "method": "wilson"}
        block = {
            "accuracy": {**cell, "ci": ends},
            "f1": {"value": None, "status": "skipped", "reason": "one class"},
            "n": 40,
        }
        by = {"test": {"n": 40, "by_scorer": {"guard": block, "dead": {"error": "no memory"}}}}
        results = {"schema_version": "v1", "run_id": "r", "config": {}, "by_slice": by}
        return write_run(tmp_path / "r", results=results, manifest={"run_id": "r"})

    def test_rows(self, run: Run) -> None:
        rows = run.rows()
        assert [(row["system"], row["metric"], row["status"]) for row in rows] == [
            ("guard", "accuracy", "ok"),
            ("guard", "f1", "skipped"),
            ("dead", "", "error"),
        ]
        assert (rows[0]["value"], rows[0]["ci_low"], rows[0]["n_units"]) == (0.8, 0.7, 40)
        assert rows[2]["reason"] == "no memory"
        assert run.to_dict()["cells"] == rows

    def test_frames(self, run: Run) -> None:
        pandas, polars = run.to_pandas(), run.to_polars()
        assert isinstance(pandas, pd.DataFrame)
        assert isinstance(polars, pl.DataFrame)
        assert list(pandas.columns) == polars.columns == list(run.rows()[0])
        assert polars["value"].to_list() == [0.8, None, None]
        assert pandas["value"].isna().tolist() == [False, True, True]

    def test_texts(self, run: Run) -> None:
        assert run.to_markdown().splitlines() == [
            "| slice | part | system | metric | value | 95 % interval | n | errors | status |",
            "|---|---|---|---|---:|---:|---:|---:|---|",
            "| test | all | guard | accuracy | 0.800 | [0.700, 0.900] | 40 | 2 | ok |",
            "| test | all | guard | f1 |  |  |  | 0 | skipped: one class |",
            "| test | all | dead |  |  |  |  | 0 | error: no memory |",
        ]
        assert r"test & all & guard & f1 &  &  &  & 0 & skipped: one class \\" in run.to_latex()
        page = Page(run._repr_html_())
        assert page.cells[9:15] == ["test", "all", "guard", "accuracy", "0.800", "[0.700, 0.900]"]


def test_means_over_folds_are_the_rows_of_a_run_in_folds() -> None:
    mean = {"mean": 0.7, "ci_low": 0.6, "ci_high": 0.8, "confidence": 0.9, "n_failed": 1}
    old = {"run_id": "r", "config": {}, "by_fold": {"0": {}, "1": {}}}
    result = RunResult.from_dict({**old, "fold_summary": {"test": {"s": {"f1": mean}}}})
    (row,) = result.rows()
    assert (row["slice"], row["part"], row["value"], row["n_errors"]) == ("test", "all", 0.7, 1)
    assert result.to_markdown().endswith("- part all of 'test': the mean over 2 folds")


def test_a_comparison_in_every_form() -> None:
    cell = RunDifference(slice="a_b", scorer="[x]", scorer_b="x", metric="m", status="skipped")
    result = RunComparison("one", "two", (cell,), "holm", 0.95, 1, notes=("<b> & c",))
    assert r"a\_b & all & [x] & m" in result.to_latex()
    assert result.to_markdown().endswith("- &lt;b&gt; &amp; c")
    assert Page(result._repr_html_()).tags == PLAIN
    assert result.to_pandas()["verdict"].tolist() == ["skipped"]
    assert "skipped" in repr(result)


def test_a_comparison_says_what_a_and_b_are() -> None:
    numbers: dict[str, Any] = {
        "value_a": 0.5,
        "value_b": 0.625,
        "delta": 0.125,
        "ci_low": 0.01,
        "ci_high": 0.24,
    }
    cell = RunDifference(
        slice="s",
        scorer="x",
        scorer_b="x",
        metric="m",
        status="ok",
        **numbers,
        p_adjusted=0.0001,
        n_units=40,
        higher_is_better=True,
    )
    table = RunComparison("old", "new", (cell,), "holm", 0.9, 1).to_markdown().splitlines()
    assert [word.strip() for word in table[0].split("|")[5:10]] == [
        "A",
        "B",
        "B − A",
        "90 %",
        "p, adjusted",
    ]
    found = [word.strip() for word in table[2].replace("\\", "").split("|")[5:11]]
    assert found == ["0.500", "0.625", "+0.125", "[+0.010, +0.240]", "&lt;0.001", "40"]
    assert table[-2:] == [
        "- A is old, B is new",
        "- p-values corrected for the number of metrics and slices (holm)",
    ]


def test_a_report_of_claims_shows_the_verdict() -> None:
    gates = (GateResult("n", False, "error", "12 rows"),)
    page = ClaimReport((ClaimResult("large enough", gates),))._repr_html_()
    for cell in ("passed", "large enough", "False", "error", "12 rows"):
        assert f">{cell}<" in page
    assert "GateResult" not in page


def test_a_latex_line_that_begins_with_a_bracket_is_no_option() -> None:
    r"""After ``\\`` a bracket would be read as a length."""
    card = Scorecard({"[2cm]": eval_toolkit.MetricResult(0.5, "ok")})
    assert card.to_latex().splitlines()[4].startswith("{}[2cm]")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("हिन्दी", "हिन्दी"),
        ("e\u0301tat", "état"),  # as macOS writes it
        ("🏳\ufe0f\u200d🌈", "🏳\ufe0f\u200d🌈"),
        ("a" + "\u0336" * 50, "a" + "\u0336" * 8),
        ("a\u202eb", "a b"),
    ],
)
def test_marks_belong_to_names(text: str, shown: str) -> None:
    """Names that differ in marks alone stay apart; a stack of them does not cover its neighbours."""
    assert latex_text(text) == markdown_text(text) == shown


def test_escaping() -> None:
    assert latex_text("<0.001 a--b") == r"\textless{}0.001 a-{}-b"
    assert markdown_text("$x$ [a](b) a@b [0.1, 0.2]") == r"\$x\$ \[a\](b) a\@b [0.1, 0.2]"
    assert latex_text(" [2pt]") == "[2pt]"  # no blank between it and the braces of the table
    assert latex_text("a\nb\x1b{") == r"a b \{"
    assert markdown_text(" # no heading") == r"\# no heading"
    assert visible("\u202e") == "⟨U+202E⟩"


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_in_and_out(frame: Any) -> None:
    """A frame's columns go in wherever arrays do, and a frame as a slice; records come out."""
    table = frame(
        {"id": list("abcdefgh"), "y": [0, 1] * 4, "p": [0.1, 0.8, 0.3, 0.6, 0.7, 0.9, 0.2, 0.4]}
    )
    lists = {name: list(table[name]) for name in ("id", "y", "p")}
    ours = scorecard(table["y"], table["p"], metrics=[roc_auc])
    assert ours == scorecard(lists["y"], lists["p"], metrics=[roc_auc])
    records = Records.from_columns({"p": table["p"]}, unit_id=table["id"])
    out = records.to_pandas() if frame is pd.DataFrame else records.to_polars()
    assert isinstance(out, frame)
    assert list(out["p"]) == lists["p"]
    assert list(out["unit_id"]) == lists["id"]
    rows = EvalSlice("test", table, feature_col="id", label_col="y")
    assert rows.n == 8
    shown = Page(rows._repr_html_()).cells
    assert shown[:6] == ["EvalSlice test", "", "n", "8", "n_positive", "4"]
    assert rows.y_true.tolist() == lists["y"]


def test_what_was_not_measured_is_missing_in_a_frame() -> None:
    records = Records.from_columns(
        {"m": [1.0, None]}, unit_id=["a", "b"], slices={"by": ["x", "y"]}
    )
    frame = records.to_polars()
    assert frame["m"].to_list() == [1.0, None]
    assert frame["m.status"].to_list() == ["ok", "skipped"]
    assert frame["part:by"].to_list() == ["x", "y"]
    assert records.to_pandas()["m"].isna().tolist() == [False, True]
