"""eval-framework's outputs: rows with errors, subjects, repeats, and averages that are not means."""

import json
import math
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from eval_toolkit.errors import EvalToolkitError
from eval_toolkit.integrations.importing import eval_framework, read_logs
from eval_toolkit.integrations.importing.logs import Log
from eval_toolkit.integrations.importing.options import Wanted

ERROR = {"error_class": "TimeoutError", "message": "no\nanswer", "traceback": "…"}


def result(
    number: int, value: float | None, subject: str = "no_subject", **more: Any
) -> dict[str, Any]:
    return {
        "id": number,
        "subject": subject,
        "num_fewshot": 0,
        "metric_class_name": "AccuracyCompletion",
        "metric_name": "Accuracy",
        "key": None,
        "value": value,
        "higher_is_better": True,
        "error": None,
        **more,
    }


def answer(number: int, subject: str = "no_subject", **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "subject": subject,
        "ground_truth": ["4"],
        "prompt": "Q: 1+1? A: 2 Q: 2+2? A:",
        "prompt_sequence_positions": 12,
        "messages": [
            {"role": "user", "content": "1+1?", "property": None},
            {"role": "assistant", "content": "2"},
            {"role": "user", "content": "2+2?"},
            {"role": "assistant", "content": " 4."},
        ],
        "completion": "4",
        "raw_completion": " 4.",
        "error": None,
        **more,
    }


def output(
    path: Path,
    results: list[dict[str, Any]] | None,
    answers: list[dict[str, Any]] | None = None,
    averages: dict[str, Any] | None = None,
    **about: Any,
) -> Path:
    path.mkdir(exist_ok=True)
    told = {"task_name": "Sums", "llm_name": "tiny", "eval_framework_version": "0.9.1", **about}
    (path / "metadata.json").write_text(json.dumps(told))
    for name, rows in (("results.jsonl", results), ("output.jsonl", answers)):
        if rows is not None:
            (path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    if averages is not None:
        (path / "aggregated_results.json").write_text(json.dumps(averages))
    return path


def only(path: Path, wanted: Wanted | None = None) -> Log:
    (log,) = eval_framework.read(path, wanted or Wanted())
    return log


class TestReading:
    def test_answers_and_values(self, tmp_path: Path) -> None:
        rows = [result(0, 1.0), result(1, 0.0)]
        rows += [result(0, 7.0, metric_name="Bytes"), result(1, 7.0, metric_name="Bytes")]
        run = output(
            tmp_path,
            rows,
            [answer(0), answer(1)],
            {"Average Accuracy": 0.5, "StdErr Accuracy": 0.5, "NumSamples Accuracy": 2},
            llm_args={"api_key": "sk-abc", "temperature": 0},
            num_fewshot=1,
        )
        assert eval_framework.recognises(run)
        assert eval_framework.recognises(run / "results.jsonl")
        (log,) = read_logs(run)
        assert (log.tool, log.task, log.model, log.tool_version) == (
            "eval-framework", "Sums", "tiny", "0.9.1",
        )  # fmt: skip
        one = log.samples[0]
        assert dict(one.values) == {"Accuracy": 1.0}
        assert (one.input, one.target, one.response) == ("2+2?", "4", " 4.")
        assert one.usage == {"prompt_tokens": 12}
        assert one.parts == {}
        (stated,) = log.stated
        # sd of (1, 0) is 0.7071; over sqrt(2) that is 0.5
        assert (stated.value, stated.stderr, stated.n, stated.aggregation) == (0.5, 0.5, 2, "mean")
        assert log.settings["llm_args"] == {"api_key": "[redacted]", "temperature": 0}

    def test_choices(self, tmp_path: Path) -> None:
        row = {
            "id": 0,
            "subject": "no_subject",
            "ground_truth": " four",
            "prompt": "2+2?",
            "loglikelihoods": {" four": -0.5, " five": -2.0},
        }
        one = only(output(tmp_path, [result(0, 1.0)], [row])).samples[0]
        assert [(choice.text, choice.logprob) for choice in one.choices] == [
            (" four", -0.5),
            (" five", -2.0),
        ]
        assert (one.correct, one.response, one.input) == ((0,), None, "2+2?")

    def test_keys_are_columns_and_direction_is_kept(self, tmp_path: Path) -> None:
        rows = [result(0, 1.0, key="strict"), result(0, 0.5, key="loose")]
        rows += [result(0, 3.0, metric_name="TER", higher_is_better=False)]
        log = only(output(tmp_path, rows))
        assert dict(log.samples[0].values) == {
            "Accuracy/strict": 1.0, "Accuracy/loose": 0.5, "TER": 3.0,
        }  # fmt: skip
        assert dict(log.higher_is_better) == {
            "Accuracy/strict": True, "Accuracy/loose": True, "TER": False,
        }  # fmt: skip

    def test_repeats_are_attempts(self, tmp_path: Path) -> None:
        rows = [result(n, float(n % 2)) for n in range(4)]
        run = output(
            tmp_path, rows, averages={"Average Accuracy": 0.5, "StdErr Accuracy": 0.29}, repeats=2
        )
        log = only(run)
        assert [(s.unit_id, s.attempt) for s in log.samples] == [
            ("0", 1), ("0", 2), ("1", 1), ("1", 2)
        ]  # fmt: skip
        assert log.stated[0].stderr is None
        assert any("treats the 2 answers to an item as independent" in n for n in log.notes)

    def test_errors_and_absence_are_states(self, tmp_path: Path) -> None:
        rows = [result(0, 1.0), result(1, None, error=ERROR), result(2, None)]
        averages = {
            "Average Accuracy": 1.0,
            "Average Accuracy (including Errors)": 0.5,
            "ErrorFreeRatio Accuracy": 2 / 3,
        }
        log = only(output(tmp_path, rows, [answer(0), answer(1), answer(3)], averages))
        states = {s.unit_id: s.values["Accuracy"] for s in log.samples}
        assert states["1"].status == "error"  # type: ignore[union-attr]
        assert states["1"].reason == "TimeoutError: no answer"  # type: ignore[union-attr]
        assert states["2"].status == "skipped"  # type: ignore[union-attr]
        assert states["3"].reason == "not graded"  # type: ignore[union-attr]
        assert (
            "Average Accuracy excludes 1 of 3 rows, which have errors; counting them as 0, it is stated as 0.5"
            in log.notes
        )

    @pytest.mark.parametrize("name", ["results.jsonl", "output.jsonl"])
    def test_a_torn_last_line_loses_itself_alone(self, name: str, tmp_path: Path) -> None:
        run = output(tmp_path, [result(0, 1.0), result(1, 0.0)], [answer(0), answer(1)])
        whole = (run / name).read_bytes()
        (run / name).write_bytes(whole[:-20])
        log = only(run)
        assert len(log.samples) == 2
        assert f"{name}: line 2, the last, is incomplete and was skipped" in log.notes

    def test_answers_thrown_away_are_named(self, tmp_path: Path) -> None:
        run = output(tmp_path, [result(0, 1.0)])
        (run / "output.jsonl.broken.20250101").write_text("")
        assert any("output.jsonl.broken.20250101" in note for note in only(run).notes)


class TestAverages:
    def rows(self, sizes: dict[str, list[float]]) -> list[dict[str, Any]]:
        return [
            result(n, value, subject)
            for subject, values in sizes.items()
            for n, value in enumerate(values)
        ]

    def test_subjects_of_other_sizes_are_no_plain_mean(self, tmp_path: Path) -> None:
        groups = {"a": [1.0, 1.0, 0.0, 0.0], "b": [1.0, 1.0]}
        right = math.sqrt(sum(stdev(g) ** 2 / len(g) for g in groups.values())) / 2
        wrong = right * math.sqrt(2)  # the published formula divides by sqrt(G), not by G
        averages = {
            "Average Accuracy": 0.75,
            "Average Accuracy - a": 0.5,
            "Average Accuracy - b": 1.0,
            "StdErr Accuracy": wrong,
            "NumSamples Accuracy": 12,
        }
        log = only(output(tmp_path, self.rows(groups), averages=averages))
        (stated,) = log.stated
        assert (stated.value, stated.stderr) == (0.75, None)
        assert stated.aggregation == "the mean of the subjects' means"
        assert log.samples[4].unit_id == "b/0"
        assert log.samples[4].parts == {"subject": "b"}
        assert any(f"which is {right:.4g}: too large by sqrt(2)" in note for note in log.notes)
        assert "NumSamples Accuracy is 12, but 6 rows have a value" in log.notes
        assert not any("is stated" in note for note in log.notes)

    def test_subjects_of_one_size_are_one_mean(self, tmp_path: Path) -> None:
        groups = {"a": [1.0, 0.0, 0.3], "b": [0.1, 0.2, 0.7]}
        value = fmean([fmean(group) for group in groups.values()])
        log = only(output(tmp_path, self.rows(groups), averages={"Average Accuracy": value}))
        assert log.stated[0].aggregation == "mean"

    def test_what_the_rows_do_not_give_is_told(self, tmp_path: Path) -> None:
        averages = {"Average Accuracy": 0.9, "Average Accuracy - a": 0.4}
        rows = self.rows({"a": [1.0, 0.0], "b": [1.0, 1.0]})
        notes = only(output(tmp_path, rows, averages=averages)).notes
        assert "Average Accuracy is stated as 0.9, but the rows give 0.75" in notes
        assert "Average Accuracy - a is stated as 0.4, but the rows give 0.5" in notes

    def test_a_subject_that_failed_wholly_is_named(self, tmp_path: Path) -> None:
        rows = [result(0, 1.0, "a"), result(0, None, "b", error=ERROR)]
        log = only(output(tmp_path, rows, averages={"Average Accuracy": 1.0}))
        assert any("excludes b, where all rows failed" in note for note in log.notes)

    def test_nothing_but_errors(self, tmp_path: Path) -> None:
        averages = {"Average Accuracy": None, "StdErr Accuracy": 0.1, "NumSamples Accuracy": 0}
        log = only(output(tmp_path, [result(0, None, error=ERROR)], averages=averages))
        assert not log.stated
        assert log.samples[0].values["Accuracy"].status == "error"  # type: ignore[union-attr]
        averages["Average Accuracy"] = 0.0
        log = only(output(tmp_path, [result(0, None, error=ERROR)], averages=averages))
        assert (log.stated[0].value, log.stated[0].n, log.stated[0].stderr) == (0.0, 0, None)

    def test_nan_in_the_averages_is_a_note(self, tmp_path: Path) -> None:
        averages = {"Average Accuracy": 1.0, "StdErr Accuracy": math.nan}
        log = only(output(tmp_path, [result(0, 1.0)], averages=averages))
        assert log.stated[0].stderr is None
        assert "StdErr Accuracy is nan, which is not a finite number; omitted" in log.notes

    def test_averages_alone(self, tmp_path: Path) -> None:
        averages = {
            "Average Accuracy": 0.5,
            "ErrorFreeRatio Accuracy": 1.0,
            "StdErr Accuracy": 0.1,
            "NumSamples Accuracy": 26,
            "Average Bytes": 10.0,
            "ErrorFreeRatio Bytes": 1.0,
        }
        log = only(output(tmp_path, None, averages=averages))
        assert not log.samples
        assert [(s.column, s.value, s.stderr, s.n) for s in log.stated] == [
            ("Accuracy", 0.5, 0.1, 26)
        ]

    def test_aggregators_are_as_stated(self, tmp_path: Path) -> None:
        averages = {"Average Accuracy": 1.0, "Pass@1 AccuracyCompletion.Accuracy": 0.8}
        log = only(output(tmp_path, [result(0, 1.0)], averages=averages))
        assert [(s.name, s.aggregation) for s in log.stated][1] == (
            "Pass@1 AccuracyCompletion.Accuracy",
            "Pass@1 over answers to one prompt",
        )


BAD = {
    "nan": ([result(0, math.nan)], r"line 1: 'value' of 'Accuracy' is nan; it must be a finite"),
    "text": ([result(0, "1.0")], r"is '1\.0'; it must be a finite number"),  # type: ignore[arg-type]
    "id": ([{**result(0, 1.0), "id": "0"}], r"line 1: 'id' is '0'; it must be 0 or more"),
    "twice": ([result(0, 1.0), result(0, 1.0)], r"line 2: 'Accuracy' of no_subject/0 occurs"),
    "bytes": ([result(0, 1.0, metric_name="Bytes")], r"only bookkeeping"),
    "nameless": ([result(0, 1.0, metric_name=None)], r"'metric_name' is None"),
    "none": ([], r"0 samples"),
}


class TestBadFiles:
    @pytest.mark.parametrize("case", BAD)
    def test_one_line(self, case: str, tmp_path: Path) -> None:
        rows, line = BAD[case]
        with pytest.raises(EvalToolkitError, match=line) as caught:
            eval_framework.read(output(tmp_path, rows), Wanted())
        assert str(tmp_path) in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_a_broken_line_in_the_middle(self, tmp_path: Path) -> None:
        run = output(tmp_path, [result(0, 1.0), result(1, 0.0)])
        text = (run / "results.jsonl").read_text().splitlines()
        (run / "results.jsonl").write_text(f"{text[0][:-9]}\n{text[1]}\n")
        with pytest.raises(EvalToolkitError, match=r"results\.jsonl: line 1: malformed JSON"):
            eval_framework.read(run, Wanted())

    def test_answers_that_were_not_graded(self, tmp_path: Path) -> None:
        with pytest.raises(EvalToolkitError, match="the answers were not graded"):
            eval_framework.read(output(tmp_path, None, [answer(0)]), Wanted())

    def test_one_answer_twice(self, tmp_path: Path) -> None:
        run = output(tmp_path, [result(0, 1.0)], [answer(0), answer(0)])
        with pytest.raises(
            EvalToolkitError, match=r"line 2: no_subject/0 occurs twice, first in line 1"
        ):
            eval_framework.read(run, Wanted())

    @pytest.mark.parametrize("text", ["", "[]", "{", '{"task_name": 1}', "\x00"])
    def test_garbage_is_not_recognised(self, text: str, tmp_path: Path) -> None:
        run = output(tmp_path, [result(0, 1.0)])
        (run / "metadata.json").write_text(text)
        assert not eval_framework.recognises(run)
        assert not eval_framework.recognises(tmp_path / "absent")
