"""What a scorer may return, and estimators as scorers."""

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.protocols import Scorer, Versioned
from eval_toolkit.scorers import as_scorer, checked_scores


@pytest.mark.parametrize(
    "output",
    [
        [0.1, 0.6],
        [[0.1], [0.6]],
        [[0.9, 0.1], [0.4, 0.6]],
        np.array([0.1, 0.6]),
        pd.Series([0.1, 0.6], index=[5, 9]),
        np.array([0.1, 0.6], dtype=object),
    ],
)
def test_accepted_outputs(output):
    scores = checked_scores(output, 2)
    assert scores.dtype == np.float64
    assert scores.tolist() == [0.1, 0.6]


class Tensor:
    """Refuses to be an array until detached and brought to the CPU, like torch's."""

    def __array__(self, *args, **kwargs):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    def detach(self):
        return self

    def cpu(self):
        return self

    def numpy(self):
        return np.array([0.25, 0.75], dtype=np.float32)


def test_tensors_are_detached():
    assert checked_scores(Tensor(), 2).tolist() == [0.25, 0.75]


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ([0.1], r"scorer 's' returned shape \(1,\) for 2 rows; it must return \(2,\) prob"),
        (np.ones((2, 3)) / 3, r"returned shape \(2, 3\) for 2 rows"),
        (None, r"returned shape \(\) for 2 rows"),
        (0.5, r"returned shape \(\) for 2 rows"),
        (
            [0.1, 1.5],
            r"scorer 's': score\[1\] is 1.5; scores must be finite and in \[0, 1\] \(pass logits",
        ),
        ([-0.1, 0.5], r"score\[0\] is -0.1"),
        ([0.1, np.nan], r"score\[1\] is nan"),
        (["0.1", "0.2"], "scores must be numbers"),
        ([[0.1, 0.2], [0.5, 0.5]], r"row 0 of the two columns is \[0.1, 0.2\].*sum to 1"),
        ([[0.1], [0.1, 0.2]], "rows of different lengths"),
    ],
)
def test_refused_outputs(output, message):
    with pytest.raises(InvalidInputError, match=message):
        checked_scores(output, 2, "s")


TEXTS = ["good day", "nice day", "bad attack", "evil attack"]


def test_a_pipeline_is_a_scorer():
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression())
    scorer = as_scorer(pipeline)
    assert isinstance(scorer, Scorer)
    assert isinstance(scorer, Versioned)
    assert scorer.fit(TEXTS, [0, 0, 1, 1]) is scorer
    scores = scorer.predict_proba(TEXTS)
    assert scores.tolist() == pipeline.predict_proba(TEXTS)[:, 1].tolist()
    assert scores[3] > 0.5 > scores[0]


def test_the_positive_class_is_found_by_name_not_by_place():
    named = LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], ["b", "b", "a", "a"])
    assert as_scorer(named, positive="a").predict_proba([[3.0]])[0] > 0.5
    assert as_scorer(named, positive="b").predict_proba([[3.0]])[0] < 0.5
    with pytest.raises(
        InvalidInputError, match=r"classes \['a', 'b'\] and 1 is not among them; name"
    ):
        as_scorer(named).predict_proba([[3.0]])
    with pytest.raises(InvalidInputError, match=r"`positive` is 'c'; LogisticRegression knows"):
        as_scorer(named, positive="c").predict_proba([[3.0]])
    flipped = LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], [1, 1, -1, -1])
    assert as_scorer(flipped).predict_proba([[0.0]])[0] > 0.5


def test_versions_tell_parameters_apart():
    one, two = as_scorer(LogisticRegression(C=1.0)), as_scorer(LogisticRegression(C=2.0))
    assert one.version != two.version
    assert one.version == as_scorer(LogisticRegression(C=1.0)).version
    assert "LogisticRegression" in one.version

    class Own:
        version = "7"

        def predict_proba(self, X):
            return np.full(len(X), 0.5)

    assert as_scorer(Own()).version == "7"
    assert as_scorer(Own()).predict_proba([1, 2]).tolist() == [0.5, 0.5]


def test_an_estimator_without_probabilities():
    with pytest.raises(
        InvalidTypeError, match="LinearSVC without predict_proba; wrap a classifier"
    ):
        as_scorer(LinearSVC())
