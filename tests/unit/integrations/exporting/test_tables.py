"""Tables, model cards and the exchange format: nothing in a name gets out of its cell."""

import csv
import hashlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.hostile import SHORT
from tests.support.report_asked_runs import choice_run, judged_run, rollout_run

from eval_toolkit._internal.display.to_latex import latex_text
from eval_toolkit._internal.display.to_markdown import markdown_text
from eval_toolkit._internal.plain import whole_text
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.integrations.exporting import cell_rows, export_files
from eval_toolkit.integrations.exporting.model_card import model_card
from eval_toolkit.integrations.exporting.names import file_names
from eval_toolkit.integrations.exporting.tables import csv_table, latex_table, markdown_table
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.runs import Run, write_run
from eval_toolkit.tasks import ChoicesSpec, Prompt, Task, run_task

TEXTS = list(SHORT.values())
FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", " =1", "\t=1", "\r=1", "=cmd|' /C calc'!A0"]


def cell(value: float | None, **more: Any) -> dict[str, Any]:
    state = "ok" if value is not None else "skipped"
    return {"value": value, "status": state, "reason": "", "n_units": 7, **more}


def run_of(folder: Path, blocks: dict[str, dict[str, Any]], **manifest: Any) -> Run:
    part = {"n": 7, "by_scorer": blocks}
    results = {"schema_version": "v1", "run_id": "r", "config": {}, "by_slice": {"test": part}}
    return write_run(folder, results=results, manifest={"run_id": "r", **manifest})


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A scorer per hostile text, with the text as the reason of what it lacks."""
    blocks = {
        text: {"acc": cell(0.25), "f1": cell(None, reason=text)} for text in [*TEXTS, *FORMULAS]
    }
    return run_of(tmp_path_factory.mktemp("hostile") / "r", blocks)


@pytest.fixture
def small(tmp_path: Path) -> Run:
    ci = {"ci_low": 0.1, "ci_high": 1 / 3, "confidence": 0.95, "method": "wilson"}
    block = {"acc": cell(0.1 + 0.2, ci=ci, n_errors=2), "f1": cell(None, reason="one class")}
    return run_of(tmp_path / "r", {"m": block}, command="eval-toolkit run x", dirty_flag=True)


@given(st.lists(st.text(max_size=100)))
def test_names_of_files_are_safe_and_apart(names: list[str]) -> None:
    made = file_names(names)
    assert made.keys() == set(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_~-][A-Za-z0-9_.~-]{0,90}", name) for name in made.values())
    assert len({name.lower() for name in made.values()}) == len(made)


class TestRows:
    def test_a_row_per_cell(self, small: Run) -> None:
        acc, f1 = cell_rows(small)
        assert (acc["value"], acc["ci_high"], acc["n_units"], acc["n_errors"]) == (
            0.1 + 0.2,
            1 / 3,
            7,
            2,
        )
        assert (f1["value"], f1["status"], f1["reason"]) == (None, "skipped", "one class")

    def test_a_scorer_without_cells_says_why(self, tmp_path: Path) -> None:
        run = run_of(tmp_path / "r", {"a": {"skipped": "no data"}, "b": {"error": "boom"}})
        told = [
            (row["system"], row["metric"], row["status"], row["reason"]) for row in cell_rows(run)
        ]
        assert told == [("a", "", "skipped", "no data"), ("b", "", "error", "boom")]


class TestCsv:
    def test_every_digit_and_no_invented_number(self, small: Run) -> None:
        acc, f1 = csv.DictReader(io.StringIO(csv_table(small), newline=""))
        assert float(acc["value"]) == 0.1 + 0.2
        assert float(acc["ci_high"]) == 1 / 3
        assert (f1["value"], f1["ci_low"], f1["reason"]) == ("", "", "one class")

    def test_no_cell_is_a_formula(self, hostile: Run) -> None:
        read = list(csv.reader(io.StringIO(csv_table(hostile), newline="")))
        assert {len(row) for row in read} == {17}
        assert len(read) == 1 + 2 * len({*TEXTS, *FORMULAS})
        texts = [row[at] for row in read for at in (0, 1, 2, 3, 4, 9, 15, 16)]
        assert not [text for text in texts if re.match(r"\s*[=+\-@＝＋－＠]", text)]
        assert {"'=1+1", "' =1"} <= {row[3] for row in read}


class TestLatex:
    def test_table(self, small: Run) -> None:
        assert latex_table(small).splitlines() == [
            r"\begin{tabular}{llllrrrrl}",
            r"\toprule",
            r"slice & part & system & metric & value & 95 \% interval & n & errors & status \\",
            r"\midrule",
            r"test & all & m & acc & 0.300 & [0.100, 0.333] & 7 & 2 & ok \\",
            r"test & all & m & f1 &  &  & 7 & 0 & skipped: one class \\",
            r"\bottomrule",
            r"\end{tabular}",
        ]

    def test_nothing_means_anything_to_latex(self, hostile: Run) -> None:
        known = r"\\(?:textbackslash|textasciitilde|textasciicircum|textless|textgreater|textbar|textasciigrave)\{\}"
        known += r"|\\symbol\{\d+\}|\\[&%$#_{}]|(?<=[-'!?,])\{\}"
        for text in [*TEXTS, *FORMULAS, "a--b", "?`", "a^^41", r"\end{tabular}"]:
            rest = re.sub(known, "", latex_text(text))
            assert not set(rest) & set('\\&%$#_{}~^<>|"`\n\r')
            assert rest.replace("\u200c", "").replace("\u200d", "").isprintable()
        table, _, below = latex_table(hostile).partition("\\end{tabular}\n")
        lines = table.splitlines()
        assert len(lines) == 5 + 2 * len({*TEXTS, *FORMULAS})
        notes = below.splitlines()[1:]
        assert len(notes) == len({text for text in TEXTS if len(text) > 40})
        assert all(
            re.fullmatch(r"\{\\footnotesize\\noindent \(\d+\) .*\\par\}", one) for one in notes
        )
        rows = lines[4:-1]
        assert all(len(re.findall(r"(?<!\\)&", row)) == 8 for row in rows)
        assert not [row for row in rows if row.startswith(("[", "*"))]


class TestReasons:
    def test_a_long_one_is_said_once_below_the_table(self, tmp_path: Path) -> None:
        why = "no attack of this kind was tried, so there is nothing to measure"
        blocks = {"m": {name: cell(None, reason=why) for name in ("a", "b")}}
        run = run_of(tmp_path / "r", blocks)
        assert markdown_table(run).splitlines()[2:] == [
            "| test | all | m | a |  |  | 7 | 0 | skipped (1) |",
            "| test | all | m | b |  |  | 7 | 0 | skipped (1) |",
            "",
            f"- (1) {why}",
        ]
        assert latex_table(run).splitlines()[-2:] == [
            r"\par\smallskip",
            rf"{{\footnotesize\noindent (1) {why}\par}}",
        ]
        assert run.to_markdown().splitlines()[-1] == f"- (1) {why}"


class TestMarkdown:
    def test_several_runs_are_told_apart(self, small: Run) -> None:
        assert markdown_table([small, small]).splitlines()[2:4] == [
            "| r | test | all | m | acc | 0.300 | [0.100, 0.333] | 7 | 2 | ok |",
            "| r | test | all | m | f1 |  |  | 7 | 0 | skipped: one class |",
        ]

    def test_cells_are_texts(self, hostile: Run) -> None:
        """Read by another program: markdown-it as GitHub sets it up, with links and tables."""
        markdown_it = pytest.importorskip("markdown_it")
        parser = markdown_it.MarkdownIt("commonmark", {"html": True}).enable(
            ["table", "strikethrough"]
        )
        tokens = parser.parse(markdown_table(hostile))
        inline = [token for token in tokens if token.type == "inline"]
        cells = 9 * (1 + 2 * len({*TEXTS, *FORMULAS}))
        assert len(inline) == cells + len({text for text in TEXTS if len(text) > 40})
        kinds = {child.type for token in inline for child in token.children}
        assert kinds <= {"text", "text_special"}
        assert not [
            token for token in tokens if token.type in ("html_block", "fence", "heading_open")
        ]

    def test_addresses_are_no_links(self) -> None:
        for text in ("https://a.b", "www.a.b", "a@b.c", "[x](y)", "![x](y)", "<http://a>"):
            shown = markdown_text(text)
            assert not re.search(r"(?<!\\)://|www\.|(?<!\\)@|(?<!\\)\]\(|<", shown)


class TestModelCard:
    def test_what_it_says(self, small: Run) -> None:
        card = model_card(small)
        assert "| test | all | m | acc | 0.300 | [0.100, 0.333] | 7 | 2 | ok |" in card
        assert "- nominal coverage of the intervals: 95 %" in card
        assert "- 1 of 2 metrics have no value; see the table for the reasons" in card
        assert "- up to 2 units per metric failed and are excluded" in card
        assert "- the code had uncommitted changes" in card
        assert f"- manifest sha256:{small.manifest['manifest_sha256']}" in card
        assert "```sh\neval-toolkit run x\n```" in card

    def test_a_command_cannot_leave_its_fence(self, tmp_path: Path) -> None:
        run = run_of(tmp_path / "r", {"m": {"acc": 0.5}}, command="run ```\n# x")
        assert "````sh\nrun ``` # x\n````" in model_card(run)

    def test_model_index(self, small: Run, hostile: Run) -> None:
        yaml = pytest.importorskip("yaml")
        (entry,) = yaml.safe_load(export_files(small, "model-index")["model_index.yaml"])[
            "model-index"
        ]
        assert entry["name"] == "m"
        (result,) = entry["results"]
        assert result["dataset"] == {"name": "test", "type": "test"}
        assert result["metrics"] == [
            {"type": "acc", "value": 0.1 + 0.2, "name": "acc [0.1, 0.3333], n = 7"}
        ]
        read = yaml.safe_load(export_files(hostile, "model-index")["model_index.yaml"])
        kept = [one["name"] for one in read["model-index"]]
        stored = [whole_text(row["system"]) for row in cell_rows(hostile) if row["metric"] == "acc"]
        assert kept == stored

    def test_no_number_is_refused(self, tmp_path: Path) -> None:
        run = run_of(tmp_path / "r", {"m": {"acc": cell(None, reason="x")}})
        for name in ("model-index", "every-eval-ever"):
            with pytest.raises(InvalidInputError, match="the run has no metric values to export"):
                export_files(run, name)


def exchanged(run: Run) -> tuple[dict[str, Any], list[dict[str, Any]], bytes]:
    made = export_files(run, "every-eval-ever")
    (name,) = [name for name in made if name.endswith(".json")]
    rows = made.get(name.replace(".json", "_samples.jsonl"), b"")
    return json.loads(made[name]), [json.loads(line) for line in rows.splitlines()], rows


def texts_alone(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())


def check_results(told: dict[str, Any]) -> None:
    """Hold a file to the keys and types that eval.schema.json 0.2.2 asks for."""
    closed = {
        "schema_version", "evaluation_id", "evaluation_timestamp", "retrieved_timestamp",
        "source_metadata", "eval_library", "model_info", "evaluation_results",
        "detailed_evaluation_results",
    }  # fmt: skip
    assert closed - {"evaluation_timestamp", "detailed_evaluation_results"} <= told.keys() <= closed
    assert all(isinstance(told[name], str) for name in ("schema_version", "evaluation_id"))
    assert float(told["retrieved_timestamp"]) >= 0
    source = told["source_metadata"]
    assert source["source_type"] == "evaluation_run"
    assert source["evaluator_relationship"] in {
        "first_party",
        "third_party",
        "collaborative",
        "other",
    }
    assert isinstance(source["source_organization_name"], str)
    assert texts_alone(source["additional_details"])
    assert all(isinstance(told["eval_library"][name], str) for name in ("name", "version"))
    assert all(isinstance(told["model_info"][name], str) for name in ("name", "id"))
    assert texts_alone(told["model_info"].get("additional_details", {}))
    for result in told["evaluation_results"]:
        assert result.keys() >= {"evaluation_name", "source_data", "metric_config", "score_details"}
        assert result["source_data"]["source_type"] == "other"
        assert isinstance(result["source_data"]["dataset_name"], str)
        metric = result["metric_config"]
        assert isinstance(metric["lower_is_better"], bool)
        assert metric.get("score_type") in (None, "continuous")
        if "score_type" in metric:
            score = result["score_details"]["score"]
            assert metric["min_score"] <= score <= metric["max_score"]
        assert texts_alone(result["score_details"]["details"])
        args = result.get("generation_config", {}).get("generation_args", {})
        assert args.keys() <= {"temperature", "top_p", "top_k", "max_tokens", "execution_command"}


def check_row(row: dict[str, Any]) -> None:
    """Hold a row to the keys and types that instance_level_eval.schema.json 0.2.2 asks for."""
    must = {
        "schema_version", "evaluation_id", "model_id", "evaluation_name", "sample_id",
        "interaction_type", "input", "answer_attribution", "evaluation",
    }  # fmt: skip
    may = {
        "evaluation_result_id", "sample_hash", "output", "messages", "token_usage", "performance",
        "error", "metadata",
    }  # fmt: skip
    assert must <= row.keys() <= must | may
    assert isinstance(row["input"]["raw"], str)
    assert all(isinstance(one, str) for one in row["input"]["reference"])
    assert isinstance(row["evaluation"]["score"], float)
    assert isinstance(row["evaluation"]["is_correct"], bool)
    assert texts_alone(row["metadata"])
    if row["interaction_type"] == "single_turn":
        assert all(isinstance(one, str) for one in row["output"]["raw"])
        assert row["messages"] is None
    else:
        assert row["output"] is None
        assert [one["turn_idx"] for one in row["messages"]] == list(range(len(row["messages"])))
        assert row["evaluation"]["num_turns"] >= 1


class TestEveryEvalEver:
    def test_a_task(self, tmp_path: Path) -> None:
        run = judged_run(tmp_path)
        told, rows, content = exchanged(run)
        check_results(told)
        for row in rows:
            check_row(row)
        result = told["evaluation_results"][0]
        (cells,) = [part["by_scorer"]["adder"] for part in run.results["by_slice"].values()]
        stored = cells["exact_match"]
        assert result["score_details"]["score"] == stored["value"]
        assert result["score_details"]["uncertainty"] == {
            "standard_error": {"value": stored["details"]["standard_error"]},
            "confidence_interval": {
                "lower": stored["ci"]["ci_low"], "upper": stored["ci"]["ci_high"],
                "confidence_level": 0.95, "method": "wilson",
            },
            "num_samples": 11,
        }  # fmt: skip
        assert result["score_details"]["details"]["n_errors"] == "1"
        mine = [
            row for row in rows if row["evaluation_result_id"] == result["evaluation_result_id"]
        ]
        scores = [row["evaluation"]["score"] for row in mine]
        assert sum(scores) / len(scores) == pytest.approx(stored["value"], abs=1e-12)
        about = told["detailed_evaluation_results"]
        assert about["total_rows"] == len(rows)
        assert about["checksum"] == hashlib.sha256(content).hexdigest()
        left_out = about["additional_details"]["rows left out because they have no score"]
        assert int(left_out) == 12 * len({row["evaluation_result_id"] for row in rows}) - len(rows)

    def test_choices(self, tmp_path: Path) -> None:
        _, rows, _ = exchanged(choice_run(tmp_path))
        for row in rows:
            check_row(row)
            assert row["input"]["choices"][0] == row["input"]["reference"][0]
            metric = row["evaluation_result_id"].rpartition("/")[2]
            assert bool(row["answer_attribution"]) == metric.startswith("accuracy")
            for taken in row["answer_attribution"]:
                right = taken["extracted_value"] == row["input"]["reference"][0]
                assert row["evaluation"]["is_correct"] == right
                assert row["output"]["raw"] == [taken["extracted_value"]]

    def test_a_choice_is_that_of_the_metric(self, tmp_path: Path) -> None:
        """By the whole the short one leads, by byte the long one: -4 / 5 is more than -3 / 3."""
        task = Task(
            "t", Prompt(instruction="{q}"),
            ChoicesSpec(choices=(" Rome", " Ur"), answer="a"),
            rows=[{"id": "q", "q": "?", "a": " Rome"}],
            graders=["accuracy", "accuracy_norm_bytes"],
        )  # fmt: skip
        done = run_task(task, ScriptedModel(lambda request: [-4.0, -3.0], name="m"), tmp_path / "r")
        assert done.run is not None
        _, rows, _ = exchanged(done.run)
        told = [
            (one["evaluation"]["is_correct"], *one["output"]["raw"], one["answer_attribution"][0])
            for one in rows
        ]
        assert [(right, raw, how["extraction_method"]) for right, raw, how in told] == [
            (False, " Ur", "largest log-likelihood"),
            (True, " Rome", "largest log-likelihood over bytes"),
        ]

    def test_conversations(self, tmp_path: Path) -> None:
        told, rows, _ = exchanged(rollout_run(tmp_path))
        check_results(told)
        for row in rows:
            check_row(row)
        assert {row["interaction_type"] for row in rows} == {"multi_turn"}
        won = [row for row in rows if row["evaluation_result_id"] == "seeds/attack_success"]
        assert [row["evaluation"]["score"] for row in won].count(1.0) == 4
        # an attack that succeeds is nothing good
        assert all(
            row["evaluation"]["is_correct"] == (row["evaluation"]["score"] == 0) for row in won
        )

        # a metric has rows if it is their mean; rollouts without a turn have no message to show
        said = {one["evaluation_result_id"]: one for one in told["evaluation_results"]}
        for name in {row["evaluation_result_id"] for row in rows} - {"seeds/n_turns"}:
            found = [r["evaluation"]["score"] for r in rows if r["evaluation_result_id"] == name]
            score = said[name]["score_details"]["score"]
            assert sum(found) / len(found) == pytest.approx(score, abs=1e-12)

    def test_a_failure_that_counts_has_a_row(self, tmp_path: Path) -> None:
        told, rows, _ = exchanged(judged_run(tmp_path, on_error="as_zero"))
        score = told["evaluation_results"][0]["score_details"]["score"]
        name = told["evaluation_results"][0]["evaluation_result_id"]
        mine = [row for row in rows if row["evaluation_result_id"] == name]
        assert (len(mine), sum(row["evaluation"]["score"] for row in mine)) == (12, 8)
        assert score == pytest.approx(8 / 12)
        assert [row["evaluation"]["score"] for row in mine if row["error"]] == [0.0]

    def test_a_lone_surrogate_is_no_crash(self, tmp_path: Path) -> None:
        told, _, _ = exchanged(run_of(tmp_path / "r", {"a\ud800": {"acc": 0.5}}))
        assert told["evaluation_results"][0]["score_details"]["score"] == 0.5

    def test_cells_without_a_value_are_named(self, small: Run) -> None:
        told, rows, _ = exchanged(small)
        check_results(told)
        assert [one["evaluation_result_id"] for one in told["evaluation_results"]] == ["test/acc"]
        details = told["source_metadata"]["additional_details"]
        assert details["without a value: test/f1"] == "skipped: one class"
        assert rows == []
        assert "detailed_evaluation_results" not in told
