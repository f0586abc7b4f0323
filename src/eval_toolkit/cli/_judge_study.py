"""``eval-toolkit judge study``: agreement of a judge with human labels, and the corrected rate."""

from dataclasses import dataclass
from typing import Any

import click

from eval_toolkit._internal.display import MISSING, Cell, Count, Estimate, Number, Page, Rows, Table
from eval_toolkit._internal.words import number
from eval_toolkit.analysis import JudgeStudy, judge_study
from eval_toolkit.cli._human_labels import (
    LABEL_RULES,
    Judged,
    LabelPlans,
    judged_options,
    label_plans,
)
from eval_toolkit.cli._messages import in_options
from eval_toolkit.cli._options import Sampling, output_options, sampling_options
from eval_toolkit.cli._output import Output
from eval_toolkit.inference import BootstrapCI, CorrectedRate, ProportionInterval

METHODS = ("ppi++", "ppi", "rogan-gladen", "labels-only", "raw")
_WORDS = {
    "ppi++": "all verdicts, corrected with the labels",
    "ppi": "all verdicts, with the judge at full weight",
    "rogan-gladen": "corrected by sensitivity and specificity",
    "labels-only": "human labels only",
    "raw": "verdicts without correction",
}
_AGREEMENT = {
    "agreement": "same label",
    "kappa": "kappa (agreement beyond chance)",
    "alpha": "Krippendorff's alpha",
    "sensitivity": "sensitivity, on human positives",
    "specificity": "specificity, on human negatives",
    "precision": "precision, on the judge's positives",
    "negative_precision": "negative predictive value, on the judge's negatives",
    "bias": "bias, judge minus human",
}
_MOST_CLASSES = 8
"""Maximum number of classes for which confusion matrices are printed."""


@click.command()
@judged_options
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default="ppi++",
    show_default=True,
    help="Method used for the reported estimate; choose it before seeing the results.",
)
@click.option(
    "--by-verdict",
    is_flag=True,
    help="Labels were sampled by verdict: fixed numbers of positive and negative verdicts.",
)
@click.option(
    "--width",
    type=click.FloatRange(0, min_open=True),
    help="Full width of the target interval; by default a width achievable with more labels.",
)
@sampling_options(methods=False)
@output_options
def study(
    judged: Judged,
    method: Any,
    by_verdict: bool,
    width: float | None,
    sampling: Sampling,
    output: Output,
) -> None:
    """Compare a judge with human labels, and correct the judge's rate.

    FILE (CSV, TSV, JSONL, JSON, Parquet) has one row per answer with the judge's verdict, and human
    labels for a random sample of the rows. For a RUN, --judge is a column and --labels is a file
    with unit_id and the labels.

    \b
    eval-toolkit judge study verdicts.csv --judge refusal --human label
    eval-toolkit judge study runs/mine --judge refusal --labels people.csv --human label
    """  # noqa: D301
    found = judge_study(
        judged.records,
        judge=judged.judge,
        human=judged.human,
        method=method,
        by_verdict=by_verdict,
        confidence=sampling.confidence,
        n_resamples=sampling.n_resamples,
        seed=sampling.seed,
    )
    next_labels = None
    if found.n_labels < found.n_records:
        rules = ("by-verdict",) if by_verdict else LABEL_RULES
        next_labels = label_plans(judged, width, sampling.confidence, rules)
    output.emit(_StudyResult(judged, found, next_labels, sampling).page(), inputs=judged.files)


@dataclass(frozen=True)
class _StudyResult:
    """Results of a judge study, with the options needed to display them."""

    judged: Judged
    found: JudgeStudy
    next_labels: LabelPlans | None
    sampling: Sampling

    def page(self) -> Page:
        """Return the page: the corrected rate, the agreement, and plans for additional labels."""
        found, plans = self.found, self.next_labels
        lead = [
            (
                f"judge {found.judge!r}, human labels {found.human!r}: "
                f"{found.n_records:,} verdicts, {found.n_labels:,} of them with a label"
            ),
            f"by {found.corrected.method}: {_estimate(found.corrected)}, {_against_raw(found)}",
        ]
        tables = [self._rates(), self._agreement()]
        if len(found.agreement.labels) <= _MOST_CLASSES:
            tables.append(self._confusion())
        if plans is not None and plans.plans:
            tables.append(plans.table())
        payload = {**found.to_dict(), "next_labels": plans and plans.to_dict()}
        return Page("judge study", payload, lead, tables, self._notes())

    def _rates(self) -> Table:
        chosen = self.found.corrected.method
        names = [chosen, *(name for name in self.found.estimates if name != chosen)]
        rows: Rows = [[name, *_rate(self.found.estimates[name]), _WORDS[name]] for name in names]
        return Table(["method", "rate", "interval", "width", "description"], rows, "the rate")

    def _agreement(self) -> Table:
        rows: Rows = [
            [words, *_share(getattr(self.found.agreement, name))]
            for name, words in _AGREEMENT.items()
            if getattr(self.found.agreement, name) is not None
        ]
        return Table(
            ["", "value", "interval", "n"],
            rows,
            "agreement on rows with both a verdict and a label",
        )

    def _confusion(self) -> Table:
        agreement = self.found.agreement
        names = [_label(label) for label in agreement.labels]
        rows: Rows = [
            [f"people {name}", *map(Count, counts)]
            for name, counts in zip(names, agreement.table, strict=True)
        ]
        return Table(["", *(f"judge {name}" for name in names)], rows, "confusion matrix")

    def _notes(self) -> list[str]:
        found = self.found
        notes = [self.sampling.made([self.sampling.n_resamples]), *self.judged.notes]
        if found.n_unjudged:
            notes.append(f"left out: {found.n_unjudged:,} without a verdict")
        reasons = dict.fromkeys([found.corrected.reason, found.agreement.reason])
        notes += [reason for reason in reasons if reason]
        notes += [f"no {name}: {in_options(why)}" for name, why in found.skipped.items()]
        if self.next_labels is not None:
            notes += map(in_options, self.next_labels.notes())
        return notes


def _against_raw(found: JudgeStudy) -> str:
    raw, chosen = found.corrected.raw, found.corrected
    if chosen.method == "raw":
        return "not corrected for the judge's errors"
    where = "inside" if chosen.ci_low <= raw <= chosen.ci_high else "outside"
    return f"the uncorrected rate {number(raw)} is {where} its interval"


def _estimate(rate: CorrectedRate) -> Estimate:
    return Estimate(rate.value, rate.ci_low, rate.ci_high)


def _rate(rate: CorrectedRate) -> list[Cell]:
    return [*_estimate(rate).split(), Number(rate.width)]


def _share(found: ProportionInterval | BootstrapCI) -> list[Cell]:
    if isinstance(found, BootstrapCI):
        value = Estimate(found.point_estimate, found.ci_low, found.ci_high)
        return [*value.split(), MISSING]
    return [*Estimate(found.proportion, found.low, found.high).split(), Count(found.n)]


def _label(label: Any) -> str:
    return f"{label:g}" if isinstance(label, float) else str(label)
