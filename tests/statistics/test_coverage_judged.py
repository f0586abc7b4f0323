"""Coverage of corrected rates, agreement intervals, and power of planned designs, by simulation.

A quick version of each runs with every test; the full grids are marked slow. Nominal is 95 %.
"""

import math

import numpy as np
import pytest
from scipy import stats

from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.inference import (
    AttemptsDesign,
    clustered_rate,
    corrected_difference,
    corrected_rate,
    kappa_interval,
    ppi_mean,
    rogan_gladen,
)
from eval_toolkit.inference.judged.error_rates import rogan_gladen_of
from eval_toolkit.inference.judged.prediction_powered import BINARY, powered_mean
from eval_toolkit.inference.judged.validation import read_judged

SEED = 20_260_101
LEAST = 0.93

QUICK = [(50, 0.3, 0.9, 0.9), (100, 0.1, 0.8, 0.95), (200, 0.6, 0.95, 0.8)]
FULL = [
    (n, rate, se, sp)
    for n in (50, 100, 200)
    for rate in (0.1, 0.3, 0.6, 0.9)
    for se, sp in ((0.9, 0.9), (0.8, 0.95), (0.98, 0.98), (0.7, 0.7))
]


def judged(rng, n, rate, se, sp, n_labels):
    human = (rng.random(n) < rate).astype(float)
    judge = np.where(human == 1, rng.random(n) < se, rng.random(n) >= sp).astype(float)
    return judge, np.where(np.arange(n) < n_labels, human, np.nan)


def by_ppi(judge, human):
    try:
        return ppi_mean(judge, human)
    except InvalidInputError:  # labels that look chosen: one in ten thousand
        return None


def by_rogan_gladen(judge, human):
    try:
        return rogan_gladen_of(read_judged(judge, human, None), 0.95)
    except UndefinedMetricError:  # a draw without a positive label, or with a judge that guesses
        return None


def coverage(interval, setting, n_runs, n=600):
    n_labels, rate, se, sp = setting
    rng = np.random.default_rng([SEED, n_labels, round(100 * rate), round(100 * se)])
    found = [interval(*judged(rng, n, rate, se, sp, n_labels)) for _ in range(n_runs)]
    hits = [ci.ci_low <= rate <= ci.ci_high for ci in found if ci is not None]
    assert len(hits) > 0.9 * n_runs
    return np.mean(hits)


def at_least(share, n_runs):
    """Allow for the luck of so many runs: three standard errors."""
    return share - 3.0 * math.sqrt(share * (1.0 - share) / n_runs)


@pytest.mark.parametrize("interval", [by_ppi, by_rogan_gladen])
@pytest.mark.parametrize("setting", QUICK)
def test_corrected_rates_cover(interval, setting) -> None:
    assert coverage(interval, setting, 400) >= at_least(LEAST, 400)


@pytest.mark.slow
@pytest.mark.parametrize("interval", [by_ppi, by_rogan_gladen])
@pytest.mark.parametrize("setting", FULL)
def test_corrected_rates_cover_everywhere(interval, setting) -> None:
    assert coverage(interval, setting, 3000) >= at_least(LEAST, 3000)


GRADES = np.arange(1.0, 6.0)
SKEWED = np.array([0.03, 0.02, 0.02, 0.03, 0.9])


def skewed_grades(rng, n):
    """Nine of ten at the top; the judge is off by one in a tenth of the units."""
    human = rng.choice(GRADES, n, p=SKEWED)
    off = np.clip(human + rng.choice([-1, 1], n), 1, 5)
    return human, np.where(rng.random(n) < 0.9, human, off)


def skewed_scores(rng, n):
    human = rng.beta(0.3, 3.0, n)
    return human, np.clip(human + rng.normal(0.0, 0.1, n), 0.0, 1.0)


def skewed_by_a_factor(rng, n):
    human = rng.beta(0.3, 3.0, n)
    return human, np.clip(human * rng.uniform(0.5, 1.5, n), 0.0, 1.0)


SCORES = {
    "grades": (skewed_grades, float(GRADES @ SKEWED)),
    "scores": (skewed_scores, 0.3 / 3.3),
    "factor": (skewed_by_a_factor, 0.3 / 3.3),
}


def of_scores(kind, n_labels, n_runs, n=600):
    """Return the share of intervals that cover, and the bias in standard errors of its mean."""
    draw, truth = SCORES[kind]
    rng = np.random.default_rng([SEED, n_labels])
    hits, errors = 0, []
    for _ in range(n_runs):
        human, judge = draw(rng, n)
        ci = by_ppi(judge, np.where(np.arange(n) < n_labels, human, np.nan))
        if ci is None:
            continue
        hits += ci.ci_low <= truth <= ci.ci_high
        errors.append(ci.value - truth)
    return hits / len(errors), np.mean(errors) / np.std(errors) * math.sqrt(len(errors))


@pytest.mark.parametrize("n_labels", [30, 100])
@pytest.mark.parametrize("kind", SCORES)
def test_skewed_scores_cover_without_bias(kind, n_labels) -> None:
    covered, bias = of_scores(kind, n_labels, 400)
    assert covered >= at_least(LEAST, 400)
    # One λ from all labels is off by 4 to 11 of these.
    assert abs(bias) < 3.5


@pytest.mark.slow
@pytest.mark.parametrize("n_labels", [30, 50, 100])
@pytest.mark.parametrize("kind", SCORES)
def test_skewed_scores_cover_everywhere(kind, n_labels) -> None:
    covered, bias = of_scores(kind, n_labels, 3000)
    assert covered >= at_least(LEAST, 3000)
    assert abs(bias) < 3.5


def test_rare_values_make_no_bias() -> None:
    rng = np.random.default_rng(SEED + 5)
    values = []
    for _ in range(800):
        judge, human = judged(rng, 600, 0.05, 0.98, 0.98, 50)
        values.append(powered_mean(read_judged(judge, human, None), None, BINARY).value)
    # One λ from all labels is off by 0.4 of the spread, eleven of these.
    assert abs(np.mean(values) - 0.05) < 3.5 * np.std(values) / math.sqrt(800)


def test_the_large_sample_interval_does_not_cover_where_errors_are_rare() -> None:
    """Why pseudo-units are there: 50 labels of a good judge often show no error at all."""
    rng = np.random.default_rng(SEED)
    hits = np.zeros(2)
    for _ in range(400):
        judge, human = judged(rng, 2050, 0.03, 0.98, 0.98, 50)
        for place, small in enumerate((False, True)):
            try:
                ci = ppi_mean(judge, human, small_sample=small)
            except InvalidInputError:  # labels that look chosen: one in ten thousand
                continue
            hits[place] += ci.ci_low <= 0.03 <= ci.ci_high
    assert hits[0] / 400 < 0.7
    assert hits[1] / 400 >= at_least(LEAST, 400)


def test_a_calibration_set_of_its_own_covers() -> None:
    rng = np.random.default_rng(SEED + 1)
    hits = 0
    for _ in range(1500):
        flagged = rng.binomial(1000, 0.2 * 0.85 + 0.8 * 0.1)
        ci = rogan_gladen(
            flagged,
            1000,
            sensitivity=(rng.binomial(60, 0.85), 60),
            specificity=(rng.binomial(60, 0.9), 60),
        )
        hits += ci.ci_low <= 0.2 <= ci.ci_high
    assert at_least(LEAST, 1500) <= hits / 1500 <= 0.99


def clustered(rng, n_groups, size, rate, se, sp, share):
    """Clusters whose rate and whose judge's errors vary; whole clusters are labelled."""
    rates = rng.beta(4 * rate, 4 * (1 - rate), n_groups).repeat(size)
    skills = rng.beta(9 * se, 9 * (1 - se), n_groups).repeat(size)
    human = (rng.random(n_groups * size) < rates).astype(float)
    right = rng.random(len(human)) < np.where(human == 1, skills, skills * sp / se)
    labelled = (np.arange(n_groups) < share * n_groups).repeat(size)
    judge = np.where(right, human, 1 - human)
    return judge, np.where(labelled, human, np.nan), np.arange(n_groups).repeat(size)


@pytest.mark.parametrize("method", ["ppi++", "rogan-gladen"])
def test_groups_cover_and_ignoring_them_does_not(method) -> None:
    rng = np.random.default_rng(SEED + 2)
    hits = np.zeros(2)
    n_runs = 300
    for _ in range(n_runs):
        judge, human, groups = clustered(rng, 150, 8, 0.4, 0.9, 0.85, 0.3)
        for place, keys in enumerate((groups, None)):
            data = read_judged(judge, human, keys)
            if method == "rogan-gladen":
                ci = rogan_gladen_of(data, 0.95)
            else:
                weights = None if keys is not None else np.ones(len(judge))  # no check of chance
                ci = ppi_mean(judge, human, groups=keys, weights=weights)
            hits[place] += ci.ci_low <= 0.4 <= ci.ci_high
    assert hits[0] / n_runs >= at_least(LEAST, n_runs)
    assert hits[1] < hits[0] - 0.05 * n_runs


def test_differences_cover_and_keep_their_level() -> None:
    rng = np.random.default_rng(SEED + 3)
    hits, found, n_runs = 0, 0, 400
    for _ in range(n_runs):
        shared = rng.random(500)
        sides = []
        for rate in (0.6, 0.6):
            human = (0.7 * shared + 0.3 * rng.random(500) < rate).astype(float)
            wrong = rng.random(500) < 0.1
            sides += [np.abs(human - wrong), np.where(np.arange(500) < 80, human, np.nan)]
        ci = corrected_difference(*sides)
        hits += ci.ci_low <= 0.0 <= ci.ci_high
        found += ci.p_value < 0.05
    assert hits / n_runs >= at_least(LEAST, n_runs)
    assert found / n_runs <= 0.07 + 3 * math.sqrt(0.07 * 0.93 / n_runs)


@pytest.mark.parametrize("by", ["strata", "weights"])
def test_labels_bought_by_verdict_cover(by) -> None:
    rng = np.random.default_rng(SEED + 4)
    hits, n_runs = 0, 300
    for _ in range(n_runs):
        judge, _ = judged(rng, 1500, 0.3, 0.9, 0.85, 0)
        human = np.where(judge == 1, rng.random(1500) < 0.72, rng.random(1500) < 0.048)
        known, weights = np.full(1500, np.nan), np.full(1500, np.nan)
        for verdict, count in ((1.0, 80), (0.0, 40)):
            rows = np.flatnonzero(judge == verdict)
            known[rows[:count]] = human[rows[:count]]
            weights[rows[:count]] = len(rows) / count
        truth = 0.375 * 0.72 + 0.625 * 0.048  # the judge flags 0.27 + 0.105 of all
        ci = corrected_rate(judge, known, **{by: judge if by == "strata" else weights})
        hits += ci.ci_low <= truth <= ci.ci_high
    assert hits / n_runs >= at_least(LEAST, n_runs)


KAPPA_QUICK = [(50, 0.3, 0.9), (100, 0.1, 0.99)]
KAPPA_FULL = [(n, p, q) for n in (50, 100, 200) for p in (0.1, 0.3, 0.5) for q in (0.8, 0.95, 0.99)]


def kappa_coverage(setting, n_runs, method):
    n, rate, right = setting
    flagged = rate * right + (1 - rate) * (1 - right)
    by_chance = rate * (1 - flagged) + (1 - rate) * flagged
    true = 1 - (1 - right) / by_chance
    rng = np.random.default_rng([SEED, n, round(100 * right)])
    hits = defined = 0
    for _ in range(n_runs):
        human = rng.random(n) < rate
        judge = np.where(rng.random(n) < right, human, ~human)
        if human.all() or not (human.any() or judge.any()):
            continue
        ci = kappa_interval(judge, human, method=method)
        defined += 1
        hits += ci.ci_low <= true <= ci.ci_high
    return hits / defined


@pytest.mark.parametrize("setting", KAPPA_QUICK)
def test_kappa_covers(setting) -> None:
    assert kappa_coverage(setting, 400, "adjusted") >= at_least(LEAST, 400)


@pytest.mark.slow
@pytest.mark.parametrize("setting", KAPPA_FULL)
def test_kappa_covers_everywhere(setting) -> None:
    assert kappa_coverage(setting, 2000, "adjusted") >= at_least(LEAST, 2000)


@pytest.mark.parametrize(
    ("n_groups", "size", "wrong", "shared"),
    [(20, 10, 0.05, True), (10, 20, 0.1, True), (40, 5, 0.1, True), (40, 5, 0.1, False)],
)
def test_kappa_of_clusters_covers(n_groups, size, wrong, shared) -> None:
    """Errors of a whole cluster: most draws show few of them, or none."""
    rng = np.random.default_rng([SEED, n_groups, size])
    groups, n_runs, hits = np.arange(n_groups).repeat(size), 300, 0
    for _ in range(n_runs):
        human = rng.random(n_groups * size) < 0.5
        errors = rng.random(n_groups)[groups] if shared else rng.random(n_groups * size)
        ci = kappa_interval(human ^ (errors < wrong), human, groups=groups)
        hits += ci.ci_low <= 1 - 2 * wrong <= ci.ci_high
    assert hits / n_runs >= at_least(LEAST, n_runs)


@pytest.mark.parametrize(("n_groups", "size"), [(5, 10), (8, 10), (10, 30)])
def test_a_share_of_few_clusters_covers(n_groups, size) -> None:
    rng = np.random.default_rng([SEED, n_groups])
    groups, n_runs, hits = np.arange(n_groups).repeat(size), 2000, 0
    for _ in range(n_runs):
        rates = rng.beta(1.0, 1.0, n_groups)  # a correlation of 1/3 within clusters
        ci = clustered_rate(rng.random(len(groups)) < rates[groups], groups)
        hits += ci.low <= 0.5 <= ci.high
    assert hits / n_runs >= at_least(LEAST, n_runs)


def test_the_textbook_interval_of_kappa_does_not_cover_near_one() -> None:
    assert kappa_coverage((50, 0.3, 0.99), 400, "analytic") < 0.5


def power_of(design, effect, n_runs, seed):
    """Return how often a paired t test finds the effect on as many items as the design says."""
    rng = np.random.default_rng(seed)
    n = design.n_for_power(effect).n
    tries = design.attempts
    found = 0
    for _ in range(n_runs):
        base = rng.normal(0.0, design.item_sd * math.sqrt(design.correlation), n)
        own = design.item_sd * math.sqrt(1 - design.correlation)
        means = []
        for shift in (0.0, effect):
            share = np.clip(design.proportion + shift + base + rng.normal(0.0, own, n), 0.0, 1.0)
            flagged = 1 - design.specificity + (design.sensitivity + design.specificity - 1) * share
            means.append(rng.binomial(tries, flagged) / tries)
        found += stats.ttest_rel(means[1], means[0]).pvalue < 0.05
    return found / n_runs


@pytest.mark.parametrize(
    "design",
    [
        AttemptsDesign(item_sd=0.1, proportion=0.5, correlation=0.5, attempts=4),
        AttemptsDesign(
            item_sd=0.12, proportion=0.5, correlation=0.8, attempts=3,
            sensitivity=0.9, specificity=0.8,
        ),
    ],
    ids=["attempts", "judge"],
)  # fmt: skip
def test_planned_items_have_the_power_asked_for(design) -> None:
    assert power_of(design, 0.06, 1000, SEED) == pytest.approx(0.8, abs=0.045)
