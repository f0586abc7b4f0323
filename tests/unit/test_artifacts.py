"""The stored names of a cell, and the artifact chapter's snippets about them."""

import json

from eval_toolkit.artifacts import MetricState, error_metric, skipped_metric
from eval_toolkit.scorecards import MetricResult


def test_one_class_two_names() -> None:
    assert MetricState is MetricResult


def test_successful_metric() -> None:
    ok = MetricState(value=0.82, status="ok").to_dict()
    assert ok["value"] == 0.82
    assert ok == {"value": 0.82, "status": "ok", "reason": ""}


def test_a_slice_that_is_too_small_to_bootstrap() -> None:
    skipped = skipped_metric("n_resamples below floor", n=5)
    assert skipped["status"] == "skipped"
    assert skipped == {
        "value": None,
        "status": "skipped",
        "reason": "n_resamples below floor",
        "details": {"n": 5},
    }


def test_a_metric_whose_computation_hit_a_divide_by_zero() -> None:
    errored = error_metric("ZeroDivisionError", numerator=0, denominator=0)
    assert errored["status"] == "error"
    assert errored["details"] == {"numerator": 0, "denominator": 0}
    assert errored["value"] is None


def test_details_are_there_only_when_given() -> None:
    assert "details" not in skipped_metric("one class only")
    assert "details" not in error_metric("KeyError")


def test_payloads_are_strict_json() -> None:
    for payload in (skipped_metric("why", n=1), error_metric("why", rows=[1, 2])):
        assert json.loads(json.dumps(payload, allow_nan=False)) == payload
