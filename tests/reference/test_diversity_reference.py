"""Diversity of texts against hand counts, scikit-learn, and leaving groups out one by one."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics.pairwise import cosine_similarity

from eval_toolkit.errors import InvalidInputError, InvalidTypeError, UndefinedMetricError
from eval_toolkit.inference import probe_similarity
from eval_toolkit.metrics import distinct_n, self_similarity

WORDS = ["tell", "me", "how", "to", "bake", "a", "cake", "without", "eggs", "or", "milk", "please"]


def some_texts(seed, n, longest=12):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(2, longest))) for _ in range(n)]


def gram_counts(texts, n):
    analyse = CountVectorizer(ngram_range=(n, n), tokenizer=str.split, token_pattern=None)
    return analyse.fit_transform(texts)


def cosines(texts, n):
    return cosine_similarity(gram_counts(texts, n))


def test_distinct_grams_by_hand():
    texts = ["a b a b", "b a", "c"]
    assert distinct_n(texts, 1) == 3 / 7  # a, b, c of a b a b b a c
    assert distinct_n(texts, 2) == 2 / 4  # ab, ba of ab ba ab ba
    assert distinct_n(texts, 3) == 1.0  # aba, bab
    assert distinct_n(["One, two!", "ONE two"], 2) == 0.5  # neither case nor punctuation counts


@pytest.mark.parametrize("n", [1, 2, 3])
def test_distinct_grams_of_scikit_learn(n):
    texts = some_texts(n, 40)
    counts = gram_counts(texts, n)
    assert distinct_n(texts, n) == pytest.approx(counts.shape[1] / counts.sum())


@pytest.mark.parametrize("n", [1, 2])
def test_self_similarity_is_the_mean_of_all_pairs(n):
    texts = some_texts(10 + n, 30)
    pairs = cosines(texts, n)[np.triu_indices(30, 1)]
    assert self_similarity(texts, n) == pytest.approx(pairs.mean(), abs=1e-12)


def test_self_similarity_by_hand():
    """Bigrams "a b", "b c" and "a b", "b d": half in common. Short and empty texts are one gram."""
    assert self_similarity(["a b c", "a b d"]) == pytest.approx(0.5)
    assert self_similarity(["a b a b", "a b"]) == pytest.approx(2 / math.sqrt(5))
    assert self_similarity(["yes", "Yes!", "no"]) == pytest.approx(1 / 3)
    assert self_similarity(["", " ", "?"]) == pytest.approx(1 / 3)


def between(texts, groups, n=2):
    """Mean cosine of all pairs of texts of different groups, pair by pair."""
    similar = cosines(texts, n)
    pairs = [(i, j) for i, j in itertools.combinations(range(len(texts)), 2)]
    return np.mean([similar[i, j] for i, j in pairs if groups[i] != groups[j]])


def test_similarity_between_groups_and_its_jackknife():
    """Every pair counted, and again without each group; the interval on the logit scale."""
    texts, groups = some_texts(5, 24), np.array([0] * 3 + [1] * 5 + [2, 3] * 4 + [4] * 8)
    ci = probe_similarity(texts, groups)
    point = between(texts, groups)
    without = np.array(
        [
            between(
                [t for t, g in zip(texts, groups, strict=True) if g != out], groups[groups != out]
            )
            for out in range(5)
        ]
    )
    se = math.sqrt(4 / 5 * np.square(without - without.mean()).sum())
    centre, reach = math.log(point / (1 - point)), stats.t.ppf(0.975, 4) * se / point / (1 - point)
    expected = [1 / (1 + math.exp(-x)) for x in (centre - reach, centre + reach)]
    assert ci.point_estimate == pytest.approx(point, abs=1e-12)
    assert [ci.ci_low, ci.ci_high] == pytest.approx(expected, rel=1e-8)
    assert (ci.n_units, ci.n_groups) == (24, 5)


@pytest.mark.parametrize(
    ("texts", "point"), [(["a b", "c d", "e f", "g h"], 0.0), (["a b"] * 4, 1.0)]
)
def test_without_spread_the_interval_is_what_two_pairs_never_showed(texts, point):
    """Four groups make two disjoint pairs: 1 − 0.025^(1/2) of all pairs may be otherwise."""
    ci = probe_similarity(texts, [1, 2, 3, 4])
    unseen = 1 - math.sqrt(0.025)
    assert ci.point_estimate == pytest.approx(point)
    assert [ci.ci_low, ci.ci_high] == pytest.approx(
        [point * (1 - unseen), point + (1 - point) * unseen]
    )
    assert ci.reason


def test_two_groups_have_a_value_and_a_wide_interval():
    ci = probe_similarity(["a b c", "a b d"], ["x", "y"])
    assert ci.point_estimate == pytest.approx(0.5)
    assert ci.ci_high - ci.ci_low == pytest.approx(0.975)


def test_refusals():
    with pytest.raises(UndefinedMetricError, match="fewer than 2 word"):
        distinct_n(["a", ""])
    with pytest.raises(UndefinedMetricError, match="a single text"):
        self_similarity(["a b"])
    with pytest.raises(UndefinedMetricError, match="one group"):
        probe_similarity(["a b", "b c"], [1, 1])
    with pytest.raises(InvalidInputError, match="`texts` is empty"):
        distinct_n([])
    with pytest.raises(InvalidTypeError, match="pass a list"):
        self_similarity("a b")
    with pytest.raises(InvalidTypeError, match=r"texts\[1\] is None"):
        self_similarity(["a", None])
    with pytest.raises(InvalidInputError, match="`n` is 0"):
        distinct_n(["a"], 0)
    with pytest.raises(InvalidInputError, match="`groups` has 1 rows"):
        probe_similarity(["a", "b"], [1])
