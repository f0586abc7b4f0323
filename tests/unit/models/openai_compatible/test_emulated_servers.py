"""Log-likelihoods from servers that split characters over tokens, each emulated from its sources.

The sums must be the true ones of the emulation, whatever its spellings; else the request is refused.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.emulated_servers import (
    SERVERS,
    EmulatedServer,
    decode,
    encode,
    logprobs,
    rendered,
    split,
    sum_of,
    truth,
)

from eval_toolkit.errors import ModelError
from eval_toolkit.models.messages import Message
from eval_toolkit.models.openai_compatible import OpenAICompatible
from eval_toolkit.models.requests import LoglikelihoodRequest
from eval_toolkit.models.responses import RawLoglikelihood

SPLIT = ("😀", "龍", "𠀋", "🎉", "鿕")
"""Characters that the toy tokenizer splits over two to four tokens."""


def score(
    server: EmulatedServer, prompt: Any, choices: tuple[str, ...], **options: Any
) -> RawLoglikelihood:
    return Client(server, **options).score(prompt, choices)


class Client:
    """One model of a server in one event loop, verified once."""

    def __init__(self, server: EmulatedServer, **options: Any) -> None:
        self.server = server
        self.model = OpenAICompatible("toy", base_url=server.url, max_tries=1, **options)

    def score(self, prompt: Any, choices: tuple[str, ...]) -> RawLoglikelihood:
        return asyncio.run(self._score(prompt, choices))

    async def _score(self, prompt: Any, choices: tuple[str, ...]) -> RawLoglikelihood:
        try:
            return await self.model.loglikelihood(LoglikelihoodRequest(prompt, choices))
        finally:
            await self.model.aclose()


@pytest.fixture(scope="module", params=[(kind, bos) for kind in SERVERS for bos in (False, True)])
def server(request: pytest.FixtureRequest) -> Iterator[EmulatedServer]:
    kind, bos = request.param
    with EmulatedServer(kind, bos=bos) as running:
        yield running


def expected(server: EmulatedServer, prompt: str, choices: tuple[str, ...]) -> list[float]:
    return [truth(prompt, choice, bos=server.app.bos) for choice in choices]


def test_the_toy_tokenizer_splits_characters() -> None:
    for character in SPLIT:
        assert len(encode(character)) > 1
        assert "\ufffd" in decode(encode(character)[:1])
        assert decode(encode(character)) == character
    assert len(encode("中国")) == 2
    assert len(encode(" 😀!")) == 1


CASES = [
    ("The capital of France is", (" Paris", " Rome")),
    ("I say", (" 😀", " 🎉")),
    ("😀 is", (" Paris", " Rome")),
    ("I say 😀", ("龍", "🎉 the")),
    ("龍𠀋", ("鿕", "é")),
    ("one 😀 two", (" 龍龍", " three")),
    ("a ", ("cat", "dog")),
]


@pytest.mark.parametrize("way", ["echo", "prompt_logprobs"])
@pytest.mark.parametrize(("prompt", "choices"), CASES)
def test_sums_are_those_of_the_continuation(
    server: EmulatedServer, way: str, prompt: str, choices: tuple[str, ...]
) -> None:
    if way == "prompt_logprobs" and not server.app.is_vllm:
        with pytest.raises(ModelError, match="the answer has no prompt_logprobs"):
            score(server, prompt, choices, loglikelihood=way)
        return
    found = score(server, prompt, choices, loglikelihood=way)
    assert found.loglikelihoods == pytest.approx(expected(server, prompt, choices), abs=1e-9)
    tokens = [split(prompt, choice, bos=server.app.bos) for choice in choices]
    assert found.n_tokens == tuple(len(after) for _, after in tokens)
    assert found.prompt_tokens == len(tokens[0][0])


characters = st.sampled_from([*SPLIT, "中", "é", "ö", " the", " A", "noon", " ", "a", "!", "\n"])
texts = st.lists(characters, min_size=1, max_size=6).map("".join)


KINDS = [
    (kind, bos, way, without)
    for kind in SERVERS
    for bos, way, without in (
        (False, "echo", ()),
        (True, "echo", ("/tokenize",)),
        (False, "prompt_logprobs", ("/tokenize",)),
        (True, "prompt_logprobs", ()),
    )
    if kind.startswith("vllm") or way == "echo"
]


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: "-".join(map(str, kind[:3])))
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    kind, bos, way, without = request.param
    with EmulatedServer(kind, bos=bos, without=without) as running:
        yield Client(running, loglikelihood=way)


@settings(deadline=None, max_examples=100, derandomize=True, database=None)
@given(prompt=texts, choices=st.lists(texts, min_size=1, max_size=3, unique=True))
@example("I say 😀", ["😀"])
@example("\ufffd", ["\ufffd\ufffd"])
@example("😀", ["é", "a"])
@example("龍鿕", ["é鿕", " A"])
def test_any_text_is_scored_truly_or_refused(
    client: Client, prompt: str, choices: list[str]
) -> None:
    try:
        found = client.score(prompt, tuple(choices))
    except ModelError as error:
        if error.kind == "bad_request" and client.server.app.without:
            return
        raise
    want = expected(client.server, prompt, tuple(choices))
    assert found.loglikelihoods == pytest.approx(want, abs=1e-9)


@pytest.mark.parametrize("kind", SERVERS)
def test_split_characters_are_refused_by_name_without_tokenize(kind: str) -> None:
    with EmulatedServer(kind, bos=True, without=("/tokenize",)) as server:
        plain = score(server, "The capital of France is", (" Paris the", " Rome"))
        want = expected(server, "The capital of France is", (" Paris the", " Rome"))
        assert plain.loglikelihoods == pytest.approx(want, abs=1e-9)
        with pytest.raises(ModelError, match=r"/tokenize returned status 404") as caught:
            score(server, "I say", ("😀 the",))
    assert caught.value.kind == "bad_request"
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", SERVERS)
def test_a_bias_is_trusted_only_where_it_does_not_change_the_numbers(kind: str) -> None:
    choices = (" Paris", " 😀")
    with EmulatedServer(kind) as server:
        if server.app.is_vllm:
            found = score(server, "I say", choices, loglikelihood="force")
            assert found.loglikelihoods == pytest.approx(expected(server, "I say", choices))
            return
        with pytest.raises(ModelError, match="in a plain completion") as caught:
            score(server, "I say", choices, loglikelihood="force")
    assert caught.value.kind == "unsupported"


@pytest.mark.parametrize("last", ["user", "assistant"])
def test_conversations_are_scored_in_the_servers_own_tokens(
    server: EmulatedServer, last: str
) -> None:
    messages = [Message("user", "capital of 龍?"), Message("assistant", "The 😀 is")]
    messages = messages[: 2 if last == "assistant" else 1]
    before = encode(
        rendered([one.to_dict() for one in messages], goes_on=last == "assistant"),
        special=server.app.bos,
    )
    choices = (" Paris", " 龍 😀")
    found = score(server, tuple(messages), choices)
    want = [sum_of(before, encode(choice)) for choice in choices]
    assert found.loglikelihoods == pytest.approx(want, abs=1e-9)
    assert found.prompt_tokens == len(before)
    assert logprobs(before)[encode(" Paris")[0]] == pytest.approx(want[0])
    tokenized = [body for body in server.app.tokenized if "messages" in body]
    assert bool(tokenized) is (server.app.kind in ("vllm-0.13", "sglang-0.5"))


LETTERS = (" A", " B", " C", " D")


@pytest.mark.parametrize("asked", ["text", "conversation"])
def test_choices_of_one_token_take_one_request(server: EmulatedServer, asked: str) -> None:
    """vLLM is asked for ids; before 0.26 only the 20 likeliest tokens are told."""
    client = Client(server)
    prompt: Any = "The capital of the cat is"
    before = encode(prompt, special=server.app.bos)
    if asked == "conversation":
        prompt = (Message("user", prompt),)
        before = encode(
            rendered([one.to_dict() for one in prompt], goes_on=False), special=server.app.bos
        )
    client.score(prompt, LETTERS)  # verifies
    numbers = logprobs(before)
    order = sorted(range(len(numbers)), key=lambda token: -numbers[token])
    likely = [decode([token]) for token in order[:20]]
    choices = tuple(text for text in likely if text.isascii() and text.strip().isalpha())[:4]
    assert len(choices) > 1
    server.app.bodies.clear()
    for some in (choices, LETTERS):
        found = client.score(prompt, some)
        want = [sum_of(before, encode(choice)) for choice in some]
        assert found.loglikelihoods == pytest.approx(want, abs=1e-9)
        assert found.prompt_tokens == len(before)
        assert found.n_tokens == (1,) * len(some)
    one, *others = server.app.bodies
    assert one["max_tokens"] == 1
    assert isinstance(one["prompt"], str) or isinstance(one["prompt"][0], int)
    assert "echo" not in one
    assert len(others) == (1 if server.app.kind == "vllm-0.26" else 2)


def test_unlike_choices_keep_the_verified_method(server: EmulatedServer) -> None:
    client = Client(server)
    choices = (" A", " the cat")
    client.score("I say", choices)
    server.app.bodies.clear()
    found = client.score("I say", choices)
    assert found.loglikelihoods == pytest.approx(expected(server, "I say", choices), abs=1e-9)
    assert [bool(body.get("echo")) for body in server.app.bodies] == [True]


short = st.sampled_from(["noon", " A", "é", "ö", "😀", "中", " 😀!", "a", "AB", "ab", "!"])


@settings(deadline=None, max_examples=60, derandomize=True, database=None)
@given(prompt=texts, choices=st.lists(short, min_size=2, max_size=4, unique=True))
def test_any_short_choice_is_scored_truly(
    whichever: Client, prompt: str, choices: list[str]
) -> None:
    found = whichever.score(prompt, tuple(choices))
    want = expected(whichever.server, prompt, tuple(choices))
    assert found.loglikelihoods == pytest.approx(want, abs=1e-9)


@pytest.fixture(scope="module")
def whichever(server: EmulatedServer) -> Client:
    return Client(server)
