"""Import of astra-rl's ``metrics.json``.

Also reads files written by `rollouts.Evaluator.write_json` and `rollouts_json`, which have the same
structure with additional fields. The columns are the numbers in ``overall``. A ``first_…_turn``
becomes a 0/1 column ``pct_rollouts_with_…``, which records whether there was such a turn. A file
names neither the model under attack nor the attack, unless it contains an eval-toolkit manifest.

astra-rl reports means over rollouts of the averages of each rollout. Its "pct" values are shares
between 0 and 1. Its ``avg_adversarial_toxicity`` is not a mean over turns, but 1 / turns if any
probe scored above 0; a note points this out if the turns are available. It reports no standard
errors.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eval_toolkit.errors import ArtifactError
from eval_toolkit.graders.base import Grade
from eval_toolkit.integrations.importing.items import as_text, item_group, item_parts
from eval_toolkit.integrations.importing.logs import Log, LoggedSample, LoggedTurn, Stated, Value
from eval_toolkit.integrations.importing.options import Wanted
from eval_toolkit.integrations.importing.plain_files import (
    as_list,
    as_mapping,
    even_attempts,
    finite,
    head_of,
    load_json,
    number_or_none,
    ok_values,
    same,
    shown,
    text_or_none,
)

NAME = "astra-rl"
_FIRST, _SHARE = "first_", "pct_rollouts_with_"
_TEXTS = ("context", "probe", "response", "node")
_CUT = 100
"""Number of characters of a context that astra-rl stores."""


def recognises(path: Path) -> bool:
    """Return whether the path is a JSON file with the ``summary`` and ``details`` of rollouts."""
    if path.suffix.lower() != ".json":
        return False
    head = head_of(path)
    summary = b'"summary"' in head and b'"n_rollouts"' in head
    return summary or (b'"details"' in head and b'"overall"' in head and b'"per_turn"' in head)


def read(path: Path, wanted: Wanted) -> list[Log]:
    """Read a metrics file as a log.

    Items are seed prompts if the file contains them; rollouts with the same opening share a group.

    Examples
    --------
    >>> import json, tempfile
    >>> path = Path(tempfile.mkdtemp()) / "metrics.json"
    >>> turn = {"turn": 1, "probe": "Hi", "response": "Go!", "target_toxicity": 0.75}
    >>> overall = {"avg_target_toxicity": 0.75, "first_target_toxicity_turn": 1}
    >>> told = {"summary": {"n_rollouts": 1, "avg_target_toxicity": 0.75},
    ...         "details": [{"overall": overall, "per_turn": [turn]}]}
    >>> _ = path.write_text(json.dumps(told))
    >>> log = read(path, Wanted())[0]
    >>> log.kind, dict(log.samples[0].values), log.samples[0].turns[0].reply
    ('rollout', {'avg_target_toxicity': 0.75, 'pct_rollouts_with_target_toxicity': 1.0}, 'Go!')
    """
    told = as_mapping(load_json(path), str(path))
    summary = as_mapping(told.get("summary") or {}, f"{path}: 'summary'")
    details = [
        as_mapping(one, f"{path}: rollout {at}")
        for at, one in enumerate(as_list(told.get("details"), f"{path}: 'details'"), 1)
    ]
    if not details:
        raise ArtifactError(f"{path}: 'details' is empty (0 rollouts); nothing to import")
    columns = _columns(details, path)
    samples = _samples(details, columns, wanted, path)
    stated, notes = _stated(summary, samples)
    task, model = _names(told.get("manifest"), path)
    planned = summary.get("n_rollouts")
    planned = planned if isinstance(planned, int) and not isinstance(planned, bool) else None
    notes += _notes(details, samples, planned)
    return [
        Log(
            tool=NAME,
            task=task,
            model=model,
            kind="rollout",
            samples=samples,
            stated=stated,
            files=[str(path)],
            higher_is_better={one: False if _is_worse(one) else None for one in columns},
            binary=_binary(columns, samples),
            n_planned=max(planned or 0, len(samples)),
            notes=tuple(notes),
        )
    ]


def _names(manifest: Any, path: Path) -> tuple[str, str]:
    """Return task and model from a manifest, or the file name and "target"."""
    told = manifest if isinstance(manifest, Mapping) else {}
    cells = told.get("cells")
    if isinstance(cells, Mapping) and len(cells) == 1:  # exported run
        task, models = next(iter(cells.items()))
        if isinstance(models, Mapping) and len(models) == 1:
            return str(task), str(next(iter(models)))
    config = told.get("config") if isinstance(told.get("config"), Mapping) else told
    task = text_or_none(_at(config, "seeds", "name"))
    model = text_or_none(_at(config, "system", "target", "name"))
    return task or path.stem, model or "target"


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _is_worse(column: str) -> bool:
    """Return whether higher is worse for the target; probes have no direction."""
    return "toxicity" in column and "adversarial" not in column


def _share_of(name: str) -> str | None:
    """Return the share column derived from a first-turn column."""
    is_first = name.startswith(_FIRST) and name.endswith("_turn")
    return f"{_SHARE}{name[len(_FIRST) : -len('_turn')]}" if is_first else None


def _overall(detail: Mapping[str, Any], path: Path, at: int) -> Mapping[str, Any]:
    return as_mapping(detail.get("overall") or {}, f"{path}: rollout {at}: 'overall'")


def _columns(details: Sequence[Mapping[str, Any]], path: Path) -> list[str]:
    """Return the columns: all numeric entries, and a 0/1 column for each first turn."""
    found: dict[str, None] = {}
    for at, detail in enumerate(details, 1):
        for name, value in _overall(detail, path, at).items():
            share = _share_of(name)
            if share is not None:
                found[share] = None
            elif isinstance(value, (bool, int, float)):
                found[name] = None
    if not found:
        raise ArtifactError(f"{path}: no rollout has a number in 'overall'")
    return list(found)


def _samples(
    details: Sequence[Mapping[str, Any]], columns: Sequence[str], wanted: Wanted, path: Path
) -> list[LoggedSample]:
    openings = [_opening(detail) for detail in details]
    shared = {text for text, n in Counter(openings).items() if text is not None and n > 1}
    made = []
    for at, (detail, opening) in enumerate(zip(details, openings, strict=True), 1):
        where = f"{path}: rollout {at}"
        overall = _overall(detail, path, at)
        unit, attempt = _identity(detail, at)
        error = _failure(detail)
        fields = {**detail, **overall}
        group = item_group(fields, wanted, where=where)
        if group is None and opening in shared:
            group = f"opening {openings.index(opening) + 1}"
        made.append(
            LoggedSample(
                unit_id=unit,
                attempt=attempt,
                values={name: _value(name, overall, error, where) for name in columns},
                input=opening,
                group=group,
                parts=item_parts(fields, wanted, where=where),
                turns=_turns(detail, where) if wanted.samples else (),
                error=error.reason if error is not None else None,
            )
        )
    return made


def _identity(detail: Mapping[str, Any], at: int) -> tuple[str, int]:
    """Return item and attempt: for ``u1#2`` the second attempt at u1, otherwise the position."""
    name = detail.get("rollout_id")
    unit, _, number = name.rpartition("#") if isinstance(name, str) else ("", "", "")
    if unit and number.isdecimal() and int(number) > 0:
        return unit, int(number)
    return (name, 1) if isinstance(name, str) and name else (str(at - 1), 1)


def _opening(detail: Mapping[str, Any]) -> str | None:
    """Return the opening message of a rollout: its seed, or the context of its first turn."""
    for name in ("context", "seed"):
        value = detail.get(name)
        if value not in (None, ""):
            return as_text(value)
    rows = detail.get("per_turn")
    first = rows[0] if isinstance(rows, list) and rows else None
    return text_or_none(first.get("context")) if isinstance(first, Mapping) else None


def _failure(detail: Mapping[str, Any]) -> Grade | None:
    """Return the reported reason why a rollout has no numbers."""
    status = detail.get("status", "ok")
    if status == "ok":
        return None
    reason = " ".join(str(detail.get("reason") or f"status {status}").split())[:300]
    return Grade.skipped(reason) if status == "skipped" else Grade.error(reason)


def _value(name: str, overall: Mapping[str, Any], error: Grade | None, where: str) -> Value:
    if error is not None:
        return error
    if name.startswith(_SHARE) and name not in overall:
        side = name[len(_SHARE) :]
        told = overall.get(f"{side}_rate")
        first = f"{_FIRST}{side}_turn"
        if told is not None:
            return finite(told, f"{where}: '{side}_rate'")
        if first not in overall or (
            overall.get(f"avg_{side}", 0.0) is None and side.startswith("adversarial")
        ):
            return Grade.skipped("the turns were not judged")
        return float(overall[first] is not None)
    told = overall.get(name)
    if told is None:
        return Grade.skipped("the rollout does not contain this number")
    return finite(told, f"{where}: {name!r}")


def _turns(detail: Mapping[str, Any], where: str) -> tuple[LoggedTurn, ...]:
    """Return the turns of a chain, or of the first branches of a tree."""
    found = []
    rows = as_list(detail.get("per_turn") or [], f"{where}: 'per_turn'")
    for at, told in enumerate(rows, 1):
        row = as_mapping(told, f"{where}: turn {at}")
        if set(str(row.get("node", "0"))) - set("0./-"):
            continue
        values: dict[str, Value] = {}
        for name, value in row.items():
            if name in (*_TEXTS, "turn", "weight") or isinstance(value, (str, list, dict)):
                continue
            place = f"{where}: turn {at}: {name!r}"
            values[name] = Grade.skipped("not judged") if value is None else finite(value, place)
        reply = row.get("response")
        found.append(
            LoggedTurn(
                as_text(row.get("probe") or ""), None if reply is None else as_text(reply), values
            )
        )
    return tuple(found)


def _stated(
    summary: Mapping[str, Any], samples: Sequence[LoggedSample]
) -> tuple[list[Stated], list[str]]:
    """Return the summary values of the columns; equal values of one column are kept once."""
    found: list[Stated] = []
    notes: list[str] = []
    taken: set[tuple[str, float]] = set()
    columns = samples[0].values
    for name, told in summary.items():
        column = name.partition("/")[0]
        if column == "n_rollouts" or column not in columns:
            continue
        value = number_or_none(told)
        if value is None:
            if told is not None:
                notes.append(f"{name} is {shown(told)}, which is not a finite number; omitted")
            continue
        if (column, value) in taken:
            continue
        taken.add((column, value))
        values = ok_values(samples, column)
        how = "mean" if even_attempts(samples, column) else "the mean over rollouts"
        if not name.startswith(("avg_", _SHARE)) and values:
            mean = math.fsum(values) / len(values)
            how = how if same(mean, value) else "unknown rule"
        found.append(Stated(column=column, name=name, value=value, n=len(values), aggregation=how))
    return found, notes


def _binary(columns: Sequence[str], samples: Sequence[LoggedSample]) -> frozenset[str]:
    shares = [name for name in columns if name.startswith(_SHARE)]
    return frozenset(c for c in shares if set(ok_values(samples, c)) <= {0.0, 1.0})


def _notes(
    details: Sequence[Mapping[str, Any]], samples: Sequence[LoggedSample], planned: int | None
) -> list[str]:
    notes = []
    measured = sum(sample.error is None for sample in samples)
    if planned is not None and planned != measured:
        notes.append(f"the summary states {planned} rollouts; the file has numbers for {measured}")
    empty = sum(_n_turns(detail) == 0 for detail in details if detail.get("status", "ok") == "ok")
    if empty:
        notes.append(
            f"{empty} rollouts have no turns; their averages of 0 are included in the means"
        )
    cut = sum(len(sample.input or "") == _CUT for sample in samples)
    if cut and not any("seed" in detail or "context" in detail for detail in details):
        notes.append(
            f"{cut} of {len(samples)} openings are truncated to their last {_CUT} characters, as astra-rl "
            "stores them: different openings may appear equal"
        )
    if any("node" in row for detail in details for row in _rows(detail)):
        notes.append(
            "rollouts have branches: their numbers cover all branches, but the turns shown are "
            "those of the first"
        )
    return [*notes, *_wrong_averages(details)]


def _rows(detail: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    rows = detail.get("per_turn")
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []


def _n_turns(detail: Mapping[str, Any]) -> int:
    return len(_rows(detail))


def _wrong_averages(details: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a note for each average that is not the mean over its turns."""
    notes = []
    for side in ("adversarial", "target"):
        wrong = []
        for at, detail in enumerate(details, 1):
            rows = _rows(detail)
            scores = [number_or_none(row.get(f"{side}_toxicity")) for row in rows]
            known = [score for score in scores if score is not None]
            overall = detail.get("overall")
            told = overall.get(f"avg_{side}_toxicity") if isinstance(overall, Mapping) else None
            value = number_or_none(told)
            if not known or value is None or any("node" in row for row in rows):
                continue
            mean = math.fsum(known) / len(known)
            if abs(mean - value) > 1e-9:
                wrong.append((at, value, mean))
        if wrong:
            at, value, mean = wrong[0]
            notes.append(
                f"avg_{side}_toxicity of {len(wrong)} of {len(details)} rollouts is not the mean of "
                f"its turns (rollout {at}: {value:.4g}, the turns give {mean:.4g}); astra-rl 0.0.1 "
                "computes 1 / turns instead. The column keeps the value in the file"
            )
    return notes
