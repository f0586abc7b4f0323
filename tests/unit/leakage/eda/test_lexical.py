"""Words that tell corpora apart: the formulas written out, symmetry, and what is refused."""

import json
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.each import each

from eval_toolkit.errors import InvalidInputError, InvalidTypeError, UndefinedMetricError
from eval_toolkit.leakage.eda.lexical import class_lexical_association, weighted_log_odds

A = ["Win a FREE prize now!", "free cash, free prize", "claim the prize"]
B = ["see you at noon", "the meeting is at noon now", "are you free at noon"]

words = st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=8).map(" ".join)
corpora = st.lists(words, min_size=1, max_size=6)


def monroe(corpus_a, corpus_b, scale):
    """The estimate of Monroe et al. (2008) term by term, with scalars."""
    a = Counter(word for text in corpus_a for word in text.split())
    b = Counter(word for text in corpus_b for word in text.split())
    vocabulary = set(a) | set(b)
    alpha = {word: scale * (a[word] + b[word]) for word in vocabulary}
    alpha_0 = sum(alpha.values())
    n_a, n_b = sum(a.values()), sum(b.values())
    found = {}
    for word in vocabulary:
        odds_a = (a[word] + alpha[word]) / (n_a + alpha_0 - a[word] - alpha[word])
        odds_b = (b[word] + alpha[word]) / (n_b + alpha_0 - b[word] - alpha[word])
        delta = math.log(odds_a) - math.log(odds_b)
        variance = 1 / (a[word] + alpha[word]) + 1 / (b[word] + alpha[word])
        found[word] = delta, delta / math.sqrt(variance)
    return found


def pmi(word, own, other):
    """Bits by which the joint probability exceeds the product of the marginal ones."""
    tokens = [
        (word, side)
        for side, corpus in enumerate((own, other))
        for text in corpus
        for word in text.split()
    ]
    joint = sum(token == (word, 0) for token in tokens) / len(tokens)
    p_word = sum(token[0] == word for token in tokens) / len(tokens)
    p_own = sum(token[1] == 0 for token in tokens) / len(tokens)
    return math.log2(joint / (p_word * p_own)) if joint else None


def near(expected):
    """The rounding of logarithms grows with them; beside 0 it is absolute. None is itself."""
    return None if expected is None else pytest.approx(expected, rel=1e-9, abs=1e-12)


def comparable(corpus_a, corpus_b):
    return len({word for text in (*corpus_a, *corpus_b) for word in text.split()}) > 1


@given(corpora, corpora, st.sampled_from([0.001, 0.01, 0.5, 3.0]))
@example(["b a b b b b"], ["b b b b b", "b"], 0.001)  # log odds of -11.7: 1.3e-12 of rounding
def test_equals_the_formulas_written_out(corpus_a, corpus_b, scale):
    if not comparable(corpus_a, corpus_b):
        with pytest.raises(UndefinedMetricError, match="the only term"):
            weighted_log_odds(corpus_a, corpus_b)
        return
    found = weighted_log_odds(corpus_a, corpus_b, prior_scale=scale, min_count=1)
    expected = monroe(corpus_a, corpus_b, scale)
    assert {one.term for one in found.terms} == set(expected)
    for one in found.terms:
        assert (one.log_odds, one.z) == near(expected[one.term])
        assert one.pmi_a == near(pmi(one.term, corpus_a, corpus_b))
        assert one.pmi_b == near(pmi(one.term, corpus_b, corpus_a))


@given(corpora.filter(lambda texts: comparable(texts, [])), corpora)
def test_swapping_the_corpora_turns_the_sign(corpus_a, corpus_b):
    one = {term.term: term for term in weighted_log_odds(corpus_a, corpus_b, min_count=1).terms}
    other = {term.term: term for term in weighted_log_odds(corpus_b, corpus_a, min_count=1).terms}
    for word, term in one.items():
        assert other[word].z == near(-term.z)
        assert (other[word].count_a, other[word].pmi_a) == (term.count_b, term.pmi_b)


def test_terms_are_ordered_and_rare_ones_count_as_tokens_only():
    found = weighted_log_odds(A, B, min_count=3)
    assert [one.term for one in found.terms] == ["free", "prize", "at", "noon"]
    assert [one.z for one in found.terms] == sorted((one.z for one in found.terms), reverse=True)
    assert (found.n_tokens_a, found.n_tokens_b) == (12, 15)
    everything = weighted_log_odds(A, B, min_count=1)
    assert found.n_rare == len(everything.terms) - 4
    assert set(found.terms) <= set(everything.terms)


def test_a_stronger_prior_draws_terms_towards_zero():
    weak, strong = (weighted_log_odds(A, B, prior_scale=s, min_count=1) for s in (0.01, 10.0))
    assert abs(strong.terms[0].log_odds) < abs(weak.terms[0].log_odds)


def test_typical_terms_leave_out_the_other_side():
    found = weighted_log_odds(A, B, min_count=2)
    assert [one.term for one in found.typical_of_a(1)] == ["free"]
    assert [one.term for one in found.typical_of_b(2)] == ["at", "noon"]
    assert all(one.z > 0 for one in found.typical_of_a(1000))
    assert all(one.z < 0 for one in found.typical_of_b(1000))


def test_equal_corpora_have_nothing_typical():
    found = weighted_log_odds(A, A, min_count=1)
    assert {one.z for one in found.terms} == {0.0}
    assert found.typical_of_a() == found.typical_of_b() == ()


def test_tokenizer_is_used_as_given():
    found = weighted_log_odds(["ab", "AB"], ["cd"], min_count=1, tokenizer=list)
    assert {one.term: one.count_a for one in found.terms} == {
        "a": 1, "b": 1, "A": 1, "B": 1, "c": 0, "d": 0
    }  # fmt: skip


def test_classes_are_corpora():
    texts = [*A, *B]
    by_class = class_lexical_association(
        texts, ["spam"] * 3 + ["ham", "news", "ham"], positive_label="spam"
    )
    assert by_class == weighted_log_odds(A, B)
    assert class_lexical_association(texts, np.array([1, 1, 1, 0, 0, 0])) == by_class


def test_to_dict_is_strict_json():
    payload = weighted_log_odds(A, B, min_count=1).to_dict()
    assert json.loads(json.dumps(payload, allow_nan=False)) == payload
    assert None in [term["pmi_b"] for term in payload["terms"]]


@each(
    ("a", "b", "options", "error", "message"),
    [
        ("one text", B, {}, InvalidTypeError, "`corpus_a` is a single string"),
        (A, [], {}, InvalidInputError, "`corpus_b` is empty"),
        (A, ["x", None], {}, InvalidTypeError, r"corpus_b\[1\] is None"),
        (A, 3, {}, InvalidTypeError, "`corpus_b` must be a list of strings"),
        (A, ["!!!", ""], {}, UndefinedMetricError, "`corpus_b` contains no terms"),
        (["x"], ["x x"], {}, UndefinedMetricError, "the only term is 'x'"),
        (A, B, {"prior_scale": 0.0}, InvalidInputError, "`prior_scale` is 0.0"),
        (A, B, {"prior_scale": math.inf}, InvalidInputError, "`prior_scale` is inf"),
        (A, B, {"min_count": 0}, InvalidInputError, "`min_count` is 0"),
        (A, B, {"tokenizer": str.upper}, InvalidTypeError, r"returned 'WIN A FREE .* corpus_a\[0\]"),
        (A, B, {"tokenizer": len}, InvalidTypeError, "it must return a list of terms"),
        (A, B, {"tokenizer": lambda text: [text, 7]}, InvalidTypeError, "the term 7"),
    ],
)  # fmt: skip
def test_what_is_refused(a, b, options, error, message):
    with pytest.raises(error, match=message):
        weighted_log_odds(a, b, **options)


@pytest.mark.parametrize(
    ("labels", "positive", "message"),
    [
        ([1, 0], 1, "`labels` has 2 rows but `texts` has 3"),
        ([1, None, 0], 1, r"labels\[1\] is missing"),
        ([1.0, math.nan, 0.0], 1, r"labels\[1\] is missing"),
        ([0, 0, 0], 1, "no label is 1"),
        ([1, 1, 1], 1, "every label is 1"),
        (["1", "0", "1"], 1, "no label is 1"),
    ],
)
def test_labels_that_are_refused(labels, positive, message):
    with pytest.raises(InvalidInputError, match=message):
        class_lexical_association(A, labels, positive_label=positive)
