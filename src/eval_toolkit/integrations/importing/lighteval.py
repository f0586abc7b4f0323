"""Import of lighteval's ``results_*.json`` and Parquet details.

The details contain the samples: ``doc``, ``metric`` and ``model_response`` (``__doc__`` and so on
up to 0.12, flat columns in older versions). Details are located relative to the results file, as
written by lighteval; without details, the numbers are as reported.

For metrics that are means, lighteval reports the standard error sample sd / sqrt(n). For all
others, it divides the standard deviation of bootstrap draws by the square root of their number,
which is too small by a factor of about 32 at the usual 1 000 draws. For ``…:_average`` and ``all``
it reports the mean of the tasks' standard errors. Neither is a valid standard error of the number,
so both are omitted with a note.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eval_toolkit.errors import ArtifactError, EvalToolkitError
from eval_toolkit.integrations.importing.lighteval_details import read_details
from eval_toolkit.integrations.importing.logs import Log, LoggedSample, Stated
from eval_toolkit.integrations.importing.options import Wanted
from eval_toolkit.integrations.importing.plain_files import (
    as_mapping,
    even_attempts,
    head_of,
    list_or_empty,
    load_json,
    number_or_none,
    ok_values,
    settings_of,
    shown,
    text_or_none,
)

NAME = "lighteval"
_STDERR = "_stderr"
_OF_TASKS = "the mean of the tasks' means"
_SETTINGS = (
    *("num_fewshot_seeds", "max_samples", "model_sha", "model_dtype", "model_size"),
    *("generation_parameters", "model_config"),
)
_LAYOUTS = (
    frozenset({"doc", "metric"}),
    frozenset({"__doc__", "__metric__"}),
    frozenset({"example", "metrics", "full_prompt"}),
)


def recognises(path: Path) -> bool:
    """Return whether the path is a results file, a details file, or a folder with both."""
    try:
        if path.is_dir():
            return _is_output(path)
        if path.suffix.lower() == ".json":
            return path.name.startswith("results") and b'"config_general"' in head_of(path)
        return path.suffix.lower() == ".parquet" and _is_details(path)
    except OSError:
        return False


def _is_output(folder: Path) -> bool:
    """Return whether a folder contains ``results`` and ``details`` of lighteval."""
    if not (folder / "details").is_dir() or not (folder / "results").is_dir():
        return False
    return any(recognises(file) for file in (folder / "results").rglob("results_*.json"))


def _is_details(path: Path) -> bool:
    from eval_toolkit._internal.tables import column_names

    if head_of(path, 4) != b"PAR1":
        return False
    try:
        names = set(column_names(path))
    except EvalToolkitError:
        return False
    return any(layout <= names for layout in _LAYOUTS)


def read(path: Path, wanted: Wanted) -> list[Log]:
    """Read a log for each task of a results file, a details file, or an output folder.

    Fields are looked up in the doc and its ``specific`` entry. Averages over tasks come last and
    have no samples.

    Examples
    --------
    >>> import json, tempfile
    >>> path = Path(tempfile.mkdtemp()) / "results_2025-01-01T00-00-00.json"
    >>> told = {"config_general": {"model_name": "org/m"},
    ...         "results": {"arc|0": {"acc": 0.5, "acc_stderr": 0.1}, "all": {"acc": 0.5}}}
    >>> _ = path.write_text(json.dumps(told))
    >>> [(log.task, log.stated[0].value, log.stated[0].stderr) for log in read(path, Wanted())]
    [('arc|0', 0.5, 0.1), ('all', 0.5, None)]
    """
    if path.is_dir():
        files = sorted((path / "results").rglob("results_*.json"))
        return [log for file in files if recognises(file) for log in read(file, wanted)]
    if path.suffix.lower() == ".parquet":
        return [_details_alone(path, wanted)]
    told = as_mapping(load_json(path), str(path))
    general = as_mapping(told.get("config_general"), f"{path}: 'config_general'")
    results = as_mapping(told.get("results"), f"{path}: 'results'")
    if not results:
        raise ArtifactError(f"{path}: 'results' is empty; nothing to import")
    details = _details_of(path)
    logs = [_log(path, told, general, task, details.pop(task, None), wanted) for task in results]
    if details and logs:
        lost = f"details without results: {', '.join(sorted(details))}"
        first = logs[0]
        logs[0] = _with_notes(first, [lost])
    return logs


def _with_notes(log: Log, notes: Sequence[str]) -> Log:
    from dataclasses import replace

    return replace(log, notes=(*log.notes, *notes))


def _model_of(general: Mapping[str, Any], path: Path) -> str:
    config = general.get("model_config")
    inner = config.get("model_name") if isinstance(config, Mapping) else None
    name = text_or_none(general.get("model_name")) or text_or_none(inner)
    if not name:
        raise ArtifactError(f"{path}: 'config_general' does not name a model")
    return name


def _time_of(path: Path) -> str:
    """Return the timestamp in a file name: the text after the last "_"."""
    return path.stem.rpartition("_")[2]


def _details_of(path: Path) -> dict[str, Path]:
    """Return the details of a results file by task, from lighteval's folders or the same folder."""
    time = _time_of(path)
    places = [path.parent, path.parent / time]
    parts = path.parent.parts
    for at in range(len(parts) - 1, -1, -1):
        if parts[at] == "results":
            places.append(Path(*parts[:at], "details", *parts[at + 1 :], time))
            break
    found: dict[str, Path] = {}
    for place in places:
        for file in sorted(place.glob(f"details_*_{time}.parquet")) if place.is_dir() else ():
            found.setdefault(_task_of(file), file)
    return found


def _task_of(path: Path) -> str:
    return path.stem.removeprefix("details_").rpartition("_")[0] or path.stem


def _details_alone(path: Path, wanted: Wanted) -> Log:
    samples, notes = read_details(path, wanted)
    if not samples:
        raise ArtifactError(f"{path}: the details have no rows (0 samples)")
    # details/<model>/<time>/details_<task>_<time>.parquet
    above = path.parent.parts
    at = max((n for n, part in enumerate(above) if part == "details"), default=-1)
    inside = above[at + 1 : -1] if at >= 0 else ()
    notes.append(
        "only details: lighteval's own numbers are in the results file, which was not read"
    )
    return Log(
        tool=NAME,
        task=_task_of(path),
        model="/".join(inside) or "unknown",
        samples=samples,
        files=[str(path)],
        created=_iso(_time_of(path)),
        binary=_binary(samples),
        notes=tuple(notes),
    )


def _log(
    path: Path,
    told: Mapping[str, Any],
    general: Mapping[str, Any],
    task: str,
    details: Path | None,
    wanted: Wanted,
) -> Log:
    where = f"{path}: results of {task!r}"
    metrics = as_mapping(as_mapping(told["results"], str(path))[task], where)
    config = _config_of(told, task)
    samples, notes = ([], []) if details is None else read_details(details, wanted)
    if details is not None and not samples:
        raise ArtifactError(f"{details}: the details have no rows (0 samples)")
    planned = config.get("effective_num_docs")
    planned = planned if isinstance(planned, int) and planned > 0 else None
    if samples and planned and len(samples) < planned:
        notes.append(f"the details contain {len(samples)} of {planned} documents")
    stated, more = _stated(metrics, samples, _ways(config), task, planned)
    if not stated and not samples:
        more.append(f"no numbers are reported for {task}")
    return Log(
        tool=NAME,
        task=task,
        model=_model_of(general, path),
        samples=samples,
        stated=stated,
        tool_version=text_or_none(general.get("lighteval_sha")) or "",
        files=[str(path), *([str(details)] if details is not None else [])],
        created=_iso(_time_of(path)),
        settings=settings_of(general, _SETTINGS) | settings_of(config, ("num_fewshots", "version")),
        higher_is_better={
            name: up
            for name, up in _metric_field(config, "higher_is_better").items()
            if isinstance(up, bool)
        },
        binary=_binary(samples),
        n_planned=planned if samples else None,
        notes=(*notes, *more),
    )


def _iso(time: str) -> str:
    """Return the timestamp of a file name in ISO 8601; file names use dashes for colons."""
    date, _, clock = time.partition("T")
    whole = f"{date}T{clock.replace('-', ':', 2)}"
    return whole if len(date) == 10 and clock[:2].isdigit() else ""


def _config_of(told: Mapping[str, Any], task: str) -> Mapping[str, Any]:
    """Return the configuration of a task, whose key may omit the number of shots."""
    tasks = told.get("config_tasks")
    if not isinstance(tasks, Mapping):
        return {}
    config = tasks.get(task, tasks.get(task.rpartition("|")[0]))
    return config if isinstance(config, Mapping) else {}


def _metric_field(config: Mapping[str, Any], field: str) -> dict[str, Any]:
    """Return a field of each metric by name; metric groups have one entry per metric."""
    found: dict[str, Any] = {}
    for one in list_or_empty(config.get("metrics") or config.get("metric")):
        if not isinstance(one, Mapping):
            continue
        names, told = one.get("metric_name"), one.get(field)
        for name in names if isinstance(names, list) else [names]:
            if isinstance(name, str):
                found[name] = told.get(name) if isinstance(told, Mapping) else told
    return found


def _ways(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the aggregation of each metric, as stated in the file."""
    told = _metric_field(config, "corpus_level_fn")
    return {name: way for name, way in told.items() if isinstance(way, str) and way}


def _stated(
    metrics: Mapping[str, Any],
    samples: Sequence[LoggedSample],
    ways: Mapping[str, str],
    task: str,
    planned: int | None,
) -> tuple[list[Stated], list[str]]:
    """Return the reported numbers of a task; invalid standard errors are omitted with a note."""
    average = task == "all" or ":_average" in task
    found, notes = [], []
    for name, told in metrics.items():
        if name.endswith(_STDERR) and name.removesuffix(_STDERR) in metrics:
            continue
        value = number_or_none(told)
        if value is None:
            notes.append(f"{task}: {name} is {shown(told)}, which is not a finite number; omitted")
            continue
        way = _OF_TASKS if average else _way(name, ways, samples)
        stderr, how, note = _stderr(name, metrics.get(f"{name}{_STDERR}"), way, average)
        notes += [f"{task}: {note}"] if note else []
        n = len(ok_values(samples, name)) or (None if average else planned)
        found.append(
            Stated(
                column=name,
                name=name,
                value=value,
                stderr=stderr,
                n=n,
                aggregation=way,
                itself=way != "mean" and not ok_values(samples, name),
                stderr_name=how,
            )
        )
    return found, notes


def _way(name: str, ways: Mapping[str, str], samples: Sequence[LoggedSample]) -> str:
    """Return "mean" for a mean of samples, otherwise lighteval's name of the aggregation."""
    way = ways.get(name, "mean")
    way = "mean" if way == "nanmean" else way  # both exclude missing values
    if way == "mean" and samples and not ok_values(samples, name):
        return "lighteval's, over the whole corpus"
    if way == "mean" and not even_attempts(samples, name):
        return "the mean over rows, whose number varies by item"
    return way


def _stderr(name: str, told: Any, way: str, average: bool) -> tuple[float | None, str, str]:
    """Return a valid standard error, its method, and a note if it is invalid."""
    if told is None:
        return None, "", ""
    value = number_or_none(told)
    if value is None:
        return (
            None,
            "",
            f"the standard error of {name} is {shown(told)}, which is not a finite number; omitted",
        )
    said = f"the standard error of {name}, {value:g}, is"
    if average:
        why = "the mean of the tasks' standard errors, not that of their mean; omitted"
        return None, "mean of the tasks' standard errors", f"{said} {why}"
    if "mean" in way:
        return value, "sample sd / sqrt(n)", ""
    why = (
        "the spread of bootstrap draws divided by the square root of their number, too small by a "
        "factor of 31.6 at the usual 1 000 draws; omitted"
    )
    return None, "bootstrap sd / sqrt(draws)", f"{said} {why}"


def _binary(samples: Sequence[LoggedSample]) -> frozenset[str]:
    """Return the columns that are binary by name and values."""
    called = ("acc", "em", "exact_match", "extractive_match", "qem", "pem", "pqem")
    found = set()
    for name in samples[0].values if samples else ():
        known = set(ok_values(samples, name))
        named = name in called or name.partition("_")[0].partition("@")[0] in called
        if named and known and known <= {0.0, 1.0}:
            found.add(name)
    return frozenset(found)
