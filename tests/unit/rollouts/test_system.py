"""Who takes part: every kind of tester, target and scorer, and what is refused."""

import pytest
from tests.support.each import each

from eval_toolkit.errors import InvalidInputError, InvalidTypeError, ModelError
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.rollouts import Conversation, SeedPrompt, System, run_rollouts
from eval_toolkit.rollouts.attacks import Refinement, Scripted, Static
from eval_toolkit.rollouts.participant_requests import _with_seeds
from eval_toolkit.rollouts.scorers import CachedScorer, KeywordScorer, RefusalScorer


def zero(texts):
    return [0.0] * len(texts)


async def later(state):
    return f"later {len(state)}"


class TestArguments:
    @pytest.mark.parametrize(
        "tester",
        [
            Static(),
            ["one", "two"],
            ScriptedModel("<probe>hello</probe>"),
            lambda states: ["hello"] * len(states),
            lambda states, seeds: [f"hello {seed}" for seed in seeds],
            later,
        ],
    )
    @pytest.mark.parametrize(
        "target", [ScriptedModel("hi"), ["hi"], lambda states: ["hi"] * len(states), later]
    )
    def test_every_kind_of_tester_and_target(self, tester, target):
        system = System(tester, target, zero)
        state = system.start("goal")
        (probe,) = system.probe([state], [3])
        (response,) = system.respond([state], [probe], [4])
        assert probe
        assert response
        assert system.advance(state, probe, response).responses == (response,)
        assert system.describe()["tester"]["kind"]

    def test_what_they_become(self):
        assert isinstance(System(["a"], ["b"]).tester, Scripted)
        assert isinstance(System(ScriptedModel("a"), ["b"]).tester, Refinement)

    def test_a_model_is_told_which_direction_is_closer(self):
        reversed_scorer = KeywordScorer(["please"], higher_is_worse=False)
        assert System(ScriptedModel("a"), ["b"], reversed_scorer).tester.higher_is_closer is False
        assert System(ScriptedModel("a"), ["b"], zero).tester.higher_is_closer is True

    def test_names_they_have_elsewhere(self):
        system = System(attacker=["a"], defender=["b"], moderator=zero)
        assert (system.tester_name, system.target_name) == ("scripted", "scripted")
        assert system.scorer.score(["x"]) == [0.0]
        assert System(auditor=["a"], target=["b"]).tester is not None

    @each(
        ("given", "match"),
        [
            ({"tester": "text", "target": ["b"]}, "tester"),
            ({"tester": ["a"], "target": 3}, "target"),
            ({"tester": ["a"]}, "`target` is missing"),
            ({"target": ["a"]}, "`tester` is missing"),
            ({"tester": ["a"], "attacker": ["b"], "target": ["c"]}, "is an alias of"),
            ({"tester": ["a"], "target": ["c"], "colour": 1}, "colour"),
            ({"tester": ["a"], "target": []}, "empty list"),
            ({"tester": ["a"], "target": [1]}, r"target\[0\]"),
            ({"tester": ["a"], "target": ["b"], "scorer": 3}, "scorer"),
            ({"tester": ["a"], "target": ["b"], "temperature": -1}, "temperature"),
            ({"tester": ["a"], "target": ["b"], "formatter": "nonsense"}, "formatter"),
            ({"tester": ["a"], "target": ["b"], "scorer": [zero, zero]}, "zero"),
        ],
    )
    def test_what_is_refused_is_named(self, given, match):
        with pytest.raises((InvalidInputError, InvalidTypeError), match=match):
            System(**given)

    def test_an_object_that_lacks_a_member_is_told_which(self):
        class Half:
            name = "half"

            def describe(self):
                return {}

            async def generate(self, request):
                return None

        with pytest.raises(InvalidTypeError, match="a model needs loglikelihood"):
            System(["a"], Half())
        with pytest.raises(InvalidTypeError, match="load_attack"):
            System("static", ["b"])
        with pytest.raises(InvalidTypeError, match="load_model"):
            System(["a"], "openai:some-model")

    @pytest.mark.parametrize(
        ("function", "takes"),
        [
            (lambda states: [], False),
            (lambda states, seeds: [], True),
            (lambda states, numbers: [], True),
            (lambda states, temperature=0.7: [], False),
            (lambda states, seed=None: [], True),
            (lambda states, *rest: [], False),
        ],
    )
    def test_seeds_are_given_to_who_has_a_place_for_them(self, function, takes):
        _, arguments = _with_seeds(function, [["state"]], [1])
        assert arguments == ([["state"], [1]] if takes else [["state"]])

    def test_a_system_of_its_own_is_what_its_attributes_are(self):
        class Mine(System):
            def __init__(self, model, **more):
                self.model = model
                super().__init__(["a"], None, zero, **more)
                self.later = [ScriptedModel("x", name="critic")]

            def respond(self, states, probes, seeds):
                return [self.model] * len(states)

        first, same, other = (Mine(name).describe() for name in "AAB")
        assert first == same
        assert first["attributes"]["model"] != other["attributes"]["model"]
        assert first["attributes"]["later"][0]["name"] == "critic"
        assert not {"scorers", "scored", "decoding"} & set(first["attributes"])
        assert "attributes" not in System(["a"], ["b"]).describe()

    def test_scorers_remember_and_the_first_decides(self):
        calls = []

        def counting(texts):
            calls.append(list(texts))
            return [0.25] * len(texts)

        system = System(["a"], ["b"], [counting, KeywordScorer(["x"])])
        assert isinstance(system.scorer, CachedScorer)
        assert [scorer.name for scorer in system.scorers] == ["counting", "keywords", "refusal"]
        assert system.scorer.score(["t"])[0] + system.scorer.score(["t"])[0] == 0.5
        assert calls == [["t"]]

    def test_refusals_are_looked_for_unless_told_not_to(self):
        assert System(["a"], ["b"]).scorer is None
        assert [s.name for s in System(["a"], ["b"]).scorers] == ["refusal"]
        assert System(["a"], ["b"], refusal=False).scorers == ()

    def test_a_detector_of_its_own_fills_the_columns_of_refusals(self):
        class Curt:
            name, version, threshold, higher_is_worse = "curt", "2", 0.5, True

            def score(self, texts):
                return [float(len(text) < 4) for text in texts]

        system = System(["a"], ["No."], zero, refusal=Curt())
        found = {scorer.name: scorer.version for scorer in system.scorers}
        assert found == {"zero": "1", "refusal": "curt 2"}
        done = run_rollouts(system, [SeedPrompt("x", safe=True)], depth=1)
        assert done.card["refused_first"].value == done.card["over_refusal"].value == 1.0
        with pytest.raises(InvalidInputError, match="refusal"):
            System(["a"], ["b"], RefusalScorer(), refusal=Curt())


class TestAsking:
    def test_probe_respond_advance(self):
        system = System(["p1", "p2"], ScriptedModel(lambda r: f"re {r.prompt[-1].content}"), zero)
        states = [system.start("goal"), system.start("other")]
        probes = system.probe(states, [1, 2])
        responses = system.respond(states, probes, [3, 4])
        assert (probes, responses) == (["p1", "p1"], ["re p1", "re p1"])
        after = system.advance(states[0], probes[0], responses[0])
        assert system.probe([after], [5]) == ["p2"]

    def test_a_failure_is_raised(self):
        def broken(request):
            raise ModelError("no answer", kind="timeout")

        system = System(["a"], ScriptedModel(broken), zero)
        with pytest.raises(ModelError, match="no answer"):
            system.respond([system.start("goal")], ["a"], [1])

    def test_a_model_that_does_not_chat_gets_text(self):
        seen = []

        class Plain(ScriptedModel):
            speaks_chat = False

        def answer(request):
            seen.append(request.prompt)
            return "x"

        system = System(["a"], Plain(answer), zero, system_prompt="Be kind.")
        system.respond([system.start("goal")], ["Hello"], [1])
        assert isinstance(seen[0], str)
        assert "Be kind." in seen[0]
        assert "Hello" in seen[0]

    def test_a_template_of_its_own(self):
        seen = []

        def answer(request):
            seen.append(request.prompt)
            return "x"

        system = System(["a"], ScriptedModel(answer), zero, formatter="chatml")
        system.respond([system.start("goal")], ["Hello"], [1])
        assert seen == ["<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"]

    def test_decoding_reaches_the_target(self):
        seen = []

        def answer(request):
            seen.append(request)
            return "x"

        system = System(
            ["a"], ScriptedModel(answer), zero, temperature=0.7, top_p=0.9, max_tokens=5, stop=["."]
        )
        system.respond([system.start("goal")], ["Hello"], [11])
        request = seen[0]
        assert (request.temperature, request.top_p, request.max_tokens) == (0.7, 0.9, 5)
        assert (request.stop, request.seed) == ((".",), 11)

    def test_plain_texts_are_states_too(self):
        system = System(lambda states: ["?"] * len(states), ["b"], zero)
        assert system.probe(["a text"], [1]) == ["?"]
        assert system.advance("a", "b", "c") == "abc"
        assert isinstance(system.start("goal"), Conversation)
