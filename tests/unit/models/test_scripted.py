"""The scripted model says what it was told to, and refuses the rest by name."""

import asyncio

import pytest

from eval_toolkit.errors import InvalidInputError, InvalidTypeError, ModelError
from eval_toolkit.models.messages import Message
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest
from eval_toolkit.models.responses import RawCompletion, RawLoglikelihood
from eval_toolkit.models.runner import Job, run_jobs
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.protocols import Model

TALK = (
    Message("system", "Be short."),
    Message("user", "Capital of Italy?"),
    Message("assistant", "A:"),
)
CHOICES = LoglikelihoodRequest("Italy:", (" Rome", " Madrid", " Rome"))


def generate(model, prompt="Hello"):
    return asyncio.run(model.generate(GenerateRequest(prompt)))


def score(model, request=CHOICES):
    return asyncio.run(model.loglikelihood(request))


def test_a_text_is_the_answer_to_everything():
    model = ScriptedModel("Rome")
    assert isinstance(model, Model)
    answer = generate(model, TALK)
    assert answer.text == "Rome"
    assert (answer.prompt_tokens, answer.completion_tokens) == (3 + 5 + 1, 1)
    assert answer.usage.total_tokens == 10
    assert model.count_tokens("12345") == 2


def test_a_mapping_knows_texts_conversations_and_the_last_question():
    assert generate(ScriptedModel({"Hello": "Hi"})).text == "Hi"
    assert generate(ScriptedModel({TALK: "by all"}), TALK).text == "by all"
    assert generate(ScriptedModel({"Capital of Italy?": "Rome"}), TALK).text == "Rome"
    with pytest.raises(ModelError) as caught:
        generate(ScriptedModel({"a": "b"}, name="parrot"), TALK)
    assert (
        str(caught.value)
        == "parrot was queried with 'Capital of Italy?': there is no answer for this prompt; add it to `answers`"
    )
    assert not caught.value.fatal


def test_a_sequence_is_used_up_in_order():
    model = ScriptedModel(["one", ModelError("down", kind="server"), "three"])
    assert generate(model).text == "one"
    with pytest.raises(ModelError, match="down"):
        generate(model)
    assert generate(model).text == "three"
    with pytest.raises(ModelError, match="all 3 answers have been used"):
        generate(model)
    assert model.n_calls == 4


def test_a_callable_may_wait_and_may_fail():
    async def answer(request):
        await asyncio.sleep(0)
        if request.prompt == "bad":
            raise ModelError("no", kind="rate_limited")
        return RawCompletion(request.prompt, finish_reason="length")

    model = ScriptedModel(answer)
    assert generate(model).finish_reason == "length"
    with pytest.raises(ModelError, match="no"):
        generate(model, "bad")


def test_numbers_by_place_by_name_and_as_a_whole():
    assert score(ScriptedModel({"Italy:": [-1, -2, -3]})).loglikelihoods == [-1, -2, -3]
    answer = score(ScriptedModel(lambda request: {" Rome": -0.5, " Madrid": -2}))
    assert answer.loglikelihoods == [-0.5, -2.0, -0.5]
    assert answer.choices == CHOICES.continuations
    assert answer.n_tokens == (2, 2, 2)
    whole = RawLoglikelihood([0, 0, 0])
    assert score(ScriptedModel(lambda request: whole)) is whole


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (lambda request: "Rome", "'Rome' are not log-likelihoods"),
        (lambda request: [-1, -2], r"\[-1, -2\] are not log-likelihoods: .*there are 3 choices"),
        (lambda request: [0.5, -1, -1], r".*: loglikelihoods\[0\] is 0.5; it must be a log-prob"),
        (lambda request: [True, -1, -1], r".*: loglikelihoods\[0\] is True; it must be a number"),
        (lambda request: {" Rome": -1}, "the continuation ' Madrid' has no number"),
        (lambda request: 3, "3 are not log-likelihoods"),
    ],
)
def test_what_has_no_numbers_is_refused(answers, message):
    with pytest.raises(ModelError, match=f"scripted was queried with 'Italy:': {message}"):
        score(ScriptedModel(answers))


def test_one_text_for_everything_stops_a_run_of_log_likelihoods_at_once():
    model = ScriptedModel("Rome", name="parrot")
    jobs = [Job(f"q{n}", 1, CHOICES) for n in range(5)]
    with pytest.raises(ModelError, match="parrot returns one string for all requests") as caught:
        run_jobs(jobs, model)
    assert caught.value.kind == "unsupported"
    assert "\n" not in str(caught.value)


def test_numbers_are_no_text():
    with pytest.raises(ModelError, match="list is not a string"):
        generate(ScriptedModel({"Hello": [-1.0]}))


def test_arguments_are_checked():
    with pytest.raises(InvalidTypeError, match="`answers` must be a string, a callable"):
        ScriptedModel(3)
    with pytest.raises(InvalidInputError, match="`delay_s` is -1"):
        ScriptedModel("x", delay_s=-1)
    with pytest.raises(InvalidInputError, match="`concurrency` is 0"):
        ScriptedModel("x", concurrency=0)


def test_the_description_changes_with_the_answers():
    assert ScriptedModel("x").describe() == ScriptedModel("x").describe()
    assert ScriptedModel("x").describe() != ScriptedModel("y").describe()
    assert ScriptedModel({"a": "x"}).describe() != ScriptedModel({"a": "y"}).describe()
    assert ScriptedModel(lambda r: "x").describe() != ScriptedModel(lambda r: "y").describe()
    calls = []
    model = ScriptedModel(lambda request: calls.append(1) or "x")
    before = model.describe()
    generate(model)
    assert model.describe() == before


def test_delay_takes_time_without_blocking():
    async def both():
        model = ScriptedModel("x", delay_s=0.02)
        order = []

        async def ask():
            await model.generate(GenerateRequest("a"))
            order.append("answer")

        asking = asyncio.create_task(ask())
        await asyncio.sleep(0)
        order.append("meanwhile")
        await asking
        return order

    assert asyncio.run(both()) == ["meanwhile", "answer"]
