"""Import of HELM run folders.

The columns are the stats in ``per_instance_stats.json`` that measure the quality of an answer.
HELM's bookkeeping is omitted (counts, tokens, costs, run times, finish reasons, truncation,
``max_prob``, ``logprob`` and similar, see `is_bookkeeping`), except for metrics listed in
``metric_specs``.

For each metric, split and perturbation, HELM states the mean over trials of the means over
instances. It pools neither splits nor instances with their perturbed copies, so each of these
becomes a separate log. ``count`` is the number of trials, and ``stddev`` the standard deviation of
the trial means (with divisor n: 0 for one trial). This is not a standard error; HELM does not
report any.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from eval_toolkit.errors import ArtifactError, MissingFileError
from eval_toolkit.graders.base import Grade
from eval_toolkit.integrations.importing import helm_stats
from eval_toolkit.integrations.importing.helm_requests import (
    asked,
    created,
    key_of,
    requests_of,
    tell_requests,
)
from eval_toolkit.integrations.importing.helm_stats import (
    Context,
    Key,
    NamedStat,
    is_bookkeeping,
)
from eval_toolkit.integrations.importing.logs import Log, LoggedSample, Value
from eval_toolkit.integrations.importing.options import Wanted
from eval_toolkit.integrations.importing.plain_files import (
    as_list,
    as_mapping,
    finite,
    list_or_empty,
    load_json,
    settings_of,
    text_or_none,
)

NAME = "helm"
_SPEC, _STATS, _EACH = "run_spec.json", "stats.json", "per_instance_stats.json"
_STATE, _SCENARIO = "scenario_state.json", "scenario.json"
_SETTINGS = (
    *(
        "run_spec",
        "scenario",
        "method",
        "instructions",
        "max_train_instances",
        "max_eval_instances",
    ),
    *("num_outputs", "num_train_trials", "num_trials", "model_deployment", "temperature"),
    *("max_tokens", "stop_sequences"),
)
NO_SPLIT = "none"
_RIGHT_OR_WRONG = ("exact_match", "math_equiv", "strict_accuracy")


def recognises(path: Path) -> bool:
    """Return whether the path is a HELM run folder, or one of its files."""
    names = (_SPEC, _STATS, _EACH, _STATE, _SCENARIO)
    folder = path.parent if path.name in names else path
    try:
        return (folder / _SPEC).is_file() and any((folder / n).is_file() for n in (_STATS, _EACH))
    except OSError:
        return False


def read(path: Path, wanted: Wanted) -> list[Log]:
    """Read the logs of a run folder, one per split and perturbation.

    Unperturbed instances come first. Items are keyed by instance id, so that a perturbed log can be
    paired with the unperturbed one; trials are attempts. Parts are "split", "sub_split" and
    "perturbation" where present; if a run has several, they are appended to the task name. With
    ``samples=False``, prompts and answers are not read; the statistics are the same.

    Examples
    --------
    >>> import json, tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> name = {"name": "exact_match", "split": "test"}
    >>> one = {"name": name, "count": 1, "sum": 1, "mean": 1.0}
    >>> spec = {"name": "mmlu:model=m", "adapter_spec": {"model": "org/m"}}
    >>> _ = (folder / "run_spec.json").write_text(json.dumps(spec))
    >>> _ = (folder / "stats.json").write_text(json.dumps([one]))
    >>> each = {"instance_id": "id1", "train_trial_index": 0, "stats": [one]}
    >>> _ = (folder / "per_instance_stats.json").write_text(json.dumps([each]))
    >>> log = read(folder, Wanted(samples=False))[0]
    >>> log.model, log.stated[0].name, log.stated[0].value, log.samples[0].values
    ('org/m', 'exact_match', 1.0, {'exact_match': 1.0})
    """
    folder = path.parent if path.is_file() else path
    spec = as_mapping(_member(folder, _SPEC), f"{folder / _SPEC}")
    adapter = as_mapping(spec.get("adapter_spec"), f"{folder / _SPEC}: 'adapter_spec'")
    model = text_or_none(adapter.get("model")) or text_or_none(adapter.get("model_deployment"))
    if not model:
        raise ArtifactError(f"{folder / _SPEC}: 'adapter_spec' does not name a model")
    notes: list[str] = []
    named = _metric_names(spec)
    tries = _tries(folder, named, notes)
    states = requests_of(folder / _STATE, wanted, notes)
    samples = _samples(folder, tries, states, wanted, notes)
    stats = _member(folder, _STATS) if (folder / _STATS).is_file() else []
    if not stats:
        notes.append(f"{_STATS} is missing or empty: the run reports no means")
    metrics = [one for one in _named(stats, folder / _STATS) if _is_metric(one.name, named)]
    there = [folder / name for name in (_SPEC, _STATS, _EACH, _STATE) if (folder / name).is_file()]
    whole = Log(
        tool=NAME,
        task=_task(str(spec.get("name") or folder.name)),
        model=model,
        files=[str(file) for file in there],
        created=created(states),
        settings=settings_of(
            {"run_spec": spec.get("name"), "scenario": spec.get("scenario_spec"), **adapter},
            _SETTINGS,
        ),
        notes=tuple(notes),
    )
    logs = _by_context(whole, samples, metrics)
    if not logs:
        raise ArtifactError(f"{folder}: the run contains neither instances nor means (0 samples)")
    return logs


def _task(name: str) -> str:
    """Return the name of a run without its model, so that runs of different models share a task."""
    scenario, _, told = name.partition(":")
    kept = [arg for arg in told.split(",") if not arg.startswith(("model=", "model_deployment="))]
    return f"{scenario}:{','.join(kept)}" if any(kept) else scenario


def _by_context(
    whole: Log, samples: Mapping[Key, LoggedSample], metrics: Sequence[NamedStat]
) -> list[Log]:
    """Return a log for each split and perturbation, with its reported values."""
    parts: dict[Context, dict[Key, LoggedSample]] = defaultdict(dict)
    for key, sample in samples.items():
        parts[_context(sample, key)][key] = sample
    if not samples:
        parts.update({one.context: {} for one in metrics if not one.is_derived and one.count})
    logs = []
    for context, inside in sorted(parts.items(), key=lambda pair: pair[0].perturbation is not None):
        stated, notes = helm_stats.stated(context, metrics, inside, samples)
        if not inside and not stated:
            continue
        each = list(inside.values())
        columns = list(each[0].values) if each else []
        logs.append(
            replace(
                whole,
                task=whole.task + (context.suffix if len(parts) > 1 else ""),
                samples=each,
                stated=stated,
                binary=_binary(columns, each),
                n_planned=len(each) or None,
                notes=(*whole.notes, *_tell(each), *notes),
            )
        )
    return logs


def _context(sample: LoggedSample, key: Key) -> Context:
    split = sample.parts["split"]
    return Context(
        None if split == NO_SPLIT else split, sample.parts.get("sub_split"), key.perturbation
    )


@dataclass
class _Try:
    """Measurements of one instance in one trial."""

    values: dict[str, Value] = field(default_factory=dict)
    split: str | None = None
    sub_split: str | None = None
    predicted: int | None = None
    """Index of the predicted choice if each choice is a separate request."""


def _member(folder: Path, name: str) -> Any:
    if not (folder / name).is_file():
        raise MissingFileError(f"{folder / name}: the file is missing from this HELM run")
    return load_json(folder / name)


def _metric_names(spec: Mapping[str, Any]) -> frozenset[str]:
    """Return the metrics that the run specification requests by name."""
    found: set[str] = set()
    for one in list_or_empty(spec.get("metric_specs")):
        args = one.get("args") if isinstance(one, Mapping) else None
        names = args.get("names") if isinstance(args, Mapping) else None
        found.update(name for name in list_or_empty(names) if isinstance(name, str))
    return frozenset(found)


def _is_metric(name: str, named: frozenset[str]) -> bool:
    return name in named or not is_bookkeeping(name)


def _named(stats: Any, path: Path) -> list[NamedStat]:
    return [
        helm_stats.named_stat(stat, f"{path}: stat {at}")
        for at, stat in enumerate(as_list(stats, str(path)), 1)
    ]


def _tries(folder: Path, named: frozenset[str], notes: list[str]) -> dict[Key, _Try]:
    """Return the measurements of every instance and trial, merged across metrics."""
    path = folder / _EACH
    if not path.is_file():
        notes.append(f"{_EACH} is missing: the means are as reported, not checked against samples")
        return {}
    found: dict[Key, _Try] = {}
    empty = 0
    for at, row in enumerate(as_list(load_json(path), str(path)), 1):
        where = f"{path}: entry {at}"
        each = as_mapping(row, where)
        key = key_of(each, where)
        one = found.setdefault(key, _Try())
        for stat in _named(each.get("stats"), path):
            place = f"{where} ({key.instance}): {stat.name!r}"
            one.split = stat.context.split or one.split
            one.sub_split = stat.context.sub_split or one.sub_split
            if stat.name == "predicted_index" and stat.count == 1:
                one.predicted = int(finite(stat.mean, place))
            if not _is_metric(stat.name, named):
                continue
            empty += stat.count == 0
            value = _value(stat, place)
            if one.values.setdefault(stat.name, value) != value:
                raise ArtifactError(f"{place} occurs twice with different values")
    if empty:
        notes.append(f"{empty} values in {_EACH} have count 0: skipped and excluded from all means")
    return found


def _value(stat: NamedStat, place: str) -> Value:
    if stat.count == 0:
        return Grade.skipped("HELM reports no value (count 0)")
    return finite(stat.mean, f"{place}: 'mean'")


def _samples(
    folder: Path,
    tries: dict[Key, _Try],
    states: Mapping[Key, Sequence[Mapping[str, Any]]],
    wanted: Wanted,
    notes: list[str],
) -> dict[Key, LoggedSample]:
    """Return a sample for each instance and trial in either file."""
    columns = list(dict.fromkeys(name for one in tries.values() for name in one.values))
    if tries and not columns:
        raise ArtifactError(
            f"{folder / _EACH}: contains only bookkeeping (tokens, times, counts) and no metrics"
        )
    lost = [key for key in states if key not in tries]
    if lost and tries:
        notes.append(f"{len(lost)} of {len(states)} requests have no entry in {_EACH}: skipped")
        tries.update({key: _Try() for key in lost})
    made = {}
    for key, one in tries.items():
        absent = Grade.skipped("not in HELM's file of instances" if key in lost else "not measured")
        told = asked(
            states.get(key, ()), one.predicted, wanted, f"{folder / _STATE}: {key.unit_id}"
        )
        split = told.pop("split", None)
        parts = {"split": one.split or split or NO_SPLIT}
        if one.sub_split:
            parts["sub_split"] = one.sub_split
        if key.perturbation is not None:
            parts["perturbation"] = key.perturbation.name
        made[key] = LoggedSample(
            unit_id=key.unit_id,
            attempt=key.trial + 1,
            values={name: one.values.get(name, absent) for name in columns},
            parts={**parts, **told.pop("parts", {})},
            **told,
        )
    tell_requests(states, notes)
    return made


def _tell(samples: Sequence[LoggedSample]) -> list[str]:
    """Return notes on the run, such as the number of failed requests."""
    failed = sum(sample.error is not None for sample in samples)
    return [f"{failed} requests failed; HELM scored their empty answers"] if failed else []


def _binary(columns: Sequence[str], samples: Sequence[LoggedSample]) -> frozenset[str]:
    """Return the binary columns; ties between choices can make values fractional."""
    found = set()
    for name in columns:
        values = [sample.values[name] for sample in samples]
        known = {value for value in values if isinstance(value, float)}
        if any(part in name for part in _RIGHT_OR_WRONG) and known <= {0.0, 1.0}:
            found.add(name)
    return frozenset(found)
