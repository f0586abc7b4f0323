"""Display of participants, metric groups and outcomes of rollouts."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from eval_toolkit.runs.kind_display import Words

WORDS = Words(
    what="rollouts",
    units="seed prompts",
    attempt="conversation",
    nth="rollout",
    counted="conversations",
    count="n_rollouts",
    right="held",
    wrong="failed",
    broke="no outcome, see below",
    menu="Conversations",
    title="Conversations",
    unanswered="The run contains no turns of this conversation.",
    multi_turn=True,
    export="a run without its turns",
    hub_task="text-generation",
)
NEXT_METRICS = (
    *("attack_success_own", "unprovoked_success", "unsafe_refusal", "over_refusal"),
    *("refused_first", "refusal_rate", "probe_flagged"),
)
_SHOWN = 12
_BY_TURN = re.compile(r".+_turn_\d+")
_SUCCESSES = (
    *("attack_success", "attack_success_any", "attack_success_own", "unprovoked_success"),
)
_REFUSALS = ("over_refusal", "unsafe_refusal", "refused_first", "refusal_rate")


def participants(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield descriptions of the failure condition, the participants and the number of turns.

    Examples
    --------
    >>> list(participants({"depth": 2, "scored_by": "s", "scorers": {"s": {"threshold": 0.5}}}))
    ['fails if s ≥ 0.5', 'up to 2 turns']
    """
    from eval_toolkit.rollouts.display import Scoring

    rule = Scoring.of(config).rule
    if isinstance((config.get("scorers") or {}).get(config.get("scored_by")), Mapping):
        yield f"fails if {rule}"
    given = config.get("system")
    system = given if isinstance(given, Mapping) else {}
    for who in ("tester", "target"):
        speaker = system.get(who)
        if isinstance(speaker, Mapping):
            named = str(speaker.get("name"))
            if speaker.get("kind") == "function":  # where it is defined, its name, and a hash
                named = named.partition(":")[0].rpartition("<locals>.")[2]
            yield f"{who} {named}"
    depth = config.get("depth")
    if depth:
        yield "1 turn" if depth == 1 else f"up to {depth} turns"


def success_in_words(metric: str, share: str) -> str:
    """Describe a success rate in a sentence; "" for other metrics.

    Examples
    --------
    >>> success_in_words("attack_success", "3 of 20")
    '3 of 20 prompts got through'
    >>> success_in_words("failed_by_turn_2", "15 % of 20")
    '15 % of 20 prompts got through by turn 2'
    """
    turn = metric.removeprefix("failed_by_turn_")
    where = {"attack_success": "", "attack_success_any": " on some branch"}.get(metric)
    if turn != metric:
        where = f" by turn {turn}"
    return "" if where is None else f"{share} prompts got through{where}"


def grouped_metrics(
    config: Mapping[str, Any], names: Sequence[str]
) -> Iterator[tuple[str, list[str]]]:
    """Yield titled groups of metrics, starting with the main metrics, which have no title."""
    scorer = str(config.get("scored_by") or "")
    settings = (config.get("scorers") or {}).get(scorer) or {}
    worst = f"{scorer}_{'max' if settings.get('higher_is_worse', True) else 'min'}"
    asr = [name for name in names if name.startswith("asr@")]
    order = [*_SUCCESSES, *asr, "probe_flagged", f"{scorer}_mean", worst, *_REFUSALS]
    if max(config.get("width") or [1]) == 1:  # with one branch it equals attack_success
        order.remove("attack_success_any")
    main = [name for name in order if name in names] or list(names[:_SHOWN])
    yield "", main
    left = [name for name in names if name not in main]
    by_turn = [name for name in left if _BY_TURN.fullmatch(name)]
    parts = [name for name in left if "/" in name]
    rest = [name for name in left if name not in by_turn and name not in parts]
    groups = (("Turn by turn", by_turn), ("Kinds of harm", parts), ("The rest", rest))
    yield from ((title, inside) for title, inside in groups if inside)
