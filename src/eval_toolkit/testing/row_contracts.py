"""Contracts for scorers, selectors, metrics and slices."""

import copy
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eval_toolkit._internal import frames
from eval_toolkit.errors import EvalToolkitError, UndefinedMetricError
from eval_toolkit.harness.scorers import checked_scores
from eval_toolkit.metrics import ThresholdResult, metrics_at_threshold
from eval_toolkit.protocols import EvalSliceLike, MetricSpec, Scorer, ThresholdSelector
from eval_toolkit.slices import EvalSlice
from eval_toolkit.testing.inputs import ODD_TEXTS, TEXTS, labelled
from eval_toolkit.testing.rules import (
    Suite,
    expect,
    fresh,
    has_members,
    is_frame,
    is_named,
    same_numbers,
    unchanged,
    version_if_any,
)

__all__ = ["METRIC_SPEC", "SCORER", "SELECTOR", "SLICE"]


# --- scorers ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Inputs:
    """Inputs of a scorer, with labels if it can be fitted."""

    examples: Any = TEXTS
    labels: Sequence[int] | None = None
    tolerance: float = 1e-6

    @property
    def inputs(self) -> Any:
        """Return a fresh copy of the inputs, of the type that the harness passes."""
        given = self.examples
        features = given.features if isinstance(given, EvalSlice) else given
        return copy.deepcopy(list(features) if isinstance(features, tuple) else features)

    @property
    def n(self) -> int:
        """Number of inputs."""
        inputs = self.inputs
        return frames.n_rows(inputs) if is_frame(inputs) else len(inputs)

    def some(self, rows: Sequence[int]) -> Any:
        """Return a subset of the inputs, of the same type."""
        inputs = self.inputs
        if is_frame(inputs):
            return frames.take(inputs, np.asarray(rows, dtype=np.int64))
        if isinstance(inputs, np.ndarray):
            return inputs[list(rows)]
        return [inputs[row] for row in rows]

    def ready(self, scorer: Any) -> Any:
        """Return the scorer, fitted if it has ``fit`` and labels are given."""
        if self.labels is not None and not isinstance(scorer, type) and _fits(scorer):
            scorer.fit(self.inputs, np.asarray(self.labels))
        return scorer

    def scores(self, scorer: Any, inputs: Any) -> list[float]:
        """Return the scores of the positive class; another rule validates them."""
        output = np.asarray(scorer.predict_proba(inputs), dtype=np.float64)
        return [float(score) for score in (output[:, -1] if output.ndim == 2 else output)]


def _fits(scorer: Any) -> bool:
    return callable(getattr(scorer, "fit", None))


def one_score_per_input(scorer: Any, given: _Inputs) -> None:
    """The scorer returns one number per input, or the probabilities of both classes."""
    shape = np.asarray(scorer.predict_proba(given.inputs)).shape
    n = given.n
    expect(shape in ((n,), (n, 1), (n, 2)), f"{n} inputs", f"an array of shape {shape}")


def probabilities(scorer: Any, given: _Inputs) -> None:
    """Scores are finite and in [0, 1]; the probabilities of both classes sum to 1."""
    output = scorer.predict_proba(given.inputs)
    try:
        checked_scores(output, len(np.asarray(output)), "it")
    except EvalToolkitError as error:
        expect(False, given.inputs, str(error))


def does_not_modify_inputs(scorer: Any, given: _Inputs) -> None:
    """Scoring does not modify the inputs."""
    unchanged(given.inputs, scorer.predict_proba)


def scores_are_deterministic(scorer: Any, given: _Inputs) -> None:
    """The same inputs always get the same scores."""
    first, again = given.scores(scorer, given.inputs), given.scores(scorer, given.inputs)
    expect(first == again, given.inputs, (first, again))


def input_order_invariant(scorer: Any, given: _Inputs) -> None:
    """The order of inputs does not affect their scores."""
    other = fresh(scorer)
    forwards = given.scores(scorer, given.inputs)
    turned = given.scores(other, given.some(range(given.n)[::-1]))[::-1]
    expect(same_numbers(forwards, turned, given.tolerance), given.inputs, (forwards, turned))


def batch_invariant(scorer: Any, given: _Inputs) -> None:
    """An input gets the same score alone and in a batch."""
    other = fresh(scorer)
    together = given.scores(scorer, given.inputs)
    alone = [given.scores(other, given.some([row]))[0] for row in range(given.n)]
    expect(same_numbers(together, alone, given.tolerance), given.inputs, (together, alone))


def accepts_unusual_texts(scorer: Any, given: _Inputs) -> None:
    """If the inputs are texts, empty, long and unusual texts also get probabilities."""
    inputs = given.inputs
    if isinstance(inputs, list) and all(isinstance(one, str) for one in inputs):
        for text in ODD_TEXTS:
            try:
                checked_scores(scorer.predict_proba([text]), 1, "it")
            except Exception as error:
                expect(False, text, f"{type(error).__name__}: {error}")


def slice_selection_is_boolean(scorer: Any, given: _Inputs) -> None:
    """`should_score_slice`, if defined, returns True or False for the name of a slice."""
    decline = getattr(scorer, "should_score_slice", None)
    if decline is not None:
        answer = decline("test")
        expect(isinstance(answer, (bool, np.bool_)), "should_score_slice('test')", answer)


def fit_discards_previous_fits(scorer: Any, given: _Inputs) -> None:
    """`fit`, if defined, discards previous fits and works on copies of the scorer."""
    if not _fits(scorer):
        return
    third = (np.arange(given.n) % 3 == 0).astype(np.int64)
    labels = third if given.labels is None else np.asarray(given.labels)
    one, other = copy.deepcopy(scorer), copy.deepcopy(scorer)
    one.fit(given.inputs, labels)
    other.fit(given.inputs, 1 - labels)
    other.fit(given.inputs, labels)
    first, again = given.scores(one, given.inputs), given.scores(other, given.inputs)
    expect(same_numbers(first, again, given.tolerance), "a second fit", (first, again))


SCORER = Suite(
    "scorer",
    (
        has_members(Scorer),
        version_if_any,
        one_score_per_input,
        probabilities,
        does_not_modify_inputs,
        scores_are_deterministic,
        input_order_invariant,
        batch_invariant,
        accepts_unusual_texts,
        slice_selection_is_boolean,
        fit_discards_previous_fits,
    ),
    _Inputs,
)


# --- selectors and metrics ----------------------------------------------------------------------


def _labels() -> Any:
    return labelled()[0]


def _scores() -> Any:
    return labelled()[1]


@dataclass(frozen=True)
class _Labelled:
    """Labels and scores."""

    y_true: Any = field(default_factory=_labels)
    y_score: Any = field(default_factory=_scores)

    @property
    def pair(self) -> tuple[Any, Any]:
        """Copies of labels and scores, as arrays."""
        return np.array(self.y_true), np.array(self.y_score, dtype=np.float64)


def records_its_criterion(selector: Any, given: _Labelled) -> None:
    """The criterion is a single-line string and is part of the result."""
    told = selector.criterion
    expect(isinstance(told, str) and told.strip() and told.isprintable(), "`criterion`", told)
    result = selector.select(*given.pair)
    expect(getattr(result, "criterion", None) == told, f"criterion {told!r}", result)


def returns_threshold_result(selector: Any, given: _Labelled) -> None:
    """The selector returns a ThresholdResult whose threshold is a number."""
    result = selector.select(*given.pair)
    expect(isinstance(result, ThresholdResult), "labels and scores", result)
    expect(not np.isnan(result.threshold), "labels and scores", result)


def reported_metrics_match(selector: Any, given: _Labelled) -> None:
    """F1, precision and recall in the result match the given rows at the selected threshold."""
    result = selector.select(*given.pair)
    there = metrics_at_threshold(*given.pair, result.threshold)
    for name in ("f1", "precision", "recall"):
        told = getattr(result, name)
        expect(same_numbers([told], [there[name]], 1e-9), f"{name} {there[name]}", told)


def threshold_is_deterministic(selector: Any, given: _Labelled) -> None:
    """The same rows give the same threshold, in any order."""
    y_true, y_score = given.pair
    first = selector.select(y_true, y_score).threshold
    for rows in (slice(None), slice(None, None, -1)):
        again = selector.select(y_true[rows], y_score[rows]).threshold
        expect(first == again, "the same rows", (first, again))


def takes_lists(selector: Any, given: _Labelled) -> None:
    """Lists give the same threshold as arrays."""
    y_true, y_score = given.pair
    expected = selector.select(y_true, y_score).threshold
    got = selector.select(y_true.tolist(), y_score.tolist()).threshold
    expect(got == expected, "lists", (expected, got))


def does_not_modify_rows(selector: Any, given: _Labelled) -> None:
    """Selection modifies neither labels nor scores."""
    y_true, y_score = given.pair
    selector.select(y_true, y_score)
    expect(np.array_equal(y_true, given.pair[0]), "labels", y_true)
    expect(np.array_equal(y_score, given.pair[1]), "scores", y_score)


def handles_single_class(selector: Any, given: _Labelled) -> None:
    """With a single class, the selector returns a result or raises an EvalToolkitError."""
    _, y_score = given.pair
    for label in (0, 1):
        try:
            result = selector.select(np.full(len(y_score), label), y_score)
        except EvalToolkitError:
            continue
        except Exception as error:
            expect(False, f"labels that are all {label}", f"{type(error).__name__}: {error}")
        expect(isinstance(result, ThresholdResult), f"labels that are all {label}", result)


SELECTOR = Suite(
    "selector",
    (
        has_members(ThresholdSelector),
        version_if_any,
        returns_threshold_result,
        records_its_criterion,
        reported_metrics_match,
        threshold_is_deterministic,
        takes_lists,
        does_not_modify_rows,
        handles_single_class,
    ),
    _Labelled,
)


def value_is_finite(spec: Any, given: _Labelled) -> None:
    """The metric is a finite number if both classes are present."""
    value = spec.compute(*given.pair)
    expect(np.ndim(value) == 0 and np.isfinite(value), "labels and scores", value)


def row_order_invariant(spec: Any, given: _Labelled) -> None:
    """The order of the rows does not affect the value, except for rounding."""
    y_true, y_score = given.pair
    forwards = float(spec.compute(y_true, y_score))
    for rows in (slice(None), slice(None, None, -1)):
        again = float(spec.compute(y_true[rows].copy(), y_score[rows].copy()))
        expect(same_numbers([forwards], [again], 1e-9), "the same rows", (forwards, again))


def value_is_deterministic(spec: Any, given: _Labelled) -> None:
    """The same rows give exactly the same value."""
    first, again = (float(spec.compute(*given.pair)) for _ in range(2))
    expect(first == again, "the same rows", (first, again))


def metric_does_not_modify_rows(spec: Any, given: _Labelled) -> None:
    """Computing the metric modifies neither labels nor scores."""
    y_true, y_score = given.pair
    spec.compute(y_true, y_score)
    expect(np.array_equal(y_true, given.pair[0]), "labels", y_true)
    expect(np.array_equal(y_score, given.pair[1]), "scores", y_score)


def undefined_raises(spec: Any, given: _Labelled) -> None:
    """An undefined metric raises UndefinedMetricError: never NaN, never another error."""
    _, y_score = given.pair
    for label in (0, 1):
        try:
            value = spec.compute(np.full(len(y_score), label), y_score)
        except UndefinedMetricError:
            continue
        except Exception as error:
            expect(False, f"labels that are all {label}", f"{type(error).__name__}: {error}")
        expect(np.isfinite(value), f"labels that are all {label}", value)


def is_picklable(spec: Any, given: _Labelled) -> None:
    """The metric can be pickled, and the unpickled copy gives the same value."""
    there = pickle.loads(pickle.dumps(spec))  # noqa: S301 - made a moment ago, here
    first, again = (float(one.compute(*given.pair)) for one in (spec, there))
    expect(first == again, "the same rows", (first, again))


METRIC_SPEC = Suite(
    "metric_spec",
    (
        has_members(MetricSpec),
        is_named,
        version_if_any,
        value_is_finite,
        value_is_deterministic,
        row_order_invariant,
        metric_does_not_modify_rows,
        undefined_raises,
        is_picklable,
    ),
    _Labelled,
)


# --- slices -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Nothing:
    """Empty inputs: slices provide their own rows."""


def labels_are_0_and_1(slice_: Any, given: _Nothing) -> None:
    """Labels are a one-dimensional array of 0 and 1."""
    labels = np.asarray(slice_.y_true)
    expect(labels.ndim == 1, "`y_true`", f"shape {labels.shape}")
    expect(set(labels.tolist()) <= {0, 1}, "`y_true`", sorted(set(labels.tolist()))[:5])


def one_input_per_label(slice_: Any, given: _Nothing) -> None:
    """There is one input per label."""
    expect(len(slice_.features) == len(slice_.y_true), len(slice_.y_true), len(slice_.features))


def one_stratum_per_label(slice_: Any, given: _Nothing) -> None:
    """Strata are None, or one per label."""
    strata = slice_.strata
    expect(strata is None or len(strata) == len(slice_.y_true), len(slice_.y_true), strata)


def access_is_repeatable(slice_: Any, given: _Nothing) -> None:
    """Inputs and labels are the same on every access."""
    expect(np.array_equal(slice_.y_true, slice_.y_true), "`y_true` twice", slice_.y_true)
    one, other = slice_.features, slice_.features
    expect(len(one) == len(other), "`features` twice", (len(one), len(other)))
    if isinstance(one, list):
        expect(one == other, "`features` twice", (one, other))


SLICE = Suite(
    "slice",
    (
        has_members(EvalSliceLike),
        is_named,
        labels_are_0_and_1,
        one_input_per_label,
        one_stratum_per_label,
        access_is_repeatable,
    ),
    _Nothing,
)
