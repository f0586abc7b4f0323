"""Convert Inspect samples to logged samples."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from eval_toolkit._internal.plain import whole_text
from eval_toolkit._internal.redaction import redact_secrets
from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.graders.base import Grade
from eval_toolkit.integrations.importing.inspect_values import (
    UNSCORED,
    as_value,
    columns_of,
    is_right_or_wrong,
)
from eval_toolkit.integrations.importing.items import (
    as_text,
    item_group,
    item_input,
    item_parts,
    item_target,
)
from eval_toolkit.integrations.importing.logs import LoggedSample, Value
from eval_toolkit.integrations.importing.options import Wanted
from eval_toolkit.models.messages import Message, Role

_CUT = "...\n(content truncated)"
"""Suffix of strings that Inspect truncates in its summaries."""
_REMOVED = "Key removed from summary (> 1k)"
_REFERENCES = ("attachment://", "tc://")
"""Prefixes of references to text stored elsewhere in the sample; the second was used until 2024."""
_LONGEST_ERROR = 2_000
_CANCELLED = "CancelledError("


@dataclass(slots=True)
class ParsedSample:
    """Parsed sample, before the columns of the log are known."""

    fields: dict[str, Any]
    """Fields of `LoggedSample` except the values."""
    values: dict[str, Value] = field(default_factory=dict)
    scorers: dict[str, str] = field(default_factory=dict)
    """Name of the scorer, by column."""
    unscored: dict[str, str] = field(default_factory=dict)
    """Reasons for missing values, by scorer."""
    unsure: set[str] = field(default_factory=set)
    """Columns with a non-binary value in this sample."""
    error: str | None = None
    limit: str | None = None
    cancelled: bool = False
    """Whether the sample was cancelled because another sample failed."""


def read_sample(raw: Any, where: str, wanted: Wanted, model: str, scorer: str) -> ParsedSample:
    """Read a sample, or its summary, which has neither messages nor output.

    Only tokens of ``model`` are counted. ``scorer`` is used for scores in the oldest logs, which do
    not name their scorer.
    """
    sample = as_object(raw, where)
    unit_id, epoch = sample.get("id"), sample.get("epoch", 1)
    if isinstance(unit_id, bool) or not isinstance(unit_id, (str, int)):
        raise ArtifactError(f"{where}: `id` is {unit_id!r:.60}; it must be a string or an integer")
    if isinstance(epoch, bool) or not isinstance(epoch, int) or epoch < 1:
        raise ArtifactError(
            f"{where}: `epoch` is {epoch!r:.60}; it must be an integer of at least 1"
        )
    where = f"{where}: sample {unit_id!r:.60}"
    texts = _attachments(sample, where)
    fields = {
        "unit_id": whole_text(str(unit_id)),
        "attempt": epoch,
        "usage": _usage(sample, model, where),
        **_item(sample, texts, wanted, where),
    }
    if wanted.samples:
        fields["prompt"] = _prompt(sample.get("messages"), texts, where)
        fields["response"] = _response(sample.get("output"), texts, where)
    found = ParsedSample(fields, error=_error(sample), limit=_limit(sample.get("limit")))
    if found.error is not None and found.error.startswith(_CANCELLED):
        found.error, found.cancelled = None, True
    scores = sample.get("scores") or {}
    if not scores and sample.get("score") is not None:
        scores = {scorer: sample["score"]}
    add_scores(found, scores, where)
    return found


def add_scores(found: ParsedSample, scores: Any, where: str) -> None:
    """Add the columns for the scores of a sample, by scorer."""
    for name, score in as_object(scores, f"{where}: `scores`").items():
        given = as_object(score or {}, f"{where}: the score {name!r:.60}")
        value, scorer = given.get("value"), whole_text(name)
        if isinstance(value, float) and math.isnan(value):
            reason = given.get("reason") or given.get("explanation")
            found.unscored[scorer] = f": {whole_text(reason)[:200]}" if _is_text(reason) else ""
            continue
        for column, one in columns_of(scorer, value).items():
            if column in found.values:
                raise ArtifactError(f"{where}: two scores have the name {column!r:.60}")
            found.values[column] = as_value(one)
            found.scorers[column] = scorer
            if not is_right_or_wrong(one):
                found.unsure.add(column)


def logged_samples(
    found: Sequence[ParsedSample], scorers: Sequence[str]
) -> tuple[list[LoggedSample], frozenset[str]]:
    """Return the samples, each with every column, and the binary columns.

    ``scorers`` are the names in the header, which are needed if all samples failed.
    """
    homes = {column: name for one in found for column, name in one.scorers.items()}
    named = set(homes.values())
    # A scorer without any value still has a column.
    homes |= {name: name for one in found for name in one.unscored if name not in named}
    if not homes and any(one.error for one in found):
        homes = {name: name for name in scorers}
    samples = []
    for one in found:
        values = {
            column: one.values[column] if column in one.values else _absent(one, scorer)
            for column, scorer in homes.items()
        }
        scored = any(isinstance(value, float) for value in values.values())
        error = None if scored else one.error
        samples.append(LoggedSample(**one.fields, values=values, error=error))
    unsure = {column for one in found for column in one.unsure}
    scored_columns = {column for one in found for column in one.values}
    return samples, frozenset(scored_columns - unsure)


def _absent(found: ParsedSample, scorer: str) -> Grade:
    """Return the reason why a sample has no value for a scorer."""
    if scorer in found.unscored:
        return Grade.skipped(UNSCORED + found.unscored[scorer])
    if found.error is not None:
        return Grade.error(found.error)
    if found.cancelled:
        return Grade.skipped(
            f"{UNSCORED}: the sample was cancelled when the evaluation was stopped"
        )
    ended = f"; the sample reached a limit: {found.limit}" if found.limit else ""
    return Grade.skipped(f"{UNSCORED}: the log has no score from {scorer!r} for this sample{ended}")


def shortened(sample: Mapping[str, Any], wanted: Wanted) -> bool:
    """Return whether a summary lacks or truncates a requested field.

    Examples
    --------
    >>> shortened({"metadata": {"topic": "a"}}, Wanted(group_field="topic"))
    False
    >>> shortened({"metadata": {}}, Wanted(group_field="topic"))
    True
    """
    metadata = sample.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    fields = (wanted.input_field, wanted.target_field, wanted.group_field, *wanted.by)
    return any(
        name not in metadata or is_thinned(metadata[name])
        for name in fields
        if name is not None and name not in ("input", "target", "id")
    )


def is_thinned(value: Any) -> bool:
    """Return whether Inspect has shortened a string in a summary.

    Examples
    --------
    >>> is_thinned("Key removed from summary (> 1k)"), is_thinned("short")
    (True, False)
    """
    return isinstance(value, str) and (value == _REMOVED or value.endswith(("...", _CUT)))


def _item(
    sample: Mapping[str, Any], texts: Mapping[str, str], wanted: Wanted, where: str
) -> dict[str, Any]:
    """Return the item of a sample: input, target, group and parts."""
    asked = _input(sample.get("input"), texts, where)
    target = sample.get("target")
    if isinstance(target, list):
        target = [whole_text(as_text(one)) for one in target]
    elif target is not None:
        target = whole_text(as_text(target))
    row = dict(as_object(sample.get("metadata") or {}, f"{where}: `metadata`"))
    row |= {"id": sample.get("id"), "input": asked, "target": target}
    try:
        if wanted.input_field is not None:
            asked = item_input(row, wanted, where=where)
        if wanted.target_field is not None:
            target = item_target(row, wanted, where=where)
        group, parts = item_group(row, wanted, where=where), item_parts(row, wanted, where=where)
    except (ValueError, RecursionError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise ArtifactError(f"{where}: `metadata` cannot be read: {error}") from None
    if not wanted.samples:  # summaries contain only the beginning
        asked = None if asked is not None and asked.endswith(_CUT) else asked
    return {"input": asked, "target": target, "group": group, "parts": parts}


def _input(given: Any, texts: Mapping[str, str], where: str) -> str | None:
    """Return the input as a string; messages are joined with their roles.

    All messages are included, because items may share the final question.
    """
    if given is None or isinstance(given, str):
        return None if given is None else whole_text(_resolved(given, texts))
    messages = _messages(given, f"{where}: `input`")
    said = [_text(one.get("content"), texts, where) for one in messages]
    if len(said) == 1:
        return said[0]
    lines = (f"{one.get('role')}: {text}" for one, text in zip(messages, said, strict=True))
    return whole_text("\n".join(lines)) or None


def _prompt(given: Any, texts: Mapping[str, str], where: str) -> tuple[Message, ...] | None:
    """Return the prompt: the messages before the last answer."""
    if not given:
        return None
    messages = _messages(given, f"{where}: `messages`")
    answers = [at for at, one in enumerate(messages) if one.get("role") == "assistant"]
    before = messages[: answers[-1]] if answers else messages
    return tuple(_message(one, texts, where) for one in before)


def _message(given: Mapping[str, Any], texts: Mapping[str, str], where: str) -> Message:
    role, text = given.get("role"), _text(given.get("content"), texts, where, marked=True)
    if role == "tool":
        return Message(Role.USER, f"[{given.get('function') or 'tool'}] {text}")
    if role not in ("system", "user", "assistant"):
        raise ArtifactError(
            f"{where}: a message has the role {role!r:.60}; it must be system, user, assistant or tool"
        )
    calls = given.get("tool_calls") if role == "assistant" else None
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, Mapping):
            arguments = as_text(call.get("arguments", {}))
            text += f"\n[calls {call.get('function')} {arguments}]"
    return Message(Role(role), whole_text(text.removeprefix("\n") if calls else text))


def _response(given: Any, texts: Mapping[str, str], where: str) -> str | None:
    """Return the last answer; None if there is none."""
    output = as_object(given or {}, f"{where}: `output`")
    choices = output.get("choices")
    if not isinstance(choices, list) or not choices:
        return None
    message = as_object(choices[0], f"{where}: the output").get("message")
    content = as_object(message or {}, f"{where}: the output's message").get("content")
    return _text(content, texts, where)


def _text(content: Any, texts: Mapping[str, str], where: str, *, marked: bool = False) -> str:
    """Return the text of a message; with ``marked``, other content is given as ``[type]``."""
    if content is None or isinstance(content, str):
        return whole_text(_resolved(content or "", texts))
    pieces = []
    for part in _messages(content, f"{where}: a message's content"):
        kind = part.get("type")
        if kind == "text" and isinstance(part.get("text"), str):
            pieces.append(_resolved(part["text"], texts))
        elif marked and kind != "reasoning":
            pieces.append(f"[{kind}]")
    return whole_text("\n".join(pieces))


def _attachments(sample: Mapping[str, Any], where: str) -> Mapping[str, str]:
    given = sample.get("attachments")
    if given is None and isinstance(sample.get("transcript"), Mapping):
        given = sample["transcript"].get("content")
    return as_object(given or {}, f"{where}: `attachments`")


def _resolved(text: str, texts: Mapping[str, str]) -> str:
    for reference in _REFERENCES:
        if text.startswith(reference):
            there = texts.get(text.removeprefix(reference))
            return there if isinstance(there, str) else text
    return text


def _usage(sample: Mapping[str, Any], model: str, where: str) -> dict[str, Any]:
    """Return the token usage of the evaluated model, without judge models."""
    of_models = as_object(sample.get("model_usage") or {}, f"{where}: `model_usage`")
    output = sample.get("output")
    usage = of_models.get(model) or (output.get("usage") if isinstance(output, Mapping) else None)
    if not isinstance(usage, Mapping):
        return {}
    written, total = _count(usage.get("output_tokens")), _count(usage.get("total_tokens"))
    read = _count(usage.get("input_tokens"))
    if total is not None and written is not None and total >= written:
        read = total - written  # includes tokens from the provider's cache
    told = {"prompt_tokens": read, "completion_tokens": written, "cost": usage.get("total_cost")}
    return {name: value for name, value in told.items() if _is_amount(value)}


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _is_amount(value: Any) -> bool:
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and 0 <= value <= 2**53  # also rejects NaN
    )


def _error(sample: Mapping[str, Any]) -> str | None:
    given = sample.get("error")
    message = given.get("message") if isinstance(given, Mapping) else given
    if message is None and not isinstance(given, Mapping):
        return None
    said = " ".join(whole_text(as_text(message or "no message")).split())
    safe: str = redact_secrets(said[:_LONGEST_ERROR])
    return safe


def _limit(given: Any) -> str | None:
    kind = given.get("type") if isinstance(given, Mapping) else given
    return whole_text(kind) if _is_text(kind) else None


def _is_text(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value)


def as_object(value: Any, where: str) -> Mapping[str, Any]:
    """Return a JSON object; raise if the value is something else."""
    if not isinstance(value, Mapping):
        raise ArtifactError(f"{where} is a {type(value).__name__}; it must be an object")
    return value


def _messages(value: Any, where: str) -> list[Mapping[str, Any]]:
    if not isinstance(value, list):
        raise ArtifactError(f"{where} is a {type(value).__name__}; it must be a list")
    return [as_object(one, f"{where}: an entry") for one in value]
