"""lighteval's details: one Parquet row per document, in three formats."""

import ast
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

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
from eval_toolkit.integrations.importing.plain_files import (
    as_prompt,
    finite,
    number_or_none,
    text_or_none,
)

_FLAT = (
    *("example", "instruction", "full_prompt", "predictions", "gold", "choices", "gold_index"),
    *("metrics", "specifics"),
)
_LONGEST_TEXT = 1_000_000
"""Maximum length of a cell with a Python literal; longer cells are not parsed."""

Row = dict[str, Any]
"""Document with the keys ``doc``, ``metric`` and ``model_response``."""


def read_details(path: Path, wanted: Wanted) -> tuple[list[LoggedSample], list[str]]:
    """Return the samples of a details file, with notes."""
    rows = _rows(path, wanted)
    columns, corpus = _columns(rows)
    ids = _ids(rows, path)
    samples = []
    for at, (row, (unit, attempt)) in enumerate(zip(rows, ids, strict=True), 1):
        where = f"{path}: row {at}"
        values = {name: _value(row["metric"].get(name), f"{where}: {name!r}") for name in columns}
        asked = _sample_fields(row, wanted, where) if wanted.samples else {}
        samples.append(LoggedSample(unit_id=unit, attempt=attempt, values=values, **asked))
    return samples, _notes(rows, samples, corpus) if wanted.samples else _corpus_note(corpus)


def _rows(path: Path, wanted: Wanted) -> list[Row]:
    """Return the rows in a common layout."""
    from eval_toolkit._internal.tables import column_names, read_table

    names = column_names(path)
    spelling = {
        part: next((name for name in (part, f"__{part}__") if name in names), None)
        for part in ("doc", "metric", "model_response")
    }
    if spelling["metric"] is None:
        if "metrics" not in names:
            raise ArtifactError(
                f"{path}: has neither 'metric' nor 'metrics'; not lighteval details"
            )
        kept = [name for name in _FLAT if name in names]
        table = {name: cells.tolist() for name, cells in read_table(path, columns=kept).items()}
        return [_from_flat(table, at, path) for at in range(len(table["metrics"]))]
    if spelling["doc"] is None:
        raise ArtifactError(f"{path}: has no column 'doc'; the lighteval details are incomplete")
    kept = [name for part, name in spelling.items() if name and _needed(part, wanted)]
    table = {name: cells.tolist() for name, cells in read_table(path, columns=kept).items()}
    found = []
    for at in range(len(table[spelling["metric"]])):
        where = f"{path}: row {at + 1}"
        row = {
            part: _struct(table[name][at], f"{where}: {name!r}") if name in table else {}
            for part, name in spelling.items()
        }
        found.append(row)
    return found


def _needed(part: str, wanted: Wanted) -> bool:
    return wanted.samples or part != "model_response"


def _struct(cell: Any, where: str) -> dict[str, Any]:
    """Return a struct cell, after parsing it if it was stored as a string."""
    value = _parsed(cell, where)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ArtifactError(f"{where} is {cell!r:.60}; it must be a struct")
    return dict(value)


def _native(cell: Any) -> Any:
    """Convert arrays to lists, recursively."""
    if isinstance(cell, np.ndarray):
        cell = np.ma.filled(cell.astype(object), None).tolist()
    return [_native(one) for one in cell] if isinstance(cell, list) else cell


def _parsed(cell: Any, where: str) -> Any:
    """Parse a Python literal, which lighteval writes for nested values that do not fit a column."""
    if not isinstance(cell, str):
        return _native(cell)
    if len(cell) > _LONGEST_TEXT:
        raise ArtifactError(f"{where} is a string of {len(cell)} characters, too long to be parsed")
    try:
        return ast.literal_eval(cell)  # literals only, no code is run
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise ArtifactError(f"{where} is {cell!r:.60}; it cannot be parsed") from None


def _from_flat(table: Mapping[str, Sequence[Any]], at: int, path: Path) -> Row:
    """Convert a row of the layout before 0.10 to the current layout."""
    row = {name: cells[at] for name, cells in table.items()}
    where = f"{path}: row {at + 1}"

    def cell(name: str) -> Any:
        value = row.get(name)
        is_text = name in ("example", "instruction", "full_prompt")
        return value if is_text else _parsed(value, f"{where}: {name!r}")

    choices, gold = _listed(cell("choices")), _listed(cell("gold"))
    index = _listed(cell("gold_index"))
    if not choices and gold:
        choices, index = gold, list(range(len(gold)))
    answers = _flattened(_listed(cell("predictions")))
    texts = [answer for answer in answers if isinstance(answer, str)]
    scored = _scored(_listed(cell("predictions")))
    return {
        "doc": {
            "query": text_or_none(cell("example")),
            "choices": choices,
            "gold_index": index,
            "specific": cell("specifics"),
            "id": "",
        },
        "metric": _struct(cell("metrics"), f"{where}: 'metrics'"),
        "model_response": {
            "input": text_or_none(cell("full_prompt")),
            "text": texts,
            "logprobs": [logprob for logprob, _ in scored],
            "argmax_logits_eq_gold": [greedy for _, greedy in scored],
        },
    }


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [] if value is None else [value]


def _flattened(values: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        found += value if isinstance(value, (list, tuple)) else [value]
    return found


def _scored(predictions: Sequence[Any]) -> list[tuple[float, bool | None]]:
    """Return the log-probabilities of choices, and whether each is greedy if known."""
    found: list[tuple[float, bool | None]] = []
    for one in predictions:
        pair = list(one) if isinstance(one, (list, tuple)) else [one]
        number = number_or_none(pair[0]) if pair and not isinstance(pair[0], bool) else None
        if number is None:
            return []
        greedy = bool(pair[1]) if len(pair) == 2 and pair[1] in (0, 1) else None
        found.append((number, greedy))
    return found


def _columns(rows: Sequence[Row]) -> tuple[list[str], list[str]]:
    """Return the metrics with a number per sample, and the inputs of corpus metrics."""
    names = list(dict.fromkeys(name for row in rows for name in row["metric"]))
    corpus = [
        name
        for name in names
        if any(isinstance(row["metric"].get(name), (dict, list, str)) for row in rows)
    ]
    plain = [name for name in names if name not in corpus]
    return [name for name in plain if any(_there(row, name) for row in rows)], corpus


def _there(row: Row, name: str) -> bool:
    return row["metric"].get(name) is not None


def _value(told: Any, where: str) -> Value:
    return Grade.skipped("lighteval reports no value") if told is None else finite(told, where)


def _ids(rows: Sequence[Row], path: Path) -> list[tuple[str, int]]:
    """Return unit and attempt of each row; a document is repeated for each few-shot seed."""
    told = [as_text(row["doc"].get("id")) if row["doc"].get("id") else "" for row in rows]
    if not all(told):
        return [(str(at), 1) for at in range(len(rows))]
    seen: Counter[str] = Counter()
    first: dict[str, Any] = {}
    found = []
    for at, (name, row) in enumerate(zip(told, rows, strict=True), 1):
        seen[name] += 1
        query = row["doc"].get("query")
        if first.setdefault(name, query) != query:
            raise InvalidInputError(
                f"{path}: row {at}: another document has the same id {name!r:.60}"
            )
        found.append((name, seen[name]))
    return found


def _sample_fields(row: Row, wanted: Wanted, where: str) -> dict[str, Any]:
    """Return the fields of a sample other than its values."""
    doc, response = row["doc"], row["model_response"]
    specific = doc.get("specific")
    fields = {**(specific if isinstance(specific, Mapping) else {}), **doc}
    plain = {"query": doc.get("original_query") or doc.get("query")}
    choices = [text for text in _listed(doc.get("choices")) if isinstance(text, str)]
    gold = [int(at) for at in _listed(doc.get("gold_index")) if _is_place(at, choices)]
    target = item_target(fields, wanted, where=where)
    if target is None:
        right = [choices[at] for at in gold]
        target = right[0] if len(right) == 1 else right or None
    scores = _choices(response, choices)
    texts = [text for text in _listed(response.get("text")) if isinstance(text, str)]
    return {
        "input": item_input(fields if wanted.input_field else plain, wanted, where=where),
        "target": target,
        "group": item_group(fields, wanted, where=where),
        "parts": item_parts(fields, wanted, where=where),
        "prompt": as_prompt(response.get("input")),
        "response": texts[0] if texts and not scores else None,
        "choices": scores,
        "correct": tuple(gold) if scores else None,
    }


def _is_place(value: Any, choices: Sequence[str]) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(choices)


def _choices(response: Mapping[str, Any], choices: Sequence[str]) -> tuple[ChoiceScore, ...]:
    """Return the choices with their log-probabilities, if every choice has one."""
    told = [number_or_none(value) for value in _listed(response.get("logprobs"))]
    if not choices or len(told) != len(choices):
        return ()
    logprobs = [value for value in told if value is not None]
    if len(logprobs) != len(choices):
        return ()
    greedy = _listed(response.get("argmax_logits_eq_gold"))
    greedy = greedy if len(greedy) == len(choices) else [None] * len(choices)
    return tuple(
        ChoiceScore(text, logprob, None if flag is None else bool(flag))
        for text, logprob, flag in zip(choices, logprobs, greedy, strict=True)
    )


def _corpus_note(corpus: Sequence[str]) -> list[str]:
    if not corpus:
        return []
    return [f"no values per sample, computed over the whole corpus: {', '.join(corpus)}"]


def _notes(
    rows: Sequence[Row], samples: Sequence[LoggedSample], corpus: Sequence[str]
) -> list[str]:
    notes = _corpus_note(corpus)
    empty = sum(sample.response == "" for sample in samples)
    if empty:
        notes.append(
            f"{empty} of {len(samples)} answers are empty; lighteval stores failed calls as empty "
            "answers and scores them"
        )
    several = max((len(_listed(row["model_response"].get("text"))) for row in rows), default=0)
    if several > 1:
        notes.append(
            f"up to {several} answers per document; the metrics cover all of them, but only the first "
            "is shown"
        )
    return notes
