"""Evaluation kinds of rollouts: new and stored conversations."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from eval_toolkit._internal.display import Page
from eval_toolkit._internal.hashing import canonical_json, sha256_text
from eval_toolkit.artifacts import sanitize_for_json
from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.graders.judges.requests import judge_of
from eval_toolkit.models.runner import JobResult
from eval_toolkit.models.runner.jobs import Key
from eval_toolkit.rollouts.display_names import (
    NEXT_METRICS,
    WORDS,
    grouped_metrics,
    participants,
    success_in_words,
)
from eval_toolkit.rollouts.graphs import Graph
from eval_toolkit.rollouts.measures.results import CATEGORY, MeasurementSettings
from eval_toolkit.rollouts.participant_requests import UNKNOWN
from eval_toolkit.rollouts.sampling import TreeSampler, chooses
from eval_toolkit.rollouts.scorers import requests_through, unwrapped
from eval_toolkit.rollouts.seeds import SeedPrompt
from eval_toolkit.rollouts.seeds.stored import seed_units
from eval_toolkit.rollouts.turns import TURNS, turns_table
from eval_toolkit.runs import Run
from eval_toolkit.runs.budgets import Budget
from eval_toolkit.runs.context import Context
from eval_toolkit.runs.kinds import Graded, Identity, Kind
from eval_toolkit.runs.resuming import refuse_changed
from eval_toolkit.runs.specs import SummarySpec
from eval_toolkit.runs.units import Unit
from eval_toolkit.scorecards import Records

if TYPE_CHECKING:
    from eval_toolkit.analysis import RunComparison
    from eval_toolkit.runs.answers import AnswersTable
    from eval_toolkit.runs.blocks import Block, Outcomes
    from eval_toolkit.runs.kind_display import Estimator
    from eval_toolkit.runs.selected_units import StoredUnit
    from eval_toolkit.runs.shards import Shard

_SHAPE = ("stop_on_success", "keep")
"""Settings that depend on scores to decide which turns to run; fixed until a run is finished."""

Graphs = Sequence[Graph[Any, Any]]


@dataclass(frozen=True)
class MeasuredRollouts(Kind[Graphs]):
    """Rollouts from seed prompts, with their measurement settings."""

    measuring: MeasurementSettings
    prompts: Sequence[SeedPrompt]
    settings: Mapping[str, Any]
    """Configuration except for scorers and summary."""

    name = "rollout"
    by = CATEGORY
    full = "rollouts"
    words = WORDS
    next_metrics = NEXT_METRICS

    @classmethod
    def show(cls, unit: StoredUnit) -> Sequence[Block]:
        """Return the display blocks of a rollout: its turns with their scores."""
        from eval_toolkit.rollouts.display import rollout_blocks

        return rollout_blocks(unit)

    @classmethod
    def outcomes(cls, records: Records, config: Mapping[str, Any]) -> Outcomes:
        """Return the outcome of each rollout."""
        from eval_toolkit.rollouts.display import outcomes_of_rollouts

        return outcomes_of_rollouts(records, config)

    @classmethod
    def subject(cls, config: Mapping[str, Any]) -> Sequence[str]:
        """Return descriptions of the failure condition and the participants."""
        return list(participants(config))

    @classmethod
    def in_words(cls, metric: str, share: str, *, right_or_wrong: bool) -> str:
        """Describe a success rate in a sentence."""
        return success_in_words(metric, share)

    @classmethod
    def not_known(cls, config: Mapping[str, Any]) -> Sequence[str]:
        """Return what the run does not measure: scorer errors and other attacks."""
        scorer = config.get("scored_by")
        wrong = (
            [f"how often {scorer} is wrong: the intervals do not include this"] if scorer else []
        )
        return [*wrong, "whether other attacks would succeed"]

    @classmethod
    def metric_groups(
        cls, config: Mapping[str, Any], names: Sequence[str]
    ) -> Sequence[tuple[str, Sequence[str]]]:
        """Return the metric groups, starting with successes and refusals."""
        return list(grouped_metrics(config, names))

    @classmethod
    def estimator(cls, run: Run, summary: SummarySpec) -> Estimator | None:
        """Return the estimator of failure rates from survival curves, as used in the run."""
        from eval_toolkit.rollouts.stored_estimates import stored_estimator

        return stored_estimator(run, summary) if cls._describes([run]) else None

    @classmethod
    def compared_metrics(cls, runs: Sequence[Run]) -> Sequence[str] | None:
        """Return only the main metrics, since a run has about thirty similar ones."""
        from eval_toolkit.rollouts.failures_by_turn import headline_metrics

        return headline_metrics(runs) if cls._describes(runs) else None

    @classmethod
    def comparison(cls, page: Page, runs: Sequence[Run], result: RunComparison) -> Page:
        """Return the comparison page with the failures by turn added."""
        from eval_toolkit.rollouts.failures_by_turn import with_failures_by_turn

        return with_failures_by_turn(page, runs, result) if cls._describes(runs) else page

    @classmethod
    def _describes(cls, runs: Sequence[Run]) -> bool:
        """Return whether all runs are rollout runs."""
        return all((run.manifest.get("config") or {}).get("kind") == cls.name for run in runs)

    @property
    def summary(self) -> SummarySpec:  # type: ignore[override]
        """Settings of the intervals and of failure handling."""
        return self.measuring.summary

    def config(self) -> Mapping[str, Any]:
        """Return the settings of seeds, system, sampling, scorers and summary."""
        return {**self.settings, **self.measuring.to_dict()}

    def answers_table(self, attempts: Graphs, graded: Graded) -> AnswersTable:
        """Return the table of the conversations."""
        from eval_toolkit.rollouts.conversation_table import conversation_table

        return conversation_table(attempts, self.prompts)

    def units(self) -> Sequence[Unit]:
        """Return the seed prompts."""
        return seed_units(self.prompts)

    def grade(self, attempts: Graphs) -> Graded:
        """Compute the results of the rollouts."""
        return self.measuring.graded(attempts, self.prompts, str(self.settings["seeds"]["name"]))

    def judges(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the settings of each judge among the scorers."""
        asking = [one for one in map(unwrapped, self.measuring.scorers) if hasattr(one, "asker")]
        return {name: settings for one in asking for name, settings in one.describe().items()}

    def tables(self, attempts: Graphs) -> Mapping[str, Any]:
        """Return the table of turns."""
        return {TURNS: turns_table(attempts)}

    def manifest(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return versions, seed and system."""
        versions = {
            f"text_scorer:{scorer}": str(settings["version"])
            for scorer, settings in config["scorers"].items()
        }
        tester = config["system"]["tester"]
        if "version" in tester:
            versions[f"attack:{tester['name']}"] = str(tester["version"])
        return {
            "seeds": {"run": config["seed"]},
            "versioned_objects": versions,
            "system": config["system"],
        }


@dataclass(frozen=True)
class RolloutKind(MeasuredRollouts):
    """Rollouts that are sampled by sending requests."""

    sampler: TreeSampler[Any, Any]
    attempts: int
    budget: Budget

    def identity(self) -> Identity:
        """Return the system and the seed; all other settings may change when a run is resumed."""
        described = self.sampler.system.describe()
        return Identity(
            settings=("kind", "system", "seed"),
            digest=sha256_text(canonical_json(sanitize_for_json(described))),
            what="system that differs in a component",
        )

    def manifest(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return versions, seed, system and its digest."""
        return {**super().manifest(config), "system_sha256": self.identity().digest}

    def share(self, shard: Shard) -> Self:
        """Return the rollouts restricted to the seed prompts of a shard."""
        if self.budget != Budget():
            raise InvalidInputError(
                "`budget` applies to a whole run; it cannot be combined with `shard`"
            )
        return replace(self, prompts=shard.take(self.prompts))

    def n_planned(self) -> int:
        """Return the maximum number of requests to send."""
        n_requests = len(self.prompts) * self.attempts * self.sampler.n_requests()
        calls = self.budget.calls
        return n_requests if calls is None else min(n_requests, calls)

    def produce(self, context: Context) -> Graphs:
        """Sample all rollouts, reusing stored answers."""
        with requests_through(self.sampler.system.scorers, context):
            graphs = self.sampler.eval_rollouts(
                self.prompts, attempts=self.attempts, asking=context
            )
        context.notes += _untold(self.config()["system"], [*context.outcomes, *context.verdicts])
        return graphs

    def lost(self, answered: Iterable[Key]) -> list[Key]:
        """Return the keys of stored answers that are no longer needed; verdicts are never included."""
        units = {prompt.id for prompt in self.prompts}
        return [key for key in answered if not self._asks_for(key, units)]

    def _asks_for(self, key: Key, units: Container[str]) -> bool:
        unit, attempt, step = key
        place = step.partition(":")[0].split(".")
        if judge_of(step) is not None or not all(part.isdecimal() for part in place):
            return True
        widths = self.sampler.widths
        fits = len(place) <= len(widths) and all(
            int(at) < width for at, width in zip(place, widths, strict=False)
        )
        return unit in units and 1 <= attempt <= self.attempts and fits

    def advice(self) -> str:
        """Return advice on how to keep all stored answers."""
        return "request at least as many seeds, rollouts, turns and branches"

    def refuse(self, folder: Path, begun: Mapping[str, Any], config: Mapping[str, Any]) -> None:
        """Raise an error if the stored run was rescored, or has a different tester or target."""
        if "rescored" in begun:
            raise ArtifactError(
                f"{folder}: contains the rescored rollouts of run "
                f"{begun['rescored'].get('run_id')}; choose another folder"
            )
        there = (begun.get("config") or {}).get("system") or {}
        for who in ("tester", "target"):  # the digest does not name the participant
            old, new = there.get(who), config["system"][who]
            if old == new or not isinstance(old, Mapping):
                continue
            names = f"{old.get('name')!r:.60}, here {new['name']!r:.60}"
            if old.get("name") == new["name"]:
                names = f"both are called {new['name']!r:.60}"
                if old.get("version") != new.get("version"):
                    names += f"; version {old.get('version')}, here {new.get('version')}"
            raise ArtifactError(
                f"{folder}: the stored run has a different {who} ({names}); choose another folder"
            )

    def refuse_unfinished(
        self, folder: Path, there: Mapping[str, Any], config: Mapping[str, Any]
    ) -> None:
        """Raise an error if an unfinished run used different selection rules or scorers."""
        refuse_changed(folder, there, config, _SHAPE)
        if _asks_by_scores(config):
            refuse_changed(folder, _decided_by(there), _decided_by(config), ("scored_by",))


def _asks_by_scores(config: Mapping[str, Any]) -> bool:
    """Return whether scores affect which requests are sent."""
    uses_scores = '"higher_is_closer"' in canonical_json(config["system"]["tester"])
    return (
        bool(config["stop_on_success"]) or chooses(config["width"], config["keep"]) or uses_scores
    )


def _decided_by(config: Mapping[str, Any]) -> dict[str, Any]:
    name = config.get("scored_by")
    return {"scored_by": {name or "none": (config.get("scorers") or {}).get(name)}}


def _untold(system: Mapping[str, Any], outcomes: Sequence[JobResult]) -> list[str]:
    """Return a note on participants without a digest if stored answers were reused."""
    parts = {
        **{who: str(system[who]["name"]) for who in ("tester", "target")},
        **{name: canonical_json(part) for name, part in system.get("attributes", {}).items()},
    }
    unknown = [name for name, identity in parts.items() if f":{UNKNOWN}" in identity]
    if not unknown or not any(outcome.reused for outcome in outcomes):
        return []
    parts_of_it = ", ".join(unknown)
    return [
        f"stored answers were reused; it is unknown whether they come from the same {parts_of_it}"
    ]
