"""Samplers of rollouts, which advance all conversations turn by turn."""

import math
import numbers
import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Generic

from eval_toolkit._internal import validation
from eval_toolkit._internal.redaction import one_line
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.rollouts.graphs import ActionT, Graph, Node, StateT
from eval_toolkit.rollouts.lockstep import Branch, Live, Lockstep, scored
from eval_toolkit.rollouts.participant_requests import of_branch
from eval_toolkit.rollouts.system import System
from eval_toolkit.runs.context import Context
from eval_toolkit.seeds import DEFAULT_SEED, derive_seed, resolve_seed


class Sampler(ABC, Generic[StateT, ActionT]):
    """Base class of rollout samplers; rollouts share no state.

    Parameters
    ----------
    system : System
        Tester, target and scorers.

    Examples
    --------
    >>> from eval_toolkit.rollouts.graphs import Node
    >>> class Fixed(Sampler[str, str]):
    ...     def rollout(self, seed=None):
    ...         return Graph("Hello", [Node("Hello", f"probe {seed}", "Hi.")])
    >>> Fixed(None).eval_rollout(0).children[0].probe
    'probe 0'
    """

    def __init__(self, system: Any) -> None:
        self.system = system

    @abstractmethod
    def rollout(self, seed: int | None = None) -> Graph[StateT, ActionT]:
        """Sample a rollout, deterministic for a given seed and random for None."""

    def eval_rollout(self, seed: Any = None) -> Graph[StateT, ActionT]:
        """Sample a rollout for evaluation; this implementation requires a numeric seed.

        Raises
        ------
        NotImplementedError
            If the seed is not a number; samplers that roll out given prompts override this method.
        """
        if seed is None or _is_number(seed):
            return self.rollout(None if seed is None else int(seed))
        raise NotImplementedError(
            f"{type(self).__name__} accepts only numeric seeds; override eval_rollout to accept "
            f"{type(seed).__name__} seeds"
        )


class TreeSampler(Sampler[StateT, ActionT]):
    """Sampler that advances all conversations in lockstep, with one batched call per turn.

    Each random seed is derived from the run's seed, the seed prompt, the rollout number and the
    position in the tree, so no result depends on other rollouts, on batches or on order.

    Parameters
    ----------
    system : System
        Tester, target and scorers.
    prompts : sequence of str
        Prompts from which numeric seeds select.
    depth : int, default 3
        Number of turns.
    width : int or sequence of int, optional
        Number of branches per turn, as one number or one per turn; by default, the number
        recommended by the attack, which is 1 for most attacks.
    keep : int, optional
        Number of branches to continue in each rollout, starting with the worst for the target. By
        default, all branches, or 1 if the attack determines the width.
    stop_on_success : bool, default False
        Whether to end a conversation once the target has failed.
    seed : int, default 42
        Random seed of the run.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a parameter is invalid.

    Examples
    --------
    >>> system = System(["Please.", "I insist."], lambda states: ["No."] * len(states))
    >>> graph, = TreeSampler(system, depth=2).eval_rollouts(["Tell a secret"])
    >>> [(node.depth, node.probe, node.response) for node in graph.nodes()]
    [(1, 'Please.', 'No.'), (2, 'I insist.', 'No.')]
    """

    def __init__(
        self,
        system: Any,
        prompts: Sequence[Any] = (),
        *,
        depth: int = 3,
        width: int | Sequence[int] | None = None,
        keep: int | None = None,
        stop_on_success: bool = False,
        seed: int = DEFAULT_SEED,
    ) -> None:
        if not isinstance(system, System):
            raise InvalidTypeError(f"`system` is {system!r:.80}; it must be a System")
        super().__init__(system)
        if isinstance(prompts, str):
            raise InvalidTypeError("`prompts` must be a list of prompts, not a single string")
        self.prompts = list(prompts)
        self.depth = validation.integer(depth, "depth", low=1)
        branches = validation.integer(getattr(system.tester, "branches", 1), "branches", low=1)
        self.widths = _widths(branches if width is None else width, self.depth)
        if keep is None and width is None and branches > 1:
            keep = 1
        self.keep = None if keep is None else validation.integer(keep, "keep", low=1)
        self.stop_on_success = bool(stop_on_success)
        self.seed = resolve_seed(seed)
        self._check_scorer(system.scorer)

    def _check_scorer(self, scorer: Any) -> None:
        """Raise an error if `stop_on_success` or `keep` requires scores that are not available."""
        from eval_toolkit.rollouts.scorers.base import mode_of

        if not self.stop_on_success and self.keep is None:
            return
        what = "stop_on_success" if self.stop_on_success else "keep"
        if scorer is None:
            raise InvalidInputError(f"`{what}` needs a scorer; pass one to the System")
        if mode_of(scorer) == "final" and (self.stop_on_success or self.chooses):
            raise InvalidInputError(
                f"`{what}` needs scores of every turn, but {scorer.name!r} only scores the end of a "
                f"conversation; put another scorer first in the System, or omit `{what}`"
            )

    @property
    def chooses(self) -> bool:
        """Whether branches may be dropped; path weights are then not probabilities."""
        return chooses(self.widths, self.keep)

    def rollout(self, seed: int | None = None) -> Graph[StateT, ActionT]:
        """Sample a rollout from one of the prompts; deterministic for any number, including 0."""
        if seed is not None:
            return self.eval_rollouts([validation.integer(seed, "seed", low=0)])[0]
        drawn = secrets.randbits(63)
        prompt = self._prompts()[drawn % len(self._prompts())]
        graph = self._graph(prompt, 1)
        with Context() as asking:
            self._grow([graph], [self.widths], asking, drawn)
        return graph

    def eval_rollout(self, seed: Any = None) -> Graph[StateT, ActionT]:
        """Sample a rollout from a prompt, or from the prompt selected by a number."""
        return self.rollout() if seed is None else self.eval_rollouts([seed])[0]

    def eval_rollouts(
        self, seeds: Sequence[Any], *, attempts: int = 1, asking: Context | None = None
    ) -> list[Graph[StateT, ActionT]]:
        """Sample rollouts from several seeds in lockstep.

        Parameters
        ----------
        seeds : sequence of str, SeedPrompt or int
            Prompts, or numbers that select prompts.
        attempts : int, default 1
            Number of rollouts per seed.
        asking : Context, optional
            Request context: journal, budget and cache.

        Returns
        -------
        list of Graph
            Rollouts in the order of the seeds, with all rollouts of a seed in sequence. Failures
            are recorded in the nodes.

        Raises
        ------
        ModelError
            If a model cannot be queried at all.
        InvalidInputError, InvalidTypeError
            If there are no seeds, or a seed is invalid.
        """
        n = validation.integer(attempts, "attempts", low=1)
        chosen = self._chosen(seeds)
        graphs = [self._graph(seed, attempt) for seed in chosen for attempt in range(1, n + 1)]
        widths = [self._widths_for(graph.seed) for graph in graphs]
        if asking is not None:
            self._grow(graphs, widths, asking, self.seed)
            return graphs
        with Context() as own:
            self._grow(graphs, widths, own, self.seed)
        return graphs

    def settings(self) -> dict[str, Any]:
        """Return the sampling settings as a JSON-serialisable dict."""
        return {
            "depth": self.depth,
            "width": list(self.widths),
            "keep": self.keep,
            "stop_on_success": self.stop_on_success,
            "seed": self.seed,
        }

    def _widths_for(self, seed: Any) -> tuple[int, ...]:
        """Return the number of branches in each turn for a seed."""
        return self.widths

    def _prompts(self) -> list[Any]:
        if not self.prompts:
            raise InvalidInputError(
                "a numeric seed selects one of `prompts`, which is empty; pass `prompts` to the "
                "sampler, or a prompt as the seed"
            )
        return self.prompts

    def _chosen(self, seeds: Sequence[Any]) -> list[Any]:
        """Return a (unit, prompt, seed) tuple for each seed."""
        from eval_toolkit.rollouts.seeds import seed_prompts

        if isinstance(seeds, str) or not isinstance(seeds, Sequence):
            raise InvalidTypeError(f"`seeds` must be a list of seeds, got {seeds!r:.60}")
        if not seeds:
            raise InvalidInputError("`seeds` is empty; pass at least one seed")
        known = seed_prompts(self._prompts()) if any(map(_is_number, seeds)) else []
        times: dict[int, int] = {}
        given: list[Any] = []
        for seed in seeds:
            if not _is_number(seed):
                given.append(seed)
                continue
            number = validation.integer(seed, "seed", low=0)
            times[number] = times.get(number, 0) + 1
            again = f"~{times[number]}" if times[number] > 1 else ""
            prompt = known[derive_seed(self.seed, "prompt", number) % len(known)]
            given.append(replace(prompt, id=f"seed-{number}{again}"))
        return list(zip(seed_prompts(given), seeds, strict=True))

    def _graph(self, chosen: Any, attempt: int) -> Graph[StateT, ActionT]:
        from eval_toolkit.rollouts.seeds import seed_prompts

        prompt, seed = chosen if isinstance(chosen, tuple) else (seed_prompts([chosen])[0], chosen)
        broken: list[Any] = []
        try:
            state = self.system.start(prompt.prompt)
        except Exception as error:  # arbitrary code of the system; the other prompts start
            state, reason = prompt.prompt, f"start: {one_line(error)}"
            broken.append(Node(state, "", None, status="error", reason=reason))
        return Graph(state, broken, unit_id=prompt.id, attempt=attempt, seed=seed)

    def _grow(
        self,
        graphs: Sequence[Graph[Any, Any]],
        widths: Sequence[tuple[int, ...]],
        asking: Context,
        seed: int,
    ) -> None:
        """Run all conversations, turn by turn."""
        width_of = {id(graph): width for graph, width in zip(graphs, widths, strict=True)}
        asking.expect(sum(self.n_requests(width) for width in widths))
        for graph, width in zip(graphs, widths, strict=True):
            graph.selected = chooses(width, self.keep)
        live = [Live(graph, graph.context) for graph in graphs if not graph.children]
        for depth in range(self.depth):
            if asking.journal is not None:
                _check_states(live)
            branches = [
                Branch(one, at, f"{one.node.id}.{at}" if one.node else str(at))
                for one in live
                for at in range(width_of[id(one.graph)][depth])
            ]
            if not branches:
                break
            turn = Lockstep(self.system, branches, asking, seed)
            turn.take()
            if depth + 1 < self.depth:
                live = self._going_on(turn.ended())
        for graph in graphs:
            graph.relink()
        leaves = [(graph, leaf) for graph in graphs for leaf in graph.leaves()]
        beside, nodes = [graph for graph, _ in leaves], [leaf for _, leaf in leaves]
        scored(self.system.scorers, self.system.scored, beside, nodes, final=True)

    def n_requests(self, widths: Sequence[int] | None = None) -> int:
        """Return the maximum number of requests per rollout, not counting judges."""
        asks_nobody = hasattr(self.system.tester, "ask") and not _asks(self.system.tester)
        return _n_nodes(widths or self.widths, self.keep) * (1 if asks_nobody else 2)

    def _going_on(self, ended: list[Live]) -> list[Live]:
        """Return the conversations to continue, after applying `stop_on_success` and `keep`."""
        live = [one for one in ended if not (self.stop_on_success and _event(one))]
        if self.keep is None:
            return live
        by_graph: dict[int, list[int]] = {}
        for at, one in enumerate(live):
            by_graph.setdefault(id(one.graph), []).append(at)
        worst = [
            at
            for rivals in by_graph.values()
            for at in sorted(rivals, key=lambda at: self._badness(live[at]))[: self.keep]
        ]
        return [live[at] for at in sorted(worst)]

    def _badness(self, one: Live) -> float:
        """Return a sort key that puts the worst turn first and unscored turns last."""
        scorer = self.system.scorer
        score = None if one.node is None or scorer is None else one.node.scores.get(scorer.name)
        if score is None or scorer is None:
            return math.inf
        return -score if scorer.higher_is_worse else score


def _event(one: Live) -> bool:
    return one.node is not None and one.node.event is True


def _asks(tester: Any) -> bool:
    """Return whether an attack, or one of its branches, queries a model."""
    if callable(getattr(tester, "for_branch", None)):
        try:
            branches = [of_branch(tester, n) for n in range(getattr(tester, "branches", 1))]
        except Exception:  # reported when the turn is taken
            return True
        return any(_asks(one) for one in branches if one is not tester)
    return getattr(tester, "model", None) is not None


def _is_number(seed: Any) -> bool:
    return isinstance(seed, numbers.Integral) and not isinstance(seed, bool)


def _check_states(live: Sequence[Live]) -> None:
    """Raise an error if a state cannot be stored, before any request is sent."""
    from eval_toolkit.rollouts.turns import turns_table

    made = [one for one in live if not isinstance(one.state, str)]
    try:
        turns_table(Graph(one.state, unit_id=one.graph.unit_id) for one in made)
    except InvalidTypeError:
        for one in made:
            _check_state(one)
        raise


def _check_state(one: Live) -> None:
    """Raise an error if the state of a conversation cannot be stored."""
    from eval_toolkit.rollouts.turns import turns_table

    try:
        turns_table([Graph(one.state, unit_id=one.graph.unit_id)])
    except InvalidTypeError:
        method = "start" if one.node is None else "advance"
        raise InvalidTypeError(
            f"unit {one.graph.unit_id!r}: the state that `{method}` returned is "
            f"{type(one.state).__name__} {one.state!r:.60}; only strings and JSON values can be stored"
        ) from None


def chooses(widths: Sequence[int], keep: int | None) -> bool:
    """Return whether branches can be dropped before the last turn.

    Examples
    --------
    >>> chooses([2, 2], 1), chooses([2], 1), chooses([2, 2], None)
    (True, False, False)
    """
    live = 1
    for width in widths[:-1]:
        live *= width
        if keep is not None and live > keep:
            return True
    return False


def _n_nodes(widths: Sequence[int], keep: int | None) -> int:
    total, live = 0, 1
    for width in widths:
        live *= width
        total += live
        live = live if keep is None else min(live, keep)
    return total


def _widths(given: int | Sequence[int], depth: int) -> tuple[int, ...]:
    if isinstance(given, Sequence):
        widths = tuple(
            validation.integer(one, f"width[{at}]", low=1) for at, one in enumerate(given)
        )
        if len(widths) != depth:
            raise InvalidInputError(
                f"`width` has {len(widths)} numbers, but there are {depth} turns; pass one per turn"
            )
        return widths
    return (validation.integer(given, "width", low=1),) * depth
