"""Messages, requests and responses: construction, both spellings, JSON, identity."""

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.each import each

from eval_toolkit.errors import InvalidInputError, InvalidTypeError, ModelError
from eval_toolkit.models.messages import Message, Role, read_messages
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest, request_hash
from eval_toolkit.models.responses import (
    Completion,
    ErrorInfo,
    Loglikelihood,
    RawCompletion,
    RawLoglikelihood,
    Usage,
)


class TestMessage:
    def test_by_position_by_keyword_and_by_name_of_the_role(self) -> None:
        one = Message(Role.SYSTEM, "Be brief.")
        assert (
            one == Message(role=Role.SYSTEM, content="Be brief.") == Message("system", "Be brief.")
        )
        assert one.role is Role.SYSTEM
        assert one.role == "system"
        assert json.dumps(one.role) == '"system"'

    def test_round_trip(self) -> None:
        message = Message(Role.USER, " odd\n \u2028text ")
        assert read_messages([message.to_dict(), message]) == (message, message)

    def test_refusals(self) -> None:
        with pytest.raises(InvalidInputError, match="`role` is 'tool'; it must be 'system'"):
            Message("tool", "x")  # type: ignore[arg-type]
        with pytest.raises(InvalidTypeError, match="`content` of a user message must be a string"):
            Message(Role.USER, None)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="needs 'role' and 'content'"):
            Message.from_dict({"role": "user"})
        with pytest.raises(InvalidInputError, match="has no field 'name'"):
            Message.from_dict({"role": "user", "content": "x", "name": "y"})


class TestRequests:
    @each(
        ("arguments", "message"),
        [
            ({"prompt": []}, "`prompt` is empty"),
            ({"prompt": 5}, "`prompt` is 5; it must be a string or messages"),
            ({"prompt": "x", "max_tokens": 0}, "`max_tokens` is 0; it must be at least 1"),
            ({"prompt": "x", "max_tokens": "5"}, "`max_tokens` must be an integer, got '5'"),
            ({"prompt": "x", "max_tokens": 2.5}, "`max_tokens` must be an integer, got 2.5"),
            ({"prompt": "x", "max_tokens": True}, "`max_tokens` must be an integer, got True"),
            ({"prompt": "x", "temperature": -1.0}, r"is -1.0; it must lie in \[0, inf\)"),
            ({"prompt": "x", "temperature": math.nan}, r"is nan; it must lie in \[0, inf\)"),
            ({"prompt": "x", "temperature": math.inf}, r"is inf; it must lie in \[0, inf\)"),
            ({"prompt": "x", "temperature": True}, "`temperature` must be a number, got True"),
            ({"prompt": "x", "temperature": "x"}, "`temperature` must be a number, got 'x'"),
            ({"prompt": "x", "top_p": 0.0}, r"`top_p` is 0.0; it must lie in \(0, 1\]"),
            ({"prompt": "x", "top_p": "a"}, "`top_p` must be a number, got 'a'"),
            ({"prompt": "x", "top_p": True}, "`top_p` must be a number, got True"),
            ({"prompt": "x", "seed": 1.5}, "`seed` must be an integer, got 1.5"),
            ({"prompt": "x", "seed": -1}, "`seed` is -1; it must be at least 0"),
            ({"prompt": "x", "stop": 3}, "`stop` is 3; pass a sequence"),
            ({"prompt": "x", "stop": ["a", ""]}, r"stop\[1\] is empty; it would end every answer"),
            ({"prompt": "x", "stop": "\n"}, "`stop` is a single string; pass a sequence"),
            ({"prompt": "x", "stop": [None]}, r"stop\[0\] is None; it must be a string"),
        ],
    )
    def test_unusable_generations(self, arguments: dict[str, object], message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            GenerateRequest(**arguments)  # type: ignore[arg-type]

    def test_equal_settings_are_one_request(self) -> None:
        one = GenerateRequest("x", max_tokens=np.int64(5), temperature=1, top_p=1, stop=["a"])
        other = GenerateRequest("x", max_tokens=5, temperature=1.0, top_p=1.0, stop=("a",))
        assert one == other
        assert one.fingerprint == other.fingerprint
        json.dumps(one.to_dict(), allow_nan=False)

    def test_unusable_scorings(self) -> None:
        with pytest.raises(InvalidInputError, match="there is nothing to score"):
            LoglikelihoodRequest("x", ())
        with pytest.raises(InvalidInputError, match=r"continuations\[1\] is empty"):
            LoglikelihoodRequest("x", (" a", ""))
        with pytest.raises(InvalidInputError, match="rolling log-likelihoods take no prompt"):
            LoglikelihoodRequest("x", ("a",), rolling=True)

    def test_everything_that_may_change_the_answer_changes_the_hash(self) -> None:
        base = GenerateRequest("x")
        others = [
            GenerateRequest("y"),
            GenerateRequest([Message(Role.USER, "x")]),
            GenerateRequest("x", max_tokens=5),
            GenerateRequest("x", temperature=0.5),
            GenerateRequest("x", top_p=0.9),
            GenerateRequest("x", stop=("\n",)),
            GenerateRequest("x", seed=1),
        ]
        prints = [request.fingerprint for request in (base, *others)]
        assert len(set(prints)) == len(prints)
        assert request_hash(base, {"kind": "a"}) != request_hash(base, {"kind": "b"})
        assert request_hash(base, {"kind": "a"}) == request_hash(
            GenerateRequest("x"), '{"kind":"a"}'
        )

    def test_choices_in_another_order_are_another_request(self) -> None:
        one, other = (LoglikelihoodRequest("x", c) for c in ((" a", " b"), (" b", " a")))
        assert one.fingerprint != other.fingerprint


class TestResponses:
    def test_text_and_completion_are_one_field(self) -> None:
        assert RawCompletion(text="a") == RawCompletion("a") == RawCompletion(completion="a")
        assert RawCompletion(text="a").completion == "a"
        assert Completion(completion_text="a").completion == Completion("a").completion_text == "a"
        with pytest.raises(InvalidInputError, match="`text` and `completion` are the same field"):
            RawCompletion(text="a", completion="b")
        with pytest.raises(InvalidInputError, match="`text` is missing"):
            RawCompletion()

    def test_token_counts_by_both_names(self) -> None:
        raw = RawCompletion("a", prompt_sequence_positions=3, completion_sequence_positions=1)
        assert (raw.prompt_tokens, raw.completion_tokens) == (3, 1)
        assert (raw.prompt_sequence_positions, raw.completion_sequence_positions) == (3, 1)

    @pytest.mark.parametrize("kind", [RawLoglikelihood, Loglikelihood])
    def test_loglikelihoods_as_list_and_as_mapping(self, kind: type) -> None:
        assert kind({" a": -1.0, " b": -2.0}) == kind([-1.0, -2.0], [" a", " b"])
        assert kind([-1.0, -2.0]).loglikelihoods == [-1.0, -2.0]
        assert kind([-1.0, -2.0], [" a", " b"]).by_choice == {" a": -1.0, " b": -2.0}

    def test_equal_choices_keep_their_own_numbers(self) -> None:
        raw = RawLoglikelihood([-1.0, -3.0, -1.5], [" a", " b", " a"])
        assert raw.loglikelihoods == [-1.0, -3.0, -1.5]
        assert raw.by_choice == {" a": -1.0, " b": -3.0}

    def test_best_and_margin(self) -> None:
        assert Loglikelihood([-2.0, -1.0, -1.0], ["a", "b", "c"]).best == 1
        assert Loglikelihood([-2.0, -1.0, -1.0], ["a", "b", "c"]).margin == 0.0
        assert Loglikelihood([-2.0], ["a"]).margin is None

    def test_refusals(self) -> None:
        with pytest.raises(InvalidInputError, match="has 1 numbers, but there are 2 choices"):
            RawLoglikelihood([-1.0], ["a", "b"])
        with pytest.raises(InvalidInputError, match=r"loglikelihoods\[0\] is nan"):
            RawLoglikelihood([math.nan], ["a"])
        with pytest.raises(InvalidInputError, match="do not contain the same strings"):
            RawLoglikelihood({"a": -1.0}, ["b"])
        with pytest.raises(InvalidInputError, match="`n_tokens` has 2 numbers"):
            RawLoglikelihood([-1.0], ["a"], n_tokens=[1, 2])

    @pytest.mark.parametrize(
        ("number", "message"),
        [
            (
                0.5,
                r"loglikelihoods\[1\] is 0.5; it must be a log-probability, which is never above",
            ),
            (math.inf, r"loglikelihoods\[1\] is inf; it must be a log-probability"),
            (True, r"loglikelihoods\[1\] is True; it must be a number"),
            (np.False_, r"loglikelihoods\[1\] is np.False_; it must be a number"),
            ("-1", r"loglikelihoods\[1\] is '-1'; it must be a number"),
            ("-inf", r"loglikelihoods\[1\] is '-inf'; it must be a number"),
            (None, r"loglikelihoods\[1\] is None; it must be a number"),
        ],
    )
    @pytest.mark.parametrize("kind", [RawLoglikelihood, Loglikelihood])
    def test_what_is_no_log_probability(self, kind: type, number: object, message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            kind([-1.0, number], ["a", "b"])
        with pytest.raises(InvalidInputError, match=message):
            kind({"a": -1.0, "b": number})

    def test_numbers_of_other_libraries_and_rounding_above_zero(self) -> None:
        raw = RawLoglikelihood(np.array([-1.5, 1e-7, 0.0, -np.inf], dtype=np.float32))
        assert raw.loglikelihoods == [-1.5, 0.0, 0.0, -math.inf]
        assert {type(number) for number in raw.loglikelihoods} == {float}
        assert RawLoglikelihood([-1], n_tokens=np.array([2])).n_tokens == (2,)

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: RawCompletion("a", prompt_tokens=-5), "`prompt_tokens` is -5; it must be at"),
            (lambda: Completion("a", completion_tokens=1.5), "`completion_tokens` must be an int"),
            (
                lambda: Loglikelihood([-1.0], prompt_tokens="3"),
                "`prompt_tokens` must be an integer",
            ),
            (
                lambda: RawLoglikelihood([-1.0], n_tokens=[0]),
                r"`n_tokens\[0\]` is 0; it must be at",
            ),
            (
                lambda: RawLoglikelihood({"a": -1}, n_tokens={"b": 1}),
                "do not contain the same strings",
            ),
            (lambda: Usage(completion_tokens=-1), "`completion_tokens` is -1; it must be at least"),
            (lambda: Usage(prompt_tokens=None), "`prompt_tokens` must be an integer, got None"),
        ],
    )
    def test_what_is_no_number_of_tokens(self, make: Callable[[], object], message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            make()

    def test_what_the_user_said(self) -> None:
        answer = Completion(
            "four",
            messages=[
                Message(Role.SYSTEM, "S"),
                Message(Role.USER, "one"),
                Message(Role.ASSISTANT, "A"),
                Message(Role.USER, "two"),
            ],
        )
        assert answer.system_user_instruction == "S\n\none\n\ntwo"
        assert answer.user_instruction == "one\n\ntwo"
        assert (answer.first_user_instruction, answer.last_user_instruction) == ("one", "two")
        assert answer.all_but_first_user_instruction == "two"
        assert Completion("x").last_user_instruction == ""

    def test_control_tokens_are_broken_up(self) -> None:
        assert Completion("a<|im_end|>b").sanitized_completion == "a< |im_end| >b"

    @given(text=st.text(alphabet=st.characters(exclude_categories=[])), tokens=st.integers(0, 9))
    def test_json_round_trip_of_any_text(self, text: str, tokens: int) -> None:
        raw = RawCompletion(text, completion_tokens=tokens, usage=Usage(1, tokens, latency_s=0.5))
        raw.text.encode("utf-8")
        assert RawCompletion.from_dict(json.loads(json.dumps(raw.to_dict()))) == raw

    def test_json_round_trips(self) -> None:
        error = ErrorInfo("timeout", "no answer", tries=3)
        for response in (
            RawLoglikelihood([-1.0], ["a"], n_tokens=[2], is_greedy=[True], error=error),
            Loglikelihood([-1.0, -2.0], ["a", "a"], id="q1", ground_truth=["a"], n_tokens=[1, 1]),
            Completion(
                "x", id="q", messages=[Message(Role.USER, "u")], ground_truth="y", error=error
            ),
        ):
            again = type(response).from_dict(json.loads(json.dumps(response.to_dict())))
            assert again == response

    @pytest.mark.parametrize("kind", [RawLoglikelihood, Loglikelihood])
    def test_a_probability_of_zero_is_strict_json(self, kind: type) -> None:
        answer = kind([-1.0, -math.inf], ["a", "b"])
        text = json.dumps(answer.to_dict(), allow_nan=False)
        assert json.loads(text)["loglikelihoods"] == [-1.0, "-inf"]
        assert kind.from_dict(json.loads(text)) == answer
        assert kind.from_dict({"loglikelihoods": {"a": -1.0, "b": "-inf"}}) == answer

    def test_an_error_can_be_stored_whatever_it_says(self) -> None:
        error = ErrorInfo("other", "half \ud800 a pair")
        assert error.message == "half \ufffd a pair"
        assert ErrorInfo.from_dict({"kind": "other", "message": "half \ud800 a pair"}) == error

    def test_fields_of_later_versions_do_not_hurt(self) -> None:
        assert Usage.from_dict({"prompt_tokens": 1, "carbon_g": 3}) == Usage(1)


class TestModelError:
    def test_kinds(self) -> None:
        assert ModelError("slow", kind="timeout").retryable
        assert not ModelError("bad", kind="bad_request").retryable
        assert ModelError("no key", kind="auth").fatal
        with pytest.raises(ValueError, match="`kind` is 'odd'"):
            ModelError("x", kind="odd")


@pytest.mark.parametrize(
    "made",
    [
        Message(Role.USER, "Hi"),
        Completion(completion_text="Rome", ground_truth="Rome"),
        RawCompletion(text=" Rome"),
        Loglikelihood([-1.0, -2.0], ["a", "b"]),
        RawLoglikelihood({"a": -1.0, "b": float("-inf")}),
    ],
)
def test_model_dump_is_to_dict(made: Any) -> None:
    assert made.model_dump() == made.to_dict()
    assert type(made).from_dict(json.loads(json.dumps(made.model_dump()))) == made
