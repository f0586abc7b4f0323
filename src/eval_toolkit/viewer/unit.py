"""Everything that a run holds about one unit: what was asked, what was answered, what came of it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from eval_toolkit._words import number
from eval_toolkit.errors import ArtifactError
from eval_toolkit.graders.choices import softmax
from eval_toolkit.judges.asking import judge_of
from eval_toolkit.report.conversation_cards import Scoring, scores_of
from eval_toolkit.responses import RawLoglikelihood
from eval_toolkit.rollouts.conversations import Conversation
from eval_toolkit.rollouts.graphs import Graph, Node
from eval_toolkit.rollouts.turns import TURN_COLUMNS, read_turns
from eval_toolkit.runner.jobs import JobResult
from eval_toolkit.runner.stored import COLUMNS, read_outcomes
from eval_toolkit.runs import Run
from eval_toolkit.runs.stored_units import stored_units
from eval_toolkit.tasks.joining import PART
from eval_toolkit.tasks.references import Reference, read_reference
from eval_toolkit.viewer.records import RESPONSES, TURNS, Record, Shape, inside_json
from eval_toolkit.viewer.store import Store, pattern

__all__ = [
    "Choice",
    "Exchange",
    "Talk",
    "Turn",
    "exchanges_of",
    "input_of",
    "marked",
    "reference_of",
    "talk_of",
]

_FROM = "read_parquet(?, file_row_number = true, hive_partitioning = false)"
_TEXTS = tuple(name for name in COLUMNS if name != "attempt")
_EXCHANGES_AT_MOST = 100
_TURNS_AT_MOST = 500
_CELL_BYTES = 400_000
"""Of a stored cell that are read; of a longer one there is the beginning."""
_BEGINNING = 19_900
"""Characters of it, and how many there are: together what a page shows of any text."""
_LEVELS = 6
"""Branches within branches that a page sets in; deeper ones stand below each other."""


@dataclass(frozen=True)
class Choice:
    """One text that a model was asked how likely it is."""

    text: str
    loglikelihood: float | None
    share: float
    """Of the likelihood of all choices, from 0 to 1."""
    best: bool
    right: bool = False
    """Whether it is known to be right."""


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One request and what came back."""

    step: str
    judge: str | None
    prompt: str = ""
    messages: Sequence[tuple[str, str]] = ()
    """Role and text, where the prompt is a conversation."""
    text: str | None = None
    choices: Sequence[Choice] = ()
    n_choices: int = 0
    """Texts that it asked about, also where it failed."""
    error: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One turn of a conversation, as a page shows it."""

    id: str
    depth: int
    level: int
    """How many times the conversation has branched above it."""
    branch: str = ""
    """Which of several this is, at the beginning of a branch."""
    probe: str
    response: str | None
    attack: str
    failed: bool
    echo: bool
    status: str
    reason: str
    refuses: bool
    probe_scores: Sequence[Mapping[str, Any]]
    """As the report shows them: name, value, and whether it is the one that decides."""
    scores: Sequence[Mapping[str, Any]]
    unscored: Sequence[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Talk:
    """A rollout: its seed prompt and its turns."""

    prompt: str
    turns: Sequence[Turn]
    n_turns: int
    n_paths: int
    first_failure: int | None
    rule: str = ""
    """What makes the target fail."""


def input_of(run: Run, shape: Shape, record: Record) -> str | None:
    """Return what a unit says, None where it is not stored or a conversation begins with it."""
    if shape.units is None or TURNS in shape.tables:
        return None
    texts = shape.units.values("input", [record.unit_id], slice_name=record.slice)
    return texts.get(record.unit_id)


def reference_of(store: Store, run: Run, record: Record) -> Reference | None:
    """Return what was right about a unit, or None where the run was stored without."""
    try:
        units = stored_units(run.path, run.manifest, store.columns_of)
        if units is None or "reference" not in units.columns:
            return None
        correct = "correct" if "correct" in units.columns else "NULL"
        rows = store.query(
            units.files[0],
            f"SELECT reference, {correct} FROM {units.sql} WHERE unit_id = ? LIMIT 1",  # noqa: S608
            [*map(pattern, units.files), record.unit_id],
        )
    except ArtifactError:  # what was asked and answered is there all the same
        return None
    return read_reference(*rows[0]) if rows else None


def marked(asked: Sequence[Exchange], reference: Reference | None) -> list[Exchange]:
    """Return requests with the right choices marked; those of several requests count on."""
    right = None if reference is None else reference.correct
    if not right or sum(one.n_choices for one in asked) < 2:
        return list(asked)
    begins: dict[int, int] = {}
    before = 0
    for at in sorted(range(len(asked)), key=lambda at: _part(asked[at].step)):
        begins[at] = before
        before += asked[at].n_choices
    return [
        replace(
            one,
            choices=[
                replace(choice, right=begins[at] + place in right)
                for place, choice in enumerate(one.choices)
            ],
        )
        for at, one in enumerate(asked)
    ]


def _part(step: str) -> int:
    number = step.removeprefix(PART)
    return int(number) if number.isdecimal() else 0


# --- requests and answers -------------------------------------------------------------------------


def exchanges_of(store: Store, shape: Shape, record: Record) -> tuple[list[Exchange], int]:
    """Return what was asked about a unit and answered, and how many requests there are in all.

    Parameters
    ----------
    store : Store
        Over the folder of runs.
    shape : Shape
        Of the run.
    record : Record
        Of the unit; requests of its attempt are shown.
    """
    if not shape.tables.get(RESPONSES, frozenset()) >= set(COLUMNS):
        return [], 0
    path = shape.path.parent / RESPONSES
    numbers = store.column(
        path,
        f"SELECT file_row_number FROM {_FROM} "  # noqa: S608
        "WHERE unit_id = ? AND attempt = ? ORDER BY file_row_number",
        [pattern(path), record.unit_id, record.attempt],
    )
    try:
        shown = _requests(store, path, [int(one) for one in numbers[:_EXCHANGES_AT_MOST]])
        prompts = _prompts(store, shape, [row for row in shown if not row["prompt"]])
        for row in shown:
            row["prompt"] = row["prompt"] or prompts.get(row["prompt_hash"], "")
        exchanges = [_begun(store, path, row) if row["long"] else _exchange(row) for row in shown]
    except ArtifactError as error:  # too large for the memory of a page; the rest is there
        return [Exchange(step="", judge=None, error=f"cannot be read: {error}")], len(numbers)
    return exchanges, len(numbers)


def _requests(store: Store, path: Path, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Return rows of the table of requests; of cells that are too long to be read the beginning."""
    if not numbers:
        return []
    long = [f"coalesce(strlen({name}) > {_CELL_BYTES}, false)" for name in _TEXTS]
    cells = [
        f"CASE WHEN {is_long} THEN {_beginning(name)} ELSE {name} END"
        for name, is_long in zip(_TEXTS, long, strict=True)
    ]
    rows = store.query(
        path,
        f"SELECT file_row_number, {' OR '.join(long)}, attempt, {', '.join(cells)} "  # noqa: S608
        f"FROM {_FROM} WHERE file_row_number IN ({', '.join('?' * len(numbers))}) "
        "ORDER BY file_row_number",
        [pattern(path), *numbers],
    )
    return [dict(zip(("row", "long", "attempt", *_TEXTS), row, strict=True)) for row in rows]


def _beginning(text: str) -> str:
    """Return SQL for the beginning of a text that says how long the whole is."""
    more = f"format('… ({{:,}} characters, the first {_BEGINNING:,} are shown)', length({text}))"
    return f"left({text}, {_BEGINNING}) || if(length({text}) > {_BEGINNING}, {more}, '')"


def _begun(store: Store, path: Path, row: Mapping[str, Any]) -> Exchange:
    """Return a request of which something is too long to be read as a whole."""
    ((text,),) = store.query(
        path,
        f"SELECT {_beginning(inside_json('response', '$.text'))} FROM {_FROM} "  # noqa: S608
        "WHERE file_row_number = ?",
        [pattern(path), row["row"]],
    )
    return Exchange(
        step=str(row["step"] or ""),
        judge=judge_of(str(row["step"] or "")),
        prompt=str(row["prompt"]),
        text=row["response"] if text is None else text,
        error=str(row["error"] or ""),
        facts={"too long": "to be read as a whole"},
    )


def _prompts(store: Store, shape: Shape, rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the prompts that are stored with another request, by their hashes."""
    hashes = list(dict.fromkeys(row["prompt_hash"] for row in rows))
    if not hashes:
        return {}
    path = shape.path.parent / RESPONSES
    found = store.query(
        path,
        f"SELECT prompt_hash, CASE WHEN strlen(prompt) > {_CELL_BYTES} THEN "  # noqa: S608
        f"{_beginning('prompt')} ELSE prompt END FROM {_FROM} WHERE prompt <> '' "
        f"AND prompt_hash IN ({', '.join('?' * len(hashes))})",
        [pattern(path), *hashes],
    )
    return {str(digest): str(prompt) for digest, prompt in found}


def _exchange(row: Mapping[str, Any]) -> Exchange:
    step = str(row["step"] or "")
    try:
        (outcome,) = read_outcomes({name: [row[name]] for name in COLUMNS})
    except ArtifactError as error:
        return Exchange(step=step, judge=judge_of(step), error=f"cannot be read: {error}")
    prompt = outcome.job.request.prompt
    is_text = isinstance(prompt, str)
    return Exchange(
        step=step,
        judge=judge_of(step),
        prompt=str(prompt) if is_text else "",
        messages=() if is_text else [(str(one.role), one.content) for one in _messages(prompt)],
        **_answer(outcome),
        n_choices=len(getattr(outcome.job.request, "continuations", ())),
        facts=_facts(outcome),
    )


def _messages(prompt: Any) -> Sequence[Any]:
    return prompt if isinstance(prompt, Sequence) else ()


def _answer(outcome: JobResult) -> dict[str, Any]:
    response = outcome.response
    if response is None:
        failed = outcome.error
        return {"error": f"{failed.kind}: {failed.message}" if failed else "no answer"}
    error = f"{response.error.kind}: {response.error.message}" if response.error else ""
    if isinstance(response, RawLoglikelihood):
        return {"choices": _choices(response), "error": error}
    return {"text": response.text, "error": error}


def _choices(response: RawLoglikelihood) -> list[Choice]:
    numbers = [float(one) for one in response.loglikelihoods]
    top = max(numbers, default=-math.inf)
    return [
        Choice(text, one, share, one == top)
        if math.isfinite(one)
        else Choice(text, None, 0.0, False)
        for text, one, share in zip(response.choices, numbers, softmax(numbers), strict=False)
    ]


def _facts(outcome: JobResult) -> dict[str, str]:
    """Return what a request cost and how its answer ended, as far as that is known."""
    told: dict[str, Any] = {}
    response = outcome.response
    if response is not None:
        told["ended by"] = getattr(response, "finish_reason", None)
        usage = response.usage
        counted = usage.total_tokens > 0  # the log of another tool may not say
        told |= {
            "prompt tokens": usage.prompt_tokens if counted else None,
            "completion tokens": usage.completion_tokens if counted else None,
            "seconds": number(usage.latency_s, digits=2) if usage.latency_s else None,
            "tries": usage.tries if usage.tries != 1 else None,
            "from the cache": "yes" if usage.cached else None,
        }
    params = outcome.job.request.to_dict()
    for name in ("temperature", "top_p", "max_tokens", "seed", "stop"):
        told[name.replace("_", " ")] = params.get(name)
    return {name: str(value) for name, value in told.items() if value not in (None, [])}


# --- conversations --------------------------------------------------------------------------------


def talk_of(store: Store, run: Run, shape: Shape, record: Record) -> Talk | None:
    """Return the rollout of a record, or None where the run is of another kind.

    Parameters
    ----------
    store : Store
        Over the folder of runs.
    run : Run
        Whose configuration says which scores are bad.
    shape : Shape
        Of the run.
    record : Record
        Whose unit and attempt is shown.

    Raises
    ------
    ArtifactError
        If the turns cannot be read.
    """
    if not shape.tables.get(TURNS, frozenset()) >= set(TURN_COLUMNS):
        return None
    path = shape.path.parent / TURNS
    of_unit = f"FROM {_FROM} WHERE unit_id = ? AND attempt = ?"
    unit = [pattern(path), record.unit_id, record.attempt]
    cells = [
        f"CASE WHEN encoded IS NULL THEN {_beginning(name)} ELSE {name} END"
        if name in ("probe", "response", "reason")
        else name
        for name in TURN_COLUMNS
    ]
    rows = store.query(
        path,  # the row of the rollout, then its turns, each below the one that it follows
        f"SELECT {', '.join(cells)} {of_unit} ORDER BY file_row_number LIMIT {_TURNS_AT_MOST + 1}",
        unit,
    )
    # Not of the rows that were read, which may be the first of many.
    counts = store.query(
        path,
        f"SELECT count(*), count(DISTINCT parent_id), min(depth) FILTER (event = 1) {of_unit} "
        "AND node_id <> ''",
        unit,
    )
    missing = {"weight", "reward"}  # numbers that are NaN where there is none
    columns = {
        name: [
            math.nan if value is None and name in missing else value
            for value in (row[at] for row in rows)
        ]
        for at, name in enumerate(TURN_COLUMNS)
    }
    graphs = read_turns(columns)
    if not graphs:
        return None
    graph = graphs[0]
    context: object = graph.context
    scoring = Scoring.of(run.manifest.get("config") or {})
    turns = list(islice(_turns(graph, scoring), _TURNS_AT_MOST))
    n_turns, n_followed, first_failure = counts[0]
    return Talk(
        prompt=context.goal if isinstance(context, Conversation) else str(context),
        turns=turns,
        n_turns=n_turns,
        n_paths=n_turns - n_followed,
        first_failure=first_failure,
        rule=scoring.rule,
    )


def _turns(graph: Graph[str, str], scoring: Scoring) -> Iterator[Turn]:
    """Yield turns in the order they are read: a branch to its end, then the next."""
    waiting = _placed(graph.children, 0)
    while waiting:
        node, level, branch = waiting.pop()
        yield _turn(node, scoring, level, branch)
        waiting += _placed(node.children, level)


def _placed(nodes: Sequence[Node[str, str]], level: int) -> list[tuple[Node[str, str], int, str]]:
    """Return what follows, the first last; several are a level further in."""
    several = len(nodes) > 1
    inner = min(level + 1, _LEVELS) if several else level
    return [
        (node, inner, f"{at + 1} of {len(nodes)}" if several else "")
        for at, node in enumerate(nodes)
    ][::-1]


def _turn(node: Node[str, str], scoring: Scoring, level: int, branch: str) -> Turn:
    probe_scores, scores = scores_of(node, scoring)
    return Turn(
        id=node.id,
        depth=node.depth,
        level=level,
        branch=branch,
        probe=str(node.probe or ""),
        response=None if node.response is None else str(node.response),
        attack=node.attack,
        failed=bool(node.event),
        echo=bool(node.echo),
        status=node.status,
        reason=node.reason,
        refuses=scoring.refuses(node.scores),
        probe_scores=probe_scores,
        scores=scores,
        unscored=list(node.unscored.items()),
    )
