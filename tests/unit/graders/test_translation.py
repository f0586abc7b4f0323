"""BLEU, chrF and TER: what the columns hold; against sacrebleu in tests/reference."""

import math

import numpy as np
import pytest

from eval_toolkit.errors import InvalidInputError, MissingExtraError
from eval_toolkit.graders import Bleu, ChrF, Ter, translation
from eval_toolkit.graders.translation import TEXT_LIMIT, corpus_bleu, corpus_chrf, corpus_ter
from eval_toolkit.models.responses import Completion


def answer(text, truth):
    return Completion(text, ground_truth=truth)


def test_counts_of_bleu_by_hand():
    # the cat is here / the cat is there: 3 of 4 words, 2 of 3 pairs, 1 of 2 triples, 0 of 1.
    grades = Bleu().grade(answer("the cat is here", "the cat is there"))
    counts = [grades[f"bleu_{part}_{n}"] for part in ("match", "total") for n in (1, 2, 3, 4)]
    assert counts == [3, 2, 1, 0, 4, 3, 2, 1]
    assert (grades["bleu_words"], grades["bleu_reference_words"]) == (4, 4)
    # "exp" counts half a match for the first order without one.
    assert grades["bleu"] == pytest.approx(100 * (3 / 4 * 2 / 3 * 1 / 2 * 1 / 2) ** (1 / 4))


def test_corpus_bleu_is_made_of_sums_not_of_means():
    lines = np.array([[4.0, 4, 4, 3, 2, 1, 4, 3, 2, 1], [8.0, 4, 0, 0, 0, 0, 8, 7, 6, 5]])
    both = corpus_bleu(lines.sum(axis=0)[None])[0]
    assert both == pytest.approx(100 * (4 / 12 * 3 / 10 * 2 / 8 * 1 / 6) ** (1 / 4))
    assert corpus_bleu(lines).tolist() == pytest.approx([100.0, 0.0])


def test_a_short_text_pays():
    row = np.array([[2.0, 4, 2, 1, 1, 1, 2, 1, 1, 1]])
    assert corpus_bleu(row)[0] == pytest.approx(100 * math.exp(1 - 4 / 2))


@pytest.mark.parametrize(
    ("function", "width"), [(corpus_bleu, 10), (corpus_chrf, 18), (corpus_ter, 2)]
)
def test_without_reference_words_there_is_no_corpus_score(function, width):
    assert np.isnan(function(np.zeros((1, width)))).all()


def test_chrf_by_hand():
    # "ab" and "abc" without blanks: 2 of 2 and 3 letters, 1 of 1 and 2 pairs, no longer ones in ab.
    grades = ChrF().grade(answer("a b", "abc"))
    precision, recall = (2 / 2 + 1 / 1) / 2, (2 / 3 + 1 / 2) / 2
    expected = 100 * 5 * precision * recall / (4 * precision + recall)
    assert grades["chrf"] == pytest.approx(expected)
    assert [grades[f"chrf_{part}_1"] for part in ("text", "reference", "match")] == [2, 3, 2]


def test_chrf_keeps_the_counts_of_the_best_reference():
    grades = ChrF().grade(answer("abcdef", ["xyz", "abcdef"]))
    assert grades["chrf"] == pytest.approx(100.0)
    assert grades["chrf_reference_1"] == 6


def test_ter_counts_edits_and_shifts():
    # One shift of "c d" to the front makes them equal: 1 edit over 4 words.
    assert Ter().grade(answer("a b c d", "c d a b"))["ter"] == 25.0
    assert Ter().grade(answer("A b", "a b"))["ter"] == 0.0
    assert Ter(case_sensitive=True).grade(answer("A b", "a b"))["ter"] == 50.0


def test_words_beyond_the_limit_of_ter_are_an_edit_each():
    grades = Ter(max_words=3).grade(answer("a b c d e", "a b c"))
    assert (grades["ter_edits"], grades["ter_cut"]) == (2.0, 1.0)
    assert Ter().grade(answer("a b c d e", "a b c"))["ter_edits"] == 2.0


def test_a_reference_that_ter_cannot_take_is_an_error_and_an_empty_one_is_skipped():
    long = Ter(max_words=3).grade(answer("a", "a b c d"))
    assert {grade.status for grade in long.values()} == {"error"}
    assert "`max_words`=3" in long["ter"].reason
    assert Ter().grade(answer("a", " "))["ter"].status == "skipped"


@pytest.mark.parametrize("grader", [Bleu(), ChrF()])
def test_a_long_text_is_cut_and_says_so(grader):
    assert grader.grade(answer("a" * TEXT_LIMIT, "a"))[f"{grader.name}_cut"] == 0.0
    assert grader.grade(answer("a" * TEXT_LIMIT + "b", "a"))[f"{grader.name}_cut"] == 1.0


@pytest.mark.parametrize("grader", [Bleu(), ChrF(), ChrF(word_order=2), Ter()])
def test_what_is_graded_is_what_is_announced_and_summed(grader):
    grades = grader.grade(answer("and so it is now", "and so it was now"))
    assert set(grades) == set(grader.columns())
    (metric,) = grader.metrics()
    assert metric.name == f"{grader.name}_corpus"
    assert set(metric.columns) <= set(grades)
    assert metric.higher_is_better is (grader.name != "ter")
    assert metric.of_sums([[grades[column] for column in metric.columns]])[0] > 0.0


def test_mistakes():
    with pytest.raises(InvalidInputError, match="`tokenise` is 'spm'; choose one of '13a'"):
        Bleu("spm")  # it would be fetched from a server
    with pytest.raises(InvalidInputError, match="`word_order`"):
        ChrF(-1)
    with pytest.raises(InvalidInputError, match="`max_words`"):
        Ter(max_words=0)
    with pytest.raises(InvalidInputError, match="no reference"):
        ChrF().grade(Completion("x"))


def test_without_sacrebleu_the_extra_is_named_before_a_model_is_asked(monkeypatch):
    def missing(module, **told):
        raise MissingExtraError(f"{told['feature']} requires {module}; {told['extra']}")

    monkeypatch.setattr(translation, "require", missing)
    for grader in (Bleu, Ter):
        with pytest.raises(MissingExtraError, match="text"):
            grader()
    assert ChrF().grade(answer("a", "a"))["chrf"] == 100.0  # needs none
