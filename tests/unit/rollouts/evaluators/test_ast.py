"""ASTSampler and ASTEvaluator: trees and chains, path weights, thresholds, the JSON shape."""

import itertools
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_toolkit.errors import InvalidInputError, ModelError
from eval_toolkit.rollouts.evaluators.ast import ASTEvaluator, ASTSampler
from eval_toolkit.rollouts.evaluators.astra_json import rollouts_json
from eval_toolkit.rollouts.evaluators.base import Evaluator
from eval_toolkit.rollouts.graphs import ENDED, Graph, Node
from eval_toolkit.rollouts.seeds import SeedPrompt
from eval_toolkit.rollouts.toys import TOY_PROMPTS, ToyScorer, patience_for, toy_system


class Reading:
    """A scorer that reads the number at the end of a text, and counts how often it is asked."""

    def __init__(self, **told: Any) -> None:
        self.calls: list[list[str]] = []
        for name, value in told.items():
            setattr(self, name, value)

    def score(self, texts: Any) -> list[float]:
        self.calls.append(list(texts))
        return [float(text.split()[-1]) for text in texts]


def evaluator_for(scorer: Any, **options: Any) -> ASTEvaluator:
    return ASTEvaluator(
        SimpleNamespace(system=SimpleNamespace(scorer=scorer), eval_rollout=None), **options
    )


def chain(*scores: tuple[float, float], reward: float | None = None) -> Graph[str, str]:
    graph: Graph[str, str] = Graph("seed")
    place: Any = graph
    for probe, response in scores:
        place.children.append(Node("seed", f"probe {probe}", f"response {response}", reward))
        place = place.children[0]
    graph.relink()
    return graph


def tree(widths: tuple[int, ...], score: Any) -> Graph[str, str]:
    """Return a tree in which the response at a place scores what a function of it says."""

    def grown(depth: int, place: tuple[int, ...]) -> list[Node[str, str]]:
        if depth == len(widths):
            return []
        return [
            Node(
                "seed",
                f"probe {score((*place, at)) / 2}",
                f"response {score((*place, at))}",
                float(at),
                grown(depth + 1, (*place, at)),
            )
            for at in range(widths[depth])
        ]

    return Graph("seed", grown(0, ()))


class TestSampler:
    def test_a_prompt_is_a_chain_and_a_number_a_tree(self) -> None:
        sampler = ASTSampler(toy_system(), TOY_PROMPTS, 2, 3)
        for seed in (TOY_PROMPTS[0], SeedPrompt(TOY_PROMPTS[0])):
            graph = sampler.eval_rollout(seed)
            assert graph.is_chain
            assert len(graph.first_path()) == 3
        assert len(list(sampler.eval_rollout(5).nodes())) == 2 + 4 + 8
        assert len(list(sampler.rollout(None).nodes())) == 14

    def test_same_number_same_graph_zero_too(self) -> None:
        for seed in (0, 1, 7):
            first, second = (ASTSampler(toy_system(), TOY_PROMPTS).rollout(seed) for _ in range(2))
            assert first == second
        assert len({ASTSampler(toy_system(), TOY_PROMPTS).rollout(n).context for n in range(9)}) > 1

    def test_another_run_seed_other_probes(self) -> None:
        def probes(seed: int) -> list[list[str]]:
            sampler = ASTSampler(toy_system(), TOY_PROMPTS, seed=seed)
            return [[n.probe for n in g.nodes()] for g in sampler.eval_rollouts(TOY_PROMPTS)]

        assert probes(1) != probes(2)
        assert probes(1) == probes(1)

    def test_without_a_number_rollouts_differ(self) -> None:
        sampler = ASTSampler(toy_system(), TOY_PROMPTS)
        assert len({sampler.rollout().context for _ in range(40)}) > 1  # 24 prompts

    def test_toys_fail_in_every_turn_and_not_at_all(self) -> None:
        metrics: Any = ASTEvaluator(ASTSampler(toy_system(), ()), TOY_PROMPTS).evaluate(
            progress=False
        )
        firsts = {d["overall"]["first_target_toxicity_turn"] for d in metrics["details"]}
        assert firsts == {1, 2, 3, None}
        for prompt, detail in zip(TOY_PROMPTS, metrics["details"], strict=True):
            costs = [2 if "demand" in row["probe"] else 1 for row in detail["per_turn"]]
            spent = list(itertools.accumulate(costs))
            lost = [n for n, cost in enumerate(spent, 1) if cost >= patience_for(prompt)]
            assert detail["overall"]["first_target_toxicity_turn"] == (lost[0] if lost else None)


class TestChains:
    def test_numbers(self) -> None:
        graph = chain((0.1, 0.2), (0.6, 0.3), (0.7, 0.5), reward=0.25)
        overall = evaluator_for(Reading()).compute_metrics(graph).overall
        assert overall == {
            "num_turns": 3,
            "avg_reward": 0.25,
            "avg_adversarial_toxicity": pytest.approx(1.4 / 3),
            "avg_target_toxicity": pytest.approx(1.0 / 3),
            "first_adversarial_toxicity_turn": 2,
            "first_target_toxicity_turn": 3,
        }

    def test_no_turns(self) -> None:
        metrics = evaluator_for(Reading()).compute_metrics(Graph("seed"))
        assert metrics.per_turn == []
        assert list(metrics.overall.values()) == [0, 0.0, 0.0, 0.0, None, None]

    @pytest.mark.parametrize("policy", ["expectation", "first", "best", None])
    def test_every_policy_reads_a_chain_alike(self, policy: str | None) -> None:
        graph = chain((0.1, 0.2), (0.6, 0.7))
        plain = evaluator_for(Reading()).compute_metrics(graph)
        assert evaluator_for(Reading(), policy=policy).compute_metrics(graph) == plain

    def test_the_threshold_is_the_scorers_unless_given(self) -> None:
        graph = chain((0.1, 0.55), (0.1, 0.75))

        def first(evaluator: ASTEvaluator) -> Any:
            return evaluator.compute_metrics(graph).overall["first_target_toxicity_turn"]

        assert first(evaluator_for(Reading())) == 1  # 0.5 for a scorer that has none
        assert first(evaluator_for(Reading(threshold=0.6))) == 2
        assert first(evaluator_for(Reading(threshold=0.6), threshold=0.5)) == 1
        assert first(evaluator_for(Reading(threshold=0.8))) is None

    def test_a_scorer_of_which_less_is_worse(self) -> None:
        graph = chain((0.9, 0.8), (0.9, 0.2))
        evaluator = evaluator_for(Reading(higher_is_worse=False))
        assert evaluator.compute_metrics(graph).overall["first_target_toxicity_turn"] == 2

    def test_one_batch_per_graph_and_none_for_what_is_known(self) -> None:
        scorer = Reading(name="reading")
        evaluator = evaluator_for(scorer)
        graph = chain((0.1, 0.2), (0.3, 0.4))
        evaluator.compute_metrics(graph)
        assert [len(call) for call in scorer.calls] == [4]
        for node in graph.nodes():
            node.scores = {"reading": 0.9, "reading:probe": 0.8}
        overall = evaluator.compute_metrics(graph).overall
        assert len(scorer.calls) == 1
        assert overall["avg_target_toxicity"] == pytest.approx(0.9)
        assert overall["avg_adversarial_toxicity"] == pytest.approx(0.8)


class TestUnjudged:
    """What a scorer does not judge is None, and in no average."""

    def test_probes_of_a_scorer_that_judges_answers(self) -> None:
        class Judging(Reading):
            def score_turns(self, conversations: Any) -> list[float]:
                return [float(str(one).split()[-1]) for one in conversations]

        scorer = Judging()
        evaluator = evaluator_for(scorer)
        metrics: Any = evaluator.evaluate_graphs([chain((0.9, 0.2), (0.9, 0.6))])
        assert scorer.calls == []  # nobody asked about probes
        overall = metrics["details"][0]["overall"]
        assert overall["avg_adversarial_toxicity"] is None
        assert overall["avg_target_toxicity"] == pytest.approx(0.4)
        assert overall["first_target_toxicity_turn"] == 2
        assert metrics["summary"]["pct_rollouts_with_adversarial_toxicity"] is None
        assert evaluator.run is not None
        assert evaluator.run.card["pct_rollouts_with_adversarial_toxicity"].status == "skipped"
        assert evaluator.run.card["pct_rollouts_with_target_toxicity"].value == 1.0

    def test_turns_before_the_last_of_a_scorer_of_whole_conversations(self) -> None:
        graph = chain((0.1, 0.2), (0.3, 0.8))
        metrics = evaluator_for(Reading(mode="final")).compute_metrics(graph)
        assert [row["target_toxicity"] for row in metrics.per_turn] == [None, 0.8]
        assert metrics.overall["avg_target_toxicity"] == 0.8
        assert metrics.overall["first_target_toxicity_turn"] == 2
        stored = rollouts_json([graph])  # has its scores by now
        assert stored["details"][0]["overall"] == metrics.overall

    def test_an_empty_reply(self) -> None:
        graph = chain((0.1, 0.2), (0.3, 0.8))
        graph.children[0].response = ""
        metrics = evaluator_for(Reading()).compute_metrics(graph)
        assert [row["target_toxicity"] for row in metrics.per_turn] == [None, 0.8]
        assert metrics.overall["avg_target_toxicity"] == 0.8

    @pytest.mark.parametrize("widths", [(1, 1), (2, 2)])
    def test_empty_replies_are_no_failures_and_stay_in_the_share(
        self, widths: tuple[int, ...]
    ) -> None:
        graphs = [tree(widths, lambda place: 0.9) for _ in range(4)]
        for at, graph in enumerate(graphs):
            graph.context = f"seed {at}"
        for node in [*graphs[1].nodes(), *graphs[3].nodes()]:
            node.response = " "
        evaluator = evaluator_for(Reading())
        summary: Any = evaluator.evaluate_graphs(graphs)["summary"]  # type: ignore[call-overload]
        key = "pct_rollouts_with_target_toxicity"
        assert summary["n_rollouts"] == 4
        assert summary[f"{key}/attack_success_rate"] == 0.5  # as the seed document counts them
        assert (summary["avg_target_toxicity"], summary["n_avg_target_toxicity"]) == (0.9, 2)
        assert summary["n_avg_adversarial_toxicity"] == 4
        assert evaluator.run is not None
        cells = evaluator.run.card
        assert (cells[key].value, cells[key].n_units) == (0.5, 4)
        assert (cells["avg_target_toxicity"].n_units, cells["avg_target_toxicity"].n_skipped) == (
            2,
            2,
        )

    def test_without_a_reply_nothing_is_known(self) -> None:
        graphs = [chain((0.1, 0.2)), chain((0.1, 0.9), (0.1, 0.9))]
        graphs[1].context = "another seed"
        graphs[1].children[0].children[0].response = None
        evaluator = evaluator_for(Reading())
        summary: Any = evaluator.evaluate_graphs(graphs)["summary"]  # type: ignore[call-overload]
        assert summary["n_rollouts"] == 1
        assert evaluator.run is not None
        assert evaluator.run.n_skipped == 1
        assert "turn 2 has no reply" in evaluator.run.rollouts[1].reason


class TestTrees:
    @settings(max_examples=40, deadline=None)
    @given(
        st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple),
        st.integers(0, 10_000),
    )
    def test_path_weights_give_the_expectation(self, widths: tuple[int, ...], salt: int) -> None:
        def score(place: tuple[int, ...]) -> float:
            return ((hash((salt, *place)) % 97) + 0.5) / 97

        # Oracle: every conversation listed, each as likely as the others.
        every = list(itertools.product(*(range(width) for width in widths)))
        told = [[score(path[:n]) for n in range(1, len(path) + 1)] for path in every]
        overall = evaluator_for(Reading()).compute_metrics(tree(widths, score)).overall
        means = [sum(one) / len(one) for one in told]
        assert overall["num_turns"] == pytest.approx(len(widths))
        assert overall["avg_target_toxicity"] == pytest.approx(sum(means) / len(every))
        rewards = [sum(path) / len(path) for path in every]  # a branch's number is its reward
        assert overall["avg_reward"] == pytest.approx(sum(rewards) / len(every))
        firsts = [next((n for n, s in enumerate(one, 1) if s >= 0.5), None) for one in told]
        there = [first for first in firsts if first is not None]
        expected = sum(there) / len(there) if there else None
        assert overall["first_target_toxicity_turn"] == (
            None if expected is None else pytest.approx(expected)
        )
        if len(every) > 1:
            assert overall["target_toxicity_rate"] == pytest.approx(len(there) / len(every))
            assert overall["n_paths"] == len(every)

    def test_branches_of_unequal_length_and_number(self) -> None:
        later = [Node("s", "p 0", "r 0.8"), Node("s", "p 0", "r 0.4")]
        first = Node("s", "p 0", "r 0.2", children=later)
        graph = Graph("s", [first, Node("s", "p 0", "r 0.6")])
        # Conversations 0.2, 0.8 and 0.2, 0.4 with the chance 1/4 each, and 0.6 with 1/2.
        overall = evaluator_for(Reading()).compute_metrics(graph).overall
        assert overall["num_turns"] == 1.5  # 2/4 + 2/4 + 1/2
        assert overall["avg_target_toxicity"] == pytest.approx(0.5)  # 0.5/4 + 0.3/4 + 0.6/2
        assert overall["target_toxicity_rate"] == pytest.approx(0.75)  # not the second
        assert overall["first_target_toxicity_turn"] == pytest.approx(4 / 3)  # (2/4 + 1/2) / 0.75

    def test_policies(self) -> None:
        graph = tree((2,), lambda place: (0.1, 0.9)[place[0]])
        averages = {
            policy: evaluator_for(Reading(), policy=policy)
            .compute_metrics(graph)
            .overall["avg_target_toxicity"]
            for policy in ("first", "best", "expectation", "all leaves")
        }
        assert averages == {"first": 0.1, "best": 0.9, "expectation": 0.5, "all leaves": 0.5}

    def test_all_leaves_count_the_same(self) -> None:
        later = [Node("s", "p 0", "r 0.8"), Node("s", "p 0", "r 0.4")]
        graph = Graph("s", [Node("s", "p 0", "r 0.2", children=later), Node("s", "p 0", "r 0.6")])
        metrics = evaluator_for(Reading(), policy="all leaves").compute_metrics(graph)
        # Conversations 0.2, 0.8 and 0.2, 0.4 and 0.6, each a third.
        assert metrics.overall["avg_target_toxicity"] == pytest.approx((0.5 + 0.3 + 0.6) / 3)
        assert metrics.overall["target_toxicity_rate"] == pytest.approx(2 / 3)
        told = [(row["node"], row["weight"]) for row in metrics.per_turn]
        assert told == [
            *(("0", pytest.approx(2 / 3)), ("0.0", pytest.approx(1 / 3))),
            *(("0.1", pytest.approx(1 / 3)), ("1", pytest.approx(1 / 3))),
        ]

    def test_a_branch_that_ended_counts_where_it_ended(self) -> None:
        """Half of the conversations end after turn 1, without a failure."""
        graph = chain((0.0, 0.1), (0.0, 0.9))
        graph.children[0].children.append(Node("seed", "", None, status=ENDED))
        graph.relink()
        metrics = evaluator_for(Reading()).compute_metrics(graph)
        assert metrics.overall["target_toxicity_rate"] == 0.5
        assert metrics.overall["num_turns"] == 1.5
        assert metrics.overall["avg_target_toxicity"] == pytest.approx((0.1 + 0.5) / 2)
        assert [row["weight"] for row in metrics.per_turn] == [1.0, 0.5]

    def test_chosen_branches_have_no_chances(self) -> None:
        graph = tree((2,), lambda place: (0.1, 0.9)[place[0]])
        graph.selected = True
        overall = evaluator_for(Reading()).compute_metrics(graph).overall
        assert overall["avg_target_toxicity"] == 0.9
        assert "n_paths" not in overall

    def test_all_turns_are_told_with_their_weight(self) -> None:
        rows = evaluator_for(Reading()).compute_metrics(tree((2, 2), lambda p: 0.1)).per_turn
        assert [(row["node"], row["turn"], row["weight"]) for row in rows] == [
            *(("0", 1, 0.5), ("0.0", 2, 0.25), ("0.1", 2, 0.25)),
            *(("1", 1, 0.5), ("1.0", 2, 0.25), ("1.1", 2, 0.25)),
        ]

    def test_an_unknown_policy(self) -> None:
        with pytest.raises(InvalidInputError, match="policy"):
            evaluator_for(Reading(), policy="worst")


class TestSummary:
    SUCCESS = "pct_rollouts_with_target_toxicity/attack_success_rate"

    def evaluated(self) -> tuple[ASTEvaluator, Any]:
        evaluator = ASTEvaluator(ASTSampler(toy_system(), TOY_PROMPTS), seeds=TOY_PROMPTS)
        return evaluator, evaluator.evaluate(progress=False)

    def test_both_spellings(self) -> None:
        _, metrics = self.evaluated()
        share = sum(
            d["overall"]["first_target_toxicity_turn"] is not None for d in metrics["details"]
        ) / len(TOY_PROMPTS)
        for spelling in ("audit", "attack"):
            key = f"pct_rollouts_with_target_toxicity/{spelling}_success_rate"
            assert metrics["summary"][key] == pytest.approx(share)
        assert 0 < share < 1

    def test_a_subclass_changes_overall_and_so_the_summary(self) -> None:
        class Later(ASTEvaluator):
            def compute_metrics(self, g: Graph[Any, Any]) -> Any:
                metrics = super().compute_metrics(g)
                if metrics.overall["first_target_toxicity_turn"] in (1, 2):
                    metrics.overall["first_target_toxicity_turn"] = None
                metrics.overall["avg_reward"] = 3.0
                return metrics

        evaluator = Later(ASTSampler(toy_system(), TOY_PROMPTS), seeds=TOY_PROMPTS)
        metrics: Any = evaluator.evaluate(progress=False)
        firsts = [d["overall"]["first_target_toxicity_turn"] for d in metrics["details"]]
        share = sum(first is not None for first in firsts) / len(firsts)
        assert 0 < share < self.evaluated()[1]["summary"][self.SUCCESS]
        assert metrics["summary"][self.SUCCESS] == pytest.approx(share)
        assert evaluator.run is not None
        card = evaluator.run.card
        assert card["pct_rollouts_with_target_toxicity"].value == pytest.approx(share)
        assert card["avg_reward"].value == 3.0

    @pytest.mark.parametrize("worse", [True, False])
    def test_directions_and_bounds(self, worse: bool) -> None:
        evaluator = evaluator_for(Reading(higher_is_worse=worse))
        names = [
            *("num_turns", "avg_reward", "words_rate", "n_paths", "max_adversarial_toxicity"),
            *("avg_adversarial_toxicity", "avg_target_toxicity", "max_target_toxicity"),
            *("pct_rollouts_with_adversarial_toxicity", "pct_rollouts_with_target_toxicity"),
            *("target_toxicity_rate", "first_target_toxicity_turn"),
        ]
        specs = {spec.name: spec for spec in evaluator.summary_specs(names)}
        better = {name: spec.higher_is_better for name, spec in specs.items()}
        assert better == {
            **dict.fromkeys(names[:6]),  # of the tester, or neither good nor bad
            "pct_rollouts_with_adversarial_toxicity": None,
            "avg_target_toxicity": not worse,
            "max_target_toxicity": not worse,
            "pct_rollouts_with_target_toxicity": False,
            "target_toxicity_rate": False,
        }
        shares = {name for name, spec in specs.items() if spec.bounds == (0.0, 1.0)}  # type: ignore[attr-defined]
        assert shares == {
            "pct_rollouts_with_adversarial_toxicity",
            "pct_rollouts_with_target_toxicity",
            "target_toxicity_rate",
        }

    def test_the_turn_of_the_first_failure_has_no_mean(self) -> None:
        evaluator, metrics = self.evaluated()
        assert any(d["overall"]["first_target_toxicity_turn"] for d in metrics["details"])
        assert evaluator.run is not None
        assert not [name for name in evaluator.run.estimates if name.startswith("first_")]
        assert evaluator.run.records is not None
        assert "first_target_toxicity_turn" in evaluator.run.records.columns

    def test_nothing_gives_zeros(self) -> None:
        summary: Any = evaluator_for(Reading()).aggregate_metrics([])
        assert set(summary["summary"].values()) == {0.0}

    def test_a_reward_that_nobody_gave_is_skipped(self) -> None:
        evaluator, metrics = self.evaluated()
        assert metrics["summary"]["avg_reward"] == 0.0  # as the seed document has it
        assert evaluator.run is not None
        cell = evaluator.run.card["avg_reward"]
        assert (cell.status, cell.n_skipped) == ("skipped", len(TOY_PROMPTS))

    def test_same_run_seed_same_bytes(self, tmp_path: Path) -> None:
        written = []
        for n in range(2):
            evaluator, metrics = self.evaluated()
            path = Evaluator.write_json(metrics, tmp_path / f"{n}.json")
            told = json.dumps(rollouts_json(evaluator), allow_nan=False)
            written.append((path.read_bytes(), told))
        assert written[0] == written[1]

    def test_trees_from_numbers(self) -> None:
        evaluator = ASTEvaluator(ASTSampler(toy_system(), TOY_PROMPTS))
        metrics: Any = evaluator.evaluate(n_rollouts=6, progress=False)
        rates = [d["overall"]["target_toxicity_rate"] for d in metrics["details"]]
        key = "pct_rollouts_with_target_toxicity/attack_success_rate"
        assert metrics["summary"][key] == pytest.approx(sum(rates) / 6)
        assert len(metrics["details"][0]["per_turn"]) == 14


class TestBadInput:
    def test_a_system_without_a_scorer(self) -> None:
        with pytest.raises(InvalidInputError, match="no scorer"):
            evaluator_for(None)

    def test_a_scorer_of_the_wrong_length(self) -> None:
        class Short(Reading):
            def score(self, texts: Any) -> list[float]:
                return [0.1]

        with pytest.raises(InvalidInputError):
            evaluator_for(Short()).compute_metrics(chain((0.1, 0.2)))

    def test_a_nan_is_a_failed_rollout_not_an_average(self) -> None:
        graphs = [chain((0.1, 0.2)), chain((0.1, math.nan)), chain((0.1, 0.4))]
        for n, graph in enumerate(graphs):
            graph.context = f"seed {n}"
        evaluator = evaluator_for(Reading())
        metrics: Any = evaluator.evaluate_graphs(graphs)
        assert metrics["summary"]["n_rollouts"] == 2
        assert metrics["summary"]["avg_target_toxicity"] == pytest.approx(0.3)
        assert evaluator.run is not None
        assert evaluator.run.n_errors == 1
        assert "turn 1 has no score" in evaluator.run.notes[0]

    def test_only_nan_is_an_error(self) -> None:
        with pytest.raises(ModelError, match="none of 1 rollouts"):
            evaluator_for(Reading()).evaluate_graphs([chain((0.1, math.nan))])

    def test_a_scorer_of_nan_in_a_run(self) -> None:
        class Broken(ToyScorer):
            def score(self, texts: Any) -> list[float]:
                return [math.nan if "Zounds" in text else 0.1 for text in texts]

        sampler = ASTSampler(toy_system(scorer=Broken()), TOY_PROMPTS)
        evaluator = ASTEvaluator(sampler, seeds=TOY_PROMPTS)
        metrics: Any = evaluator.evaluate(progress=False)
        assert evaluator.run is not None
        assert evaluator.run.n_errors > 0
        assert metrics["summary"]["n_rollouts"] + evaluator.run.n_errors == len(TOY_PROMPTS)

    def test_no_graphs(self) -> None:
        with pytest.raises(AssertionError, match="`graphs` is empty"):
            evaluator_for(Reading()).evaluate_graphs([])

    def test_an_empty_reply_is_told(self) -> None:
        system = toy_system(target=lambda states: [""] * len(states))
        evaluator = ASTEvaluator(ASTSampler(system, TOY_PROMPTS), seeds=TOY_PROMPTS[:2])
        evaluator.evaluate(progress=False)
        assert evaluator.run is not None
        assert any("6 replies are empty" in note for note in evaluator.run.notes)


class TestJsonShape:
    def test_graphs_with_scores(self) -> None:
        graphs = ASTSampler(toy_system(), ()).eval_rollouts(TOY_PROMPTS[:5])
        told = rollouts_json(graphs)
        evaluator = ASTEvaluator(ASTSampler(toy_system(), ()), seeds=TOY_PROMPTS[:5])
        metrics: Any = evaluator.evaluate(progress=False)
        assert told["summary"] == metrics["summary"]
        assert told == rollouts_json(evaluator)
        assert [d["seed"] for d in told["details"]] == list(TOY_PROMPTS[:5])

    def test_estimates_under_the_summarys_keys(self) -> None:
        evaluator = ASTEvaluator(ASTSampler(toy_system(), ()), seeds=TOY_PROMPTS)
        evaluator.evaluate(progress=False)
        told = rollouts_json(evaluator)
        counts = {key for key in told["summary"] if key.startswith("n_")}
        assert set(told["summary"]) - set(told["estimates"]) == counts
        for key, estimate in told["estimates"].items():
            if key in told["summary"] and estimate["status"] == "ok":
                assert estimate["value"] == pytest.approx(told["summary"][key])
                assert estimate["ci_low"] <= estimate["value"] <= estimate["ci_high"]
        json.dumps(told, allow_nan=False)

    def test_graphs_without_scores_need_a_scorer(self) -> None:
        with pytest.raises(InvalidInputError, match="pass `scorer`"):
            rollouts_json([chain((0.1, 0.2))])
        told = rollouts_json([chain((0.1, 0.2))], scorer=Reading())
        assert told["summary"]["avg_target_toxicity"] == 0.2
        half = chain((0.1, 0.2), (0.3, 0.4))
        half.children[0].scores |= {"reading": 0.2, "reading:probe": 0.1}
        with pytest.raises(InvalidInputError, match="has not scored every"):
            rollouts_json([half])

    def test_scores_of_another_threshold_or_direction_need_their_scorer(self) -> None:
        graphs = []
        for n, score in enumerate((0.9, 0.2, 0.9, 0.9, 0.9)):
            scores = {"safety": score, "safety:probe": 0.9}
            node = Node("s", "p", "r", scores=scores, event=score <= 0.3)  # less is worse
            graphs.append(Graph(f"seed {n}", [node]))
        key = "pct_rollouts_with_target_toxicity/attack_success_rate"
        for threshold in (None, 0.3):
            with pytest.raises(
                InvalidInputError, match=r"score 0.2 failed and one with 0.9 did not.*pass `scorer`"
            ):
                rollouts_json(graphs, threshold=threshold)
        low = Reading(name="safety", threshold=0.3, higher_is_worse=False)
        told = rollouts_json(graphs, scorer=low)["summary"]
        assert (told[key], told["pct_rollouts_with_adversarial_toxicity"]) == (0.2, 0.0)
        # More is worse, but from 0.95 on: a threshold that is given is meant.
        for graph in graphs:
            graph.children[0].event = False
        with pytest.raises(
            InvalidInputError, match=r"score 0.9 did not fail.*pass `scorer` or `threshold`"
        ):
            rollouts_json(graphs)
        assert rollouts_json(graphs, threshold=0.95)["summary"][key] == 0.0

    def test_graphs_that_a_judge_scored(self) -> None:
        class Judging(Reading):
            def score_turns(self, conversations: Any) -> list[float]:
                return [float(str(one).split()[-1]) for one in conversations]

        graph = chain((0.9, 0.2), (0.9, 0.6))
        ours: Any = evaluator_for(Judging()).evaluate_graphs([graph])
        assert rollouts_json([graph])["summary"] == ours["summary"]
        assert ours["summary"]["pct_rollouts_with_adversarial_toxicity"] is None

    def test_a_threshold(self) -> None:
        key = "pct_rollouts_with_target_toxicity/attack_success_rate"
        for threshold, share in ((0.2, 1.0), (0.21, 0.0)):
            told = rollouts_json([chain((0.1, 0.2))], scorer=Reading(), threshold=threshold)
            assert told["summary"][key] == share
