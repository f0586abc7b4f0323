"""Near-duplicates against brute force, over random texts of few letters."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval_toolkit._internal import kernel
from eval_toolkit._internal.kernel import neardup
from eval_toolkit.text_dedup import (
    EmbeddingCosineStrategy,
    ExactNormalizedHashStrategy,
    JaccardNgramStrategy,
    MinHashLSHStrategy,
    TfidfCosineStrategy,
    cross_dedup,
    cross_dedup_pairs,
    duplicate_clusters,
    exact_duplicate_groups,
    near_dedup,
    normalize_text_for_dedup,
)

letters = st.text(alphabet="ab é語", max_size=12)
text_lists = st.lists(letters, max_size=12)
thresholds = st.sampled_from([0.2, 1 / 3, 0.5, 0.6, 0.75, 0.9])


def letter_counts(texts):
    return np.array([[text.count(c) for c in "ab é語"] for text in texts], float).reshape(-1, 5)


EXACT = {
    "tfidf": TfidfCosineStrategy(),
    "tfidf pairs": TfidfCosineStrategy(ngram_range=(2, 2)),
    "exact": ExactNormalizedHashStrategy(),
    "embedding": EmbeddingCosineStrategy(letter_counts),
    "jaccard": JaccardNgramStrategy(n=2),
    "jaccard words": JaccardNgramStrategy(n=1, analyzer="word"),
}
exact_strategies = pytest.mark.parametrize("strategy", EXACT.values(), ids=EXACT)


def grams(text, n):
    return {text[i : i + n] for i in range(max(1, len(text) - n + 1))} if text else set()


def jaccard(a, b, n):
    one, other = (grams(normalize_text_for_dedup(text), n) for text in (a, b))
    return len(one & other) / len(one | other) if one or other else 1.0


def pair_list(found):
    return list(zip(*(column.tolist() for column in found), strict=True))


def all_similarities(strategy, texts):
    """Similarity of every two rows, from the neighbour lists: no threshold, no filter."""
    similarity, index = strategy.pairs_within(texts, max(len(texts), 1))
    square = np.zeros((len(texts), len(texts)))
    for row in range(len(texts)):
        square[row, index[row]] = similarity[row]
    return square


@given(texts=text_lists, threshold=thresholds, n=st.integers(1, 4))
def test_jaccard_pairs_are_those_of_brute_force(texts, threshold, n):
    expected = [
        (i, j, jaccard(texts[i], texts[j], n))
        for i in range(len(texts))
        for j in range(i + 1, len(texts))
        if jaccard(texts[i], texts[j], n) >= threshold
    ]
    assert pair_list(JaccardNgramStrategy(n=n).pairs_above(texts, threshold)) == expected


@given(query=text_lists, reference=text_lists, threshold=thresholds)
def test_jaccard_pairs_across_are_those_of_brute_force(query, reference, threshold):
    expected = [
        (i, j, jaccard(one, other, 3))
        for i, one in enumerate(query)
        for j, other in enumerate(reference)
        if jaccard(one, other, 3) >= threshold
    ]
    strategy = JaccardNgramStrategy()
    assert pair_list(strategy.pairs_above_across(query, reference, threshold)) == expected
    assert cross_dedup_pairs(reference, query, threshold, strategy=strategy) == expected
    seen = {i for i, _, _ in expected}
    kept = [i for i in range(len(query)) if i not in seen]
    assert cross_dedup(reference, query, threshold, strategy=strategy) == kept


@given(texts=text_lists, threshold=thresholds, n=st.integers(1, 4))
def test_minhash_never_invents_a_pair(texts, threshold, n):
    for i, j, similarity in pair_list(MinHashLSHStrategy(n=n).pairs_above(texts, threshold)):
        assert i < j
        assert similarity == jaccard(texts[i], texts[j], n) >= threshold


@exact_strategies
@given(texts=text_lists, threshold=thresholds)
def test_pairs_and_neighbours_tell_the_same(strategy, texts, threshold):
    square = all_similarities(strategy, texts)
    np.testing.assert_allclose(square, square.T, atol=1e-12)
    expected = [
        (i, j)
        for i in range(len(texts))
        for j in range(i + 1, len(texts))
        if square[i, j] >= threshold
    ]
    found = strategy.pairs_above(texts, threshold)
    assert list(zip(found.left.tolist(), found.right.tolist(), strict=True)) == expected
    assert found.similarity.tolist() == [square[pair] for pair in expected]


@exact_strategies
@given(texts=text_lists, k=st.integers(1, 14))
def test_neighbours_are_ordered_and_the_row_is_first(strategy, texts, k):
    similarity, index = strategy.pairs_within(texts, k)
    assert similarity.shape == index.shape == (len(texts), min(k, len(texts)))
    if texts:
        assert index[:, 0].tolist() == list(range(len(texts)))
        assert (np.diff(similarity, axis=1) <= 0).all()
        assert all(len(set(row)) == len(row) for row in index.tolist())


@exact_strategies
@given(texts=text_lists, threshold=thresholds)
def test_near_dedup_is_the_forward_scan(strategy, texts, threshold):
    square = all_similarities(strategy, texts)
    kept, dropped = [], []
    for row in range(len(texts)):
        reasons = [other for other in kept if square[row, other] >= threshold]
        if reasons:
            dropped.append((row, reasons[0], square[row, reasons[0]]))
        else:
            kept.append(row)
    report = near_dedup(texts, threshold, strategy=strategy)
    assert report.kept_indices == kept
    assert report.dropped_pairs == dropped
    assert all(square[i, j] < threshold for i in kept for j in kept if i != j)


@exact_strategies
@given(texts=text_lists, threshold=thresholds)
def test_clusters_are_the_connected_components(strategy, texts, threshold):
    square = all_similarities(strategy, texts) >= threshold
    cluster = list(range(len(texts)))
    for _ in texts:  # the smallest number spreads along the pairs
        cluster = [
            min([cluster[i], *(cluster[j] for j in np.flatnonzero(square[i]))])
            for i in range(len(texts))
        ]
    groups = [[i for i, c in enumerate(cluster) if c == first] for first in sorted(set(cluster))]
    expected = [group for group in groups if len(group) > 1]
    assert duplicate_clusters(texts, threshold, strategy=strategy) == expected


@given(texts=text_lists)
def test_exact_groups_are_those_of_brute_force(texts):
    forms = [" ".join(text.lower().split()) for text in texts]
    expected = [
        [i for i, form in enumerate(forms) if form == one]
        for one in dict.fromkeys(forms)
        if forms.count(one) > 1
    ]
    assert exact_duplicate_groups(texts) == expected


@given(text=st.text(max_size=20))
def test_the_normal_form_is_stable(text):
    form = normalize_text_for_dedup(text)
    assert form == " ".join(form.split())
    assert normalize_text_for_dedup(f"  {text}\t") == form
    assert normalize_text_for_dedup(form) == form


@pytest.mark.skipif(neardup.native is None, reason="the C kernel was not built")
@given(
    texts=st.lists(st.text(alphabet="abc 語🙂", max_size=30), max_size=25, unique=True),
    threshold=st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0]),
    n=st.integers(1, 6),
    bands=st.integers(1, 12),
    rows=st.integers(1, 4),
    limit=st.integers(2, 6),
    seed=st.integers(0, 2**64 - 1),
    data=st.data(),
)
def test_back_ends_agree(texts, threshold, n, bands, rows, limit, seed, data):
    boundary = data.draw(st.one_of(st.none(), st.integers(0, len(texts))))
    found = []
    for backend in ("native", "numpy"):
        with kernel.using(backend):
            found.append(
                neardup.similar_pairs(
                    texts,
                    n=n,
                    bands=bands,
                    rows=rows,
                    seed=seed,
                    threshold=threshold,
                    boundary=boundary,
                    limit=limit,
                )
            )
    native, plain = found
    assert pair_list((native.left, native.right, native.similarity)) == pair_list(
        (plain.left, plain.right, plain.similarity)
    )
    assert native.complete == plain.complete


@given(
    texts=st.lists(st.text(alphabet="abc", min_size=4, max_size=12), max_size=30),
    threshold=st.sampled_from([0.3, 0.5, 0.7]),
)
def test_large_buckets_do_not_change_what_is_kept(texts, threshold):
    strategy = MinHashLSHStrategy(n=2)
    expected = near_dedup(texts, threshold, strategy=strategy)
    clusters = duplicate_clusters(texts, threshold, strategy=strategy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neardup, "BUCKET_LIMIT", 2)
        report = near_dedup(texts, threshold, strategy=strategy)
        cut_clusters = duplicate_clusters(texts, threshold, strategy=strategy)
        seen = cross_dedup(texts[:9], texts[9:], threshold, strategy=strategy)
    assert report.kept_indices == expected.kept_indices
    assert all(reason in report.kept_indices for _, reason, _ in report.dropped_pairs)
    assert all(any(set(part) <= set(whole) for whole in clusters) for part in cut_clusters)
    assert seen == cross_dedup(texts[:9], texts[9:], threshold, strategy=strategy)
