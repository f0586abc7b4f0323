"""Benchmarks of PR-AUC and ROC-AUC intervals against a scikit-learn loop and rapidstats."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import numpy as np

from benchmarks._case import Bar, Case, Measurement, require_agreement
from benchmarks._data import Labels, Scores, binormal
from benchmarks._timing import Effort, on_line, race
from eval_toolkit import BootstrapCI, Scorecard, bootstrap_ci, metric_specs, roc_auc, scorecard
from eval_toolkit._internal import kernel

N_RESAMPLES = 1000
BOTH = (metric_specs.pr_auc, metric_specs.roc_auc)

PeerMetric = Callable[[Labels, Scores], float]


def sklearn_loop(
    y: Labels, scores: Scores, metrics: Sequence[PeerMetric], n_resamples: int
) -> list[list[float]]:
    """Evaluate metrics on resampled indices, as most evaluation scripts do."""
    generator = np.random.default_rng(0)
    n = len(y)
    replicates = []
    for _ in range(n_resamples):
        rows = generator.integers(0, n, n)
        y_drawn, scores_drawn = y[rows], scores[rows]
        replicates.append([metric(y_drawn, scores_drawn) for metric in metrics])
    return replicates


def _against_sklearn(
    effort: Effort, *, n: int, peer_resamples: int, backend: str | None = None
) -> Measurement:
    from sklearn.metrics import average_precision_score, roc_auc_score

    y, scores = binormal(n)
    peer_metrics = (average_precision_score, roc_auc_score)

    def ours() -> Scorecard:
        with _chosen(backend):
            return scorecard(y, scores, metrics=BOTH, n_resamples=N_RESAMPLES, method="BCa")

    card = ours()
    require_agreement(
        [card[spec.name].value for spec in BOTH],
        [metric(y, scores) for metric in peer_metrics],
        1e-12,
    )
    times = race(
        {"ours": ours, "peer": partial(sklearn_loop, y, scores, peer_metrics, peer_resamples)},
        rounds=effort.heavy_rounds if n > 100_000 or backend == "numpy" else effort.rounds,
    )
    peer = times["peer"].scaled(measured=peer_resamples, target=N_RESAMPLES)
    return Measurement(times["ours"], peer)


def _chosen(backend: str | None) -> AbstractContextManager[None]:
    return nullcontext() if backend is None else kernel.using(backend)


def _against_rapidstats(effort: Effort) -> Measurement:
    import rapidstats

    y, scores = binormal(50_000)
    few, many = 20, 220

    def peer(sampling: str, iterations: int) -> tuple[float, float, float]:
        job = rapidstats.Bootstrap(
            iterations, method="percentile", sampling_method=sampling, seed=0, n_jobs=1
        )
        return job.roc_auc(y, scores)

    def ours(method: str) -> BootstrapCI:
        return bootstrap_ci(y, scores, roc_auc, n_resamples=N_RESAMPLES, method=method)

    require_agreement([ours("BCa").point_estimate], [peer("multinomial", few)[1]], 1e-9)
    samplings = ("multinomial", "poisson")
    own = {method: partial(ours, method) for method in ("percentile", "BCa")}
    jobs = {f"{s}{r}": partial(peer, s, r) for s in samplings for r in (few, many)}
    times = race({**own, **jobs}, rounds=effort.heavy_rounds)
    lines = {
        sampling: on_line(
            times[f"{sampling}{few}"],
            times[f"{sampling}{many}"],
            at=(few, many),
            target=N_RESAMPLES,
        )
        for sampling in samplings
    }
    fastest = min(lines, key=lambda sampling: lines[sampling].best_ns)
    with_bca = lines[fastest].best_ns / times["BCa"].best_ns
    note = f"its faster sampling: {fastest}; with BCa: {with_bca:.0f}×"
    return Measurement(times["percentile"], lines[fastest], note)


_LOOP = "loop over average_precision_score and roc_auc_score"

CASES = (
    Case(
        "rank_50k",
        "PR-AUC + ROC-AUC intervals, n = 50 000",
        Bar("speed-up", 600),
        partial(_against_sklearn, n=50_000, peer_resamples=4),
        _LOOP,
    ),
    Case(
        "rank_1k",
        "PR-AUC + ROC-AUC intervals, n = 1 000",
        Bar("speed-up", 1500),
        partial(_against_sklearn, n=1_000, peer_resamples=40),
        _LOOP,
    ),
    Case(
        "rank_1m",
        "PR-AUC + ROC-AUC intervals, n = 1 000 000",
        Bar("speed-up", 500),
        partial(_against_sklearn, n=1_000_000, peer_resamples=1),
        _LOOP,
    ),
    Case(
        "rank_50k_numpy",
        "PR-AUC + ROC-AUC intervals, numpy kernel, n = 50 000",
        Bar("speed-up", 40),
        partial(_against_sklearn, n=50_000, peer_resamples=4, backend="numpy"),
        _LOOP,
    ),
    Case(
        "roc_vs_rapidstats",
        "ROC-AUC percentile interval, n = 50 000",
        Bar("speed-up", 100),
        _against_rapidstats,
        "rapidstats.Bootstrap, one job",
    ),
)
