"""What must hold for the diversity of any texts."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from eval_toolkit.inference import probe_similarity
from eval_toolkit.metrics import distinct_n, self_similarity

few_words = st.lists(st.sampled_from(["a", "B", "c.", "été", "7", "??"]), max_size=8).map(" ".join)
texts = st.lists(few_words | st.text(max_size=12), min_size=2, max_size=12)
sizes = st.integers(1, 3)


@given(texts, sizes)
def test_values_are_shares(given_texts, n):
    assert 0.0 <= self_similarity(given_texts, n) <= 1.0


@given(st.lists(few_words, max_size=10), sizes)
def test_some_grams_are_distinct_and_no_more_than_all(given_texts, n):
    assert 0.0 < distinct_n([*given_texts, "a b c"], n) <= 1.0


@given(texts, sizes, st.randoms(use_true_random=False))
def test_the_order_of_texts_does_not_matter(given_texts, n, random):
    shuffled = random.sample(given_texts, len(given_texts))
    assert self_similarity(shuffled, n) == pytest.approx(self_similarity(given_texts, n), abs=1e-12)


@given(few_words, st.integers(2, 6), sizes)
def test_copies_are_alike(text, copies, n):
    assert self_similarity([text] * copies, n) == pytest.approx(1.0)


@given(st.lists(few_words, max_size=10), sizes)
def test_a_text_said_twice_is_no_more_diverse(given_texts, n):
    """Twice as many n-grams, of which no more are distinct."""
    some = [*given_texts, "a b c"]
    assert distinct_n(some * 2, n) == pytest.approx(distinct_n(some, n) / 2)


@given(texts, sizes)
def test_groups_of_one_give_the_mean_over_all_pairs(given_texts, n):
    ci = probe_similarity(given_texts, np.arange(len(given_texts)), n=n)
    assert ci.point_estimate == pytest.approx(self_similarity(given_texts, n), abs=1e-12)


@given(texts, sizes, st.data())
def test_the_interval_holds_the_value_and_has_a_width(given_texts, n, data):
    groups = data.draw(
        st.lists(st.integers(0, 3), min_size=len(given_texts), max_size=len(given_texts))
    )
    assume(len(set(groups)) > 1)
    ci = probe_similarity(given_texts, groups, n=n)
    assert 0.0 <= ci.ci_low <= ci.point_estimate + 1e-12
    assert ci.point_estimate - 1e-12 <= ci.ci_high <= 1.0
    assert ci.ci_low < ci.ci_high
