"""ROUGE by hand; against rouge-score in tests/reference."""

import itertools

import pytest

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders import Rouge
from eval_toolkit.graders.rouge import WORD_LIMIT, common_subsequence_length
from eval_toolkit.models.responses import Completion


def rouge(text, truth, **options):
    return Rouge(**options).grade(Completion(text, ground_truth=truth))


def test_by_hand():
    # Words in common: the, cat, sat (3 of 4 and 5). Pairs in common: "the cat" (1 of 3 and 4).
    # In order: the, cat, sat. F1 = 2·common / (sizes of both).
    grades = rouge("the cat sat down", "today the cat has sat")
    assert grades["rouge_1"] == pytest.approx(6 / 9)
    assert grades["rouge_2"] == pytest.approx(2 / 7)
    assert grades["rouge_l"] == pytest.approx(6 / 9)
    assert grades["rouge_geometric_mean"] == pytest.approx((6 / 9 * 2 / 7 * 6 / 9) ** (1 / 3))
    assert grades["rouge_cut"] == 0.0


def test_order_counts_in_rouge_l_alone():
    grades = rouge("c b a", "a b c")
    assert (grades["rouge_1"], grades["rouge_2"]) == (1.0, 0.0)
    assert grades["rouge_l"] == pytest.approx(1 / 3)


def test_a_word_counts_as_often_as_both_have_it():
    assert rouge("a a a", "a b")["rouge_1"] == pytest.approx(2 / 5)


def test_the_best_reference_counts_for_each_column_by_itself():
    grades = rouge("a b c d", ["d c b a", "a b x y z"])
    assert grades["rouge_1"] == 1.0  # of the first
    assert grades["rouge_2"] == pytest.approx(2 / 7)  # of the second


def test_tokens_are_words_as_they_are_or_lower_cased_alphanumerics():
    assert rouge("The cat.", "the cat")["rouge_1"] == 0.0
    assert rouge("The cat.", "the cat", tokenise="rouge")["rouge_1"] == 1.0
    assert rouge("für", "f r", tokenise="rouge")["rouge_1"] == 1.0  # as rouge-score cuts it


@pytest.mark.parametrize(("text", "truth"), [("", "a"), ("a", ""), ("", ""), ("?", "!")])
def test_no_words_is_zero(text, truth):
    assert set(rouge(text, truth, tokenise="rouge").values()) == {0.0}


def test_what_is_beyond_the_limit_counts_in_the_length():
    grades = rouge("a b " + "x " * WORD_LIMIT + "c d", "a b c d")
    assert grades["rouge_cut"] == 1.0
    assert grades["rouge_1"] == pytest.approx(2 * 2 / (WORD_LIMIT + 4 + 4))
    assert rouge("x " * WORD_LIMIT, "x")["rouge_cut"] == 0.0


def test_longest_common_subsequence_by_trying_all():
    """Every subsequence of every text of up to five letters a and b, by force."""
    texts = ["".join(signs) for n in range(6) for signs in itertools.product("ab", repeat=n)]
    below = {
        text: {
            "".join(itertools.compress(text, kept))
            for kept in itertools.product((0, 1), repeat=len(text))
        }
        for text in texts
    }
    for one, other in itertools.product(texts[::2], texts):
        expected = max(map(len, below[one] & below[other]))
        assert common_subsequence_length(one, other) == expected, (one, other)


def test_names_and_mistakes():
    assert list(Rouge(name="r").columns()) == ["r_1", "r_2", "r_l", "r_geometric_mean", "r_cut"]
    assert Rouge("rouge").version == "1+tokenise='rouge'"
    with pytest.raises(InvalidInputError, match="`tokenise` is 'words'"):
        Rouge("words")
    with pytest.raises(InvalidInputError, match="no reference"):
        Rouge().grade(Completion("x"))
