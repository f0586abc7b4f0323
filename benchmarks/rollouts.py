"""Rollouts in lockstep beside one conversation after the other, with a model that takes its time."""

import time
from collections.abc import Sequence

from benchmarks._case import Bar, Case, Measurement
from benchmarks._timing import Effort, Timing
from eval_toolkit.models._local import BatchedModel
from eval_toolkit.models.batching import Batcher
from eval_toolkit.requests import Request
from eval_toolkit.responses import RawCompletion
from eval_toolkit.rollouts import System, TreeSampler, run_rollouts

N_SEEDS, N_TURNS = 200, 3
TAKES_S = 0.02
SEEDS = [f"Question {n}" for n in range(N_SEEDS)]


class Slow(BatchedModel):
    """A model that takes the same time for a batch of any size, and counts its batches."""

    concurrency = 256
    name = "slow"

    def __init__(self, takes_s: float = TAKES_S) -> None:
        self.takes_s = takes_s
        self.n_calls = 0
        self._batcher = Batcher(self._answers, max_batch=1024)

    def describe(self) -> dict[str, object]:
        return {"kind": "slow", "takes_s": self.takes_s}

    def _answers(self, requests: Sequence[Request]) -> list[RawCompletion]:
        self.n_calls += 1
        time.sleep(self.takes_s)
        return [RawCompletion(f"an answer of {len(str(request.prompt))}") for request in requests]


def _system(takes_s: float = TAKES_S) -> tuple[System[str, str], Slow, Slow]:
    from eval_toolkit.rollouts.attacks import Refinement

    tester, target = Slow(takes_s), Slow(takes_s)
    system: System[str, str] = System(Refinement(tester), target, lambda texts: [0.1] * len(texts))
    return system, tester, target


def _calls(effort: Effort) -> Measurement:
    """Count batches, as the time a model is busy with them."""
    system, tester, target = _system()
    run_rollouts(system, SEEDS, depth=N_TURNS)
    ours = tester.n_calls + target.n_calls
    system, tester, target = _system(0.0)
    sampler: TreeSampler[str, str] = TreeSampler(system, depth=N_TURNS)
    for seed in SEEDS:
        sampler.eval_rollout(seed)
    peer = tester.n_calls + target.n_calls
    note = f"{ours} calls in lockstep, {peer} one conversation after the other"
    return Measurement(Timing((ours * TAKES_S * 1e9,)), Timing((peer * TAKES_S * 1e9,)), note)


def _wall(effort: Effort) -> Measurement:
    """Time the whole of it, beside the time that the model alone takes for its batches."""
    walls, calls = [], 0
    for _ in range(effort.heavy_rounds):
        system, tester, target = _system()
        start = time.perf_counter_ns()
        done = run_rollouts(system, SEEDS, depth=N_TURNS)
        walls.append(float(time.perf_counter_ns() - start))
        calls = tester.n_calls + target.n_calls
        if done.n_rollouts != N_SEEDS or done.n_errors:
            raise ValueError(f"{done.n_errors} of {done.n_rollouts} rollouts broke")
    note = f"{calls} calls; records, intervals and curves are in ours"
    return Measurement(Timing(tuple(walls)), Timing((calls * TAKES_S * 1e9,)), note)


CASES = [
    Case(
        "rollout-calls",
        "200 seeds × 3 turns, tester and target 20 ms per call: time that models are busy",
        Bar("speed-up", 50.0),
        _calls,
        "one conversation after the other",
    ),
    Case(
        "rollout-wall",
        "the same, wall time of the whole run with its statistics",
        Bar("cost", 2.0),
        _wall,
        "the model's own time for its calls",
    ),
]
