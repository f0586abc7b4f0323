"""Intervals of weighted metrics: Rao and Wu's bootstrap."""

import numpy as np
import pytest

from eval_toolkit import metric_specs as ms
from eval_toolkit import op_metric_specs as op
from eval_toolkit import scorecard
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, UndefinedMetricError
from eval_toolkit.inference.weighted import weighted_ci
from eval_toolkit.metrics import brier_score, roc_auc

RNG = np.random.default_rng(11)
Y = (RNG.random(300) < 0.3).astype(int)
P = 1 / (1 + np.exp(-(RNG.normal(size=300) + 1.5 * Y)))
W = RNG.exponential(size=300) + 0.2


@pytest.mark.parametrize("metric", [roc_auc, brier_score])
def test_the_value_is_the_weighted_metric(metric) -> None:
    ci = weighted_ci(Y, P, metric, sample_weight=W, n_resamples=100)
    assert ci.point_estimate == pytest.approx(metric(Y, P, sample_weight=W))
    assert ci.ci_low < ci.point_estimate < ci.ci_high


def test_the_variance_of_a_weighted_mean_is_the_linearised_one() -> None:
    """Brier score: the replicates' spread against Taylor linearisation of a ratio of totals."""
    loss = (P - Y) ** 2
    ratio = np.average(loss, weights=W)
    linear = W * (loss - ratio) / W.sum()
    se = np.sqrt(300 / 299 * (linear**2).sum())
    from eval_toolkit.inference.weighted import _factors

    factors = _factors(np.random.default_rng(0), np.zeros(300, dtype=int), 4000)
    replicates = [np.average(loss, weights=W * factor) for factor in factors]
    assert np.std(replicates, ddof=1) == pytest.approx(se, rel=0.05)


def test_equal_weights_change_the_value_not_at_all() -> None:
    ci = weighted_ci(Y, P, roc_auc, sample_weight=np.full(300, 2.5))
    assert ci.point_estimate == pytest.approx(roc_auc(Y, P))


def test_row_order_and_names_of_groups_do_not_matter() -> None:
    order = np.random.default_rng(2).permutation(300)
    groups = np.arange(300) // 3
    one = weighted_ci(Y, P, roc_auc, sample_weight=W, groups=groups, n_resamples=100)
    names = np.array([f"g{g}" for g in groups])
    other = weighted_ci(
        Y[order], P[order], roc_auc, sample_weight=W[order], groups=names[order], n_resamples=100
    )
    assert (one.ci_low, one.ci_high) == pytest.approx((other.ci_low, other.ci_high), abs=1e-12)


def test_unequal_weights_count_as_fewer_rows() -> None:
    y = np.repeat([1, 0], [5, 95])
    weights = np.ones(100)
    weights[0] = 100.0  # one positive stands for nearly all: 1.1 effective positives
    with pytest.raises(UndefinedMetricError, match="effective positive rows"):
        weighted_ci(y, np.linspace(0, 1, 100), roc_auc, sample_weight=weights)


def test_strata() -> None:
    strata = np.arange(300) % 4
    ci = weighted_ci(Y, P, roc_auc, sample_weight=W, strata=strata, n_resamples=100)
    assert ci.n_groups == 300
    with pytest.raises(InvalidInputError, match="single unit"):
        weighted_ci(Y, P, roc_auc, sample_weight=W, strata=[0] + [1] * 299)
    with pytest.raises(InvalidInputError, match="more than one stratum"):
        weighted_ci(Y, P, roc_auc, sample_weight=W, groups=np.arange(300) // 3, strata=strata)


def test_a_metric_without_weights_says_so() -> None:
    with pytest.raises(InvalidTypeError, match="takes no `sample_weight`"):
        weighted_ci(Y, P, lambda a, b: 0.5, sample_weight=W)


def test_a_scorecard_of_weighted_rows() -> None:
    specs = [ms.roc_auc, ms.brier, op.op_recall(0.6)]
    card = scorecard(Y, P, metrics=specs, sample_weight=W, n_resamples=100)
    assert card["roc_auc"].value == pytest.approx(roc_auc(Y, P, sample_weight=W))
    caught = W[(Y == 1) & (P >= 0.6)].sum() / W[Y == 1].sum()
    assert card["op_recall_at_0.6"].value == pytest.approx(caught)
    assert all(cell.ci.method.endswith("Rao-Wu") for cell in card.values())
    with pytest.raises(InvalidInputError, match="goes with neither"):
        scorecard(Y, P, metrics=specs, sample_weight=W, assumed_prior=0.1)
