"""CR2 and its degrees of freedom against the definitions, written out with matrices.

Bell and McCaffrey (2002) in the notation of Pustejovsky and Tipton (2018): for a regression on a
constant, A_g = (I − H_gg)^(−1/2), V = Σ_g (1ᵀ A_g e_g)² / n², and the degrees of freedom are
(Σ λ)² / Σ λ² with λ the eigenvalues of GᵀΩG, where column g of G is (I − H)_g A_g 1.
"""

import numpy as np
import pytest
from scipy.linalg import fractional_matrix_power

from eval_toolkit.inference.mean_variances import mean_variance

CASES = {
    "equal": [4] * 6,
    "unequal": [1, 2, 3, 9, 14],
    "dominated": [20, 1, 1, 2, 3, 4],
    "pair": [3, 5],
}


def by_matrices(values, codes, correlation):
    """Return CR2, what it expects over the truth, and its degrees of freedom."""
    n = len(values)
    hat = np.full((n, n), 1.0 / n)
    residual = values - values.mean()
    working = np.where(codes[:, None] == codes, correlation, 0.0)
    np.fill_diagonal(working, 1.0)
    raw, columns = 0.0, []
    for group in np.unique(codes):
        at = codes == group
        adjust = fractional_matrix_power(np.eye(at.sum()) - hat[np.ix_(at, at)], -0.5)
        raw += (np.ones(at.sum()) @ adjust @ residual[at]) ** 2 / n**2
        columns.append((np.eye(n) - hat)[:, at] @ adjust @ np.ones(at.sum()))
    form = np.array(columns) @ working @ np.array(columns).T
    truth = working.sum()
    return raw, np.trace(form) / truth, np.trace(form) ** 2 / (form**2).sum()


@pytest.mark.parametrize("sizes", CASES.values(), ids=CASES)
def test_variance_and_degrees_of_freedom(sizes):
    codes = np.repeat(np.arange(len(sizes)), sizes)
    values = np.random.default_rng(sum(sizes)).normal(size=len(codes)) + codes % 3
    found = mean_variance(values, codes, len(sizes))
    raw, expected, df = by_matrices(values, codes, 0.0)
    assert found.cr2 == pytest.approx(raw, rel=1e-10)
    assert expected == pytest.approx(1.0)  # unbiased where units are independent
    assert found.df == pytest.approx(df, rel=1e-10)


@pytest.mark.parametrize("sizes", CASES.values(), ids=CASES)
def test_scaled_variance_is_unbiased_at_the_estimated_correlation(sizes):
    codes = np.repeat(np.arange(len(sizes)), sizes)
    values = np.random.default_rng(3).normal(size=len(codes)) + 3.0 * (codes % 2)
    found = mean_variance(values, codes, len(sizes))
    # The ANOVA estimate, from its textbook table.
    n, k = len(values), len(sizes)
    means = np.array([values[codes == g].mean() for g in range(k)])
    among = (np.array(sizes) * (means - values.mean()) ** 2).sum() / (k - 1)
    within = ((values - means[codes]) ** 2).sum() / (n - k)
    typical = (n - (np.array(sizes) ** 2).sum() / n) / (k - 1)
    rho = np.clip((among - within) / (among + (typical - 1) * within), 0.0, 1.0)
    raw, expected, _ = by_matrices(values, codes, rho)
    working = np.where(codes[:, None] == codes, rho, 0.0)
    np.fill_diagonal(working, 1.0)
    model = values.var(ddof=1) * working.sum() / n**2
    assert found.variance == pytest.approx(max(raw / expected, model), rel=1e-10)
