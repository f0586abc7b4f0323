"""Read lm-eval's ``samples_*.jsonl``: one line per document and filter, merged by document."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_toolkit._internal.files import open_regular, parse_json
from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.graders.base import Grade
from eval_toolkit.integrations.importing.items import (
    as_text,
    item_group,
    item_input,
    item_parts,
    item_target,
)
from eval_toolkit.integrations.importing.logs import ChoiceScore, LoggedSample, Value
from eval_toolkit.integrations.importing.options import Wanted
from eval_toolkit.models.messages import Message

BYPASS = "bypass"
"""Placeholder metric of runs that only generate answers."""

_NO_METRICS = frozenset(
    {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", BYPASS}
    | {"doc_hash", "prompt_hash", "target_hash"}
)
_UNFILLED = Grade.skipped("the log contains no value")
_NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Samples:
    """Parsed content of a samples file."""

    samples: Sequence[LoggedSample]
    columns: Sequence[str]
    """Columns with a value per document."""
    corpus: frozenset[str]
    """Columns whose reported value is not the mean over documents."""
    n_repeats: int
    notes: Sequence[str]


@dataclass(slots=True)
class _Item:
    """A document, with the values of all filters."""

    line: int
    sample: LoggedSample
    values: dict[str, Value]
    """Values of the sample, collected from the lines of all filters."""
    filters: set[str]


def read_samples(
    path: Path,
    wanted: Wanted,
    *,
    shots: int | None,
    averaged: Callable[[str], bool],
    column_of: Callable[[str, str], str],
) -> Samples:
    """Read a samples file.

    ``averaged`` returns whether a metric is the mean of its values, and ``column_of`` the column
    for a metric and a filter. Raises if the same document and filter occur twice.
    """
    items: dict[str, _Item] = {}
    corpus: set[str] = set()
    n_repeats = 1
    for number, line in _lines(path):
        where = f"{path}: line {number}"
        if line.get("doc_id") is None:
            raise ArtifactError(f"{where}: has no 'doc_id'; not an lm-eval sample")
        key, filtered = as_text(line["doc_id"]), str(line.get("filter") or "none")
        item = items.get(key)
        if item is None:  # convert immediately: a parsed line is much larger
            values: dict[str, Value] = {}
            sample = _sample(where, key, line, values, wanted, shots)
            item = items[key] = _Item(number, sample, values, set())
            n_repeats = max(n_repeats, _repeats(line.get("resps")))
        if filtered in item.filters:
            raise ArtifactError(
                f"{where}: doc_id {key} with filter {filtered!r} occurs twice, first in line {item.line}"
            )
        item.filters.add(filtered)
        for metric, value in _metrics(line):
            column = column_of(metric, filtered)
            if isinstance(value, (list, dict)) or not averaged(metric):
                corpus.add(column)
            else:
                item.values[column] = _number(value, metric, where)
    if not items:
        raise ArtifactError(f"{path}: 0 samples; there is nothing to import")
    columns = list(dict.fromkeys(name for item in items.values() for name in item.values))
    for item in items.values():
        for name in columns if len(item.values) < len(columns) else ():
            item.values.setdefault(name, _UNFILLED)
    samples = [item.sample for item in items.values()]
    notes = list(_notes(corpus, n_repeats))
    if not columns and not corpus:
        notes.append("the samples have no scores")
    return Samples(samples, columns, frozenset(corpus), n_repeats, notes)


def _notes(corpus: set[str], n_repeats: int) -> Iterator[str]:
    if corpus:
        listed = ", ".join(sorted(corpus))
        yield f"{listed}: computed over all items together, not a mean over items; kept as reported"
    if n_repeats > 1:
        yield (
            f"every item has {n_repeats} answers but one value for all of them: they count as a "
            "single attempt, and the first answer is kept"
        )


def _lines(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        with open_regular(path) as file:
            for number, text in enumerate(file, 1):
                if text.isspace():
                    continue
                line = parse_json(text.rstrip(b"\n"), f"{path}: line {number}", strict=False)
                if not isinstance(line, dict):
                    raise ArtifactError(f"{path}: line {number}: is not a JSON object")
                yield number, line
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read: {error.strerror}") from error


def _metrics(line: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    named = line.get("metrics")
    if isinstance(named, list):
        return [
            (name, line[name])
            for name in named
            if isinstance(name, str) and name in line and name != BYPASS
        ]
    return [
        (name, value)
        for name, value in line.items()
        if name not in _NO_METRICS and isinstance(value, (int, float, list))
    ]


def _number(value: Any, metric: str, where: str) -> Value:
    if type(value) is float and math.isfinite(value):
        return value
    if value is None:
        return _UNFILLED
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, str) or not math.isfinite(number):
        raise ArtifactError(f"{where}: {metric} is {value!r:.40}; it must be a finite number")
    return number


def _sample(
    where: str,
    key: str,
    line: Mapping[str, Any],
    values: Mapping[str, Value],
    wanted: Wanted,
    shots: int | None,
) -> LoggedSample:
    doc = line.get("doc")
    row = doc if isinstance(doc, dict) else _NOTHING
    asked = _ModelInput.of(line, where)
    given = item_input(row, wanted, where=where)
    if given is None:
        given = asked.text if shots == 0 and asked.text else as_text(doc)
    target = item_target(row, wanted, where=where)
    correct = _right(line.get("target"), len(asked.choices))
    if target is None:
        target = asked.choices[correct].text.strip() if correct is not None else _target(line)
    return LoggedSample(
        unit_id=key,
        values=values,
        input=given,
        target=target,
        group=item_group(row, wanted, where=where) if wanted.group_field else None,
        parts=item_parts(row, wanted, where=where) if wanted.by else _NOTHING,
        prompt=asked.prompt,
        response=None if asked.choices else _answer(line.get("resps")),
        choices=asked.choices,
        correct=None if correct is None else (correct,),
    )


def _target(line: Mapping[str, Any]) -> Any:
    target = line.get("target")
    if target is None or isinstance(target, str):
        return target
    return [as_text(one) for one in target] if isinstance(target, list) else as_text(target)


def _right(target: Any, n_choices: int) -> int | None:
    """Return the index of the correct choice, which lm-eval writes as a string."""
    if n_choices < 2 or isinstance(target, bool):
        return None
    try:
        place = int(target)
    except (TypeError, ValueError):
        return None
    return place if 0 <= place < n_choices else None


def _answer(resps: Any) -> str | None:
    """Return the first generated text."""
    while isinstance(resps, list):
        if not resps:
            return None
        resps = resps[0]
    return None if resps is None else as_text(resps)


def _repeats(resps: Any) -> int:
    """Return the number of repeats of the first request; a (log-prob, flag) pair is one answer."""
    first = resps[0] if isinstance(resps, list) and resps else None
    if not isinstance(first, list) or not first:
        return 1
    return 1 if _is_score(first) else len(first)


def _is_score(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and str(value[1]) in ("True", "False")


@dataclass(frozen=True, slots=True)
class _ModelInput:
    """Input of the model: a prompt to continue, or continuations to score."""

    prompt: str | Sequence[Message] | None = None
    choices: Sequence[ChoiceScore] = ()

    @property
    def text(self) -> str:
        return self.prompt if isinstance(self.prompt, str) else ""

    @classmethod
    def of(cls, line: Mapping[str, Any], where: str) -> "_ModelInput":
        requests, resps = _requests(line.get("arguments")), line.get("resps")
        if not requests or not all(requests):  # without one, scores would be misaligned
            return cls()
        prompt, *rest = requests[0]
        if rest and not isinstance(rest[0], str):
            return cls(_prompt(prompt))
        scores = [_score(one, where) for one in resps] if isinstance(resps, list) else []
        if not rest:  # the whole text is scored, without a context
            number = scores[0] if scores else None
            return cls(None, () if number is None else (ChoiceScore(as_text(prompt), number[0]),))
        whole = all(len(one) > 1 for one in requests)
        return (_scored(requests, scores) if whole else None) or cls(_prompt(prompt))


def _scored(
    requests: Sequence[Sequence[Any]], scores: Sequence[tuple[float, bool | None] | None]
) -> _ModelInput | None:
    """Return the scored choices, without unconditional scores used for normalisation."""
    pairs = [
        (str(before), str(text), score)
        for (before, text, *_), score in zip(requests, scores, strict=False)
        if score is not None and text
    ]
    if pairs and pairs[0][0]:
        pairs = [pair for pair in pairs if pair[0]]
    if not pairs:
        return None
    prompts = [before for before, _, _ in pairs]
    common = prompts[0] if len(set(prompts)) == 1 else _common_start(prompts)
    return _ModelInput(
        common,
        tuple(ChoiceScore(before[len(common) :] + text, *score) for before, text, score in pairs),
    )


def _common_start(texts: Sequence[str]) -> str:
    low, high = min(texts), max(texts)
    differs = (at for at, (a, b) in enumerate(zip(low, high, strict=False)) if a != b)
    return low[: next(differs, len(low))]


def _requests(arguments: Any) -> list[list[Any]]:
    """Return the arguments of each request, stored by name, or in lists before 0.4.3."""
    if isinstance(arguments, dict):
        return [
            list(one.values()) if isinstance(one, dict) else [one] for one in arguments.values()
        ]
    if not isinstance(arguments, list):
        return []
    if arguments and not isinstance(arguments[0], list):
        return [arguments]
    return [one for one in arguments if isinstance(one, list) and one]


def _prompt(given: Any) -> str | Sequence[Message]:
    """Return a prompt, parsing chats that are stored as a JSON string in a list."""
    if isinstance(given, list) and len(given) == 1 and isinstance(given[0], str):
        given = given[0]
    if isinstance(given, str) and given.startswith("[{"):
        try:
            given = parse_json(given, "prompt", strict=False)
        except ArtifactError:
            return str(given)
    if not isinstance(given, list):
        return as_text(given)
    try:
        return tuple(Message(one["role"], as_text(one["content"])) for one in given)
    except (TypeError, KeyError, InvalidInputError):
        return as_text(given)


def _score(given: Any, where: str) -> tuple[float, bool | None] | None:
    """Return the log-likelihood and whether the continuation is greedy; both may be strings."""
    while isinstance(given, list) and given and (len(given) == 1 or isinstance(given[0], list)):
        given = given[0]  # the first of several repeats
    number, greedy = (given[0], given[1]) if _is_score(given) else (given, None)
    try:
        found = float(number)
    except (TypeError, ValueError):
        return None
    if math.isnan(found) or found == math.inf:
        raise ArtifactError(
            f"{where}: a log-likelihood is {number}; it must be a number below infinity"
        )
    return found, None if greedy is None else str(greedy) == "True"
