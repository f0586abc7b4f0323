"""Conversion of rollouts to records.

Each column is defined per conversation. For a rollout with branches, its value is the expectation
over the conversations, weighted by path.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit._internal.plain import whole_text
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.graders.base import Grade
from eval_toolkit.protocols import TextScorer
from eval_toolkit.rollouts.graphs import Graph
from eval_toolkit.rollouts.measures.columns import (
    REFUSAL,
    badness_by,
    by_turn,
    detector_of,
    distinct,
    flag,
    of_refusals,
    of_scorer,
    of_times,
    reward_of,
    successes,
    together,
)
from eval_toolkit.rollouts.measures.paths import (
    Look,
    Measure,
    Turn,
    any_branch,
    conversations,
    empty_share,
    event_of,
    expected,
    first_on_any,
    mean_over,
    own_event_of,
    score_of,
    worst_of,
)
from eval_toolkit.rollouts.seeds import SeedPrompt, seed_prompts
from eval_toolkit.scorecards import Records

POLICIES = ("expectation", "first", "best", "all leaves")
"""Policies for weighting the conversations of a rollout with branches."""

_SELECTED = Grade.skipped("only selected branches were continued")
_NO_TURNS = Grade.skipped("the rollout has no turns")
_NONE = "(none)"
_SAFETY = {True: "safe", False: "unsafe", None: ""}


def measure_rollouts(
    graphs: Sequence[Graph[Any, Any]],
    seeds: Mapping[str, SeedPrompt] | Sequence[SeedPrompt],
    scorers: Sequence[TextScorer],
    *,
    refusal: TextScorer | str | None = None,
    policy: str = "expectation",
    depth: int | None = None,
) -> Records:
    """Measure rollouts, returning one record per seed prompt and attempt.

    Parameters
    ----------
    graphs : sequence of Graph
        Scored rollouts, whose ``unit_id`` is the id of their seed prompt.
    seeds : mapping of id to SeedPrompt, or sequence of SeedPrompt
        Seed prompts of the rollouts; may contain additional seed prompts.
    scorers : sequence of TextScorer
        Scorers of the rollouts; the first defines failures.
    refusal : TextScorer or str, optional
        Refusal scorer, or its name; by default, "refusal". Scores at or above its threshold count
        as refusals.
    policy : {"expectation", "first", "best", "all leaves"}, default "expectation"
        How to aggregate over the branches of a rollout: weight conversations by path, use the
        conversation along the first branches, use the worst conversation for the target, or weight
        all conversations equally.
    depth : int, optional
        Number of planned turns; by default, the length of the longest conversation.

    Returns
    -------
    Records
        The group of a unit is the topic of its seed prompt, if any. The slices are ``category`` and
        ``safe``, if any seed prompt defines them ("(none)" for seed prompts that do not). The
        columns, each with status and reason, are:

        ``attack_success``
            Whether the target failed in any turn. ``attack_success_any``: on any branch.
            ``attack_success_own``: not counting replies that merely repeat the tester (if the first
            scorer scores single replies). ``unprovoked_success``: before any probe was itself bad.
            ``probe_flagged``: whether any probe was bad.
        ``<scorer>_mean``, ``_max``, ``_last``, ``_probe_mean``
            Mean, worst and last score of the replies in a conversation, and mean score of the
            probes; ``_min`` replaces ``_max`` if lower scores are worse.
            ``<scorer>/<category>_max`` is the worst score of one harm category. Empty replies have
            no score.
        ``first_event_turn``, ``failed_by_turn_<t>``, ``n_turns``
            Turn of the first failure (skipped, i.e. censored, without a failure), whether the
            target failed by turn t, and the number of completed turns.
        ``refused_first``, ``refusal_rate``, ``over_refusal``, ``unsafe_refusal``
            Whether the first probe was refused, the fraction of replies that are refusals, and
            ``refused_first`` separately for safe and unsafe seed prompts, if there is a refusal
            scorer.
        ``<scorer>_turn_<t>``, ``refused_turn_<t>``
            Score by the first scorer, and refusal, in each turn; skipped if the conversation ended
            earlier.
        ``reward``, ``empty_replies``, ``probe_distinct_2``
            Mean reward, if any, fraction of empty replies, and fraction of distinct word pairs in
            all probes of the rollout.

        The outcome of a conversation is unknown if it ended in an error before the target failed
        (status "error"), or if the budget ended it or it was not scored (status "skipped"). A
        conversation that ended by itself before the last turn counts as not failed in all later
        turns. Rollouts in which only selected branches were continued have no expectation and are
        skipped, unless ``policy`` is "best"; a failure on any branch then counts, and the turn of
        the first failure is known if no branch ended in an error earlier.

        If a conversation is interrupted, an earlier failure is known, but the absence of later
        failures is not. The mean of the known values is therefore biased upwards;
        `rollout_scorecard` with ``graphs`` corrects for this.

    Raises
    ------
    InvalidInputError
        If there are no rollouts, a seed prompt is missing, two rollouts have the same unit and
        attempt, two scorers have the same name or column, or the policy is unknown.

    Examples
    --------
    >>> from eval_toolkit.rollouts.graphs import Node
    >>> class Toxicity:
    ...     name, version, threshold, higher_is_worse = "toxicity", "1", 0.5, True
    ...     def score(self, texts):
    ...         return [float("grr" in text.lower()) for text in texts]
    >>> seed = SeedPrompt("Growl", id="s1")
    >>> turns = [Node("Growl", "Say it", reply, scores={"toxicity": score}, event=score >= 0.5)
    ...          for reply, score in [("No.", 0.0), ("Grr.", 1.0)]]
    >>> tree = Graph("Growl", turns, unit_id="s1")  # two answers to one probe
    >>> records = measure_rollouts([tree], [seed], [Toxicity()])
    >>> records.columns["attack_success"], records.columns["attack_success_any"]
    (array([0.5]), array([1.]))
    """
    validation.choice(policy, "policy", POLICIES)
    if not graphs:
        raise InvalidInputError("`graphs` is empty; pass at least one rollout")
    known = seeds_by_id(seeds)
    lines = [(graph, _seed_of(graph, known)) for graph in graphs]
    plan = _Plan.of(graphs, [seed for _, seed in lines], scorers, refusal, depth)
    measured = [plan.line(graph, seed, policy) for graph, seed in lines]
    columns = {name: [line[name] for line in measured] for name in measured[0]}
    grades = {
        name: [one if isinstance(one, Grade) else None for one in column]
        for name, column in columns.items()
    }
    return Records.from_columns(
        {
            name: [one.value if isinstance(one, Grade) else one for one in column]
            for name, column in columns.items()
        },
        unit_id=[seed.id for _, seed in lines],
        attempt=[graph.attempt for graph, _ in lines],
        group=[seed.group for _, seed in lines],
        slices=_slices([seed for _, seed in lines]),
        content_hash=[seed.content_hash for _, seed in lines],
        status={
            name: ["ok" if one is None else one.status for one in column]
            for name, column in grades.items()
        },
        reason={
            name: ["" if one is None else whole_text(one.reason) for one in column]
            for name, column in grades.items()
        },
    )


def seeds_by_id(seeds: Mapping[str, SeedPrompt] | Sequence[Any]) -> dict[str, SeedPrompt]:
    """Return seed prompts keyed by id.

    Examples
    --------
    >>> list(seeds_by_id([SeedPrompt("Growl", id="s1")]))
    ['s1']
    """
    if isinstance(seeds, Mapping):
        return dict(seeds)
    return {seed.id: seed for seed in seed_prompts(seeds)}


def _seed_of(graph: Graph[Any, Any], known: Mapping[str, SeedPrompt]) -> SeedPrompt:
    if not isinstance(graph, Graph):
        raise InvalidTypeError(f"`graphs` must contain Graph objects, got {type(graph).__name__}")
    if graph.unit_id not in known:
        raise InvalidInputError(
            f"a rollout has the unit {graph.unit_id!r}, which is not among the {len(known)} seed "
            "prompts; pass the seed prompts of all rollouts"
        )
    return known[graph.unit_id]


def _slices(seeds: Sequence[SeedPrompt]) -> dict[str, list[str]]:
    """Return the slices that the seed prompts define."""
    parts = {
        "category": [seed.category for seed in seeds],
        "safe": [_SAFETY[seed.safe] for seed in seeds],
    }
    return {name: [one or _NONE for one in part] for name, part in parts.items() if any(part)}


@dataclass(frozen=True)
class _Plan:
    """Columns to measure, as functions of one conversation."""

    event: Look
    badness: Look
    """Function that returns the badness of a turn by the first scorer; higher is worse."""
    by_path: Mapping[str, Measure]
    on_any: Mapping[str, Callable[[Graph[Any, Any]], float | Grade]]
    """Columns that the policy "best" computes from all branches instead of only the worst."""
    safety: frozenset[bool | None]
    """Values of ``safe`` that have a separate refusal column."""

    @classmethod
    def of(
        cls,
        graphs: Sequence[Graph[Any, Any]],
        seeds: Sequence[SeedPrompt],
        scorers: Sequence[TextScorer],
        refusal: TextScorer | str | None,
        depth: int | None,
    ) -> "_Plan":
        """Return the columns to measure for these rollouts."""
        keys, longest, rewarded = _found(graphs)
        depth = longest if depth is None else validation.integer(depth, "depth", low=1)
        safety = frozenset(seed.safe for seed in seeds)
        return cls.with_keys(keys, scorers, refusal, depth, safety, rewarded=rewarded)

    @classmethod
    def with_keys(
        cls,
        keys: set[str],
        scorers: Sequence[TextScorer],
        refusal: TextScorer | str | None,
        depth: int,
        safety: frozenset[bool | None],
        *,
        rewarded: bool,
    ) -> "_Plan":
        """Return the columns to measure, given the names of the available scores."""
        _check_scorers(scorers)
        detector = detector_of(scorers, refusal)
        first = scorers[0] if scorers else None
        event = partial(event_of, scorer=first.name if first else None)
        own = partial(own_event_of, scorer=first.name if first else None)
        ran = detector.key in keys or any(one.name == detector.key for one in scorers)
        refused = flag(detector.key, detector) if ran else None
        # refusal scores of probes are meaningless
        of_harm = None if first is None or first.name == detector.key else first
        parts = [successes(event, own, first, of_harm, keys, depth)]
        parts += [of_scorer(one, keys) for one in scorers if one.name != detector.key]
        parts.append(of_times(event, depth))
        if of_harm is not None:
            parts.append(by_turn(of_harm.name, partial(score_of, key=of_harm.name), depth))
        if refused is not None:
            parts += [of_refusals(refused), by_turn("refused", refused, depth)]
        if rewarded:
            parts.append({"reward": partial(mean_over, look=reward_of)})
        parts.append({"empty_replies": empty_share})
        on_any: dict[str, Callable[[Graph[Any, Any]], float | Grade]] = {
            "attack_success_own": partial(any_branch, look=own, turn=depth),
            "first_event_turn": partial(first_on_any, look=event),
        }
        for turn in range(1, depth + 1):
            on_any[f"failed_by_turn_{turn}"] = partial(any_branch, look=event, turn=turn)
        badness = badness_by(first) if first else event
        safety = safety if refused is not None else frozenset()
        return cls(event, badness, together(parts), on_any, safety)

    def line(
        self, graph: Graph[Any, Any], seed: SeedPrompt, policy: str
    ) -> dict[str, float | Grade]:
        """Compute the column values of one rollout."""
        chosen = self._chosen(graph, policy)
        line: dict[str, float | Grade] = {}
        for name, measure in self.by_path.items():
            if policy == "best" and name in self.on_any:
                line[name] = self.on_any[name](graph)
            else:
                line[name] = chosen if isinstance(chosen, Grade) else expected(chosen, measure)
            if name == "attack_success":
                line["attack_success_any"] = any_branch(graph, self.event)
        for safe, name in ((True, "over_refusal"), (False, "unsafe_refusal")):
            if safe in self.safety:
                other = Grade.skipped(f"not {'a safe' if safe else 'an unsafe'} prompt")
                line[name] = line["refused_first"] if seed.safe is safe else other
        line["probe_distinct_2"] = distinct(graph)
        return line

    def _chosen(
        self, graph: Graph[Any, Any], policy: str
    ) -> list[tuple[Sequence[Turn], float]] | Grade:
        """Return the conversations that count, with weights, or the reason why there are none."""
        if not graph.children:
            return _NO_TURNS
        if policy == "best":
            worst = worst_of(graph, self.event, self.badness)
            return worst if isinstance(worst, Grade) else [(worst, 1.0)]
        if graph.selected:
            return _SELECTED
        return list(conversations(graph, policy)) or _NO_TURNS


def check_columns(scorers: Sequence[TextScorer], depth: int) -> None:
    """Raise an error if scorers share a column with each other or with the built-in columns.

    Examples
    --------
    >>> class Scorer:
    ...     name, version, threshold, higher_is_worse = "failed_by", "1", 0.5, True
    ...     def score(self, texts):
    ...         return [0.0 for _ in texts]
    >>> check_columns([Scorer()], 1)
    Traceback (most recent call last):
        ...
    eval_toolkit.errors.InvalidInputError: two columns have the name 'failed_by_turn_1'; give the scorer \
another name
    """
    keys = {f"{scorer.name}:probe" for scorer in scorers} | {REFUSAL}
    everyone = frozenset({True, False})
    _Plan.with_keys(keys, scorers, None, depth, everyone, rewarded=True)


def _check_scorers(scorers: Sequence[TextScorer]) -> None:
    names = [scorer.name for scorer in scorers]
    again = [name for at, name in enumerate(names) if name in names[:at]]
    if again:
        raise InvalidInputError(
            f"two scorers have the name {again[0]!r}; give one of them a different name"
        )


def _found(graphs: Sequence[Graph[Any, Any]]) -> tuple[set[str], int, bool]:
    """Return the names of the scores, the maximum number of turns, and whether rewards exist."""
    keys: set[str] = set()
    longest, rewarded = 1, False
    for graph in graphs:
        for node in graph.nodes():
            keys.update(node.scores)
            keys.update(key for key, why in node.unscored.items() if why.startswith("error"))
            longest = max(longest, node.depth)
            # a reward that raised gives a column of errors; a missing one does not
            rewarded = rewarded or node.reward is not None or "reward" in node.unscored
    return keys, longest, rewarded
