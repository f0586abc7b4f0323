"""Requests and answers of HELM, by instance."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eval_toolkit.errors import ArtifactError
from eval_toolkit.integrations.importing import helm_stats
from eval_toolkit.integrations.importing.helm_stats import Key
from eval_toolkit.integrations.importing.items import (
    item_group,
    item_input,
    item_parts,
    item_target,
)
from eval_toolkit.integrations.importing.options import Wanted
from eval_toolkit.integrations.importing.plain_files import (
    as_list,
    as_mapping,
    list_or_empty,
    load_json,
    number_or_none,
    text_or_none,
)


def key_of(each: Mapping[str, Any], where: str) -> Key:
    """Return the key of an attempt; raise a one-line error if it is invalid."""
    name, trial = each.get("instance_id"), each.get("train_trial_index", 0)
    if not isinstance(name, str) or not name:
        raise ArtifactError(f"{where}: 'instance_id' must be a non-empty string, got {name!r:.40}")
    if not isinstance(trial, int) or isinstance(trial, bool) or trial < 0:
        raise ArtifactError(
            f"{where}: 'train_trial_index' must be an integer of at least 0, got {trial!r:.40}"
        )
    return Key(name, helm_stats.perturbation(each.get("perturbation"), where), trial)


def requests_of(path: Path, wanted: Wanted, notes: list[str]) -> dict[Key, list[Mapping[str, Any]]]:
    """Return the requests of every instance and trial; more than one if each choice has its own."""
    if not wanted.samples:
        return {}
    if not path.is_file():
        notes.append(f"{path.name} is missing: no prompts, answers or targets")
        return {}
    told = as_mapping(load_json(path), str(path))
    found: dict[Key, list[Mapping[str, Any]]] = defaultdict(list)
    for at, row in enumerate(as_list(told.get("request_states"), f"{path}: 'request_states'"), 1):
        where = f"{path}: request {at}"
        state = as_mapping(row, where)
        instance = as_mapping(state.get("instance"), f"{where}: 'instance'")
        about = {"instance_id": instance.get("id"), "perturbation": instance.get("perturbation")}
        key = key_of({**state, **about}, where)
        if state.get("request_mode") == "calibration":
            continue
        if key in found and state.get("reference_index") is None:
            raise ArtifactError(f"{where}: {key.instance} occurs twice in trial {key.trial}")
        found[key].append(state)
    return dict(found)


def asked(
    states: Sequence[Mapping[str, Any]], predicted: int | None, wanted: Wanted, where: str
) -> dict[str, Any]:
    """Return the fields of a sample other than its values."""
    if not states:
        return {}
    state = states[0]
    instance = as_mapping(state.get("instance"), f"{where}: 'instance'")
    request = as_mapping(state.get("request") or {}, f"{where}: 'request'")
    doc = {**dict(instance), "input": _text(instance.get("input"))}
    references = [r for r in list_or_empty(instance.get("references")) if isinstance(r, Mapping)]
    texts = [_text(reference.get("output")) for reference in references]
    right = [
        text
        for text, reference in zip(texts, references, strict=True)
        if "correct" in list_or_empty(reference.get("tags")) and text is not None
    ]
    target = item_target(doc, wanted, where=where)
    response, error = _answer(state)
    if len(states) > 1:  # one request per choice: no text is generated
        won = predicted if predicted is not None else -1
        response = texts[won] if 0 <= won < len(texts) else None
    return {
        "split": text_or_none(instance.get("split")),
        "input": item_input(doc, wanted, where=where),
        "target": target if target is not None else right[0] if len(right) == 1 else right or None,
        "group": item_group(doc, wanted, where=where),
        "parts": item_parts(doc, wanted, where=where),
        "prompt": text_or_none(request.get("prompt")),
        "response": response,
        "error": error,
    }


def _text(value: Any) -> str | None:
    """Return the text of an input or output: an object, or a string in older releases."""
    return text_or_none(value.get("text") if isinstance(value, Mapping) else value)


def _answer(state: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the first completion, or the reason why it is missing."""
    result = state.get("result")
    if not isinstance(result, Mapping):
        return None, "HELM stored no result for this request"
    completions = list_or_empty(result.get("completions"))
    first = completions[0] if completions else None
    text = _text(first) if first is not None else None
    if result.get("success") is False:
        return text or None, str(result.get("error") or "the request failed")[:500]
    return text, None if text is not None else "the result has no completion"


def tell_requests(states: Mapping[Key, Sequence[Mapping[str, Any]]], notes: list[str]) -> None:
    """Add notes on properties of the requests that are not visible in the stats."""
    unmapped = mapped = several = 0
    for requests in states.values():
        several += len(requests) > 1
        text, _ = _answer(requests[0])
        letters = requests[0].get("output_mapping")
        if isinstance(letters, Mapping) and letters and text is not None:
            mapped += 1
            unmapped += text.strip() not in letters
    if mapped:
        notes.append(
            f"{mapped} answers are letters of choices; HELM compares the text of the choice with the "
            f"target ({unmapped} answers are not one of these letters)"
        )
    if several:
        notes.append(
            f"{several} instances have one request per choice; the log-probabilities of the choices "
            "are not stored separately from the prompt's, so only the winning choice is imported"
        )


def created(states: Mapping[Key, Sequence[Mapping[str, Any]]]) -> str:
    """Return the time of the last request in ISO 8601; "" if unknown."""
    times = []
    for requests in states.values():
        for state in requests:
            result = state.get("result")
            told = result.get("request_datetime") if isinstance(result, Mapping) else None
            times.append(number_or_none(told) or -math.inf)
    last = max(times, default=-math.inf)
    try:
        return datetime.fromtimestamp(last, UTC).isoformat() if math.isfinite(last) else ""
    except (OverflowError, OSError, ValueError):
        return ""
