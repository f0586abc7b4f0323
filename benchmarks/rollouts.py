"""Benchmarks of rollouts in lockstep against sequential conversations, with a slow model."""

import time
from collections.abc import Callable, Sequence

from benchmarks._case import Bar, Case, Measurement
from benchmarks._timing import Effort, Timing
from eval_toolkit.models._local import BatchedModel
from eval_toolkit.models.batching import Batcher
from eval_toolkit.models.requests import Request
from eval_toolkit.models.responses import RawCompletion
from eval_toolkit.rollouts import System, TreeSampler, run_rollouts

N_SEEDS, N_TURNS = 200, 3
TAKES_S = 0.02
SEEDS = [f"Question {n}" for n in range(N_SEEDS)]


class Slow(BatchedModel):
    """Model with a fixed latency per batch, which counts its batches."""

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
    """Count the batches, which determine the time that a model is busy."""
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


def _batched(states: Sequence[str]) -> list[str]:
    """Answer all conversations in one call with a fixed latency."""
    time.sleep(TAKES_S)
    return [f"an answer of {len(state)}" for state in states]


def _functions() -> System[str, str]:
    return System(_batched, _batched, lambda texts: [0.1] * len(texts))


def _wall(effort: Effort) -> Measurement:
    """Compare the wall time of rollouts and scoring with that of the calls alone."""
    sampled: dict[str, list[float]] = {
        name: [] for name in ("functions", "models", "functions, run", "models, run")
    }
    for _ in range(effort.rounds):
        systems = {"functions": _functions(), "models": _system()[0]}
        for name, system in systems.items():
            sampler: TreeSampler[str, str] = TreeSampler(system, depth=N_TURNS)
            sampled[name].append(_took(lambda sampler=sampler: sampler.eval_rollouts(SEEDS)))
        for name, system in {"functions": _functions(), "models": _system()[0]}.items():
            whole = _took(lambda system=system: run_rollouts(system, SEEDS, depth=N_TURNS))
            sampled[f"{name}, run"].append(whole)
    calls = 2 * N_TURNS * TAKES_S * 1e9
    times = {name: f"{min(found) / calls:.2f}×" for name, found in sampled.items()}
    note = (
        f"models asked request by request {times['models']}; the whole run with its statistics: "
        f"functions {times['functions, run']}, models {times['models, run']}"
    )
    return Measurement(Timing(tuple(sampled["functions"])), Timing((calls,)), note)


def _took(job: Callable[[], object]) -> float:
    start = time.perf_counter_ns()
    job()
    return float(time.perf_counter_ns() - start)


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
        "the same by batched functions, wall time of rolling out and scoring",
        Bar("cost", 2.0),
        _wall,
        "the 6 calls alone",
    ),
]
