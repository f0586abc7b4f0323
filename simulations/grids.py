"""Grids of simulations; each job draws data sets from one process and evaluates the intervals."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from eval_toolkit import metric_specs as ms
from eval_toolkit import op_metric_specs as op
from eval_toolkit.analysis import compare_records
from eval_toolkit.errors import EvalToolkitError
from eval_toolkit.inference import paired_bootstrap_diff
from eval_toolkit.metrics import confusion
from eval_toolkit.scorecards import Records, scorecard, summarise
from simulations.cells import Cell, Interval, Tally
from simulations.processes import (
    DISTORTIONS,
    SCORE_SHAPES,
    SEPARATIONS,
    VALUE_SHAPES,
    Binormal,
    Grouped,
    OnTop,
    RareLosses,
)

SIZES = (30, 100, 300, 1000)
PREVALENCES = (0.02, 0.1, 0.5)
FIRST_EDITION_DRAWS = 200
"""Number of data sets for which the first edition's default interval (BCa) is also computed."""


@dataclass(frozen=True)
class Job:
    """Simulation of one data-generating process at one sample size."""

    grid: str
    process: dict[str, Any]
    run: Callable[[np.random.Generator, int], list[Cell]]
    share: float = 1.0
    """Number of draws relative to ``--draws``; bootstraps are slower than closed forms."""


def jobs() -> Iterator[Job]:
    """Return all jobs of all grids."""
    yield from _row_jobs()
    yield from _group_jobs()
    yield from _mean_jobs()
    yield from _calibration_jobs()
    yield from _paired_jobs()
    yield from _gate_jobs()


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(1 << 31))


def _ends(ci: Any) -> Interval:
    return None if ci is None or ci.ci_low is None else (ci.ci_low, ci.ci_high)


# --- rows ---------------------------------------------------------------------------------------


def _row_specs(threshold: float) -> list[Any]:
    at = (
        op.op_accuracy,
        op.op_precision,
        op.op_recall,
        op.op_specificity,
        op.op_f1,
        op.op_mcc,
        op.op_balanced_accuracy,
        op.op_kappa,
    )
    return [
        ms.roc_auc,
        ms.pr_auc,
        ms.recall_at_fpr(0.05),
        ms.brier,
        ms.log_loss,
        *(make(threshold) for make in at),
        op.op_net_benefit(threshold),
    ]


def _row_jobs() -> Iterator[Job]:
    for n in SIZES:
        for prevalence in PREVALENCES:
            if n * prevalence < 2.0:  # hardly a data set has three positives
                continue
            for separation in SEPARATIONS:
                for ties in (False, True):
                    process = {
                        "n": n,
                        "prevalence": prevalence,
                        "separation": separation,
                        "ties": ties,
                    }
                    yield Job("rows", process, _Rows(**process))
    for n, prevalence, max_fpr in ((60, 0.5, 0.1), (100, 0.1, 0.1), (300, 0.1, 0.05)):
        process = {"n": n, "prevalence": prevalence, "separation": "3 % of the negatives on top"}
        job = _PartialArea(process, max_fpr)
        yield Job("rows", process, job, share=0.2)  # Python calls: a hundred times as slow
    for spread in (0.5, 2.0):
        process = {"n": 300, "prevalence": 0.1, "separation": "normal", "spread": spread}
        yield Job("rows", process, _Rows(**process))


@dataclass(frozen=True)
class _Rows:
    n: int
    prevalence: float
    separation: str
    ties: bool = False
    spread: float = 1.0

    def __call__(self, rng: np.random.Generator, n_draws: int) -> list[Cell]:
        made = Binormal(SEPARATIONS[self.separation], 0.5 if self.ties else 0.0, self.spread)
        threshold = self.prevalence
        specs = _row_specs(threshold)
        truths = _truths(made, specs, self.prevalence)
        tallies = {spec.name: Tally() for spec in specs}
        enough = self.n >= 300 and self.n * self.prevalence >= 30
        for number in range(n_draws):
            y, score = made.draw(rng, self.n, self.prevalence)
            if y.min() == y.max():
                continue
            card = scorecard(y, score, metrics=specs)
            first = None
            if enough and number < FIRST_EDITION_DRAWS:
                first = scorecard(y, score, metrics=specs, method="BCa", n_resamples=400)
            for name, cell in card.items():
                if cell.value is None:
                    continue
                before = None if first is None else _ends(first[name].ci)
                tallies[name].add(truths[name], _ends(cell.ci), before)
        process = {
            "n": self.n,
            "prevalence": self.prevalence,
            "separation": self.separation,
            "ties": self.ties,
            "spread": self.spread,
        }
        return [Cell.of("rows", name, process, tally) for name, tally in tallies.items() if tally.n]


@dataclass(frozen=True)
class _PartialArea:
    process: dict[str, Any]
    max_fpr: float

    def __call__(self, rng: np.random.Generator, n_draws: int) -> list[Cell]:
        spec, made, tally = ms.partial_roc_auc(self.max_fpr), OnTop(), Tally()
        truth = spec.compute(*made.draw(np.random.default_rng(0), 400_000, 0.5))
        for _ in range(n_draws):
            y, score = made.draw(rng, self.process["n"], self.process["prevalence"])
            card = scorecard(y, score, metrics=[spec], n_resamples=128)
            if card[spec.name].value is not None:
                tally.add(truth, _ends(card[spec.name].ci))
        return [Cell.of("rows", "roc_auc_max_fpr", self.process, tally)]


def _truths(made: Binormal, specs: list[Any], threshold: float) -> dict[str, float]:
    """Return the true metrics of a population, with its prevalence as the threshold."""
    y, score, weights = made.population(threshold)
    above = score >= threshold
    cells = [
        float(weights[(y == label) & (above == flag)].sum())
        for label, flag in ((0, False), (0, True), (1, False), (1, True))
    ]
    truths = {}
    for spec in specs:
        if hasattr(spec, "function"):
            truth = spec.function(y, score, sample_weight=weights)
        elif spec.metric == "net_benefit":
            odds = threshold / (1.0 - threshold)
            truth = confusion.net_benefit_of(*(c / sum(cells) for c in cells), odds)
        else:
            truth = getattr(confusion, f"{spec.metric}_of")(*cells)
        truths[spec.name] = float(truth)
    return truths


# --- groups -------------------------------------------------------------------------------------


def _group_jobs() -> Iterator[Job]:
    for sizes in ("equal", "unequal", "dominated"):
        for n_groups in (5, 10, 20, 100):
            for rate in (0.5, 0.95):
                for icc in (0.1, 0.5):
                    process = {"sizes": sizes, "groups": n_groups, "rate": rate, "icc": icc}
                    made = Grouped(sizes, n_groups, rate, icc)
                    yield Job("groups", process, _Groups(made, process))
    for n_groups in (10, 20, 100):
        for slope in (-1.0, 1.0):  # large groups fail more, or less
            process = {"sizes": "telling", "groups": n_groups, "rate": 0.8, "slope": slope}
            made = Grouped("unequal", n_groups, 0.8, 0.05, slope)
            yield Job("groups", process, _Groups(made, process, numbers=False))


@dataclass(frozen=True)
class _Groups:
    made: Grouped
    process: dict[str, Any]
    numbers: bool = True

    def __call__(self, rng: np.random.Generator, n_draws: int) -> list[Cell]:
        truth = self.made.truth
        tallies = {"share": Tally()}
        if self.numbers:
            tallies["number"] = Tally()
        for _ in range(n_draws):
            values, groups = self.made.draw(rng)
            ids = [str(i) for i in range(len(values))]
            noisy = values + rng.normal(0.0, 0.3, len(values))
            records = Records.from_columns(
                {"correct": values, "number": noisy}, unit_id=ids, group=groups.astype(str)
            )
            card = summarise(
                records, [ms.mean_of("correct", bounds=(0.0, 1.0)), ms.mean_of("number")]
            )
            for name, tally in tallies.items():
                column = "correct" if name == "share" else name
                tally.add(truth, _ends(card[column].ci))
        return [Cell.of("groups", name, self.process, tally) for name, tally in tallies.items()]


# --- means --------------------------------------------------------------------------------------


def _mean_jobs() -> Iterator[Job]:
    for shape in VALUE_SHAPES:
        for n in SIZES:
            process = {"values": shape, "n": n}
            yield Job("means", process, _Means(shape, n))


@dataclass(frozen=True)
class _Means:
    shape: str
    n: int

    def __call__(self, rng: np.random.Generator, n_draws: int) -> list[Cell]:
        draw, truth, bounds = VALUE_SHAPES[self.shape]
        tally = Tally()
        for number in range(n_draws):
            records = Records.from_columns({"value": draw(rng, self.n)})
            spec = ms.mean_of("value", bounds=bounds)
            before = None
            if self.n >= 300 and number < FIRST_EDITION_DRAWS:
                before = _ends(
                    summarise(records, [spec], method="BCa", n_resamples=400)["value"].ci
                )
            tally.add(truth, _ends(summarise(records, [spec])["value"].ci), before)
        return [Cell.of("means", "mean", {"values": self.shape, "n": self.n}, tally)]


# --- calibration --------------------------------------------------------------------------------


def _calibration_jobs() -> Iterator[Job]:
    for shape in SCORE_SHAPES:
        for truth in DISTORTIONS:
            for n in (100, 300, 1000):
                process = {"scores": shape, "truth": truth, "n": n}
                yield Job("calibration", process, _Calibration(shape, truth, n), share=0.5)


@dataclass(frozen=True)
class _Calibration:
    shape: str
    truth: str
    n: int

    def __call__(self, rng: np.random.Generator, n_draws: int) -> list[Cell]:
        binned = [ms.ece(n_bins=10), ms.ece(n_bins=10, strategy="quantile")]
        specs = [*binned, ms.smooth_ece]
        big = SCORE_SHAPES[self.shape](np.random.default_rng(0), 400_000)
        actual = DISTORTIONS[self.truth](big)
        truths = _true_calibration(big, actual)
        tallies = {spec.name: Tally() for spec in specs}
        for number in range(n_draws):
            p = SCORE_SHAPES[self.shape](rng, self.n)
            y = (rng.random(self.n) < DISTORTIONS[self.truth](p)).astype(np.int64)
            # The smooth error takes a hundred times as long: one size, every fourth data set.
            asked = specs if self.n == 300 and number % 4 == 0 else binned
            card = scorecard(y, p, metrics=asked, seed=_seed(rng), n_resamples=400)
            for name, cell in card.items():
                if cell.value is not None:
                    tallies[name].add(truths[name], _ends(cell.ci))
        process = {"scores": self.shape, "truth": self.truth, "n": self.n}
        return [
            Cell.of("calibration", name, process, tally)
            for name, tally in tallies.items()
            if tally.n
        ]


def _true_calibration(stated: Any, actual: Any) -> dict[str, float]:
    """Return the binned and smooth calibration errors of a population, from expected labels."""
    from eval_toolkit.metrics.smoothing import shared_between_nodes, smooth_errors_of

    gap = stated - actual
    uniform = np.minimum((stated * 10).astype(np.int64), 9)
    order = np.argsort(stated, kind="stable")
    mass = np.empty(len(stated), dtype=np.int64)
    mass[order] = np.arange(len(stated)) * 10 // len(stated)
    tied = np.unique(stated)
    if len(tied) < 100:  # tied scores share their bins: a tie's mean gap is in each of them
        for value in tied:
            gap[stated == value] = gap[stated == value].mean()
    cell, left, right = shared_between_nodes(stated, gap / len(stated), 1 << 12)
    nodes = np.zeros(((1 << 12) + 1, 1))
    nodes[:-1, 0] += np.bincount(cell, left, 1 << 12)
    nodes[1:, 0] += np.bincount(cell, right, 1 << 12)
    return {
        ms.ece(n_bins=10).name: float(np.abs(np.bincount(uniform, gap, 10)).sum() / len(stated)),
        ms.ece(n_bins=10, strategy="quantile").name: float(
            np.abs(np.bincount(mass, gap, 10)).sum() / len(stated)
        ),
        "smooth_ece": float(smooth_errors_of(nodes, tolerance=1e-9)[0]),
    }


# --- paired comparisons -------------------------------------------------------------------------


def _pair(
    rng: np.random.Generator, n: int, prevalence: float, d_a: float, d_b: float, shared: float
) -> tuple[Any, Any, Any]:
    """Return labels and the scores of two scorers with correlated noise."""
    y = (rng.random(n) < prevalence).astype(np.int64)
    common = np.sqrt(shared) * rng.normal(size=n)
    a, b = (d * y + common + np.sqrt(1.0 - shared) * rng.normal(size=n) for d in (d_a, d_b))
    return y, a, b


def _paired_specs(threshold: float) -> list[Any]:
    at = (
        op.op_accuracy,
        op.op_precision,
        op.op_recall,
        op.op_f1,
        op.op_mcc,
        op.op_balanced_accuracy,
    )
    return [ms.roc_auc, ms.pr_auc, ms.brier, ms.log_loss, *(make(threshold) for make in at)]


_BETTER = {"low": 1.2, "normal": 2.5, "near-perfect": 3.0}
"""Class separation of the second scorer if it differs in quality."""


def _paired_jobs() -> Iterator[Job]:
    for n, prevalence in (
        (100, 0.05),
        (100, 0.1),
        (100, 0.5),
        (300, 0.02),
        (300, 0.1),
        (1000, 0.1),
    ):
        for separation, distance in SEPARATIONS.items():
            for shared in (0.0, 0.8):
                process = {
                    "n": n,
                    "prevalence": prevalence,
                    "separation": separation,
                    "correlation": shared,
                }
                null = _Pair("paired null", process, distance, distance)
                yield Job("paired null", process, null, share=0.5)
                other = _Pair("paired alternative", process, distance, _BETTER[separation])
                yield Job("paired alternative", process, other, share=0.3)


@dataclass(frozen=True)
class _Pair:
    """Two scorers on the same rows.

    For scorers of equal quality, the rate of significant differences (type I error) is counted;
    otherwise, the coverage of the difference.
    """

    grid: str
    process: dict[str, Any]
    d_a: float
    d_b: float

    def __call__(self, rng: np.random.Generator, n_draws: int) -> list[Cell]:
        n, prevalence = self.process["n"], self.process["prevalence"]
        made = [Binormal(d) for d in (self.d_a, self.d_b)]
        specs = _paired_specs(prevalence)
        truth_a, truth_b = (_truths(one, specs, prevalence) for one in made)
        tallies = {spec.name: Tally() for spec in specs}
        for _ in range(n_draws):
            y, *values = _pair(rng, n, prevalence, self.d_a, self.d_b, self.process["correlation"])
            a, b = (one.scores(x, prevalence) for one, x in zip(made, values, strict=True))
            for spec in specs:
                try:
                    diff = paired_bootstrap_diff(y, a, b, spec, n_resamples=200, seed=_seed(rng))
                except EvalToolkitError:
                    tallies[spec.name].add(0.0, None)
                    continue
                truth = truth_b[spec.name] - truth_a[spec.name]
                if self.grid == "paired alternative":
                    tallies[spec.name].add(truth, _ends(diff))
                else:
                    verdict = diff.p_value is not None and diff.p_value <= 0.05
                    tallies[spec.name].add(0.0, (-1.0, 1.0) if verdict else (1.0, 2.0))
        return [Cell.of(self.grid, name, self.process, tally) for name, tally in tallies.items()]


# --- gates --------------------------------------------------------------------------------------


def _gate_jobs() -> Iterator[Job]:
    for metric, a, b in (
        ("roc_auc", 0.998, 0.988),
        ("roc_auc", 0.95, 0.93),
        ("accuracy", 0.99, 0.97),
        ("accuracy", 0.999, 0.989),
        ("accuracy", 0.9, 0.88),
    ):
        for n, prevalence in ((50, 0.5), (100, 0.1), (100, 0.5), (300, 0.1), (1000, 0.1)):
            for shared in (0.5, 0.9):
                process = {
                    "value of A": a,
                    "value of B": b,
                    "n": n,
                    "prevalence": prevalence,
                    "correlation": shared,
                }
                yield Job("gates", process, _Gate(metric, process), share=0.5)
    for n in (30, 100, 300, 1000):
        for margin in (0.01, 0.03):
            process = {"n": n, "margin": margin}
            yield Job("gates of numbers", process, _NumberGate(process))


@dataclass(frozen=True)
class _Gate:
    """Non-inferiority gate on a system B that is worse by exactly the margin, so a pass is false."""

    metric: str
    process: dict[str, Any]

    def __call__(self, rng: np.random.Generator, n_draws: int) -> list[Cell]:
        from scipy.special import ndtri

        p = self.process
        a, b = p["value of A"], p["value of B"]
        scale = np.sqrt(2.0) if self.metric == "roc_auc" else 2.0
        d_a, d_b = float(ndtri(a) * scale), float(ndtri(b) * scale)
        tally = Tally()
        for _ in range(n_draws):
            y, score_a, score_b = _pair(rng, p["n"], p["prevalence"], d_a, d_b, p["correlation"])
            if self.metric == "accuracy":  # each at its own threshold, half way between the classes
                score_a, score_b = score_a >= d_a / 2.0, score_b >= d_b / 2.0
            spec = ms.roc_auc if self.metric == "roc_auc" else op.op_accuracy(0.5)
            try:
                diff = paired_bootstrap_diff(
                    y, score_a, score_b, spec, n_resamples=200, seed=_seed(rng)
                )
            except EvalToolkitError:
                tally.add(0.0, None)
                continue
            passed = diff.ci_low > -(a - b)
            tally.add(0.0, (-1.0, 1.0) if passed else (1.0, 2.0))
        return [Cell.of("gates", self.metric, p, tally)]


@dataclass(frozen=True)
class _NumberGate:
    """The same gate on a numeric metric, with B losing a few units to A."""

    process: dict[str, Any]

    def __call__(self, rng: np.random.Generator, n_draws: int) -> list[Cell]:
        n, margin = self.process["n"], self.process["margin"]
        spec = ms.mean_of("reward", higher_is_better=True)
        ids = [str(i) for i in range(n)]
        tally = Tally()
        for _ in range(n_draws):
            a, b = (
                {"all": Records.from_columns({"reward": values}, unit_id=ids)}
                for values in RareLosses(margin).draw(rng, n)
            )
            cell = compare_records(a, b, [spec]).cells[0]
            if cell.ci_low is None or cell.delta is None or cell.unseen is None:
                tally.add(0.0, None)
                continue
            passed = min(cell.ci_low, cell.delta - cell.unseen) > -margin  # as claims have it
            tally.add(0.0, (-1.0, 1.0) if passed else (1.0, 2.0))
        return [Cell.of("gates of numbers", "reward", self.process, tally)]
