"""Near-duplicates: normalisation, the strategies' contract, and what the functions promise."""

import json

import numpy as np
import pytest
from tests.support.each import each

from eval_toolkit import text_dedup
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.protocols import SimilarityStrategy
from eval_toolkit.text_dedup import (
    DEFAULT_DEDUP_THRESHOLD,
    EmbeddingCosineStrategy,
    ExactNormalizedHashStrategy,
    JaccardNgramStrategy,
    MinHashLSHStrategy,
    SimilarPairs,
    TfidfCosineStrategy,
    audit_source_label_similarity,
    cross_dedup,
    cross_dedup_pairs,
    duplicate_clusters,
    exact_duplicate_groups,
    near_dedup,
    normalize_text_for_dedup,
    sha256_text,
)


def letter_counts(texts):
    return np.array([[text.lower().count(c) for c in "abcdefghijklmnop "] for text in texts], float)


STRATEGIES = {
    "tfidf": TfidfCosineStrategy(),
    "exact": ExactNormalizedHashStrategy(),
    "embedding": EmbeddingCosineStrategy(letter_counts),
    "jaccard": JaccardNgramStrategy(),
    "jaccard words": JaccardNgramStrategy(n=1, analyzer="word"),
    "minhash": MinHashLSHStrategy(),
}


@pytest.fixture(params=STRATEGIES)
def strategy(request):
    return STRATEGIES[request.param]


# ---- Normalisation and equal texts -----------------------------------------------------------


@each(
    ("text", "form"),
    [
        ("", ""),
        (" \t\n ", ""),
        ("  A  b\r\nC ", "a b c"),
        ("a\u00a0b\u3000c\u2028d", "a b c d"),
        ("a\x1cb", "a b"),
        ("E\u0301", "é"),
        ("H\u0331", "\u1e96"),  # h with line below is composed in lower case only
        ("日本 語", "日本 語"),
        ("\ud800 X", "\ud800 x"),
    ],
)
def test_normal_form(text, form):
    assert normalize_text_for_dedup(text) == form
    assert normalize_text_for_dedup(form) == form


def test_only_text_is_normalised():
    with pytest.raises(TypeError, match=r"^`text` must be a str, got int: 5$"):
        normalize_text_for_dedup(5)
    with pytest.raises(TypeError, match="must be a str"):
        sha256_text(None, normalize=False)


def test_sha256_of_known_texts():
    # Published test vectors of SHA-256: the empty message and "abc" (FIPS 180-4 examples).
    assert sha256_text("").startswith("e3b0c44298fc1c14")
    assert sha256_text("abc").startswith("ba7816bf8f01cfea")
    assert sha256_text(" ABC ") == sha256_text("abc")
    assert sha256_text("ABC", normalize=False) != sha256_text("abc")


def test_groups_of_equal_texts():
    assert exact_duplicate_groups([]) == []
    assert exact_duplicate_groups(["a", "b"]) == []
    assert exact_duplicate_groups(["b", "a", "A ", "c", "B", "a"]) == [[0, 4], [1, 2, 5]]
    assert exact_duplicate_groups(["a", "A"], key=str) == []
    with pytest.raises(TypeError, match=r"^texts\[1\] is 3; `texts` must contain str$"):
        exact_duplicate_groups(("a", 3))
    assert exact_duplicate_groups([3, 1, 3, 1, 3], key=int) == [[0, 2, 4], [1, 3]]


def sure_threshold(strategy):
    """Similarity from which every pair is found."""
    return 0.9 if isinstance(strategy, MinHashLSHStrategy) else 0.5


# ---- The contract of a strategy --------------------------------------------------------------

TEXTS = [
    "win a free prize now",
    "are you coming home tonight",
    "win a free prize today",
    "Win a  free prize now",
    "",
    "!!!",
    "x",
    "日本語のテキスト",
    "日本語のテキスト。",
    "win a free prize now",
]


def test_strategies_follow_the_protocol(strategy):
    assert isinstance(strategy, SimilarityStrategy)


@pytest.mark.parametrize("k", [1, 3, 10, 50])
def test_neighbours_within_have_the_row_itself_first(strategy, k):
    similarity, index = strategy.pairs_within(TEXTS, k)
    width = min(k, len(TEXTS))
    assert similarity.shape == index.shape == (len(TEXTS), width)
    assert index[:, 0].tolist() == list(range(len(TEXTS)))
    assert (similarity[:, 0] == 1.0).all()
    assert (np.diff(similarity, axis=1) <= 0).all()
    assert all(len(set(row)) == width for row in index.tolist())
    assert similarity.min() >= 0.0
    assert similarity.max() <= 1.0


@pytest.mark.parametrize("k", [1, 2, 9])
def test_neighbours_across_are_ordered(strategy, k):
    query, reference = TEXTS[:4], TEXTS[2:]
    similarity, index = strategy.pairs_across(query, reference, k)
    width = min(k, len(reference))
    assert similarity.shape == index.shape == (len(query), width)
    assert (np.diff(similarity, axis=1) <= 0).all()
    assert index.min() >= 0
    assert index.max() < len(reference)
    assert all(len(set(row)) == width for row in index.tolist())
    assert similarity[2, 0] == 1.0  # the third query is the first reference
    assert similarity[0, 0] == 1.0


def test_empty_lists_give_empty_arrays(strategy):
    for similarity, index in (
        strategy.pairs_within([], 3),
        strategy.pairs_across([], ["a"], 3),
        strategy.pairs_across(["a"], [], 3),
    ):
        assert similarity.size == 0
        assert index.size == 0
    assert len(strategy.pairs_above([], 0.5)) == 0
    assert len(strategy.pairs_above_across([], ["a"], 0.5)) == 0
    assert len(strategy.pairs_above_across(["a"], [], 0.5)) == 0


def test_pairs_above_agree_with_neighbours(strategy):
    similarity, index = strategy.pairs_within(TEXTS, len(TEXTS))
    least = sure_threshold(strategy)
    found = strategy.pairs_above(TEXTS, least)
    expected = {
        (i, int(j)): s
        for i in range(len(TEXTS))
        for j, s in zip(index[i], similarity[i], strict=True)
        if i < j and s >= least
    }
    pairs = list(zip(found.left.tolist(), found.right.tolist(), strict=True))
    assert pairs == sorted(expected)
    assert found.similarity.tolist() == [expected[pair] for pair in pairs]
    assert {(0, 3), (0, 9)} <= set(pairs)
    assert found.complete


def test_pairs_across_agree_with_neighbours(strategy):
    query, reference = TEXTS[:5], TEXTS[3:]
    similarity, index = strategy.pairs_across(query, reference, len(reference))
    least = sure_threshold(strategy)
    found = strategy.pairs_above_across(query, reference, least)
    expected = {
        (i, int(j)): s
        for i in range(len(query))
        for j, s in zip(index[i], similarity[i], strict=True)
        if s >= least
    }
    pairs = list(zip(found.left.tolist(), found.right.tolist(), strict=True))
    assert pairs == sorted(expected)
    assert found.similarity.tolist() == [expected[pair] for pair in pairs]
    assert {(3, 0), (4, 1), (0, 6)} <= set(pairs)


def test_bad_input_of_strategies_is_one_line(strategy):
    with pytest.raises(TypeError, match=r"^`texts` must be a list of str, got tuple; pass list"):
        strategy.pairs_above(("a",), 0.5)
    with pytest.raises(TypeError, match=r"^texts\[1\] is 3; `texts` must contain str$"):
        strategy.pairs_above(["a", 3], 0.5)
    with pytest.raises(TypeError, match=r"^reference\[0\] is None"):
        strategy.pairs_across(["a"], [None], 1)
    with pytest.raises(InvalidInputError, match=r"`threshold` is 0.*lie in \(0, 1\]"):
        strategy.pairs_above(["a"], 0.0)
    with pytest.raises(InvalidInputError, match="`k_neighbors` is 0; it must be at least 1"):
        strategy.pairs_within(["a"], 0)


# ---- Single strategies -----------------------------------------------------------------------


def test_tfidf_works_without_words():
    strategy = TfidfCosineStrategy()
    similarity, _ = strategy.pairs_within(["x", "y"], 2)
    assert similarity.tolist() == [[1.0, 0.0], [1.0, 0.0]]
    assert near_dedup(["!!!", "???", "", " ", "🙂", "!!!"]).kept_indices == [0, 1, 2, 3, 4]
    left, right, similarity = strategy.pairs_above(["🙂🙂", "🙂 🙂", "?"], 0.9)
    assert (left.tolist(), right.tolist(), similarity.tolist()) == ([0], [1], [1.0])


def test_tfidf_leaves_rare_grams_out():
    texts = ["red car", "red bike", "red red"]
    strict = TfidfCosineStrategy(ngram_range=(1, 1), min_df=2)
    assert strict.pairs_above(texts, 0.99).similarity.tolist() == [1.0, 1.0, 1.0]
    share = TfidfCosineStrategy(ngram_range=(1, 1), min_df=0.5)
    assert len(share.pairs_above(texts, 0.99)) == 3
    nothing = TfidfCosineStrategy(min_df=9)
    assert len(nothing.pairs_above(texts, 0.5)) == 0
    assert nothing.pairs_within(texts, 1)[0].tolist() == [[1.0]] * 3
    assert nothing.pairs_above_across(["red"], ["red"], 0.5).similarity.tolist() == [1.0]


def test_tfidf_case():
    assert len(TfidfCosineStrategy().pairs_above(["Red car", "red CAR"], 0.9)) == 1
    assert len(TfidfCosineStrategy(lowercase=False).pairs_above(["Red car", "red CAR"], 0.9)) == 0


@each(
    ("make", "message"),
    [
        (lambda: TfidfCosineStrategy(ngram_range=(2, 1)), r"`ngram_range\[1\]` is 1.*at least 2"),
        (lambda: TfidfCosineStrategy(ngram_range=3), r"`ngram_range` is 3; it must be \(shortest"),
        (lambda: TfidfCosineStrategy(min_df=0), "`min_df` is 0; it must be at least 1"),
        (lambda: TfidfCosineStrategy(min_df=1.5), "`min_df` is 1.5"),
        (lambda: EmbeddingCosineStrategy("model"), "`embedder` must be callable, got 'model'"),
        (lambda: JaccardNgramStrategy(n=0), "`n` is 0; it must be at least 1"),
        (lambda: JaccardNgramStrategy(analyzer="byte"), "`analyzer` is 'byte'; choose one of"),
        (lambda: MinHashLSHStrategy(num_perm=4), "`num_perm` is 4; it must be at least 8"),
        (lambda: MinHashLSHStrategy(num_perm=100, bands=16), "divisible by `bands` \\(16\\)"),
        (lambda: MinHashLSHStrategy(seed=-1), "`seed` is -1"),
    ],
)
def test_bad_parameters_are_refused(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ([1.0, 2.0], r"returned shape \(2,\) for 2 texts"),
        ([[1.0, 2.0]], r"returned shape \(1, 2\) for 2 texts"),
        ([[1.0], [2.0, 3.0]], "rows of different lengths"),
        ([["a"], ["b"]], "must return numbers"),
        ([[1.0], [float("nan")]], "nan or inf for 'b'"),
    ],
)
def test_bad_embeddings_are_refused(output, message):
    strategy = EmbeddingCosineStrategy(lambda texts: output)
    with pytest.raises(ValueError, match=message):
        strategy.pairs_above(["a", "b"], 0.5)


def test_an_embedding_of_zeros_resembles_nothing_but_its_copies():
    strategy = EmbeddingCosineStrategy(lambda texts: [[float(text == "a"), 0.0] for text in texts])
    found = strategy.pairs_above(["a", "b", "c", "b"], 0.5)
    assert (found.left.tolist(), found.right.tolist()) == ([1], [3])


def test_jaccard_of_short_and_empty_texts():
    strategy = JaccardNgramStrategy(n=3, normalize=False)
    left, right, similarity = strategy.pairs_above(["", "", "ab", "abc", "ab", "ba"], 0.1)
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == [(0, 1), (2, 4)]
    assert similarity.tolist() == [1.0, 1.0]
    assert len(strategy.pairs_above_across([""], ["", "a"], 0.1)) == 1
    words = JaccardNgramStrategy(n=2, analyzer="word")
    # {one two, two three} and {two three, three four}: 1 of 3 bigrams
    assert words.pairs_above(["one two three", "two three four"], 0.3).similarity == pytest.approx(
        [1 / 3]
    )


# ---- near_dedup ------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 21, 50, 100, 2500])
def test_of_equal_rows_one_is_kept(strategy, n):
    report = near_dedup(["the same text"] * n, strategy=strategy)
    assert report.kept_indices == [0]
    assert report.dropped_pairs == [(row, 0, 1.0) for row in range(1, n)]
    assert (report.n_input, report.n_kept, report.n_dropped) == (n, 1, n - 1)


def test_a_row_goes_only_if_it_resembles_a_kept_row():
    # abcd ~ abcde ~ abcdef at 2/3 and 3/4, but abcd and abcdef share 2 of 4 trigrams.
    chain = ["abcd", "abcde", "abcdef"]
    strategy = JaccardNgramStrategy()
    assert near_dedup(chain, 0.6, strategy=strategy).kept_indices == [0, 2]
    assert near_dedup(chain, 0.6, strategy=strategy).dropped_pairs == [(1, 0, 2 / 3)]
    assert duplicate_clusters(chain, 0.6, strategy=strategy) == [[0, 1, 2]]
    assert near_dedup(chain, 0.5, strategy=strategy).kept_indices == [0]


def test_the_reason_of_a_dropped_copy_is_a_kept_row():
    texts = ["abcdef", "abcdeg", "zzz", "abcdeg", "abcdef"]
    report = near_dedup(texts, 0.6, strategy=JaccardNgramStrategy())
    assert report.kept_indices == [0, 2]
    assert report.dropped_pairs == [(1, 0, 0.6), (3, 0, 0.6), (4, 0, 1.0)]
    assert json.loads(json.dumps(report.to_dict()))["dropped_pairs"][0] == [1, 0, 0.6]


def test_defaults_are_tfidf_at_0_9():
    assert DEFAULT_DEDUP_THRESHOLD == 0.9
    report = near_dedup(["one two three four", "one two three five", "One two three four."])
    assert report.threshold == 0.9
    assert report.kept_indices == [0, 1]


@pytest.mark.parametrize("threshold", [0.0, 1.0, -1, float("nan"), "high", True, None])
def test_thresholds_outside_the_unit_interval_are_refused(threshold):
    for call in (near_dedup, duplicate_clusters):
        with pytest.raises(ValueError, match="`threshold`"):
            call(["a"], threshold)


@pytest.mark.parametrize(
    "strategy", [ExactNormalizedHashStrategy(), JaccardNgramStrategy(), MinHashLSHStrategy()]
)
def test_a_threshold_of_1_asks_for_equal_texts(strategy):
    """Their similarities are quotients of counts: equal texts have exactly 1."""
    texts = ["win cash now", "hello there", " Win  cash NOW", "win cash now!"]
    assert near_dedup(texts, 1.0, strategy=strategy).dropped_pairs == [(2, 0, 1.0)]
    assert duplicate_clusters(texts, 1.0, strategy=strategy) == [[0, 2]]
    assert cross_dedup(texts[:2], texts[2:], 1.0, strategy=strategy) == [1]
    assert audit_source_label_similarity(texts, threshold=1.0, strategy=strategy).n_findings == 1
    for threshold in (0.0, 1.01):
        with pytest.raises(InvalidInputError, match=r"`threshold` is .*; it must lie in \(0, 1\]"):
            near_dedup(texts, threshold, strategy=strategy)


def test_a_threshold_of_1_is_refused_where_similarities_are_rounded():
    for strategy in (None, TfidfCosineStrategy(), EmbeddingCosineStrategy(lambda texts: [[1.0]])):
        with pytest.raises(
            InvalidInputError, match=r"in \(0, 1\); 1 is only allowed for ExactNormalizedHash"
        ):
            near_dedup(["a"], 1.0, strategy=strategy)


def test_bad_input_is_one_line():
    with pytest.raises(TypeError, match=r"^`texts` must be a list of str, got str"):
        near_dedup("abc")
    with pytest.raises(TypeError, match=r"^eval_texts\[0\] is 1; `eval_texts` must contain str$"):
        cross_dedup(["a"], [1])
    with pytest.raises(TypeError, match=r"^`train_texts` must be a list"):
        cross_dedup_pairs(np.array(["a"]), ["a"])
    with pytest.raises(InvalidInputError, match="`k_neighbors` is 0"):
        near_dedup(["a"], 0.5, 0)
    with pytest.raises(
        InvalidTypeError, match="`strategy` must have pairs_within and pairs_across"
    ):
        near_dedup(["a"], strategy=object())


def test_nothing_in_nothing_out():
    assert near_dedup([]).kept_indices == []
    assert cross_dedup([], ["a"]) == [0]
    assert cross_dedup(["a"], []) == []
    assert cross_dedup_pairs([], []) == []
    assert duplicate_clusters([]) == []
    assert audit_source_label_similarity([]).findings == []


# ---- cross_dedup -----------------------------------------------------------------------------


def test_evaluation_rows_seen_in_training_go(strategy):
    train = ["win a free prize now", "hello"] + ["copy"] * 30
    evaluation = ["WIN a free prize now", "unseen words here", "copy", "hello", "copy"]
    assert cross_dedup(train, evaluation, strategy=strategy) == [1]
    pairs = cross_dedup_pairs(train, evaluation, strategy=strategy)
    assert [pair for pair in pairs if pair[0] == 2] == [(2, 2 + i, 1.0) for i in range(30)]
    assert (3, 1, 1.0) in pairs


# ---- Strategies of other people --------------------------------------------------------------


class Foreign:
    """Jaccard of letters by brute force, with no method beyond the protocol."""

    def __init__(self):
        self.asked = []

    def _ranked(self, query, reference, k, own):
        sets = [set(text) for text in reference]
        rows = []
        for i, text in enumerate(query):
            value = [len(set(text) & s) / max(1, len(set(text) | s)) for s in sets]
            order = sorted(range(len(sets)), key=lambda j: (not (own and i == j), -value[j], j))
            rows.append([(value[j], j) for j in order[:k]])
        array = np.array(rows).reshape(len(query), min(k, len(reference)), 2)
        return array[..., 0], array[..., 1].astype(int)

    def pairs_within(self, texts, k_neighbors):
        self.asked.append((len(texts), k_neighbors))
        return self._ranked(texts, texts, k_neighbors, True)

    def pairs_across(self, query, reference, k_neighbors):
        self.asked.append((len(query), len(reference), k_neighbors))
        return self._ranked(query, reference, k_neighbors, False)


def test_a_foreign_strategy_is_asked_until_complete():
    anagrams = ["abc" + "a" * i for i in range(40)]
    foreign = Foreign()
    report = near_dedup([*anagrams, "xyz"], 0.9, 4, strategy=foreign)
    assert report.kept_indices == [0, 40]
    assert foreign.asked == [(41, 4), (41, 8), (41, 16), (41, 32), (41, 41)]
    foreign.asked.clear()
    assert near_dedup(["ab", "cd", "ef", "gh", "ij"], 0.9, 2, strategy=foreign).n_kept == 5
    assert foreign.asked == [(5, 2)]


def test_a_foreign_strategy_across():
    foreign = Foreign()
    train = ["abc" + "a" * i for i in range(10)]
    pairs = cross_dedup_pairs(train, ["cab", "xyz"], 0.9, 3, strategy=foreign)
    assert pairs == [(0, row, 1.0) for row in range(10)]
    assert cross_dedup(train, ["cab", "xyz"], 0.9, 3, strategy=foreign) == [1]
    assert foreign.asked[:3] == [(2, 10, 3), (2, 10, 6), (2, 10, 10)]


def test_equal_texts_are_collapsed_before_a_foreign_strategy_sees_them():
    foreign = Foreign()
    assert near_dedup(["same"] * 500, strategy=foreign).kept_indices == [0]
    assert foreign.asked == [(1, 1)]


def test_a_foreign_strategy_may_bring_its_own_pairs():
    class WithPairs(Foreign):
        def pairs_above(self, texts, threshold):
            return [0], [2], [0.95]

        def pairs_above_across(self, query, reference, threshold):
            return [1], [0], [0.95]

    foreign = WithPairs()
    assert near_dedup(["a", "b", "c"], strategy=foreign).dropped_pairs == [(2, 0, 0.95)]
    assert cross_dedup_pairs(["a"], ["b", "c"], strategy=foreign) == [(1, 0, 0.95)]
    assert foreign.asked == []


def test_wrong_shapes_of_a_foreign_strategy_are_named():
    class Wrong(Foreign):
        def pairs_within(self, texts, k_neighbors):
            return np.zeros((1, 1)), np.zeros((1, 1))

    with pytest.raises(
        InvalidInputError, match=r"Wrong returned shapes \(1, 1\).*must be \(2, 2\)"
    ):
        near_dedup(["a", "b"], strategy=Wrong())


# ---- The audit -------------------------------------------------------------------------------

AUDITED = ["win cash now", "hello there", "Win cash now", "hello  there", "alone"]
SOURCES = ["a", "a", "b", "a", "b"]
LABELS = np.array([1, 0, 0, 0, 1])


def test_the_audit_names_relations():
    report = audit_source_label_similarity(AUDITED, sources=SOURCES, labels=LABELS)
    found = [(f.left_index, f.right_index, f.relation) for f in report.findings]
    assert found == [(0, 2, "cross_source_cross_label"), (1, 3, "within_source_same_label")]
    first = report.findings[0]
    assert (first.left_source, first.right_source) == ("a", "b")
    assert (first.left_label, first.right_label) == (1, 0)
    assert report.n_findings == 2
    assert (report.strategy, report.k_neighbors, report.n_input) == ("TfidfCosineStrategy", 20, 5)
    assert json.loads(json.dumps(report.to_dict()))["findings"][0]["relation"] == first.relation


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({"include_within_source": False}, [0]),
        ({"include_cross_source": False}, [1]),
        ({"include_same_label": False}, [0]),
        ({"include_cross_label": False}, [1]),
        ({"include_cross_label": False, "include_within_source": False}, []),
    ],
)
def test_the_audit_lists_what_was_asked_for(options, left):
    report = audit_source_label_similarity(AUDITED, sources=SOURCES, labels=LABELS, **options)
    assert [f.left_index for f in report.findings] == left


def test_the_audit_without_sources_or_labels():
    relations = {f.relation for f in audit_source_label_similarity(AUDITED).findings}
    assert relations == {"unspecified"}
    by_label = audit_source_label_similarity(AUDITED, labels=LABELS).findings
    assert [f.relation for f in by_label] == ["cross_label", "same_label"]
    assert by_label[0].left_source is None


def test_the_audit_is_ordered_by_similarity_and_complete():
    texts = ["abcdef", "abcdeg", *["zz top"] * 30]
    report = audit_source_label_similarity(texts, threshold=0.5, strategy=JaccardNgramStrategy())
    similarity = [f.similarity for f in report.findings]
    assert similarity == sorted(similarity, reverse=True)
    assert report.n_findings == 1 + 30 * 29 // 2
    assert report.complete


def test_the_audit_needs_a_source_and_a_label_per_row():
    with pytest.raises(InvalidInputError, match="`sources` has 1 rows but `texts` has 2"):
        audit_source_label_similarity(["a", "b"], sources=["x"])


# ---- Very many copies ------------------------------------------------------------------------


def test_pairs_of_very_many_copies_are_cut_and_say_so():
    found = ExactNormalizedHashStrategy().pairs_above(["same"] * 1500, 0.9)
    assert not found.complete
    assert len(found) == 1000 * 999 // 2 + 500
    assert set(found.right.tolist()) == set(range(1, 1500))
    assert near_dedup(["same"] * 1500).n_kept == 1
    assert duplicate_clusters(["same"] * 1500) == [list(range(1500))]


def test_similar_pairs_are_a_small_table():
    pairs = SimilarPairs(np.array([0]), np.array([1]), np.array([0.5]))
    left, _, similarity = pairs
    assert len(pairs) == 1
    assert (left[0], similarity[0]) == (0, 0.5)
    assert pairs.to_dict() == {"left": [0], "right": [1], "similarity": [0.5], "complete": True}


def test_every_public_name_is_there():
    assert all(hasattr(text_dedup, name) for name in text_dedup.__all__)


@pytest.mark.parametrize("n_train", [1, 2500])
def test_no_evaluation_row_is_left_out_of_many_copies(n_train: int) -> None:
    found = cross_dedup_pairs(["a b c d"] * n_train, ["a b c d"] * 3000 + ["q r s"])
    assert {row for row, _, _ in found} == set(range(3000))
    assert {row for _, row, _ in found} == set(range(n_train))
    assert len(set(found)) == len(found)


def test_k_is_another_name_of_k_neighbors(strategy):
    texts = ["a cat on a mat", "a cat on a rug", "rain over the sea", "a cat on a mat"]
    for other, usual in (
        (strategy.pairs_within(texts, k=2), strategy.pairs_within(texts, k_neighbors=2)),
        (strategy.pairs_across(texts, texts[:3], k=2), strategy.pairs_across(texts, texts[:3], 2)),
    ):
        assert all(np.array_equal(*parts) for parts in zip(other, usual, strict=True))
    with pytest.raises(InvalidInputError, match="`k` is an alias of `k_neighbors`"):
        strategy.pairs_within(texts, 2, k=2)
    with pytest.raises(InvalidTypeError, match="`k_neighbors` must be an integer, got None"):
        strategy.pairs_across(texts, texts)


def test_a_strategy_of_ones_own_may_call_it_k():
    class Own:
        inner = TfidfCosineStrategy()

        def pairs_within(self, texts, k):
            return self.inner.pairs_within(texts, k=k)

        def pairs_across(self, query_texts, reference_texts, k):
            return self.inner.pairs_across(query_texts, reference_texts, k=k)

    texts = ["a cat on a mat", "rain over the sea", "a cat on a mat", "sun and wind"]
    assert isinstance(Own(), SimilarityStrategy)
    assert near_dedup(texts, strategy=Own()).kept_indices == [0, 1, 3]
    assert cross_dedup(texts[:1], texts, strategy=Own()) == [1, 3]
