"""Boundaries, control tokens, windows and stop strings, with a tokenizer small enough to check."""

import pytest

from eval_toolkit._internal.plain import whole_text
from eval_toolkit.errors import ModelError
from eval_toolkit.models._tokens import (
    continuation_ids,
    prompt_ids,
    rolling_windows,
    stop_position,
)
from eval_toolkit.models.messages import Message, Role

WORDS = ["<end>", "capital", " of", "tal", " Rome", "\n", *map(chr, range(32, 127))]


class Greedy:
    """Takes the longest word it knows; "capi" + "tal" becomes "capital"."""

    def __init__(self, lead: tuple[int, ...] = (), start: int | None = 0) -> None:
        self.lead = lead
        self.start = start

    def encode(self, text: str, *, control: bool) -> list[int]:
        ids = []
        while text:
            known = [word for word in WORDS[0 if control else 1 :] if text.startswith(word)]
            word = max(known, key=len)
            ids.append(WORDS.index(word))
            text = text[len(word) :]
        return ids


class Spaced(Greedy):
    """Puts a space before every text, as tokenizers of the SentencePiece kind do."""

    def encode(self, text: str, *, control: bool) -> list[int]:
        return super().encode(f" {text}", control=control) if text else []


def words(ids: list[int]) -> list[str]:
    return [WORDS[token] for token in ids]


def test_a_continuation_is_what_comes_after_the_prompt() -> None:
    assert words(continuation_ids(Greedy(), "capital of", " Rome!")) == [" Rome", "!"]


def test_a_merge_over_the_boundary_does_not_eat_the_prompt() -> None:
    """Joint: capital, " of". The prompt is c-a-p-i, so the continuation must be tal, " of"."""
    assert words(continuation_ids(Greedy(), "capi", "tal of")) == ["tal", " of"]


def test_a_continuation_apart_gets_no_space_of_its_own() -> None:
    found = continuation_ids(Spaced(), "capi", "tal of")
    assert words(found) == ["tal", " of"]


def test_control_tokens_of_a_continuation_are_letters() -> None:
    assert words(continuation_ids(Greedy(), "a", "<end>")) == list("<end>")


def test_a_continuation_without_tokens_is_refused() -> None:
    class Deaf(Greedy):
        def encode(self, text: str, *, control: bool) -> list[int]:
            return []

    with pytest.raises(ModelError, match=r"continuation 'x' has no tokens") as caught:
        continuation_ids(Deaf(), "", "x")
    assert caught.value.kind == "bad_request"


def test_a_finished_text_is_led_in_once() -> None:
    encoder = Greedy(lead=(0,))
    assert prompt_ids(encoder, "ab") == [0, *encoder.encode("ab", control=True)]
    assert prompt_ids(encoder, "<end>ab") == prompt_ids(encoder, "ab")


def test_rendered_messages_are_not_led_in() -> None:
    message = Message(Role.USER, "ab")
    assert words(prompt_ids(Greedy(lead=(0,)), ">ab<end>", [message])) == [">", "a", "b", "<end>"]


def test_an_empty_prompt_is_the_token_to_start_from() -> None:
    assert prompt_ids(Greedy(start=3), "") == [3]
    assert prompt_ids(Greedy(lead=(4,), start=3), "") == [4]
    with pytest.raises(ModelError, match="no beginning-of-text token; pass a prompt"):
        prompt_ids(Greedy(start=None), "")


def test_what_a_message_says_is_never_a_control_token() -> None:
    said = Message(Role.USER, "a<end>b")
    rendered = "<end>a<end>b<end>"
    expected = ["<end>", "a", *"<end>", "b", "<end>"]
    assert words(prompt_ids(Greedy(), rendered, [said])) == expected


def test_a_template_may_trim_what_is_said() -> None:
    said = Message(Role.USER, " <end> ")
    assert words(prompt_ids(Greedy(), "!<end>!", [said])) == ["!", *"<end>", "!"]


def test_a_template_that_alters_a_control_token_is_refused() -> None:
    with pytest.raises(ModelError, match="contains a control token of the model"):
        prompt_ids(Greedy(), "!<END>!", [Message(Role.USER, "<end>")])


@pytest.mark.parametrize("n_ids", [1, 4, 5, 9, 10, 12])
@pytest.mark.parametrize("length", [1, 2, 5, 20])
def test_windows_score_every_token_once_with_the_token_before_it(n_ids: int, length: int) -> None:
    ids = list(range(1, n_ids + 1))
    windows = list(rolling_windows(ids, 0, length))
    assert [token for _, scored in windows for token in scored] == ids
    for context, scored in windows:
        assert context[-1] == scored[0] - 1
        assert context == list(range(context[0], scored[0]))
        assert len(context) + len(scored) - 1 <= length
    # the last window reads as much as it can
    context, scored = windows[-1]
    assert len(context) + len(scored) - 1 == min(length, n_ids)


def test_a_text_without_tokens_has_no_windows() -> None:
    with pytest.raises(ModelError, match="has no tokens"):
        list(rolling_windows([], 0, 4))


def test_the_earliest_stop_string_counts() -> None:
    assert stop_position("one two three", ("three", "two", "")) == 4
    assert stop_position("one", ("two", "")) is None
    assert stop_position("one", ()) is None


def test_half_a_surrogate_pair_becomes_the_replacement_sign() -> None:
    assert whole_text("a\ud800b") == "a\ufffdb"
    assert whole_text("é 👍 a") == "é 👍 a"
