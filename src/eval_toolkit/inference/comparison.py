"""Comparison of several scorers on shared resamples, with adjusted p-values."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Unpack, get_args

from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.options import gathers
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.inference.bootstrap_intervals import bootstrap_problem, enough_units, finite
from eval_toolkit.inference.calibration_intervals import (
    calibration_difference,
    calibration_statistic,
)
from eval_toolkit.inference.multiplicity import CorrectionMethod, correct_p_values
from eval_toolkit.inference.options import RESAMPLING, Resampling
from eval_toolkit.inference.paired import requires_resamples, shared_draws
from eval_toolkit.inference.paired_intervals import paired_difference
from eval_toolkit.inference.plans import chosen_plan
from eval_toolkit.inference.resampling import Problem
from eval_toolkit.inference.results import (
    BootstrapCI,
    PairedBootstrapCI,
)
from eval_toolkit.inference.score_intervals import has_closed_form
from eval_toolkit.inference.statistics import MetricFn, statistic_for
from eval_toolkit.seeds import resolve_seed


@dataclass(frozen=True, slots=True, repr=False)
class ScorerComparison(Displayed):
    """Intervals for several scorers on the same rows and for their differences from a baseline."""

    baseline: str
    scorers: dict[str, BootstrapCI]
    differences: dict[str, PairedBootstrapCI]
    """Difference from the baseline, by scorer."""
    adjusted_p_values: dict[str, float]
    """Adjusted p-values of the differences; calibration errors have none."""
    correction: str

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "baseline": self.baseline,
            "correction": self.correction,
            "scorers": {name: ci.to_dict() for name, ci in self.scorers.items()},
            "differences": {
                name: {**diff.to_dict(), "adjusted_p_value": self.adjusted_p_values.get(name)}
                for name, diff in self.differences.items()
            },
        }


@gathers(Resampling, **RESAMPLING)
def compare_scorers(
    y_true: ArrayLike,
    scorers: Mapping[str, ArrayLike],
    metric: MetricFn | Any,
    *,
    baseline: str | None = None,
    correction: str = "holm",
    method: str | None = None,
    groups: ArrayLike | None = None,
    **resampling: Unpack[Resampling],
) -> ScorerComparison:
    """Compare several scorers on shared resamples, with adjusted p-values.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1.
    scorers : mapping of name to array-like of shape (n,)
        Scores of at least two scorers for the same rows.
    metric : callable or metric spec
        Function of (y_true, y_score).
    baseline : str, optional
        Name of the baseline; by default the first scorer.
    correction : {"holm", "hochberg", "bonferroni", "bh", "by", "none"}, default "holm"
        Correction of the p-values for the number of comparisons.
    n_resamples, confidence, method, seed, rng, groups, executor
        As in `bootstrap_ci`; ``method`` applies to the interval for each scorer. Differences have
        the default interval of `paired_bootstrap_diff`.

    Returns
    -------
    ScorerComparison
        Intervals and differences, computed from shared resamples.

    Raises
    ------
    InvalidInputError
        If there are fewer than two scorers or the baseline is not one of them.
    UndefinedMetricError
        As in `bootstrap_ci`.

    Examples
    --------
    >>> from eval_toolkit.metrics import roc_auc
    >>> y = [0, 1] * 30
    >>> result = compare_scorers(
    ...     y,
    ...     {"a": [0.02 * i + 0.1 * t for i, t in enumerate(y)],
    ...      "b": [0.02 * i + 0.5 * t for i, t in enumerate(y)]},
    ...     roc_auc,
    ... )
    >>> result.baseline, list(result.differences)
    ('a', ['b'])
    """
    if not isinstance(scorers, Mapping):
        raise InvalidTypeError(f"`scorers` must map names to scores, got {type(scorers).__name__}")
    validation.choice(correction, "correction", get_args(CorrectionMethod))
    names = list(scorers)
    if len(names) < 2:
        raise InvalidInputError(f"`scorers` must contain at least two scorers, got {len(names)}")
    first = names[0] if baseline is None else baseline
    if first not in scorers:
        raise InvalidInputError(f"`baseline` is {first!r}; the scorers are {names}")
    labels = validation.binary_labels(y_true)
    # The baseline comes first, so that the row order does not depend on the other scorers.
    names = [first, *(name for name in names if name != first)]
    scores = tuple(
        validation.binary_pair(y_true, scorers[name], score_name=f"scorers[{name!r}]")[1]
        for name in names
    )
    resampling["n_resamples"] = validation.integer(resampling["n_resamples"], "n_resamples", low=1)
    resampling["confidence"] = validation.fraction(resampling["confidence"], "confidence")
    plan = chosen_plan(labels, groups=groups)
    statistic = statistic_for(metric)
    if method is not None or requires_resamples(statistic) or not has_closed_form(statistic, plan):
        enough_units(plan)
    problem = Problem.scored(
        labels, scores, [statistic], plan, resolve_seed(resampling["seed"], resampling["rng"])
    )
    points = [[finite(statistic.point(data), statistic.name)] for data in problem.data]
    problem, samples = shared_draws(problem, resampling["n_resamples"], resampling["executor"])
    cells = bootstrap_problem(
        problem,
        n_resamples=resampling["n_resamples"],
        confidence=resampling["confidence"],
        method=method,
        executor=resampling["executor"],
        samples=samples[:, None],
        points=points,
    )
    intervals: dict[str, BootstrapCI] = {}
    for name, (cell,) in zip(names, cells, strict=True):
        if isinstance(cell, Exception):
            raise cell
        intervals[name] = cell
    differences = {}
    for row, name in enumerate(names[1:], 1):
        pair = replace(problem, data=(problem.data[0], problem.data[row]))
        if calibration_statistic(statistic) is not None:
            differences[name] = calibration_difference(intervals[first], intervals[name])
        else:
            differences[name] = paired_difference(
                pair, samples[[0, row]], samples.shape[1], resampling["confidence"]
            )
    tested = {name: d.p_value for name, d in differences.items() if d.p_value is not None}
    adjusted: list[float] = []
    if tested:
        adjusted = correct_p_values(list(tested.values()), method=correction).tolist()  # type: ignore[arg-type]
    return ScorerComparison(
        baseline=first,
        scorers={name: intervals[name] for name in scorers},
        differences={name: differences[name] for name in scorers if name != first},
        adjusted_p_values=dict(zip(tested, adjusted, strict=True)),
        correction=correction,
    )
