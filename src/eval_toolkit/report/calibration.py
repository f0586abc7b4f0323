"""Calibration section: observed frequency against predicted probability."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from eval_toolkit._internal.display import Count, Estimate, Interval, Number, Table
from eval_toolkit.calibration import reliability_curve
from eval_toolkit.report.cells import Block, Cell, blocks_of
from eval_toolkit.report.scored_rows import MAX_SUBJECTS, Scored, left_out, of_folds, scored_of
from eval_toolkit.report.sections import Figure, Section, Wanted
from eval_toolkit.runs import Run

N_BINS = 10
_FEW = 200
"""Number of rows below which agreement is weak evidence."""
_ABOUT = ("brier", "log_loss", "ece", "calibration", "mce", "smooth_ece")
"""Name prefixes of metrics that require probabilities."""


def build(run: Run, wanted: Wanted) -> Section | None:
    """Return the section; None if there are no labels and scores."""
    subjects = scored_of(run)
    if not subjects:
        return None
    shown = subjects[:MAX_SUBJECTS]
    parts: list[dict[str, Any]] = []
    figures: list[Figure] = []
    absent: list[str] = []
    for one in shown:
        curve, why = _curve(one, wanted)
        if curve is None:
            absent.append(f"{one.name}: {why}")
            continue
        if wanted.charts:
            figures.append(_figure(one, curve, wanted, len(figures)))
        tiles = [*_stored(run, one), *_measured(run, one, curve)]
        parts.append(
            {
                "name": one.name,
                "said": verdict(one, wanted, "".join(map(_spread, tiles))),
                "tiles": tiles,
                "table": None if wanted.charts else _table(curve),
            }
        )
    if not parts and all(not one.are_probabilities for one in shown):
        return None if not _asked(run) else _nothing(absent)
    return Section(
        id="calibrated",
        menu="Calibration",
        title="Are the scores calibrated?",
        template="calibration.html",
        lead="Among rows with a score near 0.8, about 80 % should be positive. Points on the dashed line meet this expectation; below it, scores are too high.",
        data={"figures": figures, "parts": parts, "several": len(parts) > 1, "absent": absent},
        notes=[*of_folds(run, shown), *left_out(subjects, shown)],
    )


def _asked(run: Run) -> bool:
    """Return whether the run has probability metrics, so that a missing curve must be explained."""
    return any(name.startswith(_ABOUT) for block in blocks_of(run) for name in block.cells)


def _nothing(absent: list[str]) -> Section:
    return Section(
        id="calibrated",
        menu="Calibration",
        title="Are the scores calibrated?",
        template="calibration.html",
        data={"figures": [], "parts": [], "several": False, "absent": absent},
    )


def _curve(one: Scored, wanted: Wanted) -> tuple[Mapping[str, Any] | None, str]:
    """Return the reliability curve, or the reason why it is missing."""
    if not one.are_probabilities:
        return None, "its scores are not probabilities: some lie outside [0, 1]"
    curve = reliability_curve(one.labels, one.scores, **_how(one, wanted))
    return (None, str(curve["skipped"])) if "skipped" in curve else (curve, "")


def verdict(one: Scored, wanted: Wanted, spread: str = "") -> str:
    """Return whether observed frequencies agree with the probabilities, in one sentence.

    A bin disagrees if its interval excludes its mean score. If more bins disagree than expected by
    chance, all of them are named; otherwise only those that still disagree when the intervals are
    corrected for the number of bins (Bonferroni). ``spread`` describes the calibration slope.
    """
    shown = reliability_curve(one.labels, one.scores, **_how(one, wanted))
    if "skipped" in shown:
        return ""
    off, n_off = _disagreeing(shown)
    n, n_outside = len(one.labels), sum(map(len, off.values()))
    n_bins, alpha = len(shown["prob_pred"]), 1.0 - wanted.confidence
    if n_outside and _at_least(n_outside, n_bins, alpha) > alpha:
        strict = {**_how(one, wanted), "confidence": 1.0 - alpha / N_BINS}
        off, n_off = _disagreeing(reliability_curve(one.labels, one.scores, **strict))
    if not n_off and spread:
        return f"No single bin deviates significantly, but overall the scores are {spread}."
    if not n_off:
        few = f" (only {n:,} rows)" if n < _FEW else ""
        chance = (
            f": of {n_bins} bins, {n_outside} lie{'s' if n_outside == 1 else ''} outside the "
            "interval, as expected by chance"
        )
        return f"Probabilities are about right{few}{chance if n_outside else ''}."
    lead = "Most probabilities are about right, but they are" if 2 * n_off < n else "Scores are"
    said = [f"{word} {_ranges(bins)}" for word, bins in off.items() if bins]
    also = f"; overall they are {spread}" if spread else ""
    confident = any(low >= 0.5 for low, _ in off["too high"])
    return f"{lead} {' and '.join(said)}{' (over-confident)' if confident else ''}{also}."


def _disagreeing(curve: Mapping[str, Any]) -> tuple[dict[str, list[tuple[float, float]]], int]:
    """Return the bins whose intervals exclude their mean scores, and the number of rows in them."""
    keys = ("bin_lower", "bin_upper", "n_per_bin", "prob_pred", "ci_low", "ci_high")
    off: dict[str, list[tuple[float, float]]] = {"too high": [], "too low": []}
    n_off = 0
    for low, high, n, predicted, least, most in zip(*(curve[key] for key in keys), strict=True):
        if least <= predicted <= most:
            continue
        n_off += n
        off["too high" if predicted > most else "too low"].append((low, high))
    return off, n_off


def _at_least(k: int, n: int, rate: float) -> float:
    """Return the probability that at least k of n independent events occur."""
    return sum(math.comb(n, i) * rate**i * (1.0 - rate) ** (n - i) for i in range(k, n + 1))


def _spread(cell: Cell) -> str:
    """Describe the calibration slope in words; "" if its interval contains 1."""
    if cell.name != "calibration_slope" or not cell.has_value:
        return ""
    if cell.low is None or cell.high is None or cell.low <= 1.0 <= cell.high:
        return ""
    words = "not extreme enough" if cell.low > 1.0 else "too extreme"
    return f"{words} (slope {cell.value:.2f} [{cell.low:.2f}, {cell.high:.2f}])"


def _ranges(bins: Sequence[tuple[float, float]]) -> str:
    """Describe bins as ranges of scores, merging adjacent bins.

    Examples
    --------
    >>> _ranges([(0.0, 0.1), (0.8, 0.9), (0.9, 1.0)]), _ranges([(0.2, 0.3), (0.3, 0.4)])
    ('below 0.1 and above 0.8', 'from 0.2 to 0.4')
    """
    joined: list[tuple[float, float]] = []
    for low, high in bins:
        if joined and abs(joined[-1][1] - low) < 1e-9:
            joined[-1] = joined[-1][0], high
        else:
            joined.append((low, high))
    return " and ".join(
        "everywhere"
        if low <= 0.0 and high >= 1.0
        else f"below {high:.2g}"
        if low <= 0.0
        else f"above {low:.2g}"
        if high >= 1.0
        else f"from {low:.2g} to {high:.2g}"
        for low, high in joined
    )


def _how(one: Scored, wanted: Wanted) -> dict[str, Any]:
    """Return the options for bins and intervals used by both the table and the chart."""
    return {
        "n_bins": N_BINS,
        "strategy": "uniform",
        "confidence": wanted.confidence,
        "groups": one.groups,
    }


def _figure(one: Scored, curve: Mapping[str, Any], wanted: Wanted, at: int) -> Figure:
    from eval_toolkit.report.figures import drawn
    from eval_toolkit.report.plots import plot_reliability_diagram

    chart = plot_reliability_diagram(one.labels, one.scores, **_how(one, wanted))
    groups = "" if one.groups is None else " that account for groups"
    return drawn(
        chart,
        anchor=f"calibrated-{at + 1}",
        title=f"Reliability: {one.name}",
        caption=f"{N_BINS} bins of equal width, {100 * wanted.confidence:g} % Wilson intervals{groups}.",
        table=_table(curve),
    )


def _table(curve: Mapping[str, Any]) -> Table:
    rows = [
        [
            Interval(low, high, ".2f", plain=True),
            Count(n),
            Number(predicted),
            *Estimate(observed, ci_low, ci_high, ".3f").split(),
        ]
        for low, high, n, predicted, observed, ci_low, ci_high in zip(
            *(curve[key] for key in ("bin_lower", "bin_upper", "n_per_bin", "prob_pred")),
            *(curve[key] for key in ("prob_true", "ci_low", "ci_high")),
            strict=True,
        )
    ]
    return Table(["scores", "rows", "mean score", "share positive", "interval"], rows)


def _block(run: Run, one: Scored) -> Block | None:
    found = (b for b in blocks_of(run) if b.subject == one.subject)
    return next(found, None)


def _stored(run: Run, one: Scored) -> list[Cell]:
    """Return the stored cells of probability metrics."""
    block = _block(run, one)
    cells = () if block is None else block.cells.values()
    return [cell for cell in cells if cell.name.startswith(_ABOUT)]


def _measured(run: Run, one: Scored, curve: Mapping[str, Any]) -> list[Cell]:
    """Compute the calibration errors that the run does not store, without intervals."""
    block = _block(run, one)
    if block is not None and any(name.startswith("ece") for name in block.cells):
        return []
    wide = Cell(name=f"ece, {N_BINS} equal-width bins", value=curve["ece_equal_width"], details={})
    if curve["ece_equal_mass"] is None:
        return [wide]
    name = f"ece, {N_BINS} equal-mass bins"
    return [wide, Cell(name=name, value=curve["ece_equal_mass"], details={})]
