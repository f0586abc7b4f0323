"""Metrics at an assumed prevalence: bounds from the rates of each class."""

import numpy as np
import pytest

from eval_toolkit import metric_specs as ms
from eval_toolkit import op_metric_specs as op
from eval_toolkit import scorecard
from eval_toolkit.inference import wilson_interval

Y = np.repeat([1, 0], [50, 50])
PERFECT = np.where(Y == 1, 0.9, 0.1)


def test_precision_without_a_false_positive_is_not_certain() -> None:
    """50 + 50 rows without an error at 0.001: 1.000 [0.929, 1.000] in the first edition."""
    cell = scorecard(Y, PERFECT, metrics=[op.op_precision(0.5)], assumed_prior=0.001)[
        "op_precision_at_0.5"
    ]
    fpr = wilson_interval(0, 50).high
    assert cell.value == 1.0
    assert cell.ci.ci_low == pytest.approx(0.001 / (0.001 + 0.999 * fpr), rel=0.02)


def test_a_prevalence_too_far_for_pr_auc_is_said() -> None:
    cell = scorecard(Y, PERFECT, metrics=[ms.pr_auc], assumed_prior=0.01)["pr_auc"]
    assert cell.status == "skipped"
    assert "50 negatives are too few to estimate PR-AUC" in cell.reason
    assert "99 are needed" in cell.reason


def test_rates_of_one_class_and_roc_auc_know_no_prevalence() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=100) + Y
    specs = [ms.roc_auc, ms.recall_at_fpr(0.1), op.op_recall(0.5), op.op_fpr(0.5)]
    here, there = (
        scorecard(Y, scores, metrics=specs, assumed_prior=prior) for prior in (None, 0.01)
    )
    for spec in specs:
        assert there[spec.name].ci == here[spec.name].ci


@pytest.mark.parametrize(("n", "prior"), [(100, 0.05), (400, 0.01)])
def test_pr_auc_covers(n, prior) -> None:
    """Coverage was 0.45 at n = 100 and prevalence 0.01; the truth is that of 400 000 rows."""
    rng = np.random.default_rng(1)
    y = np.repeat([1, 0], [n // 2, n // 2])
    big = np.repeat([1, 0], [200_000, 200_000])
    weights = np.where(big == 1, prior, 1 - prior)
    truth = ms.pr_auc.function(big, rng.normal(size=len(big)) + 2 * big, sample_weight=weights)
    held = 0
    for _ in range(60):
        cell = scorecard(y, rng.normal(size=n) + 2 * y, metrics=[ms.pr_auc], assumed_prior=prior)[
            "pr_auc"
        ]
        held += cell.ci.ci_low <= truth <= cell.ci.ci_high
    assert held >= 54  # 0.95 less two standard errors of 60 draws


def test_brier_and_log_loss_are_mixtures_of_class_means() -> None:
    rng = np.random.default_rng(2)
    p = 1 / (1 + np.exp(-(rng.normal(size=100) + Y)))
    card = scorecard(Y, p, metrics=[ms.brier, ms.log_loss], assumed_prior=0.2)
    loss = (p - Y) ** 2
    assert card["brier"].value == pytest.approx(
        0.2 * loss[Y == 1].mean() + 0.8 * loss[Y == 0].mean()
    )
    for cell in card.values():
        assert cell.ci.ci_low < cell.value < cell.ci.ci_high


def test_groups_have_no_interval_of_pr_auc_at_a_prevalence() -> None:
    rng = np.random.default_rng(3)
    card = scorecard(
        Y,
        rng.normal(size=100) + Y,
        metrics=[ms.pr_auc],
        assumed_prior=0.2,
        groups=np.arange(100) // 2,
    )
    assert card["pr_auc"].ci is None
    assert "independent rows" in card["pr_auc"].reason


@pytest.mark.parametrize("spec", [ms.ece(), ms.ece(strategy="quantile"), ms.smooth_ece])
@pytest.mark.parametrize("options", [{}, {"method": "BCa"}, {"groups": np.arange(100) // 2}])
def test_calibration_errors_have_no_interval_at_a_prevalence(spec, options) -> None:
    """A scorer that is exactly calibrated at the prevalence was hardly ever covered."""
    rng = np.random.default_rng(4)
    p = 1 / (1 + np.exp(-(rng.normal(size=100) + Y)))
    cell = scorecard(Y, p, metrics=[spec], assumed_prior=0.2, n_resamples=100, **options)[spec.name]
    weights = np.where(Y == 1, 0.2, 0.8)
    assert cell.value == pytest.approx(spec.function(Y, p, sample_weight=weights))
    assert (cell.status, cell.ci) == ("ok", None)
    assert cell.reason.startswith("no interval: the bias of a calibration error is known")
    assert "not at an assumed prevalence" in cell.reason


def test_a_calibration_error_at_the_prevalence_of_the_data_has_its_own_interval() -> None:
    rng = np.random.default_rng(4)
    p = 1 / (1 + np.exp(-(rng.normal(size=100) + Y)))
    here, there = (
        scorecard(Y, p, metrics=[ms.ece()], assumed_prior=prior, n_resamples=100)
        for prior in (None, 0.5)
    )
    name = ms.ece().name
    assert there[name].ci == here[name].ci
