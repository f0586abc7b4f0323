"""Export of rollouts: conversations as text, JSON Lines or Markdown, turns as CSV."""

import csv
import io
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit._internal.files import replace_atomic
from eval_toolkit._internal.plain import csv_text, plain, whole_text
from eval_toolkit._internal.redaction import redact_secrets
from eval_toolkit._internal.words import nearest
from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.models.messages import Message
from eval_toolkit.rollouts.conversations import Conversation
from eval_toolkit.rollouts.graphs import Graph, Node
from eval_toolkit.rollouts.seeds.prompts import SeedPrompt
from eval_toolkit.scorecards.parts import parse_part

TRANSCRIPT_FORMATS = ("txt", "jsonl", "md", "csv")
_SUFFIXES = {
    ".txt": "txt",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".md": "md",
    ".markdown": "md",
    ".csv": "csv",
}
_JOINERS = "\u200c\u200d"
"""Zero-width characters that occur within words of some languages and within some emoji."""
_PARTS = ("category", "topic", "safe")
_NO_TURN = "there are no turns"
_CSV = (
    *("unit_id", "attempt", "node_id", "parent_id", "turn", "weight", "attack", "seed_prompt"),
    *("probe", "response", "status", "reason", "event", "echo", "reward"),
)

_Graph = Graph[Any, Any]
_Node = Node[Any, Any]
_Told = tuple[_Graph, list[list[_Node]]]
"""Rollout, and the conversations selected from it."""


def transcripts(
    graphs: Iterable[Graph[Any, Any]],
    format: str = "jsonl",  # noqa: A002 - what the option is called
    *,
    failed_only: bool = False,
    unit: str | None = None,
    part: str | None = None,
    prompts: Iterable[SeedPrompt] = (),
) -> Iterator[str]:
    r"""Convert rollouts to the lines of a text file.

    Parameters
    ----------
    graphs : iterable of Graph
        Rollouts.
    format : {"txt", "jsonl", "md", "csv"}, default "jsonl"
        "txt" writes readable conversations with outcome and scores. "jsonl" writes one object per
        conversation, i.e. per path from the seed prompt to a last turn. "md" writes conversations
        as Markdown; messages are fenced so that they can neither close the fence nor act as markup
        or links, and non-printing characters are escaped. "csv" writes one row per turn, with a
        column ``score:NAME`` per scorer and the category and topic of known ``prompts``; node ids
        start with "n" so that they are not read as numbers, and strings that a spreadsheet would
        interpret as a formula are prefixed with an apostrophe. Secrets are redacted from reasons.
    failed_only : bool, default False
        Whether to include only conversations in which the target failed.
    unit : str, optional
        Unit id of a seed prompt; only its rollouts are included.
    part : str, optional
        Part of the ``prompts``, such as "category=rude"; only its rollouts are included.
    prompts : iterable of SeedPrompt
        Seed prompts of the rollouts, as returned by `seeds_of`.

    Yields
    ------
    str
        Complete lines.

    Raises
    ------
    InvalidInputError
        If the format is unknown, or there is no such unit or part.

    Examples
    --------
    >>> graph = Graph("Be rude", [Node("Be rude", "Please?", "No.", event=False)], "u1")
    >>> (line,) = transcripts([graph])
    >>> json.loads(line)["messages"]
    [{'role': 'user', 'content': 'Please?'}, {'role': 'assistant', 'content': 'No.'}]
    >>> print("".join(transcripts([graph], "csv")))
    unit_id,attempt,node_id,parent_id,turn,weight,attack,seed_prompt,probe,response,status,...
    u1,1,n0,,1,1.0,,Be rude,Please?,No.,ok,,False,,
    <BLANKLINE>
    """
    validation.choice(format, "format", TRANSCRIPT_FORMATS)
    known = {prompt.id: prompt for prompt in prompts}
    everything = list(graphs)
    selected = _wanted(_of_part(everything, part, known), failed_only, unit)
    if format == "csv":
        return _csv_lines(selected, known)
    if format == "txt":
        return _texts(selected, sum(len(graph.paths() or [[]]) for graph in everything))
    return {"jsonl": _json_lines, "md": _markdown}[format](selected)


def write_transcripts(
    graphs: Iterable[Graph[Any, Any]],
    path: str | Path,
    format: str | None = None,  # noqa: A002 - what the option is called
    **selection: Any,
) -> Path:
    """Write rollouts to a text file atomically.

    Parameters
    ----------
    graphs : iterable of Graph
        Rollouts.
    path : path
        Output file; replaced if it exists.
    format : {"txt", "jsonl", "md", "csv"}, optional
        File format; by default, inferred from the file name.
    **selection
        ``failed_only``, ``unit``, ``part`` and ``prompts``, as in `transcripts`.

    Returns
    -------
    Path
        ``path``.

    Raises
    ------
    InvalidInputError
        As in `transcripts`, or if the format cannot be inferred from the file name.
    ArtifactError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> graph = Graph("Be rude", [Node("Be rude", "Please?", "No.")], "u1")
    >>> write_transcripts([graph], tempfile.mkdtemp() + "/transcripts.md").read_text().splitlines()[0]
    '# Transcripts'
    """
    target = Path(path)
    chosen = _SUFFIXES.get(target.suffix.lower()) if format is None else format
    if chosen is None:
        raise InvalidInputError(
            f"{target}: cannot infer the format from the name; use .txt, .jsonl, .md or "
            ".csv, or pass `format`"
        )
    pieces = transcripts(graphs, chosen, **selection)
    try:
        with (
            replace_atomic(target) as temporary,
            temporary.open("w", encoding="utf-8", newline="") as stream,
        ):
            stream.writelines(pieces)
    except OSError as error:
        raise ArtifactError(f"{target}: cannot write: {error.strerror or error}") from error
    return target


# --- selection ------------------------------------------------------------------------------------


def _of_part(
    graphs: list[_Graph], part: str | None, prompts: Mapping[str, SeedPrompt]
) -> list[_Graph]:
    """Select the rollouts whose seed prompts belong to a part."""
    if part is None:
        return graphs
    pairs = parse_part(part)
    for name in pairs:
        validation.choice(name, "part", _PARTS)

    def wanted(prompt: SeedPrompt | None) -> bool:
        return all(_part(prompt, name) == value for name, value in pairs.items())

    found = [graph for graph in graphs if wanted(prompts.get(graph.unit_id))]
    if not found:
        name = next(iter(pairs), "category")
        values = dict.fromkeys(_part(prompt, name) for prompt in prompts.values())
        raise InvalidInputError(
            f"`part` is {part!r}, which has no rollouts; "
            f"{nearest(pairs.get(name, ''), list(values))}"
        )
    return found


def _wanted(graphs: Sequence[_Graph], failed_only: bool, unit: str | None) -> list[_Told]:
    for graph in graphs:
        graph.relink()  # ids may be outdated if nodes were added, and a cycle would not terminate
    if unit is not None:
        names = dict.fromkeys(graph.unit_id for graph in graphs)
        if unit not in names:
            some = ", ".join(map(repr, list(names)[:5])) + (" …" if len(names) > 5 else "")
            raise InvalidInputError(
                f"`unit` is {unit!r}, which does not exist; the units are {some or 'none'}"
            )
        graphs = [graph for graph in graphs if graph.unit_id == unit]
    if failed_only:
        failed = ((graph, [p for p in graph.paths() if _first_event(p)]) for graph in graphs)
        return [(graph, paths) for graph, paths in failed if paths]
    return [(graph, graph.paths() or [[]]) for graph in graphs]


def _first_event(path: Sequence[_Node]) -> int | None:
    return next((node.depth for node in path if node.event), None)


def _ended(path: Sequence[_Node]) -> tuple[str, str]:
    """Return the final status of a conversation and its reason."""
    return (path[-1].status, _why(path[-1])) if path else ("skipped", _NO_TURN)


def _why(node: _Node) -> str:
    """Return the reason of a turn, redacting secrets that exception messages may contain."""
    return str(redact_secrets(node.reason))


def _unscored(node: _Node) -> dict[str, str]:
    """Return the reasons for missing scores, with secrets redacted."""
    return dict(redact_secrets(node.unscored, keys=False))


def _seed_prompt(graph: _Graph) -> str:
    context = graph.context
    return context.goal if isinstance(context, Conversation) else str(context)


def _messages(graph: _Graph, path: Sequence[_Node]) -> list[Message]:
    """Return the messages seen by the target, including the seed prompt if it was shown."""
    if path:
        return list(graph.conversation(path[-1]))
    return list(graph.context.messages) if isinstance(graph.context, Conversation) else []


# --- JSON lines -----------------------------------------------------------------------------------


def _json_lines(told: Iterable[_Told]) -> Iterator[str]:
    for graph, paths in told:
        for path in paths:
            yield _json(_conversation(graph, path)) + "\n"


def _conversation(graph: _Graph, path: Sequence[_Node]) -> dict[str, Any]:
    status, reason = _ended(path)
    return {
        "unit_id": graph.unit_id,
        "attempt": graph.attempt,
        "seed_prompt": _seed_prompt(graph),
        "nodes": [node.id for node in path],
        "weight": path[-1].weight if path else 1.0,
        "messages": [message.to_dict() for message in _messages(graph, path)],
        "turns": [_turn(node) for node in path],
        "first_event_turn": _first_event(path),
        "status": status,
        "reason": reason,
    }


def _turn(node: _Node) -> dict[str, Any]:
    return {
        "turn": node.depth,
        "attack": node.attack,
        "scores": node.scores,
        "unscored": _unscored(node),
        "event": node.event,
        "echo": node.echo,
        "reward": node.reward,
        "status": node.status,
        "reason": _why(node),
    }


def _json(payload: dict[str, Any]) -> str:
    clean = plain(payload)
    text = json.dumps(clean, ensure_ascii=False, allow_nan=False)
    # only escapes can represent lone surrogates
    return text if whole_text(text) == text else json.dumps(clean, allow_nan=False)


# --- CSV ------------------------------------------------------------------------------------------


def _csv_lines(told: Sequence[_Told], prompts: Mapping[str, SeedPrompt]) -> Iterator[str]:
    rows = [(graph, node) for graph, paths in told for node in _each_once(paths)]
    scorers = dict.fromkeys(name for _, node in rows if node is not None for name in node.scores)
    parts = [name for name in _PARTS if any(_part(one, name) for one in prompts.values())]
    yield _csv_line([*_CSV, *(f"score:{name}" for name in scorers), *parts])
    for graph, node in rows:
        values = [_part(prompts.get(graph.unit_id), name) for name in parts]
        yield _csv_line([*_csv_row(graph, node, scorers), *values])


def _part(prompt: SeedPrompt | None, name: str) -> str:
    """Return the category, topic or safety of a seed prompt, or "" if unknown."""
    value = getattr(prompt, name, None)
    return "" if value is None else str(value)


def _each_once(paths: Iterable[Sequence[_Node]]) -> list[_Node | None]:
    """Return the distinct turns of conversations, which may share initial turns."""
    found = {node.id: node for path in paths for node in path}
    return list(found.values()) or [None]


def _csv_row(graph: _Graph, node: _Node | None, scorers: Iterable[str]) -> list[Any]:
    rollout = [graph.unit_id, graph.attempt]
    if node is None:  # a rollout that never started has a row, too
        blanks = [None] * 2
        seed = [0, 1.0, "", _seed_prompt(graph)]
        ended = ["skipped", _NO_TURN, *[None] * 3, *(None for _ in scorers)]
        return [*rollout, "", None, *seed, *blanks, *ended]
    parent = None if node.parent is None else f"n{node.parent.id}"
    place = [f"n{node.id}", parent, node.depth, node.weight, node.attack, _seed_prompt(graph)]
    cells = [node.probe, node.response, node.status, _why(node)]
    found = [node.event, node.echo, node.reward]
    return [*rollout, *place, *cells, *found, *(node.scores.get(name) for name in scorers)]


def _csv_line(cells: Iterable[Any]) -> str:
    stream = io.StringIO(newline="")
    written = [csv_text(str(c)) if isinstance(c, str) else c for c in cells]
    # the writer quotes only line terminators: with "\n", a "\r" in a text would break its row
    csv.writer(stream, lineterminator="\r\n").writerow(written)
    return stream.getvalue().removesuffix("\r\n") + "\n"


# --- text -----------------------------------------------------------------------------------------


def _texts(told: Sequence[_Told], n_all: int) -> Iterator[str]:
    empty = True
    n_told = sum(len(paths) for _, paths in told)
    for graph, paths in told:
        chain = graph.is_chain
        for path in paths:
            branch = f", path {_line(path[-1].id)}" if path and not chain else ""
            again = f", rollout {graph.attempt}" if graph.attempt > 1 else ""
            lines = [f"{_line(graph.unit_id)}{again}{branch}: {_line(_seed_prompt(graph))}"]
            lines += [line for node in path for line in _message_lines(node)]
            status, reason = _ended(path)
            lines += [] if path else [f"  {status}: {_line(reason)}"]
            yield "\n".join([*([] if empty else [""]), *lines, f"  {_outcome(path)}", ""])
            empty = False
    if empty:
        yield "No conversations to show.\n"
    elif n_told < n_all:
        yield f"\n{n_told:,} of {n_all:,} conversations\n"


def _message_lines(node: _Node) -> Iterator[str]:
    """Yield the messages of a turn with their speakers, followed by the scores of the reply."""
    # scores of probes and of categories are in the other formats
    named = {name: score for name, score in node.scores.items() if not {":", "/"} & {*name}}
    scores = [f"{_line(name)} {score:.3g}" for name, score in named.items()]
    for who, said in (("tester", node.probe), ("target", node.response)):
        text = _printable("(no answer)" if said is None else str(said), keep="\n\t")
        yield f"  {who}: {text.strip().replace(chr(10), chr(10) + ' ' * 10)}"
    if scores:
        yield f"          [{', '.join(scores)}]"
    if node.status not in ("ok", "ended"):
        yield f"          {node.status}: {_line(_why(node))}"


def _line(text: str) -> str:
    return _printable(" ".join(str(text).split()), keep="")


# --- Markdown -------------------------------------------------------------------------------------


def _markdown(told: Iterable[_Told]) -> Iterator[str]:
    yield "# Transcripts\n"
    empty = True
    for graph, paths in told:
        chain = graph.is_chain
        for path in paths:
            empty = False
            yield _section(graph, path, chain=chain)
    if empty:
        yield "\nNo conversations to show.\n"


def _section(graph: _Graph, path: Sequence[_Node], *, chain: bool) -> str:
    status, reason = _ended(path)
    branch = f", path {_code(path[-1].id)}" if path and not chain else ""
    lines = [
        f"\n## {_code(graph.unit_id) or 'no id'}, rollout {graph.attempt}{branch}\n",
        f"{_outcome(path)}\n",
        f"**Seed prompt**\n\n{_fenced(_seed_prompt(graph))}",
    ]
    lines += [_turn_section(node) for node in path]
    if not path:
        lines.append(f"{status}: {_code(reason)}\n")
    return "\n".join(lines)


def _outcome(path: Sequence[_Node]) -> str:
    turn = _first_event(path)
    if turn is not None:
        return f"The target failed in turn {turn}."
    known = [node.event for node in path if node.event is not None]
    n_unknown = len(path) - len(known)
    if path and not n_unknown:
        return f"The target did not fail in {len(path)} turn{'s' * (len(path) > 1)}."
    return f"It is unknown whether the target failed (no verdict for {n_unknown} of {len(path)} turns)."


def _turn_section(node: _Node) -> str:
    by = f", by {_code(node.attack)}" if node.attack else ""
    parts = [f"### Turn {node.depth}{by}\n", f"**Tester**\n\n{_said(node.probe)}"]
    parts.append(f"**Target**\n\n{_said(node.response)}")
    facts = [f"{_code(name)}: {score:.4g}" for name, score in node.scores.items()]
    facts += [f"{_code(name)}: {_code(why)}" for name, why in _unscored(node).items()]
    if node.event is not None:
        echo = " (it repeats the tester)" if node.echo else ""
        facts.append(f"failure: {'yes' if node.event else 'no'}{echo}")
    if node.reward is not None:
        facts.append(f"reward: {node.reward:.4g}")
    if node.status != "ok":
        facts.append(f"status: {_code(node.status)}, {_code(_why(node)) or 'no reason'}")
    if facts:
        parts.append("\n".join(f"- {fact}" for fact in facts) + "\n")
    return "\n".join(parts)


def _said(value: Any) -> str:
    if value is None:
        return "nothing\n"
    text = str(value)
    return _fenced(text) if text else "an empty text\n"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def _fenced(text: str) -> str:
    """Wrap a text in a code fence that its content cannot close."""
    printable = _printable(text.replace("\r\n", "\n"), keep="\n\t")
    fence = "`" * max(3, _longest_run(printable) + 1)
    return f"{fence}text\n{printable}\n{fence}\n"


def _code(text: str) -> str:
    """Format a string as inline code on one line, so that markup and links have no effect."""
    printable = _printable(" ".join(str(text).split()), keep="")
    if not printable:
        return ""
    ticks = "`" * (_longest_run(printable) + 1)
    pad = " " if printable[0] == "`" or printable[-1] == "`" else ""
    return f"{ticks}{pad}{printable}{pad}{ticks}"


def _printable(text: str, *, keep: str) -> str:
    """Escape non-printing characters so that terminals do not interpret them."""
    return "".join(
        c
        if c.isprintable() or c in keep or c in _JOINERS or unicodedata.category(c) == "Zs"
        else c.encode("unicode_escape").decode()
        for c in text
    )
