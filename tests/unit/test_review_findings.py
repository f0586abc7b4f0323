"""Silent failures that a review found, one test each."""

import numpy as np
import pytest

from eval_toolkit import Records, scorecard, summarise
from eval_toolkit import metric_specs as ms
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.inference import stratified_cluster_bootstrap_ci, wilson_interval
from eval_toolkit.metric_specs.at_threshold import op_net_benefit, op_recall
from eval_toolkit.metrics import brier_score

Y = np.arange(60) % 3 == 0
S = np.random.default_rng(4).random(60)


def test_labels_have_one_interval_in_both_places() -> None:
    ones = np.ones(30)
    expected = wilson_interval(30, 30)
    card = scorecard(ones, ones, metrics=[ms.mean_of("label")])["label"]
    summary = summarise(Records.from_rows(ones, ones), [ms.mean_of("label")])["label"]
    for cell in (card, summary):
        assert cell.ci is not None
        assert (cell.ci.method, cell.ci.ci_low, cell.ci.ci_high) == (
            "wilson",
            expected.low,
            expected.high,
        )


def test_a_stratum_of_one_group_is_refused_by_name() -> None:
    strata = {"a": (Y, S, np.arange(60)), "b": (Y, S, np.zeros(60))}
    with pytest.raises(InvalidInputError, match=r"strata\['b'\] has one group"):
        stratified_cluster_bootstrap_ci(strata, brier_score, lambda v: sum(v.values()))


def test_a_bad_row_of_a_stratum_names_the_stratum() -> None:
    strata = {"a": ([0, 2], [0.1, 0.2], [1, 2])}
    with pytest.raises(InvalidInputError, match=r"strata\['a'\]: y_true\[1\] is 2"):
        stratified_cluster_bootstrap_ci(strata, brier_score, lambda v: sum(v.values()))


def test_a_share_does_not_leave_its_range_under_t() -> None:
    records = Records.from_columns({"x": [1, 1, 1, 0]})
    ci = summarise(records, [ms.mean_of("x")], method="t")["x"].ci
    assert ci is not None
    assert (ci.ci_low, ci.ci_high) == (0.0, 1.0)


def test_a_method_that_does_not_apply_is_said() -> None:
    cell = summarise(Records.from_rows(Y, S), [ms.pr_auc], method="wilson")["pr_auc"]
    assert cell.ci is not None
    assert cell.ci.method == "score"
    assert cell.reason.startswith("wilson applies to means of columns")


def test_an_explicit_method_wins_over_wilson() -> None:
    asked = scorecard(Y, S, metrics=[op_recall(0.5)], method="percentile")["op_recall_at_0.5"]
    default = scorecard(Y, S, metrics=[op_recall(0.5)])["op_recall_at_0.5"]
    assert asked.ci is not None
    assert default.ci is not None
    assert (asked.ci.method, default.ci.method) == ("percentile", "wilson")


def test_net_benefit_needs_probabilities() -> None:
    cell = scorecard(Y, 5 * S, metrics=[op_net_benefit(0.2)])["op_net_benefit_at_0.2"]
    assert cell.status == "error"
    assert "must be a probability" in cell.reason
