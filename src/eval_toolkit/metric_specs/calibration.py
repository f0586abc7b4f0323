"""Calibration errors of probabilistic scores."""

import functools

from eval_toolkit import metrics
from eval_toolkit._internal import validation
from eval_toolkit.inference.calibration_statistics import (
    EqualMassError,
    EqualWidthError,
    SmoothError,
)
from eval_toolkit.metric_specs.scores import ScoreSpec, make_spec_name

smooth_ece: ScoreSpec = ScoreSpec(
    "smooth_ece", metrics.smooth_ece, SmoothError(), higher_is_better=False
)


def ece(*, n_bins: int = 15, strategy: str = "uniform") -> ScoreSpec:
    """Return a spec for the expected calibration error over equal-width or equal-mass bins.

    Parameters
    ----------
    n_bins : int, default 15
        Number of bins, at least 2.
    strategy : {"uniform", "quantile"}, default "uniform"
        Bins of equal width ("uniform") or equal mass ("quantile").

    Returns
    -------
    ScoreSpec
        Spec; equal arguments return the identical object.

    Raises
    ------
    InvalidInputError
        If an argument is out of range.

    Examples
    --------
    >>> ece(n_bins=10) is ece(n_bins=10)
    True
    """
    return _ece(
        validation.bin_count(n_bins),
        validation.choice(strategy, "strategy", ("uniform", "quantile")),
    )


@functools.lru_cache(maxsize=128)
def _ece(n_bins: int, strategy: str) -> ScoreSpec:
    name = make_spec_name("ece", n_bins=n_bins, strategy=strategy)
    if strategy == "uniform":
        function = functools.partial(metrics.expected_calibration_error, n_bins=n_bins)
        return ScoreSpec(name, function, EqualWidthError(n_bins), higher_is_better=False)
    function = functools.partial(metrics.expected_calibration_error_equal_mass, n_bins=n_bins)
    return ScoreSpec(name, function, EqualMassError(n_bins), higher_is_better=False)
