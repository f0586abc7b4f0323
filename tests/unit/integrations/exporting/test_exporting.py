"""Exports in the files of other tools: shapes by their specifications, numbers by reading back."""

import csv
import hashlib
import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import sem
from tests.support.lm_eval_files import write_log
from tests.support.report_asked_runs import choice_run, judged_run, rollout_run, tree_run

from eval_toolkit.artifacts import PredictionArtifactRef, PredictionColumns, load_predictions
from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.integrations.exporting import EXPORT_FORMATS, export_files, export_run
from eval_toolkit.integrations.importing import import_logs, read_logs
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.rollouts.graphs import Graph
from eval_toolkit.rollouts.turns import TURNS, rollouts_of, turns_table
from eval_toolkit.runs import Run, write_run
from eval_toolkit.scorecards import Records
from eval_toolkit.tasks import CompletionSpec, Prompt, Task, run_task


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def strict(content: bytes) -> Any:
    return json.loads(content, parse_constant=refuse)


def lines_of(content: bytes) -> list[Any]:
    return [strict(line) for line in content.splitlines()]


def rows_run(folder: Path) -> Run:
    """Scores of a scorer on six rows; the second metric does not exist."""
    records = Records.from_rows(
        [0, 1, 0, 1, 1, 0],
        [0.1, 0.9, 0.4, 0.35, 0.8, 0.2],
        unit_id=[f"u{n}" for n in range(6)],
        inputs=[f"text {n}" for n in range(6)],
    )
    ci = {"ci_low": 0.5, "ci_high": 1.0, "confidence": 0.95, "method": "BCa"}
    block = {
        "roc_auc": {"value": 8 / 9, "status": "ok", "reason": "", "ci": ci, "n_units": 6},
        "ece": {"value": None, "status": "skipped", "reason": "too few rows", "n_units": 6},
    }
    part = {"n": 6, "n_positive": 3, "by_scorer": {"guard": block}}
    results = {"schema_version": "v1", "run_id": "rows", "config": {}, "by_slice": {"test": part}}
    return write_run(
        folder / "rows", results=results, manifest={"run_id": "rows"},
        records={("test", "guard"): records},
    )  # fmt: skip


def results_only(folder: Path) -> Run:
    part = {"n": 4, "by_scorer": {"model": {"acc": 0.25, "f1": 0.5}}}
    results = {"schema_version": "v1", "run_id": "only", "config": {}, "by_slice": {"arc": part}}
    return write_run(folder / "only", results=results, manifest={"run_id": "only"})


def repeated_run(folder: Path) -> Run:
    """Four questions, two tries each: 1 is right once, 2 is never, the others always."""
    tries: dict[str, int] = {}

    def answer(request: Any) -> str:
        asked = request.prompt if isinstance(request.prompt, str) else request.prompt[-1].content
        tries[asked] = tries.get(asked, 0) + 1
        n = int(asked.split()[1])
        return "no" if n == 2 or (n == 1 and tries[asked] == 1) else "yes"

    rows = [{"id": f"q{n}", "q": f"question {n}", "a": "yes"} for n in range(4)]
    task = Task(
        "quiz", Prompt(instruction="{q}"), CompletionSpec(answer="a"),
        rows=rows, graders=["exact_match"],
    )  # fmt: skip
    done = run_task(task, ScriptedModel(answer, name="m"), folder / "quiz", attempts=2, pass_at=[2])
    assert done.run is not None
    return done.run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exporting")


@pytest.fixture(scope="module")
def sums(folder: Path) -> Run:
    return judged_run(folder)


@pytest.fixture(scope="module")
def choices(folder: Path) -> Run:
    return choice_run(folder)


@pytest.fixture(scope="module")
def rollouts(folder: Path) -> Run:
    return rollout_run(folder)


@pytest.fixture(scope="module")
def rows(folder: Path) -> Run:
    return rows_run(folder)


def only(run: Run) -> dict[str, Any]:
    """The stored cells of a run of one scorer on one slice."""
    (part,) = run.results["by_slice"].values()
    (block,) = part["by_scorer"].values()
    cells: dict[str, Any] = block
    return cells


class TestLmEval:
    def files(self, run: Run) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        made = export_files(run, "lm-eval")
        results, samples = sorted(made, key=lambda name: "samples_" in name)
        return strict(made[results]), lines_of(made[samples])

    def test_names(self, sums: Run) -> None:
        stamp = str(sums.manifest["captured_at"]).removesuffix("Z").replace(":", "-") + ".000000"
        assert set(export_files(sums, "lm-eval")) == {
            f"adder/results_{stamp}.json", f"adder/samples_Sums_{stamp}.jsonl",
        }  # fmt: skip

    def test_every_key_of_the_shape_is_there(self, sums: Run) -> None:
        results, samples = self.files(sums)
        # spec/peers.md 3.1 and 3.2: what a real file has at the top, per task and per sample
        assert results.keys() >= {
            "results", "group_subtasks", "configs", "versions", "n-shot", "higher_is_better",
            "n-samples", "config", "git_hash", "date", "pretty_env_info", "transformers_version",
            "lm_eval_version", "upper_git_hash", "task_hashes", "model_source", "model_name",
            "model_name_sanitized", "system_instruction", "fewshot_as_multiturn",
            "total_evaluation_time_seconds",
        }  # fmt: skip
        assert results["n-samples"]["Sums"] == {"original": 12, "effective": 12}
        assert results["higher_is_better"]["Sums"]["exact_match"] is True
        for line in samples:
            assert line.keys() >= {
                "doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter",
                "metrics", "doc_hash", "prompt_hash", "target_hash", *line["metrics"],
            }  # fmt: skip
            text = json.dumps(line["doc"], indent=2, ensure_ascii=False)
            assert line["doc_hash"] == hashlib.sha256(text.encode()).hexdigest()

    def test_what_is_only_stated_comes_back(self, tmp_path: Path) -> None:
        path = tmp_path / "results_2025-01-01T00-00-00.1.json"
        numbers = {"acc,none": 0.7, "acc_stderr,none": 0.05, "sample_len": 90, "bleu,none": 31.0}
        path.write_text(json.dumps({"results": {"all": numbers}, "config": {"model": "m"}}))
        (found,) = import_logs(path, tmp_path / "runs")
        assert found.run is not None
        export_run(found.run, tmp_path / "again", "lm-eval")
        (again,) = import_logs(tmp_path / "again")
        assert again.cells["acc"].to_dict() == found.cells["acc"].to_dict()
        assert again.cells["acc"].details["standard_error"] == 0.05
        assert [line.verdict for line in again.checked] == [
            "as stated: no samples",
            "as stated, not recomputed (aggregation: bleu)",
        ]

    def test_stderr_is_that_of_independent_samples(self, sums: Run) -> None:
        results, samples = self.files(sums)
        values = [one["exact_match"] for one in samples if one["exact_match"] is not None]
        told = results["results"]["Sums"]
        assert len(values) == 11  # of twelve sums one has no answer
        assert told["exact_match,none"] == pytest.approx(8 / 11, abs=1e-15)
        assert told["exact_match_stderr,none"] == pytest.approx(float(sem(values)), abs=1e-15)

    def test_a_failure_that_counts_is_in_the_mean(self, tmp_path: Path) -> None:
        results, samples = self.files(judged_run(tmp_path, on_error="as_zero"))
        values = [one["exact_match"] for one in samples]
        (failed,) = [one for one in samples if "eval_toolkit" in one]
        assert failed["exact_match"] == 0.0
        assert failed["eval_toolkit"]["absent"]["exact_match"]["status"] == "error"
        told = results["results"]["Sums"]
        assert told["exact_match,none"] == pytest.approx(sum(values) / 12, abs=1e-15)
        assert told["exact_match_stderr,none"] == pytest.approx(float(sem(values)), abs=1e-15)
        assert results["configs"]["Sums"]["metric_list"][0]["aggregation"] == "mean"

    def test_a_failure_is_null_with_its_reason(self, sums: Run) -> None:
        _, samples = self.files(sums)
        (failed,) = [one for one in samples if one["exact_match"] is None]
        absent = failed["eval_toolkit"]["absent"]["exact_match"]
        assert absent["status"] == "error"
        assert "no answer" in absent["reason"]

    def test_reading_it_back_gives_the_same_numbers(self, sums: Run, tmp_path: Path) -> None:
        export_run(sums, tmp_path, "lm-eval")
        (log,) = read_logs(tmp_path)
        assert (log.tool, log.task, log.model, len(log.samples)) == ("lm-eval", "Sums", "adder", 12)
        cells = only(sums)
        stated = {one.column: one for one in log.stated}
        records = sums.records("Sums", "adder")
        for name in ("exact_match", "correctness"):
            assert stated[name].value == cells[name]["value"]
            read = [sample.values[name] for sample in log.samples]
            ours = records.columns[name]
            for value, own, status in zip(read, ours, records.status[name], strict=True):
                assert value == own if status == "ok" else not isinstance(value, float)
            known = [value for value in read if isinstance(value, float)]
            assert math.fsum(known) / len(known) == pytest.approx(stated[name].value, abs=1e-12)
        assert {sample.target for sample in log.samples} == {str(n + n * n) for n in range(12)}
        assert {sample.input for sample in log.samples} == {
            f"What is {n} + {n * n}?" for n in range(12)
        }

    def test_choices(self, choices: Run, tmp_path: Path) -> None:
        export_run(choices, tmp_path, "lm-eval")
        (log,) = read_logs(tmp_path)
        first = next(one for one in log.samples if "Capital 0?" in str(one.prompt))
        assert [one.logprob for one in first.choices] == [-1.0, -1.5, -9.0]
        assert first.correct == (0,)
        # the second choice wins from item 3 of six on
        assert next(one.value for one in log.stated if one.column == "accuracy") == 0.5

    def test_attempts_are_repeats(self, folder: Path) -> None:
        run = repeated_run(folder)
        results, samples = self.files(run)
        # of q0 … q3: 1, a half, 0, 1; the four units' mean and spread
        assert [one["exact_match"] for one in samples] == [1.0, 0.5, 0.0, 1.0]
        assert [one["exact_match_pass@2"] for one in samples] == [1.0, 1.0, 0.0, 1.0]
        assert [len(one["resps"][0]) for one in samples] == [2] * 4
        told = results["results"]["quiz"]
        assert told["exact_match,none"] == 0.625
        assert told["exact_match_pass@2,none"] == 0.75
        assert told["exact_match_stderr,none"] == pytest.approx(float(sem([1, 0.5, 0, 1])))

    def test_a_filter_in_a_name_is_a_filter_again(self, tmp_path: Path) -> None:
        """What the importer makes of two filters of one metric."""
        names = ("exact_match,strict", "exact_match,flexible")
        values = {names[0]: [0.0, 0.0, 1.0, 0.0], names[1]: [1.0, 0.0, 1.0, 1.0]}
        block = {name: sum(column) / 4 for name, column in values.items()}
        part = {"n": 4, "by_scorer": {"m": block}}
        results = {"schema_version": "v1", "run_id": "f", "config": {}, "by_slice": {"g": part}}
        records = Records.from_columns(values, unit_id=["a", "b", "c", "d"])
        run = write_run(
            tmp_path / "f", results=results, manifest={"run_id": "f"}, records={("g", "m"): records}
        )
        export_run(run, tmp_path / "out", "lm-eval")
        (log,) = read_logs(tmp_path / "out")
        assert {one.column: one.value for one in log.stated} == block
        for name in names:
            assert [sample.values[name] for sample in log.samples] == values[name]

    def test_rows_have_the_ingredients_of_their_metric(self, rows: Run) -> None:
        results, samples = self.files(rows)
        told = results["results"]["test"]
        assert told["roc_auc,none"] == 8 / 9
        assert told["roc_auc_stderr,none"] == "N/A"
        assert samples[1]["roc_auc"] == [1.0, 0.9]

    def test_a_cell_without_a_value_is_absent_with_its_reason(self, rows: Run) -> None:
        results, _ = self.files(rows)
        assert not [key for key in results["results"]["test"] if key.startswith("ece")]
        assert results["eval_toolkit"]["cells"]["test"]["guard"]["ece"]["reason"] == "too few rows"

    def test_results_alone(self, folder: Path, tmp_path: Path) -> None:
        run = results_only(tmp_path)
        (content,) = export_files(run, "lm-eval").values()
        told = strict(content)["results"]["arc"]
        assert (told["acc,none"], told["acc_stderr,none"]) == (0.25, "N/A")
        with pytest.raises(ArtifactError, match="has no records, so there are no samples"):
            export_files(run, "lm-eval", samples=True)


class TestEvalFramework:
    def test_every_key_of_the_shape_is_there(self, sums: Run) -> None:
        made = export_files(sums, "eval-framework")
        assert set(made) == {
            "metadata.json", "output.jsonl", "results.jsonl", "aggregated_results.json",
        }  # fmt: skip
        # spec/tasks.md 7.2 and 2.4
        for line in lines_of(made["results.jsonl"]):
            assert set(line) == {
                "id", "subject", "num_fewshot", "llm_name", "task_name", "metric_class_name",
                "metric_name", "key", "value", "higher_is_better", "prompt", "response",
                "llm_judge_prompt", "llm_judge_response", "code_execution_trace", "error",
            }  # fmt: skip
        for line in lines_of(made["output.jsonl"]):
            assert set(line) == {
                "id", "subject", "ground_truth", "prompt", "prompt_sequence_positions",
                "concat_compression", "messages", "completion", "raw_completion",
                "raw_completion_sequence_positions", "context", "error",
            }  # fmt: skip
        metadata = strict(made["metadata.json"])
        assert list(metadata) == sorted(metadata)
        assert metadata["metrics"][:1] == ["exact_match"]

    def test_means_are_over_subjects(self, sums: Run) -> None:
        told = strict(export_files(sums, "eval-framework")["aggregated_results.json"])
        # even: 0 and 10 wrong of six; odd: 5 wrong of five, and 7 has no answer
        even, odd = 4 / 6, 4 / 5
        assert told["Average exact_match"] == pytest.approx((even + odd) / 2, abs=1e-15)
        assert told["Average exact_match - odd"] == pytest.approx(odd, abs=1e-15)
        assert told["Average exact_match (including Errors)"] == pytest.approx(
            (even + 4 / 6) / 2, abs=1e-15
        )
        assert told["ErrorFreeRatio exact_match"] == pytest.approx(11 / 12)
        assert told["NumSamples exact_match - odd"] == 5
        spread = np.mean([np.std([1] * 4 + [0] * 2, ddof=1), np.std([1] * 4 + [0], ddof=1)])
        assert told["StdErr exact_match"] == pytest.approx(float(spread) / math.sqrt(11))

    def test_a_failure_has_an_error_and_no_value(self, sums: Run) -> None:
        made = export_files(sums, "eval-framework")
        failed = [one for one in lines_of(made["results.jsonl"]) if one["value"] is None]
        assert {one["metric_name"] for one in failed} >= {"exact_match"}
        assert {one["subject"] for one in failed} == {"odd"}
        assert all("no answer" in one["error"]["message"] for one in failed)

    def test_ids_lead_back_to_units(self, sums: Run) -> None:
        made = export_files(sums, "eval-framework")
        told = strict(made["metadata.json"])["eval_toolkit"]["units"]
        units = {(one["subject"], one["id"]): one["unit_id"] for one in told}
        records = sums.records("Sums", "adder")
        ours = dict(zip(records.unit_id, records.columns["exact_match"], strict=True))
        for line in lines_of(made["results.jsonl"]):
            if line["metric_name"] == "exact_match" and line["value"] is not None:
                assert line["value"] == ours[units[line["subject"], line["id"]]]

    def test_choices(self, choices: Run) -> None:
        told = lines_of(export_files(choices, "eval-framework")["output.jsonl"])
        first = next(one for one in told if "Capital 0?" in one["prompt"])
        assert list(first["loglikelihoods"].values()) == [-1.0, -1.5, -9.0]
        assert first["ground_truth"] == " right0"

    def test_reading_it_back_gives_the_same_numbers(self, sums: Run, tmp_path: Path) -> None:
        export_run(sums, tmp_path / "out", "eval-framework")
        (log,) = read_logs(tmp_path / "out")
        assert (log.tool, log.task, log.model) == ("eval-framework", "Sums", "adder")
        records = sums.records("Sums", "adder")
        known = records.columns["exact_match"][records.status["exact_match"] == "ok"]
        column = next(name for name in log.samples[0].values if "exact_match" in name)
        read = [one.values[column] for one in log.samples]
        assert sorted(v for v in read if isinstance(v, float)) == sorted(known.tolist())
        assert len(read) == 12

    def test_rows_are_refused(self, rows: Run) -> None:
        with pytest.raises(InvalidInputError, match="supports only means over samples"):
            export_files(rows, "eval-framework")


SEEDS = {"random_seed": 0, "numpy_seed": 1, "torch_seed": 2, "fewshot_seed": 3}


@pytest.fixture(scope="module")
def read_in(folder: Path) -> Run:
    """Three answers out of a log of lm-eval."""
    told = {"dataset_path": "org/sums", "generation_kwargs": {"temperature": 0.5}}
    config = {"model": "hf", "model_args": "pretrained=org/small", **SEEDS}
    more: dict[str, Any] = {
        "git_hash": "e4a7b69",
        "n-samples": {"sums": {"original": 15, "effective": 15}},
    }
    write_log(folder / "log", [1.0, 0.0, 1.0], config=config, configs={"sums": told}, **more)
    (found,) = import_logs(folder / "log", folder / "read")
    assert found.run is not None
    return found.run


class TestOrigin:
    """A run that was read from another tool's log is not passed off as one of ours."""

    def test_lm_eval(self, read_in: Run) -> None:
        (name, *_) = made = export_files(read_in, "lm-eval")
        told = strict(made[name])
        assert "results_2025-01-01T" in name
        assert {seed: told["config"][seed] for seed in SEEDS} == SEEDS
        assert (told["config"]["model"], told["model_source"]) == ("hf", "hf")
        assert told["config"]["model_args"] == "pretrained=org/small"
        assert (told["lm_eval_version"], told["git_hash"]) == ("0.4.8", "e4a7b69")
        assert told["date"] == 1735689600.0
        assert told["n-samples"]["sums"] == {"original": 15, "effective": 3}
        assert told["configs"]["sums"]["dataset_path"] == "org/sums"
        assert told["configs"]["sums"]["generation_kwargs"] == {"temperature": 0.5}
        assert told["eval_toolkit"]["imported"]["tool"] == "lm-eval"

    def test_exchange(self, read_in: Run) -> None:
        made = export_files(read_in, "every-eval-ever")
        told = strict(next(content for name, content in made.items() if name.endswith(".json")))
        assert told["eval_library"] == {"name": "lm-eval", "version": "0.4.8"}
        assert told["evaluation_timestamp"] == "2025-01-01T00:00:00+00:00"
        assert told["evaluation_id"].endswith("/1735689600.0")
        args = told["evaluation_results"][0]["generation_config"]["generation_args"]
        assert args == {"temperature": 0.5}

    def test_card(self, read_in: Run) -> None:
        card = export_files(read_in, "model-card")["model_card.md"].decode()
        assert "- imported from lm-eval 0.4.8, results_" in card
        assert ", created 2025-01-01T00:00:00+00:00" in card
        assert "- read with python " in card

    def test_seeds_that_were_never_set_are_not_told(self, sums: Run) -> None:
        made = export_files(sums, "lm-eval")
        told = strict(next(made[name] for name in made if "/results_" in name))
        assert [told["config"][name] for name in SEEDS] == [None] * 4


class TestAstra:
    def test_summary_and_details(self, rollouts: Run) -> None:
        told = strict(export_files(rollouts, "astra")["metrics.json"])
        # spec/rollouts.md part II E
        assert told["summary"].keys() >= {
            "n_rollouts", "avg_reward", "avg_adversarial_toxicity", "avg_target_toxicity",
            "pct_rollouts_with_adversarial_toxicity",
            "pct_rollouts_with_target_toxicity/attack_success_rate",
            "pct_rollouts_with_target_toxicity/audit_success_rate",
        }  # fmt: skip
        # of eight conversations one broke, and four of the other seven failed
        assert told["summary"]["n_rollouts"] == 7
        key = "pct_rollouts_with_target_toxicity/attack_success_rate"
        assert told["summary"][key] == pytest.approx(4 / 7, abs=1e-15)
        assert told["summary"][key] == pytest.approx(only(rollouts)["attack_success"]["value"])
        states = [one["status"] for one in told["details"]]
        assert (states.count("ok"), states.count("error")) == (7, 1)
        assert told["manifest"]["run_id"] == rollouts.run_id

    def test_the_threshold_is_the_runs(self, folder: Path) -> None:
        told = strict(export_files(tree_run(folder), "astra")["metrics.json"])
        assert told["summary"]["n_rollouts"] == 4

    def test_reading_it_back_gives_the_same_numbers(self, rollouts: Run, tmp_path: Path) -> None:
        (path,) = export_run(rollouts, tmp_path / "metrics.json", "astra")
        told = strict(path.read_bytes())
        (log,) = read_logs(path)
        assert (log.tool, log.kind, len(log.samples)) == ("astra-rl", "rollout", 8)
        ours = [one["overall"]["avg_target_toxicity"] for one in told["details"] if one["overall"]]
        read = [one.values["avg_target_toxicity"] for one in log.samples]
        assert [value for value in read if isinstance(value, float)] == ours

    def test_a_rollout_that_never_began_has_no_number(self, rollouts: Run, tmp_path: Path) -> None:
        graphs = [*rollouts_of(rollouts), Graph("never", unit_id="never")]
        run = write_run(
            tmp_path / "r", results=rollouts.results, manifest=dict(rollouts.manifest),
            tables={TURNS: turns_table(graphs)},
        )  # fmt: skip
        told = strict(export_files(run, "astra")["metrics.json"])
        assert told["summary"]["n_rollouts"] == 7
        assert told["details"][-1] == {
            "seed": "never", "rollout_id": "never#1", "status": "skipped",
            "reason": "the rollout has no turns", "context": "never", "overall": {}, "per_turn": [],
        }  # fmt: skip

    def test_a_run_that_names_no_scorer_is_refused(self, rollouts: Run, tmp_path: Path) -> None:
        export_run(rollouts, tmp_path / "metrics.json", "astra")
        (imported,) = import_logs(tmp_path / "metrics.json", tmp_path / "runs")
        assert imported.run is not None
        with pytest.raises(InvalidInputError, match="does not state which scorer judged"):
            export_files(imported.run, "astra")

    @pytest.mark.parametrize("which", [rows_run, results_only])
    def test_other_runs_are_refused(self, tmp_path: Path, which: Callable[[Path], Run]) -> None:
        with pytest.raises(InvalidInputError, match="supports only rollouts, not rows"):
            export_files(which(tmp_path), "astra")


class TestPredictions:
    def read(self, run: Run, folder: Path, **options: Any) -> Path:
        return export_run(run, folder / "p.csv", "predictions", **options)[0]

    def test_scores_load_as_predictions(self, rows: Run, tmp_path: Path) -> None:
        path = self.read(rows, tmp_path)
        columns = PredictionColumns(
            label="label", score="score", row_id="row_id", content_hash="content_hash"
        )
        loaded = load_predictions(
            PredictionArtifactRef(uri=str(path), columns=columns, media_type="text/csv")
        )
        records = rows.records("test", "guard")
        assert loaded.row_ids == tuple(records.unit_id)
        assert loaded.content_hashes == tuple(records.content_hash)
        assert loaded.scores.tolist() == records.columns["score"].tolist()
        assert loaded.labels.tolist() == records.columns["label"].tolist()

    def test_any_metric(self, sums: Run, rollouts: Run, tmp_path: Path) -> None:
        path = self.read(sums, tmp_path, metric="exact_match")
        read = list(csv.DictReader(io.StringIO(path.read_text("utf-8"))))
        assert list(read[0]) == ["score", "row_id", "content_hash"]
        assert len(read) == 11  # one sum has no grade
        assert math.fsum(float(row["score"]) for row in read) == 8
        told = export_files(rollouts, "predictions")["predictions.csv"].decode()
        assert told.count("\n") == 1 + 7
        # read back, exported again: scores without labels are grades of their own
        (imported,) = import_logs(path, tmp_path / "runs")
        assert imported.run is not None
        again = export_files(imported.run, "predictions")["predictions.csv"].decode()
        scores = [row["score"] for row in csv.DictReader(io.StringIO(again))]
        assert scores == [row["score"] for row in read]

    def test_what_is_not_there_is_refused(self, sums: Run, folder: Path, tmp_path: Path) -> None:
        with pytest.raises(InvalidInputError, match="`metric` is 'bleu'; the metrics with a value"):
            export_files(sums, "predictions", metric="bleu")
        with pytest.raises(ArtifactError, match="no records for this slice and scorer; it has"):
            export_files(sums, "predictions", scorer="nobody")
        with pytest.raises(ArtifactError, match="it has records for none"):
            export_files(results_only(tmp_path), "predictions")


class TestWriting:
    @pytest.mark.parametrize("name", EXPORT_FORMATS)
    def test_equal_runs_give_equal_bytes(self, name: str, sums: Run, rollouts: Run) -> None:
        run = rollouts if name == "astra" else sums
        assert export_files(run, name) == export_files(Run.open(run.path), name)

    def test_nothing_is_overwritten_unasked(self, sums: Run, tmp_path: Path) -> None:
        target = tmp_path / "out"
        written = export_run(sums, target, "eval-framework")
        written[0].write_text("mine")
        with pytest.raises(InvalidInputError, match="already exists; pass overwrite=True"):
            export_run(sums, target, "eval-framework")
        assert written[0].read_text() == "mine"
        export_run(sums, target, "eval-framework", overwrite=True)
        assert written[0].read_text() != "mine"

    def test_all_files_or_none(
        self, sums: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole = Path.write_bytes

        def full(path: Path, data: bytes) -> int:
            if "aggregated" in path.name:
                raise OSError(28, "No space left on device")
            return whole(path, data)

        monkeypatch.setattr(Path, "write_bytes", full)
        with pytest.raises(ArtifactError, match="cannot write: No space left on device"):
            export_run(sums, tmp_path / "out", "eval-framework")
        assert list((tmp_path / "out").iterdir()) == []

    def test_a_run_is_not_written_into(self, sums: Run) -> None:
        with pytest.raises(InvalidInputError, match="which must not be modified"):
            export_run(sums, sums.path / "exports", "csv")

    def test_several_runs_have_folders_or_one_table(self, sums: Run, choices: Run) -> None:
        made = export_files([sums, choices], "eval-framework")
        assert {name.split("/")[0] for name in made} == {"sums", "capitals"}
        (table,) = export_files([sums, choices], "csv").values()
        assert {row["run"] for row in csv.DictReader(io.StringIO(table.decode()))} == {
            "sums", "capitals",
        }  # fmt: skip
        with pytest.raises(InvalidInputError, match="two runs have the same name"):
            export_files([sums, sums], "eval-framework")

    def test_wrong_arguments(self, sums: Run) -> None:
        with pytest.raises(InvalidInputError, match="`format` is 'xml'"):
            export_files(sums, "xml")
        with pytest.raises(InvalidInputError, match="csv has no option 'metric'"):
            export_files(sums, "csv", metric="f1")
        with pytest.raises(InvalidInputError, match="must be one or more runs"):
            export_files([], "csv")
