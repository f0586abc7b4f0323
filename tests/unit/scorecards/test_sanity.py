"""`sanity_notes`: valid data that look wrong are pointed out; honest data are not."""

import numpy as np
import pytest

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.scorecards import sanity_notes

LABELS = np.array([0, 1] * 60)
GOOD = 0.3 + 0.4 * LABELS + np.linspace(-0.2, 0.2, 120)


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        (1 - GOOD, "swapped"),
        ((GOOD > 0.5).astype(float), "f1@0.5"),
        (100 * GOOD, "percent"),
    ],
)
def test_what_looks_wrong_is_named_once(scores, words):
    (note,) = sanity_notes(LABELS, scores)
    assert words in note


@pytest.mark.parametrize(
    ("labels", "scores"),
    [
        (LABELS, GOOD),
        (LABELS, np.log(GOOD / (1 - GOOD))),  # log-odds are no percent
        (LABELS, 5 * GOOD),  # nor are stars
        (LABELS, np.full(120, 0.5)),
        (LABELS, np.zeros(120)),
        (np.zeros(120), GOOD),
        ([0, 1, 0, 1], [0.9, 0.1, 0.8, 0.3]),  # four rows may be in the wrong order by chance
        (LABELS, 0.5 - 0.02 * LABELS + np.sin(np.arange(120)) / 3),
    ],
)
def test_honest_data_have_no_notes(labels, scores):
    assert sanity_notes(labels, scores) == []


def test_bad_arrays_are_refused():
    with pytest.raises(InvalidInputError):
        sanity_notes([0, 2], [0.1, 0.2])
