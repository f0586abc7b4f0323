"""lm-eval's files: every form of prompt, answer and number, and what is refused."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.lm_eval_files import (
    TIME,
    choice,
    question,
    stated,
    write_log,
    write_results,
    write_samples,
)

from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.integrations.importing import Log, Wanted, measure_log, read_logs
from eval_toolkit.integrations.importing.lm_eval import recognises
from eval_toolkit.integrations.importing.lm_eval_samples import read_samples
from eval_toolkit.models.messages import Message, Role


def one(path: Path, **wanted: Any) -> Log:
    (log,) = read_logs(path, Wanted(**wanted))
    return log


class TestResultsWithSamples:
    def test_what_is_taken(self, tmp_path: Path) -> None:
        log = one(write_log(tmp_path, [1.0, 0.0, 1.0, 1.0]))
        assert (log.tool, log.task, log.model) == ("lm-eval", "sums", "org/small")
        assert (log.tool_version, log.created) == ("0.4.8", "2025-01-01T00:00:00+00:00")
        assert [Path(name).name for name in log.files] == [
            f"results_{TIME}.json",
            f"samples_sums_{TIME}.jsonl",
        ]
        sample = log.samples[1]
        assert (sample.unit_id, sample.input, sample.target) == ("1", "1 + 1?", "2")
        assert (sample.prompt, sample.response) == ("Q: 1 + 1?\nA:", " 2")
        assert sample.values == {"exact_match": 0.0}
        assert log.stated[0].n == log.n_planned == 4

    @given(st.lists(st.integers(0, 1).map(float), min_size=2, max_size=40))
    def test_the_mean_is_the_stated_one(self, rights: list[float]) -> None:
        """Expected: the sum over the number, made by Python alone; the error as lm-eval makes it."""
        import tempfile

        with tempfile.TemporaryDirectory() as name:
            found = measure_log(one(write_log(Path(name), rights)))
        (checked,) = found.checked
        assert checked.agrees
        assert checked.recomputed == pytest.approx(math.fsum(rights) / len(rights), abs=1e-12)
        assert checked.stderr == pytest.approx(stated(rights)[1], abs=1e-12)
        constant = len(set(rights)) == 1
        assert ("its standard error is 0" in checked.verdict) == constant
        assert checked.verdict.startswith("same mean")

    def test_samples_lead_to_their_results(self, tmp_path: Path) -> None:
        results = write_log(tmp_path, [1.0, 0.0])
        assert one(tmp_path / f"samples_sums_{TIME}.jsonl") == one(results)

    def test_other_times_are_other_runs(self, tmp_path: Path) -> None:
        write_log(tmp_path, [1.0, 0.0])
        write_samples(tmp_path, "sums", [question(7)], time="2026-02-02T00-00-00.1")
        logs = read_logs(tmp_path)
        assert [len(log.samples) for log in logs] == [2, 1]
        assert [len(log.stated) for log in logs] == [1, 0]

    def test_several_filters_are_one_item(self, tmp_path: Path) -> None:
        lines = [
            question(n, filter=name, exact_match=float(name == "loose"))
            for name in ("strict", "loose")
            for n in range(3)
        ]
        write_samples(tmp_path, "sums", lines)
        numbers = {"exact_match,strict": 0.0, "exact_match,loose": 1.0, "alias": " - sums"}
        log = one(write_results(tmp_path, {"sums": numbers}))
        assert [sample.values for sample in log.samples] == 3 * [
            {"exact_match,strict": 0.0, "exact_match,loose": 1.0}
        ]
        assert all(line.agrees for line in measure_log(log).checked)

    def test_fewer_samples_than_stated_are_told(self, tmp_path: Path) -> None:
        write_samples(tmp_path, "sums", [question(n) for n in range(3)])
        count = {"sums": {"original": 1319, "effective": 1319}}
        numbers = {"exact_match,none": 1.0, "exact_match_stderr,none": 0.0}
        found = measure_log(one(write_results(tmp_path, {"sums": numbers}, **{"n-samples": count})))
        assert found.checked[0].verdict == "same mean of 3 of 1319 samples"
        assert any(note.startswith("3 of 1319 samples are in the log") for note in found.notes)

    def test_a_mean_that_is_not_the_samples(self, tmp_path: Path) -> None:
        write_samples(tmp_path, "sums", [question(n) for n in range(4)])
        log = one(write_results(tmp_path, {"sums": {"exact_match,none": 0.75}}))
        checked = measure_log(log).checked[0]
        assert (checked.agrees, checked.verdict) == (False, "differs by 0.25")

    def test_a_task_whose_name_is_no_file_name(self, tmp_path: Path) -> None:
        write_samples(tmp_path, "org_sums", [question(1)])
        assert (
            one(write_results(tmp_path, {"org/sums": {"exact_match,none": 1.0}})).task == "org/sums"
        )

    def test_groups(self, tmp_path: Path) -> None:
        """Expected: (0.5 · 10 + 0.9 · 30) / 40 over items, 0.7 over tasks."""
        results = {"a": {"acc,none": 0.5}, "b": {"acc,none": 0.9}}
        sizes = {name: {"original": n, "effective": n} for name, n in (("a", 10), ("b", 30))}
        for value, said in (
            (0.8, "over the 40 items"),
            (0.7, "with equal weights"),
            (0.6, "neither the mean"),
        ):
            group = {"acc,none": value, "sample_len": 40, "sample_count": {"acc,none": 40}}
            path = write_results(
                tmp_path,
                {**results, "both": group},
                groups={"both": group},
                group_subtasks={"both": ["a", "b"]},
                **{"n-samples": sizes},
            )
            both = next(log for log in read_logs(path) if log.task == "both")
            assert said in both.notes[1]

    def test_corpus_metrics_are_as_stated(self, tmp_path: Path) -> None:
        lines = [question(n, metrics=["exact_match", "bleu"], bleu=["a", "b"]) for n in range(2)]
        write_samples(tmp_path, "sums", lines)
        numbers = {"exact_match,none": 1.0, "bleu,none": 31.5, "bleu_stderr,none": "N/A"}
        log = one(write_results(tmp_path, {"sums": numbers}))
        assert log.samples[0].values == {"exact_match": 1.0}
        assert "computed over all items together" in log.notes[0]
        found = measure_log(log)
        assert found.checked[1].verdict == "as stated, not recomputed (aggregation: bleu)"
        cell = found.cells["bleu"]
        assert (cell.value, cell.ci) == (31.5, None)
        assert cell.reason.endswith("the log reports no standard error")

    @pytest.mark.parametrize("listed", [None, [{"metric": "perplexity"}]])
    def test_a_default_aggregation_is_no_mean(self, tmp_path: Path, listed: Any) -> None:
        """lm-eval makes perplexity as exp(-mean) of log-likelihoods unless a task says otherwise."""
        lines = [question(n, metrics=["perplexity"], perplexity=-2.0) for n in range(2)]
        write_samples(tmp_path, "sums", lines)
        numbers = {"sums": {"perplexity,none": math.e**2, "perplexity_stderr,none": 0.1}}
        path = write_results(tmp_path, numbers, configs={"sums": {"metric_list": listed}})
        found = measure_log(one(path))
        assert found.checked[0].verdict == "as stated, not recomputed (aggregation: perplexity)"
        cell = found.cells["perplexity"]
        assert cell.value == math.e**2
        assert (cell.details["stated"], cell.details["higher_is_better"]) == (True, False)

    @pytest.mark.parametrize(("value", "is_mean"), [(1.5, True), (math.exp(1.5), False)])
    def test_a_metric_of_the_tasks_own(self, tmp_path: Path, value: float, is_mean: bool) -> None:
        """Nobody says how it is made: it is a mean where it is the mean of 1 and 2."""
        lines = [question(n, metrics=["mine"], mine=n) for n in (1, 2)]
        write_samples(tmp_path, "sums", lines)
        told = {"sums": {"mine": False}}
        path = write_results(tmp_path, {"sums": {"mine,none": value}}, higher_is_better=told)
        found = measure_log(one(path))
        assert found.cells["mine"].value == value
        assert ("stated" in found.cells["mine"].details) == (not is_mean)
        assert any("by an unknown aggregation" in note for note in found.notes) == (not is_mean)

    def test_answers_without_scores(self, tmp_path: Path) -> None:
        """As --predict_only writes them: 999 stands for a metric, or there is none."""
        write_samples(tmp_path, "a", [question(1, metrics=["bypass"], bypass=999)])
        write_samples(tmp_path, "b", [question(1, metrics=[])])
        numbers = {"bypass,none": 999, "bypass_stderr,none": "N/A"}
        path = write_results(tmp_path, {"a": numbers, "b": {}, "both": numbers})
        logs = read_logs(path)
        assert [(log.task, len(log.samples), len(log.stated)) for log in logs] == [
            ("a", 1, 0),
            ("b", 1, 0),
        ]
        assert all("the samples have no scores" in measure_log(log).notes for log in logs)

    def test_numbers_that_are_none_are_notes(self, tmp_path: Path) -> None:
        numbers = {"acc,none": 0.5, "acc_stderr,none": math.nan, "f1,none": math.inf}
        log = one(write_results(tmp_path, {"sums": numbers}))
        assert [(number.name, number.stderr) for number in log.stated] == [("acc,none", None)]
        assert [note for note in log.notes if "not a finite number" in note] == [
            "sums: acc_stderr,none is nan, which is not a finite number; omitted",
            "sums: f1,none is inf, which is not a finite number; omitted",
        ]

    def test_a_group_whose_tasks_do_not_all_have_the_metric(self, tmp_path: Path) -> None:
        """Expected: (0.5 · 10 + 1.0 · 30) / 40; 35 of 40 right, and no share of 60 items."""
        group = {"acc,none": 0.875, "acc_stderr,none": 0.1, "sample_len": 60}
        group["sample_count"] = {"acc,none": 40}
        tasks = {"a": {"acc,none": 0.5}, "b": {"acc,none": 1.0}, "c": {"em,none": 0.5}}
        sizes = {"a": 10, "b": 30, "c": 20}
        path = write_results(
            tmp_path,
            {**tasks, "all": group},
            groups={"all": group},
            group_subtasks={"all": list(tasks)},
            **{"n-samples": {name: {"effective": n} for name, n in sizes.items()}},
        )
        found = measure_log(next(log for log in read_logs(path) if log.task == "all"))
        cell = found.cells["acc"]
        assert cell.n_units == 40
        assert cell.ci is not None
        assert cell.ci.method == "wilson, from the stated standard error"
        assert "acc,none covers 2 of its tasks; the others have no such metric" in found.notes
        assert "acc,none is the mean over the 40 items of its tasks" in found.notes

    def test_any_object_of_results_is_no_log(self, tmp_path: Path) -> None:
        path = tmp_path / "other.json"
        path.write_text('{"results": {"x": {"y": 1}}}', encoding="utf-8")
        assert not recognises(path)
        path.write_text('{"results": {"x": {"y": 1}}, "config": {}}', encoding="utf-8")
        assert recognises(path)

    @pytest.mark.parametrize(
        "damage", [{"resps": 5}, {"arguments": {"gen_args_0": {}, "gen_args_1": {"arg_0": "?"}}}]
    )
    def test_choices_that_cannot_be_read_are_absent(
        self, tmp_path: Path, damage: dict[str, Any]
    ) -> None:
        path = write_samples(tmp_path, "sums", [choice(1, [-1.0, -2.0], **damage)])
        (sample,) = one(path).samples
        assert (sample.choices, sample.values) == ((), {"acc": 1.0})

    def test_other_aggregations_are_not_averaged(self, tmp_path: Path) -> None:
        lines = [question(n, metrics=["perplexity"], perplexity=-2.0) for n in range(2)]
        write_samples(tmp_path, "sums", lines)
        listed = {"sums": {"metric_list": [{"metric": "perplexity", "aggregation": "perplexity"}]}}
        told = {"sums": {"perplexity": False}}
        log = one(
            write_results(
                tmp_path,
                {"sums": {"perplexity,none": math.e**2, "perplexity_stderr,none": 0.1}},
                configs=listed,
                higher_is_better=told,
            )
        )
        cell = measure_log(log).cells["perplexity"]
        assert cell.value == math.e**2
        assert cell.ci is not None
        assert cell.ci.method == "normal, from the stated standard error"
        assert cell.ci.ci_high - math.e**2 == pytest.approx(0.1 * 1.959963984540054, rel=1e-12)
        assert cell.details["higher_is_better"] is False

    @pytest.mark.parametrize(("stated", "up"), [(True, True), (False, False), (None, False)])
    def test_what_the_file_says_of_a_direction_wins_over_the_name(
        self, tmp_path: Path, stated: bool | None, up: bool
    ) -> None:
        told = {} if stated is None else {"higher_is_better": {"sums": {"my_loss": stated}}}
        log = one(write_results(tmp_path, {"sums": {"my_loss,none": 0.5}}, **told))
        assert measure_log(log).cells["my_loss"].details["higher_is_better"] is up


class TestRequests:
    @pytest.mark.parametrize(
        "given",
        [
            ['[{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]'],
            '[{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]',
            [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
        ],
    )
    def test_chats(self, tmp_path: Path, given: Any) -> None:
        asked = {"gen_args_0": {"arg_0": given, "arg_1": {"until": []}}}
        log = one(write_samples(tmp_path, "t", [question(1, arguments=asked)]))
        assert log.samples[0].prompt == (Message(Role.SYSTEM, "s"), Message(Role.USER, "u"))

    @pytest.mark.parametrize("given", ['[{"role": "tool"', '[{"role": "tool", "content": "x"}]'])
    def test_what_is_no_chat_stays_text(self, tmp_path: Path, given: str) -> None:
        asked = {"gen_args_0": {"arg_0": given, "arg_1": {}}}
        prompt = one(write_samples(tmp_path, "t", [question(1, arguments=asked)])).samples[0].prompt
        assert isinstance(prompt, str)
        assert "tool" in prompt

    def test_arguments_in_lists(self, tmp_path: Path) -> None:
        line = question(1, arguments=[["Q", {"until": ["\n"]}]])
        assert one(write_samples(tmp_path, "t", [line])).samples[0].prompt == "Q"

    def test_choices(self, tmp_path: Path) -> None:
        log = one(write_samples(tmp_path, "t", [choice(1, [-2.5, -0.5, -math.inf], right=1)]))
        sample = log.samples[0]
        assert [(one.text, one.logprob, one.is_greedy) for one in sample.choices] == [
            (" choice 0", -2.5, False),
            (" choice 1", -0.5, False),
            (" choice 2", -math.inf, False),
        ]
        assert (sample.correct, sample.target, sample.prompt) == ((1,), "choice 1", "which 1?")
        assert (sample.response, sample.values) == (None, {"acc": 1.0})

    def test_numbers_that_are_numbers(self, tmp_path: Path) -> None:
        line = choice(1, [-2.5, -0.5], resps=[[-2.5, False], [[-0.5, True]]])
        found = one(write_samples(tmp_path, "t", [line])).samples[0].choices
        assert [(one.logprob, one.is_greedy) for one in found] == [(-2.5, False), (-0.5, True)]

    def test_scores_after_nothing_are_left_out(self, tmp_path: Path) -> None:
        """With acc_mutual_info every choice is scored a second time, without the question."""
        line = choice(1, [-2.5, -0.5, -9.0, -9.0])
        for at in (2, 3):
            line["arguments"][f"gen_args_{at}"]["arg_0"] = ""
        assert len(one(write_samples(tmp_path, "t", [line])).samples[0].choices) == 2

    def test_choices_in_the_context(self, tmp_path: Path) -> None:
        line = choice(1, [-2.5, -0.5])
        for at, who in enumerate(("trophy", "suitcase")):
            line["arguments"][f"gen_args_{at}"] = {"arg_0": f"The {who}", "arg_1": " is small."}
        sample = one(write_samples(tmp_path, "t", [line])).samples[0]
        assert sample.prompt == "The "
        assert [one.text for one in sample.choices] == ["trophy is small.", "suitcase is small."]

    def test_one_continuation(self, tmp_path: Path) -> None:
        line = choice(1, [-2.5], target=" end")
        sample = one(write_samples(tmp_path, "t", [line])).samples[0]
        assert (sample.target, sample.correct, len(sample.choices)) == (" end", None, 1)

    def test_whole_texts(self, tmp_path: Path) -> None:
        line = question(
            1, doc={"page": "A text."}, arguments={"g": {"arg_0": "A text."}}, resps=[["-12.5"]]
        )
        sample = one(write_samples(tmp_path, "t", [line])).samples[0]
        assert (sample.prompt, sample.response) == (None, None)
        assert [(one.text, one.logprob) for one in sample.choices] == [("A text.", -12.5)]

    def test_repeats(self, tmp_path: Path) -> None:
        log = one(write_samples(tmp_path, "t", [question(1, resps=[["a", "b", "c"]])]))
        assert log.samples[0].response == "a"
        assert log.settings["repeats"] == 3
        assert "has 3 answers" in log.notes[0]

    def test_the_prompt_is_the_input_where_no_field_is(self, tmp_path: Path) -> None:
        write_samples(tmp_path, "t", [question(1, doc={"a": 1})])
        log = one(write_results(tmp_path, {"t": {"exact_match,none": 1.0}}))
        assert log.samples[0].input == "Q: 1 + 1?\nA:"

    def test_with_shots_the_row_is(self, tmp_path: Path) -> None:
        write_samples(tmp_path, "t", [question(1, doc={"a": 1})])
        shots = {"n-shot": {"t": 5}}
        log = one(write_results(tmp_path, {"t": {"exact_match,none": 1.0}}, **shots))
        assert log.samples[0].input == '{"a":1}'


class TestFields:
    def test_named_fields(self, tmp_path: Path) -> None:
        path = write_samples(tmp_path, "t", [question(n) for n in range(3)])
        log = one(
            path, input_field="answer", target_field="question", group_field="level", by=("level",)
        )
        sample = log.samples[1]
        assert (sample.input, sample.target) == ("2", "1 + 1?")
        assert (sample.group, sample.parts) == ("easy", {"level": "easy"})

    @pytest.mark.parametrize(
        "wanted",
        [{"input_field": "x"}, {"target_field": "x"}, {"group_field": "x"}, {"by": ("x",)}],
    )
    def test_a_field_that_is_not_there(self, tmp_path: Path, wanted: dict[str, Any]) -> None:
        path = write_samples(tmp_path, "t", [question(1)])
        with pytest.raises(
            InvalidInputError, match="line 1 has no field 'x'; it has answer, level"
        ):
            read_logs(path, Wanted(**wanted))


class TestOldFiles:
    def test_numbers_without_filters(self, tmp_path: Path) -> None:
        path = tmp_path / "old.json"
        config = {"model_args": "pretrained=org/old,revision=step3", "num_fewshot": 0}
        numbers = {"acc": 0.25, "acc_stderr": 0.125, "ppl": 3.5, "ppl_stderr": 0.5}
        path.write_text(
            json.dumps({"results": {"arc": numbers}, "versions": {"arc": 0}, "config": config})
        )
        log = one(path)
        assert (log.model, log.samples) == ("org/old", ())
        assert [(line.column, line.value, line.stderr) for line in log.stated] == [
            ("acc", 0.25, 0.125),
            ("ppl", 3.5, 0.5),
        ]
        assert dict(log.higher_is_better) == {}
        assert (log.direction("acc"), log.direction("ppl")) == (True, False)

    def test_samples_without_filter_or_metrics(self, tmp_path: Path) -> None:
        line = question(1, acc=True, arguments=[["Q", {}]])
        for key in ("filter", "metrics", "exact_match"):
            del line[key]
        assert one(write_samples(tmp_path, "t", [line])).samples[0].values == {"acc": 1.0}

    def test_samples_alone(self, tmp_path: Path) -> None:
        log = one(write_samples(tmp_path / "org__model", "a_b", [question(1)]))
        assert (log.task, log.model, log.stated) == ("a_b", "org/model", [])
        other = one(write_samples(tmp_path, "a_b", [question(1)]))
        assert other.model == "unnamed"
        assert "do not name a model" in other.notes[-1]

    def test_any_name(self, tmp_path: Path) -> None:
        path = write_samples(tmp_path, "t", [question(1)]).rename(tmp_path / "mine.jsonl")
        assert one(path).task == "mine"


RESULTS, SAMPLES = f"results_{TIME}.json", f"samples_t_{TIME}.jsonl"


class TestRefusals:
    @pytest.mark.parametrize(
        ("name", "content", "said"),
        [
            (RESULTS, b"", "the file is empty"),
            (RESULTS, b'{"results": {"a": {"acc', "malformed JSON"),
            (RESULTS, b"PK\x03\x04", "malformed JSON"),
            (RESULTS, b'{"results": {"a": {"x": "\xff"}}}', "not UTF-8 at byte"),
            (RESULTS, b'{"results": {}}', "'results' is empty"),
            (RESULTS, b'{"results": [1]}', "no object 'results'"),
            (RESULTS, b'{"results": {"a": 1}}', "results.a is not an object"),
            (RESULTS, b'{"results": ' + 100_000 * b"[", "malformed JSON"),
            (SAMPLES, b"", "0 samples"),
            (SAMPLES, b"\n \n", "0 samples"),
            (SAMPLES, b"[1]\n", "line 1: is not a JSON object"),
            (SAMPLES, b'{"doc_id": 1, "doc"', "line 1: malformed JSON"),
            (SAMPLES, b'{"a": 1}\n', "has no 'doc_id'"),
            (SAMPLES, b'{"doc_id": 1, "doc": {"question": "\xff"}}', "not UTF-8"),
            (SAMPLES, b'{"doc_id": null, "doc": {}, "resps": []}\n', "has no 'doc_id'"),
            (SAMPLES, b'{"doc_id": ' + 100_000 * b"[", "line 1: malformed JSON"),
        ],
    )
    def test_damaged_files(self, tmp_path: Path, name: str, content: bytes, said: str) -> None:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ArtifactError, match=said) as caught:
            read_logs(tmp_path / name)
        assert str(caught.value).startswith(str(tmp_path / name))
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"exact_match": math.nan}, "line 2: exact_match is nan"),
            ({"exact_match": "yes"}, "line 2: exact_match is 'yes'"),
            ({"exact_match": math.inf}, "line 2: exact_match is inf"),
            ({"doc_id": 0}, "line 2: doc_id 0 with filter 'none' occurs twice, first in line 1"),
        ],
    )
    def test_damaged_lines(self, tmp_path: Path, change: dict[str, Any], said: str) -> None:
        path = write_samples(tmp_path, "t", [question(0), question(1, **change)])
        with pytest.raises(ArtifactError, match=said):
            read_logs(path)

    def test_a_loglikelihood_that_is_none(self, tmp_path: Path) -> None:
        path = write_samples(tmp_path, "t", [choice(0, [-1.0, math.nan])])
        with pytest.raises(ArtifactError, match="a log-likelihood is nan"):
            read_logs(path)

    def test_samples_of_another_task(self, tmp_path: Path) -> None:
        write_samples(tmp_path, "other", [question(0)])
        path = write_results(tmp_path, {"sums": {"exact_match,none": 1.0}})
        with pytest.raises(ArtifactError, match="has no results of 'other'; it has sums"):
            read_logs(path)

    def test_a_value_that_is_missing_is_skipped(self, tmp_path: Path) -> None:
        lines = [question(0), question(1, exact_match=None)]
        grade = one(write_samples(tmp_path, "t", lines)).samples[1].values["exact_match"]
        assert getattr(grade, "status", None) == "skipped"

    def test_a_byte_order_mark_is_none(self, tmp_path: Path) -> None:
        path = write_samples(tmp_path, "t", [question(0)])
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
        assert len(one(path).samples) == 1

    def test_a_file_that_goes_away(self, tmp_path: Path) -> None:
        with pytest.raises(ArtifactError, match="cannot be read"):
            read_samples(
                tmp_path / "x",
                Wanted(),
                shots=0,
                averaged=lambda metric: True,
                column_of=lambda metric, filtered: metric,
            )


def test_what_is_recognised(tmp_path: Path) -> None:
    assert recognises(write_log(tmp_path, [1.0, 0.0]))
    light = tmp_path / f"results_{TIME}x.json"
    light.write_text('{"config_general": {}, "results": {}}')
    assert not recognises(light)
    assert not recognises(tmp_path)
    assert not recognises(tmp_path / "nothing.json")
