"""Evaluators: seeds, failures, records, estimates, strict JSON."""

import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_toolkit._internal.hashing import content_hash
from eval_toolkit.errors import (
    InvalidInputError,
    InvalidTypeError,
    ModelError,
    UndefinedMetricError,
)
from eval_toolkit.inference.proportions import score_interval
from eval_toolkit.rollouts.evaluators.ast import ASTSampler
from eval_toolkit.rollouts.evaluators.astra_json import rollouts_json
from eval_toolkit.rollouts.evaluators.base import Evaluator, GraphMetrics, RolloutCountError
from eval_toolkit.rollouts.evaluators.runs import identities, metric_distributions
from eval_toolkit.rollouts.graphs import Graph, Node
from eval_toolkit.rollouts.seeds import SeedPrompt
from eval_toolkit.rollouts.toys import TOY_PROMPTS, ToyTester, toy_system


class Fixed:
    """A sampler of one turn whose response is made by a function of the seed."""

    system = None

    def __init__(self, respond: Any = lambda seed: f"about {seed}") -> None:
        self.respond = respond
        self.asked: list[Any] = []

    def eval_rollout(self, seed: Any = None) -> Graph[str, str]:
        self.asked.append(seed)
        context = getattr(seed, "prompt", f"{seed}")
        return Graph(context, [Node(context, "probe", self.respond(seed))])


class Lengths(Evaluator[str, str, Any]):
    """Measures how long the response is."""

    def compute_metrics(self, g: Graph[str, str]) -> GraphMetrics:
        response = g.children[0].response or ""
        return GraphMetrics(overall={"length": len(response)}, per_turn=[{"text": response}])

    def aggregate_metrics(self, all_metrics: list[GraphMetrics]) -> Any:
        self.given = all_metrics
        self.returned = {"lengths": [m.overall["length"] for m in all_metrics]}
        return self.returned


class Given(Evaluator[str, str, Any]):
    """Measures what it is told, seed by seed."""

    def __init__(self, overall: list[dict[str, Any]], **options: Any) -> None:
        super().__init__(Fixed(), seeds=[f"seed {n}" for n in range(len(overall))], **options)
        self.overall = iter(overall)

    def compute_metrics(self, g: Graph[str, str]) -> GraphMetrics:
        return GraphMetrics(overall=next(self.overall), per_turn=[])

    def aggregate_metrics(self, all_metrics: list[GraphMetrics]) -> Any:
        return {"n": len(all_metrics)}


def run_of(evaluator: Evaluator[Any, Any, Any]) -> Any:
    evaluator.evaluate(progress=False)
    assert evaluator.run is not None
    return evaluator.run


class TestSampler:
    def test_it_is_the_first_argument_or_a_keyword(self) -> None:
        sampler = Fixed()
        for evaluator in (Lengths(sampler), Lengths(sampler=sampler), Lengths(env=sampler)):
            assert evaluator.sampler is sampler
            assert evaluator.env is sampler
            assert evaluator.run is None

    def test_both_or_neither(self) -> None:
        with pytest.raises(InvalidInputError, match="is an alias of"):
            Lengths(Fixed(), env=Fixed())
        with pytest.raises(InvalidInputError, match="`sampler` is missing"):
            Lengths(seeds=["a"])

    def test_it_must_be_able_to_roll_out(self) -> None:
        with pytest.raises(InvalidTypeError, match="no `eval_rollout`"):
            Lengths(object())

    def test_an_incomplete_subclass_cannot_be_made(self) -> None:
        class Half(Evaluator[str, str, str]):
            def compute_metrics(self, g: Graph[str, str]) -> GraphMetrics:
                raise NotImplementedError

        with pytest.raises(TypeError, match="aggregate_metrics"):
            Half(Fixed())  # type: ignore[abstract]
        with pytest.raises(TypeError, match="abstract"):
            Evaluator(Fixed())  # type: ignore[abstract]

    def test_lockstep_asks_once(self) -> None:
        class Together(Fixed):
            calls: list[Any] = []  # noqa: RUF012 - one sampler in this test

            def eval_rollouts(self, seeds: Any, *, attempts: int = 1) -> Any:
                self.calls.append((list(seeds), attempts))
                one = super().eval_rollout
                return [one(seed) for seed in seeds for _ in range(attempts)]

        sampler = Together()
        evaluator = Lengths(sampler, ["a", "bb"], rollouts_per_seed=2)
        assert evaluator.evaluate(progress=False) == {"lengths": [7, 7, 8, 8]}
        assert sampler.calls == [(["a", "bb"], 2)]

    def test_whoever_overrides_one_rollout_is_asked_for_one(self) -> None:
        class Shouting(ASTSampler):
            def eval_rollout(self, seed: Any = None) -> Graph[Any, Any]:
                graph = super().eval_rollout(seed)
                graph.children[0].response = "LOUD"
                return graph

        evaluator = Lengths(Shouting(toy_system(), TOY_PROMPTS), TOY_PROMPTS[:3])
        assert evaluator.evaluate(progress=False) == {"lengths": [4, 4, 4]}

    def test_lockstep_of_the_wrong_length(self) -> None:
        class Short(Fixed):
            def eval_rollouts(self, seeds: Any, *, attempts: int = 1) -> Any:
                return []

        with pytest.raises(InvalidInputError, match="0 graphs for 2 rollouts"):
            Lengths(Short(), ["a", "b"]).evaluate(progress=False)

    def test_what_is_no_graph_is_refused(self) -> None:
        class Odd(Fixed):
            def eval_rollout(self, seed: Any = None) -> Any:
                return {"context": seed}

        with pytest.raises(InvalidTypeError, match="dict, not a Graph"):
            Lengths(Odd(), ["a"]).evaluate(progress=False)


class TestCounts:
    @pytest.mark.parametrize(
        ("seeds", "n"), [(["a"] * 10, 20), ([], None), ([], 1), (None, None), (["a"], 0)]
    )
    def test_too_few_is_both_errors(self, seeds: Any, n: int | None) -> None:
        evaluator = Lengths(Fixed(), seeds)
        for kind in (ValueError, AssertionError, RolloutCountError):
            with pytest.raises(kind):
                evaluator.evaluate(n_rollouts=n, progress=False)

    def test_the_first_n_in_order(self) -> None:
        evaluator = Lengths(sampler := Fixed(), [f"seed {n}" for n in range(5)])
        evaluator.evaluate(n_rollouts=3, progress=False)
        assert sampler.asked == ["seed 0", "seed 1", "seed 2"]

    def test_without_seeds_numbers_from_0(self) -> None:
        evaluator = Lengths(sampler := Fixed())
        evaluator.evaluate(n_rollouts=3, progress=False)
        assert sampler.asked == [0, 1, 2]
        assert evaluator.run is not None
        assert evaluator.run.records is not None
        assert evaluator.run.records.unit_id.tolist() == ["seed-0", "seed-1", "seed-2"]

    def test_a_text_is_no_list_of_seeds(self) -> None:
        with pytest.raises(InvalidTypeError, match="sequence"):
            Lengths(Fixed(), "a prompt")

    def test_what_aggregate_returns_is_returned_itself(self) -> None:
        evaluator = Lengths(Fixed(), ["b", "aa"])
        result = evaluator.evaluate(progress=False)
        assert result is evaluator.returned
        assert [m.overall["length"] for m in evaluator.given] == [7, 8]
        assert evaluator.run is not None
        assert evaluator.run.result is result


class TestFailures:
    def failing(self, seed: str) -> str:
        if "bad" in seed:
            raise ValueError(f"cannot answer {seed}")
        return "fine"

    def test_a_rollout_that_raises_is_counted_and_in_no_average(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        evaluator = Lengths(Fixed(self.failing), ["a", "bad", "c"])
        assert evaluator.evaluate(progress=True) == {"lengths": [4, 4]}
        said = capsys.readouterr()
        assert said.out == ""
        assert "1 of 3 rollouts failed" in said.err
        run = evaluator.run
        assert run is not None
        assert (run.n_rollouts, run.n_errors, run.n_skipped) == (3, 1, 0)
        assert [r.status for r in run.rollouts] == ["ok", "error", "ok"]
        assert "cannot answer bad" in run.rollouts[1].reason
        estimate = run.estimates["length"]
        assert (estimate["value"], estimate["n"], estimate["n_errors"]) == (4.0, 2, 1)

    def test_progress_false_is_silent(self, capsys: pytest.CaptureFixture[str]) -> None:
        Lengths(Fixed(self.failing), ["a", "bad"]).evaluate(progress=False)
        assert capsys.readouterr() == ("", "")

    def test_a_bar_on_a_terminal(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        for sampler in (Fixed(), ASTSampler(toy_system(), TOY_PROMPTS)):
            terminal = Terminal()
            monkeypatch.setattr("sys.stderr", terminal)
            Lengths(sampler, TOY_PROMPTS[:3]).evaluate(progress=True)
            assert "rolling out" in terminal.getvalue()
            assert "3/3" in terminal.getvalue()
        assert capsys.readouterr().out == ""

    def test_when_all_fail_it_says_why(self) -> None:
        evaluator = Lengths(Fixed(self.failing), ["bad 1", "bad 2"])
        with pytest.raises(ModelError, match=r"none of 2 rollouts.*bad 1"):
            evaluator.evaluate(progress=False)
        assert evaluator.run is not None
        assert evaluator.run.n_errors == 2

    def test_what_every_rollout_would_meet_is_raised(self) -> None:
        def unauthorised(seed: Any) -> str:
            raise ModelError("wrong key", kind="auth")

        with pytest.raises(ModelError, match="wrong key"):
            Lengths(sampler := Fixed(unauthorised), ["a", "b"]).evaluate(progress=False)
        assert sampler.asked == ["a"]

    def test_a_bug_in_compute_metrics_names_the_seed(self) -> None:
        class Broken(Lengths):
            def compute_metrics(self, g: Graph[str, str]) -> GraphMetrics:
                raise KeyError("oops")

        with pytest.raises(KeyError) as caught:
            Broken(Fixed(), ["the third prompt"]).evaluate(progress=False)
        assert "'the third prompt'" in "".join(caught.value.__notes__)

    def test_an_undefined_metric_is_skipped(self) -> None:
        class Picky(Lengths):
            def compute_metrics(self, g: Graph[str, str]) -> GraphMetrics:
                if g.context == "b":
                    raise UndefinedMetricError("nothing to measure")
                return super().compute_metrics(g)

        run = run_of(Picky(Fixed(), ["a", "b"]))
        assert (run.n_errors, run.n_skipped) == (0, 1)
        assert run.estimates["length"]["n_skipped"] == 1
        assert "nothing to measure" in run.notes[0]

    def test_compute_metrics_must_return_metrics(self) -> None:
        class Odd(Lengths):
            def compute_metrics(self, g: Graph[str, str]) -> Any:
                return None

        with pytest.raises(InvalidTypeError, match="GraphMetrics"):
            Odd(Fixed(), ["a"]).evaluate(progress=False)

    def test_a_graph_that_goes_in_circles_is_refused(self) -> None:
        class Circle(Fixed):
            def eval_rollout(self, seed: Any = None) -> Graph[str, str]:
                graph = super().eval_rollout(seed)
                graph.children[0].children.append(graph.children[0])
                return graph

        with pytest.raises(InvalidInputError, match="tree, without cycles") as caught:
            Lengths(Circle(), ["a prompt"]).evaluate(progress=False)
        assert "a prompt" in "".join(caught.value.__notes__)

    def test_a_tester_that_raises_in_one_conversation(self) -> None:
        class Moody(ToyTester):
            def ask(self, conversation: Any, seed: int) -> str:
                if conversation.goal == TOY_PROMPTS[1]:
                    raise RuntimeError("not today")
                return super().ask(conversation, seed)

        sampler = ASTSampler(toy_system(tester=Moody()), TOY_PROMPTS)
        run = run_of(Lengths(sampler, TOY_PROMPTS[:4]))
        assert [r.status for r in run.rollouts] == ["ok", "error", "ok", "ok"]
        assert "not today" in run.rollouts[1].reason
        assert run.graphs[1].children[0].status == "error"

    def test_empty_replies_are_told(self) -> None:
        run = run_of(Lengths(Fixed(lambda seed: ""), ["a", "b"]))
        assert run.n_errors == 0
        assert run.notes == ("2 replies are empty",)


class TestRecords:
    def test_states_of_values(self) -> None:
        overall: list[dict[str, Any]] = [
            {"x": 1, "hit": True, "name": "one", "n": np.int64(3)},
            {"x": None, "hit": False, "name": "two", "n": np.int64(4)},
            {"x": math.nan, "hit": True, "name": "three", "n": np.int64(5)},
            {"hit": True, "name": "four", "n": np.int64(6)},
            {"x": "many", "hit": True, "name": "five", "n": np.int64(7)},
        ]
        run = run_of(Given(overall))
        records = run.records
        by_unit = {r.identity.unit_id: n for n, r in enumerate(run.rollouts)}
        order = [by_unit[unit] for unit in records.unit_id]
        states = dict(zip(order, records.status["x"].tolist(), strict=True))
        assert states == {0: "ok", 1: "skipped", 2: "error", 3: "skipped", 4: "error"}
        reasons = dict(zip(order, records.reason["x"].tolist(), strict=True))
        assert "finite" in reasons[2]
        assert "no 'x'" in reasons[3]
        assert "str" in reasons[4]
        assert "name" not in records.columns
        estimates = run.estimates
        assert (estimates["x"]["value"], estimates["x"]["n"]) == (1.0, 1)
        assert (estimates["x"]["n_errors"], estimates["x"]["n_skipped"]) == (2, 2)
        assert estimates["n"]["value"] == 5.0  # (3 + 4 + 5 + 6 + 7) / 5
        bounds = score_interval(0.8, 5)  # hit is true in 4 of 5
        assert estimates["hit"]["method"] == "wilson"
        assert estimates["hit"]["ci_low"] == pytest.approx(bounds[0])
        assert estimates["hit"]["ci_high"] == pytest.approx(bounds[1])
        assert estimates["hit"]["se"] == pytest.approx(math.sqrt(0.8 * 0.2 / 4))  # s / √n

    def test_a_value_that_nobody_has_is_a_skipped_cell(self) -> None:
        run = run_of(Given([{"score": None}] * 3))
        cell = run.card["score"]
        assert (cell.value, cell.status, cell.n_skipped) == (None, "skipped", 3)

    def test_a_first_turn_has_a_share_and_no_mean(self) -> None:
        """Its mean over those that have one would not know of those that have none."""
        run = run_of(Given([{"first_event_turn": turn} for turn in (1, 3, None)]))
        assert "first_event_turn" in run.records.columns
        assert list(run.estimates) == ["pct_rollouts_with_event"]
        assert run.estimates["pct_rollouts_with_event"]["value"] == pytest.approx(2 / 3)

    def test_directions_are_none_unless_known(self) -> None:
        overall = {
            "num_turns": 2,
            "avg_reward": 0.5,
            "first_refusal_turn": 1,
            "kind": True,
            "avg_adversarial_toxicity": 0.1,
            "avg_target_toxicity": 0.2,
            "first_target_toxicity_turn": None,
            "words_rate": 150.0,
        }
        run = run_of(Given([overall] * 3))
        better = {spec.name: spec.higher_is_better for spec in run.specs}
        assert {name for name, up in better.items() if up is not None} == {
            "avg_target_toxicity",
            "pct_rollouts_with_target_toxicity",
        }
        assert not any(better.values())
        shares = {spec.name for spec in run.specs if spec.bounds == (0.0, 1.0)}
        assert shares == {
            *("kind", "pct_rollouts_with_refusal", "pct_rollouts_with_target_toxicity")
        }

    def test_without_numbers_there_are_no_records(self) -> None:
        run = run_of(Given([{"verdict": "good"}]))
        assert run.records is None
        assert run.estimates == {}
        json.dumps(run.to_dict(), allow_nan=False)

    def test_several_rollouts_of_a_seed_are_attempts(self) -> None:
        turn = iter(["no", "yes", "yes", "yes"])
        evaluator = Lengths(Fixed(lambda seed: next(turn)), ["a", "b"], rollouts_per_seed=2)
        run = run_of(evaluator)
        assert run.records.attempt.tolist() == [1, 2, 1, 2]
        assert run.estimates["length"]["n"] == 2  # seeds, not rollouts
        assert run.estimates["length"]["value"] == pytest.approx((2.5 + 3) / 2)
        assert len({r.rollout_id for r in run.rollouts}) == 4

    def test_attempts_reach_a_sampler_that_counts_them(self) -> None:
        class Counting(Fixed):
            def eval_rollout(self, seed: Any = None, attempt: int = 1) -> Graph[str, str]:
                self.asked.append(attempt)
                return Graph(seed, [Node(seed, "probe", "x" * attempt)])

        evaluator = Lengths(Counting(), ["a", "b"], rollouts_per_seed=3)
        assert evaluator.evaluate(progress=False) == {"lengths": [1, 2, 3, 1, 2, 3]}

    def test_numbers_that_pick_one_prompt_are_one_group(self) -> None:
        class Picking(Fixed):
            def eval_rollout(self, seed: Any = None) -> Graph[str, str]:
                return Graph("the one prompt", [Node("", "probe", "x" * seed)])

        run = run_of(Lengths(Picking(), [3, 1, 4]))
        assert len(set(run.records.group.tolist())) == 1
        assert run.card["length"].n_groups == 1

    def test_identities_of_prompts(self) -> None:
        known = identities(["Hi", SeedPrompt("Bye", id="bye", topic="end", category="x"), "Hi"])
        digest = content_hash("Hi", None)
        assert [one.unit_id for one in known] == [digest[:16], "bye", f"{digest[:16]}~2"]
        assert known[0].content_hash == known[2].content_hash == digest
        assert known[0].group == known[2].group
        assert known[1].group == "end"
        assert known[1].slices["category"] == "x"

    def test_categories_are_slices(self) -> None:
        seeds = [SeedPrompt("a", category="x"), SeedPrompt("b", safe=True)]
        run = run_of(Lengths(Fixed(), seeds))
        assert set(run.records.slices["category"].tolist()) == {"x", "(none)"}
        assert set(run.records.slices["safe"].tolist()) == {"safe", "(none)"}

    @settings(max_examples=30, deadline=None)
    @given(
        st.lists(
            st.sampled_from([None, math.nan, math.inf, -math.inf]) | st.floats(-1e6, 1e6),
            min_size=1,
            max_size=30,
        )
    )
    def test_every_rollout_is_counted_once(self, values: list[float | None]) -> None:
        run = run_of(Given([{"x": value} for value in values]))
        finite = [v for v in values if v is not None and math.isfinite(v)]
        cell = run.card["x"]
        assert (cell.n_units or 0) == len(finite)
        assert cell.n_skipped == sum(v is None for v in values)
        assert len(finite) + cell.n_skipped + cell.n_errors == len(values)


class TestDistributions:
    def test_median_min_max(self) -> None:
        metrics = [GraphMetrics({"x": v, "t": "a"}, []) for v in (5, 1, 2, math.nan)]
        assert metric_distributions(metrics) == {
            "x": {"mean": 8 / 3, "median": 2.0, "min": 1.0, "max": 5.0, "n": 3, "n_missing": 1}
        }


class TestWriteJson:
    def test_strict_indented_utf8_in_new_folders(self, tmp_path: Path) -> None:
        path = tmp_path / "new" / "folder" / "metrics.json"
        data = {"a": math.nan, "b": [math.inf, np.float64(0.5)], "ü": "é", "c": np.arange(2)}
        Lengths(Fixed()).write_json(data, str(path))  # on an instance too
        text = path.read_text(encoding="utf-8")

        def refuse(constant: str) -> Any:
            raise AssertionError(constant)

        assert json.loads(text, parse_constant=refuse) == {
            "a": None,
            "b": [None, 0.5],
            "ü": "é",
            "c": [0, 1],
        }
        assert '\n    "a": null' in text
        assert "ü" in text
        assert [p.name for p in path.parent.iterdir()] == ["metrics.json"]

    def test_dataclasses_are_written(self, tmp_path: Path) -> None:
        path = Evaluator.write_json([GraphMetrics({"x": 1}, [])], tmp_path / "m.json")
        assert json.loads(path.read_text()) == [{"overall": {"x": 1}, "per_turn": []}]

    @pytest.mark.parametrize("value", [object(), b"bytes", {1, object()}, len, 1j])
    def test_what_has_no_place_is_named(self, value: Any, tmp_path: Path) -> None:
        path = tmp_path / "metrics.json"
        path.write_text("old")
        with pytest.raises(InvalidInputError, match="summary → odd"):
            Evaluator.write_json({"summary": {"odd": value}}, path)
        assert path.read_text() == "old"

    def test_what_contains_itself(self, tmp_path: Path) -> None:
        data: dict[str, Any] = {}
        data["again"] = data
        with pytest.raises(InvalidInputError, match="contains itself"):
            Evaluator.write_json(data, tmp_path / "metrics.json")


class TestJsonShape:
    def test_an_evaluators_run(self) -> None:
        evaluator = Lengths(Fixed(TestFailures().failing), ["a", "bad", "c"])
        with pytest.raises(InvalidInputError, match="nothing has been evaluated"):
            rollouts_json(evaluator)
        evaluator.evaluate(progress=False)
        told = rollouts_json(evaluator, manifest={"run": "r1"})
        assert list(told) == ["summary", "details", "estimates", "manifest"]
        assert [d["status"] for d in told["details"]] == ["ok", "error", "ok"]
        assert [d["seed"] for d in told["details"]] == ["a", "bad", "c"]
        assert told["details"][1]["reason"].startswith("ValueError")
        assert told["manifest"] == {"run": "r1"}
        json.dumps(told, allow_nan=False)

    def test_something_else_is_refused(self) -> None:
        with pytest.raises(InvalidTypeError, match="graphs"):
            rollouts_json(["a"])
