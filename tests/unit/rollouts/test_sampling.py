"""Lockstep: what is asked together, what fails alone, and what is the same whatever the batches."""

import asyncio
import itertools
import math

import numpy as np
import pytest

from eval_toolkit.errors import InvalidInputError, InvalidTypeError, ModelError
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.rollouts import (
    Budget,
    Conversation,
    Graph,
    Sampler,
    SeedPrompt,
    System,
    TreeSampler,
    measure_rollouts,
    read_turns,
    run_rollouts,
    seed_prompts,
    turns_table,
)
from eval_toolkit.rollouts.attacks import (
    BestOfN,
    Mixed,
    Refinement,
    Scripted,
    Static,
    StopAttack,
)
from eval_toolkit.rollouts.scorers import KeywordScorer
from eval_toolkit.runs import AskSpec, Context
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
            with Context(AskSpec(concurrency=concurrency)) as asking:
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

    def test_numbers_of_numpy_and_numbers_that_repeat(self):
        sampler = self.sampler(depth=1)
        assert sampler.eval_rollout(np.int64(3)) == sampler.rollout(3)
        graphs = sampler.eval_rollouts([0, 0, np.int32(1)])
        assert [graph.unit_id for graph in graphs] == ["seed-0", "seed-0~2", "seed-1"]
        assert graphs[0].context == graphs[1].context

    def test_numbers_keep_what_is_known_of_their_prompts(self):
        prompts = [SeedPrompt("hello", topic="t", category="c")]
        sampler = TreeSampler(System(["a"], ["b"], grr), prompts)
        ((prompt, _),) = sampler._chosen([5])
        assert (prompt.id, prompt.topic, prompt.category) == ("seed-5", "t", "c")

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

    def test_keep_among_equals(self):
        """Branches that came out equal are still several: 3 a turn, not 3 to the power of the turn."""
        calls = []

        def target(states):
            calls.append(len(states))
            return ["No."] * len(states)

        sampler = TreeSampler(System(["a b"], target, grr), depth=4, width=3, keep=1)
        (graph,) = sampler.eval_rollouts(["x"])
        assert calls == [3, 3, 3, 3]
        assert sum(calls) == len(list(graph.nodes())) == sampler.n_requests()

    @pytest.mark.parametrize(
        ("shape", "selected"),
        [
            ({"depth": 2, "width": 2, "keep": 1}, True),
            ({"depth": 1, "width": 2, "keep": 1}, False),  # nothing is chosen after the last turn
            ({"depth": 2, "width": [1, 2], "keep": 1}, False),
            ({"depth": 2, "width": 2, "keep": 2}, False),
            ({"depth": 3, "width": 2, "keep": 2}, True),
            ({"depth": 3, "width": 2}, False),
        ],
    )
    @pytest.mark.parametrize("stop", [False, True])
    def test_whether_branches_are_chosen_does_not_depend_on_what_they_came_to(
        self, shape, selected, stop
    ):
        def target(states, seeds):
            return ["grr" if seed % 2 else "no" for seed in seeds]

        sampler = TreeSampler(System(["a"], target, grr), stop_on_success=stop, **shape)
        graphs = sampler.eval_rollouts([f"seed {n}" for n in range(20)])
        assert {graph.selected for graph in graphs} == {selected}
        assert sampler.chooses is selected

    @pytest.mark.parametrize("shape", [{"stop_on_success": True}, {"width": 4, "keep": 1}])
    def test_a_scorer_of_whole_conversations_cannot_choose(self, shape):
        last = KeywordScorer(["bad"], mode="final")
        with pytest.raises(InvalidInputError, match="scores of every turn"):
            TreeSampler(System(["a"], ["bad"], last), depth=3, **shape)

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

    class Uneven:
        """Stops after the first turn on the first branch; the second goes on."""

        name, version = "uneven", "1"

        def __init__(self, branch=0, stops=(0,)):
            self.branch, self.stops = branch, stops

        def for_branch(self, branch):
            return type(self)(branch, self.stops)

        def ask(self, conversation, seed):
            if conversation.n_turns and self.branch in self.stops:
                raise StopAttack("enough")
            return f"probe {self.branch}"

    def test_a_branch_that_ended_keeps_its_place_and_its_weight(self):
        def target(states):
            return ["grr" if state.n_turns else "no" for state in states]

        sampler = TreeSampler(System(self.Uneven(), target, grr), depth=2, width=[1, 2])
        (graph,) = sampler.eval_rollouts(["x"])
        assert [(n.id, n.status, n.weight, n.probe) for n in graph.nodes()] == [
            ("0", "ok", 1.0, "probe 0"),
            ("0.0", "ended", 0.5, ""),
            ("0.1", "ok", 0.5, "probe 1"),
        ]
        (seed,) = seed_prompts(["x"])
        records = measure_rollouts([graph], [seed], sampler.system.scorers)
        # Half of the continuations end without a failure, after one turn; the others take two.
        assert records.columns["attack_success"].tolist() == [0.5]
        assert records.columns["failed_by_turn_2"].tolist() == [0.5]
        assert records.columns["n_turns"].tolist() == [1.5]
        assert read_turns(turns_table([graph])) == [graph]
        assert [m.content for m in graph.conversation(graph.children[0].children[0])] == [
            "probe 0",
            "no",
        ]

    def test_where_all_branches_end_nothing_is_added(self):
        system = System(self.Uneven(stops=(0, 1)), ["no"], grr)
        (graph,) = TreeSampler(system, depth=2, width=[1, 2]).eval_rollouts(["x"])
        assert [(node.id, node.status) for node in graph.nodes()] == [("0", "ok")]

    def test_a_function_may_end_it_too(self):
        def tester(states):
            if any(state.n_turns == 1 and "short" in state.goal for state in states):
                raise StopAttack("enough")
            return ["go"] * len(states)

        graphs = TreeSampler(System(tester, ["no"], grr), depth=3).eval_rollouts(["short", "long"])
        assert [[node.status for node in g.nodes()] for g in graphs] == [["ok"], ["ok"] * 3]

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
        assert [node.reason for node in graph.nodes()] == ["the tester returned an empty probe"]

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
        assert [(node.status, node.reason, node.event) for node in graph.nodes()] == [
            ("ok", "", False),  # it took place; the next one cannot
            ("error", "advance: RuntimeError: lost", None),
        ]
        (graph,) = TreeSampler(Odd(["a"], ["b"], grr), depth=1).eval_rollouts(["x"])
        assert [node.status for node in graph.nodes()] == ["ok"]  # nobody needs the state

    def test_start_that_raises_breaks_its_rollout_alone(self):
        class Odd(System):
            def start(self, prompt):
                if prompt == "bad":
                    raise ValueError("no such place")
                return super().start(prompt)

        bad, good = TreeSampler(Odd(["a"], ["b"], grr), depth=2).eval_rollouts(["bad", "good"])
        assert [(node.status, node.reason) for node in bad.nodes()] == [
            ("error", "start: ValueError: no such place")
        ]
        assert [node.status for node in good.nodes()] == ["ok", "ok"]

    def test_an_attack_that_cannot_make_a_branch_breaks_it_alone(self):
        class Odd:
            name, version, branches = "odd", "1", 2

            def for_branch(self, branch):
                if branch:
                    raise RuntimeError("there is no second one")
                return Static()

            def ask(self, conversation, seed):
                raise NotImplementedError

        (graph,) = TreeSampler(System(Odd(), ["b"], grr), depth=1).eval_rollouts(["x"])
        assert [(node.status, node.reason) for node in graph.nodes()] == [
            ("ok", ""),
            ("error", "the tester: RuntimeError: there is no second one"),
        ]

    @pytest.mark.parametrize("said", [None, ""])
    def test_a_tester_that_says_nothing_is_an_error(self, said):
        heard = []
        system = System(lambda states: [said] * len(states), heard.append, grr)
        (graph,) = TreeSampler(system, depth=1).eval_rollouts(["x"])
        assert (graph.children[0].status, heard) == ("error", [])

    def test_a_reply_without_a_probe_is_an_error(self):
        class Reading(Refinement):
            def read(self, reply, conversation):
                return None

        system = System(Reading(ScriptedModel("hm")), ["b"], grr)
        (graph,) = TreeSampler(system, depth=1).eval_rollouts(["x"])
        assert graph.children[0].status == "error"
        assert "returned None, not a string" in graph.children[0].reason

    def test_secrets_in_what_is_raised_do_not_get_into_the_rollout(self):
        key = "sk-abcdefghijklmnopqrstuvwx123456"

        def leaking(*_):
            raise ValueError(f"the key {key}\nwas refused")

        class Leaking(System):
            advance = reward = leaking

        class Broken:
            name, version, ask = "broken", "1", staticmethod(leaking)

        systems = [Leaking(["a"], ["b"], grr), System(Broken(), ["b"], grr)]
        for system in systems:
            (graph,) = TreeSampler(system, depth=2).eval_rollouts(["x"])
            told = repr([(node.reason, node.unscored) for node in graph.nodes()])
            assert "was refused" in told
            assert key not in told


class TestGivingUp:
    """Functions as models: what no call would survive ends everything, and so does a row of failures."""

    @staticmethod
    def rolled(target, n=300, **more):
        with Context(AskSpec(**more)) as asking:
            sampler = TreeSampler(System(["a"], target, grr), depth=1)
            return sampler.eval_rollouts([f"seed {k}" for k in range(n)], asking=asking)

    def test_a_fatal_error_is_raised_at_once(self):
        calls = []

        def target(states):
            calls.append(len(states))
            raise ModelError("the key is not accepted", kind="auth")

        with pytest.raises(ModelError, match="cannot be called: the key is not accepted"):
            self.rolled(target)
        assert calls == [300]

    def test_failures_in_a_row(self):
        calls = []

        def target(states):
            calls.append(len(states))
            raise ModelError("no answer within 60 s", kind="timeout")

        with pytest.raises(ModelError, match="5 calls failed in a row"):
            self.rolled(target, give_up_after=5)
        assert calls == [300, *[1] * 5]

    def test_of_a_coroutine_function(self):
        calls = []

        async def target(state):
            calls.append(state.goal)
            await asyncio.sleep(0)
            raise ModelError("the key is not accepted", kind="auth")

        with pytest.raises(ModelError, match="cannot be called"):
            self.rolled(target, concurrency=4)
        assert len(calls) <= 8

    def test_prompts_that_are_refused_do_not_count(self):
        async def target(state):
            raise ModelError("it is against the rules", kind="refused")

        graphs = self.rolled(target, n=20, give_up_after=5)
        assert {graph.children[0].reason for graph in graphs} == {
            "the target: it is against the rules"
        }

    @pytest.mark.parametrize("bad", [0, True, 1.5])
    def test_a_row_of_nothing(self, bad):
        with pytest.raises((InvalidInputError, InvalidTypeError), match="give_up_after"):
            AskSpec(give_up_after=bad)


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

    def test_one_that_raises_is_of_its_turn(self):
        class Odd(System):
            def reward(self, states, probes, responses):
                if any("bad" in state.goal for state in states):
                    raise ValueError("boom")
                return [1.0] * len(states)

        good, bad = TreeSampler(Odd(["a"], ["b"], grr), depth=1).eval_rollouts(["good", "bad"])
        assert good.children[0].reward == 1.0
        assert bad.children[0].reward is None
        assert bad.children[0].unscored["reward"] == "error: ValueError: boom"


class TestScores:
    def test_a_score_that_failed_is_not_tried_again_for_last_turns_alone(self):
        asked = []

        def scorer(texts):
            asked.append(list(texts))
            if "T2" in texts:
                raise ValueError("no")
            return [0.0] * len(texts)

        system = System(["a"], ["T1", "T2"], scorer, refusal=False)
        (graph,) = TreeSampler(system, depth=2).eval_rollouts(["x"])
        assert asked == [["T1", "a"], ["T2"]]  # "a" is known
        assert [node.event for node in graph.nodes()] == [False, None]

    def test_one_that_looks_at_the_end_is_asked_there(self):
        scorers = [KeywordScorer(["bad"], mode="final"), KeywordScorer(["bad"], name="each")]
        system = System(["a"], ["bad", "good"], scorers, refusal=False)
        (graph,) = TreeSampler(system, depth=2).eval_rollouts(["x"])
        assert [sorted(n.scores) for n in graph.nodes()] == [
            ["each", "each:probe"],
            ["each", "each:probe", "keywords"],
        ]
        assert [node.event for node in graph.nodes()] == [None, True]


class TestBudget:
    def test_calls(self):
        target = Counting(drawing)
        with Context(AskSpec(budget=Budget(calls=5))) as asking:
            graphs = TreeSampler(System(["a"], target, grr), depth=3).eval_rollouts(
                ["x", "y"], asking=asking
            )
        assert target.sizes == [2, 2, 1]
        last = graphs[1].at_depth(3)[0]
        assert (last.status, last.reason) == ("skipped", "the budget of 5 calls is used up")

    def test_tokens(self):
        model = ScriptedModel("four letters here")
        with Context(AskSpec(budget=Budget(tokens=12))) as asking:
            (graph,) = TreeSampler(System(["word"], model, grr), depth=5).eval_rollouts(
                ["x"], asking=asking
            )
        # 1 token for "word" and 5 for the answer; then 7 for the prompt and 5: 18 in all.
        assert [node.status for node in graph.nodes()] == ["ok", "ok", "skipped"]

    def test_tokens_are_counted_while_a_turn_is_taken(self):
        """A prompt of 1 token and an answer of 63: one request to learn that, then one more of 64."""
        asked = []

        def answer(request):
            asked.append(request)
            return "word " * 50

        def rolled(concurrency):
            asked.clear()
            system = System(["a"], ScriptedModel(answer), grr)
            with Context(AskSpec(budget=Budget(tokens=100), concurrency=concurrency)) as asking:
                graphs = TreeSampler(system, depth=3).eval_rollouts(
                    [f"seed {n}" for n in range(500)], asking=asking
                )
            return len(asked), [node.status for graph in graphs for node in graph.nodes()]

        assert rolled(1) == rolled(64)
        n, statuses = rolled(16)
        assert n == 2
        assert (statuses.count("ok"), statuses.count("skipped")) == (2, 500)

    def test_a_budget_of_tokens_does_not_ask_one_by_one(self):
        sizes = []

        class Told(ScriptedModel):
            async def generate(self, request):
                sizes.append(request)
                return await super().generate(request)

        with Context(AskSpec(budget=Budget(tokens=10_000))) as asking:
            sampler = TreeSampler(System(["a"], Told("no"), grr), depth=1)
            sampler.eval_rollouts([f"seed {n}" for n in range(300)], asking=asking)
        assert len(sizes) == 300
        assert asking.n_calls == 1 + math.ceil(299 / 64)

    def test_tokens_that_nobody_tells(self):
        with Context(AskSpec(budget=Budget(tokens=12))) as asking:
            TreeSampler(System(["word"], ["x"], grr), depth=1).eval_rollouts(["x"], asking=asking)
        assert "count as 0" in asking.notes[0]

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

    def test_a_function_that_returns_what_is_to_be_awaited(self):
        async def answers(states):
            return [state.probe[::-1] for state in states]

        system = System(Static(), lambda states: answers(states), grr)
        (graph,) = TreeSampler(system, depth=1).eval_rollouts(["ab"])
        assert graph.children[0].response == "ba"

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


@pytest.mark.parametrize(("bad", "method"), [(0, "start"), (1, "advance")])
def test_a_state_that_cannot_be_stored_is_said_with_what_returned_it(tmp_path, bad, method):
    class Generic(System):
        def start(self, prompt):
            return object() if bad == 0 else [prompt]

        def probe(self, states, seeds):
            return ["p"] * len(states)

        def respond(self, states, probes, seeds):
            return ["r"] * len(states)

        def advance(self, state, probe, response):
            return object()

    seeds = [SeedPrompt("Hello", id="u7")]
    with pytest.raises(InvalidTypeError, match=f"unit 'u7': the state that `{method}` returned is"):
        run_rollouts(Generic(scorer=grr), seeds, tmp_path / "r", depth=2)
