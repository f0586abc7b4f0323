"""Rollouts, represented as trees of turns; a conversation without branches is a chain."""

from collections.abc import Iterator, MutableSequence, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Generic, TypeVar

from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.rollouts.conversations import Conversation

ENDED = "ended"
"""Status of a placeholder for a branch whose attack stopped while its siblings continued."""

StateT = TypeVar("StateT")
ActionT = TypeVar("ActionT")


@dataclass(eq=False)
class Node(Generic[StateT, ActionT]):
    """One turn: a probe, its response and the scores.

    Parameters
    ----------
    context : object
        State of the conversation before the turn.
    probe : object
        Probe of the tester.
    response : object
        Response of the target; None if there is none.
    reward : float or None, default None
        Reward of the turn, if the system has one.
    children : sequence of Node
        Next turns; several at a branching point.
    scores : dict of str to float
        Scores of the response by scorer; ``name:probe`` is the score of the probe, and
        ``name/category`` that of one category.
    unscored : dict of str to str
        Reasons for missing scores: "skipped: …" or "error: …".
    event : bool or None
        Whether the target failed, i.e. the first scorer's threshold was crossed. None if unknown.
    echo : bool or None
        Whether a failure merely repeats the probes: without the repeated text, the threshold is not
        crossed. None if unknown.
    status : {"ok", "error", "skipped", "ended"}
        Status of the turn; any status other than "ok" ends the conversation. "ended" marks the
        placeholder for a branch whose attack stopped.
    reason : str
        Reason for a status other than "ok".
    attack : str
        Name of the attack that generated the probe.
    usage : dict
        Tokens, number of tries and seconds spent on ``probe`` and ``response``.

    Examples
    --------
    >>> node = Node("Hello.", "How are you?", "Fine.", 0.5, [])
    >>> node.is_leaf, node.scores
    (True, {})
    """

    context: StateT
    probe: ActionT
    response: StateT | None
    reward: float | None = None
    children: "MutableSequence[Node[StateT, ActionT]]" = field(default_factory=list, repr=False)
    scores: dict[str, float] = field(default_factory=dict)
    unscored: dict[str, str] = field(default_factory=dict)
    event: bool | None = None
    echo: bool | None = None
    status: str = "ok"
    reason: str = ""
    attack: str = ""
    usage: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    id: str = field(default="", compare=False)
    """Branch indices from the root, e.g. "0.1.0"; like the fields below, set by the graph."""
    depth: int = field(default=0, compare=False)
    """Turn number, from 1."""
    weight: float = field(default=1.0, compare=False)
    """Probability of reaching this turn if sibling branches are equally likely."""
    parent: "Node[StateT, ActionT] | None" = field(default=None, compare=False, repr=False)

    def __eq__(self, other: object) -> bool:
        """Return whether two turns are equal, including their subtrees."""
        if not isinstance(other, Node):
            return NotImplemented
        return _equal([self], [other])

    @property
    def is_leaf(self) -> bool:
        """Whether no turn follows this one."""
        return not self.children

    @property
    def challenge(self) -> ActionT:
        """Alias of the probe."""
        return self.probe

    audit = utterance = challenge

    def path(self) -> "list[Node[StateT, ActionT]]":
        """Return the path from the first turn to this one."""
        node: Node[StateT, ActionT] | None = self
        turns = []
        while node is not None:
            turns.append(node)
            node = node.parent
        return turns[::-1]


@dataclass(eq=False)
class Graph(Generic[StateT, ActionT]):
    """One rollout: a seed prompt and the tree of turns that follows it.

    The ids, parents, depths and path weights of the nodes are set on construction; call `relink` to
    update them after adding nodes.

    Parameters
    ----------
    context : object
        Seed prompt.
    children : sequence of Node
        First turns.
    unit_id : str
        Identifier of the seed prompt.
    attempt : int
        Index of the rollout among those from the same seed prompt, starting at 1.
    seed : object
        Random seed of the rollout.
    selected : bool
        Whether only selected branches were continued; path weights are then not probabilities.

    Raises
    ------
    InvalidInputError
        If a node is its own descendant, or occurs twice.

    Examples
    --------
    >>> last = Node("Hi", "And now?", "Stop.")
    >>> graph = Graph("Hi", [Node("Hi", "Hello", "Hello.", children=[last])])
    >>> [node.id for node in graph.nodes()], last.depth, last.weight
    (['0', '0.0'], 2, 1.0)
    >>> [message.content for message in graph.conversation()]
    ['Hello', 'Hello.', 'And now?', 'Stop.']
    """

    context: StateT
    children: MutableSequence[Node[StateT, ActionT]] = field(default_factory=list)
    unit_id: str = ""
    attempt: int = 1
    seed: Any = field(default=None, compare=False)
    selected: bool = False

    def __post_init__(self) -> None:
        self.relink()

    def __eq__(self, other: object) -> bool:
        """Return whether two rollouts are equal, turn by turn."""
        if not isinstance(other, Graph):
            return NotImplemented
        pair = [(g.context, g.unit_id, g.attempt, g.selected) for g in (self, other)]
        return pair[0] == pair[1] and _equal(self.children, other.children)

    def relink(self) -> None:
        """Set ids, parents, depths and path weights of all nodes."""
        seen: set[int] = set()
        waiting: list[tuple[str, Node[StateT, ActionT] | None, Any]] = [("", None, self)]
        while waiting:
            prefix, parent, place = waiting.pop()
            children = place.children
            if isinstance(children, str) or not isinstance(children, Sequence):
                raise InvalidTypeError(f"`children` of {prefix or 'the graph'} must be a sequence")
            for at, node in enumerate(children):
                name = f"{prefix}{at}"
                if not isinstance(node, Node):
                    raise InvalidTypeError(
                        f"node {name} is {type(node).__name__}; it must be a Node"
                    )
                if id(node) in seen:
                    raise InvalidInputError(
                        f"node {name} is in the graph twice (first as {node.id}); a graph of "
                        "turns is a tree, without cycles"
                    )
                seen.add(id(node))
                node.id, node.parent = name, parent
                node.depth = 1 if parent is None else parent.depth + 1
                node.weight = (1.0 if parent is None else parent.weight) / len(children)
                waiting.append((f"{name}.", node, node))

    def nodes(self) -> Iterator[Node[StateT, ActionT]]:
        """Yield all turns, parents before their children."""
        waiting = list(self.children)[::-1]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(list(node.children)[::-1])

    def leaves(self) -> list[Node[StateT, ActionT]]:
        """Return the last turns: the turns that no other turn follows."""
        return [node for node in self.nodes() if node.is_leaf]

    def paths(self) -> list[list[Node[StateT, ActionT]]]:
        """Return all conversations, each as the list of its turns."""
        return [leaf.path() for leaf in self.leaves()]

    def at_depth(self, depth: int) -> list[Node[StateT, ActionT]]:
        """Return the turns at a depth, from 1."""
        return [node for node in self.nodes() if node.depth == depth]

    def first_path(self) -> list[Node[StateT, ActionT]]:
        """Return the conversation along the first branches."""
        turns: list[Node[StateT, ActionT]] = []
        place: Graph[StateT, ActionT] | Node[StateT, ActionT] = self
        while place.children and place.children[0].status != ENDED:
            place = place.children[0]
            turns.append(place)
        return turns

    @property
    def is_chain(self) -> bool:
        """Whether the rollout has no branches."""
        return len(self.children) <= 1 and all(len(node.children) <= 1 for node in self.nodes())

    def conversation(self, node: Node[StateT, ActionT] | None = None) -> tuple[Message, ...]:
        """Return the messages up to a turn, by default along the first branches.

        Parameters
        ----------
        node : Node, optional
            Last turn of the conversation.

        Returns
        -------
        tuple of Message
            Probes are user messages, and responses are assistant messages. If the seed prompt opens
            the conversation, it is part of the first message.
        """
        turns = self.first_path() if node is None else node.path()
        if turns and isinstance(turns[-1].context, Conversation):
            turns = turns[-1:]  # its context contains all earlier turns
        messages: list[Message] = []
        for turn in turns:
            # A failed tester has no probe.
            probe = None if turn.status != "ok" and not turn.probe else str(turn.probe)
            if isinstance(turn.context, Conversation):
                state = turn.context if probe is None else turn.context.with_probe(probe)
                messages += state.messages
            elif probe is not None:
                messages.append(Message(Role.USER, probe))
            if turn.response is not None:
                messages.append(Message(Role.ASSISTANT, str(turn.response)))
        return tuple(messages)


def _equal(first: Sequence[Node[Any, Any]], second: Sequence[Node[Any, Any]]) -> bool:
    """Compare turns and their subtrees without recursion, so that depth is unlimited."""
    waiting = [(first, second)]
    while waiting:
        these, those = waiting.pop()
        if len(these) != len(those):
            return False
        for one, other in zip(these, those, strict=True):
            if type(one) is not type(other) or _own(one) != _own(other):
                return False
            waiting.append((one.children, other.children))
    return True


def _own(node: Node[Any, Any]) -> tuple[Any, ...]:
    return tuple(getattr(node, name) for name in _COMPARED)


_COMPARED = tuple(one.name for one in fields(Node) if one.compare and one.name != "children")


_OF_A_TURN = ("context", "probe", "response", "children")


def as_graph(rollout: Any) -> "Graph[Any, Any]":
    """Convert a rollout to a `Graph`; objects of other packages are copied.

    Other objects, such as astra-rl's graphs, must have ``context`` and ``children``, and their
    nodes ``context``, ``probe``, ``response``, ``children`` and optionally ``reward``. A node that
    is its own descendant, or occurs twice, raises an error.

    Examples
    --------
    >>> from types import SimpleNamespace as Theirs
    >>> turn = Theirs(context="Hi", probe="How are you?", response="Fine.", reward=0.5, children=[])
    >>> as_graph(Theirs(context="Hi", children=[turn])).children[0].response
    'Fine.'
    """
    if isinstance(rollout, Graph):
        return rollout
    if not (hasattr(rollout, "context") and hasattr(rollout, "children")):
        raise InvalidTypeError(f"the sampler returned {type(rollout).__name__}, not a Graph")
    made: Graph[Any, Any] = Graph(rollout.context)
    copies: dict[int, Node[Any, Any]] = {}  # a repeated turn stays one, which `relink` rejects
    waiting: list[tuple[Any, Any]] = [(rollout, made)]
    while waiting:
        theirs, ours = waiting.pop()
        if isinstance(theirs.children, str) or not isinstance(theirs.children, Sequence):
            raise InvalidTypeError(f"`children` of a {type(theirs).__name__} must be a sequence")
        for turn in theirs.children:
            if id(turn) not in copies:
                copies[id(turn)] = copy = _copied(turn)
                waiting.append((turn, copy))
            ours.children.append(copies[id(turn)])
    made.relink()
    return made


def _copied(turn: Any) -> Node[Any, Any]:
    """Return a copy of a turn without its children."""
    if isinstance(turn, Node):
        return replace(turn, children=[])
    lacking = [name for name in _OF_A_TURN if not hasattr(turn, name)]
    if lacking:
        raise InvalidTypeError(f"a turn is {type(turn).__name__}, which has no `{lacking[0]}`")
    return Node(turn.context, turn.probe, turn.response, getattr(turn, "reward", None))
