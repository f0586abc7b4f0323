"""Intervals of weighted metrics: closed forms, and Rao and Wu's bootstrap."""

from functools import cache

import numpy as np
import pytest

from eval_toolkit import metric_specs as ms
from eval_toolkit import op_metric_specs as op
from eval_toolkit import scorecard
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, UndefinedMetricError
from eval_toolkit.inference import bootstrap_ci, mean_interval, score_interval, wilson_interval
from eval_toolkit.inference.weighted import weighted_ci
from eval_toolkit.metrics import brier_score, roc_auc
from eval_toolkit.thresholds import MaxF1Selector

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


SPECS = [
    ms.roc_auc,
    ms.pr_auc,
    ms.brier,
    ms.log_loss,
    ms.ece(),
    ms.smooth_ece,
    op.op_accuracy(0.6),
    op.op_specificity(0.6),
    op.op_precision(0.6),
    op.op_f1(0.6),
]


@pytest.mark.parametrize("groups", [None, np.arange(300) // 3])
def test_equal_weights_change_nothing(groups) -> None:
    """The oracle is the scorecard without weights."""
    plain, weighted = (
        scorecard(Y, P, metrics=SPECS, groups=groups, sample_weight=w, n_resamples=100)
        for w in (None, np.full(300, 0.1))
    )
    assert plain.to_dict() == weighted.to_dict()


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_rows_of_weight_zero_count_nowhere(spec) -> None:
    kept = np.arange(300) % 5 > 0
    ci = weighted_ci(Y, P, spec, sample_weight=kept.astype(float), n_resamples=100)
    plain = bootstrap_ci(Y[kept], P[kept], spec, n_resamples=100)
    assert (ci.ci_low, ci.ci_high) == (plain.ci_low, plain.ci_high)


@pytest.mark.parametrize("spec", SPECS[2:4] + SPECS[6:], ids=lambda spec: spec.name)
def test_nearly_equal_weights_hardly_move_an_interval(spec) -> None:
    """Closed forms under weights go over into those without; widths within 3 %."""
    weights = 1.0 + 1e-6 * np.sin(np.arange(300))
    ci = weighted_ci(Y, P, spec, sample_weight=weights)
    plain = bootstrap_ci(Y, P, spec)
    slack = 0.03 * (plain.ci_high - plain.ci_low)
    assert ci.ci_low == pytest.approx(plain.ci_low, abs=slack)
    assert ci.ci_high == pytest.approx(plain.ci_high, abs=slack)


@pytest.mark.parametrize("spec", [ms.ece(), ms.ece(strategy="quantile"), ms.smooth_ece])
def test_calibration_errors_of_unequal_weights_have_no_interval(spec) -> None:
    """An exactly calibrated scorer was covered in 0 of 150 draws."""
    cell = scorecard(Y, P, metrics=[spec], sample_weight=W, n_resamples=100)[spec.name]
    assert cell.status == "ok"
    assert cell.value is not None
    assert cell.ci is None
    assert cell.reason.startswith("no interval: the bias of a calibration error is known")
    assert "not with sample weights" in cell.reason


def test_a_share_is_worth_no_more_than_the_rows_it_rests_on() -> None:
    """Specificity 1 of 600 negatives printed [0.9993, 1]; Wilson's of 600 is [0.9936, 1]."""
    y = np.repeat([1, 0], [400, 600])
    weights = np.where(np.arange(1000) % 2, 1.01, 0.99)
    ci = weighted_ci(y, np.where(y == 1, 0.9, 0.1), op.op_specificity(0.5), sample_weight=weights)
    negatives = weights[y == 0]
    rows = negatives.sum() / negatives.max()  # one unseen error of the largest weight
    assert ci.ci_low == pytest.approx(score_interval(1.0, rows)[0], abs=1e-4)
    assert ci.ci_low <= wilson_interval(600, 600).low


def test_a_share_is_worth_what_its_variance_says() -> None:
    """Accuracy of two-level weights: v (1 − v) / s² with the linearised variance of a ratio."""
    right = (P >= 0.6) == Y
    weights = np.where(np.arange(300) % 2, 1.0, 4.0)
    share = np.average(right, weights=weights)
    variance = 300 / 299 * ((weights * (right - share) / weights.sum()) ** 2).sum()
    ci = weighted_ci(Y, P, op.op_accuracy(0.6), sample_weight=weights)
    rows = min(share * (1 - share) / variance, weights.sum() ** 2 / (weights**2).sum())
    low, high = score_interval(share, rows)
    assert ci.ci_high - ci.ci_low == pytest.approx(high - low, rel=0.03)


@pytest.mark.parametrize("k", [2, 20])
def test_the_smaller_class_limits_only_what_rests_on_it(k) -> None:
    """With 20 positives of 1000 accuracy 0.996 printed [0.832, 1], Brier [0, 0.19]; with 2 nothing."""
    rng = np.random.default_rng(0)
    y = (np.arange(1000) < k).astype(int)
    p = np.where(y == 1, rng.beta(5, 2, 1000), rng.beta(1, 9, 1000))
    weights = rng.uniform(0.9, 1.1, 1000)
    for spec in (op.op_accuracy(0.5), op.op_specificity(0.5), ms.brier, ms.log_loss):
        ci, plain = weighted_ci(y, p, spec, sample_weight=weights), bootstrap_ci(y, p, spec)
        assert ci.ci_high - ci.ci_low < 1.25 * (plain.ci_high - plain.ci_low)
    if k < 3:
        with pytest.raises(UndefinedMetricError, match="effective positive rows"):
            weighted_ci(y, p, op.op_f1(0.5), sample_weight=weights)


def test_a_heavy_false_positive_may_be_unseen() -> None:
    """Precision 1 of 100 positives: one of 100 negatives that weigh 10 each would make it 0.91."""
    y = np.repeat([1, 0], [100, 100])
    weights = np.where(y == 1, 1.0, 10.0)
    ci = weighted_ci(y, np.where(y == 1, 0.9, 0.1), op.op_precision(0.5), sample_weight=weights)
    fpr = score_interval(0.0, 100)[1]
    assert ci.ci_low < 100 / (100 + 1000 * fpr) + 0.01


def test_a_heavy_negative_may_be_unseen_in_a_pr_auc() -> None:
    """Positives kept ten times as often as negatives: covered in 77 of 100 draws before."""
    rng = np.random.default_rng(5)
    y, p, _ = _drawn_with_weights(rng, 400_000, 0.02, 1.5, lambda y, p: np.ones(len(y)))
    truth, held = ms.pr_auc.compute(y.astype(int), p), 0
    for _ in range(40):
        y, p, w = _drawn_with_weights(rng, 100, 0.02, 1.5, CHANCES["of the class"])
        ci = weighted_ci(y.astype(int), p, ms.pr_auc, sample_weight=w, n_resamples=60)
        held += ci.ci_low <= truth <= ci.ci_high
    assert held >= 36  # 0.95 less two standard errors of 40 draws


def test_too_few_effective_rows_of_a_share_and_of_a_mean() -> None:
    weights = np.ones(40)
    weights[0] = 1000.0
    y = np.arange(40) % 2
    for metric in (op.op_accuracy(0.5), ms.brier):
        with pytest.raises(UndefinedMetricError, match="effective rows; an interval for"):
            weighted_ci(y, np.linspace(0, 1, 40), metric, sample_weight=weights)


def test_groups_of_a_share_count_as_without_weights() -> None:
    """Nearly equal weights; the oracle is the share in groups without weights."""
    groups = np.arange(300) // 6
    weights = 1.0 + 1e-6 * np.sin(np.arange(300))
    right = ((P >= 0.6) == Y).astype(float)
    caught = (P >= 0.6)[Y == 1].astype(float)
    for spec, values, of in (
        (op.op_accuracy(0.6), right, groups),
        (op.op_recall(0.6), caught, groups[Y == 1]),
        (op.op_recall(-1.0), np.ones(len(caught)), groups[Y == 1]),
    ):
        ci = weighted_ci(Y, P, spec, sample_weight=weights, groups=groups)
        plain = mean_interval(values, groups=of, share=True)
        slack = 0.05 * (plain.ci_high - plain.ci_low)
        assert ci.ci_low == pytest.approx(plain.ci_low, abs=slack)
        assert ci.ci_high == pytest.approx(plain.ci_high, abs=slack)
    with pytest.raises(UndefinedMetricError, match="effective rows"):
        weighted_ci(Y, P, op.op_accuracy(0.6), sample_weight=weights, groups=groups // 25)


def test_few_effective_negatives_place_no_threshold() -> None:
    """As without weights: the negatives times the rate must be at least 3."""
    weights = np.where(np.arange(300) % 10, 1.0, 50.0)
    assert weights[Y == 0].sum() ** 2 / (weights[Y == 0] ** 2).sum() * 0.1 < 3
    with pytest.raises(UndefinedMetricError, match="too few for a threshold"):
        weighted_ci(Y, P, ms.recall_at_fpr(0.1), sample_weight=weights)


def test_a_selector_is_an_error_of_its_cell() -> None:
    spec = op.op_f1(MaxF1Selector(), ci_policy="fixed")
    cell = scorecard(Y, P, metrics=[spec, ms.brier], sample_weight=W)[spec.name]
    assert cell.status == "error"


def _drawn_with_weights(rng, n, prevalence, distance, chance):
    """Rows kept with a chance of their own, weighted by its inverse."""
    parts, kept = [], 0
    while kept < n:
        y = rng.random(4 * n) < prevalence
        x = rng.normal(size=4 * n) + distance * y
        odds = np.log(prevalence / (1 - prevalence)) + distance * x - distance**2 / 2
        p = 1 / (1 + np.exp(-odds))
        q = chance(y, p)
        drawn = rng.random(4 * n) < q
        parts.append((y[drawn], p[drawn], 1 / q[drawn]))
        kept += int(drawn.sum())
    return tuple(np.concatenate(part)[:n] for part in zip(*parts, strict=True))


CHANCES = {
    "of the class": lambda y, p: np.where(y, 1.0, 0.1),
    "more of unsure rows": lambda y, p: 0.05 + 3.8 * p * (1 - p),
    "fewer of unsure rows": lambda y, p: 1.0 - 3.6 * p * (1 - p),
}


SPECS = [op.op_specificity(0.5), op.op_precision(0.5), op.op_accuracy(0.5), ms.brier]


@cache
def _truth(prevalence):
    """The metrics of 400 000 unweighted rows, and where the generator stands after them."""
    rng = np.random.default_rng(3)
    y, p, _ = _drawn_with_weights(rng, 400_000, prevalence, 4.0, lambda y, p: np.ones(len(y)))
    return {spec.name: spec.compute(y.astype(int), p) for spec in SPECS}, rng.bit_generator.state


@pytest.mark.parametrize("prevalence", [0.02, 0.5])
@pytest.mark.parametrize("chance", CHANCES.values(), ids=CHANCES)
def test_intervals_cover_a_nearly_perfect_scorer(chance, prevalence) -> None:
    """Inverse-probability weights, 300 rows."""
    rng = np.random.default_rng()
    truth, rng.bit_generator.state = _truth(prevalence)
    held = dict.fromkeys(truth, 0)
    for _ in range(60):
        y, p, w = _drawn_with_weights(rng, 300, prevalence, 4.0, chance)
        for name, cell in scorecard(y.astype(int), p, metrics=SPECS, sample_weight=w).items():
            refused = cell.ci is None and "effective rows" in cell.reason
            held[name] += refused or cell.ci.ci_low <= truth[name] <= cell.ci.ci_high
    assert min(held.values()) >= 54, held  # 0.95 less two standard errors of 60 draws


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
    with pytest.raises(InvalidTypeError, match=r"does not accept `sample_weight`$"):
        weighted_ci(Y, P, lambda a, b: 0.5, sample_weight=W)


def test_a_scorecard_of_weighted_rows() -> None:
    specs = [ms.roc_auc, ms.brier, op.op_recall(0.6)]
    card = scorecard(Y, P, metrics=specs, sample_weight=W, n_resamples=100)
    assert card["roc_auc"].value == pytest.approx(roc_auc(Y, P, sample_weight=W))
    caught = W[(Y == 1) & (P >= 0.6)].sum() / W[Y == 1].sum()
    assert card["op_recall_at_0.6"].value == pytest.approx(caught)
    assert [cell.ci.method for cell in card.values()] == [
        "score, Rao-Wu",
        "gaffke, weights",
        "wilson, weights",
    ]
    with pytest.raises(
        InvalidInputError,
        match="`sample_weight` cannot be combined with `method` or `assumed_prior`",
    ):
        scorecard(Y, P, metrics=specs, sample_weight=W, assumed_prior=0.1)
