"""Example calls of all charts with given names, for tests of every chart."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eval_toolkit import metrics
from eval_toolkit.inference import kaplan_meier, pr_band, roc_band
from eval_toolkit.report import plots
from eval_toolkit.scorecards import MetricResult

Y = np.tile([0, 0, 1], 40)
SCORE = (np.arange(120) * 37 % 120) / 150 + 0.2 * Y
ROC_BAND, PR_BAND = (band(Y, SCORE, n_resamples=40) for band in (roc_band, pr_band))


def forest_cells(names: Sequence[str], reason: str) -> dict[str, Any]:
    return {
        names[0]: (0.7, 0.6, 0.8),
        names[1]: MetricResult(None, "skipped", reason, n_units=3),
        names[2]: MetricResult(None, "error", reason),
        "plain": MetricResult(0.5, "ok", n_units=40),
    }


CHARTS: dict[str, Callable[[Sequence[str]], plots.Chart]] = {
    "roc": lambda t: plots.plot_roc_curve(
        Y,
        SCORE,
        label=t[0],
        threshold=0.5,
        baseline_curve=metrics.roc_curve(Y, -SCORE),
        band=ROC_BAND,
        title=t[1],
    ),
    "pr": lambda t: plots.plot_pr_curve(
        Y,
        SCORE,
        label=t[0],
        threshold=0.5,
        baseline_curve=metrics.pr_curve(Y, -SCORE),
        band=PR_BAND,
        title=t[1],
    ),
    "thresholds": lambda t: plots.plot_threshold_curves(Y, SCORE, threshold=0.5, title=t[0]),
    "reliability": lambda t: plots.plot_reliability_diagram(Y, SCORE, title=t[0]),
    "histograms_2": lambda t: plots.plot_score_histograms(
        {t[0]: SCORE[Y == 0], t[1]: SCORE[Y == 1]}
    ),
    "histograms_3": lambda t: plots.plot_score_histograms(
        {t[0]: SCORE, t[1]: SCORE[:50], t[2]: SCORE[50:]}
    ),
    "forest": lambda t: plots.plot_forest(
        forest_cells(t, t[3]), value_label=t[4], reference=0.5, title=t[0]
    ),
    "differences": lambda t: plots.plot_differences(
        {t[0]: (0.1, 0.05, 0.2), t[1]: (0.0, -0.1, 0.1)}, value_label=t[2]
    ),
    "lift": lambda t: plots.plot_lift_ci({t[0]: (0.1, -0.05, 0.2)}, value_label=t[2]),
    "bars": lambda t: plots.plot_metric_bars({t[0]: 0.4, t[1]: (0.5, 0.4, 0.6)}, value_label=t[2]),
    "bootstrap": lambda t: plots.plot_bootstrap_distribution(
        np.linspace(-1, 2, 90), ci_low=-0.9, ci_high=1.9, value_label=t[0]
    ),
    "pareto": lambda t: plots.plot_pareto_frontier(
        [1, 2, 3], [0.5, 0.7, 0.6], point_labels=t[:3], cost_label=t[3], metric_label=t[4]
    ),
    "confusion": lambda t: plots.plot_confusion_matrix_grid(
        {t[0]: [[3, 1], [2, 9]], t[1]: [[0, 0], [0, 1]]}, class_labels=t[2:4]
    ),
    "heatmap": lambda t: plots.plot_slice_metric_heatmap(
        [[0.1, None], [0.5, 0.9]], row_labels=t[:2], col_labels=t[2:4], value_label=t[4]
    ),
    "survival": lambda t: plots.plot_survival(
        kaplan_meier([1, 2, 3, 3, 3], [1, 1, 0, 0, 0]), time_label=t[0], value_label=t[1]
    ),
    "survival curves": lambda t: plots.plot_survival_curves(
        {t[2]: kaplan_meier([1, 2, 3], [1, 1, 0]), t[3]: kaplan_meier([2, 3, 3], [1, 1, 0])},
        time_label=t[0],
        value_label=t[1],
    ),
}

NAMES = ["first", "second", "third", "fourth", "fifth"]


def nodes(spec: Any) -> list[dict[str, Any]]:
    """Yield all objects of a specification, except data rows."""
    found: list[dict[str, Any]] = []
    if isinstance(spec, dict):
        found.append(spec)
        for key, value in spec.items():
            if key not in ("datasets", "values"):
                found += nodes(value)
    elif isinstance(spec, list):
        for value in spec:
            found += nodes(value)
    return found


def rows(chart: plots.Chart, *keys: str) -> list[dict[str, Any]]:
    """Return the rows of the only dataset with exactly these columns."""
    datasets = chart.to_dict()["datasets"].values()
    (found,) = [data for data in datasets if set(data[0]) == set(keys)]
    return found
