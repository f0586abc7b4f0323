"""Import of Inspect logs in ``.eval`` and ``.json`` format."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from eval_toolkit._internal.hashing import canonical_json
from eval_toolkit._internal.plain import plain, whole_text
from eval_toolkit._internal.redaction import redact_secrets
from eval_toolkit.errors import ArtifactError
from eval_toolkit.graders.base import Grade
from eval_toolkit.integrations.importing.inspect_parts import Parts, json_parts, zip_parts
from eval_toolkit.integrations.importing.inspect_results import read_results, reduction_notes
from eval_toolkit.integrations.importing.inspect_samples import (
    ParsedSample,
    add_scores,
    logged_samples,
)
from eval_toolkit.integrations.importing.inspect_values import NO_NUMBER, NOT_FINITE
from eval_toolkit.integrations.importing.logs import Log, LoggedSample, Stated
from eval_toolkit.integrations.importing.options import Wanted
from eval_toolkit.integrations.importing.zipped import is_zip

NAME = "inspect"
_FIRST_BYTES = 4096
_FIRST_MEMBER = re.compile(rb"PK\x03\x04.{26}(_journal/|header\.json|samples/|summaries\.)", re.S)
_EVAL_KEY = re.compile(rb'"eval"\s*:\s*\{')
_OTHER_KEYS = re.compile(rb'"(status|run_id|task_id)"\s*:')
_SPEC_SETTINGS = (
    *("run_id", "eval_id", "task_id", "task_version", "task_file", "task_args", "solver"),
    *("solver_args", "model_args", "model_generate_config", "model_base_url", "model_roles"),
    *("config", "revision", "packages", "scorers"),
)
_LONGEST_SETTING = 4_000
"""Maximum length of a setting as JSON; the settings of scripted models contain all answers."""


def recognises(path: Path) -> bool:
    """Return whether a path looks like an Inspect log.

    Examples
    --------
    >>> recognises(Path("nowhere.eval"))
    False
    """
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            start = file.read(_FIRST_BYTES)
    except (OSError, ValueError):
        return False
    if path.suffix == ".eval" or _FIRST_MEMBER.match(start):
        return True
    is_object = start.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")
    return is_object and bool(_EVAL_KEY.search(start)) and bool(_OTHER_KEYS.search(start))


def read(path: Path, wanted: Wanted) -> list[Log]:
    """Read an Inspect log.

    The format of ``.eval`` and ``.json`` files is detected by content. With ``samples=False``, only
    the summaries in ``.eval`` files are read. Fields are looked up in the samples' metadata.

    Examples
    --------
    >>> import json, tempfile
    >>> path = Path(tempfile.mkdtemp()) / "log.json"
    >>> _ = path.write_text(json.dumps({"version": 2, "status": "success",
    ...     "eval": {"task": "sums", "model": "mock/m"},
    ...     "results": {"total_samples": 1, "scores": [{"name": "match", "scorer": "match",
    ...                 "metrics": {"accuracy": {"name": "accuracy", "value": 1.0}}}]},
    ...     "samples": [{"id": 1, "epoch": 1, "input": "1 + 1 =", "target": "2",
    ...                  "scores": {"match": {"value": "C"}}}]}))
    >>> (log,) = read(path, Wanted())
    >>> log.task, log.samples[0].values, log.stated[0].value
    ('sums', {'match': 1.0}, 1.0)
    """
    try:
        with path.open("rb") as file:
            start = file.read(_FIRST_BYTES)
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read: {error.strerror}") from error
    if not start:
        raise ArtifactError(f"{path}: the file is empty (0 bytes)")
    try:
        parts = zip_parts(path, wanted) if is_zip(start) else json_parts(path, wanted)
        log = _log(parts, wanted)
    except RecursionError:
        raise ArtifactError(f"{path}: nested too deeply") from None
    kind, usual = ("a zip file", ".eval") if is_zip(start) else ("JSON", ".json")
    if path.suffix != usual:
        named = f"{path.name} is {kind} despite its name, and was read as such"
        log = replace(log, notes=(named, *log.notes))
    return [log]


def _log(parts: Parts, wanted: Wanted) -> Log:
    spec = parts.spec
    found = _in_order(parts)
    samples, binary = logged_samples(found, _scorer_names(spec))
    planned, notes = _n_planned(parts), _state_notes(parts)
    reduced = {} if samples else _reductions(parts)
    if reduced:
        name = "mean" if "mean" in reduced else next(iter(reduced))
        samples = reduced.pop(name)
        planned = None if planned is None else planned // parts.epochs
        notes.append(
            f"the log has no samples; its values are the {name} over the epochs of each item"
        )
    columns = list(samples[0].values) if samples else []
    unreduced = parts.config.get("epochs_reducer") == [] and parts.epochs > 1
    results = read_results(parts.results, columns, spec.get("scorers"), unreduced=unreduced)
    if not samples and not results.stated:
        raise ArtifactError(
            f"{parts.path}: 0 samples and no results; its status is {_state(parts)}"
        )
    notes += [*_sample_notes(found, samples, results.stated), *results.notes]
    notes += reduction_notes(results.stated, samples, reduced)
    notes += _cluster_notes(results.stated, wanted)
    return Log(
        tool=NAME,
        task=whole_text(spec["task"]),
        model=parts.model,
        samples=samples,
        stated=results.stated,
        tool_version=_tool_version(spec),
        files=[str(parts.path)],
        created=_text(spec.get("created")),
        settings=_settings(parts),
        binary=binary,
        n_planned=planned,
        notes=tuple(whole_text(note) for note in notes),
    )


def _in_order(parts: Parts) -> list[ParsedSample]:
    """Return the samples in dataset order; the file lists them in order of completion."""
    places = {whole_text(str(name)): at for at, name in enumerate(parts.sample_ids)}
    for one in parts.found:
        places.setdefault(one.fields["unit_id"], len(places))
    return sorted(
        parts.found, key=lambda one: (places[one.fields["unit_id"]], one.fields["attempt"])
    )


def _n_planned(parts: Parts) -> int | None:
    total = parts.results.get("total_samples")
    if isinstance(total, int) and not isinstance(total, bool) and total >= 0:
        return total
    return len(parts.sample_ids) * parts.epochs or None


def _reductions(parts: Parts) -> dict[str, list[LoggedSample]]:
    """Return the reduced scores of a log without samples, one per item and scorer, by reducer."""
    by_reducer: dict[str, dict[str, ParsedSample]] = {}
    for at, one in enumerate(_entries(parts.reductions)):
        where = f"{parts.path}: reductions[{at}]"
        scorer, reducer = one.get("scorer"), one.get("reducer") or "mean"
        if not isinstance(scorer, str) or not isinstance(reducer, str):
            raise ArtifactError(f"{where}: `scorer` and `reducer` must be strings")
        items = by_reducer.setdefault(reducer, {})
        for score in _entries(one.get("samples")):
            unit_id = whole_text(str(score.get("sample_id")))
            item = items.setdefault(unit_id, ParsedSample({"unit_id": unit_id}))
            add_scores(item, {scorer: score}, f"{where}: sample {unit_id!r:.60}")
    return {name: logged_samples(list(items.values()), ())[0] for name, items in by_reducer.items()}


def _state(parts: Parts) -> str:
    status = parts.header.get("status")
    error = parts.header.get("error")
    message = error.get("message") if isinstance(error, Mapping) else None
    if parts.unfinished:
        return "unfinished"
    said = status if isinstance(status, str) else "not given"
    return f"{said}: {_short(message)}" if isinstance(message, str) and message else said


def _state_notes(parts: Parts) -> list[str]:
    notes = []
    if parts.unfinished or parts.header.get("status") == "started":
        n, planned = len(parts.found), _n_planned(parts)
        of_all = f" of {planned}" if planned else ""
        notes.append(f"the log is unfinished: it has {n}{of_all} samples and no results")
    elif parts.header.get("status") != "success":
        notes.append(f"the log's status is {_state(parts)}")
    if parts.header.get("invalidated") is True:
        notes.append("the log is marked as invalidated")
    if parts.results.get("early_stopping"):
        notes.append("the run was stopped early")
    return notes


def _sample_notes(
    found: Sequence[ParsedSample], samples: Sequence[LoggedSample], stated: Sequence[Stated]
) -> Iterator[str]:
    """Yield notes on problems with samples that affect the reported numbers."""
    failed = sum(sample.error is not None for sample in samples)
    if failed:
        first = next((one for one in stated if one.aggregation.startswith("mean")), None)
        said = f"{failed} of {len(samples)} samples failed"
        if first is not None:
            n = len(samples) - failed if first.n is None else first.n
            value = f"{first.column} {first.name} {first.value:.6g}"
            said += f" and are not counted in the log: {value} over {n}"
        yield said
    kept = sum(one.error is not None for one in found) - failed
    if kept > 0:
        yield f"{kept} of {len(samples)} samples failed but were scored"
    cancelled = sum(one.cancelled for one in found)
    if cancelled:
        yield f"{cancelled} of {len(samples)} samples were cancelled when the evaluation was stopped"
    limits = Counter(one.limit for one in found if one.limit)
    if limits:
        kinds = ", ".join(f"{kind} {n}" for kind, n in sorted(limits.items()))
        yield f"{limits.total()} of {len(samples)} samples reached a limit ({kinds})"
    if samples and not samples[0].values:
        yield "the samples have no scores"
    for column in samples[0].values if samples else ():
        yield from _column_notes(column, samples)


def _cluster_notes(stated: Sequence[Stated], wanted: Wanted) -> Iterator[str]:
    """Yield the group field used in the log if it differs from the requested one."""
    for how in dict.fromkeys(one.stderr_name for one in stated):
        if how.startswith("clustered by ") and how != f"clustered by {wanted.group_field!r}":
            yield f"the log's standard errors are {how}: pass that field as the group field to match them"


def _column_notes(column: str, samples: Sequence[LoggedSample]) -> Iterator[str]:
    grades = [sample.values[column] for sample in samples]
    reasons = [one.reason for one in grades if isinstance(one, Grade) and one.status == "skipped"]
    texts = [reason for reason in reasons if reason.startswith(NO_NUMBER)]
    endless = sum(reason.startswith(NOT_FINITE) for reason in reasons)
    if endless:
        yield f"{column}: {endless} of {len(samples)} values are infinite; they are skipped here"
    if texts:
        such = texts[0].removeprefix(NO_NUMBER + ": ")
        yield (
            f"{column}: {len(texts)} of {len(samples)} values are not numbers (such as {such}); "
            f"Inspect's accuracy and mean count them as 0; they are skipped here"
        )


def _tool_version(spec: Mapping[str, Any]) -> str:
    packages = spec.get("packages")
    return _text(packages.get("inspect_ai")) if isinstance(packages, Mapping) else ""


def _settings(parts: Parts) -> dict[str, Any]:
    """Return the settings in the log; very long settings are replaced by a note."""
    spec, dataset = parts.spec, dict(parts.dataset)
    dataset.pop("sample_ids", None)
    plan = parts.header.get("plan")
    told = {
        "status": "unfinished" if parts.unfinished else parts.header.get("status"),
        "dataset": dataset,
        "plan": plan.get("steps") if isinstance(plan, Mapping) else None,
        "tags": parts.header.get("tags") or spec.get("tags"),
    }
    told |= {name: spec.get(name) for name in _SPEC_SETTINGS}
    kept = {}
    for name, value in told.items():
        if value is None or value in ({}, []):
            continue
        n = len(canonical_json(value))
        is_short = n <= _LONGEST_SETTING
        kept[name] = redact_secrets(plain(value)) if is_short else f"omitted: {n} characters"
    return kept


def _scorer_names(spec: Mapping[str, Any]) -> list[str]:
    names = [one.get("name") for one in _entries(spec.get("scorers"))]
    return [whole_text(name) for name in names if isinstance(name, str)]


def _entries(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return whole_text(value) if isinstance(value, str) else ""


def _short(text: str) -> str:
    safe: str = redact_secrets(" ".join(whole_text(text).split())[:300])
    return safe
