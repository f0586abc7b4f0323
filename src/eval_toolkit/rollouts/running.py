"""Running rollouts: ask what is not answered yet, score, measure, summarise, store."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import NoneType
from typing import Any

from eval_toolkit import _validate
from eval_toolkit._hashing import canonical_json, sha256_text
from eval_toolkit._redaction import redact_secrets
from eval_toolkit.artifacts import sanitize_for_json
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE
from eval_toolkit.judges.asking import judge_of
from eval_toolkit.models.cache import ResponseCache, cached
from eval_toolkit.rollouts.asking import Asking, Budget
from eval_toolkit.rollouts.graphs import Graph
from eval_toolkit.rollouts.measures.results import Measuring
from eval_toolkit.rollouts.rolloutrun import RolloutRun, judges_of
from eval_toolkit.rollouts.sampling import TreeSampler
from eval_toolkit.rollouts.scorers import asked_through
from eval_toolkit.rollouts.scorers.base import check_ready
from eval_toolkit.rollouts.seeds import SeedPrompt, seed_prompts
from eval_toolkit.rollouts.storing import StoredRollouts
from eval_toolkit.rollouts.system import System
from eval_toolkit.runner import Progress
from eval_toolkit.runner.jobs import Key
from eval_toolkit.seeds import DEFAULT_SEED

__all__ = ["RolloutRun", "run_rollouts"]


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
) -> RolloutRun:
    """Roll out seed prompts: a tester talks to a target, scorers look on, every number has its n.

    Parameters
    ----------
    system : System
        Who takes part.
    seeds : sequence of str, SeedPrompt or mapping
        What each rollout begins with: the units. Those of one topic are resampled together.
    out : path, optional
        The run's folder. A run that was interrupted there is gone on with; in a finished one what
        failed is asked again, and more seeds, rollouts or turns add to it. Without a folder nothing
        is written. States, probes and responses are stored as texts or plain JSON.
    name : str, default "seeds"
        Of the set of seed prompts.
    depth, width, keep, stop_on_success
        Turns and branches, as in `TreeSampler`.
    rollouts_per_seed : int, default 1
        Attempts at each seed prompt; they differ where tester or target draw.
    seed : int, default 42
        Of the run: everything drawn is derived from it.
    asr_at : sequence of int
        Report the chance that at least one of k rollouts of a seed succeeds, for these k.
    policy : str, optional
        What a rollout that branches comes to, as in `measure_rollouts`; "expectation" by default,
        and "best" where ``keep`` leaves branches behind, of which there is no expectation.
    on_error : {"exclude", "as_zero", "fail"}, default "exclude"
        What a rollout that broke counts as; "as_zero" counts it as the worst for the target.
    max_error_rate : float, default 0.0
        Above this, ``too_many_errors`` is set.
    confidence : float, default 0.95
        Of the intervals.
    budget : Budget, optional
        How many calls and tokens testers and targets may take; what it does not allow is skipped
        and counted.
    concurrency : int, optional
        Requests at once; what suits each model by default. Changes no result.
    cache : ResponseCache or path, optional
        Answers kept between runs.
    give_up_after : int or None, default 50
        Failures in a row after which asking stops, of a model or of a function.
    run_id : str, optional
        Name of the run; the folder's by default.
    on_progress : callable, optional
        Told how far it is, a few times a second.

    Returns
    -------
    RolloutRun
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
    _validate.place(out, "out", NoneType)
    _validate.place(cache, "cache", ResponseCache, NoneType)
    _check_names(name, run_id)
    if isinstance(seeds, str) or not isinstance(seeds, Sequence):
        raise InvalidTypeError(f"`seeds` must be a list of seed prompts, got {seeds!r:.60}")
    if not seeds:
        raise InvalidInputError("`seeds` is empty; there is nothing to roll out")
    prompts = seed_prompts(seeds)
    sampler: TreeSampler[Any, Any] = TreeSampler(
        system, depth=depth, width=width, keep=keep, stop_on_success=stop_on_success, seed=seed
    )
    if policy is None:
        policy = "best" if sampler.chooses else "expectation"
    attempts = _validate.integer(rollouts_per_seed, "rollouts_per_seed", low=1)
    measuring = Measuring.of(
        system.scorers,
        system.target_name,
        scored=system.scored,
        asr_at=asr_at,
        attempts=attempts,
        policy=policy,
        depth=sampler.depth,
        on_error=on_error,
        confidence=confidence,
        max_error_rate=max_error_rate,
        seed=sampler.seed,
    )
    if budget is not None and not isinstance(budget, Budget):
        raise InvalidTypeError(f"`budget` is {budget!r:.80}; it must be a Budget")
    check_ready(system.scorers)
    with ExitStack() as stack:
        rolling = _Rolling(
            sampler=sampler,
            prompts=prompts,
            units=frozenset(prompt.id for prompt in prompts),
            attempts=attempts,
            measuring=measuring,
            how={
                "concurrency": concurrency,
                "budget": budget,
                "through": lambda model: cached(model, cache, stack),
                "on_progress": on_progress,
                "give_up_after": give_up_after,
            },
        )
        config = rolling.settings(name, budget)
        if out is None:
            return rolling.measured(config, run_id or name)
        stored = StoredRollouts(
            Path(out), config, prompts, run_id, _system_digest(system), {"concurrency": concurrency}
        )
        return stored.run(rolling, measuring)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rolling:
    """What is rolled out, and how."""

    sampler: TreeSampler[Any, Any]
    prompts: Sequence[SeedPrompt]
    attempts: int
    measuring: Measuring
    how: Mapping[str, Any]
    units: frozenset[str]

    @property
    def n_planned(self) -> int:
        """How many requests there will be at most, judges' aside."""
        n_requests = len(self.prompts) * self.attempts * self.sampler.n_requests()
        budget = self.how["budget"]
        calls = None if budget is None else budget.calls
        return n_requests if calls is None else min(n_requests, calls)

    def settings(self, name: str, budget: Budget | None) -> dict[str, Any]:
        """Return the configuration of the run, without secrets."""
        sampling = self.sampler.settings()
        config = {
            "kind": "rollout",
            "seeds": {"name": name, "n": len(self.prompts)},
            "system": self.sampler.system.describe(),
            "seed": sampling.pop("seed"),
            **sampling,
            "rollouts_per_seed": self.attempts,
            "budget": None if budget is None else budget.to_dict(),
            **self.measuring.to_dict(),
        }
        settings: dict[str, Any] = redact_secrets(sanitize_for_json(config))
        return settings

    def roll(
        self, journal: Any = None, finished: Any = None
    ) -> tuple[list[Graph[Any, Any]], Asking]:
        """Roll out everything; what is answered already is not asked again."""
        scorers = self.sampler.system.scorers
        with (
            Asking(journal=journal, finished=finished, **self.how) as asking,
            asked_through(scorers, asking),
        ):
            graphs = self.sampler.eval_rollouts(self.prompts, attempts=self.attempts, asking=asking)
        return graphs, asking

    def asks_for(self, key: Key) -> bool:
        """Return whether an answer under this key may be asked for; a judge's may always be."""
        unit, attempt, step = key
        place = step.partition(":")[0].split(".")
        if judge_of(step) is not None or not all(part.isdecimal() for part in place):
            return True
        widths = self.sampler.widths
        fits = len(place) <= len(widths) and all(
            int(at) < width for at, width in zip(place, widths, strict=False)
        )
        return unit in self.units and 1 <= attempt <= self.attempts and fits

    def measured(self, config: Mapping[str, Any], run_id: str) -> RolloutRun:
        """Return what is found where nothing is stored."""
        started = time.monotonic()
        graphs, asking = self.roll()
        done = self.measuring.measured(graphs, self.prompts, asking, config, run_id)
        judges = judges_of(self.sampler.system.scorers, asking.verdicts)
        return replace(done, judges=judges, elapsed_s=time.monotonic() - started)


def _system_digest(system: System[Any, Any]) -> str:
    """Return the hash of all that the system says about itself; secrets are stored by it alone."""
    return sha256_text(canonical_json(sanitize_for_json(system.describe())))


def _check_names(name: Any, run_id: Any) -> None:
    if not isinstance(name, str) or not name.strip():
        raise InvalidInputError(f"`name` is {name!r:.80}; it must be a name")
    if run_id is not None and (not isinstance(run_id, str) or not run_id.strip()):
        raise InvalidInputError(f"`run_id` is {run_id!r:.80}; it must be a name")
