"""Forest plots of values with intervals."""

from collections.abc import Mapping
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit.report.plots._charts import Chart, altair, finished, heading
from eval_toolkit.report.plots._estimates import Estimate, estimates
from eval_toolkit.report.plots._forest_rows import Rows

_ROW = 0.34
"""Row height in inches."""


def plot_forest(
    values: Mapping[str, Any],
    *,
    value_label: str = "Value",
    reference: float | None = None,
    title: str | None = None,
    figsize: tuple[float, float] | None = None,
) -> Chart:
    """Draw one value with its interval per slice; missing values are replaced by the reason.

    Parameters
    ----------
    values : mapping of str to result
        Cells such as `MetricResult`, intervals such as `BootstrapCI`, the JSON of either, triples
        (value, low, high), or numbers; drawn in the given order.
    value_label : str, default "Value"
        Label of the values, with their unit.
    reference : float, optional
        Value of a dashed reference line, such as the value on all rows.
    title : str, optional
        Title above the chart.
    figsize : pair of float, optional
        Width and height in inches; by default the height follows the number of rows.

    Returns
    -------
    Chart
        Altair ``LayerChart``.

    Raises
    ------
    InvalidInputError
        If there are no values, one is not finite, or the value of a triple is outside its interval.
    InvalidTypeError
        If a value is of an unsupported type.
    MissingExtraError
        If Altair is not installed.

    Notes
    -----
    A skipped cell is shown as grey text with its reason. A cell with an error is shown as a red
    triangle with its reason in bold, since errors indicate bugs.

    Examples
    --------
    >>> from eval_toolkit.scorecards import MetricResult
    >>> cells = {"en": (0.84, 0.79, 0.88), "fr": MetricResult(None, "skipped", "one class only")}
    >>> plot_forest(cells, value_label="ROC-AUC").to_dict()["description"]
    'ROC-AUC by slice. en: 0.840 [0.790, 0.880]. fr: skipped, one class only.'
    """
    rows = estimates(values, "values")
    label = heading(value_label, "value_label")
    return _forest(
        rows,
        label=label,
        reference=reference,
        lead=f"{label} by slice.",
        title=title,
        figsize=figsize,
    )


def plot_differences(
    values: Mapping[str, Any],
    *,
    value_label: str = "Difference",
    title: str | None = None,
    figsize: tuple[float, float] | None = None,
) -> Chart:
    """Draw paired differences around zero, with filled points if the interval excludes zero.

    Parameters
    ----------
    values : mapping of str to result
        `PairedBootstrapCI` or other values accepted by `plot_forest`. ``p_value`` and
        ``p_adjusted`` are shown in tooltips. Values with the ``verdict`` "better" are blue with ↑,
        "worse" red with ↓, "different" black with ≠, and all others grey and hollow.
    value_label : str, default "Difference"
        Label of the differences, such as "ROC-AUC of B − A".
    title, figsize
        As for `plot_forest`.

    Returns
    -------
    Chart
        Altair ``LayerChart``.

    Raises
    ------
    InvalidInputError
        If there are no values, or one is not finite.
    InvalidTypeError
        If a value does not contain a number.
    MissingExtraError
        If Altair is not installed.

    Examples
    --------
    >>> chart = plot_differences({"roc_auc": (0.021, 0.009, 0.034)}, value_label="B − A")
    >>> chart.to_dict()["description"]
    'B − A, around zero. roc_auc: +0.021 [+0.009, +0.034].'
    """
    return _around_zero(estimates(values, "values"), value_label, title, figsize)


def plot_lift_ci(
    lifts: Mapping[str, Any],
    *,
    value_label: str = "Lift",
    title: str | None = None,
    figsize: tuple[float, float] | None = None,
) -> Chart:
    """Draw lifts over a baseline with intervals, as `plot_differences` does.

    Parameters
    ----------
    lifts : mapping of str to result
        Objects with ``ci_low`` and ``ci_high``, as in `plot_differences`.
    value_label : str, default "Lift"
        Label of the lifts.
    title, figsize
        As for `plot_forest`.

    Returns
    -------
    Chart
        Altair ``LayerChart``.

    Raises
    ------
    InvalidInputError
        If there are no lifts, or one is not finite.
    InvalidTypeError
        If a lift does not contain a number.
    MissingExtraError
        If Altair is not installed.

    Examples
    --------
    >>> plot_lift_ci({"B": (0.1, -0.1, 0.3)}).to_dict()["description"]
    'Lift, around zero. B: +0.100 [−0.100, +0.300].'
    """
    return _around_zero(estimates(lifts, "lifts"), value_label, title, figsize)


def _around_zero(
    rows: list[Estimate],
    value_label: str,
    title: str | None,
    figsize: tuple[float, float] | None,
) -> Chart:
    label = heading(value_label, "value_label")
    return _forest(
        rows,
        label=label,
        reference=0.0,
        lead=f"{label}, around zero.",
        signed=True,
        title=title,
        figsize=figsize,
    )


def plot_metric_bars(
    values: Mapping[str, Any],
    *,
    value_label: str = "Value",
    title: str | None = None,
    figsize: tuple[float, float] | None = None,
) -> Chart:
    """Draw one bar from zero per metric or model, with its interval.

    Parameters
    ----------
    values : mapping of str to result
        As for `plot_forest`.
    value_label : str, default "Value"
        Label of the values, with their unit.
    title, figsize
        As for `plot_forest`.

    Returns
    -------
    Chart
        Altair ``LayerChart``.

    Raises
    ------
    InvalidInputError
        If there are no values, or one is not finite.
    InvalidTypeError
        If a value does not contain a number.
    MissingExtraError
        If Altair is not installed.

    Examples
    --------
    >>> plot_metric_bars({"A": 0.5, "B": (0.6, 0.5, 0.7)}).to_dict()["description"]
    'Value as bars. A: 0.500. B: 0.600 [0.500, 0.700].'
    """
    rows = estimates(values, "values")
    label = heading(value_label, "value_label")
    return _forest(
        rows,
        label=label,
        reference=None,
        lead=f"{label} as bars.",
        bars=True,
        title=title,
        figsize=figsize,
    )


def _forest(
    rows: list[Estimate],
    *,
    label: str,
    reference: float | None,
    lead: str,
    title: str | None,
    figsize: tuple[float, float] | None,
    signed: bool = False,
    bars: bool = False,
) -> Chart:
    alt = altair()
    if reference is not None:
        reference = validation.number(reference, "reference")
    axes = Rows(rows, label, reference, signed=signed, bars=bars)
    layers = axes.frame()
    if bars:
        layers += axes.bars()
    layers += axes.intervals(dark=bars)
    if not bars:
        layers += axes.points(open_at=reference if signed else None)
    layers += axes.absent() + axes.numbers()
    return finished(
        alt.layer(*layers),
        title=title,
        figsize=figsize,
        description=_description(lead, rows, signed=signed),
        default=(6.8, 0.75 + _ROW * max(len(rows), 2)),
    )


def _description(lead: str, rows: list[Estimate], *, signed: bool) -> str:
    shown = [
        f"{row.name}: {row.shown(signed=signed)}."
        if row.status == "ok"
        else f"{row.name}: {row.status}{f', {row.reason}' if row.reason else ''}."
        for row in rows[:10]
    ]
    more = [f"And {len(rows) - 10} more."] if len(rows) > 10 else []
    return " ".join([lead, *shown, *more])
