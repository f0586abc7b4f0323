"""Text similarity between groups, with a confidence interval."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import FloatArray, IntArray
from eval_toolkit.errors import UndefinedMetricError
from eval_toolkit.inference.distributions import critical_value
from eval_toolkit.inference.jackknife import jackknife_se
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, BootstrapCI
from eval_toolkit.inference.survival_data import logit_bounds, no_event_bound
from eval_toolkit.metrics.diversity import GramVectors, gram_vectors

_ROUNDING = 1e-12


def probe_similarity(
    texts: Sequence[str],
    groups: ArrayLike,
    *,
    n: int = 2,
    confidence: float = DEFAULT_CONFIDENCE,
) -> BootstrapCI:
    """Return the mean similarity of texts from different groups, with a confidence interval.

    Parameters
    ----------
    texts : sequence of str
        Texts, e.g. the probes written by a tester model.
    groups : array-like of shape (n_texts,)
        Group of each text, e.g. its seed prompt. Texts within a group are not compared.
    n : int, default 2
        Length of the n-grams in words.
    confidence : float, default 0.95
        Two-sided confidence level.

    Returns
    -------
    BootstrapCI
        Interval inside [0, 1] with method "jackknife-logit, groups"; no resampling.

    Raises
    ------
    InvalidInputError
        If there are no texts, n is below 1, or the numbers of texts and groups differ.
    InvalidTypeError
        If a text is not a string.
    UndefinedMetricError
        If all texts belong to one group.

    Notes
    -----
    Similarity is defined as in `self_similarity`. All pairs of texts have equal weight, so larger
    groups have more influence. The value is a ratio of U-statistics of degree two in the groups.
    The standard error is the jackknife estimate over groups [1]_, and the bounds are symmetric on
    the logit scale, using Student's t with G − 1 degrees of freedom. If the leave-one-out values do
    not vary, or there are only two groups, the interval allows for the largest fraction of pairs
    with similarity 0 or 1 that G/2 pairs of groups cannot rule out, 1 − ((1 − confidence)/2)^(2/G).

    References
    ----------
    .. [1] Arvesen (1969), Annals of Mathematical Statistics 40(6):2076-2100.

    Examples
    --------
    >>> texts = ["tell me a joke", "tell me a story", "tell me a secret", "sing me a song"]
    >>> f"{probe_similarity(texts, ['a', 'b', 'c', 'd']):.2f}"
    '0.50 [0.11, 0.89]'
    """
    level = validation.fraction(confidence, "confidence")
    vectors = gram_vectors(texts, n)
    codes, n_groups = validation.group_codes(groups, vectors.n_texts)
    if n_groups < 2:
        raise UndefinedMetricError(
            "probe_similarity is undefined: all texts belong to one group; at least two are needed"
        )
    point, without = _between(vectors, codes, n_groups)
    method = "jackknife-logit, groups"
    reason = ""
    if without is None or float(without.std()) < _ROUNDING:
        unseen = no_event_bound(n_groups / 2.0, level)
        low, high = point * (1.0 - unseen), point + unseen * (1.0 - point)
        method, reason = "exact, groups", "no variation between groups"
    else:
        low, high = logit_bounds(point, jackknife_se(without), critical_value(level, n_groups - 1))
    return BootstrapCI(
        point,
        low,
        high,
        level,
        0,
        method,
        reason=reason,
        n_units=vectors.n_texts,
        n_groups=n_groups,
    )


def _between(
    vectors: GramVectors, codes: IntArray, n_groups: int
) -> tuple[float, FloatArray | None]:
    """Return the mean over pairs from different groups, and its leave-one-group-out values."""
    sizes = np.bincount(codes).astype(np.float64)
    # Sum of vectors by group; inner products of the sums cover all pairs between two groups.
    n_grams = int(vectors.grams.max()) + 1
    keys, place = np.unique(codes[vectors.texts] * n_grams + vectors.grams, return_inverse=True)
    sums = np.bincount(place, vectors.values)
    owner, grams = keys // n_grams, keys % n_grams
    total = np.bincount(grams, sums, n_grams)
    own = np.bincount(owner, sums**2)
    with_all = np.bincount(owner, sums * total[grams])
    products = float(total @ total) - math.fsum(own)
    pairs = sizes.sum() ** 2 - float((sizes**2).sum())
    point = min(1.0, max(0.0, float(products / pairs)))
    if n_groups == 2:
        return point, None
    left_products = products - 2.0 * (with_all - own)
    left_pairs = pairs - 2.0 * sizes * (sizes.sum() - sizes)
    return point, left_products / left_pairs
