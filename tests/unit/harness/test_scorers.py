"""What a scorer may return, and estimators as scorers."""

import contextlib
import io
import os
import subprocess
import sys
import threading
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import LinearSVC
from tests.support.each import each

from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.harness.scorers import as_scorer, checked_scores
from eval_toolkit.protocols import Scorer, Versioned


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


@each(
    ("output", "message"),
    [
        ([0.1], r"scorer 's' returned shape \(1,\) for 2 rows; it must return \(2,\) prob"),
        (np.ones((2, 3)) / 3, r"returned shape \(2, 3\) for 2 rows"),
        (None, r"returned shape \(\) for 2 rows"),
        (0.5, r"returned shape \(\) for 2 rows"),
        (
            [0.1, 1.5],
            r"scorer 's': score\[1\] is 1.5; scores must be finite and in \[0, 1\] \(apply a sigmoid",
        ),
        ([-0.1, 0.5], r"score\[0\] is -0.1"),
        ([0.1, np.nan], r"score\[1\] is nan"),
        (["0.1", "0.2"], "scores must be numbers"),
        ([[0.1, 0.2], [0.5, 0.5]], r"row 0 of its output is \[0.1, 0.2\].*sum to 1"),
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
        InvalidInputError, match=r"classes \['a', 'b'\], which do not include 1; pass"
    ):
        as_scorer(named).predict_proba([[3.0]])
    with pytest.raises(
        InvalidInputError, match=r"`positive` is 'c'; it must be a class of LogisticRegression"
    ):
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


def doubled(X):
    return [2 * x for x in X]


CODE = """
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from eval_toolkit import as_scorer

def own(X):
    return X

X, y = np.arange(40.0).reshape(20, 2), [0, 1] * 10
models = [
    make_pipeline(FunctionTransformer(own), FunctionTransformer(np.abs), LogisticRegression()),
    make_pipeline(FunctionTransformer(lambda X: X + 1), LogisticRegression()),
    RandomForestClassifier(5, random_state=0),
    KNeighborsClassifier(algorithm="kd_tree"),
    GaussianProcessClassifier(),
]
fitted = [as_scorer(model).fit(X, y) for model in models]
words = as_scorer(make_pipeline(TfidfVectorizer(), LogisticRegression()))
fitted.append(words.fit(["a b c word", "other words"] * 5, y[:10]))
print([scorer.version for scorer in fitted])
"""


def test_versions_are_the_same_in_every_process():
    """In this process and in one that hashes texts in another way."""
    seed = next(seed for seed in ("1", "2") if os.environ.get("PYTHONHASHSEED") != seed)
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": seed},
    )
    with contextlib.redirect_stdout(io.StringIO()) as here:
        exec(CODE, {"__name__": "__main__"})  # noqa: S102 - as `python -c` does
    assert done.stdout == here.getvalue()
    assert "None" not in done.stdout


def test_versions_look_at_the_whole_of_an_array():
    def version(weights):
        return as_scorer(GaussianNB(priors=weights)).version

    one, two = np.zeros(5000), np.zeros(5000)
    two[2500] = 1.0
    assert version(one) == version(np.zeros(5000)) != version(two)
    objects = one.astype(object)
    assert version(objects) != version(two.astype(object))
    assert version(csr_array([one])) == version(csr_array([one])) != version(csr_array([two]))
    assert version(np.ma.masked_equal(one, 1)) != version(np.ma.masked_equal(two, 1))


def test_versions_tell_functions_apart():
    def version(function):
        return as_scorer(make_pipeline(FunctionTransformer(function), LogisticRegression())).version

    def plus(n):
        return lambda X: X + n

    functions = [None, doubled, np.abs, np.exp, len, plus(1), plus(2), lambda X: X - 1]
    functions += [partial(np.clip, a_max=1), partial(np.clip, a_max=2), GaussianNB().fit]
    versions = [version(function) for function in functions]
    assert None not in versions
    assert len(set(versions)) == len(functions)
    assert version(plus(1)) == version(plus(1))


@each(
    "make",
    [
        LogisticRegression,
        GaussianNB,
        KNeighborsClassifier,
        lambda: KNeighborsClassifier(algorithm="ball_tree"),
        lambda: RandomForestClassifier(5, random_state=0),
        lambda: HistGradientBoostingClassifier(max_iter=3, random_state=0),
        lambda: CalibratedClassifierCV(GaussianNB(), cv=2),
        lambda: GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2),
        lambda: make_pipeline(StandardScaler(), LogisticRegression()),
    ],
)
def test_versions_tell_fits_apart_and_stay_when_used(make):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), [0, 1] * 20
    scorer = as_scorer(make())
    unfitted = scorer.version
    version = scorer.fit(X, y).version
    scorer.predict_proba(X)
    assert scorer.version == version == as_scorer(make()).fit(X, y).version
    other = as_scorer(make()).fit(X[::-1] + 1.0, y).version
    assert len({unfitted, version, other, None}) == 4


def test_versions_tell_the_positive_class():
    model = GaussianNB().fit([[0.0], [1.0], [2.0], [3.0]], ["b", "b", "a", "a"])
    assert as_scorer(model, positive="a").version != as_scorer(model, positive="b").version
    model.version = "3"
    assert as_scorer(model, positive="a").version == "3 positive='a'"


def test_what_cannot_be_described_has_no_version():
    model = GaussianNB()
    model.lock = threading.Lock()
    assert as_scorer(model).version is None
    model.lock = model  # a part that holds the whole
    assert as_scorer(model).version is not None


def test_an_estimator_without_probabilities():
    with pytest.raises(
        InvalidTypeError, match="LinearSVC without predict_proba; if it only has decision_function"
    ):
        as_scorer(LinearSVC())


def test_a_stacked_classifier_before_it_is_fitted() -> None:
    from sklearn.ensemble import StackingClassifier
    from sklearn.linear_model import LogisticRegression

    X, y = [[float(i)] for i in range(20)], [0, 1] * 10
    scorer = as_scorer(StackingClassifier([("lr", LogisticRegression())], cv=2))
    assert scorer.fit(X, y).predict_proba(X).shape == (20,)
