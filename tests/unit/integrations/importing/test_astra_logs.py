"""astra-rl's metrics.json: rollouts with turns, and what our own evaluators write."""

import json
import math
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_toolkit.errors import EvalToolkitError
from eval_toolkit.integrations.importing import astra_rl, read_logs
from eval_toolkit.integrations.importing.logs import Log
from eval_toolkit.integrations.importing.options import Wanted
from eval_toolkit.rollouts import ASTEvaluator, ASTSampler, Evaluator
from eval_toolkit.rollouts.evaluators.astra_json import rollouts_json
from eval_toolkit.rollouts.toys import TOY_PROMPTS, toy_system

SUCCESS = "pct_rollouts_with_target_toxicity"


def turn(
    number: int, adversarial: float | None, target: float | None, **more: Any
) -> dict[str, Any]:
    return {
        "turn": number,
        "reward": 0.5,
        "adversarial_toxicity": adversarial,
        "target_toxicity": target,
        "context": "Once upon a time",
        "probe": f"probe {number}",
        "response": f"reply {number}",
        **more,
    }


def rollout(scores: list[float], **overall: Any) -> dict[str, Any]:
    rows = [turn(n, 0.1, score) for n, score in enumerate(scores, 1)]
    first = next((n for n, score in enumerate(scores, 1) if score >= 0.5), None)
    return {
        "overall": {
            "num_turns": len(scores),
            "avg_reward": 0.5,
            "avg_adversarial_toxicity": 0.1,
            "avg_target_toxicity": math.fsum(scores) / len(scores) if scores else 0.0,
            "first_adversarial_toxicity_turn": None,
            "first_target_toxicity_turn": first,
            **overall,
        },
        "per_turn": rows,
    }


def written(path: Path, details: Any, **summary: Any) -> Path:
    file = path / "metrics.json"
    told = {"n_rollouts": len(details) if isinstance(details, list) else 0, **summary}
    file.write_text(json.dumps({"summary": told, "details": details}))
    return file


def only(path: Path, wanted: Wanted | None = None) -> Log:
    (log,) = astra_rl.read(path, wanted or Wanted())
    return log


class TestReading:
    def test_rollouts_and_turns(self, tmp_path: Path) -> None:
        file = written(
            tmp_path,
            [rollout([0.1, 0.6, 0.7]), rollout([0.2])],
            avg_target_toxicity=(1.4 / 3 + 0.2) / 2,
            **{f"{SUCCESS}/attack_success_rate": 0.5},
        )
        assert astra_rl.recognises(file)
        (log,) = read_logs(file)
        assert (log.tool, log.kind, log.task, log.model) == (
            "astra-rl", "rollout", "metrics", "target",
        )  # fmt: skip
        first, second = log.samples
        assert first.values[SUCCESS] == 1.0
        assert second.values[SUCCESS] == 0.0
        assert first.values["num_turns"] == 3.0
        assert "first_target_toxicity_turn" not in first.values
        assert first.input == "Once upon a time"
        assert [(t.utterance, t.reply) for t in first.turns][2] == ("probe 3", "reply 3")
        assert first.turns[1].values["target_toxicity"] == 0.6
        assert [(s.column, s.value, s.aggregation) for s in log.stated] == [
            ("avg_target_toxicity", (1.4 / 3 + 0.2) / 2, "mean"),
            (SUCCESS, 0.5, "mean"),
        ]
        assert log.binary == {SUCCESS, "pct_rollouts_with_adversarial_toxicity"}
        assert {column for column, up in log.higher_is_better.items() if up is False} == {
            SUCCESS,
            "avg_target_toxicity",
        }
        assert log.direction("avg_adversarial_toxicity") is None  # of probes neither is better

    def test_rollouts_that_open_alike_share_a_group(self, tmp_path: Path) -> None:
        other = rollout([0.3])
        other["per_turn"][0]["context"] = "Elsewhere"
        log = only(written(tmp_path, [rollout([0.1]), other, rollout([0.2])]))
        assert [sample.group for sample in log.samples] == ["opening 1", None, "opening 1"]

    def test_own_numbers_become_columns(self, tmp_path: Path) -> None:
        details = [rollout([0.1], latency=2.0, label="x"), rollout([0.2], latency=4.0)]
        log = only(written(tmp_path, details, latency=2.5))
        assert [s.values["latency"] for s in log.samples] == [2.0, 4.0]
        assert "label" not in log.samples[0].values
        assert [(s.name, s.aggregation) for s in log.stated] == [("latency", "unknown rule")]

    def test_without_samples_turns_stay_where_they_are(self, tmp_path: Path) -> None:
        log = only(written(tmp_path, [rollout([0.1])]), Wanted(samples=False))
        assert log.samples[0].turns == ()
        assert log.samples[0].values["avg_target_toxicity"] == 0.1

    def test_an_average_that_is_no_mean_of_its_turns_is_told(self, tmp_path: Path) -> None:
        # astra-rl 0.0.1: two probes at 0.1 are reported as 1 / 2
        log = only(written(tmp_path, [rollout([0.1, 0.1], avg_adversarial_toxicity=0.5)]))
        assert any(
            "avg_adversarial_toxicity of 1 of 1 rollouts is not the mean of its turns "
            "(rollout 1: 0.5, the turns give 0.1)" in note
            for note in log.notes
        )
        assert log.samples[0].values["avg_adversarial_toxicity"] == 0.5

    def test_rollouts_without_turns_and_a_wrong_count_are_told(self, tmp_path: Path) -> None:
        log = only(written(tmp_path, [rollout([]), rollout([0.1])], n_rollouts=3))
        assert any(note.startswith("1 rollouts have no turn") for note in log.notes)
        assert "the summary states 3 rollouts; the file has numbers for 2" in log.notes
        assert log.n_planned == 3

    def test_cut_openings_are_told(self, tmp_path: Path) -> None:
        cut = rollout([0.1])
        cut["per_turn"][0]["context"] = "x" * 100
        assert any(
            "truncated to their last 100" in note for note in only(written(tmp_path, [cut])).notes
        )


class TestOurOwn:
    def test_what_an_evaluator_writes_is_read_back(self, tmp_path: Path) -> None:
        evaluator = ASTEvaluator(ASTSampler(toy_system(), TOY_PROMPTS), seeds=TOY_PROMPTS)
        metrics = evaluator.evaluate(n_rollouts=6, progress=False)
        file = tmp_path / "metrics.json"
        Evaluator.write_json(metrics, file)
        (log,) = read_logs(file)
        assert isinstance(metrics, dict)
        summary, details = metrics["summary"], metrics["details"]
        assert len(log.samples) == 6
        for sample, detail in zip(log.samples, details, strict=True):
            assert sample.values["avg_target_toxicity"] == detail["overall"]["avg_target_toxicity"]
            assert [t.reply for t in sample.turns] == [r["response"] for r in detail["per_turn"]]
        stated = {one.column: one.value for one in log.stated}
        assert stated["avg_target_toxicity"] == summary["avg_target_toxicity"]
        for column, value in stated.items():
            values = [sample.values[column] for sample in log.samples]
            assert abs(math.fsum(values) / 6 - value) <= 1e-12  # type: ignore[arg-type]
        assert not any("not the mean of" in note for note in log.notes)

    def test_seeds_attempts_failures_and_names(self, tmp_path: Path) -> None:
        sampler = ASTSampler(toy_system(), TOY_PROMPTS)
        evaluator = ASTEvaluator(sampler, seeds=TOY_PROMPTS[:2], rollouts_per_seed=2)
        evaluator.evaluate(progress=False)
        manifest = {"config": {"seeds": {"name": "toys"}, "system": {"target": {"name": "m"}}}}
        told = rollouts_json(evaluator, manifest=manifest)
        told["details"][3] |= {"status": "error", "reason": "no answer", "overall": {}}
        file = tmp_path / "m.json"
        file.write_text(json.dumps(told))
        log = only(file)
        assert (log.task, log.model) == ("toys", "m")
        units = [(s.unit_id, s.attempt) for s in log.samples]
        assert len({unit for unit, _ in units}) == 2
        assert [attempt for _, attempt in units] == [1, 2, 1, 2]
        assert log.samples[0].input == TOY_PROMPTS[0]
        assert log.samples[3].error == "no answer"
        assert log.samples[3].values["num_turns"].status == "error"  # type: ignore[union-attr]
        assert {one.aggregation for one in log.stated} == {"the mean over rollouts"}

    def test_trees_show_their_first_branches(self, tmp_path: Path) -> None:
        evaluator = ASTEvaluator(ASTSampler(toy_system(), TOY_PROMPTS), seeds=[0, 1])
        file = tmp_path / "metrics.json"
        Evaluator.write_json(evaluator.evaluate(progress=False), file)
        log = only(file)
        assert [len(sample.turns) for sample in log.samples] == [3, 3]
        assert any("rollouts have branches" in note for note in log.notes)

    def test_an_exported_run_names_its_task_and_model(self, tmp_path: Path) -> None:
        file = written(tmp_path, [rollout([0.1])])
        told = json.loads(file.read_text())
        told["manifest"] = {"run_id": "r", "cells": {"seeds": {"embedded": {}}}}
        file.write_text(json.dumps(told))
        assert (only(file).task, only(file).model) == ("seeds", "embedded")


BAD: dict[str, tuple[Any, str]] = {
    "none": ([], r"'details' is empty \(0 rollouts\)"),
    "no list": ({"a": 1}, r"'details': is \{'a': 1\}; it must be a list"),
    "no object": ([1], r"rollout 1: is 1; it must be an object"),
    "nan": ([rollout([0.1], avg_reward=math.nan)], r"rollout 1: 'avg_reward' is nan; it must be"),
    "no numbers": ([{"overall": {"a": "b"}, "per_turn": []}], r"no rollout has a number"),
    "turn": (
        [{**rollout([0.1]), "per_turn": [turn(1, 0.1, math.inf)]}],
        r"rollout 1: turn 1: 'target_toxicity' is inf",
    ),
}


class TestBadFiles:
    @pytest.mark.parametrize("case", BAD)
    def test_one_line(self, case: str, tmp_path: Path) -> None:
        details, line = BAD[case]
        file = written(tmp_path, details)
        with pytest.raises(EvalToolkitError, match=line) as caught:
            astra_rl.read(file, Wanted())
        assert str(file) in str(caught.value)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("text", ["", "[]", '{"summary": 1}', '{"results": {}}', "\xff"])
    def test_garbage_is_not_recognised(self, text: str, tmp_path: Path) -> None:
        file = tmp_path / "metrics.json"
        file.write_text(text)
        assert not astra_rl.recognises(file)
        assert not astra_rl.recognises(tmp_path)
        assert not astra_rl.recognises(tmp_path / "absent.json")

    @given(st.data())
    @settings(max_examples=60)
    def test_whatever_stands_in_a_place_is_read_or_refused_in_one_line(
        self, data: st.DataObject
    ) -> None:
        told: Any = {
            "summary": {"n_rollouts": 1, "avg_reward": 0.5},
            "details": [{**rollout([0.1, 0.6]), "rollout_id": "u#1", "status": "ok"}],
            "manifest": {"cells": {"a": {"b": {}}}},
        }
        inside, key = told, data.draw(st.sampled_from(list(told)))
        while isinstance(inside[key], (dict, list)) and inside[key] and data.draw(st.booleans()):
            inside = inside[key]
            keys = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
            key = data.draw(st.sampled_from(keys))
        odd: list[Any] = [
            None,
            "",
            "x",
            [],
            [1],
            [[]],
            {},
            {"a": 1},
            -1,
            1e999,
            math.nan,
            True,
            10**400,
        ]
        inside[key] = data.draw(st.sampled_from(odd))
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "metrics.json"
            file.write_text(json.dumps(told))
            astra_rl.recognises(file)
            said = ""
            try:
                said = f"{file}: {len(only(file).samples)} rollouts"
            except EvalToolkitError as error:
                said = str(error)
            assert said.startswith(str(file))
            assert "\n" not in said

    def test_a_torn_file(self, tmp_path: Path) -> None:
        file = written(tmp_path, [rollout([0.1])])
        file.write_text(file.read_text()[:-30])
        assert astra_rl.recognises(file)
        with pytest.raises(EvalToolkitError, match=r"metrics\.json: malformed JSON"):
            astra_rl.read(file, Wanted())
