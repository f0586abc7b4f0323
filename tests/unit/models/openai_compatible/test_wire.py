"""Bodies out of requests, texts out of answers."""

import json
from typing import Any

import pytest
from tests.support.each import each

from eval_toolkit.errors import ModelError
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.models.openai_compatible.wire import Dialect, Generated, read_chat, read_text
from eval_toolkit.models.requests import GenerateRequest

ASK = Message(Role.USER, "Capital of Italy?")
CUE = Message(Role.ASSISTANT, "Answer:")


def chat(dialect: Dialect, *messages: Message, **options: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(
        dialect.chat_body(GenerateRequest(messages, **options), messages)
    )
    return body


def test_a_body_holds_what_the_request_says_and_nothing_else() -> None:
    assert chat(Dialect("m"), ASK) == {
        "model": "m",
        "messages": [{"role": "user", "content": "Capital of Italy?"}],
        "temperature": 0.0,
    }
    full = chat(Dialect("m"), ASK, max_tokens=5, temperature=0.7, top_p=0.9, stop=("\n",), seed=3)
    assert full["max_tokens"] == 5
    assert full["top_p"] == 0.9
    assert full["stop"] == ["\n"]
    assert full["seed"] == 3


def test_the_limit_has_the_name_the_server_wants() -> None:
    body = chat(Dialect("m", "max_completion_tokens"), ASK, max_tokens=5)
    assert body["max_completion_tokens"] == 5
    assert "max_tokens" not in body


def test_a_text_without_a_limit_gets_one() -> None:
    dialect = Dialect("m", "max_completion_tokens", default_max_tokens=77)
    body = json.loads(dialect.text_body(GenerateRequest("2 + 2 ="), "2 + 2 ="))
    assert (body["prompt"], body["max_tokens"]) == ("2 + 2 =", 77)


def test_three_ways_to_send_a_cue() -> None:
    last = chat(Dialect("m"), ASK, CUE)
    assert last["messages"][-1] == {"role": "assistant", "content": "Answer:"}
    assert "continue_final_message" not in last
    vllm = chat(Dialect("m", prefill="vllm"), ASK, CUE)
    assert vllm["messages"] == last["messages"]
    assert (vllm["continue_final_message"], vllm["add_generation_prompt"]) == (True, False)
    assert "continue_final_message" not in chat(Dialect("m", prefill="vllm"), ASK)
    user = chat(Dialect("m", prefill="user"), ASK, CUE)
    assert user["messages"] == [{"role": "user", "content": "Capital of Italy?\nAnswer:"}]


def test_own_fields_are_added_and_none_leaves_a_field_out() -> None:
    body = chat(Dialect("m", extra_body={"temperature": None, "top_k": 1}), ASK)
    assert "temperature" not in body
    assert body["top_k"] == 1


def test_openai_takes_four_stops_and_the_text_is_cut_at_all_of_them() -> None:
    stops = ("a", "b", "c", "d", "e")
    assert chat(Dialect("m", max_stops=4), ASK, stop=stops)["stop"] == list("abcd")
    cut = Generated("xx e yy", "length").cut_at(stops)
    assert (cut.text, cut.finish_reason) == ("xx ", "stop")
    assert Generated("xx", "length").cut_at(stops).finish_reason == "length"


def test_a_repeated_cue_is_taken_off_once() -> None:
    assert Generated("Answer: Rome", None).without_cue("Answer:").text == " Rome"
    assert Generated(" Rome", None).without_cue("Answer:").text == " Rome"


def answer(content: Any, reason: str = "stop", **message: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": content, **message}, "finish_reason": reason}]}


def test_contents_of_every_shape() -> None:
    assert read_chat(answer("Rome")).text == "Rome"
    assert (
        read_chat(answer([{"type": "text", "text": "Ro"}, "me", {"type": "image"}])).text == "Rome"
    )
    assert read_chat(answer("", "length")).finish_reason == "length"
    thinking = read_chat(answer(None, "length", reasoning_content="hm"))
    assert (thinking.text, thinking.finish_reason) == ("", "length")
    assert read_chat(answer(None, "length")).text == ""
    assert read_chat(answer("", "stop")).text == ""
    for name in ("reasoning_content", "reasoning"):
        assert read_chat(answer(None, "stop", **{name: "hm"})).text == ""
    assert read_chat(answer("Well,", "content_filter")).finish_reason == "content_filter"


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking"])
def test_reasoning_beside_the_text_is_kept_apart(name: str) -> None:
    found = read_chat(answer("Rome", **{name: "Italy, so"}))
    assert (found.text, found.reasoning, found.reasoning_tokens) == ("Rome", "Italy, so", None)
    assert read_chat(answer(None, "length", **{name: "Italy"})).reasoning == "Italy"
    assert found.without_cue("Ro").reasoning == "Italy, so"
    assert found.cut_at(("m",)).reasoning == "Italy, so"


def test_reasoning_among_the_parts_of_a_content() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Italy, so"}]}
    found = read_chat(answer([thought, {"type": "text", "text": "Rome"}]))
    assert (found.text, found.reasoning) == ("Rome", "Italy, so")
    plain = {"type": "reasoning", "reasoning": "Italy, so"}
    assert read_chat(answer([plain, {"type": "text", "text": "Rome"}])).reasoning == "Italy, so"


@pytest.mark.parametrize(
    ("details", "tokens"),
    [({"reasoning_tokens": 7}, 7), ({}, None), (None, None), ({"reasoning_tokens": "x"}, None)],
)
def test_its_tokens_are_as_the_server_counts_them(details: Any, tokens: int | None) -> None:
    usage = {"completion_tokens": 9, "completion_tokens_details": details}
    assert read_chat({**answer("Rome"), "usage": usage}).reasoning_tokens == tokens


@each(
    ("payload", "kind", "words"),
    [
        (answer(None, refusal="I cannot."), "refused", "declined: I cannot."),
        (answer(None, "content_filter"), "refused", "content filter"),
        (answer("", "content_filter"), "refused", "content filter"),
        (answer(None, tool_calls=[{}]), "refused", "called a tool"),
        (answer(None), "garbled", "the answer has no content"),
        (answer(None, "stop", reasoning_content="", tool_calls=[]), "garbled", "no content"),
        (answer(42), "garbled", "content of type int"),
        ({"choices": []}, "garbled", "no choices"),
        ({"choices": None}, "garbled", "no choices"),
        ({"choices": ["x"]}, "garbled", "no choices"),
        ({"choices": [{"text": "x"}]}, "garbled", "no message"),
        ({}, "garbled", "no choices"),
    ],
)
def test_answers_without_a_text(payload: dict[str, Any], kind: str, words: str) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        read_chat(payload)
    assert caught.value.kind == kind


def test_completions_need_a_text() -> None:
    assert read_text({"choices": [{"text": " Rome"}]}).text == " Rome"
    with pytest.raises(ModelError, match="no text"):
        read_text({"choices": [{"text": None}]})
    with pytest.raises(ModelError, match="content filter"):
        read_text({"choices": [{"text": "", "finish_reason": "content_filter"}]})
