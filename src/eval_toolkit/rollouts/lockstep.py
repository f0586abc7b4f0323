"""One turn of all conversations in lockstep: probe, respond, reward and score."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from eval_toolkit._internal.redaction import one_line, redact_secrets
from eval_toolkit.errors import ArtifactError, InvalidInputError, MissingExtraError
from eval_toolkit.models.responses.reasoning import CUT_OFF
from eval_toolkit.models.runner import JobResult
from eval_toolkit.protocols import TextScorer
from eval_toolkit.rollouts.attacks.base import StopAttack
from eval_toolkit.rollouts.conversations import Conversation
from eval_toolkit.rollouts.graphs import ENDED, Graph, Node
from eval_toolkit.rollouts.participant_requests import Probed, RequestPlace, of_branch, spoken
from eval_toolkit.runs.context import Context
from eval_toolkit.seeds import derive_seed

_SEED_LIMIT = 2**31
"""Exclusive upper bound of seeds, since servers accept signed 32-bit integers."""


@dataclass(slots=True, eq=False)
class Live:
    """A conversation in progress."""

    graph: Graph[Any, Any]
    state: Any
    node: Node[Any, Any] | None = None
    """Last turn, or None before the first turn."""

    @property
    def children(self) -> Any:
        """Children of the last turn."""
        return self.graph.children if self.node is None else self.node.children


@dataclass(slots=True, eq=False)
class Branch:
    """The next turn of one branch of a conversation."""

    live: Live
    at: int
    id: str
    node: Node[Any, Any] = field(init=False)


class Lockstep:
    """One turn of all ongoing conversations."""

    def __init__(self, system: Any, branches: Sequence[Branch], asking: Context, seed: int) -> None:
        self.system = system
        self.branches = list(branches)
        self.asking = asking
        self.seed = seed

    def take(self) -> None:
        """Request the probes and responses of the turn and score them."""
        self._probe()
        answering = [one for one in self.branches if one.node.status == "ok"]
        self._respond(answering)
        answered = [one for one in answering if one.node.status == "ok"]
        self._reward(answered)
        graphs = [one.live.graph for one in answered]
        scored(
            self.system.scorers,
            self.system.scored,
            graphs,
            [one.node for one in answered],
            final=False,
        )

    def ended(self) -> list[Live]:
        """Advance the conversations and return those that continue; failed conversations end."""
        scorer = self.system.scorer
        live = []
        for one in self.branches:
            node = one.node
            if node.status != "ok":
                continue
            try:
                state = self.system.advance(node.context, node.probe, node.response)
            except Exception as error:  # arbitrary code of the system; the turn itself took place
                reason = f"advance: {one_line(error)}"
                node.children.append(Node(node.context, "", None, status="error", reason=reason))
                continue
            if isinstance(state, Conversation) and scorer is not None:
                state = state.with_score(node.scores.get(scorer.name))
            live.append(Live(one.live.graph, state, node))
        return live

    def _asked(self, one: Branch, part: str) -> RequestPlace:
        graph = one.live.graph
        drawn = derive_seed(self.seed, part, graph.unit_id, graph.attempt, one.id) % _SEED_LIMIT
        return RequestPlace(graph.unit_id, graph.attempt, f"{one.id}:{part}", drawn, one.at)

    def _probe(self) -> None:
        states = [one.live.state for one in self.branches]
        asked = [self._asked(one, "probe") for one in self.branches]
        found = self.system.ask_probes(states, asked, self.asking)
        heard = list(zip(self.branches, found, asked, strict=True))
        going_on = {id(one.live) for one, said, _ in heard if not isinstance(said, StopAttack)}
        going = []
        for one, said, ask in heard:
            if not isinstance(said, StopAttack):
                one.node = self._node(one, said, ask)
                one.live.children.append(one.node)
                going.append(one)
            elif id(one.live) in going_on:  # a placeholder keeps the index and weight of the branch
                ended: Node[Any, Any] = Node(one.live.state, "", None, status=ENDED)
                ended.reason = "the attack ended"
                one.live.children.append(ended)
        self.branches = going

    def _node(self, one: Branch, said: Probed, ask: RequestPlace) -> Node[Any, Any]:
        node: Node[Any, Any] = Node(one.live.state, "", None)
        node.id, node.parent = one.id, one.live.node
        node.attack = _attack_name(self.system.tester, one.at)
        status, value = self._status_and_text(said, "the tester")
        if status == "ok" and isinstance(value, str) and not value.strip():
            status, value = "error", "the tester returned an empty probe"
        if status == "ok":
            node.probe = value
        else:
            node.status, node.reason = status, value
        _take_usage(node, "probe", said)
        return node

    def _respond(self, answering: list[Branch]) -> None:
        if not answering:
            return
        states = [one.live.state for one in answering]
        probes = [one.node.probe for one in answering]
        asked = [self._asked(one, "response") for one in answering]
        found = self.system.ask_responses(states, probes, asked, self.asking)
        for one, said in zip(answering, found, strict=True):
            status, value = self._status_and_text(said, "the target")
            if status == "ok":
                one.node.response = value
                one.node.reason = self._silence(value, said)
            else:
                one.node.status, one.node.reason = status, value
            _take_usage(one.node, "response", said)

    def _status_and_text(self, said: Probed, who: str) -> tuple[str, Any]:
        """Return a status, and the text or the reason why there is none."""
        if isinstance(said, str):
            return "ok", said
        if said is None:
            return "skipped", self.asking.used_up
        if isinstance(said, Exception):
            return "error", f"{who}: {one_line(said)}"
        if said.response is None:
            why = said.error
            return "error", f"{who}: " + ("no answer" if why is None else why.message)
        if said.job.key in self.asking.values:
            return "ok", self.asking.values[said.job.key]
        return "ok", spoken(said.response, self.system).answer

    def _silence(self, value: Any, said: Probed) -> str:
        """Return the reason for an empty reply if its reasoning was truncated."""
        if value != "" or not isinstance(said, JobResult):
            return ""
        return CUT_OFF if spoken(said.response, self.system).cut_off else ""

    def _reward(self, said: list[Branch]) -> None:
        reward = getattr(self.system, "reward", None)
        if not callable(reward) or not said:
            return
        nodes = [one.node for one in said]
        for node, value in zip(nodes, _rewards(reward, nodes), strict=True):
            if isinstance(value, Exception):
                node.unscored["reward"] = f"error: {one_line(value)}"
                continue
            try:
                number = float(value)
            except (TypeError, ValueError):
                number = math.nan
            if math.isfinite(number):
                node.reward = number
            else:
                shown_value = redact_secrets(f"{value!r:.40}")
                node.unscored["reward"] = f"error: {shown_value} is not a finite number"


def _rewards(reward: Any, nodes: Sequence[Node[Any, Any]]) -> list[Any]:
    """Compute a system's rewards for all turns in one call, or individually if that call fails."""
    parts = zip(*((node.context, node.probe, node.response) for node in nodes), strict=True)
    try:
        found = list(reward(*map(list, parts)))
    except (ArtifactError, MissingExtraError):  # no turn would succeed
        raise
    except Exception as error:  # arbitrary code of the system
        if len(nodes) == 1:
            return [error]
        return [value for node in nodes for value in _rewards(reward, [node])]
    if len(found) != len(nodes):
        raise InvalidInputError(f"`reward` returned {len(found)} numbers for {len(nodes)} turns")
    return found


def scored(
    scorers: Sequence[TextScorer],
    decides: bool,
    graphs: Sequence[Graph[Any, Any]],
    nodes: Sequence[Node[Any, Any]],
    *,
    final: bool,
) -> None:
    """Score turns together with their rollouts; scorers of mode "final" score only last turns."""
    from eval_toolkit.rollouts.scorers.base import mode_of
    from eval_toolkit.rollouts.scorers.scoring import score_nodes

    if final:
        # Other scorers were already called on every turn; their failures are not retried.
        decides = decides and bool(scorers) and mode_of(scorers[0]) == "final"
        scorers = [scorer for scorer in scorers if mode_of(scorer) == "final"]

    if nodes and scorers:
        pairs = zip(graphs, nodes, strict=True)
        keys = [(graph.unit_id or "-", graph.attempt, node.id) for graph, node in pairs]
        score_nodes(nodes, scorers, keys=keys, final=final, decides=decides)


def _attack_name(tester: Any, branch: int) -> str:
    try:
        return str(getattr(of_branch(tester, branch), "name", ""))
    except Exception:  # already reported as the reason for the missing probe
        return str(getattr(tester, "name", ""))


def _take_usage(node: Node[Any, Any], part: str, said: Probed) -> None:
    if isinstance(said, JobResult) and said.response is not None:
        node.usage[part] = said.response.usage.to_dict()
