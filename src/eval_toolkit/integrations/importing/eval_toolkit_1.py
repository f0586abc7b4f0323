"""Import of eval-toolkit 1 run folders: ``results.json`` and ``manifest.json``.

Each scorer on each slice becomes a log. If the manifest or the results refer to stored predictions
with row ids, the metrics are recomputed from the predictions and compared with the reported
numbers. Otherwise, the numbers and intervals are imported as reported. A summary over folds becomes
a separate log. All other results (claims, paired differences, folds) are stored with the settings.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from eval_toolkit.artifacts import PredictionArrays, PredictionArtifactRef, load_predictions
from eval_toolkit.artifacts.remote import is_remote, local_path
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders.base import Grade
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, BootstrapCI
from eval_toolkit.integrations.importing.logs import Log, LoggedSample, Stated
from eval_toolkit.integrations.importing.options import Wanted
from eval_toolkit.integrations.importing.plain_files import (
    as_mapping,
    head_of,
    list_or_empty,
    load_json,
    number_or_none,
    settings_of,
)

NAME = "eval-toolkit"
_RESULTS = ("results.json", "results_full.json")
_MANIFEST = "manifest.json"
_NAMES = {"brier_score": "brier", "brier_score_calibrated": "brier_calibrated"}
"""Metrics that were renamed."""
_NO_METRICS = frozenset({"n", "n_positive", "single_class_label", "threshold"})
_KEPT = (
    *("config", "git_sha", "by_slice", "by_fold", "fold_summary", "claim_report"),
    *("evidence_axes", "pairing_metadata", "aggregate_evidence", "threshold_policy"),
)
_OF_MANIFEST = (
    *("seeds", "metadata", "data_revisions", "source_roles", "guardrails", "contamination_flags"),
    *("leakage_report", "versioned_objects", "config_hash", "data_hashes"),
)


def recognises(path: Path) -> bool:
    """Return whether the path is an eval-toolkit 1 run folder or its results file."""
    folder = path if path.is_dir() else path.parent
    if not path.is_dir() and path.name not in _RESULTS:
        return False
    if (folder / "records.parquet").exists() or b'"status"' in head_of(folder / _MANIFEST):
        return False
    head = b"".join(head_of(folder / name) for name in _RESULTS)
    return all(mark in head for mark in (b'"schema_version"', b'"run_id"', b'"by_slice"'))


def read(path: Path, wanted: Wanted) -> list[Log]:
    """Read a log for each scorer on each slice.

    Logs have the kind "rows" if predictions are stored (their hash is verified); otherwise they
    contain only reported numbers. ``wanted`` is ignored, because the manifest describes the
    columns.

    Examples
    --------
    >>> import json, tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> block = {"n": 80, "pr_auc": 0.7, "pr_auc_ci": {"point": 0.7, "low": 0.6, "high": 0.8,
    ...     "confidence": 0.95, "n_resamples": 200, "method": "BCa"}}
    >>> results = {"schema_version": "v1", "run_id": "r", "config": {},
    ...     "by_slice": {"test": {"n": 80, "by_scorer": {"model": block}}}}
    >>> _ = (folder / "results.json").write_text(json.dumps(results))
    >>> log = read(folder, Wanted())[0]
    >>> log.task, log.model, log.stated[0].value, log.stated[0].interval.high
    ('test', 'model', 0.7, 0.8)
    """
    folder = path if path.is_dir() else path.parent
    source = next(place for name in _RESULTS if (place := folder / name).is_file())
    results = as_mapping(load_json(source), str(source))
    manifest: Mapping[str, Any] = {}
    if (folder / _MANIFEST).is_file():
        manifest = as_mapping(load_json(folder / _MANIFEST), str(folder / _MANIFEST))
    predictions, files, notes = _predictions(folder, manifest, results)
    versions = manifest.get("code_versions")
    version = versions.get("eval_toolkit", "") if isinstance(versions, Mapping) else ""
    common: dict[str, Any] = {
        "tool": NAME,
        "tool_version": str(version),
        "run": str(results.get("run_id") or folder.name),
        "created": str(manifest.get("captured_at") or ""),
        "settings": settings_of(_brief(results), _KEPT) | settings_of(manifest, _OF_MANIFEST),
    }
    logs = []
    for task, model, block in _blocks(results, source):
        rows = [of for one in predictions if (of := _of_pair(one, results, task, model))]
        stated, absent = _stated(block)
        logs.append(
            Log(
                task=task,
                model=model,
                kind="rows" if rows else "task",
                samples=[sample for one in rows for sample in _samples(one)],
                stated=stated,
                absent=absent,
                n_planned=None if rows else _count(block.get("n")),
                files=[*(files if rows else ()), str(source)],
                notes=notes,
                **common,
            )
        )
    return logs + [
        Log(task=task, model=model, stated=stated, files=[str(source)], notes=notes, **common)
        for task, model, stated in _folded(results, source)
    ]


def _blocks(
    results: Mapping[str, Any], source: Path
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield slice, scorer and results block."""
    for task, of_slice in as_mapping(results.get("by_slice"), f"{source}: by_slice").items():
        where = f"{source}: by_slice: {task}"
        inner = as_mapping(of_slice, where).get("by_scorer", {})
        for model, block in as_mapping(inner, f"{where}: by_scorer").items():
            yield task, model, as_mapping(block, f"{where}: by_scorer: {model}")


def _stated(block: Mapping[str, Any]) -> tuple[list[Stated], dict[str, Grade]]:
    """Return the metrics of a block, and those reported as missing."""
    whole = next(
        (Grade(None, state, str(block[key])) for key, state in _WHOLE if key in block), None
    )
    if whole is not None:
        return [], dict.fromkeys(("pr_auc", "roc_auc"), whole)
    stated, absent = [], {}
    points = block.get("operating_points")
    flat = {name: value for name, value in block.items() if not isinstance(value, bool)}
    for criterion, of_point in points.items() if isinstance(points, Mapping) else ():
        if isinstance(of_point, Mapping):
            rates = {key: value for key, value in of_point.items() if isinstance(value, float)}
            flat |= {f"{criterion}.{key}": value for key, value in rates.items()}
    note = str(block.get("metric_note") or "the run reports no value")
    for name, value in flat.items():
        number, column = number_or_none(value), _NAMES.get(name, name)
        if name.rpartition(".")[2] in _NO_METRICS:
            continue
        if number is not None:
            stated.append(_number(column, number, block.get(f"{name}_ci")))
        elif value is None:
            absent[column] = Grade.skipped(note)
        elif (
            isinstance(value, Mapping)
            and value.get("status") == "skipped"
            and not name.endswith("_ci")  # a missing interval, not a metric
        ):
            absent[column] = Grade.skipped(str(value.get("reason", "")))
    return stated, absent


_WHOLE: Sequence[tuple[str, Any]] = (("skipped", "skipped"), ("error", "error"))


def _number(column: str, value: float, ci: Any) -> Stated:
    """Return a reported number, with its interval if it is valid."""
    interval = None
    if isinstance(ci, Mapping):
        low, high = number_or_none(ci.get("low")), number_or_none(ci.get("high"))
        if low is not None and high is not None:
            interval = BootstrapCI(
                value,
                low,
                high,
                number_or_none(ci.get("confidence")) or DEFAULT_CONFIDENCE,
                _count(ci.get("n_resamples")) or 0,
                str(ci.get("method") or ""),
            )
    return Stated(
        column=column, name=column, value=value, aggregation=NAME, itself=True, interval=interval
    )


def _folded(results: Mapping[str, Any], source: Path) -> Iterator[tuple[str, str, list[Stated]]]:
    """Yield slice, scorer and the means over folds."""
    summary = as_mapping(results.get("fold_summary") or {}, f"{source}: fold_summary")
    for task, of_slice in summary.items():
        for model, metrics in as_mapping(of_slice, f"{source}: fold_summary: {task}").items():
            stated = []
            for name, cell in as_mapping(metrics, f"{source}: fold_summary: {model}").items():
                mean = number_or_none(cell.get("mean")) if isinstance(cell, Mapping) else None
                if mean is not None:
                    ends = {"low": cell.get("ci_low"), "high": cell.get("ci_high")}
                    how = f"normal, over {cell.get('n_folds')} folds"
                    stated.append(_number(name, mean, {**ends, "method": how}))
            if stated:
                yield task, model, stated


def _predictions(
    folder: Path, manifest: Mapping[str, Any], results: Mapping[str, Any]
) -> tuple[list[PredictionArrays], list[str], tuple[str, ...]]:
    """Return the stored predictions that have row ids, their files, and notes on all others."""
    given = list_or_empty(manifest.get("prediction_artifacts"))
    found, files, notes = [], [], []
    for one in given or list_or_empty(results.get("prediction_artifacts")):
        ref = PredictionArtifactRef.from_dict(as_mapping(one, f"{folder}: prediction_artifacts"))
        place = None if is_remote(ref.uri) else local_path(ref.uri, folder)
        if place is None or not place.is_file():
            notes.append(f"{ref.uri}: the predictions file is missing; the numbers are as reported")
        elif ref.columns.row_id is None:
            notes.append(
                f"{ref.uri}: no column of row ids is specified; the numbers are as reported"
            )
        else:
            found.append(load_predictions(ref, base=folder))
            files.append(str(place))
    return found, files, tuple(notes)


def _of_pair(
    arrays: PredictionArrays, results: Mapping[str, Any], task: str, model: str
) -> PredictionArrays | None:
    """Return the rows of a scorer on a slice; None if they cannot be identified."""
    by_slice = results["by_slice"]
    if not arrays.slices and len(by_slice) > 1:
        return None
    if not arrays.scorers and len(by_slice[task]["by_scorer"]) > 1:
        return None
    try:
        return arrays.where(
            scorer=model if arrays.scorers else None, slice=task if arrays.slices else None
        )
    except InvalidInputError:
        return None


def _samples(arrays: PredictionArrays) -> Iterator[LoggedSample]:
    groups = arrays.groups or (None,) * len(arrays)
    rows = zip(arrays.row_ids, arrays.labels, arrays.scores, groups, strict=True)
    for unit, label, score, group in rows:
        values = {"label": float(label), "score": float(score)}
        yield LoggedSample(unit_id=unit, values=values, target=int(label), group=group)


def _brief(value: Any) -> Any:
    """Return results without rows and tracebacks; the latter contain local paths."""
    if isinstance(value, list):
        return [_brief(one) for one in value]
    if not isinstance(value, Mapping):
        return value
    return {name: _brief(one) for name, one in value.items() if name not in ("scores", "traceback")}


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
