"""Altair charts for notebooks, reports and papers.

``chart_a + chart_b`` layers one chart over the other; there is no ``ax``. `set_plot_style` applies
the style of `save_figure` to all charts in a session.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.report.plots._charts import *
    from eval_toolkit.report.plots.confusion import *
    from eval_toolkit.report.plots.curves import *
    from eval_toolkit.report.plots.distributions import *
    from eval_toolkit.report.plots.forests import *
    from eval_toolkit.report.plots.heatmap import *
    from eval_toolkit.report.plots.probabilities import *
    from eval_toolkit.report.plots.saving import *
    from eval_toolkit.report.plots.style import *
    from eval_toolkit.report.plots.survival import *
    from eval_toolkit.report.plots.thinning import *

__all__, __getattr__ = names_on_use(
    __name__,
    {
        "_charts": "Chart",
        "confusion": "plot_confusion_matrix_grid",
        "curves": "plot_pr_curve plot_roc_curve plot_threshold_curves",
        "distributions": "plot_bootstrap_distribution plot_pareto_frontier",
        "forests": "plot_differences plot_forest plot_lift_ci plot_metric_bars",
        "heatmap": "plot_slice_metric_heatmap",
        "probabilities": "plot_reliability_diagram plot_score_histograms",
        "saving": "save_figure",
        "style": "DEFAULT_FIGSIZE NEUTRALS PALETTE PLOT_STYLE make_palette set_plot_style",
        "survival": "plot_survival plot_survival_curves",
        "thinning": "step_vertices thin_curve",
    },
)
