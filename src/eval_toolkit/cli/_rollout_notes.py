"""Notes shown below the tables of a rollout run, with reasons for missing values."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from eval_toolkit._internal.display import Count
from eval_toolkit.cli._cells import reasons
from eval_toolkit.cli._suggestions import next_line
from eval_toolkit.rollouts.graphs import ENDED
from eval_toolkit.runs import Outcome

_SUCCESS = "attack_success"


def about_metrics(done: Outcome, shown: Mapping[str, str]) -> list[str]:
    """Explain why values or intervals are missing, and what was truncated or omitted."""
    why: dict[tuple[str, str], list[str]] = {}
    for name in shown:
        cell = done.card[name]
        if cell.value is None:
            kind = "" if done.results["config"]["scored_by"] is None else "no value for "
        elif cell.ci is None:
            kind = "no interval for "
        else:
            counts = cell.n_errors and done.results["config"]["on_error"] == "as_zero"
            kind = "about " if "censored" in cell.details or counts else ""
        if kind and cell.reason:
            why.setdefault((kind, cell.reason), []).append(name)
    notes = [f"{kind}{', '.join(names)}: {reason}" for (kind, reason), names in why.items()]
    more = [name for name in done.card if name not in shown and "_turn_" not in name]
    if more:
        notes.append(f"{len(more)} more metrics in --json: {', '.join(more[:3])}, …")
    return notes


def about_rollouts(done: Outcome, *, asks: bool) -> list[str]:
    """Describe rollouts without a value, and where the conversations are stored."""
    notes = [*done.notes, *_about_sameness(done), *_about_safe_seeds(done)]
    of = f"of {done.counts['n_rollouts']:,} rollouts"
    notes += _about_budgets(done)
    if done.n_errors:
        # Retrying does not help with stored replies that cannot be parsed.
        asked = asks and done.run is not None and done.n_failed_requests
        again = "; run the same command again to retry the failed requests" if asked else ""
        notes.append(
            f"{done.n_errors:,} {of} ended with an error before the target failed, so their "
            f"outcome is unknown{again}"
        )
        notes += reasons(done.records, (_SUCCESS,))
    if done.n_skipped and done.results["config"]["scored_by"] is not None:
        notes.append(
            f"{done.n_skipped:,} {of} were truncated or not scored, so their outcome is unknown"
        )
        notes += reasons(done.records, (_SUCCESS,), status="skipped")
    notes += _about_scorers(done)
    unseen = done.more["survival"].get("n_unobserved")
    if done.more["survival"]["status"] == "ok" and (done.n_errors or done.n_skipped):
        least = f"; {Count(unseen)} have no complete turn" if unseen else ""
        notes.append(
            f"the results by turn include these conversations up to their last turn{least}"
        )
    if done.run is not None:
        notes.append(f"run {done.run.path}")
        notes.append(next_line("transcripts", str(done.run.path), "--failed"))
    return notes


def _about_budgets(done: Outcome) -> list[str]:
    """Report conversations that were ended by a budget, even if the target failed earlier."""
    ended: dict[str, int] = {}
    for graph in done.attempts:
        told = {n.reason for n in graph.nodes() if n.status == "skipped" and "budget" in n.reason}
        for reason in sorted(told):
            ended[reason] = ended.get(reason, 0) + 1
    if sum(ended.values()) <= done.n_skipped:  # already covered by the note on unknown outcomes
        return []
    of = f"of {done.counts['n_rollouts']:,} rollouts"
    return [f"{reason}: {n:,} {of} were not completed" for reason, n in ended.items()]


def _about_scorers(done: Outcome) -> list[str]:
    """Explain missing values of rewards and of scorers that do not determine failure."""
    notes, decides = [], done.results["config"]["scored_by"]
    others = [name for name in done.results["config"]["scorers"] if name != decides]
    columns = {name: f"{name}_mean" for name in others} | {"reward": "reward"}
    known = done.records.reason[_SUCCESS]
    for name, column in columns.items():
        if column in done.records.status:
            own = (done.records.status[column] == "error") & (done.records.reason[column] != known)
            if own.any():
                common = reasons(done.records.take(own), (column,))
                notes.append(f"{name} failed in {int(own.sum()):,} rollouts: {common[0]}")
    return notes


def _about_sameness(done: Outcome) -> list[str]:
    """Report seeds with identical rollouts, which provide no additional information."""
    seen: dict[str, list[tuple[tuple[str, str], ...]]] = {}
    for graph in done.attempts:
        said = tuple((str(node.probe), str(node.response)) for node in graph.nodes())
        seen.setdefault(graph.unit_id, []).append(said)
    temperature = (done.results["config"]["system"].get("decoding") or {}).get("temperature")
    again = "at --temperature 0, the default, a model repeats its answers"
    if temperature:
        again = f"the target repeats its answers at --temperature {temperature:g}"
    notes = []
    if max(map(len, seen.values())) > 1 and all(len(set(one)) == 1 for one in seen.values()):
        notes.append(f"all rollouts of each seed are identical and count as one; {again}")
    branching = [
        here for graph in done.attempts for here in _siblings(graph.children) if len(here) > 1
    ]
    if branching and all(len(set(here)) == 1 for here in branching):
        notes.append(f"all branches of each turn are identical and add no information; {again}")
    return notes


def _siblings(nodes: Sequence[Any]) -> Iterator[list[tuple[str, str]]]:
    """Yield the replies of the branches at every turn."""
    yield [(str(node.probe), str(node.response)) for node in nodes if node.status != ENDED]
    for node in nodes:
        yield from _siblings(node.children)


def _about_safe_seeds(done: Outcome) -> list[str]:
    """Warn that answers to safe prompts also count as successful attacks."""
    config = done.results["config"]
    decides = config["scored_by"]
    if decides != "refusal" or config["scorers"][decides]["higher_is_worse"]:
        return []
    parts = done.records.slices.get("safe")
    safe = set() if parts is None else set(done.records.unit_id[parts == "safe"].tolist())
    if not safe:
        return []
    count_too = f"answers to {len(safe):,} safe seeds also count as attack_success"
    return [f"{count_too}, although answering is correct: see over_refusal and unsafe_refusal"]
