"""Coverage of intervals of functions of sums: a ratio of sums, plain and over groups."""

import numpy as np
import pytest

from eval_toolkit import metric_specs as ms
from eval_toolkit.scorecards import Records, summarise

SHARE = ms.ratio_of("share", "hits", "words", bounds=(0.0, 1.0))
TRUTH = 0.3


def drawn(rng: np.random.Generator, n: int, per_group: int) -> Records:
    """Texts of uneven length; those of a group share how well they are done."""
    words = rng.integers(5, 60, n)
    level = np.repeat(rng.beta(3.0, 7.0, n // per_group), per_group)  # mean 0.3
    hits = rng.binomial(words, level)
    group = [f"g{i // per_group}" for i in range(n)]
    return Records.from_columns({"hits": hits, "words": words}, group=group)


def covered(n_runs: int, n: int, per_group: int, method: str) -> float:
    rng = np.random.default_rng(11)
    hits = 0
    for run in range(n_runs):
        ci = summarise(drawn(rng, n, per_group), [SHARE], method=method, n_resamples=400, seed=run)[
            "share"
        ].ci
        assert ci is not None
        hits += ci.ci_low <= TRUTH <= ci.ci_high
    return hits / n_runs


# 95 % of 400 has a standard deviation of 1.1 points; bootstrap intervals of 60 units fall short by
# one or two points more.
@pytest.mark.parametrize("method", ["BCa", "percentile"])
@pytest.mark.parametrize("per_group", [1, 3], ids=["units", "groups"])
def test_a_ratio_of_sums_is_covered(method: str, per_group: int) -> None:
    assert 0.90 <= covered(400, 60 * per_group, per_group, method) <= 0.985


def test_units_taken_for_independent_would_not_be() -> None:
    rng = np.random.default_rng(11)
    hits = 0
    for run in range(200):
        of = drawn(rng, 180, 6)
        alone = Records.from_columns({"hits": of.columns["hits"], "words": of.columns["words"]})
        ci = summarise(alone, [SHARE], n_resamples=200, seed=run)["share"].ci
        assert ci is not None
        hits += ci.ci_low <= TRUTH <= ci.ci_high
    assert hits / 200 < 0.80
