"""Page for a rollout run: how often, when and how the target failed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from eval_toolkit._internal.display import MISSING, Cell, Count, Estimate, Page, Rows, Status, Table
from eval_toolkit.cli._cells import estimate, failures_table, judged, took, with_interval
from eval_toolkit.cli._rollout_notes import about_metrics, about_rollouts
from eval_toolkit.errors import UndefinedMetricError
from eval_toolkit.rollouts import SeedPrompt, System, TreeSampler, survival
from eval_toolkit.rollouts.graphs import ENDED
from eval_toolkit.rollouts.scorers import unwrapped
from eval_toolkit.runs import Outcome
from eval_toolkit.scorecards import MetricResult

_SUCCESS = "attack_success"
_BY_CATEGORY = (_SUCCESS, "over_refusal", "unsafe_refusal", "refused_first")
"""Candidate metrics for the table of categories; the first two that are available are shown."""
_CATEGORIES_SHOWN = 40
_OF_SOME = ("over_refusal", "unsafe_refusal")
"""Metrics defined on a subset of the seeds."""
_NEITHER_GOOD_NOR_BAD = (
    "probe_flagged",
    "refused_first",
    "refusal_rate",
    "reward",
    "empty_replies",
)
"""Metrics without a good or bad direction."""
_FAILED = "the target failed in at least one turn"
_ON_SOME_BRANCH = "the target failed on at least one branch"
_MEANINGS = {
    _SUCCESS: _FAILED,
    "attack_success_any": _ON_SOME_BRANCH,
    "attack_success_own": "… other than by repeating the tester's words",
    "unprovoked_success": "… before any probe was flagged",
    "probe_flagged": "at least one probe was flagged",
    "over_refusal": "refuses a safe prompt in the first reply",
    "unsafe_refusal": "refuses an unsafe prompt in the first reply",
    "refused_first": "the first reply refuses",
    "refusal_rate": "replies that refuse",
    "reward": "mean over the turns",
    "empty_replies": "replies that are empty",
}
"""Metrics in display order, with short descriptions; scorer metrics come before refusals."""


def planned_page(
    system: System[Any, Any],
    sampler: TreeSampler[Any, Any],
    prompts: Sequence[SeedPrompt],
    rollouts_per_seed: int,
) -> Page:
    """Return the page of a dry run: the requests that the run would send."""
    rollouts = len(prompts) * rollouts_per_seed
    most = sampler.n_requests() * rollouts
    rows: Rows = [
        ["seeds", len(prompts)],
        ["rollouts", rollouts],
        ["requests, at most", most],
    ]
    payload = {"n_seeds": len(prompts), "n_rollouts": rollouts, "n_requests": most}
    lead = [f"{_who(system.describe())}: dry run, no request was sent"]
    judges = [one.name for one in map(unwrapped, system.scorers) if hasattr(one, "asker")]
    notes = [f"requests to the judge {name} are additional, one per answer" for name in judges]
    return Page("dry run", payload, lead, [Table(["what", "how many"], rows)], notes)


def rollout_page(done: Outcome) -> Page:
    """Return the page of a run."""
    shown = _shown(done)
    spent = [took(done), *map(judged, done.judges.items())]
    notes = [*about_metrics(done, shown), *spent, *about_rollouts(done, asks=True)]
    return Page("rollouts", done.to_dict(), _lead(done), _tables(done, shown), notes)


def rescored_page(done: Outcome) -> Page:
    """Return the page of rescored rollouts."""
    shown = _shown(done)
    spent = map(judged, done.judges.items())
    notes = [*about_metrics(done, shown), *spent, *about_rollouts(done, asks=False)]
    return Page("rescored rollouts", done.to_dict(), _lead(done), _tables(done, shown), notes)


def _tables(done: Outcome, shown: Mapping[str, str]) -> list[Table]:
    tables = [_overall(done, shown), *_by_turn(done), *_by_attack(done), *_by_category(done)]
    cells = {name: done.card[name] for name in shown if name not in _NEITHER_GOOD_NOR_BAD}
    failures = failures_table(cells, "rollouts that failed or were truncated", zero="as failed")
    return [*tables, failures] if failures.rows else tables


def _lead(done: Outcome) -> list[str]:
    config = done.results["config"]
    per_seed, depth = config["rollouts_per_seed"], config["depth"]
    counted = [_seeds(done)]
    counted += [f"{per_seed} rollouts each"] if per_seed > 1 else []
    counted.append(f"{depth} turns" if depth > 1 else "1 turn")
    if max(config["width"]) > 1:
        widths = sorted(set(config["width"]))
        counted.append(
            f"width {' '.join(map(str, widths if len(widths) == 1 else config['width']))}"
        )
        if config["keep"] is not None:
            worst = "the worst branch" if config["keep"] == 1 else f"the worst {config['keep']}"
            counted.append(f"continuing with {worst}")
    lines = [
        f"{_who(config['system'])}: {', '.join(counted)}",
        f"{_what_counts(config)}; {100 * config['confidence']:g} % intervals, seed {config['seed']}",
    ]
    if max(config["width"]) > 1:
        lines.append(_POLICIES[config["policy"]])
    return lines


_POLICIES = {
    "expectation": "a rollout counts as the mean of its conversations, weighted by their probability "
    "(--policy expectation)",
    "first": "a rollout counts as its conversation along the first branches (--policy first)",
    "best": "a rollout counts as its worst conversation for the target (--policy best)",
    "all leaves": "a rollout counts as the mean of its conversations (--policy 'all leaves')",
}


def _who(system: Mapping[str, Any]) -> str:
    """Describe the tester and the target of a rollout run."""
    tester = inner = system["tester"]
    models: list[str] = []
    while isinstance(inner, Mapping):
        model = inner.get("model")
        models += [str(model["name"])] if isinstance(model, Mapping) and "name" in model else []
        inner = inner.get("inner")
    several = tester.get("attacks")
    parts = [_named(one) for one in several if isinstance(one, Mapping)] if several else []
    name = " and ".join(parts) or _named(tester)
    by = f" by {models[0]}" if models else ""
    return f"tester {name}{by}, target {_named(system['target'])}"


def _named(speaker: Mapping[str, Any]) -> str:
    """Return a display name; functions are shown without their hash."""
    name = str(speaker.get("name"))
    return name.partition(":")[0] if speaker.get("kind") == "function" else name


def _seeds(done: Outcome) -> str:
    """Describe the seed prompts: their number, and what their file contains."""
    records = done.records
    n_units, n_groups = (len(set(one.tolist())) for one in (records.unit_id, records.group))
    told = "1 seed" if n_units == 1 else f"{n_units:,} seeds"
    told += f" on {n_groups:,} topics" if n_groups < n_units else ""
    return f"{told} in {len(done.card.slices)} categories" if done.card.slices else told


def _what_counts(config: Mapping[str, Any]) -> str:
    """Describe the condition under which the target fails."""
    name = config["scored_by"]
    if name is None:
        return "without a --scorer, failures of the target are not defined"
    scorer = config["scorers"][name]
    sign = "≥" if scorer["higher_is_worse"] else "≤"
    what = " (it does not refuse)" if name == "refusal" and sign == "≤" else ""
    return f"the target fails if {name} {sign} {scorer['threshold']:g}{what}"


def _shown(done: Outcome) -> dict[str, str]:
    """Return the metrics to display, with descriptions; the JSON output contains all metrics."""
    card, config = done.card, done.results["config"]
    trees, policy = max(config["width"]) > 1, config["policy"]
    found = dict(_MEANINGS)
    if trees and policy == "best":
        found[_SUCCESS] = _ON_SOME_BRANCH
    if not trees or policy == "best":
        del found["attack_success_any"]
    order = [name for name in found if name.startswith(_SUCCESS) and name != "attack_success_own"]
    asked = {f"asr@{k}": f"… in one of {k} rollouts" for k in config["asr_at"]}
    order += [*asked, "attack_success_own", "unprovoked_success", "probe_flagged"]
    of_scorers = dict(_of_scorers(config))
    order += [*of_scorers, *found]
    found |= asked | of_scorers
    return {
        name: found[name]
        for name in dict.fromkeys(order)
        if name in card and _says_something(name, card[name])
    }


def _of_scorers(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, scorer in config["scorers"].items():
        if name == config["scored_by"]:
            yield f"{name}_mean", "mean over the replies"
        yield (
            (f"{name}_max", "the worst reply: the highest")
            if scorer["higher_is_worse"]
            else (f"{name}_min", "the worst reply: the lowest")
        )


def _says_something(name: str, cell: MetricResult) -> bool:
    if name == _SUCCESS:
        return True
    if name == "empty_replies":
        return bool(cell.value)
    return bool(cell.n_units or cell.n_errors)


def _overall(done: Outcome, shown: Mapping[str, str]) -> Table:
    """Return a table with one row per metric, with counts if available."""
    cells = {name: done.card[name] for name in shown}
    counts = {
        "errors": [cell.n_errors for cell in cells.values()],
        "skipped": [0 if name in _OF_SOME else cell.n_skipped for name, cell in cells.items()],
    }
    counts = {name: column for name, column in counts.items() if any(column)}
    rows: Rows = [
        [
            name,
            value or Status(cell.status),
            interval,
            None if cell.value is None else cell.n_units,
            *(column[at] for column in counts.values()),
            shown[name],
        ]
        for at, (name, cell) in enumerate(cells.items())
        for value, interval in [estimate(cell).split()]
    ]
    return Table(["metric", "value", "interval", "seeds", *counts, "description"], rows)


def _by_turn(done: Outcome) -> list[Table]:
    """Return a table with survival (no failure so far) and scores by turn."""
    if done.more["survival"]["status"] != "ok":
        return []
    config = done.results["config"]
    scorer = config["scored_by"]
    columns = {f"mean {scorer}": f"{scorer}_turn_", "refused": "refused_turn_"}
    rows: Rows = []
    for turn, *held in _held(done):
        cells = {name: done.card.get(f"{column}{turn}") for name, column in columns.items()}
        rows.append([turn, *held, *(MISSING if c is None else _if_any(c) for c in cells.values())])
    header = ["turn", "at risk", "failed", "not failed", *columns]
    title = "turn by turn: conversations in which the target has not failed yet (Kaplan–Meier)"
    if config["on_error"] == "as_zero" and done.n_errors:
        title += "; conversations are censored after an error"
    return [Table(header, rows, title).without_empty(4)]


def _if_any(cell: MetricResult) -> Cell:
    """Return a value with its interval, or an empty string."""
    return MISSING if cell.status == "skipped" else with_interval(cell)


def _held(done: Outcome) -> Iterator[tuple[int, Cell, Cell, Cell]]:
    """Yield the number at risk, the number of failures and the survival for each turn."""
    config, records = done.results["config"], done.records
    topics = {
        unit: SeedPrompt("-", id=unit, topic=topic)
        for unit, topic in zip(records.unit_id.tolist(), records.group.tolist(), strict=True)
    }
    curve = survival(
        done.attempts,
        topics,
        scorer=config["scored_by"],
        policy=done.more["survival"]["policy"],
        depth=config["depth"],
        confidence=config["confidence"],
    )
    places = {int(time): at for at, time in enumerate(curve.times)}
    at_the_end = config["scorers"][config["scored_by"]]["mode"] == "final"
    for turn in range(1, max(config["depth"], *places) + 1):
        later = [place for time, place in places.items() if time >= turn]
        at_risk = float(curve.n_at_risk[later[0]]) if later else 0.0
        failed = float(curve.n_events[places[turn]]) if turn in places else 0.0
        try:
            gone = None if at_the_end and turn < config["depth"] else curve.failure_by(turn)
        except UndefinedMetricError:  # no conversation has that many turns
            gone = None
        if gone is None:
            yield turn, Count(at_risk), Count(failed), MISSING
            continue
        held = Estimate(1.0 - gone.point_estimate, 1.0 - gone.ci_high, 1.0 - gone.ci_low)
        yield turn, Count(at_risk), Count(failed), held


def _by_attack(done: Outcome) -> list[Table]:
    """Return a table of the success rate by attack, if there are several."""
    counts: dict[str, list[int]] = {}
    for graph in done.attempts:
        for node in graph.nodes():
            if node.status == ENDED:  # no message was sent
                continue
            count = counts.setdefault(node.attack, [0, 0, 0])
            count[0] += 1
            count[1] += node.event is not None
            count[2] += node.event is True
    if len(counts) < 2:
        return []
    rows: Rows = [[name, *map(Count, count)] for name, count in counts.items()]
    return [Table(["attack", "probes", "scored", "failed"], rows, "by attack, over all turns")]


def _by_category(done: Outcome) -> list[Table]:
    if not done.card.slices:
        return []
    metrics = [name for name in _BY_CATEGORY if name in done.card]
    metrics = [name for name in metrics if name != "refused_first" or len(metrics) == 2]
    rows: Rows = []
    for name, part in done.card.slices.items():
        shown = [_if_any(part[metric]) for metric in metrics]
        rows.append([name or "(none)", Count(_units_of(part)), *shown])
    left = len(rows) - _CATEGORIES_SHOWN
    title = "by category" + (f" ({left} more in --json)" if left > 0 else "")
    return [Table(["category", "seeds", *metrics], rows[:_CATEGORIES_SHOWN], title)]


def _units_of(part: Any) -> int:
    return max((cell.n_units or 0 for cell in part.values()), default=0)
