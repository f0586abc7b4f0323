"""Anything that answers as a model: functions, coroutines, objects with `invoke`, replies of clients."""

import asyncio
import threading
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from eval_toolkit.errors import InvalidInputError, InvalidTypeError, ModelError
from eval_toolkit.models import ScriptedModel, as_model, load_model
from eval_toolkit.models.messages import Message
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest
from eval_toolkit.models.responses import RawCompletion
from eval_toolkit.testing import CONTRACTS

TALK = (Message("system", "Be brief."), Message("user", "Capital of Italy?"))


def said(model: Any, prompt: Any = "hello", **settings: Any) -> RawCompletion:
    return asyncio.run(as_model(model).generate(GenerateRequest(prompt, **settings)))


def echo(prompt):
    return prompt


async def later(prompt):
    await asyncio.sleep(0)
    return prompt


def last(messages):
    return messages[-1]["content"]


def annotated(said_so_far: list[dict[str, str]]) -> str:
    return said_so_far[-1]["content"]


def noted(x: "Sequence[dict]"):  # noqa: F821 -- an annotation need not be importable
    return x[-1]["content"]


class Chain:
    def invoke(self, prompt, config=None):
        return prompt


class Instance:
    def __call__(self, prompt):
        return prompt


class AsyncInstance:
    async def __call__(self, prompt):
        return prompt


@pytest.mark.parametrize(
    "model",
    [echo, later, last, annotated, noted, Chain(), Chain().invoke, Instance(), AsyncInstance(),
     partial(echo), partial(later), lambda prompt: later(prompt), lambda *args: args[0]],
)  # fmt: skip
def test_whatever_answers_gets_the_prompt(model: Any) -> None:
    assert said(model).text == "hello"
    assert said(model, [Message("user", "hi")]).text == "hi"


def test_a_text_holds_the_whole_conversation_and_messages_are_dicts() -> None:
    assert said(echo, TALK).text == "Be brief.\n\nCapital of Italy?"
    assert said(lambda messages: str(messages), TALK).text == str([t.to_dict() for t in TALK])
    assert as_model(last).speaks_chat
    assert not as_model(echo).speaks_chat
    assert as_model(echo, messages=True).speaks_chat


def test_a_chat_model_of_langchain_gets_messages() -> None:
    class Chat(Chain):
        model_name = "chatty"

        def bind_tools(self, tools: Any) -> None:
            """Mark chat models, as in LangChain."""

    assert as_model(Chat()).speaks_chat
    assert as_model(Chat()).name == "chatty"


@dataclass
class Reply:
    content: Any
    usage_metadata: Any = None


@pytest.mark.parametrize(
    "reply",
    [
        "Rome",
        Reply("Rome"),
        Reply([{"type": "text", "text": "Ro"}, {"type": "text", "text": "me"}]),
        {"content": "Rome"},
        {"output": "Rome", "input": "?"},
        [{"generated_text": "Rome"}],
        [{"generated_text": [{"role": "user", "content": "?"}, {"role": "assistant", "content": "Rome"}]}],
        SimpleNamespace(choices=[SimpleNamespace(message=Reply("Rome"))]),
        SimpleNamespace(choices=[SimpleNamespace(text="Rome")]),
        RawCompletion("Rome"),
    ],
)  # fmt: skip
def test_the_text_is_found_in_replies_of_clients(reply: Any) -> None:
    assert said(lambda prompt: reply).text == "Rome"


def test_tokens_are_those_that_the_reply_tells() -> None:
    found = said(lambda prompt: Reply("Rome", {"input_tokens": 7, "output_tokens": 2}))
    assert (found.prompt_tokens, found.completion_tokens) == (7, 2)
    assert found.usage.total_tokens == 9
    told = SimpleNamespace(prompt_tokens=3, completion_tokens=1)
    found = said(lambda prompt: SimpleNamespace(content="Rome", usage=told))
    assert (found.prompt_tokens, found.completion_tokens) == (3, 1)
    assert said(echo).prompt_tokens is None


def test_settings_reach_parameters_of_their_name_and_are_refused_otherwise() -> None:
    def tuned(prompt, temperature, max_tokens=None):
        return f"{prompt} {temperature} {max_tokens}"

    assert said(tuned, temperature=0.5, max_tokens=9).text == "hello 0.5 9"
    with pytest.raises(ModelError, match="has no parameter `temperature`") as refused:
        said(echo, temperature=0.5)
    assert refused.value.fatal
    assert said(echo, "one STOP two", stop=("STOP",)).text == "one "


@pytest.mark.parametrize("nothing", [None, 5, b"Rome", [], ["Rome", "Paris"], object(), {}])
def test_what_is_no_text_is_an_error(nothing: Any) -> None:
    with pytest.raises(ModelError, match="it must return a string"):
        said(lambda prompt: nothing)


def several(prompts: list[str]) -> list[str]:
    return prompts


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (3, "it must be a function that maps a prompt"),
        (Chain, r"pass an object: Chain\(…\)"),
        (lambda: "Rome", "takes no prompt"),
        (lambda prompt, key: "Rome", "also requires `key`"),
        (several, r"pass lambda prompt: several\(\[prompt\]\)\[0\]"),
    ],
)
def test_what_cannot_answer_is_refused_with_what_to_pass(given: Any, words: str) -> None:
    with pytest.raises(InvalidTypeError, match=words):
        as_model(given)


def test_exceptions_are_those_of_the_function() -> None:
    def broken(prompt):
        raise KeyError("secret drawer")

    with pytest.raises(KeyError, match="secret drawer"):
        said(broken)
    with pytest.raises(RuntimeError, match="StopIteration"):
        said(lambda prompt: next(iter(())))


def test_a_function_may_use_an_event_loop_of_its_own() -> None:
    assert said(lambda prompt: asyncio.run(later(prompt))).text == "hello"
    assert said(lambda prompt: threading.current_thread().name).text == "eval-toolkit-model"


def test_the_code_is_part_of_the_description() -> None:
    def make(word):
        return lambda prompt: word

    same = [as_model(make(word)).describe()["answers"] for word in ("a", "a", "b")]
    assert same[0] == same[1] != same[2]
    assert as_model(echo).name == "echo"
    assert as_model(partial(echo)).name == "echo"
    assert as_model(make("a"), name="mine").name == "mine"


def test_models_and_names_are_loaded_as_they_are() -> None:
    model = ScriptedModel("Rome")
    assert as_model(model) is model
    assert as_model("scripted:Rome").name == "scripted"
    assert load_model(echo).name == "echo"
    with pytest.raises(InvalidInputError, match="only for models given by name"):
        load_model(echo, {"size": 3})


def test_there_are_no_loglikelihoods() -> None:
    with pytest.raises(ModelError, match="mc_completion"):
        asyncio.run(as_model(echo).loglikelihood(LoglikelihoodRequest("Rome is", (" big",))))


@pytest.mark.parametrize("model", [as_model(echo), as_model(last), as_model(later)])
def test_functions_keep_the_contract_of_models(model: Any) -> None:
    CONTRACTS["model"].check(model)
