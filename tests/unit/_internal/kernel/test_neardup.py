"""The near-duplicate kernel: both back-ends agree, large buckets stay connected, bad buffers fail."""

import numpy as np
import pytest

from eval_toolkit._internal import kernel
from eval_toolkit._internal.kernel import neardup, neardup_numpy
from eval_toolkit.text_dedup import (
    JaccardNgramStrategy,
    MinHashLSHStrategy,
    cross_dedup,
    duplicate_clusters,
    near_dedup,
)
from eval_toolkit.text_dedup.minhash import _bands_for

needs_native = pytest.mark.skipif(neardup.native is None, reason="the C kernel was not built")

OPTIONS = {"n": 3, "bands": 20, "rows": 2, "seed": 7}


WORDS = ("ab", "cd", "ef", "gh", "ij", "kl", "mn", "op", "qr", "st", "uv", "wx")


def variants(n, seed):
    """Return distinct texts that share most of their words."""
    generator = np.random.default_rng(seed)
    rows = [" ".join(generator.choice(WORDS, 8)) for _ in range(n)]
    return list(dict.fromkeys(rows))


def mixed_texts():
    texts = variants(150, 1)
    texts += [text.replace("a", "é").replace("k", "語") for text in texts[:50]]
    texts += [
        "",
        "a",
        "ab",
        "abc",
        "語",
        "語学",
        "語学者",
        "🙂🙂🙂🙂",
        "a" * 5000,
        "ab" * 3000,
        "\ud800x",
    ]
    return list(dict.fromkeys(texts))


def as_lists(found):
    return found.left.tolist(), found.right.tolist(), found.similarity.tolist(), found.complete


def on(backend, *arguments, **options):
    with kernel.using(backend):
        return as_lists(neardup.similar_pairs(*arguments, **options))


def gram_set(text, n):
    return {text[i : i + n] for i in range(max(1, len(text) - n + 1))} if text else set()


def jaccard(a, b, n):
    one, other = gram_set(a, n), gram_set(b, n)
    return len(one & other) / len(one | other)


# ---- Back-ends -------------------------------------------------------------------------------


@needs_native
@pytest.mark.parametrize("n", [1, 3, 5, 9, 40])
def test_back_ends_make_the_same_sketches(n):
    corpus = neardup._encoded(mixed_texts())
    made = {}
    for backend in ("native", "numpy"):
        with kernel.using(backend):
            made[backend] = neardup.sketches(corpus, n=n, bands=9, rows=3, seed=42)
    for native, plain in zip(made["native"], made["numpy"], strict=True):
        np.testing.assert_array_equal(native, plain)


@needs_native
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("boundary", [None, 0, 70, 10**6])
@pytest.mark.parametrize("limit", [2, 5, 512])
def test_back_ends_find_the_same_pairs(threshold, boundary, limit):
    texts = mixed_texts()
    if boundary is not None:
        boundary = min(boundary, len(texts))
    options = {**OPTIONS, "threshold": threshold, "boundary": boundary, "limit": limit}
    native, plain = (on(backend, texts, **options) for backend in ("native", "numpy"))
    assert native == plain
    if limit == 512:
        assert native[3]
        assert native[0] or boundary in (0, len(texts)) or threshold == 1.0


@needs_native
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.5, 0.8, 1.0])
def test_back_ends_keep_the_same_texts(threshold):
    options = {**OPTIONS, "threshold": threshold, "task": neardup.FIRST_KEPT}
    native, plain = (on(backend, mixed_texts(), **options) for backend in ("native", "numpy"))
    assert native == plain
    assert native[0] or threshold == 1.0


@needs_native
@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.8])
@pytest.mark.parametrize("boundary", [0, 70, 150])
@pytest.mark.parametrize("limit", [2, 512])
def test_back_ends_reach_the_same_references(threshold, boundary, limit):
    texts = mixed_texts()
    kinds = np.random.default_rng(3).integers(1, 4, len(texts)).astype(np.uint8)
    options = {**OPTIONS, "threshold": threshold, "boundary": boundary, "limit": limit}
    native, plain = (on(b, texts, **options, kinds=kinds) for b in ("native", "numpy"))
    assert native == plain
    assert native[0] or boundary == 0


@pytest.mark.parametrize("backend", ["numpy", pytest.param("native", marks=needs_native)])
@pytest.mark.parametrize("limit", [3, 512])
def test_connecting_pairs_connect_what_all_pairs_connect(backend, limit):
    texts, options = mixed_texts(), {**OPTIONS, "threshold": 0.6}
    everything = on(backend, texts, **options)
    assert everything[3]
    some = on(backend, texts, **options, limit=limit, task=neardup.CONNECT)
    expected, found = (components(each, len(texts)) for each in (everything, some))
    assert set(zip(some[0], some[1], strict=True)) <= set(zip(*everything[:2], strict=True))
    if limit == 512:
        assert found == expected
        assert 1 < len(set(found)) < len(texts)
    if backend == "native":
        assert components(on("numpy", texts, **options, limit=limit, task=1), len(texts)) == found


def components(found, n):
    parent = list(range(n))

    def root(i):
        while parent[i] != i:
            i = parent[i]
        return i

    for i, j in zip(found[0], found[1], strict=True):
        low, high = sorted((root(i), root(j)))
        parent[high] = low
    return [root(i) for i in range(n)]


@pytest.mark.parametrize("backend", ["numpy", pytest.param("native", marks=needs_native)])
def test_every_text_that_goes_resembles_a_kept_one_first(backend):
    texts, options = mixed_texts(), {**OPTIONS, "threshold": 0.5}
    left, right, similarity, _ = on(backend, texts, **options)
    like = dict(zip(zip(left, right, strict=True), similarity, strict=True))
    reasons = {}
    for (i, j), value in sorted(like.items(), key=lambda item: (item[0][1], item[0][0])):
        if i not in reasons and j not in reasons:
            reasons[j] = (i, value)
    kept, gone, why, complete = on(backend, texts, **options, task=neardup.FIRST_KEPT)
    assert complete
    assert {j: (i, v) for i, j, v in zip(kept, gone, why, strict=True)} == reasons
    assert reasons


@pytest.mark.parametrize("backend", ["numpy", pytest.param("native", marks=needs_native)])
def test_a_reference_of_each_kind_is_reached(backend):
    texts, options = mixed_texts(), {**OPTIONS, "threshold": 0.5, "boundary": 60}
    kinds = np.random.default_rng(3).integers(1, 4, len(texts)).astype(np.uint8)
    wanted = {}
    for i, j in zip(*on(backend, texts, **options)[:2], strict=True):
        wanted[i] = wanted.get(i, 0) | int(kinds[j])
    reached, n = {}, 0
    for i, j in zip(*on(backend, texts, **options, kinds=kinds)[:2], strict=True):
        reached[i] = reached.get(i, 0) | int(kinds[j])
        n += 1
    assert reached == wanted
    assert 0 < n <= 2 * len(wanted)


@pytest.mark.parametrize("backend", ["numpy", pytest.param("native", marks=needs_native)])
@pytest.mark.parametrize("n", [300, 1200])
def test_pairs_of_near_identical_texts_grow_with_their_number_alone(backend, n):
    texts = [f"your parcel is waiting at the central depot, code {i:04d}" for i in range(n)]
    options = {"n": 3, "bands": 30, "rows": 4, "seed": 1, "threshold": 0.7}
    ones = np.ones(n, np.uint8)
    for enough in (
        {"task": neardup.FIRST_KEPT},
        {"boundary": n // 2, "kinds": ones},
        *([{"task": neardup.CONNECT}] if backend == "native" else []),
    ):
        left, *_ = on(backend, texts, **options, **enough)
        assert n // 2 <= len(left) < n


@needs_native
def test_instruction_sets_agree():
    names = neardup.native.instruction_sets()
    texts = mixed_texts()
    found = []
    try:
        for name in names:
            neardup.native.use(name)
            found.append(on("native", texts, **OPTIONS, threshold=0.4))
    finally:
        neardup.native.use(names[-1])
    assert all(each == found[0] for each in found)
    assert len(found[0][0]) > 100
    with pytest.raises(ValueError, match="no instruction set 'mmx'"):
        neardup.native.use("mmx")


def test_the_kernel_follows_the_switch():
    with kernel.using("numpy"):
        assert neardup.backend() == "numpy"
    if kernel.native is not None:
        with kernel.using("native"):
            assert neardup.backend() == ("native" if neardup.native else "numpy")


def test_without_the_extension_numpy_serves(monkeypatch):
    expected = as_lists(neardup.similar_pairs(mixed_texts(), **OPTIONS, threshold=0.5))
    monkeypatch.setattr(neardup, "native", None)
    assert neardup.backend() == "numpy"
    assert as_lists(neardup.similar_pairs(mixed_texts(), **OPTIONS, threshold=0.5)) == expected


# ---- What is found ---------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["numpy", pytest.param("native", marks=needs_native)])
def test_similarities_are_exact(backend):
    texts = mixed_texts()
    left, right, similarity, _ = on(backend, texts, **OPTIONS, threshold=0.3)
    assert len(left) > 100
    for i, j, value in zip(left, right, similarity, strict=True):
        assert i < j
        assert value == jaccard(texts[i], texts[j], 3)
        assert value >= 0.3


@pytest.mark.parametrize("limit", [2, 3, 10])
def test_large_buckets_stay_connected(limit):
    # One text with a number at its end: all are similar, so each has to join the one cluster.
    texts = [f"your parcel is waiting at the depot, code {i:04d}" for i in range(300)]
    found = neardup.similar_pairs(texts, n=3, bands=30, rows=4, seed=1, threshold=0.6, limit=limit)
    assert not found.complete
    assert len(found.left) < 300 * 299 // 2
    parent = list(range(300))

    def root(i):
        while parent[i] != i:
            i = parent[i]
        return i

    for i, j in zip(found.left.tolist(), found.right.tolist(), strict=True):
        parent[root(j)] = root(i)
    assert {root(i) for i in range(300)} == {0}


class Foreign:
    """A strategy that can but list pairs, and not all of them."""

    def pairs_above(self, texts, threshold):
        return MinHashLSHStrategy(n=3).pairs_above(texts, threshold)

    def pairs_above_across(self, query, reference, threshold):
        return MinHashLSHStrategy(n=3).pairs_above_across(query, reference, threshold)

    def pairs_within(self, texts, k_neighbors):
        raise NotImplementedError

    def pairs_across(self, query, reference, k_neighbors):
        raise NotImplementedError


def test_a_cluster_beyond_the_bucket_limit_is_deduplicated_completely(monkeypatch):
    monkeypatch.setattr(neardup, "BUCKET_LIMIT", 50)
    texts = [f"your parcel is waiting at the central depot, code {i:04d}" for i in range(400)]
    strategy = MinHashLSHStrategy(n=3)
    found = strategy.pairs_above(texts, 0.7)
    assert not found.complete
    report = near_dedup(texts, 0.7, strategy=strategy)
    kept = [texts[i] for i in report.kept_indices]
    assert len(JaccardNgramStrategy(n=3).pairs_above(kept, 0.7)) == 0
    for dropped, reason, similarity in report.dropped_pairs:
        assert reason < dropped
        assert reason in report.kept_indices
        assert similarity == jaccard(texts[dropped], texts[reason], 3) >= 0.7
    assert report.n_kept + report.n_dropped == 400
    assert near_dedup(texts, 0.7, strategy=Foreign()) == report  # from some of the pairs
    assert duplicate_clusters(texts, 0.7, strategy=strategy) == [list(range(400))]


def test_queries_of_a_large_bucket_all_find_something(monkeypatch):
    monkeypatch.setattr(neardup, "BUCKET_LIMIT", 20)
    train = [f"your parcel is waiting at the central depot, code {i:04d}" for i in range(90)]
    evaluation = [text.replace("waiting", "staying") for text in train] + ["quite different"]
    strategy = MinHashLSHStrategy(n=3)
    found = strategy.pairs_above_across(evaluation, train, 0.6)
    assert not found.complete
    assert set(found.left.tolist()) == set(range(90))
    assert cross_dedup(train, evaluation, 0.6, strategy=strategy) == [90]


def test_chinese_text_is_compared_by_characters():
    texts = [
        "今天天气很好我们去公园散步吧",
        "今天天气很好我们去公园跑步吧",
        "明天公司有一个重要的会议",
    ]
    left, right, similarity = MinHashLSHStrategy(n=2).pairs_above(texts, 0.6)
    assert (left.tolist(), right.tolist()) == ([0], [1])
    assert similarity.tolist() == [11 / 15]  # 13 bigrams each, two of them differ


def test_another_seed_finds_the_same_sure_pairs():
    texts = [
        "the quick brown fox jumps over the lazy dog",
        "the quick brown fox jumps over a lazy dog",
    ]
    for seed in (0, 1, 2**64 - 1, 2**70):
        assert len(MinHashLSHStrategy(seed=seed).pairs_above(texts, 0.6)) == 1


@pytest.mark.parametrize(
    ("threshold", "shape"), [(0.5, (64, 4)), (0.6, (51, 5)), (1.0, (1, 16)), (0.001, (256, 1))]
)
def test_bands_follow_the_threshold(threshold, shape):
    assert _bands_for(threshold) == shape


@pytest.mark.parametrize("threshold", np.arange(0.05, 1.0, 0.05))
def test_a_pair_at_the_threshold_is_rarely_missed(threshold):
    bands, rows = _bands_for(threshold)
    assert bands * rows <= 256
    assert (1 - threshold**rows) ** bands <= 0.02


# ---- Bad buffers -----------------------------------------------------------------------------


def test_too_many_texts_are_refused(monkeypatch):
    monkeypatch.setattr(neardup, "MAX_TEXTS", 2)
    with pytest.raises(ValueError, match="`texts` has 3 distinct texts; at most 2 can be compared"):
        neardup.similar_pairs(["a", "b", "c"], **OPTIONS, threshold=0.5)


def test_bits_are_counted():
    words = np.array([[0, 2**64 - 1], [1, 6]], np.uint64)
    assert neardup_numpy._popcount(words).tolist() == [64, 3]
