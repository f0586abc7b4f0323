"""A run of rollouts in a folder: gone on with where it fits, refused where it does not."""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from eval_toolkit._hashing import canonical_json, sha256_text
from eval_toolkit.errors import ArtifactError
from eval_toolkit.manifest import build_manifest
from eval_toolkit.requests import GenerateRequest
from eval_toolkit.rollouts.asking import Asking
from eval_toolkit.rollouts.graphs import Graph
from eval_toolkit.rollouts.measures.results import Measuring
from eval_toolkit.rollouts.rolloutrun import RolloutRun, judges_of
from eval_toolkit.rollouts.sampling import chooses
from eval_toolkit.rollouts.seeds import SeedPrompt
from eval_toolkit.rollouts.seeds.tables import SEEDS, seeds_table
from eval_toolkit.rollouts.speaking import UNKNOWN
from eval_toolkit.rollouts.turns import TURNS, turns_table
from eval_toolkit.runner import Job, JobResult, Journal, read_entries, read_outcomes, to_columns
from eval_toolkit.runner.jobs import Key
from eval_toolkit.runner.stored import RESPONSES
from eval_toolkit.runs import OpenRun, open_run
from eval_toolkit.runs.resuming import holds, refuse_changed

__all__ = ["StoredRollouts"]

_IDENTITY = ("kind", "system", "seed")
"""What must agree before answers that are there are used: the rest may change between runs."""
_SHAPE = ("stop_on_success", "keep")
"""What decides which turns are taken, by scores: it may change once a run is finished."""
_DIGEST = "system_sha256"
_NOT_ASKED = "(not asked for in the run that was finished here)"
"""Stands for the request to an answer in a journal, which does not hold requests."""


class Rolling(Protocol):
    """What rolls out."""

    @property
    def n_planned(self) -> int:
        """How many requests there will be at most, judges' aside."""
        ...

    def asks_for(self, key: Key) -> bool:
        """Return whether an answer under this key may be asked for."""
        ...

    def roll(self, journal: Journal, finished: Any) -> tuple[Sequence[Graph[Any, Any]], Asking]:
        """Roll out everything; what is answered already is not asked again."""
        ...


@dataclass(frozen=True, slots=True)
class StoredRollouts:
    """A run of rollouts with a folder."""

    folder: Path
    config: Mapping[str, Any]
    prompts: Sequence[SeedPrompt]
    run_id: str | None
    digest: str
    """Of all that the system says about itself; the configuration holds it without secrets."""
    engine: Mapping[str, Any]
    """How it is asked; none of it changes a result."""

    def run(self, rolling: Rolling, measuring: Measuring) -> RolloutRun:
        """Ask what is not there yet, measure everything, and finish the run."""
        started = time.monotonic()
        head = {**self._manifest(self.run_id or self.folder.resolve().name), "engine": self.engine}
        under_way = {**head, "counts": {"n_planned": rolling.n_planned}}
        with open_run(self.folder, manifest=under_way) as opened:
            self._refuse_other(opened.begun)
            previous = opened.previous
            finished = None if previous is None else read_entries(previous.table(RESPONSES))
            journal = Journal(opened.journal_path)
            answered = {key for key, entry in journal.read().items() if entry.ok}
            self._refuse_reshaped(opened, answered)
            _refuse_to_lose(opened, [key for key in answered if not rolling.asks_for(key)])
            graphs, asking = rolling.roll(journal, finished)
            outcomes = [*asking.outcomes, *asking.verdicts]
            asking.notes += _untold(self.config["system"], outcomes)
            begun = opened.begun or {}
            name = self.run_id or str(begun.get("run_id") or head["run_id"])
            done = measuring.measured(graphs, self.prompts, asking, self.config, name)
            judges = judges_of(measuring.scorers, asking.verdicts)
            done = replace(done, judges=judges, elapsed_s=time.monotonic() - started)
            return self._finished(opened, head, done, outcomes)

    def _finished(
        self,
        opened: OpenRun,
        head: Mapping[str, Any],
        done: RolloutRun,
        outcomes: Sequence[JobResult],
    ) -> RolloutRun:
        """Write the run, unless it stands there already."""
        begun = opened.begun or {}
        name = str(done.results["run_id"])
        target = next(iter(next(iter(done.results["by_slice"].values()))["by_scorer"]))
        records = {(str(self.config["seeds"]["name"]), target): done.records}
        nothing_asked = all(outcome.reused for outcome in outcomes)
        same = begun.get("config") == self.config and begun.get("run_id") == name
        if nothing_asked and same and holds(opened.previous, done.results, records):
            return replace(done, run=opened.previous)
        spent = done.elapsed_s + float(begun.get("wall_clock_seconds") or 0.0)
        manifest = {
            **head,
            "run_id": name,
            "item_set_hash": _item_set_hash(self.prompts),
            "counts": {
                "n_seeds": len(self.prompts),
                "n_rollouts": done.n_rollouts,
                "n_requests": done.n_requests,
                "n_failed_requests": done.n_failed_requests,
                "n_errors": done.n_errors,
                "n_skipped": done.n_skipped,
            },
            "usage": done.usage,
            **({"judges": _judged(self.config, done)} if done.judges else {}),
            "notes": list(done.notes),
            "wall_clock_seconds": spent,
        }
        if nothing_asked and "engine" in begun:
            manifest["engine"] = begun["engine"]
        run = opened.finalise(
            results=done.results,
            results_full={**done.results, "rollouts": dict(done.more)},
            manifest=manifest,
            records=records,
            tables={
                RESPONSES: to_columns([*outcomes, *_kept(opened, outcomes)]),
                TURNS: turns_table(done.graphs),
                SEEDS: seeds_table(self.prompts),
            },
        )
        return replace(done, run=run)

    def _manifest(self, name: str) -> dict[str, Any]:
        """Return what the manifest says before anything is asked."""
        config = self.config
        made = build_manifest(run_id=name, config=config, seeds={"run": config["seed"]})
        versions = {
            f"text_scorer:{scorer}": str(told["version"])
            for scorer, told in config["scorers"].items()
        }
        tester = config["system"]["tester"]
        if "version" in tester:
            versions[f"attack:{tester['name']}"] = str(tester["version"])
        return {
            **replace(made, versioned_objects=versions).to_dict(),
            "kind": "rollout",
            "system": config["system"],
            _DIGEST: self.digest,
        }

    def _refuse_other(self, begun: Mapping[str, Any] | None) -> None:
        """Raise if the folder holds a run whose answers do not belong to this one."""
        if begun is None:
            return
        there = begun.get("config") or {}
        if there.get("kind") != "rollout":
            raise ArtifactError(
                f"{self.folder}: holds a run of another kind; choose another folder"
            )
        if "rescored" in begun:
            raise ArtifactError(
                f"{self.folder}: holds rollouts that were scored again, of run "
                f"{begun['rescored'].get('run_id')}; choose another folder"
            )
        self._refuse_other_speaker(there.get("system") or {})
        refuse_changed(self.folder, there, self.config, _IDENTITY)
        if begun.get(_DIGEST) not in (None, self.digest):
            raise ArtifactError(
                f"{self.folder}: the run there is of a system that differs in a part that is not "
                "stored (a secret, by its name); choose another folder"
            )

    def _refuse_other_speaker(self, there: Mapping[str, Any]) -> None:
        """Raise if the folder's run is of another tester or target: digests would not say so."""
        for who in ("tester", "target"):
            old, new = there.get(who), self.config["system"][who]
            if old == new or not isinstance(old, Mapping):
                continue
            names = f"{old.get('name')!r:.60}, here {new['name']!r:.60}"
            if old.get("name") == new["name"]:
                names = f"both are called {new['name']!r:.60}"
            raise ArtifactError(
                f"{self.folder}: the run there has another {who} ({names}); choose another folder"
            )

    def _refuse_reshaped(self, opened: OpenRun, answered: Collection[Key]) -> None:
        """Raise if an unfinished run would not ask for what it has: said before anything is asked."""
        if opened.begun is None or opened.previous is not None or not answered:
            return
        there = opened.begun.get("config") or {}
        refuse_changed(self.folder, there, self.config, _SHAPE)
        if _asks_by_scores(self.config):
            decides = ("scored_by",)
            refuse_changed(self.folder, _decided_by(there), _decided_by(self.config), decides)


def _refuse_to_lose(opened: OpenRun, left: Sequence[Key]) -> None:
    """Raise if an unfinished run has answers that this one cannot ask for."""
    if left:
        raise ArtifactError(
            f"{opened.path}: the unfinished run there has {len(left)} answers that this one does "
            "not ask for; ask for as many seeds, rollouts, turns and branches, or choose another "
            "folder"
        )


def _asks_by_scores(config: Mapping[str, Any]) -> bool:
    """Return whether scores decide what is asked: which turns there are, or what the tester says."""
    told = '"higher_is_closer"' in canonical_json(config["system"]["tester"])
    return bool(config["stop_on_success"]) or chooses(config["width"], config["keep"]) or told


def _decided_by(config: Mapping[str, Any]) -> dict[str, Any]:
    name = config.get("scored_by")
    return {"scored_by": {name or "none": (config.get("scorers") or {}).get(name)}}


def _untold(system: Mapping[str, Any], outcomes: Sequence[JobResult]) -> list[str]:
    """Say which parts of a system cannot tell whether answers that were there are their own."""
    parts = {
        **{who: str(system[who]["name"]) for who in ("tester", "target")},
        **{name: canonical_json(part) for name, part in system.get("attributes", {}).items()},
    }
    unknown = [name for name, told in parts.items() if f":{UNKNOWN}" in told]
    if not unknown or not any(outcome.reused for outcome in outcomes):
        return []
    parts_of_it = ", ".join(unknown)
    return [f"stored answers were used; whether they are of the same {parts_of_it} cannot be told"]


def _judged(config: Mapping[str, Any], done: RolloutRun) -> dict[str, Any]:
    """Return who judged, by what prompt, and what it took: apart from tester and target."""
    told = {
        name: judge
        for scorer in config["scorers"].values()
        for name, judge in scorer.get("judges", {}).items()
    }
    shown = ("n_requests", "n_failed_requests", "usage")
    return {
        name: {**told.get(name, {}), **{part: judge[part] for part in shown}}
        for name, judge in done.judges.items()
    }


def _kept(opened: OpenRun, outcomes: Sequence[JobResult]) -> list[JobResult]:
    """Return the answers that were there and are not asked for now: they stay."""
    asked = {outcome.job.key for outcome in outcomes}
    previous = [] if opened.previous is None else read_outcomes(opened.previous.table(RESPONSES))
    kept = {one.job.key: one for one in previous if one.ok and one.job.key not in asked}
    for key, entry in Journal(opened.journal_path).read().items():
        if entry.ok and key not in asked and key not in kept:
            job = Job(entry.unit_id, entry.attempt, GenerateRequest(_NOT_ASKED), entry.step)
            found = entry.answer(job, entry.request_hash)
            kept |= {} if found is None else {key: found}
    return list(kept.values())


def _item_set_hash(prompts: Sequence[SeedPrompt]) -> str:
    return sha256_text(canonical_json(sorted([p.id, p.content_hash] for p in prompts)))
