"""Log-likelihoods over HTTP: every way must prove itself, and every lie is found out.

Expected numbers come from the toy model behind the server, computed without HTTP.
"""

import asyncio
from typing import Any

import pytest
from tests.support.each import each
from tests.support.fault_server import FaultServer, true_loglikelihood

from eval_toolkit.errors import ModelError
from eval_toolkit.models.messages import Message
from eval_toolkit.models.openai_compatible import OpenAICompatible
from eval_toolkit.models.openai_compatible.scored import (
    Ruler,
    ScoredText,
    fit_ruler,
    in_order,
    read_echo,
    read_next_token,
    read_prompt_logprobs,
)
from eval_toolkit.models.openai_compatible.single import may_be_single
from eval_toolkit.models.requests import LoglikelihoodRequest
from eval_toolkit.models.responses import RawLoglikelihood

PROMPT = "Zürich is near"
CHOICES = (" Rome", " a dog and", " nowhere at all", " Rome")


def score(
    server: FaultServer,
    prompt: Any = PROMPT,
    choices: tuple[str, ...] = CHOICES,
    *,
    rolling: bool = False,
    **options: Any,
) -> RawLoglikelihood:
    model = OpenAICompatible("toy", base_url=server.url, max_tries=1, **options)
    return asyncio.run(model.loglikelihood(LoglikelihoodRequest(prompt, choices, rolling)))


def expected(prompt: str = PROMPT, *, bos: bool = False) -> list[float]:
    return [true_loglikelihood(prompt, choice, bos=bos) for choice in CHOICES]


def last_body(server: FaultServer) -> dict[str, Any]:
    return server.app.bodies[-1]


@each(
    "told",
    [
        {},
        {"offsets": "bytes"},
        {"bos": True},
        {"bos": True, "offsets": "with_bos"},
        {"echo": "no_offsets"},
        {"bos": True, "echo": "no_offsets"},
        {"lists": "reversed"},
        {"tokenize": False},
    ],
    ids=str,
)
def test_echo_gives_the_true_numbers_in_one_request(told: dict[str, Any]) -> None:
    with FaultServer(**told) as server:
        found = score(server)
        body = last_body(server)
    assert found.loglikelihoods == pytest.approx(expected(bos=bool(told.get("bos"))), abs=1e-9)
    assert found.n_tokens == (1, 3, 3, 1)
    assert found.is_greedy is not None
    assert body["echo"] is True
    assert body["prompt"] == [PROMPT + choice for choice in CHOICES[:3]]  # equal ones asked once
    assert found.prompt_tokens == 3 + bool(told.get("bos"))


@pytest.mark.parametrize("lists", ["first_only", "refused"])
def test_servers_that_take_no_lists_are_asked_choice_by_choice(lists: str) -> None:
    with FaultServer(lists=lists) as server:
        found = score(server)
        assert isinstance(last_body(server)["prompt"], str)
    assert found.loglikelihoods == pytest.approx(expected(), abs=1e-9)


LIARS = {
    "ignored": "no log-probabilities of the prompt",
    "refused": "echo is not supported",
    "off_by_one": "in a plain completion",
    "short": "log-probabilities for",
    "nan": "the log-probability of token 2 is nan",
    "positive": "the log-probability of token 1 is",
    "no_null": "the first token has a log-probability",
}


@pytest.mark.parametrize("lie", LIARS)
def test_a_server_that_lies_about_echo_is_forced_instead(lie: str) -> None:
    with FaultServer(echo=lie) as server:
        found = score(server)
        assert "logit_bias" in last_body(server)
    assert found.loglikelihoods == pytest.approx(expected(), abs=1e-9)
    assert found.n_tokens == (1, 3, 3, 1)


@pytest.mark.parametrize("lie", LIARS)
def test_a_lie_is_refused_by_name_where_nothing_else_is_left(lie: str) -> None:
    with (
        FaultServer(echo=lie, tokenize=False) as server,
        pytest.raises(
            ModelError, match="no method for log-likelihoods passes verification"
        ) as caught,
    ):
        score(server)
    assert caught.value.kind == "unsupported"
    assert caught.value.fatal
    assert LIARS[lie] in str(caught.value).partition("; prompt_logprobs:")[0]
    assert "prompt_logprobs: the answer has no prompt_logprobs" in str(caught.value)
    assert "force: " in str(caught.value)
    assert "/tokenize returned status 404" in str(caught.value)
    assert "\n" not in str(caught.value)


LONG = "The dog is in Rome, and Paris is a question. " * 3 + "It is"


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        ("truncated", "a different text than the one sent"),
        ("zeros", "a log-probability of 0.0, above that of the most likely token"),
    ],
)
@pytest.mark.parametrize("lists", ["honest", "refused"])
def test_what_came_back_is_compared_with_what_was_sent_every_time(
    lie: str, words: str, lists: str
) -> None:
    """Servers that are honest about short texts pass the proof; long ones find them out."""
    with FaultServer(echo=lie, lists=lists) as server:
        found = score(server)
        with pytest.raises(ModelError, match=words) as caught:
            score(server, LONG)
    assert found.loglikelihoods == pytest.approx(expected(), abs=1e-9)
    assert caught.value.kind == "garbled"
    with FaultServer(lists=lists) as server:
        assert score(server, LONG).loglikelihoods == pytest.approx(expected(LONG), abs=1e-9)


def test_prompt_logprobs_are_compared_with_what_was_sent() -> None:
    rows = [None, *({"1": {"logprob": -1.0, "decoded_token": t}} for t in (" is", " Rome"))]
    choice = {"prompt_logprobs": rows}
    [read] = read_prompt_logprobs([choice], ["It is Rome"], 3)
    assert read.pieces == ["It", " is", " Rome"]
    for text, n_prompt, words in (
        ("It is Paris", 3, "a different text than the one sent"),
        ("It is Rome", 4, "3 log-probabilities for 4 prompt tokens"),
    ):
        with pytest.raises(ModelError, match=words) as caught:
            read_prompt_logprobs([choice], [text], n_prompt)
        assert caught.value.kind == "garbled"


def test_fewer_numbers_than_the_server_counts_tokens_in_a_list() -> None:
    logprobs = {"token_logprobs": [None, -1.0], "text_offset": [0, 2]}
    choices = [{"text": "It is", "logprobs": logprobs}] * 2
    assert len(read_echo(choices, 4)) == 2
    with pytest.raises(ModelError, match="4 log-probabilities for 5 prompt tokens"):
        read_echo(choices, 5)


def test_rounding_above_zero_is_zero() -> None:
    assert ScoredText([None, 5e-4, -1.0], [0, 1, 2], None, None).between(1, 3).logprob == -1.0


def test_offsets_of_an_unknown_measure_do_not_count_where_tokens_are_spelled() -> None:
    with FaultServer(offsets="words", tokenize=False) as server:
        assert score(server).loglikelihoods == pytest.approx(expected(), abs=1e-9)


def test_offsets_count_for_ascii_texts_alone_where_tokens_are_ids() -> None:
    logprobs = {"tokens": ["84", "7"], "token_logprobs": [None, -1.0]}
    for text, offsets in (("It is", [0, 2]), ("Ít is", [0, 3]), ("It is", [1, 2])):
        choice = {"text": text, "logprobs": {**logprobs, "text_offset": offsets}}
        [scored] = read_echo([choice], 2)
        assert scored.pieces is None
        if text.isascii():
            assert Ruler().score(scored, "It", " is").logprob == -1.0
        else:
            with pytest.raises(ModelError, match="do not spell"):
                Ruler("bytes").score(scored, "Ít", " is")


def test_prompt_logprobs_are_used_where_echo_is_not_there() -> None:
    with FaultServer(echo="ignored", prompt_logprobs=True) as server:
        found = score(server)
        assert last_body(server)["prompt_logprobs"] == 1
    assert found.loglikelihoods == pytest.approx(expected(), abs=1e-9)
    assert found.n_tokens == (1, 3, 3, 1)


def test_prompt_logprobs_with_a_token_before_the_text() -> None:
    with FaultServer(echo="ignored", prompt_logprobs=True, bos=True) as server:
        found = score(server)
    assert found.loglikelihoods == pytest.approx(expected(bos=True), abs=1e-9)


@pytest.mark.parametrize("ids", ["content", "token", "text"])
def test_forced_tokens_are_recognised_by_id_or_by_spelling(ids: str) -> None:
    with FaultServer(echo="ignored", ids=ids) as server:
        found = score(server, loglikelihood="force")
    assert found.loglikelihoods == pytest.approx(expected(), abs=1e-9)


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        ("ignored", "was forced, but"),
        ("wrong_id", "was forced, but"),
        ("renormalised", "in a plain completion"),
    ],
)
def test_a_server_that_lies_about_forcing_is_refused(lie: str, words: str) -> None:
    with (
        FaultServer(echo="ignored", force=lie) as server,
        pytest.raises(ModelError, match=words) as caught,
    ):
        score(server)
    assert caught.value.kind == "unsupported"


def test_steps_that_choices_share_are_asked_once() -> None:
    with FaultServer(echo="ignored") as server:
        model = OpenAICompatible("toy", base_url=server.url, loglikelihood="force")

        async def main() -> int:
            await model.loglikelihood(LoglikelihoodRequest("It is", (" the",)))
            before = sum("logit_bias" in body for body in server.app.bodies)
            choices = (" the dog", " the cat", " the")
            await model.loglikelihood(LoglikelihoodRequest("It is", choices))
            return sum("logit_bias" in body for body in server.app.bodies) - before

        assert asyncio.run(main()) == 3


def test_the_proof_is_made_once_for_many_callers_at_once() -> None:
    with FaultServer() as server:
        model = OpenAICompatible("toy", base_url=server.url)
        request = LoglikelihoodRequest(PROMPT, CHOICES)

        async def main() -> None:
            await asyncio.gather(*(model.loglikelihood(request) for _ in range(20)))

        asyncio.run(main())
        n_proof = sum(not isinstance(body["prompt"], list) for body in server.app.bodies)
        assert n_proof == 8  # four probes, each by two roads
        asyncio.run(model.loglikelihood(request))  # another loop, the same proof
        assert sum(not isinstance(body["prompt"], list) for body in server.app.bodies) == 8


def test_a_refusal_is_remembered_and_a_failure_is_not() -> None:
    with FaultServer(echo="ignored", tokenize=False) as server:
        model = OpenAICompatible("toy", base_url=server.url, max_tries=1)
        request = LoglikelihoodRequest(PROMPT, CHOICES)
        for _ in range(2):
            with pytest.raises(ModelError, match="passes verification"):
                asyncio.run(model.loglikelihood(request))
        asked = len(server.app.bodies)
        with pytest.raises(ModelError, match="passes verification"):
            asyncio.run(model.loglikelihood(request))
        assert len(server.app.bodies) == asked
    with FaultServer(script={"The capital of France is": ["503"]}) as server:
        model = OpenAICompatible("toy", base_url=server.url, max_tries=1)
        with pytest.raises(ModelError, match="returned status 503"):
            asyncio.run(model.loglikelihood(request))
        found = asyncio.run(model.loglikelihood(request))
    assert found.loglikelihoods == pytest.approx(expected(), abs=1e-9)


def test_a_server_without_completions_or_without_permission() -> None:
    with (
        FaultServer(completions=False) as server,
        pytest.raises(ModelError, match=r"one-token completion with logprobs: .* 404") as caught,
    ):
        score(server)
    assert caught.value.kind == "unsupported"
    with FaultServer(key="k-123456") as server, pytest.raises(ModelError) as caught:
        score(server)
    assert caught.value.kind == "auth"


def test_log_likelihoods_can_be_switched_off() -> None:
    with FaultServer() as server, pytest.raises(ModelError, match="disabled"):
        score(server, loglikelihood="off")


def test_a_token_across_the_boundary_is_scored_by_ids_or_refused() -> None:
    # "near " + "Rome" is one token " Rome" in the whole text: the prompt ends inside it.
    with FaultServer() as server:
        found = score(server, PROMPT + " ", ("Rome",))
        ids = last_body(server)["prompt"]
        # By ids: the tokens of the prompt with its space, then those of "Rome" alone.
        pieces = [server.app._pieces[token] for token in ids]
    assert pieces == ["Zürich", " is", " near", " ", "Rome"]
    assert found.n_tokens == (1,)
    with (
        FaultServer(tokenize=False) as server,
        pytest.raises(ModelError, match="no token ends where the prompt ends") as caught,
    ):
        score(server, PROMPT + " ", ("Rome",))
    assert caught.value.kind == "bad_request"
    assert not caught.value.fatal


def test_a_conversation_goes_through_the_servers_template() -> None:
    messages = (Message("user", "Where?"), Message("assistant", "In"))
    with FaultServer(template=True) as server:
        found = score(server, messages)
    whole = "user: Where?\nassistant: In"
    assert found.loglikelihoods == pytest.approx(expected(whole), abs=1e-9)
    with (
        FaultServer() as server,
        pytest.raises(ModelError, match="format the prompt as a string") as caught,
    ):
        score(server, messages)
    assert caught.value.kind == "unsupported"


def test_whole_texts_from_their_first_token_on() -> None:
    texts = ("The dog is a dog.", "Rome")
    with FaultServer(bos=True) as server:
        found = score(server, "", texts, rolling=True)
    assert found.loglikelihoods == pytest.approx(
        [true_loglikelihood("", text, bos=True) for text in texts], abs=1e-9
    )
    assert found.n_tokens == (6, 1)
    with FaultServer() as server, pytest.raises(ModelError, match="`start_text`"):
        score(server, "", texts, rolling=True)
    with FaultServer() as server:
        found = score(server, "", texts, rolling=True, start_text="#")
    assert found.loglikelihoods == pytest.approx(
        [true_loglikelihood("#", text) for text in texts], abs=1e-9
    )


def test_forcing_needs_something_before_the_text_too() -> None:
    with FaultServer(echo="ignored") as server, pytest.raises(ModelError, match="`start_text`"):
        score(server, "", ("The dog",), rolling=True)


def test_what_an_answer_took_is_counted() -> None:
    with FaultServer() as server:
        found = score(server, prices=(1_000_000.0, 0.0))
    assert found.usage.prompt_tokens == 4 + 6 + 6
    assert found.usage.cost == 16.0
    assert found.usage.tries == 1
    assert found.usage.latency_s > 0.0


def test_a_ruler_fits_characters_bytes_and_a_token_before() -> None:
    texts = ["ab", "äb"]
    assert fit_ruler([(text, len(text)) for text in texts]) == Ruler("characters", 0)
    assert fit_ruler([(text, len(text.encode())) for text in texts]) == Ruler("bytes", 0)
    assert fit_ruler([(text, len(text) + 3) for text in texts]) == Ruler("characters", 3)
    assert fit_ruler([("ab", 2), ("äb", 7)]) is None
    assert fit_ruler([]) is None


@each(
    "choice",
    [
        {},
        {"text": "x"},
        {"text": "x", "logprobs": {}},
        {"text": "x", "logprobs": {"token_logprobs": []}},
        {"text": "x", "logprobs": {"token_logprobs": [None]}},
        {"text": "x", "logprobs": {"token_logprobs": [0.5]}},
        {"text": "x", "logprobs": {"token_logprobs": [-1.0], "tokens": []}},
        {"text": "x", "logprobs": {"content": [{"logprob": "low"}]}},
        {"text": "x", "logprobs": {"content": [{"logprob": -(10**400), "top_logprobs": 3}]}},
    ],
)
def test_a_next_token_without_a_usable_number_is_garbled(choice: dict[str, Any]) -> None:
    with pytest.raises(ModelError) as caught:
        read_next_token(choice)
    assert caught.value.kind == "garbled"


@pytest.mark.parametrize(
    "payload",
    [
        {"choices": 0.5},
        {"choices": [7]},
        {"choices": [{"prompt_logprobs": [{}, {}]}]},
        {"choices": [{"prompt_logprobs": [{"5": {"rank": [1]}, "6": {"rank": 2}}]}]},
    ],
)
def test_choices_of_any_shape_are_garbled(payload: dict[str, Any]) -> None:
    with pytest.raises(ModelError) as caught:
        [one.between(0, 1) for one in read_prompt_logprobs(in_order(payload, 1), ["a"], None)]
    assert caught.value.kind in ("garbled", "unsupported")


def test_tokens_that_are_no_texts_are_garbled() -> None:
    logprobs = {"token_logprobs": [-1.0, -2.0], "tokens": [0.5, "a"]}
    with pytest.raises(ModelError, match="a token that is not text"):
        read_echo([{"text": "ab", "logprobs": logprobs}], None)


def test_a_best_token_that_no_float_can_hold_is_none() -> None:
    logprobs = {"token_logprobs": [-1.0, -2.0], "top_logprobs": [None, {"a": 10**400, "b": -2.0}]}
    (scored,) = read_echo([{"text": "ab", "logprobs": logprobs}], None)
    assert scored.between(1, 2).is_greedy is True


@pytest.mark.parametrize(
    ("continuations", "expected"),
    [
        ([" A", " B"], True),
        ([" 12", " 345"], True),
        ([" 12", " 3456"], False),
        ([" yes", " certainly"], False),
        ([" A"], False),
        ([" of course", " no"], False),
    ],
)
def test_only_short_words_and_numbers_may_be_single_tokens(
    continuations: list[str], expected: bool
) -> None:
    assert may_be_single(continuations) is expected
