"""lighteval: results with and without details, three layouts of them, and its standard errors."""

import json
import math
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eval_toolkit.errors import EvalToolkitError
from eval_toolkit.integrations.importing import lighteval, read_logs
from eval_toolkit.integrations.importing.logs import Log
from eval_toolkit.integrations.importing.options import Wanted

TIME = "2025-03-01T10-20-30.123456"
ACC = {"metric_name": "acc", "higher_is_better": True, "corpus_level_fn": "mean"}


def row(at: int, acc: float | None, **metric: Any) -> dict[str, Any]:
    return {
        "doc": {
            "query": f"Question: {at} + 1 =",
            "choices": [" 3", " 4"],
            "gold_index": 1,
            "id": str(at),
            "specific": {"topic": "even" if at % 2 == 0 else "odd"},
            "original_query": "",
        },
        "metric": {"acc": acc, **metric},
        "model_response": {
            "input": f"Shots. Question: {at} + 1 =",
            "text": [],
            "logprobs": [-2.0, -0.5],
            "argmax_logits_eq_gold": [False, True],
        },
    }


def generated(at: int, *texts: str) -> dict[str, Any]:
    made = row(at, float(bool(texts[0])))
    made["model_response"] = {"input": [{"role": "user", "content": "Hi"}], "text": list(texts)}
    return made


def dunder(one: dict[str, Any]) -> dict[str, Any]:
    return {f"__{name}__": value for name, value in one.items()}


def parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def output(
    path: Path, results: dict[str, Any], details: dict[str, list[dict[str, Any]]], **more: Any
) -> Path:
    """Write what lighteval does; the model's name has a slash, so its folders are two."""
    file = path / "results" / "org" / "m" / f"results_{TIME}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    general = {"model_name": "org/m", "lighteval_sha": "abc", "max_samples": 2}
    told = {"config_general": general, "results": results, "config_tasks": {}, **more}
    file.write_text(json.dumps(told))
    for task, rows in details.items():
        parquet(path / "details" / "org" / "m" / TIME / f"details_{task}_{TIME}.parquet", rows)
    return file


def only(path: Path, wanted: Wanted | None = None) -> Log:
    (log,) = lighteval.read(path, wanted or Wanted())
    return log


class TestDetails:
    @pytest.mark.parametrize("shape", [dict, dunder])
    def test_both_spellings(self, shape: Any, tmp_path: Path) -> None:
        values = [1.0, 0.0, 1.0]
        rows = [shape(row(at, value)) for at, value in enumerate(values)]
        stated = {"acc": fmean(values), "acc_stderr": stdev(values) / math.sqrt(3)}
        tasks = {"arc|0": {"metrics": [ACC], "effective_num_docs": 3}}
        file = output(tmp_path, {"arc|0": stated}, {"arc|0": rows}, config_tasks=tasks)
        assert lighteval.recognises(file)
        log = only(file)
        assert (log.tool, log.task, log.model) == ("lighteval", "arc|0", "org/m")
        assert (log.tool_version, log.created) == ("abc", "2025-03-01T10:20:30.123456")
        one = log.samples[0]
        assert (one.unit_id, one.input, one.target) == ("0", "Question: 0 + 1 =", " 4")
        assert one.prompt == "Shots. Question: 0 + 1 ="
        assert [(c.text, c.logprob, c.is_greedy) for c in one.choices] == [
            (" 3", -2.0, False),
            (" 4", -0.5, True),
        ]
        assert (one.correct, one.response) == ((1,), None)
        (told,) = log.stated
        assert told.value == fmean(values)
        assert told.stderr == stated["acc_stderr"]
        assert (told.n, told.aggregation, told.stderr_name) == (3, "mean", "sample sd / sqrt(n)")
        assert log.binary == {"acc"}
        assert len(log.files) == 2

    @pytest.mark.parametrize("as_text", [False, True])
    def test_the_flat_layout(self, as_text: bool, tmp_path: Path) -> None:
        rows: list[dict[str, Any]] = [
            {
                "example": f"Q{at}",
                "full_prompt": f"Shots. Q{at}",
                "choices": ["a", "b"],
                "gold_index": [0],
                "gold": [],
                "predictions": [[-1.0, False], [-3.0, True]],
                "metrics": {"acc": at},
            }
            for at in (0, 1)
        ]
        if as_text:  # what lighteval did where nesting did not fit
            rows = [{name: str(value) for name, value in one.items()} for one in rows]
        file = parquet(tmp_path / f"details_leaderboard|arc|0_{TIME}.parquet", rows)
        assert lighteval.recognises(file)
        log = only(file)
        assert log.task == "leaderboard|arc|0"
        one = log.samples[1]
        assert (one.input, one.target, dict(one.values)) == ("Q1", "a", {"acc": 1.0})
        assert [(c.logprob, c.is_greedy) for c in one.choices] == [(-1.0, False), (-3.0, True)]
        assert any("only details" in note for note in log.notes)

    def test_the_flat_layout_of_written_answers(self, tmp_path: Path) -> None:
        rows = [
            {
                "example": "Q",
                "full_prompt": "Q",
                "gold": ["4", "four"],
                "predictions": [["4.", "5"]],
                "metrics": {"em": 1.0},
            }
        ]
        one = only(parquet(tmp_path / f"details_sums|0_{TIME}.parquet", rows)).samples[0]
        assert (one.response, one.target, one.choices) == ("4.", ["4", "four"], ())

    def test_written_answers_empty_ones_and_several(self, tmp_path: Path) -> None:
        rows = [generated(0, "4", "5"), generated(1, "")]
        log = only(parquet(tmp_path / "details" / "m" / TIME / f"details_a|0_{TIME}.parquet", rows))
        assert log.model == "m"
        assert [sample.response for sample in log.samples] == ["4", ""]
        assert log.samples[0].prompt[0].content == "Hi"  # type: ignore[index, union-attr]
        assert any(note.startswith("1 of 2 answers are empty") for note in log.notes)
        assert any(note.startswith("up to 2 answers per document") for note in log.notes)

    def test_fields_of_the_document(self, tmp_path: Path) -> None:
        file = parquet(tmp_path / f"details_a|0_{TIME}.parquet", [row(0, 1.0), row(1, 0.0)])
        wanted = Wanted(by=("topic",), group_field="topic", input_field="query")
        log = only(file, wanted)
        assert [s.parts for s in log.samples] == [{"topic": "even"}, {"topic": "odd"}]
        assert log.samples[1].group == "odd"
        with pytest.raises(EvalToolkitError, match=r"row 1 has no field 'nothing'"):
            lighteval.read(file, Wanted(by=("nothing",)))

    def test_statistics_alone_are_the_same(self, tmp_path: Path) -> None:
        file = parquet(tmp_path / f"details_a|0_{TIME}.parquet", [row(0, 1.0), row(1, None)])
        log = only(file, Wanted(samples=False))
        assert log.samples[0].values["acc"] == 1.0
        assert log.samples[1].values["acc"].status == "skipped"  # type: ignore[union-attr]
        assert log.samples[0].input is None

    def test_few_shot_seeds_are_attempts(self, tmp_path: Path) -> None:
        rows = [row(0, 1.0), row(1, 0.0), row(0, 0.0), row(1, 0.0)]
        log = only(parquet(tmp_path / f"details_a|0_{TIME}.parquet", rows))
        assert [(s.unit_id, s.attempt) for s in log.samples] == [
            ("0", 1), ("1", 1), ("0", 2), ("1", 2)
        ]  # fmt: skip


class TestStated:
    def test_results_alone(self, tmp_path: Path) -> None:
        tasks = {"arc|0": {"effective_num_docs": 100}}
        results = {"arc|0": {"acc": 0.5, "acc_stderr": 0.05}}
        log = only(output(tmp_path, results, {}, config_tasks=tasks))
        assert not log.samples
        assert [(s.value, s.stderr, s.n) for s in log.stated] == [(0.5, 0.05, 100)]

    def test_a_bootstrap_error_is_left_out_and_named(self, tmp_path: Path) -> None:
        f1 = {"metric_name": "f1", "higher_is_better": True, "corpus_level_fn": "CorpusLevelF1"}
        rows = [row(at, 1.0, f1={"golds": [1], "preds": [at]}) for at in (0, 1)]
        results = {"arc|0": {"acc": 1.0, "f1": 0.6, "f1_stderr": 0.0007}}
        tasks = {"arc|0": {"metrics": [ACC, f1]}}
        log = only(output(tmp_path, results, {"arc|0": rows}, config_tasks=tasks))
        assert list(log.samples[0].values) == ["acc"]
        told = {one.name: one for one in log.stated}
        assert (told["f1"].stderr, told["f1"].aggregation) == (None, "CorpusLevelF1")
        assert any("f1, 0.0007, is the spread of bootstrap draws" in n for n in log.notes)
        assert any("computed over the whole corpus: f1" in note for note in log.notes)

    def test_averages_over_tasks(self, tmp_path: Path) -> None:
        one = {"acc": 0.5, "acc_stderr": 0.1}
        results = {"mmlu:a|0": one, "mmlu:b|0": one, "mmlu:_average|0": one, "all": one}
        logs = lighteval.read(output(tmp_path, results, {}), Wanted())
        assert [log.task for log in logs] == list(results)
        assert [log.stated[0].stderr for log in logs] == [0.1, 0.1, None, None]
        assert logs[3].stated[0].aggregation == "the mean of the tasks' means"
        assert all("mean of the tasks' standard errors" in logs[at].notes[0] for at in (2, 3))

    def test_direction(self, tmp_path: Path) -> None:
        lower = {"metric_name": "loss", "higher_is_better": False, "corpus_level_fn": "mean"}
        tasks = {"a|0": {"metrics": [lower]}}
        results = {"a|0": {"loss": 2.0, "ppl": 9.0, "acc": 1.0}}
        log = only(output(tmp_path, results, {}, config_tasks=tasks))
        assert dict(log.higher_is_better) == {"loss": False}
        assert [log.direction(name) for name in ("loss", "ppl", "acc")] == [False, False, True]

    def test_numbers_that_are_none(self, tmp_path: Path) -> None:
        results = {"a|0": {"acc": math.nan, "em": 0.5, "em_stderr": math.nan}}
        log = only(output(tmp_path, results, {}))
        assert [(one.name, one.stderr) for one in log.stated] == [("em", None)]
        assert "a|0: acc is nan, which is not a finite number; omitted" in log.notes

    def test_fewer_rows_than_documents_are_told(self, tmp_path: Path) -> None:
        tasks = {"arc|0": {"effective_num_docs": 5}}
        file = output(
            tmp_path, {"arc|0": {"acc": 1.0}}, {"arc|0": [row(0, 1.0)]}, config_tasks=tasks
        )
        log = only(file)
        assert log.n_planned == 5
        assert "the details contain 1 of 5 documents" in log.notes

    def test_a_folder_is_read_once(self, tmp_path: Path) -> None:
        results = {"a|0": {"acc": 1.0}, "b|0": {"acc": 0.0}, "all": {"acc": 0.5}}
        output(tmp_path, results, {"a|0": [row(0, 1.0)], "b|0": [row(0, 0.0)]})
        logs = read_logs(tmp_path)
        assert [(log.task, len(log.samples)) for log in logs] == [
            ("a|0", 1), ("b|0", 1), ("all", 0)
        ]  # fmt: skip
        assert [log.tool for log in read_logs(tmp_path / "results")] == ["lighteval"] * 3


class TestBadFiles:
    @pytest.mark.parametrize(
        ("told", "line"),
        [
            ({"results": {}}, "'results' is empty"),
            ({"results": 3}, "'results': is 3; it must be an object"),
            ({"results": {"a|0": 1}}, "results of 'a|0': is 1; it must be an object"),
            ({"results": {"a|0": {"acc": 1.0}}, "config_general": {}}, "does not name a model"),
        ],
    )
    def test_results(self, told: dict[str, Any], line: str, tmp_path: Path) -> None:
        file = tmp_path / f"results_{TIME}.json"
        file.write_text(json.dumps({"config_general": {"model_name": "m"}} | told))
        with pytest.raises(EvalToolkitError) as caught:
            lighteval.read(file, Wanted())
        assert line in str(caught.value)
        assert str(file) in str(caught.value)

    @pytest.mark.parametrize(
        ("rows", "line"),
        [
            ([row(0, 1.0), row(1, math.nan)], "row 2: 'acc' is nan; it must be a finite number"),
            ([row(0, 1.0), {**row(1, 0.0), "doc": row(0, 0.0)["doc"] | {"query": "Other"}}],
             "row 2: another document has the same id '0'"),
            ([{"metric": {"acc": 1.0}}], "has no column 'doc'"),
            ([{"metrics": "open('x')", "example": "", "full_prompt": ""}], "cannot be parsed"),
            ([{"a": 1}], "has neither 'metric' nor 'metrics'"),
        ],
    )  # fmt: skip
    def test_details(self, rows: list[dict[str, Any]], line: str, tmp_path: Path) -> None:
        file = parquet(tmp_path / f"details_a|0_{TIME}.parquet", rows)
        with pytest.raises(EvalToolkitError) as caught:
            lighteval.read(file, Wanted())
        assert line in str(caught.value)
        assert str(file) in str(caught.value)

    def test_no_rows(self, tmp_path: Path) -> None:
        table = pa.Table.from_pylist([row(0, 1.0)]).slice(0, 0)
        file = tmp_path / f"details_a|0_{TIME}.parquet"
        pq.write_table(table, file)
        with pytest.raises(EvalToolkitError, match="0 samples"):
            lighteval.read(file, Wanted())

    def test_garbage_is_not_recognised(self, tmp_path: Path) -> None:
        torn = parquet(tmp_path / f"details_a|0_{TIME}.parquet", [row(0, 1.0)])
        torn.write_bytes(torn.read_bytes()[:60])
        other = parquet(tmp_path / "other.parquet", [{"x": 1}])
        text = tmp_path / f"results_{TIME}.json"
        text.write_text('{"results": {}}')
        for path in (torn, other, text, tmp_path, tmp_path / "absent.parquet"):
            assert not lighteval.recognises(path)
