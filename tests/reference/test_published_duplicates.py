"""A hundred articles with five planted plagiarisms: the published pairs are found, and no others.

The articles and the list of pairs lie beside the repository; they are those of Chris McCormick's
MinHash tutorial, cut to a hundred.
"""

import itertools
import json
import re

import pytest

from eval_toolkit.text_dedup import (
    JaccardNgramStrategy,
    MinHashLSHStrategy,
    TfidfCosineStrategy,
    duplicate_clusters,
    near_dedup,
)

THRESHOLD = 0.5


@pytest.fixture(scope="module")
def articles(shared_data):
    lines = (shared_data / "stats" / "minhash_articles_100.train").read_text("utf-8").splitlines()
    return dict(line.split(" ", 1) for line in lines)


@pytest.fixture(scope="module")
def plagiarised(shared_data):
    lines = (shared_data / "stats" / "minhash_articles_100.truth").read_text("utf-8").splitlines()
    return {frozenset(line.split()) for line in lines}


def named(articles, pairs):
    names = list(articles)
    rows = zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)
    return {frozenset((names[one], names[other])) for one, other in rows}


@pytest.mark.parametrize(
    "strategy",
    [
        JaccardNgramStrategy(n=3, analyzer="word"),
        MinHashLSHStrategy(n=9),
        TfidfCosineStrategy(ngram_range=(3, 3)),
    ],
    ids=["words", "minhash", "tfidf"],
)
def test_the_published_pairs_and_no_others(articles, plagiarised, strategy):
    assert len(articles) == 100
    found = strategy.pairs_above(list(articles.values()), THRESHOLD)
    assert named(articles, found) == plagiarised
    assert found.complete


def shingle_similarities(texts, words):
    """Jaccard similarity of every two texts' sets of three words in a row, by brute force."""
    sets = []
    for text in texts:
        found = words(text)
        sets.append({tuple(found[i : i + 3]) for i in range(len(found) - 2)})
    return [len(a & b) / len(a | b) for a, b in itertools.combinations(sets, 2)]


def test_similarities_of_word_shingles(articles, shared_data):
    cases = json.loads((shared_data / "reference" / "reference_cases_public.json").read_text())
    (case,) = (case for case in cases if case["id"] == "minhash-plagiarism-100")
    texts = list(articles.values())
    pairs = JaccardNgramStrategy(n=3, analyzer="word").pairs_above(texts, 0.05)
    assert [int((pairs.similarity >= THRESHOLD).sum())] == case["expected"]
    expected = shingle_similarities(texts, lambda text: re.findall(r"\w+", text.lower()))
    assert sorted(pairs.similarity) == pytest.approx(sorted(s for s in expected if s >= 0.05))
    # The case's note (0.978448 to 0.98062, the next pair at 0.1019) takes what stands between
    # spaces for a word; ours end at punctuation, so the figures differ in the third place.
    by_spaces = sorted(shingle_similarities(texts, str.split))
    assert by_spaces[-6:-4] == pytest.approx([0.1019, 0.978448], abs=5e-5)
    assert by_spaces[-1] == pytest.approx(0.98062, abs=5e-6)
    assert sorted(pairs.similarity)[-6:] == pytest.approx(by_spaces[-6:], abs=5e-3)


def test_one_of_each_pair_is_kept(articles, plagiarised):
    texts, names = list(articles.values()), list(articles)
    strategy = JaccardNgramStrategy(n=3, analyzer="word")
    clusters = duplicate_clusters(texts, THRESHOLD, strategy=strategy)
    assert {frozenset(names[row] for row in cluster) for cluster in clusters} == plagiarised
    assert near_dedup(texts, THRESHOLD, strategy=strategy).n_kept == 95
