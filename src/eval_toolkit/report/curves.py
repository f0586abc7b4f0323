"""Discrimination section: ROC curves, precision-recall curves and score histograms."""

from collections.abc import Callable, Iterator

from eval_toolkit import metrics
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.inference.curve_bands import CurveBand, pr_band, roc_band
from eval_toolkit.report.scored_rows import (
    MAX_SUBJECTS,
    Point,
    Scored,
    class_names,
    left_out,
    of_folds,
    scored_of,
    stored_points,
)
from eval_toolkit.report.sections import Figure, Section, Wanted
from eval_toolkit.runs import Run

_DRAWS = 10_000_000
"""Maximum product of rows and resamples for a band; larger runs use fewer resamples."""
_LEAST_DRAWS = 100


def build(run: Run, wanted: Wanted) -> Section | None:
    """Return the section; None if there are no labels and scores, or charts are disabled."""
    subjects = scored_of(run)
    if not subjects or not wanted.charts:
        return None
    shown = subjects[:MAX_SUBJECTS]
    figures: list[Figure] = []
    absent: list[str] = []
    for at, one in enumerate(shown):
        if not one.has_both_classes:
            which = class_names(run)[one.n_positive > 0]
            absent.append(f"{one.name}: no curves, all {len(one.labels):,} rows are {which}")
            continue
        # Curves are comparable only on the same rows, so the grey curve belongs to the same slice.
        alike = (other for other in shown if other.slice == one.slice and other.has_both_classes)
        first = next(alike)
        figures += _figures(run, one, None if first is one else first, wanted, at, absent)
    n_absent = [f"{one.name}: {one.n_absent:,} rows without a score are omitted" for one in shown]
    return Section(
        id="curves",
        menu="Curves",
        title="How well do the scores separate the classes?",
        template="curves.html",
        lead=_lead(run, shown),
        data={"figures": figures, "absent": absent},
        notes=[
            *of_folds(run, shown),
            *(said for said, one in zip(n_absent, shown, strict=True) if one.n_absent),
            *left_out(subjects, shown),
        ],
    )


def _lead(run: Run, shown: list[Scored]) -> str:
    rows = f"{len(shown[0].labels):,} rows, {shown[0].n_positive:,} {class_names(run)[1]}."
    return rows if len({(len(one.labels), one.n_positive) for one in shown}) == 1 else ""


def _figures(
    run: Run, one: Scored, first: Scored | None, wanted: Wanted, at: int, absent: list[str]
) -> Iterator[Figure]:
    """Yield the ROC curve, the precision-recall curve and the score histograms of one scorer."""
    from eval_toolkit.report.figures import drawn
    from eval_toolkit.report.plots import plot_pr_curve, plot_roc_curve, plot_score_histograms

    points = stored_points(run, one.scorer)
    at_least = float(one.scores.max())
    reached = next((p.threshold for p in points if p.threshold <= at_least), None)
    grey = f" In grey: {first.name}." if first is not None else ""
    roc, pr = _band(roc_band, one, wanted, absent), _band(pr_band, one, wanted, absent)
    yield drawn(
        plot_roc_curve(
            one.labels,
            one.scores,
            label=one.name,
            threshold=reached,
            band=roc,
            baseline_curve=None if first is None else metrics.roc_curve(first.labels, first.scores),
        ),
        anchor=f"curves-roc-{at + 1}",
        title=f"ROC: {one.name}",
        caption=_caption(roc, one) + _marked(reached, points) + grey,
    )
    yield drawn(
        plot_pr_curve(
            one.labels,
            one.scores,
            label=one.name,
            threshold=reached,
            band=pr,
            baseline_curve=None if first is None else metrics.pr_curve(first.labels, first.scores),
        ),
        anchor=f"curves-pr-{at + 1}",
        title=f"Precision and recall: {one.name}",
        caption=_caption(pr, one) + _marked(reached, points) + grey,
    )
    yield drawn(
        plot_score_histograms(
            {name: one.scores[one.labels == at] for at, name in enumerate(class_names(run))}
        ),
        anchor=f"curves-scores-{at + 1}",
        title=f"Scores by class: {one.name}",
        caption="The less the classes overlap, the better a threshold can separate them.",
    )


def _band(
    make: Callable[..., CurveBand], one: Scored, wanted: Wanted, absent: list[str]
) -> CurveBand | None:
    """Return a confidence band, or None if there are too few rows."""
    most = max(_LEAST_DRAWS, min(500, _DRAWS // len(one.labels)))
    draws = max(20, min(wanted.n_resamples, most))  # fewer resamples are rejected
    try:
        return make(
            one.labels,
            one.scores,
            groups=one.groups,
            confidence=wanted.confidence,
            n_resamples=draws,
            seed=wanted.seed,
        )
    except (InvalidInputError, UndefinedMetricError) as error:
        said = f"{one.name}: no band: {error}"
        if said not in absent:
            absent.append(said)
        return None


def _caption(band: CurveBand | None, one: Scored) -> str:
    if band is None:
        return ""
    drawn = "groups" if one.groups is not None else "rows"
    return (
        f"Band: pointwise {100 * band.confidence:g} % interval, {drawn} drawn "
        f"{band.n_resamples:,} times."
    )


def _marked(reached: float | None, points: list[Point]) -> str:
    if reached is None:
        return ""
    point = next(point for point in points if point.threshold == reached)
    return f" The point marks threshold {reached:.6g} ({point.said})."
