"""Conversion of rollouts to and from the table ``turns.parquet``."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.files import parse_json
from eval_toolkit._internal.plain import whole_text
from eval_toolkit._internal.redaction import redact_secrets
from eval_toolkit._internal.validation import as_float
from eval_toolkit.errors import ArtifactError, InvalidInputError, InvalidTypeError
from eval_toolkit.models.payloads import to_json
from eval_toolkit.models.responses.reasoning import Tags, split_reasoning
from eval_toolkit.rollouts.conversations import Conversation, Turn
from eval_toolkit.rollouts.graphs import Graph, Node
from eval_toolkit.runs import Run
from eval_toolkit.runs.folder import TURNS

__all__ = ["TURNS", "TURN_COLUMNS", "read_turns", "rollouts_of", "turns_table"]

_TEXTS = (
    *("unit_id", "node_id", "parent_id", "state", "context", "probe", "response", "status"),
    *("reason", "attack", "scores", "unscored", "asked", "encoded"),
)
_WHOLE = ("attempt", "depth", "event", "echo", "selected")
_REAL = ("weight", "reward")
TURN_COLUMNS = (*_TEXTS, *_WHOLE, *_REAL)
_SEED, _TEXT = "seed", "text"
_CONVERSATION, _OPENING, _TOLD = "conversation", "opening", "told"
"""Kinds of states: the seed prompt, a string, the conversation so far, or another one."""
_FLAGS = {None: -1, False: 0, True: 1}

Rollout = Graph[Any, Any]
_Turn = Node[Any, Any]
_Row = dict[str, Any]


def turns_table(graphs: Iterable[Rollout]) -> dict[str, NDArray[Any]]:
    """Convert rollouts to columns: one row per rollout, followed by one row for each of its turns.

    Parameters
    ----------
    graphs : iterable of Graph
        Rollouts whose states, probes and responses are strings or plain JSON values.

    Returns
    -------
    dict of str to ndarray
        Arrays keyed by `TURN_COLUMNS`. The row of a rollout has an empty "node_id", "depth" 0 and
        the seed prompt as its "context"; the row of a turn has a context only if it differs from
        the conversation so far. "scores", "unscored" and "asked" contain JSON; "encoded" lists the
        cells of the row that are stored as JSON because they are not strings or cannot be stored as
        such. "event" and "echo" are 1, 0, or -1 if unknown; a missing "reward" is NaN. Latencies
        and token counts are omitted, so equal rollouts give equal columns.

    Raises
    ------
    InvalidTypeError
        If a state, probe or response is neither a string nor plain JSON.
    InvalidInputError
        If a score or a reward is not finite, or a graph has a cycle.

    Examples
    --------
    >>> graph = Graph("Hi", [Node("Hi", "Hello", "Hello.", scores={"rude": 0.25})], "u1")
    >>> columns = turns_table([graph])
    >>> columns["node_id"].tolist(), columns["scores"].tolist()
    (['', '0'], [None, '{"rude":0.25}'])
    """
    rows: list[_Row] = []
    for at, graph in enumerate(graphs):
        where = f"graph {at} (unit {graph.unit_id!r})"
        graph.relink()  # ids may be outdated if nodes were added, and a cycle would not terminate
        rows.append(_root_row(graph, where))
        rows += [_row(graph, node, f"{where}, node {node.id}") for node in graph.nodes()]
    return {name: _column(name, [row[name] for row in rows]) for name in TURN_COLUMNS}


def read_turns(columns: Mapping[str, Any]) -> list[Graph[str, str]]:
    """Convert stored columns back to rollouts.

    Parameters
    ----------
    columns : mapping of str to sequence
        Columns as returned by `turns_table` or ``Run.table("turns.parquet")``.

    Returns
    -------
    list of Graph
        Rollouts equal to the stored ones, in the same order, but without ``usage``. The score of an
        earlier turn appears only in the ``scores`` of that turn.

    Raises
    ------
    ArtifactError
        If a column is missing or a row cannot be read.

    Examples
    --------
    >>> graph = Graph("Hi", [Node("Hi", "Hello", "Hello.", scores={"rude": 0.25})], "u1")
    >>> read_turns(turns_table([graph])) == [graph]
    True
    """
    missing = [name for name in TURN_COLUMNS if name not in columns]
    if missing:
        raise ArtifactError(f"stored turns have no column {missing[0]!r}")
    cells = [np.asarray(columns[name]).tolist() for name in TURN_COLUMNS]
    graphs: list[Rollout] = []
    nodes: dict[str, _Turn] = {}
    for n, values in enumerate(zip(*cells, strict=True)):
        try:
            row = _decoded(dict(zip(TURN_COLUMNS, values, strict=True)))
            if not row["node_id"]:
                graphs.append(_graph(row))
                nodes = {}
                continue
            if not graphs:
                raise ValueError("no row of its rollout precedes it")
            _add(graphs[-1], nodes, row)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
            raise ArtifactError(f"stored turns, row {n}: not a valid turn: {error}") from None
    return graphs


def rollouts_of(run: Run, reasoning_tags: Tags = ()) -> list[Graph[str, str]]:
    """Return the rollouts of a stored run.

    Parameters
    ----------
    run : Run
        Rollout run.
    reasoning_tags : sequence of (str, str), optional
        Tags that delimit reasoning to remove from responses, as in `split_reasoning`, for runs
        stored with reasoning. By default, nothing is removed.

    Returns
    -------
    list of Graph
        Stored rollouts.

    Raises
    ------
    ArtifactError
        If ``run`` is not a rollout run, or its table was modified.
    InvalidInputError, InvalidTypeError
        If the tags are not pairs of strings.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import write_run
    >>> results = {"schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {}}
    >>> tables = {TURNS: turns_table([Graph("Hi", unit_id="u1")])}
    >>> run = write_run(
    ...     tempfile.mkdtemp() + "/r1", results=results, manifest={"run_id": "r1"}, tables=tables
    ... )
    >>> rollouts_of(run)
    [Graph(context='Hi', children=[], unit_id='u1', attempt=1, seed=None, selected=False)]
    """
    if TURNS not in run.manifest["artifacts"]:
        raise ArtifactError(f"{run.path}: not a rollout run: it has no {TURNS}")
    columns = dict(run.table(TURNS))
    absent = [name for name in TURN_COLUMNS if name not in columns]
    if reasoning_tags and absent:
        raise ArtifactError(f"{run.path}: {TURNS} has no column {absent[0]!r}")
    if reasoning_tags:
        responses = zip(columns["response"], columns["encoded"], strict=True)
        columns["response"] = _column(
            "response", [_spoken(*cells, reasoning_tags) for cells in responses]
        )
    return read_turns(columns)


def _spoken(response: Any, encoded: Any, tags: Tags) -> Any:
    """Remove the reasoning from a stored response; JSON cells are returned unchanged."""
    if not isinstance(response, str) or "response" in str(encoded or ""):
        return response
    return split_reasoning(response, tags).answer


# --- writing --------------------------------------------------------------------------------------


def _root_row(graph: Rollout, where: str) -> _Row:
    state, context = _TEXT, graph.context
    if isinstance(context, Conversation):
        if context.turns or context.probe is not None:
            state, context = _TOLD, _told(context)
        else:
            state, context = _OPENING if context.opening else _CONVERSATION, context.goal
    seed = graph.seed if isinstance(graph.seed, (str, int)) else None
    row = {
        **dict.fromkeys(TURN_COLUMNS),
        "node_id": "",
        "state": state,
        "context": context,
        "status": "ok",
        "reason": "",
        "attack": "",
        "asked": None if seed is None else _json(seed, f"{where}: seed"),
        "depth": 0,
        "weight": 1.0,
        "reward": math.nan,
        "event": _FLAGS[None],
        "echo": _FLAGS[None],
    }
    return _finished(row, graph, where)


def _row(graph: Rollout, node: _Turn, where: str) -> _Row:
    state, context = _state(graph, node)
    row = {
        "node_id": node.id,
        "parent_id": None if node.parent is None else node.parent.id,
        "state": state,
        "context": context,
        "probe": node.probe,
        "response": node.response,
        "status": node.status,
        # an error message may quote the key that a server rejected
        "reason": redact_secrets(node.reason),
        "attack": node.attack,
        "scores": _json(
            {name: _finite(one, f"{where}: score {name!r}") for name, one in node.scores.items()},
            f"{where}: scores",
        ),
        "unscored": _json(redact_secrets(node.unscored, keys=False), f"{where}: unscored"),
        "asked": None,
        "depth": node.depth,
        "weight": node.weight,
        "reward": math.nan if node.reward is None else _finite(node.reward, f"{where}: reward"),
        "event": _flag(node.event, f"{where}: event"),
        "echo": _flag(node.echo, f"{where}: echo"),
    }
    return _finished(row, graph, where)


def _finished(row: _Row, graph: Rollout, where: str) -> _Row:
    """Add the columns of the rollout to a row, and encode values other than strings as JSON."""
    row |= {"unit_id": graph.unit_id, "attempt": graph.attempt, "selected": int(graph.selected)}
    encoded = []
    for name in _TEXTS[:-1]:
        value = row[name]
        if isinstance(value, str):
            row[name] = value = str(value)
            if whole_text(value) == value:
                continue
        elif value is None:
            continue
        row[name] = _json(value, f"{where}: {name}")
        encoded.append(name)
    row["encoded"] = to_json(encoded) if encoded else None
    return row


def _state(graph: Rollout, node: _Turn) -> tuple[str, Any]:
    """Return how the state before a turn is stored, and the state itself unless it is implied."""
    context = node.context
    if not isinstance(context, Conversation):
        same = type(context) is str and context == graph.context
        return (_SEED, None) if same else (_TEXT, context)
    implied = _implied(graph, node.parent, opening=context.opening)
    if implied is not None and _parts(implied) == _parts(context):
        return _OPENING if context.opening else _CONVERSATION, None
    return _TOLD, _told(context)


def _implied(graph: Rollout, last: _Turn | None, *, opening: bool) -> Conversation | None:
    """Return the conversation that the turns so far imply, or None."""
    begun = graph.context
    if not isinstance(begun, Conversation):
        begun = Conversation(begun) if isinstance(begun, str) else None
    path = [] if last is None else last.path()
    texts = [text for turn in path for text in (turn.probe, turn.response)]
    if begun is None or not all(isinstance(text, str) for text in texts):
        return None
    said = (Turn(str(turn.probe), str(turn.response)) for turn in path)
    turns = (*begun.turns, *said)
    return Conversation(begun.goal, turns, opening=opening)


def _parts(conversation: Conversation) -> tuple[Any, ...]:
    turns = [(turn.probe, turn.response) for turn in conversation.turns]
    return conversation.goal, turns, conversation.probe


def _told(conversation: Conversation) -> dict[str, Any]:
    turns = [[turn.probe, turn.response, turn.score] for turn in conversation.turns]
    return {
        "goal": conversation.goal,
        "turns": turns,
        "probe": conversation.probe,
        "opening": conversation.opening,
    }


def _finite(value: Any, where: str) -> float:
    try:
        number = as_float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInputError(f"{where} is {value!r:.60}; it must be a number") from None
    if not math.isfinite(number):
        raise InvalidInputError(f"{where} is {number}; it must be finite")
    return number


def _flag(value: Any, where: str) -> int:
    if value not in (None, False, True):
        raise InvalidTypeError(f"{where} is {value!r:.60}; it must be True, False or None")
    return _FLAGS[value]


def _json(value: Any, where: str) -> str:
    """Encode a value as JSON; raise an error if decoding does not restore it."""
    try:
        text = to_json(value)
        if json.loads(text) == value:
            return text
    except (TypeError, ValueError, RecursionError):
        pass
    raise InvalidTypeError(
        f"{where} is {type(value).__name__} {value!r:.60}; only strings and JSON values can be stored"
    )


def _column(name: str, values: Sequence[Any]) -> NDArray[Any]:
    if name in _WHOLE:
        return np.array(values, dtype=np.int64)
    if name in _REAL:
        return np.array(values, dtype=np.float64)
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


# --- reading --------------------------------------------------------------------------------------


def _decoded(row: _Row) -> _Row:
    for name in () if row["encoded"] is None else _loaded(row, "encoded"):
        row[name] = _loaded(row, name)
    return row


def _loaded(row: _Row, name: str) -> Any:
    return parse_json(row[name], name, strict=False)


def _named(row: _Row, name: str, kind: type | tuple[type, ...]) -> dict[str, Any]:
    """Decode a cell that maps names to values of a single type."""
    found = _loaded(row, name)
    if not isinstance(found, dict) or not all(isinstance(one, kind) for one in found.values()):
        raise ValueError(f"{name} is {found!r:.60}")
    return found


def _graph(row: _Row) -> Rollout:
    context, state = row["context"], row["state"]
    if state == _TOLD:
        context = _untold(context)
    elif state in (_CONVERSATION, _OPENING):
        context = Conversation(context, opening=state == _OPENING)
    seed = None if row["asked"] is None else _loaded(row, "asked")
    return Graph(
        context,
        unit_id=row["unit_id"],
        attempt=int(row["attempt"]),
        seed=seed,
        selected=bool(row["selected"]),
    )


def _untold(told: Mapping[str, Any]) -> Conversation:
    turns = [Turn(*parts) for parts in told["turns"]]
    return Conversation(told["goal"], turns, told["probe"], opening=told["opening"])


def _add(graph: Rollout, nodes: dict[str, _Turn], row: _Row) -> None:
    """Insert a turn below its parent, whose row must come first."""
    name, parent_id = row["node_id"], row["parent_id"]
    if parent_id is not None and parent_id not in nodes:
        raise ValueError(f"no row of its parent {parent_id!r} precedes it")
    parent = None if parent_id is None else nodes[parent_id]
    place = graph if parent is None else parent
    at = str(len(place.children))
    if (row["unit_id"], int(row["attempt"])) != (graph.unit_id, graph.attempt):
        raise ValueError("it follows the rows of another rollout")
    if name != (at if parent is None else f"{parent.id}.{at}"):
        raise ValueError(f"node {name!r} is out of order")
    reward = row["reward"]
    flags = {number: flag for flag, number in _FLAGS.items()}
    node: _Turn = Node(
        _context(graph, parent, row),
        row["probe"],
        row["response"],
        None if reward is None or math.isnan(reward) else float(reward),
        scores=_named(row, "scores", (int, float)),
        unscored=_named(row, "unscored", str),
        event=flags[int(row["event"])],
        echo=flags[int(row["echo"])],
        status=row["status"],
        reason=row["reason"],
        attack=row["attack"],
        id=name,
        depth=1 if parent is None else parent.depth + 1,
        weight=float(row["weight"]),
        parent=parent,
    )
    place.children.append(node)
    nodes[name] = node


def _context(graph: Rollout, parent: _Turn | None, row: _Row) -> Any:
    context, state = row["context"], row["state"]
    if state == _TOLD:
        return _untold(context)
    if state in (_SEED, _TEXT):
        return str(graph.context) if state == _SEED else context
    implied = _implied(graph, parent, opening=state == _OPENING)
    if implied is None:
        raise ValueError("the turns before it are not strings")
    return implied
