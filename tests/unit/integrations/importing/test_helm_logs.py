"""HELM run folders: what is stated, by which samples, and what is not a standard error."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from eval_toolkit.errors import EvalToolkitError
from eval_toolkit.integrations.importing import helm, read_logs
from eval_toolkit.integrations.importing.logs import Log
from eval_toolkit.integrations.importing.options import Wanted

TYPOS = {"name": "typos", "robustness": True, "fairness": False, "computed_on": "perturbed"}


def stat(
    name: str, value: float, count: int = 1, split: str = "test", **more: Any
) -> dict[str, Any]:
    named = {"name": name, "split": split, **more}
    if count == 0:
        return {"name": named, "count": 0, "sum": 0, "sum_squared": 0}
    return {"name": named, "count": count, "sum": value * count, "mean": value, "stddev": 0.0}


def each(
    instance: str, value: float, trial: int = 0, split: str = "test", **more: Any
) -> dict[str, Any]:
    about = {"perturbation": more["perturbation"]} if "perturbation" in more else {}
    stats = [
        stat("exact_match", value, split=split, **more),
        stat("num_prompt_tokens", 33, split=split, **more),
        stat("training_co2_cost", 0, 0, split=split, **more),
    ]
    return {"instance_id": instance, "train_trial_index": trial, "stats": stats, **about}


def request(instance: str, trial: int = 0, split: str = "test", **more: Any) -> dict[str, Any]:
    references = [
        {"output": {"text": "four"}, "tags": ["correct"]},
        {"output": {"text": "five"}, "tags": []},
    ]
    about = {key: more.pop(key) for key in ("perturbation",) if key in more}
    result = {"success": True, "completions": [{"text": " A", "logprob": 0.0}]}
    inner = {"id": instance, "split": split, "input": {"text": f"Q {instance}?"}, **about}
    return {
        "instance": {**inner, "references": references},
        "train_trial_index": trial,
        "output_mapping": {"A": "four", "B": "five"},
        "request": {"prompt": f"Answer. Q {instance}?"},
        "result": result,
        **more,
    }


def folder(
    path: Path,
    instances: list[dict[str, Any]] | None,
    stats: list[dict[str, Any]] | None,
    requests: list[dict[str, Any]] | None = None,
) -> Path:
    spec = {
        "name": "sums:level=1,model=org_m",
        "adapter_spec": {"model": "org/m", "method": "generation", "api_key": "abc"},
        "metric_specs": [{"class_name": "x", "args": {"names": ["exact_match"]}}],
    }
    path.mkdir(exist_ok=True)
    (path / "run_spec.json").write_text(json.dumps(spec))
    for name, told in (
        ("per_instance_stats.json", instances),
        ("stats.json", stats),
        ("scenario_state.json", None if requests is None else {"request_states": requests}),
    ):
        if told is not None:
            (path / name).write_text(json.dumps(told))
    return path


def only(path: Path, wanted: Wanted | None = None) -> Log:
    (log,) = helm.read(path, wanted or Wanted())
    return log


class TestReading:
    def test_values_prompts_and_answers(self, tmp_path: Path) -> None:
        run = folder(
            tmp_path,
            [each("id1", 1.0), each("id2", 0.0)],
            [stat("exact_match", 0.5), stat("inference_runtime", 3.0)],
            [request("id1"), request("id2")],
        )
        log = only(run)
        assert (log.tool, log.task, log.model) == ("helm", "sums:level=1", "org/m")
        assert [(s.column, s.value, s.n, s.aggregation) for s in log.stated] == [
            ("exact_match", 0.5, 2, "mean")
        ]
        first = log.samples[0]
        assert dict(first.values) == {"exact_match": 1.0}
        assert (first.input, first.target, first.response) == ("Q id1?", "four", " A")
        assert first.prompt == "Answer. Q id1?"
        assert first.parts == {"split": "test"}
        assert log.binary == {"exact_match"}
        assert "abc" not in json.dumps(dict(log.settings))

    def test_directions_go_by_name(self, tmp_path: Path) -> None:
        """Word information preserved is better high; word, match and character errors low."""
        row = each("id1", 1.0)
        names = ("wer_score", "mer_score", "cer_score", "edit_distance", "toxic_frac", "wip_score")
        row["stats"] += [stat(name, 0.5) for name in names]
        log = only(folder(tmp_path, [row], [stat("exact_match", 1.0)]))
        assert {name: log.direction(name) for name in log.samples[0].values} == {
            "exact_match": True,
            **dict.fromkeys(names[:-1], False),
            "wip_score": True,
        }

    def test_without_samples_prompts_are_not_read(self, tmp_path: Path) -> None:
        run = folder(tmp_path, [each("id1", 1.0)], [stat("exact_match", 1.0)])
        (run / "scenario_state.json").write_text("{ torn")
        log = only(run, Wanted(samples=False))
        assert log.samples[0].values["exact_match"] == 1.0
        with pytest.raises(EvalToolkitError, match=r"scenario_state\.json: malformed JSON"):
            helm.read(run, Wanted())

    def test_a_file_of_the_folder_stands_for_it(self, tmp_path: Path) -> None:
        run = folder(tmp_path, [each("id1", 1.0)], [stat("exact_match", 1.0)])
        assert helm.recognises(run)
        assert helm.recognises(run / "stats.json")
        assert not helm.recognises(tmp_path.parent)
        assert read_logs(run / "stats.json", Wanted(samples=False))[0].model == "org/m"

    def test_results_alone(self, tmp_path: Path) -> None:
        log = only(folder(tmp_path, None, [stat("exact_match", 0.25)]))
        assert not log.samples
        assert [one.value for one in log.stated] == [0.25]
        assert any("not checked against samples" in note for note in log.notes)

    def test_one_request_per_choice_shows_the_one_that_won(self, tmp_path: Path) -> None:
        row = each("id1", 1.0)
        row["stats"].append(stat("predicted_index", 1))
        asked = [
            request("id1", reference_index=at, request_mode=mode, output_mapping=None)
            for at in (0, 1)
            for mode in ("original", "calibration")
        ]
        log = only(folder(tmp_path, [row], [stat("exact_match", 1.0)], asked))
        assert log.samples[0].response == "five"
        assert list(log.samples[0].values) == ["exact_match"]
        assert any("one request per choice" in note for note in log.notes)

    def test_a_failed_request_keeps_the_value_helm_gave_it(self, tmp_path: Path) -> None:
        failed = request("id2")
        failed["result"] = {"success": False, "error": "filtered", "completions": []}
        run = folder(
            tmp_path,
            [each("id1", 1.0), each("id2", 0.0)],
            [stat("exact_match", 0.5)],
            [request("id1"), failed],
        )
        log = only(run)
        assert log.samples[1].error == "filtered"
        assert log.samples[1].values["exact_match"] == 0.0
        assert any(note.startswith("1 requests failed") for note in log.notes)

    def test_a_request_without_entry_is_skipped_and_told(self, tmp_path: Path) -> None:
        asked = [request("id1"), request("id2")]
        log = only(folder(tmp_path, [each("id1", 1.0)], [stat("exact_match", 1.0)], asked))
        assert log.samples[1].values["exact_match"].status == "skipped"  # type: ignore[union-attr]
        assert any("1 of 2 requests have no entry" in note for note in log.notes)


class TestMeans:
    def test_splits_are_never_pooled(self, tmp_path: Path) -> None:
        rows = [each("a", 1.0), each("b", 0.0), each("c", 1.0, split="valid")]
        stats = [stat("exact_match", 0.5), stat("exact_match", 1.0, split="valid")]
        logs = helm.read(folder(tmp_path, rows, stats), Wanted(samples=False))
        told = [(log.task, len(log.samples), log.stated[0].value) for log in logs]
        assert told == [
            ("sums:level=1,split=test", 2, 0.5),
            ("sums:level=1,split=valid", 1, 1.0),
        ]

    def test_trials_are_attempts_and_their_spread_is_no_standard_error(
        self, tmp_path: Path
    ) -> None:
        # Two trials over two instances: means 0.5 and 1.0, so 0.75; population sd 0.25.
        rows = [each("a", 1.0), each("b", 0.0), each("a", 1.0, 1), each("b", 1.0, 1)]
        stats = [{**stat("exact_match", 0.75, 2), "stddev": 0.25}]
        log = only(folder(tmp_path, rows, stats), Wanted(samples=False))
        assert [(s.unit_id, s.attempt) for s in log.samples] == [
            ("a", 1), ("b", 1), ("a", 2), ("b", 2)
        ]  # fmt: skip
        assert log.stated[0].aggregation == "mean"
        assert log.stated[0].stderr is None
        assert any("up to 0.25" in n and "not a standard error" in n for n in log.notes)

    def test_uneven_trials_are_a_mean_of_means(self, tmp_path: Path) -> None:
        rows = [each("a", 1.0), each("b", 0.0), each("a", 1.0, 1)]
        log = only(folder(tmp_path, rows, [stat("exact_match", 0.75, 2)]), Wanted(samples=False))
        assert log.stated[0].aggregation == "the mean of the trials' means"
        assert not any("is stated" in note for note in log.notes)

    def test_a_wrong_mean_is_told(self, tmp_path: Path) -> None:
        rows = [each("a", 1.0), each("b", 0.0)]
        log = only(folder(tmp_path, rows, [stat("exact_match", 0.6)]), Wanted(samples=False))
        assert "exact_match is stated as 0.6, but the samples give 0.5" in log.notes

    def test_perturbed_copies_are_a_log_of_their_own(self, tmp_path: Path) -> None:
        rows = [
            each("a", 1.0),
            each("b", 1.0),
            each("c", 0.0),
            each("a", 0.0, perturbation=TYPOS),
            each("b", 1.0, perturbation=TYPOS),
        ]

        def derived(value: float, name: str, on: str) -> dict[str, Any]:
            return stat(
                "exact_match", value, perturbation={**TYPOS, "name": name, "computed_on": on}
            )

        stats = [
            stat("exact_match", 2 / 3),
            stat("exact_match", 0.5, perturbation=TYPOS),
            derived(1.0, "typos", "original"),  # a and b before: 1 and 1
            derived(0.5, "typos", "worst"),  # min(1, 0) and min(1, 1)
            derived(1 / 3, "robustness", "worst"),  # c, never perturbed, is in it too: 0, 1, 0
        ]
        asked = [request("a"), request("a", perturbation=TYPOS)]
        plain, typos = helm.read(folder(tmp_path, rows, stats, asked), Wanted())
        assert typos.task.endswith(",split=test,perturbation=typos")
        assert [s.unit_id for s in typos.samples] == ["a", "b"]
        assert typos.samples[0].parts["perturbation"] == "typos"
        assert [one.name for one in plain.stated] == [
            "exact_match",
            "exact_match (original: typos)",
            "exact_match (worst: typos)",
            "exact_match (worst: robustness)",
        ]
        assert [one.aggregation == "mean" for one in plain.stated] == [True, False, False, False]
        assert not [note for log in (plain, typos) for note in log.notes if "is stated" in note]

    def test_count_0_is_skipped(self, tmp_path: Path) -> None:
        row = each("b", 0.0)
        row["stats"][0] = stat("exact_match", 0, 0)
        stats = [stat("exact_match", 1.0), stat("bleu", 0, 0)]
        log = only(folder(tmp_path, [each("a", 1.0), row], stats), Wanted(samples=False))
        assert log.samples[1].values["exact_match"].status == "skipped"  # type: ignore[union-attr]
        assert [one.column for one in log.stated] == ["exact_match"]
        assert any("count 0 were omitted: bleu" in note for note in log.notes)

    def test_a_number_made_of_all_instances_is_as_stated(self, tmp_path: Path) -> None:
        stats = [stat("exact_match", 1.0), stat("ece_10_bin", 0.2)]
        log = only(folder(tmp_path, [each("a", 1.0)], stats), Wanted(samples=False))
        assert log.stated[1].aggregation == "HELM's, over all instances together"


def _bad_rows() -> dict[str, tuple[list[dict[str, Any]], str]]:
    nan = each("a", 1.0)
    nan["stats"][0]["mean"] = math.nan
    count = each("a", 1.0)
    count["stats"][0]["count"] = "one"
    nameless = each("a", 1.0)
    nameless["stats"][0]["name"] = {"split": "test"}
    trial = {**each("a", 1.0), "train_trial_index": -1}
    return {
        "nan": ([nan], r"entry 1 \(a\): 'exact_match': 'mean' is nan; it must be a finite number"),
        "count": ([count], r"'count' is 'one'"),
        "nameless": ([nameless], r"does not name a metric"),
        "trial": ([trial], r"'train_trial_index' must be an integer of at least 0"),
        "twice": ([each("a", 1.0), each("a", 0.0)], r"occurs twice with different values"),
        "no id": ([{"stats": []}], r"entry 1: 'instance_id' must be a non-empty string"),
        "no list": ({"a": 1}, r"it must be a list"),  # type: ignore[dict-item]
    }


class TestBadFiles:
    @pytest.mark.parametrize("case", _bad_rows())
    def test_one_line_names_file_and_rule(self, case: str, tmp_path: Path) -> None:
        rows, line = _bad_rows()[case]
        run = folder(tmp_path, rows, [stat("exact_match", 1.0)])
        with pytest.raises(EvalToolkitError, match=line) as caught:
            helm.read(run, Wanted())
        assert "per_instance_stats.json" in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_a_mean_that_is_no_number_is_a_note(self, tmp_path: Path) -> None:
        log = only(folder(tmp_path, [each("a", 1.0)], [stat("exact_match", math.nan)]))
        assert not log.stated
        assert any("states nan, which is not a finite number" in note for note in log.notes)

    def test_no_instances_and_no_means(self, tmp_path: Path) -> None:
        with pytest.raises(EvalToolkitError, match="0 samples"):
            helm.read(folder(tmp_path, [], []), Wanted())

    def test_book_keeping_alone(self, tmp_path: Path) -> None:
        row = each("a", 1.0)
        del row["stats"][0]
        with pytest.raises(EvalToolkitError, match="only bookkeeping"):
            helm.read(folder(tmp_path, [row], []), Wanted())

    def test_no_model(self, tmp_path: Path) -> None:
        run = folder(tmp_path, [each("a", 1.0)], [])
        (run / "run_spec.json").write_text(json.dumps({"adapter_spec": {}}))
        with pytest.raises(EvalToolkitError, match="does not name a model"):
            helm.read(run, Wanted())

    def test_one_instance_twice_in_a_trial(self, tmp_path: Path) -> None:
        run = folder(tmp_path, [each("a", 1.0)], [], [request("a"), request("a")])
        with pytest.raises(EvalToolkitError, match="request 2: a occurs twice in trial 0"):
            helm.read(run, Wanted())


def test_every_mean_of_the_published_run_is_that_of_its_samples(shared_data: Path) -> None:
    path = shared_data / "tool_logs" / "helm_mmlu_philosophy_gpt2"
    if not path.is_dir():
        pytest.skip("the published HELM run is not in the folder of reference data")
    stats = json.loads((path / "stats.json").read_text())
    # Straight from the files: the mean of each metric named exact_match… by split.
    expected = {
        (one["name"]["split"], one["name"]["name"]): one["mean"]
        for one in stats
        if "exact_match" in one["name"]["name"] and "perturbation" not in one["name"]
    }
    logs = helm.read(path, Wanted())
    found = {}
    for log in logs:
        split = log.samples[0].parts["split"]
        for one in log.stated:
            values = [sample.values[one.column] for sample in log.samples]
            assert one.aggregation == "mean"
            assert abs(math.fsum(values) / len(values) - one.value) <= 1e-12  # type: ignore[arg-type]
            found[split, one.column] = one.value
    assert found == expected
    assert [len(log.samples) for log in logs] == [9, 1]
    assert {log.model for log in logs} == {"openai/gpt2"}
    assert all("is stated" not in note for log in logs for note in log.notes)
