"""Similarities against scikit-learn and set arithmetic, the hash family against theory, real SMS."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics.pairwise import cosine_similarity

from eval_toolkit._internal.kernel import neardup
from eval_toolkit.text_dedup import (
    JaccardNgramStrategy,
    MinHashLSHStrategy,
    TfidfCosineStrategy,
    exact_duplicate_groups,
    near_dedup,
)

WORDS = (
    "the",
    "a",
    "cat",
    "dog",
    "sat",
    "ran",
    "on",
    "mat",
    "big",
    "red",
    "I",
    "x1",
    "it's",
    "naïve",
)
ANY_WORD = r"\w+"


def sentences(n, seed):
    generator = np.random.default_rng(seed)
    return [" ".join(generator.choice(WORDS, generator.integers(1, 9))) for _ in range(n)]


def square_of(strategy, texts):
    similarity, index = strategy.pairs_within(texts, len(texts))
    square = np.zeros((len(texts), len(texts)))
    np.put_along_axis(square, index, similarity, axis=1)
    return square


@pytest.mark.parametrize("ngram_range", [(1, 1), (1, 3), (1, 2)])
@pytest.mark.parametrize("min_df", [1, 3, 0.1])
@pytest.mark.parametrize("lowercase", [True, False])
def test_tfidf_is_that_of_scikit_learn(ngram_range, min_df, lowercase):
    texts = sentences(60, 5)  # with copies: they count as rows
    options = {"ngram_range": ngram_range, "min_df": min_df, "lowercase": lowercase}
    vectors = TfidfVectorizer(token_pattern=ANY_WORD, **options).fit_transform(texts)
    expected = cosine_similarity(vectors)
    for i, one in enumerate(texts):  # equal texts are similar, whatever their vectors
        expected[i, [one == other for other in texts]] = 1.0
    np.testing.assert_allclose(
        square_of(TfidfCosineStrategy(**options), texts), expected, atol=1e-11
    )


def test_tfidf_across_is_fitted_on_both_lists():
    query, reference = sentences(20, 1), sentences(30, 2)
    vectors = TfidfVectorizer(token_pattern=ANY_WORD, ngram_range=(1, 3)).fit_transform(
        query + reference
    )
    expected = cosine_similarity(vectors[:20], vectors[20:])
    similarity, index = TfidfCosineStrategy().pairs_across(query, reference, 30)
    np.testing.assert_allclose(np.take_along_axis(expected, index, axis=1), similarity, atol=1e-11)
    found = TfidfCosineStrategy().pairs_above_across(query, reference, 0.15)
    assert len(found) == (expected >= 0.15).sum() > 50


@pytest.mark.parametrize("shared", [20, 60, 90])
@pytest.mark.parametrize("rows", [1, 3])
def test_hashes_agree_as_often_as_theory_says(shared, rows):
    # Texts of 100 distinct code points, `shared` of them in both: J = shared / (200 - shared), and
    # r hashes agree together with probability Jʳ. The hash functions are the same for all pairs,
    # so the bound is wider than that of independent draws (which have a standard error of 0.001).
    generator = np.random.default_rng(shared)
    texts = []
    for _ in range(1500):
        points = generator.choice(np.arange(0x4E00, 0x9FFF), 200 - shared, replace=False)
        texts.append("".join(map(chr, points[:100])))
        texts.append("".join(map(chr, points[100 - shared :])))
    corpus = neardup._encoded(texts)
    keys = neardup.sketches(corpus, n=1, bands=240 // rows, rows=rows, seed=42).keys
    jaccard = shared / (200 - shared)
    agree = (keys[0::2] == keys[1::2]).mean()
    assert agree == pytest.approx(jaccard**rows, abs=0.005)
    # Each hash function by itself, too: none is degenerate.
    each = (keys[0::2] == keys[1::2]).mean(axis=0)
    error = np.sqrt(jaccard**rows * (1 - jaccard**rows) / 1500)
    assert np.abs(each - jaccard**rows).max() < 5.5 * error


def test_minhash_finds_what_the_exact_join_finds():
    generator = np.random.default_rng(8)
    words = ["".join(generator.choice(list("abcdefghijklmnop"), 5)) for _ in range(400)]
    texts = [" ".join(generator.choice(words, 14)) for _ in range(1500)]
    for row in range(1500):  # copies with one to three words changed: around and above 0.6
        changed = texts[row].split(" ")
        for _ in range(int(generator.integers(1, 4))):
            changed[int(generator.integers(14))] = str(generator.choice(words))
        texts.append(" ".join(changed))
    exact = JaccardNgramStrategy(n=5).pairs_above(texts, 0.6)
    found = MinHashLSHStrategy(n=5).pairs_above(texts, 0.6)
    truth = dict(
        zip(
            zip(exact.left.tolist(), exact.right.tolist(), strict=True),
            exact.similarity.tolist(),
            strict=True,
        )
    )
    pairs = list(zip(found.left.tolist(), found.right.tolist(), strict=True))
    assert len(truth) > 1000
    assert found.similarity.tolist() == [truth[pair] for pair in pairs]  # precision 1
    assert len(pairs) >= 0.995 * len(truth)


@pytest.fixture(scope="module")
def sms(shared_data):
    lines = (shared_data / "classification" / "sms_spam_collection.tsv").read_text("utf-8")
    return [line.partition("\t")[2] for line in lines.split("\n") if line]


def test_copies_among_real_messages(sms):
    # The collection's 5 574 messages hold 403 byte-identical copies of an earlier one, and 415
    # after normalisation; both are facts of the file.
    assert len(sms) == 5574
    for key, copies in ((str, 403), (None, 415)):
        options = {} if key is None else {"key": key}
        groups = exact_duplicate_groups(sms, **options)
        assert sum(len(group) - 1 for group in groups) == copies


def test_near_duplicates_among_real_messages(sms):
    exact = near_dedup(sms, 0.7, strategy=JaccardNgramStrategy(n=5))
    quick = near_dedup(sms, 0.7, strategy=MinHashLSHStrategy(n=5))
    assert exact.n_dropped > 415
    assert quick.n_dropped >= 0.995 * exact.n_dropped
    kept = [sms[row] for row in exact.kept_indices]
    assert len(JaccardNgramStrategy(n=5).pairs_above(kept, 0.7)) == 0
    assert near_dedup(sms).n_dropped >= 403
