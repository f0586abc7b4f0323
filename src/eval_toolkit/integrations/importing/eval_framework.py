"""Import of eval-framework's output folders.

Each metric is a column, named ``metric/key`` if it has keys; bookkeeping metrics (bytes and
sequence positions) are omitted. Rows with an error become errors; rows without a value are skipped.

In eval-framework, ``Average M`` is the mean over subjects (and keys) of their means, over rows
without errors. If the subjects differ in size, it is not the mean over samples, and subjects in
which all rows failed are excluded. ``StdErr M`` is correct for one subject. For several subjects it
is sqrt(sum(s²/n) / G) instead of sqrt(sum(s²/n)) / G, too large by sqrt(G); it is omitted, and a
note states the correct value.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_toolkit.errors import ArtifactError, EvalToolkitError, MissingFileError
from eval_toolkit.graders.base import Grade
from eval_toolkit.integrations.importing.eval_framework_averages import (
    BOOKKEEPING,
    NO_SUBJECT,
    Measured,
    averages,
)
from eval_toolkit.integrations.importing.items import (
    as_text,
    item_group,
    item_input,
    item_parts,
    item_target,
)
from eval_toolkit.integrations.importing.logs import ChoiceScore, Log, LoggedSample, Value
from eval_toolkit.integrations.importing.options import Wanted
from eval_toolkit.integrations.importing.plain_files import (
    as_mapping,
    as_prompt,
    finite,
    head_of,
    load_json,
    load_lines,
    number_or_none,
    settings_of,
    shown,
    text_or_none,
)

NAME = "eval-framework"
_ABOUT, _OUTPUT = "metadata.json", "output.jsonl"
_RESULTS, _AVERAGES = "results.jsonl", "aggregated_results.json"
_SETTINGS = (
    *("num_fewshot", "num_samples", "repeats", "task_subjects", "language", "max_tokens"),
    *("perturbation_config", "llm_args", "user_prompt_suffix", "primary_metrics"),
)


def recognises(path: Path) -> bool:
    """Return whether the path is an eval-framework output folder or a file in one."""
    try:
        folder = path.parent if path.name in (_ABOUT, _OUTPUT, _RESULTS, _AVERAGES) else path
        if not any((folder / name).is_file() for name in (_OUTPUT, _RESULTS, _AVERAGES)):
            return False
        head = head_of(folder / _ABOUT, 1_000_000)
        if b'"task_name"' not in head or b'"llm_name"' not in head:
            return False
        return isinstance(load_json(folder / _ABOUT), Mapping)
    except (OSError, EvalToolkitError):
        return False


def read(path: Path, wanted: Wanted) -> list[Log]:
    """Read the log of an output folder.

    Parts are "subject" if the task has several subjects; repeats are attempts. With
    ``samples=False``, ``output.jsonl`` is not read; the statistics are the same. An incomplete last
    line is skipped with a note.

    Examples
    --------
    >>> import json, tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> about = {"task_name": "Sums", "llm_name": "m", "eval_framework_version": "0.9.1"}
    >>> _ = (folder / "metadata.json").write_text(json.dumps(about))
    >>> row = {"id": 0, "subject": "no_subject", "metric_name": "Acc", "value": 1.0}
    >>> _ = (folder / "results.jsonl").write_text(json.dumps(row) + chr(10))
    >>> log = read(folder, Wanted(samples=False))[0]
    >>> log.task, log.model, log.samples[0].unit_id, log.samples[0].values
    ('Sums', 'm', '0', {'Acc': 1.0})
    """
    folder = path.parent if path.is_file() else path
    about = as_mapping(_member(folder, _ABOUT), str(folder / _ABOUT))
    task, model = text_or_none(about.get("task_name")), text_or_none(about.get("llm_name"))
    if not task or not model:
        raise ArtifactError(
            f"{folder / _ABOUT}: 'task_name' and 'llm_name' must be non-empty strings"
        )
    notes: list[str] = []
    measured = _measured(folder, notes)
    repeats = about.get("repeats")
    repeats = repeats if isinstance(repeats, int) and repeats > 1 else 1
    outputs = _outputs(folder, wanted, notes)
    samples = _samples(folder, measured, outputs, repeats, wanted)
    told = _member(folder, _AVERAGES) if (folder / _AVERAGES).is_file() else {}
    stated, more = averages(as_mapping(told, str(folder / _AVERAGES)), measured, repeats)
    if not samples and not stated:
        raise ArtifactError(
            f"{folder}: the output contains neither results nor averages (0 samples)"
        )
    names = (_ABOUT, _OUTPUT, _RESULTS, _AVERAGES)
    return [
        Log(
            tool=NAME,
            task=task,
            model=model,
            samples=samples,
            stated=stated,
            tool_version=str(about.get("eval_framework_version") or ""),
            files=[str(folder / name) for name in names if (folder / name).is_file()],
            created=as_text(about["start_time"]) if about.get("start_time") else "",
            settings=settings_of(about, _SETTINGS),
            higher_is_better={
                row.column: row.higher_is_better
                for row in measured
                if row.higher_is_better is not None
            },
            binary=_binary(measured),
            n_planned=len(outputs) if len(outputs) > len(samples) else len(samples) or None,
            notes=(*notes, *more, *_tell(folder, about, samples)),
        )
    ]


def _member(folder: Path, name: str) -> Any:
    if not (folder / name).is_file():
        raise MissingFileError(
            f"{folder / name}: the file is missing from this eval-framework output"
        )
    return load_json(folder / name)


@dataclass(frozen=True, slots=True)
class _Output:
    """Answer in ``output.jsonl``."""

    line: int
    row: Mapping[str, Any]


def _place(row: Mapping[str, Any], where: str) -> tuple[str, int]:
    """Return subject and id, which link an answer to its results."""
    number, subject = row.get("id"), row.get("subject", NO_SUBJECT)
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ArtifactError(f"{where}: 'id' is {shown(number)}; it must be 0 or more")
    if not isinstance(subject, str):
        raise ArtifactError(f"{where}: 'subject' is {shown(subject)}; it must be a string")
    return subject, number


def _measured(folder: Path, notes: list[str]) -> list[Measured]:
    """Return the result rows without bookkeeping metrics."""
    path = folder / _RESULTS
    if not path.is_file():
        if (folder / _OUTPUT).is_file() and not (folder / _AVERAGES).is_file():
            raise MissingFileError(f"{path}: no such file: the answers were not graded")
        notes.append(
            f"{_RESULTS} is missing: the averages are as reported, not checked against samples"
        )
        return []
    rows, torn = load_lines(path)
    notes += [torn] if torn else []
    found: list[Measured] = []
    seen: set[tuple[str, int, str]] = set()
    for line, row in rows:
        where = f"{path}: line {line}"
        subject, number = _place(row, where)
        metric, key = row.get("metric_name"), row.get("key")
        if not isinstance(metric, str) or not metric:
            raise ArtifactError(f"{where}: 'metric_name' is {shown(metric)}; it must be a string")
        if metric in BOOKKEEPING:
            continue
        column = metric if key is None or key == "" else f"{metric}/{key}"
        if (subject, number, column) in seen:
            raise ArtifactError(f"{where}: {column!r} of {subject}/{number} occurs twice")
        seen.add((subject, number, column))
        found.append(
            Measured(
                subject=subject,
                number=number,
                metric=metric,
                key="" if key is None else str(key),
                column=column,
                value=_value(row, f"{where}: 'value' of {metric!r}"),
                higher_is_better=up
                if isinstance(up := row.get("higher_is_better"), bool)
                else None,
                metric_class=str(row.get("metric_class_name") or ""),
            )
        )
    if rows and not found:
        raise ArtifactError(f"{path}: contains only bookkeeping (bytes, positions) and no metrics")
    return found


def _value(row: Mapping[str, Any], where: str) -> Value:
    if row.get("error") is not None:
        return Grade.error(_error(row["error"]))
    if row.get("value") is None:
        return Grade.skipped("eval-framework recorded neither a value nor an error")
    return finite(row["value"], where)


def _error(told: Any) -> str:
    """Return an error as a single line."""
    if not isinstance(told, Mapping):
        return " ".join(str(told).split())[:300] or "error"
    said = f"{told.get('error_class') or 'Error'}: {told.get('message') or ''}"
    return " ".join(said.split())[:300]


def _outputs(folder: Path, wanted: Wanted, notes: list[str]) -> dict[tuple[str, int], _Output]:
    """Return the answers by subject and id."""
    path = folder / _OUTPUT
    if not wanted.samples:
        return {}
    if not path.is_file():
        notes.append(f"{_OUTPUT} is missing: no prompts or answers")
        return {}
    rows, torn = load_lines(path)
    notes += [torn] if torn else []
    found: dict[tuple[str, int], _Output] = {}
    for line, row in rows:
        place = _place(row, f"{path}: line {line}")
        if place in found:
            raise ArtifactError(
                f"{path}: line {line}: {place[0]}/{place[1]} occurs twice, first in line "
                f"{found[place].line}"
            )
        found[place] = _Output(line, row)
    return found


def _samples(
    folder: Path,
    measured: Sequence[Measured],
    outputs: Mapping[tuple[str, int], _Output],
    repeats: int,
    wanted: Wanted,
) -> list[LoggedSample]:
    """Return a sample for each answer that was, or should have been, graded."""
    values: dict[tuple[str, int], dict[str, Value]] = defaultdict(dict)
    for one in measured:
        values[one.subject, one.number][one.column] = one.value
    columns = list(dict.fromkeys(one.column for one in measured))
    places = list(dict.fromkeys([*outputs, *values])) if columns else []
    several = any(subject != NO_SUBJECT for subject, _ in places)
    made = []
    for subject, number in places:
        output = outputs.get((subject, number))
        where = f"{folder / _OUTPUT}: line {output.line if output else '?'}"
        missing = _missing(output, (subject, number) in values)
        told = {} if output is None else _sample_fields(output.row, wanted, where)
        parts = {"subject": subject} if several else {}
        item = number // repeats
        made.append(
            LoggedSample(
                unit_id=f"{subject}/{item}" if several else str(item),
                attempt=number % repeats + 1,
                values={
                    name: values[subject, number].get(name, missing)
                    if (subject, number) in values
                    else missing
                    for name in columns
                },
                parts={**parts, **told.pop("parts", {})},
                **told,
            )
        )
    return made


def _missing(output: _Output | None, graded: bool) -> Grade:
    """Return the grade of a metric without a row."""
    if graded:
        return Grade.skipped("eval-framework wrote no row for this metric")
    error = None if output is None else output.row.get("error")
    return Grade.error("not graded" if error is None else _error(error))


def _sample_fields(row: Mapping[str, Any], wanted: Wanted, where: str) -> dict[str, Any]:
    """Return the fields of a sample other than its values."""
    context = row.get("context")
    contexts = context if isinstance(context, list) else [context]
    fields = {k: v for one in contexts if isinstance(one, Mapping) for k, v in one.items()}
    target = item_target({**fields, **row}, wanted, where=where)
    gold = row.get("ground_truth") if target is None else target
    if isinstance(gold, list) and len(gold) == 1:
        gold = gold[0]
    choices = _choices(row, where)
    right = gold if isinstance(gold, list) else [gold]
    positions = tuple(at for at, one in enumerate(choices) if one.text in right)
    tokens = {
        "prompt_tokens": row.get("prompt_sequence_positions"),
        "completion_tokens": row.get("raw_completion_sequence_positions"),
    }
    return {
        "input": _input(row, fields, wanted, where),
        "target": gold,
        "group": item_group({**fields, **row}, wanted, where=where),
        "parts": item_parts({**fields, **row}, wanted, where=where),
        "prompt": text_or_none(row.get("prompt")),
        "response": None
        if choices
        else text_or_none(row.get("raw_completion", row.get("completion"))),
        "choices": choices,
        "correct": positions if choices else None,
        "usage": {name: n for name, n in tokens.items() if isinstance(n, int) and n > 0},
        "error": None if row.get("error") is None else _error(row["error"]),
    }


def _input(
    row: Mapping[str, Any], fields: Mapping[str, Any], wanted: Wanted, where: str
) -> str | None:
    """Return the input: the prompt before templating, else the last user message or the prompt."""
    if wanted.input_field is not None:
        return item_input({**row, **fields}, wanted, where=where)
    plain = text_or_none(fields.get("untemplated_prompt"))
    messages = row.get("messages")
    said = as_prompt(messages) if isinstance(messages, list) else None
    users = [m.content for m in said or () if not isinstance(m, str) and m.role == "user"]
    return plain or (users[-1] if users else text_or_none(row.get("prompt")))


def _choices(row: Mapping[str, Any], where: str) -> tuple[ChoiceScore, ...]:
    told = row.get("loglikelihoods")
    if told is None:
        return ()
    scores = as_mapping(told, f"{where}: 'loglikelihoods'")
    if any(number_or_none(value) is None for value in scores.values()):
        return ()  # infinite values cannot be stored; grades are kept
    return tuple(ChoiceScore(text, float(value)) for text, value in scores.items())


def _binary(measured: Sequence[Measured]) -> frozenset[str]:
    """Return the columns that are binary by name and values."""
    values: dict[str, set[float]] = defaultdict(set)
    for one in measured:
        if isinstance(one.value, float):
            values[one.column].add(one.value)
    called = ("accuracy", "exact match", "pass@1", "assertion")
    return frozenset(
        name
        for name, known in values.items()
        if known <= {0.0, 1.0} and any(word in name.lower() for word in called)
    )


def _tell(folder: Path, about: Mapping[str, Any], samples: Sequence[LoggedSample]) -> list[str]:
    """Return caveats about the numbers."""
    notes = []
    broken = sorted(folder.glob(f"{_OUTPUT}.broken.*"))
    if broken:
        notes.append(f"answers discarded by eval-framework are in {broken[0].name}")
    shots = about.get("num_fewshot")
    if samples and isinstance(shots, int) and shots > 0 and any(s.choices for s in samples):
        notes.append(
            f"inputs are stored only together with their {shots} few-shot examples, so items "
            "cannot be matched by content with runs that use other examples"
        )
    if samples and "subject" in samples[0].parts:
        notes.append(
            "eval-framework numbers the items of a subject in an order that depends on shots and "
            "sample counts: pair its runs by content, not by id"
        )
    return notes
