"""Perplexity per token: does not vanish with length, and says where there is none."""

import math

import pytest

from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.models.responses import RawLoglikelihood
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.rollouts.graphs import Graph, Node
from eval_toolkit.rollouts.measures.fluency import perplexity, probe_perplexity


def graph(*probes):
    return Graph("", [Node("", probe, "x") for probe in probes], unit_id="s")


def test_long_probes_do_not_underflow():
    # 400 tokens of probability 1/50: the probability of the whole is below the smallest float
    loglikelihood = 400 * math.log(1 / 50)
    assert math.exp(loglikelihood) == 0.0
    assert perplexity(loglikelihood, 400) == pytest.approx(50.0)
    assert perplexity(0.0, 3) == 1.0
    assert perplexity(-math.inf, 3) == math.inf
    assert perplexity(-1e9, 1) == math.inf


def test_a_text_without_tokens_has_none():
    with pytest.raises(InvalidInputError, match="n_tokens"):
        perplexity(-1.0, 0)


def test_each_probe_has_its_own_and_equal_ones_are_asked_once():
    model = ScriptedModel(lambda request: [-1.5 * len(request.continuations[0])])
    told = probe_perplexity([graph("abcd", "abcdefgh", "abcd"), graph("abcd")], model)
    assert model.n_calls == 2
    # the scripted model counts four characters as a token: −6 per token
    assert [one.perplexity for one in told] == [pytest.approx(math.exp(6.0))] * 4
    assert [(one.node_id, one.n_tokens) for one in told] == [
        *(("0", 1), ("1", 2), ("2", 1), ("0", 1))
    ]
    assert told[0].to_dict()["unit_id"] == "s"


def test_what_has_none_says_why():
    def answer(request):
        text = request.continuations[0]
        if text == "untold":
            return RawLoglikelihood([-1.0], [text])
        if text == "broken":
            raise ValueError("no")
        return [-math.inf]

    told = probe_perplexity([graph("untold", "broken", "never", "")], ScriptedModel(answer))
    assert [(one.status, one.perplexity) for one in told] == [
        *(("skipped", None), ("error", None), ("error", None), ("skipped", None))
    ]
    assert told[2].reason == "the model assigns probability 0 to the probe"
    assert told[3].reason == "there is no probe"
    assert probe_perplexity([], ScriptedModel("x")) == []
    with pytest.raises(InvalidTypeError, match="loglikelihood"):
        probe_perplexity([graph("a")], "model")
