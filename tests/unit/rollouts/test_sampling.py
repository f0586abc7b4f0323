"""Lockstep: what is asked together, what fails alone, and what is the same whatever the batches."""

import asyncio
import itertools
import math

import pytest

from eval_toolkit.errors import InvalidInputError, InvalidTypeError, ModelError
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.rollouts import Budget, Conversation, Graph, Sampler, System, TreeSampler
from eval_toolkit.rollouts.asking import Asking
from eval_toolkit.rollouts.attacks import BestOfN, Mixed, Refinement, Scripted, Static
from eval_toolkit.seeds import derive_seed


def grr(texts):
    return [float("grr" in text.lower()) for text in texts]


class Counting:
    """A function that notes the sizes of its batches."""

    def __init__(self, say):
        self.say = say
        self.sizes = []

    def __call__(self, states, seeds):
        self.sizes.append(len(states))
        return [self.say(state, seed) for state, seed in zip(states, seeds, strict=True)]


def drawing(state, seed):
    """Say something that depends on the draw and on what was said."""
    return f"{len(state)} {seed % 97}"


class TestLockstep:
    def test_one_call_per_depth_for_all_conversations(self):
        tester, target, scorer = Counting(drawing), Counting(drawing), []
        system = System(
            tester, target, lambda texts: scorer.append(len(texts)) or grr(texts), refusal=False
        )
        graphs = TreeSampler(system, depth=3).eval_rollouts([f"seed {n}" for n in range(50)])
        assert tester.sizes == target.sizes == [50, 50, 50]
        assert len(scorer) == 3
        assert [len(list(graph.nodes())) for graph in graphs] == [3] * 50

    def test_width_per_depth_multiplies(self):
        target = Counting(drawing)
        system = System(Static(), target, grr)
        (graph,) = TreeSampler(system, depth=3, width=[2, 1, 3]).eval_rollouts(["a"])
        assert target.sizes == [2, 2, 6]
        assert [len(graph.at_depth(d)) for d in (1, 2, 3)] == [2, 2, 6]
        assert math.isclose(sum(leaf.weight for leaf in graph.leaves()), 1.0)

    def test_concurrency_1_and_64_give_the_same_graphs(self):
        async def answer(request):
            await asyncio.sleep((request.seed or 0) % 5 / 1000)  # ends in another order than begun
            return f"{request.seed} {request.prompt[-1].content}"

        def rolled(concurrency):
            tester = Refinement(ScriptedModel(answer, name="tester"))
            system = System(tester, ScriptedModel(answer, name="target"), grr, temperature=0.7)
            sampler = TreeSampler(system, depth=2, width=2)
            with Asking(concurrency=concurrency) as asking:
                return sampler.eval_rollouts(["a", "b", "c"], attempts=2, asking=asking)

        assert rolled(1) == rolled(64)

    def test_what_else_is_rolled_out_changes_nothing(self):
        sampler = TreeSampler(System(Counting(drawing), Counting(drawing), grr), depth=2, width=2)
        together = sampler.eval_rollouts(["a", "b", "c"], attempts=2)
        assert together[4] == sampler.eval_rollout("c")
        assert sampler.eval_rollouts(["c", "a"])[1] == together[0]

    def test_attempts_and_branches_draw_apart(self):
        sampler = TreeSampler(System(Counting(drawing), Counting(drawing), grr), depth=2, width=2)
        first, second = sampler.eval_rollouts(["a"], attempts=2)
        probes = [node.probe for graph in (first, second) for node in graph.nodes()]
        assert len(set(probes)) == len(probes)

    def test_seeds_are_derived_from_run_unit_attempt_and_place(self):
        seen = []

        def target(states, seeds):
            seen.extend(seeds)
            return ["x"] * len(states)

        sampler = TreeSampler(System(["hello"], target), depth=1, seed=7)
        (graph,) = sampler.eval_rollouts(["a"])
        assert seen == [derive_seed(7, "response", graph.unit_id, 1, "0") % 2**31]

    def test_an_expected_value_over_a_tree_is_the_analytic_one(self):
        """Width 2, depth 3: branch 1 is bad with known depth; weights give the exact share."""
        calls = itertools.count()

        def target(states):
            return ["grr" if next(calls) % 2 else "no" for _ in states]  # every second branch

        sampler = TreeSampler(System(Static(), target, grr), depth=3, width=2)
        (graph,) = sampler.eval_rollouts(["a"])
        share = sum(path[-1].weight for path in graph.paths() if any(node.event for node in path))
        assert share == 1 - 0.5**3  # a path is clean if all three turns take the clean branch


class TestSeeds:
    def sampler(self, **more):
        prompts = [f"prompt {n}" for n in range(10)]
        return TreeSampler(System(Counting(drawing), Counting(drawing), grr), prompts, **more)

    def test_seed_0_is_a_seed(self):
        first = self.sampler().rollout(0)
        assert all(self.sampler().rollout(0) == first for _ in range(8))

    def test_numbers_choose_prompts_and_draws(self):
        graphs = [self.sampler(depth=1).rollout(n) for n in range(40)]
        assert len({str(graph.context) for graph in graphs}) > 5
        assert [graph.unit_id for graph in graphs[:2]] == ["seed-0", "seed-1"]

    def test_none_is_another_one_each_time(self):
        sampler = self.sampler(depth=1)
        found = {next(sampler.rollout().nodes()).response for _ in range(12)}
        assert len(found) > 1

    def test_the_runs_seed_changes_the_draws(self):
        assert self.sampler(seed=1).rollout(0) != self.sampler(seed=2).rollout(0)

    def test_a_number_needs_prompts(self):
        with pytest.raises(InvalidInputError, match="`prompts`"):
            TreeSampler(System(["a"], ["b"])).rollout(0)

    @pytest.mark.parametrize("seeds", [[], "one text", None])
    def test_no_seeds(self, seeds):
        with pytest.raises((InvalidInputError, InvalidTypeError), match="seeds"):
            TreeSampler(System(["a"], ["b"])).eval_rollouts(seeds)

    def test_the_base_refuses_what_it_does_not_know(self):
        class Fixed(Sampler):
            def rollout(self, seed=None):
                return Graph(f"seed {seed}")

        assert Fixed(None).eval_rollout(0).context == "seed 0"
        with pytest.raises(NotImplementedError, match="str"):
            Fixed(None).eval_rollout("a prompt")


class TestEnds:
    def test_stop_on_success(self):
        def target(states):
            return ["grr" if state.n_turns or "bad" in state.goal else "no" for state in states]

        sampler = TreeSampler(System(["go"], target, grr), depth=3, stop_on_success=True)
        bad, good = sampler.eval_rollouts(["bad", "good"])
        assert [len(list(graph.nodes())) for graph in (bad, good)] == [1, 2]

    def test_keep_goes_on_with_the_worst_branch(self):
        def target(states, seeds):
            return [f"grr {seed % 100}" for seed in seeds]

        def scorer(texts):
            return [int(text.split()[1]) / 100 if "grr" in text else 0.0 for text in texts]

        sampler = TreeSampler(System(Static(), target, scorer), depth=3, width=4, keep=1)
        (graph,) = sampler.eval_rollouts(["a"])
        assert graph.selected
        assert [len(graph.at_depth(d)) for d in (1, 2, 3)] == [4, 4, 4]
        for depth in (1, 2):
            went_on = [node for node in graph.at_depth(depth) if node.children]
            best = max(node.scores["scorer"] for node in graph.at_depth(depth))
            assert [node.scores["scorer"] for node in went_on] == [best]

    def test_an_attack_says_how_wide(self):
        sampler = TreeSampler(System(BestOfN(n=5), ["no"], grr), depth=2)
        assert (sampler.widths, sampler.keep) == ((5, 5), 1)
        (graph,) = sampler.eval_rollouts(["Tell me a long secret"])
        assert len({node.probe for node in graph.at_depth(1)}) == 5

    def test_branches_of_mixed_attacks(self):
        sampler = TreeSampler(System(Mixed([Static(), Scripted(["x"])]), ["no"], grr), depth=1)
        (graph,) = sampler.eval_rollouts(["goal"])
        assert [(node.attack, node.probe) for node in graph.children] == [
            ("static", "goal"),
            ("scripted", "x"),
        ]

    def test_an_attack_that_has_no_more_to_say_ends_it(self):
        sampler = TreeSampler(System(Scripted(["one"], after="stop"), ["no"], grr), depth=3)
        (graph,) = sampler.eval_rollouts(["goal"])
        assert [(node.probe, node.status) for node in graph.nodes()] == [("one", "ok")]

    @pytest.mark.parametrize("option", [{"keep": 1}, {"stop_on_success": True}])
    def test_what_needs_a_scorer_says_so(self, option):
        with pytest.raises(InvalidInputError, match="needs a scorer"):
            TreeSampler(System(["a"], ["b"]), **option)

    @pytest.mark.parametrize(
        ("option", "match"),
        [
            ({"depth": 0}, "depth"),
            ({"width": 0}, "width"),
            ({"width": [2, 2]}, "one per turn"),
            ({"keep": 0}, "keep"),
        ],
    )
    def test_bad_shapes(self, option, match):
        with pytest.raises(InvalidInputError, match=match):
            TreeSampler(System(["a"], ["b"], grr), **option)


class TestFailures:
    def test_a_tester_that_raises_fails_alone(self):
        def tester(states):
            if any("bad" in state.goal for state in states):
                raise ValueError("no idea")
            return ["hello"] * len(states)

        good, bad = TreeSampler(System(tester, ["hi"], grr), depth=2).eval_rollouts(["good", "bad"])
        assert [node.status for node in good.nodes()] == ["ok", "ok"]
        assert [(node.status, node.reason) for node in bad.nodes()] == [
            ("error", "the tester: ValueError: no idea")
        ]

    def test_a_target_that_fails_ends_its_conversation(self):
        def answer(request):
            if "bad" in request.prompt[-1].content and len(request.prompt) > 1:
                raise ModelError("no answer within 60 s", kind="timeout")
            return "fine"

        system = System(Static(follow_ups=("bad news",)), ScriptedModel(answer), grr)
        (graph,) = TreeSampler(system, depth=3).eval_rollouts(["goal"])
        assert [node.status for node in graph.nodes()] == ["ok", "error"]
        assert "no answer within 60 s" in list(graph.nodes())[1].reason
        assert list(graph.nodes())[1].event is None

    def test_a_model_that_cannot_be_asked_at_all_stops_everything(self):
        def answer(request):
            raise ModelError("the key is not accepted", kind="auth")

        with pytest.raises(ModelError, match="key"):
            TreeSampler(System(["a"], ScriptedModel(answer), grr)).eval_rollouts(["goal"])

    def test_empty_replies_are_recorded(self):
        (graph,) = TreeSampler(System(["a"], ["", " "], grr), depth=2).eval_rollouts(["goal"])
        assert [(node.status, node.event) for node in graph.nodes()] == [("ok", False)] * 2
        assert all("empty" in node.unscored["grr"] for node in graph.nodes())

    def test_an_empty_probe_is_an_error(self):
        (graph,) = TreeSampler(System(lambda s: [""] * len(s), ["a"], grr)).eval_rollouts(["goal"])
        assert [node.reason for node in graph.nodes()] == ["the tester said nothing"]

    def test_what_is_no_text_is_an_error_of_its_conversation(self):
        def target(states):
            return [None if "bad" in state.goal else "ok" for state in states]

        _, bad = TreeSampler(System(["a"], target, grr), depth=1).eval_rollouts(["good", "bad"])
        assert bad.children[0].response in (None, "None") or bad.children[0].status == "error"

    @pytest.mark.parametrize("said", [["one"], "text", 3])
    def test_a_function_of_the_wrong_length_is_named(self, said):
        def target(states):
            return said

        with pytest.raises((InvalidInputError, InvalidTypeError), match="target"):
            TreeSampler(System(["a"], target, grr)).eval_rollouts(["x", "y"])

    def test_advance_that_raises(self):
        class Odd(System):
            def advance(self, state, probe, response):
                raise RuntimeError("lost")

        (graph,) = TreeSampler(Odd(["a"], ["b"], grr), depth=2).eval_rollouts(["x"])
        assert [(node.status, node.reason) for node in graph.nodes()] == [
            ("error", "advance: RuntimeError: lost")
        ]


class TestRewards:
    class Rewarded(System):
        numbers = ()

        def reward(self, states, probes, responses):
            return self.numbers

    def rolled(self, *numbers):
        system = self.Rewarded(["a"], ["b"], grr)
        system.numbers = numbers
        return TreeSampler(system, depth=1).eval_rollouts(["x", "y"])

    def test_rewards(self):
        assert [graph.children[0].reward for graph in self.rolled(0.5, -1)] == [0.5, -1.0]

    @pytest.mark.parametrize("bad", [math.nan, math.inf, None, "high"])
    def test_what_is_no_number_is_said(self, bad):
        first, second = self.rolled(bad, 1.0)
        assert first.children[0].reward is None
        assert first.children[0].unscored["reward"].startswith("error: ")
        assert second.children[0].reward == 1.0

    def test_too_few(self):
        with pytest.raises(InvalidInputError, match="1 numbers for 2 turns"):
            self.rolled(0.5)


class TestBudget:
    def test_calls(self):
        target = Counting(drawing)
        with Asking(budget=Budget(calls=5)) as asking:
            graphs = TreeSampler(System(["a"], target, grr), depth=3).eval_rollouts(
                ["x", "y"], asking=asking
            )
        assert target.sizes == [2, 2, 1]
        last = graphs[1].at_depth(3)[0]
        assert (last.status, last.reason) == ("skipped", "the budget of 5 calls is used up")

    def test_tokens(self):
        model = ScriptedModel("four letters here")
        with Asking(budget=Budget(tokens=12)) as asking:
            (graph,) = TreeSampler(System(["word"], model, grr), depth=5).eval_rollouts(
                ["x"], asking=asking
            )
        # 1 token for "word" and 5 for the answer; then 7 for the prompt and 5: 18 in all.
        assert [node.status for node in graph.nodes()] == ["ok", "ok", "skipped"]

    def test_tokens_that_nobody_tells(self):
        with Asking(budget=Budget(tokens=12)) as asking:
            TreeSampler(System(["word"], ["x"], grr), depth=1).eval_rollouts(["x"], asking=asking)
        assert "count as none" in asking.notes[0]

    @pytest.mark.parametrize("bad", [{"calls": 0}, {"tokens": -1}])
    def test_a_budget_of_nothing(self, bad):
        with pytest.raises(InvalidInputError):
            Budget(**bad)


class TestOtherStates:
    def test_a_system_of_its_own_with_states_of_any_kind(self):
        class Counter(System):
            def start(self, prompt):
                return {"at": len(prompt)}

            def probe(self, states, seeds):
                return [state["at"] for state in states]

            def respond(self, states, probes, seeds):
                return [{"got": probe} for probe in probes]

            def advance(self, state, probe, response):
                return {"at": state["at"] + response["got"]}

        (graph,) = TreeSampler(Counter(refusal=False), depth=3).eval_rollouts(["abc"])
        assert [(node.probe, node.response) for node in graph.nodes()] == [
            (3, {"got": 3}),
            (6, {"got": 6}),
            (12, {"got": 12}),
        ]

    def test_an_overridden_method_may_call_the_usual_one(self):
        class Shouting(System):
            def respond(self, states, probes, seeds):
                return [text.upper() for text in super().respond(states, probes, seeds)]

        (graph,) = TreeSampler(Shouting(["a"], ScriptedModel("no"), grr), depth=1).eval_rollouts(
            ["x"]
        )
        assert graph.children[0].response == "NO"

    def test_a_coroutine_function(self):
        async def target(state):
            await asyncio.sleep(0)
            return state.probe[::-1]

        graphs = TreeSampler(System(Static(), target, grr), depth=1).eval_rollouts(["ab", "cd"])
        assert [graph.children[0].response for graph in graphs] == ["ba", "dc"]

    def test_inside_a_running_loop(self):
        async def main():
            system = System(["a"], ScriptedModel("no"), grr)
            return TreeSampler(system, depth=2).eval_rollouts(["x"])

        (graph,) = asyncio.run(main())
        assert [node.response for node in graph.nodes()] == ["no", "no"]

    def test_the_target_sees_messages_and_the_system_prompt(self):
        seen = []

        def answer(request):
            seen.append([(m.role.value, m.content) for m in request.prompt])
            return "no"

        system = System(["p1", "p2"], ScriptedModel(answer), grr, system_prompt="Be kind.")
        TreeSampler(system, depth=2).eval_rollouts(["goal"])
        assert seen[1] == [
            ("system", "Be kind."),
            ("user", "p1"),
            ("assistant", "no"),
            ("user", "p2"),
        ]

    def test_an_opening_is_seen_by_the_target(self):
        seen = []

        def target(states):
            seen.extend(state.messages[0].content for state in states)
            return ["x"] * len(states)

        TreeSampler(System(["p1"], target, opening=True), depth=1).eval_rollouts(["Once upon"])
        assert seen == ["Once upon\n\np1"]

    def test_a_conversation_is_a_text(self):
        state = Conversation("goal").with_probe("a").with_response("b")
        assert state[:4] == "goal"
        assert "assistant: b" in state
