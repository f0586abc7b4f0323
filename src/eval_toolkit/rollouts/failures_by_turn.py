"""Turn-by-turn comparison of failure rates in two rollout runs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from eval_toolkit._internal.display import Estimate, Number, Page, Status, Table
from eval_toolkit.analysis import RunComparison, RunDifference, compare_runs
from eval_toolkit.errors import EvalToolkitError, InvalidInputError, UndefinedMetricError
from eval_toolkit.rollouts import Graph, SeedPrompt, compare_survival, rollouts_of, seeds_of
from eval_toolkit.runs import Run
from eval_toolkit.scorecards.parts import WHOLE

_HEADLINES = ("attack_success", "attack_success_own")
_REFUSALS = ("refused_first", "over_refusal", "unsafe_refusal")
_OF_ATTEMPTS = re.compile(r"asr@[0-9]+")
_TOLD = ("value_a", "value_b", "delta", "ci_low", "ci_high", "method", "reason")
_NOT_AS_FAILED = "failures by turn: turns with errors have an unknown outcome here; in the other table (as_zero) they count as failed"


def headline_metrics(runs: Sequence[Run]) -> list[str]:
    """Return the metrics compared by default.

    A rollout run has about thirty metrics. Most of them express the same successes in different
    ways, and each would have its own p-value.
    """
    config = runs[0].manifest["config"]
    scorer = config.get("scored_by")
    stored = list(_with_values(runs))
    selected: list[str] = []
    if scorer is not None:
        selected += [*_HEADLINES, *filter(_OF_ATTEMPTS.fullmatch, stored)]
        settings = (config.get("scorers") or {}).get(scorer) or {}
        worse_is_higher = settings.get("higher_is_worse", True)
        selected += [f"{scorer}_mean", f"{scorer}_{'max' if worse_is_higher else 'min'}"]
    return [name for name in (*selected, *_REFUSALS) if name in stored] or stored


def _with_values(runs: Sequence[Run]) -> dict[str, None]:
    """Return the metrics that have a value in any run, or lack one only because of censoring."""
    return {
        found.metric: None
        for run in runs
        for found in run.cells
        if found.part == WHOLE
        and (found.cell.value is not None or found.cell.details.get("censored"))
    }


def with_failures_by_turn(page: Page, runs: Sequence[Run], result: RunComparison) -> Page:
    """Add the failures by turn of both runs to a comparison page.

    For each turn, the table shows the difference in failure rates and its interval from
    `compare_runs`, so that the page gives a single interval per number. If `compare_runs` has none,
    because rollouts with several conversations ended early, `compare_survival` computes the
    interval from the conversations, using the policy of run A for both runs, up to the last
    observed turn.
    """
    found = _failures_by_turn(runs, result)
    tables, notes = _shown(found)
    read = any(turn.get("read_from") == "conversations" for turn in found.get("turns", ()))
    if read and runs[0].manifest["config"].get("on_error") == "as_zero":
        notes.append(_NOT_AS_FAILED)
    return replace(
        page,
        payload={**page.payload, "survival": found},
        tables=[*page.tables, *tables],
        notes=[*page.notes, *notes],
    )


def _failures_by_turn(runs: Sequence[Run], result: RunComparison) -> dict[str, Any]:
    configs = [run.manifest["config"] for run in runs]
    names = {config.get("scored_by") for config in configs}
    if None in names:
        return {"status": "skipped", "reason": "there is no scorer that defines failures"}
    graphs, seeds = _common(runs)
    if not seeds:
        return {"status": "skipped", "reason": "A and B have no seed prompt in common"}
    chosen = any(graph.selected for side in graphs for graph in side)
    if any("depth" not in config for config in configs) or not (chosen or "policy" in configs[0]):
        return {"status": "skipped", "reason": "a run does not record how it was sampled"}
    policy = "best" if chosen else configs[0]["policy"]
    depth = min(int(config["depth"]) for config in configs)
    options = {
        "scorer": names.pop() if len(names) == 1 else None,
        "policy": policy,
        "depth": depth,
        "confidence": result.confidence,
    }
    cells = _cells_by_turn(runs, result, depth)
    turns = [
        _told(at, "records", cells[at]) if at in cells else _turn(graphs, seeds, at, options)
        for at in range(1, depth + 1)
    ]
    return {"status": "ok", "policy": policy, "n_seeds": len(seeds), "turns": turns}


def _cells_by_turn(
    runs: Sequence[Run], result: RunComparison, depth: int
) -> dict[int, RunDifference]:
    """Return the cells by turn that have a value, if both runs used the same settings."""
    configs = [run.manifest["config"] for run in runs]
    if not result.cells or any(
        configs[0].get(name) != configs[1].get(name) for name in ("policy", "on_error")
    ):
        return {}
    first = result.cells[0]
    turns = {f"failed_by_turn_{turn}": turn for turn in range(1, depth + 1)}
    if configs[0].get("depth") == configs[1].get("depth"):
        turns["attack_success"] = depth
    place = (first.slice, WHOLE, first.scorer)
    own = [cell for cell in result.cells if (cell.slice, cell.part, cell.scorer) == place]
    known = {turns[cell.metric]: cell for cell in own if cell.metric in turns}
    missing = [
        name for name, turn in turns.items() if turn not in known and name != "attack_success"
    ]
    try:
        more = compare_runs(
            runs[0],
            runs[1],
            metrics=missing,
            slices=[first.slice],
            by=(),
            pairs={first.scorer: first.scorer_b},
            on_mismatch="drop",
            allow_version_change=True,
            confidence=result.confidence,
            seed=result.seed,
        ).cells
    except EvalToolkitError:  # the runs have no such columns, or name the slice differently
        more = ()
    known = {turns[cell.metric]: cell for cell in more} | known
    return {turn: cell for turn, cell in known.items() if cell.status == "ok"}


def _told(at: int, read_from: str, found: Any) -> dict[str, Any]:
    values = {name: getattr(found, name) for name in _TOLD}
    return {"turn": at, "status": "ok", "read_from": read_from, **values}


def _common(runs: Sequence[Run]) -> tuple[list[list[Graph[str, str]]], list[SeedPrompt]]:
    """Return the seed prompts shared by both runs, and their rollouts in each run."""
    by_id = [{seed.id: seed for seed in seeds_of(run)} for run in runs]
    same = {
        id_: seed
        for id_, seed in by_id[0].items()
        if id_ in by_id[1] and by_id[1][id_].content_hash == seed.content_hash
    }
    graphs = [[g for g in rollouts_of(run) if g.unit_id in same] for run in runs]
    return graphs, list(same.values())


def _turn(
    graphs: Sequence[Sequence[Graph[str, str]]],
    seeds: Sequence[SeedPrompt],
    at: int,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    try:
        found = compare_survival(graphs[0], graphs[1], seeds, at=at, **options)
    except (UndefinedMetricError, InvalidInputError) as error:
        return {"turn": at, "status": "skipped", "reason": str(error)}
    return _told(at, "conversations", found)


def _shown(found: Mapping[str, Any]) -> tuple[list[Table], list[str]]:
    """Return the table of failures by turn, and its notes."""
    if found["status"] != "ok":
        return [], [f"failures by turn: {found['reason']}"]
    rows = [
        [
            one["turn"],
            *(Number(one.get(name)) for name in ("value_a", "value_b")),
            delta,
            ends or Status(one["status"]),
        ]
        for one in found["turns"]
        for delta, ends in [
            Estimate(one.get("delta"), one.get("ci_low"), one.get("ci_high"), "+").split()
        ]
    ]
    # A mean over branches is what a share of conversations is without branches.
    policy = "" if found["policy"] == "expectation" else f", policy {found['policy']}"
    title = (
        "failures by turn: share of conversations in which the target has failed by then, "
        f"{found['n_seeds']} common seeds{policy}"
    )
    table = Table(["by turn", "A", "B", "B - A", "interval"], rows, title)
    return [table], list(_reasons(found["turns"]))


def _reasons(turns: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield each distinct reason with the turns to which it applies."""
    by_reason: dict[str, list[str]] = {}
    for one in turns:
        if one["reason"]:
            by_reason.setdefault(one["reason"], []).append(str(one["turn"]))
    for reason, turns_of_it in by_reason.items():
        yield f"failures by turn {', '.join(turns_of_it)}: {reason}"
