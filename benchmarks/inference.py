"""Benchmarks of BCa intervals, several scorers, groups and DeLong."""

import warnings
from functools import partial

import numpy as np

from benchmarks._case import Bar, Case, Measurement, require_agreement
from benchmarks._data import binormal, clusters, rivals
from benchmarks._timing import Effort, Job, on_line, race
from benchmarks.cards import SIX
from benchmarks.ranks import BOTH, N_RESAMPLES
from eval_toolkit import bootstrap_ci, paired_bootstrap_diff, pr_auc, scorecard
from eval_toolkit.inference import delong_roc_variance
from eval_toolkit.inference.plans import rows_plan
from eval_toolkit.inference.resampling import Problem, replicate

N = 50_000


def _bca_and_percentile(effort: Effort) -> Measurement:
    y, scores = binormal(N)
    jobs: dict[str, Job] = {
        f"{method}, {len(metrics)}": partial(
            scorecard, y, scores, metrics=metrics, n_resamples=N_RESAMPLES, method=method
        )
        for metrics in (BOTH, SIX)
        for method in ("BCa", "percentile")
    }
    times = race(jobs, rounds=effort.rounds)
    ratio = times["BCa, 6"].best_ns / times["percentile, 6"].best_ns
    note = f"a scorecard of six metrics: {ratio:.2f}×"
    return Measurement(times["BCa, 2"], times["percentile, 2"], note)


def _bca_and_scipy(effort: Effort) -> Measurement:
    from scipy.stats import bootstrap
    from sklearn.metrics import average_precision_score

    y, scores = binormal(1_000)
    few, many = 50, 250

    def peer(n_resamples: int) -> object:
        return bootstrap(
            (y, scores),
            average_precision_score,
            paired=True,
            vectorized=False,
            method="BCa",
            n_resamples=n_resamples,
            rng=np.random.default_rng(0),
        )

    ours = partial(bootstrap_ci, y, scores, pr_auc, n_resamples=N_RESAMPLES, method="BCa")
    require_agreement([ours().point_estimate], [average_precision_score(y, scores)], 1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few resamples may be degenerate; only their time counts
        times = race(
            {"ours": ours, "few": partial(peer, few), "many": partial(peer, many)},
            rounds=effort.heavy_rounds,
        )
    return Measurement(
        times["ours"],
        on_line(times["few"], times["many"], at=(few, many), target=N_RESAMPLES),
    )


def _scorers(effort: Effort, *, n_scorers: int) -> Measurement:
    y, scores = rivals(N, n_scorers)
    labels = y.astype(bool)
    statistics = tuple(spec.statistic for spec in BOTH)

    def both_metrics(count: int) -> object:
        problem = Problem.scored(labels, scores[:count], statistics, rows_plan(N), 0)
        return replicate(problem, N_RESAMPLES)

    jobs: dict[str, Job] = {
        "one": partial(both_metrics, 1),
        "all": partial(both_metrics, n_scorers),
    }
    if n_scorers == 2:
        jobs["alone"] = partial(
            bootstrap_ci, y, scores[0], pr_auc, n_resamples=N_RESAMPLES, method="BCa"
        )
        jobs["difference"] = partial(
            paired_bootstrap_diff, y, scores[0], scores[1], pr_auc, n_resamples=N_RESAMPLES
        )
    times = race(jobs, rounds=effort.rounds)
    note = ""
    if n_scorers == 2:
        ratio = times["difference"].best_ns / times["alone"].best_ns
        note = f"paired_bootstrap_diff over bootstrap_ci, PR-AUC alone: {ratio:.2f}×"
    return Measurement(times["all"], times["one"], note)


def _groups_and_rows(effort: Effort) -> Measurement:
    y, scores = binormal(N)
    groups = clusters(N, average_size=5)
    card = partial(scorecard, y, scores, metrics=BOTH, n_resamples=N_RESAMPLES, method="BCa")
    times = race({"groups": partial(card, groups=groups), "rows": card}, rounds=effort.rounds)
    return Measurement(times["groups"], times["rows"])


def _delong(effort: Effort) -> Measurement:
    from MLstatkit import Delong_test

    y, (a, b) = rivals(N, 2)

    def peer() -> tuple[float, float]:
        return Delong_test(y, a, b, return_ci=False, return_auc=False)

    ours = partial(delong_roc_variance, y, a, b)
    z = ours().z
    require_agreement([z if z is not None else 0.0], [peer()[0]], 1e-8)
    times = race({"ours": ours, "peer": peer}, rounds=effort.rounds)
    return Measurement(times["ours"], times["peer"])


CASES = (
    Case(
        "bca_vs_percentile",
        "BCa over percentile, PR-AUC + ROC-AUC, n = 50 000",
        Bar("cost", 1.4),
        _bca_and_percentile,
        "ours, percentile",
    ),
    Case(
        "bca_vs_scipy",
        "BCa interval of PR-AUC, n = 1 000",
        Bar("speed-up", 1000),
        _bca_and_scipy,
        "scipy.stats.bootstrap of average_precision_score",
    ),
    Case(
        "paired_2",
        "two scorers on the same draws, PR-AUC + ROC-AUC, n = 50 000",
        Bar("cost", 2.0),
        partial(_scorers, n_scorers=2),
        "ours, one scorer",
    ),
    Case(
        "scorers_8",
        "eight scorers on the same draws, PR-AUC + ROC-AUC, n = 50 000",
        Bar("cost", 5.0),
        partial(_scorers, n_scorers=8),
        "ours, one scorer",
    ),
    Case(
        "groups_vs_rows",
        "groups of 5 on average over rows, PR-AUC + ROC-AUC, n = 50 000",
        Bar("cost", 1.0),
        _groups_and_rows,
        "ours, rows",
    ),
    Case(
        "delong_vs_mlstatkit",
        "DeLong's paired test, n = 50 000",
        Bar("speed-up", 8),
        _delong,
        "MLstatkit.Delong_test",
    ),
)
