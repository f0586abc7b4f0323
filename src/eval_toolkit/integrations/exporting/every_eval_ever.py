"""Export to the Every Eval Ever format: results as JSON, samples as JSONL."""

import hashlib
import math
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from eval_toolkit._internal.hashing import canonical_json
from eval_toolkit._internal.redaction import redact_secrets
from eval_toolkit.artifacts import json_bytes
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.integrations.exporting.answers import Answers, UnitMetric, answers_of
from eval_toolkit.integrations.exporting.cells import (
    all_blocks,
    as_mapping,
    begun_at,
    captured_at,
    config_of,
    origin_of,
    unrepresented_data,
)
from eval_toolkit.integrations.exporting.every_eval_ever_samples import sample_rows
from eval_toolkit.integrations.exporting.names import file_names
from eval_toolkit.metrics import CATALOGUE
from eval_toolkit.report.cells import Block, Cell
from eval_toolkit.runs import Run

SCHEMA = "0.2.2"


def every_eval_ever_files(run: Run, *, samples: bool = True) -> dict[str, bytes]:
    """Return a run in the format of ``eval.schema.json`` 0.2.2, one file per model, with samples.

    The format requires a number for each result and a score for each sample. Cells and samples
    without one are omitted: ``source_metadata`` lists the omitted cells with their reasons, and
    ``detailed_evaluation_results`` the number of omitted samples.

    File names are derived from the run and are therefore reproducible.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import write_run
    >>> part = {"n": 3, "by_scorer": {"org/m": {"acc": 0.75}}}
    >>> run = write_run(
    ...     tempfile.mkdtemp() + "/r1", manifest={"run_id": "r1"}, results={
    ...     "schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {"arc": part}},
    ... )
    >>> import json
    >>> (content,) = every_eval_ever_files(run).values()
    >>> json.loads(content)["model_info"]
    {'name': 'org/m', 'id': 'org/m', 'developer': 'org'}
    """
    by_model: dict[str, list[Block]] = {}
    for block in all_blocks(run):
        by_model.setdefault(block.scorer, []).append(block)
    named = {model: blocks for model, blocks in by_model.items() if any(map(_ok, blocks))}
    if not named:
        raise InvalidInputError(f"{run.path}: the run has no metric values to export")
    files: dict[str, bytes] = {}
    for model, blocks in named.items():
        name = _name(run, model)
        found = answers_of(run, blocks)
        head = _identity(run, model, blocks)
        lines = b""
        if samples:
            told = [row for one in found for row in sample_rows(one, head, _result_id)]
            lines = b"".join(json_bytes(row, indent=None) for row in told)
        payload = _payload(run, model, blocks, found, head)
        if lines:
            payload["detailed_evaluation_results"] = _about(f"{name}_samples.jsonl", lines, found)
            files[f"{name}_samples.jsonl"] = lines
        files[f"{name}.json"] = json_bytes(payload)
    return files


def _ok(block: Block) -> bool:
    return any(cell.has_value for cell in block.cells.values())


def _name(run: Run, model: str) -> str:
    """Return a UUID derived from the run, used as the file name in this format."""
    known = canonical_json([run.manifest.get("manifest_sha256"), run.run_id, model])
    return str(
        uuid.UUID(
            bytes=hashlib.sha256(known.encode("utf-8", "surrogatepass")).digest()[:16], version=4
        )
    )


def _identity(run: Run, model: str, blocks: Sequence[Block]) -> dict[str, str]:
    stamp = repr((begun_at(run) or captured_at(run)).timestamp())
    name = _task_name(run, blocks)
    return {
        "evaluation_id": f"{file_names([name])[name]}/{model}/{stamp}",
        "model_id": model,
    }


def _task_name(run: Run, blocks: Sequence[Block]) -> str:
    told = as_mapping(config_of(run).get("task")).get("name")
    slices = {block.slice for block in blocks}
    return str(told or (slices.pop() if len(slices) == 1 else run.run_id))


def _result_id(block: Block, metric: str) -> str:
    return f"{block.name}/{metric}"


def _payload(
    run: Run, model: str, blocks: Sequence[Block], found: Sequence[Answers], head: Mapping[str, str]
) -> dict[str, Any]:
    about = unrepresented_data(run)
    metrics = {
        (one.block.name, metric.cell.name): metric for one in found for metric in one.metrics
    }
    absent = {
        f"without a value: {_result_id(block, cell.name)}": f"{cell.status}: {cell.reason}"
        for block in blocks
        for cell in block.cells.values()
        if not cell.has_value
    }
    absent |= {
        f"without a value: {block.name}": block.error or block.skipped
        for block in blocks
        if not block.cells
    }
    origin = {"run_id": run.run_id, "manifest_sha256": str(about["manifest_sha256"] or "")}
    begun, made_by = begun_at(run), origin_of(run)
    library = {"name": "eval-toolkit", "version": about["version"] or "unknown"}
    if made_by is not None:
        origin["intervals and file created by"] = " ".join(library.values())
        library = {"name": made_by.tool, "version": made_by.version or "unknown"}
    return {
        "schema_version": SCHEMA,
        "evaluation_id": head["evaluation_id"],
        **({} if begun is None else {"evaluation_timestamp": begun.isoformat()}),
        "retrieved_timestamp": repr(captured_at(run).timestamp()),
        "source_metadata": {
            "source_name": "eval-toolkit",
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "other",
            "additional_details": {**origin, **absent},
        },
        "eval_library": library,
        "model_info": _model(run, model),
        "evaluation_results": [
            _result(run, block, cell, metrics.get((block.name, cell.name)))
            for block in blocks
            for cell in block.cells.values()
            if cell.has_value
        ],
    }


def _model(run: Run, model: str) -> dict[str, Any]:
    described = as_mapping(as_mapping(config_of(run).get("model")).get("description"))
    details = {
        str(name): value if isinstance(value, str) else canonical_json(value)
        for name, value in described.items()
        if value is not None
    }
    return {
        "name": model,
        "id": model,
        **({"developer": model.partition("/")[0]} if model.count("/") == 1 else {}),
        **({"additional_details": details} if details else {}),
    }


def _result(run: Run, block: Block, cell: Cell, metric: UnitMetric | None) -> dict[str, Any]:
    return {
        "evaluation_result_id": _result_id(block, cell.name),
        "evaluation_name": block.name,
        "source_data": _source(run, block),
        "metric_config": _metric(cell, metric),
        "score_details": {
            "score": cell.value,
            "details": dict(_details(cell)),
            "uncertainty": _uncertainty(cell),
        },
        **_generation(run),
    }


def _source(run: Run, block: Block) -> dict[str, Any]:
    known = as_mapping(as_mapping(config_of(run).get("task")).get("dataset"))
    told_hashes = as_mapping(run.manifest.get("data_hashes"))
    hashes = {f"hash: {name}": str(value) for name, value in told_hashes.items()}
    if known.get("sha256"):
        hashes["sha256"] = str(known["sha256"])
    told: dict[str, Any] = {"dataset_name": str(known.get("path") or block.slice)}
    told["source_type"] = "other"
    if known.get("revision"):
        told["source_version"] = str(known["revision"])
    if hashes:
        told["additional_details"] = hashes
    return told


def _bounds(cell: Cell, metric: UnitMetric | None) -> tuple[float, float] | None:
    """Return the minimum and maximum possible values of a metric; None if unknown."""
    if metric is not None:
        low, high = metric.spec.bounds
        if math.isfinite(low) and math.isfinite(high):
            return low, high
        seen = metric.values[metric.measured]
        # binary rates are not marked as such; recognise them by values of only 0 and 1
        return (0.0, 1.0) if len(seen) and set(seen.tolist()) <= {0.0, 1.0} else None
    known = CATALOGUE.get(cell.name)
    if known is None or not all(map(math.isfinite, known.bounds)):
        return None
    return known.bounds


def _metric(cell: Cell, metric: UnitMetric | None) -> dict[str, Any]:
    told: dict[str, Any] = {
        "metric_id": cell.name,
        "metric_name": cell.name,
        "lower_is_better": cell.higher_is_better is False,
    }
    bounds = _bounds(cell, metric)
    if bounds is not None:
        told |= {"score_type": "continuous", "min_score": bounds[0], "max_score": bounds[1]}
    if cell.higher_is_better is None:
        told["additional_details"] = {"lower_is_better": "unknown, or neither is better"}
    return told


def _details(cell: Cell) -> Iterator[tuple[str, str]]:
    for name in ("n_groups", "n_errors", "n_skipped"):
        value = getattr(cell, name)
        if value is not None:
            yield name, str(value)
    if cell.reason:
        yield "reason", cell.reason


def _uncertainty(cell: Cell) -> dict[str, Any]:
    told: dict[str, Any] = {}
    error = cell.details.get("standard_error")
    if isinstance(error, int | float) and math.isfinite(error):
        told["standard_error"] = {"value": float(error)}
    if cell.low is not None and cell.high is not None:
        interval: dict[str, Any] = {
            "lower": cell.low,
            "upper": cell.high,
            "confidence_level": cell.confidence,
        }
        interval["method"] = cell.method or None
        told["confidence_interval"] = {k: v for k, v in interval.items() if v is not None}
    if cell.n_units is not None:
        told["num_samples"] = cell.n_units
    return told


def _generation(run: Run) -> dict[str, Any]:
    config, origin = config_of(run), origin_of(run)
    decoding = config.get("decoding") or as_mapping(config.get("system")).get("decoding")
    decoding = origin.decoding if origin is not None else as_mapping(decoding)
    if not decoding:
        return {}
    numbers = ("temperature", "top_p", "top_k", "max_tokens")
    args = {name: decoding[name] for name in numbers if decoding.get(name) is not None}
    if run.manifest.get("command") and origin is None:
        args["execution_command"] = str(redact_secrets(run.manifest["command"]))
    more = {
        str(name): value if isinstance(value, str) else canonical_json(value)
        for name, value in decoding.items()
        if name not in numbers and value not in (None, [], "")
    }
    told = {"generation_args": args, **({"additional_details": more} if more else {})}
    return {"generation_config": told}


def _about(name: str, lines: bytes, found: Sequence[Answers]) -> dict[str, Any]:
    n = lines.count(b"\n")
    scored = sum(int(metric.known.sum()) for one in found for metric in one.mean_metrics)
    all_rows = sum(len(one.records) * len(one.mean_metrics) for one in found)
    silent = (
        {"rows left out because the conversation is empty": str(scored - n)} if scored > n else {}
    )
    return {
        "format": "jsonl",
        "file_path": name,
        "hash_algorithm": "sha256",
        "checksum": hashlib.sha256(lines).hexdigest(),
        "total_rows": n,
        "additional_details": {
            "rows left out because they have no score": str(all_rows - scored),
            **silent,
        },
    }
