"""Every scalar metric obeys what the catalogue says about it."""

import inspect
import json
import math
import pickle
import types
import typing
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.strategies import OFF_EDGE, labelled_scores, permutations_of, weighted_rows
from tests.support.each import each

from eval_toolkit import metrics
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.metrics import CATALOGUE, MetricInfo

UNDEFINED = "undefined"

every_metric = each("info", CATALOGUE.values(), ids=lambda info: info.name)
drawn_for_every_metric = pytest.mark.parametrize("info", CATALOGUE.values(), ids=lambda i: i.name)
few = settings(max_examples=15, deadline=None)


def where(predicate: Callable[[MetricInfo], bool]) -> Callable[..., Any]:
    chosen = [info for info in CATALOGUE.values() if predicate(info)]
    return each("info", chosen, ids=lambda info: info.name)


def drawn_where(predicate: Callable[[MetricInfo], bool]) -> pytest.MarkDecorator:
    chosen = [info for info in CATALOGUE.values() if predicate(info)]
    return pytest.mark.parametrize("info", chosen, ids=lambda info: info.name)


def value_of(info: MetricInfo, y_true: Any, y_score: Any, **options: Any) -> float | str:
    """The metric, or the word "undefined", so that definedness is compared too."""
    try:
        return info.function(y_true, y_score, **options)
    except UndefinedMetricError:
        return UNDEFINED


def same(value: float | str) -> Any:
    return value if isinstance(value, str) else pytest.approx(value, rel=1e-9, abs=1e-10)


def rows_for(info: MetricInfo) -> tuple[np.ndarray, np.ndarray]:
    """Twelve rows on which every metric is defined."""
    y_true = np.array([0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1])
    return y_true, np.array(OFF_EDGE)[[0, 12, 3, 9, 4, 7, 14, 10, 2, 11, 1, 6]]


@drawn_for_every_metric
@few
@given(data=st.data())
def test_a_defined_value_is_a_float_within_bounds(info: MetricInfo, data: st.DataObject) -> None:
    y_true, y_score = data.draw(labelled_scores(min_rows=info.min_rows, both_classes=False))
    value = value_of(info, y_true, y_score)
    if value == UNDEFINED:
        return
    assert type(value) is float
    assert math.isfinite(value)
    assert info.bounds[0] <= value <= info.bounds[1]


@drawn_for_every_metric
@few
@given(data=st.data())
def test_the_order_of_rows_does_not_matter(info: MetricInfo, data: st.DataObject) -> None:
    y_true, y_score = data.draw(labelled_scores(min_rows=info.min_rows))
    order = data.draw(permutations_of((y_true, y_score)))
    assert value_of(info, y_true[order], y_score[order]) == same(value_of(info, y_true, y_score))


@drawn_where(lambda info: info.monotone_invariant)
@few
@given(data=st.data())
def test_only_the_order_of_scores_matters(info: MetricInfo, data: st.DataObject) -> None:
    y_true, y_score = data.draw(labelled_scores(min_rows=info.min_rows))
    moved = 5.0 * np.arctan(3.0 * y_score) - 2.0
    assert value_of(info, y_true, moved) == same(value_of(info, y_true, y_score))


@where(lambda info: not info.monotone_invariant)
def test_metrics_not_called_invariant_are_not(info: MetricInfo) -> None:
    y_true, y_score = rows_for(info)
    assert value_of(info, y_true, y_score**6) != same(value_of(info, y_true, y_score))


@drawn_where(lambda info: info.label_swap is not None)
@few
@given(data=st.data())
def test_swapping_labels_and_mirroring_scores(info: MetricInfo, data: st.DataObject) -> None:
    y_true, y_score = data.draw(labelled_scores(min_rows=info.min_rows, scores=OFF_EDGE))
    rule = typing.cast("str", info.label_swap)
    partner = value_of(CATALOGUE[rule.removeprefix("-")], y_true, y_score)
    expected = -partner if rule.startswith("-") and partner != UNDEFINED else partner
    assert value_of(info, 1 - y_true, 1.0 - y_score) == same(expected)


@drawn_where(lambda info: info.accepts_weight)
@few
@given(data=st.data())
def test_a_whole_weight_is_a_number_of_copies(info: MetricInfo, data: st.DataObject) -> None:
    y_true, y_score, weight = data.draw(weighted_rows(min_rows=info.min_rows))
    weighted = value_of(info, y_true, y_score, sample_weight=weight)
    copied = value_of(info, np.repeat(y_true, weight), np.repeat(y_score, weight))
    assert weighted == same(copied)


@drawn_where(lambda info: info.accepts_weight)
@few
@given(data=st.data())
def test_a_row_of_weight_zero_is_absent(info: MetricInfo, data: st.DataObject) -> None:
    y_true, y_score, whole = data.draw(weighted_rows(min_rows=info.min_rows))
    weight, kept = whole * 0.37, whole > 0
    without = value_of(info, y_true[kept], y_score[kept], sample_weight=weight[kept])
    assert value_of(info, y_true, y_score, sample_weight=weight) == same(without)


@where(lambda info: not info.accepts_weight)
def test_metrics_without_weights_refuse_them(info: MetricInfo) -> None:
    y_true, y_score = rows_for(info)
    with pytest.raises(TypeError, match="sample_weight"):
        info.function(y_true, y_score, sample_weight=np.ones(len(y_true)))


@where(lambda info: info.needs_both_classes)
@pytest.mark.parametrize("label", [0, 1])
def test_one_class_is_undefined(info: MetricInfo, label: int) -> None:
    _, y_score = rows_for(info)
    with pytest.raises(UndefinedMetricError, match="both classes"):
        info.function([label] * len(y_score), y_score)


@where(lambda info: info.needs_both_classes)
def test_a_class_of_weight_zero_does_not_count(info: MetricInfo) -> None:
    y_true, y_score = rows_for(info)
    with pytest.raises(UndefinedMetricError, match="both classes"):
        info.function(y_true, y_score, sample_weight=y_true)


@where(lambda info: not info.needs_both_classes)
@pytest.mark.parametrize("label", [0, 1])
def test_one_class_never_gives_nan(info: MetricInfo, label: int) -> None:
    _, y_score = rows_for(info)
    value = value_of(info, [label] * len(y_score), y_score)
    assert value == UNDEFINED or math.isfinite(typing.cast("float", value))


@every_metric
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_the_row_of_a_score_that_is_not_finite_is_named(info: MetricInfo, bad: float) -> None:
    y_true, y_score = rows_for(info)
    y_score[7] = bad
    with pytest.raises(InvalidInputError, match=r"y_score\[7\]"):
        info.function(y_true, y_score)


@every_metric
def test_the_row_of_a_wrong_label_is_named(info: MetricInfo) -> None:
    y_true, y_score = rows_for(info)
    y_true[3] = 2
    with pytest.raises(InvalidInputError, match=r"y_true\[3\] is 2; labels must be 0 or 1"):
        info.function(y_true, y_score)


@where(lambda info: info.needs_probability)
@pytest.mark.parametrize("bad", [-0.25, 1.5])
def test_the_row_of_a_score_that_is_no_probability_is_named(info: MetricInfo, bad: float) -> None:
    y_true, y_score = rows_for(info)
    y_score[5] = bad
    with pytest.raises(InvalidInputError, match=r"y_score\[5\] is .* must be a probability"):
        info.function(y_true, y_score)


@where(lambda info: not info.needs_probability)
def test_other_metrics_take_any_scale(info: MetricInfo) -> None:
    y_true, y_score = rows_for(info)
    assert math.isfinite(info.function(y_true, 40.0 * y_score - 18.0))


@every_metric
def test_unusable_shapes_are_refused(info: MetricInfo) -> None:
    y_true, y_score = rows_for(info)
    with pytest.raises(InvalidInputError, match="`y_true` is empty"):
        info.function([], [])
    with pytest.raises(InvalidInputError, match=r"`y_score` must be 1-D.*proba\[:, 1\]"):
        info.function(y_true, np.column_stack((1.0 - y_score, y_score)))
    with pytest.raises(InvalidInputError, match="`y_true` must be 1-D"):
        info.function(y_true[:, None], y_score)
    with pytest.raises(InvalidInputError, match="`y_true` has 12 rows but `y_score` has 11"):
        info.function(y_true, y_score[1:])


@every_metric
def test_strings_are_refused(info: MetricInfo) -> None:
    y_true, y_score = rows_for(info)
    texts: list[Any] = y_score.tolist()
    texts[4] = "high"
    with pytest.raises(InvalidInputError, match=r"y_score\[4\] is 'high'|must contain numbers"):
        info.function(y_true, texts)
    with pytest.raises(InvalidInputError, match=r"y_true\[0\]"):
        info.function(["no", "yes"] * 6, y_score)


@where(lambda info: info.accepts_weight)
def test_bad_weights_are_refused(info: MetricInfo) -> None:
    y_true, y_score = rows_for(info)
    weight = np.ones(12)
    with pytest.raises(InvalidInputError, match="`sample_weight` has 11 rows"):
        info.function(y_true, y_score, sample_weight=weight[1:])
    with pytest.raises(InvalidInputError, match="`sample_weight` is all zero"):
        info.function(y_true, y_score, sample_weight=0 * weight)
    weight[2] = -1.0
    with pytest.raises(InvalidInputError, match=r"sample_weight\[2\] is -1.0"):
        info.function(y_true, y_score, sample_weight=weight)


@every_metric
def test_any_container_will_do(info: MetricInfo) -> None:
    y_true, y_score = rows_for(info)
    expected = info.function(y_true, y_score)
    labels, scores = y_true.tolist(), y_score.tolist()
    assert info.function(labels, scores) == expected
    assert info.function(tuple(labels), tuple(scores)) == expected
    assert info.function(y_true.astype(bool), y_score.astype(np.float32)) == expected
    assert info.function(y_true.astype(float), y_score.astype(object)) == expected
    index = range(100, 112)
    assert info.function(pd.Series(labels, index), pd.Series(scores, index)) == expected
    assert info.function(pl.Series(labels), pl.Series(scores)) == expected


@every_metric
def test_inputs_are_left_alone(info: MetricInfo) -> None:
    y_true, y_score = rows_for(info)
    for array in (y_true, y_score):
        array.setflags(write=False)
    assert math.isfinite(info.function(y_true, y_score))


@every_metric
def test_entries_can_be_pickled_and_written_as_json(info: MetricInfo) -> None:
    y_true, y_score = rows_for(info)
    value = pickle.loads(pickle.dumps(info)).function(y_true, y_score)  # noqa: S301
    assert json.loads(json.dumps(value, allow_nan=False)) == info.function(y_true, y_score)


def test_every_scalar_metric_is_in_the_catalogue() -> None:
    def gives_a_number(function: Any) -> bool:
        parameters = list(inspect.signature(function).parameters)
        returned = function.__annotations__["return"]
        in_union = isinstance(returned, types.UnionType) and float in typing.get_args(returned)
        return parameters[:2] == ["y_true", "y_score"] and (returned is float or in_union)

    functions = [getattr(metrics, name) for name in metrics.__all__]
    scalar = {f for f in functions if inspect.isfunction(f) and gives_a_number(f)}
    catalogued = {getattr(info.function, "func", info.function) for info in CATALOGUE.values()}
    assert scalar <= catalogued
    assert {metrics.roc_auc, metrics.log_loss, metrics.net_benefit} <= scalar


def test_the_catalogue_is_keyed_by_name_and_read_only() -> None:
    assert all(name == info.name for name, info in CATALOGUE.items())
    with pytest.raises(TypeError):
        CATALOGUE["mine"] = CATALOGUE["roc_auc"]  # type: ignore[index]
