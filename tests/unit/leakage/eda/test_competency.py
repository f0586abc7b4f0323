"""Shallow baselines: data with one known giveaway each, chance by enumeration, absent values."""

import itertools
import json

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from tests.support.each import each

from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.leakage.eda.competency import competency_baselines
from eval_toolkit.metrics import pr_auc

LABELS = [1, 0] * 20
VOCABULARY = ["alpha", "beta", "gamma", "delta", "omega", "sigma"]


def made(labels, seed=0):
    """Texts in which the word "alpha" is twice as frequent in the positive class."""
    rng = np.random.default_rng(seed)
    weights = {0: [1, 1, 1, 1, 1, 1], 1: [2, 1, 1, 1, 1, 1]}
    return [
        " ".join(rng.choice(VOCABULARY, 8, p=np.array(weights[y]) / sum(weights[y])))
        for y in labels
    ]


def test_length_alone():
    # One word again and again: TF-IDF rows are equal, so every score is tied and the average
    # precision is the prevalence exactly. Length tells all.
    rng = np.random.default_rng(1)
    texts = ["ab " * rng.integers(20, 40) if y else "ab " * rng.integers(2, 10) for y in LABELS]
    found = competency_baselines(texts, LABELS, texts[:30], LABELS[:30])
    assert found.length.value == 1.0
    assert found.bow.value == found.prevalence == 0.5
    assert "length" in found.above_chance
    assert "bow" not in found.above_chance


def test_single_words_alone():
    # All texts have 9 characters and one word.
    texts = ["aaaaaaaab" if y else "aaaabaaaa" for y in LABELS]
    found = competency_baselines(texts, LABELS, texts, LABELS, char_ngram_range=(1, 1))
    assert found.length.value == found.char_ngram.value == 0.5
    assert found.bow.value == 1.0
    assert found.above_chance == ("bow",)


def test_character_grams_alone():
    # No word occurs twice; in the positive class all end alike.
    texts = [f"{number:03d}{'xy' if y else 'yx'}" for number, y in enumerate(LABELS * 2)]
    labels = LABELS * 2
    found = competency_baselines(texts[:40], labels[:40], texts[40:], labels[40:])
    assert found.char_ngram.value == 1.0
    assert found.bow.value == found.length.value == 0.5


def test_bag_of_words_equals_the_pipeline_written_out():
    train, test = made(LABELS * 5), made(LABELS * 2, seed=9)
    found = competency_baselines(train, LABELS * 5, test, LABELS * 2)
    words = TfidfVectorizer().fit(train)  # every word has more than one letter
    model = LogisticRegression(solver="liblinear").fit(words.transform(train), LABELS * 5)
    scores = model.decision_function(words.transform(test))
    assert found.bow.value == pytest.approx(average_precision_score(LABELS * 2, scores), abs=1e-12)
    assert found.bow.ci.ci_low < found.bow.value < found.bow.ci.ci_high
    assert (found.n_train, found.n_test, found.bow.n_units) == (200, 80, 80)


@pytest.mark.parametrize(("n", "positives"), [(2, 1), (5, 2), (7, 1), (7, 6), (8, 4)])
def test_chance_is_the_mean_over_all_orders(n, positives):
    labels = [1] * positives + [0] * (n - positives)
    found = competency_baselines(["a", "b c"], [0, 1], ["x"] * n, labels)
    scores = np.arange(n, 0, -1)
    orders = [np.isin(range(n), chosen) for chosen in itertools.combinations(range(n), positives)]
    assert found.chance == pytest.approx(np.mean([pr_auc(order, scores) for order in orders]))
    assert found.chance > found.prevalence


def test_few_test_rows_have_values_without_intervals():
    found = competency_baselines(made(LABELS), LABELS, ["alpha", "beta"], [1, 0])
    assert found.bow.status == "ok"
    assert found.bow.ci is None
    assert "2 test rows; it needs 10" in found.bow.reason
    assert found.above_chance == ()


@pytest.mark.parametrize(
    ("train", "test", "reason", "chance"),
    [
        ([0] * 40, LABELS, "no training text has the positive label", True),
        ([1] * 40, LABELS, "every training text has the positive label", True),
        (LABELS, [0] * 40, "no test text has the positive label", False),
        (LABELS, [1] * 40, "every test text has the positive label", True),
    ],
)
def test_one_class_is_skipped_with_a_reason(train, test, reason, chance):
    texts = made(LABELS)
    found = competency_baselines(texts, train, texts, test)
    for cell in (found.length, found.char_ngram, found.bow):
        assert (cell.status, cell.value, cell.reason) == ("skipped", None, reason)
    assert (found.chance is not None) == chance
    json.dumps(found.to_dict(), allow_nan=False)


def test_texts_without_words_or_characters():
    texts = ["!?", "..."] * 20
    found = competency_baselines(texts, LABELS, texts, LABELS)
    assert (found.bow.status, found.bow.reason) == ("skipped", "no training text contains a word")
    assert found.length.value == found.char_ngram.value == 1.0
    empty = competency_baselines([""] * 40, LABELS, texts, LABELS)
    assert empty.char_ngram.reason == "no training text contains a character 2-gram"
    assert empty.length.value == 0.5  # a constant feature ties all


def test_same_seed_same_numbers_in_either_spelling():
    texts = made(LABELS)
    one, two, other = (
        competency_baselines(texts, LABELS, made(LABELS, 3), LABELS, **how)
        for how in ({"seed": 7}, {"rng": 7}, {"rng": 8})
    )
    assert one == two
    assert one.bow.value == other.bow.value
    assert one.bow.ci == other.bow.ci  # the default interval of the ROC-AUC draws nothing


def test_labels_of_any_kind():
    texts = made(LABELS)
    names = ["spam" if y else "ham" for y in LABELS]
    assert competency_baselines(texts, names, texts, names, positive_label="spam") == (
        competency_baselines(texts, LABELS, texts, np.array(LABELS))
    )


@each(
    ("changes", "error", "message"),
    [
        ({"train_texts": "text"}, InvalidTypeError, "`train_texts` is a single string"),
        ({"test_texts": [None]}, InvalidTypeError, r"test_texts\[0\] is None"),
        ({"test_labels": [1]}, InvalidInputError, "`test_labels` has 1 rows but `test_texts`"),
        ({"train_labels": [None] * 40}, InvalidInputError, r"train_labels\[0\] is missing"),
        ({"char_ngram_range": 3}, InvalidInputError, "must be two integers"),
        ({"char_ngram_range": (0, 2)}, InvalidInputError, r"`char_ngram_range\[0\]` is 0"),
        ({"char_ngram_range": (4, 2)}, InvalidInputError, r"`char_ngram_range\[1\]` is 2"),
        ({"n_resamples": 0}, InvalidInputError, "`n_resamples` is 0"),
        ({"confidence": 1.0}, InvalidInputError, "`confidence` is 1.0"),
        ({"seed": 1, "rng": 1}, InvalidInputError, "not both"),
    ],
)
def test_what_is_refused(changes, error, message):
    texts = made(LABELS)
    given = {
        "train_texts": texts,
        "train_labels": LABELS,
        "test_texts": texts,
        "test_labels": LABELS,
    }
    with pytest.raises(error, match=message):
        competency_baselines(**(given | changes))
