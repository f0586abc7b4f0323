"""Default display of a unit: requests, answers and verdicts."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from eval_toolkit._internal.display import Table
from eval_toolkit._internal.files import parse_json
from eval_toolkit._internal.words import number
from eval_toolkit.errors import ArtifactError, EvalToolkitError
from eval_toolkit.models.prices import money
from eval_toolkit.models.runner.jobs import JobResult
from eval_toolkit.runs.blocks import Block, Facts, Group, Message, Messages, Note, Text
from eval_toolkit.runs.kind_display import Shown
from eval_toolkit.runs.selected_units import StoredRequest, StoredUnit

_ANSWERED = "Requests and answers"
_TOO_LONG = Facts((("too long", "to be shown in full"),))


class UnknownKind(Shown):
    """Kind of evaluation that is not installed."""

    @classmethod
    def show(cls, unit: StoredUnit) -> Sequence[Block]:
        """Return the default blocks, and a note that the kind is not installed."""
        note = (
            f"The kind {unit.run.kind!r:.80} is not installed; this is the default display for all other "
            "kinds."
        )
        return [*default_blocks(unit), Note(note)]


def default_blocks(unit: StoredUnit) -> list[Block]:
    """Return blocks with the input, answers, reference and verdicts of a unit of any kind.

    JSON lists and objects of plain values are shown as tables.
    """
    requests = asked_of(unit)
    blocks: list[Block] = []
    for request in requests:
        outcome = request.outcome
        if outcome is None:
            blocks.append(request_group(request))
            continue
        blocks += _given(outcome)
        answer = getattr(outcome.response, "text", None)
        blocks += [] if answer is None else [_answer(answer)]
        blocks += _errors(outcome)
    with suppress(ArtifactError):  # an unreadable table is reported with the input
        right = unit.reference
        blocks += [] if right is None else [Text(right, "reference", "reference")]
    answered = [Group(_ANSWERED, tuple(blocks))] if blocks else []
    return [*input_blocks(unit, "Input"), *answered, *verdicts(unit), *hidden_requests(unit)]


def asked_of(unit: StoredUnit) -> list[StoredRequest]:
    """Return the requests to the evaluated system, without those to judges."""
    return [request for request in unit.requests if request.judge is None]


def input_blocks(unit: StoredUnit, title: str) -> list[Block]:
    """Return a block with the input of a unit, unless a prompt contains it."""
    try:
        text = unit.input
    except ArtifactError as error:  # requests and answers can still be shown
        return [Note(str(error), "error")]
    if text is None or any(text in sent for sent in _sent(unit)):
        return []
    return [Group(title, (Text(text, "input", "input"),))]


def _sent(unit: StoredUnit) -> list[str]:
    """Return all prompts for a unit as strings."""
    sent = []
    for request in unit.requests:
        prompt = request.prompt if request.outcome is None else request.outcome.job.request.prompt
        sent += [prompt] if isinstance(prompt, str) else [one.content for one in prompt]
    return sent


def prompt_blocks(outcome: JobResult) -> list[Block]:
    """Return blocks with a prompt as sent and, if different, as rendered by the model."""
    prompt = outcome.job.request.prompt
    shown = getattr(outcome.response, "prompt", "")
    blocks: list[Block]
    if isinstance(prompt, str):
        blocks = [Text(prompt, "Prompt as sent", "prompt")] if prompt else []
    else:
        rendered = (
            Message(role=str(one.role.value), text=one.content, replies=one.role == "assistant")
            for one in prompt
        )
        blocks = [Messages(tuple(rendered), "prompt")]
    if isinstance(shown, str) and shown and shown != prompt:
        inside = Text(shown, "With the chat template")
        blocks.append(Group("The prompt as the model received it", (inside,), folded=True))
    return blocks


def request_group(request: StoredRequest, title: str = "") -> Group:
    """Return a group of blocks with a request and its answer.

    The group contains the prompt, facts, the answer and the error. By default, the title is the
    step of the request.
    """
    outcome = request.outcome
    if outcome is None:
        blocks: list[Block] = [Text(request.prompt, "Prompt as sent", "prompt")]
        blocks = blocks if request.prompt else []
        blocks += [] if request.text is None else [_TOO_LONG, Text(request.text, "answer")]
    else:
        text = getattr(outcome.response, "text", None)
        blocks = [*facts_of(outcome), *prompt_blocks(outcome)]
        blocks += [] if text is None else [Text(text, "answer")]
        blocks += [Note("The answer is empty.")] if text == "" else []
    error = request.error if outcome is None else error_of(outcome)
    blocks += [Note(error, "error")] if error else []
    return Group(title or request.step or "Request", tuple(blocks))


def verdicts(unit: StoredUnit) -> list[Block]:
    """Return blocks with the verdicts of judges on a unit; their prompts are collapsed."""
    found = []
    for request in unit.requests:
        if request.judge is None:
            continue
        group = request_group(request, f"{request.judge} ({request.step})")
        if not unit.whole:
            texts = tuple(one for one in group.blocks if _is_text(one))
            shown = tuple(one for one in group.blocks if not _is_text(one))
            folded = Group("Request to the judge", shown, folded=True)
            group = Group(group.title, (*texts, folded))
        found.append(group)
    return [Group("Verdicts of judges", tuple(found))] if found else []


def _is_text(block: Block) -> bool:
    return isinstance(block, Note) or (isinstance(block, Text) and block.role == "")


def hidden_requests(unit: StoredUnit) -> list[Block]:
    """Return a note on the number of hidden requests, if any."""
    n = unit.n_requests - len(unit.requests)
    return [Note(f"{n:,} more requests are in responses.parquet.")] if n > 0 else []


def error_of(outcome: JobResult) -> str:
    """Return the reason why there is no answer; "" if there is one."""
    error = outcome.error or getattr(outcome.response, "error", None)
    if error is None:
        return "" if outcome.response is not None else "no answer"
    return f"{error.kind}: {error.message}"


def _errors(outcome: JobResult) -> list[Block]:
    error = error_of(outcome)
    return [Note(error, "error")] if error else []


def facts_of(
    outcome: JobResult, extra: Iterable[tuple[str, str]] = (), *, ended: bool = True
) -> list[Block]:
    """Return the known facts about an answer and its request."""
    told: dict[str, Any] = {}
    if outcome.response is not None:
        told["ended by"] = getattr(outcome.response, "finish_reason", None) if ended else None
        usage = outcome.response.usage
        counted = usage.total_tokens > 0  # logs of other tools may lack it
        told |= {
            "prompt tokens": f"{usage.prompt_tokens:,}" if counted else None,
            "completion tokens": f"{usage.completion_tokens:,}" if counted else None,
            "seconds": number(usage.latency_s, digits=2) if usage.latency_s else None,
            "cost": money(usage.cost) if usage.cost else None,
            "tries": usage.tries if usage.tries != 1 else None,
            "from the cache": "yes" if usage.cached else None,
        }
    params = outcome.job.request.to_dict()
    for name in ("temperature", "top_p", "max_tokens", "seed", "stop"):
        told[name.replace("_", " ")] = params.get(name)
    known = [(name, str(value)) for name, value in told.items() if value not in (None, [], ())]
    facts = (*known, *extra)
    return [Facts(facts)] if facts else []


# --- answers in JSON ------------------------------------------------------------------------------


def _given(outcome: JobResult) -> list[Block]:
    """Return blocks with the request or, for a function, its input."""
    prompt = outcome.job.request.prompt
    read = _json(prompt) if isinstance(prompt, str) else None
    if isinstance(read, str):
        return [Text(read, "input", "input")]
    return prompt_blocks(outcome)


def _answer(text: str) -> Block:
    """Return an answer as a table if it is a list or table of plain values, else as text."""
    read = _json(text)
    if isinstance(read, str):
        return Text(read, "Answer", "answer")
    if isinstance(read, list) and read and all(map(_is_plain, read)):
        ranked = [[f"{at}.", _cell(one)] for at, one in enumerate(read, 1)]
        return Table(["rank", "answer"], ranked)
    if isinstance(read, Mapping) and read and all(map(_is_plain, read.values())):
        return Table(["name", "answer"], [[str(key), _cell(one)] for key, one in read.items()])
    return Text(text, "Answer", "answer")


def _json(text: str) -> Any:
    try:
        return parse_json(text, "an answer", strict=False)
    except EvalToolkitError:
        return None


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _cell(value: Any) -> Any:
    return "" if value is None else str(value) if isinstance(value, bool) else value
