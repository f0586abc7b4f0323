"""Benchmarks of graders, ranks and sequential tests."""

from functools import partial
from random import Random

import numpy as np

from benchmarks._case import Bar, Case, Measurement, require_agreement
from benchmarks._timing import Effort, Timing, race
from eval_toolkit.graders import Rouge
from eval_toolkit.inference import confidence_sequence, rank_systems
from eval_toolkit.models.responses import Completion

N_SYSTEMS, N_ITEMS, N_DRAWS = 8, 14_042, 4_000
N_LOOP = 40
"""Number of draws timed in the peer's loop; its time is scaled."""


def _texts(n: int, words: int) -> list[tuple[str, str]]:
    random = Random(5)  # noqa: S311
    known = [f"word{i}" for i in range(400)]
    return [(" ".join(random.choices(known, k=words)), " ".join(random.choices(known, k=words)))
            for _ in range(n)]  # fmt: skip


def _rouge(effort: Effort) -> Measurement:
    from rouge_score.rouge_scorer import RougeScorer

    pairs = _texts(100, 120)
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"])
    grader = Rouge(tokenise="rouge")
    answers = [Completion(text, ground_truth=truth) for text, truth in pairs]

    def ours() -> list[float]:
        return [float(grader.grade(answer)["rouge_l"]) for answer in answers]  # type: ignore[arg-type]

    def peer() -> list[float]:
        return [scorer.score(truth, text)["rougeL"].fmeasure for text, truth in pairs]

    require_agreement(ours(), peer(), 1e-12)
    times = race({"ours": ours, "peer": peer}, rounds=effort.heavy_rounds)
    return Measurement(times["ours"], times["peer"], "100 texts of 120 words")


def _leaderboard(effort: Effort) -> Measurement:
    generator = np.random.default_rng(3)
    right = (generator.random((N_ITEMS, N_SYSTEMS)) < np.linspace(0.5, 0.7, N_SYSTEMS)).astype(
        float
    )

    def loop() -> list[np.ndarray]:
        rows = [generator.integers(0, N_ITEMS, N_ITEMS) for _ in range(N_LOOP)]
        return [right[row].mean(axis=0) for row in rows]

    ours = partial(rank_systems, [right], n_draws=N_DRAWS)
    require_agreement([ours().systems[0].value], [float(right.mean(axis=0).max())], 1e-12)
    times = race({"ours": ours, "loop": loop}, rounds=effort.heavy_rounds)
    peer = times["loop"].scaled(measured=N_LOOP, target=N_DRAWS)
    return Measurement(times["ours"], peer, "ranks, pairs and intervals are in ours alone")


def _looks(effort: Effort) -> Measurement:
    values = (np.random.default_rng(4).random(10_000) < 0.8).astype(float)
    times: dict[str, Timing] = race(
        {"ours": partial(confidence_sequence, values, n_total=20_000)}, rounds=effort.heavy_rounds
    )
    return Measurement(times["ours"], note="betting, without replacement")


CASES = (
    Case("rouge", "ROUGE-1, 2 and L, with rouge-score's words", Bar("speed-up", 10.0), _rouge,
         "rouge-score"),
    Case("leaderboard", f"ranks of {N_SYSTEMS} systems on {N_ITEMS:,} items, {N_DRAWS:,} draws",
         Bar("speed-up", 6.0), _leaderboard, "a loop over resampled rows"),
    Case("looks", "10 000 looks at a run that may stop", Bar("seconds", 0.5), _looks),
)  # fmt: skip
