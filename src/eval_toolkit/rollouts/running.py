"""Execution of rollouts: request missing answers, score, measure, summarise, store."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE
from eval_toolkit.models.cache import ResponseCache
from eval_toolkit.models.runner import Progress
from eval_toolkit.rollouts.kind import RolloutKind
from eval_toolkit.rollouts.measures.results import Measuring
from eval_toolkit.rollouts.sampling import TreeSampler
from eval_toolkit.rollouts.scorers.base import check_ready
from eval_toolkit.rollouts.seeds import SeedPrompt, seed_prompts
from eval_toolkit.rollouts.system import System
from eval_toolkit.runs.budgets import Budget
from eval_toolkit.runs.driver import drive
from eval_toolkit.runs.outcome import Outcome
from eval_toolkit.runs.specs import AskSpec, SummarySpec
from eval_toolkit.seeds import DEFAULT_SEED

__all__ = ["run_rollouts"]


def run_rollouts(
    system: System[Any, Any],
    seeds: Sequence[str | SeedPrompt | Mapping[str, Any]],
    out: str | Path | None = None,
    *,
    name: str = "seeds",
    depth: int = 3,
    width: int | Sequence[int] | None = None,
    keep: int | None = None,
    stop_on_success: bool = False,
    rollouts_per_seed: int = 1,
    seed: int = DEFAULT_SEED,
    asr_at: Sequence[int] = (),
    policy: str | None = None,
    on_error: str = "exclude",
    max_error_rate: float = 0.0,
    confidence: float = DEFAULT_CONFIDENCE,
    budget: Budget | None = None,
    concurrency: int | None = None,
    cache: ResponseCache | str | Path | None = None,
    give_up_after: int | None = 50,
    run_id: str | None = None,
    on_progress: Callable[[Progress], object] | None = None,
) -> Outcome:
    """Run red-team rollouts from seed prompts, score the replies, and summarise.

    Parameters
    ----------
    system : System
        Tester, target and scorers.
    seeds : sequence of str, SeedPrompt or mapping
        Seed prompts, one unit each. Those of one topic are resampled together.
    out : path, optional
        Folder of the run. An interrupted run is resumed; in a finished one failed requests are
        retried, and more seeds, rollouts or turns are added. By default nothing is written. States,
        probes and responses are stored as texts or plain JSON.
    name : str, default "seeds"
        Name of the set of seed prompts.
    depth, width, keep, stop_on_success
        Turns and branches, as in `TreeSampler`.
    rollouts_per_seed : int, default 1
        Number of rollouts per seed prompt; they differ if tester or target are random.
    seed : int, default 42
        Seed of the run: everything drawn is derived from it.
    asr_at : sequence of int
        Report the chance that at least one of k rollouts of a seed succeeds, for these k.
    policy : str, optional
        How branches are combined, see `measure_rollouts`; by default "expectation", and "best" if
        ``keep`` drops branches.
    on_error : {"exclude", "as_zero", "fail"}, default "exclude"
        How failed rollouts count; "as_zero" counts them as the worst outcome for the target.
    max_error_rate : float, default 0.0
        Above this, ``too_many_errors`` is set.
    confidence : float, default 0.95
        Confidence level of the intervals.
    budget : Budget, optional
        Limits on calls and tokens of testers and targets; rollouts beyond them are skipped and
        counted.
    concurrency : int, optional
        Maximum number of concurrent requests; by default set by each model. Does not change
        results.
    cache : ResponseCache or path, optional
        Cache of answers, shared between runs.
    give_up_after : int or None, default 50
        Failures in a row after which asking stops, of a model or of a function.
    run_id : str, optional
        Name of the run; the folder's by default.
    on_progress : callable, optional
        Told how far it is, a few times a second.

    Returns
    -------
    Outcome
        Equal answers give equal bytes of ``records.parquet``, ``turns.parquet`` and
        ``results.json``, whatever the concurrency and however often the run was interrupted.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an option does not fit.
    ArtifactError
        If the folder holds a run of another system or seed, or an unfinished one that ended or
        chose its conversations otherwise; or another process writes it.
    ModelError
        If a model or a function fails for good; what was answered is kept. Before anything is
        asked, if a scorer lacks its weights.
    MissingExtraError
        Before anything is asked, if a scorer needs something that is not installed.

    Examples
    --------
    >>> system = System(
    ...     ["Please.", "I insist."], ["No.", "Well, grr."],
    ...     lambda texts: [float("grr" in text) for text in texts],
    ... )
    >>> done = run_rollouts(system, ["Growl at me", "Growl at them"], depth=2)
    >>> cell = done.card["attack_success"]
    >>> cell.value, cell.n_units
    (1.0, 2)
    >>> done.card["failed_by_turn_1"].value
    0.0
    """
    if not isinstance(system, System):
        raise InvalidTypeError(f"`system` is {system!r:.80}; it must be a System")
    validation.place(out, "out", NoneType)
    _check_names(name, run_id)
    if isinstance(seeds, str) or not isinstance(seeds, Sequence):
        raise InvalidTypeError(f"`seeds` must be a list of seed prompts, got {seeds!r:.60}")
    if not seeds:
        raise InvalidInputError("`seeds` is empty; at least one is needed")
    prompts = seed_prompts(seeds)
    sampler: TreeSampler[Any, Any] = TreeSampler(
        system, depth=depth, width=width, keep=keep, stop_on_success=stop_on_success, seed=seed
    )
    if policy is None:
        policy = "best" if sampler.chooses else "expectation"
    attempts = validation.integer(rollouts_per_seed, "rollouts_per_seed", low=1)
    summary = SummarySpec(
        on_error=on_error, confidence=confidence, max_error_rate=max_error_rate, seed=sampler.seed
    )
    measuring = Measuring.of(
        system.scorers,
        system.target_name,
        scored=system.scored,
        asr_at=asr_at,
        attempts=attempts,
        policy=policy,
        depth=sampler.depth,
        summary=summary,
    )
    ask = AskSpec(
        concurrency=concurrency,
        cache=cache,
        budget=Budget() if budget is None else budget,
        give_up_after=give_up_after,
        on_progress=on_progress,
    )
    check_ready(system.scorers)
    sampling = sampler.settings()
    kind = RolloutKind(
        measuring=measuring,
        prompts=prompts,
        settings={
            "kind": RolloutKind.name,
            "seeds": {"name": name, "n": len(prompts)},
            "system": system.describe(),
            "seed": sampling.pop("seed"),
            **sampling,
            "rollouts_per_seed": attempts,
            "budget": None if budget is None else budget.to_dict(),
        },
        sampler=sampler,
        attempts=attempts,
        budget=ask.budget,
    )
    return drive(
        kind,
        out,
        name=name,
        run_id=run_id,
        ask=ask,
        max_error_rate=summary.max_error_rate,
        engine={"concurrency": concurrency},
    )


def _check_names(name: Any, run_id: Any) -> None:
    if not isinstance(name, str) or not name.strip():
        raise InvalidInputError(f"`name` is {name!r:.80}; it must be a name")
    if run_id is not None and (not isinstance(run_id, str) or not run_id.strip()):
        raise InvalidInputError(f"`run_id` is {run_id!r:.80}; it must be a name")
