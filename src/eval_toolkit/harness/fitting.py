"""Fitting of scorers on the training part of each fold, and nested threshold selection."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eval_toolkit._internal.hashing import sha256_text
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.harness.progress import Ticker
from eval_toolkit.harness.rows import Rows, chosen_slices, named_slices
from eval_toolkit.harness.scorers import EstimatorScorer
from eval_toolkit.harness.scoring import Scored, Scoring, checked_names, score_rows, usable_scorer
from eval_toolkit.harness.thresholding import FittedThresholds, fit_thresholds
from eval_toolkit.protocols import ThresholdSelector

INNER_FOLDS = "train_inner"
"""Label for thresholds selected on out-of-fold scores of the training part."""


@dataclass(frozen=True)
class Candidate:
    """Scorer passed by the caller, which is constructed, copied and fitted, or used as is."""

    name: str
    source: Any
    is_factory: bool
    is_fitted_here: bool

    @classmethod
    def of(cls, name: str, source: Any, fit: bool | None) -> "Candidate":
        """Return the candidate for a scorer, after determining how each fold handles it."""
        makes = isinstance(source, type) or (
            callable(source) and not hasattr(source, "predict_proba")
        )
        if makes and fit is False:
            raise InvalidInputError(
                f"scorers[{name!r}] is a class or function that returns a new scorer, but `fit` "
                "is False; pass a fitted scorer"
            )
        scorer = source if makes else usable_scorer(source, name)
        has_fit = callable(getattr(scorer, "fit", None))
        if fit is True and not (makes or has_fit):
            raise InvalidTypeError(
                f"scorers[{name!r}] is a {type(source).__name__} without a `fit` method, but "
                "`fit` is True"
            )
        return cls(name, scorer, makes, fit is not False and (makes or has_fit))

    def fresh(self) -> Any:
        """Return an unfitted scorer for a fold."""
        if self.is_factory:
            return usable_scorer(self.source(), self.name)
        try:
            return _unfitted(self.source)
        except (TypeError, ValueError, RuntimeError, copy.Error) as error:
            raise InvalidTypeError(
                f"scorer {self.name!r} cannot be copied ({' '.join(str(error).split())}); pass a "
                "function that returns a new scorer"
            ) from error


def _unfitted(scorer: Any) -> Any:
    """Return an unfitted copy: estimators are cloned, other scorers are deep-copied."""
    if isinstance(scorer, EstimatorScorer):
        return EstimatorScorer(_unfitted(scorer.estimator), scorer.positive)
    if not hasattr(scorer, "get_params"):
        return copy.deepcopy(scorer)
    from sklearn.base import clone

    fresh = clone(scorer)
    if isinstance(getattr(scorer, "version", None), str) and not hasattr(fresh, "version"):
        fresh.version = scorer.version  # set from outside, not an estimator parameter
    return fresh


class _Unfitted:
    """Placeholder for a scorer whose fit failed; scoring with it raises the same error."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def predict_proba(self, X: Any) -> Any:
        raise self.error


@dataclass(frozen=True)
class FittedScorers:
    """Scorers of a fold, and the rows they were fitted on."""

    scorers: dict[str, Any]
    fitted_on: dict[str, str]
    """Hash of the training rows, for scorers fitted on this fold."""
    recipes: dict[str, str]
    """Versions of the unfitted estimators, which are the same in every fold."""


def named_candidates(scorers: Any, fit: bool | None) -> dict[str, Candidate]:
    """Return the candidates for `evaluate_folded`, keyed by scorer name."""
    if fit is not None and not isinstance(fit, bool):
        raise InvalidTypeError(f"`fit` is {fit!r}; it must be True, False or None")
    given = checked_names(scorers)
    return {name: Candidate.of(name, source, fit) for name, source in given.items()}


def fit_candidates(
    candidates: Mapping[str, Candidate], train: Rows | None, on_scorer_error: str
) -> FittedScorers:
    """Fit each candidate on a fold; under "record", a failed fit becomes a placeholder."""
    scorers: dict[str, Any] = {}
    fitted_on: dict[str, str] = {}
    recipes: dict[str, str] = {}
    digest = ""
    for name, candidate in candidates.items():
        if candidate.is_fitted_here:
            if train is None:
                raise MissingColumnError(
                    f"scorer {name!r} must be fitted, but the fold has no 'train' part; "
                    "pass fit=False to evaluate it as is"
                )
            digest = digest or sha256_text("\n".join(train.hashes))
            fitted_on[name] = digest
        scorers[name], recipe = _fitted(candidate, train, on_scorer_error)
        recipes |= {name: recipe} if recipe else {}
    return FittedScorers(scorers, fitted_on, recipes)


def _fitted(
    candidate: Candidate, train: Rows | None, on_scorer_error: str
) -> tuple[Any, str | None]:
    """Fit a candidate; return the scorer and the version of the unfitted estimator."""
    if not candidate.is_fitted_here or train is None:
        return candidate.source, None
    recipe = None
    try:
        scorer = candidate.fresh()
        recipe = scorer.version if isinstance(scorer, EstimatorScorer) else None
        if callable(getattr(scorer, "fit", None)):
            scorer.fit(train.features, train.labels)
        return scorer, recipe
    except (MemoryError, AssertionError):
        raise
    except Exception as error:
        error.add_note(f"while fitting scorer {candidate.name!r}")
        if on_scorer_error == "raise":
            raise
        return _Unfitted(error), recipe


def nested_thresholds(
    candidate: Candidate,
    train: Rows,
    inner_splitter: Any,
    selectors: Sequence[ThresholdSelector],
    how: Scoring,
    groups: Any = None,
) -> FittedThresholds:
    """Select thresholds on inner folds of a training part.

    Trainable scorers are refitted on each inner training part, and thresholds are selected on the
    pooled inner test parts. Other scorers score the training part directly.
    """
    if not candidate.is_fitted_here:
        outcome = score_rows(candidate.source, candidate.name, train, how, Ticker(0))
        return fit_thresholds(
            train.labels, outcome, selectors, fitted_on=train.name, scorer=candidate.name
        )
    labels: list[Any] = []
    scores: list[Any] = []
    outcome = Scored(None, {"skipped": "there are no inner folds"})
    plain = Scoring(how.batch_size, None, how.on_scorer_error)
    for fold in inner_splitter.iter_folds(train.source, groups=groups):
        parts = chosen_slices(named_slices(fold), ("train", "test"), "inner_splitter")
        held_out = Rows("test", parts["test"])
        scorer, _ = _fitted(candidate, Rows("train", parts["train"]), how.on_scorer_error)
        outcome = score_rows(scorer, candidate.name, held_out, plain, Ticker(0))
        if outcome.scores is None:
            break
        labels.append(held_out.labels)
        scores.append(outcome.scores)
    else:
        if scores:
            outcome = Scored(np.concatenate(scores))
    return fit_thresholds(
        np.concatenate(labels) if outcome.scores is not None else (),
        outcome,
        selectors,
        fitted_on=INNER_FOLDS,
        scorer=candidate.name,
    )
