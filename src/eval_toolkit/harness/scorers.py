"""Adapter for scikit-learn estimators, and validation of scorer output."""

import sys
from typing import Any

import numpy as np

from eval_toolkit._internal import validation
from eval_toolkit._internal.hashing import object_digest
from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError

__all__ = ["EstimatorScorer", "as_scorer", "checked_scores"]


def checked_scores(output: Any, n: int, name: str = "scorer") -> FloatArray:
    """Validate a scorer's output and return n probabilities of the positive class.

    Parameters
    ----------
    output : array-like of shape (n,), (n, 1) or (n, 2)
        Scores; with two columns, the second belongs to the positive class.
    n : int
        Number of scored rows.
    name : str
        Name of the scorer, used in error messages.

    Returns
    -------
    ndarray of shape (n,)
        Float64 probabilities in [0, 1].

    Raises
    ------
    InvalidInputError
        If the shape, type or range is invalid; the message names the row.

    Examples
    --------
    >>> checked_scores([[0.9, 0.1], [0.4, 0.6]], 2)
    array([0.1, 0.6])
    """
    if hasattr(output, "detach"):  # torch tensor, possibly with gradients or on a GPU
        output = output.detach().cpu().numpy()
    array = validation.as_array(output, name, shape="(n,) or (n, 2)")
    if array.ndim == 2 and array.shape[1] in (1, 2):
        if array.shape[1] == 2:
            _complementary(array, name)
        array = array[:, -1]
    if array.shape != (n,):
        raise InvalidInputError(
            f"scorer {name!r} returned shape {array.shape} for {n} rows; "
            f"it must return ({n},) probabilities of the positive class, or ({n}, 2)"
        )
    try:
        scores = (
            np.array([validation.as_float(value) for value in array.tolist()], dtype=np.float64)
            if (array.dtype.kind not in "biuf")
            else array.astype(np.float64)
        )
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"scorer {name!r} returned {array.dtype} values; scores must be numbers in [0, 1]"
        ) from None
    bad = ~((scores >= 0) & (scores <= 1))  # also catches NaN
    if bad.any():
        row = int(np.argmax(bad))
        raise InvalidInputError(
            f"scorer {name!r}: score[{row}] is {scores[row]}; scores must be finite and in [0, 1] "
            "(apply a sigmoid to logits)"
        )
    return scores


def _complementary(array: Any, name: str) -> None:
    """Raise an error unless two columns are the probabilities of two classes."""
    try:
        off = ~np.isclose(array.sum(axis=1).astype(np.float64), 1.0, atol=1e-3)
    except (TypeError, ValueError):
        return  # the caller rejects the type with its own message
    if off.any():
        row = int(np.argmax(off))
        raise InvalidInputError(
            f"scorer {name!r}: row {row} of its output is {array[row].tolist()}; two columns "
            "must be the probabilities of both classes and sum to 1"
        )


class EstimatorScorer:
    """Scorer that wraps a scikit-learn classifier or pipeline; see `as_scorer`."""

    def __init__(self, estimator: Any, positive: Any = None) -> None:
        self.estimator = estimator
        self.positive = positive

    def fit(self, X: Any, y: Any) -> "EstimatorScorer":
        """Fit the estimator; `evaluate_folded` calls this on each fold's training part."""
        self.estimator.fit(X, y)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of the positive class for each input."""
        name = type(self.estimator).__name__
        output = np.asarray(self.estimator.predict_proba(X))
        classes = getattr(self.estimator, "classes_", None)
        if output.ndim == 2 and classes is not None and output.shape[1] == len(classes):
            output = output[:, self._column(np.asarray(classes).tolist(), name)]
        return checked_scores(output, len(output), name)

    def _column(self, classes: list[Any], name: str) -> int:
        """Return the column of the positive class, determined by `classes_`."""
        if self.positive is not None:
            if self.positive not in classes:
                raise InvalidInputError(
                    f"`positive` is {self.positive!r}; it must be a class of {name}: {classes}"
                )
            return classes.index(self.positive)
        if 1 in classes:
            return classes.index(1)
        raise InvalidInputError(
            f"{name} has the classes {classes}, which do not include 1; "
            "pass the positive one: as_scorer(estimator, positive=…)"
        )

    @property
    def version(self) -> str | None:
        """Identity of the estimator for the cache; None if it cannot be determined.

        The estimator's own ``version`` if it has one, otherwise its class, library version and a
        digest of everything that `copy.copy` copies: parameters and fitted state, including all
        arrays, with functions identified by name. Estimators fitted on different data have
        different versions. None if part of the state cannot be read (a file, a lock, a library
        handle); set ``version`` on such an estimator.
        """
        own = getattr(self.estimator, "version", None)
        if isinstance(own, str):
            return own if self.positive is None else f"{own} positive={self.positive!r}"
        digest = object_digest((self.estimator, self.positive))
        if digest is None:
            return None
        kind = type(self.estimator)
        package = kind.__module__.partition(".")[0]
        release = getattr(sys.modules.get(package), "__version__", "")
        return f"{package} {release} {kind.__qualname__} {digest[:12]}".replace("  ", " ")

    def __repr__(self) -> str:
        return f"as_scorer({self.estimator!r})"


def as_scorer(estimator: Any, *, positive: Any = None) -> EstimatorScorer:
    """Wrap a scikit-learn classifier or pipeline as a `Scorer`.

    Parameters
    ----------
    estimator : object with ``predict_proba``
        Fitted estimator; `evaluate_folded` also accepts an unfitted one.
    positive : label, optional
        Class whose probability is used as the score; by default 1.

    Returns
    -------
    EstimatorScorer
        Scorer whose ``predict_proba`` returns one probability per input.

    Raises
    ------
    InvalidTypeError
        If the object has no ``predict_proba``.

    Notes
    -----
    The scorer's ``version`` covers the class, the version of its library, every parameter and the
    fitted state including all arrays, so estimators fitted on different data have different
    versions. It does not cover the code of named functions or classes, or the versions of other
    libraries. If part of the state cannot be read, the version is None and the scorer is treated as
    unversioned.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> scorer = as_scorer(LogisticRegression()).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> scorer.predict_proba([[1.5]]).round(3)
    array([0.5])
    """
    # Stacking and search classifiers expose ``predict_proba`` only after fitting.
    if not (hasattr(estimator, "predict_proba") or hasattr(type(estimator), "predict_proba")):
        raise InvalidTypeError(
            f"`estimator` is a {type(estimator).__name__} without predict_proba; if it only has "
            "decision_function, wrap it in sklearn.calibration.CalibratedClassifierCV"
        )
    return EstimatorScorer(estimator, positive)
