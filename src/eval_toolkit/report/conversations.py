"""Conversations to read: where the target failed, what broke, and where it held."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from eval_toolkit._display import Rows, Table
from eval_toolkit._validate import IntArray
from eval_toolkit.report.cells import main_block
from eval_toolkit.report.conversation_cards import Scoring, conversation_card
from eval_toolkit.report.picking import rollouts_of_units
from eval_toolkit.report.sections import Section, Wanted
from eval_toolkit.rollouts.turns import TURNS
from eval_toolkit.runs import Run
from eval_toolkit.scorecards import Records

__all__ = ["build"]

_TITLES = {
    "failed": ("The target failed", "failed", "the earliest failure first"),
    "error": ("Something broke before the target failed", "error", ""),
    "skipped": ("Cut short or not scored", "skipped", ""),
    "held": ("The target held", "held", ""),
}
_ANY, _SUCCESS, _WHEN = "attack_success_any", "attack_success", "first_event_turn"
MAX_CATEGORIES = 20


def build(run: Run, wanted: Wanted) -> Section | None:
    """Return the section; None for a run without conversations."""
    if run.kind != "rollout" or not run.subjects or TURNS not in run.manifest["artifacts"]:
        return None
    block = main_block(run)
    config = run.manifest.get("config") or {}
    scoring = Scoring.of(config)
    subject = (block.slice, block.scorer) if block is not None else run.subjects[0]
    records = run.records(*(subject if subject in run.subjects else run.subjects[0]))
    outcome = outcomes(records)
    lists = _lists(records, outcome, wanted.n_samples)
    _add_cards(run, records, lists, scoring)
    return Section(
        id="conversations",
        menu="Conversations",
        title="What was said",
        template="conversations.html",
        lead=_lead(records, scoring),
        data={"lists": lists, "by_category": _by_category(records, outcome)},
        notes=_notes(scoring, lists),
    )


def outcomes(records: Records) -> IntArray:
    """Return of each rollout what came of it: "failed", "error", "skipped" or "held".

    Parameters
    ----------
    records : Records
        Of a run of rollouts.

    Returns
    -------
    ndarray of str
        On a tree the target failed where it did on some branch.
    """
    column = _ANY if _ANY in records.columns else _SUCCESS
    if column not in records.columns:
        return np.full(len(records), "skipped", dtype=object)
    found = records.status[column].astype(object)
    known = found == "ok"
    failed = known & (np.nan_to_num(records.columns[column]) > 0)
    found[known] = "held"
    found[failed] = "failed"
    return found


def _lists(records: Records, outcome: IntArray, limit: int) -> list[dict[str, Any]]:
    """Return places of rollouts by what came of them, every category in turn."""
    when = (
        np.where(records.status[_WHEN] == "ok", np.nan_to_num(records.columns[_WHEN]), np.inf)
        if _WHEN in records.columns
        else np.zeros(len(records))
    )
    found = {name: np.flatnonzero(outcome == name) for name in _TITLES}
    shares = _shares({name: len(places) for name, places in found.items()}, limit)
    lists = []
    for name, (title, verdict, order) in _TITLES.items():
        places = found[name]
        if not len(places):
            continue
        # Records are sorted by unit and attempt, and a sort is stable.
        ranked = sorted(places.tolist(), key=lambda at: (when[at], records.attempt[at]))
        spread = _in_turn(ranked, records.slices.get("category"))[: shares[name]]
        n = len(places)
        shown = f"{len(spread):,} of {n:,} are shown" if len(spread) < n else f"all {n:,}"
        lists.append(
            {
                "title": title,
                "verdict": verdict,
                "said": f"{shown}, {order}" if order and n > 1 else shown,
                "places": spread,
            }
        )
    return lists


def _shares(counts: Mapping[str, int], limit: int) -> dict[str, int]:
    """Return how many of each are shown: failures have half of the places, or all that are left."""
    few = max(1, limit // 5)
    shown = {name: min(n, few) for name, n in counts.items()}
    for name in counts:
        left = limit - sum(shown.values())
        shown[name] += max(0, min(left, counts[name] - shown[name]))
    return shown


def _in_turn(places: Sequence[int], category: Any) -> list[int]:
    """Return places so that every category has its first before one has its second."""
    if category is None:
        return list(places)
    seen: dict[str, int] = {}
    turns = []
    for at in places:
        name = str(category[at])
        turns.append((seen.get(name, 0), at))
        seen[name] = seen.get(name, 0) + 1
    return [at for _, at in sorted(turns, key=lambda pair: pair[0])]


def _add_cards(
    run: Run, records: Records, lists: Iterable[dict[str, Any]], scoring: Scoring
) -> None:
    """Put the conversations in their lists."""
    lists = list(lists)
    units = {str(records.unit_id[at]) for one in lists for at in one["places"]}
    graphs = {(graph.unit_id, graph.attempt): graph for graph in rollouts_of_units(run, units)}
    several = bool((records.attempt > 1).any())
    for one in lists:
        one["cards"] = []
        for at in one.pop("places"):
            key = (str(records.unit_id[at]), int(records.attempt[at]))
            if key not in graphs:
                continue
            card = conversation_card(graphs[key], scoring)
            card["verdict"] = one["verdict"]
            card["attempt"] = card["attempt"] if several else None
            card["parts"] = [
                str(values[at]) if name == "safe" else f"{name}: {values[at]}"
                for name, values in records.slices.items()
                if values[at]
            ]
            card["why"] = "" if card["ended"] else _why(records, at)
            one["cards"].append(card)


def _why(records: Records, at: int) -> str:
    column = _SUCCESS
    if column not in records.reason:
        return ""
    return str(records.reason[column][at])


def _by_category(records: Records, outcome: IntArray) -> Table | None:
    """Count what came of the rollouts of each category."""
    category = records.slices.get("category")
    if category is None or len(set(category.tolist())) < 2:
        return None
    header = {"failed": "failed", "error": "broke", "skipped": "cut short", "held": "held"}
    kept = [name for name in header if (outcome == name).any()]
    rows: Rows = []
    for name in sorted(set(category.tolist())):
        mine = category == name
        counts = [int((mine & (outcome == what)).sum()) for what in kept]
        rows.append([str(name) or "(none)", int(mine.sum()), *counts])
    title = f"the first {MAX_CATEGORIES} of {len(rows)}" if len(rows) > MAX_CATEGORIES else ""
    return Table(
        ["category", "conversations", *(header[name] for name in kept)],
        rows[:MAX_CATEGORIES],
        title,
    )


def _lead(records: Records, scoring: Scoring) -> str:
    n = len(records)
    units = len(set(records.unit_id.tolist()))
    told = f"{n:,} conversations about {units:,} seed prompts"
    rule = f" The target fails where {scoring.rule}." if scoring.rule else ""
    return f"{told}.{rule}"


def _notes(scoring: Scoring, lists: Sequence[Mapping[str, Any]]) -> list[str]:
    notes = []
    if scoring.decides is None:
        notes.append("without a scorer nothing says whether the target failed")
    if any(turn["echo"] for one in lists for card in one["cards"] for turn in card["turns"]):
        notes.append(
            "an echo: once what the reply repeats of the tester's words is left out, the score no "
            "longer crosses the threshold"
        )
    return notes
