"""The cell, the mapping of cells, and every table made of it."""

import copy
import io
import json
import pickle
import sys
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import polars as pl
import pytest
from rich.console import Console
from tests.support.html_cells import Cells

from eval_toolkit import metric_specs as ms
from eval_toolkit import op_metric_specs as op
from eval_toolkit.errors import InvalidInputError, MissingExtraError
from eval_toolkit.inference import BootstrapCI
from eval_toolkit.scorecards import MetricResult, Scorecard, scorecard

Y = [0, 1] * 20
S = [0.1 + (7 * i % 10) / 20 + 0.3 * label for i, label in enumerate(Y)]
SIX = (ms.pr_auc, ms.roc_auc, ms.recall_at_fpr(0.1), ms.brier, ms.log_loss, ms.ece(n_bins=15))


def strict_json(payload: object) -> Any:
    return json.loads(json.dumps(payload, allow_nan=False))


class Broken:
    """A spec that never has a number."""

    name = "bad"

    def compute(self, y_true: Any, y_score: Any) -> float:
        return float("nan")


class TestMetricResult:
    def test_fields_and_defaults(self) -> None:
        cell = MetricResult(0.5, "ok")
        assert (cell.reason, cell.ci, dict(cell.details)) == ("", None, {})
        assert (cell.n_units, cell.n_groups, cell.n_errors, cell.n_skipped) == (None, None, 0, 0)

    def test_frozen(self) -> None:
        with pytest.raises(FrozenInstanceError):
            MetricResult(0.5, "ok").value = 0.6  # type: ignore[misc]

    def test_unknown_status(self) -> None:
        with pytest.raises(InvalidInputError, match="`status` is 'fine'; it must be 'ok', 'skip"):
            MetricResult(0.5, "fine")  # type: ignore[arg-type]

    @pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
    def test_ok_means_a_number(self, value: Any) -> None:
        with pytest.raises(InvalidInputError, match="an 'ok' cell needs a finite value"):
            MetricResult(value, "ok")

    def test_to_dict_says_what_there_is(self) -> None:
        ci = BootstrapCI(0.5, 0.4, 0.6, 0.95, 100, "BCa")
        full = MetricResult(0.5, "ok", "why", ci, {"threshold": 0.3}, 20, 10, 1, 2).to_dict()
        assert full == {
            "value": 0.5,
            "status": "ok",
            "reason": "why",
            "ci": ci.to_dict(),
            "details": {"threshold": 0.3},
            "n_units": 20,
            "n_groups": 10,
            "n_errors": 1,
            "n_skipped": 2,
        }
        assert MetricResult(0.5, "ok").to_dict() == {"value": 0.5, "status": "ok", "reason": ""}

    def test_how_it_reads(self) -> None:
        ci = BootstrapCI(0.5, 0.4, 0.6, 0.95, 100, "BCa")
        assert f"{MetricResult(0.5, 'ok', ci=ci):.2f}" == "0.50 [0.40, 0.60]"
        assert f"{MetricResult(0.5, 'ok')}" == "0.500"
        assert f"{MetricResult(None, 'error', 'KeyError: x'):.2f}" == "error: KeyError: x"
        assert repr(MetricResult(0.5, "ok", ci=ci)) == "MetricResult(0.5 [0.4, 0.6])"
        assert repr(MetricResult(None, "skipped", "why")) == "MetricResult(skipped: why)"

    def test_survives_pickle_and_copy(self) -> None:
        cell = scorecard(Y, S, metrics=[ms.pr_auc], n_resamples=50)["pr_auc"]
        assert pickle.loads(pickle.dumps(cell)) == cell  # noqa: S301 - our own bytes
        assert copy.deepcopy(cell) == cell


NASTY = "a|b<script>alert('x')</script>_%&#$\\"


@pytest.fixture
def nasty() -> Scorecard:
    """Names and reasons full of characters that every format treats specially."""
    ci = BootstrapCI(0.1234, 0.1, 0.2, 0.9, 200, "BCa")
    return Scorecard(
        {
            NASTY: MetricResult(0.1234, "ok", ci=ci, n_units=30, n_groups=30),
            "plain": MetricResult(None, "error", "KeyError: <b>|~^{}\nsecond line"),
        }
    )


class TestScorecard:
    def test_copies_its_input_and_is_read_only(self) -> None:
        results = {"a": MetricResult(0.5, "ok")}
        card = Scorecard(results)
        results["b"] = MetricResult(0.5, "ok")
        assert list(card) == ["a"]
        with pytest.raises(TypeError, match="does not support item assignment"):
            card["a"] = MetricResult(0.1, "ok")  # type: ignore[index]
        with pytest.raises(TypeError, match="does not support item deletion"):
            del card["a"]  # type: ignore[attr-defined]

    def test_equality_and_hash(self) -> None:
        card = Scorecard({"a": MetricResult(0.5, "ok")})
        assert card == Scorecard({"a": MetricResult(0.5, "ok")})
        assert card != Scorecard({"a": MetricResult(0.6, "ok")})
        assert card != Scorecard({"a": MetricResult(0.5, "ok")}, {"x": card})
        assert card != {"a": 0.5}
        with pytest.raises(TypeError, match="unhashable"):
            hash(card)

    def test_survives_pickle(self) -> None:
        card = scorecard(Y, S, metrics=SIX, n_resamples=50)
        assert pickle.loads(pickle.dumps(card)) == card  # noqa: S301 - our own bytes

    def test_repr(self) -> None:
        card = Scorecard({"a": MetricResult(0.5, "ok"), "b": MetricResult(None, "skipped", "no")})
        assert repr(card) == "Scorecard(a=0.500, b=skipped: no)"

    def test_to_dict_is_strict_json(self) -> None:
        specs = [*SIX, op.op_f1(0.5), op.op_precision(np.inf), Broken()]
        payload = scorecard(Y, S, metrics=specs, n_resamples=50).to_dict()
        assert strict_json(payload) == payload
        assert list(payload) == [spec.name for spec in specs]
        assert payload["pr_auc"]["ci"]["ci_95"] == [
            payload["pr_auc"]["ci"]["ci_low"],
            payload["pr_auc"]["ci"]["ci_high"],
        ]
        assert "ci" not in payload["bad"]

    def test_rows_are_flat_and_include_slices(self, nasty: Scorecard) -> None:
        card = Scorecard({"m": MetricResult(0.5, "ok")}, {"easy": nasty})
        rows = card.rows()
        assert [(row["slice"], row["metric"]) for row in rows] == [
            ("", "m"),
            ("easy", NASTY),
            ("easy", "plain"),
        ]
        assert rows[1]["ci_low"] == 0.1
        assert rows[0]["ci_low"] is None
        assert strict_json(rows) == rows


FRAME = ["metric", "value", "low", "high", "n", "status", "reason"]


class TestFrames:
    def test_pandas_one_row_per_metric(self, nasty: Scorecard) -> None:
        frame = nasty.to_pandas()
        assert frame.columns.tolist()[:7] == FRAME
        assert frame["metric"].tolist() == [NASTY, "plain"]
        ok, bad = frame.iloc[0], frame.iloc[1]
        assert (ok["value"], ok["low"], ok["high"], ok["confidence"]) == (0.1234, 0.1, 0.2, 0.9)
        assert (ok["n_resamples"], ok["method"]) == (200, "BCa")
        assert bad[["value", "low", "high", "n"]].isna().all()
        assert bad["status"] == "error"

    def test_pandas_has_the_slices(self, nasty: Scorecard) -> None:
        frame = Scorecard({"m": MetricResult(0.5, "ok")}, {"de": nasty}, by="language").to_pandas()
        assert frame.columns.tolist()[:8] == ["language", *FRAME]
        assert frame["language"].tolist() == ["all", "de", "de"]

    def test_pandas_of_an_empty_card(self) -> None:
        assert Scorecard({}).to_pandas().shape == (0, 10)

    def test_polars_one_row_per_metric_and_slice(self, nasty: Scorecard) -> None:
        frame = Scorecard({"m": MetricResult(0.5, "ok")}, {"easy": nasty}).to_polars()
        assert isinstance(frame, pl.DataFrame)
        assert frame["metric"].to_list() == ["m", NASTY, "plain"]
        assert frame["slice"].to_list() == ["", "easy", "easy"]
        assert frame["ci_low"].to_list() == [None, 0.1, None]
        assert frame["value"].dtype == pl.Float64

    @pytest.mark.parametrize(
        ("package", "method", "message"),
        [
            (
                "pandas",
                "to_pandas",
                (
                    r"Scorecard.to_pandas requires pandas. "
                    r"Install with: pip install 'eval-toolkit\[dataframe\]'"
                ),
            ),
            (
                "polars",
                "to_polars",
                "Scorecard.to_polars requires polars. Install with: pip install 'polars'",
            ),
        ],
    )
    def test_absent_package(
        self, monkeypatch: pytest.MonkeyPatch, package: str, method: str, message: str
    ) -> None:
        monkeypatch.setitem(sys.modules, package, None)  # what an import finds when it is absent
        card = Scorecard({"m": MetricResult(0.5, "ok")})
        with pytest.raises(ImportError, match=message) as caught:
            getattr(card, method)()
        assert caught.type is MissingExtraError
        assert card.to_dict() == {"m": {"value": 0.5, "status": "ok", "reason": ""}}


class TestTables:
    def test_markdown(self) -> None:
        ci = BootstrapCI(0.5, 0.4, 0.6, 0.9, 100, "BCa")
        card = Scorecard(
            {
                "a": MetricResult(0.5, "ok", ci=ci, n_units=20),
                "b": MetricResult(None, "skipped", "no positives"),
            }
        )
        assert card.to_markdown().splitlines() == [
            "| metric | value | 90 % interval | n | status |",
            "|---|---:|---:|---:|---|",
            "| a | 0.500 | [0.400, 0.600] | 20 | ok |",
            "| b |  |  |  | skipped: no positives |",
        ]

    def test_markdown_escapes_pipes_and_line_breaks(self, nasty: Scorecard) -> None:
        lines = nasty.to_markdown().splitlines()
        assert len(lines) == 4
        # A cell ends at a pipe that no backslash escapes.
        for line in lines:
            unescaped = line.replace("\\\\", "").replace("\\|", "")
            assert unescaped.count("|") == 6
        assert "a\\|b" in lines[2]
        assert "second line" in lines[3]

    def test_slices_get_a_column(self, nasty: Scorecard) -> None:
        card = Scorecard({"m": MetricResult(0.5, "ok")}, {"easy": nasty})
        lines = card.to_markdown().splitlines()
        assert lines[0].startswith("| slice | metric | value | 90 % interval |")
        assert lines[2].startswith("| all | m |")
        assert lines[3].startswith("| easy | ")

    def test_mixed_confidences_are_not_called_by_one(self) -> None:
        cells = {
            str(level): MetricResult(0.5, "ok", ci=BootstrapCI(0.5, 0.4, 0.6, level, 9, "BCa"))
            for level in (0.9, 0.95)
        }
        assert "| interval |" in Scorecard(cells).to_markdown()

    def test_latex_escapes_special_characters(self, nasty: Scorecard) -> None:
        text = nasty.to_latex()
        assert text.startswith("\\begin{tabular}{lrrrl}\n\\toprule\n")
        assert text.endswith("\\bottomrule\n\\end{tabular}")
        assert r"script\textgreater{}\_\%\&\#\$\textbackslash{}" in text
        assert r"\textbar{}\textasciitilde{}\textasciicircum{}\{\} second line" in text
        for line in text.splitlines():
            if line.endswith(r"\\"):  # a row: four separators, whatever the names contain
                assert line.replace(r"\&", "").count("&") == 4

    def test_html_escapes_names_and_reasons(self, nasty: Scorecard) -> None:
        html = nasty._repr_html_()
        parser = Cells("td", "th")
        parser.feed(html)
        assert parser.tags == {"table", "thead", "tbody", "tr", "th", "td"}
        assert "<script>" not in html
        assert "&lt;script&gt;" in html
        assert parser.cells[:5] == ["metric", "value", "90 % interval", "n", "status"]
        assert parser.cells[5] == NASTY
        assert parser.cells[14] == "error: KeyError: <b>|~^{}\nsecond line"

    def test_rich_shows_names_as_they_are(self) -> None:
        card = Scorecard({"[bold]name[/bold]": MetricResult(0.5, "ok", n_units=12)})
        console = Console(width=120, record=True, file=io.StringIO())
        console.print(card)
        text = console.export_text()
        assert "[bold]name[/bold]" in text
        assert "0.500" in text
        assert "12" in text


class TestFound:
    def test_every_spelling_of_a_metric_finds_its_cell(self) -> None:
        card = scorecard(Y, S, metrics=["roc_auc", "f1@0.5", "recall@fpr=0.1", "ece=10"])
        assert list(card) == [
            *("roc_auc", "op_f1_at_0.5", "recall_at_fpr_0.1", "ece_n_bins_10_strategy_uniform"),
        ]
        for asked in ("f1@0.5", "f1=0.50", "recall@fpr=0.1", "ece=10"):
            assert asked in card
            assert card[asked].status == "ok"
        for other in ("F1", "f1@0.4", "PR_AUC", "recall@x"):
            assert other not in card

    def test_a_chart_of_all_cells(self, nasty: Scorecard) -> None:
        chart = Scorecard({"m": MetricResult(0.5, "ok")}, {"de": nasty}, by="language").plot()
        told = chart.to_dict()["description"]
        assert "m: 0.500" in told
        assert "plain, de" in told

    def test_print_shows_the_table_and_the_notes(self) -> None:
        printed = str(Scorecard({"m": MetricResult(0.5, "ok")}, notes=["look at this"]))
        assert printed.splitlines()[-1] == "look at this"
        assert "0.500" in printed


class TestAddresses:
    def card(self, by: str = "category") -> Scorecard:
        whole, part = MetricResult(0.4, "ok"), MetricResult(1.0, "ok")
        name = "story" if by else "category=story"
        parts = {name: Scorecard({"f1_at": part, "x": part})}
        return Scorecard({"f1_at": whole, "x": whole}, parts, by)

    @pytest.mark.parametrize("by", ["category", ""])
    def test_a_cell_of_a_part_is_found_by_its_address(self, by: str) -> None:
        card = self.card(by)
        assert card["x @ category=story"].value == 1.0
        assert card["x@category=story"].value == 1.0
        assert card["x @ all"].value == 0.4
        assert "x @ category=story" in card

    @pytest.mark.parametrize("name", ["x @ category=plain", "x @ topic=story", "y"])
    def test_an_unknown_cell_says_how_parts_are_written(self, name: str) -> None:
        with pytest.raises(KeyError, match="parts are written f1_at @ category=story"):
            self.card()[name]

    def test_a_table_has_the_first_metrics_of_every_part(self) -> None:
        cells = {f"m{n}": MetricResult(0.5, "ok") for n in range(40)}
        card = Scorecard(cells, {"a": Scorecard(cells), "b": Scorecard(cells)}, "part")
        lines = [line.split()[:2] for line in str(card).splitlines()[2:]]
        assert lines[:4] == [["all", "m0"], ["a", "m0"], ["b", "m0"], ["all", "m1"]]
