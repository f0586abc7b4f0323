"""Words, sentences and paragraphs; lengths that were asked for; texts that repeat themselves."""

from collections import Counter

import numpy as np
import pytest
from tests.support.each import each

from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.graders import (
    ExponentialSimilarity,
    LengthControl,
    LengthRatio,
    RepeatedText,
    UnitCount,
    count_paragraphs,
    count_sentences,
    count_words,
    load_grader,
)
from eval_toolkit.graders.lengths import TEXT_LIMIT
from eval_toolkit.graders.repetition import repeats
from eval_toolkit.models.responses import Completion


@each(
    ("text", "n"),
    [
        ("", 0),
        (" … — !", 0),
        ("Rome", 1),
        ("Don't panic", 2),
        ("a well-known state-of-the-art idea", 4),
        ("'quoted' words - and dashes", 4),
        ("3.50 and 1,000", 5),
        ("über Ärger", 2),
    ],
)
def test_words(text, n):
    assert count_words(text) == n


@each(
    ("text", "n"),
    [
        ("", 0),
        ("...", 0),
        ("Rome", 1),
        ("I came. I saw! Did I win?", 3),
        ("Really?! He did", 2),
        ("Dr. J. Smith paid 3.50 today.", 1),
        ("It costs 3.50. Not 4.", 2),
        ("A heading\n\nAnd text. And more", 3),
        ("Steps:\n1. Wash it.\n2. Eat it.", 2),
        ("(So it was.) He said “No.” Then left.", 3),
        ("你好。再见！", 2),
        ("See example.com for more", 1),
    ],
)
def test_sentences(text, n):
    assert count_sentences(text) == n


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("", 0),
        ("\n\n", 0),
        ("a\nb", 1),
        ("a\n\nb", 2),
        ("\n a\n \t\n\n\nb\n", 2),
        ("a\n\n\n\nb", 2),
    ],
)
def test_paragraphs(text, n):
    assert count_paragraphs(text) == n


def test_the_first_characters_are_counted():
    assert count_words("a " * TEXT_LIMIT) == TEXT_LIMIT // 2


@pytest.mark.parametrize(
    ("comparison", "held"),
    [
        ("less than", [1, 0, 0]),
        ("at most", [1, 1, 0]),
        ("exactly", [0, 1, 0]),
        ("at least", [0, 1, 1]),
        ("more than", [0, 0, 1]),
    ],
)
def test_counts_are_compared_as_the_sample_asks(comparison, held):
    asked = {"comparison": comparison, "n": 2}
    texts = ["One.", "One. Two.", "One. Two. Three."]
    grades = [UnitCount("sentences").grade(Completion(text, context=asked)) for text in texts]
    assert [grade["sentence_count"] for grade in grades] == held
    assert [grade["sentence_count_n"] for grade in grades] == [1, 2, 3]


def test_every_unit_has_a_name():
    for unit in ("word", "sentence", "paragraph", "character"):
        assert load_grader(f"{unit}_count") == UnitCount(f"{unit}s")
    asked = {"comparison": "exactly", "n": 3}
    grades = load_grader("character_count").grade(Completion(" abc ", context=asked))
    assert grades["character_count"] == 1.0


@pytest.mark.parametrize(
    ("context", "error", "message"),
    [
        (None, InvalidInputError, "context has no 'comparison'"),
        ({"comparison": "about", "n": 3}, InvalidInputError, "`comparison` is 'about'"),
        ({"comparison": "at least"}, InvalidInputError, "context has no 'n'"),
        ({"comparison": "at least", "n": "three"}, InvalidTypeError, "`n` must be a number"),
    ],
)
def test_a_sample_that_does_not_say_what_it_asks_is_a_mistake(context, error, message):
    with pytest.raises(error, match=message):
        UnitCount().grade(Completion("x", context=context))


def control(n_words, kind, count=6, unit="words", **options):
    asked = f'{{"unit": "{unit}", "type": "{kind}", "count": {count}}}'
    answer = Completion("word " * n_words, ground_truth=asked)
    return list(LengthControl(**options).grade(answer).values())


def test_distance_from_a_target():
    assert control(6, "target") == [1.0, 0.0, 0.0]
    assert control(7, "target") == [1.0, pytest.approx(1 / 6), pytest.approx(1 / 6)]
    assert control(8, "target") == [0.0, pytest.approx(2 / 6), pytest.approx(2 / 6)]
    assert control(4, "target") == [0.0, pytest.approx(-2 / 6), pytest.approx(2 / 6)]
    assert control(4, "target", tolerance=0.5)[0] == 1.0
    assert control(0, "target") == [0.0, -1.0, 1.0]


def test_minimum_and_maximum_are_kept_or_not():
    assert control(60, "min") == control(3, "max") == [1.0, 0.0, 0.0]
    assert control(5, "min") == [0.0, pytest.approx(-1 / 6), pytest.approx(1 / 6)]
    assert control(7, "max") == [0.0, pytest.approx(1 / 6), pytest.approx(1 / 6)]


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("100 words", "must be JSON with 'unit', 'type' and 'count'"),
        ("[1]", "must be JSON with 'unit', 'type' and 'count'"),
        ('{"unit": "lines", "type": "target", "count": 1}', "`unit` is 'lines'"),
        ('{"unit": "words", "type": "about", "count": 1}', "`type` is 'about'"),
        ('{"unit": "words", "type": "max", "count": 0}', "`count` is 0"),
    ],
)
def test_a_length_that_cannot_be_read_is_a_mistake(reference, message):
    with pytest.raises(InvalidInputError, match=message):
        LengthControl().grade(Completion("x", ground_truth=reference))


def test_ratio_to_the_original():
    asked = {"original": "one two three four"}
    grades = LengthRatio().grade(Completion("one", context=asked))
    assert grades["length_ratio"] == 0.25
    assert grades["length_ratio_kept"].status == "skipped"
    asked |= {"comparison": "less than", "n": 0.25}
    assert LengthRatio().grade(Completion("one", context=asked))["length_ratio_kept"] == 0.0
    with pytest.raises(InvalidInputError, match="no 'original'"):
        LengthRatio().grade(Completion("one"))
    with pytest.raises(InvalidInputError, match="has no words"):
        LengthRatio().grade(Completion("one", context={"original": "…"}))


def test_repetition_against_a_count_of_all_windows():
    rng = np.random.default_rng(3)
    for _ in range(1500):
        words = rng.choice(list("ab"), rng.integers(0, 25)).tolist()
        window, times = int(rng.integers(1, 10)), int(rng.integers(1, 4))
        windows = Counter(tuple(words[at : at + window]) for at in range(len(words) - window + 1))
        assert repeats(words, window, times) == any(n > times for n in windows.values())


def test_a_long_window_is_found_wherever_it_comes_again():
    words = [str(n) for n in range(1000)]
    again = [*words, "x", *words[400:528]]
    assert repeats(again, 128)
    assert not repeats(again, 129)
    assert not repeats(again, 128, times=2)


def test_texts_that_repeat_themselves():
    assert RepeatedText().grade(Completion("so " * 128)) == {"repeated_text": 0.0}
    assert RepeatedText().grade(Completion("so " * 129)) == {"repeated_text": 1.0}
    assert RepeatedText().columns()["repeated_text"].higher_is_better is False
    with pytest.raises(InvalidInputError, match="`window_size`"):
        RepeatedText(0)
    with pytest.raises(InvalidInputError, match="`min_repetitions`"):
        RepeatedText(2, 0)


@pytest.mark.parametrize(
    ("text", "truth", "expected"),
    [
        ("50 %", "50", 1.0),
        ("about 60%", "50", 0.5),  # ten points: 2^(-1)
        ("30", "50", 0.25),
        ("52.5", "50", 2**-0.25),
        ("60", ["10", "70"], 0.5),
        ("1" * 300, "50", 0.0),
        ("-1e300", "50", 0.0),
    ],
)
def test_exponential_similarity(text, truth, expected):
    grades = ExponentialSimilarity().grade(Completion(text, ground_truth=truth))
    assert grades["exponential_similarity"] == pytest.approx(expected, abs=1e-300)
    assert grades["exponential_similarity_found"] == 1.0


def test_a_text_without_a_number_is_not_similar_and_a_reference_without_one_a_mistake():
    grader = ExponentialSimilarity()
    assert set(grader.grade(Completion("half", ground_truth="50")).values()) == {0.0}
    with pytest.raises(InvalidInputError, match="'half' contains no number"):
        grader.grade(Completion("50", ground_truth="half"))
