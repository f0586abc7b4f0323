"""The tokenizer with a small vocabulary; `tests/reference` holds it against llama.cpp's."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.model_fixture import CONTROL, tiny_metadata, write_gguf

from eval_toolkit.models.embedded.gguf import read_gguf
from eval_toolkit.models.embedded.tokenizer import TextStream, Tokenizer


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = write_gguf(tmp_path_factory.mktemp("vocabulary") / "v.gguf", tiny_metadata(), {})
    return Tokenizer(read_gguf(path))


def words(tokenizer: Tokenizer, text: str) -> list[str]:
    return [tokenizer.decode([token]) for token in tokenizer.encode(text)]


def test_the_pair_learnt_first_is_merged_first(tokenizer: Tokenizer) -> None:
    assert words(tokenizer, " the") == [" the"]
    assert words(tokenizer, "the") == ["the"]
    assert words(tokenizer, "abababab") == ["abab", "abab"]
    assert words(tokenizer, "ababab") == ["abab", "ab"]
    assert words(tokenizer, "aabb") == ["a", "ab", "b"]


def test_words_are_not_merged_with_each_other(tokenizer: Tokenizer) -> None:
    # "is" is one token, "i'm" and "i1s" are not joined across apostrophes and digits.
    assert words(tokenizer, "is") == ["is"]
    assert words(tokenizer, "i1s") == ["i", "1", "s"]
    assert words(tokenizer, "a b") == ["a", " ", "b"]


@given(st.text())
def test_nothing_is_lost(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(st.text(st.sampled_from("<|im_endstar> \n")))
def test_control_tokens_only_where_asked_for(tokenizer: Tokenizer, text: str) -> None:
    spelled = f"{text}<|im_end|>{text}"
    assert not set(tokenizer.encode(spelled)) & tokenizer.control_ids
    assert tokenizer.decode(tokenizer.encode(spelled)) == spelled
    assert tokenizer.control["<|im_end|>"] in tokenizer.encode(spelled, control=True)


def test_control_tokens_have_no_text(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("a<|im_end|>b<|endoftext|>", control=True)
    assert tokenizer.decode(ids) == "ab"
    assert tokenizer.control == {token: at for at, token in enumerate(CONTROL)}


def test_half_a_surrogate_pair_is_replaced(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode(tokenizer.encode("a\ud83d b")) == "a\ufffd b"
    assert tokenizer.decode(tokenizer.encode("\ud83d\ude00")) == "\U0001f600"


def test_bytes_without_a_token_are_left_out(tmp_path: Path) -> None:
    metadata = tiny_metadata()
    # The letter that stands for the byte 4 is taken away.
    metadata["tokenizer.ggml.tokens"] = [
        "gone" if token == chr(0x104) else token for token in metadata["tokenizer.ggml.tokens"]
    ]
    small = Tokenizer(read_gguf(write_gguf(tmp_path / "v.gguf", metadata, {})))
    assert small.decode(small.encode("a\x04b\x05")) == "ab\x05"
    assert small.encode("\x04") == []


def test_a_long_word_takes_no_time_squared(tokenizer: Tokenizer) -> None:
    # Three hundred thousand letters in one word: n² steps would not end today.
    assert len(tokenizer.encode("ab" * 150_000)) == 75_000


def test_more_words_than_are_remembered(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eval_toolkit.models.embedded.tokenizer._KNOWN_WORDS", 5)
    text = " ".join(f"w{letter}" for letter in "abcdefghijklmnop")
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert len(tokenizer._words) <= 5


# Text that grows


def grown(tokenizer: Tokenizer, text: str, stops: tuple[str, ...]) -> tuple[str, bool, int]:
    stream = TextStream(tokenizer, stops)
    taken = 0
    for token in tokenizer.encode(text):
        if stream.stopped:
            break
        stream.add(token)
        taken += 1
    return stream.finish(), stream.stopped, taken


@given(st.text(max_size=30), st.lists(st.text(min_size=1, max_size=3), max_size=3))
def test_a_text_ends_before_its_first_stop(
    tokenizer: Tokenizer, text: str, stops: list[str]
) -> None:
    found, stopped, _ = grown(tokenizer, text, tuple(stops))
    first = [text.find(stop) for stop in stops if stop in text]
    assert stopped == bool(first)
    # Where one stop lies inside another's place, the one that is complete first counts.
    if not first:
        assert found == text
    else:
        assert text.startswith(found)
        assert not any(stop in found for stop in stops)
        assert any(text.startswith(stop, len(found)) for stop in stops)


def test_a_stop_over_several_tokens_and_bytes(tokenizer: Tokenizer) -> None:
    # Each byte of é and of the emoji is a token of its own here.
    assert grown(tokenizer, "aé😀b and more", ("é😀b",)) == ("a", True, 8)
    assert grown(tokenizer, "one\n\ntwo", ("\n\n",))[:2] == ("one", True)


def test_half_a_character_at_the_end_is_replaced(tokenizer: Tokenizer) -> None:
    stream = TextStream(tokenizer)
    for token in tokenizer.encode("a😀")[:-1]:
        stream.add(token)
    assert stream.text == "a"
    assert stream.finish() == "a\ufffd"
