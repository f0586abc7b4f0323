"""Failures that few rows, groups or units show: intervals and gates reckon with them."""

import numpy as np
from numpy.typing import NDArray

from eval_toolkit import metric_specs as ms
from eval_toolkit import scorecard
from eval_toolkit.analysis import compare_records
from eval_toolkit.claims import Claim
from eval_toolkit.claims.evaluation import _non_inferior
from eval_toolkit.inference import mean_interval
from eval_toolkit.metrics import roc_auc
from eval_toolkit.scorecards import Records

REPEATS = 200
SLACK = 0.035
"""Two standard errors of 93 % over 200 repeats."""

Floats = NDArray[np.float64]


def _with_negatives_on_top(rng: np.random.Generator, y: NDArray[np.int64]) -> Floats:
    """Return scores of which 3 % of the negatives are above nearly all positives."""
    negative = np.where(rng.random(len(y)) < 0.03, 4.0, -3.0)
    return np.where(y == 1, 2.0, negative) + rng.normal(size=len(y))


def test_partial_auc_of_few_negatives_up_to_the_rate() -> None:
    big = np.repeat([1, 0], 100_000)
    truth = roc_auc(big, _with_negatives_on_top(np.random.default_rng(0), big), max_fpr=0.1)
    rng = np.random.default_rng(1)
    held = given = 0
    for _ in range(REPEATS):
        y = np.repeat([1, 0], [30, 35])
        spec = ms.partial_roc_auc(0.1)
        ci = scorecard(y, _with_negatives_on_top(rng, y), metrics=[spec], n_resamples=128)[
            spec.name
        ].ci
        given += ci is not None
        held += ci is not None and ci.ci_low <= truth <= ci.ci_high
    assert given == REPEATS
    assert held / given >= 0.93 - SLACK


def _groups_that_fail_where_large(
    rng: np.random.Generator, n: int
) -> tuple[NDArray[np.int64], Floats]:
    """Return sizes and rates: the larger a group, the lower its rate."""
    sizes = np.maximum(1, np.round(np.exp(rng.normal(2.0, 1.0, n)))).astype(np.int64)
    logit = 1.5 - (np.log(sizes) - 2.0) + 0.5 * rng.normal(size=n)
    return sizes, 1.0 / (1.0 + np.exp(-logit))


def test_shares_that_go_with_the_sizes_of_groups() -> None:
    sizes, rates = _groups_that_fail_where_large(np.random.default_rng(0), 400_000)
    truth = float((sizes * rates).sum() / sizes.sum())
    rng = np.random.default_rng(2)
    held = 0
    for _ in range(4 * REPEATS):
        sizes, rates = _groups_that_fail_where_large(rng, 40)
        groups = np.repeat(np.arange(40), sizes)
        values = (rng.random(len(groups)) < rates[groups]).astype(float)
        ci = mean_interval(values, groups=groups, share=True)
        held += ci.ci_low <= truth <= ci.ci_high
    assert held / (4 * REPEATS) >= 0.93 - SLACK / 2.0


def test_gates_on_numbers_whose_rare_failures_were_not_seen() -> None:
    """B fails completely on so many units that it is worse by exactly the margin."""
    rng = np.random.default_rng(3)
    margin, n = 0.03, 30
    passes = 0
    for _ in range(REPEATS):
        a = rng.beta(6.0, 2.0, n)
        b = np.where(rng.random(n) < margin / 0.75, 0.0, a + 0.05 * (rng.random(n) - 0.5))
        old, new = (
            {"t": Records.from_columns({"bleu": x}, unit_id=[str(i) for i in range(n)])}
            for x in (a, b)
        )
        spec = ms.mean_of("bleu", higher_is_better=True)
        claim = Claim(name="no worse", slice="t", scorer="", metric="bleu", non_inferior_by=margin)
        cell = compare_records(old, new, [spec]).cells[0]
        passes += _non_inferior(claim, "bleu", cell, ())[0]
    assert passes / REPEATS <= 0.03 + 0.024
